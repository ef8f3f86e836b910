//! Keys of the view of events.

use super::Binding;

pub(super) const BINDINGS: &[Binding] = &[];
