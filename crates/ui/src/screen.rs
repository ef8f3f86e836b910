//! The state of the screen between events: the current view, its snapshot, open dialogs and pending requests.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::action::{
    Action, NodeReply, NodeRequest, ProcessAction, RowAction, SortAction, UiRequest,
};
use crate::dialog::Dialog;
use crate::dialog::host_keys::HostKeyDialog;
use crate::dialog::output::OutputDialog;
use crate::dialog::setup::Setup;
use crate::display_options::DisplayOptions;
use crate::effect::Effect;
use crate::filter_prompt::FilterPrompt;
use crate::focus;
use crate::input::{Click, Key, NamedKey};
use crate::keyboard;
use crate::keymap::{Keymap, help};
use crate::navigation::Navigation;
use crate::paint::paint;
use crate::preferences::{apply_preferences, with_preferences};
use crate::render;
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
use crate::views::{events, job};
use crate::widgets::line::Line;
use crate::widgets::list::{Movement, cycled};
use gtop_fleet::insight::FleetView;
use gtop_fleet::query::{Filter, remember_filter};
use gtop_fleet::settings::SettingGroup as _;
use gtop_fleet::{Fleet, Node};
use gtop_local::text::sanitized_chars;
use gtop_local::time::Timestamp;
use gtop_model::{
    Focus, HostKeyReply, JobId, Link, NodeName, OutputGrowth, PlaybackCommand, RecorderState,
    RunList, RunReply, RunRequest,
};

/// How long a message is shown.
const MESSAGE_DURATION: Duration = Duration::from_secs(4);
/// How long the removal of the selected node is shown: longer, because it is unexpected.
const REMOVED_NODE_MESSAGE_DURATION: Duration = Duration::from_secs(10);
/// How long a fault of the recorder, its end, or the loss of a recording is shown.
const RECORDING_MESSAGE_DURATION: Duration = Duration::from_secs(10);
const NOT_RECORDED: &str =
    "nothing is recorded; gtop --record FILE keeps a recording to go back in";
const RECORDED: &str = "this is a recording; nothing is sent to nodes";
/// Time without terminal focus after which nodes may sample less often.
const UNATTENDED_AFTER: Duration = Duration::from_secs(60);
const UNATTENDED_INTERVAL: Duration = Duration::from_secs(5);
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
    pub settings: ScreenSettings,
    pub setup: Setup,
}

#[derive(Debug)]
pub struct Ui {
    theme: Theme,
    detects_background: bool,
    /// True if the terminal reports a light background; `None` if it has not reported one.
    is_light: Option<bool>,
    keys: Keymap,
    title: String,
    interval: Duration,
    shown: ShownFleet,
    navigation: Navigation,
    /// Some node was shown; before that, the view is chosen by the number of nodes.
    has_shown_nodes: bool,
    /// What is played, and its position; `None` if the fleet is live.
    timeline: Option<Timeline>,
    /// The events and the snapshot of the live fleet when the user left it for its recording.
    left_live: Option<(events::State, FleetView)>,
    /// What is missing in recordings, as it was shown last.
    shown_loss: Option<Arc<str>>,
    /// The recorder of the live fleet, if it is recorded.
    recorder: Option<RecorderState>,
    /// The help page, while it is open.
    help: Option<OpenHelp>,
    /// The filter prompt, while it is open.
    filter_prompt: Option<FilterPrompt>,
    /// The filters used last, the newest first.
    recent_filters: Vec<String>,
    /// The prompt for a time of the recording, while it is open.
    time_prompt: Option<TimePrompt>,
    /// The dialog that takes all keys, while one is open.
    dialog: Option<Dialog>,
    /// The setup pages, with the current settings.
    setup: Setup,
    /// The settings as they last were, to find those that keys have changed since.
    settings: ScreenSettings,
    /// The node in focus.
    focus: Option<Focus>,
    /// Since when the terminal has no focus, if it reports focus.
    unattended: Option<Timestamp>,
    message: Option<ShownMessage>,
    /// The lines of the last frame, to resolve clicks.
    drawn: Vec<Line>,
    /// Requests to nodes that are not sent yet.
    due: Vec<NodeRequest>,
    /// The same about runs.
    due_runs: Vec<RunRequest>,
}

/// The open help page.
#[derive(Clone, Debug, Default)]
struct OpenHelp {
    /// The first visible line.
    top: usize,
    /// What the screen shows at this size, so that the page stays the same while it is read.
    shown: Option<((u16, u16), help::ShownSigns)>,
}

/// A message on the screen.
#[derive(Debug)]
struct ShownMessage {
    text: String,
    until: Timestamp,
    /// The view of the key that it answers; it ends with the next key. `None` if it answers none.
    view: Option<View>,
}

impl Ui {
    pub fn new(title: String, interval: Duration, zone: TimeZone, theme: Theme) -> Self {
        Self {
            theme,
            detects_background: false,
            is_light: None,
            keys: Keymap::default(),
            title,
            interval,
            shown: ShownFleet::new(zone),
            navigation: Navigation::default(),
            has_shown_nodes: false,
            timeline: None,
            left_live: None,
            shown_loss: None,
            recorder: None,
            help: None,
            filter_prompt: None,
            recent_filters: Vec::new(),
            time_prompt: None,
            dialog: None,
            setup: Setup::default(),
            settings: ScreenSettings::default(),
            focus: None,
            unattended: None,
            message: None,
            drawn: Vec::new(),
            due: Vec::new(),
            due_runs: Vec::new(),
        }
    }

    /// Returns the same with display options and key bindings.
    #[must_use]
    pub fn with_options(mut self, display: DisplayOptions, keys: Keymap) -> Self {
        self.keys = if display.is_readonly { keys.readonly() } else { keys };
        self.shown.display = display;
        self
    }

    /// Returns the same with the filters of earlier runs, the newest first.
    #[must_use]
    pub fn with_recent_filters(mut self, recent: Vec<String>) -> Self {
        self.recent_filters = recent;
        self
    }

    /// Applies changed settings.
    pub fn apply_config(&mut self, config: UiConfig) {
        let UiConfig { theme, detects_background, display, interval, settings, setup } = config;
        let selects_others = self.shown.display.selection != display.selection;
        (self.theme, self.shown.display, self.interval) = (theme, display, interval);
        self.detects_background = detects_background;
        self.apply_background();
        if selects_others {
            self.shown.rebuild();
        }
        apply_preferences(&mut self.navigation, &self.settings, &settings);
        self.settings = settings;
        if let Some(Dialog::Setup(setup_dialog)) = &mut self.dialog {
            setup_dialog.update_pages(&setup);
        }
        self.setup = setup;
    }

    /// Adapts the theme to the terminal's background.
    pub(crate) fn on_background(&mut self, is_light: bool) {
        self.is_light = Some(is_light);
        self.apply_background();
    }

    /// Returns true if the theme should follow the terminal's background.
    pub const fn detects_background(&self) -> bool {
        self.detects_background
    }

    fn apply_background(&mut self) {
        if let Some(is_light) = self.is_light.filter(|_| self.detects_background) {
            self.theme = self.theme.for_background(is_light);
        }
    }

    /// Reopens the input of a setting whose value was rejected.
    pub(crate) fn reject_setting(&mut self, name: &str, text: &str) {
        if let Some(Dialog::Setup(open)) = &mut self.dialog {
            open.reopen_rejected(name, text);
        }
    }

    /// Requests to save changed settings, including those that keys have changed.
    fn save(&mut self) -> Effect {
        let settings = with_preferences(&self.settings, &self.navigation, &self.shown.display);
        let before = self.settings.texts();
        let changed = settings.texts().into_iter().filter(|text| !before.contains(text)).collect();
        // Already applied here; it must not be applied again when the saved settings are read back.
        self.settings = settings;
        Effect::Request(UiRequest::SaveSettings(changed))
    }

    /// Notes that the next snapshot comes from another source, and does not continue the one before.
    pub fn on_source(&mut self) {
        self.shown.jump();
        // A signal is sent only to processes that were live when they were selected.
        self.dialog.take_if(|dialog| matches!(dialog, Dialog::Signal(_)));
    }

    /// Notes the state of the player before its snapshot; `None` if the fleet is live.
    pub fn on_timeline(&mut self, timeline: Option<Timeline>, now: Timestamp) {
        let jumps = |timeline: &Option<Timeline>| timeline.as_ref().map(|one| one.playback.jumps);
        if jumps(&timeline) != jumps(&self.timeline) {
            self.on_source();
            let reached = timeline.as_ref().and_then(|timeline| timeline.playback.reached.clone());
            if let Some(reached) = reached {
                self.show_message_for(reached.to_string(), RECORDING_MESSAGE_DURATION, now);
            }
        }
        if self.timeline.is_none() && timeline.is_some() && self.has_shown_nodes {
            let events = std::mem::take(&mut self.navigation.events);
            self.left_live = Some((events, self.shown.live.clone()));
        }
        self.timeline = timeline;
        let loss = self.timeline.as_ref().and_then(|timeline| timeline.playback.loss.clone());
        if let Some(loss) = loss.filter(|loss| self.shown_loss.as_ref() != Some(loss)) {
            self.show_message_for(loss.to_string(), RECORDING_MESSAGE_DURATION, now);
            self.shown_loss = Some(loss);
        }
    }

    /// Notes the state of the recorder; `None` if the live fleet is not recorded.
    pub fn on_recorder(&mut self, recorder: Option<RecorderState>, now: Timestamp) {
        let fault = |recorder: &Option<RecorderState>| recorder.as_ref()?.fault.clone();
        let (before, after) = (fault(&self.recorder), fault(&recorder));
        self.recorder = recorder;
        if before != after {
            let text =
                after.map_or_else(|| "recording again".to_owned(), |fault| fault.to_string());
            self.show_message_for(text, RECORDING_MESSAGE_DURATION, now);
        }
    }

    /// Returns true if a recording is shown.
    pub const fn is_recorded(&self) -> bool {
        self.timeline.is_some()
    }

    /// Shows a new snapshot, or the same one with later ages. A recorded one is shown at the time of its recording.
    pub fn on_fleet(&mut self, fleet: Fleet, now: Timestamp) {
        if !self.has_shown_nodes && fleet.nodes.len() == 1 {
            // A fleet of one node is more useful as a node view than as a list.
            self.navigation.view = View::Node;
        }
        self.has_shown_nodes |= !fleet.nodes.is_empty();
        let shown_at = self.timeline.as_ref().map_or(now, |timeline| timeline.position);
        let before = self.shown.update(fleet, shown_at);
        if before.is_none() {
            self.continue_after_jump();
        }
        match (&self.timeline, &before) {
            (Some(Timeline { playback, position }), _) => {
                self.navigation.events.show_marks(&playback.marks, *position);
            }
            (None, Some(before)) => {
                self.navigation.events.record_changes(before, &self.shown.live);
            }
            (None, None) => {}
        }
        if self.shown.frozen.is_none() {
            if let Some(before) = before {
                self.report_removed_node(&before, now);
            }
            self.due = self.navigation.on_tick(self.shown.context());
        }
        self.check_focus(now);
    }

    /// Back in the live fleet, continues with the events before the user left it.
    fn continue_after_jump(&mut self) {
        self.navigation.on_jump();
        if self.timeline.is_none()
            && let Some((events, before)) = self.left_live.take()
        {
            self.navigation.events = events;
            self.navigation.events.record_changes(&before, &self.shown.live);
        }
    }

    /// Shows a message if the selected node was in the previous snapshot and is no longer monitored.
    fn report_removed_node(&mut self, before: &FleetView, now: Timestamp) {
        if let Some(name) = self.navigation.on_update(before, &self.shown.live) {
            let message = format!("{name} is no longer monitored");
            self.show_message_for(message, REMOVED_NODE_MESSAGE_DURATION, now);
        }
    }

    /// Returns the pending requests to nodes and clears them.
    pub fn due(&mut self) -> Option<UiRequest> {
        let due = std::mem::take(&mut self.due);
        (!due.is_empty()).then_some(UiRequest::QueryNodes(due))
    }

    /// Returns the pending requests about runs and clears them.
    pub fn due_runs(&mut self) -> Option<UiRequest> {
        let due = std::mem::take(&mut self.due_runs);
        (!due.is_empty()).then_some(UiRequest::Runs(due))
    }

    /// Returns the node to sample faster, if any.
    pub fn focus(&self) -> Option<&NodeName> {
        self.focus.as_ref().map(|focus| &focus.node)
    }

    /// Begins a focus on the selected node, or ends the one there is.
    fn toggle_focus(&mut self, now: Timestamp) {
        if self.focus.take().is_some() {
            return;
        }
        if self.navigation.is_on_job_list() {
            self.answer(job::NOT_OPEN.to_owned(), now);
            return;
        }
        match focus::begin(self.focusable_node().map(|node| &**node), now) {
            Ok(focus) => {
                // Another order of the rows must not move the focus.
                self.navigation.shared.selection.select(focus.node.clone());
                self.focus = Some(focus);
            }
            Err(reason) => self.answer(reason, now),
        }
    }

    /// Returns the shown node, in the views that show nodes.
    fn focusable_node(&self) -> Option<&Arc<Node>> {
        let shows_nodes = match self.navigation.view {
            View::Fleet | View::Job | View::Node => {
                !self.is_recorded() && !self.navigation.is_on_job_list()
            }
            View::Processes | View::Users | View::Events | View::Runs => false,
        };
        self.navigation.shown_node(self.shown.view()).filter(|_| shows_nodes)
    }

    /// Ends the focus, with a message, if its node is no longer looked at or its time is over.
    fn check_focus(&mut self, now: Timestamp) {
        let Some(focus) = &self.focus else { return };
        let shown = self.focusable_node().map(|node| &**node);
        if let Some(reason) = focus::end_reason(focus, shown, now) {
            let again = self.keys.key_text_of("focus").filter(|_| shown.is_some());
            self.focus = None;
            let again = again.map(|key| format!("; {key} starts it again")).unwrap_or_default();
            self.show_message(reason + &again, now);
        }
    }

    /// Records whether the terminal has focus.
    pub fn set_attended(&mut self, is_attended: bool, now: Timestamp) {
        self.unattended = if is_attended { None } else { self.unattended.or(Some(now)) };
        if let Some(focus) = self.focus.take_if(|_| !is_attended) {
            let text = format!("focus on {} ended: the terminal was left", focus.node);
            self.show_message(text, now);
        }
    }

    /// Returns the sampling interval: longer when the terminal has been without focus for a while.
    pub fn interval(&self, now: Timestamp) -> Duration {
        match self.unattended {
            Some(since) if now.since(since) >= UNATTENDED_AFTER => {
                self.interval.max(UNATTENDED_INTERVAL)
            }
            Some(_) | None => self.interval,
        }
    }

    /// Handles a key.
    pub fn on_key(&mut self, event: KeyEvent, now: Timestamp) -> Effect {
        let answer = self.message.take_if(|message| message.view.is_some());
        let effect = keyboard::to_key(event).map_or(Effect::Ignored, |key| self.press(key, now));
        // What was said of the last key may not hold after this one, unless that changes nothing.
        if matches!(effect, Effect::Ignored | Effect::Redraw) && self.message.is_none() {
            self.message = answer;
        }
        self.check_focus(now);
        effect
    }

    fn press(&mut self, key: Key, now: Timestamp) -> Effect {
        if let Some(prompt) = &mut self.filter_prompt {
            match prompt.on_key(key, &self.shown.live.fleet) {
                ControlFlow::Break(filter) => {
                    self.filter_prompt = None;
                    let text = filter.text().to_owned();
                    self.shown.set_filter(filter);
                    if remember_filter(&mut self.recent_filters, &text) {
                        return Effect::Request(UiRequest::RememberFilter(text));
                    }
                }
                ControlFlow::Continue(Some(filter)) => self.shown.set_typed_filter(filter),
                ControlFlow::Continue(None) => {}
            }
            return Effect::Handled;
        }
        if let Some(prompt) = self.time_prompt.take() {
            return self.press_in_time_prompt(prompt, key, now);
        }
        if let Some(dialog) = self.dialog.take() {
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
        if let Some(help) = &mut self.help {
            // The help page scrolls and closes by keys of its own.
            if let Some(step) = Movement::from_dialog_key(key) {
                help.top = step.new_index(help.top, usize::MAX, page);
                return Effect::Handled;
            }
            let closes = actions.iter().any(|one| matches!(one, Action::Help | Action::Quit))
                || matches!(key, Key::Named(NamedKey::Escape | NamedKey::Enter));
            if closes {
                self.help = None;
                return Effect::Handled;
            }
            actions.truncate(1);
            actions.retain(|action| !action.belongs_to_view());
        }
        for action in actions {
            let effect = self.perform(action, now);
            if effect != Effect::Ignored {
                return effect;
            }
        }
        Effect::Handled
    }

    /// Handles a key in a dialog, which is put back unless the key closes it.
    fn press_in_dialog(&mut self, mut dialog: Dialog, key: Key, now: Timestamp) -> Effect {
        let action = match &dialog {
            // The setup pages are closed and saved by the keys bound to those actions.
            Dialog::Setup(setup) if !setup.is_typing() => {
                self.keys.actions(key, self.navigation.view).next()
            }
            Dialog::Menu(..)
            | Dialog::Setup(_)
            | Dialog::Signal(_)
            | Dialog::RunFilter(_)
            | Dialog::Variables(_)
            | Dialog::Output(_)
            | Dialog::Delete(_)
            | Dialog::Explanation(_)
            | Dialog::HostKeys(_) => None,
        };
        let step = match action {
            Some(Action::Setup) => ControlFlow::Break(None),
            Some(Action::Save) => {
                self.dialog = Some(dialog);
                return self.save();
            }
            _ => dialog.on_key(key),
        };
        match step {
            ControlFlow::Break(None) => {
                dialog.closing_requests().map_or(Effect::Handled, Effect::Request)
            }
            ControlFlow::Break(Some(action)) => self.perform_in_view(&action, now),
            ControlFlow::Continue(request) => {
                self.dialog = Some(dialog);
                request.map_or(Effect::Handled, Effect::Request)
            }
        }
    }

    /// Handles a key in the prompt for a time, which is put back unless the key closes it.
    fn press_in_time_prompt(&mut self, mut prompt: TimePrompt, key: Key, now: Timestamp) -> Effect {
        let recorded = |recorder: &RecorderState| Some((recorder.from?, recorder.to?));
        let live_span = self.recorder.as_ref().and_then(recorded);
        let spans = match &self.timeline {
            Some(timeline) => &*timeline.playback.spans,
            None => live_span.as_slice(),
        };
        let time = TimeContext { now: self.shown.live.now, zone: &self.shown.zone, spans };
        match prompt.on_key(key, time) {
            ControlFlow::Break(Some(time)) => {
                self.request_playback(PlaybackCommand::GoTo(time), now)
            }
            ControlFlow::Break(None) => Effect::Handled,
            ControlFlow::Continue(()) => {
                self.time_prompt = Some(prompt);
                Effect::Handled
            }
        }
    }

    /// Inserts pasted text where a line is being typed and ignores it elsewhere: the contents of a clipboard
    /// must not act as keys, one of which could kill a process.
    pub fn on_paste(&mut self, text: &str, now: Timestamp) {
        if let Some(Dialog::HostKeys(dialog)) = &mut self.dialog {
            return dialog.on_paste(text);
        }
        let is_typing = match &self.dialog {
            Some(dialog) => dialog.is_typing(),
            None => self.is_prompting(),
        };
        for letter in sanitized_chars(text.trim()).take(MAX_PASTE_CHARS).filter(|_| is_typing) {
            // In an input line, a character has no other effect than to be inserted.
            self.press(Key::Letter(letter), now);
        }
    }

    const fn is_prompting(&self) -> bool {
        self.filter_prompt.is_some() || self.time_prompt.is_some()
    }

    /// Performs an action.
    fn perform(&mut self, action: &Action, now: Timestamp) -> Effect {
        if self.is_recorded() && action.needs_nodes() {
            self.answer(RECORDED.to_owned(), now);
            return Effect::Handled;
        }
        match action {
            Action::Quit => return Effect::Exit(StopReason::Quit),
            Action::Interrupt => return Effect::Exit(StopReason::Interrupted),
            Action::Suspend => {
                self.focus = None;
                return Effect::Suspend;
            }
            Action::Redraw => return Effect::Redraw,
            Action::Refresh => return self.refresh(now),
            Action::Help => self.help = Some(OpenHelp::default()),
            Action::Freeze => self.freeze(now),
            Action::Focus => self.toggle_focus(now),
            Action::HostKeys => return self.ask_host_keys(now),
            Action::LogIn => return self.log_in(now),
            Action::Setup => self.dialog = Some(Dialog::Setup(self.setup.clone())),
            Action::Save => return self.save(),
            Action::Filter => {
                let prompt = FilterPrompt::new(&self.shown.filter, &self.recent_filters);
                self.filter_prompt = Some(prompt);
            }
            Action::Playback(command) => return self.request_playback(*command, now),
            Action::GoTo if self.has_recording(now) => self.time_prompt = Some(TimePrompt::new()),
            Action::GoTo => {}
            Action::Rows(RowAction::Move(Movement::End)) if self.is_behind() => {
                return self.request_playback(PlaybackCommand::End, now);
            }
            // Without a signal, the key quits.
            Action::Processes(ProcessAction::InterruptSelected) if self.is_recorded() => {
                return Effect::Ignored;
            }
            Action::Show(view) => self.navigation.show_view(self.shown.view(), *view),
            Action::NextView => self.cycle_view(true),
            Action::PreviousView => self.cycle_view(false),
            Action::Explain
            | Action::NextProblem
            | Action::OpenJob
            | Action::Rows(_)
            | Action::Sort(_)
            | Action::Fleet(_)
            | Action::Job(_)
            | Action::Node(_)
            | Action::Processes(_)
            | Action::Runs(_) => {
                let effect = self.perform_in_view(action, now);
                if effect != Effect::Ignored || *action != Action::Rows(RowAction::Back) {
                    return effect;
                }
                self.back();
            }
        }
        Effect::Handled
    }

    /// Opens the question about hosts whose keys are not known.
    fn ask_host_keys(&mut self, now: Timestamp) -> Effect {
        let (context, view) = (self.shown.context(), self.navigation.view);
        let selected = self.navigation.shown_node(context.view).map(|node| node.name.clone());
        let effect = match HostKeyDialog::new(context, view, selected.as_ref()) {
            Ok(dialog) => Effect::OpenDialog(Dialog::HostKeys(Box::new(dialog))),
            Err(why) => Effect::Message(why),
        };
        self.apply(effect, now)
    }

    /// Requests to log in to the shown nodes that ask for it; in the node view to that node alone.
    fn log_in(&mut self, now: Timestamp) -> Effect {
        let (view, fleet_view) = (self.navigation.view, self.shown.view());
        let selected = self.navigation.shown_node(fleet_view).map(|node| &node.name);
        let is_meant = |name: &&NodeName| view != View::Node || selected == Some(*name);
        let nodes: Vec<NodeName> = fleet_view.nodes_to_log_in().filter(is_meant).cloned().collect();
        if nodes.is_empty() {
            self.answer("no node asks for a password or a code here".to_owned(), now);
            return Effect::Handled;
        }
        Effect::Request(UiRequest::LogIn(nodes))
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

    fn perform_in_view(&mut self, action: &Action, now: Timestamp) -> Effect {
        let mut effect = self.navigation.update(self.shown.context(), action);
        if let Effect::Request(request) = &effect
            && self.is_recorded()
            && request.needs_nodes()
        {
            // The page would wait for a reply.
            self.navigation.close_pages();
            effect = Effect::Message(RECORDED.to_owned());
        }
        self.apply(effect, now)
    }

    /// Requests a command of the player, if there is a recording.
    fn request_playback(&mut self, command: PlaybackCommand, now: Timestamp) -> Effect {
        if self.has_recording(now) {
            Effect::Request(UiRequest::Playback(command))
        } else {
            Effect::Handled
        }
    }

    /// Returns true if there is a recording to play, and tells how to make one otherwise.
    fn has_recording(&mut self, now: Timestamp) -> bool {
        let exists = self.is_recorded() || self.recorder.is_some();
        if !exists {
            self.answer(NOT_RECORDED.to_owned(), now);
        }
        exists
    }

    /// Returns true if an earlier time is shown of a recording that is still written.
    fn is_behind(&self) -> bool {
        self.timeline.as_ref().is_some_and(|timeline| timeline.playback.is_live)
    }

    /// Performs the effects on the screen, and returns the others.
    fn apply(&mut self, effect: Effect, now: Timestamp) -> Effect {
        match effect {
            Effect::Message(words) => self.answer(words, now),
            Effect::SwitchView(view) => self.navigation.open(self.shown.view(), view),
            Effect::OpenNode(name, row_id) => {
                self.navigation.open_node(self.shown.view(), name, row_id);
            }
            Effect::OpenDialog(dialog) => {
                // What it says may have no other room.
                self.message = None;
                let request = dialog.opening_request();
                self.dialog = Some(dialog);
                if let Some(request) = request {
                    return Effect::Request(request);
                }
            }
            Effect::Handled
            | Effect::Ignored
            | Effect::Request(_)
            | Effect::Exit(_)
            | Effect::Suspend
            | Effect::Redraw => return effect,
        }
        Effect::Handled
    }

    /// Handles a node's reply to a request.
    pub fn on_reply(&mut self, reply: &NodeReply, now: Timestamp) {
        if let Some(Dialog::Signal(dialog)) = &mut self.dialog
            && let Some(step) = dialog.on_reply(reply)
        {
            if let ControlFlow::Break(message) = step {
                self.dialog = None;
                self.show_message(message, now);
            }
            return;
        }
        let effect = self.navigation.on_reply(self.shown.context(), reply);
        let is_message = matches!(effect, Effect::Message(_));
        self.apply(effect, now);
        // It may be late, and answers no key that the next one would make untrue.
        if let Some(message) = self.message.as_mut().filter(|_| is_message) {
            message.view = None;
        }
    }

    /// Handles a reply about the keys of hosts; returns what to request next.
    pub fn on_host_keys(&mut self, reply: HostKeyReply, now: Timestamp) -> Option<UiRequest> {
        let Some(Dialog::HostKeys(dialog)) = &mut self.dialog else {
            // The question was closed meanwhile; what is stored is used.
            return matches!(reply, HostKeyReply::Stored(1.., _)).then_some(UiRequest::Refresh);
        };
        let ControlFlow::Break(text) = dialog.on_reply(reply) else {
            return dialog.is_answered().then_some(UiRequest::Refresh);
        };
        let closing = self.dialog.take().and_then(|dialog| dialog.closing_requests());
        self.show_message(text, now);
        closing
    }

    /// Opens the outputs of runs in windows of their own from now on.
    pub(super) const fn open_output_windows(&mut self) {
        self.navigation.runs.opens_windows = true;
    }

    /// Notes the newest list of training runs.
    pub fn on_runs(&mut self, list: &Arc<RunList>) {
        if self.shown.live.runs.is_none() {
            // `gtop runs` opens at the runs.
            self.has_shown_nodes = true;
            self.navigation.view = View::Runs;
        }
        self.shown.live.set_runs(list);
        if let Some(Dialog::Variables(dialog)) = &mut self.dialog {
            dialog.on_list(list);
        }
    }

    /// Handles the reply to a request about runs; returns what to request next.
    pub fn on_run_reply(&mut self, reply: &RunReply, now: Timestamp) -> Option<UiRequest> {
        let step = self.dialog.as_mut().and_then(|dialog| dialog.on_run_reply(reply));
        match step {
            Some(ControlFlow::Continue(request)) => request,
            Some(ControlFlow::Break(text)) => {
                let closing = self.dialog.take().and_then(|dialog| dialog.closing_requests());
                self.show_message(text, now);
                closing
            }
            None => {
                let closes = OutputDialog::unclaimed(reply);
                if let (Err(error), None) = (&reply.result, &closes) {
                    self.show_message(error.to_string(), now);
                }
                closes
            }
        }
    }

    /// Handles news of an output that is followed; returns what to request next.
    pub fn on_output(&mut self, growth: &OutputGrowth) -> Option<UiRequest> {
        let (output, _) = self.dialog.as_mut()?.output_mut(0)?;
        output.on_growth(growth)
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only clicks and the wheel mean something")]
    /// Handles a click or the mouse wheel.
    pub fn on_mouse(&mut self, event: MouseEvent, now: Timestamp) -> Effect {
        let is_shifted = event.modifiers.contains(KeyModifiers::SHIFT);
        let step = match event.kind {
            MouseEventKind::ScrollLeft => return self.press(Key::Named(NamedKey::Left), now),
            MouseEventKind::ScrollRight => return self.press(Key::Named(NamedKey::Right), now),
            MouseEventKind::ScrollUp if is_shifted => {
                return self.press(Key::Named(NamedKey::Left), now);
            }
            MouseEventKind::ScrollDown if is_shifted => {
                return self.press(Key::Named(NamedKey::Right), now);
            }
            MouseEventKind::ScrollUp => Movement::Up,
            MouseEventKind::ScrollDown => Movement::Down,
            MouseEventKind::Down(MouseButton::Left) => return self.on_click(event, now),
            _ => return Effect::Ignored,
        };
        let is_fast = event.modifiers.contains(KeyModifiers::CONTROL);
        let rows = if is_fast { FAST_WHEEL_ROWS } else { WHEEL_ROWS };
        if let Some(help) = &mut self.help {
            help.top = (0..rows).fold(help.top, |top, _| step.new_index(top, usize::MAX, 1));
        } else if let Some(Dialog::Explanation(dialog)) = &mut self.dialog {
            (0..rows).for_each(|_| dialog.scroll(step));
        } else if self.dialog.is_none() && !self.is_prompting() {
            for _ in 0..rows {
                self.perform_in_view(&Action::Rows(RowAction::Move(step)), now);
            }
        }
        Effect::Handled
    }

    fn on_click(&mut self, event: MouseEvent, now: Timestamp) -> Effect {
        self.message.take_if(|message| message.view.is_some());
        if self.dialog.is_some() || self.is_prompting() {
            return Effect::Ignored;
        }
        let line = self.drawn.get(usize::from(event.row));
        let action = match line.and_then(|line| line.click_at(event.column)).cloned() {
            None => return Effect::Ignored,
            Some(Click::View(view)) => {
                self.help = None;
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

    /// Shows a message for `span`.
    pub(crate) fn show_message_for(&mut self, words: String, span: Duration, now: Timestamp) {
        self.message = Some(ShownMessage { text: words, until: now.plus(span), view: None });
    }

    /// Requests a full sample of every node, with a message: the screen would otherwise show no effect of the
    /// key.
    fn refresh(&mut self, now: Timestamp) -> Effect {
        let is_down = |link: &Link| matches!(link, Link::Down { .. });
        let down = self.shown.live.fleet.nodes.iter().filter(|node| is_down(&node.link)).count();
        let text = match down {
            0 => "refreshing all nodes".to_owned(),
            1 => "reconnecting 1 node".to_owned(),
            _ => format!("reconnecting {down} nodes"),
        };
        self.show_message(text, now);
        Effect::Request(UiRequest::Refresh)
    }

    fn show_message(&mut self, words: String, now: Timestamp) {
        self.show_message_for(words, MESSAGE_DURATION, now);
    }

    /// Shows a message that answers a key of this view, and means nothing in another one or after the next key.
    fn answer(&mut self, words: String, now: Timestamp) {
        self.show_message(words, now);
        if let Some(message) = &mut self.message {
            message.view = Some(self.navigation.view);
        }
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
            UiRequest::FocusNode(self.focus.clone()),
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

    /// Returns the key hints of the bottom line; those of the player come first.
    fn hints(&self) -> Vec<(String, &'static str)> {
        let view = self.navigation.view;
        let mut hints = self.keys.hints(view, |action, default| self.player_hint(action, default));
        let has_no_effect = |action: &Action| {
            let is_live_only = action.needs_nodes() || *action == Action::Freeze;
            let is_of_player =
                action.is_of_player() || *action == Action::Rows(RowAction::Move(Movement::End));
            is_of_player || (is_live_only && self.is_recorded())
        };
        hints.extend(self.keys.hints(view, |action, default| {
            let hint = self.navigation.hint(self.shown.view(), action, default);
            hint.filter(|_| !has_no_effect(action))
        }));
        hints
    }

    /// Returns the hint of a key of the player; `None` if there is no recording.
    fn player_hint(&self, action: &Action, default: &'static str) -> Option<&'static str> {
        match (action, &self.timeline) {
            (Action::Playback(PlaybackCommand::TogglePlay), Some(timeline)) => {
                Some(if timeline.playback.is_playing { "pause" } else { default })
            }
            (Action::Rows(RowAction::Move(Movement::End)), Some(timeline)) => {
                timeline.playback.is_live.then_some(default)
            }
            (Action::Playback(PlaybackCommand::TogglePlay), None) => {
                self.recorder.is_some().then_some("pause")
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
        let focus = self.focus.as_ref()?;
        Some((focus, self.shown.view().fleet.node(&focus.node)?))
    }

    /// Brings an open explanation up to date with the snapshot.
    fn refresh_explanation(&mut self, area: Rect) {
        let rows = self.body_height(area.height).saturating_sub(1);
        let Some(Dialog::Explanation(dialog)) = &mut self.dialog else { return };
        let context = self.shown.context();
        let version = context.view.version();
        if dialog.is_old(&version) {
            dialog.update(self.navigation.explain(context).ok(), version);
        }
        dialog.resize(context.view.now, area.width, rows);
    }

    /// Draws a frame; returns its hyperlinks.
    pub fn draw(&mut self, now: Timestamp, buffer: &mut Buffer) -> Vec<Hyperlink> {
        self.shown.apply_typed_filter();
        let area: Rect = buffer.area;
        let focus = self.focused_node().map(|(focus, node)| focus::text(focus, node, now));
        let body_height = self.body_height(area.height);
        let view = self.navigation.view;
        let is_over = |message: &mut ShownMessage| {
            message.until <= now || message.view.is_some_and(|concerned| concerned != view)
        };
        self.message.take_if(is_over);
        // Below the rule.
        let room = body_height.saturating_sub(1);
        if let Some((output, rows)) =
            self.dialog.as_mut().and_then(|dialog| dialog.output_mut(room))
        {
            output.resize(area.width, rows);
            let wanted = output.due();
            self.due_runs.extend(wanted);
        }
        self.refresh_explanation(area);
        let hints = match (&self.help, &self.dialog) {
            (Some(_), _) => help::hints(),
            (None, Some(dialog)) => self.dialog_hints(dialog),
            (None, None) => self.hints(),
        };
        let is_recorded = self.is_recorded();
        let mut screen = ScreenState {
            title: &self.title,
            interval: self.interval(now),
            frozen: self.shown.frozen.as_ref().map(|frozen| now.since(frozen.since)),
            focus: focus.as_deref(),
            timeline: self.timeline.as_ref(),
            recorder: self.recorder.as_ref(),
            message: self.message.as_ref().map(|message| message.text.as_str()),
            hints: &hints,
            help: None,
            filter_prompt: self.filter_prompt.as_ref(),
            time_prompt: self.time_prompt.as_ref(),
            dialog: self.dialog.as_ref(),
        };
        let context = self.shown.context();
        let size = (area.width, area.height);
        let help = self.help.as_mut().map(|help| {
            let shown = help.shown.take().filter(|(at, _)| *at == size);
            let (_, shown) = help.shown.insert(shown.unwrap_or_else(|| {
                let mut lines = render::render_screen(context, &mut self.navigation, &screen, size);
                // The key hints are in the help anyway.
                lines.pop();
                (size, help::ShownSigns::of(&lines))
            }));
            let about = help::HelpSubject {
                view,
                palette: self.theme.palette,
                columns: &self.navigation.columns(),
                shown,
                scheduler: context.scheduler().name,
                has_runs: context.view.runs.is_some(),
                is_recorded: is_recorded || self.recorder.is_some(),
            };
            let page = help::page(&self.keys, &about, area.width);
            let (lines, top) = help::scroll_page(page, help.top, body_height);
            help.top = top;
            lines
        });
        screen.help = help.as_deref();
        let lines = render::render_screen(context, &mut self.navigation, &screen, size);
        let hyperlinks = paint(&lines, self.theme, area, buffer);
        self.drawn = lines;
        hyperlinks
    }
}
