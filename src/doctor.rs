//! `gtop doctor`: connects to a node once and reports each step, with its result and its time.
//!
//! It has no connection code of its own: the transport and the probe loader that monitoring uses do the work,
//! and their trace is turned into steps here. Independent of the user interface.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use gtop_collect::collect::{Handshake, ProbeStart};
use gtop_collect::scheduler::SchedulerError;
use gtop_collect::transport::{Reach, Target, Transport};
use gtop_fleet::advice::{self, Advice};
use gtop_local::text::excerpt;
use gtop_local::time::Clock;
use gtop_model::{NodeName, SchedulerProfile, table};
use gtop_ssh::{Trace, with_trace};

pub use crate::doctor::json::write_json;
pub use crate::doctor::pod::report_on_pod;
pub use crate::doctor::scheduler::{SchedulerDiagnosis, diagnose_scheduler};
pub use crate::doctor::text::write_text;

mod backends;
mod configuration;
mod connect;
mod json;
mod known;
mod page;
mod pod;
mod probe;
mod scheduler;
mod slurm;
mod srun;
mod sudo;
mod text;

/// Sampling interval of the examined probe.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Slower answers of a scheduler are reported.
const SLOW_ANSWER: Duration = Duration::from_secs(2);

/// Maximum length of a line, after which it is visibly cut: that of the longest option is far below.
const MAX_LINE_CHARS: usize = 4000;

table! {
    /// The result of a step.
    pub enum StepStatus {
        /// The step does not apply to this node.
        NotApplicable = ("-", "apart"),
        /// The step succeeded.
        Ok = ("ok", "ok"),
        /// The step succeeded; there is something worth knowing.
        Note = ("note", "note"),
        /// The step failed.
        Failed = ("FAILED", "failed"),
    }
    /// Returns the words for it in the report and in JSON.
    pub fn words -> (&'static str, &'static str);
}

/// One step of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct StepResult {
    /// Name of the step; for driver interfaces, their kind.
    pub step: String,
    /// Result of the step.
    pub status: StepStatus,
    /// What was found, or why the step failed.
    pub finding: String,
    /// Further details, one per line.
    pub details: Vec<String>,
    /// Duration; `None` if it was not measured.
    pub duration: Option<Duration>,
    /// What the user can do, one remedy per line; indented lines are the content of a file.
    pub remedy: Option<String>,
}

/// The steps of one node, in order; the step after which no further one is possible is the last.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The node; the name of the scheduler, such as `slurm`, for the report on it.
    pub node: NodeName,
    pub steps: Vec<StepResult>,
}

/// The steps of a connection, in order.
#[rustfmt::skip]
pub const STEPS: [&str; 9] = [
    "configuration", "route", "name", "connection", "banner", "key exchange", "host key", "login", "channel",
];

impl StepResult {
    fn new(step: &str, status: StepStatus, finding: impl Into<String>) -> Self {
        Self {
            step: step.to_owned(),
            status,
            finding: finding.into(),
            details: Vec::new(),
            duration: None,
            remedy: None,
        }
    }

    fn ok(step: &str, finding: impl Into<String>) -> Self {
        Self::new(step, StepStatus::Ok, finding)
    }

    fn note(step: &str, finding: impl Into<String>) -> Self {
        Self::new(step, StepStatus::Note, finding)
    }

    fn failed(step: &str, finding: impl Into<String>) -> Self {
        Self::new(step, StepStatus::Failed, finding)
    }

    /// What a scheduler answered: a note if it took long.
    fn of_answer(step: &str, took: Duration, finding: impl Into<String>) -> Self {
        let status = if took > SLOW_ANSWER { StepStatus::Note } else { StepStatus::Ok };
        Self::new(step, status, finding)
    }

    fn of_error(profile: &SchedulerProfile, step: &str, error: &SchedulerError) -> Self {
        let remedy = advice::scheduler::of_scheduler(&profile.words, error.kind, &error.message);
        Self::failed(step, error.message.as_str()).with_remedy(remedy)
    }

    fn not_applicable(step: &str, finding: impl Into<String>) -> Self {
        Self::new(step, StepStatus::NotApplicable, finding)
    }

    fn with_duration(mut self, duration: Duration) -> Self {
        self.duration = Some(duration);
        self
    }

    fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    fn with_advice(self, advice: &Advice) -> Self {
        self.with_remedy(advice.text())
    }

    fn with_details(mut self, details: Vec<String>) -> Self {
        self.details = details;
        self
    }
}

impl Report {
    /// Cleans all texts, because they may come from a node.
    fn new(node: NodeName, mut steps: Vec<StepResult>) -> Self {
        for row in &mut steps {
            for text in [&mut row.finding].into_iter().chain(&mut row.details) {
                *text = excerpt(text.trim(), MAX_LINE_CHARS);
            }
            if let Some(remedy) = &mut row.remedy {
                let lines = remedy.lines().map(|line| {
                    let text = line.trim_start_matches(' ');
                    format!("{:1$}{2}", "", line.len() - text.len(), excerpt(text, MAX_LINE_CHARS))
                });
                *remedy = lines.collect::<Vec<_>>().join("\n");
            }
        }
        Self { node, steps }
    }

    /// Returns true if no step failed.
    pub fn is_healthy(&self) -> bool {
        self.steps.iter().all(|row| row.status != StepStatus::Failed)
    }
}

/// Examines a node, up to the first step that prevents the others.
pub async fn diagnose_node(transport: &Transport, target: &Target, clock: &Clock) -> Report {
    let mut steps = Vec::new();
    let mut known = known::of_target(target);
    if let Reach::Page(url) = &target.reach {
        page::add_steps(url, transport.connect_timeout(), clock, &known, &mut steps).await;
        return Report::new(target.name.clone(), steps);
    }
    if transport.uses_ssh_config(target) {
        let began = Instant::now();
        match transport.effective_options(target).await {
            Ok(options) => {
                let row = configuration::configuration_step(target, &options, &mut known);
                known::read_keys(&mut known);
                steps.push(row.with_duration(began.elapsed()));
            }
            Err(fault) => {
                let row = StepResult::failed("configuration", connect::fault_text(&fault));
                let advice = advice::of_cause(&fault, &known);
                steps.push(row.with_duration(began.elapsed()).with_advice(&advice));
                return Report::new(target.name.clone(), steps);
            }
        }
    }
    let trace = Trace::default();
    let began = Instant::now();
    let privilege = transport.privilege(target);
    let start = ProbeStart { interval: SAMPLE_INTERVAL, privilege, sudo_refusal: None };
    let started = Box::pin(with_trace(&trace, Handshake::start(transport, target, start))).await;
    let period = connect::Period { began, ended: Instant::now() };
    match started {
        Ok(handshake) => {
            if target.reach == Reach::Local {
                steps.extend(local_steps());
            } else {
                let (events, banner) = (trace.events(), handshake.banner());
                connect::add_steps(&events, period, Ok(banner.as_deref()), &known, &mut steps);
            }
            let python_search = probe::PythonSearch { transport, target };
            Box::pin(probe::add_steps(handshake, clock, python_search, &known, &mut steps)).await;
        }
        Err(fault) => {
            known.set_facts(transport.login_facts(target, &fault).await.map(Arc::new));
            connect::add_steps(&trace.events(), period, Err(&fault), &known, &mut steps);
        }
    }
    Report::new(target.name.clone(), steps)
}

/// Returns the steps of a connection as not applicable, for this machine.
fn local_steps() -> impl Iterator<Item = StepResult> {
    STEPS.into_iter().map(|step| StepResult::not_applicable(step, "does not apply to this machine"))
}
