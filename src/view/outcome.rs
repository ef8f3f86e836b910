//! What is asked of a view, and what it asks for in turn.

use crate::model::{NodeName, ProcessRequest, ProcessResponse, RequestError};
use crate::time::Timestamp;
use crate::view::dialog::Dialog;
use crate::view::input::Click;
use crate::view::navigation::{Step, View};
use crate::view::{events, fleet, job, node, processes, users};

/// What every view understands, each in its own way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Move in the list or table.
    Move(Step),
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
pub enum Outcome {
    /// The screen may look different.
    #[default]
    Nothing,
    /// The view has no use for it.
    Unused,
    /// To be told once.
    Say(String),
    /// Another view is to be shown.
    Show(View),
    /// Something is to be asked first.
    Open(Dialog),
    /// Nodes are to be asked; the answers come back to whoever asked.
    Ask(Vec<Errand>),
}

/// A question to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// The node.
    pub node: NodeName,
    /// What is asked.
    pub question: ProcessRequest,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// What was asked, and whom.
    pub errand: Errand,
    /// What came back.
    pub answer: Result<ProcessResponse, RequestError>,
    /// When it came.
    pub at: Timestamp,
}

/// A command, or what only one view understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// For whichever view one is in.
    Do(Command),
    /// For the fleet.
    Fleet(fleet::Own),
    /// For the job.
    Job(job::Own),
    /// For the node.
    Node(node::Own),
    /// For processes.
    Processes(processes::Own),
    /// For users.
    Users(users::Own),
    /// For events.
    Events(events::Own),
}
