//! What is known of the cluster: whether steps are safe there, and whether they are the only way in.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::transport::ask::{Asked, ask};
use crate::transport::fault::{Fault, StepCause, quote};
use crate::transport::step::words;

/// How long a program of Slurm may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Most bytes of the file, and of an answer.
const MOST: usize = 1 << 16;
/// The file with the names of clusters.
const FILE: &str = "srun-clusters";

/// The cluster gtop runs at.
#[derive(Debug, Default)]
pub(in crate::transport) struct Site {
    safety: OnceCell<Result<(), Fault>>,
    name: OnceCell<Option<String>>,
    prefers: std::sync::OnceLock<bool>,
}

impl Site {
    /// Says whether a step of ours keeps nobody waiting.
    pub(in crate::transport) async fn is_safe(&self, srun: &Path) -> Result<(), Fault> {
        let judging = async {
            let program = srun.to_string_lossy();
            let version = answer(&program, &["--version".into()]).await.ok_or_else(|| {
                let why = "no such program, or it does not say its version".to_owned();
                Fault::ProgramNotFound { program: program.to_string(), why }
            })?;
            if words::is_safe(&version) {
                return Ok(());
            }
            Err(Fault::step(StepCause::TooOld, &quote(version.trim())))
        };
        self.safety.get_or_init(|| judging).await.clone()
    }

    /// Returns whether this cluster is known to let nobody in by SSH.
    pub(in crate::transport) async fn is_only_way(&self, folder: Option<&Path>) -> bool {
        if let Some(known) = self.prefers.get() {
            return *known;
        }
        let Some(listed) =
            folder.and_then(|folder| std::fs::read_to_string(folder.join(FILE)).ok())
        else {
            return false;
        };
        let name = self.name().await;
        let found = name.is_some_and(|name| listed.lines().any(|line| line == name));
        *self.prefers.get_or_init(|| found)
    }

    /// Remembers that this cluster lets nobody in by SSH; what cannot be written is found out again.
    pub(in crate::transport) async fn remember(&self, folder: Option<&Path>) {
        let is_new = self.prefers.set(true).is_ok();
        if let (true, Some(folder), Some(name)) = (is_new, folder, self.name().await)
            && let Err(error) = add(folder, &name)
        {
            log::info!("cannot remember that {name} is reached by srun: {error}");
        }
    }

    /// Returns what the cluster is called.
    async fn name(&self) -> Option<String> {
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

/// Adds a name to the list: a new file takes the place of the old one.
fn add(folder: &Path, name: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let path: PathBuf = folder.join(FILE);
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let kept = known.lines().filter(|line| *line != name).take(MOST / 64);
    let mut text: String = kept.flat_map(|line| [line, "\n"]).collect();
    text.push_str(name);
    text.push('\n');
    let draft = folder.join(format!("{FILE}.{}", std::process::id()));
    let written =
        std::fs::File::create(&draft).and_then(|mut file| file.write_all(text.as_bytes()));
    let moved = written.and_then(|()| std::fs::rename(&draft, &path));
    if moved.is_err() {
        // It may never have been made.
        std::fs::remove_file(&draft).ok();
    }
    moved
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_remembered_once_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state/gtop");
        for name in ["one", "two", "one"] {
            add(&state, name).unwrap();
        }
        assert_eq!(std::fs::read_to_string(state.join(FILE)).unwrap(), "two\none\n");
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(add(&file.join("gtop"), "one").is_err());
    }
}
