//! Watching nodes: blocking and asynchronous, in any runtime or none.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::task::unconstrained;

use crate::api::{Error, Fleet};
use crate::watch::{
    Discovery, MonitorOptions, SCHEDULER_INTERVAL, Watcher, folded_names, raise_open_files,
    with_local,
};
use gtop_collect::inventory::{JobTargets, Roster, user_groups};
use gtop_collect::scheduler::{JobFilter, Scheduler, SchedulerKind, own_uid};
use gtop_collect::transport::{Options, Transport};
use gtop_local::time::Clock;

/// Limits of the time between samples, as of the setting.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
const MAX_INTERVAL: Duration = Duration::from_secs(3600);

/// Watches nodes in the background until it is dropped, on threads of its own.
///
/// It is started, read and dropped in any asynchronous runtime, or in none. What ends in `_blocking`, and the iterator
/// `fleets`, blocks the thread.
///
/// The limit of open files of the process is raised to what it may be. When it is killed by SIGKILL, what runs on the
/// nodes ends by itself; a local command of `--exec` or `ProxyCommand` that does not read its input may stay.
pub struct Monitor(Watcher);

/// What to watch, and how.
#[derive(Clone, Debug, Default)]
pub struct MonitorBuilder {
    nodes: Vec<String>,
    is_local: bool,
    has_jobs: bool,
    #[cfg(feature = "demo")]
    demo: Option<u16>,
    options: MonitorOptions,
}

/// The fleets that a monitor sees, as a stream: the latest one, then each change, until the monitor is dropped.
///
/// Who is slow misses fleets in between, and never gets old ones.
pub struct Fleets(Pin<Box<dyn Stream<Item = Arc<Fleet>> + Send>>);

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Monitor").field(self.0.title()).finish()
    }
}

impl fmt::Debug for Fleets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fleets").finish_non_exhaustive()
    }
}

impl Monitor {
    /// Returns what to watch and how, to be filled in.
    pub fn builder() -> MonitorBuilder {
        MonitorBuilder::default()
    }

    /// Starts watching. The arguments are those of the command: hosts, `--job`, `--demo`, `--interval=2`, …
    ///
    /// # Errors
    ///
    /// If an argument is wrong, a file cannot be read, or the machine refuses a thread.
    #[cfg(feature = "cli")]
    pub fn start<I>(args: I) -> Result<Self, Error>
    where
        I: IntoIterator,
        I::Item: Into<std::ffi::OsString>,
    {
        let args = args.into_iter().map(Into::into).collect();
        crate::app::watch_args(args).map(Self).map_err(Error::Arguments)
    }

    /// Returns the latest fleet; nodes that have not answered yet have no devices.
    pub fn fleet(&self) -> Arc<Fleet> {
        Fleet::new(self.0.fleet(), self.0.now(), self.0.title())
    }

    /// Waits until every node has answered or is down, at most for `limit`, and returns the fleet.
    pub async fn complete(&self, limit: Duration) -> Arc<Fleet> {
        self.0.wait_until_complete(limit).await;
        self.fleet()
    }

    /// Same as [`complete`](Self::complete), and blocks the thread.
    pub fn complete_blocking(&self, limit: Duration) -> Arc<Fleet> {
        block_on(self.complete(limit))
    }

    /// Returns the latest fleet and then each change, asynchronously.
    pub fn stream(&self) -> Fleets {
        let (mut reader, clock) = (self.0.reader(), self.0.clock());
        let title = Arc::clone(self.0.title());
        reader.mark_changed();
        let fleets = unfold((reader, clock, title), async |(mut reader, clock, title)| {
            reader.changed().await.ok()?;
            let fleet = reader.borrow_and_update().clone();
            Some((Fleet::new(fleet, clock.now(), &title), (reader, clock, title)))
        });
        Fleets(Box::pin(fleets))
    }

    /// Returns the latest fleet and then each change; the iterator blocks the thread.
    pub fn fleets(&self) -> impl Iterator<Item = Arc<Fleet>> + Send + use<> {
        let mut stream = self.stream();
        std::iter::from_fn(move || block_on(stream.next()))
    }
}

impl Fleets {
    /// Waits for the next fleet; `None` once the monitor is dropped. Same as `StreamExt::next`, without its crate.
    pub async fn next(&mut self) -> Option<Arc<Fleet>> {
        std::future::poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }
}

impl Stream for Fleets {
    type Item = Arc<Fleet>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Arc<Fleet>>> {
        self.0.as_mut().poll_next(context)
    }
}

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread, which may be one of a runtime.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    // Within a task, the runtime would suspend the future until the task gives it control.
    let mut future = pin!(unconstrained(future));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

impl MonitorBuilder {
    /// Adds nodes: host names, node sets such as `gpu[01-16]`, groups such as `@gpu`, or pages of exporters.
    #[must_use]
    pub fn nodes<N: Into<String>>(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.nodes.extend(nodes.into_iter().map(Into::into));
        self
    }

    /// Adds this machine, which is watched without it, too, if nothing else is.
    #[must_use]
    pub fn local(self) -> Self {
        Self { is_local: true, ..self }
    }

    /// Adds the nodes of your running jobs, updated as jobs start and end, by the scheduler on this machine.
    #[must_use]
    pub fn own_jobs(self) -> Self {
        Self { has_jobs: true, ..self }
    }

    /// Watches this many simulated nodes, and nothing else.
    #[cfg(feature = "demo")]
    #[must_use]
    pub fn demo(self, nodes: u16) -> Self {
        Self { demo: Some(nodes), ..self }
    }

    /// Sets the time between samples, 50 ms to an hour; default: a second.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.options.interval = interval.clamp(MIN_INTERVAL, MAX_INTERVAL);
        self
    }

    /// Starts watching, with the user's SSH configuration and without settings of gtop. It does not wait for nodes.
    ///
    /// # Errors
    ///
    /// If a node cannot be named so, no scheduler's program is here to ask for your jobs, or the machine refuses a thread.
    pub fn start(self) -> Result<Monitor, Error> {
        raise_open_files();
        let mut options = Options::of_this_process();
        // Children of the program's own binary would be another program.
        options.ssh.parent_guard = None;
        let clock = Clock::system();
        let (discovery, title) = self.discovery(&clock)?;
        let transport = Transport::new(options);
        let watcher = Watcher::start(transport, discovery, title, self.options, clock);
        Ok(Monitor(watcher.map_err(Error::Start)?))
    }

    /// Returns where the nodes are found, and what is watched, as text.
    fn discovery(&self, clock: &Clock) -> Result<(Discovery, String), Error> {
        #[cfg(feature = "demo")]
        if let Some(nodes) = self.demo {
            return crate::watch::simulate(nodes, 1, clock.clone()).map_err(Error::Start);
        }
        let mut roster = Roster::with_groups(user_groups());
        roster.add_arguments(&self.nodes).map_err(|error| Error::Nodes(error.into()))?;
        if !self.has_jobs {
            let (targets, title) = with_local(roster, self.is_local);
            return Ok((Discovery::from_roster(Roster::new(targets)), title));
        }
        let kind = SchedulerKind::here().ok_or_else(|| {
            let programs = SchedulerKind::ALL.map(|kind| kind.profile().program);
            Error::NoScheduler(programs.to_vec())
        })?;
        let filter = JobFilter { users: vec![own_uid()], ..JobFilter::default() };
        let mut title = format!("{}: jobs {}", kind.profile().words.name, filter.describe());
        if !roster.targets.is_empty() {
            title = format!("{title} and {}", folded_names(&roster.targets));
        }
        if self.is_local {
            roster.add_local();
            title.push_str(" and this machine");
        }
        let fixed = roster.targets.iter().map(|target| target.name.clone()).collect();
        let scheduler = Scheduler::new(kind, filter, SCHEDULER_INTERVAL, fixed);
        let jobs = JobTargets::new(scheduler, roster.targets);
        let discovery = Discovery::scheduler(jobs, clock.clone()).map_err(Error::Start)?;
        Ok((discovery, title))
    }
}
