//! The older parts of a recording: their names.

use std::fs;
use std::path::{Path, PathBuf};

use gtop_local::time::Timestamp;

/// Returns the path of a part: the file's, with the time at which the part begins.
pub(super) fn part_path(path: &Path, from: Timestamp) -> PathBuf {
    let time = jiff::Timestamp::from_microsecond(from.as_micros()).unwrap_or_default();
    let mut name = path.as_os_str().to_owned();
    name.push(time.strftime(".%Y%m%dT%H%M%SZ").to_string());
    name.into()
}

/// Returns the paths of the older parts of a recording, the oldest one first.
pub(super) fn part_paths(path: &Path) -> Vec<PathBuf> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or_else(|| Path::new("."))).into_iter().flatten();
    let is_part = |found: &str| {
        let time = found.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
        time.is_some_and(|time| {
            let is_digit = |byte: &u8| byte.is_ascii_digit();
            let bytes = time.as_bytes();
            bytes.len() == 16
                && bytes.get(8) == Some(&b'T')
                && bytes.get(15) == Some(&b'Z')
                && bytes.iter().filter(|byte| is_digit(byte)).count() == 14
        })
    };
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_part))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    paths
}
