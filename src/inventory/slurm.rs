//! Polls Slurm for jobs and their nodes.
//!
//! A round is one `squeue`, one `scontrol` for what jobs have on all nodes, and one `scontrol` for the running jobs
//! whose devices are not known yet: the allocation of a job does not change while it runs. Partitions, states and features
//! of nodes come from a rare `sinfo`.
//!
//! Each query is a task with its own schedule, so none waits for the answer to another, and what is answered is
//! published at once. The interval grows while Slurm is slow or fails; the last answer then stays, with its age and the error.

pub use command::{fetch_jobs, fetch_node_addresses, run_command_within};
pub use error::SlurmError;
pub use job_targets::{targets_of_jobs, targets_of_nodelist};
pub use missing_jobs::is_job_list_private;
pub use queue::check_nodelist;
pub use step_jobs::{choose_step_jobs, step_job};

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::inventory::Roster;
use crate::inventory::slurm::address_poll::AddressPoll;
use crate::inventory::slurm::command::{DetailAnswer, fetch_queue};
use crate::inventory::slurm::detail_poll::DetailPoll;
use crate::inventory::slurm::job_detail::JobDetail;
use crate::inventory::slurm::job_targets::merge_targets;
use crate::inventory::slurm::missing_jobs::{MissingJobs, MissingReason, fetch_hides_jobs};
use crate::inventory::slurm::node_list::{NodeList, OldAnswers, names_in};
use crate::inventory::slurm::node_poll::NodePoll;
use crate::inventory::slurm::node_use::NodeUse;
use crate::inventory::slurm::queue::Queue;
use crate::inventory::slurm::scheduled_query::{ScheduledQuery, TimedAnswer};
use crate::inventory::slurm::use_poll::UsePoll;
use crate::inventory::slurm::user_name::{own_user_name, user_name};
use crate::model::{
    JobId, JobList, JobListError, JobOutcome, NodeName, RequestedJobs, SchedulerErrorKind,
};
use crate::text::sanitize;
use crate::time::{Clock, Timestamp};
use crate::transport::Target;

mod address_poll;
mod command;
mod detail_poll;
mod error;
mod gres;
mod job_detail;
mod job_targets;
mod missing_jobs;
mod name_list;
mod node_list;
mod node_poll;
mod node_use;
mod poll;
mod queue;
#[cfg(test)]
mod recorded_output;
mod records;
mod scheduled_query;
mod step_jobs;
mod time_format;
mod use_poll;
mod user_name;

/// Whether Slurm hides jobs is asked so rarely, because it is a line of its configuration.
const CONFIGURATION_INTERVAL: Duration = Duration::from_secs(3600);
/// The note of a list of all jobs that lacks those of others.
const HIDES_JOBS: &str =
    "PrivateData=jobs hides jobs of others from you; they may have devices that no listed job has";
/// The note of a list of all jobs that may lack those of others.
const MAY_HIDE_JOBS: &str = "scontrol show config does not say whether Slurm hides jobs of others from you; they may have devices that no \
     listed job has";
/// Maximum number of ended jobs whose outcome is kept.
const MAX_ENDED_JOBS: usize = 200;

/// Which jobs to list; an empty field matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Users, by name or uid.
    pub users: Vec<String>,
    /// Job ids as users write them, such as `12_3`.
    pub jobs: Vec<String>,
    pub partitions: Vec<String>,
    pub accounts: Vec<String>,
    /// Nodes that jobs run on.
    pub nodes: Vec<String>,
    /// Qualities of service.
    pub qos: Vec<String>,
    pub reservations: Vec<String>,
}

impl JobFilter {
    fn requested(&self) -> RequestedJobs {
        match self {
            _ if *self == Self::default() => RequestedJobs::All,
            Self { jobs, .. } if jobs.is_empty() => RequestedJobs::Selected,
            Self { .. } => RequestedJobs::ById,
        }
    }

    /// Returns true if the controller itself picks the jobs, which costs it less than a list of all.
    fn is_narrow(&self) -> bool {
        self.users.len() == 1 || !self.jobs.is_empty()
    }

    /// Returns the options that leave out jobs of the users, such as `--qos high`.
    fn narrowing_options(&self) -> String {
        let options = [
            ("partition", &self.partitions),
            ("account", &self.accounts),
            ("qos", &self.qos),
            ("reservation", &self.reservations),
            ("nodelist", &self.nodes),
        ];
        let given = options.into_iter().filter(|(_, names)| !names.is_empty());
        let text = |(option, names): (&str, &Vec<String>)| {
            let values = names.iter().map(|name| sanitize(name, 40)).collect::<Vec<_>>();
            format!("--{option} {}", values.join(","))
        };
        given.map(text).collect::<Vec<_>>().join(" ")
    }

    /// Returns the words that follow `jobs` on the screen, such as `of ada in gpu`.
    pub fn describe(&self) -> String {
        let list = |list: &[String]| {
            list.iter().map(|word| sanitize(word, 40)).collect::<Vec<_>>().join(",")
        };
        let users = match self.users.as_slice() {
            users if *users == [own_uid()] => own_user_name(),
            users => list(&users.iter().map(|user| user_name(user)).collect::<Vec<_>>()),
        };
        let mut words = match (self.jobs.as_slice(), users.as_str()) {
            ([], "") => "of anybody".to_owned(),
            ([], users) => format!("of {users}"),
            (jobs, "") => format!("numbered {}", list(jobs)),
            (jobs, users) => format!("numbered {} of {users}", list(jobs)),
        };
        for (before, of) in [
            ("in", &self.partitions),
            ("of account", &self.accounts),
            ("of QOS", &self.qos),
            ("in reservation", &self.reservations),
            ("on", &self.nodes),
        ] {
            if !of.is_empty() {
                _ = write!(words, " {before} {}", list(of));
            }
        }
        words
    }
}

/// Returns the uid of this process, which Slurm accepts as a user.
pub fn own_uid() -> String {
    rustix::process::getuid().as_raw().to_string()
}

/// Returns true if `squeue` is on the `PATH`.
pub fn is_available() -> bool {
    is_on_path(std::env::var_os("PATH").unwrap_or_default())
}

/// Returns true if `squeue` is in one of the folders of a `PATH`.
pub fn is_on_path(path: impl AsRef<OsStr>) -> bool {
    std::env::split_paths(path.as_ref()).any(|folder| folder.join("squeue").is_file())
}

/// What the user interface requests from the poller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PollRequest {
    /// Incremented to request a new list at once.
    pub refresh: u64,
    /// The selected job, whose devices are queried at once if they are not known.
    pub job: Option<JobId>,
}

/// Polls the jobs of a cluster and publishes rosters.
#[derive(Debug)]
pub struct SlurmPoller {
    filter: JobFilter,
    /// Only jobs on these nodes are listed, if there are any.
    only_on: Option<BTreeSet<NodeName>>,
    interval: Duration,
    /// Targets that are watched in addition to the nodes of jobs.
    static_targets: Vec<Target>,
    /// Targets that are watched until the first answer of `squeue`.
    initial_targets: Vec<Target>,
    list: JobList,
    /// Unescaped names of the listed jobs, to match records of `scontrol`; never shown.
    names: BTreeMap<JobId, String>,
    targets: Vec<Target>,
    /// Jobs that have left the list, with their unescaped names; their outcome is queried.
    departed: BTreeMap<JobId, String>,
    queue: ScheduledQuery<Result<Queue, SlurmError>>,
    details: DetailPoll,
    nodes: NodePoll,
    node_use: UsePoll,
    addresses: AddressPoll,
    missing_jobs: MissingJobs,
    hides_jobs: ScheduledQuery<Option<bool>>,
}

/// An answer of Slurm.
enum SlurmAnswer {
    Queue(TimedAnswer<Result<Queue, SlurmError>>),
    Details(TimedAnswer<DetailAnswer>),
    Nodes(TimedAnswer<Result<NodeList, SlurmError>>),
    NodeUse(TimedAnswer<Result<NodeUse, SlurmError>>),
    Addresses(TimedAnswer<BTreeMap<String, Option<String>>>),
    MissingJobs(TimedAnswer<BTreeMap<String, MissingReason>>),
    HidesJobs(TimedAnswer<Option<bool>>),
}

impl SlurmPoller {
    /// Returns a poller; the targets in `static_targets` are watched as well.
    pub fn new(filter: JobFilter, interval: Duration, static_targets: Vec<Target>) -> Self {
        let names_partitions = !filter.partitions.is_empty();
        Self {
            interval,
            only_on: None,
            targets: static_targets.clone(),
            static_targets,
            initial_targets: Vec::new(),
            list: JobList {
                filter_text: filter.describe().into(),
                narrowed_by: filter.narrowing_options().into(),
                requested: filter.requested(),
                awaits_nodes: true,
                interval,
                ..JobList::default()
            },
            names: BTreeMap::new(),
            departed: BTreeMap::new(),
            queue: ScheduledQuery::new(),
            details: DetailPoll::new(filter.is_narrow()),
            nodes: NodePoll::new(interval, names_partitions),
            node_use: UsePoll::new(interval),
            addresses: AddressPoll::new(),
            missing_jobs: MissingJobs::new(),
            hides_jobs: ScheduledQuery::new(),
            filter,
        }
    }

    /// Adds nodes that are watched until the first answer of Slurm.
    #[must_use]
    pub fn with_initial_nodes(mut self, nodes: Vec<Target>) -> Self {
        let is_new =
            |node: &Target| self.static_targets.iter().all(|known| known.name != node.name);
        self.initial_targets = nodes.into_iter().filter(is_new).collect();
        self.targets.extend(self.initial_targets.iter().cloned());
        self
    }

    /// Lists only the jobs on these nodes, which Slurm need not know: `squeue --nodelist` fails for such a name.
    #[must_use]
    pub fn with_jobs_on(mut self, nodes: BTreeSet<NodeName>) -> Self {
        self.list.requested = RequestedJobs::Selected;
        self.only_on = Some(nodes);
        self
    }

    /// Watches all nodes of the filter's partitions, also those without a listed job.
    #[must_use]
    pub fn with_all_nodes(mut self) -> Self {
        self.nodes.has_all_nodes = true;
        self
    }

    /// Polls until the receiver of rosters is dropped.
    pub async fn run(
        mut self,
        clock: Clock,
        mut requests: watch::Receiver<PollRequest>,
        rosters: watch::Sender<Arc<Roster>>,
    ) {
        let mut request = requests.borrow_and_update().clone();
        loop {
            self.start_queries(&clock);
            let now = clock.now();
            self.update_list();
            let roster = self.roster(now);
            let is_new = !rosters.borrow().has_same_jobs(&roster);
            if is_new && rosters.send(Arc::new(roster)).is_err() {
                return;
            }
            let due = self.next_due();
            tokio::select! {
                () = sleep_until(due) => if self.nodes.is_missing() {
                    self.update_targets(clock.now());
                },
                () = rosters.closed() => return,
                next = next_request(&mut requests) => {
                    self.on_request(&request, &next);
                    request = next;
                }
                answer = self.next_answer() => self.apply(answer, &clock),
            }
        }
    }

    /// Starts the queries that are due.
    fn start_queries(&mut self, clock: &Clock) {
        if self.queue.is_due() {
            let filter = self.filter.clone();
            self.queue.start(async move { fetch_queue(&filter).await });
        }
        self.nodes.start(clock);
        if self.watches_nodes() {
            self.node_use.start(clock);
        }
        let awaits_nodes = self.awaits_node_use();
        self.details.start(&self.list, &self.names, &self.departed, awaits_nodes);
        self.addresses.start();
        self.missing_jobs.start();
        if self.hides_jobs.is_due() {
            self.hides_jobs.start(fetch_hides_jobs());
        }
    }

    /// Returns when the next query is due.
    fn next_due(&self) -> Instant {
        let node_use = self.node_use.query.next_due().filter(|_| self.watches_nodes());
        let addresses = self.addresses.query.next_due().filter(|_| self.addresses.is_needed());
        let due = [
            self.queue.next_due(),
            self.nodes.query.next_due(),
            self.nodes.next_late(),
            node_use,
            self.details.next_due(self.awaits_node_use()),
            addresses,
            self.missing_jobs.next_due(),
            self.hides_jobs.next_due(),
        ];
        let far = || Instant::now() + CONFIGURATION_INTERVAL;
        due.into_iter().flatten().min().unwrap_or_else(far)
    }

    /// Returns true if there is a node of which it matters what jobs have there.
    fn watches_nodes(&self) -> bool {
        self.nodes.has_all_nodes || !self.targets.is_empty()
    }

    /// Returns true if it will soon be known what jobs have on nodes.
    fn awaits_node_use(&self) -> bool {
        self.watches_nodes() && self.node_use.is_answer_near()
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
        }
    }

    fn on_request(&mut self, before: &PollRequest, request: &PollRequest) {
        if request.refresh != before.refresh {
            self.queue.hasten();
            self.nodes.query.hasten();
            self.details.hasten();
            self.node_use.refresh();
        }
        if let Some(job) = request.job.as_ref().filter(|job| self.details.lacks(&self.list, job)) {
            self.details.hasten_job(job);
        }
    }

    fn apply(&mut self, answer: SlurmAnswer, clock: &Clock) {
        match answer {
            SlurmAnswer::Queue(answer) => self.apply_queue(answer, clock),
            SlurmAnswer::Details(answer) => {
                let (queried, details) = self.details.apply(&self.list, answer, self.interval);
                self.apply_outcomes(&queried, &details);
                self.details.apply_to(&mut self.list.jobs, &self.node_use.last);
            }
            SlurmAnswer::Nodes(answer) => {
                self.nodes.apply(answer);
                self.update_targets(clock.now());
            }
            SlurmAnswer::NodeUse(answer) => {
                self.node_use.apply(answer);
                if self.details.on_node_use(&self.list, &self.node_use.last) {
                    self.details.apply_to(&mut self.list.jobs, &self.node_use.last);
                }
                self.update_targets(clock.now());
            }
            SlurmAnswer::Addresses(answer) => self.addresses.apply(answer, self.interval),
            SlurmAnswer::MissingJobs(answer) => self.missing_jobs.apply(answer),
            SlurmAnswer::HidesJobs(answer) => {
                match answer.value {
                    Some(_) => self.hides_jobs.on_success(CONFIGURATION_INTERVAL, answer.took),
                    None => self.hides_jobs.on_failure(self.interval, answer.took),
                }
                self.list.hides_jobs = answer.value.or(self.list.hides_jobs);
            }
        }
    }

    /// Updates what the list says of the running queries.
    fn update_list(&mut self) {
        let awaits_details = self.details.is_awaited(&self.list, &self.departed);
        self.list.awaits_devices = awaits_details || self.missing_jobs.is_awaited();
        let are_known = self.nodes.is_missing() && self.node_use.last.is_whole();
        self.list.awaits_nodes = self.nodes.is_awaited() && !are_known;
        self.list.awaits_hidden = self.needs_hides_jobs() && !self.hides_jobs.has_failed();
        let awaits_allocated = self.watches_nodes() && self.node_use.is_awaited();
        if self.list.nodes.awaits_allocated != awaits_allocated {
            Arc::make_mut(&mut self.list.nodes).awaits_allocated = awaits_allocated;
        }
    }

    /// Returns true if all jobs are requested, and it is not known whether some are hidden from this user.
    fn needs_hides_jobs(&self) -> bool {
        let is_known = own_uid() == "0" || self.list.hides_jobs.is_some();
        self.list.requested == RequestedJobs::All && !is_known
    }

    /// Returns the roster as of `now`.
    pub fn roster(&self, now: Timestamp) -> Roster {
        let mut list = self.list.clone();
        list.hides_jobs =
            missing_jobs::hides_jobs(list.hides_jobs, &own_user_name(), &own_uid(), &list.jobs);
        let hides_jobs = list.requested == RequestedJobs::All && list.hides_jobs == Some(true);
        list.notes.extend(hides_jobs.then(|| HIDES_JOBS.into()));
        let may_hide_jobs = self.needs_hides_jobs() && self.hides_jobs.has_failed();
        list.notes.extend(may_hide_jobs.then(|| MAY_HIDE_JOBS.into()));
        list.notes.extend(self.details.note(&list).map(Into::into));
        list.notes.extend(self.nodes.note(now, &self.node_use.last).map(Into::into));
        list.notes.extend(self.node_use.note(now).map(Into::into));
        list.notes
            .extend(self.nodes.list.unknown_partition(&self.unlisted_partitions()).map(Into::into));
        list.notes
            .extend(self.nodes.list.hidden_nodes_note(&self.unlisted_partitions()).map(Into::into));
        list.notes.extend(self.missing_jobs.reasons().map(Into::into));
        let addresses = self.addresses.addresses();
        Roster { addresses, ..Roster::from_scheduler(self.targets.clone(), Arc::new(list)) }
    }

    /// Takes the queue; keeps the last list if there is none.
    fn apply_queue(&mut self, answer: TimedAnswer<Result<Queue, SlurmError>>, clock: &Clock) {
        let mut queue = match answer.value {
            Ok(queue) => queue,
            Err(error) if error.kind == SchedulerErrorKind::NoSuchJob => Queue::default(),
            Err(error) => {
                self.queue.on_failure(self.interval, answer.took);
                self.record_failure(error, clock);
                return;
            }
        };
        self.queue.on_success(self.interval, answer.took);
        log::debug!("slurm: {} jobs in {:?}", queue.jobs.len(), answer.took);
        if let Some(nodes) = &self.only_on {
            queue.keep_jobs_on(nodes);
        }
        let listed_at = Some(clock.now());
        for job in &mut queue.jobs {
            job.listed_at = listed_at;
        }
        self.track_departed(&queue);
        self.details.on_list(&queue.jobs);
        self.node_use.on_list();
        self.list.jobs = queue.jobs;
        self.names = queue.names;
        self.list.at = listed_at;
        self.details.on_node_use(&self.list, &self.node_use.last);
        self.details.apply_to(&mut self.list.jobs, &self.node_use.last);
        self.initial_targets.clear();
        self.list.notes = queue.notes.into_iter().map(Into::into).collect();
        self.list.is_partial = queue.is_partial;
        self.list.error = None;
        self.update_targets(clock.now());
        self.missing_jobs.set_missing(&self.filter.jobs, &self.list.jobs);
    }

    /// Lists the watched nodes, and what Slurm says of them.
    fn update_targets(&mut self, now: Timestamp) {
        let partitions = &self.filter.partitions;
        let nodes = &self.nodes;
        let known = if nodes.is_missing() { &self.node_use.last.nodes } else { &nodes.list.nodes };
        let all = names_in(known, partitions).filter(|_| self.nodes.has_all_nodes);
        let constant = [self.static_targets.as_slice(), &self.initial_targets].concat();
        self.targets = merge_targets(&constant, &self.list.jobs, all);
        let names = self.targets.iter().map(|target| &target.name);
        let allocations = self.list.jobs.iter().flat_map(|job| job.allocations.iter());
        let expected = allocations.map(|allocation| &allocation.node);
        let expected = expected.chain(self.static_targets.iter().map(|target| &target.name));
        let old = OldAnswers { list: self.nodes.is_old(now), node_use: self.node_use.is_old(now) };
        let (list, node_use) = (&self.nodes.list, &self.node_use.last);
        self.list.nodes = Arc::new(list.of(node_use, names, &expected.collect(), old));
        let nodes = self.list.with_nodes().flat_map(|job| job.allocations.iter());
        let nodes = nodes.map(|allocation| &allocation.node);
        let all = self.list.nodes.nodes.keys().filter(|_| self.nodes.has_all_nodes);
        self.addresses.set_nodes(nodes.chain(all));
    }

    /// Returns the partitions of the filter in which no job is listed.
    fn unlisted_partitions(&self) -> Vec<String> {
        let is_listed = |name: &&String| self.list.jobs.iter().any(|job| *job.partition == ***name);
        self.filter.partitions.iter().filter(|name| !is_listed(name)).cloned().collect()
    }

    fn record_failure(&mut self, error: SlurmError, clock: &Clock) {
        let is_same = |known: &JobListError| *known.message == *error.message;
        let since = self.list.error.as_ref().filter(|known| is_same(known));
        let since = since.map_or_else(|| clock.now(), |known| known.since);
        log::info!("slurm: {}", error.message);
        self.list.error =
            Some(JobListError { message: error.message.into(), kind: error.kind, since });
    }

    /// Records the jobs that had nodes and have left the queue.
    fn track_departed(&mut self, queue: &Queue) {
        let names = std::mem::take(&mut self.names);
        self.departed.extend(names);
        let listed: BTreeSet<&JobId> = queue.jobs.iter().map(|job| &job.id).collect();
        self.departed.retain(|id, _| !listed.contains(id));
        while self.departed.len() > MAX_ENDED_JOBS {
            self.departed.pop_first();
        }
        // Bounded by MAX_ENDED_JOBS, however long Slurm takes to answer.
        let known = self.list.with_nodes().chain(&self.list.awaiting_outcome);
        let left = known.filter(|job| self.departed.contains_key(&job.id)).cloned().collect();
        self.list.awaiting_outcome = left;
        let is_back = |id: &JobId| queue.names.contains_key(id);
        if self.list.ended.iter().any(|(id, _)| is_back(id)) {
            let ended = self.list.ended.iter().filter(|(id, _)| !is_back(id)).cloned();
            self.list.ended = ended.collect();
        }
    }

    /// Stores the outcomes of departed jobs; those without an outcome are queried again.
    fn apply_outcomes(
        &mut self,
        queried: &BTreeMap<JobId, String>,
        details: &BTreeMap<JobId, JobDetail>,
    ) {
        let mut ended = self.list.ended.to_vec();
        for id in
            queried.keys().filter(|id| self.departed.contains_key(*id)).cloned().collect::<Vec<_>>()
        {
            let unknown = Some(JobOutcome::Unknown);
            if let Some(outcome) = details.get(&id).map_or(unknown, |detail| detail.outcome) {
                self.departed.remove(&id);
                ended.push((id, outcome));
            }
        }
        let surplus = ended.len().saturating_sub(MAX_ENDED_JOBS);
        ended.drain(..surplus);
        self.list.ended = ended.into();

        self.list.awaiting_outcome.retain(|job| self.departed.contains_key(&job.id));
    }
}

/// Waits for a request that differs; for ever if nobody requests anything.
async fn next_request(requests: &mut watch::Receiver<PollRequest>) -> PollRequest {
    if requests.changed().await.is_err() {
        return std::future::pending().await;
    }
    requests.borrow_and_update().clone()
}
