//! How long a device has been idle: by its history, or while its present holders have it.

use std::time::Duration;

use crate::widgets::number_format::percent_value;
use gtop_fleet::insight::FleetView;
use gtop_fleet::{Metric, Node, Waste, is_held, is_idle};
use gtop_local::time::Timestamp;

/// A held device that is idle for this long is marked.
pub(super) const IDLE_HELD_WARNING: Duration = Duration::from_secs(5 * 60);
/// Shorter idle times are not reported: the job may be waiting for its next batch.
const MIN_IDLE_TIME: Duration = Duration::from_secs(60);
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
    percent_value(device.load()).filter(|now| *now < limit)?;
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
        // What happened before so long a gap is unknown.
        if gap > Waste::MAX_GAP.as_secs() {
            break;
        }
    }
    Some(ElapsedTime { span: Duration::from_secs(lasted), is_lower_bound })
}

/// Returns how long the present holders of a device have left it idle; `None` if it is busy, not held, or idle only
/// briefly.
pub(super) fn idle_held_time(
    fleet_view: &FleetView,
    node: &Node,
    position: usize,
) -> Option<ElapsedTime> {
    let device = node.devices.get(position).filter(|device| is_idle(device))?;
    is_held(node, device).then_some(())?;
    let FleetView { fleet, now, .. } = fleet_view;
    // What is wasted counts under one name of the machine.
    let idle = fleet.waste.node(fleet.machine_name(&node.name))?.idle.get(&device.uuid)?;
    let span = now.since(idle.since);
    (span >= MIN_IDLE_TIME).then_some(ElapsedTime { span, is_lower_bound: idle.is_lower_bound })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use gtop_fleet::{ACTIVE_PERCENT, Fleet, JobLookup, SourceState};
    use gtop_model::{
        Allocation, Device, DeviceAllocation, Job, JobList, Link, NodeName, Percent, Reading,
        Source,
    };

    const NOW: Timestamp = Timestamp::from_micros(10_000_000_000);

    /// A node whose devices had these loads, second by second, the last one now.
    fn node(loads: &[&[Option<f32>]]) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::from_secs(300));
        for (index, points) in loads.iter().enumerate() {
            let uuid: Arc<str> = format!("GPU-{index}").into();
            let last = points.iter().rev().find_map(|point| *point);
            node.devices.push(Device {
                uuid: Arc::clone(&uuid),
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
                if let Some(share) = point {
                    node.history.record(&device.uuid, Metric::Utilization, at, share);
                }
            }
        }
        node
    }

    fn seconds(span: u64, is_lower_bound: bool) -> ElapsedTime {
        ElapsedTime { span: Duration::from_secs(span), is_lower_bound }
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

    /// Returns how long the first device is idle-held if it was idle for 100 s and the job on it began so long ago.
    fn held_for(ago: u64, has_job: bool) -> Option<ElapsedTime> {
        let mut node = node(&[&[Some(0.0); 100]]);
        node.link = Link::Up;
        node.device_sources = vec![Source::host()].into();
        node.sources.push(SourceState {
            source: Source::host(),
            taken_at: Some(NOW),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        });
        let devices = DeviceAllocation::Indices([0].into());
        let job = Job {
            allocations: [Allocation { node: node.name.clone(), devices }].into(),
            starts_at: Some(NOW.minus(Duration::from_secs(ago))),
            ..Job::example("7")
        };
        let jobs = Arc::new(JobList {
            jobs: if has_job { vec![job] } else { Vec::new() },
            ..JobList::default()
        });
        let fleet = Fleet::new([Arc::new(node)].into()).with_jobs(Some(Arc::clone(&jobs)));
        let waste = Waste::seeded(fleet.nodes.iter(), Some(&JobLookup::of(Some(&jobs))));
        let fleet = Fleet { waste: Arc::new(waste), ..fleet };
        let fleet_view = FleetView::new(fleet, NOW);
        idle_held_time(&fleet_view, &fleet_view.fleet.nodes[0], 0)
    }

    #[test]
    fn time_before_the_job_began_and_a_short_pause_are_not_idle_held() {
        assert_eq!(held_for(70, true), Some(seconds(70, false)));
        assert_eq!(held_for(30, true), None);
        assert_eq!(held_for(5_000, true), Some(seconds(99, true)));
        assert_eq!(held_for(70, false), None);
    }
}
