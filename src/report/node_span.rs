//! A node over the whole span: when it was watched, and what should have come from it.

use crate::report::counted::{CountedNode, CountedSums, DeviceRecord};
use crate::report::labels::ReportNames;
use gtop_collect::sums::TimeIntervals;
use gtop_fleet::DEFAULT_INTERVAL;

/// A node with what is known of it after the whole span.
pub(super) struct NodeSpan<'a> {
    pub(super) record: &'a CountedNode<'a>,
    pub(super) label: String,
    /// Those that count.
    pub(super) devices: Vec<&'a DeviceRecord<'a>>,
    /// When it was watched.
    pub(super) watched: TimeIntervals,
    pub(super) down_seconds: f64,
    /// Seconds in which its samples do not count, as none of its devices was seen yet and it is not known who held them.
    pub(super) blind_seconds: f64,
    /// Samples that should have come.
    pub(super) expected: f64,
}

impl NodeSpan<'_> {
    /// Returns how many samples were seen; none if a fault hid all of its devices.
    pub(super) fn seen_samples(&self) -> u64 {
        let is_blind = self.devices.is_empty() && self.record.sums.source_fault.is_some();
        if is_blind && !self.record.is_of_holders { 0 } else { self.record.samples }
    }

    /// Returns for how many seconds a device was watched.
    pub(super) fn watched_seconds(&self, device: &DeviceRecord<'_>) -> f64 {
        let there = device.present.union().intersection(&self.watched);
        if device.is_whole {
            there.seconds()
        } else {
            device.usage.seconds() + device.held_time.unseen_seconds(&there)
        }
    }

    /// Returns for how many seconds a device gave no values although its node was connected.
    pub(super) fn unseen_seconds(&self, device: &DeviceRecord<'_>) -> f64 {
        (self.watched_seconds(device) - device.usage.seconds() - self.down_seconds).max(0.0)
    }
}

/// Returns the nodes that were watched, or have devices, and count under their own name.
pub(super) fn node_spans<'a>(
    counted: &'a CountedSums<'a>,
    names: &mut ReportNames,
) -> Vec<NodeSpan<'a>> {
    let known = counted.nodes.values().map(|record| record.sums.interval);
    let usual = known.filter(|interval| !interval.is_zero()).max().unwrap_or(DEFAULT_INTERVAL);
    let mut nodes: Vec<NodeSpan<'_>> = counted
        .nodes
        .iter()
        .map(|(name, record)| {
            let mut watched = record.watched.clone();
            let mut devices: Vec<&DeviceRecord<'_>> = record.devices.iter().collect();
            devices.retain(|device| device.is_whole || device.held_time.is_held());
            if record.is_of_holders {
                watched = watched.intersection(&held_times(&devices));
            }
            let interval =
                if record.sums.interval.is_zero() { usual } else { record.sums.interval };
            NodeSpan {
                record,
                devices,
                label: names.node(name),
                down_seconds: record.sums.down.union().intersection(&watched).seconds(),
                expected: watched.seconds() / interval.as_secs_f64(),
                blind_seconds: if record.is_of_holders {
                    record.sums.blind_times().intersection(&watched).seconds()
                } else {
                    0.0
                },
                watched,
            }
        })
        .collect();
    nodes.retain(|node| {
        let record = node.record;
        let is_watched = !node.watched.as_slice().is_empty();
        if record.sums.elsewhere.as_slice().is_empty() {
            is_watched || !node.devices.is_empty()
        } else {
            is_watched && record.samples > 0
        }
    });
    nodes
}

/// Returns when any of the devices was held by those that count.
fn held_times(devices: &[&DeviceRecord<'_>]) -> TimeIntervals {
    let mut times = TimeIntervals::default();
    for device in devices {
        times.extend(&device.held_time.intervals);
    }
    times.union()
}
