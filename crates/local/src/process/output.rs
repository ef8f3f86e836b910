//! What a running command sends: its output and how it exited.

use std::fmt;

/// An event of a running command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Bytes written to stdout; at most one packet over SSH.
    Stdout(Vec<u8>),
    /// Bytes written to stderr.
    Stderr(Vec<u8>),
    /// It exited. Over SSH, output that it wrote before may follow.
    Exit(Exit),
}

/// How a command exited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Status(u32),
    /// Killed by this signal, named without `SIG`.
    Signal(String),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "exit status {status}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// The last bytes a program wrote to stderr.
#[derive(Debug)]
pub struct OutputTail {
    bytes: Vec<u8>,
    max: usize,
}

impl OutputTail {
    /// Keeps at most `max` bytes.
    pub fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), max }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        self.bytes.drain(..self.bytes.len().saturating_sub(self.max));
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
