//! `gtop doctor` against real servers with planted faults: the true cause is named, and the remedy
//! works.
//!
//! Without an sshd the tests that need one say so and pass.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "doctor/faults.rs"]
mod faults;
#[expect(dead_code, reason = "other tests use more of it")]
#[path = "transport/lab.rs"]
mod lab;
#[path = "doctor/nodes.rs"]
mod nodes;
#[path = "doctor/printing.rs"]
mod printing;

use gtop::doctor::{Report, StepResult, StepStatus, diagnose_node};
use gtop::time::Clock;
use gtop::transport::{Options, Target, Transport};

use crate::lab::{Lab, Sshd, node};

/// Examines the node of a lab.
async fn doctor(lab: &Lab) -> Report {
    examine_with(&lab.transport(), &node()).await
}

async fn examine_with(transport: &Transport, target: &Target) -> Report {
    diagnose_node(transport, target, &Clock::system()).await
}

fn row<'a>(report: &'a Report, step: &str) -> &'a StepResult {
    report
        .steps
        .iter()
        .find(|row| row.step == step)
        .unwrap_or_else(|| panic!("{step}: {report:#?}"))
}

/// Returns the row that failed, which is the last one and has a remedy.
fn failure<'a>(report: &'a Report, step: &str) -> &'a StepResult {
    let failed: Vec<&StepResult> =
        report.steps.iter().filter(|row| row.status == StepStatus::Failed).collect();
    let [failed] = failed.as_slice() else { panic!("{report:#?}") };
    assert_eq!(failed.step, step, "{report:#?}");
    assert!(failed.remedy.is_some() && !report.is_healthy(), "{failed:?}");
    failed
}

/// Says that words stand in what was found, in a detail or in the remedy.
fn says(row: &StepResult, words: &str) {
    let remedy = row.remedy.clone().unwrap_or_default();
    let all = format!("{}\n{}\n{remedy}", row.finding, row.details.join("\n"));
    assert!(all.contains(words), "{words:?} is not in {all}");
}

fn is_healthy(report: &Report) {
    assert!(report.is_healthy(), "{report:#?}");
    assert!(report.steps.iter().any(|row| row.step == "probe"), "{report:#?}");
}

/// A server whose key is known.
async fn known(lab: &Lab, extra: &str) -> Sshd {
    let sshd = lab.sshd(extra).await;
    lab.trust(&sshd);
    sshd
}

/// Options that give up soon: for what never answers.
fn hasty(lab: &Lab) -> Options {
    Options { connect_timeout: Some(std::time::Duration::from_millis(600)), ..lab.options() }
}
