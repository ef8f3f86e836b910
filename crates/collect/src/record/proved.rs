//! What was proved about the scheduler's lists of devices, as JSON in a recording.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::record::value::{from_seconds, node_name, short_text, to_seconds};
use crate::wire::objects;
use gtop_model::{NodeName, ProvedIndices};

const MAX_UNITS: usize = ProvedIndices::MAX_UNITS;

objects! {
    /// What was proved of one node.
    pub(super) struct ProvedLine {
        node: String,
        boot?: Option<Arc<str>>,
        units: Vec<Arc<str>>,
        indices: usize,
        started_at?: Option<f64>,
        meanings: Vec<Vec<u32>>,
        until?: Option<f64>,
        earlier?: Vec<Vec<u32>>,
        earlier_since?: Option<f64>,
        earlier_until?: Option<f64>,
        contradicted: bool,
    }
}

/// Returns the lines of what was proved.
pub(super) fn to_lines(proved: &BTreeMap<NodeName, ProvedIndices>) -> Vec<ProvedLine> {
    let lines = proved.iter().map(|(name, known)| ProvedLine {
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
    });
    lines.collect()
}

/// Returns what some lines say was proved.
pub(super) fn to_proved(lines: &[ProvedLine]) -> BTreeMap<NodeName, ProvedIndices> {
    let proved = lines.iter().filter_map(|line| {
        let meanings = [&line.meanings, &line.earlier];
        let mut sizes =
            meanings.iter().flat_map(|list| list.iter().map(Vec::len).chain([list.len()]));
        let is_valid = line.units.len() <= MAX_UNITS && sizes.all(|size| size <= MAX_UNITS + 1);
        let proved = ProvedIndices {
            boot_id: line.boot.as_deref().map(short_text),
            units: line.units.iter().map(|unit| short_text(unit)).collect(),
            indices: line.indices,
            started_at: line.started_at.map(from_seconds),
            meanings: line.meanings.clone(),
            until: line.until.map(from_seconds),
            earlier: line.earlier.clone(),
            earlier_since: line.earlier_since.map(from_seconds),
            earlier_until: line.earlier_until.map(from_seconds),
            is_contradicted: line.contradicted,
        };
        Some((node_name(&line.node)?, proved)).filter(|_| is_valid)
    });
    proved.collect()
}
