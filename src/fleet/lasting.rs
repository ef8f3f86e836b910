//! What is no fault of a device for a moment, and is one when it lasts or when it was better before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::fleet::node::Node;
use crate::model::declare::table;
use crate::model::{Bytes, Device, DeviceRates, Percent, Source, Throttle, stale_after};
use crate::time::Timestamp;

table! {
    /// What slows a device down, beyond its ordinary limits.
    #[derive(PartialOrd, Ord)]
    pub enum SlowdownCause {
        /// It is too hot.
        Thermal = "thermal",
        /// The power supply or the board asks for it.
        PowerBrake = "power brake",
        /// The driver does not say more.
        Hardware = "hardware slowdown",
    }
    /// All of them.
    pub const ALL;
    /// Returns it in words.
    pub fn text -> &'static str;
}

impl SlowdownCause {
    /// Returns true if it slows a device that throttles for these reasons.
    pub const fn applies(self, why: Throttle) -> bool {
        match self {
            Self::Thermal => why.is_thermal(),
            Self::PowerBrake => why.is_power_brake(),
            Self::Hardware => {
                why.is_hardware_slowdown() && !why.is_thermal() && !why.is_power_brake()
            }
        }
    }

    /// Returns how long it slows a device that is degraded.
    const fn min_span(self) -> Duration {
        match self {
            Self::Thermal | Self::Hardware => Duration::from_secs(60),
            Self::PowerBrake => Duration::from_secs(10),
        }
    }
}

/// How long a device is at full load, without memory in use and without a process, that is degraded.
const EMPTY_LOAD_SPAN: Duration = Duration::from_secs(60);
/// Full load, in percent.
const FULL_LOAD: f32 = 99.0;
/// A device with less memory in use than a context of CUDA has, in bytes, works for nobody.
const MAX_EMPTY_BYTES: Bytes = Bytes(64 << 20);
/// A device throttles for temperature from this share of the time on, in percent, and does until it is half of it.
const THERMAL_PERCENT: f32 = 5.0;
/// What is not seen for less than this goes on.
const MIN_GAP: Duration = Duration::from_secs(10);

/// From when until when something was seen, without a long gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    since: Timestamp,
    until: Timestamp,
}

impl Span {
    fn duration(self) -> Duration {
        self.until.since(self.since)
    }

    /// Returns the span after a look at `at`; `None` if it has ended.
    fn next(before: Option<Self>, is_seen: bool, at: Timestamp, max_gap: Duration) -> Option<Self> {
        let going_on = before.filter(|span| at.since(span.until) <= max_gap);
        if !is_seen {
            return going_on;
        }
        let since = going_on.map_or(at, |span| span.since);
        Some(Self { since, until: at })
    }
}

/// What is remembered of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    thermal: Option<Span>,
    power_brake: Option<Span>,
    hardware: Option<Span>,
    empty_load: Option<Span>,
    /// The most `NVLinks` that were active at one time.
    most_links: u32,
}

impl Memory {
    const fn slowdown(&mut self, cause: SlowdownCause) -> &mut Option<Span> {
        match cause {
            SlowdownCause::Thermal => &mut self.thermal,
            SlowdownCause::PowerBrake => &mut self.power_brake,
            SlowdownCause::Hardware => &mut self.hardware,
        }
    }
}

/// What is remembered of the devices of a node; nothing of those of which there is nothing to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lasting(Arc<BTreeMap<Arc<str>, Memory>>);

impl Lasting {
    /// Returns what has slowed a device down for long, and for how long.
    pub(super) fn slowdowns(&self, uuid: &str) -> impl Iterator<Item = (SlowdownCause, Duration)> {
        let mut memory = self.0.get(uuid).copied();
        SlowdownCause::ALL.into_iter().filter_map(move |cause| {
            let span = (*memory.as_mut()?.slowdown(cause))?.duration();
            (span >= cause.min_span()).then_some((cause, span))
        })
    }

    /// Returns how long a device has been at full load for nobody, if that is long.
    pub(super) fn empty_load(&self, uuid: &str) -> Option<Duration> {
        let span = self.0.get(uuid)?.empty_load?.duration();
        (span >= EMPTY_LOAD_SPAN).then_some(span)
    }

    /// Returns the most `NVLinks` of a device that were active at one time.
    pub(super) fn most_links(&self, uuid: &str) -> u32 {
        self.0.get(uuid).map_or(0, |memory| memory.most_links)
    }

    /// Forgets devices.
    pub(super) fn forget(&mut self, is_gone: &dyn Fn(&str) -> bool) {
        if self.0.keys().any(|uuid| is_gone(uuid)) {
            Arc::make_mut(&mut self.0).retain(|uuid, _| !is_gone(uuid));
        }
    }

    /// Gives devices other names.
    pub(super) fn renamed(&self, rename: &mut dyn FnMut(&str) -> Arc<str>) -> Self {
        Self(Arc::new(self.0.iter().map(|(uuid, memory)| (rename(uuid), *memory)).collect()))
    }
}

/// Remembers what a sample of a source tells of its devices.
pub(super) fn remember(node: &mut Node, source: &Source, at: Timestamp) {
    let interval = node.source(source).map_or(Duration::ZERO, |state| state.interval);
    let max_gap = stale_after(interval).max(MIN_GAP);
    let mut changed: Vec<(Arc<str>, Memory)> = Vec::new();
    for (position, device) in node.devices.iter().enumerate() {
        if node.device_sources.get(position) != Some(source) {
            continue;
        }
        let before = node.lasting.0.get(&device.uuid).copied().unwrap_or_default();
        let mut memory = before;
        for cause in SlowdownCause::ALL {
            let span = memory.slowdown(cause);
            let is_seen = device.fault.is_none() && is_slowed(device, cause, span.is_some());
            *span = Span::next(*span, is_seen, at, max_gap);
        }
        let is_empty_load = is_loaded_by_nobody(node, position, device);
        memory.empty_load = Span::next(memory.empty_load, is_empty_load, at, max_gap);
        let links = device.details.as_ref().and_then(|details| details.nvlinks_active.get());
        memory.most_links = memory.most_links.max(links.unwrap_or_default());
        if memory != before {
            changed.push((Arc::clone(&device.uuid), memory));
        }
    }
    if changed.is_empty() {
        return;
    }
    let known = Arc::make_mut(&mut node.lasting.0);
    for (uuid, memory) in changed {
        if memory == Memory::default() {
            known.remove(&uuid);
        } else {
            known.insert(uuid, memory);
        }
    }
}

/// Returns true if a cause slows a device down; `is_slow` if it did so before.
fn is_slowed(device: &Device, cause: SlowdownCause, is_slow: bool) -> bool {
    let is_reported = device.throttle.get().is_some_and(|why| cause.applies(why));
    let rates = device.rates.as_deref();
    let counted = match cause {
        SlowdownCause::Thermal => rates.and_then(thermal_share),
        SlowdownCause::PowerBrake => {
            rates.and_then(|rates| rates.power_brake_throttled.get()).map(Percent::get)
        }
        SlowdownCause::Hardware => None,
    };
    let min = match cause {
        SlowdownCause::Thermal if is_slow => THERMAL_PERCENT / 2.0,
        SlowdownCause::Thermal => THERMAL_PERCENT,
        SlowdownCause::PowerBrake | SlowdownCause::Hardware => f32::MIN_POSITIVE,
    };
    // Counters tell of the whole time; a sample tells of a moment.
    counted.map_or(is_reported, |share| share >= min)
}

/// Returns the share of the time, in percent, that driver and hardware throttled for temperature.
fn thermal_share(rates: &DeviceRates) -> Option<f32> {
    let driver = rates.thermal_throttled.get()?.get();
    Some(driver + rates.hardware_thermal_throttled.get()?.get())
}

/// Returns true if a device is at full load, and neither memory nor a process tells for whom.
fn is_loaded_by_nobody(node: &Node, position: usize, device: &Device) -> bool {
    // A driver that is loaded for each look reports the load of its own start.
    let is_loaded = device.persistence.get() == Some(true)
        || node.device_sources.get(position).is_some_and(|source| source.as_str() == "nvml");
    device.utilization.get().is_some_and(|share| share.get() >= FULL_LOAD)
        && is_loaded
        && !node.is_cut(device)
        && device.parent.is_none()
        && !device.has_host_memory
        // Without it, what the driver reserves is part of the memory in use.
        && device.memory_reserved.get().is_some()
        && device.memory_used.get().is_some_and(|used| used < MAX_EMPTY_BYTES)
        && device.hidden_processes.get().is_none_or(|count| count == 0)
        && !node.is_used(device)
        && node.users_unknown_reason(position).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::HealthReason;
    use crate::model::{DeviceDetails, DeviceUse, NodeName, Reading};

    const SECOND: i64 = 1_000_000;

    /// Returns a node with a device that is at full load and has nothing in its memory.
    fn node(source: &str) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::ZERO);
        node.device_sources = [Source::new(source)].into();
        node.devices = vec![Device {
            uuid: "GPU-1".into(),
            utilization: Reading::checked(Percent::new(100.0)),
            memory_used: Reading::Known(Bytes(5 << 20)),
            memory_reserved: Reading::Known(Bytes(600 << 20)),
            throttle: Reading::Known(Throttle(0)),
            ..Device::default()
        }];
        node.mark_sampled(&Source::new(source).processes(), Timestamp::default());
        node
    }

    /// Looks at a node every second, from this second until that one.
    fn watch(node: &mut Node, seconds: std::ops::RangeInclusive<i64>) {
        let source = node.device_sources[0].clone();
        for second in seconds {
            remember(node, &source, Timestamp::from_micros(second * SECOND));
        }
    }

    fn names(node: &Node) -> Vec<&'static str> {
        node.health_reasons(&node.devices[0]).iter().map(HealthReason::id).collect()
    }

    /// Returns the names of the reasons after each of these seconds of throttling for these reasons.
    fn after(bits: u64, seconds: [i64; 2]) -> [Vec<&'static str>; 2] {
        let mut node = node("nvidia-smi");
        node.devices[0].throttle = Reading::Known(Throttle(bits));
        watch(&mut node, 0..=seconds[0]);
        let first = names(&node);
        watch(&mut node, seconds[0] + 1..=seconds[1]);
        [first, names(&node)]
    }

    #[test]
    fn what_slows_a_device_down_for_long_degrades_it() {
        let thermal = vec!["throttled_thermal"];
        assert_eq!(after(0x20, [59, 60]), [vec![], thermal.clone()]);
        assert_eq!(after(0x48, [59, 60]), [vec![], thermal]);
        assert_eq!(after(0x88, [9, 10]), [vec![], vec!["throttled_power_brake"]]);
        assert_eq!(after(0x08, [59, 60]), [vec![], vec!["throttled_hardware"]]);
        // A power limit, a clock setting and idleness are none of it.
        for harmless in [0x00, 0x01, 0x02, 0x04, 0x10, 0x100] {
            assert_eq!(after(harmless, [60, 900]).concat(), [""; 0], "{harmless:#x}");
        }
    }

    #[test]
    fn a_short_break_does_not_end_it_and_a_long_one_does() {
        let mut node = node("nvidia-smi");
        let set = |node: &mut Node, bits| node.devices[0].throttle = Reading::Known(Throttle(bits));
        set(&mut node, 0x20);
        watch(&mut node, 0..=40);
        set(&mut node, 0);
        watch(&mut node, 41..=49);
        set(&mut node, 0x20);
        watch(&mut node, 50..=60);
        assert_eq!(names(&node), ["throttled_thermal"]);
        set(&mut node, 0);
        watch(&mut node, 61..=70);
        assert_eq!(names(&node), ["throttled_thermal"]);
        watch(&mut node, 71..=71);
        assert_eq!(names(&node), [""; 0]);
        assert_eq!(node.lasting, Lasting::default());
        // Nothing is known of a time without samples.
        set(&mut node, 0x20);
        watch(&mut node, 100..=130);
        watch(&mut node, 400..=430);
        assert_eq!(names(&node), [""; 0]);
    }

    #[test]
    fn counters_tell_of_heat_before_a_moment_does() {
        let mut node = node("nvidia-smi");
        let throttled = |node: &mut Node, share: f32, bits| {
            let rates = DeviceRates {
                thermal_throttled: Reading::checked(Percent::new(share)),
                hardware_thermal_throttled: Reading::Known(Percent::default()),
                ..DeviceRates::default()
            };
            node.devices[0].rates = Some(Arc::new(rates));
            node.devices[0].throttle = Reading::Known(Throttle(bits));
        };
        throttled(&mut node, 4.0, 0x20);
        watch(&mut node, 0..=90);
        assert_eq!(names(&node), [""; 0]);
        throttled(&mut node, 6.0, 0);
        watch(&mut node, 91..=95);
        throttled(&mut node, 3.0, 0);
        watch(&mut node, 96..=151);
        assert_eq!(names(&node), ["throttled_thermal"]);
        throttled(&mut node, 2.0, 0x20);
        watch(&mut node, 152..=162);
        assert_eq!(names(&node), [""; 0]);
    }

    #[test]
    fn full_load_for_nobody_degrades_a_device_and_load_with_a_reason_does_not() {
        let after = |source, change: fn(&mut Node)| {
            let mut node = node(source);
            change(&mut node);
            watch(&mut node, 0..=59);
            assert_eq!(names(&node), [""; 0]);
            watch(&mut node, 60..=60);
            names(&node)
        };
        assert_eq!(after("nvml", |_| {}), ["load_without_process"]);
        let is_persistent = |node: &mut Node| node.devices[0].persistence = Reading::Known(true);
        assert_eq!(after("nvidia-smi", is_persistent), ["load_without_process"]);
        // Without persistence mode, each call of nvidia-smi loads the driver, which is work.
        assert_eq!(after("nvidia-smi", |_| {}), [""; 0]);
        let near_misses: [fn(&mut Node); 7] = [
            |node| node.devices[0].utilization = Reading::checked(Percent::new(98.0)),
            |node| node.devices[0].memory_used = Reading::Known(Bytes(300 << 20)),
            |node| node.devices[0].memory_used = Reading::default(),
            |node| node.devices[0].hidden_processes = Reading::Known(1),
            |node| node.devices[0].mig = Reading::Known(true),
            |node| {
                let device = "GPU-1".into();
                node.uses = [DeviceUse { device, pid: 7, ..DeviceUse::default() }].into();
            },
            |node| {
                let reports_users = Reading::Unknown(crate::model::Reason::NotSupported);
                let details = DeviceDetails { reports_users, ..DeviceDetails::default() };
                node.devices[0].details = details.shared();
            },
        ];
        for (index, near_miss) in near_misses.into_iter().enumerate() {
            assert_eq!(after("nvml", near_miss), [""; 0], "{index}");
        }
    }

    #[test]
    fn a_link_that_was_up_before_is_missed_until_it_is_back() {
        let mut node = node("nvml");
        node.devices[0].utilization = Reading::default();
        let set = |node: &mut Node, nvlinks_active: u32| {
            let nvlinks_active = Reading::Known(nvlinks_active);
            let details = DeviceDetails { nvlinks_active, ..DeviceDetails::default() };
            node.devices[0].details = details.shared();
        };
        for (second, (active, expected)) in (0..).zip([
            (4, ""),
            (0, "0 of 4 NVLinks active"),
            (3, "3 of 4 NVLinks active"),
            (4, ""),
        ]) {
            set(&mut node, active);
            watch(&mut node, second..=second);
            let texts = node.health_reasons(&node.devices[0]).into_iter().map(|one| one.text());
            assert_eq!(texts.collect::<Vec<_>>().join(","), expected);
        }
    }
}
