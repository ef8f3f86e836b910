//! Local processes: commands on the local node, `ssh -G`, and the programs that connect to nodes.
//!
//! The only place that starts programs. Each child has its own process group. The group is killed when its owner
//! is dropped, when its leader exits, and at the latest when gtop exits.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::ssh::fault::{self, Fault};
use crate::ssh::file_cache::lock;
use crate::ssh::output::{Exit, Output};

/// Bytes read from a pipe at once.
const READ_SIZE: usize = 16 * 1024;

/// Most bytes of output of a program that is run to its end.
const MAX_OUTPUT: usize = 256 * 1024;

/// Timeout for a program to exit after its stdin was closed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// How often gtop polls at its exit for terminated programs, every 10 ms.
const EXIT_POLLS: u32 = 25;

/// The leaders of process groups that were not reaped yet: until then their pids cannot be reused.
static GROUP_LEADERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Terminates every running program with its process group, stopped ones too.
///
/// At exit some programs may not have ended yet, and a stopped program reacts neither to the end of its input nor
/// to a signal.
pub fn terminate_programs() {
    let leaders = || lock(&GROUP_LEADERS).clone();
    for leader in leaders() {
        signal_group(leader, Signal::TERM);
        signal_group(leader, Signal::CONT);
    }
    for _ in 0..EXIT_POLLS {
        if leaders().into_iter().all(has_exited) {
            break;
        }
        #[expect(clippy::disallowed_methods, reason = "no runtime is left to wait in")]
        thread::sleep(Duration::from_millis(10));
    }
    for leader in leaders() {
        signal_group(leader, Signal::KILL);
    }
}

/// Sends a signal to the process group of a child that was not reaped yet.
fn signal_group(leader: Pid, signal: Signal) {
    if kill_process_group(leader, signal).is_err() {
        // The group may not exist yet, or may be gone already.
        kill_process(leader, signal).ok();
    }
}

/// Returns true if a child has exited; does not reap it.
fn has_exited(leader: Pid) -> bool {
    let flags = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(leader), flags), Ok(None))
}

/// A child; dropping it kills its process group.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    child: Child,
    /// Its pid, until it is reaped.
    leader: Option<Pid>,
}

impl ProcessGroup {
    pub(crate) fn start(mut command: Command) -> std::io::Result<Self> {
        command.process_group(0);
        Self::spawn(command)
    }

    /// Starts a program behind the parent guard, which gives it its own session.
    fn start_guarded(command: Command) -> std::io::Result<Self> {
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> std::io::Result<Self> {
        command.kill_on_drop(true).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Held so that `terminate_programs` cannot miss a child that is being started.
        let mut leaders = lock(&GROUP_LEADERS);
        let child = command.spawn()?;
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let leader = leader.filter(|leader| !leader.is_init());
        leaders.extend(leader);
        Ok(Self { child, leader })
    }

    /// Waits until the child exits, and kills the rest of its group.
    pub(crate) async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        if let Some(leader) = self.leader {
            // Subscribed before the check, so that no exit is missed.
            let mut ended = signal(SignalKind::child())?;
            while !has_exited(leader) {
                ended.recv().await;
            }
            self.kill_and_forget();
        }
        self.child.wait().await
    }

    /// Takes the pipes of the child: stdin, stdout, stderr.
    pub(crate) fn take_pipes(
        &mut self,
    ) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// Kills the process group.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // The pid is kept only until the child is reaped; later it could be reused.
        if let Some(leader) = self.leader {
            signal_group(leader, signal);
        }
    }

    /// Kills the process group and sends it no more signals.
    fn kill_and_forget(&mut self) {
        self.kill();
        if let Some(leader) = self.leader.take() {
            lock(&GROUP_LEADERS).retain(|known| *known != leader);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill_and_forget();
    }
}

/// Keeps a program from outliving gtop, and from prompting at the terminal.
///
/// The child first executes gtop, which asks the kernel for a signal when its parent dies, detaches from the
/// terminal, and then executes the program. Without a gtop executable the program only has its own process group,
/// and sees the end of its input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ParentGuard<'a>(pub(crate) Option<&'a Path>);

/// The first argument that makes gtop a parent guard; the parent's pid and the program with its arguments follow.
pub const PARENT_GUARD: &str = "__parent-guard";

/// Exit status, as in a shell, if the guard cannot execute the program.
pub const EXIT_NOT_STARTED: u8 = 127;

/// Runs the parent guard with the arguments after [`PARENT_GUARD`]. Returns only on failure, with the message.
pub fn run_parent_guard(mut args: impl Iterator<Item = OsString>) -> String {
    use std::os::unix::process::CommandExt;
    let parent = args.next().and_then(|word| word.to_str()?.parse().ok());
    let (Some(parent), Some(program)) = (parent.and_then(Pid::from_raw), args.next()) else {
        return "gtop: the parent guard needs a parent pid and a program".to_owned();
    };
    // If either fails, the program still sees the end of its input.
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM)).ok();
    rustix::process::setsid().ok();
    // The parent may have died before the death signal was set.
    if rustix::process::getppid() != Some(parent) {
        return "gtop: the parent process has exited".to_owned();
    }
    let error = Command::new(&program).args(args).as_std_mut().exec();
    format!("gtop: cannot start {}: {}", program.to_string_lossy(), fault::io_error_text(&error))
}

impl ParentGuard<'_> {
    fn start(self, program: &OsStr, args: &[OsString]) -> std::io::Result<ProcessGroup> {
        self.start_without_env(program, args, |_| false)
    }

    /// Starts a program without the environment variables that `without` selects.
    fn start_without_env(
        self,
        program: &OsStr,
        args: &[OsString],
        without: fn(&str) -> bool,
    ) -> std::io::Result<ProcessGroup> {
        let mut command = Command::new(self.0.map_or(program, Path::as_os_str));
        if self.0.is_some() {
            command.arg(PARENT_GUARD).arg(std::process::id().to_string()).arg(program);
        }
        command.args(args).stdin(Stdio::piped());
        // Messages are parsed, so in English; no askpass window is opened.
        command.env("LC_ALL", "C").env("SSH_ASKPASS_REQUIRE", "never");
        for (name, _) in std::env::vars_os() {
            if without(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        if self.0.is_some() {
            ProcessGroup::start_guarded(command)
        } else {
            ProcessGroup::start(command)
        }
    }
}

/// The output of a program that has exited.
#[derive(Debug)]
pub(crate) struct Completed {
    pub(crate) succeeded: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a program to its end, with an empty stdin.
///
/// Output beyond the bound is not read, and the program is killed.
pub(crate) async fn run_to_completion(
    program: &Path,
    args: Vec<OsString>,
) -> std::io::Result<Completed> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    let mut group = ProcessGroup::start(command)?;
    let (_, stdout, stderr) = group.take_pipes();
    let (stdout, stderr) = tokio::join!(read_all(stdout), read_all(stderr));
    Ok(Completed { stdout: stdout?, stderr: stderr?, succeeded: group.wait().await?.success() })
}

async fn read_all(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<String> {
    let Some(pipe) = pipe else { return Ok(String::new()) };
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_OUTPUT).unwrap_or(u64::MAX);
    pipe.take(limit).read_to_end(&mut bytes).await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A command running on this machine.
#[derive(Debug)]
pub(crate) struct LocalProcess {
    group: ProcessGroup,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    stdout_buffer: Vec<u8>,
    stderr_buffer: Vec<u8>,
    is_over: bool,
}

impl LocalProcess {
    /// Starts `command_line` under `/bin/sh`.
    pub(crate) fn start(command_line: &str) -> Result<Self, Fault> {
        const SHELL: &str = "/bin/sh";
        let mut command = Command::new(SHELL);
        command.arg("-c").arg(command_line).stdin(Stdio::piped());
        let group = ProcessGroup::start(command);
        group.map(Self::from_group).map_err(|error| not_started(OsStr::new(SHELL), &error))
    }

    /// Starts a program that exits with gtop.
    pub(crate) fn run(
        program: &Path,
        args: &[OsString],
        parent_guard: ParentGuard<'_>,
    ) -> Result<Self, Fault> {
        let group = parent_guard.start(program.as_os_str(), args);
        group.map(Self::from_group).map_err(|error| not_started(program.as_os_str(), &error))
    }

    /// Starts a program that exits with gtop, without the environment variables that `without` selects.
    pub(crate) fn spawn_without_env(
        program: &Path,
        args: &[OsString],
        parent_guard: ParentGuard<'_>,
        without: fn(&str) -> bool,
    ) -> Result<Self, Fault> {
        let group = parent_guard.start_without_env(program.as_os_str(), args, without);
        group.map(Self::from_group).map_err(|error| not_started(program.as_os_str(), &error))
    }

    /// Takes the program's stdin; dropping it closes it.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Sends SIGTERM to the process group.
    pub(crate) fn terminate(&self) {
        self.group.signal(Signal::TERM);
    }

    fn from_group(mut group: ProcessGroup) -> Self {
        let (stdin, stdout, stderr) = group.take_pipes();
        Self {
            stdin,
            stdout,
            stderr,
            group,
            stdout_buffer: Vec::new(),
            stderr_buffer: Vec::new(),
            is_over: false,
        }
    }

    /// Waits for the next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Output {
        loop {
            if self.is_over {
                return Output::Closed(None);
            }
            if self.stdout.is_none() && self.stderr.is_none() {
                let status = self.group.wait().await;
                self.is_over = true;
                return match status {
                    Ok(status) => Output::Exit(exit_from_status(status)),
                    Err(error) => {
                        let fault = Fault::SessionLost { why: fault::io_error_text(&error) };
                        Output::Closed(Some(Box::new(fault)))
                    }
                };
            }
            tokio::select! {
                count = read_chunk(&mut self.stdout, &mut self.stdout_buffer) => {
                    if count == 0 {
                        self.stdout = None;
                    } else {
                        return Output::Stdout(std::mem::take(&mut self.stdout_buffer));
                    }
                }
                count = read_chunk(&mut self.stderr, &mut self.stderr_buffer) => {
                    if count == 0 {
                        self.stderr = None;
                    } else {
                        return Output::Stderr(std::mem::take(&mut self.stderr_buffer));
                    }
                }
            }
        }
    }

    /// Writes all of `bytes` to the program's stdin.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let lost = |why: String| Fault::SessionLost { why };
        let Some(stdin) = &mut self.stdin else { return Err(lost("stdin is closed".to_owned())) };
        stdin.write_all(bytes).await.map_err(|error| lost(fault::io_error_text(&error)))
    }

    /// Closes the program's stdin.
    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes stdin, waits up to two seconds for the program to exit, then kills it.
    pub(crate) async fn shutdown(mut self) {
        self.close_stdin();
        let drained = async { while !matches!(self.next().await, Output::Closed(_)) {} };
        timeout(SHUTDOWN_TIMEOUT, drained).await.ok();
    }
}

fn not_started(program: &OsStr, error: &std::io::Error) -> Fault {
    Fault::ProgramNotFound {
        program: program.to_string_lossy().into_owned(),
        why: fault::io_error_text(error),
    }
}

/// A program whose stdin and stdout are a connection to a host.
#[derive(Debug)]
pub(crate) struct PipedProgram {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
    pub(crate) group: ProcessGroup,
}

impl PipedProgram {
    /// Starts `line` as ssh starts a `ProxyCommand`: with `exec` in the user's shell.
    pub(crate) fn start(line: &str, parent_guard: ParentGuard<'_>) -> Result<Self, Fault> {
        let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
        let shell = shell.unwrap_or_else(|| "/bin/sh".into());
        Self::run(&shell, &["-c".into(), format!("exec {line}").into()], parent_guard)
    }

    /// Starts a program directly.
    pub(crate) fn run(
        program: &OsStr,
        args: &[OsString],
        parent_guard: ParentGuard<'_>,
    ) -> Result<Self, Fault> {
        let mut group =
            parent_guard.start(program, args).map_err(|error| not_started(program, &error))?;
        match group.take_pipes() {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok(Self { stdin, stdout, stderr, group }),
            (..) => Err(not_started(program, &std::io::ErrorKind::BrokenPipe.into())),
        }
    }
}

/// Reads a chunk; 0 is the end. Never returns for a closed pipe.
async fn read_chunk(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut Vec<u8>) -> usize {
    let Some(pipe) = pipe else { return std::future::pending().await };
    buffer.reserve(READ_SIZE);
    let limit = u64::try_from(READ_SIZE).unwrap_or(u64::MAX);
    // A read error counts as the end.
    pipe.take(limit).read_buf(buffer).await.unwrap_or(0)
}

fn exit_from_status(status: ExitStatus) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    match status.signal() {
        Some(number) => Exit::Signal(signal_name(number)),
        None => Exit::Status(status.code().and_then(|code| u32::try_from(code).ok()).unwrap_or(1)),
    }
}

/// Returns the signal name as SSH reports it.
fn signal_name(number: i32) -> String {
    const NAMES: [(Signal, &str); 10] = [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::ILL, "ILL"),
        (Signal::ABORT, "ABRT"),
        (Signal::KILL, "KILL"),
        (Signal::SEGV, "SEGV"),
        (Signal::PIPE, "PIPE"),
        (Signal::ALARM, "ALRM"),
        (Signal::TERM, "TERM"),
    ];
    let known = NAMES.iter().find(|(signal, _)| signal.as_raw() == number);
    known.map_or_else(|| number.to_string(), |(_, name)| (*name).to_owned())
}
