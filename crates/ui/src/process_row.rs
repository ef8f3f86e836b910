//! One row of the process tables: a process on a device of a node.

use std::sync::Arc;
use std::time::Duration;

use crate::process_target::ProcessTarget;
use crate::widgets::number_format::percent_value;
use gtop_fleet::{Node, Process};
use gtop_local::time::Timestamp;
use gtop_model::{
    Bytes, Device, DeviceUse, JobId, NodeName, ProcessKey, ProcessStatics, Reading, UnseenProcess,
    Vendor,
};

/// Identity of a process on one device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowKey {
    pub(crate) node: NodeName,
    pub(crate) device: Arc<str>,
    pub(crate) pid: u32,
    /// `None` for processes that the node does not show.
    pub(crate) start_ticks: Option<u64>,
}

/// A row of the table. It keeps the node as of the snapshot it came from.
#[derive(Clone, Debug)]
pub(crate) struct ProcessRow {
    pub(crate) node: Arc<Node>,
    pub(crate) used: usize,
    pub(crate) process: Option<usize>,
    pub(crate) device: Option<usize>,
    /// Time at which the process was found to have ended, `None` while it runs.
    pub(crate) ended_at: Option<Timestamp>,
}

/// The data of a row, looked up in its node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessEntry<'a> {
    pub(crate) node: &'a Node,
    pub(crate) used: &'a DeviceUse,
    pub(crate) process: Option<&'a Process>,
    pub(crate) unseen: Option<&'a UnseenProcess>,
    pub(crate) device: Option<&'a Device>,
    /// Index into the devices of the node.
    pub(crate) device_index: Option<usize>,
    pub(crate) has_ended: bool,
}

impl ProcessRow {
    pub(crate) fn entry(&self) -> Option<ProcessEntry<'_>> {
        let node = &*self.node;
        let used = node.uses.get(self.used)?;
        let process = self.process.and_then(|index| node.processes.get(index));
        Some(ProcessEntry {
            node,
            used,
            process,
            unseen: if process.is_none() { node.unseen_process(used.pid) } else { None },
            device: self.device.and_then(|index| node.devices.get(index)),
            device_index: self.device,
            has_ended: self.ended_at.is_some(),
        })
    }

    pub(crate) fn key(&self) -> Option<RowKey> {
        self.entry().map(ProcessEntry::key)
    }

    pub(crate) fn has_key(&self, key: &RowKey) -> bool {
        self.entry().is_some_and(|entry| entry.has_key(key))
    }

    /// Returns true if it is a row of this process.
    pub(crate) fn is_of(&self, node: &NodeName, key: ProcessKey) -> bool {
        let process = self.process.and_then(|index| self.node.processes.get(index));
        self.node.name == *node && process.is_some_and(|process| process.key == key)
    }
}

impl<'a> ProcessEntry<'a> {
    /// Returns the process behind a use of a device.
    pub(crate) fn of(node: &'a Node, used: &'a DeviceUse) -> Self {
        let process = node.process(used.pid);
        let device_index = node.devices.iter().position(|device| device.uuid == used.device);
        Self {
            node,
            used,
            process,
            unseen: if process.is_none() { node.unseen_process(used.pid) } else { None },
            device: device_index.and_then(|index| node.devices.get(index)),
            device_index,
            has_ended: false,
        }
    }

    pub(crate) fn key(self) -> RowKey {
        RowKey {
            node: self.node.name.clone(),
            device: Arc::clone(&self.used.device),
            pid: self.used.pid,
            start_ticks: self.start_ticks(),
        }
    }

    pub(crate) fn start_ticks(self) -> Option<u64> {
        self.process.and_then(|process| process.key.start())
    }

    /// Returns true if the entry has this identity. If either start time is unknown, the pid decides.
    fn has_key(self, key: &RowKey) -> bool {
        self.used.pid == key.pid
            && self.used.device == key.device
            && self.node.name == key.node
            && match (self.start_ticks(), key.start_ticks) {
                (Some(one), Some(other)) => one == other,
                (None, _) | (_, None) => true,
            }
    }

    /// Returns the process as the target of a request, `None` if the node does not show it.
    pub(crate) fn target(self) -> Option<ProcessTarget> {
        let process = self.process?;
        Some(ProcessTarget {
            node: self.node.name.clone(),
            key: process.key,
            user: process.statics.user.known().cloned(),
            command: self.command().into(),
            is_ours: self.is_ours(),
            is_on_device: true,
        })
    }

    /// Returns true if the process belongs to the login that the probe runs as, `None` if either is unknown.
    pub(crate) fn is_ours(self) -> Option<bool> {
        let login = &self.node.hello.as_ref()?.host.user;
        let user = self.statics()?.user.known()?;
        Some(user == login)
    }

    fn statics(self) -> Option<&'a ProcessStatics> {
        let visible = self.process.map(|process| &*process.statics);
        visible.or_else(|| Some(&self.unseen?.statics))
    }

    pub(crate) fn user(self) -> Option<&'a str> {
        self.statics()?.user.known().map(|user| &**user)
    }

    pub(crate) fn job(self) -> Option<&'a JobId> {
        self.statics()?.job.as_ref()
    }

    /// Returns the command line, or the driver's name for the process if the node hides it.
    pub(crate) fn command(self) -> &'a str {
        let command = self.statics().and_then(|statics| statics.command.known());
        let command = command.filter(|command| !command.is_empty());
        command.or(self.used.driver_name.as_ref()).map_or("", |command| command)
    }

    pub(crate) fn is_tpu(self) -> bool {
        self.device.is_some_and(|device| device.vendor == Reading::Known(Vendor::Google))
    }

    /// Returns its CPU time in percent; 100 is one core.
    pub(crate) fn cpu_percent(self) -> Option<f32> {
        self.process?.cpu_percent.get()
    }

    pub(crate) fn resident(self) -> Option<Bytes> {
        self.process?.resident.get()
    }

    /// Returns its part of the host's memory.
    pub(crate) fn resident_share(self) -> Option<f32> {
        percent_value(self.process?.resident_share)
    }

    pub(crate) fn run_time(self) -> Option<Duration> {
        self.process?.running_seconds.get().map(Duration::from_secs)
    }

    /// Returns the SM utilization of the process. For a TPU, which reports none per process, that of the
    /// whole chip.
    pub(crate) fn load(self) -> Option<f32> {
        let sm = percent_value(self.used.sm);
        if sm.is_none() && self.is_tpu() {
            return self.device.and_then(|device| percent_value(device.load()));
        }
        sm
    }

    /// Returns true if the load is that of the whole chip.
    pub(crate) fn is_whole_device_load(self) -> bool {
        self.is_tpu() && percent_value(self.used.sm).is_none() && self.load().is_some()
    }
}
