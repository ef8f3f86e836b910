//! Words that stand for a condition: those of the summary lines, with the same meaning, and a few more.

use crate::{DeviceState, NodeCount};

/// A word that stands for a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateWord {
    /// What the device counts as.
    Device(DeviceState),
    /// What the node counts as.
    Node(NodeCount),
    /// The device counts as stale, or a node without devices does.
    Stale,
    Up,
    Fault,
    Throttled,
    /// The device works, and is slower or less reliable than it should be.
    Degraded,
}

impl StateWord {
    /// Every word with its condition and what it means; the most useful first.
    pub(super) const WORDS: [(&str, Self, &str); 16] = [
        Self::of_device(DeviceState::IdleHeld, "held, and idle now"),
        Self::of_device(DeviceState::Free, "idle, nobody has it"),
        Self::of_device(DeviceState::Busy, "5% utilization or more"),
        Self::of_device(DeviceState::Faulty, "driver reports a fault"),
        (DeviceState::Stale.name(), Self::Stale, "no fresh values"),
        Self::of_node(NodeCount::Down, "node is not connected"),
        ("throttled", Self::Throttled, "slowed by heat or power"),
        ("degraded", Self::Degraded, "works, with problems"),
        Self::of_device(DeviceState::Unavailable, "cannot be allocated"),
        Self::of_device(DeviceState::InUse, "held, load unknown"),
        Self::of_device(DeviceState::Unknown, "its use is unknown"),
        Self::of_node(NodeCount::Fresh, "node has fresh values"),
        Self::of_node(NodeCount::Connecting, "node sent nothing yet"),
        Self::of_node(NodeCount::Reported, "known from the scheduler"),
        ("fault", Self::Fault, "faulty, or node down"),
        ("up", Self::Up, "node is connected"),
    ];

    const fn of_device(
        count: DeviceState,
        help: &'static str,
    ) -> (&'static str, Self, &'static str) {
        (count.name(), Self::Device(count), help)
    }

    const fn of_node(count: NodeCount, help: &'static str) -> (&'static str, Self, &'static str) {
        (count.name(), Self::Node(count), help)
    }

    /// Returns the condition of a word in lower case; `None` if it is a name.
    pub(super) fn find(word: &str) -> Option<Self> {
        // As the summary line has them where space is short.
        let word = match word {
            "held" => DeviceState::IdleHeld.name(),
            "unavail" => DeviceState::Unavailable.name(),
            word => word,
        };
        Self::WORDS.iter().find(|(known, ..)| *known == word).map(|(_, state, _)| *state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_summary_lines_is_a_word_of_filters() {
        use {DeviceState as Device, NodeCount as Node};
        // Of a node and of a device.
        let of_both = |word: &str, state| if word == "stale" { StateWord::Stale } else { state };
        let devices = Device::ALL.map(|count| (count.name(), StateWord::Device(count)));
        let nodes = Node::ALL.map(|count| (count.name(), StateWord::Node(count)));
        let docs = include_str!("../../../../../docs/filter.md");
        let short = [("held", Device::IdleHeld), ("unavail", Device::Unavailable)];
        for (word, count) in short {
            assert_eq!(StateWord::find(word), Some(StateWord::Device(count)));
        }
        for (word, state) in devices.into_iter().chain(nodes) {
            assert_eq!(StateWord::find(word), Some(of_both(word, state)));
            assert!(docs.contains(&format!("| `{word}` |")), "{word} is not documented");
        }
        assert_eq!(StateWord::find("idle"), None);
    }
}
