//! The JSON snapshot.
//!
//! `{schema, at, source, roster, nodes: [{name, link, fault, sources, host, devices, jobs}], jobs, totals}`.
//! Keys are field ids; an unknown value is `null`, with its reason under `unknown` in the same object. Every object
//! always has the same keys.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::ser::{Serialize, Serializer};

use crate::export::json::jobs::{Jobs, RosterJson};
use crate::export::json::schema::{
    JsonShape, Metrics, Moment, Objects, SchemaVersion, Shaped, object,
};
use crate::fleet::{EventRecord, Fleet, JobDevices, Node, Process, SourceState, Totals, Traffic};
use crate::metrics::Usage;
use crate::model::{
    Ancestor, Bytes, Device, DeviceFault, JobId, Link, LinkCounters, NodeName, Percent, Space,
    TpuCore, TransportKind, Watts,
};
use crate::time::Timestamp;

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
    let job_devices = JobDevices::of(fleet);
    let snapshot = Snapshot {
        schema: SchemaVersion,
        at: rfc3339(now),
        source,
        roster: fleet.jobs.as_ref().map(|list| jobs::roster(list, now)),
        nodes: Nodes { fleet, job_devices: &job_devices, now },
        jobs: Jobs { fleet, job_devices: &job_devices, now },
        totals: totals(&Totals::of(fleet, now)),
    };
    serde_json::to_writer(&mut *out, &snapshot)?;
    out.write_all(b"\n")
}

object! {
    /// The monitored nodes, their devices and their jobs at one moment.
    Snapshot<'a> as "snapshot" {
        /// Version of this schema.
        schema: SchemaVersion,
        /// When the snapshot was written, by the local clock.
        at: Option<Moment>,
        /// What is monitored, as text.
        source: &'a str,
        /// The scheduler's job list; null when no scheduler is queried.
        roster: Option<RosterJson<'a>>,
        /// The nodes, in the order given.
        nodes: Nodes<'a>,
        /// The jobs: those the scheduler lists, and those known from processes only.
        jobs: Jobs<'a>,
        /// Totals over all nodes.
        totals: TotalsJson,
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
    job_devices: &'a JobDevices<'a>,
    now: Timestamp,
}

impl Serialize for Nodes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.fleet.nodes.iter().map(|one| node(self, one)))
    }
}

impl Shaped for Nodes<'_> {
    fn shape(objects: &mut Objects) -> JsonShape {
        JsonShape::Array(Box::new(NodeJson::shape(objects)))
    }
}

object! {
    /// A node.
    NodeJson<'a> as "node" {
        /// Node name, as given.
        name: &'a str,
        /// Connection state: idle, opening, up or down.
        link: &'static str,
        /// Transport: native, ssh, exec, srun or local; null before the first connection.
        transport: Option<&'static str>,
        /// Why the node is not connected.
        fault: Option<FaultJson<'a>>,
        /// True if the values are current; nodes that are not fresh are left out of sums.
        fresh: bool,
        /// Name of an earlier node that is the same machine.
        same_as: Option<&'a str>,
        /// Data sources, each with its own age and fault.
        sources: Vec<SourceJson<'a>>,
        /// The host: CPU, memory, network, disks.
        host: HostJson<'a>,
        /// Devices in the driver's order, each followed by its MIG slices.
        devices: Vec<DeviceJson<'a>>,
        /// Device events since gtop started, latest last.
        events: Vec<EventJson<'a>>,
        /// Ids of the jobs on the node.
        jobs: Vec<&'a str>,
    }
}

fn node<'a>(nodes: &Nodes<'a>, node: &'a Node) -> NodeJson<'a> {
    let now = nodes.now;
    let device = |(index, device)| self::device(node, index, device, now);
    NodeJson {
        name: node.name.as_str(),
        link: link_state(&node.link),
        transport: node.via.map(TransportKind::as_str),
        fault: fault(node, now),
        fresh: node.freshness(now).is_fresh(),
        same_as: nodes.fleet.same_as.get(&node.name).map(NodeName::as_str),
        sources: node.sources.iter().map(|state| source(node, state, now)).collect(),
        host: host(node),
        devices: node.devices.iter().enumerate().map(device).collect(),
        events: node.events.iter().map(|record| event(node, record, now)).collect(),
        jobs: nodes.job_devices.jobs_on(&node.name).into_iter().map(JobId::as_str).collect(),
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
    FaultJson<'a> as "fault" {
        /// Kind of fault, as shown on the screen.
        kind: &'static str,
        /// Details of the fault; may be empty.
        detail: &'a str,
        /// What to do about it.
        remedy: &'a str,
        /// Seconds until gtop retries; null when it does not retry automatically.
        retry_in_seconds: Option<f64>,
    }
}

fn fault(node: &Node, now: Timestamp) -> Option<FaultJson<'_>> {
    let fault = node.fault()?;
    let retry_at = match &node.link {
        Link::Down { retry_at, .. } => *retry_at,
        Link::Idle | Link::Opening { .. } | Link::Up => None,
    };
    Some(FaultJson {
        kind: fault.kind.label(),
        detail: &fault.detail,
        remedy: fault.remedy(),
        retry_in_seconds: retry_at.map(|at| millis(at.since(now).as_secs_f64())),
    })
}

object! {
    /// A data source of a node: the host, a driver interface, or a slower group of either, such as
    /// host.slow or nvml.processes.
    SourceJson<'a> as "source" {
        /// Source name.
        id: &'a str,
        /// Age of the last sample; null when there is none.
        age_seconds: Option<f64>,
        /// Sampling interval.
        interval_seconds: f64,
        /// True if the values are current.
        fresh: bool,
        /// Why the node does not have this source.
        absent: Option<&'a str>,
        /// True if the backend was written from documentation and never tested on a real device.
        experimental: bool,
        /// The driver behind the source.
        driver: Option<DriverJson<'a>>,
        /// Why the source has no new values.
        fault: Option<SourceFaultJson<'a>>,
    }
}

object! {
    /// A driver.
    DriverJson<'a> as "driver" {
        /// Driver version.
        version: Option<&'a str>,
        /// Version of the driver's library.
        library: Option<&'a str>,
        /// Highest CUDA version the driver supports.
        cuda: Option<&'a str>,
        /// Why the driver reports no events, such as Xids.
        no_events: Option<&'a str>,
    }
}

object! {
    /// Why a source has no new values.
    SourceFaultJson<'a> as "source_fault" {
        /// Kind of fault, as shown on the screen.
        kind: &'static str,
        /// The call that hangs or failed.
        call: &'a str,
        /// Error message; may be empty.
        message: &'a str,
        /// How long the fault has lasted.
        for_seconds: f64,
        /// What to do about it.
        remedy: &'static str,
    }
}

fn source<'a>(node: &'a Node, state: &'a SourceState, now: Timestamp) -> SourceJson<'a> {
    let mut backends = node.hello.iter().flat_map(|hello| &hello.backends);
    let backend = backends.find(|backend| backend.source == state.source);
    let driver = backend.and_then(|backend| backend.driver.as_deref());
    SourceJson {
        id: state.source.as_str(),
        age_seconds: state.taken_at.map(|at| age(at, now)),
        interval_seconds: state.interval.as_secs_f64(),
        fresh: state.freshness(now).is_fresh(),
        absent: state.absent.as_deref(),
        experimental: driver.is_some_and(|driver| driver.is_experimental),
        driver: driver.map(|driver| DriverJson {
            version: driver.version.as_deref(),
            library: driver.library.as_deref(),
            cuda: driver.cuda.as_deref(),
            no_events: driver.no_events.as_deref(),
        }),
        fault: state.fault.as_ref().map(|fault| SourceFaultJson {
            kind: fault.kind.label(),
            call: &fault.call,
            message: &fault.message,
            for_seconds: millis((fault.duration + now.since(fault.at)).as_secs_f64()),
            remedy: fault.kind.remedy(),
        }),
    }
}

object! {
    /// A device event; repeated events are counted.
    EventJson<'a> as "event" {
        /// Time of the last occurrence.
        at: Option<Moment>,
        /// Time of the first occurrence.
        first_at: Option<Moment>,
        /// Seconds since the last occurrence.
        age_seconds: f64,
        /// Number of occurrences.
        count: u64,
        /// The source that reported it.
        source: &'a str,
        /// Kind: xid, ecc, retirement, poison, unavailable, recovery, lost, reset, or another word of the probe.
        kind: &'a str,
        /// UUID of the device.
        device: &'a str,
        /// Index of the device; null when the device is gone.
        index: Option<u32>,
        /// Xid number, or NVML's number of the recovery action.
        code: Option<u64>,
        /// Meaning of the event.
        text: String,
        /// The driver's message; may be empty.
        message: &'a str,
    }
}

fn event<'a>(node: &Node, record: &'a EventRecord, now: Timestamp) -> EventJson<'a> {
    let event = &record.event;
    let device = node.devices.iter().find(|device| device.uuid == event.device);
    EventJson {
        at: rfc3339(event.at),
        first_at: rfc3339(record.first_at),
        age_seconds: age(event.at, now),
        count: record.count,
        source: event.source.as_str(),
        kind: event.kind.as_str(),
        device: &event.device,
        index: device.and_then(|device| device.index.get()),
        code: event.code,
        text: event.text(),
        message: &event.message,
    }
}

object! {
    /// The host of a node. Its static properties are null until the probe has reported them.
    HostJson<'a> as "host" {
        /// The machine's own host name.
        host_name: Option<&'a str>,
        /// Boot id of the kernel.
        boot_id: Option<&'a str>,
        /// Kernel release.
        kernel: Option<&'a str>,
        /// Logical processors.
        cpus: Option<u32>,
        /// Probe interpreter: python or sh.
        probe: Option<&'a str>,
        /// Mount option hidepid of /proc; above 0, processes of other users may be hidden.
        hidepid: Option<u8>,
        /// True if the probe runs in its own PID namespace and sees no processes outside it.
        contained: Option<bool>,
        ..metrics: Metrics<'a, Node>,
        /// Traffic of each network interface.
        network: Vec<Flow<'a>>,
        /// Traffic of each InfiniBand port.
        infiniband: Vec<Flow<'a>>,
        /// Traffic of each disk.
        disks: Vec<DiskFlow<'a>>,
        /// Disk space of local file systems.
        space: Vec<SpaceJson<'a>>,
    }
}

object! {
    /// Traffic of a network interface or port.
    Flow<'a> as "flow" {
        /// Interface or port name.
        name: &'a str,
        /// Bytes received per second.
        receive_bytes_per_second: u64,
        /// Bytes sent per second.
        transmit_bytes_per_second: u64,
    }
}

object! {
    /// Traffic of a disk.
    DiskFlow<'a> as "disk_flow" {
        /// Disk name.
        name: &'a str,
        /// Bytes read per second.
        read_bytes_per_second: u64,
        /// Bytes written per second.
        write_bytes_per_second: u64,
    }
}

object! {
    /// Disk space of a file system.
    SpaceJson<'a> as "space" {
        /// Mount point.
        path: &'a str,
        /// Size.
        total_bytes: u64,
        /// Space free for an ordinary user.
        free_bytes: u64,
    }
}

fn host(node: &Node) -> HostJson<'_> {
    let (hello, host) = (node.hello.as_deref(), &node.host);
    HostJson {
        host_name: hello.map(|hello| &*hello.host.host_name),
        boot_id: hello.map(|hello| &*hello.host.boot_id),
        kernel: hello.map(|hello| &*hello.host.kernel),
        cpus: hello.map(|hello| hello.host.cpus),
        probe: hello.map(|hello| &*hello.probe),
        hidepid: hello.map(|hello| hello.host.hidepid),
        contained: hello.map(|hello| hello.host.is_contained),
        metrics: Metrics::of(node),
        network: host.network.iter().map(flow).collect(),
        infiniband: host.infiniband.iter().map(flow).collect(),
        disks: host.disks.iter().map(disk).collect(),
        space: host.slow.space.iter().map(space).collect(),
    }
}

fn disk(traffic: &Traffic) -> DiskFlow<'_> {
    DiskFlow {
        name: &traffic.name,
        read_bytes_per_second: traffic.inward.0,
        write_bytes_per_second: traffic.outward.0,
    }
}

fn space(space: &Space) -> SpaceJson<'_> {
    SpaceJson { path: &space.path, total_bytes: space.total.0, free_bytes: space.free.0 }
}

fn flow(traffic: &Traffic) -> Flow<'_> {
    Flow {
        name: &traffic.name,
        receive_bytes_per_second: traffic.inward.0,
        transmit_bytes_per_second: traffic.outward.0,
    }
}

object! {
    /// A device, or a MIG slice of one.
    DeviceJson<'a> as "device" {
        /// UUID.
        uuid: &'a str,
        /// Index of the device; for a slice, its index within the device.
        index: Option<u32>,
        /// For a slice, the UUID of its device. Slices are left out of sums.
        parent: Option<&'a str>,
        /// True if the values are current.
        fresh: bool,
        /// Why the driver reports no values: lost, needs reset, no permission, or the driver's message.
        fault: Option<&'a str>,
        ..metrics: Metrics<'a, Device>,
        /// The counters of each `NVLink`.
        links: Vec<LinkJson>,
        /// The cores of a TPU chip that has several.
        cores: Vec<CoreJson>,
        /// Processes on the device; empty when there are none, null when unknown.
        processes: Option<Vec<UsageJson<'a>>>,
    }
}

fn device<'a>(node: &'a Node, index: usize, device: &'a Device, now: Timestamp) -> DeviceJson<'a> {
    let unknown_extra = node.users_unknown_reason(index).map(|why| ("processes", why));
    let links = device.details.as_ref().and_then(|details| details.links.known());
    let cores = device.tpu.as_ref().and_then(|tpu| tpu.by_core.known());
    DeviceJson {
        uuid: &device.uuid,
        index: device.index.get(),
        parent: device.parent.as_deref(),
        fresh: node.device_freshness(index, now).is_fresh(),
        fault: device.fault.as_ref().map(device_fault),
        metrics: Metrics { unknown_extra, ..Metrics::of(device) },
        links: links.iter().flat_map(|links| links.iter()).map(link).collect(),
        cores: cores.iter().flat_map(|cores| cores.iter()).map(core).collect(),
        processes: unknown_extra.is_none().then(|| Usage::of(node, device).map(usage).collect()),
    }
}

fn device_fault(fault: &DeviceFault) -> &str {
    match fault {
        DeviceFault::Lost => "lost",
        DeviceFault::NeedsReset => "needs reset",
        DeviceFault::NoPermission => "no permission",
        DeviceFault::Other(message) => message,
    }
}

object! {
    /// The counters of an `NVLink`.
    LinkJson as "link" {
        /// Bytes sent since the driver was loaded.
        transmit_bytes: Option<u64>,
        /// Bytes received since the driver was loaded.
        receive_bytes: Option<u64>,
    }
}

const fn link(link: &LinkCounters) -> LinkJson {
    LinkJson { transmit_bytes: link.sent, receive_bytes: link.received }
}

object! {
    /// A core of a TPU chip.
    CoreJson as "core" {
        /// Memory in use.
        memory_used_bytes: Option<u64>,
        /// Total memory.
        memory_total_bytes: Option<u64>,
        /// Utilization.
        utilization_percent: Option<f32>,
    }
}

fn core(core: &TpuCore) -> CoreJson {
    CoreJson {
        memory_used_bytes: core.memory_used.map(|Bytes(bytes)| bytes),
        memory_total_bytes: core.memory_total.map(|Bytes(bytes)| bytes),
        utilization_percent: core.utilization.map(Percent::get),
    }
}

object! {
    /// A process on a device.
    UsageJson<'a> as "process" {
        /// Process id.
        pid: u32,
        /// Start time in clock ticks since boot; identifies the process together with pid.
        start_ticks: Option<u64>,
        ..metrics: Metrics<'a, Usage>,
        /// Ancestor processes, nearest first.
        parents: Vec<ParentJson>,
    }
}

object! {
    /// An ancestor of a process.
    ParentJson as "parent" {
        /// Process id.
        pid: u32,
        /// Start time in clock ticks since boot.
        start_ticks: u64,
        /// Process name.
        name: String,
    }
}

fn usage<'a>(usage: Usage) -> UsageJson<'a> {
    let process = usage.process.as_ref();
    UsageJson {
        pid: usage.used.pid,
        start_ticks: process.map(|process| process.key.start_ticks),
        parents: process.map_or_else(Vec::new, parents),
        metrics: Metrics { subject: Cow::Owned(usage), unknown_extra: None },
    }
}

fn parents(process: &Process) -> Vec<ParentJson> {
    let parent = |one: &Ancestor| ParentJson {
        pid: one.key.pid,
        start_ticks: one.key.start_ticks,
        name: one.name.to_string(),
    };
    process.statics.parents.iter().map(parent).collect()
}

object! {
    /// Totals, each machine counted once. Every known device counts as exactly one of busy, held, free, faulty, stale or
    /// unknown; the other sums cover fresh nodes only. Slices count with their device.
    TotalsJson as "totals" {
        /// Nodes monitored.
        nodes: usize,
        /// Nodes with current values.
        fresh: usize,
        /// Connected nodes whose values are stale.
        stale: usize,
        /// Nodes that are not connected.
        down: usize,
        /// Nodes that are fresh or stale.
        known: usize,
        /// All known devices, fresh or not.
        devices: usize,
        /// Devices at 5 % utilization or more.
        devices_busy: usize,
        /// Idle-held devices: allocated or in use, and below 5 % utilization.
        devices_held: usize,
        /// Devices that are neither allocated nor in use, and below 5 % utilization.
        devices_free: usize,
        /// Devices for which the driver reports a fault instead of values.
        devices_faulty: usize,
        /// Devices of nodes that are stale or down.
        devices_stale: usize,
        /// Devices not known to be busy, held or free.
        devices_unknown: usize,
        /// Mean utilization of the devices that report it.
        utilization_percent: Option<f32>,
        /// Memory in use on the devices that report it.
        memory_used_bytes: Option<u64>,
        /// Total memory of those devices.
        memory_total_bytes: Option<u64>,
        /// Power drawn by the devices that report it.
        power_watts: Option<f32>,
        /// Power limit of those devices.
        power_limit_watts: Option<f32>,
    }
}

fn totals(totals: &Totals) -> TotalsJson {
    TotalsJson {
        nodes: totals.nodes,
        fresh: totals.fresh,
        stale: totals.stale,
        down: totals.down,
        known: totals.fresh + totals.stale,
        devices: totals.devices,
        devices_busy: totals.busy,
        devices_held: totals.idle_held,
        devices_free: totals.free,
        devices_faulty: totals.faulty,
        devices_stale: totals.stale_devices,
        devices_unknown: totals.unknown_devices,
        utilization_percent: totals.utilization.map(Percent::get),
        memory_used_bytes: totals.memory_used.map(|Bytes(bytes)| bytes),
        memory_total_bytes: totals.memory_total.map(|Bytes(bytes)| bytes),
        power_watts: totals.power.map(Watts::get),
        power_limit_watts: totals.power_limit.map(Watts::get),
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
            assert_eq!(allocation["disputed"], is_disputed, "{allocation}");
            assert_eq!(allocation["devices"], devices, "{allocation}");
        }
    }

    #[test]
    fn device_counts_have_their_keys_and_add_up() {
        let all = Totals {
            devices: 63,
            busy: 1,
            idle_held: 2,
            free: 4,
            faulty: 8,
            stale_devices: 16,
            unknown_devices: 32,
            ..Totals::default()
        };
        let json = serde_json::to_value(totals(&all)).unwrap();
        let states = ["busy", "held", "free", "faulty", "stale", "unknown"];
        let counts = states.map(|state| json[format!("devices_{state}")].as_u64().unwrap());
        assert_eq!(counts, [1, 2, 4, 8, 16, 32]);
        assert_eq!(json["devices"], counts.iter().sum::<u64>());
    }
}
