//! The user's `ControlMaster` connections, used for nodes that refuse gtop's own login.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use gtop_collect::transport::{Channel, Fault, Options, Transport, TransportMode};
use gtop_model::TransportKind;
use gtop_ssh::{self as ssh, ConnectEvent, Trace, with_trace};
use rustix::fs::{Gid, Uid, chown};
use tokio::net::UnixListener;
use tokio::process::Command;

use super::ssh_root;
use crate::harness::lab::{ADDRESS, Lab, Sshd, node, read_output, ssh_target};

/// A server that accepts the key `id`, which gtop does not have, and a `ControlMaster` connection opened with it.
struct MasterFixture {
    lab: Lab,
    sshd: Sshd,
}

impl MasterFixture {
    async fn new(extra: &str) -> Option<Self> {
        let lab = Lab::new().await?;
        lab.key("wrong", &["-t", "ed25519"]);
        let sshd = lab.sshd(extra).await;
        lab.trust(&sshd);
        let fixture = Self { lab, sshd };
        fixture.write_config("");
        Some(fixture)
    }

    /// Writes the configuration of `node`, of its aliases, and the lines of a test.
    fn write_config(&self, extra: &str) {
        let folder = self.lab.folder.path().display();
        let first = format!(
            "Host node alias*\nHostName {ADDRESS}\nIdentityFile {folder}/wrong\nIdentitiesOnly yes\n\
             ControlPath {folder}/m-%h-%p-%r\nPort {}\n\
             UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile {folder}/global\n{extra}",
            self.sshd.port
        );
        self.lab.write("config", &first);
    }

    fn ssh(&self, words: &[&str]) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(self.lab.path("config")).args(words).env_remove("SSH_AUTH_SOCK");
        ssh
    }

    async fn open_master(&self) {
        let identity = format!("IdentityFile={}", self.lab.path("id").display());
        let done = self.ssh(&["-fNM", "-o", &identity, "node"]).status().await.unwrap();
        assert!(done.success());
    }

    async fn close_master(&self) {
        assert!(self.ssh(&["-O", "exit", "node"]).output().await.unwrap().status.success());
    }

    fn socket(&self) -> PathBuf {
        let entries = fs::read_dir(self.lab.folder.path()).unwrap().map(|entry| entry.unwrap());
        let mut found =
            entries.filter(|entry| entry.file_name().to_str().unwrap().starts_with("m-"));
        found.next().unwrap().path()
    }

    fn transport(&self, mode: TransportMode) -> Transport {
        Transport::new(Options { mode, ..self.lab.options() })
    }
}

impl Drop for MasterFixture {
    fn drop(&mut self) {
        // A master is a daemon: it is stopped here if its test did not.
        let config = self.lab.path("config");
        let words = ["-F", config.to_str().unwrap(), "-O", "exit", "node"];
        #[expect(clippy::disallowed_methods, reason = "nothing can be awaited here")]
        std::process::Command::new("ssh").args(words).output().unwrap();
    }
}

async fn echo_transport(transport: &Transport, host: &str) -> Result<TransportKind, Fault> {
    let mut channel: Channel =
        transport.open(&ssh_target(host, None, None), "echo hello; cat", |_| ()).await?;
    channel.close_stdin().await?;
    let via = channel.via();
    assert_eq!(read_output(&mut channel).await.stdout, "hello\n");
    Ok(via)
}

#[tokio::test]
async fn a_node_that_refuses_the_login_is_reached_over_an_open_master() {
    let Some(fixture) = MasterFixture::new("").await else { return };
    let auto = fixture.transport(TransportMode::Auto);
    let is_refused = |opened: Result<TransportKind, Fault>| {
        let fault = opened.unwrap_err();
        assert!(matches!(fault, Fault::Ssh(ssh::Fault::AuthenticationRefused { .. })), "{fault}");
    };
    is_refused(echo_transport(&auto, "node").await);
    fixture.open_master().await;
    assert_eq!(echo_transport(&auto, "node").await.unwrap(), TransportKind::SshProgram);
    // The refusal is remembered: no third login attempt. sshd writes of the others when it likes.
    let attempts = 2;
    while fixture.sshd.log_count("Connection closed by authenticating") < attempts {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(echo_transport(&auto, "node").await.unwrap(), TransportKind::SshProgram);
    assert_eq!(fixture.sshd.log_count("Connection closed by authenticating"), attempts);
    is_refused(echo_transport(&fixture.transport(TransportMode::Native), "node").await);
    // A key readable by others does not matter while a master is open.
    let allow = |mode| {
        fs::set_permissions(fixture.lab.path("wrong"), fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(0o644);
    assert_eq!(
        echo_transport(&fixture.transport(TransportMode::Auto), "node").await.unwrap(),
        TransportKind::SshProgram
    );
    allow(0o600);
    // A key that authenticates needs no master.
    fixture.write_config(&format!("Host node\nIdentityFile {}", fixture.lab.path("id").display()));
    let own = fixture.transport(TransportMode::Auto);
    assert_eq!(echo_transport(&own, "node").await.unwrap(), TransportKind::Native);
    fixture.write_config("");
    fixture.close_master().await;
    is_refused(echo_transport(&auto, "node").await);
}

#[tokio::test]
async fn a_gateway_that_refuses_the_login_is_passed_over_an_open_master() {
    // The thirty nodes are one server here, so MaxStartups is raised.
    let Some(fixture) = MasterFixture::new("MaxStartups 100").await else { return };
    let far = fixture.lab.sshd("").await;
    let key = fixture.lab.text("host_ed25519.pub");
    let known = [fixture.sshd.port, far.port].map(|port| format!("[{ADDRESS}]:{port} {key}"));
    fixture.lab.write("known", &known.concat());
    let folder = fixture.lab.folder.path().display();
    let inner = format!(
        "Host far\nHostName {ADDRESS}\nPort {}\nIdentityFile {folder}/id\nProxyJump node\n\
         UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile {folder}/global\n\
         Host inner*\nHostName {ADDRESS}\nPort {}\nIdentityFile {folder}/id\nProxyJump node\n\
         UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile {folder}/global\n\
         Host nowhere\nHostName {ADDRESS}\nPort 1\nIdentityFile {folder}/id\nProxyJump node\n",
        far.port, fixture.sshd.port
    );
    fixture.write_config(&inner);
    let auto = fixture.transport(TransportMode::Auto);
    let fault = echo_transport(&auto, "inner").await.unwrap_err();
    assert!(matches!(ssh_root(&fault), Some(ssh::Fault::AuthenticationRefused { .. })), "{fault}");
    fixture.open_master().await;
    let other = fixture.transport(TransportMode::Auto);
    let mut hellos = tokio::task::JoinSet::new();
    for number in 0..30 {
        let transport = other.clone();
        hellos.spawn(async move { echo_transport(&transport, &format!("inner{number}")).await });
    }
    while let Some(hello) = hellos.join_next().await {
        assert_eq!(hello.unwrap().unwrap(), TransportKind::SshProgram);
    }
    // All thirty together tried to log in to the gateway once.
    assert_eq!(fixture.sshd.log_count("Connection closed by authenticating"), 2);
    let fault = echo_transport(&other, "nowhere").await.unwrap_err();
    let Fault::Ssh(ssh::Fault::GatewayCannotReach { gateway, .. }) = &fault else {
        panic!("{fault}")
    };
    assert_eq!(gateway, "node");
    let native =
        echo_transport(&fixture.transport(TransportMode::Native), "inner").await.unwrap_err();
    assert!(
        matches!(ssh_root(&native), Some(ssh::Fault::AuthenticationRefused { .. })),
        "{native}"
    );
    let open = async |name| other.open(&ssh_target(name, None, None), "cat", |_| ()).await.unwrap();
    // If the node is lost and the master is not, the fault is the node's.
    let mut waiting = open("far").await;
    far.kill_sessions();
    let lost = read_output(&mut waiting).await.fault.unwrap();
    assert!(matches!(lost, Fault::Ssh(ssh::Fault::SessionLost { .. })), "{lost}");
    let mut waiting = open("inner").await;
    fixture.close_master().await;
    let lost = read_output(&mut waiting).await.fault.unwrap();
    let Fault::Ssh(ssh::Fault::AtGateway { gateway, fault }) = &lost else { panic!("{lost}") };
    assert!(gateway == "node" && fault.to_string().contains("the master connection at"), "{lost}");
    assert!(lost.is_retryable(), "{lost}");
}

#[tokio::test]
async fn a_master_without_free_sessions_is_retried_without_another_login() {
    let Some(fixture) = MasterFixture::new("MaxSessions 2").await else { return };
    fixture.open_master().await;
    let auto = fixture.transport(TransportMode::Auto);
    let open = |name| {
        let auto = auto.clone();
        async move { auto.open(&ssh_target(name, None, None), "echo; cat", |_| ()).await }
    };
    let (one, two) = (open("alias1").await.unwrap(), open("alias2").await.unwrap());
    for _ in 0..3 {
        let fault = open("alias3").await.unwrap_err();
        let Fault::Ssh(ssh::Fault::ChannelRefused { why }) = &fault else { panic!("{fault}") };
        assert!(why.contains("over the master connection"), "{why}");
        assert!(fault.is_retryable());
    }
    // One login attempt per alias.
    assert_eq!(fixture.sshd.log_count("Connection closed by authenticating"), 3);
    one.shutdown().await;
    let mut three = open("alias3").await.unwrap();
    three.close_stdin().await.unwrap();
    assert_eq!(read_output(&mut three).await.stdout, "\n");
    two.shutdown().await;
    // With --transport ssh the fault is the same, not the refusal of ssh's own connection.
    let (one, two) = (open("alias1").await.unwrap(), open("alias2").await.unwrap());
    let by_ssh = fixture.transport(TransportMode::Ssh);
    let fault = by_ssh.open(&node(), "true", |_| ()).await.unwrap_err();
    assert!(matches!(fault, Fault::Ssh(ssh::Fault::ChannelRefused { .. })), "{fault}");
    drop((one, two));
}

#[tokio::test]
async fn a_dead_hanging_or_foreign_control_socket_is_ignored() {
    let Some(fixture) = MasterFixture::new("").await else { return };
    fixture.open_master().await;
    let socket = fixture.socket();
    let refused = |fault: Fault| {
        assert!(matches!(fault, Fault::Ssh(ssh::Fault::AuthenticationRefused { .. })), "{fault}");
    };
    if rustix::process::geteuid().is_root() {
        chown(&socket, Some(Uid::from_raw(65534)), Some(Gid::from_raw(65534))).unwrap();
        refused(echo_transport(&fixture.transport(TransportMode::Auto), "node").await.unwrap_err());
        chown(&socket, Some(Uid::ROOT), Some(Gid::ROOT)).unwrap();
    }
    assert_eq!(
        echo_transport(&fixture.transport(TransportMode::Auto), "node").await.unwrap(),
        TransportKind::SshProgram
    );
    fixture.close_master().await;
    let listener = UnixListener::bind(&socket).unwrap();
    let auto = fixture.transport(TransportMode::Auto);
    // The check times out, and the ssh that ran it is killed.
    refused(echo_transport(&auto, "node").await.unwrap_err());
    let (mut peer, _) = listener.accept().await.unwrap();
    let mut received = Vec::new();
    let end = tokio::io::AsyncReadExt::read_to_end(&mut peer, &mut received);
    tokio::time::timeout(crate::harness::lab::TIMEOUT, end).await.unwrap().unwrap();
    drop(listener);
    assert!(socket.exists(), "a dead socket");
    refused(echo_transport(&auto, "node").await.unwrap_err());
    assert!(socket.exists(), "gtop does not remove the user's socket");
    fs::remove_file(&socket).unwrap();
}

#[tokio::test]
async fn the_trace_says_whether_a_master_is_open() {
    let Some(fixture) = MasterFixture::new("").await else { return };
    let master_events = async || {
        let (trace, auto) = (Trace::default(), fixture.transport(TransportMode::Auto));
        with_trace(&trace, echo_transport(&auto, "node")).await.ok();
        let events = trace.events().into_iter().map(|traced| traced.event);
        events
            .filter(|event| {
                matches!(event, ConnectEvent::MasterFound(_) | ConnectEvent::MasterMissing)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(master_events().await, [ConnectEvent::MasterMissing]);
    fixture.open_master().await;
    assert_eq!(master_events().await, [ConnectEvent::MasterFound(fixture.socket())]);
}
