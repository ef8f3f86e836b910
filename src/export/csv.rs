//! The devices as CSV (RFC 4180): a row per device, in UTF-8, with a header, and CR LF at the end of each line.

use std::io::{self, Write};

use jiff::tz::TimeZone;

use crate::export::OutputField;
use crate::export::output_field::OutputRows;
use crate::export::time_format::TimeFormat;
use gtop_fleet::Fleet;
use gtop_fleet::metrics::Value;
use gtop_local::time::Timestamp;

/// Writes the header.
pub fn write_csv_header(out: &mut impl Write, fields: &[OutputField]) -> io::Result<()> {
    write_row(out, fields.iter().map(|field| field.id().into_owned()))
}

/// Writes a row per device; an unknown value is an empty cell. Times are in `zone`.
pub fn write_csv(
    out: &mut impl Write,
    fleet: &Fleet,
    now: Timestamp,
    zone: &TimeZone,
    times: TimeFormat,
    fields: &[OutputField],
) -> io::Result<()> {
    let rows = OutputRows::of(fleet, now, zone).with_times(times);
    for row in rows.all() {
        write_row(out, fields.iter().map(|field| cell(&row.value(*field))))?;
    }
    Ok(())
}

fn write_row(out: &mut impl Write, cells: impl Iterator<Item = String>) -> io::Result<()> {
    write!(out, "{}\r\n", cells.collect::<Vec<_>>().join(","))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Unknown(_) => String::new(),
        Value::Number(number) => number.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::Text(text) => text_cell(text),
    }
}

/// Returns a text as a cell. A spreadsheet would run a text that begins like a formula, and users choose texts such as
/// job names, so an apostrophe precedes it.
pub(super) fn text_cell(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        format!("{guard}{text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::Reason;

    #[test]
    fn a_cell_is_quoted_where_it_must_be_and_is_never_a_formula() {
        for (value, expected) in [
            (Value::Unknown(Reason::NotSampled), ""),
            (Value::Number(36.5), "36.5"),
            (Value::Number(-3.0), "-3"),
            (Value::Integer(85_899_345_920), "85899345920"),
            (Value::Flag(true), "true"),
            ("NVIDIA H100".into(), "NVIDIA H100"),
            ("a,b".into(), "\"a,b\""),
            ("say \"hi\"".into(), "\"say \"\"hi\"\"\""),
            ("one\ntwo".into(), "\"one\ntwo\""),
            ("=HYPERLINK(\"x\")".into(), "\"'=HYPERLINK(\"\"x\"\")\""),
            ("+1".into(), "'+1"),
            ("-bash".into(), "'-bash"),
            ("@SUM(A1)".into(), "'@SUM(A1)"),
            ("\tx".into(), "'\tx"),
            ("a=b".into(), "a=b"),
        ] {
            assert_eq!(cell(&value), expected);
        }
    }
}
