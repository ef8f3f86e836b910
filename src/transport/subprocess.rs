//! Runs a local program to its end, with a timeout and a bound on its output.

use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::time::{Instant, timeout};

use crate::transport::fault;
use crate::transport::process::ProcessGroup;

/// Most bytes of stderr that are kept.
const MAX_STDERR: usize = 64 * 1024;

/// A program to run.
#[derive(Debug, Clone, Copy)]
pub struct ProgramCall<'a> {
    /// The program, looked up in PATH.
    pub program: &'a str,
    pub words: &'a [OsString],
    /// Written to its stdin.
    pub input: &'a str,
    /// Environment variables to set.
    pub environment: &'a [(&'a str, &'a str)],
    /// Prefix of environment variables to remove; empty for none.
    pub without: &'a str,
    pub limit: Duration,
    /// Most bytes of stdout; the program is killed when it prints more.
    pub most: usize,
}

/// What the program printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramOutput {
    /// It exited with status 0, or was killed because it printed too much.
    pub succeeded: bool,
    pub output: String,
    pub complaint: String,
    /// It printed more than `max_stdout` bytes.
    pub is_cut: bool,
    pub took: Duration,
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

/// Runs a program with `LC_ALL=C` to its end. Kills its process group on timeout, or when the future is dropped.
pub async fn run_program(asked: ProgramCall<'_>) -> Result<ProgramOutput, ProgramError> {
    let began = Instant::now();
    let mut command = Command::new(asked.program);
    command.args(asked.words).stdin(Stdio::piped()).env("LC_ALL", "C");
    for (name, _) in std::env::vars_os() {
        if !asked.without.is_empty() && name.to_string_lossy().starts_with(asked.without) {
            command.env_remove(name);
        }
    }
    command.envs(asked.environment.iter().copied());
    let mut group = ProcessGroup::start(command).map_err(|error| {
        let is_missing = error.kind() == io::ErrorKind::NotFound;
        if is_missing {
            ProgramError::NotFound
        } else {
            ProgramError::NotStarted(fault::io_error_text(&error))
        }
    })?;
    let mut complaint = Vec::new();
    let answered = timeout(asked.limit, group.converse(asked, &mut complaint)).await;
    // Kills its children too.
    drop(group);
    let complaint = String::from_utf8_lossy(&complaint).into_owned();
    let Ok((succeeded, output)) = answered else { return Err(ProgramError::TimedOut(complaint)) };
    let is_cut = output.len() > asked.most;
    let output = output.get(..asked.most).unwrap_or(&output);
    let output = String::from_utf8_lossy(output).into_owned();
    Ok(ProgramOutput { succeeded, output, complaint, is_cut, took: began.elapsed() })
}

impl ProcessGroup {
    async fn converse(
        &mut self,
        asked: ProgramCall<'_>,
        complaint: &mut Vec<u8>,
    ) -> (bool, Vec<u8>) {
        let (input, output, errors) = self.take_pipes();
        let mut printed = Vec::new();
        let writing = async {
            if let Some(mut input) = input {
                // A program may exit without reading its stdin.
                input.write_all(asked.input.as_bytes()).await.ok();
            }
        };
        let reading = async {
            take(output, asked.most.saturating_add(1), &mut printed).await;
            if printed.len() > asked.most {
                self.kill();
            }
        };
        tokio::join!(writing, reading, hear(errors, complaint));
        let is_cut = printed.len() > asked.most;
        let ended = self.wait().await;
        (is_cut || ended.is_ok_and(|status| status.success()), printed)
    }
}

/// Keeps reading beyond the bound: a full pipe would block the program.
async fn hear(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    take(Some(&mut pipe), MAX_STDERR, into).await;
    // The result does not matter; the bytes are discarded.
    tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await.ok();
}

async fn take(pipe: Option<impl AsyncRead + Unpin>, most: usize, into: &mut Vec<u8>) {
    let Some(pipe) = pipe else { return };
    // What was read before an error is kept.
    pipe.take(most as u64).read_to_end(into).await.ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shell(line: &str, most: usize, limit: u64) -> Result<ProgramOutput, ProgramError> {
        let words = ["-c".into(), line.into()];
        let limit = Duration::from_millis(limit);
        let environment = &[("GTOP_SET", "yes")];
        let asked = ProgramCall {
            program: "sh",
            words: &words,
            input: "to read\n",
            environment,
            without: "GTOP_UNSET",
            limit,
            most,
        };
        run_program(asked).await
    }

    #[tokio::test]
    async fn a_program_reads_prints_complains_and_ends() {
        let line = "read -r a; echo \"$a $GTOP_SET $LC_ALL\"; echo bad >&2; exit 3";
        let answer = shell(line, 100, 60_000).await.unwrap();
        assert_eq!(
            (answer.output.as_str(), answer.complaint.as_str()),
            ("to read yes C\n", "bad\n")
        );
        assert!(!answer.succeeded && !answer.is_cut);
        assert!(shell("true", 100, 60_000).await.unwrap().succeeded);
    }

    #[tokio::test]
    async fn endless_output_is_cut_and_its_program_ended() {
        let answer = shell("yes; sleep 1000", 4096, 60_000).await.unwrap();
        assert!(answer.is_cut && answer.succeeded);
        assert_eq!(answer.output.len(), 4096);
    }

    #[tokio::test]
    async fn a_program_that_takes_too_long_is_ended_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let line = format!("echo waiting >&2; sleep 1000 & echo $! >{}; wait", file.display());
        let fault = shell(&line, 100, 300).await.unwrap_err();
        assert_eq!(fault, ProgramError::TimedOut("waiting\n".to_owned()));
        let pid = std::fs::read_to_string(&file).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).ok();
        while state().is_some_and(|stat| !stat.contains(") Z ")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_missing() {
        let asked = ProgramCall {
            program: "gtop-no-such-program",
            words: &[],
            input: "",
            environment: &[],
            without: "",
            limit: Duration::from_secs(60),
            most: 100,
        };
        assert_eq!(run_program(asked).await, Err(ProgramError::NotFound));
    }
}
