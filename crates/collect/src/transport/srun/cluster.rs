//! The Slurm cluster: whether its version supports shared steps, and whether its nodes refuse SSH.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::scheduler::slurm;
use crate::transport::srun::{cluster_cache, messages};
use gtop_local::fault::{Fault, StepCause};
use gtop_local::lock::lock;
use gtop_local::process::{NotStarted, ProgramCall, run_program};
use gtop_local::text;
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{JobId, JobOutcome};

/// Timeout for a Slurm command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the cluster cache: its file system may hang.
const FILE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the outcome of a job, and the interval between two queries of a completing one.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(4);
const OUTCOME_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Most bytes of output.
const MAX_STDOUT: usize = 1 << 16;

/// The cluster gtop runs on.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    version: OnceCell<Result<String, Fault>>,
    name: OnceCell<Option<String>>,
    state: Mutex<SshStatus>,
    /// Set once the cache was read, for all nodes.
    cache_loaded: OnceCell<()>,
}

/// The cache has no entries.
struct EmptyCache;

/// The last known answer of nodes to SSH.
#[derive(Debug, Default)]
struct SshStatus {
    /// The cache was read, or a node has accepted or refused.
    is_known: bool,
    /// When a node last refused.
    refused_at: Option<Timestamp>,
}

impl Cluster {
    /// Returns the version of Slurm, or a fault if it does not support shared steps.
    pub(crate) async fn checked_version(&self, srun: &Path) -> Result<String, Fault> {
        let checking = async {
            let version =
                stdout_of(srun, &["--version".into()]).await.ok_or_else(|| NotStarted {
                    program: srun.display().to_string(),
                    why: "it is missing, or does not print its version".to_owned(),
                })?;
            let shown = text::excerpt_line(version.trim());
            if messages::is_supported(&version) {
                return Ok(shown);
            }
            Err(Fault::job_step(StepCause::TooOld, &shown))
        };
        self.version.get_or_init(|| checking).await.clone()
    }

    /// Returns when a node of this cluster last refused SSH, if cached and not expired.
    pub(crate) async fn refused_at(&self, folder: Option<&Path>) -> Option<Timestamp> {
        let now = Clock::system().now();
        if let Some(folder) = folder {
            // An empty cache is read again next time: another gtop may fill it.
            self.cache_loaded.get_or_try_init(|| self.load_cache(folder, now)).await.ok();
        }
        self.unexpired_refusal(now)
    }

    fn unexpired_refusal(&self, now: Timestamp) -> Option<Timestamp> {
        lock(&self.state).refused_at.filter(|at| cluster_cache::is_fresh(*at, now))
    }

    async fn load_cache(&self, folder: &Path, now: Timestamp) -> Result<(), EmptyCache> {
        if lock(&self.state).is_known {
            return Ok(());
        }
        let folder = folder.to_owned();
        let read = blocking_with_timeout(move || cluster_cache::read(&folder)).await;
        let refused_at = match read.map(Option::unwrap_or_default) {
            Some(text) if text.trim().is_empty() => return Err(EmptyCache),
            // Slurm is queried only if the cache has entries.
            Some(text) => self.name().await.and_then(|name| cluster_cache::find(&text, &name, now)),
            None => None,
        };
        let mut state = lock(&self.state);
        // A node may have refused meanwhile.
        if !state.is_known {
            *state = SshStatus { is_known: true, refused_at };
        }
        Ok(())
    }

    /// Caches that this cluster refuses SSH. A failed write is only logged.
    pub(crate) async fn cache_refusal(&self, folder: Option<&Path>) {
        let now = Clock::system().now();
        // Many nodes refuse at the same time.
        if self.unexpired_refusal(now).is_none() {
            self.set_refused_at(folder, Some(now)).await;
        }
    }

    /// Sets when a node of this cluster refused SSH; `None` if nodes accept it.
    pub(crate) async fn set_refused_at(&self, folder: Option<&Path>, at: Option<Timestamp>) {
        *lock(&self.state) = SshStatus { is_known: true, refused_at: at };
        let (Some(folder), Some(name)) = (folder, self.name().await) else { return };
        let (folder, now, cluster) = (folder.to_owned(), Clock::system().now(), name.clone());
        let storing =
            blocking_with_timeout(move || cluster_cache::store(&folder, &cluster, at, now));
        if let Some(Err(error)) = storing.await {
            log::info!("cannot write the cluster cache for {name}: {error}");
        }
    }

    /// Returns the cluster name.
    pub(crate) async fn name(&self) -> Option<String> {
        let querying = async {
            let stdout =
                stdout_of(Path::new("scontrol"), &["show".into(), "config".into()]).await?;
            let line = stdout.lines().find(|line| line.starts_with("ClusterName"))?;
            let name = line.split_once('=')?.1.trim();
            let is_name = (1..=64).contains(&name.len())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
            is_name.then(|| name.to_owned())
        };
        self.name.get_or_init(|| querying).await.clone()
    }
}

/// Refines the cause of a step's end by the outcome of its job: srun reports only "cancelled" or "no such job".
pub(crate) async fn refine_fault(fault: Fault, job: &JobId) -> Fault {
    let Fault::JobStep { cause: StepCause::Cancelled | StepCause::NotRunning, message } = &fault
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
            | JobOutcome::Deadline
            | JobOutcome::Unknown,
        ) => StepCause::NotRunning,
        None => return fault,
    };
    Fault::job_step(cause, message)
}

/// Returns the outcome of a job; waits while it is completing.
async fn job_outcome(job: &JobId) -> Option<JobOutcome> {
    loop {
        let args: [OsString; 3] = ["show".into(), "job".into(), job.as_str().into()];
        let stdout = stdout_of(Path::new("scontrol"), &args).await?;
        let state = stdout.lines().find_map(|line| line.trim_start().strip_prefix("JobState="))?;
        if !state.starts_with("COMPLETING") {
            return slurm::outcome(state);
        }
        sleep(OUTCOME_POLL_INTERVAL).await;
    }
}

/// Returns the stdout of a successful command.
async fn stdout_of(program: &Path, args: &[OsString]) -> Option<String> {
    let call = ProgramCall {
        program,
        args,
        input: "",
        env: &[("LC_ALL", "C")],
        hides: |name| name.starts_with("SLURM_CLUSTERS"),
        timeout: COMMAND_TIMEOUT,
        max_stdout: MAX_STDOUT,
    };
    run_program(call).await.ok().filter(|answer| answer.succeeded).map(|answer| answer.stdout)
}

/// Runs blocking work off the sessions' thread. `None` on timeout; the work continues in the background.
async fn blocking_with_timeout<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let done = timeout(FILE_TIMEOUT, spawn_blocking(work)).await.ok().and_then(Result::ok);
    if done.is_none() {
        log::info!("the cluster cache did not respond in time");
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
    async fn a_file_system_that_hangs_blocks_no_session() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("srun-clusters");
        // Opening a FIFO blocks until there is a writer.
        let made = tokio::process::Command::new("mkfifo").arg(&path).status().await.unwrap();
        assert!(made.success());
        let (release_sender, released) = mpsc::channel();
        let release = std::thread::spawn(move || {
            let is_free = released.recv_timeout(Duration::from_secs(20)).is_ok();
            // Unblocks every reader, and lets no further one block.
            let writer = OpenOptions::new().write(true).open(&path).unwrap();
            std::fs::remove_file(path).unwrap();
            drop(writer);
            is_free
        });
        let cluster = Arc::new(Cluster::default());
        let refused_at = || {
            let (cluster, folder) = (Arc::clone(&cluster), folder.path().to_owned());
            tokio::spawn(async move { cluster.refused_at(Some(&folder)).await })
        };
        let lookups = [refused_at(), refused_at(), refused_at()];
        yield_now().await;
        assert!(lookups.iter().all(|lookup| !lookup.is_finished()));
        advance(FILE_TIMEOUT).await;
        for lookup in lookups {
            assert_eq!(lookup.await.unwrap(), None);
        }
        release_sender.send(()).ok();
        assert!(release.join().unwrap(), "the thread of the sessions was blocked");
    }
}
