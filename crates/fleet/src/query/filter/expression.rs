//! Filters as expressions: predicates joined by and, or and not.

use crate::query::filter::Predicate;

/// A part of a filter, which a row matches or not.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Is(Predicate),
    /// All of these match the same row.
    All(Vec<Self>),
    /// At least one of these matches.
    Any(Vec<Self>),
    /// No row matches the expression at this index of [`Conditions::negated`].
    Not(usize),
}

/// What must match, and the expressions it negates.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// What some row must match; `None` matches everything.
    pub(super) matched: Option<Expression>,
    /// Expressions that no row may match where they are negated; those inside others come first.
    pub(super) negated: Vec<Expression>,
}

impl Expression {
    /// Joins expressions, all of which must match.
    pub(super) fn all(parts: Vec<Self>) -> Self {
        let parts = parts.into_iter().flat_map(|part| match part {
            Self::All(parts) => parts,
            part @ (Self::Is(_) | Self::Any(_) | Self::Not(_)) => vec![part],
        });
        Self::single(parts.collect()).unwrap_or_else(Self::All)
    }

    /// Joins expressions, one of which must match.
    pub(super) fn any(parts: Vec<Self>) -> Self {
        let parts = parts.into_iter().flat_map(|part| match part {
            Self::Any(parts) => parts,
            part @ (Self::Is(_) | Self::All(_) | Self::Not(_)) => vec![part],
        });
        Self::single(parts.collect()).unwrap_or_else(Self::Any)
    }

    /// Returns the only part, or else the parts.
    fn single(mut parts: Vec<Self>) -> Result<Self, Vec<Self>> {
        match parts.pop() {
            Some(only) if parts.is_empty() => Ok(only),
            last => {
                parts.extend(last);
                Err(parts)
            }
        }
    }

    fn predicates<'a>(&'a self, found: &mut Vec<&'a Predicate>) {
        match self {
            Self::Is(predicate) => found.push(predicate),
            Self::All(parts) | Self::Any(parts) => {
                for part in parts {
                    part.predicates(found);
                }
            }
            Self::Not(_) => {}
        }
    }
}

impl Conditions {
    /// Returns every predicate.
    pub(super) fn predicates(&self) -> Vec<&Predicate> {
        let mut found = Vec::new();
        for expression in self.matched.iter().chain(&self.negated) {
            expression.predicates(&mut found);
        }
        found
    }
}
