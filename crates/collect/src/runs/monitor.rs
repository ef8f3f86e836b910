//! Runs the scripts of all folders and hosts on a thread of its own, so that it never blocks the screen.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::runs::client::{Inner, RunsClient, growth_of};
use crate::runs::message::Message;
use crate::runs::session::{ScriptSpec, SessionCommand, SessionEvent, index_as_session, supervise};
use crate::runs::store::Store;
use crate::transport::{Target, Transport};
use gtop_local::time::Clock;
use gtop_model::{NodeName, OutputGrowth, RunLimits, RunList};

/// Capacity of the queue of commands to one script; a full queue refuses requests.
const COMMAND_QUEUE_SIZE: usize = 64;
/// Capacity of the queue of events of all scripts; when it is full, the scripts wait.
const EVENT_QUEUE_SIZE: usize = 64;
/// Capacity of the queue of growing outputs; what does not fit is seen with the next growth.
const GROWTH_QUEUE_SIZE: usize = 8;

/// A folder of runs on a host, or logs that are followed there.
#[derive(Clone, Debug)]
pub struct RunSource {
    /// As it was named.
    pub label: Arc<str>,
    /// Its host.
    pub target: Target,
    /// The path of the folder; `None` for logs.
    pub folder: Option<String>,
    /// The paths of the logs.
    pub logs: Vec<String>,
}

/// The watched folders. Dropping it ends the scripts.
#[derive(Debug)]
pub struct RunsMonitor {
    list: watch::Receiver<Arc<RunList>>,
    client: RunsClient,
    growth: Option<mpsc::Receiver<OutputGrowth>>,
}

/// An event of a session: of a folder, by its index, or of a node.
struct SessionNews {
    of: SessionOf,
    /// The number of the session, which its outputs carry.
    session: u64,
    news: SessionEvent,
}

#[derive(Clone)]
enum SessionOf {
    Folder(usize),
    Node(NodeName),
}

impl RunsMonitor {
    /// Starts the scripts of the sources; those of hosts start when their processes are first asked for.
    pub fn start(
        transport: Transport,
        clock: Clock,
        sources: Vec<RunSource>,
        interval: Duration,
        limits: RunLimits,
    ) -> io::Result<Self> {
        let labels = sources.iter().map(|source| {
            let logs = source.logs.iter().map(|log| Arc::from(log.as_str())).collect();
            (Arc::clone(&source.label), source.target.name.clone(), logs)
        });
        let mut store = Store::new(labels, limits);
        store.publish();
        let list = store.subscribe();
        let (growth_sender, growth) = mpsc::channel(GROWTH_QUEUE_SIZE);
        let (start_sender, mut starts) =
            mpsc::channel::<(NodeName, Target, u64, mpsc::Receiver<SessionCommand>)>(
                COMMAND_QUEUE_SIZE,
            );
        let mut receivers = Vec::new();
        let mut folders = BTreeMap::new();
        for (index, source) in sources.iter().enumerate() {
            let (sender, receiver) = mpsc::channel(COMMAND_QUEUE_SIZE);
            folders.insert(Arc::clone(&source.label), (index, source.target.name.clone(), sender));
            receivers.push((index, receiver));
        }
        let inner = Inner::new(folders, start_sender, COMMAND_QUEUE_SIZE);
        let client = RunsClient::new(Arc::new(inner), list.clone());
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let serving = async move {
            let (event_sender, mut events) = mpsc::channel::<SessionNews>(EVENT_QUEUE_SIZE);
            let mut sessions = JoinSet::new();
            let mut spawn = |of: SessionOf, session: u64, spec: ScriptSpec, commands| {
                let (sender, transport) = (event_sender.clone(), transport.clone());
                sessions.spawn(supervise(transport, spec, commands, async move |news| {
                    // Fails if gtop ends.
                    sender.send(SessionNews { of: of.clone(), session, news }).await.ok();
                }));
            };
            for ((index, commands), source) in receivers.into_iter().zip(sources) {
                let RunSource { target, folder, logs, .. } = source;
                let spec = ScriptSpec { target, folder, logs, interval };
                spawn(SessionOf::Folder(index), index_as_session(index), spec, commands);
            }
            loop {
                let mut next = tokio::select! {
                    started = starts.recv() => {
                        // The client is gone: gtop ends.
                        let Some((node, target, session, commands)) = started else { return };
                        let spec = ScriptSpec { target, folder: None, logs: Vec::new(), interval };
                        spawn(SessionOf::Node(node), session, spec, commands);
                        continue;
                    }
                    Some(event) = events.recv() => Some(event),
                };
                let mut is_changed = false;
                // What arrived together is published together.
                while let Some(event) = next {
                    is_changed |= apply(&mut store, event, &growth_sender, &clock);
                    next = events.try_recv().ok();
                }
                if is_changed {
                    store.publish();
                }
            }
        };
        thread::Builder::new().name("runs".to_owned()).spawn(move || {
            runtime.block_on(serving);
            // A blocked name lookup must not delay the exit.
            runtime.shutdown_background();
        })?;
        Ok(Self { list, client, growth: Some(growth) })
    }

    /// Returns the list of runs, which changes.
    pub fn list(&self) -> watch::Receiver<Arc<RunList>> {
        self.list.clone()
    }

    /// Returns a client for requests.
    pub fn client(&self) -> RunsClient {
        self.client.clone()
    }

    /// Takes the news of followed outputs; `None` the second time.
    pub fn take_growth(&mut self) -> Option<mpsc::Receiver<OutputGrowth>> {
        self.growth.take()
    }
}

/// Takes an event into the store; returns true if the list has changed.
fn apply(
    store: &mut Store,
    SessionNews { of, session, news }: SessionNews,
    growth: &mpsc::Sender<OutputGrowth>,
    clock: &Clock,
) -> bool {
    let now = clock.now();
    let message = match (news, &of) {
        (SessionEvent::Fault(reason), SessionOf::Folder(index)) => {
            store.on_folder_fault(*index, &reason);
            return true;
        }
        (SessionEvent::Fault(reason), SessionOf::Node(node)) => {
            store.on_host_fault(node, &reason);
            return true;
        }
        (SessionEvent::Message(message), _) => *message,
    };
    match (message, of) {
        (Message::Hello(hello), SessionOf::Folder(index)) => {
            store.on_folder_hello(index, &hello, now);
        }
        (Message::Hello(hello), SessionOf::Node(node)) => store.on_host_hello(&node, &hello, now),
        (Message::Runs(changed), SessionOf::Folder(index)) => store.on_runs(index, changed, now),
        (Message::Logs { logs }, SessionOf::Folder(index)) => store.on_logs(index, logs, now),
        (Message::Tick { now: at, error }, SessionOf::Folder(index)) => {
            store.on_tick(index, at, error.as_deref(), now);
        }
        (Message::Processes(sample), SessionOf::Node(node)) => {
            store.on_processes(&node, sample, now);
        }
        (Message::Output(grown), _) => {
            if let Some(grown) = growth_of(session, grown) {
                // Full if the screen is slow; the next growth includes this one.
                growth.try_send(grown).ok();
            }
            return false;
        }
        _ => return false,
    }
    true
}
