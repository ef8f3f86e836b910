//! Which job a node's step would be in.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{JobId, NodeName};

/// A job that runs, and those of its nodes that are to be reached by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::transport) struct Place {
    /// The job, as `srun` knows it.
    pub job: JobId,
    /// The nodes.
    pub nodes: Arc<[NodeName]>,
}

/// The jobs of the user that run, by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(BTreeMap<NodeName, JobId>);

impl Places {
    /// Chooses for each node one of the jobs on it, the one chosen before while that runs there:
    /// a step reaches the devices of its job only, so one with devices comes first.
    #[must_use]
    pub fn choose(&self, jobs: &[(JobId, NodeName, bool)]) -> Self {
        let mut found: BTreeMap<&NodeName, (bool, bool, &JobId)> = BTreeMap::new();
        for (job, node, has_devices) in jobs {
            let rank = (self.0.get(node) == Some(job), *has_devices, job);
            let best = found.entry(node).or_insert(rank);
            if (rank.0, rank.1) > (best.0, best.1) {
                *best = rank;
            }
        }
        Self(found.into_iter().map(|(node, (.., job))| (node.clone(), job.clone())).collect())
    }

    /// Returns the place of a node.
    pub(super) fn of(&self, node: &NodeName) -> Option<Place> {
        let job = self.0.get(node)?;
        let nodes = self.0.iter().filter(|(_, other)| *other == job).map(|(node, _)| node.clone());
        Some(Place { job: job.clone(), nodes: nodes.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(places: &Places, node: &str) -> String {
        let Some(place) = places.of(&NodeName::new(node).unwrap()) else {
            return "none".to_owned();
        };
        let nodes: Vec<_> = place.nodes.iter().map(NodeName::as_str).collect();
        format!("{}: {}", place.job, nodes.join(" "))
    }

    fn jobs(list: &[(&str, &str, bool)]) -> Vec<(JobId, NodeName, bool)> {
        let one = |(job, node, has): &(&str, &str, bool)| {
            (JobId::new(job).unwrap(), NodeName::new(node).unwrap(), *has)
        };
        list.iter().map(one).collect()
    }

    #[test]
    fn a_node_belongs_to_one_job_with_devices_and_stays_with_it() {
        let first =
            jobs(&[("1", "a", false), ("2", "a", true), ("2", "b", true), ("3", "b", true)]);
        let places = Places::default().choose(&first);
        assert_eq!(names(&places, "a"), "2: a b");
        assert_eq!(names(&places, "c"), "none");
        let places = places.choose(&jobs(&[("0", "a", true), ("2", "a", false), ("3", "b", true)]));
        assert_eq!((names(&places, "a"), names(&places, "b")), ("2: a".into(), "3: b".into()));
    }
}
