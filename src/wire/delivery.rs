//! What travels from a node's session to its consumer.

use std::time::Duration;

use crate::model::{Link, NodeName, TransportKind};
use crate::time::Timestamp;
use crate::wire::frame::Frame;

/// One thing that happened at one node.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The node.
    pub node: NodeName,
    /// When it arrived here.
    pub at: Timestamp,
    /// What.
    pub event: NodeEvent,
}

/// What can happen at a node.
#[derive(Clone, Debug)]
pub enum NodeEvent {
    /// The connection changed.
    Link(Link),
    /// A session is there, and this is how.
    Transport(TransportKind),
    /// The node is to be sampled so often from now on.
    Interval(Duration),
    /// A frame came.
    Frame(Box<Frame>),
}

/// Takes what happens on one node, in order, and is done with it when it returns: what a node sends
/// is large for a moment, and many nodes send at once.
pub type EventSink = Box<dyn FnMut(Delivery) + Send>;
