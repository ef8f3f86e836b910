//! The points of a chart: one per second, or single samples of a node that is sampled many times a second.

use std::time::Duration;

use crate::node_panel::host::{history_points, hold_time, repeated};
use gtop_fleet::{CLOSE_UP_STEP, Metric, Node};
use gtop_local::time::Timestamp;
use gtop_model::Source;

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use gtop_fleet::NodeBuilder;
    use gtop_model::{
        BackendReading, Device, DevicesReading, Hello, NodeName, Percent, Reading, Sample,
    };

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
}
