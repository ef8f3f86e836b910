//! One SSH connection: the handshake, and russh's callbacks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use russh::client::{self, ChannelOpenHandle, DisconnectReason, Handle, Msg};
use russh::keys::PublicKeyOrCertificate;
use russh::{Channel, ChannelId, ChannelOpenFailure, Sig};

use crate::connection::algorithms::{self, SshParams};
use crate::connection::cancellable_stream::{self, CancelGuard};
use crate::connection::output_queue::OutputQueue;
use crate::connection::{self, Connection, Underlay};
use crate::deadline::Deadline;
use crate::host_keys::Verification;
use crate::host_keys::algorithms::HostKeyAlgorithms;
use crate::host_keys::verifier::{HostKeyPolicy, HostKeyVerifier};
use crate::trace::{self, ConnectEvent, Trace};
use gtop_local::fault::ssh::{ConnectPhase, Fault};
use gtop_local::lock::lock;
use gtop_local::process::{Exit, Output};
use gtop_local::text;

/// Most channel refusals kept until they are read.
const MAX_REFUSALS: usize = 64;

/// Most characters of the login banner that are kept.
const MAX_BANNER: usize = 4096;

/// An open connection; dropping it closes it.
pub(crate) struct SshSession {
    pub(crate) handle: Handle<ClientHandler>,
    pub(crate) state: Arc<ConnectionState>,
    /// What it runs over; keeps a gateway open.
    pub(crate) underlay: Arc<dyn Underlay>,
    _cancel_guard: CancelGuard,
}

impl SshSession {
    /// Returns the fault of what the session runs over in place of the host's if that has failed.
    pub(crate) async fn attribute(&self, fault: Fault) -> Fault {
        connection::attribute(self.underlay.as_ref(), fault).await
    }

    /// Returns the fault of a connection that was lost in a phase.
    pub(crate) async fn lost_while(&self, phase: ConnectPhase) -> Fault {
        self.attribute(Fault::ConnectionLost { phase, why: self.state.end_text() }).await
    }
}

/// What the connection's task has received, shared with the session's owner.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    verification: Mutex<Option<Verification>>,
    banner: Mutex<String>,
    end: Mutex<Option<End>>,
    refusals: Mutex<VecDeque<String>>,
    /// The output of the command.
    pub(crate) output: OutputQueue,
    /// Written to the command's stdin at its next output.
    queued_line: Mutex<Option<String>>,
}

/// How a connection ended.
#[derive(Debug, Clone)]
pub(crate) enum End {
    /// The node disconnected with this message.
    Disconnected(String),
    /// It failed, for this reason.
    Failed(String),
}

impl ConnectionState {
    /// Returns the result of the host key verification.
    pub(crate) fn verification(&self) -> Option<Verification> {
        lock(&self.verification).clone()
    }

    /// Returns the login banner, without control characters.
    pub(crate) fn banner(&self) -> Option<String> {
        let banner = lock(&self.banner);
        (!banner.is_empty()).then(|| banner.clone())
    }

    /// Returns the length of the banner so far, in bytes.
    pub(crate) fn banner_length(&self) -> usize {
        lock(&self.banner).len()
    }

    /// Returns the banner text after `length` bytes, on one line.
    pub(crate) fn banner_since(&self, length: usize) -> Option<String> {
        let banner = lock(&self.banner);
        let text = banner.get(length..).unwrap_or_default();
        let words: Vec<_> = text.split_whitespace().collect();
        (!words.is_empty()).then(|| text::excerpt_line(&words.join(" ")))
    }

    /// Returns how the connection ended, or `None` while it is open.
    pub(crate) fn end(&self) -> Option<End> {
        lock(&self.end).clone()
    }

    /// Takes the message of the oldest channel refusal.
    pub(crate) fn take_refusal(&self) -> Option<String> {
        lock(&self.refusals).pop_front().filter(|message| !message.is_empty())
    }

    /// Sets a line to be written at the next output of the command: each write from outside takes a new large slot of
    /// russh's queue, so occasional writes would take most of the memory.
    pub(crate) fn queue_line(&self, line: String) {
        *lock(&self.queued_line) = Some(line);
    }

    /// Takes back the line if it was not written yet.
    pub(crate) fn take_queued_line(&self) -> Option<String> {
        lock(&self.queued_line).take()
    }

    /// Returns why the connection ended, as text.
    pub(crate) fn end_text(&self) -> String {
        match self.end() {
            Some(End::Disconnected(message)) => format!("node says: {message}"),
            Some(End::Failed(why)) => why,
            None => "connection closed".to_owned(),
        }
    }
}

/// Runs the handshake only to learn the host key, then disconnects.
pub(crate) async fn fetch_host_key(
    connection: Connection,
    verifier: Arc<HostKeyVerifier>,
    algorithms: HostKeyAlgorithms,
    params: SshParams,
    deadline: &Deadline,
) -> Result<Verification, Fault> {
    let (state, policy) = (Arc::default(), HostKeyPolicy::Inspect(verifier, algorithms));
    let result = establish(connection, policy, params, Arc::clone(&state), deadline).await;
    match (state.verification(), result) {
        (Some(verification), _) => Ok(verification),
        (None, Err(fault)) => Err(fault),
        (None, Ok(_session)) => Err(Fault::ConnectionLost {
            phase: ConnectPhase::KeyExchange,
            why: "no host key received".to_owned(),
        }),
    }
}

/// Runs the handshake: version exchange, key exchange, host key verification.
pub(crate) async fn establish(
    connection: Connection,
    policy: HostKeyPolicy,
    params: SshParams,
    state: Arc<ConnectionState>,
    deadline: &Deadline,
) -> Result<SshSession, Fault> {
    let Connection { stream, port, address, underlay } = connection;
    let is_loopback = address.is_some_and(|address| address.ip().is_loopback());
    let (stream, cancel_guard) = cancellable_stream::cancellable(stream);
    let settings = Arc::new(algorithms::client_config(policy.host_key_algorithms(), params));
    let (policy, shared_state, trace) = (Box::new(policy), Arc::clone(&state), trace::current());
    let client = ClientHandler { host_key_policy: policy, is_loopback, state: shared_state, trace };
    let connected = deadline
        .timeout(ConnectPhase::BannerExchange, client::connect_stream(settings, stream, client))
        .await;
    let phase = if cancel_guard.has_seen_version() {
        ConnectPhase::KeyExchange
    } else {
        ConnectPhase::BannerExchange
    };
    if let Some(error) = cancel_guard.banner_error() {
        return Err(error.fault(port));
    }
    let fault = match connected {
        Ok(Ok(handle)) => {
            return Ok(SshSession { handle, state, underlay, _cancel_guard: cancel_guard });
        }
        Ok(Err(HandlerError::Fault(fault))) => *fault,
        Ok(Err(HandlerError::Russh(error))) => algorithms::handshake_fault(&error, phase, port),
        Err(_missed) => deadline.timed_out(phase),
    };
    Err(connection::attribute(underlay.as_ref(), fault).await)
}

/// Why the connection's task stopped.
#[derive(Debug)]
pub(crate) enum HandlerError {
    Fault(Box<Fault>),
    Russh(russh::Error),
}

impl From<Fault> for HandlerError {
    fn from(fault: Fault) -> Self {
        Self::Fault(Box::new(fault))
    }
}

impl From<russh::Error> for HandlerError {
    fn from(error: russh::Error) -> Self {
        Self::Russh(error)
    }
}

/// Handles russh's callbacks.
pub(crate) struct ClientHandler {
    /// Boxed, since a connection reserves the size of this struct several times.
    host_key_policy: Box<HostKeyPolicy>,
    is_loopback: bool,
    state: Arc<ConnectionState>,
    trace: Option<Trace>,
}

impl Drop for ClientHandler {
    fn drop(&mut self) {
        self.state.output.close();
    }
}

/// Declares callbacks that refuse the channels a node opens to gtop, by dropping the reply: neither ports, nor X11, nor
/// an agent are forwarded.
macro_rules! refuse_channels {
    ($($callback:ident($($argument:ty),*);)*) => {$(
        async fn $callback(
            &mut self,
            $(_: $argument,)*
            _reply: ChannelOpenHandle,
            _session: &mut client::Session,
        ) -> Result<(), HandlerError> {
            Ok(())
        }
    )*};
}

impl client::Handler for ClientHandler {
    type Error = HandlerError;

    async fn check_server_key(
        &mut self,
        shown: &PublicKeyOrCertificate,
    ) -> Result<bool, HandlerError> {
        let verification = self.host_key_policy.verify(shown, self.is_loopback)?;
        *lock(&self.state.verification) = Some(verification.clone());
        if let Some(trace) = &self.trace {
            trace.push(ConnectEvent::host_key(
                &verification,
                self.host_key_policy.find_line(&verification.key),
            ));
        }
        Ok(self.host_key_policy.accept(verification).await?)
    }

    async fn kex_done(
        &mut self,
        _shared_secret: Option<&[u8]>,
        names: &russh::Names,
        _session: &mut client::Session,
    ) -> Result<(), HandlerError> {
        // Only the first key exchange is traced, not the hourly rekeying.
        if let Some(trace) = self.trace.take() {
            trace.push(ConnectEvent::Negotiated {
                exchange: names.kex.as_ref().to_owned(),
                cipher: names.cipher.as_ref().to_owned(),
                mac: names.client_mac.as_ref().to_owned(),
            });
        }
        Ok(())
    }

    async fn auth_banner(
        &mut self,
        text: &str,
        _session: &mut client::Session,
    ) -> Result<(), HandlerError> {
        let mut banner = lock(&self.state.banner);
        let room = MAX_BANNER.saturating_sub(banner.chars().count());
        for line in text.lines().filter(|_| room > 0) {
            banner.push_str(&text::excerpt(line, room));
            banner.push('\n');
        }
        let bounded: String = banner.chars().take(MAX_BANNER).collect();
        *banner = bounded;
        Ok(())
    }

    async fn data(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut client::Session,
    ) -> Result<(), HandlerError> {
        if let Some(reply) = self.state.take_queued_line() {
            session.data(channel, reply.into_bytes())?;
        }
        self.state.output.push(channel.number(), Some(Output::Stdout(data.to_vec()))).await;
        Ok(())
    }

    async fn extended_data(
        &mut self,
        channel: ChannelId,
        _kind: u32,
        data: &[u8],
        _session: &mut client::Session,
    ) -> Result<(), HandlerError> {
        self.state.output.push(channel.number(), Some(Output::Stderr(data.to_vec()))).await;
        Ok(())
    }

    async fn exit_status(
        &mut self,
        channel: ChannelId,
        status: u32,
        _session: &mut client::Session,
    ) -> Result<(), HandlerError> {
        self.state.output.push(channel.number(), Some(Output::Exit(Exit::Status(status)))).await;
        Ok(())
    }

    async fn exit_signal(
        &mut self,
        channel: ChannelId,
        signal: Sig,
        _core_dumped: bool,
        _message: &str,
        _language: &str,
        _session: &mut client::Session,
    ) -> Result<(), HandlerError> {
        let name = if let Sig::Custom(name) = &signal {
            text::excerpt(name, 32)
        } else {
            format!("{signal:?}")
        };
        let exit = Exit::Signal(name);
        self.state.output.push(channel.number(), Some(Output::Exit(exit))).await;
        Ok(())
    }

    async fn channel_close(
        &mut self,
        channel: ChannelId,
        _session: &mut client::Session,
    ) -> Result<(), HandlerError> {
        self.state.output.push(channel.number(), None).await;
        Ok(())
    }

    async fn disconnected(
        &mut self,
        reason: DisconnectReason<HandlerError>,
    ) -> Result<(), HandlerError> {
        let (end, result) = match reason {
            DisconnectReason::ReceivedDisconnect(disconnect) => {
                (End::Disconnected(text::excerpt_line(&disconnect.message)), Ok(()))
            }
            DisconnectReason::Error(HandlerError::Russh(error)) => {
                (End::Failed(algorithms::describe(&error)), Err(HandlerError::Russh(error)))
            }
            DisconnectReason::Error(HandlerError::Fault(fault)) => {
                (End::Failed(fault.to_string()), Err(HandlerError::Fault(fault)))
            }
        };
        *lock(&self.state.end) = Some(end);
        result
    }

    async fn channel_open_failure(
        &mut self,
        _channel: ChannelId,
        _reason: ChannelOpenFailure,
        description: &str,
        _language: &str,
        _session: &mut client::Session,
    ) -> Result<(), HandlerError> {
        let mut refusals = lock(&self.state.refusals);
        if refusals.len() >= MAX_REFUSALS {
            refusals.pop_front();
        }
        refusals.push_back(text::excerpt_line(description));
        Ok(())
    }

    // russh would accept all channels by default.
    refuse_channels! {
        server_channel_open_forwarded_tcpip(Channel<Msg>, &str, u32, &str, u32);
        server_channel_open_forwarded_streamlocal(Channel<Msg>, &str);
        server_channel_open_agent_forward(Channel<Msg>);
        server_channel_open_session(Channel<Msg>);
        server_channel_open_direct_tcpip(Channel<Msg>, &str, u32, &str, u32);
        server_channel_open_direct_streamlocal(Channel<Msg>, &str);
        server_channel_open_x11(Channel<Msg>, &str, u32);
    }
}
