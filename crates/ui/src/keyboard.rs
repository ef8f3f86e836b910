//! Reads terminal input on a thread of its own.
//!
//! The terminal library loops forever on a closed terminal. On its own thread that does not block
//! the UI, which notices a closed terminal when it writes.

mod escape;

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
use tokio::sync::{mpsc, watch};

use crate::background::BackgroundDetector;
use crate::input::{Key, NamedKey};
use crate::keyboard::escape::SequenceJoiner;

/// Further input stays in the terminal's buffer.
const MAX_QUEUED_EVENTS: usize = 64;

/// Device status report; the terminal's reply arrives as input.
///
/// The library handles only one of two ready sources: keys that arrive with a resize wait for the
/// next input. This reply is that input.
pub(super) const DEVICE_STATUS_QUERY: &str = "\x1b[5n";

/// Maximum wait for the thread to stop reading the terminal.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads the terminal until dropped; then others may read it.
#[derive(Debug)]
pub(super) struct Keyboard {
    /// Key and mouse events; an error, or none, if the terminal is closed.
    pub(super) events: mpsc::Receiver<io::Result<Event>>,
    /// True for a light background; none until the terminal has replied.
    pub(super) background: watch::Receiver<Option<bool>>,
    /// Closing it ends the thread.
    stop: Option<OwnedFd>,
    stopped: blocking::Receiver<()>,
}

impl Keyboard {
    pub(super) fn open(detector: BackgroundDetector) -> io::Result<Self> {
        let tty = tty()?;
        let (stopping, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let (sender, events) = mpsc::channel(MAX_QUEUED_EVENTS);
        let (background_sender, background) = watch::channel(None);
        let (ended, stopped) = blocking::channel::<()>();
        let delay = match &tty {
            Some(tty) => escape::sequence_delay(tty),
            None => escape::sequence_delay(io::stdin()),
        };
        let joiner = SequenceJoiner::new(delay);
        let mut to =
            EventSender { events: sender, background: background_sender, joiner, detector };
        thread::Builder::new().name("keys".to_owned()).spawn(move || {
            if let Err(error) = read(tty.as_ref(), &stopping, &mut to) {
                // Nobody listens once the UI has ended.
                to.events.blocking_send(Err(error)).ok();
            }
            drop(ended);
        })?;
        Ok(Self { events, background, stop: Some(stop), stopped })
    }

    /// Waits for the terminal's reply about its background; keys stay queued.
    pub(super) async fn background(&mut self) -> Option<bool> {
        *self.background.wait_for(Option::is_some).await.ok()?
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.stop.take();
        self.events.close();
        // The thread ends now, or hangs on a closed terminal.
        self.stopped.recv_timeout(STOP_TIMEOUT).ok();
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing to us")]
/// Converts a key event; none for keys that gtop does not know.
pub(super) fn to_key(event: KeyEvent) -> Option<Key> {
    let is_shifted = event.modifiers.contains(KeyModifiers::SHIFT);
    let modifiers = event.modifiers.difference(KeyModifiers::SHIFT);
    let named = match event.code {
        KeyCode::Char(letter) => {
            return match modifiers {
                KeyModifiers::NONE => Some(Key::Letter(letter)),
                KeyModifiers::CONTROL => Some(Key::Control(letter.to_ascii_lowercase())),
                KeyModifiers::ALT => Some(Key::Alt(letter)),
                _ => None,
            };
        }
        KeyCode::F(number) => return modifiers.is_empty().then_some(Key::Function(number)),
        KeyCode::BackTab => return modifiers.is_empty().then_some(Key::Shift(NamedKey::Tab)),
        KeyCode::Up => NamedKey::Up,
        KeyCode::Down => NamedKey::Down,
        KeyCode::Left => NamedKey::Left,
        KeyCode::Right => NamedKey::Right,
        KeyCode::PageUp => NamedKey::PageUp,
        KeyCode::PageDown => NamedKey::PageDown,
        KeyCode::Home => NamedKey::Home,
        KeyCode::End => NamedKey::End,
        KeyCode::Enter => NamedKey::Enter,
        KeyCode::Esc => NamedKey::Escape,
        KeyCode::Tab => NamedKey::Tab,
        KeyCode::Backspace => NamedKey::Backspace,
        KeyCode::Delete => NamedKey::Delete,
        KeyCode::Insert => NamedKey::Insert,
        _ => return None,
    };
    match (modifiers, is_shifted) {
        (KeyModifiers::NONE, false) => Some(Key::Named(named)),
        (KeyModifiers::NONE, true) => Some(Key::Shift(named)),
        (KeyModifiers::CONTROL, false) => Some(Key::ControlNamed(named)),
        _ => None,
    }
}

/// Opens the terminal that the library reads from; none if that is standard input.
pub(super) fn tty() -> io::Result<Option<File>> {
    if io::stdin().is_terminal() { Ok(None) } else { File::open("/dev/tty").map(Some) }
}

/// Forwards events to the UI, the background reply filtered out.
struct EventSender {
    events: mpsc::Sender<io::Result<Event>>,
    background: watch::Sender<Option<bool>>,
    joiner: SequenceJoiner,
    detector: BackgroundDetector,
}

impl EventSender {
    /// Returns how long to wait for more input before what is held back is forwarded; `None` if nothing is.
    fn hold_timeout(&self) -> Option<Duration> {
        self.joiner.hold_timeout().or_else(|| self.detector.hold_timeout())
    }

    /// Forwards events of one read; returns false if the receiver is gone.
    fn forward(&mut self, read: &[Event]) -> bool {
        let joined = self.joiner.push(read);
        self.detect(joined)
    }

    /// Forwards events that are no reply of the terminal; returns false if the receiver is gone.
    fn detect(&mut self, received: Vec<Event>) -> bool {
        let mut events = Vec::with_capacity(received.len());
        for event in received {
            if let Some(is_light) = self.detector.push(event, &mut events) {
                self.background.send_replace(Some(is_light));
            }
        }
        self.send(events)
    }

    /// Forwards the events that were held back; returns false if the receiver is gone.
    fn flush(&mut self) -> bool {
        if self.joiner.hold_timeout().is_some() {
            let held = self.joiner.flush();
            return self.detect(held);
        }
        let mut events = Vec::new();
        self.detector.flush(&mut events);
        self.send(events)
    }

    fn send(&self, events: Vec<Event>) -> bool {
        events.into_iter().all(|event| self.events.blocking_send(Ok(event)).is_ok())
    }
}

/// Forwards events until `stopping` is closed or the terminal is.
fn read(tty: Option<&File>, stopping: &OwnedFd, to: &mut EventSender) -> io::Result<()> {
    let stdin = io::stdin();
    let tty: BorrowedFd<'_> = tty.map_or_else(|| stdin.as_fd(), AsFd::as_fd);
    loop {
        let mut watched =
            [PollFd::from_borrowed_fd(tty, PollFlags::IN), PollFd::new(stopping, PollFlags::IN)];
        let hold = to.hold_timeout().and_then(|hold| Timespec::try_from(hold).ok());
        match poll(&mut watched, hold.as_ref()) {
            Ok(0) => {
                if !to.flush() {
                    return Ok(());
                }
                continue;
            }
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
        let mut has_events = false;
        while event::poll(Duration::ZERO)? {
            has_events = true;
            if !to.forward(&read_pending()?) {
                return Ok(());
            }
        }
        if !has_events && !tty.is_empty() {
            // The library missed the waiting input; see [`DEVICE_STATUS_QUERY`].
            let pause = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
            if poll(&mut [PollFd::new(stopping, PollFlags::IN)], Some(&pause)).is_ok_and(|n| n > 0)
            {
                return Ok(());
            }
        }
    }
}

/// Returns the waiting events, at least one.
fn read_pending() -> io::Result<Vec<Event>> {
    let mut events = vec![event::read()?];
    while events.len() < MAX_QUEUED_EVENTS && event::poll(Duration::ZERO)? {
        events.push(event::read()?);
    }
    Ok(events)
}
