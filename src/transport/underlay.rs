//! What carries a session's bytes, and what to say when that is to blame.

use std::sync::Arc;

use crate::transport::cancellable_stream::Stream;
use crate::transport::control_master::ControlMaster;
use crate::transport::fault::{ConnectPhase, Fault};
use crate::transport::gateway::MuxSession;
use crate::transport::openssh_stderr;
use crate::transport::proxy_command::ProgramStderr;

/// A way to a host that is open, before any SSH is spoken on it.
pub(super) struct Connection {
    pub(super) stream: Box<dyn Stream>,
    /// The port of the host.
    pub(super) port: u16,
    /// The host answers at a loopback address of this machine.
    pub(super) is_loopback: bool,
    pub(super) underlay: Underlay,
}

/// Who carries the bytes.
#[derive(Clone)]
pub(super) enum Underlay {
    /// The network.
    Network,
    /// A gateway, whose session lives as long as this.
    Gateway(Arc<MuxSession>),
    /// A `ProxyCommand`.
    ProxyCommand(Arc<ProgramStderr>),
    /// The user's master connection to a gateway.
    Master { gateway: String, master: ControlMaster, complaints: Arc<ProgramStderr> },
}

impl Underlay {
    /// Returns whether a master connection of the user's is part of the way.
    pub(super) fn uses_master(&self) -> bool {
        match self {
            Self::Network | Self::ProxyCommand(_) => false,
            Self::Gateway(mux) => mux.uses_master(),
            Self::Master { .. } => true,
        }
    }

    /// Says of a fault whose it really is: a host cannot answer by a way that is gone.
    pub(super) async fn attribute(&self, fault: Fault) -> Fault {
        if !may_be_underlay(&fault) {
            return fault;
        }
        match self {
            Self::Network => fault,
            Self::Gateway(mux) => mux.end().unwrap_or(fault),
            Self::Master { gateway, master, complaints } => match complaints.last_words().await {
                Some(why) if why.contains("refused by peer") => Fault::GatewayCannotReach {
                    gateway: gateway.clone(),
                    why: openssh_stderr::lowercase_first(&why),
                },
                // The program complains only when the master ends, and mostly not even then.
                Some(_) => master.lost().at_gateway(gateway),
                None if master.is_gone().await => master.lost().at_gateway(gateway),
                None => fault,
            },
            Self::ProxyCommand(complaints) => {
                let words = complaints.last_words().await;
                let failed = |why: String| Fault::ProxyCommandFailed {
                    command: complaints.command.clone(),
                    is_closed: openssh_stderr::no_greeting(&why)
                        .is_some_and(|(_, is_closed)| is_closed),
                    why,
                };
                match (fault, words) {
                    // It did lead there, so its words may be about anything.
                    (Fault::SessionLost { why }, Some(words)) => {
                        Fault::SessionLost { why: format!("{why}; ProxyCommand says: {words}") }
                    }
                    (_, Some(words)) => failed(words),
                    (fault, None) if is_before_version(&fault) => {
                        failed("no SSH greeting comes out of it".to_owned())
                    }
                    (fault, None) => fault,
                }
            }
        }
    }
}

/// Returns whether a fault may come from the way to the host as well as from the host.
fn may_be_underlay(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::NotSsh { .. }
            | Fault::ConnectionLost { .. }
            | Fault::SessionLost { .. }
            | Fault::TimedOut { step: ConnectPhase::Greeting | ConnectPhase::KeyExchange, .. }
    )
}

fn is_before_version(fault: &Fault) -> bool {
    matches!(fault, Fault::NotSsh { .. } | Fault::TimedOut { step: ConnectPhase::Greeting, .. })
}
