//! The views: each has its state, its actions and the lines it draws.

pub mod events;
pub mod fleet;
pub mod job;
pub mod node;
pub mod problems;
pub mod processes;
pub mod runs;
pub mod users;
