//! A running step: routes its output to the nodes' sessions, writes its stdin, reports its end to all.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::ChildStdin;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::model::{JobId, NodeName};
use crate::transport::channel::{Exit, Output};
use crate::transport::fault::{Fault, StepCause};
use crate::transport::file_cache::lock;
use crate::transport::process::LocalProcess;
use crate::transport::srun::MAX_PENDING_OUTPUT;
use crate::transport::srun::demux::{Demux, DemuxedLine};
use crate::transport::srun::{cluster, messages};

/// How long to wait for more nodes after the first before the probe is sent; later nodes read it from the
/// buffered stdin.
const JOIN_WINDOW: Duration = Duration::from_secs(10);
/// Timeout for the first node, on top of the connect timeout.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the step to exit after EOF, and again after SIGTERM.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Most bytes of srun's stderr that are kept.
const MAX_STDERR: usize = 4096;
/// Most lines kept of a node's hello.
const MAX_HELLO_LINES: usize = 512;

/// The state shared by a step's program and its nodes' sessions.
#[derive(Debug)]
pub(super) struct Router {
    pub(super) nonce: String,
    /// Timeout for the step to start.
    connect_limit: Duration,
    state: Mutex<State>,
    is_up: Notify,
    is_gone: Notify,
    /// The step must terminate.
    is_to_end: Notify,
}

#[derive(Debug)]
struct State {
    members: BTreeMap<NodeName, Member>,
    began: Instant,
    /// When the first node announced itself.
    up: Option<Instant>,
    /// Why the step has ended.
    end: Option<Fault>,
    /// When the program exited.
    ended: Option<Instant>,
}

#[derive(Debug, Default)]
struct Member {
    /// The announcement of its loader, in the form of a single node's loader.
    greeting: Option<Vec<u8>>,
    hello: Vec<Vec<u8>>,
    seat: Option<mpsc::Sender<Output>>,
    /// Why its task has ended.
    end: Option<Fault>,
}

impl Router {
    pub(super) fn new(nodes: &[NodeName], nonce: &str, connect_limit: Duration) -> Self {
        let members = nodes.iter().map(|node| (node.clone(), Member::default())).collect();
        let state = State { members, began: Instant::now(), up: None, end: None, ended: None };
        Self {
            nonce: nonce.to_owned(),
            connect_limit,
            state: Mutex::new(state),
            is_up: Notify::new(),
            is_gone: Notify::new(),
            is_to_end: Notify::new(),
        }
    }

    /// Subscribes to the output of a node; replays its announcement and hello.
    pub(super) fn subscribe(&self, node: &NodeName) -> Result<mpsc::Receiver<Output>, Fault> {
        let mut state = lock(&self.state);
        let Some(member) = state.members.get_mut(node) else {
            return Err(Fault::step(StepCause::NotInStep, "the step does not include it"));
        };
        if let Some(fault) = &member.end {
            let why = format!("its task has ended: {}", fault.headline());
            return Err(Fault::step(StepCause::NotInStep, &why));
        }
        let (seat, outputs) = mpsc::channel(MAX_PENDING_OUTPUT + MAX_HELLO_LINES + 1);
        for line in member.greeting.iter().chain(&member.hello) {
            // The channel is empty and large enough.
            seat.try_send(Output::Stdout(line.clone())).ok();
        }
        member.seat = Some(seat);
        Ok(outputs)
    }

    /// Returns why the step has ended, or `None` while it runs.
    pub(super) fn end(&self) -> Option<Fault> {
        lock(&self.state).end.clone()
    }

    pub(super) fn started_at(&self) -> Instant {
        lock(&self.state).began
    }

    pub(super) fn ended_at(&self) -> Option<Instant> {
        lock(&self.state).ended
    }

    /// Returns why the output of a node ended.
    pub(super) fn why_closed(&self, node: &NodeName) -> Option<Fault> {
        let state = lock(&self.state);
        let own = state.members.get(node).and_then(|member| member.end.clone());
        own.or_else(|| state.end.clone())
    }

    /// Terminates the step.
    pub(super) fn finish(&self, why: Fault) {
        self.close(why);
        self.is_to_end.notify_one();
    }

    /// Waits until the program has exited.
    pub(super) async fn wait_until_ended(&self) {
        loop {
            let mut notified = pin!(self.is_gone.notified());
            notified.as_mut().enable();
            if self.ended_at().is_some() {
                return;
            }
            notified.await;
        }
    }

    /// Waits until a node that is expected from now on is overdue: counted from the first node of the step, or, until
    /// srun has started the step, by the start timeout.
    pub(super) async fn late(&self) {
        let asked = Instant::now();
        let begun_by = self.started_at() + self.connect_limit + START_TIMEOUT;
        if let Ok(up) = timeout_at(begun_by.max(asked + JOIN_WINDOW), self.first()).await {
            sleep_until(up.max(asked) + JOIN_WINDOW).await;
        }
    }

    /// Waits for the first announcement and returns its time.
    async fn first(&self) -> Instant {
        loop {
            let mut notified = pin!(self.is_up.notified());
            notified.as_mut().enable();
            if let Some(up) = self.first_joined_at() {
                return up;
            }
            notified.await;
        }
    }

    fn first_joined_at(&self) -> Option<Instant> {
        lock(&self.state).up
    }

    fn close(&self, why: Fault) {
        let mut state = lock(&self.state);
        state.end.get_or_insert(why);
        for member in state.members.values_mut() {
            member.seat = None;
        }
    }

    /// Returns true if every node has announced itself or ended.
    fn is_complete(&self) -> bool {
        let state = lock(&self.state);
        state.members.values().all(|member| member.greeting.is_some() || member.end.is_some())
    }

    /// Handles a line of a node.
    fn on_line(&self, sorted: DemuxedLine) {
        let mut state = lock(&self.state);
        match sorted {
            DemuxedLine::Greeting { node, greeting } => {
                let Some(member) = state.members.get_mut(&node) else { return };
                member.greeting = Some(greeting.clone());
                member.forward(greeting);
                if state.up.is_none() {
                    state.up = Some(Instant::now());
                    self.is_up.notify_waiters();
                }
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
    fn on_stderr(&self, complaint: &str) {
        for (nodes, fault) in messages::ended_tasks(complaint) {
            let mut state = lock(&self.state);
            for node in nodes {
                let Some(member) = state.members.get_mut(&node) else { continue };
                member.end.get_or_insert(fault.clone());
                member.seat = None;
            }
        }
    }
}

impl Member {
    fn forward(&mut self, line: Vec<u8>) {
        // A slow session misses lines, detects that, and requests a full sample.
        if let Some(seat) = &self.seat {
            seat.try_send(Output::Stdout(line)).ok();
        }
    }
}

/// The task that runs a step's program.
pub(super) struct StepTask {
    pub(super) job: JobId,
    pub(super) local: LocalProcess,
    pub(super) router: Arc<Router>,
    pub(super) demux: Demux,
    /// Written once to all nodes.
    pub(super) input: Vec<u8>,
}

impl StepTask {
    /// Runs the program to its end. Terminates it when the last sender of commands is gone.
    pub(super) async fn run(
        mut self,
        commands: mpsc::WeakSender<Vec<u8>>,
        written: mpsc::Receiver<Vec<u8>>,
    ) {
        let router = Arc::clone(&self.router);
        let complaint = self.drive(commands, written).await;
        let fault = match complaint {
            Ok((exit, complaint)) => messages::srun_fault(&exit, &complaint),
            Err(fault) => fault,
        };
        // Kills its process group.
        drop(self.local);
        router.close(cluster::refine_fault(fault, &self.job).await);
        lock(&router.state).ended = Some(Instant::now());
        router.is_gone.notify_waiters();
    }

    async fn drive(
        &mut self,
        commands: mpsc::WeakSender<Vec<u8>>,
        written: mpsc::Receiver<Vec<u8>>,
    ) -> Result<(Exit, String), Fault> {
        let mut complaint = Vec::new();
        let mut input = Some(std::mem::take(&mut self.input));
        let mut writing = pin!(write(self.local.take_stdin(), written));
        // The deadline for the exit, and whether SIGTERM was sent.
        let mut leaving: Option<(Instant, bool)> = None;
        loop {
            if self.router.is_complete() {
                send(&commands, &mut input).await;
            }
            // Before that srun does not read, and a write would block.
            let due = self.router.first_joined_at().map(|up| up + JOIN_WINDOW);
            tokio::select! {
                output = self.local.next() => match output {
                    Output::Stdout(bytes) => {
                        self.demux.push(&bytes, |sorted| self.router.on_line(sorted));
                    }
                    Output::Stderr(bytes) => {
                        complaint.extend(bytes);
                        let surplus = complaint.len().saturating_sub(MAX_STDERR);
                        complaint.drain(..surplus);
                        self.router.on_stderr(&String::from_utf8_lossy(&complaint));
                    }
                    Output::Exit(exit) => {
                        return Ok((exit, String::from_utf8_lossy(&complaint).into_owned()));
                    }
                    Output::Closed(fault) => {
                        return Err(fault.map_or_else(super::super::ending, |fault| *fault));
                    }
                },
                () = &mut writing, if leaving.is_none() => {
                    leaving = Some((Instant::now() + EXIT_TIMEOUT, false));
                }
                () = self.router.is_to_end.notified() => {
                    self.local.terminate();
                    leaving = Some((Instant::now() + EXIT_TIMEOUT * 2, true));
                }
                () = sleep_until_opt(due), if input.is_some() => send(&commands, &mut input).await,
                () = sleep_until_opt(leaving.map(|(moment, _)| moment)) => match leaving {
                    Some((_, false)) => {
                        self.local.terminate();
                        leaving = Some((Instant::now() + EXIT_TIMEOUT * 2, true));
                    }
                    _ => return Err(super::super::ending()),
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
async fn write(input: Option<ChildStdin>, mut written: mpsc::Receiver<Vec<u8>>) {
    let Some(mut input) = input else { return };
    while let Some(bytes) = written.recv().await {
        if !matches!(timeout(WRITE_TIMEOUT, input.write_all(&bytes)).await, Ok(Ok(()))) {
            return;
        }
    }
}

async fn sleep_until_opt(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_is_late_ten_seconds_after_the_first_or_when_srun_takes_too_long() {
        let nodes = ["a", "b"].map(|name| NodeName::new(name).unwrap());
        // When the first node comes, when the session begins to wait, and when its node is late.
        for (first, asked, late) in [
            (None, 0, 630),
            (Some(1), 0, 11),
            (Some(25), 0, 35),
            (Some(2), 20, 30),
            (None, 700, 710),
        ] {
            let router = Arc::new(Router::new(&nodes, "n0nce", Duration::from_secs(600)));
            let began = router.started_at();
            let coming = Arc::clone(&router);
            let node = nodes[1].clone();
            tokio::spawn(async move {
                sleep_until_opt(first.map(|second| began + Duration::from_secs(second))).await;
                coming.on_line(DemuxedLine::Greeting { node, greeting: b"n0nce".to_vec() });
            });
            sleep_until(began + Duration::from_secs(asked)).await;
            router.late().await;
            assert_eq!(began.elapsed().as_secs(), late, "{first:?} {asked}");
        }
    }
}
