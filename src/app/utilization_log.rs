//! `--output FILE`: appends the utilization of every device to a file, on its own thread, so that a slow disk never
//! blocks the screen.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::app::env::Env;
use crate::app::privacy::Privacy;
use crate::export::{RNTOP_HEADER, RntopLog};
use crate::setting_table::OutputSettings;
use crate::watch::{DISK_TIMEOUT, Monitor, WorkThread, is_complete};
use gtop_collect::collect::CollectorConfig;
use gtop_fleet::FleetReader;
use gtop_local::storage::{LineFile, WriteError};
use gtop_local::time::Clock;

/// Opens the file of `--output`, so that a bad path is an error at the start.
pub(super) fn open(path: &Path) -> Result<LineFile, WriteError> {
    LineFile::open(path, RNTOP_HEADER)
}

/// The running log.
pub(super) struct UtilizationLog(WorkThread<()>);

/// What the thread of the log works on.
struct LogTask {
    file: LineFile,
    /// What was logged; `None` before the first refresh.
    logged: Option<RntopLog>,
    fleet: FleetReader,
    clock: Clock,
    privacy: Privacy,
    zone: TimeZone,
    /// Takes the first of consecutive errors.
    notices: mpsc::Sender<String>,
    has_failed: bool,
}

impl UtilizationLog {
    /// Starts logging; errors are sent to `notices`.
    pub(super) fn start(
        env: &Env,
        monitor: &Monitor,
        file: LineFile,
        notices: mpsc::Sender<String>,
    ) -> io::Result<Self> {
        let mut task = LogTask {
            file,
            logged: None,
            fleet: monitor.fleet(),
            clock: env.clock.clone(),
            privacy: env.privacy.clone(),
            zone: TimeZone::system(),
            notices,
            has_failed: false,
        };
        let (config, deadline) = (monitor.config(), env.settings.read::<OutputSettings>().deadline);
        let every = env.cli.output.output_every;
        let worker = WorkThread::start("output", move |runtime, stopped| {
            runtime.block_on(async {
                tokio::select! {
                    () = task.run(config, every, deadline) => {}
                    // An error means that the watch has ended, too.
                    _stopped = stopped => {}
                }
            });
            if task.logged.is_none() {
                task.log_refresh();
            }
        });
        worker.map(Self)
    }

    /// Ends the log; a watch that was too short for the first refresh still logs it.
    pub(super) fn finish(self) {
        self.0.finish(DISK_TIMEOUT);
    }
}

impl LogTask {
    /// Logs the first complete refresh, and then every so many, until dropped.
    async fn run(
        &mut self,
        mut config: watch::Receiver<CollectorConfig>,
        every: u32,
        deadline: Duration,
    ) {
        // An error means that the publisher has stopped: log what there is.
        drop(timeout(deadline, self.fleet.wait_for(is_complete)).await);
        loop {
            let last = Instant::now();
            self.log_refresh();
            loop {
                let period = config.borrow_and_update().interval.saturating_mul(every);
                tokio::select! {
                    () = sleep_until(last + period) => break,
                    // The interval may have changed.
                    changed = config.changed() => if changed.is_err() { return },
                }
            }
        }
    }

    /// Appends the rows of the current refresh. If that fails, the next one tries again.
    fn log_refresh(&mut self) {
        let fleet = self.privacy.apply(self.fleet.borrow().clone());
        let logged = self.logged.get_or_insert_default();
        let (rows, next) = logged.next(&fleet, self.clock.now(), &self.zone);
        if rows.is_empty() {
            *logged = next;
            return;
        }
        match self.file.append(&rows) {
            Ok(()) => {
                *logged = next;
                self.has_failed = false;
            }
            Err(error) => {
                log::warn!("{error}");
                if !std::mem::replace(&mut self.has_failed, true) {
                    // A full queue means that the reader is busy; the log has the message.
                    self.notices
                        .try_send(format!("{error}; rows are missing until it works again"))
                        .ok();
                }
            }
        }
    }
}

/// Prints notices as they come; never ends.
pub(super) async fn print_notices<T>(
    notices: &mut mpsc::Receiver<String>,
    err: &mut impl Write,
) -> T {
    while let Some(notice) = notices.recv().await {
        // Standard error may be closed.
        writeln!(err, "gtop: {notice}").ok();
    }
    std::future::pending().await
}
