//! A running step: routes its output to the nodes' sessions, writes its stdin, reports its end to all.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::transport::sleep_until_some;
use crate::transport::srun::demux::{Demux, DemuxedLine};
use crate::transport::srun::{MAX_PENDING_OUTPUT, lost};
use crate::transport::srun::{cluster, messages};
use gtop_local::fault::{Fault, StepCause};
use gtop_local::lock::lock;
use gtop_local::process::{Exit, LocalProcess, Output, OutputTail};
use gtop_model::{JobId, NodeName};

/// How long to wait for more nodes after the first before the probe is sent; later nodes read it from the
/// buffered stdin.
const JOIN_WINDOW: Duration = Duration::from_secs(10);
/// Timeout for the first node, on top of the connect timeout.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the step to exit after EOF; twice as long after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Most bytes of srun's stderr that are kept.
const MAX_STDERR: usize = 4096;
/// Most lines kept of a node's hello.
const MAX_HELLO_LINES: usize = 512;

/// The state shared by a step's program and its nodes' sessions.
#[derive(Debug)]
pub(crate) struct Router {
    pub(crate) nonce: String,
    /// Timeout for the step to start.
    connect_timeout: Duration,
    pub(crate) started_at: Instant,
    /// When the first node announced itself.
    joined_at: watch::Sender<Option<Instant>>,
    /// When the program exited.
    exited_at: watch::Sender<Option<Instant>>,
    state: Mutex<State>,
    /// The step must terminate.
    terminate_requested: Notify,
}

#[derive(Debug)]
struct State {
    members: BTreeMap<NodeName, Member>,
    /// Why the step has ended.
    end: Option<Fault>,
}

#[derive(Debug, Default)]
struct Member {
    /// The announcement of its loader, in the form of a single node's loader.
    announcement: Option<Vec<u8>>,
    hello: Vec<Vec<u8>>,
    sender: Option<mpsc::Sender<Output>>,
    /// Why its task has ended.
    end: Option<Fault>,
}

impl Router {
    pub(crate) fn new(nodes: &[NodeName], nonce: &str, connect_limit: Duration) -> Self {
        let members = nodes.iter().map(|node| (node.clone(), Member::default())).collect();
        Self {
            nonce: nonce.to_owned(),
            connect_timeout: connect_limit,
            started_at: Instant::now(),
            joined_at: watch::Sender::default(),
            exited_at: watch::Sender::default(),
            state: Mutex::new(State { members, end: None }),
            terminate_requested: Notify::new(),
        }
    }

    /// Subscribes to the output of a node; replays its announcement and hello.
    pub(crate) fn subscribe(&self, node: &NodeName) -> Result<mpsc::Receiver<Output>, Fault> {
        let mut state = lock(&self.state);
        let Some(member) = state.members.get_mut(node) else {
            return Err(Fault::job_step(StepCause::NotInStep, "the step does not include it"));
        };
        if let Some(fault) = &member.end {
            let why = format!("its task has ended: {}", fault.cause_text());
            return Err(Fault::job_step(StepCause::NotInStep, &why));
        }
        let (sender, outputs) = mpsc::channel(MAX_PENDING_OUTPUT + MAX_HELLO_LINES + 1);
        for line in member.announcement.iter().chain(&member.hello) {
            // The channel is empty and large enough.
            sender.try_send(Output::Stdout(line.clone())).ok();
        }
        member.sender = Some(sender);
        Ok(outputs)
    }

    /// Returns why the step has ended, or `None` while it runs.
    pub(crate) fn end(&self) -> Option<Fault> {
        lock(&self.state).end.clone()
    }

    pub(crate) fn exited_at(&self) -> Option<Instant> {
        *self.exited_at.borrow()
    }

    /// Returns why the output of a node ended.
    pub(crate) fn close_fault(&self, node: &NodeName) -> Option<Fault> {
        let state = lock(&self.state);
        let task_end = state.members.get(node).and_then(|member| member.end.clone());
        task_end.or_else(|| state.end.clone())
    }

    /// Terminates the step.
    pub(crate) fn terminate(&self, why: Fault) {
        self.close(why);
        self.terminate_requested.notify_one();
    }

    /// Waits until the program has exited.
    pub(crate) async fn wait_until_exited(&self) {
        // The sender is in `self`.
        self.exited_at.subscribe().wait_for(Option::is_some).await.ok();
    }

    /// Waits until a node that is expected from now on is overdue: counted from the first node of the step, or, until
    /// srun has started the step, by the start timeout.
    pub(crate) async fn wait_until_overdue(&self) {
        let asked_at = Instant::now();
        let start_deadline = self.started_at + self.connect_timeout + START_TIMEOUT;
        let mut joined_at = self.joined_at.subscribe();
        let first = joined_at.wait_for(Option::is_some);
        let first = timeout_at(start_deadline.max(asked_at + JOIN_WINDOW), first).await;
        let up = first.ok().and_then(Result::ok).and_then(|up| *up);
        if let Some(up) = up {
            sleep_until(up.max(asked_at) + JOIN_WINDOW).await;
        }
    }

    fn close(&self, why: Fault) {
        let mut state = lock(&self.state);
        state.end.get_or_insert(why);
        for member in state.members.values_mut() {
            member.sender = None;
        }
    }

    /// Returns true if every node has announced itself or ended.
    fn is_complete(&self) -> bool {
        let state = lock(&self.state);
        state.members.values().all(|member| member.announcement.is_some() || member.end.is_some())
    }

    /// Handles a line of a node.
    fn on_line(&self, demuxed: DemuxedLine) {
        let mut state = lock(&self.state);
        match demuxed {
            DemuxedLine::Announcement { node, announcement } => {
                let Some(member) = state.members.get_mut(&node) else { return };
                member.announcement = Some(announcement.clone());
                member.forward(announcement);
                self.joined_at.send_if_modified(|at| {
                    let is_first = at.is_none();
                    at.get_or_insert_with(Instant::now);
                    is_first
                });
            }
            DemuxedLine::Line { node, line, hello } => {
                let Some(member) = state.members.get_mut(&node) else { return };
                if hello == Some(true) {
                    member.hello.clear();
                }
                if hello.is_some() && member.hello.len() < MAX_HELLO_LINES {
                    member.hello.push(line.clone());
                }
                member.forward(line);
            }
        }
    }

    /// Handles srun's messages about tasks that have ended.
    fn on_stderr(&self, stderr: &str) {
        for (nodes, fault) in messages::ended_tasks(stderr) {
            let mut state = lock(&self.state);
            for node in nodes {
                let Some(member) = state.members.get_mut(&node) else { continue };
                member.end.get_or_insert(fault.clone());
                member.sender = None;
            }
        }
    }
}

impl Member {
    fn forward(&mut self, line: Vec<u8>) {
        // A slow session misses lines, detects that, and requests a full sample.
        if let Some(sender) = &self.sender {
            sender.try_send(Output::Stdout(line)).ok();
        }
    }
}

/// The task that runs a step's program.
pub(crate) struct StepTask {
    pub(crate) job: JobId,
    pub(crate) local: LocalProcess,
    pub(crate) router: Arc<Router>,
    pub(crate) demux: Demux,
    /// Written once to all nodes.
    pub(crate) input: Vec<u8>,
}

impl StepTask {
    /// Runs the program to its end. Terminates it when the last sender of commands is gone.
    pub(crate) async fn run(
        mut self,
        commands: mpsc::WeakSender<Vec<u8>>,
        queued: mpsc::Receiver<Vec<u8>>,
    ) {
        let router = Arc::clone(&self.router);
        let stderr = self.supervise(commands, queued).await;
        let fault = match stderr {
            Ok((exit, stderr)) => messages::srun_fault(&exit, &stderr),
            Err(fault) => fault,
        };
        // Kills its process group.
        drop(self.local);
        router.close(cluster::refine_fault(fault, &self.job).await);
        router.exited_at.send_replace(Some(Instant::now()));
    }

    async fn supervise(
        &mut self,
        commands: mpsc::WeakSender<Vec<u8>>,
        queued: mpsc::Receiver<Vec<u8>>,
    ) -> Result<(Exit, String), Fault> {
        let mut stderr = OutputTail::new(MAX_STDERR);
        let mut input = Some(std::mem::take(&mut self.input));
        let mut writing = pin!(write(self.local.take_stdin(), queued));
        // The deadline for the exit, and whether SIGTERM was sent.
        let mut exit_deadline: Option<(Instant, bool)> = None;
        loop {
            if self.router.is_complete() {
                send(&commands, &mut input).await;
            }
            // Before that srun does not read, and a write would block.
            let join_deadline = self.router.joined_at.borrow().map(|up| up + JOIN_WINDOW);
            tokio::select! {
                output = self.local.next() => match output {
                    Ok(Output::Stdout(bytes)) => {
                        self.demux.feed(&bytes, |demuxed| self.router.on_line(demuxed));
                    }
                    Ok(Output::Stderr(bytes)) => {
                        stderr.push(&bytes);
                        self.router.on_stderr(&stderr.text());
                    }
                    Ok(Output::Exit(exit)) => return Ok((exit, stderr.text())),
                    Err(error) => return Err(lost(error)),
                },
                () = &mut writing, if exit_deadline.is_none() => {
                    exit_deadline = Some((Instant::now() + EXIT_TIMEOUT, false));
                }
                () = self.router.terminate_requested.notified() => {
                    self.local.terminate();
                    exit_deadline = Some((Instant::now() + EXIT_TIMEOUT * 2, true));
                }
                () = sleep_until_some(join_deadline), if input.is_some() => send(&commands, &mut input).await,
                () = sleep_until_some(exit_deadline.map(|(moment, _)| moment)) => match exit_deadline {
                    Some((_, false)) => {
                        self.local.terminate();
                        exit_deadline = Some((Instant::now() + EXIT_TIMEOUT * 2, true));
                    }
                    _ => return Err(lost(None)),
                },
            }
        }
    }
}

/// Queues the probe, once.
async fn send(commands: &mpsc::WeakSender<Vec<u8>>, input: &mut Option<Vec<u8>>) {
    let Some(bytes) = input.take() else { return };
    if let Some(commands) = commands.upgrade() {
        // The queue is empty; the writer may be gone.
        commands.send(bytes).await.ok();
    }
}

/// Writes to stdin until all senders are gone or a write fails.
async fn write(input: Option<ChildStdin>, mut queued: mpsc::Receiver<Vec<u8>>) {
    let Some(mut input) = input else { return };
    while let Some(bytes) = queued.recv().await {
        if !matches!(timeout(WRITE_TIMEOUT, input.write_all(&bytes)).await, Ok(Ok(()))) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_is_overdue_ten_seconds_after_the_first_or_when_srun_takes_too_long() {
        let nodes = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        // When the first node comes, when the session begins to wait, and when its node is late.
        for (first, asked_at, overdue) in [
            (None, 0, 630),
            (Some(1), 0, 11),
            (Some(25), 0, 35),
            (Some(2), 20, 30),
            (None, 700, 710),
        ] {
            let router = Arc::new(Router::new(&nodes, "n0nce", Duration::from_secs(600)));
            let began = router.started_at;
            let arriving = Arc::clone(&router);
            let node = nodes[1].clone();
            tokio::spawn(async move {
                sleep_until_some(first.map(|second| began + Duration::from_secs(second))).await;
                arriving
                    .on_line(DemuxedLine::Announcement { node, announcement: b"n0nce".to_vec() });
            });
            sleep_until(began + Duration::from_secs(asked_at)).await;
            router.wait_until_overdue().await;
            assert_eq!(began.elapsed().as_secs(), overdue, "{first:?} {asked_at}");
        }
    }
}
