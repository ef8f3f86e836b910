//! The commit that a clone is at.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A commit, and the files that tell when another one is meant.
#[derive(Debug)]
pub(crate) struct Commit {
    /// Twelve digits, with `-modified` behind them where files differ from it.
    pub(crate) name: String,
    /// What git writes when another commit is checked out or made.
    pub(crate) watched: Vec<PathBuf>,
}

impl Commit {
    /// Returns the commit of the clone whose root a folder is; none for a tarball or a crate, also inside
    /// somebody's clone of something else.
    pub(crate) fn of(root: &Path) -> Option<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "what runs while gtop is built has no runtime"
        )]
        let git = |words: &[&str]| {
            // Without this, `status` may rewrite the index, which is watched: the next build would start anew.
            let mut git = Command::new("git");
            let done =
                git.arg("--no-optional-locks").arg("-C").arg(root).args(words).output().ok()?;
            let text = String::from_utf8(done.stdout).ok().filter(|_| done.status.success())?;
            Some(text.trim().to_owned())
        };
        let top = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
        if top.canonicalize().ok()? != root.canonicalize().ok()? {
            return None;
        }
        let mut name = git(&["rev-parse", "--short=12", "HEAD"])?;
        if !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty() {
            name.push_str("-modified");
        }
        let watched = ["HEAD", "logs/HEAD", "index"].iter().filter_map(|file| {
            let path = root.join(git(&["rev-parse", "--git-path", file])?);
            path.exists().then_some(path)
        });
        Some(Self { name, watched: watched.collect() })
    }
}
