//! The answers of a scheduler that is queried once, to examine it.

use std::time::Duration;

/// Time limit of commands that answer in milliseconds.
pub(super) const EXAMINATION_TIMEOUT: Duration = Duration::from_secs(8);

/// A node in the words of its scheduler, which are not safe to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedNode {
    pub name: String,
    pub state: String,
    pub reason: Option<String>,
}

/// The state of a server, as it reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerState {
    /// Its name, state and version.
    pub text: String,
    /// It hides jobs of others; `None` if it does not say.
    pub hides_jobs: Option<bool>,
}
