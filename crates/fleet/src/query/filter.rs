//! Filter expressions: words and comparisons over any field, joined by and, `or` and `not`.
//!
//! `util<10 mem>50% user=alice node~gpu0 !debug stale`, `(free or idle-held) partition=a100`: terms that are joined must
//! match the same node, device and process. A term about processes matches processes only, one about devices matches
//! devices only; an unknown value matches no comparison but `=unknown`. `not` holds for a device where its expression
//! matches nothing on it: a device is `not user=alice` if none of its processes is hers. A node matches if a device or
//! something else on it does. The words of the summary lines have the meaning that they have there. `job=2_1
//! jobname~train partition=gpu left<1h` compare fields of the job a process belongs to, or to which a device or node is
//! allocated; a device without a job has the partitions of its node.

mod complete;
mod expression;
mod lexer;
mod matching;
mod operand;
mod parse;
#[cfg(test)]
mod properties;
mod span;
mod words;

pub use complete::{Completion, Completions, complete, unfinished_name};
pub(crate) use matching::NodeMatch;

use std::fmt;
use std::sync::Arc;

use crate::metrics::{
    Field, HOST, JOB, JobAt, PROCESS, Usage, ValueKind, current_aliases, device_fields, unit_of,
};
use crate::{JobLookup, Node};
use expression::Conditions;
use gtop_model::{Device, JobList};
use operand::{KELVIN, Operand};
use words::StateWord;

/// The maximum length of a filter in bytes; further input is refused.
pub const MAX_FILTER_LENGTH: usize = 500;

/// A parsed filter; the empty one matches everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    text: String,
    conditions: Conditions,
    reads_processes: bool,
    reads_jobs: bool,
    /// The jobs listed by the scheduler.
    jobs: Arc<JobLookup>,
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// A syntax error in a filter, with its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FilterError {
    /// Where the error begins, in characters from the start.
    pub at: usize,
    /// The error and the remedy.
    pub message: String,
}

#[derive(Clone, Debug)]
enum Predicate {
    /// Lower-case text that a name of the row contains.
    Word(String),
    StateWord(StateWord),
    Compare(FilterField, Comparison, Operand),
}

impl Predicate {
    const fn reads_jobs(&self) -> bool {
        use FilterField::{Job, OfJob, Partition};
        matches!(self, Self::Word(_) | Self::Compare(Job | Partition | OfJob(_), ..))
    }

    const fn reads_processes(&self) -> bool {
        let is_of_process =
            matches!(self, Self::Compare(FilterField::Pid | FilterField::Process(_), ..));
        is_of_process || self.reads_jobs()
    }
}

/// The field a term compares.
#[derive(Clone, Copy)]
enum FilterField {
    /// The name of the node.
    Node,
    /// The index of the device.
    Index,
    Uuid,
    Pid,
    /// The job id, in any of the forms that users and processes know.
    Job,
    /// The partition of the job, or those of the node where no job has the device.
    Partition,
    /// The words of what the scheduler says of the node.
    NodeState,
    /// Used device memory as a share of the total, for `mem>50%`.
    MemoryShare,
    Host(&'static Field<Node>),
    Device(&'static Field<Device>),
    Process(&'static Field<Usage>),
    OfJob(&'static Field<JobAt>),
}

impl FilterField {
    /// Finds a field by its alias, then by its id or by a word of earlier versions. The error lists the
    /// aliases of all fields that the word could mean; it is empty if there are none.
    fn from_name(word: &str) -> Result<Self, Vec<&'static str>> {
        if let Some(field) = Self::all().find(|field| field.description().alias == word) {
            return Ok(field);
        }
        let current = current_aliases(word);
        let candidates: Vec<Self> = Self::all()
            .filter(|field| {
                field.description().id == word || current.contains(&field.description().alias)
            })
            .collect();
        match *candidates {
            [field] => Ok(field),
            _ => Err(candidates.iter().map(|field| field.description().alias).collect()),
        }
    }

    /// Returns every field that has a name of its own.
    fn all() -> impl Iterator<Item = Self> {
        let keys = [
            Self::Node,
            Self::Index,
            Self::Uuid,
            Self::Pid,
            Self::Job,
            Self::Partition,
            Self::NodeState,
        ];
        let of_devices = device_fields().map(Self::Device);
        let of_processes = PROCESS.iter().map(Self::Process);
        let others = HOST.iter().map(Self::Host).chain(JOB.iter().map(Self::OfJob));
        keys.into_iter().chain(of_devices).chain(of_processes).chain(others)
    }

    fn aliases() -> impl Iterator<Item = &'static str> {
        Self::all().map(|field| field.description().alias)
    }

    fn description(self) -> FieldDescription {
        match self {
            Self::Node => FieldDescription::of_key("node", "node name"),
            Self::Index => FieldDescription {
                alias: "gpu",
                ..FieldDescription::of_key("index", "index of the device")
            },
            Self::Uuid => FieldDescription::of_key("uuid", "UUID of the device"),
            Self::Pid => FieldDescription::of_key("pid", "process id"),
            Self::Job => FieldDescription::of_key("job", "job id as in squeue"),
            Self::Partition => FieldDescription::of_key("partition", "partition of job or node"),
            Self::NodeState => {
                FieldDescription::of_key("nodestate", "the scheduler's state of the node")
            }
            Self::MemoryShare => FieldDescription {
                id: "memory_share_percent",
                alias: "mem",
                help: "device memory in use, in %",
                kind: ValueKind::Share,
            },
            Self::Host(field) => field.into(),
            Self::Device(field) => field.into(),
            Self::Process(field) => field.into(),
            Self::OfJob(field) => field.into(),
        }
    }

    /// Returns the unit of its values; empty if it has none, kelvin for a difference of temperatures.
    fn unit(self) -> &'static str {
        if let Self::Device(field) = self
            && field.is_temperature_difference()
        {
            return KELVIN;
        }
        unit_of(self.description().id)
    }
}

/// How a field is called, and what it is.
#[derive(Clone, Copy)]
struct FieldDescription {
    id: &'static str,
    alias: &'static str,
    help: &'static str,
    kind: ValueKind,
}

impl FieldDescription {
    /// Returns those of a field outside the field tables.
    const fn of_key(id: &'static str, help: &'static str) -> Self {
        Self { id, alias: id, help, kind: ValueKind::Text }
    }
}

impl<S> From<&Field<S>> for FieldDescription {
    fn from(field: &Field<S>) -> Self {
        Self { id: field.id, alias: field.alias, help: field.help, kind: field.kind }
    }
}

impl fmt::Debug for FilterField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.description().id)
    }
}

/// Returns every alias that may precede a comparison.
#[cfg(feature = "testing")]
pub fn aliases() -> impl Iterator<Item = &'static str> {
    FilterField::aliases()
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    /// Contains the text.
    Contains,
    NotContains,
}

impl Comparison {
    /// Every operator with its sign, longer signs first.
    const SYMBOLS: [(&str, Self); 9] = [
        ("!=", Self::Unequal),
        ("!~", Self::NotContains),
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("==", Self::Equal),
        ("=", Self::Equal),
        ("<", Self::Less),
        (">", Self::More),
        ("~", Self::Contains),
    ];

    /// Finds the first sign in a word: where it begins, in bytes, and what it means.
    fn find(word: &str) -> Option<(usize, &'static str, Self)> {
        word.char_indices().find_map(|(at, _)| {
            let rest = word.get(at..)?;
            let found = Self::SYMBOLS.iter().find(|(symbol, _)| rest.starts_with(symbol));
            found.map(|(symbol, comparison)| (at, *symbol, *comparison))
        })
    }

    /// Returns true if it is true of what differs.
    const fn is_negative(self) -> bool {
        matches!(self, Self::Unequal | Self::NotContains)
    }

    /// Returns true if it compares by order.
    const fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::AtMost | Self::More | Self::AtLeast)
    }
}

impl Filter {
    /// Parses a filter.
    ///
    /// Terms are separated by spaces; quotes keep a value with spaces together.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        let conditions = parse::parse(text)?;
        let predicates = conditions.predicates();
        Ok(Self {
            text: text.trim().to_owned(),
            reads_processes: predicates.iter().any(|predicate| predicate.reads_processes()),
            reads_jobs: predicates.iter().any(|predicate| predicate.reads_jobs()),
            conditions,
            ..Self::default()
        })
    }

    /// Returns the filter with the jobs of the scheduler and the devices allocated to them. Without them, only the job
    /// ids of processes are known.
    #[must_use]
    pub fn with_jobs(mut self, jobs: Option<&Arc<JobList>>) -> Self {
        self.jobs = Arc::new(JobLookup::of(jobs.filter(|_| self.reads_jobs)));
        self
    }

    /// Returns the text of the filter as typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if it matches everything.
    pub fn is_empty(&self) -> bool {
        self.conditions.matched.is_none()
    }
}
