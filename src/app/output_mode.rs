//! Detects what standard output is, and whether it can show a full screen.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal};

/// What standard output is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputMode {
    /// A pipe or a file.
    Redirected,
    /// A terminal that shows a full screen and has a keyboard.
    Screen,
    /// A terminal that can only show lines.
    LinesOnly(NoScreen),
}

/// Why a terminal cannot show the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoScreen {
    /// `TERM=dumb`: it cannot move the cursor, such as a shell in an editor.
    DumbTerminal,
    /// There is no keyboard input.
    NoKeyboard,
}

impl OutputMode {
    pub(super) fn detect() -> Self {
        let has_keyboard = || io::stdin().is_terminal() || File::open("/dev/tty").is_ok();
        Self::select(
            io::stdout().is_terminal(),
            std::env::var("TERM").ok().as_deref(),
            has_keyboard,
        )
    }

    /// `TERM` unset counts as capable: nearly all terminals are.
    fn select(is_terminal: bool, term: Option<&str>, has_keyboard: impl FnOnce() -> bool) -> Self {
        if !is_terminal {
            Self::Redirected
        } else if term == Some("dumb") {
            Self::LinesOnly(NoScreen::DumbTerminal)
        } else if has_keyboard() {
            Self::Screen
        } else {
            Self::LinesOnly(NoScreen::NoKeyboard)
        }
    }
}

impl fmt::Display for NoScreen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DumbTerminal => {
                "TERM is dumb, so one snapshot is printed; use --json --watch to keep printing, or \
                 TERM=xterm for the screen if the terminal supports it"
            }
            Self::NoKeyboard => {
                "no keyboard (standard input is not a terminal and /dev/tty cannot be opened), so one \
                 snapshot is printed; use --json --watch to keep printing"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_needs_a_capable_terminal_and_a_keyboard() {
        for (is_terminal, term, has_keyboard, output_mode) in [
            (true, Some("xterm-256color"), true, OutputMode::Screen),
            (true, None, true, OutputMode::Screen),
            (true, Some(""), true, OutputMode::Screen),
            (true, Some("dumb"), true, OutputMode::LinesOnly(NoScreen::DumbTerminal)),
            (true, Some("dumb"), false, OutputMode::LinesOnly(NoScreen::DumbTerminal)),
            (true, Some("xterm"), false, OutputMode::LinesOnly(NoScreen::NoKeyboard)),
            (false, Some("xterm"), true, OutputMode::Redirected),
            (false, Some("dumb"), false, OutputMode::Redirected),
        ] {
            assert_eq!(
                OutputMode::select(is_terminal, term, || has_keyboard),
                output_mode,
                "{is_terminal} {term:?}"
            );
        }
    }
}
