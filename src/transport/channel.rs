//! One running command: its output, input and exit status.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::model::TransportKind;
use crate::ssh::connection::channel::SshChannel;
use crate::ssh::fault::Fault;
use crate::ssh::output::Output;
use crate::ssh::process::LocalProcess;
use crate::transport::openssh::ProgramSession;
use crate::transport::srun::StepChannel;

/// Timeout for writing to the command's stdin.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// A running command on a node. Dropping it closes the connection, or kills the local process group.
///
/// Its output must be read: a full buffer stops the whole connection, by design.
#[derive(Debug)]
pub struct Channel(ChannelKind);

#[derive(Debug)]
enum ChannelKind {
    Ssh(Box<SshChannel>),
    Local(Box<LocalProcess>),
    Program(Box<ProgramSession>),
    Step(Box<StepChannel>),
}

impl Channel {
    pub(crate) fn local(process: LocalProcess) -> Self {
        Self(ChannelKind::Local(Box::new(process)))
    }

    pub(crate) fn program(process: ProgramSession) -> Self {
        Self(ChannelKind::Program(Box::new(process)))
    }

    pub(crate) fn step(channel: StepChannel) -> Self {
        Self(ChannelKind::Step(Box::new(channel)))
    }

    pub(crate) fn ssh(channel: SshChannel) -> Self {
        Self(ChannelKind::Ssh(Box::new(channel)))
    }

    /// Waits for the next event. Cancel-safe.
    ///
    /// After the end it returns `Closed` at once.
    pub async fn next(&mut self) -> Output {
        match &mut self.0 {
            ChannelKind::Ssh(ssh) => ssh.next().await,
            ChannelKind::Local(local) => local.next().await,
            ChannelKind::Program(program) => program.next().await,
            ChannelKind::Step(channel) => channel.next().await,
        }
    }

    /// Writes all of `bytes` to the command's stdin, or fails within ten seconds.
    ///
    /// If the future is dropped, a part may have been written.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let sending = async {
            match &mut self.0 {
                // The future is large and sending is rare: boxed, so that a waiting reader does not carry it.
                ChannelKind::Ssh(ssh) => Box::pin(ssh.send(bytes)).await,
                ChannelKind::Local(local) => local.send(bytes).await,
                ChannelKind::Program(program) => program.send(bytes).await,
                ChannelKind::Step(channel) => channel.send(bytes).await,
            }
        };
        let stalled =
            || Fault::SessionLost { why: "the command does not read its input".to_owned() };
        timeout(SEND_TIMEOUT, sending).await.map_err(|_elapsed| stalled())?
    }

    /// Queues a line that is written to stdin at the next output of the command; returns it back where the transport
    /// has no such hook.
    pub fn queue_line(&self, line: String) -> Option<String> {
        match &self.0 {
            ChannelKind::Ssh(ssh) => {
                ssh.session.state.queue_line(line);
                None
            }
            ChannelKind::Local(_) | ChannelKind::Program(_) | ChannelKind::Step(_) => Some(line),
        }
    }

    /// Takes back the queued line if it was not written yet.
    pub fn take_queued_line(&self) -> Option<String> {
        match &self.0 {
            ChannelKind::Ssh(ssh) => ssh.session.state.take_queued_line(),
            ChannelKind::Local(_) | ChannelKind::Program(_) | ChannelKind::Step(_) => None,
        }
    }

    pub async fn close_stdin(&mut self) -> Result<(), Fault> {
        match &mut self.0 {
            ChannelKind::Ssh(ssh) => ssh.close_stdin().await,
            ChannelKind::Local(local) => {
                local.close_stdin();
                Ok(())
            }
            ChannelKind::Program(program) => {
                program.close_stdin();
                Ok(())
            }
            // The stdin is shared with other nodes.
            ChannelKind::Step(_) => Ok(()),
        }
    }

    /// Closes stdin, waits up to two seconds for the command to exit, and disconnects.
    pub async fn shutdown(self) {
        match self.0 {
            ChannelKind::Ssh(ssh) => ssh.shutdown().await,
            ChannelKind::Local(local) => local.shutdown().await,
            ChannelKind::Program(program) => program.shutdown().await,
            ChannelKind::Step(channel) => channel.shutdown().await,
        }
    }

    /// Returns the login banner (`Banner` in `sshd_config`), at most 4096 characters.
    pub fn banner(&self) -> Option<String> {
        match &self.0 {
            ChannelKind::Ssh(ssh) => ssh.session.state.banner(),
            ChannelKind::Local(_) | ChannelKind::Program(_) | ChannelKind::Step(_) => None,
        }
    }

    /// Returns the nonce of the loader if the stdin is shared with other nodes of a step: then the step sends the
    /// probe, not the caller.
    pub fn step_nonce(&self) -> Option<&str> {
        match &self.0 {
            ChannelKind::Step(channel) => Some(channel.nonce()),
            ChannelKind::Ssh(_) | ChannelKind::Local(_) | ChannelKind::Program(_) => None,
        }
    }

    /// Waits until the loader is overdue: after `default_timeout`, or in a shared step until the step has waited for
    /// the node or took too long to start. The time counts from the first poll.
    pub fn wait_until_overdue(
        &self,
        default_timeout: Duration,
    ) -> impl Future<Output = ()> + use<> {
        let step_overdue = match &self.0 {
            ChannelKind::Step(channel) => Some(channel.wait_until_overdue()),
            ChannelKind::Ssh(_) | ChannelKind::Local(_) | ChannelKind::Program(_) => None,
        };
        async move {
            match step_overdue {
                Some(overdue) => overdue.await,
                None => sleep(default_timeout).await,
            }
        }
    }

    pub fn via(&self) -> TransportKind {
        match &self.0 {
            ChannelKind::Ssh(ssh) if ssh.session.underlay.uses_master() => {
                TransportKind::SshProgram
            }
            ChannelKind::Ssh(_) => TransportKind::Native,
            ChannelKind::Local(_) => TransportKind::Local,
            ChannelKind::Program(program) => program.via(),
            ChannelKind::Step(_) => TransportKind::Step,
        }
    }
}
