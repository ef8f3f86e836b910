//! A scheduler's jobs, their allocated devices, and the job list.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::declare::table;
use crate::device_evidence::ProvedIndices;
use crate::id::{JobId, NodeName};
use crate::scheduler::SchedulerProfile;
use crate::scheduler_node::SchedulerNodes;
use crate::unit::Bytes;
use gtop_local::time::Timestamp;

pub use finished::{FinishedJob, FinishedJobs};

mod finished;

/// A run time in whole seconds differs from the exact one by less than this, with the time its list took.
const RUN_TIME_STEP: Duration = Duration::from_secs(2);

/// What may follow the id of an array or a heterogeneous job in that of a part of it: `2_1`, `3+1`, `21[3]`.
pub const PART_MARKS: [char; 3] = ['_', '+', '['];

/// One job as its scheduler reports it. Texts are safe to show.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Job id, as its own environment has it: `11`.
    pub id: JobId,
    /// Displayed id: `11`, `2_1` for a task of an array, `3+1` for a component of a heterogeneous job, `2_[3-5%3]`
    /// for pending tasks of an array.
    pub shown_id: Arc<str>,
    /// Another name of the job, which control groups may have in place of the id.
    pub alias: Option<JobId>,
    /// Job name.
    pub name: Arc<str>,
    /// User name.
    pub user: Arc<str>,
    /// Its queue, such as a partition.
    pub partition: Arc<str>,
    /// Account it is charged to.
    pub account: Option<Arc<str>>,
    /// State.
    pub state: JobState,
    /// The state as the scheduler names it; empty if it is not known.
    pub native_state: Arc<str>,
    /// Reason for the state, such as what it waits for.
    pub reason: Option<Arc<str>>,
    /// Submit time.
    pub submitted_at: Option<Timestamp>,
    /// Start time, or the expected one.
    pub starts_at: Option<Timestamp>,
    /// End time at the latest.
    pub ends_at: Option<Timestamp>,
    /// Time limit; `None` when unlimited or unknown.
    pub limit: Option<Duration>,
    /// Run time when the list was made, without time suspended.
    pub run_time: Option<Duration>,
    /// When that list was made.
    pub listed_at: Option<Timestamp>,
    /// Number of tasks in the entry: 1 unless these are pending tasks of an array; `None` when the scheduler cuts their list.
    pub tasks: Option<u32>,
    /// Number of nodes allocated or requested.
    pub node_count: u32,
    /// Devices requested on each node; `None` when the scheduler does not tell.
    pub devices_per_node: Option<u32>,
    /// CPUs on all nodes: those it has or, while it waits, has requested; `None` when the scheduler does not tell.
    pub cpus: Option<u32>,
    /// Memory on all nodes that the scheduler has set aside for it; `None` when the scheduler does not tell.
    pub memory: Option<Bytes>,
    /// Its allocation on each node; empty while pending.
    pub allocations: Arc<[Allocation]>,
}

#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a bad id fails the test")]
impl Job {
    /// Returns a running job of alice without nodes, for tests.
    pub fn example(id: &str) -> Self {
        Self {
            name: "x".into(),
            user: "alice".into(),
            partition: "gpu".into(),
            ..Self::unlisted(JobId::new(id).unwrap())
        }
    }
}

impl Job {
    /// Returns a running job of which only the id is known.
    pub fn unlisted(id: JobId) -> Self {
        Self {
            shown_id: id.as_str().into(),
            id,
            alias: None,
            name: Arc::default(),
            user: Arc::default(),
            partition: Arc::default(),
            account: None,
            state: JobState::Running,
            native_state: Arc::default(),
            reason: None,
            submitted_at: None,
            starts_at: None,
            ends_at: None,
            limit: None,
            run_time: None,
            listed_at: None,
            tasks: Some(1),
            node_count: 1,
            devices_per_node: None,
            cpus: None,
            memory: None,
            allocations: Arc::default(),
        }
    }

    /// Returns true if a node is allocated to it.
    pub fn has_node(&self, name: &NodeName) -> bool {
        self.allocations.iter().any(|allocation| allocation.node == *name)
    }

    /// Returns the name of its state: the scheduler's own if the model has none for it.
    pub fn state_text(&self) -> &str {
        let is_native = self.state == JobState::Other && !self.native_state.is_empty();
        if is_native { &self.native_state } else { self.state.as_str() }
    }

    /// Returns the time until its limit; `None` when it has not started or is completing. Constant while suspended.
    pub fn time_left(&self, now: Timestamp) -> Option<Duration> {
        match self.state {
            JobState::Pending | JobState::Ending | JobState::Ended => None,
            JobState::Suspended => Some(self.limit?.saturating_sub(self.run_time?)),
            JobState::Running | JobState::Starting | JobState::Other => {
                self.ends_at.map(|end| end.since(now))
            }
        }
    }

    /// Returns how long it has run, without time suspended; `None` while it is pending.
    ///
    /// The scheduler's run time counts, and the time since its report while the job runs: the time since the start
    /// includes suspensions, and is by another clock. Where both agree, that is taken, as it has no steps.
    pub fn elapsed(&self, now: Timestamp) -> Option<Duration> {
        let since_start = self.starts_at.map(|start| now.since(start));
        let since_list = match self.state {
            JobState::Pending => return None,
            JobState::Ended => return self.run_time,
            JobState::Suspended | JobState::Ending => Some(Duration::ZERO),
            JobState::Running | JobState::Starting | JobState::Other => {
                self.listed_at.map(|at| now.since(at))
            }
        };
        let Some((listed, later)) = self.run_time.zip(since_list) else { return since_start };
        let run_time = listed.saturating_add(later);
        let exact = since_start.filter(|known| known.abs_diff(run_time) <= RUN_TIME_STEP);
        Some(exact.unwrap_or(run_time))
    }
}

table! {
    /// The state of a job.
    #[derive(PartialOrd, Ord)]
    pub enum JobState {
        /// Running.
        Running = "running",
        /// Its nodes are being prepared.
        Starting = "starting",
        /// Suspended, with its nodes still allocated.
        Suspended = "suspended",
        /// Ending.
        Ending = "ending",
        /// Pending.
        Pending = "pending",
        /// It has ended.
        Ended = "ended",
        /// Any other state.
        Other = "other",
    }
    /// All of them.
    pub const ALL;
    /// Returns the name used in JSON and on the screen.
    pub fn as_str -> &'static str;
}

table! {
    /// How a job ended.
    #[derive(Default)]
    pub enum JobOutcome {
        /// Completed with exit code 0.
        Completed = ("has ended", "completed"),
        /// Cancelled.
        Cancelled = ("was cancelled", "cancelled"),
        /// Reached its time limit.
        TimeLimit = ("reached its time limit", "time limit"),
        /// Reached the time by which it had to end.
        Deadline = ("reached its deadline", "deadline"),
        /// Failed.
        Failed = ("has failed", "failed"),
        /// A node failed.
        NodeFailed = ("was ended by a node failure", "node failed"),
        /// Ran out of memory.
        OutOfMemory = ("ran out of memory", "out of memory"),
        /// Preempted by another job.
        Preempted = ("was preempted", "preempted"),
        /// Unknown.
        #[default]
        Unknown = ("has ended", "ended"),
    }
    /// All of them.
    pub const ALL;
    fn texts -> (&'static str, &'static str);
}

impl JobOutcome {
    /// Returns the outcome as a predicate, to follow the job's id.
    pub const fn text(self) -> &'static str {
        self.texts().0
    }

    /// Returns the outcome in a word or two, as JSON and lists have it.
    pub const fn name(self) -> &'static str {
        self.texts().1
    }
}

/// A job's allocation on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The node.
    pub node: NodeName,
    /// The allocated devices.
    pub devices: DeviceAllocation,
}

/// The devices of a job on a node, as far as its scheduler reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceAllocation {
    /// The devices at these indices (GRES IDX), in rising order. A device with MIG slices is listed by its slices.
    Indices(Arc<[u32]>),
    /// Shares of the devices at these indices, of which other jobs may have shares, too.
    Shares(Arc<[u32]>),
    /// This many, without their indices.
    Count(u32),
    /// None.
    None,
    /// Not reported by the scheduler; processes may show them.
    #[default]
    Unknown,
}

impl DeviceAllocation {
    /// Returns both together, of one node.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::None, both) | (both, Self::None) => both.clone(),
            (Self::Indices(one), Self::Indices(other)) => Self::Indices(union(one, other)),
            (
                Self::Indices(one) | Self::Shares(one),
                Self::Indices(other) | Self::Shares(other),
            ) => Self::Shares(union(one, other)),
            (Self::Count(one), Self::Count(other)) => Self::Count(one.saturating_add(*other)),
            (Self::Indices(_) | Self::Shares(_) | Self::Count(_) | Self::Unknown, _) => {
                Self::Unknown
            }
        }
    }

    /// Returns the indices of its devices; `None` if they are not known.
    pub fn indices(&self) -> Option<&[u32]> {
        match self {
            Self::Indices(indices) | Self::Shares(indices) => Some(indices),
            Self::None => Some(&[]),
            Self::Count(_) | Self::Unknown => None,
        }
    }

    /// Returns the number of its devices; `None` if it is not known.
    pub fn count(&self) -> Option<usize> {
        match self {
            Self::Indices(indices) | Self::Shares(indices) => Some(indices.len()),
            Self::Count(count) => usize::try_from(*count).ok(),
            Self::None => Some(0),
            Self::Unknown => None,
        }
    }
}

/// Returns the indices of both, in rising order.
fn union(one: &[u32], other: &[u32]) -> Arc<[u32]> {
    let all: BTreeSet<u32> = one.iter().chain(other).copied().collect();
    all.into_iter().collect()
}

/// A list counts for so many intervals after the last answer.
const KEPT_INTERVALS: u32 = 3;
/// An interval counts as at least this long: a scheduler that does not answer takes 20 s to say so.
const MIN_KEPT_INTERVAL: Duration = Duration::from_secs(30);

/// The job list of one moment.
#[expect(clippy::struct_excessive_bools, reason = "each answer is awaited for itself")]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobList {
    /// The scheduler that listed them.
    pub scheduler: &'static SchedulerProfile,
    /// The jobs, running ones first, then by id.
    pub jobs: Vec<Job>,
    /// When the scheduler answered; `None` when it never has.
    pub at: Option<Timestamp>,
    /// How often it is asked.
    pub interval: Duration,
    /// Why there is no newer list.
    pub error: Option<JobListError>,
    /// Notes about the list, one sentence each.
    pub notes: Vec<Arc<str>>,
    /// Which jobs are listed, to follow `job` in a sentence: `of alice`, `numbered 11`.
    pub filter_text: Arc<str>,
    /// The options that leave out jobs of those users, such as `--qos high`; empty without any.
    pub narrowed_by: Arc<str>,
    /// Which jobs were requested.
    pub requested: RequestedJobs,
    /// Some of these are not listed: there are too many, or their lines are not understood.
    pub is_partial: bool,
    /// The scheduler has not answered yet which devices the jobs have.
    pub awaits_devices: bool,
    /// The scheduler has not answered yet what its nodes are.
    pub awaits_nodes: bool,
    /// Jobs that left the list and whose outcome the scheduler has not reported yet.
    pub awaiting_outcome: Vec<Job>,
    /// Outcomes of the last jobs that left the list.
    pub ended: Arc<[(JobId, JobOutcome)]>,
    /// The jobs that have ended, as accounting has them.
    pub finished: Arc<FinishedJobs>,
    /// The scheduler has not answered yet whether it hides jobs; asked only if all are requested.
    pub awaits_hidden: bool,
    /// The scheduler hides jobs of others from this user; `None` if that is not known.
    pub hides_jobs: Option<bool>,
    /// The watched nodes, as the scheduler reports them.
    pub nodes: Arc<SchedulerNodes>,
    /// What was proved of the indices of nodes when the list was recorded.
    pub proved: Arc<BTreeMap<NodeName, ProvedIndices>>,
    /// Other names of machines, each with the name under which the jobs of that machine are listed.
    pub other_names: Arc<BTreeMap<NodeName, NodeName>>,
}

/// Which jobs the scheduler was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestedJobs {
    /// All, whoever's and wherever; it may hide those of others.
    All,
    /// Those of some users, partitions, accounts or nodes.
    #[default]
    Selected,
    /// Those of these ids.
    ById,
}

table! {
    /// What the scheduler was asked and has not answered yet.
    pub enum Unanswered {
        /// Its jobs.
        Jobs = ("jobs", "which jobs there are"),
        /// Which devices the jobs have.
        DevicesOfJobs = ("job_devices", "which devices the jobs have"),
        /// The states of its nodes.
        NodeStates = ("node_states", "the states of the nodes"),
        /// Which devices of its nodes jobs have.
        NodeDevices = ("node_devices", "which devices of the nodes are in use"),
        /// Whether it hides jobs of others.
        HiddenJobs = ("hidden_jobs", "whether it hides jobs of others"),
    }
    /// All of them.
    pub const ALL;
    fn texts -> (&'static str, &'static str);
}

impl Unanswered {
    /// Returns the name used in JSON.
    pub const fn as_str(self) -> &'static str {
        self.texts().0
    }

    /// Returns the question as text, to follow `tell`.
    pub const fn text(self) -> &'static str {
        self.texts().1
    }
}

/// Why the scheduler does not list its jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobListError {
    /// What is wrong.
    pub message: Arc<str>,
    /// What kind of error that is.
    pub kind: SchedulerErrorKind,
    /// Since when.
    pub since: Timestamp,
}

table! {
    /// The kinds of errors of a scheduler's commands.
    pub enum SchedulerErrorKind {
        /// The command is not on the `PATH`.
        NotInstalled = "not_installed",
        /// No configuration was found.
        NoConfiguration = "no_configuration",
        /// The configuration has an error, or a key that this version does not know.
        BadConfiguration = "bad_configuration",
        /// The controller cannot be connected to.
        ControllerDown = "controller_down",
        /// The controller accepts connections and does not answer.
        ControllerUnresponsive = "controller_unresponsive",
        /// The authentication service does not work.
        Munge = "munge",
        /// The command was killed at its time limit.
        TimedOut = "timed_out",
        /// The command printed something else than requested.
        UnexpectedOutput = "unexpected_output",
        /// The command printed more than gtop reads.
        TooLong = "too_long",
        /// The job is not known, or no longer.
        NoSuchJob = "no_such_job",
        /// A user, a partition or an account does not exist.
        InvalidArgument = "invalid_argument",
        /// The user may not see what was asked for.
        PermissionDenied = "permission_denied",
        /// Anything else.
        Other = "other",
    }
    /// All of them.
    pub const ALL;
    /// Returns its name for programs.
    pub fn as_str -> &'static str;
}

impl SchedulerErrorKind {
    /// Returns the kind of this name; one that this version does not know is another error.
    pub fn named(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).unwrap_or(Self::Other)
    }
}

impl JobListError {
    /// Returns true if the scheduler's commands are on this machine and its configuration is not: a leftover client, no
    /// scheduler.
    pub fn is_unconfigured(&self) -> bool {
        self.kind == SchedulerErrorKind::NoConfiguration
    }
}

impl Job {
    /// Returns true if this is its id or alias.
    pub(crate) fn has_id(&self, id: &JobId) -> bool {
        self.id == *id || self.alias.as_ref() == Some(id)
    }

    /// Returns true if a task, such as `2_4`, is one of those that its displayed id lists, as `2_[3-5,9-13:2%3]`; `None` if
    /// the scheduler cuts their list.
    pub fn lists_task(&self, task: &str) -> Option<bool> {
        let lists = self.shown_id.split_once("_[").zip(task.split_once('_'));
        let Some(((_, list), (_, number))) = lists.filter(|((all, _), (of, _))| all == of) else {
            return Some(false);
        };
        let number = number.parse::<u32>().ok()?;
        let is_whole = !list.contains("...") && list.ends_with(']');
        // The number after % is how many run at once.
        let list = list.split(['%', ']']).next().unwrap_or_default();
        let end = if is_whole { list.len() } else { list.rfind(',').unwrap_or_default() };
        let is_listed = list.get(..end)?.split(',').any(|span| is_in_span(number, span));
        (is_listed || is_whole).then_some(is_listed)
    }
}

/// Returns true if a span of an array, such as `9-13:2`, has a number.
fn is_in_span(number: u32, span: &str) -> bool {
    let (span, step) = span.split_once(':').unwrap_or((span, "1"));
    let (from, to) = span.split_once('-').unwrap_or((span, span));
    let [Ok(from), Ok(to), Ok(step @ 1..)] = [from, to, step].map(str::parse) else { return false };
    (from..=to).contains(&number) && (number - from).is_multiple_of(step)
}

impl JobList {
    /// Returns the job with this id or alias.
    pub fn job(&self, id: &JobId) -> Option<&Job> {
        self.jobs.iter().find(|job| job.has_id(id))
    }

    /// Returns the displayed id of a job: `2_1` for job 11, and `raw 11` if it is not listed, so that it is not taken for
    /// another one's.
    pub fn shown_id<'a>(&'a self, id: &'a JobId) -> Cow<'a, str> {
        match self.job(id) {
            Some(job) => (&*job.shown_id).into(),
            None => self.raw_id(id),
        }
    }

    /// Returns the id of a job that is not listed, as it is displayed.
    pub fn raw_id<'a>(&self, id: &'a JobId) -> Cow<'a, str> {
        if self.at.is_some() { format!("raw {id}").into() } else { id.as_str().into() }
    }

    /// Returns the outcome of a job that left the list.
    pub fn outcome(&self, id: &JobId) -> JobOutcome {
        let found = self.ended.iter().find(|(ended, _)| ended == id);
        found.map(|(_, outcome)| *outcome).unwrap_or_default()
    }

    /// Returns true if a job waits for nodes, as one does that was requeued or preempted, or whose node failed.
    pub fn is_pending(&self, id: &JobId) -> bool {
        self.pending().any(|job| job.id == *id)
    }

    /// Returns what has become of a job that had nodes, as a predicate that follows its id.
    pub fn departure_text(&self, id: &JobId) -> &'static str {
        if self.is_pending(id) {
            "waits again"
        } else if self.jobs.iter().any(|job| job.id == *id) {
            "has left its nodes"
        } else if self.awaiting_outcome.iter().any(|job| job.id == *id) {
            "is no longer listed"
        } else {
            self.outcome(id).text()
        }
    }

    /// Returns true unless the scheduler has failed to list its jobs since it last did. An error that was there before is
    /// about something else, such as a partition.
    pub fn is_current(&self) -> bool {
        let Some(error) = &self.error else { return true };
        self.at.is_some_and(|at| error.since <= at)
    }

    /// Returns true if the list still counts as valid: for three intervals, also if the scheduler does not answer.
    pub fn is_kept(&self, now: Timestamp) -> bool {
        let limit = self.interval.max(MIN_KEPT_INTERVAL).saturating_mul(KEPT_INTERVALS);
        self.is_current() || self.at.is_some_and(|at| now.since(at) <= limit)
    }

    /// Returns when it answered which jobs there are and, if it has, which devices jobs have: the earlier of both.
    pub fn answered_at(&self) -> Option<Timestamp> {
        self.at.into_iter().chain(self.nodes.allocated_at).min()
    }

    /// Returns true if each question to the scheduler has been answered, or has failed.
    pub fn is_answered(&self) -> bool {
        self.unanswered().is_empty()
    }

    /// Returns what the scheduler has not answered yet; a question that has failed is not one of them.
    pub fn unanswered(&self) -> Vec<Unanswered> {
        Unanswered::ALL.into_iter().filter(|part| self.awaits(*part)).collect()
    }

    fn awaits(&self, part: Unanswered) -> bool {
        match part {
            Unanswered::Jobs => self.at.is_none() && self.error.is_none(),
            Unanswered::DevicesOfJobs => self.awaits_devices,
            Unanswered::NodeStates => self.awaits_nodes,
            Unanswered::NodeDevices => self.nodes.awaits_allocated,
            Unanswered::HiddenJobs => self.awaits_hidden,
        }
    }

    /// Returns the number of jobs on nodes whose devices the scheduler has not reported.
    pub fn jobs_without_devices(&self) -> usize {
        let unknown = self.with_nodes().filter(|job| {
            job.allocations.iter().any(|node| node.devices == DeviceAllocation::Unknown)
        });
        unknown.count()
    }

    /// Returns the jobs that have nodes.
    pub fn with_nodes(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(|job| !job.allocations.is_empty())
    }

    /// Returns the nodes that cannot answer because they are powered down, or on their way there or back. A node where a
    /// job runs by now is up, and one where a job is about to start may not be until the scheduler reports its state.
    pub fn powered_off(&self) -> BTreeSet<NodeName> {
        let known = self.nodes.nodes.iter();
        let off = known.filter(|(_, node)| node.is_powered_off() && !node.is_old);
        let mut off: BTreeSet<&NodeName> = off.map(|(name, _)| name).collect();
        let mut running = BTreeSet::new();
        for job in self.with_nodes() {
            let nodes = job.allocations.iter().map(|allocation| &allocation.node);
            match job.state {
                JobState::Running | JobState::Suspended | JobState::Ending => running.extend(nodes),
                JobState::Starting if self.awaits_nodes => off.extend(nodes),
                JobState::Starting | JobState::Pending | JobState::Ended | JobState::Other => {}
            }
        }
        off.difference(&running).copied().cloned().collect()
    }

    /// Returns the pending jobs.
    pub fn pending(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(|job| job.state == JobState::Pending)
    }

    /// Returns why there is nothing to monitor; `None` when a job has nodes.
    pub fn empty_reason(&self) -> Option<String> {
        if self.with_nodes().next().is_some() {
            return None;
        }
        Some(match (self.at, &self.error) {
            (None, None) => format!("asking {} which jobs run", self.scheduler.words.name),
            (None, Some(error)) => error.message.to_string(),
            (Some(_), _) => {
                let pending = self.pending().count();
                let none = format!("no running job {}", self.filter_text);
                // A job requested by id has its outcome shown elsewhere.
                if self.requested == RequestedJobs::ById {
                    return Some(none);
                }
                match pending {
                    0 if !self.narrowed_by.is_empty() => {
                        format!("no job, running or pending, matches {}", self.narrowed_by)
                    }
                    0 => format!("{none}; {} and it appears here", self.scheduler.words.submit),
                    1 => format!("{none}; 1 job is pending and appears here once it starts"),
                    count => {
                        format!("{none}; {count} jobs are pending and appear here once they start")
                    }
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler_node::NodeState;

    #[test]
    fn a_task_is_one_of_those_that_are_listed_together() {
        let lists = |shown: &str, task| {
            Job { shown_id: shown.into(), ..Job::example("7") }.lists_task(task)
        };
        let all = "2_[3-5,9-13:2%3]";
        for task in ["2_3", "2_5", "2_9", "2_13"] {
            assert_eq!(lists(all, task), Some(true), "{task}");
        }
        for task in ["2_2", "2_6", "2_10", "2_15", "22_3", "2", "3"] {
            assert_eq!(lists(all, task), Some(false), "{task}");
        }
        assert_eq!(lists("2_4", "2_4"), Some(false), "a task of its own");
        // The last number of a list that is cut may be cut, too.
        assert_eq!(lists("2_[1,3,12...]", "2_3"), Some(true));
        assert_eq!(lists("2_[1,3,12...]", "2_12"), None);
        assert_eq!(lists(all, "2_[3-4]"), None);
    }

    #[test]
    fn a_list_is_current_until_the_scheduler_fails_to_list_its_jobs() {
        let second = |second: i64| Timestamp::from_micros(second * 1_000_000);
        let is_current = |at: Option<i64>, failed_at: Option<i64>| {
            let error = failed_at.map(|failed_at| JobListError {
                message: "squeue failed".into(),
                kind: SchedulerErrorKind::Other,
                since: second(failed_at),
            });
            JobList { at: at.map(second), error, ..JobList::default() }.is_current()
        };
        assert!(is_current(None, None) && is_current(Some(5), None));
        assert!(!is_current(None, Some(5)) && !is_current(Some(5), Some(6)));
        // It answered after that, so the error is about what was asked for.
        assert!(is_current(Some(5), Some(4)) && is_current(Some(5), Some(5)));
    }

    #[test]
    fn nodes_that_are_powered_down_are_not_tried_until_a_job_runs_there() {
        let name = |name: &str| NodeName::new(name).unwrap();
        let job = |id: &str, state, node: &str| {
            let allocation = Allocation { node: name(node), devices: DeviceAllocation::Unknown };
            Job { state, allocations: [allocation].into(), ..Job::example(id) }
        };
        let said =
            |node: &str, state| (name(node), Arc::new(crate::SchedulerNode::in_state(state, &[])));
        let nodes = [
            said("off", NodeState::PoweredDown),
            said("up", NodeState::Idle),
            said("ran", NodeState::PoweringUp),
        ];
        let list = |awaits_nodes, is_old| {
            let mut nodes = BTreeMap::from(nodes.clone());
            for node in nodes.values_mut().filter(|_| is_old) {
                Arc::make_mut(node).is_old = true;
            }
            JobList {
                jobs: vec![
                    job("1", JobState::Running, "ran"),
                    job("2", JobState::Starting, "starts"),
                ],
                awaits_nodes,
                nodes: Arc::new(SchedulerNodes { nodes, ..SchedulerNodes::default() }),
                ..JobList::default()
            }
        };
        assert_eq!(list(false, false).powered_off(), [name("off")].into());
        assert_eq!(list(true, false).powered_off(), [name("off"), name("starts")].into());
        assert_eq!(list(false, true).powered_off(), [].into());
    }

    #[test]
    fn what_the_scheduler_has_not_answered_is_named_until_that_fails() {
        let nodes = |awaits_allocated| {
            SchedulerNodes { awaits_allocated, ..SchedulerNodes::default() }.into()
        };
        let first = JobList {
            awaits_nodes: true,
            awaits_hidden: true,
            nodes: nodes(true),
            ..JobList::default()
        };
        let names = |list: &JobList| -> Vec<&str> {
            list.unanswered().into_iter().map(Unanswered::as_str).collect()
        };
        assert_eq!(names(&first), ["jobs", "node_states", "node_devices", "hidden_jobs"]);
        let at = Some(Timestamp::default());
        let listed = JobList {
            at,
            awaits_devices: true,
            awaits_hidden: false,
            nodes: nodes(false),
            ..first.clone()
        };
        assert_eq!(names(&listed), ["job_devices", "node_states"]);
        assert!(!listed.is_answered());
        let error = JobListError {
            message: "squeue failed".into(),
            kind: SchedulerErrorKind::Other,
            since: Timestamp::default(),
        };
        // That the jobs cannot be listed says nothing of the nodes.
        let failed = JobList { error: Some(error), ..first };
        assert_eq!(names(&failed), ["node_states", "node_devices", "hidden_jobs"]);
        let all =
            JobList { awaits_nodes: false, awaits_hidden: false, nodes: nodes(false), ..failed };
        assert!(all.is_answered());
        assert!(JobList { at, ..JobList::default() }.is_answered());
    }

    #[test]
    fn an_empty_list_names_the_options_that_leave_out_jobs() {
        let list = JobList {
            at: Some(Timestamp::default()),
            filter_text: "of ada in reservation schol".into(),
            narrowed_by: "--reservation schol".into(),
            ..JobList::default()
        };
        let none = "no running job of ada in reservation schol";
        let reason = "no job, running or pending, matches --reservation schol";
        assert_eq!(list.empty_reason().as_deref(), Some(reason));
        let pending = Job { state: JobState::Pending, ..Job::example("7") };
        let waiting = JobList { jobs: vec![pending], ..list };
        assert!(waiting.empty_reason().unwrap().starts_with(&format!("{none}; 1 job is pending")));
    }

    #[test]
    fn an_empty_list_says_why_nothing_is_monitored() {
        let job = |state, nodes: &[&str]| {
            let one = |node: &&str| Allocation {
                node: NodeName::new(node).unwrap(),
                devices: DeviceAllocation::Unknown,
            };
            Job { state, allocations: nodes.iter().map(one).collect(), ..Job::example("7") }
        };
        let reason = |jobs: Vec<Job>, at: Option<Timestamp>, requested| {
            JobList { jobs, at, requested, filter_text: "of yours".into(), ..JobList::default() }
                .empty_reason()
        };
        let (now, waiting) = (Some(Timestamp::default()), || job(JobState::Pending, &[]));
        let text = |words: &str| Some(words.to_owned());
        assert_eq!(
            reason(vec![], None, RequestedJobs::Selected),
            text("asking the scheduler which jobs run")
        );
        assert_eq!(
            reason(vec![], now, RequestedJobs::Selected),
            text("no running job of yours; submit one and it appears here")
        );
        assert_eq!(
            reason(vec![waiting()], now, RequestedJobs::Selected),
            text("no running job of yours; 1 job is pending and appears here once it starts")
        );
        assert_eq!(
            reason(vec![waiting(), waiting()], now, RequestedJobs::Selected),
            text("no running job of yours; 2 jobs are pending and appear here once they start")
        );
        assert_eq!(
            reason(vec![waiting()], now, RequestedJobs::ById),
            text("no running job of yours")
        );
        assert_eq!(
            reason(
                vec![waiting(), job(JobState::Running, &["gpu01"])],
                now,
                RequestedJobs::Selected
            ),
            None
        );
    }

    #[test]
    fn the_run_time_of_a_suspended_job_is_constant() {
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        let seconds = |count| Some(Duration::from_secs(count));
        let job = |state| Job {
            state,
            starts_at: Some(at(1000)),
            ends_at: Some(at(4600)),
            limit: seconds(3600),
            run_time: seconds(300),
            ..Job::example("7")
        };
        for (state, used, left) in [
            (JobState::Running, seconds(600), seconds(3000)),
            (JobState::Starting, seconds(600), seconds(3000)),
            (JobState::Other, seconds(600), seconds(3000)),
            (JobState::Suspended, seconds(300), seconds(3300)),
            (JobState::Ending, seconds(300), None),
            (JobState::Pending, None, None),
        ] {
            let job = job(state);
            assert_eq!((job.elapsed(at(1600)), job.time_left(at(1600))), (used, left), "{state:?}");
        }
        let bare = Job::example("7");
        assert_eq!((bare.elapsed(at(1600)), bare.time_left(at(1600))), (None, None));
    }

    #[test]
    fn the_run_time_goes_on_from_what_the_scheduler_said() {
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        let job = |run_time, listed_at| Job {
            starts_at: Some(at(1_795_793_092)),
            run_time: Some(Duration::from_secs(run_time)),
            listed_at: Some(at(listed_at)),
            ..Job::example("1")
        };
        // As one scheduler had it: of 14 s since its start, the job was suspended for 6 s.
        let resumed = job(8, 1_795_793_106);
        for (now, elapsed) in [(1_795_793_106, 8), (1_795_793_166, 68)] {
            assert_eq!(resumed.elapsed(at(now)), Some(Duration::from_secs(elapsed)));
        }
        // Whole seconds do not make it jump.
        let running = job(13, 1_795_793_106);
        assert_eq!(running.elapsed(at(1_795_793_106)), Some(Duration::from_secs(14)));
    }

    #[test]
    fn a_job_that_is_listed_has_not_ended() {
        let text = |state: Option<JobState>| {
            let job = state.map(|state| Job { state, ..Job::example("1") });
            let list = JobList { jobs: job.into_iter().collect(), ..JobList::default() };
            list.departure_text(&JobId::new("1").unwrap())
        };
        assert_eq!(text(Some(JobState::Pending)), "waits again");
        assert_eq!(text(Some(JobState::Other)), "has left its nodes");
        assert_eq!(text(None), JobOutcome::Unknown.text());
        let awaiting_outcome = vec![Job::example("1")];
        let away = JobList { awaiting_outcome, ..JobList::default() };
        assert_eq!(away.departure_text(&JobId::new("1").unwrap()), "is no longer listed");
    }
}
