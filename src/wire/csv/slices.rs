//! Decodes MIG slices from `nvidia-smi -L` (names and UUIDs) and from its process and memory tables.
//!
//! Its CSV query has no rows for slices, and its process query names the parent device.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{Bytes, Device, DeviceStatics, DeviceUse, Reading, Reason, sanitize_shared};
use crate::wire::body::Mig;
use crate::wire::csv::{MAX_DEVICES, MAX_NAME_LENGTH, MAX_USES};

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
    pub(crate) fn read(sent: &Mig) -> Self {
        let table = || sent.table.iter().take(MAX_USES);
        let mig_row: Vec<MigRow> = table().filter_map(|line| mig_row(line)).collect();
        let mut all = Self::default();
        // Device and slice, by device index, GPU instance and compute instance.
        let mut places: BTreeMap<[u32; 3], (Arc<str>, Arc<str>)> = BTreeMap::new();
        let mut whole = None;
        for line in sent.list.iter().take(MAX_USES) {
            if let Some(device) = device(line) {
                whole = Some(device);
                continue;
            }
            let (Some((device, name, parent)), Some((kind, number, uuid))) = (&whole, slice(line))
            else {
                continue;
            };
            let row = mig_row.iter().find(|row| row.device == *device && row.number == number);
            if let Some(row) = row {
                let place = [*device, row.instance, row.part];
                places.insert(place, (Arc::clone(parent), Arc::clone(&uuid)));
            }
            if all.slices.len() < MAX_DEVICES {
                let name = sanitize_shared(&format!("{name} {kind}"), MAX_NAME_LENGTH);
                all.slices.push(Device {
                    parent: Some(Arc::clone(parent)),
                    name: Reading::Known(name),
                    ..described(uuid, number, row)
                });
            }
        }
        for (place, pid) in table().filter_map(|line| user(line)) {
            if let Some((parent, uuid)) = places.get(&place) {
                let slices = all.users.entry((Arc::clone(parent), pid)).or_default();
                slices.push(Arc::clone(uuid));
            }
        }
        all
    }

    /// Adds the slices to the devices: all values if the sample is new, else only their identity.
    pub(crate) fn join(&self, devices: &mut Vec<Device>, is_new: bool) {
        let slices: Vec<Device> =
            self.slices.iter().filter(|slice| is_split(devices, slice)).cloned().collect();
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
    pub(crate) fn share_out(&self, mut uses: Vec<DeviceUse>) -> Vec<DeviceUse> {
        let mut given: BTreeMap<(Arc<str>, u32), usize> = BTreeMap::new();
        for used in &mut uses {
            let key = (Arc::clone(&used.device), used.pid);
            let Some(slices) = self.users.get(&key) else { continue };
            let place = given.entry(key).or_default();
            if let Some(slice) = slices.get(*place) {
                used.device = Arc::clone(slice);
                *place += 1;
            }
        }
        uses
    }
}

/// Returns true if the parent of a slice is present and in MIG mode.
fn is_split(devices: &[Device], slice: &Device) -> bool {
    let parent = devices.iter().find(|device| Some(&device.uuid) == slice.parent.as_ref());
    parent.is_some_and(|parent| parent.mig.get() == Some(true))
}

fn described(uuid: Arc<str>, number: u32, row: Option<&MigRow>) -> Device {
    let mib = |mib: fn(&MigRow) -> u64| {
        row.map_or(Reading::Unknown(Reason::NotAvailable), |row| {
            Reading::checked(Bytes::from_mib(mib(row)))
        })
    };
    let statics = row.map(|row| DeviceStatics {
        gpu_instance: Reading::Known(row.instance),
        compute_instance: Reading::Known(row.part),
        ..DeviceStatics::default()
    });
    let missing_reason = Reason::NotSupported;
    Device {
        uuid,
        index: Reading::Known(number),
        memory_used: mib(|row| row.used),
        memory_total: mib(|row| row.total),
        utilization: Reading::Unknown(missing_reason),
        memory_utilization: Reading::Unknown(missing_reason),
        temperature: Reading::Unknown(missing_reason),
        power: Reading::Unknown(missing_reason),
        power_limit: Reading::Unknown(missing_reason),
        sm_clock: Reading::Unknown(missing_reason),
        statics: statics.and_then(DeviceStatics::shared),
        ..Device::default()
    }
}

/// Parses `GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)` into index, name and UUID.
fn device(line: &str) -> Option<(u32, String, Arc<str>)> {
    let (number, rest) = line.strip_prefix("GPU ")?.split_once(": ")?;
    let (name, uuid) = rest.split_once(" (UUID: ")?;
    Some((number.parse().ok()?, name.to_owned(), identity(uuid)?))
}

/// Parses `MIG 1g.10gb     Device  0: (UUID: MIG-…)` into profile, index and UUID.
fn slice(line: &str) -> Option<(String, u32, Arc<str>)> {
    let (kind, rest) = line.trim_start().split_once(" Device ")?;
    let (number, uuid) = rest.split_once(": (UUID: ")?;
    let kind = kind.trim_end();
    kind.starts_with("MIG ").then_some(())?;
    Some((kind.to_owned(), number.trim().parse().ok()?, identity(uuid)?))
}

fn identity(text: &str) -> Option<Arc<str>> {
    let uuid = text.strip_suffix(')')?.trim();
    (!uuid.is_empty()).then(|| sanitize_shared(uuid, MAX_NAME_LENGTH))
}

/// Parses `|  0    1   0   0  |     19MiB / 40192MiB | 60      0 | …`: device, instances, index, memory.
fn mig_row(line: &str) -> Option<MigRow> {
    let mut cells = line.trim_matches('|').split('|');
    let mut words = cells.next()?.split_whitespace().map(|word| word.parse().ok());
    let (device, instance, part, number) =
        (words.next()??, words.next()??, words.next()??, words.next()??);
    let (used, total) = cells.next()?.split_once('/')?;
    let mib = |text: &str| text.trim().strip_suffix("MiB")?.trim().parse().ok();
    Some(MigRow { device, number, instance, part, used: mib(used)?, total: mib(total)? })
}

/// Parses `|    0    7    0     12345      C   python     900MiB |`: device and both instances, then the
/// process.
fn user(line: &str) -> Option<([u32; 3], u32)> {
    let mut words = line.trim_matches('|').split_whitespace();
    let mut next = || words.next()?.parse().ok();
    let place = [next()?, next()?, next()?];
    let pid = next()?;
    matches!(words.next(), Some("C" | "G" | "C+G" | "M+C")).then_some((place, pid))
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

    fn whole(uuid: &str, mig: bool) -> Device {
        Device { uuid: uuid.into(), mig: Reading::Known(mig), ..Device::default() }
    }

    #[test]
    fn list_and_table_together_tell_of_slices() {
        let slices = Slices::read(&mig());
        let mut devices = vec![whole("GPU-a", false), whole("GPU-b", true)];
        slices.join(&mut devices, true);
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
    fn between_two_tables_slices_stay_as_they_are() {
        let mut devices = vec![whole("GPU-b", true)];
        Slices::read(&mig()).join(&mut devices, false);
        assert_eq!(devices.len(), 3);
        assert_eq!(devices[1].memory_used, Reading::default());
        let mut devices = vec![whole("GPU-b", false)];
        Slices::read(&mig()).join(&mut devices, false);
        assert_eq!(devices.len(), 1);
    }

    #[test]
    fn a_process_belongs_to_the_slices_the_table_names() {
        let on =
            |device: &str, pid| DeviceUse { device: device.into(), pid, ..DeviceUse::default() };
        let uses = vec![on("GPU-a", 3999), on("GPU-b", 4000), on("GPU-b", 4000), on("GPU-b", 4001)];
        let shared = Slices::read(&mig()).share_out(uses);
        let devices: Vec<&str> = shared.iter().map(|used| &*used.device).collect();
        assert_eq!(devices, ["GPU-a", "MIG-1", "MIG-GPU-b/5/0", "GPU-b"]);
    }
}
