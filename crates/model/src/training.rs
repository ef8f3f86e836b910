//! The files of training runs: progress, variables, and logs that show progress.

pub mod log_progress;
pub mod natural_order;
pub mod progress;
pub mod variables;
