//! A snapshot of the fleet at one moment, with everything that each frame derives from it.
//!
//! With 5,000 nodes, a frame must touch only the rows it shows. Totals, grouped problems and column widths
//! are computed here, once per snapshot or second.

pub use gtop_model::Severity;
pub use problems::{
    FleetProblem, ProblemKind, ProblemNode, Since, no_problem_text, no_problem_text_of,
};
pub use row_id::{RowId, process_rows};

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use crate::advice::Reader;
use crate::insight::events::rows::DeviceEvents;
use crate::insight::jobs::JobIndex;
use crate::insight::matched::MatchedDevices;
use crate::insight::runs::Runs;
use crate::insight::users::Users;
use crate::metrics::Usage;
use crate::query::DisplaySelection;
use crate::query::Filter;
use crate::{DeviceState, Fleet, Node, Totals};
use gtop_local::text::width_of;
use gtop_local::time::Timestamp;
use gtop_model::{Bytes, DeviceUse, Fault, FaultKind, Link, NodeName, RunList, Watts};

mod device_count;
pub mod device_flag;
pub mod events;
pub mod jobs;
mod matched;
mod matching_part;
pub mod next_problem;
pub mod node_status;
pub mod note;
pub mod pick;
mod problems;
mod row_id;
pub mod runs;
pub mod users;

/// The fleet at one moment, filtered, with derived data.
#[derive(Clone, Debug, Default)]
pub struct FleetView {
    /// The fleet, without the devices that `only` hides.
    pub fleet: Fleet,
    /// The time of the view.
    pub now: Timestamp,
    /// Sums over fresh nodes; with a filter, over their devices that match.
    pub totals: Totals,
    /// The problems of the whole fleet: each kind once, failures first, and of these those of most nodes.
    pub problems: Arc<[FleetProblem]>,
    /// The maximum widths and values of the columns.
    pub extents: Extents,
    /// The filter.
    pub filter: Filter,
    /// Who reads what to do about problems.
    pub reader: Reader,
    /// The selection of devices and processes to show.
    pub selection: Arc<DisplaySelection>,
    /// The fleet with all devices.
    whole: Fleet,
    /// The indices of the nodes that match the filter, in fleet order.
    pub matching: Vec<usize>,
    /// What of these nodes matches; `None` without a filter.
    pub matched: Option<Arc<MatchedDevices>>,
    /// Training runs, if they are watched.
    pub runs: Option<Arc<Runs>>,
    /// Data that only some views need.
    lazy: LazyParts,
}

/// Derived data computed on first use and kept with the view.
#[derive(Clone, Debug, Default)]
struct LazyParts {
    jobs: OnceLock<Arc<JobIndex>>,
    users: OnceLock<Arc<Users>>,
    events: OnceLock<Arc<DeviceEvents>>,
    shown_problems: OnceLock<Arc<[FleetProblem]>>,
}

/// Identifies a view, so that caches notice a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewVersion {
    fleet: usize,
    jobs: usize,
    now: Timestamp,
    filter: String,
}

/// The maximum widths and values of the columns of the node list.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extents {
    /// The width of the widest name.
    pub name: u16,
    /// The width of the longest text of the users of a node: the first one, and how many more.
    pub users: u16,
    /// The maximum number of devices of a node.
    pub devices: u16,
    /// The maximum device memory of a node, in GiB.
    pub memory: f64,
    /// The maximum power limit of a node, in watts.
    pub power: f32,
    /// True if some process belongs to a job.
    pub has_jobs: bool,
    /// True if some device is cut into slices.
    pub has_slices: bool,
}

impl FleetView {
    /// Makes a view of a whole fleet.
    #[cfg(any(test, feature = "testing"))]
    pub fn new(fleet: Fleet, now: Timestamp) -> Self {
        Self::filtered(fleet, now, Filter::default())
    }

    /// Makes a view of the nodes that match a filter; problems are those of the whole fleet.
    #[cfg(any(test, feature = "testing"))]
    pub fn filtered(fleet: Fleet, now: Timestamp, filter: Filter) -> Self {
        let jobs = fleet.jobs.clone();
        let fleet = fleet.with_jobs(jobs);
        Self::default().updated(fleet, now, filter, &DisplaySelection::default())
    }

    /// Makes a view to be printed, without the devices that `only` hides.
    pub fn printed(fleet: Fleet, now: Timestamp, selection: &DisplaySelection) -> Self {
        Self::printed_for(Reader::Print, fleet, now, selection)
    }

    /// Makes a view to be printed for this reader.
    pub fn printed_for(
        reader: Reader,
        fleet: Fleet,
        now: Timestamp,
        selection: &DisplaySelection,
    ) -> Self {
        let empty = Self { reader, ..Self::default() };
        empty.updated(fleet, now, Filter::default(), selection)
    }

    /// Returns the selected devices and processes that match a filter, with the nodes and jobs that match.
    pub fn part_of(
        fleet: &Fleet,
        now: Timestamp,
        selection: &DisplaySelection,
        filter: &Filter,
    ) -> Fleet {
        let nodes = fleet.nodes.iter().map(|node| selection.filter_node(node)).collect();
        let fleet = Fleet { nodes, ..fleet.clone() };
        if filter.is_empty() {
            return fleet;
        }
        let empty = Self { reader: Reader::Print, ..Self::default() };
        empty.next(fleet, now, filter.clone()).matching_part()
    }

    /// Makes a view of the same fleet with another filter or selection.
    #[must_use]
    pub fn refiltered(&self, now: Timestamp, filter: Filter, selection: &DisplaySelection) -> Self {
        self.updated(self.whole.clone(), now, filter, selection)
    }

    /// Makes a view of the next fleet, and reuses derived data that has not changed.
    #[must_use]
    pub fn updated(
        &self,
        whole: Fleet,
        now: Timestamp,
        filter: Filter,
        selection: &DisplaySelection,
    ) -> Self {
        let is_same = *self.selection == *selection;
        let selection =
            if is_same { Arc::clone(&self.selection) } else { Arc::new(selection.clone()) };
        let fleet = self.select(&whole, &selection, is_same);
        let built = self.next(fleet, now, filter);
        Self { selection, whole, runs: self.runs.clone(), ..built }
    }

    /// Removes the devices that are not selected.
    fn select(&self, whole: &Fleet, selection: &DisplaySelection, is_same: bool) -> Fleet {
        if !selection.selects_devices() {
            return whole.clone();
        }
        if is_same && Arc::ptr_eq(&self.whole.nodes, &whole.nodes) {
            return Fleet { nodes: Arc::clone(&self.fleet.nodes), ..whole.clone() };
        }
        let nodes = whole.nodes.iter().enumerate().map(|(index, node)| {
            let before = self.whole.nodes.get(index).zip(self.fleet.nodes.get(index));
            match before.filter(|(last, _)| is_same && Arc::ptr_eq(last, node)) {
                Some((_, selected)) => Arc::clone(selected),
                None => selection.filter_devices(node),
            }
        });
        Fleet { nodes: nodes.collect(), ..whole.clone() }
    }

    /// Makes the view of a fleet whose devices are selected.
    fn next(&self, fleet: Fleet, now: Timestamp, filter: Filter) -> Self {
        let filter = filter.with_jobs(fleet.jobs.as_ref());
        let (matching, matched) = if filter.is_empty() {
            ((0..fleet.nodes.len()).collect(), None)
        } else {
            let (matching, matched) = MatchedDevices::of(&fleet, &filter, now);
            (matching, Some(Arc::new(matched)))
        };
        let machines = fleet.machines().filter_map(|node| match &matched {
            None => Some((&**node, None)),
            Some(matched) => Some((&**node, Some(&**matched.positions(node)?))),
        });
        let totals = Totals::of_node_parts(machines, now);
        let problems = self.find_problems(&fleet, now, None);
        let extents = Extents::of(&fleet);
        Self {
            fleet,
            now,
            totals,
            problems,
            extents,
            filter,
            reader: self.reader,
            matching,
            matched,
            ..Self::default()
        }
    }

    /// Replaces the training runs.
    pub fn set_runs(&mut self, list: &Arc<RunList>) {
        self.runs = Some(Arc::new(Runs::new(Arc::clone(list), &self.fleet, self.now)));
    }

    pub fn job_index(&self) -> &Arc<JobIndex> {
        self.lazy.jobs.get_or_init(|| Arc::new(JobIndex::build(self)))
    }

    /// Returns the users as whom gtop reaches the nodes.
    pub fn own_users(&self) -> BTreeSet<&str> {
        let hellos = self.fleet.nodes.iter().filter_map(|node| node.hello.as_ref());
        hellos.map(|hello| &*hello.host.user).filter(|user| !user.is_empty()).collect()
    }

    pub fn users(&self) -> &Arc<Users> {
        self.lazy.users.get_or_init(|| Arc::new(Users::build(self)))
    }

    pub fn device_events(&self) -> &Arc<DeviceEvents> {
        self.lazy.events.get_or_init(|| Arc::new(DeviceEvents::build(self)))
    }

    /// Returns the problems of the shown nodes, in the same order as all.
    pub fn shown_problems(&self) -> &Arc<[FleetProblem]> {
        self.lazy.shown_problems.get_or_init(|| {
            if self.filter.is_empty() {
                return Arc::clone(&self.problems);
            }
            let shown = self.nodes().map(|node| &node.name).collect();
            self.find_problems(&self.fleet, self.now, Some(&shown))
        })
    }

    /// Returns the version of the view, for caches.
    pub fn version(&self) -> ViewVersion {
        let jobs = self.fleet.jobs.as_ref().map_or(0, |jobs| Arc::as_ptr(jobs).addr());
        ViewVersion {
            fleet: Arc::as_ptr(&self.fleet.nodes).cast::<()>().addr(),
            jobs,
            now: self.now,
            filter: self.filter.text().to_owned(),
        }
    }

    /// Returns the positions of the units of a node that match the filter; `None` without a filter.
    pub fn matching_devices(&self, node: &Node) -> Option<&[usize]> {
        let matched = self.matched.as_ref()?;
        // The positions of a node known from the scheduler alone are not those of devices.
        let positions = matched.positions(node).filter(|_| node.reported().is_none());
        Some(positions.map_or(&[], |positions| positions))
    }

    /// Returns true if the device at this position of a node, or a slice of it, matches the filter.
    pub fn matches_device(&self, node: &Node, position: usize) -> bool {
        let Some(matching) = self.matching_devices(node) else { return true };
        let Some(device) = node.devices.get(position) else { return false };
        matching.contains(&position)
            || node.slices(device).any(|(position, _)| matching.contains(&position))
    }

    /// Returns true if the process that uses a device of a node matches the filter.
    pub fn matches_use(&self, node: &Node, used: &DeviceUse) -> bool {
        let device = node.device(&used.device);
        self.filter.is_empty()
            || self.filter.matches_usage(node, device, &Usage::of_use(node, used), self.now)
    }

    /// Returns true if the device at this position of a node counts as free.
    pub fn is_free(&self, node: &Node, position: usize) -> bool {
        DeviceState::of(node, position, self.now) == Some(DeviceState::Free)
    }

    /// Returns the number of shown nodes.
    pub fn count(&self) -> usize {
        self.matching.len()
    }

    /// Returns the position of a node among the shown nodes.
    pub fn position(&self, name: &NodeName) -> Option<usize> {
        self.nodes().position(|node| node.name == *name)
    }

    /// Returns the shown node at a position.
    pub fn node_at(&self, index: usize) -> Option<&Arc<Node>> {
        self.fleet.nodes.get(*self.matching.get(index)?)
    }

    /// Returns the shown nodes in fleet order.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.matching.iter().filter_map(|index| self.fleet.nodes.get(*index))
    }

    /// Returns the shown nodes that the user could log in to with the ssh program.
    pub fn nodes_to_log_in(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes_down_by(Fault::is_solved_by_login)
    }

    /// Returns the shown nodes that wait for a host key to become known: their own, or that of a gateway.
    pub fn nodes_with_unknown_key(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes_down_by(|fault| fault.kind == FaultKind::HostKeyUnknown)
    }

    fn nodes_down_by(&self, is_wanted: fn(&Fault) -> bool) -> impl Iterator<Item = &NodeName> {
        self.nodes().filter_map(move |node| match &node.link {
            Link::Down { fault, .. } if is_wanted(fault) => Some(&node.name),
            Link::Idle | Link::Opening { .. } | Link::Up | Link::Down { .. } => None,
        })
    }
}

impl Extents {
    fn of(fleet: &Fleet) -> Self {
        let mut extents = Self::default();
        for node in fleet.nodes.iter() {
            extents.name = extents.name.max(width_of(node.name.as_str()));
            let users = node.holdings.users_text().map_or(0, |users| width_of(&users));
            extents.users = extents.users.max(users);
            let units = u16::try_from(node.units().count()).unwrap_or(u16::MAX);
            let (mut memory, mut power) = (0.0, 0.0);
            for (_, device) in node.whole_devices() {
                memory += device.memory_total.get().map_or(0.0, Bytes::gib);
                power += device.power_limit.get().map_or(0.0, Watts::get);
            }
            extents.devices = extents.devices.max(units);
            extents.memory = extents.memory.max(memory);
            extents.power = extents.power.max(power);
            extents.has_slices |= node.devices.iter().any(|device| device.parent.is_some());
            extents.has_jobs |= node.processes.iter().any(|process| process.statics.job.is_some());
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gtop_model::Device;

    #[test]
    fn hidden_devices_are_not_counted_and_unchanged_nodes_are_reused() {
        let device = |index: u32| Device {
            uuid: format!("GPU-{index}").into(),
            index: gtop_model::Reading::Known(index),
            ..Device::default()
        };
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        node.devices = vec![device(0), device(1), device(2)].into();
        node.device_sources = vec![gtop_model::Source::new("nvml"); 3].into();
        let fleet = Fleet::new(vec![Arc::new(node)].into());
        let selection =
            DisplaySelection { devices: Some([0, 2].into()), ..DisplaySelection::default() };
        let now = Timestamp::default();
        let fleet_view = FleetView::printed(fleet.clone(), now, &selection);
        assert_eq!((fleet_view.extents.devices, fleet_view.fleet.nodes[0].devices.len()), (2, 2));
        let next = fleet_view.updated(fleet.clone(), now, Filter::default(), &selection);
        assert!(Arc::ptr_eq(&fleet_view.fleet.nodes, &next.fleet.nodes));
        let all = next.refiltered(now, Filter::default(), &DisplaySelection::default());
        assert!(Arc::ptr_eq(&all.fleet.nodes, &fleet.nodes));
    }
}
