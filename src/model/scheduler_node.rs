//! What a scheduler says of its nodes: their partitions, states and features.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::declare::table;
use crate::model::id::NodeName;
use crate::time::Timestamp;

/// One node as its scheduler reports it. Texts are safe to show.
#[expect(clippy::struct_excessive_bools, reason = "each is true or false for itself")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerNode {
    /// Its partitions, in the scheduler's order.
    pub partitions: Vec<Arc<str>>,
    /// What it does, as far as one word says it.
    pub state: NodeState,
    /// What the scheduler says besides.
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
        /// What its daemon found contradicts the configuration (Slurm: INVAL).
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
    /// What a scheduler says of a node besides its state.
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
    /// When it said the states of these nodes, of each at the earliest then; `None` when it never has.
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

impl NodeState {
    /// Parses the first word of a state of Slurm, in lower case, long or short.
    fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "idle" => Self::Idle,
            "mixed" | "mix" => Self::Mixed,
            "allocated" | "alloc" => Self::Allocated,
            "completing" | "comp" => Self::Completing,
            "planned" | "plnd" => Self::Planned,
            "draining" | "drng" => Self::Draining,
            "drained" | "drain" => Self::Drained,
            "down" | "error" => Self::Down,
            "fail" => Self::Fail,
            "failing" | "failg" => Self::Failing,
            "reboot" | "boot" => Self::Reboot,
            "powered_down" => Self::PoweredDown,
            "powering_down" | "pow_dn" => Self::PoweringDown,
            "powering_up" | "pow_up" => Self::PoweringUp,
            "maint" => Self::Maintenance,
            "reserved" | "resv" => Self::Reserved,
            "blocked" | "block" => Self::Blocked,
            "inval" => Self::Invalid,
            "future" | "futr" => Self::Future,
            _ => return None,
        })
    }

    /// Returns the state of a node in this base state with a flag, if one word says both: that of an idle node is the flag.
    const fn with(self, flag: NodeFlag) -> Option<Self> {
        Some(match (self, flag) {
            (Self::Idle | Self::Down, NodeFlag::Invalid) => Self::Invalid,
            (Self::Idle, NodeFlag::Drain) => Self::Drained,
            (Self::Mixed | Self::Allocated | Self::Completing, NodeFlag::Drain) => Self::Draining,
            (Self::Idle, NodeFlag::Failing) => Self::Fail,
            (Self::Mixed | Self::Allocated | Self::Completing, NodeFlag::Failing) => Self::Failing,
            (Self::Idle, NodeFlag::PoweredDown) => Self::PoweredDown,
            (Self::Idle, NodeFlag::PoweringDown) => Self::PoweringDown,
            (Self::Idle, NodeFlag::PoweringUp) => Self::PoweringUp,
            (Self::Idle, NodeFlag::Maintenance) => Self::Maintenance,
            (Self::Idle, NodeFlag::Reserved) => Self::Reserved,
            (Self::Idle, NodeFlag::Blocked) => Self::Blocked,
            (Self::Idle, NodeFlag::Planned) => Self::Planned,
            _ => return None,
        })
    }
}

impl NodeFlag {
    /// Parses a flag of Slurm's long form, in lower case.
    fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "invalid_reg" => Self::Invalid,
            "drain" => Self::Drain,
            "fail" => Self::Failing,
            // 20.11 says only that the power is saved.
            "powered_down" | "power" => Self::PoweredDown,
            "powering_down" => Self::PoweringDown,
            "power_down" => Self::PowerDownPending,
            "powering_up" | "power_up" => Self::PoweringUp,
            "reboot_issued" => Self::RebootIssued,
            "reboot" | "reboot_requested" => Self::RebootPending,
            "maintenance" | "maint" => Self::Maintenance,
            "reserved" | "res" => Self::Reserved,
            "blocked" => Self::Blocked,
            "net" | "no_network" => Self::NoNetwork,
            "completing" => Self::Completing,
            "planned" => Self::Planned,
            "cloud" => Self::Cloud,
            "dynamic" | "dynamic_norm" | "dynamic_future" => Self::Dynamic,
            _ => return None,
        })
    }

    /// Returns the flag that `sinfo` appends to a state as this mark.
    const fn from_mark(mark: char) -> Option<Self> {
        Some(match mark {
            '~' => Self::PoweredDown,
            '#' => Self::PoweringUp,
            '!' => Self::PowerDownPending,
            '%' => Self::PoweringDown,
            '$' => Self::Maintenance,
            '@' => Self::RebootPending,
            '^' => Self::RebootIssued,
            '-' => Self::Planned,
            _ => return None,
        })
    }

    /// Returns true if a node with this flag gets no new jobs, or only those of a reservation.
    const fn prevents_jobs(self) -> bool {
        !matches!(self, Self::Completing | Self::Planned | Self::Cloud | Self::Dynamic)
    }

    /// Returns true if the node waits for a reboot, or reboots.
    const fn is_reboot(self) -> bool {
        matches!(self, Self::RebootPending | Self::RebootIssued)
    }

    /// Returns true if it says whether the power is on.
    const fn is_of_power(self) -> bool {
        matches!(self, Self::PoweredDown | Self::PoweringDown | Self::PoweringUp)
    }
}

impl SchedulerNode {
    /// Returns a node of which only the state is known, as Slurm writes it: short with marks, as `sinfo` prints it
    /// (`idle~`, `drained*`), or a base state with flags, as `scontrol` does (`IDLE+CLOUD+POWERED_DOWN`).
    pub fn from_slurm_state(text: &str) -> Self {
        let text = text.trim().to_ascii_lowercase();
        let (mut flags, mut is_responding) = (BTreeSet::new(), true);
        let mut base = None;
        for (place, part) in text.split('+').enumerate() {
            let word = part
                .trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            let marks = part.strip_prefix(word).unwrap_or_default();
            is_responding &= !marks.contains('*') && word != "not_responding";
            flags.extend(marks.chars().filter_map(NodeFlag::from_mark));
            match (place, word) {
                (0, word) => base = NodeState::from_word(word),
                // `allocated+` of sinfo: a job is ending.
                (_, "") => _ = flags.insert(NodeFlag::Completing),
                (_, word) => flags.extend(NodeFlag::from_word(word)),
            }
        }
        let mut state = base.unwrap_or_default();
        if state == NodeState::Idle && flags.remove(&NodeFlag::Completing) {
            state = NodeState::Completing;
        }
        // What is worse comes first.
        for flag in NodeFlag::ALL {
            if let Some(both) = state.with(flag).filter(|_| flags.contains(&flag)) {
                state = both;
                flags.remove(&flag);
            }
        }
        if state == NodeState::Idle && flags.iter().any(|flag| flag.is_reboot()) {
            state = NodeState::Reboot;
        }
        Self { state, flags, is_responding, ..Self::default() }
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
        let takes_jobs = match self.state {
            NodeState::Idle
            | NodeState::Mixed
            | NodeState::Allocated
            | NodeState::Completing
            | NodeState::Planned => true,
            NodeState::Draining
            | NodeState::Drained
            | NodeState::Down
            | NodeState::Failing
            | NodeState::Fail
            | NodeState::Reboot
            | NodeState::PoweredDown
            | NodeState::PoweringDown
            | NodeState::PoweringUp
            | NodeState::Maintenance
            | NodeState::Reserved
            | NodeState::Blocked
            | NodeState::Invalid
            | NodeState::Future
            | NodeState::Other => false,
        };
        takes_jobs && self.is_responding && !self.flags.iter().any(|flag| flag.prevents_jobs())
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

    /// Returns the words of its state: the state, each flag, and that it does not respond.
    pub fn state_words(&self) -> Vec<&'static str> {
        let flags = self.flags.iter().map(|flag| flag.as_str());
        // The flag says more than the state.
        let is_said =
            self.state == NodeState::Reboot && self.flags.iter().any(|flag| flag.is_reboot());
        let state = (!is_said).then(|| self.state.as_str());
        let is_silent =
            !self.is_responding && self.state != NodeState::Down && !self.is_powered_off();
        state.into_iter().chain(flags).chain(is_silent.then_some("not responding")).collect()
    }

    /// Returns its state in words, with the reason if it takes no jobs: `drained, not responding: bad cable`.
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

    /// States as `sinfo` and `scontrol` write them (those of 22.05 were seen there), the words of each, whether the node
    /// takes jobs, and whether it is powered off.
    const STATES: &[(&[&str], &str, NodeState, bool, bool)] = &[
        (&["idle", "IDLE"], "idle", NodeState::Idle, true, false),
        (&["IDLE+CLOUD"], "idle, cloud", NodeState::Idle, true, false),
        (
            &["idle~", "IDLE+POWERED_DOWN", "IDLE+POWER"],
            "powered down",
            NodeState::PoweredDown,
            false,
            true,
        ),
        (&["IDLE+CLOUD+POWERED_DOWN"], "powered down, cloud", NodeState::PoweredDown, false, true),
        (&["idle#", "idle#*"], "powering up", NodeState::PoweringUp, false, true),
        (
            &["IDLE+CLOUD+NOT_RESPONDING+POWERING_UP"],
            "powering up, cloud",
            NodeState::PoweringUp,
            false,
            true,
        ),
        (
            &["alloc#", "ALLOCATED+POWERING_UP"],
            "allocated, powering up",
            NodeState::Allocated,
            false,
            true,
        ),
        (&["idle!", "IDLE+POWER_DOWN"], "idle, power-down pending", NodeState::Idle, false, false),
        (
            &["idle%", "IDLE+POWERING_DOWN", "pow_dn"],
            "powering down",
            NodeState::PoweringDown,
            false,
            true,
        ),
        (&["mixed%"], "mixed, powering down", NodeState::Mixed, false, true),
        (
            &["drained~", "IDLE+DRAIN+POWERED_DOWN"],
            "drained, powered down",
            NodeState::Drained,
            false,
            true,
        ),
        (&["mixed-", "MIXED+PLANNED"], "mixed, planned", NodeState::Mixed, true, false),
        (&["planned", "plnd", "IDLE+PLANNED"], "planned", NodeState::Planned, true, false),
        (
            &["allocated+", "ALLOCATED+COMPLETING"],
            "allocated, completing",
            NodeState::Allocated,
            true,
            false,
        ),
        (
            &["completing", "comp", "IDLE+COMPLETING"],
            "completing",
            NodeState::Completing,
            true,
            false,
        ),
        (&["drained", "drain", "IDLE+DRAIN"], "drained", NodeState::Drained, false, false),
        (
            &["drained*", "IDLE+DRAIN+NOT_RESPONDING"],
            "drained, not responding",
            NodeState::Drained,
            false,
            false,
        ),
        (
            &["draining", "MIXED+DRAIN", "ALLOCATED+DRAIN", "IDLE+COMPLETING+DRAIN"],
            "draining",
            NodeState::Draining,
            false,
            false,
        ),
        (&["draining@"], "draining, reboot pending", NodeState::Draining, false, false),
        (&["down", "down*", "DOWN+NOT_RESPONDING"], "down", NodeState::Down, false, false),
        (&["DOWN+DRAIN"], "down, drain", NodeState::Down, false, false),
        (&["idle*", "IDLE+NOT_RESPONDING"], "idle, not responding", NodeState::Idle, false, false),
        (&["maint", "idle$", "IDLE+MAINTENANCE"], "maint", NodeState::Maintenance, false, false),
        (&["IDLE+MAINTENANCE+RESERVED"], "maint, reserved", NodeState::Maintenance, false, false),
        (&["mixed$", "MIXED+MAINTENANCE"], "mixed, maint", NodeState::Mixed, false, false),
        (&["reserved", "resv", "IDLE+RESERVED"], "reserved", NodeState::Reserved, false, false),
        (&["MIXED+RESERVED"], "mixed, reserved", NodeState::Mixed, false, false),
        (&["reboot"], "reboot", NodeState::Reboot, false, false),
        (&["reboot@", "IDLE+REBOOT_REQUESTED"], "reboot pending", NodeState::Reboot, false, false),
        (&["reboot^", "IDLE+REBOOT_ISSUED"], "reboot issued", NodeState::Reboot, false, false),
        (&["allocated@"], "allocated, reboot pending", NodeState::Allocated, false, false),
        (&["inval", "IDLE+INVALID_REG"], "inval", NodeState::Invalid, false, false),
        (&["IDLE+DRAIN+INVALID_REG"], "inval, drain", NodeState::Invalid, false, false),
        (&["fail", "IDLE+FAIL"], "fail", NodeState::Fail, false, false),
        (
            &["failing", "failg", "MIXED+FAIL", "ALLOCATED+FAIL", "IDLE+COMPLETING+FAIL"],
            "failing",
            NodeState::Failing,
            false,
            false,
        ),
        (&["blocked", "IDLE+BLOCKED"], "blocked", NodeState::Blocked, false, false),
        (&["future"], "future", NodeState::Future, false, false),
        (&["IDLE+SOMETHING_NEW"], "idle", NodeState::Idle, true, false),
        (&["unknown", "", "???"], "other", NodeState::Other, false, false),
    ];

    #[test]
    fn states_of_slurm_are_known_in_both_forms_with_their_marks_and_flags() {
        for (texts, words, state, takes_jobs, is_powered_off) in STATES {
            for text in *texts {
                let node = SchedulerNode::from_slurm_state(text);
                let found = (node.state, node.takes_jobs(), node.is_powered_off());
                assert_eq!(node.state_words().join(", "), *words, "{text}");
                assert_eq!(found, (*state, *takes_jobs, *is_powered_off), "{text}");
            }
        }
        assert!(!SchedulerNode::from_slurm_state("*").is_responding);
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
        for state in ["IDLE+COMPLETING", "MIXED+COMPLETING", "completing"] {
            let ending = SchedulerNode {
                devices: Some(8),
                allocated: Some(0),
                ..SchedulerNode::from_slurm_state(state)
            };
            assert_eq!(ending.unallocated(), None, "{state}");
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
