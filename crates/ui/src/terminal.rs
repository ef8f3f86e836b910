//! Enters raw mode and the alternate screen, and always restores the terminal: at the end, on an
//! error, on a panic, on Ctrl-Z.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use crate::background::supports_query;
use crate::clipboard::{ATTRIBUTES_QUERY, AttributesReply};
use crate::keyboard::tty;
use gtop_local::lock::lock;
use ratatui::layout::Rect;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group, kill_process};
use rustix::termios::{LocalModes, QueueSelector, tcflush, tcgetattr, tcgetpgrp, tcgetwinsize};

/// Alternate screen, no cursor, focus events, bracketed paste, and no wrapping: a character that is
/// wider than assumed cannot push a line down.
const ENTER_SEQUENCE: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?1004h\x1b[?2004h\x1b[0m\x1b[2J";
/// Button events, no mouse motion.
const MOUSE_SEQUENCE: &str = "\x1b[?1000h\x1b[?1006h";
const LEAVE_SEQUENCE: &str =
    "\x1b[?2004l\x1b[?1004l\x1b[?1006l\x1b[?1000l\x1b[0m\x1b[2J\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Maximum columns and rows drawn, whatever the terminal reports, to bound memory.
const MAX_SIZE: (u16, u16) = (2_000, 1_000);
/// How long the terminal may take to reply at the end, and how often it is read: it also sends what is typed.
const REPLY_TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const MAX_REPLY_READS: usize = 16;
/// Panics of other threads that are kept until the terminal is restored.
const MAX_KEPT_PANICS: usize = 8;

/// True in raw mode and on the alternate screen; static for the panic hook.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);
/// True during a write, which may block forever.
static IS_WRITING: AtomicBool = AtomicBool::new(false);
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The entered terminal; restored when dropped.
#[derive(Debug)]
pub(crate) struct Terminal {
    has_mouse: bool,
}

#[expect(clippy::unused_self, reason = "only an entered terminal is drawn on")]
impl Terminal {
    pub(crate) fn enter(has_mouse: bool) -> io::Result<Self> {
        // Dropping it restores the terminal if a write below fails.
        let terminal = Self { has_mouse };
        enter_screen(has_mouse)?;
        Ok(terminal)
    }

    /// Enters the terminal again after SIGCONT, if in the foreground.
    ///
    /// A background process that touches the terminal is stopped at once, and then not even
    /// SIGTERM ends it.
    pub(crate) fn reenter(&self) -> io::Result<()> {
        if is_in_foreground() { enter_screen(self.has_mouse) } else { Ok(()) }
    }

    /// Returns true if the terminal is entered and this process is in its foreground.
    pub(crate) fn can_draw(&self) -> bool {
        IS_ENTERED.load(Ordering::SeqCst) && is_in_foreground()
    }

    /// Restores the terminal, stops the process group, and enters again when it continues.
    pub(crate) fn suspend(&self) -> io::Result<()> {
        restore();
        // The signal is delivered before this returns. An orphaned process group ignores it, and
        // gtop continues at once.
        kill_current_process_group(Signal::TSTP)?;
        self.reenter()
    }

    pub(crate) fn leave(&self) {
        restore();
    }

    /// Returns the size; an error if the terminal is closed.
    pub(crate) fn area(&self) -> io::Result<Rect> {
        let size = tcgetwinsize(io::stdout())?;
        Ok(area((size.ws_col, size.ws_row), |name| std::env::var(name).ok()))
    }

    /// Asks the terminal whether it takes texts for its clipboard. Nothing else may read it meanwhile.
    pub(crate) fn takes_clips(&self) -> bool {
        let term = std::env::var("TERM").unwrap_or_default();
        if !supports_query(&term) || !self.can_draw() || self.write(ATTRIBUTES_QUERY).is_err() {
            return false;
        }
        let Ok(tty) = tty() else { return false };
        match &tty {
            Some(tty) => reads_that_clips_are_taken(tty),
            None => reads_that_clips_are_taken(io::stdin()),
        }
    }

    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        write_all(&[text])
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Returns the area to draw on. A serial line, or a container that has just started, reports 0:
/// then `COLUMNS` and `LINES` count, or 80×24.
fn area(reported: (u16, u16), lookup: impl Fn(&str) -> Option<String>) -> Rect {
    let [width, height] = [(reported.0, "COLUMNS", 80), (reported.1, "LINES", 24)].map(
        |(reported, name, default)| {
            let length = Some(reported).filter(|length| *length > 0);
            let length = length.or_else(|| lookup(name)?.trim().parse().ok());
            length.filter(|length| *length > 0).unwrap_or(default)
        },
    );
    Rect::new(0, 0, width.min(MAX_SIZE.0), height.min(MAX_SIZE.1))
}

fn is_in_foreground() -> bool {
    // Standard input may be a list of hosts. If standard output is no terminal either, the process
    // counts as in the foreground.
    tcgetpgrp(io::stdout()).map_or(true, |group| group == getpgrp())
}

fn enter_screen(has_mouse: bool) -> io::Result<()> {
    crossterm::terminal::enable_raw_mode()?;
    IS_ENTERED.store(true, Ordering::SeqCst);
    write_all(&[ENTER_SEQUENCE, if has_mouse { MOUSE_SEQUENCE } else { "" }])
}

/// Prints a text on the restored terminal.
pub(crate) fn print(text: &str) -> io::Result<()> {
    write_all(&[text])
}

/// Reads the reply to [`ATTRIBUTES_QUERY`]; a terminal that does not reply does not take texts.
fn reads_that_clips_are_taken(tty: impl AsFd) -> bool {
    let (mut input, mut buffer) = (Vec::new(), [0; 256]);
    for _ in 0..MAX_REPLY_READS {
        let mut watched = [PollFd::new(&tty, PollFlags::IN)];
        let replies = poll(&mut watched, Some(&REPLY_TIMEOUT)).is_ok_and(|count| count > 0);
        let Some(read) = replies.then(|| rustix::io::read(&tty, &mut buffer).ok()).flatten() else {
            return false;
        };
        input.extend(buffer.iter().take(read));
        match AttributesReply::of(&input) {
            AttributesReply::TakesClips(takes) => return takes,
            AttributesReply::Partial if read == 0 => return false,
            AttributesReply::Partial => {}
        }
    }
    false
}

fn write_all(texts: &[&str]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    IS_WRITING.store(true, Ordering::SeqCst);
    let written = texts.iter().try_for_each(|text| out.write_all(text.as_bytes()));
    let written = written.and_then(|()| out.flush());
    IS_WRITING.store(false, Ordering::SeqCst);
    written
}

/// Discards output that a blocked terminal does not accept, so that the writer can continue and
/// restore the terminal.
pub fn unblock_terminal() {
    if IS_WRITING.load(Ordering::SeqCst) && is_in_foreground() {
        // Fails only if it is no terminal, or closed.
        tcflush(io::stdout(), QueueSelector::OFlush).ok();
        // Linux does not wake a blocked writer on a flush; a signal does.
        kill_process(getpid(), Signal::WINCH).ok();
    }
}

/// Restores the terminal as far as that works without blocking; called right before the process ends.
pub fn force_restore_terminal() {
    let is_taken = IS_ENTERED.load(Ordering::SeqCst) || IS_WRITING.load(Ordering::SeqCst);
    if !is_taken || !is_in_foreground() {
        return;
    }
    // Errors mean that the terminal is closed or that another thread restores it.
    crossterm::terminal::disable_raw_mode().ok();
    unblock_terminal();
    thread::Builder::new()
        .spawn(|| rustix::io::write(io::stdout(), LEAVE_SEQUENCE.as_bytes()))
        .ok();
}

/// Restores the terminal if it was entered; errors mean that it is closed.
///
/// In the background (after SIGSTOP) the shell has already reset the terminal modes, and they must
/// not be changed from there; only the alternate screen is left.
fn restore() {
    if !IS_ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    let is_foreground = is_in_foreground();
    if !is_foreground && stops_writers() {
        return;
    }
    let written = write_all(&[LEAVE_SEQUENCE]);
    let cooked = if is_foreground { crossterm::terminal::disable_raw_mode() } else { Ok(()) };
    if let Err(error) = written.and(cooked) {
        log::debug!("the terminal cannot be restored: {error}");
    }
}

/// Returns true if the terminal stops background writers (`stty tostop`).
fn stops_writers() -> bool {
    tcgetattr(io::stdout()).is_ok_and(|modes| modes.local_modes.contains(LocalModes::TOSTOP))
}

/// Shows panics after the terminal is restored; uninstalls its hook when dropped.
pub(crate) struct PanicGuard(Arc<Hook>);

type Hook = Box<dyn Fn(&panic::PanicHookInfo<'_>) + Send + Sync + 'static>;

impl PanicGuard {
    /// Installs the hook. A panic of this thread restores the terminal first; panics of other threads
    /// are kept until the terminal is restored.
    pub(crate) fn new() -> Self {
        let default: Arc<Hook> = Arc::new(panic::take_hook());
        let (ui_thread, shown): (ThreadId, _) = (thread::current().id(), Arc::clone(&default));
        panic::set_hook(Box::new(move |panic| {
            if thread::current().id() == ui_thread {
                restore();
            }
            if IS_ENTERED.load(Ordering::SeqCst) {
                keep_panic(panic.to_string());
            } else {
                shown(panic);
            }
        }));
        Self(default)
    }
}

fn keep_panic(panic: String) {
    let mut kept = lock(&PANICS);
    if kept.len() < MAX_KEPT_PANICS {
        kept.push(panic);
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if !thread::panicking() {
            let default = Arc::clone(&self.0);
            panic::set_hook(Box::new(move |panic| default(panic)));
        }
        let kept = std::mem::take(&mut *lock(&PANICS));
        let mut out = io::stderr().lock();
        for panic in kept {
            if writeln!(out, "gtop: {panic}").is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_is_never_empty_and_never_too_large() {
        let words = |text: &'static str| {
            move |name: &str| (name == "COLUMNS" || name == "LINES").then(|| text.to_owned())
        };
        for (reported, from_shell, size) in [
            ((80, 24), "100", (80, 24)),
            ((1, 1), "100", (1, 1)),
            ((0, 0), "", (80, 24)),
            ((0, 0), " 100 ", (100, 100)),
            ((0, 50), "0", (80, 50)),
            ((0, 0), "wide", (80, 24)),
            ((0, 0), "65535", MAX_SIZE),
            ((u16::MAX, u16::MAX), "", MAX_SIZE),
        ] {
            let area = area(reported, words(from_shell));
            assert_eq!((area.width, area.height), size, "{reported:?} {from_shell:?}");
        }
    }
}
