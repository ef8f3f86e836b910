//! The node list: one line a node, in columns that never move; a line for the head of each group.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::{Node, Totals};
use crate::model::{JobId, NodeName, Percent, Watts};
use crate::time::Timestamp;
use crate::view::Scene;
use crate::view::condition::{Note, Standing, remedy};
use crate::view::fleet::Place;
use crate::view::fleet::cell::{Old, Quantity, turn};
use crate::view::fleet::claim::Claims;
use crate::view::fleet::column::{degrees, hottest, plain};
use crate::view::fleet::head;
use crate::view::fleet::layout::{Columns, MARK};
use crate::view::fleet::plan::{Member, Row};
use crate::view::fleet::remark::remarks;
use crate::view::fleet::track::{step_of, track};
use crate::view::input::Click;
use crate::view::line::{Line, Mark, Tone, UNKNOWN, width_of};
use crate::view::navigation::Window;
use crate::view::number::{age, amount, gib, memory_pair, or_unknown, percent, share};
use crate::view::picture::Picture;

/// A note this wide can say why a node is down beside its last numbers.
const WIDE_NOTE: u16 = 40;
/// With more rows in sight, tracks move only when their last step is over, and rows take turns: so
/// many of them move in a second, since a terminal far away cannot take more.
const CALM_ROWS: usize = 20;
const MOVING_ROWS: usize = 24;

/// The numbers that were drawn last, by node and the devices that were meant: the second, and the columns they were made for.
pub(super) type Rows = BTreeMap<(NodeName, Option<Arc<[usize]>>), (i64, Columns, Line)>;

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
    place.cells.settle(scene.picture, (Quantity::Utilization, Old::AsTheyWere), 0);
    let in_sight = rows.min(count);
    let turns = if in_sight > CALM_ROWS { in_sight.div_ceil(MOVING_ROWS).max(2) } else { 1 };
    let columns = Columns { pace: turns, ..columns };
    place.tracks.retain(|_, (step, _)| *step >= step_of(scene.picture.now) - 1);
    if place.filter != scene.picture.filter.text() {
        scene.picture.filter.text().clone_into(&mut place.filter);
        place.rows.clear();
    }
    let now = second_of(scene.picture.now);
    let is_new = |second: i64| usize::try_from(now - second).is_ok_and(|age| age < columns.pace);
    place.rows.retain(|_, (second, ..)| is_new(*second));
    let mut lines = Vec::with_capacity(height);
    if has_title {
        lines.push(window.beside(columns.titles(place.order), count, width));
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
    if standing == Standing::Down && columns.note < WIDE_NOTE {
        let last = Line::of(format!(" · last {span} ago"), Tone::Faint);
        let owners = owners(scene, place, (member, node), &claims, columns);
        let owners = owners.faded().gap(columns.gap);
        return front.then(owners).then(said(&notes)).then(last);
    }
    let numbers = known(scene, place, (member, node), &claims, columns);
    let numbers = if standing.is_fresh() { numbers } else { numbers.faded() };
    let age_tone = if standing.is_fresh() { Tone::Faint } else { Tone::Warn };
    let mut line = front.then(numbers);
    if columns.age > 0 {
        line = line.gap(columns.gap).right(&span, columns.age, age_tone);
    }
    if columns.note > 0 { line.gap(columns.gap).then(said(&notes)) } else { line }
}

/// Shows whose a node is and how much of it is in use. With many rows in sight they take turns: a
/// row whose turn it is not shows what it showed before.
fn known(
    scene: Scene<'_>,
    place: &mut Place,
    (member, node): (&Member, &Node),
    claims: &Claims,
    columns: &Columns,
) -> Line {
    let now = scene.picture.now;
    let second = second_of(now);
    let is_turn = turn(member.place, now, columns.pace);
    let key = (node.name.clone(), member.devices.clone());
    let before = place.rows.get(&key).filter(|(_, own, _)| own == columns);
    if let Some((_, _, line)) = before.filter(|_| !is_turn) {
        return line.clone();
    }
    let owners = owners(scene, place, (member, node), claims, columns);
    let totals = Totals::of_part(node, member.devices.as_deref());
    let track = track(place, (member, node), now, columns);
    let line = owners
        .then(numbers(scene, &totals, columns, track))
        .then(machine(scene, node, member, columns));
    if columns.pace > 1 {
        place.rows.insert(key, (second, *columns, line.clone()));
    }
    line
}

fn second_of(now: Timestamp) -> i64 {
    now.as_micros().div_euclid(1_000_000)
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
        line = line.gap(gap).right(&memory(totals, columns), columns.memory, Tone::Plain);
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

/// Writes memory in use and all of it; that of a group in what suits the column.
fn memory(totals: &Totals, columns: &Columns) -> String {
    let (used, Some(total)) = (totals.memory_used, totals.memory_total) else {
        return UNKNOWN.to_owned();
    };
    let tebibytes = |bytes| format!("{:.1}", gib(bytes) / 1024.0);
    let large = || format!("{}/{}T", or_unknown(used, tebibytes), tebibytes(total));
    let least = || or_unknown(used, amount);
    let pair = memory_pair(used, Some(total), columns.memory_decimals);
    let all = [pair, large(), least()];
    let fits = |text: &String| width_of(text) <= columns.memory;
    all.into_iter().find(fits).unwrap_or_else(|| UNKNOWN.to_owned())
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
