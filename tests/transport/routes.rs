//! Routes to a node: gateways, `ProxyCommand`, bind addresses and negotiated algorithms.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use gtop::model::NodeName;
use gtop::transport::{
    Channel, ConnectPhase, Fault, Options, Output, SchedulerAddresses, Transport, TransportMode,
};
use russh::server;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::lab::{ADDRESS, Lab, Sshd, TIMEOUT, free_port, listen, node, run, system};

/// For a server many come to at once: login files are not to run each time.
const CROWDED: &str = "MaxStartups 200\nSetEnv HOME=/nonexistent";

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

/// Makes the key of all these servers known.
fn trust_all(lab: &Lab, servers: &[&Sshd]) {
    let key = lab.text("host_ed25519.pub");
    let lines = servers.iter().map(|sshd| format!("[{ADDRESS}]:{} {key}", sshd.port));
    lab.write("known", &lines.collect::<String>());
}

async fn hello(transport: &Transport, host: &str) -> Result<String, Fault> {
    let mut channel = transport.open(&system(host, None, None), "echo hello", |_| ()).await?;
    Ok(listen(&mut channel).await.stdout)
}

/// A channel to `cat`, which answers what it is sent.
async fn cat(transport: &Transport, host: &str) -> Channel {
    transport.open(&system(host, None, None), "cat", |_| ()).await.unwrap()
}

async fn answers(channel: &mut Channel) {
    channel.send(b"ping\n").await.unwrap();
    loop {
        match tokio::time::timeout(TIMEOUT, channel.next()).await.unwrap() {
            // What login files complain about.
            Output::Stderr(_) => {}
            output @ (Output::Stdout(_) | Output::Exit(_) | Output::Closed(_)) => {
                return assert_eq!(output, Output::Stdout(b"ping\n".to_vec()));
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
        // Each says how it is reached itself.
        ("ProxyJump bastion", "ProxyJump login"),
        // The list says it for all; what the second one says of itself does not count.
        ("", "ProxyJump bastion,login"),
        ("ProxyJump nowhere", "ProxyJump bastion,login"),
    ];
    for (number, (of_login, of_node)) in (1..).zip(chains) {
        let hosts = [
            ("bastion", bastion.port, ""),
            ("login", login.port, of_login),
            ("node", far.port, of_node),
        ];
        write_hosts(&lab, &hosts);
        assert_eq!(hello(&lab.transport(), "node").await.unwrap(), "hello\n", "{of_node}");
        for sshd in [&bastion, &login, &far] {
            assert_eq!(sshd.logged("Accepted publickey"), number, "{of_node}");
        }
    }
}

#[tokio::test]
async fn gateways_in_a_circle_are_refused() {
    let Some(lab) = Lab::new().await else { return };
    for hosts in [
        [("a", 1, "ProxyJump b"), ("b", 2, "ProxyJump a"), ("node", 3, "ProxyJump a")],
        [("a", 1, "ProxyJump a"), ("b", 2, ""), ("node", 3, "ProxyJump a")],
        [("a", 1, ""), ("b", 2, ""), ("node", 3, "ProxyJump node")],
    ] {
        write_hosts(&lab, &hosts);
        let fault = hello(&lab.transport(), "node").await.unwrap_err();
        assert!(fault.to_string().contains("in a circle: node, "), "{fault}");
        assert!(!fault.retries_by_itself());
    }
}

#[tokio::test]
async fn the_host_key_of_a_gateway_is_checked_like_any_other() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("node", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&far]);
    let known = lab.text("known");
    let fault = hello(&lab.transport(), "node").await.unwrap_err();
    let Fault::AtGateway { gateway, fault } = fault else { panic!("{fault}") };
    assert_eq!(gateway, "bastion");
    assert!(matches!(*fault, Fault::HostKeyUnknown { .. }), "{fault}");
    lab.write("known", &format!("{known}[{ADDRESS}]:{} {}", bastion.port, lab.text("id.pub")));
    let fault = hello(&lab.transport(), "node").await.unwrap_err();
    assert!(matches!(fault.root(), Fault::HostKeyChanged(_)), "{fault}");
    assert!(fault.to_string().starts_with("via bastion: host key of "), "{fault}");
    assert_eq!(far.logged("Connection from"), 0);
}

#[tokio::test]
async fn the_host_key_behind_a_gateway_can_be_asked_for() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("node", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion]);
    let offered = lab.transport().host_key(&node()).await.unwrap();
    assert_eq!(offered.host, format!("[{ADDRESS}]:{}", far.port));
}

/// Opens many nodes at once and returns them by name.
async fn open_all(transport: &Transport, count: usize) -> BTreeMap<usize, Result<Channel, Fault>> {
    let mut opening = JoinSet::new();
    for number in 0..count {
        let transport = transport.clone();
        opening.spawn(async move {
            let target = system(&format!("n{number}"), None, None);
            (number, transport.open(&target, "cat", |_| ()).await)
        });
    }
    opening.join_all().await.into_iter().collect()
}

#[tokio::test]
async fn many_nodes_share_one_session_with_their_gateway() {
    let Some(lab) = Lab::new().await else { return };
    let bastion = lab.sshd("MaxSessions 10").await;
    let far = lab.sshd(CROWDED).await;
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("n*", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion, &far]);
    let metrics = tokio::runtime::Handle::current().metrics();
    let before = metrics.num_alive_tasks();
    let transport = lab.transport();
    let nodes = open_all(&transport, 64).await;
    let mut nodes: Vec<Channel> = nodes.into_values().map(Result::unwrap).collect();
    for channel in &mut nodes {
        answers(channel).await;
    }
    assert_eq!(bastion.logged("Accepted publickey"), 1);
    assert_eq!(far.logged("Accepted publickey"), 64);
    // It stays for the last one.
    let mut last = nodes.pop().unwrap();
    drop(nodes);
    answers(&mut last).await;
    drop(last);
    while metrics.num_alive_tasks() > before {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // And another is opened when it is wanted again.
    answers(&mut cat(&transport, "n1").await).await;
    assert_eq!(bastion.logged("Accepted publickey"), 2);
}

#[tokio::test]
async fn a_gateway_that_refuses_is_asked_once_for_all() {
    let Some(lab) = Lab::new().await else { return };
    let bastion = lab.sshd("AuthorizedKeysFile none\nPasswordAuthentication yes").await;
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("n*", 1, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion]);
    for result in open_all(&lab.transport(), 32).await.into_values() {
        let fault = result.unwrap_err();
        assert!(matches!(fault.root(), Fault::AuthenticationRefused { .. }), "{fault}");
        assert!(fault.to_string().starts_with("via bastion: authentication"), "{fault}");
        assert!(!fault.retries_by_itself());
    }
    // The server writes it down when it notices.
    let closed = "Connection closed by authenticating";
    let noticing = async {
        while bastion.logged(closed) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(TIMEOUT, noticing).await.is_ok());
    assert_eq!(bastion.logged(closed), 1);
}

#[tokio::test]
async fn a_gateway_that_cannot_connect_says_why_and_serves_the_others() {
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
    let mut well = cat(&transport, "node").await;
    let fault = hello(&transport, "closed").await.unwrap_err();
    let Fault::GatewayCannotReach { gateway, why } = &fault else { panic!("{fault}") };
    assert_eq!((gateway.as_str(), why.as_str()), ("bastion", "connection refused"));
    assert!(fault.retries_by_itself());
    answers(&mut well).await;
    assert_eq!(bastion.logged("Accepted publickey"), 1);
}

#[tokio::test]
async fn a_name_that_nobody_knows_gives_way_to_the_address_of_the_scheduler() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    write_hosts(&lab, &[("bastion", bastion.port, "")]);
    trust_all(&lab, &[&bastion, &far]);
    let hosts = lab.text("config");
    for (way, mode) in [
        ("", TransportMode::Native),
        ("", TransportMode::Ssh),
        ("ProxyJump bastion", TransportMode::Native),
    ] {
        let port = far.port;
        let nodes = format!(
            "Host node.invalid other.invalid cased.invalid meant\n Port {port}\n HostKeyAlias [{ADDRESS}]:{port}\n {way}\n\
             Host meant\n HostName wrong.invalid\n"
        );
        lab.write("config", &(nodes + &hosts));
        let transport = Transport::new(Options { mode, ..lab.options() });
        hello(&transport, "node.invalid").await.unwrap_err();
        let pair =
            |name: &str, at: Option<&str>| (NodeName::new(name).unwrap(), at.map(str::to_owned));
        let known = [
            pair("node.invalid", Some(ADDRESS)),
            pair("other.invalid", None),
            pair("cased.invalid", Some("CASED.invalid")),
            pair("meant", Some(ADDRESS)),
        ];
        let known = Arc::new(known.into());
        transport.set_scheduler_addresses(SchedulerAddresses { known, is_asking: false });
        let found = hello(&transport, "node.invalid").await;
        assert_eq!(found.unwrap(), "hello\n", "{way} {mode:?}");
        // What the configuration says counts, and what differs in case alone is no other address.
        for name in ["other.invalid", "cased.invalid", "meant"] {
            tokio::time::timeout(TIMEOUT, hello(&transport, name)).await.unwrap().unwrap_err();
        }
    }
}

#[tokio::test]
async fn a_gateway_that_forbids_forwarding_is_not_asked_again_and_again() {
    let Some(lab) = Lab::new().await else { return };
    let bastion = lab.sshd("AllowTcpForwarding no").await;
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("n*", 1, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion]);
    for result in open_all(&lab.transport(), 16).await.into_values() {
        let fault = result.unwrap_err();
        assert!(matches!(fault, Fault::GatewayForwardingRefused { .. }), "{fault}");
        assert!(fault.to_string().contains("AllowTcpForwarding"), "{fault}");
        assert!(!fault.retries_by_itself());
    }
    assert!(bastion.logged("Accepted publickey") <= 2, "sessions are shared");
}

#[tokio::test]
async fn a_place_the_gateway_forbids_costs_the_others_nothing() {
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
    let mut well = cat(&transport, "node").await;
    for _ in 0..3 {
        let fault = hello(&transport, "other").await.unwrap_err();
        assert!(matches!(fault, Fault::GatewayForwardingRefused { .. }), "{fault}");
    }
    // One more, to learn that it was not for lack of room.
    assert_eq!(bastion.logged("Accepted publickey"), 2);
    answers(&mut well).await;
    assert_eq!(hello(&transport, "node").await.unwrap(), "hello\n");
}

#[tokio::test]
async fn nodes_come_back_together_after_their_gateway_has_dropped() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd(CROWDED).await);
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("n*", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion, &far]);
    let transport = lab.transport();
    let mut nodes = open_all(&transport, 16).await;
    bastion.cut();
    for channel in nodes.values_mut() {
        let lost = listen(channel.as_mut().unwrap()).await.lost.unwrap();
        let is_of_the_gateway =
            matches!(&lost, Fault::AtGateway { gateway, .. } if gateway == "bastion");
        assert!(is_of_the_gateway && lost.retries_by_itself(), "{lost}");
        assert!(matches!(lost.root(), Fault::SessionLost { .. }), "{lost}");
    }
    drop(nodes);
    let mut nodes = open_all(&transport, 16).await;
    for channel in nodes.values_mut() {
        answers(channel.as_mut().unwrap()).await;
    }
    assert_eq!(bastion.logged("Accepted publickey"), 2);
}

#[tokio::test]
async fn a_gateway_that_is_down_is_tried_once_for_all_nodes() {
    let Some(lab) = Lab::new().await else { return };
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    write_hosts(&lab, &[("bastion", port, ""), ("n*", 1, "ProxyJump bastion")]);
    let transport = lab.transport();
    let mut tries = 0;
    let counting = async {
        loop {
            drop(listener.accept().await.unwrap());
            tries += 1;
        }
    };
    let asking = async {
        for _ in 0..2 {
            for result in open_all(&transport, 32).await.into_values() {
                let fault = result.unwrap_err();
                assert!(matches!(fault.root(), Fault::NotSsh { .. }), "{fault}");
            }
        }
    };
    tokio::select! {
        () = counting => {}
        () = asking => {}
    }
    // Those who ask late, because their configuration was read late, share the next try.
    assert!((2..=5).contains(&tries), "{tries} tries for 64 wishes");
}

#[tokio::test]
async fn a_node_that_is_not_read_does_not_stop_the_others() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("n*", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion, &far]);
    let transport = lab.transport();
    let mut well = cat(&transport, "n1").await;
    let mut flood = transport.open(&system("n2", None, None), "yes", |_| ()).await.unwrap();
    // Long after what waits unread has filled every buffer on the way.
    for _ in 0..500 {
        answers(&mut well).await;
    }
    for _ in 0..100 {
        let output = tokio::time::timeout(TIMEOUT, flood.next()).await.unwrap();
        assert!(matches!(output, Output::Stdout(_)), "{output:?}");
        answers(&mut well).await;
    }
    assert_eq!(bastion.logged("Accepted publickey"), 1);
}

#[tokio::test]
async fn a_megabyte_comes_through_a_gateway_whole() {
    let Some(lab) = Lab::new().await else { return };
    let (bastion, far) = (lab.sshd("").await, lab.sshd("").await);
    write_hosts(&lab, &[("bastion", bastion.port, ""), ("node", far.port, "ProxyJump bastion")]);
    trust_all(&lab, &[&bastion, &far]);
    // The channel needs nobody but itself: the transport is gone by now.
    let line = "head -c 3000000 /dev/zero | tr '\\0' x; cat | wc -c";
    let mut channel = lab.open(line).await.unwrap();
    let mut count = 0;
    while count < 3_000_000 {
        let output = tokio::time::timeout(TIMEOUT, channel.next()).await;
        let Ok(Output::Stdout(bytes)) = output else { panic!("{output:?} after {count}") };
        count += bytes.len();
    }
    channel.send(&vec![b'x'; 3_000_000]).await.unwrap();
    channel.close_stdin().await.unwrap();
    assert_eq!(listen(&mut channel).await.stdout, "3000000\n");
}

/// A gateway that carries so many connections on one session and no more.
#[derive(Clone)]
struct Narrow {
    most: usize,
    carried: usize,
    reason: russh::ChannelOpenFailure,
}

impl server::Handler for Narrow {
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
        if self.carried >= self.most {
            reply.reject(self.reason.clone()).await;
            return Ok(());
        }
        self.carried += 1;
        let mut stream = TcpStream::connect((host, u16::try_from(port).unwrap())).await.unwrap();
        reply.accept().await;
        tokio::spawn(async move {
            let mut channel = channel.into_stream();
            tokio::io::copy_bidirectional(&mut channel, &mut stream).await.ok();
        });
        Ok(())
    }
}

/// Starts gateways with few channels behind one port; reports each session that is opened.
async fn narrow(lab: &Lab, narrow: Narrow) -> (u16, tokio::sync::mpsc::Receiver<()>) {
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let host_key = russh::keys::load_secret_key(lab.path("host_ed25519"), None).unwrap();
    let config = Arc::new(server::Config { keys: vec![host_key], ..server::Config::default() });
    let (opened, sessions) = tokio::sync::mpsc::channel(64);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            opened.send(()).await.unwrap();
            let session = server::run_stream(Arc::clone(&config), stream, narrow.clone());
            tokio::spawn(session.await.unwrap());
        }
    });
    (port, sessions)
}

#[tokio::test]
async fn a_gateway_with_little_room_gets_more_sessions() {
    use russh::ChannelOpenFailure::{AdministrativelyProhibited, ResourceShortage};
    let Some(lab) = Lab::new().await else { return };
    let far = lab.sshd(CROWDED).await;
    for reason in [AdministrativelyProhibited, ResourceShortage] {
        let (port, mut sessions) = narrow(&lab, Narrow { most: 4, carried: 0, reason }).await;
        write_hosts(&lab, &[("bastion", port, ""), ("n*", far.port, "ProxyJump bastion")]);
        let key = lab.text("host_ed25519.pub");
        lab.write("known", &format!("[{ADDRESS}]:{port} {key}[{ADDRESS}]:{} {key}", far.port));
        let transport = lab.transport();
        let nodes = open_all(&transport, 12).await;
        let mut nodes: Vec<Channel> = nodes.into_values().map(Result::unwrap).collect();
        for channel in &mut nodes {
            answers(channel).await;
        }
        let mut count = 0;
        while sessions.try_recv().is_ok() {
            count += 1;
        }
        assert_eq!(count, 3);
    }
}

#[tokio::test]
async fn a_gateway_that_is_short_of_everything_is_tried_again_later() {
    let Some(lab) = Lab::new().await else { return };
    let reason = russh::ChannelOpenFailure::ResourceShortage;
    let (port, _sessions) = narrow(&lab, Narrow { most: 0, carried: 0, reason }).await;
    write_hosts(&lab, &[("bastion", port, ""), ("node", 1, "ProxyJump bastion")]);
    lab.write("known", &format!("[{ADDRESS}]:{port} {}", lab.text("host_ed25519.pub")));
    let fault = lab.open("true").await.unwrap_err();
    assert!(matches!(fault.root(), Fault::ChannelRefused { .. }), "{fault}");
    assert!(fault.retries_by_itself());
}

#[tokio::test]
async fn a_gateway_by_two_names_is_one() {
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
    let mut nodes = [cat(&transport, "n1").await, cat(&transport, "n2").await];
    for channel in &mut nodes {
        answers(channel).await;
    }
    assert_eq!(bastion.logged("Accepted publickey"), 1);
}

// ---- commands ----

/// Writes a configuration that reaches the server by this command.
fn write_command(lab: &Lab, sshd: &Sshd, command: &str) {
    // The address leads nowhere: only the command can be the way.
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
async fn a_command_leads_to_the_node() {
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

/// Opens the node by a command that leads nowhere, with this much patience.
async fn fails(lab: &Lab, sshd: &Sshd, command: &str, patience: Duration) -> Fault {
    write_command(lab, sshd, command);
    let connect_timeout = Some(patience);
    let transport = Transport::new(Options { connect_timeout, ..lab.options() });
    transport.open(&node(), "true", |_| ()).await.unwrap_err()
}

#[tokio::test]
async fn a_command_that_leads_nowhere_is_named_with_its_last_words() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    let silent = "it sends no SSH banner";
    for (command, words) in [
        ("sh -c 'echo first >&2; echo no way to %h >&2; exit 1'", "no way to 192.0.2.1"),
        ("sh -c 'yes at length | head -c 100000 >&2; echo last >&2'", "last"),
        ("/no/such/program", "No such file or directory"),
        ("false", silent),
        ("sleep 1000", silent),
    ] {
        let is_silent = command.starts_with("sleep");
        let patience = if is_silent { Duration::from_millis(500) } else { TIMEOUT };
        let fault = fails(&lab, &sshd, command, patience).await;
        let Fault::ProxyCommandFailed { why, .. } = &fault else { panic!("{command}: {fault}") };
        let is_told = why.contains(words) || why.contains(&words.to_lowercase());
        assert!(is_told || why.contains("not found"), "{command}: {fault}");
        assert!(fault.retries_by_itself());
    }
}

#[tokio::test]
async fn a_command_that_prints_without_end_is_no_node() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    for command in [
        "yes",
        "echo HTTP/1.1 400 no",
        "cat /dev/urandom",
        "sh -c 'echo SSH-2.0-x; cat /dev/urandom'",
    ] {
        let fault = fails(&lab, &sshd, command, Duration::from_millis(500)).await;
        assert!(fault.retries_by_itself(), "{command}: {fault}");
    }
}

#[tokio::test]
async fn a_command_ends_with_its_session() {
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
    answers(&mut channel).await;
    drop(channel);
    // The pipe ends when the last process that holds it is gone.
    let end = tokio::time::timeout(TIMEOUT, reader.read_to_end(&mut Vec::new())).await;
    assert_eq!(end.unwrap().unwrap(), 0);
}

// ---- where connections begin, and what they agree on ----

#[tokio::test]
async fn a_connection_begins_at_the_configured_address() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    lab.write_config(sshd.port, "BindAddress 127.0.7.9");
    let mut channel = lab.open("echo $SSH_CONNECTION").await.unwrap();
    assert!(listen(&mut channel).await.stdout.starts_with("127.0.7.9 "));
    lab.write_config(sshd.port, "BindAddress 192.0.2.1");
    let fault = lab.open("true").await.unwrap_err();
    assert!(fault.to_string().contains("BindAddress 192.0.2.1 cannot be used"), "{fault}");
}

#[tokio::test]
async fn configured_algorithms_are_offered_and_no_others() {
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
            (Err(Fault::NoCommonAlgorithm { kind, .. }), Some(wanted)) if kind == wanted => {}
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
            matches!(&fault, Fault::UnsupportedAlgorithms { option: named, .. } if *named == option),
            "{fault}"
        );
        assert!(fault.to_string().contains("--transport auto"), "{fault}");
    }
}

#[tokio::test]
async fn a_reply_goes_as_soon_as_the_command_says_something() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    lab.write_config(sshd.port, "");
    let mut channel = lab.open("while read word; do echo got $word; done").await.unwrap();
    assert_eq!(channel.reply("second\n".to_owned()), None);
    // It has said nothing yet.
    assert_eq!(channel.take_back().as_deref(), Some("second\n"));
    assert_eq!(channel.reply("second\n".to_owned()), None);
    channel.send(b"first\n").await.unwrap();
    let mut said = String::new();
    while !said.ends_with("got second\n") {
        let output = tokio::time::timeout(TIMEOUT, channel.next()).await.unwrap();
        let Output::Stdout(bytes) = output else { panic!("{said}{output:?}") };
        said.push_str(std::str::from_utf8(&bytes).unwrap());
    }
    assert_eq!((said.as_str(), channel.take_back()), ("got first\ngot second\n", None));
    // Nothing comes behind the end.
    assert_eq!(channel.reply("late\n".to_owned()), None);
    channel.close_stdin().await.unwrap();
    assert_eq!(listen(&mut channel).await.stdout, "");
}

#[tokio::test]
async fn a_server_that_stops_is_gone_as_soon_as_configured() {
    let Some(lab) = Lab::new().await else { return };
    let sshd = lab.sshd("").await;
    lab.trust(&sshd);
    lab.write_config(sshd.port, "ServerAliveInterval 1\nServerAliveCountMax 1");
    // The shell stops its own sshd, and then itself cannot be heard any more.
    let mut channel = lab.open("echo $PPID; read go; kill -STOP $PPID; cat").await.unwrap();
    let Output::Stdout(number) = channel.next().await else { panic!("no number") };
    let stopped = String::from_utf8(number).unwrap().trim().parse().unwrap();
    channel.send(b"go\n").await.unwrap();
    let lost = listen(&mut channel).await.lost.unwrap();
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
    let mut steps = Vec::new();
    let (transport, node) = (lab.transport(), node());
    transport.open(&node, "true", |step| steps.push(step)).await.unwrap();
    let known = [
        ConnectPhase::Configuration,
        ConnectPhase::Connection,
        ConnectPhase::KeyExchange,
        ConnectPhase::Login,
        ConnectPhase::Command,
    ];
    assert_eq!(steps, known);
}
