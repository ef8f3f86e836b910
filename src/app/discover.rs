//! Where rosters come from: a list that stays as it is, or a scheduler that is asked again and
//! again, on a thread of its own so that neither screen nor sessions wait for it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{oneshot, watch};
use tokio::time::{MissedTickBehavior, timeout};

use crate::inventory::Roster;
use crate::inventory::slurm::{PollRequest, SlurmPoller};
use crate::model::{JobId, JobList};
use crate::time::Clock;
use crate::transport::Target;

/// How long a program that is being asked may take to end.
const FAREWELL: Duration = Duration::from_millis(500);

/// How often jobs are made up.
const MADE_UP: Duration = Duration::from_secs(5);

/// A source of rosters. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Discovery {
    rosters: watch::Receiver<Arc<Roster>>,
    wishes: watch::Sender<PollRequest>,
    asking: Option<Asking>,
}

/// The thread that asks.
#[derive(Debug)]
struct Asking {
    end: oneshot::Sender<()>,
    ended: Receiver<()>,
}

impl Discovery {
    /// Has one roster, and never another.
    pub(super) fn fixed(roster: Roster) -> Self {
        let (_, rosters) = watch::channel(Arc::new(roster));
        Self { rosters, wishes: watch::Sender::default(), asking: None }
    }

    /// Asks Slurm.
    pub(super) fn slurm(slurm: SlurmPoller, clock: Clock) -> io::Result<Self> {
        let first = slurm.initial_roster();
        Self::asking("slurm", first, |wishes, found| slurm.run(clock, wishes, found))
    }

    /// Makes up jobs of the same nodes, again and again.
    pub(super) fn made_up(
        targets: Vec<Target>,
        jobs: impl Fn() -> JobList + Send + 'static,
    ) -> io::Result<Self> {
        let roster = move || Roster::from_scheduler(targets.clone(), Arc::new(jobs()));
        Self::asking("jobs", roster(), |_, found| async move {
            let mut tick = tokio::time::interval(MADE_UP);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            tick.tick().await;
            loop {
                tick.tick().await;
                found.send_replace(Arc::new(roster()));
            }
        })
    }

    /// Asks on a thread of its own.
    fn asking<Work: Future<Output = ()>>(
        name: &str,
        first: Roster,
        work: impl FnOnce(watch::Receiver<PollRequest>, watch::Sender<Arc<Roster>>) -> Work
        + Send
        + 'static,
    ) -> io::Result<Self> {
        let (found, rosters) = watch::channel(Arc::new(first));
        let (wishes, followed) = watch::channel(PollRequest::default());
        let (end, ending) = oneshot::channel();
        let (ended_tell, ended) = channel();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = work(followed, found) => {}
                    _over = ending => {}
                }
            });
            drop(runtime);
            // Nobody may be waiting any more.
            ended_tell.send(()).ok();
        })?;
        Ok(Self { rosters, wishes, asking: Some(Asking { end, ended }) })
    }

    /// Returns a reader of the newest roster.
    pub(super) fn rosters(&self) -> watch::Receiver<Arc<Roster>> {
        self.rosters.clone()
    }

    /// Waits until a scheduler has answered in some way, or for `limit`.
    pub(super) async fn first(&self, limit: Duration) {
        let mut rosters = self.rosters();
        let is_answered = |roster: &Arc<Roster>| {
            let asked = roster.jobs.as_ref();
            asked.is_none_or(|list| list.at.is_some() || list.problem.is_some())
        };
        // Later will do.
        drop(timeout(limit, rosters.wait_for(is_answered)).await);
    }

    /// Asks for a new roster now.
    pub(super) fn refresh(&self) {
        self.wishes.send_modify(|wishes| wishes.refresh += 1);
    }

    /// Names the job somebody looks at.
    pub(super) fn look_at(&self, job: Option<JobId>) {
        self.wishes.send_if_modified(|wishes| {
            let is_new = wishes.job != job;
            wishes.job = job;
            is_new
        });
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        let Some(Asking { end, ended }) = self.asking.take() else { return };
        // Whether it still listened or not: it ends.
        end.send(()).ok();
        ended.recv_timeout(FAREWELL).ok();
    }
}
