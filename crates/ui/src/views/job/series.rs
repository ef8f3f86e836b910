//! Mean utilization of a job's devices, one value per second.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::views::job::summary::JobSummary;
use crate::widgets::series::Means;
use gtop_fleet::{Fleet, Metric, Node};
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

/// Equals the history that nodes keep.
pub(crate) const KEPT_SECONDS: usize = 300;
/// The newest seconds are computed again, since samples arrive late.
const RECOMPUTED_SECONDS: i64 = 3;

/// The means of the devices of one job.
///
/// All but the newest are cached while the devices are the same: a thousand nodes keep millions of points.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeanSeries {
    devices: Vec<(NodeName, Arc<str>)>,
    /// Unix time of the last mean, in seconds.
    last_second: i64,
    means: VecDeque<Option<f32>>,
}

impl MeanSeries {
    /// Appends the means of all devices of a job up to `now`.
    pub(crate) fn update(&mut self, fleet: &Fleet, summary: &JobSummary, now: Timestamp) {
        let devices = summary.rows.iter().flat_map(|row| {
            row.cells.iter().filter_map(|cell| Some((row.node_index?, cell.device)))
        });
        self.update_with(fleet, now, devices);
    }

    /// Appends the means of these devices up to `now`: the indices of their node and of the device.
    pub(crate) fn update_with(
        &mut self,
        fleet: &Fleet,
        now: Timestamp,
        devices: impl IntoIterator<Item = (usize, usize)>,
    ) {
        let devices = devices.into_iter().filter_map(|(node, device)| {
            let node = fleet.nodes.get(node)?;
            Some((&**node, &node.devices.get(device)?.uuid))
        });
        let devices: Vec<(&Node, &Arc<str>)> = devices.collect();
        let known = self.devices.iter().map(|(node, uuid)| (node, uuid));
        let is_same = known.eq(devices.iter().map(|(node, uuid)| (&node.name, *uuid)));
        let second = now.second();
        let span = i64::try_from(KEPT_SECONDS).unwrap_or(i64::MAX);
        let passed = second - self.last_second;
        if !is_same || passed < 0 || passed >= span {
            let owned = devices.iter().map(|(node, uuid)| (node.name.clone(), Arc::clone(uuid)));
            *self = Self { devices: owned.collect(), ..Self::default() };
        } else if passed == 0 {
            return;
        }
        let count =
            if self.means.is_empty() { span } else { (passed + RECOMPUTED_SECONDS).min(span) };
        let count = usize::try_from(count).unwrap_or(KEPT_SECONDS);
        let revised = count.saturating_sub(usize::try_from(passed).unwrap_or(0));
        self.means.truncate(self.means.len().saturating_sub(revised));
        self.means.extend(means(&devices, now, count));
        let excess = self.means.len().saturating_sub(KEPT_SECONDS);
        self.means.drain(..excess);
        self.last_second = second;
    }

    /// Returns the means in `count` columns, and the seconds per column.
    ///
    /// Columns begin at whole multiples of that many seconds, so that their values stay the same while they
    /// scroll.
    pub(crate) fn columns(&self, count: usize) -> (Vec<Option<f32>>, usize) {
        let seconds_per_column = KEPT_SECONDS.div_ceil(count.max(1));
        let seconds = i64::try_from(seconds_per_column).unwrap_or(1);
        let first = self.last_second - i64::try_from(self.means.len()).unwrap_or(0) + 1;
        let last = self.last_second.div_euclid(seconds);
        let mut columns = Means::new(count);
        for (mean, second) in self.means.iter().zip(first..) {
            let back = usize::try_from(last - second.div_euclid(seconds)).unwrap_or(usize::MAX);
            if let Some(index) = count.checked_sub(back.saturating_add(1)) {
                columns.add(index, *mean, 1.0);
            }
        }
        (columns.finish(), seconds_per_column)
    }
}

fn means(devices: &[(&Node, &Arc<str>)], now: Timestamp, count: usize) -> Vec<Option<f32>> {
    let mut means = Means::new(count);
    for (node, uuid) in devices {
        let points = node.history.last(uuid, Metric::Utilization, now, count);
        for (at, point) in points.into_iter().enumerate() {
            means.add(at, point, 1.0);
        }
    }
    means.finish()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gtop_fleet::insight::FleetView;
    use gtop_model::{Allocation, Device, DeviceAllocation, Job, JobList};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    /// Two devices, of which one is always busy and the other was busy until second 1000.
    fn fleet_view(second: i64) -> FleetView {
        let mut node = Node::new(NodeName::new("a").unwrap(), Duration::from_secs(300));
        node.devices = ["GPU-1", "GPU-2", "GPU-3"]
            .map(|uuid| Device { uuid: uuid.into(), ..Device::default() })
            .to_vec()
            .into();
        for now in 900..=second {
            for (uuid, share) in [("GPU-1", 90.0), ("GPU-2", if now < 1_000 { 70.0 } else { 10.0 })]
            {
                node.history.record(&uuid.into(), Metric::Utilization, at(now), share);
            }
            node.history.record(&"GPU-3".into(), Metric::Utilization, at(now), 1.0);
        }
        let devices = DeviceAllocation::Indices([0, 1].into());
        let allocation = Allocation { node: node.name.clone(), devices };
        let job = Job { allocations: [allocation].into(), ..Job::example("7") };
        let list = JobList { jobs: vec![job], ..JobList::default() };
        let fleet = Fleet::new(vec![Arc::new(node)].into());
        FleetView::new(fleet.with_jobs(Some(Arc::new(list))), at(second))
    }

    fn series_after(seconds: &[i64]) -> MeanSeries {
        let mut series = MeanSeries::default();
        for second in seconds {
            let fleet_view = fleet_view(*second);
            let summary = JobSummary::build(
                &fleet_view,
                &fleet_view.job_index().entries[0],
                crate::widgets::number_format::Units::default(),
            );
            series.update(&fleet_view.fleet, &summary, fleet_view.now);
        }
        series
    }

    #[test]
    fn an_incrementally_updated_series_equals_one_computed_at_once() {
        let once = series_after(&[1_050]);
        for steps in [&[1_000, 1_001, 1_002, 1_010, 1_050][..], &[1_050, 1_050], &[1_060, 1_050]] {
            assert_eq!(series_after(steps).means, once.means, "{steps:?}");
        }
        assert_eq!(once.means.len(), KEPT_SECONDS);
    }

    #[test]
    fn points_of_other_devices_are_not_joined() {
        let (earlier, later) = (fleet_view(1_049), fleet_view(1_050));
        let mut series = MeanSeries::default();
        for (view, devices) in [(&earlier, [0, 1]), (&later, [0, 1]), (&later, [0, 2])] {
            series.update_with(&view.fleet, view.now, devices.map(|device| (0, device)));
        }
        let mut once = MeanSeries::default();
        once.update_with(&later.fleet, later.now, [(0, 0), (0, 2)]);
        assert_eq!(series.means, once.means);
        assert_ne!(series.means, series_after(&[1_050]).means);
    }

    #[test]
    fn columns_are_means_of_the_job_s_devices_and_gaps_stay_gaps() {
        let (columns, seconds_per_column) = series_after(&[1_049]).columns(30);
        assert_eq!((columns.len(), seconds_per_column), (30, 10));
        let rounded = |column: usize| columns[column].map(f32::round);
        assert_eq!([rounded(29), rounded(25)], [Some(50.0); 2]);
        assert_eq!([rounded(24), rounded(15)], [Some(80.0); 2]);
        assert_eq!(rounded(14), None);
        assert_eq!(series_after(&[1_049]).columns(0).0, []);
    }
}
