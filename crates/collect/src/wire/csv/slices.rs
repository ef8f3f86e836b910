//! Decodes MIG slices from `nvidia-smi -L` (names and UUIDs) and from its process and memory tables.
//!
//! Its CSV query has no rows for slices, and its process query names the parent device.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::wire::body::Mig;
use crate::wire::checked::MAX_NAME_LENGTH;
use crate::wire::csv::{MAX_DEVICES, MAX_USES};
use gtop_local::text::sanitize_shared;
use gtop_model::{Bytes, Device, DeviceStatics, DeviceUse, Reading, Reason};

/// The slices of the last sample.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slices {
    slices: Vec<Device>,
    /// The slices a process uses, by device and process.
    users: BTreeMap<(Arc<str>, u32), Vec<Arc<str>>>,
}

/// A row of the table: the slice and its memory in MiB.
struct MigRow {
    device: u32,
    number: u32,
    instance: u32,
    part: u32,
    used: u64,
    total: u64,
}

impl Slices {
    /// Parses the list and the table.
    pub(crate) fn parse(sent: &Mig) -> Self {
        let table = sent.table.iter().take(MAX_USES);
        let rows: Vec<MigRow> = table.clone().filter_map(|line| parse_memory_line(line)).collect();
        let mut parsed = Self::default();
        // Device and slice, by device index, GPU instance and compute instance.
        let mut slices_by_instance: BTreeMap<[u32; 3], (Arc<str>, Arc<str>)> = BTreeMap::new();
        let mut current = None;
        for line in sent.list.iter().take(MAX_USES) {
            if let Some(device) = parse_device_line(line) {
                current = Some(device);
                continue;
            }
            let (Some((device, name, parent)), Some((kind, number, uuid))) =
                (&current, parse_slice_line(line))
            else {
                continue;
            };
            let row = rows.iter().find(|row| row.device == *device && row.number == number);
            if let Some(row) = row {
                let instance = [*device, row.instance, row.part];
                slices_by_instance.insert(instance, (Arc::clone(parent), Arc::clone(&uuid)));
            }
            if parsed.slices.len() < MAX_DEVICES {
                let name = sanitize_shared(&format!("{name} {kind}"), MAX_NAME_LENGTH);
                parsed.slices.push(Device {
                    parent: Some(Arc::clone(parent)),
                    name: Reading::Known(name),
                    ..slice_device(uuid, number, row)
                });
            }
        }
        for (instance, pid) in table.filter_map(|line| parse_process_line(line)) {
            if let Some((parent, uuid)) = slices_by_instance.get(&instance) {
                let slices = parsed.users.entry((Arc::clone(parent), pid)).or_default();
                slices.push(Arc::clone(uuid));
            }
        }
        parsed
    }

    /// Adds the slices to the devices: all values if the sample is new, else only their identity.
    pub(crate) fn add_to(&self, devices: &mut Vec<Device>, is_new: bool) {
        let slices: Vec<Device> =
            self.slices.iter().filter(|slice| has_mig_parent(devices, slice)).cloned().collect();
        devices.extend(slices.into_iter().map(|slice| {
            if is_new {
                return slice;
            }
            Device {
                uuid: slice.uuid,
                parent: slice.parent,
                index: slice.index,
                ..Device::default()
            }
        }));
    }

    /// Assigns uses of MIG devices to their slices, where the slice is known.
    pub(crate) fn assign_uses(&self, mut uses: Vec<DeviceUse>) -> Vec<DeviceUse> {
        let mut assigned: BTreeMap<(Arc<str>, u32), usize> = BTreeMap::new();
        for device_use in &mut uses {
            let key = (Arc::clone(&device_use.device), device_use.pid);
            let Some(slices) = self.users.get(&key) else { continue };
            let next = assigned.entry(key).or_default();
            if let Some(slice) = slices.get(*next) {
                device_use.device = Arc::clone(slice);
                *next += 1;
            }
        }
        uses
    }
}

/// Returns true if the parent of a slice is present and in MIG mode.
fn has_mig_parent(devices: &[Device], slice: &Device) -> bool {
    let parent = devices.iter().find(|device| Some(&device.uuid) == slice.parent.as_ref());
    parent.is_some_and(|parent| parent.mig.get() == Some(true))
}

fn slice_device(uuid: Arc<str>, number: u32, row: Option<&MigRow>) -> Device {
    let [memory_used, memory_total] = row
        .map_or([Reading::Unknown(Reason::NotAvailable); 2], |row| {
            [row.used, row.total].map(|mib| Reading::checked(Bytes::from_mib(mib)))
        });
    let statics = row.map(|row| DeviceStatics {
        gpu_instance: Reading::Known(row.instance),
        compute_instance: Reading::Known(row.part),
        ..DeviceStatics::default()
    });
    let unsupported = Reason::NotSupported;
    Device {
        uuid,
        index: Reading::Known(number),
        memory_used,
        memory_total,
        utilization: Reading::Unknown(unsupported),
        memory_utilization: Reading::Unknown(unsupported),
        temperature: Reading::Unknown(unsupported),
        power: Reading::Unknown(unsupported),
        power_limit: Reading::Unknown(unsupported),
        sm_clock: Reading::Unknown(unsupported),
        statics: statics.and_then(DeviceStatics::shared),
        ..Device::default()
    }
}

/// Parses `GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)` into index, name and UUID.
fn parse_device_line(line: &str) -> Option<(u32, String, Arc<str>)> {
    let (number, rest) = line.strip_prefix("GPU ")?.split_once(": ")?;
    let (name, uuid) = rest.split_once(" (UUID: ")?;
    Some((number.parse().ok()?, name.to_owned(), parse_uuid(uuid)?))
}

/// Parses `MIG 1g.10gb     Device  0: (UUID: MIG-…)` into profile, index and UUID.
fn parse_slice_line(line: &str) -> Option<(String, u32, Arc<str>)> {
    let (kind, rest) = line.trim_start().split_once(" Device ")?;
    let (number, uuid) = rest.split_once(": (UUID: ")?;
    let kind = kind.trim_end();
    kind.starts_with("MIG ").then_some(())?;
    Some((kind.to_owned(), number.trim().parse().ok()?, parse_uuid(uuid)?))
}

fn parse_uuid(text: &str) -> Option<Arc<str>> {
    let uuid = text.strip_suffix(')')?.trim();
    (!uuid.is_empty()).then(|| sanitize_shared(uuid, MAX_NAME_LENGTH))
}

/// Parses `|  0    1   0   0  |     19MiB / 40192MiB | 60      0 | …`: device, instances, index, memory.
fn parse_memory_line(line: &str) -> Option<MigRow> {
    let mut cells = line.trim_matches('|').split('|');
    let mut words = cells.next()?.split_whitespace().map(|word| word.parse().ok());
    let (device, instance, part, number) =
        (words.next()??, words.next()??, words.next()??, words.next()??);
    let (used, total) = cells.next()?.split_once('/')?;
    let (used, total) = (parse_mib(used)?, parse_mib(total)?);
    Some(MigRow { device, number, instance, part, used, total })
}

fn parse_mib(text: &str) -> Option<u64> {
    text.trim().strip_suffix("MiB")?.trim().parse().ok()
}

/// Parses `|    0    7    0     12345      C   python     900MiB |`: device and both instances, then the
/// process.
fn parse_process_line(line: &str) -> Option<([u32; 3], u32)> {
    let words: Vec<&str> = line.trim_matches('|').split_whitespace().take(5).collect();
    let [device, instance, part, pid, "C" | "G" | "C+G" | "M+C"] = *words else { return None };
    let instance = [device.parse().ok()?, instance.parse().ok()?, part.parse().ok()?];
    Some((instance, pid.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mig() -> Mig {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        Mig {
            list: lines(&[
                "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)",
                "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-b)",
                "MIG 3g.40gb     Device  0: (UUID: MIG-1)",
                "  MIG 1c.2g.20gb  Device  1: (UUID: MIG-GPU-b/5/0)",
                "MIG 1g.10gb     Device  x: (UUID: MIG-3)",
                "MIG 1g.10gb     Device  7: (UUID: MIG-4",
            ]),
            table: lines(&[
                "|  1    1   0   0  |              19MiB / 40192MiB  | 60      0 |  3   0    3    0    3 |",
                "|                  |               0MiB / 65535MiB  |           |                       |",
                "|  1    5   0   1  |     11MiB / 20096MiB | 42      0 |  3   0    2    0    0 |",
                "|    0   N/A  N/A            3999      C   python                       900MiB |",
                "|    1    1    0             4000      C   python 7 8                   900MiB |",
                "|    1    5    0             4000      C   python                        10MiB |",
                "|  1    6   0   2  |  99999999999999999999MiB / 1MiB |",
            ]),
        }
    }

    fn parent_device(uuid: &str, mig: bool) -> Device {
        Device { uuid: uuid.into(), mig: Reading::Known(mig), ..Device::default() }
    }

    #[test]
    fn slices_are_decoded_from_list_and_table() {
        let slices = Slices::parse(&mig());
        let mut devices = vec![parent_device("GPU-a", false), parent_device("GPU-b", true)];
        slices.add_to(&mut devices, true);
        let [_, _, first, second] = &*devices else { panic!("{devices:?}") };
        assert_eq!(
            first.name.known().map(|name| &**name),
            Some("NVIDIA H100 80GB HBM3 MIG 3g.40gb")
        );
        assert_eq!((first.parent.as_deref(), &*first.uuid), (Some("GPU-b"), "MIG-1"));
        assert_eq!(first.memory_used, Reading::Known(Bytes(19 << 20)));
        assert_eq!(second.memory_total, Reading::Known(Bytes(20_096 << 20)));
        assert_eq!(second.statics.as_ref().unwrap().gpu_instance, Reading::Known(5));
        assert_eq!(second.utilization, Reading::Unknown(Reason::NotSupported));
    }

    #[test]
    fn without_a_new_table_slices_have_only_their_identity() {
        let mut devices = vec![parent_device("GPU-b", true)];
        Slices::parse(&mig()).add_to(&mut devices, false);
        assert_eq!(devices.len(), 3);
        assert_eq!(devices[1].memory_used, Reading::default());
        let mut devices = vec![parent_device("GPU-b", false)];
        Slices::parse(&mig()).add_to(&mut devices, false);
        assert_eq!(devices.len(), 1);
    }

    #[test]
    fn a_process_is_assigned_to_the_slices_in_the_table() {
        let device_use =
            |device: &str, pid| DeviceUse { device: device.into(), pid, ..DeviceUse::default() };
        let uses = vec![
            device_use("GPU-a", 3999),
            device_use("GPU-b", 4000),
            device_use("GPU-b", 4000),
            device_use("GPU-b", 4001),
        ];
        let assigned = Slices::parse(&mig()).assign_uses(uses);
        let devices: Vec<&str> = assigned.iter().map(|used| &*used.device).collect();
        assert_eq!(devices, ["GPU-a", "MIG-1", "MIG-GPU-b/5/0", "GPU-b"]);
    }
}
