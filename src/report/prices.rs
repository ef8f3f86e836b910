//! What device-hours cost, where prices are given.

use std::collections::BTreeMap;
use std::str::FromStr;

/// The price of a device-hour, of all devices or of some models; without a unit.
#[derive(Clone, Debug, PartialEq)]
pub struct DevicePrice {
    /// A part of the name of the model, in lower case; empty for all.
    model: String,
    amount: f64,
}

/// Why a price cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.as_str())]
pub enum PriceError {
    /// The amount is none.
    BadAmount,
    /// Nothing stands before `=`.
    NoModel,
}

impl DevicePrice {
    /// Returns what is wrong with the text of a price.
    pub fn check(text: &str) -> Result<(), &'static str> {
        text.parse::<Self>().map(|_price| ()).map_err(PriceError::as_str)
    }
}

impl PriceError {
    const fn as_str(self) -> &'static str {
        match self {
            Self::BadAmount => {
                "a price is a number that is not negative, such as 2.50 or H100=2.50"
            }
            Self::NoModel => "no model before =; write H100=2.50",
        }
    }
}

impl FromStr for DevicePrice {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Self, PriceError> {
        let (model, amount) = match text.rsplit_once('=') {
            Some((model, _)) if model.trim().is_empty() => return Err(PriceError::NoModel),
            Some((model, amount)) => (model.trim().to_lowercase(), amount),
            None => (String::new(), text),
        };
        let amount: f64 = amount.trim().parse().map_err(|_error| PriceError::BadAmount)?;
        let is_amount = amount.is_finite() && amount.is_sign_positive();
        is_amount.then_some(Self { model, amount }).ok_or(PriceError::BadAmount)
    }
}

impl std::fmt::Display for DevicePrice {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.model.as_str() {
            "" => write!(out, "{}", self.amount),
            model => write!(out, "{model}={}", self.amount),
        }
    }
}

/// Device-time by model, in seconds; a model may be unknown.
#[derive(Clone, Debug, Default)]
pub struct ModelTime(BTreeMap<Option<String>, f64>);

impl ModelTime {
    /// Divides device-time among devices, in proportion to the time in which each was seen.
    pub(super) fn divided<'a>(
        seconds: f64,
        devices: impl Iterator<Item = (&'a Option<String>, f64)> + Clone,
    ) -> Self {
        // One whose load was never known has a part, too.
        let devices = devices.map(|(model, seen)| (model, seen.max(1.0)));
        let all: f64 = devices.clone().map(|(_, seen)| seen).sum();
        let mut by_model = BTreeMap::new();
        if all <= 0.0 {
            by_model.insert(None, seconds);
        }
        for (model, seen) in devices {
            *by_model.entry(model.clone()).or_default() += seconds * seen / all;
        }
        Self(by_model)
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (model, seconds) in &other.0 {
            *self.0.entry(model.clone()).or_default() += seconds;
        }
    }

    /// Returns the whole time, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.0.values().sum()
    }

    /// Returns what the time costs; `None` if a model has no price.
    pub(super) fn cost(&self, prices: &[DevicePrice]) -> Option<f64> {
        if prices.is_empty() {
            return None;
        }
        let costs = self.0.iter().filter(|(_, seconds)| **seconds > 0.0);
        costs
            .map(|(model, seconds)| Some(price_of(model.as_deref(), prices)? * seconds / 3600.0))
            .sum()
    }
}

/// Returns the price of a model: that of the longest name which is a part of its own.
fn price_of(model: Option<&str>, prices: &[DevicePrice]) -> Option<f64> {
    let model = model.unwrap_or_default().to_lowercase();
    let fitting = prices.iter().filter(|price| model.contains(&price.model));
    fitting.max_by_key(|price| price.model.len()).map(|price| price.amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(texts: &[&str]) -> Vec<DevicePrice> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn the_longest_fitting_name_of_a_model_decides_the_price() {
        let [big, small] = ["NVIDIA H100 80GB HBM3", "NVIDIA L4"].map(|name| Some(name.to_owned()));
        let time = ModelTime::divided(7200.0, [(&big, 60.0), (&small, 20.0)].into_iter());
        for (given, cost) in [
            (&["2"][..], Some(4.0)),
            (&["H100=4", "1"], Some(6.5)),
            (&["H100=4", "h100 80gb=2", "l4=0"], Some(3.0)),
            (&["H100=4"], None),
            (&[], None),
        ] {
            assert_eq!(time.cost(&prices(given)), cost, "{given:?}");
        }
        let unseen = ModelTime::divided(3600.0, std::iter::empty());
        assert_eq!(
            (unseen.cost(&prices(&["3"])), unseen.cost(&prices(&["H100=3"]))),
            (Some(3.0), None)
        );
    }

    #[test]
    fn a_price_that_is_none_is_refused() {
        for text in ["", "x", "-1", "nan", "inf", "H100=", "H100=x", "1e999"] {
            assert_eq!(text.parse::<DevicePrice>(), Err(PriceError::BadAmount), "{text}");
        }
        assert_eq!("=2".parse::<DevicePrice>(), Err(PriceError::NoModel));
    }
}
