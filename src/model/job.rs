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
    pub lasting_id: Option<JobId>,
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
            lasting_id: None,
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
            node_count: 1,
            allocations: Arc::default(),
        }
    }
}

impl Job {
    /// Returns how long it may still run, of one that has begun.
    pub fn left(&self, now: Timestamp) -> Option<Duration> {
        if self.state == JobState::Pending { None } else { self.ends_at.map(|end| end.since(now)) }
    }
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobState {
    /// It runs.
    Running,
    /// Its nodes are being made ready.
    Starting,
    /// It stands still and keeps its nodes.
    Suspended,
    /// It is being ended.
    Ending,
    /// It waits for its turn.
    Pending,
    /// Anything else.
    Other,
}

impl JobState {
    /// Returns the word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Starting => "starting",
            Self::Suspended => "suspended",
            Self::Ending => "ending",
            Self::Pending => "pending",
            Self::Other => "other",
        }
    }
}

/// What one job has on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The node.
    pub node: NodeName,
    /// Its devices there.
    pub devices: Allotment,
}

/// Which devices of a node a job has, as far as its scheduler says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Allotment {
    /// Those at these places in the scheduler's list of the node's devices, in rising order. A
    /// device that is cut into slices stands in that list by its slices.
    Places(Arc<[u32]>),
    /// So many, and not which.
    Count(u32),
    /// None.
    Nothing,
    /// The scheduler does not say; the control groups of processes may.
    #[default]
    Unsaid,
}

/// The jobs found at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobList {
    /// The jobs: those that run first, each group by number.
    pub jobs: Vec<Job>,
    /// When the scheduler said so; `None` when it has never answered.
    pub at: Option<Timestamp>,
    /// Why there is no newer list.
    pub problem: Option<JobProblem>,
    /// What else there is to know about the list, a sentence each.
    pub notes: Vec<Arc<str>>,
    /// Which jobs are asked for, to stand after `job`: `of alice`, `numbered 11`.
    pub whose: Arc<str>,
}

/// Why a scheduler does not say which jobs there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobProblem {
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
        self.jobs.iter().find(|job| job.id == *id || job.lasting_id.as_ref() == Some(id))
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
    pub fn emptiness(&self) -> Option<String> {
        if self.on_nodes().next().is_some() {
            return None;
        }
        Some(match (self.at, &self.problem) {
            (None, None) => "asking Slurm which jobs run".to_owned(),
            (None, Some(problem)) => format!("{}; {}", problem.sentence, problem.remedy),
            (Some(_), _) => {
                let waiting = self.waiting().count();
                let none = format!("no running job {}", self.whose);
                match waiting {
                    0 => format!("{none}; submit one with sbatch or salloc, and it appears here"),
                    1 => format!("{none}; one waits for its turn, and appears here"),
                    count => format!("{none}; {count} wait for their turn, and appear here"),
                }
            }
        })
    }
}
