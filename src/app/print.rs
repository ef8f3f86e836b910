//! Pictures without a screen: one complete picture, or one an interval.

use std::io::{self, Write};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::app::Ending;
use crate::app::watch::Watch;
use crate::export::{write_json, write_table};
use crate::fleet::{Fleet, FleetReader};
use crate::time::Clock;

/// How pictures are printed.
#[derive(Debug)]
pub(super) struct Printing<'a> {
    /// As JSON, or as a table.
    pub(super) is_json: bool,
    /// What is watched.
    pub(super) source: &'a str,
    /// Whose time.
    pub(super) clock: Clock,
}

impl Printing<'_> {
    /// Prints one picture as soon as it is complete, or when `deadline` has passed.
    pub(super) async fn once(
        &self,
        watch: &Watch,
        deadline: Duration,
        out: &mut impl Write,
    ) -> io::Result<Ending> {
        let mut signals = Signals::new()?;
        let mut fleet = watch.fleet();
        let waiting = async {
            // When nothing is published any more there is nothing to wait for.
            drop(fleet.wait_for(is_complete).await);
        };
        tokio::select! {
            _late = timeout(deadline, waiting) => {}
            ending = signals.next() => return Ok(ending),
        }
        let fleet = watch.fleet().borrow().clone();
        self.print(&fleet, out)?;
        Ok(if any_answered(&fleet) { Ending::Done } else { Ending::NobodyAnswered })
    }

    /// Prints a picture an interval, whatever nodes do, until a signal comes.
    pub(super) async fn forever(
        &self,
        fleet: &FleetReader,
        every: Duration,
        out: &mut impl Write,
    ) -> io::Result<Ending> {
        let mut signals = Signals::new()?;
        let mut tick = interval(every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick.tick().await;
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                ending = signals.next() => return Ok(ending),
            }
            let now = fleet.borrow().clone();
            self.print(&now, out)?;
        }
    }

    fn print(&self, fleet: &Fleet, out: &mut impl Write) -> io::Result<()> {
        let now = self.clock.now();
        // One write: standard output breaks what it gets in pieces into many.
        let mut picture = Vec::new();
        if self.is_json {
            write_json(&mut picture, fleet, now, self.source)?;
        } else {
            write_table(&mut picture, fleet, now)?;
        }
        out.write_all(&picture)?;
        out.flush()
    }
}

/// A picture is complete when the scheduler has answered, and every node has rates or is down.
fn is_complete(fleet: &Fleet) -> bool {
    let asked = fleet.jobs.as_ref();
    asked.is_none_or(|list| list.at.is_some() || list.problem.is_some())
        && fleet.nodes.iter().all(|node| node.is_settled || node.fault().is_some())
}

fn any_answered(fleet: &Fleet) -> bool {
    fleet.nodes.iter().any(|node| node.taken_at().is_some())
}

/// The signals that end gtop, taken once: one that comes while a picture is written waits.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> Ending {
        tokio::select! {
            _ = self.interrupt.recv() => Ending::Interrupted,
            _ = self.terminate.recv() => Ending::Terminated,
            _ = self.hang_up.recv() => Ending::HungUp,
        }
    }
}
