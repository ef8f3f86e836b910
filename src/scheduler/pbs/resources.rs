//! Counts of resources.

use std::collections::BTreeMap;

use serde_json::Value;

/// The resources that count accelerators, whose names are a site's choice; these are the usual ones.
pub(super) const DEVICE_RESOURCES: [&str; 2] = ["ngpus", "naccelerators"];
/// Returns the number of accelerators in a list of resources; `None` if it counts none.
pub(super) fn device_count(resources: &BTreeMap<String, Value>) -> Option<u32> {
    DEVICE_RESOURCES.iter().find_map(|name| number(resources.get(*name)?))
}

/// Returns a number, which may be written as a text.
pub(super) fn number(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
