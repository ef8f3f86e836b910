//! The selected node and job, which all views share.
//!
//! Both are kept by identity, and their position is looked up again in each frame.

use std::sync::Arc;

use crate::widgets::list::Movement;
use gtop_fleet::Node;
use gtop_fleet::insight::FleetView;
use gtop_model::{Job, NodeName};

#[derive(Clone, Debug, Default)]
pub(crate) struct SharedSelection {
    node: Option<NodeName>,
    /// The selected job, as it was listed last.
    job: Option<Job>,
    /// Incremented when another node is selected.
    version: u64,
}

/// The status of the selected job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum JobSelection<'a> {
    /// The job has nodes.
    Listed(&'a Job),
    /// The filter matches none of its nodes.
    Hidden(&'a Job),
    /// The job is no longer listed, or it is pending again; this is its last state.
    Ended(&'a Job),
}

impl SharedSelection {
    /// Returns the selected node, or the first shown node if it is gone.
    pub(crate) fn node<'a>(&self, fleet_view: &'a FleetView) -> Option<&'a Arc<Node>> {
        let selected = self.node.as_ref().and_then(|name| fleet_view.fleet.node(name));
        selected.or_else(|| fleet_view.node_at(0))
    }

    /// Returns the selected node, or the first shown node if it is gone or hidden by the filter.
    pub(crate) fn shown_node<'a>(&self, fleet_view: &'a FleetView) -> Option<&'a Arc<Node>> {
        let selected = self.node.as_ref().and_then(|name| fleet_view.fleet.node(name));
        let selected = selected.filter(|node| fleet_view.position(&node.name).is_some());
        selected.or_else(|| fleet_view.node_at(0))
    }

    /// Returns the name of the selected node, which may be gone.
    pub(crate) fn node_name(&self) -> Option<&NodeName> {
        self.node.as_ref()
    }

    /// Returns a number that changes when another node is selected.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn select(&mut self, name: NodeName) {
        if self.node.as_ref() != Some(&name) {
            self.version += 1;
        }
        self.node = Some(name);
    }

    /// Selects a node that is on the screen if none was selected, so that clearing a filter does not replace
    /// it.
    pub(crate) fn keep_selected(&mut self, name: &NodeName) {
        if self.node.is_none() {
            self.node = Some(name.clone());
        }
    }

    /// Moves the selection among the shown nodes, one by one.
    pub(crate) fn step_node(&mut self, fleet_view: &FleetView, movement: Movement) {
        let position = self.node(fleet_view).and_then(|node| fleet_view.position(&node.name));
        let to = position.map_or(0, |position| {
            movement.new_index(position, fleet_view.count(), fleet_view.count())
        });
        if let Some(node) = fleet_view.node_at(to) {
            self.select(node.name.clone());
        }
    }

    /// Handles a change of the watched nodes: if the selected node is no longer watched, selects a neighbour
    /// instead of whichever node takes its position. `on_screen` is shown although none is selected. Returns
    /// the name of the removed node.
    pub(crate) fn on_update(
        &mut self,
        before: &FleetView,
        after: &FleetView,
        on_screen: Option<&NodeName>,
    ) -> Option<NodeName> {
        let name = self.node.as_ref().or(on_screen).cloned()?;
        before.fleet.node(&name)?;
        if after.fleet.node(&name).is_some() {
            return None;
        }
        let index = before.position(&name).unwrap_or(0);
        // The node after it, or else the one before it.
        let (above, below): (Vec<_>, Vec<_>) = before
            .nodes()
            .enumerate()
            .filter(|(_, node)| after.position(&node.name).is_some())
            .partition(|(at, _)| *at < index);
        if let Some((_, node)) = below.first().or(above.last()) {
            self.select(node.name.clone());
        }
        Some(name)
    }

    /// Returns the selected job, or the first one if none was selected yet.
    pub(crate) fn job<'a>(&'a self, fleet_view: &'a FleetView) -> Option<JobSelection<'a>> {
        let job_index = fleet_view.job_index();
        let mut shown = job_index.shown().map(|entry| &entry.job);
        let Some(last_listed) = &self.job else { return shown.next().map(JobSelection::Listed) };
        Some(match shown.find(|job| job.id == last_listed.id) {
            Some(job) => JobSelection::Listed(job),
            None => match job_index.entry(&last_listed.id) {
                Some(entry) => JobSelection::Hidden(&entry.job),
                None => JobSelection::Ended(last_listed),
            },
        })
    }

    /// Selects this job again, as it was listed last.
    pub(crate) fn set_job(&mut self, job: Option<Job>) {
        self.job = job;
    }

    /// Returns the selected job as it was listed last.
    pub(crate) fn last_job(&self) -> Option<&Job> {
        self.job.as_ref()
    }

    /// Selects a job of the selected node, unless the selected job is one already.
    pub(crate) fn follow_job(&mut self, fleet_view: &FleetView) {
        let Some(name) = &self.node else { return };
        if let Some(JobSelection::Listed(job)) = self.job(fleet_view)
            && job.has_node(name)
        {
            return;
        }
        let mut shown = fleet_view.job_index().shown().map(|entry| &entry.job);
        if let Some(job) = shown.find(|job| job.has_node(name)) {
            self.job = Some(job.clone());
        }
    }

    /// Remembers the state of the selected job, and selects one of its nodes if none of them is selected.
    pub(crate) fn refresh_job(&mut self, fleet_view: &FleetView) {
        let Some(JobSelection::Listed(job)) = self.job(fleet_view) else { return };
        let job = job.clone();
        let nodes = job.allocations.iter().map(|allocation| &allocation.node);
        let mut known = nodes.filter(|name| fleet_view.fleet.node(name).is_some()).peekable();
        let first = known.peek().copied().cloned();
        if !known.any(|name| self.node.as_ref() == Some(name))
            && let Some(name) = first
        {
            self.select(name);
        }
        self.job = Some(job);
    }

    /// Selects another job, and one of its nodes.
    pub(crate) fn show_job(&mut self, fleet_view: &FleetView, job: Job) {
        if self.job.as_ref().is_none_or(|known| known.id != job.id) {
            self.job = Some(job);
            (self.node, self.version) = (None, self.version + 1);
        }
        self.refresh_job(fleet_view);
    }
}
