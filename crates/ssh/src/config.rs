//! Reads the user's ssh configuration, as OpenSSH does.
//!
//! `tree` parses the files, `resolve` evaluates them for a host, `host_settings` turns the options into what a
//! connection needs. The `ssh` program is run (`ssh -G`) only where needed: `Match exec`, `localnetwork` and `version`,
//! `CanonicalizePermittedCNAMEs`, tokens and variables in `User` and `Include`, `Include ~name/`,
//! group-writable files, and keywords, values and algorithms that gtop does not know but another version of `ssh` may.
//! If it is needed and not installed, the fault names the line.
//!
//! Deliberate differences from OpenSSH 9.2:
//!
//! - Of the password database only `/etc/passwd` is read: a directory service can be slow or hang, so `HOME` and
//!   `USER` are used for users it does not list.
//! - Features up to OpenSSH 10 are supported: new options, `Match tagged`, `sessiontype`
//!   and `command`, the key exchange `mlkem768x25519-sha256`.
//! - `Match sessiontype` sees `exec`, because gtop runs a command; `ssh -G` would see `shell`.
//! - Values of forwardings, and of options added since, are not validated.
//! - Host and user names that `ssh` refuses on its command line are refused in files too.
//! - Algorithms that are not configured have gtop's own order.
//! - An empty list of algorithms is an error.
//! - `BatchMode` does not enable `ServerAliveInterval`, unlike in Debian's OpenSSH.
//! - `CanonicalizePermittedCNAMEs` without `CanonicalizeHostname` looks nothing up.
//! - An address with a scope (`%eth0`) is not normalised.
//! - Pipes and devices other than `/dev/null` are not read. There are limits on the number of
//!   files (1,024) and on their size (32 MiB together).
//! - Invalid UTF-8 becomes replacement characters.

pub(crate) mod algorithm_sets;
pub(crate) mod config_cache;
mod defaults;
mod glob;
mod host_names;
pub(crate) mod host_settings;
pub(crate) mod lexer;
mod options;
mod parse;
mod proxy_jump;
pub(crate) mod resolve;
mod resolved;
mod tree;
mod values;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use crate::config::host_settings::COMMAND_OVERRIDES;

use crate::config::resolved::ResolvedOptions;
pub(crate) use gtop_local::fault::Origin;
use gtop_local::fault::ssh::Fault;
use gtop_local::process::account::Account;
use gtop_local::text;

/// The default key files of OpenSSH.
const DEFAULT_KEYS: [&str; 7] =
    ["id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "id_xmss", "id_dsa"];

/// The address family to use (`AddressFamily`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AddressFamily {
    #[default]
    Any,
    Version4,
    Version6,
}

impl AddressFamily {
    fn from_options(resolved: &ResolvedOptions) -> Self {
        match resolved.first("addressfamily") {
            Some("inet") => Self::Version4,
            Some("inet6") => Self::Version6,
            _ => Self::Any,
        }
    }

    /// Returns true if an address is of the family.
    pub(crate) fn fits(self, address: &SocketAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Version4 => address.is_ipv4(),
            Self::Version6 => address.is_ipv6(),
        }
    }
}

/// The settings of one host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostSettings {
    pub(crate) host: String,
    /// The port to connect to.
    pub port: u16,
    /// The user to log in as.
    pub user: String,
    /// The name of the host in `known_hosts` files.
    pub known_hosts_name: KnownHostName,
    pub(crate) family: AddressFamily,
    /// `None` unless the configuration sets it.
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) bind: BindOptions,
    /// How to connect to the host.
    pub route: Route,
    pub(crate) keep_alive: KeepAlive,
    pub(crate) keys: KeySettings,
    /// The authentication methods to use, in order of preference.
    pub methods: Vec<String>,
    /// `KbdInteractiveDevices`, as written.
    pub(crate) devices: Option<String>,
    /// `NumberOfPasswordPrompts`; 0 in `BatchMode`.
    pub(crate) prompts: u32,
    pub(crate) algorithms: AlgorithmSettings,
    pub(crate) host_key_check: HostKeyCheck,
    /// Accept any host key at a loopback address (`NoHostAuthenticationForLocalhost`).
    pub(crate) trusts_loopback: bool,
    /// Minimum size of RSA keys, in bits (`RequiredRSASize`).
    pub(crate) min_rsa_bits: u32,
    /// The file of `RevokedHostKeys`.
    pub(crate) revoked_host_keys: Option<PathBuf>,
    /// New host keys are written to the first.
    pub(crate) user_known_hosts: Vec<PathBuf>,
    pub(crate) global_known_hosts: Vec<PathBuf>,
    pub(crate) hash_known_hosts: bool,
    /// Where each option was set, by lower-case name. Empty for settings from `ssh -G`, which does not report it.
    pub(crate) origins: BTreeMap<&'static str, Origin>,
    /// Where the socket of a `ControlMaster` may be: OpenSSH versions differ in `%C`.
    pub(crate) control_paths: Vec<PathBuf>,
    /// Effective options that only the `ssh` program supports, as spelt in `ssh_config`.
    pub(crate) needs_ssh: Vec<String>,
    /// Options that make the `ssh` program run just a command.
    pub command_overrides: Vec<&'static str>,
}

/// `BindAddress` and `BindInterface`: what to connect from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BindOptions {
    pub(crate) address: Option<String>,
    pub(crate) interface: Option<String>,
}

/// The name of a host in `known_hosts` files and certificates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownHostName {
    /// `host`, `[host]:port` when the port is not 22, or the alias.
    pub full: String,
    /// The host without the port, tried if `full` has no entry.
    pub(crate) portless: Option<String>,
}

impl KnownHostName {
    /// Returns the name of `host` at `port`; an alias is used as it is, at every port.
    pub(crate) fn new(host: &str, port: u16, alias: Option<&str>) -> Self {
        let host = host.to_ascii_lowercase();
        match (alias, port) {
            (Some(alias), _) => Self { full: alias.to_ascii_lowercase(), portless: None },
            (None, 22) => Self { full: host, portless: None },
            (None, port) => Self { full: format!("[{host}]:{port}"), portless: Some(host) },
        }
    }

    /// Returns the principal a certificate must have; certificates have no ports.
    pub(crate) fn principal(&self) -> &str {
        self.portless.as_deref().unwrap_or(&self.full)
    }
}

/// An effective option, for `gtop doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveOption {
    /// The name in lower case.
    pub name: &'static str,
    /// The name as spelt in the manual.
    pub spelling: &'static str,
    /// The values, as `ssh -G` prints them.
    pub values: Vec<String>,
    /// The line that set it; `None` for defaults and for values from `ssh -G`.
    pub origin: Option<Origin>,
    /// It was set, perhaps in an unknown line.
    pub is_set: bool,
    /// gtop ignores it.
    pub is_ignored: bool,
}

/// How to connect to the host.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Route {
    /// A direct TCP connection.
    #[default]
    Direct,
    /// `ProxyJump`: through these hosts, in connection order; each has its own settings.
    Jumps(Vec<HostQuery>),
    /// `ProxyCommand`, tokens expanded.
    Command(String),
}

impl Route {
    /// Returns the hosts of `ProxyJump`, in connection order.
    pub(crate) fn gateways(&self) -> &[HostQuery] {
        if let Self::Jumps(gateways) = self { gateways } else { &[] }
    }
}

/// `ServerAliveInterval` and `ServerAliveCountMax`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeepAlive {
    /// The interval; `None` is the default.
    pub(crate) interval: Option<Duration>,
    /// Keepalives without a reply before the connection is closed.
    pub(crate) max_count: usize,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self { interval: None, max_count: 3 }
    }
}

/// The algorithms to offer, in order of preference; the default when empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AlgorithmSettings {
    pub(crate) key_exchanges: Vec<String>,
    pub(crate) ciphers: Vec<String>,
    pub(crate) macs: Vec<String>,
    pub(crate) host_keys: Vec<String>,
    /// `PubkeyAcceptedAlgorithms`.
    pub(crate) signatures: Vec<String>,
    /// `CASignatureAlgorithms`.
    pub(crate) authority_signatures: Vec<String>,
}

/// `StrictHostKeyChecking`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum HostKeyCheck {
    Yes,
    #[default]
    Ask,
    AcceptNew,
    No,
}

/// Which keys may be offered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct KeySettings {
    /// The files, in the order to try them.
    pub(crate) files: Vec<PathBuf>,
    /// The files of `CertificateFile`.
    pub(crate) certificates: Vec<PathBuf>,
    /// Set by the user, not OpenSSH's defaults.
    pub(crate) are_keys_configured: bool,
    /// `IdentitiesOnly`.
    pub(crate) identities_only: bool,
    pub(crate) agent: Option<PathBuf>,
}

/// The parts of the environment the configuration refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalEnv {
    /// The home directory by the password database.
    pub home: PathBuf,
    /// The home directory by `HOME`, used by OpenSSH only for `Include`.
    pub include_home: PathBuf,
    /// The local user name.
    pub user: String,
    /// The local host name.
    pub host_name: String,
    /// The socket of the ssh agent.
    pub agent: Option<PathBuf>,
}

/// The home directory of users without one, as in Debian.
const NO_HOME_DIR: &str = "/nonexistent";

impl LocalEnv {
    /// Reads the environment and `/etc/passwd`, whose home OpenSSH takes before `HOME`.
    pub fn of_this_process() -> Self {
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let account = Account::own();
        let home_variable = variable("HOME").map(PathBuf::from);
        let home =
            account.home.or_else(|| home_variable.clone()).unwrap_or_else(|| NO_HOME_DIR.into());
        Self {
            include_home: home_variable.unwrap_or_else(|| home.clone()),
            home,
            user: account.name.unwrap_or_default(),
            host_name: machine.trim().to_owned(),
            agent: variable("SSH_AUTH_SOCK").map(PathBuf::from),
        }
    }

    /// Returns what is missing, and what to do about it.
    pub fn problem(&self) -> Option<&'static str> {
        if self.user.is_empty() {
            return Some(
                "USER is not set and /etc/passwd has no user name for you; set USER, or write USER@HOST",
            );
        }
        let is_homeless = self.home == Path::new(NO_HOME_DIR);
        is_homeless.then_some(
            "HOME is not set and /etc/passwd has no home for you, so ~/.ssh is not read; set HOME",
        )
    }
}

/// Returns the value of an environment variable; `None` if it is empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Refuses host names that a shell or `ssh` could misinterpret: those `ssh` refuses on its command line.
pub(crate) fn check_host(host: &str) -> Result<(), Fault> {
    check_name("host name", host, |c| {
        text::is_unprintable(c) || c.is_whitespace() || "'`\"$\\;&<>|(){},".contains(c)
    })
}

/// Refuses names that would be a list, a pattern or a marker in a `known_hosts` file.
pub(crate) fn check_known_name(host: &str) -> Result<(), Fault> {
    check_host(host)?;
    let has_marker = host.starts_with(['#', '@']);
    check_name("host name", host, |c| has_marker || "*?!".contains(c))
}

/// Refuses user names that could be taken for an option or a command: those `ssh` refuses on its command line.
pub(crate) fn check_user(user: &str) -> Result<(), Fault> {
    let has_option = user.split(char::is_whitespace).skip(1).any(|word| word.starts_with('-'));
    let is_odd = has_option || user.ends_with('\\');
    check_name("user name", user, |c| {
        is_odd || text::is_unprintable(c) || "'`\";&<>|(){}".contains(c)
    })
}

fn check_name(what: &str, text: &str, is_forbidden: impl Fn(char) -> bool) -> Result<(), Fault> {
    if text.is_empty() || text.len() > 255 || text.starts_with('-') || text.contains(is_forbidden) {
        let why = format!("{what} '{}' cannot be used", text::excerpt_line(text));
        return Err(Fault::BadConfiguration { why });
    }
    Ok(())
}

/// The host to resolve the configuration for: a target, or a host of `ProxyJump`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostQuery {
    /// The name as typed.
    pub host: String,
    /// The user, if one was typed.
    pub user: Option<String>,
    /// The port, if one was typed.
    pub port: Option<u16>,
}

impl HostQuery {
    pub(crate) fn check(&self) -> Result<(), Fault> {
        check_host(&self.host)?;
        self.user.as_deref().map_or(Ok(()), check_user)
    }

    /// Returns the destination as gtop and `ProxyJump` accept it: `[user@]host[:port]`.
    pub(crate) fn destination(&self) -> String {
        let user = self.user.iter().map(|user| format!("{user}@"));
        let is_bare_address = self.port.is_some() && self.host.contains(':');
        let [open, close] = if is_bare_address { ["[", "]"] } else { ["", ""] };
        let port = self.port.iter().map(|port| format!(":{port}"));
        user.chain([format!("{open}{}{close}", self.host)]).chain(port).collect()
    }

    /// Returns the arguments of `ssh -G`.
    pub(crate) fn ssh_g_args(&self, file: Option<&Path>) -> Vec<OsString> {
        let args = ["-T", "-G"].into_iter().map(OsString::from);
        args.chain(self.destination_args(file)).collect()
    }

    /// Returns the arguments of `ssh` for the host, user, port and configuration file.
    pub fn destination_args(&self, file: Option<&Path>) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        if let Some(file) = file {
            args.extend(["-F".into(), file.into()]);
        }
        if let Some(user) = &self.user {
            args.extend(["-l".into(), user.into()]);
        }
        if let Some(port) = self.port {
            args.extend(["-p".into(), port.to_string().into()]);
        }
        args.extend(["--".into(), (&self.host).into()]);
        args
    }

    /// Parses the output of `ssh -G`.
    pub fn settings_from_ssh_g(&self, text: &str, env: &LocalEnv) -> Result<HostSettings, Fault> {
        let resolved = ResolvedOptions::parse_ssh_g(text);
        for option in ["hostname", "user", "port"] {
            if !resolved.has(option) {
                let why = format!("ssh -G names no {option} for {}", self.host);
                return Err(Fault::BadConfiguration { why });
            }
        }
        host_settings::from_options(&resolved, self, env)
    }

    /// Returns every option in the output of `ssh -G`.
    pub(crate) fn options_from_ssh_g(&self, text: &str, env: &LocalEnv) -> Vec<EffectiveOption> {
        host_settings::effective_options(&ResolvedOptions::parse_ssh_g(text), self, env)
    }
}

/// Why the configuration could not be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigError {
    /// It is invalid, or forbids the connection.
    Invalid(Fault),
    /// Only the `ssh` program can evaluate this line.
    NeedsSsh { at: Origin, what: String },
    /// Names must be looked up first.
    NeedsLookup,
}

impl ConfigError {
    fn at_line(at: &Origin, why: impl fmt::Display) -> Self {
        let why = text::excerpt(&format!("{at}: {why}"), 400);
        Self::Invalid(Fault::BadConfiguration { why })
    }

    fn at_file(path: &Path, why: &str) -> Self {
        let path = path.to_string_lossy();
        let why = format!("{why} {}", text::excerpt_line(&path));
        Self::Invalid(Fault::BadConfiguration { why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_user_name_or_home_is_named() {
        let problem = |home: &str, user: &str| {
            let (home, user) = (home.into(), user.to_owned());
            let include_home = PathBuf::new();
            LocalEnv { home, include_home, user, host_name: String::new(), agent: None }.problem()
        };
        assert_eq!(problem("/home/ada", "ada"), None);
        assert!(problem("/home/ada", "").is_some_and(|args| args.contains("set USER")));
        assert!(problem(NO_HOME_DIR, "ada").is_some_and(|args| args.contains("set HOME")));
    }

    fn env() -> LocalEnv {
        LocalEnv {
            home: PathBuf::from("/home/ada"),
            include_home: PathBuf::from("/home/ada"),
            user: "ada".to_owned(),
            host_name: "login1.site".to_owned(),
            agent: Some(PathBuf::from("/run/agent")),
        }
    }

    fn query(host: &str) -> HostQuery {
        HostQuery { host: host.to_owned(), user: None, port: None }
    }

    #[test]
    fn dangerous_names_are_refused_before_anything_runs() {
        for host in
            ["", "-oProxyCommand=x", "a b", "a;b", "$(x)", "a`b`", "a\nb", "a\u{1b}b", "a|b", "a,b"]
        {
            assert!(query(host).check().is_err(), "{host:?}");
        }
        for host in ["n1", "n1.site", "10.0.0.1", "fe80::1%eth0", "[::1]", "gpu_a-1", "host#foo"] {
            assert!(query(host).check().is_ok(), "{host:?}");
            assert!(check_known_name(host).is_ok(), "{host:?}");
        }
        for host in ["#n1", "n*", "n?", "!n1", "@revoked", "a,b", "|1|a|b"] {
            assert!(check_known_name(host).is_err(), "{host:?}");
        }
        let user = |user: &str| HostQuery { user: Some(user.to_owned()), ..query("n1") };
        assert!(user("-l").check().is_err());
        assert!(user("a;b").check().is_err());
        for is_forbidden in ["a -l", "a\\", "a\tb", "a\u{1b}", ""] {
            assert!(user(is_forbidden).check().is_err(), "{is_forbidden:?}");
        }
        for right in ["ada@SITE", "ada lovelace", "SITE\\ada", "host$", "a  b", "a b-"] {
            assert!(user(right).check().is_ok(), "{right:?}");
        }
        assert!(
            query("n1").settings_from_ssh_g("hostname a$b\nuser x\nport 22\n", &env()).is_err()
        );
        assert!(query("n1").settings_from_ssh_g("user x\nport 22\n", &env()).is_err());
    }

    #[test]
    fn ssh_arguments_end_options_before_the_host() {
        let query =
            HostQuery { host: "n1".to_owned(), user: Some("ada".to_owned()), port: Some(7) };
        let args = query.ssh_g_args(Some(Path::new("/c")));
        let args: Vec<_> = args.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(args, ["-T", "-G", "-F", "/c", "-l", "ada", "-p", "7", "--", "n1"]);
    }
}
