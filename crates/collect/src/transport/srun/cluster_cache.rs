//! A cache of the clusters that refuse SSH: a file with the name of a cluster and the Unix time of its last refusal
//! per line. Entries expire after 30 days.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use gtop_local::storage::{self, NewFile};
use gtop_local::time::Timestamp;

/// How long an entry is valid.
pub const CLUSTER_CACHE_TTL: Duration = Duration::from_secs(30 * 24 * 3600);
const MAX_FILE_SIZE: u64 = 1 << 16;
const MAX_CLUSTERS: usize = 500;
const FILE_NAME: &str = "srun-clusters";
const FILE_MODES: NewFile = NewFile { mode: 0o644, folder_mode: 0o755 };

/// Returns when a cluster last refused SSH, by the text of the cache.
pub(crate) fn find(text: &str, name: &str, now: Timestamp) -> Option<Timestamp> {
    let mut found = text.lines().filter_map(entry).filter(|(known, _)| *known == name);
    let (_, at) = found.next_back()?;
    is_fresh(at, now).then_some(at)
}

/// Returns true if an entry is valid; one in the future is not.
pub(crate) fn is_fresh(at: Timestamp, now: Timestamp) -> bool {
    at <= now && now.since(at) < CLUSTER_CACHE_TTL
}

/// Stores or removes the entry of a cluster. Replaces the file; drops expired and invalid lines.
pub(crate) fn store(
    folder: &Path,
    name: &str,
    at: Option<Timestamp>,
    now: Timestamp,
) -> std::io::Result<()> {
    storage::edit(&folder.join(FILE_NAME), FILE_MODES, |known| {
        let known = String::from_utf8_lossy(known);
        let others = known.lines().filter_map(entry);
        let others = others.filter(|(other, at)| *other != name && is_fresh(*at, now));
        let entries = others.take(MAX_CLUSTERS).chain(at.map(|at| (name, at)));
        let lines = entries.map(|(name, at)| format!("{name} {}\n", at.as_micros() / 1_000_000));
        Some(lines.collect::<String>().into_bytes())
    })?;
    Ok(())
}

/// Returns the text of the cache, `None` if it cannot be read.
pub(crate) fn read(folder: &Path) -> Option<String> {
    let mut text = String::new();
    let file = std::fs::File::open(folder.join(FILE_NAME)).ok()?;
    file.take(MAX_FILE_SIZE).read_to_string(&mut text).ok()?;
    Some(text)
}

fn entry(line: &str) -> Option<(&str, Timestamp)> {
    let (name, seconds) = line.split_once(' ')?;
    let micros = seconds.parse::<i64>().ok()?.checked_mul(1_000_000)?;
    Some((name, Timestamp::from_micros(micros)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn now() -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000)
    }

    fn load(folder: &Path, name: &str, now: Timestamp) -> Option<Timestamp> {
        find(&read(folder)?, name, now)
    }

    #[test]
    fn a_cluster_is_cached_once_for_a_month_beside_others() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state/gtop");
        assert_eq!(read(&state), None);
        for name in ["one", "two", "one"] {
            store(&state, name, Some(now()), now()).unwrap();
        }
        let text = std::fs::read_to_string(state.join(FILE_NAME)).unwrap();
        assert_eq!(text, "two 1800000000\none 1800000000\n");
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1);
        assert_eq!(load(&state, "one", now().plus(DAY * 29)), Some(now()));
        assert_eq!(load(&state, "one", now().plus(DAY * 30)), None);
        assert_eq!(load(&state, "one", now().minus(DAY)), None, "a clock that was wrong");
        assert_eq!(load(&state, "three", now()), None);
        store(&state, "one", None, now()).unwrap();
        assert_eq!(load(&state, "one", now()), None);
        assert_eq!(load(&state, "two", now()), Some(now()));
        store(&state, "three", Some(now().plus(DAY * 40)), now().plus(DAY * 40)).unwrap();
        let text = std::fs::read_to_string(state.join(FILE_NAME)).unwrap();
        assert_eq!(text, "three 1803456000\n", "expired entries are removed");
    }

    #[test]
    fn invalid_lines_are_ignored_and_write_errors_returned() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE_NAME);
        for text in ["one\n", "one x\n", "one -5\n", "one 99999999999999999999\n", "\u{1b} 1 2\n\n"]
        {
            std::fs::write(&file, text).unwrap();
            assert_eq!(load(folder.path(), "one", now()), None, "{text}");
        }
        std::fs::write(&file, "x".repeat(1 << 20)).unwrap();
        assert_eq!(load(folder.path(), "one", now()), None);
        store(folder.path(), "one", Some(now()), now()).unwrap();
        assert_eq!(load(folder.path(), "one", now()), Some(now()));
        assert!(store(&file.join("gtop"), "one", Some(now()), now()).is_err());
    }
}
