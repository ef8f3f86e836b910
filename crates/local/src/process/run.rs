//! Runs a local program to its end, with a timeout and a bound on its output.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use crate::process::{ProcessGroup, hide_variables};
use crate::text;

/// Most bytes of stderr that are kept.
const MAX_STDERR: usize = 64 * 1024;
/// Bytes of stdout that are read at once: as many as a pipe holds.
const CHUNK_SIZE: usize = 64 * 1024;

/// A program to run.
#[derive(Debug, Clone, Copy)]
pub struct ProgramCall<'a> {
    /// The program, looked up in PATH.
    pub program: &'a Path,
    pub args: &'a [OsString],
    /// Written to its stdin.
    pub input: &'a str,
    /// Environment variables to set.
    pub env: &'a [(&'a str, &'a str)],
    /// Selects environment variables to hide from it.
    pub hides: fn(&str) -> bool,
    pub timeout: Duration,
    /// Most bytes of stdout; the program is killed when it prints more.
    pub max_stdout: usize,
}

/// What the program printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramOutput {
    /// It exited with status 0, or was killed because it printed too much.
    pub succeeded: bool,
    pub stdout: String,
    pub stderr: String,
    /// It printed more than `max_stdout` bytes.
    pub is_truncated: bool,
    pub elapsed: Duration,
}

/// Why a program gave no output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramError {
    NotFound,
    /// It cannot be started, for this reason.
    NotStarted(String),
    /// It ran into the timeout; holds its stderr so far.
    TimedOut(String),
}

/// Runs a program to its end. Kills its process group on timeout, or when the future is dropped.
pub async fn run_program(call: ProgramCall<'_>) -> Result<ProgramOutput, ProgramError> {
    let mut stdout = Vec::new();
    let ended = stream_program(call, &mut |bytes| stdout.extend_from_slice(bytes)).await?;
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    Ok(ProgramOutput { stdout, ..ended })
}

/// Runs a program to its end and passes its stdout on while it is read, so that what it printed before a timeout is
/// not lost. The output that is returned has none. Kills its process group as [`run_program`] does.
pub async fn stream_program(
    call: ProgramCall<'_>,
    on_stdout: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<ProgramOutput, ProgramError> {
    let began = Instant::now();
    let mut command = Command::new(call.program);
    command.args(call.args).stdin(Stdio::piped());
    hide_variables(&mut command, call.hides);
    command.envs(call.env.iter().copied());
    let mut group = ProcessGroup::start(command).map_err(|error| {
        if error.kind() == io::ErrorKind::NotFound {
            return ProgramError::NotFound;
        }
        ProgramError::NotStarted(text::io_error(&error))
    })?;
    let mut stderr = Vec::new();
    let result = timeout(call.timeout, group.run(call, on_stdout, &mut stderr)).await;
    // Kills its children too.
    drop(group);
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    let Ok((succeeded, is_truncated)) = result else { return Err(ProgramError::TimedOut(stderr)) };
    let elapsed = began.elapsed();
    Ok(ProgramOutput { succeeded, stdout: String::new(), stderr, is_truncated, elapsed })
}

impl ProcessGroup {
    /// Returns whether it succeeded, and whether it printed more than the bound.
    async fn run(
        &mut self,
        call: ProgramCall<'_>,
        on_stdout: &mut (dyn FnMut(&[u8]) + Send),
        stderr: &mut Vec<u8>,
    ) -> (bool, bool) {
        let (stdin, stdout_pipe, stderr_pipe) = self.take_pipes();
        let mut is_truncated = false;
        let writing = async {
            if let Some(mut stdin) = stdin {
                // A program may exit without reading its stdin.
                stdin.write_all(call.input.as_bytes()).await.ok();
            }
        };
        let reading = async {
            is_truncated = pass_on(stdout_pipe, call.max_stdout, on_stdout).await;
            if is_truncated {
                self.kill();
            }
        };
        tokio::join!(writing, reading, read_stderr(stderr_pipe, stderr));
        let ended = self.wait().await;
        (is_truncated || ended.is_ok_and(|status| status.success()), is_truncated)
    }
}

/// Passes on at most `max` bytes; returns true if there were more.
async fn pass_on(
    pipe: Option<impl AsyncRead + Unpin>,
    max: usize,
    on_bytes: &mut (dyn FnMut(&[u8]) + Send),
) -> bool {
    let Some(mut pipe) = pipe else { return false };
    let (mut room, mut buffer) = (max, vec![0; CHUNK_SIZE]);
    // What was read before an error is kept.
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        let bytes = buffer.get(..count).unwrap_or(&buffer);
        let kept = bytes.get(..room).unwrap_or(bytes);
        on_bytes(kept);
        room = room.saturating_sub(kept.len());
        if kept.len() < count {
            return true;
        }
    }
    false
}

/// Keeps reading beyond the bound: a full pipe would block the program.
async fn read_stderr(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    // What was read before an error is kept.
    (&mut pipe).take(MAX_STDERR as u64).read_to_end(into).await.ok();
    tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shell(line: &str, max: usize, limit: u64) -> Result<ProgramOutput, ProgramError> {
        let args = ["-c".into(), line.into()];
        let limit = Duration::from_millis(limit);
        let environment = &[("GTOP_SET", "yes"), ("LC_ALL", "C")];
        let call = ProgramCall {
            program: Path::new("sh"),
            args: &args,
            input: "to read\n",
            env: environment,
            hides: |name| name.starts_with("GTOP_UNSET"),
            timeout: limit,
            max_stdout: max,
        };
        run_program(call).await
    }

    #[tokio::test]
    async fn a_program_gets_stdin_and_returns_both_outputs_and_its_status() {
        let line = "read -r a; echo \"$a $GTOP_SET $LC_ALL\"; echo bad >&2; exit 3";
        let answer = shell(line, 100, 60_000).await.unwrap();
        assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("to read yes C\n", "bad\n"));
        assert!(!answer.succeeded && !answer.is_truncated);
        assert!(shell("true", 100, 60_000).await.unwrap().succeeded);
    }

    #[tokio::test]
    async fn endless_output_is_truncated_and_the_program_killed() {
        let answer = shell("yes; sleep 1000", 4096, 60_000).await.unwrap();
        assert!(answer.is_truncated && answer.succeeded);
        assert_eq!(answer.stdout.len(), 4096);
    }

    #[tokio::test]
    async fn a_program_that_times_out_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let line = format!("echo waiting >&2; sleep 1000 & echo $! >{}; wait", file.display());
        let fault = shell(&line, 100, 3000).await.unwrap_err();
        assert_eq!(fault, ProgramError::TimedOut("waiting\n".to_owned()));
        let pid = std::fs::read_to_string(&file).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok();
        while state().is_some_and(|stat| !stat.contains(") Z ")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn output_before_a_timeout_is_passed_on() {
        let args = ["-c".into(), "echo early; exec sleep 1000".into()];
        let call = ProgramCall {
            program: Path::new("sh"),
            args: &args,
            input: "",
            env: &[],
            hides: |_| false,
            timeout: Duration::from_millis(300),
            max_stdout: 100,
        };
        let mut stdout = Vec::new();
        let result = stream_program(call, &mut |bytes| stdout.extend_from_slice(bytes)).await;
        assert_eq!(result, Err(ProgramError::TimedOut(String::new())));
        assert_eq!(stdout, b"early\n");
    }

    #[tokio::test]
    async fn a_missing_program_is_an_error() {
        let call = ProgramCall {
            program: Path::new("gtop-no-such-program"),
            args: &[],
            input: "",
            env: &[],
            hides: |_| false,
            timeout: Duration::from_secs(60),
            max_stdout: 100,
        };
        assert_eq!(run_program(call).await, Err(ProgramError::NotFound));
    }
}
