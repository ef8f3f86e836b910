//! The owner of a process, as far as a node reports it.

use std::sync::Arc;

/// Who holds a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum User {
    /// A user with a known name.
    Named(Arc<str>),
    /// A user of whom only the uid is known.
    Number(u32),
    /// The owner of processes whose owner was not reported.
    Unknown,
    /// The owner of processes that the node does not let gtop see.
    Hidden,
    /// Owners of jobs that the scheduler does not list.
    NotShown,
}

impl User {
    /// Returns the text shown for the user.
    pub fn text(&self) -> String {
        match self {
            Self::Named(name) => name.to_string(),
            Self::Number(number) => format!("uid {number}"),
            Self::Unknown => "unknown".to_owned(),
            Self::Hidden => "hidden".to_owned(),
            Self::NotShown => "jobs not shown".to_owned(),
        }
    }

    /// Returns true if the name or uid is known.
    pub const fn is_known(&self) -> bool {
        matches!(self, Self::Named(_) | Self::Number(_))
    }
}
