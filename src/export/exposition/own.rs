//! gtop's own names: `gtop_`, what has the metric, and its id in base units.

use std::collections::BTreeSet;

use crate::export::exposition::text::{
    ExpositionText, Family, FamilyKind, Labels, SampleValue, unique,
};
use crate::export::exposition::{ExpositionOptions, ServedDevice, ServedFleet, ServedNode};
use gtop_fleet::insight::node_status::fleet_notes;
use gtop_fleet::metrics::{
    Field, HOST, PROCESS, Usage, ValueKind, device_fields, is_slow_host_metric,
};
use gtop_fleet::{
    DeviceState, Evidence, HealthReason, Host, JobLookup, LastState, StateReason, Traffic,
};
use gtop_local::time::Timestamp;
use gtop_model::{Link, TransportKind};

/// Writes all families.
pub(super) fn write(
    text: &mut ExpositionText,
    served: &ServedFleet<'_>,
    options: ExpositionOptions,
) {
    let version = Labels::default().with("version", env!("CARGO_PKG_VERSION"));
    text.infos("gtop_build_info", "the version of gtop", [version]);
    write_nodes(text, served);
    write_notes(text, served);
    write_sources(text, served);
    write_hosts(text, served, options.has_names);
    write_devices(text, served);
    write_scheduler(text, served);
    write_jobs(text, served, options.has_names);
    if options.has_names && options.has_processes {
        write_processes(text, served);
    }
}

fn write_nodes(text: &mut ExpositionText, served: &ServedFleet<'_>) {
    let nodes = &served.nodes;
    let up = nodes.iter().map(|served| (&served.labels, (served.node.link == Link::Up).into()));
    text.gauge("gtop_node_up", "1 while the node is connected", up);
    let faults = nodes
        .iter()
        .filter_map(|served| Some(served.labels.and("kind", served.node.fault()?.kind.label())));
    text.infos("gtop_node_fault_info", "why a node is not connected", faults);
    let facts = nodes.iter().filter_map(|served| {
        let hello = served.node.hello.as_ref()?;
        let transport = served.node.via.map_or("", TransportKind::as_str);
        let labels = served.labels.and("host_name", &hello.host.host_name);
        let labels = labels.with("kernel", &hello.host.kernel).with("transport", transport);
        Some(labels.with("probe", &hello.probe))
    });
    text.infos("gtop_node_info", "the host of a node", facts);
}

/// Writes the notes on nodes, by their names: their texts have times in them, each of which would be a series.
fn write_notes(text: &mut ExpositionText, served: &ServedFleet<'_>) {
    let facts = served.nodes.iter().flat_map(|ServedNode { node, labels, .. }| {
        let notes = fleet_notes(served.machines, node, served.now);
        let notes = notes.iter().map(|note| {
            let remedy = note.common_advice(&node.name).first();
            (note.id(), note.severity().as_str(), remedy)
        });
        let notes: BTreeSet<_> = notes.collect();
        notes.into_iter().map(|(id, severity, remedy)| {
            let labels = labels.and("note", id).with("severity", severity);
            labels.with("remedy", &remedy)
        })
    });
    text.infos("gtop_node_note_info", "what is said of a node", facts);
}

fn write_sources(text: &mut ExpositionText, served: &ServedFleet<'_>) {
    let states = served.nodes.iter().flat_map(|ServedNode { node, labels, .. }| {
        node.sources.iter().map(|state| (labels.and("source", state.source.as_str()), state))
    });
    let states: Vec<_> = states.collect();
    let ages = states
        .iter()
        .filter_map(|(labels, state)| Some((labels, seconds_since(state.taken_at?, served))));
    text.gauge("gtop_sample_age_seconds", "age of the newest sample of a source", ages);
    let faults = states
        .iter()
        .filter_map(|(labels, state)| Some(labels.and("kind", state.fault.as_ref()?.kind.label())));
    text.infos("gtop_source_fault_info", "why a source has no new samples", faults);
}

/// Names of families for both directions, the label that tells what has the traffic, and where it is.
type TrafficFamilies = ([&'static str; 2], &'static str, fn(&Host) -> &[Traffic]);

const TRAFFIC: [TrafficFamilies; 3] = [
    (["network_receive", "network_transmit"], "interface", |host| &host.network),
    (["infiniband_receive", "infiniband_transmit"], "port", |host| &host.infiniband),
    (["disk_read", "disk_write"], "disk", |host| &host.disks),
];

fn write_hosts(text: &mut ExpositionText, served: &ServedFleet<'_>, has_names: bool) {
    for field in HOST {
        let is_slow = is_slow_host_metric(field.id);
        let hosts = served.nodes.iter().filter(|served| {
            if is_slow { served.is_slow_host_fresh } else { served.is_host_fresh }
        });
        let hosts = hosts.map(|served| (&served.labels, served.node));
        write_field(text, "node", field, hosts);
    }
    for (directions, label, traffic) in TRAFFIC {
        let rates = served
            .fresh_hosts()
            .flat_map(|served| traffic(&served.node.host).iter().map(move |one| (served, one)))
            .map(|(served, one)| (served.labels.and(label, &one.name), one));
        let rates = unique(rates);
        let [inward, outward] =
            directions.map(|direction| format!("gtop_node_{direction}_bytes_per_second"));
        let read = rates.iter().map(|(labels, rate)| (labels, rate.inward.into()));
        text.gauge(&inward, "bytes received or read per second", read);
        let written = rates.iter().map(|(labels, rate)| (labels, rate.outward.into()));
        text.gauge(&outward, "bytes sent or written per second", written);
    }
    let spaces = served.fresh_spaces(has_names);
    let spaces =
        unique(spaces.map(|(served, space)| (served.labels.and("path", &space.path), space)));
    let sizes = spaces.iter().map(|(labels, space)| (labels, space.total.into()));
    text.gauge("gtop_node_filesystem_size_bytes", "size of a file system", sizes);
    let help = "space of a file system that is free for an ordinary user";
    let free = spaces.iter().map(|(labels, space)| (labels, space.free.into()));
    text.gauge("gtop_node_filesystem_free_bytes", help, free);
}

fn write_devices(text: &mut ExpositionText, served: &ServedFleet<'_>) {
    text.infos("gtop_device_info", "what a device is", served.devices().map(device_facts));
    let faults = served
        .fresh_devices()
        .filter_map(|served| Some(served.labels.and("kind", served.device.fault.as_ref()?.kind())));
    text.infos("gtop_device_fault_info", "why a device reports no values", faults);
    let healths = served.fresh_devices().map(|served| {
        let health = served.node.health(served.device);
        served.labels.and("health", health.as_str())
    });
    text.infos("gtop_device_health", "1 for how sound a device is", healths);
    let reasons = served.fresh_devices().flat_map(|served| {
        let reasons = served.node.health_reasons(served.device);
        let ids: BTreeSet<&str> = reasons.iter().map(HealthReason::id).collect();
        ids.into_iter().map(|id| served.labels.and("reason", id)).collect::<Vec<_>>()
    });
    text.infos("gtop_device_health_reason_info", "why a device is not sound", reasons);
    let whole = served.fresh_devices().filter(|served| !served.node.has_slices(served.device));
    let states = whole.map(|served| {
        let state = LastState::of(served.node, served.position, served.device);
        served.labels.and("state", DeviceState::from(state).id())
    });
    text.infos("gtop_device_state", "1 for the state that a device is in", states);
    let help = "why a device is not free, or not known to be";
    let reasons = served.fresh_devices().filter_map(|device| {
        let reason = StateReason::of(device.node, device.position, served.now)?;
        Some(device.labels.and("reason", reason.id()))
    });
    text.infos("gtop_device_state_reason_info", help, reasons);
    for field in device_fields() {
        let devices = served.fresh_devices().map(|served| (&served.labels, served.device));
        write_field(text, "device", field, devices);
    }
}

fn device_facts(served: &ServedDevice<'_>) -> Labels {
    let device = served.device;
    let labels = served.labels.and("uuid", &device.uuid);
    let mut labels = labels.with("parent", device.parent.as_deref().unwrap_or_default());
    for (label, id) in [
        ("vendor", "vendor"),
        ("model", "name"),
        ("pci_bus", "pci_bus"),
        ("driver_version", "driver_version"),
    ] {
        let field = device_fields().find(|field| field.id == id);
        let text = field.and_then(|field| (field.read)(device).text()).unwrap_or_default();
        labels = labels.with(label, &text);
    }
    labels
}

/// Writes whether the scheduler answers, if one is asked.
fn write_scheduler(text: &mut ExpositionText, served: &ServedFleet<'_>) {
    let list = served.machines.jobs.as_ref();
    let none = Labels::default();
    let is_up = list.map(|list| (&none, (list.error.is_none() && list.at.is_some()).into()));
    text.gauge("gtop_scheduler_up", "1 while the scheduler answers", is_up);
    let help =
        "age of what the scheduler last said of jobs and of the devices in use, the older of both";
    let answered_at = list.and_then(|list| list.answered_at());
    let age = answered_at.map(|at| (&none, seconds_since(at, served)));
    text.gauge("gtop_scheduler_age_seconds", help, age);
}

/// Returns an age with three decimals.
fn seconds_since(at: Timestamp, served: &ServedFleet<'_>) -> SampleValue {
    SampleValue::Double((served.now.since(at).as_secs_f64() * 1000.0).round() / 1000.0)
}

/// Writes which job has which device; with names also whose jobs they are. What a scheduler said that does not answer any
/// more counts for [`gtop_model::JobList::is_kept`]; later there are only the jobs of processes.
fn write_jobs(text: &mut ExpositionText, served: &ServedFleet<'_>, has_names: bool) {
    let list = served.machines.jobs.as_ref().filter(|list| list.is_kept(served.now));
    let lookup = JobLookup::of(list);
    let held = served.devices().flat_map(|served| job_labels(served, &lookup));
    text.infos("gtop_job_device_info", "which job has which device", held);
    if has_names {
        let jobs = list.into_iter().flat_map(|list| list.with_nodes()).map(|job| {
            let labels = Labels::default().with("job", &job.shown_id);
            let labels = labels.with("job_id", job.id.as_str()).with("user", &job.user);
            let labels = labels.with("name", &job.name).with("partition", &job.partition);
            labels.with("account", job.account.as_deref().unwrap_or_default())
        });
        text.infos("gtop_job_info", "whose job it is", jobs);
    }
}

/// Returns the labels of the jobs that have a device.
fn job_labels(
    ServedDevice { node, device, labels, has_fresh_processes, .. }: &ServedDevice<'_>,
    lookup: &JobLookup,
) -> Vec<Labels> {
    // Of a card, jobs have slices.
    if node.is_cut(device) {
        return Vec::new();
    }
    let claims = node.holdings.device(&device.uuid).claims.iter();
    let labels = claims.filter_map(|claim| {
        let id = claim.holder.job.as_ref()?;
        let job = lookup.job(id);
        let is_listed = job.is_some() && claim.evidence.has(Evidence::SCHEDULER);
        let is_used = claim.evidence.has(Evidence::PROCESSES) && *has_fresh_processes;
        (is_listed || is_used).then(|| {
            let labels = labels.and("job", job.map_or(id.as_str(), |job| &job.shown_id));
            labels.with("job_id", id.as_str()).with("certainty", claim.certainty.as_str())
        })
    });
    labels.collect()
}

fn write_processes(text: &mut ExpositionText, served: &ServedFleet<'_>) {
    let usages = served.fresh_devices();
    let usages: Vec<(Labels, Usage)> =
        usages.flat_map(|served| device_processes(served, &served.labels)).collect();
    let facts = usages.iter().map(|(labels, usage)| {
        let user = usage.statics().and_then(|statics| statics.user.known().cloned());
        let command = usage.command().text();
        let labels = labels.and("user", user.as_deref().unwrap_or_default());
        labels.with("command", command.as_deref().unwrap_or_default())
    });
    text.infos("gtop_process_info", "a process on a device", facts);
    for field in PROCESS.iter().filter(|field| !["uid", "parent_pid"].contains(&field.id)) {
        let processes = usages.iter().map(|(labels, usage)| (labels, usage));
        write_field(text, "process", field, processes);
    }
}

/// Returns the processes on a device, each once and with a label for its pid; none if their list is old.
pub(super) fn device_processes(
    served: &ServedDevice<'_>,
    labels: &Labels,
) -> impl Iterator<Item = (Labels, Usage)> {
    let mut pids = BTreeSet::new();
    let is_fresh = served.has_fresh_processes;
    let usages = Usage::of(served.node, served.device).filter(move |_| is_fresh);
    let usages = usages.filter(move |usage| pids.insert(usage.used.pid));
    usages.map(|usage| (labels.and("pid", &usage.used.pid.to_string()), usage))
}

/// Writes a metric in base units; texts and times have no number.
fn write_field<'l, S: 'static>(
    text: &mut ExpositionText,
    subject: &str,
    field: &Field<S>,
    subjects: impl Iterator<Item = (&'l Labels, &'l S)>,
) {
    if matches!(field.kind, ValueKind::Text | ValueKind::Timestamp) {
        return;
    }
    let name = family_name(subject, field.id, field.is_counter);
    let kind = if field.is_counter { FamilyKind::Counter } else { FamilyKind::Gauge };
    let samples = subjects.filter_map(|(labels, subject)| {
        Some((labels, in_base_unit(field.id, SampleValue::of(&(field.read)(subject))?)))
    });
    text.family(Family { name: &name, kind, help: field.help }, samples);
}

/// Ids that Prometheus would misread: minutes and bits are no units here, and `_total` is the ending of counters.
const RENAMED: [(&str, &str); 7] = [
    ("load_1_minute", "load1"),
    ("load_5_minutes", "load5"),
    ("load_15_minutes", "load15"),
    ("throttle_bits", "throttle_mask"),
    ("device_minor", "minor"),
    ("ecc_corrected_total_errors", "ecc_corrected_lifetime_errors"),
    ("ecc_uncorrected_total_errors", "ecc_uncorrected_lifetime_errors"),
];

/// Returns the name for an id, in the unit that Prometheus wants: `utilization_percent` becomes `utilization_ratio`.
fn family_name(subject: &str, id: &str, is_counter: bool) -> String {
    let renamed = RENAMED.iter().find(|(known, _)| *known == id);
    let name = renamed.map_or(id, |(_, name)| name);
    let name = name.replace("_percent", "_ratio").replace("_megahertz", "_hertz");
    format!("gtop_{subject}_{name}{}", if is_counter { "_total" } else { "" })
}

/// Converts a value of this metric to the unit that Prometheus wants.
fn in_base_unit(id: &str, value: SampleValue) -> SampleValue {
    if id.ends_with("_percent") {
        value.divided(100.0)
    } else if id.ends_with("_megahertz") {
        value.millionfold()
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_base_units_and_only_counters_end_in_total() {
        let name = |id: &str, is_counter| family_name("x", id, is_counter);
        assert_eq!(name("utilization_percent", false), "gtop_x_utilization_ratio");
        assert_eq!(name("sm_clock_megahertz", false), "gtop_x_sm_clock_hertz");
        assert_eq!(name("energy_joules", true), "gtop_x_energy_joules_total");
        let renamed = name("ecc_corrected_total_errors", true);
        assert_eq!(renamed, "gtop_x_ecc_corrected_lifetime_errors_total");
        let mut names = BTreeSet::new();
        for field in device_fields() {
            let name = name(field.id, field.is_counter);
            assert_eq!(name.ends_with("_total"), field.is_counter, "{name}");
            assert!(!name.contains("_percent") && !name.contains("_megahertz"), "{name}");
            assert!(names.insert(name), "{}", field.id);
        }
    }
}
