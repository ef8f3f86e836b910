//! The lines above the table of runs: how many there are, what the login uses, and faults of folders.

use std::time::Duration;

use crate::render_context::{RenderContext, Size};
use crate::widgets::line::{Line, Tone};
use gtop_fleet::insight::runs::Runs;
use gtop_local::text::counted;
use gtop_local::time::{Timestamp, format_age};
use gtop_model::{Bytes, RunFolder, RunStatus};

/// A folder that has not answered for this long is shown as old.
const OLD_AFTER: Duration = Duration::from_secs(15);

/// Returns the lines, at most a third of the height.
pub(super) fn lines(
    context: RenderContext<'_>,
    runs: &Runs,
    filter: Option<String>,
    (width, height): Size,
) -> Vec<Line> {
    if height < 6 {
        return Vec::new();
    }
    let mut lines = vec![counts(runs, filter), resources(context, runs)];
    lines.extend(folder_faults(context, runs));
    lines.truncate(height / 3);
    lines.into_iter().map(|line| line.truncated(width)).collect()
}

fn counts(runs: &Runs, filter: Option<String>) -> Line {
    let total = runs.rows.len();
    let mut line = Line::styled(counted(total, "run"), Tone::Strong);
    for status in RunStatus::ALL {
        let count = runs.rows.iter().filter(|row| row.status == status).count();
        if count > 0 {
            let tone = match status {
                RunStatus::Failed | RunStatus::Killed => Tone::Bad,
                RunStatus::Running => Tone::Low,
                RunStatus::Finished | RunStatus::Canceled | RunStatus::Unknown => Tone::Plain,
            };
            let text = format!(" · {count} {}", status.as_str().to_lowercase());
            line = line.text(text, tone);
        }
    }
    let stalled = runs.rows.iter().filter(|row| row.stalled_since.is_some()).count();
    if stalled > 0 {
        line = line.text(format!(" · {stalled} stalled"), Tone::Warn);
    }
    let unread: usize = runs.list.folders.iter().map(|folder| folder.total).sum();
    if unread > total {
        line = line.text(format!(" · {} more not read", unread - total), Tone::Warn);
    }
    match filter {
        Some(filter) => line.text(format!("   only {filter}"), Tone::Accent),
        None => line,
    }
}

/// Returns what all processes of the login use on the hosts with running runs; `--max-…` sets what it is compared with.
fn resources(context: RenderContext<'_>, runs: &Runs) -> Line {
    let limits = &runs.list.limits;
    let units = context.options.units();
    let mut hosts = 0_usize;
    let (mut cpu, mut cpus, mut resident, mut memory) = (Some(0.0), 0_u32, 0_u64, 0_u64);
    for user in runs.user_resources() {
        hosts += 1;
        cpu = cpu.zip(user.cpu_percent).map(|(sum, one): (f64, f64)| sum + one);
        cpus = cpus.saturating_add(user.cpus);
        resident = resident.saturating_add(user.resident.0);
        memory = memory.saturating_add(user.memory.0);
    }
    if hosts == 0 {
        return Line::styled("no processes are watched", Tone::Faint);
    }
    let cpus = limits.cpus.unwrap_or_else(|| f64::from(cpus));
    let memory = limits.ram.unwrap_or(Bytes(memory));
    let (gpu, gpu_total) = runs.device_memory();
    let gpu_total = limits.gpu.unwrap_or(gpu_total);
    let mut line = Line::styled("your processes  ", Tone::Faint).text("CPU ", Tone::Faint);
    line = match cpu {
        Some(cpu) => line
            .text(format!("{cpu:.0}%"), Tone::Plain)
            .text(format!(" of {cpus} CPUs{}", share(cpu, cpus * 100.0)), Tone::Faint),
        None => line.text("–", Tone::Faint),
    };
    line = line
        .text("  RAM ", Tone::Faint)
        .text(units.amount(Bytes(resident)), Tone::Plain)
        .text(format!("/{}{}", units.amount(memory), share_of(resident, memory)), Tone::Faint);
    if gpu_total.0 > 0 {
        let total = format!("/{}{}", units.amount(gpu_total), share_of(gpu.0, gpu_total));
        line = line.text("  GPU ", Tone::Faint).text(units.amount(gpu), Tone::Plain);
        line = line.text(total, Tone::Faint);
    }
    if hosts > 1 { line.text(format!("  on {hosts} hosts"), Tone::Faint) } else { line }
}

fn share(part: f64, total: f64) -> String {
    if total > 0.0 { format!(" ({:.0}%)", part / total * 100.0) } else { String::new() }
}

#[expect(clippy::cast_precision_loss, reason = "a percentage is shown")]
fn share_of(part: u64, total: Bytes) -> String {
    share(part as f64, total.0 as f64)
}

/// Returns true if a folder has not answered for a while.
pub(super) fn is_old(folder: &RunFolder, now: Timestamp) -> bool {
    folder.answered_at.is_some_and(|at| now.since(at) >= OLD_AFTER)
}

fn folder_faults(context: RenderContext<'_>, runs: &Runs) -> Vec<Line> {
    let now = context.view.now;
    let faults = runs.list.folders.iter().filter_map(|folder| {
        let age = folder.answered_at.filter(|_| is_old(folder, now)).map(|at| now.since(at));
        let old = age.map(format_age);
        let text = match (&folder.fault, old) {
            (Some(fault), Some(age)) => format!("{fault}; values from {age} ago"),
            (Some(fault), None) => fault.to_string(),
            (None, Some(age)) => format!("does not answer; values from {age} ago"),
            (None, None) => return None,
        };
        Some(Line::styled(format!("{}: ", folder.label), Tone::Strong).text(text, Tone::Warn))
    });
    faults.collect()
}
