//! How somebody wants things shown, beyond colours: limits, units, how much at once.

use crate::view::column_spec::TableColumns;
use crate::view::line::Tone;
use crate::view::node::ChartMetric;

pub use display_selection::{DisplaySelection, NameColumns, ProcessKinds, VisibleDevice};

mod display_selection;

/// How things are shown.
#[derive(Clone, Debug, PartialEq)]
pub struct DisplayOptions {
    /// Where utilization and power of nodes and processes turn middling and high.
    pub load: Thresholds,
    /// The same for memory.
    pub memory: Thresholds,
    /// The same for the bars of a single device.
    pub device: Thresholds,
    /// Temperatures are shown in degrees Fahrenheit.
    pub is_fahrenheit: bool,
    /// In which unit memory is written.
    pub unit: MemoryUnit,
    /// What graphs show, and how.
    pub chart: Chart,
    /// Which devices and processes are shown, and what names a device.
    pub only: DisplaySelection,
    /// The columns of tables, where somebody chose them.
    pub columns: TableColumns,
    /// How much a node's panel says of each device and of the machine.
    pub density: Density,
    /// Nothing may be changed on any node.
    pub is_readonly: bool,
}

/// What graphs show, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// What it shows of each device.
    pub metrics: Vec<ChartMetric>,
    /// The newest stands on the left.
    pub is_reversed: bool,
}

/// How much is said of each thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Density {
    /// As much as there is room for.
    #[default]
    Auto,
    /// Everything.
    Full,
    /// A line each.
    Compact,
}

/// A unit of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryUnit {
    /// Millions of bytes.
    Mb,
    /// 2^20 bytes.
    Mib,
    /// Billions of bytes.
    Gb,
    /// 2^30 bytes.
    #[default]
    Gib,
}

/// At which shares a load turns middling and high.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Thresholds {
    /// From here it is middling.
    pub middling: f32,
    /// From here it is high.
    pub high: f32,
}

impl Default for DisplayOptions {
    fn default() -> Self {
        Self {
            load: Thresholds { middling: 10.0, high: 75.0 },
            memory: Thresholds { middling: 10.0, high: 80.0 },
            device: Thresholds { middling: 60.0, high: 85.0 },
            is_fahrenheit: false,
            unit: MemoryUnit::default(),
            chart: Chart::default(),
            only: DisplaySelection::default(),
            columns: TableColumns::default(),
            density: Density::Auto,
            is_readonly: false,
        }
    }
}

impl Default for Chart {
    fn default() -> Self {
        let metrics = vec![ChartMetric::Utilization, ChartMetric::Memory];
        Self { metrics, is_reversed: false }
    }
}

impl Thresholds {
    /// Returns what a share means; nothing in particular when it is unknown.
    pub fn tone(self, share: Option<f32>) -> Tone {
        match share {
            None => Tone::Faint,
            Some(share) if share >= self.high => Tone::High,
            Some(share) if share >= self.middling => Tone::Mid,
            Some(_) => Tone::Low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_hold_from_their_first_value() {
        let taste = DisplayOptions::default();
        assert_eq!(taste.load.tone(Some(9.9)), Tone::Low);
        assert_eq!(taste.load.tone(Some(10.0)), Tone::Mid);
        assert_eq!(taste.memory.tone(Some(79.0)), Tone::Mid);
        assert_eq!(taste.device.tone(Some(85.0)), Tone::High);
        assert_eq!(taste.device.tone(None), Tone::Faint);
    }
}
