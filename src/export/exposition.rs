//! A snapshot for Prometheus: text format 0.0.4, or `OpenMetrics` 1.0.
//!
//! gtop's own names (docs/serve.md), and those of other exporters whose dashboards a site already has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::export::exposition::text::{ExpositionText, Labels};
use gtop_fleet::{Fleet, Node};
use gtop_local::time::Timestamp;
use gtop_model::{Device, Space};

pub use crate::export::exposition::metric_choice::{MetricChoice, UnknownMetric};

mod dcgm;
mod metric_choice;
mod nvitop;
mod own;
mod text;

/// How the snapshot is written, and what of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpositionOptions {
    /// `OpenMetrics` instead of Prometheus text.
    pub is_open_metrics: bool,
    /// With names of users and jobs.
    pub has_names: bool,
    /// With processes, if names are allowed.
    pub has_processes: bool,
    /// The other exporters whose names are added.
    pub compat: CompatNames,
}

/// Other exporters whose names are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompatNames {
    /// dcgm-exporter up to 4.8.
    pub dcgm: bool,
    /// Newer names of DCGM's fields.
    pub dcgm_canonical: bool,
    /// nvitop-exporter.
    pub nvitop: bool,
}

impl ExpositionOptions {
    /// Returns the media type of what is written.
    pub const fn media_type(self) -> &'static str {
        if self.is_open_metrics {
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        } else {
            "text/plain; version=0.0.4; charset=utf-8"
        }
    }
}

/// Returns the snapshot as text. Machines with two names are written once; values that are unknown or stale have no
/// series.
pub fn exposition(
    fleet: &Fleet,
    now: Timestamp,
    options: ExpositionOptions,
    metrics: &MetricChoice,
) -> Vec<u8> {
    let mut text = ExpositionText::new(options.is_open_metrics, metrics.clone());
    let machines = machines_of(fleet);
    let served = ServedFleet::of(fleet, &machines, now);
    own::write(&mut text, &served, options);
    if options.compat.dcgm {
        dcgm::write_classic(&mut text, &served);
    }
    if options.compat.dcgm_canonical {
        dcgm::write_canonical(&mut text, &served, options.compat.dcgm);
    }
    if options.compat.nvitop {
        nvitop::write(&mut text, &served, options);
    }
    text.finish()
}

/// Returns all of gtop's own names.
fn metric_names() -> BTreeSet<String> {
    let mut text = ExpositionText::listing();
    let fleet = Fleet::default();
    let served = ServedFleet::of(&fleet, &fleet, Timestamp::from_micros(0));
    let all =
        ExpositionOptions { has_names: true, has_processes: true, ..ExpositionOptions::default() };
    own::write(&mut text, &served, all);
    text.into_names()
}

/// The machines of a fleet, with what each set of names needs of them.
struct ServedFleet<'a> {
    /// The machines, each under one name, and the jobs on them as last known.
    machines: &'a Fleet,
    now: Timestamp,
    nodes: Vec<ServedNode<'a>>,
}

/// A machine.
struct ServedNode<'a> {
    node: &'a Node,
    /// Its first name, without the login name.
    name: String,
    /// `node`
    labels: Labels,
    /// The values of the host are current.
    is_host_fresh: bool,
    /// Those of its slow group are.
    is_slow_host_fresh: bool,
    devices: Vec<ServedDevice<'a>>,
}

/// A device, or a slice of one.
struct ServedDevice<'a> {
    node: &'a Node,
    /// The name of the node.
    node_name: String,
    position: usize,
    device: &'a Device,
    /// `node` and `device`
    labels: Labels,
    /// Its values are current.
    is_fresh: bool,
    /// What is known of its processes is current.
    has_fresh_processes: bool,
}

/// Returns a fleet with each machine once.
fn machines_of(fleet: &Fleet) -> Fleet {
    if fleet.same_as.is_empty() {
        return fleet.clone();
    }
    let nodes = fleet.machines().cloned().collect();
    Fleet { nodes, same_as: Arc::default(), ..fleet.clone() }
}

impl<'a> ServedFleet<'a> {
    /// `fleet` has the names, `machines` each machine once.
    fn of(fleet: &Fleet, machines: &'a Fleet, now: Timestamp) -> Self {
        // A machine keeps its first name, whichever of its names is up.
        let mut first_names = BTreeMap::new();
        for node in fleet.nodes.iter() {
            let machine = fleet.machine_name(&node.name);
            first_names.entry(machine).or_insert(&node.name);
        }
        let mut names = BTreeSet::new();
        let nodes = machines.nodes.iter().map(|node| {
            let first = first_names.get(&node.name).copied().unwrap_or(&node.name);
            let mut name = first.without_login().to_owned();
            // Two logins of what may be one machine, which has not answered under the second one.
            while !names.insert(name.clone()) {
                name.push('\'');
            }
            ServedNode::of(node, name, now)
        });
        let nodes = nodes.collect();
        Self { machines, now, nodes }
    }

    fn devices(&self) -> impl Iterator<Item = &ServedDevice<'a>> {
        self.nodes.iter().flat_map(|node| &node.devices)
    }

    fn fresh_hosts(&self) -> impl Iterator<Item = &ServedNode<'a>> {
        self.nodes.iter().filter(|node| node.is_host_fresh)
    }

    /// Returns the file systems whose values are current; without `has_names` only those with public paths.
    fn fresh_spaces(&self, has_names: bool) -> impl Iterator<Item = (&ServedNode<'a>, &Space)> {
        let nodes = self.nodes.iter().filter(|node| node.is_slow_host_fresh);
        let spaces = nodes.flat_map(|served| {
            served.node.host.slow.space.iter().map(move |space| (served, space))
        });
        spaces.filter(move |(_, space)| has_names || is_public(space))
    }

    /// Returns the devices whose values are current.
    fn fresh_devices(&self) -> impl Iterator<Item = &ServedDevice<'a>> {
        self.devices().filter(|device| device.is_fresh)
    }
}

impl<'a> ServedNode<'a> {
    fn of(node: &'a Arc<Node>, name: String, now: Timestamp) -> Self {
        let labels = Labels::default().with("node", &name);
        let mut names = BTreeSet::new();
        let devices = node.devices.iter().enumerate().filter_map(|(position, device)| {
            // Devices of two vendors may have the same index.
            let number = device_name(node, device);
            let number = if names.contains(&number) { device.uuid.to_string() } else { number };
            names.insert(number.clone()).then(|| ServedDevice {
                node,
                node_name: name.clone(),
                position,
                device,
                labels: labels.and("device", &number),
                is_fresh: node.device_freshness(position, now).is_fresh(),
                has_fresh_processes: node.process_freshness(position, now).is_fresh(),
            })
        });
        let devices = devices.collect();
        let is_host_fresh = node.host_freshness(now).is_fresh();
        let is_slow_host_fresh = node.slow_host_freshness(now).is_fresh();
        Self { node, name, labels, is_host_fresh, is_slow_host_fresh, devices }
    }
}

/// Returns true if this path may be served without the token: one below the root may contain the name of a user.
fn is_public(space: &Space) -> bool {
    space.path.matches('/').count() == 1
}

/// Returns the driver's index, for a slice after the one of its device: `3`, `3.1`; the UUID if it has none.
fn device_name(node: &Node, device: &Device) -> String {
    let parent = device.parent.as_ref().map(|uuid| node.device(uuid).and_then(|it| it.index.get()));
    match (parent, device.index.get()) {
        (None, Some(index)) => index.to_string(),
        (Some(Some(parent)), Some(index)) => format!("{parent}.{index}"),
        (_, None) | (Some(None), Some(_)) => device.uuid.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use gtop_fleet::{FleetStore, SourceState};
    use gtop_model::{
        Allocation, Bytes, DeviceAllocation, Hello, HostFacts, Job, JobList, JobListError, Link,
        NodeName, Reading, SchedulerErrorKind, Source,
    };

    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);

    /// Returns a node with a device, whose sources were sampled this many seconds ago.
    fn node(name: &str, is_up: bool, ages: &[(&str, u64)]) -> Node {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        node.link = if is_up { Link::Up } else { Link::Opening { attempt: 1 } };
        node.devices = vec![Device {
            uuid: "GPU-1".into(),
            index: Reading::Known(0),
            memory_used: Reading::Known(Bytes(7)),
            ..Device::default()
        }]
        .into();
        node.device_sources = [Source::new("nvml")].into();
        let space = |path: &str| Space { path: path.into(), total: Bytes(9), free: Bytes(5) };
        node.host.slow.space = ["/", "/media/ada"].map(space).into();
        let state = |(source, age): &(&str, u64)| SourceState {
            source: Source::new(source),
            taken_at: Some(NOW.minus(Duration::from_secs(*age))),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        };
        node.sources = ages.iter().map(state).collect();
        node
    }

    fn lines(fleet: &Fleet, has_names: bool) -> Vec<String> {
        let options = ExpositionOptions { has_names, ..ExpositionOptions::default() };
        let text = String::from_utf8(exposition(fleet, NOW, options, &MetricChoice::All)).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    fn has(lines: &[String], start: &str) -> bool {
        lines.iter().any(|line| line.starts_with(start))
    }

    const FRESH: &[(&str, u64)] = &[("host", 0), ("host.slow", 0), ("nvml", 0)];

    #[test]
    fn what_is_stale_has_no_series_and_its_age_stays() {
        let memory = "gtop_device_memory_used_bytes{node=\"a\",device=\"0\"} 7";
        let space = "gtop_node_filesystem_free_bytes{node=\"a\",path=\"/\"} 5";
        for (ages, has_memory, has_space) in [
            (FRESH, true, true),
            (&[("host", 0), ("host.slow", 3600), ("nvml", 0)], true, false),
            (&[("host", 0), ("host.slow", 0), ("nvml", 3600)], false, true),
        ] {
            let fleet = Fleet::new([Arc::new(node("a", true, ages))].into());
            let lines = lines(&fleet, false);
            let found = (has(&lines, memory), has(&lines, space));
            assert_eq!(found, (has_memory, has_space), "{ages:?} {lines:#?}");
            assert!(has(&lines, "gtop_sample_age_seconds{node=\"a\",source=\"nvml\"}"));
            assert!(has(&lines, "gtop_device_info{node=\"a\",device=\"0\",uuid=\"GPU-1\""));
        }
    }

    #[test]
    fn names_of_users_are_for_those_who_may_see_them() {
        let fleet = Fleet::new([Arc::new(node("ada@a", true, FRESH))].into());
        assert!(!lines(&fleet, false).iter().any(|line| line.contains("ada")));
        assert!(lines(&fleet, true).iter().any(|line| line.contains("path=\"/media/ada\"")));
    }

    #[test]
    fn other_exporters_names_tell_no_users_either() {
        let fleet = Fleet::new([Arc::new(node("ada@a", true, FRESH))].into());
        let compat = CompatNames { dcgm: true, dcgm_canonical: true, nvitop: true };
        let text = |has_names| {
            let options = ExpositionOptions { has_names, compat, ..ExpositionOptions::default() };
            String::from_utf8(exposition(&fleet, NOW, options, &MetricChoice::All)).unwrap()
        };
        assert!(text(false).contains("mountpoint=\"/\"") && !text(false).contains("ada"));
        assert!(text(true).contains("mountpoint=\"/media/ada\""));
    }

    #[test]
    fn what_has_the_same_name_or_index_is_told_apart() {
        let mut first = node("ada@a", true, FRESH);
        let second = Device { uuid: "GPU-2".into(), ..first.devices[0].clone() };
        first.devices.push(second);
        first.device_sources = vec![Source::new("nvml"); 2].into();
        let nodes = [first, node("bob@a", true, FRESH)].map(Arc::new);
        let lines = lines(&Fleet::new(nodes.into()), false);
        let memory = "gtop_device_memory_used_bytes";
        for place in
            ["node=\"a\",device=\"0\"", "node=\"a\",device=\"GPU-2\"", "node=\"a'\",device=\"0\""]
        {
            assert!(has(&lines, &format!("{memory}{{{place}}} 7")), "{place}: {lines:#?}");
        }
        assert_eq!(lines.iter().filter(|line| line.starts_with(memory)).count(), 3);
    }

    #[test]
    fn a_scheduler_that_does_not_answer_is_not_up() {
        let fleet = Fleet::new([Arc::new(node("a", true, FRESH))].into());
        assert!(!has(&lines(&fleet, false), "gtop_scheduler"));
        let at = Some(NOW.minus(Duration::from_secs(5)));
        let kind = SchedulerErrorKind::ControllerDown;
        let error = JobListError { message: "down".into(), kind, since: NOW };
        for (error, up) in [(None, 1), (Some(error), 0)] {
            let jobs = JobList { at, error, ..JobList::default() };
            let lines = lines(&fleet.clone().with_jobs(Some(Arc::new(jobs))), false);
            assert!(has(&lines, &format!("gtop_scheduler_up {up}")), "{lines:#?}");
        }
    }

    #[test]
    fn a_machine_with_two_names_is_the_one_that_is_up_and_has_the_jobs_of_both() {
        let mut nodes = [node("a", false, &[("host", 600)]), node("b", true, FRESH)];
        for node in &mut nodes {
            let host = HostFacts { boot_id: "boot-1".into(), ..HostFacts::default() };
            node.hello = Some(Arc::new(Hello { host, ..Hello::default() }));
        }
        let [first, second] = nodes.each_ref().map(|node| node.name.clone());
        let devices = DeviceAllocation::Indices([0].into());
        for listed in [&first, &second] {
            let allocation = Allocation { node: listed.clone(), devices: devices.clone() };
            let job = Job { allocations: [allocation].into(), ..Job::example("7") };
            let store = FleetStore::new([], Duration::ZERO);
            let jobs = JobList { jobs: vec![job], ..JobList::default() };
            let nodes = nodes.iter().cloned().map(Arc::new).collect();
            store.replace(nodes, Some(Arc::new(jobs)), || {});
            let lines = lines(&store.reader().borrow(), false);
            assert!(has(&lines, "gtop_node_up{node=\"a\"} 1"), "{lines:#?}");
            let job = "gtop_job_device_info{node=\"a\",device=\"0\",job=\"7\",job_id=\"7\",certainty=\"likely\"} 1";
            assert!(has(&lines, job), "{listed:?} {lines:#?}");
            assert!(!lines.iter().any(|line| line.contains("node=\"b\"")));
        }
    }
}
