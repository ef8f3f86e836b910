//! What a scheduler says of its nodes: their partitions, states and features.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::declare::table;
use crate::model::id::NodeName;
use crate::time::Timestamp;

/// One node as its scheduler reports it. Texts are safe to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerNode {
    /// Its partitions, in the scheduler's order.
    pub partitions: Vec<Arc<str>>,
    /// Whether it takes jobs.
    pub state: NodeState,
    /// The scheduler reaches its daemon on the node.
    pub is_responding: bool,
    /// Why it takes no jobs, as its administrator or the scheduler wrote it.
    pub reason: Option<Arc<str>>,
    /// Its features, by which jobs select it.
    pub features: Vec<Arc<str>>,
    /// Number of devices; `None` if the scheduler does not say.
    pub devices: Option<u32>,
    /// Number of devices that jobs have; `None` if it was not asked for.
    pub allocated: Option<u32>,
    /// The indices of the devices that jobs have, those of jobs that are not listed included, in rising order; `None` if
    /// the scheduler does not tell.
    pub allocated_indices: Option<Arc<[u32]>>,
    /// Its devices by type, in the order in which the scheduler is told of them.
    pub device_types: Vec<DeviceType>,
    /// When its daemon started, by the scheduler's clock.
    pub daemon_started_at: Option<Timestamp>,
    /// The version of its daemon.
    pub version: Option<Arc<str>>,
    /// It is watched only because all nodes of its partition are: no listed job runs there.
    pub is_extra: bool,
    /// The scheduler said so long ago, and has not confirmed it since.
    pub is_old: bool,
}

/// Devices of one type, as the administrator named it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceType {
    /// The type, such as `h100`; `None` if they have none.
    pub name: Option<Arc<str>>,
    /// Number of devices.
    pub count: u32,
}

table! {
    /// The scheduler's state of a node.
    #[derive(Default, PartialOrd, Ord)]
    pub enum NodeState {
        /// No job runs there.
        Idle = "idle",
        /// Jobs have a part of it.
        Mixed = "mixed",
        /// Jobs have all of it.
        Allocated = "allocated",
        /// A job is ending.
        Completing = "completing",
        /// It takes jobs, and waits for one that is planned there.
        Planned = "planned",
        /// It takes no new jobs and waits until the running ones have ended.
        Draining = "draining",
        /// It takes no jobs until it is resumed.
        Drained = "drained",
        /// The scheduler does not use it.
        Down = "down",
        /// It is in a reservation for maintenance.
        Maintenance = "maint",
        /// It is in a reservation.
        Reserved = "reserved",
        /// Any other state.
        #[default]
        Other = "other",
    }
    /// All of them.
    pub const ALL;
    /// Returns the name used in JSON and on the screen.
    pub fn as_str -> &'static str;
}

/// The nodes of a scheduler at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedulerNodes {
    /// The watched nodes that it knows.
    pub nodes: BTreeMap<NodeName, Arc<SchedulerNode>>,
    /// When it answered; `None` when it never has.
    pub at: Option<Timestamp>,
    /// When it was asked which devices jobs have; `None` when it never answered that.
    pub allocated_at: Option<Timestamp>,
    /// It has not answered yet which devices jobs have.
    pub awaits_allocated: bool,
}

impl SchedulerNodes {
    /// Returns when it counted the devices that jobs have: jobs that have started since are not in the numbers.
    pub fn counted_at(&self) -> Option<Timestamp> {
        self.allocated_at.or(self.at)
    }
}

impl NodeState {
    /// Parses a state as Slurm writes it, such as `idle` or `down*`: the letters count, and `$` for maintenance.
    pub fn from_slurm(word: &str) -> Self {
        if word.ends_with('$') {
            return Self::Maintenance;
        }
        let letters = word.split(|letter: char| !letter.is_ascii_alphabetic() && letter != '_');
        match letters.map(str::to_ascii_lowercase).next().unwrap_or_default().as_str() {
            "idle" => Self::Idle,
            "mixed" => Self::Mixed,
            "allocated" => Self::Allocated,
            "completing" => Self::Completing,
            "planned" => Self::Planned,
            "draining" => Self::Draining,
            "drained" => Self::Drained,
            "down" | "error" | "fail" | "failing" | "powered_down" | "powering_down" => Self::Down,
            "maint" => Self::Maintenance,
            "reserved" => Self::Reserved,
            _ => Self::Other,
        }
    }
}

impl SchedulerNode {
    /// Returns true if the scheduler starts new jobs there: only then are idle devices free to use.
    pub fn takes_jobs(&self) -> bool {
        let takes_jobs = match self.state {
            NodeState::Idle
            | NodeState::Mixed
            | NodeState::Allocated
            | NodeState::Completing
            | NodeState::Planned => true,
            NodeState::Draining
            | NodeState::Drained
            | NodeState::Down
            | NodeState::Maintenance
            | NodeState::Reserved
            | NodeState::Other => false,
        };
        takes_jobs && self.is_responding
    }

    /// Returns the number of devices that no job has; `None` if the scheduler does not say.
    pub fn unallocated(&self) -> Option<u32> {
        Some(self.devices?.saturating_sub(self.allocated?))
    }

    /// Returns its state in words, with the reason if it takes no jobs: `drained: bad cable`.
    pub fn state_text(&self) -> String {
        let state = self.state.as_str();
        let is_silent = !self.is_responding && self.state != NodeState::Down;
        let silent = if is_silent { ", not responding" } else { "" };
        match &self.reason {
            Some(reason) if !self.takes_jobs() => format!("{state}{silent}: {reason}"),
            Some(_) | None => format!("{state}{silent}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_slurm_are_known_with_their_marks() {
        for (word, state) in [
            ("idle", NodeState::Idle),
            ("IDLE~", NodeState::Idle),
            ("mixed-", NodeState::Mixed),
            ("allocated+", NodeState::Allocated),
            ("drained*", NodeState::Drained),
            ("draining@", NodeState::Draining),
            ("down*", NodeState::Down),
            ("idle$", NodeState::Maintenance),
            ("powering_down", NodeState::Down),
            ("maint", NodeState::Maintenance),
            ("future", NodeState::Other),
            ("inval", NodeState::Other),
            ("*", NodeState::Other),
            ("", NodeState::Other),
        ] {
            assert_eq!(NodeState::from_slurm(word), state, "{word}");
        }
    }

    #[test]
    fn a_node_that_takes_no_jobs_says_why() {
        let node = |state, is_responding| SchedulerNode {
            state,
            is_responding,
            reason: Some("bad cable".into()),
            ..SchedulerNode::default()
        };
        for (node, takes_jobs, text) in [
            (node(NodeState::Idle, true), true, "idle"),
            (node(NodeState::Idle, false), false, "idle, not responding: bad cable"),
            (node(NodeState::Down, false), false, "down: bad cable"),
            (node(NodeState::Drained, true), false, "drained: bad cable"),
            (node(NodeState::Draining, true), false, "draining: bad cable"),
            (node(NodeState::Other, true), false, "other: bad cable"),
        ] {
            assert_eq!((node.takes_jobs(), node.state_text().as_str()), (takes_jobs, text));
        }
    }

    #[test]
    fn devices_without_a_job_are_unknown_until_both_numbers_are_known() {
        let node =
            |devices, allocated| SchedulerNode { devices, allocated, ..SchedulerNode::default() };
        assert_eq!(node(Some(8), Some(3)).unallocated(), Some(5));
        assert_eq!(node(Some(8), Some(9)).unallocated(), Some(0));
        assert_eq!(node(Some(8), None).unallocated(), None);
        assert_eq!(node(None, Some(1)).unallocated(), None);
    }
}
