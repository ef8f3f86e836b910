//! The metrics that the node view can chart, and their names.

use crate::metrics::current_aliases;

/// A metric that can be charted, as a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChartMetric {
    /// Share of time in which a kernel ran.
    Utilization,
    /// Memory used, of the total.
    Memory,
    /// Power drawn, of the power limit.
    Power,
    /// In °C, 0 to 100.
    Temperature,
    /// Share of time in which memory was read or written.
    Bandwidth,
    /// SM clock, of its maximum.
    Clock,
    /// Memory clock, of its maximum.
    MemoryClock,
    Fan,
    Encoder,
    Decoder,
    /// `PCIe` traffic, of the capacity of the link in one direction.
    Pcie,
    /// Share of time in which clocks were throttled.
    Throttled,
}

impl ChartMetric {
    /// Number of metrics charted at once.
    pub const MAX_CHARTED: usize = 4;

    /// In the order of the menu.
    pub const ALL: [Self; 12] = [
        Self::Utilization,
        Self::Memory,
        Self::Power,
        Self::Temperature,
        Self::Bandwidth,
        Self::Clock,
        Self::MemoryClock,
        Self::Fan,
        Self::Encoder,
        Self::Decoder,
        Self::Pcie,
        Self::Throttled,
    ];

    /// Parses an alias or a name used by earlier versions.
    pub fn from_name(name: &str) -> Option<Self> {
        let by_alias =
            |alias: &str| Self::ALL.into_iter().find(|metric| metric.labels().0 == alias);
        by_alias(name).or_else(|| current_aliases(name).iter().find_map(|alias| by_alias(alias)))
    }

    /// Returns the name used in settings and in front of a graph.
    pub const fn alias(self) -> &'static str {
        self.labels().0
    }

    /// Returns alias, letter in the menu, and description.
    pub(super) const fn labels(self) -> (&'static str, char, &'static str) {
        match self {
            Self::Utilization => ("util", 'u', "utilization"),
            Self::Memory => ("mem", 'm', "memory in use"),
            Self::Power => ("power", 'p', "power, of its limit"),
            Self::Temperature => ("temp", 't', "temperature, to 100 °C"),
            Self::Bandwidth => ("membw", 'b', "share of time the memory is busy"),
            Self::Clock => ("smclock", 'c', "SM clock, of the highest"),
            Self::MemoryClock => ("memclock", 'l', "memory clock, of the highest"),
            Self::Fan => ("fan", 'f', "fan speed"),
            Self::Encoder => ("enc", 'e', "load of the video encoder"),
            Self::Decoder => ("dec", 'd', "load of the video decoder"),
            Self::Pcie => ("pcie", 'i', "PCIe traffic, of what the link carries"),
            Self::Throttled => ("throttled", 'h', "share of time throttled"),
        }
    }
}
