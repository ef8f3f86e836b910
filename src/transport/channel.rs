//! One running command: its output, its input, its end.

use std::time::Duration;

use russh::client::Msg;
use russh::{ChannelMsg, ChannelWriteHalf, Disconnect, Sig};
use tokio::time::{sleep, timeout};

use crate::model::TransportKind;
use crate::transport::algorithms;
use crate::transport::dial::Deadline;
use crate::transport::fault::{self, ConnectPhase, Fault};
use crate::transport::openssh::ProgramSession;
use crate::transport::output_queue::CAPACITY;
use crate::transport::process::LocalProcess;
use crate::transport::session::Session;
use crate::transport::srun::StepChannel;

/// Longest wait for the other side to take what is sent.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes handed on at once: russh's outgoing buffer stays as large, and its queue of pieces grows by
/// 17 KiB with every 32 of them, so that few and small are both wanted.
const SEND_CHUNK: usize = 4608;

/// Longest wait for a command to end after its stdin was closed.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// What a running command says next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Bytes it wrote to stdout, at most one packet at once over SSH.
    Stdout(Vec<u8>),
    /// Bytes it wrote to stderr.
    Stderr(Vec<u8>),
    /// It ended. `Closed` follows.
    Exit(Exit),
    /// Nothing will come any more; the fault says why when it was not its own end.
    Closed(Option<Box<Fault>>),
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// With this status.
    Status(u32),
    /// By this signal, named without `SIG`.
    Signal(String),
}

impl Exit {
    /// The end by a signal, as the node names it.
    pub(super) fn by(signal: Sig) -> Self {
        Self::Signal(match signal {
            Sig::Custom(name) => fault::sanitize(&name, 32),
            name @ (Sig::ABRT
            | Sig::ALRM
            | Sig::FPE
            | Sig::HUP
            | Sig::ILL
            | Sig::INT
            | Sig::KILL
            | Sig::PIPE
            | Sig::QUIT
            | Sig::SEGV
            | Sig::TERM
            | Sig::USR1) => format!("{name:?}"),
        })
    }
}

/// A running command on a node. Dropping it ends the connection, or the local process group.
///
/// What it says must be read: a full buffer stops the whole connection, by design.
#[derive(Debug)]
pub struct Channel(Inner);

#[derive(Debug)]
enum Inner {
    Ssh(Box<Ssh>),
    Local(Box<LocalProcess>),
    Program(Box<ProgramSession>),
    Step(Box<StepChannel>),
}

impl Channel {
    pub(super) fn local(process: LocalProcess) -> Self {
        Self(Inner::Local(Box::new(process)))
    }

    pub(super) fn program(process: ProgramSession) -> Self {
        Self(Inner::Program(Box::new(process)))
    }

    pub(super) fn step(part: StepChannel) -> Self {
        Self(Inner::Step(Box::new(part)))
    }

    pub(super) async fn ssh(
        session: Session,
        command: &str,
        deadline: &Deadline,
    ) -> Result<Self, Fault> {
        let ssh = deadline.timeout(ConnectPhase::Command, Ssh::start(session, command)).await??;
        Ok(Self(Inner::Ssh(Box::new(ssh))))
    }

    /// Waits for what comes next. Nothing is lost when the wait is given up.
    ///
    /// After the end it returns `Closed` at once, every time.
    pub async fn next(&mut self) -> Output {
        match &mut self.0 {
            Inner::Ssh(ssh) => ssh.next().await,
            Inner::Local(local) => local.next().await,
            Inner::Program(system) => system.next().await,
            Inner::Step(part) => part.next().await,
        }
    }

    /// Writes all of `bytes` to the command's stdin, or fails within ten seconds.
    ///
    /// When the wait is given up, a part may have been written.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let sending = async {
            match &mut self.0 {
                // Sending takes a large future, and who waits for output sends seldom: it is kept
                // no longer than that.
                Inner::Ssh(ssh) => Box::pin(ssh.send(bytes)).await,
                Inner::Local(local) => local.send(bytes).await,
                Inner::Program(system) => system.send(bytes).await,
                Inner::Step(part) => part.send(bytes).await,
            }
        };
        let stuck = || Fault::SessionLost { why: "the command does not read its input".to_owned() };
        timeout(SEND_TIMEOUT, sending).await.map_err(|_elapsed| stuck())?
    }

    /// Has a line written to the command's stdin as soon as the command says something; gives it back
    /// where the way knows no such moment.
    pub fn reply(&self, line: String) -> Option<String> {
        match &self.0 {
            Inner::Ssh(ssh) => {
                ssh.session.state.reply(line);
                None
            }
            Inner::Local(_) | Inner::Program(_) | Inner::Step(_) => Some(line),
        }
    }

    /// Takes back what waits to be written because the command said nothing.
    pub fn take_back(&self) -> Option<String> {
        match &self.0 {
            Inner::Ssh(ssh) => ssh.session.state.take_back(),
            Inner::Local(_) | Inner::Program(_) | Inner::Step(_) => None,
        }
    }

    /// Closes the command's stdin.
    pub async fn close_stdin(&mut self) -> Result<(), Fault> {
        match &mut self.0 {
            Inner::Ssh(ssh) => ssh.close_stdin().await,
            Inner::Local(local) => {
                local.close_stdin();
                Ok(())
            }
            Inner::Program(system) => {
                system.close_stdin();
                Ok(())
            }
            // It is the input of other nodes, too.
            Inner::Step(_) => Ok(()),
        }
    }

    /// Closes stdin, gives the command two seconds to end, and takes leave.
    pub async fn shutdown(self) {
        match self.0 {
            Inner::Ssh(ssh) => ssh.shutdown().await,
            Inner::Local(local) => local.shutdown().await,
            Inner::Program(system) => system.shutdown().await,
            Inner::Step(part) => part.shutdown().await,
        }
    }

    /// Returns the text the node shows before login, at most 4096 characters.
    pub fn banner(&self) -> Option<String> {
        match &self.0 {
            Inner::Ssh(ssh) => ssh.session.state.banner(),
            Inner::Local(_) | Inner::Program(_) | Inner::Step(_) => None,
        }
    }

    /// Returns by which word the loader announces itself where the node shares what is written with
    /// others: then the probe is not to be sent, it comes by itself.
    pub fn step_nonce(&self) -> Option<&str> {
        match &self.0 {
            Inner::Step(part) => Some(part.nonce()),
            Inner::Ssh(_) | Inner::Local(_) | Inner::Program(_) => None,
        }
    }

    /// Waits until the loader is late: for as long as one of a node by itself may take, or until a step
    /// that nodes share has waited for it, or takes too long to begin. Begins to count when it is first
    /// polled.
    pub fn late(&self, alone: Duration) -> impl Future<Output = ()> + use<> {
        let in_step = match &self.0 {
            Inner::Step(part) => Some(part.late()),
            Inner::Ssh(_) | Inner::Local(_) | Inner::Program(_) => None,
        };
        async move {
            match in_step {
                Some(late) => late.await,
                None => sleep(alone).await,
            }
        }
    }

    /// Returns how the node is reached.
    pub fn via(&self) -> TransportKind {
        match &self.0 {
            Inner::Ssh(ssh) if ssh.session.underlay.uses_master() => TransportKind::SshProgram,
            Inner::Ssh(_) => TransportKind::Native,
            Inner::Local(_) => TransportKind::Local,
            Inner::Program(system) => system.via(),
            Inner::Step(_) => TransportKind::Step,
        }
    }
}

struct Ssh {
    writer: ChannelWriteHalf<Msg>,
    /// Whether the node closed the channel in order.
    is_closed: bool,
    session: Session,
}

impl Drop for Ssh {
    fn drop(&mut self) {
        // The connection's task may be waiting for somebody to read.
        self.session.state.output.close();
    }
}

impl std::fmt::Debug for Ssh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ssh").finish_non_exhaustive()
    }
}

impl Ssh {
    async fn start(session: Session, command: &str) -> Result<Self, Fault> {
        let channel = match session.handle.channel_open_session().await {
            Ok(channel) => channel,
            Err(russh::Error::ChannelOpenFailure(reason)) => {
                return Err(Fault::ChannelRefused { why: refusal(&reason) });
            }
            Err(_) => {
                let fault = Fault::ConnectionLost {
                    step: ConnectPhase::Command,
                    why: session.state.end_text(),
                };
                return Err(session.underlay.attribute(fault).await);
            }
        };
        session.state.output.set_channel(channel.id().number());
        let (mut answers, writer) = channel.split();
        let ssh = Self { writer, is_closed: false, session };
        if ssh.writer.exec(true, command).await.is_err() {
            return Err(ssh.broken().await);
        }
        // The answer comes first, but nothing keeps a node from talking at once; what it says then
        // comes here, too.
        for _ in 0..CAPACITY {
            match answers.wait().await {
                None => return Err(ssh.broken().await),
                Some(ChannelMsg::Success) => return Ok(ssh),
                Some(ChannelMsg::Failure) => return Err(Fault::CommandRefused),
                Some(_) => {}
            }
        }
        Ok(ssh)
    }

    async fn broken(&self) -> Fault {
        let fault = Fault::ConnectionLost {
            step: ConnectPhase::Command,
            why: self.session.state.end_text(),
        };
        self.session.underlay.attribute(fault).await
    }

    async fn next(&mut self) -> Output {
        if self.is_closed {
            return Output::Closed(None);
        }
        let Some(output) = self.session.state.output.next().await else {
            let fault = Fault::SessionLost { why: self.session.state.end_text() };
            let fault = Box::pin(self.session.underlay.attribute(fault)).await;
            return Output::Closed(Some(Box::new(fault)));
        };
        self.is_closed = matches!(output, Output::Closed(_));
        output
    }

    async fn send(&self, bytes: &[u8]) -> Result<(), Fault> {
        // russh's outgoing buffer keeps the size of the most it ever held, for every node: so it is
        // given little at a time, and the time to pass that on.
        for piece in bytes.chunks(SEND_CHUNK) {
            let sent = self.writer.data_bytes(piece.to_vec()).await;
            if let Err(error) = sent {
                return Err(self.lost(&error).await);
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn close_stdin(&self) -> Result<(), Fault> {
        // Nothing may come behind the end.
        self.session.state.take_back();
        match self.writer.eof().await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.lost(&error).await),
        }
    }

    async fn lost(&self, error: &russh::Error) -> Fault {
        let why = match self.session.state.end() {
            Some(_) => self.session.state.end_text(),
            None => algorithms::describe(error),
        };
        self.session.underlay.attribute(Fault::SessionLost { why }).await
    }

    async fn shutdown(mut self: Box<Self>) {
        let drained = async {
            if self.close_stdin().await.is_ok() {
                while !matches!(self.next().await, Output::Closed(_)) {}
            }
        };
        timeout(SHUTDOWN_TIMEOUT, drained).await.ok();
        // What a node still says must not keep the connection's task from the good-bye.
        self.session.state.output.close();
        let goodbye = async {
            let handle = &mut self.session.handle;
            // An end that is there already needs no good-bye.
            if handle.disconnect(Disconnect::ByApplication, "", "").await.is_ok() {
                handle.await.ok();
            }
        };
        timeout(SHUTDOWN_TIMEOUT, goodbye).await.ok();
    }
}

fn refusal(reason: &russh::ChannelOpenFailure) -> String {
    use russh::ChannelOpenFailure as Failure;
    match reason {
        Failure::AdministrativelyProhibited => "prohibited there".to_owned(),
        Failure::ConnectFailed => "open failed there".to_owned(),
        Failure::UnknownChannelType => "it knows no sessions".to_owned(),
        Failure::ResourceShortage => "it is short of resources".to_owned(),
        Failure::Other { reason, .. } => fault::sanitize_line(reason),
    }
}
