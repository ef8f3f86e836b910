//! Words that stand for a condition: those of the summary lines, with the same meaning, and a few more.

use crate::fleet::{DeviceCount, NodeCount};

/// A word that stands for a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateWord {
    /// What the device counts as.
    Device(DeviceCount),
    /// What the node counts as.
    Node(NodeCount),
    /// The device, or a node without devices, has only old values.
    Stale,
    Up,
    Fault,
    Throttled,
}

impl StateWord {
    /// Every word with its condition and what it means; the most useful first.
    pub(super) const WORDS: [(&str, Self, &str); 14] = [
        Self::of_device(DeviceCount::IdleHeld, "held, and idle now"),
        Self::of_device(DeviceCount::Free, "idle, nobody has it"),
        Self::of_device(DeviceCount::Busy, "5% utilization or more"),
        Self::of_device(DeviceCount::Faulty, "driver reports a fault"),
        (DeviceCount::Stale.word(), Self::Stale, "no fresh values"),
        Self::of_node(NodeCount::Down, "node is not connected"),
        ("throttled", Self::Throttled, "slowed by heat or power"),
        Self::of_device(DeviceCount::Unavailable, "idle, node takes no jobs"),
        Self::of_device(DeviceCount::Unknown, "its use is not known"),
        Self::of_node(NodeCount::Fresh, "node has fresh values"),
        Self::of_node(NodeCount::Connecting, "node sent nothing yet"),
        Self::of_node(NodeCount::Reported, "known from the scheduler"),
        ("fault", Self::Fault, "faulty, or node down"),
        ("up", Self::Up, "node is connected"),
    ];

    const fn of_device(
        count: DeviceCount,
        help: &'static str,
    ) -> (&'static str, Self, &'static str) {
        (count.word(), Self::Device(count), help)
    }

    const fn of_node(count: NodeCount, help: &'static str) -> (&'static str, Self, &'static str) {
        (count.word(), Self::Node(count), help)
    }

    /// Returns the condition of a word in lower case; `None` if it is a name.
    pub(super) fn find(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, ..)| *known == word).map(|(_, state, _)| *state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_summary_lines_is_a_word_of_filters() {
        use {DeviceCount as Device, NodeCount as Node};
        let devices = [
            Device::Busy,
            Device::IdleHeld,
            Device::Free,
            Device::Faulty,
            Device::Unavailable,
            Device::Unknown,
        ];
        for count in devices {
            assert_eq!(StateWord::find(count.word()), Some(StateWord::Device(count)));
        }
        for count in [Node::Fresh, Node::Connecting, Node::Down, Node::Reported] {
            assert_eq!(StateWord::find(count.word()), Some(StateWord::Node(count)));
        }
        for word in [Device::Stale.word(), Node::Stale.word()] {
            assert_eq!(StateWord::find(word), Some(StateWord::Stale));
        }
        assert_eq!(StateWord::find("idle"), None);
    }
}
