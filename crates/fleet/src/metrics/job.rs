//! The metrics of a job.

use crate::metrics::{Field, Value, ValueKind, metrics};
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

metrics! {
    /// A metric of a job.
    JobMetric of JobAt;

    /// The metrics of a job.
    JOB {
        ShownId = Text("shown_id", "job",
            "job id as users write it, with the array task or the component of a heterogeneous job", job.shown_id);
        Name = Text("name", "jobname", "job name", job.name);
        User = Text("user", "jobuser", "owner of the job", job.user);
        Partition = Text("partition", "partition", "partition", job.partition);
        Account = Text("account", "account", "account charged", job.account);
        State = Text("state", "jobstate", "job state", job.state);
        Reason = Text("reason", "reason", "reason for the state, such as Priority or Resources", job.reason);
        SubmittedAt = Timestamp("submitted_at", "submitted", "submit time", job.submitted_at);
        StartsAt = Timestamp("starts_at", "start", "start time, actual or expected", job.starts_at);
        EndsAt = Timestamp("ends_at", "end", "latest possible end time", job.ends_at);
        LimitSeconds = Integer("limit_seconds", "joblimit", "time limit", job.limit);
        LeftSeconds = Integer("left_seconds", "left", "time left", |at| at.job.time_left(at.now).into());
        ElapsedSeconds = Integer("elapsed_seconds", "elapsed", "run time, without time suspended",
            |at| at.job.elapsed(at.now).into());
        Nodes = Integer("nodes", "jobnodes", "number of nodes, allocated or requested", job.node_count);
        Cpus = Integer("cpus", "jobcpus", "CPUs on all its nodes, allocated or requested", job.cpus);
        MemoryBytes = Integer("memory_bytes", "jobmem", "memory on all its nodes that the scheduler has set aside for it",
            job.memory);
        DevicesPerNode = Integer("devices_per_node", "jobdevices", "devices requested on each node", job.devices_per_node);
    }
}
