//! Host keys as the real `ssh` judges them: the same files, certificates and options, put before
//! `ssh` and before gtop, against the same sshd.

use std::collections::BTreeMap;
use std::fs;

use gtop::transport::Fault;
use tokio::process::Command;

use crate::lab::{ADDRESS, Lab, Sshd, listen, run};

/// One arrangement of files and options.
#[derive(Default)]
struct Case {
    /// What it shows.
    name: &'static str,
    /// The server, by the certificate it has.
    server: &'static str,
    /// The user's file, with placeholders.
    known: &'static str,
    /// The machine's file.
    global: &'static str,
    /// Lines for the client's configuration.
    options: &'static str,
    /// What both must say.
    want: &'static str,
}

/// Servers, keys and certificates for all cases.
struct Court {
    lab: Lab,
    servers: BTreeMap<&'static str, Sshd>,
}

/// The certificates of the servers: their name, the key that signs and the words for `ssh-keygen`.
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

impl Court {
    async fn new(certificates: &[&'static str]) -> Option<Self> {
        let lab = Lab::new().await?;
        for name in ["wrong", "ca", "ca2"] {
            lab.key(name, &["-t", "ed25519"]).await;
        }
        for name in ["host_ecdsa", "wrong_ecdsa", "ca_ecdsa"] {
            lab.key(name, &["-t", "ecdsa"]).await;
        }
        lab.key("ca_rsa", &["-t", "rsa", "-b", "2048"]).await;
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

    /// Fills in names and keys.
    fn fill(&self, text: &str, port: u16) -> String {
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

    fn arrange(&self, case: &Case) {
        let port = self.servers[case.server].port;
        self.lab.write("known", &self.fill(case.known, port));
        self.lab.write("global", &self.fill(case.global, port));
        self.lab.write_config(port, &self.fill(case.options, port));
    }

    /// Asks the real `ssh`.
    async fn ssh(&self) -> &'static str {
        let config = self.lab.path("config");
        let asked = Command::new("ssh")
            .args(["-F", config.to_str().unwrap(), "-o", "BatchMode=yes"])
            .args(["-o", "UpdateHostKeys=no", "-o", "KexAlgorithms=curve25519-sha256"])
            .args(["node", "echo", "in"])
            .output();
        let asked = asked.await.unwrap();
        let says = String::from_utf8_lossy(&asked.stderr);
        if asked.stdout == b"in\n" {
            return "in";
        }
        let words = [
            ("Error checking host key", "unusable"),
            ("revoked", "revoked"),
            ("HAS CHANGED", "changed"),
            ("Host key verification failed", "unknown"),
        ];
        let word = words.iter().find(|(sign, _)| says.contains(sign));
        word.unwrap_or_else(|| panic!("ssh says {says}")).1
    }

    /// Asks gtop.
    async fn gtop(&self) -> (&'static str, String) {
        match self.lab.open("echo in").await {
            Ok(mut channel) => {
                assert_eq!(listen(&mut channel).await.stdout, "in\n");
                ("in", String::new())
            }
            Err(fault) => (word(&fault), fault.to_string()),
        }
    }

    async fn try_all(&self, cases: &[Case]) {
        let mut wrong = Vec::new();
        for case in cases {
            self.arrange(case);
            let before = [self.lab.text("known"), self.lab.text("global")];
            let ssh = self.ssh().await;
            let of_ssh = [self.lab.text("known"), self.lab.text("global")];
            let [known, global] = &before;
            self.lab.write("known", known);
            self.lab.write("global", global);
            let (gtop, why) = self.gtop().await;
            let of_gtop = [self.lab.text("known"), self.lab.text("global")];
            if [ssh, gtop] != [case.want; 2] {
                wrong.push(format!("{}: ssh {ssh}, gtop {gtop} {why}", case.name));
            }
            // ssh joins a line to one that has no end.
            let has_ends = before.iter().all(|text| text.is_empty() || text.ends_with('\n'));
            if has_ends && of_ssh != of_gtop && !case.options.contains("HashKnownHosts yes") {
                wrong.push(format!("{}: wrote {of_gtop:#?}, ssh {of_ssh:#?}", case.name));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

fn word(fault: &Fault) -> &'static str {
    match fault {
        Fault::HostKeyUnknown { .. } | Fault::HostCertificateRefused { .. } => "unknown",
        Fault::HostKeyChanged(_) => "changed",
        Fault::HostKeyRevoked { .. } => "revoked",
        Fault::BadConfiguration { why } if why.contains("RevokedHostKeys") => "unusable",
        other => panic!("{other}"),
    }
}

fn plain(name: &'static str, known: &'static str, want: &'static str) -> Case {
    Case { name, known, want, ..Case::default() }
}

#[tokio::test]
async fn plain_keys_are_judged_as_ssh_judges_them() {
    let Some(court) = Court::new(&[]).await else { return };
    let cases = [
        plain("exact", "<N> <G>", "in"),
        plain("nobody", "", "unknown"),
        plain("another host", "other <G>", "unknown"),
        plain("wrong key", "<N> <W>", "changed"),
        plain("wrong key of another kind", "<N> <X>", "changed"),
        plain("two keys", "<N> <W>\n<N> <G>", "in"),
        plain("two keys the other way", "<N> <G>\n<N> <W>", "in"),
        plain("known by another kind", "<N> <E>", "in"),
        plain("good and wrong of another kind", "<N> <X>\n<N> <G>", "in"),
        plain("wrong, and good of another kind", "<N> <W>\n<N> <E>", "changed"),
        plain("without its port", "<H> <G>", "in"),
        plain("without its port, wrong", "<H> <W>", "unknown"),
        plain("without its port, another kind", "<H> <E>", "unknown"),
        plain("wrong without its port, good with it", "<H> <W>\n<N> <G>", "in"),
        plain("good without its port, wrong with it", "<H> <G>\n<N> <W>", "changed"),
        plain("several names", "a,<N>,b <G>", "in"),
        plain("pattern", "[127.0.*]:<P> <G>", "in"),
        plain("pattern of one letter", "[127.0.7.?]:<P> <G>", "in"),
        plain("pattern with a longer port", "[127.0.7.?]:1<P> <G>", "unknown"),
        plain("pattern over the port", "[<H>]:* <G>", "in"),
        plain("every host", "* <G>", "in"),
        plain("every host, wrong", "* <W>", "changed"),
        plain("negated with its port, known without", "*,!<N> <G>", "in"),
        plain("negated", "*,!<N>,!<H> <G>", "unknown"),
        plain("negated first", "!<N>,!<H>,* <G>", "unknown"),
        plain("negated by a pattern", "<N>,!*:<P> <G>", "unknown"),
        plain("only negated", "!other <G>", "unknown"),
        plain("negated for another", "*,!other <G>", "in"),
        plain("negated, but in another line", "*,!<N> <W>\n<N> <G>", "in"),
        plain("a negated wrong key is not another key", "*,!<N> <W>", "unknown"),
        plain("upper case", "CLUSTER,<N> <G>", "in"),
        plain("tabs", "  <N>\t\t<G>", "in"),
        plain("ends of line of Windows", "# x\r\n<N> <G>\r\n", "in"),
        plain("comments", "# <N> <W>\n<N> <G> a comment # with a hash\n#<N> <W>", "in"),
        plain("comment in place of a key", "<N> # <G>", "unknown"),
        plain(
            "garbage among good ones",
            "<N>\n<N> ssh-ed25519\n<N> ssh-ed25519 rubbish\n<N> 1024 35 17\n|1|x|y <G>\n\n,\n<N> <G>",
            "in",
        ),
        plain(
            "key under a false name of its kind",
            "<N> ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIN+Wjn4+4Fcvl2JlKpggT+wCRxpSvtqqpVrQrKN1/A22",
            "unknown",
        ),
        plain("no last end of line", "other <W>\n<N> <G>", "in"),
        plain("unknown marker", "@strange <N> <G>", "unknown"),
        plain("unknown marker on a wrong key", "@strange <N> <W>\n<N> <G>", "in"),
        plain("marker in upper case", "@REVOKED <N> <G>\n<N> <G>", "in"),
        plain("revoked everywhere", "@revoked * <G>\n<N> <G>", "revoked"),
        plain("revoked behind", "<N> <G>\n@revoked <N> <G>", "revoked"),
        plain("revoked and not known", "@revoked * <G>", "revoked"),
        plain("another key revoked", "@revoked * <W>\n<N> <G>", "in"),
        plain("revoked for another host", "@revoked other <G>\n<N> <G>", "in"),
        plain("revoked, but not here", "@revoked *,!<N> <G>\n<N> <G>", "in"),
        plain("revoked without its port", "@revoked <H> <G>\n<N> <G>", "in"),
        plain("one kind revoked, known by the other", "@revoked * <G>\n<N> <G>\n<N> <E>", "in"),
        plain("only the authority of others", "@cert-authority * <G>", "unknown"),
        plain("an authority and a key", "@cert-authority * <CA>\n<N> <G>", "in"),
        Case { name: "global file", global: "<N> <G>", want: "in", ..Case::default() },
        Case {
            name: "wrong in one file, good in the other",
            known: "<N> <W>",
            global: "<N> <G>",
            want: "in",
            ..Case::default()
        },
        Case {
            name: "revoked in the global file",
            known: "<N> <G>",
            global: "@revoked * <G>",
            want: "revoked",
            ..Case::default()
        },
        Case {
            name: "several files",
            known: "<N> <G>",
            options: "UserKnownHostsFile <DIR>/none <DIR>/known",
            want: "in",
            ..Case::default()
        },
        Case {
            name: "no file",
            known: "<N> <G>",
            options: "UserKnownHostsFile /dev/null",
            want: "unknown",
            ..Case::default()
        },
        Case {
            name: "alias",
            known: "cluster <G>",
            options: "HostKeyAlias cluster",
            want: "in",
            ..Case::default()
        },
        Case {
            name: "alias in upper case",
            known: "cluster <G>",
            options: "HostKeyAlias CLUSTER",
            want: "in",
            ..Case::default()
        },
        Case {
            name: "alias, but known by name",
            known: "<N> <G>\n<H> <G>",
            options: "HostKeyAlias cluster",
            want: "unknown",
            ..Case::default()
        },
        Case {
            name: "alias at a wrong key",
            known: "cluster <W>\n<N> <G>",
            options: "HostKeyAlias cluster",
            want: "changed",
            ..Case::default()
        },
        Case {
            name: "kind left out",
            known: "<N> <G>",
            options: "HostKeyAlgorithms ecdsa-sha2-nistp256",
            want: "changed",
            ..Case::default()
        },
        Case {
            name: "kind chosen",
            known: "<N> <E>",
            options: "HostKeyAlgorithms ecdsa-sha2-nistp256",
            want: "in",
            ..Case::default()
        },
        Case {
            name: "strict",
            known: "",
            options: "StrictHostKeyChecking yes",
            want: "unknown",
            ..Case::default()
        },
    ];
    court.try_all(&cases).await;
}

#[tokio::test]
async fn hashed_names_are_judged_as_ssh_judges_them() {
    let Some(court) = Court::new(&[]).await else { return };
    for (text, want) in [
        ("<N> <G>", "in"),
        ("<N> <W>", "changed"),
        ("<H> <G>", "in"),
        ("other <G>", "unknown"),
        ("@revoked <N> <G>\n<N> <G>", "revoked"),
    ] {
        court.arrange(&Case { known: text, ..Case::default() });
        let known = court.lab.path("known");
        run("ssh-keygen", &["-q", "-H", "-f", known.to_str().unwrap()]).await;
        assert!(court.lab.text("known").contains("|1|"), "{}", court.lab.text("known"));
        let (gtop, why) = court.gtop().await;
        assert_eq!([court.ssh().await, gtop], [want; 2], "{text}: {why}");
    }
}

fn certified(
    name: &'static str,
    server: &'static str,
    known: &'static str,
    want: &'static str,
) -> Case {
    Case { name, server, known, want, ..Case::default() }
}

#[tokio::test]
async fn certificates_are_judged_as_ssh_judges_them() {
    let all: Vec<_> = CERTIFICATES.iter().map(|(name, ..)| *name).collect();
    let Some(court) = Court::new(&all).await else { return };
    let cases = [
        certified("authority of all", "good", "@cert-authority * <CA>", "in"),
        certified("authority of the host", "good", "@cert-authority <N> <CA>", "in"),
        certified("authority without the port", "good", "@cert-authority <H> <CA>", "in"),
        certified(
            "authority without the port, by a pattern",
            "good",
            "@cert-authority 127.* <CA>",
            "in",
        ),
        certified("authority of others", "good", "@cert-authority other <CA>", "unknown"),
        certified("authority negated", "good", "@cert-authority *,!<N>,!<H> <CA>", "unknown"),
        certified(
            "authority negated with the port only",
            "good",
            "@cert-authority *,!<N> <CA>",
            "in",
        ),
        certified("another authority", "good", "@cert-authority * <CA2>", "unknown"),
        certified(
            "two authorities",
            "good",
            "@cert-authority * <CA2>\n@cert-authority * <CA>",
            "in",
        ),
        certified("authority that is no authority", "good", "* <CA>", "changed"),
        certified("marker before a tab", "good", "@cert-authority\t* <CA>", "unknown"),
        certified(
            "revoked authority",
            "good",
            "@revoked * <CA>\n@cert-authority * <CA>",
            "revoked",
        ),
        certified("revoked authority, key known", "good", "@revoked * <CA>\n<N> <G>", "revoked"),
        certified(
            "revoked authority of others, key known",
            "good",
            "@revoked other <CA>\n<N> <G>",
            "in",
        ),
        certified(
            "revoked key in a certificate",
            "good",
            "@revoked * <G>\n@cert-authority * <CA>",
            "revoked",
        ),
        certified("no authority, key known", "good", "<N> <G>", "in"),
        certified("another authority, key known", "good", "@cert-authority * <CA2>\n<N> <G>", "in"),
        certified("no authority, wrong key known", "good", "<N> <W>", "changed"),
        certified("authority, wrong key known", "good", "@cert-authority * <CA>\n<N> <W>", "in"),
        certified("authority, another kind known", "good", "@cert-authority * <CA>\n<N> <X>", "in"),
        certified("nothing", "good", "", "unknown"),
        certified("for another host", "elsewhere", "@cert-authority * <CA>", "unknown"),
        certified(
            "for another host, key known",
            "elsewhere",
            "@cert-authority * <CA>\n<N> <G>",
            "in",
        ),
        certified("for a pattern", "starred", "@cert-authority * <CA>", "unknown"),
        certified("for a name with a port", "with port", "@cert-authority * <CA>", "unknown"),
        certified("expired", "expired", "@cert-authority * <CA>", "unknown"),
        certified("expired, key known", "expired", "@cert-authority * <CA>\n<N> <G>", "in"),
        certified(
            "expired, wrong key known",
            "expired",
            "@cert-authority * <CA>\n<N> <W>",
            "changed",
        ),
        certified("not yet valid", "early", "@cert-authority * <CA>", "unknown"),
        certified("of a user", "of a user", "@cert-authority * <CA>", "unknown"),
        certified("critical option", "critical", "@cert-authority * <CA>", "unknown"),
        certified("extension", "extended", "@cert-authority * <CA>", "in"),
        certified("signed by RSA", "rsa", "@cert-authority * <RSA>", "in"),
        certified("signed by RSA with SHA-1", "sha1", "@cert-authority * <RSA>", "unknown"),
        certified("signed by ECDSA", "ecdsa", "@cert-authority * <EC>", "in"),
        Case {
            name: "authority left out",
            options: "CASignatureAlgorithms ssh-ed25519",
            ..certified("", "ecdsa", "@cert-authority * <EC>", "unknown")
        },
        Case {
            name: "SHA-1 asked for",
            options: "CASignatureAlgorithms +ssh-rsa",
            ..certified("", "sha1", "@cert-authority * <RSA>", "in")
        },
        Case {
            name: "alias",
            options: "HostKeyAlias cluster",
            ..certified("", "good", "@cert-authority cluster <CA>", "in")
        },
        Case {
            name: "alias in upper case",
            options: "HostKeyAlias CLUSTER",
            ..certified("", "good", "@cert-authority cluster <CA>", "in")
        },
        Case {
            name: "alias the certificate does not name",
            options: "HostKeyAlias other",
            ..certified("", "good", "@cert-authority * <CA>", "unknown")
        },
        Case {
            name: "authority in the global file",
            global: "@cert-authority * <CA>",
            ..certified("", "good", "", "in")
        },
        Case {
            name: "certificates left out",
            options: "HostKeyAlgorithms ssh-ed25519",
            ..certified("", "good", "@cert-authority * <CA>", "unknown")
        },
        Case {
            name: "certificates behind",
            options: "HostKeyAlgorithms ssh-ed25519,ssh-ed25519-cert-v01@openssh.com",
            ..certified("", "good", "@cert-authority * <CA>", "unknown")
        },
        Case {
            name: "an expired one, with accept-new",
            options: "StrictHostKeyChecking accept-new",
            ..certified("", "expired", "@cert-authority * <CA>", "in")
        },
    ];
    court.try_all(&cases).await;
}

#[tokio::test]
async fn strict_host_key_checking_is_what_it_is_to_ssh() {
    let Some(court) = Court::new(&["good"]).await else { return };
    let new = "StrictHostKeyChecking accept-new";
    let no = "StrictHostKeyChecking no";
    let case = |name, options, known, want| Case { name, options, known, want, ..Case::default() };
    let cases = [
        case("new", new, "", "in"),
        case("new behind a line without an end", new, "other <W>", "in"),
        case("new, another host known", new, "other <W>\n", "in"),
        case("new, known", new, "<N> <G>\n", "in"),
        case("new, known without its port", new, "<H> <G>\n", "in"),
        case("new, wrong without its port", new, "<H> <W>\n", "in"),
        case("new, changed", new, "<N> <W>\n", "changed"),
        case("new, another kind", new, "<N> <X>\n", "changed"),
        case("new, revoked", new, "@revoked * <G>\n", "revoked"),
        case("new, negated", new, "*,!<N> <W>\n", "in"),
        case("no, new", no, "", "in"),
        case("off, new", "StrictHostKeyChecking off", "", "in"),
        case("no, known", no, "<N> <G>\n", "in"),
        case("no, changed", no, "<N> <W>\n", "in"),
        case("no, another kind", no, "<N> <X>\n", "in"),
        case("yes", "StrictHostKeyChecking yes", "", "unknown"),
        case("ask", "StrictHostKeyChecking ask", "", "unknown"),
        case(
            "nothing to write to",
            "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null",
            "",
            "in",
        ),
        case(
            "nothing to write to, new",
            "StrictHostKeyChecking accept-new\nUserKnownHostsFile /dev/null",
            "",
            "in",
        ),
        case(
            "a folder to write to",
            "StrictHostKeyChecking accept-new\nUserKnownHostsFile <DIR>",
            "",
            "in",
        ),
        case(
            "no folder to write to",
            "StrictHostKeyChecking accept-new\nUserKnownHostsFile /proc/none/known",
            "",
            "in",
        ),
        case("hashed", "StrictHostKeyChecking accept-new\nHashKnownHosts yes", "", "in"),
        Case { server: "good", ..case("a certificate nobody knows", new, "", "in") },
        Case {
            server: "good",
            ..case("a certificate of an authority", new, "@cert-authority * <CA>\n", "in")
        },
        Case {
            server: "good",
            ..case("a certificate of another", new, "@cert-authority * <CA2>\n", "in")
        },
    ];
    court.try_all(&cases).await;
    let (known, port) = (court.lab.text("known"), court.servers["good"].port);
    assert!(known.ends_with(&court.fill("<N> <G>\n", port)), "{known}");

    // Stricter than ssh, and meant to be.
    for (server, known) in [("", "@revoked * <G>\n"), ("good", "@revoked * <CA>\n")] {
        court.arrange(&Case { server, known, options: no, ..Case::default() });
        assert_eq!([court.gtop().await.0, court.ssh().await], ["revoked", "in"], "{known}");
    }
}

#[tokio::test]
async fn a_certificate_without_names_is_for_nobody() {
    let Some(mut court) = Court::new(&[]).await else { return };
    let lab = &court.lab;
    let (ca, key) = (lab.path("ca"), lab.path("host_ed25519.pub"));
    let words = ["-q", "-s", ca.to_str().unwrap(), "-I", "x", "-h", key.to_str().unwrap()];
    run("ssh-keygen", &words).await;
    let certificate = lab.path("host_ed25519-cert.pub");
    let sshd = lab.sshd(&format!("HostCertificate {}", certificate.display())).await;
    court.servers.insert("nobody", sshd);
    court.arrange(&certified("", "nobody", "@cert-authority * <CA>", ""));
    let (word, why) = court.gtop().await;
    assert_eq!(word, "unknown");
    assert!(why.contains("names no host"), "{why}");
}

#[tokio::test]
async fn the_list_of_revoked_keys_is_read_as_ssh_reads_it() {
    let Some(court) = Court::new(&["good", "extended"]).await else { return };
    let lab = &court.lab;
    let port = court.servers[""].port;
    let (ca, krl) = (lab.path("ca.pub"), lab.path("krl"));
    let (ca, krl) = (ca.to_str().unwrap(), krl.to_str().unwrap());
    let known = "<N> <G>\n@cert-authority * <CA>";
    // What the list holds, and whether it is made into a binary one; then what becomes of a
    // plain key and of two certificates, of which the second has no number.
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
        let text = court.fill(list, port).replace("<HASH>", &fingerprint);
        lab.write(if is_binary { "list" } else { "krl" }, &text);
        if is_binary {
            let list = lab.path("list");
            let words = ["-q", "-k", "-f", krl, "-s", ca, "-z", "3", list.to_str().unwrap()];
            run("ssh-keygen", &words).await;
        }
        for (server, want) in ["", "good", "extended"].into_iter().zip(wants) {
            let options = "RevokedHostKeys <DIR>/krl";
            court.arrange(&Case { server, known, options, ..Case::default() });
            let (gtop, why) = court.gtop().await;
            let ssh = court.ssh().await;
            if [ssh, gtop] != [want; 2] {
                wrong.push(format!("{list:?} at {server:?}: ssh {ssh}, gtop {gtop} {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    // A list of every certificate, whoever signed it; a broken one; one that is not there.
    lab.write("list", "serial: 7\nid: extended\n");
    let list = lab.path("list");
    run("ssh-keygen", &["-q", "-k", "-f", krl, "-s", "none", list.to_str().unwrap()]).await;
    let whole = fs::read(krl).unwrap();
    let odd = [&whole[..], &[99, 0, 0, 0, 0]].concat();
    let cut = whole.len() - 3;
    for (bytes, wants) in [
        (Some(whole.clone()), ["in", "revoked", "revoked"]),
        (Some(whole[..cut].to_vec()), ["unusable"; 3]),
        (Some(odd), ["unusable"; 3]),
        (None, ["unusable"; 3]),
    ] {
        match &bytes {
            Some(bytes) => fs::write(krl, bytes).unwrap(),
            None => fs::remove_file(krl).unwrap(),
        }
        for (server, want) in ["", "good", "extended"].into_iter().zip(wants) {
            let options = "RevokedHostKeys <DIR>/krl";
            court.arrange(&Case { server, known, options, ..Case::default() });
            let (gtop, why) = court.gtop().await;
            assert_eq!([court.ssh().await, gtop], [want; 2], "{server:?} {bytes:?} {why}");
        }
    }
}
