//! The jobs of a simulated fleet, as a scheduler would list them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::scheduler::SchedulerKind;
use crate::sim::rng::Rng;
use crate::sim::scenario::{FleetSpec, NodeRole};
use crate::sim::workload::{Workload, WorkloadKind, YOU, node_workloads};
use gtop_local::time::Timestamp;
use gtop_model::{
    Allocation, Bytes, DeviceAllocation, Job, JobId, JobList, JobState, NodeName, RequestedJobs,
};

/// Job names by a word of the command line.
const JOB_NAMES: [(&str, &str); 11] = [
    ("llama-70b", "llama-70b"),
    ("mixtral", "mixtral-8x7b"),
    ("gpt-20b", "gpt-20b"),
    ("qwen", "qwen-instruct"),
    ("gemma2", "gemma2-27b"),
    ("fuji", "fuji-7b"),
    ("vllm", "serve-mistral"),
    ("triton", "triton"),
    ("sweep", "lr-sweep"),
    ("eval", "mmlu"),
    ("relax", "relax"),
];
/// Time limits, in hours.
const TIME_LIMITS: [u64; 5] = [4, 12, 24, 48, 168];
/// Cycle of the recurring short job: period, start within the period, and run time, in seconds.
const SHORT_JOB_CYCLE: (u64, u64, u64) = (240, 80, 110);
/// CPUs of a job for each of its devices.
pub(super) const CPUS_PER_DEVICE: u32 = 12;
/// Memory of a job for each of its devices.
pub(super) const MEMORY_PER_DEVICE: Bytes = Bytes(48 << 30);
/// Id of the first short job.
const FIRST_SHORT_JOB: u64 = 30_000;

/// A job whose allocations are being collected.
struct JobBuilder<'a> {
    workload: Workload,
    allocations: Vec<(&'a NodeName, DeviceAllocation)>,
}

impl FleetSpec {
    /// Returns the jobs at `now` of a fleet that was started at `began`: the running ones, a recurring
    /// short one, and those that stay pending.
    pub fn jobs(&self, began: Timestamp, now: Timestamp) -> JobList {
        let names = self.names();
        let mut builders: BTreeMap<u32, JobBuilder<'_>> = BTreeMap::new();
        let mut free_devices = None;
        for (node, name) in (0..).zip(&names) {
            let mut first = 0;
            for (workload, devices) in node_workloads(self, node) {
                let indices: Arc<[u32]> = (first..first + devices).collect();
                first += devices;
                if workload.kind == WorkloadKind::Free && !self.faults.contains_key(&node) {
                    free_devices.get_or_insert_with(|| (name, Arc::clone(&indices)));
                }
                let Some(number) = workload.job else { continue };
                // Slices shift the indices after them, so these are left unknown.
                let is_mig = self.role(node) == NodeRole::Mig;
                let allocated = if is_mig {
                    DeviceAllocation::Unknown
                } else {
                    DeviceAllocation::Indices(indices)
                };
                let builder = JobBuilder { workload, allocations: Vec::new() };
                builders.entry(number).or_insert(builder).allocations.push((name, allocated));
            }
        }
        let running = builders
            .into_iter()
            .filter_map(|(number, builder)| running_job(number, builder, began));
        let mut jobs: Vec<Job> = running.collect();
        jobs.extend(short_job(free_devices, began, now));
        jobs.extend(waiting_jobs(began, self.nodes));
        jobs.iter_mut().for_each(set_resources);
        jobs.sort_by_key(|job| job.state == JobState::Pending);
        let nodes = Arc::new(self.scheduler_nodes(began, now, &jobs));
        JobList {
            scheduler: SchedulerKind::default().profile(),
            jobs,
            at: Some(now),
            filter_text: "of any user".into(),
            requested: RequestedJobs::All,
            hides_jobs: Some(false),
            nodes,
            ..JobList::default()
        }
    }
}

/// Sets what a job whose devices are known has asked for: as many devices on each node, CPUs and memory.
fn set_resources(job: &mut Job) {
    let allocations = job.allocations.iter();
    let counts = allocations.map(|known| u32::try_from(known.devices.count()?).ok());
    let counts = counts.collect::<Option<Vec<u32>>>().unwrap_or_default();
    let same = counts.first().filter(|first| counts.iter().all(|count| count == *first));
    job.devices_per_node = job.devices_per_node.or(same.copied());
    let has = Some(counts.iter().sum()).filter(|count| *count > 0);
    let devices = has.or(job.devices_per_node.map(|devices| devices * job.node_count));
    job.cpus = devices.map(|devices| devices * CPUS_PER_DEVICE);
    job.memory = devices.map(|devices| Bytes(u64::from(devices) * MEMORY_PER_DEVICE.0));
}

/// Returns the recurring short job, on unused devices.
fn short_job(
    free_devices: Option<(&NodeName, Arc<[u32]>)>,
    began: Timestamp,
    now: Timestamp,
) -> Option<Job> {
    let (every, start, length) = SHORT_JOB_CYCLE;
    let passed = now.since(began).as_secs();
    let (round, second) = (passed / every, passed % every);
    let (node, indices) = free_devices?;
    let is_over = second >= start + length;
    let round = round + u64::from(is_over);
    let starts_at = began.plus(Duration::from_secs(round * every + start));
    let job = Job {
        name: "notebook".into(),
        user: "barbara".into(),
        partition: "interactive".into(),
        account: Some("teaching".into()),
        submitted_at: Some(starts_at.minus(Duration::from_secs(start))),
        devices_per_node: Some(2),
        starts_at: Some(starts_at),
        ends_at: Some(starts_at.plus(Duration::from_secs(length))),
        limit: Some(Duration::from_secs(length)),
        ..blank_job(&(FIRST_SHORT_JOB + round).to_string())?
    };
    if is_over || second < start {
        return Some(job);
    }
    let first_two: Arc<[u32]> = indices.iter().copied().take(2).collect();
    let allocation =
        Allocation { node: node.clone(), devices: DeviceAllocation::Indices(first_two) };
    Some(Job { state: JobState::Running, reason: None, allocations: [allocation].into(), ..job })
}

fn running_job(number: u32, builder: JobBuilder<'_>, began: Timestamp) -> Option<Job> {
    let JobBuilder { workload: work, allocations } = builder;
    let job_name = JOB_NAMES.iter().find(|(word, _)| work.command.contains(word));
    // Its processes start a little later than the job.
    let age = if work.kind == WorkloadKind::Sweep {
        work.rng.branch(12).range(3_000.0, 20_000.0)
    } else {
        30.0 - work.lifetime(Rng::new(0), 0.0).began
    };
    let starts_at = began.minus(Duration::from_secs_f64(age.max(0.0)));
    let mut limits = TIME_LIMITS.into_iter().map(|hours| Duration::from_secs(hours * 3_600));
    let longest = limits.clone().next_back();
    let limit = limits.find(|limit| limit.as_secs_f64() > age * 1.1).or(longest)?;
    Some(Job {
        name: job_name.map_or("batch", |(_, name)| *name).into(),
        user: work.owner.name.into(),
        partition: if work.kind == WorkloadKind::Serving { "serve" } else { "gpu" }.into(),
        account: Some(if work.kind == WorkloadKind::Serving { "services" } else { "ml" }.into()),
        state: JobState::Running,
        reason: None,
        submitted_at: Some(starts_at.minus(Duration::from_secs(60 + u64::from(number % 7) * 900))),
        starts_at: Some(starts_at),
        ends_at: Some(starts_at.plus(limit)),
        limit: Some(limit),
        node_count: u32::try_from(allocations.len()).unwrap_or(u32::MAX),
        allocations: allocations
            .into_iter()
            .map(|(node, devices)| Allocation { node: node.clone(), devices })
            .collect(),
        ..blank_job(&number.to_string())?
    })
}

/// Returns the jobs that stay pending: one of the user who looks at the demo, which will start, and one of another,
/// whose start is unknown.
fn waiting_jobs(began: Timestamp, nodes: u32) -> impl Iterator<Item = Job> {
    let day = Duration::from_secs(86_400);
    let starts_at = Some(began.plus(Duration::from_secs(6_420)));
    let waiting = [
        ("29998", "gpt-180b", YOU, "Resources", nodes.clamp(1, 4), starts_at),
        ("29999", "protein-fold", "katherine", "Priority", nodes.clamp(1, 2), None),
    ];
    waiting.into_iter().filter_map(move |(id, name, user, reason, node_count, starts_at)| {
        Some(Job {
            name: name.into(),
            user: user.into(),
            partition: "gpu".into(),
            account: Some("ml".into()),
            reason: Some(reason.into()),
            submitted_at: Some(began.minus(Duration::from_secs(2_400))),
            starts_at,
            ends_at: starts_at.map(|start| start.plus(day)),
            limit: Some(day),
            node_count,
            devices_per_node: Some(8),
            ..blank_job(id)?
        })
    })
}

fn blank_job(id: &str) -> Option<Job> {
    let id = JobId::new(id)?;
    Some(Job { state: JobState::Pending, reason: Some("Resources".into()), ..Job::unlisted(id) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGAN: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn jobs_at(second: u64) -> JobList {
        FleetSpec::demo(12, 1).jobs(BEGAN, BEGAN.plus(Duration::from_secs(second)))
    }

    #[test]
    fn jobs_match_the_nodes_and_depend_only_on_the_seed() {
        assert_eq!(jobs_at(3), jobs_at(3));
        let list = jobs_at(3);
        assert!(list.with_nodes().any(|job| job.allocations.len() >= 3));
        assert!(list.pending().any(|job| job.reason.as_deref() == Some("Priority")));
        let owners: std::collections::BTreeSet<&str> =
            list.with_nodes().map(|job| &*job.user).collect();
        assert!(owners.len() >= 2, "{owners:?}");
        let has_whole_node = |job: &Job| job.devices_per_node == Some(8);
        assert!(list.with_nodes().any(has_whole_node) && list.pending().any(has_whole_node));
        for job in list.with_nodes() {
            let (start, end) = (job.starts_at.unwrap(), job.ends_at.unwrap());
            assert!(start < BEGAN && end > BEGAN, "{job:?}");
        }
        // The control groups of the processes name these job ids.
        let fleet = FleetSpec::demo(12, 1);
        for node in 0..12 {
            for (work, _) in node_workloads(&fleet, node) {
                let Some(number) = work.job else { continue };
                let job = list.job(&JobId::new(&number.to_string()).unwrap()).unwrap();
                assert_eq!(&*job.user, work.owner.name);
            }
        }
    }

    #[test]
    fn a_short_job_is_pending_then_runs_then_ends() {
        let short = |second| {
            let list = jobs_at(second);
            let found = list.jobs.into_iter().find(|job| &*job.name == "notebook").unwrap();
            (found.id.to_string(), found.state)
        };
        assert_eq!(short(60), ("30000".to_owned(), JobState::Pending));
        assert_eq!(short(80), ("30000".to_owned(), JobState::Running));
        assert_eq!(short(200), ("30001".to_owned(), JobState::Pending));
        assert_eq!(short(330), ("30001".to_owned(), JobState::Running));
    }

    #[test]
    fn you_have_a_job_of_several_nodes_and_wait_for_another_with_an_expected_start() {
        for nodes in [6, 12, 300] {
            let list = FleetSpec::demo(nodes, 1).jobs(BEGAN, BEGAN);
            let is_large = |job: &&Job| &*job.user == YOU && job.allocations.len() >= 2;
            assert!(list.with_nodes().any(|job| is_large(&job)), "{nodes}");
            let waiting = list.pending().find(|job| &*job.user == YOU).unwrap();
            assert!(waiting.starts_at.unwrap() > BEGAN && waiting.reason.is_some());
            assert!(waiting.submitted_at.unwrap() < BEGAN);
        }
    }

    #[test]
    fn the_list_is_the_same_throughout_the_first_minute() {
        for nodes in [1, 12, 300] {
            let list = |second| {
                let now = BEGAN.plus(Duration::from_secs(second));
                FleetSpec::demo(nodes, 1).jobs(BEGAN, now).jobs
            };
            assert_eq!(list(0), list(60), "{nodes}");
        }
    }

    #[test]
    fn a_fleet_of_one_node_has_jobs_too() {
        let list = FleetSpec::demo(1, 1).jobs(BEGAN, BEGAN);
        assert_eq!(list.with_nodes().count(), 1);
    }
}
