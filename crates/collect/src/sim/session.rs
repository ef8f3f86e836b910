//! One SSH session of a simulated node: accepts the key, runs commands, cuts the connection on demand.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use russh::keys::ssh_key::public::KeyData;
use russh::server::{
    Auth, ChannelOpenHandle, Config, Handle, Handler, Msg, PublicKeyOffer, Session,
    VerifiedPublicKey, run_stream,
};
use russh::{Channel, ChannelId, ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::sim::injected_fault::InjectedFault;
use crate::sim::sim_probe::{ProbeExit, ProbedNode};
use gtop_ssh::cancellable;

/// Limit for sending the last output of a probe.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The state shared by the sessions of a node.
#[derive(Debug)]
pub(crate) struct SshServer {
    pub(crate) node: ProbedNode,
    pub(crate) config: Arc<Config>,
    pub(crate) client_key: KeyData,
}

/// Serves one connection until it ends. Dropping the future cuts the connection.
pub(crate) async fn run(server: Arc<SshServer>, stream: TcpStream) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    // russh owns the stream in its own task; dropping the guard ends the stream there.
    let (stream, _cut_guard) = cancellable(Box::new(stream));
    let (request_sender, mut requests) = mpsc::channel(4);
    let handler =
        SshHandler { server: Arc::clone(&server), channels: Vec::new(), requests: request_sender };
    let Ok(mut session) = run_stream(Arc::clone(&server.config), stream, handler).await else {
        return;
    };
    let handle = session.handle();
    let mut commands = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut session => return,
            Some(request) = requests.recv() => {
                commands.spawn(run_command(Arc::clone(&server), request, handle.clone()));
            }
            Some(exit) = commands.join_next() => {
                if matches!(exit, Ok(ProbeExit::Disconnected)) {
                    return;
                }
            }
        }
    }
}

/// An exec request on a channel.
struct ExecRequest {
    channel: Channel<Msg>,
    line: String,
}

async fn run_command(server: Arc<SshServer>, request: ExecRequest, handle: Handle) -> ProbeExit {
    let id = request.channel.id();
    let (reader, writer) = request.channel.split();
    let (input_sender, input) = mpsc::channel(8);
    // Room for hello, an error and a sample; if the client does not read, new frames are dropped.
    let (output, output_receiver) = mpsc::channel(4);
    let (reading, writing) =
        (pump_input(reader, input_sender), pump_output(&writer, output_receiver));
    let command = server.node.run_command(&request.line, input, output);
    tokio::pin!(reading, writing, command);
    let (mut is_reading, mut is_writing) = (true, true);
    let exit = loop {
        tokio::select! {
            exit = &mut command => break exit,
            () = &mut reading, if is_reading => is_reading = false,
            () = &mut writing, if is_writing => is_writing = false,
        }
    };
    match exit {
        ProbeExit::Exited(status) => {
            if is_writing {
                drop(timeout(FLUSH_TIMEOUT, writing).await);
            }
            drop(writer.exit_status(status).await);
        }
        ProbeExit::Killed => {
            let none = String::new();
            let _ = handle.exit_signal_request(id, Sig::ALRM, false, none.clone(), none).await;
        }
        ProbeExit::Disconnected => return exit,
    }
    drop(writer.eof().await);
    drop(writer.close().await);
    exit
}

/// Forwards input until the client closes it.
async fn pump_input(mut reader: ChannelReadHalf, sender: mpsc::Sender<Bytes>) {
    while let Some(message) = reader.wait().await {
        if matches!(message, ChannelMsg::Eof | ChannelMsg::Close) {
            return;
        }
        let ChannelMsg::Data { data } = message else { continue };
        if sender.send(data).await.is_err() {
            return;
        }
    }
}

async fn pump_output(writer: &ChannelWriteHalf<Msg>, mut receiver: mpsc::Receiver<Bytes>) {
    while let Some(bytes) = receiver.recv().await {
        if writer.data_bytes(bytes).await.is_err() {
            return;
        }
    }
}

/// Authenticates clients and accepts exec requests.
struct SshHandler {
    server: Arc<SshServer>,
    channels: Vec<Channel<Msg>>,
    requests: mpsc::Sender<ExecRequest>,
}

impl SshHandler {
    fn check_key(&self, key: &russh::keys::PublicKey) -> Auth {
        let is_refused = self.server.node.fault == Some(InjectedFault::RefuseAuth);
        if !is_refused && *key.key_data() == self.server.client_key {
            Auth::Accept
        } else {
            Auth::reject()
        }
    }
}

impl Handler for SshHandler {
    type Error = russh::Error;

    async fn auth_publickey_offered(
        &mut self,
        _user: &str,
        offer: PublicKeyOffer<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(self.check_key(offer.public_key))
    }

    async fn auth_publickey(
        &mut self,
        _user: &str,
        key: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(self.check_key(key.public_key))
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        // OpenSSH's default MaxSessions.
        if self.channels.len() < 10 {
            self.channels.push(channel);
            reply.accept().await;
        }
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        if self.server.node.fault == Some(InjectedFault::NeverAnswerExec) {
            return Ok(());
        }
        let Some(index) = self.channels.iter().position(|channel| channel.id() == id) else {
            return session.channel_failure(id);
        };
        session.channel_success(id)?;
        let channel = self.channels.swap_remove(index);
        let line = String::from_utf8_lossy(command).into_owned();
        if self.requests.send(ExecRequest { channel, line }).await.is_err() {
            return Err(russh::Error::SendError);
        }
        Ok(())
    }
}
