//! Opens a connection to a host: directly, through gateways, or with a `ProxyCommand`.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::time::{Instant, sleep_until};

use crate::SshTarget;
use crate::config::{HostQuery, HostSettings, Route};
use crate::connection::Stream;
use crate::connection::addresses::SchedulerAddresses;
use crate::connection::dial::{self, Endpoint};
use crate::connection::proxy_command::ProgramStderr;
use crate::connection::{Attributed, Connection, Network, Underlay};
use crate::connection::{proxy_command, session};
use crate::deadline::Deadline;
use crate::gateway::{ChannelPermit, ChannelRefusal, Gateway, ResolvedRoute};
use crate::program::control_master::{ControlMaster, connection_id};
use crate::trace::{self, ConnectEvent};
use crate::{Client, ConnectPlan, LOGIN_TIMEOUT};
use gtop_local::fault::ssh::{ConnectPhase, Fault, Recourse};
use gtop_local::process::Launch;
use gtop_local::text;

/// Most gateways in one route.
const MAX_JUMPS: usize = 16;

/// A connection that the user's `ControlMaster` connection to a gateway forwards.
struct MasterForward {
    gateway: Arc<Gateway>,
    master: ControlMaster,
    stderr: Arc<ProgramStderr>,
}

impl Underlay for MasterForward {
    fn uses_master(&self) -> bool {
        true
    }

    fn attribute(&self, fault: Fault) -> Attributed<'_> {
        Box::pin(async move {
            match self.stderr.last_line().await {
                Some(why) if why.contains("refused by peer") => Fault::GatewayCannotReach {
                    gateway: self.gateway.name.clone(),
                    why: text::lowercase_first(&why),
                },
                // ssh prints something only when the master ends, and often not even then.
                Some(_) => self.master.lost_fault().at_gateway(&self.gateway.name),
                None if self.master.is_gone().await => {
                    self.master.lost_fault().at_gateway(&self.gateway.name)
                }
                None => fault,
            }
        })
    }
}

impl Client {
    /// Resolves the route to a host, with every gateway.
    ///
    /// Each gateway has its own settings in the configuration. Its own `ProxyJump` applies only to the first of a
    /// list, since the list defines the route to the others.
    pub(crate) async fn resolve_route(
        &self,
        query: &HostQuery,
        settings: &Arc<HostSettings>,
    ) -> Result<ResolvedRoute, Fault> {
        let mut gateways: Vec<(HostQuery, Arc<HostSettings>)> = Vec::new();
        let mut names = vec![query.host.to_ascii_lowercase()];
        let mut first = Arc::clone(settings);
        while let Route::Jumps(hops) = &first.route {
            let Some(nearest) = hops.first() else { break };
            let name = nearest.host.to_ascii_lowercase();
            let is_loop = names.contains(&name) && nearest.port.is_none();
            names.push(name);
            if is_loop || gateways.len() + hops.len() > MAX_JUMPS {
                let why = format!("ProxyJump loop: {}", names.join(", "));
                return Err(Fault::BadConfiguration { why });
            }
            for hop in hops.iter().rev() {
                let found = self.host_settings(hop).await;
                let found = found.map_err(|fault| fault.at_gateway(&hop.destination()))?;
                gateways.push((hop.clone(), found));
            }
            let Some((_, nearest)) = gateways.last() else { break };
            first = Arc::clone(nearest);
        }
        let route = ResolvedRoute::first_hop(&first);
        Ok(gateways.into_iter().rev().fold(route, |route, (hop, settings)| {
            ResolvedRoute::Gateway(self.0.gateways.get(hop, settings, route))
        }))
    }

    /// Returns the settings of a target and its gateways, without those that have an open `ControlMaster` connection:
    /// they need no login.
    pub(crate) async fn settings_needing_login(
        &self,
        ssh: &SshTarget,
    ) -> Result<Vec<Arc<HostSettings>>, Fault> {
        let query = self.host_query(ssh);
        let settings = self.host_settings(&query).await?;
        let route = self.resolve_route(&query, &settings).await?;
        let gateways = route.gateways().map(|gateway| (&gateway.query, &gateway.settings));
        let mut without_master = Vec::new();
        for (query, settings) in [(&query, &settings)].into_iter().chain(gateways) {
            if self.find_master(query, settings).await.is_none() {
                without_master.push(Arc::clone(settings));
            }
        }
        Ok(without_master)
    }

    /// Opens a connection to the host of a plan. The deadline starts when the gateway is connected: the wait for a
    /// gateway does not count against the host.
    pub(crate) async fn dial(
        &self,
        typed_name: &str,
        plan: &ConnectPlan,
        on_phase: &mut impl FnMut(ConnectPhase),
    ) -> Result<(Connection, Deadline), Fault> {
        let bind_options = match &plan.route {
            ResolvedRoute::Direct(bind_options) => bind_options,
            ResolvedRoute::Command(command) => {
                on_phase(ConnectPhase::Connection);
                let parent_guard = self.0.options.parent_guard.as_deref();
                let (program, stderr) = proxy_command::start(command, parent_guard)?;
                let connection = connection(Box::new(program), plan.settings.port, stderr);
                return Ok((connection, Deadline::after(plan.connect_timeout)));
            }
            ResolvedRoute::Gateway(gateway) => {
                on_phase(ConnectPhase::Connection);
                return self.connect_via_gateway(gateway, typed_name, plan).await;
            }
        };
        on_phase(ConnectPhase::Name);
        let deadline = Deadline::after(plan.connect_timeout);
        let HostSettings { host, port, family, .. } = plan.settings.as_ref();
        let endpoint = Endpoint { host, port: *port, family: *family, typed_name };
        let addresses = deadline.timeout(ConnectPhase::Name, self.look_up(endpoint)).await??;
        trace::record(|| ConnectEvent::Resolved(addresses.clone()));
        on_phase(ConnectPhase::Connection);
        let bind_options =
            deadline.timeout(ConnectPhase::Name, bind_options.resolve(&self.0.resolver)).await??;
        let stream = dial::connect(&addresses, &bind_options, &deadline).await?;
        let address = stream.peer_addr().ok();
        let connection = connection(Box::new(stream), plan.settings.port, Arc::new(Network));
        Ok((Connection { address, ..connection }, deadline))
    }

    /// Looks up a name; if it does not resolve, the scheduler's address of the node.
    async fn look_up(&self, endpoint: Endpoint<'_>) -> Result<Vec<SocketAddr>, Fault> {
        let unknown = match self.0.resolver.look_up(endpoint).await {
            Err(fault @ Fault::NameNotFound { .. }) => fault,
            ended => return ended,
        };
        let Some(host) = self.scheduler_address(endpoint.typed_name, endpoint.host).await else {
            return Err(unknown);
        };
        let alternative = Endpoint { host: &host, ..endpoint };
        self.0.resolver.look_up(alternative).await.map_err(|_as_unknown| unknown)
    }

    /// Returns the scheduler's address of a node; `None` if the configuration sets another `HostName`.
    async fn scheduler_address(&self, typed_name: &str, host: &str) -> Option<String> {
        if !host.eq_ignore_ascii_case(typed_name) {
            return None;
        }
        self.0.addresses.get(typed_name).await
    }

    /// Returns the address for the ssh program to connect to if the node name does not resolve.
    pub async fn fallback_address(
        &self,
        typed_name: &str,
        settings: &HostSettings,
    ) -> Option<String> {
        if settings.route != Route::Direct {
            return None;
        }
        let endpoint =
            Endpoint { host: typed_name, port: settings.port, family: settings.family, typed_name };
        // A name that resolves waits for no query of the scheduler.
        let is_awaited = self.0.addresses.is_awaited(typed_name);
        if is_awaited && self.0.resolver.look_up(endpoint).await.is_ok() {
            return None;
        }
        // Checked first: few nodes have such an address, and the others need no second lookup.
        let address = self.scheduler_address(typed_name, &settings.host).await?;
        self.0.resolver.look_up(endpoint).await.is_err().then_some(address)
    }

    /// Sets the scheduler's addresses of its nodes.
    pub fn set_scheduler_addresses(&self, addresses: SchedulerAddresses) {
        self.0.addresses.set(addresses);
    }

    /// Opens a connection through a gateway.
    async fn connect_via_gateway(
        &self,
        gateway: &Arc<Gateway>,
        typed_name: &str,
        plan: &ConnectPlan,
    ) -> Result<(Connection, Deadline), Fault> {
        let mut destination = (plan.settings.host.clone(), plan.settings.port);
        let login_id = connection_id(&gateway.settings, &self.0.options.env);
        let may_have_master = gateway.has_master.load(Ordering::Relaxed)
            || ControlMaster::of_login(&login_id).is_some();
        if may_have_master && let Some(opened) = self.connect_over_master(gateway, plan).await {
            return opened;
        }
        let mut open_permit = None;
        // Keeps the sessions open between attempts.
        let mut sessions = Vec::new();
        loop {
            let permit = match self.acquire_permit(gateway, open_permit.is_some()).await {
                Ok(permit) => permit,
                Err(fault) if fault.permits(Recourse::Master) => {
                    return self.connect_over_master(gateway, plan).await.unwrap_or(Err(fault));
                }
                Err(fault) => return Err(fault),
            };
            let mux = Arc::clone(&permit.mux);
            sessions.push(Arc::clone(&mux));
            let deadline = Deadline::after(plan.connect_timeout);
            let opening =
                deadline.timeout(ConnectPhase::Connection, gateway.connect(permit, &destination));
            let refusal = match opening.await? {
                Ok(tunnel) => {
                    trace::record(|| ConnectEvent::GatewayConnected(gateway.name.clone()));
                    let connection = connection(Box::new(tunnel), plan.settings.port, mux);
                    return Ok((connection, deadline));
                }
                Err(ChannelRefusal::Unreachable(why)) => {
                    // The gateway may not resolve the name either.
                    let other = self.scheduler_address(typed_name, &destination.0).await;
                    if let Some(host) =
                        other.filter(|host| !host.eq_ignore_ascii_case(&destination.0))
                    {
                        destination.0 = host;
                        continue;
                    }
                    let gateway = gateway.name.clone();
                    return Err(Fault::GatewayCannotReach { gateway, why });
                }
                Err(ChannelRefusal::SessionEnded) => {
                    let why = ChannelRefusal::SessionEnded.message();
                    let lost = Fault::SessionLost { why }.at_gateway(&gateway.name);
                    return Err(mux.end_fault().unwrap_or(lost));
                }
                Err(ChannelRefusal::Forbidden(why)) if gateway.is_forbidden(&destination) => {
                    return Err(gateway.refusal(why));
                }
                Err(refusal) => refusal,
            };
            if mux.mark_full() {
                continue;
            }
            if open_permit.is_none() {
                // Many nodes may have asked at once, and refusals can overtake confirmations: then one at a time.
                open_permit = gateway.open_permit.acquire().await.ok();
                continue;
            }
            if matches!(refusal, ChannelRefusal::Forbidden(_)) {
                gateway.mark_forbidden(destination);
                return Err(gateway.refusal(refusal.message()));
            }
            // A transient refusal.
            let why = refusal.message();
            return Err(Fault::ChannelRefused { why }.at_gateway(&gateway.name));
        }
    }

    /// Opens a connection through a gateway over the user's `ControlMaster` connection to it, if there is one.
    async fn connect_over_master(
        &self,
        gateway: &Arc<Gateway>,
        plan: &ConnectPlan,
    ) -> Option<Result<(Connection, Deadline), Fault>> {
        let Gateway { name, query, settings, .. } = gateway.as_ref();
        let master = self.find_master(query, settings).await;
        gateway.has_master.store(master.is_some(), Ordering::Relaxed);
        let master = master?;
        trace::record(|| ConnectEvent::GatewayMaster {
            gateway: name.clone(),
            socket: master.path.clone(),
        });
        let options = &self.0.options;
        let args = master.forward_args(
            (query, settings),
            options.config_file.as_deref(),
            &plan.settings.host,
            plan.settings.port,
        );
        let launch = Launch {
            program: &options.ssh_program,
            args: &args,
            parent_guard: options.parent_guard.as_deref(),
            hides: |_| false,
            env: &[],
        };
        let command = options.ssh_program.display().to_string();
        let started = proxy_command::start_program(launch, command);
        Some(started.map(|(program, stderr)| {
            trace::record(|| ConnectEvent::GatewayConnected(name.clone()));
            let underlay = Arc::new(MasterForward { gateway: Arc::clone(gateway), master, stderr });
            let connection = connection(Box::new(program), plan.settings.port, underlay);
            (connection, Deadline::after(plan.connect_timeout))
        }))
    }

    /// Returns a channel permit of a session with a gateway; opens a session if none has a free slot.
    async fn acquire_permit(
        &self,
        gateway: &Arc<Gateway>,
        has_open_permit: bool,
    ) -> Result<ChannelPermit, Fault> {
        let asked_at = Instant::now();
        loop {
            if let Some(permit) = gateway.try_permit() {
                return Ok(permit);
            }
            // The first caller opens it for all who wait here.
            let open_permit =
                if has_open_permit { None } else { gateway.open_permit.acquire().await.ok() };
            if let Some(permit) = gateway.try_permit() {
                return Ok(permit);
            }
            let Some(until) = gateway.backoff_until(asked_at)? else {
                return self.open_session_and_permit(gateway).await;
            };
            drop(open_permit);
            sleep_until(until).await;
        }
    }

    /// Opens a session with a gateway and returns a channel permit.
    async fn open_session_and_permit(
        &self,
        gateway: &Arc<Gateway>,
    ) -> Result<ChannelPermit, Fault> {
        trace::record(|| ConnectEvent::GatewayStarted(gateway.name.clone()));
        let session = self.open_gateway(gateway).await;
        trace::record(|| ConnectEvent::GatewayFinished);
        let mux = gateway.add_session(session.map_err(|fault| gateway.record_failure(fault))?);
        ChannelPermit::try_acquire(&mux)
            .ok_or_else(|| Fault::SessionLost { why: String::new() }.at_gateway(&gateway.name))
    }

    /// Logs in to a gateway, which may be behind another one.
    pub(crate) fn open_gateway<'a>(
        &'a self,
        gateway: &'a Arc<Gateway>,
    ) -> Pin<Box<dyn Future<Output = Result<session::SshSession, Fault>> + Send + 'a>> {
        Box::pin(async move {
            let Gateway { query, settings, .. } = gateway.as_ref();
            let mut plan = self.plan_for_gateway(gateway).await?;
            plan.login.has_master = self.find_master(query, settings).await.is_some();
            self.log_in(&query.host, plan, &mut |_| ()).await.map(|(session, _)| session)
        })
    }

    /// Connects and authenticates; commands can be run afterwards.
    pub(crate) async fn log_in(
        &self,
        typed_name: &str,
        plan: ConnectPlan,
        on_phase: &mut impl FnMut(ConnectPhase),
    ) -> Result<(session::SshSession, Deadline), Fault> {
        let (connection, deadline) = self.dial(typed_name, &plan, on_phase).await?;
        on_phase(ConnectPhase::KeyExchange);
        let ConnectPlan { host_key_policy, params, login, connect_timeout, .. } = plan;
        let (state, policy) = (Arc::default(), host_key_policy);
        let established = session::establish(connection, policy, params, state, &deadline).await;
        let (host, settings) = (&login.node_name, &login.settings);
        if established.is_ok() {
            let took = connect_timeout.saturating_sub(deadline.remaining());
            let minimum = self.min_connect_timeout(settings);
            self.0.slow_servers.add_answer((host, settings.port), minimum, took);
        } else if deadline.remaining().is_zero() {
            self.add_timeout(host, settings);
        }
        let mut session = established?;
        on_phase(ConnectPhase::Login);
        let mut deadline = Deadline::after(LOGIN_TIMEOUT);
        match login.run(&mut session, &mut deadline).await {
            Ok(()) => Ok((session, deadline)),
            Err(fault) => Err(session.attribute(fault).await),
        }
    }
}

fn connection(stream: Box<dyn Stream>, port: u16, underlay: Arc<dyn Underlay>) -> Connection {
    Connection { stream, port, address: None, underlay }
}
