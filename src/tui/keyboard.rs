//! Keys as they are pressed, read on a thread of their own.
//!
//! The terminal library loops for ever on a terminal that is gone. Here that costs a thread that
//! ends with the process, never the screen: who draws finds out by itself.

mod burst;

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc as blocking;
use std::thread;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::mpsc;

use crate::view::{Key, Named};

/// How many events may wait; more stay with the terminal.
const WAITING: usize = 64;

/// Asks the terminal whether it is well, which it answers on the way of the keys.
///
/// Keys that come together with a change of size wait until the library hears of the next key: it
/// looks at one of two things that are ready and forgets the other. The answer is as good as a key.
pub(super) const WAKE: &str = "\x1b[5n";

/// Longest wait for the thread to let go of the terminal.
const LETTING_GO: Duration = Duration::from_secs(1);

/// The keys of the terminal until this is dropped; then the terminal is free to be read by others.
#[derive(Debug)]
pub(super) struct Keyboard {
    events: mpsc::Receiver<io::Result<Event>>,
    /// Closed to end the thread.
    stop: Option<OwnedFd>,
    stopped: blocking::Receiver<()>,
}

impl Keyboard {
    /// Begins to read.
    pub(super) fn open() -> io::Result<Self> {
        let tty = tty()?;
        let (stopping, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let (sender, events) = mpsc::channel(WAITING);
        let (ended, stopped) = blocking::channel::<()>();
        thread::Builder::new().name("keys".to_owned()).spawn(move || {
            if let Err(error) = read(tty.as_ref(), &stopping, &sender) {
                // Without the screen nobody needs to know.
                sender.blocking_send(Err(error)).ok();
            }
            drop(ended);
        })?;
        Ok(Self { events, stop: Some(stop), stopped })
    }

    /// Waits for the next event; an error, or none, when the terminal is gone.
    pub(super) async fn next(&mut self) -> Option<io::Result<Event>> {
        self.events.recv().await
    }

    /// Returns an event that has come already.
    pub(super) fn waiting(&mut self) -> Option<io::Result<Event>> {
        self.events.try_recv().ok()
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.stop.take();
        self.events.close();
        // It ends now, or hangs on a terminal that is gone.
        self.stopped.recv_timeout(LETTING_GO).ok();
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing to us")]
/// Returns the key that was pressed, if it is one we tell from others.
pub(super) fn key(event: KeyEvent) -> Option<Key> {
    let is_shifted = event.modifiers.contains(KeyModifiers::SHIFT);
    let with = event.modifiers.difference(KeyModifiers::SHIFT);
    let named = match event.code {
        KeyCode::Char(letter) => {
            return match with {
                KeyModifiers::NONE => Some(Key::Letter(letter)),
                KeyModifiers::CONTROL => Some(Key::Control(letter.to_ascii_lowercase())),
                KeyModifiers::ALT => Some(Key::Alt(letter)),
                _ => None,
            };
        }
        KeyCode::F(number) => return with.is_empty().then_some(Key::Function(number)),
        KeyCode::BackTab => return with.is_empty().then_some(Key::Shift(Named::Tab)),
        KeyCode::Up => Named::Up,
        KeyCode::Down => Named::Down,
        KeyCode::Left => Named::Left,
        KeyCode::Right => Named::Right,
        KeyCode::PageUp => Named::PageUp,
        KeyCode::PageDown => Named::PageDown,
        KeyCode::Home => Named::Home,
        KeyCode::End => Named::End,
        KeyCode::Enter => Named::Enter,
        KeyCode::Esc => Named::Escape,
        KeyCode::Tab => Named::Tab,
        KeyCode::Backspace => Named::Backspace,
        KeyCode::Delete => Named::Delete,
        KeyCode::Insert => Named::Insert,
        _ => return None,
    };
    with.is_empty().then_some(if is_shifted { Key::Shift(named) } else { Key::Named(named) })
}

/// Opens the terminal the library reads from, when that is not standard input.
fn tty() -> io::Result<Option<File>> {
    if io::stdin().is_terminal() { Ok(None) } else { File::open("/dev/tty").map(Some) }
}

/// Hands on events until told to stop, or until the terminal is gone.
fn read(
    tty: Option<&File>,
    stopping: &OwnedFd,
    events: &mpsc::Sender<io::Result<Event>>,
) -> io::Result<()> {
    let stdin = io::stdin();
    let tty: BorrowedFd<'_> = tty.map_or_else(|| stdin.as_fd(), AsFd::as_fd);
    loop {
        let mut watched =
            [PollFd::from_borrowed_fd(tty, PollFlags::IN), PollFd::new(stopping, PollFlags::IN)];
        match poll(&mut watched, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let [tty, stop] = watched.map(|watched| watched.revents());
        if !stop.is_empty() {
            return Ok(());
        }
        if tty.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut is_heard = false;
        while event::poll(Duration::ZERO)? {
            is_heard = true;
            for event in burst::mended(&together()?) {
                if events.blocking_send(Ok(event)).is_err() {
                    return Ok(());
                }
            }
        }
        if !is_heard && !tty.is_empty() {
            // The library has not seen what waits; see [`WAKE`].
            let pause = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            if poll(&mut [PollFd::new(stopping, PollFlags::IN)], Some(&pause)).is_ok_and(|n| n > 0)
            {
                return Ok(());
            }
        }
    }
}

/// Returns the events that wait, at least one.
fn together() -> io::Result<Vec<Event>> {
    let mut events = vec![event::read()?];
    while events.len() < WAITING && event::poll(Duration::ZERO)? {
        events.push(event::read()?);
    }
    Ok(events)
}
