//! Reports a TPU pod: the source of the list of workers, and the workers.

use std::time::Duration;

use crate::doctor::{Report, StepResult};
use gtop_collect::inventory::{Pod, PodError};
use gtop_fleet::advice::scheduler;
use gtop_local::text::sanitize;
use gtop_model::{NodeName, NodeNameError};

/// Returns the report on the search for a pod, which took `took`.
pub fn report_on_pod(pod: &Result<Pod, PodError>, took: Duration) -> Result<Report, NodeNameError> {
    let steps = match pod {
        Ok(pod) => pod_steps(pod, took),
        Err(error) => {
            let row = StepResult::failed("metadata server", error.to_string());
            vec![
                row.with_duration(took)
                    .with_remedy(scheduler::of_pod(error.is_no_metadata_server())),
            ]
        }
    };
    Ok(Report::new(NodeName::new("tpu-pod")?, steps))
}

fn pod_steps(pod: &Pod, took: Duration) -> Vec<StepResult> {
    let Pod { source, accelerator, this_worker, workers, slice } = pod;
    let source_step = StepResult::ok("metadata server", format!("workers listed by {source}"));
    let accelerator_step = match accelerator {
        Some(kind) => StepResult::ok("accelerator", kind.clone()),
        None => StepResult::note("accelerator", "type not reported"),
    };
    let this_machine = match this_worker {
        Some(number) => format!("this machine is w{number}"),
        None => "this machine is not a worker".to_owned(),
    };
    let lines = workers.iter().enumerate().map(|(number, host)| {
        let transport = if *this_worker == Some(number) { "without SSH" } else { "by SSH" };
        sanitize(&format!("w{number} {host}, {transport}"), 200)
    });
    let finding = format!("{}, {this_machine}", workers.len());
    let workers_step = StepResult::ok("workers", finding).with_details(lines.collect());
    let slice_step = slice
        .map(|slice| StepResult::note("slices", slice.text()).with_remedy(scheduler::OTHER_SLICES));
    let steps = [source_step.with_duration(took), accelerator_step, workers_step];
    steps.into_iter().chain(slice_step).collect()
}
