//! Random configurations: mostly valid, oddly spelt, sometimes invalid.

use std::fmt::Write;

use crate::ssh_config::case::{Case, HostArg};

/// A seeded random number generator (`SplitMix64`).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next_u64() % u64::try_from(end).unwrap()).unwrap()
    }

    /// Returns true with probability 1/`times`.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn choose<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from.get(self.below(from.len())).unwrap()
    }
}

const PATTERNS: &[&str] = &[
    "*",
    "n1",
    "n2",
    "n*",
    "?1",
    "N1",
    "!n1",
    "!n*",
    "*.site",
    "n1.site",
    "10.0.0.*",
    "127.0.0.1",
    "::1",
    "*1*",
    "other",
    "!*.site",
    "n?.*",
    "1*.*0*1",
    "",
];
const HOSTS: &[&str] = &[
    "n1",
    "n2",
    "N1",
    "n1.site",
    "N2.Site",
    "10.0.0.1",
    "127.1",
    "0x7f.1",
    "::1",
    "FE80::0:1",
    "x",
    "1.2.3.4.5",
    "010.1",
    "a.b.c",
];

/// Keywords and valid values for them.
#[rustfmt::skip]
const LINES: &[(&[&str], &[&str])] = &[
    (&["Port"], &["22", "2222", "65535", "ssh", "+7", "\"8\"", "007"]),
    (&["User"], &["ada", "eve", "\"a b\"", "a\\ b", "'x y'", "ada@site", "a\\\\b"]),
    (&["HostName", "hostname"], &["%h", "%h.site", "real", "10.0.0.9", "%%x%h", "127.1", "REAL", "n2"]),
    (&["IdentityFile", "identityfile2"], &["~/.ssh/id_a", "/k/%h", "\"~/with space\"", "k", "~/.ssh/id_%r_%p", "none"]),
    (&["CertificateFile"], &["~/c-cert.pub", "/k/c", "\"c d\""]),
    (&["IdentitiesOnly", "BatchMode", "HashKnownHosts", "CheckHostIP", "TCPKeepAlive", "KeepAlive", "PasswordAuthentication",
       "KbdInteractiveAuthentication", "ChallengeResponseAuthentication", "TISAuthentication", "SkeyAuthentication",
       "HostbasedAuthentication", "GSSAPIAuthentication", "ForwardX11", "ExitOnForwardFailure", "GatewayPorts", "ProxyUseFdpass",
       "VisualHostKey", "StdinNull", "NoHostAuthenticationForLocalhost", "EnableSSHKeysign", "PermitLocalCommand",
       "EnableEscapeCommandline", "GSSAPIDelegateCredentials"],
     &["yes", "no", "true", "FALSE", "Yes"]),
    (&["PubkeyAuthentication", "DSAAuthentication"], &["yes", "no", "unbound", "host-bound", "True"]),
    (&["StrictHostKeyChecking"], &["yes", "no", "ask", "off", "accept-new", "True"]),
    (&["VerifyHostKeyDNS"], &["yes", "no", "ask"]),
    (&["AddressFamily"], &["inet", "inet6", "any"]),
    (&["Compression"], &["yes", "no"]),
    (&["ControlMaster"], &["yes", "no", "ask", "auto", "autoask"]),
    (&["RequestTTY"], &["yes", "no", "force", "auto"]),
    (&["SessionType"], &["none", "subsystem", "default"]),
    (&["Tunnel"], &["yes", "no", "ethernet", "point-to-point"]),
    (&["LogLevel"], &["QUIET", "info", "Verbose", "DEBUG", "debug1", "DEBUG3"]),
    (&["ConnectTimeout", "ForwardX11Timeout"], &["10", "1m", "1h30m5s", "none", "0"]),
    (&["ServerAliveCountMax", "NumberOfPasswordPrompts", "ConnectionAttempts", "RequiredRSASize", "CanonicalizeMaxDots"], &["1", "3", "2048", "+4"]),
    (&["PreferredAuthentications"], &["publickey", "publickey,password", "\"publickey\""]),
    (&["BindAddress", "BindInterface", "XAuthLocation", "PKCS11Provider", "SecurityKeyProvider", "RevokedHostKeys", "KbdInteractiveDevices", "GSSAPIServerIdentity"],
     &["10.0.0.2", "/a/b", "none", "\"x y\"", "None"]),
    (&["HostKeyAlias"], &["Alias", "a.b", "\"x\""]),
    (&["IdentityAgent"], &["none", "SSH_AUTH_SOCK", "~/a.sock", "/run/%u/%h", "$SOCK", "${CARGO_PKG_NAME}"]),
    (&["UserKnownHostsFile"], &["~/k", "~/k ~/k2", "none", "\"/a b\" /c", "/k/%h-%p-%r-%k-%n", "/k # x", "# nothing", "${CARGO_PKG_NAME}"]),
    (&["GlobalKnownHostsFile"], &["/g", "/g /h", "none", "'/a b' /c"]),
    (&["ProxyCommand"], &["nc %h %p", "none", "\"nc\" %h", "= nc %h", "nc # no comment", "None", "'a b'"]),
    (&["ProxyJump"], &["none", "gate", "ada@gate:2222", "a,b,c", "[::1]:7", "10.0.0.7", "ssh://ada@gate:7", "gate # x", "a, b", "NONE", "n1", "ssh://b%20c@gate"]),
    (&["KnownHostsCommand", "LocalCommand"], &["/bin/x %H", "none"]),
    (&["Ciphers"], &["aes128-ctr", "+aes128-cbc", "-aes128*", "^aes256-ctr", "aes256-ctr,aes128-ctr,aes256-ctr", "aes128-ctr,"]),
    (&["MACs"], &["hmac-sha2-256", "+hmac-md5", "-umac*,hmac-sha1*", "^hmac-sha1"]),
    (&["KexAlgorithms"], &["curve25519-sha256", "+diffie-hellman-group1-sha1", "-ecdh*", "^ecdh-sha2-nistp256"]),
    (&["HostKeyAlgorithms", "PubkeyAcceptedAlgorithms", "PubkeyAcceptedKeyTypes", "HostbasedAcceptedAlgorithms", "HostbasedKeyTypes"],
     &["ssh-ed25519", "+ssh-rsa", "+ssh-*", "-ecdsa*", "^rsa-sha2-256", "ssh-ed*,rsa*", "*cert*"]),
    (&["CASignatureAlgorithms"], &["ssh-ed25519", "+ssh-rsa", "-ecdsa*", "^rsa-sha2-256"]),
    (&["SendEnv"], &["LANG LC_*", "A B", "-L*", "A # b", "-A B"]),
    (&["SetEnv"], &["A=1 B=2", "A=2", "\"C=a b\"", "A=1 A=2"]),
    (&["CanonicalizeHostname"], &["no", "yes", "always", "false"]),
    (&["CanonicalizeFallbackLocal"], &["yes"]),
    (&["IgnoreUnknown"], &["Foo", "foo,bar", "f*", "X*", "*,!foo"]),
    (&["Protocol", "UseRoaming", "RSAAuthentication", "Cipher"], &["2", "no", "x y z"]),
    (&["LocalForward"], &["8080 a:80", "[::1]:9 b:9"]),
    (&["ControlPath", "ControlPersist", "ForwardAgent", "RekeyLimit", "EscapeChar", "AddKeysToAgent"], &["none", "no", "none", "default", "none", "no"]),
];

/// Invalid and doubtful lines.
const INVALID: &[&str] = &[
    "Port 0",
    "Port 99999",
    "Port x",
    "Port 22 23",
    "Port",
    "Port=",
    "User",
    "User \"\"",
    "User \"a",
    "Foo bar",
    "Bar",
    "Bar x",
    "ConnectTimeout 5x",
    "StrictHostKeyChecking perhaps",
    "Host \"\"",
    "Match",
    "Match all host n1",
    "Match host",
    "Match foo bar",
    "Host 'a",
    "ProxyJump a:b:c",
    "ProxyJump @",
    "Ciphers rot13",
    "Ciphers",
    "UserKnownHostsFile none x",
    "UserKnownHostsFile \"\"",
    "SetEnv x",
    "SendEnv A=b",
    "IdentityAgent ${NO_SUCH_VARIABLE_X}",
    "IdentityFile",
    "IdentitiesOnly yes no",
    "Include \"\"",
    "CanonicalDomains a..b",
    "HostName %x",
    "Port \"22",
    "=",
    "\"",
    "#\"",
    "=Port 22",
    "UserKnownHostsFile /%Z",
    "Match !all",
    "Match final all",
    "Match host \"n1",
    "CanonicalizeMaxDots -1",
    "ConnectionAttempts 0",
];

pub(crate) fn case(rng: &mut Rng) -> Case {
    let mut case = Case::default();
    for name in ["config", ".ssh/a.conf", ".ssh/d/1.conf", ".ssh/d/2.conf", "b.conf"] {
        let max_lines = if name == "config" { 25 } else { 6 };
        let mut text = String::new();
        for _ in 0..=rng.below(max_lines) {
            text.push_str(&line(rng, name));
            text.push_str(rng.choose(&["\n", "\n", "\n", "\n", "\r\n", " \n", "\t\n", "\n\n"]));
        }
        case.files.push((name.to_owned(), 0o600, text));
    }
    for _ in 0..3 {
        case.hosts.push(HostArg {
            name: rng.choose(HOSTS).to_owned(),
            user: rng.one_in(6).then(|| rng.choose(&["ada", "eve", "bob"]).to_owned()),
            port: rng.one_in(6).then_some(2022),
        });
    }
    case
}

fn line(rng: &mut Rng, file: &str) -> String {
    let before = rng.choose(&["", "", "", "    ", "\t", " \t"]);
    let words = match rng.below(24) {
        0..=4 => {
            let mut words = random_keyword(rng, "Host");
            for _ in 0..=rng.below(3) {
                let pattern = loop {
                    let pattern = rng.choose(PATTERNS);
                    if !pattern.is_empty() {
                        break pattern;
                    }
                };
                let quote = rng.choose(&["", "", "", "\"", "'"]);
                write!(words, "{quote}{pattern}{quote} ").unwrap();
            }
            words
        }
        5..=7 => match_line(rng),
        8 => rng.choose(&["", "# comment", "#Port 7", "  # \"x"]).to_owned(),
        9 if file == "config" || rng.one_in(4) => include_line(rng, file),
        10 if rng.one_in(5) => rng.choose(INVALID).to_owned(),
        _ => {
            let (keywords, values) = LINES.get(rng.below(LINES.len())).unwrap();
            let keyword = rng.choose(keywords);
            let value = match keyword {
                // Some of these keywords accept only one of the values.
                "ControlPersist" | "ForwardAgent" | "AddKeysToAgent" => "no",
                "RekeyLimit" => "default",
                keyword if keyword == "ControlPath" || keyword == "EscapeChar" => "none",
                _ => rng.choose(values),
            };
            let comment = match keyword {
                "ProxyCommand" | "ProxyJump" | "KnownHostsCommand" | "LocalCommand" => "",
                _ => rng.choose(&["", "", "", " # x", " #"]),
            };
            format!("{}{value}{comment}", random_keyword(rng, keyword))
        }
    };
    format!("{before}{words}")
}

/// Returns a keyword in random case, with a random separator.
fn random_keyword(rng: &mut Rng, keyword: &str) -> String {
    let keyword = match rng.below(5) {
        0 => keyword.to_ascii_lowercase(),
        1 => keyword.to_ascii_uppercase(),
        2 if rng.one_in(4) => format!("\"{keyword}\""),
        _ => keyword.to_owned(),
    };
    let gap = if keyword.starts_with('"') {
        " "
    } else {
        rng.choose(&[" ", " ", " ", " ", "\t", "=", " = ", " =", "= ", "  \t "])
    };
    format!("{keyword}{gap}")
}

fn match_line(rng: &mut Rng) -> String {
    if rng.one_in(6) {
        return rng
            .choose(&[
                "Match all",
                "Match final",
                "Match canonical",
                "Match !final",
                "Match all # x",
                "Match final all",
            ])
            .to_owned();
    }
    let mut words = "Match".to_owned();
    for _ in 0..=rng.below(2) {
        let not = rng.choose(&["", "", "", "!"]);
        let names = &["host", "originalhost", "user", "localuser", "final", "canonical", "HOST"];
        let name = rng.choose(names);
        write!(words, " {not}{name}").unwrap();
        if ["final", "canonical"].contains(&name) {
            continue;
        }
        let list: Vec<&str> = if name.contains("user") {
            vec![rng.choose(&["ada", "root", "*", "a*,!ada", "eve"])]
        } else {
            (0..=rng.below(2)).map(|_| rng.choose(PATTERNS)).filter(|p| !p.is_empty()).collect()
        };
        let list = if list.is_empty() { "n1".to_owned() } else { list.join(",") };
        match rng.below(5) {
            0 => write!(words, " \"{list}\"").unwrap(),
            1 => write!(words, "={list}").unwrap(),
            _ => write!(words, " {list}").unwrap(),
        }
    }
    if rng.one_in(30) {
        words.push_str(" exec true");
    }
    words.push_str(rng.choose(&["", "", "", " # x"]));
    words
}

fn include_line(rng: &mut Rng, file: &str) -> String {
    let names = &[
        "a.conf",
        "~/b.conf",
        "d/*.conf",
        "gone",
        "d/?.conf d/[2].conf",
        "~/.ssh/d/1.conf",
        "\"a.conf\"",
        "d/*",
        "gone/*",
    ];
    let name = if file == "config" { rng.choose(names) } else { rng.choose(&["gone", "d/3*"]) };
    format!("{}{name}", random_keyword(rng, "Include"))
}

/// Returns random bytes with keywords in between.
pub(crate) fn noise(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..rng.below(60) {
        match rng.below(8) {
            0 => bytes.push(b'\n'),
            1 => bytes.extend(
                rng.choose(&["Host ", "Match ", "Include ", "all", "exec ", "IgnoreUnknown *\n"])
                    .bytes(),
            ),
            2 => bytes.extend(
                rng.choose(&[
                    "\"", "'", "\\", "=", "#", "%", "${", "}", "~", "[", "]", "\0", "\u{fffd}",
                ])
                .bytes(),
            ),
            3 => bytes.extend(line(rng, "x").bytes()),
            4 => bytes.extend(std::iter::repeat_n(b'*', rng.below(3000))),
            _ => bytes.push(rng.next_u64().to_le_bytes()[0]),
        }
    }
    bytes
}
