//! The rows of the list of jobs: what each job does with its devices, and the order of the rows.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use crate::fleet::is_idle;
use crate::insight::FleetView;
use crate::insight::jobs::{JobEntry, JobIndex, JobNode};
use crate::insight::node_status::NodeStatus;
use crate::model::{Allocation, DeviceAllocation, Job, JobState};
use crate::query::SortOrder;
use crate::text::width_of;
use crate::ui::views::job::distribution::{Distribution, Tolerance};
use crate::ui::widgets::number_format::percent_value;

/// Utilization, in percentage points, by which a device may differ from its peers; the job itself uses the same.
const TOLERANCE: Tolerance = Tolerance::Fixed(20.0);
/// Maximum number of devices that the sparkline of a row is made of.
const MAX_SAMPLED_DEVICES: usize = 64;

/// Where the job of a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobPlace {
    /// Among the jobs that have nodes.
    Entry(usize),
    /// Among the jobs of the scheduler's list.
    Listed(usize),
}

/// One job of the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobRow {
    place: JobPlace,
    /// The job belongs to the user as whom gtop reaches the nodes.
    pub(super) is_own: bool,
    /// What its devices do; `None` while it has no nodes.
    pub(super) load: Option<JobLoad>,
}

/// What the devices of a job do. Counts of idle devices and outliers are those of fresh nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JobLoad {
    pub(super) nodes: usize,
    /// The devices on each node; `None` where they are unknown on some node.
    pub(super) devices: Option<Vec<usize>>,
    /// Mean utilization of the devices that report one, in percent.
    pub(super) utilization: Option<f32>,
    pub(super) idle: usize,
    pub(super) outliers: usize,
    /// True if no node is fresh.
    pub(super) is_stale: bool,
}

/// All rows, in the order of the list.
#[derive(Debug, Default)]
pub(super) struct JobRows {
    pub(super) list: Vec<JobRow>,
    index: Arc<JobIndex>,
    /// Columns of the widest id, name and user.
    pub(super) widths: [u16; 3],
    /// Jobs without nodes that are left out because a filter selects nodes.
    pub(super) hidden: usize,
}

impl JobRows {
    /// Builds the rows. Too slow for each frame: a fleet may have thousands of jobs.
    pub(super) fn of(fleet_view: &FleetView, order: SortOrder) -> Self {
        let index = Arc::clone(fleet_view.job_index());
        let own = fleet_view.own_users();
        let is_own = |job: &Job| own.contains(&*job.user);
        let entries = index.entries.iter().enumerate().filter(|(_, entry)| entry.is_shown);
        let mut list: Vec<JobRow> = entries
            .map(|(at, entry)| JobRow {
                place: JobPlace::Entry(at),
                is_own: is_own(&entry.job),
                load: Some(JobLoad::of(fleet_view, entry)),
            })
            .collect();
        let listed = fleet_view.fleet.jobs.iter().flat_map(|jobs| jobs.jobs.iter().enumerate());
        let without_nodes = listed.filter(|(_, job)| job.allocations.is_empty());
        let is_filtered = !fleet_view.filter.is_empty();
        let mut hidden = 0;
        for (at, job) in without_nodes {
            if is_filtered {
                hidden += 1;
                continue;
            }
            list.push(JobRow { place: JobPlace::Listed(at), is_own: is_own(job), load: None });
        }
        let mut rows = Self { list, index, widths: [2, 4, 4], hidden };
        rows.sort(fleet_view, order);
        let mut widths = rows.widths;
        for job in rows.list.iter().filter_map(|row| rows.job(fleet_view, row)) {
            for (width, text) in widths.iter_mut().zip([&job.shown_id, &job.name, &job.user]) {
                *width = width_of(text).max(*width);
            }
        }
        rows.widths = widths;
        rows
    }

    pub(super) fn job<'a>(&'a self, fleet_view: &'a FleetView, row: &JobRow) -> Option<&'a Job> {
        match row.place {
            JobPlace::Entry(at) => self.index.entries.get(at).map(|entry| &entry.job),
            JobPlace::Listed(at) => fleet_view.fleet.jobs.as_ref()?.jobs.get(at),
        }
    }

    /// Returns some devices of a job by the indices of their node and of the device, evenly spread over all of them.
    pub(super) fn sampled_devices(
        &self,
        fleet_view: &FleetView,
        row: &JobRow,
    ) -> Vec<(usize, usize)> {
        let JobPlace::Entry(at) = row.place else { return Vec::new() };
        let Some(entry) = self.index.entries.get(at) else { return Vec::new() };
        let all: Vec<(usize, usize)> = entry
            .nodes
            .iter()
            .filter(|job_node| job_node.is_shown)
            .flat_map(|job_node| device_positions(fleet_view, job_node))
            .collect();
        let step = all.len().div_ceil(MAX_SAMPLED_DEVICES).max(1);
        all.into_iter().step_by(step).collect()
    }

    /// Sorts the rows; those that are equal stay in the order of their default, the worst first.
    fn sort(&mut self, fleet_view: &FleetView, order: SortOrder) {
        let mut list = std::mem::take(&mut self.list);
        list.sort_by_cached_key(|row| row.rank(self.job(fleet_view, row)));
        if order.column != "worst" {
            list.sort_by(|one, other| {
                let jobs = self.job(fleet_view, one).zip(self.job(fleet_view, other));
                let Some((one_job, other_job)) = jobs else { return Ordering::Equal };
                one.compare((one_job, other_job), other, order.column, fleet_view)
            });
        }
        if order.is_reversed {
            list.reverse();
        }
        self.list = list;
    }
}

/// The default order: own jobs before others, those with nodes before those that wait, and the worst first: the most
/// idle devices, then the most outliers, then the lowest utilization.
type Rank = (bool, bool, Reverse<usize>, Reverse<usize>, u32, Option<u64>, String);

impl JobRow {
    fn rank(&self, job: Option<&Job>) -> Rank {
        let load = self.load.as_ref();
        let share = load.and_then(|load| load.utilization);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a percentage in thousandths"
        )]
        let share = share.map_or(u32::MAX, |share| (share.max(0.0) * 1_000.0) as u32);
        (
            !self.is_own,
            load.is_none(),
            Reverse(load.map_or(0, |load| load.idle)),
            Reverse(load.map_or(0, |load| load.outliers)),
            share,
            job.and_then(|job| job.id.as_str().parse().ok()),
            job.map(|job| job.shown_id.to_string()).unwrap_or_default(),
        )
    }

    /// Compares by a column: numbers largest first, unknown ones last, and texts in rising order.
    fn compare(
        &self,
        (job, other_job): (&Job, &Job),
        other: &Self,
        column: &str,
        fleet_view: &FleetView,
    ) -> Ordering {
        let number = |row: &Self, read: fn(&JobLoad) -> Option<usize>| {
            Reverse(row.load.as_ref().and_then(read))
        };
        let by = |read: fn(&JobLoad) -> Option<usize>| number(self, read).cmp(&number(other, read));
        let share = |row: &Self| row.load.as_ref().and_then(|load| load.utilization);
        let now = fleet_view.now;
        match column {
            "job" => {
                let number = |job: &Job| job.id.as_str().parse::<u64>().unwrap_or(u64::MAX);
                number(job).cmp(&number(other_job)).then(job.shown_id.cmp(&other_job.shown_id))
            }
            "jobname" => job.name.cmp(&other_job.name),
            "jobuser" => job.user.cmp(&other_job.user),
            "partition" => job.partition.cmp(&other_job.partition),
            "jobstate" => job.state.cmp(&other_job.state),
            "idle" => by(|load| Some(load.idle)),
            "outliers" => by(|load| Some(load.outliers)),
            "util" => share(other).unwrap_or(-1.0).total_cmp(&share(self).unwrap_or(-1.0)),
            "used" => {
                let elapsed = |row: &Self, job: &Job| row.load.as_ref().and(job.elapsed(now));
                Reverse(elapsed(self, job)).cmp(&Reverse(elapsed(other, other_job)))
            }
            _ => Reverse(self.device_count(job)).cmp(&Reverse(other.device_count(other_job))),
        }
    }

    /// Returns the number of devices it has or, while it waits, asks for.
    fn device_count(&self, job: &Job) -> Option<usize> {
        if let Some(load) = &self.load {
            return load.devices.as_ref().map(|devices| devices.iter().sum());
        }
        let asked = u64::from(job.devices_per_node?) * u64::from(job.node_count.max(1));
        usize::try_from(asked).ok()
    }

    /// Returns nodes × devices of each: `3×8`; `3n 20` if nodes differ, `3n` if the devices are unknown.
    pub(super) fn size_text(&self, job: &Job) -> String {
        let Some(load) = &self.load else {
            let nodes = job.node_count.max(1);
            return match job.devices_per_node {
                Some(devices) => format!("{nodes}×{devices}"),
                None => format!("{nodes}n"),
            };
        };
        match load.devices.as_deref() {
            Some([first, others @ ..]) if others.iter().all(|other| other == first) => {
                format!("{}×{first}", load.nodes)
            }
            Some(devices) => format!("{}n {}", load.nodes, devices.iter().sum::<usize>()),
            None => format!("{}n", load.nodes),
        }
    }

    /// Returns true while the job waits for nodes.
    pub(super) fn is_pending(&self, job: &Job) -> bool {
        self.load.is_none() && job.state == JobState::Pending
    }
}

impl JobLoad {
    fn of(fleet_view: &FleetView, entry: &JobEntry) -> Self {
        let mut load = Self { devices: Some(Vec::new()), is_stale: true, ..Self::default() };
        let mut shares = Vec::new();
        let shown = entry.job.allocations.iter().zip(&entry.nodes);
        for (allocation, job_node) in shown.filter(|(_, job_node)| job_node.is_shown) {
            load.nodes += 1;
            match (device_count(allocation, job_node), &mut load.devices) {
                (Some(count), Some(counts)) => counts.push(count),
                _ => load.devices = None,
            }
            let Some(node) = job_node.node_index.and_then(|at| fleet_view.fleet.nodes.get(at))
            else {
                continue;
            };
            if !NodeStatus::of(node, fleet_view.now).is_fresh() {
                continue;
            }
            load.is_stale = false;
            for (_, position) in device_positions(fleet_view, job_node) {
                let Some(device) = node.devices.get(position) else { continue };
                load.idle += usize::from(is_idle(device));
                shares.extend(percent_value(device.utilization));
            }
        }
        if let Some(distribution) = Distribution::of(&shares, TOLERANCE) {
            load.utilization = Some(distribution.mean);
            load.outliers = distribution.outliers.len();
        }
        load
    }
}

/// Returns how many devices a job has on a node.
fn device_count(allocation: &Allocation, job_node: &JobNode) -> Option<usize> {
    match (&job_node.assigned.devices, &allocation.devices) {
        (Some(devices), _) => Some(devices.len()),
        (None, DeviceAllocation::Indices(indices)) => Some(indices.len()),
        (None, DeviceAllocation::Count(count)) => usize::try_from(*count).ok(),
        (None, DeviceAllocation::None) => Some(0),
        (None, DeviceAllocation::Unknown) => None,
    }
}

/// Returns the devices of a job on a node, by the indices of the node and of the device.
fn device_positions(fleet_view: &FleetView, job_node: &JobNode) -> Vec<(usize, usize)> {
    let found = job_node.node_index.and_then(|at| Some((at, fleet_view.fleet.nodes.get(at)?)));
    let (Some((at, node)), Some(assigned)) = (found, &job_node.assigned.devices) else {
        return Vec::new();
    };
    let devices = node.devices.iter().enumerate();
    let own = devices.filter(|(_, device)| assigned.contains(&device.uuid));
    own.map(|(position, _)| (at, position)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::{Fleet, Node, SourceState};
    use crate::model::{
        Device, Hello, HostFacts, JobList, Link, NodeName, Percent, Reading, Source,
    };
    use crate::query::Filter;
    use crate::time::Timestamp;

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    /// A fresh node that ada reaches, with devices of these loads.
    fn node(name: &str, loads: &[f32]) -> Arc<Node> {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        node.link = Link::Up;
        let host = HostFacts { user: "ada".into(), ..HostFacts::default() };
        node.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
        node.devices = (0..)
            .zip(loads)
            .map(|(index, load)| Device {
                uuid: format!("GPU-{name}-{index}").into(),
                index: Reading::Known(index),
                utilization: Reading::checked(Percent::new(*load)),
                ..Device::default()
            })
            .collect();
        node.device_sources = vec![Source::host(); loads.len()].into();
        node.sources.push(SourceState {
            source: Source::host(),
            taken_at: Some(NOW),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        });
        Arc::new(node)
    }

    fn job(id: &str, user: &str, nodes: &[(&str, &[u32])]) -> Job {
        let allocation = |(node, indices): &(&str, &[u32])| Allocation {
            node: NodeName::new(node).unwrap(),
            devices: DeviceAllocation::Indices((*indices).into()),
        };
        let allocations = nodes.iter().map(allocation).collect();
        Job { user: user.into(), allocations, ..Job::example(id) }
    }

    fn pending(id: &str, user: &str) -> Job {
        Job { state: JobState::Pending, node_count: 4, ..job(id, user, &[]) }
    }

    fn view(jobs: Vec<Job>, filter: &str) -> FleetView {
        let nodes = vec![
            node("a", &[90.0, 91.0, 92.0, 30.0]),
            node("b", &[0.0, 95.0]),
            node("c", &[50.0, 60.0]),
        ];
        let list = JobList { jobs, ..JobList::default() };
        let fleet = Fleet { jobs: Some(Arc::new(list)), ..Fleet::new(nodes.into()) };
        FleetView::filtered(fleet, NOW, Filter::new(filter).unwrap())
    }

    fn ids(fleet_view: &FleetView, order: SortOrder) -> Vec<String> {
        let rows = JobRows::of(fleet_view, order);
        rows.list.iter().map(|row| rows.job(fleet_view, row).unwrap().id.to_string()).collect()
    }

    fn some_jobs() -> Vec<Job> {
        vec![
            job("1", "bob", &[("b", &[0, 1])]),
            job("2", "ada", &[("c", &[1])]),
            job("3", "ada", &[("a", &[0, 1, 2, 3])]),
            job("4", "ada", &[("c", &[0])]),
            pending("5", "ada"),
            pending("6", "bob"),
        ]
    }

    #[test]
    fn own_jobs_come_first_and_of_these_the_worst() {
        let fleet_view = view(some_jobs(), "");
        // Job 3 has an outlier; 4 has a lower utilization than 2; 1 has an idle device, but is not ada's.
        assert_eq!(ids(&fleet_view, SortOrder::by("worst")), ["3", "4", "2", "5", "1", "6"]);
        let reversed = SortOrder { is_reversed: true, ..SortOrder::by("worst") };
        assert_eq!(ids(&fleet_view, reversed), ["6", "1", "5", "2", "4", "3"]);
    }

    #[test]
    fn each_column_sorts_and_unknown_values_come_last() {
        let fleet_view = view(some_jobs(), "");
        for (column, expected) in [
            ("job", ["1", "2", "3", "4", "5", "6"]),
            ("idle", ["1", "3", "4", "2", "5", "6"]),
            ("util", ["3", "2", "4", "1", "5", "6"]),
            ("devices", ["3", "1", "4", "2", "5", "6"]),
            ("jobuser", ["3", "4", "2", "5", "1", "6"]),
        ] {
            assert_eq!(ids(&fleet_view, SortOrder::by(column)), expected, "{column}");
        }
    }

    #[test]
    fn a_filter_of_nodes_hides_jobs_without_nodes_and_counts_them() {
        let fleet_view = view(some_jobs(), "node=b");
        assert_eq!(ids(&fleet_view, SortOrder::by("worst")), ["1"]);
        assert_eq!(JobRows::of(&fleet_view, SortOrder::by("worst")).hidden, 2);
    }

    #[test]
    fn the_size_is_nodes_times_devices_if_all_nodes_are_alike() {
        let asked = Job { devices_per_node: Some(8), ..pending("5", "ada") };
        let jobs = vec![
            job("1", "ada", &[("b", &[0, 1]), ("c", &[0, 1])]),
            job("2", "ada", &[("a", &[0]), ("gone", &[0, 1, 2])]),
            Job {
                allocations: [Allocation {
                    node: NodeName::new("c").unwrap(),
                    devices: DeviceAllocation::Unknown,
                }]
                .into(),
                ..Job::example("3")
            },
            asked,
            pending("6", "ada"),
        ];
        let fleet_view = view(jobs, "");
        let rows = JobRows::of(&fleet_view, SortOrder::by("job"));
        let size = |row: &JobRow| row.size_text(rows.job(&fleet_view, row).unwrap());
        let sizes: Vec<String> = rows.list.iter().map(size).collect();
        assert_eq!(sizes, ["2×2", "2n 4", "1n", "4×8", "4n"]);
    }

    #[test]
    fn a_stale_node_gives_no_values() {
        let mut old = Node::clone(&node("b", &[0.0, 0.0]));
        old.sources[0].taken_at = Some(Timestamp::default());
        let list = JobList { jobs: some_jobs(), ..JobList::default() };
        let fleet = Fleet { jobs: Some(Arc::new(list)), ..Fleet::new([Arc::new(old)].into()) };
        let fleet_view = FleetView::new(fleet, NOW);
        let rows = JobRows::of(&fleet_view, SortOrder::by("job"));
        let load = rows.list[0].load.as_ref().unwrap();
        assert_eq!((load.idle, load.utilization, load.is_stale), (0, None, true));
        assert_eq!(load.devices.as_deref(), Some(&[2][..]));
    }
}
