//! gtop in unusual environments: without a home or a terminal type, with a home that cannot be written, with
//! few open files; and that it writes nothing.
//!
//! Tests that need mounts, another user or strace are skipped with a message where these are missing;
//! with `GTOP_CI=1` they fail instead.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::harness::lab::{ADDRESS, Lab, Sshd, TIMEOUT};

const GTOP: &str = env!("CARGO_BIN_EXE_gtop");
/// Runs a program with another home directory in the password database.
const AT_HOME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/at_home");

/// Prints why a test is skipped.
fn skip(why: &str) {
    assert!(std::env::var_os("GTOP_CI").is_none(), "{why}, and here it must run");
    eprintln!("skipped: {why}");
}

/// A home directory with an ssh configuration for a real node, and the node.
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
        // Two aliases; the host key of one is known.
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

    /// Returns a command with this home, also in the password database, and a minimal environment.
    fn command(&self, program: &str) -> Command {
        let mut command = self.command_with_env(AT_HOME);
        command.arg(self.path()).arg(program);
        command
    }

    /// The same, with the home in the environment only.
    fn command_with_env(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.path()).env("USER", &self.lab.user);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").kill_on_drop(true);
        command
    }

    /// Runs a script in its own mount namespace; `$1` is the home, `$2` gtop.
    async fn run_mounted(&self, script: &str) -> Option<RunOutput> {
        let unshare: &[&str] = if rustix::process::geteuid().is_root() {
            &["--mount"]
        } else {
            &["--map-current-user", "--keep-caps", "--mount"]
        };
        let unshared = self.command("unshare").args(unshare).arg("true").output().await;
        if !unshared.is_ok_and(|output| output.status.success()) {
            skip("unshare --mount is not possible here");
            return None;
        }
        let home = self.path();
        let mut command = self.command("unshare");
        command.args(unshare).args(["sh", "-euc", script, "sh"]).arg(&home).arg(GTOP);
        Some(RunOutput::from_run(&mut command).await)
    }
}

/// The output and exit status of a program.
#[derive(Debug)]
struct RunOutput {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl RunOutput {
    async fn from_run(command: &mut Command) -> Self {
        let ran = command.stdin(Stdio::null()).output();
        let Output { status, stdout, stderr } =
            tokio::time::timeout(TIMEOUT, ran).await.unwrap().unwrap();
        Self {
            code: status.code(),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    fn check_success(&self, words: &str) {
        assert!(self.code == Some(0) && self.stderr.is_empty(), "{self:?}");
        assert!(self.stdout.contains(words), "{words:?} is not in {self:?}");
    }

    fn check_stderr(&self, words: &str) {
        assert!(self.stderr.contains(words), "{words:?} is not in {self:?}");
        assert!(!self.stderr.contains("panicked"), "{self:?}");
    }
}

/// Returns every file below a folder, with its length.
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

/// Monitors, then runs what must write: a log, and the host key of an unknown node.
const WATCH_AND_WRITE: &str = "before=$(cat \"$1/.ssh/known_hosts\")\n\
    \"$2\" --once --local node\n\
    if \"$2\" --once --local --log \"$1/log\"; then echo no complaint >&2; fi\n\
    if echo y | \"$2\" trust other; then echo no complaint >&2; fi\n\
    [ \"$before\" = \"$(cat \"$1/.ssh/known_hosts\")\" ] && echo known_hosts is as it was";

#[tokio::test]
async fn a_read_only_home_is_enough_for_monitoring() {
    let Some(home) = Home::new().await else { return };
    let script =
        format!("mount --bind \"$1\" \"$1\"\nmount -o remount,bind,ro \"$1\"\n{WATCH_AND_WRITE}");
    let Some(output) = home.run_mounted(&script).await else { return };
    assert!(output.stdout.contains("same machine as node"), "{output:?}");
    assert!(output.stdout.ends_with("known_hosts is as it was\n"), "{output:?}");
    output.check_stderr("/log: Read-only file system");
    assert!(!output.stderr.contains("no complaint"), "{output:?}");
    assert_eq!(output.stderr.matches("ead-only file system").count(), 2, "{output:?}");
}

#[tokio::test]
async fn a_mounted_known_hosts_file_is_written_unless_read_only() {
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
    let Some(output) = home.run_mounted(script).await else { return };
    assert!(output.stdout.contains("as it was\n"), "{output:?}");
    output.check_stderr("is read-only; chmod u+w lets gtop write it");
    assert!(output.stdout.contains("lines: 2, mode: 640, files: 2\n"), "{output:?}");
    assert!(output.stdout.ends_with("other: already known\n"), "{output:?}");
    assert!(!output.stderr.contains("no complaint"), "{output:?}");
}

#[tokio::test]
async fn a_home_on_a_full_disk_is_enough_for_monitoring() {
    let Some(home) = Home::new().await else { return };
    let script = "cp -R \"$1/.ssh\" \"$1.ssh\"\n\
        mount -t tmpfs -o size=64k,mode=700 none \"$1\"\n\
        cp -R \"$1.ssh\" \"$1/.ssh\"\n\
        cat /dev/zero >\"$1/full\" 2>/dev/null || true\n\
        before=$(cat \"$1/.ssh/known_hosts\")\n\
        \"$2\" --once --local --log \"$1/log\" node\n\
        if echo y | \"$2\" trust other; then echo no complaint >&2; fi\n\
        [ \"$before\" = \"$(cat \"$1/.ssh/known_hosts\")\" ] && echo known_hosts is as it was";
    let Some(output) = home.run_mounted(script).await else { return };
    assert!(output.stdout.contains("same machine as node"), "{output:?}");
    assert!(output.stdout.ends_with("known_hosts is as it was\n"), "{output:?}");
    assert!(!output.stderr.contains("no complaint"), "{output:?}");
    output.check_stderr("o space left on device");
}

#[tokio::test]
async fn without_home_in_the_environment_passwd_is_used() {
    let Some(home) = Home::new().await else { return };
    let output =
        RunOutput::from_run(home.command(GTOP).env_remove("HOME").args(["--once", "--local"]))
            .await;
    output.check_success("1 of 1 node fresh");
    // A user unknown to passwd gets a message about what is missing.
    if !rustix::process::geteuid().is_root() {
        return skip("only root can run as another user");
    }
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join("gtop");
    fs::copy(GTOP, &copy).unwrap();
    let nobody = |words: &'static [&'static str]| {
        let mut command = home.command_with_env(copy.to_str().unwrap());
        command.env_remove("HOME").env_remove("USER").uid(54321).gid(54321).current_dir("/");
        command.args(words);
        command
    };
    RunOutput::from_run(&mut nobody(&["--once", "--local"]))
        .await
        .check_success("1 of 1 node fresh");
    let output = RunOutput::from_run(&mut nobody(&["--once", ADDRESS])).await;
    output.check_stderr("USER is not set and /etc/passwd has no user name for you");
    assert_eq!(output.code, Some(1));
    let output = RunOutput::from_run(nobody(&["--once", ADDRESS]).env("USER", "ada")).await;
    output.check_stderr("HOME is not set and /etc/passwd has no home for you");
}

/// A container on macOS, as docs/containers.md starts it: it runs as root, whose is what is mounted, without the host's
/// `/etc/passwd`, with the agent's socket at another place and a configuration of macOS.
#[tokio::test]
async fn a_container_on_macos_has_the_agent_and_no_account_of_the_host() {
    let Some(mut home) = Home::new().await else { return };
    if !rustix::process::geteuid().is_root() {
        return skip("only root has files of root");
    }
    let _agent = home.lab.start_agent().await;
    home.lab.add_to_agent("id").await;
    let config = home.path().join(".ssh/config");
    let own = fs::read_to_string(&config).unwrap();
    let no_key =
        own.lines().filter(|line| !line.starts_with("Identit") && !line.starts_with("User "));
    let no_key = no_key.collect::<Vec<_>>().join("\n");
    let of_macos = "UseKeychain yes\nAddKeysToAgent yes\nIdentityFile /Users/ada/.ssh/id_ed25519";
    let script = format!(
        "mount -t tmpfs none /root; mkdir -m 700 /root/.ssh; echo root:x:0:0::/root:/bin/sh > /root/passwd; \
         mount --bind /root/passwd /etc/passwd; mount --bind \"$1/.ssh\" /root/.ssh; \
         mount -o remount,bind,ro /root/.ssh; touch /root/agent; mount --bind '{}' /root/agent; \
         exec env -i HOME=/root TERM=xterm PATH=\"$PATH\" SSH_AUTH_SOCK=/root/agent \"$2\" --once -l '{}' node",
        home.lab.agent.as_ref().unwrap().display(),
        home.lab.user,
    );
    fs::write(&config, format!("Host *\nIgnoreUnknown UseKeychain\n{of_macos}\n{no_key}\n"))
        .unwrap();
    if home.run_mounted("true").await.is_none() {
        return;
    }
    let run = async || {
        let mut command = home.command_with_env("unshare");
        command.args(["--mount", "sh", "-euc", &script, "sh"]).arg(home.path()).arg(GTOP);
        RunOutput::from_run(&mut command).await
    };
    let output = run().await;
    output.check_success("1 of 1 node fresh");
    // As ssh, which names the option.
    fs::write(&config, format!("Host *\n{of_macos}\n{no_key}\n")).unwrap();
    let output = run().await;
    assert!(output.stdout.to_lowercase().contains("usekeychain"), "{output:?}");
}

#[tokio::test]
async fn the_home_of_passwd_wins_and_home_applies_only_to_includes() {
    let Some(home) = Home::new().await else { return };
    let other = home.lab.path("other");
    fs::create_dir_all(other.join(".ssh")).unwrap();
    // With this file no node could be reached.
    fs::write(other.join(".ssh/config"), "Host *\nPort 1\n").unwrap();
    let config = home.path().join(".ssh/config");
    let own_config = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("Include more\nInclude ~/third\n{own_config}")).unwrap();
    let as_node = own_config.split("Host node\n").next().unwrap();
    for (file, name) in [(".ssh/more", "second"), ("third", "third")] {
        let text = as_node.replace("Host node other", &format!("Host {name}"));
        fs::write(other.join(file), format!("{text}HostKeyAlias node\n")).unwrap();
    }
    for name in ["node", "second", "third"] {
        let mut ssh = home.command("ssh");
        ssh.env("HOME", &other).args(["-oBatchMode=yes", name, "echo here"]);
        assert_eq!(RunOutput::from_run(&mut ssh).await.stdout, "here\n", "{name}");
    }
    let mut gtop = home.command(GTOP);
    gtop.env("HOME", &other).args(["--once", "node", "second", "third"]);
    let output = RunOutput::from_run(&mut gtop).await;
    output.check_success("1 of 1 node fresh");
    assert_eq!(output.stdout.matches("same machine as node").count(), 2, "{output:?}");
}

/// Runs gtop on a terminal until the screen shows a text, then quits; returns what it drew.
async fn run_on_terminal(mut command: Command, until: &str) -> String {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = Vec::new();
    let watching = async {
        let mut has_quit = false;
        while screen.read_buf(&mut seen).await.unwrap() > 0 {
            if !has_quit && String::from_utf8_lossy(&seen).contains(until) {
                keys.write_all(b"q").await.unwrap();
                has_quit = true;
            }
        }
        assert!(has_quit, "{until:?} was never on the screen");
    };
    let in_time = tokio::time::timeout(TIMEOUT, watching).await;
    assert!(in_time.is_ok(), "{}", String::from_utf8_lossy(&seen));
    assert!(child.wait().await.unwrap().success());
    String::from_utf8(seen).unwrap()
}

#[tokio::test]
async fn the_screen_needs_no_term_and_is_ascii_in_the_c_locale() {
    let Some(home) = Home::new().await else { return };
    if !home
        .command("script")
        .arg("--version")
        .output()
        .await
        .is_ok_and(|output| output.status.success())
    {
        return skip("the program script is missing");
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
        let screen = run_on_terminal(on_a_terminal(variables), "quit").await;
        assert!(screen.is_ascii(), "{variables:?}: {screen}");
    }
    let utf8 = [("LC_ALL", "C.UTF-8"), ("TERM", "xterm-256color")];
    assert!(!run_on_terminal(on_a_terminal(&utf8), "quit").await.is_ascii());
    // Printed tables as well.
    let output =
        RunOutput::from_run(home.command(GTOP).args(["--once", "--demo=2"]).env("LANG", "C")).await;
    output.check_success("nodes fresh");
    assert!(output.stdout.is_ascii(), "{output:?}");
}

#[tokio::test]
async fn core_dumps_are_off_while_a_passphrase_is_typed() {
    let Some(home) = Home::new().await else { return };
    let key = home.lab.path("sealed");
    let mut made = home.command("ssh-keygen");
    made.args(["-q", "-t", "ed25519", "-N", "secret", "-f"]).arg(&key);
    assert!(made.output().await.unwrap().status.success());
    let config =
        format!("Host sealed\nHostName {ADDRESS}\nPort 1\nIdentityFile {}\n", key.display());
    fs::write(home.path().join(".ssh/config"), config).unwrap();
    // A limit that allows core dumps.
    let script = format!("ulimit -c 1000; echo pid $$; exec {GTOP} --once sealed");
    let mut command = home.command("script");
    command.args(["-qec", &script, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        return skip("the program script is missing");
    };
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = Vec::new();
    let prompted = async {
        while !String::from_utf8_lossy(&seen).contains("Passphrase of") {
            assert!(screen.read_buf(&mut seen).await.unwrap() > 0);
        }
    };
    let in_time = tokio::time::timeout(TIMEOUT, prompted).await;
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
async fn a_low_file_limit_reports_how_many_nodes_fit() {
    let Some(home) = Home::new().await else { return };
    let limited = |limit: &str, words: &str| {
        let mut command = home.command("sh");
        command.args(["-c", &format!("ulimit {limit} && exec {GTOP} --once {words}")]);
        command
    };
    let output = RunOutput::from_run(&mut limited("-n 100", "'many[1-200]' --deadline 1")).await;
    output.check_stderr("the limit of 100 open files is enough for about 36 of 200 nodes");
    output.check_stderr("hard limit to 512");
    assert_eq!(output.code, Some(1));
    let output = RunOutput::from_run(&mut limited("-n 1024", "--demo=1000 --deadline 0.1")).await;
    output.check_stderr("enough for about 320 of 1000 nodes");
    // A soft limit is raised silently.
    let output = RunOutput::from_run(&mut limited("-Sn 20", "--local node")).await;
    output.check_success("same machine as node");
}

/// Returns the traced system calls that connect, or write, create or remove a file.
fn side_effects(trace: &str) -> impl Iterator<Item = &str> {
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
async fn nothing_is_written_and_only_nodes_are_contacted() {
    let Some(home) = Home::new().await else { return };
    let trace = home.lab.path("trace");
    if !home.command("strace").arg("-V").output().await.is_ok_and(|output| output.status.success())
    {
        return skip("there is no strace");
    }
    let before = files(&home.path());
    let mut command = home.command("strace");
    command.args(["-f", "-qq", "-e", "trace=network,file,ftruncate", "-o"]);
    command.arg(&trace).args([GTOP, "--once", "--local", "node"]);
    let output = RunOutput::from_run(&mut command).await;
    if output.stderr.contains("ptrace") {
        return skip("strace may not trace here");
    }
    output.check_success("same machine as node");
    let trace = fs::read_to_string(trace).unwrap();
    let node = format!("sin_port=htons({}), sin_addr=inet_addr(\"{ADDRESS}\")", home.sshd.port);
    let unexpected: Vec<&str> = side_effects(&trace)
        .filter(|line| {
            let is_node = line.contains("connect(") && line.contains(&node);
            // The C library looks users up in nscd, if it runs.
            let is_nscd = line.contains("connect(") && line.contains("/nscd/socket");
            let is_device =
                ["\"/dev/null\"", "\"/dev/tty\""].iter().any(|file| line.contains(file));
            !(is_node || is_nscd || is_device)
        })
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
    assert!(side_effects(&trace).any(|line| line.contains(&node)), "the node was never contacted");
    assert_eq!(files(&home.path()), before);
}

#[tokio::test]
async fn without_a_home_the_account_database_is_not_asked_for_one() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recordings/format-1.gtop");
    for (home, is_config_read) in [(None, false), (Some("here"), false), (Some("/nowhere"), true)] {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-e", "trace=file", GTOP, "replay", "--once", recording]);
        command.env_clear().env("PATH", "/usr/bin:/bin").envs(home.map(|home| ("HOME", home)));
        let Ok(output) = command.output().await else { return skip("there is no strace") };
        let trace = String::from_utf8_lossy(&output.stderr);
        if trace.contains("ptrace") {
            return skip("strace may not trace here");
        }
        assert!(output.status.success(), "{trace}");
        let is_service = |line: &&str| line.contains("nsswitch.conf") || line.contains("libnss");
        assert_eq!(trace.lines().find(is_service), None, "{home:?}");
        assert_eq!(trace.contains("/.config/gtop"), is_config_read, "{home:?}: {trace}");
    }
}

#[test]
fn system_calls_with_side_effects_are_recognised() {
    for line in [
        "7 openat(AT_FDCWD, \"/x\", O_WRONLY|O_CREAT, 0666) = 3",
        "7 connect(4, {sa_family=AF_INET, sin_port=htons(22)}, 16) = 0",
        "7 unlink(\"/x\") = 0",
        "7 renameat2(AT_FDCWD, \"/x\", AT_FDCWD, \"/y\", 0) = 0",
        "7 creat(\"/x\", 0666) = 3",
        "7 mkdir(\"/x\", 0777) = 0",
    ] {
        assert_eq!(side_effects(line).count(), 1, "{line}");
    }
    for line in [
        "7 openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY|O_CLOEXEC) = 3",
        "7 readlink(\"/proc/self/exe\", \"/x\", 256) = 2",
    ] {
        assert_eq!(side_effects(line).count(), 0, "{line}");
    }
}
