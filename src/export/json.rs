//! The JSON snapshot.
//!
//! `{schema, at, source, roster, nodes: [{name, link, fault, sources, host, devices, jobs}], jobs, totals}`.
//! Keys are field ids; an unknown value is `null`, with its reason under `unknown` in the same object. Every object
//! always has the same keys.

use std::borrow::Cow;
use std::io::{self, Write};

use jiff::tz::TimeZone;
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use crate::export::OutputField;
use crate::export::json::jobs::{
    FinishedJson, HolderJson, HostShareJson, Jobs, RosterJson, finished_jobs, host_share,
};
use crate::export::json::schema::{
    JsonShape, Metrics, Moment, Objects, SchemaVersion, Shaped, object,
};
use crate::export::output_field::{DeviceKey, OutputRow, OutputRows};
use gtop_fleet::advice::{self, Known, Reader, Step};
use gtop_fleet::insight::node_status::fleet_notes;
use gtop_fleet::insight::note::Note;
use gtop_fleet::metrics::{Usage, measured_digits};
use gtop_fleet::{
    DeviceState, EventRecord, Fleet, HealthReason, Node, SourceState, StateReason, Totals, Traffic,
};
use gtop_local::time::Timestamp;
use gtop_model::{
    Ancestor, Bytes, Device, DeviceFault, DriverFacts, Fault, Hello, KernelLine, Link,
    LinkCounters, NodeName, Percent, Reason, SchedulerNode, Source, SourceFault, Space, SudoState,
    TpuCore, TransportKind, UnreadableDevices, Watts,
};

pub use schema::write_json_schema;

mod jobs;
mod schema;

/// Writes one snapshot as one line; `source` describes what is monitored.
pub fn write_json(
    out: &mut impl Write,
    fleet: &Fleet,
    now: Timestamp,
    source: &str,
) -> io::Result<()> {
    write_snapshot(out, fleet, now, source, None)
}

/// Serialises what [`write_json`] writes.
pub fn serialize_fleet<S: Serializer>(
    fleet: &Fleet,
    now: Timestamp,
    source: &str,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    Snapshot::of(fleet, now, source, None).serialize(serializer)
}

/// Same as [`write_json`], but with only these fields of each device.
pub fn write_chosen_json(
    out: &mut impl Write,
    fleet: &Fleet,
    now: Timestamp,
    zone: &TimeZone,
    source: &str,
    fields: &[OutputField],
) -> io::Result<()> {
    let rows = OutputRows::of(fleet, now, zone);
    write_snapshot(out, fleet, now, source, Some((&rows, fields)))
}

/// The devices with their owners, and the fields to write of each.
type ChosenFields<'a> = (&'a OutputRows, &'a [OutputField]);

fn write_snapshot(
    out: &mut impl Write,
    fleet: &Fleet,
    now: Timestamp,
    source: &str,
    chosen: Option<ChosenFields<'_>>,
) -> io::Result<()> {
    let snapshot = Snapshot::of(fleet, now, source, chosen);
    serde_json::to_writer(&mut *out, &snapshot)?;
    out.write_all(b"\n")
}

object! {
    /// The monitored nodes, their devices and their jobs at one moment.
    Snapshot<'a> as "snapshot" of (
        fleet: &'a Fleet,
        now: Timestamp,
        source: &'a str,
        chosen: Option<ChosenFields<'a>>,
    ) {
        /// Version of this schema.
        schema: SchemaVersion = SchemaVersion,
        /// When the snapshot was written, by the local clock.
        at: Option<Moment> = rfc3339(now),
        /// What is monitored, as text.
        source: &'a str = source,
        /// The scheduler's job list; null when no scheduler is queried.
        roster: Option<RosterJson<'a>> = fleet.jobs.as_ref().map(|list| RosterJson::of(list, now)),
        /// The nodes, in the order given.
        nodes: Nodes<'a> = Nodes { fleet, now, chosen },
        /// The jobs: those the scheduler lists, and those known from processes only.
        jobs: Jobs<'a> = Jobs { fleet, now },
        /// The jobs that have ended in the last day, the last end first; null if they are not known, as in a single snapshot.
        finished_jobs: Option<Vec<FinishedJson<'a>>> = finished_jobs(fleet, now),
        /// Totals over all nodes.
        totals: TotalsJson = TotalsJson::of(&Totals::of(fleet, now)),
    }
}

fn rfc3339(at: Timestamp) -> Option<Moment> {
    jiff::Timestamp::from_microsecond(at.as_micros()).ok().map(|at| Moment(at.to_string()))
}

/// Seconds with three decimals.
fn millis(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn age(at: Timestamp, now: Timestamp) -> f64 {
    millis(now.since(at).as_secs_f64())
}

/// The nodes, each serialised when it is written: there may be thousands.
struct Nodes<'a> {
    fleet: &'a Fleet,
    now: Timestamp,
    chosen: Option<ChosenFields<'a>>,
}

impl Serialize for Nodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.fleet.nodes.iter().map(|node| NodeJson::of(self, node)))
    }
}

impl Shaped for Nodes<'_> {
    fn shape(objects: &mut Objects) -> JsonShape {
        JsonShape::Array(Box::new(NodeJson::shape(objects)))
    }
}

object! {
    /// A node.
    NodeJson<'a> as "node" of (nodes: &Nodes<'a>, node: &'a Node) with {
        let now = nodes.now;
    } {
        /// Node name, as given.
        name: &'a str = node.name.as_str(),
        /// Connection state: idle, opening, up or down.
        link: &'static str = link_state(&node.link),
        /// Transport: native, ssh, exec, srun, local, http or in-process; null before the first connection.
        transport: Option<&'static str> = node.via.map(TransportKind::as_str),
        /// Why the node is not connected.
        fault: Option<FaultJson<'a>> = node.fault().map(|fault| FaultJson::of(node, fault, now)),
        /// True if the values are current; nodes that are not fresh are left out of sums.
        fresh: bool = node.freshness(now).is_fresh(),
        /// The name under which the same machine counts, if that is another one.
        same_as: Option<&'a str> = nodes.fleet.same_as.get(&node.name).map(NodeName::as_str),
        /// Data sources, each with its own age and fault.
        sources: Vec<SourceJson<'a>> =
            node.sources.iter().map(|state| SourceJson::of(node, state, now)).collect(),
        /// The host: CPU, memory, network, disks.
        host: HostJson<'a> = HostJson::of(node),
        /// What the container in which the probe runs has and uses of the host; null if it has no limit below the host, or if
        /// that has not been read yet.
        container: Option<HostShareJson> = host_share(node, node.own_share(), now),
        /// Devices in the driver's order, each followed by its MIG slices.
        devices: Devices<'a> = Devices { node, now, chosen: nodes.chosen },
        /// Why the node or its devices need attention, and what its connection does; the most important first.
        notes: Vec<NoteJson> = fleet_notes(nodes.fleet, node, now)
            .iter()
            .filter(|note| !note.names_key())
            .map(|note| NoteJson::of(node, note))
            .collect(),
        /// Device events since gtop started, latest last.
        events: Vec<EventJson<'a>> =
            node.events.iter().map(|record| EventJson::of(node, record, now)).collect(),
        /// What the scheduler says of the node; null without a scheduler that knows it.
        scheduler: Option<SchedulerNodeJson<'a>> =
            node.scheduler.as_deref().map(|known| SchedulerNodeJson::of(known, nodes.fleet.answered_at(known), now)),
        /// Number of devices of jobs that the scheduler does not show; null if that is not known.
        hidden_job_devices: Option<u32> = node.holdings.hidden,
        /// Number of devices that jobs have, and of which it is not known which they are.
        unplaced_devices: u32 = node.holdings.unplaced,
        /// Ids of the jobs on the node.
        jobs: Vec<&'a str> =
            node.holdings.jobs().iter().map(|known| known.job.as_str()).collect(),
    }
}

object! {
    /// A note on a node or its devices.
    NoteJson as "note" of (node: &Node, note: &Note) {
        /// Its kind; the same for the same kind of note, whatever its text.
        id: &'static str = note.id(),
        /// error, warning, notice, recovery or info.
        severity: &'static str = note.severity().as_str(),
        /// Text.
        text: String = note.text(),
        /// What it means.
        meaning: String = note.meaning().into_owned(),
        /// What to do about it; empty if nothing.
        remedy: String = note.advice(&node.name, reader(node)).text(),
    }
}

object! {
    /// What the scheduler says of a node.
    SchedulerNodeJson<'a> as "scheduler" of (node: &'a SchedulerNode, at: Option<Timestamp>, now: Timestamp) {
        /// Its partitions.
        partitions: Vec<&'a str> = node.partitions.iter().map(|name| &**name).collect(),
        /// Its state, such as idle, mixed, allocated, draining, drained, down or powered down.
        state: &'static str = node.state.as_str(),
        /// What the scheduler says besides, such as planned, reboot pending or powering up.
        state_flags: Vec<&'static str> = node.flags.iter().map(|flag| flag.as_str()).collect(),
        /// True if the scheduler reaches its daemon there.
        responding: bool = node.is_responding,
        /// True if it is powered down, or on its way there or back; it is not connected to then.
        powered_off: bool = node.is_powered_off(),
        /// True if new jobs start there: only then do its unused devices count as free.
        takes_jobs: bool = node.takes_jobs(),
        /// Why it takes no jobs, as the administrator or the scheduler wrote it.
        reason: Option<&'a str> = node.reason.as_deref(),
        /// Its features.
        features: Vec<&'a str> = node.features.iter().map(|name| &**name).collect(),
        /// Number of its devices.
        devices: Option<u32> = node.devices,
        /// Number of devices that jobs have, those of jobs that are not listed included; null if the scheduler does not say.
        devices_allocated: Option<u32> = node.allocated,
        /// How long ago the scheduler said so; of several answers, the oldest counts.
        age_seconds: Option<f64> = at.map(|at| age(at, now)),
    }
}

/// Returns who reads what to do: a program, unless gtop does not try the node again.
const fn reader(node: &Node) -> Reader {
    if matches!(node.link, Link::Down { retry_at: None, .. }) {
        Reader::Print
    } else {
        Reader::Program
    }
}

fn link_state(link: &Link) -> &'static str {
    match link {
        Link::Idle => "idle",
        Link::Opening { .. } => "opening",
        Link::Up => "up",
        Link::Down { .. } => "down",
    }
}

object! {
    /// Why a node is not connected.
    FaultJson<'a> as "fault" of (node: &Node, fault: &'a Fault, now: Timestamp) with {
        let retry_at = match &node.link {
            Link::Down { retry_at, .. } => *retry_at,
            Link::Idle | Link::Opening { .. } | Link::Up => None,
        };
        let advice = advice::for_fault(fault, &Known::of_node(&node.name, reader(node)));
    } {
        /// Kind of fault, as shown on the screen.
        kind: &'static str = fault.kind.label(),
        /// Details of the fault; may be empty.
        detail: &'a str = &fault.detail,
        /// What happened at this node, in full.
        what: String = fault.what().into_owned(),
        /// What to do about it, one step per line; lines for a file are indented.
        remedy: String = advice.text(),
        /// What to do about it, step by step.
        steps: Vec<StepJson> = advice.steps.iter().map(StepJson::of).collect(),
        /// Seconds until gtop retries; null when it does not retry automatically.
        retry_in_seconds: Option<f64> = retry_at.map(|at| millis(at.since(now).as_secs_f64())),
    }
}

object! {
    /// A step of advice.
    StepJson as "step" of (step: &Step) {
        /// What to do, as a sentence that ends with the command.
        text: String = step.sentence(),
        /// The command that does it, for a shell; null if a person has to do it.
        command: Option<String> = step.command.clone(),
        /// True if root has to do it, on the machine that the text names.
        needs_root: bool = step.needs_root(),
        /// The file that the lines are for.
        file: Option<&'static str> = step.file,
        /// Lines for the file.
        lines: Vec<String> = step.lines.clone(),
    }
}

object! {
    /// A data source of a node: the host, a driver interface, or a slower group of either, such as
    /// host.slow or nvml.processes.
    SourceJson<'a> as "source" of (node: &'a Node, state: &'a SourceState, now: Timestamp) with {
        let mut backends = node.hello.iter().flat_map(|hello| &hello.backends);
        let backend = backends.find(|backend| backend.source == state.source);
        let driver = backend.and_then(|backend| backend.driver.as_deref());
    } {
        /// Source name.
        id: &'a str = state.source.as_str(),
        /// Age of the last sample; null when there is none.
        age_seconds: Option<f64> = state.taken_at.map(|at| age(at, now)),
        /// Sampling interval.
        interval_seconds: f64 = state.interval.as_secs_f64(),
        /// True if the values are current.
        fresh: bool = state.freshness(now).is_fresh(),
        /// Why the node does not have this source.
        absent: Option<&'a str> = state.absent.as_deref(),
        /// True if the backend was written from documentation and never tested on a real device.
        experimental: bool = driver.is_some_and(|driver| driver.is_experimental),
        /// The driver behind the source.
        driver: Option<DriverJson<'a>> = driver.map(DriverJson::of),
        /// Why the source has no new values.
        fault: Option<SourceFaultJson<'a>> =
            state.fault.as_ref().map(|fault| SourceFaultJson::of(fault, now)),
    }
}

object! {
    /// A driver.
    DriverJson<'a> as "driver" of (driver: &'a DriverFacts) {
        /// Driver version.
        version: Option<&'a str> = driver.version.as_deref(),
        /// Version of the driver's library.
        library: Option<&'a str> = driver.library.as_deref(),
        /// Highest CUDA version the driver supports.
        cuda: Option<&'a str> = driver.cuda.as_deref(),
        /// Why the driver reports no events, such as Xids.
        no_events: Option<&'a str> = driver.no_events.as_deref(),
    }
}

object! {
    /// Why a source has no new values.
    SourceFaultJson<'a> as "source_fault" of (fault: &'a SourceFault, now: Timestamp) {
        /// Kind of fault, as shown on the screen.
        kind: &'static str = fault.kind.label(),
        /// The call that hangs or failed.
        call: &'a str = &fault.call,
        /// Error message; may be empty.
        message: &'a str = &fault.message,
        /// How long the fault has lasted.
        for_seconds: f64 = millis((fault.duration + now.since(fault.at)).as_secs_f64()),
        /// What to do about it.
        remedy: &'static str = advice::source::of_source(fault.kind),
    }
}

object! {
    /// A device event; repeated events are counted.
    EventJson<'a> as "event" of (node: &Node, record: &'a EventRecord, now: Timestamp) with {
        let event = &record.event;
        let device = node.device(&event.device);
    } {
        /// Time of the last occurrence.
        at: Option<Moment> = rfc3339(event.at),
        /// Time of the first occurrence.
        first_at: Option<Moment> = rfc3339(record.first_at),
        /// Seconds since the last occurrence.
        age_seconds: f64 = age(event.at, now),
        /// Number of occurrences.
        count: u64 = record.count,
        /// The source that reported it.
        source: &'a str = event.source.as_str(),
        /// Kind: xid, ecc, retirement, poison, unavailable, recovery, lost, reset, gone, returned, or another word of the probe.
        kind: &'a str = event.kind.as_str(),
        /// UUID of the device; its PCI id if the kernel's log tells of it and no driver lists it.
        device: &'a str = &event.device,
        /// Index of the device; null when the device is not known any more.
        index: Option<u32> = device.and_then(|device| device.index.get()),
        /// Xid number, or NVML's number of the recovery action.
        code: Option<u64> = event.code,
        /// Meaning of the event.
        text: String = event.text(),
        /// The driver's message; may be empty.
        message: &'a str = &event.message,
        /// The last lines of the kernel's log that tell of it, oldest first; empty where gtop does not read that log.
        lines: Vec<KernelLineJson<'a>> =
            record.lines.iter().map(|line| KernelLineJson::of(line, now)).collect(),
    }
}

object! {
    /// A line of the kernel's log that tells of an Xid.
    KernelLineJson<'a> as "kernel_line" of (line: &'a KernelLine, now: Timestamp) {
        /// When it was logged.
        at: Option<Moment> = rfc3339(line.at),
        /// Seconds since then.
        age_seconds: f64 = age(line.at, now),
        /// PCI id of the device.
        pci: &'a str = &line.pci,
        /// GPU instance of the slice; null if the line is of the whole device.
        gpu_instance: Option<u32> = line.gpu_instance,
        /// The process, as the driver knows it.
        pid: Option<u32> = line.pid,
        /// Name of the process; may be empty.
        process: &'a str = &line.process,
        /// The rest of the line.
        text: &'a str = &line.words,
    }
}

object! {
    /// The host of a node. Its static properties are null until the probe has reported them.
    HostJson<'a> as "host" of (node: &'a Node) with {
        let hello = node.hello.as_deref();
        let text = |read: fn(&'a Hello) -> &'a str| hello.map(read).filter(|text| !text.is_empty());
        let of_probe = hello.filter(|_| !node.is_read_from_page());
        let unreadable = hello.map(|hello| hello.host.unreadable_devices()).unwrap_or_default();
    } {
        /// The machine's own host name.
        host_name: Option<&'a str> = text(|hello| &hello.host.host_name),
        /// Boot id of the kernel.
        boot_id: Option<&'a str> = text(|hello| &hello.host.boot_id),
        /// Kernel release.
        kernel: Option<&'a str> = text(|hello| &hello.host.kernel),
        /// Logical processors.
        cpus: Option<u32> = hello.map(|hello| hello.host.cpus).filter(|count| *count > 0),
        /// Probe interpreter, python or sh; or the exporters of its page of metrics.
        probe: Option<&'a str> = hello.map(|hello| &*hello.probe),
        /// Mount option hidepid of /proc; above 0, processes of other users may be hidden.
        hidepid: Option<u8> = of_probe.map(|hello| hello.host.hidepid),
        /// With --sudo: root if the probe runs as root, otherwise a word that says why not; null without --sudo.
        sudo: Option<&'a str> = hello.and_then(|hello| hello.sudo).map(SudoState::as_str),
        /// True if the probe reads what the kernel logs of Xids, which only root may.
        kernel_log: Option<bool> = of_probe.map(|hello| hello.reads_kernel_log),
        /// True if the probe runs in its own PID namespace and sees no processes outside it.
        contained: Option<bool> = of_probe.map(|hello| hello.host.is_contained),
        /// Accelerators on the PCI bus that gtop cannot read.
        unreadable_devices: Vec<UnreadableJson> =
            unreadable.iter().map(UnreadableJson::of).collect(),
        ..metrics: Metrics<'a, Node> = Metrics::of(node),
        /// Traffic of each network interface.
        network: Vec<Flow<'a>> = node.host.network.iter().map(Flow::of).collect(),
        /// Traffic of each InfiniBand port.
        infiniband: Vec<Flow<'a>> = node.host.infiniband.iter().map(Flow::of).collect(),
        /// Traffic of each disk.
        disks: Vec<DiskFlow<'a>> = node.host.disks.iter().map(DiskFlow::of).collect(),
        /// Disk space of local file systems.
        space: Vec<SpaceJson<'a>> = node.host.slow.space.iter().map(SpaceJson::of).collect(),
    }
}

object! {
    /// Accelerators of one kind that gtop cannot read.
    UnreadableJson as "unreadable_devices" of (found: &UnreadableDevices) {
        /// How many there are.
        count: usize = found.count,
        /// The vendor's name, or else its PCI id.
        vendor: String = found.vendor_name(),
        /// PCI id of the vendor.
        vendor_id: u32 = found.vendor.into(),
        /// PCI id of the device.
        device_id: u32 = found.device.into(),
        /// The driver that has them; null if there is none.
        driver: Option<String> = found.driver.as_deref().map(str::to_owned),
        /// Text.
        text: String = found.text(),
    }
}

object! {
    /// Traffic of a network interface or port.
    Flow<'a> as "flow" of (traffic: &'a Traffic) {
        /// Interface or port name.
        name: &'a str = &traffic.name,
        /// Bytes received per second.
        receive_bytes_per_second: u64 = traffic.inward.0,
        /// Bytes sent per second.
        transmit_bytes_per_second: u64 = traffic.outward.0,
    }
}

object! {
    /// Traffic of a disk.
    DiskFlow<'a> as "disk_flow" of (traffic: &'a Traffic) {
        /// Disk name.
        name: &'a str = &traffic.name,
        /// Bytes read per second.
        read_bytes_per_second: u64 = traffic.inward.0,
        /// Bytes written per second.
        write_bytes_per_second: u64 = traffic.outward.0,
    }
}

object! {
    /// Disk space of a file system.
    SpaceJson<'a> as "space" of (space: &'a Space) {
        /// Mount point.
        path: &'a str = &space.path,
        /// Size.
        total_bytes: u64 = space.total.0,
        /// Space free for an ordinary user.
        free_bytes: u64 = space.free.0,
    }
}

/// The devices of a node.
struct Devices<'a> {
    node: &'a Node,
    now: Timestamp,
    chosen: Option<ChosenFields<'a>>,
}

impl Serialize for Devices<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { node, now, chosen } = self;
        let all = node.devices.iter().enumerate();
        match chosen {
            None => serializer
                .collect_seq(all.map(|(index, device)| DeviceJson::of(node, index, device, *now))),
            Some((rows, fields)) => {
                serializer.collect_seq(rows.of_node(node).map(|row| ChosenJson { row, fields }))
            }
        }
    }
}

impl Shaped for Devices<'_> {
    fn shape(objects: &mut Objects) -> JsonShape {
        JsonShape::Array(Box::new(DeviceJson::shape(objects)))
    }
}

/// What identifies a device, and the chosen fields.
struct ChosenJson<'a> {
    row: OutputRow<'a>,
    fields: &'a [OutputField],
}

impl Serialize for ChosenJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let identity = [DeviceKey::Uuid, DeviceKey::Index, DeviceKey::Parent].map(OutputField::Key);
        let mut map = serializer.serialize_map(None)?;
        let chosen = self.fields.iter();
        let others = chosen.filter(|field| identity.iter().all(|known| known.id() != field.id()));
        for field in identity.iter().chain(others) {
            schema::write_value(&mut map, &field.id(), &self.row.value(*field))?;
        }
        map.end()
    }
}

object! {
    /// A device, or a MIG slice of one.
    DeviceJson<'a> as "device" of (
        node: &'a Node,
        index: usize,
        device: &'a Device,
        now: Timestamp,
    ) with {
        let unknown_extra = node.users_unknown_reason(index).map(|why| ("processes", why));
        let links = device.details.as_ref().and_then(|details| details.links.known());
        let unsampled = node.unsampled_reason(index, Source::slow);
        let unsampled_use = node.unsampled_reason(index, Source::processes);
        let holdings = node.holdings.device(&device.uuid);
        let cores = device.tpu.as_ref().and_then(|tpu| tpu.by_core.known());
    } {
        /// UUID.
        uuid: &'a str = &device.uuid,
        /// Index of the device; for a slice, its index within the device.
        index: Option<u32> = device.index.get(),
        /// For a slice, the UUID of its device. Slices count instead of it; its memory and power are in sums.
        parent: Option<&'a str> = device.parent.as_deref(),
        /// True if the values are current.
        fresh: bool = node.device_freshness(index, now).is_fresh(),
        /// What it counts as in `totals`: busy, `idle_held`, free, faulty, stale, unavailable or unknown; null if its slices count
        /// instead.
        state: Option<&'static str> = DeviceState::of(node, index, now).map(DeviceState::id),
        /// Why it is not free, or not known to be; null if it is busy, free, faulty or stale.
        state_reason: Option<&'static str> = StateReason::of(node, index, now).map(StateReason::id),
        /// Why the driver reports no values: lost, needs reset, no permission, gone, or the driver's message.
        fault: Option<&'a str> = device.fault.as_ref().map(device_fault),
        /// Since when the driver does not list it any more; null if it does.
        gone_since: Option<Moment> = device.gone_since().and_then(rfc3339),
        /// How sound it is: ok, degraded, faulty or unknown.
        health: &'static str = node.health(device).as_str(),
        /// Why it is not ok, the worst first; empty if it is.
        health_reasons: Vec<HealthReasonJson> =
            node.health_reasons(device).iter().map(HealthReasonJson::of).collect(),
        ..metrics: Metrics<'a, Device> =
            Metrics { unknown_extra, unsampled, ..Metrics::of(device) },
        /// The counters of each `NVLink`.
        links: Vec<LinkJson> =
            links.iter().flat_map(|links| links.iter()).map(LinkJson::of).collect(),
        /// The cores of a TPU chip that has several.
        cores: Vec<CoreJson> =
            cores.iter().flat_map(|cores| cores.iter()).map(CoreJson::of).collect(),
        /// Who has it: jobs of the scheduler first, then others whose processes use it.
        holders: Vec<HolderJson> = holdings.claims.iter().map(HolderJson::of).collect(),
        /// How sure it is that no other job has it: certain, likely, disputed, unknown.
        no_other_job: &'static str = holdings.rest.as_str(),
        /// Processes on the device; empty when there are none, null when unknown.
        processes: Option<Vec<UsageJson<'a>>> =
            unknown_extra.is_none().then(|| {
                let uses = Usage::of(node, device);
                uses.map(|usage| UsageJson::of(usage, unsampled_use)).collect()
            }),
    }
}

object! {
    /// Why a device is not sound.
    HealthReasonJson as "health_reason" of (reason: &HealthReason) {
        /// Its kind.
        id: &'static str = reason.id(),
        /// Text.
        text: String = reason.text(),
    }
}

fn device_fault(fault: &DeviceFault) -> &str {
    match fault {
        DeviceFault::Other(message) => message,
        DeviceFault::Lost
        | DeviceFault::NeedsReset
        | DeviceFault::NoPermission
        | DeviceFault::Gone(_) => fault.kind(),
    }
}

object! {
    /// The counters of an `NVLink`.
    LinkJson as "link" of (link: &LinkCounters) {
        /// Bytes sent since the driver was loaded.
        transmit_bytes: Option<u64> = link.sent,
        /// Bytes received since the driver was loaded.
        receive_bytes: Option<u64> = link.received,
    }
}

object! {
    /// A core of a TPU chip.
    CoreJson as "core" of (core: &TpuCore) {
        /// Memory in use.
        memory_used_bytes: Option<u64> = core.memory_used.map(|Bytes(bytes)| bytes),
        /// Total memory.
        memory_total_bytes: Option<u64> = core.memory_total.map(|Bytes(bytes)| bytes),
        /// Utilization.
        utilization_percent: Option<f64> = core.utilization.map(Percent::get).map(measured_digits),
    }
}

object! {
    /// A process on a device.
    UsageJson<'a> as "process" of (usage: Usage, unsampled: Reason) with {
        let process = usage.process.as_ref();
        let parents = process.iter().flat_map(|process| process.statics.parents.iter());
        let parents = parents.map(ParentJson::of).collect();
    } {
        /// Process id.
        pid: u32 = usage.used.pid,
        /// Start time in clock ticks since boot; identifies the process together with pid.
        start_ticks: Option<u64> = process.and_then(|process| process.key.start()),
        ..metrics: Metrics<'a, Usage> =
            Metrics { subject: Cow::Owned(usage), unknown_extra: None, unsampled },
        /// Ancestor processes, nearest first.
        parents: Vec<ParentJson> = parents,
    }
}

object! {
    /// An ancestor of a process.
    ParentJson as "parent" of (ancestor: &Ancestor) {
        /// Process id.
        pid: u32 = ancestor.key.pid,
        /// Start time in clock ticks since boot.
        start_ticks: u64 = ancestor.key.start_ticks,
        /// Process name.
        name: String = ancestor.name.to_string(),
    }
}

object! {
    /// Totals, each machine counted once. Every known device counts as exactly one of busy, held, free, faulty, stale,
    /// unavailable, in use or unknown; the other sums cover fresh nodes only. Slices count instead of what they are cut from.
    TotalsJson as "totals" of (totals: &Totals) {
        /// Nodes monitored.
        nodes: usize = totals.nodes,
        /// Nodes with current values.
        fresh: usize = totals.fresh,
        /// Connected nodes whose values are stale.
        stale: usize = totals.stale,
        /// Nodes that are not connected.
        down: usize = totals.down,
        /// Nodes that let in only users with a job there: the scheduler's word is all that is known of them.
        reported: usize = totals.reported,
        /// Nodes that are fresh or stale.
        known: usize = totals.fresh + totals.stale,
        /// All that can be given away, fresh or not: slices, and devices without slices. The sum of the eight that follow.
        devices: usize = totals.devices,
        /// Devices at 5 % utilization or more.
        devices_busy: usize = totals.busy,
        /// Idle-held devices: allocated or in use, and below 5 % utilization.
        devices_held: usize = totals.idle_held,
        /// Devices that are neither allocated nor in use, and below 5 % utilization.
        devices_free: usize = totals.free,
        /// Devices that do not work, or that are not to be used until they are reset or replaced: those whose `health` is faulty.
        devices_faulty: usize = totals.faulty,
        /// Devices of nodes that are stale or down.
        devices_stale: usize = totals.stale_devices,
        /// Devices that are allocated or in use, and how busy they are is not known.
        devices_in_use: usize = totals.in_use,
        /// Devices not known to be busy, held, in use or free.
        devices_unknown: usize = totals.unknown_devices,
        /// Devices that nobody can be given: unused ones of nodes to which the scheduler gives no jobs, such as drained ones, and
        /// those in MIG mode without slices.
        devices_unavailable: usize = totals.unavailable,
        /// The cards and chips that the nodes have: devices that are no slices.
        physical_devices: usize = totals.physical_devices,
        /// Mean utilization of the physical devices that report it, themselves or by their slices.
        utilization_percent: Option<f64> = totals.utilization.map(Percent::get).map(measured_digits),
        /// Memory in use on the physical devices that report it, themselves or by their slices.
        memory_used_bytes: Option<u64> = totals.memory_used.map(|Bytes(bytes)| bytes),
        /// Total memory of those devices.
        memory_total_bytes: Option<u64> = totals.memory_total.map(|Bytes(bytes)| bytes),
        /// Power drawn by the physical devices that report it.
        power_watts: Option<f64> = totals.power.map(Watts::get).map(measured_digits),
        /// Power limit of those devices.
        power_limit_watts: Option<f64> = totals.power_limit.map(Watts::get).map(measured_digits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disputed_allocation_is_marked() {
        for (job, devices, is_disputed) in
            [("11", serde_json::json!(["a"]), false), ("7", serde_json::Value::Null, true)]
        {
            let mut out = Vec::new();
            write_json(&mut out, &Fleet::example_used_by(job), Timestamp::default(), "").unwrap();
            let snapshot: serde_json::Value = serde_json::from_slice(&out).unwrap();
            let allocation = &snapshot["jobs"][0]["allocations"][0];
            let certainty = if is_disputed { "disputed" } else { "certain" };
            assert_eq!(allocation["certainty"], certainty, "{allocation}");
            assert_eq!(allocation["devices"], devices, "{allocation}");
        }
    }

    #[test]
    fn device_counts_have_their_keys_and_add_up() {
        let all = Totals {
            devices: 255,
            busy: 1,
            idle_held: 2,
            free: 4,
            faulty: 8,
            stale_devices: 16,
            unknown_devices: 32,
            unavailable: 64,
            in_use: 128,
            ..Totals::default()
        };
        let json = serde_json::to_value(TotalsJson::of(&all)).unwrap();
        let states =
            ["busy", "held", "free", "faulty", "stale", "unknown", "unavailable", "in_use"];
        let counts = states.map(|state| json[format!("devices_{state}")].as_u64().unwrap());
        assert_eq!(counts, [1, 2, 4, 8, 16, 32, 64, 128]);
        assert_eq!(json["devices"], counts.iter().sum::<u64>());
    }
}
