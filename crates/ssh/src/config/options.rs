//! The options of `ssh_config`: their values, their defaults, and how gtop supports them.

use crate::config::algorithm_sets::{self, AlgorithmSet};
use crate::config::values;

#[derive(Debug)]
pub(crate) struct OptionSpec {
    /// In lower case, as `ssh -G` prints it.
    pub(crate) name: &'static str,
    /// As the manual spells it.
    pub(crate) spelling: &'static str,
    pub(crate) kind: OptionValueKind,
    /// The default, as `ssh -G` prints it; empty if it prints nothing.
    pub(crate) default: &'static str,
    pub(crate) support: Support,
}

impl PartialEq for OptionSpec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for OptionSpec {}

/// How gtop supports an option; listed in `docs/ssh-config.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Support {
    /// gtop follows it.
    Followed,
    /// The ssh program is used, in this case.
    BySsh(&'static str),
    /// gtop ignores it, for this reason; the ssh program, where used, follows it.
    Ignored(&'static str),
}

/// The syntax of an option's value, and the effect of a second value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OptionValueKind {
    /// One of these words, each with its form in `ssh -G`.
    Choice(&'static [(&'static str, &'static str)]),
    Seconds,
    Number,
    Port,
    Text,
    /// The rest of the line.
    Command,
    Jump,
    /// A list of algorithms.
    Algorithms(&'static AlgorithmSet),
    /// At most this many words, or `none`.
    Words(usize),
    Domains,
    /// Rules for CNAMEs.
    PermittedCnames,
    /// Every line adds one file.
    Files,
    /// Every line adds names, or takes some away.
    SendEnv,
    SetEnv,
    Agent,
    /// Not used by gtop; validated as by `ssh`.
    Validated(fn(&[&str]) -> Result<(), String>),
    /// Not used by gtop; not validated.
    Any,
}

const FLAG: OptionValueKind =
    OptionValueKind::Choice(&[("yes", "yes"), ("no", "no"), ("true", "yes"), ("false", "no")]);
const ASK: OptionValueKind = OptionValueKind::Choice(&[
    ("yes", "true"),
    ("no", "false"),
    ("true", "true"),
    ("false", "false"),
    ("ask", "ask"),
]);

const NO_FORWARDING: Support = Support::Ignored("gtop forwards no ports, agents or displays");
const NO_TERMINAL: Support = Support::Ignored("gtop requests no terminal on the node");
const ONE_SESSION: Support = Support::Ignored("gtop controls its session itself");
const OWN_LOG: Support = Support::Ignored("gtop writes its own log (`--log`)");
const KERBEROS: Support = Support::BySsh("if a node requires Kerberos");
const ONLY_PROBE: Support = Support::Ignored("gtop runs only the probe");
const NO_MASTER: Support =
    Support::Ignored("gtop opens no master connection, but uses one that is open");
const HOSTBASED: Support = Support::BySsh("if a node requires host-based authentication");
const NO_VARIABLES: Support = Support::Ignored("gtop sends no environment variables");

/// The facilities of syslog.
#[rustfmt::skip]
const FACILITIES: &[(&str, &str)] = &[
    ("daemon", "DAEMON"), ("user", "USER"), ("auth", "AUTH"), ("authpriv", "AUTHPRIV"),
    ("local0", "LOCAL0"), ("local1", "LOCAL1"), ("local2", "LOCAL2"), ("local3", "LOCAL3"),
    ("local4", "LOCAL4"), ("local5", "LOCAL5"), ("local6", "LOCAL6"), ("local7", "LOCAL7"),
];

const fn option(
    name: &'static str,
    spelling: &'static str,
    kind: OptionValueKind,
    default: &'static str,
    support: Support,
) -> OptionSpec {
    OptionSpec { name, spelling, kind, default, support }
}

#[rustfmt::skip]
const OPTIONS: &[OptionSpec] = &[
    option("addkeystoagent", "AddKeysToAgent", OptionValueKind::Validated(values::check_add_keys), "", Support::Ignored("gtop adds no keys to the agent")),
    option("addressfamily", "AddressFamily", OptionValueKind::Choice(&[("inet", "inet"), ("inet6", "inet6"), ("any", "any")]), "any", Support::Followed),
    option("batchmode", "BatchMode", FLAG, "no", Support::Followed),
    option("bindaddress", "BindAddress", OptionValueKind::Text, "", Support::Followed),
    option("bindinterface", "BindInterface", OptionValueKind::Text, "", Support::Followed),
    option("canonicaldomains", "CanonicalDomains", OptionValueKind::Domains, "none", Support::Followed),
    option("canonicalizefallbacklocal", "CanonicalizeFallbackLocal", FLAG, "yes", Support::Followed),
    option("canonicalizehostname", "CanonicalizeHostname", OptionValueKind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("always", "always")]), "false", Support::Followed),
    option("canonicalizemaxdots", "CanonicalizeMaxDots", OptionValueKind::Number, "1", Support::Followed),
    option("canonicalizepermittedcnames", "CanonicalizePermittedCNAMEs", OptionValueKind::PermittedCnames, "none", Support::BySsh("always, to resolve the name")),
    option("casignaturealgorithms", "CASignatureAlgorithms", OptionValueKind::Algorithms(&algorithm_sets::AUTHORITIES), "", Support::Followed),
    option("certificatefile", "CertificateFile", OptionValueKind::Files, "", Support::Followed),
    option("channeltimeout", "ChannelTimeout", OptionValueKind::Any, "", ONE_SESSION),
    option("checkhostip", "CheckHostIP", FLAG, "no", Support::Ignored("gtop checks host keys by name only")),
    option("ciphers", "Ciphers", OptionValueKind::Algorithms(&algorithm_sets::CIPHERS), "", Support::Followed),
    option("clearallforwardings", "ClearAllForwardings", FLAG, "no", Support::Followed),
    option("compression", "Compression", OptionValueKind::Choice(&[("yes", "yes"), ("no", "no")]), "no", Support::Ignored("not needed, because samples are small")),
    option("connectionattempts", "ConnectionAttempts", OptionValueKind::Number, "1", Support::Ignored("gtop retries automatically")),
    option("connecttimeout", "ConnectTimeout", OptionValueKind::Seconds, "none", Support::Followed),
    option("controlmaster", "ControlMaster", OptionValueKind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("auto", "auto"), ("ask", "ask"), ("autoask", "autoask")]), "false", NO_MASTER),
    option("controlpath", "ControlPath", OptionValueKind::Text, "", Support::BySsh("if a master connection is open")),
    option("controlpersist", "ControlPersist", OptionValueKind::Validated(values::check_control_persist), "", NO_MASTER),
    option("dynamicforward", "DynamicForward", OptionValueKind::Any, "", NO_FORWARDING),
    option("enableescapecommandline", "EnableEscapeCommandline", FLAG, "no", NO_TERMINAL),
    option("enablesshkeysign", "EnableSSHKeysign", FLAG, "no", HOSTBASED),
    option("escapechar", "EscapeChar", OptionValueKind::Validated(values::check_escape_char), "", NO_TERMINAL),
    option("exitonforwardfailure", "ExitOnForwardFailure", FLAG, "no", NO_FORWARDING),
    option("fingerprinthash", "FingerprintHash", OptionValueKind::Choice(&[("md5", "MD5"), ("sha1", "SHA1"), ("sha256", "SHA256"), ("sha384", "SHA384"), ("sha512", "SHA512")]), "", Support::Ignored("gtop always shows SHA256 fingerprints")),
    option("forkafterauthentication", "ForkAfterAuthentication", FLAG, "no", ONE_SESSION),
    option("forwardagent", "ForwardAgent", OptionValueKind::Any, "", NO_FORWARDING),
    option("forwardx11", "ForwardX11", FLAG, "no", NO_FORWARDING),
    option("forwardx11timeout", "ForwardX11Timeout", OptionValueKind::Seconds, "1200", NO_FORWARDING),
    option("forwardx11trusted", "ForwardX11Trusted", FLAG, "", NO_FORWARDING),
    option("gatewayports", "GatewayPorts", FLAG, "no", NO_FORWARDING),
    option("globalknownhostsfile", "GlobalKnownHostsFile", OptionValueKind::Words(32), "", Support::Followed),
    option("gssapiauthentication", "GSSAPIAuthentication", FLAG, "no", KERBEROS),
    option("gssapiclientidentity", "GSSAPIClientIdentity", OptionValueKind::Text, "", KERBEROS),
    option("gssapidelegatecredentials", "GSSAPIDelegateCredentials", FLAG, "no", KERBEROS),
    option("gssapikexalgorithms", "GSSAPIKexAlgorithms", OptionValueKind::Any, "", KERBEROS),
    option("gssapikeyexchange", "GSSAPIKeyExchange", FLAG, "no", KERBEROS),
    option("gssapirenewalforcesrekey", "GSSAPIRenewalForcesRekey", FLAG, "no", KERBEROS),
    option("gssapiserveridentity", "GSSAPIServerIdentity", OptionValueKind::Text, "", KERBEROS),
    option("gssapitrustdns", "GSSAPITrustDns", FLAG, "no", KERBEROS),
    option("hashknownhosts", "HashKnownHosts", FLAG, "no", Support::Followed),
    option("hostbasedacceptedalgorithms", "HostbasedAcceptedAlgorithms", OptionValueKind::Algorithms(&algorithm_sets::KEYS), "", HOSTBASED),
    option("hostbasedauthentication", "HostbasedAuthentication", FLAG, "no", HOSTBASED),
    option("hostkeyalgorithms", "HostKeyAlgorithms", OptionValueKind::Algorithms(&algorithm_sets::KEYS), "", Support::Followed),
    option("hostkeyalias", "HostKeyAlias", OptionValueKind::Text, "", Support::Followed),
    option("hostname", "HostName", OptionValueKind::Text, "", Support::Followed),
    option("identitiesonly", "IdentitiesOnly", FLAG, "no", Support::Followed),
    option("identityagent", "IdentityAgent", OptionValueKind::Agent, "", Support::Followed),
    option("identityfile", "IdentityFile", OptionValueKind::Files, "", Support::Followed),
    option("ignoreunknown", "IgnoreUnknown", OptionValueKind::Text, "", Support::Followed),
    option("ipqos", "IPQoS", OptionValueKind::Validated(values::check_ip_qos), "", Support::Ignored("gtop sets no QoS class")),
    option("kbdinteractiveauthentication", "KbdInteractiveAuthentication", FLAG, "yes", Support::Followed),
    option("kbdinteractivedevices", "KbdInteractiveDevices", OptionValueKind::Text, "", Support::Followed),
    option("kexalgorithms", "KexAlgorithms", OptionValueKind::Algorithms(&algorithm_sets::KEY_EXCHANGES), "", Support::Followed),
    option("knownhostscommand", "KnownHostsCommand", OptionValueKind::Command, "", Support::BySsh("always")),
    option("localcommand", "LocalCommand", OptionValueKind::Command, "", ONLY_PROBE),
    option("localforward", "LocalForward", OptionValueKind::Any, "", NO_FORWARDING),
    option("loglevel", "LogLevel", OptionValueKind::Choice(&[("silent", "SILENT"), ("quiet", "SILENT"), ("fatal", "FATAL"), ("error", "ERROR"), ("info", "INFO"), ("verbose", "VERBOSE"), ("debug", "DEBUG"), ("debug1", "DEBUG"), ("debug2", "DEBUG2"), ("debug3", "DEBUG3")]), "INFO", OWN_LOG),
    option("logverbose", "LogVerbose", OptionValueKind::Any, "", OWN_LOG),
    option("macs", "MACs", OptionValueKind::Algorithms(&algorithm_sets::MACS), "", Support::Followed),
    option("nohostauthenticationforlocalhost", "NoHostAuthenticationForLocalhost", FLAG, "no", Support::Followed),
    option("numberofpasswordprompts", "NumberOfPasswordPrompts", OptionValueKind::Number, "3", Support::Followed),
    option("obscurekeystroketiming", "ObscureKeystrokeTiming", OptionValueKind::Any, "", NO_TERMINAL),
    option("passwordauthentication", "PasswordAuthentication", FLAG, "yes", Support::Followed),
    option("permitlocalcommand", "PermitLocalCommand", FLAG, "no", ONLY_PROBE),
    option("permitremoteopen", "PermitRemoteOpen", OptionValueKind::Any, "", NO_FORWARDING),
    option("pkcs11provider", "PKCS11Provider", OptionValueKind::Text, "", Support::BySsh("always")),
    option("port", "Port", OptionValueKind::Port, "22", Support::Followed),
    option("preferredauthentications", "PreferredAuthentications", OptionValueKind::Text, "", Support::Followed),
    option("proxycommand", "ProxyCommand", OptionValueKind::Command, "", Support::Followed),
    option("proxyjump", "ProxyJump", OptionValueKind::Jump, "", Support::Followed),
    option("proxyusefdpass", "ProxyUseFdpass", FLAG, "no", Support::BySsh("if `ProxyCommand` is set")),
    option("pubkeyacceptedalgorithms", "PubkeyAcceptedAlgorithms", OptionValueKind::Algorithms(&algorithm_sets::KEYS), "", Support::Followed),
    option("pubkeyauthentication", "PubkeyAuthentication", OptionValueKind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("unbound", "unbound"), ("host-bound", "host-bound")]), "true", Support::Followed),
    option("refuseconnection", "RefuseConnection", OptionValueKind::Text, "", Support::Followed),
    option("rekeylimit", "RekeyLimit", OptionValueKind::Validated(values::check_rekey_limit), "", Support::Ignored("gtop rekeys after 1 GiB or an hour")),
    option("remotecommand", "RemoteCommand", OptionValueKind::Command, "", ONLY_PROBE),
    option("remoteforward", "RemoteForward", OptionValueKind::Any, "", NO_FORWARDING),
    option("requesttty", "RequestTTY", OptionValueKind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("force", "force"), ("auto", "auto")]), "auto", NO_TERMINAL),
    option("requiredrsasize", "RequiredRSASize", OptionValueKind::Number, "1024", Support::Followed),
    option("revokedhostkeys", "RevokedHostKeys", OptionValueKind::Text, "", Support::Followed),
    option("securitykeyprovider", "SecurityKeyProvider", OptionValueKind::Text, "internal", Support::BySsh("always, unless it is `internal`")),
    option("sendenv", "SendEnv", OptionValueKind::SendEnv, "", NO_VARIABLES),
    option("serveralivecountmax", "ServerAliveCountMax", OptionValueKind::Number, "3", Support::Followed),
    option("serveraliveinterval", "ServerAliveInterval", OptionValueKind::Seconds, "0", Support::Followed),
    option("sessiontype", "SessionType", OptionValueKind::Choice(&[("none", "none"), ("subsystem", "subsystem"), ("default", "default")]), "default", ONE_SESSION),
    option("setenv", "SetEnv", OptionValueKind::SetEnv, "", NO_VARIABLES),
    option("stdinnull", "StdinNull", FLAG, "no", ONE_SESSION),
    option("streamlocalbindmask", "StreamLocalBindMask", OptionValueKind::Validated(values::check_bind_mask), "", NO_FORWARDING),
    option("streamlocalbindunlink", "StreamLocalBindUnlink", FLAG, "no", NO_FORWARDING),
    option("stricthostkeychecking", "StrictHostKeyChecking", OptionValueKind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("ask", "ask"), ("off", "false"), ("accept-new", "accept-new")]), "ask", Support::Followed),
    option("syslogfacility", "SyslogFacility", OptionValueKind::Choice(FACILITIES), "", OWN_LOG),
    option("tag", "Tag", OptionValueKind::Text, "", Support::Followed),
    option("tcpkeepalive", "TCPKeepAlive", FLAG, "yes", Support::Ignored("gtop detects dead connections by heartbeats")),
    option("tunnel", "Tunnel", OptionValueKind::Choice(&[("ethernet", "ethernet"), ("point-to-point", "point-to-point"), ("yes", "point-to-point"), ("no", "false"), ("true", "point-to-point"), ("false", "false")]), "false", NO_FORWARDING),
    option("tunneldevice", "TunnelDevice", OptionValueKind::Validated(values::check_tunnel_device), "", NO_FORWARDING),
    option("updatehostkeys", "UpdateHostKeys", ASK, "", Support::Ignored("gtop stores host keys only by `gtop trust` and `StrictHostKeyChecking`")),
    option("user", "User", OptionValueKind::Text, "", Support::Followed),
    option("userknownhostsfile", "UserKnownHostsFile", OptionValueKind::Words(32), "", Support::Followed),
    option("verifyhostkeydns", "VerifyHostKeyDNS", ASK, "false", Support::BySsh("if it is `yes`; `ask` is ignored")),
    option("versionaddendum", "VersionAddendum", OptionValueKind::Any, "", Support::Ignored("gtop sends its own version string")),
    option("visualhostkey", "VisualHostKey", FLAG, "no", Support::Ignored("gtop shows fingerprints as text")),
    option("warnweakcrypto", "WarnWeakCrypto", OptionValueKind::Any, "", Support::Ignored("`gtop doctor` shows the negotiated algorithms")),
    option("xauthlocation", "XAuthLocation", OptionValueKind::Text, "", NO_FORWARDING),
];

/// Other names of options.
#[rustfmt::skip]
const ALIASES: &[(&str, &str)] = &[
    ("challengeresponseauthentication", "kbdinteractiveauthentication"),
    ("dsaauthentication", "pubkeyauthentication"),
    ("hostbasedkeytypes", "hostbasedacceptedalgorithms"),
    ("identityfile2", "identityfile"),
    ("keepalive", "tcpkeepalive"),
    ("protocolkeepalives", "serveraliveinterval"),
    ("pubkeyacceptedkeytypes", "pubkeyacceptedalgorithms"),
    ("setuptimeout", "serveraliveinterval"),
    ("skeyauthentication", "kbdinteractiveauthentication"),
    ("smartcarddevice", "pkcs11provider"),
    ("tisauthentication", "kbdinteractiveauthentication"),
];

/// Obsolete options that OpenSSH ignores.
#[rustfmt::skip]
const OBSOLETE: &[&str] = &[
    "afstokenpassing", "cipher", "compressionlevel", "fallbacktorsh", "globalknownhostsfile2",
    "kerberosauthentication", "kerberostgtpassing", "protocol", "rhostsauthentication",
    "rhostsrsaauthentication", "rsaauthentication", "useblacklistedkeys", "useprivilegedport",
    "userknownhostsfile2", "useroaming", "usersh",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyword {
    Host,
    Match,
    Include,
    Option(&'static OptionSpec),
    Obsolete,
    Unknown,
}

/// Looks up a lower-case keyword.
pub(crate) fn parse_keyword(word: &str) -> Keyword {
    match word {
        "host" => return Keyword::Host,
        "match" => return Keyword::Match,
        "include" => return Keyword::Include,
        _ => {}
    }
    let alias = ALIASES.iter().find(|(alias, _)| *alias == word);
    let name = alias.map_or(word, |(_, name)| *name);
    match find(name) {
        Some(known) => Keyword::Option(known),
        None if OBSOLETE.contains(&name) => Keyword::Obsolete,
        None => Keyword::Unknown,
    }
}

/// Looks up an option by its lower-case name.
pub(crate) fn find(name: &str) -> Option<&'static OptionSpec> {
    let at = OPTIONS.binary_search_by(|option| option.name.cmp(name)).ok()?;
    OPTIONS.get(at)
}

pub(crate) fn all() -> impl Iterator<Item = &'static OptionSpec> {
    OPTIONS.iter()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_option_can_be_found() {
        for option in OPTIONS {
            assert_eq!(find(option.name), Some(option));
        }
        for (alias, name) in ALIASES {
            assert!(matches!(parse_keyword(alias), Keyword::Option(known) if known.name == *name));
        }
        assert_eq!(parse_keyword("useroaming"), Keyword::Obsolete);
        assert_eq!(parse_keyword("hosst"), Keyword::Unknown);
    }

    #[test]
    fn options_of_later_versions_are_known() {
        for later in ["tag", "channeltimeout", "obscurekeystroketiming", "refuseconnection"] {
            assert!(matches!(parse_keyword(later), Keyword::Option(_)), "{later}");
        }
    }

    /// Returns the part of the page that lists every option.
    fn support_tables() -> String {
        let mut followed = Vec::new();
        let (mut by_ssh, mut ignored) = (BTreeMap::new(), BTreeMap::new());
        for option in OPTIONS {
            match option.support {
                Support::Followed => followed.push(format!("`{}`", option.spelling)),
                Support::BySsh(when) => by_ssh.entry(when).or_insert_with(Vec::new).push(option),
                Support::Ignored(why) => ignored.entry(why).or_insert_with(Vec::new).push(option),
            }
        }
        let rows = |reasons: BTreeMap<&str, Vec<&OptionSpec>>| {
            let row = |(reason, options): (&str, Vec<&OptionSpec>)| {
                let names: Vec<_> =
                    options.iter().map(|option| format!("`{}`", option.spelling)).collect();
                format!("| {} | {reason} |\n", names.join(", "))
            };
            reasons.into_iter().map(row).collect::<String>()
        };
        format!(
            "## Followed\n\n{}\n\n## Left to the `ssh` program\n\n| Option | When |\n|---|---|\n{}\n\
             ## Ignored\n\n| Option | Why |\n|---|---|\n{}",
            followed.join(", "),
            rows(by_ssh),
            rows(ignored)
        )
    }

    #[test]
    fn the_page_lists_every_option() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ssh-config.md");
        let mut text = std::fs::read_to_string(page).unwrap();
        if std::env::var_os("BLESS").is_some() {
            text.truncate(text.find("## Followed").unwrap_or(text.len()));
            text.push_str(&support_tables());
            std::fs::write(page, &text).unwrap();
        }
        assert!(
            text.ends_with(&support_tables()),
            "docs/ssh-config.md must end with:\n{}",
            support_tables()
        );
    }

    /// Options of the manual of OpenSSH 10.2, and what Debian adds.
    const MANUAL: &str = "AddKeysToAgent AddressFamily BatchMode BindAddress BindInterface CanonicalDomains \
         CanonicalizeFallbackLocal CanonicalizeHostname CanonicalizeMaxDots \
         CanonicalizePermittedCNAMEs CASignatureAlgorithms CertificateFile ChannelTimeout CheckHostIP \
         Ciphers ClearAllForwardings Compression ConnectionAttempts ConnectTimeout ControlMaster \
         ControlPath ControlPersist DynamicForward EnableEscapeCommandline EnableSSHKeysign \
         EscapeChar ExitOnForwardFailure FingerprintHash ForkAfterAuthentication ForwardAgent \
         ForwardX11 ForwardX11Timeout ForwardX11Trusted GatewayPorts GlobalKnownHostsFile \
         GSSAPIAuthentication GSSAPIClientIdentity GSSAPIDelegateCredentials GSSAPIKexAlgorithms \
         GSSAPIKeyExchange GSSAPIRenewalForcesRekey GSSAPIServerIdentity GSSAPITrustDns \
         HashKnownHosts HostbasedAcceptedAlgorithms HostbasedAuthentication HostKeyAlgorithms \
         HostKeyAlias HostName IdentitiesOnly IdentityAgent IdentityFile IgnoreUnknown IPQoS \
         KbdInteractiveAuthentication KbdInteractiveDevices KexAlgorithms KnownHostsCommand \
         LocalCommand LocalForward LogLevel LogVerbose MACs NoHostAuthenticationForLocalhost \
         NumberOfPasswordPrompts ObscureKeystrokeTiming PasswordAuthentication PermitLocalCommand \
         PermitRemoteOpen PKCS11Provider Port PreferredAuthentications ProxyCommand ProxyJump \
         ProxyUseFdpass PubkeyAcceptedAlgorithms PubkeyAuthentication RefuseConnection RekeyLimit \
         RemoteCommand RemoteForward RequestTTY RequiredRSASize RevokedHostKeys SecurityKeyProvider \
         SendEnv ServerAliveCountMax ServerAliveInterval SessionType SetEnv StdinNull \
         StreamLocalBindMask StreamLocalBindUnlink StrictHostKeyChecking SyslogFacility Tag \
         TCPKeepAlive Tunnel TunnelDevice UpdateHostKeys User UserKnownHostsFile VerifyHostKeyDNS \
         VersionAddendum VisualHostKey WarnWeakCrypto XAuthLocation";

    #[test]
    fn every_option_of_the_manual_is_known() {
        for name in MANUAL.split(' ') {
            let known = find(&name.to_ascii_lowercase());
            assert_eq!(known.map(|known| known.spelling), Some(name), "{name}");
        }
        for option in OPTIONS {
            assert_eq!(option.spelling.to_ascii_lowercase(), option.name);
            assert!(MANUAL.split(' ').any(|name| name == option.spelling), "{}", option.name);
        }
    }
}
