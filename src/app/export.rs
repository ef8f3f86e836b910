//! `gtop export`: writes the samples of recordings as a table.

use std::io::{self, IsTerminal as _, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::app::times::{SpanError, parse_span, span_texts};
use crate::app::{AppError, CommandError, ExitReason, written_file};
use crate::cli::ExportOptions;
use crate::export::{SampleTable, SampleWriter, sample_fields};
use gtop_collect::source::replay::{LostLines, Recordings};
use gtop_fleet::Anonymizer;
use gtop_local::storage::StreamFile;
use gtop_ui::StopSignals;

/// A table has names of users: only its owner reads it, until they change that.
const MODE: u32 = 0o600;

/// Samples that were taken before the end arrive until then.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// Why the table is not written.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    #[error(
        "Parquet is not built in (feature parquet); write ndjson and convert it: duckdb -c \"COPY (FROM read_json('a.ndjson', sample_size = -1)) TO 'a.parquet'\""
    )]
    NoParquet,
    #[error("Parquet is not text; write it to a file with -w, or to a pipe")]
    ParquetOnTerminal,
    #[error("times in Parquet are no texts; leave out --spreadsheet")]
    ParquetTimes,
    #[error(
        "{0} would not be compressed; write to a file without .{1}, or to a pipe: gtop export … | gzip > a.csv.gz"
    )]
    Compressed(String, String),
    #[error("--fields: {0}")]
    NoField(String),
    #[error("cannot write {0}: {1}")]
    Table(String, io::Error),
}

impl CommandError for ExportError {
    fn exit_code(&self) -> u8 {
        if matches!(self, Self::Table(..)) { 1 } else { 2 }
    }
}

/// Writes the table.
pub(super) fn run(
    options: &ExportOptions,
    out: &mut impl Write,
    err: &mut impl Write,
) -> Result<ExitReason, AppError> {
    let format = options.format().ok_or(ExportError::NoParquet)?;
    if let Some((path, extension)) = options.compressed() {
        return Err(ExportError::Compressed(path.display().to_string(), extension).into());
    }
    if !format.is_text() && options.spreadsheet {
        return Err(ExportError::ParquetTimes.into());
    }
    if !format.is_text() && options.write.is_none() && io::stdout().is_terminal() {
        return Err(ExportError::ParquetOnTerminal.into());
    }
    let fields = sample_fields(&options.fields).map_err(ExportError::NoField)?;
    written_file::check(options.write.as_deref(), &options.files)?;
    // While it listens, a signal ends the work in order.
    let _signals = StopSignals::new();
    let recordings = Recordings::open(options.files.iter().map(PathBuf::as_path))?;
    let recorded = recordings.spans();
    let (Some((first, _)), Some((_, last))) = (recorded.first(), recorded.last()) else {
        return Err(SpanError::nothing_in(&options.files).into());
    };
    let (from, to) = parse_span(&options.span, *last, &recorded)?;
    let (from, to) = (from.unwrap_or(*first), to.unwrap_or(*last));
    if !recorded.iter().any(|(first, last)| *first <= to && *last >= from) {
        return Err(SpanError::NothingInSpan(span_texts(&recorded)).into());
    }
    if let Some(loss) = recordings.loss() {
        writeln!(err, "gtop: {loss}")?;
    }
    let table = SampleTable {
        format,
        is_wide: options.wide,
        fields,
        every: options.every.unwrap_or_default(),
        span: (from, to),
        recorded,
        zone: options.spreadsheet.then(TimeZone::system),
        anonymizer: options.anonymize.then(Anonymizer::default),
    };
    let Some(path) = &options.write else {
        let (_, _, missing) = write_table(&recordings, table, out)?;
        print_missing(&missing, err)?;
        return Ok(ExitReason::Done);
    };
    let file = StreamFile::begin(path, MODE, options.force)?;
    let (file, rows, missing) = match write_table(&recordings, table, file) {
        Ok(written) => written,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error.into()),
        Err(error) => return Err(ExportError::Table(path.display().to_string(), error).into()),
    };
    file.commit()?;
    print_missing(&missing, err)?;
    writeln!(err, "gtop: {} has {rows} rows", path.display())?;
    Ok(ExitReason::Done)
}

fn print_missing(missing: &LostLines, err: &mut impl Write) -> io::Result<()> {
    missing.text().map_or(Ok(()), |text| writeln!(err, "gtop: {text}"))
}

/// Writes the rows; returns the output, their number, and what could not be read.
fn write_table<W: Write>(
    recordings: &Recordings,
    table: SampleTable,
    out: W,
) -> io::Result<(W, u64, LostLines)> {
    let (from, to) = table.span;
    let mut writer = SampleWriter::new(table, out)?;
    let (mut result, is_cancelled) = (Ok(()), AtomicBool::new(false));
    let missing = recordings.walk(from, to.plus(MAX_DELAY), &is_cancelled, |line| {
        if StopSignals::received().is_some() {
            result = Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
        } else if result.is_ok() {
            result = writer.on_change(line);
        }
        is_cancelled.store(result.is_err(), Ordering::Relaxed);
    });
    result?;
    let (out, rows) = writer.finish()?;
    Ok((out, rows, missing))
}
