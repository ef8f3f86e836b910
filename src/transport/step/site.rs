//! What is known of the cluster: whether steps are safe there, and whether they are the only way in.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::time::{Clock, Timestamp};
use crate::transport::ask::{Asked, ask};
use crate::transport::fault::{Fault, StepCause, quote};
use crate::transport::files::lock;
use crate::transport::step::{memory, words};

/// How long a program of Slurm may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Most bytes of an answer.
const MOST: usize = 1 << 16;

/// The cluster gtop runs at.
#[derive(Debug, Default)]
pub(in crate::transport) struct Site {
    version: OnceCell<Result<String, Fault>>,
    name: OnceCell<Option<String>>,
    standing: Mutex<Standing>,
}

/// Whether nodes take SSH, as far as that is known.
#[derive(Debug, Clone, Copy, Default)]
enum Standing {
    /// It was not looked up yet.
    #[default]
    Unread,
    /// Nothing says that they refuse it.
    Open,
    /// A node refused it then.
    Refused(Timestamp),
}

impl Standing {
    const fn new(refused_at: Option<Timestamp>) -> Self {
        match refused_at {
            Some(at) => Self::Refused(at),
            None => Self::Open,
        }
    }

    /// Returns when a node refused it, if that counts still.
    fn refused_at(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Refused(at) => memory::is_kept(at, now).then_some(at),
            Self::Unread | Self::Open => None,
        }
    }
}

impl Site {
    /// Returns which Slurm this is, when a step of ours keeps nobody waiting there.
    pub(in crate::transport) async fn safe_version(&self, srun: &Path) -> Result<String, Fault> {
        let judging = async {
            let program = srun.to_string_lossy();
            let version = answer(&program, &["--version".into()]).await.ok_or_else(|| {
                let why = "no such program, or it does not say its version".to_owned();
                Fault::ProgramNotFound { program: program.to_string(), why }
            })?;
            let shown = quote(version.trim());
            if words::is_safe(&version) {
                return Ok(shown);
            }
            Err(Fault::step(StepCause::TooOld, &shown))
        };
        self.version.get_or_init(|| judging).await.clone()
    }

    /// Returns whether this cluster is known to let nobody in by SSH.
    pub(in crate::transport) async fn is_only_way(&self, folder: Option<&Path>) -> bool {
        self.refused_at(folder).await.is_some()
    }

    /// Returns when a node of this cluster last refused SSH, if that is remembered and not long ago.
    pub(in crate::transport) async fn refused_at(
        &self,
        folder: Option<&Path>,
    ) -> Option<Timestamp> {
        let now = Clock::system().now();
        let known = *lock(&self.standing);
        if !matches!(known, Standing::Unread) {
            return known.refused_at(now);
        }
        let folder = folder.filter(|folder| !memory::is_empty(folder))?;
        // Slurm is asked only where something is remembered.
        let name = self.name().await;
        let found = name.and_then(|name| memory::recall(folder, &name, now));
        let mut standing = lock(&self.standing);
        // A node may have refused it meanwhile.
        if matches!(*standing, Standing::Unread) {
            *standing = Standing::new(found);
        }
        standing.refused_at(now)
    }

    /// Remembers that this cluster lets nobody in by SSH; what cannot be written is found out again.
    pub(in crate::transport) async fn remember(&self, folder: Option<&Path>) {
        let now = Clock::system().now();
        let known = lock(&self.standing).refused_at(now);
        // Many nodes find it out at the same time.
        if known.is_none() {
            self.note(folder, Some(now)).await;
        }
    }

    /// Takes note of when a node of this cluster refused SSH, or that nodes do not.
    pub(in crate::transport) async fn note(&self, folder: Option<&Path>, at: Option<Timestamp>) {
        *lock(&self.standing) = Standing::new(at);
        if let (Some(folder), Some(name)) = (folder, self.name().await)
            && let Err(error) = memory::keep(folder, &name, at, Clock::system().now())
        {
            log::info!("cannot remember how {name} is reached: {error}");
        }
    }

    /// Returns what the cluster is called.
    pub(in crate::transport) async fn name(&self) -> Option<String> {
        let asking = async {
            let told = answer("scontrol", &["show".into(), "config".into()]).await?;
            let line = told.lines().find(|line| line.starts_with("ClusterName"))?;
            let name = line.split_once('=')?.1.trim();
            let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            (!name.is_empty() && name.len() <= 64 && name.chars().all(is_name))
                .then(|| name.to_owned())
        };
        self.name.get_or_init(|| asking).await.clone()
    }
}

/// Returns what a program prints when it succeeds.
async fn answer(program: &str, words: &[OsString]) -> Option<String> {
    let asked = Asked {
        program,
        words,
        input: "",
        environment: &[],
        without: "SLURM_CLUSTERS",
        limit: LIMIT,
        most: MOST,
    };
    ask(asked).await.ok().filter(|answer| answer.succeeded).map(|answer| answer.output)
}
