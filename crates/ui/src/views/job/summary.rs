//! Summary of one job: its nodes, its own devices on them, distributions and findings.

use std::collections::{BTreeMap, BTreeSet};

use crate::views::job::distribution::Distribution;
use crate::views::job::load::JobLoad;
use crate::views::job::metric::ComparedMetric;
use crate::views::job::summary::findings::{Finding, Outlier};
use crate::widgets::line::truncate;
use crate::widgets::number_format::Units;
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::device_flag::DeviceFlag;
use gtop_fleet::insight::jobs::{JobEntry, JobNode};
use gtop_fleet::insight::node_status::NodeStatus;
use gtop_fleet::{Certainty, Evidence, Node};
use gtop_local::text::width_of;
use gtop_model::{Device, Job, NodeName, nodeset};

pub(super) mod findings;

/// Widest node name in the names of outliers.
const MAX_NAME_WIDTH: u16 = 19;

/// A job, summarised once per `JobIndex`.
#[derive(Debug)]
pub(crate) struct JobSummary {
    pub(crate) units: Units,
    pub(crate) job: Job,
    pub(crate) is_listed: bool,
    /// How the job's devices are known.
    pub(crate) evidence: Evidence,
    /// Some of its devices are only likely.
    pub(crate) is_likely: bool,
    /// Number of its devices of which it is not known which they are.
    pub(crate) unplaced: u32,
    /// Labels of the device columns.
    pub(crate) columns: Vec<String>,
    /// The nodes with devices that match the filter.
    pub(crate) rows: Vec<NodeRow>,
    /// Width of the longest node name.
    pub(crate) name_width: u16,
    /// True if some rows show a text in place of numbers.
    pub(crate) has_text_rows: bool,
    /// Number of nodes hidden by the filter.
    pub(crate) hidden: usize,
    /// Nodes where processes use other devices than the scheduler assigned, as a folded host list.
    pub(crate) disputed: Option<String>,
    /// Nodes left out of the statistics because their samples are not fresh: count and folded host list.
    pub(crate) stale: Option<(usize, String)>,
    pub(super) load: JobLoad,
    /// Devices without slices, as far as they are known.
    pub(crate) devices: usize,
    /// Slices (MIG instances).
    pub(crate) slices: usize,
    /// The distribution of each metric, and the names of its outliers.
    compared: Vec<(ComparedMetric, Distribution, Vec<String>)>,
    /// Worst first.
    pub(crate) findings: Vec<Finding>,
}

#[derive(Debug)]
pub(crate) struct NodeRow {
    pub(crate) name: NodeName,
    /// Index into the nodes of the fleet, `None` if the node is not monitored.
    pub(crate) node_index: Option<usize>,
    pub(crate) is_fresh: bool,
    /// True if neither scheduler nor processes show which devices the job has here.
    pub(crate) has_unknown_devices: bool,
    /// The devices of the job on this node that match the filter.
    pub(crate) cells: Vec<DeviceCell>,
}

impl NodeRow {
    /// Returns the node, `None` if it is not monitored.
    pub(crate) fn node<'a>(&self, fleet_view: &'a FleetView) -> Option<&'a Node> {
        fleet_view.fleet.nodes.get(self.node_index?).map(|node| &**node)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceCell {
    pub(crate) column: usize,
    /// Index into the devices of the node.
    pub(crate) device: usize,
    /// True if the device has a finding.
    pub(crate) is_marked: bool,
}

/// The row and the cell of a device.
type CellPosition = (usize, usize);

/// Device index, slice index, and a counter for devices of a node that share both.
type DeviceLabel = (u32, Option<u32>, usize);

impl JobSummary {
    pub(crate) fn build(fleet_view: &FleetView, entry: &JobEntry, units: Units) -> Self {
        let nodes = entry.job.allocations.iter().zip(&entry.nodes);
        let nodes = nodes.filter(|(_, job_node)| job_node.is_shown);
        let labelled: Vec<Vec<(DeviceLabel, usize)>> =
            nodes.clone().map(|(_, job_node)| device_labels(fleet_view, job_node)).collect();
        let device_labels: BTreeSet<DeviceLabel> =
            labelled.iter().flatten().map(|(label, _)| *label).collect();
        let columns: BTreeMap<DeviceLabel, usize> = device_labels.into_iter().zip(0..).collect();
        let rows = nodes.clone().zip(&labelled).map(|((allocation, job_node), labelled)| {
            let node = job_node.node(fleet_view);
            let cells = labelled.iter().map(|(label, device)| DeviceCell {
                column: columns.get(label).copied().unwrap_or(0),
                device: *device,
                is_marked: false,
            });
            NodeRow {
                name: allocation.node.clone(),
                node_index: job_node.node_index,
                is_fresh: node.is_some_and(|node| NodeStatus::of(node, fleet_view.now).is_fresh()),
                has_unknown_devices: !job_node.holdings.is_known(),
                cells: cells.collect(),
            }
        });
        let rows: Vec<NodeRow> = rows.collect();
        let stale: Vec<&str> =
            rows.iter().filter(|row| !row.is_fresh).map(|row| row.name.label()).collect();
        // A node that has not reported its devices counts with the requested number.
        let device_counts = rows.iter().zip(nodes.clone()).map(|(row, (allocation, _))| {
            let asked = allocation.devices.count().filter(|_| row.has_unknown_devices);
            asked.unwrap_or(row.cells.len())
        });
        let device_total: usize = device_counts.sum();
        let disputed =
            nodes.filter(|(_, job_node)| job_node.holdings.certainty == Certainty::Disputed);
        let disputed: Vec<&str> = disputed.map(|(allocation, _)| allocation.node.label()).collect();
        let slices = labelled.iter().flatten().filter(|((_, slice, _), _)| slice.is_some()).count();
        let mut holdings = entry.nodes.iter().map(|job_node| &job_node.holdings);
        let evidence = holdings.clone().map(|known| known.evidence);
        let mut summary = Self {
            job: entry.job.clone(),
            units,
            is_listed: entry.is_listed,
            evidence: evidence.fold(Evidence::default(), Evidence::and),
            unplaced: holdings.clone().filter_map(|known| known.unplaced).sum(),
            is_likely: holdings.any(|known| known.certainty == Certainty::Likely),
            columns: columns.keys().map(|label| label_text(*label)).collect(),
            hidden: entry.nodes.len() - rows.len(),
            disputed: (!disputed.is_empty()).then(|| nodeset::fold(disputed)),
            stale: (!stale.is_empty()).then(|| (stale.len(), nodeset::fold(stale))),
            load: JobLoad::of(fleet_view, entry),
            devices: device_total.saturating_sub(slices),
            slices,
            name_width: rows.iter().map(|row| width_of(row.name.label())).max().unwrap_or(0),
            has_text_rows: rows.iter().any(|row| row.cells.is_empty()),
            rows,
            compared: Vec::new(),
            findings: Vec::new(),
        };
        summary.find_outliers(fleet_view);
        summary
    }

    /// Returns the distribution of a metric over the job's devices on fresh nodes, and the names of the outliers, furthest
    /// first.
    pub(crate) fn compared(&self, metric: ComparedMetric) -> Option<(&Distribution, &[String])> {
        let found = self.compared.iter().find(|(known, ..)| *known == metric);
        found.map(|(_, distribution, outliers)| (distribution, outliers.as_slice()))
    }

    /// Names the device of a (row, cell) as `gpu02:3`; the node name gets at most `max_width` columns.
    fn device_name(&self, (row, cell): CellPosition, max_width: u16) -> Option<String> {
        let row = self.rows.get(row)?;
        let column = self.columns.get(row.cells.get(cell)?.column)?;
        Some(format!("{}:{column}", truncate(row.name.label(), max_width)))
    }

    /// Computes distributions and findings, and marks the cells that have a finding.
    fn find_outliers(&mut self, fleet_view: &FleetView) {
        let mut outliers: BTreeMap<CellPosition, Vec<Outlier>> = BTreeMap::new();
        for metric in ComparedMetric::ALL {
            let known = self.fresh_devices(fleet_view);
            let known = known.filter_map(|(cell, _, device)| Some((cell, metric.read(device)?)));
            let (cells, values): (Vec<_>, Vec<f32>) = known.unzip();
            let Some(distribution) = Distribution::of(&values, metric.tolerance()) else {
                continue;
            };
            let indices = distribution.outliers.iter();
            let names =
                indices.filter_map(|index| self.device_name(*cells.get(*index)?, MAX_NAME_WIDTH));
            let names = names.collect();
            for index in &distribution.outliers {
                if let Some((cell, value)) = cells.get(*index).zip(values.get(*index)) {
                    outliers.entry(*cell).or_default().push((metric, *value, distribution.median));
                }
            }
            self.compared.push((metric, distribution, names));
        }
        let flagged = self
            .fresh_devices(fleet_view)
            .filter(|(_, node, device)| !DeviceFlag::of(node, device).is_empty());
        let flagged = flagged.map(|(cell, ..)| cell);
        let marked: BTreeSet<CellPosition> = outliers.keys().copied().chain(flagged).collect();
        let devices = self.fresh_devices(fleet_view).filter(|(cell, ..)| marked.contains(cell));
        let found = devices.filter_map(|(cell, node, device)| {
            let name = self.device_name(cell, u16::MAX)?;
            let outliers = outliers.get(&cell).map_or(&[][..], Vec::as_slice);
            Some(Finding::of(name, (node, device), outliers, self.units))
        });
        let mut found: Vec<Finding> = found.collect();
        findings::sort(&mut found);
        self.findings = found;
        for (row, cell_index) in marked {
            let cell = self.rows.get_mut(row).and_then(|row| row.cells.get_mut(cell_index));
            if let Some(cell) = cell {
                cell.is_marked = true;
            }
        }
    }

    /// Returns the devices of the job on fresh nodes, each with its place and its node.
    fn fresh_devices<'a>(
        &'a self,
        fleet_view: &'a FleetView,
    ) -> impl Iterator<Item = (CellPosition, &'a Node, &'a Device)> {
        let fresh = self.rows.iter().enumerate().filter(|(_, row)| row.is_fresh);
        let nodes = fresh.filter_map(|(at, row)| Some((at, row, row.node(fleet_view)?)));
        nodes.flat_map(|(at, row, node)| {
            let cells = row.cells.iter().enumerate();
            cells.filter_map(move |(index, cell)| {
                Some(((at, index), node, node.devices.get(cell.device)?))
            })
        })
    }
}

/// Labels the matching devices of a job on a node, in the order in which the node lists them.
fn device_labels(fleet_view: &FleetView, job_node: &JobNode) -> Vec<(DeviceLabel, usize)> {
    let Some(node) = job_node.node(fleet_view) else { return Vec::new() };
    let mut device_labels: Vec<(DeviceLabel, usize)> = Vec::new();
    for (index, device) in job_node.devices(node) {
        let parent_number = device.parent.as_ref().and_then(|parent| {
            let at = node.devices.iter().position(|other| other.uuid == *parent)?;
            Some(number(node.devices.get(at)?, at))
        });
        let own_number = number(device, index);
        let (number, slice) =
            parent_number.map_or((own_number, None), |parent| (parent, Some(own_number)));
        let known = device_labels.iter().map(|((number, slice, _), _)| (*number, *slice));
        let same = known.filter(|known| *known == (number, slice)).count();
        device_labels.push(((number, slice, same), index));
    }
    device_labels
}

/// Returns the number of a device, that of its position if it reports none.
fn number(device: &Device, position: usize) -> u32 {
    device.index.get().unwrap_or_else(|| u32::try_from(position).unwrap_or(u32::MAX))
}

fn label_text((number, slice, _): DeviceLabel) -> String {
    slice.map_or_else(|| number.to_string(), |slice| format!("{number}.{slice}"))
}
