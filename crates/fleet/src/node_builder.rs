//! Builds the state of one node from its samples, and derives rates from counters.

use std::sync::Arc;
use std::time::Duration;

use crate::devices::{apply_backend, apply_xids};
use crate::hidden::count_hidden;
use crate::holdings::NodeHoldings;
use crate::missing::MissingDevices;
use crate::node::{Host, Node, Process};
use crate::rates::{MIN_RATE_SPAN, SharesBase, cpu_utilization, host_shares, rates};
use gtop_local::time::{ClockOffset, NodeTime, Timestamp};
use gtop_model::{
    Bytes, Counter, CpuTicks, Device, DeviceRates, DeviceUse, Event, Hello, HostReading,
    HostSlowReading, Link, NodeName, NodeUpdate, Percent, ProcessKey, ProcessReading, ProcessState,
    ProcessStatics, ProcessesReading, Reading, Reason, Sample, SchedulerNode, SessionUpdate,
    Source, SourceFaultKind, max_interval,
};

/// A node whose newest values were repeated this often sends no others.
const MIN_REPEATS: u8 = 2;
/// Seconds by which a process may have started after the host's uptime was last read: the longest interval.
const MAX_START_SKEW: u64 = 3_700;

/// A node that is sampled at least this often has a close-up in its history.
const MAX_CLOSE_UP_INTERVAL: Duration = Duration::from_millis(250);

/// A node is settled without the CPU use of its processes if it is still unknown so long after they were first read.
const MAX_PROCESS_WAIT: Duration = Duration::from_secs(1);

/// One node's state, and the counters needed to derive rates from the next sample.
#[derive(Debug)]
pub struct NodeBuilder {
    node: Arc<Node>,
    /// Devices that its drivers do not list any more.
    missing: MissingDevices,
    /// Number of the last record of the kernel's log since the node's boot.
    last_kernel_line: Option<u64>,
    session: SessionSamples,
    /// The subject of the host's own history series: empty.
    host_subject: Arc<str>,
    /// The requested sampling interval.
    interval: Duration,
    /// The time between two samples of a recording that keeps fewer than arrived.
    min_interval: Duration,
    /// Samples are missing since the last complete one.
    is_partial: bool,
}

/// What is known from the samples of one session.
#[derive(Debug, Default)]
struct SessionSamples {
    previous_counters: Option<HostCounters>,
    /// The processes of the last sample, in order of their keys.
    processes: Vec<TrackedProcess>,
    has_two_samples: bool,
    previous_shares: Option<SharesBase>,
    /// How often the last sample of the host was repeated.
    repeats: u8,
    /// When processes were first read.
    processes_since: Option<NodeTime>,
}

/// The host's counters in an earlier sample, the base of the next rates.
#[derive(Clone, Debug)]
struct HostCounters {
    at: NodeTime,
    cpu: Option<CpuTicks>,
    network: Arc<[Counter]>,
    infiniband: Arc<[Counter]>,
    disks: Arc<[Counter]>,
}

/// What is kept of a process until the next sample.
#[derive(Clone, Debug)]
struct TrackedProcess {
    key: ProcessKey,
    statics: Arc<ProcessStatics>,
    state: Reading<ProcessState>,
    threads: Reading<u32>,
    load: Option<CpuLoad>,
}

/// CPU use of a process.
#[derive(Clone, Copy, Debug)]
struct CpuLoad {
    at: NodeTime,
    /// CPU time so far, in clock ticks.
    spent: u64,
    percent: Reading<f32>,
}

impl NodeBuilder {
    /// Starts with an empty node whose history keeps at least `keep`.
    pub fn new(name: NodeName, keep: Duration) -> Self {
        Self {
            node: Arc::new(Node::new(name, keep)),
            missing: MissingDevices::default(),
            last_kernel_line: None,
            session: SessionSamples::default(),
            host_subject: "".into(),
            interval: Duration::MAX,
            min_interval: Duration::ZERO,
            is_partial: false,
        }
    }

    /// Returns the node's current state.
    pub fn node(&self) -> Arc<Node> {
        Arc::clone(&self.node)
    }

    pub(super) fn name(&self) -> &NodeName {
        &self.node.name
    }

    /// Applies an update.
    pub fn apply(&mut self, update: NodeUpdate) {
        match update {
            NodeUpdate::Session(update) => self.on_session(update),
            NodeUpdate::Hello(hello) => self.on_hello(hello),
            NodeUpdate::Sample(sample) => self.on_sample(*sample),
            NodeUpdate::Event(event) => self.on_event(event),
        }
    }

    fn on_session(&mut self, update: SessionUpdate) {
        match update {
            SessionUpdate::Link(link) => self.on_link(link),
            SessionUpdate::Reached(via) => changed(&mut self.node).via = Some(via),
            SessionUpdate::Interval(interval) => self.set_interval(interval),
            SessionUpdate::RecordedEvery(interval) => {
                self.min_interval = interval;
                self.apply_min_interval();
            }
            SessionUpdate::Gone(devices) => {
                self.missing.restore(changed(&mut self.node), &devices);
            }
        }
    }

    /// Updates the connection state. Known values stay and become stale.
    pub fn on_link(&mut self, link: Link) {
        if link != Link::Up {
            // The counters of the next session start from new values.
            self.session = SessionSamples::default();
            self.missing.on_session_end(&self.node);
        }
        let node = changed(&mut self.node);
        node.is_settled &= link == Link::Up;
        match &link {
            Link::Down { fault, .. } => node.last_fault = Some(fault.clone()),
            Link::Up => node.last_fault = None,
            Link::Idle | Link::Opening { .. } => {}
        }
        node.link = link;
    }

    /// Forgets all readings, as samples are missing: one that is not sent again may have changed in them. What does not
    /// change, such as the command line of a process, stays.
    pub fn forget_readings(&mut self) {
        self.is_partial = true;
        let session = &mut self.session;
        (session.previous_counters, session.previous_shares) = (None, None);
        session.processes_since = None;
        session.has_two_samples = false;
        for TrackedProcess { state, threads, load, .. } in &mut session.processes {
            (*state, *threads, *load) = (Reading::default(), Reading::default(), None);
        }
        let node = changed(&mut self.node);
        node.is_settled = false;
        let booted_at = node.host.fast.booted_at;
        let fast = HostReading { booted_at, ..HostReading::default() };
        node.host = Host { fast, ..Host::default() };
        node.shares = None;
        for device in &mut node.devices {
            if !device.is_gone() {
                let parent = device.parent.clone();
                let known = std::mem::take(device).without_readings();
                *device = Device { parent, is_partial: true, ..known };
            }
        }
        let uses = node.uses.iter().map(|used| DeviceUse {
            device: Arc::clone(&used.device),
            pid: used.pid,
            driver_name: used.driver_name.clone(),
            ..DeviceUse::default()
        });
        node.uses = uses.collect();
        let processes = node.processes.iter().map(|process| Process {
            key: process.key,
            statics: Arc::clone(&process.statics),
            started_at: process.started_at,
            ..Process::default()
        });
        node.processes = processes.collect();
        node.probe_cost = None;
    }

    /// Begins again with all that is known, after samples that were missing. Events since a time are sent again.
    pub fn restore_readings(&mut self, events_from: Timestamp) {
        self.last_kernel_line = None;
        let node = changed(&mut self.node);
        node.events =
            node.events.iter().filter(|record| record.event.at < events_from).cloned().collect();
        self.end_partial();
    }

    /// All values of the node have been sent.
    fn end_partial(&mut self) {
        self.is_partial = false;
        changed(&mut self.node).devices.iter_mut().for_each(|device| device.is_partial = false);
    }

    /// Sets what the scheduler says of the node.
    pub(crate) fn set_scheduler(&mut self, scheduler: Option<&Arc<SchedulerNode>>) {
        if self.node.scheduler.as_ref() != scheduler {
            changed(&mut self.node).scheduler = scheduler.cloned();
        }
    }

    /// Sets who has the devices of the node.
    pub(super) fn set_holdings(&mut self, holdings: Option<Arc<NodeHoldings>>) {
        if let Some(holdings) = holdings
            && !Arc::ptr_eq(&self.node.holdings, &holdings)
        {
            changed(&mut self.node).holdings = holdings;
        }
    }

    /// Sets the requested sampling interval. It bounds how long a source counts as fresh, whatever interval the
    /// node announces.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
        for state in &mut changed(&mut self.node).sources {
            state.interval = state.interval.min(max_interval(&state.source, interval));
        }
        self.apply_min_interval();
    }

    /// Lets no source count as stale before the next sample that a recording keeps.
    fn apply_min_interval(&mut self) {
        if self.min_interval.is_zero() {
            return;
        }
        for state in &mut changed(&mut self.node).sources {
            state.interval = state.interval.max(self.min_interval);
        }
    }

    /// Applies a probe's hello.
    pub fn on_hello(&mut self, hello: Hello) {
        let node = changed(&mut self.node);
        let is_another_boot =
            node.hello.as_ref().is_some_and(|known| known.host.boot_id != hello.host.boot_id);
        if is_another_boot {
            self.last_kernel_line = None;
            self.missing.on_reboot(node);
            *node = Node {
                link: node.link.clone(),
                via: node.via,
                scheduler: node.scheduler.clone(),
                // Events survive a reboot: they often show its reason.
                events: Arc::clone(&node.events),
                history: node.history.clone(),
                ..Node::new(node.name.clone(), Duration::ZERO)
            };
        }
        remove_sources(node, &hello);
        for (source, interval) in &hello.intervals {
            let maximum = max_interval(source, self.interval);
            node.source_mut(source).interval = maximum.min(*interval);
        }
        for backend in &hello.backends {
            let mut before = node.hello.iter().flat_map(|known| &known.backends);
            let known = before.find(|known| known.source == backend.source);
            let was_refused = known.is_some_and(|known| known.fault.is_some());
            let state = node.source_mut(&backend.source);
            if backend.fault.is_some() || was_refused {
                state.fault = backend.fault.clone().map(Box::new);
            }
            state.absent.clone_from(&backend.absent);
        }
        let host = node.source(&Source::host());
        let is_often = host.is_some_and(|host| host.interval <= MAX_CLOSE_UP_INTERVAL);
        node.history.keep_close_up(is_often);
        node.hello = Some(Arc::new(hello));
        // What the probe can open depends on where it runs.
        node.evidence = None;
        self.apply_min_interval();
    }

    /// Records a device event. What the kernel logged is sent again in each session, and known already.
    pub fn on_event(&mut self, mut event: Event) {
        if let Some(line) = &event.line {
            let last = self.last_kernel_line.replace(line.number);
            if last.is_some_and(|last| line.number <= last) {
                self.last_kernel_line = last;
                return;
            }
            if last.is_some_and(|last| line.first_number <= last) {
                event.count = 1;
            }
        }
        let node = changed(&mut self.node);
        node.record_event(event);
        node.place_kernel_events();
        apply_xids(node);
    }

    /// Applies one sample.
    pub fn on_sample(&mut self, sample: Sample) {
        if let Some((at, host)) = sample.host {
            self.apply_host(at, sample.clock.node_time(at), host);
        }
        if sample.is_complete {
            self.end_partial();
        }
        let is_partial = self.is_partial;
        let node = changed(&mut self.node);
        if let Some((at, slow)) = sample.host_slow {
            node.mark_sampled(&Source::host_slow(), at);
            let HostSlowReading { mut temperature, space } = slow;
            temperature.complete_from(&node.host.slow.temperature);
            node.host.slow.temperature = temperature;
            if !space.is_empty() {
                node.host.slow.space = space;
            }
        }
        node.probe_cost = sample.cost.or(node.probe_cost);
        if let Some(shares) = sample.shares {
            let now = (sample.clock.node_time(shares.at), shares);
            if let Some(shares) = host_shares(&now, self.session.previous_shares.as_ref()) {
                node.shares = Some(Arc::new(shares));
                self.session.previous_shares = Some(now);
            }
        }
        if sample.evidence.is_some() {
            node.evidence = sample.evidence;
        }
        let has_users = sample.backends.iter().any(|backend| backend.uses.is_some());
        let known = node.devices.iter().filter(|_| is_partial);
        let known: Vec<Arc<str>> = known.map(|device| Arc::clone(&device.uuid)).collect();
        for backend in sample.backends {
            apply_backend(node, &mut self.missing, backend, sample.clock);
        }
        if is_partial {
            for device in &mut node.devices {
                device.is_partial |= !known.contains(&device.uuid);
            }
        }
        node.place_kernel_events();
        for (source, fault) in sample.faults {
            // A container or a job may have none of the devices.
            let has_none = node.is_confined() && node.devices.is_empty();
            if has_none && fault.kind == SourceFaultKind::NoDevices {
                continue;
            }
            node.source_mut(&source).fault = Some(Box::new(fault));
        }
        let has_processes = sample.processes.is_some();
        if let Some(processes) = sample.processes {
            self.apply_processes(processes, sample.clock);
        }
        if has_processes || has_users {
            count_hidden(changed(&mut self.node));
        }
        self.apply_min_interval();
        self.update_settled();
    }

    fn apply_host(&mut self, at: Timestamp, node_time: NodeTime, mut host: HostReading) {
        let node = changed(&mut self.node);
        node.mark_sampled(&Source::host(), at);
        let now = HostCounters {
            at: node_time,
            cpu: host.cpu.get(),
            network: Arc::clone(&host.network),
            infiniband: Arc::clone(&host.infiniband),
            disks: Arc::clone(&host.disks),
        };
        let SessionSamples { previous_counters, has_two_samples, repeats, .. } = &mut self.session;
        let before = previous_counters.as_ref();
        match before.and_then(|before| Some((before, node_time.since(before.at)?))) {
            Some((_, span)) if span < MIN_RATE_SPAN => {
                // Of a page that stands still, no more comes.
                *repeats = if span.is_zero() { repeats.saturating_add(1) } else { 0 };
                *has_two_samples |= *repeats >= MIN_REPEATS;
            }
            Some((before, span)) => {
                *has_two_samples = true;
                node.host.cpu = cpu_utilization(before.cpu, now.cpu);
                node.host.network = rates(&before.network, &now.network, span);
                node.host.infiniband = rates(&before.infiniband, &now.infiniband, span);
                node.host.disks = rates(&before.disks, &now.disks, span);
                *previous_counters = Some(now);
            }
            None => {
                // Rates from the counters of an earlier session no longer apply.
                node.host.cpu = Reading::Unknown(Reason::NeedsTwoSamples);
                node.host.network = Arc::default();
                node.host.infiniband = Arc::default();
                node.host.disks = Arc::default();
                *previous_counters = Some(now);
            }
        }
        if host.cpu_utilization.get().is_some() {
            node.host.cpu = host.cpu_utilization;
        }
        update_boot_time(&mut node.host.fast.booted_at, host.booted_at);
        host.complete_from(&node.host.fast);
        node.host.fast = host;
        for (metric, value) in node.host.charted() {
            if let Some(value) = value {
                node.history.record(&self.host_subject, metric, at, value);
            }
        }
    }

    fn apply_processes(&mut self, reading: ProcessesReading, clock: ClockOffset) {
        let at = clock.node_time(reading.at);
        self.session.processes_since.get_or_insert(at);
        let per_second = self.node.hello.as_ref().map_or(100, |hello| hello.host.ticks_per_second);
        let fast = &self.node.host.fast;
        let mut tracked = Vec::with_capacity(reading.list.len());
        let mut list = Vec::with_capacity(reading.list.len());
        for process in reading.list {
            let (started_at, running_seconds) =
                running_time(&process, &self.node.host.fast, reading.at, per_second);
            let before = self.tracked_process(process.key);
            let known = before.map(|before| Arc::clone(&before.statics));
            let statics = process.statics.or(known).unwrap_or_default();
            let (mut state, mut threads) = (process.state, process.threads);
            if let Some(before) = before {
                state.complete_from(&before.state);
                threads.complete_from(&before.threads);
            }
            let load = process.cpu_ticks.get().map(|ticks| {
                cpu_load(before.and_then(|before| before.load), ticks, at, per_second)
            });
            let unknown =
                Reading::Unknown(process.cpu_ticks.reason().unwrap_or(Reason::NeedsTwoSamples));
            list.push(Process {
                key: process.key,
                statics: Arc::clone(&statics),
                cpu_percent: load.map_or(unknown, |load| load.percent).or(|| process.cpu_percent),
                resident: process.resident,
                resident_share: share_reading(process.resident, fast.memory_total),
                state,
                threads,
                started_at,
                running_seconds,
            });
            tracked.push(TrackedProcess { key: process.key, statics, state, threads, load });
        }
        tracked.sort_unstable_by_key(|process| process.key);
        self.session.processes = tracked;
        let node = changed(&mut self.node);
        node.processes = list.into();
        node.unseen = reading.unseen.into();
    }

    fn tracked_process(&self, key: ProcessKey) -> Option<&TrackedProcess> {
        let processes = &self.session.processes;
        processes.get(processes.binary_search_by_key(&key, |process| process.key).ok()?)
    }

    /// Sets `is_settled` once rates are known and each source has reported values or a fault.
    fn update_settled(&mut self) {
        let node = &self.node;
        if node.is_settled || !self.session.has_two_samples {
            return;
        }
        let Some(hello) = &node.hello else { return };
        if has_reported(node, &Source::host_slow())
            && has_device_rates(node)
            && self.has_process_rates(hello)
            && hello.backends.iter().all(|backend| has_backend_reported(node, &backend.source))
        {
            changed(&mut self.node).is_settled = true;
        }
    }

    /// Returns true unless the CPU use of all processes needs another sample, and one comes soon: the shell probe reads
    /// processes only as often as their devices.
    fn has_process_rates(&self, hello: &Hello) -> bool {
        let SessionSamples { previous_counters, processes, processes_since, .. } = &self.session;
        let mut loads = processes.iter().filter_map(|process| process.load).peekable();
        let newest = previous_counters.as_ref().map(|counters| counters.at);
        let waited = processes_since.and_then(|since| newest?.since(since));
        hello.is_shell_probe
            || loads.peek().is_none()
            || loads.any(|load| load.percent.get().is_some())
            || waited.is_some_and(|waited| waited >= MAX_PROCESS_WAIT)
    }
}

/// Returns a node to change it.
fn changed(node: &mut Arc<Node>) -> &mut Node {
    let node = Arc::make_mut(node);
    node.health.forget();
    node
}

/// Removes sources that the probe no longer announces, with their devices: another backend reports these now.
fn remove_sources(node: &mut Node, hello: &Hello) {
    node.sources.retain(|state| hello.announces(&state.source));
    if node.device_sources.iter().all(|source| hello.announces(source)) {
        return;
    }
    let mut sources = node.device_sources.iter();
    node.devices.retain(|_| sources.next().is_none_or(|source| hello.announces(source)));
    let sources = node.device_sources.iter().filter(|source| hello.announces(source));
    node.device_sources = sources.cloned().collect();
    let uses = node.uses.iter().filter(|used| node.device(&used.device).is_some());
    node.uses = uses.cloned().collect();
}

/// Returns the CPU use of a process that has used `ticks` of CPU time so far.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a share for the screen"
)]
fn cpu_load(before: Option<CpuLoad>, ticks: u64, at: NodeTime, per_second: u32) -> CpuLoad {
    let Some((before, span)) = before.and_then(|before| Some((before, at.since(before.at)?)))
    else {
        return CpuLoad { at, spent: ticks, percent: Reading::Unknown(Reason::NeedsTwoSamples) };
    };
    if span < MIN_RATE_SPAN {
        return before;
    }
    let spent = ticks.saturating_sub(before.spent) as f64 / f64::from(per_second);
    let percent = Reading::Known((spent / span.as_secs_f64() * 100.0) as f32);
    CpuLoad { at, spent: ticks, percent }
}

/// Returns when a process that was read at this time started, and the seconds for which it runs: from the time between boot
/// and its start, if that is known.
fn running_time(
    process: &ProcessReading,
    host: &HostReading,
    at: Timestamp,
    per_second: u32,
) -> (Reading<Timestamp>, Reading<u64>) {
    let Some(ticks) = process.key.start() else {
        let running = process.running_seconds;
        return (running.map(|seconds| at.minus(Duration::from_secs(seconds))), running);
    };
    let start = since_boot(ticks, per_second);
    let uptime = host
        .uptime_seconds
        .and_then(|up| (start.as_secs() <= up.saturating_add(MAX_START_SKEW)).then_some(up));
    let started_at = uptime.zip(host.booted_at).map(|(_, booted)| booted.plus(start));
    (started_at, uptime.map(|up| up.saturating_sub(start.as_secs())))
}

/// Returns the time between boot and a start in clock ticks.
fn since_boot(ticks: u64, per_second: u32) -> Duration {
    let per_second = u64::from(per_second.max(1));
    let rest = ticks % per_second * 1_000 / per_second;
    Duration::from_secs(ticks / per_second) + Duration::from_millis(rest)
}

fn share_reading(part: Reading<Bytes>, whole: Reading<Bytes>) -> Reading<Percent> {
    match part.zip(whole) {
        Reading::Known((part, whole)) => Percent::of(part.0, whole.0)
            .map_or(Reading::Unknown(Reason::NotAvailable), Reading::Known),
        Reading::Unknown(reason) => Reading::Unknown(reason),
    }
}

/// Returns true if a backend has reported its devices, their slow group and their processes, or a fault.
fn has_backend_reported(node: &Node, backend: &Source) -> bool {
    let Some(state) = node.source(backend) else { return false };
    let fault = state.fault.as_ref().map(|fault| fault.kind);
    if fault.is_some_and(|fault| fault != SourceFaultKind::Starting) || state.absent.is_some() {
        return true;
    }
    // Without devices nothing else is polled.
    let has_none = !node.device_sources.contains(backend);
    let has_uses = node
        .process_list(backend)
        .is_none_or(|uses| uses.taken_at.is_some() || uses.fault.is_some());
    state.taken_at.is_some() && (has_none || (has_uses && has_reported(node, &backend.slow())))
}

/// Returns true unless a rate of a device needs another sample, and its source works.
fn has_device_rates(node: &Node) -> bool {
    let mut devices = node.devices.iter().zip(node.device_sources.iter());
    devices.all(|(device, source)| {
        let is_due = device.rates.as_deref().is_some_and(DeviceRates::needs_another_sample);
        !is_due || node.source(source).is_none_or(|state| state.fault.is_some())
    })
}

/// Returns true if a source is missing, or has reported values or a fault.
fn has_reported(node: &Node, source: &Source) -> bool {
    node.source(source).is_none_or(|state| state.taken_at.is_some() || state.fault.is_some())
}

/// The boot time is computed anew from each sample and jitters; only a step of 2 s or more is a change.
fn update_boot_time(known: &mut Reading<Timestamp>, mut newer: Reading<Timestamp>) {
    const CLOCK_STEP: Duration = Duration::from_secs(2);
    if let (Some(known_at), Some(newer_at)) = (known.get(), newer.get())
        && known_at.distance(newer_at) < CLOCK_STEP
    {
        return;
    }
    newer.complete_from(known);
    *known = newer;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Health, Metric};
    use gtop_model::{
        BackendReading, BackendState, Celsius, DeviceCounters, DeviceFault, DevicesReading,
        EventKind, Fault, FaultKind, Freshness, HostFacts, KernelLine, SourceFault, TransportKind,
        UsesReading,
    };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    fn builder() -> NodeBuilder {
        let mut builder =
            NodeBuilder::new(NodeName::new("gpu01").unwrap(), Duration::from_secs(300));
        builder.on_link(Link::Up);
        builder.on_hello(hello("boot-1"));
        builder
    }

    fn hello(boot: &str) -> Hello {
        Hello {
            host: HostFacts { boot_id: boot.into(), ticks_per_second: 100, ..HostFacts::default() },
            intervals: vec![
                (Source::host(), Duration::from_secs(1)),
                (smi(), Duration::from_secs(1)),
            ],
            backends: vec![BackendState {
                source: smi(),
                absent: None,
                is_missing: false,
                fault: None,
                driver: None,
            }],
            ..Hello::default()
        }
    }

    fn smi() -> Source {
        Source::new("nvidia-smi")
    }

    fn host_sample(millis: i64, busy: u64, idle: u64, received: u64) -> Sample {
        let counter = Counter { name: "eth0".into(), inward: received, outward: 0 };
        let host = HostReading {
            cpu: Reading::Known(CpuTicks { busy, idle }),
            network: [counter].into(),
            ..HostReading::default()
        };
        Sample { host: Some((at(millis), host)), ..Sample::default() }
    }

    fn devices_sample(millis: i64, list: Vec<Device>) -> Sample {
        let devices = Some(DevicesReading { at: at(millis), list, is_cut_short: false });
        Sample {
            backends: vec![BackendReading { source: smi(), slow_at: None, devices, uses: None }],
            ..Sample::default()
        }
    }

    fn device(uuid: &str, index: u32, share: f32) -> Device {
        Device {
            uuid: uuid.into(),
            index: Reading::Known(index),
            pci: Reading::Known(format!("00000000:{index:02X}:00.0").into()),
            utilization: Reading::checked(Percent::new(share)),
            ..Device::default()
        }
    }

    fn process_sample(
        millis: i64,
        key: ProcessKey,
        ticks: u64,
        statics: Option<Arc<ProcessStatics>>,
    ) -> Sample {
        Sample {
            processes: Some(ProcessesReading {
                at: at(millis),
                list: vec![ProcessReading {
                    key,
                    cpu_ticks: Reading::Known(ticks),
                    cpu_percent: Reading::default(),
                    running_seconds: Reading::default(),
                    resident: Reading::default(),
                    state: Reading::default(),
                    threads: Reading::default(),
                    statics,
                }],
                unseen: Vec::new(),
            }),
            ..Sample::default()
        }
    }

    /// Returns the event of a line of the kernel's log that stands for those from `first` on.
    fn logged(millis: i64, first: u64, number: u64) -> Event {
        let line = KernelLine {
            at: at(millis),
            number,
            first_number: first,
            first_at: at(millis),
            pci: "0000:01:00.0".into(),
            gpu_instance: None,
            pid: None,
            process: "".into(),
            words: "".into(),
        };
        Event {
            at: line.at,
            source: Source::new("kernel"),
            kind: EventKind::Xid,
            device: Arc::clone(&line.pci),
            code: Some(79),
            message: "".into(),
            count: number + 1 - first,
            line: Some(line.into()),
        }
    }

    #[test]
    fn what_the_kernel_logged_is_known_once_until_the_next_boot() {
        let mut builder = builder();
        let told = |builder: &NodeBuilder| {
            let records = builder.node().events.iter().cloned().collect::<Vec<_>>();
            records
                .iter()
                .map(|record| (record.event.device.to_string(), record.count, record.lines.len()))
                .collect::<Vec<_>>()
        };
        builder.on_event(logged(100, 5, 5));
        builder.on_event(logged(200, 6, 8));
        assert_eq!(told(&builder), [("0000:01:00.0".to_owned(), 4, 2)]);
        builder.on_sample(devices_sample(300, vec![device("GPU-0", 1, 0.0)]));
        let of_device = |count, lines| vec![("GPU-0".to_owned(), count, lines)];
        assert_eq!(told(&builder), of_device(4, 2));
        // The next session begins with the same lines, and counts one that was known with a new one.
        builder.on_link(Link::Idle);
        builder.on_link(Link::Up);
        builder.on_hello(hello("boot-1"));
        for event in [logged(100, 5, 5), logged(200, 6, 8), logged(400, 8, 9)] {
            builder.on_event(event);
        }
        assert_eq!(told(&builder), of_device(5, 3));
        // After a boot the kernel counts anew, and drivers may not have listed the devices yet.
        builder.on_hello(hello("boot-2"));
        builder.on_event(logged(900, 1, 1));
        builder.on_sample(devices_sample(950, vec![device("GPU-0", 1, 0.0)]));
        assert_eq!(told(&builder), of_device(6, 4));
    }

    #[test]
    fn rates_need_two_samples_a_minimum_time_apart() {
        let mut builder = builder();
        builder.on_sample(host_sample(0, 100, 100, 1_000));
        assert_eq!(builder.node().host.cpu, Reading::Unknown(Reason::NeedsTwoSamples));
        builder.on_sample(host_sample(100, 110, 100, 1_500));
        assert_eq!(builder.node().host.cpu, Reading::Unknown(Reason::NeedsTwoSamples));
        builder.on_sample(host_sample(500, 130, 110, 2_000));
        let node = builder.node();
        assert_eq!(node.host.cpu.get().map(Percent::get), Some(75.0));
        assert_eq!(node.host.network[0].inward, Bytes(2_000));
    }

    #[test]
    fn what_is_charted_is_recorded_as_samples_arrive() {
        let mut builder = builder();
        for (second, mebibytes) in [(0, 0), (1, 8), (2, 24)] {
            let mut sample = host_sample(second * 1_000, 0, 0, mebibytes << 20);
            let host = &mut sample.host.as_mut().unwrap().1;
            host.memory_total = Reading::Known(Bytes(200));
            host.memory_available = Reading::Known(Bytes(150));
            builder.on_sample(sample);
            let mut device = device("GPU-0", 0, 7.0);
            device.temperature = Reading::checked(Celsius::new(60.0));
            builder.on_sample(devices_sample(second * 1_000, vec![device]));
        }
        let node = builder.node();
        let last = |subject, metric| node.history.last(subject, metric, at(2_000), 3);
        assert_eq!(last("GPU-0", Metric::Temperature), [Some(60.0); 3]);
        assert_eq!(last("GPU-0", Metric::Memory), [None; 3], "it is not reported");
        assert_eq!(last("", Metric::HostMemory), [Some(25.0); 3]);
        assert_eq!(last("", Metric::Swap), [None; 3]);
        let received = [8.0, 16.0].map(|mebibytes| Some(mebibytes * 1_048_576.0));
        assert_eq!(last("", Metric::NetworkIn), [None, received[0], received[1]]);
    }

    #[test]
    fn a_sample_records_only_devices_of_its_source() {
        let mut builder = builder();
        builder.on_sample(devices_sample(0, vec![device("GPU-0", 0, 7.0)]));
        let mut other = devices_sample(1_000, vec![device("GPU-1", 1, 9.0)]);
        other.backends[0].source = Source::new("amd");
        builder.on_sample(other);
        let node = builder.node();
        let last = |subject| node.history.last(subject, Metric::Utilization, at(1_000), 2);
        assert_eq!((last("GPU-0"), last("GPU-1")), (vec![Some(7.0), None], vec![None, Some(9.0)]));
    }

    #[test]
    fn rates_of_the_previous_session_are_dropped() {
        let mut builder = builder();
        builder.on_sample(host_sample(0, 100, 100, 1_000));
        builder.on_sample(host_sample(1_000, 110, 110, 2_000));
        assert_eq!(builder.node().host.network.len(), 1);
        builder.on_link(Link::Opening { attempt: 1 });
        builder.on_link(Link::Up);
        assert_eq!(builder.node().host.network.len(), 1, "the last rates stay until a new sample");
        builder.on_sample(host_sample(9_000, 120, 120, 3_000));
        assert!(builder.node().host.network.is_empty());
        builder.on_sample(host_sample(10_000, 130, 130, 4_000));
        assert_eq!(builder.node().host.network[0].inward, Bytes(1_000));
    }

    #[test]
    fn a_node_with_ever_new_names_uses_bounded_memory() {
        let mut builder = builder();
        for round in 0..150_u32 {
            let devices = (0..64).map(|index| device(&format!("GPU-{round}-{index}"), index, 7.0));
            let mut sample = devices_sample(i64::from(round) * 1_000, devices.collect());
            sample.backends[0].source = Source::new(&format!("s{round}"));
            builder.on_sample(sample);
            if round % 70 == 0 {
                builder.on_hello(hello(&format!("boot {round}")));
            }
        }
        let node = builder.node();
        assert!(node.sources.len() <= 64 && node.devices.len() <= 1024);
        assert!(node.history.series_count() <= 4096, "{}", node.history.series_count());
    }

    #[test]
    fn decreasing_counters_give_no_rate() {
        let mut builder = builder();
        builder.on_sample(host_sample(0, 100, 100, 9_000));
        builder.on_sample(host_sample(1_000, 50, 200, 10));
        assert_eq!(builder.node().host.cpu, Reading::Unknown(Reason::NeedsTwoSamples));
        assert!(builder.node().host.network.is_empty());
    }

    #[test]
    fn announced_intervals_cannot_make_old_values_fresh() {
        let mut builder = builder();
        let mut hello = hello("boot-1");
        let slow = smi().slow();
        hello.intervals = [Source::host(), smi(), slow.clone()]
            .map(|source| (source, Duration::from_secs(3_600)))
            .into();
        let intervals = |builder: &NodeBuilder| {
            [Source::host(), smi(), slow.clone()]
                .map(|source| builder.node().source(&source).unwrap().interval.as_secs())
        };
        builder.set_interval(Duration::from_secs(1));
        builder.on_hello(hello.clone());
        assert_eq!(intervals(&builder), [1, 121, 121]);
        builder.on_sample(host_sample(0, 1, 1, 0));
        let host = builder.node().source(&Source::host()).unwrap().clone();
        assert_eq!(host.freshness(at(3_000)), Freshness::Fresh);
        assert!(!host.freshness(at(3_001)).is_fresh());
        // A longer requested interval allows a longer announced one, for as long as it is requested.
        builder.set_interval(Duration::from_secs(60));
        builder.on_hello(hello);
        assert_eq!(intervals(&builder), [60, 180, 180]);
        builder.set_interval(Duration::from_secs(2));
        assert_eq!(intervals(&builder), [2, 122, 122]);
    }

    #[test]
    fn a_node_is_settled_once_rates_and_all_backends_have_reported() {
        let mut builder = builder();
        builder.on_sample(host_sample(0, 1, 1, 0));
        builder.on_sample(host_sample(300, 2, 2, 0));
        assert!(!builder.node().is_settled);
        builder.on_sample(devices_sample(300, vec![]));
        assert!(builder.node().is_settled);
        builder.on_link(Link::Opening { attempt: 1 });
        assert!(!builder.node().is_settled);
    }

    #[test]
    fn health_is_that_of_the_newest_sample_also_if_nobody_keeps_the_one_before() {
        let mut builder = builder();
        let lost = Device { fault: Some(DeviceFault::Lost), ..device("GPU-1", 0, 50.0) };
        for (millis, device, expected) in [
            (0, device("GPU-1", 0, 50.0), Health::Ok),
            (1_000, lost, Health::Faulty),
            (2_000, device("GPU-1", 0, 50.0), Health::Ok),
        ] {
            builder.on_sample(devices_sample(millis, vec![device]));
            let node = builder.node();
            assert_eq!(node.health(&node.devices[0]), expected, "{millis}");
        }
    }

    #[test]
    fn a_node_whose_driver_starts_slowly_is_settled_once_its_rates_are_known() {
        let with_counters = |millis, sent| {
            let counters = DeviceCounters { pcie_sent: Reading::Known(sent), ..Default::default() };
            let counted = Device { counters: Some(Arc::new(counters)), ..device("GPU-1", 0, 50.0) };
            devices_sample(millis, vec![counted])
        };
        let key = ProcessKey { pid: 42, start_ticks: 7 };
        // A list of processes that never comes again is not waited for.
        let last = [process_sample(700, key, 1, None), host_sample(2_000, 3, 3, 0)];
        for (probe, needs_load) in [("python 3.11.2", true), ("sh", false)] {
            for last in &last {
                let mut builder = builder();
                let hello = Hello { is_shell_probe: probe == "sh", ..hello("boot-1") };
                builder.on_hello(hello);
                builder.on_sample(host_sample(0, 1, 1, 0));
                builder.on_sample(host_sample(300, 2, 2, 0));
                builder.on_sample(with_counters(400, 1));
                assert!(!builder.node().is_settled, "{probe}");
                builder.on_sample(process_sample(400, key, 1, None));
                builder.on_sample(with_counters(700, 1));
                assert_eq!(builder.node().is_settled, !needs_load, "{probe}");
                builder.on_sample(last.clone());
                assert!(builder.node().is_settled, "{probe}");
            }
        }
        // A driver that hangs after its first values does not delay the snapshot.
        let mut builder = builder();
        builder.on_sample(with_counters(0, 1));
        builder.on_sample(host_sample(0, 1, 1, 0));
        builder.on_sample(host_sample(300, 2, 2, 0));
        assert!(!builder.node().is_settled);
        let fault = SourceFault {
            kind: SourceFaultKind::Stuck,
            call: "".into(),
            message: "".into(),
            duration: Duration::from_secs(3),
            at: at(300),
            code: None,
        };
        builder.on_sample(Sample { faults: vec![(smi(), fault)], ..Sample::default() });
        assert!(builder.node().is_settled);
    }

    #[test]
    fn a_node_whose_values_stand_still_is_settled_without_rates() {
        let mut builder = builder();
        builder.on_sample(devices_sample(0, vec![device("GPU-1", 0, 50.0)]));
        for is_settled in [false, false, true] {
            builder.on_sample(host_sample(0, 1, 1, 0));
            assert_eq!(builder.node().is_settled, is_settled);
        }
        assert_eq!(builder.node().host.cpu, Reading::Unknown(Reason::NeedsTwoSamples));
    }

    #[test]
    fn a_node_is_settled_once_slow_groups_have_reported_or_failed() {
        let is_settled_after = |slow: &Source, sample: Sample| {
            let mut builder = builder();
            let mut hello = hello("boot-1");
            hello.intervals.push((slow.clone(), Duration::from_secs(10)));
            builder.on_hello(hello);
            builder.on_sample(devices_sample(0, vec![device("GPU-1", 0, 50.0)]));
            builder.on_sample(host_sample(0, 1, 1, 0));
            builder.on_sample(host_sample(300, 2, 2, 0));
            assert!(!builder.node().is_settled, "{slow}");
            builder.on_sample(sample);
            builder.node().is_settled
        };
        let mut slow_sample = devices_sample(300, vec![device("GPU-1", 0, 50.0)]);
        slow_sample.backends[0].slow_at = Some(at(300));
        assert!(is_settled_after(&smi().slow(), slow_sample));
        let fault = SourceFault {
            kind: SourceFaultKind::Stuck,
            call: "df".into(),
            message: "".into(),
            duration: Duration::from_secs(3),
            at: at(300),
            code: None,
        };
        for slow in [smi().slow(), smi().processes(), Source::host_slow()] {
            let faults = vec![(slow.clone(), fault.clone())];
            assert!(is_settled_after(&slow, Sample { faults, ..Sample::default() }), "{slow}");
        }
    }

    #[test]
    fn a_stuck_backend_settles_and_goes_stale_while_the_host_is_fresh() {
        let mut builder = builder();
        builder.on_sample(devices_sample(0, vec![device("GPU-1", 0, 50.0)]));
        for second in 0..9 {
            builder.on_sample(host_sample(second * 1_000, 10, 10, 0));
        }
        let fault = SourceFault {
            kind: SourceFaultKind::Stuck,
            call: "nvidia-smi".into(),
            message: "".into(),
            duration: Duration::from_secs(5),
            at: at(8_000),
            code: None,
        };
        builder.on_sample(Sample { faults: vec![(smi(), fault)], ..Sample::default() });
        let node = builder.node();
        assert_eq!(node.host_freshness(at(8_000)), Freshness::Fresh);
        assert_eq!(node.freshness(at(8_000)), Freshness::Stale(Duration::from_secs(8)));
        assert!(node.source_fault().is_some());
        builder.on_sample(devices_sample(9_000, vec![device("GPU-1", 0, 51.0)]));
        assert!(builder.node().source_fault().is_none());
    }

    #[test]
    fn a_lost_device_keeps_its_identity() {
        let mut builder = builder();
        builder
            .on_sample(devices_sample(0, vec![device("GPU-b", 1, 5.0), device("GPU-a", 0, 5.0)]));
        let uuids = |builder: &NodeBuilder| {
            builder.node().devices.iter().map(|device| device.uuid.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(uuids(&builder), ["GPU-a", "GPU-b"]);
        let lost = Device {
            uuid: "0000:01:00.0".into(),
            pci: Reading::Known("0000:01:00.0".into()),
            fault: Some(DeviceFault::Lost),
            ..Device::default()
        };
        builder.on_sample(devices_sample(1_000, vec![device("GPU-a", 0, 5.0), lost]));
        assert_eq!(uuids(&builder), ["GPU-a", "GPU-b"]);
        assert_eq!(builder.node().devices[1].utilization.get(), None);
    }

    #[test]
    fn process_statics_are_kept_and_cpu_load_comes_from_ticks() {
        let mut builder = builder();
        let key = ProcessKey { pid: 42, start_ticks: 7 };
        let statics =
            ProcessStatics { user: Reading::Known("ada".into()), ..ProcessStatics::default() };
        builder.on_sample(process_sample(0, key, 100, Some(Arc::new(statics))));
        builder.on_sample(process_sample(1_000, key, 350, None));
        let node = builder.node();
        assert_eq!(node.processes[0].statics.user.known().map(|user| &**user), Some("ada"));
        assert_eq!(node.processes[0].cpu_percent.get(), Some(250.0));
        // Too little time has passed to compute a rate.
        builder.on_sample(process_sample(1_001, key, 360, None));
        assert_eq!(builder.node().processes[0].cpu_percent.get(), Some(250.0));
        builder.on_sample(process_sample(2_000, key, 400, None));
        assert_eq!(builder.node().processes[0].cpu_percent.get(), Some(50.0));
    }

    #[test]
    fn a_process_has_an_age_a_memory_share_and_its_last_state() {
        let mut builder = builder();
        let host = |millis: i64| HostReading {
            memory_total: Reading::Known(Bytes(1_000)),
            uptime_seconds: Reading::Known(500),
            booted_at: Reading::Known(at(millis)),
            ..HostReading::default()
        };
        let tick = |millis, state| Sample {
            host: Some((at(500_000), host(millis))),
            processes: Some(ProcessesReading {
                at: at(500_000),
                list: vec![ProcessReading {
                    key: ProcessKey { pid: 42, start_ticks: 20_050 },
                    cpu_ticks: Reading::Known(1),
                    cpu_percent: Reading::default(),
                    running_seconds: Reading::default(),
                    resident: Reading::Known(Bytes(250)),
                    state,
                    threads: Reading::default(),
                    statics: None,
                }],
                unseen: Vec::new(),
            }),
            ..Sample::default()
        };
        builder.on_sample(tick(0, Reading::Known(ProcessState::Waiting)));
        // The boot time jitters; the state is not sent again.
        builder.on_sample(tick(300, Reading::default()));
        let node = builder.node();
        let process = &node.processes[0];
        assert_eq!(process.state, Reading::Known(ProcessState::Waiting));
        assert_eq!(process.started_at, Reading::Known(at(200_500)));
        assert_eq!(process.running_seconds, Reading::Known(300));
        assert_eq!(process.resident_share.get().map(Percent::get), Some(25.0));
        // The clock was set: the boot time jumps.
        builder.on_sample(tick(60_000, Reading::default()));
        assert_eq!(builder.node().processes[0].started_at, Reading::Known(at(260_500)));
    }

    #[test]
    fn a_driver_that_refuses_to_start_is_a_fault_until_it_starts() {
        let mut builder = builder();
        let refused = |kind: Option<SourceFaultKind>| {
            let mut hello = hello("boot-1");
            hello.backends[0].absent =
                kind.map(|_| "NVML: driver and library versions differ".into());
            hello.backends[0].fault = kind.map(|kind| SourceFault {
                kind,
                call: "nvmlInit_v2".into(),
                message: "error 18".into(),
                duration: Duration::ZERO,
                at: at(1_000),
                code: None,
            });
            hello
        };
        let fault =
            |builder: &NodeBuilder| builder.node().source_fault().map(|(_, fault)| fault.kind);
        builder.on_hello(refused(Some(SourceFaultKind::Mismatch)));
        assert_eq!(fault(&builder), Some(SourceFaultKind::Mismatch));
        // Another hello, such as for another interval, says so again.
        builder.on_hello(refused(Some(SourceFaultKind::Mismatch)));
        assert_eq!(fault(&builder), Some(SourceFaultKind::Mismatch));
        builder.on_hello(refused(None));
        assert_eq!(fault(&builder), None);
    }

    #[test]
    fn a_process_cannot_be_older_than_its_host() {
        for (start_ticks, running, reason) in [
            (20_050, Some(300), None),
            (u64::MAX - 1, None, Some(Reason::Malformed)),
            // The uptime may have been read a while ago.
            (60_000, Some(0), None),
            (900_000, None, Some(Reason::Malformed)),
        ] {
            let mut builder = builder();
            builder.on_sample(Sample {
                host: Some((
                    at(500_000),
                    HostReading {
                        uptime_seconds: Reading::Known(500),
                        booted_at: Reading::Known(at(0)),
                        ..HostReading::default()
                    },
                )),
                processes: Some(ProcessesReading {
                    at: at(500_000),
                    list: vec![ProcessReading {
                        key: ProcessKey { pid: 42, start_ticks },
                        ..ProcessReading::default()
                    }],
                    unseen: Vec::new(),
                }),
                ..Sample::default()
            });
            let process = builder.node().processes[0].clone();
            assert_eq!(process.running_seconds.get(), running, "{start_ticks}");
            assert_eq!(process.running_seconds.reason(), reason, "{start_ticks}");
            assert_eq!(process.started_at.reason(), reason, "{start_ticks}");
        }
    }

    #[test]
    fn a_reboot_removes_the_devices() {
        let mut builder = builder();
        builder.on_sample(devices_sample(0, vec![device("GPU-a", 0, 5.0)]));
        builder.on_hello(hello("boot-2"));
        assert!(builder.node().devices.is_empty());
        assert_eq!(builder.node().link, Link::Up);
    }

    #[test]
    fn a_node_records_its_transport() {
        let mut builder = builder();
        assert_eq!(builder.node().via, None);
        builder.apply(NodeUpdate::Session(SessionUpdate::Reached(TransportKind::Step)));
        assert_eq!(builder.node().via, Some(TransportKind::Step));
    }

    #[test]
    fn a_node_is_down_until_the_next_session_is_up() {
        let mut builder = builder();
        let fault = Fault::new(FaultKind::SessionLost, "");
        builder.on_link(Link::Down { fault: fault.clone(), retry_at: None });
        builder.on_link(Link::Opening { attempt: 2 });
        assert_eq!(builder.node().fault(), Some(&fault));
        builder.on_link(Link::Up);
        assert_eq!(builder.node().fault(), None);
    }

    #[test]
    fn uses_are_replaced_as_a_whole() {
        let mut builder = builder();
        builder.on_sample(devices_sample(0, vec![device("GPU-a", 0, 5.0)]));
        let uses = |pids: &[u32]| {
            let list = pids
                .iter()
                .map(|pid| DeviceUse { device: "GPU-a".into(), pid: *pid, ..DeviceUse::default() })
                .collect();
            let uses = Some(UsesReading { at: at(1), list, nameless: [].into() });
            Sample {
                backends: vec![BackendReading {
                    source: smi(),
                    slow_at: None,
                    devices: None,
                    uses,
                }],
                ..Sample::default()
            }
        };
        builder.on_sample(uses(&[1, 2]));
        builder.on_sample(uses(&[2]));
        assert_eq!(builder.node().uses_of("GPU-a").map(|used| used.pid).collect::<Vec<_>>(), [2]);
    }
}
