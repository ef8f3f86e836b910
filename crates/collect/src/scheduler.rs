//! The schedulers that gtop queries for jobs and nodes. Each is a backend behind [`Scheduler`]; what else there is to know of
//! it is plain data, its [`SchedulerProfile`].
//!
//! A backend polls by programs of this machine and publishes each answer as it comes. What it lists is [`Listing`]: jobs and
//! nodes in the words of the model, which names of nodes to watch, and their addresses.

pub use error::SchedulerError;
pub use examination::{ListedNode, ServerState};
pub use job_filter::JobFilter;

#[cfg(test)]
pub(crate) use slurm::example_group;
pub use step_candidate::{StepCandidate, StepJob};
pub use user_name::own_uid;

pub(crate) use node_names::nodes_of_jobs;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::scheduler::list_poller::ListPoller;
use crate::scheduler::pbs::Pbs;
use crate::scheduler::slurm::SlurmPoller;
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{Job, JobId, JobList, NodeName, SchedulerProfile};
use gtop_ssh::SchedulerAddresses;

pub(crate) mod claim;
mod error;
mod examination;
mod job_filter;
mod list_poller;
mod node_names;
mod pbs;
mod poll_state;
mod programs;
mod scheduled_query;
pub mod slurm;
mod step_candidate;
mod user_name;
mod wait;
mod watched_nodes;

/// The kinds of schedulers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerKind {
    #[default]
    Slurm,
    Pbs,
}

impl SchedulerKind {
    pub const ALL: [Self; 2] = [Self::Slurm, Self::Pbs];

    pub fn profile(self) -> &'static SchedulerProfile {
        match self {
            Self::Slurm => &slurm::PROFILE,
            Self::Pbs => &pbs::PROFILE,
        }
    }

    /// Returns the kind with this name.
    pub fn named(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.profile().id == id)
    }

    /// Returns the kind that is on this machine, by its programs; the first that is.
    pub fn here() -> Option<Self> {
        Self::in_path(std::env::var_os("PATH").unwrap_or_default())
    }

    /// Returns the first kind whose programs are in the folders of a `PATH`.
    pub fn in_path(path: impl AsRef<OsStr>) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.is_in_path(path.as_ref()))
    }

    fn is_in_path(self, path: &OsStr) -> bool {
        let is_configured = self.profile().configured_by.is_none_or(|(variable, file)| {
            std::env::var_os(variable).is_some() || Path::new(file).exists()
        });
        is_configured && self.has_program_in(path)
    }

    /// Returns true if a program of its name is on the `PATH`, be it another scheduler's.
    pub fn has_program(self) -> bool {
        self.has_program_in(&std::env::var_os("PATH").unwrap_or_default())
    }

    fn has_program_in(self, path: &OsStr) -> bool {
        let program = self.profile().program;
        std::env::split_paths(path).any(|folder| folder.join(program).is_file())
    }

    /// Returns the job whose environment this is, as its scheduler shows it.
    pub fn own_job(self, variable: &dyn Fn(&str) -> Option<String>) -> Option<OwnJob> {
        match self {
            Self::Slurm => slurm::own_job(variable),
            Self::Pbs => pbs::own_job(variable),
        }
    }
}

/// Queries that run once, to examine a scheduler.
impl SchedulerKind {
    /// Lists the jobs; those whose devices take another question have none.
    pub async fn fetch_jobs(self, filter: &JobFilter) -> Result<Vec<Job>, SchedulerError> {
        match self {
            Self::Slurm => slurm::fetch_jobs(filter).await,
            Self::Pbs => list_poller::fetch_jobs::<Pbs>(filter).await,
        }
    }

    /// Lists the nodes; one may be listed for each of its queues.
    pub async fn fetch_listed_nodes(self) -> Result<Vec<ListedNode>, SchedulerError> {
        match self {
            Self::Slurm => slurm::fetch_listed_nodes().await,
            Self::Pbs => list_poller::fetch_listed_nodes::<Pbs>().await,
        }
    }

    /// Returns true if jobs of others are hidden from users; `None` if the scheduler does not say.
    pub async fn fetch_hides_jobs(self) -> Option<bool> {
        match self {
            Self::Slurm => slurm::fetch_hides_jobs().await,
            Self::Pbs => pbs::fetch_server_state().await.ok()?.hides_jobs,
        }
    }

    /// Asks the server whether it answers; `None` if an examination of the scheduler's own asks more of it.
    pub async fn fetch_server_state(self) -> Option<Result<ServerState, SchedulerError>> {
        match self {
            Self::Slurm => None,
            Self::Pbs => Some(pbs::fetch_server_state().await),
        }
    }
}

/// The job that gtop runs in, by its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnJob {
    /// Its displayed id.
    pub shown_id: String,
    /// Its id, or that of each component.
    pub ids: Vec<JobId>,
    /// Its nodes.
    pub nodes: Vec<NodeName>,
}

impl OwnJob {
    /// Returns the job whose environment this process has, with its scheduler.
    pub fn of_this_process() -> Option<(SchedulerKind, Self)> {
        SchedulerKind::ALL
            .into_iter()
            .find_map(|kind| Some((kind, kind.own_job(&|name| std::env::var(name).ok())?)))
    }
}

/// The profile with this id, such as that of a recording.
pub(crate) fn profile_of(id: &str) -> &'static SchedulerProfile {
    SchedulerKind::named(id).map(SchedulerKind::profile).unwrap_or_default()
}

/// What the user interface requests from a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PollRequest {
    /// Incremented to request a new list at once.
    pub refresh: u64,
    /// The selected job, whose devices are queried at once if they are not known.
    pub job: Option<JobId>,
}

/// The last answers of a scheduler.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub jobs: Arc<JobList>,
    /// The nodes to watch.
    pub nodes: Vec<NodeName>,
    /// The addresses by which it reaches its nodes.
    pub addresses: SchedulerAddresses,
}

/// A scheduler that is polled.
#[derive(Debug)]
pub enum Scheduler {
    Slurm(Box<SlurmPoller>),
    Pbs(Box<ListPoller<Pbs>>),
}

/// Calls a method of the backend, whichever it is.
macro_rules! backend {
    ($scheduler:expr, $poller:ident => $call:expr) => {
        match $scheduler {
            Self::Slurm($poller) => $call,
            Self::Pbs($poller) => $call,
        }
    };
}

impl Scheduler {
    /// Returns a scheduler whose jobs are listed in this interval; `fixed` nodes are watched as well.
    pub fn new(
        kind: SchedulerKind,
        filter: JobFilter,
        interval: Duration,
        fixed: Vec<NodeName>,
    ) -> Self {
        match kind {
            SchedulerKind::Slurm => {
                Self::Slurm(Box::new(SlurmPoller::new(filter, interval, fixed)))
            }
            SchedulerKind::Pbs => Self::Pbs(Box::new(ListPoller::new(filter, interval, fixed))),
        }
    }

    /// Adds nodes that are watched until the first answer.
    #[must_use]
    pub fn with_initial_nodes(mut self, nodes: Vec<NodeName>) -> Self {
        backend!(&mut self, poller => poller.state.watched.add_initial(nodes));
        self
    }

    /// Lists only the jobs on these nodes, which the scheduler need not know.
    #[must_use]
    pub fn with_jobs_on(mut self, nodes: BTreeSet<NodeName>) -> Self {
        backend!(&mut self, poller => poller.state.list_jobs_on(nodes));
        self
    }

    /// Watches all nodes of the filter's queues, also those without a listed job.
    #[must_use]
    pub fn with_all_nodes(mut self) -> Self {
        backend!(&mut self, poller => poller.state.watched.has_all = true);
        self
    }

    /// Lists also the jobs that have ended, if the scheduler has accounting.
    #[must_use]
    pub fn with_finished_jobs(mut self) -> Self {
        match &mut self {
            Self::Slurm(poller) => poller.list_finished_jobs(),
            Self::Pbs(_) => {}
        }
        self
    }

    /// Returns its last answers.
    pub fn listing(&self, now: Timestamp) -> Listing {
        backend!(self, poller => poller.listing(now))
    }

    /// Returns what is known of it beforehand.
    pub fn profile(&self) -> &'static SchedulerProfile {
        match self {
            Self::Slurm(_) => SchedulerKind::Slurm.profile(),
            Self::Pbs(_) => SchedulerKind::Pbs.profile(),
        }
    }

    /// Starts the queries that are due.
    pub(crate) fn start_queries(&mut self, clock: &Clock) {
        backend!(self, poller => poller.start_queries(clock));
    }

    /// Returns when the next query is due.
    pub(crate) fn next_due(&self) -> Instant {
        backend!(self, poller => poller.next_due())
    }

    /// Waits for an answer and applies it; forever if no query is running. Cancel-safe.
    pub async fn poll(&mut self, clock: &Clock) {
        backend!(self, poller => poller.poll(clock).await);
    }

    /// Takes a request of the user interface, of which `before` was the last.
    pub(crate) fn on_request(&mut self, before: &PollRequest, request: &PollRequest) {
        backend!(self, poller => poller.on_request(before, request));
    }
}

/// Returns the jobs in which gtop may start a step: this user's running ones, with their nodes.
pub fn step_candidates(list: &JobList) -> Vec<StepCandidate> {
    match SchedulerKind::named(list.scheduler.id) {
        Some(SchedulerKind::Slurm) => slurm::step_candidates(list),
        Some(SchedulerKind::Pbs) | None => Vec::new(),
    }
}
