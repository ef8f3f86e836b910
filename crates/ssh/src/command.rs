//! A command to run on a host, and the terminal that a person has it on.

/// A command, with a terminal if a person is to use it.
#[derive(Clone, Copy, Debug)]
pub struct RemoteCommand<'a> {
    /// The line for the login shell.
    pub line: &'a str,
    /// The terminal it gets; `None`: its input and its two outputs are pipes.
    pub terminal: Option<&'a RemoteTerminal>,
}

impl<'a> RemoteCommand<'a> {
    /// Returns a command without a terminal.
    pub const fn plain(line: &'a str) -> Self {
        Self { line, terminal: None }
    }
}

/// A terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteTerminal {
    /// What `TERM` has.
    pub kind: String,
    /// Its size.
    pub size: TerminalSize,
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Characters of a row.
    pub columns: u32,
    /// Rows.
    pub rows: u32,
}

/// A signal that is passed on to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandSignal {
    /// `SIGHUP`.
    HangUp,
    /// `SIGINT`.
    Interrupt,
    /// `SIGQUIT`.
    Quit,
    /// `SIGTERM`.
    Terminate,
}
