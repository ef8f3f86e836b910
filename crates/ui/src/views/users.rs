//! The users view: one row per user with its devices, memory, power and jobs; a row unfolds into nodes.

use std::sync::Arc;

use crate::action::RowAction;
use crate::clipboard::{self, Clip};
use crate::drawn_view::DrawnView;
use crate::effect::Effect;
use crate::input::Click;
use crate::node_panel::explain;
use crate::process_target::ProcessTarget;
use crate::render_context::{RenderContext, Size};
use crate::view_state::{Explained, Shared, UnfoldingList, ViewState};
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::explanation::Explanation;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::{ListCursor, Movement, Viewport};
use gtop_fleet::query::{SortColumn, SortOrder};

mod rows;
mod table;

use gtop_fleet::User;
use gtop_fleet::insight::users::Users;
use rows::{UserRowIdentity, UserRowKind, UserRows};
use table::UserTable;
pub use table::{COLUMN_SPECS, sort_columns};

/// Wide enough for all columns.
const EXPLAINED_WIDTH: u16 = 400;

/// The view's sort order, cursor and scroll position.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) order: SortOrder,
    /// The user whose nodes and processes are unfolded.
    unfolded: Option<User>,
    cursor: ListCursor<UserRowIdentity>,
    rows: Arc<UserRows>,
    rows_key: Option<UserRowKey>,
}

/// What the rows were made from: users, sort order, unfolded user.
type UserRowKey = (Arc<Users>, SortOrder, Option<User>);

impl Default for State {
    fn default() -> Self {
        let (unfolded, cursor, rows, rows_key) = Default::default();
        Self { order: SortOrder::by("devices"), unfolded, cursor, rows, rows_key }
    }
}

impl ViewState for State {
    /// Updates the rows, cached until the data, the sort order or the unfolded user changes.
    fn refresh(&mut self, context: RenderContext<'_>, _: &mut Shared) {
        let usage = context.view.users();
        let is_same = self.rows_key.as_ref().is_some_and(|(known, order, unfolded)| {
            Arc::ptr_eq(known, usage) && (*order, unfolded) == (self.order, &self.unfolded)
        });
        if !is_same {
            let unfolded = self.unfolded.clone();
            let rows = UserRows::of(context.view, usage, self.order, unfolded.as_ref());
            self.rows = Arc::new(rows);
            self.rows_key = Some((Arc::clone(usage), self.order, unfolded));
        }
        self.cursor.follow(&self.rows.list, |row, key| row.identity(context) == *key);
    }

    fn update(&mut self, context: RenderContext<'_>, _: &mut Shared, action: &RowAction) -> Effect {
        self.update_rows(context, action)
    }

    fn columns(&self) -> Vec<ColumnGroup> {
        vec![("Columns of users", COLUMN_SPECS.to_vec())]
    }

    /// Explains the user, the node or the process of the row.
    fn explain(&mut self, context: RenderContext<'_>, _: &Shared) -> Explained {
        let rows = &self.rows;
        let row = rows.list.get(self.position(context)).ok_or("nobody uses a device")?;
        if row.kind == UserRowKind::User {
            let table = UserTable::laid_out(context, rows, None, EXPLAINED_WIDTH);
            let facts = table::facts(&table, &row.user);
            let title = format!("user {}", row.user.text());
            let source = "sums over the fresh nodes, from the scheduler and the processes";
            let now = Some(context.view.now);
            return Ok(Explanation::new(title).with_numbers(source, now, facts));
        }
        let node = row.node(context).ok_or("the node is no longer monitored")?;
        Ok(match &row.row_id {
            Some(row_id) => explain::row(context, node, row_id),
            None => explain::node_alone(context, node),
        })
    }

    /// Returns what can be copied of the user, the process or the node of the row.
    fn clips(&self, context: RenderContext<'_>, _: &Shared) -> Vec<Clip> {
        let Some(row) = self.rows.list.get(self.position(context)) else { return Vec::new() };
        let Some(node) = row.node(context) else {
            let mut users = context.view.users().entries.iter();
            let usage = users.find(|(user, _)| *user == row.user);
            return usage.map_or_else(Vec::new, |(user, usage)| {
                clipboard::of_user(context.view, user, usage)
            });
        };
        let process = match row.kind {
            UserRowKind::Process(at) => node.uses.get(at),
            UserRowKind::User | UserRowKind::Idle(_) | UserRowKind::Node(_) => None,
        };
        let target = process.and_then(|used| ProcessTarget::find(node, used.pid, None));
        target.map_or_else(
            || clipboard::of_node(context.view, node),
            |target| clipboard::of_process(&target),
        )
    }

    fn sorting(&mut self) -> Option<(&mut SortOrder, Vec<SortColumn>)> {
        Some((&mut self.order, sort_columns()))
    }

    /// Returns the lines of the view: the summary, then one row per user.
    fn lines(&self, context: RenderContext<'_>, _: &Shared, size: Size) -> DrawnView {
        let (width, height) = size;
        let rows = &self.rows;
        let usage = context.view.users();
        if usage.nodes.1 == 0 {
            let text = if context.view.fleet.nodes.is_empty() {
                "no nodes to watch"
            } else {
                "no node matches the filter"
            };
            return vec![Line::styled(text, Tone::Faint).truncated(width)].into();
        }
        let mut lines = Vec::with_capacity(height);
        if height >= 6 {
            lines.extend(table::summary(context, usage, size));
            lines.push(Line::new());
        }
        if rows.list.is_empty() {
            let text = if usage.nodes.0 == 0 {
                "no node is fresh, and none has reported a process"
            } else {
                "nobody uses a device"
            };
            lines.push(Line::styled(text, Tone::Faint).truncated(width));
            lines.truncate(height);
            return lines.into();
        }
        let cursor = self.position(context);
        let table = UserTable::laid_out(context, rows, self.unfolded.as_ref(), width);
        let room = height.saturating_sub(lines.len());
        let list = self.cursor.viewport.draw_below(
            &mut lines,
            (height > 1).then(|| table::titles(&table, self.order)),
            (rows.list.len(), Some(cursor)),
            (width, room),
            |at| Some(table::row(&table, rows.list.get(at)?)?.clickable_line(Click::Row(at))),
        );
        DrawnView { lines, list: Some(list), ..DrawnView::default() }
    }

    fn viewport(&mut self) -> Option<&mut Viewport> {
        Some(&mut self.cursor.viewport)
    }
}

impl UnfoldingList for State {
    fn count(&self) -> usize {
        self.rows.list.len()
    }

    /// Returns the position of the selected row. If it is gone, falls back to its node, its user, then row 0.
    fn position(&self, context: RenderContext<'_>) -> usize {
        let rows = &self.rows;
        let found = self.cursor.find(&rows.list, |row, key| row.identity(context) == *key);
        found.or_else(|| rows.replacement(context, self.cursor.key()?)).unwrap_or(0)
    }

    fn select(&mut self, context: RenderContext<'_>, row: usize) {
        let key = self.rows.list.get(row).map(|row| row.identity(context));
        self.cursor.select(row, key);
    }

    /// Unfolds or folds a user, or opens the node of the row.
    fn open(&mut self, context: RenderContext<'_>) -> Effect {
        let Some(row) = self.rows.list.get(self.position(context)).cloned() else {
            return Effect::Ignored;
        };
        let identity = row.identity(context);
        if row.kind == UserRowKind::User {
            let is_open = self.unfolded.as_ref() == Some(&row.user);
            self.unfolded = (!is_open).then_some(row.user);
            self.cursor.select(0, Some(identity));
            return Effect::Handled;
        }
        identity.node.map_or(Effect::Handled, |node| Effect::OpenNode(node, identity.row))
    }

    fn fold(&mut self) -> bool {
        let Some(user) = self.unfolded.take() else { return false };
        self.cursor.select(0, Some(UserRowIdentity { user, node: None, row: None }));
        true
    }

    fn moved(&self, movement: Movement, count: usize, selected: usize) -> usize {
        self.cursor.moved(movement, count, Some(selected))
    }
}
