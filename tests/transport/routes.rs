//! Routes to a node: gateways, `ProxyCommand`, bind addresses and negotiated algorithms.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use gtop_collect::transport::{Channel, Fault, Options, Transport, TransportMode};
use gtop_local::process::Output;
use gtop_ssh::{self as ssh, ConnectPhase, HostKeyStatus, SchedulerAddresses};
use russh::server;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::ssh_root;
use crate::harness::lab::{
    ADDRESS, Lab, Sshd, TIMEOUT, free_port, node, read_output, run, ssh_target,
};

/// Options of a server for many concurrent logins, without login files.
const MANY_LOGINS: &str = "MaxStartups 200\nSetEnv HOME=/nonexistent";

/// Writes a configuration of several hosts, each an alias with a port and more lines.
fn write_hosts(lab: &Lab, hosts: &[(&str, u16, &str)]) {
    let folder = lab.folder.path().display();
    let mut text = String::new();
    for (alias, port, extra) in hosts {
        writeln!(text, "Host {alias}\n {extra}\n HostName {ADDRESS}\n Port {port}").unwrap();
    }
    writeln!(
        text,
        "Host *\n User {}\n IdentityFile {folder}/id\n UserKnownHostsFile {folder}/known\n \
         GlobalKnownHostsFile {folder}/global",
        lab.user
    )
    .unwrap();
    lab.write("config", &text);
}

/// Writes the host keys of these servers to the user's `known_hosts` file.
fn trust_all(lab: &Lab, servers: &[&Sshd]) {
    let key = lab.text("host_ed25519.pub");
    let lines = servers.iter().map(|sshd| format!("[{ADDRESS}]:{} {key}", sshd.port));
    lab.write("known", &lines.collect::<String>());
}

async fn hello(transport: &Transport, host: &str) -> Result<String, Fault> {
    let mut channel = transport.open(&ssh_target(host, None, None), "echo hello", |_| ()).await?;
    Ok(read_output(&mut channel).await.stdout)
}

/// Opens a channel to `cat`.
async fn open_cat(transport: &Transport, host: &str) -> Channel {
    transport.open(&ssh_target(host, None, None), "cat", |_| ()).await.unwrap()
}

async fn check_cat(channel: &mut Channel) {
    channel.send(b"ping\n").await.unwrap();
    loop {
        match tokio::time::timeout(TIMEOUT, channel.next()).await.unwrap() {
            // Messages of login files.
            Ok(Output::Stderr(_)) => {}
            output => {
                return assert_eq!(output, Ok(Output::Stdout(b"ping\n".to_vec())));
            }
        }
    }
}

// ---- gateways ----

#[tokio::test]
async fn a_chain_of_two_gateways_leads_to_the_node() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, login, far) = (lab.sshd("").await, lab.sshd("").await, lab.sshd("").await);
    trust_all(&lab, &[&bastion, &login, &far]);
    let chains = [
        // Each host has its own ProxyJump.
        ("ProxyJump bastion", "ProxyJump login"),
        // A list defines the whole route; the ProxyJump of its second host is ignored.
        ("", "ProxyJump bastion,login"),
        ("ProxyJump nowhere", "ProxyJump bastion,login"),
    ];
    for (number, (login_options, node_options)) in (1..).zip(chains) {
        let hosts = [
            ("bastion", bastion.port, ""),
            ("login", login.port, login_options),
            ("node", far.port, node_options),
        ];
        write_hosts(&lab, &hosts);
        assert_eq!(hello(&lab.transport(), "node").await.unwrap(), "hello\n", "{node_options}");
        for sshd in [&bastion, &login, &far] {
            assert_eq!(sshd.log_count("Accepted publickey"), number, "{node_options}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_unlocked_opens_the_gateway_at_once() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    trust_all(&lab, &[&bastion, &far]);
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("node", far.port, "ProxyJump bastion")]);
    let key = lab.path("id");
    let path = key.to_str().unwrap();
    run("ssh-keygen", &["-q", "-p", "-f", path, "-P", "", "-N", "open sesame"]).await;
    let transport = lab.transport();
    let fault = hello(&transport, "node").await.unwrap_err();
    assert!(matches!(ssh_root(&fault), Some(ssh::Fault::KeyEncrypted { .. })), "{fault}");
    transport.unlock(&key, "open sesame".to_owned()).await.unwrap();
    assert_eq!(hello(&transport, "node").await.unwrap(), "hello\n");
}

#[tokio::test]
async fn a_loop_of_gateways_is_refused() {
    let Some(lab) = Lab::new().await else { return };
    for hosts in [
        [("a", 1, "ProxyJump b"), ("b", 2, "ProxyJump a"), ("node", 3, "ProxyJump a")],
        [("a", 1, "ProxyJump a"), ("b", 2, ""), ("node", 3, "ProxyJump a")],
        [("a", 1, ""), ("b", 2, ""), ("node", 3, "ProxyJump node")],
    ] {
        write_hosts(&lab, &hosts);
        let fault = hello(&lab.transport(), "node").await.unwrap_err();
        assert!(fault.to_string().contains("ProxyJump loop: node, "), "{fault}");
        assert!(!fault.is_retryable());
    }
}

#[tokio::test]
async fn the_host_key_of_a_gateway_is_verified() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("node", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&far]);
    let known = lab.text("known");
    let fault = hello(&lab.transport(), "node").await.unwrap_err();
    let Fault::Ssh(ssh::Fault::AtGateway { gateway, fault }) = fault else { panic!("{fault}") };
    assert_eq!(gateway, "bastion");
    assert!(matches!(*fault, ssh::Fault::HostKeyUnknown { .. }), "{fault}");
    lab.write("known", &format!("{known}[{ADDRESS}]:{} {}", bastion.port, lab.text("id.pub")));
    let fault = hello(&lab.transport(), "node").await.unwrap_err();
    assert!(matches!(ssh_root(&fault), Some(ssh::Fault::HostKeyChanged(_))), "{fault}");
    assert!(fault.to_string().starts_with("via bastion: host key of "), "{fault}");
    assert_eq!(far.log_count("Connection from"), 0);
}

#[tokio::test]
async fn the_host_key_behind_a_gateway_can_be_fetched() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("node", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion]);
    let offered = lab.host_key().await;
    assert_eq!(offered.host, format!("[{ADDRESS}]:{}", far.port));
}

#[tokio::test]
async fn unknown_gateways_show_their_keys_one_after_the_other_before_the_node() {
    let Some(lab) = Lab::new().await else { return };
    let (first, second, far) = (lab.sshd("").await, lab.sshd("").await, lab.sshd("").await);
    // The second gateway is reached through the first only.
    let hosts = [
        ("first", first.port, ""),
        ("second", second.port, ""),
        ("node", far.port, "ProxyJump first,second"),
    ];
    write_hosts(&lab, &hosts);
    let transport = lab.transport();
    for (gateway, via, sshd) in [
        (Some("first"), &[][..], &first),
        (Some("second"), &["first"][..], &second),
        (None, &["first", "second"][..], &far),
    ] {
        let offer = transport.fetch_host_keys(&node()).await.unwrap();
        assert_eq!((offer.gateway.as_deref(), offer.port), (gateway, sshd.port), "{offer:?}");
        assert_eq!(offer.via, via);
        assert_eq!(offer.address.is_some(), via.is_empty());
        let [key] = offer.keys.as_slice() else { panic!("{offer:?}") };
        assert_eq!(key.status, HostKeyStatus::Unknown);
        // The refusal of the moment before is not taken for the answer of the gateway that is known now.
        transport.store_host_keys(vec![key.entry.clone().unwrap()]).await.unwrap();
    }
    assert_eq!(hello(&transport, "node").await.unwrap(), "hello\n");
}

#[tokio::test]
async fn a_host_shows_a_key_of_each_type_and_each_may_be_stored() {
    let Some(lab) = Lab::new().await else { return };
    for (name, kind) in [("host_rsa", "rsa"), ("host_ecdsa", "ecdsa")] {
        lab.key(name, &["-t", kind]);
    }
    let folder = lab.path("").display().to_string();
    let sshd = lab.sshd(&format!("HostKey {folder}/host_rsa\nHostKey {folder}/host_ecdsa")).await;
    lab.write_config(sshd.port, "");
    let transport = lab.transport();
    let offer = transport.fetch_host_keys(&node()).await.unwrap();
    let algorithms: Vec<_> = offer.keys.iter().map(|key| key.algorithm.as_str()).collect();
    assert_eq!(algorithms, ["ssh-ed25519", "ecdsa-sha2-nistp256", "ssh-rsa"]);
    // One of another type that is revoked is left out, and keeps the others from nothing.
    lab.write("known", &format!("@revoked * {}", lab.text("host_rsa.pub")));
    let left = transport.fetch_host_keys(&node()).await.unwrap();
    assert_eq!(left.keys, offer.keys.get(..2).unwrap());
    for (key, file) in offer.keys.iter().zip(["host_ed25519", "host_ecdsa", "host_rsa"]) {
        let printed = run("ssh-keygen", &["-lf", &format!("{folder}/{file}.pub")]).await;
        assert!(printed.contains(&key.fingerprint), "{printed}");
        lab.write("known", "");
        transport.store_host_keys(vec![key.entry.clone().unwrap()]).await.unwrap();
        assert_eq!(hello(&transport, "node").await.unwrap(), "hello\n");
    }
}

/// Opens many nodes at once and returns them by name.
async fn open_all(transport: &Transport, count: usize) -> BTreeMap<usize, Result<Channel, Fault>> {
    let mut opening = JoinSet::new();
    for number in 0..count {
        let transport = transport.clone();
        opening.spawn(async move {
            let target = ssh_target(&format!("n{number}"), None, None);
            (number, transport.open(&target, "cat", |_| ()).await)
        });
    }
    opening.join_all().await.into_iter().collect()
}

#[tokio::test]
async fn many_nodes_share_one_session_with_their_gateway() {
    let Some(lab) = Lab::new().await else { return };
    let bastion = lab.sshd("MaxSessions 10").await;
    let far = lab.sshd(MANY_LOGINS).await;
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("n*", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion, &far]);
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    let transport = lab.transport();
    let nodes = open_all(&transport, 64).await;
    let mut nodes: Vec<Channel> = nodes.into_values().map(Result::unwrap).collect();
    for channel in &mut nodes {
        check_cat(channel).await;
    }
    assert_eq!(bastion.log_count("Accepted publickey"), 1);
    assert_eq!(far.log_count("Accepted publickey"), 64);
    // The session stays open for the last node.
    let mut last = nodes.pop().unwrap();
    drop(nodes);
    check_cat(&mut last).await;
    drop(last);
    while metrics.num_alive_tasks() > before {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // A new one is opened when it is needed again.
    check_cat(&mut open_cat(&transport, "n1").await).await;
    assert_eq!(bastion.log_count("Accepted publickey"), 2);
}

#[tokio::test]
async fn a_gateway_that_refuses_the_login_is_tried_once_for_all_nodes() {
    let Some(lab) = Lab::new().await else { return };
    let bastion = lab.sshd("AuthorizedKeysFile none\nPasswordAuthentication yes").await;
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("n*", 1, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion]);
    for result in open_all(&lab.transport(), 32).await.into_values() {
        let fault = result.unwrap_err();
        assert!(
            matches!(ssh_root(&fault), Some(ssh::Fault::AuthenticationRefused { .. })),
            "{fault}"
        );
        assert!(fault.to_string().starts_with("via bastion: authentication"), "{fault}");
        assert!(!fault.is_retryable());
    }
    // The server logs it with a delay.
    let closed = "Connection closed by authenticating";
    let logging = async {
        while bastion.log_count(closed) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, logging).await.is_ok());
    assert_eq!(bastion.log_count(closed), 1);
}

#[tokio::test]
async fn a_gateway_that_cannot_reach_a_node_says_why_and_serves_the_others() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    let closed = free_port().await;
    let hosts = [
        ("bastion", bastion.port, ""),
        ("node", far.port, "ProxyJump bastion"),
        ("closed", closed, "ProxyJump bastion"),
    ];
    write_hosts(&lab, &hosts);
    trust_all(&lab, &[&bastion, &far]);
    let transport = lab.transport();
    let mut other = open_cat(&transport, "node").await;
    let fault = hello(&transport, "closed").await.unwrap_err();
    let Fault::Ssh(ssh::Fault::GatewayCannotReach { gateway, why }) = &fault else {
        panic!("{fault}")
    };
    assert_eq!((gateway.as_str(), why.as_str()), ("bastion", "connection refused"));
    assert!(fault.is_retryable());
    check_cat(&mut other).await;
    assert_eq!(bastion.log_count("Accepted publickey"), 1);
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_replaced_by_the_schedulers_address() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    write_hosts(&lab, &[("bastion", bastion.port, "")]);
    trust_all(&lab, &[&bastion, &far]);
    let hosts = lab.text("config");
    for (jump, mode) in [
        ("", TransportMode::Native),
        ("", TransportMode::Ssh),
        ("ProxyJump bastion", TransportMode::Native),
    ] {
        let port = far.port;
        let nodes = format!(
            "Host node.invalid other.invalid cased.invalid hostname-set\n Port {port}\n HostKeyAlias [{ADDRESS}]:{port}\n {jump}\n\
             Host hostname-set\n HostName wrong.invalid\n"
        );
        lab.write("config", &(nodes + &hosts));
        let transport = Transport::new(Options { mode, ..lab.options() });
        hello(&transport, "node.invalid").await.unwrap_err();
        let pair = |name: &str, at: Option<&str>| (name.to_owned(), at.map(str::to_owned));
        let known = [
            pair("node.invalid", Some(ADDRESS)),
            pair("other.invalid", None),
            pair("cased.invalid", Some("CASED.invalid")),
            pair("hostname-set", Some(ADDRESS)),
        ];
        let known = Arc::new(known.into());
        transport.set_scheduler_addresses(SchedulerAddresses { known, is_query_running: false });
        let found = hello(&transport, "node.invalid").await;
        assert_eq!(found.unwrap(), "hello\n", "{jump} {mode:?}");
        // A configured HostName takes precedence, and a name that differs only in case is no other address.
        for name in ["other.invalid", "cased.invalid", "hostname-set"] {
            tokio::time::timeout(TIMEOUT, hello(&transport, name)).await.unwrap().unwrap_err();
        }
    }
}

#[tokio::test]
async fn a_gateway_that_forbids_forwarding_is_not_retried() {
    let Some(lab) = Lab::new().await else { return };
    let bastion = lab.sshd("AllowTcpForwarding no").await;
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("n*", 1, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion]);
    for result in open_all(&lab.transport(), 16).await.into_values() {
        let fault = result.unwrap_err();
        assert!(
            matches!(fault, Fault::Ssh(ssh::Fault::GatewayForwardingRefused { .. })),
            "{fault}"
        );
        assert!(!fault.is_retryable());
    }
    assert!(bastion.log_count("Accepted publickey") <= 2, "sessions are shared");
}

#[tokio::test]
async fn a_destination_the_gateway_forbids_does_not_affect_others() {
    let Some(lab) = Lab::new().await else { return };
    let far = lab.sshd("").await;
    let bastion = lab.sshd(&format!("PermitOpen {ADDRESS}:{}", far.port)).await;
    let hosts = [
        ("bastion", bastion.port, ""),
        ("node", far.port, "ProxyJump bastion"),
        ("other", 1, "ProxyJump bastion"),
    ];
    write_hosts(&lab, &hosts);
    trust_all(&lab, &[&bastion, &far]);
    let transport = lab.transport();
    let mut other = open_cat(&transport, "node").await;
    for _ in 0..3 {
        let fault = hello(&transport, "other").await.unwrap_err();
        assert!(
            matches!(fault, Fault::Ssh(ssh::Fault::GatewayForwardingRefused { .. })),
            "{fault}"
        );
    }
    // A second session, to find out that the channel limit was not the reason.
    assert_eq!(bastion.log_count("Accepted publickey"), 2);
    check_cat(&mut other).await;
    assert_eq!(hello(&transport, "node").await.unwrap(), "hello\n");
}

#[tokio::test]
async fn nodes_reconnect_together_after_their_gateway_was_lost() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd(MANY_LOGINS).await);
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("n*", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion, &far]);
    let transport = lab.transport();
    let mut nodes = open_all(&transport, 16).await;
    bastion.kill_sessions();
    for channel in nodes.values_mut() {
        let lost = read_output(channel.as_mut().unwrap()).await.fault.unwrap();
        let is_at_gateway = matches!(&lost, Fault::Ssh(ssh::Fault::AtGateway { gateway, .. }) if gateway == "bastion");
        assert!(is_at_gateway && lost.is_retryable(), "{lost}");
        assert!(matches!(ssh_root(&lost), Some(ssh::Fault::SessionLost { .. })), "{lost}");
    }
    drop(nodes);
    let mut nodes = open_all(&transport, 16).await;
    for channel in nodes.values_mut() {
        check_cat(channel.as_mut().unwrap()).await;
    }
    assert_eq!(bastion.log_count("Accepted publickey"), 2);
}

#[tokio::test]
async fn a_gateway_that_is_down_is_tried_once_for_all_nodes() {
    let Some(lab) = Lab::new().await else { return };
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    write_hosts(&lab, &[("bastion", port, ""), ("n*", 1, "ProxyJump bastion")]);
    let transport = lab.transport();
    let mut attempts = 0;
    let counting = async {
        loop {
            drop(listener.accept().await.unwrap());
            attempts += 1;
        }
    };
    let opening = async {
        for _ in 0..2 {
            for result in open_all(&transport, 32).await.into_values() {
                let fault = result.unwrap_err();
                assert!(matches!(ssh_root(&fault), Some(ssh::Fault::NoBanner { .. })), "{fault}");
            }
        }
    };
    tokio::select! {
        () = counting => {}
        () = opening => {}
    }
    // Late callers share the next attempt.
    assert!((2..=5).contains(&attempts), "{attempts} attempts for 64 opens");
}

#[tokio::test]
async fn an_unread_node_does_not_stall_the_others() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("n*", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion, &far]);
    let transport = lab.transport();
    let mut other = open_cat(&transport, "n1").await;
    let mut flood = transport.open(&ssh_target("n2", None, None), "yes", |_| ()).await.unwrap();
    // Until the unread output has filled every buffer.
    for _ in 0..500 {
        check_cat(&mut other).await;
    }
    for _ in 0..100 {
        let output = tokio::time::timeout(TIMEOUT, flood.next()).await.unwrap();
        assert!(matches!(output, Ok(Output::Stdout(_))), "{output:?}");
        check_cat(&mut other).await;
    }
    assert_eq!(bastion.log_count("Accepted publickey"), 1);
}

#[tokio::test]
async fn megabytes_pass_a_gateway_complete() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("node", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion, &far]);
    // The channel keeps working after its transport is dropped.
    let line = "head -c 3000000 /dev/zero | tr '\\0' x; cat | wc -c";
    let mut channel = lab.open(line).await.unwrap();
    let mut count = 0;
    while count < 3_000_000 {
        let output = tokio::time::timeout(TIMEOUT, channel.next()).await;
        let Ok(Ok(Output::Stdout(bytes))) = output else { panic!("{output:?} after {count}") };
        count += bytes.len();
    }
    channel.send(&vec![b'x'; 3_000_000]).await.unwrap();
    channel.close_stdin().await.unwrap();
    assert_eq!(read_output(&mut channel).await.stdout, "3000000\n");
}

/// A gateway with a limit of channels per session.
#[derive(Clone)]
struct LimitedGateway {
    max_channels: usize,
    channels: usize,
    reason: russh::ChannelOpenFailure,
}

impl server::Handler for LimitedGateway {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        _user: &str,
        _key: server::VerifiedPublicKey<'_>,
    ) -> Result<server::Auth, russh::Error> {
        Ok(server::Auth::Accept)
    }

    async fn channel_open_direct_tcpip(
        &mut self,
        channel: russh::Channel<server::Msg>,
        host: &str,
        port: u32,
        _originator: &str,
        _originator_port: u32,
        reply: server::ChannelOpenHandle,
        _session: &mut server::Session,
    ) -> Result<(), russh::Error> {
        if self.channels >= self.max_channels {
            reply.reject(self.reason.clone()).await;
            return Ok(());
        }
        self.channels += 1;
        let mut stream = TcpStream::connect((host, u16::try_from(port).unwrap())).await.unwrap();
        reply.accept().await;
        tokio::spawn(async move {
            let mut channel = channel.into_stream();
            tokio::io::copy_bidirectional(&mut channel, &mut stream).await.ok();
        });
        Ok(())
    }
}

/// Starts a gateway with few channels; reports each new session.
async fn start_gateway(
    lab: &Lab,
    gateway: LimitedGateway,
) -> (u16, tokio::sync::mpsc::Receiver<()>) {
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let host_key = russh::keys::load_secret_key(lab.path("host_ed25519"), None).unwrap();
    let config = Arc::new(server::Config { keys: vec![host_key], ..server::Config::default() });
    let (opened, sessions) = tokio::sync::mpsc::channel(64);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            opened.send(()).await.unwrap();
            let session = server::run_stream(Arc::clone(&config), stream, gateway.clone());
            tokio::spawn(session.await.unwrap());
        }
    });
    (port, sessions)
}

#[tokio::test]
async fn a_gateway_with_few_channels_gets_more_sessions() {
    use russh::ChannelOpenFailure::{AdministrativelyProhibited, ResourceShortage};
    let Some(lab) = Lab::new().await else { return };
    let far = lab.sshd(MANY_LOGINS).await;
    for reason in [AdministrativelyProhibited, ResourceShortage] {
        let (port, mut sessions) =
            start_gateway(&lab, LimitedGateway { max_channels: 4, channels: 0, reason }).await;
        write_hosts(&lab, &[("bastion", port, ""), ("n*", far.port, "ProxyJump bastion")]);
        let key = lab.text("host_ed25519.pub");
        lab.write("known", &format!("[{ADDRESS}]:{port} {key}[{ADDRESS}]:{} {key}", far.port));
        let transport = lab.transport();
        let nodes = open_all(&transport, 12).await;
        let mut nodes: Vec<Channel> = nodes.into_values().map(Result::unwrap).collect();
        for channel in &mut nodes {
            check_cat(channel).await;
        }
        let mut count = 0;
        while sessions.try_recv().is_ok() {
            count += 1;
        }
        assert_eq!(count, 3);
    }
}

#[tokio::test]
async fn a_gateway_without_resources_is_retried_later() {
    let Some(lab) = Lab::new().await else { return };
    let reason = russh::ChannelOpenFailure::ResourceShortage;
    let (port, _sessions) =
        start_gateway(&lab, LimitedGateway { max_channels: 0, channels: 0, reason }).await;
    write_hosts(&lab, &[("bastion", port, ""), ("node", 1, "ProxyJump bastion")]);
    lab.write("known", &format!("[{ADDRESS}]:{port} {}", lab.text("host_ed25519.pub")));
    let fault = lab.open("true").await.unwrap_err();
    assert!(matches!(ssh_root(&fault), Some(ssh::Fault::ChannelRefused { .. })), "{fault}");
    assert!(fault.is_retryable());
}

#[tokio::test]
async fn a_gateway_with_two_names_is_used_once() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    let hosts = [
        ("bastion gateway", bastion.port, ""),
        ("n1", far.port, "ProxyJump bastion"),
        ("n2", far.port, "ProxyJump gateway"),
    ];
    write_hosts(&lab, &hosts);
    trust_all(&lab, &[&bastion, &far]);
    let transport = lab.transport();
    let mut nodes = [open_cat(&transport, "n1").await, open_cat(&transport, "n2").await];
    for channel in &mut nodes {
        check_cat(channel).await;
    }
    assert_eq!(bastion.log_count("Accepted publickey"), 1);
}

// ---- ProxyCommand ----

/// Writes a configuration with this `ProxyCommand`.
fn write_command(lab: &Lab, sshd: &Sshd, command: &str) {
    // The address is unreachable: only the command can connect.
    let folder = lab.folder.path().display();
    lab.write(
        "config",
        &format!(
            "Host node\n HostName 192.0.2.1\n HostKeyAlias behind\n ProxyCommand {command}\n\
             Host bastion\n HostName {ADDRESS}\n Port {}\n HostKeyAlias behind\n\
             Host *\n User {}\n IdentityFile {folder}/id\n UserKnownHostsFile {folder}/known\n \
             GlobalKnownHostsFile {folder}/global\n",
            sshd.port, lab.user
        ),
    );
    lab.write("known", &format!("behind {}", lab.text("host_ed25519.pub")));
}

#[tokio::test]
async fn a_proxy_command_reaches_the_node() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    let config = lab.path("config");
    for command in [
        format!("ssh -F {} -o BatchMode=yes -W {ADDRESS}:{} bastion", config.display(), sshd.port),
        format!("bash -c 'exec 3<>/dev/tcp/{ADDRESS}/{}; cat <&3 & cat >&3; kill $!'", sshd.port),
    ] {
        write_command(&lab, &sshd, &command);
        assert_eq!(hello(&lab.transport(), "node").await.unwrap(), "hello\n", "{command}");
    }
}

/// Opens the node through a command that fails, with a connect timeout.
async fn proxy_fault(lab: &Lab, sshd: &Sshd, command: &str, timeout: Duration) -> Fault {
    write_command(lab, sshd, command);
    let transport = Transport::new(lab.options_with_timeout(timeout));
    transport.open(&node(), "true", |_| ()).await.unwrap_err()
}

#[tokio::test]
async fn a_failed_proxy_command_is_reported_with_its_last_line() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    let silent = "it sends no SSH banner";
    for (command, words) in [
        ("sh -c 'echo first >&2; echo no way to %h >&2; exit 1'", "no way to 192.0.2.1"),
        ("sh -c 'yes at length | head -c 100000 >&2; echo last >&2'", "last"),
        ("sh -c 'exec >&-; sleep 1; echo the last words >&2'", "the last words"),
        ("/no/such/program", "No such file or directory"),
        ("false", silent),
        ("sleep 1000", silent),
    ] {
        let is_silent = command.starts_with("sleep");
        let timeout = if is_silent { Duration::from_millis(500) } else { TIMEOUT };
        let fault = proxy_fault(&lab, &sshd, command, timeout).await;
        let Fault::Ssh(ssh::Fault::ProxyCommandFailed { why, .. }) = &fault else {
            panic!("{command}: {fault}")
        };
        let is_reported = why.contains(words) || why.contains(&words.to_lowercase());
        assert!(is_reported || why.contains("not found"), "{command}: {fault}");
        assert!(fault.is_retryable());
    }
}

#[tokio::test]
async fn a_proxy_command_with_endless_output_is_a_fault() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    for command in [
        "yes",
        "echo HTTP/1.1 400 no",
        "cat /dev/urandom",
        "sh -c 'echo SSH-2.0-x; cat /dev/urandom'",
    ] {
        let fault = proxy_fault(&lab, &sshd, command, Duration::from_millis(500)).await;
        assert!(fault.is_retryable(), "{command}: {fault}");
    }
}

#[tokio::test]
async fn a_proxy_command_exits_with_its_session() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    let pipe = lab.path("pipe");
    run("mkfifo", &[pipe.to_str().unwrap()]).await;
    let mut reader = tokio::net::unix::pipe::OpenOptions::new().open_receiver(&pipe).unwrap();
    let line = format!(
        "bash -c 'exec 3<>/dev/tcp/{ADDRESS}/{} 4>{}; sleep 1000 & cat <&3 & cat >&3; wait'",
        sshd.port,
        pipe.display()
    );
    write_command(&lab, &sshd, &line);
    let mut channel = lab.open("cat").await.unwrap();
    check_cat(&mut channel).await;
    drop(channel);
    // The pipe reaches its end when the last process that holds it has exited.
    let end = tokio::time::timeout(TIMEOUT, reader.read_to_end(&mut Vec::new())).await;
    assert_eq!(end.unwrap().unwrap(), 0);
}

// ---- bind addresses, algorithms, keepalives, phases ----

#[tokio::test]
async fn a_connection_starts_at_the_configured_address() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    lab.write_config(sshd.port, "BindAddress 127.0.7.9");
    let mut channel = lab.open("echo $SSH_CONNECTION").await.unwrap();
    assert!(read_output(&mut channel).await.stdout.starts_with("127.0.7.9 "));
    lab.write_config(sshd.port, "BindAddress 192.0.2.1");
    let fault = lab.open("true").await.unwrap_err();
    assert!(fault.to_string().contains("BindAddress 192.0.2.1 cannot be used"), "{fault}");
}

#[tokio::test]
async fn only_configured_key_exchanges_ciphers_and_macs_are_offered() {
    let Some(lab) = Lab::new().await else { return };
    let strict = "KexAlgorithms ecdh-sha2-nistp384\nCiphers aes192-ctr\nMACs hmac-sha2-512";
    let sshd = lab.sshd(strict).await;
    lab.trust(&sshd);
    for (options, kind) in [
        ("Ciphers aes192-ctr,aes256-ctr", None),
        ("KexAlgorithms ecdh-sha2-nistp384\nMACs umac-64@openssh.com,hmac-sha2-512", None),
        ("KexAlgorithms curve25519-sha256", Some("key exchange")),
        ("Ciphers aes256-ctr", Some("cipher")),
        ("Ciphers aes192-ctr\nMACs hmac-sha2-256", Some("MAC")),
    ] {
        lab.write_config(sshd.port, options);
        match (lab.open("true").await, kind) {
            (Ok(_), None) => {}
            (Err(Fault::Ssh(ssh::Fault::NoCommonAlgorithm { kind, .. })), Some(wanted))
                if kind == wanted => {}
            (result, _) => panic!("{options}: {result:?}"),
        }
    }
    for (option, names) in [
        ("KexAlgorithms", "sntrup761x25519-sha512@openssh.com"),
        ("MACs", "umac-64@openssh.com,umac-128-etm@openssh.com"),
        ("Ciphers", "3des-cbc"),
    ] {
        lab.write_config(sshd.port, &format!("{option} {names}"));
        let fault = lab.open("true").await.unwrap_err();
        assert!(
            matches!(&fault, Fault::Ssh(ssh::Fault::UnsupportedAlgorithms { option: named, .. }) if *named == option),
            "{fault}"
        );
    }
}

#[tokio::test]
async fn a_queued_line_is_sent_with_the_next_output() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    lab.write_config(sshd.port, "");
    let mut channel = lab.open("while read word; do echo got $word; done").await.unwrap();
    assert_eq!(channel.queue_line("second\n".to_owned()), None);
    // The command has printed nothing yet.
    assert_eq!(channel.take_queued_line().as_deref(), Some("second\n"));
    assert_eq!(channel.queue_line("second\n".to_owned()), None);
    channel.send(b"first\n").await.unwrap();
    let mut received = String::new();
    while !received.ends_with("got second\n") {
        let output = tokio::time::timeout(TIMEOUT, channel.next()).await.unwrap();
        let Ok(Output::Stdout(bytes)) = output else { panic!("{received}{output:?}") };
        received.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    assert_eq!((received.as_str(), channel.take_queued_line()), ("got first\ngot second\n", None));
    // A line queued before EOF is not sent.
    assert_eq!(channel.queue_line("queued\n".to_owned()), None);
    channel.close_stdin().await.unwrap();
    assert_eq!(read_output(&mut channel).await.stdout, "");
}

#[tokio::test]
async fn a_stopped_server_is_lost_after_the_configured_keepalives() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    lab.write_config(sshd.port, "ServerAliveInterval 1\nServerAliveCountMax 1");
    // The shell stops its own sshd, so the connection goes silent.
    let mut channel = lab.open("echo $PPID; read go; kill -STOP $PPID; cat").await.unwrap();
    let Ok(Output::Stdout(number)) = channel.next().await else { panic!("no number") };
    let stopped = String::from_utf8(number).unwrap().trim().parse().unwrap();
    channel.send(b"go\n").await.unwrap();
    let lost = read_output(&mut channel).await.fault.unwrap();
    assert!(lost.to_string().contains("no longer answers"), "{lost}");
    let stopped = rustix::process::Pid::from_raw(stopped).unwrap();
    rustix::process::kill_process(stopped, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn the_phases_behind_a_gateway_are_traced() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("node", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion, &far]);
    let mut phases = Vec::new();
    let (transport, node) = (lab.transport(), node());
    transport.open(&node, "true", |phase| phases.push(phase)).await.unwrap();
    let expected = [
        ConnectPhase::Configuration,
        ConnectPhase::Connection,
        ConnectPhase::KeyExchange,
        ConnectPhase::Login,
        ConnectPhase::Command,
    ];
    assert_eq!(phases, expected);
}
