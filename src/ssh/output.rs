//! What a running command sends: its output and how it exited.

use russh::Sig;

use crate::ssh::fault::{self, Fault};

/// An event of a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Bytes written to stdout; at most one packet over SSH.
    Stdout(Vec<u8>),
    /// Bytes written to stderr.
    Stderr(Vec<u8>),
    /// It exited. `Closed` follows.
    Exit(Exit),
    /// The channel is closed; the fault says why, unless the command exited by itself.
    Closed(Option<Box<Fault>>),
}

/// How a command exited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Status(u32),
    /// Killed by this signal, named without `SIG`.
    Signal(String),
}

impl Exit {
    /// Converts the signal the node reports.
    pub(crate) fn from_signal(signal: Sig) -> Self {
        Self::Signal(match signal {
            Sig::Custom(name) => fault::sanitize(&name, 32),
            name @ (Sig::ABRT
            | Sig::ALRM
            | Sig::FPE
            | Sig::HUP
            | Sig::ILL
            | Sig::INT
            | Sig::KILL
            | Sig::PIPE
            | Sig::QUIT
            | Sig::SEGV
            | Sig::TERM
            | Sig::USR1) => format!("{name:?}"),
        })
    }
}
