//! What the user's ssh configuration says about one host.
//!
//! `ssh -G` is asked, because only it knows every `Match`, `Include` and vendor
//! default. What it prints raw (`~`, `%h`, `${VAR}`) is expanded here. Without an
//! `ssh` program the defaults of OpenSSH hold.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hmac::digest::Digest;
use sha1::Sha1;

use crate::transport::fault::{self, Fault};
use crate::transport::known_hosts::HostName;

/// Names of the keys OpenSSH tries when nothing is configured.
const DEFAULT_KEYS: [&str; 7] =
    ["id_rsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "id_xmss", "id_dsa"];

/// Which kinds of address may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Any,
    Version4,
    Version6,
}

/// Everything needed to reach one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) known_as: HostName,
    pub(super) family: Family,
    /// Set only when the configuration sets it.
    pub(super) connect_timeout: Option<Duration>,
    /// The local address to connect from.
    pub(super) bind_address: Option<String>,
    /// The network interface to connect from.
    pub(super) bind_interface: Option<String>,
    pub(super) route: Route,
    pub(super) alive: Alive,
    pub(super) keys: Keys,
    /// Names of the authentication methods that may be used, the preferred first.
    pub(super) methods: Vec<String>,
    pub(super) algorithms: Algorithms,
    pub(super) host_key_check: HostKeyCheck,
    /// The file of `RevokedHostKeys`.
    pub(super) revoked_host_keys: Option<PathBuf>,
    /// The first of these is where a new host key is written.
    pub(super) user_known_hosts: Vec<PathBuf>,
    pub(super) global_known_hosts: Vec<PathBuf>,
    pub(super) hash_known_hosts: bool,
    /// Options that are set and that only the ssh program can follow, by name.
    pub(super) needs_ssh: Vec<String>,
}

/// How bytes get to the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// By a TCP connection.
    Direct,
    /// Through these hosts, the nearest first.
    Jumps(Vec<Hop>),
    /// Through the standard input and output of this command, tokens expanded.
    Command(String),
}

/// One host on the way to another, to be looked up in the configuration itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Hop {
    pub(super) host: String,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
}

/// When a silent server counts as gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alive {
    /// How often to ask, when the configuration says so.
    pub(super) interval: Option<Duration>,
    /// So many questions without an answer end the connection.
    pub(super) most: usize,
}

/// The names of the algorithms to offer, the preferred first; all that are known when empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Algorithms {
    pub(super) key_exchanges: Vec<String>,
    pub(super) ciphers: Vec<String>,
    pub(super) macs: Vec<String>,
    pub(super) host_keys: Vec<String>,
    /// For signatures with the user's key.
    pub(super) signatures: Vec<String>,
    /// For signatures of certificate authorities.
    pub(super) authority_signatures: Vec<String>,
}

/// What `StrictHostKeyChecking` says about keys nobody has seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostKeyCheck {
    Yes,
    Ask,
    AcceptNew,
    No,
}

/// Which keys may be shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Keys {
    /// Files in the order to try them.
    pub(super) files: Vec<PathBuf>,
    /// The files of `CertificateFile`.
    pub(super) certificates: Vec<PathBuf>,
    /// Whether the user chose them, rather than OpenSSH's defaults.
    pub(super) are_chosen: bool,
    /// Whether no other key of the agent may be shown.
    pub(super) only_these: bool,
    /// Whether any key may be shown at all.
    pub(super) are_allowed: bool,
    pub(super) agent: Option<PathBuf>,
}

/// The parts of the environment the configuration refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// The home directory.
    pub home: PathBuf,
    /// The user name on this machine.
    pub user: String,
    /// The name of this machine.
    pub machine: String,
    /// The socket of the ssh agent, when there is one.
    pub agent: Option<PathBuf>,
}

impl Surroundings {
    /// Reads the environment; without `HOME` nothing under it is found.
    pub fn of_this_process() -> Self {
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            home: variable("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from),
            user: variable("USER").or_else(|| variable("LOGNAME")).unwrap_or_default(),
            machine: machine.trim().to_owned(),
            agent: variable("SSH_AUTH_SOCK").map(PathBuf::from),
        }
    }
}

/// Refuses names that a shell, `ssh` or a `known_hosts` file could take for something else.
pub(super) fn check_host(host: &str) -> Result<(), Fault> {
    let wrong = |c: char| {
        c.is_control()
            || c.is_whitespace()
            || "'`\"$\\;&<>|(){}*?!#,@|".contains(c)
            || c == '\u{7f}'
    };
    check("host name", host, wrong)
}

/// Refuses user names that could be taken for an option or a command.
pub(super) fn check_user(user: &str) -> Result<(), Fault> {
    let wrong = |c: char| c.is_control() || c.is_whitespace() || "'`\"$;&<>|(){}".contains(c);
    check("user name", user, wrong)
}

fn check(what: &str, text: &str, wrong: impl Fn(char) -> bool) -> Result<(), Fault> {
    if text.is_empty() || text.len() > 255 || text.starts_with('-') || text.contains(wrong) {
        let why = format!("{what} '{}' cannot be used", fault::quote(text));
        return Err(Fault::BadConfiguration { why });
    }
    Ok(())
}

/// One lookup: what to ask `ssh -G` about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    /// The name the user typed.
    pub(super) host: String,
    pub(super) user: Option<String>,
    pub(super) port: Option<u16>,
}

impl Question {
    pub(super) fn check(&self) -> Result<(), Fault> {
        check_host(&self.host)?;
        self.user.as_deref().map_or(Ok(()), check_user)
    }

    /// Returns the arguments of `ssh` that print the settings.
    pub(super) fn arguments(&self, file: Option<&Path>) -> Vec<std::ffi::OsString> {
        let mut words: Vec<std::ffi::OsString> = vec!["-T".into(), "-G".into()];
        if let Some(file) = file {
            words.extend(["-F".into(), file.into()]);
        }
        if let Some(user) = &self.user {
            words.extend(["-l".into(), user.into()]);
        }
        if let Some(port) = self.port {
            words.extend(["-p".into(), port.to_string().into()]);
        }
        words.extend(["--".into(), (&self.host).into()]);
        words
    }

    /// Returns the settings OpenSSH has built in, for when there is no `ssh` program.
    pub(super) fn defaults(&self, around: &Surroundings) -> Result<Settings, Fault> {
        let keys = DEFAULT_KEYS.map(|name| format!("identityfile ~/.ssh/{name}")).join("\n");
        let text = format!(
            "hostname {}\nuser {}\nport {}\n{keys}\nuserknownhostsfile ~/.ssh/known_hosts ~/.ssh/known_hosts2\n\
             globalknownhostsfile /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2\n",
            self.host,
            self.user.as_deref().unwrap_or(&around.user),
            self.port.unwrap_or(22),
        );
        self.settings(&text, around)
    }

    /// Reads what `ssh -G` printed.
    pub(super) fn settings(&self, text: &str, around: &Surroundings) -> Result<Settings, Fault> {
        let printed = Printed(text);
        let missing = |option| Fault::BadConfiguration {
            why: format!("ssh -G names no {option} for {}", self.host),
        };
        let host = printed.first("hostname").ok_or_else(|| missing("hostname"))?;
        check_host(host)?;
        let user = printed.first("user").unwrap_or(&around.user);
        check_user(user)?;
        let port = printed.first("port").and_then(|port| port.parse().ok());
        let port: u16 = port.ok_or_else(|| missing("port"))?;

        let mut tokens = Tokens { question: self, around, host, user, port, key: host };
        let alias = printed.first("hostkeyalias").and_then(|raw| tokens.expand(raw));
        alias.as_deref().map_or(Ok(()), check_host)?;
        tokens.key = alias.as_deref().unwrap_or(&self.host);
        let route = printed.route(&tokens)?;
        let raw_keys: Vec<&str> = printed.all("identityfile").collect();
        Ok(Settings {
            host: host.to_owned(),
            port,
            user: user.to_owned(),
            known_as: HostName::new(host, port, alias.as_deref()),
            family: match printed.first("addressfamily") {
                Some("inet") => Family::Version4,
                Some("inet6") => Family::Version6,
                _ => Family::Any,
            },
            connect_timeout: printed
                .first("connecttimeout")
                .and_then(|text| text.parse().ok())
                .map(Duration::from_secs),
            bind_address: printed.first("bindaddress").map(str::to_owned),
            bind_interface: printed.first("bindinterface").map(str::to_owned),
            route,
            alive: printed.alive(),
            methods: printed.methods(),
            algorithms: printed.algorithms(),
            host_key_check: match printed.first("stricthostkeychecking") {
                Some("yes" | "true") => HostKeyCheck::Yes,
                Some("accept-new") => HostKeyCheck::AcceptNew,
                Some("no" | "off" | "false") => HostKeyCheck::No,
                _ => HostKeyCheck::Ask,
            },
            revoked_host_keys: printed.first("revokedhostkeys").and_then(|raw| tokens.path(raw)),
            keys: Keys {
                files: raw_keys.iter().filter_map(|raw| tokens.path(raw)).collect(),
                certificates: printed
                    .all("certificatefile")
                    .filter_map(|raw| tokens.path(raw))
                    .collect(),
                are_chosen: are_chosen(&raw_keys),
                only_these: printed.is_yes("identitiesonly"),
                are_allowed: printed.allows_public_keys(),
                agent: match printed.first("identityagent") {
                    None | Some("SSH_AUTH_SOCK") => around.agent.clone(),
                    Some(raw) => tokens.agent(raw),
                },
            },
            user_known_hosts: tokens.paths(printed.first("userknownhostsfile")),
            global_known_hosts: tokens.paths(printed.first("globalknownhostsfile")),
            hash_known_hosts: printed.is_yes("hashknownhosts"),
            needs_ssh: Vec::new(),
        })
    }
}

/// The lines `ssh -G` prints: an option in lower case, a space, its value.
struct Printed<'a>(&'a str);

impl<'a> Printed<'a> {
    fn all(&self, option: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
        let pairs = self.0.lines().filter_map(|line| line.split_once(' '));
        pairs
            .filter(move |(name, _)| name.eq_ignore_ascii_case(option))
            .map(|(_, value)| value.trim())
    }

    fn first(&self, option: &'a str) -> Option<&'a str> {
        self.all(option).next()
    }

    fn is_yes(&self, option: &'a str) -> bool {
        matches!(self.first(option), Some("yes" | "true"))
    }

    fn is_no(&self, option: &'a str) -> bool {
        matches!(self.first(option), Some("no" | "false"))
    }

    fn allows_public_keys(&self) -> bool {
        let methods = self.first("preferredauthentications");
        let is_wanted = methods.is_none_or(|list| list.split(',').any(|name| name == "publickey"));
        is_wanted && !self.is_no("pubkeyauthentication")
    }

    /// Returns the methods that are preferred and not switched off.
    fn methods(&self) -> Vec<String> {
        let preferred = self
            .first("preferredauthentications")
            .unwrap_or("gssapi-with-mic,hostbased,publickey,keyboard-interactive,password");
        let is_on = |method: &&str| match *method {
            "gssapi-with-mic" => self.is_yes("gssapiauthentication"),
            "hostbased" => self.is_yes("hostbasedauthentication"),
            "publickey" => !self.is_no("pubkeyauthentication"),
            "keyboard-interactive" => !self.is_no("kbdinteractiveauthentication"),
            "password" => !self.is_no("passwordauthentication"),
            _ => false,
        };
        preferred.split(',').filter(is_on).map(str::to_owned).collect()
    }

    fn alive(&self) -> Alive {
        let number = |option| self.first(option).and_then(|text| text.parse().ok());
        let interval = number("serveraliveinterval").filter(|seconds| *seconds > 0);
        let most = number("serveralivecountmax").and_then(|count| usize::try_from(count).ok());
        Alive { interval: interval.map(Duration::from_secs), most: most.unwrap_or(3) }
    }

    fn algorithms(&self) -> Algorithms {
        let list = |option| {
            let names = self.first(option).into_iter().flat_map(|names| names.split(','));
            names.map(str::to_owned).collect()
        };
        Algorithms {
            key_exchanges: list("kexalgorithms"),
            ciphers: list("ciphers"),
            macs: list("macs"),
            host_keys: list("hostkeyalgorithms"),
            signatures: list("pubkeyacceptedalgorithms"),
            authority_signatures: list("casignaturealgorithms"),
        }
    }

    fn route(&self, tokens: &Tokens<'_>) -> Result<Route, Fault> {
        let chosen = |option| self.first(option).filter(|value| *value != "none");
        if let Some(jumps) = chosen("proxyjump") {
            let hops: Result<Vec<_>, _> = jumps.split(',').map(Hop::parse).collect();
            return hops.map(Route::Jumps);
        }
        let Some(command) = chosen("proxycommand") else { return Ok(Route::Direct) };
        let why = || format!("ProxyCommand {} cannot be expanded", fault::quote(command));
        let expanded = tokens.expand(command);
        expanded.map(Route::Command).ok_or_else(|| Fault::BadConfiguration { why: why() })
    }
}

impl Hop {
    /// Reads `[user@]host[:port]` or `ssh://[user@]host[:port]`.
    fn parse(text: &str) -> Result<Self, Fault> {
        let wrong = || Fault::BadConfiguration {
            why: format!("ProxyJump names {}, which is no host", fault::quote(text)),
        };
        let place = text.trim().strip_prefix("ssh://").unwrap_or(text.trim());
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user.to_owned()), place),
            None => (None, place),
        };
        let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(wrong)?)),
            None if place.matches(':').count() == 1 => {
                place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port)))
            }
            None => (place, None),
        };
        let port = port.map(str::parse).transpose().map_err(|_not_a_port| wrong())?;
        let hop = Self { host: host.to_owned(), user, port };
        check_host(&hop.host)?;
        hop.user.as_deref().map_or(Ok(()), check_user)?;
        Ok(hop)
    }
}

/// Returns whether this is not just the list OpenSSH has built in.
fn are_chosen(raw: &[&str]) -> bool {
    let is_default =
        |raw: &&str| raw.strip_prefix("~/.ssh/").is_some_and(|name| DEFAULT_KEYS.contains(&name));
    // A short list of default names was written by somebody.
    raw.len() < 4 || !raw.iter().all(is_default)
}

/// The values of `%` tokens for one host.
struct Tokens<'a> {
    question: &'a Question,
    around: &'a Surroundings,
    host: &'a str,
    user: &'a str,
    port: u16,
    key: &'a str,
}

impl Tokens<'_> {
    /// Expands `%` tokens and `${VARIABLES}`; `None` when one of them means nothing here.
    fn expand(&self, raw: &str) -> Option<String> {
        let mut text = String::new();
        let mut rest = raw.chars();
        while let Some(c) = rest.next() {
            match c {
                '%' => text.push_str(&self.token(rest.next()?)?),
                '$' if rest.as_str().starts_with('{') => {
                    let (name, after) = rest.as_str().strip_prefix('{')?.split_once('}')?;
                    text.push_str(&std::env::var(name).ok()?);
                    rest = after.chars();
                }
                c => text.push(c),
            }
        }
        Some(text)
    }

    fn token(&self, letter: char) -> Option<String> {
        let machine = &self.around.machine;
        Some(match letter {
            '%' => "%".to_owned(),
            'h' => self.host.to_owned(),
            'r' => self.user.to_owned(),
            'p' => self.port.to_string(),
            'n' => self.question.host.clone(),
            'k' => self.key.to_owned(),
            'u' => self.around.user.clone(),
            'd' => self.around.home.to_str()?.to_owned(),
            'i' => rustix::process::getuid().as_raw().to_string(),
            'l' => machine.clone(),
            'L' => machine.split('.').next()?.to_owned(),
            'j' => String::new(),
            'C' => self.connection_hash(),
            _ => return None,
        })
    }

    fn connection_hash(&self) -> String {
        let text = format!("{}{}{}{}", self.around.machine, self.host, self.port, self.user);
        let words = Sha1::digest(text.as_bytes());
        words.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(hex_digit).collect()
    }

    /// Returns a file name with `~` and tokens expanded; `None` for `none`.
    fn path(&self, raw: &str) -> Option<PathBuf> {
        let raw = raw.trim_matches('"');
        if raw == "none" || raw.is_empty() {
            return None;
        }
        let text = self.expand(raw)?;
        Some(match text.strip_prefix("~/") {
            Some(rest) => self.around.home.join(rest),
            None => self.around.home.join(text),
        })
    }

    fn agent(&self, raw: &str) -> Option<PathBuf> {
        match raw.strip_prefix('$') {
            Some(name) if !name.starts_with('{') => std::env::var_os(name).map(PathBuf::from),
            _ => self.path(raw),
        }
    }

    /// Splits a list of files. `ssh -G` drops the quotes, so a word that starts no
    /// path belongs to the one before.
    fn paths(&self, words: Option<&str>) -> Vec<PathBuf> {
        let mut names: Vec<String> = Vec::new();
        for word in words.unwrap_or_default().split(' ').filter(|word| !word.is_empty()) {
            match names.last_mut() {
                Some(last) if !word.starts_with(['/', '~', '%', '"', '$']) => {
                    last.push(' ');
                    last.push_str(word);
                }
                _ => names.push(word.to_owned()),
            }
        }
        names.iter().filter_map(|name| self.path(name)).collect()
    }
}

fn hex_digit(value: u8) -> char {
    char::from_digit(u32::from(value), 16).unwrap_or('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around() -> Surroundings {
        Surroundings {
            home: PathBuf::from("/home/ada"),
            user: "ada".to_owned(),
            machine: "login1.site".to_owned(),
            agent: Some(PathBuf::from("/run/agent")),
        }
    }

    fn question(host: &str) -> Question {
        Question { host: host.to_owned(), user: None, port: None }
    }

    fn read(extra: &str) -> Result<Settings, Fault> {
        let text = format!("user root\nhostname n1.site\nport 2222\n{extra}");
        question("n1").settings(&text, &around())
    }

    #[test]
    fn tokens_and_tildes_are_expanded() {
        let cases = [
            ("~/.ssh/id_%h_%r", "/home/ada/.ssh/id_n1.site_root"),
            ("%d/keys/%u-%p", "/home/ada/keys/ada-2222"),
            ("/k/%n.%k.%%", "/k/n1.n1.%"),
            ("/k/%L/%l", "/k/login1/login1.site"),
            ("relative", "/home/ada/relative"),
            ("\"/with space/key\"", "/with space/key"),
            ("${HOME}", &std::env::var("HOME").unwrap_or_default()),
        ];
        for (raw, want) in cases {
            let settings = read(&format!("identityfile {raw}\n")).unwrap();
            assert_eq!(settings.keys.files, [PathBuf::from(want)], "{raw}");
        }
    }

    #[test]
    fn a_token_nobody_knows_drops_the_file() {
        assert!(read("identityfile /k/%Z\n").unwrap().keys.files.is_empty());
        assert!(read("identityfile none\n").unwrap().keys.files.is_empty());
        assert!(read("identityfile ${GTOP_NO_SUCH_VARIABLE}\n").unwrap().keys.files.is_empty());
    }

    #[test]
    fn the_known_name_follows_port_and_alias() {
        assert_eq!(read("").unwrap().known_as.full, "[n1.site]:2222");
        assert_eq!(read("hostkeyalias Lab-%h\n").unwrap().known_as.full, "lab-n1.site");
        assert_eq!(question("N1").defaults(&around()).unwrap().known_as.full, "n1");
    }

    #[test]
    fn the_agent_is_the_configured_one() {
        let agent = |extra| read(extra).unwrap().keys.agent;
        assert_eq!(agent(""), Some(PathBuf::from("/run/agent")));
        assert_eq!(agent("identityagent SSH_AUTH_SOCK\n"), Some(PathBuf::from("/run/agent")));
        assert_eq!(agent("identityagent ~/a.sock\n"), Some(PathBuf::from("/home/ada/a.sock")));
        assert_eq!(agent("identityagent none\n"), None);
        assert_eq!(agent("identityagent $GTOP_NO_SUCH_VARIABLE\n"), None);
    }

    #[test]
    fn lists_of_files_keep_spaces_inside_names() {
        let settings = read("globalknownhostsfile /tmp/a b /x\nuserknownhostsfile ~/k none\n");
        let settings = settings.unwrap();
        assert_eq!(settings.global_known_hosts, [Path::new("/tmp/a b"), Path::new("/x")]);
        assert_eq!(settings.user_known_hosts, [Path::new("/home/ada/k none")]);
        assert!(read("userknownhostsfile none\n").unwrap().user_known_hosts.is_empty());
    }

    #[test]
    fn default_keys_are_not_a_choice() {
        let defaults = question("n1").defaults(&around()).unwrap();
        assert!(!defaults.keys.are_chosen);
        assert_eq!(defaults.keys.files[3], Path::new("/home/ada/.ssh/id_ed25519"));
        assert!(read("identityfile ~/.ssh/id_ed25519\n").unwrap().keys.are_chosen);
        assert!(read("identityfile ~/.ssh/id_lab\n").unwrap().keys.are_chosen);
    }

    #[test]
    fn flags_and_numbers_are_read() {
        let settings = read(
            "identitiesonly yes\nPubkeyAuthentication false\naddressfamily inet6\n\
             connecttimeout 3\nhashknownhosts yes\n",
        );
        let settings = settings.unwrap();
        assert!(settings.keys.only_these && settings.hash_known_hosts);
        assert!(!settings.keys.are_allowed);
        assert_eq!(settings.family, Family::Version6);
        assert_eq!(settings.connect_timeout, Some(Duration::from_secs(3)));
        assert_eq!(read("connecttimeout none\n").unwrap().connect_timeout, None);
        let allows = |extra| read(extra).unwrap().keys.are_allowed;
        assert!(allows("") && allows("preferredauthentications password,publickey\n"));
        assert!(!allows("preferredauthentications gssapi-with-mic,password\n"));
    }

    #[test]
    fn a_route_is_direct_or_by_jumps_or_by_a_command() {
        let route = |extra| read(extra).unwrap().route;
        assert_eq!(route("proxyjump none\nproxycommand none\n"), Route::Direct);
        assert_eq!(route("proxycommand nc %h %p\n"), Route::Command("nc n1.site 2222".to_owned()));
        let hop = |host: &str, user: Option<&str>, port| Hop {
            host: host.to_owned(),
            user: user.map(str::to_owned),
            port,
        };
        assert_eq!(
            route("proxyjump bastion,ada@[fe80::1]:7,ssh://b@c:22\n"),
            Route::Jumps(vec![
                hop("bastion", None, None),
                hop("fe80::1", Some("ada"), Some(7)),
                hop("c", Some("b"), Some(22)),
            ])
        );
        for wrong in ["a b", "-x", "a:b", "[a]b", "x;y"] {
            assert!(read(&format!("proxyjump {wrong}\n")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dangerous_names_are_refused_before_anything_runs() {
        for host in
            ["", "-oProxyCommand=x", "a b", "a;b", "$(x)", "a`b`", "a\nb", "a\u{1b}b", "a|b", "a,b"]
        {
            assert!(question(host).check().is_err(), "{host:?}");
        }
        for host in ["n1", "n1.site", "10.0.0.1", "fe80::1%eth0", "[::1]", "gpu_a-1"] {
            assert!(question(host).check().is_ok(), "{host:?}");
        }
        let user = |user: &str| Question { user: Some(user.to_owned()), ..question("n1") };
        assert!(user("-l").check().is_err());
        assert!(user("a;b").check().is_err());
        assert!(user("ada@SITE").check().is_ok());
        assert!(read("hostname x\n").is_ok());
        assert!(question("n1").settings("hostname a$b\nuser x\nport 22\n", &around()).is_err());
        assert!(question("n1").settings("user x\nport 22\n", &around()).is_err());
    }

    #[test]
    fn the_arguments_cannot_be_taken_for_others() {
        let asked = Question { host: "n1".to_owned(), user: Some("ada".to_owned()), port: Some(7) };
        let words = asked.arguments(Some(Path::new("/c")));
        let words: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words, ["-T", "-G", "-F", "/c", "-l", "ada", "-p", "7", "--", "n1"]);
    }
}
