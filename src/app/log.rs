//! `--log FILE`: writes one line per event, for diagnosis.

use std::path::Path;
use std::sync::Mutex;

use log::{LevelFilter, Log, Metadata, Record};

use gtop_local::lock::lock;
use gtop_local::storage::{LogFile, WriteError};
use gtop_local::text::sanitize;
use gtop_local::time::Clock;

/// Writes log records to a file. Of russh only warnings: its lower levels log the data it sends.
struct FileLog {
    file: Mutex<LogFile>,
    clock: Clock,
}

/// Starts logging to a file.
pub(super) fn start(path: &Path, clock: Clock) -> Result<(), WriteError> {
    let file = Mutex::new(LogFile::open(path)?);
    // Fails only if a logger is set, and this is the only one.
    if log::set_boxed_logger(Box::new(FileLog { file, clock })).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
    Ok(())
}

impl Log for FileLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_gtop = metadata.target().starts_with("gtop");
        metadata.level() <= if is_gtop { LevelFilter::Debug } else { LevelFilter::Warn }
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let at =
            jiff::Timestamp::from_microsecond(self.clock.now().as_micros()).unwrap_or_default();
        let message = sanitize(&record.args().to_string(), 1000);
        let mut file = lock(&self.file);
        file.write_line(&format!("{at:.3} {:<5} {message}", record.level()));
    }

    fn flush(&self) {}
}
