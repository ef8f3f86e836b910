//! The event loop of the UI: terminal events, snapshots, replies and signals in; frames and requests out.
//!
//! It does not know how nodes are reached or what they send: it reads fleet snapshots and sends [`UiRequest`]s.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{Event, KeyEventKind};
use jiff::tz::TimeZone;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::background::{BACKGROUND_QUERY, BackgroundDetector};
use crate::clipboard::Clip;
use crate::draw_pace::DrawPace;
use crate::effect::LoopEffect;
use crate::fleet_source::{FleetSource, playback_changed};
use crate::handover::{Handover, SuspendedTask};
use crate::keyboard::{DEVICE_STATUS_QUERY, Keyboard};
use crate::keymap::Keymap;
use crate::request::{NodeReply, UiRequest};
use crate::screen::{Ui, UiConfig};
use crate::signals::{StopReason, StopSignals};
use crate::surface::Surface;
use crate::terminal::{self, PanicGuard, Terminal};
use gtop_fleet::query::Filter;
use gtop_local::time::Clock;
use gtop_model::{HostKeyReply, OutputGrowth, RecordedBy, RequestError, RunList, RunReply};

/// The first frame waits this long for the terminal's reply about its background colour. Until it comes, colours hold on both.
const BACKGROUND_REPLY_TIMEOUT: Duration = Duration::from_millis(10);
/// How long the result of a settings change is shown.
const SETTINGS_MESSAGE_DURATION: Duration = Duration::from_secs(6);
/// Longer than other messages: users rarely look at the last line right after the start.
const STARTUP_MESSAGE_DURATION: Duration = Duration::from_secs(30);

/// Inputs and outputs of the UI.
#[derive(Debug)]
pub struct UiContext {
    /// The fleet that is shown first.
    pub source: FleetSource,
    /// Sources that replace the one shown.
    pub sources: mpsc::Receiver<FleetSource>,
    /// The training runs, if they are watched.
    pub runs: Option<RunFeed>,
    /// Replies about the keys of hosts.
    pub host_keys: mpsc::Receiver<HostKeyReply>,
    /// Who records the live fleet.
    pub recorded: watch::Receiver<RecordedBy>,
    /// Real time, whichever time is shown.
    pub clock: Clock,
    pub zone: TimeZone,
    /// Short description of what is monitored.
    pub title: String,
    /// Requests are dropped while this channel is full.
    pub requests: mpsc::Sender<UiRequest>,
    pub suspended_tasks: mpsc::Receiver<SuspendedTask>,
    pub replies: mpsc::Receiver<NodeReply>,
    pub config: UiConfig,
    pub keys: Keymap,
    /// Shown at startup.
    pub message: Option<String>,
    pub settings_events: mpsc::Receiver<SettingsEvent>,
    /// The filter at startup.
    pub filter: Filter,
    /// The filters used last in earlier runs, the newest first.
    pub recent_filters: Vec<String>,
    /// Captures mouse clicks and the wheel; the terminal's own selection then needs Shift.
    pub has_mouse: bool,
}

/// News of training runs.
#[derive(Debug)]
pub struct RunFeed {
    pub list: watch::Receiver<Arc<RunList>>,
    pub replies: mpsc::Receiver<RunReply>,
    pub growth: mpsc::Receiver<OutputGrowth>,
    /// Outputs open in windows of their own.
    pub opens_windows: bool,
}

/// Waits for news of runs; forever if none are watched. Returns `None` for a new list.
async fn run_news(feed: &mut Option<RunFeed>) -> Option<UiEvent> {
    let Some(feed) = feed else { return std::future::pending().await };
    tokio::select! {
        Some(reply) = feed.replies.recv() => Some(UiEvent::RunReply(Box::new(reply))),
        Some(growth) = feed.growth.recv() => Some(UiEvent::OutputGrowth(growth)),
        Ok(()) = feed.list.changed() => None,
        else => std::future::pending().await,
    }
}

#[derive(Debug)]
pub enum SettingsEvent {
    /// The new settings.
    Changed(Box<UiConfig>),
    /// A text to show.
    Message(String),
    /// The name of a setting, the text it rejected, and the reason.
    Rejected(String, String, String),
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
    let reason = Box::pin(screen.run_loop(signals)).await;
    let clip = screen.clip.take().filter(|_| reason != StopReason::HangUp);
    let clip = clip.filter(|_| !screen.terminal.takes_clips());
    drop(screen);
    if let Some(clip) = clip {
        // Fails only if the terminal is closed.
        terminal::print(&clip.printed()).ok();
    }
    drop(guard);
    Ok(reason)
}

struct TerminalSignals {
    end: StopSignals,
    resume: Signal,
    resize: Signal,
}

impl TerminalSignals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            end: StopSignals::new(),
            resume: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
            resize: signal(SignalKind::window_change())?,
        })
    }

    async fn next(&mut self) -> UiEvent {
        tokio::select! {
            reason = self.end.next() => UiEvent::Stop(reason),
            _ = self.resume.recv() => UiEvent::Continue,
            _ = self.resize.recv() => UiEvent::Resize,
        }
    }
}

/// What the loop waits for, besides new fleets.
enum UiEvent {
    /// Terminal input; an error, or none, if the terminal is closed.
    Input(Option<io::Result<Event>>),
    /// True if the terminal reports a light background.
    Background(bool),
    Stop(StopReason),
    /// SIGCONT.
    Continue,
    /// SIGWINCH.
    Resize,
    SuspendedTask(SuspendedTask),
    NodeReply(NodeReply),
    HostKeys(HostKeyReply),
    RunReply(Box<RunReply>),
    OutputGrowth(OutputGrowth),
    Settings(SettingsEvent),
    Source(FleetSource),
    /// The player has jumped, or has changed its speed.
    Playback,
    /// It is time to draw.
    Tick,
}

struct EventLoop {
    context: UiContext,
    terminal: Terminal,
    surface: Surface,
    ui: Ui,
    pace: DrawPace,
    /// The state that other tasks know.
    sent_state: [UiRequest; 4],
    /// Ctrl-Z has already handled the SIGCONT that is still to be delivered.
    has_resumed: bool,
    handover: Handover,
    /// What was copied last.
    clip: Option<Clip>,
}

impl EventLoop {
    fn new(context: UiContext, terminal: Terminal) -> Self {
        let UiConfig { theme, interval, display, .. } = context.config.clone();
        let mut ui = Ui::new(context.title.clone(), interval, context.zone.clone(), theme)
            .with_options(display, context.keys.clone())
            .with_filters(context.filter.clone(), context.recent_filters.clone());
        ui.apply_config(context.config.clone());
        if context.runs.as_ref().is_some_and(|feed| feed.opens_windows) {
            ui.open_output_windows();
        }
        if let Some(text) = context.message.clone() {
            ui.show_message_for(text, STARTUP_MESSAGE_DURATION, context.clock.now());
        }
        Self {
            ui,
            pace: DrawPace::new(context.config.redraw.interval),
            context,
            terminal,
            surface: Surface::new(),
            sent_state: [
                UiRequest::WatchJob(None),
                UiRequest::SetInterval(interval),
                UiRequest::FocusNode(None),
                UiRequest::UnfoldRuns(Vec::new()),
            ],
            has_resumed: false,
            handover: Handover::default(),
            clip: None,
        }
    }

    /// Queries the terminal's background colour; the reply arrives as keyboard input.
    fn query_background(&mut self) {
        let term = std::env::var("TERM").unwrap_or_default();
        if crate::background::supports_query(&term) && self.terminal.can_draw() {
            // A closed terminal is noticed at the first frame.
            self.handover.queried_at =
                self.terminal.write(BACKGROUND_QUERY).is_ok().then(|| self.context.clock.now());
        }
    }

    fn open_keyboard(&self) -> io::Result<Keyboard> {
        Keyboard::open(BackgroundDetector::new(
            self.context.clock.clone(),
            self.handover.queried_at,
        ))
    }

    fn on_background(&mut self, is_light: bool) {
        self.handover.queried_at = None;
        self.ui.on_background(is_light);
    }

    async fn run_loop(&mut self, mut signals: TerminalSignals) -> StopReason {
        let Ok(mut keyboard) = self.open_keyboard() else { return StopReason::HangUp };
        if self.handover.queried_at.is_some()
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
            let reason = if let Some(task) = self.due_task(&keyboard) {
                // Only one reader of the terminal at a time.
                drop(keyboard);
                let reason = self.run_suspended(task, &mut signals).await;
                let Ok(again) = self.open_keyboard() else { return StopReason::HangUp };
                keyboard = again;
                reason
            } else {
                let event = self.next_event(&mut keyboard, &mut signals).await;
                self.on_event(event, &mut keyboard)
            };
            if let Some(reason) = reason {
                return reason;
            }
        }
    }

    /// Takes the task that may have the terminal now: all input is handled, and nothing is open that takes more.
    fn due_task(&mut self, keyboard: &Keyboard) -> Option<SuspendedTask> {
        if self.ui.takes_input() || !keyboard.events.is_empty() {
            return None;
        }
        let task = self.handover.take_due(self.context.clock.now())?;
        self.ui.has_waiting_login = false;
        Some(task)
    }

    async fn next_event(
        &mut self,
        keyboard: &mut Keyboard,
        signals: &mut TerminalSignals,
    ) -> UiEvent {
        loop {
            let now = self.context.clock.now();
            let delay = self.pace.delay(now, self.ui.focus().is_some());
            let delay = self.handover.delay(now).map_or(delay, |wait| wait.min(delay));
            let listens = self.pace.listens();
            return tokio::select! {
                input = keyboard.events.recv() => UiEvent::Input(input),
                Ok(()) = keyboard.background.changed() => {
                    UiEvent::Background(keyboard.background.borrow_and_update().unwrap_or_default())
                }
                event = signals.next() => event,
                Some(task) = self.context.suspended_tasks.recv(), if self.handover.is_free() => {
                    UiEvent::SuspendedTask(task)
                }
                Some(reply) = self.context.replies.recv() => UiEvent::NodeReply(reply),
                Some(reply) = self.context.host_keys.recv() => UiEvent::HostKeys(reply),
                news = run_news(&mut self.context.runs) => {
                    if let Some(event) = news {
                        return event;
                    }
                    // A new list is drawn with the next fleet, or when it is due.
                    self.pace.on_other_news();
                    continue;
                }
                Some(event) = self.context.settings_events.recv() => UiEvent::Settings(event),
                Some(source) = self.context.sources.recv() => UiEvent::Source(source),
                () = playback_changed(&mut self.context.source.playback) => UiEvent::Playback,
                changed = self.context.source.fleet.changed(), if listens => {
                    match changed {
                        Ok(()) => {
                            let arrivals = self.context.source.fleet.borrow_and_update().arrivals;
                            self.pace.on_fleet(arrivals);
                        }
                        Err(_closed) => self.pace.on_closed(),
                    }
                    continue;
                }
                () = tokio::time::sleep(delay) => UiEvent::Tick,
            };
        }
    }

    /// Handles an event; keys that are already queued are handled before the next draw.
    fn on_event(&mut self, event: UiEvent, keyboard: &mut Keyboard) -> Option<StopReason> {
        let now = self.context.clock.now();
        let mut request = None;
        match event {
            UiEvent::Stop(reason) => return Some(reason),
            UiEvent::Continue => {
                if self.terminal.reenter().is_err() {
                    return Some(StopReason::HangUp);
                }
                self.surface.invalidate();
                if !std::mem::take(&mut self.has_resumed) {
                    self.send(Some(UiRequest::Refresh));
                }
            }
            UiEvent::Input(input) => {
                let mut next = Some(input);
                while let Some(input) = next {
                    let Some(Ok(input)) = input else { return Some(StopReason::HangUp) };
                    if let Some(reason) = self.on_input(&input) {
                        return Some(reason);
                    }
                    // Input that is already queued.
                    next = keyboard.events.try_recv().ok().map(Some);
                }
            }
            UiEvent::Background(is_light) => self.on_background(is_light),
            UiEvent::NodeReply(reply) => self.ui.on_reply(&reply, now),
            UiEvent::HostKeys(reply) => request = self.ui.on_host_keys(reply, now),
            UiEvent::RunReply(reply) => request = self.ui.on_run_reply(&reply, now),
            UiEvent::OutputGrowth(growth) => request = self.ui.on_output(&growth),
            UiEvent::Settings(SettingsEvent::Changed(config)) => {
                self.ui.apply_config(*config);
                self.pace.interval = self.ui.drawn_every(now);
            }
            UiEvent::Settings(SettingsEvent::Message(text)) => {
                self.ui.show_message_for(text, SETTINGS_MESSAGE_DURATION, now);
            }
            UiEvent::Settings(SettingsEvent::Rejected(name, text, why)) => {
                self.ui.reject_setting(&name, &text);
                self.ui.show_message_for(why, SETTINGS_MESSAGE_DURATION, now);
            }
            UiEvent::Source(source) => {
                self.context.source = source;
                self.ui.on_source();
                self.pace.on_source();
            }
            UiEvent::Playback => self.pace.on_source(),
            // The size may have changed twice, and terminals drop what does not fit.
            UiEvent::Resize => self.surface.invalidate(),
            UiEvent::SuspendedTask(task) => {
                self.handover.set_task(task);
                self.ui.has_waiting_login = true;
            }
            UiEvent::Tick => {}
        }
        self.send(request);
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
        let mut work = tokio::task::spawn_blocking(move || task(&is_over_flag));
        let mut reason = None;
        loop {
            tokio::select! {
                // A panic in it is shown when the UI ends.
                _done = &mut work => break,
                event = signals.next(), if reason.is_none() => {
                    if let UiEvent::Stop(end) = event {
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

    fn on_input(&mut self, event: &Event) -> Option<StopReason> {
        let now = self.context.clock.now();
        let effect = match event {
            Event::Key(key) if key.kind == KeyEventKind::Release => LoopEffect::Ignored,
            Event::Key(key) => self.ui.on_key(*key, now),
            Event::Mouse(mouse) => self.ui.on_mouse(*mouse, now),
            Event::Paste(text) => {
                self.ui.on_paste(text, now);
                LoopEffect::Handled
            }
            Event::FocusGained | Event::FocusLost => {
                self.ui.set_attended(*event == Event::FocusGained, now);
                LoopEffect::Handled
            }
            Event::Resize(..) => {
                if self.terminal.can_draw() {
                    // A closed terminal is noticed at the next frame.
                    self.terminal.write(DEVICE_STATUS_QUERY).ok();
                }
                LoopEffect::Handled
            }
        };
        let asks_for_login =
            matches!(effect, LoopEffect::Request(UiRequest::LogIn(_) | UiRequest::Refresh));
        self.handover.on_input(now, asks_for_login);
        match effect {
            LoopEffect::Request(request) => self.send(Some(request)),
            LoopEffect::Exit(reason) => return Some(reason),
            LoopEffect::Redraw => self.surface.invalidate(),
            LoopEffect::Copy(clip) => {
                // A closed terminal is noticed at the next frame.
                self.terminal.write(&clip.sequence()).ok();
                self.clip = Some(clip);
            }
            LoopEffect::Suspend => {
                if self.terminal.suspend().is_err() {
                    return Some(StopReason::HangUp);
                }
                self.surface.invalidate();
                self.has_resumed = true;
                self.send(Some(UiRequest::Refresh));
            }
            LoopEffect::Handled | LoopEffect::Ignored => {}
        }
        None
    }

    /// Sends a request, if there is one; none about nodes while a recording is shown.
    fn send(&mut self, request: Option<UiRequest>) {
        let is_recorded = self.ui.is_recorded();
        let request = request.filter(|request| !is_recorded || !request.needs_nodes());
        let Some(request) = request else { return };
        let Err(error) = self.context.requests.try_send(request) else { return };
        log::warn!("a request was dropped: {error}");
        let now = self.context.clock.now();
        if let UiRequest::QueryNodes(requests) | UiRequest::SignalProcesses(requests) =
            error.into_inner()
        {
            // The view waits for a reply, so it gets an error.
            for request in requests {
                let reply = NodeReply { request, result: Err(RequestError::QueueFull), at: now };
                self.ui.on_reply(&reply, now);
            }
        }
    }

    /// Sends the state that has changed; retried while the channel is full.
    fn send_changed_state(&mut self) {
        let is_recorded = self.ui.is_recorded();
        let state = self.ui.followed_state(self.context.clock.now());
        for (state, sent) in state.into_iter().zip(&mut self.sent_state) {
            // No request about nodes is sent while a recording is shown, but a focus ends.
            let is_sent = !is_recorded || state == UiRequest::FocusNode(None);
            if is_sent && state != *sent && self.context.requests.try_send(state.clone()).is_ok() {
                *sent = state;
            }
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        let now = self.context.clock.now();
        if self.pace.is_due(now, self.ui.focus().is_some()) {
            let (fleet, timeline) = self.context.source.read();
            self.pace.on_draw(now, fleet.arrivals);
            let recorded = self.context.recorded.borrow().clone();
            self.ui.on_recorded(recorded, now);
            self.ui.on_timeline(timeline, now);
            self.ui.on_fleet(fleet, now);
            self.pace.interval = self.ui.drawn_every(now);
            if let Some(feed) = self.context.runs.as_mut().filter(|_| !self.ui.is_recorded()) {
                let list = Arc::clone(&feed.list.borrow_and_update());
                self.ui.on_runs(&list);
            }
            let request = self.ui.due();
            self.send(request);
        }
        if !self.terminal.can_draw() {
            return Ok(());
        }
        let area = self.terminal.area()?;
        let text = self.surface.frame(area, |buffer| self.ui.draw(now, buffer));
        let request = self.ui.due_runs();
        self.send(request);
        if text.is_empty() { Ok(()) } else { self.terminal.write(&text) }
    }
}
