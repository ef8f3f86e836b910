//! Device attributes beyond load, memory, power and clocks. One table serves the columns, the second line of
//! a device, and the list of unavailable values.

use crate::widgets::line::Tone;
use crate::widgets::number_format::{Units, or_unknown, rate};
use crate::widgets::table::Fade;
use gtop_fleet::Node;
use gtop_fleet::insight::FleetView;
use gtop_fleet::metrics::{
    DeviceChart, Field, MetricColumn, Value, ValueKind, bandwidth_share, device_fields,
    nvlink_rates, pcie_rates,
};
use gtop_local::text::UNKNOWN;
use gtop_model::{
    Bytes, ComputeMode, Device, DeviceDetails, Link, Percent, Reading, Reason, Throttle,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributeContext<'a> {
    pub(crate) node: &'a Node,
    pub(crate) device: &'a Device,
    pub(crate) units: Units,
}

/// A formatted value and its tone, or why it is unavailable.
pub(crate) type AttributeText = Reading<(String, Tone)>;

/// One attribute of a device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attribute {
    /// The name in settings.
    pub(crate) name: &'static str,
    pub(crate) column: MetricColumn,
    /// Its description in one line, that of the metric if it shows one.
    pub(crate) help: &'static str,
    source: AttributeSource,
}

#[derive(Clone, Copy, Debug)]
enum AttributeSource {
    Metric(&'static Field<Device>),
    /// Several metrics together, or one in another format.
    Combined(fn(AttributeContext<'_>) -> AttributeText),
}

/// Makes an attribute that is no single metric.
const fn combined(
    name: &'static str,
    title: &'static str,
    label: &'static str,
    (width, rank): (u16, u8),
    help: &'static str,
    read: fn(AttributeContext<'_>) -> AttributeText,
) -> Attribute {
    let column = MetricColumn { title, label, width, rank };
    Attribute { name, column, help, source: AttributeSource::Combined(read) }
}

impl Attribute {
    fn of_metric(field: &'static Field<Device>) -> Option<Self> {
        let source = AttributeSource::Metric(field);
        Some(Self { name: field.alias, column: field.column?, help: field.help, source })
    }

    pub(crate) fn read(&self, context: AttributeContext<'_>) -> AttributeText {
        match self.source {
            AttributeSource::Metric(field) => plain(metric_text(field, context)),
            AttributeSource::Combined(read) => read(context),
        }
    }

    /// Returns true if any device of the node reports the attribute, or will after its second sample.
    pub(crate) fn is_available(&self, node: &Node, units: Units) -> bool {
        node.devices.iter().any(|device| {
            let text = self.read(AttributeContext { node, device, units });
            matches!(text, Reading::Known(_) | Reading::Unknown(Reason::NeedsTwoSamples))
        })
    }
}

/// Returns how a device is drawn: its values may be old, or the filter may not match it.
pub(crate) fn device_fade(fleet_view: &FleetView, node: &Node, index: usize) -> Fade {
    let freshness = node.device_freshness(index, fleet_view.now);
    if node.link != Link::Up || !freshness.is_fresh() {
        Fade::All
    } else if fleet_view.matches_device(node, index) {
        Fade::None
    } else {
        Fade::Emphasis
    }
}

/// Returns all attributes by rank: the first get columns first.
pub(crate) fn attributes() -> Vec<Attribute> {
    let metrics = device_fields().filter_map(Attribute::of_metric);
    let mut attributes: Vec<Attribute> = metrics.chain(COMBINED).collect();
    attributes.sort_by_key(|attribute| attribute.column.rank);
    attributes
}

/// Returns the known ones of these attributes, each with its label.
pub(crate) fn named(context: AttributeContext<'_>, names: &[&str]) -> Vec<String> {
    let all = attributes();
    let found = names.iter().filter_map(|name| all.iter().find(|known| known.name == *name));
    let known = found.filter_map(|attribute| {
        let (text, _) = attribute.read(context).into_known()?;
        Some(format!("{} {text}", attribute.column.label))
    });
    known.collect()
}

/// The attributes that are no single metric.
const COMBINED: [Attribute; 18] = [
    combined("owner", "OWNER", "by", (8, 1), "the user of a TPU chip", owner),
    combined("throttled", "THROTTLED", "throttled", (12, 2), "why clocks are throttled", throttled),
    combined("membw", "MEMBW", "membw", (5, 3), "memory bandwidth in use", bandwidth),
    combined("memshare", "MEM%", "memory share", (4, 5), MEMORY_SHARE_HELP, memory_share),
    combined("pcie", "PCIe", "PCIe", (11, 7), "traffic over PCIe", pcie),
    combined("nvlink", "NVLINK", "NVLink", (11, 8), "traffic over NVLink", nvlink),
    combined("fan", "FAN", "fan", (5, 9), "fan speed", fan),
    combined("pstate", "PSTATE", "pstate", (6, 10), "the performance state", performance_state),
    combined("enc-dec", "ENC/DEC", "enc/dec", (7, 11), "video encoder and decoder", video),
    combined("ecc", "ECC", "ecc", (7, 15), "ECC errors, corrected/uncorrected", ecc_errors),
    combined("remap", "REMAP", "remap", (8, 16), "remapped memory rows", remapped_rows),
    combined("link", "LINK", "link", (5, 17), "PCIe generation and lanes", link),
    combined("mode", "MODE", "mode", (9, 19), "the compute mode", mode),
    combined("cores", "CORES", "cores", (9, 21), "the cores of a chip", cores),
    combined("gi-ci", "GI/CI", "GI/CI", (5, 22), "GPU and compute instance of a slice", instances),
    combined("bar1", "BAR1", "BAR1", (11, 23), "the BAR1 window in use", bar1),
    combined(
        "partitions",
        "PART",
        "partitions",
        (8, 24),
        "compute and memory partition",
        partition,
    ),
    combined("pci", "PCI", "pci", (12, 27), "PCI address", bus),
];

const MEMORY_SHARE_HELP: &str = "device memory in use, in percent";

/// Groups the labels of unavailable values by reason. `first` is listed before the attributes.
pub(crate) fn unavailable(
    context: AttributeContext<'_>,
    first: &[(&'static str, Option<Reason>)],
) -> Vec<(String, &'static str)> {
    let attributes = attributes().into_iter();
    let reasons = attributes.map(|known| (known.column.label, known.read(context).reason()));
    let mut grouped: Vec<(String, &'static str)> = Vec::new();
    for (label, reason) in first.iter().copied().chain(reasons) {
        // No source reports this value at all, so its absence is not listed.
        let Some(reason) = reason.filter(|reason| *reason != Reason::NotSampled) else { continue };
        match grouped.iter_mut().find(|(_, known)| *known == reason.text()) {
            Some((labels, _)) => *labels = format!("{labels}, {label}"),
            None => grouped.push((label.to_owned(), reason.text())),
        }
    }
    grouped
}

/// Formats the current value of a charted metric in at most 6 columns: its share, or the value that the share
/// is of.
pub(crate) fn chart_text(chart: &DeviceChart, context: AttributeContext<'_>) -> String {
    let field = chart.field.filter(|field| field.kind != ValueKind::Text && field.unit() != "%");
    let text = match field {
        Some(field) => metric_text(field, context).into_known(),
        None => chart.share(context.device).map(|share| format!("{share:.0}%")),
    };
    text.unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Bytes per GiB.
const GIB: f32 = 1_073_741_824.0;

/// Formats the value at the end of a chart's scale: what shares are of, in the unit of the value, in at most 6 columns.
pub(crate) fn chart_end_text(chart: &DeviceChart, whole: Option<f32>, units: Units) -> String {
    match (whole, chart.field.map_or("", Field::unit)) {
        (Some(celsius), "°C") => units.temperature_text(celsius),
        (Some(bytes), "B") => units.amount_of_gib(bytes / GIB),
        (Some(watts), "W") => format!("{watts:.0}W"),
        (Some(clock), "MHz") => format!("{:.1}GHz", clock / 1_000.0),
        _ => "100%".to_owned(),
    }
}

fn detail<T>(
    context: AttributeContext<'_>,
    read: impl FnOnce(&DeviceDetails) -> Reading<T>,
) -> Reading<T> {
    Reading::of(context.device.details.as_deref(), read)
}

fn plain<T: ToString>(reading: Reading<T>) -> AttributeText {
    reading.map(|value| (value.to_string(), Tone::Plain))
}

/// Formats a value; one that is missing was not sampled.
fn if_any<T: ToString>(value: Option<T>) -> AttributeText {
    value.map_or_else(Reading::default, |value| plain(Reading::Known(value)))
}

fn percent_text(reading: Reading<Percent>) -> AttributeText {
    plain(reading.map(|share| format!("{:.0}%", share.get())))
}

/// Formats the value of a metric with its unit.
pub(crate) fn metric_text(field: &Field<Device>, context: AttributeContext<'_>) -> Reading<String> {
    let units = context.units;
    Reading::Known(match ((field.read)(context.device), field.unit()) {
        (Value::Unknown(reason), _) => return Reading::Unknown(reason),
        (Value::Number(celsius), "°C") if field.is_temperature_difference() => {
            units.temperature_difference_text(celsius)
        }
        (Value::Number(celsius), "°C") => units.temperature_text(celsius),
        (Value::Number(number), unit) => format!("{number:.0}{unit}"),
        (Value::Integer(amount), "B") => units.amount(Bytes(amount)),
        (Value::Integer(amount), "B/s") => rate(amount),
        (Value::Integer(number), _) => number.to_string(),
        (Value::Text(text), _) => text.to_string(),
        (Value::Flag(is_on), _) => if is_on { "on" } else { "off" }.to_owned(),
    })
}

/// Summarises the users of a device; the process table has the details.
fn owner(context: AttributeContext<'_>) -> AttributeText {
    let AttributeContext { node, device, .. } = context;
    let Some(chip) = &device.tpu else { return Reading::default() };
    let mut users = node
        .uses_of(&device.uuid)
        .filter_map(|used| node.process(used.pid)?.statics.user.known().cloned());
    match (users.next(), chip.is_held) {
        (Some(user), _) => plain(Reading::Known(user)),
        (None, Reading::Known(false)) => Reading::Known(("nobody".to_owned(), Tone::Faint)),
        (None, Reading::Known(true)) => Reading::Known(("hidden".to_owned(), Tone::Faint)),
        (None, Reading::Unknown(reason)) => Reading::Unknown(reason),
    }
}

/// Throttling for a smaller share of the time is not shown.
const MIN_SHOWN_PERCENT: f32 = 0.5;

/// Formats the longest throttle cause and its share of the time between the last two samples.
fn throttled(context: AttributeContext<'_>) -> AttributeText {
    let Device { rates, throttle, .. } = context.device;
    let shares = rates.iter().flat_map(|rates| {
        [
            (rates.hardware_thermal_throttled, "hw heat", Tone::Warn),
            (rates.thermal_throttled, "sw heat", Tone::Warn),
            (rates.power_brake_throttled, "brake", Tone::Warn),
            (rates.power_throttled, "power", Tone::Plain),
            (rates.sync_boost_throttled, "sync", Tone::Plain),
        ]
    });
    let longest = shares
        .filter_map(|(share, label, tone)| Some((share.get()?.get(), label, tone)))
        .filter(|(share, ..)| *share >= MIN_SHOWN_PERCENT)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    if let Some((share, label, tone)) = longest {
        return Reading::Known((format!("{share:.0}% {label}"), tone));
    }
    let cause = throttle.map(|throttle| throttle_cause(throttle).unwrap_or(("no", Tone::Faint)));
    cause.map(|(label, tone)| (label.to_owned(), tone))
}

/// Returns the current throttle cause, for devices without throttle counters.
fn throttle_cause(throttle: Throttle) -> Option<(&'static str, Tone)> {
    if throttle.is_thermal() {
        Some(("heat", Tone::Warn))
    } else if throttle.is_power_brake() {
        Some(("brake", Tone::Warn))
    } else if throttle.is_hardware_slowdown() {
        Some(("slowdown", Tone::Warn))
    } else {
        throttle.is_power_capped().then_some(("power", Tone::Plain))
    }
}

fn memory_share(context: AttributeContext<'_>) -> AttributeText {
    // The amounts say why it is unknown.
    percent_text(context.device.memory_share().map_or_else(Reading::default, Reading::Known))
}

fn bandwidth(context: AttributeContext<'_>) -> AttributeText {
    percent_text(bandwidth_share(context.device))
}

fn rates_text((inward, outward): (Reading<Bytes>, Reading<Bytes>)) -> AttributeText {
    plain(
        inward
            .zip(outward)
            .map(|(inward, outward)| format!("↓{:>4} ↑{:>4}", rate(inward.0), rate(outward.0))),
    )
}

fn pcie(context: AttributeContext<'_>) -> AttributeText {
    rates_text(pcie_rates(context.device))
}

fn nvlink(context: AttributeContext<'_>) -> AttributeText {
    rates_text(nvlink_rates(context.device))
}

fn fan(context: AttributeContext<'_>) -> AttributeText {
    let text = plain(context.device.fan.map(|fan| format!("{:.0}%", fan.get())));
    let rpm = detail(context, |details| details.fan_rpm);
    text.or(|| plain(rpm.map(|rpm| format!("{rpm}r"))))
}

fn performance_state(context: AttributeContext<'_>) -> AttributeText {
    let text = plain(context.device.performance_state.map(|state| format!("P{state}")));
    let level = detail(context, |details| details.performance_level.clone()).into_known();
    text.or(|| if_any(level))
}

fn video(context: AttributeContext<'_>) -> AttributeText {
    let both = detail(context, |details| details.encoder.zip(details.decoder));
    match both {
        Reading::Known((encoder, decoder)) => {
            plain(Reading::Known(format!("{:.0}/{:.0}", encoder.get(), decoder.get())))
        }
        Reading::Unknown(reason) => {
            percent_text(detail(context, |details| details.video)).or(|| Reading::Unknown(reason))
        }
    }
}

fn ecc_errors(context: AttributeContext<'_>) -> AttributeText {
    let Device { ecc_corrected, ecc_uncorrected, .. } = context.device;
    ecc_corrected.zip(*ecc_uncorrected).map(|(corrected, uncorrected)| {
        let tone = if uncorrected > 0 { Tone::Bad } else { Tone::Plain };
        (format!("{corrected}/{uncorrected}"), tone)
    })
}

/// Formats remapped rows or retired pages, with `!` if some are pending or remapping failed.
fn remapped_rows(context: AttributeContext<'_>) -> AttributeText {
    let Some(details) = context.device.details.as_deref() else { return Reading::default() };
    let rows = sum(details.remapped_corrected, details.remapped_uncorrected);
    let count = rows.or(|| sum(details.retired_single, details.retired_double));
    let is_failed = details.remapping_failed.get() == Some(true);
    let pending = [details.remapping_pending, details.retirement_pending];
    let is_pending = pending.iter().any(|is_pending| is_pending.get() == Some(true));
    count.map(|count| match (is_failed, is_pending) {
        (true, _) => (format!("{count} failed"), Tone::Bad),
        (false, true) => (format!("{count} waits"), Tone::Warn),
        (false, false) => (count.to_string(), Tone::Plain),
    })
}

fn sum(one: Reading<u64>, other: Reading<u64>) -> Reading<u64> {
    one.zip(other).map(|(one, other)| one.saturating_add(other))
}

fn link(context: AttributeContext<'_>) -> AttributeText {
    let max = Reading::of(context.device.statics.as_deref(), |known| known.pcie_max).get();
    context.device.pcie.map(|(generation, lanes)| {
        // An idle device lowers its PCIe generation but keeps its lanes.
        let is_narrow = max.is_some_and(|(_, max)| lanes < max);
        let tone = if is_narrow { Tone::Warn } else { Tone::Plain };
        (format!("{generation}x{lanes}"), tone)
    })
}

fn mode(context: AttributeContext<'_>) -> AttributeText {
    let mode = detail(context, |details| details.compute_mode);
    plain(mode.map(|mode| match mode {
        ComputeMode::Shared => "default",
        ComputeMode::ExclusiveThread => "1 thread",
        ComputeMode::ExclusiveProcess => "1 process",
        ComputeMode::Prohibited => "nobody",
    }))
}

fn cores(context: AttributeContext<'_>) -> AttributeText {
    let cores = context.device.tpu.as_deref().and_then(|chip| chip.by_core.known());
    if_any(cores.map(|cores| {
        let texts = cores
            .iter()
            .map(|core| or_unknown(core.utilization, |share| format!("{:.0}", share.get())));
        texts.collect::<Vec<_>>().join("/")
    }))
}

fn instances(context: AttributeContext<'_>) -> AttributeText {
    let statics = context.device.statics.as_deref();
    let ids = statics.and_then(|known| known.gpu_instance.zip(known.compute_instance).get());
    if_any(ids.map(|(gpu, compute)| format!("{gpu}/{compute}")))
}

fn bar1(context: AttributeContext<'_>) -> AttributeText {
    let both = detail(context, |details| details.bar1_used.zip(details.bar1_total));
    plain(both.map(|(used, total)| {
        format!("{}/{}", compact_amount(context, used), compact_amount(context, total))
    }))
}

fn compact_amount(context: AttributeContext<'_>, bytes: Bytes) -> String {
    context.units.amount(bytes).replace(".0", "")
}

fn partition(context: AttributeContext<'_>) -> AttributeText {
    let Some(details) = context.device.details.as_deref() else { return Reading::default() };
    let labels = [details.compute_partition.known(), details.memory_partition.known()];
    if labels == [None, None] {
        return Reading::default();
    }
    plain(Reading::Known(labels.map(|label| label.map_or(UNKNOWN, |label| label)).join("/")))
}

fn bus(context: AttributeContext<'_>) -> AttributeText {
    let known = context.device.pci.known().map(|id| match id.split_once(':') {
        // The PCI domain is 0 on nearly all machines.
        Some((domain, tail)) if domain.chars().all(|digit| digit == '0') => tail.to_owned(),
        _ => id.to_string(),
    });
    if_any(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_fleet::metrics::{charts, made_up};
    use gtop_model::{Celsius, NodeName};

    #[test]
    fn a_metric_of_one_entry_is_a_column_and_a_chart() {
        let node = Node::new(NodeName::new("gpu01").unwrap(), std::time::Duration::ZERO);
        let device = Device {
            temperature: Reading::checked(Celsius::new(90.0)),
            memory_temperature: Reading::checked(Celsius::new(90.0)),
            ..Device::default()
        };
        let context = AttributeContext { node: &node, device: &device, units: Units::default() };
        let count = attributes().len();
        made_up::with(|| {
            let all = attributes();
            let last = all.last().unwrap();
            assert_eq!((all.len(), last.name, last.column.title), (count + 1, "wobble", "WOBBLE"));
            assert_eq!(last.read(context), Reading::Known(("90°".to_owned(), Tone::Plain)));
            let chart = charts().pop().unwrap();
            assert_eq!((chart.alias, chart.share(&device)), ("wobble", Some(90.0)));
            assert_eq!(chart_text(&chart, context), "90°");
        });
    }

    #[test]
    fn ranks_are_unique() {
        let ranks = attributes().into_iter().map(|attribute| attribute.column.rank);
        assert!(ranks.eq(1..=27));
        assert!(charts().iter().map(|chart| chart.metric.rank).eq(1..=12));
    }
}
