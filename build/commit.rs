//! The commit of a clone.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A commit, and the files that change with it.
#[derive(Debug)]
pub(crate) struct Commit {
    /// Twelve hexadecimal digits, followed by `-modified` if tracked files differ from the commit.
    pub(crate) name: String,
    /// Files that git writes when it creates or checks out a commit.
    pub(crate) watched: Vec<PathBuf>,
}

impl Commit {
    /// Returns the commit of a clone with this root folder; `None` for a tarball or a crate, also inside the clone
    /// of another project.
    pub(crate) fn of(root: &Path) -> Option<Self> {
        #[expect(clippy::disallowed_methods, reason = "a build script has no async runtime")]
        let git = |args: &[&str]| {
            // Without this, `status` may rewrite the watched index, and the next build would start from scratch.
            let mut git = Command::new("git");
            let done =
                git.arg("--no-optional-locks").arg("-C").arg(root).args(args).output().ok()?;
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
