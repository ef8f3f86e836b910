//! Which nodes are watched: those of jobs and, if requested, others.

use std::collections::BTreeSet;

use gtop_model::{Job, NodeName, nodeset};

/// Returns the constant nodes, those of all jobs and the extra ones, without duplicates, in natural order.
pub(super) fn merge_nodes<'a>(
    constant: Vec<NodeName>,
    jobs: &'a [Job],
    extra: impl Iterator<Item = &'a NodeName>,
) -> Vec<NodeName> {
    let mut nodes = constant;
    let mut seen: BTreeSet<NodeName> = nodes.iter().cloned().collect();
    let allocations = jobs.iter().flat_map(|job| job.allocations.iter());
    for node in allocations.map(|allocation| &allocation.node).chain(extra) {
        if nodes.len() < nodeset::MAX_NAMES && seen.insert(node.clone()) {
            nodes.push(node.clone());
        }
    }
    nodes.sort_by_cached_key(|node| natural_key(node.as_str()));
    nodes
}

/// Returns the nodes of jobs, without duplicates, in natural order.
pub(crate) fn nodes_of_jobs(jobs: &[Job]) -> Vec<NodeName> {
    merge_nodes(Vec::new(), jobs, std::iter::empty())
}

/// Returns a sort key that orders `gpu9` before `gpu10`.
fn natural_key(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let (mut text, mut digits) = (String::new(), String::new());
    for letter in name.chars() {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        if !digits.is_empty() {
            parts.push((std::mem::take(&mut text), digits.parse().unwrap_or(u64::MAX)));
            digits.clear();
        }
        text.push(letter);
    }
    parts.push((text, digits.parse().unwrap_or_default()));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::{Allocation, DeviceAllocation};

    #[test]
    fn nodes_are_in_natural_order_without_duplicates() {
        let job = |list: &[&str]| {
            let allocations = list.iter().map(|name| Allocation {
                node: NodeName::new(name).unwrap(),
                devices: DeviceAllocation::Unknown,
            });
            Job { allocations: allocations.collect(), ..Job::example("1") }
        };
        let jobs = [job(&["gpu10", "gpu9", "gpu9", "a"]), job(&["gpu9"])];
        let names = merge_nodes(Vec::new(), &jobs, [].iter());
        let names: Vec<&str> = names.iter().map(NodeName::as_str).collect();
        assert_eq!(names, ["a", "gpu9", "gpu10"]);
    }
}
