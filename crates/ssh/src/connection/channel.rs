//! One command on a session.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Disconnect, Sig};
use tokio::time::timeout;

use crate::command::{CommandSignal, RemoteCommand, TerminalSize};
use crate::connection::algorithms;
use crate::connection::output_queue::CAPACITY;
use crate::connection::session::SshSession;
use gtop_local::fault::ssh::{ConnectPhase, Fault};
use gtop_local::process::Output;
use gtop_local::text;

/// Most bytes given to russh at once: its outgoing buffer keeps the largest size, and its queue grows by 17 KiB
/// with every 32 chunks, so chunks must be neither large nor many.
const SEND_CHUNK: usize = 4608;

/// Timeout for a command to exit after its stdin was closed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// A command on a session; dropping it closes the connection.
pub struct SshChannel {
    writer: ChannelWriteHalf<Msg>,
    /// The node closed the channel properly.
    is_closed: AtomicBool,
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
    /// Queues a line that is written to stdin at the next output of the command.
    pub fn queue_line(&self, line: String) {
        self.session.state.queue_line(line);
    }

    /// Takes back the queued line if it was not written yet.
    pub fn take_queued_line(&self) -> Option<String> {
        self.session.state.take_queued_line()
    }

    /// Returns the login banner (`Banner` in `sshd_config`), at most 4096 characters.
    pub fn banner(&self) -> Option<String> {
        self.session.state.banner()
    }

    /// Returns true if a `ControlMaster` connection is part of the route.
    pub fn uses_master(&self) -> bool {
        self.session.underlay.uses_master()
    }

    pub(crate) async fn start(
        session: SshSession,
        command: RemoteCommand<'_>,
    ) -> Result<Self, Fault> {
        let channel = match session.handle.channel_open_session().await {
            Ok(channel) => channel,
            Err(russh::Error::ChannelOpenFailure(reason)) => {
                return Err(Fault::ChannelRefused { why: refusal_text(&reason) });
            }
            Err(_) => return Err(session.lost_while(ConnectPhase::Command).await),
        };
        session.state.output.set_channel(channel.id().number());
        let (mut replies, writer) = channel.split();
        let ssh = Self { writer, is_closed: AtomicBool::new(false), session };
        if let Some(terminal) = command.terminal {
            let TerminalSize { columns, rows } = terminal.size;
            let requested =
                ssh.writer.request_pty(true, &terminal.kind, columns, rows, 0, 0, &[]).await;
            if !ssh.is_granted(requested, &mut replies).await? {
                let why = "it gives this login no terminal".to_owned();
                return Err(Fault::ChannelRefused { why });
            }
        }
        let requested = ssh.writer.exec(true, command.line).await;
        if ssh.is_granted(requested, &mut replies).await? {
            return Ok(ssh);
        }
        Err(Fault::CommandRefused)
    }

    /// Waits for the reply to a request.
    async fn is_granted(
        &self,
        requested: Result<(), russh::Error>,
        replies: &mut ChannelReadHalf,
    ) -> Result<bool, Fault> {
        if requested.is_err() {
            return Err(self.session.lost_while(ConnectPhase::Command).await);
        }
        // The reply usually comes first, but a node may send output before it.
        for _ in 0..CAPACITY {
            match replies.wait().await {
                None => return Err(self.session.lost_while(ConnectPhase::Command).await),
                Some(ChannelMsg::Success) => return Ok(true),
                Some(ChannelMsg::Failure) => return Ok(false),
                Some(_) => {}
            }
        }
        Ok(true)
    }

    /// Waits for the next event. The exit status comes last, unless more output takes longer than a second after it.
    /// Cancel-safe.
    ///
    /// `Err` is the end: with the fault, unless the node closed the channel.
    pub async fn next(&self) -> Result<Output, Option<Fault>> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(None);
        }
        match self.session.state.output.next().await {
            Some(Some(output)) => Ok(output),
            Some(None) => {
                self.is_closed.store(true, Ordering::Relaxed);
                Err(None)
            }
            None => {
                let fault = Fault::SessionLost { why: self.session.state.end_text() };
                Err(Some(Box::pin(self.session.attribute(fault)).await))
            }
        }
    }

    /// Writes bytes to the command's stdin.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), Fault> {
        // russh's outgoing buffer keeps its largest size, for every node: so it gets small chunks, and time to send each.
        for chunk in bytes.chunks(SEND_CHUNK) {
            self.check_sent(self.writer.data_bytes(chunk.to_vec()).await).await?;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Closes the command's stdin.
    pub async fn close_stdin(&self) -> Result<(), Fault> {
        // Nothing may be written after EOF.
        self.session.state.take_queued_line();
        self.check_sent(self.writer.eof().await).await
    }

    /// Sends a signal to the command; a node may ignore it.
    pub async fn signal(&self, signal: CommandSignal) -> Result<(), Fault> {
        let signal = match signal {
            CommandSignal::HangUp => Sig::HUP,
            CommandSignal::Interrupt => Sig::INT,
            CommandSignal::Quit => Sig::QUIT,
            CommandSignal::Terminate => Sig::TERM,
        };
        self.check_sent(self.writer.signal(signal).await).await
    }

    /// Tells the node the new size of the terminal.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), Fault> {
        self.check_sent(self.writer.window_change(size.columns, size.rows, 0, 0).await).await
    }

    /// Returns the fault of the session if something could not be sent.
    async fn check_sent(&self, sent: Result<(), russh::Error>) -> Result<(), Fault> {
        let Err(error) = sent else { return Ok(()) };
        let why = match self.session.state.end() {
            Some(_) => self.session.state.end_text(),
            None => algorithms::describe(&error),
        };
        Err(self.session.attribute(Fault::SessionLost { why }).await)
    }

    /// Closes the command's stdin, waits a while for it to exit, and closes the connection.
    pub async fn shutdown(mut self: Box<Self>) {
        let draining = async {
            if self.close_stdin().await.is_ok() {
                while self.next().await.is_ok() {}
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
        Failure::Other { reason, .. } => text::excerpt_line(reason),
    }
}
