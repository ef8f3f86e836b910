//! The report on a TPU pod: who names its workers, and which they are.

use std::time::Duration;

use crate::doctor::{Mark, Report, Row};
use crate::inventory::{Pod, PodError};
use crate::model::{NodeName, NodeNameError, clean};

/// Returns the report on a pod that was looked for; it took so long to find it.
pub fn report_on_pod(
    found: &Result<Pod, PodError>,
    took: Duration,
) -> Result<Report, NodeNameError> {
    let rows = match found {
        Ok(pod) => rows(pod, took),
        Err(error) => {
            let row = Row::new("metadata server", Mark::Failed, error.to_string());
            vec![row.took(took).remedy(error.remedy())]
        }
    };
    Ok(Report::about(NodeName::new("tpu-pod")?, rows))
}

fn rows(pod: &Pod, took: Duration) -> Vec<Row> {
    let Pod { source, accelerator, this_worker: own, workers } = pod;
    let teller = Row::new("metadata server", Mark::Ok, format!("{source} names the workers"));
    let kind = match accelerator {
        Some(kind) => Row::new("accelerator", Mark::Ok, kind.clone()),
        None => Row::new("accelerator", Mark::Note, "its type is not told"),
    };
    let place = match own {
        Some(own) => format!("this machine is w{own}"),
        None => "this machine is none of them".to_owned(),
    };
    let lines = workers.iter().enumerate().map(|(number, host)| {
        let how = if *own == Some(number) { "without SSH" } else { "by SSH" };
        clean(&format!("w{number} {host}, {how}"), 200)
    });
    let found = format!("{}, {place}", workers.len());
    let listed = Row::new("workers", Mark::Ok, found).details(lines.collect());
    vec![teller.took(took), kind, listed]
}
