//! Explains a job: what the scheduler says of it, and what its devices do.

use crate::fleet::Node;
use crate::insight::FleetView;
use crate::insight::jobs::JobEntry;
use crate::insight::node_status::NodeStatus;
use crate::metrics::{JOB, JobAt};
use crate::model::{Device, Job, Percent};
use crate::ui::RenderContext;
use crate::ui::widgets::explanation::{Explanation, Fact};

/// Explains a job, running, pending or ended.
pub(super) fn of_job(context: RenderContext<'_>, job: &Job) -> Explanation {
    let fleet_view = context.view;
    let format = (context.options.units(), context.zone);
    let at = JobAt { job: job.clone(), now: fleet_view.now };
    let facts = JOB.iter().map(|field| Fact::of_metric(field, &at, format)).collect();
    let listed_at = fleet_view.fleet.jobs.as_ref().and_then(|list| list.at);
    let entry = fleet_view.job_index().entry(&job.id);
    let is_listed = entry.is_none_or(|entry| entry.is_listed);
    let source = if is_listed { "from the scheduler" } else { "from the processes of the job" };
    let measured = entry.map(|entry| measured(fleet_view, entry)).unwrap_or_default();
    Explanation::new(format!("job {} {}", job.shown_id, job.name))
        .with_numbers(source, listed_at.filter(|_| is_listed), facts)
        .with_numbers("measured on its nodes", None, measured)
}

/// Counts what is measured of the job.
fn measured(fleet_view: &FleetView, entry: &JobEntry) -> Vec<Fact> {
    let nodes: Vec<&Node> = entry
        .nodes
        .iter()
        .filter_map(|node| fleet_view.fleet.nodes.get(node.node_index?))
        .map(|node| &**node)
        .collect();
    let is_fresh = |node: &&&Node| NodeStatus::of(node, fleet_view.now).is_fresh();
    let fresh = nodes.iter().filter(is_fresh).count();
    let devices: Vec<&Device> = entry
        .nodes
        .iter()
        .filter_map(|job_node| {
            let node = fleet_view.fleet.nodes.get(job_node.node_index?)?;
            Some((node, &job_node.assigned))
        })
        .filter(|(node, _)| NodeStatus::of(node, fleet_view.now).is_fresh())
        .flat_map(|(node, assigned)| {
            let own = assigned.devices.iter().flatten();
            own.filter_map(|uuid| node.device(uuid))
        })
        .collect();
    let loads: Vec<f32> =
        devices.iter().filter_map(|device| device.utilization.get().map(Percent::get)).collect();
    let idle = loads.iter().filter(|load| **load < 5.0).count();
    #[expect(clippy::cast_precision_loss, reason = "a mean of percentages")]
    let mean = (!loads.is_empty()).then(|| loads.iter().sum::<f32>() / loads.len() as f32);
    let mut facts = vec![
        Fact::known(
            "nodes",
            format!("{} of {}", nodes.len(), entry.nodes.len()),
            "nodes of the job that gtop watches, of all its nodes",
        ),
        Fact::known("fresh", fresh.to_string(), "nodes of these whose numbers are new"),
        Fact::known("devices", devices.len().to_string(), "devices of the job on fresh nodes"),
    ];
    if let Some(mean) = mean {
        facts.push(Fact::known("util", format!("{mean:.0}%"), "mean utilization of these devices"));
        facts.push(Fact::known(
            "idle",
            idle.to_string(),
            "devices of these below 5% utilization now",
        ));
    }
    facts
}
