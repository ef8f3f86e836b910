//! Everything that watches, on a thread of its own: sessions, pipeline, publishing.
//!
//! The screen never waits for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use crate::collect::{Collector, Orders};
use crate::fleet::{Board, FleetReader, Pace};
use crate::model::NodeName;
use crate::pipeline::Pipeline;
use crate::time::Clock;
use crate::transport::{Target, Transport};

/// How long sessions may take to say goodbye. What is not closed then, the kernel closes.
const FAREWELL: Duration = Duration::from_millis(1500);

/// What watching needs to know.
#[derive(Debug)]
pub(super) struct Plan {
    /// Whom.
    pub(super) targets: Vec<Target>,
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
    board: Arc<Board>,
    orders: watch::Sender<Orders>,
    ended: Receiver<()>,
}

impl Watch {
    /// Starts watching.
    pub(super) fn start(plan: Plan) -> io::Result<Self> {
        let names: Vec<NodeName> = plan.targets.iter().map(|target| target.name.clone()).collect();
        let board = Board::new(names, plan.history);
        let (orders, followed) = watch::channel(Orders::every(plan.interval));
        let (ending, ended) = channel();
        let published = Arc::clone(&board);
        let Plan { targets, transport, clock, history, max_connecting, .. } = plan;
        let collector = Collector::new(transport, clock, followed, max_connecting);
        let runtime = collector.runtime()?;
        thread::Builder::new().name("sessions".to_owned()).spawn(move || {
            runtime.block_on(run(targets, collector, published, history));
            // A name service that hangs must not hold up the end.
            runtime.shutdown_background();
            // Nobody may be waiting any more.
            ending.send(()).ok();
        })?;
        Ok(Self { board, orders, ended })
    }

    /// Returns a reader of the fleet.
    pub(super) fn fleet(&self) -> FleetReader {
        self.board.reader()
    }

    /// Asks every node for everything, and tries those that are down.
    pub(super) fn refresh(&self) {
        self.orders.send_modify(|orders| orders.refresh += 1);
    }

    /// Samples one node faster than the others.
    pub(super) fn focus(&self, node: Option<NodeName>) {
        self.board.focus(node.clone());
        self.orders.send_modify(|orders| orders.focus = node);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.orders.send_modify(|orders| orders.is_ending = true);
        // Whether it ended or took too long: the program goes on.
        self.ended.recv_timeout(FAREWELL).ok();
    }
}

async fn run(targets: Vec<Target>, collector: Collector, board: Arc<Board>, history: Duration) {
    let pipeline = Pipeline::new(Arc::clone(&board), history);
    let targets = targets
        .into_iter()
        .map(|target| {
            let intake = pipeline.intake(target.name.clone());
            (target, intake)
        })
        .collect();
    tokio::select! {
        () = collector.run(targets) => {}
        () = board.publish(Pace::default()) => {}
    }
}
