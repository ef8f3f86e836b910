//! What the filter of a view leaves of its fleet, for output that has no view.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::insight::FleetView;
use crate::query::without_devices;
use crate::{Fleet, Node};
use gtop_model::{DeviceUse, JobId, JobList};

impl FleetView {
    /// Returns the nodes and jobs that match the filter, each node with the devices and processes that match: what the
    /// tables of the screen show. A node that is known from the scheduler alone stays whole.
    pub(super) fn matching_part(&self) -> Fleet {
        if self.filter.is_empty() {
            return self.fleet.clone();
        }
        let nodes = self.nodes().map(|node| self.matching_part_of(node)).collect();
        let jobs = self.fleet.jobs.as_ref().map(|list| Arc::new(self.matching_jobs(list)));
        Fleet { nodes, jobs, ..self.fleet.clone() }
    }

    fn matching_part_of(&self, node: &Arc<Node>) -> Arc<Node> {
        if node.reported().is_some() {
            return Arc::clone(node);
        }
        let mut hidden = BTreeSet::new();
        for (position, device) in node.devices.iter().enumerate() {
            if !self.matches_device(node, position) {
                hidden.insert(&*device.uuid);
            }
        }
        let part = without_devices(node, &hidden);
        let matching = part.uses.iter().filter(|used| self.matches_use(node, used));
        let uses: Arc<[DeviceUse]> = matching.cloned().collect();
        if uses.len() == part.uses.len() {
            return part;
        }
        Arc::new(Node { uses, ..Node::clone(&part) })
    }

    fn matching_jobs(&self, list: &JobList) -> JobList {
        let shown: BTreeSet<&JobId> = self.job_index().shown().map(|entry| &entry.job.id).collect();
        let matching = list.jobs.iter().filter(|job| {
            shown.contains(&job.id)
                || (job.allocations.is_empty() && self.filter.matches_waiting_job(job, self.now))
        });
        // An empty list is then not taken for one without jobs.
        let filter = self.filter.text();
        let narrowed_by = [&*list.narrowed_by, &format!("--filter {filter}")].join(" ");
        JobList {
            jobs: matching.cloned().collect(),
            filter_text: format!("{} that matches {filter}", list.filter_text).into(),
            narrowed_by: narrowed_by.trim_start().into(),
            ..list.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Process;
    use crate::query::{DisplaySelection, Filter};
    use gtop_local::time::Timestamp;
    use gtop_model::{Device, Job, NodeName, ProcessKey, ProcessStatics, Reading, Source};

    /// A node with two devices: alice and bob use the first, bob alone the second; and a job of each that waits.
    fn fleet() -> Fleet {
        let device = |uuid: &str| Device { uuid: uuid.into(), ..Device::default() };
        let using =
            |device: &str, pid| DeviceUse { device: device.into(), pid, ..DeviceUse::default() };
        let process = |pid, user: &str| Process {
            key: ProcessKey { pid, start_ticks: 1 },
            statics: Arc::new(ProcessStatics {
                user: Reading::Known(user.into()),
                ..ProcessStatics::default()
            }),
            ..Process::default()
        };
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        node.devices = vec![device("GPU-0"), device("GPU-1")].into();
        node.device_sources = vec![Source::new("nvml"); 2].into();
        node.uses = vec![using("GPU-0", 7), using("GPU-0", 8), using("GPU-1", 9)].into();
        node.processes = vec![process(7, "alice"), process(8, "bob"), process(9, "bob")].into();
        let bobs = Job { user: "bob".into(), ..Job::example("2") };
        let list = JobList {
            jobs: vec![Job::example("1"), bobs],
            at: Some(Timestamp::default()),
            filter_text: "of any user".into(),
            ..JobList::default()
        };
        Fleet::new(vec![Arc::new(node)].into()).with_jobs(Some(Arc::new(list)))
    }

    fn part(filter: &str) -> (Vec<String>, Vec<u32>, Vec<String>) {
        let filter = Filter::new(filter).unwrap();
        let selection = DisplaySelection::default();
        let part = FleetView::part_of(&fleet(), Timestamp::default(), &selection, &filter);
        let devices = part.nodes.iter().flat_map(|node| node.devices.iter());
        let uses = part.nodes.iter().flat_map(|node| node.uses.iter());
        let jobs = part.jobs.iter().flat_map(|list| &list.jobs);
        (
            devices.map(|device| device.uuid.to_string()).collect(),
            uses.map(|used| used.pid).collect(),
            jobs.map(|job| job.id.to_string()).collect(),
        )
    }

    #[test]
    fn devices_processes_and_jobs_are_those_that_match() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        for (filter, devices, pids, jobs) in [
            ("", texts(&["GPU-0", "GPU-1"]), vec![7, 8, 9], texts(&["1", "2"])),
            ("user=alice", texts(&["GPU-0"]), vec![7], vec![]),
            ("user=bob", texts(&["GPU-0", "GPU-1"]), vec![8, 9], vec![]),
            ("jobuser=bob", vec![], vec![], texts(&["2"])),
            ("alice", texts(&["GPU-0"]), vec![7], texts(&["1"])),
            ("uuid=GPU-1", texts(&["GPU-1"]), vec![9], vec![]),
        ] {
            assert_eq!(part(filter), (devices, pids, jobs), "{filter}");
        }
    }

    #[test]
    fn an_empty_part_does_not_say_that_there_are_no_jobs() {
        let filter = Filter::new("user=carol").unwrap();
        let selection = DisplaySelection::default();
        let part = FleetView::part_of(&fleet(), Timestamp::default(), &selection, &filter);
        assert_eq!(
            part.jobs.unwrap().empty_reason().unwrap(),
            "no job, running or pending, matches --filter user=carol"
        );
    }
}
