//! The metrics of a job.

use std::sync::Arc;
use std::time::Duration;

use crate::metrics::{Field, Value};
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
    Field::text(
        "shown_id",
        "job",
        "job id as users write it, with the array task or the component of a heterogeneous job",
        |at| Value::Text(Arc::clone(&at.job.shown_id)),
    ),
    Field::text("name", "jobname", "job name", |at| Value::Text(Arc::clone(&at.job.name))),
    Field::text("user", "jobuser", "owner of the job", |at| Value::Text(Arc::clone(&at.job.user))),
    Field::text("partition", "partition", "partition", |at| {
        Value::Text(Arc::clone(&at.job.partition))
    }),
    Field::text("account", "account", "account charged", |at| JobAt::text(at.job.account.as_ref())),
    Field::text("state", "jobstate", "job state", |at| Value::Text(at.job.state.as_str().into())),
    Field::text("reason", "reason", "reason for the state, such as Priority or Resources", |at| {
        JobAt::text(at.job.reason.as_ref())
    }),
    Field::timestamp("submitted_at", "submitted", "submit time", |at| {
        JobAt::moment(at.job.submitted_at)
    }),
    Field::timestamp("starts_at", "start", "start time, actual or expected", |at| {
        JobAt::moment(at.job.starts_at)
    }),
    Field::timestamp("ends_at", "end", "latest possible end time", |at| {
        JobAt::moment(at.job.ends_at)
    }),
    Field::integer("limit_seconds", "joblimit", "time limit", |at| JobAt::seconds(at.job.limit)),
    Field::integer("left_seconds", "left", "time left", |at| {
        JobAt::seconds(at.job.time_left(at.now))
    }),
    Field::integer("nodes", "jobnodes", "number of nodes, allocated or requested", |at| {
        Value::Integer(at.job.node_count.into())
    }),
];
