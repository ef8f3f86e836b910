//! Keys of the view of events.

use super::{Action, Binding};
use crate::view::{Key, View};

pub(super) const BINDINGS: &[Binding] = &[Binding {
    name: "events.overview",
    keys: &[Key::Letter('o')],
    action: Action::Show(View::Fleet),
    help: "overview: the fleet",
    hint: None,
}];
