//! What was proved about the scheduler's lists of devices, as JSON in a recording.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::record::value::{from_seconds, node_name, to_seconds};
use gtop_local::text::sanitize_shared;
use gtop_model::{NodeName, ProvedIndices};

const MAX_TEXT_LENGTH: usize = 300;
const MAX_UNITS: usize = ProvedIndices::MAX_UNITS;

/// What was proved of one node.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ProvedLine {
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    boot: Option<Arc<str>>,
    units: Vec<Arc<str>>,
    indices: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<f64>,
    meanings: Vec<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    earlier: Vec<Vec<u32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier_since: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier_until: Option<f64>,
    contradicted: bool,
}

/// Returns the lines of what was proved.
pub(super) fn to_lines(proved: &BTreeMap<NodeName, ProvedIndices>) -> Vec<ProvedLine> {
    let line = |(name, known): (&NodeName, &ProvedIndices)| ProvedLine {
        node: name.as_str().to_owned(),
        boot: known.boot_id.clone(),
        units: known.units.clone(),
        indices: known.indices,
        started_at: known.started_at.map(to_seconds),
        meanings: known.meanings.clone(),
        until: known.until.map(to_seconds),
        earlier: known.earlier.clone(),
        earlier_since: known.earlier_since.map(to_seconds),
        earlier_until: known.earlier_until.map(to_seconds),
        contradicted: known.is_contradicted,
    };
    proved.iter().map(line).collect()
}

/// Returns what some lines say was proved.
pub(super) fn to_proved(lines: &[ProvedLine]) -> BTreeMap<NodeName, ProvedIndices> {
    let text = |text: &Arc<str>| sanitize_shared(text, MAX_TEXT_LENGTH);
    let known = |line: &ProvedLine| {
        let is_small = |meanings: &[Vec<u32>]| {
            let sizes = meanings.iter().map(Vec::len).chain([meanings.len()]);
            sizes.into_iter().all(|size| size <= MAX_UNITS + 1)
        };
        let is_valid = line.units.len() <= MAX_UNITS && is_small(&line.meanings);
        let proved = ProvedIndices {
            boot_id: line.boot.as_ref().map(text),
            units: line.units.iter().map(text).collect(),
            indices: line.indices,
            started_at: line.started_at.map(from_seconds),
            meanings: line.meanings.clone(),
            until: line.until.map(from_seconds),
            earlier: line.earlier.clone(),
            earlier_since: line.earlier_since.map(from_seconds),
            earlier_until: line.earlier_until.map(from_seconds),
            is_contradicted: line.contradicted,
        };
        Some((node_name(&line.node)?, proved)).filter(|_| is_valid && is_small(&line.earlier))
    };
    lines.iter().filter_map(known).collect()
}
