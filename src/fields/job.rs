//! What is known of a job.

use std::sync::Arc;
use std::time::Duration;

use crate::fields::{Field, Kind, Value};
use crate::model::{Job, Reason};
use crate::time::Timestamp;

/// A job at a moment.
#[derive(Clone, Debug)]
pub struct JobAt {
    /// The job.
    pub job: Job,
    /// The moment.
    pub now: Timestamp,
}

impl JobAt {
    fn seconds(span: Option<Duration>) -> Value {
        span.map_or(Value::Unknown(Reason::NotAvailable), |span| Value::Whole(span.as_secs()))
    }

    fn text(text: Option<&Arc<str>>) -> Value {
        text.map_or(Value::Unknown(Reason::NotAvailable), |text| Value::Text(Arc::clone(text)))
    }

    fn moment(at: Option<Timestamp>) -> Value {
        let at = at.and_then(|at| jiff::Timestamp::from_microsecond(at.as_micros()).ok());
        at.map_or(Value::Unknown(Reason::NotAvailable), |at| Value::Text(at.to_string().into()))
    }
}

/// Every metric of a job.
pub const JOB: &[Field<JobAt>] = &[
    Field {
        id: "shown_id",
        kind: Kind::Text,
        title: "JOB",
        alias: "job",
        help: "its number as people write it, with the task of an array or the part of a heterogeneous job",
        read: |at| Value::Text(Arc::clone(&at.job.shown_id)),
    },
    Field {
        id: "name",
        kind: Kind::Text,
        title: "NAME",
        alias: "jobname",
        help: "its name",
        read: |at| Value::Text(Arc::clone(&at.job.name)),
    },
    Field {
        id: "user",
        kind: Kind::Text,
        title: "USER",
        alias: "jobuser",
        help: "its owner",
        read: |at| Value::Text(Arc::clone(&at.job.user)),
    },
    Field {
        id: "partition",
        kind: Kind::Text,
        title: "PARTITION",
        alias: "partition",
        help: "where it was submitted to",
        read: |at| Value::Text(Arc::clone(&at.job.partition)),
    },
    Field {
        id: "account",
        kind: Kind::Text,
        title: "ACCOUNT",
        alias: "account",
        help: "who pays for it",
        read: |at| JobAt::text(at.job.account.as_ref()),
    },
    Field {
        id: "state",
        kind: Kind::Text,
        title: "STATE",
        alias: "jobstate",
        help: "what it does",
        read: |at| Value::Text(at.job.state.as_str().into()),
    },
    Field {
        id: "reason",
        kind: Kind::Text,
        title: "REASON",
        alias: "reason",
        help: "why it does that, such as what it waits for",
        read: |at| JobAt::text(at.job.reason.as_ref()),
    },
    Field {
        id: "submitted_at",
        kind: Kind::Moment,
        title: "SUBMITTED",
        alias: "submitted",
        help: "when it was submitted",
        read: |at| JobAt::moment(at.job.submitted_at),
    },
    Field {
        id: "starts_at",
        kind: Kind::Moment,
        title: "START",
        alias: "start",
        help: "when it began, or is expected to",
        read: |at| JobAt::moment(at.job.starts_at),
    },
    Field {
        id: "ends_at",
        kind: Kind::Moment,
        title: "END",
        alias: "end",
        help: "when it is ended at the latest",
        read: |at| JobAt::moment(at.job.ends_at),
    },
    Field {
        id: "limit_seconds",
        kind: Kind::Whole,
        title: "LIMIT",
        alias: "joblimit",
        help: "how long it may run",
        read: |at| JobAt::seconds(at.job.limit),
    },
    Field {
        id: "left_seconds",
        kind: Kind::Whole,
        title: "LEFT",
        alias: "left",
        help: "how long it may still run",
        read: |at| JobAt::seconds(at.job.time_left(at.now)),
    },
    Field {
        id: "nodes",
        kind: Kind::Whole,
        title: "NODES",
        alias: "jobnodes",
        help: "how many nodes it has or wants",
        read: |at| Value::Whole(at.job.node_count.into()),
    },
];
