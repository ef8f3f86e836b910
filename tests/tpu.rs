//! TPU chips in a stub file tree with a real gRPC server: `gtop --json` has their values.

mod machine;
mod server;

mod chips;
mod library;
mod runtime;
mod server_errors;
