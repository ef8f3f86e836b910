//! What is concluded from each kind of evidence.

use std::sync::Arc;
use std::time::Duration;

use crate::holdings::{Certainty, Evidence};
use crate::placing::examples::{self, fleet_with, node, node_used_by, nvidia_node};
use crate::{Fleet, HoldingsKeeper, Node, User};
use gtop_local::time::Timestamp;
use gtop_model::{
    Allocation, Bytes, DeviceAllocation, DeviceConfig, DeviceEvidence, DeviceStatics, DeviceUse,
    DriverDevice, Hello, HostFacts, Job, JobDeviceFiles, JobId, JobList, JobState, ListedDevice,
    NodeFlag, NodeState, Reading, RequestedJobs, SchedulerNode, SchedulerNodes, SliceCapability,
    Source,
};
use gtop_model::{SchedulerProfile, UNNAMED_SCHEDULER};

fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000)
}

fn indices(list: &[u32]) -> DeviceAllocation {
    DeviceAllocation::Indices(list.into())
}

/// A job of this user with an allocation on the node.
fn job(id: &str, user: &str, devices: DeviceAllocation) -> Job {
    let node = gtop_model::NodeName::new("gpu01").unwrap();
    Job {
        user: user.into(),
        starts_at: Some(at(100)),
        allocations: [Allocation { node, devices }].into(),
        ..Job::example(id)
    }
}

fn list(jobs: Vec<Job>) -> Arc<JobList> {
    let nodes = Arc::new(SchedulerNodes { at: Some(at(1_000)), ..SchedulerNodes::default() });
    let scheduler = SchedulerProfile::example();
    Arc::new(JobList { scheduler, jobs, nodes, at: Some(at(1_000)), ..JobList::default() })
}

/// Four devices of NVIDIA, `a` to `d` in the driver's order, with these minor numbers.
fn four(minors: [u32; 4]) -> Node {
    let devices = ["a", "b", "c", "d"];
    let named: Vec<_> = devices.into_iter().zip(minors.map(Some)).collect();
    nvidia_node(&named)
}

fn with_scheduler(mut node: Node, change: impl FnOnce(&mut SchedulerNode)) -> Node {
    let mut known = SchedulerNode { is_responding: true, ..SchedulerNode::default() };
    change(&mut known);
    node.scheduler = Some(Arc::new(known));
    node
}

fn with_evidence(mut node: Node, change: impl FnOnce(&mut DeviceEvidence)) -> Node {
    let mut known = node.evidence.as_deref().cloned().unwrap_or_default();
    change(&mut known);
    node.evidence = Some(Arc::new(known));
    node
}

/// Returns what is known of a node as text: `11:ab certain scheduler`, with the devices that nobody else has for certain
/// after a bar, then those that are likely free.
fn holdings_text(node: &Node) -> String {
    let jobs = node.holdings.jobs().iter().map(|known| {
        let devices: String = known.devices.iter().map(ToString::to_string).collect();
        let missing = match known.unplaced {
            Some(0) => String::new(),
            Some(count) => format!("+{count}"),
            None => "+?".to_owned(),
        };
        let evidence: Vec<&str> = known.evidence.names().collect();
        let certainty = known.certainty.as_str();
        format!("{}:{devices}{missing} {certainty} {}", known.job, evidence.join(","))
    });
    let free = |certainty: Certainty| -> String {
        let devices = node.devices.iter().filter(|device| {
            let known = node.holdings.device(&device.uuid);
            known.claims.is_empty() && known.rest == certainty
        });
        devices.map(|device| device.uuid.to_string()).collect()
    };
    let jobs: Vec<String> = jobs.collect();
    format!("{} | {} | {}", jobs.join("; "), free(Certainty::Certain), free(Certainty::Likely))
}

fn placed(node: &Node, jobs: Vec<Job>) -> String {
    holdings_text(&node.with_jobs(Some(&list(jobs))))
}

#[test]
fn each_kind_of_evidence_has_its_certainty() {
    let eleven = |devices| vec![job("11", "alice", devices)];
    let used = |node: Node, devices: &[&str]| {
        devices.iter().fold(node, |node, device| node_used_by(node, device, "11"))
    };
    let in_order = || four([0, 1, 2, 3]);
    let crossed = || four([2, 0, 3, 1]);
    let files = |minors: &[u32]| {
        let minors = Some(minors.into());
        let job_devices = JobDeviceFiles { job: JobId::new("11").unwrap(), minors };
        move |known: &mut DeviceEvidence| known.job_devices = [job_devices].into()
    };
    for (what, node, devices, expected) in [
        (
            "minor numbers in the driver's order",
            in_order(),
            indices(&[1, 2]),
            "11:bc likely scheduler |  | ad",
        ),
        ("crossed minor numbers", crossed(), indices(&[1, 2]), "11:+2 unknown scheduler |  | "),
        (
            "the daemon's list",
            crossed().with_device_list(&[3, 1, 0, 2]),
            indices(&[0, 2]),
            "11:bc certain scheduler | ad | ",
        ),
        (
            "a list of another length",
            crossed().with_device_list(&[3, 1]),
            indices(&[0]),
            "11:+1 unknown scheduler |  | ",
        ),
        ("all devices", crossed(), indices(&[0, 1, 2, 3]), "11:abcd certain scheduler |  | "),
        (
            "all of its processes",
            used(crossed(), &["a", "d"]),
            indices(&[1, 2]),
            "11:ad certain scheduler,processes | bc | ",
        ),
        (
            "some of its processes",
            used(crossed(), &["a"]),
            indices(&[1, 2]),
            "11:a+1 unknown scheduler,processes |  | ",
        ),
        (
            "its control group",
            with_evidence(crossed(), files(&[0, 3])),
            indices(&[1, 2]),
            "11:bc certain scheduler,cgroup | ad | ",
        ),
        (
            "a control group of all devices",
            with_evidence(in_order(), files(&[0, 1, 2, 3])),
            indices(&[1]),
            "11:b likely scheduler |  | acd",
        ),
        (
            "a number and no process",
            crossed(),
            DeviceAllocation::Count(2),
            "11:+2 unknown scheduler |  | ",
        ),
        (
            "a number and processes",
            used(crossed(), &["a", "d"]),
            DeviceAllocation::Count(2),
            "11:ad certain scheduler,processes | bc | ",
        ),
        (
            "a number and its control group",
            with_evidence(crossed(), files(&[0])),
            DeviceAllocation::Count(1),
            "11:b certain scheduler,cgroup | acd | ",
        ),
        (
            "nothing told",
            used(crossed(), &["a"]),
            DeviceAllocation::Unknown,
            "11:a+? unknown processes |  | ",
        ),
        ("no device", crossed(), DeviceAllocation::None, "11: certain scheduler | abcd | "),
        (
            "a device that is not shown",
            four([0, 1, 2, 9]).with_device_list(&[0, 1, 2, 3]),
            indices(&[3]),
            "11:+1 unknown scheduler | abcd | ",
        ),
        (
            "other vendors in the driver's order",
            node(&[("a", None), ("b", None)]),
            indices(&[1]),
            "11:b likely scheduler |  | a",
        ),
    ] {
        assert_eq!(placed(&node, eleven(devices)), expected, "{what}");
    }
}

#[test]
fn numbers_in_the_environment_and_jobs_named_there_prove_nothing() {
    let mut node = node_used_by(four([2, 0, 3, 1]), "a", "11");
    let mut process = node.unseen[0].clone();
    process.statics.is_job_of_environment = true;
    node.unseen = [process.clone()].into();
    let jobs = || vec![job("11", "alice", indices(&[1]))];
    assert_eq!(placed(&node, jobs()), "11:+1 unknown scheduler | | ".replace(" | | ", " |  | "));
    // Anybody may name a UUID in the environment, so it is likely at best.
    process.statics.is_job_of_environment = false;
    process.statics.visible_uuids = ["d".into()].into();
    node.unseen = [process].into();
    let two = vec![job("11", "alice", indices(&[1, 2]))];
    let expected = "11:ad likely scheduler,processes,environment |  | bc";
    assert_eq!(placed(&node, two), expected);
}

#[test]
fn processes_prove_nothing_where_jobs_may_open_any_device() {
    let jobs = || vec![job("11", "alice", indices(&[0])), job("12", "bob", indices(&[1, 2]))];
    let of = |confines_jobs, has_group: bool| {
        let group = JobDeviceFiles { job: JobId::new("11").unwrap(), minors: None };
        // Job 11 was given the first device, and uses the third.
        let node = with_evidence(node_used_by(four([0, 1, 2, 3]), "c", "11"), |known| {
            known.configuration.confines_jobs = confines_jobs;
            known.job_devices = has_group.then_some(group).into_iter().collect();
        });
        placed(&node, jobs())
    };
    assert!(of(Some(true), false).starts_with("11:c certain scheduler,processes"));
    // What says so has changed since the daemon started.
    let later = with_evidence(node_used_by(four([0, 1, 2, 3]), "c", "11"), |known| {
        known.configuration.is_cached = false;
        known.configuration.confinement_changed_at = Some(at(60));
        known.daemon.started_at = Some(at(50));
    });
    let later = placed(&later, jobs());
    assert!(later.starts_with("11:a likely scheduler; 12:bc likely"), "{later}");
    assert!(of(None, true).starts_with("11:c certain scheduler,processes"));
    for unproved in [of(Some(false), false), of(Some(false), true), of(None, false)] {
        assert!(unproved.starts_with("11:a likely scheduler; 12:bc likely"), "{unproved}");
    }
}

#[test]
fn all_devices_are_meant_only_if_the_driver_lists_no_other() {
    let all = || vec![job("11", "alice", indices(&[0, 1, 2, 3]))];
    let with_driver = |minors: &[u32]| {
        let device = |minor: &u32| DriverDevice { minor: *minor, ..DriverDevice::default() };
        let devices = minors.iter().map(device).collect();
        placed(&with_evidence(four([0, 1, 2, 3]), |known| known.driver_devices = devices), all())
    };
    assert_eq!(with_driver(&[0, 1, 2, 3]), "11:abcd certain scheduler |  | ");
    // One is lost, and one may not be the scheduler's.
    assert_eq!(with_driver(&[0, 1, 2, 3, 4]), "11:abcd likely scheduler |  | ");
    assert_eq!(with_driver(&[]), "11:abcd likely scheduler |  | ");
}

#[test]
fn a_list_holds_for_jobs_from_its_start_until_its_files_were_last_looked_at() {
    let mut keeper = HoldingsKeeper::default();
    let mut told = |changed: i64, checked: i64, list: [u32; 4], start: i64| {
        let mut node = with_scheduler(four([0, 1, 2, 3]).with_device_list(&list), |known| {
            known.devices = Some(4);
            known.allocated_indices = Some([0, 1].into());
            known.daemon_started_at = Some(at(50));
        });
        node = with_evidence(node, |known| {
            known.configuration.changed_at = Some(at(changed));
            known.configuration.checked_at = Some(at(checked));
            known.configuration.is_cached = false;
        });
        let jobs = vec![
            job("11", "alice", indices(&[0])),
            Job { starts_at: Some(at(start)), ..job("12", "bob", indices(&[1])) },
        ];
        keeper.set_jobs(Some(&self::list(jobs)));
        let mut node = Arc::new(node);
        keeper.place(&mut node);
        holdings_text(&node)
    };
    let first = [3, 2, 1, 0];
    assert_eq!(told(20, 200, first, 150), "11:d certain scheduler; 12:c certain scheduler | ab | ");
    // The daemon may have read another configuration just before a job that began since.
    assert_eq!(told(20, 200, first, 250), "11:d certain scheduler; 12:c likely scheduler |  | ab");
    assert_eq!(told(20, 300, first, 250), "11:d certain scheduler; 12:c certain scheduler | ab | ");
    // The files have changed: whether the daemon has read them again is not known, and the next step of job 11 would be
    // given what the list means then.
    let second = [0, 1, 2, 3];
    let expected = "11:d likely scheduler; 12:+1 unknown scheduler |  | ";
    assert_eq!(told(310, 400, second, 350), expected);
    // When they change once more, that is still not known.
    assert_eq!(told(500, 600, second, 350), expected);
    // Not even if they look as if they had not changed, as after the renaming of a folder.
    assert_eq!(told(20, 700, second, 350), expected);
    // A recording that begins then tells the same.
    let proved = keeper.proved();
    let mut list = JobList::clone(&list(vec![]));
    list.proved = Arc::new(proved);
    let mut later = HoldingsKeeper::default();
    later.set_jobs(Some(&Arc::new(list)));
    assert_eq!(later.proved(), keeper.proved());
}

#[test]
fn a_restart_that_scheduler_and_node_tell_one_after_the_other_is_one() {
    let old = (50, 20, 200, [3, 2, 1, 0]);
    let new = (300, 290, 310, [0, 1, 2, 3]);
    let started = [50, 301];
    for steps in [
        [(started[0], old), (started[0], new), (started[1], new)],
        [(started[0], old), (started[1], old), (started[1], new)],
    ] {
        let mut keeper = HoldingsKeeper::default();
        for (step, (started, (node_started, changed, checked, list))) in
            steps.into_iter().enumerate()
        {
            let node = with_scheduler(four([0, 1, 2, 3]).with_device_list(&list), |known| {
                known.devices = Some(4);
                known.daemon_started_at = Some(at(started));
            });
            let node = with_evidence(node, |known| {
                known.daemon.started_at = Some(at(node_started));
                known.configuration.changed_at = Some(at(changed));
                known.configuration.checked_at = Some(at(checked));
                known.configuration.is_cached = false;
            });
            keeper.set_jobs(Some(&self::list(vec![job("11", "alice", indices(&[0]))])));
            let mut node = Arc::new(node);
            keeper.place(&mut node);
            let told = holdings_text(&node);
            let certainty = if step == 0 { "certain" } else { "likely" };
            let expected = format!("11:d {certainty} scheduler");
            assert!(told.starts_with(&expected), "{started} {node_started}: {told}");
        }
    }
}

#[test]
fn an_entry_whose_file_is_not_known_may_mean_what_no_other_entry_does() {
    let listed = |files: [&str; 4], minors: &[(&str, u32)]| {
        let entry = |files: &str| ListedDevice { kind: None, files: files.into() };
        with_evidence(four([0, 1, 2, 3]).with_device_list(&[0]), |known| {
            known.daemon.list = Some(files.map(entry).into());
            let minors = minors.iter().map(|(file, minor)| ((*file).into(), Some(*minor)));
            known.file_minors = minors.collect();
        })
    };
    let of = |node: &Node, list: &[u32]| placed(node, vec![job("11", "alice", indices(list))]);
    let files = ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/other/nvidia3"];
    let unknown = listed(files, &[]);
    assert_eq!(of(&unknown, &[3]), "11:+1 unknown scheduler | abc | ");
    assert_eq!(of(&unknown, &[0, 1, 2, 3]), "11:abc+1 unknown scheduler |  | ");
    let known = listed(files, &[("/dev/other/nvidia3", 3)]);
    assert_eq!(of(&known, &[3]), "11:d certain scheduler | abc | ");
    // A name is not the number of the device behind it.
    let names = ["/dev/x/nvidia0", "/dev/x/nvidia1", "/dev/x/nvidia2", "/dev/x/nvidia3"];
    let turned = listed(names, &[(names[0], 3), (names[1], 2), (names[2], 1), (names[3], 0)]);
    assert_eq!(of(&turned, &[0]), "11:d certain scheduler | abc | ");
    // Several devices that the scheduler counts as one.
    let pair = listed(["/dev/nvidia0,/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3", "x"], &[]);
    assert_eq!(of(&pair, &[0]), "11:+1 unknown scheduler | cd | ");
}

#[test]
fn a_process_on_a_device_that_the_scheduler_was_not_told_of_allocates_nothing() {
    let of = |list: Option<&[u32]>, devices| {
        let node = node_used_by(four([0, 1, 2, 3]), "a", "11");
        let node = list.iter().fold(node, |node, list| node.with_device_list(list));
        let node = with_scheduler(node, |known| {
            (known.devices, known.allocated) = (Some(3), Some(1));
        });
        placed(&node, vec![job("11", "alice", devices)])
    };
    let list = Some(&[1, 2, 3][..]);
    assert_eq!(of(list, indices(&[0])), "11:b certain scheduler | cd | ");
    assert_eq!(of(list, DeviceAllocation::Count(1)), "11:+1 unknown scheduler |  | ");
    // Which of four devices the scheduler has three of is not known.
    assert_eq!(of(None, indices(&[0])), "11:+1 unknown scheduler |  | ");
    assert!(of(None, DeviceAllocation::Count(1)).starts_with("11:a likely scheduler,processes | "));
}

#[test]
fn an_earlier_list_holds_only_for_jobs_that_began_while_it_did() {
    let mut keeper = HoldingsKeeper::default();
    let mut told = |started: i64, changed: i64, list: [u32; 4]| {
        let node = with_scheduler(four([0, 1, 2, 3]).with_device_list(&list), |known| {
            known.devices = Some(4);
            known.daemon_started_at = Some(at(started));
        });
        let node = with_evidence(node, |known| {
            known.configuration.changed_at = Some(at(changed));
            known.configuration.checked_at = Some(at(started + 90));
            known.configuration.is_cached = false;
        });
        let later = Job { starts_at: Some(at(520)), ..job("12", "bob", indices(&[1])) };
        let jobs = vec![job("11", "alice", indices(&[0])), later];
        keeper.set_jobs(Some(&self::list(jobs)));
        let mut node = Arc::new(node);
        keeper.place(&mut node);
        holdings_text(&node)
    };
    // Job 11 began at second 100, before the first list that is seen.
    let first = told(500, 400, [3, 2, 1, 0]);
    assert!(first.starts_with("11:+1 unknown scheduler; 12:c certain"), "{first}");
    // The next step of job 12 is given what the new list means.
    let second = told(700, 600, [0, 1, 2, 3]);
    assert!(second.starts_with("11:+1 unknown scheduler; 12:c likely"), "{second}");
}

#[test]
fn a_job_from_before_a_new_list_may_have_devices_of_both() {
    let told = |keeper: &mut HoldingsKeeper, started: i64, list: [u32; 4], used: &[&str]| {
        let used = used.iter();
        let node = used.fold(four([0, 1, 2, 3]), |node, device| node_used_by(node, device, "11"));
        let node = with_scheduler(node.with_device_list(&list), |known| {
            known.devices = Some(4);
            known.allocated_indices = Some([0].into());
            known.daemon_started_at = Some(at(started));
        });
        let node = with_evidence(node, |known| {
            known.configuration.changed_at = Some(at(started - 10));
            known.configuration.checked_at = Some(at(started + 90));
            known.configuration.is_cached = false;
        });
        keeper.set_jobs(Some(&self::list(vec![job("11", "alice", indices(&[0]))])));
        let mut node = Arc::new(node);
        keeper.place(&mut node);
        let rest = |uuid: &str| node.holdings.device(uuid).rest;
        (holdings_text(&node), rest("a"), rest("d"))
    };
    let (likely, certain) = (Certainty::Likely, Certainty::Certain);
    let free = ("11:d certain scheduler | abc | ".to_owned(), certain, certain);
    let after = |list: [u32; 4], used: &[&str]| {
        let mut keeper = HoldingsKeeper::default();
        assert_eq!(told(&mut keeper, 50, [3, 2, 1, 0], &[]), free);
        told(&mut keeper, 500, list, used)
    };
    assert_eq!(after([3, 2, 1, 0], &[]), free, "the daemon has the same list as before");
    // By another one, its first step has one device, and its next has the other.
    let first = ("11:d likely scheduler |  | abc".to_owned(), likely, likely);
    assert_eq!(after([0, 1, 2, 3], &[]), first);
    let busy = ("11:d likely scheduler,processes |  | abc".to_owned(), likely, certain);
    assert_eq!(after([0, 1, 2, 3], &["d"]), busy);
    let next = ("11:a likely scheduler,processes |  | bcd".to_owned(), certain, likely);
    assert_eq!(after([0, 1, 2, 3], &["a"]), next);
    let (both, ..) = after([0, 1, 2, 3], &["a", "d"]);
    assert!(both.starts_with("11:ad disputed scheduler,processes"), "{both}");
    // What its processes use is what the new list means.
    let mut later = HoldingsKeeper::default();
    let known = ("11:a certain scheduler,processes | bcd | ".to_owned(), certain, certain);
    assert_eq!(told(&mut later, 500, [0, 1, 2, 3], &["a"]), known);
}

#[test]
fn what_processes_proved_is_only_likely_where_the_configuration_cannot_be_seen() {
    let mut keeper = HoldingsKeeper::default();
    let mut told = |node: Node, id: &str| {
        keeper.set_jobs(Some(&list(vec![job(id, "alice", indices(&[1]))])));
        let mut node = Arc::new(with_evidence(node, |known| known.configuration.changed_at = None));
        keeper.place(&mut node);
        holdings_text(&node)
    };
    let crossed = || four([2, 0, 3, 1]);
    assert!(told(node_used_by(crossed(), "c", "11"), "11").starts_with("11:c certain"));
    assert_eq!(told(crossed(), "12"), "12:c likely scheduler |  | abd");
}

#[test]
fn gres_conf_tells_the_order_by_the_rule_of_the_version() {
    let listed = |files: &str, kind: Option<&str>| ListedDevice {
        kind: kind.map(Into::into),
        files: files.into(),
    };
    let configured_by = |names: [Option<&str>; 2],
                         detection: Option<&str>,
                         devices: Vec<ListedDevice>,
                         version: &str| {
        let config = DeviceConfig { detection: detection.map(Into::into), devices: devices.into() };
        let node = with_evidence(four([2, 0, 3, 1]), |known| known.config = Some(Arc::new(config)));
        let node = with_scheduler(node, |known| {
            known.version = Some(version.into());
            known.devices = Some(4);
            known.allocated_indices = Some([0].into());
            let of_name = |name: Option<&str>| gtop_model::DeviceType {
                name: name.map(Into::into),
                count: 2,
            };
            known.device_types = names.map(of_name).to_vec();
        });
        placed(&node, vec![job("11", "alice", indices(&[0]))])
    };
    let configured = |detection: Option<&str>, devices: Vec<ListedDevice>, version: &str| {
        configured_by([Some("h100"), Some("a100")], detection, devices, version)
    };
    let plain = |minors: [u32; 4]| {
        minors.map(|minor| listed(&format!("/dev/nvidia{minor}"), None)).to_vec()
    };
    let typed = vec![
        listed("/dev/nvidia2", Some("a100")),
        listed("/dev/nvidia3", Some("a100")),
        listed("/dev/nvidia1", Some("h100")),
        listed("/dev/nvidia0", Some("h100")),
    ];
    let unnamed = typed.clone();
    for (detection, devices, version, first) in [
        (None, plain([3, 2, 1, 0]), "24.11.5", "c"),
        (None, typed, "24.11.5", "d"),
        (Some("nvml"), Vec::new(), "20.11.9", "b"),
        (Some("nvml"), Vec::new(), "23.11.4", "a"),
        (Some("nvidia"), Vec::new(), "24.11.5", "b"),
    ] {
        let told = configured(detection, devices, version);
        let expected = format!("11:{first} likely scheduler");
        assert!(told.starts_with(&expected), "{detection:?} {version}: {told}");
    }
    // Without the names of types, their order is not known.
    let told = configured_by([None, None], None, unnamed, "24.11.5");
    assert!(told.starts_with("11:+1 unknown"), "{told}");
    let told = configured_by([None, None], None, plain([3, 2, 1, 0]), "24.11.5");
    assert!(told.starts_with("11:c likely"), "{told}");
    // Without a version, the rule is not known.
    assert!(configured(Some("nvml"), Vec::new(), "?").starts_with("11:+1 unknown"));
}

#[test]
fn slices_follow_the_daemon_s_list_by_their_capabilities() {
    let mut node = four([0, 1, 2, 3]);
    node.devices.truncate(2);
    for (uuid, parent, instance) in [("x", "a", 7), ("y", "a", 9), ("z", "b", 7)] {
        let statics = DeviceStatics {
            gpu_instance: Reading::Known(instance),
            compute_instance: Reading::Known(0),
            ..DeviceStatics::default()
        };
        let mut slice = examples::node(&[(uuid, Some(parent))]).devices.remove(0);
        slice.statics = statics.shared();
        node.devices.push(slice);
    }
    let capability = |number, minor, gpu_instance, compute_instance| SliceCapability {
        number,
        minor,
        gpu_instance,
        compute_instance,
    };
    let listed = |files: &str| ListedDevice { kind: None, files: files.into() };
    let node = with_evidence(node, |known| {
        known.daemon.list = Some(
            [
                listed("/dev/nvidia0,/dev/nvidia-caps/nvidia-cap30,/dev/nvidia-caps/nvidia-cap31"),
                listed("/dev/nvidia1,/dev/nvidia-caps/nvidia-cap12,/dev/nvidia-caps/nvidia-cap13"),
                listed("/dev/nvidia0,/dev/nvidia-caps/nvidia-cap21,/dev/nvidia-caps/nvidia-cap22"),
            ]
            .into(),
        );
        known.capabilities = [
            capability(21, 0, 7, None),
            capability(22, 0, 7, Some(0)),
            capability(30, 0, 9, None),
            capability(31, 0, 9, Some(0)),
            capability(12, 1, 7, None),
            capability(13, 1, 7, Some(0)),
        ]
        .into();
    });
    let jobs = vec![job("11", "alice", indices(&[0])), job("12", "bob", indices(&[1]))];
    let node = node.with_jobs(Some(&list(jobs)));
    assert!(
        holdings_text(&node).starts_with("11:y certain scheduler; 12:z certain scheduler"),
        "{}",
        holdings_text(&node)
    );
    // A device has what its slices have; the other slice stays free.
    let holders = |uuid: &str| {
        let known = node.holdings.device(uuid);
        known.users().into_iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    assert_eq!(["a", "b", "x", "y", "z"].map(holders), ["alice", "bob", "", "alice", "bob"]);
    assert_eq!(node.holdings.device("x").rest, Certainty::Certain);
}

#[test]
fn what_was_proved_is_kept_while_boot_devices_and_daemon_stay() {
    let jobs = |id: &str| list(vec![job(id, "alice", indices(&[1]))]);
    let node = |boot: &str, started: i64| {
        let host = HostFacts { boot_id: boot.into(), ..HostFacts::default() };
        let mut node = with_scheduler(four([2, 0, 3, 1]), |known| {
            known.devices = Some(4);
            known.allocated_indices = Some([1].into());
            known.daemon_started_at = Some(at(started));
        });
        node.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
        node
    };
    let learned = || {
        let mut keeper = HoldingsKeeper::default();
        keeper.set_jobs(Some(&jobs("11")));
        let mut busy = Arc::new(node_used_by(node("boot-1", 50), "c", "11"));
        keeper.place(&mut busy);
        assert_eq!(holdings_text(&busy), "11:c certain scheduler,processes | abd | ");
        keeper
    };
    let later = |mut keeper: HoldingsKeeper, node: Node| {
        keeper.set_jobs(Some(&jobs("12")));
        let mut idle = Arc::new(node);
        keeper.place(&mut idle);
        holdings_text(&idle)
    };
    let kept = "12:c certain scheduler | abd | ";
    assert_eq!(later(learned(), node("boot-1", 50)), kept);
    let unknown = "12:+1 unknown scheduler |  | ";
    // Another daemon has made another list, however soon.
    assert_eq!(later(learned(), node("boot-1", 52)), unknown);
    assert_eq!(later(learned(), node("boot-2", 50)), unknown);
    let mut without = node("boot-1", 50);
    without.devices.pop();
    assert!(later(learned(), without).starts_with("12:+1 unknown"));
}

#[test]
fn jobs_from_before_the_daemon_started_have_indices_of_another_list() {
    let started = |second: i64, configured: Option<i64>, booted: i64| {
        let node = with_scheduler(four([0, 1, 2, 3]).with_device_list(&[3, 2, 1, 0]), |known| {
            known.devices = Some(4);
            known.allocated_indices = Some([0].into());
            known.daemon_started_at = Some(at(second));
        });
        let node = with_evidence(node, |known| {
            known.configuration.changed_at = configured.map(at);
            known.configuration.is_cached = false;
        });
        let mut node = node;
        node.mark_sampled(&Source::host(), at(2_000));
        let uptime = u64::try_from(2_000 - booted).unwrap();
        node.host.fast.uptime_seconds = Reading::Known(uptime);
        // The job began at second 100.
        placed(&node, vec![job("11", "alice", indices(&[0]))])
    };
    let long_ago = -5_000;
    assert_eq!(started(50, Some(20), long_ago), "11:d certain scheduler | abc | ");
    // Without a sight of the files, the list may be another by now.
    assert_eq!(started(50, None, long_ago), "11:d likely scheduler |  | abc");
    assert_eq!(started(500, None, long_ago), "11:d likely scheduler |  | abc");
    // The daemon before may have read the files before they were changed, or after.
    let unknown = "11:+1 unknown scheduler |  | ";
    assert_eq!(started(500, Some(20), long_ago), unknown);
    // They are older than the node's boot, so each daemon has read the same.
    assert_eq!(started(500, Some(5), 10), "11:d certain scheduler | abc | ");
    // They are there soon after it, and likely before the first daemon.
    assert_eq!(started(500, Some(20), 10), "11:d likely scheduler |  | abc");
    assert_eq!(started(500, Some(300), long_ago), unknown);
    // They were changed after the daemon read them.
    assert_eq!(started(50, Some(700), long_ago), unknown);
    // Jobs from before and after may really share a device.
    let node = with_scheduler(four([0, 1, 2, 3]).with_device_list(&[3, 2, 1, 0]), |known| {
        known.devices = Some(4);
        known.allocated_indices = Some([0, 1, 2].into());
        known.daemon_started_at = Some(at(500));
    });
    let node = with_evidence(node, |known| {
        known.configuration.changed_at = Some(at(499));
        known.configuration.is_cached = false;
    });
    let after = Job { starts_at: Some(at(600)), ..job("13", "eve", indices(&[2])) };
    let jobs = vec![job("11", "alice", indices(&[0])), job("12", "bob", indices(&[1])), after];
    let told = placed(&node_used_by(node, "b", "12"), jobs);
    let expected =
        "11:+1 unknown scheduler; 12:b likely scheduler,processes; 13:b certain scheduler |  | ";
    assert_eq!(told, expected);
}

#[test]
fn contradictions_are_disputed_and_never_certain() {
    let two = || vec![job("11", "alice", indices(&[0])), job("12", "bob", indices(&[1]))];
    let listed = || four([0, 1, 2, 3]).with_device_list(&[0, 1, 2, 3]);
    // A process of job 11 uses the device of job 12.
    let crossed = placed(&node_used_by(listed(), "b", "11"), two());
    let expected = "11:b disputed scheduler,processes; 12:+1 disputed scheduler |  | ";
    assert_eq!(crossed, expected);
    // One that the list gives to nobody.
    let stray = placed(&node_used_by(listed(), "d", "11"), two());
    assert_eq!(stray, "11:d disputed scheduler,processes; 12:b likely scheduler |  | ");
    // More devices than it was given.
    let more = node_used_by(node_used_by(four([2, 0, 3, 1]), "a", "11"), "b", "11");
    assert!(placed(&more, two()).starts_with("11:ab disputed"), "{}", placed(&more, two()));
    // Both were given the device.
    let shared = vec![job("11", "alice", indices(&[0])), job("12", "bob", indices(&[0, 1]))];
    let shared = placed(&node_used_by(listed(), "a", "12"), shared);
    assert_eq!(shared, "11:a certain scheduler; 12:ab certain scheduler,processes | cd | ");
    // A job that was given nothing.
    let nothing = placed(
        &node_used_by(listed(), "b", "11"),
        vec![job("11", "alice", DeviceAllocation::None)],
    );
    assert!(nothing.starts_with("11:b disputed scheduler,processes"), "{nothing}");
    // What was proved and what is proved now.
    let mut keeper = HoldingsKeeper::default();
    let place = |keeper: &mut HoldingsKeeper, used: &[(&str, &str)], jobs: Vec<Job>| {
        keeper.set_jobs(Some(&list(jobs)));
        let node = used
            .iter()
            .fold(four([2, 0, 3, 1]), |node, (device, job)| node_used_by(node, device, job));
        let mut node = Arc::new(node);
        keeper.place(&mut node);
        holdings_text(&node)
    };
    let one = |id: &str| vec![job(id, "alice", indices(&[0]))];
    assert!(place(&mut keeper, &[("c", "11")], one("11")).starts_with("11:c certain"));
    assert!(place(&mut keeper, &[], one("12")).starts_with("12:c certain"));
    let contradicted = place(&mut keeper, &[("d", "13")], one("13"));
    assert!(contradicted.starts_with("13:d disputed"), "{contradicted}");
    assert!(place(&mut keeper, &[], one("14")).starts_with("14:+1 disputed"));
}

#[test]
fn process_lists_from_before_a_job_do_not_contradict_it() {
    let is_disputed = |after: i64| {
        let mut node = node_used_by(four([0, 1, 2, 3]).with_device_list(&[0, 1, 2, 3]), "a", "7");
        let listed_at = Timestamp::from_micros(at(100).as_micros() + after * 1_000);
        node.mark_sampled(&Source::new("nvml").processes(), listed_at);
        let told = placed(&node, vec![job("11", "alice", indices(&[0]))]);
        told.contains("11:+1 disputed")
    };
    assert_eq!([-2_000, 999, 1_000].map(is_disputed), [false, false, true]);
}

#[test]
fn devices_of_jobs_that_are_not_listed_are_held_by_them() {
    let listed = |change: fn(&mut SchedulerNode)| {
        let node = four([0, 1, 2, 3]).with_device_list(&[3, 2, 1, 0]);
        with_scheduler(node, |known| {
            known.devices = Some(4);
            change(known);
        })
    };
    let hidden = |node: &Node, jobs: Vec<Job>| {
        let node = node.with_jobs(Some(&list(jobs)));
        let held = node.devices.iter().filter(|device| {
            let known = node.holdings.device(&device.uuid);
            known.claims.iter().any(|claim| claim.holder.user == User::NotShown)
        });
        let held: String = held.map(|device| device.uuid.to_string()).collect();
        (node.holdings.hidden, held, holdings_text(&node))
    };
    let own = || vec![job("11", "alice", indices(&[0]))];
    let by_index = listed(|known| {
        known.allocated_indices = Some([0, 2].into());
        known.allocated = Some(2);
    });
    // It may be of a job from before the daemon made its list.
    let expected = "11:d certain scheduler |  | ac";
    assert_eq!(hidden(&by_index, own()), (Some(1), "b".into(), expected.into()));
    let mut since_boot = with_evidence(by_index, |known| {
        known.configuration.is_cached = false;
    });
    since_boot.mark_sampled(&Source::host(), at(2_000));
    since_boot.host.fast.uptime_seconds = Reading::Known(1_990);
    let expected = "11:d certain scheduler | ac | ";
    assert_eq!(hidden(&since_boot, own()), (Some(1), "b".into(), expected.into()));
    // Only their number is known.
    let by_count = listed(|known| known.allocated = Some(3));
    assert_eq!(hidden(&by_count, own()).0, Some(2));
    assert!(hidden(&by_count, own()).2.ends_with(" |  | "), "none of them is free");
    // Nothing is known of the jobs of others.
    let unknown = hidden(&listed(|_| {}), own());
    assert_eq!((unknown.0, unknown.2.as_str()), (None, "11:d certain scheduler |  | "));
    // All jobs are listed, and none is hidden.
    let mut all = JobList::clone(&list(own()));
    all.requested = RequestedJobs::All;
    // The scheduler must say so.
    for (hides_jobs, free) in [(Some(false), "abc"), (Some(true), ""), (None, "")] {
        all.hides_jobs = hides_jobs;
        let node = listed(|_| {}).with_jobs(Some(&Arc::new(all.clone())));
        assert_eq!(holdings_text(&node), format!("11:d certain scheduler | {free} | "));
    }
    // Before the indices of a job are known, its devices are held all the same.
    let waiting = hidden(&since_boot, vec![job("11", "alice", DeviceAllocation::Unknown)]);
    assert_eq!(waiting.0, None);
    let free = waiting.2.split(" | ").nth(1).unwrap();
    assert_eq!(free, "ac", "{}", waiting.2);
}

#[test]
fn a_job_not_shown_may_have_a_device_by_a_list_of_before_that_nobody_saw() {
    let of = |booted: i64, started: i64, allocated: &[u32]| {
        let node = with_scheduler(four([0, 1, 2, 3]).with_device_list(&[3, 2, 1, 0]), |known| {
            known.devices = Some(4);
            known.allocated_indices = Some(allocated.into());
            known.daemon_started_at = Some(at(started));
        });
        let mut node = with_evidence(node, |known| {
            known.configuration.changed_at = Some(at(started - 10));
            known.configuration.checked_at = Some(at(7_900));
            known.configuration.is_cached = false;
        });
        node.mark_sampled(&Source::host(), at(8_000));
        let uptime = u64::try_from(8_000 - booted).unwrap();
        node.host.fast.uptime_seconds = Reading::Known(uptime);
        let own = Job { starts_at: Some(at(7_000)), ..job("11", "alice", indices(&[0])) };
        let node = node.with_jobs(Some(&list(vec![own])));
        let known = node.holdings.device("d");
        let own = known.claims.iter().find(|claim| claim.holder.job.is_some()).unwrap();
        (own.certainty, own.may_be_shared && known.rest != Certainty::Certain)
    };
    // The daemon has started late after the boot of the node; jobs may have begun before.
    assert_eq!(of(0, 6_000, &[0, 2]), (Certainty::Certain, true));
    assert_eq!(of(0, 6_000, &[0]), (Certainty::Certain, false), "no other job is there");
    assert_eq!(of(5_995, 6_000, &[0, 2]), (Certainty::Certain, false), "its first start");
}

#[test]
fn what_is_only_likely_nobody_s_is_not_free() {
    let node = four([0, 1, 2, 3]).with_jobs(Some(&list(vec![job("11", "alice", indices(&[1]))])));
    assert_eq!(holdings_text(&node), "11:b likely scheduler |  | acd");
    let of = |uuid: &str| node.holdings.device(uuid).is_allocated();
    assert_eq!(["a", "b"].map(of), [None, Some(true)]);
}

/// What is known of a node with the devices `a` to `d`, on which these jobs are listed.
fn text_of(jobs: Vec<Job>, requested: RequestedJobs, change: fn(&mut SchedulerNode)) -> String {
    let node = four([0, 1, 2, 3]).with_device_list(&[0, 1, 2, 3]);
    let node = with_scheduler(node, |known| {
        known.devices = Some(4);
        change(known);
    });
    let mut all = JobList::clone(&list(jobs));
    all.requested = requested;
    all.hides_jobs = Some(false);
    holdings_text(&node.with_jobs(Some(&Arc::new(all))))
}

#[test]
fn after_an_old_count_no_device_is_free_and_holders_stay() {
    let known =
        |change| text_of(vec![job("11", "alice", indices(&[0]))], RequestedJobs::Selected, change);
    let by_index = known(|known| known.allocated_indices = Some([0].into()));
    assert_eq!(by_index, "11:a certain scheduler | bcd | ");
    for old in [
        |known: &mut SchedulerNode| {
            known.allocated_indices = Some([0].into());
            known.is_count_old = true;
        },
        |known: &mut SchedulerNode| {
            known.allocated = Some(1);
            known.is_count_old = true;
        },
    ] {
        assert_eq!(known(old), "11:a certain scheduler |  | ");
    }
}

#[test]
fn a_job_with_as_many_devices_as_the_node_has_all_of_them() {
    for scheduler in [SchedulerProfile::example(), &UNNAMED_SCHEDULER] {
        let kind = scheduler.id;
        let of = |node: Node, count, gives_shares| {
            let node = with_scheduler(node, |known| {
                (known.devices, known.gives_shares) = (Some(4), gives_shares);
            });
            let jobs = list(vec![job("11", "alice", DeviceAllocation::Count(count))]);
            let jobs = JobList { scheduler, ..JobList::clone(&jobs) };
            holdings_text(&node.with_jobs(Some(&Arc::new(jobs))))
        };
        let crossed = || four([2, 0, 3, 1]);
        let all = "11:abcd certain scheduler |  | ";
        assert_eq!(of(crossed(), 4, false), all, "{kind:?}");
        assert_eq!(of(crossed(), 3, false), "11:+3 unknown scheduler |  | ", "{kind:?}");
        assert_ne!(of(crossed(), 4, true), all, "{kind:?}: it may have shares of fewer");
        let more = with_evidence(crossed(), |known| {
            let other = DriverDevice { minor: 9, address: "".into(), uuid: Some("z".into()) };
            known.driver_devices = known.driver_devices.iter().cloned().chain([other]).collect();
        });
        assert_ne!(of(more, 4, false), all, "{kind:?}: the driver has more");
    }
}

#[test]
fn an_ending_job_keeps_its_devices_although_they_are_not_counted() {
    let ending = |devices| Job { state: JobState::Ending, ..job("11", "alice", devices) };
    let known = |jobs: Vec<Job>, requested| {
        text_of(jobs, requested, |known| {
            known.state = NodeState::Completing;
            known.allocated = Some(0);
            known.allocated_indices = Some([].into());
        })
    };
    let all = |devices| known(vec![ending(devices)], RequestedJobs::All);
    assert_eq!(all(indices(&[1])), "11:b certain scheduler | acd | ");
    assert_eq!(all(DeviceAllocation::Count(3)), "11:+3 unknown scheduler |  | ");
    assert_eq!(all(DeviceAllocation::Unknown), "11:+? unknown  |  | ");
    // Jobs that are not listed may be ending.
    let own = vec![ending(indices(&[1]))];
    assert_eq!(known(own, RequestedJobs::Selected), "11:b certain scheduler |  | ");
    let running = vec![job("11", "alice", indices(&[1]))];
    assert_eq!(known(running, RequestedJobs::All), "11:b certain scheduler |  | ");
    assert_eq!(known(vec![], RequestedJobs::All), " |  | ");
    // The devices of others are counted as before.
    let both = text_of(vec![ending(indices(&[1]))], RequestedJobs::All, |known| {
        known.flags = [NodeFlag::Completing].into();
        known.allocated = Some(2);
    });
    assert!(both.starts_with("11:b certain scheduler |  | "), "{both}");
}

/// What is known of a node with four devices, of which the scheduler gives this many to jobs, to a probe in a step of job
/// 11 that can open those with these minor numbers.
fn seen_by_step(scheduled: u32, openable: &[u32], devices: DeviceAllocation) -> String {
    let host = HostFacts { job: JobId::new("11"), ..HostFacts::default() };
    let names = ["a", "b", "c", "d"].into_iter().zip(0..);
    let shown: Vec<_> = names.filter(|(_, minor)| openable.contains(minor)).collect();
    let shown: Vec<_> = shown.into_iter().map(|(name, minor)| (name, Some(minor))).collect();
    let mut inside = nvidia_node(&shown);
    inside.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
    let inside = with_evidence(inside, |known| {
        known.openable = Some(openable.into());
        let device = |minor| DriverDevice { minor, ..DriverDevice::default() };
        known.driver_devices = [0, 1, 2, 3].map(device).into();
    });
    let inside = with_scheduler(inside, |known| known.devices = Some(scheduled));
    placed(&inside, vec![job("11", "alice", devices), job("12", "bob", indices(&[1]))])
}

#[test]
fn a_probe_in_a_confined_job_sees_its_devices_alone() {
    let told = seen_by_step(4, &[2, 3], indices(&[0, 3]));
    assert!(told.starts_with("11:cd certain scheduler,cgroup; 12:"), "{told}");
    assert!(!told.contains("12:c") && !told.contains("12:d"), "{told}");
}

/// What a probe tells in a step of job 11 on a node of four devices, of which the first has two slices, one of them that of
/// another instance of two; the scheduler gives this many units to jobs. The step sees one device, or one slice.
fn seen_by_step_beside_slices(scheduled: u32, sees_slice: bool) -> String {
    let host = HostFacts { job: JobId::new("11"), ..HostFacts::default() };
    let shown: &[_] = if sees_slice { &[("a", Some(0))] } else { &[("c", Some(2))] };
    let mut inside = nvidia_node(shown);
    inside.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
    if sees_slice {
        inside.devices.push(node(&[("x", Some("a"))]).devices.remove(0));
    }
    let inside = with_evidence(inside, |known| {
        known.configuration.confines_jobs = Some(true);
        known.configuration.confinement_changed_at = Some(at(1));
        known.openable = Some(if sees_slice { [0].into() } else { [2].into() });
        let device = |minor| DriverDevice { minor, ..DriverDevice::default() };
        known.driver_devices = [0, 1, 2, 3].map(device).into();
        let capability = |number, gpu_instance, compute_instance| SliceCapability {
            number,
            minor: 0,
            gpu_instance,
            compute_instance,
        };
        known.capabilities = [
            capability(21, 7, None),
            capability(22, 7, Some(0)),
            capability(30, 9, None),
            capability(31, 9, Some(0)),
        ]
        .into();
    });
    let inside = with_scheduler(inside, |known| {
        known.devices = Some(scheduled);
        known.daemon_started_at = Some(at(50));
    });
    placed(&inside, vec![job("11", "alice", indices(&[1])), job("12", "bob", indices(&[0]))])
}

#[test]
fn a_probe_in_a_confined_job_sees_its_device_or_slice_beside_those_of_others() {
    // Three devices and two slices.
    let told = seen_by_step_beside_slices(5, false);
    assert!(told.starts_with("11:c certain scheduler,cgroup; "), "{told}");
    let told = seen_by_step_beside_slices(5, true);
    assert!(told.starts_with("11:x certain scheduler,cgroup; "), "{told}");
    // Every job may open one that the scheduler does not give to jobs.
    for sees_slice in [false, true] {
        let told = seen_by_step_beside_slices(4, sees_slice);
        assert!(!told.contains("certain scheduler,cgroup"), "{told}");
    }
}

#[test]
fn a_step_may_have_fewer_devices_than_its_job() {
    for devices in [indices(&[0, 2]), DeviceAllocation::Count(2)] {
        // Every step can open a device that the scheduler does not give to jobs, and which one that is is not known.
        let told = seen_by_step(3, &[0, 3], devices.clone());
        assert!(told.starts_with("11:+2 unknown scheduler; "), "{told}");
        let told = seen_by_step(4, &[3], devices);
        assert!(told.starts_with("11:d+1 unknown scheduler,cgroup; "), "{told}");
    }
}

#[test]
fn a_device_that_is_not_shown_is_not_taken_for_one_that_all_jobs_may_open() {
    let files = |minors: &[u32]| {
        let minors = Some(minors.into());
        let of_job = JobDeviceFiles { job: JobId::new("11").unwrap(), minors };
        let node = with_evidence(four([0, 1, 2, 3]), |known| {
            known.job_devices = [of_job].into();
            let device = |minor| DriverDevice { minor, ..DriverDevice::default() };
            known.driver_devices = [0, 1, 2, 3, 4].map(device).into();
        });
        let node = with_scheduler(node, |known| known.devices = Some(4));
        placed(&node, vec![job("11", "alice", indices(&[0, 1]))])
    };
    assert!(files(&[0, 3]).starts_with("11:ad certain"), "{}", files(&[0, 3]));
    // The device of the fifth file is lost; one of the others may be that which the scheduler does not give to jobs.
    assert!(!files(&[0, 3, 4]).contains("certain"), "{}", files(&[0, 3, 4]));
}

#[test]
fn jobs_of_a_node_come_from_the_list_and_its_processes() {
    let (fleet, job) =
        fleet_with(node_used_by(node(&[("a", None)]), "a", "9"), DeviceAllocation::None);
    let on: Vec<_> =
        fleet.nodes[0].holdings.jobs().iter().map(|known| known.job.as_str()).collect();
    assert_eq!((on.join(","), fleet.unlisted_jobs().len()), ("9,11".to_owned(), 1));
    // Processes may name a job by its SLUID.
    let (fleet, _) =
        fleet_with(node_used_by(node(&[("a", None)]), "a", "s1MXM7XYD0DV00"), indices(&[0]));
    let known = fleet.nodes[0].holdings.job(&job.id).unwrap();
    assert!(known.evidence.has(Evidence::PROCESSES) && fleet.unlisted_jobs().is_empty());
}

#[test]
fn a_machine_has_its_jobs_under_each_of_its_names() {
    let host =
        HostFacts { boot_id: "boot-1".into(), host_name: "h".into(), ..HostFacts::default() };
    let mut known = node(&[("a", None)]);
    known.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
    let alias = Node { name: gtop_model::NodeName::new("alias").unwrap(), ..known.clone() };
    let mut keeper = HoldingsKeeper::default();
    keeper.set_jobs(Some(&list(vec![job("11", "alice", indices(&[0]))])));
    let mut is_allocated = |node: &Node, is_noted: bool| {
        if is_noted {
            keeper.note_name(&known);
            keeper.note_name(&alias);
        }
        let mut placed = Arc::new(node.clone());
        keeper.place(&mut placed);
        placed.holdings.device("a").is_allocated()
    };
    assert_eq!(is_allocated(&alias, false), Some(false));
    assert_eq!(is_allocated(&alias, true), Some(true));
    assert_eq!(is_allocated(&known, true), Some(true));
}

#[test]
fn holdings_are_found_anew_only_when_something_changes() {
    let fleet = Fleet::new([Arc::new(four([0, 1, 2, 3]))].into());
    let mut keeper = HoldingsKeeper::default();
    keeper.set_jobs(Some(&list(vec![job("11", "alice", indices(&[0]))])));
    let mut first = Arc::clone(&fleet.nodes[0]);
    keeper.place(&mut first);
    let mut second = Arc::new(Node { is_settled: true, ..Node::clone(&fleet.nodes[0]) });
    keeper.place(&mut second);
    assert!(Arc::ptr_eq(&first.holdings, &second.holdings));
    keeper.set_jobs(Some(&list(vec![])));
    keeper.place(&mut second);
    assert!(second.holdings.jobs().is_empty());
    assert_eq!(first.holdings.jobs().len(), 1);
    assert_eq!(Duration::from_secs(1), super::learned::START_ROUNDING);
}

#[test]
fn a_readable_gres_conf_tells_that_not_all_devices_are_meant() {
    let all = || vec![job("11", "alice", indices(&[0, 1, 2, 3]))];
    let with_config = |files: [&str; 4]| {
        let node = with_evidence(four([0, 1, 2, 3]), |known| {
            let device = |minor| DriverDevice { minor, ..DriverDevice::default() };
            known.driver_devices = (0..4).map(device).collect();
            let listed = |files: &str| ListedDevice { kind: None, files: files.into() };
            let devices = files.into_iter().map(listed).collect();
            known.config = Some(Arc::new(DeviceConfig { detection: None, devices }));
        });
        placed(&node, all())
    };
    let usual = ["/dev/nvidia3", "/dev/nvidia2", "/dev/nvidia1", "/dev/nvidia0"];
    assert!(with_config(usual).starts_with("11:abcd certain"), "{}", with_config(usual));
    let other = ["/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/dri/renderD128"];
    assert!(!with_config(other).contains("certain"), "{}", with_config(other));
}

#[test]
fn shares_of_jobs_not_shown_may_be_on_the_devices_of_listed_shares() {
    let shares = |list: &[u32]| DeviceAllocation::Shares(list.into());
    let all = (RequestedJobs::All, Some(false));
    let own = (RequestedJobs::Selected, Some(false));
    let private = (RequestedJobs::All, Some(true));
    for (devices, (requested, hides_jobs), rest) in [
        (shares(&[0]), all, Certainty::Certain),
        (shares(&[0]), private, Certainty::Unknown),
        (shares(&[0]), (RequestedJobs::All, None), Certainty::Unknown),
        (shares(&[0]), own, Certainty::Unknown),
        // No share is given of a device that a job has as a whole.
        (indices(&[0]), private, Certainty::Certain),
        // Whether these are shares is not known.
        (DeviceAllocation::Count(1), private, Certainty::Unknown),
    ] {
        let node = four([0, 1, 2, 3]).with_device_list(&[0, 1, 2, 3]);
        let node = with_scheduler(node_used_by(node, "a", "11"), |known| {
            known.devices = Some(4);
            known.allocated_indices = Some([0].into());
            known.gives_shares = true;
        });
        let mut list = JobList::clone(&list(vec![job("11", "alice", devices.clone())]));
        (list.requested, list.hides_jobs) = (requested, hides_jobs);
        let node = node.with_jobs(Some(&Arc::new(list)));
        let of = |uuid: &str| node.holdings.device(uuid).rest;
        assert_eq!((of("a"), of("b")), (rest, Certainty::Certain), "{devices:?} {hides_jobs:?}");
        assert!(holdings_text(&node).starts_with("11:a certain scheduler,processes"));
        let hidden = (rest == Certainty::Certain).then_some(0);
        assert_eq!(node.holdings.hidden, hidden, "{devices:?} {hides_jobs:?}");
    }
}

#[test]
fn two_shares_of_one_device_leave_another_to_jobs_not_shown() {
    let node = with_scheduler(four([0, 1, 2, 3]).with_device_list(&[0, 1, 2, 3]), |known| {
        (known.devices, known.allocated) = (Some(4), Some(2));
        known.gives_shares = true;
    });
    let one = DeviceAllocation::Count(1);
    let node = node_used_by(node_used_by(node, "a", "11"), "a", "12");
    let told = placed(&node, vec![job("11", "alice", one.clone()), job("12", "alice", one)]);
    assert!(told.ends_with(" |  | "), "one more device is in use: {told}");
}

#[test]
fn only_memory_that_may_hold_no_device_matters() {
    let mut keeper = HoldingsKeeper::default();
    let node = node_used_by(four([0, 1, 2, 3]), "a", "7");
    let [little, more, much, most] = [2, 200, 300, 70_000].map(|mebibytes| {
        let memory = Reading::Known(Bytes(mebibytes << 20));
        let uses = node.uses.iter().map(|used| DeviceUse { memory, ..used.clone() }).collect();
        keeper.place(&mut Arc::new(Node { uses, ..node.clone() }));
        keeper.signature_of(&node.name)
    });
    assert!(little != more && more != much);
    assert_eq!(much, most);
}

#[test]
fn a_list_that_is_only_newer_places_nothing_anew() {
    let mut keeper = HoldingsKeeper::default();
    let node = Arc::new(four([0, 1, 2, 3]).with_device_list(&[0, 1, 2, 3]));
    let listed = |change: fn(&mut JobList)| {
        let jobs = vec![job("11", "alice", indices(&[0])), job("12", "bob", indices(&[1]))];
        let mut all = (*list(jobs)).clone();
        change(&mut all);
        Arc::new(all)
    };
    let mut signature = |all: &Arc<JobList>| {
        keeper.set_jobs(Some(all));
        keeper.place(&mut Arc::clone(&node));
        keeper.signature_of(&node.name)
    };
    let known = signature(&listed(|_| ()));
    let newer = listed(|all| {
        all.at = Some(at(99));
        all.jobs[0].run_time = Some(Duration::from_secs(9));
    });
    assert_eq!(signature(&newer), known);
    let changes: [fn(&mut JobList); 11] = [
        |all| all.jobs[1].user = "carol".into(),
        |all| all.jobs[1].state = JobState::Ending,
        |all| all.jobs[1].starts_at = Some(at(7)),
        |all| all.jobs[1].allocations = job("12", "bob", indices(&[2])).allocations,
        |all| drop(all.jobs.pop()),
        |all| all.is_partial = true,
        |all| all.hides_jobs = Some(true),
        |all| all.requested = RequestedJobs::ById,
        // Nothing was answered yet.
        |all| all.at = None,
        // Before the jobs began.
        |all| Arc::make_mut(&mut all.nodes).at = Some(at(50)),
        |all| {
            let known = Arc::new(SchedulerNode::default());
            Arc::make_mut(&mut all.nodes)
                .nodes
                .insert(all.jobs[0].allocations[0].node.clone(), known);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let before = signature(&newer);
        assert_ne!(signature(&listed(change)), before, "{number}");
    }
}
