//! What is known of the cluster: whether steps are safe there, and whether they are the only way in.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::model::{JobId, JobOutcome};
use crate::time::{Clock, Timestamp};
use crate::transport::fault::{Fault, StepCause, sanitize_line};
use crate::transport::file_cache::lock;
use crate::transport::srun::{cluster_cache, messages};
use crate::transport::subprocess::{ProgramCall, run_program};

/// How long a program of Slurm may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the file in which clusters are remembered may take: its file system may hang.
const FILE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for how a job has ended, and between two looks at one that is being ended.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(4);
const OUTCOME_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Most bytes of an answer.
const MAX_STDOUT: usize = 1 << 16;

/// The cluster gtop runs at.
#[derive(Debug, Default)]
pub(in crate::transport) struct Cluster {
    version: OnceCell<Result<String, Fault>>,
    name: OnceCell<Option<String>>,
    state: Mutex<SshStatus>,
    /// Set once it was looked up: one does it for all nodes.
    looked_up: OnceCell<()>,
}

/// Nothing is remembered of any cluster.
struct NothingCached;

/// Whether nodes take SSH, as far as that is known.
#[derive(Debug, Clone, Copy, Default)]
enum SshStatus {
    /// It was not looked up yet.
    #[default]
    Unknown,
    /// Nothing says that they refuse it.
    Accepted,
    /// A node refused it then.
    Refused(Timestamp),
}

impl SshStatus {
    const fn new(refused_at: Option<Timestamp>) -> Self {
        match refused_at {
            Some(at) => Self::Refused(at),
            None => Self::Accepted,
        }
    }

    /// Returns when a node refused it, if that counts still.
    fn refused_at(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Refused(at) => cluster_cache::is_fresh(at, now).then_some(at),
            Self::Unknown | Self::Accepted => None,
        }
    }
}

impl Cluster {
    /// Returns which Slurm this is, when a step of ours keeps nobody waiting there.
    pub(in crate::transport) async fn checked_version(&self, srun: &Path) -> Result<String, Fault> {
        let judging = async {
            let program = srun.to_string_lossy();
            let version = stdout_of(&program, &["--version".into()]).await.ok_or_else(|| {
                let why = "no such program, or it does not say its version".to_owned();
                Fault::ProgramNotFound { program: program.to_string(), why }
            })?;
            let shown = sanitize_line(version.trim());
            if messages::is_supported(&version) {
                return Ok(shown);
            }
            Err(Fault::step(StepCause::SlurmTooOld, &shown))
        };
        self.version.get_or_init(|| judging).await.clone()
    }

    /// Returns whether this cluster is known to let nobody in by SSH.
    pub(in crate::transport) async fn refuses_ssh(&self, folder: Option<&Path>) -> bool {
        self.refused_at(folder).await.is_some()
    }

    /// Returns when a node of this cluster last refused SSH, if that is remembered and not long ago.
    pub(in crate::transport) async fn refused_at(
        &self,
        folder: Option<&Path>,
    ) -> Option<Timestamp> {
        let now = Clock::system().now();
        if let Some(folder) = folder {
            let look_up = || self.look_up(folder, now);
            // Where nothing is remembered it is looked up again: another gtop may find it out.
            self.looked_up.get_or_try_init(look_up).await.ok();
        }
        lock(&self.state).refused_at(now)
    }

    async fn look_up(&self, folder: &Path, now: Timestamp) -> Result<(), NothingCached> {
        if !matches!(*lock(&self.state), SshStatus::Unknown) {
            return Ok(());
        }
        let [seen, read] = [folder.to_owned(), folder.to_owned()];
        let found = match blocking_with_timeout(move || cluster_cache::is_empty(&seen)).await {
            Some(true) => return Err(NothingCached),
            // Slurm is asked only where something is remembered.
            Some(false) => match self.name().await {
                Some(name) => blocking_with_timeout(move || cluster_cache::load(&read, &name, now))
                    .await
                    .flatten(),
                None => None,
            },
            None => None,
        };
        let mut state = lock(&self.state);
        // A node may have refused it meanwhile.
        if matches!(*state, SshStatus::Unknown) {
            *state = SshStatus::new(found);
        }
        Ok(())
    }

    /// Remembers that this cluster lets nobody in by SSH; what cannot be written is found out again.
    pub(in crate::transport) async fn remember_refusal(&self, folder: Option<&Path>) {
        let now = Clock::system().now();
        let known = lock(&self.state).refused_at(now);
        // Many nodes find it out at the same time.
        if known.is_none() {
            self.set_refused_at(folder, Some(now)).await;
        }
    }

    /// Takes note of when a node of this cluster refused SSH, or that nodes do not.
    pub(in crate::transport) async fn set_refused_at(
        &self,
        folder: Option<&Path>,
        at: Option<Timestamp>,
    ) {
        *lock(&self.state) = SshStatus::new(at);
        let (Some(folder), Some(name)) = (folder, self.name().await) else { return };
        let (folder, now, kept) = (folder.to_owned(), Clock::system().now(), name.clone());
        let keeping = blocking_with_timeout(move || cluster_cache::store(&folder, &kept, at, now));
        if let Some(Err(error)) = keeping.await {
            log::info!("cannot remember how {name} is reached: {error}");
        }
    }

    /// Returns what the cluster is called.
    pub(in crate::transport) async fn name(&self) -> Option<String> {
        let asking = async {
            let told = stdout_of("scontrol", &["show".into(), "config".into()]).await?;
            let line = told.lines().find(|line| line.starts_with("ClusterName"))?;
            let name = line.split_once('=')?.1.trim();
            let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            (!name.is_empty() && name.len() <= 64 && name.chars().all(is_name))
                .then(|| name.to_owned())
        };
        self.name.get_or_init(|| asking).await.clone()
    }
}

/// Returns why a step has ended, by how its job did: srun says of both that they were cancelled, or
/// only that there is no such job.
pub(in crate::transport) async fn refine_fault(fault: Fault, job: &JobId) -> Fault {
    let Fault::SlurmStep { cause: StepCause::Cancelled | StepCause::NotRunning, says } = &fault
    else {
        return fault;
    };
    let cause = match timeout(OUTCOME_TIMEOUT, job_outcome(job)).await.ok().flatten() {
        Some(JobOutcome::Cancelled) => StepCause::JobCancelled,
        Some(JobOutcome::TimeLimit) => StepCause::TimeLimit,
        Some(JobOutcome::NodeFailed) => StepCause::NodeFailed,
        Some(JobOutcome::Preempted) => StepCause::Preempted,
        Some(
            JobOutcome::Completed
            | JobOutcome::Failed
            | JobOutcome::OutOfMemory
            | JobOutcome::Unknown,
        ) => StepCause::NotRunning,
        None => return fault,
    };
    Fault::step(cause, says)
}

/// Returns how a job ended; waits while it is being ended.
async fn job_outcome(job: &JobId) -> Option<JobOutcome> {
    loop {
        let words: [OsString; 3] = ["show".into(), "job".into(), job.as_str().into()];
        let told = stdout_of("scontrol", &words).await?;
        let state = told.lines().find_map(|line| line.trim_start().strip_prefix("JobState="))?;
        if !state.starts_with("COMPLETING") {
            return JobOutcome::from_slurm(state);
        }
        sleep(OUTCOME_POLL_INTERVAL).await;
    }
}

/// Returns what a program prints when it succeeds.
async fn stdout_of(program: &str, words: &[OsString]) -> Option<String> {
    let asked = ProgramCall {
        program,
        words,
        input: "",
        environment: &[],
        without: "SLURM_CLUSTERS",
        limit: COMMAND_TIMEOUT,
        most: MAX_STDOUT,
    };
    run_program(asked).await.ok().filter(|answer| answer.succeeded).map(|answer| answer.output)
}

/// Does what may block beside the sessions, which all share a thread. `None` when that takes too long;
/// it goes on by itself then.
async fn blocking_with_timeout<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let done = timeout(FILE_TIMEOUT, spawn_blocking(work)).await.ok().and_then(Result::ok);
    if done.is_none() {
        log::info!("what is remembered of clusters cannot be reached in time");
    }
    done
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::sync::{Arc, mpsc};

    use tokio::task::yield_now;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_system_that_hangs_stalls_no_session() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("srun-clusters");
        // To open it waits for somebody who writes.
        let made = tokio::process::Command::new("mkfifo").arg(&path).status().await.unwrap();
        assert!(made.success());
        let (say, heard) = mpsc::channel();
        let release = std::thread::spawn(move || {
            let is_free = heard.recv_timeout(Duration::from_secs(20)).is_ok();
            // Whoever reads, in whatever thread, is let go, and nobody comes after.
            let writer = OpenOptions::new().write(true).open(&path).unwrap();
            std::fs::remove_file(path).unwrap();
            drop(writer);
            is_free
        });
        let site = Arc::new(Cluster::default());
        let run_program = || {
            let (site, folder) = (Arc::clone(&site), folder.path().to_owned());
            tokio::spawn(async move { site.refused_at(Some(&folder)).await })
        };
        let asked = [run_program(), run_program(), run_program()];
        yield_now().await;
        assert!(asked.iter().all(|asked| !asked.is_finished()));
        advance(FILE_TIMEOUT).await;
        for asked in asked {
            assert_eq!(asked.await.unwrap(), None);
        }
        say.send(()).ok();
        assert!(release.join().unwrap(), "the thread of the sessions was blocked");
    }
}
