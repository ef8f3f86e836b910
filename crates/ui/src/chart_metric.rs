//! The metrics that the node view can chart, by name.

use gtop_fleet::metrics::{DeviceChart, charts, current_aliases};

/// A metric that can be charted, as a percentage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChartMetric(&'static str);

impl ChartMetric {
    /// Number of metrics charted at once.
    pub(crate) const MAX_CHARTED: usize = 4;
    /// Share of time in which a kernel ran.
    pub(crate) const UTILIZATION: Self = Self("util");
    /// Memory used, of the total.
    pub(crate) const MEMORY: Self = Self("mem");

    /// Parses an alias or a name used by earlier versions.
    pub fn from_name(name: &str) -> Option<Self> {
        let charts = charts();
        let mut names = std::iter::once(name).chain(current_aliases(name).iter().copied());
        names.find_map(|name| charts.iter().find(|chart| chart.alias == name)).map(Self::of)
    }

    /// Returns the name of a chart.
    pub(crate) const fn of(chart: &DeviceChart) -> Self {
        Self(chart.alias)
    }

    /// Returns the name used in settings and in front of a graph.
    pub const fn alias(self) -> &'static str {
        self.0
    }
}
