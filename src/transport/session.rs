//! One SSH connection up to the point where the host key is accepted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use russh::client::{self, ChannelOpenHandle, DisconnectReason, Handle, Msg};
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, PublicKeyOrCertificate};
use russh::{Channel, ChannelId, ChannelOpenFailure};

use crate::transport::algorithms::{self, Terms};
use crate::transport::cable::{self, Holder};
use crate::transport::carrier::{Carrier, Line};
use crate::transport::dial::Deadline;
use crate::transport::fault::{self, Fault, HostKeyChange, Step};
use crate::transport::files::lock;
use crate::transport::known_hosts::{self, HostKeys, Verdict};

/// Most refusals of channels that are kept until somebody asks.
const MOST_REFUSALS: usize = 64;

/// Longest greeting text that is kept.
const LONGEST_BANNER: usize = 4096;

/// What to do with the key the node shows.
#[derive(Debug, Clone)]
pub(super) enum Trust {
    /// Believe the `known_hosts` files.
    Known(HostKeys),
    /// Believe this key only; none at all when there is none.
    Pinned(Option<KeyData>),
    /// Note the key and go no further.
    Look,
}

impl Trust {
    /// Returns the kinds of key the host is known by.
    fn known_kinds(&self) -> Vec<Algorithm> {
        match self {
            Self::Known(keys) => keys.algorithms(),
            Self::Pinned(key) => key.iter().map(KeyData::algorithm).collect(),
            Self::Look => Vec::new(),
        }
    }
}

/// An open connection; dropping it ends it.
pub(super) struct Session {
    pub(super) handle: Handle<Client>,
    pub(super) seen: Arc<Seen>,
    /// What it runs over; a gateway stays open as long as this.
    pub(super) carrier: Carrier,
    _holder: Holder,
}

/// What the connection's own task has met, for those outside it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    key: Mutex<Option<KeyData>>,
    banner: Mutex<String>,
    end: Mutex<Option<End>>,
    refusals: Mutex<VecDeque<String>>,
}

/// How a connection ended.
#[derive(Debug, Clone)]
pub(super) enum End {
    /// The node said good-bye with these words.
    Dismissed(String),
    /// It broke.
    Broke(String),
}

impl Seen {
    /// Returns the key the node showed.
    pub(super) fn key(&self) -> Option<KeyData> {
        lock(&self.key).clone()
    }

    /// Returns the text sshd shows before login, without control characters.
    pub(super) fn banner(&self) -> Option<String> {
        let banner = lock(&self.banner);
        (!banner.is_empty()).then(|| banner.clone())
    }

    /// Returns how the connection ended.
    pub(super) fn end(&self) -> Option<End> {
        lock(&self.end).clone()
    }

    /// Takes what the node said when it refused a channel; refusals are asked for as they come.
    pub(super) fn refusal(&self) -> Option<String> {
        lock(&self.refusals).pop_front().filter(|words| !words.is_empty())
    }

    /// Returns why the connection ended, in words.
    pub(super) fn why(&self) -> String {
        match self.end() {
            Some(End::Dismissed(words)) => format!("node says: {words}"),
            Some(End::Broke(why)) => why,
            None => "connection closed".to_owned(),
        }
    }
}

/// Greets the node, exchanges keys and judges its host key.
pub(super) async fn greet(
    line: Line,
    trust: Trust,
    terms: &Terms,
    deadline: &Deadline,
) -> Result<Session, Fault> {
    meet(line, trust, terms, Arc::default(), deadline).await
}

/// Does the same to learn the host key only; the node sees a connection that ends.
pub(super) async fn look(line: Line, terms: &Terms, deadline: &Deadline) -> Result<KeyData, Fault> {
    let seen = Arc::<Seen>::default();
    let met = meet(line, Trust::Look, terms, Arc::clone(&seen), deadline).await;
    match (seen.key(), met) {
        (Some(key), _) => Ok(key),
        (None, Err(fault)) => Err(fault),
        (None, Ok(_session)) => {
            Err(Fault::Broken { step: Step::KeyExchange, why: "no host key shown".to_owned() })
        }
    }
}

async fn meet(
    line: Line,
    trust: Trust,
    terms: &Terms,
    seen: Arc<Seen>,
    deadline: &Deadline,
) -> Result<Session, Fault> {
    let Line { stream, port, carrier } = line;
    let (cable, holder) = cable::cable(stream);
    let settings = Arc::new(algorithms::settings(&trust.known_kinds(), terms));
    let client = Client { trust, seen: Arc::clone(&seen) };
    let connected =
        deadline.bound(Step::Greeting, client::connect_stream(settings, cable, client)).await;
    let step = if holder.has_spoken() { Step::KeyExchange } else { Step::Greeting };
    let fault = match connected {
        Ok(Ok(handle)) => return Ok(Session { handle, seen, carrier, _holder: holder }),
        Ok(Err(Stop::Fault(fault))) => *fault,
        Ok(Err(Stop::Broke(error))) => algorithms::handshake_fault(&error, step, port),
        Err(_missed) => deadline.missed(step),
    };
    Err(carrier.blame(fault).await)
}

/// Why the connection's task stopped by our own will or by accident.
#[derive(Debug)]
pub(super) enum Stop {
    Fault(Box<Fault>),
    Broke(russh::Error),
}

impl From<russh::Error> for Stop {
    fn from(error: russh::Error) -> Self {
        Self::Broke(error)
    }
}

/// Our answers to what the node asks of a client.
pub(super) struct Client {
    trust: Trust,
    seen: Arc<Seen>,
}

impl Client {
    fn judge(&self, key: &KeyData) -> Result<bool, Fault> {
        let algorithm = key.algorithm().to_string();
        let shown = known_hosts::fingerprint(key);
        let keys = match &self.trust {
            Trust::Known(keys) => keys,
            Trust::Pinned(Some(pinned)) if pinned == key => return Ok(true),
            Trust::Pinned(Some(pinned)) => {
                return Err(Fault::HostKeyChanged(Box::new(HostKeyChange {
                    host: "this node".to_owned(),
                    file: "the fixed profile".into(),
                    line: 1,
                    known: known_hosts::fingerprint(pinned),
                    algorithm,
                    shown,
                })));
            }
            Trust::Pinned(None) => {
                let host = "this node".to_owned();
                return Err(Fault::HostKeyUnknown { host, algorithm, fingerprint: shown });
            }
            Trust::Look => return Ok(false),
        };
        let host = keys.name.full.clone();
        match keys.judge(key) {
            Verdict::Known => Ok(true),
            Verdict::Unknown => Err(Fault::HostKeyUnknown { host, algorithm, fingerprint: shown }),
            Verdict::Changed { file, line, fingerprint } => {
                Err(Fault::HostKeyChanged(Box::new(HostKeyChange {
                    host,
                    file,
                    line,
                    known: fingerprint,
                    algorithm,
                    shown,
                })))
            }
            Verdict::Revoked { file, line } => {
                Err(Fault::HostKeyRevoked { host, algorithm, fingerprint: shown, file, line })
            }
        }
    }
}

impl client::Handler for Client {
    type Error = Stop;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Stop> {
        let key = match shown {
            PublicKeyOrCertificate::PublicKey { key, .. } => key.key_data(),
            // Not asked for, so nothing that a node may send.
            PublicKeyOrCertificate::Certificate(_) => return Ok(false),
        };
        *lock(&self.seen.key) = Some(key.clone());
        self.judge(key).map_err(|fault| Stop::Fault(Box::new(fault)))
    }

    async fn auth_banner(
        &mut self,
        text: &str,
        _session: &mut client::Session,
    ) -> Result<(), Stop> {
        let mut banner = lock(&self.seen.banner);
        let room = LONGEST_BANNER.saturating_sub(banner.chars().count());
        for line in text.lines().filter(|_| room > 0) {
            let line = fault::clean(line, room);
            banner.push_str(&line);
            banner.push('\n');
        }
        let bounded: String = banner.chars().take(LONGEST_BANNER).collect();
        *banner = bounded;
        Ok(())
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Stop>) -> Result<(), Stop> {
        let (end, result) = match reason {
            DisconnectReason::ReceivedDisconnect(words) => {
                (End::Dismissed(fault::quote(&words.message)), Ok(()))
            }
            DisconnectReason::Error(Stop::Broke(error)) => {
                (End::Broke(algorithms::describe(&error)), Err(Stop::Broke(error)))
            }
            DisconnectReason::Error(Stop::Fault(fault)) => {
                (End::Broke(fault.to_string()), Err(Stop::Fault(fault)))
            }
        };
        *lock(&self.seen.end) = Some(end);
        result
    }

    async fn channel_open_failure(
        &mut self,
        _channel: ChannelId,
        _reason: ChannelOpenFailure,
        description: &str,
        _language: &str,
        _session: &mut client::Session,
    ) -> Result<(), Stop> {
        let mut refusals = lock(&self.seen.refusals);
        if refusals.len() >= MOST_REFUSALS {
            refusals.pop_front();
        }
        refusals.push_back(fault::quote(description));
        Ok(())
    }

    // A node may open nothing here: gtop forwards neither ports, nor X11, nor an agent.
    // russh would accept all of these by itself; an answer that is dropped is a refusal.

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _channel: Channel<Msg>,
        _connected_address: &str,
        _connected_port: u32,
        _originator_address: &str,
        _originator_port: u32,
        _reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Stop> {
        Ok(())
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _channel: Channel<Msg>,
        _socket_path: &str,
        _reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Stop> {
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _channel: Channel<Msg>,
        _reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Stop> {
        Ok(())
    }

    async fn server_channel_open_session(
        &mut self,
        _channel: Channel<Msg>,
        _reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Stop> {
        Ok(())
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _channel: Channel<Msg>,
        _host_to_connect: &str,
        _port_to_connect: u32,
        _originator_address: &str,
        _originator_port: u32,
        _reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Stop> {
        Ok(())
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _channel: Channel<Msg>,
        _socket_path: &str,
        _reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Stop> {
        Ok(())
    }

    async fn server_channel_open_x11(
        &mut self,
        _channel: Channel<Msg>,
        _originator_address: &str,
        _originator_port: u32,
        _reply: ChannelOpenHandle,
        _session: &mut client::Session,
    ) -> Result<(), Stop> {
        Ok(())
    }
}
