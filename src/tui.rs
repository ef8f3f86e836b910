//! The screen: the event loop, the key table, the theme, and how lines become cells.
//!
//! The one place that knows a terminal library. It must not know how nodes are reached or what they
//! send: it reads fleets, and asks for things by [`UiRequest`].

pub use keys::{Keymap, KeymapError};
pub use signals::StopSignals;
pub use surface::Surface;
pub use terminal::{force_back_terminal, unblock_terminal};
pub use text::render_text;
pub use theme::{ColourDepth, GlyphSet, Palette, Theme, ThemeOptions};
pub use ui::{Ui, UiEffect};

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{Event, KeyEventKind};
use jiff::tz::TimeZone;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::fleet::FleetReader;
use crate::model::{AskError, JobId, NodeName};
use crate::time::{Clock, Timestamp};
use crate::tui::background::{BACKGROUND_QUERY, BackgroundDetector};
use crate::tui::keyboard::{DEVICE_STATUS_QUERY, Keyboard, KeyboardEvent};
use crate::tui::terminal::{PanicGuard, Terminal};
use crate::view::{Errand, Habit, Reply, Setup, Taste};

mod background;
mod keyboard;
mod keys;
mod paint;
mod signals;
mod surface;
mod terminal;
mod text;
mod theme;
mod ui;

/// How long the first frame waits for what the terminal says of its background.
const ANSWER_WAIT: Duration = Duration::from_millis(100);
/// For how long it is told what became of a change.
const NEWS: Duration = Duration::from_secs(6);
/// For how long the first message stays: whoever starts a program looks elsewhere first.
const FIRST_MESSAGE: Duration = Duration::from_secs(30);

/// What is shown, and whom to ask for more.
#[derive(Debug)]
pub struct UiContext {
    /// The fleet.
    pub fleet: FleetReader,
    /// Where moments come from.
    pub clock: Clock,
    /// The zone of the clock on the screen.
    pub zone: TimeZone,
    /// What is watched, in a few words.
    pub title: String,
    /// The least time between two frames that no key asked for.
    pub redraw: Duration,
    /// Takes what the user asks for; requests are dropped while it is full.
    pub requests: mpsc::Sender<UiRequest>,
    /// What needs the terminal for itself for a while.
    pub asides: mpsc::Receiver<SuspendedTask>,
    /// What nodes answered.
    pub replies: mpsc::Receiver<Reply>,
    /// How it looks at first.
    pub dress: UiConfig,
    /// Which keys do what.
    pub keys: Keymap,
    /// Something to be told at first.
    pub message: Option<String>,
    /// What becomes of changes of settings.
    pub news: mpsc::Receiver<SettingsEvent>,
    /// Clicks and the wheel are ours, and not the terminal's.
    pub has_mouse: bool,
}

/// How the screen looks and behaves, which may change while it is shown.
#[derive(Clone, Debug)]
pub struct UiConfig {
    /// Colours and glyphs.
    pub look: Theme,
    /// The terminal may say whether the look is to suit a light background.
    pub is_background_open: bool,
    /// How things are shown.
    pub taste: Taste,
    /// How often nodes sample.
    pub interval: Duration,
    /// What keys change too, until somebody does.
    pub habits: Vec<Habit>,
    /// The setup pages that say so.
    pub setup: Setup,
}

/// What becomes of changes of settings.
#[derive(Debug)]
pub enum SettingsEvent {
    /// The screen is to look so, with this least time between two frames that no key asked for.
    Changed(Box<UiConfig>, Duration),
    /// This is to be told.
    Message(String),
    /// A setting of this name cannot be set to this text, and why.
    Rejected(String, String, String),
}

/// Something that needs the terminal for itself, such as a question to the user.
pub struct SuspendedTask(Box<dyn FnOnce(&AtomicBool) + Send>);

impl SuspendedTask {
    /// Makes an aside of what is to be done meanwhile, on a thread that may wait. It is to end
    /// soon after what it is given turns true.
    pub fn new(work: impl FnOnce(&AtomicBool) + Send + 'static) -> Self {
        Self(Box::new(work))
    }
}

impl std::fmt::Debug for SuspendedTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Aside")
    }
}

/// What the user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UiRequest {
    /// A complete sample of every node, and a try of every node that is down, whatever the reason.
    Refresh,
    /// Faster samples of one node, and of no other; `None` for none.
    Focus(Option<NodeName>),
    /// Everything there is to know of one job; `None` for none in particular.
    LookAt(Option<JobId>),
    /// These are to be asked of nodes.
    Ask(Vec<Errand>),
    /// A setting is to be this; what is typed is yet to be judged.
    Change(&'static str, String),
    /// What was set is to be written down, and so are these, which keys changed.
    Save(Vec<Habit>),
    /// Every node is to sample so often.
    Interval(Duration),
}

/// How the screen ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The user quit.
    Quit,
    /// SIGINT, or Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// SIGHUP, or the terminal is gone.
    HangUp,
}

/// Shows the fleet until somebody ends it. The terminal is as before when this returns.
///
/// Belongs on the main thread, on a runtime of its own: a slow terminal stops it.
pub async fn run(watching: UiContext) -> io::Result<StopReason> {
    let guard = PanicGuard::new();
    let signals = Signals::new()?;
    let terminal = Terminal::enter(watching.has_mouse)?;
    let mut screen = EventLoop::new(watching, terminal);
    screen.ask_background();
    let ending = screen.drive(signals).await;
    drop(guard);
    Ok(ending)
}

/// The signals we take.
struct Signals {
    end: StopSignals,
    go_on: Signal,
    resize: Signal,
}

/// What a signal means.
enum SignalEvent {
    End(StopReason),
    /// We were stopped and go on.
    GoOn,
    /// The terminal has another size.
    Resize,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            end: StopSignals::new(),
            go_on: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    /// Waits for the next one.
    async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            ending = self.end.next() => SignalEvent::End(ending),
            _ = self.go_on.recv() => SignalEvent::GoOn,
            _ = self.resize.recv() => SignalEvent::Resize,
        }
    }
}

/// What woke the loop.
enum UiEvent {
    Key(Option<io::Result<Event>>),
    /// The terminal says whether its background is light.
    Background(bool),
    Signal(SignalEvent),
    Fleet(bool),
    Aside(SuspendedTask),
    Reply(Reply),
    News(SettingsEvent),
    Time,
}

/// The loop's state.
struct EventLoop {
    watching: UiContext,
    terminal: Terminal,
    surface: Surface,
    stage: Ui,
    drawn_at: Timestamp,
    /// A fleet came that is not drawn yet.
    is_fleet_new: bool,
    /// Nobody publishes any more.
    is_fleet_closed: bool,
    told_focus: Option<NodeName>,
    told_job: Option<JobId>,
    told_interval: Duration,
    /// Ctrl-Z has dealt with the continuation that is still to be reported.
    has_gone_on: bool,
    /// Since when the terminal owes an answer of what its background is.
    asked_at: Option<Timestamp>,
}

impl EventLoop {
    fn new(watching: UiContext, terminal: Terminal) -> Self {
        let (title, zone) = (watching.title.clone(), watching.zone.clone());
        let UiConfig { look, interval, .. } = watching.dress;
        let taste = watching.dress.taste.clone();
        let mut stage = Ui::new(title, interval, zone, look).with(taste, watching.keys.clone());
        stage.wear(watching.dress.clone());
        if let Some(words) = watching.message.clone() {
            stage.tell(words, FIRST_MESSAGE, watching.clock.now());
        }
        Self {
            stage,
            watching,
            terminal,
            surface: Surface::new(),
            drawn_at: Timestamp::default(),
            is_fleet_new: true,
            is_fleet_closed: false,
            told_focus: None,
            told_job: None,
            told_interval: interval,
            has_gone_on: false,
            asked_at: None,
        }
    }

    /// Asks the terminal what its background is; the answer comes on the way of the keys.
    fn ask_background(&mut self) {
        let term = std::env::var("TERM").unwrap_or_default();
        if background::answers(&term) && self.terminal.is_ours() {
            // A terminal that takes nothing any more shows at the first frame.
            self.asked_at =
                self.terminal.write(BACKGROUND_QUERY).is_ok().then(|| self.watching.clock.now());
        }
    }

    fn keyboard(&self) -> io::Result<Keyboard> {
        Keyboard::open(BackgroundDetector::new(self.watching.clock.clone(), self.asked_at))
    }

    /// Takes it that the terminal's background is light, or dark.
    fn take_background(&mut self, is_light: bool) {
        self.asked_at = None;
        self.stage.on_background(is_light);
    }

    async fn drive(mut self, mut signals: Signals) -> StopReason {
        let Ok(mut keyboard) = self.keyboard() else { return StopReason::HangUp };
        if self.asked_at.is_some()
            && self.stage.is_background_open()
            && let Ok(Some(is_light)) = timeout(ANSWER_WAIT, keyboard.background()).await
        {
            self.take_background(is_light);
        }
        loop {
            // A terminal that takes nothing any more is gone.
            if self.draw().is_err() {
                return StopReason::HangUp;
            }
            let woken = self.wait(&mut keyboard, &mut signals).await;
            let ending = if let UiEvent::Aside(aside) = woken {
                // Only one may read the terminal.
                drop(keyboard);
                let ending = self.stand_aside(aside, &mut signals).await;
                let Ok(again) = self.keyboard() else { return StopReason::HangUp };
                keyboard = again;
                ending
            } else {
                self.take(woken, &mut keyboard)
            };
            if let Some(ending) = ending {
                return ending;
            }
        }
    }

    /// Waits until there is something to draw.
    async fn wait(&mut self, keyboard: &mut Keyboard, signals: &mut Signals) -> UiEvent {
        loop {
            let pause = self.pause();
            let listens = !self.is_fleet_new && !self.is_fleet_closed;
            let woken = tokio::select! {
                heard = keyboard.next() => match heard {
                    KeyboardEvent::Event(event) => UiEvent::Key(event),
                    KeyboardEvent::Background(is_light) => UiEvent::Background(is_light),
                },
                notice = signals.next() => UiEvent::Signal(notice),
                Some(aside) = self.watching.asides.recv() => UiEvent::Aside(aside),
                Some(reply) = self.watching.replies.recv() => UiEvent::Reply(reply),
                Some(news) = self.watching.news.recv() => UiEvent::News(news),
                changed = self.watching.fleet.changed(), if listens => UiEvent::Fleet(changed.is_ok()),
                () = tokio::time::sleep(pause) => UiEvent::Time,
            };
            match woken {
                UiEvent::Fleet(true) => self.is_fleet_new = true,
                UiEvent::Fleet(false) => self.is_fleet_closed = true,
                UiEvent::Key(_)
                | UiEvent::Background(_)
                | UiEvent::Signal(_)
                | UiEvent::Aside(_)
                | UiEvent::Reply(_)
                | UiEvent::News(_)
                | UiEvent::Time => return woken,
            }
        }
    }

    /// Returns how long to wait: until the next second, and less when a new fleet is due.
    fn pause(&self) -> Duration {
        let now = self.watching.clock.now();
        let micros = now.as_micros().rem_euclid(1_000_000);
        let second = Duration::from_micros(u64::try_from(1_000_000 - micros).unwrap_or(1_000_000));
        let fleet = self.watching.redraw.saturating_sub(now.since(self.drawn_at));
        if self.is_fleet_new { fleet.min(second) } else { second }
    }

    /// Takes what woke us; keys that queued up meanwhile are taken before anything is drawn.
    fn take(&mut self, woken: UiEvent, keyboard: &mut Keyboard) -> Option<StopReason> {
        match woken {
            UiEvent::Signal(SignalEvent::End(ending)) => return Some(ending),
            UiEvent::Signal(SignalEvent::GoOn) => {
                if self.terminal.enter_again().is_err() {
                    return Some(StopReason::HangUp);
                }
                self.surface.forget();
                if !std::mem::take(&mut self.has_gone_on) {
                    self.ask(UiRequest::Refresh);
                }
            }
            UiEvent::Key(event) => {
                let mut next = Some(event);
                while let Some(event) = next {
                    let Some(Ok(event)) = event else { return Some(StopReason::HangUp) };
                    if let Some(ending) = self.event(&event) {
                        return Some(ending);
                    }
                    next = keyboard.waiting().map(Some);
                }
            }
            UiEvent::Background(is_light) => self.take_background(is_light),
            UiEvent::Reply(reply) => self.stage.take(&reply, self.watching.clock.now()),
            UiEvent::News(SettingsEvent::Changed(dress, redraw)) => {
                self.watching.redraw = redraw;
                self.stage.wear(*dress);
            }
            UiEvent::News(SettingsEvent::Message(words)) => {
                self.stage.tell(words, NEWS, self.watching.clock.now());
            }
            UiEvent::News(SettingsEvent::Rejected(name, text, why)) => {
                self.stage.refuse(&name, &text);
                self.stage.tell(why, NEWS, self.watching.clock.now());
            }
            // It may have been another size in between, and a terminal cuts what does not fit.
            UiEvent::Signal(SignalEvent::Resize) => self.surface.forget(),
            UiEvent::Fleet(_) | UiEvent::Aside(_) | UiEvent::Time => {}
        }
        self.tell_focus();
        None
    }

    /// Leaves the terminal to somebody else until they are done, or until a signal ends both. In
    /// the background, where nobody may use the terminal, the aside is dropped.
    async fn stand_aside(
        &mut self,
        aside: SuspendedTask,
        signals: &mut Signals,
    ) -> Option<StopReason> {
        if !self.terminal.is_ours() {
            return None;
        }
        self.terminal.leave();
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let mut work = tokio::task::spawn_blocking(move || (aside.0)(&told));
        let mut ending = None;
        loop {
            tokio::select! {
                // A panic in it is shown when the screen ends.
                _done = &mut work => break,
                notice = signals.next(), if ending.is_none() => {
                    if let SignalEvent::End(end) = notice {
                        is_over.store(true, Ordering::Relaxed);
                        ending = Some(end);
                    }
                }
            }
        }
        self.surface.forget();
        if ending.is_none() && self.terminal.enter_again().is_err() {
            return Some(StopReason::HangUp);
        }
        ending
    }

    fn event(&mut self, event: &Event) -> Option<StopReason> {
        let now = self.watching.clock.now();
        let effect = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.stage.press(*key, now),
            Event::Mouse(mouse) => self.stage.point(*mouse, now),
            Event::FocusGained | Event::FocusLost => {
                self.stage.attend(*event == Event::FocusGained, now);
                return None;
            }
            Event::Resize(..) => {
                if self.terminal.is_ours() {
                    // A terminal that takes nothing any more shows at the next frame.
                    self.terminal.write(DEVICE_STATUS_QUERY).ok();
                }
                return None;
            }
            Event::Paste(text) => {
                self.stage.paste(text, now);
                return None;
            }
            Event::Key(_) => return None,
        };
        match effect {
            UiEffect::Nothing => {}
            UiEffect::Ask(request) => self.ask(request),
            UiEffect::End(ending) => return Some(ending),
            UiEffect::Redraw => self.surface.forget(),
            UiEffect::Suspend => {
                if self.terminal.suspend().is_err() {
                    return Some(StopReason::HangUp);
                }
                self.surface.forget();
                self.has_gone_on = true;
                self.ask(UiRequest::Refresh);
            }
        }
        None
    }

    fn ask(&mut self, request: UiRequest) {
        let Err(error) = self.watching.requests.try_send(request) else { return };
        log::warn!("a request is dropped: {error}");
        let now = self.watching.clock.now();
        if let UiRequest::Ask(errands) = error.into_inner() {
            // Who asked waits for an answer, and gets one.
            for errand in errands {
                let reply = Reply { errand, answer: Err(AskError::TooMany), at: now };
                self.stage.take(&reply, now);
            }
        }
    }

    /// Tells which node is in focus, which job is looked at and how often to sample when that has
    /// changed; tried again while nobody takes it.
    fn tell_focus(&mut self) {
        let job = self.stage.job();
        if job != self.told_job
            && self.watching.requests.try_send(UiRequest::LookAt(job.clone())).is_ok()
        {
            self.told_job = job;
        }
        let interval = self.stage.interval(self.watching.clock.now());
        if interval != self.told_interval
            && self.watching.requests.try_send(UiRequest::Interval(interval)).is_ok()
        {
            self.told_interval = interval;
        }
        let wanted = self.stage.focus();
        if wanted != self.told_focus
            && self.watching.requests.try_send(UiRequest::Focus(wanted.clone())).is_ok()
        {
            self.told_focus = wanted;
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let now = self.watching.clock.now();
        let is_second = now.as_micros().div_euclid(1_000_000)
            != self.drawn_at.as_micros().div_euclid(1_000_000);
        let is_due = now.since(self.drawn_at) >= self.watching.redraw;
        if is_second || (self.is_fleet_new && is_due) {
            let fleet = self.watching.fleet.borrow_and_update().clone();
            self.stage.show(fleet, now);
            if let Some(request) = self.stage.due() {
                self.ask(request);
            }
            self.is_fleet_new = false;
            self.drawn_at = now;
        }
        if !self.terminal.is_ours() {
            return Ok(());
        }
        let area = self.terminal.area()?;
        let text = self.surface.frame(area, |buffer| self.stage.draw(now, buffer));
        if text.is_empty() { Ok(()) } else { self.terminal.write(&text) }
    }
}
