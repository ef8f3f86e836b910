//! Gateways: hosts that carry connections to others (`ProxyJump`).
//!
//! All nodes behind a gateway share one session with it, opened once however many ask at the same
//! moment and closed when the last of them is gone. Only a gateway that takes no more channels on
//! one session gets another.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use russh::ChannelOpenFailure;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::transport::fault::Fault;
use crate::transport::file_cache::lock;
use crate::transport::openssh_stderr;
use crate::transport::route::ResolvedRoute;
use crate::transport::session::{ConnectionState, Session};
use crate::transport::ssh_config::{HostQuery, HostSettings};
use crate::transport::tunnel::{Tunnel, tunnel};

/// Most sessions with one gateway.
const MAX_SESSIONS: usize = 16;

/// Most places that are remembered as forbidden.
const MAX_FORBIDDEN: usize = 4096;

/// How long a channel that nobody waits for any more may take to open, to be closed again.
const ABANDONED_OPEN_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a gateway is left alone after it could not be reached: at first, and at most. Nodes
/// that ask meanwhile wait for the next try together.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(16);

/// How long everybody gets the same answer from a gateway that refused us: only a person can mend
/// that, and every try counts there.
const REFUSAL_HOLD: Duration = Duration::from_secs(5);

/// The same for one that ends the login of the account, for reasons that may pass: as many nodes ask one after the
/// other as are behind it.
const ACCOUNT_REFUSAL_HOLD: Duration = Duration::from_secs(60);

/// Where a gateway is to connect to.
pub(super) type Destination = (String, u16);

/// All gateways in use.
#[derive(Debug, Default)]
pub(super) struct Gateways(Mutex<Vec<Arc<Gateway>>>);

impl Gateways {
    /// Returns the gateway with these settings that is reached this way; there is one of each,
    /// whatever it is called.
    pub(super) fn get(
        &self,
        asked: HostQuery,
        settings: Arc<HostSettings>,
        route: ResolvedRoute,
    ) -> Arc<Gateway> {
        let mut known = lock(&self.0);
        let is_it =
            |gateway: &&Arc<Gateway>| gateway.settings == settings && gateway.route == route;
        if let Some(gateway) = known.iter().find(is_it) {
            return Arc::clone(gateway);
        }
        // An edited configuration makes others of them.
        known.retain(|gateway| Arc::strong_count(gateway) > 1);
        let gateway = Arc::new(Gateway {
            name: asked.host.clone(),
            asked,
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
pub(super) struct Gateway {
    /// As `ProxyJump` names it, the first time.
    pub(super) name: String,
    /// The same with what `ProxyJump` says about it.
    pub(super) asked: HostQuery,
    pub(super) settings: Arc<HostSettings>,
    /// How it is reached itself.
    pub(super) route: ResolvedRoute,
    /// Who may open a session with it.
    pub(super) open_permit: Semaphore,
    /// Whether it was reached over a master connection of the user's after it had refused gtop itself.
    pub(super) has_master: AtomicBool,
    state: Mutex<GatewayState>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct GatewayState {
    sessions: Vec<Weak<MuxSession>>,
    /// The last failure to open a session, when there was no success since.
    failure: Option<Failure>,
    /// Where the gateway has refused to connect to although it was asked for nothing else.
    forbidden: BTreeSet<Destination>,
}

/// A failure to open a session.
struct Failure {
    fault: Fault,
    at: Instant,
    /// How long the gateway is left alone.
    backoff: Duration,
}

impl Gateway {
    /// Takes a seat in a session that is open and has room.
    pub(super) fn permit(&self) -> Option<ChannelPermit> {
        let mut state = lock(&self.state);
        state.sessions.retain(|mux| mux.upgrade().is_some_and(|mux| mux.end().is_none()));
        let sessions: Vec<_> = state.sessions.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        sessions.iter().find_map(ChannelPermit::take)
    }

    /// Returns until when somebody who asked at this time must wait before a session may be opened.
    ///
    /// Fails when that was tried since, or when there are sessions enough: one try is for all who
    /// asked before it.
    pub(super) fn backoff_until(&self, asked: Instant) -> Result<Option<Instant>, Fault> {
        let state = lock(&self.state);
        if let Some(Failure { fault, at, backoff }) = &state.failure {
            let until = *at + *backoff;
            let is_over = until <= Instant::now();
            let passes = fault.retries_by_itself() && !is_account_refusal(fault);
            if *at >= asked || !(is_over || passes) {
                return Err(fault.clone());
            }
            if !is_over {
                return Ok(Some(until));
            }
        }
        if state.sessions.len() >= MAX_SESSIONS {
            let why = "it takes no more connections".to_owned();
            return Err(Fault::ChannelRefused { why }.at_gateway(&self.name));
        }
        Ok(None)
    }

    /// Takes in a new session.
    pub(super) fn add_session(&self, session: Session) -> Arc<MuxSession> {
        let mux = Arc::new(MuxSession {
            gateway: self.name.clone(),
            session,
            load: Mutex::new(ChannelCounts { reserved: 0, opened_count: 0, limit: usize::MAX }),
            tunnels: Mutex::default(),
        });
        let mut state = lock(&self.state);
        state.failure = None;
        state.sessions.push(Arc::downgrade(&mux));
        mux
    }

    /// Takes note that no session could be opened, and returns why as a fault of the gateway.
    pub(super) fn record_failure(&self, fault: Fault) -> Fault {
        let fault = fault.at_gateway(&self.name);
        let mut state = lock(&self.state);
        let backoff = match &state.failure {
            _ if is_account_refusal(&fault) => ACCOUNT_REFUSAL_HOLD,
            _ if !fault.retries_by_itself() => REFUSAL_HOLD,
            Some(last) => (last.backoff * 2).min(MAX_BACKOFF),
            None => MIN_BACKOFF,
        };
        state.failure = Some(Failure { fault: fault.clone(), at: Instant::now(), backoff });
        fault
    }

    /// Opens a channel to `place` on a session.
    pub(super) async fn connect(
        &self,
        permit: ChannelPermit,
        place: &Destination,
    ) -> Result<Tunnel, ChannelRefusal> {
        let (reply_to, answer) = oneshot::channel();
        let mux = Arc::clone(&permit.mux);
        let working = run_tunnel(permit, place.clone(), reply_to);
        {
            let mut tunnels = lock(&mux.tunnels);
            while tunnels.try_join_next().is_some() {}
            tunnels.spawn(working);
        }
        let answer = answer.await.unwrap_or(Err(ChannelRefusal::Gone));
        if answer.is_ok() {
            lock(&self.state).forbidden.remove(place);
        }
        answer
    }

    /// Returns whether the gateway is known to forbid this place alone.
    pub(super) fn is_forbidden(&self, place: &Destination) -> bool {
        lock(&self.state).forbidden.contains(place)
    }

    /// Takes note that the gateway forbids this place: it was not for lack of room.
    pub(super) fn mark_forbidden(&self, place: &Destination) {
        let mut state = lock(&self.state);
        if state.forbidden.len() < MAX_FORBIDDEN {
            state.forbidden.insert(place.clone());
        }
        for mux in state.sessions.iter().filter_map(Weak::upgrade) {
            lock(&mux.load).limit = usize::MAX;
        }
    }
}

/// A session with a gateway; it ends when the last tunnel and the last seat are gone.
pub(super) struct MuxSession {
    gateway: String,
    session: Session,
    load: Mutex<ChannelCounts>,
    /// The work of each tunnel; it keeps the session until the tunnel is closed.
    tunnels: Mutex<JoinSet<()>>,
}

struct ChannelCounts {
    /// Tunnels that are open or asked for.
    reserved: usize,
    /// Tunnels that are open.
    opened_count: usize,
    /// How many seats there are, as far as known.
    limit: usize,
}

impl MuxSession {
    /// Returns whether the session runs over a master connection of the user's.
    pub(super) fn uses_master(&self) -> bool {
        self.session.underlay.uses_master()
    }

    /// Returns why the session has ended, once it has.
    pub(super) fn end(&self) -> Option<Fault> {
        let state: &ConnectionState = &self.session.state;
        let is_over = self.session.handle.is_closed() || state.end().is_some();
        is_over.then(|| Fault::SessionLost { why: state.end_text() }.at_gateway(&self.gateway))
    }
}

/// The right to one tunnel of a session.
pub(super) struct ChannelPermit {
    pub(super) mux: Arc<MuxSession>,
    is_open: bool,
}

impl ChannelPermit {
    /// Takes a seat when there is one.
    pub(super) fn take(mux: &Arc<MuxSession>) -> Option<Self> {
        let mut load = lock(&mux.load);
        if load.reserved >= load.limit {
            return None;
        }
        load.reserved += 1;
        Some(Self { mux: Arc::clone(mux), is_open: false })
    }

    fn mark_open(&mut self) {
        self.is_open = true;
        lock(&self.mux.load).opened_count += 1;
    }
}

impl Drop for ChannelPermit {
    fn drop(&mut self) {
        let mut load = lock(&self.mux.load);
        load.reserved -= 1;
        if self.is_open {
            load.opened_count -= 1;
        }
    }
}

impl MuxSession {
    /// Takes note that the gateway takes no more channels on this session, which it can only mean
    /// when it has taken some. Returns whether it has.
    pub(super) fn mark_full(&self) -> bool {
        let mut load = lock(&self.load);
        if load.opened_count > 0 {
            load.limit = load.opened_count;
        }
        load.opened_count > 0
    }
}

/// Why a gateway opened no channel.
#[derive(Debug)]
pub(super) enum ChannelRefusal {
    /// It tried, and the place did not answer.
    Unreachable(String),
    /// It does not do that, or not any more.
    Forbidden(String),
    /// It cannot now.
    Shortage(String),
    /// Its session is over.
    Gone,
}

impl ChannelRefusal {
    /// Returns what the gateway said.
    pub(super) fn words(self) -> String {
        match self {
            Self::Unreachable(words) | Self::Forbidden(words) | Self::Shortage(words) => words,
            Self::Gone => "connection closed".to_owned(),
        }
    }
}

/// Opens one tunnel, does its work, and closes it.
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
        // A channel that opens later must be closed, or it would stay for the life of the session.
        () = reply_to.closed() => match timeout(ABANDONED_OPEN_TIMEOUT, &mut opening).await {
            Ok(opened) => opened,
            Err(_elapsed) => return,
        },
    };
    drop(opening);
    let channel = match opened {
        Ok(channel) => channel,
        Err(error) => {
            // Nobody may be waiting any more.
            reply_to.send(Err(refusal(&error, &mux.session.state))).ok();
            return;
        }
    };
    permit.mark_open();
    let (tunnel, pump) = tunnel(channel);
    // A tunnel nobody takes ends at once, and the pump closes it.
    reply_to.send(Ok(tunnel)).ok();
    pump.run().await;
}

fn is_account_refusal(fault: &Fault) -> bool {
    matches!(fault.root(), Fault::AccountRefused { .. })
}

fn refusal(error: &russh::Error, state: &ConnectionState) -> ChannelRefusal {
    let russh::Error::ChannelOpenFailure(reason) = error else { return ChannelRefusal::Gone };
    let words = state.refusal().map(|words| openssh_stderr::lowercase_first(&words));
    let or = |usual: &str| words.clone().unwrap_or_else(|| usual.to_owned());
    match reason {
        ChannelOpenFailure::ConnectFailed => {
            ChannelRefusal::Unreachable(or("connect failed there"))
        }
        ChannelOpenFailure::ResourceShortage => ChannelRefusal::Shortage(or("short of resources")),
        ChannelOpenFailure::AdministrativelyProhibited
        | ChannelOpenFailure::UnknownChannelType
        | ChannelOpenFailure::Other { .. } => ChannelRefusal::Forbidden(or("prohibited there")),
    }
}
