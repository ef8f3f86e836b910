//! The JSON snapshot.
//!
//! `{schema, at, source, roster, nodes: [{name, link, fault, sources, host, devices, jobs}], jobs, totals}`;
//! keys are field ids, what is unknown is `null` with its reason under `unknown` of the same object.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value as Json, json};

use crate::fields::{Field, HOST, PROCESS, Usage, Value, of_device};
use crate::fleet::{Fleet, Happened, Ledger, Node, Process, SourceState, Totals, Traffic};
use crate::model::{Device, DeviceFault, JobId, Link, LinkCounters, Reason, Via};
use crate::time::Timestamp;

mod jobs;

/// Version of the snapshot's shape.
const SCHEMA: u32 = 1;

/// Writes one snapshot as one line; `source` says what is watched.
pub fn write_json(
    out: &mut impl Write,
    fleet: &Fleet,
    now: Timestamp,
    source: &str,
) -> io::Result<()> {
    let snapshot = Snapshot { fleet, ledger: Ledger::of(fleet), now, source };
    serde_json::to_writer(&mut *out, &snapshot)?;
    out.write_all(b"\n")
}

struct Snapshot<'a> {
    fleet: &'a Fleet,
    ledger: Ledger<'a>,
    now: Timestamp,
    source: &'a str,
}

impl Serialize for Snapshot<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nodes: Vec<NodeJson<'_>> =
            self.fleet.nodes.iter().map(|node| NodeJson { node, snapshot: self }).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("at", &rfc3339(self.now))?;
        map.serialize_entry("source", self.source)?;
        let roster = self.fleet.jobs.as_ref().map(|list| jobs::list(list, self.now));
        map.serialize_entry("roster", &roster)?;
        map.serialize_entry("nodes", &nodes)?;
        map.serialize_entry("jobs", &jobs::all(self.fleet, &self.ledger, self.now))?;
        map.serialize_entry("totals", &totals(&Totals::of(self.fleet, self.now)))?;
        map.end()
    }
}

fn rfc3339(at: Timestamp) -> Option<String> {
    jiff::Timestamp::from_microsecond(at.as_micros()).ok().map(|at| at.to_string())
}

struct NodeJson<'a> {
    node: &'a Node,
    snapshot: &'a Snapshot<'a>,
}

impl Serialize for NodeJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (node, now) = (self.node, self.snapshot.now);
        let same_as = self.snapshot.fleet.same_as.get(&node.name);
        let sources: Vec<Json> =
            node.sources.iter().map(|state| source(node, state, now)).collect();
        let devices: Vec<DeviceJson<'_>> = node
            .devices
            .iter()
            .enumerate()
            .map(|(place, device)| DeviceJson { node, device, place, now })
            .collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", node.name.as_str())?;
        map.serialize_entry("link", link_word(&node.link))?;
        map.serialize_entry("transport", &node.via.map(Via::word))?;
        map.serialize_entry("fault", &fault(node, now))?;
        map.serialize_entry("fresh", &node.freshness(now).is_fresh())?;
        map.serialize_entry("same_as", &same_as.map(crate::model::NodeName::as_str))?;
        map.serialize_entry("sources", &sources)?;
        map.serialize_entry("host", &HostJson { node })?;
        map.serialize_entry("devices", &devices)?;
        map.serialize_entry("events", &events(node, now))?;
        let jobs = self.snapshot.ledger.jobs_on(&node.name);
        map.serialize_entry("jobs", &jobs.into_iter().map(JobId::as_str).collect::<Vec<_>>())?;
        map.end()
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

fn fault(node: &Node, now: Timestamp) -> Json {
    let Some(fault) = node.fault() else { return Json::Null };
    let retry_at = match &node.link {
        Link::Down { retry_at, .. } => *retry_at,
        Link::Idle | Link::Opening { .. } | Link::Up => None,
    };
    json!({
        "kind": fault.kind.label(),
        "detail": &*fault.detail,
        "remedy": fault.remedy(),
        "retry_in_seconds": retry_at.map(|at| millis(at.since(now).as_secs_f64())),
    })
}

fn source(node: &Node, state: &SourceState, now: Timestamp) -> Json {
    let mut backends = node.hello.iter().flat_map(|hello| &hello.backends);
    let backend = backends.find(|backend| backend.source == state.source);
    let driver = backend.and_then(|backend| backend.driver.as_deref());
    json!({
        "id": state.source.as_str(),
        "age_seconds": state.taken_at.map(|at| millis(now.since(at).as_secs_f64())),
        "interval_seconds": state.interval.as_secs_f64(),
        "fresh": state.freshness(now).is_fresh(),
        "absent": state.absent.as_deref(),
        "experimental": driver.is_some_and(|driver| driver.is_experimental),
        "driver": driver.map(|driver| json!({
            "version": driver.version.as_deref(),
            "library": driver.library.as_deref(),
            "cuda": driver.cuda.as_deref(),
            "no_events": driver.no_events.as_deref(),
        })),
        "fault": state.fault.as_ref().map(|fault| json!({
            "kind": fault.kind.label(),
            "call": &*fault.call,
            "message": &*fault.message,
            "for_seconds": millis((fault.lasting + now.since(fault.at)).as_secs_f64()),
            "remedy": fault.kind.remedy(),
        })),
    })
}

/// Seconds with three decimals.
fn millis(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// What happened to the devices, the latest last.
fn events(node: &Node, now: Timestamp) -> Vec<Json> {
    let index = |uuid: &str| node.devices.iter().find(|device| &*device.uuid == uuid)?.index.get();
    let one = |happened: &Happened| {
        let event = &happened.event;
        json!({
            "at": rfc3339(event.at),
            "first_at": rfc3339(happened.first_at),
            "age_seconds": millis(now.since(event.at).as_secs_f64()),
            "count": happened.count,
            "source": event.source.as_str(),
            "kind": event.kind.word(),
            "device": &*event.device,
            "index": index(&event.device),
            "code": event.code,
            "text": event.text(),
            "message": &*event.message,
        })
    };
    node.events.iter().map(one).collect()
}

struct HostJson<'a> {
    node: &'a Node,
}

impl Serialize for HostJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let node = self.node;
        let mut map = serializer.serialize_map(None)?;
        if let Some(hello) = &node.hello {
            map.serialize_entry("host_name", &*hello.host.host_name)?;
            map.serialize_entry("boot_id", &*hello.host.boot_id)?;
            map.serialize_entry("kernel", &*hello.host.kernel)?;
            map.serialize_entry("cpus", &hello.host.cpus)?;
            map.serialize_entry("probe", &*hello.probe)?;
            map.serialize_entry("hidepid", &hello.host.hidepid)?;
            map.serialize_entry("contained", &hello.host.is_contained)?;
        }
        write_fields(&mut map, HOST, node, None)?;
        map.serialize_entry("network", &traffic(&node.host.network, "receive", "transmit"))?;
        map.serialize_entry("infiniband", &traffic(&node.host.infiniband, "receive", "transmit"))?;
        map.serialize_entry("disks", &traffic(&node.host.disks, "read", "write"))?;
        let space: Vec<Json> = node
            .host
            .slow
            .space
            .iter()
            .map(|space| json!({"path": &*space.path, "total_bytes": space.total.0, "free_bytes": space.free.0}))
            .collect();
        map.serialize_entry("space", &space)?;
        map.end()
    }
}

fn traffic(list: &[Traffic], inward: &str, outward: &str) -> Vec<Json> {
    let one = |traffic: &Traffic| {
        json!({
            "name": &*traffic.name,
            format!("{inward}_bytes_per_second"): traffic.inward.0,
            format!("{outward}_bytes_per_second"): traffic.outward.0,
        })
    };
    list.iter().map(one).collect()
}

struct DeviceJson<'a> {
    node: &'a Node,
    device: &'a Device,
    place: usize,
    now: Timestamp,
}

impl Serialize for DeviceJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { node, device, place, now } = *self;
        let users = node.why_users_unknown(place).map(|why| ("processes", why));
        let processes: Option<Vec<UsageJson>> =
            users.is_none().then(|| Usage::of(node, device).map(UsageJson).collect());
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("uuid", &*device.uuid)?;
        map.serialize_entry("index", &device.index.get())?;
        map.serialize_entry("parent", &device.parent.as_deref())?;
        map.serialize_entry("fresh", &node.device_freshness(place, now).is_fresh())?;
        map.serialize_entry("fault", &device.fault.as_ref().map(device_fault))?;
        write_fields(&mut map, of_device(), device, users)?;
        map.serialize_entry("links", &links(device))?;
        map.serialize_entry("processes", &processes)?;
        map.end()
    }
}

/// The counters of each `NVLink`.
fn links(device: &Device) -> Vec<Json> {
    let known = device.details.as_ref().and_then(|details| details.links.known());
    let one =
        |link: &LinkCounters| json!({"transmit_bytes": link.sent, "receive_bytes": link.received});
    known.iter().flat_map(|links| links.iter()).map(one).collect()
}

fn device_fault(fault: &DeviceFault) -> &str {
    match fault {
        DeviceFault::Lost => "lost",
        DeviceFault::NeedsReset => "needs reset",
        DeviceFault::NoPermission => "no permission",
        DeviceFault::Other(words) => words,
    }
}

struct UsageJson(Usage);

impl Serialize for UsageJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(usage) = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("pid", &usage.used.pid)?;
        map.serialize_entry(
            "start_ticks",
            &usage.process.as_ref().map(|process| process.key.start_ticks),
        )?;
        write_fields(&mut map, PROCESS, usage, None)?;
        let parents: Vec<Json> = usage.process.iter().flat_map(parents).collect();
        map.serialize_entry("parents", &parents)?;
        map.end()
    }
}

/// The processes above one, the nearest first.
fn parents(process: &Process) -> impl Iterator<Item = Json> + '_ {
    process.statics.parents.iter().map(
        |one| json!({"pid": one.key.pid, "start_ticks": one.key.start_ticks, "name": &*one.name}),
    )
}

/// Writes each field by its id, and why the unknown ones are unknown.
fn write_fields<T: 'static, M: SerializeMap>(
    map: &mut M,
    fields: impl IntoIterator<Item = &'static Field<T>>,
    subject: &T,
    also_unknown: Option<(&str, Reason)>,
) -> Result<(), M::Error> {
    let mut unknown: BTreeMap<&str, &str> =
        also_unknown.into_iter().map(|(key, why)| (key, why.text())).collect();
    for field in fields {
        match (field.read)(subject) {
            Value::Unknown(reason) => {
                unknown.insert(field.id, Reason::text(reason));
                map.serialize_entry(field.id, &())?;
            }
            Value::Number(number) => map.serialize_entry(field.id, &number)?,
            Value::Whole(number) => map.serialize_entry(field.id, &number)?,
            Value::Text(text) => map.serialize_entry(field.id, &*text)?,
            Value::Flag(flag) => map.serialize_entry(field.id, &flag)?,
        }
    }
    map.serialize_entry("unknown", &unknown)
}

fn totals(totals: &Totals) -> Json {
    json!({
        "nodes": totals.nodes,
        "fresh": totals.fresh,
        "stale": totals.stale,
        "down": totals.down,
        "known": totals.fresh + totals.stale,
        "devices": totals.devices,
        "devices_busy": totals.busy,
        "devices_held": totals.held,
        "devices_free": totals.free,
        "devices_faulty": totals.faulty,
        "utilization_percent": totals.utilization.map(crate::model::Percent::get),
        "memory_used_bytes": totals.memory_used.map(|bytes| bytes.0),
        "memory_total_bytes": totals.memory_total.map(|bytes| bytes.0),
        "power_watts": totals.power.map(crate::model::Watts::get),
        "power_limit_watts": totals.power_limit.map(crate::model::Watts::get),
    })
}
