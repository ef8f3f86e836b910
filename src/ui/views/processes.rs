//! The process view: processes on devices, their trees, environments, graphs and signals.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::Node;
use crate::insight::FleetView;
use crate::insight::RowId;
use crate::model::{NodeName, ProcessKey, ProcessRequest, ProcessResponse, Signal};
use crate::query::SortOrder;
use crate::ui::RenderContext;
use crate::ui::View;
use crate::ui::action::{CommonAction, NodeReply, NodeRequest, ViewEffect};
use crate::ui::dialog::Dialog;
use crate::ui::dialog::signal::{LateReplies, SignalDialog};
use crate::ui::display_options::Density;
use crate::ui::input::Click;
use crate::ui::navigation::{JobSelection, Navigation};
use crate::ui::process_target::ProcessTarget;
use crate::ui::widgets::line::Line;
use crate::ui::widgets::list::{Movement, Viewport};
use crate::ui::widgets::menu::Menu;
pub(crate) use columns::COLUMN_SPECS;
use detail::DetailPage;
use environ::EnvironPage;
use rows::COLUMNS;
pub(crate) use rows::sort_columns;
use rows::{ProcessRow, ProcessRows, ResolvedScope, RowKey};
use series::ProcessSeries;
use tree::Tree;

mod columns;
mod detail;
mod environ;
mod rows;
mod series;
mod table;
mod tree;

/// Limit of processes tagged at the same time.
const MAX_TAGS: usize = 1_000;
/// Columns by which one key press scrolls commands.
const SCROLL_COLUMNS: usize = 8;

/// Where the listed processes run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scope {
    #[default]
    Fleet,
    Node,
    Job,
}

/// State of the process view that lasts between frames.
#[derive(Clone, Debug)]
pub struct State {
    scope: Scope,
    pub(crate) order: SortOrder,
    /// Density chosen with a key, `None` for that of the settings.
    pub(crate) density: Option<Density>,
    /// Columns by which commands are scrolled to the right.
    shift: usize,
    viewport: Viewport,
    width: u16,
    cursor: Option<RowKey>,
    /// Index of the row that last had the cursor; the cursor continues there if its process ends.
    cursor_index: usize,
    tags: BTreeMap<(NodeName, ProcessKey), ProcessTarget>,
    /// Pages in front of the table, the topmost last.
    pages: Vec<Page>,
    rows: ProcessRows,
    series: ProcessSeries,
    late_replies: LateReplies,
}

#[derive(Clone, Debug)]
enum Page {
    Tree(Tree),
    Environ(EnvironPage),
    Detail(Box<DetailPage>),
}

/// Actions that only the process view has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Show the next scope: fleet, selected node, selected job.
    Scope,
    Density(Density),
    /// Sort by a column.
    Sort {
        column: &'static str,
        /// Against the column's default order.
        is_inverted: bool,
    },
    /// Scroll commands sideways.
    Scroll {
        /// True to scroll towards the end of the commands.
        is_forward: bool,
    },
    ScrollHome,
    /// Scroll until the longest visible command ends at the right edge.
    ScrollEnd,
    /// Tag or untag the selected process and move down.
    Tag,
    /// Show the process tree of its node.
    Tree,
    Environment,
    /// Query the node again.
    Refresh,
    /// Open the menu of signals.
    Signals,
    Signal(Signal),
    /// Send SIGINT if a process is selected.
    InterruptSelected,
}

impl Default for State {
    fn default() -> Self {
        Self {
            scope: Scope::Fleet,
            order: SortOrder::by("node"),
            density: None,
            shift: 0,
            viewport: Viewport::default(),
            width: 80,
            cursor: None,
            cursor_index: 0,
            tags: BTreeMap::new(),
            pages: Vec::new(),
            rows: ProcessRows::default(),
            series: ProcessSeries::default(),
            late_replies: LateReplies::default(),
        }
    }
}

impl State {
    fn density(&self, context: RenderContext<'_>) -> Density {
        self.density.unwrap_or(context.options.density)
    }

    /// Finds the row under the cursor, trying its last index first.
    fn find_cursor(&mut self) -> Option<usize> {
        let key = self.cursor.as_ref()?;
        if self.rows.list.get(self.cursor_index).is_some_and(|row| row.has_key(key)) {
            return Some(self.cursor_index);
        }
        self.cursor_index = self.rows.list.iter().position(|row| row.has_key(key))?;
        Some(self.cursor_index)
    }

    fn row(&mut self) -> Option<&ProcessRow> {
        let at = self.find_cursor()?;
        self.rows.list.get(at)
    }

    /// Returns true if the table is in front of all pages.
    pub(crate) const fn is_on_table(&self) -> bool {
        self.pages.is_empty()
    }

    /// Returns true if the table or a tree is in front, both of which have selectable rows.
    pub(crate) fn is_on_rows(&self) -> bool {
        matches!(self.pages.last(), None | Some(Page::Tree(_)))
    }

    /// Returns the hint of a key on the current page, `None` if the action does nothing there.
    pub(crate) fn hint<'a>(&self, action: Action, text: &'a str) -> Option<&'a str> {
        let is_on_environment = matches!(self.pages.last(), Some(Page::Environ(_)));
        let is_idle = (matches!(action, Action::Scope | Action::Tag) && !self.is_on_rows())
            || (action == Action::Refresh && self.is_on_table())
            || (action == Action::Environment && is_on_environment);
        let is_on_tree = self.is_on_rows() && !self.is_on_table();
        let word = if action == Action::Tree && is_on_tree { "table" } else { text };
        (!is_idle).then_some(word)
    }

    fn select(&mut self, index: usize) {
        let row = self.rows.list.get(index);
        self.cursor = row.and_then(ProcessRow::key);
        self.cursor_index = index;
    }

    /// Moves the cursor. Without a cursor, places it at the top of the visible rows.
    fn step(&mut self, step: Movement) {
        let count = self.rows.list.len();
        let index = match (self.find_cursor(), self.cursor.is_some()) {
            (Some(at), _) => step.new_index(at, count, self.viewport.rows),
            // The selected process has ended: continue at its index.
            (None, true) => self.cursor_index.min(count.saturating_sub(1)),
            (None, false) => match step {
                Movement::End => count.saturating_sub(1),
                Movement::Home => 0,
                Movement::Up | Movement::Down | Movement::PageUp | Movement::PageDown => {
                    self.viewport.top
                }
            },
        };
        self.select(index);
    }

    /// Moves the cursor down to the next process; one on several devices has several rows.
    fn step_past(&mut self, tag: &(NodeName, ProcessKey)) {
        if let Some(Page::Tree(tree)) = self.pages.last_mut() {
            tree.step(Movement::Down);
            return;
        }
        let is_same_process = |row: &ProcessRow| {
            let entry = row.entry();
            entry.is_some_and(|entry| {
                entry.node.name == tag.0 && entry.process.is_some_and(|one| one.key == tag.1)
            })
        };
        let Some(at) = self.find_cursor() else { return };
        let rows = self.rows.list.iter().enumerate().skip(at + 1);
        let next = rows.into_iter().find(|(_, row)| !is_same_process(row)).map(|(index, _)| index);
        self.select(next.unwrap_or(at));
    }

    fn tag(&mut self, target: ProcessTarget) -> ViewEffect {
        let tag = target.tag();
        if self.tags.remove(&tag).is_some() {
            return ViewEffect::Handled;
        }
        if self.tags.len() >= MAX_TAGS {
            return ViewEffect::Message(format!("no more than {MAX_TAGS} processes can be tagged"));
        }
        self.tags.insert(tag, target);
        ViewEffect::Handled
    }
}

/// Updates rows and tags to the current fleet view.
fn refresh(context: RenderContext<'_>, navigation: &mut Navigation) {
    let fleet_view = context.view;
    let scope = match navigation.processes.scope {
        Scope::Fleet => ResolvedScope::Fleet,
        Scope::Node => navigation
            .node(fleet_view)
            .map_or(ResolvedScope::Fleet, |node| ResolvedScope::Node(node.name.clone())),
        Scope::Job => match navigation.job(fleet_view) {
            Some(
                JobSelection::Listed { job, .. }
                | JobSelection::Ended(job)
                | JobSelection::Hidden(job),
            ) => ResolvedScope::Job(job.id.clone(), job.sluid.clone()),
            None => ResolvedScope::Fleet,
        },
    };
    let state = &mut navigation.processes;
    state.rows.refresh(fleet_view, scope, state.order);
    // A tag goes when its process is seen to end, and stays while the node cannot be reached.
    state.tags.retain(|(name, key), target| {
        let node = fleet_view.fleet.node(name).filter(|_| target.is_on_device);
        node.is_none_or(|node| {
            node.link != crate::model::Link::Up
                || node.process(key.pid).is_some_and(|process| process.key == *key)
        })
    });
}

/// Performs an action that all views share.
pub(crate) fn update(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    action: &CommonAction,
) -> ViewEffect {
    refresh(context, navigation);
    let state = &mut navigation.processes;
    match action {
        CommonAction::Move(step) => match state.pages.last_mut() {
            Some(Page::Tree(tree)) => tree.step(*step),
            Some(Page::Environ(page)) => page.step(*step),
            Some(Page::Detail(page)) => page.step(*step),
            None => state.step(*step),
        },
        CommonAction::Open => return open(context, navigation),
        CommonAction::Back => return go_back(state),
        CommonAction::Click(Click::Row(at)) => match state.pages.last_mut() {
            Some(Page::Tree(tree)) => tree.select(*at),
            Some(Page::Environ(_) | Page::Detail(_)) => return ViewEffect::Ignored,
            None => {
                if state.find_cursor() == Some(*at) {
                    return open(context, navigation);
                }
                state.select(*at);
            }
        },
        CommonAction::SortMenu if state.pages.is_empty() => {
            return ViewEffect::OpenDialog(Dialog::SortProcesses(Menu::of_columns(
                state.order,
                &COLUMNS,
            )));
        }
        CommonAction::SortBy(column) => state.order.select(column),
        CommonAction::SortNext => state.order.cycle(&COLUMNS, true),
        CommonAction::SortPrevious => state.order.cycle(&COLUMNS, false),
        CommonAction::Reverse => state.order.is_reversed = !state.order.is_reversed,
        CommonAction::SortMenu | CommonAction::Click(_) => return ViewEffect::Ignored,
    }
    ViewEffect::Handled
}

/// Opens the selected process. On the table without a cursor, places the cursor instead.
fn open(context: RenderContext<'_>, navigation: &mut Navigation) -> ViewEffect {
    let state = &mut navigation.processes;
    let is_on_table = state.pages.is_empty();
    if is_on_table && state.find_cursor().is_none() {
        state.step(Movement::Down);
        return ViewEffect::Handled;
    }
    match state.pages.last() {
        Some(Page::Environ(_) | Page::Detail(_)) => return ViewEffect::Handled,
        Some(Page::Tree(_)) | None => {}
    }
    let target = match selected(context, navigation) {
        Ok(target) => target,
        Err(reason) => return ViewEffect::Message(reason),
    };
    let state = &mut navigation.processes;
    let is_target = |row: &&ProcessRow| {
        let key = row.entry().and_then(|entry| Some((&entry.node.name, entry.process?.key)));
        key == Some((&target.node, target.key))
    };
    let row = if is_on_table { state.row() } else { state.rows.list.iter().find(is_target) };
    let row = row.and_then(ProcessRow::key);
    let page = DetailPage::new(target, row, context.view.now);
    let request = page.request();
    state.pages.push(Page::Detail(Box::new(page)));
    record_series(context, navigation);
    ViewEffect::RequestNodes(vec![request])
}

fn go_back(state: &mut State) -> ViewEffect {
    if let Some(Page::Tree(tree)) = state.pages.last_mut()
        && state.tags.is_empty()
        && tree.clear_cursor()
    {
        // Like in the table, Back first removes the cursor and then closes the page.
        return ViewEffect::Handled;
    }
    let is_on_rows = matches!(state.pages.last(), None | Some(Page::Tree(_)));
    if is_on_rows && !state.tags.is_empty() {
        state.tags.clear();
    } else if state.pages.pop().is_none() && state.cursor.take().is_none() {
        return ViewEffect::Ignored;
    }
    ViewEffect::Handled
}

/// Returns the selected process, or why it cannot be queried.
fn selected(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
) -> Result<ProcessTarget, String> {
    const NONE: &str = "no process is selected; ↑ and ↓ select one";
    let state = &mut navigation.processes;
    match state.pages.last() {
        Some(Page::Tree(tree)) => tree.selected(context).ok_or_else(|| NONE.to_owned()),
        Some(Page::Environ(page)) => Ok(page.target.clone()),
        Some(Page::Detail(page)) => Ok(page.target.clone()),
        None => {
            let Some(entry) = state.row().and_then(ProcessRow::entry) else {
                return Err(NONE.to_owned());
            };
            let hidden = "the node hides this process, so there are no details";
            if entry.has_ended {
                return Err("the process has ended".to_owned());
            }
            entry.target().ok_or_else(|| hidden.to_owned())
        }
    }
}

/// Performs an action that only the process view has.
pub(crate) fn update_view(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    action: Action,
) -> ViewEffect {
    refresh(context, navigation);
    let now = context.view.now;
    match action {
        Action::Scope => return cycle_scope(context, navigation),
        Action::Density(density) => {
            let state = &mut navigation.processes;
            if let Some(Page::Tree(tree)) = state.pages.last_mut() {
                tree.show_full(density == Density::Full);
            }
            state.density = Some(density);
        }
        Action::Sort { column, is_inverted } => {
            navigation.processes.order = SortOrder { column, is_reversed: is_inverted };
        }
        Action::Scroll { is_forward: true } => scroll(navigation, |shift| shift + SCROLL_COLUMNS),
        Action::Scroll { is_forward: false } => {
            scroll(navigation, |shift| shift.saturating_sub(SCROLL_COLUMNS));
        }
        Action::ScrollHome => scroll(navigation, |_| 0),
        Action::ScrollEnd => scroll_to_end(context, navigation),
        Action::Tag => {
            if matches!(navigation.processes.pages.last(), Some(Page::Environ(_) | Page::Detail(_)))
            {
                return ViewEffect::Ignored;
            }
            let target = match selected(context, navigation) {
                Ok(target) => target,
                Err(reason) => return ViewEffect::Message(reason),
            };
            let tag = target.tag();
            let effect = navigation.processes.tag(target);
            navigation.processes.step_past(&tag);
            return effect;
        }
        Action::Tree => return toggle_tree(context, navigation),
        Action::Environment => {
            if matches!(navigation.processes.pages.last(), Some(Page::Environ(_))) {
                return update_view(context, navigation, Action::Refresh);
            }
            let page = match selected(context, navigation) {
                Ok(target) => EnvironPage::new(target),
                Err(reason) => return ViewEffect::Message(reason),
            };
            let request = page.request();
            navigation.processes.pages.push(Page::Environ(page));
            return ViewEffect::RequestNodes(vec![request]);
        }
        Action::Refresh => {
            let request = match navigation.processes.pages.last_mut() {
                Some(Page::Tree(tree)) => tree.request_now(now),
                Some(Page::Environ(page)) => page.request(),
                Some(Page::Detail(page)) => page.request_now(now),
                None => return ViewEffect::Ignored,
            };
            return ViewEffect::RequestNodes(vec![request]);
        }
        Action::Signals => return open_signal_dialog(context, navigation, None),
        Action::Signal(signal) => return open_signal_dialog(context, navigation, Some(signal)),
        Action::InterruptSelected => {
            if context.options.is_readonly || signal_targets(context, navigation).is_err() {
                return ViewEffect::Ignored;
            }
            return open_signal_dialog(context, navigation, Some(Signal::Interrupt));
        }
    }
    ViewEffect::Handled
}

/// Cycles the scope: fleet, the node of the selected process, its job, fleet.
fn cycle_scope(context: RenderContext<'_>, navigation: &mut Navigation) -> ViewEffect {
    let fleet_view = context.view;
    let node = navigation.processes.row().and_then(ProcessRow::key).map(|key| key.node);
    let scope = match navigation.processes.scope {
        Scope::Fleet => {
            if let Some(name) = node {
                navigation.select(name);
            }
            if navigation.node(fleet_view).is_some() { Scope::Node } else { Scope::Fleet }
        }
        Scope::Node if navigation.job(fleet_view).is_some() => Scope::Job,
        Scope::Node | Scope::Job => Scope::Fleet,
    };
    navigation.processes.scope = scope;
    navigation.processes.pages.clear();
    ViewEffect::Handled
}

/// Returns the node whose tree to show and the process to select in it, from the page in front or from the
/// table. Without a selected process, uses the selected node, or the first if the filter hides it.
fn tree_root(
    fleet_view: &FleetView,
    navigation: &mut Navigation,
) -> Option<(NodeName, Option<ProcessKey>)> {
    let state = &mut navigation.processes;
    match state.pages.last() {
        Some(Page::Environ(EnvironPage { target, .. })) => {
            return Some((target.node.clone(), Some(target.key)));
        }
        Some(Page::Detail(page)) => {
            return Some((page.target.node.clone(), Some(page.target.key)));
        }
        Some(Page::Tree(_)) | None => {}
    }
    if let Some(entry) = state.row().and_then(ProcessRow::entry) {
        return Some((entry.node.name.clone(), entry.process.map(|one| one.key)));
    }
    let is_shown = |node: &&Arc<Node>| fleet_view.position(&node.name).is_some();
    let node = navigation.node(fleet_view).filter(is_shown).or_else(|| fleet_view.node_at(0))?;
    Some((node.name.clone(), None))
}

fn toggle_tree(context: RenderContext<'_>, navigation: &mut Navigation) -> ViewEffect {
    let now = context.view.now;
    if matches!(navigation.processes.pages.last(), Some(Page::Tree(_))) {
        navigation.processes.pages.pop();
        return ViewEffect::Handled;
    }
    let Some((node, cursor)) = tree_root(context.view, navigation) else {
        return ViewEffect::Message("no node selected for a process tree".to_owned());
    };
    let tree = Tree::new(node, cursor, now);
    let request = tree.request();
    let state = &mut navigation.processes;
    state.pages.clear();
    state.pages.push(Page::Tree(tree));
    ViewEffect::RequestNodes(vec![request])
}

fn scroll(navigation: &mut Navigation, shift: impl Fn(usize) -> usize) {
    let state = &mut navigation.processes;
    match state.pages.last_mut() {
        Some(Page::Tree(tree)) => tree.scroll(shift),
        Some(Page::Environ(page)) => page.scroll(shift),
        Some(Page::Detail(_)) => {}
        None => state.shift = shift(state.shift).min(4_096),
    }
}

fn scroll_to_end(context: RenderContext<'_>, navigation: &mut Navigation) {
    let max_shift = table::max_shift_in_view(context, navigation);
    let state = &mut navigation.processes;
    match state.pages.last_mut() {
        Some(Page::Environ(page)) => page.scroll_to_end(state.width),
        Some(Page::Tree(_) | Page::Detail(_)) => {}
        None => state.shift = max_shift,
    }
}

/// Opens the signal dialog for the tagged processes or, without tags, the selected one. In the node and job
/// views it is the process under the cursor.
pub(crate) fn open_signal_dialog(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    signal: Option<Signal>,
) -> ViewEffect {
    if context.options.is_readonly {
        return ViewEffect::Message(crate::model::RequestError::ReadOnly.to_string());
    }
    match signal_targets(context, navigation) {
        Ok(signal_targets) => ViewEffect::OpenDialog(Dialog::Signal(Box::new(SignalDialog::new(
            signal,
            signal_targets,
        )))),
        Err(reason) => ViewEffect::Message(reason),
    }
}

/// Returns the processes that a signal would be sent to.
fn signal_targets(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
) -> Result<Vec<ProcessTarget>, String> {
    match navigation.view {
        View::Processes => {
            let state = &navigation.processes;
            let is_on_rows = matches!(state.pages.last(), None | Some(Page::Tree(_)));
            if is_on_rows && !state.tags.is_empty() {
                return Ok(state.tags.values().cloned().collect());
            }
            selected(context, navigation).map(|target| vec![target])
        }
        View::Node | View::Job => {
            let no_process = |hint: &str| format!("no process is under the cursor; {hint}");
            let no_cursor = || no_process("Enter moves it into the tables");
            let node = navigation.node(context.view).ok_or_else(no_cursor)?;
            let (pid, start_ticks) = match navigation.cursor(node) {
                Some(RowId::Process { pid, start_ticks, .. }) => (pid, start_ticks),
                Some(RowId::Device(_)) => {
                    return Err(no_process("processes are below the devices"));
                }
                None => return Err(no_cursor()),
            };
            let hidden = "the node hides this process, so no signal can be sent";
            ProcessTarget::find(node, pid, start_ticks)
                .map(|one| vec![one])
                .ok_or_else(|| hidden.to_owned())
        }
        View::Fleet | View::Users | View::Events => {
            Err("no process is selected here; view 4 lists processes".to_owned())
        }
    }
}

pub(crate) fn lines(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    refresh(context, navigation);
    let state = &mut navigation.processes;
    state.width = width;
    let tags = &state.tags;
    match state.pages.last_mut() {
        Some(Page::Tree(tree)) => tree.lines(context, |tag| tags.contains_key(tag), width, height),
        Some(Page::Environ(page)) => page.lines(width, height),
        Some(Page::Detail(page)) => {
            let row = page
                .row
                .as_ref()
                .and_then(|key| state.rows.list.iter().find(|row| row.has_key(key)));
            page.lines(context, row, &state.series, width, height)
        }
        None => table::lines(context, navigation, width, height),
    }
}

/// Records the processes on the screen and those recorded before.
fn record_series(context: RenderContext<'_>, navigation: &mut Navigation) {
    let state = &mut navigation.processes;
    let (rows, now) = (&state.rows.list, context.view.now);
    state.series.remove_stale(now);
    let range = state.viewport.range(rows.len());
    let on_screen = rows.get(range).unwrap_or_default();
    state.series.extend_known(rows, now);
    state.series.record(on_screen.iter(), now);
}

/// Updates the view to a new fleet view, records series, and returns the requests now due.
pub(crate) fn on_tick(context: RenderContext<'_>, navigation: &mut Navigation) -> Vec<NodeRequest> {
    if navigation.view != View::Processes {
        return Vec::new();
    }
    refresh(context, navigation);
    record_series(context, navigation);
    let now = context.view.now;
    let due = match navigation.processes.pages.last_mut() {
        Some(Page::Tree(tree)) => tree.due_request(now),
        Some(Page::Detail(page)) => page.due_request(now),
        Some(Page::Environ(_)) | None => None,
    };
    due.into_iter().collect()
}

/// Handles the reply of a node to a request of this view.
pub fn on_reply(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    reply: &NodeReply,
) -> ViewEffect {
    let NodeRequest { node, process_request: question } = &reply.request;
    let state = &mut navigation.processes;
    match question {
        ProcessRequest::Signal(_, signal) => {
            return ViewEffect::Message(state.late_replies.on_reply(reply, *signal));
        }
        ProcessRequest::Tree(_) => {
            let known = context.view.fleet.node(node);
            let hello = known.and_then(|node| node.hello.as_ref());
            let ticks = hello.map_or(100, |hello| hello.host.ticks_per_second);
            for page in &mut state.pages {
                if let Page::Tree(tree) = page
                    && tree.shows_node(node)
                {
                    match &reply.result {
                        Ok(ProcessResponse::Tree(processes)) => {
                            tree.on_reply(Ok(processes), reply.at, ticks);
                        }
                        Err(error) => tree.on_reply(Err(error), reply.at, ticks),
                        Ok(
                            ProcessResponse::Sent
                            | ProcessResponse::Environment(_)
                            | ProcessResponse::Detail(_),
                        ) => {}
                    }
                }
            }
        }
        ProcessRequest::Environment(key) => {
            for page in &mut state.pages {
                if let Page::Environ(page) = page
                    && page.target.matches(node, *key)
                {
                    match &reply.result {
                        Ok(ProcessResponse::Environment(environment)) => {
                            page.on_reply(Ok(environment));
                        }
                        Err(error) => page.on_reply(Err(error)),
                        Ok(
                            ProcessResponse::Sent
                            | ProcessResponse::Tree(_)
                            | ProcessResponse::Detail(_),
                        ) => {}
                    }
                }
            }
        }
        ProcessRequest::Detail(key) => {
            for page in &mut state.pages {
                if let Page::Detail(page) = page
                    && page.target.matches(node, *key)
                {
                    match &reply.result {
                        Ok(ProcessResponse::Detail(detail)) => page.on_reply(Ok(detail)),
                        Err(error) => page.on_reply(Err(error)),
                        Ok(
                            ProcessResponse::Sent
                            | ProcessResponse::Tree(_)
                            | ProcessResponse::Environment(_),
                        ) => {}
                    }
                }
            }
        }
    }
    ViewEffect::Handled
}
