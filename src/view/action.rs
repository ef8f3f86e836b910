//! What is asked of a view, and what it asks for in turn.

use crate::model::{NodeName, ProcessRequest, ProcessResponse, RequestError};
use crate::time::Timestamp;
use crate::view::dialog::Dialog;
use crate::view::input::Click;
use crate::view::navigation::{Movement, View};
use crate::view::{events, fleet, job, node, processes, users};

/// What every view understands, each in its own way.
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

/// What a command leads to.
#[derive(Debug, Default)]
pub enum ViewEffect {
    /// The screen may look different.
    #[default]
    Handled,
    /// The view has no use for it.
    Ignored,
    /// To be told once.
    Message(String),
    /// Another view is to be shown.
    SwitchView(View),
    /// Something is to be asked first.
    OpenDialog(Dialog),
    /// Nodes are to be asked; the answers come back to whoever asked.
    RequestNodes(Vec<NodeRequest>),
}

/// A question to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRequest {
    /// The node.
    pub node: NodeName,
    /// What is asked.
    pub question: ProcessRequest,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReply {
    /// What was asked, and whom.
    pub request: NodeRequest,
    /// What came back.
    pub answer: Result<ProcessResponse, RequestError>,
    /// When it came.
    pub at: Timestamp,
}

/// A command, or what only one view understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewAction {
    /// For whichever view one is in.
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
