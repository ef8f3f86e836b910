//! Host key verification compared with the real `ssh`: the same files, certificates and options with both clients,
//! against the same sshd.

use std::collections::BTreeMap;
use std::fs;

use gtop_collect::transport::Fault;
use gtop_ssh::{self as ssh, HostKeyStatus, Origin};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::harness::lab::{ADDRESS, Lab, Sshd, read_output, run, ssh_target};

/// One set of files and options.
struct Case {
    /// What it tests.
    name: &'static str,
    /// The server, by the certificate it has.
    server: &'static str,
    /// The user's file, with placeholders.
    known: &'static str,
    /// The global file.
    global: &'static str,
    /// Lines for the client's configuration.
    options: &'static str,
    /// The expected outcome of both clients.
    want: &'static str,
}

/// The base for struct update.
const NONE: Case = Case { name: "", server: "", known: "", global: "", options: "", want: "" };

/// The servers, keys and certificates of all cases.
struct Fixture {
    lab: Lab,
    servers: BTreeMap<&'static str, Sshd>,
}

/// The server certificates: name, signing key and arguments of `ssh-keygen`.
const CERTIFICATES: &[(&str, &str, &[&str])] = &[
    ("good", "ca", &["-h", "-z", "7", "-n", "127.0.7.1,cluster"]),
    ("elsewhere", "ca", &["-h", "-n", "127.0.7.2"]),
    ("starred", "ca", &["-h", "-n", "127.0.*"]),
    ("with port", "ca", &["-h", "-n", "[127.0.7.1]:22"]),
    ("expired", "ca", &["-h", "-n", ADDRESS, "-V", "20200101:20210101"]),
    ("early", "ca", &["-h", "-n", ADDRESS, "-V", "+10w:+20w"]),
    ("of a user", "ca", &["-n", ADDRESS]),
    ("critical", "ca", &["-h", "-n", ADDRESS, "-O", "critical:strange=1"]),
    ("extended", "ca", &["-h", "-n", ADDRESS, "-O", "extension:strange=1"]),
    ("rsa", "ca_rsa", &["-h", "-n", ADDRESS]),
    ("sha1", "ca_rsa", &["-h", "-n", ADDRESS, "-t", "ssh-rsa"]),
    ("ecdsa", "ca_ecdsa", &["-h", "-n", ADDRESS]),
];

impl Fixture {
    async fn new(certificates: &[&'static str]) -> Option<Self> {
        let lab = Lab::new().await?;
        for name in ["wrong", "ca", "ca2"] {
            lab.key(name, &["-t", "ed25519"]);
        }
        for name in ["host_ecdsa", "wrong_ecdsa", "ca_ecdsa"] {
            lab.key(name, &["-t", "ecdsa"]);
        }
        lab.key("ca_rsa", &["-t", "rsa", "-b", "2048"]);
        let mut servers = BTreeMap::new();
        let plain = format!("HostKey {}", lab.path("host_ecdsa").display());
        servers.insert("", lab.sshd(&plain).await);
        for name in certificates {
            let (_, signer, words) = CERTIFICATES.iter().find(|(one, ..)| one == name).unwrap();
            let key = format!("host {name}.pub").replace(' ', "_");
            fs::copy(lab.path("host_ed25519.pub"), lab.path(&key)).unwrap();
            let (key, signer) = (lab.path(&key), lab.path(signer));
            let (key, signer) = (key.to_str().unwrap(), signer.to_str().unwrap());
            run("ssh-keygen", &[&["-q", "-s", signer, "-I", name], *words, &[key]].concat()).await;
            let certificate = key.replace(".pub", "-cert.pub");
            servers.insert(*name, lab.sshd(&format!("HostCertificate {certificate}")).await);
        }
        Some(Self { lab, servers })
    }

    /// Replaces the placeholders.
    fn expand(&self, text: &str, port: u16) -> String {
        let mut text = text
            .replace("<N>", &format!("[{ADDRESS}]:{port}"))
            .replace("<H>", ADDRESS)
            .replace("<P>", &port.to_string())
            .replace("<DIR>", &self.lab.folder.path().display().to_string());
        for (mark, file) in [
            ("<G>", "host_ed25519"),
            ("<E>", "host_ecdsa"),
            ("<W>", "wrong"),
            ("<X>", "wrong_ecdsa"),
            ("<CA>", "ca"),
            ("<CA2>", "ca2"),
            ("<RSA>", "ca_rsa"),
            ("<EC>", "ca_ecdsa"),
        ] {
            if text.contains(mark) {
                let key = self.lab.text(&format!("{file}.pub"));
                text = text.replace(mark, key.trim_end().rsplit_once(' ').unwrap().0);
            }
        }
        text
    }

    fn port(&self, server: &str) -> u16 {
        self.servers.get(server).unwrap().port
    }

    fn write_case(&self, case: &Case) {
        let port = self.port(case.server);
        self.lab.write("known", &self.expand(case.known, port));
        self.lab.write("global", &self.expand(case.global, port));
        self.lab.write_config(port, &self.expand(case.options, port));
    }

    /// Connects with the real `ssh`.
    async fn run_ssh(&self) -> &'static str {
        let config = self.lab.path("config");
        let running = Command::new("ssh")
            .args(["-F", config.to_str().unwrap(), "-o", "BatchMode=yes"])
            .args(["-o", "UpdateHostKeys=no", "-o", "KexAlgorithms=curve25519-sha256"])
            .args(["node", "echo", "in"])
            .output();
        let output = running.await.unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.stdout == b"in\n" {
            return "in";
        }
        let messages = [
            ("Error checking host key", "unusable"),
            ("revoked", "revoked"),
            ("HAS CHANGED", "changed"),
            ("Host key verification failed", "unknown"),
        ];
        let outcome = messages.iter().find(|(message, _)| stderr.contains(message));
        outcome.unwrap_or_else(|| panic!("ssh says {stderr}")).1
    }

    /// Connects with gtop.
    async fn run_gtop(&self) -> (&'static str, String) {
        match self.lab.open("echo in").await {
            Ok(mut channel) => {
                assert_eq!(read_output(&mut channel).await.stdout, "in\n");
                ("in", String::new())
            }
            Err(fault) => (outcome(&fault), fault.to_string()),
        }
    }

    async fn compare_all(&self, cases: impl Iterator<Item = Case>) {
        let mut wrong = Vec::new();
        for case in cases {
            self.write_case(&case);
            let before = [self.lab.text("known"), self.lab.text("global")];
            let ssh = self.run_ssh().await;
            let after_ssh = [self.lab.text("known"), self.lab.text("global")];
            let [known, global] = &before;
            self.lab.write("known", known);
            self.lab.write("global", global);
            let (gtop, why) = self.run_gtop().await;
            let after_gtop = [self.lab.text("known"), self.lab.text("global")];
            if [ssh, gtop] != [case.want; 2] {
                wrong.push(format!("{}: ssh {ssh}, gtop {gtop} {why}", case.name));
            }
            // ssh appends to a last line without a newline.
            let has_ends = before.iter().all(|text| text.is_empty() || text.ends_with('\n'));
            if has_ends && after_ssh != after_gtop && !case.options.contains("HashKnownHosts yes") {
                wrong.push(format!("{}: wrote {after_gtop:#?}, ssh {after_ssh:#?}", case.name));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "no other fault is about host keys")]
fn outcome(fault: &Fault) -> &'static str {
    match fault {
        Fault::Ssh(
            ssh::Fault::HostKeyUnknown { .. }
            | ssh::Fault::HostKeyNotKept { .. }
            | ssh::Fault::HostCertificateRefused { .. },
        ) => "unknown",
        Fault::Ssh(ssh::Fault::HostKeyChanged(_)) => "changed",
        Fault::Ssh(ssh::Fault::HostKeyRevoked { .. }) => "revoked",
        Fault::Ssh(ssh::Fault::BadConfiguration { why }) if why.contains("RevokedHostKeys") => {
            "unusable"
        }
        other => panic!("{other}"),
    }
}

/// Name, the user's file, expected outcome.
#[rustfmt::skip]
const PLAIN: &[(&str, &str, &str)] = &[
    ("exact", "<N> <G>", "in"),
    ("nobody", "", "unknown"),
    ("another host", "other <G>", "unknown"),
    ("wrong key", "<N> <W>", "changed"),
    ("wrong key of another kind", "<N> <X>", "changed"),
    ("two keys", "<N> <W>\n<N> <G>", "in"),
    ("two keys the other way", "<N> <G>\n<N> <W>", "in"),
    ("known by another kind", "<N> <E>", "in"),
    ("good and wrong of another kind", "<N> <X>\n<N> <G>", "in"),
    ("wrong, and good of another kind", "<N> <W>\n<N> <E>", "changed"),
    ("without its port", "<H> <G>", "in"),
    ("without its port, wrong", "<H> <W>", "unknown"),
    ("without its port, another kind", "<H> <E>", "unknown"),
    ("wrong without its port, good with it", "<H> <W>\n<N> <G>", "in"),
    ("good without its port, wrong with it", "<H> <G>\n<N> <W>", "changed"),
    ("several names", "a,<N>,b <G>", "in"),
    ("pattern", "[127.0.*]:<P> <G>", "in"),
    ("pattern of one letter", "[127.0.7.?]:<P> <G>", "in"),
    ("pattern with a longer port", "[127.0.7.?]:1<P> <G>", "unknown"),
    ("pattern over the port", "[<H>]:* <G>", "in"),
    ("every host", "* <G>", "in"),
    ("every host, wrong", "* <W>", "changed"),
    ("negated with its port, known without", "*,!<N> <G>", "in"),
    ("negated", "*,!<N>,!<H> <G>", "unknown"),
    ("negated first", "!<N>,!<H>,* <G>", "unknown"),
    ("negated by a pattern", "<N>,!*:<P> <G>", "unknown"),
    ("named and negated", "<N>,!<N> <G>", "unknown"),
    ("only negated", "!other <G>", "unknown"),
    ("negated for another", "*,!other <G>", "in"),
    ("negated, but in another line", "*,!<N> <W>\n<N> <G>", "in"),
    ("a negated wrong key is not another key", "*,!<N> <W>", "unknown"),
    ("upper case", "CLUSTER,<N> <G>", "in"),
    ("tabs", "  <N>\t\t<G>", "in"),
    ("ends of line of Windows", "# x\r\n<N> <G>\r\n", "in"),
    ("comments", "# <N> <W>\n<N> <G> a comment # with a hash\n#<N> <W>", "in"),
    ("comment in place of a key", "<N> # <G>", "unknown"),
    ("garbage among good ones", "<N>\n<N> ssh-ed25519\n<N> ssh-ed25519 rubbish\n<N> 1024 35 17\n|1|x|y <G>\n\n,\n<N> <G>", "in"),
    ("key under a false name of its kind", "<N> ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIN+Wjn4+4Fcvl2JlKpggT+wCRxpSvtqqpVrQrKN1/A22", "unknown"),
    ("no last end of line", "other <W>\n<N> <G>", "in"),
    ("unknown marker", "@strange <N> <G>", "unknown"),
    ("unknown marker on a wrong key", "@strange <N> <W>\n<N> <G>", "in"),
    ("marker in upper case", "@REVOKED <N> <G>\n<N> <G>", "in"),
    ("revoked everywhere", "@revoked * <G>\n<N> <G>", "revoked"),
    ("revoked behind", "<N> <G>\n@revoked <N> <G>", "revoked"),
    ("revoked and not known", "@revoked * <G>", "revoked"),
    ("another key revoked", "@revoked * <W>\n<N> <G>", "in"),
    ("revoked for another host", "@revoked other <G>\n<N> <G>", "in"),
    ("revoked, but not here", "@revoked *,!<N> <G>\n<N> <G>", "in"),
    ("revoked without its port", "@revoked <H> <G>\n<N> <G>", "in"),
    ("one kind revoked, known by the other", "@revoked * <G>\n<N> <G>\n<N> <E>", "in"),
    ("only the authority of others", "@cert-authority * <G>", "unknown"),
    ("an authority and a key", "@cert-authority * <CA>\n<N> <G>", "in"),
];

/// Name, the user's file, the global file, options, expected outcome.
#[rustfmt::skip]
const OPTIONS: &[(&str, &str, &str, &str, &str)] = &[
    ("global file", "", "<N> <G>", "", "in"),
    ("wrong in one file, good in the other", "<N> <W>", "<N> <G>", "", "in"),
    ("revoked in the global file", "<N> <G>", "@revoked * <G>", "", "revoked"),
    ("several files", "<N> <G>", "", "UserKnownHostsFile <DIR>/none <DIR>/known", "in"),
    ("no file", "<N> <G>", "", "UserKnownHostsFile /dev/null", "unknown"),
    ("alias", "cluster <G>", "", "HostKeyAlias cluster", "in"),
    ("alias in upper case", "cluster <G>", "", "HostKeyAlias CLUSTER", "in"),
    ("alias, but known by name", "<N> <G>\n<H> <G>", "", "HostKeyAlias cluster", "unknown"),
    ("alias at a wrong key", "cluster <W>\n<N> <G>", "", "HostKeyAlias cluster", "changed"),
    ("kind left out", "<N> <G>", "", "HostKeyAlgorithms ecdsa-sha2-nistp256", "changed"),
    ("kind chosen", "<N> <E>", "", "HostKeyAlgorithms ecdsa-sha2-nistp256", "in"),
    ("strict", "", "", "StrictHostKeyChecking yes", "unknown"),
    ("localhost, unknown", "", "", "NoHostAuthenticationForLocalhost yes", "in"),
    ("localhost, wrong", "<N> <W>", "", "NoHostAuthenticationForLocalhost yes", "in"),
    ("localhost, revoked", "@revoked * <G>", "", "NoHostAuthenticationForLocalhost yes", "in"),
    ("localhost, strict", "", "", "NoHostAuthenticationForLocalhost yes\nStrictHostKeyChecking yes", "in"),
    ("localhost, not asked for", "", "", "NoHostAuthenticationForLocalhost no", "unknown"),
    ("localhost by a name of its own", "", "", "NoHostAuthenticationForLocalhost yes\nHostKeyAlias cluster", "unknown"),
    ("localhost, in the list of revoked keys", "", "", "NoHostAuthenticationForLocalhost yes\nRevokedHostKeys <DIR>/host_ed25519.pub", "revoked"),
    ("localhost, new", "", "", "NoHostAuthenticationForLocalhost yes\nStrictHostKeyChecking accept-new", "in"),
    ("localhost behind a command", "", "", "NoHostAuthenticationForLocalhost yes\nProxyCommand /usr/sbin/sshd -i -f <DIR>/sshd_config", "unknown"),
];

/// Name, certificate, the user's file, options, the global file, expected outcome.
#[rustfmt::skip]
const CERTIFIED: &[(&str, &str, &str, &str, &str, &str)] = &[
    ("authority of all", "good", "@cert-authority * <CA>", "", "", "in"),
    ("authority of the host", "good", "@cert-authority <N> <CA>", "", "", "in"),
    ("authority without the port", "good", "@cert-authority <H> <CA>", "", "", "in"),
    ("authority without the port, by a pattern", "good", "@cert-authority 127.* <CA>", "", "", "in"),
    ("authority of others", "good", "@cert-authority other <CA>", "", "", "unknown"),
    ("authority negated", "good", "@cert-authority *,!<N>,!<H> <CA>", "", "", "unknown"),
    ("authority negated with the port only", "good", "@cert-authority *,!<N> <CA>", "", "", "in"),
    ("another authority", "good", "@cert-authority * <CA2>", "", "", "unknown"),
    ("two authorities", "good", "@cert-authority * <CA2>\n@cert-authority * <CA>", "", "", "in"),
    ("authority that is no authority", "good", "* <CA>", "", "", "changed"),
    ("marker before a tab", "good", "@cert-authority\t* <CA>", "", "", "unknown"),
    ("revoked authority", "good", "@revoked * <CA>\n@cert-authority * <CA>", "", "", "revoked"),
    ("revoked authority, key known", "good", "@revoked * <CA>\n<N> <G>", "", "", "revoked"),
    ("revoked authority of others, key known", "good", "@revoked other <CA>\n<N> <G>", "", "", "in"),
    ("revoked key in a certificate", "good", "@revoked * <G>\n@cert-authority * <CA>", "", "", "revoked"),
    ("no authority, key known", "good", "<N> <G>", "", "", "in"),
    ("another authority, key known", "good", "@cert-authority * <CA2>\n<N> <G>", "", "", "in"),
    ("no authority, wrong key known", "good", "<N> <W>", "", "", "changed"),
    ("authority, wrong key known", "good", "@cert-authority * <CA>\n<N> <W>", "", "", "in"),
    ("authority, another kind known", "good", "@cert-authority * <CA>\n<N> <X>", "", "", "in"),
    ("nothing", "good", "", "", "", "unknown"),
    ("for another host", "elsewhere", "@cert-authority * <CA>", "", "", "unknown"),
    ("for another host, key known", "elsewhere", "@cert-authority * <CA>\n<N> <G>", "", "", "in"),
    ("for a pattern", "starred", "@cert-authority * <CA>", "", "", "unknown"),
    ("for a name with a port", "with port", "@cert-authority * <CA>", "", "", "unknown"),
    ("expired", "expired", "@cert-authority * <CA>", "", "", "unknown"),
    ("expired, key known", "expired", "@cert-authority * <CA>\n<N> <G>", "", "", "in"),
    ("expired, wrong key known", "expired", "@cert-authority * <CA>\n<N> <W>", "", "", "changed"),
    ("not yet valid", "early", "@cert-authority * <CA>", "", "", "unknown"),
    ("of a user", "of a user", "@cert-authority * <CA>", "", "", "unknown"),
    ("critical option", "critical", "@cert-authority * <CA>", "", "", "unknown"),
    ("extension", "extended", "@cert-authority * <CA>", "", "", "in"),
    ("signed by RSA", "rsa", "@cert-authority * <RSA>", "", "", "in"),
    ("signed by RSA with SHA-1", "sha1", "@cert-authority * <RSA>", "", "", "unknown"),
    ("signed by ECDSA", "ecdsa", "@cert-authority * <EC>", "", "", "in"),
    ("authority left out", "ecdsa", "@cert-authority * <EC>", "CASignatureAlgorithms ssh-ed25519", "", "unknown"),
    ("SHA-1 asked for", "sha1", "@cert-authority * <RSA>", "CASignatureAlgorithms +ssh-rsa", "", "in"),
    ("alias", "good", "@cert-authority cluster <CA>", "HostKeyAlias cluster", "", "in"),
    ("alias in upper case", "good", "@cert-authority cluster <CA>", "HostKeyAlias CLUSTER", "", "in"),
    ("alias the certificate does not name", "good", "@cert-authority * <CA>", "HostKeyAlias other", "", "unknown"),
    ("authority in the global file", "good", "", "", "@cert-authority * <CA>", "in"),
    ("certificates left out", "good", "@cert-authority * <CA>", "HostKeyAlgorithms ssh-ed25519", "", "unknown"),
    ("certificates behind", "good", "@cert-authority * <CA>", "HostKeyAlgorithms ssh-ed25519,ssh-ed25519-cert-v01@openssh.com", "", "unknown"),
    ("an expired one, with accept-new", "expired", "@cert-authority * <CA>", "StrictHostKeyChecking accept-new", "", "in"),
];

/// Name, certificate, the user's file, options, expected outcome.
#[rustfmt::skip]
const STRICT: &[(&str, &str, &str, &str, &str)] = &[
    ("new", "", "", "StrictHostKeyChecking accept-new", "in"),
    ("new behind a line without an end", "", "other <W>", "StrictHostKeyChecking accept-new", "in"),
    ("new, another host known", "", "other <W>\n", "StrictHostKeyChecking accept-new", "in"),
    ("new, known", "", "<N> <G>\n", "StrictHostKeyChecking accept-new", "in"),
    ("new, known without its port", "", "<H> <G>\n", "StrictHostKeyChecking accept-new", "in"),
    ("new, wrong without its port", "", "<H> <W>\n", "StrictHostKeyChecking accept-new", "in"),
    ("new, changed", "", "<N> <W>\n", "StrictHostKeyChecking accept-new", "changed"),
    ("new, another kind", "", "<N> <X>\n", "StrictHostKeyChecking accept-new", "changed"),
    ("new, revoked", "", "@revoked * <G>\n", "StrictHostKeyChecking accept-new", "revoked"),
    ("new, negated", "", "*,!<N> <W>\n", "StrictHostKeyChecking accept-new", "in"),
    ("no, new", "", "", "StrictHostKeyChecking no", "in"),
    ("off, new", "", "", "StrictHostKeyChecking off", "in"),
    ("no, known", "", "<N> <G>\n", "StrictHostKeyChecking no", "in"),
    ("no, changed", "", "<N> <W>\n", "StrictHostKeyChecking no", "in"),
    ("no, another kind", "", "<N> <X>\n", "StrictHostKeyChecking no", "in"),
    ("yes", "", "", "StrictHostKeyChecking yes", "unknown"),
    ("ask", "", "", "StrictHostKeyChecking ask", "unknown"),
    ("nothing to write to", "", "", "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null", "in"),
    ("nothing to write to, new", "", "", "StrictHostKeyChecking accept-new\nUserKnownHostsFile /dev/null", "in"),
    ("a folder to write to", "", "", "StrictHostKeyChecking accept-new\nUserKnownHostsFile <DIR>", "in"),
    ("no folder to write to", "", "", "StrictHostKeyChecking accept-new\nUserKnownHostsFile /proc/none/known", "in"),
    ("hashed", "", "", "StrictHostKeyChecking accept-new\nHashKnownHosts yes", "in"),
    ("a certificate nobody knows", "good", "", "StrictHostKeyChecking accept-new", "in"),
    ("a certificate of an authority", "good", "@cert-authority * <CA>\n", "StrictHostKeyChecking accept-new", "in"),
    ("a certificate of another", "good", "@cert-authority * <CA2>\n", "StrictHostKeyChecking accept-new", "in"),
];

#[tokio::test]
async fn plain_keys_are_verified_as_by_ssh() {
    let Some(fixture) = Fixture::new(&[]).await else { return };
    let cases = PLAIN.iter().map(|&(name, known, want)| Case { name, known, want, ..NONE });
    fixture.compare_all(cases).await;
}

#[tokio::test]
async fn files_and_options_are_evaluated_as_by_ssh() {
    let Some(fixture) = Fixture::new(&[]).await else { return };
    let cases = OPTIONS.iter().map(|&(name, known, global, options, want)| Case {
        name,
        known,
        global,
        options,
        want,
        ..NONE
    });
    fixture.compare_all(cases).await;
}

#[tokio::test]
async fn hashed_names_are_matched_as_by_ssh() {
    let Some(fixture) = Fixture::new(&[]).await else { return };
    for (text, want) in [
        ("<N> <G>", "in"),
        ("<N> <W>", "changed"),
        ("<H> <G>", "in"),
        ("other <G>", "unknown"),
        ("@revoked <N> <G>\n<N> <G>", "revoked"),
    ] {
        fixture.write_case(&Case { known: text, ..NONE });
        let known = fixture.lab.path("known");
        run("ssh-keygen", &["-q", "-H", "-f", known.to_str().unwrap()]).await;
        assert!(fixture.lab.text("known").contains("|1|"), "{}", fixture.lab.text("known"));
        let (gtop, why) = fixture.run_gtop().await;
        assert_eq!([fixture.run_ssh().await, gtop], [want; 2], "{text}: {why}");
    }
}

#[tokio::test]
async fn certificates_are_verified_as_by_ssh() {
    let all: Vec<_> = CERTIFICATES.iter().map(|(name, ..)| *name).collect();
    let Some(fixture) = Fixture::new(&all).await else { return };
    let cases = CERTIFIED.iter().map(|&(name, server, known, options, global, want)| Case {
        name,
        server,
        known,
        global,
        options,
        want,
    });
    fixture.compare_all(cases).await;
}

#[tokio::test]
async fn strict_host_key_checking_works_as_in_ssh() {
    let Some(fixture) = Fixture::new(&["good"]).await else { return };
    let cases = STRICT.iter().map(|&(name, server, known, options, want)| Case {
        name,
        server,
        known,
        options,
        want,
        ..NONE
    });
    fixture.compare_all(cases).await;
}

#[tokio::test]
async fn revoked_keys_are_refused_even_where_ssh_would_connect() {
    let Some(fixture) = Fixture::new(&["good"]).await else { return };
    let options = "StrictHostKeyChecking no";
    for (server, known) in [("", "@revoked * <G>\n"), ("good", "@revoked * <CA>\n")] {
        fixture.write_case(&Case { server, known, options, ..NONE });
        assert_eq!(
            [fixture.run_gtop().await.0, fixture.run_ssh().await],
            ["revoked", "in"],
            "{known}"
        );
    }
}

#[tokio::test]
async fn a_certificate_without_principals_is_for_no_host() {
    let Some(mut fixture) = Fixture::new(&[]).await else { return };
    let lab = &fixture.lab;
    let (ca, key) = (lab.path("ca"), lab.path("host_ed25519.pub"));
    let words = ["-q", "-s", ca.to_str().unwrap(), "-I", "x", "-h", key.to_str().unwrap()];
    run("ssh-keygen", &words).await;
    let certificate = lab.path("host_ed25519-cert.pub");
    let sshd = lab.sshd(&format!("HostCertificate {}", certificate.display())).await;
    fixture.servers.insert("nobody", sshd);
    fixture.write_case(&Case { server: "nobody", known: "@cert-authority * <CA>", ..NONE });
    let (outcome, why) = fixture.run_gtop().await;
    assert_eq!(outcome, "unknown");
    assert!(why.contains("names no host"), "{why}");
}

#[tokio::test]
async fn revoked_host_keys_are_read_as_by_ssh() {
    let Some(fixture) = Fixture::new(&["good", "extended"]).await else { return };
    let lab = &fixture.lab;
    let port = fixture.port("");
    let (ca, krl) = (lab.path("ca.pub"), lab.path("krl"));
    let (ca, krl) = (ca.to_str().unwrap(), krl.to_str().unwrap());
    let known = "<N> <G>\n@cert-authority * <CA>";
    // The list, whether it is converted to a KRL, and the outcomes of a plain key and of two certificates, the second
    // without a serial.
    let cases = [
        ("<W>\n", false, ["in", "in", "in"]),
        ("# none\n\n", false, ["in", "in", "in"]),
        ("<G>\n", false, ["revoked"; 3]),
        ("  <G> stolen\r\n", false, ["revoked"; 3]),
        ("<CA>\n", false, ["in", "revoked", "revoked"]),
        ("rubbish\n<W>\n", false, ["unusable"; 3]),
        ("<N> <W>\n", false, ["unusable"; 3]),
        ("", false, ["in", "in", "in"]),
        ("key: <W>", true, ["in", "in", "in"]),
        ("key: <G>", true, ["revoked"; 3]),
        ("key: <CA>", true, ["in", "revoked", "revoked"]),
        ("sha1: <G>", true, ["revoked"; 3]),
        ("sha256: <G>", true, ["revoked"; 3]),
        ("sha256: <CA>", true, ["in", "revoked", "revoked"]),
        ("hash: <HASH>", true, ["revoked"; 3]),
        ("serial: 7", true, ["in", "revoked", "in"]),
        ("serial: 1-6\nserial: 8-100", true, ["in", "in", "in"]),
        ("serial: 5-9", true, ["in", "revoked", "in"]),
        ("serial: 1\nserial: 3\nserial: 5\nserial: 7\nserial: 9", true, ["in", "revoked", "in"]),
        ("serial: 1\nserial: 900000\nserial: 7", true, ["in", "revoked", "in"]),
        ("serial: 1-18446744073709551615", true, ["in", "revoked", "in"]),
        ("id: good", true, ["in", "revoked", "in"]),
        ("id: extended\nid: other", true, ["in", "in", "revoked"]),
    ];
    let host = lab.path("host_ed25519.pub");
    let printed = run("ssh-keygen", &["-lf", host.to_str().unwrap()]).await;
    let fingerprint = printed.split(' ').nth(1).unwrap().to_owned();
    let mut wrong = Vec::new();
    for (list, is_binary, wants) in cases {
        let text = fixture.expand(list, port).replace("<HASH>", &fingerprint);
        lab.write(if is_binary { "list" } else { "krl" }, &text);
        if is_binary {
            let list = lab.path("list");
            let words = ["-q", "-k", "-f", krl, "-s", ca, "-z", "3", list.to_str().unwrap()];
            run("ssh-keygen", &words).await;
        }
        for (server, want) in ["", "good", "extended"].into_iter().zip(wants) {
            let options = "RevokedHostKeys <DIR>/krl";
            fixture.write_case(&Case { server, known, options, ..NONE });
            let (gtop, why) = fixture.run_gtop().await;
            let ssh = fixture.run_ssh().await;
            if [ssh, gtop] != [want; 2] {
                wrong.push(format!("{list:?} at {server:?}: ssh {ssh}, gtop {gtop} {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    // A list of every certificate of any signer; an invalid one; a missing one.
    lab.write("list", "serial: 7\nid: extended\n");
    let list = lab.path("list");
    run("ssh-keygen", &["-q", "-k", "-f", krl, "-s", "none", list.to_str().unwrap()]).await;
    let whole = fs::read(krl).unwrap();
    let invalid = [&whole[..], &[99, 0, 0, 0, 0]].concat();
    let cut = whole.len() - 3;
    for (bytes, wants) in [
        (Some(whole.clone()), ["in", "revoked", "revoked"]),
        (Some(whole[..cut].to_vec()), ["unusable"; 3]),
        (Some(invalid), ["unusable"; 3]),
        (None, ["unusable"; 3]),
    ] {
        match &bytes {
            Some(bytes) => fs::write(krl, bytes).unwrap(),
            None => fs::remove_file(krl).unwrap(),
        }
        for (server, want) in ["", "good", "extended"].into_iter().zip(wants) {
            let options = "RevokedHostKeys <DIR>/krl";
            fixture.write_case(&Case { server, known, options, ..NONE });
            let (gtop, why) = fixture.run_gtop().await;
            assert_eq!([fixture.run_ssh().await, gtop], [want; 2], "{server:?} {bytes:?} {why}");
        }
    }
}

#[tokio::test]
async fn concurrent_new_host_keys_are_each_stored_once() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("MaxStartups 500").await;
    for hash in ["no", "yes"] {
        lab.write("known", "# mine\nother ssh-ed25519 rubbish\n");
        let alias = |at| format!("Host n{at}\nHostKeyAlias n{at}\n");
        let aliases: String = (0..64).map(alias).collect();
        let options = format!("StrictHostKeyChecking accept-new\nHashKnownHosts {hash}");
        lab.write_config(sshd.port, &format!("{options}\n{aliases}"));
        let config = lab.text("config").replace("Host node", "Host n*");
        lab.write("config", &config);
        let transport = lab.transport();
        let mut opening = JoinSet::new();
        // Some nodes twice, and ssh at the same time.
        for at in (0..64).chain(0..16) {
            let transport = transport.clone();
            let target = ssh_target(&format!("n{at}"), None, None);
            opening.spawn(async move { transport.open(&target, "true", |_| ()).await.is_ok() });
        }
        let path = lab.path("config");
        for at in 64..68 {
            let mut ssh = Command::new("ssh");
            ssh.args(["-F", path.to_str().unwrap(), "-o", "BatchMode=yes"]);
            ssh.args(["-o", "KexAlgorithms=curve25519-sha256"]);
            ssh.args(["-o", &format!("HostKeyAlias=n{at}"), &format!("n{at}"), "true"]);
            opening.spawn(async move { ssh.output().await.unwrap().status.success() });
        }
        assert!(opening.join_all().await.into_iter().all(|is_open| is_open));
        let known = lab.text("known");
        assert!(known.starts_with("# mine\nother ssh-ed25519 rubbish\n"), "{known}");
        assert_eq!(known.lines().count(), 2 + 64 + 4, "{known}");
        let known = lab.path("known");
        for at in 0..68 {
            let words = ["-F", &format!("n{at}"), "-f", known.to_str().unwrap()];
            let found = run("ssh-keygen", &words).await;
            assert_eq!(found.lines().filter(|line| !line.starts_with('#')).count(), 1, "{found}");
        }
    }
}

#[tokio::test]
async fn trust_reports_known_keys_and_their_lines() {
    let Some(fixture) = Fixture::new(&["good", "expired"]).await else { return };
    let host_key = async |server, known| {
        fixture.write_case(&Case { server, known, ..NONE });
        fixture.lab.host_key().await
    };
    let authority = "@cert-authority * <CA>";
    assert_eq!(host_key("", "<N> <G>").await.status, HostKeyStatus::Known);
    // The host is known by another algorithm, which is then requested.
    let other = host_key("", "<N> <E>").await;
    assert_eq!((other.status, &*other.algorithm), (HostKeyStatus::Known, "ecdsa-sha2-nistp256"));
    let certified = host_key("good", authority).await;
    let at = Origin { file: fixture.lab.path("known").into(), line: 1 };
    assert_eq!(certified.status, HostKeyStatus::Certified { at });
    let expired = host_key("expired", authority).await;
    assert_eq!((expired.status, expired.refusal), (HostKeyStatus::Unknown, None));
    assert_eq!(expired.certificate_problem.as_deref(), Some("has expired"));
    assert!(matches!(host_key("", "<N> <X>").await.refusal, Some(ssh::Fault::HostKeyChanged(_))));
    let revoked = host_key("", "@revoked * <G>").await;
    assert!(matches!(revoked.refusal, Some(ssh::Fault::HostKeyRevoked { .. })), "{revoked:?}");
}
