//! The keywords of `ssh_config`, what values they take, and what holds when they are not set.

use crate::transport::ssh_config::names::{self, Names};

/// One option.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// In lower case, as `ssh -G` prints it.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// What `ssh -G` prints when nothing sets it; nothing when empty.
    pub(super) default: &'static str,
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

const fn option(name: &'static str, kind: Kind, default: &'static str) -> Known {
    Known { name, kind, default }
}

#[rustfmt::skip]
const OPTIONS: &[Known] = &[
    option("addkeystoagent", Kind::Anything, ""),
    option("addressfamily", Kind::Choice(&[("inet", "inet"), ("inet6", "inet6"), ("any", "any")]), "any"),
    option("batchmode", FLAG, "no"),
    option("bindaddress", Kind::Text, ""),
    option("bindinterface", Kind::Text, ""),
    option("canonicaldomains", Kind::Domains, "none"),
    option("canonicalizefallbacklocal", FLAG, "yes"),
    option("canonicalizehostname", Kind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("always", "always")]), "false"),
    option("canonicalizemaxdots", Kind::Number, "1"),
    option("canonicalizepermittedcnames", Kind::Aliases, "none"),
    option("casignaturealgorithms", Kind::Algorithms(&names::AUTHORITIES), ""),
    option("certificatefile", Kind::Files, ""),
    option("channeltimeout", Kind::Anything, ""),
    option("checkhostip", FLAG, "no"),
    option("ciphers", Kind::Algorithms(&names::CIPHERS), ""),
    option("clearallforwardings", FLAG, "no"),
    option("compression", Kind::Choice(&[("yes", "yes"), ("no", "no")]), "no"),
    option("connectionattempts", Kind::Number, "1"),
    option("connecttimeout", Kind::Seconds, "none"),
    option("controlmaster", Kind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("auto", "auto"), ("ask", "ask"), ("autoask", "autoask")]), "false"),
    option("controlpath", Kind::Text, ""),
    option("controlpersist", Kind::Anything, ""),
    option("dynamicforward", Kind::Anything, ""),
    option("enableescapecommandline", FLAG, "no"),
    option("enablesshkeysign", FLAG, "no"),
    option("escapechar", Kind::Anything, ""),
    option("exitonforwardfailure", FLAG, "no"),
    option("fingerprinthash", Kind::Anything, ""),
    option("forkafterauthentication", FLAG, "no"),
    option("forwardagent", Kind::Anything, ""),
    option("forwardx11", FLAG, "no"),
    option("forwardx11timeout", Kind::Seconds, "1200"),
    option("forwardx11trusted", FLAG, ""),
    option("gatewayports", FLAG, "no"),
    option("globalknownhostsfile", Kind::Words(32), ""),
    option("gssapiauthentication", FLAG, "no"),
    option("gssapiclientidentity", Kind::Text, ""),
    option("gssapidelegatecredentials", FLAG, "no"),
    option("gssapikexalgorithms", Kind::Anything, ""),
    option("gssapikeyexchange", FLAG, "no"),
    option("gssapirenewalforcesrekey", FLAG, "no"),
    option("gssapiserveridentity", Kind::Text, ""),
    option("gssapitrustdns", FLAG, "no"),
    option("hashknownhosts", FLAG, "no"),
    option("hostbasedacceptedalgorithms", Kind::Algorithms(&names::KEYS), ""),
    option("hostbasedauthentication", FLAG, "no"),
    option("hostkeyalgorithms", Kind::Algorithms(&names::KEYS), ""),
    option("hostkeyalias", Kind::Text, ""),
    option("hostname", Kind::Text, ""),
    option("identitiesonly", FLAG, "no"),
    option("identityagent", Kind::Agent, ""),
    option("identityfile", Kind::Files, ""),
    option("ignoreunknown", Kind::Text, ""),
    option("ipqos", Kind::Anything, ""),
    option("kbdinteractiveauthentication", FLAG, "yes"),
    option("kbdinteractivedevices", Kind::Text, ""),
    option("kexalgorithms", Kind::Algorithms(&names::KEY_EXCHANGES), ""),
    option("knownhostscommand", Kind::Command, ""),
    option("localcommand", Kind::Command, ""),
    option("localforward", Kind::Anything, ""),
    option("loglevel", Kind::Choice(&[("silent", "SILENT"), ("quiet", "SILENT"), ("fatal", "FATAL"), ("error", "ERROR"), ("info", "INFO"), ("verbose", "VERBOSE"), ("debug", "DEBUG"), ("debug1", "DEBUG"), ("debug2", "DEBUG2"), ("debug3", "DEBUG3")]), "INFO"),
    option("logverbose", Kind::Anything, ""),
    option("macs", Kind::Algorithms(&names::MACS), ""),
    option("nohostauthenticationforlocalhost", FLAG, "no"),
    option("numberofpasswordprompts", Kind::Number, "3"),
    option("obscurekeystroketiming", Kind::Anything, ""),
    option("passwordauthentication", FLAG, "yes"),
    option("permitlocalcommand", FLAG, "no"),
    option("permitremoteopen", Kind::Anything, ""),
    option("pkcs11provider", Kind::Text, ""),
    option("port", Kind::Port, "22"),
    option("preferredauthentications", Kind::Text, ""),
    option("proxycommand", Kind::Command, ""),
    option("proxyjump", Kind::Jump, ""),
    option("proxyusefdpass", FLAG, "no"),
    option("pubkeyacceptedalgorithms", Kind::Algorithms(&names::KEYS), ""),
    option("pubkeyauthentication", Kind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("unbound", "unbound"), ("host-bound", "host-bound")]), "true"),
    option("refuseconnection", Kind::Text, ""),
    option("rekeylimit", Kind::Anything, ""),
    option("remotecommand", Kind::Command, ""),
    option("remoteforward", Kind::Anything, ""),
    option("requesttty", Kind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("force", "force"), ("auto", "auto")]), "auto"),
    option("requiredrsasize", Kind::Number, "1024"),
    option("revokedhostkeys", Kind::Text, ""),
    option("securitykeyprovider", Kind::Text, "internal"),
    option("sendenv", Kind::Sent, ""),
    option("serveralivecountmax", Kind::Number, "3"),
    option("serveraliveinterval", Kind::Seconds, "0"),
    option("sessiontype", Kind::Choice(&[("none", "none"), ("subsystem", "subsystem"), ("default", "default")]), "default"),
    option("setenv", Kind::Variables, ""),
    option("stdinnull", FLAG, "no"),
    option("streamlocalbindmask", Kind::Anything, ""),
    option("streamlocalbindunlink", FLAG, "no"),
    option("stricthostkeychecking", Kind::Choice(&[("yes", "true"), ("no", "false"), ("true", "true"), ("false", "false"), ("ask", "ask"), ("off", "false"), ("accept-new", "accept-new")]), "ask"),
    option("syslogfacility", Kind::Anything, ""),
    option("tag", Kind::Text, ""),
    option("tcpkeepalive", FLAG, "yes"),
    option("tunnel", Kind::Choice(&[("ethernet", "ethernet"), ("point-to-point", "point-to-point"), ("yes", "point-to-point"), ("no", "false"), ("true", "point-to-point"), ("false", "false")]), "false"),
    option("tunneldevice", Kind::Anything, ""),
    option("updatehostkeys", ASK, ""),
    option("user", Kind::Text, ""),
    option("userknownhostsfile", Kind::Words(32), ""),
    option("verifyhostkeydns", ASK, "false"),
    option("versionaddendum", Kind::Anything, ""),
    option("visualhostkey", FLAG, "no"),
    option("warnweakcrypto", Kind::Anything, ""),
    option("xauthlocation", Kind::Text, ""),
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
}
