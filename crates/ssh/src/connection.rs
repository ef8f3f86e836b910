//! What carries a session's bytes, and which faults to attribute to it.

pub(crate) mod addresses;
pub(crate) mod algorithms;
mod banner;
pub(crate) mod cancellable_stream;
pub(crate) mod channel;
pub(crate) mod dial;
pub(crate) mod output_queue;
pub(crate) mod proxy_command;
pub(crate) mod session;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use gtop_local::fault::ssh::{ConnectPhase, Fault};
use tokio::io::{AsyncRead, AsyncWrite};

/// What an SSH session runs over: TCP, a channel of another session, the pipes of a program.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An open connection to a host, before the SSH handshake.
pub(crate) struct Connection {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) port: u16,
    /// Where the host was connected to; unknown behind a gateway or a program.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) underlay: Arc<dyn Underlay>,
}

/// The future of [`Underlay::attribute`].
pub(crate) type Attributed<'a> = Pin<Box<dyn Future<Output = Fault> + Send + 'a>>;

/// What carries the bytes of a session; it is kept open for as long as the session has it.
pub(crate) trait Underlay: Send + Sync {
    /// Returns true if a `ControlMaster` connection is part of the route.
    fn uses_master(&self) -> bool {
        false
    }

    /// Returns the underlay's fault in place of the host's if the underlay has failed. The fault can come from either.
    fn attribute(&self, fault: Fault) -> Attributed<'_>;
}

/// The network, which has no faults of its own.
pub(crate) struct Network;

impl Underlay for Network {
    fn attribute(&self, fault: Fault) -> Attributed<'_> {
        Box::pin(std::future::ready(fault))
    }
}

/// Returns the underlay's fault in place of the host's if the underlay has failed.
pub(crate) async fn attribute(underlay: &dyn Underlay, fault: Fault) -> Fault {
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
