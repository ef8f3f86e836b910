//! Events from a node's session to its consumer.

use std::time::Duration;

use crate::model::{Device, Link, Source, TransportKind};
use crate::time::Timestamp;
use crate::wire::frame::Frame;

/// An event of one node.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// When it arrived here.
    pub at: Timestamp,
    /// The event.
    pub event: NodeEvent,
}

/// The events of a node.
#[derive(Clone, Debug)]
pub enum NodeEvent {
    /// The connection changed.
    Link(Link),
    /// A session is open, by this transport.
    Transport(TransportKind),
    /// The requested sampling interval has changed.
    Interval(Duration),
    /// Of what arrives, a recording keeps one sample in this time.
    RecordedEvery(Duration),
    /// The devices that are gone, and the source that listed each; a recording repeats them, because no frame does.
    Gone(Vec<(Source, Device)>),
    /// A frame arrived.
    Frame(Box<Frame>),
}

/// Consumes the events of one node, in order and synchronously: frames are large, and many nodes send at once,
/// so none is queued.
pub type EventSink = Box<dyn FnMut(Delivery) + Send>;
