//! The utilization log in the format of rntop's `--output`, which rntop-board reads.
//!
//! Rows are in CSV without quotes: `timestamp,node,index,utilization,memory_used,memory_total`, with the time of the
//! sample in local time, and memory in MiB.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::tz::TimeZone;

use gtop_fleet::{Fleet, Node};
use gtop_local::time::Timestamp;
use gtop_model::{Device, NodeName, Percent};

/// The first line of the file.
pub const RNTOP_HEADER: &str = "timestamp,node,index,utilization,memory_used,memory_total\n";

/// When each device was last logged, so that no sample is logged twice.
#[derive(Clone, Debug, Default)]
pub struct RntopLog(BTreeMap<(NodeName, Arc<str>), Timestamp>);

impl RntopLog {
    /// Returns the row of each device with a sample that was not logged yet, and the log after these rows.
    ///
    /// A device whose utilization or memory is unknown or old has no row. A slice has none either: it is part of its
    /// device, which is numbered by its position, as in rntop.
    pub fn next(&self, fleet: &Fleet, now: Timestamp, zone: &TimeZone) -> (String, Self) {
        let mut rows = String::new();
        let mut logged = BTreeMap::new();
        for node in fleet.machines() {
            for (index, (position, device)) in node.whole_devices().enumerate() {
                let key = (node.name.clone(), Arc::clone(&device.uuid));
                let last = self.0.get(&key).copied();
                let sampled = sampled_at(node, position, now);
                // A clock that is set back must not end the log.
                let row = sampled.filter(|at| last != Some(*at)).and_then(|at| {
                    let values = values(device)?;
                    let time = local_time(at, zone)?;
                    writeln!(rows, "{time},{},{index},{values}", node.name.without_login()).ok()?;
                    Some(at)
                });
                if let Some(at) = row.or(last) {
                    logged.insert(key, at);
                }
            }
        }
        (rows, Self(logged))
    }
}

/// Returns the time of the device's last sample, by the local clock; `None` if it is old.
fn sampled_at(node: &Node, position: usize, now: Timestamp) -> Option<Timestamp> {
    node.device_freshness(position, now).is_fresh().then_some(())?;
    node.source(node.device_sources.get(position)?)?.taken_at
}

/// Returns the cells of utilization and memory; `None` if one is unknown.
fn values(device: &Device) -> Option<String> {
    let used = device.memory_used.get()?.0 >> 20;
    let total = device.memory_total.get()?.0 >> 20;
    let utilization = device.load().get().map(Percent::get)?;
    device.fault.is_none().then(|| format!("{utilization:.0},{used},{total}"))
}

/// Returns a time as `nvidia-smi` prints it.
fn local_time(at: Timestamp, zone: &TimeZone) -> Option<String> {
    let at = jiff::Timestamp::from_microsecond(at.as_micros()).ok()?.to_zoned(zone.clone());
    Some(at.strftime("%Y/%m/%d %H:%M:%S%.3f").to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gtop_fleet::SourceState;
    use gtop_model::Bytes;
    use gtop_model::{DeviceFault, Reading, Reason, Source};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(1_795_226_046_497_000 + seconds * 1_000_000)
    }

    fn device(uuid: &str, utilization: f32, used: u64) -> Device {
        Device {
            uuid: uuid.into(),
            utilization: Reading::checked(Percent::new(utilization)),
            memory_used: Reading::Known(Bytes(used << 20)),
            memory_total: Reading::Known(Bytes(81_920 << 20)),
            ..Device::default()
        }
    }

    fn fleet(name: &str, devices: Vec<Device>, taken_at: i64) -> Fleet {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        let source = Source::new("nvml");
        node.device_sources = vec![source.clone(); devices.len()].into();
        node.devices = devices.into();
        node.sources.push(SourceState {
            source,
            taken_at: Some(at(taken_at)),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        });
        Fleet::new([Arc::new(node)].into())
    }

    fn rows(log: &RntopLog, fleet: &Fleet, now: i64) -> (String, RntopLog) {
        log.next(fleet, at(now), &TimeZone::UTC)
    }

    #[test]
    fn a_row_is_written_once_per_sample() {
        let fleet_at = |second| {
            fleet("ada@gpu02:22", vec![device("a", 36.6, 0), device("b", 99.0, 70_000)], second)
        };
        let (text, log) = rows(&RntopLog::default(), &fleet_at(0), 1);
        assert_eq!(
            text,
            "2026/11/21 01:54:06.497,gpu02:22,0,37,0,81920\n\
             2026/11/21 01:54:06.497,gpu02:22,1,99,70000,81920\n"
        );
        let (text, log) = rows(&log, &fleet_at(0), 2);
        assert_eq!(text, "");
        let (text, _) = rows(&log, &fleet_at(5), 6);
        assert!(text.starts_with("2026/11/21 01:54:11.497,gpu02:22,0,37,0,81920\n"), "{text}");
    }

    #[test]
    fn absent_and_old_values_have_no_row_and_slices_are_part_of_their_device() {
        let unknown = || Reading::Unknown(Reason::NotSupported);
        for (name, changed, expected) in [
            ("known", device("a", 0.0, 0), "0,0,81920"),
            ("no utilization", Device { utilization: unknown(), ..device("a", 0.0, 0) }, ""),
            (
                "no memory",
                Device {
                    memory_used: Reading::Unknown(Reason::NoPermission),
                    ..device("a", 0.0, 0)
                },
                "",
            ),
            ("lost", Device { fault: Some(DeviceFault::Lost), ..device("a", 0.0, 0) }, ""),
        ] {
            let slice = Device { parent: Some("a".into()), ..device("slice", 50.0, 1) };
            let fleet = fleet("n", vec![changed, slice, device("b", 7.0, 1)], 0);
            let (text, _) = rows(&RntopLog::default(), &fleet, 1);
            let cells: Vec<&str> = text
                .lines()
                .filter_map(|line| line.split_once(",n,"))
                .map(|(_, row)| row)
                .collect();
            let first = (!expected.is_empty()).then(|| format!("0,{expected}"));
            let expected: Vec<String> =
                first.into_iter().chain(["1,7,1,81920".to_owned()]).collect();
            assert_eq!(cells, expected, "{name}");
        }
        let old = fleet("n", vec![device("a", 5.0, 5)], 0);
        assert_eq!(rows(&RntopLog::default(), &old, 60).0, "");
    }

    #[test]
    fn a_device_is_logged_again_after_an_absence_only_with_a_newer_sample() {
        let first = fleet("n", vec![device("a", 5.0, 5)], 0);
        let (_, log) = rows(&RntopLog::default(), &first, 0);
        let unknown = Device { utilization: Reading::default(), ..device("a", 0.0, 0) };
        let (text, log) = rows(&log, &fleet("n", vec![unknown], 1), 1);
        assert_eq!(text, "");
        assert_eq!(rows(&log, &first, 2).0, "");
        assert_ne!(rows(&log, &fleet("n", vec![device("a", 5.0, 5)], 2), 2).0, "");
        // What is no longer watched is forgotten.
        let (_, log) = rows(&log, &Fleet::default(), 2);
        assert!(log.0.is_empty());
    }
}
