//! The points of a chart: one per second, or single samples of a node that is sampled many times a second.

use std::time::Duration;

use crate::node_panel::host::{history_points, hold_time, repeated};
use crate::node_panel::series::{NodeSeries, SeriesId};
use gtop_fleet::{CLOSE_UP_STEP, Metric, Node};
use gtop_local::time::Timestamp;
use gtop_model::Source;

/// Steps of a close-up in a second.
const STEPS_PER_SECOND: i64 = 20;

/// Returns the time between two points of a node's charts.
pub(crate) fn chart_step(node: &Node) -> Duration {
    node.history.close_up().map_or(Duration::from_secs(1), |_| CLOSE_UP_STEP)
}

/// Returns the last `count` points of a metric of the history, each [`chart_step`] long. A value is repeated until it
/// would count as stale.
pub(crate) fn metric_points(
    node: &Node,
    (subject, metric): (&str, Metric),
    source: Option<&Source>,
    now: Timestamp,
    count: usize,
) -> Vec<Option<f32>> {
    let Some(close_up) = node.history.close_up() else {
        return history_points(node, (subject, metric), source, now, count);
    };
    let hold = hold_time(node, source).as_millis() / CLOSE_UP_STEP.as_millis();
    let hold = usize::try_from(hold).unwrap_or(0).min(count);
    repeated(close_up.last(subject, metric, now, count + hold), hold)
}

/// Returns the last `count` points of a series that is kept per second, each [`chart_step`] long.
pub(crate) fn series_points(
    node: &Node,
    series: &NodeSeries,
    id: &SeriesId,
    now: Timestamp,
    count: usize,
) -> Vec<Option<f32>> {
    if node.history.close_up().is_none() {
        return series.last(node, id, now, count);
    }
    let step = 1_000_000 / STEPS_PER_SECOND;
    let newest = now.as_micros().div_euclid(step);
    let oldest = newest - i64::try_from(count).unwrap_or(0) + 1;
    let first = oldest.div_euclid(STEPS_PER_SECOND);
    let seconds = newest.div_euclid(STEPS_PER_SECOND) - first + 1;
    let points = series.last(node, id, now, usize::try_from(seconds).unwrap_or(0));
    let slots = oldest..=newest;
    slots
        .map(|slot| {
            let index = usize::try_from(slot.div_euclid(STEPS_PER_SECOND) - first).ok()?;
            points.get(index).copied().flatten()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use gtop_fleet::NodeBuilder;
    use gtop_model::{
        BackendReading, Bytes, Device, DevicesReading, Hello, Link, NodeName, Percent,
    };
    use gtop_model::{Reading, Sample};

    const DEVICE: &str = "GPU-1";

    /// Returns a node whose device was sampled ten times a second for two seconds, and the time after the last sample.
    fn sampled_node(interval: Duration) -> (Arc<Node>, Timestamp) {
        let mut builder =
            NodeBuilder::new(NodeName::new("gpu01").unwrap(), Duration::from_secs(60));
        let nvml = Source::new("nvml");
        let intervals = vec![(Source::host(), interval), (nvml.clone(), interval * 2)];
        builder.set_interval(Duration::from_secs(1));
        builder.on_hello(Hello { intervals, ..Hello::default() });
        let mut now = Timestamp::from_micros(1_000_000_000);
        for number in 0..20_u8 {
            now = now.plus(Duration::from_millis(100));
            let utilization = Reading::Known(Percent::new(f32::from(number)).unwrap());
            let device = Device { uuid: DEVICE.into(), utilization, ..Device::default() };
            let devices = Some(DevicesReading { at: now, list: vec![device], is_cut_short: false });
            let source = nvml.clone();
            let backend = BackendReading { source, slow_at: None, devices, uses: None };
            builder.on_sample(Sample { backends: vec![backend], ..Sample::default() });
        }
        (builder.node(), now.plus(Duration::from_millis(50)))
    }

    fn points(node: &Node, now: Timestamp, count: usize) -> Vec<Option<f32>> {
        let series = (DEVICE, Metric::Utilization);
        metric_points(node, series, Some(&Source::new("nvml")), now, count)
    }

    #[test]
    fn a_node_that_is_sampled_often_is_charted_sample_by_sample() {
        let (node, now) = sampled_node(Duration::from_millis(50));
        assert_eq!(chart_step(&node), CLOSE_UP_STEP);
        // Each sample fills two steps.
        let expected = [17.0, 17.0, 18.0, 18.0, 19.0, 19.0].map(Some);
        assert_eq!(points(&node, now, 6), expected);
        let later = points(&node, now.plus(Duration::from_secs(4)), 20);
        assert_eq!(later.last(), Some(&None), "a stale value is not repeated");
    }

    #[test]
    fn other_nodes_are_charted_by_seconds() {
        let (node, now) = sampled_node(Duration::from_secs(1));
        assert_eq!(chart_step(&node), Duration::from_secs(1));
        assert_eq!(points(&node, now, 2), [Some(18.0), Some(19.0)]);
    }

    #[test]
    fn a_series_by_seconds_is_stretched_to_the_steps_of_a_close_up() {
        let (node, now) = sampled_node(Duration::from_millis(50));
        let mut series = NodeSeries::default();
        for (second, free) in [(1_001, 80), (1_002, 70)] {
            let at = Timestamp::from_micros(second * 1_000_000);
            let mut measured = Node::clone(&node);
            measured.link = Link::Up;
            measured.host.fast.memory_total = Reading::Known(Bytes(100));
            measured.host.fast.memory_available = Reading::Known(Bytes(free));
            measured.sources.iter_mut().for_each(|state| state.taken_at = Some(at));
            series.record(&measured, at);
        }
        // The newest two steps are of the second that has begun.
        let points = series_points(&node, &series, &SeriesId::HostMemory, now, 7);
        assert_eq!(points, [20.0, 20.0, 20.0, 20.0, 20.0, 30.0, 30.0].map(Some));
    }
}
