//! The probes as real processes: under every login shell, Python and sh found here, against a stand-in
//! nvidia-smi and NVML that fail in all the ways the real ones do, and with every way for a session to end.
#![expect(clippy::disallowed_methods, reason = "real processes against a real clock")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "all of this file is tests; a skip says why"
)]

mod schema;

#[path = "stubs/library.rs"]
mod library;
#[path = "probe/rig.rs"]
mod rig;

#[path = "probe/dialect.rs"]
mod dialect;
#[path = "probe/faults.rs"]
mod faults;
#[path = "probe/harm.rs"]
mod harm;
#[path = "probe/launching.rs"]
mod launching;
#[path = "probe/lifelines.rs"]
mod lifelines;
#[path = "probe/names.rs"]
mod names;
#[path = "probe/nvml.rs"]
mod nvml;
#[path = "probe/parity.rs"]
mod parity;
#[path = "probe/processes.rs"]
mod processes;
#[path = "probe/questions.rs"]
mod questions;
#[path = "probe/sampling.rs"]
mod sampling;
#[path = "probe/users.rs"]
mod users;
#[path = "probe/worlds.rs"]
mod worlds;
