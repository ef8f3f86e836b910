//! The metrics of a process on a device.

use std::sync::Arc;

use crate::fleet::{Node, Process};
use crate::metrics::{
    Field, Value, ValueKind, bytes, enum_text, integer, number, percent, text, timestamp,
};
use crate::model::{
    Device, DeviceUse, JobId, ProcessState, ProcessStatics, Reason, UnseenProcess, UseKind,
};

/// A process on one device: the values of the driver and of the kernel.
#[derive(Clone, Debug)]
pub struct Usage {
    /// Its use of the device, from the driver.
    pub used: DeviceUse,
    /// The values of the kernel; `None` if it shows no such process.
    pub process: Option<Process>,
    /// What is known about a process that the kernel does not show.
    pub unseen: Option<UnseenProcess>,
}

impl Usage {
    /// Returns the processes on a device of this node, in the driver's order.
    pub fn of<'a>(node: &'a Node, device: &'a Device) -> impl Iterator<Item = Self> + 'a {
        node.uses_of(&device.uuid).map(|used| Self {
            used: used.clone(),
            process: node.process(used.pid).cloned(),
            unseen: node.unseen_process(used.pid).cloned(),
        })
    }

    fn process_value(&self, read: impl Fn(&Process) -> Value) -> Value {
        self.process.as_ref().map_or(Value::Unknown(self.absence_reason()), read)
    }

    fn statics_value(&self, read: impl Fn(&ProcessStatics) -> Value) -> Value {
        match (&self.process, &self.unseen) {
            (Some(process), _) => read(&process.statics),
            (None, Some(unseen)) => read(&unseen.statics),
            (None, None) => Value::Unknown(Reason::NotAvailable),
        }
    }

    /// Reads an optional property, such as the job, whose absence is not due to missing permissions.
    fn optional_text<'a>(&'a self, read: impl Fn(&'a ProcessStatics) -> Option<&'a str>) -> Value {
        let statics = match (&self.process, &self.unseen) {
            (Some(process), _) => &*process.statics,
            (None, Some(unseen)) => &unseen.statics,
            (None, None) => return Value::Unknown(Reason::NotAvailable),
        };
        let reason =
            if self.process.is_some() { Reason::NotAvailable } else { self.absence_reason() };
        read(statics).map_or(Value::Unknown(reason), |text| Value::Text(text.into()))
    }

    /// Returns the reason why the kernel's values are missing.
    fn absence_reason(&self) -> Reason {
        self.unseen.as_ref().map_or(Reason::NotAvailable, |unseen| unseen.why.reason())
    }

    /// Returns the command line, or else the name known to the driver.
    fn command(&self) -> Value {
        match (self.statics_value(|statics| text(&statics.command)), &self.used.driver_name) {
            (Value::Unknown(_), Some(name)) => Value::Text(Arc::clone(name)),
            (known, _) => known,
        }
    }
}

/// The metrics of a process on a device.
pub const PROCESS: &[Field<Usage>] = &[
    Field {
        id: "user",
        kind: ValueKind::Text,
        title: "USER",
        alias: "user",
        help: "owner",
        read: |usage| usage.statics_value(|statics| text(&statics.user)),
    },
    Field {
        id: "uid",
        kind: ValueKind::Integer,
        title: "UID",
        alias: "uid",
        help: "user id of the owner",
        read: |usage| usage.statics_value(|statics| integer(statics.uid)),
    },
    Field {
        id: "memory_used_bytes",
        kind: ValueKind::Integer,
        title: "MEM",
        alias: "gpumem",
        help: "device memory in use by the process",
        read: |usage| bytes(usage.used.memory),
    },
    Field {
        id: "sm_percent",
        kind: ValueKind::Share,
        title: "SM",
        alias: "psm",
        help: "SM utilization of the process",
        read: |usage| percent(usage.used.sm),
    },
    Field {
        id: "memory_utilization_percent",
        kind: ValueKind::Share,
        title: "MEMBW",
        alias: "pmembw",
        help: "memory bandwidth utilization of the process",
        read: |usage| percent(usage.used.memory_utilization),
    },
    Field {
        id: "encoder_percent",
        kind: ValueKind::Share,
        title: "ENC",
        alias: "penc",
        help: "video encoder utilization of the process",
        read: |usage| percent(usage.used.encoder),
    },
    Field {
        id: "decoder_percent",
        kind: ValueKind::Share,
        title: "DEC",
        alias: "pdec",
        help: "video decoder utilization of the process",
        read: |usage| percent(usage.used.decoder),
    },
    Field {
        id: "cu_occupancy_percent",
        kind: ValueKind::Share,
        title: "CU",
        alias: "pcu",
        help: "compute unit occupancy of the process",
        read: |usage| percent(usage.used.occupancy),
    },
    Field {
        id: "kind",
        kind: ValueKind::Text,
        title: "TYPE",
        alias: "type",
        help: "type: C for compute, G for graphics, C+G for both",
        read: |usage| enum_text(usage.used.kind, UseKind::as_str),
    },
    Field {
        id: "cpu_percent",
        kind: ValueKind::Number,
        title: "CPU",
        alias: "pcpu",
        help: "CPU utilization; 100 is one core",
        read: |usage| usage.process_value(|process| number(process.cpu_percent)),
    },
    Field {
        id: "resident_bytes",
        kind: ValueKind::Integer,
        title: "RSS",
        alias: "rss",
        help: "resident host memory",
        read: |usage| usage.process_value(|process| bytes(process.resident)),
    },
    Field {
        id: "resident_percent",
        kind: ValueKind::Share,
        title: "RSS%",
        alias: "prss",
        help: "resident host memory as a share of the node's memory",
        read: |usage| usage.process_value(|process| percent(process.resident_share)),
    },
    Field {
        id: "state",
        kind: ValueKind::Text,
        title: "S",
        alias: "state",
        help: "process state: R running, S sleeping, D in uninterruptible sleep, T stopped, t traced, Z zombie",
        read: |usage| usage.process_value(|process| enum_text(process.state, ProcessState::letter)),
    },
    Field {
        id: "threads",
        kind: ValueKind::Integer,
        title: "THR",
        alias: "threads",
        help: "number of threads",
        read: |usage| usage.process_value(|process| integer(process.threads)),
    },
    Field {
        id: "started_at",
        kind: ValueKind::Timestamp,
        title: "STARTED",
        alias: "started",
        help: "start time, by the local clock",
        read: |usage| usage.process_value(|process| timestamp(process.started_at)),
    },
    Field {
        id: "running_seconds",
        kind: ValueKind::Integer,
        title: "TIME",
        alias: "time",
        help: "elapsed time since the start",
        read: |usage| usage.process_value(|process| integer(process.running_seconds)),
    },
    Field {
        id: "parent_pid",
        kind: ValueKind::Integer,
        title: "PPID",
        alias: "ppid",
        help: "parent process",
        read: |usage| usage.statics_value(|statics| integer(statics.parent_pid)),
    },
    Field {
        id: "job",
        kind: ValueKind::Text,
        title: "JOB",
        alias: "job",
        help: "job of the scheduler that the process belongs to",
        read: |usage| usage.optional_text(|statics| statics.job.as_ref().map(JobId::as_str)),
    },
    Field {
        id: "step",
        kind: ValueKind::Text,
        title: "STEP",
        alias: "step",
        help: "step of that job: a number, batch, extern or interactive",
        read: |usage| usage.optional_text(|statics| statics.step.as_deref()),
    },
    Field {
        id: "sluid",
        kind: ValueKind::Text,
        title: "SLUID",
        alias: "sluid",
        help: "SLUID: Slurm's job identifier where there is no job number",
        read: |usage| usage.optional_text(|statics| statics.sluid.as_deref()),
    },
    Field {
        id: "container",
        kind: ValueKind::Text,
        title: "CONTAINER",
        alias: "container",
        help: "container, by the beginning of its id",
        read: |usage| usage.optional_text(|statics| Some(&*statics.container.as_ref()?.id)),
    },
    Field {
        id: "container_kind",
        kind: ValueKind::Text,
        title: "BY",
        alias: "containerkind",
        help: "container runtime: docker, podman, containerd, cri-o, kubernetes, lxc or machine",
        read: |usage| {
            usage.optional_text(|statics| Some(statics.container.as_ref()?.kind.as_str()))
        },
    },
    Field {
        id: "pod",
        kind: ValueKind::Text,
        title: "POD",
        alias: "pod",
        help: "Kubernetes pod",
        read: |usage| usage.optional_text(|statics| statics.container.as_ref()?.pod.as_deref()),
    },
    Field {
        id: "working_directory",
        kind: ValueKind::Text,
        title: "CWD",
        alias: "cwd",
        help: "working directory; known for your own processes only",
        read: |usage| usage.statics_value(|statics| text(&statics.directory)),
    },
    Field {
        id: "command",
        kind: ValueKind::Text,
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
    fn a_hidden_process_has_the_name_known_to_the_driver() {
        let used = DeviceUse {
            device: "GPU-1".into(),
            pid: 4,
            memory: Reading::Known(Bytes(5)),
            driver_name: Some("python".into()),
            ..DeviceUse::default()
        };
        let usage = Usage { used, process: None, unseen: None };
        assert_eq!(usage.command(), Value::Text("python".into()));
        let owner = PROCESS.iter().find(|field| field.id == "user").unwrap();
        assert_eq!((owner.read)(&usage), Value::Unknown(Reason::NotAvailable));
    }
}
