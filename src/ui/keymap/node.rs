//! Key bindings of the node view.

use super::{Binding, KeyAction, hint, pair};
use crate::model::Signal;
use crate::ui::views::{node, processes};
use crate::ui::{Density, Key, NamedKey, View, ViewAction};

pub(super) const BINDINGS: &[Binding] = &[
    Binding {
        name: "node.previous",
        keys: &[Key::Named(NamedKey::Left), Key::Letter('<'), Key::Letter(',')],
        action: KeyAction::View(ViewAction::Node(node::Action::Previous)),
        help: "previous node",
        hint: Some(pair("node", "node.next")),
    },
    Binding {
        name: "node.next",
        keys: &[Key::Named(NamedKey::Right), Key::Letter('>'), Key::Letter('.')],
        action: KeyAction::View(ViewAction::Node(node::Action::Next)),
        help: "next node",
        hint: None,
    },
    Binding {
        name: "node.processes",
        keys: &[Key::Letter('p')],
        action: KeyAction::View(ViewAction::Node(node::Action::Processes)),
        help: "show or hide processes",
        hint: Some(hint("processes")),
    },
    Binding {
        name: "node.chart",
        keys: &[Key::Letter('g')],
        action: KeyAction::View(ViewAction::Node(node::Action::Chart)),
        help: "show or hide charts of each device",
        hint: Some(pair("chart", "node.metrics")),
    },
    Binding {
        name: "node.metrics",
        keys: &[Key::Letter('G')],
        action: KeyAction::View(ViewAction::Node(node::Action::Metrics)),
        help: "choose up to four metrics to chart",
        hint: None,
    },
    Binding {
        name: "node.auto",
        keys: &[Key::Letter('a')],
        action: KeyAction::View(ViewAction::Node(node::Action::Density(Density::Auto))),
        help: "automatic density",
        hint: None,
    },
    Binding {
        name: "node.full",
        keys: &[Key::Letter('f')],
        action: KeyAction::View(ViewAction::Node(node::Action::Density(Density::Full))),
        help: "full density: two lines per device, graphs of the host",
        hint: Some(pair("density", "node.compact")),
    },
    Binding {
        name: "node.compact",
        keys: &[Key::Letter('c')],
        action: KeyAction::View(ViewAction::Node(node::Action::Density(Density::Compact))),
        help: "compact density: one line per device, few for the host",
        hint: None,
    },
    Binding {
        name: "node.overview",
        keys: &[Key::Letter('o')],
        action: KeyAction::Show(View::Fleet),
        help: "switch to the fleet view",
        hint: None,
    },
    Binding {
        name: "signal-here.terminate",
        keys: &[Key::Letter('T')],
        action: KeyAction::View(ViewAction::Processes(processes::Action::Signal(
            Signal::Terminate,
        ))),
        help: "send TERM to the process under the cursor",
        hint: None,
    },
    Binding {
        name: "signal-here.kill",
        keys: &[Key::Letter('K')],
        action: KeyAction::View(ViewAction::Processes(processes::Action::Signal(Signal::Kill))),
        help: "send KILL to the process under the cursor",
        hint: None,
    },
    Binding {
        name: "signal-here.interrupt",
        keys: &[Key::Letter('I')],
        action: KeyAction::View(ViewAction::Processes(processes::Action::Signal(
            Signal::Interrupt,
        ))),
        help: "send INT to the process under the cursor",
        hint: None,
    },
];
