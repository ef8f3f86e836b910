//! Completion of the word before the caret: what can be typed there, the most useful first.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::Fleet;
use crate::metrics::{JobAt, Usage, Value, ValueKind};
use crate::model::Job;
use crate::query::filter::lexer::{last_word, quoted};
use crate::query::filter::operand::example;
use crate::query::filter::{Comparison, FilterField, StateWord};
use crate::text::is_unprintable;
use crate::time::Timestamp;

/// The maximum number of completions; the others are counted.
const MAX_COMPLETIONS: usize = 60;
/// The maximum number of nodes and jobs scanned for values.
const MAX_SCANNED: usize = 2000;
/// Longer values are not completed, in bytes.
const MAX_VALUE_LENGTH: usize = 120;
/// From this length on, a word is also looked for in descriptions.
const MIN_DESCRIBED_LENGTH: usize = 3;

/// The fields that most filters are about, with a description of a few words; the most useful first.
const USEFUL_FIELDS: [(&str, &str); 12] = [
    ("util", "utilization in %"),
    ("user", "user of a process"),
    ("job", "job id as in squeue"),
    ("node", "node name"),
    ("mem", "memory in use, also %"),
    ("power", "power draw in W"),
    ("temp", "temperature in °C"),
    ("partition", "partition of job or node"),
    ("name", "device model"),
    ("jobname", "job name"),
    ("jobuser", "user of the job"),
    ("left", "time left of the job"),
];

/// A word that can be typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What replaces the word before the caret.
    pub word: String,
    /// What it is, in a few words; empty if it says so itself.
    pub help: Cow<'static, str>,
}

/// What can be typed before the caret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// Where the word before the caret begins, in characters.
    pub start: usize,
    /// The completions, the most useful first.
    pub words: Vec<Completion>,
    /// The number of further ones.
    pub more: usize,
    /// What can be typed if it cannot be listed, such as a number.
    pub note: Option<String>,
}

/// Returns completions of the word before the caret.
///
/// `caret` counts characters. Before a comparison sign, states and field names are completed, these with a sign; after
/// it, the values of that field in the fleet.
pub fn complete(text: &str, caret: usize, fleet: &Fleet) -> Completions {
    let before_caret: String = text.chars().take(caret).collect();
    let (start, word) = last_word(&before_caret);
    let (mut words, note) = match Comparison::find(&word) {
        None => (complete_name(&word.to_lowercase()), None),
        Some((at, symbol, _)) => {
            let (name, value) = word.split_at_checked(at).unwrap_or((&word, ""));
            let value = value.strip_prefix(symbol).unwrap_or_default().to_lowercase();
            match FilterField::from_name(&name.to_lowercase()) {
                Ok(field) => {
                    let known = field_values(field, fleet);
                    let note = known.is_empty().then(|| value_note(field, name));
                    (complete_value((name, symbol), &value, known), note)
                }
                Err(_) => (Vec::new(), Some(format!("no field {name}"))),
            }
        }
    };
    let more = words.len().saturating_sub(MAX_COMPLETIONS);
    words.truncate(MAX_COMPLETIONS);
    Completions { start, words, more, note }
}

/// Returns the states and fields that begin with these letters, or else those described by such a word.
fn complete_name(start: &str) -> Vec<Completion> {
    let named = |matches: &dyn Fn(&str, &str) -> bool| -> Vec<Completion> {
        let found = known_names().filter(|((name, _), help)| matches(name, help));
        let completion = |((name, symbol), help): ((&str, &str), &'static str)| Completion {
            word: format!("{name}{symbol}"),
            help: help.into(),
        };
        found.map(completion).collect()
    };
    let by_name = named(&|name, _| name.starts_with(start));
    if by_name.is_empty() && start.len() >= MIN_DESCRIBED_LENGTH {
        return named(&|_, help| names_start(help, start));
    }
    by_name
}

/// Returns every state and field with the sign that is typed after it and what it is, the most useful first.
fn known_names() -> impl Iterator<Item = ((&'static str, &'static str), &'static str)> {
    let state = |(word, _, help): &(&'static str, StateWord, &'static str)| ((*word, ""), *help);
    // Six states stand before the fields: those that summaries show most, and problems.
    let (first, rest) = StateWord::WORDS.split_at(6);
    let useful = USEFUL_FIELDS.iter().map(|(name, help)| {
        let field = FilterField::all().find(|(alias, ..)| alias == name);
        ((*name, field.map_or("=", |(.., field)| field.likely_symbol())), *help)
    });
    let is_useful = |alias: &str| USEFUL_FIELDS.iter().any(|(name, _)| *name == alias);
    let mut seen: Vec<&str> = Vec::new();
    let others = FilterField::all().filter(move |(alias, ..)| {
        let is_new = !is_useful(alias) && !seen.contains(alias);
        seen.push(alias);
        is_new
    });
    let others = others.map(|(alias, _, field)| ((alias, field.likely_symbol()), field.help()));
    first.iter().map(state).chain(useful).chain(rest.iter().map(state)).chain(others)
}

/// Returns true if a word of the description begins with these letters.
fn names_start(help: &str, start: &str) -> bool {
    help.split(|letter: char| !letter.is_alphanumeric())
        .any(|word| word.to_lowercase().starts_with(start))
}

/// Returns the most useful field that is described by this word.
pub(super) fn described_by(word: &str) -> Option<&'static str> {
    let is_word = |help: &str| help.split(' ').any(|one| one == word);
    USEFUL_FIELDS.iter().find(|(_, help)| is_word(help)).map(|(name, _)| *name)
}

fn complete_value(
    (name, symbol): (&str, &str),
    start: &str,
    known: Vec<(String, Cow<'static, str>)>,
) -> Vec<Completion> {
    let is_safe = |value: &str| {
        value.len() <= MAX_VALUE_LENGTH && !value.is_empty() && !value.chars().any(is_unprintable)
    };
    let fits = known
        .into_iter()
        .filter(|(value, _)| is_safe(value) && value.to_lowercase().starts_with(start));
    let completion = |(value, help): (String, Cow<'static, str>)| Completion {
        word: format!("{name}{symbol}{}", quoted(&value)),
        help,
    };
    fits.map(completion).collect()
}

/// Says what can be compared with a field whose values are not listed.
fn value_note(field: FilterField, name: &str) -> String {
    match field.unit() {
        "" if field.is_number() => format!("{name} is a number"),
        "" => format!("no {name} is known now"),
        unit => format!("{name} is in {unit}: {}", example(unit)),
    }
}

impl FilterField {
    /// Returns the comparison sign that is used most with it.
    fn likely_symbol(self) -> &'static str {
        let rarely_low =
            |alias: &str| if matches!(alias, "util" | "cpu" | "left") { "<" } else { ">" };
        let of_kind = |kind: ValueKind, alias: &str| match kind {
            ValueKind::Share | ValueKind::Number | ValueKind::Integer => rarely_low(alias),
            ValueKind::Text if matches!(alias, "command" | "cwd") => "~",
            ValueKind::Text | ValueKind::Flag | ValueKind::Timestamp => "=",
        };
        match self {
            Self::Node | Self::Index | Self::Uuid | Self::Pid | Self::Job | Self::Partition => "=",
            Self::MemoryShare => ">",
            Self::Host(field) => of_kind(field.kind, field.alias),
            Self::Device(field) => of_kind(field.kind, field.alias),
            Self::Process(field) => of_kind(field.kind, field.alias),
            Self::OfJob(field) => of_kind(field.kind, field.alias),
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Index | Self::Pid) || !matches!(self.likely_symbol(), "=" | "~")
    }

    fn help(self) -> &'static str {
        match self {
            Self::Node => "node name",
            Self::Index => "index of the device",
            Self::Uuid => "UUID of the device",
            Self::Pid => "process id",
            Self::Job => "job id as in squeue",
            Self::Partition => "partition of job or node",
            Self::MemoryShare => "device memory in use, in %",
            Self::Host(field) => field.help,
            Self::Device(field) => field.help,
            Self::Process(field) => field.help,
            Self::OfJob(field) => field.help,
        }
    }
}

/// Returns the text values of a field in the fleet, each with what it is; those of most devices or processes first.
/// Numbers are not listed.
fn field_values(field: FilterField, fleet: &Fleet) -> Vec<(String, Cow<'static, str>)> {
    let nodes = || fleet.nodes.iter().take(MAX_SCANNED);
    match field {
        FilterField::Node => {
            nodes().map(|node| (node.name.to_string(), Cow::Borrowed(""))).collect()
        }
        FilterField::Device(field) => {
            let devices = nodes().flat_map(|node| node.whole_devices());
            counted(devices.map(|(_, device)| (field.read)(device)), "device")
        }
        FilterField::Process(field) => {
            let usages = nodes().flat_map(|node| {
                node.devices.iter().flat_map(move |device| Usage::of(node, device))
            });
            counted(usages.map(|usage| (field.read)(&usage)), "process")
        }
        FilterField::Job => {
            let job = |job: &Job| {
                (job.shown_id.to_string(), Cow::Owned(format!("{} of {}", job.name, job.user)))
            };
            jobs(fleet).map(job).collect()
        }
        FilterField::Partition => {
            let of_jobs = jobs(fleet).map(|job| &job.partition);
            let of_nodes = nodes().filter_map(|node| node.scheduler.as_ref());
            let of_nodes = of_nodes.flat_map(|known| &known.partitions);
            let text = |name: &Arc<str>| Value::Text(Arc::clone(name));
            let mut values = counted(of_nodes.map(text), "node");
            let others = counted(of_jobs.map(text), "job");
            let is_new = |(name, _): &(String, _)| !values.iter().any(|(known, _)| known == name);
            let others: Vec<_> = others.into_iter().filter(is_new).collect();
            values.extend(others);
            values
        }
        FilterField::OfJob(field) => {
            // No text value depends on the time.
            let at = |job: &Job| JobAt { job: job.clone(), now: Timestamp::default() };
            counted(jobs(fleet).map(|job| (field.read)(&at(job))), "job")
        }
        FilterField::Host(_)
        | FilterField::Index
        | FilterField::Uuid
        | FilterField::Pid
        | FilterField::MemoryShare => Vec::new(),
    }
}

fn jobs(fleet: &Fleet) -> impl Iterator<Item = &Job> {
    fleet.jobs.iter().flat_map(|jobs| &jobs.jobs).take(MAX_SCANNED)
}

/// Counts text values; the most frequent come first.
fn counted(
    values: impl Iterator<Item = Value>,
    what: &'static str,
) -> Vec<(String, Cow<'static, str>)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for value in values {
        let words = match value {
            Value::Text(text) => text.to_string(),
            Value::Flag(true) => "yes".to_owned(),
            Value::Flag(false) => "no".to_owned(),
            Value::Unknown(_) | Value::Number(_) | Value::Integer(_) => continue,
        };
        *counts.entry(words).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| Reverse(*count));
    let plural = if what == "process" { "processes".to_owned() } else { format!("{what}s") };
    let words = |count: usize| {
        if count == 1 { format!("1 {what}") } else { format!("{count} {plural}") }
    };
    counts.into_iter().map(|(value, count)| (value, words(count).into())).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::Node;
    use crate::model::{Device, JobList, NodeName, Reading, SchedulerNode};
    use crate::query::filter::Filter;

    fn words(text: &str, fleet: &Fleet) -> Vec<String> {
        let completions = complete(text, text.chars().count(), fleet);
        completions.words.into_iter().map(|completion| completion.word).collect()
    }

    fn fleet() -> Fleet {
        let node = |name| {
            let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
            let name = Reading::Known("NVIDIA H100 80GB".into());
            node.devices = vec![Device { name, ..Device::default() }];
            let partitions = vec!["gpu".into(), "debug".into()];
            node.scheduler =
                Some(Arc::new(SchedulerNode { partitions, ..SchedulerNode::default() }));
            Arc::new(node)
        };
        let job = Job { name: "train".into(), ..Job::example("12") };
        Fleet {
            jobs: Some(Arc::new(JobList { jobs: vec![job], ..JobList::default() })),
            ..Fleet::new(vec![node("gpu01"), node("gpu02"), node("login1")].into())
        }
    }

    #[test]
    fn headline_words_and_common_fields_come_first_each_with_what_it_is() {
        let all = complete("", 0, &fleet());
        let first: Vec<_> = all.words.iter().take(15).map(|one| one.word.as_str()).collect();
        let expected = "idle-held free busy faulty stale down util< user= job= node= mem> power> \
                        temp> partition= name=";
        assert_eq!(first.join(" "), expected);
        assert!(all.words.iter().all(|one| !one.help.is_empty()));
        assert_eq!(all.words.len(), MAX_COMPLETIONS);
        assert!(all.more > 40, "{}", all.more);
        // A word may be a state and a field, as `throttled` is, but is not listed twice as one of them.
        let names: Vec<_> = known_names().map(|(name, _)| name).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(names.len(), unique.len());
    }

    #[test]
    fn fields_are_completed_with_their_sign_and_then_with_values() {
        let fleet = fleet();
        for (text, expected) in [
            ("alice ut", vec!["util<"]),
            ("(partit", vec!["partition="]),
            ("x or node=gpu", vec!["node=gpu01", "node=gpu02"]),
            ("!name=", vec!["name=\"NVIDIA H100 80GB\""]),
            ("name=\"nvidia h", vec!["name=\"NVIDIA H100 80GB\""]),
            ("job=1", vec!["job=12"]),
            ("jobname=", vec!["jobname=train"]),
            ("partition=", vec!["partition=debug", "partition=gpu"]),
            ("nosuch=x", vec![]),
            ("util<", vec![]),
        ] {
            assert_eq!(words(text, &fleet), expected, "{text}");
        }
        assert_eq!(words("st", &fleet)[..2], ["stale", "state="]);
        assert_eq!(words("throt", &fleet)[0], "throttled");
        // The model of a device is its name.
        assert_eq!(words("model", &fleet)[0], "name=");
        assert_eq!(complete("util<10 st", 2, &fleet).words[0].word, "util<");
        let help = |text: &str| complete(text, text.len(), &fleet).words[0].help.to_string();
        assert_eq!((help("name="), help("job=")), ("3 devices".into(), "train of alice".into()));
        let note = |text: &str| complete(text, text.len(), &fleet).note.unwrap();
        assert_eq!(
            (note("util<"), note("pid=")),
            ("util is in %: 50%".into(), "pid is a number".into())
        );
    }

    #[test]
    fn every_completion_of_a_value_is_a_filter() {
        let mut fleet = fleet();
        let hostile = ["a b", "it's", "\"q\"", "(x", "or", "x\u{1b}[31m", "\u{202e}x", "", "日本"];
        let jobs = hostile.map(|name| Job { name: name.into(), ..Job::example("1") });
        fleet.jobs = Some(Arc::new(JobList { jobs: jobs.into(), ..JobList::default() }));
        let found = words("jobname=", &fleet);
        assert_eq!(found.len(), 6, "{found:?}");
        for word in found {
            assert!(Filter::new(&word).is_ok(), "{word}");
        }
    }
}
