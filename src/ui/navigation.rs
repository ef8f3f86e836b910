//! Navigation: the current view, the selected node and job, the cursor in tables, and the scroll positions.
//!
//! Selections are kept by identity, and their position is looked up again in each frame.

use std::sync::Arc;

use crate::fleet::Node;
use crate::insight::FleetView;
use crate::insight::{RowId, process_rows};
use crate::model::{Job, NodeName};
use crate::ui::View;
use crate::ui::views::{events, fleet, job, node, processes, users};
use crate::ui::widgets::list::{Movement, Viewport};

/// The state of navigation, and of each view.
#[derive(Clone, Debug)]
pub struct Navigation {
    pub view: View,
    /// Shows the process table in the node view.
    pub shows_processes: bool,
    /// The visible rows of the node list.
    pub node_list: Viewport,
    /// The visible rows of the device table.
    pub device_table: Viewport,
    /// The visible rows of the process table.
    pub process_table: Viewport,
    pub(crate) fleet: fleet::State,
    pub(crate) job_state: job::State,
    pub(crate) node_state: node::State,
    pub(crate) processes: processes::State,
    pub(crate) users: users::State,
    pub(crate) events: events::State,
    /// The view to go back to.
    origin: View,
    selected: Option<NodeName>,
    /// The selected job, as it was listed last.
    job: Option<Job>,
    cursor: Option<RowId>,
}

/// The status of the selected job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JobSelection<'a> {
    /// The job has nodes.
    Listed {
        job: &'a Job,
        /// Its index among the jobs that have nodes.
        index: usize,
    },
    /// The filter matches none of its nodes.
    Hidden(&'a Job),
    /// The job is no longer listed, or it is pending again; this is its last state.
    Ended(&'a Job),
}

impl Default for Navigation {
    fn default() -> Self {
        Self {
            view: View::Fleet,
            shows_processes: true,
            node_list: Viewport::default(),
            device_table: Viewport::default(),
            process_table: Viewport::default(),
            fleet: fleet::State::default(),
            job_state: job::State::default(),
            node_state: node::State::default(),
            processes: processes::State::default(),
            users: users::State::default(),
            events: events::State::default(),
            origin: View::Fleet,
            selected: None,
            job: None,
            cursor: None,
        }
    }
}

impl Navigation {
    /// Returns the selected node, or the first shown node if it is gone. If a filter hides the selected node,
    /// the fleet view selects the first match, but the other views keep showing the selected one.
    pub fn node<'a>(&self, fleet_view: &'a FleetView) -> Option<&'a Arc<Node>> {
        let selected = self.selected.as_ref().and_then(|name| fleet_view.fleet.node(name));
        let is_shown = |node: &&Arc<Node>| {
            self.view != View::Fleet || fleet_view.position(&node.name).is_some()
        };
        selected.filter(is_shown).or_else(|| fleet_view.node_at(0))
    }

    /// Switches to a view. A node marked in the fleet view becomes the selected node; the job view opens with
    /// a job of that node.
    pub fn show_view(&mut self, fleet_view: &FleetView, view: View) {
        if self.selected.is_some()
            && let Some(name) = self.node(fleet_view).map(|node| node.name.clone())
        {
            self.select(name);
        }
        if view == View::Job && self.view != View::Job {
            self.follow_job(fleet_view);
        }
        (self.origin, self.view) = (View::Fleet, view);
    }

    /// Opens a view; [`Self::back`] returns from it to the current one.
    pub fn open(&mut self, fleet_view: &FleetView, view: View) {
        let origin = self.view;
        self.show_view(fleet_view, view);
        self.origin = origin;
    }

    /// Returns to the view from which this one was opened, or to the fleet. The selected job stays, whichever
    /// nodes were opened since.
    pub fn back(&mut self, fleet_view: &FleetView) {
        let job = self.job.clone();
        self.show_view(fleet_view, self.origin);
        self.job = job;
    }

    /// Selects a job of the selected node, unless the selected job is one already.
    fn follow_job(&mut self, fleet_view: &FleetView) {
        let Some(name) = &self.selected else { return };
        let has_node = |job: &Job| job.allocations.iter().any(|one| one.node == *name);
        if let Some(JobSelection::Listed { job, .. }) = self.job(fleet_view)
            && has_node(job)
        {
            return;
        }
        let mut shown = fleet_view.job_index().shown().map(|entry| &entry.job);
        if let Some(job) = shown.find(|job| has_node(job)) {
            self.job = Some(job.clone());
        }
    }

    pub fn select(&mut self, name: NodeName) {
        if self.selected.as_ref() != Some(&name) {
            self.cursor = None;
            self.device_table = Viewport::default();
            self.process_table = Viewport::default();
        }
        self.selected = Some(name);
    }

    /// Handles a change of the watched nodes: if the selected node is no longer watched, selects a neighbour
    /// instead of whichever node takes its position. Returns the name of the removed node.
    pub fn on_update(&mut self, before: &FleetView, after: &FleetView) -> Option<NodeName> {
        // The node view shows a node even if none was selected.
        let opened = before.node_at(0).filter(|_| self.view == View::Node).map(|node| &node.name);
        let name = self.selected.as_ref().or(opened).cloned()?;
        before.fleet.node(&name)?;
        if after.fleet.node(&name).is_some() {
            return None;
        }
        let index = before.position(&name).unwrap_or(0);
        let remains = |node: &&Arc<Node>| after.position(&node.name).is_some();
        let next = before.nodes().skip(index).find(remains);
        let neighbour = next.or_else(|| {
            let nodes: Vec<_> = before.nodes().take(index).collect();
            nodes.into_iter().rev().find(remains)
        });
        if let Some(node) = neighbour {
            self.select(node.name.clone());
        }
        Some(name)
    }

    /// Selects a node that is on the screen if none was selected, so that clearing a filter does not replace
    /// it.
    pub fn keep_selected(&mut self, name: &NodeName) {
        if self.selected.is_none() {
            self.selected = Some(name.clone());
        }
    }

    /// Moves the selection in the node list.
    pub fn step_node(&mut self, fleet_view: &FleetView, movement: Movement) {
        let position = self.node(fleet_view).and_then(|node| fleet_view.position(&node.name));
        let to = position.map_or(0, |position| {
            movement.new_index(position, fleet_view.count(), self.node_list.rows)
        });
        if let Some(node) = fleet_view.node_at(to) {
            self.select(node.name.clone());
        }
    }

    /// Returns the selected job, or the first one if none was selected yet.
    pub fn job<'a>(&'a self, fleet_view: &'a FleetView) -> Option<JobSelection<'a>> {
        let job_index = fleet_view.job_index();
        let mut shown = job_index.shown().map(|entry| &entry.job).enumerate();
        let Some(last_listed) = &self.job else {
            return shown.next().map(|(index, job)| JobSelection::Listed { job, index });
        };
        Some(match shown.find(|(_, job)| job.id == last_listed.id) {
            Some((index, job)) => JobSelection::Listed { job, index },
            None => match job_index.entry(&last_listed.id) {
                Some(entry) => JobSelection::Hidden(&entry.job),
                None => JobSelection::Ended(last_listed),
            },
        })
    }

    /// Remembers the state of the selected job, and selects one of its nodes if none of them is selected.
    pub fn refresh_job(&mut self, fleet_view: &FleetView) {
        let Some(JobSelection::Listed { job, .. }) = self.job(fleet_view) else { return };
        let job = job.clone();
        let has_node = |name: &NodeName| job.allocations.iter().any(|one| one.node == *name);
        let known = |name: &&NodeName| fleet_view.fleet.node(name).is_some();
        if !self.selected.as_ref().is_some_and(|name| has_node(name) && known(&name)) {
            let first = job.allocations.iter().map(|one| &one.node).find(known);
            if let Some(name) = first.cloned() {
                self.select(name);
            }
        }
        self.job = Some(job);
    }

    /// Moves the selection among the jobs that have nodes.
    pub fn step_job(&mut self, fleet_view: &FleetView, movement: Movement) {
        let jobs: Vec<&Job> = fleet_view.job_index().shown().map(|entry| &entry.job).collect();
        let index = match self.job(fleet_view) {
            Some(JobSelection::Listed { index, .. }) => movement.new_index(index, jobs.len(), 10),
            Some(JobSelection::Hidden(_) | JobSelection::Ended(_)) | None => 0,
        };
        let Some(job) = jobs.get(index) else { return };
        if self.job.as_ref().is_none_or(|known| known.id != job.id) {
            self.leave_table();
            self.job = Some((*job).clone());
            self.selected = None;
        }
        self.refresh_job(fleet_view);
    }

    /// Moves the cursor in the tables of a node; without a cursor, scrolls the process table.
    pub fn step_table(&mut self, node: &Node, movement: Movement) {
        let Some(at) = self.cursor_index(node) else {
            let count = process_rows(node).len();
            let scrolled =
                movement.new_index(self.process_table.top, count, self.process_table.rows);
            self.process_table.top = scrolled.min(count.saturating_sub(self.process_table.rows));
            return;
        };
        let row_ids = self.row_ids(node);
        let page = self.device_table.rows.max(self.process_table.rows);
        self.cursor = row_ids.get(movement.new_index(at, row_ids.len(), page)).cloned();
    }

    /// Moves the cursor to the first row of the tables, unless it is in them already.
    pub fn enter_table(&mut self, node: &Node) {
        if self.cursor.is_none() {
            self.cursor = self.row_ids(node).first().cloned();
        }
    }

    /// Selects a node, and moves the cursor to a row of its tables.
    pub(crate) fn select_row(&mut self, name: NodeName, row_id: Option<RowId>) {
        self.select(name);
        if matches!(row_id, Some(RowId::Process { .. })) {
            self.shows_processes = true;
        }
        self.cursor = row_id;
    }

    /// Removes the cursor from the tables; returns true if it was there.
    pub fn leave_table(&mut self) -> bool {
        self.cursor.take().is_some()
    }

    /// Returns the row under the cursor.
    pub fn cursor(&self, node: &Node) -> Option<RowId> {
        self.row_ids(node).get(self.cursor_index(node)?).cloned()
    }

    /// Finds the row under the cursor; the first row if it is gone. Only the tables of the selected node have
    /// a cursor.
    fn cursor_index(&self, node: &Node) -> Option<usize> {
        let is_selected = self.selected.as_ref().is_none_or(|name| *name == node.name);
        let cursor = self.cursor.as_ref().filter(|_| is_selected)?;
        let row_ids = self.row_ids(node);
        (!row_ids.is_empty())
            .then(|| row_ids.iter().position(|row_id| row_id == cursor).unwrap_or(0))
    }

    fn row_ids(&self, node: &Node) -> Vec<RowId> {
        let devices = node.devices.iter().map(|device| RowId::Device(Arc::clone(&device.uuid)));
        let uses = if self.shows_processes { process_rows(node) } else { Vec::new() };
        devices.chain(uses.into_iter().map(|(_, row_id)| row_id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::Fleet;
    use crate::model::{Bytes, Device, DeviceUse, Reading};
    use crate::time::Timestamp;

    fn fleet_view(names: &[&str]) -> FleetView {
        let node = |name: &&str| {
            let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
            node.devices = ["GPU-a", "GPU-b"]
                .map(|uuid| Device { uuid: uuid.into(), ..Device::default() })
                .to_vec();
            Arc::new(node)
        };
        let nodes: Vec<_> = names.iter().map(node).collect();
        FleetView::new(Fleet::new(nodes.into()), Timestamp::default())
    }

    fn using(device: &str, pid: u32, gib: u64) -> DeviceUse {
        DeviceUse {
            device: device.into(),
            pid,
            memory: Reading::Known(Bytes(gib << 30)),
            ..DeviceUse::default()
        }
    }

    fn selected(navigation: &Navigation, fleet_view: &FleetView) -> String {
        navigation.node(fleet_view).unwrap().name.to_string()
    }

    #[test]
    fn the_selection_follows_the_node_not_the_row() {
        let mut navigation = Navigation::default();
        let before = fleet_view(&["a", "b", "c"]);
        navigation.step_node(&before, Movement::End);
        navigation.step_node(&before, Movement::Up);
        assert_eq!(selected(&navigation, &before), "b");
        assert_eq!(selected(&navigation, &fleet_view(&["x", "y", "b"])), "b");
        assert_eq!(selected(&navigation, &fleet_view(&["x", "y"])), "x");
    }

    #[test]
    fn a_hidden_node_is_not_selected_in_the_list_but_stays_open() {
        let fleet_view = fleet_view(&["a", "b", "c"]);
        let filter = crate::query::Filter::new("c").unwrap();
        let filtered = FleetView::filtered(fleet_view.fleet.clone(), fleet_view.now, filter);
        let mut navigation = Navigation::default();
        navigation.step_node(&fleet_view, Movement::Down);
        assert_eq!(selected(&navigation, &filtered), "c");
        assert_eq!(selected(&navigation, &fleet_view), "b");
        let mut opened = Navigation { view: View::Node, ..navigation.clone() };
        assert_eq!(selected(&opened, &filtered), "b");
        opened.back(&filtered);
        assert_eq!(selected(&opened, &filtered), "c");
        // The marked node is the one that opens.
        navigation.show_view(&filtered, View::Node);
        assert_eq!(selected(&navigation, &filtered), "c");
        assert_eq!(selected(&navigation, &fleet_view), "c");
    }

    #[test]
    fn moving_from_a_hidden_node_goes_to_a_shown_one_without_a_cursor() {
        let fleet_view = fleet_view(&["a", "b", "c1", "c2"]);
        let filter = crate::query::Filter::new("c").unwrap();
        let filtered = FleetView::filtered(fleet_view.fleet.clone(), fleet_view.now, filter);
        let mut navigation = Navigation { view: View::Node, ..Navigation::default() };
        navigation.step_node(&fleet_view, Movement::Down);
        navigation.cursor = Some(RowId::Device("GPU-b".into()));
        let cursor = |name: &str| {
            navigation.cursor(fleet_view.fleet.node(&NodeName::new(name).unwrap()).unwrap())
        };
        assert_eq!(["b", "c1"].map(|name| cursor(name).is_some()), [true, false]);
        navigation.step_node(&filtered, Movement::Down);
        assert_eq!(selected(&navigation, &filtered), "c1");
    }

    #[test]
    fn back_returns_to_the_origin() {
        let fleet_view = fleet_view(&["a"]);
        let mut navigation = Navigation { view: View::Users, ..Navigation::default() };
        navigation.open(&fleet_view, View::Node);
        navigation.back(&fleet_view);
        assert_eq!(navigation.view, View::Users);
        navigation.back(&fleet_view);
        assert_eq!(navigation.view, View::Fleet);
        navigation.open(&fleet_view, View::Job);
        navigation.show_view(&fleet_view, View::Node);
        navigation.back(&fleet_view);
        assert_eq!(navigation.view, View::Fleet);
    }

    #[test]
    fn a_removed_node_is_returned_and_a_neighbour_selected() {
        let before = fleet_view(&["a", "b", "c", "d"]);
        for (steps, after, removed, neighbour) in [
            (1, vec!["a", "c", "d"], Some("b"), "c"),
            (3, vec!["a", "b"], Some("d"), "b"),
            (1, vec!["b"], None, "b"),
            (1, vec!["x"], Some("b"), "x"),
            // The first row is marked even if no node was selected.
            (0, vec!["b"], None, "b"),
        ] {
            let mut navigation = Navigation::default();
            for _ in 0..steps {
                navigation.step_node(&before, Movement::Down);
            }
            let after = fleet_view(&after);
            let name = navigation.on_update(&before, &after);
            assert_eq!(name.as_ref().map(NodeName::as_str), removed, "{steps}");
            assert_eq!(selected(&navigation, &after), neighbour);
            assert_eq!(navigation.on_update(&after, &after), None);
        }
        let mut opened = Navigation { view: View::Node, ..Navigation::default() };
        let removed = opened.on_update(&before, &fleet_view(&["d"]));
        assert_eq!(removed.as_ref().map(NodeName::as_str), Some("a"));
    }

    #[test]
    fn movements_stop_at_both_ends() {
        for (movement, index, to) in [
            (Movement::Up, 0, 0),
            (Movement::Down, 9, 9),
            (Movement::PageDown, 3, 8),
            (Movement::PageDown, 7, 9),
            (Movement::PageUp, 3, 0),
            (Movement::Home, 5, 0),
            (Movement::End, 5, 9),
        ] {
            assert_eq!(movement.new_index(index, 10, 5), to, "{movement:?} {index}");
        }
        assert_eq!(Movement::End.new_index(3, 0, 0), 0);
    }

    #[test]
    fn the_viewport_follows_the_cursor_and_stays_within_the_list() {
        for (top, rows, count, wanted, range) in [
            (0, 5, 10, Some(7), 3..8),
            (6, 5, 10, Some(2), 2..7),
            (4, 5, 10, Some(6), 4..9),
            (9, 5, 10, None, 5..10),
            (9, 5, 3, Some(2), 0..3),
            (3, 0, 10, Some(5), 6..6),
            (0, 5, 0, Some(0), 0..0),
        ] {
            let mut viewport = Viewport { top, rows };
            viewport.scroll_to(rows, count, wanted);
            assert_eq!(viewport.range(count), range, "{top} {rows} {count}");
        }
    }

    fn with_jobs(names: &[&str], jobs: &[(&str, &[&str])]) -> FleetView {
        use crate::model::{Allocation, DeviceAllocation, JobList};
        let allocation = |name: &&str| Allocation {
            node: NodeName::new(name).unwrap(),
            devices: DeviceAllocation::Unknown,
        };
        let job = |(id, nodes): &(&str, &[&str])| Job {
            allocations: nodes.iter().map(allocation).collect(),
            ..Job::example(id)
        };
        let list = JobList { jobs: jobs.iter().map(job).collect(), ..JobList::default() };
        let mut fleet_view = fleet_view(names);
        fleet_view.fleet.jobs = Some(Arc::new(list));
        fleet_view
    }

    #[test]
    fn a_job_stays_selected_until_it_ends() {
        let shown =
            |navigation: &Navigation, fleet_view: &FleetView| match navigation.job(fleet_view) {
                Some(JobSelection::Listed { job, .. }) => job.shown_id.to_string(),
                Some(JobSelection::Hidden(job)) => format!("{} hidden", job.shown_id),
                Some(JobSelection::Ended(job)) => format!("{} ended", job.shown_id),
                None => "none".to_owned(),
            };
        let nodes = ["a", "b", "c"];
        let three = with_jobs(&nodes, &[("1", &["a"]), ("2", &["b", "c"]), ("3", &["c"])]);
        let mut navigation = Navigation::default();
        navigation.refresh_job(&three);
        assert_eq!(shown(&navigation, &three), "1");
        navigation.step_job(&three, Movement::Down);
        assert_eq!(
            (shown(&navigation, &three), selected(&navigation, &three)),
            ("2".into(), "b".into())
        );
        navigation.select(NodeName::new("c").unwrap());
        assert_eq!(selected(&navigation, &three), "c");
        // The cursor does not move to another job.
        let fewer = with_jobs(&nodes, &[("2", &["b", "c"]), ("3", &["c"])]);
        navigation.refresh_job(&fewer);
        assert_eq!(
            (shown(&navigation, &fewer), selected(&navigation, &fewer)),
            ("2".into(), "c".into())
        );
        let gone = with_jobs(&["c"], &[("3", &["c"])]);
        navigation.refresh_job(&gone);
        assert_eq!(shown(&navigation, &gone), "2 ended");
        navigation.step_job(&gone, Movement::Down);
        assert_eq!(
            (shown(&navigation, &gone), selected(&navigation, &gone)),
            ("3".into(), "c".into())
        );
        let none = with_jobs(&[], &[]);
        assert_eq!(shown(&navigation, &none), "3 ended");
        navigation.step_job(&none, Movement::Up);
        assert_eq!(shown(&Navigation::default(), &none), "none");
    }

    #[test]
    fn the_job_view_opens_with_a_job_of_the_selected_node() {
        let nodes = ["a", "b", "c"];
        let jobs = with_jobs(&nodes, &[("1", &["a"]), ("2", &["b", "c"]), ("3", &["c"])]);
        let mut navigation = Navigation::default();
        for (node, job) in [("c", "2"), ("b", "2"), ("a", "1"), ("c", "2")] {
            navigation.show_view(&jobs, View::Fleet);
            navigation.select(NodeName::new(node).unwrap());
            navigation.show_view(&jobs, View::Job);
            navigation.refresh_job(&jobs);
            let Some(JobSelection::Listed { job: shown, .. }) = navigation.job(&jobs) else {
                panic!()
            };
            assert_eq!((&*shown.shown_id, selected(&navigation, &jobs)), (job, node.to_owned()));
        }
        // The selected job stays if the node has several.
        navigation.step_job(&jobs, Movement::Down);
        navigation.show_view(&jobs, View::Node);
        navigation.show_view(&jobs, View::Job);
        let Some(JobSelection::Listed { job: shown, .. }) = navigation.job(&jobs) else { panic!() };
        assert_eq!(&*shown.shown_id, "3");
    }

    #[test]
    fn the_cursor_moves_over_devices_then_processes_and_stays_on_its_row() {
        let mut fleet_view = fleet_view(&["a"]);
        let mut node = Node::clone(fleet_view.node_at(0).unwrap());
        node.uses = vec![using("GPU-b", 7, 1), using("GPU-a", 9, 1), using("GPU-a", 8, 2)].into();
        fleet_view.fleet = Fleet::new(vec![Arc::new(node.clone())].into());
        let mut navigation = Navigation::default();
        assert_eq!(navigation.cursor(&node), None);
        navigation.enter_table(&node);
        let mut seen = Vec::new();
        for _ in 0..5 {
            seen.push(match navigation.cursor(&node).unwrap() {
                RowId::Device(uuid) => uuid.to_string(),
                RowId::Process { pid, .. } => pid.to_string(),
            });
            navigation.step_table(&node, Movement::Down);
        }
        assert_eq!(seen, ["GPU-a", "GPU-b", "8", "9", "7"]);
        node.uses = node.uses.iter().filter(|used| used.pid != 8).cloned().collect();
        assert!(matches!(navigation.cursor(&node), Some(RowId::Process { pid: 7, .. })));
        node.uses = Arc::default();
        assert!(matches!(navigation.cursor(&node), Some(RowId::Device(_))));
        assert!(navigation.leave_table());
        assert!(!navigation.leave_table());
    }
}
