//! Chooses between the screen and printed output.

use std::fs::File;
use std::io::{self, IsTerminal};

use crate::cli::{Cli, CliCommand};

/// How nodes are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputMode {
    /// On a terminal that shows a full screen and has a keyboard.
    Screen,
    /// One snapshot is printed; holds the reason if the terminal should show the screen and cannot.
    Once(Option<&'static str>),
    /// A snapshot per interval is printed.
    Continuous,
    /// Nothing is shown, only recorded.
    Record,
}

/// `TERM=dumb`: the terminal cannot move the cursor, such as a shell in an editor.
const DUMB_TERMINAL: &str = "TERM is dumb, so one snapshot is printed; use --json --watch to keep printing, \
     or TERM=xterm for the screen if the terminal supports it";

const NO_KEYBOARD: &str = "no keyboard (standard input is not a terminal and /dev/tty cannot be opened), so \
     one snapshot is printed; use --json --watch to keep printing";

impl OutputMode {
    /// Returns the mode that the options request, or else the one that standard output allows.
    pub(super) fn of(cli: &Cli) -> Self {
        let options = &cli.output;
        match &cli.command {
            Some(CliCommand::Record(_) | CliCommand::Report(_) | CliCommand::Serve(_)) => {
                return Self::Record;
            }
            Some(CliCommand::Pick(_)) => return Self::Once(None),
            Some(CliCommand::Runs(runs)) if runs.csv.once => return Self::Once(None),
            Some(CliCommand::Runs(runs)) if runs.csv.headless => return Self::Continuous,
            Some(_) | None => {}
        }
        if options.watch {
            return Self::Continuous;
        }
        let print = &options.print;
        if print.once || print.json || print.csv || print.problems {
            return Self::Once(None);
        }
        let term = std::env::var("TERM").ok();
        Self::detect(io::stdout().is_terminal(), term.as_deref(), || {
            io::stdin().is_terminal() || File::open("/dev/tty").is_ok()
        })
    }

    /// `TERM` unset counts as capable: nearly all terminals are.
    fn detect(is_terminal: bool, term: Option<&str>, has_keyboard: impl FnOnce() -> bool) -> Self {
        if !is_terminal {
            Self::Once(None)
        } else if term == Some("dumb") {
            Self::Once(Some(DUMB_TERMINAL))
        } else if has_keyboard() {
            Self::Screen
        } else {
            Self::Once(Some(NO_KEYBOARD))
        }
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
            (true, Some("dumb"), true, OutputMode::Once(Some(DUMB_TERMINAL))),
            (true, Some("dumb"), false, OutputMode::Once(Some(DUMB_TERMINAL))),
            (true, Some("xterm"), false, OutputMode::Once(Some(NO_KEYBOARD))),
            (false, Some("xterm"), true, OutputMode::Once(None)),
            (false, Some("dumb"), false, OutputMode::Once(None)),
        ] {
            assert_eq!(
                OutputMode::detect(is_terminal, term, || has_keyboard),
                output_mode,
                "{is_terminal} {term:?}"
            );
        }
    }
}
