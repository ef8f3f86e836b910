//! One running command: its output, input and exit status.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::transport::in_process::InProcessChannel;
use crate::transport::openssh::ProgramSession;
use crate::transport::srun::StepChannel;
use gtop_local::fault::Fault;
use gtop_local::process::{LocalProcess, Output};
use gtop_model::TransportKind;
use gtop_ssh as ssh;
use gtop_ssh::SshChannel;

/// Timeout for writing to the command's stdin.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// A running command on a node. Dropping it closes the connection, or kills the local process group.
///
/// Its output must be read: a full buffer stops the whole connection, by design.
#[derive(Debug)]
pub enum Channel {
    Ssh(Box<SshChannel>),
    Local(Box<LocalProcess>),
    Program(Box<ProgramSession>),
    Step(Box<StepChannel>),
    InProcess(Box<InProcessChannel>),
}

impl Channel {
    /// Waits for the next event. The exit status comes last. Cancel-safe.
    ///
    /// `Err` is the end: with the fault, unless the command exited by itself. From then on it returns at once.
    pub async fn next(&mut self) -> Result<Output, Option<Fault>> {
        match self {
            Self::Ssh(ssh) => ssh.next().await.map_err(|fault| fault.map(Fault::Ssh)),
            Self::Local(local) => {
                local.next().await.map_err(|error| Some(ssh::Fault::session_lost(&error?).into()))
            }
            Self::Program(program) => program.next().await,
            Self::Step(channel) => channel.next().await,
            Self::InProcess(channel) => channel.next().await,
        }
    }

    /// Returns what the ssh program has printed to stderr before the first output of the command, which [`Self::next`]
    /// leaves out.
    pub fn unread_stderr(&self) -> String {
        match self {
            Self::Program(program) => program.stderr_text(),
            Self::Ssh(_) | Self::Local(_) | Self::Step(_) | Self::InProcess(_) => String::new(),
        }
    }

    /// Writes all of `bytes` to the command's stdin, or fails within ten seconds.
    ///
    /// If the future is dropped, a part may have been written.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let sending = async {
            let local = match self {
                // The future is large and sending is rare: boxed, so that a waiting reader does not carry it.
                Self::Ssh(ssh) => return Ok(Box::pin(ssh.send(bytes)).await?),
                Self::Step(channel) => return channel.send(bytes).await,
                Self::InProcess(channel) => return channel.send(bytes).await,
                Self::Local(local) => local,
                Self::Program(program) => &mut program.local,
            };
            Ok(local.send(bytes).await.map_err(|error| ssh::Fault::session_lost(&error))?)
        };
        timeout(SEND_TIMEOUT, sending).await.unwrap_or_else(|_elapsed| {
            let why = "the command does not read its input".to_owned();
            Err(ssh::Fault::SessionLost { why }.into())
        })
    }

    /// Queues a line that is written to stdin at the next output of the command; returns it back where the transport
    /// has no such hook.
    pub fn queue_line(&self, line: String) -> Option<String> {
        let Self::Ssh(ssh) = self else { return Some(line) };
        ssh.queue_line(line);
        None
    }

    /// Takes back the queued line if it was not written yet.
    pub fn take_queued_line(&self) -> Option<String> {
        let Self::Ssh(ssh) = self else { return None };
        ssh.take_queued_line()
    }

    pub async fn close_stdin(&mut self) -> Result<(), Fault> {
        match self {
            Self::Ssh(ssh) => ssh.close_stdin().await?,
            Self::Local(local) => local.close_stdin(),
            Self::Program(program) => program.local.close_stdin(),
            Self::InProcess(channel) => channel.close_stdin(),
            // The stdin is shared with other nodes.
            Self::Step(_) => {}
        }
        Ok(())
    }

    /// Closes stdin, waits up to two seconds for the command to exit, and disconnects.
    pub async fn shutdown(self) {
        match self {
            Self::Ssh(ssh) => ssh.shutdown().await,
            Self::Local(local) => local.shutdown().await,
            Self::Program(program) => program.local.shutdown().await,
            Self::Step(channel) => channel.shutdown().await,
            Self::InProcess(channel) => channel.shutdown().await,
        }
    }

    /// Returns the login banner (`Banner` in `sshd_config`), at most 4096 characters.
    pub fn banner(&self) -> Option<String> {
        let Self::Ssh(ssh) = self else { return None };
        ssh.banner()
    }

    /// Returns the nonce of the loader if the stdin is shared with other nodes of a step: then the step sends the
    /// probe, not the caller.
    pub(crate) fn step_nonce(&self) -> Option<&str> {
        let Self::Step(channel) = self else { return None };
        Some(channel.nonce())
    }

    /// In a shared step, returns a future that ends when the step has waited long enough for the loader of this node, or
    /// took too long to start. The time counts from the first poll.
    pub(crate) fn wait_until_overdue(&self) -> Option<impl Future<Output = ()> + use<>> {
        let Self::Step(channel) = self else { return None };
        let router = channel.router();
        Some(async move { router.wait_until_overdue().await })
    }

    /// Returns since when a program runs that has printed nothing: it may not be logged in yet.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        let Self::Program(program) = self else { return None };
        program.silent_since()
    }

    /// Returns true if the end of the connection is noticed even if the command never ends.
    pub(crate) const fn has_keepalive(&self) -> bool {
        matches!(self, Self::Ssh(_) | Self::InProcess(_))
    }

    pub fn via(&self) -> TransportKind {
        match self {
            Self::Ssh(ssh) if ssh.uses_master() => TransportKind::SshProgram,
            Self::Ssh(_) => TransportKind::Native,
            Self::Local(_) => TransportKind::Local,
            Self::Program(program) => program.via(),
            Self::Step(_) => TransportKind::Step,
            Self::InProcess(_) => TransportKind::InProcess,
        }
    }
}
