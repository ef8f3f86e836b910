//! Filter expressions: words and comparisons over any field.
//!
//! `util<10 mem>50% user=alice node~gpu0 !debug stale`: all terms must hold of one and the same
//! node, device and process. A term about processes needs a process, one about devices a device;
//! an unknown value meets no comparison but `=unknown`. `job=2_1 jobname~train partition=gpu left<1h`
//! ask about the job a process belongs to, or that was given a device or a node.

mod complete;
mod job_lookup;
mod matching;
mod operand;
mod parse;

pub use complete::complete;

use std::fmt;
use std::sync::Arc;

use crate::fields::{Field, HOST, JOB, JobAt, PROCESS, Usage, current_aliases, of_device};
use crate::fleet::Node;
use crate::model::{Device, JobList};
use job_lookup::JobLookup;
use operand::Operand;

/// The longest filter, in bytes; what is typed beyond it is refused.
pub const MAX_FILTER_LENGTH: usize = 500;

/// What is asked to be seen. The empty one takes everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    text: String,
    terms: Vec<Term>,
    /// The jobs a scheduler told.
    jobs: Option<Arc<JobLookup>>,
}

/// What is wrong with a filter's text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct FilterError {
    /// Where the wrong part begins, in characters from the start.
    pub at: usize,
    /// What is wrong with it, and what would be right.
    pub words: String,
}

/// One part of a filter.
#[derive(Clone, Debug)]
struct Term {
    /// It holds where its test does not.
    is_negated: bool,
    test: Predicate,
}

#[derive(Clone, Debug)]
enum Predicate {
    /// In lower case; stands somewhere in what names a row.
    Word(String),
    StateWord(StateWord),
    Compare(FilterField, Comparison, Operand),
}

/// Words that stand for a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StateWord {
    Fresh,
    Stale,
    Up,
    Down,
    Fault,
    Throttled,
    Busy,
    Idle,
    Free,
}

impl StateWord {
    /// Every state with its word.
    const WORDS: [(&str, Self); 9] = [
        ("fresh", Self::Fresh),
        ("stale", Self::Stale),
        ("up", Self::Up),
        ("down", Self::Down),
        ("fault", Self::Fault),
        ("throttled", Self::Throttled),
        ("busy", Self::Busy),
        ("idle", Self::Idle),
        ("free", Self::Free),
    ];
}

/// What is compared.
#[derive(Clone, Copy)]
enum FilterField {
    /// The node's name.
    Node,
    /// The device's number.
    Index,
    Uuid,
    Pid,
    /// The number of the job, in any of the ways people and processes know it.
    Job,
    /// Used device memory as a share of all: what `mem>50%` asks for.
    MemoryShare,
    Host(&'static Field<Node>),
    Device(&'static Field<Device>),
    Process(&'static Field<Usage>),
    OfJob(&'static Field<JobAt>),
}

impl FilterField {
    /// Those that are no field: alias, id.
    const KEYS: [(&str, &str, Self); 5] = [
        ("node", "node", Self::Node),
        ("gpu", "index", Self::Index),
        ("uuid", "uuid", Self::Uuid),
        ("pid", "pid", Self::Pid),
        ("job", "job", Self::Job),
    ];

    /// Finds a subject by its alias; failing that, by its id or by a word of earlier versions. An error lists the
    /// aliases of all that the word could mean; none where it means nothing.
    fn from_name(word: &str) -> Result<Self, Vec<&'static str>> {
        if let Some((.., subject)) = Self::all().find(|(alias, ..)| *alias == word) {
            return Ok(subject);
        }
        let former = current_aliases(word);
        let is_meant = |alias: &str, id: &str| id == word || former.contains(&alias);
        let meant: Vec<_> = Self::all().filter(|(alias, id, _)| is_meant(alias, id)).collect();
        match *meant {
            [(.., subject)] => Ok(subject),
            _ => Err(meant.into_iter().map(|(alias, ..)| alias).collect()),
        }
    }

    /// Returns every subject with its alias and its id.
    fn all() -> impl Iterator<Item = (&'static str, &'static str, Self)> {
        let device = of_device().map(|field| (field.alias, field.id, Self::Device(field)));
        let process = PROCESS.iter().map(|field| (field.alias, field.id, Self::Process(field)));
        let host = HOST.iter().map(|field| (field.alias, field.id, Self::Host(field)));
        let job = JOB.iter().map(|field| (field.alias, field.id, Self::OfJob(field)));
        Self::KEYS.into_iter().chain(device).chain(process).chain(host).chain(job)
    }

    /// Returns every alias.
    fn aliases() -> impl Iterator<Item = &'static str> {
        Self::all().map(|(alias, ..)| alias)
    }

    /// Returns the unit of its values.
    fn unit(self) -> &'static str {
        match self {
            Self::Node | Self::Index | Self::Uuid | Self::Pid | Self::Job => "",
            Self::MemoryShare => "%",
            Self::Host(field) => field.unit(),
            Self::Device(field) => field.unit(),
            Self::Process(field) => field.unit(),
            Self::OfJob(field) => field.unit(),
        }
    }
}

impl fmt::Debug for FilterField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "node",
            Self::Index => "index",
            Self::Uuid => "uuid",
            Self::Pid => "pid",
            Self::Job => "job",
            Self::MemoryShare => "memory share",
            Self::Host(field) => field.id,
            Self::Device(field) => field.id,
            Self::Process(field) => field.id,
            Self::OfJob(field) => field.id,
        })
    }
}

/// Returns every word that stands before a comparison.
pub fn aliases() -> impl Iterator<Item = &'static str> {
    FilterField::aliases()
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    /// Holds it somewhere.
    Contains,
    NotContains,
}

impl Comparison {
    /// Every relation with its sign, the longer ones first.
    const SIGNS: [(&str, Self); 9] = [
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

    /// Returns true if it asks for more or less.
    const fn is_order(self) -> bool {
        matches!(self, Self::Less | Self::AtMost | Self::More | Self::AtLeast)
    }
}

impl Filter {
    /// Reads a filter as typed.
    ///
    /// Terms stand between spaces; quotes keep a value with spaces together.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        Ok(Self { text: text.trim().to_owned(), terms: parse::terms(text)?, jobs: None })
    }

    /// Returns the same for a fleet with these jobs; without them only the numbers that processes
    /// know are.
    #[must_use]
    pub fn with_jobs(mut self, jobs: Option<&Arc<JobList>>) -> Self {
        let asks = self.terms.iter().any(|term| match &term.test {
            Predicate::Word(_) => true,
            Predicate::StateWord(state) => *state == StateWord::Free,
            Predicate::Compare(subject, ..) => {
                matches!(subject, FilterField::Job | FilterField::OfJob(_))
            }
        });
        self.jobs = jobs.filter(|_| asks).map(|jobs| Arc::new(JobLookup::of(jobs)));
        self
    }

    /// Returns it as it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if it takes everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}
