//! What can be told of a device beyond load, memory, power and clocks: one table for the columns,
//! for the second line of a device, and for the line that says what is not known.

use crate::fleet::Node;
use crate::model::{
    Bytes, ComputeMode, Device, DeviceActivity, DeviceDetails, Percent, Reading, Reason, Throttle,
    TpuDetails,
};
use crate::view::line::Tone;
use crate::view::number_format::{Units, rate};

/// A device, and how somebody likes numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) node: &'a Node,
    pub(super) device: &'a Device,
    pub(super) units: Units,
}

/// A value in words, with what it means.
pub(super) type Said = Reading<(String, Tone)>;

/// Something to tell.
#[derive(Debug)]
pub(super) struct Fact {
    /// Over its column.
    pub(super) title: &'static str,
    /// In front of the value where there is no column.
    pub(super) word: &'static str,
    /// Columns of the value.
    pub(super) width: u16,
    pub(super) read: fn(Subject<'_>) -> Said,
}

impl Fact {
    const fn new(
        title: &'static str,
        word: &'static str,
        width: u16,
        read: fn(Subject<'_>) -> Said,
    ) -> Self {
        Self { title, word, width, read }
    }

    /// Says whether any of the devices tells it, or will in a moment.
    pub(super) fn is_told(&self, node: &Node, units: Units) -> bool {
        node.devices.iter().any(|device| {
            let said = (self.read)(Subject { node, device, units });
            matches!(said, Reading::Known(_) | Reading::Unknown(Reason::NeedsTwoSamples))
        })
    }
}

/// Everything, what is worth a column first.
pub(super) const FACTS: [Fact; 26] = [
    Fact::new("OWNER", "by", 8, owner),
    Fact::new("THROTTLED", "throttled", 12, held),
    Fact::new("MEMBW", "membw", 5, bandwidth),
    Fact::new("MEMTEMP", "memtemp", 7, memory_heat),
    Fact::new("JUNCTION", "junction", 8, junction),
    Fact::new("PCIe", "PCIe", 11, pcie),
    Fact::new("NVLINK", "NVLink", 11, nvlink),
    Fact::new("FAN", "fan", 5, fan),
    Fact::new("PSTATE", "pstate", 6, performance),
    Fact::new("ENC/DEC", "enc/dec", 7, video),
    Fact::new("SMACT", "smact", 5, |subject| share(activity(subject, |more| more.sm_active))),
    Fact::new("TENSOR", "tensor", 6, |subject| share(activity(subject, |more| more.tensor_active))),
    Fact::new("OCC", "occ", 4, |subject| share(activity(subject, |more| more.sm_occupancy))),
    Fact::new("ECC", "ecc", 7, errors),
    Fact::new("REMAP", "remap", 8, remapped),
    Fact::new("LINK", "link", 5, link),
    Fact::new("PERS", "pers", 4, |subject| flag(subject.device.persistence)),
    Fact::new("MODE", "mode", 9, mode),
    Fact::new("HLOQ", "hloq", 5, |subject| plain(tpu(subject, |chip| chip.queue))),
    Fact::new("CORES", "cores", 9, cores),
    Fact::new("GI/CI", "GI/CI", 5, instances),
    Fact::new("BAR1", "BAR1", 11, bar1),
    Fact::new("PART", "partitions", 8, partition),
    Fact::new("MIG", "MIG", 3, |subject| flag(subject.device.mig)),
    Fact::new("DISP", "disp", 4, |subject| flag(detail(subject, |more| more.display_active))),
    Fact::new("PCI", "pci", 12, bus),
];

/// Names what is not known, alike reasons together; `first` comes before the facts.
pub(super) fn unknowns(
    subject: Subject<'_>,
    first: &[(&'static str, Option<Reason>)],
) -> Vec<(String, &'static str)> {
    let facts = FACTS.iter().map(|fact| (fact.word, (fact.read)(subject).reason()));
    let mut grouped: Vec<(String, &'static str)> = Vec::new();
    for (word, reason) in first.iter().copied().chain(facts) {
        // What nothing speaks of at all is not missed.
        let Some(reason) = reason.filter(|reason| *reason != Reason::NotSampled) else { continue };
        match grouped.iter_mut().find(|(_, known)| *known == reason.text()) {
            Some((words, _)) => *words = format!("{words}, {word}"),
            None => grouped.push((word.to_owned(), reason.text())),
        }
    }
    grouped
}

fn activity<T: Copy>(
    subject: Subject<'_>,
    read: impl FnOnce(&DeviceActivity) -> Reading<T>,
) -> Reading<T> {
    subject.device.activity.as_deref().map_or_else(Reading::default, read)
}

fn detail<T: Copy>(
    subject: Subject<'_>,
    read: impl FnOnce(&DeviceDetails) -> Reading<T>,
) -> Reading<T> {
    subject.device.details.as_deref().map_or_else(Reading::default, read)
}

fn tpu<T: Copy>(subject: Subject<'_>, read: impl FnOnce(&TpuDetails) -> Reading<T>) -> Reading<T> {
    subject.device.tpu.as_deref().map_or_else(Reading::default, read)
}

fn plain<T: ToString>(reading: Reading<T>) -> Said {
    reading.map(|value| (value.to_string(), Tone::Plain))
}

fn share(reading: Reading<Percent>) -> Said {
    plain(reading.map(|share| format!("{:.0}%", share.get())))
}

fn flag(reading: Reading<bool>) -> Said {
    plain(reading.map(|is_on| if is_on { "on" } else { "off" }))
}

/// Who has a chip; the process table says more.
fn owner(subject: Subject<'_>) -> Said {
    let Subject { node, device, .. } = subject;
    let Some(chip) = &device.tpu else { return Reading::default() };
    let mut users = node
        .uses_of(&device.uuid)
        .filter_map(|used| node.process(used.pid)?.statics.user.known().cloned());
    match (users.next(), chip.is_held) {
        (Some(user), _) => plain(Reading::Known(user)),
        (None, Reading::Known(false)) => Reading::Known(("nobody".to_owned(), Tone::Faint)),
        (None, Reading::Known(true)) => Reading::Known(("hidden".to_owned(), Tone::Faint)),
        (None, Reading::Unknown(reason)) => Reading::Unknown(reason),
    }
}

/// Below this share of time nobody speaks of a throttled device.
const WORTH_SAYING: f32 = 0.5;

/// What holds clocks down, and for what share of the time since the sample before.
fn held(subject: Subject<'_>) -> Said {
    let Device { rates, throttle, .. } = subject.device;
    let shares = rates.iter().flat_map(|rates| {
        [
            (rates.hardware_thermal_throttled, "hw heat", Tone::Warn),
            (rates.thermal_throttled, "sw heat", Tone::Warn),
            (rates.power_brake_throttled, "brake", Tone::Warn),
            (rates.power_throttled, "power", Tone::Plain),
            (rates.sync_boost_throttled, "sync", Tone::Plain),
        ]
    });
    let longest = shares
        .filter_map(|(share, word, tone)| Some((share.get()?.get(), word, tone)))
        .filter(|(share, ..)| *share >= WORTH_SAYING)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    if let Some((share, word, tone)) = longest {
        return Reading::Known((format!("{share:.0}% {word}"), tone));
    }
    throttle.map(|throttle| {
        now_held(throttle)
            .map_or_else(|| ("no".to_owned(), Tone::Faint), |(word, tone)| (word.to_owned(), tone))
    })
}

/// What holds clocks down at this moment, where nobody counts for how long.
fn now_held(throttle: Throttle) -> Option<(&'static str, Tone)> {
    if throttle.is_thermal() {
        Some(("heat", Tone::Warn))
    } else if throttle.is_power_brake() {
        Some(("brake", Tone::Warn))
    } else if throttle.is_hardware_slowdown() {
        Some(("slowdown", Tone::Warn))
    } else {
        throttle.is_power_capped().then_some(("power", Tone::Plain))
    }
}

/// Returns the share of time that clocks were held down, whatever for; of a device that does not
/// count it, whether they are now.
pub(super) fn held_share(device: &Device) -> Option<f32> {
    let rates = device.rates.as_deref();
    let shares = rates.into_iter().flat_map(|rates| {
        [
            rates.hardware_thermal_throttled,
            rates.thermal_throttled,
            rates.power_brake_throttled,
            rates.power_throttled,
            rates.sync_boost_throttled,
        ]
    });
    let longest = shares.filter_map(|share| Some(share.get()?.get())).max_by(f32::total_cmp);
    longest
        .or_else(|| device.throttle.get().map(|throttle| now_held(throttle).map_or(0.0, |_| 100.0)))
}

/// Returns the share of time the memory was busy, or of its bandwidth where that is told.
pub(super) fn bandwidth_share(device: &Device) -> Reading<Percent> {
    let chip = device.tpu.as_deref().map_or_else(Reading::default, |chip| chip.bandwidth);
    device.memory_utilization.or(|| chip)
}

fn bandwidth(subject: Subject<'_>) -> Said {
    share(bandwidth_share(subject.device))
}

fn memory_heat(subject: Subject<'_>) -> Said {
    plain(subject.device.memory_temperature.map(|heat| subject.units.degrees(heat)))
}

fn junction(subject: Subject<'_>) -> Said {
    let heat = detail(subject, |more| more.junction_temperature);
    plain(heat.map(|heat| subject.units.degrees(heat)))
}

/// Writes what comes in and goes out each second.
fn flow(inward: Reading<Bytes>, outward: Reading<Bytes>) -> Said {
    match (inward, outward) {
        (Reading::Known(inward), Reading::Known(outward)) => {
            plain(Reading::Known(format!("↓{:>4} ↑{:>4}", rate(inward.0), rate(outward.0))))
        }
        (Reading::Unknown(reason), _) | (_, Reading::Unknown(reason)) => Reading::Unknown(reason),
    }
}

fn pcie(subject: Subject<'_>) -> Said {
    let (inward, outward) = pcie_rates(subject.device);
    flow(inward, outward)
}

/// Returns bytes a second over `PCIe`, received and sent: counted, or else measured.
pub(super) fn pcie_rates(device: &Device) -> (Reading<Bytes>, Reading<Bytes>) {
    let counted = device.rates.as_deref();
    let measured = device.activity.as_deref();
    let inward = counted.map_or_else(Reading::default, |rates| rates.pcie_received);
    let outward = counted.map_or_else(Reading::default, |rates| rates.pcie_sent);
    (
        inward.or(|| measured.map_or_else(Reading::default, |more| more.pcie_received)),
        outward.or(|| measured.map_or_else(Reading::default, |more| more.pcie_sent)),
    )
}

fn nvlink(subject: Subject<'_>) -> Said {
    let counted = subject.device.rates.as_deref();
    let inward = counted.map_or_else(Reading::default, |rates| rates.nvlink_received);
    let outward = counted.map_or_else(Reading::default, |rates| rates.nvlink_sent);
    flow(
        inward.or(|| activity(subject, |more| more.nvlink_received)),
        outward.or(|| activity(subject, |more| more.nvlink_sent)),
    )
}

fn fan(subject: Subject<'_>) -> Said {
    let said = plain(subject.device.fan.map(|fan| format!("{:.0}%", fan.get())));
    let turns = detail(subject, |more| more.fan_rpm);
    said.or(|| plain(turns.map(|turns| format!("{turns}r"))))
}

fn performance(subject: Subject<'_>) -> Said {
    let said = plain(subject.device.performance_state.map(|state| format!("P{state}")));
    let level = subject.device.details.as_deref().and_then(|more| more.performance_level.known());
    said.or(|| plain(level.cloned().map_or_else(Reading::default, Reading::Known)))
}

fn video(subject: Subject<'_>) -> Said {
    let (encoder, decoder) =
        (detail(subject, |more| more.encoder), detail(subject, |more| more.decoder));
    match (encoder, decoder) {
        (Reading::Known(encoder), Reading::Known(decoder)) => {
            plain(Reading::Known(format!("{:.0}/{:.0}", encoder.get(), decoder.get())))
        }
        (Reading::Unknown(reason), _) | (_, Reading::Unknown(reason)) => {
            share(detail(subject, |more| more.video)).or(|| Reading::Unknown(reason))
        }
    }
}

fn errors(subject: Subject<'_>) -> Said {
    let Device { ecc_corrected, ecc_uncorrected, .. } = subject.device;
    match (ecc_corrected, ecc_uncorrected) {
        (Reading::Known(corrected), Reading::Known(uncorrected)) => {
            let tone = if *uncorrected > 0 { Tone::Bad } else { Tone::Plain };
            Reading::Known((format!("{corrected}/{uncorrected}"), tone))
        }
        (Reading::Unknown(reason), _) | (_, Reading::Unknown(reason)) => Reading::Unknown(*reason),
    }
}

/// Rows of memory that were replaced, or pages given up; `!` where some wait or cannot be.
fn remapped(subject: Subject<'_>) -> Said {
    let Some(more) = subject.device.details.as_deref() else { return Reading::default() };
    let sum = |one: Reading<u64>, other: Reading<u64>| match (one, other) {
        (Reading::Known(one), Reading::Known(other)) => Reading::Known(one.saturating_add(other)),
        (Reading::Unknown(reason), _) | (_, Reading::Unknown(reason)) => Reading::Unknown(reason),
    };
    let rows = sum(more.remapped_corrected, more.remapped_uncorrected);
    let count = rows.or(|| sum(more.retired_single, more.retired_double));
    let is_failed = more.remapping_failed.get() == Some(true);
    let waits = [more.remapping_pending, more.retirement_pending]
        .iter()
        .any(|waits| waits.get() == Some(true));
    count.map(|count| match (is_failed, waits) {
        (true, _) => (format!("{count} failed"), Tone::Bad),
        (false, true) => (format!("{count} waits"), Tone::Warn),
        (false, false) => (count.to_string(), Tone::Plain),
    })
}

fn link(subject: Subject<'_>) -> Said {
    let lanes_max = subject.device.fact(|known| known.pcie_max).get().map(|(_, lanes)| lanes);
    subject.device.pcie.map(|(generation, lanes)| {
        // An idle device lowers its generation; lanes do not come and go.
        let tone =
            if lanes_max.is_some_and(|most| lanes < most) { Tone::Warn } else { Tone::Plain };
        (format!("{generation}x{lanes}"), tone)
    })
}

fn mode(subject: Subject<'_>) -> Said {
    let mode = detail(subject, |more| more.compute_mode);
    plain(mode.map(|mode| match mode {
        ComputeMode::Shared => "default",
        ComputeMode::ExclusiveThread => "1 thread",
        ComputeMode::ExclusiveProcess => "1 process",
        ComputeMode::Prohibited => "nobody",
    }))
}

fn cores(subject: Subject<'_>) -> Said {
    let chip = subject.device.tpu.as_deref();
    let Some(cores) = chip.and_then(|chip| chip.by_core.known()) else { return Reading::default() };
    let one = |core: &crate::model::TpuCore| {
        core.utilization.map_or_else(|| "–".to_owned(), |share| format!("{:.0}", share.get()))
    };
    plain(Reading::Known(cores.iter().map(one).collect::<Vec<_>>().join("/")))
}

fn instances(subject: Subject<'_>) -> Said {
    let Some(fixed) = subject.device.statics.as_deref() else { return Reading::default() };
    match (fixed.gpu_instance, fixed.compute_instance) {
        (Reading::Known(gpu), Reading::Known(compute)) => {
            plain(Reading::Known(format!("{gpu}/{compute}")))
        }
        (Reading::Unknown(_), _) | (_, Reading::Unknown(_)) => Reading::default(),
    }
}

fn bar1(subject: Subject<'_>) -> Said {
    let (used, total) =
        (detail(subject, |more| more.bar1_used), detail(subject, |more| more.bar1_total));
    match (used, total) {
        (Reading::Known(used), Reading::Known(total)) => {
            plain(Reading::Known(format!("{}/{}", short(subject, used), short(subject, total))))
        }
        (Reading::Unknown(reason), _) | (_, Reading::Unknown(reason)) => Reading::Unknown(reason),
    }
}

fn short(subject: Subject<'_>, bytes: Bytes) -> String {
    subject.units.amount(bytes).replace(".0", "")
}

fn partition(subject: Subject<'_>) -> Said {
    let Some(more) = subject.device.details.as_deref() else { return Reading::default() };
    match (more.compute_partition.known(), more.memory_partition.known()) {
        (None, None) => Reading::default(),
        (compute, memory) => {
            let word =
                |word: Option<&std::sync::Arc<str>>| word.map_or("–", |word| word).to_owned();
            plain(Reading::Known(format!("{}/{}", word(compute), word(memory))))
        }
    }
}

fn bus(subject: Subject<'_>) -> Said {
    let known = subject.device.pci.known().map(|id| match id.split_once(':') {
        // The domain is nought nearly everywhere.
        Some((domain, tail)) if domain.chars().all(|digit| digit == '0') => tail.to_owned(),
        _ => id.to_string(),
    });
    plain(known.map_or_else(Reading::default, Reading::Known))
}
