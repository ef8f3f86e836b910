//! The utilization series of each node over the last minute.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::views::fleet::group::GroupMember;
use crate::widgets::series::Means;
use gtop_fleet::{Metric, Node};
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

/// The points of a sparkline, and the seconds per point.
pub(super) const SPARKLINE: (u16, u16) = (12, 5);

/// The series drawn last, by node and group devices: the step they end with, and their points.
pub(super) type SeriesCache = BTreeMap<(NodeName, Option<Arc<[usize]>>), (i64, Vec<Option<f32>>)>;

pub(super) fn series_step(now: Timestamp) -> i64 {
    now.second().div_euclid(i64::from(SPARKLINE.1))
}

/// Returns the mean utilization of a node per step.
///
/// With few rows, the last step is the current, incomplete one. With many, series change only when a step is
/// complete, to save bandwidth on remote terminals.
pub(super) fn node_series(
    cache: &mut SeriesCache,
    (member, node): (&GroupMember, &Node),
    now: Timestamp,
    is_calm: bool,
) -> Vec<Option<f32>> {
    let key = (node.name.clone(), member.devices.clone());
    let step = if is_calm { series_step(now) - 1 } else { series_step(now) };
    if let Some((_, points)) = cache.get(&key).filter(|(own, _)| is_calm && *own == step) {
        return points.clone();
    }
    let seconds = usize::from(SPARKLINE.0) * usize::from(SPARKLINE.1);
    let end = Timestamp::from_micros(((step + 1) * i64::from(SPARKLINE.1) - 1) * 1_000_000);
    let mut means = Means::new(usize::from(SPARKLINE.0));
    for device in member.device_indices(node).iter().filter_map(|at| node.devices.get(*at)) {
        let points = node.history.last(&device.uuid, Metric::Utilization, end, seconds);
        for (second, point) in points.into_iter().enumerate() {
            means.add(second / usize::from(SPARKLINE.1), point, 1.0);
        }
    }
    let points = means.finish();
    cache.insert(key, (step, points.clone()));
    points
}
