//! Where deliveries come from, and how they become the fleet.
//!
//! A source is a file of this module: a task that feeds a store until it ends. [`live`] are the nodes that a roster lists,
//! [`replay`] are recordings. The deliveries of each node pass through a pipeline, which knows nothing of where they
//! come from.

pub use pipeline::Pipeline;

pub mod live;
mod pipeline;
#[cfg(feature = "record")]
pub mod replay;
