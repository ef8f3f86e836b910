//! Decodes the captured output of real and older versions of nvidia-smi: every cell becomes the value of
//! its field.

use std::path::{Path, PathBuf};
use std::time::Duration;

use gtop_collect::wire::Decoder;
use gtop_collect::wire::body::{Apps, Backend, Body, Csv, Sample as Sent};
use gtop_fleet::metrics::{Value, device_fields};
use gtop_fleet::{Health, HealthReason, Node};
use gtop_local::time::Timestamp;
use gtop_model::{Device, DeviceFault, NodeName, NodeUpdate, Reason, Sample};

/// How a cell becomes the value of a field.
#[derive(Clone, Copy)]
enum Conversion {
    Text,
    Number,
    Mib,
    Hexadecimal,
    State,
    Switch,
    Mode,
    Word,
}

use Conversion::{Hexadecimal, Mib, Mode, Number, State, Switch, Text, Word};

/// The queried columns and their fields; `index` and `uuid` are not fields.
const COLUMNS: &[(&str, &str, Conversion)] = &[
    ("index", "", Number),
    ("uuid", "", Text),
    ("name", "name", Text),
    ("pci.bus_id", "pci_bus", Text),
    ("driver_version", "driver_version", Text),
    ("persistence_mode", "persistence_enabled", Switch),
    ("pstate", "performance_state", State),
    ("temperature.gpu", "temperature_celsius", Number),
    ("temperature.memory", "memory_temperature_celsius", Number),
    ("utilization.gpu", "utilization_percent", Number),
    ("utilization.memory", "memory_utilization_percent", Number),
    ("memory.total", "memory_total_bytes", Mib),
    ("memory.used", "memory_used_bytes", Mib),
    ("memory.free", "memory_free_bytes", Mib),
    ("power.draw", "power_watts", Number),
    ("power.limit", "power_limit_requested_watts", Number),
    ("enforced.power.limit", "power_limit_watts", Number),
    ("clocks.current.sm", "sm_clock_megahertz", Number),
    ("clocks.current.memory", "memory_clock_megahertz", Number),
    ("clocks.max.sm", "sm_clock_max_megahertz", Number),
    ("clocks.max.memory", "memory_clock_max_megahertz", Number),
    ("fan.speed", "fan_percent", Number),
    ("clocks_throttle_reasons.active", "throttle_bits", Hexadecimal),
    ("ecc.mode.current", "ecc_enabled", Switch),
    ("ecc.errors.corrected.volatile.total", "ecc_corrected_errors", Number),
    ("ecc.errors.uncorrected.volatile.total", "ecc_uncorrected_errors", Number),
    ("ecc.errors.corrected.aggregate.total", "ecc_corrected_total_errors", Number),
    ("ecc.errors.uncorrected.aggregate.total", "ecc_uncorrected_total_errors", Number),
    ("retired_pages.pending", "retirement_pending", Switch),
    ("compute_mode", "compute_mode", Mode),
    ("mig.mode.current", "mig_enabled", Switch),
    ("pcie.link.gen.current", "pcie_generation", Number),
    ("pcie.link.width.current", "pcie_lanes", Number),
    ("pcie.link.gen.max", "pcie_generation_max", Number),
    ("pcie.link.width.max", "pcie_lanes_max", Number),
];

/// The columns of the second query.
const SLOW_COLUMNS: &[(&str, &str, Conversion)] = &[
    ("uuid", "", Text),
    ("display_active", "display_active", Switch),
    ("clocks.current.graphics", "graphics_clock_megahertz", Number),
    ("clocks.current.video", "video_clock_megahertz", Number),
    ("clocks.max.graphics", "graphics_clock_max_megahertz", Number),
    ("power.default_limit", "power_limit_default_watts", Number),
    ("power.min_limit", "power_limit_min_watts", Number),
    ("power.max_limit", "power_limit_max_watts", Number),
    ("retired_pages.single_bit_ecc.count", "retired_single_bit_pages", Number),
    ("retired_pages.double_bit.count", "retired_double_bit_pages", Number),
    ("utilization.encoder", "encoder_percent", Number),
    ("utilization.decoder", "decoder_percent", Number),
    ("utilization.jpeg", "jpeg_percent", Number),
    ("utilization.ofa", "optical_flow_percent", Number),
    ("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", "sram_threshold_exceeded", Switch),
    ("compute_cap", "compute_capability", Text),
    ("power.draw.average", "power_average_watts", Number),
    ("power.draw.instant", "power_instant_watts", Number),
    ("memory.reserved", "memory_reserved_bytes", Mib),
    ("remapped_rows.correctable", "remapped_corrected_rows", Number),
    ("remapped_rows.uncorrectable", "remapped_uncorrected_rows", Number),
    ("remapped_rows.pending", "remapping_pending", Switch),
    ("remapped_rows.failure", "remapping_failed", Switch),
    ("gpu_recovery_action", "recovery_action", Word),
    ("fabric.state", "fabric_state", Word),
    ("fabric.health.summary", "fabric_health", Word),
    ("temperature.gpu.tlimit", "temperature_margin_celsius", Number),
];

fn files(folder: &str, suffix: &str) -> Vec<PathBuf> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/nvidia-smi").join(folder);
    let mut found: Vec<PathBuf> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect();
    found.sort();
    assert!(found.len() >= 3, "{found:?}");
    found
}

/// Reads a table; returns the columns without units, and the rows.
fn read_table(path: &Path) -> (Vec<String>, Vec<Vec<String>>) {
    let text = std::fs::read_to_string(path).unwrap();
    let cells = |line: &str| line.split(", ").map(|cell| cell.trim().to_owned()).collect();
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let header: Vec<String> = cells(lines.next().unwrap());
    let names = header.iter().map(|name| name.split(" [").next().unwrap());
    // 535 and later print the new name even for a query with the old one.
    let names = names
        .map(|name| name.replace("clocks_event_reasons.active", "clocks_throttle_reasons.active"));
    (names.collect(), lines.map(cells).collect())
}

/// Returns a cell without its unit, as `nounits` prints it.
fn without_unit(cell: &str) -> String {
    let units = [" MiB", " MHz", " %", " W"];
    units.iter().find_map(|unit| cell.strip_suffix(unit)).unwrap_or(cell).to_owned()
}

fn decode(backend: Backend) -> Sample {
    let body = Body::Sample(Sent { n: 1, backends: vec![backend], ..Sent::default() });
    let Some(NodeUpdate::Sample(sample)) =
        Decoder::default().decode(&body, Timestamp::from_micros(1))
    else {
        panic!("no sample")
    };
    *sample
}

fn devices(csv: Csv, more: Csv) -> Vec<Device> {
    let kind = "nvidia-smi".into();
    let backend = Backend { kind, csv: Some(csv), more: Some(more), ..Backend::default() };
    decode(backend).backends.remove(0).devices.unwrap().list
}

/// The value of a cell, or the reason why it is unknown.
fn expected_value(cell: &str, conversion: Conversion) -> Result<Value, Reason> {
    match cell {
        "[N/A]"
        | "N/A"
        | "[Not Supported]"
        | "[Function Not Found]"
        | "[Requested functionality has been deprecated]" => return Err(Reason::NotSupported),
        "[Unknown Error]" | "[GPU is lost]" => return Err(Reason::DriverError),
        "[Insufficient Permissions]" => return Err(Reason::NoPermission),
        _ => assert!(!cell.is_empty() && !cell.starts_with('['), "unexpected cell: {cell}"),
    }
    Ok(match conversion {
        Text => Value::Text(cell.into()),
        Number => {
            cell.parse().map_or_else(|_| Value::Number(cell.parse().unwrap()), Value::Integer)
        }
        Mib => Value::Integer(cell.parse::<u64>().unwrap() << 20),
        Hexadecimal => {
            Value::Integer(u64::from_str_radix(cell.strip_prefix("0x").unwrap(), 16).unwrap())
        }
        State => Value::Integer(cell.strip_prefix('P').unwrap().parse().unwrap()),
        Switch => Value::Flag(matches!(cell, "Enabled" | "Yes")),
        Mode => Value::Text(cell.to_lowercase().replace('_', " ").into()),
        Word => Value::Text(cell.to_lowercase().into()),
    })
}

/// Formats integers and floats alike.
fn number(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(format!("{number:.2}")),
        Value::Integer(number) => Some(format!("{number}.00")),
        Value::Unknown(_) | Value::Text(_) | Value::Flag(_) => None,
    }
}

/// The queried columns of a table, with their indices.
fn queried<'a>(header: &[String], columns: &'a [(&str, &str, Conversion)]) -> Vec<Queried<'a>> {
    let index = |name| header.iter().position(|other| other == name);
    columns.iter().filter_map(|column| Some((index(column.0)?, column))).collect()
}

type Queried<'a> = (usize, &'a (&'a str, &'a str, Conversion));

fn csv_of(queried: &[Queried<'_>], rows: &[Vec<String>]) -> Csv {
    let cells =
        |row: &Vec<String>| queried.iter().map(|(index, _)| without_unit(&row[*index])).collect();
    let rows = rows.iter().map(|row| {
        let cells: Vec<String> = cells(row);
        cells.join(", ")
    });
    Csv {
        columns: queried.iter().map(|(_, column)| column.0.to_owned()).collect(),
        rows: rows.collect(),
        noise: Vec::new(),
    }
}

/// Compares every device of a table; returns how many of its columns there are.
fn check(path: &Path) -> usize {
    let (header, rows) = read_table(path);
    let (fast, slow) = (queried(&header, COLUMNS), queried(&header, SLOW_COLUMNS));
    assert!(fast.len() >= 34, "{}: {} columns", path.display(), fast.len());
    let found = devices(csv_of(&fast, &rows), csv_of(&slow, &rows));
    assert_eq!(found.len(), rows.len(), "{}", path.display());
    for (device, row) in found.iter().zip(&rows) {
        for field in device_fields() {
            let queried_column = fast.iter().chain(&slow).find(|(_, column)| column.1 == field.id);
            let expected = match (queried_column, field.id) {
                (Some((index, column)), _) => expected_value(&without_unit(&row[*index]), column.2)
                    .unwrap_or_else(Value::Unknown),
                // The names of `throttle_bits`; none of these devices is integrated.
                (None, "throttle_reasons") => continue,
                (None, "memory_is_host") => {
                    assert_ne!((field.read)(device), Value::Flag(true));
                    continue;
                }
                (None, "vendor") => Value::Text("nvidia".into()),
                (None, _) => Value::Unknown(Reason::NotSampled),
            };
            let shown = (field.read)(device);
            let is_same = shown == expected
                || number(&shown).is_some_and(|shown| Some(shown) == number(&expected));
            assert!(is_same, "{}: {} is {shown:?}, not {expected:?}", path.display(), field.id);
        }
        // A device lost during the query has some values, and is lost.
        let is_lost = row.iter().any(|cell| cell.contains("GPU is lost"));
        assert_eq!(device.fault, is_lost.then_some(DeviceFault::Lost));
    }
    fast.len() + slow.len()
}

#[test]
fn the_captured_output_of_real_machines_is_read_field_by_field() {
    let columns: Vec<usize> = files("", ".query-gpu.csv").iter().map(|path| check(path)).collect();
    assert!(columns.contains(&(COLUMNS.len() + SLOW_COLUMNS.len())), "{columns:?}");
}

#[test]
fn every_generation_of_drivers_is_read_field_by_field() {
    for path in files("synthetic", ".csv") {
        check(&path);
    }
}

/// Returns the devices of a table that are not healthy: `file #index: reasons`.
fn unhealthy(path: &Path) -> Vec<String> {
    let (header, rows) = read_table(path);
    let (fast, slow) = (queried(&header, COLUMNS), queried(&header, SLOW_COLUMNS));
    let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
    node.devices = devices(csv_of(&fast, &rows), csv_of(&slow, &rows)).into();
    let name = path.file_name().unwrap().to_string_lossy();
    let text = |device: &Device| {
        let reasons = node.health_reasons(device);
        let ids: Vec<&str> = reasons.iter().map(HealthReason::id).collect();
        let health = node.health(device);
        let index = device.index.get().unwrap();
        (health != Health::Ok).then(|| format!("{name} #{index} {health:?}: {}", ids.join(", ")))
    };
    node.devices.iter().filter_map(text).collect()
}

#[test]
fn no_device_of_a_real_machine_is_called_sick() {
    let found: Vec<String> =
        files("", ".query-gpu.csv").iter().flat_map(|path| unhealthy(path)).collect();
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn of_every_generation_of_drivers_the_sick_devices_are_those_we_made_sick() {
    let found: Vec<String> =
        files("synthetic", ".csv").iter().flat_map(|path| unhealthy(path)).collect();
    assert_eq!(found, ["535.csv #1 Faulty: lost"]);
}

#[test]
fn all_captured_processes_of_real_machines_are_read() {
    for path in files("", ".compute-apps.csv") {
        let (header, rows) = read_table(&path);
        let queried = ["gpu_uuid", "pid", "used_gpu_memory", "process_name"];
        let indices = queried.map(|name| header.iter().position(|other| other == name).unwrap());
        let cells: Vec<Vec<String>> = rows
            .iter()
            .map(|row| indices.iter().map(|index| without_unit(&row[*index])).collect())
            .collect();
        let apps = Apps { at: 0.0, rows: cells.iter().map(|cells| cells.join(", ")).collect() };
        let backend = Backend { kind: "nvidia-smi".into(), apps: Some(apps), ..Backend::default() };
        let found = decode(backend).backends.remove(0).uses.unwrap().list;
        assert_eq!(found.len(), cells.len());
        for (used, cells) in found.iter().zip(&cells) {
            assert_eq!(*used.device, *cells[0]);
            assert_eq!(used.pid.to_string(), cells[1]);
            assert_eq!(used.memory.get().unwrap().mib().to_string(), cells[2]);
            assert_eq!(used.driver_name.as_deref(), Some(&*cells[3]));
        }
    }
}
