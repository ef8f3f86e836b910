//! The life of one node: sessions, and the waits between them.

use std::pin::pin;
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::time::sleep;

use crate::collect::backoff::Backoff;
use crate::collect::session::{Ended, Missed, Session};
use crate::collect::visit::Visit;
use crate::collect::{Collector, Orders};
use crate::model::{Fault, FaultKind, Link};
use crate::transport::Target;
use crate::wire::{Delivery, Intake, News};

/// A connection that takes longer is waiting, not working: it gives its place to another, so that
/// nodes that never answer do not keep those that would from being asked.
const PATIENCE: Duration = Duration::from_secs(2);

/// Watches one node until the orders say that sessions are to end.
pub(super) async fn live(mut collector: Collector, target: Target, intake: Intake) {
    let mut life = Life { target, intake, too_slow: 0, shell: None };
    let mut backoff = Backoff::new();
    let mut attempt = 1;
    loop {
        let tried = Occasion::of(&collector.orders.borrow_and_update());
        let Some((fault, lasted)) = life.try_once(&mut collector, attempt).await else { return };
        if !lasted.is_zero() {
            backoff.after_session(lasted);
            attempt = 0;
        }
        log::info!("{}: {}", life.target.name, fault.message());
        let fault = fault.for_node(life.target.name.host());
        if matches!(fault.kind, FaultKind::AccountRefused | FaultKind::NoJob) {
            backoff.after_refusal();
        } else if fault.kind == FaultKind::NoBanner {
            backoff.after_crowd(attempt);
        }
        attempt += 1;
        let wait = fault.kind.retries_by_itself().then(|| backoff.next_wait(chance()));
        let retry_at = wait.map(|wait| collector.clock.now().plus(wait));
        life.tell(&collector, Link::Down { fault, retry_at });
        let shell = life.shell.take();
        if wait_for_retry(&mut collector, wait, tried, shell).await.is_none() {
            return;
        }
    }
}

struct Life {
    target: Target,
    intake: Intake,
    /// How often the login shell was too slow.
    too_slow: u32,
    /// The one that still is: there is no other before it is gone.
    shell: Option<Box<Visit>>,
}

impl Life {
    /// Opens a session and stays with it. Returns why it ended and how long it was up, or `None`
    /// when it was to end.
    async fn try_once(
        &mut self,
        collector: &mut Collector,
        attempt: u32,
    ) -> Option<(Fault, Duration)> {
        let opened = {
            let mut orders = collector.orders.clone();
            // Opening takes a large future, and a node opens seldom: it is kept no longer than that.
            let mut opening = Box::pin(self.open(collector, attempt));
            tokio::select! {
                opened = &mut opening => opened,
                () = until_ending(&mut orders) => return None,
            }
        };
        let session = match opened {
            Ok(session) => session,
            Err(Missed { fault, shell }) => {
                self.too_slow += u32::from(shell.is_some());
                self.shell = shell;
                return Some((fault, Duration::ZERO));
            }
        };
        let began = collector.clock.now();
        match session.run(collector, &mut self.intake).await {
            Ended::AsOrdered => None,
            Ended::Fault(fault) => {
                let lasted = collector.clock.now().since(began);
                Some((fault, lasted.max(Duration::from_millis(1))))
            }
        }
    }

    async fn open(&mut self, collector: &Collector, attempt: u32) -> Result<Box<Session>, Missed> {
        let place = (collector.permits.acquire().await, collector.haste.wait());
        self.tell(collector, Link::Opening { attempt });
        let interval = collector.orders.borrow().interval;
        let mut opening =
            Box::pin(Session::open(&collector.transport, &self.target, interval, self.too_slow));
        tokio::select! {
            opened = &mut opening => return opened,
            () = sleep(PATIENCE) => drop(place),
        }
        let _hurry = collector.haste.go_slowly();
        opening.await
    }

    fn tell(&mut self, collector: &Collector, link: Link) {
        let delivery = Delivery {
            node: self.target.name.clone(),
            at: collector.clock.now(),
            what: News::Link(link),
        };
        (self.intake)(delivery);
    }
}

/// What makes another try worth it before its time.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Occasion {
    refresh: u64,
    job_starts: u64,
}

impl Occasion {
    const fn of(orders: &Orders) -> Self {
        Self { refresh: orders.refresh, job_starts: orders.job_starts }
    }
}

/// Waits for the moment of the next try, and for the end of a login shell that is still at the last one; or for an
/// occasion. Returns `None` when all is to end.
async fn wait_for_retry(
    collector: &mut Collector,
    wait: Option<Duration>,
    tried: Occasion,
    shell: Option<Box<Visit>>,
) -> Option<()> {
    let mut due = pin!(async {
        match wait {
            Some(wait) => sleep(wait).await,
            None => std::future::pending().await,
        }
        if let Some(mut shell) = shell {
            shell.gone().await;
        }
    });
    loop {
        let (occasion, is_ending) = {
            let orders = collector.orders.borrow_and_update();
            (Occasion::of(&orders), orders.is_ending)
        };
        if is_ending {
            return None;
        }
        if occasion != tried {
            return Some(());
        }
        tokio::select! {
            () = &mut due => return Some(()),
            changed = collector.orders.changed() => changed.ok()?,
        }
    }
}

async fn until_ending(orders: &mut tokio::sync::watch::Receiver<Orders>) {
    // An error means that nobody can order anything any more: that is the end too.
    drop(orders.wait_for(|orders| orders.is_ending).await);
}

fn chance() -> u8 {
    let mut byte = [0];
    // Without randomness all nodes wait the whole time, which is no harm.
    _ = getrandom(&mut byte, GetRandomFlags::empty());
    byte[0]
}
