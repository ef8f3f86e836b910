//! What drawing a view returns: its lines, and how far the lists in them are scrolled.

use crate::widgets::line::Line;
use crate::widgets::list::Viewport;

/// A drawn view.
#[derive(Clone, Debug, Default)]
pub(crate) struct DrawnView {
    pub(crate) lines: Vec<Line>,
    /// The visible rows of its list; `None` if the list is not drawn.
    pub(crate) list: Option<Viewport>,
    /// The first of the columns that scroll, if there are any.
    pub(crate) first_column: Option<usize>,
    /// `None` if the node panel is not drawn.
    pub(crate) panel: Option<PanelScroll>,
}

/// The visible rows of the tables of a node panel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PanelScroll {
    pub(crate) devices: Viewport,
    pub(crate) processes: Viewport,
}

impl From<Vec<Line>> for DrawnView {
    fn from(lines: Vec<Line>) -> Self {
        Self { lines, ..Self::default() }
    }
}
