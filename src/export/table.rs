//! Tables with typed columns, as CSV, as JSON lines and as Parquet.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

use jiff::tz::TimeZone;
use serde_json::{Value as Json, json};

use crate::export::csv::text_cell;
use crate::export::output_field::OutputField;
use crate::export::time_format::{TimeFormat, zoned_text};
use gtop_fleet::metrics::ValueKind;
use gtop_local::time::Timestamp;

#[cfg(feature = "parquet")]
mod parquet;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleFormat {
    /// One JSON object per row.
    Ndjson,
    /// CSV (RFC 4180).
    Csv,
    /// Apache Parquet.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl SampleFormat {
    /// Parquet, if it is built in.
    #[cfg(feature = "parquet")]
    pub const PARQUET: Option<Self> = Some(Self::Parquet);
    /// Parquet, if it is built in.
    #[cfg(not(feature = "parquet"))]
    pub const PARQUET: Option<Self> = None;

    /// Returns true if terminals show it, and times in it are texts.
    pub fn is_text(self) -> bool {
        Some(self) != Self::PARQUET
    }
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct SampleColumn {
    /// Its title, and its key in JSON.
    pub id: Cow<'static, str>,
    /// The type of its values.
    pub kind: ValueKind,
    /// Their unit; empty for counts and texts.
    pub unit: &'static str,
    /// Description in one line.
    pub help: &'static str,
    /// Each row has a value.
    pub is_required: bool,
}

impl SampleColumn {
    /// Returns the column of a field, which may be unknown.
    pub(super) fn of(field: OutputField) -> Self {
        let (id, kind, unit) = (field.id(), field.kind(), field.unit());
        Self { id, kind, unit, help: field.help(), is_required: false }
    }

    /// Returns a column that has a value in each row.
    pub(super) const fn required(
        id: &'static str,
        kind: ValueKind,
        unit: &'static str,
        help: &'static str,
    ) -> Self {
        Self { id: Cow::Borrowed(id), kind, unit, help, is_required: true }
    }
}

/// A value in a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SampleCell {
    Unknown,
    Time(Timestamp),
    Number(f64),
    Integer(u64),
    Flag(bool),
    Text(Arc<str>),
}

/// Writes the rows of a table.
#[derive(Debug)]
pub(super) struct TableWriter<W> {
    columns: Vec<SampleColumn>,
    encoding: Encoding,
    out: W,
    rows: u64,
}

/// How rows are encoded; texts with the zone of times that spreadsheets read.
#[derive(Debug)]
enum Encoding {
    Csv(Option<TimeZone>),
    Ndjson(Option<TimeZone>),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::ParquetEncoder>),
}

impl<W: Write> TableWriter<W> {
    /// Begins a table. Times are texts for spreadsheets in `zone`; without one, they are ISO 8601 in UTC.
    pub(super) fn new(
        format: SampleFormat,
        columns: Vec<SampleColumn>,
        zone: Option<TimeZone>,
        mut out: W,
    ) -> io::Result<Self> {
        let encoding = match format {
            SampleFormat::Csv => {
                write_csv_row(&mut out, columns.iter().map(|column| column.id.to_string()))?;
                Encoding::Csv(zone)
            }
            SampleFormat::Ndjson => Encoding::Ndjson(zone),
            #[cfg(feature = "parquet")]
            SampleFormat::Parquet => {
                Encoding::Parquet(Box::new(parquet::ParquetEncoder::new(&columns)?))
            }
        };
        Ok(Self { columns, encoding, out, rows: 0 })
    }

    /// Writes a row with a cell per column.
    pub(super) fn write_row(&mut self, row: &[SampleCell]) -> io::Result<()> {
        self.rows += 1;
        match &mut self.encoding {
            Encoding::Csv(zone) => {
                write_csv_row(&mut self.out, row.iter().map(|cell| csv_cell(cell, zone.as_ref())))
            }
            Encoding::Ndjson(zone) => {
                // The order of the columns stays, which a map would not keep.
                let pairs = self.columns.iter().zip(row).map(|(column, cell)| {
                    format!("{}:{}", json!(column.id), json_value(cell, zone.as_ref()))
                });
                writeln!(self.out, "{{{}}}", pairs.collect::<Vec<_>>().join(","))
            }
            #[cfg(feature = "parquet")]
            Encoding::Parquet(encoder) => encoder.push(row, &mut self.out),
        }
    }

    /// Ends the table, and returns the output and the number of rows.
    pub(super) fn finish(mut self) -> io::Result<(W, u64)> {
        #[cfg(feature = "parquet")]
        if let Encoding::Parquet(encoder) = self.encoding {
            encoder.finish(&mut self.out)?;
        }
        self.out.flush()?;
        Ok((self.out, self.rows))
    }
}

fn write_csv_row(out: &mut impl Write, cells: impl Iterator<Item = String>) -> io::Result<()> {
    write!(out, "{}\r\n", cells.collect::<Vec<_>>().join(","))
}

fn csv_cell(cell: &SampleCell, zone: Option<&TimeZone>) -> String {
    match cell {
        SampleCell::Unknown => String::new(),
        SampleCell::Time(at) => time_text(*at, zone),
        SampleCell::Text(text) => text_cell(text),
        SampleCell::Number(_) | SampleCell::Integer(_) | SampleCell::Flag(_) => {
            json_value(cell, zone).to_string()
        }
    }
}

fn json_value(cell: &SampleCell, zone: Option<&TimeZone>) -> Json {
    match cell {
        SampleCell::Unknown => Json::Null,
        SampleCell::Time(at) => json!(time_text(*at, zone)),
        SampleCell::Number(number) => json!(number),
        SampleCell::Integer(number) => json!(number),
        SampleCell::Flag(flag) => json!(flag),
        SampleCell::Text(text) => json!(text),
    }
}

fn time_text(at: Timestamp, zone: Option<&TimeZone>) -> String {
    match zone {
        Some(zone) => TimeFormat::Spreadsheet.text(at, zone),
        None => zoned_text(at, &TimeZone::UTC, "%Y-%m-%dT%H:%M:%S%.6fZ"),
    }
}
