//! NVML as a stub library tells it: `gtop --json` says what the scenario says, field by field, and nothing else.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "stubs/library.rs"]
mod library;
#[path = "nvml/scenarios.rs"]
mod scenarios;
#[path = "nvml/truth.rs"]
mod truth;
