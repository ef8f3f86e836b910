//! The current state of one node.

use std::sync::Arc;
use std::time::Duration;

use crate::charted::Metric;
use crate::device_list::DeviceList;
use crate::event_record::EventRecord;
use crate::health::NodeHealth;
use crate::history::History;
use crate::holdings::{DeviceHoldings, NodeHoldings};
use crate::host_share::{HostShare, HostShares};
use crate::lasting::Lasting;
use crate::user::User;
use gtop_local::time::Timestamp;
use gtop_model::{
    Bytes, Device, DeviceEvidence, DeviceUse, Event, Fault, FaultKind, Freshness, Hello,
    HostReading, HostSlowReading, Job, JobId, Link, MachineId, NodeName, Percent, ProbeCost,
    ProcessKey, ProcessState, ProcessStatics, Reading, Reason, SchedulerNode, Source, SourceFault,
    SourceFaultKind, TransportKind, UnseenProcess, UnseenReason, stale_after,
};

/// Maximum number of different events kept per node.
const MAX_EVENTS: usize = 64;
/// How much later than the kernel a driver may report an event, beside the time between two samples.
const MAX_REPORT_DELAY: Duration = Duration::from_secs(5);
/// Maximum number of sources per node: a node could otherwise announce new ones without end.
const MAX_SOURCES: usize = 64;

/// Younger values of devices are not marked as old: without persistence mode they arrive every five seconds.
const MIN_UNUSUAL_AGE: Duration = Duration::from_secs(10);

/// The time between samples unless a source, a setting or a recording says otherwise.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// The state of one node at one moment.
///
/// Several snapshots exist at a time; lists that are replaced as a whole are shared between them.
#[derive(Clone, Debug)]
pub struct Node {
    /// Node name, as given by the user.
    pub name: NodeName,
    /// The state of the connection.
    pub link: Link,
    /// Transport of the last session.
    pub via: Option<TransportKind>,
    /// Why the last session ended or could not be opened; cleared when the next one is up.
    pub last_fault: Option<Fault>,
    /// What the scheduler says of it; `None` without a scheduler that knows it.
    pub scheduler: Option<Arc<SchedulerNode>>,
    /// The probe's hello; kept when the connection is lost.
    pub hello: Option<Arc<Hello>>,
    /// Data sources with their freshness and faults.
    pub sources: Vec<SourceState>,
    /// Host readings and rates.
    pub host: Host,
    /// Devices in the driver's order, slices after their device.
    pub devices: DeviceList,
    /// The selection hides devices of it.
    pub has_hidden_devices: bool,
    /// Who has its devices.
    pub holdings: Arc<NodeHoldings>,
    /// What jobs, and the container of the probe, have and use of the host; `None` until the node reports it.
    pub shares: Option<Arc<HostShares>>,
    /// How the scheduler numbers and confines its devices, as the node itself reports; `None` until it does.
    pub evidence: Option<Arc<DeviceEvidence>>,
    /// The source of each of `devices`, by position.
    pub device_sources: Arc<[Source]>,
    /// Uses of devices by processes.
    pub uses: Arc<[DeviceUse]>,
    /// The processes behind `uses`.
    pub processes: Arc<[Process]>,
    /// Processes in `uses` that `/proc` does not show.
    pub unseen: Arc<[UnseenProcess]>,
    /// Device events, latest last.
    pub events: Arc<[EventRecord]>,
    /// The last minutes, one point per second, and a close-up while the node is sampled often.
    pub history: History,
    /// What is remembered of its devices, beyond their newest values.
    pub lasting: Lasting,
    /// How sound its devices are; found on first use.
    pub health: NodeHealth,
    /// What the probe costs the node; measured in focus only.
    pub probe_cost: Option<ProbeCost>,
    /// True once rates are known: the session has had two samples at least 250 ms apart.
    pub is_settled: bool,
}

/// Freshness and fault of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceState {
    /// The source.
    pub source: Source,
    /// When it was last sampled; `None` if never.
    pub taken_at: Option<Timestamp>,
    /// Sampling interval.
    pub interval: Duration,
    /// Why there is no newer sample.
    pub fault: Option<Box<SourceFault>>,
    /// Why the node does not have this source.
    pub absent: Option<Arc<str>>,
}

/// Host readings and the rates derived from them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// The last fast group.
    pub fast: HostReading,
    /// The last slow group.
    pub slow: HostSlowReading,
    /// CPU utilization since the previous sample.
    pub cpu: Reading<Percent>,
    /// Bytes per second of each network interface.
    pub network: Arc<[Traffic]>,
    /// Bytes per second of each InfiniBand port.
    pub infiniband: Arc<[Traffic]>,
    /// Bytes per second of each disk.
    pub disks: Arc<[Traffic]>,
}

impl Host {
    /// Returns what the history records of it, with its current values.
    pub(crate) fn charted(&self) -> [(Metric, Option<f32>); 5] {
        let fast = &self.fast;
        let (inward, outward) = Traffic::sum(&self.network).unzip();
        [
            (Metric::Cpu, self.cpu.get().map(Percent::get)),
            (Metric::HostMemory, used_share(fast.memory_total, fast.memory_available)),
            (Metric::Swap, used_share(fast.swap_total, fast.swap_free)),
            (Metric::NetworkIn, inward.map(number)),
            (Metric::NetworkOut, outward.map(number)),
        ]
    }
}

fn used_share(total: Reading<Bytes>, free: Reading<Bytes>) -> Option<f32> {
    let (total, free) = total.zip(free).get()?;
    Percent::of(total.0.saturating_sub(free.0), total.0).map(Percent::get)
}

#[expect(clippy::cast_precision_loss, reason = "it is drawn")]
const fn number(bytes: Bytes) -> f32 {
    bytes.0 as f32
}

/// Bytes per second, in and out (or read and written).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The interface, port or disk.
    pub name: Arc<str>,
    /// Received or read, per second.
    pub inward: Bytes,
    /// Sent or written, per second.
    pub outward: Bytes,
}

impl Traffic {
    /// Returns the bytes per second of all, in and out; `None` if there are none.
    pub fn sum(all: &[Self]) -> Option<(Bytes, Bytes)> {
        let sum = |read: fn(&Self) -> Bytes| {
            Bytes(all.iter().fold(0, |sum: u64, traffic| sum.saturating_add(read(traffic).0)))
        };
        (!all.is_empty()).then(|| (sum(|traffic| traffic.inward), sum(|traffic| traffic.outward)))
    }
}

/// A process that uses a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// Pid and start time.
    pub key: ProcessKey,
    /// User, command line and other values that do not change.
    pub statics: Arc<ProcessStatics>,
    /// CPU use since the previous sample; 100 is one CPU, so it may exceed 100.
    pub cpu_percent: Reading<f32>,
    /// Memory in use on the host.
    pub resident: Reading<Bytes>,
    /// Resident memory as a share of the host's memory.
    pub resident_share: Reading<Percent>,
    /// The kernel's process state, such as running or sleeping.
    pub state: Reading<ProcessState>,
    /// Number of threads.
    pub threads: Reading<u32>,
    /// Start time by the local clock.
    pub started_at: Reading<Timestamp>,
    /// Seconds since its start.
    pub running_seconds: Reading<u64>,
}

/// Returns why the driver does not list the processes of a device.
pub(super) fn refused_users(device: &Device) -> Option<Reason> {
    let reason = device.details.as_ref()?.reports_users.reason()?;
    (reason != Reason::NotSampled).then_some(reason)
}

impl SourceState {
    /// Returns its freshness: stale after three intervals, at least 3 s.
    pub fn freshness(&self, now: Timestamp) -> Freshness {
        Freshness::of(self.taken_at, now, stale_after(self.interval))
    }
}

impl Node {
    /// Returns an empty node whose history keeps at least `keep`.
    pub fn new(name: NodeName, keep: Duration) -> Self {
        Self {
            name,
            link: Link::Idle,
            via: None,
            last_fault: None,
            scheduler: None,
            hello: None,
            sources: Vec::new(),
            host: Host::default(),
            devices: DeviceList::default(),
            has_hidden_devices: false,
            holdings: Arc::default(),
            shares: None,
            evidence: None,
            device_sources: Arc::default(),
            uses: Arc::default(),
            processes: Arc::default(),
            unseen: Arc::default(),
            events: Arc::default(),
            history: History::new(keep),
            lasting: Lasting::default(),
            health: NodeHealth::default(),
            probe_cost: None,
            is_settled: false,
        }
    }

    /// Records an event; a repeated event is counted, and the oldest beyond [`MAX_EVENTS`] is dropped.
    pub(super) fn record_event(&mut self, event: Event) {
        self.add_record(EventRecord::new(event));
    }

    /// Adds what is known of an event. What the kernel logged may be older than what is known.
    pub(super) fn add_record(&mut self, newer: EventRecord) {
        let mut events = self.events.to_vec();
        let known = events.iter().position(|known| known.event.is_same_event(&newer.event));
        let is_of_kernel = newer.event.line.is_some();
        let record = match known.map(|position| events.remove(position)) {
            Some(known) => known.merged_with(newer, self.report_delay()),
            None => newer,
        };
        let older = events.iter().rposition(|known| known.event.at <= record.event.at);
        let place = older.map_or(0, |last| last + 1);
        events.insert(if is_of_kernel { place } else { events.len() }, record);
        let surplus = events.len().saturating_sub(MAX_EVENTS);
        self.events = events.into_iter().skip(surplus).collect();
    }

    /// Returns how much later than the kernel a driver may report an event: it is polled with each sample.
    fn report_delay(&self) -> Duration {
        let intervals = self.sources.iter().map(|state| state.interval);
        intervals.max().unwrap_or_default().saturating_add(MAX_REPORT_DELAY)
    }

    /// Returns what a job has and uses of the host; `None` if that is not known.
    pub fn share_of(&self, job: &Job) -> Option<&HostShare> {
        self.shares.as_ref()?.of_job(job)
    }

    /// Returns what the container of the probe has and uses of the host; `None` if it is not limited, or not known to be.
    pub fn own_share(&self) -> Option<&HostShare> {
        self.shares.as_ref()?.own.as_ref()
    }

    /// Returns true if it is read from a page of metrics, which takes no requests.
    pub fn is_read_from_page(&self) -> bool {
        self.via == Some(TransportKind::Http)
    }

    /// Returns true if the session may see only some of its devices: in a container, a job or a step.
    pub fn is_confined(&self) -> bool {
        self.via == Some(TransportKind::Step)
            || self.hello.as_ref().is_some_and(|hello| hello.host.is_confined())
    }

    /// Returns true if the node belongs to a scheduler: it lists the node, or the node shows its daemon.
    pub fn is_scheduled(&self) -> bool {
        let evidence = self.evidence.as_ref();
        self.scheduler.is_some() || evidence.is_some_and(|known| known.daemon.is_shown())
    }

    /// Returns why the node is down; a node stays down while the next session is being opened.
    pub fn fault(&self) -> Option<&Fault> {
        match &self.link {
            Link::Down { fault, .. } => Some(fault),
            Link::Opening { .. } => self.last_fault.as_ref(),
            Link::Idle | Link::Up => None,
        }
    }

    /// Returns true unless a scheduler gives it no jobs.
    pub fn takes_jobs(&self) -> bool {
        self.scheduler.as_ref().is_none_or(|node| node.takes_jobs())
    }

    /// Returns what the scheduler says of a node that is powered off and therefore not connected to.
    pub fn powered_off(&self) -> Option<&SchedulerNode> {
        self.scheduler.as_deref().filter(|known| self.link == Link::Idle && known.is_powered_off())
    }

    /// Returns what the scheduler says of a node of which nothing else is known: one that is powered off, or one that
    /// does not let gtop in and needs not, as it admits only users with a job there. A node where a listed job runs should
    /// let the user in, so its refusal stays a fault.
    pub fn reported(&self) -> Option<&SchedulerNode> {
        if let Some(known) = self.powered_off() {
            return Some(known);
        }
        let (kind, known) = (self.fault()?.kind, self.scheduler.as_deref()?);
        let refuses = matches!(kind, FaultKind::AuthenticationRefused | FaultKind::AccountRefused);
        (kind == FaultKind::NoJob || (refuses && known.is_extra)).then_some(known)
    }

    /// Returns the state of a source.
    pub fn source(&self, source: &Source) -> Option<&SourceState> {
        self.sources.iter().find(|state| state.source == *source)
    }

    /// Returns when a source was last sampled.
    pub(crate) fn sampled_at(&self, source: &Source) -> Option<Timestamp> {
        self.source(source)?.taken_at
    }

    /// Returns why a value of a device is missing that was never sampled: once a group of its source has come, the source
    /// does not offer it.
    pub fn unsampled_reason(&self, index: usize, group: fn(&Source) -> Source) -> Reason {
        let owner = self.device_sources.get(index);
        let sampled_at = owner.and_then(|owner| self.sampled_at(&group(owner)));
        if sampled_at.is_some() { Reason::NotOffered } else { Reason::NotSampled }
    }

    /// Returns whether the values of a device's health could not be read; `None` once they have arrived.
    pub(super) fn health_failed(&self, index: usize) -> Option<bool> {
        let owner = self.device_sources.get(index)?;
        let mut unread = self.sources.iter().filter(|state| state.taken_at.is_none());
        unread.find(|state| state.source.is_slow_of(owner)).map(|state| state.fault.is_some())
    }

    /// Returns true if the node has accelerators that gtop cannot read.
    pub fn has_unreadable_devices(&self) -> bool {
        self.hello.as_ref().is_some_and(|hello| !hello.unreadable_texts().is_empty())
    }

    /// Returns the state of a backend's process list.
    pub fn process_list(&self, backend: &Source) -> Option<&SourceState> {
        self.sources.iter().find(|state| state.source.is_processes_of(backend))
    }

    /// Returns the state of a source for writing, adding the source if it is new.
    pub(super) fn source_mut(&mut self, source: &Source) -> &mut SourceState {
        let known = self.sources.iter().position(|state| state.source == *source);
        let index = known.unwrap_or_else(|| {
            self.sources.truncate(MAX_SOURCES - 1);
            self.sources.push(SourceState {
                source: source.clone(),
                taken_at: None,
                interval: DEFAULT_INTERVAL,
                fault: None,
                absent: None,
            });
            self.sources.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "the index was just found or pushed")]
        &mut self.sources[index]
    }

    /// Records that a source was sampled, which clears its fault.
    pub(super) fn mark_sampled(&mut self, source: &Source, at: Timestamp) {
        let state = self.source_mut(source);
        state.taken_at = Some(at);
        state.fault = None;
        state.absent = None;
    }

    /// Returns the freshness of the host's fast group.
    pub fn host_freshness(&self, now: Timestamp) -> Freshness {
        self.source_freshness(&Source::host(), now)
    }

    /// Returns the freshness of the host's slow group: temperature and file systems.
    pub fn slow_host_freshness(&self, now: Timestamp) -> Freshness {
        self.source_freshness(&Source::host_slow(), now)
    }

    /// Returns the freshness of the list of processes on the device at this position; that of the device if its backend
    /// has no list of its own.
    pub fn process_freshness(&self, position: usize, now: Timestamp) -> Freshness {
        let list = self.device_sources.get(position).and_then(|source| self.process_list(source));
        list.map_or_else(|| self.device_freshness(position, now), |state| state.freshness(now))
    }

    /// Returns the freshness of the device at this position of `devices`.
    pub fn device_freshness(&self, position: usize, now: Timestamp) -> Freshness {
        let source = self.device_sources.get(position);
        source.map_or(Freshness::Missing, |source| self.source_freshness(source, now))
    }

    /// Returns the freshness of the node: that of the stalest of host and devices.
    ///
    /// A node with stale devices is not fresh, or sums would count them.
    pub fn freshness(&self, now: Timestamp) -> Freshness {
        let devices = self.distinct_device_sources();
        let devices = devices.map(|source| self.source_freshness(source, now));
        devices.fold(self.host_freshness(now), Freshness::max)
    }

    fn source_freshness(&self, source: &Source, now: Timestamp) -> Freshness {
        self.source(source).map_or(Freshness::Missing, |state| state.freshness(now))
    }

    /// Returns the age of its devices' values if those of the host would be stale by then: their source is slower.
    pub(crate) fn unusual_age(&self, now: Timestamp) -> Option<Duration> {
        let interval = self.source(&Source::host())?.interval;
        let age = now.since(self.taken_at()?);
        (age > stale_after(interval).max(MIN_UNUSUAL_AGE)).then_some(age)
    }

    /// Returns what identifies its machine; `None` before the hello of the probe.
    pub(crate) fn machine_id(&self) -> Option<MachineId> {
        self.hello.as_ref()?.host.machine_id()
    }

    /// Returns true if the node has not sent a sample yet, so that its devices are unknown.
    pub fn is_unseen(&self) -> bool {
        self.devices.is_empty() && self.taken_at().is_none()
    }

    /// Returns when the oldest of the host and device sources was sampled; `None` if the host never was.
    pub fn taken_at(&self) -> Option<Timestamp> {
        let host = self.sampled_at(&Source::host())?;
        let devices = self.distinct_device_sources().filter_map(|source| self.sampled_at(source));
        Some(devices.fold(host, Timestamp::min))
    }

    /// Returns the sources of the devices, consecutive duplicates removed.
    fn distinct_device_sources(&self) -> impl Iterator<Item = &Source> {
        let mut before = None;
        self.device_sources.iter().filter(move |source| before.replace(*source) != Some(*source))
    }

    /// Returns the first source with a fault.
    pub fn source_fault(&self) -> Option<(&Source, &SourceFault)> {
        self.sources.iter().find_map(|state| Some((&state.source, state.fault.as_deref()?)))
    }

    /// Returns true if a source has a fault of this kind.
    pub(crate) fn has_fault(&self, kind: SourceFaultKind) -> bool {
        self.sources.iter().filter_map(|state| state.fault.as_ref()).any(|fault| fault.kind == kind)
    }

    /// Returns true if a source fails; one that starts does not.
    pub fn has_source_problem(&self) -> bool {
        self.sources.iter().filter_map(|state| state.fault.as_deref()).any(SourceFault::is_problem)
    }

    /// Returns how many kinds of values are known: those of the host, its rates, the devices.
    pub(super) fn known_parts(&self) -> usize {
        let is_sampled = self.sources.iter().any(|state| state.taken_at.is_some());
        let parts = [is_sampled, self.host.cpu.get().is_some(), !self.devices.is_empty()];
        parts.into_iter().filter(|is_known| *is_known).count()
    }

    /// Returns the devices that are gone, each with the source that listed it.
    pub fn gone_devices(&self) -> Vec<(Source, Device)> {
        let devices = self.device_sources.iter().zip(&self.devices);
        let gone = devices.filter(|(_, device)| device.is_gone());
        gone.map(|(source, device)| (source.clone(), device.clone())).collect()
    }

    /// Returns the uses of one device.
    pub fn uses_of<'a>(&'a self, device: &'a str) -> impl Iterator<Item = &'a DeviceUse> {
        self.uses.iter().filter(move |used| &*used.device == device)
    }

    /// Returns the uses of a device and of its slices.
    pub(crate) fn uses_on<'a>(&'a self, device: &'a Device) -> impl Iterator<Item = &'a DeviceUse> {
        let slices: Vec<&Arc<str>> = self.slices(device).map(|(_, slice)| &slice.uuid).collect();
        self.uses
            .iter()
            .filter(move |used| used.device == device.uuid || slices.contains(&&used.device))
    }

    /// Returns why the users of the device at this position are unknown; `None` when they are known.
    pub fn users_unknown_reason(&self, position: usize) -> Option<Reason> {
        let device = self.devices.get(position)?;
        if device.fault.is_some() {
            return Some(Reason::NotAvailable);
        }
        if let Some(tpu) = &device.tpu
            && self.uses_of(&device.uuid).next().is_none()
        {
            match tpu.is_held {
                Reading::Known(false) => return None,
                // The chip is open, by a process that is not visible.
                Reading::Known(true) => return Some(Reason::NoPermission),
                Reading::Unknown(Reason::NotSampled) => {}
                Reading::Unknown(reason) => return Some(reason),
            }
        }
        if let Some(reason) = refused_users(device) {
            return Some(reason);
        }
        let users = self.process_list(self.device_sources.get(position)?)?;
        let fault = users.fault.as_ref().map(|fault| fault.kind);
        match (users.taken_at, fault) {
            (Some(_), None | Some(SourceFaultKind::Starting | SourceFaultKind::Slow)) => None,
            (None, None | Some(SourceFaultKind::Starting | SourceFaultKind::Slow)) => {
                Some(Reason::NotSampled)
            }
            (_, Some(SourceFaultKind::NoPermission)) => Some(Reason::NoPermission),
            (_, Some(_)) => Some(Reason::DriverError),
        }
    }

    /// Returns a visible process.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.iter().find(|process| process.key.pid == pid)
    }

    /// Returns the running time of a process by the clock of the node.
    pub fn run_time(&self, key: ProcessKey) -> Option<Duration> {
        let uptime = self.host.fast.uptime_seconds.get()?;
        let per_second = u64::from(self.hello.as_ref()?.host.ticks_per_second);
        let started = key.start()?.checked_div(per_second)?;
        Some(Duration::from_secs(uptime.checked_sub(started)?))
    }

    /// Returns a process that the node does not show.
    pub fn unseen_process(&self, pid: u32) -> Option<&UnseenProcess> {
        self.unseen.iter().find(|process| process.pid == pid)
    }

    /// Returns what never changes about a process, visible or not.
    pub fn statics_of(&self, pid: u32) -> Option<&ProcessStatics> {
        let visible = self.process(pid).map(|process| &*process.statics);
        visible.or_else(|| Some(&self.unseen_process(pid)?.statics))
    }

    /// Returns the job of a process, visible or not.
    pub fn job_of(&self, pid: u32) -> Option<&JobId> {
        self.statics_of(pid)?.job.as_ref()
    }

    /// Returns true if a device is in MIG mode or has slices.
    pub fn is_cut(&self, device: &Device) -> bool {
        device.mig == Reading::Known(true) || self.has_slices(device)
    }

    /// Returns true if slices of a device are among the devices.
    pub fn has_slices(&self, device: &Device) -> bool {
        self.devices.iter().any(|slice| slice.is_slice_of(device))
    }

    /// Returns true if the node has not reported yet how the scheduler that knows it numbers its devices.
    pub fn awaits_evidence(&self) -> bool {
        self.scheduler.is_some() && !self.has_all_evidence()
    }

    /// Returns true if the node has reported all it can about how a scheduler numbers its devices.
    pub fn has_all_evidence(&self) -> bool {
        let will_tell = self.hello.as_ref().is_some_and(|hello| hello.has_evidence);
        !will_tell || self.evidence.as_ref().is_some_and(|known| known.is_complete)
    }

    /// Returns the owner of a process that uses a device; `None` when the process has ended.
    pub fn user_of(&self, used: &DeviceUse) -> Option<User> {
        let is_visible = self.process(used.pid).is_some();
        let unseen = self.unseen_process(used.pid);
        if !is_visible && unseen.is_some_and(|process| process.why == UnseenReason::Gone) {
            return None;
        }
        let owner = self.statics_of(used.pid).and_then(|statics| {
            let name = statics.user.known().map(|name| User::Named(Arc::clone(name)));
            name.or_else(|| statics.uid.get().map(User::Number))
        });
        Some(owner.unwrap_or(if unseen.is_some() { User::Hidden } else { User::Unknown }))
    }

    /// Returns who has the device, or slice, at this position.
    pub fn device_holdings(&self, position: usize) -> &DeviceHoldings {
        let uuid = self.devices.get(position).map_or("", |device| &device.uuid);
        self.holdings.device(uuid)
    }

    /// Returns true if a process uses a device.
    pub fn is_used(&self, device: &Device) -> bool {
        self.uses_on(device).next().is_some() || device.is_open() == Some(true)
    }

    /// Returns true if it is not known who uses the device at this position, or whether anybody does.
    pub fn has_unknown_user(&self, position: usize) -> bool {
        let Some(device) = self.devices.get(position) else { return true };
        let holdings = self.holdings.device(&device.uuid);
        holdings.users().is_empty()
            && (self.is_used(device)
                || holdings.is_allocated() != Some(false)
                || self.users_unknown_reason(position).is_some())
    }

    /// Returns the devices that are not slices, with their positions.
    pub fn whole_devices(&self) -> impl Iterator<Item = (usize, &Device)> {
        self.devices.iter().enumerate().filter(|(_, device)| device.parent.is_none())
    }

    /// Returns what can be given away, with its position: slices, and devices without slices.
    pub fn units(&self) -> impl Iterator<Item = (usize, &Device)> {
        let has_any = self.devices.iter().any(|device| device.parent.is_some());
        self.devices.iter().enumerate().filter(move |(_, device)| {
            !has_any || device.parent.is_some() || !self.has_slices(device)
        })
    }

    /// Returns the slices of a device, with their positions.
    pub fn slices<'a>(&'a self, device: &'a Device) -> impl Iterator<Item = (usize, &'a Device)> {
        self.devices.iter().enumerate().filter(|(_, slice)| slice.is_slice_of(device))
    }

    /// Returns true if a device is in MIG mode and has no slices, so that nobody can use it.
    pub(crate) fn is_without_slices(&self, device: &Device) -> bool {
        device.mig == Reading::Known(true) && device.parent.is_none() && !self.has_slices(device)
    }

    /// Returns the device, or the one that it is a slice of.
    pub fn whole<'a>(&'a self, device: &'a Device) -> &'a Device {
        device.parent.as_ref().and_then(|parent| self.device(parent)).unwrap_or(device)
    }

    /// Returns which part of its device a unit is: of several slices by their memory, or equal parts.
    pub(crate) fn part_of_device(&self, unit: &Device) -> f32 {
        if unit.parent.is_none() {
            return 1.0;
        }
        let siblings = self.devices.iter().filter(|slice| slice.parent == unit.parent);
        let memory = siblings.clone().map(|slice| Some(slice.memory_total.get()?.0));
        let own_and_all = unit.memory_total.get().zip(memory.sum::<Option<u64>>());
        let count = u16::try_from(siblings.count()).unwrap_or(u16::MAX);
        let by_memory = own_and_all.and_then(|(own, all)| Percent::of(own.0, all));
        by_memory.map_or_else(|| 1.0 / f32::from(count.max(1)), |part| part.get() / 100.0)
    }

    /// Returns the power that a unit draws: of a slice, its part of that of its device.
    pub(crate) fn unit_power(&self, unit: &Device) -> Option<f32> {
        let power = self.whole(unit).power.get()?.get();
        Some(power * self.part_of_device(unit))
    }

    /// Returns how many slices of the device with this UUID processes use, and how many it has; `None` if it has none.
    pub fn slices_in_use(&self, uuid: &str) -> Option<(usize, usize)> {
        let slices = self.devices.iter().filter(|device| device.parent.as_deref() == Some(uuid));
        let count = slices.clone().count();
        let used = slices.filter(|slice| self.uses_of(&slice.uuid).next().is_some()).count();
        (count > 0).then_some((used, count))
    }

    /// Returns the device, or slice, with this UUID.
    pub fn device(&self, uuid: &str) -> Option<&Device> {
        self.devices.iter().find(|device| *device.uuid == *uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::EventKind;

    fn node_with(codes: impl IntoIterator<Item = u64>) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        for (second, code) in (0..).zip(codes) {
            node.record_event(Event {
                at: Timestamp::from_micros(second * 1_000_000),
                source: Source::new("nvml"),
                kind: EventKind::Xid,
                device: "GPU-1".into(),
                code: Some(code),
                message: "".into(),
                count: 1,
                line: None,
            });
        }
        node
    }

    #[test]
    fn a_repeated_event_is_counted_and_comes_last() {
        let events = node_with([79, 31, 79]).events;
        let records: Vec<_> = events
            .iter()
            .map(|known| (known.event.code, known.count, known.event.at.since(known.first_at)))
            .collect();
        let none = Duration::ZERO;
        assert_eq!(records, [(Some(31), 1, none), (Some(79), 2, Duration::from_secs(2))]);
    }

    #[test]
    fn only_the_latest_events_are_kept() {
        let events = node_with(0..1000).events;
        assert_eq!(events.len(), MAX_EVENTS);
        assert_eq!(events.last().unwrap().event.code, Some(999));
    }

    const START: Timestamp = Timestamp::from_micros(1_000_000_000);

    /// Returns a node with a device of each of these sources, sampled this many seconds after the start, if
    /// ever.
    fn node_sampled(sources: &[(&str, Option<u64>)]) -> Node {
        let mut node = node_with([]);
        for (name, after) in sources {
            let source = Source::new(name);
            if let Some(after) = after {
                node.mark_sampled(&source, START.plus(Duration::from_secs(*after)));
            }
            if *name != "host" {
                node.devices.push(Device { uuid: (*name).into(), ..Device::default() });
                node.device_sources = node.device_sources.iter().cloned().chain([source]).collect();
            }
        }
        node
    }

    #[test]
    fn a_process_list_that_fails_says_no_more_who_uses_a_device() {
        let source = Source::new("nvml");
        let list = source.processes();
        for (is_sampled, fault, expected) in [
            (false, None, Some(Reason::NotSampled)),
            (false, Some(SourceFaultKind::Starting), Some(Reason::NotSampled)),
            (true, None, None),
            (true, Some(SourceFaultKind::Starting), None),
            (true, Some(SourceFaultKind::NoPermission), Some(Reason::NoPermission)),
            (true, Some(SourceFaultKind::Stuck), Some(Reason::DriverError)),
        ] {
            let mut node = node_sampled(&[("nvml", Some(0))]);
            if is_sampled {
                node.mark_sampled(&list, START);
            }
            node.source_mut(&list).fault = fault.map(|kind| {
                let (call, message, duration) = ("".into(), "".into(), Duration::ZERO);
                Box::new(SourceFault { kind, call, message, duration, at: START, code: None })
            });
            assert_eq!(node.users_unknown_reason(0), expected, "{is_sampled} {fault:?}");
        }
    }

    #[test]
    fn a_device_without_samples_is_not_fresh_nor_is_its_node() {
        let node = node_sampled(&[("host", Some(0)), ("nvml", None), ("amdgpu", Some(0))]);
        assert_eq!(node.device_freshness(0, START), Freshness::Missing);
        assert_eq!(node.device_freshness(1, START), Freshness::Fresh);
        assert_eq!(node.device_freshness(2, START), Freshness::Missing);
        assert_eq!(node.freshness(START), Freshness::Missing);
        assert_eq!(node_sampled(&[("nvml", Some(0))]).freshness(START), Freshness::Missing);
        let both = node_sampled(&[("host", Some(0)), ("nvml", Some(0))]);
        assert_eq!(both.freshness(START), Freshness::Fresh);
    }

    #[test]
    fn freshness_is_that_of_the_oldest_source() {
        let now = START.plus(Duration::from_secs(600));
        let aged = |seconds| Freshness::Stale(Duration::from_secs(seconds));
        for (host, nvml, amd, age) in [(0, 100, 200, 600), (200, 0, 100, 600), (200, 100, 0, 600)] {
            let sources = [("host", Some(host)), ("nvml", Some(nvml)), ("amdgpu", Some(amd))];
            assert_eq!(node_sampled(&sources).freshness(now), aged(age), "{sources:?}");
        }
        // A fresh source does not make another one fresh.
        let node = node_sampled(&[("host", Some(600)), ("nvml", Some(600)), ("amdgpu", Some(100))]);
        assert_eq!(node.freshness(now), aged(500));
        assert_eq!(node.taken_at(), Some(START.plus(Duration::from_secs(100))));
    }
}
