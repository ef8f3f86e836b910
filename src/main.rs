//! The `gtop` program.

fn main() {}
