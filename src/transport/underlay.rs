//! What carries a session's bytes, and which faults to attribute to it.

use std::sync::Arc;

use crate::transport::cancellable_stream::Stream;
use crate::transport::control_master::ControlMaster;
use crate::transport::fault::{ConnectPhase, Fault};
use crate::transport::gateway::MuxSession;
use crate::transport::openssh_stderr;
use crate::transport::proxy_command::ProgramStderr;

/// An open connection to a host, before the SSH handshake.
pub(super) struct Connection {
    pub(super) stream: Box<dyn Stream>,
    pub(super) port: u16,
    /// The host was connected to at a loopback address.
    pub(super) is_loopback: bool,
    pub(super) underlay: Underlay,
}

/// What carries the bytes.
#[derive(Clone)]
pub(super) enum Underlay {
    /// The network.
    Network,
    /// A gateway; its session is kept open by this.
    Gateway(Arc<MuxSession>),
    ProxyCommand(Arc<ProgramStderr>),
    /// The user's `ControlMaster` connection to a gateway.
    Master {
        gateway: String,
        master: ControlMaster,
        stderr: Arc<ProgramStderr>,
    },
}

impl Underlay {
    /// Returns true if a `ControlMaster` connection is part of the route.
    pub(super) fn uses_master(&self) -> bool {
        match self {
            Self::Network | Self::ProxyCommand(_) => false,
            Self::Gateway(mux) => mux.uses_master(),
            Self::Master { .. } => true,
        }
    }

    /// Returns the underlay's fault in place of the host's if the underlay has failed.
    pub(super) async fn attribute(&self, fault: Fault) -> Fault {
        if !may_be_underlay(&fault) {
            return fault;
        }
        match self {
            Self::Network => fault,
            Self::Gateway(mux) => mux.end_fault().unwrap_or(fault),
            Self::Master { gateway, master, stderr } => match stderr.last_line().await {
                Some(why) if why.contains("refused by peer") => Fault::GatewayCannotReach {
                    gateway: gateway.clone(),
                    why: openssh_stderr::lowercase_first(&why),
                },
                // ssh prints something only when the master ends, and often not even then.
                Some(_) => master.lost_fault().at_gateway(gateway),
                None if master.is_gone().await => master.lost_fault().at_gateway(gateway),
                None => fault,
            },
            Self::ProxyCommand(stderr) => {
                let line = stderr.last_line().await;
                let failed = |why: String| Fault::ProxyCommandFailed {
                    command: stderr.command.clone(),
                    is_closed: openssh_stderr::parse_no_banner(&why)
                        .is_some_and(|(_, is_closed)| is_closed),
                    why,
                };
                match (fault, line) {
                    // The connection had worked, so its stderr may be about anything.
                    (Fault::SessionLost { why }, Some(line)) => {
                        Fault::SessionLost { why: format!("{why}; ProxyCommand says: {line}") }
                    }
                    (_, Some(line)) => failed(line),
                    (fault, None) if is_before_banner(&fault) => {
                        failed("it sends no SSH banner".to_owned())
                    }
                    (fault, None) => fault,
                }
            }
        }
    }
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

fn is_before_banner(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::NoBanner { .. } | Fault::TimedOut { phase: ConnectPhase::BannerExchange, .. }
    )
}
