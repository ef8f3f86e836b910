//! Tests with recorded output of Slurm 20.11, 22.05, 24.11 and 26.05.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{job_detail, node_use, queue};
use gtop_model::{Bytes, DeviceAllocation, Job, JobId, JobState, NodeName, NodeState};

const VERSIONS: [(&str, &str); 4] = [
    ("20.11.4", include_str!("../../../../../tests/fixtures/slurm/show-job-20.11.4.txt")),
    ("22.05.8", include_str!("../../../../../tests/fixtures/slurm/show-job-22.05.8.txt")),
    ("24.11.5", include_str!("../../../../../tests/fixtures/slurm/show-job-24.11.5.txt")),
    ("26.05.5", include_str!("../../../../../tests/fixtures/slurm/show-job-26.05.5.txt")),
];

/// A node of each, all of whose devices a job has.
const NODES: [(&str, &str); 4] = [
    ("20.11.4", include_str!("../../../../../tests/fixtures/slurm/show-node-20.11.4.txt")),
    ("22.05.8", include_str!("../../../../../tests/fixtures/slurm/show-node-22.05.8.txt")),
    ("24.11.5", include_str!("../../../../../tests/fixtures/slurm/show-node-24.11.5.txt")),
    ("26.05.5", include_str!("../../../../../tests/fixtures/slurm/show-node-26.05.5.txt")),
];

/// Names of the submitted jobs; the tasks of an array share one.
const NAMES: [&str; 8] =
    ["llama-70b", "sweep", "het", "pendbig", "we ird;name $(x)|é", "cpuonly", "held", "bobjob"];

/// Returns the ids of the jobs with this name.
fn ids_of<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let records = text.split("\nJobId=").map(|record| record.trim_start_matches("JobId="));
    let ids = records.filter_map(|record| {
        let (id, rest) = record.split_once(' ')?;
        let rest = rest.split_once("JobName=")?.1;
        (rest.split('\n').next() == Some(name)).then_some(id)
    });
    ids.collect()
}

/// Returns the devices of each job with this name, per node.
fn allocations(text: &str, name: &str) -> Vec<Vec<(String, DeviceAllocation)>> {
    let ids = ids_of(text, name);
    let names: BTreeMap<JobId, String> =
        ids.iter().map(|id| (JobId::new(id).unwrap(), name.to_owned())).collect();
    let details = job_detail::parse(text, &names);
    let details = ids.iter().map(|id| details.get(&JobId::new(id).unwrap()));
    let devices = details.map(|detail| detail.cloned().unwrap_or_default().devices.into_iter());
    devices
        .map(|list| list.map(|(node, part)| (node.to_string(), part.on_node(None))).collect())
        .collect()
}

/// Returns the listed job that is shown with this id.
fn job<'a>(jobs: &'a [Job], shown: &str) -> &'a Job {
    jobs.iter().find(|job| &*job.shown_id == shown).unwrap()
}

fn indices(list: &[u32]) -> DeviceAllocation {
    DeviceAllocation::Indices(list.into())
}

fn on_node(number: u32, devices: DeviceAllocation) -> (String, DeviceAllocation) {
    (format!("gpu-node-{number:02}"), devices)
}

#[test]
fn every_version_reports_the_devices_of_every_kind_of_job() {
    let all_eight = indices(&[0, 1, 2, 3, 4, 5, 6, 7]);
    for (version, text) in VERSIONS {
        let four: Vec<_> = (1..=4).map(|number| on_node(number, all_eight.clone())).collect();
        assert_eq!(allocations(text, "llama-70b"), [four], "{version}");
        let mut tasks = allocations(text, "sweep");
        let waiting = tasks.iter().position(Vec::is_empty).map(|index| tasks.remove(index));
        assert!(waiting.is_some(), "{version}: tasks of the array wait");
        let expected: Vec<_> = (0..3).map(|place| vec![on_node(5, indices(&[place]))]).collect();
        assert_eq!(tasks, expected, "{version}");
        let special = vec![on_node(7, indices(&[0, 1, 2]))];
        assert_eq!(allocations(text, "we ird;name $(x)|é"), [special], "{version}");
        assert_eq!(
            allocations(text, "cpuonly"),
            [vec![on_node(7, DeviceAllocation::None)]],
            "{version}"
        );
        for name in ["pendbig", "held"] {
            assert_eq!(allocations(text, name), [vec![]], "{version} {name}");
        }
    }
}

#[test]
fn every_version_reports_what_jobs_have_on_a_node() {
    for (version, text) in NODES {
        let nodes = node_use::parse(text);
        let node = &nodes[&NodeName::new("gpu-node-01").unwrap()];
        assert_eq!((nodes.len(), node.devices, node.allocated), (1, Some(8), Some(8)), "{version}");
        let indices = node.allocated_indices.as_deref();
        assert_eq!(indices, Some(&[0, 1, 2, 3, 4, 5, 6, 7][..]), "{version}");
        assert_eq!(node.version.as_deref(), Some(version));
        let types = &node.device_types;
        assert_eq!((types.len(), types[0].name.as_deref(), types[0].count), (1, Some("h100"), 8));
        assert!(node.daemon_started_at.is_some() && node.is_responding, "{version}");
        assert_eq!(node.state, NodeState::Mixed, "{version}");
    }
}

#[test]
fn each_part_of_a_heterogeneous_job_has_its_own_devices() {
    let [v20, v22, v24, v26] = VERSIONS.map(|(_, text)| allocations(text, "het"));
    // The job had failed on this version: its components have resources but no indices.
    assert_eq!(v20, [vec![], vec![]]);
    assert_eq!(v22, [[on_node(5, indices(&[3, 4]))], [on_node(7, indices(&[5]))]]);
    assert_eq!(v24, [[on_node(5, indices(&[3, 4]))], [on_node(7, indices(&[5]))]]);
    assert_eq!(v26, [[on_node(5, indices(&[3, 4]))], [on_node(6, indices(&[0]))]]);
}

#[test]
fn the_sluid_is_known_where_there_is_one() {
    for (version, text) in VERSIONS {
        let id = ids_of(text, "llama-70b")[0];
        let id = JobId::new(id).unwrap();
        let names = BTreeMap::from([(id.clone(), "llama-70b".to_owned())]);
        let sluid = job_detail::parse(text, &names)[&id].sluid.clone();
        let expected = (version == "26.05.5").then(|| JobId::new("s1MXM7XYD0DV00").unwrap());
        assert_eq!(sluid, expected, "{version}");
    }
}

#[test]
fn every_version_reports_the_memory_of_a_job() {
    for (version, text) in VERSIONS {
        let id = JobId::new(ids_of(text, "llama-70b")[0]).unwrap();
        let names = BTreeMap::from([(id.clone(), "llama-70b".to_owned())]);
        let memory = job_detail::parse(text, &names)[&id].memory;
        assert_eq!(memory, Some(Bytes(400 << 30)), "{version}");
    }
}

#[test]
fn every_record_is_found_under_its_name() {
    for (version, text) in VERSIONS {
        let all = text.matches("\nJobId=").count() + 1;
        let found: usize = NAMES.iter().chain(&["dep"]).map(|name| ids_of(text, name).len()).sum();
        assert_eq!(found, all, "{version}");
    }
}

#[test]
fn the_queue_of_a_real_slurm_is_parsed() {
    let text = include_str!("../../../../../tests/fixtures/slurm/squeue-22.05.8.txt");
    let queue = queue::parse(text, "mark", false);
    assert_eq!((queue.notes, queue.error), (Vec::new(), None));
    let shown: Vec<&str> = queue.jobs.iter().map(|job| &*job.shown_id).collect();
    let expected = ["1", "2_0", "2_1", "2_2", "6+0", "6+1", "8", "10", "12", "2_[3-5%3]", "11"];
    assert_eq!(shown, expected);
    assert_eq!(job(&queue.jobs, "2_1").id.as_str(), "4");
    assert_eq!(&*job(&queue.jobs, "8").name, "we ird;name $(x)|é line tab");
    assert_eq!(queue.names[&job(&queue.jobs, "8").id], "we ird;name $(x)|é\nline\ttab");
    let nodes: Vec<&NodeName> =
        job(&queue.jobs, "1").allocations.iter().map(|one| &one.node).collect();
    assert_eq!(nodes.len(), 4);
    assert_eq!(job(&queue.jobs, "1").limit.unwrap().as_secs(), 7200);
    assert!(job(&queue.jobs, "1").starts_at.is_some() && job(&queue.jobs, "1").ends_at.is_some());
    assert_eq!((&*job(&queue.jobs, "1").user, &*job(&queue.jobs, "1").partition), ("alice", "gpu"));
    assert_eq!(
        (job(&queue.jobs, "1").node_count, job(&queue.jobs, "1").submitted_at),
        (4, job(&queue.jobs, "1").starts_at)
    );
    assert_eq!((&job(&queue.jobs, "1").account, &job(&queue.jobs, "1").reason), (&None, &None));
    assert_eq!(job(&queue.jobs, "2_[3-5%3]").state, JobState::Pending);
    assert_eq!(job(&queue.jobs, "11").reason.as_deref(), Some("JobHeldUser"));
    let titles = text.lines().next().unwrap();
    let empty = queue::parse(titles, "mark", false);
    assert_eq!((empty.jobs.len(), empty.error), (0, None));
}

#[test]
fn the_time_of_a_suspended_job_stands_still() {
    let text = include_str!("../../../../../tests/fixtures/slurm/squeue-22.05.8.txt");
    let queue = queue::parse(text, "mark", false);
    let (paused, running) = (job(&queue.jobs, "12"), job(&queue.jobs, "10"));
    assert_eq!(paused.state, JobState::Suspended);
    // It had run for 15 s of its time limit of one hour.
    for later in [24, 600, 7200] {
        let now = paused.starts_at.unwrap().plus(Duration::from_secs(later));
        assert_eq!(
            [paused.time_left(now), paused.elapsed(now)].map(|span| span.unwrap().as_secs()),
            [3585, 15],
            "{later}"
        );
        assert_eq!(
            [running.time_left(now), running.elapsed(now)].map(|span| span.unwrap().as_secs()),
            [3600_u64.saturating_sub(later), later]
        );
    }
    // Slurm changes the end of a completing job, so its remaining time is unknown.
    let began = running.starts_at.unwrap();
    let ending = Job { state: JobState::Ending, ends_at: Some(began), ..running.clone() };
    assert_eq!(ending.time_left(began), None);
}
