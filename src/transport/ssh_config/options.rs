//! The keywords of `ssh_config`, what values they take, and what holds when they are not set.

use crate::transport::ssh_config::names::{self, Names};
use crate::transport::ssh_config::value::Form;

/// One option.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// In lower case, as `ssh -G` prints it.
    pub(super) name: &'static str,
    /// As the manual spells it.
    pub(super) spelling: &'static str,
    pub(super) kind: Kind,
    /// What `ssh -G` prints when nothing sets it; nothing when empty.
    pub(super) default: &'static str,
    pub(super) support: Support,
}

/// What gtop makes of an option; `docs/ssh-config.md` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Support {
    /// gtop does as it says.
    Followed,
    /// The ssh program is left to do so, in this case.
    BySsh(&'static str),
    /// Nobody does, for this reason, unless the ssh program leads to the node anyway.
    Ignored(&'static str),
}

/// What an option takes, and what becomes of it when it is set again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One of these words; beside each what `ssh -G` prints for it.
    Choice(&'static [(&'static str, &'static str)]),
    Seconds,
    Number,
    Port,
    Text,
    /// The rest of the line.
    Command,
    Jump,
    /// A list of algorithms, assembled.
    Algorithms(&'static Names),
    /// So many words at most; `none` stands alone.
    Words(usize),
    Domains,
    /// Rules about aliases in the name service.
    Aliases,
    /// Every line adds one file.
    Files,
    /// Every line adds names, or takes some away.
    Sent,
    Variables,
    Agent,
    /// Words that make no difference to gtop, and are judged as `ssh` judges them.
    Judged(Form),
    /// It does not matter to gtop; the value is not judged.
    Anything,
}

const FLAG: Kind = Kind::Choice(&[("yes", "yes"), ("no", "no"), ("true", "yes"), ("false", "no")]);
const ASK: Kind = Kind::Choice(&[
    ("yes", "true"),
    ("no", "false"),
    ("true", "true"),
    ("false", "false"),
    ("ask", "ask"),
]);

const UNFORWARDED: Support = Support::Ignored("nothing is forwarded");
const NO_TERMINAL: Support =
    Support::Ignored("nothing is typed on a node, and nothing drawn by it");
const ONE_SESSION: Support = Support::Ignored("there is one session, which gtop begins and ends");
const OWN_LOG: Support = Support::Ignored("gtop logs its own way, with --log");
const KERBEROS: Support = Support::BySsh("where a node asks for Kerberos");
const ONLY_PROBE: Support = Support::Ignored("nothing is run but the probe");
const NO_MASTER: Support = Support::Ignored("gtop makes no master, and uses the one that is there");
const HOSTBASED: Support = Support::BySsh("where a node asks for the host's own key");
const NO_VARIABLES: Support = Support::Ignored("no variables are sent");

/// Where system logs put things.
#[rustfmt::skip]
const FACILITIES: &[(&str, &str)] = &[
    ("daemon", "DAEMON"), ("user", "USER"), ("auth", "AUTH"), ("authpriv", "AUTHPRIV"),
    ("local0", "LOCAL0"), ("local1", "LOCAL1"), ("local2", "LOCAL2"), ("local3", "LOCAL3"),
    ("local4", "LOCAL4"), ("local5", "LOCAL5"), ("local6", "LOCAL6"), ("local7", "LOCAL7"),
];

const fn option(
    name: &'static str,
    spelling: &'static str,
    kind: Kind,
    default: &'static str,
    support: Support,
) -> Known {
    Known { name, spelling, kind, default, support }
}

#[rustfmt::skip]
const OPTIONS: &[Known] = &[
    option("addkeystoagent", "AddKeysToAgent", Kind::Judged(Form::AddKeys), "", Support::Ignored("a passphrase opens a key for gtop alone")),
    option("addressfamily", "AddressFamily", Kind::Choice(&[("inet", "inet"), ("inet6", "inet6"), ("any", "any")]), "any", Support::Followed),
    option("batchmode", "BatchMode", FLAG, "no", Support::Followed),
    option("bindaddress", "BindAddress", Kind::Text, "", Support::Followed),
    option("bindinterface", "BindInterface", Kind::Text, "", Support::Followed),
    option("canonicaldomains", "CanonicalDomains", Kind::Domains, "none", Support::Followed),
    option("canonicalizefallbacklocal", "CanonicalizeFallbackLocal", FLAG, "yes", Support::Followed),
    option("canonicalizehostname", "CanonicalizeHostname", Kind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("always", "always")]), "false", Support::Followed),
    option("canonicalizemaxdots", "CanonicalizeMaxDots", Kind::Number, "1", Support::Followed),
    option("canonicalizepermittedcnames", "CanonicalizePermittedCNAMEs", Kind::Aliases, "none", Support::BySsh("always, to learn the name")),
    option("casignaturealgorithms", "CASignatureAlgorithms", Kind::Algorithms(&names::AUTHORITIES), "", Support::Followed),
    option("certificatefile", "CertificateFile", Kind::Files, "", Support::Followed),
    option("channeltimeout", "ChannelTimeout", Kind::Anything, "", ONE_SESSION),
    option("checkhostip", "CheckHostIP", FLAG, "no", Support::Ignored("a host is known by its name")),
    option("ciphers", "Ciphers", Kind::Algorithms(&names::CIPHERS), "", Support::Followed),
    option("clearallforwardings", "ClearAllForwardings", FLAG, "no", Support::Followed),
    option("compression", "Compression", Kind::Choice(&[("yes", "yes"), ("no", "no")]), "no", Support::Ignored("what nodes send is small")),
    option("connectionattempts", "ConnectionAttempts", Kind::Number, "1", Support::Ignored("gtop tries again by itself")),
    option("connecttimeout", "ConnectTimeout", Kind::Seconds, "none", Support::Followed),
    option("controlmaster", "ControlMaster", Kind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("auto", "auto"), ("ask", "ask"), ("autoask", "autoask")]), "false", NO_MASTER),
    option("controlpath", "ControlPath", Kind::Text, "", Support::BySsh("with a master that is there")),
    option("controlpersist", "ControlPersist", Kind::Judged(Form::Persist), "", NO_MASTER),
    option("dynamicforward", "DynamicForward", Kind::Anything, "", UNFORWARDED),
    option("enableescapecommandline", "EnableEscapeCommandline", FLAG, "no", NO_TERMINAL),
    option("enablesshkeysign", "EnableSSHKeysign", FLAG, "no", HOSTBASED),
    option("escapechar", "EscapeChar", Kind::Judged(Form::Escape), "", NO_TERMINAL),
    option("exitonforwardfailure", "ExitOnForwardFailure", FLAG, "no", UNFORWARDED),
    option("fingerprinthash", "FingerprintHash", Kind::Choice(&[("md5", "MD5"), ("sha1", "SHA1"), ("sha256", "SHA256"), ("sha384", "SHA384"), ("sha512", "SHA512")]), "", Support::Ignored("fingerprints are SHA256")),
    option("forkafterauthentication", "ForkAfterAuthentication", FLAG, "no", ONE_SESSION),
    option("forwardagent", "ForwardAgent", Kind::Anything, "", UNFORWARDED),
    option("forwardx11", "ForwardX11", FLAG, "no", UNFORWARDED),
    option("forwardx11timeout", "ForwardX11Timeout", Kind::Seconds, "1200", UNFORWARDED),
    option("forwardx11trusted", "ForwardX11Trusted", FLAG, "", UNFORWARDED),
    option("gatewayports", "GatewayPorts", FLAG, "no", UNFORWARDED),
    option("globalknownhostsfile", "GlobalKnownHostsFile", Kind::Words(32), "", Support::Followed),
    option("gssapiauthentication", "GSSAPIAuthentication", FLAG, "no", KERBEROS),
    option("gssapiclientidentity", "GSSAPIClientIdentity", Kind::Text, "", KERBEROS),
    option("gssapidelegatecredentials", "GSSAPIDelegateCredentials", FLAG, "no", KERBEROS),
    option("gssapikexalgorithms", "GSSAPIKexAlgorithms", Kind::Anything, "", KERBEROS),
    option("gssapikeyexchange", "GSSAPIKeyExchange", FLAG, "no", KERBEROS),
    option("gssapirenewalforcesrekey", "GSSAPIRenewalForcesRekey", FLAG, "no", KERBEROS),
    option("gssapiserveridentity", "GSSAPIServerIdentity", Kind::Text, "", KERBEROS),
    option("gssapitrustdns", "GSSAPITrustDns", FLAG, "no", KERBEROS),
    option("hashknownhosts", "HashKnownHosts", FLAG, "no", Support::Followed),
    option("hostbasedacceptedalgorithms", "HostbasedAcceptedAlgorithms", Kind::Algorithms(&names::KEYS), "", HOSTBASED),
    option("hostbasedauthentication", "HostbasedAuthentication", FLAG, "no", HOSTBASED),
    option("hostkeyalgorithms", "HostKeyAlgorithms", Kind::Algorithms(&names::KEYS), "", Support::Followed),
    option("hostkeyalias", "HostKeyAlias", Kind::Text, "", Support::Followed),
    option("hostname", "HostName", Kind::Text, "", Support::Followed),
    option("identitiesonly", "IdentitiesOnly", FLAG, "no", Support::Followed),
    option("identityagent", "IdentityAgent", Kind::Agent, "", Support::Followed),
    option("identityfile", "IdentityFile", Kind::Files, "", Support::Followed),
    option("ignoreunknown", "IgnoreUnknown", Kind::Text, "", Support::Followed),
    option("ipqos", "IPQoS", Kind::Judged(Form::Traffic), "", Support::Ignored("packets are like all others")),
    option("kbdinteractiveauthentication", "KbdInteractiveAuthentication", FLAG, "yes", Support::Followed),
    option("kbdinteractivedevices", "KbdInteractiveDevices", Kind::Text, "", Support::Followed),
    option("kexalgorithms", "KexAlgorithms", Kind::Algorithms(&names::KEY_EXCHANGES), "", Support::Followed),
    option("knownhostscommand", "KnownHostsCommand", Kind::Command, "", Support::BySsh("always")),
    option("localcommand", "LocalCommand", Kind::Command, "", ONLY_PROBE),
    option("localforward", "LocalForward", Kind::Anything, "", UNFORWARDED),
    option("loglevel", "LogLevel", Kind::Choice(&[("silent", "SILENT"), ("quiet", "SILENT"), ("fatal", "FATAL"), ("error", "ERROR"), ("info", "INFO"), ("verbose", "VERBOSE"), ("debug", "DEBUG"), ("debug1", "DEBUG"), ("debug2", "DEBUG2"), ("debug3", "DEBUG3")]), "INFO", OWN_LOG),
    option("logverbose", "LogVerbose", Kind::Anything, "", OWN_LOG),
    option("macs", "MACs", Kind::Algorithms(&names::MACS), "", Support::Followed),
    option("nohostauthenticationforlocalhost", "NoHostAuthenticationForLocalhost", FLAG, "no", Support::Followed),
    option("numberofpasswordprompts", "NumberOfPasswordPrompts", Kind::Number, "3", Support::Followed),
    option("obscurekeystroketiming", "ObscureKeystrokeTiming", Kind::Anything, "", NO_TERMINAL),
    option("passwordauthentication", "PasswordAuthentication", FLAG, "yes", Support::Followed),
    option("permitlocalcommand", "PermitLocalCommand", FLAG, "no", ONLY_PROBE),
    option("permitremoteopen", "PermitRemoteOpen", Kind::Anything, "", UNFORWARDED),
    option("pkcs11provider", "PKCS11Provider", Kind::Text, "", Support::BySsh("always")),
    option("port", "Port", Kind::Port, "22", Support::Followed),
    option("preferredauthentications", "PreferredAuthentications", Kind::Text, "", Support::Followed),
    option("proxycommand", "ProxyCommand", Kind::Command, "", Support::Followed),
    option("proxyjump", "ProxyJump", Kind::Jump, "", Support::Followed),
    option("proxyusefdpass", "ProxyUseFdpass", FLAG, "no", Support::BySsh("always, with a ProxyCommand")),
    option("pubkeyacceptedalgorithms", "PubkeyAcceptedAlgorithms", Kind::Algorithms(&names::KEYS), "", Support::Followed),
    option("pubkeyauthentication", "PubkeyAuthentication", Kind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("unbound", "unbound"), ("host-bound", "host-bound")]), "true", Support::Followed),
    option("refuseconnection", "RefuseConnection", Kind::Text, "", Support::Followed),
    option("rekeylimit", "RekeyLimit", Kind::Judged(Form::Rekey), "", Support::Ignored("keys are exchanged anew after 1 GiB or an hour")),
    option("remotecommand", "RemoteCommand", Kind::Command, "", ONLY_PROBE),
    option("remoteforward", "RemoteForward", Kind::Anything, "", UNFORWARDED),
    option("requesttty", "RequestTTY", Kind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("force", "force"), ("auto", "auto")]), "auto", NO_TERMINAL),
    option("requiredrsasize", "RequiredRSASize", Kind::Number, "1024", Support::Followed),
    option("revokedhostkeys", "RevokedHostKeys", Kind::Text, "", Support::Followed),
    option("securitykeyprovider", "SecurityKeyProvider", Kind::Text, "internal", Support::BySsh("always, unless it is `internal`")),
    option("sendenv", "SendEnv", Kind::Sent, "", NO_VARIABLES),
    option("serveralivecountmax", "ServerAliveCountMax", Kind::Number, "3", Support::Followed),
    option("serveraliveinterval", "ServerAliveInterval", Kind::Seconds, "0", Support::Followed),
    option("sessiontype", "SessionType", Kind::Choice(&[("none", "none"), ("subsystem", "subsystem"), ("default", "default")]), "default", ONE_SESSION),
    option("setenv", "SetEnv", Kind::Variables, "", NO_VARIABLES),
    option("stdinnull", "StdinNull", FLAG, "no", ONE_SESSION),
    option("streamlocalbindmask", "StreamLocalBindMask", Kind::Judged(Form::Mask), "", UNFORWARDED),
    option("streamlocalbindunlink", "StreamLocalBindUnlink", FLAG, "no", UNFORWARDED),
    option("stricthostkeychecking", "StrictHostKeyChecking", Kind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("ask", "ask"), ("off", "false"), ("accept-new", "accept-new")]), "ask", Support::Followed),
    option("syslogfacility", "SyslogFacility", Kind::Choice(FACILITIES), "", OWN_LOG),
    option("tag", "Tag", Kind::Text, "", Support::Followed),
    option("tcpkeepalive", "TCPKeepAlive", FLAG, "yes", Support::Ignored("heartbeats tell that a node is gone")),
    option("tunnel", "Tunnel", Kind::Choice(&[("ethernet", "ethernet"), ("point-to-point", "point-to-point"), ("yes", "point-to-point"), ("no", "false"), ("true", "point-to-point"), ("false", "false")]), "false", UNFORWARDED),
    option("tunneldevice", "TunnelDevice", Kind::Judged(Form::Device), "", UNFORWARDED),
    option("updatehostkeys", "UpdateHostKeys", ASK, "", Support::Ignored("keys are stored by `gtop trust` and StrictHostKeyChecking alone")),
    option("user", "User", Kind::Text, "", Support::Followed),
    option("userknownhostsfile", "UserKnownHostsFile", Kind::Words(32), "", Support::Followed),
    option("verifyhostkeydns", "VerifyHostKeyDNS", ASK, "false", Support::BySsh("with `yes`; nothing is asked with `ask`")),
    option("versionaddendum", "VersionAddendum", Kind::Anything, "", Support::Ignored("gtop says its own version")),
    option("visualhostkey", "VisualHostKey", FLAG, "no", Support::Ignored("keys are shown by their fingerprints")),
    option("warnweakcrypto", "WarnWeakCrypto", Kind::Anything, "", Support::Ignored("doctor shows what was agreed upon")),
    option("xauthlocation", "XAuthLocation", Kind::Text, "", UNFORWARDED),
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

/// What OpenSSH once knew and still reads over.
#[rustfmt::skip]
const GONE: &[&str] = &[
    "afstokenpassing", "cipher", "compressionlevel", "fallbacktorsh", "globalknownhostsfile2",
    "kerberosauthentication", "kerberostgtpassing", "protocol", "rhostsauthentication",
    "rhostsrsaauthentication", "rsaauthentication", "useblacklistedkeys", "useprivilegedport",
    "userknownhostsfile2", "useroaming", "usersh",
];

/// What a keyword is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    Host,
    Match,
    Include,
    Sets(&'static Known),
    Gone,
    Unknown,
}

/// Looks a keyword up, in lower case.
pub(super) fn keyword(word: &str) -> Keyword {
    match word {
        "host" => return Keyword::Host,
        "match" => return Keyword::Match,
        "include" => return Keyword::Include,
        _ => {}
    }
    let alias = ALIASES.iter().find(|(alias, _)| *alias == word);
    let name = alias.map_or(word, |(_, name)| *name);
    match known(name) {
        Some(known) => Keyword::Sets(known),
        None if GONE.contains(&name) => Keyword::Gone,
        None => Keyword::Unknown,
    }
}

/// Returns the option of a name in lower case.
pub(super) fn known(name: &str) -> Option<&'static Known> {
    let at = OPTIONS.binary_search_by(|option| option.name.cmp(name)).ok()?;
    OPTIONS.get(at)
}

/// Returns every option.
pub(super) fn all() -> impl Iterator<Item = &'static Known> {
    OPTIONS.iter()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_option_can_be_found() {
        for option in OPTIONS {
            assert_eq!(known(option.name), Some(option));
        }
        for (alias, name) in ALIASES {
            assert!(matches!(keyword(alias), Keyword::Sets(known) if known.name == *name));
        }
        assert_eq!(keyword("useroaming"), Keyword::Gone);
        assert_eq!(keyword("hosst"), Keyword::Unknown);
    }

    #[test]
    fn what_later_versions_know_is_no_mistake() {
        for later in ["tag", "channeltimeout", "obscurekeystroketiming", "refuseconnection"] {
            assert!(matches!(keyword(later), Keyword::Sets(_)), "{later}");
        }
    }

    /// Returns the part of the page that lists every option.
    fn told() -> String {
        let mut followed = Vec::new();
        let (mut by_ssh, mut ignored) = (BTreeMap::new(), BTreeMap::new());
        for option in OPTIONS {
            match option.support {
                Support::Followed => followed.push(format!("`{}`", option.spelling)),
                Support::BySsh(when) => by_ssh.entry(when).or_insert_with(Vec::new).push(option),
                Support::Ignored(why) => ignored.entry(why).or_insert_with(Vec::new).push(option),
            }
        }
        let rows = |reasons: BTreeMap<&str, Vec<&Known>>| {
            let row = |(reason, options): (&str, Vec<&Known>)| {
                let names: Vec<_> =
                    options.iter().map(|option| format!("`{}`", option.spelling)).collect();
                format!("| {} | {reason} |\n", names.join(", "))
            };
            reasons.into_iter().map(row).collect::<String>()
        };
        format!(
            "## Followed\n\n{}\n\n## Left to the `ssh` program\n\n| Option | When |\n|---|---|\n{}\n\
             ## Not followed\n\n| Option | Why |\n|---|---|\n{}",
            followed.join(", "),
            rows(by_ssh),
            rows(ignored)
        )
    }

    #[test]
    fn the_page_tells_what_becomes_of_every_option() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ssh-config.md");
        let mut text = std::fs::read_to_string(page).unwrap();
        if std::env::var_os("BLESS").is_some() {
            text.truncate(text.find("## Followed").unwrap_or(text.len()));
            text.push_str(&told());
            std::fs::write(page, &text).unwrap();
        }
        assert!(text.ends_with(&told()), "docs/ssh-config.md ends otherwise than so:\n{}", told());
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
            let known = known(&name.to_ascii_lowercase());
            assert_eq!(known.map(|known| known.spelling), Some(name), "{name}");
        }
        for option in OPTIONS {
            assert_eq!(option.spelling.to_ascii_lowercase(), option.name);
            assert!(MANUAL.split(' ').any(|name| name == option.spelling), "{}", option.name);
        }
    }
}
