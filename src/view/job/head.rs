//! Jobs: the one that is looked at, and where none has nodes why, and which wait.

use jiff::tz::TimeZone;

use crate::fleet::Ledger;
use crate::model::{Allocation, Allotment, Job, JobList, NodeName};
use crate::time::Timestamp;
use crate::view::line::{Line, Tone};
use crate::view::number::{age, running};
use crate::view::picture::Picture;

/// Stands in place of the list while no job has nodes: why, what to do, and the jobs that wait.
pub(crate) fn empty(
    picture: &Picture,
    list: &JobList,
    zone: &TimeZone,
    width: u16,
    height: usize,
) -> Vec<Line> {
    let mut lines: Vec<Line> =
        list.emptiness().map(|sentence| Line::of(sentence, Tone::Plain)).into_iter().collect();
    lines.extend(list.notes.iter().map(|note| Line::of(&**note, Tone::Warn)));
    let waiting = list.waiting().count();
    if waiting > 0 {
        let head = Line::new().left("WAITING", 16, Tone::Faint).left("NAME", 24, Tone::Faint);
        let head = head.left("WHY", 28, Tone::Faint).text("EXPECTED", Tone::Faint);
        lines.extend([Line::new(), head]);
    }
    let room = height.saturating_sub(lines.len());
    let shown = if waiting > room { room.saturating_sub(1) } else { waiting };
    lines.extend(list.waiting().take(shown).map(|job| waiting_line(job, picture.now, zone)));
    if waiting > shown && room > 0 {
        lines.push(Line::of(format!("and {} more", waiting - shown), Tone::Faint));
    }
    lines.into_iter().take(height).map(|line| line.cut(width)).collect()
}

fn waiting_line(job: &Job, now: Timestamp, zone: &TimeZone) -> Line {
    let line = Line::new().left(&job.shown_id, 15, Tone::Strong).gap(1);
    let line = line.left(&job.name, 23, Tone::Plain).gap(1);
    let reason = job.reason.as_deref().unwrap_or("–");
    line.left(reason, 27, Tone::Plain).gap(1).text(expected(job, now, zone), Tone::Faint)
}

/// Says when a job is expected to begin.
fn expected(job: &Job, now: Timestamp, zone: &TimeZone) -> String {
    let moment =
        job.starts_at.and_then(|at| jiff::Timestamp::from_microsecond(at.as_micros()).ok());
    let (Some(at), Some(moment)) = (job.starts_at, moment) else {
        return "no expected start".to_owned();
    };
    let clock = moment.to_zoned(zone.clone()).strftime("%a %H:%M").to_string();
    if at <= now {
        format!("{clock}, any moment")
    } else {
        format!("{clock}, in {}", running(at.since(now)))
    }
}

/// The lines above the panel of a job's node: the job, and what it has on this node.
pub(crate) fn head(
    picture: &Picture,
    job: &Job,
    (place, count): (usize, usize),
    node: &NodeName,
    width: u16,
) -> Vec<Line> {
    let left = job.ends_at.map(|end| format!("{} left", running(end.since(picture.now))));
    let own = Line::of(format!("job {}", job.shown_id), Tone::Accent)
        .gap(2)
        .text(&*job.name, Tone::Strong)
        .gap(2)
        .text(format!("{} {} {}", job.user, job.partition, job.state.word()), Tone::Plain)
        .gap(2)
        .text(left.unwrap_or_default(), Tone::Faint);
    let at = job.allocations.iter().position(|one| one.node == *node);
    let nodes = format!("node {} of {}", at.map_or(0, |at| at + 1), job.allocations.len());
    let places = Line::of(format!("job {} of {count}   {nodes}", place + 1), Tone::Faint);
    let has = at.and_then(|at| job.allocations.get(at)).map(|one| has(picture, job, one));
    let second = Line::of(has.unwrap_or_default(), Tone::Plain);
    vec![
        own.cut(width.saturating_sub(places.width() + 2)).against(places, width),
        second.cut(width),
    ]
}

/// Says which devices of a node a job has, and who says so.
fn has(picture: &Picture, job: &Job, allocation: &Allocation) -> String {
    let node = &allocation.node;
    match &allocation.devices {
        Allotment::Nothing => format!("it has no devices on {node}"),
        Allotment::Places(places) => {
            let list: Vec<String> = places.iter().map(ToString::to_string).collect();
            format!("Slurm gave it devices {} of {node}", list.join(","))
        }
        Allotment::Count(count) => {
            format!("Slurm gave it {count} devices of {node}, and does not say which")
        }
        Allotment::Unsaid => match Ledger::of(&picture.fleet).held(job, allocation).devices {
            Some(used) => format!(
                "Slurm does not say its devices; its processes use {} of {node}",
                used.len()
            ),
            None => {
                format!("Slurm does not say its devices of {node}, and no process of it uses one")
            }
        },
    }
}

/// Stands in place of a job that is over.
pub(crate) fn ended(job: &Job, width: u16) -> Vec<Line> {
    let line = Line::of(format!("job {}", job.shown_id), Tone::Accent)
        .gap(2)
        .text(&*job.name, Tone::Strong)
        .gap(2)
        .text("has ended", Tone::Warn);
    vec![line.cut(width), Line::of("↑ ↓ go to another job, o to the fleet", Tone::Faint).cut(width)]
}

/// Says how old the list of jobs is.
pub(crate) fn list_age(list: &JobList, now: Timestamp) -> Option<String> {
    list.at.map(|at| format!("list {} old", age(now.since(at))))
}

/// Says why there is no newer list.
pub(crate) fn list_problem(list: &JobList) -> Option<&str> {
    list.problem.as_ref().map(|problem| &*problem.sentence)
}
