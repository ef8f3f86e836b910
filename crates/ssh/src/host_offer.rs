//! The keys of a host, or of the gateway before it that is not known yet, without a login there.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::connection::session;
use crate::gateway::Gateway;
use crate::host_keys::HostKeyStatus;
use crate::host_keys::verifier::HostKeyPolicy;
use crate::host_keys::writer::{self, KnownHostEntry, OfferedKey};
use crate::{Client, ConnectPlan, Profile, SshTarget, shutting_down};
use gtop_local::fault::ssh::Fault;
use gtop_local::storage::WriteError;

/// Further attempts at a server that is too slow for the limit.
const SLOW_ATTEMPTS: usize = 2;

/// The host on the way to a node whose key is asked about, and what it shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOffer {
    /// The gateway, as `ProxyJump` names it; `None` if it is the node itself.
    pub gateway: Option<String>,
    /// Where it was reached; unknown behind a gateway or a program.
    pub address: Option<SocketAddr>,
    /// Its port.
    pub port: u16,
    /// The gateways before it.
    pub via: Vec<String>,
    /// Its keys; the first is the one that `ssh` asks about. Others that must not be stored are left out.
    pub keys: Vec<OfferedKey>,
}

impl HostOffer {
    /// Returns why the key that `ssh` would ask about is refused.
    pub fn refusal(&self) -> Option<&Fault> {
        self.keys.first()?.refusal.as_ref()
    }
}

impl Client {
    /// Fetches the keys of a host without logging in there. If a gateway on the way is not known, its keys.
    pub async fn fetch_host_keys(&self, name: &str, ssh: &SshTarget) -> Result<HostOffer, Fault> {
        let Profile::System = ssh.profile else {
            let why = "the host key of this node is fixed".to_owned();
            return Err(Fault::BadConfiguration { why });
        };
        let query = self.host_query(ssh);
        let settings = self.host_settings(&query).await?;
        let plan = self.plan(&query, &settings).await?;
        let mut offer = self.fetch_keys_of_plan(name, &plan).await;
        let mut limit = plan.connect_timeout;
        for _ in 0..SLOW_ATTEMPTS {
            // It grows where the server did not answer in time.
            if offer.is_ok() || self.connect_timeout(&query.host, &settings) <= limit {
                break;
            }
            let plan = self.plan(&query, &settings).await?;
            limit = plan.connect_timeout;
            offer = self.fetch_keys_of_plan(name, &plan).await;
        }
        let unknown = offer.as_ref().err().and_then(unknown_gateway);
        let Some(gateway) =
            unknown.and_then(|name| plan.route.gateways().find(|gateway| gateway.name == name))
        else {
            return offer;
        };
        let Gateway { name, query, .. } = gateway.as_ref();
        let plan = self.plan_for_gateway(gateway).await?;
        let offer = self.fetch_keys_of_plan(&query.host, &plan).await;
        let offer = offer.map_err(|fault| fault.at_gateway(name))?;
        Ok(HostOffer { gateway: Some(name.clone()), ..offer })
    }

    /// Adds lines to `known_hosts` files, and returns the number of new ones. Gateways that were not known are tried
    /// again at once.
    pub async fn store_host_keys(&self, entries: Vec<KnownHostEntry>) -> Result<usize, WriteError> {
        let stored = self.run_blocking(move |state| {
            let stored = writer::write_known_hosts(&entries);
            state.gateways.forget_failures();
            stored
        });
        stored.await.unwrap_or(Ok(0))
    }

    /// Fetches the keys of the host of a plan: one per type of key, as it shows only one at a time.
    async fn fetch_keys_of_plan(&self, name: &str, plan: &ConnectPlan) -> Result<HostOffer, Fault> {
        let HostKeyPolicy::KnownHosts(verifier) = &plan.host_key_policy else {
            return Err(shutting_down());
        };
        let mut offer = HostOffer {
            gateway: None,
            address: None,
            port: plan.settings.port,
            via: plan.route.gateway_names(),
            keys: Vec::new(),
        };
        let mut algorithms = verifier.host_key_algorithms.clone();
        let mut seen = Vec::new();
        while !algorithms.keys.is_empty() {
            let (connection, deadline) = self.dial(name, plan, &mut |_| ()).await?;
            let address = connection.address;
            let (policy, params) = (Arc::clone(verifier), plan.params.clone());
            let shown = session::fetch_host_key(connection, policy, algorithms, params, &deadline);
            let verification = match shown.await {
                Ok(verification) => verification,
                Err(fault) if seen.is_empty() => {
                    if deadline.remaining().is_zero() {
                        self.add_timeout(&plan.login.node_name, &plan.settings);
                    }
                    return Err(fault);
                }
                // It has no key of another type.
                Err(_fault) => break,
            };
            let is_unknown = verification.status == HostKeyStatus::Unknown;
            let is_first = seen.is_empty();
            seen.push(verification.key.clone());
            if is_first || is_unknown {
                offer.keys.push(writer::describe_key(&verifier.settings, verification)?);
            }
            offer.address = address;
            if is_first && !is_unknown {
                break;
            }
            algorithms = verifier.host_key_algorithms.without(&seen);
        }
        Ok(offer)
    }
}

/// Returns the gateway whose key must be asked about before the fault can end.
fn unknown_gateway(fault: &Fault) -> Option<&str> {
    let Fault::AtGateway { gateway, fault } = fault else { return None };
    let is_about_key = matches!(
        **fault,
        Fault::HostKeyUnknown { .. }
            | Fault::HostKeyNotKept { .. }
            | Fault::HostCertificateRefused { .. }
    );
    if is_about_key { Some(gateway) } else { unknown_gateway(fault) }
}
