//! The keys of hosts that are not known: fetched from many nodes, asked about once per host, and stored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::app::env::Env;
use crate::app::targets;
use gtop_collect::inventory::Roster;
use gtop_collect::transport::{Target, Transport};
use gtop_fleet::advice::{self, Advice, Known};
use gtop_local::storage::WriteError;
use gtop_model::{
    AcceptedKey, HostKey, HostKeyQuestion, HostKeyReply, HostKeyRequest, NodeName, RefusedHost,
    UnknownHost,
};
use gtop_ssh::{Fault, HostKeyStatus, HostOffer, KnownHostEntry};

/// What is known of the keys of some nodes.
#[derive(Debug, Default)]
pub(super) struct HostKeyScan {
    /// The nodes that need no question, and why.
    pub(super) known: Vec<(NodeName, String)>,
    /// The nodes whose key is not asked about, why, and what to do.
    pub(super) refused: Vec<(NodeName, String, Advice)>,
    /// The hosts to ask about.
    pub(super) unknown: Vec<UnknownHost>,
    /// The line for each key, and whose it is by its name in the file.
    entries: BTreeMap<AcceptedKey, KnownHostEntry>,
    asked_names: Vec<AskedName>,
    targets: Vec<Target>,
}

/// The name of a host in a file, of which ssh accepts the key of one host.
#[derive(Clone, Debug)]
struct AskedName {
    file: PathBuf,
    name: String,
    /// The host that is asked about by this name.
    host: Arc<str>,
    fingerprint: String,
}

/// Fetches and stores the keys of hosts.
#[derive(Clone, Debug)]
pub(super) struct HostKeys {
    transport: Transport,
    max_connecting: u16,
}

impl HostKeys {
    pub(super) fn new(env: &Env) -> Self {
        let max_connecting = env.cli.connection.max_connecting;
        Self { transport: env.transport.clone(), max_connecting }
    }

    /// Fetches the keys of nodes, or of the gateways before them.
    pub(super) async fn scan(&self, targets: Vec<Target>) -> HostKeyScan {
        let mut scan = HostKeyScan { targets: targets.clone(), ..HostKeyScan::default() };
        let fetching = targets::spawn_for_each(targets, self.max_connecting, |target| {
            let transport = self.transport.clone();
            async move {
                let offer = transport.fetch_host_keys(&target).await;
                let facts = match offer.as_ref().map_or_else(Some, HostOffer::refusal) {
                    Some(fault) => transport.login_facts(&target, &fault.clone().into()).await,
                    None => None,
                };
                (target, offer, facts)
            }
        });
        let mut fetched = fetching.join_all().await;
        fetched.sort_by_key(|(index, _)| *index);
        for (_, (target, offer, facts)) in fetched {
            let mut known = Known::of_destination(target.name.host());
            known.set_facts(facts.map(Arc::new));
            // What is reached without SSH has no host key.
            let known = Some(known).filter(|_| self.transport.uses_ssh_config(&target));
            scan.add(target.name, offer, known.as_ref());
        }
        scan
    }

    /// Stores accepted keys; returns how many lines are new, and what is known of the nodes behind gateways that are
    /// known now.
    pub(super) async fn accept(
        &self,
        scan: &HostKeyScan,
        accepted: &[AcceptedKey],
    ) -> Result<(usize, HostKeyScan), WriteError> {
        let entries = accepted.iter().filter_map(|key| scan.entries.get(key).cloned()).collect();
        let stored = self.transport.store_host_keys(entries).await?;
        let hosts: BTreeSet<&str> = accepted.iter().map(|key| &*key.host).collect();
        let gateways = scan.unknown.iter().filter(|host| host.is_gateway);
        let gateways = gateways.filter(|host| hosts.contains(&*host.name));
        let nodes: BTreeSet<&NodeName> = gateways.flat_map(|gateway| &gateway.nodes).collect();
        let behind = scan.targets.iter().filter(|target| nodes.contains(&target.name));
        Ok((stored, self.scan(behind.cloned().collect()).await))
    }

    /// Answers the requests of the screen about nodes of the roster. A newer request ends the one before.
    pub(super) async fn serve(
        self,
        mut requests: mpsc::Receiver<HostKeyRequest>,
        replies: mpsc::Sender<HostKeyReply>,
        rosters: watch::Receiver<Arc<Roster>>,
    ) {
        let mut last = HostKeyScan::default();
        let mut next = requests.recv().await;
        while let Some(request) = next.take() {
            let (reply, scan) = tokio::select! {
                answer = self.answer(&last, request, &rosters) => answer,
                newer = requests.recv() => {
                    next = newer;
                    continue;
                }
            };
            if let Some(scan) = scan {
                last = scan;
            }
            if replies.send(reply).await.is_err() {
                // The screen has ended.
                return;
            }
            next = requests.recv().await;
        }
    }

    async fn answer(
        &self,
        last: &HostKeyScan,
        request: HostKeyRequest,
        rosters: &watch::Receiver<Arc<Roster>>,
    ) -> (HostKeyReply, Option<HostKeyScan>) {
        match request {
            HostKeyRequest::Fetch(nodes) => {
                let roster = Arc::clone(&rosters.borrow());
                let nodes: BTreeSet<NodeName> = nodes.into_iter().collect();
                let targets = roster.targets.iter().filter(|target| nodes.contains(&target.name));
                let scan = self.scan(targets.cloned().collect()).await;
                (HostKeyReply::Fetched(scan.question()), Some(scan))
            }
            HostKeyRequest::Accept(accepted) => match self.accept(last, &accepted).await {
                Ok((stored, mut scan)) => {
                    let question = scan.question();
                    scan.keep_unanswered(last, &accepted);
                    (HostKeyReply::Stored(stored, question), Some(scan))
                }
                Err(error) => (HostKeyReply::NotStored(error.to_string()), None),
            },
        }
    }
}

impl HostKeyScan {
    /// Returns the question for the screen.
    pub(super) fn question(&self) -> HostKeyQuestion {
        let refused = self.refused.iter().map(|(node, why, advice)| RefusedHost {
            node: node.clone(),
            why: why.as_str().into(),
            remedy: advice.first().into(),
        });
        HostKeyQuestion { unknown: self.unknown.clone(), refused: refused.collect() }
    }

    /// Keeps the hosts of the question before that are not answered yet.
    fn keep_unanswered(&mut self, last: &Self, accepted: &[AcceptedKey]) {
        let mut before = last.question();
        before.remove(accepted);
        self.unknown.extend(before.unknown);
        let entries = last.entries.iter().map(|(key, entry)| (key.clone(), entry.clone()));
        self.entries.extend(entries);
        self.asked_names.extend(last.asked_names.iter().cloned());
        self.targets.extend(last.targets.iter().cloned());
    }

    fn add(&mut self, node: NodeName, offer: Result<HostOffer, Fault>, known: Option<&Known>) {
        let offer = match offer {
            Ok(offer) => offer,
            Err(fault) => return self.refuse(node, &fault, known),
        };
        if let Some(fault) = offer.refusal() {
            return self.refuse(node, fault, known);
        }
        let Some(first) = offer.keys.first() else { return };
        let why = match &first.status {
            HostKeyStatus::Unknown => return self.ask(node, offer),
            HostKeyStatus::Certified { at } => {
                format!("already known by the certificate authority in {at}")
            }
            HostKeyStatus::Exempt => "not checked, by NoHostAuthenticationForLocalhost".to_owned(),
            // Those are refusals.
            HostKeyStatus::Known
            | HostKeyStatus::Changed { .. }
            | HostKeyStatus::Revoked { .. } => "already known".to_owned(),
        };
        self.known.push((node, why));
    }

    fn refuse(&mut self, node: NodeName, fault: &Fault, known: Option<&Known>) {
        let advice = known.map(|known| advice::of_untrusted(fault, known)).unwrap_or_default();
        self.refused.push((node, fault.to_string(), advice));
    }

    /// Asks about a host, once for all nodes that it is or stands before.
    fn ask(&mut self, node: NodeName, offer: HostOffer) {
        let place = place_text(&node, &offer);
        let HostOffer { gateway, keys, .. } = offer;
        let is_gateway = gateway.is_some();
        let name: Arc<str> = gateway.as_deref().unwrap_or(node.label()).into();
        let Some((first, entry)) = keys.first().and_then(|key| Some((key, key.entry.as_ref()?)))
        else {
            return;
        };
        let mut asked = self.asked_names.iter();
        let asked = asked.find(|asked| asked.file == entry.file && asked.name == first.host);
        if let Some(asked) = asked {
            if asked.fingerprint != first.fingerprint {
                let why = format!(
                    "its key differs from that of {}, and known_hosts has both as {}",
                    asked.host, asked.name
                );
                return self.refused.push((node, why, advice::of_shared_name()));
            }
            if let Some(host) = self.unknown.iter_mut().find(|host| host.name == asked.host) {
                host.nodes.push(node);
            }
            return;
        }
        self.asked_names.push(AskedName {
            file: entry.file.clone(),
            name: first.host.clone(),
            host: Arc::clone(&name),
            fingerprint: first.fingerprint.clone(),
        });
        let shown = keys.iter().map(|key| HostKey {
            algorithm: key.algorithm.as_str().into(),
            fingerprint: key.fingerprint.as_str().into(),
        });
        let shown = shown.collect();
        for key in keys {
            let (host, fingerprint) = (Arc::clone(&name), key.fingerprint.as_str().into());
            let entry = key.entry.map(|entry| (AcceptedKey { host, fingerprint }, entry));
            self.entries.extend(entry);
        }
        self.unknown.push(UnknownHost { name, is_gateway, place, nodes: vec![node], keys: shown });
    }
}

/// Returns where a host stands, and the name that its key is stored under if it is another one.
fn place_text(node: &NodeName, offer: &HostOffer) -> Arc<str> {
    let port = offer.address.map_or(offer.port, |address| address.port());
    let address = offer.address.map(|address| format!("{} ", address.ip())).unwrap_or_default();
    let mut parts = vec![format!("{address}port {port}")];
    if !offer.via.is_empty() {
        parts.push(format!("through {}", offer.via.join(", ")));
    }
    let name = offer.gateway.as_deref().unwrap_or(node.host());
    let kept = offer.keys.first().map(|key| key.host.as_str()).unwrap_or_default();
    let bare = kept.trim_start_matches('[').split("]:").next().unwrap_or_default();
    if !name.to_ascii_lowercase().contains(bare) {
        parts.push(format!("known as {kept}"));
    }
    let problem = offer.keys.iter().find_map(|key| key.certificate_problem.as_deref());
    parts.extend(problem.map(|problem| format!("its certificate {problem}")));
    parts.join(", ").into()
}
