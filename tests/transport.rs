//! The transport against a real sshd, ssh, ssh-agent and ssh-keygen on loopback.
//!
//! Every test creates its own folder, keys and server. Without an sshd the tests that need one say so and pass.

mod known_hosts;
mod master;
mod program;
mod routes;
mod srun;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use gtop_collect::transport::{Fault, Options, Transport};
use gtop_local::process::{Exit, Output};
use gtop_ssh::{self as ssh, ConnectPhase, HostKeyStatus};
use russh::server;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::harness::lab::{
    ADDRESS, Lab, TIMEOUT, check_echo, fixed_target, free_port, local_target, node, read_output,
    run, ssh_target,
};

/// Returns the fault of SSH, without the gateways it happened at.
fn ssh_root(fault: &Fault) -> Option<&ssh::Fault> {
    let Fault::Ssh(fault) = fault else { return None };
    Some(fault.root())
}

// ---- commands ----

#[tokio::test]
async fn a_command_gets_stdin_and_reports_its_exit() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let mut phases = Vec::new();
    let (transport, node) = (lab.transport(), node());
    let line = "cat; echo oops >&2; exit 7";
    let mut channel = transport.open(&node, line, |phase| phases.push(phase)).await.unwrap();
    channel.send(b"hel").await.unwrap();
    channel.send(b"lo").await.unwrap();
    channel.close_stdin().await.unwrap();
    let output = read_output(&mut channel).await;
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("hello", "oops\n"));
    assert_eq!((output.exit, output.fault), (Some(Exit::Status(7)), None));
    assert_eq!(channel.next().await, Err(None));
    assert_eq!(
        phases,
        [
            ConnectPhase::Configuration,
            ConnectPhase::Name,
            ConnectPhase::Connection,
            ConnectPhase::KeyExchange,
            ConnectPhase::Login,
            ConnectPhase::Command
        ]
    );
}

#[tokio::test]
async fn a_signal_is_reported_by_its_name() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let mut channel = lab.open("kill -TERM $$").await.unwrap();
    assert_eq!(read_output(&mut channel).await.exit, Some(Exit::Signal("TERM".to_owned())));
}

#[tokio::test]
async fn a_megabyte_arrives_complete() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let mut channel = lab.open("head -c 1000000 /dev/zero | tr '\\0' x").await.unwrap();
    assert_eq!(read_output(&mut channel).await.stdout.len(), 1_000_000);
}

#[tokio::test]
async fn a_lost_session_is_reported() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let mut channel = lab.open("kill -9 $PPID; cat").await.unwrap();
    let output = read_output(&mut channel).await;
    let lost = output.fault.unwrap();
    assert!(matches!(lost, Fault::Ssh(ssh::Fault::SessionLost { .. })), "{lost}");
    assert!(lost.is_retryable());
}

#[tokio::test]
async fn shutdown_lets_the_command_exit() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let done = lab.path("done");
    let channel = lab.open(&format!("cat; echo yes > {}", done.display())).await.unwrap();
    channel.shutdown().await;
    assert_eq!(fs::read_to_string(done).unwrap(), "yes\n");
}

#[tokio::test]
async fn the_banner_is_kept_without_control_characters() {
    let Some(lab) = Lab::new().await else { return };
    lab.write("banner", "Be nice\x1b[2J\nor else\n");
    let sshd = lab.sshd(&format!("Banner {}", lab.path("banner").display())).await;
    lab.trust(&sshd);
    let channel = lab.open("true").await.unwrap();
    let banner = channel.banner().unwrap();
    assert!(banner.starts_with("Be nice"), "{banner:?}");
    assert!(!banner.contains('\x1b') && banner.contains("or else"), "{banner:?}");
}

#[tokio::test]
async fn a_node_at_max_sessions_refuses_the_channel() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("MaxSessions 0").await;
    lab.trust(&sshd);
    let fault = lab.open("true").await.unwrap_err();
    assert!(matches!(fault, Fault::Ssh(ssh::Fault::ChannelRefused { .. })), "{fault}");
}

// ---- keys ----

#[tokio::test]
async fn every_key_type_authenticates() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let kinds: [&[&str]; 5] = [
        &["-t", "ed25519"],
        &["-t", "ecdsa", "-b", "256"],
        &["-t", "ecdsa", "-b", "521"],
        &["-t", "rsa", "-b", "2048"],
        &["-t", "rsa", "-b", "2048", "-m", "PEM"],
    ];
    for (at, kind) in kinds.iter().enumerate() {
        let name = format!("key{at}");
        lab.key(&name, kind);
        lab.write("authorized", &lab.text(&format!("{name}.pub")));
        let file = lab.path(&name);
        lab.write_config(
            sshd.port,
            &format!("IdentityFile {}\nIdentitiesOnly yes", file.display()),
        );
        let mut channel =
            lab.open("echo in").await.unwrap_or_else(|fault| panic!("{kind:?}: {fault}"));
        assert_eq!(read_output(&mut channel).await.stdout, "in\n");
    }
}

#[tokio::test]
async fn an_encrypted_key_needs_its_passphrase_once() {
    let Some(lab) = Lab::new().await else { return };
    let path = lab.path("id");
    let path = path.to_str().unwrap();
    fs::remove_file(path).unwrap();
    lab.key("id", &["-t", "rsa", "-b", "2048"]);
    lab.write("authorized", &lab.text("id.pub"));
    fs::remove_file(lab.path("id.pub")).unwrap();
    let mut old = "";
    for format in ["RFC4716", "PEM", "PKCS8"] {
        let new = ["-q", "-p", "-f", path, "-P", old, "-N", "open sesame", "-m", format];
        run("ssh-keygen", &new).await;
        old = "open sesame";
        let sshd = lab.sshd("").await;
        lab.trust(&sshd);

        let transport = lab.transport();
        let file = lab.path("id");
        let fault = transport.open(&node(), "true", |_| ()).await.unwrap_err();
        assert_eq!(fault, Fault::Ssh(ssh::Fault::KeyEncrypted { file: file.clone() }), "{format}");
        assert_eq!(transport.locked_keys(&[node()]).await, std::slice::from_ref(&file));
        let wrong = transport.unlock(&file, "open barley".to_owned()).await;
        assert_eq!(wrong, Err(ssh::Fault::KeyEncrypted { file: file.clone() }), "{format}");
        transport.unlock(&file, "open sesame".to_owned()).await.unwrap();
        assert!(transport.locked_keys(&[node()]).await.is_empty());
        for _ in 0..2 {
            let mut channel = transport.open(&node(), "echo in", |_| ()).await.unwrap();
            assert_eq!(read_output(&mut channel).await.stdout, "in\n");
        }
    }
}

#[tokio::test]
async fn the_agent_signs_for_a_locked_file() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let _agent = lab.start_agent().await;
    lab.add_to_agent("id").await;
    // The key file is encrypted now; the agent has the key.
    let path = lab.path("id");
    run("ssh-keygen", &["-q", "-p", "-f", path.to_str().unwrap(), "-P", "", "-N", "secret"]).await;
    check_echo(&lab).await;
    lab.write_config(sshd.port, "IdentitiesOnly yes");
    check_echo(&lab).await;
    assert!(lab.transport().locked_keys(&[node()]).await.is_empty());
}

#[tokio::test]
async fn rsa_in_the_agent_signs_with_sha2() {
    let Some(mut lab) = Lab::new().await else { return };
    lab.key("rsa", &["-t", "rsa", "-b", "2048"]);
    lab.write("authorized", &lab.text("rsa.pub"));
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let _agent = lab.start_agent().await;
    lab.add_to_agent("rsa").await;
    check_echo(&lab).await;
    // The agent's key is not a configured one.
    lab.write_config(sshd.port, "IdentitiesOnly yes");
    let fault = lab.open("true").await.unwrap_err();
    assert!(matches!(fault, Fault::Ssh(ssh::Fault::AuthenticationRefused { .. })), "{fault}");
}

#[tokio::test]
async fn an_unreachable_agent_does_not_matter_while_there_is_a_key_file() {
    let Some(mut lab) = Lab::new().await else { return };
    lab.agent = Some(lab.path("nowhere"));
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    check_echo(&lab).await;
    fs::remove_file(lab.path("id")).unwrap();
    let fault = lab.open("true").await.unwrap_err();
    assert!(matches!(fault, Fault::Ssh(ssh::Fault::AgentUnreachable { .. })), "{fault}");
}

#[tokio::test]
async fn a_refusal_lists_what_the_node_offers_and_what_was_tried() {
    let Some(lab) = Lab::new().await else { return };
    lab.write("authorized", "");
    let sshd = lab.sshd("KbdInteractiveAuthentication yes\nPasswordAuthentication yes").await;
    lab.trust(&sshd);
    let fault = lab.open("true").await.unwrap_err();
    let Fault::Ssh(ssh::Fault::AuthenticationRefused { user, offers, tried }) = &fault else {
        panic!("{fault}")
    };
    assert_eq!(user, &lab.user);
    assert!(offers.contains(&"publickey".to_owned()), "{offers:?}");
    assert!(offers.contains(&"password".to_owned()), "{offers:?}");
    let id = lab.path("id").display().to_string();
    assert_eq!(tried, &[id, "its prompts were not answered".to_owned()]);
    assert!(!fault.is_retryable());
}

#[tokio::test]
async fn a_node_without_publickey_is_offered_no_keys() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("PubkeyAuthentication no\nPasswordAuthentication yes").await;
    lab.trust(&sshd);
    let fault = lab.open("true").await.unwrap_err();
    assert_eq!(fault, Fault::Ssh(ssh::Fault::PasswordOnly { user: lab.user.clone() }));
}

#[tokio::test]
async fn a_key_file_after_five_agent_keys_is_still_offered() {
    let Some(mut lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let _agent = lab.start_agent().await;
    for at in 0..5 {
        let name = format!("key{at}");
        lab.key(&name, &["-t", "ed25519"]);
        lab.add_to_agent(&name).await;
    }
    check_echo(&lab).await;
}

#[tokio::test]
async fn a_disconnect_after_too_many_keys_counts_as_refused() {
    let Some(mut lab) = Lab::new().await else { return };
    lab.write("authorized", "");
    let sshd = lab.sshd("MaxAuthTries 2").await;
    lab.trust(&sshd);
    let _agent = lab.start_agent().await;
    for at in 0..4 {
        let name = format!("key{at}");
        lab.key(&name, &["-t", "ed25519"]);
        lab.add_to_agent(&name).await;
    }
    let fault = lab.open("true").await.unwrap_err();
    assert!(
        matches!(fault, Fault::Ssh(ssh::Fault::TooManyKeys { offered: Some(2), untried: 3, .. })),
        "{fault}"
    );
    assert!(!fault.is_retryable());
}

#[tokio::test]
async fn a_required_second_method_is_named() {
    let Some(lab) = Lab::new().await else { return };
    let sshd =
        lab.sshd("AuthenticationMethods publickey,password\nPasswordAuthentication yes").await;
    lab.trust(&sshd);
    let fault = lab.open("true").await.unwrap_err();
    let required = vec!["password".to_owned()];
    assert_eq!(
        fault,
        Fault::Ssh(ssh::Fault::MoreAuthenticationRequired { user: lab.user.clone(), required })
    );
}

#[tokio::test]
async fn a_key_that_others_can_read_is_not_used() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    fs::set_permissions(lab.path("id"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::remove_file(lab.path("id.pub")).unwrap();
    let fault = lab.open("true").await.unwrap_err();
    assert!(fault.to_string().contains("id is readable by others"), "{fault}");
}

// ---- host keys ----

#[tokio::test]
async fn an_unknown_host_key_is_a_fault_with_its_fingerprint() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    let fault = lab.open("true").await.unwrap_err();
    let listed = run("ssh-keygen", &["-lf", lab.path("host_ed25519.pub").to_str().unwrap()]).await;
    let Fault::Ssh(ssh::Fault::HostKeyUnknown { host, algorithm, fingerprint }) = &fault else {
        panic!("{fault}")
    };
    assert_eq!(
        (host.as_str(), algorithm.as_str()),
        (&*format!("[{ADDRESS}]:{}", sshd.port), "ssh-ed25519")
    );
    assert!(listed.contains(fingerprint), "{listed} {fingerprint}");
    assert!(!fault.is_retryable());
}

#[tokio::test]
async fn a_changed_host_key_names_both_keys_and_the_line() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    let other = lab.text("id.pub");
    lab.write("known", &format!("# mine\n[{ADDRESS}]:{} {other}", sshd.port));
    let fault = lab.open("true").await.unwrap_err();
    let Fault::Ssh(ssh::Fault::HostKeyChanged(change)) = &fault else { panic!("{fault}") };
    assert_eq!((&*change.at.file, change.at.line), (&*lab.path("known"), 2));
    assert_ne!(change.known, change.fingerprint);
    assert!(fault.to_string().contains("man-in-the-middle"), "{fault}");
}

#[tokio::test]
async fn a_revoked_host_key_is_refused_even_when_it_is_known() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    lab.write("global", &format!("@revoked * {}", lab.text("host_ed25519.pub")));
    let fault = lab.open("true").await.unwrap_err();
    assert!(matches!(fault, Fault::Ssh(ssh::Fault::HostKeyRevoked { .. })), "{fault}");
}

#[tokio::test]
async fn names_hashed_by_ssh_keygen_are_found() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    run("ssh-keygen", &["-q", "-H", "-f", lab.path("known").to_str().unwrap()]).await;
    assert!(lab.text("known").starts_with("|1|"), "{}", lab.text("known"));
    check_echo(&lab).await;
}

#[tokio::test]
async fn a_host_listed_without_its_port_is_known() {
    let Some(lab) = Lab::new().await else { return };
    let _sshd = lab.sshd("").await;
    lab.write("known", &format!("{ADDRESS} {}", lab.text("host_ed25519.pub")));
    check_echo(&lab).await;
}

#[tokio::test]
async fn the_algorithm_of_the_known_key_is_offered_first() {
    let Some(lab) = Lab::new().await else { return };
    for (name, kind) in [("host_rsa", "rsa"), ("host_ecdsa", "ecdsa")] {
        lab.key(name, &["-t", kind]);
        let sshd = lab.sshd(&format!("HostKey {}", lab.path(name).display())).await;
        let key = lab.text(&format!("{name}.pub"));
        lab.write("known", &format!("[{ADDRESS}]:{} {key}", sshd.port));
        check_echo(&lab).await;
    }
}

#[tokio::test]
async fn an_alias_for_the_host_key_is_followed() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.write("known", &format!("cluster-node {}", lab.text("host_ed25519.pub")));
    lab.write_config(sshd.port, "Host node\nHostKeyAlias cluster-node");
    check_echo(&lab).await;
}

#[tokio::test]
async fn keys_stored_by_trust_are_accepted_by_ssh() {
    let Some(lab) = Lab::new().await else { return };
    for hash in ["no", "yes"] {
        let sshd = lab.sshd("").await;
        lab.write("known", "# no end of line");
        lab.write_config(sshd.port, &format!("HashKnownHosts {hash}"));
        let offered = lab.host_key().await;
        assert_eq!(offered.status, HostKeyStatus::Unknown);
        let entry = offered.entry.unwrap();
        assert_eq!(entry.file, lab.path("known"));
        assert_eq!(entry.line.starts_with("|1|"), hash == "yes", "{entry:?}");
        assert_eq!(lab.transport().store_host_keys(vec![entry]).await.unwrap(), 1);
        check_echo(&lab).await;
        let config = lab.path("config");
        let options =
            ["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "node", "echo", "ok"];
        let words = [&["-F", config.to_str().unwrap()], &options[..]].concat();
        assert_eq!(run("ssh", &words).await, "ok\n");
        assert_eq!(lab.host_key().await.status, HostKeyStatus::Known);
    }
}

// ---- connecting ----

#[tokio::test]
async fn a_closed_port_refuses_the_connection() {
    let Some(lab) = Lab::new().await else { return };
    let port = free_port().await;
    lab.write_config(port, "");
    assert_eq!(
        lab.open("true").await.unwrap_err(),
        Fault::Ssh(ssh::Fault::ConnectionRefused { port })
    );
}

#[tokio::test]
async fn an_unknown_name_is_not_found() {
    let Some(lab) = Lab::new().await else { return };
    lab.write_config(22, "");
    let target = ssh_target("no-such-node.invalid", None, None);
    let fault = lab.transport().open(&target, "true", |_| ()).await.unwrap_err();
    assert!(matches!(fault, Fault::Ssh(ssh::Fault::NameNotFound { host: None, .. })), "{fault}");
}

#[tokio::test]
async fn no_common_key_exchange_lists_both_sides() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("KexAlgorithms diffie-hellman-group14-sha1").await;
    lab.trust(&sshd);
    let fault = lab.open("true").await.unwrap_err();
    let Fault::Ssh(ssh::Fault::NoCommonAlgorithm { kind, theirs, .. }) = &fault else {
        panic!("{fault}")
    };
    assert_eq!(*kind, "key exchange");
    assert!(theirs.contains(&"diffie-hellman-group14-sha1".to_owned()), "{theirs:?}");
}

#[tokio::test]
async fn every_key_exchange_that_is_offered_works() {
    let Some(lab) = Lab::new().await else { return };
    for kex in [
        "curve25519-sha256",
        "ecdh-sha2-nistp256",
        "ecdh-sha2-nistp521",
        "diffie-hellman-group14-sha256",
        "diffie-hellman-group16-sha512",
    ] {
        let sshd = lab.sshd(&format!("KexAlgorithms {kex}")).await;
        lab.trust(&sshd);
        check_echo(&lab).await;
    }
}

#[tokio::test]
async fn a_configuration_error_is_quoted() {
    let Some(lab) = Lab::new().await else { return };
    lab.write_config(22, "Hosst x");
    let fault = lab.open("true").await.unwrap_err();
    assert!(fault.to_string().contains("line 1: Bad configuration option: hosst"), "{fault}");
    let port = free_port().await;
    lab.write_config(port, "");
    let fault = lab.open("true").await.unwrap_err();
    assert_eq!(
        fault,
        Fault::Ssh(ssh::Fault::ConnectionRefused { port }),
        "an edited file is read again"
    );
}

#[tokio::test]
async fn the_defaults_apply_without_an_ssh_program() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    fs::create_dir(lab.path(".ssh")).unwrap();
    fs::rename(lab.path("id"), lab.path(".ssh/id_ed25519")).unwrap();
    lab.trust(&sshd);
    fs::rename(lab.path("known"), lab.path(".ssh/known_hosts")).unwrap();
    let mut options = lab.options();
    options.ssh.ssh_program = lab.path("no-ssh-here");
    let transport = Transport::new(options);
    let target = ssh_target(ADDRESS, None, Some(sshd.port));
    let mut channel = transport.open(&target, "echo hello", |_| ()).await.unwrap();
    assert_eq!(read_output(&mut channel).await.stdout, "hello\n");
}

#[tokio::test]
async fn a_fixed_profile_reads_no_file_and_accepts_one_key() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    let address = format!("{ADDRESS}:{}", sshd.port);
    let mut options = lab.options();
    options.ssh.config_file = Some(lab.path("none"));
    options.ssh.ssh_program = lab.path("none");
    let transport = Transport::new(options);
    let target = fixed_target(&address, &lab.text("id"), &lab.text("host_ed25519.pub"));
    let mut channel = transport.open(&target, "echo hello", |_| ()).await.unwrap();
    assert_eq!(read_output(&mut channel).await.stdout, "hello\n");
    let target = fixed_target(&address, &lab.text("id"), &lab.text("id.pub"));
    let fault = transport.open(&target, "true", |_| ()).await.unwrap_err();
    assert!(matches!(fault, Fault::Ssh(ssh::Fault::HostKeyChanged(_))), "{fault}");
}

// ---- servers that misbehave ----

/// Starts a server that sends `banner` to each client and then nothing.
async fn start_mute_server(banner: &'static [u8]) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = async move {
        let mut streams = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            stream.write_all(banner).await.ok();
            streams.push(stream);
        }
    };
    (address, tokio::spawn(serve))
}

/// Opens a node at a stub server, with a connect timeout.
async fn open_stub(lab: &Lab, address: &str, timeout: Duration) -> Fault {
    let transport = Transport::new(lab.options_with_timeout(timeout));
    let target = fixed_target(address, &lab.text("id"), &lab.text("host_ed25519.pub"));
    transport.open(&target, "true", |_| ()).await.unwrap_err()
}

#[tokio::test]
async fn a_silent_port_times_out_at_the_banner() {
    let Some(lab) = Lab::new().await else { return };
    let (address, _server) = start_mute_server(b"").await;
    let after = Duration::from_millis(300);
    let fault = open_stub(&lab, &address, after).await;
    assert_eq!(
        fault,
        Fault::Ssh(ssh::Fault::TimedOut { phase: ConnectPhase::BannerExchange, after })
    );
}

#[tokio::test]
async fn a_server_with_only_a_banner_times_out_at_the_key_exchange() {
    let Some(lab) = Lab::new().await else { return };
    let (address, _server) = start_mute_server(b"SSH-2.0-mute\r\n").await;
    // The banner must arrive within it.
    let fault = open_stub(&lab, &address, Duration::from_secs(5)).await;
    assert!(
        matches!(fault, Fault::Ssh(ssh::Fault::TimedOut { phase: ConnectPhase::KeyExchange, .. })),
        "{fault}"
    );
}

#[tokio::test]
async fn a_server_that_is_not_ssh_is_recognised() {
    let Some(lab) = Lab::new().await else { return };
    for banner in [b"SSH-1.5-old\r\n".as_slice(), b"HTTP/1.1 400 Bad Request\r\n\r\n"] {
        let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(banner).await.unwrap();
            stream.shutdown().await.unwrap();
            stream.read_to_end(&mut Vec::new()).await.ok();
        };
        let (fault, ()) = tokio::join!(open_stub(&lab, &address, TIMEOUT), serve);
        assert!(
            matches!(
                fault,
                Fault::Ssh(ssh::Fault::NoBanner { .. } | ssh::Fault::OtherProtocol { .. })
            ),
            "{fault}"
        );
        assert!(fault.is_retryable());
    }
}

/// Passes connections on to a server; writes `before` to each client first.
async fn start_relay(port: u16, before: Vec<u8>) -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    let relay_port = listener.local_addr().unwrap().port();
    let mut relaying = JoinSet::new();
    relaying.spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect((ADDRESS, port)).await.unwrap();
            // A client may leave before.
            client.write_all(&before).await.ok();
            tokio::io::copy_bidirectional(&mut client, &mut server).await.ok();
        }
    });
    (relay_port, relaying)
}

/// Text before the version line is read as ssh reads it.
#[tokio::test]
async fn lines_before_the_banner_are_skipped_within_the_limits_of_ssh() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    for (before, succeeds) in [
        ("Authorized use only\r\n\r\n".to_owned(), true),
        ("a\n".repeat(1023), true),
        ("a\n".repeat(1024), false),
        (format!("{}\r\n", "x".repeat(8192)).repeat(3), true),
        (format!("{}\r\n", "x".repeat(8193)), false),
        ("a\rb\n".to_owned(), false),
        ("SSH-1.5-old\r\n".to_owned(), false),
    ] {
        let shown: String = before.chars().take(20).collect();
        let (port, _relaying) = start_relay(sshd.port, before.clone().into_bytes()).await;
        lab.write_config(port, &format!("HostKeyAlias [{ADDRESS}]:{}", sshd.port));
        let opened = lab.open("true").await.map(drop);
        assert_eq!(opened.is_ok(), succeeds, "{shown:?} {}: {opened:?}", before.len());
        if let Err(fault) = opened {
            let is_old = before.starts_with("SSH-1");
            assert_eq!(fault.to_string().contains("protocol major versions differ"), is_old);
        }
        let config = lab.path("config");
        let mut ssh = tokio::process::Command::new("ssh");
        ssh.arg("-F").arg(config).args(["-o", "BatchMode=yes", "node", "true"]);
        let status = ssh.env_remove("SSH_AUTH_SOCK").output().await.unwrap().status;
        assert_eq!(status.success(), succeeds, "ssh itself: {shown:?} {}", before.len());
    }
}

#[tokio::test]
async fn a_connection_closed_at_once_had_no_banner() {
    let Some(lab) = Lab::new().await else { return };
    for line in ["", "Exceeded MaxStartups\r\n", "Not allowed at this time\r\n"] {
        let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(line.as_bytes()).await.unwrap();
        };
        let (fault, ()) = tokio::join!(open_stub(&lab, &address, TIMEOUT), serve);
        assert!(
            matches!(fault, Fault::Ssh(ssh::Fault::NoBanner { is_closed: true, .. })),
            "{line}: {fault}"
        );
    }
}

/// russh's task takes no commands during the key exchange; its stream is cancelled instead.
#[tokio::test]
async fn an_abandoned_connection_leaves_nothing_behind() {
    let Some(lab) = Lab::new().await else { return };
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let transport = lab.transport();
    let target = fixed_target(&address, &lab.text("id"), &lab.text("host_ed25519.pub"));
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    for _ in 0..20 {
        let mut stream = tokio::select! {
            fault = transport.open(&target, "true", |_| ()) => panic!("{fault:?}"),
            stream = send_banner_and_wait(&listener) => stream,
        };
        // The end of the stream shows that the descriptor is closed.
        let end = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut Vec::new())).await;
        end.unwrap().ok();
    }
    while metrics.num_alive_tasks() > before {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_dropped_channel_leaves_nothing_behind() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    let (transport, node) = (lab.transport(), node());
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    for command in ["cat", "yes", "cat", "yes"] {
        let channel = assert_send(transport.open(&node, command, |_| ())).await.unwrap();
        assert!(metrics.num_alive_tasks() > before);
        // Unread output accumulates until the connection's task waits for a reader.
        tokio::time::sleep(Duration::from_millis(300)).await;
        drop(channel);
    }
    let all_end = async {
        while metrics.num_alive_tasks() > before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all_end).await.expect("a task remains");
}

/// Checks at compile time that the future may move to another thread.
fn assert_send<T: Send>(future: T) -> T {
    future
}

/// Accepts one connection and returns when the client is in its key exchange.
async fn send_banner_and_wait(listener: &TcpListener) -> TcpStream {
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(b"SSH-2.0-mute\r\n").await.unwrap();
    let mut client = BufReader::new(&mut stream);
    client.read_line(&mut String::new()).await.unwrap();
    client.read_exact(&mut [0; 256]).await.unwrap();
    stream
}

/// A node that, when a command is started, tries to open channels back to the client.
struct Intruder(tokio::sync::mpsc::Sender<bool>);

impl server::Handler for Intruder {
    type Error = russh::Error;

    async fn auth_none(&mut self, _user: &str) -> Result<server::Auth, russh::Error> {
        Ok(server::Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        _channel: russh::Channel<server::Msg>,
        reply: server::ChannelOpenHandle,
        _session: &mut server::Session,
    ) -> Result<(), russh::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: russh::ChannelId,
        _command: &[u8],
        session: &mut server::Session,
    ) -> Result<(), russh::Error> {
        session.channel_success(channel)?;
        let (handle, opened) = (session.handle(), self.0.clone());
        tokio::spawn(async move {
            opened.send(handle.channel_open_agent().await.is_ok()).await.unwrap();
            opened.send(handle.channel_open_session().await.is_ok()).await.unwrap();
            opened.send(handle.channel_open_x11("x", 1).await.is_ok()).await.unwrap();
            let tunnel = handle.channel_open_forwarded_tcpip("x", 1, "y", 2).await;
            opened.send(tunnel.is_ok()).await.unwrap();
            let tunnel = handle.channel_open_direct_tcpip("x", 1, "y", 2).await;
            opened.send(tunnel.is_ok()).await.unwrap();
            let socket = handle.channel_open_forwarded_streamlocal("/x").await;
            opened.send(socket.is_ok()).await.unwrap();
            let socket = handle.channel_open_direct_streamlocal("/x").await;
            opened.send(socket.is_ok()).await.unwrap();
        });
        Ok(())
    }
}

#[tokio::test]
async fn a_node_cannot_open_channels_to_gtop() {
    let Some(lab) = Lab::new().await else { return };
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let host_key = russh::keys::load_secret_key(lab.path("host_ed25519"), None).unwrap();
    let config = Arc::new(server::Config { keys: vec![host_key], ..server::Config::default() });
    let (opened, mut answers) = tokio::sync::mpsc::channel(1);
    let serve = async {
        let (stream, _) = listener.accept().await.unwrap();
        server::run_stream(config, stream, Intruder(opened)).await.map(Some).unwrap()
    };
    let target = fixed_target(&address, &lab.text("id"), &lab.text("host_ed25519.pub"));
    let transport = lab.transport();
    let (channel, _server) = tokio::join!(transport.open(&target, "x", |_| ()), serve);
    let _channel = channel.unwrap();
    for attempt in 0..7 {
        let answer = tokio::time::timeout(TIMEOUT, answers.recv()).await.unwrap();
        assert_eq!(answer, Some(false), "attempt {attempt}");
    }
}

// ---- this machine ----

#[tokio::test]
async fn a_local_command_gets_stdin_and_reports_its_exit() {
    let transport = Transport::new(Options::of_this_process());
    let line = "cat; echo oops >&2; exit 7";
    let mut channel = transport.open(&local_target(), line, |_| ()).await.unwrap();
    channel.send(b"hello").await.unwrap();
    channel.close_stdin().await.unwrap();
    let output = read_output(&mut channel).await;
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("hello", "oops\n"));
    assert_eq!((output.exit, output.fault), (Some(Exit::Status(7)), None));
    assert!(channel.send(b"more").await.is_err());
    assert_eq!(channel.banner(), None);
}

#[tokio::test]
async fn a_local_command_and_its_children_end_with_the_channel() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    run("mkfifo", &[pipe.to_str().unwrap()]).await;
    let mut reader = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&pipe).unwrap();
    let transport = Transport::new(Options::of_this_process());
    let line = format!("exec 3>{}; (sleep 1000; sleep 1000) & echo ready; wait", pipe.display());
    let mut channel = transport.open(&local_target(), &line, |_| ()).await.unwrap();
    assert_eq!(channel.next().await, Ok(Output::Stdout(b"ready\n".to_vec())));
    drop(channel);
    // The pipe reaches its end when the last process that holds it has exited.
    let mut rest = Vec::new();
    let end = tokio::time::timeout(TIMEOUT, reader.read_to_end(&mut rest)).await;
    assert_eq!(end.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_signal_that_kills_a_local_command_is_reported() {
    let transport = Transport::new(Options::of_this_process());
    let mut channel = transport.open(&local_target(), "kill -9 $$", |_| ()).await.unwrap();
    assert_eq!(read_output(&mut channel).await.exit, Some(Exit::Signal("KILL".to_owned())));
}

#[tokio::test]
async fn local_shutdown_lets_the_command_exit() {
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let transport = Transport::new(Options::of_this_process());
    let line = format!("cat; echo yes > {}", done.display());
    transport.open(&local_target(), &line, |_| ()).await.unwrap().shutdown().await;
    assert_eq!(fs::read_to_string(done).unwrap(), "yes\n");
}

// ---- configuration ----

#[tokio::test]
async fn match_exec_programs_of_thirty_nodes_run_concurrently() {
    let Some(lab) = Lab::new().await else { return };
    // Each program waits until all thirty run, and fails on a timeout.
    lab.write(
        "all-here",
        "#!/bin/sh\n: > \"$2/here.$1\"\ni=0\n\
         while [ \"$(ls \"$2\" | grep -c '^here\\.')\" -lt 30 ]; do\n\
         i=$((i + 1)); [ $i -lt 80 ] || exit 1; sleep 0.1\ndone\n",
    );
    lab.write_config(
        22,
        &format!(
            "Match exec \"sh {0}/all-here %n {0}\"\nUser together",
            lab.folder.path().display()
        ),
    );
    let transport = lab.transport();
    let mut lookups = JoinSet::new();
    for number in 0..30 {
        let transport = transport.clone();
        lookups.spawn(async move {
            let options =
                transport.effective_options(&ssh_target(&format!("n{number}"), None, None)).await;
            let user = options.unwrap().into_iter().find(|option| option.name == "user").unwrap();
            assert_eq!(user.values, ["together"]);
        });
    }
    while let Some(lookup) = lookups.join_next().await {
        lookup.unwrap();
    }
}
