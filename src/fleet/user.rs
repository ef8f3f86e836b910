//! Whose a process is, as far as a node tells.

use std::sync::Arc;

use crate::fleet::node::Node;
use crate::model::{DeviceUse, UnseenReason};

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
}

impl User {
    /// Returns the text shown for the user.
    pub fn text(&self) -> String {
        match self {
            Self::Named(name) => name.to_string(),
            Self::Number(number) => format!("uid {number}"),
            Self::Unknown => "unknown".to_owned(),
            Self::Hidden => "hidden".to_owned(),
        }
    }

    /// Returns true if the name or uid is known.
    pub const fn is_known(&self) -> bool {
        matches!(self, Self::Named(_) | Self::Number(_))
    }
}

/// Returns the owner of a process; `None` when the process has ended.
pub fn user_of(node: &Node, used: &DeviceUse) -> Option<User> {
    let is_visible = node.process(used.pid).is_some();
    let unseen = node.unseen_process(used.pid);
    if !is_visible && unseen.is_some_and(|process| process.why == UnseenReason::Gone) {
        return None;
    }
    let owner = node.statics_of(used.pid).and_then(|statics| {
        let name = statics.user.known().map(|name| User::Named(Arc::clone(name)));
        name.or_else(|| statics.uid.get().map(User::Number))
    });
    Some(owner.unwrap_or(if unseen.is_some() { User::Hidden } else { User::Unknown }))
}
