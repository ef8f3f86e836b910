//! Keys of the view of fleet.

use super::{Binding, KeyAction, hint};
use crate::view::{CommonAction, Key, NamedKey, ViewAction, fleet};

pub(super) const BINDINGS: &[Binding] = &[
    Binding {
        name: "fleet.map",
        keys: &[Key::Letter('m')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::ToggleLayout)),
        help: "the list of nodes, or the map of devices",
        hint: Some(hint("map")),
    },
    Binding {
        name: "fleet.by",
        keys: &[Key::Letter('b')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::NextMetric)),
        help: "what the map shows: utilization, memory, power, temperature, owner, job",
        hint: Some(hint("by")),
    },
    Binding {
        name: "fleet.by-before",
        keys: &[Key::Letter('B')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::PreviousMetric)),
        help: "what the map showed before",
        hint: None,
    },
    Binding {
        name: "fleet.group",
        keys: &[Key::Letter('g')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::NextGrouping)),
        help: "group by node name, partition, job, user, device model, or nothing",
        hint: Some(hint("group")),
    },
    Binding {
        name: "fleet.group-before",
        keys: &[Key::Letter('G')],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::PreviousGrouping)),
        help: "group by what was before",
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
        keys: &[Key::NamedKey(NamedKey::Left)],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::Left)),
        help: "fold the group; in the map, to the device before",
        hint: None,
    },
    Binding {
        name: "fleet.right",
        keys: &[Key::NamedKey(NamedKey::Right)],
        action: KeyAction::View(ViewAction::Fleet(fleet::Action::Right)),
        help: "unfold the group; in the map, to the next device",
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
        help: "sort by the column before",
        hint: None,
    },
    Binding {
        name: "fleet.invert",
        keys: &[Key::Letter('\\')],
        action: KeyAction::View(ViewAction::Common(CommonAction::Invert)),
        help: "the other way round",
        hint: None,
    },
];
