//! Signals.

use crate::declare::table;

table! {
    /// The signals that may be sent: those of Linux without the real-time signals.
    #[derive(PartialOrd, Ord)]
    pub enum Signal {
        /// `SIGHUP`
        HangUp = (1, "HUP", None, "terminal closed; daemons reload their configuration"),
        /// `SIGINT`
        Interrupt = (2, "INT", Some('I'), "interrupt, as Ctrl-C"),
        /// `SIGQUIT`
        Quit = (3, "QUIT", None, "quit with a core dump, as Ctrl-\\"),
        /// `SIGILL`
        Illegal = (4, "ILL", None, "illegal instruction; core dump"),
        /// `SIGTRAP`
        Trap = (5, "TRAP", None, "breakpoint trap; core dump"),
        /// `SIGABRT`
        Abort = (6, "ABRT", None, "abort; core dump; Python's faulthandler prints stacks"),
        /// `SIGBUS`
        Bus = (7, "BUS", None, "bus error; core dump"),
        /// `SIGFPE`
        Arithmetic = (8, "FPE", None, "arithmetic error; core dump"),
        /// `SIGKILL`
        Kill = (9, "KILL", Some('K'), "end immediately; cannot be caught"),
        /// `SIGUSR1`
        User1 = (10, "USR1", None, "user-defined; Slurm jobs often checkpoint"),
        /// `SIGSEGV`
        Segment = (11, "SEGV", None, "segmentation fault; core dump"),
        /// `SIGUSR2`
        User2 = (12, "USR2", None, "user-defined"),
        /// `SIGPIPE`
        Pipe = (13, "PIPE", None, "broken pipe"),
        /// `SIGALRM`
        Alarm = (14, "ALRM", None, "alarm timer expired"),
        /// `SIGTERM`
        Terminate = (15, "TERM", Some('T'), "end after cleaning up"),
        /// `SIGSTKFLT`
        StackFault = (16, "STKFLT", None, "stack fault; unused, ends the process"),
        /// `SIGCHLD`
        Child = (17, "CHLD", None, "child ended; mostly ignored"),
        /// `SIGCONT`
        Continue = (18, "CONT", None, "continue after a stop"),
        /// `SIGSTOP`
        Stop = (19, "STOP", None, "stop; memory is kept"),
        /// `SIGTSTP`
        TerminalStop = (20, "TSTP", None, "as Ctrl-Z: stop"),
        /// `SIGTTIN`
        TerminalInput = (21, "TTIN", None, "background read from a terminal: stop"),
        /// `SIGTTOU`
        TerminalOutput = (22, "TTOU", None, "background write to a terminal: stop"),
        /// `SIGURG`
        Urgent = (23, "URG", None, "urgent data on a socket; mostly ignored"),
        /// `SIGXCPU`
        CpuLimit = (24, "XCPU", None, "CPU time limit; core dump"),
        /// `SIGXFSZ`
        FileLimit = (25, "XFSZ", None, "file size limit; core dump"),
        /// `SIGVTALRM`
        VirtualAlarm = (26, "VTALRM", None, "virtual timer expired"),
        /// `SIGPROF`
        Profile = (27, "PROF", None, "profiling timer expired"),
        /// `SIGWINCH`
        Window = (28, "WINCH", None, "window size changed; mostly ignored"),
        /// `SIGIO`
        InputOutput = (29, "IO", None, "I/O is possible"),
        /// `SIGPWR`
        Power = (30, "PWR", None, "power failure; containers shut down"),
        /// `SIGSYS`
        System = (31, "SYS", None, "bad system call; core dump"),
    }
    /// All signals, by number.
    pub const ALL;
    fn row -> (u8, &'static str, Option<char>, &'static str);
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

    /// Returns the key that chooses it, if it is a common one.
    pub const fn key(self) -> Option<char> {
        self.row().2
    }

    /// Describes what it means to a process.
    pub const fn help(self) -> &'static str {
        self.row().3
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
