//! Termination: gtop exits on a signal even if it is blocked, restores the terminal, and leaves no child process
//! behind, not even a stopped one.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const GTOP: &str = env!("CARGO_BIN_EXE_gtop");
/// Maximum time for each step; the machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Signals that end gtop, and its exit codes.
const SIGNALS: [(Signal, i32); 3] = [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)];

fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(began.elapsed() < TIMEOUT, "timeout: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a program exits; kills it after a timeout.
fn wait_for_exit(child: &mut Child, what: &str) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if began.elapsed() > TIMEOUT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{what}: it does not exit");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    assert!(!pid.is_init());
    kill_process(pid, signal).unwrap();
}

fn proc_file(pid: &str, name: &str) -> Option<String> {
    fs::read_to_string(Path::new("/proc").join(pid).join(name)).ok()
}

/// Returns the state of a process as a letter; `None` if it has ended.
fn state(pid: &str) -> Option<char> {
    let stat = proc_file(pid, "stat")?;
    let state = stat.rsplit(')').next()?.trim().chars().next()?;
    (!"ZX".contains(state)).then_some(state)
}

/// Returns `Some` if the main thread of a process is blocked in a system call on one of these files.
fn blocked_on(pid: &str, files: &[&str]) -> Option<()> {
    let call = proc_file(pid, "syscall")?;
    files.contains(&call.split(' ').nth(1)?).then_some(())
}

/// Returns a full pipe; the reader keeps it open.
fn full_pipe() -> (io::PipeWriter, io::PipeReader) {
    let (reader, mut writer) = io::pipe().unwrap();
    let size = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
    writer.write_all(&vec![0; size]).unwrap();
    (writer, reader)
}

fn gtop(args: &[&str]) -> Command {
    let mut command = Command::new(GTOP);
    command.args(args).env("HOME", "/nowhere").env_remove("SSH_AUTH_SOCK").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A folder with programs, which write their pids to files there.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// Waits until a file has this many pids; returns them.
    fn pids(&self, name: &str, count: usize) -> Vec<String> {
        wait_for(name, || {
            let text = fs::read_to_string(self.path(name)).ok()?;
            let pids: Vec<_> = text.lines().map(str::to_owned).collect();
            (pids.len() >= count).then_some(pids)
        })
    }
}

#[test]
fn a_signal_ends_gtop_while_its_output_is_not_read() {
    let folder = Folder::new();
    let invalid = folder.path("invalid.toml");
    fs::write(&invalid, "theme = \"pink\"\n").unwrap();
    let invalid = invalid.display().to_string();
    let (out, err) = ("0x1", "0x2");
    let cases: &[(&str, &[&str])] = &[
        (out, &["--json", "--watch", "--demo=2", "--interval", "0.1"]),
        (out, &["--once", "--demo=2"]),
        (out, &["--json", "--demo=2"]),
        (out, &["doctor", "--local"]),
        (out, &["doctor", "--local", "--json"]),
        (out, &["trust", "127.0.0.1:1"]),
        (out, &["config", "show"]),
        (out, &["man"]),
        (out, &["--json-schema"]),
        (err, &["trust"]),
        (err, &["--config", &invalid, "--once", "--demo=2"]),
    ];
    for (number, (file, args)) in cases.iter().enumerate() {
        let (signal, code) = SIGNALS[number % SIGNALS.len()];
        let (writer, _reader) = full_pipe();
        let mut command = gtop(args);
        if *file == out {
            command.stdout(writer)
        } else {
            command.stderr(writer)
        };
        let mut child = command.spawn().unwrap();
        drop(command);
        let pid = child.id().to_string();
        wait_for(&format!("{args:?} is blocked in a write"), || blocked_on(&pid, &[file]));
        let began = Instant::now();
        send(child.id(), signal);
        let status = wait_for_exit(&mut child, &format!("{args:?} after {signal:?}"));
        eprintln!("{args:?}: {:.2} s", began.elapsed().as_secs_f32());
        assert_eq!(status.code(), Some(code), "{args:?}");
    }
}

#[test]
fn a_signal_ends_gtop_before_the_screen_and_during_a_request() {
    let folder = Folder::new();
    let fifo = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The reader never reads.
    let reader = fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    let size = rustix::pipe::fcntl_getpipe_size(&reader).unwrap();
    (&reader).write_all(&vec![0; size]).unwrap();
    folder.program("squeue", "echo $$ >>\"$0.pids\"\nexec sleep 1000");
    let path = format!("{}:/usr/bin:/bin", folder.0.path().display());
    for (signal, code) in SIGNALS {
        // Before the first reply of the scheduler, no listener for signals is registered.
        let mut child = gtop(&["--slurm", "--json"]).env("PATH", &path).spawn().unwrap();
        folder.pids("squeue.pids", 1);
        send(child.id(), signal);
        assert_eq!(wait_for_exit(&mut child, "the scheduler").code(), Some(code));
        fs::remove_file(folder.path("squeue.pids")).unwrap();
        // A connection that never answers.
        let (server, port) = silent_listener();
        let address = format!("127.0.0.1:{port}");
        let mut child = gtop(&["trust", &address]).stdin(Stdio::piped()).spawn().unwrap();
        let connection = server.accept().unwrap();
        send(child.id(), signal);
        assert_eq!(wait_for_exit(&mut child, "trust").code(), Some(code));
        drop(connection);
    }
    // The log is a full pipe.
    let log = fifo.display().to_string();
    let mut child = gtop(&["--log", &log, "--json", "--watch", "--exec", "false {node}", "a"]);
    let mut child = child.spawn().unwrap();
    thread::sleep(Duration::from_millis(500));
    if child.try_wait().unwrap().is_none() {
        send(child.id(), Signal::TERM);
        assert_eq!(wait_for_exit(&mut child, "a log that is not read").code(), Some(143));
    }
}

fn silent_listener() -> (std::net::TcpListener, u16) {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    (server, port)
}

/// Runs a shell line in a terminal created by `script`; `None` if that is not installed.
fn terminal(line: &str, output: Stdio) -> Option<Child> {
    let mut command = Command::new("script");
    command.args(["-qec", line, "/dev/null"]);
    command.env_clear().env("HOME", "/nowhere").env("LC_ALL", "C.UTF-8");
    command.env("TERM", "xterm-256color").env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.env("GTOP", GTOP).stdin(Stdio::piped()).stdout(output);
    let child = command.spawn();
    if child.is_err() {
        assert!(std::env::var_os("GTOP_CI").is_none(), "script is not installed");
        eprintln!("skipped: script is not installed");
    }
    child.ok()
}

/// Returns a shell line that runs gtop and records its pid, its exit code and the terminal modes before and after.
fn recording(folder: &Folder, gtop: &str) -> String {
    let folder = folder.0.path().display();
    format!(
        "stty rows 100 cols 300; cd {folder}; tty >tty; stty -g >before; \
         sh -c 'echo $$ >pid; exec {gtop}'; echo $? >code; stty -g >after; mv after done"
    )
}

#[test]
fn a_signal_ends_gtop_on_a_blocked_terminal_and_restores_it() {
    for (signal, code) in SIGNALS {
        let folder = Folder::new();
        let line = recording(&folder, "$GTOP --demo=30 --interval 0.05");
        let (writer, reader) = full_pipe();
        let Some(mut child) = terminal(&line, writer.into()) else { return };
        let pid = folder.pids("pid", 1).remove(0);
        wait_for("the screen is blocked in a write", || blocked_on(&pid, &["0x1"]));
        let began = Instant::now();
        send(pid.parse().unwrap(), signal);
        wait_for("gtop has ended", || state(&pid).is_none().then_some(()));
        eprintln!("{signal:?}: {:.2} s", began.elapsed().as_secs_f32());
        // Now the terminal is read again.
        let reading = thread::spawn(move || {
            let mut text = Vec::new();
            { reader }.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        });
        let after = wait_for("modes", || fs::read_to_string(folder.path("done")).ok());
        assert_eq!(after, fs::read_to_string(folder.path("before")).unwrap());
        assert_eq!(fs::read_to_string(folder.path("code")).unwrap(), format!("{code}\n"));
        wait_for_exit(&mut child, "the terminal");
        let text = reading.join().unwrap();
        let last = text.rfind("\x1b[?1049l");
        assert!(last > text.rfind("\x1b[?1049h"), "{signal:?}: the alternate screen is left");
    }
}

#[test]
fn a_signal_during_a_prompt_restores_the_echo() {
    let folder = Folder::new();
    let key = folder.path("id");
    let generated = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "secret", "-f"])
        .arg(&key)
        .status();
    if !generated.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("GTOP_CI").is_none(), "ssh-keygen is not installed");
        eprintln!("skipped: ssh-keygen is not installed");
        return;
    }
    fs::create_dir(folder.path(".ssh")).unwrap();
    let config = format!("IdentityFile {}\nIdentityAgent none\n", key.display());
    fs::write(folder.path(".ssh/config"), config).unwrap();
    for (signal, code) in SIGNALS {
        let home = folder.0.path().display();
        let at_home = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/at_home");
        let line = recording(&folder, &format!("{at_home} {home} $GTOP 127.0.0.1:1"));
        let Some(mut child) = terminal(&line, Stdio::null()) else { return };
        let pid = folder.pids("pid", 1).remove(0);
        // Only root sees the open files of a process in a namespace of users.
        let tty = fs::read_to_string(folder.path("tty")).unwrap();
        let tty = Path::new(tty.trim_end());
        wait_for("a prompt", || modes(tty)?.contains(" -echo ").then_some(()));
        send(pid.parse().unwrap(), signal);
        let after = wait_for("modes", || fs::read_to_string(folder.path("done")).ok());
        assert_eq!(after, fs::read_to_string(folder.path("before")).unwrap());
        assert_eq!(fs::read_to_string(folder.path("code")).unwrap(), format!("{code}\n"));
        wait_for_exit(&mut child, "the terminal");
        fs::remove_file(folder.path("pid")).unwrap();
        fs::remove_file(folder.path("done")).unwrap();
    }
}

/// Returns the terminal at the standard input of a process.
fn terminal_of(pid: &str) -> Option<PathBuf> {
    fs::read_link(Path::new("/proc").join(pid).join("fd/0")).ok()
}

/// Returns the modes of a terminal.
fn modes(terminal: &Path) -> Option<String> {
    let output = Command::new("stty").arg("-a").arg("-F").arg(terminal).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Programs that get stopped: the transport command while it runs the probe, the same before that, and a process
/// that it leaves behind.
const PROBES: &str = "echo $$ >>\"$0.pids\"; exec env X=1 sh";
const STOPS: &str = "echo $$ >>\"$0.pids\"; kill -STOP $$";
const LEAVES: &str = "sh -c 'echo $$ >>\"$0.pids\"; kill -STOP $$' \"$0\" >/dev/null 2>&1 &\n\
                      while ! test -s \"$0.pids\"; do sleep 0.02; done\nexec env X=1 sh";

#[test]
fn stopped_programs_are_ended_with_gtop() {
    for (kind, text) in [("probes", PROBES), ("stops", STOPS), ("leaves", LEAVES)] {
        for exit in ["q", "TERM", "closed"] {
            let folder = Folder::new();
            let program = folder.program("transport", text);
            let exec = format!("--exec \"{} {{node}}\" a", program.display());
            let what = format!("{kind}, {exit}");
            let stopped = || {
                let pids = folder.pids("transport.pids", 1);
                for pid in &pids {
                    if kind == "probes" {
                        let runs = || proc_file(pid, "cmdline")?.contains("python").then_some(());
                        wait_for("the probe", runs);
                        send(pid.parse().unwrap(), Signal::STOP);
                    }
                    wait_for("it is stopped", || (state(pid) == Some('T')).then_some(()));
                }
                pids
            };
            let pids = if exit == "closed" {
                let args = ["--json", "--watch", "--interval", "0.1", "--exec"];
                let exec = format!("{} {{node}}", program.display());
                let mut command = gtop(&[&args[..], &[&exec, "a"]].concat());
                let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
                let pids = stopped();
                drop(child.stdout.take());
                assert_eq!(wait_for_exit(&mut child, &what).code(), Some(0), "{what}");
                pids
            } else {
                let line = recording(&folder, &format!("$GTOP {exec}"));
                let (mut reader, writer) = io::pipe().unwrap();
                let Some(mut child) = terminal(&line, writer.into()) else { return };
                let reading = thread::spawn(move || reader.read_to_end(&mut Vec::new()));
                let pids = stopped();
                let gtop_pid = folder.pids("pid", 1).remove(0);
                if exit == "q" {
                    // Raw mode means that it reads keys.
                    wait_for("raw mode", || {
                        modes(&terminal_of(&gtop_pid)?)?.contains("-icanon").then_some(())
                    });
                    child.stdin.as_mut().unwrap().write_all(b"q").unwrap();
                } else {
                    send(gtop_pid.parse().unwrap(), Signal::TERM);
                }
                let code = if exit == "q" { "0\n" } else { "143\n" };
                wait_for("modes", || fs::read_to_string(folder.path("done")).ok());
                assert_eq!(fs::read_to_string(folder.path("code")).unwrap(), code, "{what}");
                wait_for_exit(&mut child, &what);
                reading.join().unwrap().unwrap();
                pids
            };
            for pid in pids {
                wait_for(&format!("the end of {pid} ({what})"), || {
                    state(&pid).is_none().then_some(())
                });
            }
        }
    }
}
