//! What the devices of a job do now: the one source of the numbers in its row, its header and its explanation.

use std::time::Duration;

use crate::views::job::distribution::Distribution;
use crate::views::job::metric::ComparedMetric;
use gtop_fleet::insight::jobs::{JobEntry, JobNode};
use gtop_fleet::insight::node_status::{NodeStatus, device_label};
use gtop_fleet::insight::users::IdleDevice;
use gtop_fleet::insight::{FleetView, Severity};
use gtop_fleet::{Node, is_idle};
use gtop_local::time::Timestamp;
use gtop_model::{Allocation, Device, DeviceFault};

/// What the devices of a job do. A device with slices counts as one. With a filter, only what matches counts, but for
/// the size of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JobLoad {
    /// All devices of the job by node; `None` if they are unknown on some node.
    pub(super) devices: Option<Vec<usize>>,
    /// The nodes of the job.
    pub(super) nodes: usize,
    /// The devices that match; `None` if they are unknown on some node that does.
    pub(super) matching: Option<usize>,
    /// The nodes with devices that match.
    pub(super) matching_nodes: usize,
    /// Nodes of these whose numbers are new. What follows is about their devices.
    pub(super) fresh: usize,
    /// Whole devices and slices.
    pub(super) measured: usize,
    /// The utilization of those that report one.
    pub(super) utilization: Option<Distribution>,
    /// Devices that report one, themselves or by a slice.
    pub(super) reporting: usize,
    /// The device of the lowest utilization, as `gpu02:3`.
    pub(super) lowest: Option<String>,
    /// The devices that are idle-held, those first that have been idle for longest.
    pub(super) idle_held: Vec<IdleDevice>,
    /// Device time that the job has held and left idle since gtop watches.
    pub(super) wasted: Duration,
    idle: usize,
    /// True if a device reports whether it is idle: the activity of a slice, its utilization elsewhere, does not.
    knows_idle: bool,
    lost: usize,
    faulty: usize,
    with_errors: usize,
    /// Nodes that cannot be reached, and those without new numbers.
    down: usize,
    stale: usize,
}

impl JobLoad {
    pub(super) fn of(fleet_view: &FleetView, entry: &JobEntry) -> Self {
        let mut load = Self { devices: Some(Vec::new()), matching: Some(0), ..Self::default() };
        let mut shares = Vec::new();
        let mut lowest: Option<(f32, &Node, &Device)> = None;
        for (allocation, job_node) in entry.job.allocations.iter().zip(&entry.nodes) {
            let node = job_node.node(fleet_view);
            load.add_size(node, allocation, job_node);
            let Some(node) = node.filter(|_| job_node.is_shown) else { continue };
            if !load.add_node(node, fleet_view) {
                continue;
            }
            load.add_devices(fleet_view, node, job_node);
            for (_, device) in job_node.devices(node) {
                let Some(share) = ComparedMetric::Utilization.read(device) else { continue };
                shares.push(share);
                if lowest.is_none_or(|(least, ..)| share < least) {
                    lowest = Some((share, node, device));
                }
            }
        }
        IdleDevice::sort(&mut load.idle_held);
        let nodes = entry.nodes.iter().filter_map(|job_node| job_node.node(fleet_view));
        let machines = nodes.map(|node| fleet_view.fleet.machine_name(&node.name)).collect();
        load.wasted = fleet_view.fleet.waste.of_job(&entry.job.id, &machines);
        load.utilization = Distribution::of(&shares, ComparedMetric::Utilization.tolerance());
        load.lowest = lowest.map(|(_, node, device)| {
            format!("{}:{}", node.name.label(), device_label(node, device))
        });
        load
    }

    /// Adds the devices of the job on a node. A node that has not reported them counts with the requested number.
    fn add_size(&mut self, node: Option<&Node>, allocation: &Allocation, job_node: &JobNode) {
        self.nodes += 1;
        let own = &job_node.holdings.devices;
        let (all, matching) = match node {
            _ if !job_node.holdings.is_known() => {
                (allocation.devices.count(), allocation.devices.count())
            }
            Some(node) => (Some(own.len()), Some(job_node.devices(node).count())),
            None => (Some(own.len()), Some(own.len())),
        };
        match (all, &mut self.devices) {
            (Some(count), Some(counts)) => counts.push(count),
            (None, _) | (_, None) => self.devices = None,
        }
        if job_node.is_shown {
            self.matching_nodes += 1;
            self.matching = self.matching.zip(matching).map(|(sum, count)| sum + count);
        }
    }

    /// Counts a node by its status; returns true if its numbers are new.
    fn add_node(&mut self, node: &Node, fleet_view: &FleetView) -> bool {
        let status = NodeStatus::of(node, fleet_view.now);
        match status {
            NodeStatus::Fresh => self.fresh += 1,
            NodeStatus::Stale(_) => self.stale += 1,
            NodeStatus::Down => self.down += 1,
            NodeStatus::Waiting
            | NodeStatus::Opening(_)
            | NodeStatus::Starting
            | NodeStatus::Reported => {}
        }
        status.is_fresh()
    }

    /// Counts the devices of a fresh node by what they do.
    fn add_devices(&mut self, fleet_view: &FleetView, node: &Node, job_node: &JobNode) {
        for (_, device) in job_node.devices(node) {
            let place = job_node.node_index.map(|index| (index, node));
            self.idle_held.extend(
                place.and_then(|place| IdleDevice::of(&fleet_view.fleet, place, device, None)),
            );
            self.measured += 1;
            let is_reporting = device.load().get().is_some();
            self.knows_idle |= is_reporting;
            self.idle += usize::from(is_idle(device));
            self.reporting += usize::from(is_reporting);
            match DeviceProblem::of(device).max(DeviceProblem::of(node.whole(device))) {
                Some(DeviceProblem::Lost) => self.lost += 1,
                Some(DeviceProblem::Fault) => self.faulty += 1,
                Some(DeviceProblem::Errors) => self.with_errors += 1,
                None => {}
            }
        }
    }

    /// Returns the number of devices of the job, whether they match or not.
    pub(super) fn device_total(&self) -> Option<usize> {
        self.devices.as_ref().map(|devices| devices.iter().sum())
    }

    /// Returns the number of idle devices; `None` if no device reports its utilization.
    pub(super) fn idle(&self) -> Option<usize> {
        self.knows_idle.then_some(self.idle)
    }

    /// Returns since when none of its devices has been busy, and true if it may be for longer; `None` if one is, or if that is
    /// not known.
    pub(super) fn idle_since(&self) -> Option<(Timestamp, bool)> {
        let spans: Option<Vec<_>> = self.idle_held.iter().map(|idle| idle.span.as_ref()).collect();
        let spans = spans.filter(|spans| self.device_total() == Some(spans.len()))?;
        let is_lower_bound = spans.iter().all(|span| span.is_lower_bound);
        Some((spans.iter().map(|span| span.since).max()?, is_lower_bound))
    }

    /// Returns the number of devices far from the others; `None` if no device reports its utilization.
    pub(super) fn outliers(&self) -> Option<usize> {
        self.utilization.as_ref().map(|shares| shares.outliers.len())
    }

    pub(super) fn mean(&self) -> Option<f32> {
        self.utilization.as_ref().map(|shares| shares.mean)
    }

    /// Returns true if a device is lost, faulty, or has uncorrected memory errors.
    pub(super) const fn has_bad_devices(&self) -> bool {
        self.lost + self.faulty + self.with_errors > 0
    }

    pub(super) const fn has_old_nodes(&self) -> bool {
        self.down + self.stale > 0
    }

    /// Returns what is wrong with its devices and nodes, the worst first: the count, the label and the severity.
    pub(super) fn problems(&self) -> impl Iterator<Item = (usize, &'static str, Severity)> {
        let all = [
            (self.lost, "lost", Severity::Error),
            (self.faulty, "faulty", Severity::Error),
            (self.with_errors, "ECC", Severity::Error),
            (self.down, "down", Severity::Error),
            (self.stale, "stale", Severity::Warning),
        ];
        all.into_iter().filter(|(count, ..)| *count > 0)
    }
}

/// What is wrong with a device, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DeviceProblem {
    /// Uncorrected memory errors.
    Errors,
    Fault,
    Lost,
}

impl DeviceProblem {
    fn of(device: &Device) -> Option<Self> {
        match &device.fault {
            Some(DeviceFault::Lost | DeviceFault::Gone(_)) => Some(Self::Lost),
            Some(DeviceFault::NeedsReset | DeviceFault::NoPermission | DeviceFault::Other(_)) => {
                Some(Self::Fault)
            }
            None => {
                let has_errors = device.ecc_uncorrected.get().is_some_and(|count| count > 0);
                has_errors.then_some(Self::Errors)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use gtop_fleet::query::Filter;
    use gtop_fleet::{Fleet, JobLookup, SourceState, Waste};
    use gtop_model::{DeviceAllocation, Job, JobList, Link, NodeName, Percent, Reading, Source};

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    /// A fresh node of a whole device and one with two slices, all of this utilization.
    fn node(name: &str, share: f32) -> Arc<Node> {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        node.link = Link::Up;
        let device = |uuid: &str, parent: Option<&str>, share| Device {
            uuid: uuid.into(),
            parent: parent.map(Into::into),
            utilization: Reading::checked(Percent::new(share)),
            ..Device::default()
        };
        let slice = |uuid| device(uuid, Some("b"), share);
        node.devices =
            vec![device("a", None, share), device("b", None, 0.0), slice("b1"), slice("b2")].into();
        node.device_sources = vec![Source::host(); 4].into();
        node.sources.push(SourceState {
            source: Source::host(),
            taken_at: Some(NOW),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        });
        Arc::new(node)
    }

    #[test]
    fn idle_devices_are_counted_of_devices_and_fresh_nodes_of_those_that_match() {
        let nodes = vec![node("idle", 1.0), node("busy", 90.0)];
        let allocation = |node: &Arc<Node>| Allocation {
            node: node.name.clone(),
            devices: DeviceAllocation::Indices([0, 1, 2].into()),
        };
        let allocations = nodes.iter().map(allocation).collect();
        let jobs = vec![Job { allocations, ..Job::example("7") }];
        let jobs = Some(Arc::new(JobList { jobs, ..JobList::default() }));
        let fleet = Fleet { jobs, ..Fleet::new(nodes.into()) };
        for (filter, idle, reporting, measured, fresh, nodes) in
            [("", 3, 6, 6, 2, 2), ("node=idle", 3, 3, 3, 1, 1), ("node=busy", 0, 3, 3, 1, 1)]
        {
            let filter = Filter::new(filter).unwrap();
            let view = FleetView::filtered(fleet.clone(), NOW, filter);
            let load = JobLoad::of(&view, &view.job_index().entries[0]);
            let shares = load.utilization.as_ref().map(|shares| shares.count);
            assert_eq!((load.idle(), load.reporting), (Some(idle), reporting));
            assert_eq!((load.measured, shares), (measured, Some(measured)));
            assert_eq!((load.fresh, load.matching_nodes, load.nodes), (fresh, nodes, 2));
        }
    }

    #[test]
    fn a_job_leaves_idle_what_its_user_does_for_as_long() {
        let nodes = vec![node("idle", 1.0), node("busy", 90.0)];
        let held_by = |nodes: &[&str]| {
            let allocation = |name: &&str| Allocation {
                node: NodeName::new(name).unwrap(),
                devices: DeviceAllocation::Indices([0, 1, 2].into()),
            };
            let allocations = nodes.iter().map(allocation).collect();
            let starts_at = Some(NOW.minus(Duration::from_secs(700)));
            Job { allocations, starts_at, ..Job::example("7") }
        };
        for (job, count, has_busy) in [
            (held_by(&["idle"]), 3, false),
            (held_by(&["idle", "busy"]), 3, true),
            (held_by(&["busy"]), 0, true),
        ] {
            let jobs = Arc::new(JobList { jobs: vec![job], ..JobList::default() });
            let fleet = Fleet::new(nodes.clone().into()).with_jobs(Some(Arc::clone(&jobs)));
            let waste = Waste::seeded(fleet.nodes.iter(), Some(&JobLookup::of(Some(&jobs))));
            let fleet = Fleet { waste: Arc::new(waste), ..fleet };
            let later = NOW.plus(Duration::from_secs(2));
            let view = FleetView::new(fleet, later);
            let load = JobLoad::of(&view, &view.job_index().entries[0]);
            let users = view.users();
            let of_users = users.entries.iter().flat_map(|(_, usage)| &usage.idle);
            let spans: Vec<_> = of_users.map(|idle| (&idle.uuid, &idle.span)).collect();
            let own: Vec<_> = load.idle_held.iter().map(|idle| (&idle.uuid, &idle.span)).collect();
            assert_eq!((own.len(), &own), (count, &spans));
            let since = load.idle_since().map(|(since, _)| since);
            assert_eq!(since, (!has_busy).then_some(NOW));
        }
    }
}
