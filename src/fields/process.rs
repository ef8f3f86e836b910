//! The metrics of a process on a device.

use std::sync::Arc;

use crate::fields::{Field, Value, bytes, number, percent, text, whole, word};
use crate::fleet::{Node, Process};
use crate::model::{Device, DeviceUse, Reason, UseKind};

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

/// The metrics of a process on a device.
pub const PROCESS: &[Field<Usage>] = &[
    Field {
        id: "user",
        title: "USER",
        alias: "user",
        help: "owner",
        read: |usage| usage.of_process(|process| text(&process.statics.user)),
    },
    Field {
        id: "uid",
        title: "UID",
        alias: "uid",
        help: "owner's number",
        read: |usage| usage.of_process(|process| whole(process.statics.uid)),
    },
    Field {
        id: "memory_used_bytes",
        title: "MEM",
        alias: "gpumem",
        help: "device memory it holds",
        read: |usage| bytes(usage.used.memory),
    },
    Field {
        id: "sm_percent",
        title: "SM",
        alias: "psm",
        help: "share of time its kernels ran",
        read: |usage| percent(usage.used.sm),
    },
    Field {
        id: "memory_utilization_percent",
        title: "MEMBW",
        alias: "pmembw",
        help: "share of time its kernels used the memory",
        read: |usage| percent(usage.used.memory_utilization),
    },
    Field {
        id: "encoder_percent",
        title: "ENC",
        alias: "penc",
        help: "share of the video encoder",
        read: |usage| percent(usage.used.encoder),
    },
    Field {
        id: "decoder_percent",
        title: "DEC",
        alias: "pdec",
        help: "share of the video decoder",
        read: |usage| percent(usage.used.decoder),
    },
    Field {
        id: "cu_occupancy_percent",
        title: "CU",
        alias: "pcu",
        help: "share of the compute units it keeps busy",
        read: |usage| percent(usage.used.occupancy),
    },
    Field {
        id: "kind",
        title: "TYPE",
        alias: "type",
        help: "what for: C computes, G draws, C+G does both",
        read: |usage| word(usage.used.kind, UseKind::text),
    },
    Field {
        id: "cpu_percent",
        title: "CPU",
        alias: "pcpu",
        help: "processor time; 100 is one processor",
        read: |usage| usage.of_process(|process| number(process.cpu_percent)),
    },
    Field {
        id: "resident_bytes",
        title: "RSS",
        alias: "rss",
        help: "memory in use on the host",
        read: |usage| usage.of_process(|process| bytes(process.resident)),
    },
    Field {
        id: "parent_pid",
        title: "PPID",
        alias: "ppid",
        help: "parent process",
        read: |usage| usage.of_process(|process| whole(process.statics.parent_pid)),
    },
    Field {
        id: "job",
        title: "JOB",
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
    Field {
        id: "command",
        title: "COMMAND",
        alias: "command",
        help: "command line",
        read: Usage::command,
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bytes, Reading};

    #[test]
    fn a_hidden_process_still_has_the_name_the_driver_gives() {
        let used = DeviceUse {
            device: "GPU-1".into(),
            pid: 4,
            memory: Reading::Known(Bytes(5)),
            driver_name: Some("python".into()),
            ..DeviceUse::default()
        };
        let usage = Usage { used, process: None };
        assert_eq!(usage.command(), Value::Text("python".into()));
        let owner = PROCESS.iter().find(|field| field.id == "user").unwrap();
        assert_eq!((owner.read)(&usage), Value::Unknown(Reason::NotAvailable));
    }
}
