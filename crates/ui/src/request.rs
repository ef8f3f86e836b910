//! Requests of the screen to the tasks that reach nodes and own the settings, and the replies of nodes.

use std::time::Duration;

use gtop_local::time::Timestamp;
use gtop_model::{
    Focus, HostKeyRequest, JobId, NodeName, PlaybackCommand, ProcessRequest, ProcessResponse,
    RequestError, RunId, RunRequest,
};

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

/// The name and value of a setting that keys change too.
pub type UiPreference = (&'static str, String);

/// A request of the screen to the tasks that reach nodes and own the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UiRequest {
    /// Takes a full sample of each node and reconnects each node that is down.
    Refresh,
    /// Samples this node faster, and no other; `None` for none.
    FocusNode(Option<Focus>),
    /// Collects the details of this job; `None` for none.
    WatchJob(Option<JobId>),
    /// Reads processes of nodes.
    QueryNodes(Vec<NodeRequest>),
    /// Sends signals to processes.
    SignalProcesses(Vec<NodeRequest>),
    /// The name of a setting and its new text, which is not validated yet.
    ChangeSetting(&'static str, String),
    /// Writes the settings to `setup.toml`, with these preferences that keys changed.
    SaveSettings(Vec<UiPreference>),
    SetInterval(Duration),
    /// Keeps this filter among the recent ones.
    RememberFilter(String),
    /// Plays the recording, or moves in it.
    Playback(PlaybackCommand),
    /// About the keys of hosts that are not known.
    HostKeys(HostKeyRequest),
    /// Logs in to these nodes in the terminal, while the screen is suspended.
    LogIn(Vec<NodeName>),
    /// Requests about training runs.
    Runs(Vec<RunRequest>),
    /// Opens the output of this run in a window of its own.
    OpenOutputWindow(RunId),
    /// Lists the threads of these runs.
    UnfoldRuns(Vec<RunId>),
}

impl UiRequest {
    /// Returns true if it is about live nodes.
    pub(crate) const fn needs_nodes(&self) -> bool {
        matches!(
            self,
            Self::Refresh
                | Self::FocusNode(_)
                | Self::WatchJob(_)
                | Self::QueryNodes(_)
                | Self::SignalProcesses(_)
                | Self::HostKeys(_)
                | Self::LogIn(_)
                | Self::SetInterval(_)
        )
    }
}
