//! Key bindings of a file, as text, and the result of checking them.

/// An action and the keys bound to it, as in `[keys]`; no keys unbind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRow {
    /// The name of the action.
    pub action: String,
    /// The keys, each as text.
    pub keys: Vec<String>,
}

/// What can be bound, for those who read and write files of settings.
#[derive(Clone, Copy, Debug)]
pub struct KeyTable {
    /// Returns each action with its default keys, and its meaning.
    pub actions: fn() -> Vec<(KeyRow, &'static str)>,
    /// Checks rows on top of the bindings of a scheme, given by name.
    pub check: fn(&[KeyRow], &str) -> KeyReport,
}

/// What rows of a file bind.
#[derive(Clone, Debug, Default)]
pub struct KeyReport {
    /// The rows in effect, by the current names of their actions.
    pub rows: Vec<KeyRow>,
    pub issues: Vec<KeyIssue>,
}

/// Something about one row.
#[derive(Clone, Debug)]
pub struct KeyIssue {
    /// The position of the row.
    pub row: usize,
    pub text: String,
    /// True for an error; otherwise a hint.
    pub is_error: bool,
}
