//! Which jobs' devices are queried: those that are not known yet, in as few calls as their number needs.
//!
//! The allocation of a job does not change while it runs, so each job is queried until it is answered, also with no device.
//! A job whose nodes have no device in use is not queried at all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::command::{DetailAnswer, DetailQuery, fetch_details};
use super::gres::ParsedAllocation;
use super::job_detail::JobDetail;
use super::node_use::NodeUse;
use crate::scheduler::SchedulerError;
use crate::scheduler::scheduled_query::{ScheduledQuery, TimedAnswer};
use gtop_local::time::Timestamp;
use gtop_model::{
    Allocation, DeviceAllocation, Job, JobId, JobList, JobState, NodeName, SchedulerErrorKind,
};

/// Up to this many jobs are queried one by one. Each is a request to the controller, which may allow a user no more than
/// 30 at once (`rl_bucket_size`); the records of all jobs are one.
const MAX_SINGLE_JOBS: usize = 16;
/// The same if `squeue` costs the controller less than the records of all jobs, because it lists those of one user.
const MAX_SINGLE_JOBS_OF_USER: usize = 64;
/// How long to wait for the answer about nodes, which shows which jobs need no query.
const MAX_WAIT_FOR_NODES: Duration = Duration::from_secs(1);
/// Maximum number of lists of jobs between two queries about a job that has no answer.
const MAX_LISTS_PER_RETRY: u32 = 32;

/// The known devices of jobs, and the query for others.
#[derive(Debug, Default)]
pub(super) struct DetailPoll {
    known: BTreeMap<JobId, KnownDetail>,
    /// Jobs that were queried without an answer, because they start or end.
    unanswered: BTreeMap<JobId, Retry>,
    /// Jobs on nodes where one is known to have a device that is not in use: they may have got or lost some.
    doubted: BTreeMap<JobId, Retry>,
    pub(super) query: ScheduledQuery<DetailAnswer>,
    /// When the jobs of the running query had started: a job that was requeued since has other devices.
    queried: BTreeMap<JobId, Option<Timestamp>>,
    /// A list has arrived since the last query.
    is_wanted: bool,
    /// The nodes' answer is waited for until then.
    nodes_awaited_until: Option<Instant>,
    /// The records of all jobs are more than gtop reads.
    is_all_too_long: bool,
    /// Up to this many jobs are queried one by one.
    max_single: usize,
    /// There was an answer.
    has_answered: bool,
    /// Why devices are not known.
    note: Option<String>,
}

/// A job's devices, and the values that show whether they are still valid.
#[derive(Debug)]
struct KnownDetail {
    starts_at: Option<Timestamp>,
    nodes: usize,
    detail: JobDetail,
    /// It was not queried: jobs have no device on its nodes.
    is_inferred: bool,
}

/// When a job without an answer is queried again.
#[derive(Clone, Copy, Debug, Default)]
struct Retry {
    /// Lists until then.
    lists: u32,
    /// Lists between the last two queries.
    gap: u32,
}

impl KnownDetail {
    fn new(job: &Job, detail: JobDetail, is_inferred: bool) -> Self {
        Self { starts_at: job.starts_at, nodes: job.allocations.len(), detail, is_inferred }
    }

    /// Returns true if the job still has these devices. One that is ending leaves its nodes one after the other.
    fn is_valid_for(&self, job: &Job) -> bool {
        let has_same_nodes = job.allocations.len() == self.nodes || job.state == JobState::Ending;
        job.starts_at == self.starts_at && has_same_nodes
    }

    /// Returns true if what it means depends on how many devices a node has.
    fn has_positions(&self) -> bool {
        self.detail.devices.values().any(ParsedAllocation::has_positions)
    }
}

impl DetailPoll {
    pub(super) fn new(lists_one_user: bool) -> Self {
        let max_single = if lists_one_user { MAX_SINGLE_JOBS_OF_USER } else { MAX_SINGLE_JOBS };
        Self { max_single, ..Self::default() }
    }

    /// Drops the devices of jobs that have ended, were requeued, or moved to other nodes; those of others are queried.
    pub(super) fn on_list(&mut self, jobs: &[Job]) {
        let jobs: BTreeMap<&JobId, &Job> = jobs.iter().map(|job| (&job.id, job)).collect();
        self.known.retain(|id, known| jobs.get(id).is_some_and(|job| known.is_valid_for(job)));
        self.unanswered.retain(|id, _| jobs.contains_key(id));
        self.doubted.retain(|id, _| jobs.contains_key(id));
        for retry in self.unanswered.values_mut().chain(self.doubted.values_mut()) {
            retry.lists = retry.lists.saturating_sub(1);
        }
        self.is_wanted = true;
        self.nodes_awaited_until = Some(Instant::now() + MAX_WAIT_FOR_NODES);
    }

    /// Applies what jobs have on nodes; returns true if that changes what is known of a job.
    pub(super) fn on_node_use(&mut self, list: &JobList, node_use: &NodeUse) -> bool {
        let mut is_changed = self.known.values().any(KnownDetail::has_positions);
        for job in list.with_nodes() {
            let known = self.known.get(&job.id);
            // The devices in use on nodes of an ending job prove nothing about it.
            if known.is_some_and(|known| !known.is_inferred || job.state == JobState::Ending) {
                continue;
            }
            let has_none = node_use.excludes_devices(job, list.at);
            if has_none == self.known.contains_key(&job.id) {
                continue;
            }
            if has_none {
                let known = KnownDetail::new(job, JobDetail::without_devices(job), true);
                self.known.insert(job.id.clone(), known);
            } else if node_use.at >= list.at {
                self.known.remove(&job.id);
                self.is_wanted = true;
            } else {
                continue;
            }
            is_changed = true;
        }
        self.note_contradictions(list, node_use);
        is_changed
    }

    /// Notes the jobs on nodes where a job is known to have a device that is not in use: they are queried again, if that is
    /// still so at the next list.
    fn note_contradictions(&mut self, list: &JobList, node_use: &NodeUse) {
        if list.at.is_none() || node_use.at < list.at {
            return;
        }
        let mut jobs: Vec<&Job> =
            list.with_nodes().filter(|job| job.state == JobState::Running).collect();
        let mut nodes: BTreeSet<&NodeName> = BTreeSet::new();
        for job in &jobs {
            let all = job.allocations.iter().map(|allocation| &allocation.node);
            nodes.extend(all.filter(|node| self.has_unused(job, node, node_use) == Some(true)));
        }
        jobs.retain(|job| job.allocations.iter().any(|part| nodes.contains(&part.node)));
        let doubted: BTreeSet<&JobId> = jobs.into_iter().map(|job| &job.id).collect();
        self.doubted.retain(|id, _| doubted.contains(id));
        for id in doubted {
            let retry = self.doubted.entry(id.clone()).or_insert(Retry { lists: 1, gap: 0 });
            self.is_wanted |= retry.lists == 0;
        }
    }

    /// Returns true if a job is known to have a device of a node that is not in use; `None` if that is not known.
    fn has_unused(&self, job: &Job, node: &NodeName, node_use: &NodeUse) -> Option<bool> {
        let told = node_use.nodes.get(node).filter(|node| !node.is_completing())?;
        let devices = self.known.get(&job.id)?.detail.devices.get(node)?.on_node(told.devices);
        let used = told.allocated_indices.as_deref()?;
        Some(devices.indices()?.iter().any(|index| !used.contains(index)))
    }

    /// Makes a query about the jobs without devices due, also of those that had no answer.
    pub(super) fn hasten(&mut self) {
        self.query.hasten();
        self.unanswered.clear();
    }

    /// Returns true if the devices of a job on nodes are not known.
    pub(super) fn lacks(&self, list: &JobList, id: &JobId) -> bool {
        list.with_nodes().any(|job| job.id == *id) && !self.known.contains_key(id)
    }

    /// Makes the query about a job due.
    pub(super) fn hasten_job(&mut self, id: &JobId) {
        self.unanswered.remove(id);
        self.is_wanted = true;
    }

    /// Returns when the next query may be started; `None` if none is wanted.
    pub(super) fn next_due(&self, awaits_nodes: bool) -> Option<Instant> {
        let due = self.query.next_due().filter(|_| self.is_wanted)?;
        Some(self.nodes_awaited_until.filter(|_| awaits_nodes).map_or(due, |until| due.max(until)))
    }

    /// Starts the query that is due, if any, about jobs of the list and `departed` ones. `names` has unescaped names.
    pub(super) fn start(
        &mut self,
        list: &JobList,
        names: &BTreeMap<JobId, String>,
        departed: &BTreeMap<JobId, String>,
        awaits_nodes: bool,
    ) {
        let is_due = self.next_due(awaits_nodes).is_some_and(|due| due <= Instant::now());
        if let Some(query) = is_due.then(|| self.next_query(list, names, departed)).flatten() {
            let of = if query.of_all { " of all" } else { "" };
            log::debug!("scheduler: devices of {} jobs{of}", query.jobs.len());
            self.query.start(fetch_details(query));
        }
    }

    /// Returns the next query; `None` if there is nothing to query until the next list.
    fn next_query(
        &mut self,
        list: &JobList,
        names: &BTreeMap<JobId, String>,
        departed: &BTreeMap<JobId, String>,
    ) -> Option<DetailQuery> {
        self.is_wanted = false;
        let unknown = self.unknown(list).map(|job| &job.id);
        let unknown = unknown.filter_map(|id| Some((id.clone(), names.get(id)?.clone())));
        let mut jobs: BTreeMap<JobId, String> = unknown.chain(departed.clone()).collect();
        let of_all = jobs.len() > self.max_single && !self.is_all_too_long;
        while !of_all && jobs.len() > self.max_single {
            jobs.pop_last();
            // They follow as soon as the load of the controller allows.
            self.is_wanted = true;
        }
        let listed = list.with_nodes().filter(|job| jobs.contains_key(&job.id));
        self.queried = listed.map(|job| (job.id.clone(), job.starts_at)).collect();
        (!jobs.is_empty()).then_some(DetailQuery { jobs, of_all })
    }

    /// Returns the jobs to query.
    fn unknown<'a>(&'a self, list: &'a JobList) -> impl Iterator<Item = &'a Job> {
        list.with_nodes().filter(|job| {
            let is_doubted = self.doubted.get(&job.id).is_some_and(|retry| retry.lists == 0);
            let is_later = self.unanswered.get(&job.id).is_some_and(|retry| retry.lists > 0);
            (is_doubted || !self.known.contains_key(&job.id)) && !is_later
        })
    }

    /// Returns true if a query runs, or one about jobs of the list or `departed` ones is about to be started.
    pub(super) fn is_awaited(&self, list: &JobList, departed: &BTreeMap<JobId, String>) -> bool {
        let is_next = self.is_wanted && !self.query.has_failed();
        self.query.is_running()
            || (is_next && (!departed.is_empty() || self.unknown(list).next().is_some()))
    }

    /// Stores the devices of the listed jobs; returns the others' details, and the jobs whose absence tells something.
    pub(super) fn apply(
        &mut self,
        list: &JobList,
        answer: TimedAnswer<DetailAnswer>,
        interval: Duration,
    ) -> (BTreeMap<JobId, String>, BTreeMap<JobId, JobDetail>) {
        let DetailAnswer { query, mut details, is_cut, error } = answer.value;
        self.schedule(error.is_some(), interval, answer.took);
        self.is_all_too_long |= error.as_ref().is_some_and(SchedulerError::is_truncated);
        let mut queried = query.jobs;
        for job in list.with_nodes() {
            if self.queried.get(&job.id) != Some(&job.starts_at) {
                continue;
            }
            if let Some(retry) = self.doubted.get_mut(&job.id) {
                retry.next();
            }
            match details.remove(&job.id).filter(|detail| !detail.devices.is_empty()) {
                Some(detail) => {
                    self.unanswered.remove(&job.id);
                    self.known.insert(job.id.clone(), KnownDetail::new(job, detail, false));
                }
                // A job that is starting or ending may have no devices yet, or no more.
                None if error.is_none() => {
                    self.unanswered.entry(job.id.clone()).or_default().next();
                }
                None => {}
            }
        }
        // Without the program, there will never be an answer.
        let is_asked_again = is_cut
            || error.as_ref().is_some_and(|error| error.kind != SchedulerErrorKind::NotInstalled);
        self.note = error.map(|error| {
            let all = list.with_nodes().count();
            let unknown = list.with_nodes().filter(|job| !self.known.contains_key(&job.id)).count();
            let of =
                if unknown < all { format!("{unknown} of {all} jobs") } else { "jobs".to_owned() };
            format!("{}; devices of {of} are inferred from their processes", error.message)
        });
        if is_asked_again {
            queried.retain(|id, _| details.contains_key(id));
        }
        (queried, details)
    }

    fn schedule(&mut self, has_failed: bool, interval: Duration, took: Duration) {
        if has_failed {
            self.query.on_failure(interval, took);
            self.is_wanted = true;
        } else {
            // The next list makes it wanted.
            self.query.on_success(Duration::ZERO, took);
            self.has_answered = true;
        }
    }

    /// Adds the known devices to the listed jobs.
    pub(super) fn apply_to(&self, jobs: &mut [Job], node_use: &NodeUse) {
        for job in jobs {
            let Some(known) = self.known.get(&job.id) else {
                let mut devices = job.allocations.iter().map(|allocation| &allocation.devices);
                if devices.any(|devices| *devices != DeviceAllocation::Unknown) {
                    job.allocations = with_devices(job, |_| DeviceAllocation::Unknown);
                }
                continue;
            };
            job.alias.clone_from(&known.detail.sluid);
            job.memory = known.detail.memory;
            job.allocations = with_devices(job, |node| {
                let count = node_use.nodes.get(node).and_then(|node| node.devices);
                let parsed = known.detail.devices.get(node);
                parsed.map_or(DeviceAllocation::Unknown, |parsed| parsed.on_node(count))
            });
        }
    }

    /// Returns why devices are not known, or that the first answer is awaited.
    pub(super) fn note(&self, list: &JobList) -> Option<String> {
        let is_first = !self.has_answered && self.query.is_running();
        let unknown = list.jobs_without_devices();
        let awaited = (is_first && unknown > 0)
            .then(|| format!("the devices of {unknown} jobs are not known yet"));
        self.note.clone().or(awaited)
    }
}

impl Retry {
    /// Doubles the wait.
    fn next(&mut self) {
        self.gap = self.gap.saturating_mul(2).clamp(1, MAX_LISTS_PER_RETRY);
        self.lists = self.gap;
    }
}

fn with_devices(
    job: &Job,
    devices_on: impl Fn(&NodeName) -> DeviceAllocation,
) -> std::sync::Arc<[Allocation]> {
    let nodes = job.allocations.iter().map(|allocation| &allocation.node);
    nodes.map(|node| Allocation { node: node.clone(), devices: devices_on(node) }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::error;
    use super::super::gres::parse_device_allocation;
    use super::*;
    use gtop_model::SchedulerNode;

    const INTERVAL: Duration = Duration::from_secs(30);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    /// A list of running jobs with these numbers, each on the node of its number.
    fn list(numbers: impl Iterator<Item = u32>) -> JobList {
        let job = |number: u32| {
            let node = NodeName::new(&format!("n{number}")).unwrap();
            let allocation = Allocation { node, devices: DeviceAllocation::Unknown };
            Job { allocations: [allocation].into(), ..Job::example(&number.to_string()) }
        };
        JobList { jobs: numbers.map(job).collect(), at: Some(at(5)), ..JobList::default() }
    }

    fn names(list: &JobList) -> BTreeMap<JobId, String> {
        list.jobs.iter().map(|job| (job.id.clone(), "x".to_owned())).collect()
    }

    fn detail(number: u32) -> (JobId, JobDetail) {
        let node = NodeName::new(&format!("n{number}")).unwrap();
        let devices = [(node, DeviceAllocation::Indices([0].into()).into())].into();
        (JobId::new(&number.to_string()).unwrap(), JobDetail { devices, ..JobDetail::default() })
    }

    fn next_query(poll: &mut DetailPoll, list: &JobList) -> Option<DetailQuery> {
        poll.next_query(list, &names(list), &BTreeMap::new())
    }

    fn answer(
        query: DetailQuery,
        details: impl Iterator<Item = u32>,
        error: Option<SchedulerError>,
    ) -> TimedAnswer<DetailAnswer> {
        let details = details.map(detail).collect();
        let value = DetailAnswer { query, details, is_cut: false, error };
        TimedAnswer { value, took: Duration::ZERO }
    }

    #[tokio::test(start_paused = true)]
    async fn few_jobs_are_queried_one_by_one_and_many_at_once() {
        for (lists_one_user, count, of_all) in
            [(false, 16, false), (false, 17, true), (true, 64, false), (true, 65, true)]
        {
            let list = list(0..count);
            let mut poll = DetailPoll::new(lists_one_user);
            poll.on_list(&list.jobs);
            let query = next_query(&mut poll, &list).unwrap();
            assert_eq!((query.jobs.len(), query.of_all), (list.jobs.len(), of_all), "{count}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_without_an_answer_are_queried_again_ever_more_rarely() {
        let list = list(0..2);
        let mut poll = DetailPoll::new(false);
        let mut queried = Vec::new();
        for _ in 0..20 {
            poll.on_list(&list.jobs);
            let query = next_query(&mut poll, &list);
            queried.push(query.as_ref().map_or(0, |query| query.jobs.len()));
            if let Some(query) = query {
                poll.apply(&list, answer(query, 0..1, None), INTERVAL);
            }
            assert!(!poll.is_awaited(&list, &BTreeMap::new()), "{queried:?}");
        }
        // The first job has its devices after the first query.
        let expected = [2, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(queried, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_was_requeued_while_it_was_queried_is_queried_again() {
        let mut list = list(0..2);
        let mut poll = DetailPoll::new(false);
        poll.on_list(&list.jobs);
        let query = next_query(&mut poll, &list).unwrap();
        list.jobs[1].starts_at = Some(at(9));
        poll.on_list(&list.jobs);
        poll.apply(&list, answer(query, 0..2, None), INTERVAL);
        let query = next_query(&mut poll, &list).unwrap();
        assert_eq!(query.jobs.keys().map(JobId::as_str).collect::<Vec<_>>(), ["1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_leaves_its_nodes_one_by_one_keeps_its_devices() {
        let mut list = list(0..1);
        let other = NodeName::new("n9").unwrap();
        let allocation = Allocation { node: other, devices: DeviceAllocation::Unknown };
        list.jobs[0].allocations = [list.jobs[0].allocations[0].clone(), allocation].into();
        let mut poll = DetailPoll::new(false);
        poll.on_list(&list.jobs);
        let query = next_query(&mut poll, &list).unwrap();
        poll.apply(&list, answer(query, 0..1, None), INTERVAL);
        list.jobs[0].allocations = [list.jobs[0].allocations[0].clone()].into();
        list.jobs[0].state = JobState::Ending;
        poll.on_list(&list.jobs);
        assert!(next_query(&mut poll, &list).is_none());
        list.jobs[0].state = JobState::Running;
        poll.on_list(&list.jobs);
        assert!(next_query(&mut poll, &list).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_whole_of_an_answer_is_kept_and_the_rest_is_queried_in_parts() {
        let mut list = list(0..50);
        let mut poll = DetailPoll::new(false);
        poll.on_list(&list.jobs);
        let query = next_query(&mut poll, &list).unwrap();
        let cut = answer(query, 0..10, Some(error::truncated("scontrol")));
        let (told, _) = poll.apply(&list, cut, INTERVAL);
        assert_eq!(told.len(), 0, "that a job is missing tells nothing");
        let note = "scontrol printed more than gtop reads; devices of 40 of 50 jobs are inferred \
                    from their processes";
        assert_eq!(poll.note(&list).as_deref(), Some(note));
        poll.apply_to(&mut list.jobs, &NodeUse::default());
        assert_eq!(list.jobs_without_devices(), 40);
        let mut parts = Vec::new();
        while let Some(query) = next_query(&mut poll, &list) {
            let numbers = query.jobs.keys().map(|id| id.as_str().parse().unwrap());
            let numbers: Vec<u32> = numbers.collect();
            parts.push((numbers.len(), query.of_all));
            poll.apply(&list, answer(query, numbers.into_iter(), None), INTERVAL);
        }
        assert_eq!(parts, [(16, false), (16, false), (8, false)]);
        poll.apply_to(&mut list.jobs, &NodeUse::default());
        assert_eq!((list.jobs_without_devices(), poll.note(&list)), (0, None));
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_known_devices_stay_and_the_query_is_repeated_later() {
        let list = list(0..2);
        let mut poll = DetailPoll::new(false);
        poll.on_list(&list.jobs);
        let query = next_query(&mut poll, &list).unwrap();
        let error = error::of_stderr("scontrol", "Unable to contact the controller");
        assert_eq!(error.kind, SchedulerErrorKind::ControllerDown);
        poll.apply(&list, answer(query, 0..1, Some(error)), INTERVAL);
        assert!(!poll.is_awaited(&list, &BTreeMap::new()));
        assert!(poll.next_due(false).unwrap() > Instant::now() + INTERVAL / 2);
        assert!(poll.note(&list).unwrap().contains("controller is down; devices of 1 of 2 jobs"));
        let query = next_query(&mut poll, &list).unwrap();
        assert_eq!(query.jobs.keys().map(JobId::as_str).collect::<Vec<_>>(), ["1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_that_have_left_the_list_are_asked_about_again_after_a_failure() {
        let departed: BTreeMap<_, _> = [(JobId::new("7").unwrap(), "x".to_owned())].into();
        let list = list(0..0);
        let unreached = error::of_stderr("scontrol", "Unable to contact the controller");
        let missing = gtop_local::process::ProgramError::NotFound;
        let missing = error::PROGRAMS.run_error("scontrol", &missing, Duration::ZERO);
        for (is_cut, error, told) in [
            (false, Some(unreached), 0),
            (true, None, 0),
            (false, Some(missing), 1),
            (false, None, 1),
        ] {
            let mut poll = DetailPoll::new(false);
            let query = poll.next_query(&list, &BTreeMap::new(), &departed).unwrap();
            let mut answer = answer(query, 0..0, error);
            answer.value.is_cut = is_cut;
            let (answered, _) = poll.apply(&list, answer, INTERVAL);
            assert_eq!(answered.len(), told);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn shares_of_devices_are_placed_once_it_is_known_how_many_their_node_has() {
        let mut list = list(0..1);
        let mut poll = DetailPoll::new(false);
        poll.on_list(&list.jobs);
        let query = next_query(&mut poll, &list).unwrap();
        let mut answer = answer(query, 0..1, None);
        let parsed = parse_device_allocation("shard:h100:5(0/4,3/4,2/4,0/4)");
        let detail = answer.value.details.values_mut().next().unwrap();
        detail.devices.values_mut().for_each(|devices| *devices = parsed.clone());
        poll.apply(&list, answer, INTERVAL);
        let devices = |list: &JobList| list.jobs[0].allocations[0].devices.clone();
        poll.apply_to(&mut list.jobs, &NodeUse::default());
        assert_eq!(devices(&list), DeviceAllocation::Count(2));
        let node = SchedulerNode { devices: Some(4), ..SchedulerNode::default() };
        let nodes = [(NodeName::new("n0").unwrap(), node.into())].into();
        let node_use = NodeUse { nodes, at: Some(at(6)), is_truncated: false };
        assert!(poll.on_node_use(&list, &node_use));
        poll.apply_to(&mut list.jobs, &node_use);
        assert_eq!(devices(&list), DeviceAllocation::Shares([1, 2].into()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_on_nodes_without_devices_in_use_is_not_queried_until_there_are() {
        let mut list = list(0..3);
        let node = |devices: u32, used: &[u32]| SchedulerNode {
            devices: Some(devices),
            allocated_indices: Some(used.into()),
            ..SchedulerNode::default()
        };
        let node_use = |second, idle: &[u32]| {
            let nodes = [("n0", node(0, &[])), ("n1", node(4, idle)), ("n2", node(4, &[1]))];
            let nodes = nodes.map(|(name, node)| (NodeName::new(name).unwrap(), node.into()));
            NodeUse { nodes: nodes.into(), at: Some(at(second)), is_truncated: false }
        };
        let mut poll = DetailPoll::new(false);
        poll.on_list(&list.jobs);
        assert!(poll.on_node_use(&list, &node_use(6, &[])));
        let query = next_query(&mut poll, &list).unwrap();
        assert_eq!(query.jobs.keys().map(JobId::as_str).collect::<Vec<_>>(), ["2"]);
        poll.apply_to(&mut list.jobs, &NodeUse::default());
        let devices = |list: &JobList, at: usize| list.jobs[at].allocations[0].devices.clone();
        assert_eq!(devices(&list, 0), DeviceAllocation::None);
        assert_eq!(devices(&list, 1), DeviceAllocation::None);
        // What was asked before the last list changes nothing; what is asked after it does.
        list.at = Some(at(7));
        poll.on_list(&list.jobs);
        assert!(!poll.on_node_use(&list, &node_use(6, &[])));
        // Nor does what is in use on the nodes of a job that is ending.
        let mut ending = list.clone();
        ending.jobs[1].state = JobState::Ending;
        assert!(!poll.on_node_use(&ending, &node_use(8, &[3])));
        assert!(poll.on_node_use(&list, &node_use(8, &[3])));
        poll.apply_to(&mut list.jobs, &NodeUse::default());
        assert_eq!(devices(&list, 1), DeviceAllocation::Unknown);
        let query = next_query(&mut poll, &list).unwrap();
        assert_eq!(query.jobs.keys().map(JobId::as_str).collect::<Vec<_>>(), ["1", "2"]);
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_whose_devices_are_not_in_use_are_queried_again_ever_more_rarely() {
        // Both have index 0 of their node, by their records.
        let list = list(0..2);
        let queries = |used: &[u32]| {
            let node = SchedulerNode {
                devices: Some(4),
                allocated_indices: Some(used.into()),
                ..SchedulerNode::default()
            };
            let other = SchedulerNode { allocated_indices: Some([0].into()), ..node.clone() };
            let nodes = [("n0", node), ("n1", other)];
            let nodes = nodes.map(|(name, node)| (NodeName::new(name).unwrap(), node.into()));
            let node_use = NodeUse { nodes: nodes.into(), at: Some(at(6)), is_truncated: false };
            let mut poll = DetailPoll::new(false);
            let mut queried = Vec::new();
            for _ in 0..12 {
                poll.on_list(&list.jobs);
                poll.on_node_use(&list, &node_use);
                let query = next_query(&mut poll, &list);
                queried.push(query.as_ref().map_or(0, |query| query.jobs.len()));
                if let Some(query) = query {
                    poll.apply(&list, answer(query, 0..2, None), INTERVAL);
                }
                assert!(!poll.is_awaited(&list, &BTreeMap::new()), "{queried:?}");
            }
            queried
        };
        assert_eq!(queries(&[0]), [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(queries(&[0, 1]), [2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(queries(&[1]), [2, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0]);
    }
}
