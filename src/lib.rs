//! gtop shows every accelerator a person uses, on every node, live.
pub mod cli;
pub mod export;
pub mod fields;
pub mod fleet;
pub mod model;
pub mod nodeset;
pub mod pipeline;
pub mod time;
pub mod wire;
