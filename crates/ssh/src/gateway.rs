//! Gateways: the jump hosts of `ProxyJump`.
//!
//! All nodes behind a gateway share one SSH session with it. It is opened once, however many nodes ask at the same
//! time, and closed with the last of them. A further session is opened only when the gateway refuses more channels
//! on the first.

mod tunnel;

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use russh::ChannelOpenFailure;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::config::{BindOptions, HostQuery, HostSettings, Route};
use crate::connection::session::{ConnectionState, SshSession};
use crate::connection::{Attributed, Underlay};
use crate::gateway::tunnel::{Tunnel, tunnel};
use crate::trace;
use gtop_local::fault::ssh::{Fault, Recourse};
use gtop_local::lock::lock;
use gtop_local::text;

const MAX_SESSIONS: usize = 16;

/// Most destinations remembered as forbidden.
const MAX_FORBIDDEN: usize = 4096;

/// How long to wait for an abandoned channel to open, in order to close it.
const ABANDONED_OPEN_TIMEOUT: Duration = Duration::from_secs(20);

/// The backoff after a failed connection to a gateway. Nodes that ask meanwhile wait for the next attempt
/// together.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(16);

/// How long a refusal by a gateway is reported to all nodes without another attempt: only the user can fix it,
/// and the server counts attempts.
const REFUSAL_HOLD: Duration = Duration::from_secs(5);

/// The same for a gateway that closes the account's login, which may be transient: all nodes behind it would ask
/// in turn.
const ACCOUNT_REFUSAL_HOLD: Duration = Duration::from_secs(60);

/// The route to a host, with all gateways resolved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ResolvedRoute {
    /// A direct TCP connection.
    Direct(BindOptions),
    /// A `ProxyCommand`.
    Command(String),
    /// Through this gateway, which has a route of its own.
    Gateway(Arc<Gateway>),
}

impl ResolvedRoute {
    /// Returns the route to the first host, which needs no gateway.
    pub(crate) fn first_hop(settings: &HostSettings) -> Self {
        match &settings.route {
            Route::Command(command) => Self::Command(command.clone()),
            Route::Direct | Route::Jumps(_) => Self::Direct(settings.bind.clone()),
        }
    }

    /// Returns the gateway that connects to the host.
    fn gateway(&self) -> Option<&Arc<Gateway>> {
        if let Self::Gateway(gateway) = self { Some(gateway) } else { None }
    }

    /// Returns all gateways, the last one of the route first.
    pub(crate) fn gateways(&self) -> impl Iterator<Item = &Arc<Gateway>> {
        std::iter::successors(self.gateway(), |gateway| gateway.route.gateway())
    }

    /// Returns the names of the gateways, in connection order.
    pub(crate) fn gateway_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.gateways().map(|gateway| gateway.name.clone()).collect();
        names.reverse();
        names
    }

    /// Returns the route for the trace.
    pub(crate) fn summary(&self) -> trace::RouteSummary {
        match self {
            Self::Direct(_) => trace::RouteSummary::Direct,
            Self::Command(command) => trace::RouteSummary::Command(text::excerpt_line(command)),
            Self::Gateway(_) => trace::RouteSummary::Gateways(self.gateway_names()),
        }
    }
}

/// The host and port a gateway connects to.
pub(crate) type Destination = (String, u16);

/// All gateways in use.
#[derive(Debug, Default)]
pub(crate) struct Gateways(Mutex<Vec<Arc<Gateway>>>);

impl Gateways {
    /// Forgets why gateways could not be reached, so that the next caller tries again at once.
    pub(crate) fn forget_failures(&self) {
        for gateway in &*lock(&self.0) {
            lock(&gateway.state).failure = None;
        }
    }

    /// Returns the gateway with these settings and this route; the same one for each alias.
    pub(crate) fn get(
        &self,
        query: HostQuery,
        settings: Arc<HostSettings>,
        route: ResolvedRoute,
    ) -> Arc<Gateway> {
        let mut known = lock(&self.0);
        let mut same = known.iter().filter(|gateway| gateway.settings == settings);
        if let Some(gateway) = same.find(|gateway| gateway.route == route) {
            return Arc::clone(gateway);
        }
        // An edited configuration leaves unused entries.
        known.retain(|gateway| Arc::strong_count(gateway) > 1);
        let gateway = Arc::new(Gateway {
            name: query.destination(),
            query,
            settings,
            route,
            open_permit: Semaphore::new(1),
            has_master: AtomicBool::new(false),
            state: Mutex::default(),
        });
        known.push(Arc::clone(&gateway));
        gateway
    }
}

/// One gateway with its sessions.
pub(crate) struct Gateway {
    /// Its name in the first `ProxyJump` that used it.
    pub(crate) name: String,
    /// The same, with the user and port of `ProxyJump`.
    pub(crate) query: HostQuery,
    pub(crate) settings: Arc<HostSettings>,
    /// The route to the gateway itself.
    pub(crate) route: ResolvedRoute,
    /// Held while a session is being opened.
    pub(crate) open_permit: Semaphore,
    /// It refused gtop and was reached over the user's `ControlMaster` connection.
    pub(crate) has_master: AtomicBool,
    state: Mutex<GatewayState>,
}

impl PartialEq for Gateway {
    /// There is one for each settings and route.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct GatewayState {
    sessions: Vec<Weak<MuxSession>>,
    /// The last failure to open a session; none after a success.
    failure: Option<Failure>,
    /// Destinations the gateway refuses even when no other channel is open.
    forbidden: BTreeSet<Destination>,
}

/// A failure to open a session.
struct Failure {
    fault: Fault,
    failed_at: Instant,
    backoff: Duration,
}

impl Gateway {
    /// Returns a permit for a channel on an open session with a free slot.
    pub(crate) fn try_permit(&self) -> Option<ChannelPermit> {
        let mut state = lock(&self.state);
        state.sessions.retain(|mux| mux.upgrade().is_some_and(|mux| mux.end_fault().is_none()));
        let sessions: Vec<_> = state.sessions.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        sessions.iter().find_map(ChannelPermit::try_acquire)
    }

    /// Returns until when a caller that asked at `asked` must wait before it opens a session.
    ///
    /// Fails if an attempt failed since then, or at the maximum of sessions: one attempt serves all who asked before
    /// it.
    pub(crate) fn backoff_until(&self, asked_at: Instant) -> Result<Option<Instant>, Fault> {
        let state = lock(&self.state);
        if let Some(Failure { fault, failed_at, backoff }) = &state.failure {
            let until = *failed_at + *backoff;
            let is_over = until <= Instant::now();
            let is_transient = fault.permits(Recourse::Retry) && !is_account_refusal(fault);
            if *failed_at >= asked_at || !(is_over || is_transient) {
                return Err(fault.clone());
            }
            if !is_over {
                return Ok(Some(until));
            }
        }
        if state.sessions.len() >= MAX_SESSIONS {
            let why = "it accepts no more connections".to_owned();
            return Err(Fault::ChannelRefused { why }.at_gateway(&self.name));
        }
        Ok(None)
    }

    /// Adds a new session.
    pub(crate) fn add_session(&self, session: SshSession) -> Arc<MuxSession> {
        let mux = Arc::new(MuxSession {
            gateway: self.name.clone(),
            session,
            channels: Mutex::new(ChannelCounts { reserved: 0, opened_count: 0, limit: usize::MAX }),
            tunnels: Mutex::default(),
        });
        let mut state = lock(&self.state);
        state.failure = None;
        state.sessions.push(Arc::downgrade(&mux));
        mux
    }

    /// Records a failure to open a session, and returns it as a fault of the gateway.
    pub(crate) fn record_failure(&self, fault: Fault) -> Fault {
        let fault = fault.at_gateway(&self.name);
        let mut state = lock(&self.state);
        let backoff = match &state.failure {
            _ if is_account_refusal(&fault) => ACCOUNT_REFUSAL_HOLD,
            _ if !fault.permits(Recourse::Retry) => REFUSAL_HOLD,
            Some(last) => (last.backoff * 2).min(MAX_BACKOFF),
            None => MIN_BACKOFF,
        };
        state.failure = Some(Failure { fault: fault.clone(), failed_at: Instant::now(), backoff });
        fault
    }

    /// Opens a channel to `place` on a session.
    pub(crate) async fn connect(
        &self,
        permit: ChannelPermit,
        destination: &Destination,
    ) -> Result<Tunnel, ChannelRefusal> {
        let (reply_to, answer) = oneshot::channel();
        let mux = Arc::clone(&permit.mux);
        let tunnel_task = run_tunnel(permit, destination.clone(), reply_to);
        {
            let mut tunnels = lock(&mux.tunnels);
            while tunnels.try_join_next().is_some() {}
            tunnels.spawn(tunnel_task);
        }
        let answer = answer.await.unwrap_or(Err(ChannelRefusal::SessionEnded));
        if answer.is_ok() {
            lock(&self.state).forbidden.remove(destination);
        }
        answer
    }

    /// Returns the fault of a destination that the gateway forbids.
    pub(crate) fn refusal(&self, why: String) -> Fault {
        Fault::GatewayForwardingRefused { gateway: self.name.clone(), why }
    }

    /// Returns true if the gateway is known to forbid this destination.
    pub(crate) fn is_forbidden(&self, destination: &Destination) -> bool {
        lock(&self.state).forbidden.contains(destination)
    }

    /// Records that the gateway forbids this destination, rather than lacks free channels.
    pub(crate) fn mark_forbidden(&self, destination: Destination) {
        let mut state = lock(&self.state);
        if state.forbidden.len() < MAX_FORBIDDEN {
            state.forbidden.insert(destination);
        }
        for mux in state.sessions.iter().filter_map(Weak::upgrade) {
            lock(&mux.channels).limit = usize::MAX;
        }
    }
}

/// A session with a gateway that carries many channels; it closes with its last tunnel and permit.
pub(crate) struct MuxSession {
    gateway: String,
    session: SshSession,
    channels: Mutex<ChannelCounts>,
    /// The task of each tunnel; keeps the session open until the tunnel is closed.
    tunnels: Mutex<JoinSet<()>>,
}

struct ChannelCounts {
    /// Channels that are open or requested.
    reserved: usize,
    /// Channels that are open.
    opened_count: usize,
    /// The known limit of channels.
    limit: usize,
}

impl MuxSession {
    /// Returns why the session has ended, or `None` while it is open.
    pub(crate) fn end_fault(&self) -> Option<Fault> {
        let state: &ConnectionState = &self.session.state;
        let is_over = self.session.handle.is_closed() || state.end().is_some();
        is_over.then(|| Fault::SessionLost { why: state.end_text() }.at_gateway(&self.gateway))
    }

    /// Records that the gateway refuses more channels on this session. Returns false if no channel is open: then the
    /// refusal has another reason.
    pub(crate) fn mark_full(&self) -> bool {
        let mut channels = lock(&self.channels);
        if channels.opened_count > 0 {
            channels.limit = channels.opened_count;
        }
        channels.opened_count > 0
    }
}

impl Underlay for MuxSession {
    fn uses_master(&self) -> bool {
        self.session.underlay.uses_master()
    }

    fn attribute(&self, fault: Fault) -> Attributed<'_> {
        Box::pin(std::future::ready(self.end_fault().unwrap_or(fault)))
    }
}

/// A permit for one channel of a session.
pub(crate) struct ChannelPermit {
    pub(crate) mux: Arc<MuxSession>,
    is_open: bool,
}

impl ChannelPermit {
    /// Returns a permit if the limit is not reached.
    pub(crate) fn try_acquire(mux: &Arc<MuxSession>) -> Option<Self> {
        let mut channels = lock(&mux.channels);
        if channels.reserved >= channels.limit {
            return None;
        }
        channels.reserved += 1;
        Some(Self { mux: Arc::clone(mux), is_open: false })
    }

    fn mark_open(&mut self) {
        self.is_open = true;
        lock(&self.mux.channels).opened_count += 1;
    }
}

impl Drop for ChannelPermit {
    fn drop(&mut self) {
        let mut channels = lock(&self.mux.channels);
        channels.reserved -= 1;
        if self.is_open {
            channels.opened_count -= 1;
        }
    }
}

/// Why a gateway opened no channel.
#[derive(Debug)]
pub(crate) enum ChannelRefusal {
    /// It could not connect to the destination.
    Unreachable(String),
    /// It does not allow the channel.
    Forbidden(String),
    /// It is short of resources.
    ResourceShortage(String),
    /// Its session has ended.
    SessionEnded,
}

impl ChannelRefusal {
    /// Returns the gateway's message.
    pub(crate) fn message(self) -> String {
        match self {
            Self::Unreachable(message)
            | Self::Forbidden(message)
            | Self::ResourceShortage(message) => message,
            Self::SessionEnded => "connection closed".to_owned(),
        }
    }
}

/// Opens one tunnel, pumps its data, and closes it.
async fn run_tunnel(
    mut permit: ChannelPermit,
    (host, port): Destination,
    mut reply_to: oneshot::Sender<Result<Tunnel, ChannelRefusal>>,
) {
    let mux = Arc::clone(&permit.mux);
    let handle = &mux.session.handle;
    let mut opening =
        Box::pin(handle.channel_open_direct_tcpip(host, u32::from(port), "127.0.0.1", 0));
    let opened = tokio::select! {
        opened = &mut opening => opened,
        // A channel that opens after its caller has left must be closed, or it would stay as long as the session.
        () = reply_to.closed() => match timeout(ABANDONED_OPEN_TIMEOUT, &mut opening).await {
            Ok(opened) => opened,
            Err(_elapsed) => return,
        },
    };
    drop(opening);
    let channel = match opened {
        Ok(channel) => channel,
        Err(error) => {
            // The caller may be gone.
            reply_to.send(Err(channel_refusal(&error, &mux.session.state))).ok();
            return;
        }
    };
    permit.mark_open();
    let (tunnel, pump) = tunnel(channel);
    // If the caller is gone the tunnel is dropped, and the pump closes it.
    reply_to.send(Ok(tunnel)).ok();
    pump.run().await;
}

fn is_account_refusal(fault: &Fault) -> bool {
    matches!(fault.root(), Fault::AccountRefused { .. })
}

fn channel_refusal(error: &russh::Error, state: &ConnectionState) -> ChannelRefusal {
    let russh::Error::ChannelOpenFailure(reason) = error else {
        return ChannelRefusal::SessionEnded;
    };
    let message = state.take_refusal().map(|message| text::lowercase_first(&message));
    let (refusal, default): (fn(String) -> ChannelRefusal, _) = match reason {
        ChannelOpenFailure::ConnectFailed => {
            (ChannelRefusal::Unreachable, "connect failed on the gateway")
        }
        ChannelOpenFailure::ResourceShortage => {
            (ChannelRefusal::ResourceShortage, "short of resources")
        }
        ChannelOpenFailure::AdministrativelyProhibited
        | ChannelOpenFailure::UnknownChannelType
        | ChannelOpenFailure::Other { .. } => {
            (ChannelRefusal::Forbidden, "prohibited by the gateway")
        }
    };
    refusal(message.unwrap_or_else(|| default.to_owned()))
}
