//! Holdings for the tests of other modules and crates.

#![expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a bad name fails the test")]

use std::sync::Arc;
use std::time::Duration;

use crate::holdings::{
    Certainty, Claim, ClaimKind, DeviceHoldings, Evidence, Holder, JobHoldings, NodeHoldings,
    sort_jobs,
};
use crate::{Fleet, HoldingsKeeper, Node, User};
use gtop_local::time::Timestamp;
use gtop_model::SchedulerProfile;
use gtop_model::{
    Allocation, ConfigurationState, Device, DeviceAllocation, DeviceEvidence, DeviceStatics,
    DeviceUse, DriverDevice, Job, JobId, JobList, NodeName, ProcessStatics, Reading, UnseenProcess,
    UnseenReason, Vendor,
};

impl Node {
    /// The same node, whose scheduler's daemon lists the devices with these minor numbers in this order.
    #[cfg(test)]
    pub(crate) fn with_device_list(mut self, minors: &[u32]) -> Self {
        let listed = |minor: &u32| gtop_model::ListedDevice {
            kind: None,
            files: format!("/dev/nvidia{minor}").into(),
        };
        let daemon = gtop_model::DaemonDevices {
            scheduler: SchedulerProfile::example(),
            list: Some(minors.iter().map(listed).collect()),
            ..gtop_model::DaemonDevices::default()
        };
        let known = self.evidence.as_deref().cloned().unwrap_or_default();
        let evidence = DeviceEvidence { daemon, configuration: settled(), ..known };
        self.evidence = Some(Arc::new(evidence));
        self
    }

    /// The same node with these jobs on it.
    pub fn with_jobs(&self, jobs: Option<&Arc<JobList>>) -> Arc<Self> {
        let mut keeper = HoldingsKeeper::default();
        keeper.set_jobs(jobs);
        let mut placed = Arc::new(self.clone());
        keeper.place(&mut placed);
        placed
    }
}

impl DeviceHoldings {
    /// Holdings of a device that processes of a user, and of their job if they have one, use.
    pub fn example(user: &str, job: Option<&str>) -> Self {
        let holder = Holder { user: User::Named(user.into()), job: job.and_then(JobId::new) };
        let claim = Claim::certain(holder, ClaimKind::Used, Evidence::PROCESSES);
        Self { claims: vec![claim], ..Self::default() }
    }
}

impl NodeHoldings {
    /// Holdings of devices, each with a user and their job.
    pub fn example(devices: &[(&str, &str, Option<&str>)]) -> Self {
        let mut node = Self::default();
        for (uuid, user, job) in devices {
            node.devices.insert((*uuid).into(), DeviceHoldings::example(user, *job));
        }
        node
    }

    /// Holdings of a node on which these jobs run.
    pub fn example_of_jobs(ids: &[&str]) -> Self {
        let jobs = ids.iter().map(|id| JobHoldings {
            job: JobId::new(id).unwrap(),
            is_listed: true,
            devices: Vec::new(),
            evidence: Evidence::default(),
            certainty: Certainty::Unknown,
            unplaced: None,
        });
        let mut jobs: Vec<JobHoldings> = jobs.collect();
        sort_jobs(&mut jobs);
        Self { jobs, ..Self::default() }
    }
}

impl Fleet {
    /// A fleet of one node: the scheduler allocated its only device to job 11, and a process of `job` uses it.
    pub fn example_used_by(job: &str) -> Self {
        let node = node_used_by(nvidia_node(&[("a", Some(0))]), "a", job);
        fleet_with(node, DeviceAllocation::Indices([0].into())).0
    }
}

/// A configuration that the daemon has as it is, and that confines jobs to their devices.
pub(super) fn settled() -> ConfigurationState {
    ConfigurationState {
        changed_at: Some(Timestamp::from_micros(1)),
        is_cached: true,
        confines_jobs: Some(true),
        confinement_changed_at: Some(Timestamp::from_micros(1)),
        ..ConfigurationState::default()
    }
}

/// A node with these devices, each with the device that it is a slice of.
pub(super) fn node(devices: &[(&str, Option<&str>)]) -> Node {
    let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
    let devices = devices.iter().map(|(uuid, parent)| Device {
        uuid: (*uuid).into(),
        parent: parent.map(Into::into),
        ..Device::default()
    });
    node.devices = devices.collect();
    node
}

/// A node with NVIDIA devices, each with its minor number.
pub(super) fn nvidia_node(devices: &[(&str, Option<u32>)]) -> Node {
    let names: Vec<_> = devices.iter().map(|(uuid, _)| (*uuid, None)).collect();
    let mut node = node(&names);
    for (device, (_, minor)) in node.devices.iter_mut().zip(devices) {
        device.vendor = Reading::Known(Vendor::Nvidia);
        let minor = minor.map_or_else(Reading::default, Reading::Known);
        device.statics = DeviceStatics { minor, ..DeviceStatics::default() }.shared();
    }
    let driver_devices = devices.iter().map(|(uuid, minor)| DriverDevice {
        minor: minor.unwrap_or_default(),
        address: "".into(),
        uuid: Some((*uuid).into()),
    });
    node.evidence = Some(Arc::new(DeviceEvidence {
        configuration: settled(),
        driver_devices: driver_devices.collect(),
        ..DeviceEvidence::default()
    }));
    node
}

/// The same node with one more process, in the control group of a job, on a device.
pub(super) fn node_used_by(mut node: Node, device: &str, job: &str) -> Node {
    let statics = ProcessStatics { job: JobId::new(job), ..ProcessStatics::default() };
    let pid = 7 + u32::try_from(node.uses.len()).unwrap();
    let used = DeviceUse { device: device.into(), pid, ..DeviceUse::default() };
    node.uses = node.uses.iter().cloned().chain([used]).collect();
    let process = UnseenProcess { pid, why: UnseenReason::Hidden, statics };
    node.unseen = node.unseen.iter().cloned().chain([process]).collect();
    node
}

/// A fleet of a node with job 11 of alice, and the job as listed.
pub(super) fn fleet_with(node: Node, devices: DeviceAllocation) -> (Fleet, Job) {
    let allocation = Allocation { node: node.name.clone(), devices };
    let job = Job {
        shown_id: "2_1".into(),
        alias: JobId::new("s1MXM7XYD0DV00"),
        allocations: [allocation].into(),
        ..Job::example("11")
    };
    let jobs = JobList {
        scheduler: SchedulerProfile::example(),
        jobs: vec![job.clone()],
        ..JobList::default()
    };
    (Fleet::new(vec![Arc::new(node)].into()).with_jobs(Some(Arc::new(jobs))), job)
}
