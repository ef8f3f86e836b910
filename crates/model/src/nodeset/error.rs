//! Errors in node sets, with their position.

use std::fmt;

use crate::nodeset::{GroupError, MAX_NAME_LENGTH, MAX_NAMES};

/// Maximum number of characters shown around an error.
const MAX_EXCERPT: usize = 60;

/// What is wrong with a node set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeSetErrorKind {
    /// `[` without `]`.
    #[error("'[' without ']'; write a range as gpu[01-16]")]
    Unclosed,
    /// `]` without `[`.
    #[error("']' without '['; write a range as gpu[01-16]")]
    Unopened,
    /// `[` inside brackets.
    #[error("brackets cannot be nested; write r[1-2]n[3-4]")]
    Nested,
    /// The text in the brackets is not a list of ranges.
    #[error("{0:?} is not a range; write numbers as [01-16,20], with a step as [0-30/2]")]
    BadRange(String),
    /// The last number of a range is smaller than the first.
    #[error("{0:?} is reversed; write the smaller number first")]
    Reversed(String),
    /// The numbers of a range are padded to different widths.
    #[error("the numbers of {0:?} differ in width; pad both, as in [008-011]")]
    Padding(String),
    /// A step without a range.
    #[error("{0:?} has a step but no range; write [0-30/2]")]
    Step(String),
    /// An operator without an operand.
    #[error("'{0}' needs a set on both sides, as in gpu[01-16]!gpu03")]
    NoOperand(char),
    /// A name is longer than `MAX_NAME_LENGTH`.
    #[error("a name is longer than {MAX_NAME_LENGTH} bytes")]
    TooLong,
    /// More than [`MAX_NAMES`] names.
    #[error("more than {MAX_NAMES} nodes; write a smaller set")]
    TooMany,
    /// A group cannot be expanded.
    #[error(transparent)]
    Group(#[from] GroupError),
}

/// An error in a node set, with its position.
///
/// `{}` writes one line; `{:#}` writes the message, and below it the set with a caret under the
/// position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSetError {
    /// The kind of error.
    pub kind: Box<NodeSetErrorKind>,
    /// The position, in characters from 1.
    pub column: usize,
    /// The group with the error, and its file; `None` if the error is in the text itself.
    pub group: Option<String>,
    /// The set, or the part around the position.
    excerpt: String,
    /// Number of characters of the excerpt before the position.
    before: usize,
}

impl std::error::Error for NodeSetError {}

impl NodeSetError {
    /// Returns an error at this byte of `text`.
    pub(super) fn at(text: &str, byte: usize, kind: NodeSetErrorKind) -> Self {
        let before = text.char_indices().take_while(|(at, _)| *at < byte).count();
        let first = before.saturating_sub(MAX_EXCERPT / 2);
        let ellipsis = if first > 0 { "…" } else { "" };
        // The caret is aligned only if each character takes one cell.
        let shown = text.chars().skip(first).take(MAX_EXCERPT);
        let shown: String =
            shown.map(|letter| if matches!(letter, ' '..='~') { letter } else { '?' }).collect();
        let rest = if text.chars().nth(first + MAX_EXCERPT).is_some() { "…" } else { "" };
        Self {
            kind: Box::new(kind),
            column: before + 1,
            group: None,
            excerpt: format!("{ellipsis}{shown}{rest}"),
            before: before - first + ellipsis.chars().count(),
        }
    }

    /// Adds the group that contains the error, unless there is one already.
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
    fn a_caret_marks_the_position_also_in_a_long_set() {
        let error = NodeSetError::at("gpu[1-x]", 6, NodeSetErrorKind::BadRange("1-x".to_owned()));
        assert_eq!(
            error.to_string(),
            "gpu[1-x], column 7: \"1-x\" is not a range; write numbers as [01-16,20], with a step as [0-30/2]"
        );
        assert!(format!("{error:#}").ends_with("\n  gpu[1-x]\n        ^"), "{error:#}");
        let long = format!("{}\u{1b}[1{}", "a,".repeat(1000), ",b".repeat(1000));
        let error = NodeSetError::at(&long, 2001, NodeSetErrorKind::Unclosed);
        let text = format!("{error:#}");
        let [_, set, mark] = text.split('\n').collect::<Vec<_>>()[..] else { panic!("{text}") };
        let position = mark.chars().count() - 1;
        assert_eq!((error.column, set.chars().nth(position)), (2002, Some('[')), "{text}");
        assert_eq!(
            (set.chars().count(), set.contains('\u{1b}')),
            (MAX_EXCERPT + 4, false),
            "{text}"
        );
    }
}
