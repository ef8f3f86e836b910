//! Key bindings of the fleet view.

use super::{Binding, KeyAction, hint};
use crate::ui::views::fleet;
use crate::ui::{CommonAction, Key, NamedKey, ViewAction};

pub(super) const BINDINGS: &[Binding] = &[
    Binding {
        name: "fleet.map",
        keys: &[Key::Letter('m')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::ToggleLayout)),
        help: "switch between node list and device map",
        hint: Some(hint("map")),
    },
    Binding {
        name: "fleet.next-metric",
        keys: &[Key::Letter('b')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::NextMetric)),
        help: "next map metric: utilization, memory, power, temperature, owner, job",
        hint: Some(hint("metric")),
    },
    Binding {
        name: "fleet.previous-metric",
        keys: &[Key::Letter('B')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::PreviousMetric)),
        help: "previous map metric",
        hint: None,
    },
    Binding {
        name: "fleet.next-grouping",
        keys: &[Key::Letter('g')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::NextGrouping)),
        help: "next grouping: node name, partition, job, user, device model, none",
        hint: Some(hint("group")),
    },
    Binding {
        name: "fleet.previous-grouping",
        keys: &[Key::Letter('G')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::PreviousGrouping)),
        help: "previous grouping",
        hint: None,
    },
    Binding {
        name: "fleet.fold",
        keys: &[Key::Letter(' ')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::ToggleFold)),
        help: "fold or unfold the group",
        hint: None,
    },
    Binding {
        name: "fleet.left",
        keys: &[Key::Named(NamedKey::Left)],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::Left)),
        help: "fold the group; in the map, previous device",
        hint: None,
    },
    Binding {
        name: "fleet.right",
        keys: &[Key::Named(NamedKey::Right)],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::Right)),
        help: "unfold the group; in the map, next device",
        hint: None,
    },
    Binding {
        name: "fleet.fold-all",
        keys: &[Key::Letter('-')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::FoldAll)),
        help: "fold all groups",
        hint: None,
    },
    Binding {
        name: "fleet.unfold-all",
        keys: &[Key::Letter('+'), Key::Letter('=')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::UnfoldAll)),
        help: "unfold all groups",
        hint: None,
    },
    Binding {
        name: "fleet.sort-next",
        keys: &[Key::Letter('.')],
        action: KeyAction::View(ViewAction::Common(CommonAction::SortNext)),
        help: "sort by the next column",
        hint: None,
    },
    Binding {
        name: "fleet.sort-previous",
        keys: &[Key::Letter(',')],
        action: KeyAction::View(ViewAction::Common(CommonAction::SortPrevious)),
        help: "sort by the previous column",
        hint: None,
    },
    Binding {
        name: "fleet.reverse",
        keys: &[Key::Letter('\\')],
        action: KeyAction::View(ViewAction::Common(CommonAction::Reverse)),
        help: "reverse the sort order",
        hint: None,
    },
];
