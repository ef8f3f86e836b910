//! What is charted over time, of devices and hosts, and the values that combine several readings.

use crate::metrics::{DeviceMetric, Field, HostMetric, device_fields};
use crate::{Host, Traffic};
use gtop_model::{
    Bytes, Device, DeviceActivity, DeviceRates, DeviceStatics, Megahertz, Percent, Reading,
};

/// What a series of the history measures, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// A share, 0 to 100.
    Share(&'static str),
    /// Bytes per second.
    Rate(&'static str),
}

impl Metric {
    /// Utilization of a device.
    pub const UTILIZATION: Self = Self::Share(DeviceMetric::UtilizationPercent.alias());
    /// Device memory in use.
    pub const MEMORY: Self = Self::Share(DeviceMetric::MemoryUsedBytes.alias());
    /// Share of time in which clocks of a device were throttled.
    pub const THROTTLED: Self = Self::Share(DeviceMetric::ThrottleReasons.alias());
    /// CPU utilization of the host.
    pub const CPU: Self = Self::Share(HostMetric::CpuPercent.alias());
    /// Memory of the host in use.
    pub const HOST_MEMORY: Self = Self::Share("hostmem");
    /// Swap in use.
    pub const SWAP: Self = Self::Share("swap");
    /// What all network interfaces receive.
    pub const NETWORK_IN: Self = Self::Rate("netin");
    /// What all network interfaces send.
    pub const NETWORK_OUT: Self = Self::Rate("netout");
}

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
}

impl<S> MetricChart<S> {
    pub(super) const fn new(rank: u8, key: char, help: &'static str) -> Self {
        Self { rank, key, help, share: None }
    }

    /// Draws a share other than the value.
    pub(super) const fn share(self, share: fn(&S) -> Option<f32>) -> Self {
        Self { share: Some(share), ..self }
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
    /// Returns what its series in the history measures.
    pub const fn series(&self) -> Metric {
        Metric::Share(self.alias)
    }

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
    let mut charts: Vec<DeviceChart> = unsorted_charts().collect();
    charts.sort_by_key(|chart| chart.metric.rank);
    charts
}

/// Returns all charts, in the order of the metrics.
pub(crate) fn unsorted_charts() -> impl Iterator<Item = DeviceChart> {
    let of_fields = device_fields().filter_map(|field| {
        Some(DeviceChart { alias: field.alias, metric: field.chart.as_ref()?, field: Some(field) })
    });
    of_fields.chain([PCIE])
}

/// Returns what is charted of a host, with its current values.
pub(crate) fn host_values(host: &Host) -> [(Metric, Option<f32>); 5] {
    let fast = &host.fast;
    let (inward, outward) = Traffic::sum(&host.network).unzip();
    [
        (Metric::CPU, host.cpu.get().map(Percent::get)),
        (Metric::HOST_MEMORY, used_share(fast.memory_total, fast.memory_available)),
        (Metric::SWAP, used_share(fast.swap_total, fast.swap_free)),
        (Metric::NETWORK_IN, inward.map(number)),
        (Metric::NETWORK_OUT, outward.map(number)),
    ]
}

fn used_share(total: Reading<Bytes>, free: Reading<Bytes>) -> Option<f32> {
    let (total, free) = total.zip(free).get()?;
    Percent::of(total.0.saturating_sub(free.0), total.0).map(Percent::get)
}

#[expect(clippy::cast_precision_loss, reason = "it is drawn")]
const fn number(bytes: Bytes) -> f32 {
    bytes.0 as f32
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
