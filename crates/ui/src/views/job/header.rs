//! The header of the job view: identity, time, distribution of each metric, and findings.

use std::time::Duration;

use crate::display_options::DisplayOptions;
use crate::views::job::metric::ComparedMetric;
use crate::views::job::series::{KEPT_SECONDS, MeanSeries};
use crate::views::job::summary::JobSummary;
use crate::widgets::line::{Line, Tone};
use crate::widgets::number_format::or_unknown;
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::node_status::device_label;
use gtop_fleet::insight::users::IdleDevice;
use gtop_fleet::{ACTIVE_PERCENT, Evidence};
use gtop_local::text::{counted, match_verb, width_of};
use gtop_local::time::{Timestamp, format_age, format_duration};
use gtop_model::{Job, JobState, SchedulerWords};

/// Body heights from which the second line, the distributions, and more findings are shown.
const MIN_HEIGHTS: [usize; 3] = [5, 11, 20];
/// How many idle devices are named.
const MAX_IDLE_NAMES: usize = 3;
/// Width of a number in a distribution.
const NUMBER_WIDTH: u16 = 8;
/// Widest sparkline.
const MAX_POINTS: u16 = 60;

/// Draws the header. `place` is the index of the job among those of the list that have nodes, and their number.
pub(super) fn lines(
    fleet_view: &FleetView,
    display: &DisplayOptions,
    summary: &JobSummary,
    series: &MeanSeries,
    place: (usize, usize),
    (width, height): (u16, usize),
) -> Vec<Line> {
    let words = &fleet_view.fleet.scheduler().words;
    let mut lines = vec![title_line(summary, words, place, width)];
    if height >= MIN_HEIGHTS[0] {
        let mut line = time_line(&summary.job, fleet_view.now, size_line(summary), width);
        for text in resources(summary) {
            let added = Line::styled(" · ", Tone::Faint).text(text, Tone::Plain);
            if line.width() + added.width() <= width {
                line = line.append(added);
            }
        }
        lines.push(line);
    }
    if height >= MIN_HEIGHTS[1] {
        lines.extend(distribution_lines(display, summary, series, width));
    }
    if height >= MIN_HEIGHTS[0] {
        let max_findings = if height >= MIN_HEIGHTS[2] { 3 } else { 1 };
        lines.extend(note_lines(summary, fleet_view, width, max_findings));
    }
    lines
}

fn title_line(
    summary: &JobSummary,
    words: &SchedulerWords,
    (index, count): (usize, usize),
    width: u16,
) -> Line {
    let job = &summary.job;
    let mut line = Line::styled(format!("job {}", job.shown_id), Tone::Accent);
    for (label, text, tone) in [
        ("", &*job.name, Tone::Strong),
        ("", &*job.user, Tone::Plain),
        (words.queue, &*job.partition, Tone::Plain),
        ("account", job.account.as_deref().unwrap_or_default(), Tone::Plain),
    ] {
        if !text.is_empty() {
            let gap = if label.is_empty() { "" } else { " " };
            line = line.gap(2).text(format!("{label}{gap}"), Tone::Faint).text(text, tone);
        }
    }
    line = line.gap(2).text(job.state_text(), Tone::Plain);
    if let Some(reason) = job.reason.as_deref().filter(|reason| !reason.is_empty()) {
        line = line.text(format!(" ({reason})"), Tone::Faint);
    }
    let place = Line::styled(format!("job {} of {count}", index + 1), Tone::Faint);
    line.truncated(width.saturating_sub(place.width() + 2)).with_right(place, width)
}

/// Counts nodes and devices, and names the evidence for the devices.
fn size_line(summary: &JobSummary) -> Line {
    let nodes = counted(summary.rows.len() + summary.hidden, "node");
    let mut line = Line::styled(nodes, Tone::Plain);
    if summary.hidden > 0 {
        line = line.text(format!(" ({} hidden by the filter)", summary.hidden), Tone::Warn);
    }
    line = line.text(" · ", Tone::Faint);
    if let (Some(matching), Some(all)) = (summary.load.matching, summary.load.device_total())
        && matching < all
    {
        let all = counted(all, "device");
        let text = format!("{matching} of {all} {}", match_verb(matching));
        return line.text(text, Tone::Accent);
    }
    let devices = match (summary.devices, summary.slices) {
        (devices, 0) => counted(devices, "device"),
        (0, slices) => counted(slices, "slice"),
        (devices, slices) => {
            format!("{} and {}", counted(devices, "device"), counted(slices, "slice"))
        }
    };
    if summary.evidence == Evidence::default() {
        return line.text("devices unknown", Tone::Faint);
    }
    let line = line.text(devices, Tone::Plain);
    let all = summary.devices + summary.slices;
    let unplaced = usize::try_from(summary.unplaced).unwrap_or(usize::MAX);
    match (summary.evidence.has(Evidence::SCHEDULER), summary.is_listed) {
        (true, _) if unplaced >= all && all > 0 => line.text(" (not known which)", Tone::Warn),
        (true, _) if unplaced > 0 => {
            line.text(format!(" ({unplaced} of them not known)"), Tone::Warn)
        }
        (true, _) if summary.is_likely => line.text(", likely these", Tone::Faint),
        (true, _) => line,
        (false, true) => line.text(" used by its processes", Tone::Faint),
        (false, false) => line.text(", according to its processes", Tone::Faint),
    }
}

/// Returns what the scheduler has set aside for the job, as far as it tells: `64 CPUs` and `400.0 GiB`.
fn resources(summary: &JobSummary) -> impl Iterator<Item = String> {
    let Job { cpus, memory, .. } = summary.job;
    let cpus = cpus.map(|count| counted(usize::try_from(count).unwrap_or(usize::MAX), "CPU"));
    cpus.into_iter().chain(memory.map(|memory| summary.units.amount_with_unit(memory)))
}

/// Draws the elapsed time and the time limit.
fn time_line(job: &Job, now: Timestamp, size_line: Line, width: u16) -> Line {
    let (Some(started_at), Some(elapsed)) = (job.starts_at, job.elapsed(now)) else {
        return size_line.truncated(width);
    };
    // A scheduler may set the end of a completing job to the moment it was cancelled, and has not yet moved that of a
    // suspended one: both are measured against the limit.
    let total = match job.state {
        JobState::Ending | JobState::Suspended | JobState::Ended => job.limit,
        JobState::Running | JobState::Starting | JobState::Pending | JobState::Other => {
            job.ends_at.map(|end| end.since(started_at)).or(job.limit)
        }
    };
    let Some(total) = total.filter(|total| !total.is_zero()) else {
        let text = Line::styled(format!("for {}", format_duration(elapsed)), Tone::Plain);
        return text.gap(3).append(size_line).truncated(width);
    };
    let left = total.saturating_sub(elapsed);
    let elapsed_percent = time_percent(elapsed, total);
    let tone = if elapsed_percent >= 95.0 { Tone::Warn } else { Tone::Mid };
    let bar_width = (width / 5).min(24);
    let text = if left.is_zero() {
        Line::styled("time limit reached", Tone::Warn)
    } else if job.state == JobState::Ending {
        Line::styled("ending before its time limit", Tone::Warn)
    } else {
        Line::styled(format!("{} left", format_duration(left)), Tone::Plain)
    };
    Line::new()
        .bar(Some(elapsed_percent), bar_width, tone)
        .gap(1)
        .text(format!("{} of {}", format_duration(elapsed), format_duration(total)), Tone::Plain)
        .text(" · ", Tone::Faint)
        .append(text)
        .gap(3)
        .append(size_line)
        .truncated(width)
}

fn time_percent(elapsed: Duration, total: Duration) -> f32 {
    (elapsed.as_secs_f32() / total.as_secs_f32() * 100.0).clamp(0.0, 100.0)
}

fn distribution_lines(
    display: &DisplayOptions,
    summary: &JobSummary,
    series: &MeanSeries,
    width: u16,
) -> Vec<Line> {
    let names: Vec<String> =
        ComparedMetric::ALL.iter().filter_map(|metric| worst_outlier(summary, *metric)).collect();
    let name_width = names.iter().map(|name| width_of(name)).max().unwrap_or(0).clamp(7, 24);
    let name_width = if width >= 50 { name_width } else { 0 };
    let front = NUMBER_WIDTH * 4 + if name_width > 0 { name_width + 2 } else { 0 };
    let room = width.saturating_sub(front + 2);
    let points = if room >= 12 { room.min(MAX_POINTS) } else { 0 };
    let (means, seconds_per_point) = series.columns(usize::from(points));
    let mut title = Line::new().gap(NUMBER_WIDTH);
    for label in ["min", "mean", "max"] {
        title = title.right_aligned(label, NUMBER_WIDTH, Tone::Faint);
    }
    if name_width > 0 {
        let label = if names.is_empty() { "" } else { "OUTLIER" };
        title = title.gap(2).left_aligned(label, name_width, Tone::Faint);
    }
    if points > 0 {
        let minutes = (usize::from(points) * seconds_per_point).min(KEPT_SECONDS) / 60;
        let caption = format!("mean, last {minutes} min");
        title = title.gap(2).right_aligned(&caption, points, Tone::Faint);
    }
    let mut lines = vec![title.truncated(width)];
    for (metric, label) in [
        (ComparedMetric::Utilization, " UTIL"),
        (ComparedMetric::Memory, " MEMORY"),
        (ComparedMetric::Power, " POWER"),
    ] {
        let distribution = summary.compared(metric).map(|(distribution, _)| distribution);
        let values = distribution.map(|known| [known.min, known.mean, known.max]);
        let values = values.map_or([None; 3], |values| values.map(Some));
        let [min, mean, max] =
            values.map(|value| or_unknown(value, |value| metric.format(value, summary.units)));
        let mut line = Line::new()
            .left_aligned(label, NUMBER_WIDTH, Tone::Faint)
            .right_aligned(&min, NUMBER_WIDTH, Tone::Plain)
            .right_aligned(&mean, NUMBER_WIDTH, Tone::Strong)
            .right_aligned(&max, NUMBER_WIDTH, Tone::Plain);
        if name_width > 0 {
            let name = worst_outlier(summary, metric).unwrap_or_default();
            line = line.gap(2).left_aligned(&name, name_width, Tone::Warn);
        }
        if points > 0 && metric == ComparedMetric::Utilization {
            let tone = display.load.tone(distribution.map(|distribution| distribution.mean));
            line = line.gap(2).sparkline(means.clone(), tone);
        }
        lines.push(line.truncated(width));
    }
    lines
}

/// Names the furthest outlier and counts the others: `gpu02:3 +1`.
fn worst_outlier(summary: &JobSummary, metric: ComparedMetric) -> Option<String> {
    let (_, outliers) = summary.compared(metric)?;
    let first = outliers.first()?;
    let more = outliers.len() - 1;
    Some(if more > 0 { format!("{first} +{more}") } else { first.clone() })
}

/// Lists excluded nodes, disputed nodes, idle-held devices and findings.
fn note_lines(
    summary: &JobSummary,
    fleet_view: &FleetView,
    width: u16,
    max_findings: usize,
) -> Vec<Line> {
    let mut lines = Vec::new();
    if let Some((count, names)) = &summary.stale {
        let fresh = summary.rows.len() - count;
        let nodes = counted(summary.rows.len(), "node");
        let line = Line::styled(format!("{fresh} of {nodes} fresh"), Tone::Warn);
        let text = format!(" · {names} excluded from min, mean and max");
        lines.push(line.text(text, Tone::Faint).truncated(width));
    }
    if let Some(names) = &summary.disputed {
        let scheduler = fleet_view.fleet.scheduler().words.name;
        let text = format!("processes contradict {scheduler} on {names}");
        let line = Line::styled(text, Tone::Warn);
        let line = line.text(" · showing the devices its processes use", Tone::Faint);
        lines.push(line.truncated(width));
    }
    lines.extend(idle_line(summary, fleet_view).map(|line| line.truncated(width)));
    let count = summary.findings.len();
    let shown = count.min(max_findings);
    for (index, finding) in summary.findings.iter().take(shown).enumerate() {
        let has_more = index + 1 == shown && count > shown;
        let more = if has_more { format!("  +{} more", count - shown) } else { String::new() };
        let more = Line::styled(more, Tone::Faint);
        let line = Line::styled(format!("{} ", finding.device), finding.tone)
            .text(finding.text.as_str(), Tone::Plain);
        let line = line.truncated(width.saturating_sub(more.width()));
        lines.push(line.append(more).truncated(width));
    }
    lines
}

/// Says which devices the job leaves idle and for how long; if no device is busy, since when none has been.
fn idle_line(summary: &JobSummary, fleet_view: &FleetView) -> Option<Line> {
    let (load, now) = (&summary.load, fleet_view.now);
    let none_busy = load.utilization.as_ref().filter(|shares| shares.max < ACTIVE_PERCENT);
    if let Some(shares) = none_busy.filter(|_| summary.findings.is_empty()) {
        let count = shares.count;
        let reporting = if count == load.measured { "" } else { "reporting " };
        let devices = counted(count, &format!("{reporting}device"));
        let text = match load.idle_since() {
            Some((since, is_lower_bound)) => {
                let least = if is_lower_bound { "at least " } else { "" };
                let span = format_age(now.since(since));
                format!("none of its {devices} has been busy for {least}{span}")
            }
            None => format!("none of its {devices} is busy"),
        };
        return Some(Line::styled(format!("idle-held: {text}"), Tone::Warn));
    }
    let count = load.idle_held.len();
    let all = load.device_total().filter(|_| count > 0)?;
    let names = load.idle_held.iter().take(MAX_IDLE_NAMES).filter_map(|idle| {
        let node = fleet_view.fleet.nodes.get(idle.node_index)?;
        let device = device_label(node, node.device(&idle.uuid)?);
        let span = idle_time(idle, now).map(|span| format!(" for {span}")).unwrap_or_default();
        Some(format!("{}:{device}{span}", node.name.label()))
    });
    let names = names.collect::<Vec<_>>().join(", ");
    let more = if count > MAX_IDLE_NAMES { ", …" } else { "" };
    let line =
        Line::styled(format!("idle-held: {count} of {}", counted(all, "device")), Tone::Warn);
    Some(line.text(format!(" · {names}{more}"), Tone::Faint))
}

/// Returns how long a device has been idle, with a `+` if it may be longer; `None` if that is not known.
pub(super) fn idle_time(idle: &IdleDevice, now: Timestamp) -> Option<String> {
    let span = idle.span.as_ref()?;
    let more = if span.is_lower_bound { "+" } else { "" };
    Some(format!("{}{more}", format_age(now.since(span.since))))
}

/// Draws a job that has ended.
pub(super) fn ended_lines(job: &Job, departure: &'static str, width: u16) -> Vec<Line> {
    let mut line = Line::styled(format!("job {}", job.shown_id), Tone::Accent);
    for text in [&*job.name, &*job.user] {
        if !text.is_empty() {
            line = line.gap(2).text(text, Tone::Strong);
        }
    }
    let line = line.gap(2).text(departure, Tone::Warn);
    let hint = Line::styled("↑ ↓ go to another job, o to the fleet", Tone::Faint);
    vec![line.truncated(width), hint.truncated(width)]
}

/// Draws a job whose nodes the filter hides.
pub(super) fn hidden_lines(job: &Job, width: u16) -> Vec<Line> {
    let line = Line::styled(format!("job {}", job.shown_id), Tone::Accent)
        .gap(2)
        .text("none of its nodes match the filter", Tone::Warn)
        .text("  → Esc clears the filter, ↑ ↓ go to another job", Tone::Faint);
    vec![line.truncated(width)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::job::JobIndex;
    use crate::widgets::number_format::Units;
    use gtop_fleet::Fleet;
    use gtop_model::JobId;

    fn time_text(state: JobState, run_time: u64, ends_after: u64, passed: u64) -> String {
        let started_at = Timestamp::from_micros(1_795_403_970_000_000);
        let job = Job {
            state,
            starts_at: Some(started_at),
            ends_at: Some(started_at.plus(Duration::from_secs(ends_after))),
            limit: Some(Duration::from_secs(3600)),
            run_time: Some(Duration::from_secs(run_time)),
            ..Job::example("7")
        };
        let now = started_at.plus(Duration::from_secs(passed));
        time_line(&job, now, Line::new(), 200).plain_text().trim().to_owned()
    }

    #[test]
    fn a_job_reaches_its_time_limit_only_by_its_elapsed_time() {
        for (state, run_time, ends_after, passed, ending) in [
            (JobState::Running, 0, 3600, 600, "50m00s left"),
            (JobState::Running, 0, 3600, 3600, "time limit reached"),
            // Cancelled after ten minutes: the end of the job is moved.
            (JobState::Ending, 600, 600, 605, "ending before its time limit"),
            (JobState::Ending, 3600, 3600, 3605, "time limit reached"),
            (JobState::Suspended, 900, 3600, 3500, "45m00s left"),
            (JobState::Suspended, 900, 3600, 9000, "45m00s left"),
        ] {
            let time_text = time_text(state, run_time, ends_after, passed);
            assert!(time_text.ends_with(ending), "{state:?} {passed}: {time_text}");
        }
    }

    #[test]
    fn nodes_whose_processes_contradict_the_scheduler_are_named() {
        let is_disputed = |job: &str| {
            let fleet_view = FleetView::new(Fleet::example_used_by(job), Timestamp::default());
            let index = JobIndex::build(&fleet_view);
            let entry = index.entry(&JobId::new("11").unwrap()).unwrap();
            let summary = JobSummary::build(&fleet_view, entry, Units::default());
            let lines = note_lines(&summary, &fleet_view, 200, 3);
            lines
                .iter()
                .map(Line::plain_text)
                .any(|line| line.contains("processes contradict ") && line.contains(" on gpu01"))
        };
        assert!(is_disputed("7") && !is_disputed("11"));
    }
}
