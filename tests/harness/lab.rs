//! A private sshd, its keys and a client configuration, for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gtop_collect::transport::{Channel, Fault, Options, Reach, Target, Transport, TransportMode};
use gtop_local::process::{Exit, Output};
use gtop_model::NodeName;
use gtop_ssh::{ClientOptions, FixedProfile, LocalEnv, OfferedKey, Profile, SshTarget};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

use crate::harness::built;

/// The address of the test servers; not 127.0.0.1, which real `known_hosts` files may list.
pub(crate) const ADDRESS: &str = "127.0.7.1";

/// A timeout that no passing test comes near.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// A folder with keys and configuration for one test.
pub(crate) struct Lab {
    pub(crate) folder: TempDir,
    pub(crate) user: String,
    pub(crate) agent: Option<PathBuf>,
}

/// A running server; it ends with the test.
pub(crate) struct Sshd {
    pub(crate) port: u16,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
}

impl Sshd {
    /// Returns how many log lines contain a text.
    pub(crate) fn log_count(&self, text: &str) -> usize {
        self.log.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }

    /// Kills all its sessions, not the server.
    pub(crate) fn kill_sessions(&self) {
        kill_children(self.child.id().unwrap());
    }
}

/// Kills the children of a process with theirs: a session of an sshd that does not run as root has several processes.
fn kill_children(pid: u32) {
    // It may have ended meanwhile, as may its children.
    let path = format!("/proc/{pid}/task/{pid}/children");
    for child in fs::read_to_string(path).unwrap_or_default().split_whitespace() {
        let child: u32 = child.parse().unwrap();
        kill_children(child);
        let pid = rustix::process::Pid::from_raw(child.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
    }
}

impl Lab {
    /// Returns `None` if an OpenSSH program is missing.
    #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
    pub(crate) async fn new() -> Option<Self> {
        for program in
            ["/usr/sbin/sshd", "/usr/bin/ssh", "/usr/bin/ssh-keygen", "/usr/bin/ssh-agent"]
        {
            if !Path::new(program).exists() {
                eprintln!("skipped: there is no {program}");
                return None;
            }
        }
        if rustix::process::geteuid().is_root() && !Path::new("/run/sshd").exists() {
            eprintln!("skipped: sshd wants /run/sshd when it is started by root");
            return None;
        }
        let user = run("id", &["-un"]).await.trim().to_owned();
        let lab = Self { folder: tempfile::tempdir().unwrap(), user, agent: None };
        lab.write("authorized", "");
        lab.write("known", "");
        lab.key("host_ed25519", &["-t", "ed25519"]);
        lab.key("id", &["-t", "ed25519"]);
        lab.authorize("id");
        Some(lab)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Generates a key pair; without a passphrase by default. An RSA key, which may take a second, is generated once for
    /// all tests: those of the same kind are equal.
    pub(crate) fn key(&self, name: &str, kind: &[&str]) {
        if !kind.contains(&"rsa") {
            return generate_key(&self.path(name), kind);
        }
        let build = |folder: &Path| {
            generate_key(&folder.join("key"), kind);
            Some(())
        };
        let folder = built::folder(("key", kind), build).unwrap();
        fs::copy(folder.join("key"), self.path(name)).unwrap();
        fs::copy(folder.join("key.pub"), self.path(&format!("{name}.pub"))).unwrap();
    }

    pub(crate) fn authorize(&self, name: &str) {
        let public = self.text(&format!("{name}.pub"));
        self.write("authorized", &format!("{}{public}", self.text("authorized")));
    }

    /// Starts a server with the host key of the lab and more configuration.
    pub(crate) async fn sshd(&self, extra: &str) -> Sshd {
        for _ in 0..5 {
            if let Some(sshd) = self.try_sshd(extra).await {
                self.write_config(sshd.port, "");
                return sshd;
            }
        }
        panic!("no sshd could be started");
    }

    pub(crate) async fn try_sshd(&self, extra: &str) -> Option<Sshd> {
        let port = free_port().await;
        let folder = self.folder.path().display();
        // The first value of an option counts, so the options of a test come first. Without a home there are no login
        // files, which can take longer than the login.
        self.write(
            "sshd_config",
            &format!(
                "{extra}\nListenAddress {ADDRESS}\nPort {port}\nHostKey {folder}/host_ed25519\nStrictModes no\n\
                 AuthorizedKeysFile {folder}/authorized\nPidFile none\nUsePAM no\nPermitRootLogin yes\n\
                 PasswordAuthentication no\nKbdInteractiveAuthentication no\n\
                 SetEnv HOME=/nonexistent\n"
            ),
        );
        let mut child = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(self.path("sshd_config"))
            .stderr(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("Server listening") {
                // Its log must be read: a full pipe would block it.
                let log = Arc::new(Mutex::new(Vec::new()));
                let logged = Arc::clone(&log);
                tokio::spawn(async move {
                    while let Ok(Some(line)) = lines.next_line().await {
                        logged.lock().unwrap().push(line);
                    }
                });
                return Some(Sshd { port, child, log });
            }
        }
        None
    }

    /// Writes the client's configuration for the alias `node`.
    pub(crate) fn write_config(&self, port: u16, extra: &str) {
        let folder = self.folder.path().display();
        self.write(
            "config",
            &format!(
                "{extra}\nHost node\nHostName {ADDRESS}\nPort {port}\nUser {}\nIdentityFile {folder}/id\n\
                 UserKnownHostsFile {folder}/known\nGlobalKnownHostsFile {folder}/global\n\
                 HashKnownHosts no\n",
                self.user
            ),
        );
    }

    /// Writes the server's host key to the user's `known_hosts` file.
    pub(crate) fn trust(&self, sshd: &Sshd) {
        let key = self.text("host_ed25519.pub");
        self.write("known", &format!("[{ADDRESS}]:{} {key}", sshd.port));
    }

    /// Returns the key that the node shows first.
    pub(crate) async fn host_key(&self) -> OfferedKey {
        self.transport().fetch_host_keys(&node()).await.unwrap().keys.remove(0)
    }

    pub(crate) fn options(&self) -> Options {
        let ssh = ClientOptions {
            connect_timeout: Some(TIMEOUT),
            config_file: Some(self.path("config")),
            parent_guard: Some(PathBuf::from(env!("CARGO_BIN_EXE_gtop"))),
            env: LocalEnv {
                home: self.folder.path().to_owned(),
                include_home: self.folder.path().to_owned(),
                user: self.user.clone(),
                host_name: "here".to_owned(),
                agent: self.agent.clone(),
            },
            ..ClientOptions::of_this_process()
        };
        Options { ssh, mode: TransportMode::Native, ..Options::of_this_process() }
    }

    pub(crate) fn options_with_timeout(&self, timeout: Duration) -> Options {
        let mut options = self.options();
        options.ssh.connect_timeout = Some(timeout);
        options
    }

    pub(crate) fn transport(&self) -> Transport {
        Transport::new(self.options())
    }

    pub(crate) async fn open(&self, command: &str) -> Result<Channel, Fault> {
        self.transport().open(&node(), command, |_| ()).await
    }

    /// Starts an agent; it ends with the test.
    pub(crate) async fn start_agent(&mut self) -> Child {
        let socket = self.path("agent");
        let mut agent = Command::new("ssh-agent")
            .arg("-D")
            .arg("-a")
            .arg(&socket)
            .stdout(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut output = BufReader::new(agent.stdout.as_mut().unwrap());
        output.read_line(&mut String::new()).await.unwrap();
        self.agent = Some(socket);
        agent
    }

    pub(crate) async fn add_to_agent(&self, name: &str) {
        let added = Command::new("ssh-add")
            .arg("-q")
            .arg(self.path(name))
            .env("SSH_AUTH_SOCK", self.agent.as_ref().unwrap())
            .status();
        assert!(added.await.unwrap().success());
    }
}

fn generate_key(path: &Path, kind: &[&str]) {
    let passphrase: &[&str] = if kind.contains(&"-N") { &[] } else { &["-N", ""] };
    let mut generating = std::process::Command::new("ssh-keygen");
    generating.args(["-q", "-C", "test", "-f"]).arg(path).args(kind).args(passphrase);
    assert!(generating.status().unwrap().success(), "{kind:?}");
}

pub(crate) fn node() -> Target {
    ssh_target("node", None, None)
}

pub(crate) fn ssh_target(host: &str, user: Option<&str>, port: Option<u16>) -> Target {
    let ssh = SshTarget {
        host: host.to_owned(),
        user: user.map(str::to_owned),
        port,
        profile: Profile::System,
    };
    Target { name: NodeName::new(host).unwrap(), reach: Reach::Ssh(ssh) }
}

pub(crate) fn fixed_target(address: &str, key: &str, host_key: &str) -> Target {
    let profile = FixedProfile::new(address.parse().unwrap(), key, Some(host_key)).unwrap();
    let ssh = SshTarget {
        host: "fixed".to_owned(),
        user: None,
        port: None,
        profile: Profile::Fixed(Arc::new(profile)),
    };
    Target { name: NodeName::new("fixed").unwrap(), reach: Reach::Ssh(ssh) }
}

pub(crate) fn local_target() -> Target {
    Target { name: NodeName::new("here").unwrap(), reach: Reach::Local }
}

pub(crate) async fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().await.unwrap();
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

pub(crate) async fn free_port() -> u16 {
    let listener = TcpListener::bind((ADDRESS, 0)).await.unwrap();
    listener.local_addr().unwrap().port()
}

/// The output of a command, and how it ended.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct CommandOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit: Option<Exit>,
    pub(crate) fault: Option<Fault>,
}

pub(crate) async fn read_output(channel: &mut Channel) -> CommandOutput {
    let mut result = CommandOutput::default();
    loop {
        match tokio::time::timeout(TIMEOUT, channel.next()).await.unwrap() {
            Ok(Output::Stdout(bytes)) => result.stdout.push_str(&String::from_utf8_lossy(&bytes)),
            Ok(Output::Stderr(bytes)) => result.stderr.push_str(&String::from_utf8_lossy(&bytes)),
            Ok(Output::Exit(exit)) => result.exit = Some(exit),
            Err(fault) => {
                result.fault = fault;
                return result;
            }
        }
    }
}

pub(crate) async fn check_echo(lab: &Lab) {
    let mut channel = lab.open("echo hello").await.unwrap();
    assert_eq!(read_output(&mut channel).await.stdout, "hello\n");
}
