//! Pictures without a screen: one complete picture, or one an interval.

use std::io::{self, Write};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
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
        let mut fleet = watch.fleet();
        let waiting = async {
            // When nothing is published any more there is nothing to wait for.
            drop(fleet.wait_for(is_complete).await);
        };
        tokio::select! {
            _late = timeout(deadline, waiting) => {}
            ending = until_signal() => return ending,
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
        let mut tick = interval(every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick.tick().await;
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                ending = until_signal() => return ending,
            }
            let now = fleet.borrow().clone();
            self.print(&now, out)?;
        }
    }

    fn print(&self, fleet: &Fleet, out: &mut impl Write) -> io::Result<()> {
        let now = self.clock.now();
        if self.is_json {
            write_json(out, fleet, now, self.source)?;
        } else {
            write_table(out, fleet, now)?;
        }
        out.flush()
    }
}

/// A picture is complete when every node has rates or is down.
fn is_complete(fleet: &Fleet) -> bool {
    fleet.nodes.iter().all(|node| node.is_settled || node.fault().is_some())
}

fn any_answered(fleet: &Fleet) -> bool {
    fleet.nodes.iter().any(|node| node.taken_at().is_some())
}

async fn until_signal() -> io::Result<Ending> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(tokio::select! {
        _ = interrupt.recv() => Ending::Interrupted,
        _ = terminate.recv() => Ending::Terminated,
        _ = hang_up.recv() => Ending::HungUp,
    })
}
