//! Decodes `nvidia-smi`'s CSV, the same way for every probe that sends it.
//!
//! Columns are identified by the order of the query, because newer drivers rename headers. Empty cells,
//! `N/A`, `ERR!` and anything in brackets are unknown, each with its reason, never zero.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::wire::body::{self, Apps, Csv};
use crate::wire::checked::{Decode as _, missing_reason, pair, read_cell, text_cell};
use gtop_local::text::sanitize_shared;
use gtop_model::{
    Device, DeviceActivity, DeviceDetails, DeviceFault, DeviceStatics, DeviceUse, Reading, Reason,
};

pub(crate) use slices::Slices;

mod slices;

/// Maximum devices per node.
pub(crate) const MAX_DEVICES: usize = 256;
/// Maximum device uses per node.
pub(crate) const MAX_USES: usize = 4096;
/// The kernel's maximum process id.
const MAX_PID: u32 = 1 << 22;

/// Decodes the rows of both queries and the messages between them.
pub(crate) fn decode_devices(csv: &Csv, more: Option<&Csv>) -> Vec<Device> {
    let mut devices = parse_rows(csv);
    for mut added in more.into_iter().flat_map(parse_rows) {
        let known = devices.iter_mut().find(|device| device.uuid == added.uuid);
        if let Some(known) = known {
            added.complete_from(known);
            added.fault = known.fault.take().or(added.fault);
            *known = added;
        }
    }
    for line in csv.noise.iter().take(MAX_DEVICES) {
        apply_message(&mut devices, line);
    }
    devices
}

fn parse_rows(csv: &Csv) -> Vec<Device> {
    csv.rows.iter().take(MAX_DEVICES).filter_map(|row| parse_device(&csv.columns, row)).collect()
}

/// Sets the minor numbers of devices, looked up by PCI id.
pub(crate) fn set_device_minors(devices: &mut [Device], minors: &BTreeMap<String, u32>) {
    for (pci, minor) in minors.iter().take(MAX_DEVICES) {
        let Some(device) = devices.iter_mut().find(|device| device.has_pci_id(pci)) else {
            continue;
        };
        let minor = Reading::Known(*minor);
        let known = device.statics.take().map_or_else(DeviceStatics::default, Arc::unwrap_or_clone);
        device.statics = DeviceStatics { minor, ..known }.shared();
    }
}

/// Decodes one row; `None` if it does not fit the columns or identifies no device.
fn parse_device(columns: &[String], row: &str) -> Option<Device> {
    let cells = split_cells(columns, row)?;
    let mut device = Device::default();
    let (mut statics, mut details) = (DeviceStatics::default(), DeviceDetails::default());
    let mut uuid = None;
    let (mut pcie, mut pcie_max) = ([Reading::<u32>::default(); 2], [Reading::<u32>::default(); 2]);
    for (column, cell) in columns.iter().zip(cells.iter().copied()) {
        match column.as_str() {
            "uuid" => uuid = text_cell(cell).into_known(),
            "name" => device.name = text_cell(cell),
            "pci.bus_id" => device.pci = text_cell(cell),
            "driver_version" => statics.driver = text_cell(cell),
            "compute_cap" => statics.capability = text_cell(cell),
            "power.draw.instant" => {
                let power_instant = read_cell(cell);
                let activity = DeviceActivity { power_instant, ..DeviceActivity::default() };
                device.activity = activity.shared();
            }
            "pcie.link.gen.current" => pcie[0] = read_cell(cell),
            "pcie.link.width.current" => pcie[1] = read_cell(cell),
            "pcie.link.gen.max" => pcie_max[0] = read_cell(cell),
            "pcie.link.width.max" => pcie_max[1] = read_cell(cell),
            // The enforced limit applies; the requested one replaces it only where it is unknown.
            "enforced.power.limit" => {
                let limit = read_cell(cell);
                if limit.known().is_some() || device.power_limit.known().is_none() {
                    device.power_limit = limit;
                }
            }
            "power.limit" => {
                details.power_limit_requested = read_cell(cell);
                device.power_limit = device.power_limit.or(|| details.power_limit_requested);
            }
            column => {
                body::Device::set_cell(&mut device, column, cell);
                body::DeviceDetails::set_cell(&mut details, column, cell);
                body::DeviceStatics::set_cell(&mut statics, column, cell);
            }
        }
    }
    statics.pcie_max = pair(pcie_max);
    device.statics = statics.shared();
    device.details = details.shared();
    device.pcie = pair(pcie);
    device.fault = row_fault(columns, &cells);
    // Without a UUID the PCI id identifies the device; if that is lost too, the index.
    let index = device.index.get().filter(|_| device.fault.is_some());
    device.uuid = uuid
        .or_else(|| device.pci.known().cloned())
        .or_else(|| Some(format!("{}{}", Device::INDEX_PREFIX, index?).into()))?;
    Some(device)
}

/// Columns that identify a device; the others describe its state.
const IDENTITY_COLUMNS: [&str; 5] = ["index", "uuid", "name", "pci.bus_id", "driver_version"];

/// Returns the fault that `nvidia-smi` writes into cells instead of numbers.
fn row_fault(columns: &[String], cells: &[&str]) -> Option<DeviceFault> {
    let bracketed: Vec<&str> = cells.iter().copied().filter(|cell| cell.starts_with('[')).collect();
    let bracketed = bracketed.join("\n").to_lowercase();
    if bracketed.contains("gpu is lost") {
        return Some(DeviceFault::Lost);
    }
    if bracketed.contains("requires reset") || bracketed.contains("reset required") {
        return Some(DeviceFault::NeedsReset);
    }
    // A single unsupported value is no fault; a row without any value, but with an error in it, is one.
    let state = columns
        .iter()
        .zip(cells)
        .filter(|(column, _)| !IDENTITY_COLUMNS.contains(&column.as_str()));
    let has_no_value = columns.iter().any(|column| column == "utilization.gpu")
        && state.clone().all(|(_, cell)| missing_reason(cell).is_some());
    if !has_no_value {
        return None;
    }
    if bracketed.contains("permission") {
        return Some(DeviceFault::NoPermission);
    }
    let mut cells = state.map(|(_, cell)| *cell);
    let error = cells.find(|cell| missing_reason(cell) == Some(Reason::DriverError))?;
    let error = error.trim_matches(['[', ']']);
    Some(DeviceFault::Other(sanitize_shared(&format!("no values: {error}"), 160)))
}

/// Splits a row at commas; `None` if it does not fit the columns.
///
/// A name may contain commas, so cells before it are counted from the start and those after it from the end.
fn split_cells<'a>(columns: &[String], row: &'a str) -> Option<Vec<&'a str>> {
    let commas = row.matches(',').count();
    let before = match columns.iter().position(|column| column == "name") {
        Some(index) => index,
        None if commas < columns.len() => 0,
        None => return None,
    };
    let mut cells: Vec<&str> = row.splitn(before + 1, ',').collect();
    let rest = cells.pop()?;
    cells.extend(rest.rsplitn(columns.len() - before, ',').collect::<Vec<_>>().into_iter().rev());
    (cells.len() == columns.len()).then(|| cells.into_iter().map(str::trim).collect())
}

/// Parses messages such as `Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost.` and
/// marks the device as faulty, adding it if it has no row. A message about a device with readings is only a
/// warning, such as `WARNING: infoROM is corrupted at gpu 0000:0B:00.0`.
fn apply_message(devices: &mut Vec<Device>, line: &str) {
    let Some(pci) = pci_id(line) else { return };
    let message = line.to_ascii_lowercase();
    let fault = if message.contains("lost") || message.contains("fallen off") {
        DeviceFault::Lost
    } else if message.contains("reset") {
        DeviceFault::NeedsReset
    } else if message.contains("permission") {
        DeviceFault::NoPermission
    } else {
        DeviceFault::Other(sanitize_shared(line, 160))
    };
    let known = devices.iter_mut().find(|device| device.has_pci_id(&pci));
    let is_warning = matches!(fault, DeviceFault::Other(_) | DeviceFault::NoPermission);
    if let Some(device) = known {
        let has_readings = device.utilization.get().is_some() || device.temperature.get().is_some();
        if !(is_warning && has_readings) {
            device.fault.get_or_insert(fault);
        }
        return;
    }
    let is_harmless = is_warning && message.trim_start().starts_with("warning");
    if is_harmless || devices.len() >= MAX_DEVICES {
        return;
    }
    let pci: Arc<str> = pci.into();
    devices.push(Device {
        uuid: Arc::clone(&pci),
        pci: Reading::Known(pci),
        index: index_in(line).map_or_else(Reading::default, Reading::Known),
        fault: Some(fault),
        ..Device::default()
    });
}

/// Returns the index that a message names before the PCI id, as in `GPU0: 0000:1C:00.0`.
fn index_in(line: &str) -> Option<u32> {
    let (number, _) = line.split_once("GPU")?.1.split_once(": ")?;
    number.parse().ok()
}

/// Returns the first PCI id in a line, such as `0000:0B:00.0` or `00000000:0B:00.0`.
fn pci_id(line: &str) -> Option<String> {
    line.split(|letter: char| !letter.is_ascii_hexdigit() && !matches!(letter, ':' | '.'))
        .map(|word| word.trim_matches([':', '.']))
        .find(|word| word.matches(':').count() == 2 && word.contains('.') && word.len() >= 12)
        .map(str::to_ascii_uppercase)
}

/// Parses `gpu_uuid, pid, used_memory, process_name`; the name comes last and may contain commas.
pub(crate) fn decode_uses(apps: &Apps) -> Vec<DeviceUse> {
    apps.rows.iter().take(MAX_USES).filter_map(|row| parse_use(row)).collect()
}

/// Returns the number of rows without a pid by device: processes that the driver does not name.
pub(crate) fn count_nameless(apps: &Apps) -> BTreeMap<Arc<str>, u32> {
    let mut counts = BTreeMap::new();
    for row in apps.rows.iter().take(MAX_USES).filter(|row| parse_use(row).is_none()) {
        let device = row.split(',').next().map(|cell| text_cell(cell.trim()));
        if let Some(device) = device.and_then(Reading::into_known) {
            *counts.entry(device).or_default() += 1;
        }
    }
    counts
}

fn parse_use(row: &str) -> Option<DeviceUse> {
    let mut cells = row.splitn(4, ',').map(str::trim);
    let device = text_cell(cells.next()?).into_known()?;
    let pid = cells.next()?.parse().ok().filter(|pid| (1..=MAX_PID).contains(pid))?;
    let memory = read_cell(cells.next()?);
    let driver_name = cells.next().and_then(|name| text_cell(name).into_known());
    Some(DeviceUse { device, pid, memory, driver_name, ..DeviceUse::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::{
        Bytes, ComputeMode, FabricHealth, FabricState, FanSpeed, RecoveryAction, Throttle, Watts,
    };

    fn device_of(columns: &str, row: &str) -> Device {
        let csv = Csv {
            columns: columns.split(',').map(str::to_owned).collect(),
            rows: vec![row.to_owned()],
            noise: Vec::new(),
        };
        decode_devices(&csv, None).pop().expect("a device")
    }

    #[test]
    fn every_cell_without_a_value_is_unknown_with_its_reason() {
        for (cell, reason) in [
            ("[N/A]", Reason::NotSupported),
            ("N/A", Reason::NotSupported),
            ("[Not Supported]", Reason::NotSupported),
            ("[Requested functionality has been deprecated]", Reason::NotSupported),
            ("[Function Not Found]", Reason::NotSupported),
            ("[Unknown Error]", Reason::DriverError),
            ("[GPU is lost]", Reason::DriverError),
            ("ERR!", Reason::DriverError),
            ("[Insufficient Permissions]", Reason::NoPermission),
            ("", Reason::NotAvailable),
            ("[Something new]", Reason::NotAvailable),
            ("12 %", Reason::Malformed),
            ("-1", Reason::Malformed),
            ("101", Reason::Malformed),
            ("NaN", Reason::Malformed),
            ("inf", Reason::Malformed),
            ("a[$(reboot)0]", Reason::Malformed),
        ] {
            let device = device_of("uuid,utilization.gpu", &format!("GPU-1, {cell}"));
            assert_eq!(device.utilization, Reading::Unknown(reason), "{cell:?}");
        }
    }

    #[test]
    fn only_a_name_may_contain_commas() {
        for (columns, row, fits) in [
            ("uuid,name,fan.speed", "GPU-1, a, b,, c , 7", true),
            ("name,uuid,fan.speed", "a,b, GPU-1, 7", true),
            ("uuid,fan.speed,name", "GPU-1, 7, a,b", true),
            ("uuid,name,fan.speed", "GPU-1, 7", false),
            ("uuid,fan.speed", "GPU-1, 7, 8", false),
            ("uuid,fan.speed", "GPU-1", false),
        ] {
            let columns: Vec<String> = columns.split(',').map(str::to_owned).collect();
            let device = parse_device(&columns, row);
            assert_eq!(device.is_some(), fits, "{row}");
            if let Some(device) = device {
                assert_eq!(
                    (&*device.uuid, device.fan.get()),
                    ("GPU-1", FanSpeed::new(7.0)),
                    "{row}"
                );
                assert!(device.name.known().is_some_and(|name| name.starts_with('a')), "{row}");
            }
        }
    }

    #[test]
    fn cells_are_read_by_position() {
        let device = device_of(
            "index,uuid,name,pci.bus_id,memory.used,power.draw,power.limit,enforced.power.limit,clocks_throttle_reasons.active,pstate,mig.mode.current,pcie.link.gen.current,pcie.link.width.current",
            "3, GPU-ab, NVIDIA H100 80GB HBM3, 00000000:1A:00.0, 69000, 655.25, 700.00, 650.00, 0x0000000000000040, P0, Enabled, 5, 16",
        );
        assert_eq!(device.index, Reading::Known(3));
        assert_eq!(&*device.uuid, "GPU-ab");
        assert_eq!(device.memory_used, Reading::Known(Bytes(69000 << 20)));
        assert_eq!(device.power.get().map(Watts::get), Some(655.25));
        assert_eq!(device.power_limit.get().map(Watts::get), Some(650.0));
        assert!(device.throttle.get().is_some_and(Throttle::is_thermal));
        assert_eq!(device.performance_state, Reading::Known(0));
        assert_eq!(device.mig, Reading::Known(true));
        assert_eq!(device.pcie, Reading::Known((5, 16)));
        assert_eq!(device.temperature, Reading::default());
    }

    #[test]
    fn each_column_is_decoded_into_its_own_field() {
        fn debug(reading: &dyn std::fmt::Debug) -> String {
            format!("{reading:?}")
        }
        type Getter = fn(&Device, &DeviceDetails, &DeviceStatics) -> String;
        let read = |getter: &Getter, device: &Device| {
            getter(device, device.details.as_deref().unwrap(), device.statics.as_deref().unwrap())
        };
        let numbers: &[(&str, Getter)] = &[
            ("index", |device, _, _| debug(&device.index)),
            ("utilization.gpu", |device, _, _| debug(&device.utilization)),
            ("utilization.memory", |device, _, _| debug(&device.memory_utilization)),
            ("memory.total", |device, _, _| debug(&device.memory_total)),
            ("memory.used", |device, _, _| debug(&device.memory_used)),
            ("memory.free", |device, _, _| debug(&device.memory_free)),
            ("memory.reserved", |device, _, _| debug(&device.memory_reserved)),
            ("temperature.gpu", |device, _, _| debug(&device.temperature)),
            ("temperature.memory", |device, _, _| debug(&device.memory_temperature)),
            ("power.draw", |device, _, _| debug(&device.power)),
            ("enforced.power.limit", |device, _, _| debug(&device.power_limit)),
            ("clocks.current.sm", |device, _, _| debug(&device.sm_clock)),
            ("clocks.current.memory", |device, _, _| debug(&device.memory_clock)),
            ("fan.speed", |device, _, _| debug(&device.fan)),
            ("ecc.errors.corrected.volatile.total", |device, _, _| debug(&device.ecc_corrected)),
            ("ecc.errors.uncorrected.volatile.total", |device, _, _| {
                debug(&device.ecc_uncorrected)
            }),
            ("power.limit", |_, details, _| debug(&details.power_limit_requested)),
            ("ecc.errors.corrected.aggregate.total", |_, details, _| {
                debug(&details.ecc_corrected_total)
            }),
            ("ecc.errors.uncorrected.aggregate.total", |_, details, _| {
                debug(&details.ecc_uncorrected_total)
            }),
            ("clocks.current.graphics", |_, details, _| debug(&details.graphics_clock)),
            ("clocks.current.video", |_, details, _| debug(&details.video_clock)),
            ("retired_pages.single_bit_ecc.count", |_, details, _| debug(&details.retired_single)),
            ("retired_pages.double_bit.count", |_, details, _| debug(&details.retired_double)),
            ("utilization.encoder", |_, details, _| debug(&details.encoder)),
            ("utilization.decoder", |_, details, _| debug(&details.decoder)),
            ("utilization.jpeg", |_, details, _| debug(&details.jpeg)),
            ("utilization.ofa", |_, details, _| debug(&details.optical_flow)),
            ("power.draw.average", |_, details, _| debug(&details.power_average)),
            ("remapped_rows.correctable", |_, details, _| debug(&details.remapped_corrected)),
            ("remapped_rows.uncorrectable", |_, details, _| debug(&details.remapped_uncorrected)),
            ("temperature.gpu.tlimit", |_, details, _| debug(&details.temperature_margin)),
            ("driver_version", |_, _, statics| debug(&statics.driver)),
            ("clocks.max.sm", |_, _, statics| debug(&statics.sm_clock_max)),
            ("clocks.max.memory", |_, _, statics| debug(&statics.memory_clock_max)),
            ("compute_cap", |_, _, statics| debug(&statics.capability)),
            ("clocks.max.graphics", |_, _, statics| debug(&statics.graphics_clock_max)),
            ("power.default_limit", |_, _, statics| debug(&statics.power_limit_default)),
            ("power.min_limit", |_, _, statics| debug(&statics.power_limit_min)),
            ("power.max_limit", |_, _, statics| debug(&statics.power_limit_max)),
        ];
        // A distinct number for each column, also as the name.
        let cell = |index: usize| 11 + u32::try_from(index).unwrap();
        let columns: Vec<&str> = numbers.iter().map(|(column, _)| *column).collect();
        let cells: Vec<String> = (0..numbers.len()).map(|index| cell(index).to_string()).collect();
        let device = device_of(
            &format!("uuid,{}", columns.join(",")),
            &format!("GPU-1, {}", cells.join(", ")),
        );
        for (index, (column, getter)) in numbers.iter().enumerate() {
            let text = read(getter, &device);
            let digits: String = text.chars().filter(|c| c.is_ascii_digit() || *c == '.').collect();
            let shift = if column.starts_with("memory.") { 20 } else { 0 };
            let number: Option<f64> = digits.parse().ok();
            assert_eq!(number, Some(f64::from(cell(index) << shift)), "{column}: {text}");
        }
        let switches: &[(&str, Getter)] = &[
            ("persistence_mode", |device, _, _| debug(&device.persistence)),
            ("mig.mode.current", |device, _, _| debug(&device.mig)),
            ("ecc.mode.current", |_, details, _| debug(&details.ecc_enabled)),
            ("retired_pages.pending", |_, details, _| debug(&details.retirement_pending)),
            ("display_active", |_, details, _| debug(&details.display_active)),
            ("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", |_, details, _| {
                debug(&details.sram_threshold_exceeded)
            }),
            ("remapped_rows.pending", |_, details, _| debug(&details.remapping_pending)),
            ("remapped_rows.failure", |_, details, _| debug(&details.remapping_failed)),
        ];
        for (column, getter) in switches {
            for (cell, is_on) in
                [("Enabled", true), ("Yes", true), ("Disabled", false), ("No", false)]
            {
                let device = device_of(
                    &format!("uuid,driver_version,display_active,{column}"),
                    &format!("GPU-1, 570, No, {cell}"),
                );
                assert_eq!(read(getter, &device), format!("Known({is_on})"), "{column} {cell}");
            }
        }
        let activity = device_of("uuid,power.draw.instant", "GPU-1, 7").activity.unwrap();
        assert_eq!(activity.power_instant.get().map(Watts::get), Some(7.0));
    }

    #[test]
    fn the_requested_power_limit_is_used_if_the_enforced_one_is_unknown() {
        let limit = |columns: &str, cells: &str| {
            device_of(&format!("uuid,{columns}"), &format!("GPU-1, {cells}"))
                .power_limit
                .get()
                .map(Watts::get)
        };
        assert_eq!(limit("power.limit", "700"), Some(700.0));
        assert_eq!(limit("power.limit,enforced.power.limit", "700, [N/A]"), Some(700.0));
        assert_eq!(limit("enforced.power.limit,power.limit", "650, 700"), Some(650.0));
    }

    #[test]
    fn texts_become_states() {
        let details_with = |column: &str, cell: &str| {
            device_of(&format!("uuid,{column}"), &format!("GPU-1, {cell}")).details.unwrap()
        };
        for (cell, state) in [
            ("Not Started", FabricState::NotStarted),
            ("In Progress", FabricState::InProgress),
            ("Completed", FabricState::Completed),
            ("Not Supported", FabricState::None),
        ] {
            assert_eq!(details_with("fabric.state", cell).fabric, Reading::Known(state), "{cell}");
        }
        for (cell, health) in [
            ("Healthy", 0),
            ("Limited Capacity", FabricHealth::LIMITED),
            ("Unhealthy", FabricHealth::UNHEALTHY),
        ] {
            let found = details_with("fabric.health.summary", cell).fabric_health;
            assert_eq!(found, Reading::Known(FabricHealth(health)), "{cell}");
        }
        for (cell, action) in [
            ("None", RecoveryAction::None),
            ("Drain and Reset", RecoveryAction::DrainAndReset),
            ("Drain P2P", RecoveryAction::DrainPeers),
            ("Node Reboot", RecoveryAction::Reboot),
            ("GPU Reset", RecoveryAction::Reset),
            ("Bus Reset", RecoveryAction::Other(None)),
            ("Something new", RecoveryAction::Other(None)),
        ] {
            assert_eq!(
                details_with("gpu_recovery_action", cell).recovery,
                Reading::Known(action),
                "{cell}"
            );
        }
        for (cell, mode) in [
            ("Default", ComputeMode::Shared),
            ("Prohibited", ComputeMode::Prohibited),
            ("Exclusive_Process", ComputeMode::ExclusiveProcess),
        ] {
            assert_eq!(
                details_with("compute_mode", cell).compute_mode,
                Reading::Known(mode),
                "{cell}"
            );
        }
        for cell in ["perhaps", "P16"] {
            assert_eq!(
                details_with("fabric.state", cell).fabric,
                Reading::Unknown(Reason::Malformed)
            );
            assert_eq!(
                details_with("fabric.health.summary", cell).fabric_health,
                Reading::Unknown(Reason::Malformed)
            );
            assert_eq!(
                details_with("compute_mode", cell).compute_mode,
                Reading::Unknown(Reason::Malformed)
            );
            let device = device_of("uuid,pstate", &format!("GPU-1, {cell}"));
            assert_eq!(device.performance_state, Reading::Unknown(Reason::Malformed));
        }
        assert_eq!(device_of("uuid,pstate", "GPU-1, P15").performance_state, Reading::Known(15));
        let throttle = |cell: &str| {
            device_of("uuid,clocks_throttle_reasons.active", &format!("GPU-1, {cell}")).throttle
        };
        assert_eq!(throttle("0x0000000000000024"), Reading::Known(Throttle(0x24)));
        assert_eq!(throttle("24"), Reading::Unknown(Reason::Malformed));
        // A link is known only if both of its numbers are.
        let link = |generation: &str, width: &str| {
            let cells = format!("GPU-1, {generation}, {width}, {width}, {generation}");
            let columns = "uuid,pcie.link.gen.current,pcie.link.width.current,pcie.link.gen.max,pcie.link.width.max";
            let device = device_of(columns, &cells);
            (device.pcie, Reading::of(device.statics.as_deref(), |known| known.pcie_max))
        };
        assert_eq!(link("4", "8"), (Reading::Known((4, 8)), Reading::Known((8, 4))));
        let unknown = Reading::Unknown(Reason::NotSupported);
        assert_eq!(link("4", "[N/A]"), (unknown, unknown));
        assert_eq!(link("[N/A]", "8"), (unknown, unknown));
    }

    #[test]
    fn a_row_that_does_not_fit_its_columns_is_no_device() {
        let csv = Csv {
            columns: vec!["uuid".into(), "index".into()],
            rows: vec![
                "GPU-1".into(),
                "GPU-1, 2, 3".into(),
                "No devices were found".into(),
                "[N/A], 1".into(),
            ],
            noise: Vec::new(),
        };
        assert_eq!(decode_devices(&csv, None), []);
    }

    #[test]
    fn a_device_without_uuid_is_identified_by_its_pci_id() {
        assert_eq!(
            &*device_of("uuid,pci.bus_id", "[N/A], 00000000:1A:00.0").uuid,
            "00000000:1A:00.0"
        );
    }

    #[test]
    fn a_lost_device_is_marked_with_and_without_a_row() {
        let csv = Csv {
            columns: vec!["uuid".into(), "pci.bus_id".into()],
            rows: vec!["GPU-1, 00000000:0B:00.0".into()],
            noise: vec![
                "Unable to determine the device handle for GPU 0000:0B:00.0: GPU is lost.  Reboot the system".into(),
                "Unable to determine the device handle for GPU0: 0000:1C:00.0: Unknown Error".into(),
                "nothing about a device".into(),
            ],
        };
        let found = decode_devices(&csv, None);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].fault, Some(DeviceFault::Lost));
        assert_eq!(&*found[1].uuid, "0000:1C:00.0");
        assert!(matches!(found[1].fault, Some(DeviceFault::Other(_))));
        assert_eq!(found[1].index, Reading::Known(0), "the message has it");
    }

    #[test]
    fn a_device_without_a_handle_has_the_fault_that_the_message_names() {
        for (why, expected) in [
            ("Insufficient Permissions", DeviceFault::NoPermission),
            ("GPU requires reset", DeviceFault::NeedsReset),
            ("GPU is lost.", DeviceFault::Lost),
        ] {
            let line = format!("Unable to determine the device handle for GPU 0000:0B:00.0: {why}");
            let csv = Csv { columns: Vec::new(), rows: Vec::new(), noise: vec![line] };
            assert_eq!(decode_devices(&csv, None)[0].fault, Some(expected), "{why}");
        }
    }

    #[test]
    fn a_warning_about_a_working_device_is_no_fault() {
        let csv = Csv {
            columns: ["uuid", "pci.bus_id", "utilization.gpu"].map(str::to_owned).into(),
            rows: vec!["GPU-1, 00000001:0B:00.0, 7".into(), "GPU-2, 00000002:0B:00.0, 8".into()],
            noise: vec![
                "WARNING: infoROM is corrupted at gpu 0001:0B:00.0".into(),
                "WARNING: infoROM is corrupted at gpu 0003:0B:00.0".into(),
                "Unable to determine the device handle for GPU 0002:0B:00.0: GPU is lost.".into(),
            ],
        };
        let found = decode_devices(&csv, None);
        let faults: Vec<_> = found.iter().map(|device| device.fault.clone()).collect();
        // Two devices differ only in their PCI domain: the right one is marked.
        assert_eq!(faults, [None, Some(DeviceFault::Lost)]);
    }

    #[test]
    fn a_device_with_only_errors_is_faulty() {
        let columns = "index,uuid,name,pci.bus_id,driver_version,utilization.gpu,temperature.gpu";
        let fault = |cells: &str| {
            device_of(columns, &format!("3, GPU-1, H100, 0000:0B:00.0, 570, {cells}")).fault
        };
        let other = |words: &str| Some(DeviceFault::Other(words.into()));
        for (cells, expected) in [
            ("7, 40", None),
            ("[N/A], [N/A]", None),
            ("7, [Unknown Error]", None),
            ("[GPU is lost], [GPU is lost]", Some(DeviceFault::Lost)),
            ("[GPU requires reset], [GPU requires reset]", Some(DeviceFault::NeedsReset)),
            (
                "[Insufficient Permissions], [Insufficient Permissions]",
                Some(DeviceFault::NoPermission),
            ),
            ("[Unknown Error], [N/A]", other("no values: Unknown Error")),
        ] {
            assert_eq!(fault(cells), expected, "{cells}");
        }
        // An error in the slow group is no device fault, and does not clear one.
        let columns: Vec<String> = ["uuid", "utilization.gpu"].map(str::to_owned).into();
        let csv = |columns: &[&str], row: &str| Csv {
            columns: columns.iter().map(|column| (*column).to_owned()).collect(),
            rows: vec![row.into()],
            noise: Vec::new(),
        };
        let more = csv(&["uuid", "display_active"], "GPU-1, [Unknown Error]");
        let found = |row: &str| {
            let first = Csv { columns: columns.clone(), rows: vec![row.into()], noise: Vec::new() };
            decode_devices(&first, Some(&more))[0].fault.clone()
        };
        assert_eq!(found("GPU-1, 7"), None);
        assert_eq!(found("GPU-1, [GPU is lost]"), Some(DeviceFault::Lost));
        // Only its index is left.
        let row = "3, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]";
        let lost = device_of("index,uuid,name,pci.bus_id,utilization.gpu", row);
        assert_eq!((&*lost.uuid, lost.fault), ("index-3", Some(DeviceFault::Lost)));
    }

    #[test]
    fn impossible_memory_is_malformed_and_a_fast_fan_is_not() {
        let device = device_of(
            "uuid,memory.total,memory.used,memory.free,fan.speed",
            "GPU-1, 18446744073709551615, 2147483648, 81559, 140",
        );
        assert_eq!(device.memory_total, Reading::Unknown(Reason::Malformed));
        assert_eq!(device.memory_used, Reading::Unknown(Reason::Malformed));
        assert_eq!(device.memory_free, Reading::Known(Bytes(81559 << 20)));
        assert_eq!(device.fan.get().map(FanSpeed::get), Some(140.0));
    }

    #[test]
    fn the_number_of_devices_is_bounded() {
        let columns: Vec<String> = ["uuid", "utilization.gpu"].map(str::to_owned).into();
        let rows = (0..10_000).map(|number| format!("GPU-{number}, 7")).collect();
        let noise = (0..10_000).map(|number| format!("GPU {number:04x}:0B:00.0: GPU is lost."));
        let csv = Csv { columns, rows, noise: noise.collect() };
        assert_eq!(decode_devices(&csv, Some(&csv)).len(), MAX_DEVICES);
        let only_noise = Csv { rows: Vec::new(), ..csv };
        assert_eq!(decode_devices(&only_noise, None).len(), MAX_DEVICES);
    }

    #[test]
    fn a_process_name_may_contain_anything() {
        let apps = Apps {
            at: 0.0,
            rows: vec![
                "GPU-1, 4242, 69000, python, -c \x1b[2J, x".into(),
                "GPU-1, 4243, [N/A], [Not Found]".into(),
                "GPU-1, -5, 1, x".into(),
                "junk".into(),
            ],
        };
        let found = decode_uses(&apps);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].driver_name.as_deref(), Some("python, -c  [2J, x"));
        assert_eq!(found[1].memory, Reading::Unknown(Reason::NotSupported));
        assert_eq!(found[1].driver_name, None);
    }

    #[test]
    fn rows_without_a_pid_are_counted_by_device() {
        let rows = [
            "GPU-a, 1234, 500, python",
            "GPU-a, [N/A], 700, [Not Found]",
            "GPU-a, 0, 700, [Not Found]",
            "GPU-b, 4294967295, [N/A], -",
            "[N/A], [N/A], [N/A], -",
        ];
        let apps = Apps { rows: rows.map(str::to_owned).to_vec(), ..Apps::default() };
        let pids: Vec<u32> = decode_uses(&apps).iter().map(|used| used.pid).collect();
        assert_eq!(pids, [1234]);
        let counts = count_nameless(&apps);
        let counts: Vec<(&str, u32)> =
            counts.iter().map(|(device, count)| (&**device, *count)).collect();
        assert_eq!(counts, [("GPU-a", 2), ("GPU-b", 1)]);
    }
}
