//! The JSON snapshot.
//!
//! `{schema, at, source, roster, nodes: [{name, link, fault, sources, host, devices, jobs}], jobs, totals}`;
//! keys are field ids, what is unknown is `null` with its reason under `unknown` of the same object. Every object
//! has always the same keys.

use std::borrow::Cow;
use std::io::{self, Write};

use serde::ser::{Serialize, Serializer};

use crate::export::json::jobs::{Jobs, RosterJson};
use crate::export::json::schema::{Metrics, Moment, Objects, Shape, Shaped, Version, object};
use crate::fields::Usage;
use crate::fleet::{EventRecord, Fleet, JobDevices, Node, Process, SourceState, Totals, Traffic};
use crate::model::{
    Ancestor, Bytes, Device, DeviceFault, JobId, Link, LinkCounters, NodeName, Percent, Space,
    TpuCore, TransportKind, Watts,
};
use crate::time::Timestamp;

pub use schema::write_json_schema;

mod jobs;
mod schema;

/// Writes one snapshot as one line; `source` says what is watched.
pub fn write_json(
    out: &mut impl Write,
    fleet: &Fleet,
    now: Timestamp,
    source: &str,
) -> io::Result<()> {
    let job_devices = JobDevices::of(fleet);
    let snapshot = Snapshot {
        schema: Version,
        at: rfc3339(now),
        source,
        roster: fleet.jobs.as_ref().map(|list| jobs::list(list, now)),
        nodes: Nodes { fleet, job_devices: &job_devices, now },
        jobs: Jobs { fleet, job_devices: &job_devices, now },
        totals: totals(&Totals::of(fleet, now)),
    };
    serde_json::to_writer(&mut *out, &snapshot)?;
    out.write_all(b"\n")
}

object! {
    /// What is known at one moment of all that is watched.
    Snapshot<'a> as "snapshot" {
        /// Version of this shape.
        schema: Version,
        /// When this was written, by the clock here.
        at: Option<Moment>,
        /// What is watched, in words.
        source: &'a str,
        /// The scheduler's list of jobs; null where no scheduler was asked.
        roster: Option<RosterJson<'a>>,
        /// The nodes, in the order in which they were asked for.
        nodes: Nodes<'a>,
        /// The jobs: those of the scheduler's list, and those that only processes tell of.
        jobs: Jobs<'a>,
        /// Sums over the devices of fresh nodes.
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

/// The nodes, each made when it is written: there may be thousands.
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
    fn shape(objects: &mut Objects) -> Shape {
        Shape::List(Box::new(NodeJson::shape(objects)))
    }
}

object! {
    /// A machine.
    NodeJson<'a> as "node" {
        /// Its name, as it was asked for.
        name: &'a str,
        /// The session with it: idle, opening, up or down.
        link: &'static str,
        /// How it is reached; null until it has been.
        transport: Option<&'static str>,
        /// Why there is no session.
        fault: Option<FaultJson<'a>>,
        /// Its numbers are new; those of other nodes are in no sum.
        fresh: bool,
        /// The node that is the same machine, listed before.
        same_as: Option<&'a str>,
        /// Where its numbers come from, each with its own age and trouble.
        sources: Vec<SourceJson<'a>>,
        /// The machine without its devices.
        host: HostJson<'a>,
        /// Its devices in the driver's order, the slices of each behind it.
        devices: Vec<DeviceJson<'a>>,
        /// What happened to its devices since gtop watches, the latest last.
        events: Vec<EventJson<'a>>,
        /// The ids of the jobs on it.
        jobs: Vec<&'a str>,
    }
}

fn node<'a>(all: &Nodes<'a>, node: &'a Node) -> NodeJson<'a> {
    let now = all.now;
    let device = |(place, device)| self::device(node, place, device, now);
    NodeJson {
        name: node.name.as_str(),
        link: link_word(&node.link),
        transport: node.via.map(TransportKind::as_str),
        fault: fault(node, now),
        fresh: node.freshness(now).is_fresh(),
        same_as: all.fleet.same_as.get(&node.name).map(NodeName::as_str),
        sources: node.sources.iter().map(|state| source(node, state, now)).collect(),
        host: host(node),
        devices: node.devices.iter().enumerate().map(device).collect(),
        events: node.events.iter().map(|happened| event(node, happened, now)).collect(),
        jobs: all.job_devices.jobs_on(&node.name).into_iter().map(JobId::as_str).collect(),
    }
}

fn link_word(link: &Link) -> &'static str {
    match link {
        Link::Idle => "idle",
        Link::Opening { .. } => "opening",
        Link::Up => "up",
        Link::Down { .. } => "down",
    }
}

object! {
    /// Why there is no session with a node.
    FaultJson<'a> as "fault" {
        /// What is wrong, in the words of the screen.
        kind: &'static str,
        /// What there is to know of it besides.
        detail: &'a str,
        /// What a person can do about it.
        remedy: &'a str,
        /// When gtop tries again by itself; null when it does not.
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
    /// Where numbers of a node come from: the host, a driver interface, or a slower group of either, such as
    /// host.slow or nvml.processes.
    SourceJson<'a> as "source" {
        /// Its name.
        id: &'a str,
        /// How old its numbers are; null when it has told none.
        age_seconds: Option<f64>,
        /// How often it is sampled.
        interval_seconds: f64,
        /// Its numbers are new.
        fresh: bool,
        /// Why this node has no such source.
        absent: Option<&'a str>,
        /// It is written from documents and has not seen a device yet.
        experimental: bool,
        /// The driver behind it.
        driver: Option<DriverJson<'a>>,
        /// Why it tells nothing new.
        fault: Option<SourceFaultJson<'a>>,
    }
}

object! {
    /// A driver.
    DriverJson<'a> as "driver" {
        /// Its version.
        version: Option<&'a str>,
        /// The version of the library that speaks for it.
        library: Option<&'a str>,
        /// The CUDA version it can do.
        cuda: Option<&'a str>,
        /// Why it tells no events, such as Xids.
        no_events: Option<&'a str>,
    }
}

object! {
    /// Why a source tells nothing new.
    SourceFaultJson<'a> as "source_fault" {
        /// What is wrong, in the words of the screen.
        kind: &'static str,
        /// The call that does not return, or that failed.
        call: &'a str,
        /// What was said about it.
        message: &'a str,
        /// For how long.
        for_seconds: f64,
        /// What a person can do about it.
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
    /// Something that happened to a device, once or again and again.
    EventJson<'a> as "event" {
        /// The last time.
        at: Option<Moment>,
        /// The first time.
        first_at: Option<Moment>,
        /// How long ago the last time is.
        age_seconds: f64,
        /// How often.
        count: u64,
        /// The source that told it.
        source: &'a str,
        /// What it is: xid, ecc, retirement, poison, unavailable, recovery, lost, reset, or the probe's word.
        kind: &'a str,
        /// The uuid of the device.
        device: &'a str,
        /// The number of the device; null when it is not there any more.
        index: Option<u32>,
        /// The number of an Xid.
        code: Option<u64>,
        /// What it means, in a few words.
        text: String,
        /// What was said about it.
        message: &'a str,
    }
}

fn event<'a>(node: &Node, happened: &'a EventRecord, now: Timestamp) -> EventJson<'a> {
    let event = &happened.event;
    let device = node.devices.iter().find(|device| device.uuid == event.device);
    EventJson {
        at: rfc3339(event.at),
        first_at: rfc3339(happened.first_at),
        age_seconds: age(event.at, now),
        count: happened.count,
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
    /// A machine without its devices. What it is, is null until its probe has said so.
    HostJson<'a> as "host" {
        /// Its own name for itself.
        host_name: Option<&'a str>,
        /// The id of its last boot.
        boot_id: Option<&'a str>,
        /// The release of its kernel.
        kernel: Option<&'a str>,
        /// Logical processors.
        cpus: Option<u32>,
        /// What samples there: python or sh.
        probe: Option<&'a str>,
        /// The option hidepid of its /proc: above 0, processes of others may be hidden.
        hidepid: Option<u8>,
        /// The probe sees no processes outside its own PID namespace.
        contained: Option<bool>,
        ..metrics: Metrics<'a, Node>,
        /// Traffic of each network interface.
        network: Vec<Flow<'a>>,
        /// Traffic of each InfiniBand port.
        infiniband: Vec<Flow<'a>>,
        /// Traffic of each disk.
        disks: Vec<DiskFlow<'a>>,
        /// Space of local file systems.
        space: Vec<SpaceJson<'a>>,
    }
}

object! {
    /// Traffic of a network interface or port.
    Flow<'a> as "flow" {
        /// Its name.
        name: &'a str,
        /// Received.
        receive_bytes_per_second: u64,
        /// Sent.
        transmit_bytes_per_second: u64,
    }
}

object! {
    /// Traffic of a disk.
    DiskFlow<'a> as "disk_flow" {
        /// Its name.
        name: &'a str,
        /// Read.
        read_bytes_per_second: u64,
        /// Written.
        write_bytes_per_second: u64,
    }
}

object! {
    /// Space of a file system.
    SpaceJson<'a> as "space" {
        /// Where it is mounted.
        path: &'a str,
        /// All of it.
        total_bytes: u64,
        /// What is free.
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
    /// A device, or a slice of one.
    DeviceJson<'a> as "device" {
        /// Its identity.
        uuid: &'a str,
        /// Its number; of a slice, that among the slices of its device.
        index: Option<u32>,
        /// Of a slice: the uuid of its device. Slices are in no sum.
        parent: Option<&'a str>,
        /// Its numbers are new.
        fresh: bool,
        /// Why the driver gives no numbers for it, such as lost, needs reset, no permission.
        fault: Option<&'a str>,
        ..metrics: Metrics<'a, Device>,
        /// The counters of each `NVLink`.
        links: Vec<LinkJson>,
        /// The cores of a TPU chip that has several.
        cores: Vec<CoreJson>,
        /// Who uses it; an empty list when nobody does, null when that is not known.
        processes: Option<Vec<UsageJson<'a>>>,
    }
}

fn device<'a>(node: &'a Node, place: usize, device: &'a Device, now: Timestamp) -> DeviceJson<'a> {
    let besides = node.why_users_unknown(place).map(|why| ("processes", why));
    let links = device.details.as_ref().and_then(|details| details.links.known());
    let cores = device.tpu.as_ref().and_then(|tpu| tpu.by_core.known());
    DeviceJson {
        uuid: &device.uuid,
        index: device.index.get(),
        parent: device.parent.as_deref(),
        fresh: node.device_freshness(place, now).is_fresh(),
        fault: device.fault.as_ref().map(device_fault),
        metrics: Metrics { besides, ..Metrics::of(device) },
        links: links.iter().flat_map(|links| links.iter()).map(link).collect(),
        cores: cores.iter().flat_map(|cores| cores.iter()).map(core).collect(),
        processes: besides.is_none().then(|| Usage::of(node, device).map(usage).collect()),
    }
}

fn device_fault(fault: &DeviceFault) -> &str {
    match fault {
        DeviceFault::Lost => "lost",
        DeviceFault::NeedsReset => "needs reset",
        DeviceFault::NoPermission => "no permission",
        DeviceFault::Other(words) => words,
    }
}

object! {
    /// The counters of an `NVLink`.
    LinkJson as "link" {
        /// Sent.
        transmit_bytes: Option<u64>,
        /// Received.
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
        /// Its memory.
        memory_total_bytes: Option<u64>,
        /// Share of time it ran anything.
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
        /// Its number.
        pid: u32,
        /// When it began, in clock ticks since the boot: with the number, its identity.
        start_ticks: Option<u64>,
        ..metrics: Metrics<'a, Usage>,
        /// The processes above it, the nearest first.
        parents: Vec<ParentJson>,
    }
}

object! {
    /// A process above another.
    ParentJson as "parent" {
        /// Its number.
        pid: u32,
        /// When it began, in clock ticks since the boot.
        start_ticks: u64,
        /// Its name.
        name: String,
    }
}

fn usage<'a>(usage: Usage) -> UsageJson<'a> {
    let process = usage.process.as_ref();
    UsageJson {
        pid: usage.used.pid,
        start_ticks: process.map(|process| process.key.start_ticks),
        parents: process.map_or_else(Vec::new, parents),
        metrics: Metrics { of: Cow::Owned(usage), besides: None },
    }
}

fn parents(process: &Process) -> Vec<ParentJson> {
    let one = |one: &Ancestor| ParentJson {
        pid: one.key.pid,
        start_ticks: one.key.start_ticks,
        name: one.name.to_string(),
    };
    process.statics.parents.iter().map(one).collect()
}

object! {
    /// Sums over each machine once. Of devices all that are known are counted, each as busy, held, free, faulty, stale or
    /// unknown; all else is of fresh nodes. Slices count with their device.
    TotalsJson as "totals" {
        /// Nodes watched.
        nodes: usize,
        /// Nodes whose numbers are new.
        fresh: usize,
        /// Nodes that talked once and are stale now.
        stale: usize,
        /// Nodes without a session.
        down: usize,
        /// Nodes that are fresh or stale.
        known: usize,
        /// Devices that are known, fresh or not.
        devices: usize,
        /// Devices at 5 % or more.
        devices_busy: usize,
        /// Devices that hold a process and do nothing.
        devices_held: usize,
        /// Devices that nobody uses and that do nothing.
        devices_free: usize,
        /// Devices the driver gives no numbers for.
        devices_faulty: usize,
        /// Devices of nodes that are stale or down.
        devices_stale: usize,
        /// Devices of which nobody tells whether they are busy, held or free.
        devices_unknown: usize,
        /// Mean of the devices that tell it.
        utilization_percent: Option<f32>,
        /// Memory in use on the devices that tell it.
        memory_used_bytes: Option<u64>,
        /// All memory of those devices.
        memory_total_bytes: Option<u64>,
        /// Power drawn by the devices that tell it.
        power_watts: Option<f32>,
        /// Power those devices may draw.
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
    fn what_processes_contradict_is_told_as_such() {
        for (job, devices, is_disputed) in
            [("11", serde_json::json!(["a"]), false), ("7", serde_json::Value::Null, true)]
        {
            let mut out = Vec::new();
            write_json(&mut out, &Fleet::used_by(job), Timestamp::default(), "").unwrap();
            let told: serde_json::Value = serde_json::from_slice(&out).unwrap();
            let allocation = &told["jobs"][0]["allocations"][0];
            assert_eq!(allocation["disputed"], is_disputed, "{allocation}");
            assert_eq!(allocation["devices"], devices, "{allocation}");
        }
    }

    #[test]
    fn each_count_of_devices_has_its_word_and_they_add_up() {
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
        let told = serde_json::to_value(totals(&all)).unwrap();
        let words = ["busy", "held", "free", "faulty", "stale", "unknown"];
        let counts = words.map(|word| told[format!("devices_{word}")].as_u64().unwrap());
        assert_eq!(counts, [1, 2, 4, 8, 16, 32]);
        assert_eq!(told["devices"], counts.iter().sum::<u64>());
    }
}
