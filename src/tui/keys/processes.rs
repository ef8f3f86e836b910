//! Keys of the view of processes.

use super::{Binding, KeyAction, hint, pair};
use crate::model::Signal;
use crate::view::processes::Own;
use crate::view::{Command, Deed, Density, Key, Named, Step};

const fn in_processes(in_processes: Own) -> KeyAction {
    KeyAction::View(Deed::Processes(in_processes))
}

const fn in_any_view(command: Command) -> KeyAction {
    KeyAction::View(Deed::Do(command))
}

pub(super) const BINDINGS: &[Binding] = &[
    Binding {
        name: "processes.scope",
        keys: &[Key::Letter('s')],
        action: in_processes(Own::Scope),
        help: "those of all nodes, of the selected node, of the selected job",
        hint: Some(hint("where")),
    },
    Binding {
        name: "processes.tag",
        keys: &[Key::Letter(' ')],
        action: in_processes(Own::Tag),
        help: "tag the process, or untag it; Esc untags all",
        hint: Some(hint("tag")),
    },
    Binding {
        name: "processes.tree",
        keys: &[Key::Letter('t')],
        action: in_processes(Own::Tree),
        help: "the tree of its node's processes, or the table again",
        hint: Some(hint("tree")),
    },
    Binding {
        name: "processes.environment",
        keys: &[Key::Letter('e')],
        action: in_processes(Own::Environment),
        help: "its environment",
        hint: Some(hint("env")),
    },
    Binding {
        name: "signal.terminate",
        keys: &[Key::Letter('T')],
        action: in_processes(Own::Signal(Signal::Terminate)),
        help: "send TERM to the tagged processes or the selected one",
        hint: Some(pair("signal", "signal.kill")),
    },
    Binding {
        name: "signal.kill",
        keys: &[Key::Letter('K')],
        action: in_processes(Own::Signal(Signal::Kill)),
        help: "send KILL",
        hint: None,
    },
    Binding {
        name: "signal.interrupt",
        keys: &[Key::Letter('I')],
        action: in_processes(Own::Signal(Signal::Interrupt)),
        help: "send INT",
        hint: None,
    },
    Binding {
        name: "signal.interrupt-selected",
        keys: &[Key::Control('c')],
        action: in_processes(Own::InterruptSelected),
        help: "send INT where a process is selected; else quit",
        hint: None,
    },
    Binding {
        name: "processes.refresh",
        keys: &[Key::Letter('r')],
        action: in_processes(Own::Again),
        help: "ask for the tree, the environment or the details again",
        hint: Some(hint("again")),
    },
    Binding {
        name: "processes.sort-previous",
        keys: &[Key::Letter(','), Key::Letter('<')],
        action: in_any_view(Command::SortPrevious),
        help: "sort by the column before",
        hint: None,
    },
    Binding {
        name: "processes.sort-next",
        keys: &[Key::Letter('.'), Key::Letter('>')],
        action: in_any_view(Command::SortNext),
        help: "sort by the next column",
        hint: None,
    },
    Binding {
        name: "processes.invert",
        keys: &[Key::Letter('\\')],
        action: in_any_view(Command::Invert),
        help: "turn the order around",
        hint: None,
    },
    Binding {
        name: "processes.sort",
        keys: &[Key::Letter('o')],
        action: in_any_view(Command::SortMenu),
        help: "sort by: a letter chooses, as a capital the other way round",
        hint: None,
    },
    Binding {
        name: "processes.auto",
        keys: &[Key::Letter('a')],
        action: in_processes(Own::Show(Density::Auto)),
        help: "as many columns as there is room for",
        hint: None,
    },
    Binding {
        name: "processes.full",
        keys: &[Key::Letter('f')],
        action: in_processes(Own::Show(Density::Full)),
        help: "the same, and commands with the folder of their program",
        hint: None,
    },
    Binding {
        name: "processes.compact",
        keys: &[Key::Letter('c')],
        action: in_processes(Own::Show(Density::Compact)),
        help: "few columns, and more room for commands",
        hint: None,
    },
    Binding {
        name: "processes.left",
        keys: &[Key::Named(Named::Left), Key::Alt('h')],
        action: in_processes(Own::Scroll { is_forward: false }),
        help: "move commands back",
        hint: None,
    },
    Binding {
        name: "processes.right",
        keys: &[Key::Named(Named::Right), Key::Alt('l')],
        action: in_processes(Own::Scroll { is_forward: true }),
        help: "show more of commands",
        hint: None,
    },
    Binding {
        name: "processes.line-start",
        keys: &[Key::Letter('^'), Key::Control('a')],
        action: in_processes(Own::ScrollHome),
        help: "show the beginning of commands",
        hint: None,
    },
    Binding {
        name: "processes.line-end",
        keys: &[Key::Letter('$'), Key::Control('e')],
        action: in_processes(Own::ScrollEnd),
        help: "show the end of commands",
        hint: None,
    },
    Binding {
        name: "processes.page-up",
        keys: &[Key::Letter('['), Key::Alt('K')],
        action: in_any_view(Command::Move(Step::PageUp)),
        help: "a page up",
        hint: None,
    },
    Binding {
        name: "processes.page-down",
        keys: &[Key::Letter(']'), Key::Alt('J')],
        action: in_any_view(Command::Move(Step::PageDown)),
        help: "a page down",
        hint: None,
    },
];
