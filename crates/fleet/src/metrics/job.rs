//! The metrics of a job.

use crate::metrics::{Field, Value, ValueKind, fields};
use gtop_local::time::Timestamp;
use gtop_model::Job;

/// A job and the current time.
#[derive(Clone, Debug)]
pub struct JobAt {
    /// The job.
    pub job: Job,
    /// The current time, for times left and waiting times.
    pub now: Timestamp,
}

/// The metrics of a job.
pub const JOB: &[Field<JobAt>] = fields! { JobAt:
    Text("shown_id", "job", "job id as users write it, with the array task or the component of a heterogeneous job",
        job.shown_id);
    Text("name", "jobname", "job name", job.name);
    Text("user", "jobuser", "owner of the job", job.user);
    Text("partition", "partition", "partition", job.partition);
    Text("account", "account", "account charged", job.account);
    Text("state", "jobstate", "job state", job.state);
    Text("reason", "reason", "reason for the state, such as Priority or Resources", job.reason);
    Timestamp("submitted_at", "submitted", "submit time", job.submitted_at);
    Timestamp("starts_at", "start", "start time, actual or expected", job.starts_at);
    Timestamp("ends_at", "end", "latest possible end time", job.ends_at);
    Integer("limit_seconds", "joblimit", "time limit", job.limit);
    Integer("left_seconds", "left", "time left", |at| at.job.time_left(at.now).into());
    Integer("elapsed_seconds", "elapsed", "run time, without time suspended",
        |at| at.job.elapsed(at.now).into());
    Integer("nodes", "jobnodes", "number of nodes, allocated or requested", job.node_count);
};
