//! Where the user is asked: at the terminal, or by the program of `SSH_ASKPASS`, by the rules of ssh.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::path::PathBuf;

/// Where questions are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PromptPlace {
    Terminal,
    /// The program of `SSH_ASKPASS`.
    Program(PathBuf),
}

/// What decides where questions are asked.
#[derive(Clone, Copy, Debug, Default)]
struct PlaceChoice<'a> {
    /// Questions can be read from and written to a terminal.
    can_use_terminal: bool,
    /// gtop has a terminal, even if its input or output is another one.
    has_terminal: bool,
    /// There is a screen to open windows on.
    has_display: bool,
    askpass: Option<&'a OsStr>,
    /// `SSH_ASKPASS_REQUIRE`.
    require: Option<&'a OsStr>,
}

impl PromptPlace {
    /// Returns where to ask before monitoring begins; `None` without a terminal and a program.
    pub(super) fn at_start() -> Option<Self> {
        Self::by_environment(io::stdin().is_terminal() && io::stderr().is_terminal())
    }

    /// Returns where `gtop login` asks: its input may be a list of hosts.
    pub(super) fn for_login() -> Option<Self> {
        let can_read = io::stdin().is_terminal() || has_terminal();
        Self::by_environment(can_read && io::stderr().is_terminal())
    }

    fn by_environment(can_use_terminal: bool) -> Option<Self> {
        let (askpass, require) = (variable("SSH_ASKPASS"), variable("SSH_ASKPASS_REQUIRE"));
        let choice = PlaceChoice {
            can_use_terminal,
            has_terminal: has_terminal(),
            has_display: variable("DISPLAY").or_else(|| variable("WAYLAND_DISPLAY")).is_some(),
            askpass: askpass.as_deref(),
            require: require.as_deref(),
        };
        choice.place()
    }
}

impl PlaceChoice<'_> {
    fn place(self) -> Option<PromptPlace> {
        let program = self.askpass.map(|program| PromptPlace::Program(program.into()));
        if self.requires("force") || (self.requires("prefer") && self.has_display) {
            return program;
        }
        if self.can_use_terminal {
            return Some(PromptPlace::Terminal);
        }
        program.filter(|_| !self.has_terminal && self.has_display && !self.requires("never"))
    }

    fn requires(self, value: &str) -> bool {
        self.require.is_some_and(|set| set.eq_ignore_ascii_case(value))
    }
}

/// Returns an environment variable that is not empty.
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns true if gtop has a terminal.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_asked_where_ssh_asks_them() {
        let program = || Some(PromptPlace::Program("ask".into()));
        let base = PlaceChoice { askpass: Some(OsStr::new("ask")), ..PlaceChoice::default() };
        let at_terminal = PlaceChoice { can_use_terminal: true, has_terminal: true, ..base };
        let on_display = PlaceChoice { has_display: true, ..base };
        for (choice, require, expected) in [
            (at_terminal, "", Some(PromptPlace::Terminal)),
            (at_terminal, "force", program()),
            (at_terminal, "prefer", Some(PromptPlace::Terminal)),
            (PlaceChoice { has_display: true, ..at_terminal }, "", Some(PromptPlace::Terminal)),
            (PlaceChoice { has_display: true, ..at_terminal }, "prefer", program()),
            (base, "", None),
            (base, "force", program()),
            (on_display, "", program()),
            (on_display, "never", None),
            (PlaceChoice { has_terminal: true, ..on_display }, "", None),
            (PlaceChoice { askpass: None, ..on_display }, "", None),
        ] {
            let choice = PlaceChoice { require: Some(OsStr::new(require)), ..choice };
            assert_eq!(choice.place(), expected, "{choice:?}");
        }
    }
}
