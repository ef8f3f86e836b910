//! The devices of `gtop pick`: as lists, as variables of a program, and as JSON.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use gtop_fleet::Health;
use gtop_fleet::insight::pick::{
    EligibleDevice, PickRequest, Picks, Refused, identifiers, variables,
};
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

/// Version of the schema of the JSON.
const SCHEMA: u32 = 1;

/// How devices are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PickFormat<'a> {
    /// Devices are named by UUID.
    pub has_uuids: bool,
    /// Separates devices.
    pub separator: &'a str,
    /// Devices follow the name of their node.
    pub has_names: bool,
}

/// Writes the devices: a line per node, or a record per device if the separator is a newline or a null character.
pub fn write_picks(out: &mut impl Write, picks: &Picks, format: PickFormat<'_>) -> io::Result<()> {
    let PickFormat { has_uuids, separator, has_names } = format;
    let end = if separator == "\0" { "\0" } else { "\n" };
    if !has_names {
        let picked: Vec<&EligibleDevice> = picks.picked.iter().collect();
        return write!(out, "{}{end}", identifiers(&picked, has_uuids).join(separator));
    }
    for (node, devices) in picks.by_node() {
        let names = identifiers(&devices, has_uuids);
        if separator == end {
            for name in names {
                write!(out, "{}:{name}{end}", node.label())?;
            }
        } else {
            write!(out, "{}:{}{end}", node.label(), names.join(separator))?;
        }
    }
    Ok(())
}

/// Writes the variables of a program that is to use the devices, one per line.
pub fn write_pick_variables(
    out: &mut impl Write,
    picks: &Picks,
    has_uuids: bool,
) -> io::Result<()> {
    let picked: Vec<&EligibleDevice> = picks.picked.iter().collect();
    for (name, value) in variables(&picked, has_uuids) {
        writeln!(out, "{name}={value}")?;
    }
    Ok(())
}

/// Writes the picked devices by node, and all others with the reason, as one line of JSON.
pub fn write_pick_json(
    out: &mut impl Write,
    picks: &Picks,
    request: &PickRequest,
    now: Timestamp,
    has_uuids: bool,
) -> io::Result<()> {
    let nodes = picks.by_node();
    let nodes: Vec<Value> =
        nodes.iter().map(|(name, devices)| node(name, devices, has_uuids)).collect();
    let at = jiff::Timestamp::from_microsecond(now.as_micros()).ok().map(|at| at.to_string());
    let text = json!({
        "schema": SCHEMA,
        "at": at,
        "min_count": request.min_count,
        "max_count": request.max_count,
        "found": picks.picked.len(),
        "enough": picks.is_enough,
        "vendor": picks.picked.first().map(|device| device.vendor.as_str()),
        "nodes": nodes,
        "refused": picks.refused.iter().map(refused).collect::<Vec<_>>(),
        "notice": picks.notice,
    });
    serde_json::to_writer(&mut *out, &text)?;
    out.write_all(b"\n")
}

fn node(name: &NodeName, devices: &[&EligibleDevice], has_uuids: bool) -> Value {
    let variables: Map<String, Value> = variables(devices, has_uuids)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    json!({
        "name": name.as_str(),
        "indices": devices.iter().map(|device| device.index).collect::<Vec<_>>(),
        "uuids": devices.iter().map(|device| &*device.uuid).collect::<Vec<_>>(),
        "environment": variables,
        "devices": devices.iter().map(|device| device_json(device)).collect::<Vec<_>>(),
    })
}

fn device_json(device: &EligibleDevice) -> Value {
    json!({
        "index": device.index,
        "uuid": &*device.uuid,
        "name": device.name.as_deref(),
        "is_slice": device.is_slice,
        "device_index": device.whole_index,
        "memory_free_bytes": device.free_memory,
        "memory_total_bytes": device.total_memory,
        "utilization_percent": device.utilization,
        "memory_utilization_percent": device.memory_utilization,
        "health": device.health.as_str(),
        "degraded": device.health == Health::Degraded,
        "loosened": device.loosened,
    })
}

fn refused(refused: &Refused) -> Value {
    json!({
        "node": refused.node.as_str(),
        "index": refused.index,
        "uuid": refused.uuid.as_deref(),
        "reason": refused.reason,
    })
}
