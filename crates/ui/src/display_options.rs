//! Display options besides colours: thresholds, units, columns, density.

use crate::chart_metric::ChartMetric;
use crate::choices::choices;
use crate::key_scheme::KeyScheme;
use crate::widgets::column_spec::TableColumns;
use crate::widgets::line::Tone;
use crate::widgets::number_format::{MemoryUnit, Units};

use gtop_fleet::query::DisplaySelection;
use gtop_fleet::settings::value;
use gtop_model::SchedulerWords;
use gtop_model::UNNAMED_SCHEDULER;

#[derive(Clone, Debug, PartialEq)]
pub struct DisplayOptions {
    /// Thresholds for the utilization and power of nodes and processes.
    pub load: Thresholds,
    /// Thresholds for memory.
    pub memory: Thresholds,
    /// Thresholds for the bars of a single device.
    pub device: Thresholds,
    /// Shows temperatures in degrees Fahrenheit.
    pub is_fahrenheit: bool,
    pub unit: MemoryUnit,
    pub chart: Chart,
    /// Which devices and processes are shown, and which columns name a device.
    pub selection: DisplaySelection,
    /// The configured columns of each table.
    pub columns: TableColumns,
    /// How much the node panel shows of each device and of the host.
    pub density: Density,
    /// Disables everything that would change a node, such as sending signals.
    pub is_readonly: bool,
    /// A scheduler's programs are on this machine, so jobs can be watched.
    pub has_scheduler: bool,
    /// The words of that scheduler.
    pub scheduler: &'static SchedulerWords,
    /// Whose keys are bound; their sort menus have the letters of that monitor.
    pub key_scheme: KeyScheme,
}

/// Options of graphs.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// The metrics charted for each device.
    pub metrics: Vec<ChartMetric>,
    /// Draws the newest point on the left.
    pub is_reversed: bool,
}

choices! {
    /// How much is shown of each device.
    pub enum Density {
        #[default]
        Auto = value("auto", "a line per device, and graphs of the host if they fit"),
        Full = value("full", "two lines per device"),
        Compact = value("compact", "a line per device, and no graphs"),
    }
}

/// The thresholds from which a load counts as medium or high, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Thresholds {
    pub medium: f32,
    pub high: f32,
}

impl DisplayOptions {
    /// Returns the units of memory and temperature.
    pub(crate) fn units(&self) -> Units {
        Units { memory: self.unit, is_fahrenheit: self.is_fahrenheit }
    }
}

impl Default for DisplayOptions {
    fn default() -> Self {
        Self {
            load: Thresholds { medium: 10.0, high: 75.0 },
            memory: Thresholds { medium: 10.0, high: 80.0 },
            device: Thresholds { medium: 60.0, high: 85.0 },
            is_fahrenheit: false,
            unit: MemoryUnit::default(),
            chart: Chart::default(),
            selection: DisplaySelection::default(),
            columns: TableColumns::default(),
            density: Density::Auto,
            is_readonly: false,
            has_scheduler: false,
            scheduler: &UNNAMED_SCHEDULER.words,
            key_scheme: KeyScheme::Gtop,
        }
    }
}

impl Default for Chart {
    fn default() -> Self {
        let metrics = vec![ChartMetric::UTILIZATION, ChartMetric::MEMORY];
        Self { metrics, is_reversed: false }
    }
}

impl Thresholds {
    pub(crate) fn of_percent((medium, high): (u8, u8)) -> Self {
        Self { medium: medium.into(), high: high.into() }
    }

    /// Returns the tone of a share in percent; faint if it is unknown.
    pub(crate) fn tone(self, share: Option<f32>) -> Tone {
        match share {
            None => Tone::Faint,
            Some(share) if share >= self.high => Tone::High,
            Some(share) if share >= self.medium => Tone::Mid,
            Some(_) => Tone::Low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_hold_from_their_first_value() {
        let display = DisplayOptions::default();
        assert_eq!(display.load.tone(Some(9.9)), Tone::Low);
        assert_eq!(display.load.tone(Some(10.0)), Tone::Mid);
        assert_eq!(display.memory.tone(Some(79.0)), Tone::Mid);
        assert_eq!(display.device.tone(Some(85.0)), Tone::High);
        assert_eq!(display.device.tone(None), Tone::Faint);
    }
}
