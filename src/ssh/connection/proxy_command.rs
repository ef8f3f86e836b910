//! A connection through the stdin and stdout of a `ProxyCommand`.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::ssh::connection::{Attributed, Underlay};
use crate::ssh::fault::{self, ConnectPhase, Fault};
use crate::ssh::file_cache::lock;
use crate::ssh::process::{ParentGuard, PipedProgram, ProcessGroup};
use crate::ssh::program::stderr;

/// Most bytes of stderr that are kept, the last ones.
const MAX_STDERR: usize = 2048;

/// How long the stderr of a program that has exited may take to arrive.
const STDERR_GRACE: Duration = Duration::from_millis(300);

/// A running command as a stream. Dropping it kills the command.
pub(crate) struct ProxyCommandStream {
    stdin: ChildStdin,
    stdout: ChildStdout,
    _group: ProcessGroup,
}

/// The stderr of a program.
#[derive(Debug)]
pub(crate) struct ProgramStderr {
    /// The command line that was run.
    pub(crate) command: String,
    buffer: Arc<StderrBuffer>,
    _reading: JoinSet<()>,
}

#[derive(Debug)]
struct StderrBuffer {
    bytes: Mutex<VecDeque<u8>>,
    is_over: watch::Sender<bool>,
}

impl ProgramStderr {
    /// Returns the last line of stderr; of an ssh without a version line, the line that says so.
    pub(crate) async fn last_line(&self) -> Option<String> {
        // A program that still runs may never print anything.
        timeout(STDERR_GRACE, self.buffer.is_over.subscribe().wait_for(|is_over| *is_over))
            .await
            .ok();
        let bytes: Vec<u8> = lock(&self.buffer.bytes).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let banner_error = text.lines().find(|line| stderr::parse_no_banner(line).is_some());
        let mut lines =
            banner_error.into_iter().chain(text.lines().rev()).map(fault::sanitize_line);
        lines.find(|line| !line.is_empty())
    }
}

impl Underlay for ProgramStderr {
    fn attribute(&self, fault: Fault) -> Attributed<'_> {
        Box::pin(async move {
            let line = self.last_line().await;
            let failed = |why: String| Fault::ProxyCommandFailed {
                command: self.command.clone(),
                is_closed: stderr::parse_no_banner(&why).is_some_and(|(_, is_closed)| is_closed),
                why,
            };
            match (fault, line) {
                // The connection had worked, so its stderr may be about anything.
                (Fault::SessionLost { why }, Some(line)) => {
                    Fault::SessionLost { why: format!("{why}; ProxyCommand says: {line}") }
                }
                (_, Some(line)) => failed(line),
                (fault, None) if is_before_banner(&fault) => {
                    failed("it sends no SSH banner".to_owned())
                }
                (fault, None) => fault,
            }
        })
    }
}

fn is_before_banner(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::NoBanner { .. } | Fault::TimedOut { phase: ConnectPhase::BannerExchange, .. }
    )
}

impl StderrBuffer {
    async fn read_from(&self, mut stderr_pipe: ChildStderr) {
        let mut chunk = [0; 512];
        while let Ok(count @ 1..) = stderr_pipe.read(&mut chunk).await {
            let mut bytes = lock(&self.bytes);
            bytes.extend(chunk.iter().take(count));
            let surplus = bytes.len().saturating_sub(MAX_STDERR);
            bytes.drain(..surplus);
        }
        self.is_over.send_replace(true);
    }
}

/// Starts a command; returns its stream and its stderr.
pub(crate) fn start(
    command: &str,
    parent_guard: ParentGuard<'_>,
) -> Result<(ProxyCommandStream, Arc<ProgramStderr>), Fault> {
    Ok(split_stream(PipedProgram::start(command, parent_guard)?, fault::sanitize_line(command)))
}

/// Does the same with a program and its arguments.
pub(crate) fn start_program(
    program: &Path,
    args: &[OsString],
    parent_guard: ParentGuard<'_>,
) -> Result<(ProxyCommandStream, Arc<ProgramStderr>), Fault> {
    let piped = PipedProgram::run(program.as_os_str(), args, parent_guard)?;
    Ok(split_stream(piped, program.display().to_string()))
}

fn split_stream(piped: PipedProgram, command: String) -> (ProxyCommandStream, Arc<ProgramStderr>) {
    let PipedProgram { stdin, stdout, stderr: stderr_pipe, group } = piped;
    let buffer =
        Arc::new(StderrBuffer { bytes: Mutex::default(), is_over: watch::Sender::new(false) });
    let reader = Arc::clone(&buffer);
    // It outlives the stream: the last lines come after that has ended.
    let mut reading = JoinSet::new();
    reading.spawn(async move { reader.read_from(stderr_pipe).await });
    let stderr = Arc::new(ProgramStderr { command, buffer, _reading: reading });
    (ProxyCommandStream { stdin, stdout, _group: group }, stderr)
}

impl AsyncRead for ProxyCommandStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdout).poll_read(context, buffer)
    }
}

impl AsyncWrite for ProxyCommandStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stdin).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdin).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdin).poll_shutdown(context)
    }
}
