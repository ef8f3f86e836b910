//! Keys of the view of a job.

use super::{Binding, KeyAction, hint, pair};
use crate::view::{Deed, Key, Named, View, job};

pub(super) const BINDINGS: &[Binding] = &[
    Binding {
        name: "job.previous",
        keys: &[Key::Named(Named::Up), Key::Letter('k'), Key::Letter('K')],
        action: KeyAction::View(Deed::Job(job::Own::PreviousJob)),
        help: "previous job; with the cursor in the table, up",
        hint: Some(pair("job", "job.next")),
    },
    Binding {
        name: "job.next",
        keys: &[Key::Named(Named::Down), Key::Letter('j'), Key::Letter('J')],
        action: KeyAction::View(Deed::Job(job::Own::NextJob)),
        help: "next job; with the cursor in the table, down",
        hint: None,
    },
    Binding {
        name: "job.previous-node",
        keys: &[Key::Named(Named::Left), Key::Letter('<'), Key::Letter(',')],
        action: KeyAction::View(Deed::Job(job::Own::PreviousNode)),
        help: "previous node of the job",
        hint: Some(pair("node", "job.next-node")),
    },
    Binding {
        name: "job.next-node",
        keys: &[Key::Named(Named::Right), Key::Letter('>'), Key::Letter('.')],
        action: KeyAction::View(Deed::Job(job::Own::NextNode)),
        help: "next node of the job",
        hint: None,
    },
    Binding {
        name: "job.processes",
        keys: &[Key::Letter('p')],
        action: KeyAction::View(Deed::Job(job::Own::ToggleProcesses)),
        help: "processes on or off, where the node is shown",
        hint: None,
    },
    Binding {
        name: "job.measure",
        keys: &[Key::Letter('m')],
        action: KeyAction::View(Deed::Job(job::Own::NextMetric)),
        help: "another number of each device: utilization, memory, power, temperature",
        hint: Some(hint("metric")),
    },
    Binding {
        name: "job.overview",
        keys: &[Key::Letter('o')],
        action: KeyAction::Show(View::Fleet),
        help: "overview: the fleet",
        hint: None,
    },
];
