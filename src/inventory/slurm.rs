//! Slurm's jobs and their nodes, asked for again and again.
//!
//! One round is one `squeue`, and one `scontrol` for those jobs on nodes whose devices are not
//! known yet: what a job was given does not change while it runs. Rounds keep their distance, the
//! more so while Slurm is slow or fails; what was known stays with its age and the reason.

pub use places::places;
pub use trouble::{Trouble, TroubleKind};

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::inventory::Roster;
use crate::inventory::slurm::detail::Detail;
use crate::inventory::slurm::queue::Queue;
use crate::model::{Allocation, Job, JobId, JobList, JobProblem, NodeName, clean};
use crate::time::{Clock, Timestamp};
use crate::transport::{Answer, Asked, Profile, Reach, SshTarget, Target, ask};

mod detail;
mod gres;
mod moment;
mod places;
mod queue;
#[cfg(test)]
mod recorded;
mod trouble;

/// How long a program of Slurm may take. A controller that hangs is reported after 20 s by Slurm
/// itself, in better words than ours.
const LIMIT: Duration = Duration::from_secs(30);
/// Most bytes of an answer: 20,000 jobs take a fifth of it.
const MOST: usize = 24 << 20;
/// So many jobs are asked about in detail by themselves; beyond, only the one that is wanted.
const DETAILED: usize = 200;
/// The longest wait after failures, unless the interval is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(300);
/// Waits are at least so many times as long as a round took that was answered; one that was not
/// says nothing of how busy Slurm is.
const PATIENCE: u32 = 10;

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
    targets: Vec<Target>,
    /// Rounds that failed since the last one that did not.
    failures: u32,
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
            whose,
            failures: 0,
        }
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
        loop {
            let wanted = wishes.borrow_and_update().clone();
            let began = tokio::time::Instant::now();
            self.round(&clock, wanted.job.as_ref()).await;
            let took = began.elapsed();
            if rosters.send(Arc::new(self.roster())).is_err() {
                return;
            }
            let wait = next_wait(self.interval, took, self.failures, chance());
            log::debug!("slurm: {} jobs in {took:?}, again in {wait:?}", self.list.jobs.len());
            tokio::select! {
                () = sleep(wait) => {}
                () = self.until_wanted(&mut wishes, &wanted) => {}
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
                let trouble = self.ask_details(&queue, wanted).await;
                queue.notes.extend(trouble.map(|trouble| {
                    format!("{}; devices of jobs are told from their processes", trouble.sentence)
                }));
                for job in &mut queue.jobs {
                    self.fill(job);
                }
                self.targets = targets(&self.fixed, &queue.jobs);
                self.list.jobs = queue.jobs;
                self.list.notes = queue.notes.into_iter().map(Into::into).collect();
                self.list.at = Some(clock.now());
                self.list.problem = None;
            }
            Err(trouble) if trouble.kind == TroubleKind::NoSuchJob => {
                self.failures = 0;
                self.known.clear();
                self.targets.clone_from(&self.fixed);
                self.list.jobs.clear();
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

    /// Forgets the devices of jobs that are over, or began anew, or on other nodes.
    fn forget(&mut self, jobs: &[Job]) {
        let jobs: BTreeMap<&JobId, &Job> = jobs.iter().map(|job| (&job.id, job)).collect();
        self.known.retain(|id, known| {
            jobs.get(id).is_some_and(|job| {
                job.starts_at == known.starts_at && job.allocations.len() == known.nodes
            })
        });
    }

    async fn ask_details(&mut self, queue: &Queue, wanted: Option<&JobId>) -> Option<Trouble> {
        let on_nodes = || queue.jobs.iter().filter(|job| !job.allocations.is_empty());
        let is_many = on_nodes().count() > DETAILED;
        let asked: BTreeMap<JobId, String> = on_nodes()
            .filter(|job| !self.known.contains_key(&job.id))
            .filter(|job| !is_many || wanted == Some(&job.id))
            .filter_map(|job| Some((job.id.clone(), queue.names.get(&job.id)?.clone())))
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

/// Asks for the queue.
async fn ask_queue(whose: &Whose) -> Result<Queue, Trouble> {
    let mark = mark();
    let answer = ask_slurm("squeue", &queue::words(whose, &mark), "").await?;
    let is_refused = !answer.succeeded || answer.complaint.contains("Invalid user");
    if is_refused {
        return Err(Trouble::of_complaint("squeue", &answer.complaint));
    }
    Ok(queue::read(&answer.output, &mark, answer.is_cut))
}

/// Asks about jobs: one program, one question each.
async fn ask_details(jobs: &BTreeMap<JobId, String>) -> Result<Answer, Trouble> {
    let mut lines = String::new();
    for id in jobs.keys() {
        // Writing to a string cannot fail.
        _ = writeln!(lines, "show job {id}");
    }
    let answer = ask_slurm("scontrol", &["-d".into()], &lines).await?;
    if answer.output.contains("JobId=") || answer.succeeded {
        return Ok(answer);
    }
    Err(Trouble::of_complaint("scontrol", &answer.complaint))
}

/// Runs a program of Slurm.
pub async fn ask_slurm(program: &str, words: &[OsString], input: &str) -> Result<Answer, Trouble> {
    let asked = Asked {
        program,
        words,
        input,
        // Moments as seconds; no zone has a say in them.
        environment: &[("SLURM_TIME_FORMAT", "%s")],
        // What the user's own squeue is to show by default is not what we ask for.
        without: "SQUEUE_",
        limit: LIMIT,
        most: MOST,
    };
    ask(asked).await.map_err(|fault| Trouble::of_fault(program, &fault, LIMIT.as_secs()))
}

/// Returns the nodes of all jobs, each once, after those that are watched anyway.
fn targets(fixed: &[Target], jobs: &[Job]) -> Vec<Target> {
    let own = own_names();
    let mut targets = fixed.to_vec();
    let mut seen: std::collections::BTreeSet<NodeName> =
        fixed.iter().map(|target| target.name.clone()).collect();
    for allocation in jobs.iter().flat_map(|job| job.allocations.iter()) {
        if seen.insert(allocation.node.clone()) {
            targets.push(target(&allocation.node, &own));
        }
    }
    targets.sort_by_cached_key(|target| natural(target.name.as_str()));
    targets
}

fn target(node: &NodeName, own: &[String]) -> Target {
    if own.iter().any(|name| name == node.as_str()) {
        return Target { name: node.clone(), reach: Reach::Local };
    }
    let host = node.as_str().to_owned();
    let ssh = SshTarget { host, user: None, port: None, profile: Profile::System };
    Target { name: node.clone(), reach: Reach::Ssh(ssh) }
}

/// What Slurm may call this machine.
fn own_names() -> Vec<String> {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy().into_owned();
    let short = name.split('.').next().map(str::to_owned);
    [std::env::var("SLURMD_NODENAME").ok(), short, Some(name)].into_iter().flatten().collect()
}

/// Orders `gpu9` before `gpu10`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let (mut text, mut digits) = (String::new(), String::new());
    for letter in name.chars() {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        if !digits.is_empty() {
            parts.push((std::mem::take(&mut text), digits.parse().unwrap_or(u64::MAX)));
            digits.clear();
        }
        text.push(letter);
    }
    parts.push((text, digits.parse().unwrap_or_default()));
    parts
}

/// Returns how long to wait after a round: the interval, doubled from the second failure on, a lot
/// longer than the round took, and not the same for everybody. `chance` is any number.
fn next_wait(interval: Duration, took: Duration, failures: u32, chance: u8) -> Duration {
    let doubled = interval.saturating_mul(1 << failures.saturating_sub(1).min(8));
    let patience = if failures == 0 { PATIENCE } else { 1 };
    let wait = doubled.min(LONGEST_WAIT.max(interval)).max(took.saturating_mul(patience));
    // From nine tenths to eleven tenths.
    wait / 10 * 9 + wait / 5 * u32::from(chance) / u32::from(u8::MAX)
}

fn chance() -> u8 {
    let mut byte = [0];
    // Without randomness all wait alike, which is no harm.
    _ = getrandom(&mut byte, GetRandomFlags::empty());
    byte[0]
}

/// Returns what no job's name can hold by intent.
fn mark() -> String {
    let mut bytes = [0_u8; 8];
    // Without randomness only a name made for it could profit.
    _ = getrandom(&mut bytes, GetRandomFlags::empty());
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Allotment;

    #[test]
    fn waits_grow_with_failures_and_with_the_time_a_round_takes() {
        let wait = |took, failures| {
            next_wait(Duration::from_secs(30), Duration::from_secs(took), failures, 128).as_secs()
        };
        for (took, failures, around) in [
            (0, 0, 30),
            (0, 1, 30),
            (0, 2, 60),
            (0, 3, 120),
            (0, 30, 300),
            (20, 1, 200),
            (9, 0, 90),
        ] {
            let got = wait(took, failures);
            assert!(got.abs_diff(around) <= around / 9, "{took} {failures}: {got}");
        }
        let hour = Duration::from_secs(3600);
        let spread = [0, 255].map(|chance| next_wait(hour, Duration::ZERO, 9, chance).as_secs());
        assert_eq!(spread, [3240, 3960]);
    }

    #[test]
    fn nodes_stand_once_in_the_order_of_their_numbers() {
        let names = |list: &[&str]| -> Vec<String> {
            let allocations = list.iter().map(|name| Allocation {
                node: NodeName::new(name).unwrap(),
                devices: Allotment::Unsaid,
            });
            let mut queue = queue::read(&example(), "m", false);
            queue.jobs[0].allocations = allocations.collect();
            let jobs = [queue.jobs[0].clone(), queue.jobs[0].clone()];
            targets(&[], &jobs).iter().map(|target| target.name.to_string()).collect()
        };
        assert_eq!(names(&["gpu10", "gpu9", "gpu9", "a"]), ["a", "gpu9", "gpu10"]);
    }

    fn example() -> String {
        let fields = ["1", "1", "a", "p", "", "RUNNING", "1", "1", "1", "1:00", "1", "n1", "", "x"];
        format!("\u{1e}m\u{1f}{}\u{1e}m", fields.join("\u{1f}"))
    }
}
