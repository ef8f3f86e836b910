//! What each node and each device counts as in the summary lines: one declaration for the totals, their labels and the
//! words of filters.

use crate::idle::LastState;
use crate::node::Node;
use gtop_local::time::Timestamp;
use gtop_model::SchedulerNode;
use gtop_model::table;

table! {
    /// What a node counts as, with its name: exactly one of these.
    pub enum NodeCount {
        /// Its newest samples are fresh.
        Fresh = "fresh",
        /// It has not sent a sample yet.
        Connecting = "connecting",
        /// It is connected, and its newest samples are old.
        Stale = "stale",
        /// It is not connected.
        Down = "down",
        /// It is powered off, or does not let gtop in and needs not: what the scheduler reports is all that is known.
        Reported = "reported",
    }
    /// All of them.
    #[cfg(any(test, feature = "testing"))]
    pub const ALL;
    /// Returns its name in summaries and filters.
    pub fn name -> &'static str;
}

table! {
    /// What a device counts as, with its name: exactly one of these. Of a device with slices, these count and it does not.
    pub enum DeviceState {
        /// At 5 % utilization or more.
        Busy = "busy",
        /// Allocated or in use, and idle.
        IdleHeld = "idle-held",
        /// Neither allocated nor in use, and idle.
        Free = "free",
        /// The driver reports a fault.
        Faulty = "faulty",
        /// Its node is not fresh.
        Stale = "stale",
        /// Nobody can be given it: its node takes no jobs, or it is in MIG mode without slices.
        Unavailable = "unavailable",
        /// Not known to be busy, idle-held, in use or free.
        Unknown = "unknown",
        /// Allocated or in use, and how busy is not known.
        InUse = "in-use",
    }
    /// All of them.
    #[cfg(any(test, feature = "testing"))]
    pub const ALL;
    /// Returns its name in summaries and filters.
    pub fn name -> &'static str;
}

impl NodeCount {
    /// Returns what a node counts as.
    pub fn of(node: &Node, now: Timestamp) -> Self {
        if node.reported().is_some() {
            Self::Reported
        } else if node.fault().is_some() {
            Self::Down
        } else if node.freshness(now).is_fresh() {
            Self::Fresh
        } else if node.taken_at().is_some() {
            Self::Stale
        } else {
            Self::Connecting
        }
    }
}

impl DeviceState {
    /// Returns its name for programs, which never changes.
    pub const fn id(self) -> &'static str {
        if matches!(self, Self::IdleHeld) {
            return "idle_held";
        }
        if matches!(self, Self::InUse) { "in_use" } else { self.name() }
    }

    /// Returns what the device at this position of a node counts as; `None` if there is none, if its slices count instead,
    /// or if the node counts as the scheduler reports it.
    #[doc(hidden)]
    pub fn of(node: &Node, position: usize, now: Timestamp) -> Option<Self> {
        let device = node.devices.get(position).filter(|device| !node.has_slices(device))?;
        match NodeCount::of(node, now) {
            NodeCount::Fresh => Some(LastState::of(node, position, device).into()),
            NodeCount::Connecting | NodeCount::Stale | NodeCount::Down => Some(Self::Stale),
            NodeCount::Reported => None,
        }
    }

    /// Returns what the devices of a node known from the scheduler alone count as, and how many: those of jobs are in use, and
    /// all are unknown if the scheduler's answer is old.
    pub(crate) fn of_reported(node: &SchedulerNode) -> [(Self, usize); 2] {
        let all = node.devices.unwrap_or(0);
        let is_old = node.is_old || node.is_count_old;
        let usable = if node.takes_jobs() { Self::Free } else { Self::Unavailable };
        let told = node.unallocated().filter(|_| !is_old);
        let rest = if told.is_some() { Self::InUse } else { Self::Unknown };
        let unused = told.unwrap_or(0).min(all);
        [(usable, unused), (rest, all - unused)]
            .map(|(count, devices)| (count, usize::try_from(devices).unwrap_or(0)))
    }
}

impl Node {
    /// Returns the number of its devices, slices instead of what they are cut from: as the scheduler says if it is known
    /// from there alone.
    pub fn device_count(&self) -> usize {
        match self.reported() {
            Some(known) => DeviceState::of_reported(known).iter().map(|(_, devices)| devices).sum(),
            None => self.units().count(),
        }
    }

    /// Returns the positions of its [units](Self::units). Of a node known from the scheduler alone they are those in
    /// `DeviceState::of_reported`, where devices that count as the same share one.
    pub fn device_positions(&self) -> impl Iterator<Item = usize> {
        let reported = self.reported().map(DeviceState::of_reported);
        let own = reported.is_none().then(|| self.units().map(|(position, _)| position));
        let counted = reported.into_iter().flatten().enumerate();
        let counted =
            counted.filter(|(_, (_, devices))| *devices > 0).map(|(position, _)| position);
        counted.chain(own.into_iter().flatten())
    }
}

impl From<LastState> for DeviceState {
    fn from(state: LastState) -> Self {
        match state {
            LastState::Busy => Self::Busy,
            LastState::IdleHeld => Self::IdleHeld,
            LastState::Free => Self::Free,
            LastState::Faulty => Self::Faulty,
            LastState::Unknown => Self::Unknown,
            LastState::InUse => Self::InUse,
            LastState::Unavailable => Self::Unavailable,
        }
    }
}
