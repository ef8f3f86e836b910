//! What a view is: a state that handles actions and draws lines.

use crate::action::RowAction;
use crate::effect::Effect;
use crate::input::Click;
use crate::node_panel::NodePanel;
use crate::render_context::{RenderContext, Size};
use crate::selection::SharedSelection;
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::explanation::Explanation;
use crate::widgets::line::Line;
use crate::widgets::list::Movement;
use gtop_fleet::query::{SortColumn, SortOrder};

/// What the views share: the selected node and job, and the panel of the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    pub(crate) selection: SharedSelection,
    pub(crate) panel: NodePanel,
}

/// A list with a cursor, whose rows open a node or unfold.
pub(crate) trait UnfoldingList {
    /// Returns the number of rows.
    fn count(&mut self, context: RenderContext<'_>) -> usize;

    /// Returns the position of the selected row, or of the one that takes its place.
    fn position(&mut self, context: RenderContext<'_>) -> usize;

    fn select(&mut self, context: RenderContext<'_>, row: usize);

    /// Opens the node of the selected row, unfolds the row or folds it.
    fn open(&mut self, context: RenderContext<'_>) -> Effect;

    /// Folds what is unfolded, and selects it; returns false if nothing is.
    fn fold(&mut self) -> bool;

    /// Returns where a move from the selected row leads.
    fn moved(&self, movement: Movement, count: usize, selected: usize) -> usize;

    /// Handles an action on the rows.
    fn update_rows(&mut self, context: RenderContext<'_>, action: &RowAction) -> Effect {
        match action {
            RowAction::Move(movement) => {
                let (count, selected) = (self.count(context), self.position(context));
                self.select(context, self.moved(*movement, count, selected));
            }
            RowAction::Open => return self.open(context),
            RowAction::Back if self.fold() => {}
            RowAction::Click(Click::Row(row)) => {
                let is_again = self.position(context) == *row;
                self.select(context, *row);
                if is_again {
                    return self.open(context);
                }
            }
            RowAction::Back | RowAction::Click(_) => return Effect::Ignored,
        }
        Effect::Handled
    }
}

/// A view. Its actions besides these are methods of its state.
pub(crate) trait ViewState {
    /// Handles an action on the view's rows.
    fn update(
        &mut self,
        context: RenderContext<'_>,
        shared: &mut Shared,
        action: &RowAction,
    ) -> Effect;

    /// Moves the cursor to the first row.
    fn show_top(&mut self, context: RenderContext<'_>, shared: &mut Shared) {
        self.update(context, shared, &RowAction::Move(Movement::Home));
    }

    /// Draws the view in at most `height` lines, none wider than `width`: scrolls each list to its cursor in the lines that
    /// are left for it, and keeps what is drawn again.
    fn lines(&mut self, context: RenderContext<'_>, shared: &mut Shared, size: Size) -> Vec<Line>;

    /// Explains the row at the cursor, or says why there is none.
    fn explain(
        &mut self,
        context: RenderContext<'_>,
        shared: &mut Shared,
    ) -> Result<Explanation, String>;

    /// Returns the columns of its tables, its own first.
    fn columns(&self) -> Vec<ColumnGroup>;

    /// Returns the sort order and the columns to sort by; `None` if the rows cannot be sorted.
    fn sorting(&mut self) -> Option<(&mut SortOrder, Vec<SortColumn>)> {
        None
    }
}
