//! Values of PBS, whose types vary: a text that looks like a number may be one, and what a hook sets may be anything.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use gtop_local::text::sanitize_shared;
use gtop_model::Bytes;

/// Returns a text that is safe to show.
pub(super) fn text(text: &str) -> Arc<str> {
    sanitize_shared(text, 256)
}

/// The resources that count accelerators, whose names are a site's choice; these are the usual ones.
pub(super) const DEVICE_RESOURCES: [&str; 2] = ["ngpus", "naccelerators"];

/// A text; of a number it is how that is written, and of a list or an object it is empty.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            value @ (Value::Number(_) | Value::Bool(_)) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
        }))
    }
}

/// A list of resources; anything else than an object is an empty one.
#[derive(Debug, Default)]
pub(super) struct Resources(BTreeMap<String, Value>);

impl Resources {
    /// Returns the value of a resource.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

impl<'de> Deserialize<'de> for Resources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(Self(BTreeMap::deserialize(value).unwrap_or_default()))
    }
}

/// Returns the number of accelerators in a list of resources; `None` if it counts none.
pub(super) fn device_count(resources: &Resources) -> Option<u32> {
    DEVICE_RESOURCES.iter().find_map(|name| number(resources.get(name)?))
}

/// Returns a size such as `4gb` or `9072kb`; one in words of a machine is not known in bytes.
pub(super) fn size(value: &Value) -> Option<Bytes> {
    let text = value.as_str()?;
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let bits = match unit {
        "" | "b" => 0,
        "kb" => 10,
        "mb" => 20,
        "gb" => 30,
        "tb" => 40,
        "pb" => 50,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << bits).map(Bytes)
}

/// Returns a number, which may be written as a text.
pub(super) fn number(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_in_bytes_or_not_known() {
        for (text, bytes) in
            [("9072kb", Some(9072 << 10)), ("4gb", Some(4 << 30)), ("12", Some(12)), ("2mw", None)]
        {
            assert_eq!(size(&Value::from(text)), bytes.map(Bytes), "{text}");
        }
        assert_eq!(size(&Value::from("99999999999999999pb")), None);
    }
}
