//! Converts resolved options to the settings of a connection.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use hmac::digest::Digest;
use sha1::Sha1;

use crate::config::KnownHostName;
use crate::config::options::{self, OptionValueKind, Support};
use crate::config::resolved::ResolvedOptions;
use crate::config::values;
use crate::config::{
    AddressFamily, AlgorithmSettings, BindOptions, DEFAULT_KEYS, EffectiveOption, HostKeyCheck,
    HostQuery, HostSettings, KeepAlive, KeySettings, LocalEnv, Route, check_host, check_user,
};
use gtop_local::fault::ssh::Fault;
use gtop_local::process::account::Account;
use gtop_local::text;

/// The default of `PreferredAuthentications`.
const DEFAULT_METHODS: &str = "gssapi-with-mic,hostbased,publickey,keyboard-interactive,password";

/// Returns the settings of one host, with `~`, tokens and variables expanded.
pub(crate) fn from_options(
    resolved: &ResolvedOptions,
    query: &HostQuery,
    env: &LocalEnv,
) -> Result<HostSettings, Fault> {
    let tokens = TokenExpander::new(resolved, query, env);
    // ssh does not expand it.
    let alias = resolved.first("hostkeyalias");
    check_host(tokens.host)?;
    check_user(tokens.user)?;
    alias.map_or(Ok(()), check_host)?;
    let route = route(resolved, &tokens)?;
    let set = resolved.iter().filter_map(|(name, answer)| Some((name, answer.origin.clone()?)));
    Ok(HostSettings {
        host: tokens.host.to_owned(),
        port: tokens.port,
        user: tokens.user.to_owned(),
        known_hosts_name: KnownHostName::new(tokens.host, tokens.port, alias),
        family: AddressFamily::from_options(resolved),
        connect_timeout: resolved.number("connecttimeout").map(Duration::from_secs),
        bind: BindOptions {
            address: resolved.first("bindaddress").map(str::to_owned),
            interface: resolved.first("bindinterface").map(str::to_owned),
        },
        needs_ssh: needs_ssh(resolved, &route, env),
        command_overrides: command_overrides(resolved),
        route,
        keep_alive: keep_alive(resolved),
        methods: methods(resolved),
        devices: resolved.first("kbdinteractivedevices").map(str::to_owned),
        prompts: if resolved.is_yes("batchmode") {
            0
        } else {
            resolved.number("numberofpasswordprompts").unwrap_or(3)
        },
        algorithms: AlgorithmSettings {
            key_exchanges: resolved.all("kexalgorithms").to_vec(),
            ciphers: resolved.all("ciphers").to_vec(),
            macs: resolved.all("macs").to_vec(),
            host_keys: resolved.all("hostkeyalgorithms").to_vec(),
            signatures: resolved.all("pubkeyacceptedalgorithms").to_vec(),
            authority_signatures: resolved.all("casignaturealgorithms").to_vec(),
        },
        host_key_check: match resolved.first("stricthostkeychecking") {
            Some("yes" | "true") => HostKeyCheck::Yes,
            Some("accept-new") => HostKeyCheck::AcceptNew,
            Some("no" | "off" | "false") => HostKeyCheck::No,
            _ => HostKeyCheck::Ask,
        },
        // With `HostKeyAlias` it is a host like any other.
        trusts_loopback: resolved.is_yes("nohostauthenticationforlocalhost") && alias.is_none(),
        min_rsa_bits: resolved.number("requiredrsasize").unwrap_or_default(),
        revoked_host_keys: resolved
            .first("revokedhostkeys")
            .and_then(|raw| tokens.expand_path(raw)),
        keys: KeySettings {
            files: tokens.expand_paths(resolved.all("identityfile")),
            certificates: tokens.expand_paths(resolved.all("certificatefile")),
            are_keys_configured: are_keys_configured(resolved),
            identities_only: resolved.is_yes("identitiesonly"),
            agent: match resolved.first("identityagent") {
                None | Some("SSH_AUTH_SOCK") => env.agent.clone(),
                Some(raw) => tokens.agent_path(raw),
            },
        },
        user_known_hosts: tokens.expand_paths(resolved.all("userknownhostsfile")),
        global_known_hosts: tokens.expand_paths(resolved.all("globalknownhostsfile")),
        hash_known_hosts: resolved.is_yes("hashknownhosts"),
        origins: set.collect(),
        control_paths: tokens.control_paths(resolved),
    })
}

/// Returns every effective option, with the values `ssh -G` would print.
pub(crate) fn effective_options(
    resolved: &ResolvedOptions,
    query: &HostQuery,
    env: &LocalEnv,
) -> Vec<EffectiveOption> {
    let tokens = TokenExpander::new(resolved, query, env);
    let effective = options::all().filter_map(|spec| {
        let (values, origin) = match resolved.get(spec.name) {
            Some(answer) if answer.values.is_empty() => return None,
            Some(answer) => (answer.values.clone(), answer.origin.clone()),
            None if spec.default.is_empty() => return None,
            None => (vec![spec.default.to_owned()], None),
        };
        let values = values.into_iter().map(|value| match spec.name {
            "identityagent" | "userknownhostsfile" if value != "SSH_AUTH_SOCK" => {
                tokens.expand_home(&value).unwrap_or(value)
            }
            _ => value,
        });
        let mut values: Vec<String> = values.collect();
        if let OptionValueKind::Words(_)
        | OptionValueKind::Domains
        | OptionValueKind::PermittedCnames = spec.kind
        {
            values = vec![values.join(" ")];
        } else if matches!(spec.kind, OptionValueKind::Algorithms(_)) {
            values = vec![values.join(",")];
        }
        let is_set = origin.is_some();
        let is_ignored = matches!(spec.support, Support::Ignored(_));
        let (name, spelling) = (spec.name, spec.spelling);
        Some(EffectiveOption { name, spelling, values, origin, is_set, is_ignored })
    });
    effective.collect()
}

/// Returns the preferred methods that are enabled.
fn methods(resolved: &ResolvedOptions) -> Vec<String> {
    let preferred = resolved.first("preferredauthentications").unwrap_or(DEFAULT_METHODS);
    let enabled = preferred.split(',').filter(|method| match *method {
        "gssapi-with-mic" => resolved.is_yes("gssapiauthentication"),
        "hostbased" => resolved.is_yes("hostbasedauthentication"),
        "publickey" => !resolved.is_no("pubkeyauthentication"),
        "keyboard-interactive" => !resolved.is_no("kbdinteractiveauthentication"),
        "password" => !resolved.is_no("passwordauthentication"),
        _ => false,
    });
    enabled.map(str::to_owned).collect()
}

/// Returns the home of a user, of the own one for an empty name.
pub(crate) fn home_of(env: &LocalEnv, user: &str) -> Option<PathBuf> {
    if user.is_empty() { Some(env.home.clone()) } else { Account::of_user(user).home }
}

/// The options whose paths may begin with `~user`.
const TILDE_OPTIONS: [&str; 6] = [
    "identityfile",
    "certificatefile",
    "identityagent",
    "controlpath",
    "userknownhostsfile",
    "globalknownhostsfile",
];

/// Returns true if a path is in the home of a user whom `/etc/passwd` does not have: only the system can say whether a
/// directory service has.
fn is_in_unknown_home(env: &LocalEnv, path: &str) -> bool {
    let Some(rest) = path.strip_prefix('~') else { return false };
    home_of(env, rest.split('/').next().unwrap_or_default()).is_none()
}

/// Returns the effective options that only the `ssh` program supports.
fn needs_ssh(resolved: &ResolvedOptions, route: &Route, env: &LocalEnv) -> Vec<String> {
    let methods = methods(resolved);
    let has_gssapi = methods.iter().any(|method| method == "gssapi-with-mic");
    let has_hostbased = methods.iter().any(|method| method == "hostbased");
    let are_foreign =
        methods.iter().all(|method| matches!(&**method, "gssapi-with-mic" | "hostbased"));
    let provider = resolved.first_unless_none("securitykeyprovider");
    let has_provider =
        provider.is_some_and(|value| !matches!(value, "internal" | "$SSH_SK_PROVIDER"));
    let passes_socket = resolved.is_yes("proxyusefdpass") && matches!(route, Route::Command(_));
    let needs = [
        ("KnownHostsCommand", resolved.first_unless_none("knownhostscommand").is_some()),
        ("PKCS11Provider", resolved.first_unless_none("pkcs11provider").is_some()),
        ("SecurityKeyProvider", has_provider),
        ("VerifyHostKeyDNS", resolved.is_yes("verifyhostkeydns")),
        ("ProxyUseFdpass", passes_socket),
        ("GSSAPIAuthentication", are_foreign && has_gssapi),
        ("HostbasedAuthentication", are_foreign && has_hostbased),
    ];
    let paths = TILDE_OPTIONS
        .iter()
        .filter(|option| resolved.all(option).iter().any(|path| is_in_unknown_home(env, path)));
    let paths = paths.filter_map(|option| Some(options::find(option)?.spelling));
    let needed = needs.into_iter().filter_map(|(name, is_needed)| is_needed.then_some(name));
    needed.chain(paths).map(str::to_owned).collect()
}

/// Options that keep the ssh program from running a command, each with its override.
pub(crate) const COMMAND_OVERRIDES: [(&str, &str); 4] = [
    ("forkafterauthentication", "ForkAfterAuthentication=no"),
    ("remotecommand", "RemoteCommand=none"),
    ("sessiontype", "SessionType=default"),
    ("stdinnull", "StdinNull=no"),
];

/// Returns the overrides of those that are set: older versions of ssh do not know all of them, but a version that
/// sets one knows it.
fn command_overrides(resolved: &ResolvedOptions) -> Vec<&'static str> {
    let set = COMMAND_OVERRIDES.into_iter().filter(|(option, _)| {
        let default = options::find(option).map_or("", |spec| spec.default);
        resolved.first(option).is_some_and(|value| value != default)
    });
    set.map(|(_, undo)| undo).collect()
}

fn keep_alive(resolved: &ResolvedOptions) -> KeepAlive {
    let interval = resolved.number("serveraliveinterval").filter(|seconds| *seconds > 0);
    let max_count = resolved.number("serveralivecountmax").unwrap_or(3);
    KeepAlive { interval: interval.map(Duration::from_secs), max_count }
}

fn route(resolved: &ResolvedOptions, tokens: &TokenExpander<'_>) -> Result<Route, Fault> {
    if let Some(jumps) = resolved.first_unless_none("proxyjump") {
        let hops: Result<Vec<_>, _> = jumps.split(',').map(HostQuery::parse_jump).collect();
        return hops.map(Route::Jumps);
    }
    let Some(command) = resolved.first_unless_none("proxycommand") else {
        return Ok(Route::Direct);
    };
    tokens.expand_percent(command).map(Route::Command).ok_or_else(|| {
        let why = format!("ProxyCommand {} cannot be expanded", text::excerpt_line(command));
        Fault::BadConfiguration { why }
    })
}

/// Returns true if the keys are not OpenSSH's default.
fn are_keys_configured(resolved: &ResolvedOptions) -> bool {
    let Some(answer) = resolved.get("identityfile") else { return true };
    let mut names = answer.values.iter().map(|raw| raw.strip_prefix("~/.ssh/").unwrap_or_default());
    // A shorter list of default names was configured.
    answer.origin.is_some()
        || answer.values.len() < 4
        || !names.all(|name| DEFAULT_KEYS.contains(&name))
}

/// Expands `%` tokens for one host.
pub(crate) struct TokenExpander<'a> {
    query: &'a HostQuery,
    env: &'a LocalEnv,
    host: &'a str,
    user: &'a str,
    port: u16,
    key: &'a str,
    /// The last host of `ProxyJump`.
    jump: Option<String>,
}

impl<'a> TokenExpander<'a> {
    pub(crate) fn new(
        resolved: &'a ResolvedOptions,
        query: &'a HostQuery,
        env: &'a LocalEnv,
    ) -> Self {
        Self {
            query,
            env,
            host: resolved.first("hostname").unwrap_or(&query.host),
            user: resolved.first("user").unwrap_or(&env.user),
            port: resolved.number("port").unwrap_or(22),
            key: resolved.first("hostkeyalias").unwrap_or(&query.host),
            jump: resolved.first_unless_none("proxyjump").and_then(last_jump),
        }
    }

    /// Expands `%` tokens and `${VARIABLE}`; `None` if one of them is unknown or not set.
    pub(crate) fn expand(&self, raw: &str) -> Option<String> {
        let mut text = String::new();
        let mut rest = raw;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}')?;
            text.push_str(&self.expand_percent(before)?);
            text.push_str(&std::env::var(name).ok()?);
            rest = after;
        }
        Some(text + &self.expand_percent(rest)?)
    }

    /// Expands `%` tokens only; the shell expands variables.
    fn expand_percent(&self, raw: &str) -> Option<String> {
        values::expand_percent(raw, |letter| self.token(letter))
    }

    /// Expands `~` and `~user`, then tokens; `None` for an unknown user.
    fn expand_home(&self, raw: &str) -> Option<String> {
        let Some(rest) = raw.strip_prefix('~') else { return self.expand(raw) };
        let (user, path) = rest.split_once('/').unwrap_or((rest, ""));
        let home = home_of(self.env, user)?;
        self.expand(&format!("{}/{}", home.to_string_lossy(), path.trim_start_matches('/')))
    }

    fn token(&self, letter: char) -> Option<Cow<'_, str>> {
        let host_name = &*self.env.host_name;
        Some(match letter {
            '%' => "%".into(),
            'h' => self.host.into(),
            'r' => self.user.into(),
            'p' => self.port.to_string().into(),
            'n' => (&self.query.host).into(),
            'k' => self.key.into(),
            'u' => (&self.env.user).into(),
            'd' => self.env.home.to_str()?.into(),
            'i' => rustix::process::getuid().as_raw().to_string().into(),
            'l' => host_name.into(),
            'L' => host_name.split('.').next()?.into(),
            'j' => self.jump.as_deref().unwrap_or_default().into(),
            'C' => self.connection_hash("").into(),
            _ => return None,
        })
    }

    /// Returns the paths of `ControlPath`.
    fn control_paths(&self, resolved: &ResolvedOptions) -> Vec<PathBuf> {
        let Some(raw) = resolved.first_unless_none("controlpath") else { return Vec::new() };
        // From 9.6 on `%C` includes the jump host.
        let jump = self.jump.as_deref().unwrap_or_default();
        let of_later = raw.replace("%C", &self.connection_hash(jump));
        let both =
            [Some(raw), Some(of_later.as_str()).filter(|later| !jump.is_empty() && *later != raw)];
        both.into_iter()
            .flatten()
            .filter_map(|raw| self.expand_home(raw).map(PathBuf::from))
            .collect()
    }

    fn connection_hash(&self, jump: &str) -> String {
        let Self { env, host, port, user, .. } = self;
        let text = format!("{}{host}{port}{user}{jump}", env.host_name);
        let digest = Sha1::digest(text.as_bytes());
        digest.iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// Returns a path with `~` and tokens expanded; `None` for `none`.
    fn expand_path(&self, raw: &str) -> Option<PathBuf> {
        let raw = raw.trim_matches('"');
        if raw == "none" || raw.is_empty() {
            return None;
        }
        self.expand_home(raw).map(|text| self.env.home.join(text))
    }

    fn expand_paths(&self, raw: &[String]) -> Vec<PathBuf> {
        raw.iter().filter_map(|raw| self.expand_path(raw)).collect()
    }

    fn agent_path(&self, raw: &str) -> Option<PathBuf> {
        match raw.strip_prefix('$') {
            Some(name) if !name.starts_with('{') => std::env::var_os(name).map(PathBuf::from),
            _ => self.expand_path(raw),
        }
    }
}

fn last_jump(jumps: &str) -> Option<String> {
    Some(HostQuery::parse_jump(jumps.rsplit(',').next()?).ok()?.host)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::resolve;
    use crate::config::tree::ConfigTree;

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

    /// Returns the settings without any file.
    fn defaults(host: &str) -> HostSettings {
        let (query, env) = (query(host), env());
        let chosen = Some(Path::new("none"));
        let tree = ConfigTree::read(&env, chosen, &[]);
        let resolved = resolve::resolve(&tree, &query, &env, None).unwrap();
        from_options(&resolved, &query, &env).unwrap()
    }

    fn read(extra: &str) -> Result<HostSettings, Fault> {
        let text = format!("user root\nhostname n1.site\nport 2222\n{extra}");
        query("n1").settings_from_ssh_g(&text, &env())
    }

    #[test]
    fn tokens_and_tildes_are_expanded() {
        let cases = [
            ("~/.ssh/id_%h_%r", "/home/ada/.ssh/id_n1.site_root"),
            ("%d/keys/%u-%p", "/home/ada/keys/ada-2222"),
            ("/k/%n.%k.%%", "/k/n1.n1.%"),
            ("/k/%L/%l", "/k/login1/login1.site"),
            ("relative", "/home/ada/relative"),
            ("~", "/home/ada/"),
            ("~root/.ssh/%h", "/root/.ssh/n1.site"),
            ("~root", "/root/"),
            ("\"/with space/key\"", "/with space/key"),
            ("${HOME}", &std::env::var("HOME").unwrap_or_default()),
        ];
        for (raw, want) in cases {
            let settings = read(&format!("identityfile {raw}\n")).unwrap();
            assert_eq!(settings.keys.files, [PathBuf::from(want)], "{raw}");
        }
    }

    #[test]
    fn only_ssh_knows_homes_that_are_not_in_etc_passwd() {
        for option in TILDE_OPTIONS {
            let settings = read(&format!("{option} ~nosuchuser/x\n")).unwrap();
            let needed: Vec<_> =
                settings.needs_ssh.iter().map(|name| name.to_ascii_lowercase()).collect();
            assert_eq!(needed, [option]);
            assert!(read(&format!("{option} ~root/x\n")).unwrap().needs_ssh.is_empty());
        }
    }

    #[test]
    fn control_paths_include_those_of_both_openssh_versions() {
        let paths = |extra: &str| read(extra).unwrap().control_paths;
        assert!(paths("").is_empty() && paths("controlpath none\n").is_empty());
        let expected = [PathBuf::from("/home/ada/.ssh/cm-root@n1.site:2222-n1-login1")];
        assert_eq!(paths("controlpath ~/.ssh/cm-%r@%h:%p-%n-%L\n"), expected);
        // printf login1.siten1.site2222root | sha1sum
        let plain = "/run/m-acafe191d78f8cf6d6cf2874150c6659cf9e5b82";
        assert_eq!(paths("controlpath /run/m-%C\n"), [PathBuf::from(plain)]);
        let both = paths("proxyjump a@far,b@gate:7\ncontrolpath /run/m-%C\n");
        // The same with gate appended.
        let later = "/run/m-521a7f7c854f159bf855579c849598b93d7aafc6";
        assert_eq!(both, [PathBuf::from(plain), PathBuf::from(later)]);
        assert_eq!(paths("proxyjump gate\ncontrolpath /%j\n"), [PathBuf::from("/gate")]);
    }

    #[test]
    fn a_file_with_an_unknown_token_is_dropped() {
        assert!(read("identityfile /k/%Z\n").unwrap().keys.files.is_empty());
        assert!(read("identityfile none\n").unwrap().keys.files.is_empty());
        assert!(read("identityfile ${GTOP_NO_SUCH_VARIABLE}\n").unwrap().keys.files.is_empty());
    }

    #[test]
    fn the_known_name_follows_port_and_alias() {
        assert_eq!(read("").unwrap().known_hosts_name.full, "[n1.site]:2222");
        assert_eq!(read("hostkeyalias Lab-%h\n").unwrap().known_hosts_name.full, "lab-%h");
        assert_eq!(defaults("N1").known_hosts_name.full, "n1");
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
    fn default_keys_do_not_count_as_configured() {
        let defaults = defaults("n1");
        assert!(!defaults.keys.are_keys_configured);
        assert_eq!(defaults.keys.files[3], Path::new("/home/ada/.ssh/id_ed25519"));
        assert!(read("identityfile ~/.ssh/id_ed25519\n").unwrap().keys.are_keys_configured);
        assert!(read("identityfile ~/.ssh/id_lab\n").unwrap().keys.are_keys_configured);
    }

    #[test]
    fn flags_and_numbers_are_parsed() {
        let settings = read(
            "identitiesonly yes\nPubkeyAuthentication false\naddressfamily inet6\n\
             connecttimeout 3\nhashknownhosts yes\n",
        );
        let settings = settings.unwrap();
        assert!(settings.keys.identities_only && settings.hash_known_hosts);
        assert!(!settings.methods.contains(&"publickey".to_owned()));
        assert_eq!(settings.family, AddressFamily::Version6);
        assert_eq!(settings.connect_timeout, Some(Duration::from_secs(3)));
        assert_eq!(read("connecttimeout none\n").unwrap().connect_timeout, None);
        let prompts = |extra| read(extra).unwrap().prompts;
        assert_eq!((prompts(""), prompts("numberofpasswordprompts 1\n")), (3, 1));
        assert_eq!(prompts("batchmode yes\nnumberofpasswordprompts 1\n"), 0);
    }

    #[test]
    fn a_route_is_direct_through_jump_hosts_or_a_command() {
        let route = |extra| read(extra).unwrap().route;
        assert_eq!(route("proxyjump none\nproxycommand none\n"), Route::Direct);
        assert_eq!(route("proxycommand nc %h %p\n"), Route::Command("nc n1.site 2222".to_owned()));
        let hop = |host: &str, user: Option<&str>, port| HostQuery {
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
    fn options_that_need_the_ssh_program_are_named() {
        for (extra, want) in [
            ("", &[][..]),
            ("knownhostscommand /bin/k %H\n", &["KnownHostsCommand"]),
            ("pkcs11provider none\nsecuritykeyprovider internal\n", &[]),
            (
                "pkcs11provider /p\nsecuritykeyprovider /s\n",
                &["PKCS11Provider", "SecurityKeyProvider"],
            ),
            ("verifyhostkeydns true\n", &["VerifyHostKeyDNS"]),
            // gtop opens no tunnel.
            ("verifyhostkeydns ask\ntunnel point-to-point\n", &[]),
            ("proxyusefdpass yes\n", &[]),
            ("proxyusefdpass yes\nproxycommand x\n", &["ProxyUseFdpass"]),
            ("gssapiauthentication yes\n", &[]),
            (
                "gssapiauthentication yes\npreferredauthentications gssapi-with-mic\n",
                &["GSSAPIAuthentication"],
            ),
            (
                "hostbasedauthentication yes\npreferredauthentications gssapi-with-mic,hostbased\n",
                &["HostbasedAuthentication"],
            ),
            (
                "hostbasedauthentication yes\ngssapiauthentication yes\npubkeyauthentication no\n\
                 passwordauthentication no\nkbdinteractiveauthentication no\n",
                &["GSSAPIAuthentication", "HostbasedAuthentication"],
            ),
        ] {
            assert_eq!(read(extra).unwrap().needs_ssh, want, "{extra}");
        }
    }

    #[test]
    fn old_option_names_in_the_output_of_ssh_are_accepted() {
        let settings = read("pubkeyacceptedkeytypes ssh-ed25519,rsa-sha2-256\n").unwrap();
        assert_eq!(settings.algorithms.signatures, ["ssh-ed25519", "rsa-sha2-256"]);
    }

    #[test]
    fn variables_of_a_proxy_command_are_left_to_the_shell() {
        let route = read("proxycommand nc ${PROXY:-gate} %h %%\n").unwrap().route;
        assert_eq!(route, Route::Command("nc ${PROXY:-gate} n1.site %".to_owned()));
    }

    /// Followed options with a value that changes the settings.
    #[rustfmt::skip]
    const EFFECTIVE_LINES: [&str; 42] = [
        "AddressFamily inet6", "BatchMode yes", "BindAddress 10.0.0.1", "BindInterface lo",
        "CASignatureAlgorithms ssh-ed25519", "CertificateFile ~/c", "Ciphers aes256-ctr",
        "ConnectTimeout 3", "GlobalKnownHostsFile /x", "HashKnownHosts yes",
        "HostKeyAlgorithms ssh-ed25519", "HostKeyAlias x", "HostName n2", "IdentitiesOnly yes",
        "IdentityAgent ~/a", "IdentityFile ~/k", "KbdInteractiveAuthentication no",
        "KbdInteractiveDevices pam", "KexAlgorithms curve25519-sha256", "MACs hmac-sha2-256",
        "NoHostAuthenticationForLocalhost yes", "NumberOfPasswordPrompts 1",
        "PasswordAuthentication no", "Port 2222", "PreferredAuthentications publickey",
        "ProxyCommand nc %h %p", "ProxyJump gate", "PubkeyAcceptedAlgorithms ssh-ed25519",
        "PubkeyAuthentication no", "RefuseConnection closed", "RequiredRSASize 2048",
        "RevokedHostKeys /r", "ServerAliveCountMax 5", "ServerAliveInterval 7",
        "StrictHostKeyChecking no", "User bob", "UserKnownHostsFile /k",
        "CanonicalizeHostname always\nCanonicalizeFallbackLocal no\nCanonicalDomains none",
        "CanonicalizeMaxDots 0\nCanonicalizeHostname yes\nHostName a.b\nMatch host a.b\nPort 7",
        "CanonicalDomains none\nCanonicalizeHostname yes\nMatch canonical\nPort 7",
        "Tag x\nMatch tagged x\nPort 7", "IgnoreUnknown Strange\nStrange x\nPort 7",
    ];

    #[test]
    fn every_followed_option_has_an_effect() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let (query, env) = (query("n1"), env());
            let tree = ConfigTree::read(&env, Some(&path), &[]);
            let resolved = resolve::resolve(&tree, &query, &env, None).ok()?;
            Some(HostSettings {
                origins: std::collections::BTreeMap::new(),
                ..from_options(&resolved, &query, &env).ok()?
            })
        };
        let defaults = of("");
        assert!(defaults.is_some());
        for text in EFFECTIVE_LINES {
            assert_ne!(of(text), defaults, "{text}");
        }
        let is_followed = |spec: &&options::OptionSpec| spec.support == Support::Followed;
        for spec in
            options::all().filter(is_followed).filter(|spec| spec.name != "clearallforwardings")
        {
            let is_listed = |line: &str| line.split(' ').next() == Some(spec.spelling);
            assert!(
                EFFECTIVE_LINES.iter().any(|text| text.lines().any(is_listed)),
                "{}",
                spec.spelling
            );
        }
    }

    #[test]
    fn options_that_keep_ssh_from_running_a_command_are_overridden() {
        let command_overrides = |extra| read(extra).unwrap().command_overrides;
        assert_eq!(command_overrides("stdinnull no\nsessiontype default\n"), [""; 0]);
        assert_eq!(
            command_overrides(
                "stdinnull yes\nsessiontype none\nforkafterauthentication yes\nremotecommand x\n"
            ),
            [
                "ForkAfterAuthentication=no",
                "RemoteCommand=none",
                "SessionType=default",
                "StdinNull=no"
            ]
        );
    }
}
