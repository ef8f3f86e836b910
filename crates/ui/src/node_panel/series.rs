//! Series recorded for the nodes on the screen, for metrics that the fleet's history does not hold.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::chart_metric::ChartMetric;
use crate::widgets::number_format::used_percent;
use crate::widgets::series::TimeSeries;
use gtop_fleet::Node;
use gtop_fleet::metrics::charts;
use gtop_local::time::Timestamp;
use gtop_model::{Link, NodeName};

const KEPT_SECONDS: usize = 400;
/// Nodes whose series are kept; the one viewed least recently is dropped first.
const KEPT_NODES: usize = 8;

/// A recorded metric, in percent with a resolution of 0.5.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SeriesId {
    /// A metric of the device with this UUID.
    Device(Arc<str>, ChartMetric),
    /// Host memory in use.
    HostMemory,
    Swap,
}

/// Series of the nodes viewed last.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeSeries {
    nodes: VecDeque<NodeRecord>,
}

/// The series of one node; a point is a share in halves of a percent.
type NodeRecord = (NodeName, BTreeMap<SeriesId, TimeSeries<Option<u8>>>);

impl NodeSeries {
    /// Records the current values of a node. Called again within a second, it replaces the point.
    pub(crate) fn record(&mut self, node: &Node, now: Timestamp) {
        let second = now.second();
        let index = self.nodes.iter().position(|(name, _)| *name == node.name);
        let record = index.and_then(|index| self.nodes.remove(index));
        let (name, mut series) = record.unwrap_or_else(|| (node.name.clone(), BTreeMap::new()));
        let values = current_values(node, now);
        let is_measured = !values.is_empty();
        for (id, share) in values {
            series.entry(id).or_default().record(second, Some(half_percents(share)), KEPT_SECONDS);
        }
        // Time goes back when a recording is searched. A node that is down keeps its last graphs.
        series.retain(|_, points| {
            let age = usize::try_from(second - points.last_second());
            age.is_ok_and(|age| age < KEPT_SECONDS || !is_measured)
        });
        self.nodes.push_back((name, series));
        if self.nodes.len() > KEPT_NODES {
            self.nodes.pop_front();
        }
    }

    /// Returns the `count` seconds up to `now`, oldest first.
    pub(crate) fn last(
        &self,
        node: &Node,
        id: &SeriesId,
        now: Timestamp,
        count: usize,
    ) -> Vec<Option<f32>> {
        let record = self.nodes.iter().find(|(name, _)| *name == node.name);
        let Some(series) = record.and_then(|(_, series)| series.get(id)) else {
            return vec![None; count];
        };
        let points = series.until(now.second(), count);
        points.map(|point| point.copied().flatten().map(|halves| f32::from(halves) / 2.0)).collect()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
fn half_percents(share: f32) -> u8 {
    (share * 2.0).round().clamp(0.0, 200.0) as u8
}

/// Returns the values that are known and fresh.
fn current_values(node: &Node, now: Timestamp) -> Vec<(SeriesId, f32)> {
    let mut values = Vec::new();
    if node.link != Link::Up {
        return values;
    }
    if node.host_freshness(now).is_fresh() {
        let fast = &node.host.fast;
        let memory = used_percent(fast.memory_total.get(), fast.memory_available.get());
        values.extend(memory.map(|share| (SeriesId::HostMemory, share)));
        let swap = used_percent(fast.swap_total.get(), fast.swap_free.get());
        values.extend(swap.map(|share| (SeriesId::Swap, share)));
    }
    let mut recorded = charts();
    recorded.retain(|chart| chart.metric.history.is_none());
    for (index, device) in node.devices.iter().enumerate() {
        if device.fault.is_some() || !node.device_freshness(index, now).is_fresh() {
            continue;
        }
        values.extend(recorded.iter().filter_map(|chart| {
            let id = SeriesId::Device(Arc::clone(&device.uuid), ChartMetric::of(chart));
            Some((id, chart.share(device)?))
        }));
    }
    values
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gtop_fleet::SourceState;
    use gtop_model::{Bytes, Reading, Source};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn node(name: &str, free: u64, second: i64) -> Node {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        node.link = Link::Up;
        node.sources = vec![SourceState {
            source: Source::host(),
            taken_at: Some(at(second)),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        }];
        node.host.fast.memory_total = Reading::Known(Bytes(100));
        node.host.fast.memory_available = Reading::Known(Bytes(free));
        node
    }

    fn last(series: &NodeSeries, second: i64, count: usize) -> Vec<Option<f32>> {
        series.last(&node("a", 0, 0), &SeriesId::HostMemory, at(second), count)
    }

    #[test]
    fn a_second_has_one_point_and_missing_seconds_are_gaps() {
        let mut series = NodeSeries::default();
        for (second, free) in [(10, 90), (10, 80), (11, 70), (14, 60)] {
            series.record(&node("a", free, second), at(second));
        }
        let known = [Some(20.0), Some(30.0), None, None, Some(40.0)];
        assert_eq!(last(&series, 14, 5), known);
        assert_eq!(last(&series, 15, 3), [None, Some(40.0), None]);
        assert_eq!(last(&series, 14, 7)[..2], [None, None]);
        // A stale value is not recorded.
        series.record(&node("a", 60, 14), at(30));
        assert_eq!(last(&series, 30, 2), [None, None]);
    }

    #[test]
    fn a_node_that_is_down_keeps_its_last_points() {
        let mut series = NodeSeries::default();
        series.record(&node("a", 90, 10), at(10));
        let mut down = node("a", 90, 10);
        down.link = Link::Idle;
        series.record(&down, at(10_000));
        assert_eq!(last(&series, 10, 1), [Some(10.0)]);
    }

    #[test]
    fn seeking_back_starts_the_series_over() {
        let mut series = NodeSeries::default();
        series.record(&node("a", 90, 10), at(10));
        series.record(&node("a", 80, 5), at(5));
        assert_eq!(last(&series, 10, 1), [None]);
        assert_eq!(last(&series, 5, 1), [Some(20.0)]);
    }

    #[test]
    fn nodes_and_points_beyond_the_limits_are_dropped() {
        let mut series = NodeSeries::default();
        for second in 0..1_000 {
            series.record(&node("a", 90, second), at(second));
        }
        assert_eq!(last(&series, 999, 1_000).iter().flatten().count(), KEPT_SECONDS);
        series.record(&node("a", 90, 1_000_000), at(1_000_000));
        assert_eq!(last(&series, 1_000_000, KEPT_SECONDS).iter().flatten().count(), 1);
        for number in 0..20 {
            series.record(&node(&format!("b{number}"), 90, 5), at(5));
        }
        assert_eq!((series.nodes.len(), last(&series, 1_000_000, 1)), (KEPT_NODES, vec![None]));
    }
}
