//! Runs the probes as real processes: under all installed login shells, Pythons and sh, with a stub
//! nvidia-smi and NVML that fail as the real ones do, and with every kind of session end.
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

#[path = "probe/harness.rs"]
mod harness;
#[path = "stubs/library.rs"]
mod library;

#[path = "probe/environments.rs"]
mod environments;
#[path = "probe/faults.rs"]
mod faults;
#[path = "probe/isolation.rs"]
mod isolation;
#[path = "probe/launching.rs"]
mod launching;
#[path = "probe/nvml.rs"]
mod nvml;
#[path = "probe/parity.rs"]
mod parity;
#[path = "probe/portability.rs"]
mod portability;
#[path = "probe/processes.rs"]
mod processes;
#[path = "probe/requests.rs"]
mod requests;
#[path = "probe/sampling.rs"]
mod sampling;
#[path = "probe/termination.rs"]
mod termination;
#[path = "probe/undefined_names.rs"]
mod undefined_names;
#[path = "probe/user_names.rs"]
mod user_names;
