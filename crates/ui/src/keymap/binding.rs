//! A binding: its keys, what they do, and their hint.

use crate::action::Action;
use crate::input::Key;

/// Keys that are bound to one action.
#[derive(Debug)]
pub(crate) struct Binding {
    /// Name in the config file.
    pub(crate) name: &'static str,
    /// Default keys, separated by spaces; the first one is shown in hints. Empty for an action that only other schemes,
    /// or the config file, bind.
    pub(crate) keys: &'static str,
    pub(crate) action: Action,
    pub(crate) help: &'static str,
    /// The hint in the bottom line; `None` for keys that everybody tries anyway.
    pub(crate) hint: Option<Hint>,
}

impl Binding {
    pub(crate) fn default_keys(&self) -> Vec<Key> {
        parse_keys(self.keys)
    }

    /// Returns true if the action changes something on nodes; the names of such bindings share a prefix.
    pub(crate) fn changes_nodes(&self) -> bool {
        self.name.starts_with("signal")
    }
}

/// A hint in the bottom line of the screen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hint {
    pub(crate) meaning: &'static str,
    /// Name of the binding whose key is shown in the same hint.
    pub(crate) paired_with: Option<&'static str>,
}

/// Parses keys that are separated by spaces.
pub(super) fn parse_keys(keys: &str) -> Vec<Key> {
    keys.split_whitespace().filter_map(|key| key.parse().ok()).collect()
}
