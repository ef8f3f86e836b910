//! What of a recording is missing.

use std::time::Duration;

use gtop_local::time::{Timestamp, format_duration, local_text};

/// Gaps whose times are in the text.
const MAX_SHOWN: usize = 3;

/// The lines that a walk over recordings could not read, and those that their recorder has lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostLines {
    /// The times before and after them, in rising order; they are the same where it is not known for how long.
    pub gaps: Vec<(Timestamp, Timestamp)>,
}

impl LostLines {
    /// Adds what another walk could not read; what both passed counts once.
    pub fn merge(&mut self, other: Self) {
        self.gaps.extend(other.gaps);
        self.gaps.sort_unstable();
        self.gaps.dedup();
    }

    /// Returns the time for which lines are missing at most, where that is known.
    pub fn duration(&self) -> Duration {
        self.gaps.iter().map(|(from, to)| to.since(*from)).sum()
    }

    /// Returns it as a sentence; `None` if nothing is lost.
    pub fn text(&self) -> Option<String> {
        if self.gaps.is_empty() {
            return None;
        }
        let missing = [
            (!self.duration().is_zero())
                .then(|| format!("up to {}", format_duration(self.duration()))),
            self.gaps.iter().any(|(from, to)| from == to).then(|| "an unknown time".to_owned()),
        ];
        let missing: Vec<String> = missing.into_iter().flatten().collect();
        let mut places: Vec<String> = self.gaps.iter().take(MAX_SHOWN).map(gap_text).collect();
        if let Some(more @ 1..) = self.gaps.len().checked_sub(MAX_SHOWN) {
            places.push(format!("{more} more"));
        }
        Some(format!(
            "lines of {} are missing ({}): what changed then is unknown until it is sent again",
            missing.join(" and "),
            places.join(", "),
        ))
    }
}

fn gap_text((from, to): &(Timestamp, Timestamp)) -> String {
    if from == to {
        return format!("after {}", local_text(*from));
    }
    format!("{} to {}", local_text(*from), local_text(*to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_count_once_and_are_told_with_their_times() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let lost = |gaps: &[(i64, i64)]| LostLines {
            gaps: gaps.iter().map(|(from, to)| (at(*from), at(*to))).collect(),
        };
        let mut all = LostLines::default();
        assert_eq!(all.text(), None);
        all.merge(lost(&[(10, 12)]));
        let text = all.text().unwrap();
        let times = format!("({} to {})", local_text(at(10)), local_text(at(12)));
        assert!(text.starts_with(&format!("lines of up to 2s are missing {times}: ")), "{text}");
        all.merge(lost(&[(10, 12), (20, 23), (30, 30)]));
        assert_eq!(all, lost(&[(10, 12), (20, 23), (30, 30)]));
        let text = all.text().unwrap();
        assert!(text.starts_with("lines of up to 5s and an unknown time are missing ("), "{text}");
        assert!(text.contains(&format!(", after {})", local_text(at(30)))), "{text}");
        all.merge(lost(&[(40, 50), (60, 70)]));
        assert!(all.text().unwrap().contains(", 2 more)"));
        let text = lost(&[(30, 30)]).text().unwrap();
        assert!(text.starts_with("lines of an unknown time are missing (after "), "{text}");
    }
}
