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

use crate::transport::fault::{self, Fault};
use crate::transport::file_cache::lock;
use crate::transport::openssh_stderr;
use crate::transport::process::{ParentGuard, PipedProgram, ProcessGroup};

/// Most bytes of stderr that are kept, the last ones.
const MAX_STDERR: usize = 2048;

/// How long the stderr of a program that has exited may take to arrive.
const STDERR_GRACE: Duration = Duration::from_millis(300);

/// A running command as a stream. Dropping it kills the command.
pub(super) struct ProxyCommandStream {
    input: ChildStdin,
    output: ChildStdout,
    _group: ProcessGroup,
}

/// The stderr of a program.
#[derive(Debug)]
pub(super) struct ProgramStderr {
    /// The command line that was run.
    pub(super) command: String,
    heard: Arc<StderrBuffer>,
    _listening: JoinSet<()>,
}

#[derive(Debug)]
struct StderrBuffer {
    bytes: Mutex<VecDeque<u8>>,
    is_over: watch::Sender<bool>,
}

impl ProgramStderr {
    /// Returns the last line of stderr; of an ssh without a version line, the line that says so.
    pub(super) async fn last_words(&self) -> Option<String> {
        // A program that still runs may never print anything.
        timeout(STDERR_GRACE, self.heard.is_over.subscribe().wait_for(|is_over| *is_over))
            .await
            .ok();
        let bytes: Vec<u8> = lock(&self.heard.bytes).iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let greeting = text.lines().find(|line| openssh_stderr::no_greeting(line).is_some());
        let mut lines = greeting.into_iter().chain(text.lines().rev()).map(fault::sanitize_line);
        lines.find(|line| !line.is_empty())
    }
}

impl StderrBuffer {
    async fn listen(&self, mut errors: ChildStderr) {
        let mut piece = [0; 512];
        while let Ok(count @ 1..) = errors.read(&mut piece).await {
            let mut bytes = lock(&self.bytes);
            bytes.extend(piece.iter().take(count));
            let surplus = bytes.len().saturating_sub(MAX_STDERR);
            bytes.drain(..surplus);
        }
        self.is_over.send_replace(true);
    }
}

/// Starts a command; returns its stream and its stderr.
pub(super) fn start(
    command: &str,
    parent_guard: ParentGuard<'_>,
) -> Result<(ProxyCommandStream, Arc<ProgramStderr>), Fault> {
    Ok(with_stderr(PipedProgram::start(command, parent_guard)?, fault::sanitize_line(command)))
}

/// Does the same with a program and its arguments.
pub(super) fn start_program(
    program: &Path,
    words: &[OsString],
    parent_guard: ParentGuard<'_>,
) -> Result<(ProxyCommandStream, Arc<ProgramStderr>), Fault> {
    let plumbing = PipedProgram::run(program.as_os_str(), words, parent_guard)?;
    Ok(with_stderr(plumbing, program.display().to_string()))
}

fn with_stderr(
    plumbing: PipedProgram,
    command: String,
) -> (ProxyCommandStream, Arc<ProgramStderr>) {
    let PipedProgram { input, output, errors, group } = plumbing;
    let heard =
        Arc::new(StderrBuffer { bytes: Mutex::default(), is_over: watch::Sender::new(false) });
    let listener = Arc::clone(&heard);
    // It outlives the stream: the last lines come after that has ended.
    let mut listening = JoinSet::new();
    listening.spawn(async move { listener.listen(errors).await });
    let complaints = Arc::new(ProgramStderr { command, heard, _listening: listening });
    (ProxyCommandStream { input, output, _group: group }, complaints)
}

impl AsyncRead for ProxyCommandStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_read(context, buffer)
    }
}

impl AsyncWrite for ProxyCommandStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.input).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_shutdown(context)
    }
}
