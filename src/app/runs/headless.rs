//! Runs without a screen: a line of progress per interval, or one table.

use std::io::{self, Write};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::app::ExitReason;
use crate::app::runs::RunsReader;
use gtop_fleet::insight::runs::Runs;
use gtop_local::time::local_text;
use gtop_model::RunStatus;
use gtop_ui::runs::{REPORT_WIDTH, report};
use gtop_ui::{StopSignals, Theme, render_text};

/// How often the first answers are looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Prints ttop's line each interval: how many runs there are, and in which states.
pub(super) async fn print_progress(
    view: &RunsReader,
    every: Duration,
    out: &mut impl Write,
) -> io::Result<ExitReason> {
    let mut signals = StopSignals::new();
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    wait_for_answers(view, every).await;
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let runs = view.read();
                writeln!(out, "[{}] {}", local_text(view.now()), summary(&runs))?;
                for folder in &runs.list.folders {
                    if let Some(fault) = &folder.fault {
                        writeln!(out, "  {}: {fault}", folder.label)?;
                    }
                }
                out.flush()?;
            }
            reason = signals.next() => return Ok(reason.into()),
        }
    }
}

/// Prints the table once, when all folders have answered, at the latest after the deadline.
pub(super) async fn print_once(
    view: &RunsReader,
    deadline: Duration,
    theme: Theme,
    out: &mut impl Write,
) -> io::Result<ExitReason> {
    let mut signals = StopSignals::new();
    tokio::select! {
        () = wait_for_answers(view, deadline) => {}
        reason = signals.next() => return Ok(reason.into()),
    }
    let runs = view.read();
    let mut folders = runs.list.folders.iter();
    let is_answered = folders.any(|folder| folder.answered_at.is_some() && folder.fault.is_none());
    let fleet = view.fleet.borrow().clone();
    let lines = report(runs, fleet, view.clock.now());
    write!(out, "{}", render_text(&lines, theme, REPORT_WIDTH, false))?;
    Ok(if is_answered { ExitReason::Done } else { ExitReason::NoAnswer })
}

/// Waits until each folder has answered or failed, and the processes of its runs have been looked at.
async fn wait_for_answers(view: &RunsReader, limit: Duration) {
    let waiting = async {
        loop {
            let runs = view.read();
            let is_told = runs
                .list
                .folders
                .iter()
                .all(|folder| folder.answered_at.is_some() || folder.fault.is_some());
            if is_told && runs.rows.iter().all(|row| !row.is_looked_for()) {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    // After that, what is known is shown.
    timeout(limit, waiting).await.ok();
}

fn summary(runs: &Runs) -> String {
    let total = runs.rows.len();
    let counts = RunStatus::ALL.into_iter().filter_map(|status| {
        let count = runs.rows.iter().filter(|row| row.status == status).count();
        (count > 0).then(|| format!("{count} {}", status.as_str().to_lowercase()))
    });
    let counts: Vec<String> = counts.collect();
    let separator = if counts.is_empty() { "" } else { ": " };
    format!("Found {total} training(s){separator}{}", counts.join(", "))
}
