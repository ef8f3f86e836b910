//! Recordings, for a program that uses the library.

use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::api::{ApiError, Snapshot, snapshot_of, system_time};
use gtop_collect::source::replay::Recordings;
use gtop_local::time::Timestamp;

/// What `gtop record` has written: one file or several, each with its older parts.
#[derive(Debug)]
pub struct Recording(Recordings);

impl Recording {
    /// Opens files, which are read as one.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is not a recording.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, ApiError> {
        let paths: Vec<P> = paths.into_iter().collect();
        if paths.is_empty() {
            return Err(ApiError("no file given; gtop record makes one".to_owned()));
        }
        let opened = Recordings::open(paths.iter().map(AsRef::as_ref));
        opened.map(Self).map_err(|error| ApiError(error.to_string()))
    }

    /// Returns the recorded times, from and to, in rising order; between them nothing was recorded.
    pub fn spans(&self) -> Vec<(SystemTime, SystemTime)> {
        self.0.spans().into_iter().map(|(from, to)| (system_time(from), system_time(to))).collect()
    }

    /// Returns the snapshot at a time, as far as it is recorded. A node that was silent then has old values.
    pub fn snapshot_at(&self, at: SystemTime) -> Snapshot {
        let at = timestamp(at);
        snapshot_of(self.0.fleet_at(at, Duration::ZERO), at)
    }

    /// Returns snapshots this far apart, from the first recorded time to the last, without the gaps.
    pub fn snapshots(&self, every: Duration) -> impl Iterator<Item = Snapshot> {
        self.0.snapshots(every).map(|(at, fleet)| snapshot_of(fleet, at))
    }
}

fn timestamp(at: SystemTime) -> Timestamp {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
