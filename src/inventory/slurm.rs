//! Polls Slurm for jobs and their nodes.
//!
//! A round is one `squeue`, plus one `scontrol` for the running jobs whose devices are not known yet:
//! the allocation of a job does not change while it runs. Jobs and nodes are published as soon as
//! `squeue` has answered, devices when `scontrol` has, so a hanging `scontrol` delays nothing. The
//! interval grows while Slurm is slow or fails; the last list then stays, with its age and the error.
//!
//! Partitions, states and features of nodes come from a rare `sinfo`, which delays nothing either.

pub use command::{fetch_jobs, fetch_node_addresses, run_command_within};
pub use error::{NO_CONFIGURATION, SlurmError, SlurmErrorKind};
pub use job_targets::{targets_of_jobs, targets_of_nodelist};
pub use missing_jobs::is_job_list_private;
pub use queue::check_nodelist;
pub use step_jobs::{choose_step_jobs, step_job};

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::inventory::Roster;
use crate::inventory::slurm::command::{fetch_details, fetch_queue};
use crate::inventory::slurm::job_detail::JobDetail;
use crate::inventory::slurm::job_targets::merge_targets;
use crate::inventory::slurm::missing_jobs::Explanation;
use crate::inventory::slurm::node_poll::{NodePoll, NodeQuery, await_nodes};
use crate::inventory::slurm::poll::{WAIT_PER_QUERY_TIME, next_wait, random_byte};
use crate::inventory::slurm::queue::Queue;
use crate::model::{
    Allocation, Job, JobId, JobList, JobListError, JobOutcome, NodeName, RequestedJobs,
};
use crate::process::ProgramOutput;
use crate::ssh::SchedulerAddresses;
use crate::text::sanitize;
use crate::time::{Clock, Timestamp};
use crate::transport::Target;

mod command;
mod error;
mod gres;
mod job_detail;
mod job_targets;
mod missing_jobs;
mod node_list;
mod node_poll;
mod poll;
mod queue;
#[cfg(test)]
mod recorded_output;
mod step_jobs;
mod time_format;

/// Up to this many jobs, the devices of all are queried; beyond, only those of the requested job.
const MAX_DETAILED_JOBS: usize = 200;
/// The devices of a selected job are queried once the cursor has rested on it for this long: it passes many others.
const SELECTION_REST: Duration = Duration::from_millis(300);
/// Minimum pause between two queries; at least as long as the last query took.
const MIN_QUERY_GAP: Duration = Duration::from_secs(1);
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

    /// Returns the words that follow `jobs` on the screen, such as `of ada in gpu`.
    pub fn describe(&self) -> String {
        let list = |list: &[String]| {
            list.iter().map(|word| sanitize(word, 40)).collect::<Vec<_>>().join(",")
        };
        let mut words = match (self.jobs.as_slice(), self.users.as_slice()) {
            ([], []) => "of anybody".to_owned(),
            ([], users) if *users == [own_uid()] => format!("of {}", own_user_name()),
            ([], users) => format!("of {}", list(users)),
            (jobs, _) => format!("numbered {}", list(jobs)),
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

fn own_user_name() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    name.filter(|name| !name.is_empty()).map_or_else(own_uid, |name| sanitize(&name, 40))
}

/// What the user interface requests from the poller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PollRequest {
    /// Incremented to request a new list at once.
    pub refresh: u64,
    /// The selected job, whose devices are queried however many jobs there are.
    pub job: Option<JobId>,
}

/// Polls the jobs of a cluster and publishes rosters.
#[derive(Debug)]
pub struct SlurmPoller {
    filter: JobFilter,
    interval: Duration,
    /// Targets that are watched in addition to the nodes of jobs.
    static_targets: Vec<Target>,
    /// Targets that are watched until the first answer of `squeue`.
    initial_targets: Vec<Target>,
    known_details: BTreeMap<JobId, KnownDetail>,
    list: JobList,
    /// Unescaped names of the listed jobs, to match records of `scontrol`; never shown.
    names: BTreeMap<JobId, String>,
    targets: Vec<Target>,
    /// Consecutive failed rounds.
    failures: u32,
    /// Jobs that have left the list, with their unescaped names; their outcome is queried.
    departed: BTreeMap<JobId, String>,
    /// Why jobs requested by id are not in the queue.
    missing_reasons: BTreeMap<String, Explanation>,
    details: DetailSchedule,
    addresses: SchedulerAddresses,
    nodes: NodePoll,
}

/// When details of jobs are queried.
#[derive(Debug)]
struct DetailSchedule {
    /// A query may be needed.
    is_due: bool,
    /// No query before this instant.
    not_before: Instant,
    /// Consecutive failures.
    failures: u32,
    /// Why devices are not known.
    note: Option<String>,
}

/// Queries about jobs in addition to the list.
#[derive(Debug, Default)]
struct DetailQuery {
    /// Jobs with their unescaped names.
    jobs: BTreeMap<JobId, String>,
    /// Requested jobs that are not in the queue.
    missing_jobs: Vec<String>,
    /// Nodes whose addresses are not known.
    nodes: BTreeSet<NodeName>,
}

/// The answers to a [`DetailQuery`].
struct DetailResult {
    query: DetailQuery,
    answer: Option<Result<ProgramOutput, SlurmError>>,
    missing_reasons: BTreeMap<String, Explanation>,
    addresses: BTreeMap<String, Option<String>>,
    took: Duration,
}

/// A running [`DetailQuery`].
type PendingQuery = Pin<Box<dyn Future<Output = DetailResult> + Send>>;

impl DetailQuery {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.missing_jobs.is_empty() && self.nodes.is_empty()
    }

    async fn run(self) -> DetailResult {
        let mut addresses = BTreeMap::new();
        // First, because some nodes cannot be connected to without their addresses.
        if !self.nodes.is_empty() {
            addresses = fetch_node_addresses(&self.nodes).await;
        }
        let began = Instant::now();
        let answer =
            if self.jobs.is_empty() { None } else { Some(fetch_details(&self.jobs).await) };
        let took = began.elapsed();
        let mut missing_reasons = BTreeMap::new();
        for job in &self.missing_jobs {
            missing_reasons.insert(job.clone(), missing_jobs::explain(job).await);
        }
        DetailResult { query: self, answer, missing_reasons, addresses, took }
    }
}

/// Waits for the running query; for ever if there is none.
async fn await_query(query: &mut Option<PendingQuery>) -> DetailResult {
    match query {
        Some(query) => query.await,
        None => std::future::pending().await,
    }
}

/// A job's devices, and the values that show whether they are still valid.
#[derive(Debug)]
struct KnownDetail {
    starts_at: Option<Timestamp>,
    nodes: usize,
    detail: JobDetail,
}

impl SlurmPoller {
    /// Returns a poller; the targets in `static_targets` are watched as well.
    pub fn new(filter: JobFilter, interval: Duration, static_targets: Vec<Target>) -> Self {
        let names_partitions = !filter.partitions.is_empty();
        Self {
            interval,
            targets: static_targets.clone(),
            static_targets,
            initial_targets: Vec::new(),
            known_details: BTreeMap::new(),
            list: JobList {
                filter_text: filter.describe().into(),
                requested: filter.requested(),
                interval,
                ..JobList::default()
            },
            names: BTreeMap::new(),
            filter,
            failures: 0,
            departed: BTreeMap::new(),
            missing_reasons: BTreeMap::new(),
            addresses: SchedulerAddresses::default(),
            nodes: NodePoll::new(interval, names_partitions),
            details: DetailSchedule {
                is_due: false,
                not_before: Instant::now(),
                failures: 0,
                note: None,
            },
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
        let mut due = Instant::now();
        let mut not_before = due;
        let mut refresh = requests.borrow().refresh;
        let mut pending_query: Option<PendingQuery> = None;
        let mut node_query = NodeQuery::new();
        // The list may differ from the one that was published last.
        let mut may_be_new = true;
        loop {
            let request = requests.borrow_and_update().clone();
            let began = Instant::now();
            let is_refreshed = request.refresh != refresh;
            refresh = request.refresh;
            if is_refreshed {
                self.details.not_before = began;
            }
            self.nodes.start_query(&mut node_query, is_refreshed, &clock);
            if began >= due || is_refreshed {
                may_be_new = true;
                self.poll_queue(&clock).await;
                let took = began.elapsed();
                let wait = next_wait(self.interval, took, self.failures, random_byte());
                log::debug!("slurm: {} jobs in {took:?}, again in {wait:?}", self.list.jobs.len());
                due = Instant::now() + wait;
                // Bounds the load of the controller, however often a refresh is requested.
                not_before = Instant::now() + took.max(MIN_QUERY_GAP);
            }
            if pending_query.is_none() {
                pending_query = self
                    .next_query(request.job.as_ref())
                    .map(|query| -> PendingQuery { Box::pin(query.run()) });
            }
            // A query for the selected job alone changes nothing yet, and a list of many jobs costs whoever reads it.
            if may_be_new {
                self.list.awaits_devices = pending_query.is_some();
                self.list.awaits_nodes = self.nodes.is_awaited();
                if pending_query.is_none() {
                    self.list.awaiting_outcome.clear();
                }
                self.addresses.is_query_running = pending_query.is_some();
                if rosters.send(Arc::new(self.roster(clock.now()))).is_err() {
                    return;
                }
            }
            may_be_new = true;
            let requested = async {
                self.wait_for_request(&mut requests, &request).await;
                sleep_until(not_before).await;
            };
            tokio::select! {
                () = sleep_until(due) => {}
                () = requested => {
                    self.details.is_due = true;
                    may_be_new = false;
                }
                answer = await_nodes(&mut node_query) => {
                    self.nodes.apply(answer);
                    self.update_targets(clock.now());
                }
                result = await_query(&mut pending_query) => {
                    pending_query = None;
                    let now = Instant::now();
                    if matches!(result.answer, Some(Ok(_))) {
                        due = due.max(now + result.took.saturating_mul(WAIT_PER_QUERY_TIME));
                    }
                    not_before = not_before.max(now + result.took.max(MIN_QUERY_GAP));
                    self.apply_result(result);
                }
            }
        }
    }

    /// Waits until a refresh, or unknown devices of a job, are requested.
    async fn wait_for_request(
        &self,
        requests: &mut watch::Receiver<PollRequest>,
        before: &PollRequest,
    ) {
        loop {
            if requests.changed().await.is_err() {
                return std::future::pending().await;
            }
            loop {
                let now = requests.borrow_and_update().clone();
                if now.refresh != before.refresh {
                    return;
                }
                if !now.job.is_some_and(|job| self.lacks_devices_of(&job)) {
                    break;
                }
                match timeout(SELECTION_REST, requests.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_closed)) => return std::future::pending().await,
                    Err(_rested) => return,
                }
            }
        }
    }

    /// Returns true if a listed job has nodes, and its devices there are not known.
    fn lacks_devices_of(&self, job: &JobId) -> bool {
        !self.known_details.contains_key(job) && self.list.with_nodes().any(|one| one.id == *job)
    }

    /// Returns the roster as of `now`.
    pub fn roster(&self, now: Timestamp) -> Roster {
        let mut list = self.list.clone();
        list.notes.extend(self.details.note.iter().map(|note| note.as_str().into()));
        list.notes.extend(self.nodes.note(now).map(Into::into));
        list.notes
            .extend(self.nodes.list.unknown_partition(&self.unlisted_partitions()).map(Into::into));
        list.notes
            .extend(self.nodes.list.hidden_nodes_note(&self.unlisted_partitions()).map(Into::into));
        list.notes.extend(self.missing_reasons.values().map(|known| known.text.as_str().into()));
        let addresses = self.addresses.clone();
        Roster { addresses, ..Roster::from_scheduler(self.targets.clone(), Arc::new(list)) }
    }

    /// Reads the queue; keeps the last list if that fails.
    async fn poll_queue(&mut self, clock: &Clock) {
        let mut queue = match fetch_queue(&self.filter).await {
            Ok(queue) => queue,
            Err(error) if error.kind == SlurmErrorKind::NoSuchJob => Queue::default(),
            Err(error) => {
                self.record_failure(error, clock);
                return;
            }
        };
        self.failures = 0;
        self.details.is_due = true;
        let listed_at = Some(clock.now());
        for job in &mut queue.jobs {
            job.listed_at = listed_at;
        }
        self.track_departed(&queue);
        self.drop_stale_details(&queue.jobs);
        self.list.jobs = queue.jobs;
        self.names = queue.names;
        self.apply_known_details();
        self.initial_targets.clear();
        self.update_targets(clock.now());
        self.list.notes = queue.notes.into_iter().map(Into::into).collect();
        self.list.is_partial = queue.is_partial;
        self.list.at = listed_at;
        self.list.error = None;
    }

    /// Lists the watched nodes, and what Slurm says of them.
    fn update_targets(&mut self, now: Timestamp) {
        let partitions = &self.filter.partitions;
        let all = self.nodes.list.names_in(partitions).filter(|_| self.nodes.has_all_nodes);
        let constant = [self.static_targets.as_slice(), &self.initial_targets].concat();
        self.targets = merge_targets(&constant, &self.list.jobs, all);
        let names = self.targets.iter().map(|target| &target.name);
        let allocations = self.list.jobs.iter().flat_map(|job| job.allocations.iter());
        let expected = allocations.map(|allocation| &allocation.node);
        let expected = expected.chain(self.static_targets.iter().map(|target| &target.name));
        let is_old = self.nodes.is_old(now);
        self.list.nodes = Arc::new(self.nodes.list.of(names, &expected.collect(), is_old));
    }

    /// Returns the partitions of the filter in which no job is listed.
    fn unlisted_partitions(&self) -> Vec<String> {
        let is_listed = |name: &&String| self.list.jobs.iter().any(|job| *job.partition == ***name);
        self.filter.partitions.iter().filter(|name| !is_listed(name)).cloned().collect()
    }

    fn record_failure(&mut self, error: SlurmError, clock: &Clock) {
        self.failures = self.failures.saturating_add(1);
        let is_same = |known: &JobListError| *known.message == *error.message;
        let since = self.list.error.as_ref().filter(|known| is_same(known));
        let since = since.map_or_else(|| clock.now(), |known| known.since);
        log::info!("slurm: {}", error.message);
        self.list.error = Some(JobListError {
            message: error.message.into(),
            remedy: error.remedy.into(),
            since,
        });
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

    /// Returns the queries that are due, or `None`.
    fn next_query(&mut self, selected_job: Option<&JobId>) -> Option<DetailQuery> {
        let is_due = self.details.is_due && Instant::now() >= self.details.not_before;
        if !is_due {
            return None;
        }
        self.details.is_due = false;
        let is_over_limit = self.list.with_nodes().count() > MAX_DETAILED_JOBS;
        let jobs = self.list.with_nodes();
        let jobs = jobs
            .filter(|job| !self.known_details.contains_key(&job.id))
            .filter(|job| !is_over_limit || selected_job == Some(&job.id))
            .filter_map(|job| Some((job.id.clone(), self.names.get(&job.id)?.clone())))
            .chain(self.departed.clone())
            .collect();
        let missing = if self.list.at.is_some() && self.list.error.is_none() {
            missing_jobs::find_missing(&self.filter.jobs, &self.list.jobs)
        } else {
            Vec::new()
        };
        self.missing_reasons.retain(|job, _| missing.contains(&job.as_str()));
        let is_new =
            |job: &&&str| self.missing_reasons.get(**job).is_none_or(|known| !known.is_final);
        let absent = missing.iter().filter(is_new).map(|job| (*job).to_owned()).collect();
        let nodes = self.list.with_nodes().flat_map(|job| job.allocations.iter());
        let nodes = nodes.map(|allocation| &allocation.node);
        let all = self.list.nodes.nodes.keys().filter(|_| self.nodes.has_all_nodes);
        let nodes = nodes.chain(all);
        let nodes = nodes.filter(|node| !self.addresses.known.contains_key(node.as_str())).cloned();
        let query = DetailQuery { jobs, missing_jobs: absent, nodes: nodes.collect() };
        (!query.is_empty()).then_some(query)
    }

    /// Applies the answers about devices, outcomes and missing jobs.
    fn apply_result(&mut self, result: DetailResult) {
        self.missing_reasons.extend(result.missing_reasons);
        if !result.addresses.is_empty() {
            Arc::make_mut(&mut self.addresses.known).extend(result.addresses);
        }
        let Some(answer) = result.answer else { return };
        let schedule = &mut self.details;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                schedule.failures = schedule.failures.saturating_add(1);
                let wait = next_wait(self.interval, result.took, schedule.failures, random_byte());
                schedule.not_before = Instant::now() + wait;
                schedule.note = Some(format!(
                    "{}; devices of jobs are inferred from their processes",
                    error.message
                ));
                return;
            }
        };
        schedule.failures = 0;
        schedule.note = None;
        let mut details = job_detail::parse(&answer.stdout, &result.query.jobs);
        for job in self.list.with_nodes() {
            let Some(detail) = details.remove(&job.id) else { continue };
            // A job that is starting or ending may have no devices yet, or no more.
            if detail.devices.is_empty() {
                continue;
            }
            let known =
                KnownDetail { starts_at: job.starts_at, nodes: job.allocations.len(), detail };
            self.known_details.insert(job.id.clone(), known);
        }
        self.apply_outcomes(&result.query.jobs, &details);
        self.apply_known_details();
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

    /// Drops the devices of jobs that have ended, were requeued, or moved to other nodes.
    fn drop_stale_details(&mut self, jobs: &[Job]) {
        let jobs: BTreeMap<&JobId, &Job> = jobs.iter().map(|job| (&job.id, job)).collect();
        self.known_details.retain(|id, known| {
            jobs.get(id).is_some_and(|job| {
                job.starts_at == known.starts_at && job.allocations.len() == known.nodes
            })
        });
    }

    /// Adds the known devices to the listed jobs.
    fn apply_known_details(&mut self) {
        for job in &mut self.list.jobs {
            let Some(known) = self.known_details.get(&job.id) else { continue };
            job.sluid.clone_from(&known.detail.sluid);
            let devices_on =
                |node: &NodeName| known.detail.devices.get(node).cloned().unwrap_or_default();
            let nodes = job.allocations.iter().map(|allocation| &allocation.node);
            job.allocations = nodes
                .map(|node| Allocation { node: node.clone(), devices: devices_on(node) })
                .collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::DeviceAllocation;

    #[tokio::test(start_paused = true)]
    async fn only_the_job_on_which_the_cursor_rests_is_queried() {
        let mut poller = SlurmPoller::new(JobFilter::default(), Duration::from_secs(30), vec![]);
        let node = NodeName::new("gpu01").unwrap();
        let allocation = Allocation { node, devices: DeviceAllocation::Unknown };
        let job = |id: u32| Job {
            allocations: [allocation.clone()].into(),
            ..Job::example(&id.to_string())
        };
        poller.list.jobs = (1..=20).map(job).collect();
        let before = PollRequest::default();
        let (sender, mut requests) = watch::channel(before.clone());
        let began = Instant::now();
        let cursor = async {
            for job in &poller.list.jobs {
                sender.send_modify(|request| request.job = Some(job.id.clone()));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = poller.wait_for_request(&mut requests, &before) => {}
            () = cursor => {}
        }
        // Twenty keys in 1.9 s, and then the rest.
        assert_eq!(began.elapsed(), Duration::from_millis(1900) + SELECTION_REST);
        assert_eq!(requests.borrow().job, JobId::new("20"));
        // A refresh does not wait.
        sender.send_modify(|request| request.refresh += 1);
        let again = Instant::now();
        poller.wait_for_request(&mut requests, &before).await;
        assert_eq!(again.elapsed(), Duration::ZERO);
    }
}
