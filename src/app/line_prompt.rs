//! Reads lines from the terminal, before the screen starts or while it is suspended, or from the program of
//! `SSH_ASKPASS`.
//!
//! Canonical mode, echo and signals are off meanwhile, so that Ctrl-C ends the prompt and never leaves a
//! terminal without echo. The input is wiped from memory.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};
use zeroize::{Zeroize, Zeroizing};

use crate::app::limits;
use crate::app::prompt_place::PromptPlace;
use gtop_local::lock::lock;
use gtop_local::process::run_askpass;
use gtop_ssh::Secret;
use gtop_ui::{StopReason, StopSignals};

/// Maximum length of a line.
const MAX_LINE_BYTES: usize = 1024;

/// How a prompt ended.
#[derive(Debug)]
pub(super) enum LineInput {
    Line(Secret),
    /// Ctrl-D on an empty line.
    End,
    /// Ctrl-C, a signal, or the terminal is closed.
    Interrupt,
}

/// A prompt for one line.
#[derive(Clone, Debug)]
pub(super) struct LinePrompt {
    pub(super) prompt: String,
    /// Echo what is typed.
    pub(super) is_shown: bool,
}

impl LinePrompt {
    /// Asks for a line. Returns [`LineInput::Interrupt`] soon after `is_over` becomes true.
    pub(super) fn ask(
        &self,
        place: &PromptPlace,
        is_over: &AtomicBool,
        out: &mut impl Write,
    ) -> io::Result<LineInput> {
        limits::forbid_core_dumps();
        let PromptPlace::Program(program) = place else { return self.read_line(is_over, out) };
        let answer = run_askpass(program, &self.prompt, false, is_over);
        let answer = answer.map_err(|error| {
            let why = format!("cannot start SSH_ASKPASS ({}): {error}", program.display());
            io::Error::new(error.kind(), why)
        })?;
        Ok(match answer {
            Some(answer) => LineInput::Line(Secret::from(answer)),
            None if is_over.load(Ordering::Relaxed) => LineInput::Interrupt,
            None => LineInput::End,
        })
    }

    /// Writes the prompt to `out` and reads a line from the terminal.
    fn read_line(&self, is_over: &AtomicBool, out: &mut impl Write) -> io::Result<LineInput> {
        let no_echo = NoEcho::for_prompt()?;
        out.write_all(self.prompt.as_bytes())?;
        out.flush()?;
        let mut line = LineBuffer::default();
        let input = loop {
            let ended = if is_over.load(Ordering::Relaxed) {
                Some(LineInput::Interrupt)
            } else {
                match read_byte()? {
                    ByteRead::Timeout => None,
                    ByteRead::Byte(byte) => line.push(byte),
                    ByteRead::Closed => Some(LineInput::Interrupt),
                }
            };
            if self.is_shown {
                out.write_all(line.echo().as_bytes())?;
                out.flush()?;
            }
            if let Some(input) = ended {
                break input;
            }
        };
        drop(no_echo);
        out.write_all(b"\n")?;
        Ok(input)
    }
}

/// Asks on a thread of its own, until a signal comes, which may be in the middle of a line.
pub(super) async fn until_stopped<T: Send + 'static>(
    signals: &mut StopSignals,
    ask: impl FnOnce(&AtomicBool) -> io::Result<T> + Send + 'static,
) -> io::Result<Result<T, StopReason>> {
    let is_over = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_over);
    let mut asking = tokio::task::spawn_blocking(move || ask(&stop));
    tokio::select! {
        answer = &mut asking => Ok(Ok(answer.map_err(io::Error::other)??)),
        reason = signals.next() => {
            is_over.store(true, Ordering::Relaxed);
            drop(asking.await);
            Ok(Err(reason))
        }
    }
}

/// Returns the terminal that lines are read from: standard input, or that of the session if standard input is a file.
fn terminal() -> BorrowedFd<'static> {
    static OF_SESSION: OnceLock<Option<File>> = OnceLock::new();
    let stdin = rustix::stdio::stdin();
    if stdin.is_terminal() {
        return stdin;
    }
    let of_session = OF_SESSION.get_or_init(|| File::open("/dev/tty").ok());
    of_session.as_ref().map_or(stdin, AsFd::as_fd)
}

enum ByteRead {
    /// No input within 100 ms.
    Timeout,
    Byte(u8),
    Closed,
}

/// Waits up to 100 ms for a byte from the terminal.
fn read_byte() -> io::Result<ByteRead> {
    let terminal = terminal();
    let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    match poll(&mut [PollFd::new(&terminal, PollFlags::IN)], Some(&wait)) {
        Ok(0) | Err(Errno::INTR) => return Ok(ByteRead::Timeout),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut byte = [0];
    match rustix::io::read(terminal, &mut byte) {
        // A closed terminal reads as end of file or as EIO.
        Ok(0) | Err(Errno::IO) => Ok(ByteRead::Closed),
        Ok(_) => Ok(ByteRead::Byte(std::mem::take(&mut byte[0]))),
        Err(Errno::INTR) => Ok(ByteRead::Timeout),
        Err(error) => Err(error.into()),
    }
}

/// The terminal modes to restore, the first ones first: those of each [`NoEcho`].
static SAVED_MODES: Mutex<Vec<Termios>> = Mutex::new(Vec::new());

/// Restores the terminal if a prompt is open. For the watchdog, which ends the program next.
pub(super) fn restore_echo() {
    if let Some(modes) = lock(&SAVED_MODES).drain(..).next() {
        // Fails if the terminal is closed; then there is nothing to restore.
        tcsetattr(terminal(), OptionalActions::Now, &modes).ok();
    }
}

/// Turns off echo; restores the modes when dropped.
#[derive(Debug)]
pub(super) struct NoEcho(());

impl NoEcho {
    /// Turns off echo while there is no prompt, so that a password typed too early is not shown. `None` if this
    /// process must not change the terminal.
    pub(super) fn between_prompts() -> Option<Self> {
        // If this fails, it is not the terminal that controls this process, which then is never stopped by it.
        if tcgetpgrp(terminal()).is_ok_and(|group| group != getpgrp()) {
            return None;
        }
        let no_echo = Self::begin(OptionalActions::Now, |modes| {
            modes.local_modes.remove(LocalModes::ECHO);
        });
        no_echo.ok()
    }

    /// Gives all input to a program elsewhere as it is typed, which shows and handles it. `None` if this process must not
    /// change the terminal.
    pub(super) fn for_program_elsewhere() -> Option<Self> {
        Self::begin(OptionalActions::Drain, Termios::make_raw).ok()
    }

    /// Turns off echo, line editing and signals.
    fn for_prompt() -> io::Result<Self> {
        // Flush discards type-ahead: it does not answer this prompt.
        Self::begin(OptionalActions::Flush, |modes| {
            modes.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
            modes.special_codes[SpecialCodeIndex::VMIN] = 1;
            modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        })
    }

    fn begin(when: OptionalActions, change: impl FnOnce(&mut Termios)) -> io::Result<Self> {
        let before = tcgetattr(terminal())?;
        let mut modes = before.clone();
        change(&mut modes);
        lock(&SAVED_MODES).push(before);
        let no_echo = Self(());
        tcsetattr(terminal(), when, &modes)?;
        Ok(no_echo)
    }
}

impl Drop for NoEcho {
    fn drop(&mut self) {
        if let Some(modes) = lock(&SAVED_MODES).pop() {
            // Fails if the terminal is closed; then there is nothing to restore.
            tcsetattr(terminal(), OptionalActions::Flush, &modes).ok();
        }
    }
}

/// The line typed so far.
struct LineBuffer {
    /// Never reallocates, because that would leave a copy in freed memory.
    bytes: Zeroizing<Vec<u8>>,
    /// Escape sequence to print for the last byte.
    echo: &'static str,
    /// Number of characters already echoed.
    shown: usize,
}

impl Default for LineBuffer {
    fn default() -> Self {
        Self { bytes: Zeroizing::new(Vec::with_capacity(MAX_LINE_BYTES)), echo: "", shown: 0 }
    }
}

impl LineBuffer {
    /// Handles a byte; returns how the line ended, or `None` if it goes on.
    fn push(&mut self, byte: u8) -> Option<LineInput> {
        self.echo = "";
        match byte {
            b'\r' | b'\n' => return Some(LineInput::Line(self.text())),
            0x03 => return Some(LineInput::Interrupt),
            0x04 if self.bytes.is_empty() => return Some(LineInput::End),
            0x08 | 0x7f => self.backspace(),
            0x15 => {
                self.bytes.zeroize();
                self.shown = 0;
                self.echo = "\r\x1b[K";
            }
            byte if byte < 0x20 => {}
            byte if self.bytes.len() < MAX_LINE_BYTES => self.bytes.push(byte),
            _ => {}
        }
        None
    }

    /// Removes the last character with all its bytes.
    fn backspace(&mut self) {
        while let Some(byte) = self.bytes.pop() {
            if byte & 0xC0 != 0x80 {
                self.echo = "\x08 \x08";
                break;
            }
        }
        self.shown = self.shown.min(self.bytes.len());
    }

    /// Returns what to print after the last byte.
    fn echo(&mut self) -> String {
        let new = self.bytes.get(self.shown..).unwrap_or_default();
        let Ok(new) = std::str::from_utf8(new) else { return self.echo.to_owned() };
        let text = format!("{}{new}", self.echo);
        self.shown = self.bytes.len();
        text
    }

    fn text(&self) -> Secret {
        Secret::from(String::from_utf8_lossy(&self.bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_keys(keys: &[u8]) -> (Option<String>, String) {
        let (mut line, mut shown) = (LineBuffer::default(), String::new());
        for byte in keys {
            let ended = line.push(*byte);
            shown.push_str(&line.echo());
            match ended {
                Some(LineInput::Line(secret)) => return (Some(secret.expose().to_owned()), shown),
                Some(LineInput::End | LineInput::Interrupt) => return (None, shown),
                None => {}
            }
        }
        panic!("the line does not end");
    }

    #[test]
    fn a_line_can_be_edited_and_cancelled() {
        for (keys, expected) in [
            (&b"abc\r"[..], Some("abc")),
            (b"abx\x7fc\n", Some("abc")),
            (b"wrong\x15right\n", Some("right")),
            ("aé\u{7f}b\n".as_bytes(), Some("ab")),
            (b"\x7f\n", Some("")),
            (b"a\x1b\x04b\n", Some("ab")),
            (b"\x04", None),
            (b"secret\x03", None),
        ] {
            assert_eq!(type_keys(keys).0.as_deref(), expected, "{keys:?}");
        }
        let long = [vec![b'x'; 5000], vec![b'\n']].concat();
        assert_eq!(type_keys(&long).0.map(|text| text.len()), Some(MAX_LINE_BYTES));
    }

    #[test]
    fn a_shown_line_is_echoed_character_by_character() {
        assert_eq!(type_keys("né\n".as_bytes()).1, "né");
        assert_eq!(type_keys(b"ab\x7f\n").1, "ab\x08 \x08");
    }
}
