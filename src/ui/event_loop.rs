//! The event loop of the UI: terminal events, snapshots, replies and signals in; frames and requests out.
//!
//! Only this module depends on a terminal library. It does not know how nodes are reached or what
//! they send: it reads fleet snapshots and sends [`UiRequest`]s.

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
use crate::model::{JobId, NodeName, RequestError};
use crate::time::{Clock, Timestamp};
use crate::ui::NodeReply;
use crate::ui::background::{BACKGROUND_QUERY, BackgroundDetector};
use crate::ui::keyboard::{DEVICE_STATUS_QUERY, Keyboard, KeyboardEvent};
use crate::ui::keymap::Keymap;
use crate::ui::screen::{Ui, UiConfig, UiEffect, UiRequest};
use crate::ui::signals::{StopReason, StopSignals};
use crate::ui::surface::Surface;
use crate::ui::terminal::{PanicGuard, Terminal};

/// The first frame waits this long for the terminal's reply about its background colour.
const BACKGROUND_REPLY_TIMEOUT: Duration = Duration::from_millis(100);
/// How long the result of a settings change is shown.
const SETTINGS_MESSAGE_DURATION: Duration = Duration::from_secs(6);
/// Longer than other messages: users rarely look at the last line right after the start.
const STARTUP_MESSAGE_DURATION: Duration = Duration::from_secs(30);

/// Inputs and outputs of the UI.
#[derive(Debug)]
pub struct UiContext {
    pub fleet: FleetReader,
    pub clock: Clock,
    pub zone: TimeZone,
    /// Short description of what is monitored.
    pub title: String,
    /// Minimum time between two redraws that no key press caused.
    pub redraw_interval: Duration,
    /// Requests are dropped while this channel is full.
    pub requests: mpsc::Sender<UiRequest>,
    pub suspended_tasks: mpsc::Receiver<SuspendedTask>,
    pub replies: mpsc::Receiver<NodeReply>,
    pub config: UiConfig,
    pub keys: Keymap,
    /// Shown at startup.
    pub message: Option<String>,
    pub settings_events: mpsc::Receiver<SettingsEvent>,
    /// Captures mouse clicks and the wheel; the terminal's own selection then needs Shift.
    pub has_mouse: bool,
}

#[derive(Debug)]
pub enum SettingsEvent {
    /// The new settings, and the minimum time between two redraws that no key press caused.
    Changed(Box<UiConfig>, Duration),
    /// A text to show.
    Message(String),
    /// The name of a setting, the text it rejected, and the reason.
    Rejected(String, String, String),
}

/// Work that needs the terminal for itself, such as a password prompt.
pub struct SuspendedTask(Box<dyn FnOnce(&AtomicBool) + Send>);

impl SuspendedTask {
    /// Wraps `work`, which runs on a thread that may block. It must return soon after the flag
    /// it is given turns true.
    pub fn new(work: impl FnOnce(&AtomicBool) + Send + 'static) -> Self {
        Self(Box::new(work))
    }
}

impl std::fmt::Debug for SuspendedTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SuspendedTask")
    }
}

/// Runs the UI until the user quits or a signal ends it, and restores the terminal.
///
/// Runs on the main thread, on a runtime of its own: a slow terminal blocks it.
pub async fn run(context: UiContext) -> io::Result<StopReason> {
    let guard = PanicGuard::new();
    let signals = TerminalSignals::new()?;
    let terminal = Terminal::enter(context.has_mouse)?;
    let mut screen = EventLoop::new(context, terminal);
    screen.query_background();
    let reason = screen.run_loop(signals).await;
    drop(guard);
    Ok(reason)
}

struct TerminalSignals {
    end: StopSignals,
    resume: Signal,
    resize: Signal,
}

enum SignalEvent {
    Stop(StopReason),
    /// SIGCONT.
    Continue,
    /// SIGWINCH.
    Resize,
}

impl TerminalSignals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            end: StopSignals::new(),
            resume: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            reason = self.end.next() => SignalEvent::Stop(reason),
            _ = self.resume.recv() => SignalEvent::Continue,
            _ = self.resize.recv() => SignalEvent::Resize,
        }
    }
}

enum UiEvent {
    Key(Option<io::Result<Event>>),
    /// True if the terminal reports a light background.
    Background(bool),
    Signal(SignalEvent),
    Fleet(bool),
    SuspendedTask(SuspendedTask),
    NodeReply(NodeReply),
    Settings(SettingsEvent),
    Tick,
}

struct EventLoop {
    context: UiContext,
    terminal: Terminal,
    surface: Surface,
    ui: Ui,
    drawn_at: Timestamp,
    /// A new fleet is not drawn yet.
    is_fleet_new: bool,
    /// The publisher is gone.
    is_fleet_closed: bool,
    sent_focus: Option<NodeName>,
    sent_job: Option<JobId>,
    sent_interval: Duration,
    /// Ctrl-Z has already handled the SIGCONT that is still to be delivered.
    has_resumed: bool,
    /// When the background colour was queried; none if no reply is due.
    background_queried_at: Option<Timestamp>,
}

impl EventLoop {
    fn new(context: UiContext, terminal: Terminal) -> Self {
        let (title, zone) = (context.title.clone(), context.zone.clone());
        let UiConfig { theme, interval, .. } = context.config;
        let display = context.config.display.clone();
        let mut ui =
            Ui::new(title, interval, zone, theme).with_options(display, context.keys.clone());
        ui.apply_config(context.config.clone());
        if let Some(words) = context.message.clone() {
            ui.show_message_for(words, STARTUP_MESSAGE_DURATION, context.clock.now());
        }
        Self {
            ui,
            context,
            terminal,
            surface: Surface::new(),
            drawn_at: Timestamp::default(),
            is_fleet_new: true,
            is_fleet_closed: false,
            sent_focus: None,
            sent_job: None,
            sent_interval: interval,
            has_resumed: false,
            background_queried_at: None,
        }
    }

    /// Queries the terminal's background colour; the reply arrives as keyboard input.
    fn query_background(&mut self) {
        let term = std::env::var("TERM").unwrap_or_default();
        if crate::ui::background::supports_query(&term) && self.terminal.can_draw() {
            // A closed terminal is noticed at the first frame.
            self.background_queried_at =
                self.terminal.write(BACKGROUND_QUERY).is_ok().then(|| self.context.clock.now());
        }
    }

    fn open_keyboard(&self) -> io::Result<Keyboard> {
        Keyboard::open(BackgroundDetector::new(
            self.context.clock.clone(),
            self.background_queried_at,
        ))
    }

    fn on_background(&mut self, is_light: bool) {
        self.background_queried_at = None;
        self.ui.on_background(is_light);
    }

    async fn run_loop(mut self, mut signals: TerminalSignals) -> StopReason {
        let Ok(mut keyboard) = self.open_keyboard() else { return StopReason::HangUp };
        if self.background_queried_at.is_some()
            && self.ui.detects_background()
            && let Ok(Some(is_light)) =
                timeout(BACKGROUND_REPLY_TIMEOUT, keyboard.background()).await
        {
            self.on_background(is_light);
        }
        loop {
            // A write fails only if the terminal is closed.
            if self.draw().is_err() {
                return StopReason::HangUp;
            }
            let event = self.next_event(&mut keyboard, &mut signals).await;
            let reason = if let UiEvent::SuspendedTask(task) = event {
                // Only one reader of the terminal at a time.
                drop(keyboard);
                let reason = self.run_suspended(task, &mut signals).await;
                let Ok(again) = self.open_keyboard() else { return StopReason::HangUp };
                keyboard = again;
                reason
            } else {
                self.on_event(event, &mut keyboard)
            };
            if let Some(reason) = reason {
                return reason;
            }
        }
    }

    async fn next_event(
        &mut self,
        keyboard: &mut Keyboard,
        signals: &mut TerminalSignals,
    ) -> UiEvent {
        loop {
            let delay = self.time_to_next_draw();
            let listens = !self.is_fleet_new && !self.is_fleet_closed;
            let event = tokio::select! {
                input = keyboard.next() => match input {
                    KeyboardEvent::Event(event) => UiEvent::Key(event),
                    KeyboardEvent::Background(is_light) => UiEvent::Background(is_light),
                },
                notice = signals.next() => UiEvent::Signal(notice),
                Some(task) = self.context.suspended_tasks.recv() => UiEvent::SuspendedTask(task),
                Some(reply) = self.context.replies.recv() => UiEvent::NodeReply(reply),
                Some(event) = self.context.settings_events.recv() => UiEvent::Settings(event),
                changed = self.context.fleet.changed(), if listens => UiEvent::Fleet(changed.is_ok()),
                () = tokio::time::sleep(delay) => UiEvent::Tick,
            };
            match event {
                UiEvent::Fleet(true) => self.is_fleet_new = true,
                UiEvent::Fleet(false) => self.is_fleet_closed = true,
                UiEvent::Key(_)
                | UiEvent::Background(_)
                | UiEvent::Signal(_)
                | UiEvent::SuspendedTask(_)
                | UiEvent::NodeReply(_)
                | UiEvent::Settings(_)
                | UiEvent::Tick => return event,
            }
        }
    }

    /// Returns the time to the next full second, or less if a new fleet is due earlier.
    fn time_to_next_draw(&self) -> Duration {
        let now = self.context.clock.now();
        let micros = now.as_micros().rem_euclid(1_000_000);
        let second = Duration::from_micros(u64::try_from(1_000_000 - micros).unwrap_or(1_000_000));
        let fleet = self.context.redraw_interval.saturating_sub(now.since(self.drawn_at));
        if self.is_fleet_new { fleet.min(second) } else { second }
    }

    /// Handles an event; keys that are already queued are handled before the next draw.
    fn on_event(&mut self, event: UiEvent, keyboard: &mut Keyboard) -> Option<StopReason> {
        match event {
            UiEvent::Signal(SignalEvent::Stop(reason)) => return Some(reason),
            UiEvent::Signal(SignalEvent::Continue) => {
                if self.terminal.reenter().is_err() {
                    return Some(StopReason::HangUp);
                }
                self.surface.invalidate();
                if !std::mem::take(&mut self.has_resumed) {
                    self.send_request(UiRequest::Refresh);
                }
            }
            UiEvent::Key(event) => {
                let mut next = Some(event);
                while let Some(event) = next {
                    let Some(Ok(event)) = event else { return Some(StopReason::HangUp) };
                    if let Some(reason) = self.on_terminal_event(&event) {
                        return Some(reason);
                    }
                    next = keyboard.try_next().map(Some);
                }
            }
            UiEvent::Background(is_light) => self.on_background(is_light),
            UiEvent::NodeReply(reply) => self.ui.on_reply(&reply, self.context.clock.now()),
            UiEvent::Settings(SettingsEvent::Changed(config, redraw_interval)) => {
                self.context.redraw_interval = redraw_interval;
                self.ui.apply_config(*config);
            }
            UiEvent::Settings(SettingsEvent::Message(words)) => {
                self.ui.show_message_for(
                    words,
                    SETTINGS_MESSAGE_DURATION,
                    self.context.clock.now(),
                );
            }
            UiEvent::Settings(SettingsEvent::Rejected(name, text, why)) => {
                self.ui.reject_setting(&name, &text);
                self.ui.show_message_for(why, SETTINGS_MESSAGE_DURATION, self.context.clock.now());
            }
            // The size may have changed twice, and terminals drop what does not fit.
            UiEvent::Signal(SignalEvent::Resize) => self.surface.invalidate(),
            UiEvent::Fleet(_) | UiEvent::SuspendedTask(_) | UiEvent::Tick => {}
        }
        self.send_changed_state();
        None
    }

    /// Leaves the terminal to a task until it is done, or until a signal ends both. In the
    /// background, where the terminal cannot be used, the task is dropped.
    async fn run_suspended(
        &mut self,
        task: SuspendedTask,
        signals: &mut TerminalSignals,
    ) -> Option<StopReason> {
        if !self.terminal.can_draw() {
            return None;
        }
        self.terminal.leave();
        let is_over = Arc::new(AtomicBool::new(false));
        let is_over_flag = Arc::clone(&is_over);
        let mut work = tokio::task::spawn_blocking(move || (task.0)(&is_over_flag));
        let mut reason = None;
        loop {
            tokio::select! {
                // A panic in it is shown when the UI ends.
                _done = &mut work => break,
                notice = signals.next(), if reason.is_none() => {
                    if let SignalEvent::Stop(end) = notice {
                        is_over.store(true, Ordering::Relaxed);
                        reason = Some(end);
                    }
                }
            }
        }
        self.surface.invalidate();
        if reason.is_none() && self.terminal.reenter().is_err() {
            return Some(StopReason::HangUp);
        }
        reason
    }

    fn on_terminal_event(&mut self, event: &Event) -> Option<StopReason> {
        let now = self.context.clock.now();
        let effect = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.ui.on_key(*key, now),
            Event::Mouse(mouse) => self.ui.on_mouse(*mouse, now),
            Event::FocusGained | Event::FocusLost => {
                self.ui.set_attended(*event == Event::FocusGained, now);
                return None;
            }
            Event::Resize(..) => {
                if self.terminal.can_draw() {
                    // A closed terminal is noticed at the next frame.
                    self.terminal.write(DEVICE_STATUS_QUERY).ok();
                }
                return None;
            }
            Event::Paste(text) => {
                self.ui.on_paste(text, now);
                return None;
            }
            Event::Key(_) => return None,
        };
        match effect {
            UiEffect::Nothing => {}
            UiEffect::Request(request) => self.send_request(request),
            UiEffect::Exit(reason) => return Some(reason),
            UiEffect::Redraw => self.surface.invalidate(),
            UiEffect::Suspend => {
                if self.terminal.suspend().is_err() {
                    return Some(StopReason::HangUp);
                }
                self.surface.invalidate();
                self.has_resumed = true;
                self.send_request(UiRequest::Refresh);
            }
        }
        None
    }

    fn send_request(&mut self, request: UiRequest) {
        let Err(error) = self.context.requests.try_send(request) else { return };
        log::warn!("a request is dropped: {error}");
        let now = self.context.clock.now();
        if let UiRequest::QueryNodes(requests) = error.into_inner() {
            // The view waits for a reply, so it gets an error.
            for request in requests {
                let reply = NodeReply { request, result: Err(RequestError::QueueFull), at: now };
                self.ui.on_reply(&reply, now);
            }
        }
    }

    /// Sends the focused node, the watched job and the sample interval when they have changed;
    /// retried while the channel is full.
    fn send_changed_state(&mut self) {
        let job = self.ui.watched_job();
        if job != self.sent_job
            && self.context.requests.try_send(UiRequest::WatchJob(job.clone())).is_ok()
        {
            self.sent_job = job;
        }
        let interval = self.ui.interval(self.context.clock.now());
        if interval != self.sent_interval
            && self.context.requests.try_send(UiRequest::SetInterval(interval)).is_ok()
        {
            self.sent_interval = interval;
        }
        let wanted = self.ui.focus();
        if wanted != self.sent_focus
            && self.context.requests.try_send(UiRequest::FocusNode(wanted.clone())).is_ok()
        {
            self.sent_focus = wanted;
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let now = self.context.clock.now();
        let is_second = now.second() != self.drawn_at.second();
        let is_due = now.since(self.drawn_at) >= self.context.redraw_interval;
        if is_second || (self.is_fleet_new && is_due) {
            let fleet = self.context.fleet.borrow_and_update().clone();
            self.ui.on_fleet(fleet, now);
            if let Some(request) = self.ui.due() {
                self.send_request(request);
            }
            self.is_fleet_new = false;
            self.drawn_at = now;
        }
        if !self.terminal.can_draw() {
            return Ok(());
        }
        let area = self.terminal.area()?;
        let text = self.surface.frame(area, |buffer| self.ui.draw(now, buffer));
        if text.is_empty() { Ok(()) } else { self.terminal.write(&text) }
    }
}
