//! The metrics of a node's host.

use crate::fleet::Node;
use crate::metrics::{Field, bytes, celsius, integer, number, percent};

/// The metrics of a node's host.
pub const HOST: &[Field<Node>] = &[
    Field::share("cpu_percent", "cpu", "CPU utilization of the node", |node: &Node| {
        percent(node.host.cpu)
    })
    .order('c', "CPU", "by CPU utilization"),
    Field::number("load_1_minute", "load", "load average over 1 minute", |node| {
        number(node.host.fast.load.map(|[one, _, _]| one))
    }),
    Field::number("load_5_minutes", "load5", "load average over 5 minutes", |node| {
        number(node.host.fast.load.map(|[_, five, _]| five))
    }),
    Field::number("load_15_minutes", "load15", "load average over 15 minutes", |node| {
        number(node.host.fast.load.map(|[_, _, fifteen]| fifteen))
    }),
    Field::integer("memory_total_bytes", "hostmemtotal", "total host memory", |node| {
        bytes(node.host.fast.memory_total)
    }),
    Field::integer("memory_available_bytes", "hostmemfree", "available host memory", |node| {
        bytes(node.host.fast.memory_available)
    }),
    Field::integer("swap_total_bytes", "swaptotal", "total swap", |node| {
        bytes(node.host.fast.swap_total)
    }),
    Field::integer("swap_free_bytes", "swapfree", "free swap", |node| {
        bytes(node.host.fast.swap_free)
    }),
    Field::share(
        "pressure_cpu_percent",
        "psicpu",
        "CPU pressure: share of 10 s in which some task waited for a CPU",
        |node| percent(node.host.fast.pressure.cpu),
    ),
    Field::share(
        "pressure_memory_percent",
        "psimem",
        "memory pressure: share of 10 s in which some task waited for memory",
        |node| percent(node.host.fast.pressure.memory),
    ),
    Field::share(
        "pressure_io_percent",
        "psiio",
        "I/O pressure: share of 10 s in which some task waited for I/O",
        |node| percent(node.host.fast.pressure.io),
    ),
    Field::number(
        "temperature_celsius",
        "cputemp",
        "temperature of the hottest CPU package",
        |node| celsius(node.host.slow.temperature),
    ),
    Field::integer("uptime_seconds", "uptime", "time since boot", |node| {
        integer(node.host.fast.uptime_seconds)
    }),
];
