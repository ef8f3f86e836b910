//! Polls Slurm for jobs and their nodes.
//!
//! A round is one `squeue`, one `scontrol` for what jobs have on all nodes, and one `scontrol` for the running jobs
//! whose devices are not known yet: the allocation of a job does not change while it runs. Partitions, states and features
//! of nodes come from a rare `sinfo`.
//!
//! Each query is a task with its own schedule, so none waits for the answer to another, and what is answered is
//! published at once. The interval grows while Slurm is slow or fails; the last answer then stays, with its age and the error.

pub use command::{fetch_jobs, fetch_node_addresses, run_command_within};
pub use error::of_stderr;
pub use job_state::outcome;
pub use listed_nodes::fetch_listed_nodes;
pub use missing_jobs::fetch_hides_jobs;
pub use own_job::own_job;
pub use profile::PROFILE;
#[cfg(test)]
pub(crate) use profile::example_group;
pub use queue::check_nodelist;
pub use step_jobs::{step_candidates, step_job};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use self::address_poll::AddressPoll;
use self::command::{DetailAnswer, fetch_queue};
use self::detail_poll::DetailPoll;
use self::finished_poll::FinishedPoll;
use self::job_detail::JobDetail;
use self::missing_jobs::{MissingJobs, MissingReason};
use self::node_list::{NodeList, OldAnswers, names_in};
use self::node_poll::NodePoll;
use self::node_use::NodeUse;
use self::queue::Queue;
use self::use_poll::UsePoll;
use crate::scheduler::poll_state::{MAX_ENDED_JOBS, PollState};
use crate::scheduler::scheduled_query::{ScheduledQuery, TimedAnswer, TimedResult};
use crate::scheduler::user_name::{own_uid, own_user_name};
use crate::scheduler::{JobFilter, Listing, PollRequest, SchedulerError};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{FinishedJobs, JobId, JobOutcome, NodeName, RequestedJobs, SchedulerErrorKind};

mod accounting;
mod address_poll;
mod command;
mod detail_poll;
mod error;
mod finished_poll;
mod gres;
mod job_detail;
mod job_state;
mod listed_nodes;
mod missing_jobs;
mod name_list;
mod node_list;
mod node_poll;
mod node_state;
mod node_use;
mod own_job;
mod profile;
mod queue;
#[cfg(test)]
mod recorded_tests;
mod records;
mod step_jobs;
mod time_format;
mod use_poll;

/// Interval between queries for `PrivateData`, a line of the configuration that seldom changes.
const CONFIGURATION_INTERVAL: Duration = Duration::from_secs(3600);
/// The note of a list of all jobs that lacks those of others.
const HIDES_JOBS: &str = "PrivateData=jobs hides other users' jobs from you; they may have devices that no listed job has";
/// The note of a list of all jobs that may lack those of others.
const MAY_HIDE_JOBS: &str = "scontrol show config does not say whether Slurm hides other users' jobs from you; they may have devices that no \
     listed job has";

/// Polls the jobs of a cluster.
#[derive(Debug)]
pub struct SlurmPoller {
    pub(super) state: PollState,
    /// Unescaped names of the listed jobs, to match records of `scontrol`; never shown.
    names: BTreeMap<JobId, String>,
    /// Jobs that have left the list, with their unescaped names; their outcome is queried.
    departed: BTreeMap<JobId, String>,
    queue: ScheduledQuery<Result<Queue, SchedulerError>>,
    details: DetailPoll,
    nodes: NodePoll,
    node_use: UsePoll,
    addresses: AddressPoll,
    missing_jobs: MissingJobs,
    hides_jobs: ScheduledQuery<Option<bool>>,
    finished: FinishedPoll,
}

/// An answer of Slurm.
enum SlurmAnswer {
    Queue(TimedResult<Queue>),
    Details(TimedAnswer<DetailAnswer>),
    Nodes(TimedResult<NodeList>),
    NodeUse(TimedResult<NodeUse>),
    Addresses(TimedAnswer<BTreeMap<String, Option<String>>>),
    MissingJobs(TimedAnswer<BTreeMap<String, MissingReason>>),
    HidesJobs(TimedAnswer<Option<bool>>),
    Finished(TimedResult<FinishedJobs>),
}

impl SlurmPoller {
    /// Returns a poller; the fixed nodes are watched as well.
    pub fn new(filter: JobFilter, interval: Duration, fixed_nodes: Vec<NodeName>) -> Self {
        let names_partitions = !filter.partitions.is_empty();
        Self {
            names: BTreeMap::new(),
            departed: BTreeMap::new(),
            queue: ScheduledQuery::default(),
            details: DetailPoll::new(filter.is_narrow()),
            nodes: NodePoll::new(interval, names_partitions),
            node_use: UsePoll::new(interval),
            addresses: AddressPoll::default(),
            missing_jobs: MissingJobs::default(),
            hides_jobs: ScheduledQuery::default(),
            finished: FinishedPoll::default(),
            state: PollState::new(&PROFILE, filter, interval, fixed_nodes),
        }
    }

    /// Lists also the jobs that have ended.
    pub(super) fn list_finished_jobs(&mut self) {
        self.finished.is_wanted = true;
    }

    /// Starts the queries that are due, and takes the nodes from elsewhere if their list is late.
    pub(super) fn start_queries(&mut self, clock: &Clock) {
        if self.nodes.becomes_late() {
            self.update_nodes(clock.now());
        }
        if self.queue.is_due() {
            let filter = self.state.filter.clone();
            self.queue.start(async move { fetch_queue(&filter).await });
        }
        self.nodes.start(clock);
        if self.state.watched.is_any() {
            self.node_use.start(clock);
        }
        let awaits_nodes = self.awaits_node_use();
        self.details.start(&self.state.list, &self.names, &self.departed, awaits_nodes);
        self.addresses.start();
        self.missing_jobs.start();
        if self.hides_jobs.is_due() {
            self.hides_jobs.start(fetch_hides_jobs());
        }
        if self.state.list.at.is_some() {
            self.finished.start(&self.state.filter);
        }
        self.update_list();
    }

    /// Returns when the next query is due.
    pub(super) fn next_due(&self) -> Instant {
        let node_use = self.node_use.query.next_due().filter(|_| self.state.watched.is_any());
        let addresses = self.addresses.query.next_due().filter(|_| self.addresses.is_needed());
        let finished = self.finished.next_due().filter(|_| self.state.list.at.is_some());
        let due = [
            self.queue.next_due(),
            self.nodes.query.next_due(),
            self.nodes.next_late(),
            node_use,
            self.details.next_due(self.awaits_node_use()),
            addresses,
            self.missing_jobs.next_due(),
            self.hides_jobs.next_due(),
            finished,
        ];
        due.into_iter().flatten().min().unwrap_or_else(|| Instant::now() + CONFIGURATION_INTERVAL)
    }

    /// Returns true if it will soon be known what jobs have on nodes.
    fn awaits_node_use(&self) -> bool {
        self.state.watched.is_any() && self.node_use.is_answer_near()
    }

    /// Waits for an answer and takes it.
    pub(super) async fn poll(&mut self, clock: &Clock) {
        let answer = self.next_answer().await;
        self.apply(answer, clock);
    }

    /// Waits for the next answer to a running query.
    async fn next_answer(&mut self) -> SlurmAnswer {
        tokio::select! {
            answer = self.queue.answer() => SlurmAnswer::Queue(answer),
            answer = self.details.query.answer() => SlurmAnswer::Details(answer),
            answer = self.nodes.query.answer() => SlurmAnswer::Nodes(answer),
            answer = self.node_use.query.answer() => SlurmAnswer::NodeUse(answer),
            answer = self.addresses.query.answer() => SlurmAnswer::Addresses(answer),
            answer = self.missing_jobs.query.answer() => SlurmAnswer::MissingJobs(answer),
            answer = self.hides_jobs.answer() => SlurmAnswer::HidesJobs(answer),
            answer = self.finished.query.answer() => SlurmAnswer::Finished(answer),
        }
    }

    pub(super) fn on_request(&mut self, before: &PollRequest, request: &PollRequest) {
        if request.refresh != before.refresh {
            self.queue.hasten();
            self.nodes.query.hasten();
            self.details.hasten();
            self.node_use.refresh();
            self.finished.query.hasten();
        }
        if let Some(job) =
            request.job.as_ref().filter(|job| self.details.lacks(&self.state.list, job))
        {
            self.details.hasten_job(job);
        }
    }

    fn apply(&mut self, answer: SlurmAnswer, clock: &Clock) {
        match answer {
            SlurmAnswer::Queue(answer) => self.apply_queue(answer, clock),
            SlurmAnswer::Details(answer) => {
                let (queried, details) =
                    self.details.apply(&self.state.list, answer, self.state.interval);
                self.apply_outcomes(&queried, &details);
                self.details.apply_to(&mut self.state.list.jobs, &self.node_use.last);
            }
            SlurmAnswer::Nodes(answer) => {
                self.nodes.apply(answer, &self.state.watched);
                self.update_nodes(clock.now());
            }
            SlurmAnswer::NodeUse(answer) => {
                self.node_use.apply(answer);
                if self.details.on_node_use(&self.state.list, &self.node_use.last) {
                    self.details.apply_to(&mut self.state.list.jobs, &self.node_use.last);
                }
                self.update_nodes(clock.now());
            }
            SlurmAnswer::Addresses(answer) => self.addresses.apply(answer, self.state.interval),
            SlurmAnswer::MissingJobs(answer) => self.missing_jobs.apply(answer),
            SlurmAnswer::HidesJobs(answer) => {
                match answer.value {
                    Some(_) => self.hides_jobs.on_success(CONFIGURATION_INTERVAL, answer.took),
                    None => self.hides_jobs.on_failure(self.state.interval, answer.took),
                }
                self.state.list.hides_jobs = answer.value.or(self.state.list.hides_jobs);
            }
            SlurmAnswer::Finished(answer) => {
                self.finished.apply(answer, clock.now());
                self.state.list.finished = self.finished.finished(&self.state.list.jobs);
            }
        }
    }

    /// Updates the fields of the list about running queries.
    fn update_list(&mut self) {
        let awaits_details = self.details.is_awaited(&self.state.list, &self.departed);
        self.state.list.awaits_devices = awaits_details || self.missing_jobs.is_awaited();
        let are_known = self.nodes.is_missing() && self.node_use.last.is_whole();
        self.state.list.awaits_nodes = self.nodes.is_awaited() && !are_known;
        self.state.list.awaits_hidden = self.needs_hides_jobs() && !self.hides_jobs.has_failed();
        let awaits_allocated = self.state.watched.is_any() && self.node_use.is_awaited();
        if self.state.list.nodes.awaits_allocated != awaits_allocated {
            Arc::make_mut(&mut self.state.list.nodes).awaits_allocated = awaits_allocated;
        }
    }

    /// Returns true if all jobs are requested, and it is not known whether some are hidden from this user.
    fn needs_hides_jobs(&self) -> bool {
        let is_known = own_uid() == "0" || self.state.list.hides_jobs.is_some();
        self.state.list.requested == RequestedJobs::All && !is_known
    }

    /// Returns the last answers of Slurm, as of `now`.
    pub(super) fn listing(&self, now: Timestamp) -> Listing {
        let mut list = self.state.list.clone();
        list.hides_jobs =
            missing_jobs::hides_jobs(list.hides_jobs, &own_user_name(), &own_uid(), &list.jobs);
        let hides_jobs = list.requested == RequestedJobs::All && list.hides_jobs == Some(true);
        let may_hide_jobs = self.needs_hides_jobs() && self.hides_jobs.has_failed();
        let unlisted = self.unlisted_partitions();
        let notes = [
            hides_jobs.then(|| HIDES_JOBS.to_owned()),
            may_hide_jobs.then(|| MAY_HIDE_JOBS.to_owned()),
            self.details.note(&list),
            self.nodes.note(now, &self.node_use.last, &self.state.watched),
            self.node_use.note(now),
            self.nodes.list.unknown_partition(&unlisted),
            self.nodes.list.hidden_nodes_note(&unlisted),
        ];
        let reasons = self.missing_jobs.reasons().map(str::to_owned);
        let notes = notes.into_iter().flatten().chain(reasons);
        self.state.listing(list, notes, self.addresses.addresses())
    }

    /// Takes the queue; keeps the last list if there is none.
    fn apply_queue(&mut self, answer: TimedResult<Queue>, clock: &Clock) {
        let mut queue = match answer.value {
            Ok(queue) => queue,
            Err(error) if error.kind == SchedulerErrorKind::NoSuchJob => Queue::default(),
            Err(error) => {
                self.queue.on_failure(self.state.interval, answer.took);
                log::info!("slurm: {}", error.message);
                return self.state.on_error(error, clock.now());
            }
        };
        self.queue.on_success(self.state.interval, answer.took);
        log::debug!("slurm: {} jobs in {:?}", queue.jobs.len(), answer.took);
        queue.keep_jobs(|job| self.state.watched.lists(job));
        let listed_at = clock.now();
        for job in &mut queue.jobs {
            job.listed_at = Some(listed_at);
        }
        let listed: BTreeSet<&JobId> = queue.jobs.iter().map(|job| &job.id).collect();
        if self.state.list.jobs.iter().any(|job| !listed.contains(&job.id)) {
            self.finished.on_departure();
        }
        self.track_departed(&listed);
        self.details.on_list(&queue.jobs);
        self.node_use.on_list();
        self.state.list.finished = self.finished.finished(&queue.jobs);
        self.state.list.jobs = queue.jobs;
        self.names = queue.names;
        self.state.on_list(listed_at, queue.is_partial, queue.notes);
        self.details.on_node_use(&self.state.list, &self.node_use.last);
        self.details.apply_to(&mut self.state.list.jobs, &self.node_use.last);
        self.update_nodes(clock.now());
        self.missing_jobs.set_missing(&self.state.filter.jobs, &self.state.list.jobs);
    }

    /// Updates the watched nodes and their states.
    fn update_nodes(&mut self, now: Timestamp) {
        let partitions = &self.state.filter.partitions;
        let nodes = &self.nodes;
        let known = if nodes.is_missing() { &self.node_use.last.nodes } else { &nodes.list.nodes };
        self.state.watched.update(&self.state.list.jobs, names_in(known, partitions));
        let names = self.state.watched.names().iter();
        let expected = self.state.watched.expected(&self.state.list.jobs);
        let old = OldAnswers { list: self.nodes.is_old(now), node_use: self.node_use.is_old(now) };
        let (list, node_use) = (&self.nodes.list, &self.node_use.last);
        self.state.list.nodes = Arc::new(list.of(node_use, names, &expected, old));
        let nodes = self.state.list.with_nodes().flat_map(|job| job.allocations.iter());
        let nodes = nodes.map(|allocation| &allocation.node);
        let all = self.state.list.nodes.nodes.keys().filter(|_| self.state.watched.has_all);
        self.addresses.set_nodes(nodes.chain(all));
    }

    /// Returns the partitions of the filter in which no job is listed.
    fn unlisted_partitions(&self) -> Vec<String> {
        let mut partitions = self.state.filter.partitions.clone();
        partitions.retain(|name| self.state.list.jobs.iter().all(|job| *job.partition != **name));
        partitions
    }

    /// Records the jobs that had nodes and have left the queue.
    fn track_departed(&mut self, listed: &BTreeSet<&JobId>) {
        self.departed.append(&mut self.names);
        self.departed.retain(|id, _| !listed.contains(id));
        while self.departed.len() > MAX_ENDED_JOBS {
            self.departed.pop_first();
        }
        self.state.track_departed(listed);
    }

    /// Stores the outcomes of departed jobs; those without an outcome are queried again.
    fn apply_outcomes(
        &mut self,
        queried: &BTreeMap<JobId, String>,
        details: &BTreeMap<JobId, JobDetail>,
    ) {
        self.state.record_outcomes(|id| match (queried.contains_key(id), details.get(id)) {
            (false, _) => None,
            (true, Some(detail)) => detail.outcome,
            (true, None) => Some(JobOutcome::Unknown),
        });
        let awaited = &self.state.list.awaiting_outcome;
        let awaited: BTreeSet<&JobId> = awaited.iter().map(|job| &job.id).collect();
        self.departed.retain(|id, _| awaited.contains(id));
    }
}
