//! A snapshot for Prometheus: text format 0.0.4, or `OpenMetrics` 1.0.
//!
//! gtop's own names (docs/serve.md), and those of other exporters whose dashboards a site already has.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::export::exposition::text::{ExpositionText, Labels};
use crate::fleet::{Fleet, Node};
use crate::model::{Allocation, Device, Job, JobList, Link, NodeName, Space};
use crate::time::Timestamp;

mod dcgm;
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
pub fn exposition(fleet: &Fleet, now: Timestamp, options: ExpositionOptions) -> Vec<u8> {
    let mut text = ExpositionText::new(options.is_open_metrics);
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

/// Returns a fleet with each machine once: of its names, the first one that is up. Jobs have their devices under that one.
fn machines_of(fleet: &Fleet) -> Fleet {
    if fleet.same_as.is_empty() {
        return fleet.clone();
    }
    let first_name = |node: &Node| fleet.same_as.get(&node.name).unwrap_or(&node.name).clone();
    let mut machines: Vec<(NodeName, &Arc<Node>)> = Vec::new();
    for node in fleet.nodes.iter() {
        let name = first_name(node);
        match machines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, chosen)) if chosen.link != Link::Up && node.link == Link::Up => *chosen = node,
            Some(_) => {}
            None => machines.push((name, node)),
        }
    }
    let chosen_name = |name: &NodeName| {
        let first = fleet.same_as.get(name).unwrap_or(name);
        let machine = machines.iter().find(|(known, _)| known == first);
        machine.map_or(name, |(_, node)| &node.name).clone()
    };
    let renamed = |job: &Job| {
        let allocations = job.allocations.iter().map(|allocation| Allocation {
            node: chosen_name(&allocation.node),
            devices: allocation.devices.clone(),
        });
        Job { allocations: allocations.collect(), ..job.clone() }
    };
    let jobs = fleet.jobs.as_ref().map(|list| {
        Arc::new(JobList { jobs: list.jobs.iter().map(renamed).collect(), ..JobList::clone(list) })
    });
    let nodes = machines.iter().map(|(_, node)| Arc::clone(node)).collect();
    Fleet { nodes, same_as: Arc::default(), jobs }
}

impl<'a> ServedFleet<'a> {
    /// `fleet` has the names, `machines` each machine once.
    fn of(fleet: &Fleet, machines: &'a Fleet, now: Timestamp) -> Self {
        let mut names = BTreeSet::new();
        let served = |node: &'a Arc<Node>| {
            let first = fleet.same_as.get(&node.name).unwrap_or(&node.name);
            let mut name = first.without_login().to_owned();
            // Two logins of what may be one machine, which has not answered under the second one.
            while !names.insert(name.clone()) {
                name.push('\'');
            }
            ServedNode::of(node, name, now)
        };
        let nodes = machines.nodes.iter().map(served).collect();
        Self { machines, now, nodes }
    }

    fn devices(&self) -> impl Iterator<Item = &ServedDevice<'a>> {
        self.nodes.iter().flat_map(|node| &node.devices)
    }

    fn fresh_hosts(&self) -> impl Iterator<Item = &ServedNode<'a>> {
        self.nodes.iter().filter(|node| node.is_host_fresh)
    }

    fn fresh_slow_hosts(&self) -> impl Iterator<Item = &ServedNode<'a>> {
        self.nodes.iter().filter(|node| node.is_slow_host_fresh)
    }

    /// Returns the devices whose values are current.
    fn fresh_devices(&self) -> impl Iterator<Item = &ServedDevice<'a>> {
        self.devices().filter(|device| device.is_fresh)
    }
}

impl<'a> ServedNode<'a> {
    fn of(node: &'a Arc<Node>, name: String, now: Timestamp) -> Self {
        let labels = Labels::default().with("node", &name);
        let node_name = name.clone();
        let mut names = BTreeSet::new();
        let served = |(position, device): (usize, &'a Device)| {
            // Devices of two vendors may have the same index.
            let name = device_name(node, device);
            let name = if names.contains(&name) { device.uuid.to_string() } else { name };
            names.insert(name.clone()).then(|| ServedDevice {
                node,
                node_name: node_name.clone(),
                position,
                device,
                labels: labels.clone().with("device", &name),
                is_fresh: node.device_freshness(position, now).is_fresh(),
                has_fresh_processes: node.process_freshness(position, now).is_fresh(),
            })
        };
        let devices = node.devices.iter().enumerate().filter_map(served).collect();
        let is_host_fresh = node.host_freshness(now).is_fresh();
        let is_slow_host_fresh = node.slow_host_freshness(now).is_fresh();
        Self { node, name, labels, is_host_fresh, is_slow_host_fresh, devices }
    }

    fn device(&self, uuid: &str) -> Option<&ServedDevice<'a>> {
        self.devices.iter().find(|served| *served.device.uuid == *uuid)
    }
}

/// Returns true if this path may be told to all: one below the root may have the name of a user in it.
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
