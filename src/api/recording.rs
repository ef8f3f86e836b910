//! Recordings.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::api::{Error, Fleet, system_time};
use crate::watch::MonitorOptions;
use gtop_collect::source::replay::Recordings;
use gtop_local::time::Timestamp;

/// What `gtop record` has written: one file or several, each with its older parts.
#[derive(Debug)]
pub struct Recording {
    files: Recordings,
    title: Arc<str>,
}

impl Recording {
    /// Opens files, which are read as one.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or is not a recording.
    pub fn open<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, Error> {
        let paths: Vec<P> = paths.into_iter().collect();
        if paths.is_empty() {
            return Err(Error::NoRecording);
        }
        let files = Recordings::open(paths.iter().map(AsRef::as_ref));
        let files = files.map_err(|error| Error::Recording(error.into()))?;
        Ok(Self { title: files.title().into(), files })
    }

    /// Returns the recorded times, from and to, in rising order; between them nothing was recorded.
    pub fn spans(&self) -> Vec<(SystemTime, SystemTime)> {
        let spans = self.files.spans().into_iter();
        spans.map(|(from, to)| (system_time(from), system_time(to))).collect()
    }

    /// Returns the fleet at a time, as `gtop replay` shows it, as far as it is recorded. A node that was silent then has old
    /// values.
    pub fn fleet_at(&self, at: SystemTime) -> Arc<Fleet> {
        let at = timestamp(at);
        let fleet = self.files.fleet_at(at, MonitorOptions::default().history);
        Fleet::new(fleet, at, &self.title)
    }

    /// Returns the fleet at times this far apart, from the first recorded time to the last, without the gaps.
    pub fn fleets(&self, every: Duration) -> impl Iterator<Item = Arc<Fleet>> {
        self.files.snapshots(every).map(|(at, fleet)| Fleet::new(fleet, at, &self.title))
    }
}

fn timestamp(at: SystemTime) -> Timestamp {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
