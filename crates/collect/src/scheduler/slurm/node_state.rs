//! Parses the states of nodes, as `sinfo` and `scontrol` print them.

use std::collections::BTreeSet;

use gtop_local::text::sanitize_shared;
use gtop_model::{NodeFlag, NodeState, SchedulerNode};

/// Maximum length of a state that is kept as it was printed, in characters.
const MAX_STATE_CHARS: usize = 80;

/// Returns a node of which only the state is known: short with marks, as `sinfo` prints it (`idle~`, `drained*`), or a base
/// state with flags, as `scontrol` does (`IDLE+CLOUD+POWERED_DOWN`).
pub(super) fn node_in_state(native: &str) -> SchedulerNode {
    let text = native.trim().to_ascii_lowercase();
    let (mut flags, mut is_responding) = (BTreeSet::new(), true);
    let mut base = None;
    for (place, part) in text.split('+').enumerate() {
        let word =
            part.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let marks = part.strip_prefix(word).unwrap_or_default();
        is_responding &= !marks.contains('*') && word != "not_responding";
        flags.extend(marks.chars().filter_map(flag_of_mark));
        match (place, word) {
            (0, word) => base = state_of_word(word),
            // `allocated+` of sinfo: a job is ending.
            (_, "") => _ = flags.insert(NodeFlag::Completing),
            (_, word) => flags.extend(flag_of_word(word)),
        }
    }
    let mut state = base.unwrap_or_default();
    if state == NodeState::Idle && flags.remove(&NodeFlag::Completing) {
        state = NodeState::Completing;
    }
    // What is worse comes first.
    for flag in NodeFlag::ALL {
        if let Some(both) = with_flag(state, flag).filter(|_| flags.contains(&flag)) {
            state = both;
            flags.remove(&flag);
        }
    }
    if state == NodeState::Idle && flags.iter().any(|flag| flag.is_reboot()) {
        state = NodeState::Reboot;
    }
    SchedulerNode {
        state,
        native_state: sanitize_shared(native.trim(), MAX_STATE_CHARS),
        flags,
        is_responding,
        ..SchedulerNode::default()
    }
}

/// Parses the first word of a state, in lower case, long or short.
fn state_of_word(word: &str) -> Option<NodeState> {
    Some(match word {
        "idle" => NodeState::Idle,
        "mixed" | "mix" => NodeState::Mixed,
        "allocated" | "alloc" => NodeState::Allocated,
        "completing" | "comp" => NodeState::Completing,
        "planned" | "plnd" => NodeState::Planned,
        "draining" | "drng" => NodeState::Draining,
        "drained" | "drain" => NodeState::Drained,
        "down" | "error" => NodeState::Down,
        "fail" => NodeState::Fail,
        "failing" | "failg" => NodeState::Failing,
        "reboot" | "boot" => NodeState::Reboot,
        "powered_down" => NodeState::PoweredDown,
        "powering_down" | "pow_dn" => NodeState::PoweringDown,
        "powering_up" | "pow_up" => NodeState::PoweringUp,
        "maint" => NodeState::Maintenance,
        "reserved" | "resv" => NodeState::Reserved,
        "blocked" | "block" => NodeState::Blocked,
        "inval" => NodeState::Invalid,
        "future" | "futr" => NodeState::Future,
        _ => return None,
    })
}

/// Returns the state of a node in this base state with a flag, if one word says both: that of an idle node is the flag.
const fn with_flag(state: NodeState, flag: NodeFlag) -> Option<NodeState> {
    Some(match (state, flag) {
        (NodeState::Idle | NodeState::Down, NodeFlag::Invalid) => NodeState::Invalid,
        (NodeState::Idle, NodeFlag::Drain) => NodeState::Drained,
        (NodeState::Mixed | NodeState::Allocated | NodeState::Completing, NodeFlag::Drain) => {
            NodeState::Draining
        }
        (NodeState::Idle, NodeFlag::Failing) => NodeState::Fail,
        (NodeState::Mixed | NodeState::Allocated | NodeState::Completing, NodeFlag::Failing) => {
            NodeState::Failing
        }
        (NodeState::Idle, NodeFlag::PoweredDown) => NodeState::PoweredDown,
        (NodeState::Idle, NodeFlag::PoweringDown) => NodeState::PoweringDown,
        (NodeState::Idle, NodeFlag::PoweringUp) => NodeState::PoweringUp,
        (NodeState::Idle, NodeFlag::Maintenance) => NodeState::Maintenance,
        (NodeState::Idle, NodeFlag::Reserved) => NodeState::Reserved,
        (NodeState::Idle, NodeFlag::Blocked) => NodeState::Blocked,
        (NodeState::Idle, NodeFlag::Planned) => NodeState::Planned,
        _ => return None,
    })
}

/// Parses a flag of the long form, in lower case.
fn flag_of_word(word: &str) -> Option<NodeFlag> {
    Some(match word {
        "invalid_reg" => NodeFlag::Invalid,
        "drain" => NodeFlag::Drain,
        "fail" => NodeFlag::Failing,
        // 20.11 says only that the power is saved.
        "powered_down" | "power" => NodeFlag::PoweredDown,
        "powering_down" => NodeFlag::PoweringDown,
        "power_down" => NodeFlag::PowerDownPending,
        "powering_up" | "power_up" => NodeFlag::PoweringUp,
        "reboot_issued" => NodeFlag::RebootIssued,
        "reboot" | "reboot_requested" => NodeFlag::RebootPending,
        "maintenance" | "maint" => NodeFlag::Maintenance,
        "reserved" | "res" => NodeFlag::Reserved,
        "blocked" => NodeFlag::Blocked,
        "net" | "no_network" => NodeFlag::NoNetwork,
        "completing" => NodeFlag::Completing,
        "planned" => NodeFlag::Planned,
        "cloud" => NodeFlag::Cloud,
        "dynamic" | "dynamic_norm" | "dynamic_future" => NodeFlag::Dynamic,
        _ => return None,
    })
}

/// Returns the flag that `sinfo` appends to a state as this mark.
const fn flag_of_mark(mark: char) -> Option<NodeFlag> {
    Some(match mark {
        '~' => NodeFlag::PoweredDown,
        '#' => NodeFlag::PoweringUp,
        '!' => NodeFlag::PowerDownPending,
        '%' => NodeFlag::PoweringDown,
        '$' => NodeFlag::Maintenance,
        '@' => NodeFlag::RebootPending,
        '^' => NodeFlag::RebootIssued,
        '-' => NodeFlag::Planned,
        _ => return None,
    })
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
        (&[""], "other", NodeState::Other, false, false),
        (&["unknown"], "unknown", NodeState::Other, false, false),
        (&["???"], "???", NodeState::Other, false, false),
    ];

    #[test]
    fn states_are_known_in_both_forms_with_their_marks_and_flags() {
        for (texts, words, state, takes_jobs, is_powered_off) in STATES {
            for text in *texts {
                let node = node_in_state(text);
                let found = (node.state, node.takes_jobs(), node.is_powered_off());
                assert_eq!(node.state_words().join(", "), *words, "{text}");
                assert_eq!(found, (*state, *takes_jobs, *is_powered_off), "{text}");
            }
        }
        assert!(!node_in_state("*").is_responding);
    }
}
