//! Key bindings of the events view.

use super::{Binding, KeyAction};
use crate::ui::{Key, View};

pub(super) const BINDINGS: &[Binding] = &[Binding {
    name: "events.overview",
    keys: &[Key::Letter('o')],
    action: KeyAction::Show(View::Fleet),
    help: "switch to the fleet view",
    hint: None,
}];
