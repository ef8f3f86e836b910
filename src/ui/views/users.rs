//! The users view: one row per user with its devices, memory, power and jobs; a row unfolds into nodes.

use std::sync::Arc;

use crate::insight::RowId;
use crate::model::NodeName;
use crate::query::{SortColumn, SortOrder};
use crate::ui::RenderContext;
use crate::ui::View;
use crate::ui::action::{CommonAction, ViewEffect};
use crate::ui::dialog::Dialog;
use crate::ui::input::Click;
use crate::ui::navigation::Navigation;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::list::{Movement, Viewport};
use crate::ui::widgets::menu::Menu;

mod rows;
mod table;

use crate::insight::users::{User, Users};
use rows::{UserRow, UserRows};
pub(crate) use table::COLUMN_SPECS;
use table::UserTable;

/// The columns that the table can be sorted by.
const COLUMNS: [SortColumn; 9] = [
    SortColumn::new("user", 'u', "name", "by name"),
    SortColumn::new("devices", 'd', "devices held", "by number of devices"),
    SortColumn::new("busy", 'b', "busy devices", "by number of busy devices"),
    SortColumn::new("idle-held", 'i', "idle-held devices", "by number of idle-held devices")
        .formerly("idle"),
    SortColumn::new("mem", 'm', "device memory", "by device memory"),
    SortColumn::new("power", 'w', "power", "by power"),
    SortColumn::new("nodes", 'n', "nodes", "by nodes"),
    SortColumn::new("jobs", 'j', "jobs", "by jobs"),
    SortColumn::new("procs", 'p', "processes", "by processes"),
];

/// Returns the columns that the table can be sorted by.
pub(crate) fn sort_columns() -> Vec<SortColumn> {
    COLUMNS.to_vec()
}

/// The view's sort order, cursor and scroll position.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) order: SortOrder,
    /// The user whose nodes and processes are unfolded.
    unfolded: Option<User>,
    cursor: Option<UserRowIdentity>,
    viewport: Viewport,
    /// The cached rows.
    rows: Option<UserRowCache>,
}

/// Cached rows and their cache key: users, sort order, unfolded user.
type UserRowCache = (Arc<Users>, SortOrder, Option<User>, Arc<UserRows>);

/// Identifies a row independently of its position.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UserRowIdentity {
    user: User,
    node: Option<NodeName>,
    process: Option<RowId>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            order: SortOrder::by("devices"),
            unfolded: None,
            cursor: None,
            viewport: Viewport::default(),
            rows: None,
        }
    }
}

/// Performs an action that all views share.
pub(crate) fn update(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    action: &CommonAction,
) -> ViewEffect {
    let state = &mut navigation.users;
    match action {
        CommonAction::Move(step) => state.step(context, *step),
        CommonAction::Open => return open(context, navigation),
        CommonAction::Back => {
            let Some(user) = state.unfolded.take() else { return ViewEffect::Ignored };
            state.cursor = Some(UserRowIdentity { user, node: None, process: None });
        }
        CommonAction::Click(Click::Row(row)) => {
            let is_again = state.position(context) == *row;
            state.select(context, *row);
            if is_again {
                return open(context, navigation);
            }
        }
        CommonAction::SortMenu => {
            return ViewEffect::OpenDialog(Dialog::Sort(Menu::of_columns(state.order, &COLUMNS)));
        }
        CommonAction::SortBy(column) => state.order.select(column),
        CommonAction::SortNext => state.order.cycle(&COLUMNS, true),
        CommonAction::SortPrevious => state.order.cycle(&COLUMNS, false),
        CommonAction::Reverse => state.order.is_reversed = !state.order.is_reversed,
        CommonAction::Click(_) => return ViewEffect::Ignored,
    }
    ViewEffect::Handled
}

/// Unfolds or folds a user, or opens the node of the row.
fn open(context: RenderContext<'_>, navigation: &mut Navigation) -> ViewEffect {
    let state = &mut navigation.users;
    let rows = state.refresh(context);
    let Some(row) = rows.list.get(state.position(context)).cloned() else {
        return ViewEffect::Ignored;
    };
    let identity = row.identity(context);
    match row {
        UserRow::User { .. } => {
            let user = identity.user.clone();
            state.unfolded = if state.unfolded.as_ref() == Some(&user) { None } else { Some(user) };
            state.cursor = Some(identity);
            ViewEffect::Handled
        }
        UserRow::Node { .. } | UserRow::Process { .. } => {
            let Some(node) = identity.node else { return ViewEffect::Handled };
            navigation.select_row(node, identity.process);
            ViewEffect::SwitchView(View::Node)
        }
    }
}

impl State {
    /// Returns the rows, cached until the data, the sort order or the unfolded user changes.
    fn refresh(&mut self, context: RenderContext<'_>) -> Arc<UserRows> {
        let usage = context.view.users();
        if let Some((cached, order, unfolded, rows)) = &self.rows
            && Arc::ptr_eq(cached, usage)
            && (*order, unfolded) == (self.order, &self.unfolded)
        {
            return Arc::clone(rows);
        }
        let rows = Arc::new(UserRows::of(context.view, usage, self.order, self.unfolded.as_ref()));
        self.rows = Some((Arc::clone(usage), self.order, self.unfolded.clone(), Arc::clone(&rows)));
        rows
    }

    /// Returns the position of the selected row. If it is gone, falls back to its node, its user, then row 0.
    fn position(&mut self, context: RenderContext<'_>) -> usize {
        let rows = self.refresh(context);
        self.cursor.as_ref().map_or(0, |identity| rows.position(context, identity))
    }

    fn step(&mut self, context: RenderContext<'_>, step: Movement) {
        let (position, rows) = (self.position(context), self.refresh(context));
        self.select(context, step.new_index(position, rows.list.len(), self.viewport.rows));
    }

    fn select(&mut self, context: RenderContext<'_>, row: usize) {
        let rows = self.refresh(context);
        self.cursor = rows.list.get(row).map(|row| row.identity(context));
    }
}

/// Returns the lines of the view: the summary, then one row per user.
pub(crate) fn lines(
    context: RenderContext<'_>,
    navigation: &mut Navigation,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let state = &mut navigation.users;
    let rows = state.refresh(context);
    let usage = context.view.users();
    if usage.nodes.1 == 0 {
        let text = if context.view.fleet.nodes.is_empty() {
            "no nodes to watch"
        } else {
            "no node matches the filter"
        };
        return vec![Line::styled(text, Tone::Faint).truncated(width)];
    }
    let mut lines = Vec::with_capacity(height);
    if height >= 6 {
        lines.extend(table::summary(usage, width));
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
        return lines;
    }
    let cursor = state.position(context);
    let table = UserTable::laid_out(context, &rows, state.unfolded.as_ref(), width);
    let room = height.saturating_sub(lines.len());
    lines.extend(state.viewport.lines(
        (height > 1).then(|| table::titles(&table, state.order)),
        (rows.list.len(), Some(cursor)),
        (width, room),
        |at| Some(table::row(&table, rows.list.get(at)?)?.clickable_line(Click::Row(at))),
    ));
    lines
}
