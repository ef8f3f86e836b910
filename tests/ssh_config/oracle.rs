//! The real `ssh -G`, compared with gtop's parser.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gtop_collect::transport::{Fault, Options, Reach, Target, Transport};
use gtop_model::NodeName;
use gtop_ssh::{EffectiveOption, LocalEnv, Profile, SshTarget};
use tokio::process::Command;

use crate::ssh_config::case::{Case, HostArg};

/// The configuration files to read.
pub(crate) struct ConfigFiles<'a> {
    pub(crate) home: &'a Path,
    /// As `ssh -F`.
    pub(crate) config_file: Option<&'a Path>,
}

/// The result of one of the two parsers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Options(BTreeMap<String, Vec<String>>),
    Error(String),
    /// gtop would run `ssh -G`.
    NeedsSsh(String),
}

/// Options that are not compared: their values mean nothing to gtop; `host` is the typed name.
const NOT_COMPARED: &[&str] = &[
    "addkeystoagent",
    "canonicalizepermittedcnames",
    "channeltimeout",
    "controlpath",
    "controlpersist",
    "dynamicforward",
    "escapechar",
    "fingerprinthash",
    "forwardagent",
    "forwardx11trusted",
    "gssapikexalgorithms",
    "host",
    "ipqos",
    "localforward",
    "logverbose",
    "obscurekeystroketiming",
    "permitremoteopen",
    "rekeylimit",
    "remotecommand",
    "remoteforward",
    "serveraliveinterval",
    "streamlocalbindmask",
    "syslogfacility",
    "tag",
    "tunneldevice",
    "updatehostkeys",
    "versionaddendum",
];

/// The real `ssh`, as the reference.
pub(crate) struct Oracle {
    defaults: BTreeMap<String, Vec<String>>,
    /// The home directory of the password database, where `ssh` takes `~` from.
    home: String,
}

impl Oracle {
    pub(crate) async fn new() -> Option<Self> {
        let version = match Command::new("ssh").arg("-V").output().await {
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => {
                eprintln!("skipped: ssh cannot be started: {error}");
                return None;
            }
        };
        if !version.starts_with("OpenSSH_9.2") {
            eprintln!("skipped: the comparison is with OpenSSH 9.2, this is {version}");
            return None;
        }
        let home = Command::new("sh")
            .args(["-c", "getent passwd $(id -u) | cut -d: -f6"])
            .output()
            .await
            .unwrap();
        let home = String::from_utf8_lossy(&home.stdout).trim().to_owned();
        let plain = Command::new("ssh").args(["-F", "none", "-G", "x"]).output().await.unwrap();
        let defaults = options(&String::from_utf8_lossy(&plain.stdout));
        Some(Self { defaults, home })
    }

    /// Returns what differs, if anything does.
    pub(crate) async fn compare(
        &self,
        case: &Case,
        host: &HostArg,
        files: &ConfigFiles<'_>,
    ) -> Option<String> {
        let theirs = self.run_ssh(host, files).await;
        let ours = self.run_gtop(host, files).await;
        let differs = |why: String| Some(format!("{} {}: {why}", case.name, host.name));
        match (&theirs, &ours) {
            (_, Outcome::NeedsSsh(why)) if !case.needs_ssh && !case.name.is_empty() => {
                differs(format!("left to ssh: {why}"))
            }
            (_, Outcome::NeedsSsh(_)) | (Outcome::Error(_), Outcome::Error(_)) => None,
            (Outcome::Error(_), Outcome::Options(_)) if case.is_later => None,
            (Outcome::Options(theirs), Outcome::Options(ours)) => {
                let lines = self.differences(theirs, ours);
                (!lines.is_empty()).then(|| differs(lines.join("; ")))?
            }
            _ => differs(format!("ssh says {theirs:?}, gtop {ours:?}")),
        }
    }

    fn differences(
        &self,
        theirs: &BTreeMap<String, Vec<String>>,
        ours: &BTreeMap<String, Vec<String>>,
    ) -> Vec<String> {
        let names =
            theirs.keys().chain(ours.keys()).filter(|name| !NOT_COMPARED.contains(&name.as_str()));
        let mut wrong: Vec<String> = names
            .filter_map(|name| {
                let is_vendor_default = name.ends_with("algorithms")
                    || ["ciphers", "macs", "xauthlocation"].contains(&name.as_str());
                let default = self.defaults.get(name).filter(|_| is_vendor_default);
                let theirs = theirs.get(name);
                // Algorithms that are not configured keep gtop's order.
                let ours = ours.get(name).or(default);
                (theirs != ours).then(|| format!("{name}: ssh {theirs:?}, gtop {ours:?}"))
            })
            .collect();
        wrong.dedup();
        wrong
    }

    async fn run_ssh(&self, host: &HostArg, files: &ConfigFiles<'_>) -> Outcome {
        let mut command = Command::new("ssh");
        command.arg("-G").env("HOME", files.home);
        if let Some(file) = files.config_file {
            command.arg("-F").arg(file);
        }
        if let Some(user) = &host.user {
            command.args(["-l", user]);
        }
        if let Some(port) = host.port {
            command.args(["-p", &port.to_string()]);
        }
        let output = command.args(["--", &host.name]).output().await.unwrap();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            // Printed in every run without a terminal.
            let lines = why.lines().filter(|line| !line.starts_with("Pseudo-terminal"));
            return Outcome::Error(lines.collect::<Vec<_>>().join("\n"));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let home = files.home.to_str().unwrap();
        let text = match self.home.as_str() {
            same if same == home => text,
            other => text.replace(&format!(" {other}/"), &format!(" {home}/")),
        };
        Outcome::Options(options(&text))
    }

    pub(crate) async fn run_gtop(&self, host: &HostArg, files: &ConfigFiles<'_>) -> Outcome {
        let mut outcome = gtop(host, files).await;
        if let Outcome::Options(options) = &mut outcome {
            let kex = options.get_mut("kexalgorithms").and_then(|values| values.first_mut());
            let later = "mlkem768x25519-sha256";
            // Only later versions have it.
            if let Some(kex) = kex {
                let known = kex.split(',').filter(|name| *name != later);
                *kex = known.collect::<Vec<_>>().join(",");
            }
        }
        outcome
    }
}

/// Reads lines of a name and a value.
fn options(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut options: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.split('\n').filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(' ').unwrap_or((line, ""));
        options.entry(name.to_ascii_lowercase()).or_default().push(value.to_owned());
    }
    options
}

pub(crate) async fn gtop(host: &HostArg, files: &ConfigFiles<'_>) -> Outcome {
    match options_without_ssh(host, files).await {
        Ok(found) => {
            let pairs = found.into_iter().map(|option| (option.name.to_owned(), option.values));
            Outcome::Options(pairs.filter(|(_, values)| !values.is_empty()).collect())
        }
        Err(fault) if fault.to_string().contains("only the ssh program") => {
            Outcome::NeedsSsh(fault.to_string())
        }
        Err(fault) => Outcome::Error(fault.to_string()),
    }
}

/// Resolves with gtop alone, without an `ssh`.
pub(crate) async fn options_without_ssh(
    host: &HostArg,
    files: &ConfigFiles<'_>,
) -> Result<Vec<EffectiveOption>, Fault> {
    options_with_ssh(host, files, "/no/ssh/here").await
}

pub(crate) async fn options_with_ssh(
    host: &HostArg,
    files: &ConfigFiles<'_>,
    ssh: &str,
) -> Result<Vec<EffectiveOption>, Fault> {
    transport(files, ssh).effective_options(&target(host)).await
}

/// Returns a transport with empty caches.
pub(crate) fn transport(files: &ConfigFiles<'_>, ssh: &str) -> Transport {
    let env = LocalEnv::of_this_process();
    let user = if env.user.is_empty() { "root".to_owned() } else { env.user.clone() };
    let mut options = Options::of_this_process();
    options.ssh.ssh_program = PathBuf::from(ssh);
    options.ssh.config_file = files.config_file.map(Path::to_owned);
    let (home, include_home) = (files.home.to_owned(), files.home.to_owned());
    options.ssh.env = LocalEnv { home, include_home, user, ..env };
    Transport::new(options)
}

pub(crate) fn target(host: &HostArg) -> Target {
    Target {
        name: NodeName::new("node").unwrap(),
        reach: Reach::Ssh(SshTarget {
            host: host.name.clone(),
            user: host.user.clone(),
            port: host.port,
            profile: Profile::System,
        }),
    }
}
