//! NVML with a stub library: each field of `gtop --json` equals that of the scenario.
#![expect(clippy::disallowed_methods, reason = "a real program against a real clock")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "all of this file is tests; a skip says why"
)]

#[path = "nvml/changes.rs"]
mod changes;
#[path = "nvml/expected.rs"]
mod expected;
#[path = "stubs/library.rs"]
mod library;
#[path = "nvml/processes.rs"]
mod processes;
#[path = "nvml/scenarios.rs"]
mod scenarios;
