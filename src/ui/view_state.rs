//! What a view is: a state that handles actions and draws lines.

use crate::query::{SortColumn, SortOrder};
use crate::ui::RenderContext;
use crate::ui::action::RowAction;
use crate::ui::effect::Effect;
use crate::ui::node_panel::NodePanel;
use crate::ui::selection::SharedSelection;
use crate::ui::widgets::line::Line;

/// What the views share: the selected node and job, and the panel of the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    pub(crate) selection: SharedSelection,
    pub(crate) panel: NodePanel,
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

    /// Draws the view in at most `height` lines, none wider than `width`.
    fn lines(
        &mut self,
        context: RenderContext<'_>,
        shared: &mut Shared,
        width: u16,
        height: usize,
    ) -> Vec<Line>;

    /// Returns the sort order and the columns to sort by; `None` if the rows cannot be sorted.
    fn sorting(&mut self) -> Option<(&mut SortOrder, Vec<SortColumn>)> {
        None
    }
}
