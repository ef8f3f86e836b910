//! The devices of each job: how much each was used while the job had it.

use crate::report::device_record::DeviceRecord;
use crate::report::labels::ReportNames;
use crate::report::node_span::NodeSpan;
use gtop_fleet::{Health, HealthReason, LastState, advice};

/// A device that a job had for a shorter time may have been another's.
const MIN_UNUSED_SECONDS: f64 = 60.0;

/// A device while a job had it.
#[derive(Clone, Debug, Default)]
pub struct JobDevice {
    /// The name of its node.
    pub node: String,
    /// The index that the driver gives it.
    pub index: Option<u32>,
    /// Its model.
    pub model: Option<String>,
    /// Its mean load in percent; `None` if it did not report one.
    pub load: Option<f64>,
    /// Seconds in which it was active, at most.
    pub active_seconds: f64,
    /// Seconds in which its load was known.
    pub seconds: f64,
    /// Why it was faulty at any time, and what to do.
    pub fault: Option<(String, &'static str)>,
    /// Seconds in which it was faulty, also under others.
    pub faulty_seconds: f64,
    /// Seconds in which it was slowed down, also under others.
    pub throttled_seconds: f64,
}

impl JobDevice {
    /// Returns its name.
    pub fn name(&self) -> String {
        device_name(&self.node, self.index)
    }

    /// Returns true if it was seen for a while and never active.
    pub fn is_unused(&self) -> bool {
        self.seconds >= MIN_UNUSED_SECONDS && self.active_seconds <= 0.0
    }
}

/// Returns the name of a device: its node and its index.
pub(super) fn device_name(node: &str, index: Option<u32>) -> String {
    index.map_or_else(|| format!("{node} device"), |index| format!("{node} #{index}"))
}

/// Returns the devices of each holder, by its number.
pub(super) fn devices_by_holder(
    nodes: &[NodeSpan<'_>],
    holders: usize,
    names: &ReportNames,
) -> Vec<Vec<JobDevice>> {
    let mut by_holder = vec![Vec::new(); holders];
    for node in nodes {
        for device in node.devices.iter().copied() {
            for (number, load) in &device.by_holder {
                let Some(devices) = by_holder.get_mut(*number) else { continue };
                let active = state_seconds(device, LastState::Busy).min(load.seconds);
                devices.push(JobDevice {
                    node: node.label.clone(),
                    index: device.index,
                    model: device.model.as_deref().map(str::to_owned),
                    load: load.get(),
                    // What it did under others may count, too, unless it did nothing under this holder.
                    active_seconds: if load.sum > 0.0 { active } else { 0.0 },
                    seconds: load.seconds,
                    fault: fault(device, names),
                    faulty_seconds: state_seconds(device, LastState::Faulty),
                    throttled_seconds: device.usage.throttled_seconds,
                });
            }
        }
    }
    by_holder
}

/// Returns why a device was faulty, and what to do.
fn fault(device: &DeviceRecord, names: &ReportNames) -> Option<(String, &'static str)> {
    if state_seconds(device, LastState::Faulty) <= 0.0 {
        return None;
    }
    let why: Vec<String> = reasons_of(device, Health::Faulty, names).collect();
    Some((why.join(", "), remedy(device, Health::Faulty)))
}

/// Returns the seconds that a device was in a state.
pub(super) fn state_seconds(device: &DeviceRecord, state: LastState) -> f64 {
    device.usage.states.get(state as usize).copied().unwrap_or_default()
}

/// Returns what to do about the first reason why a device was faulty, or degraded.
pub(super) fn remedy(device: &DeviceRecord, health: Health) -> &'static str {
    let mut reasons = device.health_reasons.values();
    let reason = reasons.find(|reason| reason.health() == health);
    reason.map_or("", advice::device::of_health)
}

/// Returns why a device was faulty, or degraded.
pub(super) fn reasons_of(
    device: &DeviceRecord,
    health: Health,
    names: &ReportNames,
) -> impl Iterator<Item = String> {
    let reasons = device.health_reasons.values().filter(move |reason| reason.health() == health);
    reasons.map(|reason| {
        let HealthReason::Driver(words) = reason else { return reason.text() };
        if words.is_empty() { reason.text() } else { names.free_text(words) }
    })
}
