//! NVML as a stub library tells it: `gtop --json` says what the scenario says, field by field, and nothing else.
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

#[path = "stubs/library.rs"]
mod library;
#[path = "nvml/processes.rs"]
mod processes;
#[path = "nvml/scenarios.rs"]
mod scenarios;
#[path = "nvml/truth.rs"]
mod truth;
#[path = "nvml/watched.rs"]
mod watched;
