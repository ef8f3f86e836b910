//! One accelerator: a GPU, a MIG slice, a TPU chip.

use std::sync::Arc;

use crate::declare::completed;
use crate::details::{DeviceActivity, DeviceCounters, DeviceDetails, DeviceRates, DeviceStatics};
use crate::pci::bus_address;
use crate::reading::{Reading, Reason};
use crate::tpu::TpuDetails;
use crate::unit::{Bytes, Celsius, FanSpeed, Megahertz, Percent, Watts};
use crate::vendor::Vendor;
use gtop_local::time::Timestamp;

/// Why a device throttles; bits as NVML defines them (`nvmlClocksEventReasons*` in `nvml.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttle(pub u64);

impl Throttle {
    const HW_SLOWDOWN: u64 = 0x08;
    const SW_THERMAL: u64 = 0x20;
    const HW_THERMAL: u64 = 0x40;
    const HW_POWER_BRAKE: u64 = 0x80;
    const SW_POWER_CAP: u64 = 0x04;

    /// Text of each bit; the idle bit is left out.
    const REASONS: [(u64, &'static str); 8] = [
        (0x02, "clock setting"),
        (Self::SW_POWER_CAP, "power cap"),
        (Self::HW_SLOWDOWN, "hardware slowdown"),
        (0x10, "sync boost"),
        (Self::SW_THERMAL, "software thermal"),
        (Self::HW_THERMAL, "hardware thermal"),
        (Self::HW_POWER_BRAKE, "power brake"),
        (0x100, "display clock"),
    ];

    /// Returns the reasons as text; `none` if there is none.
    pub fn text(self) -> String {
        let words: Vec<&str> = Self::REASONS
            .into_iter()
            .filter(|(bit, _)| self.0 & bit != 0)
            .map(|(_, words)| words)
            .collect();
        if words.is_empty() { "none".to_owned() } else { words.join(", ") }
    }

    /// Returns true if hardware or driver throttles for temperature.
    pub const fn is_thermal(self) -> bool {
        self.0 & (Self::HW_THERMAL | Self::SW_THERMAL) != 0
    }

    /// Returns true if the power supply or board throttles (not the ordinary power limit).
    pub const fn is_power_brake(self) -> bool {
        self.0 & Self::HW_POWER_BRAKE != 0
    }

    /// Returns true if the hardware throttles for any reason.
    pub const fn is_hardware_slowdown(self) -> bool {
        self.0 & Self::HW_SLOWDOWN != 0
    }

    /// Returns true if heat, the power supply or the hardware slows the device; the ordinary power limit does not count.
    pub const fn is_harmful(self) -> bool {
        self.is_thermal() || self.is_power_brake() || self.is_hardware_slowdown()
    }

    /// Returns true if the device is at its power limit, which is normal under full load.
    pub const fn is_power_capped(self) -> bool {
        self.0 & Self::SW_POWER_CAP != 0
    }
}

/// Words in the names of NVIDIA's integrated devices. A Grace Hopper (GH200, GB200) has memory of its own.
const INTEGRATED_NAMES: [&str; 8] =
    ["GB10", "N1X", "Tegra", "Jetson", "Xavier", "Orin", "Thor", "nvgpu"];

/// Why a device has no values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceFault {
    /// The driver lost it: "fallen off the bus".
    Lost,
    /// It needs a reset.
    NeedsReset,
    /// Permission denied.
    NoPermission,
    /// The driver does not list it any more, since this time.
    Gone(Timestamp),
    /// Another error, with the driver's message.
    Other(Arc<str>),
}

impl DeviceFault {
    /// Returns the kind, as programs read it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::NeedsReset => "needs reset",
            Self::NoPermission => "no permission",
            Self::Gone(_) => "gone",
            Self::Other(_) => "other",
        }
    }
}

completed! {
    /// One device. Every value may be unknown.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Device {
        /// Identity: the UUID, or the PCI id if the driver reports no UUID.
        pub uuid: Arc<str> => kept,
        /// The device this one is a slice of.
        pub parent: Option<Arc<str>> => unless_none,
        /// The driver's index; not an identity.
        pub index: Reading<u32>,
        /// Vendor.
        pub vendor: Reading<Vendor>,
        /// Model name.
        pub name: Reading<Arc<str>>,
        /// PCI bus id.
        pub pci: Reading<Arc<str>>,
        /// Share of time the device was busy.
        pub utilization: Reading<Percent>,
        /// Share of time the device memory was read or written.
        pub memory_utilization: Reading<Percent>,
        /// It has no memory of its own; its memory values are the host's.
        pub has_host_memory: bool => kept,
        /// Samples are missing: what was not sent again since is unknown, also whether it is sound.
        pub is_partial: bool => kept,
        /// Memory of the device.
        pub memory_total: Reading<Bytes>,
        /// Memory in use.
        pub memory_used: Reading<Bytes>,
        /// Memory free.
        pub memory_free: Reading<Bytes>,
        /// Memory reserved by the driver.
        pub memory_reserved: Reading<Bytes>,
        /// Temperature of the core.
        pub temperature: Reading<Celsius>,
        /// Temperature of the memory.
        pub memory_temperature: Reading<Celsius>,
        /// Power drawn.
        pub power: Reading<Watts>,
        /// Power limit in effect.
        pub power_limit: Reading<Watts>,
        /// Clock of the multiprocessors.
        pub sm_clock: Reading<Megahertz>,
        /// Clock of the memory.
        pub memory_clock: Reading<Megahertz>,
        /// Intended fan speed.
        pub fan: Reading<FanSpeed>,
        /// Performance state, 0 (fastest) to 15.
        pub performance_state: Reading<u8>,
        /// Why the device throttles.
        pub throttle: Reading<Throttle>,
        /// Corrected memory errors since the driver was loaded.
        pub ecc_corrected: Reading<u64>,
        /// Uncorrected memory errors since the driver was loaded.
        pub ecc_uncorrected: Reading<u64>,
        /// Persistence mode: the driver stays loaded when the device is unused.
        pub persistence: Reading<bool>,
        /// The device is in MIG mode.
        pub mig: Reading<bool>,
        /// Current `PCIe` generation and lanes.
        pub pcie: Reading<(u8, u8)>,
        /// Further static properties.
        pub statics: Option<Arc<DeviceStatics>> => merged,
        /// Further readings of every sample.
        pub activity: Option<Arc<DeviceActivity>> => merged,
        /// Further readings that change slowly.
        pub details: Option<Arc<DeviceDetails>> => merged,
        /// Monotonic counters.
        pub counters: Option<Arc<DeviceCounters>> => merged,
        /// Rates derived from the counters of two samples.
        pub rates: Option<Arc<DeviceRates>> => unless_none,
        /// Number of processes on it that the driver lists without a pid.
        pub nameless_processes: u32 => kept,
        /// Number of processes on it that the node does not show, without those that have ended.
        pub hidden_processes: Reading<u32>,
        /// Memory in use that no visible process holds: of hidden processes and of the driver.
        pub hidden_memory: Reading<Bytes>,
        /// Values that only TPU chips have.
        pub tpu: Option<Arc<TpuDetails>> => merged,
        /// Why it has no values.
        pub fault: Option<DeviceFault> => replaced,
    }
}

impl Device {
    /// Prefix of the identity of a device that is known by its index only.
    pub const INDEX_PREFIX: &str = "index-";

    /// Returns whether a process has the device open, where the driver tells, as for TPU chips.
    pub fn is_open(&self) -> Option<bool> {
        self.tpu.as_ref()?.is_held.get()
    }

    /// Returns since when the driver does not list it any more; `None` if it does.
    pub const fn gone_since(&self) -> Option<Timestamp> {
        match &self.fault {
            Some(DeviceFault::Gone(since)) => Some(*since),
            Some(_) | None => None,
        }
    }

    /// Returns true if the driver does not list it any more.
    pub const fn is_gone(&self) -> bool {
        self.gone_since().is_some()
    }

    /// Returns true if it is a slice of this device.
    pub fn is_slice_of(&self, device: &Self) -> bool {
        self.parent.as_ref() == Some(&device.uuid)
    }

    /// Returns true if its identity only stands for its UUID, which the driver could not tell: its index or its PCI id.
    pub fn has_stand_in_identity(&self) -> bool {
        self.uuid.starts_with(Self::INDEX_PREFIX) || self.has_pci_id(&self.uuid)
    }

    /// Returns what tells which device it is, without its readings.
    #[must_use]
    pub fn without_readings(self) -> Self {
        Self {
            uuid: self.uuid,
            index: self.index,
            vendor: self.vendor,
            name: self.name,
            pci: self.pci,
            statics: self.statics,
            ..Self::default()
        }
    }

    /// Returns true if the device has this PCI id; drivers write the domain with 4 or 8 digits.
    pub fn has_pci_id(&self, pci: &str) -> bool {
        let known = self.pci.known().and_then(|known| pci_parts(known));
        known.is_some() && known == pci_parts(pci)
    }

    /// Returns its PCI id, without the domain if that is the first one.
    pub fn bus_address(&self) -> Option<&str> {
        let id = self.pci.known()?;
        Some(bus_address(id).unwrap_or(id))
    }

    /// Marks memory values above the total as malformed.
    pub fn reject_impossible_memory(&mut self) {
        let Some(total) = self.memory_total.get() else { return };
        if total.0 == 0 {
            let none = Reading::Unknown(Reason::NotAvailable);
            (self.memory_total, self.memory_used) = (none, none);
            (self.memory_free, self.memory_reserved) = (none, none);
            return;
        }
        for part in [&mut self.memory_used, &mut self.memory_free, &mut self.memory_reserved] {
            if part.get().is_some_and(|part| part > total) {
                *part = Reading::Unknown(Reason::Malformed);
            }
        }
    }

    /// Returns its load: the utilization or, where the driver tells none, as for slices, the share of time that its
    /// engines or multiprocessors were active by the hardware's counters.
    pub fn load(&self) -> Reading<Percent> {
        let activity = self.activity.as_deref();
        let active = Reading::of(activity, |known| known.graphics_active)
            .or(|| Reading::of(activity, |known| known.sm_active));
        match (self.utilization, active) {
            // It may be reported, and was not because samples are missing.
            (Reading::Unknown(Reason::NotSampled), _) if self.is_partial => self.utilization,
            (Reading::Unknown(_), Reading::Known(_)) => active,
            // Why there is no other value tells more than that there is no first one.
            (Reading::Unknown(Reason::NotSupported), _) => self.utilization.or(|| active),
            (Reading::Known(_), _) | (Reading::Unknown(_), Reading::Unknown(_)) => self.utilization,
        }
    }

    /// Returns the model name without the vendor, as it is shown.
    pub fn model(&self) -> Option<&str> {
        let name = self.name.known()?;
        Some(name.strip_prefix("NVIDIA ").unwrap_or(name))
    }

    /// Returns memory in use and in total if the device has its own: what may be added up.
    pub fn own_memory(&self) -> Option<(Bytes, Bytes)> {
        self.memory_used.get().zip(self.memory_total.get()).filter(|_| !self.has_host_memory)
    }

    /// Returns true if the device has no memory of its own and uses the host's, by its driver or by its name.
    pub fn is_integrated(&self) -> bool {
        if self.statics.as_ref().is_some_and(|statics| statics.integrated.get() == Some(true)) {
            return true;
        }
        let name = self.name.known().filter(|_| self.vendor.get() == Some(Vendor::Nvidia));
        name.is_some_and(|name| {
            let mut words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
            words.any(|word| INTEGRATED_NAMES.contains(&word))
        })
    }

    /// Returns used memory as a share of the total.
    pub fn memory_share(&self) -> Option<Percent> {
        Percent::of(self.memory_used.get()?.0, self.memory_total.get()?.0)
    }

    /// Returns power drawn as a share of the limit, at most 100.
    pub fn power_share(&self) -> Option<Percent> {
        let (drawn, limit) = (self.power.get()?.get(), self.power_limit.get()?.get());
        if limit > 0.0 { Percent::new((drawn / limit * 100.0).min(100.0)) } else { None }
    }
}

/// Returns the domain of a PCI id, and the rest in capitals.
fn pci_parts(id: &str) -> Option<(u32, String)> {
    let (domain, address) = id.split_once(':')?;
    Some((u32::from_str_radix(domain, 16).ok()?, address.to_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_throttle_reason_has_its_own_bit() {
        // The bits of `nvmlClocksThrottleReasons`.
        let reasons_of = |bit: u32| {
            let one = Throttle(1 << bit);
            let kinds = [
                one.is_thermal(),
                one.is_power_brake(),
                one.is_hardware_slowdown(),
                one.is_power_capped(),
            ];
            assert_eq!(one.is_harmful(), kinds.iter().take(3).any(|kind| *kind), "bit {bit}");
            (kinds, one.text())
        };
        for bit in 0..64 {
            let (kinds, text) = match bit {
                1 => ([false, false, false, false], "clock setting"),
                2 => ([false, false, false, true], "power cap"),
                3 => ([false, false, true, false], "hardware slowdown"),
                4 => ([false, false, false, false], "sync boost"),
                5 => ([true, false, false, false], "software thermal"),
                6 => ([true, false, false, false], "hardware thermal"),
                7 => ([false, true, false, false], "power brake"),
                8 => ([false, false, false, false], "display clock"),
                _ => ([false, false, false, false], "none"),
            };
            assert_eq!(reasons_of(bit), (kinds, text.to_owned()), "bit {bit}");
        }
        assert_eq!(Throttle(0x84).text(), "power cap, power brake");
    }

    #[test]
    fn the_load_is_that_of_the_counters_where_the_driver_tells_no_utilization() {
        let share = |share| Reading::checked(Percent::new(share));
        let none = Reading::Unknown;
        let load = |utilization, graphics_active, sm_active| {
            let activity =
                DeviceActivity { graphics_active, sm_active, ..DeviceActivity::default() };
            Device { utilization, activity: activity.shared(), ..Device::default() }.load()
        };
        let not = none(Reason::NotSupported);
        assert_eq!(load(share(7.0), share(63.0), share(60.0)), share(7.0));
        assert_eq!(load(not, share(63.0), share(60.0)), share(63.0));
        assert_eq!(load(none(Reason::DriverError), not, share(60.0)), share(60.0));
        assert_eq!(
            load(not, none(Reason::NoPermission), Reading::default()).reason(),
            Some(Reason::NoPermission)
        );
        assert_eq!(load(none(Reason::DriverError), not, not).reason(), Some(Reason::DriverError));
        assert_eq!(load(not, Reading::default(), Reading::default()), not);
    }

    #[test]
    fn shares_need_a_known_total() {
        let share = |power: f32, limit: f32| {
            let (power, power_limit) =
                (Reading::checked(Watts::new(power)), Reading::checked(Watts::new(limit)));
            Device { power, power_limit, ..Device::default() }.power_share().map(Percent::get)
        };
        assert_eq!((share(350.0, 700.0), share(710.0, 700.0)), (Some(50.0), Some(100.0)));
        assert_eq!((share(1.0, 0.0), share(-1.0, 700.0)), (None, None));
        let mut device = Device {
            memory_total: Reading::Known(Bytes(100)),
            memory_used: Reading::Known(Bytes(25)),
            memory_free: Reading::Known(Bytes(100)),
            memory_reserved: Reading::Known(Bytes(101)),
            ..Device::default()
        };
        assert_eq!(device.memory_share().map(Percent::get), Some(25.0));
        device.reject_impossible_memory();
        assert_eq!(device.memory_free, Reading::Known(Bytes(100)));
        assert_eq!(device.memory_reserved, Reading::Unknown(Reason::Malformed));
    }
}
