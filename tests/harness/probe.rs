//! Starts a probe, validates its frames, and checks that no process of it is left at the end.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use gtop_collect::probe::{self, Greeting, GreetingProgress, Interpreter, ProbeSettings};
use gtop_model::ProcessRequest;
use serde_json::Value;

use crate::harness::schema;

/// Limit for each wait, long enough for a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);
pub(crate) const NODE: &str = "gpu[01]";
pub(crate) const NONCE: &str = "5eed5eed5eed5eed5eed5eed5eed5eed";
pub(crate) const BOTH: [Interpreter; 2] = [Interpreter::Python, Interpreter::Shell];

/// The list of Pythons in the launch line.
const PYTHONS: &str = "/usr/bin/python3 /usr/libexec/platform-python python3";

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// How to start a probe.
pub(crate) struct Setup {
    pub(crate) interpreter: Interpreter,
    pub(crate) interval: Duration,
    pub(crate) deadman: Duration,
    /// The state of the stub nvidia-smi; `None` removes it from the path.
    pub(crate) state: Option<String>,
    /// What runs the script, `None` for the launch line under /bin/sh.
    pub(crate) program: Option<Vec<String>>,
    /// The login shell and its arguments before the launch line.
    pub(crate) shell: Vec<String>,
    /// Replaces the list of Pythons in the launch line.
    pub(crate) pythons: Option<String>,
    pub(crate) path: Option<PathBuf>,
    /// A replacement in the script, such as a shorter timeout: (old, new).
    pub(crate) replacement: Option<(&'static str, &'static str)>,
    /// The same in the part for the devices of a vendor.
    pub(crate) vendor_replacement: Option<(&'static str, &'static str)>,
    pub(crate) environment: Vec<(String, OsString)>,
}

impl Setup {
    pub(crate) fn new(interpreter: Interpreter) -> Self {
        Self {
            interpreter,
            interval: Duration::from_millis(500),
            // Never ends the probe before the test does.
            deadman: 10 * TIMEOUT,
            state: Some(gpus(2)),
            program: None,
            shell: vec!["/bin/sh".into(), "-c".into()],
            pythons: (interpreter == Interpreter::Shell).then(|| "no-such-python".to_owned()),
            path: None,
            replacement: None,
            vendor_replacement: None,
            environment: Vec::new(),
        }
    }

    pub(crate) fn state(self, state: &str) -> Self {
        Self { state: Some(state.to_owned()), ..self }
    }

    /// Starts it, sends the script, and reads its frames.
    pub(crate) fn start(self) -> Rig {
        let mut rig = self.start_unread();
        rig.start_reading();
        rig
    }

    /// Starts it and sends the script, but reads nothing after the announcement.
    pub(crate) fn start_unread(self) -> Rig {
        self.start_as(|command| command.process_group(0))
    }

    /// Starts it as a member of the tests' own process group.
    pub(crate) fn start_in_our_group(self) -> Rig {
        self.start_as(|command| command)
    }

    fn start_as(self, configure: fn(&mut Command) -> &mut Command) -> Rig {
        let settings = ProbeSettings {
            interval: self.interval,
            deadman: self.deadman,
            ..ProbeSettings::new(NODE, NONCE)
        };
        let source = probe::source(self.interpreter, &settings);
        let [head, zero, body, end, data] = source.parts();
        let data = [end, data].concat();
        let mut head = String::from_utf8(head.to_vec()).unwrap();
        if let (Interpreter::Shell, Some((old, new))) = (self.interpreter, self.replacement) {
            // The script of sh is not compressed.
            assert!(head.contains(old));
            return self.start_source(head.replace(old, new).as_bytes(), &data, configure);
        }
        let in_vendor = self.vendor_replacement.map(|(old, new)| {
            let split = "(PACKED[kind]))";
            (split, format!("{split}.replace(b'{old}',b'{new}')"))
        });
        let replacement = self.replacement.map(|(old, new)| (old, new.to_owned()));
        for (old, new) in replacement.into_iter().chain(in_vendor) {
            let split = r#".split(b"\f")"#;
            assert!(head.contains(split));
            head = head.replace(split, &format!(".replace(b{old:?},b{new:?}){split}"));
        }
        let script = [head.as_bytes(), zero, body].concat();
        self.start_source(&script, &data, configure)
    }

    fn start_source(
        &self,
        script: &[u8],
        data: &[u8],
        configure: fn(&mut Command) -> &mut Command,
    ) -> Rig {
        let mut rig = self.spawn(script, configure);
        if self.program.is_none() {
            assert_eq!(rig.read_announcement(), Some(self.interpreter));
            rig.write(script);
            rig.write(data);
        } else {
            // The script is in a file, and no line ends it.
            rig.write(data.strip_prefix(format!("{NONCE}\n").as_bytes()).unwrap_or(data));
        }
        rig
    }

    /// Starts the loader and sends it nothing.
    pub(crate) fn start_loader(self) -> Rig {
        self.spawn(b"source that is never sent", |command| command.process_group(0))
    }

    fn spawn(&self, source: &[u8], configure: fn(&mut Command) -> &mut Command) -> Rig {
        let folder = tempfile::tempdir().unwrap();
        // A probe may run as another user.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let mut command = self.command(folder.path(), source);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let marker = format!("{}-{serial}", std::process::id());
        command.env("GTOP_TEST_MARKER", &marker);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = configure(&mut command).spawn().unwrap();
        Rig {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            frames: channel().1,
            child,
            marker,
            folder,
            commands: 0,
            noise: Vec::new(),
        }
    }

    fn command(&self, folder: &Path, source: &[u8]) -> Command {
        let argv: Vec<String> = if let Some(program) = &self.program {
            let script = folder.join("probe");
            std::fs::write(&script, source).unwrap();
            program.iter().cloned().chain([script.display().to_string()]).collect()
        } else {
            let line = probe::launch_line(NONCE, source.len());
            assert!(line.contains(PYTHONS));
            let line = line.replace(PYTHONS, self.pythons.as_deref().unwrap_or(PYTHONS));
            self.shell.iter().cloned().chain([line]).collect()
        };
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]);
        let state = folder.join("state");
        if let Some(text) = &self.state {
            std::fs::write(&state, text).unwrap();
        }
        command.env("NVML_STUB_STATE", &state);
        let mut path =
            self.path.clone().map(|path| path.display().to_string() + ":").unwrap_or_default();
        if self.state.is_some() {
            path += concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stubs:");
        }
        command.env("PATH", path + &std::env::var("PATH").unwrap());
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        command
    }
}

/// Returns a stub state with this many busy devices.
pub(crate) fn gpus(count: u32) -> String {
    use std::fmt::Write as _;
    let mut state = "driver 570.86.15 12080\n".to_owned();
    for i in 0..count {
        let (util, used) = (90 + i, 70_000 + i);
        writeln!(state, "gpu {i} util={util} memutil=40 temp=61 power_mw=650120 used_mib={used}")
            .unwrap();
    }
    state
}

/// A running probe; dropping it kills all its processes.
pub(crate) struct Rig {
    pub(crate) child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    frames: Receiver<Result<Value, String>>,
    marker: String,
    folder: tempfile::TempDir,
    commands: u64,
    pub(crate) noise: Vec<u8>,
}

impl Rig {
    /// Waits for the loader's announcement; `None` if the session ends first.
    pub(crate) fn read_announcement(&mut self) -> Option<Interpreter> {
        let mut greeting = Greeting::new(NONCE);
        let mut buffer = [0; 512];
        loop {
            let count = self.stdout.as_mut()?.read(&mut buffer).unwrap();
            if count == 0 {
                return None;
            }
            if let GreetingProgress::Ready { interpreter, rest } = greeting.push(&buffer[..count]) {
                assert!(rest.is_empty());
                self.noise = greeting.noise().to_vec();
                return Some(interpreter);
            }
        }
    }

    /// Starts to read frames.
    pub(crate) fn start_reading(&mut self) {
        let (out, frames) = channel();
        let stdout = self.stdout.take().unwrap();
        thread::spawn(move || read_frames(stdout, &out));
        self.frames = frames;
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    pub(crate) fn command(&mut self, command: probe::ProbeCommand) {
        self.commands += 1;
        let line = probe::encode(self.commands, NODE, &command);
        self.write(line.as_bytes());
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn request(&mut self, request: ProcessRequest) -> Value {
        self.command(probe::ProbeCommand::Request(request));
        self.read_answer(self.commands)
    }

    /// Waits for the answer to the command with this number.
    pub(crate) fn read_answer(&mut self, number: u64) -> Value {
        let is_answer = |frame: &Value| frame["t"] == "answer" && frame["id"] == number;
        self.until("answer", |frame| is_answer(frame).then(|| frame.clone()))
    }

    pub(crate) fn set_state(&self, state: &str) {
        let next = self.folder.path().join("next");
        std::fs::write(&next, state).unwrap();
        std::fs::rename(next, self.folder.path().join("state")).unwrap();
    }

    /// The next frame, `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Option<Value> {
        match self.frames.recv_timeout(TIMEOUT) {
            Ok(frame) => Some(frame.unwrap()),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no frame for {TIMEOUT:?}"),
        }
    }

    /// Waits until `choose` returns a value for a frame, and returns it.
    pub(crate) fn until<T>(
        &mut self,
        what: &str,
        mut choose: impl FnMut(&Value) -> Option<T>,
    ) -> T {
        let deadline = Instant::now() + TIMEOUT;
        let mut last = Value::Null;
        while let Some(frame) = self.next() {
            if let Some(found) = choose(&frame) {
                return found;
            }
            assert!(Instant::now() < deadline, "no {what}; the last frame was {frame}");
            last = frame;
        }
        panic!("the probe ended without {what}, after {last}");
    }

    /// Like `until`, starting with a frame already received.
    pub(crate) fn until_or<T>(
        &mut self,
        first: &Value,
        what: &str,
        mut choose: impl FnMut(&Value) -> Option<T>,
    ) -> T {
        choose(first).unwrap_or_else(|| self.until(what, choose))
    }

    /// Waits until a hello has this backend in this state, and returns its entry.
    pub(crate) fn backend(&mut self, kind: &str, state: &str) -> Value {
        self.until(&format!("{kind} {state}"), |frame| {
            let backends = frame["backends"].as_array()?;
            let found = backends.iter().find(|backend| backend["kind"] == kind)?;
            (found["state"] == state).then(|| found.clone())
        })
    }

    pub(crate) fn sample(&mut self) -> Value {
        self.until("sample", |frame| (frame["t"] == "sample").then(|| frame.clone()))
    }

    /// Requests full samples until one satisfies `is_so`.
    pub(crate) fn full_sample(&mut self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            self.command(probe::ProbeCommand::Full);
            let full = self.until(what, |frame| (frame["full"] == true).then(|| frame.clone()));
            if is_so(&full) {
                return full;
            }
            assert!(Instant::now() < deadline, "no {what}: {full}");
        }
    }

    /// The next error, except `starting`.
    pub(crate) fn error(&mut self) -> Value {
        let is_error = |frame: &Value| frame["t"] == "error" && frame["code"] != "starting";
        self.until("error", |frame| is_error(frame).then(|| frame.clone()))
    }

    /// Number of unread bytes in the pipe.
    pub(crate) fn unread_bytes(&self) -> u64 {
        rustix::io::ioctl_fionread(self.stdout.as_ref().unwrap()).unwrap()
    }

    /// Waits until the pipe has been full for a while; keeps the probe alive until then.
    pub(crate) fn wait_until_full(&mut self) {
        let deadline = Instant::now() + TIMEOUT;
        let mut before = 0;
        let mut same = 0;
        while same < 20 {
            assert!(Instant::now() < deadline, "only {} bytes", self.unread_bytes());
            self.command(probe::ProbeCommand::Heartbeat);
            thread::park_timeout(Duration::from_millis(50));
            let now = self.unread_bytes();
            same = if now == before && now > 32_768 { same + 1 } else { 0 };
            before = now;
        }
    }

    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// Closes stdin.
    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }

    /// Returns true if no process of this probe is left within a limit.
    pub(crate) fn exits_within(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let ended = self.child.try_wait().unwrap().is_some();
            if ended && self.leftover_pids().is_empty() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// Returns the processes of this probe, found by a variable in their environment.
    pub(crate) fn leftover_pids(&self) -> Vec<u32> {
        let marker = format!("GTOP_TEST_MARKER={}\0", self.marker).into_bytes();
        let all = std::fs::read_dir("/proc").unwrap();
        let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let ours = |pid: &u32| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.windows(marker.len()).any(|window| window == marker)
        };
        pids.filter(ours).collect()
    }

    /// Closes stdin and asserts that all processes exit.
    pub(crate) fn finish(mut self) {
        self.close();
        assert!(self.exits_within(TIMEOUT), "left behind: {:?}", self.leftover_pids());
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        for pid in self.leftover_pids() {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                let _killed = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        let _status = self.child.wait();
    }
}

/// Reads lines to the end of the stream and validates them.
fn read_frames(mut stdout: ChildStdout, out: &Sender<Result<Value, String>>) {
    let mut pending = Vec::new();
    let mut buffer = vec![0; 65_536];
    while let Ok(count @ 1..) = stdout.read(&mut buffer) {
        pending.extend_from_slice(&buffer[..count]);
        while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = pending.drain(..=end).collect();
            if out.send(schema::line(&line[..end])).is_err() {
                return;
            }
        }
    }
}

/// Checks each case, up to four at once: probes mostly wait. Panics if a check does.
pub(crate) fn at_once<C: Send>(
    cases: impl IntoIterator<Item = C, IntoIter: Send>,
    check: impl Fn(C) + Sync,
) {
    let cases = Mutex::new(cases.into_iter());
    let next = || cases.lock().unwrap().next();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| std::iter::from_fn(next).for_each(&check));
        }
    });
}

/// Pythons of all ages, oldest first.
pub(crate) fn pythons() -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/usr/bin/python3"), "/usr/libexec/platform-python".into()];
    if let Some(versions) =
        std::env::home_dir().and_then(|home| home.join(".pyenv/versions").read_dir().ok())
    {
        found.extend(versions.filter_map(|entry| Some(entry.ok()?.path().join("bin/python"))));
    }
    found.retain(|python| python.is_file());
    found.sort();
    found
}

/// The oldest and the newest supported Python, and the default one.
pub(crate) fn main_pythons() -> Vec<PathBuf> {
    let is_main = |python: &PathBuf| {
        let name = python.to_string_lossy();
        ["/3.6.", "/3.13.", "/usr/bin/"].iter().any(|part| name.contains(part))
    };
    pythons().into_iter().filter(is_main).collect()
}

/// Returns the installed ones of these programs, and prints which are skipped.
pub(crate) fn installed(programs: &[&str]) -> Vec<String> {
    let path = std::env::var("PATH").unwrap();
    let is_installed =
        |program: &&&str| path.split(':').any(|folder| Path::new(folder).join(program).is_file());
    for absent in programs.iter().filter(|program| !is_installed(program)) {
        eprintln!("skipped: no {absent} here");
    }
    programs.iter().filter(is_installed).map(|program| (*program).to_owned()).collect()
}
