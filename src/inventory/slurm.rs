//! Slurm's jobs and their nodes, asked for again and again.
//!
//! One round is one `squeue`, and one `scontrol` for those jobs on nodes whose devices are not
//! known yet: what a job was given does not change while it runs. Rounds keep their distance, the
//! more so while Slurm is slow or fails; what was known stays with its age and the reason.

pub use ask::{ask_jobs, ask_within};
pub use place::{nodes_named, nodes_of};
pub use places::places;
pub use trouble::{Trouble, TroubleKind};

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::inventory::Roster;
use crate::inventory::slurm::ask::{ask_details, ask_queue};
use crate::inventory::slurm::detail::Detail;
use crate::inventory::slurm::pace::{chance, next_wait};
use crate::inventory::slurm::place::targets;
use crate::model::{Allocation, Job, JobId, JobList, JobProblem, NodeName, clean};
use crate::time::{Clock, Timestamp};
use crate::transport::Target;

mod ask;
mod detail;
mod gres;
mod moment;
mod pace;
mod place;
mod places;
mod queue;
#[cfg(test)]
mod recorded;
mod trouble;

/// So many jobs are asked about in detail by themselves; beyond, only the one that is wanted.
const DETAILED: usize = 200;
/// Between two questions to Slurm lies so much at least, and as long as the first one took.
const LEAST_REST: Duration = Duration::from_secs(1);

/// Which jobs to ask for; an empty list asks for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whose {
    /// Owners, by name or number.
    pub users: Vec<String>,
    /// Jobs, as people call them.
    pub jobs: Vec<String>,
    /// Partitions.
    pub partitions: Vec<String>,
    /// Accounts.
    pub accounts: Vec<String>,
}

impl Whose {
    /// Returns which jobs these are, to stand after `job`.
    pub fn words(&self) -> String {
        let list =
            |list: &[String]| list.iter().map(|one| clean(one, 40)).collect::<Vec<_>>().join(",");
        let mut words = match (self.jobs.as_slice(), self.users.as_slice()) {
            ([], []) => "of anybody".to_owned(),
            ([], users) if *users == [own_number()] => format!("of {}", own_name()),
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
pub fn own_number() -> String {
    rustix::process::getuid().as_raw().to_string()
}

fn own_name() -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
    name.filter(|name| !name.is_empty()).map_or_else(own_number, |name| clean(&name, 40))
}

/// What whoever looks at the jobs wants besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Counts up each time a new list is wanted at once.
    pub refresh: u64,
    /// The job somebody looks at: its devices are asked for, however many others there are.
    pub job: Option<JobId>,
}

/// The jobs of a cluster, as a source of rosters.
#[derive(Debug)]
pub struct Slurm {
    whose: Whose,
    interval: Duration,
    /// What is watched besides the nodes of jobs.
    fixed: Vec<Target>,
    known: BTreeMap<JobId, Known>,
    list: JobList,
    /// The names of its jobs as they are: not to be shown.
    names: BTreeMap<JobId, String>,
    targets: Vec<Target>,
    /// Rounds that failed since the last one that did not.
    failures: u32,
}

/// Says why devices of jobs are not told.
fn untold(trouble: &Trouble) -> String {
    format!("{}; devices of jobs are told from their processes", trouble.sentence)
}

/// What was told of a job's devices, and what of it tells that they are the same still.
#[derive(Debug)]
struct Known {
    starts_at: Option<Timestamp>,
    nodes: usize,
    detail: Detail,
}

impl Slurm {
    /// Makes a source that asks every `interval`; `fixed` is watched as well.
    pub fn new(whose: Whose, interval: Duration, fixed: Vec<Target>) -> Self {
        Self {
            interval,
            targets: fixed.clone(),
            fixed,
            known: BTreeMap::new(),
            list: JobList { whose: whose.words().into(), ..JobList::default() },
            names: BTreeMap::new(),
            whose,
            failures: 0,
        }
    }

    /// Watches these nodes as well until Slurm has answered once.
    #[must_use]
    pub fn with_nodes_at_first(mut self, nodes: Vec<Target>) -> Self {
        let is_new = |node: &Target| self.fixed.iter().all(|known| known.name != node.name);
        self.targets.extend(nodes.into_iter().filter(is_new));
        self
    }

    /// Returns what is known before anything was asked.
    pub fn first(&self) -> Roster {
        self.roster()
    }

    /// Asks until nobody wants rosters any more.
    pub async fn run(
        mut self,
        clock: Clock,
        mut wishes: watch::Receiver<Wishes>,
        rosters: watch::Sender<Arc<Roster>>,
    ) {
        let mut due = Instant::now();
        let mut refresh = wishes.borrow().refresh;
        loop {
            let wanted = wishes.borrow_and_update().clone();
            let began = Instant::now();
            let is_round = began >= due || wanted.refresh != refresh;
            refresh = wanted.refresh;
            if is_round {
                self.round(&clock, wanted.job.as_ref()).await;
            } else {
                self.look_at(wanted.job.as_ref()).await;
            }
            let took = began.elapsed();
            if rosters.send(Arc::new(self.roster())).is_err() {
                return;
            }
            if is_round {
                let wait = next_wait(self.interval, took, self.failures, chance());
                log::debug!("slurm: {} jobs in {took:?}, again in {wait:?}", self.list.jobs.len());
                due = Instant::now() + wait;
            }
            // However often somebody asks, the controller has a rest.
            let rested = Instant::now() + took.max(LEAST_REST);
            let again = async {
                self.until_wanted(&mut wishes, &wanted).await;
                sleep_until(rested).await;
            };
            tokio::select! {
                () = sleep_until(due) => {}
                () = again => {}
            }
        }
    }

    /// Waits until a new round is wanted, or the devices of a job that are not known.
    async fn until_wanted(&self, wishes: &mut watch::Receiver<Wishes>, before: &Wishes) {
        loop {
            if wishes.changed().await.is_err() {
                return std::future::pending().await;
            }
            let now = wishes.borrow_and_update();
            let is_unknown = |job: &JobId| {
                let on_nodes = self.list.on_nodes().any(|one| one.id == *job);
                on_nodes && !self.known.contains_key(job)
            };
            if now.refresh != before.refresh || now.job.as_ref().is_some_and(is_unknown) {
                return;
            }
        }
    }

    fn roster(&self) -> Roster {
        Roster::found(self.targets.clone(), Arc::new(self.list.clone()))
    }

    /// Asks once. What is known stays where there is no answer.
    async fn round(&mut self, clock: &Clock, wanted: Option<&JobId>) {
        match ask_queue(&self.whose).await {
            Ok(mut queue) => {
                self.failures = 0;
                self.forget(&queue.jobs);
                let trouble = self.ask_details(&queue.jobs, &queue.names, wanted).await;
                queue.notes.extend(trouble.map(|trouble| untold(&trouble)));
                for job in &mut queue.jobs {
                    self.fill(job);
                }
                self.targets = targets(&self.fixed, &queue.jobs);
                self.list.jobs = queue.jobs;
                self.names = queue.names;
                self.list.notes = queue.notes.into_iter().map(Into::into).collect();
                self.list.at = Some(clock.now());
                self.list.problem = None;
            }
            Err(trouble) if trouble.kind == TroubleKind::NoSuchJob => {
                self.failures = 0;
                self.known.clear();
                self.targets.clone_from(&self.fixed);
                self.list.jobs.clear();
                self.names.clear();
                self.list.notes = vec!["the job is not in the queue: it has ended".into()];
                self.list.at = Some(clock.now());
                self.list.problem = None;
            }
            Err(trouble) => {
                self.failures = self.failures.saturating_add(1);
                let is_same = |known: &JobProblem| *known.sentence == *trouble.sentence;
                let since = self.list.problem.as_ref().filter(|known| is_same(known));
                let since = since.map_or_else(|| clock.now(), |known| known.since);
                log::info!("slurm: {}", trouble.sentence);
                self.list.problem = Some(JobProblem {
                    sentence: trouble.sentence.into(),
                    remedy: trouble.remedy.into(),
                    since,
                });
            }
        }
    }

    /// Asks about the devices of one job of the list there is.
    async fn look_at(&mut self, wanted: Option<&JobId>) {
        let mut jobs = std::mem::take(&mut self.list.jobs);
        let names = std::mem::take(&mut self.names);
        let trouble = self.ask_details(&jobs, &names, wanted).await;
        if let Some(note) = trouble.map(|trouble| untold(&trouble).into()) {
            self.list.notes.retain(|known| *known != note);
            self.list.notes.push(note);
        }
        for job in &mut jobs {
            self.fill(job);
        }
        (self.list.jobs, self.names) = (jobs, names);
    }

    /// Forgets the devices of jobs that are over, or began anew, or on other nodes.
    fn forget(&mut self, jobs: &[Job]) {
        let jobs: BTreeMap<&JobId, &Job> = jobs.iter().map(|job| (&job.id, job)).collect();
        self.known.retain(|id, known| {
            jobs.get(id).is_some_and(|job| {
                job.starts_at == known.starts_at && job.allocations.len() == known.nodes
            })
        });
    }

    async fn ask_details(
        &mut self,
        jobs: &[Job],
        names: &BTreeMap<JobId, String>,
        wanted: Option<&JobId>,
    ) -> Option<Trouble> {
        let on_nodes = || jobs.iter().filter(|job| !job.allocations.is_empty());
        let is_many = on_nodes().count() > DETAILED;
        let asked: BTreeMap<JobId, String> = on_nodes()
            .filter(|job| !self.known.contains_key(&job.id))
            .filter(|job| !is_many || wanted == Some(&job.id))
            .filter_map(|job| Some((job.id.clone(), names.get(&job.id)?.clone())))
            .collect();
        if asked.is_empty() {
            return None;
        }
        let answer = match ask_details(&asked).await {
            Ok(answer) => answer,
            Err(trouble) => return Some(trouble),
        };
        let mut details = detail::read(&answer.output, &asked);
        for job in on_nodes() {
            let Some(detail) = details.remove(&job.id) else { continue };
            // Of a job that is being started or ended nothing may be said yet, or any more.
            if detail.devices.is_empty() {
                continue;
            }
            let known = Known { starts_at: job.starts_at, nodes: job.allocations.len(), detail };
            self.known.insert(job.id.clone(), known);
        }
        None
    }

    fn fill(&self, job: &mut Job) {
        let Some(known) = self.known.get(&job.id) else { return };
        job.lasting_id.clone_from(&known.detail.lasting_id);
        let told = |node: &NodeName| known.detail.devices.get(node).cloned().unwrap_or_default();
        job.allocations = job
            .allocations
            .iter()
            .map(|one| Allocation { node: one.node.clone(), devices: told(&one.node) })
            .collect();
    }
}
