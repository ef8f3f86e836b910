//! gtop in odd places: without a home or a terminal type, with a home that cannot be written, with
//! few open files; and what it touches there, which is nothing.
//!
//! What needs mounts, another user or strace is skipped where they are not to be had, and says so;
//! with `GTOP_CI=1` it fails instead.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "real programs; helpers of tests fail as tests do; a skip says why"
)]

#[expect(dead_code, reason = "other tests use more of it")]
#[path = "transport/lab.rs"]
mod lab;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::lab::{ADDRESS, Lab, Sshd, TIMEOUT};

const GTOP: &str = env!("CARGO_BIN_EXE_gtop");
/// Runs a program for whom the password database names a home.
const AT_HOME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/at_home");

/// Says what cannot be tested here.
fn skip(why: &str) {
    assert!(std::env::var_os("GTOP_CI").is_none(), "{why}, and here it must run");
    eprintln!("skipped: {why}");
}

/// A home with an ssh configuration for a real node, and the node.
struct Home {
    lab: Lab,
    sshd: Sshd,
}

impl Home {
    async fn new() -> Option<Self> {
        let lab = Lab::new().await?;
        let sshd = lab.sshd("").await;
        let ssh = lab.path("home/.ssh");
        fs::create_dir_all(&ssh).unwrap();
        // Two names, one of which is known.
        let config = format!(
            "Host node other\nHostName {ADDRESS}\nPort {}\nUser {}\nIdentityFile {}\nIdentitiesOnly yes\n\
             Host node\nHostKeyAlias node\nHost other\nHostKeyAlias other\n\
             Host many*\nHostName {ADDRESS}\nPort 1\n",
            sshd.port,
            lab.user,
            lab.path("id").display(),
        );
        fs::write(ssh.join("config"), config).unwrap();
        let key = lab.text("host_ed25519.pub");
        fs::write(ssh.join("known_hosts"), format!("node {key}")).unwrap();
        for file in ["config", "known_hosts"] {
            fs::set_permissions(ssh.join(file), fs::Permissions::from_mode(0o600)).unwrap();
        }
        Some(Self { lab, sshd })
    }

    fn path(&self) -> PathBuf {
        self.lab.path("home")
    }

    /// A program with this home, and nothing else of ours in its environment.
    fn command(&self, program: &str) -> Command {
        let mut command = self.elsewhere(AT_HOME);
        command.arg(self.path()).arg(program);
        command
    }

    /// The same, where the password database names another home.
    fn elsewhere(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.path()).env("USER", &self.lab.user);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").kill_on_drop(true);
        command
    }

    /// Runs a script in a name space of its own, where it may mount; `$1` is the home, `$2` gtop.
    async fn mounted(&self, script: &str) -> Option<Told> {
        let unshare: &[&str] = if rustix::process::geteuid().is_root() {
            &["--mount"]
        } else {
            &["--user", "--map-root-user", "--mount"]
        };
        let may = self.command("unshare").args(unshare).arg("true").output().await;
        if !may.is_ok_and(|may| may.status.success()) {
            skip("unshare --mount is not to be had");
            return None;
        }
        let home = self.path();
        let mut command = self.command("unshare");
        command.args(unshare).args(["sh", "-euc", script, "sh"]).arg(&home).arg(GTOP);
        Some(Told::of(&mut command).await)
    }
}

/// What a program printed, and how it ended.
#[derive(Debug)]
struct Told {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Told {
    async fn of(command: &mut Command) -> Self {
        let ran = command.stdin(Stdio::null()).output();
        let Output { status, stdout, stderr } =
            tokio::time::timeout(TIMEOUT, ran).await.unwrap().unwrap();
        Self {
            code: status.code(),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }

    fn is_well(&self, words: &str) {
        assert!(self.code == Some(0) && self.err.is_empty(), "{self:?}");
        assert!(self.out.contains(words), "{words:?} is not in {self:?}");
    }

    fn complains(&self, words: &str) {
        assert!(self.err.contains(words), "{words:?} is not in {self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
    }
}

/// Every file below a folder, with its length.
fn files(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            found.insert(entry.path(), entry.metadata().unwrap().len());
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
        }
    }
    found
}

/// Watches, then tries what must write: a log, and the key of a node that is not known yet.
const WATCH_AND_WRITE: &str = "before=$(cat \"$1/.ssh/known_hosts\")\n\
    \"$2\" --once --local node\n\
    if \"$2\" --once --local --log \"$1/log\"; then echo no complaint >&2; fi\n\
    if echo y | \"$2\" trust other; then echo no complaint >&2; fi\n\
    [ \"$before\" = \"$(cat \"$1/.ssh/known_hosts\")\" ] && echo known_hosts is as it was";

#[tokio::test]
async fn a_home_that_is_read_only_is_enough_for_watching() {
    let Some(home) = Home::new().await else { return };
    let script =
        format!("mount --bind \"$1\" \"$1\"\nmount -o remount,bind,ro \"$1\"\n{WATCH_AND_WRITE}");
    let Some(told) = home.mounted(&script).await else { return };
    assert!(told.out.contains("same machine as node"), "{told:?}");
    assert!(told.out.ends_with("known_hosts is as it was\n"), "{told:?}");
    told.complains("/log: Read-only file system");
    assert!(!told.err.contains("no complaint"), "{told:?}");
    assert_eq!(told.err.matches("ead-only file system").count(), 2, "{told:?}");
}

#[tokio::test]
async fn a_known_hosts_file_that_is_a_mount_is_written_and_one_that_is_read_only_stays() {
    let Some(home) = Home::new().await else { return };
    let script = "known=$1/.ssh/known_hosts\n\
        cp \"$known\" \"$1/real\"\n\
        chmod 444 \"$1/real\"\n\
        mount --bind \"$1/real\" \"$known\"\n\
        if echo y | \"$2\" trust other; then echo no complaint >&2; fi\n\
        cmp \"$1/real\" \"$known\" && [ \"$(wc -l <\"$known\")\" = 1 ] && echo as it was\n\
        chmod 640 \"$1/real\"\n\
        echo y | \"$2\" trust other\n\
        echo \"lines: $(wc -l <\"$1/real\"), mode: $(stat -c %a \"$known\"), files: $(ls -A \"$1/.ssh\" | wc -l)\"\n\
        \"$2\" trust other";
    let Some(told) = home.mounted(script).await else { return };
    assert!(told.out.contains("as it was\n"), "{told:?}");
    told.complains("is read-only; chmod u+w lets gtop write it");
    assert!(told.out.contains("lines: 2, mode: 640, files: 2\n"), "{told:?}");
    assert!(told.out.ends_with("other: already known\n"), "{told:?}");
    assert!(!told.err.contains("no complaint"), "{told:?}");
}

#[tokio::test]
async fn a_home_on_a_full_disk_is_enough_for_watching() {
    let Some(home) = Home::new().await else { return };
    let script = "cp -R \"$1/.ssh\" \"$1.ssh\"\n\
        mount -t tmpfs -o size=64k,mode=700 none \"$1\"\n\
        cp -R \"$1.ssh\" \"$1/.ssh\"\n\
        cat /dev/zero >\"$1/full\" 2>/dev/null || true\n\
        before=$(cat \"$1/.ssh/known_hosts\")\n\
        \"$2\" --once --local --log \"$1/log\" node\n\
        if echo y | \"$2\" trust other; then echo no complaint >&2; fi\n\
        [ \"$before\" = \"$(cat \"$1/.ssh/known_hosts\")\" ] && echo known_hosts is as it was";
    let Some(told) = home.mounted(script).await else { return };
    assert!(told.out.contains("same machine as node"), "{told:?}");
    assert!(told.out.ends_with("known_hosts is as it was\n"), "{told:?}");
    assert!(!told.err.contains("no complaint"), "{told:?}");
    told.complains("o space left on device");
}

#[tokio::test]
async fn without_a_home_in_the_environment_that_of_passwd_holds() {
    let Some(home) = Home::new().await else { return };
    let told = Told::of(home.command(GTOP).env_remove("HOME").args(["--once", "--local"])).await;
    told.is_well("1 of 1 node fresh");
    // Of whom passwd knows nothing is told what is missing.
    if !rustix::process::geteuid().is_root() {
        return skip("only root can be somebody else");
    }
    let place = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = place.path().join("gtop");
    fs::copy(GTOP, &copy).unwrap();
    let nobody = |words: &'static [&'static str]| {
        let mut command = home.elsewhere(copy.to_str().unwrap());
        command.env_remove("HOME").env_remove("USER").uid(54321).gid(54321).current_dir("/");
        command.args(words);
        command
    };
    Told::of(&mut nobody(&["--once", "--local"])).await.is_well("1 of 1 node fresh");
    let told = Told::of(&mut nobody(&["--once", ADDRESS])).await;
    told.complains("USER is not set and /etc/passwd has no user name for you");
    assert_eq!(told.code, Some(1));
    let told = Told::of(nobody(&["--once", ADDRESS]).env("USER", "ada")).await;
    told.complains("HOME is not set and /etc/passwd has no home for you");
}

#[tokio::test]
async fn as_with_ssh_the_home_of_passwd_counts_and_home_only_for_files_to_include() {
    let Some(home) = Home::new().await else { return };
    let other = home.lab.path("other");
    fs::create_dir_all(other.join(".ssh")).unwrap();
    // Would it be read, no node could be reached.
    fs::write(other.join(".ssh/config"), "Host *\nPort 1\n").unwrap();
    let own = home.path().join(".ssh/config");
    let told = fs::read_to_string(&own).unwrap();
    fs::write(&own, format!("Include more\nInclude ~/third\n{told}")).unwrap();
    let as_node = told.split("Host node\n").next().unwrap();
    for (file, name) in [(".ssh/more", "second"), ("third", "third")] {
        let told = as_node.replace("Host node other", &format!("Host {name}"));
        fs::write(other.join(file), format!("{told}HostKeyAlias node\n")).unwrap();
    }
    for name in ["node", "second", "third"] {
        let mut ssh = home.command("ssh");
        ssh.env("HOME", &other).args(["-oBatchMode=yes", name, "echo here"]);
        assert_eq!(Told::of(&mut ssh).await.out, "here\n", "{name}");
    }
    let mut gtop = home.command(GTOP);
    gtop.env("HOME", &other).args(["--once", "node", "second", "third"]);
    let told = Told::of(&mut gtop).await;
    told.is_well("1 of 1 node fresh");
    assert_eq!(told.out.matches("same machine as node").count(), 2, "{told:?}");
}

/// Runs gtop on a terminal until these words stand on the screen, then quits; returns what it drew.
async fn drawn(mut command: Command, until: &str) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = Vec::new();
    let watching = async {
        let mut is_asked = false;
        while screen.read_buf(&mut seen).await.unwrap() > 0 {
            if !is_asked && String::from_utf8_lossy(&seen).contains(until) {
                keys.write_all(b"q").await.unwrap();
                is_asked = true;
            }
        }
        assert!(is_asked, "{until:?} never stood on the screen");
    };
    let in_time = tokio::time::timeout(TIMEOUT, watching).await;
    assert!(in_time.is_ok(), "{}", String::from_utf8_lossy(&seen));
    assert!(child.wait().await.unwrap().success());
    String::from_utf8(seen).unwrap()
}

#[tokio::test]
async fn the_screen_needs_no_terminal_type_and_keeps_to_ascii_in_the_c_locale() {
    let Some(home) = Home::new().await else { return };
    if !home
        .command("script")
        .arg("--version")
        .output()
        .await
        .is_ok_and(|told| told.status.success())
    {
        return skip("there is no script to make a terminal");
    }
    let on_a_terminal = |variables: &[(&str, &str)]| {
        let mut command = home.command("script");
        command.args([
            "-qec",
            &format!("stty rows 30 cols 100; exec {GTOP} --demo=2"),
            "/dev/null",
        ]);
        command.envs(variables.iter().copied());
        command
    };
    for variables in [[("LANG", "C")].as_slice(), &[("LC_ALL", "C"), ("TERM", "xterm")], &[]] {
        let screen = drawn(on_a_terminal(variables), "quit").await;
        assert!(screen.is_ascii(), "{variables:?}: {screen}");
    }
    let utf8 = [("LC_ALL", "C.UTF-8"), ("TERM", "xterm-256color")];
    assert!(!drawn(on_a_terminal(&utf8), "quit").await.is_ascii());
    // Printed tables as well.
    let told = Told::of(home.command(GTOP).args(["--once", "--demo=2"]).env("LANG", "C")).await;
    told.is_well("nodes fresh");
    assert!(told.out.is_ascii(), "{told:?}");
}

#[tokio::test]
async fn nothing_that_is_typed_as_a_secret_is_in_a_core_dump() {
    let Some(home) = Home::new().await else { return };
    let key = home.lab.path("sealed");
    let mut made = home.command("ssh-keygen");
    made.args(["-q", "-t", "ed25519", "-N", "secret", "-f"]).arg(&key);
    assert!(made.output().await.unwrap().status.success());
    let config =
        format!("Host sealed\nHostName {ADDRESS}\nPort 1\nIdentityFile {}\n", key.display());
    fs::write(home.path().join(".ssh/config"), config).unwrap();
    // The limit is one of those that a core could pass.
    let script = format!("ulimit -c 1000; echo pid $$; exec {GTOP} --once sealed");
    let mut command = home.command("script");
    command.args(["-qec", &script, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        return skip("there is no script to make a terminal");
    };
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = Vec::new();
    let asked = async {
        while !String::from_utf8_lossy(&seen).contains("Passphrase of") {
            assert!(screen.read_buf(&mut seen).await.unwrap() > 0);
        }
    };
    let in_time = tokio::time::timeout(TIMEOUT, asked).await;
    let text = String::from_utf8_lossy(&seen);
    assert!(in_time.is_ok(), "{text}");
    let pid = text.split("pid ").nth(1).unwrap().split_whitespace().next().unwrap();
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let core: Vec<&str> = core.split_whitespace().collect();
    assert_eq!(core.get(4..6), Some(["0", "0"].as_slice()), "{core:?}");
    keys.write_all(b"\x03").await.unwrap();
    assert!(tokio::time::timeout(TIMEOUT, child.wait()).await.is_ok());
}

#[tokio::test]
async fn who_may_open_few_files_hears_how_many_nodes_fit() {
    let Some(home) = Home::new().await else { return };
    let limited = |limit: &str, words: &str| {
        let mut command = home.command("sh");
        command.args(["-c", &format!("ulimit {limit} && exec {GTOP} --once {words}")]);
        command
    };
    let told = Told::of(&mut limited("-n 100", "'many[1-200]' --deadline 1")).await;
    told.complains("the limit of 100 open files is enough for about 36 of 200 nodes");
    told.complains("hard limit to 512");
    assert_eq!(told.code, Some(1));
    let told = Told::of(&mut limited("-n 1024", "--demo=1000 --deadline 0.1")).await;
    told.complains("enough for about 320 of 1000 nodes");
    // What the user may raise is raised without a word.
    let told = Told::of(&mut limited("-Sn 20", "--local node")).await;
    told.is_well("same machine as node");
}

/// What of a trace of system calls is a connection, or opens, makes or removes a file.
fn touched(trace: &str) -> impl Iterator<Item = &str> {
    trace.lines().filter(|line| {
        let call = line.split_whitespace().nth(1).and_then(|call| call.split('(').next());
        let call = call.unwrap_or_default().trim_end_matches('2');
        let call = if call == "creat" { call } else { call.trim_end_matches("at") };
        let is_for_writing =
            ["O_WRONLY", "O_RDWR", "O_CREAT"].iter().any(|flag| line.contains(flag));
        match call {
            "open" => is_for_writing,
            "connect" | "creat" | "mkdir" | "rename" | "unlink" | "rmdir" | "link" | "symlink"
            | "mknod" | "truncate" | "ftruncate" => true,
            _ => false,
        }
    })
}

#[tokio::test]
async fn nothing_is_written_and_nobody_is_spoken_to_but_the_nodes() {
    let Some(home) = Home::new().await else { return };
    let trace = home.lab.path("trace");
    if !home.command("strace").arg("-V").output().await.is_ok_and(|told| told.status.success()) {
        return skip("there is no strace");
    }
    let before = files(&home.path());
    let mut command = home.command("strace");
    command.args(["-f", "-qq", "-e", "trace=network,file,ftruncate", "-o"]);
    command.arg(&trace).args([GTOP, "--once", "--local", "node"]);
    let told = Told::of(&mut command).await;
    if told.err.contains("ptrace") {
        return skip("strace may not trace here");
    }
    told.is_well("same machine as node");
    let trace = fs::read_to_string(trace).unwrap();
    let node = format!("sin_port=htons({}), sin_addr=inet_addr(\"{ADDRESS}\")", home.sshd.port);
    let strange: Vec<&str> = touched(&trace)
        .filter(|line| {
            let is_node = line.contains("connect(") && line.contains(&node);
            // The C library asks the cache of the name service who somebody is, where there is one.
            let is_names = line.contains("connect(") && line.contains("/nscd/socket");
            let is_device =
                ["\"/dev/null\"", "\"/dev/tty\""].iter().any(|file| line.contains(file));
            !(is_node || is_names || is_device)
        })
        .collect();
    assert!(strange.is_empty(), "{strange:#?}");
    assert!(touched(&trace).any(|line| line.contains(&node)), "the node was never spoken to");
    assert_eq!(files(&home.path()), before);
}

#[test]
fn the_trace_is_read_as_it_is_meant() {
    for line in [
        "7 openat(AT_FDCWD, \"/x\", O_WRONLY|O_CREAT, 0666) = 3",
        "7 connect(4, {sa_family=AF_INET, sin_port=htons(22)}, 16) = 0",
        "7 unlink(\"/x\") = 0",
        "7 renameat2(AT_FDCWD, \"/x\", AT_FDCWD, \"/y\", 0) = 0",
        "7 creat(\"/x\", 0666) = 3",
        "7 mkdir(\"/x\", 0777) = 0",
    ] {
        assert_eq!(touched(line).count(), 1, "{line}");
    }
    for line in [
        "7 openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY|O_CLOEXEC) = 3",
        "7 readlink(\"/proc/self/exe\", \"/x\", 256) = 2",
    ] {
        assert_eq!(touched(line).count(), 0, "{line}");
    }
}
