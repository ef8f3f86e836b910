//! The poller of schedulers of which one program lists all jobs and one all nodes: each list is a query with a schedule of
//! its own, and so is how jobs have ended. A [`ListBackend`] runs the programs and parses what they print.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::scheduler::examination::ListedNode;
use crate::scheduler::poll_state::PollState;
use crate::scheduler::programs::PROGRAM_TIMEOUT;
use crate::scheduler::scheduled_query::{ScheduledQuery, TimedResult};
use crate::scheduler::user_name::user_name;
use crate::scheduler::{JobFilter, Listing, PollRequest, SchedulerError};
use gtop_local::text::sanitize;
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{
    Allocation, DeviceAllocation, Job, JobId, JobOutcome, NodeName, SchedulerNode, SchedulerNodes,
    SchedulerProfile, nodeset,
};
use gtop_ssh::SchedulerAddresses;

/// Nodes are listed this many times less often than jobs.
const JOB_LISTS_PER_NODE_LIST: u32 = 2;
/// Maximum number of requested jobs of which it is said that they are not listed.
const MAX_MISSING: usize = 8;

/// What the programs of a scheduler list.
pub trait ListBackend: Send + 'static {
    const PROFILE: &'static SchedulerProfile;

    /// Lists the jobs that wait or run.
    fn fetch_jobs() -> impl Future<Output = Result<ListedJobs, SchedulerError>> + Send + 'static;

    /// Lists the nodes.
    fn fetch_nodes() -> impl Future<Output = Result<ListedNodes, SchedulerError>> + Send + 'static;

    /// Asks how jobs ended, of which the scheduler may remember some.
    fn fetch_outcomes(
        jobs: Vec<JobId>,
    ) -> impl Future<Output = Result<Outcomes, SchedulerError>> + Send + 'static;

    /// Returns true if a person means this job by an id.
    fn is_named(job: &Job, wanted: &str) -> bool;

    /// Returns a sentence if options of the filter mean nothing here.
    fn unsupported_options(filter: &JobFilter) -> Option<&'static str>;
}

/// A job as it is listed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ListedJob {
    /// It may have several allocations on a node.
    pub(super) job: Job,
    /// No other job runs on its nodes.
    pub(super) has_whole_nodes: bool,
}

/// The jobs of a cluster.
#[derive(Debug, Default, PartialEq)]
pub struct ListedJobs {
    /// Running ones first, then by number.
    pub(super) jobs: Vec<ListedJob>,
    /// A sentence if there are more than gtop keeps.
    pub(super) cut: Option<String>,
}

/// The nodes of a cluster by their hosts' names.
#[derive(Debug, Default)]
pub struct ListedNodes {
    pub(super) nodes: BTreeMap<NodeName, SchedulerNode>,
    /// The host of each virtual node that is called otherwise.
    pub(super) hosts: BTreeMap<String, NodeName>,
}

/// The outcome of each job that is remembered; `None` while it has not ended.
pub(super) type Outcomes = BTreeMap<JobId, Option<JobOutcome>>;

/// Polls the jobs of a cluster.
#[derive(Debug)]
pub struct ListPoller<B> {
    pub(super) state: PollState,
    /// The filter's users by name, and its nodes.
    users: Vec<String>,
    nodes: BTreeSet<String>,
    /// The jobs as they were listed, before what follows from the nodes.
    listed: Vec<ListedJob>,
    known_nodes: ListedNodes,
    nodes_at: Option<Timestamp>,
    /// What is wrong with the list of nodes.
    node_error: Option<SchedulerError>,
    /// Why it is not known how jobs ended.
    outcome_error: Option<SchedulerError>,
    job_query: ScheduledQuery<Result<ListedJobs, SchedulerError>>,
    node_query: ScheduledQuery<Result<ListedNodes, SchedulerError>>,
    outcome_query: ScheduledQuery<Result<Outcomes, SchedulerError>>,
    backend: PhantomData<B>,
}

/// An answer of the scheduler.
enum ListAnswer {
    Jobs(TimedResult<ListedJobs>),
    Nodes(TimedResult<ListedNodes>),
    Outcomes(TimedResult<Outcomes>),
}

impl<B: ListBackend> ListPoller<B> {
    /// Returns a poller; the fixed nodes are watched as well.
    pub(super) fn new(filter: JobFilter, interval: Duration, fixed_nodes: Vec<NodeName>) -> Self {
        let nodes = filter.nodes.iter().filter_map(|list| nodeset::expand(list).ok());
        Self {
            users: filter.users.iter().map(|user| user_name(user)).collect(),
            nodes: nodes.flatten().collect(),
            state: PollState::new(B::PROFILE, filter, interval, fixed_nodes),
            listed: Vec::new(),
            known_nodes: ListedNodes::default(),
            nodes_at: None,
            node_error: None,
            outcome_error: None,
            job_query: ScheduledQuery::default(),
            node_query: ScheduledQuery::default(),
            outcome_query: ScheduledQuery::default(),
            backend: PhantomData,
        }
    }

    /// Starts the queries that are due.
    pub(super) fn start_queries(&mut self, _clock: &Clock) {
        if self.job_query.is_due() {
            self.job_query.start(B::fetch_jobs());
        }
        if self.node_query.is_due() {
            self.node_query.start(B::fetch_nodes());
        }
        if self.outcome_query.is_due() && !self.state.list.awaiting_outcome.is_empty() {
            let ids = self.state.list.awaiting_outcome.iter().map(|job| job.id.clone());
            self.outcome_query.start(B::fetch_outcomes(ids.collect()));
        }
    }

    /// Returns when the next query is due.
    pub(super) fn next_due(&self) -> Instant {
        let awaits_outcome = !self.state.list.awaiting_outcome.is_empty();
        let outcomes = self.outcome_query.next_due().filter(|_| awaits_outcome);
        let due = [self.job_query.next_due(), self.node_query.next_due(), outcomes];
        due.into_iter().flatten().min().unwrap_or_else(|| Instant::now() + PROGRAM_TIMEOUT)
    }

    /// Waits for an answer and takes it.
    pub(super) async fn poll(&mut self, clock: &Clock) {
        let answer = tokio::select! {
            answer = self.job_query.answer() => ListAnswer::Jobs(answer),
            answer = self.node_query.answer() => ListAnswer::Nodes(answer),
            answer = self.outcome_query.answer() => ListAnswer::Outcomes(answer),
        };
        match answer {
            ListAnswer::Jobs(answer) => self.apply_jobs(answer, clock.now()),
            ListAnswer::Nodes(answer) => self.apply_nodes(answer, clock.now()),
            ListAnswer::Outcomes(answer) => self.apply_outcomes(answer),
        }
        self.update_nodes(clock.now());
    }

    pub(super) fn on_request(&mut self, before: &PollRequest, request: &PollRequest) {
        if request.refresh != before.refresh {
            self.job_query.hasten();
            self.node_query.hasten();
        }
    }

    /// Returns the last answers, as of `now`.
    pub(super) fn listing(&self, now: Timestamp) -> Listing {
        let unsupported = B::unsupported_options(&self.state.filter).map(str::to_owned);
        let outcome_error = self.outcome_error.as_ref();
        let notes = unsupported.into_iter().chain(self.missing_jobs()).chain(self.nodes_note(now));
        let notes = notes.chain(
            outcome_error.map(|error| format!("{}; how jobs ended is not known", error.message)),
        );
        self.state.listing(self.state.list.clone(), notes, SchedulerAddresses::default())
    }

    fn apply_jobs(&mut self, answer: TimedResult<ListedJobs>, now: Timestamp) {
        let interval = self.state.interval;
        match self.job_query.schedule_next(answer, interval, interval) {
            Ok(ListedJobs { jobs, cut }) => {
                self.state.track_departed(&jobs.iter().map(|listed| &listed.job.id).collect());
                self.state.on_list(now, cut.is_some(), cut.into_iter().collect());
                self.listed = jobs;
            }
            Err(error) => self.state.on_error(error, now),
        }
    }

    /// Stores how jobs ended; those that the server still has are queried again.
    fn apply_outcomes(&mut self, answer: TimedResult<Outcomes>) {
        let interval = self.state.interval;
        let found = self.outcome_query.schedule_next(answer, interval, interval);
        let may_tell_later = found.as_ref().is_err_and(SchedulerError::is_of_server);
        self.outcome_error = found.as_ref().err().cloned();
        if may_tell_later {
            return;
        }
        let found = found.unwrap_or_default();
        // A job that is not remembered has ended.
        self.state
            .record_outcomes(|id| found.get(id).copied().unwrap_or(Some(JobOutcome::Unknown)));
    }

    fn apply_nodes(&mut self, answer: TimedResult<ListedNodes>, now: Timestamp) {
        self.state.list.awaits_nodes = false;
        let interval = self.state.interval.saturating_mul(JOB_LISTS_PER_NODE_LIST);
        match self.node_query.schedule_next(answer, interval, self.state.interval) {
            Ok(nodes) => {
                (self.known_nodes, self.nodes_at, self.node_error) = (nodes, Some(now), None);
            }
            Err(error) => self.node_error = Some(error),
        }
    }

    /// Updates the watched nodes, their states, and how many devices jobs have on them.
    fn update_nodes(&mut self, now: Timestamp) {
        let jobs = self.listed.iter().map(|listed| self.known_nodes.job(listed));
        let jobs = jobs.filter(|job| self.matches(job) && self.state.watched.lists(job));
        self.state.list.jobs =
            jobs.map(|job| Job { listed_at: self.state.list.at, ..job }).collect();
        let known = &self.known_nodes.nodes;
        // Jobs of a queue that has no nodes of its own run on those of no queue.
        let has_own = known.values().any(|node| self.is_of_queue(node));
        let in_queue = known.iter().filter(|(_, node)| {
            self.state.filter.partitions.is_empty()
                || self.is_of_queue(node)
                || (!has_own && node.partitions.is_empty())
        });
        let all: Vec<&NodeName> = in_queue.map(|(name, _)| name).collect();
        self.state.watched.update(&self.state.list.jobs, all.into_iter());
        let expected = self.state.watched.expected(&self.state.list.jobs);
        let is_old = self.node_query.is_old(self.nodes_at, now);
        let nodes = self.state.watched.names().iter().filter_map(|name| {
            let node = SchedulerNode {
                is_extra: !expected.contains(name),
                is_old,
                is_count_old: is_old,
                ..known.get(name)?.clone()
            };
            Some((name.clone(), Arc::new(node)))
        });
        self.state.list.nodes = Arc::new(SchedulerNodes {
            nodes: nodes.collect(),
            at: self.nodes_at,
            allocated_at: self.nodes_at,
            awaits_allocated: false,
        });
    }

    /// Returns true if a node is one of a queue of the filter.
    fn is_of_queue(&self, node: &SchedulerNode) -> bool {
        let queues = &self.state.filter.partitions;
        node.partitions.iter().any(|queue| queues.iter().any(|name| **name == **queue))
    }

    /// Returns true if the filter's users, jobs, queues, accounts and nodes have a job.
    fn matches(&self, job: &Job) -> bool {
        let JobFilter { jobs, partitions, accounts, .. } = &self.state.filter;
        let mut nodes = job.allocations.iter().map(|allocation| allocation.node.as_str());
        is_empty_or_has(&self.users, &job.user)
            && is_empty_or_has(partitions, &job.partition)
            && is_empty_or_has(accounts, job.account.as_deref().unwrap_or_default())
            && (jobs.is_empty() || jobs.iter().any(|wanted| B::is_named(job, wanted)))
            && (self.nodes.is_empty() || nodes.any(|node| self.nodes.contains(node)))
    }

    /// Returns a sentence if the list of nodes is missing or old.
    fn nodes_note(&self, now: Timestamp) -> Option<String> {
        let error = self.node_error.as_ref()?;
        let what = match self.nodes_at {
            None => "not known",
            at if self.node_query.is_old(at, now) => "old",
            Some(_) => return None,
        };
        let name = B::PROFILE.words.name;
        Some(format!("{}; what {name} says of nodes is {what}", error.message))
    }

    /// Returns a sentence for each requested job that is not listed.
    fn missing_jobs(&self) -> impl Iterator<Item = String> {
        let wanted = self.state.filter.jobs.iter().filter(|_| self.state.list.at.is_some());
        let missing = wanted
            .filter(|wanted| !self.state.list.jobs.iter().any(|job| B::is_named(job, wanted)));
        missing
            .take(MAX_MISSING)
            .map(|wanted| format!("job {} is not in the queue", sanitize(wanted, 64)))
    }
}

fn is_empty_or_has(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|known| known == name)
}

/// Lists the jobs that a filter has.
pub(super) async fn fetch_jobs<B: ListBackend>(
    filter: &JobFilter,
) -> Result<Vec<Job>, SchedulerError> {
    let listed = B::fetch_jobs().await?;
    let poller = ListPoller::<B>::new(filter.clone(), Duration::ZERO, Vec::new());
    let jobs = listed.jobs.iter().map(|listed| poller.known_nodes.job(listed));
    Ok(jobs.filter(|job| poller.matches(job)).collect())
}

/// Lists the nodes.
pub(super) async fn fetch_listed_nodes<B: ListBackend>() -> Result<Vec<ListedNode>, SchedulerError>
{
    let nodes = B::fetch_nodes().await?.nodes.into_iter().map(|(name, node)| ListedNode {
        name: name.to_string(),
        state: node.native_state.to_string(),
        reason: node.reason.as_deref().map(str::to_owned),
    });
    Ok(nodes.collect())
}

impl ListedNodes {
    /// Returns a job with the names of its hosts, and what follows from the nodes for its devices: where the scheduler
    /// counts devices and gave the job none, it has none, and all of a node that it has for itself.
    pub(super) fn job(&self, listed: &ListedJob) -> Job {
        let ListedJob { job, has_whole_nodes } = listed;
        let mut by_host: BTreeMap<NodeName, DeviceAllocation> = BTreeMap::new();
        for Allocation { node, devices } in job.allocations.iter() {
            let host = self.host_of(node);
            let devices = match (devices, self.nodes.get(&host).and_then(|node| node.devices)) {
                (DeviceAllocation::Unknown, Some(all)) if *has_whole_nodes => {
                    DeviceAllocation::Count(all)
                }
                (DeviceAllocation::Unknown, Some(_)) => DeviceAllocation::None,
                (devices, _) => devices.clone(),
            };
            by_host.entry(host).and_modify(|known| *known = known.and(&devices)).or_insert(devices);
        }
        let by_host = by_host.into_iter().map(|(node, devices)| Allocation { node, devices });
        Job { allocations: by_host.collect(), ..job.clone() }
    }

    /// Returns the host of a virtual node, whose name may be followed by a number in brackets.
    fn host_of(&self, node: &NodeName) -> NodeName {
        if self.nodes.contains_key(node) {
            return node.clone();
        }
        if let Some(host) = self.hosts.get(node.as_str()) {
            return host.clone();
        }
        let host = node.as_str().split_once('[').and_then(|(host, _)| NodeName::new(host).ok());
        host.unwrap_or_else(|| node.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::scheduled_query::TimedAnswer;
    use gtop_model::{SchedulerErrorKind, UNNAMED_SCHEDULER};

    struct Example;

    impl ListBackend for Example {
        const PROFILE: &'static SchedulerProfile = &UNNAMED_SCHEDULER;

        async fn fetch_jobs() -> Result<ListedJobs, SchedulerError> {
            Ok(ListedJobs::default())
        }

        async fn fetch_nodes() -> Result<ListedNodes, SchedulerError> {
            Ok(ListedNodes::default())
        }

        async fn fetch_outcomes(_: Vec<JobId>) -> Result<Outcomes, SchedulerError> {
            Ok(Outcomes::new())
        }

        fn is_named(job: &Job, wanted: &str) -> bool {
            job.id.as_str() == wanted
        }

        fn unsupported_options(filter: &JobFilter) -> Option<&'static str> {
            (!filter.qos.is_empty()).then_some("--qos means nothing")
        }
    }

    fn poller(filter: JobFilter) -> ListPoller<Example> {
        ListPoller::new(filter, Duration::from_secs(30), Vec::new())
    }

    fn answer<T>(value: Result<T, SchedulerError>) -> TimedResult<T> {
        TimedAnswer { value, took: Duration::ZERO }
    }

    fn error(kind: SchedulerErrorKind) -> SchedulerError {
        SchedulerError { kind, message: "no history".to_owned() }
    }

    fn name(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    #[tokio::test]
    async fn a_job_that_has_left_the_list_has_an_outcome_and_one_that_is_back_has_none() {
        let mut poller = poller(JobFilter::default());
        let now = Clock::system().now();
        let id = |id: &str| JobId::new(id).unwrap();
        let take = |poller: &mut ListPoller<Example>, ids: &[&str]| {
            let allocation =
                Allocation { node: name("gpu01"), devices: DeviceAllocation::Count(1) };
            let listed = |id: &&str| ListedJob {
                job: Job { allocations: [allocation.clone()].into(), ..Job::example(id) },
                has_whole_nodes: false,
            };
            let jobs = ids.iter().map(listed).collect();
            poller.apply_jobs(answer(Ok(ListedJobs { jobs, cut: None })), now);
            poller.update_nodes(now);
        };
        take(&mut poller, &["1", "2", "3"]);
        take(&mut poller, &["3"]);
        let awaited = poller.state.list.awaiting_outcome.iter().map(|job| job.id.as_str());
        assert_eq!(awaited.collect::<Vec<_>>(), ["1", "2"]);
        poller.apply_outcomes(answer(Err(error(SchedulerErrorKind::ControllerDown))));
        assert_eq!(poller.state.list.awaiting_outcome.len(), 2, "asked again");
        poller.apply_outcomes(answer(Ok([(id("1"), Some(JobOutcome::Failed))].into())));
        assert_eq!(poller.state.list.outcome(&id("1")), JobOutcome::Failed);
        assert_eq!(poller.state.list.ended.len(), 2, "one that is not remembered has ended");
        take(&mut poller, &["1"]);
        assert_eq!(poller.state.list.outcome(&id("1")), JobOutcome::Unknown);
        poller.apply_outcomes(answer(Err(error(SchedulerErrorKind::Other))));
        assert!(poller.state.list.awaiting_outcome.is_empty());
        let notes = poller.listing(now).jobs.notes.clone();
        assert_eq!(*notes[0], *"no history; how jobs ended is not known");
    }

    #[tokio::test]
    async fn options_that_mean_nothing_and_jobs_that_are_missing_are_told() {
        let mut poller = poller(JobFilter {
            jobs: vec!["5".to_owned()],
            qos: vec!["high".to_owned()],
            ..JobFilter::default()
        });
        let now = Clock::system().now();
        assert_eq!(poller.listing(now).jobs.notes.len(), 1);
        poller.apply_jobs(answer(Err(error(SchedulerErrorKind::Other))), now);
        assert!(poller.listing(now).jobs.error.is_some());
        poller.apply_jobs(answer(Ok(ListedJobs::default())), now);
        let jobs = poller.listing(now).jobs;
        assert_eq!(jobs.error, None);
        let notes: Vec<&str> = jobs.notes.iter().map(|note| &**note).collect();
        assert_eq!(notes, ["--qos means nothing", "job 5 is not in the queue"]);
    }

    #[tokio::test]
    async fn once_both_lists_are_there_nothing_is_awaited() {
        let (mut poller, now) = (poller(JobFilter::default()), Clock::system().now());
        poller.apply_jobs(answer(Ok(ListedJobs::default())), now);
        assert!(!poller.listing(now).jobs.is_answered());
        poller.apply_nodes(answer(Ok(ListedNodes::default())), now);
        assert!(poller.listing(now).jobs.is_answered());
    }

    #[tokio::test]
    async fn a_queue_without_nodes_of_its_own_runs_on_those_of_no_queue() {
        let watched = |queue: &str| {
            let partitions = vec![queue.to_owned()];
            let mut poller = poller(JobFilter { partitions, ..JobFilter::default() });
            poller.state.watched.has_all = true;
            let node = |queue: Option<&str>| SchedulerNode {
                partitions: queue.into_iter().map(Into::into).collect(),
                ..SchedulerNode::default()
            };
            let nodes = [(name("any"), node(None)), (name("own"), node(Some("debug")))];
            poller.known_nodes.nodes = nodes.into();
            poller.update_nodes(Clock::system().now());
            poller.state.watched.names().iter().map(NodeName::as_str).collect::<String>()
        };
        assert_eq!((watched("workq").as_str(), watched("debug").as_str()), ("any", "own"));
    }
}
