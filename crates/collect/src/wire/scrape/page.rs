//! The series of a page by their families, and their values as readings of the model's units.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::wire::checked::{Checked, sanitize_name, to_f32};
use crate::wire::scrape::series::{self, PageSeries};
use gtop_model::{Bytes, Device, Megahertz, Reading, Reason, Watts};

/// Whole numbers up to this one are exact.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
/// Bytes in one MiB.
pub(super) const MIB: f64 = 1_048_576.0;

/// The series of a page.
pub(super) struct ScrapedPage<'a>(BTreeMap<&'a str, Vec<PageSeries<'a>>>);

impl<'a> ScrapedPage<'a> {
    /// Parses an excerpt. Of a page about several hosts, the first one counts.
    pub(super) fn parse(text: &'a str) -> Self {
        let mut families: BTreeMap<&str, Vec<PageSeries<'_>>> = BTreeMap::new();
        let mut host: Option<String> = None;
        for series in text.lines().filter_map(series::parse) {
            if let Some(name) = series.label("hostname") {
                let known = host.get_or_insert_with(|| name.to_owned());
                if known != name {
                    continue;
                }
            }
            families.entry(series.family).or_default().push(series);
        }
        Self(families)
    }

    /// Returns the series of a family.
    pub(super) fn all(&self, family: &str) -> &[PageSeries<'a>] {
        self.0.get(family).map_or(&[], |series| series)
    }

    /// Returns the value of a family without labels that differ.
    pub(super) fn number(&self, family: &str) -> Reading<f64> {
        number(self.all(family).last().map(|series| series.value))
    }

    /// Returns the text of a label of a family's first series.
    pub(super) fn text(&self, family: &str, label: &str) -> Option<&str> {
        self.all(family).first()?.label(label)
    }
}

/// The values of one subject by their families, and the labels of its first series.
pub(super) struct Subject<'a> {
    pub(super) info: &'a PageSeries<'a>,
    values: BTreeMap<&'a str, f64>,
}

impl Subject<'_> {
    pub(super) fn number(&self, family: &str) -> Reading<f64> {
        number(self.values.get(family).copied())
    }
}

/// Collects the series of some families by what tells their subjects apart; returns at most `limit` subjects, and the keys
/// of the others.
pub(super) fn subjects<'a, K: Ord>(
    page: &'a ScrapedPage<'_>,
    families: &[&'static str],
    limit: usize,
    key: impl Fn(&PageSeries<'_>) -> Option<K>,
) -> (BTreeMap<K, Subject<'a>>, BTreeSet<K>) {
    let mut found: BTreeMap<K, Subject<'a>> = BTreeMap::new();
    let mut left_out = BTreeSet::new();
    for family in families {
        for series in page.all(family) {
            let Some(key) = key(series) else { continue };
            if found.len() >= limit && !found.contains_key(&key) {
                left_out.insert(key);
                continue;
            }
            let subject = found
                .entry(key)
                .or_insert_with(|| Subject { info: series, values: BTreeMap::new() });
            subject.values.insert(family, series.value);
        }
    }
    (found, left_out)
}

/// Returns the identity that a series gives its device; `None` if it gives none.
pub(super) fn identity(series: &PageSeries<'_>) -> Option<Arc<str>> {
    match series.label("uuid") {
        Some(uuid) if uuid != "N/A" => Some(sanitize_name(uuid)),
        _ => {
            let index = series.label("index")?;
            Some(sanitize_name(&format!("{}{index}", Device::INDEX_PREFIX)))
        }
    }
}

/// Returns the reading of a value; one that is not on the page is not offered, and NaN means that there is none.
pub(super) fn number(value: Option<f64>) -> Reading<f64> {
    match value {
        None => Reading::Unknown(Reason::NotOffered),
        Some(value) if value.is_nan() => Reading::Unknown(Reason::NotAvailable),
        Some(value) if value.is_infinite() => Reading::Unknown(Reason::Malformed),
        Some(value) => Reading::Known(value),
    }
}

/// Returns the nearest whole number; `None` if it is negative or too large to be exact.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
pub(super) fn whole(value: f64) -> Option<u64> {
    (0.0..MAX_EXACT).contains(&value).then(|| value.round() as u64)
}

/// Returns a value in the unit in which probes send it, too.
pub(super) fn checked<T: Checked<Sent = f64>>(value: Reading<f64>) -> Reading<T> {
    value.and_then(T::from_sent)
}

pub(super) fn watts(value: Reading<f64>) -> Reading<Watts> {
    value.and_then(|watts| Watts::new(to_f32(watts)))
}

pub(super) fn megahertz(value: Reading<f64>) -> Reading<Megahertz> {
    value.and_then(|clock| Megahertz::new(u32::try_from(whole(clock)?).ok()?))
}

/// Returns an amount of memory.
pub(super) fn bytes(value: Reading<f64>) -> Reading<Bytes> {
    value.and_then(|bytes| Bytes::from_memory(whole(bytes)?))
}

/// Returns an amount of memory from MiB.
pub(super) fn mebibytes(value: Reading<f64>) -> Reading<Bytes> {
    bytes(value.map(|mib| mib * MIB))
}
