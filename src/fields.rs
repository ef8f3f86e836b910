//! One declaration per metric: every table, file and filter reads these lines.
//!
//! A field's id ends in its unit and is the JSON key; the alias is for filters and columns. Knows
//! nothing of formats or cell widths.

use std::sync::Arc;

use crate::fleet::{Node, Process};
use crate::model::{
    Bytes, Celsius, Device, DeviceUse, Megahertz, Percent, Reading, Reason, Throttle, Watts,
};

/// A metric of an `S`.
#[derive(Debug)]
pub struct Field<S: 'static> {
    /// The key everywhere outside the screen.
    pub id: &'static str,
    /// The short name for filters and columns.
    pub alias: &'static str,
    /// What it is, in a line.
    pub help: &'static str,
    /// Reads it.
    pub read: fn(&S) -> Value,
}

/// A value without its unit, which stands in the field's id.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not known, and why.
    Unknown(Reason),
    /// A measured number.
    Number(f32),
    /// A count or an amount.
    Whole(u64),
    /// Words.
    Text(Arc<str>),
    /// Yes or no.
    Flag(bool),
}

/// A process on one device: the device's side and the kernel's side.
#[derive(Clone, Debug)]
pub struct Usage {
    /// What it holds of the device.
    pub used: DeviceUse,
    /// What the kernel tells, when it tells.
    pub process: Option<Process>,
}

impl Usage {
    /// Returns who uses a device of this node, in the driver's order.
    pub fn of<'a>(node: &'a Node, device: &'a Device) -> impl Iterator<Item = Self> + 'a {
        node.uses_of(&device.uuid)
            .map(|used| Self { used: used.clone(), process: node.process(used.pid).cloned() })
    }

    fn of_process(&self, read: impl Fn(&Process) -> Value) -> Value {
        self.process.as_ref().map_or(Value::Unknown(Reason::NotAvailable), read)
    }

    /// The kernel knows the whole command line; the driver at least a name.
    fn command(&self) -> Value {
        match (self.of_process(|process| text(&process.statics.command)), &self.used.driver_name) {
            (Value::Unknown(_), Some(name)) => Value::Text(Arc::clone(name)),
            (known, _) => known,
        }
    }
}

/// The metrics of a device.
pub const DEVICE: &[Field<Device>] = &[
    Field { id: "name", alias: "name", help: "model name", read: |device| text(&device.name) },
    Field { id: "pci_bus", alias: "pci", help: "PCI bus id", read: |device| text(&device.pci) },
    Field {
        id: "driver_version",
        alias: "driver",
        help: "driver version",
        read: |device| text(&device.driver),
    },
    Field {
        id: "utilization_percent",
        alias: "util",
        help: "share of time the device ran anything",
        read: |device| percent(device.utilization),
    },
    Field {
        id: "memory_utilization_percent",
        alias: "membw",
        help: "share of time its memory was read or written",
        read: |device| percent(device.memory_utilization),
    },
    Field {
        id: "memory_used_bytes",
        alias: "mem",
        help: "device memory in use",
        read: |device| bytes(device.memory_used),
    },
    Field {
        id: "memory_total_bytes",
        alias: "memtotal",
        help: "device memory",
        read: |device| bytes(device.memory_total),
    },
    Field {
        id: "memory_free_bytes",
        alias: "memfree",
        help: "device memory free",
        read: |device| bytes(device.memory_free),
    },
    Field {
        id: "memory_reserved_bytes",
        alias: "memreserved",
        help: "device memory the driver keeps for itself",
        read: |device| bytes(device.memory_reserved),
    },
    Field {
        id: "temperature_celsius",
        alias: "temp",
        help: "core temperature",
        read: |device| celsius(device.temperature),
    },
    Field {
        id: "memory_temperature_celsius",
        alias: "memtemp",
        help: "memory temperature",
        read: |device| celsius(device.memory_temperature),
    },
    Field {
        id: "power_watts",
        alias: "power",
        help: "power drawn",
        read: |device| watts(device.power),
    },
    Field {
        id: "power_limit_watts",
        alias: "limit",
        help: "power it may draw",
        read: |device| watts(device.power_limit),
    },
    Field {
        id: "sm_clock_megahertz",
        alias: "sm",
        help: "clock of the multiprocessors",
        read: |device| megahertz(device.sm_clock),
    },
    Field {
        id: "memory_clock_megahertz",
        alias: "memclock",
        help: "clock of the memory",
        read: |device| megahertz(device.memory_clock),
    },
    Field {
        id: "sm_clock_max_megahertz",
        alias: "smmax",
        help: "highest clock of the multiprocessors",
        read: |device| megahertz(device.sm_clock_max),
    },
    Field {
        id: "memory_clock_max_megahertz",
        alias: "memclockmax",
        help: "highest clock of the memory",
        read: |device| megahertz(device.memory_clock_max),
    },
    Field {
        id: "fan_percent",
        alias: "fan",
        help: "intended fan speed",
        read: |device| percent(device.fan),
    },
    Field {
        id: "performance_state",
        alias: "pstate",
        help: "performance state, 0 (fastest) to 15",
        read: |device| whole(device.performance_state),
    },
    Field {
        id: "throttle_bits",
        alias: "throttle",
        help: "why clocks are held down, NVML's bits",
        read: |device| whole(device.throttle.map(|Throttle(bits)| bits)),
    },
    Field {
        id: "ecc_corrected_errors",
        alias: "eccfix",
        help: "corrected memory errors since the driver was loaded",
        read: |device| whole(device.ecc_corrected),
    },
    Field {
        id: "ecc_uncorrected_errors",
        alias: "ecc",
        help: "uncorrected memory errors since the driver was loaded",
        read: |device| whole(device.ecc_uncorrected),
    },
    Field {
        id: "pcie_generation",
        alias: "pciegen",
        help: "PCIe generation in use",
        read: |device| whole(device.pcie.map(|(generation, _)| generation)),
    },
    Field {
        id: "pcie_lanes",
        alias: "pciewidth",
        help: "PCIe lanes in use",
        read: |device| whole(device.pcie.map(|(_, lanes)| lanes)),
    },
    Field {
        id: "persistence_enabled",
        alias: "persistence",
        help: "the driver stays loaded when nobody uses the device",
        read: |device| flag(device.persistence),
    },
    Field {
        id: "mig_enabled",
        alias: "mig",
        help: "split into MIG slices",
        read: |device| flag(device.mig),
    },
];

/// The metrics of a machine.
pub const HOST: &[Field<Node>] = &[
    Field {
        id: "cpu_percent",
        alias: "cpu",
        help: "share of processor time spent working",
        read: |node| percent(node.host.cpu),
    },
    Field {
        id: "load_1_minute",
        alias: "load",
        help: "load average over a minute",
        read: |node| number(node.host.fast.load.map(|[one, _, _]| one)),
    },
    Field {
        id: "load_5_minutes",
        alias: "load5",
        help: "load average over 5 minutes",
        read: |node| number(node.host.fast.load.map(|[_, five, _]| five)),
    },
    Field {
        id: "load_15_minutes",
        alias: "load15",
        help: "load average over 15 minutes",
        read: |node| number(node.host.fast.load.map(|[_, _, fifteen]| fifteen)),
    },
    Field {
        id: "memory_total_bytes",
        alias: "hostmemtotal",
        help: "memory of the machine",
        read: |node| bytes(node.host.fast.memory_total),
    },
    Field {
        id: "memory_available_bytes",
        alias: "hostmemfree",
        help: "memory that programs can still get",
        read: |node| bytes(node.host.fast.memory_available),
    },
    Field {
        id: "swap_total_bytes",
        alias: "swaptotal",
        help: "swap space",
        read: |node| bytes(node.host.fast.swap_total),
    },
    Field {
        id: "swap_free_bytes",
        alias: "swapfree",
        help: "unused swap space",
        read: |node| bytes(node.host.fast.swap_free),
    },
    Field {
        id: "pressure_cpu_percent",
        alias: "psicpu",
        help: "share of 10 s in which some task waited for a processor",
        read: |node| percent(node.host.fast.pressure.cpu),
    },
    Field {
        id: "pressure_memory_percent",
        alias: "psimem",
        help: "share of 10 s in which some task waited for memory",
        read: |node| percent(node.host.fast.pressure.memory),
    },
    Field {
        id: "pressure_io_percent",
        alias: "psiio",
        help: "share of 10 s in which some task waited for storage",
        read: |node| percent(node.host.fast.pressure.io),
    },
    Field {
        id: "temperature_celsius",
        alias: "cputemp",
        help: "temperature of the hottest processor package",
        read: |node| celsius(node.host.slow.temperature),
    },
    Field {
        id: "uptime_seconds",
        alias: "uptime",
        help: "time since boot",
        read: |node| whole(node.host.fast.uptime_seconds),
    },
];

/// The metrics of a process on a device.
pub const PROCESS: &[Field<Usage>] = &[
    Field {
        id: "user",
        alias: "user",
        help: "owner",
        read: |usage| usage.of_process(|process| text(&process.statics.user)),
    },
    Field {
        id: "uid",
        alias: "uid",
        help: "owner's number",
        read: |usage| usage.of_process(|process| whole(process.statics.uid)),
    },
    Field {
        id: "memory_used_bytes",
        alias: "gpumem",
        help: "device memory it holds",
        read: |usage| bytes(usage.used.memory),
    },
    Field {
        id: "sm_percent",
        alias: "psm",
        help: "share of time its kernels ran",
        read: |usage| percent(usage.used.sm),
    },
    Field {
        id: "cpu_percent",
        alias: "pcpu",
        help: "processor time; 100 is one processor",
        read: |usage| usage.of_process(|process| number(process.cpu_percent)),
    },
    Field {
        id: "resident_bytes",
        alias: "rss",
        help: "memory in use on the host",
        read: |usage| usage.of_process(|process| bytes(process.resident)),
    },
    Field {
        id: "parent_pid",
        alias: "ppid",
        help: "parent process",
        read: |usage| usage.of_process(|process| whole(process.statics.parent_pid)),
    },
    Field {
        id: "job",
        alias: "job",
        help: "the scheduler's job it belongs to",
        read: |usage| {
            usage.of_process(|process| {
                let job = process.statics.job.as_ref();
                job.map_or(Value::Unknown(Reason::NotAvailable), |job| {
                    Value::Text(job.as_str().into())
                })
            })
        },
    },
    Field { id: "command", alias: "command", help: "command line", read: Usage::command },
];

fn text(reading: &Reading<Arc<str>>) -> Value {
    reading.known().map_or_else(|| unknown(reading), |text| Value::Text(Arc::clone(text)))
}

fn number(reading: Reading<f32>) -> Value {
    reading.get().map_or_else(|| unknown(&reading), Value::Number)
}

fn whole<N: Into<u64> + Copy>(reading: Reading<N>) -> Value {
    reading.get().map_or_else(|| unknown(&reading), |number| Value::Whole(number.into()))
}

fn percent(reading: Reading<Percent>) -> Value {
    number(reading.map(Percent::get))
}

fn bytes(reading: Reading<Bytes>) -> Value {
    whole(reading.map(|Bytes(bytes)| bytes))
}

fn celsius(reading: Reading<Celsius>) -> Value {
    number(reading.map(Celsius::get))
}

fn watts(reading: Reading<Watts>) -> Value {
    number(reading.map(Watts::get))
}

fn megahertz(reading: Reading<Megahertz>) -> Value {
    whole(reading.map(Megahertz::get))
}

fn flag(reading: Reading<bool>) -> Value {
    reading.get().map_or_else(|| unknown(&reading), Value::Flag)
}

fn unknown<T>(reading: &Reading<T>) -> Value {
    Value::Unknown(reading.reason().unwrap_or(Reason::NotSampled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn check_names<S>(fields: &[Field<S>]) {
        let ids: BTreeSet<_> = fields.iter().map(|field| field.id).collect();
        let aliases: BTreeSet<_> = fields.iter().map(|field| field.alias).collect();
        assert_eq!(
            (ids.len(), aliases.len()),
            (fields.len(), fields.len()),
            "a name is taken twice"
        );
        for field in fields {
            let plain = |name: &str| {
                name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
            };
            assert!(plain(field.id) && plain(field.alias), "{}", field.id);
            assert!(!field.help.is_empty() && !field.help.ends_with('.'), "{}", field.id);
        }
    }

    #[test]
    fn names_are_plain_and_taken_once() {
        check_names(DEVICE);
        check_names(HOST);
        check_names(PROCESS);
    }

    #[test]
    fn what_a_device_does_not_report_is_unknown_and_not_zero() {
        let silent = Device::default();
        for field in DEVICE {
            assert_eq!((field.read)(&silent), Value::Unknown(Reason::NotSampled), "{}", field.id);
        }
    }

    #[test]
    fn a_hidden_process_still_has_the_name_the_driver_gives() {
        let used = DeviceUse {
            device: "GPU-1".into(),
            pid: 4,
            memory: Reading::Known(Bytes(5)),
            sm: Reading::default(),
            driver_name: Some("python".into()),
        };
        let usage = Usage { used, process: None };
        assert_eq!(usage.command(), Value::Text("python".into()));
        let owner = PROCESS.iter().find(|field| field.id == "user").unwrap();
        assert_eq!((owner.read)(&usage), Value::Unknown(Reason::NotAvailable));
    }
}
