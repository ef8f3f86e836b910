//! Navigation: the views with their states, which of them is shown, and how actions and lines reach it.

use std::sync::Arc;
use std::time::Duration;

use crate::action::{Action, JobAction, ProcessAction, RowAction, RunAction, SortAction};
use crate::dialog::Dialog;
use crate::dialog::explain::ExplanationDialog;
use crate::drawn_view::DrawnView;
use crate::effect::Effect;
use crate::process_order;
use crate::render_context::{RenderContext, Size};
use crate::request::NodeRequest;
use crate::view::View;
use crate::view_state::{Explained, Shared, ViewState};
use crate::views::{events, fleet, job, node, problems, processes, runs, users};
use crate::widgets::column_spec::ColumnGroup;
use gtop_fleet::Node;
use gtop_fleet::insight::next_problem::sick_nodes;
use gtop_fleet::insight::node_status::notes;
use gtop_fleet::insight::note::Note;
use gtop_fleet::insight::{FleetView, RowId, no_problem_text};
use gtop_fleet::query::SortOrder;
use gtop_local::time::Timestamp;
use gtop_model::{NodeName, Signal};

/// How long after the first node others may bring the list of nodes to the screen.
const LATE_NODES_TIME: Duration = Duration::from_secs(10);

/// The views, and which of them is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Navigation {
    pub view: View,
    /// Nodes or runs were shown; before that, the view is chosen by the number of nodes.
    pub(crate) has_started: bool,
    /// When the only node of the first list was shown, while others may follow and the user has not done anything.
    alone_since: Option<Timestamp>,
    /// The view to go back to.
    origin: View,
    /// The node that the key for the next problem moved to last.
    last_problem: Option<NodeName>,
    pub(crate) shared: Shared,
    pub(crate) fleet: fleet::State,
    pub(crate) job: job::State,
    pub(crate) node: node::State,
    pub(crate) processes: processes::State,
    pub(crate) users: users::State,
    pub(crate) events: events::State,
    pub(crate) problems: problems::State,
    pub(crate) runs: runs::State,
}

impl Navigation {
    /// Notes the number of nodes; one node alone is shown in its view at first, which is more useful than a list. If others
    /// follow at once, such as those of a scheduler that answers late, the list is shown after all.
    pub(crate) fn on_nodes(&mut self, count: usize, now: Timestamp) {
        if !self.has_started && count == 1 {
            (self.view, self.alone_since) = (View::Node, Some(now));
        }
        self.has_started |= count > 0;
        self.alone_since = self.alone_since.filter(|since| now.since(*since) <= LATE_NODES_TIME);
        if count > 1 && self.alone_since.take().is_some() {
            self.view = View::Fleet;
        }
    }

    /// The user does something: the view stays until they change it.
    pub(crate) const fn on_input(&mut self) {
        self.alone_since = None;
    }

    /// Starts in a view.
    pub(crate) const fn start_at(&mut self, view: View) {
        (self.has_started, self.view) = (true, view);
    }

    /// Returns the current view.
    fn current(&self) -> &dyn ViewState {
        match self.view {
            View::Fleet => &self.fleet,
            View::Job => &self.job,
            View::Node => &self.node,
            View::Processes => &self.processes,
            View::Users => &self.users,
            View::Events => &self.events,
            View::Problems => &self.problems,
            View::Runs => &self.runs,
        }
    }

    /// Returns the current view to change it, and what it shares with the others.
    fn current_mut(&mut self) -> (&mut dyn ViewState, &mut Shared) {
        let view: &mut dyn ViewState = match self.view {
            View::Fleet => &mut self.fleet,
            View::Job => &mut self.job,
            View::Node => &mut self.node,
            View::Processes => &mut self.processes,
            View::Users => &mut self.users,
            View::Events => &mut self.events,
            View::Problems => &mut self.problems,
            View::Runs => &mut self.runs,
        };
        (view, &mut self.shared)
    }

    /// Updates the current view and the panel to the snapshot.
    fn refresh(&mut self, context: RenderContext<'_>) {
        let (view, shared) = self.current_mut();
        view.refresh(context, shared);
        self.sync_panel();
    }

    /// Returns the node that the current view shows. If a filter hides the selected node, the fleet view shows
    /// the first match, but the other views keep showing the selected one.
    pub(crate) fn shown_node<'a>(&self, fleet_view: &'a FleetView) -> Option<&'a Arc<Node>> {
        let selection = &self.shared.selection;
        if self.view == View::Fleet {
            selection.shown_node(fleet_view)
        } else {
            selection.node(fleet_view)
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other actions belong to no view")]
    /// Handles an action in the current view; one that belongs to no view is ignored.
    pub(crate) fn update(&mut self, context: RenderContext<'_>, action: &Action) -> Effect {
        self.refresh(context);
        let shared = &mut self.shared;
        let effect = match action {
            Action::Rows(RowAction::Open) if self.view == View::Node => self.open_row(context),
            Action::Rows(RowAction::Open)
                if self.view == View::Processes && self.processes.is_on_detail() =>
            {
                self.update_process_view(context, ProcessAction::ClosePage)
            }
            Action::Rows(RowAction::Back)
                if self.view == View::Node && self.processes.has_tags() =>
            {
                self.processes.tags.clear();
                Effect::Handled
            }
            Action::Rows(action) => {
                let (view, shared) = self.current_mut();
                view.update(context, shared, action)
            }
            Action::Explain => match self.explain(context) {
                Ok(explanation) => {
                    let dialog = ExplanationDialog::new(explanation, context.view.version());
                    Effect::OpenDialog(Dialog::Explanation(Box::new(dialog)))
                }
                Err(reason) => Effect::Message(reason),
            },
            Action::Copy => self.copy_menu(context),
            Action::CopyText(clip) => Effect::Copy(clip.clone()),
            Action::NextProblem => self.next_problem(context),
            Action::OpenJob => self.open_job(context.view),
            Action::Sort(action) => self.sort(context, *action),
            Action::Fleet(action) => self.fleet.update_layout(context, shared, *action),
            Action::Job(action) => self.job.update_job(context, shared, *action),
            Action::Node(action) => node::update_panel(context, shared, *action),
            Action::Processes(action) => self.update_processes(context, *action),
            Action::Runs(RunAction::OfJob) => self.show_runs_of_job(context),
            Action::Runs(action) => self.runs.update_runs(context, action),
            _ => Effect::Ignored,
        };
        self.sync_panel();
        effect
    }

    /// Handles an action of the process view, or one about the process under the cursor of a node's tables.
    fn update_processes(&mut self, context: RenderContext<'_>, action: ProcessAction) -> Effect {
        if self.view == View::Processes {
            return self.update_process_view(context, action);
        }
        // The panel marks the tagged ones, to which signals go.
        let has_tags = self.view == View::Node && self.processes.has_tags();
        let Shared { selection, panel } = &mut self.shared;
        let node = selection.node(context.view).map(|node| &**node);
        let signal = match (action, self.view) {
            (ProcessAction::Signals, _) => None,
            (ProcessAction::Signal(signal), _) => Some(signal),
            (ProcessAction::InterruptSelected, View::Node) => {
                let has_target = has_tags || panel.signal_target(node).is_ok();
                if context.options.is_readonly || !has_target {
                    return Effect::Ignored;
                }
                Some(Signal::Interrupt)
            }
            (ProcessAction::Tag, View::Node) => return self.tag_on_node(context),
            (ProcessAction::Tree | ProcessAction::Environment, View::Node) => {
                // Only the tree is also of the whole node.
                let selected = panel.selected_process(node);
                if let (Err(reason), false) = (selected, action == ProcessAction::Tree) {
                    return Effect::Message(reason);
                }
                return self
                    .visit_processes(context, |this| this.update_process_view(context, action));
            }
            (action, View::Node) => return panel.scroll_commands(node, action),
            _ => return Effect::Ignored,
        };
        if has_tags {
            return Effect::signal(context, signal, self.processes.tagged_targets(context));
        }
        let has_panel = self.view == View::Node || (self.view == View::Job && self.job.is_open());
        let target = if has_panel {
            panel.signal_target(node)
        } else {
            Err("no process is selected here; view 4 lists processes".to_owned())
        };
        Effect::signal(context, signal, target.map(|target| vec![target]))
    }

    /// Tags the process under the cursor of a node's tables, or removes its tag, and moves to the next one.
    fn tag_on_node(&mut self, context: RenderContext<'_>) -> Effect {
        let Shared { selection, panel } = &mut self.shared;
        let node =
            selection.node(context.view).map(|node| context.options.selection.filter_node(node));
        let target = match panel.signal_target(node.as_deref()) {
            Ok(target) => target,
            Err(reason) => return Effect::Message(reason),
        };
        if let Some(node) = node {
            panel.step_past_process(&node);
        }
        let effect = self.processes.tag(target);
        if effect != Effect::Handled {
            return effect;
        }
        Effect::Message(format!("{} tagged", self.processes.tags.len()))
    }

    /// Handles an action of the process view in that view.
    fn update_process_view(&mut self, context: RenderContext<'_>, action: ProcessAction) -> Effect {
        if self.processes.is_left_by(action) && self.processes.ends_with_page() {
            self.back(context.view);
            return Effect::Handled;
        }
        self.processes.update_processes(context, &mut self.shared.selection, action)
    }

    /// Opens the row under the cursor of a node's tables: the page of a process, and of a device its first process.
    /// Without a cursor, it starts at the first process.
    fn open_row(&mut self, context: RenderContext<'_>) -> Effect {
        let Shared { selection, panel } = &mut self.shared;
        let Some(node) = selection.node(context.view) else { return Effect::Handled };
        let node = context.options.selection.filter_node(node);
        if panel.enter(&node) {
            return self.visit_processes(context, |this| {
                this.processes.update(context, &mut this.shared, &RowAction::Open)
            });
        }
        Effect::Handled
    }

    /// Opens the process view for the processes of the selected node, the cursor on the process under the cursor of
    /// the node's tables, and performs an action there.
    fn visit_processes(
        &mut self,
        context: RenderContext<'_>,
        perform: impl FnOnce(&mut Self) -> Effect,
    ) -> Effect {
        let Shared { selection, panel } = &mut self.shared;
        let node =
            selection.node(context.view).map(|node| context.options.selection.filter_node(node));
        let row_id = node.and_then(|node| panel.cursor(&node));
        self.open(context.view, View::Processes);
        self.processes.start_visit(context, &self.shared.selection, row_id.as_ref());
        let effect = perform(self);
        self.processes.settle_visit();
        effect
    }

    /// Turns the panel to the selected node, and gives it the order of processes and the tagged ones.
    fn sync_panel(&mut self) {
        let Shared { selection, panel } = &mut self.shared;
        panel.follow(selection);
        panel.order = self.processes.order;
        panel.tags = self.processes.tags.keys().cloned().collect();
    }

    /// Returns the columns of the tables of the current view.
    pub(crate) fn columns(&self) -> Vec<ColumnGroup> {
        self.current().columns()
    }

    /// Explains the row at the cursor of the current view, or says why there is none.
    pub(crate) fn explain(&mut self, context: RenderContext<'_>) -> Explained {
        self.refresh(context);
        let (view, shared) = self.current_mut();
        view.explain(context, shared)
    }

    /// Opens the menu of what can be copied from the row at the cursor of the current view.
    fn copy_menu(&self, context: RenderContext<'_>) -> Effect {
        let clips = self.current().clips(context, &self.shared);
        if clips.is_empty() {
            return Effect::Message("nothing to copy here".to_owned());
        }
        Effect::OpenDialog(Dialog::copy(clips))
    }

    /// Moves the cursor to the sickest shown node, or from the one it moved to before to the next one.
    fn next_problem(&mut self, context: RenderContext<'_>) -> Effect {
        let fleet_view = context.view;
        let selected = self.shared.selection.node_name();
        let last = self.last_problem.as_ref().filter(|last| selected == Some(*last));
        let sick = sick_nodes(fleet_view).into_iter();
        let sick: Vec<_> = sick.filter_map(|at| fleet_view.fleet.nodes.get(at)).collect();
        let before = last.and_then(|last| sick.iter().position(|node| node.name == *last));
        let at = before.map_or(0, |before| (before + 1) % sick.len().max(1));
        let Some(node) = sick.get(at) else {
            return Effect::Message(no_problem_text(fleet_view));
        };
        if self.view != View::Node {
            self.show_view(fleet_view, View::Fleet);
            self.fleet.reveal(fleet_view, &mut self.shared.selection, node);
        }
        self.shared.selection.select(node.name.clone());
        self.last_problem = Some(node.name.clone());
        let notes = notes(fleet_view, node);
        let what = notes.first().map(Note::text).unwrap_or_default();
        Effect::Message(format!("problem {} of {}: {} {what}", at + 1, sick.len(), node.name))
    }

    /// Opens the job of the shown node, or says that there is none.
    fn open_job(&mut self, fleet_view: &FleetView) -> Effect {
        let Some(name) = self.shown_node(fleet_view).map(|node| node.name.clone()) else {
            return Effect::Message("no node is selected".to_owned());
        };
        let jobs = fleet_view.job_index().entries.iter();
        let mut jobs = jobs.filter(|entry| entry.job.has_node(&name)).peekable();
        if jobs.peek().is_none() {
            return Effect::Message(format!("no job runs on {name}"));
        }
        if !jobs.any(|entry| entry.is_shown) {
            return Effect::Message(format!("no job on {name} matches the filter"));
        }
        self.shared.selection.select(name);
        self.open(fleet_view, View::Job);
        self.job.open();
        Effect::Handled
    }

    /// Returns true if the list of jobs is shown, on which no node is.
    pub(crate) fn is_on_job_list(&self) -> bool {
        self.view == View::Job && !self.job.is_open()
    }

    /// Shows the runs of the job under the cursor, or of the open one.
    fn show_runs_of_job(&mut self, context: RenderContext<'_>) -> Effect {
        if context.view.runs.is_none() {
            return Effect::Message(runs::NOT_WATCHED.to_owned());
        }
        let job = self.job.selected_job(context, &self.shared.selection).map(|job| job.id);
        self.runs.show_job(job);
        Effect::SwitchView(View::Runs)
    }

    fn sort(&mut self, context: RenderContext<'_>, action: SortAction) -> Effect {
        let scheme = context.options.key_scheme;
        let is_on_page = self.view == View::Processes && !self.processes.is_on_table();
        let reverses = matches!(self.view, View::Processes | View::Node);
        // The processes of a node have the order of those in their own view.
        let sorting = if self.view == View::Node {
            self.processes.sorting()
        } else {
            self.current_mut().0.sorting()
        };
        let Some((order, mut columns)) = sorting else {
            // The keys of an open job are those of its nodes.
            let step = match action {
                SortAction::Previous => Some(JobAction::PreviousNode),
                SortAction::Next => Some(JobAction::NextNode),
                SortAction::Menu | SortAction::By(_) | SortAction::Set(_) | SortAction::Reverse => {
                    None
                }
            };
            if let Some(step) = step.filter(|_| self.view == View::Job) {
                return self.job.update_job(context, &mut self.shared, step);
            }
            if action != SortAction::Menu {
                return Effect::Ignored;
            }
            let text =
                "nothing to sort here; Fleet, Processes, Users and the list of jobs can be sorted";
            return Effect::Message(text.to_owned());
        };
        if reverses {
            columns = columns.into_iter().map(|one| scheme.process_sort_column(one)).collect();
        }
        match action {
            SortAction::Menu if is_on_page => return Effect::Ignored,
            SortAction::Menu => {
                return Effect::OpenDialog(Dialog::sort(*order, &columns, reverses));
            }
            SortAction::By(column) => order.select(column),
            SortAction::Set(wanted) if columns.iter().any(|one| one.name == wanted.column) => {
                *order = wanted;
            }
            SortAction::Set(_) => return Effect::Ignored,
            SortAction::Next => order.cycle(&columns, true),
            SortAction::Previous => order.cycle(&columns, false),
            SortAction::Reverse => order.is_reversed = !order.is_reversed,
        }
        let order = *order;
        self.sync_panel();
        if self.view == View::Node {
            let Shared { selection, panel } = &mut self.shared;
            if let Some(node) = selection.node(context.view) {
                panel.show_first_process(&context.options.selection.filter_node(node));
            }
            // Not every column by which they are sorted is shown.
            return Effect::Message(format!("processes {}", process_order::description(order)));
        }
        // Rows are sorted to look at the first ones.
        self.refresh(context);
        let (view, shared) = self.current_mut();
        view.show_top(context, shared);
        Effect::Handled
    }

    /// Returns true if the list of jobs is drawn in place of the current view. A job that has ended is shown even if no node
    /// is.
    fn is_job_list_instead(&self, fleet_view: &FleetView) -> bool {
        let fleet = &fleet_view.fleet;
        fleet.nodes.is_empty()
            && fleet.jobs.is_some()
            && !matches!(self.view, View::Job | View::Runs)
    }

    /// Brings the current view up to date, to be drawn in this size.
    pub(crate) fn prepare(&mut self, context: RenderContext<'_>, size: Size) {
        if self.is_job_list_instead(context.view) {
            self.job.list.refresh(context);
            return self.job.list.prepare(context, None, size);
        }
        self.refresh(context);
        let (view, shared) = self.current_mut();
        view.prepare(context, shared, size);
    }

    /// Draws the current view as it was prepared.
    pub(crate) fn lines(&self, context: RenderContext<'_>, size: Size) -> DrawnView {
        if self.is_job_list_instead(context.view) {
            // It has no cursor here, and stays scrolled as in its own view.
            return self.job.list.lines(context, None, size).lines.into();
        }
        self.current().lines(context, &self.shared, size)
    }

    /// Keeps how far the current view was scrolled when it was drawn.
    pub(crate) fn keep_scrolled(&mut self, drawn: &DrawnView) {
        let (view, shared) = self.current_mut();
        if let (Some(viewport), Some(list)) = (view.viewport(), drawn.list) {
            *viewport = list;
        }
        shared.panel.scroll = drawn.panel.unwrap_or(shared.panel.scroll);
        // Columns that are all visible need no scrolling.
        self.runs.first_column = drawn.first_column.unwrap_or(self.runs.first_column);
    }

    /// Returns the sort order of the current view; `None` if its rows cannot be sorted.
    pub(crate) fn sort_order(&self) -> Option<SortOrder> {
        match self.view {
            View::Fleet => Some(self.fleet.order),
            View::Job => (!self.job.is_open()).then_some(self.job.list.order),
            View::Processes => Some(self.processes.order),
            View::Users => Some(self.users.order),
            View::Node | View::Events | View::Problems | View::Runs => None,
        }
    }

    /// Advances views to the latest fleet view, drawn or not. Returns the requests to send to nodes now.
    pub(crate) fn on_tick(&mut self, context: RenderContext<'_>) -> Vec<NodeRequest> {
        if self.view != View::Processes {
            return Vec::new();
        }
        self.processes.on_tick(context, &mut self.shared.selection)
    }

    /// Logs the events between two snapshots. If the selected node is no longer watched, selects a neighbour
    /// and returns its name.
    pub(crate) fn on_update(&mut self, before: &FleetView, after: &FleetView) -> Option<NodeName> {
        // The node view shows a node even if none was selected.
        let on_screen = before.node_at(0).filter(|_| self.view == View::Node);
        self.shared.selection.on_update(before, after, on_screen.map(|node| &node.name))
    }

    /// Forgets what follows from earlier snapshots: events, series, and pages with replies of live nodes.
    pub(crate) fn on_jump(&mut self) {
        self.events = events::State::default();
        self.fleet.forget_series();
        self.job.forget_series();
        self.processes.forget_series();
        self.processes.close_pages();
    }

    /// Switches to a view. A node marked in the fleet view becomes the selected node; the job view opens with
    /// a job of that node.
    pub(crate) fn show_view(&mut self, fleet_view: &FleetView, view: View) {
        if self.shared.selection.node_name().is_some()
            && let Some(name) = self.shown_node(fleet_view).map(|node| node.name.clone())
        {
            self.shared.selection.select(name);
        }
        if view == View::Job && self.view != View::Job {
            self.shared.selection.follow_job(fleet_view);
            if !self.job.is_open() {
                self.job.show_list(&self.shared.selection);
            }
        } else if view == View::Job {
            self.job.show_list(&self.shared.selection);
        }
        if view != View::Processes {
            self.processes.end_visit();
        }
        (self.origin, self.view) = (View::Fleet, view);
    }

    /// Opens a view; [`Self::back`] returns from it to the current one.
    pub(crate) fn open(&mut self, fleet_view: &FleetView, view: View) {
        let origin = self.view;
        self.show_view(fleet_view, view);
        self.origin = origin;
    }

    /// Opens the node view at a node, with the cursor on a row of its tables.
    pub(crate) fn open_node(
        &mut self,
        fleet_view: &FleetView,
        name: NodeName,
        row_id: Option<RowId>,
    ) {
        let Shared { selection, panel } = &mut self.shared;
        selection.select(name);
        panel.follow(selection);
        panel.set_cursor(row_id);
        self.open(fleet_view, View::Node);
    }

    /// Returns to the view from which this one was opened, or to the fleet. The selected job stays, whichever
    /// nodes were opened since.
    pub(crate) fn back(&mut self, fleet_view: &FleetView) {
        if self.is_at_home(fleet_view) {
            return;
        }
        let job = self.shared.selection.last_job().cloned();
        self.show_view(fleet_view, self.origin);
        self.shared.selection.set_job(job);
    }

    /// Returns true in the view that gtop opens with: that of runs, or of the only node, where the list of nodes behind
    /// it says no more.
    fn is_at_home(&self, fleet_view: &FleetView) -> bool {
        if self.view == View::Runs {
            return fleet_view.runs.is_some();
        }
        let is_single = fleet_view.fleet.nodes.len() == 1;
        is_single && (self.view, self.origin) == (View::Node, View::Fleet)
    }

    /// Returns the hint of a key in the current view, `default` as a rule; `None` if its action has no effect.
    pub(crate) fn hint<'a>(
        &self,
        fleet_view: &FleetView,
        action: &Action,
        default: &'a str,
    ) -> Option<&'a str> {
        use crate::action::{FleetAction, NodeAction};

        let shown = self.shown_node(fleet_view);
        let is_in_rows = self.view == View::Job && self.job.is_in_table();
        match (action, self.view) {
            (Action::LogIn, _) => fleet_view.nodes_to_log_in().next().map(|_asking| default),
            (Action::HostKeys, _) => {
                fleet_view.nodes_with_unknown_key().next().map(|_unknown| default)
            }
            (Action::Copy, View::Fleet | View::Node) => shown.map(|_node| default),
            (Action::Copy, View::Job) => {
                (!fleet_view.job_index().entries.is_empty()).then_some(default)
            }
            (Action::Copy, View::Processes) => self.processes.has_rows().then_some(default),
            (Action::Copy, View::Users) => {
                (!fleet_view.users().entries.is_empty()).then_some(default)
            }
            (Action::Copy, View::Problems) => {
                (!fleet_view.shown_problems().is_empty()).then_some(default)
            }
            (Action::Sort(SortAction::Menu), View::Job) => (!self.job.is_open()).then_some(default),
            (Action::Sort(SortAction::Menu), View::Node | View::Events | View::Problems)
            | (Action::Copy, _) => None,
            (Action::Sort(SortAction::Menu), View::Processes) => {
                self.processes.is_on_table().then_some(default)
            }
            (Action::Rows(RowAction::Back), View::Node) if self.is_at_home(fleet_view) => None,
            (Action::Rows(RowAction::Back), View::Runs) if self.is_at_home(fleet_view) => {
                let clears = self.runs.is_changed() || !fleet_view.filter.is_empty();
                clears.then_some(default)
            }
            // In the fleet view, Esc has only a filter to clear.
            (Action::Rows(RowAction::Back), View::Fleet) => {
                (!fleet_view.filter.is_empty()).then_some(default)
            }
            (
                Action::Job(JobAction::PreviousNode | JobAction::NextMetric) | Action::Focus,
                View::Job,
            ) if !self.job.is_open() => None,
            (Action::Rows(RowAction::Open), View::Job) if !self.job.is_open() => Some(default),
            (Action::Rows(RowAction::Open), View::Job) => {
                Some(if is_in_rows { "node" } else { "rows" })
            }
            (Action::Rows(RowAction::Open), View::Node)
            | (Action::Node(NodeAction::Processes | NodeAction::Chart), _)
                if shown.is_some_and(|node| node.devices.is_empty()) =>
            {
                None
            }
            // Signals need a process under the cursor.
            (Action::Processes(ProcessAction::Signal(_)), View::Node) => {
                let row_id = shown.and_then(|node| self.shared.panel.cursor(node));
                matches!(row_id, Some(RowId::Process { .. })).then_some(default)
            }
            (Action::Node(NodeAction::Previous), _) if fleet_view.count() < 2 => None,
            (Action::Rows(RowAction::Open), View::Processes) if self.processes.is_on_detail() => {
                Some("close")
            }
            (Action::Rows(RowAction::Open), View::Processes) => {
                self.processes.is_on_rows().then_some(default)
            }
            (Action::Job(JobAction::PreviousJob), _) if is_in_rows => Some("row"),
            (Action::Fleet(FleetAction::ToggleLayout), _) if self.fleet.is_map() => Some("list"),
            (Action::Fleet(FleetAction::NextMetric), _) => self.fleet.is_map().then_some(default),
            (Action::Processes(action), View::Processes) => self.processes.hint(*action, default),
            // Named, so that a new view is asked which of its keys have no effect.
            (
                _,
                View::Fleet
                | View::Job
                | View::Node
                | View::Processes
                | View::Users
                | View::Events
                | View::Problems
                | View::Runs,
            ) => Some(default),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{FleetAction, NodeAction};
    use crate::display_options::DisplayOptions;
    use crate::selection::JobSelection;
    use crate::widgets::list::Movement;
    use gtop_fleet::query::Filter;
    use gtop_fleet::{Fleet, Process};
    use gtop_model::{Bytes, Device, DeviceUse, Job, ProcessKey, Reading};

    fn fleet_view(names: &[&str]) -> FleetView {
        let node = |name: &&str| {
            let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
            node.devices = ["GPU-a", "GPU-b"]
                .map(|uuid| Device { uuid: uuid.into(), ..Device::default() })
                .to_vec()
                .into();
            Arc::new(node)
        };
        let nodes: Vec<_> = names.iter().map(node).collect();
        FleetView::new(Fleet::new(nodes.into()), Timestamp::default())
    }

    fn using(device: &str, pid: u32, gib: u64) -> DeviceUse {
        DeviceUse {
            device: device.into(),
            pid,
            memory: Reading::Known(Bytes(gib << 30)),
            ..DeviceUse::default()
        }
    }

    fn selected(navigation: &Navigation, fleet_view: &FleetView) -> String {
        navigation.shown_node(fleet_view).unwrap().name.to_string()
    }

    #[test]
    fn nodes_that_follow_the_first_at_once_bring_the_list_unless_the_user_has_acted() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let shown_alone = || {
            let mut navigation = Navigation::default();
            navigation.on_nodes(0, at(0));
            navigation.on_nodes(1, at(100));
            assert_eq!(navigation.view, View::Node);
            navigation
        };
        let mut followed = shown_alone();
        followed.on_nodes(3, at(110));
        assert_eq!(followed.view, View::Fleet);
        let mut late = shown_alone();
        late.on_nodes(3, at(111));
        assert_eq!(late.view, View::Node);
        let mut used = shown_alone();
        used.on_input();
        used.on_nodes(3, at(101));
        assert_eq!(used.view, View::Node);
        let mut back_to_one = shown_alone();
        back_to_one.on_nodes(1, at(105));
        back_to_one.on_nodes(2, at(106));
        back_to_one.on_nodes(1, at(107));
        assert_eq!(back_to_one.view, View::Fleet);
    }

    #[test]
    fn the_selection_follows_the_node_not_the_row() {
        let mut navigation = Navigation::default();
        let before = fleet_view(&["a", "b", "c"]);
        navigation.shared.selection.step_node(&before, Movement::End);
        navigation.shared.selection.step_node(&before, Movement::Up);
        assert_eq!(selected(&navigation, &before), "b");
        assert_eq!(selected(&navigation, &fleet_view(&["x", "y", "b"])), "b");
        assert_eq!(selected(&navigation, &fleet_view(&["x", "y"])), "x");
    }

    #[test]
    fn a_hidden_node_is_not_selected_in_the_list_but_stays_open() {
        let fleet_view = fleet_view(&["a", "b", "c"]);
        let filter = Filter::new("c").unwrap();
        let filtered = FleetView::filtered(fleet_view.fleet.clone(), fleet_view.now, filter);
        let mut navigation = Navigation::default();
        navigation.shared.selection.step_node(&fleet_view, Movement::Down);
        assert_eq!(selected(&navigation, &filtered), "c");
        assert_eq!(selected(&navigation, &fleet_view), "b");
        let mut opened = Navigation { view: View::Node, ..navigation.clone() };
        assert_eq!(selected(&opened, &filtered), "b");
        opened.back(&filtered);
        assert_eq!(selected(&opened, &filtered), "c");
        // The marked node is the one that opens.
        navigation.show_view(&filtered, View::Node);
        assert_eq!(selected(&navigation, &filtered), "c");
        assert_eq!(selected(&navigation, &fleet_view), "c");
    }

    #[test]
    fn moving_from_a_hidden_node_goes_to_a_shown_one_without_a_cursor() {
        let fleet_view = fleet_view(&["a", "b", "c1", "c2"]);
        let filter = Filter::new("c").unwrap();
        let filtered = FleetView::filtered(fleet_view.fleet.clone(), fleet_view.now, filter);
        let mut navigation = Navigation { view: View::Node, ..Navigation::default() };
        navigation.shared.selection.step_node(&fleet_view, Movement::Down);
        navigation.shared.panel.follow(&navigation.shared.selection);
        navigation.shared.panel.set_cursor(Some(RowId::Device("GPU-b".into())));
        let cursor = |name: &str| {
            navigation
                .shared
                .panel
                .cursor(fleet_view.fleet.node(&NodeName::new(name).unwrap()).unwrap())
        };
        assert_eq!(["b", "c1"].map(|name| cursor(name).is_some()), [true, false]);
        navigation.shared.selection.step_node(&filtered, Movement::Down);
        assert_eq!(selected(&navigation, &filtered), "c1");
    }

    #[test]
    fn back_returns_to_the_origin() {
        let only = fleet_view(&["a"]);
        let mut at_home = Navigation { view: View::Node, ..Navigation::default() };
        at_home.back(&only);
        assert_eq!(at_home.view, View::Node);
        let fleet_view = fleet_view(&["a", "b"]);
        at_home.back(&fleet_view);
        assert_eq!(at_home.view, View::Fleet);
        let mut navigation = Navigation { view: View::Users, ..Navigation::default() };
        navigation.open(&fleet_view, View::Node);
        navigation.back(&fleet_view);
        assert_eq!(navigation.view, View::Users);
        navigation.back(&fleet_view);
        assert_eq!(navigation.view, View::Fleet);
        navigation.open(&fleet_view, View::Job);
        navigation.show_view(&fleet_view, View::Node);
        navigation.back(&fleet_view);
        assert_eq!(navigation.view, View::Fleet);
    }

    #[test]
    fn a_removed_node_is_returned_and_a_neighbour_selected() {
        let before = fleet_view(&["a", "b", "c", "d"]);
        for (steps, after, removed, neighbour) in [
            (1, vec!["a", "c", "d"], Some("b"), "c"),
            (3, vec!["a", "b"], Some("d"), "b"),
            (1, vec!["b"], None, "b"),
            (1, vec!["x"], Some("b"), "x"),
            // The first row is marked even if no node was selected.
            (0, vec!["b"], None, "b"),
        ] {
            let mut navigation = Navigation::default();
            for _ in 0..steps {
                navigation.shared.selection.step_node(&before, Movement::Down);
            }
            let after = fleet_view(&after);
            let name = navigation.on_update(&before, &after);
            assert_eq!(name.as_ref().map(NodeName::as_str), removed, "{steps}");
            assert_eq!(selected(&navigation, &after), neighbour);
            assert_eq!(navigation.on_update(&after, &after), None);
        }
        let mut opened = Navigation { view: View::Node, ..Navigation::default() };
        let removed = opened.on_update(&before, &fleet_view(&["d"]));
        assert_eq!(removed.as_ref().map(NodeName::as_str), Some("a"));
    }

    fn with_jobs(names: &[&str], jobs: &[(&str, &[&str])]) -> FleetView {
        use gtop_model::{Allocation, DeviceAllocation, JobList};
        let allocation = |name: &&str| Allocation {
            node: NodeName::new(name).unwrap(),
            devices: DeviceAllocation::Unknown,
        };
        let job = |(id, nodes): &(&str, &[&str])| Job {
            allocations: nodes.iter().map(allocation).collect(),
            ..Job::example(id)
        };
        let list = JobList { jobs: jobs.iter().map(job).collect(), ..JobList::default() };
        let mut fleet_view = fleet_view(names);
        fleet_view.fleet.jobs = Some(Arc::new(list));
        fleet_view
    }

    /// Presses a key in an open job.
    fn step_job(navigation: &mut Navigation, fleet_view: &FleetView, action: JobAction) {
        let (options, zone) = (DisplayOptions::default(), jiff::tz::TimeZone::UTC);
        let context = RenderContext { view: fleet_view, options: &options, zone: &zone };
        navigation.job.open();
        navigation.job.update_job(context, &mut navigation.shared, action);
    }

    #[test]
    fn a_job_stays_selected_until_it_ends() {
        let shown = |navigation: &Navigation, fleet_view: &FleetView| match navigation
            .shared
            .selection
            .job(fleet_view)
        {
            Some(JobSelection::Listed(job)) => job.shown_id.to_string(),
            Some(JobSelection::Hidden(job)) => format!("{} hidden", job.shown_id),
            Some(JobSelection::Ended(job)) => format!("{} ended", job.shown_id),
            None => "none".to_owned(),
        };
        let nodes = ["a", "b", "c"];
        let three = with_jobs(&nodes, &[("1", &["a"]), ("2", &["b", "c"]), ("3", &["c"])]);
        let mut navigation = Navigation::default();
        navigation.shared.selection.refresh_job(&three);
        assert_eq!(shown(&navigation, &three), "1");
        step_job(&mut navigation, &three, JobAction::NextJob);
        assert_eq!(
            (shown(&navigation, &three), selected(&navigation, &three)),
            ("2".into(), "b".into())
        );
        navigation.shared.selection.select(NodeName::new("c").unwrap());
        assert_eq!(selected(&navigation, &three), "c");
        // The cursor does not move to another job.
        let fewer = with_jobs(&nodes, &[("2", &["b", "c"]), ("3", &["c"])]);
        navigation.shared.selection.refresh_job(&fewer);
        assert_eq!(
            (shown(&navigation, &fewer), selected(&navigation, &fewer)),
            ("2".into(), "c".into())
        );
        let gone = with_jobs(&["c"], &[("3", &["c"])]);
        navigation.shared.selection.refresh_job(&gone);
        assert_eq!(shown(&navigation, &gone), "2 ended");
        step_job(&mut navigation, &gone, JobAction::NextJob);
        assert_eq!(
            (shown(&navigation, &gone), selected(&navigation, &gone)),
            ("3".into(), "c".into())
        );
        let none = with_jobs(&[], &[]);
        assert_eq!(shown(&navigation, &none), "3 ended");
        step_job(&mut navigation, &none, JobAction::PreviousJob);
        assert_eq!(shown(&Navigation::default(), &none), "none");
    }

    #[test]
    fn the_job_view_opens_with_a_job_of_the_selected_node() {
        let nodes = ["a", "b", "c"];
        let jobs = with_jobs(&nodes, &[("1", &["a"]), ("2", &["b", "c"]), ("3", &["c"])]);
        let mut navigation = Navigation::default();
        for (node, job) in [("c", "2"), ("b", "2"), ("a", "1"), ("c", "2")] {
            navigation.show_view(&jobs, View::Fleet);
            navigation.shared.selection.select(NodeName::new(node).unwrap());
            navigation.show_view(&jobs, View::Job);
            navigation.shared.selection.refresh_job(&jobs);
            let Some(JobSelection::Listed(shown)) = navigation.shared.selection.job(&jobs) else {
                panic!()
            };
            assert_eq!((&*shown.shown_id, selected(&navigation, &jobs)), (job, node.to_owned()));
        }
        // The selected job stays if the node has several.
        step_job(&mut navigation, &jobs, JobAction::NextJob);
        navigation.show_view(&jobs, View::Node);
        navigation.show_view(&jobs, View::Job);
        let Some(JobSelection::Listed(shown)) = navigation.shared.selection.job(&jobs) else {
            panic!()
        };
        assert_eq!(&*shown.shown_id, "3");
    }

    #[test]
    fn the_cursor_moves_over_devices_then_processes_and_stays_on_its_row() {
        let mut fleet_view = fleet_view(&["a"]);
        let mut node = Node::clone(fleet_view.node_at(0).unwrap());
        node.uses = vec![using("GPU-b", 7, 1), using("GPU-a", 9, 1), using("GPU-a", 8, 2)].into();
        fleet_view.fleet = Fleet::new(vec![Arc::new(node.clone())].into());
        let mut navigation = Navigation::default();
        assert_eq!(navigation.shared.panel.cursor(&node), None);
        navigation.shared.panel.enter(&node);
        let is_first_process =
            |row: Option<RowId>| matches!(row, Some(RowId::Process { pid: 8, .. }));
        assert!(is_first_process(navigation.shared.panel.cursor(&node)));
        navigation.shared.panel.step(&node, Movement::Home);
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(match navigation.shared.panel.cursor(&node).unwrap() {
                RowId::Device(uuid) => uuid.to_string(),
                RowId::Process { pid, .. } => pid.to_string(),
            });
            navigation.shared.panel.step(&node, Movement::Down);
        }
        assert_eq!(seen, ["GPU-a", "GPU-b", "8", "9", "7"]);
        node.uses = node.uses.iter().filter(|used| used.pid != 8).cloned().collect();
        assert!(matches!(
            navigation.shared.panel.cursor(&node),
            Some(RowId::Process { pid: 7, .. })
        ));
        node.uses = Arc::default();
        assert!(matches!(navigation.shared.panel.cursor(&node), Some(RowId::Device(_))));
        assert!(navigation.shared.panel.leave());
        assert!(!navigation.shared.panel.leave());
    }

    #[test]
    fn a_new_sort_order_shows_its_first_row() {
        let fleet_view = fleet_view(&["a", "b", "c"]);
        let (options, zone) = (DisplayOptions::default(), jiff::tz::TimeZone::UTC);
        let context = RenderContext { view: &fleet_view, options: &options, zone: &zone };
        let mut navigation = Navigation::default();
        navigation.shared.selection.select(NodeName::new("a").unwrap());
        for (action, first) in [
            (SortAction::Reverse, "c"),
            (SortAction::Reverse, "a"),
            (SortAction::By("node"), "c"),
            (SortAction::By("util"), "a"),
        ] {
            navigation.update(context, &Action::Sort(action));
            assert_eq!(selected(&navigation, &fleet_view), first, "{action:?}");
        }
    }

    /// Performs an action.
    fn perform(navigation: &mut Navigation, fleet_view: &FleetView, action: &Action) -> Effect {
        let (options, zone) = (DisplayOptions::default(), jiff::tz::TimeZone::UTC);
        navigation
            .update(RenderContext { view: fleet_view, options: &options, zone: &zone }, action)
    }

    #[test]
    fn no_signal_reaches_a_process_from_the_list_of_jobs() {
        let mut fleet_view = with_jobs(&["a"], &[("1", &["a"])]);
        let mut node = Node::clone(fleet_view.node_at(0).unwrap());
        node.uses = [using("GPU-a", 7, 1)].into();
        let key = ProcessKey { pid: 7, start_ticks: 1 };
        node.processes = [Process { key, ..Process::default() }].into();
        fleet_view.fleet.nodes = [Arc::new(node.clone())].into();
        let mut navigation = Navigation { view: View::Job, ..Navigation::default() };
        navigation.shared.selection.select(node.name.clone());
        navigation.shared.panel.follow(&navigation.shared.selection);
        navigation.shared.panel.enter(&node);
        for action in [
            ProcessAction::Signals,
            ProcessAction::Signal(Signal::Kill),
            ProcessAction::InterruptSelected,
        ] {
            let action = Action::Processes(action);
            let effect = perform(&mut navigation, &fleet_view, &action);
            assert!(!matches!(effect, Effect::OpenDialog(_)), "{action:?}: {effect:?}");
        }
        // An open job shows the process under the cursor.
        navigation.job.open();
        let signals = Action::Processes(ProcessAction::Signals);
        let effect = perform(&mut navigation, &fleet_view, &signals);
        assert!(matches!(effect, Effect::OpenDialog(_)), "{effect:?}");
    }

    #[test]
    fn keys_about_a_node_tell_in_the_list_of_jobs_that_it_shows_none() {
        let fleet_view = with_jobs(&["a"], &[("1", &["a"])]);
        let mut navigation = Navigation { view: View::Job, ..Navigation::default() };
        for action in [
            JobAction::ToggleProcesses,
            JobAction::NextMetric,
            JobAction::PreviousNode,
            JobAction::NextNode,
        ] {
            let effect = perform(&mut navigation, &fleet_view, &Action::Job(action));
            assert_eq!(effect, Effect::Message(job::NOT_OPEN.to_owned()), "{action:?}");
        }
        assert!(!navigation.shared.panel.hides_processes);
    }

    #[test]
    fn the_key_for_the_job_of_a_node_opens_no_other_job() {
        let fleet_view = with_jobs(&["a", "b"], &[("1", &["a"])]);
        let mut navigation = Navigation::default();
        navigation.shared.selection.select(NodeName::new("b").unwrap());
        let effect = perform(&mut navigation, &fleet_view, &Action::OpenJob);
        assert_eq!(effect, Effect::Message("no job runs on b".to_owned()));
        assert_eq!(navigation.view, View::Fleet);
        // The first row, on which the cursor is if no node was selected.
        let jobs = with_jobs(&["a", "b"], &[("1", &["b"]), ("2", &["a"])]);
        let mut navigation = Navigation::default();
        assert_eq!(perform(&mut navigation, &jobs, &Action::OpenJob), Effect::Handled);
        let Some(JobSelection::Listed(job)) = navigation.shared.selection.job(&jobs) else {
            panic!()
        };
        assert_eq!((&*job.shown_id, navigation.view), ("2", View::Job));
    }

    fn with_filter(filter: &str) -> FleetView {
        let fleet = fleet_view(&["gpu01"]).fleet;
        FleetView::filtered(fleet, Timestamp::default(), Filter::new(filter).unwrap())
    }

    #[test]
    fn actions_without_effect_have_no_hint() {
        let hint_for = |view, filter: &str, action: Action| {
            let mut navigation = Navigation::default();
            navigation.view.clone_from(&view);
            navigation.hint(&with_filter(filter), &action, "usual")
        };
        for (view, filter, action, expected) in [
            (View::Fleet, "", Action::Rows(RowAction::Back), None),
            (View::Fleet, "gpu", Action::Rows(RowAction::Back), Some("usual")),
            // The only node is where gtop starts.
            (View::Node, "", Action::Rows(RowAction::Back), None),
            (View::Processes, "", Action::Rows(RowAction::Back), Some("usual")),
            (View::Fleet, "", Action::Sort(SortAction::Menu), Some("usual")),
            (View::Job, "", Action::Sort(SortAction::Menu), Some("usual")),
            (View::Node, "", Action::Sort(SortAction::Menu), None),
            (View::Events, "", Action::Sort(SortAction::Menu), None),
            (View::Problems, "", Action::Sort(SortAction::Menu), None),
            (View::Job, "", Action::Rows(RowAction::Open), Some("usual")),
            (View::Job, "", Action::Job(JobAction::PreviousNode), None),
            (View::Job, "", Action::Focus, None),
            (View::Node, "", Action::Rows(RowAction::Open), Some("usual")),
            (View::Node, "", Action::Node(NodeAction::Previous), None),
            (View::Users, "", Action::Rows(RowAction::Open), Some("usual")),
            (View::Fleet, "", Action::Fleet(FleetAction::ToggleLayout), Some("usual")),
            (View::Fleet, "", Action::Fleet(FleetAction::NextMetric), None),
        ] {
            assert_eq!(hint_for(view, filter, action.clone()), expected, "{view:?} {action:?}");
        }
    }
}
