//! Actions that views handle, and the effects and node requests they return.

use crate::model::{NodeName, ProcessRequest, ProcessResponse, RequestError};
use crate::time::Timestamp;
use crate::view::dialog::Dialog;
use crate::view::input::Click;
use crate::view::navigation::{Movement, View};
use crate::view::{events, fleet, job, node, processes, users};

/// An action that every view handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommonAction {
    /// Move in the list or table.
    Move(Movement),
    /// Open what is selected.
    Open,
    /// Go back from what was opened; the view says nothing when it has nowhere to go.
    Back,
    /// Choose the order of the rows from a menu.
    SortMenu,
    /// Sort by this column; the same again inverts.
    SortBy(&'static str),
    /// Sort by the next column.
    SortNext,
    /// Sort by the column before.
    SortPrevious,
    /// Turn the order around.
    Invert,
    /// Something was clicked.
    Click(Click),
}

/// The effect of an action on the rest of the UI.
#[derive(Debug, Default)]
pub enum ViewEffect {
    /// The screen may look different.
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
    /// The node.
    pub node: NodeName,
    /// What is asked.
    pub question: ProcessRequest,
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReply {
    /// What was asked, and whom.
    pub request: NodeRequest,
    /// What came back.
    pub answer: Result<ProcessResponse, RequestError>,
    /// When it came.
    pub at: Timestamp,
}

/// An action for the current view or for one particular view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewAction {
    /// Handled by the current view.
    Common(CommonAction),
    /// For the fleet.
    Fleet(fleet::Action),
    /// For the job.
    Job(job::Action),
    /// For the node.
    Node(node::Action),
    /// For processes.
    Processes(processes::Action),
    /// For users.
    Users(users::Action),
    /// For events.
    Events(events::Action),
}
