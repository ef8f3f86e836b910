//! gtop shows every accelerator a person uses, on every node, live.
pub mod fleet;
pub mod model;
pub mod nodeset;
pub mod time;
pub mod tui;
pub mod view;
pub mod wire;
