//! Signals.

/// The signals that may be sent: those of Linux without the real-time signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// `SIGHUP`
    HangUp,
    /// `SIGINT`
    Interrupt,
    /// `SIGQUIT`
    Quit,
    /// `SIGILL`
    Illegal,
    /// `SIGTRAP`
    Trap,
    /// `SIGABRT`
    Abort,
    /// `SIGBUS`
    Bus,
    /// `SIGFPE`
    Arithmetic,
    /// `SIGKILL`
    Kill,
    /// `SIGUSR1`
    User1,
    /// `SIGSEGV`
    Segment,
    /// `SIGUSR2`
    User2,
    /// `SIGPIPE`
    Pipe,
    /// `SIGALRM`
    Alarm,
    /// `SIGTERM`
    Terminate,
    /// `SIGSTKFLT`
    StackFault,
    /// `SIGCHLD`
    Child,
    /// `SIGCONT`
    Continue,
    /// `SIGSTOP`
    Stop,
    /// `SIGTSTP`
    TerminalStop,
    /// `SIGTTIN`
    TerminalInput,
    /// `SIGTTOU`
    TerminalOutput,
    /// `SIGURG`
    Urgent,
    /// `SIGXCPU`
    CpuLimit,
    /// `SIGXFSZ`
    FileLimit,
    /// `SIGVTALRM`
    VirtualAlarm,
    /// `SIGPROF`
    Profile,
    /// `SIGWINCH`
    Window,
    /// `SIGIO`
    InputOutput,
    /// `SIGPWR`
    Power,
    /// `SIGSYS`
    System,
}

impl Signal {
    /// All signals, by number.
    pub const ALL: [Self; 31] = [
        Self::HangUp,
        Self::Interrupt,
        Self::Quit,
        Self::Illegal,
        Self::Trap,
        Self::Abort,
        Self::Bus,
        Self::Arithmetic,
        Self::Kill,
        Self::User1,
        Self::Segment,
        Self::User2,
        Self::Pipe,
        Self::Alarm,
        Self::Terminate,
        Self::StackFault,
        Self::Child,
        Self::Continue,
        Self::Stop,
        Self::TerminalStop,
        Self::TerminalInput,
        Self::TerminalOutput,
        Self::Urgent,
        Self::CpuLimit,
        Self::FileLimit,
        Self::VirtualAlarm,
        Self::Profile,
        Self::Window,
        Self::InputOutput,
        Self::Power,
        Self::System,
    ];

    /// Returns its number on Linux, which is the same on every architecture with accelerators.
    pub const fn number(self) -> u8 {
        match self {
            Self::HangUp => 1,
            Self::Interrupt => 2,
            Self::Quit => 3,
            Self::Illegal => 4,
            Self::Trap => 5,
            Self::Abort => 6,
            Self::Bus => 7,
            Self::Arithmetic => 8,
            Self::Kill => 9,
            Self::User1 => 10,
            Self::Segment => 11,
            Self::User2 => 12,
            Self::Pipe => 13,
            Self::Alarm => 14,
            Self::Terminate => 15,
            Self::StackFault => 16,
            Self::Child => 17,
            Self::Continue => 18,
            Self::Stop => 19,
            Self::TerminalStop => 20,
            Self::TerminalInput => 21,
            Self::TerminalOutput => 22,
            Self::Urgent => 23,
            Self::CpuLimit => 24,
            Self::FileLimit => 25,
            Self::VirtualAlarm => 26,
            Self::Profile => 27,
            Self::Window => 28,
            Self::InputOutput => 29,
            Self::Power => 30,
            Self::System => 31,
        }
    }

    /// Returns its name without `SIG`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HangUp => "HUP",
            Self::Interrupt => "INT",
            Self::Quit => "QUIT",
            Self::Illegal => "ILL",
            Self::Trap => "TRAP",
            Self::Abort => "ABRT",
            Self::Bus => "BUS",
            Self::Arithmetic => "FPE",
            Self::Kill => "KILL",
            Self::User1 => "USR1",
            Self::Segment => "SEGV",
            Self::User2 => "USR2",
            Self::Pipe => "PIPE",
            Self::Alarm => "ALRM",
            Self::Terminate => "TERM",
            Self::StackFault => "STKFLT",
            Self::Child => "CHLD",
            Self::Continue => "CONT",
            Self::Stop => "STOP",
            Self::TerminalStop => "TSTP",
            Self::TerminalInput => "TTIN",
            Self::TerminalOutput => "TTOU",
            Self::Urgent => "URG",
            Self::CpuLimit => "XCPU",
            Self::FileLimit => "XFSZ",
            Self::VirtualAlarm => "VTALRM",
            Self::Profile => "PROF",
            Self::Window => "WINCH",
            Self::InputOutput => "IO",
            Self::Power => "PWR",
            Self::System => "SYS",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_signals_up_to_31_are_distinct() {
        let numbers = Signal::ALL.map(Signal::number);
        assert!(numbers.into_iter().eq(1..=31));
        let names: std::collections::BTreeSet<_> = Signal::ALL.map(Signal::name).into();
        assert_eq!(names.len(), numbers.len());
    }
}
