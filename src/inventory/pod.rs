//! The workers of a TPU pod, in the order of their numbers.
//!
//! On GKE they stand in the environment, on a TPU VM the metadata server knows them, and elsewhere
//! they stand in a file of addresses, one a line.

use std::net::{IpAddr, UdpSocket};

use tokio::time::Instant;

use crate::inventory::metadata::{METADATA_TIMEOUT, MetadataError, MetadataServer};
use crate::nodeset::MAX_NAMES as MOST;

/// What tells a machine that it is a worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodEnv {
    /// `GCE_METADATA_HOST` or `GCE_METADATA_IP`.
    pub metadata: Option<String>,
    /// `TPU_WORKER_HOSTNAMES`.
    pub hostnames: Option<String>,
    /// `TPU_WORKER_ID`.
    pub worker: Option<String>,
    /// `TPU_ACCELERATOR_TYPE`.
    pub accelerator: Option<String>,
}

impl PodEnv {
    /// Reads the environment.
    pub fn from_env() -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            metadata: variable("GCE_METADATA_HOST").or_else(|| variable("GCE_METADATA_IP")),
            hostnames: variable("TPU_WORKER_HOSTNAMES"),
            worker: variable("TPU_WORKER_ID"),
            accelerator: variable("TPU_ACCELERATOR_TYPE"),
        }
    }
}

/// A TPU pod, as far as one of its workers knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Who told.
    pub source: String,
    /// The accelerator type, such as `v4-32`, when it is known.
    pub accelerator: Option<String>,
    /// The number of this machine, when it is a worker.
    pub this_worker: Option<usize>,
    /// The address or name of each worker.
    pub workers: Vec<String>,
}

/// Why there are no workers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    /// The metadata server does not help.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// An entry is no worker.
    #[error("entry {number} of {source_name}, {entry:?}, holds no address of a worker")]
    BadEntry {
        /// Which, counted from 0.
        number: usize,
        /// Where it stands.
        source_name: String,
        /// The entry, cut short.
        entry: String,
    },
    /// More workers than there are.
    #[error("{0} names more than {MOST} workers")]
    TooMany(String),
}

impl PodError {
    /// Returns what to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Metadata(
                MetadataError::BadAddress(_)
                | MetadataError::NotMetadataServer(_)
                | MetadataError::NotHttp(_)
                | MetadataError::TooLarge(_),
            ) => {
                "run gtop on a worker of the pod (and correct GCE_METADATA_HOST if it is set), or give the workers' addresses in a file: --pod-ips=FILE"
            }
            Self::Metadata(_) | Self::BadEntry { .. } | Self::TooMany(_) => {
                "run gtop on a worker of the pod, or give the workers' addresses in a file: --pod-ips=FILE"
            }
        }
    }
}

/// Asks the environment, then the metadata server, for at most two seconds.
pub async fn find_pod(around: &PodEnv) -> Result<Pod, PodError> {
    if let Some(names) = &around.hostnames {
        return from_worker_hostnames(names, around);
    }
    let server = MetadataServer::new(around.metadata.as_deref())?;
    let latest = Instant::now() + METADATA_TIMEOUT;
    let (endpoints, number, accelerator, environment) = tokio::join!(
        server.get("attributes/worker-network-endpoints", latest),
        server.get("attributes/agent-worker-number", latest),
        server.get("attributes/accelerator-type", latest),
        server.get("attributes/tpu-env", latest),
    );
    let source = format!("the metadata server {}", server.address());
    let workers = parse_endpoints(&endpoints?, &source)?;
    // The pod is known without the rest.
    let environment = environment.unwrap_or_default();
    let accelerator = accelerator.ok().or_else(|| env_value(&environment, "ACCELERATOR_TYPE"));
    let number = number.ok().or_else(|| env_value(&environment, "WORKER_ID"));
    let own = number.and_then(|number| number.parse().ok()).filter(|own| *own < workers.len());
    let own = own.or_else(|| workers.iter().position(|worker| is_own_address(worker)));
    Ok(Pod {
        source,
        accelerator: accelerator.and_then(|text| single_word(&text)),
        this_worker: own,
        workers,
    })
}

/// Reads what GKE sets.
fn from_worker_hostnames(names: &str, around: &PodEnv) -> Result<Pod, PodError> {
    let source = "TPU_WORKER_HOSTNAMES".to_owned();
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    let workers: Vec<String> = names.take(MOST + 1).map(str::to_owned).collect();
    if workers.len() > MOST {
        return Err(PodError::TooMany(source));
    }
    if let Some(number) = workers.iter().position(|name| !is_host(name)) {
        let entry = workers.get(number).map(|entry| shorten(entry)).unwrap_or_default();
        return Err(PodError::BadEntry { number, source_name: source, entry });
    }
    let own = around.worker.as_ref().and_then(|number| number.trim().parse().ok());
    let own = own.filter(|own| *own < workers.len());
    let accelerator = around.accelerator.as_deref().and_then(single_word);
    Ok(Pod { source, accelerator, this_worker: own, workers })
}

/// Takes the addresses out of `x:y:ADDRESS,…`.
fn parse_endpoints(endpoints: &str, source: &str) -> Result<Vec<String>, PodError> {
    let entries = endpoints.split(',').map(str::trim).enumerate();
    let address = |(number, entry): (usize, &str)| {
        if number >= MOST {
            return Err(PodError::TooMany(source.to_owned()));
        }
        // An address of version 6 has colons itself.
        let address = entry.splitn(3, ':').nth(2).and_then(|third| third.parse::<IpAddr>().ok());
        let wrong = || PodError::BadEntry {
            number,
            source_name: format!("the workers {source} names"),
            entry: shorten(entry),
        };
        address.map(|address| address.to_string()).ok_or_else(wrong)
    };
    entries.map(address).collect()
}

/// Takes a value out of lines of `KEY: 'value'`.
fn env_value(environment: &str, key: &str) -> Option<String> {
    let lines = environment.lines().filter_map(|line| line.split_once(':'));
    let mut found = lines.filter(|(name, _)| name.trim() == key);
    found.next().map(|(_, value)| value.trim().trim_matches(['\'', '"']).to_owned())
}

/// Says whether a packet to this address would stay on this machine. The loopback does not count: an
/// address there may be a forwarded one.
pub(super) fn is_own_address(text: &str) -> bool {
    let address = text.parse::<IpAddr>().ok();
    let address = address.filter(|address| !address.is_loopback() && !address.is_unspecified());
    address.is_some_and(|address| UdpSocket::bind((address, 0)).is_ok())
}

fn is_host(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_name = !name.starts_with('-') && name.len() <= 253 && name.bytes().all(allowed);
    is_name || name.parse::<IpAddr>().is_ok()
}

/// Returns a text of a foreign server as one word, or none when it is more than that.
fn single_word(text: &str) -> Option<String> {
    let text = text.trim();
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_word = !text.is_empty() && text.len() <= 40 && text.bytes().all(allowed);
    is_word.then(|| text.to_owned())
}

fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}
