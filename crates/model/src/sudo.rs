//! Root on the nodes: as whom a probe is to run, and why it does not run as root.

use crate::declare::table;

/// As whom a probe is to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Privilege {
    /// As the user who logs in.
    #[default]
    Login,
    /// As root, through `sudo -n`.
    Root {
        /// Otherwise the probe refuses to send signals.
        allows_signals: bool,
    },
}

/// What came of a probe that is to run as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SudoState {
    /// It runs as root.
    Root,
    /// It runs as the user who logs in.
    Refused(SudoRefusal),
}

table! {
    /// Why a probe that is to run as root runs as the user who logs in.
    pub enum SudoRefusal {
        /// No line of sudoers permits the command without a password, or none at all.
        Password = ("password", "sudo asks for a password"),
        /// sudo does not permit the command.
        Denied = ("denied", "sudo does not permit it"),
        /// sudo runs only in a terminal (`requiretty`).
        Terminal = ("terminal", "sudo wants a terminal (requiretty)"),
        /// There is no sudo.
        Missing = ("missing", "sudo is not installed"),
        /// There is no Python that is started as root.
        Python = ("python", "no Python 3.6 in /usr/bin, and sh is never run as root"),
        /// It runs in a step of a job.
        Step = ("step", gtop_local::fault::NO_ROOT_IN_STEP),
        /// Anything else.
        Failed = ("failed", "sudo failed"),
    }
    /// All of them.
    pub const ALL;
    fn texts -> (&'static str, &'static str);
}

impl SudoRefusal {
    /// Returns its name, in letters.
    pub const fn as_str(self) -> &'static str {
        self.texts().0
    }

    /// Returns the reason as a short text.
    pub const fn text(self) -> &'static str {
        self.texts().1
    }

    /// Returns the reason for what sudo, or the shell that starts it, prints in the C locale.
    pub fn of_output(output: &str) -> Self {
        let signs = [
            ("must have a tty", Self::Terminal),
            ("not allowed to", Self::Denied),
            ("not in the sudoers", Self::Denied),
            ("may not run sudo", Self::Denied),
            ("password is required", Self::Password),
            ("no askpass", Self::Password),
        ];
        if let Some((_, refusal)) = signs.into_iter().find(|(sign, _)| output.contains(sign)) {
            return refusal;
        }
        let is_missing = output.contains("not found") || output.contains("No such file");
        if is_missing && output.contains("sudo") { Self::Missing } else { Self::Failed }
    }

    /// Returns true if a line of sudoers permits it.
    pub const fn is_of_sudoers(self) -> bool {
        matches!(self, Self::Password | Self::Denied | Self::Terminal | Self::Failed)
    }
}

impl SudoState {
    /// Returns the state that a probe names.
    pub fn of_word(word: &str) -> Self {
        if word == "root" {
            return Self::Root;
        }
        let known = SudoRefusal::ALL.into_iter().find(|refusal| refusal.as_str() == word);
        Self::Refused(known.unwrap_or(SudoRefusal::Failed))
    }

    /// Returns the name that probes send, also used in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Refused(refusal) => refusal.as_str(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_a_word_of_letters_that_leads_back_to_it() {
        for refusal in SudoRefusal::ALL {
            let state = SudoState::Refused(refusal);
            assert!(state.as_str().bytes().all(|byte| byte.is_ascii_lowercase()));
            assert_eq!(SudoState::of_word(state.as_str()), state);
        }
        assert_eq!(SudoState::of_word("root"), SudoState::Root);
        assert_eq!(SudoState::of_word("?"), SudoState::Refused(SudoRefusal::Failed));
    }

    #[test]
    fn what_sudo_and_the_shell_print_tells_the_reason() {
        for (output, refusal) in [
            ("sudo: a password is required", SudoRefusal::Password),
            ("sudo: sorry, you must have a tty to run sudo", SudoRefusal::Terminal),
            ("Sorry, user ada is not allowed to execute '/x' as root on n1.", SudoRefusal::Denied),
            ("ada is not in the sudoers file.", SudoRefusal::Denied),
            ("/bin/sh: 1: exec: sudo: not found", SudoRefusal::Missing),
            ("sudo: error initializing audit plugin", SudoRefusal::Failed),
        ] {
            assert_eq!(SudoRefusal::of_output(output), refusal, "{output}");
        }
    }
}
