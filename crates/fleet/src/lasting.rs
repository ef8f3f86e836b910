//! What is no fault of a device for a moment, and is one when it lasts or when it was better before.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gtop_local::time::Timestamp;
use gtop_model::table;
use gtop_model::{Device, DeviceRates, Percent, Throttle};

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
    pub(crate) const fn applies(self, why: Throttle) -> bool {
        match self {
            Self::Thermal => why.is_thermal(),
            Self::PowerBrake => why.is_power_brake(),
            Self::Hardware => {
                why.is_hardware_slowdown() && !why.is_thermal() && !why.is_power_brake()
            }
        }
    }

    /// Returns the name for programs of a slowdown that lasts, and what it means.
    pub(crate) const fn lasting(self) -> (&'static str, &'static str) {
        match self {
            Self::Thermal => (
                "throttled_thermal",
                "the device has been too hot for a long time, and does less work than others",
            ),
            Self::PowerBrake => (
                "throttled_power_brake",
                "the power supply has slowed it down for a long time: it does less work than others",
            ),
            Self::Hardware => (
                "throttled_hardware",
                "it has been slowed down for a long time, and the driver does not say why",
            ),
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
/// A device throttles for temperature from this share of the time on, in percent, and does until it is half of it.
const THERMAL_PERCENT: f32 = 5.0;

/// From when until when something was seen, without a long gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LastingSpan {
    since: Timestamp,
    until: Timestamp,
}

impl LastingSpan {
    fn duration(self) -> Duration {
        self.until.since(self.since)
    }

    /// Returns the span after a sample at `at`; `None` if it has ended.
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
    /// What slows it down, each in its place of [`SlowdownCause::ALL`].
    slowdowns: [Option<LastingSpan>; SlowdownCause::ALL.len()],
    empty_load: Option<LastingSpan>,
    /// The most `NVLinks` that were active at one time.
    most_links: u32,
    /// Since when its load keeps its link to the host awake.
    awake_since: Option<Timestamp>,
}

impl Memory {
    /// Returns what is remembered after a sample of a device.
    fn after(
        mut self,
        device: &Device,
        is_empty_load: bool,
        at: Timestamp,
        max_gap: Duration,
    ) -> Self {
        for (cause, span) in SlowdownCause::ALL.into_iter().zip(&mut self.slowdowns) {
            let is_seen = device.fault.is_none() && is_slowed(device, cause, span.is_some());
            *span = LastingSpan::next(*span, is_seen, at, max_gap);
        }
        self.empty_load = LastingSpan::next(self.empty_load, is_empty_load, at, max_gap);
        let links = device.details.as_ref().and_then(|details| details.nvlinks_active.get());
        self.most_links = self.most_links.max(links.unwrap_or_default());
        self.awake_since = is_awake(device).then(|| self.awake_since.unwrap_or(at));
        self
    }
}

/// What is remembered of the devices of a node; devices without anything to remember are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lasting(Arc<BTreeMap<Arc<str>, Memory>>);

impl Lasting {
    /// Returns what has slowed a device down for long, and for how long.
    pub(super) fn slowdowns(&self, uuid: &str) -> impl Iterator<Item = (SlowdownCause, Duration)> {
        let spans = self.0.get(uuid).into_iter().flat_map(|memory| memory.slowdowns);
        SlowdownCause::ALL.into_iter().zip(spans).filter_map(|(cause, span)| {
            let span = span?.duration();
            (span >= cause.min_span()).then_some((cause, span))
        })
    }

    /// Returns how long a device has been at full load without a user, if that is long.
    pub(super) fn empty_load(&self, uuid: &str) -> Option<Duration> {
        let span = self.0.get(uuid)?.empty_load?.duration();
        (span >= EMPTY_LOAD_SPAN).then_some(span)
    }

    /// Returns the most `NVLinks` of a device that were active at one time.
    pub(super) fn most_links(&self, uuid: &str) -> u32 {
        self.0.get(uuid).map_or(0, |memory| memory.most_links)
    }

    /// Returns since when the load of a device keeps its link to the host awake.
    pub(super) fn awake_since(&self, uuid: &str) -> Option<Timestamp> {
        self.0.get(uuid)?.awake_since
    }

    /// Remembers devices as they are at a time, each with whether it is at full load without a user.
    pub(super) fn remember<'a>(
        &mut self,
        devices: impl Iterator<Item = (&'a Device, bool)>,
        at: Timestamp,
        max_gap: Duration,
    ) {
        let mut changed: Vec<(Arc<str>, Memory)> = Vec::new();
        for (device, is_empty_load) in devices {
            let before = self.0.get(&device.uuid).copied().unwrap_or_default();
            let memory = before.after(device, is_empty_load, at, max_gap);
            if memory != before {
                changed.push((Arc::clone(&device.uuid), memory));
            }
        }
        if changed.is_empty() {
            return;
        }
        let known = Arc::make_mut(&mut self.0);
        for (uuid, memory) in changed {
            if memory == Memory::default() {
                known.remove(&uuid);
            } else {
                known.insert(uuid, memory);
            }
        }
    }

    /// Forgets devices.
    pub(super) fn forget(&mut self, devices: &[Arc<str>]) {
        if devices.iter().any(|uuid| self.0.contains_key(uuid)) {
            Arc::make_mut(&mut self.0).retain(|uuid, _| !devices.contains(uuid));
        }
    }

    /// Gives devices other names.
    pub(super) fn renamed(&self, rename: &mut dyn FnMut(&str) -> Arc<str>) -> Self {
        Self(Arc::new(self.0.iter().map(|(uuid, memory)| (rename(uuid), *memory)).collect()))
    }
}

/// From this load on, in percent, and in this performance state or a faster one, the link to the host does not sleep.
const AWAKE_PERCENT: f32 = 50.0;
const AWAKE_STATE: u8 = 2;

/// Returns true if the load of a device keeps its link to the host awake.
pub(super) fn is_awake(device: &Device) -> bool {
    device.load().get().is_some_and(|share| share.get() >= AWAKE_PERCENT)
        && device.performance_state.get().is_none_or(|state| state <= AWAKE_STATE)
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
    // Counters cover the whole time; a sample covers a moment.
    counted.map_or(is_reported, |share| share >= min)
}

/// Returns the share of the time, in percent, that driver and hardware throttled for temperature.
fn thermal_share(rates: &DeviceRates) -> Option<f32> {
    let driver = rates.thermal_throttled.get()?.get();
    Some(driver + rates.hardware_thermal_throttled.get()?.get())
}
