//! The values of charted metrics.

use crate::fleet;
use crate::model::UNKNOWN;
use crate::model::{Celsius, Device, Megahertz, Percent, Reading};
use crate::ui::chart_metric::ChartMetric;
use crate::ui::node_panel::attributes::{
    bandwidth_share, pcie_rates, throttled_share, utilization,
};
use crate::ui::widgets::number_format::Units;

impl ChartMetric {
    /// Returns the metric under which the fleet's history records it, if it does.
    pub(crate) const fn history(self) -> Option<fleet::Metric> {
        match self {
            Self::Utilization => Some(fleet::Metric::Utilization),
            Self::Memory => Some(fleet::Metric::Memory),
            Self::Power
            | Self::Temperature
            | Self::Bandwidth
            | Self::Clock
            | Self::MemoryClock
            | Self::Fan
            | Self::Encoder
            | Self::Decoder
            | Self::Pcie
            | Self::Throttled => None,
        }
    }

    /// Returns the current value for the graph, 0 to 100.
    pub(crate) fn share(self, device: &Device) -> Option<f32> {
        let percent = |share: Reading<Percent>| share.get().map(Percent::get);
        let details = device.details.as_deref();
        let fraction = |clock: Reading<Megahertz>, max: Reading<Megahertz>| {
            let (clock, max) = (clock.get()?.get(), max.get()?.get());
            Percent::of(clock.into(), max.into()).map(Percent::get)
        };
        match self {
            Self::Utilization => utilization(device),
            Self::Memory => device.memory_share().map(Percent::get),
            Self::Power => device.power_share().map(Percent::get),
            Self::Temperature => device.temperature.get().map(Celsius::get),
            Self::Bandwidth => percent(bandwidth_share(device)),
            Self::Clock => {
                fraction(device.sm_clock, device.static_value(|known| known.sm_clock_max))
            }
            Self::MemoryClock => {
                fraction(device.memory_clock, device.static_value(|known| known.memory_clock_max))
            }
            Self::Fan => device.fan.get().map(|fan| fan.get().min(100.0)),
            Self::Encoder => percent(details?.encoder),
            Self::Decoder => percent(details?.decoder),
            Self::Pcie => {
                let (inward, outward) = pcie_rates(device);
                let busiest = inward.get()?.max(outward.get()?);
                Percent::of(busiest.0, link_capacity(device.pcie.get()?)).map(Percent::get)
            }
            Self::Throttled => throttled_share(device),
        }
    }

    /// Formats the current value in at most 6 columns.
    pub(crate) fn format_value(self, device: &Device, units: Units) -> String {
        let clock = |clock: Reading<Megahertz>| clock.get().map(|clock| clock.get().to_string());
        let known = match self {
            Self::Power => device.power.get().map(|watts| format!("{:.0}W", watts.get())),
            Self::Temperature => device.temperature.get().map(|heat| units.temperature(heat)),
            Self::Clock => clock(device.sm_clock),
            Self::MemoryClock => clock(device.memory_clock),
            Self::Memory => device.memory_used.get().map(|used| units.amount(used)),
            Self::Utilization
            | Self::Bandwidth
            | Self::Fan
            | Self::Encoder
            | Self::Decoder
            | Self::Pcie
            | Self::Throttled => self.share(device).map(|share| format!("{share:.0}%")),
        };
        known.unwrap_or_else(|| UNKNOWN.to_owned())
    }
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
