//! NVML with a stub library: each field of `gtop --json` equals that of the scenario.

mod changes;
mod expected;
mod processes;
mod scenarios;
