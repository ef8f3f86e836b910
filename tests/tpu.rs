//! TPU chips as a stub tree and a real gRPC server show them: `gtop --json` says what they say, whatever else happens.
#![expect(clippy::disallowed_methods, reason = "a real program against a real clock")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "all of this file is tests; a skip says why"
)]

mod schema;

#[path = "tpu/machine.rs"]
mod machine;
#[path = "probe/rig.rs"]
#[expect(dead_code, reason = "the tests of all probes share it")]
mod rig;
#[path = "tpu/server.rs"]
mod server;

#[path = "tpu/chips.rs"]
mod chips;
#[path = "tpu/library.rs"]
mod library;
#[path = "tpu/runtime.rs"]
mod runtime;
#[path = "tpu/trouble.rs"]
mod trouble;
