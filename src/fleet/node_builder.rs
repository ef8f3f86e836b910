//! Builds the state of one node from its samples, and derives rates from counters.

use std::sync::Arc;
use std::time::Duration;

use crate::fleet::devices::apply_backend;
use crate::fleet::hidden::count_hidden;
use crate::fleet::history::Metric;
use crate::fleet::node::{Node, Process};
use crate::fleet::rates::{MIN_RATE_SPAN, cpu_share, rates};
use crate::model::{
    Bytes, Counter, CpuTicks, DeviceUse, Event, Hello, HostReading, Link, NodeName, Percent,
    ProcessKey, ProcessState, ProcessStatics, ProcessesReading, Reading, Reason, Sample, Source,
    SourceFaultKind, TransportKind, max_interval,
};
use crate::time::{ClockOffset, NodeTime, Timestamp};

/// One node's state, and the counters needed to derive rates from the next sample.
#[derive(Debug)]
pub struct NodeBuilder {
    node: Arc<Node>,
    before: Option<HostCounters>,
    /// The processes of the last sample, in order of their keys.
    seen: Vec<TrackedProcess>,
    has_two_samples: bool,
    /// The subject of the host's own history series: empty.
    host: Arc<str>,
    /// The requested sampling interval.
    interval: Duration,
}

/// The host's counters in an earlier sample, the base of the next rates.
#[derive(Debug)]
struct HostCounters {
    at: NodeTime,
    cpu: Option<CpuTicks>,
    network: Arc<[Counter]>,
    infiniband: Arc<[Counter]>,
    disks: Arc<[Counter]>,
}

/// What is kept of a process until the next sample.
#[derive(Debug)]
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
            before: None,
            seen: Vec::new(),
            has_two_samples: false,
            host: "".into(),
            interval: Duration::MAX,
        }
    }

    /// Returns the node's current state.
    pub fn node(&self) -> Arc<Node> {
        Arc::clone(&self.node)
    }

    /// Updates the connection state. Known values stay and become stale.
    pub fn on_link(&mut self, link: Link) {
        if link != Link::Up {
            // The counters of the next session start from new values.
            self.before = None;
            self.seen.clear();
            self.has_two_samples = false;
        }
        let node = Arc::make_mut(&mut self.node);
        node.is_settled &= link == Link::Up;
        match &link {
            Link::Down { fault, .. } => node.last_fault = Some(fault.clone()),
            Link::Up => node.last_fault = None,
            Link::Idle | Link::Opening { .. } => {}
        }
        node.link = link;
    }

    /// Sets how the node is reached.
    pub fn on_transport(&mut self, via: TransportKind) {
        Arc::make_mut(&mut self.node).via = Some(via);
    }

    /// Sets the requested sampling interval. It bounds how long a source counts as fresh, whatever interval the
    /// node announces.
    pub fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
        for state in &mut Arc::make_mut(&mut self.node).sources {
            state.interval = state.interval.min(max_interval(&state.source, interval));
        }
    }

    /// Applies a probe's hello.
    pub fn on_hello(&mut self, hello: Hello) {
        let node = Arc::make_mut(&mut self.node);
        let is_another_boot =
            node.hello.as_ref().is_some_and(|known| known.host.boot_id != hello.host.boot_id);
        if is_another_boot {
            *node = Node {
                link: node.link.clone(),
                via: node.via,
                // Events survive a reboot: they often show its reason.
                events: Arc::clone(&node.events),
                history: node.history.clone(),
                ..Node::new(node.name.clone(), Duration::ZERO)
            };
        }
        forget_sources(node, &hello);
        for (source, interval) in &hello.intervals {
            let longest = max_interval(source, self.interval);
            node.source_mut(source).interval = longest.min(*interval);
        }
        for backend in &hello.backends {
            let state = node.source_mut(&backend.source);
            state.absent.clone_from(&backend.absent);
        }
        node.hello = Some(Arc::new(hello));
    }

    /// Records a device event.
    pub fn on_event(&mut self, event: Event) {
        Arc::make_mut(&mut self.node).record_event(event);
    }

    /// Applies one sample.
    pub fn on_sample(&mut self, sample: Sample) {
        if let Some((at, host)) = sample.host {
            self.host(at, sample.clock.on_node(at), host);
        }
        let node = Arc::make_mut(&mut self.node);
        if let Some((at, slow)) = sample.host_slow {
            node.mark_sampled(&Source::host_slow(), at);
            node.host.slow.temperature.update_from(slow.temperature);
            if !slow.space.is_empty() {
                node.host.slow.space = slow.space;
            }
        }
        let has_users = sample.backends.iter().any(|backend| backend.uses.is_some());
        for backend in sample.backends {
            apply_backend(node, backend, sample.clock);
        }
        for (source, fault) in sample.faults {
            node.source_mut(&source).fault = Some(Box::new(fault));
        }
        let has_processes = sample.processes.is_some();
        if let Some(processes) = sample.processes {
            self.processes(processes, sample.clock);
        }
        if has_processes || has_users {
            count_hidden(Arc::make_mut(&mut self.node));
        }
        self.update_settled();
    }

    fn host(&mut self, at: Timestamp, told_at: NodeTime, host: HostReading) {
        let node = Arc::make_mut(&mut self.node);
        node.mark_sampled(&Source::host(), at);
        let now = HostCounters {
            at: told_at,
            cpu: host.cpu.get(),
            network: Arc::clone(&host.network),
            infiniband: Arc::clone(&host.infiniband),
            disks: Arc::clone(&host.disks),
        };
        let before = self.before.as_ref();
        match before.and_then(|before| Some((before, told_at.since(before.at)?))) {
            Some((_, span)) if span < MIN_RATE_SPAN => {}
            Some((before, span)) => {
                self.has_two_samples = true;
                node.host.cpu = cpu_share(before.cpu, now.cpu);
                node.host.network = rates(&before.network, &now.network, span);
                node.host.infiniband = rates(&before.infiniband, &now.infiniband, span);
                node.host.disks = rates(&before.disks, &now.disks, span);
                self.before = Some(now);
            }
            None => {
                // Rates from the counters of an earlier session no longer apply.
                node.host.cpu = Reading::Unknown(Reason::NeedsTwoSamples);
                node.host.network = Arc::default();
                node.host.infiniband = Arc::default();
                node.host.disks = Arc::default();
                self.before = Some(now);
            }
        }
        if let Some(share) = node.host.cpu.get() {
            node.history.record(&self.host, Metric::Cpu, at, share);
        }
        update_from(&mut node.host.fast, host);
    }

    fn processes(&mut self, reading: ProcessesReading, clock: ClockOffset) {
        let at = clock.on_node(reading.at);
        let per_second = self.node.hello.as_ref().map_or(100, |hello| hello.host.ticks_per_second);
        let fast = &self.node.host.fast;
        let mut seen = Vec::with_capacity(reading.list.len());
        let mut list = Vec::with_capacity(reading.list.len());
        for process in reading.list {
            let before = self.seen(process.key);
            let known = before.map(|before| Arc::clone(&before.statics));
            let statics = process.statics.or(known).unwrap_or_default();
            let mut state = before.map_or_else(Reading::default, |before| before.state);
            state.update_from(process.state);
            let mut threads = before.map_or_else(Reading::default, |before| before.threads);
            threads.update_from(process.threads);
            let age = since_boot(process.key, per_second);
            let load = process
                .cpu_ticks
                .get()
                .map(|ticks| load(before.and_then(|before| before.load), ticks, at, per_second));
            let waiting =
                Reading::Unknown(process.cpu_ticks.reason().unwrap_or(Reason::NeedsTwoSamples));
            list.push(Process {
                key: process.key,
                statics: Arc::clone(&statics),
                cpu_percent: load.map_or(waiting, |load| load.percent),
                resident: process.resident,
                resident_share: share_of(process.resident, fast.memory_total),
                state,
                threads,
                started_at: fast.booted_at.map(|booted| booted.plus(age)),
                running_seconds: fast.uptime_seconds.map(|up| up.saturating_sub(age.as_secs())),
            });
            seen.push(TrackedProcess { key: process.key, statics, state, threads, load });
        }
        seen.sort_unstable_by_key(|process| process.key);
        self.seen = seen;
        let node = Arc::make_mut(&mut self.node);
        node.processes = list.into();
        node.unseen = reading.unseen.into();
    }

    fn seen(&self, key: ProcessKey) -> Option<&TrackedProcess> {
        let place = self.seen.binary_search_by_key(&key, |process| process.key).ok()?;
        self.seen.get(place)
    }

    /// Sets `is_settled` once rates are known and each source has reported values or a fault.
    fn update_settled(&mut self) {
        if self.node.is_settled || !self.has_two_samples {
            return;
        }
        let Some(hello) = &self.node.hello else { return };
        if has_reported(&self.node, &Source::host_slow())
            && hello
                .backends
                .iter()
                .all(|backend| has_backend_reported(&self.node, &backend.source))
        {
            Arc::make_mut(&mut self.node).is_settled = true;
        }
    }
}

/// Removes sources that the probe no longer announces, with their devices: another backend reports these now.
fn forget_sources(node: &mut Node, hello: &Hello) {
    let is_told = |source: &Source| hello.intervals.iter().any(|(told, _)| told == source);
    node.sources.retain(|state| is_told(&state.source));
    if node.device_sources.iter().all(is_told) {
        return;
    }
    let mut sources = node.device_sources.iter();
    node.devices.retain(|_| sources.next().is_none_or(is_told));
    node.device_sources =
        node.device_sources.iter().filter(|source| is_told(source)).cloned().collect();
    let devices = &node.devices;
    let is_known = |used: &&DeviceUse| devices.iter().any(|device| device.uuid == used.device);
    node.uses = node.uses.iter().filter(is_known).cloned().collect();
}

/// Returns the CPU use of a process that has used `ticks` of CPU time so far.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a share for the screen"
)]
fn load(before: Option<CpuLoad>, ticks: u64, at: NodeTime, per_second: u32) -> CpuLoad {
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

/// Returns the time between boot and the start of a process.
fn since_boot(key: ProcessKey, per_second: u32) -> Duration {
    let per_second = u64::from(per_second.max(1));
    let rest = key.start_ticks % per_second * 1_000 / per_second;
    Duration::from_secs(key.start_ticks / per_second) + Duration::from_millis(rest)
}

fn share_of(part: Reading<Bytes>, whole: Reading<Bytes>) -> Reading<Percent> {
    match (part, whole) {
        (Reading::Known(part), Reading::Known(whole)) => Percent::of(part.0, whole.0)
            .map_or(Reading::Unknown(Reason::NotAvailable), Reading::Known),
        (Reading::Unknown(reason), _) | (_, Reading::Unknown(reason)) => Reading::Unknown(reason),
    }
}

/// Returns true if a backend has reported its devices, their slow group and their processes, or a fault.
fn has_backend_reported(node: &Node, backend: &Source) -> bool {
    let Some(state) = node.source(backend) else { return false };
    let is_starting =
        state.fault.as_ref().is_some_and(|fault| fault.kind == SourceFaultKind::Starting);
    if (state.fault.is_some() && !is_starting) || state.absent.is_some() {
        return true;
    }
    let has_uses = node
        .process_list(backend)
        .is_none_or(|uses| uses.taken_at.is_some() || uses.fault.is_some());
    state.taken_at.is_some() && has_uses && has_reported(node, &backend.slow())
}

/// Returns true if a source is missing, or has reported values or a fault.
fn has_reported(node: &Node, source: &Source) -> bool {
    node.source(source).is_none_or(|state| state.taken_at.is_some() || state.fault.is_some())
}

fn update_from(host: &mut HostReading, newer: HostReading) {
    host.cpu.update_from(newer.cpu);
    host.load.update_from(newer.load);
    host.memory_total.update_from(newer.memory_total);
    host.memory_available.update_from(newer.memory_available);
    host.swap_total.update_from(newer.swap_total);
    host.swap_free.update_from(newer.swap_free);
    host.pressure.cpu.update_from(newer.pressure.cpu);
    host.pressure.memory.update_from(newer.pressure.memory);
    host.pressure.io.update_from(newer.pressure.io);
    host.uptime_seconds.update_from(newer.uptime_seconds);
    update_boot_time(&mut host.booted_at, newer.booted_at);
    host.network = newer.network;
    host.infiniband = newer.infiniband;
    host.disks = newer.disks;
}

/// The boot time is computed anew from each sample and jitters; only a step of 2 s or more is a change.
fn update_boot_time(known: &mut Reading<Timestamp>, newer: Reading<Timestamp>) {
    const CLOCK_STEP: Duration = Duration::from_secs(2);
    if let (Some(one), Some(other)) = (known.get(), newer.get())
        && one.since(other).max(other.since(one)) < CLOCK_STEP
    {
        return;
    }
    known.update_from(newer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{
        BackendReading, BackendState, Device, DeviceFault, DevicesReading, Fault, FaultKind,
        Freshness, HostFacts, ProcessReading, SourceFault, UsesReading,
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
            backends: vec![BackendState { source: smi(), absent: None, driver: None }],
            ..Hello::default()
        }
    }

    fn smi() -> Source {
        Source::new("nvidia-smi")
    }

    fn host_at(millis: i64, busy: u64, idle: u64, received: u64) -> Sample {
        let counter = Counter { name: "eth0".into(), inward: received, outward: 0 };
        let host = HostReading {
            cpu: Reading::Known(CpuTicks { busy, idle }),
            network: [counter].into(),
            ..HostReading::default()
        };
        Sample { host: Some((at(millis), host)), ..Sample::default() }
    }

    fn devices_at(millis: i64, list: Vec<Device>) -> Sample {
        let devices = Some(DevicesReading { at: at(millis), list });
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

    #[test]
    fn rates_need_two_samples_and_a_while_between() {
        let mut builder = builder();
        builder.on_sample(host_at(0, 100, 100, 1_000));
        assert_eq!(builder.node().host.cpu, Reading::Unknown(Reason::NeedsTwoSamples));
        builder.on_sample(host_at(100, 110, 100, 1_500));
        assert_eq!(builder.node().host.cpu, Reading::Unknown(Reason::NeedsTwoSamples));
        builder.on_sample(host_at(500, 130, 110, 2_000));
        let node = builder.node();
        assert_eq!(node.host.cpu.get().map(Percent::get), Some(75.0));
        assert_eq!(node.host.network[0].inward, Bytes(2_000));
    }

    #[test]
    fn rates_of_the_session_before_are_not_those_of_now() {
        let mut builder = builder();
        builder.on_sample(host_at(0, 100, 100, 1_000));
        builder.on_sample(host_at(1_000, 110, 110, 2_000));
        assert_eq!(builder.node().host.network.len(), 1);
        builder.on_link(Link::Opening { attempt: 1 });
        builder.on_link(Link::Up);
        assert_eq!(builder.node().host.network.len(), 1, "it has its age");
        builder.on_sample(host_at(9_000, 120, 120, 3_000));
        assert!(builder.node().host.network.is_empty());
        builder.on_sample(host_at(10_000, 130, 130, 4_000));
        assert_eq!(builder.node().host.network[0].inward, Bytes(1_000));
    }

    #[test]
    fn a_node_that_never_says_the_same_takes_no_more_room_than_a_large_one() {
        let mut builder = builder();
        for round in 0..150_u32 {
            let devices = (0..64).map(|index| device(&format!("GPU-{round}-{index}"), index, 7.0));
            let mut sample = devices_at(i64::from(round) * 1_000, devices.collect());
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
    fn counters_that_run_backwards_give_no_rate() {
        let mut builder = builder();
        builder.on_sample(host_at(0, 100, 100, 9_000));
        builder.on_sample(host_at(1_000, 50, 200, 10));
        assert_eq!(builder.node().host.cpu, Reading::Unknown(Reason::NeedsTwoSamples));
        assert!(builder.node().host.network.is_empty());
    }

    #[test]
    fn a_node_cannot_have_old_values_shown_as_fresh() {
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
        assert_eq!(intervals(&builder), [1, 21, 21]);
        builder.on_sample(host_at(0, 1, 1, 0));
        let host = builder.node().source(&Source::host()).unwrap().clone();
        assert_eq!(host.freshness(at(3_000)), Freshness::Fresh);
        assert!(!host.freshness(at(3_001)).is_fresh());
        // A longer requested interval allows a longer announced one, for as long as it is requested.
        builder.set_interval(Duration::from_secs(60));
        builder.on_hello(hello);
        assert_eq!(intervals(&builder), [60, 60, 60]);
        builder.set_interval(Duration::from_secs(2));
        assert_eq!(intervals(&builder), [2, 22, 22]);
    }

    #[test]
    fn a_node_is_settled_when_rates_and_every_backend_are_there() {
        let mut builder = builder();
        builder.on_sample(host_at(0, 1, 1, 0));
        builder.on_sample(host_at(300, 2, 2, 0));
        assert!(!builder.node().is_settled);
        builder.on_sample(devices_at(300, vec![]));
        assert!(builder.node().is_settled);
        builder.on_link(Link::Opening { attempt: 1 });
        assert!(!builder.node().is_settled);
    }

    #[test]
    fn a_node_is_settled_when_what_changes_slowly_is_there_or_why_it_is_not() {
        let settled = |slow: &Source, sample: Sample| {
            let mut builder = builder();
            let mut hello = hello("boot-1");
            hello.intervals.push((slow.clone(), Duration::from_secs(10)));
            builder.on_hello(hello);
            builder.on_sample(devices_at(0, vec![]));
            builder.on_sample(host_at(0, 1, 1, 0));
            builder.on_sample(host_at(300, 2, 2, 0));
            assert!(!builder.node().is_settled, "{slow}");
            builder.on_sample(sample);
            builder.node().is_settled
        };
        let mut told = devices_at(300, vec![]);
        told.backends[0].slow_at = Some(at(300));
        assert!(settled(&smi().slow(), told));
        let fault = SourceFault {
            kind: SourceFaultKind::Stuck,
            call: "df".into(),
            message: "".into(),
            duration: Duration::from_secs(3),
            at: at(300),
        };
        for slow in [smi().slow(), smi().processes(), Source::host_slow()] {
            let faults = vec![(slow.clone(), fault.clone())];
            assert!(settled(&slow, Sample { faults, ..Sample::default() }), "{slow}");
        }
    }

    #[test]
    fn a_stuck_backend_settles_too_and_ages_while_the_host_is_fresh() {
        let mut builder = builder();
        builder.on_sample(devices_at(0, vec![device("GPU-1", 0, 50.0)]));
        for second in 0..9 {
            builder.on_sample(host_at(second * 1_000, 10, 10, 0));
        }
        let fault = SourceFault {
            kind: SourceFaultKind::Stuck,
            call: "nvidia-smi".into(),
            message: "".into(),
            duration: Duration::from_secs(5),
            at: at(8_000),
        };
        builder.on_sample(Sample { faults: vec![(smi(), fault)], ..Sample::default() });
        let node = builder.node();
        assert_eq!(node.host_freshness(at(8_000)), Freshness::Fresh);
        assert_eq!(node.freshness(at(8_000)), Freshness::Stale(Duration::from_secs(8)));
        assert!(node.source_fault().is_some());
        builder.on_sample(devices_at(9_000, vec![device("GPU-1", 0, 51.0)]));
        assert!(builder.node().source_fault().is_none());
    }

    #[test]
    fn a_device_that_is_missing_is_gone_and_a_lost_one_keeps_its_name() {
        let mut builder = builder();
        builder.on_sample(devices_at(0, vec![device("GPU-b", 1, 5.0), device("GPU-a", 0, 5.0)]));
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
        builder.on_sample(devices_at(1_000, vec![device("GPU-a", 0, 5.0), lost]));
        assert_eq!(uuids(&builder), ["GPU-a", "GPU-b"]);
        assert_eq!(builder.node().devices[1].utilization.get(), None);
        builder.on_sample(devices_at(2_000, vec![device("GPU-a", 0, 5.0)]));
        assert_eq!(uuids(&builder), ["GPU-a"]);
    }

    #[test]
    fn what_a_process_is_comes_once_and_its_load_comes_from_ticks() {
        let mut builder = builder();
        let key = ProcessKey { pid: 42, start_ticks: 7 };
        let statics =
            ProcessStatics { user: Reading::Known("ada".into()), ..ProcessStatics::default() };
        let tick = |millis, ticks, statics| Sample {
            processes: Some(ProcessesReading {
                at: at(millis),
                list: vec![ProcessReading {
                    key,
                    cpu_ticks: Reading::Known(ticks),
                    resident: Reading::default(),
                    state: Reading::default(),
                    threads: Reading::default(),
                    statics,
                }],
                unseen: Vec::new(),
            }),
            ..Sample::default()
        };
        builder.on_sample(tick(0, 100, Some(Arc::new(statics))));
        builder.on_sample(tick(1_000, 350, None));
        let node = builder.node();
        assert_eq!(node.processes[0].statics.user.known().map(|user| &**user), Some("ada"));
        assert_eq!(node.processes[0].cpu_percent.get(), Some(250.0));
        // Too little time has passed to compute a rate.
        builder.on_sample(tick(1_001, 360, None));
        assert_eq!(builder.node().processes[0].cpu_percent.get(), Some(250.0));
        builder.on_sample(tick(2_000, 400, None));
        assert_eq!(builder.node().processes[0].cpu_percent.get(), Some(50.0));
    }

    #[test]
    fn a_process_has_an_age_a_share_of_memory_and_the_state_last_told() {
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
    fn another_boot_forgets_the_devices() {
        let mut builder = builder();
        builder.on_sample(devices_at(0, vec![device("GPU-a", 0, 5.0)]));
        builder.on_hello(hello("boot-2"));
        assert_eq!(builder.node().devices, []);
        assert_eq!(builder.node().link, Link::Up);
    }

    #[test]
    fn a_node_tells_how_it_is_reached() {
        let mut builder = builder();
        assert_eq!(builder.node().via, None);
        builder.on_transport(TransportKind::Step);
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
        builder.on_sample(devices_at(0, vec![device("GPU-a", 0, 5.0)]));
        let uses = |pids: &[u32]| {
            let list = pids
                .iter()
                .map(|pid| DeviceUse { device: "GPU-a".into(), pid: *pid, ..DeviceUse::default() })
                .collect();
            let uses = Some(UsesReading { at: at(1), list });
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
