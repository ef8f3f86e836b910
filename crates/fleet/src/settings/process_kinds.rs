//! The words of the kinds of processes.

use crate::query::ProcessKinds;
use crate::settings::field::Choice;
use crate::settings::kind::{ChoiceValue, value};

impl Choice for ProcessKinds {
    const CHOICES: &'static [(ChoiceValue, Self)] = &[
        (value("all", "all processes"), Self::All),
        (value("compute", "compute processes (C, C+G)"), Self::Compute),
        (value("only-compute", "compute-only processes (C)"), Self::OnlyCompute),
        (value("graphics", "graphics processes (G, C+G)"), Self::Graphics),
        (value("only-graphics", "graphics-only processes (G)"), Self::OnlyGraphics),
    ];
}
