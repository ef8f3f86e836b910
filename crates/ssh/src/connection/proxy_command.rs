//! A connection through the stdin and stdout of a `ProxyCommand`.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, Join, ReadBuf, join};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connection::{Attributed, Underlay};
use crate::program::stderr;
use gtop_local::fault::ssh::{ConnectPhase, Fault, seconds_text};
use gtop_local::lock::lock;
use gtop_local::process::{Launch, OutputTail, PipedProgram, ProcessGroup};
use gtop_local::text;

/// Most bytes of stderr that are kept, the last ones.
const MAX_STDERR: usize = 2048;

/// How long the stderr of a program may take to arrive while its output is open.
const STDERR_GRACE: Duration = Duration::from_millis(300);

/// The same after its output has ended: it is about to exit, and prints why.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(5);

/// A running command as a stream.
pub(crate) type ProxyCommandStream = Join<ProgramStdout, ChildStdin>;

/// The stdout of a program.
pub(crate) struct ProgramStdout {
    stdout: ChildStdout,
    /// Set at the end of the output.
    has_ended: Arc<AtomicBool>,
}

/// A program that carries a connection, and its stderr. Dropping it kills the program.
#[derive(Debug)]
pub(crate) struct ProgramStderr {
    /// The command line that was run.
    pub(crate) command: String,
    tail: Arc<Mutex<OutputTail>>,
    is_over: watch::Receiver<bool>,
    has_ended: Arc<AtomicBool>,
    _reading: JoinSet<()>,
    /// Outlives the stream, because the last lines come after that has ended.
    _group: ProcessGroup,
}

impl ProgramStderr {
    /// Returns the last line of stderr; of an ssh without a version line, the line that says so.
    pub(crate) async fn last_line(&self) -> Option<String> {
        // A program that still runs may never print anything.
        let has_ended = self.has_ended.load(Ordering::Acquire);
        let limit = if has_ended { LAST_LINES_TIMEOUT } else { STDERR_GRACE };
        timeout(limit, self.is_over.clone().wait_for(|is_over| *is_over)).await.ok();
        let text = lock(&self.tail).text();
        let banner_error = text.lines().find(|line| stderr::parse_no_banner(line).is_some());
        banner_error.map(text::excerpt_line).or_else(|| stderr::last_lines(&text).next())
    }

    fn fault(&self, why: String) -> Fault {
        let is_closed = stderr::parse_no_banner(&why).is_some_and(|(_, is_closed)| is_closed);
        Fault::ProxyCommandFailed { command: self.command.clone(), why, is_closed }
    }
}

impl Underlay for ProgramStderr {
    fn attribute(&self, fault: Fault) -> Attributed<'_> {
        Box::pin(async move {
            let line = self.last_line().await;
            match (fault, line) {
                // The connection had worked, so its stderr may be about anything.
                (Fault::SessionLost { why }, Some(line)) => {
                    Fault::SessionLost { why: format!("{why}; ProxyCommand says: {line}") }
                }
                (_, Some(line)) => self.fault(line),
                (Fault::TimedOut { phase: ConnectPhase::BannerExchange, after }, None) => {
                    self.fault(format!("it sends no SSH banner within {}", seconds_text(&after)))
                }
                (Fault::NoBanner { .. }, None) => self.fault("it sends no SSH banner".to_owned()),
                (fault, None) => fault,
            }
        })
    }
}

/// Starts `line` as ssh starts a `ProxyCommand`: with `exec` in the user's shell. Returns its stream and its stderr.
pub(crate) fn start(
    line: &str,
    parent_guard: Option<&Path>,
) -> Result<(ProxyCommandStream, Arc<ProgramStderr>), Fault> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    let shell = shell.unwrap_or_else(|| "/bin/sh".into());
    let args = ["-c".into(), format!("exec {line}").into()];
    let launch =
        Launch { program: shell.as_ref(), args: &args, parent_guard, hides: |_| false, env: &[] };
    start_program(launch, text::excerpt_line(line))
}

/// Starts a program as a stream. `command` names it in faults.
pub(crate) fn start_program(
    launch: Launch<'_>,
    command: String,
) -> Result<(ProxyCommandStream, Arc<ProgramStderr>), Fault> {
    let PipedProgram { stdin, stdout, mut stderr, group } = PipedProgram::launch(launch)?;
    let tail = Arc::new(Mutex::new(OutputTail::new(MAX_STDERR)));
    let (ended, is_over) = watch::channel(false);
    let filled = Arc::clone(&tail);
    let mut reading = JoinSet::new();
    reading.spawn(async move {
        let mut chunk = [0; 512];
        while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
            lock(&filled).push(chunk.get(..count).unwrap_or_default());
        }
        ended.send_replace(true);
    });
    let has_ended = Arc::<AtomicBool>::default();
    let stdout = ProgramStdout { stdout, has_ended: Arc::clone(&has_ended) };
    let stderr =
        ProgramStderr { command, tail, is_over, has_ended, _reading: reading, _group: group };
    Ok((join(stdout, stdin), Arc::new(stderr)))
}

impl AsyncRead for ProgramStdout {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stdout).poll_read(context, buffer);
        let is_end = polled.is_ready() && buffer.filled().len() == before;
        if is_end && buffer.remaining() > 0 {
            self.has_ended.store(true, Ordering::Release);
        }
        polled
    }
}
