//! Discovers the workers of a TPU pod, in the order of their numbers.
//!
//! On GKE they are in the environment, on a TPU VM on the metadata server; elsewhere a file lists them.

use std::net::{IpAddr, UdpSocket};

use tokio::time::Instant;

use crate::inventory::metadata::{METADATA_TIMEOUT, MetadataError, MetadataServer};
use crate::inventory::shorten;
use gtop_model::nodeset::MAX_NAMES as MAX_WORKERS;

/// A greater number of slices is invalid.
const MAX_SLICES: u32 = 65_536;

/// The environment variables that describe a TPU pod.
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
    /// `MEGASCALE_SLICE_ID`.
    pub slice: Option<String>,
    /// `MEGASCALE_NUM_SLICES`.
    pub slices: Option<String>,
}

impl PodEnv {
    /// Reads the environment of this process.
    pub fn from_env() -> Self {
        let [host, ip, hostnames, worker, accelerator, slice, slices] = [
            "GCE_METADATA_HOST",
            "GCE_METADATA_IP",
            "TPU_WORKER_HOSTNAMES",
            "TPU_WORKER_ID",
            "TPU_ACCELERATOR_TYPE",
            "MEGASCALE_SLICE_ID",
            "MEGASCALE_NUM_SLICES",
        ]
        .map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        Self { metadata: host.or(ip), hostnames, worker, accelerator, slice, slices }
    }
}

/// A TPU pod, as seen from one of its workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// The source: the metadata server or a variable.
    pub source: String,
    /// The accelerator type, such as `v4-32`, if known.
    pub accelerator: Option<String>,
    /// The number of this machine, if it is a worker.
    pub this_worker: Option<usize>,
    /// The address or name of each worker.
    pub workers: Vec<String>,
    /// The slice, if it is one of several that work together.
    pub slice: Option<PodSlice>,
}

/// One slice of a multislice: its workers know those of the other slices by no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodSlice {
    /// Its number, from 0, if known.
    pub number: Option<u32>,
    /// The number of slices, at least 2.
    pub count: u32,
}

impl PodSlice {
    /// Parses a number of slices, and the number of this one; `None` for a single slice.
    fn parse(count: Option<&str>, number: Option<&str>) -> Option<Self> {
        let [count, number] = [count, number].map(|text| text?.trim().parse::<u32>().ok());
        let count = count.filter(|count| (2..=MAX_SLICES).contains(count))?;
        Some(Self { number: number.filter(|number| *number < count), count })
    }

    /// Returns the sentence that others exist, such as `slice 0 of 4; the other 3 are not shown`.
    pub fn text(&self) -> String {
        let this = self.number.map_or_else(|| "one".to_owned(), |number| format!("slice {number}"));
        let noun = if self.number.is_some() { "" } else { " slices" };
        match self.count - 1 {
            1 => format!("{this} of {}{noun}; the other one is not shown", self.count),
            others => format!("{this} of {}{noun}; the other {others} are not shown", self.count),
        }
    }
}

/// Why the workers are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// A malformed entry.
    #[error("entry {number} of {source_name}, {entry:?}, is not the address of a worker")]
    BadEntry {
        /// Index of the entry, from 0.
        number: usize,
        /// The source of the entry.
        source_name: String,
        /// The entry, truncated.
        entry: String,
    },
    /// More than [`MAX_WORKERS`] workers.
    #[error("{0} lists more than {MAX_WORKERS} workers")]
    TooMany(String),
}

impl PodError {
    /// Returns true if something else than the metadata server of a pod answers.
    pub const fn is_no_metadata_server(&self) -> bool {
        matches!(
            self,
            Self::Metadata(
                MetadataError::BadAddress(_)
                    | MetadataError::NotMetadataServer(_)
                    | MetadataError::NotHttp(_)
                    | MetadataError::TooLarge(_),
            )
        )
    }
}

/// Discovers the pod from the environment or else the metadata server, within `METADATA_TIMEOUT`.
pub async fn find_pod(env: &PodEnv) -> Result<Pod, PodError> {
    if let Some(names) = &env.hostnames {
        return from_worker_hostnames(names, env);
    }
    let server = MetadataServer::new(env.metadata.as_deref())?;
    let deadline = Instant::now() + METADATA_TIMEOUT;
    let (endpoints, number, accelerator, environment) = tokio::join!(
        server.get("attributes/worker-network-endpoints", deadline),
        server.get("attributes/agent-worker-number", deadline),
        server.get("attributes/accelerator-type", deadline),
        server.get("attributes/tpu-env", deadline),
    );
    let source = format!("the metadata server {}", server.address);
    let workers = parse_endpoints(&endpoints?, &source)?;
    // The pod is usable without the other values.
    let environment = environment.unwrap_or_default();
    let accelerator = accelerator.ok().or_else(|| env_value(&environment, "ACCELERATOR_TYPE"));
    let number = number.ok().or_else(|| env_value(&environment, "WORKER_ID"));
    let this_worker = number
        .and_then(|number| number.parse().ok())
        .filter(|this_worker| *this_worker < workers.len());
    let this_worker =
        this_worker.or_else(|| workers.iter().position(|worker| is_own_address(worker)));
    let slices = env.slices.clone().or_else(|| env_value(&environment, "MEGASCALE_NUM_SLICES"));
    let number = env.slice.clone().or_else(|| env_value(&environment, "MEGASCALE_SLICE_ID"));
    Ok(Pod {
        source,
        accelerator: accelerator.and_then(|text| single_word(&text)),
        this_worker,
        workers,
        slice: PodSlice::parse(slices.as_deref(), number.as_deref()),
    })
}

/// Reads `TPU_WORKER_HOSTNAMES`, which GKE sets.
fn from_worker_hostnames(names: &str, env: &PodEnv) -> Result<Pod, PodError> {
    let source = "TPU_WORKER_HOSTNAMES".to_owned();
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    let workers: Vec<String> = names.take(MAX_WORKERS + 1).map(str::to_owned).collect();
    if workers.len() > MAX_WORKERS {
        return Err(PodError::TooMany(source));
    }
    if let Some((number, name)) = workers.iter().enumerate().find(|(_, name)| !is_host(name)) {
        return Err(PodError::BadEntry { number, source_name: source, entry: shorten(name) });
    }
    let this_worker = env.worker.as_ref().and_then(|number| number.trim().parse().ok());
    let this_worker = this_worker.filter(|this_worker| *this_worker < workers.len());
    let accelerator = env.accelerator.as_deref().and_then(single_word);
    let slice = PodSlice::parse(env.slices.as_deref(), env.slice.as_deref());
    Ok(Pod { source, accelerator, this_worker, workers, slice })
}

/// Parses the addresses of `x:y:ADDRESS,…`.
fn parse_endpoints(endpoints: &str, source: &str) -> Result<Vec<String>, PodError> {
    let entries = endpoints.split(',').map(str::trim).enumerate();
    let addresses = entries.map(|(number, entry)| {
        if number >= MAX_WORKERS {
            return Err(PodError::TooMany(source.to_owned()));
        }
        // An IPv6 address has colons itself.
        let address = entry.splitn(3, ':').nth(2).and_then(|third| third.parse::<IpAddr>().ok());
        address.map(|address| address.to_string()).ok_or_else(|| PodError::BadEntry {
            number,
            source_name: format!("the workers listed by {source}"),
            entry: shorten(entry),
        })
    });
    addresses.collect()
}

/// Returns the value of a key in lines such as `KEY: 'value'`.
fn env_value(environment: &str, key: &str) -> Option<String> {
    let lines = environment.lines().filter_map(|line| line.split_once(':'));
    let mut found = lines.filter(|(name, _)| name.trim() == key);
    found.next().map(|(_, value)| value.trim().trim_matches(['\'', '"']).to_owned())
}

/// Returns true if this is an address of this machine. Loopback does not count: such an address may
/// be a forwarded port.
pub(super) fn is_own_address(text: &str) -> bool {
    let address = text.parse::<IpAddr>().ok();
    let address = address.filter(|address| !address.is_loopback() && !address.is_unspecified());
    address.is_some_and(|address| UdpSocket::bind((address, 0)).is_ok())
}

fn is_host(name: &str) -> bool {
    let is_name = !name.starts_with('-') && name.len() <= 253 && name.bytes().all(is_name_byte);
    is_name || name.parse::<IpAddr>().is_ok()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

/// Returns an untrusted text if it is a single short word.
fn single_word(text: &str) -> Option<String> {
    let text = text.trim();
    let is_word = (1..=40).contains(&text.len()) && text.bytes().all(is_name_byte);
    is_word.then(|| text.to_owned())
}
