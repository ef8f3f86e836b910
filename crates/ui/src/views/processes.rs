//! The process view: processes on devices, their trees, environments, graphs and signals.

use crate::action::{ProcessAction, RowAction};
use crate::clipboard::{self, Clip};
use crate::display_options::Density;
use crate::drawn_view::DrawnView;
use crate::effect::Effect;
use crate::input::Click;
use crate::node_panel::{self, explain};
pub use crate::process_order::sort_columns;
use crate::process_row::{ProcessEntry, ProcessRow};
use crate::process_target::{ProcessTarget, SignalTargets, refusal};
use crate::render_context::{RenderContext, Size};
use crate::request::{NodeReply, NodeRequest};
use crate::selection::SharedSelection;
use crate::view_state::{Explained, Shared, ViewState};
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::list::{Movement, Viewport};
pub use columns::column_specs;
use detail::DetailPage;
use environ::EnvironPage;
use gtop_fleet::insight::FleetView;
use gtop_fleet::query::{SortColumn, SortOrder};
use gtop_model::{NodeName, ProcessKey, ProcessRequest, ProcessResponse, Signal, UnseenReason};
pub use state::State;
use state::{Page, Scope};
use tree::Tree;

mod columns;
mod detail;
mod environ;
mod rows;
mod series;
mod state;
mod table;
mod tree;

impl ViewState for State {
    fn refresh(&mut self, context: RenderContext<'_>, shared: &mut Shared) {
        self.refresh_rows(context, &shared.selection);
        let is_selecting = context.options.key_scheme.always_selects();
        if is_selecting && self.find_cursor().is_none() && !self.rows.list.is_empty() {
            self.select(0);
        }
    }

    fn update(&mut self, context: RenderContext<'_>, _: &mut Shared, action: &RowAction) -> Effect {
        match action {
            RowAction::Move(step) => match self.pages.last_mut() {
                Some(Page::Tree(tree)) => tree.step(*step),
                Some(Page::Environ(page)) => page.step(*step),
                Some(Page::Detail(page)) => page.step(*step),
                None => self.step(*step),
            },
            RowAction::Open => return self.open(context),
            RowAction::Back => return self.go_back(context),
            RowAction::Click(Click::Row(at)) => match self.pages.last_mut() {
                Some(Page::Tree(tree)) => tree.select(*at),
                Some(Page::Environ(_) | Page::Detail(_)) => return Effect::Ignored,
                None => {
                    if self.find_cursor() == Some(*at) {
                        return self.open(context);
                    }
                    self.select(*at);
                }
            },
            RowAction::Click(_) => return Effect::Ignored,
        }
        Effect::Handled
    }

    /// Shows the first row, without a cursor if there was none: what is under it is what signals are sent to.
    fn show_top(&mut self, _: RenderContext<'_>, _: &mut Shared) {
        if self.find_cursor().is_some() {
            self.step(Movement::Home);
        }
        self.cursor.viewport.top = 0;
    }

    fn prepare(&mut self, context: RenderContext<'_>, _: &mut Shared, (width, _): Size) {
        self.width = width;
        if let Some(Page::Detail(page)) = self.pages.last_mut() {
            page.refresh(context);
        }
    }

    fn lines(&self, context: RenderContext<'_>, _: &Shared, size: Size) -> DrawnView {
        match self.pages.last() {
            Some(Page::Tree(tree)) => tree.lines(context, |tag| self.tags.contains_key(tag), size),
            Some(Page::Environ(page)) => page.lines(size),
            Some(Page::Detail(page)) => {
                let key = page.row.as_ref();
                let row = key.and_then(|key| self.rows.list.iter().find(|row| row.has_key(key)));
                page.lines(context, row, &self.series, size)
            }
            None => table::lines(context, self, size),
        }
    }

    fn viewport(&mut self) -> Option<&mut Viewport> {
        Some(match self.pages.last_mut() {
            Some(Page::Tree(tree)) => &mut tree.cursor.viewport,
            Some(Page::Environ(page)) => &mut page.viewport,
            Some(Page::Detail(page)) => &mut page.viewport,
            None => &mut self.cursor.viewport,
        })
    }

    fn columns(&self) -> Vec<ColumnGroup> {
        vec![
            ("Columns of processes", column_specs()),
            ("Columns of the tree", tree::column_specs()),
        ]
    }

    /// Explains the process of the page, or the one under the cursor.
    fn explain(&mut self, context: RenderContext<'_>, _: &Shared) -> Explained {
        let at = if self.is_on_table() {
            self.find_cursor().unwrap_or(0)
        } else {
            let target = self.selected(context)?;
            let mut rows = self.rows.list.iter();
            let found = rows.position(|row| row.is_of(&target.node, target.key));
            found.ok_or("this process uses no device, so it has no row to explain")?
        };
        let density = self.density(context);
        let row = self.rows.list.get(at).and_then(ProcessRow::entry);
        let entry = row.ok_or("no process uses a device")?;
        let table = columns::ProcessTable::laid_out(context, &self.rows, density, u16::MAX);
        let facts = table.facts(&entry);
        let key = (&*entry.used.device, entry.used.pid);
        explain::process(context, entry.node, key, facts)
            .ok_or_else(|| "the process has ended".to_owned())
    }

    /// Returns what can be copied of the process of the page, or of the one under the cursor.
    fn clips(&self, context: RenderContext<'_>, _: &Shared) -> Vec<Clip> {
        let target = if self.is_on_table() {
            let row = self.rows.list.get(self.find_cursor().unwrap_or(0));
            row.and_then(ProcessRow::entry).and_then(ProcessEntry::target)
        } else {
            self.selected(context).ok()
        };
        target.map_or_else(Vec::new, |target| clipboard::of_process(&target))
    }

    fn sorting(&mut self) -> Option<(&mut SortOrder, Vec<SortColumn>)> {
        Some((&mut self.order, sort_columns()))
    }
}

impl State {
    /// Opens the selected process; on the table without a cursor, the first visible one.
    fn open(&mut self, context: RenderContext<'_>) -> Effect {
        let is_on_table = self.pages.is_empty();
        if is_on_table && self.find_cursor().is_none() {
            self.step(Movement::Down);
        }
        if !self.is_on_rows() {
            return Effect::Handled;
        }
        let target = match self.selected(context) {
            Ok(target) => target,
            Err(reason) => return Effect::Message(reason),
        };
        let row = if is_on_table {
            self.row()
        } else {
            self.rows.list.iter().find(|row| row.is_of(&target.node, target.key))
        };
        let row = row.and_then(ProcessRow::key);
        let page = DetailPage::new(target, row, context.view.now);
        let request = page.request();
        self.pages.push(Page::Detail(Box::new(page)));
        self.record_series(context);
        Effect::query(request)
    }

    fn go_back(&mut self, context: RenderContext<'_>) -> Effect {
        if self.is_on_rows() && !self.tags.is_empty() {
            self.tags.clear();
        } else if self.ends_with_page()
            || (self.pages.pop().is_none()
                && (context.options.key_scheme.always_selects() || !self.cursor.clear()))
        {
            return Effect::Ignored;
        }
        Effect::Handled
    }

    /// Returns the selected process, or why it cannot be queried.
    fn selected(&self, context: RenderContext<'_>) -> Result<ProcessTarget, String> {
        const NONE: &str = "no process is selected; ↑ and ↓ select one";
        match self.pages.last() {
            Some(Page::Tree(tree)) => return tree.selected(context).ok_or_else(|| NONE.to_owned()),
            Some(page) => return page.target().cloned().ok_or_else(|| NONE.to_owned()),
            None => {}
        }
        let entry = self.row().and_then(ProcessRow::entry).ok_or_else(|| NONE.to_owned())?;
        if entry.has_ended {
            return Err("the process has ended".to_owned());
        }
        let why = entry.unseen.map_or(UnseenReason::Hidden, |unseen| unseen.why);
        entry.target().ok_or_else(|| refusal(why).to_owned())
    }

    /// Performs an action that only the process view has.
    pub(crate) fn update_processes(
        &mut self,
        context: RenderContext<'_>,
        selection: &mut SharedSelection,
        action: ProcessAction,
    ) -> Effect {
        let now = context.view.now;
        match action {
            ProcessAction::Scope => return self.cycle_scope(context, selection),
            ProcessAction::Density(density) => {
                if let Some(Page::Tree(tree)) = self.pages.last_mut() {
                    tree.show_full(density == Density::Full);
                }
                self.density = Some(density);
            }
            ProcessAction::Scroll { is_forward } => {
                self.scroll(|shift| node_panel::scrolled(shift, is_forward));
            }
            ProcessAction::ScrollHome => self.scroll(|_| 0),
            ProcessAction::ScrollEnd => self.scroll_to_end(context),
            ProcessAction::Tag => {
                if !self.is_on_rows() {
                    return Effect::Ignored;
                }
                let target = match self.selected(context) {
                    Ok(target) => target,
                    Err(reason) => return Effect::Message(reason),
                };
                let tag = target.tag();
                let effect = self.tag(target);
                self.step_past(&tag);
                return effect;
            }
            ProcessAction::Tree => return self.toggle_tree(context, selection),
            ProcessAction::Environment => {
                if self.is_left_by(action) {
                    return self.update_processes(context, selection, ProcessAction::ClosePage);
                }
                let page = match self.selected(context) {
                    Ok(target) => EnvironPage::new(target),
                    Err(reason) => return Effect::Message(reason),
                };
                let request = page.request();
                self.pages.push(Page::Environ(page));
                return Effect::query(request);
            }
            ProcessAction::UntagAll => self.tags.clear(),
            ProcessAction::TogglePaths => {
                let is_full = self.density(context) == Density::Full;
                let density = if is_full { Density::Auto } else { Density::Full };
                let action = ProcessAction::Density(density);
                return self.update_processes(context, selection, action);
            }
            ProcessAction::ClosePage => {
                if self.pages.pop().is_none() {
                    return Effect::Ignored;
                }
            }
            ProcessAction::Refresh => {
                let request = match self.pages.last_mut() {
                    Some(Page::Tree(tree)) => tree.request_now(now),
                    Some(Page::Environ(page)) => page.request(),
                    Some(Page::Detail(page)) => page.request_now(now),
                    None => return Effect::Ignored,
                };
                return Effect::query(request);
            }
            ProcessAction::Signals => {
                return Effect::signal(context, None, self.signal_targets(context));
            }
            ProcessAction::Signal(signal) => {
                return Effect::signal(context, Some(signal), self.signal_targets(context));
            }
            ProcessAction::InterruptSelected => {
                let targets = self.signal_targets(context);
                // With tags, the key is about them, and does not quit.
                if context.options.is_readonly || (targets.is_err() && self.tags.is_empty()) {
                    return Effect::Ignored;
                }
                return Effect::signal(context, Some(Signal::Interrupt), targets);
            }
        }
        Effect::Handled
    }

    /// Cycles the scope: fleet, the node of the selected process, its job, fleet.
    fn cycle_scope(
        &mut self,
        context: RenderContext<'_>,
        selection: &mut SharedSelection,
    ) -> Effect {
        let fleet_view = context.view;
        let node = self.row().and_then(ProcessRow::key).map(|key| key.node);
        let scope = match self.scope {
            Scope::Fleet => {
                if let Some(name) = node {
                    selection.select(name);
                }
                if selection.node(fleet_view).is_some() { Scope::Node } else { Scope::Fleet }
            }
            Scope::Node if selection.job(fleet_view).is_some() => Scope::Job,
            Scope::Node | Scope::Job => Scope::Fleet,
        };
        self.scope = scope;
        self.pages.clear();
        Effect::Handled
    }

    /// Returns the node whose tree to show and the process to select in it, from the page in front or from the
    /// table. Without a selected process, uses the selected node, or the first if the filter hides it.
    fn tree_root(
        &self,
        fleet_view: &FleetView,
        selection: &SharedSelection,
    ) -> Option<(NodeName, Option<ProcessKey>)> {
        if let Some(target) = self.pages.last().and_then(Page::target) {
            return Some((target.node.clone(), Some(target.key)));
        }
        if let Some(entry) = self.row().and_then(ProcessRow::entry) {
            return Some((entry.node.name.clone(), entry.process.map(|one| one.key)));
        }
        Some((selection.shown_node(fleet_view)?.name.clone(), None))
    }

    fn toggle_tree(
        &mut self,
        context: RenderContext<'_>,
        selection: &mut SharedSelection,
    ) -> Effect {
        let now = context.view.now;
        if matches!(self.pages.last(), Some(Page::Tree(_))) {
            self.pages.pop();
            return Effect::Handled;
        }
        let Some((node, cursor)) = self.tree_root(context.view, selection) else {
            return Effect::Message("no node selected for a process tree".to_owned());
        };
        let tree = Tree::new(node, cursor, now);
        let request = tree.request();
        self.pages.clear();
        self.pages.push(Page::Tree(tree));
        Effect::query(request)
    }

    fn scroll(&mut self, shift: impl Fn(usize) -> usize) {
        match self.pages.last_mut() {
            Some(Page::Tree(tree)) => tree.scroll(shift),
            Some(Page::Environ(page)) => page.scroll(shift),
            Some(Page::Detail(_)) => {}
            None => self.shift = shift(self.shift).min(4_096),
        }
    }

    fn scroll_to_end(&mut self, context: RenderContext<'_>) {
        let max_shift = table::max_shift_in_view(context, self);
        match self.pages.last_mut() {
            Some(Page::Environ(page)) => page.scroll_to_end(self.width),
            Some(Page::Tree(_) | Page::Detail(_)) => {}
            None => self.shift = max_shift,
        }
    }

    /// Records the processes on the screen, the selected one, and those recorded before.
    fn record_series(&mut self, context: RenderContext<'_>) {
        let selected = self.find_cursor();
        let (rows, now) = (&self.rows.list, context.view.now);
        self.series.remove_stale(now);
        let range = self.cursor.viewport.range(rows.len());
        let on_screen = rows.get(range).unwrap_or_default();
        self.series.extend_known(rows, now);
        let selected = selected.and_then(|at| rows.get(at));
        self.series.record(on_screen.iter().chain(selected), now);
    }

    /// Updates the view to a new fleet view, records series, and returns the requests now due.
    pub(crate) fn on_tick(
        &mut self,
        context: RenderContext<'_>,
        selection: &mut SharedSelection,
    ) -> Vec<NodeRequest> {
        self.refresh_rows(context, selection);
        self.record_series(context);
        let now = context.view.now;
        let due = match self.pages.last_mut() {
            Some(Page::Tree(tree)) => tree.due_request(now),
            Some(Page::Detail(page)) => page.due_request(now),
            Some(Page::Environ(_)) | None => None,
        };
        due.into_iter().collect()
    }

    /// Handles the reply of a node to a request of this view.
    pub(crate) fn on_reply(&mut self, context: RenderContext<'_>, reply: &NodeReply) -> Effect {
        let NodeRequest { node, process_request } = &reply.request;
        if let ProcessRequest::Signal(_, signal) = process_request {
            return Effect::Message(self.late_replies.on_reply(reply, *signal));
        }
        let hello = context.view.fleet.node(node).and_then(|node| node.hello.as_ref());
        let ticks = hello.map_or(100, |hello| hello.host.ticks_per_second);
        let result = reply.result.as_ref();
        for page in self.pages.iter_mut().filter(|page| page.asks(node, process_request)) {
            match (page, result) {
                (Page::Tree(tree), Ok(ProcessResponse::Tree(processes))) => {
                    tree.on_reply(Ok(processes), reply.at, ticks);
                }
                (Page::Tree(tree), Err(error)) => tree.on_reply(Err(error), reply.at, ticks),
                (Page::Environ(page), Ok(ProcessResponse::Environment(environment))) => {
                    page.on_reply(Ok(environment));
                }
                (Page::Environ(page), Err(error)) => page.on_reply(Err(error)),
                (Page::Detail(page), Ok(ProcessResponse::Detail(detail))) => {
                    page.on_reply(Ok(detail));
                }
                (Page::Detail(page), Err(error)) => page.on_reply(Err(error)),
                (Page::Tree(_) | Page::Environ(_) | Page::Detail(_), Ok(_)) => {}
            }
        }
        Effect::Handled
    }

    pub(crate) fn has_tags(&self) -> bool {
        !self.tags.is_empty()
    }

    /// Returns the processes that a signal would be sent to: the tagged ones or, without tags, the selected one.
    fn signal_targets(&self, context: RenderContext<'_>) -> Result<SignalTargets, String> {
        if !self.is_on_rows() || self.tags.is_empty() {
            return self.selected(context).map(|target| vec![target].into());
        }
        self.tagged_targets(context)
    }

    /// Returns the tagged processes. Those that the filter hides get no signal, because users forget what they do not
    /// see.
    pub(crate) fn tagged_targets(
        &self,
        context: RenderContext<'_>,
    ) -> Result<SignalTargets, String> {
        let mut listed: Vec<ProcessTarget> = self.tags.values().cloned().collect();
        listed.retain(|target| !self.is_hidden(target, context.view));
        if listed.is_empty() {
            return Err("the filter hides all tagged processes; change the filter, or untag them"
                .to_owned());
        }
        let hidden = self.tags.len() - listed.len();
        Ok(SignalTargets { listed, hidden })
    }

    /// Returns true if the filter hides a tagged process. Trees are not filtered.
    fn is_hidden(&self, target: &ProcessTarget, fleet_view: &FleetView) -> bool {
        let is_in_tree =
            matches!(self.pages.last(), Some(Page::Tree(tree)) if tree.shows_node(&target.node));
        !is_in_tree && rows::is_hidden(target, fleet_view)
    }
}
