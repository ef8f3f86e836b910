//! `gtop doctor`: one visit to a node, step by step, with what each step found and how long it took.
//!
//! It does nothing of its own: the node is reached, logged in to and sent the probe by the very code
//! that watches it, and the notes taken on the way are read here. Must not know the screen.

use std::time::Duration;

use tokio::time::Instant;

use crate::collect::Handshake;
use crate::doctor::remedy::Advice;
use crate::model::{NodeName, clean};
use crate::time::Clock;
use crate::transport::{Reach, Target, Trace, Transport, with_trace};

pub use crate::doctor::json::write_json;
pub use crate::doctor::pod::report_on_pod;
pub use crate::doctor::print::write_text;
pub use crate::doctor::slurm::{Findings, examine_slurm};

mod configuration;
mod json;
mod pod;
mod print;
mod probe;
mod remedy;
mod slurm;
mod source;
mod steps;
mod way;

/// How often the probe of a visit samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Longest line that is told, in characters.
const LONGEST: usize = 1000;

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// It does not apply to this node.
    Apart,
    /// As it should be.
    Ok,
    /// It works, and there is something to know about it.
    Note,
    /// It failed.
    Failed,
}

impl Mark {
    /// Returns the word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Apart => "-",
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Failed => "FAILED",
        }
    }
}

/// One step of an examination.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which step; the kind of the driver interface for those.
    pub step: String,
    /// What became of it.
    pub mark: Mark,
    /// What was found, or why it failed.
    pub found: String,
    /// More about it, a line each.
    pub details: Vec<String>,
    /// How long it took, where that says anything.
    pub took: Option<Duration>,
    /// What a person can do about it, a line each; lines of a file are indented.
    pub remedy: Option<String>,
}

/// All steps of one node, in order; none follows one that stopped everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The node, or `slurm`.
    pub node: NodeName,
    /// The steps.
    pub rows: Vec<Row>,
}

/// The steps of reaching a node, in order.
pub const STEPS: [&str; 9] = [
    "configuration",
    "way",
    "name",
    "connection",
    "greeting",
    "key exchange",
    "host key",
    "login",
    "channel",
];

impl Row {
    fn new(step: &str, mark: Mark, found: impl Into<String>) -> Self {
        Self {
            step: step.to_owned(),
            mark,
            found: found.into(),
            details: Vec::new(),
            took: None,
            remedy: None,
        }
    }

    fn took(mut self, took: Duration) -> Self {
        self.took = Some(took);
        self
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    fn details(mut self, details: Vec<String>) -> Self {
        self.details = details;
        self
    }
}

impl Report {
    /// Whatever stands in the rows may have come from a node.
    fn new(target: &Target, rows: Vec<Row>) -> Self {
        Self::about(target.name.clone(), rows)
    }

    fn about(node: NodeName, mut rows: Vec<Row>) -> Self {
        for row in &mut rows {
            for text in [&mut row.found].into_iter().chain(&mut row.details) {
                *text = clean(text, LONGEST);
            }
            if let Some(remedy) = &mut row.remedy {
                let line = |line: &str| {
                    let text = line.trim_start_matches(' ');
                    format!("{:1$}{2}", "", line.len() - text.len(), clean(text, LONGEST))
                };
                *remedy = remedy.lines().map(line).collect::<Vec<_>>().join("\n");
            }
        }
        Self { node, rows }
    }

    /// Says whether nothing failed.
    pub fn is_well(&self) -> bool {
        self.rows.iter().all(|row| row.mark != Mark::Failed)
    }
}

/// Examines one node, as far as it lets itself be reached.
pub async fn examine(transport: &Transport, target: &Target, clock: &Clock) -> Report {
    let mut rows = Vec::new();
    let mut advice = Advice::about(target);
    if transport.follows_configuration(target) {
        let began = Instant::now();
        match transport.explain(target).await {
            Ok(options) => {
                let row = configuration::row(target, &options, &mut advice);
                rows.push(row.took(began.elapsed()));
            }
            Err(fault) => {
                let row = Row::new("configuration", Mark::Failed, way::sentence(&fault));
                rows.push(row.took(began.elapsed()).remedy(advice.of_transport(&fault)));
                return Report::new(target, rows);
            }
        }
    }
    let notes = Trace::default();
    let began = Instant::now();
    let visited = Box::pin(with_trace(&notes, Handshake::start(transport, target, INTERVAL))).await;
    let span = way::Span { began, ended: Instant::now() };
    match visited {
        Ok(visit) => {
            match target.reach {
                Reach::Local => rows.extend(local()),
                Reach::Ssh(_) => {
                    let banner = visit.banner();
                    way::rows(&notes.taken(), span, Ok(banner.as_deref()), &advice, &mut rows);
                }
            }
            let doubts = probe::Doubts { transport, target };
            Box::pin(probe::rows(visit, clock, doubts, &advice, &mut rows)).await;
        }
        Err(fault) => way::rows(&notes.taken(), span, Err(&fault), &advice, &mut rows),
    }
    Report::new(target, rows)
}

/// Nothing has to be reached on this machine.
fn local() -> impl Iterator<Item = Row> {
    STEPS.into_iter().map(|step| Row::new(step, Mark::Apart, "does not apply to this machine"))
}
