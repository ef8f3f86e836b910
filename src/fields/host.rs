//! The metrics of a machine.

use crate::fields::{Field, bytes, celsius, number, percent, whole};
use crate::fleet::Node;

/// The metrics of a machine.
pub const HOST: &[Field<Node>] = &[
    Field {
        id: "cpu_percent",
        title: "CPU",
        alias: "cpu",
        help: "share of processor time spent working",
        read: |node| percent(node.host.cpu),
    },
    Field {
        id: "load_1_minute",
        title: "LOAD",
        alias: "load",
        help: "load average over a minute",
        read: |node| number(node.host.fast.load.map(|[one, _, _]| one)),
    },
    Field {
        id: "load_5_minutes",
        title: "LOAD5",
        alias: "load5",
        help: "load average over 5 minutes",
        read: |node| number(node.host.fast.load.map(|[_, five, _]| five)),
    },
    Field {
        id: "load_15_minutes",
        title: "LOAD15",
        alias: "load15",
        help: "load average over 15 minutes",
        read: |node| number(node.host.fast.load.map(|[_, _, fifteen]| fifteen)),
    },
    Field {
        id: "memory_total_bytes",
        title: "TOTAL",
        alias: "hostmemtotal",
        help: "memory of the machine",
        read: |node| bytes(node.host.fast.memory_total),
    },
    Field {
        id: "memory_available_bytes",
        title: "AVAIL",
        alias: "hostmemfree",
        help: "memory that programs can still get",
        read: |node| bytes(node.host.fast.memory_available),
    },
    Field {
        id: "swap_total_bytes",
        title: "SWAP",
        alias: "swaptotal",
        help: "swap space",
        read: |node| bytes(node.host.fast.swap_total),
    },
    Field {
        id: "swap_free_bytes",
        title: "SWAPFREE",
        alias: "swapfree",
        help: "unused swap space",
        read: |node| bytes(node.host.fast.swap_free),
    },
    Field {
        id: "pressure_cpu_percent",
        title: "PSICPU",
        alias: "psicpu",
        help: "share of 10 s in which some task waited for a processor",
        read: |node| percent(node.host.fast.pressure.cpu),
    },
    Field {
        id: "pressure_memory_percent",
        title: "PSIMEM",
        alias: "psimem",
        help: "share of 10 s in which some task waited for memory",
        read: |node| percent(node.host.fast.pressure.memory),
    },
    Field {
        id: "pressure_io_percent",
        title: "PSIIO",
        alias: "psiio",
        help: "share of 10 s in which some task waited for storage",
        read: |node| percent(node.host.fast.pressure.io),
    },
    Field {
        id: "temperature_celsius",
        title: "TEMP",
        alias: "cputemp",
        help: "temperature of the hottest processor package",
        read: |node| celsius(node.host.slow.temperature),
    },
    Field {
        id: "uptime_seconds",
        title: "UP",
        alias: "uptime",
        help: "time since boot",
        read: |node| whole(node.host.fast.uptime_seconds),
    },
];
