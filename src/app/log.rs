//! `--log FILE`: what happens, line by line, for when something goes wrong.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};

use crate::model::clean;
use crate::storage::{LogFile, WriteError};
use crate::time::Clock;

/// Writes to one file. russh writes what it sends at its lower levels, so only its warnings count.
struct FileLog {
    file: Mutex<LogFile>,
    clock: Clock,
}

/// Begins to log to a file.
pub(super) fn start(path: &Path, clock: Clock) -> Result<(), WriteError> {
    let file = Mutex::new(LogFile::open(path)?);
    // There is no other logger in this program.
    if log::set_boxed_logger(Box::new(FileLog { file, clock })).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
    Ok(())
}

impl Log for FileLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let own = metadata.target().starts_with("gtop");
        metadata.level() <= if own { LevelFilter::Debug } else { LevelFilter::Warn }
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let at =
            jiff::Timestamp::from_microsecond(self.clock.now().as_micros()).unwrap_or_default();
        let words = clean(&record.args().to_string(), 1000);
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.add(&format!("{at:.3} {:<5} {words}", record.level()));
    }

    fn flush(&self) {}
}
