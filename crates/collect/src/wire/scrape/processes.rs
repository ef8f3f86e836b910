//! The families of nvitop-exporter about processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::wire::csv::MAX_USES;
use crate::wire::scrape::TICKS_PER_SECOND;
use crate::wire::scrape::page::{
    ScrapedPage, Subject, checked, identity, mebibytes, subjects, whole,
};
use crate::wire::scrape::series::PageSeries;
use gtop_local::text::sanitize_shared;
use gtop_local::time::Timestamp;
use gtop_model::{
    DeviceUse, ProcessKey, ProcessReading, ProcessState, ProcessStatics, ProcessesReading, Reading,
    Reason, UnseenProcess, UnseenReason,
};

/// Maximum length of a command line.
const MAX_COMMAND_LENGTH: usize = 512;
/// Maximum length of a user name.
const MAX_USER_LENGTH: usize = 64;
/// CPU use of a process that uses more cores is wrong.
const MAX_CPU_PERCENT: f64 = 102_400.0;
/// A process that runs for longer is wrong: this is 32 years.
const MAX_RUNNING_SECONDS: u64 = 1_000_000_000;
/// A start that differs by no more is the same: it is computed from two times.
const MAX_START_JITTER: u64 = 3;
/// Families about one process on one device.
pub(super) const USE_FAMILIES: [&str; 5] = [
    "process_gpu_memory_MiB",
    "process_gpu_sm_utilization_Percentage",
    "process_gpu_memory_utilization_Percentage",
    "process_gpu_encoder_utilization_Percentage",
    "process_gpu_decoder_utilization_Percentage",
];
/// Families about one process, which are repeated for each device.
pub(super) const PROCESS_FAMILIES: [&str; 4] = [
    "process_info_info",
    "process_running_time_Second",
    "process_cpu_percent_Percentage",
    "process_rss_memory_MiB",
];

/// When processes started, in seconds after the boot, by pid.
pub(super) type ProcessStarts = BTreeMap<u32, u64>;

fn pid(series: &PageSeries<'_>) -> Option<u32> {
    series.label("pid")?.parse().ok().filter(|pid| *pid > 0)
}

/// Returns what processes use of devices.
pub(super) fn uses(page: &ScrapedPage<'_>) -> Vec<DeviceUse> {
    let (found, _) =
        subjects(page, &USE_FAMILIES, MAX_USES, |series| Some((identity(series)?, pid(series)?)));
    let uses = found.into_iter().map(|((device, pid), subject)| DeviceUse {
        device,
        pid,
        memory: mebibytes(subject.number("process_gpu_memory_MiB")),
        sm: checked(subject.number("process_gpu_sm_utilization_Percentage")),
        memory_utilization: checked(subject.number("process_gpu_memory_utilization_Percentage")),
        encoder: checked(subject.number("process_gpu_encoder_utilization_Percentage")),
        decoder: checked(subject.number("process_gpu_decoder_utilization_Percentage")),
        occupancy: Reading::Unknown(Reason::NotOffered),
        kind: Reading::Unknown(Reason::NotOffered),
        driver_name: None,
    });
    uses.collect()
}

/// Returns the processes. A host that has been up for `uptime` seconds tells when they started; a start that is known stays.
/// Of one that has ended, only the name is known.
pub(super) fn processes(
    page: &ScrapedPage<'_>,
    at: Timestamp,
    uptime: Option<u64>,
    starts: &mut ProcessStarts,
) -> ProcessesReading {
    let known = std::mem::take(starts);
    let (mut list, mut unseen) = (Vec::new(), Vec::new());
    for (pid, subject) in subjects(page, &PROCESS_FAMILIES, MAX_USES, pid).0 {
        let running = running_seconds(subject.number("process_running_time_Second"));
        let has_ended = subject.info.label("status") == Some("terminated");
        if has_ended && running.get().is_none() {
            let statics = statics(subject.info);
            unseen.push(UnseenProcess { pid, why: UnseenReason::Gone, statics });
            continue;
        }
        let start = running.get().zip(uptime).and_then(|(running, up)| up.checked_sub(running));
        let start = start.map(|start| match known.get(&pid) {
            Some(before) if start.abs_diff(*before) <= MAX_START_JITTER => *before,
            _ => start,
        });
        starts.extend(start.map(|start| (pid, start)));
        let start_ticks = start.map(|start| start * u64::from(TICKS_PER_SECOND));
        let start_ticks = start_ticks.unwrap_or(ProcessKey::UNKNOWN_START);
        list.push(reading(ProcessKey { pid, start_ticks }, running, &subject));
    }
    ProcessesReading { at, list, unseen }
}

fn running_seconds(told: Reading<f64>) -> Reading<u64> {
    told.and_then(|seconds| whole(seconds).filter(|seconds| *seconds < MAX_RUNNING_SECONDS))
}

fn reading(
    key: ProcessKey,
    running_seconds: Reading<u64>,
    subject: &Subject<'_>,
) -> ProcessReading {
    let cpu_percent = subject.number("process_cpu_percent_Percentage");
    ProcessReading {
        key,
        cpu_ticks: Reading::Unknown(Reason::NotOffered),
        cpu_percent: cpu_percent.and_then(cpu_share),
        running_seconds,
        resident: mebibytes(subject.number("process_rss_memory_MiB")),
        state: text(subject.info, "status").and_then(|word| state(&word)),
        threads: Reading::Unknown(Reason::NotOffered),
        statics: Some(Arc::new(statics(subject.info))),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked to be small")]
fn cpu_share(percent: f64) -> Option<f32> {
    (0.0..MAX_CPU_PERCENT).contains(&percent).then_some(percent as f32)
}

fn statics(info: &PageSeries<'_>) -> ProcessStatics {
    let unknown = Reason::NotOffered;
    ProcessStatics {
        parent_pid: Reading::Unknown(unknown),
        uid: Reading::Unknown(unknown),
        user: text(info, "username").map(|user| sanitize_shared(&user, MAX_USER_LENGTH)),
        command: text(info, "command").map(|line| sanitize_shared(&line, MAX_COMMAND_LENGTH)),
        directory: Reading::Unknown(unknown),
        ..ProcessStatics::default()
    }
}

/// Returns the text of a label, which is `N/A` where it is not available.
fn text(info: &PageSeries<'_>, label: &str) -> Reading<String> {
    match info.label(label) {
        None => Reading::Unknown(Reason::NotOffered),
        Some("N/A" | "No Such Process") => Reading::Unknown(Reason::NotAvailable),
        Some(text) => Reading::Known(text.to_owned()),
    }
}

/// Returns the state that a word of psutil means.
fn state(word: &str) -> Option<ProcessState> {
    Some(match word {
        "running" => ProcessState::Running,
        "sleeping" => ProcessState::Sleeping,
        "disk-sleep" => ProcessState::Waiting,
        "stopped" => ProcessState::Stopped,
        "tracing-stop" => ProcessState::Traced,
        "zombie" => ProcessState::Zombie,
        "dead" => ProcessState::Dead,
        "idle" | "parked" | "wake-kill" | "waking" => ProcessState::Idle,
        _ => return None,
    })
}
