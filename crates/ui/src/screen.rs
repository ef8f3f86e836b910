//! The state of the screen between events: what is shown, what is open in front of it, and pending requests.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;

use crate::action::{Action, ProcessAction, RowAction, SortAction};
use crate::appearance::Appearance;
use crate::dialog::Dialog;
use crate::dialog::host_keys::HostKeyDialog;
use crate::dialog::output::OutputDialog;
use crate::dialog::setup::Setup;
use crate::display_options::DisplayOptions;
use crate::draw_pace::RedrawPace;
use crate::effect::{Effect, LoopEffect};
use crate::filter_prompt::FilterPrompt;
use crate::focus;
use crate::help::signs::{HelpSubject, ShownSigns};
use crate::help::{self, HelpPage};
use crate::input::{Click, Key, NamedKey};
use crate::keyboard;
use crate::keymap::Keymap;
use crate::message::MessageLine;
use crate::navigation::Navigation;
use crate::overlays::Overlays;
use crate::paint::paint;
use crate::preferences::Preferences;
use crate::recording_state::RecordingState;
use crate::render::{self, ScreenFrame};
use crate::render_context::Size;
use crate::request::{NodeReply, NodeRequest, UiRequest};
use crate::sampling::Sampling;
use crate::screen_state::ScreenState;
use crate::selection::JobSelection;
use crate::settings::ScreenSettings;
use crate::shown_fleet::{FrozenView, ShownFleet};
use crate::signals::StopReason;
use crate::surface::Hyperlink;
use crate::theme::Theme;
use crate::time_prompt::TimePrompt;
use crate::time_prompt::time_text::TimeContext;
use crate::timeline::Timeline;
use crate::view::View;
use crate::views::job;
use crate::widgets::line::Line;
use crate::widgets::list::{Movement, cycled};
use gtop_fleet::insight::FleetView;
use gtop_fleet::query::{Filter, remember_filter};
use gtop_fleet::{Fleet, Node};
use gtop_local::text::sanitized_chars;
use gtop_local::time::Timestamp;
use gtop_model::{
    Focus, HostKeyReply, JobId, Link, NodeName, OutputGrowth, PlaybackCommand, RecordedBy, RunList,
    RunReply, RunRequest,
};

/// How long the removal of the selected node is shown: longer, because it is unexpected.
const REMOVED_NODE_MESSAGE_DURATION: Duration = Duration::from_secs(10);
/// How long a fault of the recorder, its end, or the loss of a recording is shown.
const RECORDING_MESSAGE_DURATION: Duration = Duration::from_secs(10);
const NOT_RECORDED: &str = "nothing is being recorded; with gtop --record FILE you can go back";
const RECORDED_ELSEWHERE: &str = "another gtop records what it watches; gtop replay plays that";
const RECORDED: &str = "this is a recording; gtop sends nothing to nodes";
/// Shown in a dialog or prompt of the screen, which a login does not close.
const LOGIN_WAITS: &str = "a login is waiting for your answer: close this to see the question";
/// Maximum characters used of a paste; no input line is longer.
const MAX_PASTE_CHARS: usize = 1_000;
/// Rows that one turn of the wheel scrolls, without and with Ctrl.
const WHEEL_ROWS: usize = 3;
const FAST_WHEEL_ROWS: usize = 5 * WHEEL_ROWS;

/// The settings that the UI depends on; they may change while it runs.
#[derive(Clone, Debug)]
pub struct UiConfig {
    pub theme: Theme,
    /// Adapts the theme to the background colour that the terminal reports.
    pub detects_background: bool,
    pub display: DisplayOptions,
    pub interval: Duration,
    pub redraw: RedrawPace,
    pub settings: ScreenSettings,
    pub setup: Setup,
}

#[derive(Debug)]
pub struct Ui {
    title: String,
    keys: Keymap,
    appearance: Appearance,
    preferences: Preferences,
    shown: ShownFleet,
    navigation: Navigation,
    recording: RecordingState,
    sampling: Sampling,
    redraw: RedrawPace,
    overlays: Overlays,
    message: MessageLine,
    /// A login waits for the terminal.
    pub(crate) has_waiting_login: bool,
    /// The lines of the last frame, to resolve clicks.
    drawn: Vec<Line>,
    due: DueRequests,
}

/// Requests that are not sent yet.
#[derive(Debug, Default)]
struct DueRequests {
    nodes: Vec<NodeRequest>,
    runs: Vec<RunRequest>,
}

impl Ui {
    pub fn new(title: String, interval: Duration, zone: TimeZone, theme: Theme) -> Self {
        Self {
            title,
            keys: Keymap::default(),
            appearance: Appearance::new(theme),
            preferences: Preferences::default(),
            shown: ShownFleet::new(zone),
            navigation: Navigation::default(),
            recording: RecordingState::default(),
            sampling: Sampling::new(interval),
            redraw: RedrawPace::default(),
            overlays: Overlays::default(),
            message: MessageLine::default(),
            has_waiting_login: false,
            drawn: Vec::new(),
            due: DueRequests::default(),
        }
    }

    /// Returns the same with display options and key bindings.
    #[must_use]
    pub fn with_options(mut self, display: DisplayOptions, keys: Keymap) -> Self {
        self.keys = if display.is_readonly { keys.readonly() } else { keys };
        self.shown.display = display;
        self
    }

    /// Returns the same with a filter, and those of earlier runs, the newest first.
    #[must_use]
    pub fn with_filters(mut self, filter: Filter, recent: Vec<String>) -> Self {
        self.shown.set_filter(filter);
        self.preferences.recent_filters = recent;
        self
    }

    /// Applies changed settings.
    pub fn apply_config(&mut self, config: UiConfig) {
        let UiConfig { theme, detects_background, display, interval, redraw, settings, setup } =
            config;
        self.appearance.configure(theme, detects_background);
        (self.sampling.interval, self.redraw) = (interval, redraw);
        let selects_others = self.shown.display.selection != display.selection;
        self.shown.display = display;
        if selects_others {
            self.shown.rebuild();
        }
        self.preferences.configure(&mut self.navigation, settings);
        if let Some(Dialog::Setup(dialog)) = &mut self.overlays.dialog {
            dialog.update_pages(&setup);
        }
        self.preferences.setup = setup;
    }

    /// Adapts the theme to the terminal's background.
    pub(crate) fn on_background(&mut self, is_light: bool) {
        self.appearance.on_background(is_light);
    }

    /// Returns true if the theme should follow the terminal's background.
    pub const fn detects_background(&self) -> bool {
        self.appearance.detects_background
    }

    /// Reopens the input of a setting whose value was rejected.
    pub(crate) fn reject_setting(&mut self, name: &str, text: &str) {
        if let Some(Dialog::Setup(open)) = &mut self.overlays.dialog {
            open.reopen_rejected(name, text);
        }
    }

    /// Requests to save changed settings, including those that keys have changed.
    fn save(&mut self) -> LoopEffect {
        let changed = self.preferences.save(&self.navigation, &self.shown.display);
        LoopEffect::Request(UiRequest::SaveSettings(changed))
    }

    /// Notes that the next snapshot comes from another source, and does not continue the one before.
    pub fn on_source(&mut self) {
        self.shown.jump();
        // A signal is sent only to processes that were live when they were selected.
        self.overlays.dialog.take_if(|dialog| matches!(dialog, Dialog::Signal(_)));
    }

    /// Notes the state of the player before its snapshot; `None` if the fleet is live.
    pub fn on_timeline(&mut self, timeline: Option<Timeline>, now: Timestamp) {
        if self.recording.has_jumped(timeline.as_ref()) {
            self.on_source();
        }
        if !self.is_recorded() && timeline.is_some() && self.navigation.has_started {
            let events = std::mem::take(&mut self.navigation.events);
            self.recording.left_live = Some((events, self.shown.live.clone()));
        }
        if let Some(text) = self.recording.set_timeline(timeline) {
            self.message.show_for(text, RECORDING_MESSAGE_DURATION, now);
        }
    }

    /// Notes who records the live fleet.
    pub fn on_recorded(&mut self, recorded: RecordedBy, now: Timestamp) {
        if let Some(text) = self.recording.set_recorded(recorded) {
            self.message.show_for(text, RECORDING_MESSAGE_DURATION, now);
        }
    }

    /// Returns true if a recording is shown.
    pub const fn is_recorded(&self) -> bool {
        self.recording.is_shown()
    }

    /// Shows a new snapshot, or the same one with later ages. A recorded one is shown at the time of its recording.
    pub fn on_fleet(&mut self, fleet: Fleet, now: Timestamp) {
        self.navigation.on_nodes(fleet.nodes.len(), now);
        let timeline = self.recording.timeline.as_ref();
        let shown_at = timeline.map_or(now, |timeline| timeline.position);
        let before = self.shown.update(fleet, shown_at);
        if before.is_none() {
            self.continue_after_jump();
        }
        if let Some(Timeline { playback, position }) = &self.recording.timeline {
            self.navigation.events.show_marks(&playback.marks, *position);
        } else if let Some(before) = &before {
            self.navigation.events.record_changes(before, &self.shown.live);
        }
        if self.shown.frozen.is_none() {
            if let Some(before) = before {
                self.report_removed_node(&before, now);
            }
            self.due.nodes = self.navigation.on_tick(self.shown.context());
        }
        self.check_focus(now);
    }

    /// Back in the live fleet, continues with the events before the user left it.
    fn continue_after_jump(&mut self) {
        self.navigation.on_jump();
        if !self.is_recorded()
            && let Some((events, before)) = self.recording.left_live.take()
        {
            self.navigation.events = events;
            self.navigation.events.record_changes(&before, &self.shown.live);
        }
    }

    /// Shows a message if the selected node was in the previous snapshot and is no longer monitored.
    fn report_removed_node(&mut self, before: &FleetView, now: Timestamp) {
        if let Some(name) = self.navigation.on_update(before, &self.shown.live) {
            let text = format!("{name} is no longer monitored");
            self.message.show_for(text, REMOVED_NODE_MESSAGE_DURATION, now);
        }
    }

    /// Returns the pending requests to nodes and clears them.
    pub fn due(&mut self) -> Option<UiRequest> {
        let due = std::mem::take(&mut self.due.nodes);
        (!due.is_empty()).then_some(UiRequest::QueryNodes(due))
    }

    /// Returns the pending requests about runs and clears them.
    pub fn due_runs(&mut self) -> Option<UiRequest> {
        let due = std::mem::take(&mut self.due.runs);
        (!due.is_empty()).then_some(UiRequest::Runs(due))
    }

    /// Returns the node to sample faster, if any.
    pub fn focus(&self) -> Option<&NodeName> {
        self.sampling.focus.as_ref().map(|focus| &focus.node)
    }

    /// Begins a focus on the selected node, or ends the one there is.
    fn toggle_focus(&mut self, now: Timestamp) {
        if self.sampling.focus.take().is_some() {
            return;
        }
        if self.navigation.is_on_job_list() {
            self.answer(job::NOT_OPEN, now);
            return;
        }
        match focus::begin(self.focusable_node(), now) {
            Ok(focus) => {
                // Another order of the rows must not move the focus.
                self.navigation.shared.selection.select(focus.node.clone());
                self.sampling.focus = Some(focus);
            }
            Err(reason) => self.answer(reason, now),
        }
    }

    /// Returns the shown node, in the views that show nodes.
    fn focusable_node(&self) -> Option<&Node> {
        let shows_nodes = matches!(self.navigation.view, View::Fleet | View::Job | View::Node);
        let is_live = !self.is_recorded() && !self.navigation.is_on_job_list();
        self.navigation
            .shown_node(self.shown.view())
            .filter(|_| shows_nodes && is_live)
            .map(|node| &**node)
    }

    /// Ends the focus, with a message, if its node is no longer looked at or its time is over.
    fn check_focus(&mut self, now: Timestamp) {
        let Some(focus) = &self.sampling.focus else { return };
        let shown = self.focusable_node();
        if let Some(reason) = focus::end_reason(focus, shown, now) {
            let again = self.keys.key_text_of("focus").filter(|_| shown.is_some());
            let again = again.map(|key| format!("; {key} starts it again")).unwrap_or_default();
            self.sampling.focus = None;
            self.message.show(reason + &again, now);
        }
    }

    /// Records whether the terminal has focus.
    pub fn set_attended(&mut self, is_attended: bool, now: Timestamp) {
        if let Some(focus) = self.sampling.set_attended(is_attended, now) {
            let text = format!("focus on {} ended: gtop was suspended", focus.node);
            self.message.show(text, now);
        }
    }

    /// Returns the sampling interval: longer when the terminal has been without focus for a while.
    pub fn interval(&self, now: Timestamp) -> Duration {
        self.sampling.interval(now)
    }

    /// Returns true if a dialog or a prompt takes the keys.
    pub(crate) const fn takes_input(&self) -> bool {
        self.overlays.takes_input()
    }

    /// Returns the minimum time between two draws of new data.
    pub(crate) fn drawn_every(&self, now: Timestamp) -> Duration {
        self.redraw.of_samples(self.interval(now), self.shown.live.fleet.nodes.len())
    }

    /// Handles a key.
    pub fn on_key(&mut self, event: KeyEvent, now: Timestamp) -> LoopEffect {
        self.press_and_check(keyboard::to_key(event), now)
    }

    /// Handles a key, or one that means nothing, and what follows.
    fn press_and_check(&mut self, key: Option<Key>, now: Timestamp) -> LoopEffect {
        self.navigation.on_input();
        let answer = self.message.take_answer();
        let effect = key.map_or(LoopEffect::Ignored, |key| self.press(key, now));
        // The answer to the last key may not hold after this one, unless that changes nothing.
        if matches!(effect, LoopEffect::Ignored | LoopEffect::Redraw) {
            self.message.restore(answer);
        }
        self.check_focus(now);
        effect
    }

    fn press(&mut self, key: Key, now: Timestamp) -> LoopEffect {
        if let Some(prompt) = &mut self.overlays.filter_prompt {
            match prompt.on_key(key, &self.shown.live.fleet) {
                ControlFlow::Break(filter) => {
                    self.overlays.filter_prompt = None;
                    let text = filter.text().to_owned();
                    self.shown.set_filter(filter);
                    if remember_filter(&mut self.preferences.recent_filters, &text) {
                        return LoopEffect::Request(UiRequest::RememberFilter(text));
                    }
                }
                ControlFlow::Continue(Some(filter)) => self.shown.set_typed_filter(filter),
                ControlFlow::Continue(None) => {}
            }
            return LoopEffect::Handled;
        }
        if let Some(prompt) = self.overlays.time_prompt.take() {
            return self.press_in_time_prompt(prompt, key, now);
        }
        if let Some(dialog) = self.overlays.dialog.take() {
            return self.press_in_dialog(dialog, key, now);
        }
        let mut actions: Vec<_> = self.keys.actions(key, self.navigation.view).collect();
        if actions.is_empty()
            && let Some(difference) = self.keys.difference(key)
        {
            self.answer(difference, now);
        }
        let height = u16::try_from(self.drawn.len()).unwrap_or(u16::MAX);
        // One line of the page before stays in sight.
        let page = self.body_height(height).saturating_sub(1).max(1);
        if let Some(help) = &mut self.overlays.help {
            // The help page scrolls, is searched and closes by keys of its own.
            if let Some(text) = help.search(key) {
                if !text.is_empty() {
                    self.answer(text, now);
                }
                return LoopEffect::Handled;
            }
            if let Some(step) = Movement::from_dialog_key(key) {
                help.scroll(step, page);
                return LoopEffect::Handled;
            }
            let closes = actions.contains(&&Action::Help)
                || actions.contains(&&Action::Quit)
                || matches!(key, Key::Named(NamedKey::Escape | NamedKey::Enter));
            if closes {
                self.overlays.help = None;
                return LoopEffect::Handled;
            }
            actions.truncate(1);
            actions.retain(|action| !action.belongs_to_view());
        }
        for action in actions {
            let effect = self.perform(action, now);
            if effect != LoopEffect::Ignored {
                return effect;
            }
        }
        LoopEffect::Handled
    }

    /// Handles a key in a dialog, which is put back unless the key closes it.
    fn press_in_dialog(&mut self, mut dialog: Dialog, key: Key, now: Timestamp) -> LoopEffect {
        // The setup pages are closed and saved by the keys bound to those actions.
        if matches!(&dialog, Dialog::Setup(setup) if !setup.is_typing()) {
            let action = self.keys.actions(key, self.navigation.view).next();
            if action == Some(&Action::Setup) {
                return LoopEffect::Handled;
            }
            if action == Some(&Action::Save) {
                self.overlays.dialog = Some(dialog);
                return self.save();
            }
        }
        match dialog.on_key(key) {
            ControlFlow::Break(None) => LoopEffect::of_request(dialog.closing_requests()),
            ControlFlow::Break(Some(action)) => self.perform_in_view(&action, now),
            ControlFlow::Continue(request) => {
                self.overlays.dialog = Some(dialog);
                LoopEffect::of_request(request)
            }
        }
    }

    /// Handles a key in the prompt for a time, which is put back unless the key closes it.
    fn press_in_time_prompt(
        &mut self,
        mut prompt: TimePrompt,
        key: Key,
        now: Timestamp,
    ) -> LoopEffect {
        let spans = &self.recording.spans();
        let time = TimeContext { now: self.shown.live.now, zone: &self.shown.zone, spans };
        match prompt.on_key(key, time) {
            ControlFlow::Break(Some(time)) => {
                self.request_playback(PlaybackCommand::GoTo(time), now)
            }
            ControlFlow::Break(None) => LoopEffect::Handled,
            ControlFlow::Continue(()) => {
                self.overlays.time_prompt = Some(prompt);
                LoopEffect::Handled
            }
        }
    }

    /// Inserts pasted text where a line is being typed and ignores it elsewhere: the contents of a clipboard
    /// must not act as keys, one of which could kill a process.
    pub fn on_paste(&mut self, text: &str, now: Timestamp) {
        if let Some(Dialog::HostKeys(dialog)) = &mut self.overlays.dialog {
            return dialog.on_paste(text);
        }
        if self.overlays.is_typing() {
            for letter in sanitized_chars(text.trim()).take(MAX_PASTE_CHARS) {
                // In an input line, a character has no other effect than to be inserted.
                self.press(Key::Letter(letter), now);
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other actions belong to the view")]
    /// Performs an action.
    fn perform(&mut self, action: &Action, now: Timestamp) -> LoopEffect {
        if self.is_recorded() && action.needs_nodes() {
            self.answer(RECORDED, now);
            return LoopEffect::Handled;
        }
        match action {
            Action::Quit => return LoopEffect::Exit(StopReason::Quit),
            Action::Interrupt => return LoopEffect::Exit(StopReason::Interrupted),
            Action::Suspend => {
                self.sampling.focus = None;
                return LoopEffect::Suspend;
            }
            Action::Redraw => return LoopEffect::Redraw,
            Action::Refresh => return self.refresh(now),
            Action::Help => self.overlays.help = Some(HelpPage::default()),
            Action::Freeze => self.freeze(now),
            Action::Focus => self.toggle_focus(now),
            Action::HostKeys => return self.ask_host_keys(now),
            Action::LogIn => return self.log_in(now),
            Action::Setup => {
                self.overlays.dialog = Some(Dialog::Setup(self.preferences.setup.clone()));
            }
            Action::Save => return self.save(),
            Action::Filter => {
                let recent = &self.preferences.recent_filters;
                self.overlays.filter_prompt = Some(FilterPrompt::new(&self.shown.filter, recent));
            }
            Action::Playback(command) => return self.request_playback(*command, now),
            Action::GoTo => {
                if self.has_recording(now) {
                    self.overlays.time_prompt = Some(TimePrompt::new());
                }
            }
            Action::Rows(RowAction::Move(Movement::End)) if self.recording.is_behind() => {
                return self.request_playback(PlaybackCommand::End, now);
            }
            // Without a signal, the key quits.
            Action::Processes(ProcessAction::InterruptSelected) if self.is_recorded() => {
                return LoopEffect::Ignored;
            }
            Action::Show(view) => self.navigation.show_view(self.shown.view(), *view),
            Action::NextView => self.cycle_view(true),
            Action::PreviousView => self.cycle_view(false),
            _ => {
                let effect = self.perform_in_view(action, now);
                if effect != LoopEffect::Ignored || *action != Action::Rows(RowAction::Back) {
                    return effect;
                }
                self.back();
            }
        }
        LoopEffect::Handled
    }

    /// Opens the question about hosts whose keys are not known.
    fn ask_host_keys(&mut self, now: Timestamp) -> LoopEffect {
        let (context, view) = (self.shown.context(), self.navigation.view);
        let selected = self.navigation.shown_node(context.view).map(|node| node.name.clone());
        let effect = match HostKeyDialog::new(context, view, selected.as_ref()) {
            Ok(dialog) => Effect::OpenDialog(Dialog::HostKeys(Box::new(dialog))),
            Err(why) => Effect::Message(why),
        };
        self.apply(effect, now)
    }

    /// Requests to log in to the shown nodes that ask for it; in the node view to that node alone.
    fn log_in(&mut self, now: Timestamp) -> LoopEffect {
        let fleet_view = self.shown.view();
        let mut nodes: Vec<NodeName> = fleet_view.nodes_to_log_in().cloned().collect();
        if self.navigation.view == View::Node {
            let selected = self.navigation.shown_node(fleet_view).map(|node| &node.name);
            nodes.retain(|name| selected == Some(name));
        }
        if nodes.is_empty() {
            self.answer("no node asks for a password or a code here", now);
            return LoopEffect::Handled;
        }
        LoopEffect::Request(UiRequest::LogIn(nodes))
    }

    /// Freezes or unfreezes the display.
    fn freeze(&mut self, now: Timestamp) {
        if let Some(frozen) = self.shown.frozen.take() {
            self.report_removed_node(&frozen.view, now);
        } else {
            let view = self.shown.live.clone();
            self.shown.frozen = Some(FrozenView { view, since: now });
        }
    }

    fn perform_in_view(&mut self, action: &Action, now: Timestamp) -> LoopEffect {
        let mut effect = self.navigation.update(self.shown.context(), action);
        if let Effect::Request(request) = &effect
            && self.is_recorded()
            && request.needs_nodes()
        {
            // The page would wait for a reply.
            self.navigation.processes.close_pages();
            effect = Effect::Message(RECORDED.to_owned());
        }
        self.apply(effect, now)
    }

    /// Requests a command of the player, if there is a recording.
    fn request_playback(&mut self, command: PlaybackCommand, now: Timestamp) -> LoopEffect {
        let request = self.has_recording(now).then_some(UiRequest::Playback(command));
        LoopEffect::of_request(request)
    }

    /// Returns true if there is a recording to play, and shows how to make one otherwise.
    fn has_recording(&mut self, now: Timestamp) -> bool {
        if !self.recording.exists() {
            let is_elsewhere = self.recording.recorded == RecordedBy::Another;
            self.answer(if is_elsewhere { RECORDED_ELSEWHERE } else { NOT_RECORDED }, now);
        }
        self.recording.exists()
    }

    /// Performs an effect; returns what is left to the event loop.
    fn apply(&mut self, effect: Effect, now: Timestamp) -> LoopEffect {
        match effect {
            Effect::Handled => {}
            Effect::Ignored => return LoopEffect::Ignored,
            Effect::Message(text) => self.answer(text, now),
            Effect::SwitchView(view) => self.navigation.open(self.shown.view(), view),
            Effect::OpenNode(name, row_id) => {
                self.navigation.open_node(self.shown.view(), name, row_id);
            }
            Effect::OpenDialog(dialog) => {
                // The dialog may cover what the message is about.
                self.message.clear();
                let request = dialog.opening_request();
                self.overlays.dialog = Some(dialog);
                return LoopEffect::of_request(request);
            }
            Effect::Request(request) => return LoopEffect::Request(request),
            Effect::Copy(clip) => {
                self.answer(clip.message(), now);
                return LoopEffect::Copy(clip);
            }
        }
        LoopEffect::Handled
    }

    /// Handles a node's reply to a request.
    pub fn on_reply(&mut self, reply: &NodeReply, now: Timestamp) {
        if let Some(Dialog::Signal(dialog)) = &mut self.overlays.dialog
            && let Some(step) = dialog.on_reply(reply)
        {
            if let ControlFlow::Break(text) = step {
                self.overlays.dialog = None;
                self.message.show(text, now);
            }
            return;
        }
        let effect = self.navigation.processes.on_reply(self.shown.context(), reply);
        let is_message = matches!(effect, Effect::Message(_));
        self.apply(effect, now);
        if is_message {
            // It may be late, and answers no key that the next one would make untrue.
            self.message.keep();
        }
    }

    /// Handles a reply about the keys of hosts; returns what to request next.
    pub fn on_host_keys(&mut self, reply: HostKeyReply, now: Timestamp) -> Option<UiRequest> {
        let Some(Dialog::HostKeys(dialog)) = &mut self.overlays.dialog else {
            // The question was closed meanwhile; what is stored is used.
            return matches!(reply, HostKeyReply::Stored(1.., _)).then_some(UiRequest::Refresh);
        };
        let ControlFlow::Break(text) = dialog.on_reply(reply) else {
            return dialog.is_answered().then_some(UiRequest::Refresh);
        };
        self.close_dialog(text, now)
    }

    /// Closes the dialog with a message; returns what it requests.
    fn close_dialog(&mut self, text: String, now: Timestamp) -> Option<UiRequest> {
        self.message.show(text, now);
        self.overlays.dialog.take()?.closing_requests()
    }

    /// Opens the outputs of runs in windows of their own from now on.
    pub(super) const fn open_output_windows(&mut self) {
        self.navigation.runs.opens_windows = true;
    }

    /// Notes the newest list of training runs.
    pub fn on_runs(&mut self, list: &Arc<RunList>) {
        if self.shown.live.runs.is_none() {
            // `gtop runs` opens at the runs.
            self.navigation.start_at(View::Runs);
        }
        self.shown.live.set_runs(list);
        if let Some(Dialog::Variables(dialog)) = &mut self.overlays.dialog {
            dialog.on_list(list);
        }
    }

    /// Handles the reply to a request about runs; returns what to request next.
    pub fn on_run_reply(&mut self, reply: &RunReply, now: Timestamp) -> Option<UiRequest> {
        match self.overlays.dialog.as_mut().and_then(|dialog| dialog.on_run_reply(reply)) {
            Some(ControlFlow::Continue(request)) => request,
            Some(ControlFlow::Break(text)) => self.close_dialog(text, now),
            None => {
                let closes = OutputDialog::unclaimed(reply);
                if let (Err(error), None) = (&reply.result, &closes) {
                    self.message.show(error.to_string(), now);
                }
                closes
            }
        }
    }

    /// Handles news of an output that is followed; returns what to request next.
    pub fn on_output(&mut self, growth: &OutputGrowth) -> Option<UiRequest> {
        let (output, _) = self.overlays.dialog.as_mut()?.output_mut(0)?;
        output.on_growth(growth)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only clicks and the wheel mean something")]
    /// Handles a click or the mouse wheel.
    pub fn on_mouse(&mut self, event: MouseEvent, now: Timestamp) -> LoopEffect {
        self.navigation.on_input();
        let is_shifted = event.modifiers.contains(KeyModifiers::SHIFT);
        match event.kind {
            MouseEventKind::ScrollLeft => self.press(Key::Named(NamedKey::Left), now),
            MouseEventKind::ScrollRight => self.press(Key::Named(NamedKey::Right), now),
            MouseEventKind::ScrollUp if is_shifted => self.press(Key::Named(NamedKey::Left), now),
            MouseEventKind::ScrollDown if is_shifted => {
                self.press(Key::Named(NamedKey::Right), now)
            }
            MouseEventKind::ScrollUp => self.on_wheel(Movement::Up, event, now),
            MouseEventKind::ScrollDown => self.on_wheel(Movement::Down, event, now),
            MouseEventKind::Down(MouseButton::Left) => self.on_click(event, now),
            _ => LoopEffect::Ignored,
        }
    }

    fn on_wheel(&mut self, step: Movement, event: MouseEvent, now: Timestamp) -> LoopEffect {
        let is_fast = event.modifiers.contains(KeyModifiers::CONTROL);
        for _ in 0..if is_fast { FAST_WHEEL_ROWS } else { WHEEL_ROWS } {
            if let Some(help) = &mut self.overlays.help {
                help.scroll(step, 1);
            } else if let Some(Dialog::Explanation(dialog)) = &mut self.overlays.dialog {
                dialog.scroll(step);
            } else if self.overlays.dialog.is_some() {
                let arrow = if step == Movement::Up { NamedKey::Up } else { NamedKey::Down };
                let effect = self.press(Key::Named(arrow), now);
                // Output that is not here yet is asked for before the next step.
                if matches!(effect, LoopEffect::Request(_)) {
                    return effect;
                }
            } else if !self.overlays.takes_input() {
                self.perform_in_view(&Action::Rows(RowAction::Move(step)), now);
            }
        }
        LoopEffect::Handled
    }

    fn on_click(&mut self, event: MouseEvent, now: Timestamp) -> LoopEffect {
        let line = self.drawn.get(usize::from(event.row));
        let click = line.and_then(|line| line.click_at(event.column)).cloned();
        if let Some(Click::Key(key)) = click {
            return self.press_and_check(Some(key), now);
        }
        self.message.take_answer();
        let action = match click.filter(|_| !self.overlays.takes_input()) {
            None | Some(Click::Key(_)) => return LoopEffect::Ignored,
            Some(Click::View(view)) => {
                self.overlays.help = None;
                Action::Show(view)
            }
            Some(Click::Column(column)) => Action::Sort(SortAction::By(column)),
            Some(click @ (Click::Row(_) | Click::Cell(..))) => {
                Action::Rows(RowAction::Click(click))
            }
            Some(Click::Time(time)) => Action::Playback(PlaybackCommand::GoTo(time)),
        };
        self.perform(&action, now)
    }

    /// Shows a message for `duration`.
    pub(crate) fn show_message_for(&mut self, text: String, duration: Duration, now: Timestamp) {
        self.message.show_for(text, duration, now);
    }

    /// Shows a message that answers a key of this view.
    fn answer(&mut self, text: impl Into<String>, now: Timestamp) {
        self.message.answer(text, self.navigation.view, now);
    }

    /// Requests a full sample of every node, with a message: the screen would otherwise show no effect of the
    /// key.
    fn refresh(&mut self, now: Timestamp) -> LoopEffect {
        let nodes = self.shown.live.fleet.nodes.iter();
        let text = match nodes.filter(|node| matches!(node.link, Link::Down { .. })).count() {
            0 => "refreshing all nodes".to_owned(),
            1 => "reconnecting 1 node".to_owned(),
            down => format!("reconnecting {down} nodes"),
        };
        self.message.show(text, now);
        LoopEffect::Request(UiRequest::Refresh)
    }

    fn cycle_view(&mut self, is_forward: bool) {
        let views: Vec<View> = View::shown(self.shown.view().runs.is_some()).collect();
        let view = cycled(&views, self.navigation.view, is_forward);
        self.navigation.show_view(self.shown.view(), view);
    }

    /// Clears the filter, or else goes back to the previous view.
    fn back(&mut self) {
        if self.shown.filter.is_empty() {
            self.navigation.back(self.shown.view());
        } else {
            self.shown.set_filter(Filter::default());
        }
    }

    /// Returns the state that other tasks follow: the watched job, the sampling interval and the focused node.
    pub(super) fn followed_state(&self, now: Timestamp) -> [UiRequest; 4] {
        [
            UiRequest::WatchJob(self.watched_job()),
            UiRequest::SetInterval(self.interval(now)),
            UiRequest::FocusNode(self.sampling.focus.clone()),
            UiRequest::UnfoldRuns(self.navigation.runs.unfolded()),
        ]
    }

    /// Returns the job whose details are shown.
    fn watched_job(&self) -> Option<JobId> {
        let fleet_view = self.shown.view();
        // Only jobs of the scheduler's list can be queried, not those known from processes.
        let list = fleet_view.fleet.jobs.as_ref().filter(|_| self.navigation.view == View::Job)?;
        match self.navigation.shared.selection.job(fleet_view)? {
            JobSelection::Listed(job) => list.job(&job.id).map(|job| job.id.clone()),
            JobSelection::Hidden(_) | JobSelection::Ended(_) => None,
        }
    }

    /// Returns the key hints of what takes the keys.
    fn hints(&self) -> Vec<(String, &'static str)> {
        match (&self.overlays.help, &self.overlays.dialog) {
            (Some(help), _) => help.hints(),
            (None, Some(dialog)) => self.dialog_hints(dialog),
            (None, None) => self.view_hints(),
        }
    }

    /// Returns the key hints of a dialog, with the keys as they are bound.
    fn dialog_hints(&self, dialog: &Dialog) -> Vec<(String, &'static str)> {
        let mut hints = dialog.hints();
        if let (Dialog::Setup(setup), Some(key)) = (dialog, self.keys.key_text_of("save"))
            && !setup.is_typing()
        {
            hints.insert(hints.len().saturating_sub(1), (key, "save"));
        }
        hints
    }

    /// Returns the key hints of the view; those of the player come first.
    fn view_hints(&self) -> Vec<(String, &'static str)> {
        let view = self.navigation.view;
        let mut hints = self.keys.hints(view, |action, default| self.player_hint(action, default));
        hints.extend(self.keys.hints(view, |action, default| {
            let is_live_only = action.needs_nodes() || *action == Action::Freeze;
            if action.is_of_player()
                || *action == Action::Rows(RowAction::Move(Movement::End))
                || (is_live_only && self.is_recorded())
            {
                return None;
            }
            self.navigation.hint(self.shown.view(), action, default)
        }));
        hints
    }

    /// Returns the hint of a key of the player; `None` if there is no recording.
    fn player_hint(&self, action: &Action, default: &'static str) -> Option<&'static str> {
        match (action, &self.recording.timeline) {
            (Action::Playback(PlaybackCommand::TogglePlay), Some(timeline)) => {
                Some(if timeline.playback.is_playing { "pause" } else { default })
            }
            (Action::Rows(RowAction::Move(Movement::End)), Some(timeline)) => {
                timeline.playback.is_live.then_some(default)
            }
            (Action::Playback(PlaybackCommand::TogglePlay), None) => {
                self.recording.exists().then_some("pause")
            }
            (action, Some(_)) if action.is_of_player() => Some(default),
            _ => None,
        }
    }

    /// Returns the lines of the last frame.
    #[cfg(feature = "testing")]
    pub fn drawn(&self) -> &[Line] {
        &self.drawn
    }

    /// Returns the number of lines between the header and what is below the view, on a screen of this height.
    fn body_height(&self, height: u16) -> usize {
        let is_focused = self.focused_node().is_some();
        let has_line = (self.is_recorded() || is_focused) && render::has_timeline(height);
        render::body_height(height, has_line)
    }

    /// Returns the focus and its node.
    fn focused_node(&self) -> Option<(&Focus, &Node)> {
        let focus = self.sampling.focus.as_ref()?;
        Some((focus, self.shown.view().fleet.node(&focus.node)?))
    }

    /// Draws a frame; returns its hyperlinks.
    pub fn draw(&mut self, now: Timestamp, buffer: &mut Buffer) -> Vec<Hyperlink> {
        let area = buffer.area;
        let size = (area.width, area.height);
        self.prepare(now, size);
        let frame = self.frame(now, size);
        self.update_help(&frame, size);
        let body = match &self.overlays.help {
            Some(help) => help.visible(size.0, self.body_height(size.1)),
            None => self.view_lines((size.0, frame.view_height)),
        };
        let lines = frame.around(body);
        let hyperlinks = paint(&lines, self.appearance.theme, area, buffer);
        self.drawn = lines;
        hyperlinks
    }

    /// Brings what is shown up to date with the time, the snapshot and the size of the screen.
    fn prepare(&mut self, now: Timestamp, (width, height): (u16, u16)) {
        self.shown.apply_typed_filter();
        self.message.expire(self.navigation.view, now);
        // Below the rule.
        let rows = self.body_height(height).saturating_sub(1);
        let Some(dialog) = &mut self.overlays.dialog else { return };
        if let Some((output, rows)) = dialog.output_mut(rows) {
            output.resize(width, rows);
            self.due.runs.extend(output.due());
        }
        if let Dialog::Explanation(dialog) = dialog {
            let context = self.shown.context();
            let version = context.view.version();
            if dialog.is_old(&version) {
                dialog.update(self.navigation.explain(context).ok(), version);
            }
            dialog.resize(context.view.now, width, rows);
        }
    }

    /// Brings the view up to date, draws it, and keeps what has scrolled.
    fn view_lines(&mut self, size: Size) -> Vec<Line> {
        let context = self.shown.context();
        self.navigation.prepare(context, size);
        let drawn = self.navigation.lines(context, size);
        self.navigation.keep_scrolled(&drawn);
        drawn.lines
    }

    /// Draws what is around the view.
    fn frame(&self, now: Timestamp, size: (u16, u16)) -> ScreenFrame {
        let focus = self.focused_node().map(|(focus, node)| focus::text(focus, node, now));
        let hints = self.hints();
        let nodes = self.shown.live.fleet.nodes.len();
        let login_waits = self.has_waiting_login && self.takes_input();
        let screen = ScreenState {
            title: &self.title,
            view: self.navigation.view,
            order: self.navigation.sort_order(),
            interval: self.interval(now),
            calmer: self.redraw.calmer_than_samples(self.interval(now), nodes),
            frozen: self.shown.frozen.as_ref().map(|frozen| now.since(frozen.since)),
            focus: focus.as_deref(),
            timeline: self.recording.timeline.as_ref(),
            recorded: &self.recording.recorded,
            message: if login_waits { Some(LOGIN_WAITS) } else { self.message.text() },
            hints: &hints,
            overlays: &self.overlays,
        };
        ScreenFrame::new(self.shown.context(), &screen, size)
    }

    /// Writes the help page if it is open and of another screen: it explains what the view, which it hides, and the frame
    /// show.
    fn update_help(&mut self, frame: &ScreenFrame, size: (u16, u16)) {
        let screen = (self.navigation.view, size);
        let Some(help) = &self.overlays.help else { return };
        let written = (!help.is_of(screen)).then(|| {
            let view_lines = self.view_lines((size.0, frame.view_height));
            self.help_lines(frame, &view_lines, size.0)
        });
        let rows = self.body_height(size.1);
        let Some(help) = &mut self.overlays.help else { return };
        if let Some(lines) = written {
            help.record(screen, lines);
        }
        help.fit(rows);
    }

    /// Returns the lines of the help page.
    fn help_lines(&self, frame: &ScreenFrame, view_lines: &[Line], width: u16) -> Vec<Line> {
        let context = self.shown.context();
        let subject = HelpSubject {
            view: self.navigation.view,
            theme: self.appearance.theme,
            columns: &self.navigation.columns(),
            shown: &ShownSigns::of(frame.lines().chain(view_lines)),
            scheduler: context.scheduler().name,
            has_runs: context.view.runs.is_some(),
            is_recorded: self.recording.exists(),
        };
        help::page(&self.keys, &subject, width)
    }
}
