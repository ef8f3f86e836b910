//! Keys of the view of processes.

use super::{Binding, KeyAction, hint, pair};
use crate::model::Signal;
use crate::view::processes::Action;
use crate::view::{CommonAction, Density, Key, Movement, NamedKey, ViewAction};

const fn in_processes(in_processes: Action) -> KeyAction {
    KeyAction::View(ViewAction::Processes(in_processes))
}

const fn in_any_view(command: CommonAction) -> KeyAction {
    KeyAction::View(ViewAction::Common(command))
}

pub(super) const BINDINGS: &[Binding] = &[
    Binding {
        name: "processes.scope",
        keys: &[Key::Letter('s')],
        action: in_processes(Action::Scope),
        help: "those of all nodes, of the selected node, of the selected job",
        hint: Some(hint("where")),
    },
    Binding {
        name: "processes.tag",
        keys: &[Key::Letter(' ')],
        action: in_processes(Action::Tag),
        help: "tag the process, or untag it; Esc untags all",
        hint: Some(hint("tag")),
    },
    Binding {
        name: "processes.tree",
        keys: &[Key::Letter('t')],
        action: in_processes(Action::Tree),
        help: "the tree of its node's processes, or the table again",
        hint: Some(hint("tree")),
    },
    Binding {
        name: "processes.environment",
        keys: &[Key::Letter('e')],
        action: in_processes(Action::Environment),
        help: "its environment",
        hint: Some(hint("env")),
    },
    Binding {
        name: "signal.terminate",
        keys: &[Key::Letter('T')],
        action: in_processes(Action::Signal(Signal::Terminate)),
        help: "send TERM to the tagged processes or the selected one",
        hint: Some(pair("signal", "signal.kill")),
    },
    Binding {
        name: "signal.kill",
        keys: &[Key::Letter('K')],
        action: in_processes(Action::Signal(Signal::Kill)),
        help: "send KILL",
        hint: None,
    },
    Binding {
        name: "signal.interrupt",
        keys: &[Key::Letter('I')],
        action: in_processes(Action::Signal(Signal::Interrupt)),
        help: "send INT",
        hint: None,
    },
    Binding {
        name: "signal.interrupt-selected",
        keys: &[Key::Control('c')],
        action: in_processes(Action::InterruptSelected),
        help: "send INT where a process is selected; else quit",
        hint: None,
    },
    Binding {
        name: "processes.refresh",
        keys: &[Key::Letter('r')],
        action: in_processes(Action::Again),
        help: "ask for the tree, the environment or the details again",
        hint: Some(hint("again")),
    },
    Binding {
        name: "processes.sort-previous",
        keys: &[Key::Letter(','), Key::Letter('<')],
        action: in_any_view(CommonAction::SortPrevious),
        help: "sort by the column before",
        hint: None,
    },
    Binding {
        name: "processes.sort-next",
        keys: &[Key::Letter('.'), Key::Letter('>')],
        action: in_any_view(CommonAction::SortNext),
        help: "sort by the next column",
        hint: None,
    },
    Binding {
        name: "processes.invert",
        keys: &[Key::Letter('\\')],
        action: in_any_view(CommonAction::Invert),
        help: "turn the order around",
        hint: None,
    },
    Binding {
        name: "processes.sort",
        keys: &[Key::Letter('o')],
        action: in_any_view(CommonAction::SortMenu),
        help: "sort by: a letter chooses, as a capital the other way round",
        hint: None,
    },
    Binding {
        name: "processes.auto",
        keys: &[Key::Letter('a')],
        action: in_processes(Action::Show(Density::Auto)),
        help: "as many columns as there is room for",
        hint: None,
    },
    Binding {
        name: "processes.full",
        keys: &[Key::Letter('f')],
        action: in_processes(Action::Show(Density::Full)),
        help: "the same, and commands with the folder of their program",
        hint: None,
    },
    Binding {
        name: "processes.compact",
        keys: &[Key::Letter('c')],
        action: in_processes(Action::Show(Density::Compact)),
        help: "few columns, and more room for commands",
        hint: None,
    },
    Binding {
        name: "processes.left",
        keys: &[Key::NamedKey(NamedKey::Left), Key::Alt('h')],
        action: in_processes(Action::Scroll { is_forward: false }),
        help: "move commands back",
        hint: None,
    },
    Binding {
        name: "processes.right",
        keys: &[Key::NamedKey(NamedKey::Right), Key::Alt('l')],
        action: in_processes(Action::Scroll { is_forward: true }),
        help: "show more of commands",
        hint: None,
    },
    Binding {
        name: "processes.line-start",
        keys: &[Key::Letter('^'), Key::Control('a')],
        action: in_processes(Action::ScrollHome),
        help: "show the beginning of commands",
        hint: None,
    },
    Binding {
        name: "processes.line-end",
        keys: &[Key::Letter('$'), Key::Control('e')],
        action: in_processes(Action::ScrollEnd),
        help: "show the end of commands",
        hint: None,
    },
    Binding {
        name: "processes.page-up",
        keys: &[Key::Letter('['), Key::Alt('K')],
        action: in_any_view(CommonAction::Move(Movement::PageUp)),
        help: "a page up",
        hint: None,
    },
    Binding {
        name: "processes.page-down",
        keys: &[Key::Letter(']'), Key::Alt('J')],
        action: in_any_view(CommonAction::Move(Movement::PageDown)),
        help: "a page down",
        hint: None,
    },
];
