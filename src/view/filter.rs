//! What the reader of the screen asks to see: words and comparisons over any field.
//!
//! `util<10 mem>50% user=alice node~gpu0 !debug stale`: all terms must hold of one and the same
//! node, device and process. A term about processes needs a process, one about devices a device;
//! an unknown value meets no comparison but `=unknown`.

mod complete;
mod judge;
mod parse;
mod value;

pub use complete::complete;

use std::fmt;

use crate::fields::{Field, HOST, PROCESS, Usage, of_device};
use crate::fleet::Node;
use crate::model::Device;
use value::Wanted;

/// The longest filter, in bytes; what is typed beyond it is refused.
pub const LONGEST: usize = 500;

/// What is asked to be seen. The empty one takes everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    text: String,
    terms: Vec<Term>,
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
    /// Used device memory as a share of all: what `mem>50%` asks for.
    MemoryShare,
    Host(&'static Field<Node>),
    Device(&'static Field<Device>),
    Process(&'static Field<Usage>),
}

impl Subject {
    /// Those that are no field.
    const OWN: [(&str, Self); 5] = [
        ("node", Self::Node),
        ("gpu", Self::Index),
        ("index", Self::Index),
        ("uuid", Self::Uuid),
        ("pid", Self::Pid),
    ];

    /// Finds a field by its alias or, failing that, by its id; a device's before a process's and a host's.
    fn named(name: &str) -> Option<Self> {
        let own = Self::OWN.iter().find(|(own, _)| *own == name).map(|(_, subject)| *subject);
        own.or_else(|| Self::field(|alias, _| alias == name))
            .or_else(|| Self::field(|_, id| id == name))
    }

    fn field(is_it: impl Fn(&str, &str) -> bool) -> Option<Self> {
        let device = of_device().find(|field| is_it(field.alias, field.id)).map(Self::Device);
        let process = || PROCESS.iter().find(|field| is_it(field.alias, field.id));
        let host = || HOST.iter().find(|field| is_it(field.alias, field.id));
        device.or_else(|| process().map(Self::Process)).or_else(|| host().map(Self::Host))
    }

    /// Returns every name a subject may be called by, the short ones.
    fn names() -> impl Iterator<Item = &'static str> {
        let own = Self::OWN.iter().map(|(name, _)| *name);
        let fields = of_device().map(|field| field.alias);
        own.chain(fields)
            .chain(PROCESS.iter().map(|field| field.alias))
            .chain(HOST.iter().map(|field| field.alias))
    }

    /// Returns the unit of its values.
    fn unit(self) -> &'static str {
        match self {
            Self::Node | Self::Index | Self::Uuid | Self::Pid => "",
            Self::MemoryShare => "%",
            Self::Host(field) => field.unit(),
            Self::Device(field) => field.unit(),
            Self::Process(field) => field.unit(),
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
            Self::MemoryShare => "memory share",
            Self::Host(field) => field.id,
            Self::Device(field) => field.id,
            Self::Process(field) => field.id,
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
}

impl Filter {
    /// Reads a filter as typed.
    ///
    /// Terms stand between spaces; quotes keep a value with spaces together.
    pub fn new(text: &str) -> Result<Self, FilterError> {
        Ok(Self { text: text.trim().to_owned(), terms: parse::terms(text)? })
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
