//! TPU chips in a stub file tree with a real gRPC server: `gtop --json` has their values.
#![expect(clippy::disallowed_methods, reason = "a real program against a real clock")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "all of this file is tests; a skip says why"
)]

mod schema;

#[path = "probe/harness.rs"]
#[expect(dead_code, reason = "the tests of all probes share it")]
mod harness;
#[path = "tpu/machine.rs"]
mod machine;
#[path = "tpu/server.rs"]
mod server;

#[path = "tpu/chips.rs"]
mod chips;
#[path = "tpu/library.rs"]
mod library;
#[path = "tpu/runtime.rs"]
mod runtime;
#[path = "tpu/server_errors.rs"]
mod server_errors;
