//! Everything that watches, on a thread of its own: sessions, pipeline, publishing.
//!
//! The screen never waits for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use crate::app::discover::Discovery;
use crate::collect::{Asker, Collector, Orders};
use crate::fleet::{FleetReader, FleetStore, PublishRate};
use crate::inventory::{Roster, slurm};
use crate::model::{JobId, NodeName};
use crate::pipeline::Pipeline;
use crate::time::Clock;
use crate::transport::{Target, Transport};

/// How long sessions may take to say goodbye. What is not closed then, the kernel closes.
const FAREWELL: Duration = Duration::from_millis(1500);

/// What watching needs to know.
#[derive(Debug)]
pub(super) struct Plan {
    /// Whom.
    pub(super) discovery: Discovery,
    /// How they are reached.
    pub(super) transport: Transport,
    /// Whose time.
    pub(super) clock: Clock,
    /// How often.
    pub(super) interval: Duration,
    /// How long histories are kept.
    pub(super) history: Duration,
    /// How many connections may be opened at once.
    pub(super) max_connecting: u16,
}

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Watch {
    store: Arc<FleetStore>,
    orders: watch::Sender<Orders>,
    asker: Asker,
    discovery: Discovery,
    ended: Receiver<()>,
}

impl Watch {
    /// Starts watching.
    pub(super) fn start(plan: Plan) -> io::Result<Self> {
        let rosters = plan.discovery.rosters();
        let store = FleetStore::new([], plan.history);
        list(&store, &rosters.borrow());
        let (orders, followed) = watch::channel(Orders::every(plan.interval));
        let (ending, ended) = channel();
        let published = Arc::clone(&store);
        let Plan { discovery, transport, clock, history, max_connecting, .. } = plan;
        let collector = Collector::new(transport, clock, followed, max_connecting);
        let runtime = collector.runtime()?;
        let asker = collector.asker();
        thread::Builder::new().name("sessions".to_owned()).spawn(move || {
            runtime.block_on(run(rosters, collector, published, history));
            // A name service that hangs must not hold up the end.
            runtime.shutdown_background();
            // Nobody may be waiting any more.
            ending.send(()).ok();
        })?;
        Ok(Self { store, orders, asker, discovery, ended })
    }

    /// Returns a reader of the fleet.
    pub(super) fn fleet(&self) -> FleetReader {
        self.store.reader()
    }

    /// Returns who asks nodes about their processes.
    pub(super) fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Asks every node for everything, tries those that are down, and asks for a new roster.
    pub(super) fn refresh(&self) {
        self.discovery.refresh();
        self.order(|orders| orders.refresh += 1);
    }

    /// Asks about one job in detail.
    pub(super) fn look_at(&self, job: Option<JobId>) {
        self.discovery.look_at(job);
    }

    /// Samples every node so often from now on.
    pub(super) fn sample_every(&self, interval: Duration) {
        self.order(|orders| orders.interval = interval);
    }

    /// Samples one node faster than the others.
    pub(super) fn focus(&self, node: Option<NodeName>) {
        self.store.set_focus(node.clone());
        self.order(|orders| orders.focus = node);
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        self.orders.send_modify(change);
        self.asker.wake();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.order(|orders| orders.is_ending = true);
        // Whether it ended or took too long: the program goes on.
        self.ended.recv_timeout(FAREWELL).ok();
    }
}

/// Puts a roster on the store.
fn list(store: &FleetStore, roster: &Roster) {
    store.set_nodes(roster.targets.iter().map(|target| target.name.clone()), roster.jobs.clone());
}

async fn run(
    mut rosters: watch::Receiver<Arc<Roster>>,
    collector: Collector,
    store: Arc<FleetStore>,
    history: Duration,
) {
    let pipeline = Pipeline::new(Arc::clone(&store), history);
    let targets = |roster: &Roster| Arc::<[Target]>::from(roster.targets.as_slice());
    let transport = collector.transport();
    let know = |roster: &Roster| {
        if let Some(jobs) = &roster.jobs {
            transport.know_jobs(|before| slurm::choose_step_jobs(jobs, before));
            transport.know_addresses(roster.addresses.clone());
        }
    };
    // One look at it: what comes between two would be listed and not known.
    let first = Arc::clone(&rosters.borrow_and_update());
    list(&store, &first);
    know(&first);
    let (listed, followed) = watch::channel(targets(&first));
    let listing = async {
        while rosters.changed().await.is_ok() {
            let roster = Arc::clone(&rosters.borrow_and_update());
            list(&store, &roster);
            know(&roster);
            listed.send_replace(targets(&roster));
        }
        std::future::pending::<()>().await;
    };
    // A task of its own comes to its turn when all that arrived together is on the store.
    let publishing = tokio::spawn(Arc::clone(&store).publish(PublishRate::default()));
    tokio::select! {
        () = collector.follow(followed, |node| pipeline.intake(node.clone())) => {}
        _ended = publishing => {}
        () = listing => {}
    }
}
