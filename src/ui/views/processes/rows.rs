//! The rows of the process table, collected and sorted once per fleet snapshot.
//!
//! A fleet may have 40,000 processes. They are visited only when the snapshot, the scope, the order or the
//! filter changes; a frame touches only the visible rows.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use crate::fleet::{Fleet, Node, Process};
use crate::insight::FleetView;
use crate::metrics::Usage;
use crate::model::{
    Bytes, Device, DeviceUse, JobId, JobList, Link, NodeName, Reading, Reason, UnseenProcess,
    UnseenReason, UseKind, Vendor,
};
use crate::query::DisplaySelection;
use crate::query::{SortColumn, SortOrder};
use crate::text::width_of;
use crate::time::Timestamp;
use crate::ui::process_target::ProcessTarget;
use crate::ui::widgets::number_format::percent_value;

/// An ended process stays on the screen for this long.
const ENDED_SHOWN_FOR: Duration = Duration::from_secs(5);
/// Limit of ended processes on the screen.
const MAX_ENDED: usize = 200;

/// A sort column and the keys it sorts by.
struct ProcessOrder {
    column: SortColumn,
    /// True if the default order is descending.
    is_descending: bool,
    key: fn(ProcessEntry<'_>) -> ProcessSortKey<'_>,
}

impl ProcessOrder {
    const fn rising(column: SortColumn, key: fn(ProcessEntry<'_>) -> ProcessSortKey<'_>) -> Self {
        Self { column, is_descending: false, key }
    }

    const fn falling(column: SortColumn, key: fn(ProcessEntry<'_>) -> ProcessSortKey<'_>) -> Self {
        Self { column, is_descending: true, key }
    }
}

/// The sort orders, in the order of the table; `node` is the order in which rows are collected.
static ORDERS: [ProcessOrder; 16] = [
    ProcessOrder::rising(
        SortColumn::new("node", 'n', "node and device", "by node and device"),
        |_| ProcessSortKey::Unknown,
    ),
    ProcessOrder::rising(SortColumn::new("gpu", 'g', "device", "by device"), |entry| {
        let key = entry.device.and_then(|device| device_sort_key(entry.node, device));
        key.map_or(ProcessSortKey::Unknown, ProcessSortKey::Number)
    }),
    ProcessOrder::rising(SortColumn::new("pid", 'p', "pid", "by process id"), |entry| {
        ProcessSortKey::Number(f64::from(entry.used.pid))
    }),
    ProcessOrder::rising(SortColumn::new("type", 'y', "type", "by type"), |entry| {
        ProcessSortKey::text(entry.used.kind.get().map(UseKind::as_str))
    }),
    ProcessOrder::rising(SortColumn::new("user", 'u', "user", "by user"), |entry| {
        ProcessSortKey::text(entry.user())
    }),
    ProcessOrder::falling(
        SortColumn::new("gpumem", 'm', "device memory", "by device memory"),
        |entry| ProcessSortKey::count(entry.used.memory.get().map(|bytes| bytes.0)),
    ),
    ProcessOrder::falling(SortColumn::new("psm", 's', "device load", "by device load"), |entry| {
        ProcessSortKey::number(entry.load())
    }),
    ProcessOrder::falling(
        SortColumn::new("pmembw", 'b', "memory bandwidth", "by memory bandwidth"),
        |entry| ProcessSortKey::number(percent_value(entry.used.memory_utilization)),
    ),
    ProcessOrder::falling(
        SortColumn::new("penc", 'e', "video encoder", "by video encoder"),
        |entry| ProcessSortKey::number(percent_value(entry.used.encoder)),
    ),
    ProcessOrder::falling(
        SortColumn::new("pdec", 'd', "video decoder", "by video decoder"),
        |entry| ProcessSortKey::number(percent_value(entry.used.decoder)),
    ),
    ProcessOrder::falling(SortColumn::new("pcpu", 'c', "CPU", "by CPU"), |entry| {
        ProcessSortKey::number(entry.process.and_then(|process| process.cpu_percent.get()))
    }),
    ProcessOrder::falling(
        SortColumn::new("prss", 'h', "share of host memory", "by share of host memory"),
        |entry| {
            ProcessSortKey::number(
                entry.process.and_then(|process| percent_value(process.resident_share)),
            )
        },
    ),
    ProcessOrder::falling(SortColumn::new("rss", 'r', "host memory", "by host memory"), |entry| {
        ProcessSortKey::count(entry.process.and_then(|process| Some(process.resident.get()?.0)))
    }),
    ProcessOrder::falling(
        SortColumn::new("time", 't', "running time", "by running time"),
        |entry| {
            ProcessSortKey::count(entry.process.and_then(|process| process.running_seconds.get()))
        },
    ),
    ProcessOrder::rising(SortColumn::new("job", 'i', "job", "by job"), |entry| {
        let id = entry.job().map(JobId::as_str);
        id.and_then(|id| id.parse().ok())
            .map_or_else(|| ProcessSortKey::text(id), ProcessSortKey::Number)
    }),
    ProcessOrder::rising(
        SortColumn::new("command", 'l', "command line", "by command line"),
        |entry| ProcessSortKey::text(Some(entry.command()).filter(|command| !command.is_empty())),
    ),
];

/// Returns the columns that the table can be sorted by.
pub(crate) fn sort_columns() -> Vec<SortColumn> {
    ORDERS.iter().map(|order| order.column).collect()
}

pub(super) fn column(name: &str) -> Option<&'static SortColumn> {
    ORDERS.iter().map(|order| &order.column).find(|column| column.name == name)
}

/// A scope with the names it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResolvedScope {
    Fleet,
    Node(NodeName),
    /// A job, by its id and by its SLUID.
    Job(JobId, Option<JobId>),
}

/// Identity of a process on one device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    pub(super) node: NodeName,
    pub(super) device: Arc<str>,
    pub(super) pid: u32,
    /// `None` for processes that the node does not show.
    pub(super) start_ticks: Option<u64>,
}

/// A row of the table. It keeps the node as of the snapshot it came from.
#[derive(Clone, Debug)]
pub(super) struct ProcessRow {
    node: Arc<Node>,
    used: usize,
    process: Option<usize>,
    device: Option<usize>,
    /// Time at which the process was found to have ended, `None` while it runs.
    ended_at: Option<Timestamp>,
}

/// The data of a row, looked up in its node.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessEntry<'a> {
    pub(super) node: &'a Node,
    pub(super) used: &'a DeviceUse,
    pub(super) process: Option<&'a Process>,
    pub(super) unseen: Option<&'a UnseenProcess>,
    pub(super) device: Option<&'a Device>,
    /// Index into the devices of the node.
    pub(super) device_index: Option<usize>,
    pub(super) has_ended: bool,
}

impl ProcessRow {
    pub(super) fn entry(&self) -> Option<ProcessEntry<'_>> {
        let node = &*self.node;
        let used = node.uses.get(self.used)?;
        let process = self.process.and_then(|index| node.processes.get(index));
        Some(ProcessEntry {
            node,
            used,
            process,
            unseen: if process.is_none() { node.unseen_process(used.pid) } else { None },
            device: self.device.and_then(|index| node.devices.get(index)),
            device_index: self.device,
            has_ended: self.ended_at.is_some(),
        })
    }

    pub(super) fn key(&self) -> Option<RowKey> {
        self.entry().map(ProcessEntry::key)
    }

    pub(super) fn has_key(&self, key: &RowKey) -> bool {
        self.entry().is_some_and(|entry| entry.has_key(key))
    }
}

impl<'a> ProcessEntry<'a> {
    pub(super) fn key(self) -> RowKey {
        RowKey {
            node: self.node.name.clone(),
            device: Arc::clone(&self.used.device),
            pid: self.used.pid,
            start_ticks: self.start_ticks(),
        }
    }

    fn start_ticks(self) -> Option<u64> {
        self.process.map(|process| process.key.start_ticks)
    }

    /// Returns true if the entry has this identity. If either start time is unknown, the pid decides.
    fn has_key(self, key: &RowKey) -> bool {
        self.used.pid == key.pid
            && self.used.device == key.device
            && self.node.name == key.node
            && match (self.start_ticks(), key.start_ticks) {
                (Some(one), Some(other)) => one == other,
                (None, _) | (_, None) => true,
            }
    }

    /// Returns the process as the target of a request, `None` if the node does not show it.
    pub(super) fn target(self) -> Option<ProcessTarget> {
        let process = self.process?;
        Some(ProcessTarget {
            node: self.node.name.clone(),
            key: process.key,
            user: process.statics.user.known().cloned(),
            command: self.command().into(),
            is_ours: self.is_ours(),
            is_on_device: true,
        })
    }

    /// Returns true if the process belongs to the login that the probe runs as, `None` if either is unknown.
    pub(super) fn is_ours(self) -> Option<bool> {
        let login = &self.node.hello.as_ref()?.host.user;
        let user = self.statics()?.user.known()?;
        Some(user == login)
    }

    fn statics(self) -> Option<&'a crate::model::ProcessStatics> {
        match (self.process, self.unseen) {
            (Some(process), _) => Some(&process.statics),
            (None, Some(unseen)) => Some(&unseen.statics),
            (None, None) => None,
        }
    }

    pub(super) fn user(self) -> Option<&'a str> {
        self.statics()?.user.known().map(|user| &**user)
    }

    pub(super) fn job(self) -> Option<&'a JobId> {
        self.statics()?.job.as_ref()
    }

    /// Returns the command line, or the driver's name for the process if the node hides it.
    pub(super) fn command(self) -> &'a str {
        let command = self.statics().and_then(|statics| statics.command.known());
        let command = command.filter(|command| !command.is_empty());
        command.or(self.used.driver_name.as_ref()).map_or("", |command| command)
    }

    pub(super) fn is_tpu(self) -> bool {
        self.device.is_some_and(|device| device.vendor == Reading::Known(Vendor::Google))
    }

    /// Returns the SM utilization of the process. For a TPU, which reports none per process, that of the
    /// whole chip.
    pub(super) fn load(self) -> Option<f32> {
        let sm = percent_value(self.used.sm);
        if sm.is_none() && self.is_tpu() {
            return self.device.and_then(|device| percent_value(device.utilization));
        }
        sm
    }

    /// Returns true if the load is that of the whole chip.
    pub(super) fn is_whole_device_load(self) -> bool {
        self.is_tpu() && percent_value(self.used.sm).is_none() && self.load().is_some()
    }
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
    /// True if some processes belong to a job.
    pub(super) has_jobs: bool,
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

    /// Returns the job list of the snapshot.
    pub(super) const fn jobs(&self) -> Option<&Arc<JobList>> {
        self.fleet.jobs.as_ref()
    }

    /// Rebuilds the rows if an input has changed or an ended process is to disappear.
    pub(super) fn refresh(
        &mut self,
        fleet_view: &FleetView,
        scope: ResolvedScope,
        order: SortOrder,
    ) {
        let filter = fleet_view.filter.text().to_owned();
        let filtered_at = (!fleet_view.filter.is_empty()).then_some(fleet_view.now);
        let selection = Arc::clone(&fleet_view.selection);
        let inputs = RowInputs { scope, order, filter, filtered_at, selection };
        let is_expired = |row: &ProcessRow| {
            row.ended_at
                .is_none_or(|at| fleet_view.now.since(at) >= ENDED_SHOWN_FOR || fleet_view.now < at)
        };
        let is_same = Arc::ptr_eq(&self.fleet.nodes, &fleet_view.fleet.nodes)
            && self.inputs.as_ref() == Some(&inputs);
        if is_same && !self.ended.iter().any(is_expired) {
            return;
        }
        let old_fleet = std::mem::take(&mut self.fleet);
        let is_continued = self.inputs.as_ref().is_some_and(|known| {
            known.scope == inputs.scope
                && known.filter == inputs.filter
                && known.selection == inputs.selection
        }) && fleet_view.now.since(self.built_at) < ENDED_SHOWN_FOR
            && fleet_view.now >= self.built_at;
        self.ended.retain(|row| is_continued && !is_expired(row));
        if !is_continued {
            // While the inputs stay the same, columns only grow, so that they do not jump when a process
            // ends.
            (self.name_width, self.user_width) = (0, 0);
        }
        self.collect_rows(fleet_view, &inputs, is_continued.then_some(&old_fleet));
        self.sort(inputs.order);
        self.list.extend(self.ended.iter().cloned());
        self.fleet = fleet_view.fleet.clone();
        self.built_at = fleet_view.now;
        self.inputs = Some(inputs);
    }

    fn collect_rows(
        &mut self,
        fleet_view: &FleetView,
        inputs: &RowInputs,
        old_fleet: Option<&Fleet>,
    ) {
        self.list.clear();
        (self.hidden, self.node_count, self.unknown_nodes) = (HiddenProcesses::default(), 0, None);
        (self.has_jobs, self.has_tpus, self.has_gpus) = (false, false, false);
        (self.video_count, self.own_count, self.process_count) = (0, 0, 0);
        let nodes: Vec<(usize, &Arc<Node>)> = match &inputs.scope {
            ResolvedScope::Node(name) => {
                let nodes = fleet_view.fleet.nodes.iter().enumerate();
                nodes.filter(|(_, node)| node.name == *name).collect()
            }
            ResolvedScope::Fleet | ResolvedScope::Job(..) => fleet_view
                .matching
                .iter()
                .filter_map(|index| Some((*index, fleet_view.fleet.nodes.get(*index)?)))
                // A machine monitored under two names is counted once.
                .filter(|(_, node)| !fleet_view.fleet.same_as.contains_key(&node.name))
                .collect(),
        };
        for (index, node) in nodes {
            let old = old_fleet.and_then(|fleet| {
                let same = fleet.nodes.get(index).filter(|old| old.name == node.name);
                same.or_else(|| fleet.node(&node.name))
            });
            if let Some(old) = old.filter(|old| !Arc::ptr_eq(old, node)) {
                self.record_ended(old, node, fleet_view, inputs);
            }
            let first = self.list.len();
            self.add_node(node, fleet_view, inputs);
            let entries =
                self.list.get(first..).unwrap_or_default().iter().filter_map(ProcessRow::entry);
            let mut pids: Vec<u32> = entries.map(|entry| entry.used.pid).collect();
            pids.sort_unstable();
            pids.dedup();
            self.process_count += pids.len();
        }
    }

    /// Keeps the processes of a node that have ended since the previous snapshot.
    fn record_ended(
        &mut self,
        old: &Arc<Node>,
        node: &Arc<Node>,
        fleet_view: &FleetView,
        inputs: &RowInputs,
    ) {
        if node.link != Link::Up || has_same_processes(old, node) {
            return;
        }
        for row in node_rows(old) {
            let Some(entry) = row.entry() else { continue };
            let Some(start) = entry.start_ticks() else { continue };
            let is_running =
                node.process(entry.used.pid).is_some_and(|now| now.key.start_ticks == start)
                    && node
                        .uses
                        .iter()
                        .any(|used| used.pid == entry.used.pid && used.device == entry.used.device);
            let key = entry.key();
            if !is_running
                && self.ended.len() < MAX_ENDED
                && is_included(entry, fleet_view, inputs)
                && !self.ended.iter().any(|known| known.has_key(&key))
            {
                self.ended.push(ProcessRow { ended_at: Some(fleet_view.now), ..row.clone() });
            }
        }
    }

    fn add_node(&mut self, node: &Arc<Node>, fleet_view: &FleetView, inputs: &RowInputs) {
        let before = self.list.len();
        for row in node_rows(node) {
            let Some(entry) = row.entry().filter(|entry| is_included(*entry, fleet_view, inputs))
            else {
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
            self.has_jobs |= entry.job().is_some();
            self.user_width = self.user_width.max(entry.user().map_or(0, width_of));
            let video = [entry.used.encoder, entry.used.decoder];
            let is_used = video.into_iter().filter_map(percent_value).any(|share| share > 0.0);
            self.video_count += usize::from(is_used);
            if entry.is_tpu() {
                self.has_tpus = true;
            } else {
                self.has_gpus = true;
            }
            self.list.push(row);
        }
        if self.list.len() > before {
            self.node_count += 1;
            self.name_width = self.name_width.max(width_of(node.name.label()));
        }
        if !matches!(inputs.scope, ResolvedScope::Job(..)) {
            self.count_hidden(node);
            // A faulty device is not expected to report processes.
            let without_fault =
                node.devices.iter().enumerate().filter(|(_, one)| one.fault.is_none());
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
            let Some(count) = device.hidden_processes.get().filter(|count| *count > 0) else {
                continue;
            };
            let memory = device.hidden_memory.get().unwrap_or_default();
            self.hidden.count += u64::from(count);
            self.hidden.memory = Bytes(self.hidden.memory.0.saturating_add(memory.0));
        }
    }

    fn sort(&mut self, order: SortOrder) {
        if order.column == "node" {
            if order.is_reversed {
                self.list.reverse();
            }
            return;
        }
        let Some(known) = ORDERS.iter().find(|one| one.column.name == order.column) else { return };
        let rows = std::mem::take(&mut self.list);
        let keys = rows.iter().map(|row| row.entry().map_or(ProcessSortKey::Unknown, known.key));
        let mut keyed: Vec<(ProcessSortKey<'_>, usize)> = keys.zip(0..).collect();
        let is_descending = known.is_descending != order.is_reversed;
        keyed.sort_by(|(one, at), (other, index)| {
            one.compare(other, is_descending).then_with(|| at.cmp(index))
        });
        let order_by_key: Vec<usize> = keyed.into_iter().map(|(_, index)| index).collect();
        let mut rows: Vec<Option<ProcessRow>> = rows.into_iter().map(Some).collect();
        let sorted = order_by_key.into_iter().filter_map(|index| rows.get_mut(index)?.take());
        self.list = sorted.collect();
    }
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
    let mut all: Vec<_> = node
        .uses
        .iter()
        .enumerate()
        .map(|(used, device_use)| {
            let device = node.devices.iter().position(|device| device.uuid == device_use.device);
            let found = pids.binary_search_by_key(&device_use.pid, |(pid, _)| *pid).ok();
            let process = found.and_then(|at| pids.get(at)).map(|(_, index)| *index);
            let memory = device_use.memory.get().map_or(0, |bytes| bytes.0);
            let rank =
                (device.unwrap_or(usize::MAX), std::cmp::Reverse(memory), device_use.pid, used);
            (rank, device, process, used)
        })
        .collect();
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
fn is_included(entry: ProcessEntry<'_>, fleet_view: &FleetView, inputs: &RowInputs) -> bool {
    if let ResolvedScope::Job(id, sluid) = &inputs.scope {
        let job = entry.job();
        if job != Some(id) && (job.is_none() || job != sluid.as_ref()) {
            return false;
        }
    }
    if !fleet_view.selection.matches_process(entry.node, entry.used) {
        return false;
    }
    if fleet_view.filter.is_empty() {
        return true;
    }
    let usage = Usage {
        used: entry.used.clone(),
        process: entry.process.cloned(),
        unseen: entry.unseen.cloned(),
    };
    fleet_view.filter.matches_usage(entry.node, entry.device, &usage, fleet_view.now)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ProcessSortKey<'a> {
    Number(f64),
    Text(&'a str),
    Unknown,
}

impl<'a> ProcessSortKey<'a> {
    fn number(value: Option<f32>) -> Self {
        value.map_or(Self::Unknown, |value| Self::Number(value.into()))
    }

    fn count(value: Option<u64>) -> Self {
        value.map_or(Self::Unknown, |value| Self::Number(to_f64(value)))
    }

    fn text(value: Option<&'a str>) -> Self {
        value.map_or(Self::Unknown, Self::Text)
    }

    /// Compares two keys; unknown values come last in either direction.
    fn compare(&self, other: &Self, is_descending: bool) -> Ordering {
        let order = match (self, other) {
            (Self::Unknown, Self::Unknown) => return Ordering::Equal,
            (Self::Unknown, _) => return Ordering::Greater,
            (_, Self::Unknown) => return Ordering::Less,
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        };
        if is_descending { order.reverse() } else { order }
    }
}

#[expect(clippy::cast_precision_loss, reason = "only the order counts")]
const fn to_f64(value: u64) -> f64 {
    value as f64
}

/// Returns the sort key of a device: its index, with its slices directly behind it.
fn device_sort_key(node: &Node, device: &Device) -> Option<f64> {
    let index = f64::from(device.index.get()?);
    let Some(parent) = &device.parent else { return Some(index) };
    let parent = node.devices.iter().find(|other| other.uuid == *parent)?;
    Some(f64::from(parent.index.get()?) + (index + 1.0) / 1_000.0)
}
