//! Polls PBS (`OpenPBS`, PBS Professional) for jobs and nodes: one `qstat` and one `pbsnodes` a round, each a task with its
//! own schedule. PBS reports how many devices a job has on each node, and never which.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::Instant;

use self::jobs::{ListedJob, ListedJobs};
use self::nodes::PbsNodes;
use self::outcomes::Outcomes;
use crate::scheduler::error::ErrorPatterns;
use crate::scheduler::examination::{ListedNode, ServerState};
use crate::scheduler::scheduled_query::{ScheduledQuery, TimedResult};
use crate::scheduler::user_name::user_name;
use crate::scheduler::watched_nodes::WatchedNodes;
use crate::scheduler::{JobFilter, Listing, OwnJob, PollRequest, SchedulerError};
use gtop_local::process::{ProgramCall, ProgramOutput, run_program};
use gtop_local::text::sanitize;
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{
    ClaimRules, GroupRule, IdForm, Job, JobId, JobList, JobOutcome, NodeCommand, NodeName,
    NumberingRule, PartPattern, SchedulerErrorKind as Kind, SchedulerNode, SchedulerNodes,
    SchedulerProfile, SchedulerWords, StateSigns, VariableRule, nodeset,
};
use gtop_ssh::SchedulerAddresses;

mod jobs;
mod json;
mod nodes;
mod outcomes;
mod resources;
mod server;

/// PBS.
pub(super) static PROFILE: SchedulerProfile = SchedulerProfile {
    id: "pbs",
    words: SchedulerWords {
        name: "PBS",
        queue: "queue",
        watch: "gtop --scheduler pbs",
        submit: "submit one with qsub",
        job_ids: "12, 12[3] or 12[]",
        daemon: "pbs_mom",
        list_jobs: "qstat",
        list_nodes: "pbsnodes -a",
        explain_node: "pbsnodes",
        ping: "qstat -B",
        hiding: "query_other_jobs=False",
        resume: Some(NodeCommand { before: "pbsnodes -r ", after: "", is_folded: false }),
        configuration: "/etc/pbs.conf and PBS_CONF_FILE",
        configuration_file: "pbs.conf",
    },
    program: "qstat",
    // Other schedulers have a program of this name, too.
    configured_by: Some(("PBS_CONF_FILE", "/etc/pbs.conf")),
    node_variable: None,
    states: StateSigns {
        bad: &["offline", "down", "unknown", "unresolvable", "stale", "maintenance"],
        stopped: &["offline"],
    },
    claims: ClaimRules {
        mark: "pbs_jobs",
        // Where its hook for control groups runs: `/pbs_jobs.service/jobid/1[2].server`.
        groups: &[GroupRule {
            folder: PartPattern::StartsWith("pbs_jobs"),
            skipped: "jobid",
            job: "",
            form: IdForm::AtServer,
            step: None,
        }],
        variables: Some(VariableRule { job: "PBS_JOBID", form: IdForm::AtServer, step: None }),
        step_names: &[],
    },
    numbering: NumberingRule::NONE,
};

/// Time limit for a command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of output.
const MAX_OUTPUT_SIZE: usize = 64 << 20;
/// Maximum number of ended jobs whose outcome is queried or kept.
const MAX_ENDED_JOBS: usize = 200;
/// Nodes are listed this many times less often than jobs.
const JOB_LISTS_PER_NODE_LIST: u32 = 2;

/// Texts in messages and the kind they mean.
const PATTERNS: ErrorPatterns = &[
    ("pbs.conf", Kind::NoConfiguration),
    ("pbs_conf_file", Kind::NoConfiguration),
    ("connection refused", Kind::ControllerDown),
    ("cannot connect to server", Kind::ControllerDown),
    ("no server", Kind::ControllerDown),
    ("timed out", Kind::ControllerUnresponsive),
    ("unknown job id", Kind::NoSuchJob),
    ("unauthorized", Kind::PermissionDenied),
    ("munge", Kind::Munge),
];

/// Returns the job of an environment; its nodes are those of its list.
pub(super) fn own_job(variable: &dyn Fn(&str) -> Option<String>) -> Option<OwnJob> {
    let id = variable("PBS_JOBID").filter(|id| IdForm::AtServer.matches(id))?;
    Some(OwnJob { ids: JobId::new(&id).into_iter().collect(), shown_id: id, nodes: Vec::new() })
}

/// Polls the jobs of a cluster.
#[derive(Debug)]
pub struct PbsPoller {
    filter: JobFilter,
    /// Its users by name, and its nodes.
    users_of_filter: Vec<String>,
    nodes_of_filter: BTreeSet<String>,
    interval: Duration,
    pub(super) watched: WatchedNodes,
    pub(super) list: JobList,
    /// What is wrong with the list of nodes.
    node_error: Option<SchedulerError>,
    known_nodes: PbsNodes,
    nodes_at: Option<Timestamp>,
    /// The jobs as they were listed, before what follows from the nodes.
    listed: Vec<ListedJob>,
    jobs: ScheduledQuery<Result<ListedJobs, SchedulerError>>,
    nodes: ScheduledQuery<Result<PbsNodes, SchedulerError>>,
    outcomes: ScheduledQuery<Result<Outcomes, SchedulerError>>,
    /// Why it is not known how jobs ended.
    outcome_error: Option<SchedulerError>,
}

/// An answer of PBS.
enum PbsAnswer {
    Jobs(TimedResult<ListedJobs>),
    Nodes(TimedResult<PbsNodes>),
    Outcomes(TimedResult<Outcomes>),
}

impl PbsPoller {
    /// Returns a poller; the fixed nodes are watched as well.
    pub(super) fn new(filter: JobFilter, interval: Duration, fixed_nodes: Vec<NodeName>) -> Self {
        Self {
            list: filter.unanswered_list(&PROFILE, interval),
            users_of_filter: filter.users.iter().map(|user| user_name(user)).collect(),
            nodes_of_filter: filter
                .nodes
                .iter()
                .flat_map(|set| nodeset::expand(set).unwrap_or_default())
                .collect(),
            filter,
            interval,
            watched: WatchedNodes::new(fixed_nodes),
            node_error: None,
            known_nodes: PbsNodes::default(),
            listed: Vec::new(),
            nodes_at: None,
            jobs: ScheduledQuery::default(),
            nodes: ScheduledQuery::default(),
            outcomes: ScheduledQuery::default(),
            outcome_error: None,
        }
    }

    /// Starts the queries that are due.
    pub(super) fn start_queries(&mut self, _clock: &Clock) {
        if self.jobs.is_due() {
            self.jobs.start(fetch_list());
        }
        if self.nodes.is_due() {
            self.nodes.start(fetch_nodes());
        }
        if self.outcomes.is_due() && !self.list.awaiting_outcome.is_empty() {
            let ids = self.list.awaiting_outcome.iter().map(|job| job.id.clone());
            self.outcomes.start(fetch_outcomes(ids.collect()));
        }
    }

    /// Returns when the next query is due.
    pub(super) fn next_due(&self) -> Instant {
        let awaits_outcome = !self.list.awaiting_outcome.is_empty();
        let outcomes = self.outcomes.next_due().filter(|_| awaits_outcome);
        let due = [self.jobs.next_due(), self.nodes.next_due(), outcomes];
        due.into_iter().flatten().min().unwrap_or_else(|| Instant::now() + COMMAND_TIMEOUT)
    }

    /// Waits for an answer and takes it.
    pub(super) async fn poll(&mut self, clock: &Clock) {
        let answer = tokio::select! {
            answer = self.jobs.answer() => PbsAnswer::Jobs(answer),
            answer = self.nodes.answer() => PbsAnswer::Nodes(answer),
            answer = self.outcomes.answer() => PbsAnswer::Outcomes(answer),
        };
        match answer {
            PbsAnswer::Jobs(answer) => self.apply_jobs(answer, clock.now()),
            PbsAnswer::Nodes(answer) => self.apply_nodes(answer, clock.now()),
            PbsAnswer::Outcomes(answer) => self.apply_outcomes(answer),
        }
        self.update_nodes(clock.now());
    }

    pub(super) fn on_request(&mut self, before: &PollRequest, request: &PollRequest) {
        if request.refresh != before.refresh {
            self.jobs.hasten();
            self.nodes.hasten();
        }
    }

    /// Returns the last answers of PBS, as of `now`.
    pub(super) fn listing(&self, now: Timestamp) -> Listing {
        let mut list = self.list.clone();
        let outcome_error = self.outcome_error.as_ref();
        let notes = self.unsupported_options().into_iter().chain(self.missing_jobs());
        let notes = notes.chain(self.nodes_note(now)).chain(
            outcome_error.map(|error| format!("{}; how jobs ended is not known", error.message)),
        );
        list.notes.extend(notes.map(Into::into));
        Listing {
            jobs: Arc::new(list),
            nodes: self.watched.names().to_vec(),
            addresses: SchedulerAddresses::default(),
        }
    }

    fn apply_jobs(&mut self, answer: TimedResult<ListedJobs>, now: Timestamp) {
        let ListedJobs { jobs, cut } =
            match self.jobs.schedule_next(answer, self.interval, self.interval) {
                Ok(listed) => listed,
                Err(error) => {
                    self.list.error = Some(error.of_list(&self.list, now));
                    return;
                }
            };
        self.list.is_partial = cut.is_some();
        self.list.notes = cut.into_iter().map(Into::into).collect();
        self.track_departed(&jobs);
        self.listed = jobs;
        self.list.at = Some(now);
        self.list.error = None;
        self.watched.on_list();
    }

    /// Records the jobs that had nodes and have left the list, which may hold others again.
    fn track_departed(&mut self, jobs: &[ListedJob]) {
        let listed: BTreeSet<&JobId> = jobs.iter().map(|listed| &listed.job.id).collect();
        let known = self.list.with_nodes().chain(&self.list.awaiting_outcome);
        let left = known.filter(|job| !listed.contains(&job.id)).take(MAX_ENDED_JOBS).cloned();
        self.list.awaiting_outcome = left.collect();
        let ended = self.list.ended.iter().filter(|(id, _)| !listed.contains(id)).cloned();
        self.list.ended = ended.collect();
    }

    /// Stores how jobs ended; those that the server still has are queried again.
    fn apply_outcomes(&mut self, answer: TimedResult<Outcomes>) {
        let found = self.outcomes.schedule_next(answer, self.interval, self.interval);
        let may_tell_later = found.as_ref().is_err_and(SchedulerError::is_of_server);
        self.outcome_error = found.as_ref().err().cloned();
        if may_tell_later {
            return;
        }
        let found = found.unwrap_or_default();
        let mut ended = self.list.ended.to_vec();
        self.list.awaiting_outcome.retain(|job| {
            // A job that is not remembered has ended.
            let outcome = found.get(&job.id).copied().unwrap_or(Some(JobOutcome::Unknown));
            ended.extend(outcome.map(|outcome| (job.id.clone(), outcome)));
            outcome.is_none()
        });
        let surplus = ended.len().saturating_sub(MAX_ENDED_JOBS);
        self.list.ended = ended.split_off(surplus).into();
    }

    fn apply_nodes(&mut self, answer: TimedResult<PbsNodes>, now: Timestamp) {
        self.list.awaits_nodes = false;
        let interval = self.interval.saturating_mul(JOB_LISTS_PER_NODE_LIST);
        match self.nodes.schedule_next(answer, interval, self.interval) {
            Ok(nodes) => {
                (self.known_nodes, self.nodes_at, self.node_error) = (nodes, Some(now), None);
            }
            Err(error) => self.node_error = Some(error),
        }
    }

    /// Updates the watched nodes, their states, and how many devices jobs have on them.
    fn update_nodes(&mut self, now: Timestamp) {
        let jobs = self.listed.iter().map(|listed| self.known_nodes.job(listed));
        let jobs = jobs.filter(|job| self.matches(job) && self.watched.lists(job));
        self.list.jobs = jobs.map(|job| Job { listed_at: self.list.at, ..job }).collect();
        let known = &self.known_nodes.nodes;
        // Jobs of a queue that has no nodes of its own run on those of no queue.
        let has_own = known.values().any(|node| self.is_of_queue(node));
        let in_queue = known.iter().filter(|(_, node)| {
            self.filter.partitions.is_empty()
                || self.is_of_queue(node)
                || (!has_own && node.partitions.is_empty())
        });
        let all: Vec<&NodeName> = in_queue.map(|(name, _)| name).collect();
        self.watched.update(&self.list.jobs, all.into_iter());
        let expected = self.watched.expected(&self.list.jobs);
        let is_old = self.nodes.is_old(self.nodes_at, now);
        let nodes = self.watched.names().iter().filter_map(|name| {
            let node = SchedulerNode {
                is_extra: !expected.contains(name),
                is_old,
                is_count_old: is_old,
                ..known.get(name)?.clone()
            };
            Some((name.clone(), Arc::new(node)))
        });
        self.list.nodes = Arc::new(SchedulerNodes {
            nodes: nodes.collect(),
            at: self.nodes_at,
            allocated_at: self.nodes_at,
            awaits_allocated: false,
        });
    }

    /// Returns true if a node is one of a queue of the filter.
    fn is_of_queue(&self, node: &SchedulerNode) -> bool {
        let queues = &self.filter.partitions;
        node.partitions.iter().any(|queue| queues.iter().any(|name| **name == **queue))
    }

    /// Returns true if the filter's users, jobs, queues, accounts and nodes have a job.
    fn matches(&self, job: &Job) -> bool {
        let JobFilter { jobs, partitions, accounts, .. } = &self.filter;
        let mut nodes = job.allocations.iter().map(|allocation| allocation.node.as_str());
        is_empty_or_has(&self.users_of_filter, &job.user)
            && is_empty_or_has(partitions, &job.partition)
            && is_empty_or_has(accounts, job.account.as_deref().unwrap_or_default())
            && (jobs.is_empty() || jobs.iter().any(|wanted| jobs::is_named(job, wanted)))
            && (self.nodes_of_filter.is_empty()
                || nodes.any(|node| self.nodes_of_filter.contains(node)))
    }

    /// Returns a sentence if options mean nothing here.
    fn unsupported_options(&self) -> Option<String> {
        let JobFilter { qos, reservations, .. } = &self.filter;
        let is_used = !qos.is_empty() || !reservations.is_empty();
        is_used.then(|| "PBS has neither --qos nor --reservation; they leave out no job".to_owned())
    }

    /// Returns a sentence if the list of nodes is missing or old.
    fn nodes_note(&self, now: Timestamp) -> Option<String> {
        let error = self.node_error.as_ref()?;
        let what = match self.nodes_at {
            None => "not known",
            at if self.nodes.is_old(at, now) => "old",
            Some(_) => return None,
        };
        Some(format!("{}; what PBS says of nodes is {what}", error.message))
    }

    /// Returns a sentence for each requested job that is not listed.
    fn missing_jobs(&self) -> impl Iterator<Item = String> {
        let wanted = self.filter.jobs.iter().filter(|_| self.list.at.is_some());
        let missing =
            wanted.filter(|wanted| !self.list.jobs.iter().any(|job| jobs::is_named(job, wanted)));
        missing.take(8).map(|wanted| format!("job {} is not in the queue", sanitize(wanted, 64)))
    }
}

fn is_empty_or_has(names: &[String], name: &str) -> bool {
    names.is_empty() || names.iter().any(|known| known == name)
}

/// Lists the jobs that a filter has.
pub(super) async fn fetch_jobs(filter: &JobFilter) -> Result<Vec<Job>, SchedulerError> {
    let listed = fetch_list().await?;
    let poller = PbsPoller::new(filter.clone(), Duration::ZERO, Vec::new());
    let jobs = listed.jobs.iter().map(|listed| poller.known_nodes.job(listed));
    Ok(jobs.filter(|job| poller.matches(job)).collect())
}

/// Lists the nodes.
pub(super) async fn fetch_listed_nodes() -> Result<Vec<ListedNode>, SchedulerError> {
    let nodes = fetch_nodes().await?.nodes.into_iter().map(|(name, node)| ListedNode {
        name: name.to_string(),
        state: node.native_state.to_string(),
        reason: node.reason.as_deref().map(str::to_owned),
    });
    Ok(nodes.collect())
}

/// Asks the server whether it answers.
pub(super) async fn fetch_server_state() -> Result<ServerState, SchedulerError> {
    server::parse(&run("qstat", &["-B", "-f", "-F", "json"]).await?)
}

async fn fetch_list() -> Result<ListedJobs, SchedulerError> {
    jobs::parse(&run("qstat", &["-t", "-f", "-F", "json"]).await?)
}

/// Asks how jobs ended, of which the server may remember some.
async fn fetch_outcomes(jobs: Vec<JobId>) -> Result<Outcomes, SchedulerError> {
    let mut words = vec!["-x", "-f", "-F", "json"];
    words.extend(jobs.iter().map(JobId::as_str));
    let answer = run_program_of("qstat", &words).await?;
    if answer.succeeded || !answer.stdout.trim().is_empty() {
        return outcomes::parse(&answer.stdout);
    }
    let error = SchedulerError::of_stderr(&PROFILE.words, PATTERNS, "qstat", &answer.stderr);
    if error.kind == Kind::NoSuchJob { Ok(Outcomes::new()) } else { Err(error) }
}

async fn fetch_nodes() -> Result<PbsNodes, SchedulerError> {
    nodes::parse(&run("pbsnodes", &["-a", "-F", "json"]).await?)
}

/// Runs a command and returns what it prints. Times are in UTC: the program itself writes them in its own time zone.
async fn run(program: &str, words: &[&str]) -> Result<String, SchedulerError> {
    let answer = run_program_of(program, words).await?;
    // Part of an answer is none: what is missing would look as if it did not exist.
    if answer.succeeded {
        Ok(answer.stdout)
    } else {
        Err(SchedulerError::of_stderr(&PROFILE.words, PATTERNS, program, &answer.stderr))
    }
}

/// Runs a command of PBS to its end, whether it succeeds or not.
async fn run_program_of(program: &str, words: &[&str]) -> Result<ProgramOutput, SchedulerError> {
    let args: Vec<OsString> = words.iter().map(OsString::from).collect();
    let call = ProgramCall {
        program: program.as_ref(),
        args: &args,
        input: "",
        env: &[("LC_ALL", "C"), ("TZ", "UTC")],
        hides: |_| false,
        timeout: COMMAND_TIMEOUT,
        max_stdout: MAX_OUTPUT_SIZE,
    };
    let words = &PROFILE.words;
    let answer = run_program(call).await.map_err(|fault| {
        SchedulerError::of_run_error(words, PATTERNS, program, &fault, COMMAND_TIMEOUT.as_secs())
    })?;
    if answer.is_truncated {
        return Err(SchedulerError::new(words, Kind::TooLong, program, ""));
    }
    Ok(answer)
}

/// Reads the JSON that a program has printed.
fn read_json<T: DeserializeOwned>(program: &str, output: &str) -> Result<T, SchedulerError> {
    let json = if output.trim_start().starts_with('{') {
        json::read(output)
            .map_err(|place| format!("{program} printed JSON that cannot be read: {place}"))
    } else {
        Err(instead_of_json(program, output))
    };
    json.and_then(|json| T::deserialize(json).map_err(|_other| instead_of_json(program, output)))
        .map_err(|message| {
            SchedulerError::new(&PROFILE.words, Kind::UnexpectedOutput, program, &message)
        })
}

/// Returns a sentence with what was printed instead of JSON.
fn instead_of_json(program: &str, output: &str) -> String {
    let lines = output.lines().map(|line| sanitize(line.trim(), 80));
    match lines.into_iter().find(|line| !line.is_empty()) {
        Some(line) => format!("{program} printed {line:?} instead of JSON"),
        None => format!("{program} printed nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::claim;
    use crate::scheduler::scheduled_query::TimedAnswer;

    #[test]
    fn processes_belong_to_the_job_of_their_group_or_their_environment() {
        for group in [
            "/pbs_jobs.service/jobid/1[2].server",
            "/system.slice/pbs_jobs.service/jobid/1[2].server/x",
        ] {
            let found = claim::of_group(group).unwrap();
            assert_eq!((found.job.unwrap().as_str(), found.step), ("1[2].server", None), "{group}");
        }
        assert_eq!(claim::of_group("/pbs_jobs.service/jobid"), None);
        assert_eq!(claim::of_group("/pbs.service"), None);
        let found = claim::of_variables("0.pbsserver", None).unwrap();
        assert_eq!(found.job.unwrap().as_str(), "0.pbsserver");
        assert!(claim::probe_word().ends_with(",pbs_jobs:PBS_JOBID:"));
    }

    #[test]
    fn in_a_job_s_environment_that_job_is_watched() {
        let of = |id: &str| own_job(&|name: &str| (name == "PBS_JOBID").then(|| id.to_owned()));
        assert_eq!(of("1[1].pbsserver").unwrap().shown_id, "1[1].pbsserver");
        assert_eq!(of("$(x)"), None);
    }

    #[tokio::test]
    async fn a_job_that_has_left_the_list_has_an_outcome_and_one_that_is_back_has_none() {
        let mut poller = PbsPoller::new(JobFilter::default(), Duration::from_secs(30), Vec::new());
        let now = Clock::system().now();
        let list = |ids: &[&str]| {
            let job =
                |id: &&str| format!(r#""{id}":{{"job_state":"R","exec_vnode":"(gpu01:ngpus=1)"}}"#);
            let jobs = ids.iter().map(job).collect::<Vec<_>>().join(",");
            let value = jobs::parse(&format!(r#"{{"pbs_server":"s","Jobs":{{{jobs}}}}}"#));
            TimedAnswer { value, took: Duration::ZERO }
        };
        let answer = |value| TimedAnswer { value, took: Duration::ZERO };
        let id = |id: &str| JobId::new(id).unwrap();
        let take = |poller: &mut PbsPoller, ids: &[&str]| {
            poller.apply_jobs(list(ids), now);
            poller.update_nodes(now);
        };
        take(&mut poller, &["1.s", "2.s", "3.s"]);
        take(&mut poller, &["3.s"]);
        let awaited: Vec<&str> =
            poller.list.awaiting_outcome.iter().map(|job| job.id.as_str()).collect();
        assert_eq!(awaited, ["1.s", "2.s"]);
        let refused =
            SchedulerError::of_stderr(&PROFILE.words, PATTERNS, "qstat", "Connection refused");
        poller.apply_outcomes(answer(Err(refused)));
        assert_eq!(poller.list.awaiting_outcome.len(), 2, "asked again");
        poller.apply_outcomes(answer(Ok([(id("1.s"), Some(JobOutcome::Failed))].into())));
        assert_eq!(poller.list.outcome(&id("1.s")), JobOutcome::Failed);
        assert_eq!(poller.list.ended.len(), 2, "one that is not remembered has ended");
        take(&mut poller, &["1.s"]);
        assert_eq!(poller.list.outcome(&id("1.s")), JobOutcome::Unknown);
        let none = "qstat: PBS is not configured to maintain job history";
        let none = SchedulerError::of_stderr(&PROFILE.words, PATTERNS, "qstat", none);
        poller.apply_outcomes(answer(Err(none)));
        assert!(poller.list.awaiting_outcome.is_empty());
        let notes = poller.listing(now).jobs.notes.clone();
        assert!(notes[0].ends_with("job history; how jobs ended is not known"), "{notes:?}");
    }

    #[tokio::test]
    async fn options_that_mean_nothing_and_jobs_that_are_missing_are_told() {
        let filter = JobFilter {
            jobs: vec!["5".to_owned()],
            qos: vec!["high".to_owned()],
            ..JobFilter::default()
        };
        let mut poller = PbsPoller::new(filter, Duration::from_secs(30), Vec::new());
        let clock = Clock::system();
        assert_eq!(poller.listing(clock.now()).jobs.notes.len(), 1);
        let error = SchedulerError::of_stderr(&PROFILE.words, PATTERNS, "qstat", "odd");
        poller.apply_jobs(TimedAnswer { value: Err(error), took: Duration::ZERO }, clock.now());
        assert!(poller.listing(clock.now()).jobs.error.is_some());
        let answer = TimedAnswer { value: Ok(ListedJobs::default()), took: Duration::ZERO };
        poller.apply_jobs(answer, clock.now());
        let listing = poller.listing(clock.now());
        assert_eq!(listing.jobs.error, None);
        let notes: Vec<&str> = listing.jobs.notes.iter().map(|note| &**note).collect();
        assert!(notes[0].contains("--qos"), "{notes:?}");
        assert_eq!(notes[1], "job 5 is not in the queue");
    }

    #[tokio::test]
    async fn a_queue_without_nodes_of_its_own_runs_on_those_of_no_queue() {
        let watched = |queue: &str| {
            let filter = JobFilter { partitions: vec![queue.to_owned()], ..JobFilter::default() };
            let mut poller = PbsPoller::new(filter, Duration::from_secs(30), Vec::new());
            poller.watched.has_all = true;
            let node = |queue: Option<&str>| SchedulerNode {
                partitions: queue.into_iter().map(Into::into).collect(),
                ..SchedulerNode::default()
            };
            let name = |name: &str| NodeName::new(name).unwrap();
            let nodes = [(name("any"), node(None)), (name("own"), node(Some("debug")))];
            poller.known_nodes.nodes = nodes.into();
            poller.update_nodes(Clock::system().now());
            poller.watched.names().iter().map(NodeName::as_str).collect::<String>()
        };
        assert_eq!((watched("workq").as_str(), watched("debug").as_str()), ("any", "own"));
    }
}
