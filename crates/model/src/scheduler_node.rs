//! The nodes of a scheduler: their partitions, states and features.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::declare::table;
use crate::id::NodeName;
use gtop_local::time::Timestamp;

/// One node as its scheduler reports it. Texts are safe to show.
#[expect(clippy::struct_excessive_bools, reason = "each is true or false for itself")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerNode {
    /// Its partitions, in the scheduler's order.
    pub partitions: Vec<Arc<str>>,
    /// Its state.
    pub state: NodeState,
    /// The state as the scheduler names it; empty if it is not known.
    pub native_state: Arc<str>,
    /// What the scheduler reports besides.
    pub flags: BTreeSet<NodeFlag>,
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
    /// It gives jobs shares of devices, so that several jobs may have one.
    pub gives_shares: bool,
    /// Its devices by type, in the order of the scheduler's configuration.
    pub device_types: Vec<DeviceType>,
    /// When its daemon started, by the scheduler's clock.
    pub daemon_started_at: Option<Timestamp>,
    /// The version of its daemon.
    pub version: Option<Arc<str>>,
    /// It is watched only because all nodes of its partition are: no listed job runs there.
    pub is_extra: bool,
    /// The scheduler reported it long ago, and has not confirmed it since.
    pub is_old: bool,
    /// What jobs have there was counted long ago, and has not been counted since.
    pub is_count_old: bool,
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
        /// It is expected to fail, and takes no new jobs; some run there.
        Failing = "failing",
        /// It is expected to fail, and takes no jobs.
        Fail = "fail",
        /// It waits for a reboot, or reboots.
        Reboot = "reboot",
        /// Its power is off until a job needs it.
        PoweredDown = "powered down",
        /// It is being powered down.
        PoweringDown = "powering down",
        /// It is being powered up or configured.
        PoweringUp = "powering up",
        /// It is in a reservation for maintenance.
        Maintenance = "maint",
        /// It is in a reservation.
        Reserved = "reserved",
        /// Other nodes block it.
        Blocked = "blocked",
        /// What its daemon found contradicts the configuration.
        Invalid = "inval",
        /// It is configured and does not exist yet.
        Future = "future",
        /// Any other state.
        #[default]
        Other = "other",
    }
    /// All of them.
    pub const ALL;
    /// Returns the name used in JSON and on the screen.
    pub fn as_str -> &'static str;
}

table! {
    /// What a scheduler reports of a node besides its state.
    #[derive(PartialOrd, Ord)]
    pub enum NodeFlag {
        /// What its daemon found contradicts the configuration.
        Invalid = "inval",
        /// It takes no new jobs.
        Drain = "drain",
        /// It is expected to fail.
        Failing = "failing",
        /// Its power is off.
        PoweredDown = "powered down",
        /// It is being powered down.
        PoweringDown = "powering down",
        /// It is powered down once no job runs there.
        PowerDownPending = "power-down pending",
        /// It is being powered up or configured.
        PoweringUp = "powering up",
        /// It is rebooting.
        RebootIssued = "reboot issued",
        /// It reboots once no job runs there.
        RebootPending = "reboot pending",
        /// It is in a reservation for maintenance.
        Maintenance = "maint",
        /// It is in a reservation.
        Reserved = "reserved",
        /// Other nodes block it.
        Blocked = "blocked",
        /// It has no network.
        NoNetwork = "no network",
        /// A job is ending.
        Completing = "completing",
        /// A job is planned there.
        Planned = "planned",
        /// It is in a cloud, and exists while jobs need it.
        Cloud = "cloud",
        /// It has joined the cluster by itself.
        Dynamic = "dynamic",
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
    /// When it reported the states of these nodes, of each then or later; `None` if it never has.
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

    /// Returns when it answered what is known of one of them: the earliest answer that a value is from.
    pub fn answered_at(&self, node: &SchedulerNode) -> Option<Timestamp> {
        let counted_at = self.allocated_at.filter(|_| node.allocated.is_some());
        self.at.into_iter().chain(counted_at).min()
    }
}

impl NodeFlag {
    /// Returns true if a node with this flag gets no new jobs, or only those of a reservation.
    const fn prevents_jobs(self) -> bool {
        !matches!(self, Self::Completing | Self::Planned | Self::Cloud | Self::Dynamic)
    }

    /// Returns true if the node waits for a reboot, or reboots.
    pub const fn is_reboot(self) -> bool {
        matches!(self, Self::RebootPending | Self::RebootIssued)
    }

    /// Returns true if it tells whether the power is on.
    const fn is_of_power(self) -> bool {
        matches!(self, Self::PoweredDown | Self::PoweringDown | Self::PoweringUp)
    }
}

impl SchedulerNode {
    /// Returns a node of which only the state is known; its scheduler reaches it.
    pub fn in_state(state: NodeState, flags: &[NodeFlag]) -> Self {
        let flags = flags.iter().copied().collect();
        Self { state, flags, is_responding: true, ..Self::default() }
    }

    /// Returns true if the machine is powered down, or on its way there or back: nothing on it can answer.
    pub fn is_powered_off(&self) -> bool {
        let is_state_of_power = matches!(
            self.state,
            NodeState::PoweredDown | NodeState::PoweringDown | NodeState::PoweringUp
        );
        is_state_of_power || self.flags.iter().any(|flag| flag.is_of_power())
    }

    /// Returns true if the scheduler starts new jobs there: only then are idle devices free to use.
    pub fn takes_jobs(&self) -> bool {
        use NodeState::{Allocated, Completing, Idle, Mixed, Planned};
        matches!(self.state, Idle | Mixed | Allocated | Completing | Planned)
            && self.is_responding
            && !self.flags.iter().any(|flag| flag.prevents_jobs())
    }

    /// Returns true if a job is ending there: it has its devices until then, and they may no longer be counted.
    pub fn is_completing(&self) -> bool {
        self.state == NodeState::Completing || self.flags.contains(&NodeFlag::Completing)
    }

    /// Returns the number of devices that no job has; `None` if the scheduler does not say, or if a job is ending there.
    pub fn unallocated(&self) -> Option<u32> {
        if self.is_completing() {
            return None;
        }
        Some(self.devices?.saturating_sub(self.allocated?))
    }

    /// Returns the name of its state: the scheduler's own if the model has none for it.
    pub fn state_word(&self) -> &str {
        let is_native = self.state == NodeState::Other && !self.native_state.is_empty();
        if is_native { &self.native_state } else { self.state.as_str() }
    }

    /// Returns the names of its state and of its flags, and that it does not respond.
    pub fn state_words(&self) -> Vec<&str> {
        let flags = self.flags.iter().map(|flag| flag.as_str());
        // The flag is more precise than the state.
        let is_said =
            self.state == NodeState::Reboot && self.flags.iter().any(|flag| flag.is_reboot());
        let state = (!is_said).then(|| self.state_word());
        let is_silent =
            !self.is_responding && self.state != NodeState::Down && !self.is_powered_off();
        state.into_iter().chain(flags).chain(is_silent.then_some("not responding")).collect()
    }

    /// Returns its state as text, with the reason if it takes no jobs: `drained, not responding: bad cable`.
    pub fn state_text(&self) -> String {
        let state = self.state_words().join(", ");
        match &self.reason {
            Some(reason) if !self.takes_jobs() => format!("{state}: {reason}"),
            Some(_) | None => state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for (state, flags) in
            [(NodeState::Completing, &[][..]), (NodeState::Mixed, &[NodeFlag::Completing])]
        {
            let ending = SchedulerNode {
                devices: Some(8),
                allocated: Some(0),
                ..SchedulerNode::in_state(state, flags)
            };
            assert_eq!(ending.unallocated(), None, "{state:?}");
        }
    }

    #[test]
    fn what_is_known_of_a_node_is_as_old_as_the_oldest_answer_that_it_is_from() {
        let second = |second: i64| Some(Timestamp::from_micros(second * 1_000_000));
        let answered_at = |at, allocated_at, allocated| {
            let nodes = SchedulerNodes { at, allocated_at, ..SchedulerNodes::default() };
            nodes.answered_at(&SchedulerNode { allocated, ..SchedulerNode::default() })
        };
        assert_eq!(answered_at(second(9), second(4), Some(0)), second(4));
        assert_eq!(answered_at(second(4), second(9), Some(0)), second(4));
        assert_eq!(answered_at(second(9), second(4), None), second(9));
        assert_eq!(answered_at(second(9), None, Some(0)), second(9));
        assert_eq!(answered_at(None, None, None), None);
    }
}
