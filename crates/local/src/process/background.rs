//! A program that goes to the background by itself once it is ready, as `ssh -f` does.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::time::timeout;

use crate::process::{
    Launch, NotStarted, Output, ProcessGroup, READ_SIZE, exit_from_status, read_chunk,
};

/// Timeout for reading what a program has written before it failed.
const STDERR_TIMEOUT: Duration = Duration::from_secs(2);

/// A program that is to go to the background. Until then, dropping it kills it; afterwards it outlives gtop.
#[derive(Debug)]
pub struct BackgroundProgram {
    group: ProcessGroup,
    stderr: Option<ChildStderr>,
    stderr_buffer: Vec<u8>,
    exit: Option<Output>,
}

impl BackgroundProgram {
    /// Starts a program.
    pub fn launch(launch: Launch<'_>) -> Result<Self, NotStarted> {
        let mut group = launch.start()?;
        let (_stdin, _stdout, stderr) = group.take_pipes();
        Ok(Self { group, stderr, stderr_buffer: Vec::new(), exit: None })
    }

    /// Waits for the next event; the last one is the exit. Exit status 0 means that the program is in the background.
    /// Cancel-safe.
    ///
    /// What was written to stderr before another event of gtop is returned before it is noticed: stderr is read first.
    pub async fn next(&mut self) -> std::io::Result<Output> {
        if let Some(exit) = self.exit.take() {
            return Ok(exit);
        }
        loop {
            let status = tokio::select! {
                biased;
                count = read_chunk(&mut self.stderr, &mut self.stderr_buffer) => {
                    if count == 0 {
                        self.stderr = None;
                        continue;
                    }
                    return Ok(Output::Stderr(std::mem::take(&mut self.stderr_buffer)));
                }
                status = self.group.wait_for_background() => status?,
            };
            let exit = Output::Exit(exit_from_status(status));
            // In the background, the program may keep stderr open.
            if status.success() {
                return Ok(exit);
            }
            let rest = self.read_rest().await;
            if rest.is_empty() {
                return Ok(exit);
            }
            self.exit = Some(exit);
            return Ok(Output::Stderr(rest));
        }
    }

    /// Reads the rest of stderr after the program has failed and its group was killed.
    async fn read_rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        if let Some(stderr) = self.stderr.take() {
            let mut stderr = stderr.take(READ_SIZE as u64);
            // What was read until the timeout is kept.
            timeout(STDERR_TIMEOUT, stderr.read_to_end(&mut rest)).await.ok();
        }
        rest
    }
}
