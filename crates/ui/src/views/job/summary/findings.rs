//! Findings: faults and outliers among the devices of a job, described as text.

use std::collections::{BTreeMap, BTreeSet};

use crate::views::job::metric::JobMetric;
use crate::views::job::summary::{CellPosition, JobSummary};
use crate::widgets::line::Tone;
use crate::widgets::number_format::Units;
use gtop_fleet::insight::device_flag::DeviceFlag;
use gtop_fleet::insight::{FleetView, Severity};
use gtop_model::{Device, Reading};

const MAX_FINDINGS: usize = 32;
/// A clock below this share of its maximum is mentioned.
const SLOW_CLOCK_FRACTION: f32 = 0.9;

/// A device with a fault or a value that differs from its peers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    /// Node and device, such as `gpu02:3`.
    pub(crate) device: String,
    pub(crate) text: String,
    pub(crate) tone: Tone,
    /// Percentage points by which the utilization is below the median.
    lag: f32,
}

/// An outlying metric of a device: its value and the median of the job.
type Outlier = (JobMetric, f32, f32);

/// Outlying metrics by (row, cell) of the summary.
pub(super) type Outliers = BTreeMap<CellPosition, Vec<Outlier>>;

/// Describes the marked devices, given by (row, cell): faults first, then by lag.
pub(super) fn findings(
    fleet_view: &FleetView,
    summary: &JobSummary,
    outliers: &Outliers,
    marked: &BTreeSet<CellPosition>,
) -> Vec<Finding> {
    let found = marked.iter().filter_map(|index| {
        let row = summary.rows.get(index.0)?;
        let cell = row.cells.get(index.1)?;
        let node = row.node(fleet_view)?;
        let device = node.devices.get(cell.device)?;
        let flags = DeviceFlag::of(node, device);
        let outliers = outliers.get(index).map_or(&[][..], Vec::as_slice);
        let lag = outliers.iter().find(|(metric, _, _)| *metric == JobMetric::Utilization);
        let is_bad = flags.iter().any(|flag| flag.severity() == Severity::Error);
        Some(Finding {
            device: summary.device_name(*index, u16::MAX)?,
            text: description(device, &flags, outliers, summary.units),
            tone: if is_bad { Tone::Bad } else { Tone::Warn },
            lag: lag.map_or(0.0, |(_, value, median)| median - value),
        })
    });
    let mut all: Vec<Finding> = found.collect();
    all.sort_by(|one, other| {
        (other.tone == Tone::Bad).cmp(&(one.tone == Tone::Bad)).then(other.lag.total_cmp(&one.lag))
    });
    all.truncate(MAX_FINDINGS);
    all
}

fn description(
    device: &Device,
    flags: &[DeviceFlag],
    outliers: &[Outlier],
    units: Units,
) -> String {
    if device.fault.is_some() {
        return flags.first().map(DeviceFlag::text).unwrap_or_default();
    }
    let mut texts = Vec::new();
    for (metric, value, median) in outliers {
        let (value, median) = (metric.format(*value, units), metric.format(*median, units));
        texts.push(match metric {
            JobMetric::Utilization | JobMetric::Temperature => {
                format!("at {value}, peers at {median}")
            }
            JobMetric::Memory => format!("uses {value}, peers {median}"),
            JobMetric::Power => format!("draws {value}, peers {median}"),
        });
    }
    if let Some(throttle) = device.throttle.get().filter(|throttle| throttle.is_harmful()) {
        texts.push(throttle.text());
    }
    let max_clock = Reading::of(device.statics.as_deref(), |known| known.sm_clock_max);
    let clocks = device.sm_clock.zip(max_clock).get().map(|(now, max)| (now.get(), max.get()));
    if let Some((now, max)) = clocks.filter(|(now, max)| is_slow(*now, *max) && !texts.is_empty()) {
        texts.push(format!("SM clock {now} of {max} MHz"));
    }
    texts.extend(flags.iter().filter(|flag| !flag.is_slowdown()).map(DeviceFlag::text));
    texts.join(" · ")
}

#[expect(clippy::cast_precision_loss, reason = "clocks are small")]
fn is_slow(now: u32, max: u32) -> bool {
    (now as f32) < max as f32 * SLOW_CLOCK_FRACTION
}
