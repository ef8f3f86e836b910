//! The commit that `gtop -V` shows for a build from a clone, with real git.

#[path = "../build/commit.rs"]
mod build;

use std::fs;
use std::path::Path;
use std::process::Command;

use build::Commit;

fn git(folder: &Path, args: &[&str]) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(["-c", "user.name=ada", "-c", "user.email=ada@example.org"]);
    let done = git.args(args).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_clone_has_a_commit_and_a_tarball_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    assert!(Commit::of(root).is_none());
    git(root, &["init", "-q"]);
    assert!(Commit::of(root).is_none(), "nothing is committed yet");
    fs::create_dir(root.join("vendored")).unwrap();
    fs::write(root.join("file"), "one").unwrap();
    git(root, &["add", "file"]);
    git(root, &["commit", "-q", "-m", "one"]);
    let commit = Commit::of(root).unwrap();
    assert_eq!(commit.name, git(root, &["rev-parse", "--short=12", "HEAD"]));
    assert!(commit.watched.len() >= 2, "{commit:?}");
    fs::write(root.join("file"), "two").unwrap();
    assert_eq!(Commit::of(root).unwrap().name, format!("{}-modified", commit.name));
    // A crate inside another project's clone does not get that clone's commit.
    assert!(Commit::of(&root.join("vendored")).is_none());
}
