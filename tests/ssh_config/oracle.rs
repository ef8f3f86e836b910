//! The real `ssh -G`, compared with gtop's parser.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gtop::model::NodeName;
use gtop::transport::{
    EffectiveOption, Fault, LocalEnv, Options, Profile, Reach, SshTarget, Target, Transport,
};
use tokio::process::Command;

use crate::case::{Asked, Case};

/// Where the files are.
pub(crate) struct Place<'a> {
    pub(crate) home: &'a Path,
    /// As `ssh -F`.
    pub(crate) chosen: Option<&'a Path>,
}

/// What one of the two says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    Options(BTreeMap<String, Vec<String>>),
    Mistake(String),
    /// gtop would ask `ssh`.
    Foreign(String),
}

/// What is not compared: options whose values mean nothing to gtop, and `host`, which is what was
/// typed.
const APART: &[&str] = &[
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

/// A release `ssh` that answers.
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
        asked: &Asked,
        place: &Place<'_>,
    ) -> Option<String> {
        let theirs = self.ssh(asked, place).await;
        let ours = self.gtop(asked, place).await;
        let differs = |why: String| Some(format!("{} {}: {why}", case.name, asked.host));
        match (&theirs, &ours) {
            (_, Said::Foreign(why)) if !case.is_foreign && !case.name.is_empty() => {
                differs(format!("left to ssh: {why}"))
            }
            (_, Said::Foreign(_)) | (Said::Mistake(_), Said::Mistake(_)) => None,
            (Said::Mistake(_), Said::Options(_)) if case.is_later => None,
            (Said::Options(theirs), Said::Options(ours)) => {
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
        let names = theirs.keys().chain(ours.keys()).filter(|name| !APART.contains(&name.as_str()));
        let mut wrong: Vec<String> = names
            .filter_map(|name| {
                let is_vendors = name.ends_with("algorithms")
                    || ["ciphers", "macs", "xauthlocation"].contains(&name.as_str());
                let default = self.defaults.get(name).filter(|_| is_vendors);
                let theirs = theirs.get(name);
                // What nobody set is left to gtop's own order.
                let ours = ours.get(name).or(default);
                (theirs != ours).then(|| format!("{name}: ssh {theirs:?}, gtop {ours:?}"))
            })
            .collect();
        wrong.dedup();
        wrong
    }

    async fn ssh(&self, asked: &Asked, place: &Place<'_>) -> Said {
        let mut command = Command::new("ssh");
        command.arg("-G").env("HOME", place.home);
        if let Some(file) = place.chosen {
            command.arg("-F").arg(file);
        }
        if let Some(user) = &asked.user {
            command.args(["-l", user]);
        }
        if let Some(port) = asked.port {
            command.args(["-p", &port.to_string()]);
        }
        let output = command.args(["--", &asked.host]).output().await.unwrap();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            // It says so of every run without a terminal.
            let lines = why.lines().filter(|line| !line.starts_with("Pseudo-terminal"));
            return Said::Mistake(lines.collect::<Vec<_>>().join("\n"));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let home = place.home.to_str().unwrap();
        let text = match self.home.as_str() {
            same if same == home => text,
            other => text.replace(&format!(" {other}/"), &format!(" {home}/")),
        };
        Said::Options(options(&text))
    }

    pub(crate) async fn gtop(&self, asked: &Asked, place: &Place<'_>) -> Said {
        let mut said = gtop(asked, place).await;
        if let Said::Options(options) = &mut said {
            let kex = options.get_mut("kexalgorithms").and_then(|values| values.first_mut());
            let later = "mlkem768x25519-sha256";
            // Only later versions have it.
            if let Some(kex) = kex {
                let known = kex.split(',').filter(|name| *name != later);
                *kex = known.collect::<Vec<_>>().join(",");
            }
        }
        said
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

pub(crate) async fn gtop(asked: &Asked, place: &Place<'_>) -> Said {
    match explain(asked, place).await {
        Ok(found) => {
            let pairs = found.into_iter().map(|option| (option.name.to_owned(), option.values));
            Said::Options(pairs.filter(|(_, values)| !values.is_empty()).collect())
        }
        Err(fault) if fault.to_string().contains("only the ssh program") => {
            Said::Foreign(fault.to_string())
        }
        Err(fault) => Said::Mistake(fault.to_string()),
    }
}

/// Asks gtop alone; there is no `ssh` for it.
pub(crate) async fn explain(
    asked: &Asked,
    place: &Place<'_>,
) -> Result<Vec<EffectiveOption>, Fault> {
    ask(asked, place, "/no/ssh/here").await
}

pub(crate) async fn ask(
    asked: &Asked,
    place: &Place<'_>,
    ssh: &str,
) -> Result<Vec<EffectiveOption>, Fault> {
    transport(place, ssh).explain(&target(asked)).await
}

/// Makes a transport that has read nothing yet.
pub(crate) fn transport(place: &Place<'_>, ssh: &str) -> Transport {
    let own = LocalEnv::of_this_process();
    let user = if own.user.is_empty() { "root".to_owned() } else { own.user.clone() };
    Transport::new(Options {
        ssh_program: PathBuf::from(ssh),
        config_file: place.chosen.map(Path::to_owned),
        env: LocalEnv {
            home: place.home.to_owned(),
            include_home: place.home.to_owned(),
            user,
            ..own
        },
        ..Options::of_this_process()
    })
}

pub(crate) fn target(asked: &Asked) -> Target {
    Target {
        name: NodeName::new("node").unwrap(),
        reach: Reach::Ssh(SshTarget {
            host: asked.host.clone(),
            user: asked.user.clone(),
            port: asked.port,
            profile: Profile::System,
        }),
    }
}
