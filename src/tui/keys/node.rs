//! Keys of the view of a node.

use super::{Binding, KeyAction, hint, pair};
use crate::model::Signal;
use crate::view::{Deed, Density, Key, Named, View, node, processes};

pub(super) const BINDINGS: &[Binding] = &[
    Binding {
        name: "node.previous",
        keys: &[Key::Named(Named::Left), Key::Letter('<'), Key::Letter(',')],
        action: KeyAction::View(Deed::Node(node::Own::Previous)),
        help: "previous node",
        hint: Some(pair("node", "node.next")),
    },
    Binding {
        name: "node.next",
        keys: &[Key::Named(Named::Right), Key::Letter('>'), Key::Letter('.')],
        action: KeyAction::View(Deed::Node(node::Own::Next)),
        help: "next node",
        hint: None,
    },
    Binding {
        name: "node.processes",
        keys: &[Key::Letter('p')],
        action: KeyAction::View(Deed::Node(node::Own::Processes)),
        help: "processes on or off",
        hint: Some(hint("processes")),
    },
    Binding {
        name: "node.chart",
        keys: &[Key::Letter('g')],
        action: KeyAction::View(Deed::Node(node::Own::Chart)),
        help: "chart on or off: graphs of each device",
        hint: Some(pair("chart", "node.metrics")),
    },
    Binding {
        name: "node.metrics",
        keys: &[Key::Letter('G')],
        action: KeyAction::View(Deed::Node(node::Own::Metrics)),
        help: "choose what is charted, four metrics at most",
        hint: None,
    },
    Binding {
        name: "node.auto",
        keys: &[Key::Letter('a')],
        action: KeyAction::View(Deed::Node(node::Own::Density(Density::Auto))),
        help: "as much as there is room for",
        hint: None,
    },
    Binding {
        name: "node.full",
        keys: &[Key::Letter('f')],
        action: KeyAction::View(Deed::Node(node::Own::Density(Density::Full))),
        help: "everything: two lines a device, graphs of the machine",
        hint: Some(pair("density", "node.compact")),
    },
    Binding {
        name: "node.compact",
        keys: &[Key::Letter('c')],
        action: KeyAction::View(Deed::Node(node::Own::Density(Density::Compact))),
        help: "a line for each device, few for the machine",
        hint: None,
    },
    Binding {
        name: "node.overview",
        keys: &[Key::Letter('o')],
        action: KeyAction::Show(View::Fleet),
        help: "overview: the fleet",
        hint: None,
    },
    Binding {
        name: "signal-here.terminate",
        keys: &[Key::Letter('T')],
        action: KeyAction::View(Deed::Processes(processes::Own::Signal(Signal::Terminate))),
        help: "send TERM to the process under the cursor",
        hint: None,
    },
    Binding {
        name: "signal-here.kill",
        keys: &[Key::Letter('K')],
        action: KeyAction::View(Deed::Processes(processes::Own::Signal(Signal::Kill))),
        help: "send KILL to it",
        hint: None,
    },
    Binding {
        name: "signal-here.interrupt",
        keys: &[Key::Letter('I')],
        action: KeyAction::View(Deed::Processes(processes::Own::Signal(Signal::Interrupt))),
        help: "send INT to it",
        hint: None,
    },
];
