//! Reports of logs that rntop or `gtop --output` wrote: a row per device and time, in CSV.
//!
//! Times are of the form `2026/11/21 01:54:06.497`, in the local zone of the node, or ISO 8601. Memory is in MiB. The log
//! does not say who holds a device: one that is not active is of unknown state.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::report::counted::CountedSums;
use crate::report::filter_check::check_filter;
use crate::report::scope::ReportScope;
use crate::report::summary::summarize;
use crate::report::{NothingMatched, ReportRequest, UsageReport};
use gtop_collect::sums::{StepGrid, SumBuilder, SumScope, TimeIntervals};
use gtop_fleet::usage::{DeviceValues, TimedMean};
use gtop_fleet::{ACTIVE_PERCENT, LastState};
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

/// Bytes of a line; a longer one is not a row.
const MAX_LINE: u64 = 4_096;
/// Nodes and devices of a log; hostile files could name any number.
const MAX_DEVICES: usize = 100_000;
/// Times between rows of a device from which the interval is found.
const MAX_GAPS: usize = 10_000;
/// Interval of a log whose devices have one row each: that of rntop.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
/// The columns of a log; it need not have those of memory.
const COLUMNS: [&str; 6] =
    ["timestamp", "node", "index", "utilization", "memory_used", "memory_total"];
/// Bytes of a MiB.
const MEBIBYTE: f64 = 1_048_576.0;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RntopLogError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// No row has a time, a node and an index.
    #[error("{0} has no rows with a time, a node and a device")]
    NoRows(String),
    /// Only a recording says who held devices.
    #[error(
        "{0} does not say who held devices, nor which models: --job, --user and --filter need a recording of gtop"
    )]
    NoHolders(String),
    /// Nothing fits the names of what counts.
    #[error(transparent)]
    NothingMatched(#[from] NothingMatched),
}

/// A row of a log.
struct LogRow {
    at: Timestamp,
    node: NodeName,
    index: u32,
    utilization: Option<f32>,
    /// In use and in total, in MiB.
    memory: Option<(f64, f64)>,
}

/// What a first look at a log finds.
#[derive(Default)]
struct LogOverview {
    span: Option<(Timestamp, Timestamp)>,
    last: BTreeMap<(NodeName, u32), Timestamp>,
    gaps: Vec<Duration>,
    rows: TimedMean,
    bad_rows: u64,
}

/// Returns true if a file begins as a log of rntop does.
pub fn is_rntop_log(path: &Path) -> bool {
    // Opening a pipe would block until there is a writer.
    let is_file = fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let file = is_file.then(|| File::open(path).ok()).flatten();
    let first = file.and_then(|file| {
        let mut line = Vec::new();
        BufReader::new(file.take(MAX_LINE)).read_until(b'\n', &mut line).ok()?;
        String::from_utf8(line).ok()
    });
    first.is_some_and(|line| LogColumns::of(&line).is_some())
}

/// Reports on logs; times without a zone are of this machine's.
pub fn report_rntop_logs(
    paths: &[PathBuf],
    options: &ReportRequest,
) -> Result<Option<UsageReport>, RntopLogError> {
    let zone = TimeZone::system();
    if let Some(path) = paths
        .first()
        .filter(|_| options.filter.names_holders() || !options.filter.matching.is_empty())
    {
        return Err(RntopLogError::NoHolders(path.display().to_string()));
    }
    let mut overview = LogOverview::default();
    for path in paths {
        overview.bad_rows += read_rows(path, &zone, |row| {
            if options.has_time(row.at) {
                let is_counted = row.utilization.is_some() && options.filter.has_node(&row.node);
                overview.rows.add(
                    f64::from(row.utilization.unwrap_or_default()),
                    f64::from(u8::from(is_counted)),
                );
                overview.add_time(row);
            }
        })?;
    }
    let Some((first, last)) = overview.span else {
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let is_whole = options.from.is_none() && options.to.is_none();
        return if is_whole { Err(RntopLogError::NoRows(names.join(", "))) } else { Ok(None) };
    };
    let interval = median(&mut overview.gaps).unwrap_or(DEFAULT_INTERVAL);
    let to = last.plus(interval);
    let spans = TimeIntervals::new(vec![(first, to)]);
    let sums = SumScope {
        from: first,
        begins: first,
        to,
        grid: StepGrid::new(first, to, overview.last.len()),
        recorded_by_file: vec![spans.clone()],
        recorded: spans,
        has_commands: false,
    };
    let scope = ReportScope { sums, filter: options.filter.clone() };
    let mut builder = SumBuilder::new(scope.sums.clone());
    for path in paths {
        read_rows(path, &zone, |row| {
            if options.has_time(row.at) {
                builder.on_row((&row.node, row.index), row.at, interval, values(row));
            }
        })?;
    }
    let sums = builder.take(to);
    let counted = CountedSums::new(&sums, &scope);
    check_filter(&scope, &counted, options.unmatched)?;
    let mut report = UsageReport {
        title: "a log of utilization and memory".to_owned(),
        kind: "rntop-log",
        span: (first, to),
        recorded: scope.sums.recorded.as_slice().to_vec(),
        row_mean: overview.rows.get(),
        ..UsageReport::default()
    };
    report.notes.push(format!(
        "the log has utilization and memory only: no users, jobs, power or faults, and a device that is not active is of unknown state; times without a zone are taken for those of this machine ({})",
        zone.iana_name().unwrap_or("local time"),
    ));
    report.notes.push(
        "rntop-board shows the mean over all rows; the mean here is weighted by the time for which each row holds"
            .to_owned(),
    );
    if overview.bad_rows > 0 {
        report.notes.push(format!("invalid rows left out: {}", overview.bad_rows));
    }
    summarize(&mut report, &counted, &scope, &mut options.names());
    Ok(Some(report))
}

impl LogOverview {
    fn add_time(&mut self, row: &LogRow) {
        let (first, end) = self.span.unwrap_or((row.at, row.at));
        self.span = Some((first.min(row.at), end.max(row.at)));
        let before = self.last.insert((row.node.clone(), row.index), row.at);
        if let Some(before) = before.filter(|before| row.at > *before)
            && self.gaps.len() < MAX_GAPS
        {
            self.gaps.push(row.at.since(before));
        }
    }
}

fn median(gaps: &mut [Duration]) -> Option<Duration> {
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied()
}

fn values(row: &LogRow) -> DeviceValues {
    let is_active = row.utilization.is_some_and(|percent| percent >= ACTIVE_PERCENT);
    DeviceValues {
        state: if is_active { LastState::Busy } else { LastState::Unknown },
        utilization: row.utilization,
        memory: row.memory.map(|(used, total)| (used * MEBIBYTE, total * MEBIBYTE)),
        power: None,
        temperature: None,
        is_throttled: false,
        is_degraded: false,
        has_processes: None,
    }
}

/// Calls `add` with each row of a file; returns the number of lines that are none.
fn read_rows(
    path: &Path,
    zone: &TimeZone,
    mut add: impl FnMut(&LogRow),
) -> Result<u64, RntopLogError> {
    let unreadable =
        |source| RntopLogError::Unreadable { path: path.display().to_string(), source };
    let mut reader = BufReader::new(File::open(path).map_err(unreadable)?);
    let (mut columns, mut bad_rows, mut line) = (None, 0, Vec::new());
    let mut devices = BTreeSet::new();
    loop {
        line.clear();
        let length = (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line);
        if length.map_err(unreadable)? == 0 {
            return Ok(bad_rows);
        }
        let text = str::from_utf8(&line).unwrap_or_default().trim();
        if text.is_empty() && !line.is_empty() && str::from_utf8(&line).is_ok() {
            continue;
        }
        // Appended logs repeat the header.
        if let Some(found) = LogColumns::of(text) {
            columns = Some(found);
            continue;
        }
        let row = columns.as_ref().and_then(|columns: &LogColumns| columns.row(text, zone));
        let row = row.filter(|row| {
            let is_known = devices.contains(&(row.node.clone(), row.index));
            if !is_known && devices.len() < MAX_DEVICES {
                devices.insert((row.node.clone(), row.index));
                return true;
            }
            is_known
        });
        match row {
            Some(row) => add(&row),
            None => bad_rows += 1,
        }
    }
}

/// Where the columns are.
struct LogColumns {
    required: [usize; 4],
    memory: Option<(usize, usize)>,
}

impl LogColumns {
    /// Returns the columns of a header; `None` if the line is not one.
    fn of(line: &str) -> Option<Self> {
        let line = line.trim_start_matches('\u{feff}').trim();
        let names: Vec<&str> = line.split(',').map(|name| name.trim_matches('"')).collect();
        let [time, node, index, utilization, used, total] =
            COLUMNS.map(|column| names.iter().position(|name| *name == column));
        let required = [time?, node?, index?, utilization?];
        Some(Self { required, memory: used.zip(total) })
    }

    fn row(&self, line: &str, zone: &TimeZone) -> Option<LogRow> {
        let cells: Vec<&str> = line.split(',').map(|cell| cell.trim().trim_matches('"')).collect();
        let [time, node, index, utilization] = self.required;
        let memory = self.memory.and_then(|(used, total)| {
            Some((parse_number(cells.get(used)?)?, parse_number(cells.get(total)?)?))
        });
        let utilization = cells.get(utilization).and_then(|cell| parse_number(cell));
        #[expect(clippy::cast_possible_truncation, reason = "a percentage needs few digits")]
        let utilization =
            utilization.filter(|percent| *percent <= 100.0).map(|percent| percent as f32);
        Some(LogRow {
            at: parse_time(cells.get(time)?, zone)?,
            node: NodeName::new(cells.get(node)?).ok()?,
            index: cells.get(index)?.parse().ok()?,
            utilization,
            memory: memory.filter(|(used, total)| used <= total),
        })
    }
}

fn parse_number(cell: &str) -> Option<f64> {
    cell.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

fn parse_time(text: &str, zone: &TimeZone) -> Option<Timestamp> {
    let with_zone = text.parse::<jiff::Timestamp>().ok();
    let at = with_zone.or_else(|| {
        let local = DateTime::strptime("%Y/%m/%d %H:%M:%S%.f", text).ok();
        let local = local.or_else(|| text.parse::<DateTime>().ok())?;
        Some(zone.to_zoned(local).ok()?.timestamp())
    })?;
    Some(Timestamp::from_micros(at.as_microsecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_times_are_read() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        for (text, expected) in [
            ("2026/11/21 02:54:06.497", Some(1_795_222_446_497_000)),
            ("2026-11-21T00:54:06.497Z", Some(1_795_222_446_497_000)),
            ("2026-11-21T02:54:06.497", Some(1_795_222_446_497_000)),
            ("21.11.2026", None),
            ("", None),
        ] {
            let found = parse_time(text, &zone).map(Timestamp::as_micros);
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn rows_with_unknown_values_are_kept_and_others_are_not() {
        let columns =
            LogColumns::of("timestamp,node,index,utilization,memory_used,memory_total").unwrap();
        let row = |line: &str| columns.row(line, &TimeZone::UTC);
        let read = row("2026/11/21 01:54:06.497,gpu02,3,99,70000,81920").unwrap();
        assert_eq!(
            (read.index, read.utilization, read.memory),
            (3, Some(99.0), Some((70_000.0, 81_920.0)))
        );
        let unknown = row("2026/11/21 01:54:06.497,gpu02,3,[N/A],1e99,81920").unwrap();
        assert_eq!((unknown.utilization, unknown.memory), (None, None));
        for line in ["", "x", "2026/11/21 01:54:06.497,gpu02", "2026/11/21 01:54:06,a b;c,0,1,2,3"]
        {
            assert!(row(line).is_none(), "{line}");
        }
    }
}
