//! Keys of the view of users.

use super::Binding;

pub(super) const BINDINGS: &[Binding] = &[];
