//! Visits: the process view, opened by another view for the processes of one node and left again to it.

use crate::process_row::RowKey;
use crate::render_context::RenderContext;
use crate::selection::SharedSelection;
use crate::views::processes::{Scope, State};
use gtop_fleet::insight::RowId;

/// A visit that has not ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    /// The scope to return to.
    scope: Scope,
    /// The visit was for one page, so closing the page ends it.
    pub(super) is_for_page: bool,
}

impl State {
    /// Shows the processes of the selected node, the cursor on this row.
    pub(crate) fn start_visit(
        &mut self,
        context: RenderContext<'_>,
        selection: &mut SharedSelection,
        row_id: Option<&RowId>,
    ) {
        self.end_visit();
        self.visit = Some(Visit { scope: self.scope, is_for_page: false });
        self.scope = Scope::Node;
        self.pages.clear();
        self.refresh(context, selection);
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
