//! Key bindings of the job view.

use super::{Binding, KeyAction, hint, pair};
use crate::ui::views::job;
use crate::ui::{Key, NamedKey, View, ViewAction};

pub(super) const BINDINGS: &[Binding] = &[
    Binding {
        name: "job.previous",
        keys: &[Key::Named(NamedKey::Up), Key::Letter('k'), Key::Letter('K')],
        action: KeyAction::View(ViewAction::Job(job::Action::PreviousJob)),
        help: "previous job; with the cursor in the table, up",
        hint: Some(pair("job", "job.next")),
    },
    Binding {
        name: "job.next",
        keys: &[Key::Named(NamedKey::Down), Key::Letter('j'), Key::Letter('J')],
        action: KeyAction::View(ViewAction::Job(job::Action::NextJob)),
        help: "next job; with the cursor in the table, down",
        hint: None,
    },
    Binding {
        name: "job.previous-node",
        keys: &[Key::Named(NamedKey::Left), Key::Letter('<'), Key::Letter(',')],
        action: KeyAction::View(ViewAction::Job(job::Action::PreviousNode)),
        help: "previous node of the job",
        hint: Some(pair("node", "job.next-node")),
    },
    Binding {
        name: "job.next-node",
        keys: &[Key::Named(NamedKey::Right), Key::Letter('>'), Key::Letter('.')],
        action: KeyAction::View(ViewAction::Job(job::Action::NextNode)),
        help: "next node of the job",
        hint: None,
    },
    Binding {
        name: "job.processes",
        keys: &[Key::Letter('p')],
        action: KeyAction::View(ViewAction::Job(job::Action::ToggleProcesses)),
        help: "show or hide processes of the selected node",
        hint: None,
    },
    Binding {
        name: "job.next-metric",
        keys: &[Key::Letter('m')],
        action: KeyAction::View(ViewAction::Job(job::Action::NextMetric)),
        help: "next metric: utilization, memory, power, temperature",
        hint: Some(hint("metric")),
    },
    Binding {
        name: "job.overview",
        keys: &[Key::Letter('o')],
        action: KeyAction::Show(View::Fleet),
        help: "switch to the fleet view",
        hint: None,
    },
];
