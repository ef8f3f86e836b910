//! Simulated devices and their metrics at a given time.

use crate::sim::gpu::hardware::Hardware;
use crate::sim::rng::{Rng, random_uuid, round_deci, to_u64};
use crate::sim::workload::{Workload, WorkloadKind};
use crate::wire::body::{BackendState, Changes as _, Device, Raw, Tpu, Use};

mod amd;
mod hardware;
mod tpu;

pub(crate) use amd::MI300X;
pub(crate) use tpu::V5P;

const MIB: u64 = 1 << 20;
/// The version of NVIDIA's driver.
const DRIVER: &str = "570.124.06";
/// Memory that the driver itself uses on a device, in MiB.
const DRIVER_OVERHEAD_MIB: u64 = 4;

const IDLE: u64 = 0x01;
const POWER_CAP: u64 = 0x04;
const SLOWDOWN: u64 = 0x08;
const THERMAL: u64 = 0x40;
const POWER_BRAKE: u64 = 0x80;

#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    memory_mib: u64,
    reserved_mib: u64,
    idle_watts: f64,
    limit_watts: f64,
    clock: f64,
    idle_clock: f64,
    memory_clock: f64,
    has_fan: bool,
    board: Board,
}

/// Whose board it is.
#[derive(Debug)]
enum Board {
    Nvidia(Hardware),
    Amd,
    Tpu,
}

impl Model {
    /// Returns the backend of the probe that reads such devices, without their number.
    pub(crate) fn backend(&self) -> BackendState {
        let (kind, driver, is_experimental) = match self.board {
            Board::Nvidia(_) => ("nvml", Some(DRIVER), false),
            Board::Amd => ("amdgpu", Some(amd::DRIVER), true),
            Board::Tpu => ("tpu", None, true),
        };
        BackendState {
            kind: kind.to_owned(),
            state: "ready".to_owned(),
            driver: driver.map(str::to_owned),
            library: (!is_experimental).then(|| format!("12.{DRIVER}")),
            cuda: (!is_experimental).then(|| "12.8".to_owned()),
            experimental: is_experimental,
            ..BackendState::default()
        }
    }

    /// Returns true if its driver is NVIDIA's.
    pub(crate) fn is_nvidia(&self) -> bool {
        matches!(self.board, Board::Nvidia(_))
    }
}

pub(crate) const H100: Model = Model {
    name: "NVIDIA H100 80GB HBM3",
    memory_mib: 81_559,
    reserved_mib: 551,
    idle_watts: 72.0,
    limit_watts: 700.0,
    clock: 1980.0,
    idle_clock: 345.0,
    memory_clock: 2619.0,
    has_fan: false,
    board: Board::Nvidia(Hardware {
        capability: "9.0",
        pcie_generation: 5,
        nvlinks: 18,
        bar1_mib: 131_072,
        least_watts: 200.0,
        slowdown: 90.0,
        has_activity: true,
    }),
};
pub(crate) const A100: Model = Model {
    name: "NVIDIA A100-SXM4-80GB",
    memory_mib: 81_920,
    reserved_mib: 631,
    idle_watts: 58.0,
    limit_watts: 400.0,
    clock: 1410.0,
    idle_clock: 210.0,
    memory_clock: 1593.0,
    has_fan: false,
    board: Board::Nvidia(Hardware {
        capability: "8.0",
        pcie_generation: 4,
        nvlinks: 12,
        bar1_mib: 131_072,
        least_watts: 100.0,
        slowdown: 92.0,
        has_activity: false,
    }),
};
pub(crate) const A6000: Model = Model {
    name: "NVIDIA RTX A6000",
    memory_mib: 49_140,
    reserved_mib: 454,
    idle_watts: 21.0,
    limit_watts: 300.0,
    clock: 2100.0,
    idle_clock: 210.0,
    memory_clock: 8001.0,
    has_fan: true,
    board: Board::Nvidia(Hardware {
        capability: "8.6",
        pcie_generation: 4,
        nvlinks: 0,
        bar1_mib: 65_536,
        least_watts: 100.0,
        slowdown: 95.0,
        has_activity: false,
    }),
};

/// The MIG slices of a partitioned device: name and MiB.
const MIG_SLICES: [(&str, u64); 3] =
    [("MIG 3g.40gb", 40_192), ("MIG 2g.20gb", 19_968), ("MIG 1g.10gb", 9_728)];

/// The mean utilization of a device that lags, in %.
const LAGGING_LOAD: f64 = 13.0;

/// The fault of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimDeviceFault {
    /// It is too hot.
    Hot,
    /// It is slower than the other devices of its job.
    Lagging,
    /// The driver has lost it (Xid 79).
    Lost,
    /// Its memory has ECC errors.
    MemoryErrors,
}

/// How a device is partitioned.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Role {
    Whole,
    Split,
    Slice { parent: String, name: String },
}

/// One device, or a slice of one.
#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    pub(crate) uuid: String,
    pub(crate) rng: Rng,
    /// Index of its workload in the node's list.
    pub(crate) workload: usize,
    model: &'static Model,
    memory_mib: u64,
    index: u32,
    pub(crate) pci: String,
    role: Role,
    fault: Option<SimDeviceFault>,
    /// It reports more than what the frames of benchmarks have.
    is_detailed: bool,
}

impl Gpu {
    /// Returns the device with this index.
    pub(crate) fn new(
        model: &'static Model,
        node: Rng,
        index: u32,
        workload: usize,
        fault: Option<SimDeviceFault>,
    ) -> Self {
        let rng = node.branch(100 + u64::from(index));
        let pci = match model.board {
            Board::Nvidia(_) => format!("00000000:{:02X}:00.0", 0x0b + index * 0x11 % 0xf0),
            Board::Amd => format!("0000:{:02x}:00.0", 0x05 + index * 0x11 % 0xf0),
            Board::Tpu => format!("0000:00:{:02x}.0", 0x04 + index),
        };
        let uuid = match model.board {
            Board::Nvidia(_) => format!("GPU-{}", random_uuid(rng)),
            Board::Amd => format!("GPU-{:016x}", rng.branch(12).bits()),
            Board::Tpu => format!("tpu-{pci}"),
        };
        Self {
            uuid,
            rng,
            workload,
            model,
            memory_mib: model.memory_mib,
            index,
            pci,
            role: Role::Whole,
            fault,
            is_detailed: false,
        }
    }

    /// Makes it report everything that its board has.
    #[must_use]
    pub(crate) fn detailed(self) -> Self {
        Self { is_detailed: true, ..self }
    }

    /// Partitions it; returns the device and its slices.
    pub(crate) fn split(self) -> Vec<Self> {
        let mut devices = vec![Self { role: Role::Split, ..self.clone() }];
        for (index, (name, memory_mib)) in (0..).zip(MIG_SLICES) {
            let rng = self.rng.branch(200 + u64::from(index));
            devices.push(Self {
                uuid: format!("MIG-{}", random_uuid(rng)),
                rng,
                memory_mib,
                index,
                role: Role::Slice {
                    parent: self.uuid.clone(),
                    name: format!("{} {name}", self.model.name),
                },
                ..self.clone()
            });
        }
        devices
    }

    /// Returns true if it is a slice of a device.
    pub(crate) const fn is_slice(&self) -> bool {
        matches!(self.role, Role::Slice { .. })
    }

    /// Returns true if a process can run on it: not if it is partitioned or lost.
    pub(crate) fn is_usable(&self) -> bool {
        self.role != Role::Split && self.fault != Some(SimDeviceFault::Lost)
    }

    /// Returns the time and number of the last Xid after `since`, until `t`.
    pub(crate) fn xid(&self, since: f64, t: f64) -> Option<(f64, u64)> {
        let (first, every, code) = match self.fault {
            // In the first second, and not again in the first minute.
            Some(SimDeviceFault::Lost) => (0.3, f64::INFINITY, 79),
            Some(SimDeviceFault::MemoryErrors) => (0.6, 80.0, 63),
            Some(SimDeviceFault::Hot | SimDeviceFault::Lagging) | None => return None,
        };
        let count = ((since - first) / every).floor() + 1.0;
        let at = if since < first { first } else { first + count * every };
        (at <= t).then_some((at, code))
    }

    /// Returns the utilization at `t`, in %.
    pub(crate) fn load(&self, work: &Workload, t: f64) -> f64 {
        match self.fault {
            Some(SimDeviceFault::Lagging) => LAGGING_LOAD + 4.0 * self.rng.noise(t, 4.0),
            _ => self.own_load(work.load(self.rng, t)),
        }
    }

    /// Returns what this device makes of the load of its workload, in %.
    fn own_load(&self, load: f64) -> f64 {
        match (self.fault, &self.role) {
            (Some(SimDeviceFault::Lagging), _) => LAGGING_LOAD,
            (_, Role::Split) => 0.8 * load,
            _ => load,
        }
    }

    /// Returns the memory used by processes at `t`, in MiB.
    pub(crate) fn used_mib(&self, work: &Workload, t: f64) -> u64 {
        let used_share = |mib: u64, rng| to_u64(to_f64(mib) * work.memory_share(rng, t));
        match self.role {
            Role::Whole | Role::Slice { .. } => used_share(self.memory_mib, self.rng),
            Role::Split => (0..)
                .zip(&MIG_SLICES)
                .map(|(index, (_, mib))| {
                    used_share(*mib, self.rng.branch(200 + index)) + DRIVER_OVERHEAD_MIB
                })
                .sum(),
        }
    }

    /// Returns the values at `t`; with `since`, only those that have changed since then.
    pub(crate) fn report(&self, work: &Workload, t: f64, since: Option<f64>) -> Device {
        let mut device = self.read(work, t, since.is_none());
        if let Some(since) = since {
            let before = self.read(work, since, false);
            device.omit_unchanged(&before);
            if let (Some(tpu), Some(before)) = (&mut device.tpu, &before.tpu) {
                tpu.omit_unchanged(before);
            }
            device.tpu = device.tpu.filter(|tpu| **tpu != Tpu::default());
        }
        device
    }

    /// Returns the use of a process at `t` that shares the device with others; `sharing` is their number.
    pub(crate) fn usage(&self, work: &Workload, t: f64, pid: u32, sharing: u64) -> Use {
        let share = self.load(work, t) / to_f64(sharing);
        let used = Use {
            device: self.uuid.clone(),
            pid,
            memory: (self.used_mib(work, t) / sharing * MIB).into(),
            kind: Some("C".to_owned()),
            ..Use::default()
        };
        match self.model.board {
            Board::Nvidia(_) => Use {
                sm: share.round().into(),
                mem: work.memory_load(share).into(),
                enc: 0.0.into(),
                dec: 0.0.into(),
                ..used
            },
            Board::Amd => Use { occupancy: round_deci(0.6 * share).into(), ..used },
            Board::Tpu => used,
        }
    }

    /// Returns the values at `t`; static ones only if `is_full`.
    fn read(&self, work: &Workload, t: f64, is_full: bool) -> Device {
        let mut device = Device {
            uuid: self.uuid.clone(),
            index: u64::from(self.index).into(),
            ..Device::default()
        };
        let hardware = match &self.model.board {
            Board::Nvidia(hardware) => hardware,
            Board::Amd => {
                self.fill_amd(&mut device, work, t, is_full);
                return device;
            }
            Board::Tpu => {
                self.fill_tpu(&mut device, work, t, is_full);
                return device;
            }
        };
        if let Role::Slice { parent, .. } = &self.role {
            device.parent = Some(parent.clone());
            if is_full && self.is_detailed {
                let statics = device.statics.get_or_insert_default();
                statics.gpu_instance = u64::from(self.index + 1).into();
                statics.compute_instance = 0.into();
            }
        }
        if is_full {
            self.fill_statics(&mut device);
        }
        if self.fault == Some(SimDeviceFault::Lost) {
            device.fault = Some("lost".to_owned());
            return device;
        }
        self.fill_memory(&mut device, work, t);
        match self.role {
            Role::Slice { .. } => {
                if is_full {
                    mark_unsupported(&mut device, &SLICE_UNSUPPORTED);
                }
                if self.is_detailed {
                    self.fill_activity(&mut device, work, t);
                }
            }
            Role::Whole => {
                let load = self.load(work, t);
                device.util = load.round().into();
                device.memory_util = work.memory_load(load).into();
                self.fill_hardware(&mut device, work, t);
            }
            Role::Split => {
                self.fill_hardware(&mut device, work, t);
                if is_full {
                    mark_unsupported(&mut device, &["util", "memory_util"]);
                }
            }
        }
        if self.is_detailed && !matches!(self.role, Role::Slice { .. }) {
            self.fill_details(hardware, &mut device, work, t, is_full);
        }
        device
    }

    fn fill_statics(&self, device: &mut Device) {
        let name = match &self.role {
            Role::Slice { name, .. } => name.clone(),
            Role::Whole | Role::Split => self.model.name.to_owned(),
        };
        device.name = Some(name);
        device.pci = Some(self.pci.clone());
        let statics = device.statics.get_or_insert_default();
        statics.driver = Some(DRIVER.to_owned());
        if !matches!(self.role, Role::Slice { .. }) {
            statics.minor = u64::from(self.index).into();
        }
        if self.fault == Some(SimDeviceFault::Lost) || matches!(self.role, Role::Slice { .. }) {
            return;
        }
        device.mig = Raw::Value(self.role == Role::Split);
        device.power_limit = to_u64(self.model.limit_watts * 1000.0).into();
        statics.clock_sm_max = to_u64(self.model.clock).into();
        statics.clock_memory_max = to_u64(self.model.memory_clock).into();
        if self.model.has_fan {
            mark_unsupported(device, &["temperature_memory"]);
        } else {
            mark_unsupported(device, &["fan"]);
        }
    }

    fn fill_memory(&self, device: &mut Device, work: &Workload, t: f64) {
        let reserved = match self.role {
            Role::Slice { .. } => 0,
            Role::Whole | Role::Split => self.model.reserved_mib,
        };
        let used = (self.used_mib(work, t) + DRIVER_OVERHEAD_MIB).min(self.memory_mib - reserved);
        device.memory_total = (self.memory_mib * MIB).into();
        device.memory_used = (used * MIB).into();
        device.memory_free = ((self.memory_mib - reserved - used) * MIB).into();
        device.memory_reserved = (reserved * MIB).into();
    }

    /// Sets the values of the hardware: power, temperature, clocks, errors.
    fn fill_hardware(&self, device: &mut Device, work: &Workload, t: f64) {
        let watts = self.watts(work, t);
        let heat = self.temperature(work, t);
        device.power = to_u64(watts * 1000.0).into();
        device.temperature = heat.round().into();
        if self.model.has_fan {
            device.fan = (20.0 + (heat - 30.0).max(0.0) * 1.2).clamp(0.0, 100.0).round().into();
        } else {
            device.temperature_memory = (heat + 6.0).round().into();
        }
        let is_busy = self.load(work, t) >= 1.0;
        device.pstate = Raw::Value(if is_busy { 0 } else { 8 });
        device.clock_sm = to_u64(self.clock(is_busy, t)).into();
        device.clock_memory = to_u64(self.model.memory_clock).into();
        device.throttle = self.throttle(is_busy, work.kind == WorkloadKind::Training).into();
        let errors = self.fault == Some(SimDeviceFault::MemoryErrors);
        device.ecc_corrected = Raw::Value(if errors { 412 + to_u64(t / 7.0) } else { 0 });
        device.ecc_uncorrected = Raw::Value(if errors { 2 } else { 0 });
    }

    fn watts(&self, work: &Workload, t: f64) -> f64 {
        let ripple = 1.0 + 0.012 * self.rng.branch(5).noise(t, 0.8);
        self.watts_at(work, self.load(work, t)) * ripple
    }

    /// Returns the power at a utilization in %.
    fn watts_at(&self, work: &Workload, load: f64) -> f64 {
        let factor = match self.fault {
            Some(SimDeviceFault::Hot) => 0.62,
            Some(SimDeviceFault::Lagging) => 0.9,
            Some(SimDeviceFault::Lost | SimDeviceFault::MemoryErrors) | None => 1.0,
        };
        let share = (load / 100.0).powf(0.8) * factor * work.effort();
        let span = self.model.limit_watts - self.model.idle_watts;
        self.model.idle_watts + span * share * 0.985
    }

    /// Returns the temperature in °C, which follows the power of the last half minute.
    fn temperature(&self, work: &Workload, t: f64) -> f64 {
        let lags = [(0.0, 0.1), (6.0, 0.3), (14.0, 0.35), (26.0, 0.25)];
        let mean: f64 = lags.iter().map(|(ago, part)| part * self.watts(work, t - ago)).sum();
        let idle_temperature = self.rng.branch(6).range(28.0, 34.0);
        let hot = if self.fault == Some(SimDeviceFault::Hot) { 34.0 } else { 0.0 };
        idle_temperature + 34.0 * mean / self.model.limit_watts + hot
    }

    fn clock(&self, is_busy: bool, t: f64) -> f64 {
        let clock = match self.fault {
            Some(SimDeviceFault::Hot) => 0.6 * self.model.clock + 60.0 * self.rng.noise(t, 6.0),
            Some(SimDeviceFault::Lagging) => 0.45 * self.model.clock,
            _ if is_busy => self.model.clock * (0.985 + 0.015 * self.rng.noise(t, 3.0)),
            Some(SimDeviceFault::Lost | SimDeviceFault::MemoryErrors) | None => {
                self.model.idle_clock
            }
        };
        // It changes in steps.
        (clock / 15.0).floor() * 15.0
    }

    /// Returns true if the driver holds it at its power limit while it trains.
    fn is_power_capped(&self) -> bool {
        self.fault.is_none() && self.rng.branch(7).below(4) == 0
    }

    fn throttle(&self, is_busy: bool, is_training: bool) -> u64 {
        match self.fault {
            Some(SimDeviceFault::Hot) => SLOWDOWN | THERMAL,
            Some(SimDeviceFault::Lagging) => SLOWDOWN | POWER_BRAKE,
            _ if is_busy && is_training && self.is_power_capped() => POWER_CAP,
            _ if is_busy => 0,
            Some(SimDeviceFault::Lost | SimDeviceFault::MemoryErrors) | None => IDLE,
        }
    }
}

const SLICE_UNSUPPORTED: [&str; 6] =
    ["util", "memory_util", "temperature", "power", "power_limit", "clock_sm"];

/// Sets values to `null`, with the reason.
fn mark_unsupported(device: &mut Device, keys: &[&str]) {
    for key in keys {
        device.set_null(key);
        device.lacks.insert((*key).to_owned(), "not supported".to_owned());
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "MiB of one device and its processes are far below 2^53"
)]
const fn to_f64(count: u64) -> f64 {
    count as f64
}
