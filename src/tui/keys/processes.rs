//! Keys of the view of processes.

use super::Binding;

pub(super) const BINDINGS: &[Binding] = &[];
