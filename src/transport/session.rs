//! One SSH connection up to the point where the host key is accepted.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use russh::client::{self, ChannelOpenHandle, DisconnectReason, Handle, Msg};
use russh::keys::ssh_key::public::KeyData;
use russh::keys::{Algorithm, EcdsaCurve, HashAlg, PublicKeyOrCertificate};
use russh::{AlgorithmKind, Channel, Preferred, kex};
use tokio::net::TcpStream;

use crate::transport::cable::{self, Holder};
use crate::transport::dial::Deadline;
use crate::transport::fault::{self, Fault, HostKeyChange, Step};
use crate::transport::files::lock;
use crate::transport::known_hosts::{self, HostKeys, Verdict};

/// Longest greeting text that is kept.
const LONGEST_BANNER: usize = 4096;

/// Ours, because the defaults put key exchanges first that cost 600 ms of CPU each.
const KEY_EXCHANGES: &[kex::Name] = &[
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::ECDH_SHA2_NISTP256,
    kex::ECDH_SHA2_NISTP384,
    kex::ECDH_SHA2_NISTP521,
    kex::DH_G14_SHA256,
    kex::DH_G16_SHA512,
    kex::EXTENSION_SUPPORT_AS_CLIENT,
    // Without this name the protection against dropped packets (Terrapin) is off.
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
];

/// Kinds of host key, the wanted first. No SHA-1, as in today's OpenSSH.
const HOST_KEYS: [Algorithm; 6] = [
    Algorithm::Ed25519,
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
    Algorithm::Rsa { hash: Some(HashAlg::Sha512) },
    Algorithm::Rsa { hash: Some(HashAlg::Sha256) },
];

/// What to do with the key the node shows.
#[derive(Debug, Clone)]
pub(super) enum Trust {
    /// Believe the `known_hosts` files.
    Known(HostKeys),
    /// Believe this key only.
    Pinned(KeyData),
    /// Note the key and go no further.
    Look,
}

/// An open connection; dropping it ends it.
pub(super) struct Session {
    pub(super) handle: Handle<Client>,
    pub(super) seen: Arc<Seen>,
    _holder: Holder,
}

/// What the connection's own task has met, for those outside it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    key: Mutex<Option<KeyData>>,
    banner: Mutex<String>,
    end: Mutex<Option<End>>,
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
    stream: TcpStream,
    trust: Trust,
    deadline: &Deadline,
) -> Result<Session, Fault> {
    meet(stream, trust, Arc::default(), deadline).await
}

/// Does the same to learn the host key only; the node sees a connection that ends.
pub(super) async fn look(stream: TcpStream, deadline: &Deadline) -> Result<KeyData, Fault> {
    let seen = Arc::<Seen>::default();
    let met = meet(stream, Trust::Look, Arc::clone(&seen), deadline).await;
    match (seen.key(), met) {
        (Some(key), _) => Ok(key),
        (None, Err(fault)) => Err(fault),
        (None, Ok(_session)) => {
            Err(Fault::Broken { step: Step::KeyExchange, why: "no host key shown".to_owned() })
        }
    }
}

async fn meet(
    stream: TcpStream,
    trust: Trust,
    seen: Arc<Seen>,
    deadline: &Deadline,
) -> Result<Session, Fault> {
    let port = stream.peer_addr().map_or(0, |address| address.port());
    let (cable, holder) = cable::cable(stream);
    let settings = Arc::new(settings(&trust));
    let client = Client { trust, seen: Arc::clone(&seen) };
    let connected =
        deadline.bound(Step::Greeting, client::connect_stream(settings, cable, client)).await;
    let step = if holder.has_spoken() { Step::KeyExchange } else { Step::Greeting };
    match connected {
        Ok(Ok(handle)) => Ok(Session { handle, seen, _holder: holder }),
        Ok(Err(Stop::Fault(fault))) => Err(*fault),
        Ok(Err(Stop::Broke(error))) => Err(handshake_fault(&error, step, port)),
        Err(_missed) => Err(deadline.missed(step)),
    }
}

fn settings(trust: &Trust) -> client::Config {
    client::Config {
        preferred: Preferred {
            kex: Cow::Borrowed(KEY_EXCHANGES),
            key: Cow::Owned(host_key_order(trust)),
            ..Preferred::DEFAULT
        },
        window_size: 256 * 1024,
        channel_buffer_size: 16,
        keepalive_interval: Some(Duration::from_secs(15)),
        keepalive_max: 3,
        inactivity_timeout: Some(Duration::from_secs(60)),
        nodelay: true,
        ..client::Config::default()
    }
}

/// Puts the kinds of key the host is known by first, else it would show another kind.
fn host_key_order(trust: &Trust) -> Vec<Algorithm> {
    let known = match trust {
        Trust::Known(keys) => keys.algorithms(),
        Trust::Pinned(key) => vec![key.algorithm()],
        Trust::Look => Vec::new(),
    };
    let is_known = |algorithm: &Algorithm| {
        known.iter().any(|known| match (known, algorithm) {
            (Algorithm::Rsa { .. }, Algorithm::Rsa { .. }) => true,
            (known, algorithm) => known == algorithm,
        })
    };
    let (mut first, rest): (Vec<_>, Vec<_>) = HOST_KEYS.into_iter().partition(is_known);
    first.extend(rest);
    first
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
            Trust::Pinned(pinned) if pinned == key => return Ok(true),
            Trust::Pinned(_) => {
                return Err(Fault::HostKeyUnknown {
                    host: "this node".to_owned(),
                    algorithm,
                    fingerprint: shown,
                });
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
                (End::Broke(describe(&error)), Err(Stop::Broke(error)))
            }
            DisconnectReason::Error(Stop::Fault(fault)) => {
                (End::Broke(fault.to_string()), Err(Stop::Fault(fault)))
            }
        };
        *lock(&self.seen.end) = Some(end);
        result
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

fn handshake_fault(error: &russh::Error, step: Step, port: u16) -> Fault {
    if let russh::Error::NoCommonAlgo { kind, ours, theirs } = error {
        return Fault::NoCommonAlgorithm {
            kind: kind_name(kind),
            ours: some(ours),
            theirs: some(theirs),
        };
    }
    let why = describe(error);
    if step == Step::Greeting || matches!(error, russh::Error::Version) {
        return Fault::NotSsh { port, why };
    }
    Fault::Broken { step, why }
}

/// Returns the names of algorithms from a list of any length and content.
fn some(names: &[String]) -> Vec<String> {
    names.iter().take(12).map(|name| fault::clean(name, 64)).collect()
}

fn kind_name(kind: &AlgorithmKind) -> &'static str {
    match kind {
        AlgorithmKind::Kex => "key exchange",
        AlgorithmKind::Key => "host key",
        AlgorithmKind::Cipher => "cipher",
        AlgorithmKind::Compression => "compression",
        AlgorithmKind::Mac => "MAC",
    }
}

/// Returns the cause in our words where russh's would not help.
pub(super) fn describe(error: &russh::Error) -> String {
    use russh::Error;
    if let Error::IO(error) = error
        && error.kind() != std::io::ErrorKind::UnexpectedEof
    {
        return fault::reason(error);
    }
    if matches!(error, Error::HUP | Error::Disconnect | Error::IO(_)) {
        return "node closed the connection".to_owned();
    }
    if matches!(error, Error::KeepaliveTimeout | Error::InactivityTimeout) {
        return "node no longer answers".to_owned();
    }
    if matches!(error, Error::Version) {
        return "it does not speak SSH 2".to_owned();
    }
    let text = fault::quote(&error.to_string());
    let mut letters = text.chars();
    letters
        .next()
        .map_or(text.clone(), |first| format!("{}{}", first.to_ascii_lowercase(), letters.as_str()))
}
