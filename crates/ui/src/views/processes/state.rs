//! The state of the process view: its scope, its cursor, the tagged processes, and the pages in front of the table.
//!
//! Another view visits it for the processes of one node, and is returned to.

use std::collections::BTreeMap;

use crate::action::ProcessAction;
use crate::dialog::signal::LateReplies;
use crate::display_options::Density;
use crate::effect::Effect;
use crate::process_row::{ProcessRow, RowKey};
use crate::process_target::ProcessTarget;
use crate::render_context::RenderContext;
use crate::selection::{JobSelection, SharedSelection};
use crate::views::processes::detail::DetailPage;
use crate::views::processes::environ::EnvironPage;
use crate::views::processes::rows::{ProcessRows, ResolvedScope};
use crate::views::processes::series::ProcessSeries;
use crate::views::processes::tree::Tree;
use crate::widgets::list::{ListCursor, Movement};
use gtop_fleet::insight::RowId;
use gtop_fleet::query::SortOrder;
use gtop_model::{NodeName, ProcessKey, ProcessRequest};

/// Limit of processes tagged at the same time.
const MAX_TAGS: usize = 1_000;

/// Where the listed processes run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Scope {
    #[default]
    Fleet,
    Node,
    Job,
}

/// State of the process view that lasts between frames.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(super) scope: Scope,
    /// Another view has opened this one for the processes of a node; `None` otherwise.
    visit: Option<Visit>,
    pub(crate) order: SortOrder,
    /// Density chosen with a key, `None` for that of the settings.
    pub(crate) density: Option<Density>,
    /// Columns by which commands are scrolled to the right.
    pub(super) shift: usize,
    pub(super) cursor: ListCursor<RowKey>,
    pub(super) width: u16,
    pub(crate) tags: BTreeMap<(NodeName, ProcessKey), ProcessTarget>,
    /// Pages in front of the table, the topmost last.
    pub(super) pages: Vec<Page>,
    pub(super) rows: ProcessRows,
    pub(super) series: ProcessSeries,
    pub(super) late_replies: LateReplies,
}

/// A visit that has not ended.
#[derive(Clone, Copy, Debug)]
struct Visit {
    /// The scope to return to.
    scope: Scope,
    /// The visit was for one page, so closing the page ends it.
    is_for_page: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Page {
    Tree(Tree),
    Environ(EnvironPage),
    Detail(Box<DetailPage>),
}

impl Page {
    /// Returns the process that the page is about, `None` for a tree.
    pub(super) const fn target(&self) -> Option<&ProcessTarget> {
        match self {
            Self::Tree(_) => None,
            Self::Environ(page) => Some(&page.target),
            Self::Detail(page) => Some(&page.target),
        }
    }

    /// Returns true if the page shows the reply to a request.
    pub(super) fn asks(&self, node: &NodeName, process_request: &ProcessRequest) -> bool {
        match (self, process_request) {
            (Self::Tree(tree), ProcessRequest::Tree(_)) => tree.shows_node(node),
            (Self::Environ(page), ProcessRequest::Environment(key)) => {
                page.target.matches(node, *key)
            }
            (Self::Detail(page), ProcessRequest::Detail(key)) => page.target.matches(node, *key),
            _ => false,
        }
    }
}

impl State {
    pub(super) fn density(&self, context: RenderContext<'_>) -> Density {
        self.density.unwrap_or(context.options.density)
    }

    pub(super) fn find_cursor(&self) -> Option<usize> {
        self.cursor.find(&self.rows.list, ProcessRow::has_key)
    }

    pub(super) fn row(&self) -> Option<&ProcessRow> {
        let at = self.find_cursor()?;
        self.rows.list.get(at)
    }

    /// Returns true if the table is in front of all pages.
    pub(crate) const fn is_on_table(&self) -> bool {
        self.pages.is_empty()
    }

    /// Forgets the series of earlier snapshots, and the tagged processes.
    pub(crate) fn forget_series(&mut self) {
        self.series = ProcessSeries::default();
        self.tags.clear();
    }

    pub(crate) fn close_pages(&mut self) {
        self.pages.clear();
    }

    /// Returns true if the table or a tree is in front, both of which have selectable rows.
    pub(crate) fn is_on_rows(&self) -> bool {
        matches!(self.pages.last(), None | Some(Page::Tree(_)))
    }

    /// Returns true if the details of a process are in front.
    pub(crate) fn is_on_detail(&self) -> bool {
        matches!(self.pages.last(), Some(Page::Detail(_)))
    }

    /// Returns true if the action closes the current page: that which opens it too.
    pub(crate) fn is_left_by(&self, action: ProcessAction) -> bool {
        match self.pages.last() {
            Some(Page::Tree(_)) if action == ProcessAction::Tree => true,
            Some(Page::Environ(_)) if action == ProcessAction::Environment => true,
            Some(_) | None => action == ProcessAction::ClosePage,
        }
    }

    /// Returns true if there is a process, on the table or on the page.
    pub(crate) fn has_rows(&self) -> bool {
        !self.pages.is_empty() || !self.rows.list.is_empty()
    }

    /// Returns the hint of a key on the current page, `None` if the action does nothing there.
    pub(crate) fn hint<'a>(&self, action: ProcessAction, text: &'a str) -> Option<&'a str> {
        let is_idle = (matches!(action, ProcessAction::Scope | ProcessAction::Tag)
            && !self.is_on_rows())
            || (action == ProcessAction::Refresh && self.is_on_table());
        let is_leaving = action != ProcessAction::ClosePage && self.is_left_by(action);
        let word = if is_leaving { "table" } else { text };
        (!is_idle).then_some(word)
    }

    pub(super) fn select(&mut self, index: usize) {
        self.cursor.select(index, self.rows.list.get(index).and_then(ProcessRow::key));
    }

    pub(super) fn step(&mut self, step: Movement) {
        let selected = self.find_cursor();
        self.select(self.cursor.moved(step, self.rows.list.len(), selected));
    }

    /// Moves the cursor down to the next process; one on several devices has several rows.
    pub(super) fn step_past(&mut self, tag: &(NodeName, ProcessKey)) {
        if let Some(Page::Tree(tree)) = self.pages.last_mut() {
            tree.step(Movement::Down);
            return;
        }
        let Some(at) = self.find_cursor() else { return };
        let mut rows = self.rows.list.iter().enumerate().skip(at + 1);
        let next = rows.find(|(_, row)| !row.is_of(&tag.0, tag.1));
        self.select(next.map_or(at, |(index, _)| index));
    }

    pub(crate) fn tag(&mut self, target: ProcessTarget) -> Effect {
        let tag = target.tag();
        if self.tags.remove(&tag).is_some() {
            return Effect::Handled;
        }
        if self.tags.len() >= MAX_TAGS {
            return Effect::Message(format!("no more than {MAX_TAGS} processes can be tagged"));
        }
        self.tags.insert(tag, target);
        Effect::Handled
    }

    /// Updates rows and tags to the current fleet view.
    pub(super) fn refresh_rows(&mut self, context: RenderContext<'_>, selection: &SharedSelection) {
        let fleet_view = context.view;
        let scope = match self.scope {
            Scope::Fleet => ResolvedScope::Fleet,
            Scope::Node => selection
                .node(fleet_view)
                .map_or(ResolvedScope::Fleet, |node| ResolvedScope::Node(node.name.clone())),
            Scope::Job => match selection.job(fleet_view) {
                Some(
                    JobSelection::Listed(job)
                    | JobSelection::Ended(job)
                    | JobSelection::Hidden(job),
                ) => ResolvedScope::Job(job.id.clone(), job.alias.clone()),
                None => ResolvedScope::Fleet,
            },
        };
        self.rows.refresh(fleet_view, scope, self.order);
        self.cursor.follow(&self.rows.list, ProcessRow::has_key);
        // A tag is removed when its process has ended, and stays while the node cannot be reached.
        self.tags.retain(|(name, key), target| {
            let node = fleet_view.fleet.node(name).filter(|_| target.is_on_device);
            node.is_none_or(|node| {
                node.link != gtop_model::Link::Up
                    || node.process(key.pid).is_some_and(|process| process.key == *key)
            })
        });
    }

    /// Shows the processes of the selected node, the cursor on this row.
    pub(crate) fn start_visit(
        &mut self,
        context: RenderContext<'_>,
        selection: &SharedSelection,
        row_id: Option<&RowId>,
    ) {
        self.end_visit();
        self.visit = Some(Visit { scope: self.scope, is_for_page: false });
        self.scope = Scope::Node;
        self.pages.clear();
        self.refresh_rows(context, selection);
        let node = selection.node(context.view).map(|node| node.name.clone());
        let Some((node, RowId::Process { device, pid, start_ticks })) = node.zip(row_id.cloned())
        else {
            self.cursor.clear();
            return;
        };
        let key = RowKey { node, device, pid, start_ticks };
        let index = self.rows.list.iter().position(|row| row.has_key(&key));
        self.cursor.select(index.unwrap_or(0), Some(key));
    }

    /// Ends the visit with the page that it has opened, if any.
    pub(crate) fn settle_visit(&mut self) {
        let is_for_page = !self.is_on_table();
        if let Some(visit) = &mut self.visit {
            visit.is_for_page = is_for_page;
        }
    }

    /// Returns to the scope before the visit, if there is one.
    pub(crate) fn end_visit(&mut self) {
        if let Some(visit) = self.visit.take() {
            self.scope = visit.scope;
            self.pages.clear();
        }
    }

    /// Returns true if closing the page in front leads back to the view that opened it.
    pub(crate) fn ends_with_page(&self) -> bool {
        self.pages.len() == 1 && self.visit.is_some_and(|visit| visit.is_for_page)
    }
}
