//! Signals.

use crate::model::declare::table;

table! {
    /// The signals that may be sent: those of Linux without the real-time signals.
    #[derive(PartialOrd, Ord)]
    pub enum Signal {
        /// `SIGHUP`
        HangUp = (1, "HUP"),
        /// `SIGINT`
        Interrupt = (2, "INT"),
        /// `SIGQUIT`
        Quit = (3, "QUIT"),
        /// `SIGILL`
        Illegal = (4, "ILL"),
        /// `SIGTRAP`
        Trap = (5, "TRAP"),
        /// `SIGABRT`
        Abort = (6, "ABRT"),
        /// `SIGBUS`
        Bus = (7, "BUS"),
        /// `SIGFPE`
        Arithmetic = (8, "FPE"),
        /// `SIGKILL`
        Kill = (9, "KILL"),
        /// `SIGUSR1`
        User1 = (10, "USR1"),
        /// `SIGSEGV`
        Segment = (11, "SEGV"),
        /// `SIGUSR2`
        User2 = (12, "USR2"),
        /// `SIGPIPE`
        Pipe = (13, "PIPE"),
        /// `SIGALRM`
        Alarm = (14, "ALRM"),
        /// `SIGTERM`
        Terminate = (15, "TERM"),
        /// `SIGSTKFLT`
        StackFault = (16, "STKFLT"),
        /// `SIGCHLD`
        Child = (17, "CHLD"),
        /// `SIGCONT`
        Continue = (18, "CONT"),
        /// `SIGSTOP`
        Stop = (19, "STOP"),
        /// `SIGTSTP`
        TerminalStop = (20, "TSTP"),
        /// `SIGTTIN`
        TerminalInput = (21, "TTIN"),
        /// `SIGTTOU`
        TerminalOutput = (22, "TTOU"),
        /// `SIGURG`
        Urgent = (23, "URG"),
        /// `SIGXCPU`
        CpuLimit = (24, "XCPU"),
        /// `SIGXFSZ`
        FileLimit = (25, "XFSZ"),
        /// `SIGVTALRM`
        VirtualAlarm = (26, "VTALRM"),
        /// `SIGPROF`
        Profile = (27, "PROF"),
        /// `SIGWINCH`
        Window = (28, "WINCH"),
        /// `SIGIO`
        InputOutput = (29, "IO"),
        /// `SIGPWR`
        Power = (30, "PWR"),
        /// `SIGSYS`
        System = (31, "SYS"),
    }
    /// All signals, by number.
    pub const ALL;
    fn row -> (u8, &'static str);
}

impl Signal {
    /// Returns its number on Linux, which is the same on every architecture with accelerators.
    pub const fn number(self) -> u8 {
        self.row().0
    }

    /// Returns its name without `SIG`.
    pub const fn name(self) -> &'static str {
        self.row().1
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
