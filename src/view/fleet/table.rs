//! The node list: one line a node, in columns that never move; a line for the head of each group.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::{Node, Totals};
use crate::model::{JobId, NodeName, Percent, Watts};
use crate::time::{Timestamp, age};
use crate::view::RenderContext;
use crate::view::fleet::State;
use crate::view::fleet::cell::{Old, Quantity, turn};
use crate::view::fleet::claim::Claims;
use crate::view::fleet::column::{hottest, plain};
use crate::view::fleet::head;
use crate::view::fleet::layout::{Columns, MARK, Part};
use crate::view::fleet::plan::{Member, Row};
use crate::view::fleet::remark::remarks;
use crate::view::fleet::track::{step_of, track};
use crate::view::fleet_view::FleetView;
use crate::view::input::Click;
use crate::view::line::{Line, Symbol, Tone, UNKNOWN, width_of};
use crate::view::navigation::Viewport;
use crate::view::node_status::{NodeStatus, Note, remedy};
use crate::view::number_format::{Units, or_unknown, percent, share};

/// A note this wide can say why a node is down beside its last numbers.
const WIDE_NOTE: u16 = 40;
/// With more rows in sight, tracks move only when their last step is over, and rows take turns: so
/// many of them move in a second, since a terminal far away cannot take more.
const CALM_ROWS: usize = 20;
const MOVING_ROWS: usize = 24;

/// The numbers that were drawn last, by node and the devices that were meant: the second, and the columns they were made for.
pub(super) type Rows = BTreeMap<(NodeName, Option<Arc<[usize]>>), (i64, Columns, Vec<Line>)>;

/// Returns the title line and the rows in sight; `at` is the row one is on.
pub(super) fn lines(
    scene: RenderContext<'_>,
    place: &mut State,
    window: &mut Viewport,
    at: usize,
    (width, height): (u16, usize),
) -> Vec<Line> {
    let columns =
        Columns::of(scene.picture, &scene.taste.columns.fleet, Units::of(scene.taste), width);
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
    scene: RenderContext<'_>,
    place: &mut State,
    (member, node): (&Member, &Node),
    columns: &Columns,
) -> Line {
    let picture = scene.picture;
    let standing = NodeStatus::of(node, picture.now);
    let claims = place.roll.claims(node);
    let notes = remarks(picture, node, member, &claims);
    let front = mark(standing, &notes).left(node.name.as_str(), columns.name, name_tone(standing));
    let Some(taken_at) = node.taken_at() else {
        // Nothing is known: the reason has all the room.
        return front.gap(columns.gap).then(said(&notes));
    };
    let span = age(picture.now.since(taken_at));
    if standing == NodeStatus::Down && columns.note < WIDE_NOTE {
        let last = Line::of(format!(" · last {span} ago"), Tone::Faint);
        let leading = columns.shown().take_while(|(part, _)| part.is_owner());
        let owners = leading.fold(Line::new(), |line, own| {
            line.gap(columns.gap).then(owner(scene, place, (member, node), &claims, own))
        });
        let owners = owners.faded().gap(columns.gap);
        return front.then(owners).then(said(&notes)).then(last);
    }
    let age_tone = if standing.is_fresh() { Tone::Faint } else { Tone::Warn };
    let cells = known(scene, place, (member, node), &claims, columns);
    columns.shown().zip(cells).fold(front, |line, ((part, width), cell)| {
        let gap = Line::new().gap(columns.gap);
        line.then(if part == Part::Age {
            gap.right(&span, width, age_tone)
        } else if part == Part::Note {
            gap.then(columns.boxed((part, width), said(&notes)))
        } else {
            let cell = gap.then(cell);
            if standing.is_fresh() { cell } else { cell.faded() }
        })
    })
}

/// Shows whose a node is and how much of it is in use, a cell a column. With many rows in sight they
/// take turns: a row whose turn it is not shows what it showed before.
fn known(
    scene: RenderContext<'_>,
    place: &mut State,
    (member, node): (&Member, &Node),
    claims: &Claims,
    columns: &Columns,
) -> Vec<Line> {
    let now = scene.picture.now;
    let second = second_of(now);
    let is_turn = turn(member.place, now, columns.pace);
    let key = (node.name.clone(), member.devices.clone());
    let before = place.rows.get(&key).filter(|(_, own, _)| own == columns);
    if let Some((_, _, cells)) = before.filter(|_| !is_turn) {
        return cells.clone();
    }
    let totals = Totals::of_part(node, member.devices.as_deref());
    let mut track = Some(track(place, (member, node), now, columns));
    let cells = columns.shown().map(|(part, width)| match part {
        Part::Job | Part::User | Part::Devices => {
            owner(scene, place, (member, node), claims, (part, width))
        }
        Part::Heat | Part::Cpu => machine(scene, (node, member), (part, width)),
        Part::Age | Part::Note => Line::new(),
        Part::Spark => {
            let tone = scene.taste.load.tone(plain(totals.utilization));
            Line::new().spark(track.take().unwrap_or_default(), tone)
        }
        Part::Bar | Part::Share | Part::MemoryBar | Part::Memory | Part::Power => {
            number(scene, &totals, columns, (part, width))
        }
    });
    let cells: Vec<Line> = cells.collect();
    if columns.pace > 1 {
        place.rows.insert(key, (second, *columns, cells.clone()));
    }
    cells
}

fn second_of(now: Timestamp) -> i64 {
    now.as_micros().div_euclid(1_000_000)
}

fn name_tone(standing: NodeStatus) -> Tone {
    match standing {
        NodeStatus::Fresh => Tone::Plain,
        NodeStatus::Down | NodeStatus::Stale(_) => Tone::Strong,
        NodeStatus::Waiting | NodeStatus::Opening(_) | NodeStatus::Starting => Tone::Faint,
    }
}

/// What is worst about a node, in one column.
fn mark(standing: NodeStatus, notes: &[Note]) -> Line {
    let worst = notes.iter().map(|(_, tone)| *tone).max().unwrap_or_default();
    let (sign, tone) = match (standing, worst) {
        (NodeStatus::Down, _) => ("✗", Tone::Bad),
        (_, Tone::Bad) => ("!", Tone::Bad),
        (_, Tone::Warn) => ("!", Tone::Warn),
        (NodeStatus::Waiting | NodeStatus::Opening(_) | NodeStatus::Starting, _) => {
            ("·", Tone::Faint)
        }
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
fn owner(
    scene: RenderContext<'_>,
    place: &mut State,
    (member, node): (&Member, &Node),
    claims: &Claims,
    (part, width): (Part, u16),
) -> Line {
    if part == Part::Job {
        return Line::new().left(&jobs(place, claims, width), width, Tone::Plain);
    }
    if part == Part::User {
        let users: Vec<&str> = claims.whole.users.iter().map(|user| &**user).collect();
        return Line::new().left(&some(&users), width, Tone::Plain);
    }
    let State { cells, roll, letters, .. } = place;
    let marks = cells.of(scene, (member.place, node), roll, letters);
    let positions = super::claim::whole_devices(node);
    let own = positions.map(|position| {
        let blank = (Symbol::Char(' '), Tone::Faint);
        let mark = marks.get(position).copied().filter(|_| member.has(position));
        mark.unwrap_or(blank)
    });
    Line::new().strip(own.collect(), width)
}

/// Shows how much is in use, of one node or of many; nothing where that is not what a part tells.
pub(super) fn number(
    scene: RenderContext<'_>,
    totals: &Totals,
    columns: &Columns,
    (part, width): (Part, u16),
) -> Line {
    let taste = scene.taste;
    let util = plain(totals.utilization);
    match part {
        Part::Bar => Line::new().bar(util, width, taste.load.tone(util)),
        Part::Share => Line::new().right(&percent(util), width, Tone::Plain),
        Part::MemoryBar => {
            let used = totals.memory_used.zip(totals.memory_total);
            let part = used.and_then(|(used, total)| Percent::of(used.0, total.0));
            let part = part.map(Percent::get);
            Line::new().bar(part, width, taste.memory.tone(part))
        }
        Part::Memory => Line::new().right(&memory(totals, columns), width, Tone::Plain),
        Part::Power => Line::new().right(&power(totals, columns), width, Tone::Plain),
        Part::Job
        | Part::User
        | Part::Devices
        | Part::Spark
        | Part::Heat
        | Part::Cpu
        | Part::Age
        | Part::Note => Line::new().gap(width),
    }
}

fn machine(
    scene: RenderContext<'_>,
    (node, member): (&Node, &Member),
    (part, width): (Part, u16),
) -> Line {
    let text = if part == Part::Heat {
        let heat = hottest(node, member);
        let units = Units::of(scene.taste);
        or_unknown(heat, |celsius| format!("{:.0}{}", units.heat(celsius), units.degree()))
    } else {
        or_unknown(share(node.host.cpu), |cpu| format!("{cpu:.0}%"))
    };
    Line::new().right(&text, width, Tone::Plain)
}

/// Writes memory in use and all of it; that of a group in what suits the column.
fn memory(totals: &Totals, columns: &Columns) -> String {
    let (used, Some(total)) = (totals.memory_used, totals.memory_total) else {
        return UNKNOWN.to_owned();
    };
    let units = columns.units;
    let pair = units.pair_with(used, Some(total), columns.memory_decimals);
    let large = units.large_pair(used, total);
    let least = or_unknown(used, |used| units.amount(used));
    let all = [Some(pair), large, Some(least)];
    let fits = |text: &String| width_of(text) <= columns.memory;
    all.into_iter().flatten().find(fits).unwrap_or_else(|| UNKNOWN.to_owned())
}

fn power(totals: &Totals, columns: &Columns) -> String {
    let write = |watts: Option<Watts>, decimals: usize| match watts.map(Watts::get) {
        None => UNKNOWN.to_owned(),
        Some(watts) if columns.is_kilowatts => format!("{:.decimals$}", watts / 1_000.0),
        Some(watts) => format!("{watts:.0}"),
    };
    let limit = totals.power_limit.filter(|_| columns.has_limits);
    let pair = |decimals| {
        let limit = write(Some(limit?), decimals);
        Some(format!("{}/{limit}", write(totals.power, decimals)))
    };
    // The sum of a large group may be too long for the column of a node.
    let least = |decimals| Some(write(totals.power, decimals));
    let all = [pair(1), pair(0), least(1), least(0)];
    let fits = |text: &String| width_of(text) <= columns.power;
    all.into_iter().flatten().find(fits).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Writes the first job with its name where there is room, and how many others there are.
fn jobs(place: &State, claims: &Claims, width: u16) -> String {
    let mut ids: Vec<&JobId> = claims.whole.jobs.iter().collect();
    ids.sort_unstable_by_key(|id| (id.as_str().parse::<u64>().unwrap_or(u64::MAX), id.as_str()));
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
pub(super) fn detail(picture: &FleetView, place: &State, node: &Node, width: u16) -> Line {
    let front = Line::of(format!("{}  ", node.name), Tone::Strong);
    let back = match remedy(node) {
        Some(remedy) => {
            let whole = Member::whole(0);
            let notes = remarks(picture, node, &whole, &place.roll.claims(node));
            said(&notes).text("  → ", Tone::Faint).text(remedy, Tone::Plain)
        }
        None => crate::view::node::panel::node_description(node),
    };
    front.then(back).cut(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Fleet;
    use crate::model::{Job, JobList};
    use crate::view::fleet::claim::Claim;

    #[test]
    fn of_several_jobs_the_first_keeps_its_whole_number_and_the_others_are_counted() {
        let job = |id: &str, shown: &str| Job {
            shown_id: shown.into(),
            name: "train".into(),
            ..Job::example(id)
        };
        let list = JobList {
            jobs: vec![job("2011", "2000_17"), job("2012", "12+1")],
            ..JobList::default()
        };
        let fleet = Fleet { jobs: Some(Arc::new(list)), ..Fleet::default() };
        let mut place = State::default();
        place.roll.settle(&FleetView::new(fleet, Timestamp::default()));
        let told = |ids: &[&str], width| {
            let jobs = ids.iter().map(|id| JobId::new(id).unwrap()).collect();
            let whole = Claim { jobs, ..Claim::default() };
            super::jobs(&place, &Claims { whole, ..Claims::default() }, width)
        };
        assert_eq!(told(&["2011"], 20), "2000_17 train");
        assert_eq!(told(&["2012", "2011", "9999"], 20), "2000_17 train +2");
        assert_eq!(told(&["2012", "2011"], 13), "2000_17 t… +1");
        assert_eq!(told(&["2012", "2011"], 10), "2000_17 +1");
        assert_eq!(told(&["2012", "2011"], 6), "2000_17 +1");
        assert_eq!(told(&[], 20), UNKNOWN);
    }
}
