//! The tests that use the crate or run the program: one binary, so that a change of the crate links once.
//!
//! `cargo test --test it login::` runs those of one module.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    unreachable_pub,
    reason = "all of it is tests: real programs against a real clock, and a failed step fails the test"
)]

mod amd;
mod api;
mod captures;
mod cli_docs;
mod collect;
mod commit;
mod config;
mod demo_filled;
mod demo_help;
mod demo_kinds;
mod demo_output;
mod doctor;
mod exec;
mod exports;
mod golden;
mod harness;
mod homes;
mod login;
mod minify;
mod nodeset;
mod nvml;
mod pbs;
mod pci;
mod pick;
mod pod;
mod probe;
mod problems;
mod process_requests;
mod random_machines;
mod record;
mod sim;
mod slurm;
mod ssh_config;
mod terminals;
mod termination;
mod tpu;
mod transport;
