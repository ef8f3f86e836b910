//! Lines typed at the terminal before there is a screen, or while it stands aside.
//!
//! The line discipline's own editing is off while a line is typed, so that Ctrl-C ends the question
//! and not the program with a terminal that no longer echoes. What is typed is wiped.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use zeroize::{Zeroize, Zeroizing};

use crate::app::limits;
use crate::transport::Secret;

/// Longest line that is taken.
const LONGEST: usize = 1024;

/// What was typed.
#[derive(Debug)]
pub(super) enum Typed {
    Line(Secret),
    /// Ctrl-D on an empty line.
    End,
    /// Ctrl-C, or the terminal is gone.
    Interrupt,
}

/// One line to ask for.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) prompt: String,
    /// Whether the line is echoed, letter by letter.
    pub(super) is_shown: bool,
}

impl Ask {
    /// Shows the prompt on `out` and reads a line from the terminal at standard input; interrupted
    /// when `is_over` turns true.
    pub(super) fn put(&self, is_over: &AtomicBool, out: &mut impl Write) -> io::Result<Typed> {
        limits::forbid_core_dumps();
        let quiet = Quiet::begin()?;
        out.write_all(self.prompt.as_bytes())?;
        out.flush()?;
        let mut line = Line::default();
        let typed = loop {
            let ended = if is_over.load(Ordering::Relaxed) {
                Some(Typed::Interrupt)
            } else {
                match read_byte()? {
                    Read::Nothing => None,
                    Read::Byte(byte) => line.take(byte),
                    Read::End => Some(Typed::Interrupt),
                }
            };
            if self.is_shown {
                out.write_all(line.echo().as_bytes())?;
                out.flush()?;
            }
            if let Some(typed) = ended {
                break typed;
            }
        };
        drop(quiet);
        out.write_all(b"\n")?;
        Ok(typed)
    }
}

enum Read {
    /// Nothing was typed for a while.
    Nothing,
    Byte(u8),
    /// The terminal is gone.
    End,
}

/// Waits a little for a byte from the terminal.
fn read_byte() -> io::Result<Read> {
    let stdin = io::stdin();
    let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&wait)) {
        Ok(0) | Err(Errno::INTR) => return Ok(Read::Nothing),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut byte = [0];
    match rustix::io::read(&stdin, &mut byte) {
        // A terminal that is gone says the one or the other.
        Ok(0) | Err(Errno::IO) => Ok(Read::End),
        Ok(_) => Ok(Read::Byte(std::mem::take(&mut byte[0]))),
        Err(Errno::INTR) => Ok(Read::Nothing),
        Err(error) => Err(error.into()),
    }
}

/// How the terminal was before it was asked not to echo.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Lets the terminal echo again while somebody is being asked. Whoever calls this is about to end
/// the program.
pub(super) fn force_back() {
    if let Some(modes) = take_before() {
        // A terminal that is gone needs nothing.
        tcsetattr(io::stdin(), OptionalActions::Now, &modes).ok();
    }
}

fn take_before() -> Option<Termios> {
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The terminal while it neither echoes nor edits; as before when dropped.
struct Quiet;

impl Quiet {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut modes = before.clone();
        modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        // What was typed before the question is no answer to it.
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let quiet = Self;
        tcsetattr(io::stdin(), OptionalActions::Flush, &modes)?;
        Ok(quiet)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(modes) = take_before() {
            // A terminal that is gone needs nothing.
            tcsetattr(io::stdin(), OptionalActions::Flush, &modes).ok();
        }
    }
}

/// A line that is being typed.
struct Line {
    /// Never grows: what moves leaves a copy behind.
    bytes: Zeroizing<Vec<u8>>,
    /// What a terminal shows of the last byte.
    echo: &'static str,
    /// The letters still to be shown.
    from: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: Zeroizing::new(Vec::with_capacity(LONGEST)), echo: "", from: 0 }
    }
}

impl Line {
    /// Takes a byte; says how the line ended, if it did.
    fn take(&mut self, byte: u8) -> Option<Typed> {
        self.echo = "";
        match byte {
            b'\r' | b'\n' => return Some(Typed::Line(self.text())),
            0x03 => return Some(Typed::Interrupt),
            0x04 if self.bytes.is_empty() => return Some(Typed::End),
            0x08 | 0x7f => self.rub_out(),
            0x15 => {
                self.bytes.zeroize();
                self.from = 0;
                self.echo = "\r\x1b[K";
            }
            byte if byte < 0x20 => {}
            byte if self.bytes.len() < LONGEST => self.bytes.push(byte),
            _ => {}
        }
        None
    }

    /// Removes the last letter, all of its bytes.
    fn rub_out(&mut self) {
        while let Some(byte) = self.bytes.pop() {
            if byte & 0xC0 != 0x80 {
                self.echo = "\x08 \x08";
                break;
            }
        }
        self.from = self.from.min(self.bytes.len());
    }

    /// Returns what to show after the last byte.
    fn echo(&mut self) -> String {
        let new = self.bytes.get(self.from..).unwrap_or_default();
        let Ok(new) = std::str::from_utf8(new) else { return self.echo.to_owned() };
        let text = format!("{}{new}", self.echo);
        self.from = self.bytes.len();
        text
    }

    fn text(&self) -> Secret {
        Secret::from(String::from_utf8_lossy(&self.bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[u8]) -> (Option<String>, String) {
        let (mut line, mut shown) = (Line::default(), String::new());
        for byte in keys {
            let ended = line.take(*byte);
            shown.push_str(&line.echo());
            match ended {
                Some(Typed::Line(secret)) => return (Some(secret.expose().to_owned()), shown),
                Some(Typed::End | Typed::Interrupt) => return (None, shown),
                None => {}
            }
        }
        panic!("the line does not end");
    }

    #[test]
    fn a_line_can_be_corrected_and_given_up() {
        for (keys, want) in [
            (&b"abc\r"[..], Some("abc")),
            (b"abx\x7fc\n", Some("abc")),
            (b"wrong\x15right\n", Some("right")),
            ("aé\u{7f}b\n".as_bytes(), Some("ab")),
            (b"\x7f\n", Some("")),
            (b"a\x1b\x04b\n", Some("ab")),
            (b"\x04", None),
            (b"secret\x03", None),
        ] {
            assert_eq!(typed(keys).0.as_deref(), want, "{keys:?}");
        }
        let long = [vec![b'x'; 5000], vec![b'\n']].concat();
        assert_eq!(typed(&long).0.map(|text| text.len()), Some(LONGEST));
    }

    #[test]
    fn a_shown_line_appears_letter_by_letter() {
        assert_eq!(typed("né\n".as_bytes()).1, "né");
        assert_eq!(typed(b"ab\x7f\n").1, "ab\x08 \x08");
    }
}
