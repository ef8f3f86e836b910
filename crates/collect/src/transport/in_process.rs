//! A node that runs in this process, as those of a large demo do: it takes commands without a connection.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use gtop_local::fault::Fault;
use gtop_local::process::{Exit, Output};
use gtop_ssh as ssh;

/// Maximum time for a command to end after its input.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Messages that wait for the command, or for its reader.
const QUEUED_MESSAGES: usize = 8;

/// Where a node of this process takes commands.
#[derive(Clone, Debug)]
pub struct InProcessNode {
    /// Tells the nodes of this process apart.
    pub number: u32,
    /// Closed if the node cannot be reached.
    pub commands: mpsc::Sender<InProcessCommand>,
}

impl PartialEq for InProcessNode {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

/// A command for a node, with the other ends of its channel.
#[derive(Debug)]
pub struct InProcessCommand {
    pub line: String,
    pub input: mpsc::Receiver<Bytes>,
    pub output: mpsc::Sender<Bytes>,
    /// Dropped if the connection is cut.
    pub exit: oneshot::Sender<Exit>,
}

/// The channel of a running command.
#[derive(Debug)]
pub struct InProcessChannel {
    input: Option<mpsc::Sender<Bytes>>,
    output: mpsc::Receiver<Bytes>,
    exit: Option<oneshot::Receiver<Exit>>,
}

impl InProcessNode {
    /// Starts a command.
    pub(super) async fn start(&self, line: &str) -> Result<InProcessChannel, Fault> {
        let (input_sender, input) = mpsc::channel(QUEUED_MESSAGES);
        let (output, output_receiver) = mpsc::channel(QUEUED_MESSAGES);
        let (exit, exit_receiver) = oneshot::channel();
        let command = InProcessCommand { line: line.to_owned(), input, output, exit };
        let sent = self.commands.send(command).await;
        sent.map_err(|_closed| ssh::Fault::Unreachable { why: "simulated".to_owned() })?;
        let (input, exit) = (Some(input_sender), Some(exit_receiver));
        Ok(InProcessChannel { input, output: output_receiver, exit })
    }
}

impl InProcessChannel {
    /// Waits for the next event, as [`Channel::next`](super::Channel::next) does.
    pub(super) async fn next(&mut self) -> Result<Output, Option<Fault>> {
        if let Some(bytes) = self.output.recv().await {
            return Ok(Output::Stdout(bytes.into()));
        }
        let exit = self.exit.as_mut().ok_or(None)?.await;
        self.exit = None;
        exit.map(Output::Exit).map_err(|_dropped| Some(lost()))
    }

    /// Passes bytes to the input of the command.
    pub(super) async fn send(&self, bytes: &[u8]) -> Result<(), Fault> {
        let input = self.input.as_ref().ok_or_else(lost)?;
        input.send(Bytes::copy_from_slice(bytes)).await.map_err(|_closed| lost())
    }

    pub(super) fn close_stdin(&mut self) {
        self.input = None;
    }

    /// Ends the input and waits for the command to end.
    pub(super) async fn shutdown(mut self) {
        self.close_stdin();
        let ending = async { while self.next().await.is_ok() {} };
        timeout(SHUTDOWN_TIMEOUT, ending).await.ok();
    }
}

fn lost() -> Fault {
    ssh::Fault::SessionLost { why: "the connection was cut".to_owned() }.into()
}
