//! Which node plays which part.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::NodeName;
use crate::sim::fault::Fault;

/// Who is in the fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Population {
    /// Nodes; at least one is made.
    pub nodes: u32,
    /// Devices of each node.
    pub devices: u32,
    /// Processes of each node, shared out among its busy devices.
    pub processes: u32,
    /// What everything is drawn from.
    pub seed: u64,
    /// What the nodes do.
    pub scene: Scene,
    /// What is wrong with the session of which node, by its place from 0.
    pub faults: BTreeMap<u32, Fault>,
}

/// What the nodes of a fleet do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scene {
    /// A cluster on an ordinary day: jobs, idle nodes, and one of each kind of trouble.
    Day,
    /// Every node trains, and nothing is wrong.
    Busy,
}

/// What one node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Trains a job that spans nodes.
    Training,
    /// The same, with one device that is too hot.
    Throttled,
    /// The same, with one device that lags.
    Straggler,
    /// The same, with one device lost and memory errors on another.
    Failing,
    /// Devices split into slices.
    Mig,
    /// Half of it answers requests, half is free.
    Serving,
    /// Short runs, one after another.
    Sweep,
    /// Memory is held and nothing is done.
    Held,
    /// Nobody is there.
    Free,
}

/// One of the first nodes of an ordinary day.
struct Cast {
    part: Part,
    fault: Option<Fault>,
    /// Its place among those that appear in a small fleet.
    rank: u32,
}

const fn cast(rank: u32, part: Part, fault: Option<Fault>) -> Cast {
    Cast { part, fault, rank }
}

const STALE: Fault =
    Fault::StopTalking { after: Duration::from_secs(20), lasting: Duration::from_secs(12) };
const FLAPPING: Fault = Fault::DropSession { after: Duration::from_secs(40) };
const STUCK: Fault = Fault::StuckBackend { after: Duration::from_secs(15) };

/// The nodes of a small fleet, in the order of their names.
const CAST: [Cast; 12] = [
    cast(0, Part::Training, None),
    cast(1, Part::Throttled, None),
    cast(11, Part::Straggler, None),
    cast(2, Part::Failing, None),
    cast(3, Part::Mig, None),
    cast(6, Part::Serving, None),
    cast(7, Part::Held, None),
    cast(8, Part::Training, Some(STUCK)),
    cast(4, Part::Sweep, Some(STALE)),
    cast(9, Part::Training, Some(FLAPPING)),
    cast(10, Part::Free, Some(Fault::RefuseAuth)),
    cast(5, Part::Free, Some(Fault::RefusedPort)),
];

/// How many nodes one job spans at most, and how many in a row do the same.
const BLOCK: u32 = 8;

impl Population {
    /// Makes the fleet of the demo: 8 devices a node, an ordinary day.
    pub fn demo(nodes: u32, seed: u64) -> Self {
        Self {
            nodes,
            devices: 8,
            processes: 8,
            seed,
            scene: Scene::Day,
            faults: (0..nodes)
                .filter_map(|node| Some((node, script(node, nodes)?.fault?)))
                .collect(),
        }
    }

    /// Makes a fleet that is busy everywhere, with nothing wrong; for measurements.
    pub fn busy(nodes: u32, devices: u32, processes: u32, seed: u64) -> Self {
        Self { nodes, devices, processes, seed, scene: Scene::Busy, faults: BTreeMap::new() }
    }

    /// Puts something wrong with the session of one node.
    #[must_use]
    pub fn with(mut self, node: u32, fault: Fault) -> Self {
        self.faults.insert(node, fault);
        self
    }

    /// Returns the names of the nodes: `gpu01` and so on, with as many digits as the fleet needs.
    pub fn names(&self) -> Vec<NodeName> {
        let digits = self.nodes.to_string().len().max(2);
        (1..=self.nodes.max(1))
            .filter_map(|number| NodeName::new(&format!("gpu{number:0digits$}")).ok())
            .collect()
    }

    /// Returns what a node does.
    pub(crate) fn part(&self, node: u32) -> Part {
        match self.scene {
            Scene::Busy => Part::Training,
            Scene::Day => script(node, self.nodes).map_or_else(|| crowd(node), |cast| cast.part),
        }
    }

    /// Returns which job of several nodes a node belongs to.
    pub(crate) fn block(&self, node: u32) -> u32 {
        let first = u32::try_from(CAST.len()).unwrap_or(0);
        match self.scene {
            Scene::Day if node < first => node / 3,
            Scene::Day => (node - first) / BLOCK + BLOCK,
            Scene::Busy => node / BLOCK,
        }
    }
}

/// Returns who stands at this place among the first; a small fleet leaves the least telling out.
fn script(node: u32, nodes: u32) -> Option<&'static Cast> {
    let place = usize::try_from(node).ok()?;
    CAST.iter().filter(|cast| cast.rank < nodes).nth(place)
}

/// Returns what the nodes behind the first do.
fn crowd(node: u32) -> Part {
    match (node % 41, (node / BLOCK) % 6) {
        (7, _) => Part::Straggler,
        (19, _) => Part::Throttled,
        (31, _) => Part::Failing,
        (_, 0 | 1 | 4) => Part::Training,
        (_, 2) => Part::Serving,
        (_, 3) => Part::Sweep,
        _ if node.is_multiple_of(3) => Part::Held,
        _ => Part::Free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(nodes: u32) -> Vec<Part> {
        let fleet = Population::demo(nodes, 1);
        (0..nodes).map(|node| fleet.part(node)).collect()
    }

    #[test]
    fn six_nodes_show_what_matters_and_one_is_healthy() {
        for nodes in 6..40 {
            let (parts, faults) = (parts(nodes), Population::demo(nodes, 1).faults);
            for part in [Part::Training, Part::Throttled, Part::Failing, Part::Mig] {
                assert!(parts.contains(&part), "{nodes}: {part:?}");
            }
            for fault in [STALE, Fault::RefusedPort] {
                assert!(faults.values().any(|known| *known == fault), "{nodes}: {fault:?}");
            }
        }
        assert_eq!(parts(1), [Part::Training]);
        assert!(Population::demo(1, 1).faults.is_empty());
    }

    #[test]
    fn twelve_nodes_have_one_of_each_trouble() {
        let faults: Vec<Fault> = Population::demo(12, 1).faults.into_values().collect();
        assert_eq!(faults, [STUCK, STALE, FLAPPING, Fault::RefuseAuth, Fault::RefusedPort]);
    }

    #[test]
    fn names_sort_as_they_count() {
        let names = Population::busy(100, 1, 1, 0).names();
        assert_eq!(names.first().map(NodeName::as_str), Some("gpu001"));
        assert!(names.is_sorted());
        assert_eq!(Population::busy(0, 1, 1, 0).names().len(), 1);
    }
}
