//! Where deliveries come from, and how they become the fleet.
//!
//! A source is a file of this room: a task that feeds a store until it ends. There is one so far, [`live`]: the nodes
//! that a roster lists. Each passes its deliveries through a [`Pipeline`], which knows nothing of where they come from.

pub use pipeline::Pipeline;

pub mod live;
mod pipeline;
