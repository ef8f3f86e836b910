//! The CSV files of `gtop runs`, written on a thread of their own, so that a slow disk never blocks the screen.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::app::CommandError;
use crate::app::runs::RunsReader;
use crate::app::tmux_windows::plain_letter;
use crate::cli::RunCsvFormat;
use crate::export::{RunMatrix, RunStatistics, TTOP_HEADER, TtopTotals, ttop_file_time, ttop_line};
use crate::watch::{DISK_TIMEOUT, WorkThread};
use gtop_fleet::insight::runs::{RunRow, Runs};
use gtop_local::storage::{self, AppendError, AppendFile, LineFile, NewFile, WriteError};
use gtop_local::time::Timestamp;
use gtop_model::{RunId, RunStatus};

/// The first rows wait for the first answers.
const FIRST_ROWS_AFTER: Duration = Duration::from_millis(1500);
/// Statistics of running runs are written this often; those of a run that ends at once.
const STATISTICS_INTERVAL: Duration = Duration::from_secs(60);

/// Files of other programs are not touched: this many other names are tried.
const MAX_NAMES: u32 = 20;
const MODES: NewFile = NewFile { mode: 0o644, folder_mode: 0o755 };

/// The running writer.
pub(super) struct CsvWriter(WorkThread<Option<String>>);

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub(in crate::app) enum CsvError {
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("{0}: {1}")]
    Io(String, io::Error),
    #[error("cannot start to write CSV files: {0}")]
    Start(#[from] io::Error),
    #[error("{0} and {MAX_NAMES} other names are taken by other files; choose another --csv-dir")]
    NoName(String),
}

impl CommandError for CsvError {}

impl CsvWriter {
    /// Starts to write into a folder; the first of consecutive errors is sent to `notices`. A folder that cannot be
    /// written is an error at the start.
    pub(super) fn start(
        folder: PathBuf,
        format: RunCsvFormat,
        view: RunsReader,
        every: Duration,
        notices: mpsc::Sender<String>,
    ) -> Result<Self, CsvError> {
        let mut files = CsvFiles::new(folder, format, view.now())?;
        let mut has_failed = false;
        let worker = WorkThread::start("csv", move |runtime, mut stopped| {
            runtime.block_on(async {
                let mut ticks = interval_at(Instant::now() + FIRST_ROWS_AFTER, every);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    tokio::select! {
                        // An error means that gtop ends, too.
                        _ = &mut stopped => break,
                        _ = ticks.tick() => {}
                    }
                    let written = files.write(&view.read(), view.now());
                    let error = written.err().map(|error| error.to_string());
                    if let Some(error) = error.filter(|_| !has_failed) {
                        // Full if an earlier notice is not shown yet.
                        notices.try_send(error).ok();
                        has_failed = true;
                    } else {
                        has_failed = false;
                    }
                }
            });
            files.finish(&view.read(), view.now()).err().map(|error| error.to_string())
        });
        Ok(Self(worker?))
    }

    /// Writes the last rows; returns an error that kept them from being written.
    pub(super) fn finish(self) -> Option<String> {
        self.0.finish(DISK_TIMEOUT).unwrap_or_else(|| {
            Some("the last rows of CSV files may be missing: the disk is slow".to_owned())
        })
    }
}

/// The files, in either format.
enum CsvFiles {
    Runs { folder: PathBuf, files: BTreeMap<RunId, RunFiles>, statistics_at: Option<Timestamp> },
    Ttop { folder: PathBuf, file: Box<AppendFile>, started_at: Timestamp },
}

/// The two files of a run.
struct RunFiles {
    matrix: RunMatrix,
    matrix_file: LineFile,
    statistics: RunStatistics,
    overall: PathBuf,
    /// The status in the statistics that were written last.
    written: Option<RunStatus>,
}

impl CsvFiles {
    fn new(folder: PathBuf, format: RunCsvFormat, now: Timestamp) -> Result<Self, CsvError> {
        match format {
            RunCsvFormat::Runs => {
                Ok(Self::Runs { folder, files: BTreeMap::new(), statistics_at: None })
            }
            RunCsvFormat::Ttop => {
                let name = ttop_file_time(now, &TimeZone::system());
                let file = free_name(&folder, &name, "", |path| {
                    let file = AppendFile::open(path, MODES)?;
                    Ok((file.length() == 0).then_some(file))
                })?;
                let mut file = Box::new(file);
                append(&mut file, TTOP_HEADER)?;
                Ok(Self::Ttop { folder, file, started_at: now })
            }
        }
    }

    /// Writes a row of each run.
    fn write(&mut self, runs: &Runs, now: Timestamp) -> Result<(), CsvError> {
        match self {
            Self::Ttop { file, .. } => append(file, &ttop_lines(runs, now)),
            Self::Runs { folder, files, statistics_at } => {
                let is_due = statistics_at.is_none_or(|at| now.since(at) >= STATISTICS_INTERVAL);
                let mut first_error = None;
                for row in &runs.rows {
                    let written = write_run(folder, files, row, now, is_due);
                    first_error = first_error.or(written.err());
                }
                if is_due {
                    *statistics_at = Some(now);
                }
                first_error.map_or(Ok(()), Err)
            }
        }
    }

    /// Writes the last rows and the statistics; ttop's file gets its final name.
    fn finish(&mut self, runs: &Runs, now: Timestamp) -> Result<(), CsvError> {
        if let Self::Runs { statistics_at, .. } = self {
            *statistics_at = None;
        }
        let written = self.write(runs, now);
        if let Self::Ttop { folder, file, started_at } = self {
            let zone = TimeZone::system();
            let [from, to] = [*started_at, now].map(|at| ttop_file_time(at, &zone));
            let name = format!("{from}_{to}.csv");
            let renamed = file.rename(&folder.join(&name));
            renamed.map_err(|error| CsvError::Io(name, error))?;
        }
        written
    }
}

fn append(file: &mut AppendFile, text: &str) -> Result<(), CsvError> {
    let path = file.path().display().to_string();
    file.append(text.as_bytes()).map_err(|error| CsvError::Io(path, error))
}

fn ttop_lines(runs: &Runs, now: Timestamp) -> String {
    let gpu = runs.device_memory();
    let totals = TtopTotals::new(runs.user_resources(), gpu, runs.list.limits);
    let zone = TimeZone::system();
    if runs.rows.is_empty() {
        return ttop_line(None, &totals, now, &zone);
    }
    runs.rows.iter().map(|row| ttop_line(Some(row), &totals, now, &zone)).collect()
}

fn write_run(
    folder: &Path,
    files: &mut BTreeMap<RunId, RunFiles>,
    row: &RunRow,
    now: Timestamp,
    is_due: bool,
) -> Result<(), CsvError> {
    if row.run.progress.is_none() {
        return Ok(());
    }
    let id = &row.run.id;
    if !files.contains_key(id) {
        let used: Vec<&Path> = files.values().map(|run| run.overall.as_path()).collect();
        let new = RunFiles::open(folder, row, &used)?;
        files.insert(id.clone(), new);
    }
    let Some(run) = files.get_mut(id) else { return Ok(()) };
    run.statistics.add(row);
    let has_ended = row.status != RunStatus::Running;
    // A run that is over changes no more: its last row is written once.
    if has_ended && run.written == Some(row.status) {
        return Ok(());
    }
    run.matrix_file.append(&run.matrix.line(row, now))?;
    if is_due || has_ended {
        let text = run.statistics.file(row);
        storage::write(&run.overall, text.as_bytes(), MODES)?;
        run.written = Some(row.status);
    }
    Ok(())
}

impl RunFiles {
    /// Opens the files of a run; those of another run of the same name are `used`.
    fn open(folder: &Path, row: &RunRow, used: &[&Path]) -> Result<Self, CsvError> {
        let wanted = file_name(&row.run.id.name);
        let others = (2..=MAX_NAMES).map(|number| format!("{wanted}-{number}"));
        let mut names = std::iter::once(wanted.clone()).chain(others);
        let unused =
            names.find(|name| !used.contains(&&*folder.join(format!("{name}_overall.csv"))));
        let name = unused.unwrap_or(wanted);
        let matrix = RunMatrix::new(row);
        let header = matrix.header();
        let matrix_file = free_name(folder, &name, "_matrix", |path| {
            storage::create(path, b"", MODES)?;
            let file = LineFile::open(path, header.as_str())?;
            Ok(file.has_header()?.then_some(file))
        })?;
        let overall = free_name(folder, &name, "_overall", |path| {
            let is_ours = match storage::read(path, 1 << 20) {
                Ok(Some(content)) => content.is_empty() || RunStatistics::is_own(&content),
                Ok(None) => false,
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            };
            Ok(is_ours.then(|| path.to_owned()))
        })?;
        let statistics = RunStatistics::default();
        Ok(Self { matrix, matrix_file, statistics, overall, written: None })
    }
}

/// Returns what `open` makes of the first name that is free: `NAME.csv`, `NAME-2.csv` and so on.
fn free_name<T>(
    folder: &Path,
    name: &str,
    kind: &str,
    open: impl Fn(&Path) -> Result<Option<T>, CsvError>,
) -> Result<T, CsvError> {
    for number in 1..=MAX_NAMES {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        if let Some(found) = open(&folder.join(format!("{name}{kind}{suffix}.csv")))? {
            return Ok(found);
        }
    }
    Err(CsvError::NoName(folder.join(format!("{name}{kind}.csv")).display().to_string()))
}

/// Returns a name of a run as a file name: letters, digits and `._-`.
fn file_name(name: &str) -> String {
    let name: String = name.chars().map(plain_letter).take(100).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "run".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_fleet::Fleet;
    use gtop_model::{MetricValue, NodeName, Progress, Run, RunFolder, RunList, RunVariables};
    use std::sync::Arc;

    /// Returns a run of a folder, of this name and with this status.
    fn runs(of: &[(&str, &str, RunStatus)], now: Timestamp) -> Runs {
        let run = |(label, name, status): &(&str, &str, RunStatus)| {
            let loss = Some(MetricValue::Number(0.5));
            let progress =
                Progress { status: Some(*status), batch: Some(3), loss, ..Progress::default() };
            Arc::new(Run {
                id: RunId { folder: (*label).into(), name: (*name).into() },
                is_flat: false,
                uid: None,
                user: None,
                progress: Some(Arc::new(progress)),
                written_at: Some(now),
                fault: None,
                advanced_at: None,
                seen_rate: None,
                variables: RunVariables::default(),
            })
        };
        let folders = vec![RunFolder {
            label: "a".into(),
            node: NodeName::new("gpu01").unwrap(),
            total: of.len(),
            is_polled: false,
            fault: None,
            answered_at: None,
            clock_offset: 0,
        }];
        let list = RunList { folders, runs: of.iter().map(run).collect(), ..RunList::default() };
        Runs::new(Arc::new(list), &Fleet::default(), now)
    }

    fn lines(path: &Path) -> usize {
        std::fs::read_to_string(path).unwrap().lines().count()
    }

    #[test]
    fn a_run_that_is_over_gets_its_last_row_once() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().to_owned();
        let now = |second: i64| Timestamp::from_micros(second * 1_000_000);
        let mut files = CsvFiles::new(folder.clone(), RunCsvFormat::Runs, now(0)).unwrap();
        let status = [RunStatus::Running, RunStatus::Running, RunStatus::Failed, RunStatus::Failed];
        for (second, status) in (0..).zip(status) {
            files.write(&runs(&[("a", "x", status)], now(second)), now(second)).unwrap();
        }
        // The header, two rows while it ran, and the last one.
        assert_eq!(lines(&folder.join("x_matrix.csv")), 4);
        let overall = std::fs::read_to_string(folder.join("x_overall.csv")).unwrap();
        assert!(overall.lines().nth(1).unwrap().contains(",FAILED,"), "{overall}");
    }

    #[test]
    fn runs_of_one_name_and_files_of_others_are_kept_apart() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().to_owned();
        std::fs::write(folder.join("y_matrix.csv"), "mine\n").unwrap();
        let now = Timestamp::from_micros(1_000_000);
        let mut files = CsvFiles::new(folder.clone(), RunCsvFormat::Runs, now).unwrap();
        let of = [
            ("a", "x", RunStatus::Running),
            ("b", "x", RunStatus::Running),
            ("a", "y", RunStatus::Running),
        ];
        files.write(&runs(&of, now), now).unwrap();
        for name in ["x_matrix.csv", "x-2_matrix.csv", "y_matrix-2.csv"] {
            assert_eq!(lines(&folder.join(name)), 2, "{name}");
        }
        assert_eq!(std::fs::read_to_string(folder.join("y_matrix.csv")).unwrap(), "mine\n");
    }

    #[test]
    fn a_name_of_a_run_leads_nowhere_else() {
        for (name, expected) in [
            ("run_1.a-b", "run_1.a-b"),
            ("../../etc/passwd", "_.._etc_passwd"),
            ("..", "run"),
            (".hidden", "hidden"),
            ("a b\u{1b}", "a_b_"),
            ("日本", "日本"),
        ] {
            assert_eq!(file_name(name), expected);
        }
        assert_eq!(file_name(&"x".repeat(500)).len(), 100);
    }
}
