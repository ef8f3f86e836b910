//! The rows of the process table, collected and sorted once per fleet snapshot.
//!
//! A fleet may have 40,000 processes. They are read only when the snapshot, the scope, the order or the filter
//! changes; a frame reads only the visible rows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::process_order;
use crate::process_row::{ProcessEntry, ProcessRow};
use crate::process_target::ProcessTarget;
use crate::widgets::number_format::percent_value;
use gtop_fleet::insight::FleetView;
use gtop_fleet::metrics::Usage;
use gtop_fleet::query::{DisplaySelection, SortOrder};
use gtop_fleet::{Fleet, Node};
use gtop_local::text::width_of;
use gtop_local::time::Timestamp;
use gtop_model::{Bytes, DeviceUse, JobId, JobList, Link, NodeName, Reason, UnseenReason};

/// An ended process stays on the screen for this long.
const ENDED_SHOWN_FOR: Duration = Duration::from_secs(5);
/// Limit of ended processes on the screen.
const MAX_ENDED: usize = 200;

/// A scope with the names it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResolvedScope {
    Fleet,
    Node(NodeName),
    /// A job, by its id and by its SLUID.
    Job(JobId, Option<JobId>),
}

/// Processes that use devices but that no source lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HiddenProcesses {
    pub(super) count: u64,
    /// Their device memory, as far as it is known.
    pub(super) memory: Bytes,
}

/// The inputs the rows depend on, besides the fleet.
#[derive(Clone, Debug, PartialEq)]
struct RowInputs {
    scope: ResolvedScope,
    order: SortOrder,
    filter: String,
    /// The current time if there is a filter, since filters may compare ages.
    filtered_at: Option<Timestamp>,
    selection: Arc<DisplaySelection>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ProcessRows {
    inputs: Option<RowInputs>,
    /// The snapshot the rows were built from.
    fleet: Fleet,
    built_at: Timestamp,
    pub(super) list: Vec<ProcessRow>,
    /// Processes that ended recently; they are also at the end of `list`.
    ended: Vec<ProcessRow>,
    pub(super) hidden: HiddenProcesses,
    /// Number of running processes; one on two devices has two rows but counts once.
    pub(super) process_count: usize,
    /// Number of nodes with listed processes.
    pub(super) node_count: usize,
    /// Number of nodes that do not report the processes of their devices, and the reason of the first.
    pub(super) unknown_nodes: Option<(usize, Reason)>,
    /// Widths of the longest node name and the longest owner.
    pub(super) name_width: u16,
    pub(super) user_width: u16,
    /// Number of processes that belong to the user.
    pub(super) own_count: usize,
    /// Length of the longest id of a job of a process, as the process has it.
    pub(super) job_id_len: usize,
    /// True if some of the devices are TPU chips.
    pub(super) has_tpus: bool,
    pub(super) has_gpus: bool,
    /// Number of processes that use the video encoder or decoder.
    pub(super) video_count: usize,
}

impl ProcessRows {
    pub(super) fn scope(&self) -> ResolvedScope {
        self.inputs.as_ref().map_or(ResolvedScope::Fleet, |inputs| inputs.scope.clone())
    }

    pub(super) const fn jobs(&self) -> Option<&Arc<JobList>> {
        self.fleet.jobs.as_ref()
    }

    /// Rebuilds the rows if an input has changed or an ended process is to disappear.
    pub(super) fn refresh(&mut self, view: &FleetView, scope: ResolvedScope, order: SortOrder) {
        let filter = view.filter.text().to_owned();
        let filtered_at = (!view.filter.is_empty()).then_some(view.now);
        let selection = Arc::clone(&view.selection);
        let inputs = RowInputs { scope, order, filter, filtered_at, selection };
        let now = view.now;
        let is_same = Arc::ptr_eq(&self.fleet.nodes, &view.fleet.nodes)
            && self.inputs.as_ref() == Some(&inputs);
        if is_same && !self.ended.iter().any(|row| is_expired(row, now)) {
            return;
        }
        let old_fleet = std::mem::take(&mut self.fleet);
        let is_continued = self.inputs.as_ref().is_some_and(|known| {
            known.scope == inputs.scope
                && known.filter == inputs.filter
                && known.selection == inputs.selection
        }) && now.since(self.built_at) < ENDED_SHOWN_FOR
            && now >= self.built_at;
        self.ended.retain(|row| is_continued && !is_expired(row, now));
        if !is_continued {
            // While the inputs stay the same, columns only grow, so that they do not jump when a process
            // ends.
            (self.name_width, self.user_width) = (0, 0);
        }
        self.collect_rows(view, &inputs, is_continued.then_some(&old_fleet));
        let entries: Vec<_> = self.list.iter().map(ProcessRow::entry).collect();
        let positions = process_order::positions(&entries, inputs.order);
        self.list = positions.iter().filter_map(|at| self.list.get(*at).cloned()).collect();
        self.list.extend(self.ended.iter().cloned());
        self.fleet = view.fleet.clone();
        self.built_at = now;
        self.inputs = Some(inputs);
    }

    fn collect_rows(&mut self, view: &FleetView, inputs: &RowInputs, old_fleet: Option<&Fleet>) {
        self.list.clear();
        (self.hidden, self.node_count, self.unknown_nodes) = (HiddenProcesses::default(), 0, None);
        (self.job_id_len, self.has_tpus, self.has_gpus) = (0, false, false);
        (self.video_count, self.own_count, self.process_count) = (0, 0, 0);
        let nodes: Vec<(usize, &Arc<Node>)> = match &inputs.scope {
            ResolvedScope::Node(name) => {
                let nodes = view.fleet.nodes.iter().enumerate();
                nodes.filter(|(_, node)| node.name == *name).collect()
            }
            ResolvedScope::Fleet | ResolvedScope::Job(..) => view
                .matching
                .iter()
                .filter_map(|index| Some((*index, view.fleet.nodes.get(*index)?)))
                // A machine monitored under two names is counted once.
                .filter(|(_, node)| !view.fleet.same_as.contains_key(&node.name))
                .collect(),
        };
        for (index, node) in nodes {
            let old = old_fleet.and_then(|fleet| {
                let same = fleet.nodes.get(index).filter(|old| old.name == node.name);
                same.or_else(|| fleet.node(&node.name))
            });
            if let Some(old) = old.filter(|old| !Arc::ptr_eq(old, node)) {
                self.record_ended(old, node, view, inputs);
            }
            let first = self.list.len();
            self.add_node(node, view, inputs);
            let rows = self.list.get(first..).unwrap_or_default().iter();
            let entries = rows.filter_map(ProcessRow::entry);
            let pids: BTreeSet<u32> = entries.map(|entry| entry.used.pid).collect();
            self.process_count += pids.len();
        }
    }

    /// Keeps the processes of a node that have ended since the previous snapshot.
    fn record_ended(
        &mut self,
        old: &Arc<Node>,
        node: &Arc<Node>,
        view: &FleetView,
        inputs: &RowInputs,
    ) {
        if node.link != Link::Up || has_same_processes(old, node) {
            return;
        }
        for row in node_rows(old) {
            let Some(entry) = row.entry() else { continue };
            let Some(start) = entry.start_ticks() else { continue };
            let DeviceUse { pid, device, .. } = entry.used;
            let is_running = node.process(*pid).is_some_and(|now| now.key.start_ticks == start);
            let is_user = node.uses_of(device).any(|used| used.pid == *pid);
            let key = entry.key();
            if !(is_running && is_user)
                && self.ended.len() < MAX_ENDED
                && is_included(entry, view, inputs)
                && !self.ended.iter().any(|known| known.has_key(&key))
            {
                self.ended.push(ProcessRow { ended_at: Some(view.now), ..row.clone() });
            }
        }
    }

    fn add_node(&mut self, node: &Arc<Node>, view: &FleetView, inputs: &RowInputs) {
        let before = self.list.len();
        for row in node_rows(node) {
            let Some(entry) = row.entry().filter(|entry| is_included(*entry, view, inputs)) else {
                continue;
            };
            let has_ended = entry.process.is_none()
                && entry.unseen.is_none_or(|unseen| unseen.why == UnseenReason::Gone);
            if has_ended && !self.ended.is_empty() {
                let key = entry.key();
                if self.ended.iter().any(|known| known.has_key(&key)) {
                    continue;
                }
            }
            self.own_count += usize::from(entry.is_ours() == Some(true));
            self.job_id_len = self.job_id_len.max(entry.job().map_or(0, |job| job.as_str().len()));
            self.user_width = self.user_width.max(entry.user().map_or(0, width_of));
            let video = [entry.used.encoder, entry.used.decoder];
            let is_used = video.into_iter().filter_map(percent_value).any(|share| share > 0.0);
            self.video_count += usize::from(is_used);
            self.has_tpus |= entry.is_tpu();
            self.has_gpus |= !entry.is_tpu();
            self.list.push(row);
        }
        if self.list.len() > before {
            self.node_count += 1;
            self.name_width = self.name_width.max(width_of(node.name.label()));
        }
        if !matches!(inputs.scope, ResolvedScope::Job(..)) {
            self.count_hidden(node);
            // A faulty device is not expected to report processes.
            let devices = node.devices.iter().enumerate();
            let without_fault = devices.filter(|(_, device)| device.fault.is_none());
            let mut reasons =
                without_fault.filter_map(|(index, _)| node.users_unknown_reason(index));
            if let Some(reason) = reasons.find(|reason| *reason != Reason::NotSampled) {
                let (count, first) = self.unknown_nodes.unwrap_or((0, reason));
                self.unknown_nodes = Some((count + 1, first));
            }
        }
    }

    fn count_hidden(&mut self, node: &Node) {
        for (_, device) in node.whole_devices() {
            if let Some(count) = device.hidden_processes.get().filter(|count| *count > 0) {
                let memory = device.hidden_memory.get().unwrap_or_default();
                self.hidden.count += u64::from(count);
                self.hidden.memory = Bytes(self.hidden.memory.0.saturating_add(memory.0));
            }
        }
    }
}

/// Returns true if an ended process is no longer shown.
fn is_expired(row: &ProcessRow, now: Timestamp) -> bool {
    row.ended_at.is_none_or(|at| now.since(at) >= ENDED_SHOWN_FOR || now < at)
}

/// Returns true if no process started or ended, the common case.
fn has_same_processes(old: &Node, node: &Node) -> bool {
    let [before, after] = [old, node].map(|node| node.processes.iter().map(|one| one.key));
    let [old_uses, new_uses] =
        [old, node].map(|node| node.uses.iter().map(|one| (one.pid, &one.device)));
    before.eq(after) && old_uses.eq(new_uses)
}

/// Returns the rows of a node by device, the most memory first.
fn node_rows(node: &Arc<Node>) -> impl Iterator<Item = ProcessRow> + use<> {
    let mut pids: Vec<(u32, usize)> =
        node.processes.iter().map(|process| process.key.pid).zip(0..).collect();
    pids.sort_unstable();
    let uses = node.uses.iter().enumerate().map(|(used, DeviceUse { pid, device, memory, .. })| {
        let device = node.devices.iter().position(|known| known.uuid == *device);
        let found = pids.binary_search_by_key(pid, |(pid, _)| *pid).ok();
        let process = found.and_then(|at| pids.get(at)).map(|(_, index)| *index);
        let memory = std::cmp::Reverse(memory.get().map_or(0, |bytes| bytes.0));
        let rank = (device.unwrap_or(usize::MAX), memory, *pid, used);
        (rank, device, process, used)
    });
    let mut all: Vec<_> = uses.collect();
    all.sort_unstable_by_key(|(rank, ..)| *rank);
    let node = Arc::clone(node);
    all.into_iter().map(move |(_, device, process, used)| ProcessRow {
        node: Arc::clone(&node),
        used,
        process,
        device,
        ended_at: None,
    })
}

/// Returns true if the process is in the scope and matches the selection and the filter.
fn is_included(entry: ProcessEntry<'_>, view: &FleetView, inputs: &RowInputs) -> bool {
    if let ResolvedScope::Job(id, alias) = &inputs.scope {
        let job = entry.job();
        if job != Some(id) && (job.is_none() || job != alias.as_ref()) {
            return false;
        }
    }
    view.selection.matches_process(entry.node, entry.used) && matches_filter(entry, view)
}

fn matches_filter(entry: ProcessEntry<'_>, view: &FleetView) -> bool {
    if view.filter.is_empty() {
        return true;
    }
    let usage = Usage {
        used: entry.used.clone(),
        process: entry.process.cloned(),
        unseen: entry.unseen.cloned(),
    };
    view.filter.matches_usage(entry.node, entry.device, &usage, view.now)
}

/// Returns true if the filter hides a process. It hides no process of a tree that uses no device.
pub(super) fn is_hidden(target: &ProcessTarget, view: &FleetView) -> bool {
    if view.filter.is_empty() || !target.is_on_device {
        return false;
    }
    let Some(node) = view.fleet.node(&target.node) else { return true };
    let mut rows = node_rows(node).filter(|row| row.is_of(&node.name, target.key));
    !rows.any(|row| row.entry().is_some_and(|entry| matches_filter(entry, view)))
}
