//! Local processes: commands on the local node, `ssh -G`, and the programs that connect to nodes.
//!
//! The only place that starts programs. Each child has its own process group. The group is killed when its owner
//! is dropped, when its leader exits, and at the latest when gtop exits.

pub mod account;

mod background;
mod output;
mod question;
mod run;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group, waitid,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

pub use crate::process::output::{Exit, Output};
pub use crate::process::run::{
    ProgramCall, ProgramError, ProgramOutput, run_program, stream_program,
};

pub use crate::process::question::run_askpass;

use crate::lock::lock;
pub use crate::process::background::BackgroundProgram;
pub use crate::process::output::OutputTail;
use crate::text;

const SHELL: &str = "/bin/sh";

/// Bytes read from a pipe at once.
const READ_SIZE: usize = 16 * 1024;

/// Timeout for a program to exit after its stdin was closed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// How often gtop polls at its exit for terminated programs, every 10 ms.
const EXIT_POLLS: u32 = 25;

/// The leaders of process groups that were not reaped yet: until then their pids cannot be reused.
static GROUP_LEADERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn group_leaders() -> MutexGuard<'static, Vec<Pid>> {
    lock(&GROUP_LEADERS)
}

/// Terminates every running program with its process group, stopped ones too.
///
/// At exit some programs may not have ended yet, and a stopped program reacts neither to the end of its input nor
/// to a signal.
pub fn terminate_programs() {
    for leader in group_leaders().iter() {
        signal_group(*leader, Signal::TERM);
        signal_group(*leader, Signal::CONT);
    }
    for _ in 0..EXIT_POLLS {
        if group_leaders().iter().all(|leader| !matches!(exit_of(*leader), Ok(None))) {
            break;
        }
        #[expect(clippy::disallowed_methods, reason = "no runtime is left to wait in")]
        thread::sleep(Duration::from_millis(10));
    }
    for leader in group_leaders().iter() {
        signal_group(*leader, Signal::KILL);
    }
}

/// Sends a signal to the process group of a child that was not reaped yet.
fn signal_group(leader: Pid, signal: Signal) {
    if kill_process_group(leader, signal).is_err() {
        // The group may not exist yet, or may be gone already.
        kill_process(leader, signal).ok();
    }
}

/// Returns how a child has exited, without reaping it; `None` while it runs.
fn exit_of(leader: Pid) -> rustix::io::Result<Option<WaitIdStatus>> {
    let flags = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(leader), flags)
}

/// A child; dropping it kills its process group.
#[derive(Debug)]
pub struct ProcessGroup {
    child: Child,
    /// Its pid, until it is reaped.
    leader: Option<Pid>,
}

impl ProcessGroup {
    fn start(mut command: Command) -> std::io::Result<Self> {
        command.process_group(0);
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> std::io::Result<Self> {
        command.kill_on_drop(true).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Held so that `terminate_programs` cannot miss a child that is being started.
        let mut leaders = group_leaders();
        let child = command.spawn()?;
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let leader = leader.filter(|leader| !leader.is_init());
        leaders.extend(leader);
        Ok(Self { child, leader })
    }

    /// Waits until the child exits, and kills the rest of its group.
    pub(crate) async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.exit_of_leader().await?;
        self.kill_and_forget();
        self.child.wait().await
    }

    /// Waits until the child exits. If it has succeeded, what it has left running goes on; otherwise the rest of its
    /// group is killed. Cancel-safe.
    async fn wait_for_background(&mut self) -> std::io::Result<ExitStatus> {
        if self.exit_of_leader().await? == Some(0) {
            self.forget();
        } else {
            self.kill_and_forget();
        }
        self.child.wait().await
    }

    /// Waits until the child exits, without reaping it. Returns its exit status; `None` if a signal has killed it.
    async fn exit_of_leader(&self) -> std::io::Result<Option<i32>> {
        let Some(leader) = self.leader else { return Ok(None) };
        // Subscribed before the check, so that no exit is missed.
        let mut ended = signal(SignalKind::child())?;
        loop {
            match exit_of(leader) {
                Ok(None) => ended.recv().await,
                exit => return Ok(exit.ok().flatten().and_then(|exit| exit.exit_status())),
            };
        }
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
        self.forget();
    }

    /// Sends the process group no more signals.
    fn forget(&mut self) {
        if let Some(leader) = self.leader.take() {
            group_leaders().retain(|known| *known != leader);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill_and_forget();
    }
}

/// The first argument that makes gtop a parent guard; the parent's pid and the program with its arguments follow.
pub const PARENT_GUARD: &str = "__parent-guard";

/// Starts the message of a guard that cannot execute the program.
const NOT_STARTED: &str = "gtop: cannot start ";

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
    format!("{NOT_STARTED}{}: {}", program.to_string_lossy(), text::io_error(&error))
}

/// Replaces gtop by a program with these arguments and additional variables, after which signals and the exit status
/// are those of the program. Returns only on failure.
///
/// A program that is not named by a path is looked up in `PATH`. Signals have their default action again, except those
/// that were ignored when gtop was started, as by `nohup`.
pub fn replace_by(program: &OsStr, args: &[OsString], env: &[(&str, String)]) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    let ignored = IGNORED_SIGNALS.get().map_or(&[][..], Vec::as_slice);
    let mut command = Command::new(if ignored.is_empty() { program } else { OsStr::new(SHELL) });
    if !ignored.is_empty() {
        let script = format!("trap '' {}; exec \"$0\" \"$@\"", ignored.join(" "));
        command.arg("-c").arg(script).arg(program);
    }
    command.args(args).envs(env.iter().map(|(name, value)| (*name, value)));
    command.as_std_mut().exec()
}

/// The signals that gtop handles and that were ignored when it was started.
static IGNORED_SIGNALS: OnceLock<Vec<&'static str>> = OnceLock::new();

/// Remembers which signals are ignored, before gtop handles them.
pub fn remember_ignored_signals() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    let handled = [
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::TERM, "TERM"),
    ];
    let ignored = handled.into_iter().filter(|(signal, _)| mask >> (signal.as_raw() - 1) & 1 == 1);
    IGNORED_SIGNALS.get_or_init(|| ignored.map(|(_, name)| name).collect());
}

/// Returns true if a signal, named without `SIG`, was ignored when gtop was started.
pub fn was_ignored(name: &str) -> bool {
    IGNORED_SIGNALS.get().is_some_and(|ignored| ignored.contains(&name))
}

/// A program that connects to hosts and exits with gtop.
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    pub program: &'a Path,
    pub args: &'a [OsString],
    /// The gtop that keeps it from outliving this process, and from prompting at the terminal.
    ///
    /// The child first executes that gtop, which asks the kernel for a signal when its parent dies, detaches from the
    /// terminal, and then executes the program. Without a gtop executable the program only has its own process group,
    /// and sees the end of its input.
    pub parent_guard: Option<&'a Path>,
    /// Selects environment variables to hide from it.
    pub hides: fn(&str) -> bool,
    /// Environment variables to set.
    pub env: &'a [(&'static str, OsString)],
}

impl Launch<'_> {
    fn start(self) -> Result<ProcessGroup, NotStarted> {
        let Self { program, args, parent_guard: guard, hides, env } = self;
        let mut command = Command::new(guard.unwrap_or(program));
        if guard.is_some() {
            command.arg(PARENT_GUARD).arg(std::process::id().to_string()).arg(program);
        }
        command.args(args).stdin(Stdio::piped());
        // Messages are parsed, so in English; no askpass window is opened.
        command.env("LC_ALL", "C").env("SSH_ASKPASS_REQUIRE", "never");
        hide_variables(&mut command, hides);
        command.envs(env.iter().map(|(name, value)| (name, value)));
        // The parent guard gives it its own session.
        let spawn = if guard.is_some() { ProcessGroup::spawn } else { ProcessGroup::start };
        spawn(command).map_err(|error| NotStarted::new(program.as_os_str(), &error))
    }
}

fn hide_variables(command: &mut Command, hides: fn(&str) -> bool) {
    for (name, _) in std::env::vars_os().filter(|(name, _)| hides(&name.to_string_lossy())) {
        command.env_remove(name);
    }
}

/// A program that cannot be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot start {program} ({why}); check that it is installed")]
pub struct NotStarted {
    /// The program.
    pub program: String,
    /// The system's error.
    pub why: String,
}

impl NotStarted {
    fn new(program: &OsStr, error: &std::io::Error) -> Self {
        Self { program: program.to_string_lossy().into_owned(), why: text::io_error(error) }
    }

    /// Finds the message of a parent guard that could not execute its program.
    pub fn from_stderr(stderr: &str) -> Option<Self> {
        let line = stderr.lines().find_map(|line| line.strip_prefix(NOT_STARTED))?;
        let (program, why) = line.rsplit_once(": ").unwrap_or((line, ""));
        Some(Self { program: text::excerpt_line(program), why: text::excerpt_line(why) })
    }
}

/// A command running on this machine.
#[derive(Debug)]
pub struct LocalProcess {
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
    pub fn start(command_line: &str) -> Result<Self, NotStarted> {
        let mut command = Command::new(SHELL);
        command.arg("-c").arg(command_line).stdin(Stdio::piped());
        let group = ProcessGroup::start(command);
        group.map(Self::from_group).map_err(|error| NotStarted::new(OsStr::new(SHELL), &error))
    }

    /// Starts a program that exits with gtop.
    pub fn launch(launch: Launch<'_>) -> Result<Self, NotStarted> {
        launch.start().map(Self::from_group)
    }

    /// Takes the program's stdin; dropping it closes it.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Sends SIGTERM to the process group.
    pub fn terminate(&self) {
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
    ///
    /// After the exit it returns `Err(None)`.
    pub async fn next(&mut self) -> Result<Output, Option<std::io::Error>> {
        loop {
            if self.is_over {
                return Err(None);
            }
            if self.stdout.is_none() && self.stderr.is_none() {
                let status = self.group.wait().await;
                self.is_over = true;
                return status.map(|status| Output::Exit(exit_from_status(status))).map_err(Some);
            }
            tokio::select! {
                count = read_chunk(&mut self.stdout, &mut self.stdout_buffer) => {
                    if count == 0 {
                        self.stdout = None;
                    } else {
                        return Ok(Output::Stdout(std::mem::take(&mut self.stdout_buffer)));
                    }
                }
                count = read_chunk(&mut self.stderr, &mut self.stderr_buffer) => {
                    if count == 0 {
                        self.stderr = None;
                    } else {
                        return Ok(Output::Stderr(std::mem::take(&mut self.stderr_buffer)));
                    }
                }
            }
        }
    }

    /// Writes all of `bytes` to the program's stdin.
    pub async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let Some(stdin) = &mut self.stdin else {
            return Err(std::io::Error::other("stdin is closed"));
        };
        stdin.write_all(bytes).await
    }

    /// Closes the program's stdin.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Closes stdin, waits up to two seconds for the program to exit, then kills it.
    pub async fn shutdown(mut self) {
        self.close_stdin();
        let drained = async { while self.next().await.is_ok() {} };
        timeout(SHUTDOWN_TIMEOUT, drained).await.ok();
    }
}

/// A running program whose stdin and stdout are a connection to a host.
#[derive(Debug)]
pub struct PipedProgram {
    pub stdin: ChildStdin,
    pub stdout: ChildStdout,
    pub stderr: ChildStderr,
    pub group: ProcessGroup,
}

impl PipedProgram {
    pub fn launch(launch: Launch<'_>) -> Result<Self, NotStarted> {
        let mut group = launch.start()?;
        match group.take_pipes() {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok(Self { stdin, stdout, stderr, group }),
            (..) => Err(NotStarted::new(
                launch.program.as_os_str(),
                &std::io::ErrorKind::BrokenPipe.into(),
            )),
        }
    }
}

/// Reads a chunk; 0 is the end. Never returns for a closed pipe.
async fn read_chunk(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut Vec<u8>) -> usize {
    let Some(pipe) = pipe else { return std::future::pending().await };
    buffer.reserve(READ_SIZE);
    // A read error counts as the end.
    pipe.take(READ_SIZE as u64).read_buf(buffer).await.unwrap_or(0)
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
