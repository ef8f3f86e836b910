//! `gtop doctor` against real servers with injected faults: the report names the cause, and the remedy
//! works.
//!
//! Tests that need an sshd are skipped without one.

mod faults;
mod nodes;
mod printing;

use gtop::internals::doctor::{Report, StepResult, StepStatus, diagnose_node};
use gtop_collect::transport::{Options, Target, Transport};
use gtop_local::time::Clock;

use crate::harness::lab::{Lab, Sshd, node};

/// Diagnoses the node of a lab.
async fn diagnose(lab: &Lab) -> Report {
    diagnose_with(&lab.transport(), &node()).await
}

async fn diagnose_with(transport: &Transport, target: &Target) -> Report {
    diagnose_node(transport, target, &Clock::system()).await
}

fn step<'a>(report: &'a Report, name: &str) -> &'a StepResult {
    report
        .steps
        .iter()
        .find(|row| row.step == name)
        .unwrap_or_else(|| panic!("{name}: {report:#?}"))
}

/// Returns the only step that failed; it has a remedy.
fn only_failure<'a>(report: &'a Report, step: &str) -> &'a StepResult {
    let failed: Vec<&StepResult> =
        report.steps.iter().filter(|row| row.status == StepStatus::Failed).collect();
    let [failed] = failed.as_slice() else { panic!("{report:#?}") };
    assert_eq!(failed.step, step, "{report:#?}");
    assert!(failed.remedy.is_some() && !report.is_healthy(), "{failed:?}");
    failed
}

/// Asserts that the finding, a detail or the remedy of a step contains a text.
fn assert_contains(row: &StepResult, text: &str) {
    let remedy = row.remedy.clone().unwrap_or_default();
    let all = format!("{}\n{}\n{remedy}", row.finding, row.details.join("\n"));
    assert!(all.contains(text), "{text:?} is not in {all}");
}

fn assert_healthy(report: &Report) {
    assert!(report.is_healthy(), "{report:#?}");
    assert!(report.steps.iter().any(|row| row.step == "probe"), "{report:#?}");
}

/// Starts a server whose host key is in `known_hosts`.
async fn trusted_sshd(lab: &Lab, extra: &str) -> Sshd {
    let sshd = lab.sshd(extra).await;
    lab.trust(&sshd);
    sshd
}

/// Returns options with a short time limit, for servers that never answer.
fn short_timeout(lab: &Lab) -> Options {
    lab.options_with_timeout(std::time::Duration::from_millis(600))
}
