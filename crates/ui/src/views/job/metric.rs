//! The metrics by which the devices of a job are compared.

use crate::views::job::distribution::Tolerance;
use crate::widgets::number_format::{Units, gib};
use gtop_fleet::metrics::utilization;
use gtop_model::{Celsius, Device, Watts};

/// A metric by which the devices of a job are compared, and which their columns show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ComparedMetric {
    /// In percent.
    #[default]
    Utilization,
    /// In GiB.
    Memory,
    /// In watts.
    Power,
    /// In °C.
    Temperature,
}

impl ComparedMetric {
    /// In the order in which a key cycles through them.
    pub(crate) const ALL: [Self; 4] =
        [Self::Utilization, Self::Memory, Self::Power, Self::Temperature];

    pub(crate) fn caption(self, units: Units) -> String {
        let (name, unit) = match self {
            Self::Utilization => ("utilization", "%"),
            Self::Memory => ("memory in use", units.unit_name()),
            Self::Power => ("power", "W"),
            Self::Temperature => ("temperature", units.temperature_unit()),
        };
        format!("{name} of each device, {unit}")
    }

    /// Converts a value to the unit of the caption.
    pub(crate) fn to_unit(self, value: f32, units: Units) -> f64 {
        match self {
            Self::Utilization | Self::Power => value.into(),
            Self::Memory => units.convert_gib(value.into()),
            Self::Temperature => units.convert_celsius(value).into(),
        }
    }

    pub(crate) fn read(self, device: &Device) -> Option<f32> {
        match self {
            Self::Utilization => utilization(device),
            Self::Memory => device.memory_used.get().map(gib),
            Self::Power => device.power.get().map(Watts::get),
            Self::Temperature => device.temperature.get().map(Celsius::get),
        }
    }

    /// Formats a value with its unit, in at most 6 columns.
    pub(crate) fn format(self, value: f32, units: Units) -> String {
        match self {
            Self::Utilization => format!("{value:.0}%"),
            Self::Memory => units.amount_of_gib(value),
            Self::Power => format!("{value:.0} W"),
            Self::Temperature => units.temperature_text(value),
        }
    }

    pub(super) const fn tolerance(self) -> Tolerance {
        match self {
            // In percentage points.
            Self::Utilization => Tolerance::Fixed(20.0),
            Self::Memory | Self::Power => Tolerance::Fraction(0.25),
            // Temperature depends on the position in the rack, so it has no outliers.
            Self::Temperature => Tolerance::Fixed(f32::INFINITY),
        }
    }
}
