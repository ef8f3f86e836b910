//! Slurm's jobs and their nodes, asked for again and again.
//!
//! One round is one `squeue`, and one `scontrol` for those jobs on nodes filter devices are not
//! known yet: what a job was given does not change while it runs. The jobs and their nodes are told
//! as soon as `squeue` has named them, the devices when they are known: a `scontrol` that hangs holds
//! nothing up. Rounds keep their distance, the more so while Slurm is slow or fails; what was known
//! stays with its age and the reason.

pub use command::{fetch_jobs, fetch_node_addresses, run_command_within};
pub use error::{SlurmError, SlurmErrorKind};
pub use job_targets::{targets_of_jobs, targets_of_nodelist};
pub use step_jobs::{choose_step_jobs, step_job};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::inventory::Roster;
use crate::inventory::slurm::command::{fetch_details, fetch_queue};
use crate::inventory::slurm::job_detail::JobDetail;
use crate::inventory::slurm::job_targets::merge_targets;
use crate::inventory::slurm::poll::{WAIT_PER_QUERY_TIME, next_wait, random_byte};
use crate::inventory::slurm::queue::Queue;
use crate::model::{Allocation, Job, JobId, JobList, JobListError, JobOutcome, NodeName, clean};
use crate::time::{Clock, Timestamp};
use crate::transport::{ProgramOutput, SchedulerAddresses, Target};

mod command;
mod error;
mod gres;
mod job_detail;
mod job_targets;
mod missing_jobs;
mod poll;
mod queue;
#[cfg(test)]
mod recorded_output;
mod step_jobs;
mod time_format;

/// So many jobs are asked about in detail by themselves; beyond, only the one that is wanted.
const MAX_DETAILED_JOBS: usize = 200;
/// Between two questions to Slurm lies so much at least, and as long as the first one took.
const MIN_QUERY_GAP: Duration = Duration::from_secs(1);
/// Jobs filter end is remembered.
const MAX_ENDED_JOBS: usize = 200;

/// Which jobs to ask for; an empty list asks for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// Owners, by name or number.
    pub users: Vec<String>,
    /// Jobs, as people call them.
    pub jobs: Vec<String>,
    /// Partitions.
    pub partitions: Vec<String>,
    /// Accounts.
    pub accounts: Vec<String>,
}

impl JobFilter {
    /// Returns which jobs these are, to stand after `job`.
    pub fn describe(&self) -> String {
        let list =
            |list: &[String]| list.iter().map(|one| clean(one, 40)).collect::<Vec<_>>().join(",");
        let mut words = match (self.jobs.as_slice(), self.users.as_slice()) {
            ([], []) => "of anybody".to_owned(),
            ([], users) if *users == [own_uid()] => format!("of {}", own_user_name()),
            ([], users) => format!("of {}", list(users)),
            (jobs, _) => format!("numbered {}", list(jobs)),
        };
        for (before, of) in [("in", &self.partitions), ("of account", &self.accounts)] {
            if !of.is_empty() {
                _ = write!(words, " {before} {}", list(of));
            }
        }
        words
    }
}

/// Returns the number of whoever runs gtop, as Slurm takes it for a user.
pub fn own_uid() -> String {
    rustix::process::getuid().as_raw().to_string()
}

/// Says whether there is a Slurm to be asked.
pub fn is_available() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("squeue").is_file())
}

fn own_user_name() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    name.filter(|name| !name.is_empty()).map_or_else(own_uid, |name| clean(&name, 40))
}

/// What whoever looks at the jobs wants besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PollRequest {
    /// Counts up each time a new list is wanted at once.
    pub refresh: u64,
    /// The job somebody looks at: its devices are asked for, however many others there are.
    pub job: Option<JobId>,
}

/// The jobs of a cluster, as a source of rosters.
#[derive(Debug)]
pub struct SlurmPoller {
    filter: JobFilter,
    interval: Duration,
    /// What is watched besides the nodes of jobs.
    static_targets: Vec<Target>,
    known_details: BTreeMap<JobId, KnownDetail>,
    list: JobList,
    /// The names of its jobs as they are: not to be shown.
    names: BTreeMap<JobId, String>,
    targets: Vec<Target>,
    /// Rounds that failed since the last one that did not.
    failures: u32,
    /// Jobs that are not in the list any more, by their names as they are: how they ended is asked.
    departed: BTreeMap<JobId, String>,
    /// Why jobs that were asked for by number are not in the queue.
    absent: BTreeMap<String, String>,
    details: DetailSchedule,
    addresses: SchedulerAddresses,
}

/// How it goes with what is asked about jobs beside the list of them.
#[derive(Debug)]
struct DetailSchedule {
    /// Something may be worth asking.
    is_due: bool,
    /// Not before that.
    not_before: Instant,
    /// How often it failed since it did not.
    failures: u32,
    /// Why nothing is told.
    note: Option<String>,
}

/// What is asked about jobs beside the list of them.
#[derive(Debug, Default)]
struct DetailQuery {
    /// Jobs, by their names as they are.
    jobs: BTreeMap<JobId, String>,
    /// Jobs that are not in the queue.
    absent: Vec<String>,
    /// Nodes, for their addresses.
    nodes: BTreeSet<NodeName>,
}

/// What came of it.
struct DetailResult {
    query: DetailQuery,
    answer: Option<Result<ProgramOutput, SlurmError>>,
    absent: BTreeMap<String, String>,
    addresses: BTreeMap<NodeName, Option<String>>,
    took: Duration,
}

/// An inquiry on its way.
type PendingQuery = Pin<Box<dyn Future<Output = DetailResult> + Send>>;

impl DetailQuery {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.absent.is_empty() && self.nodes.is_empty()
    }

    async fn run(self) -> DetailResult {
        let mut addresses = BTreeMap::new();
        // First of all: without them some nodes are not even connected to.
        if !self.nodes.is_empty() {
            addresses = fetch_node_addresses(&self.nodes).await;
        }
        let began = Instant::now();
        let answer =
            if self.jobs.is_empty() { None } else { Some(fetch_details(&self.jobs).await) };
        let took = began.elapsed();
        let mut absent = BTreeMap::new();
        for job in &self.absent {
            absent.insert(job.clone(), missing_jobs::explain(job).await);
        }
        DetailResult { query: self, answer, absent, addresses, took }
    }
}

/// Waits for the end of what is asked; for ever where nothing is.
async fn await_query(asking: &mut Option<PendingQuery>) -> DetailResult {
    match asking {
        Some(asking) => asking.await,
        None => std::future::pending().await,
    }
}

/// Says why devices of jobs are not told.
fn missing_devices_note(trouble: &SlurmError) -> String {
    format!("{}; devices of jobs are told from their processes", trouble.message)
}

/// What was told of a job's devices, and what of it tells that they are the same still.
#[derive(Debug)]
struct KnownDetail {
    starts_at: Option<Timestamp>,
    nodes: usize,
    detail: JobDetail,
}

impl SlurmPoller {
    /// Makes a source that asks every `interval`; `fixed` is watched as well.
    pub fn new(filter: JobFilter, interval: Duration, fixed: Vec<Target>) -> Self {
        Self {
            interval,
            targets: fixed.clone(),
            static_targets: fixed,
            known_details: BTreeMap::new(),
            list: JobList {
                whose: filter.describe().into(),
                is_by_id: !filter.jobs.is_empty(),
                ..JobList::default()
            },
            names: BTreeMap::new(),
            filter,
            failures: 0,
            departed: BTreeMap::new(),
            absent: BTreeMap::new(),
            addresses: SchedulerAddresses::default(),
            details: DetailSchedule {
                is_due: false,
                not_before: Instant::now(),
                failures: 0,
                note: None,
            },
        }
    }

    /// Watches these nodes as well until Slurm has answered once.
    #[must_use]
    pub fn with_initial_nodes(mut self, nodes: Vec<Target>) -> Self {
        let is_new =
            |node: &Target| self.static_targets.iter().all(|known| known.name != node.name);
        self.targets.extend(nodes.into_iter().filter(is_new));
        self
    }

    /// Returns what is known before anything was asked.
    pub fn initial_roster(&self) -> Roster {
        self.roster()
    }

    /// Asks until nobody wants rosters any more.
    pub async fn run(
        mut self,
        clock: Clock,
        mut wishes: watch::Receiver<PollRequest>,
        rosters: watch::Sender<Arc<Roster>>,
    ) {
        let mut due = Instant::now();
        let mut rested = due;
        let mut refresh = wishes.borrow().refresh;
        let mut asking: Option<PendingQuery> = None;
        loop {
            let wanted = wishes.borrow_and_update().clone();
            let began = Instant::now();
            let is_refreshed = wanted.refresh != refresh;
            refresh = wanted.refresh;
            if is_refreshed {
                self.details.not_before = began;
            }
            if began >= due || is_refreshed {
                self.poll_queue(&clock).await;
                let took = began.elapsed();
                let wait = next_wait(self.interval, took, self.failures, random_byte());
                log::debug!("slurm: {} jobs in {took:?}, again in {wait:?}", self.list.jobs.len());
                due = Instant::now() + wait;
                // However often somebody asks, the controller has a rest.
                rested = Instant::now() + took.max(MIN_QUERY_GAP);
            }
            if asking.is_none() {
                asking = self
                    .next_query(wanted.job.as_ref())
                    .map(|inquiry| -> PendingQuery { Box::pin(inquiry.run()) });
            }
            self.list.awaits_devices = asking.is_some();
            if asking.is_none() {
                self.list.awaiting_outcome.clear();
            }
            self.addresses.is_asking = asking.is_some();
            if rosters.send(Arc::new(self.roster())).is_err() {
                return;
            }
            let again = async {
                self.wait_for_request(&mut wishes, &wanted).await;
                sleep_until(rested).await;
            };
            tokio::select! {
                () = sleep_until(due) => {}
                () = again => self.details.is_due = true,
                told = await_query(&mut asking) => {
                    asking = None;
                    let now = Instant::now();
                    if matches!(told.answer, Some(Ok(_))) {
                        due = due.max(now + told.took.saturating_mul(WAIT_PER_QUERY_TIME));
                    }
                    rested = rested.max(now + told.took.max(MIN_QUERY_GAP));
                    self.apply_result(told);
                }
            }
        }
    }

    /// Waits until a new round is wanted, or the devices of a job that are not known.
    async fn wait_for_request(
        &self,
        wishes: &mut watch::Receiver<PollRequest>,
        before: &PollRequest,
    ) {
        loop {
            if wishes.changed().await.is_err() {
                return std::future::pending().await;
            }
            let now = wishes.borrow_and_update();
            let is_unknown = |job: &JobId| {
                let on_nodes = self.list.on_nodes().any(|one| one.id == *job);
                on_nodes && !self.known_details.contains_key(job)
            };
            if now.refresh != before.refresh || now.job.as_ref().is_some_and(is_unknown) {
                return;
            }
        }
    }

    fn roster(&self) -> Roster {
        let mut list = self.list.clone();
        list.notes.extend(self.details.note.iter().map(|note| note.as_str().into()));
        list.notes.extend(self.absent.values().map(|note| note.as_str().into()));
        let addresses = self.addresses.clone();
        Roster { addresses, ..Roster::from_scheduler(self.targets.clone(), Arc::new(list)) }
    }

    /// Asks for the list. What is known stays where there is no answer.
    async fn poll_queue(&mut self, clock: &Clock) {
        let queue = match fetch_queue(&self.filter).await {
            Ok(queue) => queue,
            Err(trouble) if trouble.kind == SlurmErrorKind::NoSuchJob => Queue::default(),
            Err(trouble) => {
                self.record_failure(trouble, clock);
                return;
            }
        };
        self.failures = 0;
        self.details.is_due = true;
        self.track_departed(&queue);
        self.drop_stale_details(&queue.jobs);
        self.list.jobs = queue.jobs;
        self.names = queue.names;
        self.apply_known_details();
        self.targets = merge_targets(&self.static_targets, &self.list.jobs);
        self.list.notes = queue.notes.into_iter().map(Into::into).collect();
        self.list.at = Some(clock.now());
        self.list.error = None;
    }

    fn record_failure(&mut self, trouble: SlurmError, clock: &Clock) {
        self.failures = self.failures.saturating_add(1);
        let is_same = |known: &JobListError| *known.sentence == *trouble.message;
        let since = self.list.error.as_ref().filter(|known| is_same(known));
        let since = since.map_or_else(|| clock.now(), |known| known.since);
        log::info!("slurm: {}", trouble.message);
        self.list.error = Some(JobListError {
            sentence: trouble.message.into(),
            remedy: trouble.remedy.into(),
            since,
        });
    }

    /// Takes note of the jobs that had nodes and are not in the list any more.
    fn track_departed(&mut self, queue: &Queue) {
        let names = std::mem::take(&mut self.names);
        self.departed.extend(names);
        let there: BTreeSet<&JobId> = queue.jobs.iter().map(|job| &job.id).collect();
        self.departed.retain(|id, _| !there.contains(id));
        while self.departed.len() > MAX_ENDED_JOBS {
            self.departed.pop_first();
        }
        // No more than are asked about, however long Slurm takes to tell.
        let known = self.list.on_nodes().chain(&self.list.awaiting_outcome);
        let left = known.filter(|job| self.departed.contains_key(&job.id)).cloned().collect();
        self.list.awaiting_outcome = left;
        let is_back = |id: &JobId| queue.names.contains_key(id);
        if self.list.ended.iter().any(|(id, _)| is_back(id)) {
            let ended = self.list.ended.iter().filter(|(id, _)| !is_back(id)).cloned();
            self.list.ended = ended.collect();
        }
    }

    /// Returns what is to be asked beside the list, if anything is.
    fn next_query(&mut self, wanted: Option<&JobId>) -> Option<DetailQuery> {
        let is_due = self.details.is_due && Instant::now() >= self.details.not_before;
        if !is_due {
            return None;
        }
        self.details.is_due = false;
        let is_many = self.list.on_nodes().count() > MAX_DETAILED_JOBS;
        let jobs = self.list.on_nodes();
        let jobs = jobs
            .filter(|job| !self.known_details.contains_key(&job.id))
            .filter(|job| !is_many || wanted == Some(&job.id))
            .filter_map(|job| Some((job.id.clone(), self.names.get(&job.id)?.clone())))
            .chain(self.departed.clone())
            .collect();
        let missing = if self.list.at.is_some() && self.list.error.is_none() {
            missing_jobs::find_missing(&self.filter.jobs, &self.list.jobs)
        } else {
            Vec::new()
        };
        self.absent.retain(|job, _| missing.contains(&job.as_str()));
        let is_new = |job: &&&str| !self.absent.contains_key(**job);
        let absent = missing.iter().filter(is_new).map(|job| (*job).to_owned()).collect();
        let nodes = self.list.on_nodes().flat_map(|job| job.allocations.iter());
        let nodes = nodes.map(|one| &one.node);
        let nodes = nodes.filter(|node| !self.addresses.known.contains_key(*node)).cloned();
        let inquiry = DetailQuery { jobs, absent, nodes: nodes.collect() };
        (!inquiry.is_empty()).then_some(inquiry)
    }

    /// Takes what was told of devices, of jobs that ended, and of those that are not there.
    fn apply_result(&mut self, told: DetailResult) {
        self.absent.extend(told.absent);
        if !told.addresses.is_empty() {
            Arc::make_mut(&mut self.addresses.known).extend(told.addresses);
        }
        let answer = match told.answer {
            None => return,
            Some(Ok(answer)) => {
                self.details.failures = 0;
                self.details.note = None;
                answer
            }
            Some(Err(trouble)) => {
                let details = &mut self.details;
                details.failures = details.failures.saturating_add(1);
                let wait = next_wait(self.interval, told.took, details.failures, random_byte());
                details.not_before = Instant::now() + wait;
                details.note = Some(missing_devices_note(&trouble));
                return;
            }
        };
        let mut details = job_detail::parse(&answer.output, &told.query.jobs);
        for job in self.list.on_nodes() {
            let Some(detail) = details.remove(&job.id) else { continue };
            // Of a job that is being started or ended nothing may be said yet, or any more.
            if detail.devices.is_empty() {
                continue;
            }
            let known =
                KnownDetail { starts_at: job.starts_at, nodes: job.allocations.len(), detail };
            self.known_details.insert(job.id.clone(), known);
        }
        self.apply_outcomes(&told.query.jobs, &details);
        self.apply_known_details();
    }

    /// Takes how jobs that are gone have ended; of what is not over yet it is asked again.
    fn apply_outcomes(
        &mut self,
        asked: &BTreeMap<JobId, String>,
        told: &BTreeMap<JobId, JobDetail>,
    ) {
        let gone: Vec<JobId> =
            asked.keys().filter(|id| self.departed.contains_key(*id)).cloned().collect();
        let mut ended = self.list.ended.to_vec();
        for id in gone {
            let outcome = match told.get(&id) {
                Some(detail) => detail.outcome,
                None => Some(JobOutcome::Unknown),
            };
            if let Some(outcome) = outcome {
                self.departed.remove(&id);
                ended.push((id, outcome));
            }
        }
        let surplus = ended.len().saturating_sub(MAX_ENDED_JOBS);
        ended.drain(..surplus);
        self.list.ended = ended.into();
        // What is known is told, whatever else is asked next.
        self.list.awaiting_outcome.retain(|job| self.departed.contains_key(&job.id));
    }

    /// Forgets the devices of jobs that are over, or began anew, or on other nodes.
    fn drop_stale_details(&mut self, jobs: &[Job]) {
        let jobs: BTreeMap<&JobId, &Job> = jobs.iter().map(|job| (&job.id, job)).collect();
        self.known_details.retain(|id, known| {
            jobs.get(id).is_some_and(|job| {
                job.starts_at == known.starts_at && job.allocations.len() == known.nodes
            })
        });
    }

    /// Adds what is known of their devices to the jobs of the list.
    fn apply_known_details(&mut self) {
        for job in &mut self.list.jobs {
            let Some(known) = self.known_details.get(&job.id) else { continue };
            job.sluid.clone_from(&known.detail.sluid);
            let told =
                |node: &NodeName| known.detail.devices.get(node).cloned().unwrap_or_default();
            let nodes = job.allocations.iter().map(|one| &one.node);
            job.allocations =
                nodes.map(|node| Allocation { node: node.clone(), devices: told(node) }).collect();
        }
    }
}
