//! The text of families of metrics, in the format of Prometheus or `OpenMetrics`.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/> and
//! <https://prometheus.io/docs/specs/om/open_metrics_spec/>.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use crate::export::exposition::metric_choice::MetricChoice;
use gtop_fleet::metrics::Value;
use gtop_model::Bytes;

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FamilyKind {
    Gauge,
    /// It only grows; its name ends in `_total`.
    Counter,
    /// A counter of another exporter, whose name ends otherwise.
    ForeignCounter,
    /// Always 1, with labels that describe something; its name ends in `_info`.
    Info,
}

/// The name of a family, and what it means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Family<'a> {
    pub(super) name: &'a str,
    pub(super) kind: FamilyKind,
    pub(super) help: &'a str,
}

/// Labels with their values, escaped: `node="gpu01",device="0"`.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels(String);

impl Labels {
    /// Returns these labels and another one.
    pub(super) fn and(&self, name: &str, value: &str) -> Self {
        self.clone().with(name, value)
    }

    /// Adds a label; the name is one of gtop's.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(name);
        self.0.push_str("=\"");
        escape(&mut self.0, value, true);
        self.0.push('"');
        self
    }
}

/// Escapes what the formats give a meaning to.
fn escape(out: &mut String, text: &str, is_quoted: bool) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if is_quoted => out.push_str("\\\""),
            letter => out.push(letter),
        }
    }
}

/// Leaves out what has the labels of an earlier one: two samples of a series would spoil the whole answer.
pub(super) fn unique<T>(all: impl IntoIterator<Item = (Labels, T)>) -> Vec<(Labels, T)> {
    let mut seen = HashSet::new();
    all.into_iter().filter(|(labels, _)| seen.insert(labels.0.clone())).collect()
}

/// The value of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SampleValue {
    Integer(u64),
    /// A measured number, with the digits that it was measured with.
    Single(f32),
    Double(f64),
}

impl From<Bytes> for SampleValue {
    fn from(Bytes(bytes): Bytes) -> Self {
        Self::Integer(bytes)
    }
}

impl From<bool> for SampleValue {
    fn from(is_on: bool) -> Self {
        Self::Integer(is_on.into())
    }
}

impl SampleValue {
    /// Returns the value of a metric; `None` if it is unknown or a text.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(number) => Some(Self::Integer(*number)),
            Value::Number(number) => Some(Self::Single(*number)),
            Value::Flag(is_on) => Some((*is_on).into()),
            Value::Unknown(_) | Value::Text(_) => None,
        }
    }

    /// Makes hertz of megahertz.
    pub(super) fn millionfold(self) -> Self {
        match self {
            Self::Integer(number) => Self::Integer(number.saturating_mul(1_000_000)),
            Self::Single(number) => Self::Single(number * 1_000_000.0),
            Self::Double(number) => Self::Double(number * 1_000_000.0),
        }
    }

    /// Divides, with the digits that it was measured with.
    #[expect(clippy::cast_precision_loss, reason = "Prometheus has floating-point numbers only")]
    pub(super) fn divided(self, divisor: f32) -> Self {
        match self {
            Self::Integer(number) => Self::Double(number as f64 / f64::from(divisor)),
            Self::Single(number) => Self::Single(number / divisor),
            Self::Double(number) => Self::Double(number / f64::from(divisor)),
        }
    }
}

/// The text of families.
pub(super) struct ExpositionText {
    out: String,
    is_open_metrics: bool,
    choice: MetricChoice,
    /// The names of all families, with samples or not, if they are what is wanted.
    names: Option<BTreeSet<String>>,
}

impl ExpositionText {
    pub(super) const fn new(is_open_metrics: bool, choice: MetricChoice) -> Self {
        Self { out: String::new(), is_open_metrics, choice, names: None }
    }

    /// Returns one that lists names.
    pub(super) fn listing() -> Self {
        Self { names: Some(BTreeSet::new()), ..Self::new(false, MetricChoice::All) }
    }

    /// Returns the names that it has listed.
    pub(super) fn into_names(self) -> BTreeSet<String> {
        self.names.unwrap_or_default()
    }

    /// Writes a family with its samples; one without samples, or that is not chosen, is left out.
    pub(super) fn family<'l>(
        &mut self,
        family: Family<'_>,
        samples: impl IntoIterator<Item = (&'l Labels, SampleValue)>,
    ) {
        if let Some(names) = &mut self.names {
            names.insert(family.name.to_owned());
        }
        if !self.choice.has(family.name) {
            return;
        }
        let mut is_begun = false;
        for (labels, value) in samples {
            if !std::mem::replace(&mut is_begun, true) {
                self.head(family);
            }
            self.sample(family.name, labels, value);
        }
    }

    /// Writes a gauge with its samples.
    pub(super) fn gauge<'l>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (&'l Labels, SampleValue)>,
    ) {
        self.family(Family { name, kind: FamilyKind::Gauge, help }, samples);
    }

    /// Writes a family of samples that are always 1, with labels of their own; equal ones once.
    pub(super) fn infos(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = Labels>,
    ) {
        let kind = if name.ends_with("_info") { FamilyKind::Info } else { FamilyKind::Gauge };
        // Nothing is computed for one that is not chosen.
        let samples = self.choice.has(name).then_some(samples);
        let all = unique(samples.into_iter().flatten().map(|labels| (labels, ())));
        let ones = all.iter().map(|(labels, ())| (labels, SampleValue::Integer(1)));
        self.family(Family { name, kind, help }, ones);
    }

    fn head(&mut self, Family { name, kind, help }: Family<'_>) {
        let (name, kind) = match (kind, self.is_open_metrics) {
            (FamilyKind::Gauge, _) | (FamilyKind::Info, false) => (name, "gauge"),
            (FamilyKind::Counter | FamilyKind::ForeignCounter, false) => (name, "counter"),
            // OpenMetrics names the family without the endings of its samples.
            (FamilyKind::Counter, true) => (name.strip_suffix("_total").unwrap_or(name), "counter"),
            (FamilyKind::Info, true) => (name.strip_suffix("_info").unwrap_or(name), "info"),
            (FamilyKind::ForeignCounter, true) => (name, "unknown"),
        };
        write!(self.out, "# HELP {name} ").ok();
        escape(&mut self.out, help, self.is_open_metrics);
        write!(self.out, "\n# TYPE {name} {kind}\n").ok();
    }

    fn sample(&mut self, name: &str, Labels(labels): &Labels, value: SampleValue) {
        let (open, close) = if labels.is_empty() { ("", "") } else { ("{", "}") };
        write!(self.out, "{name}{open}{labels}{close} ").ok();
        match value {
            SampleValue::Integer(number) => writeln!(self.out, "{number}").ok(),
            SampleValue::Single(number) => writeln!(self.out, "{number}").ok(),
            SampleValue::Double(number) => writeln!(self.out, "{number}").ok(),
        };
    }

    /// Returns the whole text.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.is_open_metrics {
            self.out.push_str("# EOF\n");
        }
        self.out.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(is_open_metrics: bool) -> String {
        let mut text = ExpositionText::new(is_open_metrics, MetricChoice::All);
        let labels = Labels::default().with("node", "a\"b\\c\nd").with("device", "0");
        let share = [(&labels, SampleValue::Single(0.453))];
        text.gauge("gtop_share_ratio", "a \"share\"", share);
        text.gauge("gtop_none", "none", []);
        let energy =
            Family { name: "gtop_energy_total", kind: FamilyKind::Counter, help: "energy" };
        text.family(energy, [(&Labels::default(), SampleValue::Integer(u64::MAX))]);
        let build = Labels::default().with("v", "1");
        text.infos("gtop_build_info", "build", [build.clone(), build]);
        String::from_utf8(text.finish()).unwrap()
    }

    #[test]
    fn both_formats_have_their_heads_and_escapes() {
        assert_eq!(
            text(false),
            r#"# HELP gtop_share_ratio a "share"
# TYPE gtop_share_ratio gauge
gtop_share_ratio{node="a\"b\\c\nd",device="0"} 0.453
# HELP gtop_energy_total energy
# TYPE gtop_energy_total counter
gtop_energy_total 18446744073709551615
# HELP gtop_build_info build
# TYPE gtop_build_info gauge
gtop_build_info{v="1"} 1
"#
        );
        assert_eq!(
            text(true),
            r#"# HELP gtop_share_ratio a \"share\"
# TYPE gtop_share_ratio gauge
gtop_share_ratio{node="a\"b\\c\nd",device="0"} 0.453
# HELP gtop_energy energy
# TYPE gtop_energy counter
gtop_energy_total 18446744073709551615
# HELP gtop_build build
# TYPE gtop_build info
gtop_build_info{v="1"} 1
# EOF
"#
        );
    }
}
