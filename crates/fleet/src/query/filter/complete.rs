//! Completion of the word at the caret: what can be typed there, the most useful first.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Fleet;
use crate::metrics::{JobAt, Usage, Value, ValueKind};
use crate::query::filter::lexer::{last_word, quoted, word_end};
use crate::query::filter::operand::example;
use crate::query::filter::{Comparison, FieldDescription, FilterField, StateWord};
use gtop_local::text::is_unprintable;
use gtop_local::time::Timestamp;
use gtop_model::Job;

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
    /// What replaces the word at the caret.
    pub word: String,
    /// What it is, in a few words; empty if it says so itself.
    pub help: Cow<'static, str>,
}

/// What can be typed before the caret.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completions {
    /// Where what is replaced begins and ends, in characters.
    pub span: (usize, usize),
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
/// it, the values of that field in the fleet. The rest of the word is replaced too; that of a field name ends with its
/// sign.
pub fn complete(text: &str, caret: usize, fleet: &Fleet) -> Completions {
    let before_caret: String = text.chars().take(caret).collect();
    let (start, word) = last_word(&before_caret);
    // An empty word before another one is a new one.
    let rest = if word.is_empty() { 0 } else { word_end(text, start).saturating_sub(caret) };
    let rest: String = text.chars().skip(caret).take(rest).collect();
    let mut end = caret + rest.chars().count();
    let (mut words, note) = match Comparison::find(&word) {
        None => {
            let mut names = complete_name(&word.to_lowercase());
            if let Some((at, symbol, _)) = Comparison::find(&rest) {
                let name = rest.get(..at).unwrap_or_default();
                end = caret + name.chars().count() + symbol.len();
                names.retain(|one| Comparison::find(&one.word).is_some());
            }
            (names, None)
        }
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
    Completions { span: (start, end), words, more, note }
}

/// Returns the states and fields that begin with these letters, or else those described by such a word.
/// Returns where the last word begins, in characters, if it may become the name of a field or a state.
pub fn unfinished_name(text: &str) -> Option<usize> {
    let (start, word) = last_word(text);
    let word = word.to_lowercase();
    let mut longer = known_names().filter(|known| known.word.starts_with(&word)).peekable();
    let is_begun = !word.is_empty() && longer.peek().is_some();
    (is_begun && longer.all(|known| known.word != word)).then_some(start)
}

fn complete_name(start: &str) -> Vec<Completion> {
    let mut names: Vec<Completion> = known_names().collect();
    let is_name = names.iter().any(|known| known.word.starts_with(start));
    if is_name || start.len() < MIN_DESCRIBED_LENGTH {
        names.retain(|known| known.word.starts_with(start));
    } else {
        names.retain(|known| names_start(&known.help, start));
    }
    names
}

/// Returns every state, and every field with the sign that is typed after it; the most useful first.
fn known_names() -> impl Iterator<Item = Completion> {
    let states = StateWord::WORDS.into_iter();
    let states = states.map(|(word, _, help)| Completion { word: word.into(), help: help.into() });
    let useful = USEFUL_FIELDS.iter().map(|(name, help)| {
        let symbol = FilterField::from_name(name).map_or("=", FilterField::likely_symbol);
        Completion { word: format!("{name}{symbol}"), help: (*help).into() }
    });
    let mut seen: Vec<&str> = USEFUL_FIELDS.iter().map(|(name, _)| *name).collect();
    let others = FilterField::all().filter_map(move |field| {
        let FieldDescription { alias, help, .. } = field.description();
        let is_new = !seen.contains(&alias);
        seen.push(alias);
        let word = format!("{alias}{}", field.likely_symbol());
        is_new.then(|| Completion { word, help: help.into() })
    });
    // Six states stand before the fields: those that summaries show most, and problems.
    states.clone().take(6).chain(useful).chain(states.skip(6)).chain(others)
}

/// Returns true if a word of the description begins with these letters.
fn names_start(help: &str, start: &str) -> bool {
    help.split(|letter: char| !letter.is_alphanumeric())
        .any(|word| word.to_lowercase().starts_with(start))
}

/// Returns the most useful field that is described by this word.
pub(super) fn described_by(word: &str) -> Option<&'static str> {
    let mut fields = USEFUL_FIELDS.iter();
    fields.find(|(_, help)| help.split(' ').any(|part| part == word)).map(|(name, _)| *name)
}

/// Returns the values that begin with these letters, or else those that contain them.
fn complete_value(
    (name, symbol): (&str, &str),
    start: &str,
    mut known: Vec<(String, Cow<'static, str>)>,
) -> Vec<Completion> {
    known.retain(|(value, _)| {
        value.len() <= MAX_VALUE_LENGTH && !value.is_empty() && !value.chars().any(is_unprintable)
    });
    // Models begin with their vendor.
    let is_start = known.iter().any(|(value, _)| value.to_lowercase().starts_with(start));
    known.retain(|(value, _)| {
        let value = value.to_lowercase();
        if is_start { value.starts_with(start) } else { value.contains(start) }
    });
    let completions = known.into_iter().map(|(value, help)| Completion {
        word: format!("{name}{symbol}{}", quoted(&value)),
        help,
    });
    completions.collect()
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
        let FieldDescription { alias, kind, .. } = self.description();
        match kind {
            ValueKind::Text if matches!(alias, "command" | "cwd") => "~",
            ValueKind::Text | ValueKind::Flag | ValueKind::Timestamp => "=",
            // These are rarely low.
            _ if matches!(alias, "util" | "cpu" | "left") => "<",
            ValueKind::Share | ValueKind::Number | ValueKind::Integer => ">",
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Index | Self::Pid) || !matches!(self.likely_symbol(), "=" | "~")
    }
}

/// Returns the text values of a field in the fleet, each with what it is; those of most devices or processes first.
/// Numbers are not listed.
fn field_values(field: FilterField, fleet: &Fleet) -> Vec<(String, Cow<'static, str>)> {
    let nodes = fleet.nodes.iter().take(MAX_SCANNED);
    let machines = fleet.machines().take(MAX_SCANNED);
    let scheduled = nodes.clone().filter_map(|node| node.scheduler.as_ref());
    match field {
        FilterField::Node => nodes.map(|node| (node.name.to_string(), "".into())).collect(),
        FilterField::Uuid => {
            let devices =
                machines.flat_map(|node| node.devices.iter().map(move |device| (node, device)));
            let values = devices.map(|(node, device)| {
                let index = device.index.get().map(|index| format!(" {index}"));
                let place = node.name.label().to_owned() + &index.unwrap_or_default();
                (device.uuid.to_string(), place.into())
            });
            values.collect()
        }
        FilterField::Device(field) => {
            let devices = machines.flat_map(|node| node.whole_devices());
            counted(devices.map(|(_, device)| (field.read)(device)), "device")
        }
        FilterField::Process(field) => {
            let values = machines.flat_map(|node| {
                let usages = node.devices.iter().flat_map(|device| Usage::of(node, device));
                let mut values: Vec<_> =
                    usages.map(|usage| (usage.used.pid, (field.read)(&usage))).collect();
                // A process on several devices counts once.
                values.sort_by_key(|(pid, _)| *pid);
                values.dedup();
                values
            });
            counted(values.map(|(_, value)| value), "process")
        }
        FilterField::Job => {
            let values = jobs(fleet).map(|job| {
                (job.shown_id.to_string(), format!("{} of {}", job.name, job.user).into())
            });
            values.collect()
        }
        FilterField::Partition => {
            let of_nodes = scheduled.flat_map(|known| known.partitions.iter().cloned());
            let of_jobs = jobs(fleet).map(|job| Arc::clone(&job.partition));
            let mut values = counted(of_nodes.map(Value::Text), "node");
            for value in counted(of_jobs.map(Value::Text), "job") {
                if values.iter().all(|(known, _)| *known != value.0) {
                    values.push(value);
                }
            }
            values
        }
        FilterField::NodeState => {
            counted(scheduled.flat_map(|known| known.state_words()).map(Value::from), "node")
        }
        FilterField::OfJob(field) => {
            // No text value depends on the time.
            let now = Timestamp::default();
            let jobs = jobs(fleet).map(|job| JobAt { job: job.clone(), now });
            counted(jobs.map(|job| (field.read)(&job)), "job")
        }
        FilterField::Host(_) | FilterField::Index | FilterField::Pid | FilterField::MemoryShare => {
            Vec::new()
        }
    }
}

/// Returns the jobs that have nodes; a pending one matches nothing yet.
fn jobs(fleet: &Fleet) -> impl Iterator<Item = &Job> {
    let jobs = fleet.jobs.iter().flat_map(|jobs| &jobs.jobs);
    jobs.filter(|job| !job.allocations.is_empty()).take(MAX_SCANNED)
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
    let counted = counts.into_iter().map(|(value, count)| {
        let unit = if count == 1 { what } else { &plural };
        (value, format!("{count} {unit}").into())
    });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Node;
    use crate::query::filter::Filter;
    use gtop_model::{
        Allocation, Device, DeviceAllocation, DeviceUse, JobList, JobState, NodeName, Reading,
        SchedulerNode,
    };

    fn words(text: &str, fleet: &Fleet) -> Vec<String> {
        let completions = complete(text, text.chars().count(), fleet);
        completions.words.into_iter().map(|completion| completion.word).collect()
    }

    fn running(id: &str, name: &str) -> Job {
        let node = NodeName::new("gpu01").unwrap();
        let allocations = [Allocation { node, devices: DeviceAllocation::Unknown }].into();
        Job { name: name.into(), allocations, ..Job::example(id) }
    }

    fn fleet() -> Fleet {
        let node = |name: &str| {
            let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
            let device = |index| Device {
                uuid: format!("GPU-{name}-{index}").into(),
                index: Reading::Known(index),
                name: Reading::Known("NVIDIA H100 80GB".into()),
                ..Device::default()
            };
            node.devices = vec![device(0), device(1)].into();
            let used = |device: &str, pid| DeviceUse {
                device: device.into(),
                pid,
                driver_name: Some("python".into()),
                ..DeviceUse::default()
            };
            // One process on both devices of the first node, and another one.
            node.uses = [("GPU-gpu01-0", 7), ("GPU-gpu01-1", 7), ("GPU-gpu01-1", 8)]
                .map(|(device, pid)| used(device, pid))
                .into();
            let partitions = vec!["gpu".into(), "debug".into()];
            node.scheduler =
                Some(Arc::new(SchedulerNode { partitions, ..SchedulerNode::default() }));
            Arc::new(node)
        };
        let pending = Job {
            shown_id: "13_[3-5]".into(),
            partition: "gpu,later".into(),
            state: JobState::Pending,
            ..Job::example("13")
        };
        let jobs = vec![running("12", "train"), pending];
        Fleet {
            jobs: Some(Arc::new(JobList { jobs, ..JobList::default() })),
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
        let names: Vec<_> = known_names().map(|known| known.word).collect();
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
            ("name=h100", vec!["name=\"NVIDIA H100 80GB\""]),
            ("job=1", vec!["job=12"]),
            ("uuid=GPU-gpu02", vec!["uuid=GPU-gpu02-0", "uuid=GPU-gpu02-1"]),
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
        assert_eq!((help("name="), help("job=")), ("6 devices".into(), "train of alice".into()));
        assert_eq!((help("uuid="), help("command~")), ("gpu01 0".into(), "2 processes".into()));
        let note = |text: &str| complete(text, text.len(), &fleet).note.unwrap();
        assert_eq!(
            (note("util<"), note("pid=")),
            ("util is in %: 50%".into(), "pid is a number".into())
        );
    }

    #[test]
    fn the_rest_of_the_word_is_replaced_too() {
        let fleet = fleet();
        for (before, after, expected) in [
            ("st", "ale busy", "stale busy"),
            ("(parti", "t) busy", "(partition=) busy"),
            ("node=gpu01", "23 x", "node=gpu01 x"),
            ("jobname=", "x", "jobname=train"),
            ("name=\"nvid", "ia x\" y", "name=\"NVIDIA H100 80GB\" y"),
            ("jobn", "=x", "jobname=x"),
            ("ut", "il<10 busy", "util<10 busy"),
            ("job=", " busy", "job=12 busy"),
        ] {
            let text = format!("{before}{after}");
            let Completions { span: (start, end), words, .. } =
                complete(&text, before.chars().count(), &fleet);
            let letters = || text.chars();
            let (kept, rest) = (letters().take(start), letters().skip(end));
            let found: String = kept.chain(words[0].word.chars()).chain(rest).collect();
            assert_eq!(found, expected, "{before}|{after}");
        }
        // Before a word, a new one is inserted.
        assert_eq!(complete("busy", 0, &fleet).span, (0, 0));
        // A state has no place before a sign.
        assert!(complete("f<10", 1, &fleet).words.iter().all(|one| one.word != "free"));
    }

    #[test]
    fn every_completion_of_a_value_is_a_filter() {
        let mut fleet = fleet();
        let hostile = ["a b", "it's", "\"q\"", "(x", "or", "x\u{1b}[31m", "\u{202e}x", "", "日本"];
        let jobs = hostile.map(|name| running("1", name));
        fleet.jobs = Some(Arc::new(JobList { jobs: jobs.into(), ..JobList::default() }));
        let found = words("jobname=", &fleet);
        assert_eq!(found.len(), 6, "{found:?}");
        for word in found {
            assert!(Filter::new(&word).is_ok(), "{word}");
        }
    }
}
