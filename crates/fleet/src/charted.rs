//! What is charted over time, which the history of each node records: shares of devices, and shares and rates of hosts.

use gtop_model::{
    Bytes, Celsius, Device, DeviceActivity, DeviceRates, DeviceStatics, FanSpeed, Megahertz,
    Percent, Reading,
};

/// What a series of the history measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Utilization of a device.
    Utilization,
    /// Device memory in use.
    Memory,
    /// Power, of its limit.
    Power,
    /// Temperature of a device, of 100 °C.
    Temperature,
    /// Share of time in which device memory was busy.
    Bandwidth,
    /// SM clock, of the highest.
    SmClock,
    /// Memory clock, of the highest.
    MemoryClock,
    /// Fan speed.
    Fan,
    /// Load of the video encoder.
    Encoder,
    /// Load of the video decoder.
    Decoder,
    /// `PCIe` traffic, of what the link carries.
    Pcie,
    /// Share of time in which clocks of a device were throttled.
    Throttled,
    /// CPU utilization of the host.
    Cpu,
    /// Memory of the host in use.
    HostMemory,
    /// Swap in use.
    Swap,
    /// Bytes per second that all network interfaces receive.
    NetworkIn,
    /// Bytes per second that all network interfaces send.
    NetworkOut,
}

impl Metric {
    /// Those of devices.
    pub(crate) const OF_DEVICES: [Self; 12] = [
        Self::Utilization,
        Self::Memory,
        Self::Power,
        Self::Temperature,
        Self::Bandwidth,
        Self::SmClock,
        Self::MemoryClock,
        Self::Fan,
        Self::Encoder,
        Self::Decoder,
        Self::Pcie,
        Self::Throttled,
    ];

    /// Returns true if its values are bytes per second, not shares from 0 to 100.
    pub(crate) const fn is_rate(self) -> bool {
        matches!(self, Self::NetworkIn | Self::NetworkOut)
    }

    /// Returns the current share of a device, 0 to 100; `None` if it is unknown or that of a host.
    pub fn of_device(self, device: &Device) -> Option<f32> {
        let details = device.details.as_deref();
        let share = match self {
            Self::Utilization => device.load().get(),
            Self::Memory => device.memory_share(),
            Self::Power => device.power_share(),
            Self::Bandwidth => bandwidth_share(device).get(),
            Self::SmClock => clock_share(device, device.sm_clock, |known| known.sm_clock_max),
            Self::MemoryClock => {
                clock_share(device, device.memory_clock, |known| known.memory_clock_max)
            }
            Self::Encoder => details?.encoder.get(),
            Self::Decoder => details?.decoder.get(),
            Self::Pcie => pcie_share(device),
            Self::Temperature => {
                return device.temperature.get().map(Celsius::get).map(at_most_whole);
            }
            Self::Fan => return device.fan.get().map(FanSpeed::get).map(at_most_whole),
            Self::Throttled => return throttled_share(device),
            Self::Cpu | Self::HostMemory | Self::Swap | Self::NetworkIn | Self::NetworkOut => None,
        };
        share.map(Percent::get)
    }
}

const fn at_most_whole(share: f32) -> f32 {
    share.min(100.0)
}

/// Returns memory utilization, or the share of memory bandwidth used on a TPU chip.
pub fn bandwidth_share(device: &Device) -> Reading<Percent> {
    device.memory_utilization.or(|| Reading::of(device.tpu.as_deref(), |chip| chip.bandwidth))
}

/// Returns a clock as a share of its maximum.
fn clock_share(
    device: &Device,
    clock: Reading<Megahertz>,
    max: fn(&DeviceStatics) -> Reading<Megahertz>,
) -> Option<Percent> {
    let (clock, max) = clock.zip(Reading::of(device.statics.as_deref(), max)).get()?;
    Percent::of(clock.get().into(), max.get().into())
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

fn pcie_share(device: &Device) -> Option<Percent> {
    let (inward, outward) = pcie_rates(device);
    let busiest = inward.get()?.max(outward.get()?);
    Percent::of(busiest.0, link_capacity(device.pcie.get()?))
}

/// Returns the throttled share of the time: that of the longest cause, or 0 or 100 by the current state for
/// devices without throttle counters.
fn throttled_share(device: &Device) -> Option<f32> {
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
