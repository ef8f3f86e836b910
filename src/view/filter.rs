//! What the reader of the screen asks to see: words and comparisons over any field.
//!
//! `util<10 mem>50% user=alice node~gpu0 !debug stale`: all terms must hold of one and the same
//! node, device and process. A term about processes needs a process, one about devices a device;
//! an unknown value meets no comparison but `=unknown`. `job=2_1 jobname~train partition=gpu left<1h`
//! ask about the job a process belongs to, or that was given a device or a node.

mod complete;
mod jobs;
mod judge;
mod parse;
mod value;

pub use complete::complete;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use crate::fields::{Field, HOST, JOB, JobAt, PROCESS, Usage, of_device};
use crate::fleet::Node;
use crate::model::{Device, JobList};
use jobs::Jobs;
use value::Wanted;

/// The longest filter, in bytes; what is typed beyond it is refused.
pub const LONGEST: usize = 500;

/// What is asked to be seen. The empty one takes everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    text: String,
    terms: Vec<Term>,
    /// The jobs a scheduler told.
    jobs: Option<Arc<Jobs>>,
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
    test: Test,
}

#[derive(Clone, Debug)]
enum Test {
    /// In lower case; stands somewhere in what names a row.
    Word(String),
    State(State),
    Compare(Subject, Relation, Wanted),
}

/// Words that stand for a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
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

impl State {
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
enum Subject {
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

/// What stands before the name of a job's field where it is also the name of another.
const OF_JOB: &str = "job";

impl Subject {
    /// Those that are no field.
    const OWN: [(&str, Self); 6] = [
        ("node", Self::Node),
        ("gpu", Self::Index),
        ("index", Self::Index),
        ("uuid", Self::Uuid),
        ("pid", Self::Pid),
        (OF_JOB, Self::Job),
    ];

    /// Finds a field by its alias or, failing that, by its id; a device's before a process's, a
    /// host's and a job's. A job's may have `job` before it.
    fn named(name: &str) -> Option<Self> {
        let own = Self::OWN.iter().find(|(own, _)| *own == name).map(|(_, subject)| *subject);
        own.or_else(|| Self::field(|alias, _| alias == name))
            .or_else(|| Self::field(|_, id| id == name))
            .or_else(|| Self::of_job(name))
            .or_else(|| Self::of_job(name.strip_prefix(OF_JOB)?))
    }

    fn of_job(name: &str) -> Option<Self> {
        let by_alias = JOB.iter().find(|field| field.alias == name);
        by_alias.or_else(|| JOB.iter().find(|field| field.id == name)).map(Self::OfJob)
    }

    fn field(is_it: impl Fn(&str, &str) -> bool) -> Option<Self> {
        let device = of_device().find(|field| is_it(field.alias, field.id)).map(Self::Device);
        let process = || PROCESS.iter().find(|field| is_it(field.alias, field.id));
        let host = || HOST.iter().find(|field| is_it(field.alias, field.id));
        device.or_else(|| process().map(Self::Process)).or_else(|| host().map(Self::Host))
    }

    /// Returns every name a subject may be called by, the short ones.
    fn names() -> impl Iterator<Item = Cow<'static, str>> {
        let own = Self::OWN.iter().map(|(name, _)| *name);
        let fields = of_device().map(|field| field.alias);
        own.chain(fields)
            .chain(PROCESS.iter().map(|field| field.alias))
            .chain(HOST.iter().map(|field| field.alias))
            .map(Cow::Borrowed)
            .chain(JOB.iter().filter(|field| field.alias != OF_JOB).map(|field| {
                let is_its_own = matches!(Self::named(field.alias), Some(Self::OfJob(_)));
                if is_its_own {
                    field.alias.into()
                } else {
                    format!("{OF_JOB}{}", field.alias).into()
                }
            }))
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

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "node",
            Self::Index => "index",
            Self::Uuid => "uuid",
            Self::Pid => "pid",
            Self::Job => OF_JOB,
            Self::MemoryShare => "memory share",
            Self::Host(field) => field.id,
            Self::Device(field) => field.id,
            Self::Process(field) => field.id,
            Self::OfJob(field) => field.id,
        })
    }
}

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
    /// Holds it somewhere.
    Like,
    Unlike,
}

impl Relation {
    /// Every relation with its sign, the longer ones first.
    const SIGNS: [(&str, Self); 9] = [
        ("!=", Self::Unequal),
        ("!~", Self::Unlike),
        ("<=", Self::AtMost),
        (">=", Self::AtLeast),
        ("==", Self::Equal),
        ("=", Self::Equal),
        ("<", Self::Less),
        (">", Self::More),
        ("~", Self::Like),
    ];

    /// Says whether it asks for more or less.
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
    pub fn among(mut self, jobs: Option<&Arc<JobList>>) -> Self {
        let asks = self.terms.iter().any(|term| match &term.test {
            Test::Word(_) => true,
            Test::State(state) => *state == State::Free,
            Test::Compare(subject, ..) => matches!(subject, Subject::Job | Subject::OfJob(_)),
        });
        self.jobs = jobs.filter(|_| asks).map(|jobs| Arc::new(Jobs::of(jobs)));
        self
    }

    /// Returns it as it was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Says whether it takes everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }
}
