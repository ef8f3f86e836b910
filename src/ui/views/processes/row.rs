//! One row of the process table: a process on a device of a node.

use std::sync::Arc;

use crate::fleet::{Node, Process};
use crate::model::{
    Device, DeviceUse, JobId, NodeName, ProcessStatics, Reading, UnseenProcess, Vendor,
};
use crate::time::Timestamp;
use crate::ui::process_target::ProcessTarget;
use crate::ui::widgets::number_format::percent_value;

/// Identity of a process on one device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowKey {
    pub(super) node: NodeName,
    pub(super) device: Arc<str>,
    pub(super) pid: u32,
    /// `None` for processes that the node does not show.
    pub(super) start_ticks: Option<u64>,
}

/// A row of the table. It keeps the node as of the snapshot it came from.
#[derive(Clone, Debug)]
pub(super) struct ProcessRow {
    pub(super) node: Arc<Node>,
    pub(super) used: usize,
    pub(super) process: Option<usize>,
    pub(super) device: Option<usize>,
    /// Time at which the process was found to have ended, `None` while it runs.
    pub(super) ended_at: Option<Timestamp>,
}

/// The data of a row, looked up in its node.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessEntry<'a> {
    pub(super) node: &'a Node,
    pub(super) used: &'a DeviceUse,
    pub(super) process: Option<&'a Process>,
    pub(super) unseen: Option<&'a UnseenProcess>,
    pub(super) device: Option<&'a Device>,
    /// Index into the devices of the node.
    pub(super) device_index: Option<usize>,
    pub(super) has_ended: bool,
}

impl ProcessRow {
    pub(super) fn entry(&self) -> Option<ProcessEntry<'_>> {
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

    pub(super) fn key(&self) -> Option<RowKey> {
        self.entry().map(ProcessEntry::key)
    }

    pub(super) fn has_key(&self, key: &RowKey) -> bool {
        self.entry().is_some_and(|entry| entry.has_key(key))
    }
}

impl<'a> ProcessEntry<'a> {
    pub(super) fn key(self) -> RowKey {
        RowKey {
            node: self.node.name.clone(),
            device: Arc::clone(&self.used.device),
            pid: self.used.pid,
            start_ticks: self.start_ticks(),
        }
    }

    pub(super) fn start_ticks(self) -> Option<u64> {
        self.process.map(|process| process.key.start_ticks)
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
    pub(super) fn target(self) -> Option<ProcessTarget> {
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
    pub(super) fn is_ours(self) -> Option<bool> {
        let login = &self.node.hello.as_ref()?.host.user;
        let user = self.statics()?.user.known()?;
        Some(user == login)
    }

    fn statics(self) -> Option<&'a ProcessStatics> {
        let visible = self.process.map(|process| &*process.statics);
        visible.or_else(|| Some(&self.unseen?.statics))
    }

    pub(super) fn user(self) -> Option<&'a str> {
        self.statics()?.user.known().map(|user| &**user)
    }

    pub(super) fn job(self) -> Option<&'a JobId> {
        self.statics()?.job.as_ref()
    }

    /// Returns the command line, or the driver's name for the process if the node hides it.
    pub(super) fn command(self) -> &'a str {
        let command = self.statics().and_then(|statics| statics.command.known());
        let command = command.filter(|command| !command.is_empty());
        command.or(self.used.driver_name.as_ref()).map_or("", |command| command)
    }

    pub(super) fn is_tpu(self) -> bool {
        self.device.is_some_and(|device| device.vendor == Reading::Known(Vendor::Google))
    }

    /// Returns the SM utilization of the process. For a TPU, which reports none per process, that of the
    /// whole chip.
    pub(super) fn load(self) -> Option<f32> {
        let sm = percent_value(self.used.sm);
        if sm.is_none() && self.is_tpu() {
            return self.device.and_then(|device| percent_value(device.utilization));
        }
        sm
    }

    /// Returns true if the load is that of the whole chip.
    pub(super) fn is_whole_device_load(self) -> bool {
        self.is_tpu() && percent_value(self.used.sm).is_none() && self.load().is_some()
    }
}
