//! The state of the screen between events: the current view, its snapshot, open dialogs and pending requests.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::fleet::Fleet;
use crate::insight::FleetView;
use crate::model::{JobId, Link, NodeName};
use crate::query::Filter;
use crate::text::sanitized_chars;
use crate::time::Timestamp;
use crate::ui::action::{Action, NodeReply, NodeRequest, RowAction, SortAction};
use crate::ui::dialog::setup::Setup;
use crate::ui::dialog::{Dialog, DialogEvent};
use crate::ui::display_options::DisplayOptions;
use crate::ui::effect::Effect;
use crate::ui::filter_prompt::{FilterPrompt, FilterPromptEvent};
use crate::ui::input::{Click, Key, NamedKey};
use crate::ui::keyboard;
use crate::ui::keymap::{Keymap, help};
use crate::ui::navigation::Navigation;
use crate::ui::paint::paint;
use crate::ui::preferences::{UiPreference, preferences, restore_preference};
use crate::ui::render;
use crate::ui::selection::JobSelection;
use crate::ui::signals::StopReason;
use crate::ui::theme::Theme;
use crate::ui::widgets::line::Line;
use crate::ui::widgets::list::Movement;
use crate::ui::{RenderContext, ScreenState, View};

/// How long a message is shown.
const MESSAGE_DURATION: Duration = Duration::from_secs(4);
/// How long the removal of the selected node is shown: longer, because it is unexpected.
const REMOVED_NODE_MESSAGE_DURATION: Duration = Duration::from_secs(10);
/// Time without terminal focus after which nodes may sample less often.
const UNATTENDED_AFTER: Duration = Duration::from_secs(60);
const UNATTENDED_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum characters used of a paste; no input line is longer.
const MAX_PASTE_CHARS: usize = 1_000;
/// Rows that one turn of the wheel scrolls, without and with Ctrl.
const WHEEL_ROWS: usize = 3;
const FAST_WHEEL_ROWS: usize = 5 * WHEEL_ROWS;
const HELP_PAGE_LINES: usize = 10;

/// The settings that the UI depends on; they may change while it runs.
#[derive(Clone, Debug)]
pub struct UiConfig {
    pub theme: Theme,
    /// Adapts the theme to the background colour that the terminal reports.
    pub detects_background: bool,
    pub display: DisplayOptions,
    pub interval: Duration,
    /// Settings that keys change too, such as the sort order.
    pub preferences: Vec<UiPreference>,
    pub setup: Setup,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UiRequest {
    /// Takes a full sample of each node and reconnects each node that is down.
    Refresh,
    /// Samples this node faster, and no other; `None` for none.
    FocusNode(Option<NodeName>),
    /// Collects the details of this job; `None` for none.
    WatchJob(Option<JobId>),
    QueryNodes(Vec<NodeRequest>),
    /// The name of a setting and its new text, which is not validated yet.
    ChangeSetting(&'static str, String),
    /// Writes the settings to `setup.toml`, with these preferences that keys changed.
    SaveSettings(Vec<UiPreference>),
    SetInterval(Duration),
}

/// What the event loop has to do after a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UiEffect {
    /// Nothing beyond drawing the next frame.
    Nothing,
    /// Pass a request to other tasks.
    Request(UiRequest),
    /// Quit.
    Exit(StopReason),
    /// Suspend until the shell resumes gtop, as after Ctrl-Z.
    Suspend,
    /// Clear the terminal and draw everything again.
    Redraw,
}

#[derive(Debug)]
pub struct Ui {
    theme: Theme,
    detects_background: bool,
    /// True if the terminal reports a light background; `None` if it has not reported one.
    is_light: Option<bool>,
    display: DisplayOptions,
    keys: Keymap,
    title: String,
    interval: Duration,
    zone: TimeZone,
    live: FleetView,
    frozen: Option<FleetView>,
    filter: Filter,
    navigation: Navigation,
    /// The first visible line of the help page, while help is open.
    help: Option<usize>,
    /// The filter prompt, while it is open.
    filter_prompt: Option<FilterPrompt>,
    /// The dialog that takes all keys, while one is open.
    dialog: Option<Dialog>,
    /// The setup pages, with the current settings.
    setup: Setup,
    /// Preferences as the settings last had them, to find those that keys have changed since.
    saved_preferences: Vec<UiPreference>,
    is_focusing: bool,
    /// Since when the terminal has no focus, if it reports focus.
    unattended: Option<Timestamp>,
    message: Option<(String, Timestamp)>,
    /// The lines of the last frame, to resolve clicks.
    drawn: Vec<Line>,
    /// Requests to nodes that are not sent yet.
    due: Vec<NodeRequest>,
}

impl Ui {
    pub fn new(title: String, interval: Duration, zone: TimeZone, theme: Theme) -> Self {
        Self {
            theme,
            detects_background: false,
            is_light: None,
            display: DisplayOptions::default(),
            keys: Keymap::default(),
            title,
            interval,
            zone,
            live: FleetView::default(),
            frozen: None,
            filter: Filter::default(),
            navigation: Navigation::default(),
            help: None,
            filter_prompt: None,
            dialog: None,
            setup: Setup::default(),
            saved_preferences: Vec::new(),
            is_focusing: false,
            unattended: None,
            message: None,
            drawn: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Returns the same with display options and key bindings.
    #[must_use]
    pub fn with_options(self, display: DisplayOptions, keys: Keymap) -> Self {
        let keys = if display.is_readonly { keys.readonly() } else { keys };
        Self { display, keys, ..self }
    }

    /// Applies changed settings.
    pub fn apply_config(&mut self, config: UiConfig) {
        let UiConfig { theme, detects_background, display, interval, preferences, setup } = config;
        let selects_others = self.display.selection != display.selection;
        (self.theme, self.display, self.interval) = (theme, display, interval);
        self.detects_background = detects_background;
        self.apply_background();
        if selects_others {
            self.rebuild_views(self.live.now);
        }
        let before = std::mem::replace(&mut self.saved_preferences, preferences.clone());
        for preference in preferences.into_iter().filter(|preference| !before.contains(preference))
        {
            restore_preference(&mut self.navigation, preference.0, &preference.1);
        }
        if let Some(Dialog::Setup(setup_dialog)) = &mut self.dialog {
            setup_dialog.update_pages(&setup);
        }
        self.setup = setup;
    }

    /// Adapts the theme to the terminal's background.
    pub fn on_background(&mut self, is_light: bool) {
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
    pub fn reject_setting(&mut self, name: &str, text: &str) {
        if let Some(Dialog::Setup(open)) = &mut self.dialog {
            open.reopen_rejected(name, text);
        }
    }

    /// Requests to save changed settings, including those that keys have changed.
    fn save(&mut self) -> UiEffect {
        let now = preferences(&self.navigation, &self.display);
        let is_new = |(name, value): &UiPreference| {
            self.saved_preferences.iter().any(|(known, saved)| known == name && saved != value)
        };
        let changed: Vec<_> = now.into_iter().filter(is_new).collect();
        // Already applied here; they must not be applied again when the saved settings are read back.
        for (name, value) in &changed {
            if let Some(preference) =
                self.saved_preferences.iter_mut().find(|(known, _)| known == name)
            {
                preference.1.clone_from(value);
            }
        }
        UiEffect::Request(UiRequest::SaveSettings(changed))
    }

    /// Shows a new snapshot, or the same one with later ages.
    pub fn on_fleet(&mut self, fleet: Fleet, now: Timestamp) {
        if self.live.fleet.nodes.is_empty() && fleet.nodes.len() == 1 {
            // A fleet of one node is more useful as a node view than as a list.
            self.navigation.view = View::Node;
        }
        let fleet_view =
            self.live.updated(fleet, now, self.filter.clone(), &self.display.selection);
        self.navigation.events.record_changes(&self.live, &fleet_view);
        let before = std::mem::replace(&mut self.live, fleet_view);
        if self.frozen.is_none() {
            self.report_removed_node(&before, now);
        }
        if self.message.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.message = None;
        }
        if self.frozen.is_none() {
            let context =
                RenderContext { view: &self.live, options: &self.display, zone: &self.zone };
            self.due = self.navigation.on_tick(context);
        }
    }

    /// Shows a message if the selected node was in the previous snapshot and is no longer monitored.
    fn report_removed_node(&mut self, before: &FleetView, now: Timestamp) {
        if let Some(name) = self.navigation.on_update(before, &self.live) {
            self.show_message_for(
                format!("{name} is no longer monitored"),
                REMOVED_NODE_MESSAGE_DURATION,
                now,
            );
        }
    }

    /// Returns the pending requests to nodes and clears them.
    pub fn due(&mut self) -> Option<UiRequest> {
        let due = std::mem::take(&mut self.due);
        (!due.is_empty()).then_some(UiRequest::QueryNodes(due))
    }

    /// Returns the node to sample faster, if any.
    pub fn focus(&self) -> Option<NodeName> {
        let node = self.navigation.shown_node(self.fleet_view()).filter(|_| self.is_focusing)?;
        Some(node.name.clone())
    }

    /// Records whether the terminal has focus.
    pub fn set_attended(&mut self, is_attended: bool, now: Timestamp) {
        self.unattended = if is_attended { None } else { self.unattended.or(Some(now)) };
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
    pub fn on_key(&mut self, event: KeyEvent, now: Timestamp) -> UiEffect {
        let Some(key) = keyboard::to_key(event) else { return UiEffect::Nothing };
        if self.filter_prompt.is_some() {
            self.on_filter_key(key, now);
            return UiEffect::Nothing;
        }
        if self.dialog.is_some() {
            return self.on_dialog_key(key, now);
        }
        let found: Vec<Action> = self.keys.actions(key, self.navigation.view).cloned().collect();
        if let Some(top) = self.help {
            return self.on_help_key(key, found.first(), top, now);
        }
        for action in found {
            if let Some(effect) = self.perform(&action, now) {
                return effect;
            }
        }
        UiEffect::Nothing
    }

    /// Inserts pasted text where a line is being typed and ignores it elsewhere: the contents of a clipboard
    /// must not act as keys, one of which could kill a process.
    pub fn on_paste(&mut self, text: &str, now: Timestamp) {
        let is_typing = match &self.dialog {
            Some(Dialog::Setup(setup)) => setup.is_typing(),
            Some(_) => false,
            None => self.filter_prompt.is_some(),
        };
        for letter in sanitized_chars(text.trim()).take(MAX_PASTE_CHARS).filter(|_| is_typing) {
            // In an input line, a character has no other effect than to be inserted.
            self.on_key(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE), now);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing here")]
    /// Handles a key on the help page: scrolls or closes it.
    fn on_help_key(
        &mut self,
        key: Key,
        action: Option<&Action>,
        top: usize,
        now: Timestamp,
    ) -> UiEffect {
        let scrolled = match key {
            Key::Letter('j') => Some(Movement::Down),
            Key::Letter('k') => Some(Movement::Up),
            other => Movement::from_key(other),
        };
        if let Some(step) = scrolled {
            self.help = Some(step.new_index(top, usize::MAX, HELP_PAGE_LINES));
            return UiEffect::Nothing;
        }
        let closes = matches!(action, Some(Action::Help | Action::Quit))
            || matches!(key, Key::Named(NamedKey::Escape | NamedKey::Enter));
        if closes {
            self.help = None;
            return UiEffect::Nothing;
        }
        match action {
            Some(action) if !action.belongs_to_view() => {
                let action = action.clone();
                self.perform(&action, now).unwrap_or(UiEffect::Nothing)
            }
            Some(_) | None => UiEffect::Nothing,
        }
    }

    /// Handles a key in the filter prompt.
    fn on_filter_key(&mut self, key: Key, now: Timestamp) {
        let Some(filter_prompt) = &mut self.filter_prompt else { return };
        match filter_prompt.on_key(key, &self.live.fleet) {
            FilterPromptEvent::Edited(None) => {}
            FilterPromptEvent::Edited(Some(filter)) => self.set_filter(filter, now),
            FilterPromptEvent::Done(filter) => {
                self.filter_prompt = None;
                self.set_filter(filter, now);
            }
        }
    }

    /// Rebuilds the views' data with the current filter and freeze state.
    fn rebuild_views(&mut self, now: Timestamp) {
        let again = |fleet_view: &FleetView, now| {
            fleet_view.refiltered(now, self.filter.clone(), &self.display.selection)
        };
        self.live = again(&self.live, self.live.now.max(now));
        self.frozen = self.frozen.as_ref().map(|fleet_view| again(fleet_view, fleet_view.now));
    }

    fn set_filter(&mut self, filter: Filter, now: Timestamp) {
        self.filter = filter;
        self.rebuild_views(now);
    }

    /// Handles a key in a dialog.
    fn on_dialog_key(&mut self, key: Key, now: Timestamp) -> UiEffect {
        let Some(mut dialog) = self.dialog.take() else { return UiEffect::Nothing };
        if let Dialog::Setup(setup) = &dialog
            && !setup.is_typing()
        {
            // The setup pages are closed and saved by the keys bound to those actions.
            let action = self.keys.actions(key, self.navigation.view).next().cloned();
            match action {
                Some(Action::Setup) => return UiEffect::Nothing,
                Some(Action::Save) => {
                    self.dialog = Some(dialog);
                    return self.save();
                }
                _ => {}
            }
        }
        match dialog.on_key(key) {
            DialogEvent::Pending => {
                self.dialog = Some(dialog);
                UiEffect::Nothing
            }
            DialogEvent::ChangeSetting(name, value) => {
                self.dialog = Some(dialog);
                UiEffect::Request(UiRequest::ChangeSetting(name, value))
            }
            DialogEvent::Closed => UiEffect::Nothing,
            DialogEvent::Perform(action) => {
                self.perform_in_view(&action, now).unwrap_or(UiEffect::Nothing)
            }
            DialogEvent::RequestNodes(requests) => {
                self.dialog = Some(dialog);
                UiEffect::Request(UiRequest::QueryNodes(requests))
            }
            DialogEvent::Finished(message) => {
                self.show_message(message, now);
                UiEffect::Nothing
            }
        }
    }

    /// Performs an action; `None` if nothing handles it.
    fn perform(&mut self, action: &Action, now: Timestamp) -> Option<UiEffect> {
        match action {
            Action::Quit => return Some(UiEffect::Exit(StopReason::Quit)),
            Action::Interrupt => return Some(UiEffect::Exit(StopReason::Interrupted)),
            Action::Suspend => return Some(UiEffect::Suspend),
            Action::Redraw => return Some(UiEffect::Redraw),
            Action::Refresh => return Some(self.refresh(now)),
            Action::Help => self.help = Some(0),
            Action::Freeze => match self.frozen.take() {
                Some(before) => self.report_removed_node(&before, now),
                None => self.frozen = Some(self.live.clone()),
            },
            Action::Focus => self.is_focusing = !self.is_focusing,
            Action::Setup => self.dialog = Some(Dialog::Setup(self.setup.clone())),
            Action::Save => return Some(self.save()),
            Action::Filter => self.filter_prompt = Some(FilterPrompt::new(&self.filter)),
            Action::Show(view) => self.switch_view(*view),
            Action::NextView => self.cycle_view(true),
            Action::PreviousView => self.cycle_view(false),
            Action::Rows(_)
            | Action::Sort(_)
            | Action::Fleet(_)
            | Action::Job(_)
            | Action::Node(_)
            | Action::Processes(_) => {
                let effect = self.perform_in_view(action, now);
                if effect.is_none() && *action == Action::Rows(RowAction::Back) {
                    self.back(now);
                    return Some(UiEffect::Nothing);
                }
                return effect;
            }
        }
        Some(UiEffect::Nothing)
    }

    fn perform_in_view(&mut self, action: &Action, now: Timestamp) -> Option<UiEffect> {
        let fleet_view = self.frozen.as_ref().unwrap_or(&self.live);
        let context = RenderContext { view: fleet_view, options: &self.display, zone: &self.zone };
        let effect = self.navigation.update(context, action);
        self.apply_view_effect(effect, now)
    }

    fn apply_view_effect(&mut self, effect: Effect, now: Timestamp) -> Option<UiEffect> {
        match effect {
            Effect::Ignored => return None,
            Effect::Handled => {}
            Effect::Message(words) => self.show_message(words, now),
            Effect::SwitchView(view) => {
                let fleet_view = self.frozen.as_ref().unwrap_or(&self.live);
                self.navigation.open(fleet_view, view);
            }
            Effect::OpenNode(name, row_id) => {
                let fleet_view = self.frozen.as_ref().unwrap_or(&self.live);
                self.navigation.open_node(fleet_view, name, row_id);
            }
            Effect::OpenDialog(dialog) => self.dialog = Some(dialog),
            Effect::RequestNodes(requests) => {
                return Some(UiEffect::Request(UiRequest::QueryNodes(requests)));
            }
        }
        Some(UiEffect::Nothing)
    }

    /// Handles a node's reply to a request.
    pub fn on_reply(&mut self, reply: &NodeReply, now: Timestamp) {
        if let Some(event) = self.dialog.as_mut().and_then(|dialog| dialog.on_reply(reply)) {
            if let DialogEvent::Finished(message) = event {
                self.dialog = None;
                self.show_message(message, now);
            }
            return;
        }
        let fleet_view = self.frozen.as_ref().unwrap_or(&self.live);
        let context = RenderContext { view: fleet_view, options: &self.display, zone: &self.zone };
        let effect = self.navigation.on_reply(context, reply);
        self.apply_view_effect(effect, now);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only clicks and the wheel mean something")]
    /// Handles a click or the mouse wheel.
    pub fn on_mouse(&mut self, event: MouseEvent, now: Timestamp) -> UiEffect {
        let sideways = |code| KeyEvent::new(code, KeyModifiers::NONE);
        let is_shifted = event.modifiers.contains(KeyModifiers::SHIFT);
        let rows = if event.modifiers.contains(KeyModifiers::CONTROL) {
            FAST_WHEEL_ROWS
        } else {
            WHEEL_ROWS
        };
        let step = match event.kind {
            MouseEventKind::ScrollLeft => return self.on_key(sideways(KeyCode::Left), now),
            MouseEventKind::ScrollRight => return self.on_key(sideways(KeyCode::Right), now),
            MouseEventKind::ScrollUp if is_shifted => {
                return self.on_key(sideways(KeyCode::Left), now);
            }
            MouseEventKind::ScrollDown if is_shifted => {
                return self.on_key(sideways(KeyCode::Right), now);
            }
            MouseEventKind::ScrollUp => Movement::Up,
            MouseEventKind::ScrollDown => Movement::Down,
            MouseEventKind::Down(MouseButton::Left) => return self.on_click(event, now),
            _ => return UiEffect::Nothing,
        };
        if let Some(top) = self.help {
            self.help = Some((0..rows).fold(top, |top, _| step.new_index(top, usize::MAX, 1)));
            return UiEffect::Nothing;
        }
        if self.dialog.is_none() && self.filter_prompt.is_none() {
            for _ in 0..rows {
                self.perform_in_view(&Action::Rows(RowAction::Move(step)), now);
            }
        }
        UiEffect::Nothing
    }

    fn on_click(&mut self, event: MouseEvent, now: Timestamp) -> UiEffect {
        let line = self.drawn.get(usize::from(event.row));
        let Some(click) = line.and_then(|line| line.click_at(event.column)).cloned() else {
            return UiEffect::Nothing;
        };
        if self.dialog.is_some() || self.filter_prompt.is_some() {
            return UiEffect::Nothing;
        }
        match click {
            Click::View(view) => {
                self.help = None;
                self.switch_view(view);
                UiEffect::Nothing
            }
            Click::Column(column) => {
                let sort = Action::Sort(SortAction::By(column));
                self.perform_in_view(&sort, now).unwrap_or(UiEffect::Nothing)
            }
            click @ (Click::Row(_) | Click::Cell(..)) => {
                let clicked = Action::Rows(RowAction::Click(click));
                self.perform_in_view(&clicked, now).unwrap_or(UiEffect::Nothing)
            }
        }
    }

    /// Shows a message for `span`.
    pub fn show_message_for(&mut self, words: String, span: Duration, now: Timestamp) {
        self.message = Some((words, now.plus(span)));
    }

    /// Requests a full sample of every node, with a message: the screen would otherwise show no effect of the
    /// key.
    fn refresh(&mut self, now: Timestamp) -> UiEffect {
        let is_down = |link: &Link| matches!(link, Link::Down { .. });
        let down = self.live.fleet.nodes.iter().filter(|node| is_down(&node.link)).count();
        let text = match down {
            0 => "refreshing all nodes".to_owned(),
            1 => "reconnecting 1 node".to_owned(),
            _ => format!("reconnecting {down} nodes"),
        };
        self.show_message(text, now);
        UiEffect::Request(UiRequest::Refresh)
    }

    fn show_message(&mut self, words: String, now: Timestamp) {
        self.show_message_for(words, MESSAGE_DURATION, now);
    }

    fn switch_view(&mut self, view: View) {
        self.navigation.show_view(self.frozen.as_ref().unwrap_or(&self.live), view);
    }

    fn cycle_view(&mut self, is_forward: bool) {
        let views = View::ALL;
        let at = views.iter().position(|view| *view == self.navigation.view).unwrap_or(0);
        let count = views.len().max(1);
        let to = if is_forward { at + 1 } else { at + count - 1 } % count;
        if let Some(view) = views.get(to) {
            self.switch_view(*view);
        }
    }

    /// Clears the filter, or else goes back to the previous view.
    fn back(&mut self, now: Timestamp) {
        if self.filter.is_empty() {
            self.navigation.back(self.frozen.as_ref().unwrap_or(&self.live));
        } else {
            self.set_filter(Filter::default(), now);
        }
    }

    /// Returns the job whose details are shown.
    pub fn watched_job(&self) -> Option<JobId> {
        if self.navigation.view != View::Job {
            return None;
        }
        // Only jobs of the scheduler's list can be queried, not those known from processes.
        let list = self.fleet_view().fleet.jobs.as_ref()?;
        match self.navigation.shared.selection.job(self.fleet_view())? {
            JobSelection::Listed { job, .. } => list.job(&job.id).map(|job| job.id.clone()),
            JobSelection::Hidden(_) | JobSelection::Ended(_) => None,
        }
    }

    fn fleet_view(&self) -> &FleetView {
        self.frozen.as_ref().unwrap_or(&self.live)
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

    /// Returns the key hints of the bottom line.
    fn hints(&self) -> Vec<(String, &'static str)> {
        let word =
            |action: &Action, default| self.navigation.hint(self.fleet_view(), action, default);
        self.keys.hints(self.navigation.view, word)
    }

    /// Returns the lines of the last frame.
    #[cfg(feature = "internals")]
    pub fn drawn(&self) -> &[Line] {
        &self.drawn
    }

    /// Draws a frame.
    pub fn draw(&mut self, now: Timestamp, buffer: &mut Buffer) {
        let area: Rect = buffer.area;
        let focus = self.focus();
        let view = self.navigation.view;
        let hints = match (&self.help, &self.dialog) {
            (Some(_), _) => help::hints(),
            (None, Some(dialog)) => self.dialog_hints(dialog),
            (None, None) => self.hints(),
        };
        let help = self.help.map(|top| {
            let page = help::page(&self.keys, view, self.theme.palette, area.width);
            help::scroll_page(page, top, render::body_height(area.height))
        });
        self.help = help.as_ref().map(|(_, top)| *top);
        let screen = ScreenState {
            title: &self.title,
            interval: self.interval(now),
            frozen: self.frozen.as_ref().map(|fleet_view| now.since(fleet_view.now)),
            focus: focus.as_ref(),
            message: self.message.as_ref().map(|(text, _)| text.as_str()),
            hints: &hints,
            help: help.as_ref().map(|(lines, _)| lines.as_slice()),
            filter_prompt: self.filter_prompt.as_ref(),
            dialog: self.dialog.as_ref(),
        };
        let fleet_view = self.frozen.as_ref().unwrap_or(&self.live);
        let context = RenderContext { view: fleet_view, options: &self.display, zone: &self.zone };
        let lines =
            render::render_screen(context, &mut self.navigation, &screen, area.width, area.height);
        paint(&lines, self.theme, area, buffer);
        self.drawn = lines;
    }
}
