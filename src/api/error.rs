//! What goes wrong.

use std::fmt;
use std::io;

/// What another error says, with its sources.
pub(super) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why nodes cannot be watched, or a recording cannot be read, as a sentence that says what to do.
///
/// `source()` is what lies below it, such as the `io::Error` of a file.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name or set of nodes is not valid.
    #[error(transparent)]
    Nodes(Cause),
    /// The jobs of a scheduler are wanted, and none of the programs that list them is on this machine.
    #[error("no scheduler is here: its {} is not on the PATH", .0.join(" or "))]
    NoScheduler(Vec<&'static str>),
    /// The arguments of the command are wrong, or a file that they or the settings name cannot be read.
    #[cfg(feature = "cli")]
    #[error(transparent)]
    Arguments(Cause),
    /// A file is not read as a recording.
    #[cfg(feature = "record")]
    #[error(transparent)]
    Recording(Cause),
    /// No recording is named.
    #[cfg(feature = "record")]
    #[error("no file given; gtop record makes one")]
    NoRecording,
    /// The machine refuses a thread or a socket.
    #[error("watching cannot start: {0}")]
    Start(#[source] io::Error),
}

impl fmt::Debug for Error {
    /// Writes the sentence, which a `main` that returns the error prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Why a node does not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    pub(super) kind: &'static str,
    pub(super) text: String,
    pub(super) remedy: String,
}

impl Fault {
    /// Returns its kind, such as `timed out`: the `kind` of JSON.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns what to do about it, one step per line.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}
