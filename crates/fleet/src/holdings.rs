//! Who has which device of a node: from what that is known, and how sure it is.
//!
//! The one answer for screen, exports, filters, totals, reports and `gtop pick`. What is only assumed is never shown as
//! certain, and a device that somebody may have is nobody's and not free.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::user::User;
use gtop_model::{JobId, table};

table! {
    /// How sure it is that somebody has a device, the surest first.
    #[derive(Default, PartialOrd, Ord)]
    pub enum Certainty {
        /// It is proved.
        #[default]
        Certain = "certain",
        /// It follows from a rule that holds on most nodes.
        Likely = "likely",
        /// What is known contradicts itself.
        Disputed = "disputed",
        /// Nothing tells.
        Unknown = "unknown",
    }
    /// Returns the name used in JSON and on the screen.
    pub fn as_str -> &'static str;
}

/// From what it is known that somebody has a device; several sources may agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Evidence(u8);

impl Evidence {
    /// The scheduler's indices.
    pub const SCHEDULER: Self = Self(1);
    /// What a job's control group lets it open.
    pub(crate) const CGROUP: Self = Self(2);
    /// The processes that the driver lists.
    pub const PROCESSES: Self = Self(4);
    /// The UUIDs or the job that a process names in its environment.
    pub const ENVIRONMENT: Self = Self(8);

    const NAMES: [(Self, &'static str); 4] = [
        (Self::SCHEDULER, "scheduler"),
        (Self::CGROUP, "cgroup"),
        (Self::PROCESSES, "processes"),
        (Self::ENVIRONMENT, "environment"),
    ];

    /// Returns both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if all of `other` is part of it.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns the names used in JSON: `scheduler`, `cgroup`, `processes`, `environment`.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(kind, _)| self.has(*kind)).map(|(_, name)| name)
    }
}

/// Who has a device: a user, with a job if there is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// The user.
    pub user: User,
    /// As the scheduler numbers it.
    pub job: Option<JobId>,
}

/// What somebody has of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClaimKind {
    /// The scheduler gave it to the job.
    Allocated,
    /// The scheduler gave devices to the job, and only its processes show that this is one; it may share it.
    Located,
    /// Processes use it.
    Used,
}

/// That somebody has a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Who has it.
    pub holder: Holder,
    /// What it has of it.
    pub kind: ClaimKind,
    /// From what that is known.
    pub evidence: Evidence,
    /// How sure it is.
    pub certainty: Certainty,
    /// Another job may have it, too: it is a share, or the scheduler's list of devices is not that of all jobs of the node.
    pub(crate) may_be_shared: bool,
    /// Its processes use little memory of the device, and those of others use more.
    pub(crate) is_slight: bool,
}

/// Who has one device, or slice. Those of a device include those of its slices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceHoldings {
    /// Those that the scheduler's jobs have come first.
    pub claims: Vec<Claim>,
    /// How sure it is that nobody else has it.
    pub rest: Certainty,
    /// A job that may have it, if nobody is known to.
    pub(crate) suspect: Option<Holder>,
}

/// What one job has on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobHoldings {
    /// As the scheduler numbers it.
    pub job: JobId,
    /// The scheduler lists it; otherwise it is known from processes alone.
    pub is_listed: bool,
    /// The devices and slices that it is known to have, in the order of the node.
    pub devices: Vec<Arc<str>>,
    /// From what they are known; what disputes them is part of it.
    pub evidence: Evidence,
    /// That of the least sure of them; unknown if it is not known which it has.
    pub certainty: Certainty,
    /// How many more it has, of which it is not known which they are; `None` if that number is not known either.
    pub unplaced: Option<u32>,
}

/// Who has the devices of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeHoldings {
    /// Devices and slices by UUID.
    pub(super) devices: BTreeMap<Arc<str>, DeviceHoldings>,
    /// By number.
    pub(super) jobs: Vec<JobHoldings>,
    /// The users of those jobs, and of processes, in the order found.
    pub(super) users: Vec<Arc<str>>,
    /// How many devices jobs have that are not listed; `None` if it is not known whether any have.
    pub hidden: Option<u32>,
    /// Of how many devices it is known that jobs have them, and not which they are.
    pub unplaced: u32,
}

impl DeviceHoldings {
    /// Returns true if a job has it; `None` if one may have it, however unlikely.
    pub(crate) fn is_allocated(&self) -> Option<bool> {
        if self.claims.iter().any(Claim::is_allocation) {
            return Some(true);
        }
        (self.rest == Certainty::Certain).then_some(false)
    }

    /// Returns those that hold it: jobs that the scheduler gave it to or, without one, all whose processes use it. Of a
    /// device known from processes alone, little memory does not count beside more.
    pub fn holders(&self) -> impl Iterator<Item = &Claim> {
        let is_exclusive = self.claims.iter().any(|claim| claim.kind == ClaimKind::Allocated);
        self.claims.iter().filter(move |claim| match claim.kind {
            ClaimKind::Allocated | ClaimKind::Located => true,
            ClaimKind::Used => !is_exclusive && !claim.is_slight,
        })
    }

    /// Returns how sure it is who has it: the least sure of its holders or, without any, whether it has none.
    pub fn certainty(&self) -> Certainty {
        self.holders().map(|claim| claim.certainty).max().unwrap_or(self.rest)
    }

    /// Returns the jobs that have it or whose processes use it.
    pub fn jobs(&self) -> impl Iterator<Item = &JobId> {
        let jobs = self.claims.iter().enumerate();
        jobs.filter_map(|(position, claim)| {
            let job = claim.holder.job.as_ref()?;
            let mut before = self.claims.iter().take(position);
            (!before.any(|earlier| earlier.holder.job.as_ref() == Some(job))).then_some(job)
        })
    }

    /// Returns the names of the users that have it or whose processes use it.
    pub fn users(&self) -> Vec<&Arc<str>> {
        let mut users = Vec::new();
        for claim in &self.claims {
            if let User::Named(name) = &claim.holder.user
                && !users.contains(&name)
            {
                users.push(name);
            }
        }
        users
    }
}

impl Claim {
    /// Returns a claim that is certain, of which a holder shares nothing.
    pub(super) fn certain(holder: Holder, kind: ClaimKind, evidence: Evidence) -> Self {
        let certainty = Certainty::Certain;
        Self { holder, kind, evidence, certainty, may_be_shared: false, is_slight: false }
    }

    /// Returns true if the device belongs to a job of the scheduler, however that is known.
    pub(crate) fn is_allocation(&self) -> bool {
        self.kind != ClaimKind::Used
    }
}

impl JobHoldings {
    /// Returns true if all its devices are known.
    pub fn is_complete(&self) -> bool {
        self.unplaced == Some(0) && self.certainty <= Certainty::Likely
    }

    /// Returns true if which devices it has is known at all.
    pub fn is_known(&self) -> bool {
        self.unplaced == Some(0) || !self.devices.is_empty()
    }
}

/// Returns the place of a job among those of a node: by number.
fn order(job: &JobId) -> (u64, &str) {
    let id = job.as_str();
    (id.parse().unwrap_or(u64::MAX), id)
}

/// Sorts the jobs of a node.
pub(super) fn sort_jobs(jobs: &mut [JobHoldings]) {
    jobs.sort_by(|one, other| order(&one.job).cmp(&order(&other.job)));
}

impl NodeHoldings {
    /// Returns who has a device or slice.
    pub fn device(&self, uuid: &str) -> &DeviceHoldings {
        static NONE: DeviceHoldings =
            DeviceHoldings { claims: Vec::new(), rest: Certainty::Certain, suspect: None };
        self.devices.get(uuid).unwrap_or(&NONE)
    }

    /// Returns the jobs, from the scheduler and from processes, sorted by number.
    pub fn jobs(&self) -> &[JobHoldings] {
        &self.jobs
    }

    /// Returns what a job has.
    pub fn job(&self, id: &JobId) -> Option<&JobHoldings> {
        let found = self.jobs.binary_search_by(|known| order(&known.job).cmp(&order(id)));
        self.jobs.get(found.ok()?)
    }

    /// Returns the names of the users of its jobs and processes.
    pub fn users(&self) -> &[Arc<str>] {
        &self.users
    }

    /// Formats the first of the users and the number of others.
    pub fn users_text(&self) -> Option<String> {
        let first = self.users.iter().min()?;
        Some(match self.users.len() {
            1 => first.to_string(),
            count => format!("{first} +{}", count - 1),
        })
    }

    /// Returns what concerns these devices alone.
    #[must_use]
    pub(crate) fn of_devices(&self, is_shown: impl Fn(&str) -> bool) -> Self {
        let mut shown = self.clone();
        shown.devices.retain(|uuid, _| is_shown(uuid));
        for job in &mut shown.jobs {
            job.devices.retain(|uuid| is_shown(uuid));
        }
        shown
    }
}
