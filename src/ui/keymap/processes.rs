//! Key bindings of the processes view.

use super::{Binding, KeyAction, hint, pair};
use crate::model::Signal;
use crate::ui::views::processes::Action;
use crate::ui::{CommonAction, Density, Key, Movement, NamedKey, ViewAction};

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
        help: "scope: all nodes, the selected node, the selected job",
        hint: Some(hint("scope")),
    },
    Binding {
        name: "processes.tag",
        keys: &[Key::Letter(' ')],
        action: in_processes(Action::Tag),
        help: "tag or untag the process; Esc clears all tags",
        hint: Some(hint("tag")),
    },
    Binding {
        name: "processes.tree",
        keys: &[Key::Letter('t')],
        action: in_processes(Action::Tree),
        help: "switch between process tree and table",
        hint: Some(hint("tree")),
    },
    Binding {
        name: "processes.environment",
        keys: &[Key::Letter('e')],
        action: in_processes(Action::Environment),
        help: "environment of the process",
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
        help: "send INT to the selected process; quit if none is selected",
        hint: None,
    },
    Binding {
        name: "processes.refresh",
        keys: &[Key::Letter('r')],
        action: in_processes(Action::Refresh),
        help: "reload the tree, environment or details",
        hint: Some(hint("reload")),
    },
    Binding {
        name: "processes.sort-previous",
        keys: &[Key::Letter(','), Key::Letter('<')],
        action: in_any_view(CommonAction::SortPrevious),
        help: "sort by the previous column",
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
        name: "processes.reverse",
        keys: &[Key::Letter('\\')],
        action: in_any_view(CommonAction::Reverse),
        help: "reverse the sort order",
        hint: None,
    },
    Binding {
        name: "processes.sort",
        keys: &[Key::Letter('o')],
        action: in_any_view(CommonAction::SortMenu),
        help: "sort menu: press a letter; uppercase reverses",
        hint: None,
    },
    Binding {
        name: "processes.auto",
        keys: &[Key::Letter('a')],
        action: in_processes(Action::Density(Density::Auto)),
        help: "automatic density: as many columns as fit",
        hint: None,
    },
    Binding {
        name: "processes.full",
        keys: &[Key::Letter('f')],
        action: in_processes(Action::Density(Density::Full)),
        help: "full density: also the directories of programs",
        hint: None,
    },
    Binding {
        name: "processes.compact",
        keys: &[Key::Letter('c')],
        action: in_processes(Action::Density(Density::Compact)),
        help: "compact density: few columns, more room for commands",
        hint: None,
    },
    Binding {
        name: "processes.left",
        keys: &[Key::Named(NamedKey::Left), Key::Alt('h')],
        action: in_processes(Action::Scroll { is_forward: false }),
        help: "scroll commands left",
        hint: None,
    },
    Binding {
        name: "processes.right",
        keys: &[Key::Named(NamedKey::Right), Key::Alt('l')],
        action: in_processes(Action::Scroll { is_forward: true }),
        help: "scroll commands right",
        hint: None,
    },
    Binding {
        name: "processes.line-start",
        keys: &[Key::Letter('^'), Key::Control('a')],
        action: in_processes(Action::ScrollHome),
        help: "scroll to the start of commands",
        hint: None,
    },
    Binding {
        name: "processes.line-end",
        keys: &[Key::Letter('$'), Key::Control('e')],
        action: in_processes(Action::ScrollEnd),
        help: "scroll to the end of commands",
        hint: None,
    },
    Binding {
        name: "processes.page-up",
        keys: &[Key::Letter('['), Key::Alt('K')],
        action: in_any_view(CommonAction::Move(Movement::PageUp)),
        help: "page up",
        hint: None,
    },
    Binding {
        name: "processes.page-down",
        keys: &[Key::Letter(']'), Key::Alt('J')],
        action: in_any_view(CommonAction::Move(Movement::PageDown)),
        help: "page down",
        hint: None,
    },
];
