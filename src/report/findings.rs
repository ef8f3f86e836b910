//! What was wrong or wasteful over the span, the worst first.

use std::time::Duration;

use crate::report::collected_node::DeviceError;
use crate::report::collector::UsageCollector;
use crate::report::device_record::DeviceRecord;
use crate::report::labels::{HolderNames, ReportNames};
use crate::report::node_span::NodeSpan;
use crate::report::scope::ReportScope;
use crate::report::{FindingKind, FindingSeverity, ReportFinding};
use gtop_fleet::insight::device_flag::is_harmless_xid;
use gtop_fleet::usage::{DeviceUsage, TimedMean};
use gtop_fleet::{Health, HealthReason, LastState, advice};
use gtop_local::time::format_duration;

/// Findings of a report.
const MAX_FINDINGS: usize = 60;
/// Shares of all watched device-time from which a finding is of medium and of high severity.
const MEDIUM_SHARE: f64 = 0.01;
const HIGH_SHARE: f64 = 0.05;
/// Less time is not worth a finding.
const MIN_SECONDS: f64 = 60.0;
/// Share of the time of a job, a device or a node from which a finding is worth telling.
const MIN_SHARE: f64 = 0.05;
/// Share of its time from which a job that does nothing is worth telling; each loads data and saves results.
const MIN_IDLE_SHARE: f64 = 0.1;
/// Percentage points below the median of a job from which a device is uneven.
const UNEVEN_POINTS: f64 = 20.0;
/// A job whose median is lower is idle rather than uneven.
const MIN_MEDIAN: f64 = 30.0;

/// Finds what stands out.
pub(super) fn find(
    nodes: &[NodeSpan<'_>],
    collector: &UsageCollector,
    scope: &ReportScope,
    (holders, names): (&[HolderNames], &ReportNames),
) -> Vec<ReportFinding> {
    let mut findings = Vec::new();
    add_idle_holders(&mut findings, collector, holders);
    for node in nodes {
        add_node(&mut findings, node, names);
        for device in &node.devices {
            add_device(&mut findings, node, device, names);
        }
        add_errors(&mut findings, node, scope);
    }
    add_uneven(&mut findings, nodes, holders);
    let usages = nodes.iter().flat_map(|node| &node.devices).map(|device| &device.usage);
    let all: f64 = usages.map(DeviceUsage::seconds).sum();
    for finding in &mut findings {
        let share = finding.device_seconds / all.max(1.0);
        let by_time = match share {
            share if share >= HIGH_SHARE => FindingSeverity::High,
            share if share >= MEDIUM_SHARE => FindingSeverity::Medium,
            _ => FindingSeverity::Low,
        };
        finding.severity = finding.severity.max(by_time);
    }
    findings.sort_by(|one, other| {
        let by_severity = other.severity.cmp(&one.severity);
        by_severity.then(other.device_seconds.total_cmp(&one.device_seconds))
    });
    findings.truncate(MAX_FINDINGS);
    findings
}

fn finding(kind: FindingKind, text: String, remedy: &str, device_seconds: f64) -> ReportFinding {
    ReportFinding {
        kind,
        severity: FindingSeverity::Low,
        text,
        node: None,
        device: None,
        job: None,
        user: None,
        device_seconds,
        remedy: remedy.to_owned(),
    }
}

/// Returns device-time: in hours with a digit after the point, or as long as less than one in minutes.
fn device_time(seconds: f64) -> String {
    match seconds / 3600.0 {
        hours if hours >= 1.0 => format!("{hours:.1} device-hours"),
        hours => format!("{:.0} device-minutes", hours * 60.0),
    }
}

fn span_text(seconds: f64) -> String {
    format_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

fn add_idle_holders(
    findings: &mut Vec<ReportFinding>,
    collector: &UsageCollector,
    holders: &[HolderNames],
) {
    for (record, names) in collector.holders.records.iter().zip(holders) {
        let idle = record.usage.states.get(LastState::IdleHeld as usize).copied();
        let (idle, held) = (idle.unwrap_or_default(), record.usage.seconds());
        if idle < MIN_SECONDS || idle < held * MIN_IDLE_SHARE {
            continue;
        }
        let user = &names.user;
        let who = match &names.job {
            Some((id, name)) => format!("job {id} {name} of {user}"),
            None => format!("{user}, without a job,"),
        };
        let text = format!(
            "{who} held devices that did nothing for {}, of {}",
            device_time(idle),
            device_time(held)
        );
        let remedy = if names.job.is_some() {
            advice::device::IDLE_JOB
        } else {
            advice::device::IDLE_PROCESSES
        };
        findings.push(ReportFinding {
            job: names.job.as_ref().map(|(id, _)| id.clone()),
            user: Some(user.clone()),
            ..finding(FindingKind::IdleHeld, text, remedy, idle)
        });
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of devices and samples are small")]
fn add_node(findings: &mut Vec<ReportFinding>, node: &NodeSpan<'_>, names: &ReportNames) {
    let label = &node.label;
    let devices = node.devices.len().max(1) as f64;
    let watched = node.watched.seconds();
    let least = MIN_SECONDS.min(watched).max(watched * 0.01);
    if node.down_seconds > 0.0 && node.down_seconds >= least {
        let reason = node.record.fault.as_deref().map(|fault| names.free_text(fault));
        let text = format!(
            "{label} did not answer for {}: {}",
            span_text(node.down_seconds),
            reason.unwrap_or_default()
        );
        let remedy = advice::source::examine(label);
        findings.push(ReportFinding {
            node: Some(label.clone()),
            ..finding(FindingKind::Down, text, &remedy, node.down_seconds * devices)
        });
    }
    let interval = watched / node.expected.max(1.0);
    let heard = node.blind_seconds + node.record.samples as f64 * interval;
    let silent = watched - node.down_seconds - heard;
    add_silent_devices(findings, node, silent.max(0.0));
    if silent >= MIN_SECONDS && silent >= watched * MIN_SHARE {
        let text = format!("{label} was connected, and sent nothing for {}", span_text(silent));
        findings.push(ReportFinding {
            node: Some(label.clone()),
            ..finding(FindingKind::NotSeen, text, advice::source::NOT_SEEN, silent * devices)
        });
    }
}

/// Finds devices that gave no values for longer than their node was silent: their driver hung.
fn add_silent_devices(findings: &mut Vec<ReportFinding>, node: &NodeSpan<'_>, silent: f64) {
    let label = &node.label;
    let unseen = node.devices.iter().map(|device| node.unseen_seconds(device));
    let unseen: Vec<f64> = unseen
        .zip(&node.devices)
        .filter(|(seconds, device)| {
            let beyond = seconds - silent;
            beyond >= MIN_SECONDS && beyond >= node.watched_seconds(device) * MIN_SHARE
        })
        .map(|(seconds, _)| seconds)
        .collect();
    let fault = node.record.source_fault.as_ref();
    let longest = unseen.iter().copied().fold(0.0, f64::max);
    let what = match (unseen.len(), fault) {
        (0, Some(_)) if node.devices.is_empty() && node.record.samples > 0 => {
            "no devices were seen".to_owned()
        }
        (0, _) => return,
        (1, _) => format!("a device gave no values for {}", span_text(longest)),
        (count, _) => format!("{count} devices gave no values for up to {}", span_text(longest)),
    };
    let why =
        fault.map_or_else(String::new, |(source, kind)| format!(": {}", kind.text(source, None)));
    let remedy =
        fault.map_or(advice::source::NOT_SEEN, |(_, kind)| advice::source::of_source(*kind));
    findings.push(ReportFinding {
        node: Some(label.clone()),
        severity: FindingSeverity::Medium,
        ..finding(
            FindingKind::NotSeen,
            format!("{label}: {what}{why}"),
            remedy,
            unseen.iter().sum(),
        )
    });
}

fn device_text(node: &NodeSpan<'_>, device: &DeviceRecord) -> String {
    let number = device.index.map_or_else(|| "device".to_owned(), |index| format!("#{index}"));
    format!("{} {number}", node.label)
}

fn add_device(
    findings: &mut Vec<ReportFinding>,
    node: &NodeSpan<'_>,
    device: &DeviceRecord,
    names: &ReportNames,
) {
    let name = device_text(node, device);
    let first = findings.len();
    let faulty = device.usage.states.get(LastState::Faulty as usize).copied().unwrap_or_default();
    let degraded = device.usage.degraded_seconds;
    for (kind, health, severity, seconds) in [
        (FindingKind::Faulty, Health::Faulty, FindingSeverity::Medium, faulty),
        (FindingKind::Degraded, Health::Degraded, FindingSeverity::Low, degraded),
    ] {
        if seconds <= 0.0 {
            continue;
        }
        // A device that was never only degraded has no finding of its own for what degrades it.
        let other = (health == Health::Faulty && degraded <= 0.0).then_some(Health::Degraded);
        let why = [Some(health), other].into_iter().flatten();
        let why: Vec<String> = why.flat_map(|health| reasons_of(device, health, names)).collect();
        let (why, end) = (why.join(", "), end_text(device, health));
        let text = format!("{name} was {} for {}: {why}{end}", kind.as_str(), span_text(seconds));
        let of_kind = finding(kind, text, remedy(device, health), seconds);
        findings.push(ReportFinding { severity, ..of_kind });
    }
    let throttled = device.usage.throttled_seconds;
    if throttled >= MIN_SECONDS && throttled >= device.usage.seconds() * MIN_SHARE {
        let text = format!(
            "{name} was slowed down by heat, its power supply or its hardware for {}",
            span_text(throttled)
        );
        let remedy = advice::device::THROTTLED;
        findings.push(finding(FindingKind::Throttled, text, remedy, throttled));
    }
    for finding in findings.iter_mut().skip(first) {
        (finding.node, finding.device) = (Some(node.label.clone()), device.index);
    }
}

/// Returns what to do about the first reason why a device was faulty, or degraded.
fn remedy(device: &DeviceRecord, health: Health) -> &'static str {
    let mut reasons = device.health_reasons.values();
    let reason = reasons.find(|reason| reason.health() == health);
    reason.map_or("", advice::device::of_health)
}

/// Returns why a device was faulty, or degraded.
fn reasons_of(
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

/// Returns that a device was faulty, or degraded, no longer at last; empty if it was, or if that is not known.
fn end_text(device: &DeviceRecord, health: Health) -> &'static str {
    match device.last_health {
        Some((_, last)) if last < health && last != Health::Unknown => "; it has recovered",
        Some(_) | None => "",
    }
}

fn add_errors(findings: &mut Vec<ReportFinding>, node: &NodeSpan<'_>, scope: &ReportScope) {
    for (error, seconds) in &node.record.errors {
        let device = node.devices.iter().find(|device| device.uuid == error.device).copied();
        let counted = seconds.iter().filter(|(at, _)| {
            !scope.filter.is_of_holders()
                || device.is_some_and(|device| device.held_time.has_second(**at))
        });
        let times = counted.fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
        let name = match device {
            Some(device) => device_text(node, device),
            None => node.label.clone(),
        };
        let times = match times {
            0 => continue,
            1 => "once".to_owned(),
            2 => "twice".to_owned(),
            count => format!("{count} times"),
        };
        let (severity, meaning, remedy) = weigh_error(error);
        let text = format!("{name} reported {}, {times}{meaning}", error.text);
        findings.push(ReportFinding {
            node: Some(node.label.clone()),
            device: device.and_then(|device| device.index),
            severity,
            ..finding(FindingKind::Errors, text, remedy, 0.0)
        });
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

/// Finds devices that did less than the others of their job.
fn add_uneven(findings: &mut Vec<ReportFinding>, nodes: &[NodeSpan<'_>], holders: &[HolderNames]) {
    type OfJob<'a> = Vec<(&'a NodeSpan<'a>, &'a DeviceRecord, TimedMean)>;
    let mut by_holder: Vec<OfJob<'_>> = vec![Vec::new(); holders.len()];
    for node in nodes {
        for device in node.devices.iter().copied() {
            for (number, mean) in &device.by_holder {
                if let Some(of_job) = by_holder.get_mut(*number) {
                    of_job.push((node, device, *mean));
                }
            }
        }
    }
    for (devices, names) in by_holder.iter().zip(holders) {
        let Some((id, _)) = &names.job else { continue };
        let mut known: Vec<f64> = devices.iter().filter_map(|(_, _, mean)| mean.get()).collect();
        known.sort_by(f64::total_cmp);
        let longest = devices.iter().map(|(_, _, mean)| mean.seconds).fold(0.0, f64::max);
        let Some(median) = known.get(known.len() / 2).filter(|_| known.len() > 2) else { continue };
        if *median < MIN_MEDIAN {
            continue;
        }
        for (node, device, mean) in devices {
            let is_low = mean.get().is_some_and(|percent| percent < median - UNEVEN_POINTS);
            if !is_low || mean.seconds < MIN_SECONDS || mean.seconds < longest / 2.0 {
                continue;
            }
            let text = format!(
                "{} of job {id} was used {:.0} %, its other devices {median:.0} %",
                device_text(node, device),
                mean.get().unwrap_or_default(),
            );
            let lost = mean.seconds * (median - mean.get().unwrap_or_default()) / 100.0;
            findings.push(ReportFinding {
                node: Some(node.label.clone()),
                device: device.index,
                job: Some(id.clone()),
                user: Some(names.user.clone()),
                ..finding(FindingKind::Uneven, text, advice::device::UNEVEN, lost)
            });
        }
    }
}
