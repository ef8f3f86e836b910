//! Sources of rosters: a fixed list, or a scheduler polled on its own thread, so that neither screen nor
//! sessions wait for it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, timeout};

use crate::watch::work_thread::WorkThread;
use gtop_collect::inventory::{JobTargets, Roster};
use gtop_collect::scheduler::PollRequest;
use gtop_collect::transport::Target;
use gtop_local::time::Clock;
use gtop_model::{JobId, JobList, nodeset};

/// Time between two queries to the scheduler unless a setting says otherwise.
pub const SCHEDULER_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum wait for the scheduler before the screen starts.
pub const SCHEDULER_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum wait at shutdown for a running query to end.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Interval between two lists of simulated jobs.
const SIMULATED_JOBS_INTERVAL: Duration = Duration::from_secs(5);

/// A source of rosters. Dropping it stops the polling.
#[derive(Debug)]
pub struct Discovery {
    rosters: watch::Receiver<Arc<Roster>>,
    poll_request: watch::Sender<PollRequest>,
    worker: Option<WorkThread<()>>,
}

impl Discovery {
    /// Returns a source whose roster never changes.
    pub fn from_roster(roster: Roster) -> Self {
        let (_, rosters) = watch::channel(Arc::new(roster));
        Self { rosters, poll_request: watch::Sender::default(), worker: None }
    }

    /// Returns a source that polls a scheduler.
    pub fn scheduler(jobs: JobTargets, clock: Clock) -> io::Result<Self> {
        let initial = jobs.roster(clock.now());
        Self::spawn("scheduler", initial, |requests, rosters| jobs.run(clock, requests, rosters))
    }

    /// Returns a source that simulates the jobs of fixed nodes, for `--demo`.
    pub fn simulated(
        targets: Vec<Target>,
        jobs: impl Fn() -> JobList + Send + 'static,
    ) -> io::Result<Self> {
        let roster = move || Roster::from_scheduler(targets.clone(), Arc::new(jobs()));
        Self::spawn("jobs", roster(), |_, rosters| async move {
            let mut tick = tokio::time::interval(SIMULATED_JOBS_INTERVAL);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            tick.tick().await;
            loop {
                tick.tick().await;
                rosters.send_replace(Arc::new(roster()));
            }
        })
    }

    /// Runs `work` on its own thread.
    fn spawn<Work: Future<Output = ()>>(
        name: &str,
        initial: Roster,
        work: impl FnOnce(watch::Receiver<PollRequest>, watch::Sender<Arc<Roster>>) -> Work
        + Send
        + 'static,
    ) -> io::Result<Self> {
        let (publisher, rosters) = watch::channel(Arc::new(initial));
        let (poll_request, requests) = watch::channel(PollRequest::default());
        let worker = WorkThread::start(name, move |runtime, stopped| {
            runtime.block_on(async {
                tokio::select! {
                    () = work(requests, publisher) => {}
                    _stop = stopped => {}
                }
            });
        })?;
        Ok(Self { rosters, poll_request, worker: Some(worker) })
    }

    /// Returns a receiver of the newest roster.
    pub fn rosters(&self) -> watch::Receiver<Arc<Roster>> {
        self.rosters.clone()
    }

    /// Waits until the scheduler has answered or failed, at most for `limit`, and returns how long it took.
    pub async fn wait_for_answer(&self, limit: Duration) -> Duration {
        let asked = Instant::now();
        let mut rosters = self.rosters();
        // After the limit, the roster arrives through the channel.
        drop(timeout(limit, rosters.wait_for(|roster| roster.is_complete())).await);
        asked.elapsed()
    }

    /// Requests a new roster at once.
    pub fn refresh(&self) {
        self.poll_request.send_modify(|request| request.refresh += 1);
    }

    /// Sets the job whose details are queried.
    pub fn set_detailed_job(&self, job: Option<JobId>) {
        self.poll_request.send_if_modified(|request| {
            let is_new = request.job != job;
            request.job = job;
            is_new
        });
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.finish(SHUTDOWN_TIMEOUT);
        }
    }
}

/// Returns the named nodes, and what they are called together; this machine is added if `is_local`, or if there are none.
pub fn with_local(mut roster: Roster, is_local: bool) -> (Vec<Target>, String) {
    let mut title = folded_names(&roster.targets);
    if let Some(slice) = roster.slice {
        title = format!("{title}, {}", slice.text());
    }
    if is_local || roster.targets.is_empty() {
        roster.add_local();
        title = if title.is_empty() {
            "this machine".to_owned()
        } else {
            format!("{title} and this machine")
        };
    }
    (roster.targets, title)
}

/// Returns the names of the targets as a node set.
pub fn folded_names(targets: &[Target]) -> String {
    nodeset::fold(targets.iter().map(|target| target.name.label()))
}
