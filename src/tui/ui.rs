//! What the screen stands on between events: the picture, where one is, and what was asked for.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::fleet::Fleet;
use crate::model::{JobId, Link, NodeName, harmless};
use crate::time::Timestamp;
use crate::tui::keyboard;
use crate::tui::keys::{KeyAction, Keymap, help};
use crate::tui::paint::paint;
use crate::tui::theme::Theme;
use crate::tui::{StopReason, UiConfig, UiRequest};
use crate::view::{
    self, Chosen, Click, Command, Deed, Dialog, Errand, Filter, Found, Habit, Key, Line, Named,
    Navigation, Outcome, Picture, Reaction, Reply, Scene, Search, Setting, Setup, Step, Taste,
    View,
};

/// For how long a message stays.
const MESSAGE: Duration = Duration::from_secs(4);
/// For how long it is said that a node is gone, which nobody expects.
const FAREWELL: Duration = Duration::from_secs(10);
/// When nobody has looked at the terminal for so long, nodes need not sample more often than this.
const UNATTENDED: Duration = Duration::from_secs(60);
const UNATTENDED_INTERVAL: Duration = Duration::from_secs(5);
/// Letters that are taken of what is pasted; no line is longer.
const LONGEST_PASTE: usize = 1_000;
/// Rows the wheel moves by, and with Ctrl.
const WHEEL: usize = 3;
const FAST_WHEEL: usize = 5 * WHEEL;
/// Lines a page of help moves by.
const HELP_PAGE: usize = 10;

/// What a key leads to outside of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UiEffect {
    /// Nothing; the screen may look different.
    Nothing,
    /// Something to be done by others.
    Ask(UiRequest),
    /// The end.
    End(StopReason),
    /// To be stopped until the shell goes on.
    Suspend,
    /// To draw everything anew.
    Redraw,
}

/// The state of the screen.
#[derive(Debug)]
pub struct Ui {
    look: Theme,
    is_background_open: bool,
    /// The terminal says that its background is light, or that it is not.
    is_light: Option<bool>,
    taste: Taste,
    keys: Keymap,
    title: String,
    interval: Duration,
    zone: TimeZone,
    live: Picture,
    frozen: Option<Picture>,
    filter: Filter,
    navigation: Navigation,
    /// The first line of the help page, while it is shown.
    help: Option<usize>,
    /// The filter that is being typed.
    search: Option<Search>,
    /// A question that is to be answered first.
    dialog: Option<Dialog>,
    /// The setup pages, with what is set now.
    setup: Setup,
    /// What settings last said of what keys change too.
    habits: Vec<Habit>,
    is_focusing: bool,
    /// Since when nobody looks at the terminal, where it tells.
    unattended: Option<Timestamp>,
    message: Option<(String, Timestamp)>,
    /// What was drawn last, for clicks.
    drawn: Vec<Line>,
    /// What is to be asked of nodes.
    due: Vec<Errand>,
}

impl Ui {
    /// Begins with an empty fleet.
    pub fn new(title: String, interval: Duration, zone: TimeZone, look: Theme) -> Self {
        Self {
            look,
            is_background_open: false,
            is_light: None,
            taste: Taste::default(),
            keys: Keymap::default(),
            title,
            interval,
            zone,
            live: Picture::default(),
            frozen: None,
            filter: Filter::default(),
            navigation: Navigation::default(),
            help: None,
            search: None,
            dialog: None,
            setup: Setup::default(),
            habits: Vec::new(),
            is_focusing: false,
            unattended: None,
            message: None,
            drawn: Vec::new(),
            due: Vec::new(),
        }
    }

    /// Shows things as somebody wants them, and takes other keys.
    #[must_use]
    pub fn with(self, taste: Taste, keys: Keymap) -> Self {
        let keys = if taste.is_readonly { keys.readonly() } else { keys };
        Self { taste, keys, ..self }
    }

    /// Looks and behaves as somebody wants it from now on.
    pub fn wear(&mut self, dress: UiConfig) {
        let UiConfig { look, is_background_open, taste, interval, habits, setup } = dress;
        let selects_others = self.taste.only != taste.only;
        (self.look, self.taste, self.interval) = (look, taste, interval);
        self.is_background_open = is_background_open;
        self.suit_background();
        if selects_others {
            self.take_again(self.live.now);
        }
        let before = std::mem::replace(&mut self.habits, habits.clone());
        for habit in habits.into_iter().filter(|habit| !before.contains(habit)) {
            view::adopt(&mut self.navigation, habit.0, &habit.1);
        }
        if let Some(Dialog::Setup(open)) = &mut self.dialog {
            open.renew(&setup);
        }
        self.setup = setup;
    }

    /// Takes it that the terminal's background is light, or dark.
    pub fn on_background(&mut self, is_light: bool) {
        self.is_light = Some(is_light);
        self.suit_background();
    }

    /// Returns true if the terminal may say whether the look is to suit a light background.
    pub const fn is_background_open(&self) -> bool {
        self.is_background_open
    }

    fn suit_background(&mut self) {
        if let Some(is_light) = self.is_light.filter(|_| self.is_background_open) {
            self.look = self.look.on(is_light);
        }
    }

    /// Takes it that a setting cannot be set to what was typed, which can be typed again.
    pub fn refuse(&mut self, name: &str, text: &str) {
        if let Some(Dialog::Setup(open)) = &mut self.dialog {
            open.refuse(name, text);
        }
    }

    /// Asks for what was set to be written down, with what keys have changed since.
    fn save(&mut self) -> UiEffect {
        let now = view::habits(&self.navigation, &self.taste);
        let is_new = |(name, value): &Habit| {
            self.habits.iter().any(|(known, told)| known == name && told != value)
        };
        let changed: Vec<_> = now.into_iter().filter(is_new).collect();
        // They are here already, and need not come back.
        for (name, value) in &changed {
            if let Some(habit) = self.habits.iter_mut().find(|(known, _)| known == name) {
                habit.1.clone_from(value);
            }
        }
        UiEffect::Ask(UiRequest::Save(changed))
    }

    /// Takes a new fleet, or the same one a second later.
    pub fn show(&mut self, fleet: Fleet, now: Timestamp) {
        if self.live.fleet.nodes.is_empty() && fleet.nodes.len() == 1 {
            // A list of one says less than the one.
            self.navigation.view = View::Node;
        }
        let picture = self.live.after(fleet, now, self.filter.clone(), &self.taste.only);
        self.navigation.events.note(&self.live, &picture);
        let before = std::mem::replace(&mut self.live, picture);
        if self.frozen.is_none() {
            self.go_on_from(&before, now);
        }
        if self.message.as_ref().is_some_and(|(_, until)| *until <= now) {
            self.message = None;
        }
        if self.frozen.is_none() {
            let scene = Scene { picture: &self.live, taste: &self.taste, zone: &self.zone };
            self.due = view::pulse(scene, &mut self.navigation);
        }
    }

    /// Says so when the selected node was in the picture before and is watched no more.
    fn go_on_from(&mut self, before: &Picture, now: Timestamp) {
        if let Some(name) = self.navigation.outlive(before, &self.live) {
            self.tell(format!("{name} is watched no more"), FAREWELL, now);
        }
    }

    /// Returns what has become due to be asked of nodes, once.
    pub fn due(&mut self) -> Option<UiRequest> {
        let due = std::mem::take(&mut self.due);
        (!due.is_empty()).then_some(UiRequest::Ask(due))
    }

    /// Returns the node that is to sample faster.
    pub fn focus(&self) -> Option<NodeName> {
        let node = self.navigation.node(self.picture()).filter(|_| self.is_focusing)?;
        Some(node.name.clone())
    }

    /// Takes note of whether somebody looks at the terminal.
    pub fn attend(&mut self, is_attended: bool, now: Timestamp) {
        self.unattended = if is_attended { None } else { self.unattended.or(Some(now)) };
    }

    /// Returns how often nodes are to sample: less often when nobody has looked for a while.
    pub fn interval(&self, now: Timestamp) -> Duration {
        match self.unattended {
            Some(since) if now.since(since) >= UNATTENDED => self.interval.max(UNATTENDED_INTERVAL),
            Some(_) | None => self.interval,
        }
    }

    /// Takes a key.
    pub fn press(&mut self, event: KeyEvent, now: Timestamp) -> UiEffect {
        let Some(key) = keyboard::key(event) else { return UiEffect::Nothing };
        if self.search.is_some() {
            self.type_filter(key, now);
            return UiEffect::Nothing;
        }
        if self.dialog.is_some() {
            return self.answer(key, now);
        }
        let found: Vec<KeyAction> = self.keys.actions(key, self.navigation.view).cloned().collect();
        if let Some(top) = self.help {
            return self.turn_help(key, found.first(), top, now);
        }
        for action in found {
            if let Some(effect) = self.act(&action, now) {
                return effect;
            }
        }
        UiEffect::Nothing
    }

    /// Takes what was pasted. Where a line is typed it is part of it; elsewhere it is nothing, for
    /// what a clipboard happens to hold must not end a process.
    pub fn paste(&mut self, text: &str, now: Timestamp) {
        let is_typing = match &self.dialog {
            Some(Dialog::Setup(setup)) => setup.is_typing(),
            Some(_) => false,
            None => self.search.is_some(),
        };
        for letter in harmless(text.trim()).take(LONGEST_PASTE).filter(|_| is_typing) {
            // A letter of a line leads to nothing else.
            self.press(KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE), now);
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "most keys mean nothing here")]
    /// Takes a key on the help page: it scrolls, or ends it.
    fn turn_help(
        &mut self,
        key: Key,
        action: Option<&KeyAction>,
        top: usize,
        now: Timestamp,
    ) -> UiEffect {
        let scrolled = match key {
            Key::Letter('j') => Some(Step::Down),
            Key::Letter('k') => Some(Step::Up),
            other => Step::of(other),
        };
        if let Some(step) = scrolled {
            self.help = Some(step.from(top, usize::MAX, HELP_PAGE));
            return UiEffect::Nothing;
        }
        let closes = matches!(action, Some(KeyAction::Help | KeyAction::Quit))
            || matches!(key, Key::Named(Named::Escape | Named::Enter));
        if closes {
            self.help = None;
            return UiEffect::Nothing;
        }
        match action {
            Some(KeyAction::View(_)) | None => UiEffect::Nothing,
            Some(action) => {
                let action = action.clone();
                self.act(&action, now).unwrap_or(UiEffect::Nothing)
            }
        }
    }

    /// Takes a key of a filter that is being typed.
    fn type_filter(&mut self, key: Key, now: Timestamp) {
        let Some(search) = &mut self.search else { return };
        match search.press(key, &self.live.fleet) {
            Found::Typing(None) => {}
            Found::Typing(Some(filter)) => self.set_filter(filter, now),
            Found::Done(filter) => {
                self.search = None;
                self.set_filter(filter, now);
            }
        }
    }

    /// Takes the pictures anew, as they are to be shown now.
    fn take_again(&mut self, now: Timestamp) {
        let again =
            |picture: &Picture, now| picture.again(now, self.filter.clone(), &self.taste.only);
        self.live = again(&self.live, self.live.now.max(now));
        self.frozen = self.frozen.as_ref().map(|picture| again(picture, picture.now));
    }

    fn set_filter(&mut self, filter: Filter, now: Timestamp) {
        self.filter = filter;
        self.take_again(now);
    }

    /// Takes a key of a question.
    fn answer(&mut self, key: Key, now: Timestamp) -> UiEffect {
        let Some(mut dialog) = self.dialog.take() else { return UiEffect::Nothing };
        if let Dialog::Setup(setup) = &dialog
            && !setup.is_typing()
        {
            // The pages go by the keys that open and save them, whatever those are.
            let action = self.keys.actions(key, self.navigation.view).next().cloned();
            match action {
                Some(KeyAction::Setup) => return UiEffect::Nothing,
                Some(KeyAction::Save) => {
                    self.dialog = Some(dialog);
                    return self.save();
                }
                _ => {}
            }
        }
        match dialog.press(self.scene(), key) {
            Reaction::Stay => {
                self.dialog = Some(dialog);
                UiEffect::Nothing
            }
            Reaction::Change(name, value) => {
                self.dialog = Some(dialog);
                UiEffect::Ask(UiRequest::Change(name, value))
            }
            Reaction::Close => UiEffect::Nothing,
            Reaction::Do(command) => {
                self.view_act(&Deed::Do(command), now).unwrap_or(UiEffect::Nothing)
            }
            Reaction::Act(deed) => self.view_act(&deed, now).unwrap_or(UiEffect::Nothing),
            Reaction::Ask(errands) => {
                self.dialog = Some(dialog);
                UiEffect::Ask(UiRequest::Ask(errands))
            }
            Reaction::End(outcome) => self.follow(outcome, now).unwrap_or(UiEffect::Nothing),
        }
    }

    /// Does it; nothing when nobody here has a use for it.
    fn act(&mut self, action: &KeyAction, now: Timestamp) -> Option<UiEffect> {
        match action {
            KeyAction::Quit => return Some(UiEffect::End(StopReason::Quit)),
            KeyAction::Interrupt => return Some(UiEffect::End(StopReason::Interrupted)),
            KeyAction::Suspend => return Some(UiEffect::Suspend),
            KeyAction::Redraw => return Some(UiEffect::Redraw),
            KeyAction::Refresh => return Some(self.refresh(now)),
            KeyAction::Help => self.help = Some(0),
            KeyAction::Freeze => match self.frozen.take() {
                Some(before) => self.go_on_from(&before, now),
                None => self.frozen = Some(self.live.clone()),
            },
            KeyAction::Focus => self.is_focusing = !self.is_focusing,
            KeyAction::Setup => self.dialog = Some(Dialog::Setup(self.setup.clone())),
            KeyAction::Save => return Some(self.save()),
            KeyAction::Filter => self.search = Some(Search::new(&self.filter)),
            KeyAction::Show(view) => self.go(*view),
            KeyAction::NextView => self.turn_view(true),
            KeyAction::PreviousView => self.turn_view(false),
            KeyAction::View(deed) => {
                let effect = self.view_act(deed, now);
                if effect.is_none() && *deed == Deed::Do(Command::Back) {
                    self.back(now);
                    return Some(UiEffect::Nothing);
                }
                return effect;
            }
        }
        Some(UiEffect::Nothing)
    }

    fn scene(&self) -> Scene<'_> {
        Scene { picture: self.picture(), taste: &self.taste, zone: &self.zone }
    }

    fn view_act(&mut self, deed: &Deed, now: Timestamp) -> Option<UiEffect> {
        let picture = self.frozen.as_ref().unwrap_or(&self.live);
        let scene = Scene { picture, taste: &self.taste, zone: &self.zone };
        let outcome = view::act(scene, &mut self.navigation, deed);
        self.follow(outcome, now)
    }

    fn follow(&mut self, outcome: Outcome, now: Timestamp) -> Option<UiEffect> {
        match outcome {
            Outcome::Unused => return None,
            Outcome::Nothing => {}
            Outcome::Say(words) => self.say(words, now),
            Outcome::Show(view) => {
                let picture = self.frozen.as_ref().unwrap_or(&self.live);
                self.navigation.open(picture, view);
            }
            Outcome::Open(dialog) => self.dialog = Some(dialog),
            Outcome::Ask(errands) => return Some(UiEffect::Ask(UiRequest::Ask(errands))),
        }
        Some(UiEffect::Nothing)
    }

    /// Takes an answer of a node.
    pub fn take(&mut self, reply: &Reply, now: Timestamp) {
        if let Some(reaction) = self.dialog.as_mut().and_then(|dialog| dialog.take(reply)) {
            if let Reaction::End(outcome) = reaction {
                self.dialog = None;
                self.follow(outcome, now);
            }
            return;
        }
        let picture = self.frozen.as_ref().unwrap_or(&self.live);
        let scene = Scene { picture, taste: &self.taste, zone: &self.zone };
        let outcome = view::processes::take(scene, &mut self.navigation, reply);
        self.follow(outcome, now);
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "only clicks and the wheel mean something")]
    /// Takes a click or a turn of the wheel.
    pub fn point(&mut self, event: MouseEvent, now: Timestamp) -> UiEffect {
        let sideways = |code| KeyEvent::new(code, KeyModifiers::NONE);
        let is_shifted = event.modifiers.contains(KeyModifiers::SHIFT);
        let rows = if event.modifiers.contains(KeyModifiers::CONTROL) { FAST_WHEEL } else { WHEEL };
        let step = match event.kind {
            MouseEventKind::ScrollLeft => return self.press(sideways(KeyCode::Left), now),
            MouseEventKind::ScrollRight => return self.press(sideways(KeyCode::Right), now),
            MouseEventKind::ScrollUp if is_shifted => {
                return self.press(sideways(KeyCode::Left), now);
            }
            MouseEventKind::ScrollDown if is_shifted => {
                return self.press(sideways(KeyCode::Right), now);
            }
            MouseEventKind::ScrollUp => Step::Up,
            MouseEventKind::ScrollDown => Step::Down,
            MouseEventKind::Down(MouseButton::Left) => return self.click(event, now),
            _ => return UiEffect::Nothing,
        };
        if let Some(top) = self.help {
            self.help = Some((0..rows).fold(top, |top, _| step.from(top, usize::MAX, 1)));
            return UiEffect::Nothing;
        }
        if self.dialog.is_none() && self.search.is_none() {
            for _ in 0..rows {
                self.view_act(&Deed::Do(Command::Move(step)), now);
            }
        }
        UiEffect::Nothing
    }

    fn click(&mut self, event: MouseEvent, now: Timestamp) -> UiEffect {
        let line = self.drawn.get(usize::from(event.row));
        let Some(click) = line.and_then(|line| line.clicked(event.column)).cloned() else {
            return UiEffect::Nothing;
        };
        if self.dialog.is_some() || self.search.is_some() {
            return UiEffect::Nothing;
        }
        match click {
            Click::View(view) => {
                self.help = None;
                self.go(view);
                UiEffect::Nothing
            }
            Click::Column(column) => {
                let sort = Deed::Do(Command::SortBy(column));
                self.view_act(&sort, now).unwrap_or(UiEffect::Nothing)
            }
            click @ (Click::Row(_) | Click::Cell(..)) => {
                let clicked = Deed::Do(Command::Click(click));
                self.view_act(&clicked, now).unwrap_or(UiEffect::Nothing)
            }
        }
    }

    /// Says something for a while.
    pub fn tell(&mut self, words: String, span: Duration, now: Timestamp) {
        self.message = Some((words, now.plus(span)));
    }

    /// Asks for everything, and says so: nothing else would show that the key did something.
    fn refresh(&mut self, now: Timestamp) -> UiEffect {
        let is_down = |link: &Link| matches!(link, Link::Down { .. });
        let down = self.live.fleet.nodes.iter().filter(|node| is_down(&node.link)).count();
        let text = match down {
            0 => "asking every node for everything".to_owned(),
            1 => "trying 1 node that is down".to_owned(),
            _ => format!("trying {down} nodes that are down"),
        };
        self.say(text, now);
        UiEffect::Ask(UiRequest::Refresh)
    }

    fn say(&mut self, words: String, now: Timestamp) {
        self.tell(words, MESSAGE, now);
    }

    fn go(&mut self, view: View) {
        self.navigation.go(self.frozen.as_ref().unwrap_or(&self.live), view);
    }

    fn turn_view(&mut self, is_forward: bool) {
        let views = View::ALL;
        let at = views.iter().position(|view| *view == self.navigation.view).unwrap_or(0);
        let count = views.len().max(1);
        let to = if is_forward { at + 1 } else { at + count - 1 } % count;
        if let Some(view) = views.get(to) {
            self.go(*view);
        }
    }

    /// Goes back where the view itself has nowhere to go.
    fn back(&mut self, now: Timestamp) {
        if self.filter.is_empty() {
            self.navigation.back(self.frozen.as_ref().unwrap_or(&self.live));
        } else {
            self.set_filter(Filter::default(), now);
        }
    }

    /// Returns the job that is looked at.
    pub fn job(&self) -> Option<JobId> {
        if self.navigation.view != View::Job {
            return None;
        }
        // A scheduler is asked about what it lists, and not about what processes tell of.
        let list = self.picture().fleet.jobs.as_ref()?;
        match self.navigation.job(self.picture())? {
            Chosen::Listed { job, .. } => list.job(&job.id).map(|job| job.id.clone()),
            Chosen::Hidden(_) | Chosen::Ended(_) => None,
        }
    }

    fn picture(&self) -> &Picture {
        self.frozen.as_ref().unwrap_or(&self.live)
    }

    /// Returns the keys of a question; those that the key table binds are shown as they are bound.
    fn dialog_hints(&self, dialog: &Dialog) -> Vec<(String, &'static str)> {
        let mut hints = dialog.hints();
        if let (Dialog::Setup(setup), Some(key)) = (dialog, self.keys.sign_of("save"))
            && !setup.is_typing()
        {
            hints.insert(hints.len().saturating_sub(1), (key, "save"));
        }
        hints
    }

    /// Returns the keys that do something here.
    fn hints(&self) -> Vec<(String, &'static str)> {
        let word = |action: &KeyAction, usual: &'static str| {
            let KeyAction::View(deed) = action else { return Some(usual) };
            view::hint(self.picture(), &self.navigation, deed, usual)
        };
        self.keys.hints(self.navigation.view, word)
    }

    /// Returns what was drawn last.
    pub fn drawn(&self) -> &[Line] {
        &self.drawn
    }

    /// Draws the screen.
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
            let page = help::page(&self.keys, view, self.look.theme, area.width);
            help::viewport(page, top, view::body_height(area.height))
        });
        self.help = help.as_ref().map(|(_, top)| *top);
        let setting = Setting {
            title: &self.title,
            interval: self.interval(now),
            frozen: self.frozen.as_ref().map(|picture| now.since(picture.now)),
            focus: focus.as_ref(),
            message: self.message.as_ref().map(|(text, _)| text.as_str()),
            hints: &hints,
            help: help.as_ref().map(|(lines, _)| lines.as_slice()),
            search: self.search.as_ref(),
            dialog: self.dialog.as_ref(),
        };
        let picture = self.frozen.as_ref().unwrap_or(&self.live);
        let scene = Scene { picture, taste: &self.taste, zone: &self.zone };
        let lines = view::screen(scene, &mut self.navigation, &setting, area.width, area.height);
        paint(&lines, self.look, area, buffer);
        self.drawn = lines;
    }
}
