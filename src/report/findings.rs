//! What was wrong with nodes and devices over the span.

use crate::report::counted::{CountedSums, DeviceRecord};
use crate::report::folded_findings::{FindingCause, Sighting, folded};
use crate::report::job_device::{reasons_of, remedy, state_seconds};
use crate::report::labels::{HolderNames, ReportNames};
use crate::report::node_span::NodeSpan;
use crate::report::{FindingKind, FindingSeverity, ReportFinding};
use gtop_collect::sums::DeviceError;
use gtop_fleet::insight::device_flag::is_harmless_xid;
use gtop_fleet::{Health, HealthReason, LastState, advice};

/// Less time is not worth a finding.
pub(super) const MIN_SECONDS: f64 = 60.0;
/// Share of the time of a device or a node from which a finding is worth telling.
const MIN_SHARE: f64 = 0.05;
/// Share of its time from which a job that does nothing is worth telling; each loads data and saves results.
pub(super) const MIN_IDLE_SHARE: f64 = 0.1;

/// Finds what stands out of nodes, of devices, and of users without a job.
pub(super) fn find(
    nodes: &[NodeSpan<'_>],
    counted: &CountedSums<'_>,
    (holders, names): (&[HolderNames], &ReportNames),
) -> Vec<ReportFinding> {
    let mut sightings = Vec::new();
    for node in nodes {
        add_node(&mut sightings, node, names);
        for device in &node.devices {
            add_device(&mut sightings, node, device, names);
        }
        add_errors(&mut sightings, node);
    }
    let mut findings = folded(sightings);
    add_idle_users(&mut findings, counted, holders);
    findings
}

/// Returns device-time: in hours with a digit after the point, or as long as less than one in minutes.
pub(super) fn device_time(seconds: f64) -> String {
    match seconds / 3600.0 {
        hours if hours >= 1.0 => format!("{hours:.1} device-hours"),
        hours => format!("{:.0} device-minutes", hours * 60.0),
    }
}

fn add_idle_users(
    findings: &mut Vec<ReportFinding>,
    counted: &CountedSums<'_>,
    holders: &[HolderNames],
) {
    for (record, names) in counted.holders.records.iter().zip(holders) {
        let idle = record.usage.states.get(LastState::IdleHeld as usize).copied();
        let (idle, held) = (idle.unwrap_or_default(), record.usage.seconds());
        if names.job.is_some() || idle < MIN_SECONDS || idle < held * MIN_IDLE_SHARE {
            continue;
        }
        let text = format!(
            "{}, without a job, held devices that did nothing for {}, of {}",
            names.user,
            device_time(idle),
            device_time(held)
        );
        findings.push(ReportFinding {
            user: Some(names.user.clone()),
            ..ReportFinding::new(FindingKind::IdleHeld, text, advice::device::IDLE_PROCESSES, idle)
        });
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of devices and samples are small")]
fn add_node(sightings: &mut Vec<Sighting>, node: &NodeSpan<'_>, names: &ReportNames) {
    let devices = node.devices.len().max(1) as f64;
    let watched = node.watched.seconds();
    let least = MIN_SECONDS.min(watched).max(watched * 0.01);
    if node.down_seconds > 0.0 && node.down_seconds >= least {
        let reason = node.record.sums.fault.as_deref().map(|fault| names.free_text(fault));
        let cause = FindingCause {
            kind: FindingKind::Down,
            verb: ["did not answer", "did not answer"],
            what: String::new(),
            after: format!(": {}", reason.unwrap_or_default()),
            has_recovered: false,
            remedy: String::new(),
            severity: FindingSeverity::Low,
        };
        sightings.push(Sighting::of_node(cause, node, node.down_seconds, devices));
    }
    let interval = watched / node.expected.max(1.0);
    let heard = node.blind_seconds + node.record.samples as f64 * interval;
    let silent = watched - node.down_seconds - heard;
    add_silent_devices(sightings, node, silent.max(0.0));
    if silent >= MIN_SECONDS && silent >= watched * MIN_SHARE {
        let cause = FindingCause {
            kind: FindingKind::NotSeen,
            verb: ["was connected, and sent nothing", "were connected, and sent nothing"],
            what: String::new(),
            after: String::new(),
            has_recovered: false,
            remedy: advice::source::NOT_SEEN.to_owned(),
            severity: FindingSeverity::Low,
        };
        sightings.push(Sighting::of_node(cause, node, silent, devices));
    }
}

/// Finds devices that gave no values for longer than their node was silent: their driver hung.
fn add_silent_devices(sightings: &mut Vec<Sighting>, node: &NodeSpan<'_>, silent: f64) {
    let fault = node.record.sums.source_fault.as_ref();
    let after = fault.map_or_else(String::new, |(text, _)| format!(": {text}"));
    let remedy = fault.map_or(advice::source::NOT_SEEN, |(_, remedy)| &**remedy);
    let cause = |verb| FindingCause {
        kind: if fault.is_some() { FindingKind::HungDriver } else { FindingKind::NotSeen },
        verb: [verb, verb],
        what: String::new(),
        after: after.clone(),
        has_recovered: false,
        remedy: remedy.to_owned(),
        severity: FindingSeverity::Low,
    };
    if fault.is_some() && node.devices.is_empty() && node.record.samples > 0 {
        sightings.push(Sighting::of_node(cause("showed no devices"), node, 0.0, 0.0));
    }
    for device in &node.devices {
        let unseen = node.unseen_seconds(device);
        let beyond = unseen - silent;
        if beyond >= MIN_SECONDS && beyond >= node.watched_seconds(device) * MIN_SHARE {
            sightings.push(Sighting::of_device(cause("gave no values"), node, device, unseen));
        }
    }
}

fn add_device(
    sightings: &mut Vec<Sighting>,
    node: &NodeSpan<'_>,
    device: &DeviceRecord<'_>,
    names: &ReportNames,
) {
    let faulty = state_seconds(&device.usage, LastState::Faulty);
    let degraded = device.usage.degraded_seconds;
    let throttled = device.usage.throttled_seconds;
    let is_throttled = throttled >= MIN_SECONDS && throttled >= device.usage.seconds() * MIN_SHARE;
    // Of one that is degraded because it throttles, one finding tells.
    let is_told = is_throttled && is_only_slowed(device);
    for (kind, verb, health, seconds) in [
        (FindingKind::Faulty, ["was faulty", "were faulty"], Health::Faulty, faulty),
        (FindingKind::Degraded, ["was degraded", "were degraded"], Health::Degraded, degraded),
    ] {
        if seconds <= 0.0 || (is_told && kind == FindingKind::Degraded) {
            continue;
        }
        // A device that was never only degraded has no finding of its own for what degrades it.
        let other = (health == Health::Faulty && degraded <= 0.0).then_some(Health::Degraded);
        let why = [Some(health), other].into_iter().flatten();
        let why: Vec<String> = why.flat_map(|health| reasons_of(device, health, names)).collect();
        let cause = FindingCause {
            kind,
            verb,
            what: String::new(),
            after: format!(": {}", why.join(", ")),
            has_recovered: has_recovered(device, health),
            remedy: remedy(device, health).to_owned(),
            severity: FindingSeverity::Low,
        };
        sightings.push(Sighting::of_device(cause, node, device, seconds));
    }
    if is_throttled {
        let what = "slowed down by heat, power supply or hardware";
        let cause = FindingCause {
            kind: FindingKind::Throttled,
            verb: ["was", "were"],
            what: format!(" {what}"),
            after: String::new(),
            has_recovered: false,
            remedy: if is_told {
                remedy(device, Health::Degraded)
            } else {
                advice::device::THROTTLED
            }
            .to_owned(),
            severity: FindingSeverity::Low,
        };
        sightings.push(Sighting::of_device(cause, node, device, throttled));
    }
}

/// Returns true if all that ever degraded a device is that it throttled for long.
fn is_only_slowed(device: &DeviceRecord<'_>) -> bool {
    let mut degrading =
        device.reasons.iter().filter(|(_, reason)| reason.health == Health::Degraded).peekable();
    degrading.peek().is_some() && degrading.all(|(id, _)| HealthReason::is_of_slowdown(id))
}

/// Returns true if a device was faulty, or degraded, no longer at last; false if it was, or if that is not known.
fn has_recovered(device: &DeviceRecord<'_>, health: Health) -> bool {
    device.sums.last_health.is_some_and(|(_, last)| last < health && last != Health::Unknown)
}

fn add_errors(sightings: &mut Vec<Sighting>, node: &NodeSpan<'_>) {
    for (error, seconds) in &node.record.sums.errors {
        let device = node.devices.iter().find(|device| *device.uuid() == error.device).copied();
        let is_known = node.record.sums.devices.iter().any(|known| known.uuid == error.device);
        let counted = seconds.iter().filter(|(at, _)| match device {
            Some(device) => device.is_whole || device.held_time.has_second(**at),
            // A device that is known and is not here does not count.
            None => !node.record.is_of_holders && !is_known,
        });
        let times = counted.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        if times == 0 {
            continue;
        }
        let (severity, after, remedy) = weigh_error(error);
        let cause = FindingCause {
            kind: FindingKind::Errors,
            verb: ["reported", "reported"],
            what: format!(" {}", error.text),
            after,
            has_recovered: false,
            remedy: remedy.to_owned(),
            severity,
        };
        let sighting = match device {
            Some(device) => Sighting::of_device(cause, node, device, 0.0),
            None => Sighting::of_node(cause, node, 0.0, 0.0),
        };
        sightings.push(sighting.repeated(times));
    }
}

/// Returns how much an error matters, its meaning, and what to do about it.
fn weigh_error(error: &DeviceError) -> (FindingSeverity, String, &'static str) {
    match error.xid {
        Some(code) if is_harmless_xid(code) => {
            let meaning = format!(": {}", HealthReason::xid_meaning(code));
            (FindingSeverity::Low, meaning, advice::device::of_xid(code))
        }
        Some(_) | None => (FindingSeverity::Medium, String::new(), advice::device::ERRORS),
    }
}
