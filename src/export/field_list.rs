//! The list of all fields, as text and as JSON.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::export::output_field::DeviceKey;
use gtop_fleet::metrics::{
    DEVICE, DEVICE_AMD, DEVICE_DETAIL, DEVICE_TPU, Field, HOST, JOB, PROCESS, unit_of,
};

/// A field as it is listed.
#[derive(serde::Serialize)]
struct FieldEntry {
    /// Its name in filters, columns and `--fields`.
    alias: &'static str,
    /// Its JSON key.
    id: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    unit: &'static str,
    /// What has it: a device, a host, a process or a job.
    of: &'static str,
    /// What reads it.
    source: &'static str,
    help: &'static str,
}

fn entries() -> Vec<FieldEntry> {
    let keys = DeviceKey::ALL.into_iter().map(|key| {
        let (alias, id, kind, help) = key.declaration();
        let (kind, unit) = (kind.name(), unit_of(id));
        FieldEntry { alias, id, kind, unit, of: "device", source: "gtop", help }
    });
    let device = DEVICE.iter().chain(DEVICE_DETAIL);
    keys.chain(entries_of("device", "driver", device))
        .chain(entries_of("device", "amdgpu", DEVICE_AMD))
        .chain(entries_of("device", "tpu", DEVICE_TPU))
        .chain(entries_of("host", "host", HOST))
        .chain(entries_of("process", "driver, host", PROCESS))
        .chain(entries_of("job", "scheduler", JOB))
        .collect()
}

fn entries_of<S: 'static>(
    of: &'static str,
    source: &'static str,
    fields: impl IntoIterator<Item = &'static Field<S>>,
) -> impl Iterator<Item = FieldEntry> {
    fields.into_iter().map(move |field| {
        let Field { alias, id, kind, help, .. } = *field;
        FieldEntry { alias, id, kind: kind.name(), unit: field.unit(), of, source, help }
    })
}

/// Writes the fields as a table.
pub fn write_fields(out: &mut impl Write) -> io::Result<()> {
    let mut text = format!(
        "{:<13} {:<38} {:<7} {:<5} {:<8} {:<13} {}\n",
        "WORD", "ID", "TYPE", "UNIT", "OF", "SOURCE", "DESCRIPTION"
    );
    for FieldEntry { alias, id, kind, unit, of, source, help } in entries() {
        let columns = format!("{alias:<13} {id:<38} {kind:<7} {unit:<5} {of:<8} {source:<13}");
        writeln!(text, "{columns} {help}").ok();
    }
    out.write_all(text.as_bytes())
}

/// Writes the fields as a JSON array.
pub fn write_fields_json(out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &entries())?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_fleet::metrics::device_fields;

    #[test]
    fn every_field_is_listed_once() {
        let entries = entries();
        let listed = |of: &str| entries.iter().filter(|entry| entry.of == of).count();
        assert_eq!(listed("device"), DeviceKey::ALL.len() + device_fields().count());
        assert_eq!(listed("host"), HOST.len());
        assert_eq!(listed("process"), PROCESS.len());
        assert_eq!(listed("job"), JOB.len());
        let mut text = Vec::new();
        write_fields(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().count(), entries.len() + 1);
        // The columns are wide enough.
        for line in text.lines() {
            assert_eq!(line.as_bytes()[13], b' ', "{line}");
            assert_eq!(line.as_bytes()[52], b' ', "{line}");
        }
    }
}
