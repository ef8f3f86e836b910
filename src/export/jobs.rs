//! The jobs as text: one job per line, with its devices on each node.

use std::io::{self, Write};

use gtop_fleet::insight::node_status::device_label;
use gtop_fleet::query::DisplaySelection;
use gtop_fleet::{Certainty, Fleet, advice, job_holdings};
use gtop_local::text::counted;
use gtop_local::time::{Timestamp, format_age, format_duration};
use gtop_model::{Allocation, Job, JobState, nodeset};

/// A job on more nodes than this prints a node set instead of its devices per node.
const MAX_LISTED_NODES: usize = 8;
/// Between the parts of a line.
const GAP: &str = "  ";

/// Writes the state of the job list and the jobs, folded to the columns of a terminal; writes nothing when no scheduler is
/// queried.
pub fn write_jobs(
    out: &mut impl Write,
    fleet: &Fleet,
    selection: &DisplaySelection,
    now: Timestamp,
    columns: Option<u16>,
) -> io::Result<()> {
    let Some(list) = fleet.jobs.as_deref() else { return Ok(()) };
    if let Some(sentence) = selection.no_jobs_message(list) {
        writeln!(out, "{sentence}")?;
    }
    if let (Some(problem), Some(at)) = (&list.error, list.at) {
        let age = format_age(now.since(at));
        let why = advice::scheduler::explained(&list.scheduler.words, problem);
        writeln!(out, "the job list is {age} old: {why}")?;
    }
    for note in &list.notes {
        writeln!(out, "{note}")?;
    }
    let width = list.jobs.iter().map(|job| job.shown_id.chars().count()).max().unwrap_or_default();
    for job in &list.jobs {
        let head = format!(
            "job {:<width$}  {:<9} {} {}",
            job.shown_id,
            job.state_text(),
            job.user,
            job.name
        );
        let start = job.starts_at.filter(|start| job.state == JobState::Pending && *start > now);
        let left = job.time_left(now).map(|left| format!("{} left", format_duration(left)));
        let start = start.map(|start| format!("starts in {}", format_duration(start.since(now))));
        let times = [
            job.reason.as_ref().map(ToString::to_string),
            job.elapsed(now).map(|span| format!("for {}", format_duration(span))),
            left.or(start),
        ];
        let parts = times.into_iter().flatten().chain(allocation_texts(job, fleet));
        writeln!(out, "{}", folded(head, parts, columns))?;
    }
    Ok(())
}

/// Appends parts to a line, as many as there is room for; the others stand on further lines, which are indented.
fn folded(head: String, parts: impl Iterator<Item = String>, columns: Option<u16>) -> String {
    let columns = columns.map_or(usize::MAX, usize::from);
    let mut used = head.chars().count();
    let mut text = head;
    for part in parts {
        let part_width = part.chars().count();
        let has_room = used + GAP.len() + part_width <= columns;
        let before = if has_room { GAP.to_owned() } else { format!("\n{GAP}{GAP}") };
        used = if has_room { used + GAP.len() } else { 2 * GAP.len() } + part_width;
        text += &(before + &part);
    }
    text
}

/// Returns the devices of a job on each of its nodes.
fn allocation_texts(job: &Job, fleet: &Fleet) -> Vec<String> {
    if job.allocations.is_empty() {
        return Vec::new();
    }
    if job.allocations.len() > MAX_LISTED_NODES {
        return vec![nodeset::fold(job.allocations.iter().map(|one| one.node.as_str()))];
    }
    let texts = job
        .allocations
        .iter()
        .map(|allocation| format!("{}: {}", allocation.node, devices_text(job, allocation, fleet)));
    texts.collect()
}

/// Returns the devices of a job on a node by the driver's numbers, and how sure they are.
fn devices_text(job: &Job, allocation: &Allocation, fleet: &Fleet) -> String {
    let node = fleet.node(&allocation.node).map(|node| &**node);
    let known = job_holdings(node, job, allocation);
    let labels = node.map(|node| {
        let own = node.devices.iter().filter(|device| known.devices.contains(&device.uuid));
        own.map(|device| device_label(node, device)).collect::<Vec<_>>().join(",")
    });
    let labels = labels.filter(|labels| !labels.is_empty());
    let certainty = match known.certainty {
        Certainty::Likely => ", likely",
        Certainty::Disputed => ", contradicted by processes",
        Certainty::Certain | Certainty::Unknown => "",
    };
    match (labels, known.unplaced) {
        (None, Some(0)) => format!("no devices{certainty}"),
        (None, Some(count)) => {
            let devices = counted(usize::try_from(count).unwrap_or(usize::MAX), "device");
            format!("{devices} (not known which){certainty}")
        }
        (None, None) => "devices unknown".to_owned(),
        (Some(labels), Some(0)) => format!("devices {labels}{certainty}"),
        (Some(labels), Some(count)) => {
            format!("devices {labels} and {count} more (not known which){certainty}")
        }
        (Some(labels), None) => format!("devices {labels} used by processes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_folded_between_its_parts() {
        let line = |columns| {
            let parts = ["for 4h", "gpu01: devices 0,1", "gpu02: device 3"];
            folded("job 7  running".to_owned(), parts.map(str::to_owned).into_iter(), columns)
        };
        assert_eq!(line(None), "job 7  running  for 4h  gpu01: devices 0,1  gpu02: device 3");
        assert_eq!(
            line(Some(42)),
            "job 7  running  for 4h  gpu01: devices 0,1\n    gpu02: device 3"
        );
        assert_eq!(line(Some(10)).lines().count(), 4);
    }

    #[test]
    fn a_disputed_allocation_is_marked() {
        let text = |fleet: &Fleet| {
            let mut out = Vec::new();
            let selection = DisplaySelection::default();
            write_jobs(&mut out, fleet, &selection, Timestamp::default(), None).unwrap();
            String::from_utf8(out).unwrap()
        };
        let matching = text(&Fleet::example_used_by("11"));
        assert!(matching.ends_with("gpu01: devices –\n"), "{matching}");
        let others = text(&Fleet::example_used_by("7"));
        assert!(
            others.ends_with("gpu01: 1 device (not known which), contradicted by processes\n"),
            "{others}"
        );
    }
}
