//! Who uses which device, everywhere or in one place: gathered and sorted once for each new fleet.
//!
//! A frame touches only the rows it shows; 40,000 of them are looked at when the fleet has changed,
//! and not when a key is pressed.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use crate::fields::Usage;
use crate::fleet::{Fleet, Node, Process};
use crate::model::{
    Bytes, Device, DeviceUse, JobId, JobList, Link, NodeName, Reading, Reason, UnseenProcess,
    UnseenReason, Vendor,
};
use crate::time::Timestamp;
use crate::view::display_options::DisplaySelection;
use crate::view::fleet_view::FleetView;
use crate::view::line::width_of;
use crate::view::number_format::share;
use crate::view::processes::target::ProcessTarget;
use crate::view::sort_order::{SortColumn, SortOrder};

/// For how long a process that has ended stays on the screen.
const GONE_SHOWN_FOR: Duration = Duration::from_secs(5);
/// The most of those.
const MAX_GONE: usize = 200;

/// What rows can be sorted by, in the order of the columns.
pub(crate) const COLUMNS: [SortColumn; 16] = [
    SortColumn { name: "node", letter: 'n', label: "node and device" },
    SortColumn { name: "gpu", letter: 'g', label: "device" },
    SortColumn { name: "pid", letter: 'p', label: "pid" },
    SortColumn { name: "type", letter: 'y', label: "type" },
    SortColumn { name: "user", letter: 'u', label: "user" },
    SortColumn { name: "gpumem", letter: 'm', label: "device memory" },
    SortColumn { name: "psm", letter: 's', label: "device load" },
    SortColumn { name: "pmembw", letter: 'b', label: "memory bandwidth" },
    SortColumn { name: "penc", letter: 'e', label: "video encoder" },
    SortColumn { name: "pdec", letter: 'd', label: "video decoder" },
    SortColumn { name: "pcpu", letter: 'c', label: "processor" },
    SortColumn { name: "prss", letter: 'h', label: "share of host memory" },
    SortColumn { name: "rss", letter: 'r', label: "host memory" },
    SortColumn { name: "time", letter: 't', label: "running time" },
    SortColumn { name: "job", letter: 'i', label: "job" },
    SortColumn { name: "command", letter: 'l', label: "command line" },
];

/// Returns the column of that name.
pub(super) fn column(name: &str) -> Option<&'static SortColumn> {
    COLUMNS.iter().find(|column| column.name == name)
}

/// Where processes are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResolvedScope {
    /// Everywhere.
    Fleet,
    /// On one node.
    Node(NodeName),
    /// In a job, by either of its names.
    Job(JobId, Option<JobId>),
}

/// A process on a device, by identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    pub(super) node: NodeName,
    pub(super) device: Arc<str>,
    pub(super) pid: u32,
    /// Not known of processes that the node does not show.
    pub(super) start_ticks: Option<u64>,
}

/// A row of the table, with the node as it was then.
#[derive(Clone, Debug)]
pub(super) struct ProcessRow {
    node: Arc<Node>,
    used: usize,
    process: Option<usize>,
    device: Option<usize>,
    /// When it was found to have ended.
    gone_at: Option<Timestamp>,
}

/// All that is known of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessEntry<'a> {
    pub(super) node: &'a Node,
    pub(super) used: &'a DeviceUse,
    pub(super) process: Option<&'a Process>,
    pub(super) unseen: Option<&'a UnseenProcess>,
    pub(super) device: Option<&'a Device>,
    /// Its place among the node's devices.
    pub(super) place: Option<usize>,
    pub(super) is_gone: bool,
}

impl ProcessRow {
    /// Returns all that is known of it.
    pub(super) fn entry(&self) -> Option<ProcessEntry<'_>> {
        let node = &*self.node;
        let used = node.uses.get(self.used)?;
        let process = self.process.and_then(|place| node.processes.get(place));
        Some(ProcessEntry {
            node,
            used,
            process,
            unseen: if process.is_none() { node.unseen(used.pid) } else { None },
            device: self.device.and_then(|place| node.devices.get(place)),
            place: self.device,
            is_gone: self.gone_at.is_some(),
        })
    }

    /// Returns what it is known by.
    pub(super) fn key(&self) -> Option<RowKey> {
        self.entry().map(ProcessEntry::key)
    }

    /// Says whether it is the one that is known by this.
    pub(super) fn is(&self, key: &RowKey) -> bool {
        self.entry().is_some_and(|entry| entry.is(key))
    }
}

impl<'a> ProcessEntry<'a> {
    /// Returns what it is known by.
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

    /// Says whether it is the one that is known by this; while nobody tells a start, the pid does.
    fn is(self, key: &RowKey) -> bool {
        self.used.pid == key.pid
            && self.used.device == key.device
            && self.node.name == key.node
            && match (self.start_ticks(), key.start_ticks) {
                (Some(one), Some(other)) => one == other,
                (None, _) | (_, None) => true,
            }
    }

    /// Returns the process itself, to be asked about; `None` where the node does not show it.
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

    /// Says whether it belongs to the login that the node's probe runs as.
    pub(super) fn is_ours(self) -> Option<bool> {
        let own = &self.node.hello.as_ref()?.host.user;
        let user = self.statics()?.user.known()?;
        Some(user == own)
    }

    fn statics(self) -> Option<&'a crate::model::ProcessStatics> {
        match (self.process, self.unseen) {
            (Some(process), _) => Some(&process.statics),
            (None, Some(unseen)) => Some(&unseen.statics),
            (None, None) => None,
        }
    }

    /// Returns its owner.
    pub(super) fn user(self) -> Option<&'a str> {
        self.statics()?.user.known().map(|user| &**user)
    }

    /// Returns its job.
    pub(super) fn job(self) -> Option<&'a JobId> {
        self.statics()?.job.as_ref()
    }

    /// Returns its command line; what the driver calls it where the node hides that.
    pub(super) fn command(self) -> &'a str {
        let told = self.statics().and_then(|statics| statics.command.known());
        let told = told.filter(|command| !command.is_empty());
        told.or(self.used.driver_name.as_ref()).map_or("", |command| command)
    }

    /// Says whether its device is a TPU chip.
    pub(super) fn is_tpu(self) -> bool {
        self.device.is_some_and(|device| device.vendor == Reading::Known(Vendor::Google))
    }

    /// Returns how much it works its device; of a TPU the chip's own share, since nobody tells more.
    pub(super) fn load(self) -> Option<f32> {
        let own = share(self.used.sm);
        if own.is_none() && self.is_tpu() {
            return self.device.and_then(|device| share(device.utilization));
        }
        own
    }

    /// Says whether that share is the chip's.
    pub(super) fn is_whole_device_load(self) -> bool {
        self.is_tpu() && share(self.used.sm).is_none() && self.load().is_some()
    }
}

/// What users of devices there are that nobody shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HiddenProcesses {
    pub(super) count: u64,
    /// What they hold, where that is known of some.
    pub(super) memory: Bytes,
}

/// What the rows were made of.
#[derive(Clone, Debug, PartialEq)]
struct RowInputs {
    place: ResolvedScope,
    order: SortOrder,
    filter: String,
    /// Filters may speak of age.
    filtered_at: Option<Timestamp>,
    only: Arc<DisplaySelection>,
}

/// The rows, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessRows {
    inputs: Option<RowInputs>,
    /// The fleet they were made from.
    fleet: Fleet,
    made_at: Timestamp,
    pub(super) list: Vec<ProcessRow>,
    /// Those that have ended a moment ago; they stand at the end of `rows` too.
    gone: Vec<ProcessRow>,
    pub(super) hidden: HiddenProcesses,
    /// How many processes live; one on two devices has two rows.
    pub(super) count: usize,
    /// Nodes that have such processes.
    pub(super) nodes: usize,
    /// Nodes that do not tell who uses their devices, and why the first does not.
    pub(super) unknown_nodes: Option<(usize, Reason)>,
    /// The widest names of a node and of an owner.
    pub(super) name: u16,
    pub(super) user: u16,
    /// How many are one's own.
    pub(super) own_count: usize,
    /// Some processes belong to a job.
    pub(super) has_jobs: bool,
    /// Devices are TPU chips; or some are, and some are none.
    pub(super) has_tpus: bool,
    pub(super) has_gpus: bool,
    /// How many use the video encoder or decoder.
    pub(super) video_count: usize,
}

impl ProcessRows {
    /// Returns where they were looked for.
    pub(super) fn place(&self) -> ResolvedScope {
        self.inputs.as_ref().map_or(ResolvedScope::Fleet, |inputs| inputs.place.clone())
    }

    /// Returns the jobs that were listed.
    pub(super) const fn jobs(&self) -> Option<&Arc<JobList>> {
        self.fleet.jobs.as_ref()
    }

    /// Makes the rows anew if anything they are made of has changed.
    pub(super) fn refresh(&mut self, picture: &FleetView, place: ResolvedScope, order: SortOrder) {
        let filter = picture.filter.text().to_owned();
        let filtered_at = (!picture.filter.is_empty()).then_some(picture.now);
        let only = Arc::clone(&picture.only);
        let inputs = RowInputs { place, order, filter, filtered_at, only };
        let is_late = |row: &ProcessRow| {
            row.gone_at.is_none_or(|at| picture.now.since(at) >= GONE_SHOWN_FOR || picture.now < at)
        };
        let is_same = Arc::ptr_eq(&self.fleet.nodes, &picture.fleet.nodes)
            && self.inputs.as_ref() == Some(&inputs);
        if is_same && !self.gone.iter().any(is_late) {
            return;
        }
        let before = std::mem::take(&mut self.fleet);
        let is_followed = self.inputs.as_ref().is_some_and(|known| {
            known.place == inputs.place
                && known.filter == inputs.filter
                && known.only == inputs.only
        }) && picture.now.since(self.made_at) < GONE_SHOWN_FOR
            && picture.now >= self.made_at;
        self.gone.retain(|row| is_followed && !is_late(row));
        if !is_followed {
            // Columns grow with what comes, and do not shrink with what goes.
            (self.name, self.user) = (0, 0);
        }
        self.gather(picture, &inputs, is_followed.then_some(&before));
        self.sort(inputs.order);
        self.list.extend(self.gone.iter().cloned());
        self.fleet = picture.fleet.clone();
        self.made_at = picture.now;
        self.inputs = Some(inputs);
    }

    fn gather(&mut self, picture: &FleetView, inputs: &RowInputs, before: Option<&Fleet>) {
        self.list.clear();
        (self.hidden, self.nodes, self.unknown_nodes) = (HiddenProcesses::default(), 0, None);
        (self.has_jobs, self.has_tpus, self.has_gpus) = (false, false, false);
        (self.video_count, self.own_count, self.count) = (0, 0, 0);
        let here: Vec<(usize, &Arc<Node>)> = match &inputs.place {
            ResolvedScope::Node(name) => {
                let found = picture.fleet.nodes.iter().enumerate();
                found.filter(|(_, node)| node.name == *name).collect()
            }
            ResolvedScope::Fleet | ResolvedScope::Job(..) => picture
                .shown
                .iter()
                .filter_map(|place| Some((*place, picture.fleet.nodes.get(*place)?)))
                // A machine that is watched twice has its processes once.
                .filter(|(_, node)| !picture.fleet.same_as.contains_key(&node.name))
                .collect(),
        };
        for (place, node) in here {
            let old = before.and_then(|fleet| {
                let same = fleet.nodes.get(place).filter(|old| old.name == node.name);
                same.or_else(|| fleet.node(&node.name))
            });
            if let Some(old) = old.filter(|old| !Arc::ptr_eq(old, node)) {
                self.record_ended(old, node, picture, inputs);
            }
            let first = self.list.len();
            self.take(node, picture, inputs);
            let own =
                self.list.get(first..).unwrap_or_default().iter().filter_map(ProcessRow::entry);
            let mut pids: Vec<u32> = own.map(|entry| entry.used.pid).collect();
            pids.sort_unstable();
            pids.dedup();
            self.count += pids.len();
        }
    }

    /// Takes note of what has ended on a node.
    fn record_ended(
        &mut self,
        old: &Arc<Node>,
        node: &Arc<Node>,
        picture: &FleetView,
        inputs: &RowInputs,
    ) {
        if node.link != Link::Up || has_same_processes(old, node) {
            return;
        }
        for row in node_rows(old) {
            let Some(entry) = row.entry() else { continue };
            let Some(start) = entry.start_ticks() else { continue };
            let lives =
                node.process(entry.used.pid).is_some_and(|now| now.key.start_ticks == start)
                    && node
                        .uses
                        .iter()
                        .any(|used| used.pid == entry.used.pid && used.device == entry.used.device);
            let key = entry.key();
            if !lives
                && self.gone.len() < MAX_GONE
                && is_included(entry, picture, inputs)
                && !self.gone.iter().any(|known| known.is(&key))
            {
                self.gone.push(ProcessRow { gone_at: Some(picture.now), ..row.clone() });
            }
        }
    }

    fn take(&mut self, node: &Arc<Node>, picture: &FleetView, inputs: &RowInputs) {
        let before = self.list.len();
        for row in node_rows(node) {
            let Some(entry) = row.entry().filter(|entry| is_included(*entry, picture, inputs))
            else {
                continue;
            };
            let is_over = entry.process.is_none()
                && entry.unseen.is_none_or(|unseen| unseen.why == UnseenReason::Gone);
            if is_over && !self.gone.is_empty() {
                let key = entry.key();
                if self.gone.iter().any(|known| known.is(&key)) {
                    continue;
                }
            }
            self.own_count += usize::from(entry.is_ours() == Some(true));
            self.has_jobs |= entry.job().is_some();
            self.user = self.user.max(entry.user().map_or(0, width_of));
            let video = [entry.used.encoder, entry.used.decoder];
            let is_used = video.into_iter().filter_map(share).any(|share| share > 0.0);
            self.video_count += usize::from(is_used);
            if entry.is_tpu() {
                self.has_tpus = true;
            } else {
                self.has_gpus = true;
            }
            self.list.push(row);
        }
        if self.list.len() > before {
            self.nodes += 1;
            self.name = self.name.max(width_of(node.name.label()));
        }
        if !matches!(inputs.place, ResolvedScope::Job(..)) {
            self.count_hidden(node);
            // Of a broken device nobody expects it.
            let alive = node.devices.iter().enumerate().filter(|(_, one)| one.fault.is_none());
            let mut reasons = alive.filter_map(|(place, _)| node.why_users_unknown(place));
            if let Some(reason) = reasons.find(|reason| *reason != Reason::NotSampled) {
                let (count, first) = self.unknown_nodes.unwrap_or((0, reason));
                self.unknown_nodes = Some((count + 1, first));
            }
        }
    }

    fn count_hidden(&mut self, node: &Node) {
        for device in node.devices.iter().filter(|device| device.parent.is_none()) {
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
            if order.is_inverted {
                self.list.reverse();
            }
            return;
        }
        let rows = std::mem::take(&mut self.list);
        let keys =
            rows.iter().map(|row| row.entry().map_or(SortKey::Unknown, |entry| key(entry, order)));
        let mut keyed: Vec<(SortKey<'_>, usize)> = keys.zip(0..).collect();
        let is_falling = is_descending(order.column) != order.is_inverted;
        keyed.sort_by(|(one, at), (other, place)| {
            one.compare(other, is_falling).then_with(|| at.cmp(place))
        });
        let places: Vec<usize> = keyed.into_iter().map(|(_, place)| place).collect();
        let mut rows: Vec<Option<ProcessRow>> = rows.into_iter().map(Some).collect();
        let taken = places.into_iter().filter_map(|place| rows.get_mut(place)?.take());
        self.list = taken.collect();
    }
}

/// Says whether a node's processes are those it had before, which is so nearly always.
fn has_same_processes(old: &Node, node: &Node) -> bool {
    let [before, after] = [old, node].map(|node| node.processes.iter().map(|one| one.key));
    let [held, holds] = [old, node].map(|node| node.uses.iter().map(|one| (one.pid, &one.device)));
    before.eq(after) && held.eq(holds)
}

/// Returns a node's rows in their natural order: by device, and what holds most first.
fn node_rows(node: &Arc<Node>) -> impl Iterator<Item = ProcessRow> + use<> {
    let mut pids: Vec<(u32, usize)> =
        node.processes.iter().map(|one| one.key.pid).zip(0..).collect();
    pids.sort_unstable();
    let mut all: Vec<_> = node
        .uses
        .iter()
        .enumerate()
        .map(|(used, one)| {
            let device = node.devices.iter().position(|device| device.uuid == one.device);
            let found = pids.binary_search_by_key(&one.pid, |(pid, _)| *pid).ok();
            let process = found.and_then(|at| pids.get(at)).map(|(_, place)| *place);
            let memory = one.memory.get().map_or(0, |bytes| bytes.0);
            let rank = (device.unwrap_or(usize::MAX), std::cmp::Reverse(memory), one.pid, used);
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
        gone_at: None,
    })
}

/// Says whether a process is among those that are looked for.
fn is_included(entry: ProcessEntry<'_>, picture: &FleetView, inputs: &RowInputs) -> bool {
    if let ResolvedScope::Job(id, other) = &inputs.place {
        let own = entry.job();
        if own != Some(id) && (own.is_none() || own != other.as_ref()) {
            return false;
        }
    }
    if !picture.only.matches_process(entry.node, entry.used) {
        return false;
    }
    if picture.filter.is_empty() {
        return true;
    }
    let usage = Usage {
        used: entry.used.clone(),
        process: entry.process.cloned(),
        unseen: entry.unseen.cloned(),
    };
    picture.filter.matches_usage(entry.node, entry.device, &usage, picture.now)
}

/// What a row is sorted by.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SortKey<'a> {
    Number(f64),
    Text(&'a str),
    Unknown,
}

impl SortKey<'_> {
    /// Compares; what is not known comes last, whichever way round.
    fn compare(&self, other: &Self, is_falling: bool) -> Ordering {
        let found = match (self, other) {
            (Self::Unknown, Self::Unknown) => return Ordering::Equal,
            (Self::Unknown, _) => return Ordering::Greater,
            (_, Self::Unknown) => return Ordering::Less,
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        };
        if is_falling { found.reverse() } else { found }
    }
}

/// Says whether the largest comes first.
fn is_descending(column: &str) -> bool {
    matches!(
        column,
        "gpumem" | "psm" | "pmembw" | "penc" | "pdec" | "pcpu" | "prss" | "rss" | "time"
    )
}

fn key(entry: ProcessEntry<'_>, order: SortOrder) -> SortKey<'_> {
    let number =
        |value: Option<f32>| value.map_or(SortKey::Unknown, |value| SortKey::Number(value.into()));
    let bytes = |value: Option<Bytes>| {
        value.map_or(SortKey::Unknown, |bytes| SortKey::Number(large(bytes.0)))
    };
    let process = entry.process;
    match order.column {
        "gpu" => entry
            .device
            .and_then(|device| device_number(entry.node, device))
            .map_or(SortKey::Unknown, SortKey::Number),
        "pid" => SortKey::Number(f64::from(entry.used.pid)),
        "type" => entry.used.kind.get().map_or(SortKey::Unknown, |kind| SortKey::Text(kind.text())),
        "user" => entry.user().map_or(SortKey::Unknown, SortKey::Text),
        "gpumem" => bytes(entry.used.memory.get()),
        "psm" => number(entry.load()),
        "pmembw" => number(share(entry.used.memory_utilization)),
        "penc" => number(share(entry.used.encoder)),
        "pdec" => number(share(entry.used.decoder)),
        "pcpu" => number(process.and_then(|process| process.cpu_percent.get())),
        "prss" => number(process.and_then(|process| share(process.resident_share))),
        "rss" => bytes(process.and_then(|process| process.resident.get())),
        "time" => {
            let seconds = process.and_then(|process| process.running_seconds.get());
            seconds.map_or(SortKey::Unknown, |seconds| SortKey::Number(large(seconds)))
        }
        "job" => match entry.job().map(JobId::as_str) {
            Some(id) => id.parse().map_or(SortKey::Text(id), SortKey::Number),
            None => SortKey::Unknown,
        },
        "command" => match entry.command() {
            "" => SortKey::Unknown,
            command => SortKey::Text(command),
        },
        _ => SortKey::Unknown,
    }
}

#[expect(clippy::cast_precision_loss, reason = "only the order counts")]
const fn large(value: u64) -> f64 {
    value as f64
}

/// Returns a device's number; that of a slice lies behind its device's.
fn device_number(node: &Node, device: &Device) -> Option<f64> {
    let own = f64::from(device.index.get()?);
    let Some(parent) = &device.parent else { return Some(own) };
    let parent = node.devices.iter().find(|other| other.uuid == *parent)?;
    Some(f64::from(parent.index.get()?) + (own + 1.0) / 1_000.0)
}
