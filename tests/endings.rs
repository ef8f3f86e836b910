//! gtop ends when a signal says so, whatever holds it up, gives the terminal back, and leaves none of
//! the programs it started behind, one that is stopped neither.
#![expect(clippy::disallowed_methods, reason = "the program is run as it is")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "all of this file is tests; a skip says why"
)]

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const GTOP: &str = env!("CARGO_BIN_EXE_gtop");
/// How long anything may take here; a machine may be busy.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Signals that end gtop, and what it exits with then.
const SIGNALS: [(Signal, i32); 3] = [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)];

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < TIMEOUT, "{what} never came");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The end of a program, which is killed when it does not come.
fn ended(child: &mut Child, what: &str) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if began.elapsed() > TIMEOUT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{what}: it goes on");
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

/// The state of a process, as a letter; `None` when it has ended.
fn state(pid: &str) -> Option<char> {
    let stat = proc_file(pid, "stat")?;
    let state = stat.rsplit(')').next()?.trim().chars().next()?;
    (!"ZX".contains(state)).then_some(state)
}

/// Whether the main thread of a process waits in a call on one of these files.
fn waits_on(pid: &str, files: &[&str]) -> Option<()> {
    let call = proc_file(pid, "syscall")?;
    files.contains(&call.split(' ').nth(1)?).then_some(())
}

/// A pipe that takes nothing any more, to write to and to keep.
fn full_pipe() -> (io::PipeWriter, io::PipeReader) {
    let (reader, mut writer) = io::pipe().unwrap();
    let size = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
    writer.write_all(&vec![0; size]).unwrap();
    (writer, reader)
}

fn gtop(words: &[&str]) -> Command {
    let mut command = Command::new(GTOP);
    command.args(words).env("HOME", "/nowhere").env_remove("SSH_AUTH_SOCK").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// A folder with programs and what they say of themselves.
struct Place(tempfile::TempDir);

impl Place {
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

    /// The pids in a file, once there are so many.
    fn pids(&self, name: &str, count: usize) -> Vec<String> {
        wait_for(name, || {
            let text = fs::read_to_string(self.path(name)).ok()?;
            let pids: Vec<_> = text.lines().map(str::to_owned).collect();
            (pids.len() >= count).then_some(pids)
        })
    }
}

#[test]
fn a_signal_ends_it_while_nobody_reads_what_it_prints() {
    let place = Place::new();
    let broken = place.path("broken.toml");
    fs::write(&broken, "theme = \"pink\"\n").unwrap();
    let broken = broken.display().to_string();
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
        (err, &["--config", &broken, "--once", "--demo=2"]),
    ];
    for (number, (file, words)) in cases.iter().enumerate() {
        let (signal, code) = SIGNALS[number % SIGNALS.len()];
        let (writer, _reader) = full_pipe();
        let mut command = gtop(words);
        if *file == out {
            command.stdout(writer)
        } else {
            command.stderr(writer)
        };
        let mut child = command.spawn().unwrap();
        drop(command);
        let pid = child.id().to_string();
        wait_for(&format!("{words:?} that waits to write"), || waits_on(&pid, &[file]));
        let began = Instant::now();
        send(child.id(), signal);
        let status = ended(&mut child, &format!("{words:?} after {signal:?}"));
        eprintln!("{words:?}: {:.2} s", began.elapsed().as_secs_f32());
        assert_eq!(status.code(), Some(code), "{words:?}");
    }
}

#[test]
fn a_signal_ends_it_before_anything_is_shown_and_while_it_asks() {
    let place = Place::new();
    let fifo = place.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // A reader that does not read.
    let reader = fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    let size = rustix::pipe::fcntl_getpipe_size(&reader).unwrap();
    (&reader).write_all(&vec![0; size]).unwrap();
    place.program("squeue", "echo $$ >>\"$0.pids\"\nexec sleep 1000");
    let path = format!("{}:/usr/bin:/bin", place.0.path().display());
    for (signal, code) in SIGNALS {
        // Before the first answer of a scheduler nobody listens yet.
        let mut child = gtop(&["--slurm", "--json"]).env("PATH", &path).spawn().unwrap();
        place.pids("squeue.pids", 1);
        send(child.id(), signal);
        assert_eq!(ended(&mut child, "the scheduler").code(), Some(code));
        fs::remove_file(place.path("squeue.pids")).unwrap();
        // A question whose answer does not come.
        let (server, port) = silent_listener();
        let address = format!("127.0.0.1:{port}");
        let mut child = gtop(&["trust", &address]).stdin(Stdio::piped()).spawn().unwrap();
        let connection = server.accept().unwrap();
        send(child.id(), signal);
        assert_eq!(ended(&mut child, "trust").code(), Some(code));
        drop(connection);
    }
    // The log is a pipe that is full.
    let log = fifo.display().to_string();
    let mut child = gtop(&["--log", &log, "--json", "--watch", "--exec", "false {node}", "a"]);
    let mut child = child.spawn().unwrap();
    thread::sleep(Duration::from_millis(500));
    if child.try_wait().unwrap().is_none() {
        send(child.id(), Signal::TERM);
        assert_eq!(ended(&mut child, "a log that is not read").code(), Some(143));
    }
}

fn silent_listener() -> (std::net::TcpListener, u16) {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    (server, port)
}

/// A shell in a terminal that `script` makes; `None` where there is none.
fn terminal(line: &str, output: Stdio) -> Option<Child> {
    let mut command = Command::new("script");
    command.args(["-qec", line, "/dev/null"]);
    command.env_clear().env("HOME", "/nowhere").env("LC_ALL", "C.UTF-8");
    command.env("TERM", "xterm-256color").env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.env("GTOP", GTOP).stdin(Stdio::piped()).stdout(output);
    let child = command.spawn();
    if child.is_err() {
        assert!(std::env::var_os("GTOP_CI").is_none(), "there is no script, and here it must run");
        eprintln!("skipped: there is no script to make a terminal");
    }
    child.ok()
}

/// What a shell does around gtop to tell of it.
fn around(place: &Place, gtop: &str) -> String {
    let folder = place.0.path().display();
    format!(
        "stty rows 100 cols 300; cd {folder}; stty -g >before; \
         sh -c 'echo $$ >pid; exec {gtop}'; echo $? >code; stty -g >after; mv after done"
    )
}

#[test]
fn a_signal_ends_it_on_a_terminal_that_nobody_reads_and_the_terminal_is_as_before() {
    for (signal, code) in SIGNALS {
        let place = Place::new();
        let line = around(&place, "$GTOP --demo=30 --interval 0.05");
        let (writer, reader) = full_pipe();
        let Some(mut child) = terminal(&line, writer.into()) else { return };
        let pid = place.pids("pid", 1).remove(0);
        wait_for("a screen that waits to write", || waits_on(&pid, &["0x1"]));
        let began = Instant::now();
        send(pid.parse().unwrap(), signal);
        wait_for("the end", || state(&pid).is_none().then_some(()));
        eprintln!("{signal:?}: {:.2} s", began.elapsed().as_secs_f32());
        // Now somebody reads again.
        let reading = thread::spawn(move || {
            let mut text = Vec::new();
            { reader }.read_to_end(&mut text).unwrap();
            String::from_utf8_lossy(&text).into_owned()
        });
        let after = wait_for("modes", || fs::read_to_string(place.path("done")).ok());
        assert_eq!(after, fs::read_to_string(place.path("before")).unwrap());
        assert_eq!(fs::read_to_string(place.path("code")).unwrap(), format!("{code}\n"));
        ended(&mut child, "the terminal");
        let text = reading.join().unwrap();
        let last = text.rfind("\x1b[?1049l");
        assert!(last > text.rfind("\x1b[?1049h"), "{signal:?}: the other screen is left");
    }
}

#[test]
fn a_signal_during_a_question_gives_the_echo_back() {
    let place = Place::new();
    let key = place.path("id");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "secret", "-f"])
        .arg(&key)
        .status();
    if !made.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("GTOP_CI").is_none(), "there is no ssh-keygen");
        eprintln!("skipped: there is no ssh-keygen");
        return;
    }
    fs::create_dir(place.path(".ssh")).unwrap();
    let config = format!("IdentityFile {}\nIdentityAgent none\n", key.display());
    fs::write(place.path(".ssh/config"), config).unwrap();
    for (signal, code) in SIGNALS {
        let home = place.0.path().display();
        let at_home = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/at_home");
        let line = around(&place, &format!("{at_home} {home} $GTOP 127.0.0.1:1"));
        let Some(mut child) = terminal(&line, Stdio::null()) else { return };
        let pid = place.pids("pid", 1).remove(0);
        wait_for("a question", || modes(&pid)?.contains(" -echo ").then_some(()));
        send(pid.parse().unwrap(), signal);
        let after = wait_for("modes", || fs::read_to_string(place.path("done")).ok());
        assert_eq!(after, fs::read_to_string(place.path("before")).unwrap());
        assert_eq!(fs::read_to_string(place.path("code")).unwrap(), format!("{code}\n"));
        ended(&mut child, "the terminal");
        fs::remove_file(place.path("pid")).unwrap();
        fs::remove_file(place.path("done")).unwrap();
    }
}

/// The modes of the terminal at the standard input of a process.
fn modes(pid: &str) -> Option<String> {
    let terminal = fs::read_link(Path::new("/proc").join(pid).join("fd/0")).ok()?;
    let told = Command::new("stty").arg("-a").arg("-F").arg(terminal).output().ok()?;
    Some(String::from_utf8_lossy(&told.stdout).into_owned())
}

/// Programs that are stopped: the way itself, once it runs the probe or before, and one that it
/// leaves behind when it ends.
const PROBES: &str = "echo $$ >>\"$0.pids\"; exec env X=1 sh";
const STOPS: &str = "echo $$ >>\"$0.pids\"; kill -STOP $$";
const LEAVES: &str = "sh -c 'echo $$ >>\"$0.pids\"; kill -STOP $$' \"$0\" >/dev/null 2>&1 &\n\
                      while ! test -s \"$0.pids\"; do sleep 0.02; done\nexec env X=1 sh";

#[test]
fn programs_that_are_stopped_end_with_it() {
    for (kind, text) in [("probes", PROBES), ("stops", STOPS), ("leaves", LEAVES)] {
        for ending in ["q", "TERM", "closed"] {
            let place = Place::new();
            let program = place.program("way", text);
            let exec = format!("--exec \"{} {{node}}\" a", program.display());
            let what = format!("{kind}, {ending}");
            let stopped = || {
                let pids = place.pids("way.pids", 1);
                for pid in &pids {
                    if kind == "probes" {
                        let runs = || proc_file(pid, "cmdline")?.contains("python").then_some(());
                        wait_for("the probe", runs);
                        send(pid.parse().unwrap(), Signal::STOP);
                    }
                    wait_for("it stops", || (state(pid) == Some('T')).then_some(()));
                }
                pids
            };
            let pids = if ending == "closed" {
                let words = ["--json", "--watch", "--interval", "0.1", "--exec"];
                let exec = format!("{} {{node}}", program.display());
                let mut command = gtop(&[&words[..], &[&exec, "a"]].concat());
                let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
                let pids = stopped();
                drop(child.stdout.take());
                assert_eq!(ended(&mut child, &what).code(), Some(0), "{what}");
                pids
            } else {
                let line = around(&place, &format!("$GTOP {exec}"));
                let (mut reader, writer) = io::pipe().unwrap();
                let Some(mut child) = terminal(&line, writer.into()) else { return };
                let reading = thread::spawn(move || reader.read_to_end(&mut Vec::new()));
                let pids = stopped();
                let own = place.pids("pid", 1).remove(0);
                if ending == "q" {
                    // It is shown once it reads keys.
                    wait_for("raw keys", || modes(&own)?.contains("-icanon").then_some(()));
                    child.stdin.as_mut().unwrap().write_all(b"q").unwrap();
                } else {
                    send(own.parse().unwrap(), Signal::TERM);
                }
                let code = if ending == "q" { "0\n" } else { "143\n" };
                wait_for("modes", || fs::read_to_string(place.path("done")).ok());
                assert_eq!(fs::read_to_string(place.path("code")).unwrap(), code, "{what}");
                ended(&mut child, &what);
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
