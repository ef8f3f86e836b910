//! Findings: faults and outliers among the devices of a job, described as text.

use crate::views::job::metric::ComparedMetric;
use crate::widgets::line::Tone;
use crate::widgets::number_format::Units;
use gtop_fleet::Node;
use gtop_fleet::insight::Severity;
use gtop_fleet::insight::device_flag::DeviceFlag;
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
pub(super) type Outlier = (ComparedMetric, f32, f32);

impl Finding {
    /// Describes a marked device, which has a name in the job.
    pub(super) fn of(
        name: String,
        (node, device): (&Node, &Device),
        outliers: &[Outlier],
        units: Units,
    ) -> Self {
        let flags = DeviceFlag::of(node, device);
        let lag = outliers.iter().find(|(metric, _, _)| *metric == ComparedMetric::Utilization);
        let is_bad = flags.iter().any(|flag| flag.severity() == Severity::Error);
        Self {
            device: name,
            text: description(device, &flags, outliers, units),
            tone: if is_bad { Tone::Bad } else { Tone::Warn },
            lag: lag.map_or(0.0, |(_, value, median)| median - value),
        }
    }
}

/// Sorts faults first, then by lag, and keeps as many as are shown.
pub(super) fn sort(findings: &mut Vec<Finding>) {
    findings.sort_by(|one, other| {
        (other.tone == Tone::Bad).cmp(&(one.tone == Tone::Bad)).then(other.lag.total_cmp(&one.lag))
    });
    findings.truncate(MAX_FINDINGS);
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
            ComparedMetric::Utilization | ComparedMetric::Temperature => {
                format!("at {value}, peers at {median}")
            }
            ComparedMetric::Memory => format!("uses {value}, peers {median}"),
            ComparedMetric::Power => format!("draws {value}, peers {median}"),
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
