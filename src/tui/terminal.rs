//! Takes the terminal and always gives it back: at the end, on an error, on a panic, when stopped.

use std::io::{self, Write as _};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use ratatui::layout::Rect;
use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group, kill_process};
use rustix::termios::{LocalModes, QueueSelector, tcflush, tcgetattr, tcgetpgrp, tcgetwinsize};

/// Other screen, no cursor, whether somebody looks, what is pasted told from keys, and no wrapping: a
/// sign wider than we think cannot push a line down.
const ENTER_SEQUENCE: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?1004h\x1b[?2004h\x1b[0m\x1b[2J";
/// Clicks and no other moves of the mouse.
const MOUSE_SEQUENCE: &str = "\x1b[?1000h\x1b[?1006h";
const LEAVE_SEQUENCE: &str =
    "\x1b[?2004l\x1b[?1004l\x1b[?1006l\x1b[?1000l\x1b[0m\x1b[2J\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Columns and rows that are drawn at most, whatever the terminal says: a screen takes memory.
const MAX_SIZE: (u16, u16) = (2_000, 1_000);
/// Panics of other threads kept for the end.
const MAX_KEPT_PANICS: usize = 8;

/// The terminal is ours. One process has one terminal, and a panic hook must know.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);
/// Something is being written to the terminal, which may never take it.
static IS_WRITING: AtomicBool = AtomicBool::new(false);
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The terminal while it is ours; given back when dropped.
#[derive(Debug)]
pub(crate) struct Terminal {
    has_mouse: bool,
}

impl Terminal {
    /// Takes the terminal, with its mouse or without.
    pub(crate) fn enter(has_mouse: bool) -> io::Result<Self> {
        // Dropped, it gives back what was taken before a write failed.
        let terminal = Self { has_mouse };
        enter_screen(has_mouse)?;
        Ok(terminal)
    }

    /// Takes the terminal again after we were stopped, if we were brought to the foreground.
    ///
    /// In the background it is somebody else's: whoever touches it there is stopped at once, and
    /// could not even be ended.
    pub(crate) fn reenter(&self) -> io::Result<()> {
        if is_in_foreground() { enter_screen(self.has_mouse) } else { Ok(()) }
    }

    /// Says whether the terminal is ours to draw on.
    pub(crate) fn can_draw(&self) -> bool {
        let Self { has_mouse: _ } = self;
        IS_ENTERED.load(Ordering::SeqCst) && is_in_foreground()
    }

    /// Gives the terminal back, stops the process group, and takes the terminal when it goes on.
    pub(crate) fn suspend(&self) -> io::Result<()> {
        restore();
        // The main thread gets it before this returns. In a group nobody could continue it does
        // nothing, and we go on at once.
        kill_current_process_group(Signal::TSTP)?;
        self.reenter()
    }

    /// Gives the terminal back until it is entered again.
    pub(crate) fn leave(&self) {
        let Self { has_mouse: _ } = self;
        restore();
    }

    /// Returns the size; an error when the terminal is gone.
    pub(crate) fn area(&self) -> io::Result<Rect> {
        let Self { has_mouse: _ } = self;
        let size = tcgetwinsize(io::stdout())?;
        Ok(area((size.ws_col, size.ws_row), |name| std::env::var(name).ok()))
    }

    /// Writes a frame.
    pub(crate) fn write(&self, text: &str) -> io::Result<()> {
        let Self { has_mouse: _ } = self;
        write_all(&[text])
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// What there is to draw on. Serial lines know no size, and new containers not yet: what the
/// variables of shells say holds then, or what terminals usually were.
fn area(reported: (u16, u16), lookup: impl Fn(&str) -> Option<String>) -> Rect {
    let sensible = |reported: u16, name: &str, default: u16, most: u16| {
        let from_shell = || lookup(name)?.trim().parse().ok().filter(|from_shell| *from_shell > 0);
        if reported > 0 { reported } else { from_shell().unwrap_or(default) }.min(most)
    };
    let width = sensible(reported.0, "COLUMNS", 80, MAX_SIZE.0);
    Rect::new(0, 0, width, sensible(reported.1, "LINES", 24, MAX_SIZE.1))
}

/// A terminal that cannot tell is taken for ours.
fn is_in_foreground() -> bool {
    // Hosts may come by standard input, and then that is no terminal.
    tcgetpgrp(io::stdout()).map_or(true, |group| group == getpgrp())
}

fn enter_screen(has_mouse: bool) -> io::Result<()> {
    crossterm::terminal::enable_raw_mode()?;
    IS_ENTERED.store(true, Ordering::SeqCst);
    write_all(&[ENTER_SEQUENCE, if has_mouse { MOUSE_SEQUENCE } else { "" }])
}

fn write_all(texts: &[&str]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    IS_WRITING.store(true, Ordering::SeqCst);
    let mut write = |text: &&str| out.write_all(text.as_bytes());
    let written = texts.iter().try_for_each(&mut write).and_then(|()| out.flush());
    IS_WRITING.store(false, Ordering::SeqCst);
    written
}

/// Throws away what waits for a terminal that does not take what is written to it: whoever writes
/// can go on then, and give the terminal back.
pub fn unblock_terminal() {
    if IS_WRITING.load(Ordering::SeqCst) && is_in_foreground() {
        // It is no terminal, or it is gone: then nobody can be helped.
        tcflush(io::stdout(), QueueSelector::OFlush).ok();
        // Linux does not wake who waits to write. A signal does, and the write goes on.
        kill_process(getpid(), Signal::WINCH).ok();
    }
}

/// Gives the terminal back as far as that can be done without waiting for it. Whoever calls this is
/// about to end the program.
pub fn force_restore_terminal() {
    let is_taken = IS_ENTERED.load(Ordering::SeqCst) || IS_WRITING.load(Ordering::SeqCst);
    if !is_taken || !is_in_foreground() {
        return;
    }
    // What cannot be restored is gone, or is waited for by somebody else.
    crossterm::terminal::disable_raw_mode().ok();
    unblock_terminal();
    let leaving = || rustix::io::write(io::stdout(), LEAVE_SEQUENCE.as_bytes());
    thread::Builder::new().spawn(leaving).ok();
}

/// Gives the terminal back if it is ours. What fails here fails because it is gone.
///
/// Somebody who stopped us without asking has set the modes of the terminal already, and we may not
/// touch them from the background; only the other screen is left to leave.
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

/// Whether the terminal stops whoever writes from the background (`stty tostop`).
fn stops_writers() -> bool {
    tcgetattr(io::stdout()).is_ok_and(|modes| modes.local_modes.contains(LocalModes::TOSTOP))
}

/// Shows panics on a terminal that is whole again; ends when dropped.
pub(crate) struct PanicGuard(Arc<Hook>);

type Hook = Box<dyn Fn(&panic::PanicHookInfo<'_>) + Send + Sync + 'static>;

impl PanicGuard {
    /// Begins. A panic of this thread restores the terminal first; those of others, which are
    /// caught by whoever waits for them, are kept until the terminal is given back.
    pub(crate) fn new() -> Self {
        let default: Arc<Hook> = Arc::new(panic::take_hook());
        let (own, shown): (ThreadId, _) = (thread::current().id(), Arc::clone(&default));
        panic::set_hook(Box::new(move |panic| {
            if thread::current().id() == own {
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
    let mut kept = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
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
        let kept = std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner));
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
    fn there_is_always_something_to_draw_on_and_never_too_much() {
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
