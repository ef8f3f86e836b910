//! Filters over a span of time: of devices and of those who held them, by what stays true of them.

use crate::Holder;
use crate::Node;
use crate::query::filter::expression::Expression;
use crate::query::filter::lexer::{TokenKind, tokens};
use crate::query::filter::matching::{Counts, Evaluation, FilterRow};
use crate::query::filter::parse::parse_predicate;
use crate::query::filter::{Filter, FilterError, FilterField, Predicate};
use gtop_local::time::Timestamp;
use gtop_model::{Device, Job};

/// Fields of devices, processes and jobs that stay the same, by their aliases.
const LASTING: [&str; 4] = ["name", "user", "jobname", "jobuser"];

impl Filter {
    /// Parses a filter for a span of time; a term about a moment is an error.
    pub fn of_span(text: &str) -> Result<Self, FilterError> {
        let filter = Self::new(text)?;
        for token in tokens(text)? {
            let is_term = matches!(token.kind, TokenKind::Word | TokenKind::QuotedWord);
            if is_term && !parse_predicate(&token)?.is_lasting() {
                let words = lasting_words().join(", ");
                let message = format!(
                    "{} is true of moments, not of a span of time; use {words}, or a name in quotes",
                    token.text
                );
                return Err(FilterError { at: token.span.0, message });
            }
        }
        Ok(filter)
    }

    /// Returns true if it may matter who held a device.
    pub const fn reads_holders(&self) -> bool {
        self.reads_processes
    }

    /// Returns true if a device matches whoever holds it, false if it never does; `None` if it depends on who does. Without a
    /// device, it is asked of a node that has none.
    pub fn matches_place(&self, node: &Node, device: Option<&Device>) -> Option<bool> {
        let counts = Counts::new(node, Timestamp::default());
        let row = FilterRow { device, ..FilterRow::of(&counts) };
        let matched = self.conditions.matched.as_ref();
        matched.map_or(Some(true), |expression| self.place_matches(expression, &row))
    }

    fn place_matches(&self, expression: &Expression, row: &FilterRow<'_>) -> Option<bool> {
        match expression {
            Expression::Is(predicate) => {
                let is_match = predicate.matches(row);
                (is_match || !predicate.reads_processes()).then_some(is_match)
            }
            Expression::All(parts) => self.unless_any(false, parts, row),
            Expression::Any(parts) => self.unless_any(true, parts, row),
            Expression::Not(index) => {
                let negated = self.conditions.negated.get(*index)?;
                self.place_matches(negated, row).map(|is_match| !is_match)
            }
        }
    }

    /// Returns what decides if it is that of any part, else the opposite, if that of each part is known.
    fn unless_any(
        &self,
        deciding: bool,
        parts: &[Expression],
        row: &FilterRow<'_>,
    ) -> Option<bool> {
        let parts: Vec<_> = parts.iter().map(|part| self.place_matches(part, row)).collect();
        if parts.contains(&Some(deciding)) {
            return Some(deciding);
        }
        (!parts.contains(&None)).then_some(!deciding)
    }

    /// Returns which of those who hold a device together match, each with the job; of a device that nobody holds, whether it
    /// matches.
    pub fn match_holders(
        &self,
        (node, device): (&Node, &Device),
        holders: &[(&Holder, Option<&Job>)],
    ) -> Vec<bool> {
        let counts = Counts::new(node, Timestamp::default());
        let free = FilterRow { device: Some(device), ..FilterRow::of(&counts) };
        let mut rows: Vec<FilterRow<'_>> = holders
            .iter()
            .map(|(holder, job)| FilterRow { holder: Some(holder), job: *job, ..free.clone() })
            .collect();
        if rows.is_empty() {
            rows.push(free);
        }
        Evaluation::new(&self.conditions, rows.iter()).matches_each()
    }
}

impl Predicate {
    /// Returns true if it is about something that stays the same.
    fn is_lasting(&self) -> bool {
        match self {
            Self::Word(_) => true,
            Self::StateWord(_) => false,
            Self::Compare(field, ..) => field.is_lasting(),
        }
    }
}

impl FilterField {
    fn is_lasting(self) -> bool {
        match self {
            Self::Node | Self::Uuid | Self::Job | Self::Partition => true,
            Self::Device(_) | Self::Process(_) | Self::OfJob(_) => {
                LASTING.contains(&self.description().alias)
            }
            // That of a slice is within its device.
            Self::Index | Self::Pid | Self::NodeState | Self::MemoryShare | Self::Host(_) => false,
        }
    }
}

/// Returns the fields that may be compared.
fn lasting_words() -> Vec<&'static str> {
    let mut words: Vec<&str> = FilterField::all()
        .filter(|field| field.is_lasting())
        .map(|field| field.description().alias)
        .collect();
    // The table of jobs has names for some that are keys, too.
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::User;
    use gtop_model::{JobId, NodeName, Reading};
    use std::time::Duration;

    fn node() -> Node {
        Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO)
    }

    fn device() -> Device {
        let name = Reading::Known("NVIDIA H100 80GB HBM3".into());
        Device { uuid: "GPU-a".into(), name, ..Device::default() }
    }

    fn holder(user: &str, job: Option<&str>) -> Holder {
        Holder { user: User::Named(user.into()), job: job.and_then(JobId::new) }
    }

    #[test]
    fn a_term_about_a_moment_is_refused_by_its_name() {
        for (text, at, word) in [
            ("user=ada util>50", 9, "util>50"),
            ("idle-held", 0, "idle-held"),
            ("ada or (free job=1)", 8, "free"),
            ("!mem>50%", 1, "mem>50%"),
            ("pid=7", 0, "pid=7"),
            ("gpu=0", 0, "gpu=0"),
            ("left<1h", 0, "left<1h"),
            ("nodestate=drained", 0, "nodestate=drained"),
            ("cpu>5", 0, "cpu>5"),
        ] {
            let error = Filter::of_span(text).unwrap_err();
            let message = format!(
                "{word} is true of moments, not of a span of time; use job, jobname, jobuser, name, node, partition, user, uuid, or a name in quotes"
            );
            assert_eq!((error.at, error.message), (at, message), "{text}");
        }
        assert!(Filter::of_span("utl>50").unwrap_err().message.starts_with("no field utl"));
        assert!(Filter::of_span("'free' user=a job=1 jobname~x partition=g node=n uuid=u").is_ok());
    }

    #[test]
    fn a_place_matches_whoever_holds_it_or_by_who_does() {
        let (node, device) = (node(), device());
        for (text, expected) in [
            ("", Some(true)),
            ("node=gpu*", Some(true)),
            ("node=gpu02", Some(false)),
            ("name~h100", Some(true)),
            ("name='H100 80GB HBM3'", Some(true)),
            ("not name~h100", Some(false)),
            ("uuid=GPU-b", Some(false)),
            ("h100", Some(true)),
            ("ada", None),
            ("user=ada", None),
            ("user!=ada", None),
            ("not user=ada", None),
            ("partition=gpu", None),
            ("user=ada node=gpu02", Some(false)),
            ("user=ada node=gpu01", None),
            ("user=ada or node=gpu01", Some(true)),
            ("user=ada or node=gpu02", None),
            ("not (user=ada or node=gpu01)", Some(false)),
        ] {
            let filter = Filter::of_span(text).unwrap();
            assert_eq!(filter.matches_place(&node, Some(&device)), expected, "{text}");
        }
        let of_node = |text| Filter::of_span(text).unwrap().matches_place(&node, None);
        assert_eq!((of_node("name~h100"), of_node("gpu01")), (Some(false), Some(true)));
    }

    #[test]
    fn those_who_hold_a_device_match_one_by_one_and_not_is_about_all() {
        let (node, device) = (node(), device());
        let [ada, bob] = [holder("ada", Some("17")), holder("bob", None)];
        let job = Job {
            shown_id: "2_1".into(),
            name: "train".into(),
            user: "ada".into(),
            partition: "gpu".into(),
            ..Job::unlisted(JobId::new("17").unwrap())
        };
        for (text, [of_ada, of_bob], free) in [
            ("user=ada", [true, false], false),
            ("ada or bob", [true, true], false),
            ("jobuser=ada", [true, false], false),
            ("job=17", [true, false], false),
            ("job=2_1", [true, false], false),
            ("job=2", [true, false], false),
            ("job=1", [false, false], false),
            ("job=unknown", [false, true], false),
            ("job!=2", [false, false], false),
            ("jobname~rai partition=gpu", [true, false], false),
            ("user!=ada", [false, true], false),
            ("not user=ada", [false, false], true),
            ("not user=eve", [true, true], true),
            ("h100 user=bob", [false, true], false),
            ("user=*", [true, true], false),
        ] {
            let filter = Filter::of_span(text).unwrap();
            let both = [(&ada, Some(&job)), (&bob, None)];
            assert_eq!(filter.match_holders((&node, &device), &both), [of_ada, of_bob], "{text}");
            assert_eq!(filter.match_holders((&node, &device), &[]), [free], "{text}");
        }
        // A job that is not listed is known by its id.
        let filter = Filter::of_span("job=17").unwrap();
        assert_eq!(filter.match_holders((&node, &device), &[(&ada, None)]), [true]);
        let hidden = Holder { user: User::Hidden, job: None };
        let filter = Filter::of_span("user=unknown").unwrap();
        assert_eq!(filter.match_holders((&node, &device), &[(&hidden, None)]), [true]);
    }
}
