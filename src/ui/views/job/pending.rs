//! Pending jobs, and what is shown while no job runs.

use jiff::tz::TimeZone;

use crate::insight::FleetView;
use crate::model::{Job, JobList};
use crate::time::Timestamp;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::number_format::format_run_time;

/// Draws the view while no job runs: why, what to do about it, and the pending jobs.
pub(crate) fn lines_without_running_jobs(
    fleet_view: &FleetView,
    list: &JobList,
    zone: &TimeZone,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let mut lines: Vec<Line> = list
        .empty_reason()
        .map(|sentence| Line::styled(sentence, Tone::Plain))
        .into_iter()
        .collect();
    lines.extend(list.notes.iter().map(|note| Line::styled(&**note, Tone::Warn)));
    if list.pending().next().is_some() {
        lines.push(Line::new());
    }
    let room = height.saturating_sub(lines.len());
    lines.extend(self::lines(fleet_view, list, zone, width, room));
    lines.into_iter().take(height).map(|line| line.truncated(width)).collect()
}

/// Draws the pending jobs below a title line; empty if there are none.
pub(crate) fn lines(
    fleet_view: &FleetView,
    list: &JobList,
    zone: &TimeZone,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let pending = list.pending().count();
    if pending == 0 {
        return Vec::new();
    }
    let columns = columns(width);
    let [id, name, reason] = columns;
    let head = Line::new().left_aligned("PENDING", id, Tone::Faint).left_aligned(
        "NAME",
        name,
        Tone::Faint,
    );
    let mut lines =
        vec![head.left_aligned("REASON", reason, Tone::Faint).text("START", Tone::Faint)];
    let room = height.saturating_sub(lines.len());
    let shown = if pending > room { room.saturating_sub(1) } else { pending };
    lines
        .extend(list.pending().take(shown).map(|job| job_line(job, columns, fleet_view.now, zone)));
    if pending > shown && room > 0 {
        lines.push(Line::styled(format!("and {} more", pending - shown), Tone::Faint));
    }
    lines.into_iter().take(height).map(|line| line.truncated(width)).collect()
}

/// Returns the widths of id, name and reason, gaps included, so that the expected start still fits.
const fn columns(width: u16) -> [u16; 3] {
    match width {
        0..70 => [10, 12, 14],
        70..100 => [16, 18, 22],
        _ => [16, 24, 28],
    }
}

fn job_line(
    job: &Job,
    [id, name, reason_width]: [u16; 3],
    now: Timestamp,
    zone: &TimeZone,
) -> Line {
    let line = Line::new().left_aligned(&job.shown_id, id - 1, Tone::Strong).gap(1);
    let line = line.left_aligned(&job.name, name - 1, Tone::Plain).gap(1);
    let reason = job.reason.as_deref().unwrap_or("–");
    line.left_aligned(reason, reason_width - 1, Tone::Plain)
        .gap(1)
        .text(expected_start(job, now, zone), Tone::Faint)
}

/// Formats the expected start of a job.
pub(super) fn expected_start(job: &Job, now: Timestamp, zone: &TimeZone) -> String {
    let moment = job
        .starts_at
        .and_then(|starts_at| jiff::Timestamp::from_microsecond(starts_at.as_micros()).ok());
    let (Some(starts_at), Some(moment)) = (job.starts_at, moment) else {
        return "start unknown".to_owned();
    };
    let clock = moment.to_zoned(zone.clone()).strftime("%a %H:%M").to_string();
    if starts_at <= now {
        format!("{clock}, any moment")
    } else {
        format!("{clock}, in {}", format_run_time(starts_at.since(now)))
    }
}
