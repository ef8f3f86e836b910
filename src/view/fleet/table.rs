//! The node list: one line a node, in columns that never move; a line for the head of each group.

use std::collections::BTreeMap;

use crate::fleet::{Metric, Node, Totals};
use crate::model::{JobId, NodeName, Percent, Watts};
use crate::time::Timestamp;
use crate::view::Scene;
use crate::view::condition::{Note, Standing, remedy};
use crate::view::fleet::Place;
use crate::view::fleet::cell::{Old, Quantity};
use crate::view::fleet::claim::Claims;
use crate::view::fleet::column::{degrees, hottest, plain};
use crate::view::fleet::head;
use crate::view::fleet::layout::{Columns, MARK, TRACK};
use crate::view::fleet::plan::{Member, Row};
use crate::view::fleet::remark::remarks;
use crate::view::input::Click;
use crate::view::line::{Line, Mark, Tone, UNKNOWN, width_of};
use crate::view::navigation::Window;
use crate::view::number::{age, memory_pair, or_unknown, percent, share};
use crate::view::picture::Picture;

/// A note this wide can say why a node is down beside its last numbers.
const WIDE_NOTE: u16 = 40;
/// Beyond so many rows, tracks move only every few seconds.
const CALM_ROWS: usize = 24;

/// The tracks that were drawn last, node by node: the step they end with, and their points.
pub(super) type Tracks = BTreeMap<NodeName, (i64, Vec<Option<f32>>)>;

/// Returns the title line and the rows in sight; `at` is the row one is on.
pub(super) fn lines(
    scene: Scene<'_>,
    place: &mut Place,
    window: &mut Window,
    at: usize,
    (width, height): (u16, usize),
) -> Vec<Line> {
    let columns = Columns::fit(scene.picture, width);
    let count = place.plan.rows.len();
    let has_title = height > 1;
    let rows = height.saturating_sub(usize::from(has_title));
    window.settle(rows, count, Some(at));
    place.cells.settle(scene.picture, Quantity::Utilization, Old::AsTheyWere);
    place.tracks.retain(|_, (step, _)| *step >= step_of(scene.picture.now) - 1);
    let mut lines = Vec::with_capacity(height);
    if has_title {
        lines.push(columns.titles(place.order).cut(width));
    }
    for row in window.range(count) {
        let line = match place.plan.rows.get(row).copied() {
            Some(Row::Head(group)) => head::row(scene, place, group, &columns),
            Some(Row::Node(group, member)) => {
                let found = place.plan.member(&scene.picture.fleet, group, member);
                let Some((member, node)) = found.map(|(member, node)| (member.clone(), node))
                else {
                    continue;
                };
                self::row(scene, place, (&member, node), &columns)
            }
            None => continue,
        };
        lines.push(line.cut(width).selected(row == at).click(Click::Row(row)));
    }
    lines
}

fn row(
    scene: Scene<'_>,
    place: &mut Place,
    (member, node): (&Member, &Node),
    columns: &Columns,
) -> Line {
    let picture = scene.picture;
    let standing = Standing::of(node, picture.now);
    let claims = place.roll.claims(node);
    let notes = remarks(picture, node, member, &claims);
    let front = mark(standing, &notes).left(node.name.as_str(), columns.name, name_tone(standing));
    let Some(taken_at) = node.taken_at() else {
        // Nothing is known: the reason has all the room.
        return front.gap(columns.gap).then(said(&notes));
    };
    let span = age(picture.now.since(taken_at));
    let owners = owners(scene, place, (member, node), &claims, columns);
    if standing == Standing::Down && columns.note < WIDE_NOTE {
        let last = Line::of(format!(" · last {span} ago"), Tone::Faint);
        let owners = owners.faded().gap(columns.gap);
        return front.then(owners).then(said(&notes)).then(last);
    }
    let totals = Totals::of_part(node, member.devices.as_deref());
    let track = track(place, node, picture.now, columns);
    let numbers = owners.then(numbers(scene, &totals, columns, track));
    let numbers = numbers.then(machine(scene, node, member, columns));
    let numbers = if standing.is_fresh() { numbers } else { numbers.faded() };
    let age_tone = if standing.is_fresh() { Tone::Faint } else { Tone::Warn };
    let mut line = front.then(numbers);
    if columns.age > 0 {
        line = line.gap(columns.gap).right(&span, columns.age, age_tone);
    }
    if columns.note > 0 { line.gap(columns.gap).then(said(&notes)) } else { line }
}

fn name_tone(standing: Standing) -> Tone {
    match standing {
        Standing::Fresh => Tone::Plain,
        Standing::Down | Standing::Stale(_) => Tone::Strong,
        Standing::Waiting | Standing::Opening(_) | Standing::Starting => Tone::Faint,
    }
}

/// What is worst about a node, in one column.
fn mark(standing: Standing, notes: &[Note]) -> Line {
    let worst = notes.iter().map(|(_, tone)| *tone).max().unwrap_or_default();
    let (sign, tone) = match (standing, worst) {
        (Standing::Down, _) => ("✗", Tone::Bad),
        (_, Tone::Bad) => ("!", Tone::Bad),
        (_, Tone::Warn) => ("!", Tone::Warn),
        (Standing::Waiting | Standing::Opening(_) | Standing::Starting, _) => ("·", Tone::Faint),
        _ => (" ", Tone::Plain),
    };
    Line::of(sign, tone).gap(MARK - 1)
}

/// Writes what is to be said, one after another.
pub(super) fn said(notes: &[Note]) -> Line {
    let mut line = Line::new();
    for (place, (words, tone)) in notes.iter().enumerate() {
        if place > 0 {
            line = line.text(" · ", Tone::Faint);
        }
        line = line.text(words.as_str(), *tone);
    }
    line
}

/// Shows whose jobs run on which devices.
fn owners(
    scene: Scene<'_>,
    place: &mut Place,
    (member, node): (&Member, &Node),
    claims: &Claims,
    columns: &Columns,
) -> Line {
    let Columns { gap, .. } = *columns;
    let mut line = Line::new();
    if columns.job > 0 {
        line = line.gap(gap).left(&jobs(place, claims, columns.job), columns.job, Tone::Plain);
    }
    if columns.user > 0 {
        let users: Vec<&str> = claims.whole.users.iter().map(|user| &**user).collect();
        line = line.gap(gap).left(&some(&users), columns.user, Tone::Plain);
    }
    if columns.strip > 0 {
        let Place { cells, roll, letters, .. } = place;
        let marks = cells.of(scene, (member.place, node), roll, letters);
        let positions = super::claim::whole_devices(node);
        let own = positions.map(|position| {
            let blank = (Mark::Sign(' '), Tone::Faint);
            let mark = marks.get(position).copied().filter(|_| member.has(position));
            mark.unwrap_or(blank)
        });
        line = line.gap(gap).strip(own.collect(), columns.strip);
    }
    line
}

/// Shows how much is in use, of one node or of many.
pub(super) fn numbers(
    scene: Scene<'_>,
    totals: &Totals,
    columns: &Columns,
    track: Vec<Option<f32>>,
) -> Line {
    let Columns { gap, .. } = *columns;
    let taste = scene.taste;
    let mut line = Line::new();
    let util = plain(totals.utilization);
    if columns.util > 0 {
        line = line.gap(gap).bar(util, columns.util, taste.load.tone(util));
    }
    if columns.share > 0 {
        line = line.gap(gap).right(&percent(util), columns.share, Tone::Plain);
    }
    if columns.spark > 0 {
        line = line.gap(gap).spark(track, taste.load.tone(util));
    }
    let used = totals.memory_used.zip(totals.memory_total);
    let part = used.and_then(|(used, total)| Percent::of(used.0, total.0)).map(Percent::get);
    if columns.memory_bar > 0 {
        line = line.gap(gap).bar(part, columns.memory_bar, taste.memory.tone(part));
    }
    if columns.memory > 0 {
        let pair = memory_pair(totals.memory_used, totals.memory_total, columns.memory_decimals);
        let pair = if totals.memory_total.is_some() { pair } else { UNKNOWN.to_owned() };
        line = line.gap(gap).right(&pair, columns.memory, Tone::Plain);
    }
    if columns.power > 0 {
        line = line.gap(gap).right(&power(totals, columns), columns.power, Tone::Plain);
    }
    line
}

fn machine(scene: Scene<'_>, node: &Node, member: &Member, columns: &Columns) -> Line {
    let Columns { gap, .. } = *columns;
    let mut line = Line::new();
    if columns.heat > 0 {
        let heat = hottest(node, member);
        let heat = or_unknown(heat, |celsius| format!("{:.0}°", degrees(scene, celsius)));
        line = line.gap(gap).right(&heat, columns.heat, Tone::Plain);
    }
    if columns.cpu > 0 {
        let text = or_unknown(share(node.host.cpu), |cpu| format!("{cpu:.0}%"));
        line = line.gap(gap).right(&text, columns.cpu, Tone::Plain);
    }
    line
}

fn power(totals: &Totals, columns: &Columns) -> String {
    let write = |watts: Option<Watts>| match watts.map(Watts::get) {
        None => UNKNOWN.to_owned(),
        Some(watts) if columns.is_kilowatts => format!("{:.1}", watts / 1_000.0),
        Some(watts) => format!("{watts:.0}"),
    };
    let pair = format!("{}/{}", write(totals.power), write(totals.power_limit));
    // The sum of a large group may be too long for the column of a node.
    if columns.has_limits && totals.power_limit.is_some() && width_of(&pair) <= columns.power {
        pair
    } else {
        write(totals.power)
    }
}

/// Returns the step of tracks that a moment belongs to.
fn step_of(now: Timestamp) -> i64 {
    now.as_micros().div_euclid(1_000_000).div_euclid(i64::from(TRACK.1))
}

/// Returns the mean utilization of a node, step by step.
///
/// With few rows the last step is the one that is not over yet. Many would cost a terminal far away
/// more than they tell: there they change only when a step is over.
fn track(place: &mut Place, node: &Node, now: Timestamp, columns: &Columns) -> Vec<Option<f32>> {
    if columns.spark == 0 {
        return Vec::new();
    }
    let is_calm = place.plan.rows.len() > CALM_ROWS;
    let step = if is_calm { step_of(now) - 1 } else { step_of(now) };
    if let Some((_, points)) =
        place.tracks.get(&node.name).filter(|(own, _)| is_calm && *own == step)
    {
        return points.clone();
    }
    let seconds = usize::from(TRACK.0) * usize::from(TRACK.1);
    let end = Timestamp::from_micros(((step + 1) * i64::from(TRACK.1) - 1) * 1_000_000);
    let mut sums = vec![(0.0_f32, 0.0_f32); usize::from(TRACK.0)];
    for device in node.devices.iter().filter(|device| device.parent.is_none()) {
        let points = node.history.last(&device.uuid, Metric::Utilization, end, seconds);
        for (points, (sum, count)) in points.chunks(usize::from(TRACK.1)).zip(&mut sums) {
            for point in points.iter().flatten() {
                *sum += point;
                *count += 1.0;
            }
        }
    }
    let points: Vec<_> =
        sums.into_iter().map(|(sum, count)| (count > 0.0).then(|| sum / count)).collect();
    place.tracks.insert(node.name.clone(), (step, points.clone()));
    points
}

/// Writes the first job with its name where there is room, and how many others there are.
fn jobs(place: &Place, claims: &Claims, width: u16) -> String {
    let mut ids: Vec<&JobId> = claims.whole.jobs.iter().collect();
    ids.sort_by_key(|id| (id.as_str().parse::<u64>().unwrap_or(u64::MAX), id.as_str()));
    let Some(first) = ids.first() else { return UNKNOWN.to_owned() };
    if let [only] = ids.as_slice() {
        return place.roll.name(only);
    }
    let rest = format!(" +{}", ids.len() - 1);
    let name = place.roll.name(first);
    let room = width.saturating_sub(width_of(&rest));
    // A number that is cut is another number; a name that is cut is still known.
    let number = place.roll.job(first).map_or(first.as_str(), |job| &job.shown_id);
    let name = if width_of(number) < room {
        crate::view::line::cut(&name, room)
    } else {
        number.to_owned()
    };
    format!("{name}{rest}")
}

/// Writes the first of some words and how many others there are.
fn some(words: &[&str]) -> String {
    match (words.iter().min(), words.len()) {
        (None, _) => UNKNOWN.to_owned(),
        (Some(word), 1) => (*word).to_owned(),
        (Some(word), count) => format!("{word} +{}", count - 1),
    }
}

/// Returns one line about the selected node: what is wrong and what helps, or what it is.
pub(super) fn detail(picture: &Picture, place: &Place, node: &Node, width: u16) -> Line {
    let front = Line::of(format!("{}  ", node.name), Tone::Strong);
    let back = match remedy(node) {
        Some(remedy) => {
            let whole = Member::whole(0);
            let notes = remarks(picture, node, &whole, &place.roll.claims(node));
            said(&notes).text("  → ", Tone::Faint).text(remedy, Tone::Plain)
        }
        None => crate::view::node::panel::identity(node),
    };
    front.then(back).cut(width)
}
