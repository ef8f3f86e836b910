//! The metrics of a process on a device.

use std::sync::Arc;

use crate::metrics::{Field, Value, ValueKind, metrics};
use crate::{Node, Process};
use gtop_local::time::Timestamp;
use gtop_model::{Device, DeviceUse, JobId, ProcessStatics, Reading, Reason, UnseenProcess};

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
        node.uses_of(&device.uuid).map(|used| Self::of_use(node, used))
    }

    /// Returns the process behind this use of a device of this node.
    pub(crate) fn of_use(node: &Node, used: &DeviceUse) -> Self {
        Self {
            used: used.clone(),
            process: node.process(used.pid).cloned(),
            unseen: node.unseen_process(used.pid).cloned(),
        }
    }

    fn of_process<T: Into<Value>>(&self, read: fn(&Process) -> Reading<T>) -> Value {
        let absent = Reading::Unknown(self.absence_reason());
        self.process.as_ref().map_or(absent, read).into()
    }

    /// Returns what never changes about the process; `None` if nothing is known of it.
    pub fn statics(&self) -> Option<&ProcessStatics> {
        let visible = self.process.as_ref().map(|process| &*process.statics);
        visible.or_else(|| self.unseen.as_ref().map(|unseen| &unseen.statics))
    }

    fn of_statics<T: Into<Value>>(&self, read: fn(&ProcessStatics) -> Reading<T>) -> Value {
        self.statics().map(read).into()
    }

    /// Reads an optional property, such as the job, whose absence is not due to missing permissions.
    fn optional<'a>(&'a self, read: impl Fn(&'a ProcessStatics) -> Option<&'a str>) -> Value {
        let found = self.statics().and_then(read);
        found.map_or(Value::Unknown(self.absence_reason()), Value::from)
    }

    /// Returns the reason why the kernel's values are missing; not available where it shows the process.
    fn absence_reason(&self) -> Reason {
        let unseen = self.unseen.as_ref().filter(|_| self.process.is_none());
        unseen.map_or(Reason::NotAvailable, |unseen| unseen.why.reason())
    }

    /// Returns the command line, or else the name known to the driver.
    pub fn command(&self) -> Value {
        match (self.of_statics(|statics| statics.command.clone()), &self.used.driver_name) {
            (Value::Unknown(_), Some(name)) => Value::Text(Arc::clone(name)),
            (known, _) => known,
        }
    }
}

/// Returns true if the driver of the device measures a metric of a process; the kernel measures the others.
pub fn is_driver_metric(alias: &str) -> bool {
    matches!(alias, "gpumem" | "psm" | "pmembw" | "penc" | "pdec" | "pcu" | "type")
}

metrics! {
    /// A metric of a process on a device.
    ProcessMetric of Usage;

    /// The metrics of a process on a device.
    PROCESS {
        User = Text("user", "user", "owner", |usage| usage.of_statics(|statics| statics.user.clone()));
        Uid = Integer("uid", "uid", "user id of the owner", |usage| usage.of_statics(|statics| statics.uid));
        MemoryUsedBytes = Integer("memory_used_bytes", "gpumem", "device memory in use by the process", used.memory);
        SmPercent = Share("sm_percent", "psm", "SM utilization of the process", used.sm);
        MemoryUtilizationPercent = Share("memory_utilization_percent", "pmembw",
            "memory bandwidth utilization of the process", used.memory_utilization);
        EncoderPercent = Share("encoder_percent", "penc", "video encoder utilization of the process", used.encoder);
        DecoderPercent = Share("decoder_percent", "pdec", "video decoder utilization of the process", used.decoder);
        CuOccupancyPercent = Share("cu_occupancy_percent", "pcu",
            "compute unit occupancy of the process", used.occupancy);
        Kind = Text("kind", "type", "type: C for compute, G for graphics, C+G for both", used.kind);
        CpuPercent = Number("cpu_percent", "pcpu", "CPU utilization; 100 is one core",
            |usage| usage.of_process(|process| process.cpu_percent));
        ResidentBytes = Integer("resident_bytes", "rss",
            "resident host memory", |usage| usage.of_process(|process| process.resident));
        ResidentPercent = Share("resident_percent", "prss", "resident host memory as a share of the node's memory",
            |usage| usage.of_process(|process| process.resident_share));
        State = Text("state", "state",
            "process state: R running, S sleeping, D in uninterruptible sleep, T stopped, t traced, Z zombie",
            |usage| usage.of_process(|process| process.state));
        Threads = Integer("threads", "threads",
            "number of threads", |usage| usage.of_process(|process| process.threads));
        StartedAt = Timestamp("started_at", "started", "start time, by the local clock",
            |usage| usage.of_process(|process| process.started_at.map(Timestamp::whole_seconds)));
        RunningSeconds = Integer("running_seconds", "time", "elapsed time since the start",
            |usage| usage.of_process(|process| process.running_seconds));
        ParentPid = Integer("parent_pid", "ppid",
            "parent process", |usage| usage.of_statics(|statics| statics.parent_pid));
        Job = Text("job", "job", "job of the scheduler that the process belongs to",
            |usage| usage.optional(|statics| statics.job.as_ref().map(JobId::as_str)));
        Step = Text("step", "step", "step of that job: a number, batch, extern or interactive",
            |usage| usage.optional(|statics| statics.step.as_deref()));
        Sluid = Text("sluid", "sluid", "SLUID: the job's other identifier where there is no job number",
            |usage| usage.optional(|statics| statics.job_alias.as_deref()));
        Container = Text("container", "container", "container, by the beginning of its id",
            |usage| usage.optional(|statics| Some(&*statics.container.as_ref()?.id)));
        ContainerKind = Text("container_kind", "containerkind",
            "container runtime: docker, podman, containerd, cri-o, kubernetes, lxc or machine",
            |usage| usage.optional(|statics| Some(statics.container.as_ref()?.kind.as_str())));
        Pod = Text("pod", "pod",
            "Kubernetes pod", |usage| usage.optional(|statics| statics.container.as_ref()?.pod.as_deref()));
        WorkingDirectory = Text("working_directory", "cwd", "working directory; known for your own processes only",
            |usage| usage.of_statics(|statics| statics.directory.clone()));
        Command = Text("command", "command", "command line", Usage::command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::Bytes;

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
