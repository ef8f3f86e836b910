//! The devices of each job: how much each was used while the job had it.

use crate::report::counted::DeviceRecord;
use crate::report::labels::ReportNames;
use crate::report::node_span::NodeSpan;
use gtop_fleet::usage::DeviceUsage;
use gtop_fleet::{Health, LastState};

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
    /// Seconds in which it was active.
    pub active_seconds: f64,
    /// Seconds in which its load was known.
    pub seconds: f64,
    /// Seconds in which no process was on it.
    pub empty_seconds: f64,
    /// Why it was faulty at any time, and what to do.
    pub fault: Option<(String, String)>,
    /// Seconds in which it was faulty.
    pub faulty_seconds: f64,
    /// Seconds in which it was slowed down.
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
            for (number, usage) in &device.by_holder {
                let Some(devices) = by_holder.get_mut(*number) else { continue };
                let load = usage.utilization;
                let faulty_seconds = state_seconds(usage, LastState::Faulty);
                devices.push(JobDevice {
                    node: node.label.clone(),
                    index: device.sums.index,
                    model: device.sums.model.as_deref().map(str::to_owned),
                    load: load.get(),
                    active_seconds: state_seconds(usage, LastState::Busy),
                    seconds: load.seconds,
                    empty_seconds: usage.empty_seconds,
                    fault: (faulty_seconds > 0.0).then(|| fault(device, names)),
                    faulty_seconds,
                    throttled_seconds: usage.throttled_seconds,
                });
            }
        }
    }
    by_holder
}

/// Returns why a device was faulty, and what to do.
fn fault(device: &DeviceRecord<'_>, names: &ReportNames) -> (String, String) {
    let why: Vec<String> = reasons_of(device, Health::Faulty, names).collect();
    (why.join(", "), remedy(device, Health::Faulty).to_owned())
}

/// Returns the seconds in a state.
pub(super) fn state_seconds(usage: &DeviceUsage, state: LastState) -> f64 {
    usage.states.get(state as usize).copied().unwrap_or_default()
}

/// Returns what to do about the first reason why a device was faulty, or degraded.
pub(super) fn remedy<'a>(device: &DeviceRecord<'a>, health: Health) -> &'a str {
    let mut reasons = device.reasons.values();
    reasons.find(|reason| reason.health == health).map_or("", |reason| &reason.remedy)
}

/// Returns why a device was faulty, or degraded.
pub(super) fn reasons_of(
    device: &DeviceRecord<'_>,
    health: Health,
    names: &ReportNames,
) -> impl Iterator<Item = String> {
    let reasons = device.reasons.values().filter(move |reason| reason.health == health);
    reasons.map(|reason| {
        if reason.is_of_driver { names.free_text(&reason.text) } else { reason.text.to_string() }
    })
}
