//! gtop: every accelerator you use, on every node, live, from one terminal.

pub mod transport;
