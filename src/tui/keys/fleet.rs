//! Keys of the view of fleet.

use super::Binding;

pub(super) const BINDINGS: &[Binding] = &[];
