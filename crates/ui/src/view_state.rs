//! What a view is: a state that handles actions, is brought up to date, and then is drawn without a change.

use crate::action::RowAction;
use crate::clipboard::Clip;
use crate::drawn_view::DrawnView;
use crate::effect::Effect;
use crate::input::Click;
use crate::node_panel::NodePanel;
use crate::render_context::{RenderContext, Size};
use crate::selection::SharedSelection;
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::explanation::Explanation;
use crate::widgets::list::{Movement, Viewport};
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
    fn count(&self) -> usize;

    /// Returns the position of the selected row, or of the one that takes its place.
    fn position(&self, context: RenderContext<'_>) -> usize;

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
                let (count, selected) = (self.count(), self.position(context));
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

/// The explanation of a row, or why there is none.
pub(crate) type Explained = Result<Explanation, String>;

/// A view. Its actions besides these are methods of its state.
pub(crate) trait ViewState {
    /// Updates rows and selection to the snapshot, on which all other methods rely.
    fn refresh(&mut self, context: RenderContext<'_>, shared: &mut Shared);

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

    /// Computes what is kept for the next frames, and records what is visible, before it is drawn in this size.
    fn prepare(&mut self, _context: RenderContext<'_>, _shared: &mut Shared, _size: Size) {}

    /// Draws the view as it was prepared in at most `height` lines, none wider than `width`, with each list scrolled to its
    /// cursor in the lines that are left for it.
    fn lines(&self, context: RenderContext<'_>, shared: &Shared, size: Size) -> DrawnView;

    /// Returns the visible rows of its list, to keep those that were drawn; `None` if drawing does not scroll it.
    fn viewport(&mut self) -> Option<&mut Viewport> {
        None
    }

    /// Explains the row at the cursor, or says why there is none.
    fn explain(&mut self, context: RenderContext<'_>, shared: &Shared) -> Explained;

    /// Returns what can be copied from the row at the cursor.
    fn clips(&self, _: RenderContext<'_>, _: &Shared) -> Vec<Clip> {
        Vec::new()
    }

    /// Returns the columns of its tables, its own first.
    fn columns(&self) -> Vec<ColumnGroup>;

    /// Returns the sort order and the columns to sort by; `None` if the rows cannot be sorted.
    fn sorting(&mut self) -> Option<(&mut SortOrder, Vec<SortColumn>)> {
        None
    }
}
