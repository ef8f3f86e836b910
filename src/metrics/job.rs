//! The metrics of a job.

use std::sync::Arc;
use std::time::Duration;

use crate::metrics::{Field, Value, ValueKind};
use crate::model::{Job, Reason};
use crate::time::Timestamp;

/// A job and the current time.
#[derive(Clone, Debug)]
pub struct JobAt {
    /// The job.
    pub job: Job,
    /// The current time, for times left and waiting times.
    pub now: Timestamp,
}

impl JobAt {
    fn seconds(span: Option<Duration>) -> Value {
        span.map_or(Value::Unknown(Reason::NotAvailable), |span| Value::Integer(span.as_secs()))
    }

    fn text(text: Option<&Arc<str>>) -> Value {
        text.map_or(Value::Unknown(Reason::NotAvailable), |text| Value::Text(Arc::clone(text)))
    }

    fn moment(at: Option<Timestamp>) -> Value {
        let at = at.and_then(|at| jiff::Timestamp::from_microsecond(at.as_micros()).ok());
        at.map_or(Value::Unknown(Reason::NotAvailable), |at| Value::Text(at.to_string().into()))
    }
}

/// The metrics of a job.
pub const JOB: &[Field<JobAt>] = &[
    Field {
        id: "shown_id",
        kind: ValueKind::Text,
        title: "JOB",
        alias: "job",
        help: "job id as users write it, with the array task or the component of a heterogeneous job",
        read: |at| Value::Text(Arc::clone(&at.job.shown_id)),
    },
    Field {
        id: "name",
        kind: ValueKind::Text,
        title: "NAME",
        alias: "jobname",
        help: "job name",
        read: |at| Value::Text(Arc::clone(&at.job.name)),
    },
    Field {
        id: "user",
        kind: ValueKind::Text,
        title: "USER",
        alias: "jobuser",
        help: "owner of the job",
        read: |at| Value::Text(Arc::clone(&at.job.user)),
    },
    Field {
        id: "partition",
        kind: ValueKind::Text,
        title: "PARTITION",
        alias: "partition",
        help: "partition",
        read: |at| Value::Text(Arc::clone(&at.job.partition)),
    },
    Field {
        id: "account",
        kind: ValueKind::Text,
        title: "ACCOUNT",
        alias: "account",
        help: "account charged",
        read: |at| JobAt::text(at.job.account.as_ref()),
    },
    Field {
        id: "state",
        kind: ValueKind::Text,
        title: "STATE",
        alias: "jobstate",
        help: "job state",
        read: |at| Value::Text(at.job.state.as_str().into()),
    },
    Field {
        id: "reason",
        kind: ValueKind::Text,
        title: "REASON",
        alias: "reason",
        help: "reason for the state, such as Priority or Resources",
        read: |at| JobAt::text(at.job.reason.as_ref()),
    },
    Field {
        id: "submitted_at",
        kind: ValueKind::Timestamp,
        title: "SUBMITTED",
        alias: "submitted",
        help: "submit time",
        read: |at| JobAt::moment(at.job.submitted_at),
    },
    Field {
        id: "starts_at",
        kind: ValueKind::Timestamp,
        title: "START",
        alias: "start",
        help: "start time, actual or expected",
        read: |at| JobAt::moment(at.job.starts_at),
    },
    Field {
        id: "ends_at",
        kind: ValueKind::Timestamp,
        title: "END",
        alias: "end",
        help: "latest possible end time",
        read: |at| JobAt::moment(at.job.ends_at),
    },
    Field {
        id: "limit_seconds",
        kind: ValueKind::Integer,
        title: "LIMIT",
        alias: "joblimit",
        help: "time limit",
        read: |at| JobAt::seconds(at.job.limit),
    },
    Field {
        id: "left_seconds",
        kind: ValueKind::Integer,
        title: "LEFT",
        alias: "left",
        help: "time left",
        read: |at| JobAt::seconds(at.job.time_left(at.now)),
    },
    Field {
        id: "nodes",
        kind: ValueKind::Integer,
        title: "NODES",
        alias: "jobnodes",
        help: "number of nodes, allocated or requested",
        read: |at| Value::Integer(at.job.node_count.into()),
    },
];
