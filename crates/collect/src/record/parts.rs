//! The older parts of a recording: their names.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use gtop_local::time::Timestamp;

/// The time at the end of a part's name.
const TIME_FORMAT: &str = "%Y%m%dT%H%M%SZ";

/// Returns the path of a part: the file's, with the time at which the part begins.
pub(super) fn part_path(path: &Path, from: Timestamp) -> PathBuf {
    let time = jiff::Timestamp::from_microsecond(from.as_micros()).unwrap_or_default();
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", time.strftime(TIME_FORMAT)));
    name.into()
}

/// Returns when a part begins, as its name says.
pub(super) fn begin_of(part: &Path) -> Option<Timestamp> {
    let name = part.file_name()?.to_str()?;
    let (_, time) = name.rsplit_once('.')?;
    let begin = DateTime::strptime(TIME_FORMAT, time).ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(Timestamp::from_micros(begin.timestamp().as_microsecond()))
}

/// Returns the paths of the older parts of a recording, the oldest one first.
pub(super) fn part_paths(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or_else(|| Path::new("."))).into_iter().flatten();
    let parts = entries.flatten().filter(|entry| {
        let found = entry.file_name();
        let time = found.to_str().and_then(|found| found.strip_prefix(name)?.strip_prefix('.'));
        time.is_some_and(|time| time.len() == 16 && begin_of(&entry.path()).is_some())
    });
    let mut paths: Vec<PathBuf> = parts.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
