//! What to do about devices.

use crate::{HealthReason, SlowdownCause};
use gtop_model::Reason;

const RESET: &str = "when nothing uses the device, run nvidia-smi --gpu-reset on the node as root";
const REPLACE: &str = "stop using it, and ask the administrator to have it replaced";
const REBOOT: &str = "the device fell off the bus; reboot the node";
const GONE: &str = "dmesg on the node says why, for example Xid 79; if a reboot does not bring the device back, ask the administrator";
const STOP: &str = "results on this device may be wrong: stop using it, and ask the administrator to reset or replace it";
const LINKS: &str =
    "nvidia-smi nvlink --status on the node shows the links; ask the administrator to check them";

/// Memory is in use that no process has.
pub(crate) const UNEXPLAINED_MEMORY: &str = "as root on the node, fuser -v /dev/nvidia* shows processes that the driver does not list; if there are none, a reset frees the memory";
/// A device in MIG mode has no slices.
pub(crate) const NO_SLICES: &str = "as root on the node, nvidia-smi mig -cgi creates slices, or nvidia-smi -mig 0 turns MIG mode off";
/// The PCI bus has devices that their driver does not list.
pub const UNLISTED: &str =
    "dmesg on the node says why the driver refuses them; ask the administrator";
/// A device is back.
pub(crate) const RETURNED: &str =
    "dmesg on the node may say why it was gone; if it happens again, ask the administrator";
/// The driver cannot use a device.
pub const UNAVAILABLE: &str =
    "dmesg on the node says why; a reset of the device or a reboot of the node is likely needed";
/// A device lags behind the others of its job.
pub(crate) const LAGS: &str =
    "look at its temperature, clocks and processes; if nothing is wrong with them, ask its user";
/// A device was used less than half as much as the others of its job.
pub const IMBALANCE: &str = "compare its events, clocks and links with those of the others; if they are the same, the job divides its work unevenly";
/// The devices of a job waited for its CPUs.
pub const STARVED: &str =
    "ask for more CPUs per device, read data with more workers, or prepare data before the job";
/// A device was slowed down for long.
pub const THROTTLED: &str = "check the fans, airflow and power supply of the node";
/// Devices are held and idle.
pub const IDLE_HELD: &str =
    "ask its user whether the job hangs or may end; view 5 shows who holds idle devices";
/// A job held devices that did nothing.
pub const IDLE_JOB: &str = "ask for fewer devices, or end the job when its work is done";
/// A job never ran anything on its devices.
pub const UNLAUNCHED: &str =
    "start its program on the devices, or end the job; its output may say why it did not start";
/// The processes of a job never did anything on its devices.
pub const HELD_COLD: &str = "end the job if it waits for nothing; else find out why its processes do not use the devices, such as a build without support for them";
/// A job made little use of its devices.
pub const LOW_LOAD: &str = "find what it waits for, such as its input or its CPUs, or ask for fewer devices or a part of one";
/// Processes without a job held devices that did nothing.
pub const IDLE_PROCESSES: &str = "end the processes that hold the memory";
/// Errors of the driver, of which none is harmless.
pub const ERRORS: &str =
    "NVIDIA's list of Xid errors says what each means; have the hardware checked if they recur";
/// `/proc` hides a process that the driver lists.
pub const HIDDEN_PROCESS: &str = "log in as its user or as administrator to see it";
/// Accelerators of which gtop shows no values.
pub(crate) const UNREADABLE: &str =
    "install their driver and its tools; for other vendors, use their own tools";
/// Only some devices of a page are read.
pub(crate) const LEFT_OUT: &str = "name the page of each host separately";
/// NVIDIA's devices are bound to another driver.
pub const UNBOUND: &str = "the node's NVIDIA devices are not bound to NVIDIA's driver";
/// There are NVIDIA devices, and no tools.
pub const NO_TOOLS: &str = "the node has NVIDIA devices: install the tools of their driver";

/// Returns what to do about devices that gtop cannot read, by the driver they are bound to.
pub fn of_driver(driver: Option<&str>) -> &'static str {
    match driver {
        Some("nouveau") => {
            "the device is bound to nouveau instead of NVIDIA's driver: install and load the driver nvidia"
        }
        Some("vfio-pci") => {
            "the device is bound to vfio-pci, for use in a virtual machine, where gtop can show it; to use it here, bind it to its own driver"
        }
        _ => "use the tools of its vendor",
    }
}

/// Returns what to do about a device that is slowed down.
pub(crate) const fn of_slowdown(cause: SlowdownCause) -> &'static str {
    match cause {
        SlowdownCause::Thermal => {
            "check cooling and airflow, and that the fans turn; nvidia-smi -q -d TEMPERATURE,PERFORMANCE on the node has the details"
        }
        SlowdownCause::PowerBrake => {
            "ask the administrator to check the power supplies and the rack's power limit"
        }
        SlowdownCause::Hardware => {
            "check temperature and power; nvidia-smi -q -d PERFORMANCE on the node has the details"
        }
    }
}

/// Returns what to do about a device that is not sound.
pub const fn of_health(reason: &HealthReason) -> &'static str {
    match reason {
        HealthReason::Lost => REBOOT,
        HealthReason::NeedsReset
        | HealthReason::RemapPending
        | HealthReason::RetirementPending
        | HealthReason::LoadWithoutProcess(_) => RESET,
        HealthReason::NoPermission => "ask the administrator for access to the devices",
        HealthReason::Gone(_) => GONE,
        HealthReason::NotRead(Reason::NotOffered) => "give the host itself, to watch it over SSH",
        HealthReason::Driver(_) | HealthReason::NotRead(_) => "run nvidia-smi on the node by hand",
        HealthReason::Recovery(_) => "do so as root, when nothing uses the device",
        HealthReason::RemapFailed | HealthReason::SramThreshold => REPLACE,
        HealthReason::EccUncorrected(_) => STOP,
        HealthReason::EccUncorrectedTotal(_) => {
            "if programs fail on this device only, test it: run dcgmi diag -r 3 on the node"
        }
        HealthReason::Xid { code, .. } => of_xid(*code),
        HealthReason::PcieBelowMax { .. } => {
            "lspci -vv on the node shows the link; ask the administrator to check the slot and riser"
        }
        HealthReason::FanFailed => "ask the administrator to check the fan",
        HealthReason::NvlinksDown { .. } => LINKS,
        HealthReason::Slowed { cause, .. } => of_slowdown(*cause),
    }
}

/// Returns what to do about an Xid of NVIDIA's driver.
pub const fn of_xid(code: u64) -> &'static str {
    match code {
        13 | 31 | 43 | 45 => {
            "look at the output of the program; if different programs fail on this device only, test it: run dcgmi diag -r 3 on the node"
        }
        48 | 95 | 140 => STOP,
        63 => "nothing, unless it occurs often; gtop says if a reset is needed",
        92 => "nothing, unless it occurs often; then ask the administrator to check the device",
        94 => RESET,
        79 => REBOOT,
        61 | 62 | 119 | 120 => {
            "when nothing uses the device, run nvidia-smi --gpu-reset on the node as root; otherwise reboot the node"
        }
        74 | 144 | 145 | 149 | 155 => LINKS,
        _ => "NVIDIA's list of Xid errors says what to do; dmesg on the node has the whole message",
    }
}
