//! What a row of the screen means: each number with its unit, its source, its age and its meaning, and each note
//! with what to do about it.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;

use crate::widgets::line::{Line, Tone, wrap};
use crate::widgets::number_format::{Units, rate};
use gtop_fleet::metrics::{Field, Value, ValueKind};
use gtop_local::text::{UNKNOWN, width_of};
use gtop_local::time::{Timestamp, format_age, format_duration};
use gtop_model::{Bytes, Reading, Reason};

/// Maximum width of the values, where meanings stand beside them.
const MAX_VALUE_WIDTH: u16 = 24;
/// If less than this is left for meanings, they stand below their values.
const MIN_MEANING_WIDTH: u16 = 24;
/// The columns before a line of a part.
const INDENT: u16 = 2;

/// The explanation of one row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Explanation {
    /// What is explained; the same row keeps its title.
    pub(crate) title: String,
    parts: Vec<ExplanationPart>,
}

/// A part of an explanation: notes, or numbers that come from one source.
#[derive(Clone, Debug, Default, PartialEq)]
struct ExplanationPart {
    /// Empty for notes at the top.
    heading: String,
    /// When the source measured the numbers; `None` if it has no time.
    taken_at: Option<Timestamp>,
    /// It is folded until somebody unfolds it.
    is_detail: bool,
    items: Vec<ExplanationItem>,
}

impl ExplanationPart {
    fn of_facts(heading: String, taken_at: Option<Timestamp>, facts: Vec<Fact>) -> Self {
        let items = facts.into_iter().map(ExplanationItem::Fact).collect();
        Self { heading, taken_at, is_detail: false, items }
    }

    fn heading_text(&self, now: Timestamp) -> String {
        let age = self.taken_at.map(|at| format!(", {} ago", format_age(now.since(at))));
        format!("{}{}", self.heading, age.unwrap_or_default())
    }
}

#[derive(Clone, Debug, PartialEq)]
enum ExplanationItem {
    Remark(Remark),
    Fact(Fact),
}

/// Which details are unfolded, by their headings, and the one under the cursor.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct UnfoldedDetails {
    headings: BTreeSet<String>,
    pub(crate) cursor: usize,
}

/// An explanation as it is drawn.
#[derive(Debug)]
pub(crate) struct DrawnExplanation {
    pub(crate) lines: Vec<Line>,
    /// The lines with the headings of details.
    pub(crate) headings: Vec<usize>,
}

/// A note with its explanation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Remark {
    /// The note as the row shows it.
    pub(crate) note: String,
    pub(crate) tone: Tone,
    /// What it means; may be empty.
    pub(crate) meaning: String,
    /// What to do about it; empty if nothing.
    pub(crate) remedy: String,
}

/// A number of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fact {
    /// Its title, or its name in filters.
    pub(crate) name: String,
    /// The value with its unit; `None` if the row has no value for an unknown reason.
    pub(crate) value: Option<Reading<String>>,
    /// What it means, from its declaration.
    pub(crate) meaning: String,
}

impl Fact {
    pub(crate) fn known(name: &str, value: impl Into<String>, meaning: impl Into<String>) -> Self {
        let value = Some(Reading::Known(value.into()));
        Self { name: name.into(), value, meaning: meaning.into() }
    }

    pub(crate) fn count((name, count, meaning): (&str, usize, &str)) -> Self {
        Self::known(name, count.to_string(), meaning)
    }

    /// Makes a fact of the text of a cell, where a dash stands for no value.
    pub(crate) fn of_cell(name: &str, text: impl Into<String>, meaning: impl Into<String>) -> Self {
        let text = Some(text.into()).filter(|text| !text.is_empty() && text != UNKNOWN);
        Self { name: name.into(), value: text.map(Reading::Known), meaning: meaning.into() }
    }

    /// Makes facts of metrics; times are those of the zone.
    pub(crate) fn of_metrics<S: 'static>(
        fields: impl Iterator<Item = &'static Field<S>>,
        subject: &S,
        (units, zone): (Units, &TimeZone),
    ) -> Vec<Self> {
        fields.map(|field| Self::of_metric(field, subject, (units, zone))).collect()
    }

    fn of_metric<S>(field: &Field<S>, subject: &S, (units, zone): (Units, &TimeZone)) -> Self {
        let value = (field.read)(subject);
        let value = if field.kind == ValueKind::Timestamp {
            local_time(value, zone)
        } else {
            with_unit(field, value, units)
        };
        Self { name: field.alias.to_owned(), value: Some(value), meaning: field.help.to_owned() }
    }

    pub(crate) const fn has_value(&self) -> bool {
        matches!(self.value, Some(Reading::Known(_)))
    }

    /// Returns true if no source reports the value.
    pub(crate) fn is_unsampled(&self) -> bool {
        self.value == Some(Reading::Unknown(Reason::NotSampled))
    }

    fn value_text(&self) -> String {
        match &self.value {
            Some(Reading::Known(text)) => text.clone(),
            Some(Reading::Unknown(reason)) => format!("{UNKNOWN} {}", reason.text()),
            None => UNKNOWN.to_owned(),
        }
    }
}

/// Formats a time as the clock of the zone shows it.
fn local_time(value: Value, zone: &TimeZone) -> Reading<String> {
    if let Value::Unknown(reason) = value {
        return Reading::Unknown(reason);
    }
    let moment = value.text().and_then(|text| text.parse::<jiff::Timestamp>().ok());
    let local = moment.map(|moment| moment.to_zoned(zone.clone()));
    Reading::checked(local.map(|local| local.strftime("%b %d %H:%M:%S").to_string()))
}

/// Formats a value of a metric with its unit in full.
fn with_unit<S>(field: &Field<S>, value: Value, units: Units) -> Reading<String> {
    let unit = field.unit();
    let space = if matches!(unit, "" | "%") { "" } else { " " };
    Reading::Known(match (value, unit) {
        (Value::Unknown(reason), _) => return Reading::Unknown(reason),
        (Value::Number(celsius), "°C") if field.is_temperature_difference() => {
            units.temperature_difference_text(celsius)
        }
        (Value::Number(celsius), "°C") => units.temperature_text(celsius),
        (Value::Number(number), "") => format!("{number:.2}"),
        (Value::Number(number), _) => format!("{number:.0}{space}{unit}"),
        (Value::Integer(amount), "B") => units.amount_with_unit(Bytes(amount)),
        (Value::Integer(amount), "B/s") => format!("{}B/s", rate(amount)),
        (Value::Integer(seconds), "s") => format_duration(std::time::Duration::from_secs(seconds)),
        (Value::Integer(number), _) => format!("{number}{space}{unit}"),
        (Value::Text(text), _) => text.to_string(),
        (Value::Flag(is_on), _) => if is_on { "yes" } else { "no" }.to_owned(),
    })
}

impl Explanation {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), parts: Vec::new() }
    }

    /// Adds notes.
    #[must_use]
    pub(crate) fn with_remarks(self, remarks: impl IntoIterator<Item = Remark>) -> Self {
        let items = remarks.into_iter().map(ExplanationItem::Remark).collect();
        self.with_part(ExplanationPart { items, ..ExplanationPart::default() })
    }

    /// Adds notes as details.
    #[must_use]
    pub(crate) fn with_remark_details(self, heading: &str, remarks: Vec<Remark>) -> Self {
        let items = remarks.into_iter().map(ExplanationItem::Remark).collect();
        let heading = heading.to_owned();
        self.with_part(ExplanationPart { heading, items, is_detail: true, taken_at: None })
    }

    /// Adds numbers of one source, unless there are none.
    #[must_use]
    pub(crate) fn with_numbers(
        self,
        source: impl Into<String>,
        taken_at: Option<Timestamp>,
        facts: Vec<Fact>,
    ) -> Self {
        self.with_part(ExplanationPart::of_facts(source.into(), taken_at, facts))
    }

    /// Adds numbers of one source as details, unless there are none.
    #[must_use]
    pub(crate) fn with_details(
        self,
        source: impl Into<String>,
        taken_at: Option<Timestamp>,
        facts: Vec<Fact>,
    ) -> Self {
        let part = ExplanationPart::of_facts(source.into(), taken_at, facts);
        self.with_part(ExplanationPart { is_detail: true, ..part })
    }

    fn with_part(mut self, part: ExplanationPart) -> Self {
        if !part.items.is_empty() {
            self.parts.push(part);
        }
        self
    }

    /// Appends the parts of another one.
    #[must_use]
    pub(crate) fn followed_by(mut self, other: Self) -> Self {
        self.parts.extend(other.parts);
        self
    }

    /// Returns the headings of the details.
    /// Returns true if the first details are remarks.
    pub(crate) fn has_remarks_folded(&self) -> bool {
        let first = self.parts.iter().find(|part| part.is_detail);
        first.is_some_and(|part| matches!(part.items.first(), Some(ExplanationItem::Remark(_))))
    }

    fn details(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter(|part| part.is_detail).map(|part| part.heading.as_str())
    }

    /// Draws what is not folded; no text is cut, however narrow the screen is.
    pub(crate) fn drawn(
        &self,
        unfolded: &UnfoldedDetails,
        now: Timestamp,
        width: u16,
    ) -> DrawnExplanation {
        let title = wrap(&self.title, width, usize::MAX).into_iter();
        let mut lines: Vec<Line> = title.map(|text| Line::styled(text, Tone::Strong)).collect();
        let [shown, details] = [false, true].map(|is_detail| self.columns(is_detail, width));
        let mut headings = Vec::new();
        let mut is_open = true;
        for part in &self.parts {
            let was_open = std::mem::replace(&mut is_open, unfolded.shows(part));
            if !part.heading.is_empty() && (was_open || is_open) {
                lines.push(Line::new());
            }
            let sign = match (part.is_detail, is_open) {
                (false, _) => "",
                (true, true) => "▾ ",
                (true, false) => "▸ ",
            };
            let sign = Line::styled(sign, Tone::Accent);
            let is_selected = part.is_detail && headings.len() == unfolded.cursor;
            headings.extend(part.is_detail.then_some(lines.len()));
            let heading = part.heading_text(now);
            let heading = hanging(&sign, &heading, Tone::Accent, width);
            lines.extend(heading.map(|line| line.selected(is_selected)));
            let columns = if part.is_detail { details } else { shown };
            for item in part.items.iter().filter(|_| is_open) {
                lines.extend(match item {
                    ExplanationItem::Remark(remark) => remark_lines(remark, width),
                    ExplanationItem::Fact(fact) => fact_lines(fact, columns, width),
                });
            }
        }
        let lines = lines.into_iter().map(|line| line.truncated(width)).collect();
        DrawnExplanation { lines, headings }
    }

    /// Returns the widths of the names and the values, the same in all details and in all else; each at most a third of the
    /// width.
    fn columns(&self, is_detail: bool, width: u16) -> (u16, u16) {
        let parts = self.parts.iter().filter(|part| part.is_detail == is_detail);
        let facts = parts.flat_map(|part| &part.items).filter_map(|item| match item {
            ExplanationItem::Fact(fact) => Some(fact),
            ExplanationItem::Remark(_) => None,
        });
        let max_name = width / 3;
        let (min, max_value) = (4.min(max_name), MAX_VALUE_WIDTH.min(max_name));
        facts.fold((min, min), |(name, value), fact| {
            let own = (width_of(&fact.name), width_of(&fact.value_text()));
            (
                if own.0 <= max_name { name.max(own.0) } else { name },
                if own.1 <= max_value { value.max(own.1) } else { value },
            )
        })
    }
}

impl UnfoldedDetails {
    fn shows(&self, part: &ExplanationPart) -> bool {
        !part.is_detail || self.headings.contains(&part.heading)
    }

    /// Unfolds the details under the cursor, or folds them; `None` does what they are not.
    pub(crate) fn set(&mut self, explanation: &Explanation, unfolds: Option<bool>) {
        let Some(heading) = explanation.details().nth(self.cursor) else { return };
        let is_folded = !self.headings.contains(heading);
        if unfolds.unwrap_or(is_folded) {
            self.headings.insert(heading.to_owned());
        } else {
            self.headings.remove(heading);
        }
    }

    /// Unfolds all details, or folds them.
    pub(crate) fn set_all(&mut self, explanation: &Explanation, unfolds: bool) {
        self.headings.clear();
        if unfolds {
            self.headings.extend(explanation.details().map(str::to_owned));
        }
    }
}

/// Draws a text behind `front`, its further lines below its first.
fn hanging(front: &Line, text: &str, tone: Tone, width: u16) -> impl Iterator<Item = Line> {
    let indent = front.width();
    let lines = wrap_all(text, width.saturating_sub(indent)).into_iter().enumerate();
    lines.map(move |(index, text)| {
        let front = if index == 0 { front.clone() } else { Line::new().gap(indent) };
        front.text(text, tone)
    })
}

/// Wraps a text and breaks words that are wider than a line, such as addresses and commands.
fn wrap_all(text: &str, width: u16) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for line in text.lines().flat_map(|line| wrap(line, width, usize::MAX)) {
        let mut part = String::new();
        for letter in line.chars() {
            let mut bytes = [0; 4];
            if width_of(&part) + width_of(letter.encode_utf8(&mut bytes)) > width {
                lines.push(std::mem::take(&mut part));
            }
            part.push(letter);
        }
        lines.push(part);
    }
    lines
}

fn remark_lines(remark: &Remark, width: u16) -> Vec<Line> {
    let symbol = if remark.tone == Tone::Bad {
        "✗"
    } else if remark.tone == Tone::Warn {
        "!"
    } else {
        "·"
    };
    let note = Line::styled(symbol, remark.tone).gap(1);
    let indent = Line::new().gap(INDENT);
    let arrow = indent.clone().text("→ ", Tone::Accent);
    let note = hanging(&note, &remark.note, remark.tone, width);
    let meaning = hanging(&indent, &remark.meaning, Tone::Plain, width);
    note.chain(meaning).chain(hanging(&arrow, &remark.remedy, Tone::Plain, width)).collect()
}

fn fact_lines(fact: &Fact, (name, value): (u16, u16), width: u16) -> Vec<Line> {
    let tone = if fact.has_value() { Tone::Strong } else { Tone::Faint };
    let text = fact.value_text();
    let indent = Line::new().gap(INDENT);
    let values = Line::new().gap(INDENT + name + 1);
    // A name that is too long for its column stands above.
    let (mut lines, front) = if width_of(&fact.name) <= name {
        (Vec::new(), indent.left_aligned(&fact.name, name, Tone::Plain).gap(1))
    } else {
        (hanging(&indent, &fact.name, Tone::Plain, width).collect(), values.clone())
    };
    let room = width.saturating_sub(INDENT + name + value + 3);
    if room < MIN_MEANING_WIDTH || width_of(&text) > value {
        lines.extend(hanging(&front, &text, tone, width));
        lines.extend(hanging(&values, &fact.meaning, Tone::Faint, width));
        return lines;
    }
    let front = front.left_aligned(&text, value, tone).gap(2);
    if fact.meaning.is_empty() {
        lines.push(front);
    } else {
        lines.extend(hanging(&front, &fact.meaning, Tone::Faint, width));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::widgets::number_format::MemoryUnit;
    use gtop_fleet::metrics::{DEVICE, device_fields};
    use gtop_model::{Celsius, Device, DeviceDetails, Percent};

    fn fact(name: &str, value: &str, meaning: &str) -> Fact {
        Fact::known(name, value, meaning)
    }

    fn texts(explanation: &Explanation, width: u16) -> Vec<String> {
        let now = Timestamp::from_micros(5_000_000);
        let lines = explanation.drawn(&UnfoldedDetails::default(), now, width).lines;
        assert!(lines.iter().all(|line| line.width() <= width), "{width}");
        lines.iter().map(|line| line.plain_text().trim_end().to_owned()).collect()
    }

    #[test]
    fn a_number_has_its_source_its_age_and_its_meaning() {
        let page = Explanation::new("gpu01").with_numbers(
            "NVML",
            Some(Timestamp::from_micros(3_000_000)),
            vec![fact("util", "97%", "share of time in which the device was executing work")],
        );
        assert_eq!(
            texts(&page, 80),
            [
                "gpu01",
                "",
                "NVML, 2s ago",
                "  util 97%   share of time in which the device was executing work"
            ]
        );
        assert_eq!(
            texts(&page, 40)[3..],
            ["  util 97%   share of time in which the", "             device was executing work"]
        );
    }

    #[test]
    fn an_unknown_number_says_why() {
        let units = Units::default();
        let field = |alias| DEVICE.iter().find(|field| field.alias == alias).unwrap();
        let device = Device {
            utilization: Reading::Known(Percent::new(97.0).unwrap()),
            power: Reading::Unknown(Reason::NotSupported),
            ..Device::default()
        };
        let value =
            |alias| Fact::of_metric(field(alias), &device, (units, &TimeZone::UTC)).value_text();
        assert_eq!(value("util"), "97%");
        assert_eq!(value("power"), "– not supported");
        assert_eq!(value("temp"), "– not sampled");
    }

    #[test]
    fn amounts_have_their_unit_and_differences_of_temperatures_no_zero_point() {
        let field = |alias| device_fields().find(|field| field.alias == alias).unwrap();
        let degrees = |degrees| Reading::Known(Celsius::new(degrees).unwrap());
        let details = DeviceDetails { temperature_margin: degrees(20.0), ..Default::default() };
        let device = Device {
            memory_total: Reading::Known(Bytes(80 << 30)),
            temperature: degrees(60.0),
            details: Some(details.into()),
            ..Device::default()
        };
        let texts = |units| {
            ["memtotal", "temp", "margin"].map(|alias| {
                Fact::of_metric(field(alias), &device, (units, &TimeZone::UTC)).value_text()
            })
        };
        assert_eq!(texts(Units::default()), ["80.0 GiB", "60°", "20°"]);
        let units = Units { memory: MemoryUnit::Gb, is_fahrenheit: true };
        assert_eq!(texts(units), ["85.9 GB", "140F", "36F"]);
    }

    #[test]
    fn a_dash_of_a_cell_is_no_value() {
        assert!(Fact::of_cell("busy", "0", "").has_value());
        for text in ["–", ""] {
            let absent = Fact::of_cell("user", text, "");
            assert_eq!((absent.has_value(), absent.value_text()), (false, "–".to_owned()));
        }
    }

    #[test]
    fn a_time_is_that_of_the_clock_here() {
        let text = |text: &str| local_time(Value::Text(text.into()), &TimeZone::UTC);
        assert_eq!(text("2025-11-20T09:53:07Z"), Reading::Known("Nov 20 09:53:07".to_owned()));
        assert_eq!(text("soon").reason(), Some(Reason::Malformed));
        let unknown = Value::Unknown(Reason::NotAvailable);
        assert_eq!(local_time(unknown, &TimeZone::UTC).reason(), Some(Reason::NotAvailable));
    }

    #[test]
    fn a_remedy_is_never_cut() {
        let remedy = "check that sshd runs there and that the port is right; \
                      try: ssh -p 2222 ada@a-very-long-name-of-a-node.cluster.example.org true";
        let remark = Remark {
            note: "connection refused: port 22".to_owned(),
            tone: Tone::Bad,
            meaning: "nothing listens on the port".to_owned(),
            remedy: remedy.to_owned(),
        };
        let page = Explanation::new("gpu01").with_remarks([remark]);
        for width in [12, 20, 40, 80, 200] {
            let all: String = texts(&page, width).concat();
            let letters = |text: &str| text.replace([' ', '→'], "");
            assert!(letters(&all).contains(&letters(remedy)), "{width}: {all}");
            assert!(!all.contains('…'));
        }
        assert!(texts(&page, 80).contains(&"✗ connection refused: port 22".to_owned()));
    }

    #[test]
    fn no_name_is_cut() {
        let name = "power_limit_requested_w";
        let page = Explanation::new("a").with_numbers(
            "b",
            None,
            vec![fact(name, "7 W", "requested power limit"), fact("util", "9%", "")],
        );
        let wide = format!("  {name} 7 W   requested power limit");
        assert_eq!(texts(&page, 80)[3..], [wide, format!("  {:23} 9%", "util")]);
        assert_eq!(
            texts(&page, 40)[3..],
            [&format!("  {name}"), "       7 W   requested power limit", "  util 9%"]
        );
    }

    #[test]
    fn details_are_folded_until_they_are_unfolded() {
        let page = Explanation::new("a")
            .with_numbers("n", None, vec![fact("util", "9%", "")])
            .with_details("none", None, Vec::new())
            .with_details("b", None, vec![fact("util", "9%", "")])
            .with_details("c", None, vec![fact("mem", "1", ""), fact("power", "7 W", "")]);
        let mut unfolded = UnfoldedDetails::default();
        let shown = |unfolded: &UnfoldedDetails| -> Vec<String> {
            let lines = page.drawn(unfolded, Timestamp::default(), 40).lines;
            lines.iter().map(|line| line.plain_text().trim_end().to_owned()).collect()
        };
        let folded = ["a", "", "n", "  util 9%", "", "▸ b", "▸ c"];
        assert_eq!(shown(&unfolded), folded);
        unfolded.set(&page, None);
        assert_eq!(shown(&unfolded)[5..], ["▾ b", "  util  9%", "", "▸ c"]);
        unfolded.set(&page, Some(true));
        unfolded.cursor = 1;
        unfolded.set(&page, Some(false));
        assert_eq!(shown(&unfolded).len(), 9);
        unfolded.set_all(&page, true);
        assert_eq!(shown(&unfolded).len(), 11);
        unfolded.set_all(&page, false);
        assert_eq!(shown(&unfolded), folded);
    }

    #[test]
    fn any_width_is_drawn() {
        let long = "x".repeat(300);
        let page =
            Explanation::new(&long).with_numbers(&long, None, vec![fact(&long, &long, &long)]);
        for width in 0..120 {
            let lines = page.drawn(&UnfoldedDetails::default(), Timestamp::default(), width).lines;
            assert!(lines.iter().all(|line| line.width() <= width), "{width}");
        }
    }
}
