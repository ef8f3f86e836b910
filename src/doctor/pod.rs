//! Reports a TPU pod: the source of the list of workers, and the workers.

use std::time::Duration;

use crate::doctor::{Report, StepResult, StepStatus};
use crate::inventory::{Pod, PodError};
use crate::model::{NodeName, NodeNameError, sanitize};

/// Returns the report on the search for a pod, which took `took`.
pub fn report_on_pod(
    found: &Result<Pod, PodError>,
    took: Duration,
) -> Result<Report, NodeNameError> {
    let rows = match found {
        Ok(pod) => pod_steps(pod, took),
        Err(error) => {
            let row = StepResult::new("metadata server", StepStatus::Failed, error.to_string());
            vec![row.with_duration(took).with_remedy(error.remedy())]
        }
    };
    Ok(Report::new(NodeName::new("tpu-pod")?, rows))
}

fn pod_steps(pod: &Pod, took: Duration) -> Vec<StepResult> {
    let Pod { source, accelerator, this_worker: own, workers } = pod;
    let teller =
        StepResult::new("metadata server", StepStatus::Ok, format!("workers listed by {source}"));
    let kind = match accelerator {
        Some(kind) => StepResult::new("accelerator", StepStatus::Ok, kind.clone()),
        None => StepResult::new("accelerator", StepStatus::Note, "type not reported"),
    };
    let place = match own {
        Some(own) => format!("this machine is w{own}"),
        None => "this machine is not a worker".to_owned(),
    };
    let lines = workers.iter().enumerate().map(|(number, host)| {
        let how = if *own == Some(number) { "without SSH" } else { "by SSH" };
        sanitize(&format!("w{number} {host}, {how}"), 200)
    });
    let found = format!("{}, {place}", workers.len());
    let listed = StepResult::new("workers", StepStatus::Ok, found).with_details(lines.collect());
    vec![teller.with_duration(took), kind, listed]
}
