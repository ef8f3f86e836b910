//! How long a device has been idle, as far as its history reaches.

use std::time::Duration;

use crate::fleet::{ACTIVE_PERCENT, Metric, Node};
use crate::insight::ownership::DeviceOwners;
use crate::time::Timestamp;
use crate::ui::widgets::number_format::percent_value;

/// A held device that is idle for this long is reported as idle-held; the default history reaches as far.
pub(super) const IDLE_HELD_WARNING: Duration = Duration::from_secs(5 * 60);
/// How far to look back for the last activity of a device.
pub(super) const MAX_LOOKBACK: Duration = Duration::from_secs(60 * 60);
/// Shorter idle times are not reported: the job may be waiting for its next batch.
const MIN_IDLE_TIME: Duration = Duration::from_secs(60);
/// After this many seconds without a sample, what happened before is unknown.
const MAX_GAP_SECONDS: usize = 90;

/// How long a state has lasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ElapsedTime {
    pub(super) span: Duration,
    /// It may have lasted longer: the history does not reach further back.
    pub(super) is_lower_bound: bool,
}

/// Returns how long a device has been below `limit`, looking back at most `reach`; `None` if it is not below
/// it now.
pub(super) fn time_below(
    node: &Node,
    position: usize,
    limit: f32,
    now: Timestamp,
    lookback: Duration,
) -> Option<ElapsedTime> {
    let device = node.devices.get(position)?;
    percent_value(device.utilization).filter(|now| *now < limit)?;
    let count = usize::try_from(lookback.as_secs()).unwrap_or(0);
    let points = node.history.last(&device.uuid, Metric::Utilization, now, count);
    let (mut lasted, mut gap, mut is_lower_bound) = (0, 0, true);
    for (ago, point) in (1_u64..).zip(points.iter().rev()) {
        match point {
            Some(share) if *share < limit => (lasted, gap) = (ago, 0),
            Some(_) => {
                is_lower_bound = false;
                break;
            }
            None => gap += 1,
        }
        if gap > MAX_GAP_SECONDS {
            break;
        }
    }
    Some(ElapsedTime { span: Duration::from_secs(lasted), is_lower_bound })
}

/// Returns how long a held device has been idle; `None` if it is busy, not held, or idle only briefly.
pub(super) fn idle_held_time(
    node: &Node,
    owners: &DeviceOwners,
    position: usize,
    now: Timestamp,
    lookback: Duration,
) -> Option<ElapsedTime> {
    owners.devices.get(position).filter(|owner| owner.is_held)?;
    time_below(node, position, ACTIVE_PERCENT, now, lookback)
        .filter(|idle| idle.span >= MIN_IDLE_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insight::ownership::DeviceOwner;
    use crate::model::{Device, JobId, NodeName, Percent, Reading};

    const NOW: Timestamp = Timestamp::from_micros(10_000_000_000);

    /// A node whose devices had these loads, second by second, the last one now.
    fn node(loads: &[&[Option<f32>]]) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::from_secs(300));
        for (index, points) in loads.iter().enumerate() {
            let uuid: std::sync::Arc<str> = format!("GPU-{index}").into();
            let last = points.iter().rev().find_map(|point| *point);
            node.devices.push(Device {
                uuid: std::sync::Arc::clone(&uuid),
                utilization: last
                    .map_or_else(Reading::default, |load| Reading::checked(Percent::new(load))),
                ..Device::default()
            });
        }
        let longest = loads.iter().map(|points| points.len()).max().unwrap_or(0);
        for ago in (0..longest).rev() {
            let at =
                Timestamp::from_micros(NOW.as_micros() - i64::try_from(ago).unwrap() * 1_000_000);
            for (device, points) in node.devices.iter().zip(loads) {
                let point = points.len().checked_sub(ago + 1).and_then(|index| points[index]);
                if let Some(share) = point.and_then(Percent::new) {
                    node.history.record(&device.uuid, Metric::Utilization, at, share);
                }
            }
        }
        node
    }

    fn seconds(span: u64, is_lower_bound: bool) -> ElapsedTime {
        ElapsedTime { span: Duration::from_secs(span), is_lower_bound }
    }

    fn owners_of(jobs: &[&str]) -> DeviceOwners {
        let owner = |job: &&str| DeviceOwner {
            jobs: JobId::new(job).into_iter().collect(),
            is_held: true,
            is_used: true,
            ..DeviceOwner::default()
        };
        DeviceOwners { devices: jobs.iter().map(owner).collect(), ..DeviceOwners::default() }
    }

    #[test]
    fn idle_time_counts_from_the_last_activity_or_from_the_start_of_history() {
        let lookback = Duration::from_secs(900);
        let work = [vec![Some(80.0)], vec![Some(1.0); 20]].concat();
        let gaps = [vec![Some(1.0)], vec![None; 9], vec![Some(2.0)]].concat();
        for (points, found) in [
            (vec![Some(0.0); 100], Some(seconds(100, true))),
            (work, Some(seconds(20, false))),
            (gaps, Some(seconds(11, true))),
            (vec![Some(9.0)], None),
            (vec![None], None),
        ] {
            let node = node(&[&points]);
            assert_eq!(time_below(&node, 0, ACTIVE_PERCENT, NOW, lookback), found, "{points:?}");
        }
    }

    #[test]
    fn a_short_pause_is_not_idle_held() {
        let lookback = Duration::from_secs(900);
        for (idle, is_held) in [(30, false), (70, true)] {
            let node = node(&[&vec![Some(0.0); idle]]);
            let found = idle_held_time(&node, &owners_of(&["1"]), 0, NOW, lookback).is_some();
            assert_eq!(found, is_held, "{idle}");
            let nobody =
                DeviceOwners { devices: vec![DeviceOwner::default()], ..DeviceOwners::default() };
            assert_eq!(idle_held_time(&node, &nobody, 0, NOW, lookback), None);
        }
    }
}
