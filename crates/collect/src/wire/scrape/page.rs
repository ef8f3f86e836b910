//! The series of a page by their families, and their values as readings of the model's units.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::wire::checked::{MAX_NAME_LENGTH, to_f32};
use crate::wire::scrape::series::{self, PageSeries};
use gtop_local::text::sanitize_shared;
use gtop_model::{Bytes, Celsius, Device, FanSpeed, Megahertz, Percent, Reading, Reason, Watts};

/// Whole numbers up to this one are exact.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
/// Bytes in one MiB.
const MIB: f64 = 1_048_576.0;

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

/// Returns the identity that a series gives its device; `None` if it gives none.
pub(super) fn identity(series: &PageSeries<'_>) -> Option<Arc<str>> {
    if let Some(uuid) = series.label("uuid").filter(|uuid| *uuid != "N/A") {
        return Some(sanitize_shared(uuid, MAX_NAME_LENGTH));
    }
    let index = series.label("index")?;
    Some(sanitize_shared(&format!("{}{index}", Device::INDEX_PREFIX), MAX_NAME_LENGTH))
}

/// Returns the reading of a value; one that is not on the page is not offered, and NaN says that there is none.
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

pub(super) fn percent(value: Reading<f64>) -> Reading<Percent> {
    value.and_then(|share| Percent::new(to_f32(share)))
}

pub(super) fn fan_speed(value: Reading<f64>) -> Reading<FanSpeed> {
    value.and_then(|share| FanSpeed::new(to_f32(share)))
}

pub(super) fn celsius(value: Reading<f64>) -> Reading<Celsius> {
    value.and_then(|degrees| Celsius::new(to_f32(degrees)))
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

/// Returns an amount of memory that is told in MiB.
pub(super) fn mebibytes(value: Reading<f64>) -> Reading<Bytes> {
    bytes(value.map(from_mib))
}

/// Returns the bytes of an amount in MiB.
pub(super) const fn from_mib(value: f64) -> f64 {
    value * MIB
}
