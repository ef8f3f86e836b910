//! Jobs of a scheduler: what it says of them, which devices it gave them, and how old that is.

use std::sync::Arc;
use std::time::Duration;

use crate::model::id::{JobId, NodeName};
use crate::time::Timestamp;

/// One job as its scheduler tells it. Texts are safe to show.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The number that processes and the scheduler's own programs know it by: `11`.
    pub id: JobId,
    /// What people call it: `11`, `2_1` for a task of an array, `3+1` for a part of a heterogeneous
    /// job, `2_[3-5%3]` for tasks of an array that wait.
    pub shown_id: Arc<str>,
    /// Another name that control groups may have for it.
    pub sluid: Option<JobId>,
    /// Its name.
    pub name: Arc<str>,
    /// Its owner.
    pub user: Arc<str>,
    /// Where it was submitted to.
    pub partition: Arc<str>,
    /// Who pays.
    pub account: Option<Arc<str>>,
    /// What it does.
    pub state: JobState,
    /// Why it does that, such as what it waits for.
    pub reason: Option<Arc<str>>,
    /// When it was submitted.
    pub submitted_at: Option<Timestamp>,
    /// When it began, or is expected to.
    pub starts_at: Option<Timestamp>,
    /// When it will be ended at the latest.
    pub ends_at: Option<Timestamp>,
    /// How long it may run; `None` when nobody says, or for ever.
    pub limit: Option<Duration>,
    /// How long it has run when the list was made, without the time for which it was suspended.
    pub run_time: Option<Duration>,
    /// How many nodes it has or wants.
    pub node_count: u32,
    /// What it has on each of its nodes; empty while it waits.
    pub allocations: Arc<[Allocation]>,
}

#[cfg(test)]
impl Job {
    /// A job of alice's that runs, has no nodes yet, and is told nothing more of; for the tests of other rooms.
    pub(crate) fn example(id: &str) -> Self {
        let words = |text: &str| Arc::<str>::from(text);
        Self {
            id: JobId::new(id).unwrap(),
            shown_id: words(id),
            sluid: None,
            name: words("x"),
            user: words("alice"),
            partition: words("gpu"),
            account: None,
            state: JobState::Running,
            reason: None,
            submitted_at: None,
            starts_at: None,
            ends_at: None,
            limit: None,
            run_time: None,
            node_count: 1,
            allocations: Arc::default(),
        }
    }
}

impl Job {
    /// Returns how long it may still run, of one that has begun and is not being ended. While it is
    /// suspended that stands still.
    pub fn time_left(&self, now: Timestamp) -> Option<Duration> {
        match self.state {
            JobState::Pending | JobState::Completing => None,
            JobState::Suspended => Some(self.limit?.saturating_sub(self.run_time?)),
            JobState::Running | JobState::Configuring | JobState::Other => {
                self.ends_at.map(|end| end.since(now))
            }
        }
    }

    /// Returns how long it has run, without the time for which it is suspended.
    pub fn elapsed(&self, now: Timestamp) -> Option<Duration> {
        let stands_still = self.run_time.filter(|_| self.state == JobState::Suspended);
        stands_still.or_else(|| self.starts_at.map(|began| now.since(began)))
    }
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobState {
    /// It runs.
    Running,
    /// Its nodes are being made ready.
    Configuring,
    /// It stands still and keeps its nodes.
    Suspended,
    /// It is being ended.
    Completing,
    /// It waits for its turn.
    Pending,
    /// Anything else.
    Other,
}

impl JobState {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Configuring => "starting",
            Self::Suspended => "suspended",
            Self::Completing => "ending",
            Self::Pending => "pending",
            Self::Other => "other",
        }
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobOutcome {
    /// It came to its own end.
    Completed,
    /// Somebody cancelled it.
    Cancelled,
    /// Its time was up.
    TimeLimit,
    /// Its program failed.
    Failed,
    /// A node of it failed.
    NodeFailed,
    /// It wanted more memory than it had.
    OutOfMemory,
    /// Another job took its place.
    Preempted,
    /// Nobody says.
    #[default]
    Unknown,
}

impl JobOutcome {
    /// Returns what became of the job, to stand after its number.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Completed | Self::Unknown => "has ended",
            Self::Cancelled => "was cancelled",
            Self::TimeLimit => "has used up its time",
            Self::Failed => "has failed",
            Self::NodeFailed => "was ended by the failure of a node",
            Self::OutOfMemory => "ran out of memory",
            Self::Preempted => "was preempted",
        }
    }

    /// Reads the word that Slurm has for it; `None` while the job is not over.
    pub fn from_slurm(word: &str) -> Option<Self> {
        // It may go on: `CANCELLED by 2001`.
        match word.split([' ', '+']).next()? {
            "COMPLETED" => Some(Self::Completed),
            "CANCELLED" | "REVOKED" => Some(Self::Cancelled),
            "TIMEOUT" | "DEADLINE" => Some(Self::TimeLimit),
            "FAILED" | "BOOT_FAIL" | "LAUNCH_FAILED" => Some(Self::Failed),
            "NODE_FAIL" => Some(Self::NodeFailed),
            "OUT_OF_MEMORY" => Some(Self::OutOfMemory),
            "PREEMPTED" => Some(Self::Preempted),
            _ => None,
        }
    }
}

/// What one job has on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The node.
    pub node: NodeName,
    /// Its devices there.
    pub devices: DeviceAllocation,
}

/// Which devices of a node a job has, as far as its scheduler says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceAllocation {
    /// Those at these places in the scheduler's list of the node's devices, in rising order. A
    /// device that is cut into slices stands in that list by its slices.
    Indices(Arc<[u32]>),
    /// So many, and not which.
    Count(u32),
    /// None.
    None,
    /// The scheduler does not say; the control groups of processes may.
    #[default]
    Unknown,
}

/// The jobs found at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobList {
    /// The jobs: those that run first, each group by number.
    pub jobs: Vec<Job>,
    /// When the scheduler said so; `None` when it has never answered.
    pub at: Option<Timestamp>,
    /// Why there is no newer list.
    pub error: Option<JobListError>,
    /// What else there is to know about the list, a sentence each.
    pub notes: Vec<Arc<str>>,
    /// Which jobs are asked for, to stand after `job`: `of alice`, `numbered 11`.
    pub whose: Arc<str>,
    /// They are asked for by their numbers.
    pub is_by_id: bool,
    /// The jobs are known, and the scheduler is being asked which devices they have.
    pub awaits_devices: bool,
    /// Jobs that are not in the list any more while the scheduler is asked how they ended.
    pub awaiting_outcome: Vec<Job>,
    /// How jobs ended that were in the list, as far as the scheduler says; the last ones.
    pub ended: Arc<[(JobId, JobOutcome)]>,
}

/// Why a scheduler does not say which jobs there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobListError {
    /// What is wrong, in a few words.
    pub sentence: Arc<str>,
    /// What a person can do about it.
    pub remedy: Arc<str>,
    /// Since when.
    pub since: Timestamp,
}

impl JobList {
    /// Returns the job that a process's control group or a person calls so.
    pub fn job(&self, id: &JobId) -> Option<&Job> {
        self.jobs.iter().find(|job| job.id == *id || job.sluid.as_ref() == Some(id))
    }

    /// Returns what people call a job: `2_1` for the process of job 11.
    pub fn shown_id<'a>(&'a self, id: &'a JobId) -> &'a str {
        self.job(id).map_or(id.as_str(), |job| &job.shown_id)
    }

    /// Returns how a job ended that was in the list.
    pub fn outcome(&self, id: &JobId) -> JobOutcome {
        let found = self.ended.iter().find(|(ended, _)| ended == id);
        found.map(|(_, outcome)| *outcome).unwrap_or_default()
    }

    /// Returns whether the scheduler has said all that it is asked for, or why it does not.
    pub fn is_answered(&self) -> bool {
        self.error.is_some() || (self.at.is_some() && !self.awaits_devices)
    }

    /// Returns the jobs that have nodes.
    pub fn on_nodes(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(|job| !job.allocations.is_empty())
    }

    /// Returns the jobs that wait.
    pub fn waiting(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(|job| job.state == JobState::Pending)
    }

    /// Returns why nothing is watched, when no job has nodes.
    pub fn empty_reason(&self) -> Option<String> {
        if self.on_nodes().next().is_some() {
            return None;
        }
        Some(match (self.at, &self.error) {
            (None, None) => "asking Slurm which jobs run".to_owned(),
            (None, Some(error)) => format!("{}; {}", error.sentence, error.remedy),
            (Some(_), _) => {
                let waiting = self.waiting().count();
                let none = format!("no running job {}", self.whose);
                // Whoever asks for one by its number is told what became of it.
                if self.is_by_id {
                    return Some(none);
                }
                match waiting {
                    0 => format!("{none}; submit one with sbatch or salloc, and it appears here"),
                    1 => format!("{none}; one waits for its turn, and appears here"),
                    count => format!("{none}; {count} wait for their turn, and appear here"),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_says_why_nothing_is_watched() {
        let job = |state, nodes: &[&str]| {
            let one = |node: &&str| Allocation {
                node: NodeName::new(node).unwrap(),
                devices: DeviceAllocation::Unknown,
            };
            Job { state, allocations: nodes.iter().map(one).collect(), ..Job::example("7") }
        };
        let said = |jobs: Vec<Job>, at: Option<Timestamp>, is_by_id| {
            JobList { jobs, at, is_by_id, whose: "of yours".into(), ..JobList::default() }
                .empty_reason()
        };
        let (now, waiting) = (Some(Timestamp::default()), || job(JobState::Pending, &[]));
        let some = |words: &str| Some(words.to_owned());
        assert_eq!(said(vec![], None, false), some("asking Slurm which jobs run"));
        assert_eq!(
            said(vec![], now, false),
            some("no running job of yours; submit one with sbatch or salloc, and it appears here")
        );
        assert_eq!(
            said(vec![waiting()], now, false),
            some("no running job of yours; one waits for its turn, and appears here")
        );
        assert_eq!(
            said(vec![waiting(), waiting()], now, false),
            some("no running job of yours; 2 wait for their turn, and appear here")
        );
        assert_eq!(said(vec![waiting()], now, true), some("no running job of yours"));
        assert_eq!(said(vec![waiting(), job(JobState::Running, &["gpu01"])], now, false), None);
    }

    #[test]
    fn the_time_of_a_suspended_job_stands_still() {
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
            (JobState::Configuring, seconds(600), seconds(3000)),
            (JobState::Other, seconds(600), seconds(3000)),
            (JobState::Suspended, seconds(300), seconds(3300)),
            (JobState::Completing, seconds(600), None),
            (JobState::Pending, seconds(600), None),
        ] {
            let job = job(state);
            assert_eq!((job.elapsed(at(1600)), job.time_left(at(1600))), (used, left), "{state:?}");
        }
        let bare = Job::example("7");
        assert_eq!((bare.elapsed(at(1600)), bare.time_left(at(1600))), (None, None));
    }

    #[test]
    fn the_words_of_slurm_for_an_end_are_known() {
        for (word, outcome) in [
            ("COMPLETED", Some(JobOutcome::Completed)),
            ("CANCELLED by 2001", Some(JobOutcome::Cancelled)),
            ("CANCELLED+", Some(JobOutcome::Cancelled)),
            ("REVOKED", Some(JobOutcome::Cancelled)),
            ("TIMEOUT", Some(JobOutcome::TimeLimit)),
            ("DEADLINE", Some(JobOutcome::TimeLimit)),
            ("FAILED", Some(JobOutcome::Failed)),
            ("BOOT_FAIL", Some(JobOutcome::Failed)),
            ("LAUNCH_FAILED", Some(JobOutcome::Failed)),
            ("NODE_FAIL", Some(JobOutcome::NodeFailed)),
            ("OUT_OF_MEMORY", Some(JobOutcome::OutOfMemory)),
            ("PREEMPTED", Some(JobOutcome::Preempted)),
            ("RUNNING", None),
            ("", None),
        ] {
            assert_eq!(JobOutcome::from_slurm(word), outcome, "{word}");
        }
    }
}
