//! Why a device counts as it does.

use crate::headline::DeviceState;
use crate::idle::{
    LastState, is_known_idle, is_memory_refused, is_whole_in_use, unexplained_memory,
};
use crate::node::Node;
use gtop_local::time::Timestamp;
use gtop_model::Device;
use gtop_model::table;

table! {
    /// Why a device is not free, or not known to be. How sound it is has reasons of its own, [`HealthReason`].
    ///
    /// [`HealthReason`]: crate::HealthReason
    pub enum StateReason {
        /// The scheduler gave it to a job.
        Allocated = ("allocated", "allocated to a job", ""),
        /// Processes have memory of it, or keep it open.
        InUse = ("in_use", "in use by processes", ""),
        /// Memory is in use that no process has which the driver lists.
        MemoryWithoutProcess = ("memory_without_process", "memory is in use, and no listed process has it", ""),
        /// How much of its memory is in use cannot be read.
        MemoryUnknown = ("memory_unknown", "its memory usage is unknown", "MEM?"),
        /// Processes use it that are not seen.
        HiddenProcesses = ("hidden_processes", "used by processes that gtop cannot see", "HIDDEN"),
        /// Which processes use it cannot be read.
        UsersUnknown = ("users_unknown", "its processes are unknown", "USERS?"),
        /// How busy it is cannot be read.
        LoadUnknown = ("load_unknown", "its load is unknown", ""),
        /// A job whose devices are not all known may have it.
        MayBeAllocated = ("may_be_allocated", "a job may have it", ""),
        /// The login may not read it.
        NotReadable = ("not_readable", "it cannot be read", ""),
        /// The scheduler gives its node no jobs.
        NodeTakesNoJobs = ("node_takes_no_jobs", "free, and its node takes no jobs", ""),
        /// It is in MIG mode without slices.
        NoSlices = ("no_slices", "it is in MIG mode without slices", ""),
    }
    /// Returns its name for programs, which never changes, its text, and its word in the row of the device.
    fn texts -> (&'static str, &'static str, &'static str);
}

impl StateReason {
    /// Returns its name for programs, which never changes.
    pub const fn id(self) -> &'static str {
        self.texts().0
    }

    /// Returns it in words.
    pub const fn text(self) -> &'static str {
        self.texts().1
    }

    /// Returns its word if nothing else in the row of the device shows it.
    pub const fn name(self) -> Option<&'static str> {
        let word = self.texts().2;
        if word.is_empty() { None } else { Some(word) }
    }

    /// Returns why the device at this position of a node counts as it does now; `None` if it is busy, free, faulty or stale,
    /// or does not count.
    pub fn of(node: &Node, position: usize, now: Timestamp) -> Option<Self> {
        let is_counted = DeviceState::of(node, position, now)? != DeviceState::Stale;
        is_counted.then(|| Self::last_known(node, position)).flatten()
    }

    /// Returns why the device at this position of a node is in its state, as last known.
    pub fn last_known(node: &Node, position: usize) -> Option<Self> {
        let device = node.devices.get(position)?;
        let is_allocated = node.holdings.device(&device.uuid).is_allocated() == Some(true);
        match LastState::of(node, position, device) {
            LastState::Busy | LastState::Free | LastState::Faulty => None,
            LastState::IdleHeld | LastState::InUse if is_allocated => Some(Self::Allocated),
            LastState::IdleHeld | LastState::InUse => Some(Self::InUse),
            LastState::Unavailable if node.is_without_slices(device) => Some(Self::NoSlices),
            LastState::Unavailable => Some(Self::NodeTakesNoJobs),
            LastState::Unknown => Some(Self::of_unknown(node, position, device)),
        }
    }

    /// Returns why it is not known whether a device is free.
    fn of_unknown(node: &Node, position: usize, device: &Device) -> Self {
        if device.fault.is_some() {
            Self::NotReadable
        } else if is_whole_in_use(node, device) {
            Self::InUse
        } else if unexplained_memory(node, device).is_some() {
            Self::MemoryWithoutProcess
        } else if is_memory_refused(device) {
            Self::MemoryUnknown
        } else if device.hidden_processes.get().is_some_and(|count| count > 0) {
            Self::HiddenProcesses
        } else if node.users_unknown_reason(position).is_some() {
            Self::UsersUnknown
        } else if !is_known_idle(device) {
            Self::LoadUnknown
        } else {
            Self::MayBeAllocated
        }
    }
}
