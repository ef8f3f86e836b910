//! Actions that views handle, and the effects and node requests they return.

use crate::model::{NodeName, ProcessRequest, ProcessResponse, RequestError};
use crate::time::Timestamp;
use crate::ui::View;
use crate::ui::dialog::Dialog;
use crate::ui::input::Click;
use crate::ui::views::{fleet, job, node, processes};
use crate::ui::widgets::list::Movement;

/// An action that every view handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommonAction {
    /// Moves in the list or table.
    Move(Movement),
    /// Opens the selected row.
    Open,
    /// Closes what was opened; the effect is empty if there is nothing to go back to.
    Back,
    /// Opens the sort menu.
    SortMenu,
    /// Sorts by this column; inverts the order if it is the sort column already.
    SortBy(&'static str),
    /// Sorts by the next column.
    SortNext,
    /// Sorts by the previous column.
    SortPrevious,
    /// Inverts the sort order.
    Reverse,
    Click(Click),
}

/// The effect of an action on the rest of the UI.
#[derive(Debug, Default)]
pub enum ViewEffect {
    /// The action was handled; the screen needs a redraw.
    #[default]
    Handled,
    /// The view does not handle the action.
    Ignored,
    /// Shows this message once.
    Message(String),
    /// Switches to another view.
    SwitchView(View),
    /// Opens a dialog.
    OpenDialog(Dialog),
    /// Sends requests to nodes; the replies go to the view or dialog that sent them.
    RequestNodes(Vec<NodeRequest>),
}

/// A request to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRequest {
    pub node: NodeName,
    pub process_request: ProcessRequest,
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReply {
    pub request: NodeRequest,
    pub result: Result<ProcessResponse, RequestError>,
    /// The time at which it arrived.
    pub at: Timestamp,
}

/// An action for the current view or for one particular view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewAction {
    Common(CommonAction),
    Fleet(fleet::Action),
    Job(job::Action),
    Node(node::Action),
    Processes(processes::Action),
}
