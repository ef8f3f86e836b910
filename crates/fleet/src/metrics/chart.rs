//! The charts of a device: a share over time, and the values that combine several readings.

use crate as fleet;
use crate::metrics::{Field, device_fields};
use gtop_model::{
    Bytes, Device, DeviceActivity, DeviceRates, DeviceStatics, Megahertz, Percent, Reading,
};

/// How a metric of an `S` is charted.
#[derive(Clone, Copy, Debug)]
pub struct MetricChart<S> {
    /// Its place in the menu.
    pub rank: u8,
    /// The key that selects it in the menu.
    pub key: char,
    /// The description in the menu.
    pub help: &'static str,
    /// Returns the share to draw, 0 to 100; if `None`, it is the value of the metric.
    pub share: Option<fn(&S) -> Option<f32>>,
    /// The history of the fleet that records it, if one does.
    pub history: Option<fleet::Metric>,
}

impl<S> MetricChart<S> {
    pub(super) const fn new(rank: u8, key: char, help: &'static str) -> Self {
        Self { rank, key, help, share: None, history: None }
    }

    /// Draws a share other than the value.
    pub(super) const fn share(self, share: fn(&S) -> Option<f32>) -> Self {
        Self { share: Some(share), ..self }
    }

    pub(super) const fn history(self, history: fleet::Metric) -> Self {
        Self { history: Some(history), ..self }
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
    /// Returns the current share for the graph, 0 to 100.
    pub fn share(&self, device: &Device) -> Option<f32> {
        match self.metric.share {
            Some(share) => share(device),
            None => self.field?.number_of(device).map(|share| share.min(100.0)),
        }
    }
}

/// Traffic is measured in two directions.
const PCIE: DeviceChart = DeviceChart {
    alias: "pcie",
    metric: &MetricChart::new(11, 'i', "PCIe traffic, of what the link carries").share(pcie_share),
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

/// Returns memory utilization, or the share of memory bandwidth used on a TPU chip.
pub fn bandwidth_share(device: &Device) -> Reading<Percent> {
    device.memory_utilization.or(|| Reading::of(device.tpu.as_deref(), |chip| chip.bandwidth))
}

/// Returns a clock as a share of its maximum.
pub(super) fn clock_share(
    device: &Device,
    clock: Reading<Megahertz>,
    max: fn(&DeviceStatics) -> Reading<Megahertz>,
) -> Option<f32> {
    let (clock, max) = clock.zip(Reading::of(device.statics.as_deref(), max)).get()?;
    Percent::of(clock.get().into(), max.get().into()).map(Percent::get)
}

/// Returns the receive and transmit rates of `PCIe` in bytes per second.
pub fn pcie_rates(device: &Device) -> (Reading<Bytes>, Reading<Bytes>) {
    (
        traffic(device, |known| known.pcie_received, |known| known.pcie_received),
        traffic(device, |known| known.pcie_sent, |known| known.pcie_sent),
    )
}

/// Returns the receive and transmit rates of all `NVLink`s in bytes per second.
pub fn nvlink_rates(device: &Device) -> (Reading<Bytes>, Reading<Bytes>) {
    (
        traffic(device, |known| known.nvlink_received, |known| known.nvlink_received),
        traffic(device, |known| known.nvlink_sent, |known| known.nvlink_sent),
    )
}

/// Returns a rate from counters if the device has them, else from its own measurement.
fn traffic(
    device: &Device,
    counted: fn(&DeviceRates) -> Reading<Bytes>,
    measured: fn(&DeviceActivity) -> Reading<Bytes>,
) -> Reading<Bytes> {
    Reading::of(device.rates.as_deref(), counted)
        .or(|| Reading::of(device.activity.as_deref(), measured))
}

fn pcie_share(device: &Device) -> Option<f32> {
    let (inward, outward) = pcie_rates(device);
    let busiest = inward.get()?.max(outward.get()?);
    Percent::of(busiest.0, link_capacity(device.pcie.get()?)).map(Percent::get)
}

/// Returns the throttled share of the time: that of the longest cause, or 0 or 100 by the current state for
/// devices without throttle counters.
pub(super) fn throttled_share(device: &Device) -> Option<f32> {
    let shares = device.rates.as_deref().into_iter().flat_map(|rates| {
        [
            rates.hardware_thermal_throttled,
            rates.thermal_throttled,
            rates.power_brake_throttled,
            rates.power_throttled,
            rates.sync_boost_throttled,
        ]
    });
    let longest = shares.filter_map(|share| Some(share.get()?.get())).max_by(f32::total_cmp);
    longest.or_else(|| {
        let throttle = device.throttle.get()?;
        let is_throttled = throttle.is_harmful() || throttle.is_power_capped();
        Some(if is_throttled { 100.0 } else { 0.0 })
    })
}

/// Returns the bytes per second that a link of this generation and lane count carries in one direction.
///
/// A lane of generation 1 carries 250 MB/s, of generation 2 twice that. Generation 3 carries 0.985 GB/s and
/// each later one doubles it (128b/130b encoding).
fn link_capacity((generation, lanes): (u8, u8)) -> u64 {
    let lane = match generation {
        0 | 1 => 250_000_000,
        2 => 500_000_000,
        later => 985_000_000_u64 << u32::from(later - 3).min(8),
    };
    lane * u64::from(lanes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_capacity_follows_the_pcie_standard() {
        assert_eq!(link_capacity((3, 16)), 15_760_000_000);
        assert_eq!(link_capacity((5, 16)), 63_040_000_000);
        assert_eq!(link_capacity((1, 1)), 250_000_000);
        assert!(link_capacity((255, 255)) > link_capacity((6, 16)));
    }
}
