//! `--log FILE`: what happens, line by line, for when something goes wrong.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use log::{LevelFilter, Log, Metadata, Record};

use crate::model::clean;
use crate::time::Clock;

/// Writes to one file. russh writes what it sends at its lower levels, so only its warnings count.
struct FileLog {
    file: Mutex<File>,
    clock: Clock,
}

/// Begins to log to a file, which only its owner can read.
pub(super) fn start(path: &Path, clock: Clock) -> io::Result<()> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    log::set_boxed_logger(Box::new(FileLog { file: Mutex::new(file), clock }))
        .map_err(io::Error::other)?;
    log::set_max_level(LevelFilter::Debug);
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
        // A full disk must not end the watch.
        drop(writeln!(file, "{at:.3} {:<5} {words}", record.level()));
    }

    fn flush(&self) {}
}
