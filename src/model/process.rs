//! OS processes that use a device.

use std::sync::Arc;

use crate::model::id::{JobId, ProcessKey};
use crate::model::reading::Reading;
use crate::model::unit::{Bytes, Percent};

/// One process as the node's kernel shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessReading {
    /// Identity.
    pub key: ProcessKey,
    /// CPU time so far, in clock ticks.
    pub cpu_ticks: Reading<u64>,
    /// Memory in use on the host.
    pub resident: Reading<Bytes>,
    /// What does not change; sent once.
    pub statics: Option<ProcessStatics>,
}

/// What does not change in a process's life.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessStatics {
    /// Parent process.
    pub parent_pid: Reading<u32>,
    /// Owner's number.
    pub uid: Reading<u32>,
    /// Owner's name.
    pub user: Reading<Arc<str>>,
    /// Command line, without control characters.
    pub command: Reading<Arc<str>>,
    /// The scheduler's job it belongs to, read from its control group.
    pub job: Option<JobId>,
}

/// What a process uses a device for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseKind {
    /// It computes.
    Compute,
    /// It draws.
    Graphics,
    /// It does both.
    Both,
}

impl UseKind {
    /// Reads the letters that `nvidia-smi` shows.
    pub fn new(letters: &str) -> Option<Self> {
        Some(match letters {
            "C" => Self::Compute,
            "G" => Self::Graphics,
            "C+G" => Self::Both,
            _ => return None,
        })
    }

    /// Returns the letters that `nvidia-smi` shows.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Compute => "C",
            Self::Graphics => "G",
            Self::Both => "C+G",
        }
    }
}

/// One process's use of one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceUse {
    /// The device's identity.
    pub device: Arc<str>,
    /// Process id.
    pub pid: u32,
    /// Device memory it holds.
    pub memory: Reading<Bytes>,
    /// Share of time its kernels ran.
    pub sm: Reading<Percent>,
    /// Share of time its kernels used the memory.
    pub memory_utilization: Reading<Percent>,
    /// Share of the video encoder.
    pub encoder: Reading<Percent>,
    /// Share of the video decoder.
    pub decoder: Reading<Percent>,
    /// Share of the compute units it keeps busy.
    pub occupancy: Reading<Percent>,
    /// What for.
    pub kind: Reading<UseKind>,
    /// What the driver calls it; stands in where the node hides its command line.
    pub driver_name: Option<Arc<str>>,
}

impl DeviceUse {
    /// Takes over what `newer` tells and keeps the rest.
    pub fn keep_newer(&mut self, newer: Self) {
        let Self {
            device,
            pid,
            memory,
            sm,
            memory_utilization,
            encoder,
            decoder,
            occupancy,
            kind,
            driver_name,
        } = newer;
        (self.device, self.pid) = (device, pid);
        self.memory.keep_newer(memory);
        self.sm.keep_newer(sm);
        self.memory_utilization.keep_newer(memory_utilization);
        self.encoder.keep_newer(encoder);
        self.decoder.keep_newer(decoder);
        self.occupancy.keep_newer(occupancy);
        self.kind.keep_newer(kind);
        self.driver_name = driver_name.or_else(|| self.driver_name.take());
    }
}
