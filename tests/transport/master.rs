//! The user's `ControlMaster` connections, used for nodes that refuse gtop's own login.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use gtop::model::TransportKind;
use gtop::transport::{
    Channel, ConnectEvent, Fault, Options, Trace, Transport, TransportMode, with_trace,
};
use rustix::fs::{Gid, Uid, chown};
use tokio::net::UnixListener;
use tokio::process::Command;

use crate::lab::{ADDRESS, Lab, Sshd, listen, node, system};

/// A server that accepts the key `id`, which gtop does not have, and a `ControlMaster` connection opened with it.
struct Site {
    lab: Lab,
    sshd: Sshd,
}

impl Site {
    async fn new(extra: &str) -> Option<Self> {
        let lab = Lab::new().await?;
        lab.key("wrong", &["-t", "ed25519"]).await;
        let sshd = lab.sshd(extra).await;
        lab.trust(&sshd);
        let site = Self { lab, sshd };
        site.configure("");
        Some(site)
    }

    /// Writes the configuration of `node`, of the same node by other names, and of what a test adds.
    fn configure(&self, extra: &str) {
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

impl Drop for Site {
    fn drop(&mut self) {
        // A master is a daemon: what its test did not end ends here.
        let config = self.lab.path("config");
        let words = ["-F", config.to_str().unwrap(), "-O", "exit", "node"];
        #[expect(clippy::disallowed_methods, reason = "nothing can be awaited here")]
        std::process::Command::new("ssh").args(words).output().unwrap();
    }
}

async fn says_hello(transport: &Transport, host: &str) -> Result<TransportKind, Fault> {
    let mut channel: Channel =
        transport.open(&system(host, None, None), "echo hello; cat", |_| ()).await?;
    channel.close_stdin().await?;
    let via = channel.via();
    assert_eq!(listen(&mut channel).await.stdout, "hello\n");
    Ok(via)
}

#[tokio::test]
async fn a_node_that_refuses_is_reached_over_an_open_master() {
    let Some(site) = Site::new("").await else { return };
    let auto = site.transport(TransportMode::Auto);
    let is_refused = |opened: Result<TransportKind, Fault>| {
        let fault = opened.unwrap_err();
        assert!(matches!(fault, Fault::AuthenticationRefused { .. }), "{fault}");
    };
    is_refused(says_hello(&auto, "node").await);
    site.open_master().await;
    assert_eq!(says_hello(&auto, "node").await.unwrap(), TransportKind::SshProgram);
    // What it learned is not asked again of the node.
    let knocks = site.sshd.logged("Connection closed by authenticating");
    assert_eq!(says_hello(&auto, "node").await.unwrap(), TransportKind::SshProgram);
    assert_eq!(site.sshd.logged("Connection closed by authenticating"), knocks);
    is_refused(says_hello(&site.transport(TransportMode::Native), "node").await);
    // Nor does a key that others can read keep anybody out of whom a master is open.
    let allow = |mode| {
        fs::set_permissions(site.lab.path("wrong"), fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(0o644);
    assert_eq!(
        says_hello(&site.transport(TransportMode::Auto), "node").await.unwrap(),
        TransportKind::SshProgram
    );
    allow(0o600);
    // A key that opens the door needs no master.
    site.configure(&format!("Host node\nIdentityFile {}", site.lab.path("id").display()));
    let own = site.transport(TransportMode::Auto);
    assert_eq!(says_hello(&own, "node").await.unwrap(), TransportKind::Native);
    site.configure("");
    site.close_master().await;
    is_refused(says_hello(&auto, "node").await);
}

#[tokio::test]
async fn a_gateway_that_refuses_is_passed_over_an_open_master() {
    // The thirty nodes are one server here: it must not take them for a flood.
    let Some(site) = Site::new("MaxStartups 100").await else { return };
    let far = site.lab.sshd("").await;
    let key = site.lab.text("host_ed25519.pub");
    let known = [site.sshd.port, far.port].map(|port| format!("[{ADDRESS}]:{port} {key}"));
    site.lab.write("known", &known.concat());
    let folder = site.lab.folder.path().display();
    let inner = format!(
        "Host far\nHostName {ADDRESS}\nPort {}\nIdentityFile {folder}/id\nProxyJump node\n\
         UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile {folder}/global\n\
         Host inner*\nHostName {ADDRESS}\nPort {}\nIdentityFile {folder}/id\nProxyJump node\n\
         UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile {folder}/global\n\
         Host nowhere\nHostName {ADDRESS}\nPort 1\nIdentityFile {folder}/id\nProxyJump node\n",
        far.port, site.sshd.port
    );
    site.configure(&inner);
    let auto = site.transport(TransportMode::Auto);
    let fault = says_hello(&auto, "inner").await.unwrap_err();
    assert!(matches!(fault.root(), Fault::AuthenticationRefused { .. }), "{fault}");
    site.open_master().await;
    let other = site.transport(TransportMode::Auto);
    let mut hellos = tokio::task::JoinSet::new();
    for number in 0..30 {
        let transport = other.clone();
        hellos.spawn(async move { says_hello(&transport, &format!("inner{number}")).await });
    }
    while let Some(hello) = hellos.join_next().await {
        assert_eq!(hello.unwrap().unwrap(), TransportKind::SshProgram);
    }
    // All thirty together have asked the gateway once.
    assert_eq!(site.sshd.logged("Connection closed by authenticating"), 2);
    let fault = says_hello(&other, "nowhere").await.unwrap_err();
    let Fault::GatewayCannotReach { gateway, .. } = &fault else { panic!("{fault}") };
    assert_eq!(gateway, "node");
    let native = says_hello(&site.transport(TransportMode::Native), "inner").await.unwrap_err();
    assert!(matches!(native.root(), Fault::AuthenticationRefused { .. }), "{native}");
    let open = async |name| other.open(&system(name, None, None), "cat", |_| ()).await.unwrap();
    // A node that goes while the master stays is to blame itself.
    let mut waiting = open("far").await;
    far.cut();
    let lost = listen(&mut waiting).await.lost.unwrap();
    assert!(matches!(lost, Fault::SessionLost { .. }), "{lost}");
    let mut waiting = open("inner").await;
    site.close_master().await;
    let lost = listen(&mut waiting).await.lost.unwrap();
    let Fault::AtGateway { gateway, fault } = &lost else { panic!("{lost}") };
    assert!(gateway == "node" && fault.to_string().contains("the master connection at"), "{lost}");
    assert!(lost.retries_by_itself(), "{lost}");
}

#[tokio::test]
async fn a_master_without_room_is_waited_for_and_the_node_is_not_asked_again() {
    let Some(site) = Site::new("MaxSessions 2").await else { return };
    site.open_master().await;
    let auto = site.transport(TransportMode::Auto);
    let open = |name| {
        let auto = auto.clone();
        async move { auto.open(&system(name, None, None), "echo; cat", |_| ()).await }
    };
    let (one, two) = (open("alias1").await.unwrap(), open("alias2").await.unwrap());
    for _ in 0..3 {
        let fault = open("alias3").await.unwrap_err();
        let Fault::ChannelRefused { why } = &fault else { panic!("{fault}") };
        assert!(why.contains("over the master connection"), "{why}");
        assert!(fault.retries_by_itself());
    }
    // Each name has knocked once, for itself.
    assert_eq!(site.sshd.logged("Connection closed by authenticating"), 3);
    one.shutdown().await;
    let mut three = open("alias3").await.unwrap();
    three.close_stdin().await.unwrap();
    assert_eq!(listen(&mut three).await.stdout, "\n");
    two.shutdown().await;
    // The ssh program by wish says the same, and not that its own connection was refused.
    let (one, two) = (open("alias1").await.unwrap(), open("alias2").await.unwrap());
    let by_ssh = site.transport(TransportMode::Ssh);
    let fault = by_ssh.open(&node(), "true", |_| ()).await.unwrap_err();
    assert!(matches!(fault, Fault::ChannelRefused { .. }), "{fault}");
    drop((one, two));
}

#[tokio::test]
async fn a_socket_that_is_dead_or_hangs_or_is_of_another_user_does_no_harm() {
    let Some(site) = Site::new("").await else { return };
    site.open_master().await;
    let socket = site.socket();
    let refused =
        |fault: Fault| assert!(matches!(fault, Fault::AuthenticationRefused { .. }), "{fault}");
    if rustix::process::geteuid().is_root() {
        chown(&socket, Some(Uid::from_raw(65534)), Some(Gid::from_raw(65534))).unwrap();
        refused(says_hello(&site.transport(TransportMode::Auto), "node").await.unwrap_err());
        chown(&socket, Some(Uid::ROOT), Some(Gid::ROOT)).unwrap();
    }
    assert_eq!(
        says_hello(&site.transport(TransportMode::Auto), "node").await.unwrap(),
        TransportKind::SshProgram
    );
    site.close_master().await;
    let listener = UnixListener::bind(&socket).unwrap();
    let auto = site.transport(TransportMode::Auto);
    // Nobody accepts: the question is given up, and the program that put it is gone.
    refused(says_hello(&auto, "node").await.unwrap_err());
    let (mut peer, _) = listener.accept().await.unwrap();
    let mut heard = Vec::new();
    let end = tokio::io::AsyncReadExt::read_to_end(&mut peer, &mut heard);
    tokio::time::timeout(crate::lab::TIMEOUT, end).await.unwrap().unwrap();
    drop(listener);
    assert!(socket.exists(), "a dead socket");
    refused(says_hello(&auto, "node").await.unwrap_err());
    assert!(socket.exists(), "it is the user's");
    fs::remove_file(&socket).unwrap();
}

#[tokio::test]
async fn whether_a_master_is_open_is_traced() {
    let Some(site) = Site::new("").await else { return };
    let told = async || {
        let (notes, auto) = (Trace::default(), site.transport(TransportMode::Auto));
        with_trace(&notes, says_hello(&auto, "node")).await.ok();
        let notes = notes.taken().into_iter().map(|noted| noted.note);
        notes
            .filter(|note| {
                matches!(note, ConnectEvent::MasterFound(_) | ConnectEvent::MasterMissing)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(told().await, [ConnectEvent::MasterMissing]);
    site.open_master().await;
    assert_eq!(told().await, [ConnectEvent::MasterFound(site.socket())]);
}
