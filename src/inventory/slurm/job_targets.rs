//! Turns the nodes of jobs into targets.

use std::collections::BTreeSet;

use crate::inventory::slurm::queue;
use crate::inventory::ssh_reach;
use crate::model::{Job, NodeName};
use crate::nodeset;
use crate::transport::{Reach, Target};

/// Returns the targets of the nodes of jobs, without duplicates.
pub fn targets_of_jobs(jobs: &[Job]) -> Vec<Target> {
    merge_targets(&[], jobs, std::iter::empty())
}

/// Returns the targets of a Slurm node list; none if it is malformed.
pub fn targets_of_nodelist(list: &str) -> Vec<Target> {
    let names = own_names();
    let nodes = queue::parse_nodelist(list).unwrap_or_default();
    nodes.iter().map(|node| target(node, &names)).collect()
}

/// Returns the static targets, the nodes of all jobs and the extra ones, without duplicates, in natural order.
pub(super) fn merge_targets<'a>(
    static_targets: &[Target],
    jobs: &'a [Job],
    extra: impl Iterator<Item = &'a NodeName>,
) -> Vec<Target> {
    let names = own_names();
    let mut targets = static_targets.to_vec();
    let mut seen: BTreeSet<NodeName> =
        static_targets.iter().map(|target| target.name.clone()).collect();
    let allocations = jobs.iter().flat_map(|job| job.allocations.iter());
    for node in allocations.map(|allocation| &allocation.node).chain(extra) {
        if targets.len() < nodeset::MAX_NAMES && seen.insert(node.clone()) {
            targets.push(target(node, &names));
        }
    }
    targets.sort_by_cached_key(|target| natural_key(target.name.as_str()));
    targets
}

fn target(node: &NodeName, own_names: &[String]) -> Target {
    if own_names.iter().any(|name| name == node.as_str()) {
        return Target { name: node.clone(), reach: Reach::Local };
    }
    Target { name: node.clone(), reach: ssh_reach(node.as_str(), None, None) }
}

/// Returns the names that Slurm may use for this machine.
fn own_names() -> Vec<String> {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy().into_owned();
    let short = name.split('.').next().map(str::to_owned);
    [std::env::var("SLURMD_NODENAME").ok(), short, Some(name)].into_iter().flatten().collect()
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
    use crate::model::{Allocation, DeviceAllocation};

    #[test]
    fn nodes_are_in_natural_order_without_duplicates() {
        let names = |list: &[&str]| -> Vec<String> {
            let allocations = list.iter().map(|name| Allocation {
                node: NodeName::new(name).unwrap(),
                devices: DeviceAllocation::Unknown,
            });
            let mut queue = queue::parse(&sample_output(), "m", false);
            queue.jobs[0].allocations = allocations.collect();
            let jobs = [queue.jobs[0].clone(), queue.jobs[0].clone()];
            merge_targets(&[], &jobs, [].iter())
                .iter()
                .map(|target| target.name.to_string())
                .collect()
        };
        assert_eq!(names(&["gpu10", "gpu9", "gpu9", "a"]), ["a", "gpu9", "gpu10"]);
    }

    fn sample_output() -> String {
        let fields =
            ["1", "1", "a", "p", "", "RUNNING", "1", "1", "1", "1:00", "0:01", "1", "n1", "", "x"];
        format!("\u{1e}m\u{1f}{}\u{1e}m", fields.join("\u{1f}"))
    }
}
