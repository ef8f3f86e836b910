//! Who to watch: hosts from the command line, from files, and this machine.
//!
//! Knows nothing of probes.

pub mod slurm;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::model::{JobList, NodeName, NodeNameError};
use crate::nodeset::{self, NodeSetError};
use crate::transport::{Profile, Reach, SshTarget, Target};

/// The largest host file that is read.
const FILE_LIMIT: u64 = 16 << 20;

/// The targets found at a moment, each name once, in the order given.
#[derive(Clone, Debug, Default)]
pub struct Roster {
    /// Who to watch.
    pub targets: Vec<Target>,
    /// The jobs that name them, where a scheduler was asked.
    pub jobs: Option<Arc<JobList>>,
    names: BTreeSet<NodeName>,
}

/// Why hosts cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// A node set is wrong.
    #[error("{place}{source}")]
    NodeSet {
        /// Where it stands, empty for the command line.
        place: String,
        /// What is wrong.
        source: NodeSetError,
    },
    /// A name is wrong.
    #[error("{place}{source}")]
    Name {
        /// Where it stands, empty for the command line.
        place: String,
        /// What is wrong.
        source: NodeNameError,
    },
    /// A port is wrong.
    #[error("{place}the port of {target:?} is not a number between 1 and 65535")]
    Port {
        /// Where it stands, empty for the command line.
        place: String,
        /// The target.
        target: String,
    },
    /// A user is given and no host, or the other way round.
    #[error("{place}{target:?} names no host; write user@host:port")]
    NoHost {
        /// Where it stands, empty for the command line.
        place: String,
        /// The target.
        target: String,
    },
    /// A file cannot be read.
    #[error("cannot read the hosts file {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file holds more than hosts can be.
    #[error("the hosts file {} is larger than 16 MiB", .0.display())]
    FileTooLarge(PathBuf),
    /// A file holds no host.
    #[error("the hosts file {} names no host; write one a line", .0.display())]
    FileEmpty(PathBuf),
}

impl Roster {
    /// Makes a roster of these.
    pub fn of(targets: Vec<Target>) -> Self {
        let names = targets.iter().map(|target| target.name.clone()).collect();
        Self { targets, jobs: None, names }
    }

    /// Makes a roster of what a scheduler named.
    pub fn found(targets: Vec<Target>, jobs: Arc<JobList>) -> Self {
        Self { jobs: Some(jobs), ..Self::of(targets) }
    }

    /// Adds what the command line names.
    pub fn add_arguments(&mut self, hosts: &[String]) -> Result<(), InventoryError> {
        hosts.iter().try_for_each(|host| self.add(host, ""))
    }

    /// Adds the lines of a file; `-` is standard input.
    pub fn add_file(&mut self, path: &Path) -> Result<(), InventoryError> {
        let text = read(path)?;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let place = format!("{}:{}: ", path.display(), number + 1);
            line.split_whitespace().try_for_each(|host| self.add(host, &place))?;
        }
        if self.targets.is_empty() {
            return Err(InventoryError::FileEmpty(path.to_owned()));
        }
        Ok(())
    }

    /// Adds this machine under its own name, or as `localhost` where that is a host's already.
    pub fn add_local(&mut self) {
        let system = rustix::system::uname();
        let own = system.nodename().to_str().ok();
        let names = own.into_iter().chain(["localhost", "this-machine"]);
        let name = names.filter_map(|name| NodeName::new(name).ok());
        let name = name.into_iter().find(|name| self.names.insert(name.clone()));
        self.targets.extend(name.map(|name| Target { name, reach: Reach::Local }));
    }

    fn add(&mut self, text: &str, place: &str) -> Result<(), InventoryError> {
        let names = nodeset::expand(text)
            .map_err(|source| InventoryError::NodeSet { place: place.to_owned(), source })?;
        for name in names {
            let target = target(&name, place)?;
            if self.names.insert(target.name.clone()) {
                self.targets.push(target);
            }
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, InventoryError> {
    use std::io::Read as _;
    let failed = |source| InventoryError::File { path: path.to_owned(), source };
    let mut text = String::new();
    let source: Box<dyn std::io::Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path).map_err(failed)?)
    };
    let read = source.take(FILE_LIMIT + 1).read_to_string(&mut text).map_err(failed)?;
    if read as u64 > FILE_LIMIT {
        return Err(InventoryError::FileTooLarge(path.to_owned()));
    }
    Ok(text)
}

/// Reads `[user@]host[:port]`; an address of version 6 with a port stands in brackets.
fn target(text: &str, place: &str) -> Result<Target, InventoryError> {
    let owned = || (place.to_owned(), text.to_owned());
    let name = NodeName::new(text)
        .map_err(|source| InventoryError::Name { place: place.to_owned(), source })?;
    let (user, rest) = match text.rsplit_once('@') {
        Some((user, rest)) => (Some(user.to_owned()), rest),
        None => (None, text),
    };
    let (host, port) = split_port(rest);
    let no_host = host.is_empty() || host.starts_with('-') || user.as_deref() == Some("");
    if no_host {
        let (place, target) = owned();
        return Err(InventoryError::NoHost { place, target });
    }
    let port = match port {
        None => None,
        Some(digits) => match digits.parse::<u16>() {
            Ok(port) if port > 0 => Some(port),
            _ => {
                let (place, target) = owned();
                return Err(InventoryError::Port { place, target });
            }
        },
    };
    let ssh = SshTarget { host: host.to_owned(), user, port, profile: Profile::System };
    Ok(Target { name, reach: Reach::Ssh(ssh) })
}

fn split_port(text: &str) -> (&str, Option<&str>) {
    if let Some((address, rest)) = text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        return (address, rest.strip_prefix(':'));
    }
    match text.split_once(':') {
        // More than one colon without brackets is an address, not a port.
        Some((_, rest)) if rest.contains(':') => (text, None),
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
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
    }

    #[test]
    fn each_name_is_watched_once_in_the_order_given() {
        let roster = roster(&["gpu[02,01]", "gpu01", "login,gpu03"]).unwrap();
        let names: Vec<_> =
            roster.targets.iter().map(|target| target.name.as_str().to_owned()).collect();
        assert_eq!(names, ["gpu02", "gpu01", "login", "gpu03"]);
    }

    #[test]
    fn this_machine_has_a_name_of_its_own() {
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
    fn what_cannot_be_a_target_is_named() {
        for (bad, words) in [
            ("gpu01:", "port"),
            ("gpu01:0", "port"),
            ("gpu01:99999", "port"),
            ("gpu01:ssh", "port"),
            ("@gpu01", "names no host"),
            ("ada@", "names no host"),
            ("ada@-oProxyCommand=x", "holds '='"),
            ("ada@-x", "names no host"),
            ("-x", "begins with '-'"),
            ("gpu[1", "open bracket"),
            ("a;b", "holds ';'"),
        ] {
            let error = roster(&[bad]).expect_err(bad).to_string();
            assert!(error.contains(words), "{bad}: {error}");
        }
    }

    #[test]
    fn a_file_holds_one_target_a_line_and_comments() {
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
        assert!(matches!(
            Roster::default().add_file(folder.path()),
            Err(InventoryError::File { .. })
        ));
    }
}
