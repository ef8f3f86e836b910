//! What arrives from a node's session, as it arrives: recordings keep it, and the decoder makes updates of it.

use std::sync::Arc;

use crate::wire::frame::Frame;
use gtop_local::time::Timestamp;
use gtop_model::SessionUpdate;

/// What arrived from a node, or what happened to its session.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// When it arrived here.
    pub at: Timestamp,
    /// What arrived.
    pub raw: RawUpdate,
}

/// An update before it is decoded.
#[derive(Clone, Debug)]
pub enum RawUpdate {
    /// The session has changed.
    Session(SessionUpdate),
    /// A frame of a probe.
    Frame(Box<Frame>),
    /// The lines that are read of a page of metrics.
    Scrape(Arc<str>),
}

impl From<SessionUpdate> for RawUpdate {
    fn from(update: SessionUpdate) -> Self {
        Self::Session(update)
    }
}

/// Consumes the deliveries of one node, in order and synchronously: frames are large, and many nodes send at once,
/// so none is queued.
pub type DeliverySink = Box<dyn FnMut(Delivery) + Send>;
