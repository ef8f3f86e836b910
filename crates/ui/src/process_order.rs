//! The order of the rows of the process tables.

use std::cmp::Ordering;

use crate::process_row::ProcessEntry;
use crate::widgets::number_format::percent_value;
use gtop_fleet::Node;
use gtop_fleet::query::{SortColumn, SortOrder};
use gtop_model::{Device, JobId, UseKind};

/// A sort column and the keys it sorts by.
struct ProcessOrder {
    column: SortColumn,
    /// True if the default order is descending.
    is_descending: bool,
    key: fn(ProcessEntry<'_>) -> ProcessSortKey<'_>,
}

impl ProcessOrder {
    const fn rising(column: SortColumn, key: fn(ProcessEntry<'_>) -> ProcessSortKey<'_>) -> Self {
        Self { column, is_descending: false, key }
    }

    const fn falling(column: SortColumn, key: fn(ProcessEntry<'_>) -> ProcessSortKey<'_>) -> Self {
        Self { column, is_descending: true, key }
    }
}

/// The sort orders, in the order of the table; `node` is the order in which rows are collected.
static ORDERS: [ProcessOrder; 16] = [
    ProcessOrder::rising(
        SortColumn::new("node", 'n', "node and device", "by node and device"),
        |_| ProcessSortKey::Unknown,
    ),
    ProcessOrder::rising(SortColumn::new("gpu", 'g', "device", "by device"), |entry| {
        let key = entry.device.and_then(|device| device_sort_key(entry.node, device));
        key.map_or(ProcessSortKey::Unknown, ProcessSortKey::Number)
    }),
    ProcessOrder::rising(SortColumn::new("pid", 'p', "pid", "by process id"), |entry| {
        ProcessSortKey::Number(f64::from(entry.used.pid))
    }),
    ProcessOrder::rising(SortColumn::new("type", 'y', "type", "by type"), |entry| {
        ProcessSortKey::text(entry.used.kind.get().map(UseKind::as_str))
    }),
    ProcessOrder::rising(SortColumn::new("user", 'u', "user", "by user"), |entry| {
        ProcessSortKey::text(entry.user())
    }),
    ProcessOrder::falling(
        SortColumn::new("gpumem", 'm', "device memory", "by device memory"),
        |entry| ProcessSortKey::count(entry.used.memory.get().map(|bytes| bytes.0)),
    ),
    ProcessOrder::falling(SortColumn::new("psm", 's', "device load", "by device load"), |entry| {
        ProcessSortKey::number(entry.load())
    }),
    ProcessOrder::falling(
        SortColumn::new("pmembw", 'b', "memory bandwidth", "by memory bandwidth"),
        |entry| ProcessSortKey::number(percent_value(entry.used.memory_utilization)),
    ),
    ProcessOrder::falling(
        SortColumn::new("penc", 'e', "video encoder", "by video encoder"),
        |entry| ProcessSortKey::number(percent_value(entry.used.encoder)),
    ),
    ProcessOrder::falling(
        SortColumn::new("pdec", 'd', "video decoder", "by video decoder"),
        |entry| ProcessSortKey::number(percent_value(entry.used.decoder)),
    ),
    ProcessOrder::falling(SortColumn::new("pcpu", 'c', "CPU", "by CPU"), |entry| {
        ProcessSortKey::number(entry.cpu_percent())
    }),
    ProcessOrder::falling(
        SortColumn::new("prss", 'h', "share of host memory", "by share of host memory"),
        |entry| ProcessSortKey::number(entry.resident_share()),
    ),
    ProcessOrder::falling(SortColumn::new("rss", 'r', "host memory", "by host memory"), |entry| {
        ProcessSortKey::count(entry.resident().map(|bytes| bytes.0))
    }),
    ProcessOrder::falling(
        SortColumn::new("time", 't', "running time", "by running time"),
        |entry| ProcessSortKey::count(entry.run_time().map(|time| time.as_secs())),
    ),
    ProcessOrder::rising(SortColumn::new("job", 'i', "job", "by job"), |entry| {
        let id = entry.job().map(JobId::as_str);
        id.and_then(|id| id.parse().ok())
            .map_or_else(|| ProcessSortKey::text(id), ProcessSortKey::Number)
    }),
    ProcessOrder::rising(
        SortColumn::new("command", 'l', "command line", "by command line"),
        |entry| ProcessSortKey::text(Some(entry.command()).filter(|command| !command.is_empty())),
    ),
];

/// Returns the columns that the table can be sorted by.
pub fn sort_columns() -> Vec<SortColumn> {
    ORDERS.iter().map(|order| order.column).collect()
}

fn known(name: &str) -> Option<&'static ProcessOrder> {
    ORDERS.iter().find(|order| order.column.name == name)
}

/// Returns the column of this name.
pub(crate) fn column(name: &str) -> Option<&'static SortColumn> {
    known(name).map(|known| &known.column)
}

/// Describes an order: `by device memory, reversed`.
pub(crate) fn description(order: SortOrder) -> String {
    let direction = if order.is_reversed { ", reversed" } else { "" };
    column(order.column)
        .map_or_else(String::new, |column| format!("by {}{direction}", column.label))
}

/// Returns true if values rise from row to row.
pub(crate) fn is_rising(order: SortOrder) -> bool {
    known(order.column).is_none_or(|known| known.is_descending == order.is_reversed)
}

/// Returns the positions of processes, which are in the order of nodes and devices, in another order.
pub(crate) fn positions(entries: &[Option<ProcessEntry<'_>>], order: SortOrder) -> Vec<usize> {
    if order.column == "node" && order.is_reversed {
        return (0..entries.len()).rev().collect();
    }
    let Some(known) = known(order.column).filter(|known| known.column.name != "node") else {
        return (0..entries.len()).collect();
    };
    let keys = entries.iter().map(|entry| entry.map_or(ProcessSortKey::Unknown, known.key));
    let mut keyed: Vec<(ProcessSortKey<'_>, usize)> = keys.zip(0..).collect();
    let is_descending = known.is_descending != order.is_reversed;
    keyed.sort_by(|(one, at), (other, index)| {
        one.compare(other, is_descending).then_with(|| at.cmp(index))
    });
    keyed.into_iter().map(|(_, index)| index).collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ProcessSortKey<'a> {
    Number(f64),
    Text(&'a str),
    Unknown,
}

impl<'a> ProcessSortKey<'a> {
    fn number(value: Option<f32>) -> Self {
        value.map_or(Self::Unknown, |value| Self::Number(value.into()))
    }

    fn count(value: Option<u64>) -> Self {
        value.map_or(Self::Unknown, |value| Self::Number(to_f64(value)))
    }

    fn text(value: Option<&'a str>) -> Self {
        value.map_or(Self::Unknown, Self::Text)
    }

    /// Compares two keys; unknown values come last in either direction.
    fn compare(&self, other: &Self, is_descending: bool) -> Ordering {
        let order = match (self, other) {
            (Self::Unknown, Self::Unknown) => return Ordering::Equal,
            (Self::Unknown, _) => return Ordering::Greater,
            (_, Self::Unknown) => return Ordering::Less,
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Number(_), Self::Text(_)) => Ordering::Less,
            (Self::Text(_), Self::Number(_)) => Ordering::Greater,
        };
        if is_descending { order.reverse() } else { order }
    }
}

#[expect(clippy::cast_precision_loss, reason = "only the order counts")]
const fn to_f64(value: u64) -> f64 {
    value as f64
}

/// Returns the sort key of a device: its index, with its slices directly behind it.
fn device_sort_key(node: &Node, device: &Device) -> Option<f64> {
    let index = f64::from(device.index.get()?);
    let Some(parent) = &device.parent else { return Some(index) };
    Some(f64::from(node.device(parent)?.index.get()?) + (index + 1.0) / 1_000.0)
}
