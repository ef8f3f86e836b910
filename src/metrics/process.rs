//! The metrics of a process on a device.

use std::sync::Arc;

use crate::fleet::{Node, Process};
use crate::metrics::{Field, Value, bytes, enum_text, integer, number, percent, text, timestamp};
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
    Field::text("user", "user", "owner", |usage| {
        usage.statics_value(|statics| text(&statics.user))
    }),
    Field::integer("uid", "uid", "user id of the owner", |usage| {
        usage.statics_value(|statics| integer(statics.uid))
    }),
    Field::integer("memory_used_bytes", "gpumem", "device memory in use by the process", |usage| {
        bytes(usage.used.memory)
    }),
    Field::share("sm_percent", "psm", "SM utilization of the process", |usage| {
        percent(usage.used.sm)
    }),
    Field::share(
        "memory_utilization_percent",
        "pmembw",
        "memory bandwidth utilization of the process",
        |usage| percent(usage.used.memory_utilization),
    ),
    Field::share("encoder_percent", "penc", "video encoder utilization of the process", |usage| {
        percent(usage.used.encoder)
    }),
    Field::share("decoder_percent", "pdec", "video decoder utilization of the process", |usage| {
        percent(usage.used.decoder)
    }),
    Field::share("cu_occupancy_percent", "pcu", "compute unit occupancy of the process", |usage| {
        percent(usage.used.occupancy)
    }),
    Field::text("kind", "type", "type: C for compute, G for graphics, C+G for both", |usage| {
        enum_text(usage.used.kind, UseKind::as_str)
    }),
    Field::number("cpu_percent", "pcpu", "CPU utilization; 100 is one core", |usage| {
        usage.process_value(|process| number(process.cpu_percent))
    }),
    Field::integer("resident_bytes", "rss", "resident host memory", |usage| {
        usage.process_value(|process| bytes(process.resident))
    }),
    Field::share(
        "resident_percent",
        "prss",
        "resident host memory as a share of the node's memory",
        |usage| usage.process_value(|process| percent(process.resident_share)),
    ),
    Field::text(
        "state",
        "state",
        "process state: R running, S sleeping, D in uninterruptible sleep, T stopped, t traced, Z zombie",
        |usage| usage.process_value(|process| enum_text(process.state, ProcessState::letter)),
    ),
    Field::integer("threads", "threads", "number of threads", |usage| {
        usage.process_value(|process| integer(process.threads))
    }),
    Field::timestamp("started_at", "started", "start time, by the local clock", |usage| {
        usage.process_value(|process| timestamp(process.started_at))
    }),
    Field::integer("running_seconds", "time", "elapsed time since the start", |usage| {
        usage.process_value(|process| integer(process.running_seconds))
    }),
    Field::integer("parent_pid", "ppid", "parent process", |usage| {
        usage.statics_value(|statics| integer(statics.parent_pid))
    }),
    Field::text("job", "job", "job of the scheduler that the process belongs to", |usage| {
        usage.optional_text(|statics| statics.job.as_ref().map(JobId::as_str))
    }),
    Field::text(
        "step",
        "step",
        "step of that job: a number, batch, extern or interactive",
        |usage| usage.optional_text(|statics| statics.step.as_deref()),
    ),
    Field::text(
        "sluid",
        "sluid",
        "SLUID: Slurm's job identifier where there is no job number",
        |usage| usage.optional_text(|statics| statics.sluid.as_deref()),
    ),
    Field::text("container", "container", "container, by the beginning of its id", |usage| {
        usage.optional_text(|statics| Some(&*statics.container.as_ref()?.id))
    }),
    Field::text(
        "container_kind",
        "containerkind",
        "container runtime: docker, podman, containerd, cri-o, kubernetes, lxc or machine",
        |usage| usage.optional_text(|statics| Some(statics.container.as_ref()?.kind.as_str())),
    ),
    Field::text("pod", "pod", "Kubernetes pod", |usage| {
        usage.optional_text(|statics| statics.container.as_ref()?.pod.as_deref())
    }),
    Field::text(
        "working_directory",
        "cwd",
        "working directory; known for your own processes only",
        |usage| usage.statics_value(|statics| text(&statics.directory)),
    ),
    Field::text("command", "command", "command line", Usage::command),
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
