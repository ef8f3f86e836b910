//! The nodes to watch: from the command line, host files, ssh configuration, a scheduler, a TPU pod, and this machine.
//!
//! Does not depend on the probes.

mod job_targets;
mod metadata;
mod mpi;
mod pod;

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::inventory::job_targets::{JobTargets, targets_of_jobs, targets_of_nodes};
pub use crate::inventory::metadata::MetadataError;
pub use crate::inventory::pod::{Pod, PodEnv, PodError, find_pod};

use crate::inventory::mpi::MpiError;
use crate::inventory::pod::PodSlice;
use crate::transport::{PageUrl, PageUrlError, Reach, Target};
use gtop_local::storage::{self, user_dirs};
use gtop_local::text::{HTTP, HTTPS, matches_pattern, strip_scheme};
use gtop_model::nodeset::{self, Groups, NodeSetError};
use gtop_model::{JobList, NodeName, NodeNameError};
use gtop_ssh::{self as ssh, Profile, SchedulerAddresses, SshTarget};

/// Maximum size of a host file, in bytes.
const MAX_FILE_SIZE: u64 = 16 << 20;

/// The targets at a point in time, in the order given, without duplicates.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    pub targets: Vec<Target>,
    /// The jobs that run on them; `None` without a scheduler.
    pub jobs: Option<Arc<JobList>>,
    /// The addresses by which the scheduler reaches its nodes.
    pub addresses: SchedulerAddresses,
    /// The slice of a TPU multislice whose workers these are.
    pub slice: Option<PodSlice>,
    names: BTreeSet<NodeName>,
    /// How the targets are reached, so that `[::1]` and `::1` count as the same.
    reach_keys: BTreeSet<ReachKey>,
    groups: Arc<Groups>,
}

/// Identifies a target. Two targets with the same key are the same machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReachKey {
    /// This machine.
    Local,
    /// Host, user and port. Case-sensitive, as ssh's `Host` patterns are.
    Ssh(String, Option<String>, Option<u16>),
    Page(PageUrl),
    /// A node of this process, by its number.
    InProcess(u32),
}

impl From<&Reach> for ReachKey {
    fn from(reach: &Reach) -> Self {
        match reach {
            Reach::Local => Self::Local,
            Reach::Ssh(ssh) => Self::Ssh(ssh.host.clone(), ssh.user.clone(), ssh.port),
            Reach::Page(url) => Self::Page(url.clone()),
            Reach::InProcess(node) => Self::InProcess(node.number),
        }
    }
}

/// Why an entry of a list of hosts cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    #[error("{0:#}")]
    NodeSet(#[from] NodeSetError),
    #[error(transparent)]
    Name(#[from] NodeNameError),
    #[error("the port of {0:?} is not a number between 1 and 65535")]
    Port(String),
    /// An argument without a host.
    #[error(
        "the argument {0:?} names no host; is a variable of the command line unset? give a host such as gpu01"
    )]
    EmptyArgument(String),
    /// An address of a page of metrics that is none.
    #[error("{text:?} is not the address of a page of metrics: {error}")]
    Page {
        /// The address.
        text: String,
        /// Why.
        error: PageUrlError,
    },
    /// A page that is only served encrypted.
    #[error(
        "{0:?} is not read: gtop reads pages of metrics over http:// only; forward its port, as with `ssh -L`, if the exporter speaks HTTP on its host, or give the host itself, to watch it over SSH"
    )]
    Https(String),
    /// A target without a host, or with an empty user.
    #[error("{0:?} has no host; write user@host:port")]
    NoHost(String),
    /// An MPI host file is given as a plain host file.
    #[error("this is an MPI host file; pass it with --mpi-hostfile FILE")]
    MpiHostFile,
    /// A malformed line of an MPI host file.
    #[error(transparent)]
    Mpi(#[from] MpiError),
    /// More than [`nodeset::MAX_NAMES`] targets.
    #[error("more than {limit} nodes; gtop watches at most that many", limit = nodeset::MAX_NAMES)]
    TooMany,
}

/// Why a list of hosts cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    #[error("{location}{error}")]
    Entry {
        /// File and line, or the option; empty for an argument.
        location: String,
        #[source]
        error: EntryError,
    },
    #[error("cannot read the hosts file {}: {source}; give a file with one host per line", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// A file is larger than `MAX_FILE_SIZE`.
    #[error("the hosts file {} is larger than 16 MiB", .0.display())]
    FileTooLarge(PathBuf),
    /// A file without hosts.
    #[error("the hosts file {} has no hosts; write one per line", .0.display())]
    FileEmpty(PathBuf),
    /// A file is not UTF-8.
    #[error("{}:{line}: the hosts file is not UTF-8 text", path.display())]
    NotUtf8 {
        path: PathBuf,
        /// The first line that is not UTF-8, from 1.
        line: usize,
    },
    /// The ssh configuration cannot be read.
    #[error("{0}")]
    SshConfig(ssh::Fault),
    /// The ssh configuration has no matching host.
    #[error(
        "ssh_config has no host{}; only Host lines without wildcards count", .0.as_ref().map(|pattern| format!(" that matches {pattern:?}")).unwrap_or_default()
    )]
    NoConfiguredHost(Option<String>),
    /// All nodes were excluded.
    #[error("no node is left to watch; --exclude and '!' remove all of them")]
    NoNodesLeft,
}

impl InventoryError {
    /// Returns the conversion of errors in entries at this location.
    fn at(location: impl ToString) -> impl FnOnce(EntryError) -> Self {
        move |error| Self::Entry { location: location.to_string(), error }
    }

    /// Returns the conversion of errors of reading a file.
    fn of_file(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        |source| Self::File { path: path.to_owned(), source }
    }
}

impl Roster {
    /// Returns true unless its scheduler is still to answer or fail.
    pub fn is_complete(&self) -> bool {
        self.jobs.as_ref().is_none_or(|list| list.at.is_some() || list.error.is_some())
    }

    /// Returns true if the jobs and the addresses of nodes are the same.
    pub(crate) fn has_same_jobs(&self, other: &Self) -> bool {
        self.jobs == other.jobs && self.addresses == other.addresses
    }

    /// Returns a roster of these targets.
    pub fn new(targets: Vec<Target>) -> Self {
        let names = targets.iter().map(|target| target.name.clone()).collect();
        Self { targets, names, ..Self::default() }
    }

    /// Returns a roster of targets that a scheduler listed.
    pub fn from_scheduler(targets: Vec<Target>, jobs: Arc<JobList>) -> Self {
        Self { jobs: Some(jobs), ..Self::new(targets) }
    }

    /// Returns an empty roster that expands `@group` with these groups.
    pub fn with_groups(groups: Groups) -> Self {
        Self { groups: Arc::new(groups), ..Self::default() }
    }

    /// Adds node sets from the command line.
    pub fn add_arguments(&mut self, hosts: &[String]) -> Result<(), InventoryError> {
        for host in hosts {
            let added = match host.trim_matches([' ', ',']) {
                "" => Err(EntryError::EmptyArgument(host.clone())),
                _ => self.add(host),
            };
            added.map_err(InventoryError::at(""))?;
        }
        Ok(())
    }

    /// Adds a file with node sets, one per line; `-` is standard input.
    pub fn add_file(&mut self, path: &Path) -> Result<(), InventoryError> {
        self.add_lines(path, |roster, line| {
            let line = without_comment(line);
            let mut words = line.split_whitespace();
            if words.any(|word| word.contains("slots=") && !word.contains("://")) {
                return Err(EntryError::MpiHostFile);
            }
            roster.add(line)?;
            Ok(!line.is_empty())
        })
    }

    /// Adds the hosts of an MPI host file; `-` is standard input.
    pub fn add_mpi_file(&mut self, path: &Path) -> Result<(), InventoryError> {
        self.add_lines(path, |roster, line| {
            let Some(host) = mpi::parse_line(line)? else { return Ok(false) };
            roster.add(&host)?;
            Ok(true)
        })
    }

    /// Adds the lines of a file; `add` returns true if a line has an entry. A file without any is an error.
    fn add_lines(
        &mut self,
        path: &Path,
        mut add: impl FnMut(&mut Self, &str) -> Result<bool, EntryError>,
    ) -> Result<(), InventoryError> {
        let text = read_hosts_file(path)?;
        let mut is_empty = true;
        for (line, number) in text.lines().zip(1_usize..) {
            let location = format_args!("{}:{number}: ", path.display());
            is_empty &= !add(self, line).map_err(InventoryError::at(location))?;
        }
        if is_empty { Err(InventoryError::FileEmpty(path.to_owned())) } else { Ok(()) }
    }

    /// Adds the hosts of the ssh configuration that match a pattern with `*` and `?`.
    pub fn add_ssh_config_hosts(
        &mut self,
        hosts: Result<Vec<String>, ssh::Fault>,
        pattern: &str,
    ) -> Result<(), InventoryError> {
        let hosts = hosts.map_err(InventoryError::SshConfig)?;
        let mut is_empty = true;
        for host in hosts.iter().filter(|host| matches_pattern(host, pattern)) {
            // An alias that is not a host name is skipped, not an error.
            let Ok(name) = NodeName::new(host) else { continue };
            is_empty = false;
            self.insert(Target { name, reach: ssh_reach(host, None, None) })
                .map_err(InventoryError::at("ssh_config: "))?;
        }
        if is_empty {
            let pattern = (pattern != "*").then(|| pattern.to_owned());
            return Err(InventoryError::NoConfiguredHost(pattern));
        }
        Ok(())
    }

    /// Adds the workers of a TPU pod as `w0`, `w1` and so on; this machine without SSH.
    pub fn add_pod(&mut self, pod: &Pod) -> Result<(), InventoryError> {
        self.slice = pod.slice;
        for (number, host) in pod.workers.iter().enumerate() {
            let is_this_machine = pod.this_worker == Some(number);
            let added = self.add_worker(number, host, is_this_machine);
            added.map_err(InventoryError::at("the TPU pod: "))?;
        }
        Ok(())
    }

    /// Adds TPU workers from a file with one address per line; `-` is standard input.
    pub fn add_pod_file(&mut self, path: &Path) -> Result<(), InventoryError> {
        let mut number = 0;
        self.add_lines(path, |roster, line| {
            let hosts = roster.expand(without_comment(line))?;
            for host in &hosts {
                roster.add_worker(number, host, pod::is_own_address(host))?;
                number += 1;
            }
            Ok(!hosts.is_empty())
        })
    }

    fn add_worker(
        &mut self,
        number: usize,
        host: &str,
        is_this_machine: bool,
    ) -> Result<(), EntryError> {
        let worker = parse_target(host)?;
        let name = NodeName::labelled(&format!("w{number}"), host)?;
        let reach = if is_this_machine { Reach::Local } else { worker.reach };
        self.insert(Target { name, reach })
    }

    /// Removes the nodes of these sets, whatever their source: by name, by label, by host without user and port, or by the
    /// address of a page.
    pub fn exclude(&mut self, sets: &[String]) -> Result<(), InventoryError> {
        let excluded = self.names_of(sets, "--exclude: ")?;
        self.targets.retain(|target| !target.is_in(&excluded));
        Ok(())
    }

    /// Returns the names in some node sets; `place` is where an error is.
    pub fn names_of(
        &self,
        sets: &[String],
        place: &'static str,
    ) -> Result<BTreeSet<String>, InventoryError> {
        let mut names = BTreeSet::new();
        for set in sets {
            names.extend(self.expand(set).map_err(InventoryError::at(place))?);
        }
        // A page has several addresses, too: with its port or without.
        let pages = names.iter().filter_map(|name| PageUrl::parse(strip_scheme(name, HTTP)?).ok());
        let pages: Vec<String> = pages.map(|url| url.to_string()).collect();
        names.extend(pages);
        Ok(names)
    }

    /// Adds this machine under its host name, or as `localhost` if that name is taken.
    pub fn add_local(&mut self) {
        if !self.reach_keys.insert(ReachKey::Local) {
            return;
        }
        let system = rustix::system::uname();
        let host_name = system.nodename().to_str().ok();
        let names = host_name.into_iter().chain(["localhost", "this-machine"]);
        let name = names.filter_map(|name| NodeName::new(name).ok());
        let name = name.into_iter().find(|name| self.names.insert(name.clone()));
        self.targets.extend(name.map(|name| Target { name, reach: Reach::Local }));
    }

    fn expand(&self, text: &str) -> Result<Vec<String>, EntryError> {
        Ok(nodeset::expand_with(text, &self.groups)?)
    }

    fn add(&mut self, text: &str) -> Result<(), EntryError> {
        self.expand(text)?.iter().try_for_each(|name| match strip_scheme(name, HTTP) {
            Some(rest) => self.add_page(name, rest),
            None => self.insert(parse_target(name)?),
        })
    }

    /// Adds a page of metrics. Its node has the name of the host and, where another has that, as much of the address as
    /// makes it another.
    fn add_page(&mut self, text: &str, rest: &str) -> Result<(), EntryError> {
        let url = PageUrl::parse(rest)
            .map_err(|error| EntryError::Page { text: text.to_owned(), error })?;
        let reach = Reach::Page(url.clone());
        if self.reach_keys.contains(&(&reach).into()) {
            return Ok(());
        }
        let authority = url.authority();
        let with_path = format!("{authority}{}", escaped(url.path()));
        for name in [url.host(), &authority] {
            let name = NodeName::new(name)?;
            if !self.names.contains(&name) {
                return self.insert(Target { name, reach });
            }
        }
        self.insert(Target { name: NodeName::new(&with_path)?, reach })
    }

    /// Adds a target, unless its name or its reach key is there already.
    fn insert(&mut self, target: Target) -> Result<(), EntryError> {
        if self.reach_keys.insert((&target.reach).into()) && self.names.insert(target.name.clone())
        {
            if self.targets.len() >= nodeset::MAX_NAMES {
                return Err(EntryError::TooMany);
            }
            self.targets.push(target);
        }
        Ok(())
    }
}

/// Returns a path with what no name of a node may hold, and the brackets of node sets, as URLs escape it.
fn escaped(path: &str) -> String {
    let escaped = path.chars().map(|letter| {
        if letter.is_ascii_alphanumeric() || "._-:@+/%".contains(letter) {
            letter.to_string()
        } else {
            format!("%{:02X}", u32::from(letter))
        }
    });
    escaped.collect()
}

/// Returns the groups in `ClusterShell`'s folders: the system's, then the user's.
pub fn user_groups() -> Groups {
    let named = std::env::var_os("CLUSTERSHELL_CFGDIR").filter(|value| !value.is_empty());
    let folders = [
        Some(PathBuf::from("/etc/clustershell")),
        user_dirs::home().map(|home| home.join(".local/etc/clustershell")),
        user_dirs::config().map(|config| config.join("clustershell")),
        named.map(PathBuf::from),
    ];
    Groups::in_folders(folders.into_iter().flatten().collect())
}

/// Returns the beginning of a text, for an error.
fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Returns a line without its comment.
fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

/// Returns the connection to a host as the user's ssh configuration has it.
fn ssh_reach(host: &str, user: Option<&str>, port: Option<u16>) -> Reach {
    let (host, user) = (host.to_owned(), user.map(str::to_owned));
    Reach::Ssh(SshTarget { host, user, port, profile: Profile::System })
}

fn read_hosts_file(path: &Path) -> Result<String, InventoryError> {
    let source: Box<dyn std::io::Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(InventoryError::of_file(path))?)
    };
    let bytes = storage::read_bounded(source, MAX_FILE_SIZE);
    let bytes = bytes.map_err(InventoryError::of_file(path))?;
    let bytes = bytes.ok_or_else(|| InventoryError::FileTooLarge(path.to_owned()))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        let line = 1 + before.filter(|byte| **byte == b'\n').count();
        InventoryError::NotUtf8 { path: path.to_owned(), line }
    })?;
    // Byte order mark.
    match text.strip_prefix('\u{feff}') {
        Some(rest) => Ok(rest.to_owned()),
        None => Ok(text),
    }
}

/// Parses `[user@]host[:port]`; an IPv6 address with a port is in brackets. What follows a colon and is no number belongs to
/// the host, which may be any alias of the ssh configuration.
fn parse_target(text: &str) -> Result<Target, EntryError> {
    if text.starts_with("ssh://") {
        return parse_uri(text);
    }
    if strip_scheme(text, HTTPS).is_some() {
        return Err(EntryError::Https(text.to_owned()));
    }
    let name = NodeName::new(text)?;
    let (user, rest) =
        text.rsplit_once('@').map_or((None, text), |(user, rest)| (Some(user), rest));
    let (host, port) = split_port(rest);
    if host.is_empty() || host.starts_with('-') || user == Some("") {
        return Err(EntryError::NoHost(text.to_owned()));
    }
    let port = port.map(str::parse::<NonZeroU16>).transpose();
    let port = port.map_err(|_invalid| EntryError::Port(text.to_owned()))?;
    Ok(Target { name, reach: ssh_reach(host, user, port.map(NonZeroU16::get)) })
}

/// Parses `ssh://[user@]host[:port]`. The node's name is the host with its port, and with its user
/// if that is allowed in a name.
fn parse_uri(text: &str) -> Result<Target, EntryError> {
    let ssh = SshTarget::from_uri(text).ok_or_else(|| EntryError::NoHost(text.to_owned()))?;
    let host = match (ssh.host.contains(':'), ssh.port) {
        (true, Some(port)) => format!("[{}]:{port}", ssh.host),
        (false, Some(port)) => format!("{}:{port}", ssh.host),
        (_, None) => ssh.host.clone(),
    };
    let with_user =
        ssh.user.as_ref().and_then(|user| NodeName::new(&format!("{user}@{host}")).ok());
    let name = with_user.map_or_else(|| NodeName::new(&host), Ok)?;
    Ok(Target { name, reach: Reach::Ssh(ssh) })
}

fn split_port(text: &str) -> (&str, Option<&str>) {
    if let Some((address, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        return (address, rest.strip_prefix(':'));
    }
    match text.split_once(':') {
        // More than one colon without brackets is an IPv6 address, not a port.
        Some((_, rest)) if rest.contains(':') => (text, None),
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, Some(port)),
        Some(_) | None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(hosts: &[&str]) -> Result<Roster, InventoryError> {
        let mut roster = Roster::default();
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        roster.add_arguments(&hosts)?;
        Ok(roster)
    }

    fn parts(text: &str) -> (String, Option<String>, Option<u16>) {
        let roster = roster(&[text]).unwrap();
        let Reach::Ssh(ssh) = roster.targets[0].reach.clone() else { panic!("not by SSH") };
        (ssh.host, ssh.user, ssh.port)
    }

    #[test]
    fn a_target_is_user_host_and_port() {
        assert_eq!(parts("gpu01"), ("gpu01".into(), None, None));
        assert_eq!(parts("ada@gpu01:2222"), ("gpu01".into(), Some("ada".into()), Some(2222)));
        assert_eq!(parts("ada@site@gpu01"), ("gpu01".into(), Some("ada@site".into()), None));
        assert_eq!(parts("[::1]:22"), ("::1".into(), None, Some(22)));
        assert_eq!(parts("fe80::1"), ("fe80::1".into(), None, None));
        assert_eq!(parts("fe80::1%eth0"), ("fe80::1%eth0".into(), None, None));
        for alias in ["rack/gpu01", "rack:gpu01", "höhe", "22:gpu01"] {
            assert_eq!(parts(alias), (alias.into(), None, None));
        }
        assert_eq!(parts("rack/gpu01:22"), ("rack/gpu01".into(), None, Some(22)));
    }

    #[test]
    fn a_target_is_a_uri_as_ssh_takes_it() {
        for (text, name, host, user, port) in [
            ("ssh://gpu01", "gpu01", "gpu01", None, None),
            ("ssh://ada@gpu01:2222/", "ada@gpu01:2222", "gpu01", Some("ada"), Some(2222)),
            ("ssh://a%20b@gpu01:7", "gpu01:7", "gpu01", Some("a b"), Some(7)),
            ("ssh://ada%40site@gpu01", "ada@site@gpu01", "gpu01", Some("ada@site"), None),
            ("ssh://ada;x=1@gpu01", "ada@gpu01", "gpu01", Some("ada"), None),
            ("ssh://ada@gpu01:", "ada@gpu01", "gpu01", Some("ada"), None),
            ("ssh://ada@[::1]:7", "ada@[::1]:7", "::1", Some("ada"), Some(7)),
            ("ssh://[fe80::1]", "fe80::1", "fe80::1", None, None),
        ] {
            assert_eq!(parts(text), (host.into(), user.map(Into::into), port), "{text}");
            assert_eq!(roster(&[text]).unwrap().targets[0].name.as_str(), name, "{text}");
        }
        let names = |text| roster(&[text]).unwrap().targets.len();
        assert_eq!(names("ssh://ada@gpu[01-03]:22"), 3);
        for wrong in [
            "ssh://",
            "ssh://@h",
            "ssh://h/x",
            "ssh://h:0",
            "ssh://h:x",
            "ssh://h%41",
            "ssh://a%00b@h",
            "ssh://-h",
            "ssh://a%3bb@h",
            "ssh://[x]",
            "ssh://[::1",
            "ssh://[::1]x",
        ] {
            assert!(roster(&[wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_page_of_metrics_is_named_by_its_host_where_that_is_enough() {
        let roster = roster(&[
            "http://gpu[01-02]:9100/metrics",
            "http://gpu01:8000/metrics",
            "http://gpu01:8000/other",
            "http://gpu01:9100/metrics",
            "gpu03",
            "HTTP://[::1]/metrics",
            "hTTp://gpu01:8000/metrics?collect[]=cpu,load&job=1",
        ])
        .unwrap();
        let names: Vec<_> = roster.targets.iter().map(|target| target.name.as_str()).collect();
        let with_query = "gpu01:8000/metrics%3Fcollect%5B%5D%3Dcpu%2Cload%26job%3D1";
        assert_eq!(
            names,
            ["gpu01", "gpu02", "gpu01:8000", "gpu01:8000/other", "gpu03", "::1", with_query]
        );
        let Reach::Page(url) = &roster.targets[6].reach else { panic!("no page") };
        assert_eq!(url.to_string(), "http://gpu01:8000/metrics?collect[]=cpu,load&job=1");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        let text =
            "http://gpu[05-06]:9100/metrics # pages\ngpu07\nHTTP://gpu08/?slots=1&a[]=b,c gpu09\n";
        std::fs::write(&path, text).unwrap();
        let mut of_file = Roster::default();
        of_file.add_file(&path).unwrap();
        let names: Vec<_> = of_file.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["gpu05", "gpu06", "gpu07", "gpu08", "gpu09"]);
        let Reach::Page(url) = &roster.targets[1].reach else { panic!("no page") };
        assert_eq!(url.to_string(), "http://gpu02:9100/metrics");
        assert!(matches!(roster.targets[4].reach, Reach::Ssh(_)));
    }

    #[test]
    fn names_keep_their_order_without_duplicates() {
        let roster = roster(&["gpu[02,01]", "gpu01", "login,gpu03"]).unwrap();
        let names: Vec<_> =
            roster.targets.iter().map(|target| target.name.as_str().to_owned()).collect();
        assert_eq!(names, ["gpu02", "gpu01", "login", "gpu03"]);
    }

    #[test]
    fn a_machine_is_a_target_once_however_it_is_written() {
        let roster =
            roster(&["::1", "[::1]", "gpu01", "gpu01:22", "gpu01:022", "ada@gpu01"]).unwrap();
        let names: Vec<_> = roster.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["::1", "gpu01", "gpu01:22", "ada@gpu01"]);
    }

    #[test]
    fn nodes_are_excluded_by_name_or_host() {
        let mut roster = roster(&["gpu[01-06]", "ada@gpu07:22"]).unwrap();
        roster.exclude(&["gpu[02-03]".to_owned(), "gpu05,gpu07,other".to_owned()]).unwrap();
        let names: Vec<_> = roster.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["gpu01", "gpu04", "gpu06"]);
        let pages = ["http://gpu08:9100/metrics", "http://gpu09/", "http://gpu10:9100/metrics"];
        roster.add_arguments(&pages.map(str::to_owned)).unwrap();
        roster.exclude(&["http://gpu08:9100/metrics,http://gpu09:80".to_owned()]).unwrap();
        let names: Vec<_> = roster.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["gpu01", "gpu04", "gpu06", "gpu10"]);
        let error = roster.exclude(&["gpu[".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("--exclude: '[' without ']'"), "{error}");
    }

    #[test]
    fn this_machine_has_its_own_name_even_if_its_host_name_is_taken() {
        let mut roster = Roster::default();
        roster.add_local();
        let own = roster.targets[0].name.as_str().to_owned();
        let mut both = Roster::default();
        both.add_arguments(&[own]).unwrap();
        both.add_local();
        assert_eq!(both.targets.len(), 2);
        assert_ne!(both.targets[0].name, both.targets[1].name);
    }

    #[test]
    fn invalid_targets_have_a_reason() {
        for (bad, words) in [
            ("gpu01:", "port"),
            ("gpu01:0", "port"),
            ("gpu01:99999", "port"),
            ("", "the argument \"\" names no host; is a variable"),
            (" , ", "the argument \" , \" names no host"),
            ("@gpu01", "no node groups are defined"),
            ("ada@", "has no host"),
            ("ada@-oProxyCommand=x", "contains '='"),
            ("ada@-x", "has no host"),
            ("-x", "begins with '-'"),
            ("gpu[1", "'[' without ']'"),
            ("a;b", "contains ';'"),
            ("https://gpu01:9100/metrics", "forward its port"),
            ("HTTPS://gpu01:9100/metrics?a=b,c", "forward its port"),
            ("http://:9100/metrics", "it has no host"),
            ("http://gpu01:0/metrics", "its port is not"),
        ] {
            let error = roster(&[bad]).expect_err(bad).to_string();
            assert!(error.contains(words), "{bad}: {error}");
        }
    }

    #[test]
    fn numbers_in_an_mpi_host_file_are_slots_and_not_ports() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        let text =
            "# mpirun\ngpu01 slots=8 max_slots=8\r\ngpu[02-03]:8\n\ngpu01 slots=4\n10.0.0.1:2\n";
        std::fs::write(&path, text).unwrap();
        let mut roster = Roster::default();
        roster.add_mpi_file(&path).unwrap();
        let names: Vec<_> = roster.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["gpu01", "gpu02", "gpu03", "10.0.0.1"]);
        std::fs::write(&path, "gpu01\ngpu02 gpu03\n").unwrap();
        let error = Roster::default().add_mpi_file(&path).unwrap_err().to_string();
        assert!(error.contains("hosts:2: \"gpu03\" is neither"), "{error}");
        // The error names the right option.
        std::fs::write(&path, "gpu01 slots=8\n").unwrap();
        let error = Roster::default().add_file(&path).unwrap_err().to_string();
        assert!(error.contains("--mpi-hostfile"), "{error}");
    }

    #[test]
    fn hosts_of_the_ssh_configuration_are_matched_by_pattern() {
        let all = || Ok(["gpu01", "gpu02", "login", "a=b"].map(str::to_owned).to_vec());
        let mut roster = Roster::default();
        roster.add_ssh_config_hosts(all(), "gpu*").unwrap();
        assert_eq!(roster.targets.len(), 2);
        roster.add_ssh_config_hosts(all(), "*").unwrap();
        assert_eq!(roster.targets.len(), 3);
        let error = roster.add_ssh_config_hosts(all(), "tpu*").unwrap_err().to_string();
        assert!(error.starts_with("ssh_config has no host that matches \"tpu*\";"), "{error}");
    }

    #[test]
    fn a_file_is_limited_to_as_many_nodes_as_a_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        let lines: Vec<String> =
            (0..nodeset::MAX_NAMES).map(|number| format!("n{number}\n")).collect();
        let lines = lines.concat();
        std::fs::write(&path, &lines).unwrap();
        let mut roster = Roster::default();
        roster.add_file(&path).unwrap();
        assert_eq!(roster.targets.len(), nodeset::MAX_NAMES);
        // A duplicate does not count towards the limit.
        roster.add_arguments(&["n7".to_owned()]).unwrap();
        for more in ["n[65536]", "n[0-65535],m", "m[1-65536]"] {
            std::fs::write(&path, format!("{lines}{more}\n")).unwrap();
            let error = Roster::default().add_file(&path).unwrap_err().to_string();
            let words = "hosts:65537: more than 65536 nodes; ";
            assert!(error.contains(words) && error.len() < 200, "{error}");
        }
    }

    #[test]
    fn a_file_has_one_target_per_line_and_comments() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        std::fs::write(&path, "# my nodes\ngpu[01-02]  # two\n\n  ada@gpu03 \r\n").unwrap();
        let mut roster = Roster::default();
        roster.add_file(&path).unwrap();
        assert_eq!(roster.targets.len(), 3);
        std::fs::write(&path, "gpu01\ngpu 02;\n").unwrap();
        let error = Roster::default().add_file(&path).unwrap_err().to_string();
        assert!(error.contains(":2: "), "{error}");
        std::fs::write(&path, "# nothing\n").unwrap();
        assert!(matches!(Roster::default().add_file(&path), Err(InventoryError::FileEmpty(_))));
        std::fs::write(&path, "\u{feff}gpu01 gpu02\r\ngpu[03-05] ! gpu04 # c\r\n").unwrap();
        let mut roster = Roster::default();
        roster.add_file(&path).unwrap();
        let names: Vec<_> = roster.targets.iter().map(|target| target.name.as_str()).collect();
        assert_eq!(names, ["gpu01", "gpu02", "gpu03", "gpu05"]);
        std::fs::write(&path, b"gpu01\n# \xe4\n").unwrap();
        let error = Roster::default().add_file(&path).unwrap_err().to_string();
        assert!(error.contains(":2: the hosts file is not UTF-8"), "{error}");
        assert!(matches!(
            Roster::default().add_file(folder.path()),
            Err(InventoryError::File { .. })
        ));
    }
}
