//! Keys of the view of a node.

use super::{Action, Binding, hint, pair};
use crate::view::{Deed, Key, Named, View, node};

pub(super) const BINDINGS: &[Binding] = &[
    Binding {
        name: "node.previous",
        keys: &[Key::Named(Named::Left), Key::Letter('<'), Key::Letter(',')],
        action: Action::View(Deed::Node(node::Own::Previous)),
        help: "previous node",
        hint: Some(pair("node", "node.next")),
    },
    Binding {
        name: "node.next",
        keys: &[Key::Named(Named::Right), Key::Letter('>'), Key::Letter('.')],
        action: Action::View(Deed::Node(node::Own::Next)),
        help: "next node",
        hint: None,
    },
    Binding {
        name: "node.processes",
        keys: &[Key::Letter('p')],
        action: Action::View(Deed::Node(node::Own::Processes)),
        help: "processes on or off",
        hint: Some(hint("processes")),
    },
    Binding {
        name: "node.overview",
        keys: &[Key::Letter('o')],
        action: Action::Show(View::Fleet),
        help: "overview: the fleet",
        hint: None,
    },
];
