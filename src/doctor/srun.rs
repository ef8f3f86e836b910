//! Reports Slurm job steps as a transport: whether the version of Slurm supports them, whether a step starts,
//! and whether ssh or a step is tried first, according to the cache of this cluster.

use std::time::Duration;

use tokio::time::Instant;

use crate::doctor::{StepResult, StepStatus, connect};
use gtop_collect::inventory::targets_of_jobs;
use gtop_collect::scheduler::slurm::{PROFILE, step_candidates, step_job};
use gtop_collect::transport::{CLUSTER_CACHE_TTL, Fault, Reach, StepSupport, Transport};
use gtop_fleet::advice::{self, Reader, scheduler};
use gtop_local::time::Clock;
use gtop_model::{Job, JobList, JobState};

/// Adds the steps, and passes the jobs to the transport as monitoring does.
pub(super) async fn add_steps(
    jobs: &[Job],
    transport: &Transport,
    clock: &Clock,
    steps: &mut Vec<StepResult>,
) {
    let list = JobList { jobs: jobs.to_vec(), ..JobList::default() };
    let candidates = step_candidates(&list);
    transport.update_jobs(|before| before.with_running_jobs(&candidates));
    let began = Instant::now();
    let support = transport.step_support().await;
    let is_supported = support.version.is_ok();
    // If steps are the only transport, their faults are failures.
    let failure_status = if support.is_forced { StepStatus::Failed } else { StepStatus::Note };
    steps.push(version_step(&support, failure_status).with_duration(began.elapsed()));
    if is_supported {
        steps.extend(try_step(jobs, transport, failure_status).await);
    }
    steps.push(preferred_transport(jobs, &support, transport, clock).await);
}

fn version_step(support: &StepSupport, failure_status: StepStatus) -> StepResult {
    match &support.version {
        Ok(version) => StepResult::ok("srun", format!("{version}: steps can overlap")),
        Err(Fault::JobStep { cause, message: says }) => {
            StepResult::new("srun", failure_status, format!("{says}: {}", cause.text()))
                .with_advice(&advice::of_step(*cause, Reader::Print))
        }
        Err(fault) => StepResult::new("srun", failure_status, connect::fault_text(fault))
            .with_remedy(scheduler::NO_SRUN),
    }
}

/// Starts an overlapping step in a job, which takes none of the job's resources. If it fails, the other jobs
/// of the node are tried, as in monitoring.
async fn try_step(
    jobs: &[Job],
    transport: &Transport,
    failure_status: StepStatus,
) -> Option<StepResult> {
    let running = jobs.iter().filter(|job| job.state == JobState::Running);
    let mut on_nodes = running.filter_map(|job| Some((job, &job.allocations.first()?.node)));
    let first = on_nodes.clone().next()?;
    // The user's own job if there is one: in another user's, a step would be refused.
    let own_job = on_nodes.find_map(|(_, node)| Some((transport.step_job(node)?, node)));
    let (mut job, node) = own_job.unwrap_or_else(|| (step_job(first.0), first.1));
    let began = Instant::now();
    let mut failures = Vec::new();
    let row = loop {
        let listed = jobs.iter().find(|listed| listed.id == job.id);
        let job_name =
            listed.map_or_else(|| job.id.to_string(), |listed| listed.shown_id.to_string());
        let fault = match transport.try_step(&job, node).await {
            Ok(()) => {
                let finding = format!("runs on {node} in job {job_name}");
                break StepResult::ok("step", finding).with_details(failures);
            }
            Err(fault) => fault,
        };
        let failure = format!("no step in job {job_name}: {}", connect::fault_text(&fault));
        let next =
            transport.mark_job_failed(node, &job).then(|| transport.step_job(node)).flatten();
        if let Some(next) = next {
            failures.push(failure);
            job = next;
            continue;
        }
        let row = StepResult::new("step", failure_status, failure).with_details(failures);
        break row.with_remedy(if failure_status == StepStatus::Failed {
            scheduler::NO_STEP
        } else {
            scheduler::NO_STEP_BESIDE_SSH
        });
    };
    Some(row.with_duration(began.elapsed()))
}

/// Reports which transport is tried first. If that is a step because a node has refused ssh, ssh is tried
/// once more.
async fn preferred_transport(
    jobs: &[Job],
    support: &StepSupport,
    transport: &Transport,
    clock: &Clock,
) -> StepResult {
    let step = "preferred transport";
    if support.is_disabled {
        return StepResult::ok(step, "as set by the options; no job steps");
    }
    if support.is_forced {
        return StepResult::ok(step, "job steps only (--transport srun)");
    }
    let Some(at) = support.refused_at else {
        let fallback = "; a job step if a node refuses ssh";
        let fallback = if support.version.is_ok() { fallback } else { " only" };
        return StepResult::ok(step, format!("ssh{fallback}"));
    };
    let cluster = support.cluster.as_deref().unwrap_or("this one");
    let age = clock.now().since(at);
    let ago = days(age);
    // Only nodes with a job of the user: others may refuse ssh by policy (`pam_slurm_adopt`).
    let target = targets_of_jobs(jobs, &PROFILE)
        .into_iter()
        .find(|target| matches!(target.reach, Reach::Ssh(_)) && transport.has_job(&target.name));
    let refused = format!("job step: a node of cluster {cluster} refused ssh {ago} ago");
    let Some(target) = target else {
        let left = days(CLUSTER_CACHE_TTL.saturating_sub(age));
        return StepResult::ok(step, format!("{refused}; remembered for {left} more"));
    };
    let began = Instant::now();
    let node = &target.name;
    let row = match transport.retry_ssh(&target).await {
        Ok(()) => StepResult::ok(
            step,
            format!(
                "ssh from now on: cluster {cluster} refused it {ago} ago, but {node} now accepts it"
            ),
        ),
        Err(fault) => {
            let detail = format!("retried ssh to {node}: {}", connect::fault_text(&fault));
            StepResult::ok(step, refused).with_details(vec![detail])
        }
    };
    row.with_duration(began.elapsed())
}

/// Formats a duration in whole days.
fn days(span: Duration) -> String {
    match span.as_secs() / 86_400 {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        more => format!("{more} days"),
    }
}
