//! What carries a session's bytes, and which faults to attribute to it.

use std::pin::Pin;
use std::sync::Arc;

use crate::transport::cancellable_stream::Stream;
use crate::transport::fault::{ConnectPhase, Fault};

/// An open connection to a host, before the SSH handshake.
pub(super) struct Connection {
    pub(super) stream: Box<dyn Stream>,
    pub(super) port: u16,
    /// The host was connected to at a loopback address.
    pub(super) is_loopback: bool,
    pub(super) underlay: Arc<dyn Underlay>,
}

/// The future of [`Underlay::attribute`].
pub(super) type Attributed<'a> = Pin<Box<dyn Future<Output = Fault> + Send + 'a>>;

/// What carries the bytes of a session; it is kept open for as long as the session has it.
pub(super) trait Underlay: Send + Sync {
    /// Returns true if a `ControlMaster` connection is part of the route.
    fn uses_master(&self) -> bool {
        false
    }

    /// Returns the underlay's fault in place of the host's if the underlay has failed. The fault can come from either.
    fn attribute(&self, fault: Fault) -> Attributed<'_>;
}

/// The network, which has no faults of its own.
pub(super) struct Network;

impl Underlay for Network {
    fn attribute(&self, fault: Fault) -> Attributed<'_> {
        Box::pin(std::future::ready(fault))
    }
}

/// Returns the underlay's fault in place of the host's if the underlay has failed.
pub(super) async fn attribute(underlay: &dyn Underlay, fault: Fault) -> Fault {
    if may_be_underlay(&fault) { underlay.attribute(fault).await } else { fault }
}

/// Returns true if a fault can come from the underlay as well as from the host.
fn may_be_underlay(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::NoBanner { .. }
            | Fault::ConnectionLost { .. }
            | Fault::SessionLost { .. }
            | Fault::TimedOut {
                phase: ConnectPhase::BannerExchange | ConnectPhase::KeyExchange,
                ..
            }
    )
}
