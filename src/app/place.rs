//! Where output goes, and whether a screen can be shown there.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal};

/// Where output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Somewhere that is no terminal: a pipe or a file.
    Elsewhere,
    /// A terminal that shows a screen, with keys to press.
    Screen,
    /// A terminal that takes lines of text and nothing else.
    Lines(Lack),
}

/// What a terminal lacks to show a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// It moves no cursor, as shells within editors.
    Cursor,
    /// Nobody can press a key on it.
    Keys,
}

impl Place {
    /// Returns where standard output goes.
    pub(super) fn of_this_process() -> Self {
        let has_keys = || io::stdin().is_terminal() || File::open("/dev/tty").is_ok();
        Self::of(io::stdout().is_terminal(), std::env::var("TERM").ok().as_deref(), has_keys)
    }

    /// A terminal without a name is taken for one that shows a screen, as nearly all do.
    fn of(is_terminal: bool, term: Option<&str>, has_keys: impl FnOnce() -> bool) -> Self {
        if !is_terminal {
            Self::Elsewhere
        } else if term == Some("dumb") {
            Self::Lines(Lack::Cursor)
        } else if has_keys() {
            Self::Screen
        } else {
            Self::Lines(Lack::Keys)
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cursor => {
                "this terminal shows no screen (TERM is dumb), so one picture is printed; --json \
                 --watch goes on printing, and TERM=xterm brings the screen where the terminal has one"
            }
            Self::Keys => {
                "nobody can press a key here (standard input is no terminal, and there is no \
                 /dev/tty), so one picture is printed; --json --watch goes on printing"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_needs_a_cursor_and_keys() {
        for (is_terminal, term, has_keys, place) in [
            (true, Some("xterm-256color"), true, Place::Screen),
            (true, None, true, Place::Screen),
            (true, Some(""), true, Place::Screen),
            (true, Some("dumb"), true, Place::Lines(Lack::Cursor)),
            (true, Some("dumb"), false, Place::Lines(Lack::Cursor)),
            (true, Some("xterm"), false, Place::Lines(Lack::Keys)),
            (false, Some("xterm"), true, Place::Elsewhere),
            (false, Some("dumb"), false, Place::Elsewhere),
        ] {
            assert_eq!(Place::of(is_terminal, term, || has_keys), place, "{is_terminal} {term:?}");
        }
    }
}
