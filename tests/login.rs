//! Authentication: keys, certificates, agents and prompts, with a real sshd, ssh and ssh-agent.
//!
//! Every test creates its own folder, keys and server. Without an sshd the tests that need one say so and pass.

mod agents;
mod prompts;

use std::fs;
use std::time::Duration;

use gtop_collect::transport::{Fault, Transport};
use gtop_fleet::advice::{self, Known};
use gtop_ssh as ssh;
use tokio::process::Command;

use crate::harness::lab::{ADDRESS, Lab, Sshd, check_echo, node, run, ssh_target};

/// Returns what was tried and refused.
fn tried_credentials(fault: &Fault) -> Vec<String> {
    let Fault::Ssh(ssh::Fault::AuthenticationRefused { tried, .. }) = fault else {
        panic!("{fault}")
    };
    tried.clone()
}

// ---- key types ----

/// Common key types, as arguments of ssh-keygen.
const KINDS: [&[&str]; 7] = [
    &["-t", "ed25519"],
    &["-t", "ecdsa", "-b", "256"],
    &["-t", "ecdsa", "-b", "384"],
    &["-t", "ecdsa", "-b", "521"],
    &["-t", "rsa", "-b", "2048"],
    &["-t", "rsa", "-b", "3072"],
    &["-t", "rsa", "-b", "4096"],
];

#[tokio::test]
async fn every_key_type_in_every_format_authenticates_with_its_passphrase() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let mut wrong = Vec::new();
    for (at, kind) in KINDS.iter().enumerate() {
        let name = format!("key{at}");
        lab.key(&name, kind);
        lab.write("authorized", &lab.text(&format!("{name}.pub")));
        let (file, mut old) = (lab.path(&name), "");
        let only = format!("IdentityFile {}\nIdentitiesOnly yes", file.display());
        lab.write_config(sshd.port, &only);
        for format in ["RFC4716", "PEM", "PKCS8"] {
            for new in ["", "open sesame"] {
                // Few KDF rounds keep the test fast.
                let file = file.to_str().unwrap();
                let rewriting =
                    ["-q", "-p", "-f", file, "-P", old, "-N", new, "-m", format, "-a", "1"];
                run("ssh-keygen", &rewriting).await;
                old = new;
                if let Err(why) = try_key(&lab.transport(), &lab, &name, new).await {
                    wrong.push(format!("{kind:?} {format} {new:?}: {why}"));
                }
            }
        }
    }
    // gtop supports the old PEM encryption only for RSA keys.
    assert_eq!(wrong.len(), 3, "{wrong:#?}");
    for (why, bits) in wrong.iter().zip(["256", "384", "521"]) {
        assert!(why.contains(bits) && why.contains("PEM \"open sesame\""), "{why}");
        assert!(why.contains("is not known to be locked"), "{why}");
    }
}

#[tokio::test]
async fn an_unsupported_key_encryption_is_named_with_the_remedy() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    lab.key("old", &["-t", "ecdsa", "-m", "PEM", "-N", "secret"]);
    lab.write_config(sshd.port, &format!("IdentityFile {}", lab.path("old").display()));
    lab.write("authorized", "");
    let tried = tried_credentials(&lab.open("true").await.unwrap_err());
    assert!(tried[1].contains("ssh-keygen -p"), "{tried:?}");
    assert!(lab.transport().locked_keys(&[node()]).await.is_empty());
}

async fn try_key(
    transport: &Transport,
    lab: &Lab,
    name: &str,
    passphrase: &str,
) -> Result<(), String> {
    let file = lab.path(name);
    if !passphrase.is_empty() {
        if transport.locked_keys(&[node()]).await != [file.clone()] {
            return Err("is not known to be locked".to_owned());
        }
        if transport.unlock(&file, "open barley".to_owned()).await.is_ok() {
            return Err("takes a wrong passphrase".to_owned());
        }
        let opened = transport.unlock(&file, passphrase.to_owned()).await;
        opened.map_err(|_wrong| "does not take its passphrase")?;
    }
    let opened = transport.open(&node(), "true", |_| ()).await;
    opened.map(drop).map_err(|fault| fault.to_string())
}

#[tokio::test]
async fn locked_keys_are_found_however_many_nodes_there_are() {
    let Some(lab) = Lab::new().await else { return };
    lab.key("locked", &["-t", "ed25519", "-N", "secret", "-a", "1"]);
    let locked = lab.path("locked");
    let config = format!("Host n70\n  IdentityFile {}\nHost *\n  User x\n", locked.display());
    lab.write("config", &config);
    let nodes: Vec<_> = (0..=70).map(|at| ssh_target(&format!("n{at}"), None, None)).collect();
    assert_eq!(lab.transport().locked_keys(&nodes).await, std::slice::from_ref(&locked));
    lab.write("config", &format!("BatchMode yes\n{config}"));
    assert!(lab.transport().locked_keys(&nodes).await.is_empty(), "no prompts in batch mode");
}

#[tokio::test]
async fn a_security_key_without_an_agent_is_skipped_with_the_reason() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    lab.write("token", TOKEN);
    run("chmod", &["600", lab.path("token").to_str().unwrap()]).await;
    lab.write("authorized", "");
    lab.write_config(sshd.port, &format!("IdentityFile {}", lab.path("token").display()));
    let tried = tried_credentials(&lab.open("true").await.unwrap_err());
    assert!(tried.iter().any(|tried| tried.contains("needs its security key")), "{tried:?}");
}

/// An `sk-ssh-ed25519` key; its private key would be on a security key that does not exist.
const TOKEN: &str = include_str!("login/token");

// ---- algorithms ----

#[tokio::test]
async fn rsa_signs_with_the_hash_both_sides_allow() {
    let Some(lab) = Lab::new().await else { return };
    lab.key("rsa", &["-t", "rsa", "-b", "2048"]);
    lab.write("authorized", &lab.text("rsa.pub"));
    let identity = format!("IdentityFile {}\nIdentitiesOnly yes", lab.path("rsa").display());
    for (theirs, ours, succeeds) in [
        // The server announces more than it accepts: both gtop and ssh fail.
        ("rsa-sha2-256", "", false),
        ("rsa-sha2-512", "", true),
        ("rsa-sha2-256,rsa-sha2-512", "PubkeyAcceptedAlgorithms rsa-sha2-256", true),
        ("rsa-sha2-256", "PubkeyAcceptedAlgorithms rsa-sha2-256,rsa-sha2-512", true),
        ("rsa-sha2-256", "PubkeyAcceptedAlgorithms rsa-sha2-512", false),
        ("rsa-sha2-512", "PubkeyAcceptedAlgorithms ssh-ed25519", false),
        // The user can allow what is off by default.
        ("ssh-rsa", "", false),
        ("ssh-rsa", "PubkeyAcceptedAlgorithms ssh-rsa", true),
    ] {
        let sshd = lab.sshd(&format!("PubkeyAcceptedAlgorithms {theirs}")).await;
        lab.trust(&sshd);
        lab.write_config(sshd.port, &format!("{ours}\n{identity}"));
        let opened = lab.open("true").await;
        assert_eq!(opened.is_ok(), succeeds, "{theirs} {ours}: {:?}", opened.err());
        assert_eq!(ssh_succeeds(&lab).await, succeeds, "ssh itself: {theirs} {ours}");
        if ours.contains("ed25519") {
            let tried = tried_credentials(&opened.unwrap_err());
            assert!(tried[1].contains("PubkeyAcceptedAlgorithms"), "{tried:?}");
        }
    }
}

#[tokio::test]
async fn keys_shorter_than_required_are_not_offered() {
    let Some(mut lab) = Lab::new().await else { return };
    lab.key("ca", &["-t", "ed25519"]);
    lab.key("a", &["-t", "rsa", "-b", "2048"]);
    lab.key("b", &["-t", "rsa", "-b", "3072"]);
    certify(&lab, "a", &["-n", "x"]).await;
    lab.write("authorized", "");
    let sshd = lab.sshd("MaxAuthTries 30").await;
    lab.trust(&sshd);
    let _agent = lab.start_agent().await;
    let agent = lab.agent.clone();
    lab.add_to_agent("a").await;
    let (a, b) = (lab.path("a").display().to_string(), lab.path("b").display().to_string());
    for has_agent in [true, false] {
        lab.agent = agent.clone().filter(|_| has_agent);
        for (required, count) in [("2048", 3), ("2049", 1), ("3072", 1), ("4096", 0)] {
            let folder = lab.folder.path().display();
            lab.write(
                "config",
                &format!(
                    "Host node\nHostName {ADDRESS}\nPort {}\nUser {}\nIdentityFile {a}\nIdentityFile {b}\n\
                     RequiredRSASize {required}\nUserKnownHostsFile {folder}/known\nGlobalKnownHostsFile {folder}/global\n",
                    sshd.port, lab.user
                ),
            );
            let fault = lab.open("true").await.unwrap_err();
            if count == 0 {
                assert!(fault.to_string().contains("is an RSA key of 2048 bits"), "{fault}");
                assert_eq!(offers_of_ssh(&lab).await, []);
                continue;
            }
            let ssh = offers_of_ssh(&lab).await;
            assert_eq!(ssh.len(), count, "{required}: {ssh:?}");
            assert_eq!(offers_of_gtop(&lab).await, ssh, "{has_agent} {required}");
            let says = tried_credentials(&fault).iter().any(|key| key.contains("RequiredRSASize"));
            assert_eq!(says, count == 1, "{fault}");
        }
    }
}

async fn ssh_succeeds(lab: &Lab) -> bool {
    let mut ssh = Command::new("ssh");
    ssh.args(["-F", lab.path("config").to_str().unwrap(), "-o", "BatchMode=yes", "node", "true"]);
    match &lab.agent {
        Some(agent) => ssh.env("SSH_AUTH_SOCK", agent),
        None => ssh.env_remove("SSH_AUTH_SOCK"),
    };
    ssh.output().await.unwrap().status.success()
}

// ---- certificates ----

/// Signs a key with the authority `ca`; the certificate is beside the key.
async fn certify(lab: &Lab, name: &str, words: &[&str]) {
    let (ca, public) = (lab.path("ca"), lab.path(&format!("{name}.pub")));
    let key_id = format!("id of {name}");
    let common = ["-q", "-s", ca.to_str().unwrap(), "-I", &key_id];
    run("ssh-keygen", &[&common[..], words, &[public.to_str().unwrap()]].concat()).await;
}

async fn sshd_trusting_authority(lab: &Lab) -> Sshd {
    lab.key("ca", &["-t", "ed25519"]);
    lab.write("authorized", "");
    let sshd = lab.sshd(&format!("TrustedUserCAKeys {}", lab.path("ca.pub").display())).await;
    lab.trust(&sshd);
    sshd
}

#[tokio::test]
async fn a_certificate_beside_the_key_authenticates_for_every_key_type() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = sshd_trusting_authority(&lab).await;
    // One length of RSA is enough: a long key takes seconds to make.
    for (at, kind) in KINDS.iter().enumerate().take(5) {
        let name = format!("key{at}");
        lab.key(&name, kind);
        certify(&lab, &name, &["-n", &lab.user]).await;
        lab.write_config(sshd.port, &format!("IdentityFile {}", lab.path(&name).display()));
        lab.open("true").await.unwrap_or_else(|fault| panic!("{kind:?}: {fault}"));
    }
}

#[tokio::test]
async fn a_configured_certificate_file_is_offered_with_its_key() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = sshd_trusting_authority(&lab).await;
    lab.key("rsa", &["-t", "rsa", "-b", "2048"]);
    certify(&lab, "rsa", &["-n", &lab.user]).await;
    fs::rename(lab.path("rsa-cert.pub"), lab.path("elsewhere")).unwrap();
    let certificate = format!("CertificateFile {}\n", lab.path("elsewhere").display());
    let with_key = format!("{certificate}IdentityFile {}\n", lab.path("rsa").display());
    lab.write_config(sshd.port, &with_key);
    check_echo(&lab).await;
    // The private key moves into the agent.
    let _agent = lab.start_agent().await;
    lab.add_to_agent("rsa").await;
    fs::remove_file(lab.path("rsa")).unwrap();
    check_echo(&lab).await;
    lab.write_config(sshd.port, &format!("{with_key}IdentitiesOnly yes"));
    check_echo(&lab).await;
    lab.write_config(sshd.port, &certificate);
    check_echo(&lab).await;
}

#[tokio::test]
async fn certificates_held_by_the_agent_are_used() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = sshd_trusting_authority(&lab).await;
    let _agent = lab.start_agent().await;
    for (kind, bits) in [("ed25519", "256"), ("rsa", "2048")] {
        lab.key(kind, &["-t", kind, "-b", bits]);
        certify(&lab, kind, &["-n", &lab.user]).await;
        // ssh-add adds the certificate beside the key too.
        lab.add_to_agent(kind).await;
        fs::remove_file(lab.path(kind)).unwrap();
        fs::remove_file(lab.path(&format!("{kind}-cert.pub"))).unwrap();
        lab.write_config(sshd.port, "");
        check_echo(&lab).await;
        let listed = Command::new("ssh-add")
            .arg("-D")
            .env("SSH_AUTH_SOCK", lab.agent.as_ref().unwrap())
            .output();
        assert!(listed.await.unwrap().status.success());
    }
}

#[tokio::test]
async fn an_invalid_certificate_is_offered_and_its_problem_named() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = sshd_trusting_authority(&lab).await;
    for (words, problem) in [
        (&["-n", "USER", "-V", "20200101:20200102"][..], "expired"),
        (&["-n", "USER", "-V", "+52w:+53w"], "not valid yet"),
        (&["-n", "somebody,nobody"], "for somebody nobody"),
    ] {
        let words: Vec<_> =
            words.iter().map(|word| if *word == "USER" { &lab.user } else { *word }).collect();
        certify(&lab, "id", &words).await;
        lab.write_config(sshd.port, "");
        let tried = tried_credentials(&lab.open("true").await.unwrap_err());
        let name = format!("{} certificate 'id of id', {problem}", lab.path("id").display());
        assert_eq!(tried, [lab.path("id").display().to_string(), name]);
        assert!(!ssh_succeeds(&lab).await);
    }
}

#[tokio::test]
async fn a_host_certificate_is_not_offered() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = sshd_trusting_authority(&lab).await;
    certify(&lab, "id", &["-h", "-n", "somewhere"]).await;
    let tried = tried_credentials(&lab.open("true").await.unwrap_err());
    assert_eq!(tried, [lab.path("id").display().to_string()]);
}

// ---- order ----

/// Returns the keys ssh offers, in order: fingerprints, and whether each is a certificate.
async fn offers_of_ssh(lab: &Lab) -> Vec<(String, bool)> {
    let mut ssh = Command::new("ssh");
    ssh.args(["-F", lab.path("config").to_str().unwrap(), "-o", "BatchMode=yes", "-v"]);
    match &lab.agent {
        Some(agent) => ssh.env("SSH_AUTH_SOCK", agent),
        None => ssh.env_remove("SSH_AUTH_SOCK"),
    };
    let output = ssh.args(["node", "true"]).output().await.unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let offers =
        stderr.lines().filter_map(|line| line.strip_prefix("debug1: Offering public key: "));
    offers
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let at = words.iter().position(|word| word.starts_with("SHA256:")).unwrap();
            let kind = words.get(at - 1).unwrap();
            (words.get(at).unwrap().to_string(), kind.ends_with("-CERT"))
        })
        .collect()
}

/// Returns the same for gtop, from the keys listed in the fault.
async fn offers_of_gtop(lab: &Lab) -> Vec<(String, bool)> {
    let tried = tried_credentials(&lab.open("true").await.unwrap_err());
    let mut offers = Vec::new();
    let is_offered = |name: &&String| !name.starts_with("not ") && *name != "no key to offer";
    for name in tried.iter().filter(is_offered) {
        let is_certificate = name.contains(" certificate ");
        let fingerprint = if let Some(fingerprint) = name.strip_prefix("agent SHA256:") {
            format!("SHA256:{fingerprint}")
        } else {
            // The key id of a certificate names its key, like the file.
            let key = ["a", "b", "c", "d"].into_iter().find(|key| {
                let file = lab.path(key).display().to_string();
                let words = [format!("'id of {key}'"), format!("{file} "), format!("{file}.pub")];
                *name == file || words.iter().any(|word| name.contains(word))
            });
            let file = lab.path(&format!("{}.pub", key.unwrap()));
            let listed = run("ssh-keygen", &["-lf", file.to_str().unwrap()]).await;
            listed.split_whitespace().nth(1).unwrap().to_owned()
        };
        offers.push((fingerprint, is_certificate));
    }
    offers
}

#[tokio::test]
async fn keys_are_offered_in_the_order_of_ssh() {
    let Some(mut lab) = Lab::new().await else { return };
    lab.write("authorized", "");
    let sshd = lab.sshd("MaxAuthTries 30").await;
    lab.trust(&sshd);
    lab.key("ca", &["-t", "ed25519"]);
    for name in ["a", "b", "c", "d"] {
        lab.key(name, &["-t", "ed25519"]);
    }
    certify(&lab, "a", &["-n", "x"]).await;
    certify(&lab, "b", &["-n", "x"]).await;
    let _agent = lab.start_agent().await;
    let agent = lab.agent.clone();
    lab.add_to_agent("d").await;
    lab.add_to_agent("b").await;
    let file = |name: &str| lab.path(name).display().to_string();
    let (a, b, c, public) = (file("a"), file("b"), file("c"), file("b.pub"));
    let cases = [
        format!("IdentityFile {a}"),
        format!("IdentityFile {c}\nIdentityFile {b}"),
        format!("IdentityFile {c}\nIdentityFile {b}\nIdentitiesOnly yes"),
        format!("IdentityFile {a}\nIdentityFile {b}\nIdentitiesOnly yes"),
        format!("CertificateFile {a}-cert.pub\nIdentityFile {a}"),
        format!("IdentityFile {public}\nIdentitiesOnly yes"),
        "IdentityFile none".to_owned(),
        format!("IdentityFile {a}\nIdentityAgent none"),
        format!("IdentityFile {a}\nPubkeyAcceptedAlgorithms ssh-ed25519-cert-v01@openssh.com"),
        format!("IdentityFile {a}\nPubkeyAcceptedAlgorithms ssh-ed25519"),
    ];
    for has_agent in [true, false] {
        lab.agent = agent.clone().filter(|_| has_agent);
        for case in &cases {
            // Not the config of the lab, which adds the key `id`.
            let folder = lab.folder.path().display();
            lab.write(
                "config",
                &format!(
                    "Host node\nHostName {}\nPort {}\nUser {}\n{case}\n\
                     UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile {folder}/global\n",
                    ADDRESS, sshd.port, lab.user
                ),
            );
            let ssh = offers_of_ssh(&lab).await;
            if !has_agent && ssh.iter().any(|_| case.contains(&public)) {
                // ssh offers a key without a signer.
                continue;
            }
            let ours = offers_of_gtop(&lab).await;
            assert!(ssh.len() <= 5, "{case}: {ssh:?}");
            assert_eq!(ours, ssh, "{has_agent} {case}");
        }
    }
}

// ---- several credentials ----

#[tokio::test]
async fn two_keys_authenticate_where_two_are_required() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("AuthenticationMethods publickey,publickey").await;
    lab.trust(&sshd);
    let fault = lab.open("true").await.unwrap_err();
    let (user, required) = (lab.user.clone(), vec!["publickey".to_owned()]);
    assert_eq!(fault, Fault::Ssh(ssh::Fault::MoreAuthenticationRequired { user, required }));
    lab.key("second", &["-t", "ed25519"]);
    lab.key("stranger", &["-t", "ed25519"]);
    lab.authorize("second");
    let file = |name: &str| format!("IdentityFile {}\n", lab.path(name).display());
    lab.write_config(sshd.port, &[file("stranger"), file("second")].concat());
    check_echo(&lab).await;
    assert!(ssh_succeeds(&lab).await);
    // One in the agent, one in a file.
    let _agent = lab.start_agent().await;
    lab.add_to_agent("second").await;
    lab.write_config(sshd.port, "");
    check_echo(&lab).await;
}

#[tokio::test]
async fn a_node_that_accepts_only_a_password_is_explained() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("AuthenticationMethods password\nPasswordAuthentication yes").await;
    lab.trust(&sshd);
    let fault = lab.open("true").await.unwrap_err();
    assert_eq!(fault, Fault::Ssh(ssh::Fault::PasswordOnly { user: lab.user.clone() }));
    let known = Known::new("node", None, "node", None);
    let text = advice::of_cause(&fault, &known).text();
    assert!(text.contains("gtop login node") && text.contains("ssh-copy-id"), "{text}");
    assert!(!fault.is_retryable());
}

#[tokio::test]
async fn disabled_methods_are_not_used() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    for off in ["PubkeyAuthentication no", "PreferredAuthentications keyboard-interactive,password"]
    {
        lab.write_config(sshd.port, off);
        let tried = tried_credentials(&lab.open("true").await.unwrap_err());
        assert_eq!(tried, ["no key, PubkeyAuthentication is off"], "{off}");
    }
}

/// A timeout that no passing test comes near.
const LONG: Duration = Duration::from_secs(60);
