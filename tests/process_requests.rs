//! Questions to nodes, from who asks to the process that is meant and back: through a real probe on this machine, and
//! through simulated nodes that answer well, oddly, or not at all.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gtop::internals::export::write_json;
use gtop_collect::collect::{CollectorConfig, NodeClient};
use gtop_collect::sim::{self, FleetSpec, InjectedFault, Machine, SampleRequest, SimFleet};
use gtop_collect::transport::{Options, Reach, Target};
use gtop_fleet::{Fleet, FleetReader, Node};
use gtop_local::time::Clock;
use gtop_model::{
    Link, NodeName, ProcessKey, ProcessRequest, ProcessResponse, Reading, Refusal, RequestError,
    Signal,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::harness::collecting::{self, Collected, sim_target, start_time_lapse};
use crate::harness::sleeper::Sleeper;

/// How long anything may take on a busy machine before the test gives up.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Nodes that are watched, and what asks them.
struct Monitor {
    fleet: FleetReader,
    clock: Clock,
    config: watch::Sender<CollectorConfig>,
    client: NodeClient,
    names: Vec<NodeName>,
    served: Option<SimFleet>,
    tasks: JoinSet<()>,
    _time_lapse: JoinSet<()>,
}

const INTERVAL: Duration = Duration::from_millis(500);

fn monitor(interval: Duration, targets: &[Target], clock: &Clock) -> Monitor {
    let names = targets.iter().map(|target| target.name.clone()).collect();
    let Collected { fleet, config, client, tasks } =
        collecting::collect(Options::of_this_process(), interval, targets, clock);
    let clock = clock.clone();
    let (served, time_lapse) = (None, JoinSet::new());
    Monitor { fleet, clock, config, client, names, served, tasks, _time_lapse: time_lapse }
}

/// Watches simulated nodes in the runtime's own time, which must be paused.
async fn monitor_sim(population: &FleetSpec) -> Monitor {
    let served = sim::serve(population).await.unwrap();
    let targets: Vec<_> = served.nodes.iter().map(sim_target).collect();
    let (clock, time_lapse) = start_time_lapse();
    Monitor { served: Some(served), _time_lapse: time_lapse, ..monitor(INTERVAL, &targets, &clock) }
}

/// Watches this machine.
fn monitor_local(interval: Duration) -> Monitor {
    let target = Target { name: NodeName::new("here").unwrap(), reach: Reach::Local };
    monitor(interval, &[target], &Clock::system())
}

impl Monitor {
    async fn until(&mut self, what: &str, is_so: impl FnMut(&Fleet) -> bool) -> Fleet {
        if let Ok(fleet) = timeout(TIMEOUT, self.fleet.wait_for(is_so)).await {
            return fleet.unwrap().clone();
        }
        panic!("waited in vain for {what}")
    }

    /// Waits until the node at this place is up and its processes are known.
    async fn wait_settled(&mut self, node_index: usize) -> Arc<Node> {
        let is_so = |fleet: &Fleet| {
            let node = fleet.nodes.get(node_index).unwrap();
            node.link == Link::Up && node.is_settled
        };
        Arc::clone(self.until("the node", is_so).await.nodes.get(node_index).unwrap())
    }

    async fn ask(
        &self,
        node_index: usize,
        request: ProcessRequest,
    ) -> Result<ProcessResponse, RequestError> {
        self.client.request(self.names.get(node_index).unwrap(), request, TIMEOUT).await
    }

    async fn end(mut self) {
        self.config.send_modify(|config| config.is_stopping = true);
        timeout(TIMEOUT, self.tasks.join_next()).await.unwrap();
        if let Some(served) = self.served {
            served.stop().await;
        }
    }
}

/// A process of ada's, or of somebody else.
fn find_process(node: &Node, is_ours: bool) -> Option<ProcessKey> {
    let is_adas = |user: &Reading<Arc<str>>| user.known().is_some_and(|user| &**user == "ada");
    let mut all = node.processes.iter();
    all.find(|process| is_adas(&process.statics.user) == is_ours).map(|process| process.key)
}

#[tokio::test]
async fn a_local_process_is_queried_and_signalled() {
    let mut monitor = monitor_local(INTERVAL);
    let mut sleeper = Sleeper::with(|command| command.env("TOKEN", "hunter2"));
    let mut other = Sleeper::new();
    monitor.wait_settled(0).await;
    let key = sleeper.key();
    let Ok(ProcessResponse::Environment(found)) =
        monitor.ask(0, ProcessRequest::Environment(key)).await
    else {
        panic!("no environment")
    };
    let token = found.variables.iter().find(|variable| &*variable.name == "TOKEN");
    assert_eq!(token.map(|variable| &*variable.value), Some("hunter2"));
    let Ok(ProcessResponse::Detail(detail)) = monitor.ask(0, ProcessRequest::Detail(key)).await
    else {
        panic!("no detail")
    };
    let here = std::env::current_dir().unwrap();
    assert_eq!(detail.directory.known().map(|path| &**path), here.to_str());
    assert!(detail.io.get().is_some() && detail.limits.len() > 10);
    let Ok(ProcessResponse::Tree(tree)) = monitor.ask(0, ProcessRequest::Tree(Some(key))).await
    else {
        panic!("no tree")
    };
    let own = tree.processes.iter().find(|process| process.key == key).unwrap();
    assert_eq!(own.parent_pid, std::process::id());
    let late = ProcessKey { start_ticks: key.start_ticks + 1, ..key };
    let wrong = monitor.ask(0, ProcessRequest::Signal(late, Signal::Kill)).await;
    assert_eq!(wrong, Err(RequestError::Refused(Refusal::Reused)));
    let readonly = monitor.client.clone().readonly();
    let refused = readonly
        .request(&monitor.names[0], ProcessRequest::Signal(key, Signal::Kill), TIMEOUT)
        .await;
    assert_eq!(refused, Err(RequestError::ReadOnly));
    assert!(sleeper.is_alive());
    let sent = monitor.ask(0, ProcessRequest::Signal(key, Signal::Terminate)).await;
    assert_eq!(sent, Ok(ProcessResponse::Sent));
    assert!(!sleeper.0.wait().unwrap().success());
    assert!(other.is_alive(), "the other one lives");
    let init = ProcessKey { pid: 1, start_ticks: 0 };
    let refused = monitor.ask(0, ProcessRequest::Signal(init, Signal::Kill)).await;
    assert!(matches!(refused, Err(RequestError::Refused(Refusal::NotAllowed(_)))), "{refused:?}");
    monitor.end().await;
}

#[tokio::test(start_paused = true)]
async fn many_nodes_answer_many_requests_at_once() {
    let mut monitor = monitor_sim(&FleetSpec::busy(6, 2, 4, 7)).await;
    let mut asking = JoinSet::new();
    for node_index in 0..6 {
        let node = monitor.wait_settled(node_index).await;
        for key in node.processes.iter().map(|process| process.key) {
            let (client, name) = (monitor.client.clone(), node.name.clone());
            asking.spawn(async move {
                let detail = client.request(&name, ProcessRequest::Detail(key), TIMEOUT).await;
                let Ok(ProcessResponse::Detail(detail)) = detail else { panic!("{detail:?}") };
                assert_eq!(detail.process.key, key);
                let tree = client.request(&name, ProcessRequest::Tree(None), TIMEOUT).await;
                let Ok(ProcessResponse::Tree(tree)) = tree else { panic!("{tree:?}") };
                assert!(tree.processes.iter().any(|process| process.key == key));
            });
        }
    }
    let mut count = 0;
    while let Some(done) = asking.join_next().await {
        done.unwrap();
        count += 1;
    }
    assert!(count >= 12, "{count}");
    monitor.end().await;
}

#[tokio::test(start_paused = true)]
async fn signals_reach_own_processes_only() {
    let mut monitor = monitor_sim(&FleetSpec::demo(12, 5)).await;
    let (mut ours, mut theirs) = (None, None);
    for node_index in 0..8 {
        let node = monitor.wait_settled(node_index).await;
        ours = ours.or(find_process(&node, true).map(|key| (node_index, key)));
        theirs = theirs.or(find_process(&node, false).map(|key| (node_index, key)));
    }
    let ((node_index, key), signal) = (ours.unwrap(), Signal::Interrupt);
    assert_eq!(
        monitor.ask(node_index, ProcessRequest::Signal(key, signal)).await,
        Ok(ProcessResponse::Sent)
    );
    let gone = ProcessKey { pid: 3, ..key };
    let response = monitor.ask(node_index, ProcessRequest::Signal(gone, signal)).await;
    assert_eq!(response, Err(RequestError::Refused(Refusal::Gone)));
    let (node_index, key) = theirs.unwrap();
    for request in [ProcessRequest::Signal(key, signal), ProcessRequest::Environment(key)] {
        let response = monitor.ask(node_index, request).await;
        assert!(
            matches!(response, Err(RequestError::Refused(Refusal::NotAllowed(_)))),
            "{response:?}"
        );
    }
    monitor.end().await;
}

#[tokio::test(start_paused = true)]
async fn impossible_requests_fail_at_once() {
    let population = FleetSpec::busy(2, 1, 1, 1)
        .with_fault(0, InjectedFault::RefusedPort)
        .with_fault(1, InjectedFault::NoPython);
    let mut monitor = monitor_sim(&population).await;
    let node = monitor.wait_settled(1).await;
    assert_eq!(monitor.ask(0, ProcessRequest::Tree(None)).await, Err(RequestError::Down));
    assert_eq!(monitor.ask(1, ProcessRequest::Tree(None)).await, Err(RequestError::Unsupported));
    let key = node.processes.first().unwrap().key;
    let response = monitor.ask(1, ProcessRequest::Signal(key, Signal::Continue)).await;
    assert!(
        matches!(response, Ok(ProcessResponse::Sent) | Err(RequestError::Refused(_))),
        "{response:?}"
    );
    let stranger = NodeName::new("nobody").unwrap();
    let response = monitor.client.request(&stranger, ProcessRequest::Tree(None), TIMEOUT).await;
    assert_eq!(response, Err(RequestError::UnknownNode));
    monitor.end().await;
}

#[tokio::test(start_paused = true)]
async fn requests_to_a_silent_node_time_out() {
    let population = FleetSpec::busy(1, 1, 1, 1).with_fault(0, InjectedFault::NoAnswers);
    let mut monitor = monitor_sim(&population).await;
    monitor.wait_settled(0).await;
    let name = monitor.names[0].clone();
    let deadline = Duration::from_millis(300);
    // More than may wait at once: those whose callers gave up free their places.
    for _ in 0..20 {
        let response = monitor.client.request(&name, ProcessRequest::Tree(None), deadline).await;
        assert_eq!(response, Err(RequestError::TimedOut(deadline)));
    }
    // When the session is lost, so is what was asked in it.
    let client = monitor.client.clone();
    let asking =
        tokio::spawn(
            async move { client.request(&name, ProcessRequest::Tree(None), TIMEOUT).await },
        );
    tokio::time::sleep(Duration::from_millis(300)).await;
    monitor.served.take().unwrap().stop().await;
    assert_eq!(asking.await.unwrap(), Err(RequestError::SessionLost));
    monitor.until("the loss", |fleet| fleet.nodes.iter().all(|node| node.link != Link::Up)).await;
    assert_eq!(monitor.ask(0, ProcessRequest::Tree(None)).await, Err(RequestError::Down));
    monitor.end().await;
}

/// Everything that was logged in this process.
static LOG: Mutex<String> = Mutex::new(String::new());

struct CapturingLogger;

impl log::Log for CapturingLogger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        use std::fmt::Write as _;
        writeln!(LOG.lock().unwrap(), "{}", record.args()).unwrap();
    }

    fn flush(&self) {}
}

#[tokio::test(start_paused = true)]
async fn corrupt_answers_are_dropped_and_secrets_are_not_exported() {
    log::set_logger(&CapturingLogger).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let of_adas = |seed: &u64| {
        let population = FleetSpec::busy(1, 2, 4, *seed);
        let machine = Machine::new(&population, 0, &NodeName::new("gpu01").unwrap());
        let sample = machine.sample(0.0, SampleRequest { full: true, ..SampleRequest::default() });
        sample.processes.unwrap().list.iter().any(|one| {
            one.statics.as_ref().is_some_and(|facts| facts.user.as_deref() == Some("ada"))
        })
    };
    let seed = (0..1000).find(of_adas).unwrap();
    let population = FleetSpec::busy(1, 2, 4, seed).with_fault(0, InjectedFault::CorruptAnswers);
    let mut monitor = monitor_sim(&population).await;
    let node = monitor.wait_settled(0).await;
    let key = find_process(&node, true).unwrap();
    for _ in 0..3 {
        let response = monitor.ask(0, ProcessRequest::Environment(key)).await;
        let Ok(ProcessResponse::Environment(found)) = &response else { panic!("{response:?}") };
        // The first with the right id counts; the same once more is dropped.
        let shown: Vec<&str> = found.variables.iter().map(|one| &*one.value).collect();
        assert_eq!(shown, [" ]52;c;aGk=  2J "]);
    }
    let signal = monitor.ask(0, ProcessRequest::Signal(key, Signal::Continue)).await;
    assert_eq!(signal, Ok(ProcessResponse::Sent));
    let tree = monitor.ask(0, ProcessRequest::Tree(None)).await;
    assert!(matches!(tree, Ok(ProcessResponse::Tree(_))), "{tree:?}");
    let fleet = monitor.fleet.borrow().clone();
    assert!(fleet.nodes.iter().all(|node| node.link == Link::Up), "a session ended");
    let mut json = Vec::new();
    write_json(&mut json, &fleet, monitor.clock.now(), "test").unwrap();
    let everything =
        format!("{}{}{fleet:?}", String::from_utf8(json).unwrap(), LOG.lock().unwrap());
    assert!(
        LOG.lock().unwrap().contains("a response to no pending request"),
        "unexpected responses are logged"
    );
    for secret in ["aGk=", "SECRET", "WANDB", "not-a-secret"] {
        assert!(!everything.contains(secret), "{secret} is written down");
    }
    monitor.end().await;
}

#[tokio::test]
async fn the_first_hello_is_enough_for_requests() {
    // At any other interval a probe sends its hello again.
    let mut monitor = monitor_local(Duration::from_secs(1));
    monitor.wait_settled(0).await;
    let response = monitor.ask(0, ProcessRequest::Tree(None)).await;
    assert!(matches!(response, Ok(ProcessResponse::Tree(_))), "{response:?}");
    monitor.end().await;
}
