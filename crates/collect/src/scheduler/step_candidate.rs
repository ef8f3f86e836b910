//! Jobs in which a step may be started, for clusters whose nodes are reached by one.

use gtop_model::{JobId, NodeName};

/// A job that a step may run in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepJob {
    /// The job, or the component of a heterogeneous job.
    pub id: JobId,
    /// For a component: the leader's id and the component's offset.
    pub component: Option<(JobId, u32)>,
}

impl From<JobId> for StepJob {
    fn from(id: JobId) -> Self {
        Self { id, component: None }
    }
}

/// A running job of this user on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepCandidate {
    pub job: StepJob,
    pub node: NodeName,
    /// It has devices there, as far as that is known.
    pub has_devices: bool,
}
