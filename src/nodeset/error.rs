//! What can be wrong with a node set, and where.

use std::fmt;

use crate::nodeset::{GroupError, MAX_NAME_LENGTH, MAX_NAMES};

/// Most characters of a set that are shown around an error.
const MAX_EXCERPT: usize = 60;

/// Most characters of a part that are repeated in a sentence.
const MAX_QUOTED: usize = 32;

/// What is wrong with a node set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeSetErrorKind {
    /// A bracket opens and does not close.
    #[error("this open bracket is not closed; write a range as gpu[01-16]")]
    Unclosed,
    /// A bracket closes and none is open.
    #[error("this bracket closes and none is open; write a range as gpu[01-16]")]
    Unopened,
    /// A bracket opens inside another one.
    #[error("a bracket inside a bracket; write one behind the other, as r[1-2]n[3-4]")]
    Nested,
    /// What stands in the brackets is no list of numbers.
    #[error("{0} is not a range; write numbers as [01-16,20], with a step as [0-30/2]")]
    BadRange(Quoted),
    /// A range runs backwards.
    #[error("{0} runs backwards; write the smaller number first")]
    Backwards(Quoted),
    /// The ends of a range disagree about its width.
    #[error("the ends of {0} are padded differently; write as many digits, as [008-011]")]
    Padding(Quoted),
    /// A step without a range to go through.
    #[error("{0} has a step and no range; write it as [0-30/2]")]
    Step(Quoted),
    /// An operator without a set on one side.
    #[error("'{0}' needs a set on both sides, as in gpu[01-16]!gpu03")]
    NoOperand(char),
    /// A name that is too long.
    #[error("names of more than {MAX_NAME_LENGTH} bytes")]
    TooLong,
    /// The set stands for too many names.
    #[error("this makes more than {MAX_NAMES} nodes, the most gtop takes; write a smaller set")]
    TooMany,
    /// Groups are wrong.
    #[error(transparent)]
    Group(#[from] GroupError),
}

/// A piece of a set, short and without what could harm a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted(String);

impl Quoted {
    pub(super) fn new(text: &str) -> Self {
        Self(text.chars().take(MAX_QUOTED).collect())
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Why a node set cannot be read, and where it goes wrong.
///
/// As text it is one line; with `{:#}` the sentence comes first, and below it the set with a mark
/// under the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSetError {
    /// What is wrong.
    pub kind: Box<NodeSetErrorKind>,
    /// The character it goes wrong at, counted from 1.
    pub column: usize,
    /// The group whose nodes are wrong, and its file; none for the text itself.
    pub group: Option<String>,
    /// The set, or the piece of it around the place.
    excerpt: String,
    /// How many characters of the excerpt stand before the place.
    before: usize,
}

impl std::error::Error for NodeSetError {}

impl NodeSetError {
    /// Says that `text` goes wrong at this byte.
    pub(super) fn at(text: &str, byte: usize, kind: NodeSetErrorKind) -> Self {
        let before = text.char_indices().take_while(|(at, _)| *at < byte).count();
        let first = before.saturating_sub(MAX_EXCERPT / 2);
        let cut = if first > 0 { "…" } else { "" };
        // A mark can stand below a character only where each takes one cell.
        let plain = |letter: char| if matches!(letter, ' '..='~') { letter } else { '?' };
        let piece: String = text.chars().skip(first).take(MAX_EXCERPT).map(plain).collect();
        let rest = if text.chars().nth(first + MAX_EXCERPT).is_some() { "…" } else { "" };
        Self {
            kind: Box::new(kind),
            column: before + 1,
            group: None,
            excerpt: format!("{cut}{piece}{rest}"),
            before: before - first + cut.chars().count(),
        }
    }

    /// Says that it stands in the definition of a group.
    pub(super) fn in_group(mut self, group: String) -> Self {
        self.group.get_or_insert(group);
        self
    }
}

impl fmt::Display for NodeSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, column, group, excerpt, before } = self;
        if let Some(group) = group {
            write!(f, "{group}: ")?;
        }
        if f.alternate() {
            return write!(f, "{kind}\n  {excerpt}\n  {:before$}^", "");
        }
        write!(f, "{excerpt}, column {column}: {kind}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_marked_also_in_a_long_set() {
        let error = NodeSetError::at("gpu[1-x]", 6, NodeSetErrorKind::BadRange(Quoted::new("1-x")));
        assert_eq!(
            error.to_string(),
            "gpu[1-x], column 7: \"1-x\" is not a range; write numbers as [01-16,20], with a step as [0-30/2]"
        );
        assert!(format!("{error:#}").ends_with("\n  gpu[1-x]\n        ^"), "{error:#}");
        let long = format!("{}\u{1b}[1{}", "a,".repeat(1000), ",b".repeat(1000));
        let error = NodeSetError::at(&long, 2001, NodeSetErrorKind::Unclosed);
        let picture = format!("{error:#}");
        let [_, set, mark] = picture.split('\n').collect::<Vec<_>>()[..] else {
            panic!("{picture}")
        };
        let place = mark.chars().count() - 1;
        assert_eq!((error.column, set.chars().nth(place)), (2002, Some('[')), "{picture}");
        assert_eq!(
            (set.chars().count(), set.contains('\u{1b}')),
            (MAX_EXCERPT + 4, false),
            "{picture}"
        );
    }
}
