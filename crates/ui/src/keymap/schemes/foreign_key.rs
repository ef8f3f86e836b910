//! A key of another monitor, and what it does in gtop.

use crate::input::Key;

/// The keys of another monitor.
#[derive(Debug)]
pub(crate) struct Scheme {
    /// Binding names and the keys that replace the default ones, separated by spaces.
    pub(crate) changes: &'static [(&'static str, &'static str)],
    /// Every key in the monitor's own help.
    pub(crate) keys: &'static [ForeignKey],
}

/// A row of another monitor's help.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "testing"), expect(unreachable_pub, reason = "only tests list them"))]
pub struct ForeignKey {
    /// The keys, separated by spaces; for a sort order of nvitop, the letter after `o`.
    pub keys: &'static str,
    /// What they do there.
    pub does: &'static str,
    pub here: Here,
}

/// What such keys do in gtop with the scheme.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(any(test, feature = "testing")),
    expect(
        dead_code,
        reason = "bindings are compared with the account by tests, and docs are written from it"
    )
)]
#[cfg_attr(not(feature = "testing"), expect(unreachable_pub, reason = "only tests list them"))]
pub enum Here {
    /// The same: each of these bindings has all of the keys, in its view.
    Bound(&'static [&'static str]),
    /// The same: in the sort menu, the letter sorts processes by this column.
    Sorts(&'static str),
    /// The same, by the mouse.
    Mouse,
    /// Something else, for this reason.
    Differs(&'static str),
}

/// Declares the rows of another monitor's help: keys, what they do there, and what they do here.
macro_rules! foreign_keys {
    ($($keys:literal $does:literal => $here:expr;)*) => {
        &[$(ForeignKey { keys: $keys, does: $does, here: $here }),*]
    };
}
pub(super) use foreign_keys;

impl ForeignKey {
    /// Returns why the key does something else here; `None` if it is not of this row, or does the same.
    pub(crate) fn difference(&self, key: Key) -> Option<String> {
        let Here::Differs(reason) = self.here else { return None };
        let written = key.to_string();
        let is_of_row = self.keys.split(' ').any(|key| key == written);
        is_of_row.then(|| format!("{written} ({}): {reason}", self.does))
    }
}
