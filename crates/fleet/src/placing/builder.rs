//! Collects the claims on the devices of one node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::holdings::{
    Certainty, Claim, ClaimKind, DeviceHoldings, Evidence, Holder, JobHoldings, NodeHoldings,
    sort_jobs,
};
use crate::idle::MIN_HELD_BYTES;
use crate::job_lookup::JobLookup;
use crate::placing::device_map::UnitSet;
use crate::placing::numbering::{NodeUnits, bit};
use crate::placing::proofs::JobProof;
use crate::user::User;
use gtop_model::{Allocation, DeviceAllocation, Job, JobId};

/// The units of one listed job.
#[expect(clippy::struct_excessive_bools, reason = "each is true or false for itself")]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Placed {
    pub(super) certain: UnitSet,
    pub(super) likely: UnitSet,
    /// Units that it may have, those above included.
    pub(super) possible: UnitSet,
    /// How many more it has; `None` if that is not known.
    pub(super) unplaced: Option<usize>,
    /// What is known of it contradicts itself.
    pub(super) is_disputed: bool,
    /// It may have shares of its units, of which other jobs may have shares, too.
    pub(super) may_share: bool,
    /// The daemon may have made another list since its start, by which its next step is given devices.
    pub(super) may_move: bool,
    /// Its units follow from the scheduler's indices or from its control group, and not from processes alone.
    pub(super) is_located: bool,
}

impl Placed {
    /// Returns what may be any units, and of which none is known.
    pub(super) fn anywhere(unplaced: Option<usize>) -> Self {
        Self { possible: UnitSet::MAX, unplaced, ..Self::default() }
    }

    /// Returns the units that are known, certain or not.
    pub(super) const fn known(&self) -> UnitSet {
        self.certain | self.likely
    }

    /// Returns how sure it is that the job does not have a unit beyond those that it is known to have.
    fn certainty_of_rest(&self, unit: UnitSet) -> Certainty {
        let has_it = self.may_move && self.certain & unit != 0;
        if self.possible & unit == 0 || has_it {
            Certainty::Certain
        } else if self.is_disputed {
            Certainty::Disputed
        } else if self.unplaced != Some(0) {
            Certainty::Unknown
        } else if self.likely != 0 || self.may_move {
            Certainty::Likely
        } else {
            Certainty::Certain
        }
    }
}

/// The claims on the devices of one node.
pub(super) struct Builder<'a> {
    units: &'a NodeUnits<'a>,
    /// By UUID, of devices and slices.
    devices: BTreeMap<Arc<str>, DeviceHoldings>,
    jobs: Vec<JobHoldings>,
    users: Vec<Arc<str>>,
    unplaced: usize,
    /// Jobs may have been given devices by different lists, so that two may have the same.
    has_several_lists: bool,
}

impl<'a> Builder<'a> {
    pub(super) fn new(units: &'a NodeUnits<'a>, has_several_lists: bool) -> Self {
        let uuids = units.node.devices.iter().map(|device| Arc::clone(&device.uuid));
        Self {
            units,
            devices: uuids.map(|uuid| (uuid, DeviceHoldings::default())).collect(),
            jobs: Vec::new(),
            users: Vec::new(),
            unplaced: 0,
            has_several_lists,
        }
    }

    /// Adds what a listed job has, and may have.
    pub(super) fn add_job(
        &mut self,
        (job, allocation): (&Job, &Allocation),
        placed: &Placed,
        proof: &JobProof,
    ) {
        let holder = Holder { user: User::Named(Arc::clone(&job.user)), job: Some(job.id.clone()) };
        let is_told =
            !matches!(allocation.devices, DeviceAllocation::Unknown | DeviceAllocation::None);
        let told = if is_told { Evidence::SCHEDULER } else { Evidence::default() };
        let mut evidence = if allocation.devices == DeviceAllocation::Unknown {
            told
        } else {
            Evidence::SCHEDULER
        };
        let mut certainty = if placed.may_move { Certainty::Likely } else { Certainty::Certain };
        for unit in (0..self.units.len()).map(bit) {
            let (is_certain, is_likely) = (placed.certain & unit != 0, placed.likely & unit != 0);
            if is_certain || is_likely {
                let by_index = if placed.is_located { told } else { Evidence::default() };
                let by_proof = proof.evidence(unit);
                let claim = Claim {
                    holder: holder.clone(),
                    kind: if placed.is_located { ClaimKind::Allocated } else { ClaimKind::Located },
                    evidence: by_proof.and(by_index),
                    certainty: match (placed.is_disputed, is_certain) {
                        (true, _) => Certainty::Disputed,
                        (false, true) => Certainty::Certain,
                        (false, false) => Certainty::Likely,
                    },
                    // What its control group lets a job open is its own, by whatever list.
                    may_be_shared: placed.may_share
                        || (self.has_several_lists && !by_proof.has(Evidence::CGROUP)),
                    is_slight: false,
                };
                evidence = evidence.and(claim.evidence);
                certainty = certainty.max(claim.certainty);
                self.add_claim(unit, &claim);
            }
            self.suspect(unit, placed.certainty_of_rest(unit), &holder);
        }
        if placed.is_disputed {
            certainty = Certainty::Disputed;
        } else if placed.unplaced != Some(0) {
            certainty = Certainty::Unknown;
        }
        self.unplaced += placed.unplaced.unwrap_or_default();
        self.jobs.push(JobHoldings {
            job: job.id.clone(),
            is_listed: true,
            devices: self.units.uuids(placed.known()).cloned().collect(),
            evidence,
            certainty,
            unplaced: placed.unplaced.and_then(|count| u32::try_from(count).ok()),
        });
    }

    /// Adds what jobs have that are not listed: `certain` and `likely` units, and `unplaced` ones of those in `possible`.
    pub(super) fn add_not_shown(&mut self, user: User, placed: &Placed) {
        let holder = Holder { user, job: None };
        for unit in (0..self.units.len()).map(bit) {
            let is_certain = placed.certain & unit != 0;
            if is_certain || placed.likely & unit != 0 {
                let certainty = if is_certain { Certainty::Certain } else { Certainty::Likely };
                let (holder, evidence) = (holder.clone(), Evidence::SCHEDULER);
                let claim = Claim::certain(holder, ClaimKind::Allocated, evidence);
                self.add_claim(unit, &Claim { certainty, may_be_shared: true, ..claim });
            }
            self.suspect(unit, placed.certainty_of_rest(unit), &holder);
        }
        self.unplaced += placed.unplaced.unwrap_or_default();
    }

    /// Adds that jobs that are not listed may have shares of these units.
    pub(super) fn add_shared(&mut self, units: UnitSet) {
        let holder = Holder { user: User::NotShown, job: None };
        self.suspect(units, Certainty::Unknown, &holder);
    }

    fn add_claim(&mut self, unit: UnitSet, claim: &Claim) {
        for uuid in self.units.uuids(unit) {
            if let Some(device) = self.devices.get_mut(uuid) {
                device.claims.push(claim.clone());
            }
        }
    }

    fn suspect(&mut self, unit: UnitSet, rest: Certainty, holder: &Holder) {
        for uuid in self.units.uuids(unit) {
            if let Some(device) = self.devices.get_mut(uuid)
                && rest > device.rest
            {
                device.rest = rest;
                device.suspect = Some(holder.clone());
            }
        }
    }

    /// Adds the processes that the driver lists.
    pub(super) fn add_processes(&mut self, jobs: &JobLookup) {
        let node = self.units.node;
        let mut bytes: BTreeMap<&Arc<str>, BTreeMap<Holder, u64>> = BTreeMap::new();
        let mut used_by: BTreeMap<JobId, BTreeSet<&Arc<str>>> = BTreeMap::new();
        for used in node.uses.iter() {
            let statics = node.statics_of(used.pid);
            if let Some(name) = statics.and_then(|statics| statics.user.known()) {
                self.add_user(name);
            }
            let id = statics.and_then(|statics| statics.job.as_ref());
            let listed = id.and_then(|id| jobs.job(id));
            let job = listed.map(|job| job.id.clone()).or_else(|| id.cloned());
            if let Some(job) = job.as_ref().filter(|_| listed.is_none()) {
                used_by.entry(job.clone()).or_default().insert(&used.device);
            }
            let owner = listed.map(|job| User::Named(Arc::clone(&job.user)));
            let Some(user) = owner.or_else(|| node.user_of(used)) else { continue };
            let is_of_environment = statics.is_some_and(|statics| statics.is_job_of_environment);
            let holder = Holder { user, job };
            let memory = used.memory.get().map_or(u64::MAX, |memory| memory.0);
            let of_device = bytes.entry(&used.device).or_default();
            let held = of_device.entry(holder.clone()).or_default();
            *held = held.saturating_add(memory);
            let Some(device) = self.devices.get_mut(&used.device) else { continue };
            let known = device.claims.iter_mut().find(|claim| {
                claim.holder == holder || (listed.is_some() && claim.holder.job == holder.job)
            });
            let mut evidence = Evidence::PROCESSES;
            if is_of_environment {
                evidence = evidence.and(Evidence::ENVIRONMENT);
            }
            match known {
                Some(claim) => claim.evidence = claim.evidence.and(evidence),
                None => device.claims.push(Claim::certain(holder, ClaimKind::Used, evidence)),
            }
        }
        for (uuid, of_device) in &bytes {
            let most = of_device.values().max().copied().unwrap_or_default();
            let Some(device) = self.devices.get_mut(*uuid) else { continue };
            for claim in &mut device.claims {
                let held = of_device.get(&claim.holder).copied();
                claim.is_slight = held.is_some_and(|held| held < MIN_HELD_BYTES.min(most));
            }
        }
        for (job, devices) in used_by {
            let mut devices: Vec<Arc<str>> = devices.into_iter().cloned().collect();
            devices.sort_by_key(|uuid| node.devices.iter().position(|known| known.uuid == *uuid));
            self.jobs.push(JobHoldings {
                job,
                is_listed: false,
                devices,
                evidence: Evidence::PROCESSES,
                certainty: Certainty::Certain,
                unplaced: None,
            });
        }
    }

    /// Adds the name of a user of the node.
    pub(super) fn add_user(&mut self, name: &Arc<str>) {
        if !self.users.contains(name) {
            self.users.push(Arc::clone(name));
        }
    }

    /// Returns what was collected; `hidden` devices are those of jobs that are not listed. A device has what its slices have.
    pub(super) fn finish(mut self, hidden: Option<usize>) -> NodeHoldings {
        for slice in &self.units.node.devices {
            let Some(parent) = &slice.parent else { continue };
            let of_slice = self.devices.get(&slice.uuid).cloned().unwrap_or_default();
            let Some(whole) = self.devices.get_mut(parent) else { continue };
            for claim in of_slice.claims {
                let known = whole.claims.iter_mut().find(|known| known.holder == claim.holder);
                match known {
                    Some(known) => {
                        known.evidence = known.evidence.and(claim.evidence);
                        // A process is certain to use it, and that allocates nothing.
                        (known.kind, known.certainty) =
                            (known.kind, known.certainty).min((claim.kind, claim.certainty));
                        known.may_be_shared |= claim.may_be_shared;
                        known.is_slight &= claim.is_slight;
                    }
                    None => whole.claims.push(claim),
                }
            }
            if of_slice.rest > whole.rest {
                (whole.rest, whole.suspect) = (of_slice.rest, of_slice.suspect);
            }
        }
        for device in self.devices.values_mut() {
            device.claims.sort_by_key(|claim| claim.kind);
        }
        sort_jobs(&mut self.jobs);
        self.jobs.dedup_by(|one, other| one.job == other.job);
        NodeHoldings {
            devices: self.devices,
            jobs: self.jobs,
            users: self.users,
            hidden: hidden.and_then(|count| u32::try_from(count).ok()),
            unplaced: u32::try_from(self.unplaced).unwrap_or(u32::MAX),
        }
    }
}
