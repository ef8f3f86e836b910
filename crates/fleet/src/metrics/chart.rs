//! The charts of a device: shares over time.

use crate::Metric;
use crate::metrics::{Field, Value, device_fields};
use gtop_model::{Device, Percent};

/// How a metric of an `S` is charted.
#[derive(Clone, Copy, Debug)]
pub struct MetricChart<S> {
    /// Its place in the menu.
    pub rank: u8,
    /// The key that selects it in the menu.
    pub key: char,
    /// The description in the menu.
    pub help: &'static str,
    /// The share that is drawn.
    pub series: Metric,
    /// Reads what the share is of, in the unit of the metric; `None` if it is a percentage.
    pub whole: Option<fn(&S) -> Value>,
}

impl<S> MetricChart<S> {
    pub(super) const fn new(rank: u8, key: char, help: &'static str, series: Metric) -> Self {
        Self { rank, key, help, series, whole: None }
    }

    /// Says what the share is of.
    pub(super) const fn of(self, whole: fn(&S) -> Value) -> Self {
        Self { whole: Some(whole), ..self }
    }
}

/// A chart of each device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceChart {
    /// The name in settings and in front of a graph.
    pub alias: &'static str,
    /// How it is drawn.
    pub metric: &'static MetricChart<Device>,
    /// The metric; `None` if it combines several.
    pub field: Option<&'static Field<Device>>,
}

impl DeviceChart {
    /// Returns what the share of a device is of, in the unit of the metric.
    pub fn whole(&self, device: &Device) -> Option<f32> {
        self.metric.whole?(device).number()
    }

    /// Returns the current share for the graph, 0 to 100.
    pub fn share(&self, device: &Device) -> Option<f32> {
        self.metric.series.of_device(device)
    }
}

/// Traffic is measured in two directions.
const PCIE: DeviceChart = DeviceChart {
    alias: "pcie",
    metric: &MetricChart::new(11, 'i', "PCIe traffic, of what the link carries", Metric::Pcie),
    field: None,
};

/// Returns all charts, in the order of the menu.
pub fn charts() -> Vec<DeviceChart> {
    let of_fields = device_fields().filter_map(|field| {
        Some(DeviceChart { alias: field.alias, metric: field.chart.as_ref()?, field: Some(field) })
    });
    let mut charts: Vec<DeviceChart> = of_fields.chain([PCIE]).collect();
    charts.sort_by_key(|chart| chart.metric.rank);
    charts
}

/// Returns the [load](Device::load) in percent.
pub fn utilization(device: &Device) -> Option<f32> {
    device.load().get().map(Percent::get)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_recorded_share_of_a_device_has_one_chart() {
        let charts = charts();
        let charted: BTreeSet<Metric> = charts.iter().map(|chart| chart.metric.series).collect();
        assert_eq!((charted, charts.len()), (Metric::OF_DEVICES.into(), Metric::OF_DEVICES.len()));
    }
}
