//! Key bindings of the users view.

use super::{Binding, KeyAction};
use crate::ui::{CommonAction, Key, View, ViewAction};

pub(super) const BINDINGS: &[Binding] = &[
    Binding {
        name: "users.sort-previous",
        keys: &[Key::Letter(',')],
        action: KeyAction::View(ViewAction::Common(CommonAction::SortPrevious)),
        help: "sort by the previous column",
        hint: None,
    },
    Binding {
        name: "users.sort-next",
        keys: &[Key::Letter('.')],
        action: KeyAction::View(ViewAction::Common(CommonAction::SortNext)),
        help: "sort by the next column",
        hint: None,
    },
    Binding {
        name: "users.reverse",
        keys: &[Key::Letter('\\')],
        action: KeyAction::View(ViewAction::Common(CommonAction::Reverse)),
        help: "reverse the sort order",
        hint: None,
    },
    Binding {
        name: "users.overview",
        keys: &[Key::Letter('o')],
        action: KeyAction::Show(View::Fleet),
        help: "switch to the fleet view",
        hint: None,
    },
];
