//! One running command: its output, input and exit status.

use std::time::Duration;

use russh::client::Msg;
use russh::{ChannelMsg, ChannelWriteHalf, Disconnect};
use tokio::time::{sleep, timeout};

use crate::model::TransportKind;
use crate::transport::algorithms;
use crate::transport::dial::Deadline;
use crate::transport::fault::{self, ConnectPhase, Fault};
use crate::transport::openssh::ProgramSession;
use crate::transport::output::Output;
use crate::transport::output_queue::CAPACITY;
use crate::transport::process::LocalProcess;
use crate::transport::session::SshSession;
use crate::transport::srun::StepChannel;

/// Timeout for writing to the command's stdin.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes given to russh at once: its outgoing buffer keeps the largest size, and its queue grows by 17 KiB
/// with every 32 chunks, so chunks must be neither large nor many.
const SEND_CHUNK: usize = 4608;

/// Timeout for a command to exit after its stdin was closed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

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
    pub(super) fn local(process: LocalProcess) -> Self {
        Self(ChannelKind::Local(Box::new(process)))
    }

    pub(super) fn program(process: ProgramSession) -> Self {
        Self(ChannelKind::Program(Box::new(process)))
    }

    pub(super) fn step(channel: StepChannel) -> Self {
        Self(ChannelKind::Step(Box::new(channel)))
    }

    pub(super) async fn ssh(
        session: SshSession,
        command: &str,
        deadline: &Deadline,
    ) -> Result<Self, Fault> {
        let ssh =
            deadline.timeout(ConnectPhase::Command, SshChannel::start(session, command)).await??;
        Ok(Self(ChannelKind::Ssh(Box::new(ssh))))
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

struct SshChannel {
    writer: ChannelWriteHalf<Msg>,
    /// The node closed the channel properly.
    is_closed: bool,
    session: SshSession,
}

impl Drop for SshChannel {
    fn drop(&mut self) {
        // The connection's task may be waiting for the queue to be read.
        self.session.state.output.close();
    }
}

impl std::fmt::Debug for SshChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ssh").finish_non_exhaustive()
    }
}

impl SshChannel {
    async fn start(session: SshSession, command: &str) -> Result<Self, Fault> {
        let channel = match session.handle.channel_open_session().await {
            Ok(channel) => channel,
            Err(russh::Error::ChannelOpenFailure(reason)) => {
                return Err(Fault::ChannelRefused { why: refusal_text(&reason) });
            }
            Err(_) => {
                let fault = Fault::ConnectionLost {
                    phase: ConnectPhase::Command,
                    why: session.state.end_text(),
                };
                return Err(session.attribute(fault).await);
            }
        };
        session.state.output.set_channel(channel.id().number());
        let (mut replies, writer) = channel.split();
        let ssh = Self { writer, is_closed: false, session };
        if ssh.writer.exec(true, command).await.is_err() {
            return Err(ssh.open_fault().await);
        }
        // The reply usually comes first, but a node may send output before it.
        for _ in 0..CAPACITY {
            match replies.wait().await {
                None => return Err(ssh.open_fault().await),
                Some(ChannelMsg::Success) => return Ok(ssh),
                Some(ChannelMsg::Failure) => return Err(Fault::CommandRefused),
                Some(_) => {}
            }
        }
        Ok(ssh)
    }

    async fn open_fault(&self) -> Fault {
        let fault = Fault::ConnectionLost {
            phase: ConnectPhase::Command,
            why: self.session.state.end_text(),
        };
        self.session.attribute(fault).await
    }

    async fn next(&mut self) -> Output {
        if self.is_closed {
            return Output::Closed(None);
        }
        let Some(output) = self.session.state.output.next().await else {
            let fault = Fault::SessionLost { why: self.session.state.end_text() };
            let fault = Box::pin(self.session.attribute(fault)).await;
            return Output::Closed(Some(Box::new(fault)));
        };
        self.is_closed = matches!(output, Output::Closed(_));
        output
    }

    async fn send(&self, bytes: &[u8]) -> Result<(), Fault> {
        // russh's outgoing buffer keeps its largest size, for every node: so it gets small chunks, and time to send each.
        for chunk in bytes.chunks(SEND_CHUNK) {
            let result = self.writer.data_bytes(chunk.to_vec()).await;
            if let Err(error) = result {
                return Err(self.session_fault(&error).await);
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn close_stdin(&self) -> Result<(), Fault> {
        // Nothing may be written after EOF.
        self.session.state.take_queued_line();
        match self.writer.eof().await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.session_fault(&error).await),
        }
    }

    async fn session_fault(&self, error: &russh::Error) -> Fault {
        let why = match self.session.state.end() {
            Some(_) => self.session.state.end_text(),
            None => algorithms::describe(error),
        };
        self.session.attribute(Fault::SessionLost { why }).await
    }

    async fn shutdown(mut self: Box<Self>) {
        let draining = async {
            if self.close_stdin().await.is_ok() {
                while !matches!(self.next().await, Output::Closed(_)) {}
            }
        };
        timeout(SHUTDOWN_TIMEOUT, draining).await.ok();
        // Remaining output must not keep the connection's task from disconnecting.
        self.session.state.output.close();
        let disconnecting = async {
            let handle = &mut self.session.handle;
            // A connection that is already closed needs no disconnect.
            if handle.disconnect(Disconnect::ByApplication, "", "").await.is_ok() {
                handle.await.ok();
            }
        };
        timeout(SHUTDOWN_TIMEOUT, disconnecting).await.ok();
    }
}

fn refusal_text(reason: &russh::ChannelOpenFailure) -> String {
    use russh::ChannelOpenFailure as Failure;
    match reason {
        Failure::AdministrativelyProhibited => "prohibited by the node".to_owned(),
        Failure::ConnectFailed => "the node could not open it".to_owned(),
        Failure::UnknownChannelType => "it does not support sessions".to_owned(),
        Failure::ResourceShortage => "the node is short of resources".to_owned(),
        Failure::Other { reason, .. } => fault::sanitize_line(reason),
    }
}
