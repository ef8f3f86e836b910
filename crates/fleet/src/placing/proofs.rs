//! What a node proves about the devices of jobs, whatever the scheduler's indices mean.

use std::collections::BTreeMap;

use crate::holdings::Evidence;
use crate::placing::device_map::{UnitSet, count_ones, union};
use crate::placing::numbering::{NodeUnits, bit};
use gtop_model::{DeviceEvidence, JobId};

/// What is proved about the units of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JobProof {
    /// What its control group lets it open, if that is not everything. Of a device with slices these are all of them, and
    /// devices that the scheduler does not know are open to every job.
    pub(super) opens: Option<UnitSet>,
    /// Those of the scheduler's that one of its steps can open, which may have fewer than the job.
    pub(super) step: UnitSet,
    /// Those that processes in its control group use, where jobs are confined to their devices.
    pub(super) used: UnitSet,
    /// Those that such processes name in their environment, which anybody may write.
    pub(super) named: UnitSet,
    /// Those used by processes that have the job from their environment alone, or where nothing confines jobs to their
    /// devices: that proves nothing.
    pub(super) claimed: UnitSet,
}

impl JobProof {
    /// Returns the units that the job certainly has, of as many as the scheduler gave it, if that is known.
    pub(super) fn certain(&self, count: Option<usize>) -> UnitSet {
        self.confined_to(count).unwrap_or_default() | self.of_step(count) | self.used
    }

    /// Returns the units of a job that can open no more than it has.
    pub(super) fn confined_to(&self, count: Option<usize>) -> Option<UnitSet> {
        let step = Some(self.step).filter(|step| *step != 0);
        [self.opens, step].into_iter().flatten().find(|units| Some(count_ones(*units)) == count)
    }

    /// Returns the units that one of its steps can open, if they are not more than the job has.
    pub(super) fn of_step(&self, count: Option<usize>) -> UnitSet {
        if Some(count_ones(self.step)) <= count { self.step } else { 0 }
    }

    /// Returns what shows that the job has a unit.
    pub(super) fn evidence(&self, unit: UnitSet) -> Evidence {
        let kinds = [
            (self.opens.unwrap_or_default() | self.step, Evidence::CGROUP),
            (self.used | self.claimed, Evidence::PROCESSES),
            (self.named, Evidence::ENVIRONMENT),
        ];
        let told = kinds.into_iter().filter(|(units, _)| units & unit != 0);
        told.fold(Evidence::default(), |all, (_, kind)| all.and(kind))
    }
}

/// What jobs can open. Devices that the scheduler does not know are open to every job.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobBounds {
    /// Jobs can open no devices of others; `None` if that is not known.
    pub(super) confines_jobs: Option<bool>,
    /// Units that the scheduler certainly gives to jobs.
    pub(super) managed: UnitSet,
    /// Units that it may give to jobs, those above included.
    pub(super) manageable: UnitSet,
}

/// Returns what is proved about each job of a node; `id_of` returns the id by which the scheduler lists a job.
pub(super) fn proofs_of(
    units: &NodeUnits<'_>,
    bounds: &JobBounds,
    id_of: impl Fn(&JobId) -> JobId,
) -> BTreeMap<JobId, JobProof> {
    let node = units.node;
    let evidence = node.evidence.as_deref();
    let mut proofs: BTreeMap<JobId, JobProof> = BTreeMap::new();
    for used in node.uses.iter() {
        let Some(statics) = node.statics_of(used.pid) else { continue };
        let Some(job) = statics.job.as_ref().map(&id_of) else { continue };
        let is_confined = bounds.confines_jobs.unwrap_or_else(|| {
            let mut groups = evidence.iter().flat_map(|evidence| evidence.job_devices.iter());
            groups.any(|known| id_of(&known.job) == job)
        });
        let proof = proofs.entry(job).or_default();
        let unit = units.position(&used.device).map_or(0, bit);
        if !statics.is_job_of_environment && is_confined && bounds.managed & unit != 0 {
            proof.used |= unit;
        } else {
            proof.claimed |= unit & bounds.manageable;
        }
        proof.named |= union(statics.visible_uuids.iter().map(|uuid| units.named(uuid)));
    }
    let Some(evidence) = evidence else { return proofs };
    for files in evidence.job_devices.iter() {
        let Some(minors) = files.minors.as_deref() else { continue };
        // A device that is not shown leaves its place to one that the scheduler does not know.
        let is_exact = bounds.managed == bounds.manageable
            || minors.iter().all(|minor| units.on_minors(&[*minor]) != 0);
        if is_exact && is_confining(units, evidence, minors) {
            let proof = proofs.entry(id_of(&files.job)).or_default();
            proof.opens = Some(units.on_minors(minors) & bounds.manageable);
        }
    }
    let own_job = node.hello.as_ref().and_then(|hello| hello.host.job.as_ref());
    if let Some((job, minors)) = own_job.zip(evidence.openable.as_deref()) {
        // The driver shows a confined job no slices but its own.
        let has_own_slices = units.has_slices() && bounds.confines_jobs == Some(true);
        if has_own_slices || is_confining(units, evidence, minors) {
            let proof = proofs.entry(id_of(job)).or_default();
            proof.step = units.on_minors(minors) & bounds.managed;
        }
    }
    proofs
}

/// Returns true if these are not the device files of all devices.
fn is_confining(units: &NodeUnits<'_>, evidence: &DeviceEvidence, minors: &[u32]) -> bool {
    if evidence.driver_devices.is_empty() {
        return count_ones(units.on_minors(minors)) < units.len();
    }
    evidence.driver_devices.iter().any(|device| !minors.contains(&device.minor))
}
