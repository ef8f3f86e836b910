//! The cells of the node list: owners, series, memory and power of a node or a group.

use crate::fleet::{Node, Totals};
use crate::insight::ownership::{DeviceOwners, whole_devices};
use crate::model::{JobId, Watts};
use crate::text::{UNKNOWN, width_of};
use crate::ui::RenderContext;
use crate::ui::views::fleet::State;
use crate::ui::views::fleet::group::GroupMember;
use crate::ui::views::fleet::node_series::node_series;
use crate::ui::views::fleet::node_sort::to_f32;
use crate::ui::widgets::line::{Line, Symbol, Tone, truncate};
use crate::ui::widgets::number_format::{Units, or_unknown};

/// What the cells of a node are drawn from.
pub(super) struct NodeCells<'a> {
    pub(super) context: RenderContext<'a>,
    pub(super) state: &'a mut State,
    pub(super) member: &'a GroupMember,
    pub(super) node: &'a Node,
    pub(super) owners: &'a DeviceOwners,
    /// True if rows update in turns.
    pub(super) is_calm: bool,
}

/// How memory and power are formatted, the same in all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberFormats {
    pub(super) units: Units,
    pub(super) memory_decimals: usize,
    pub(super) is_kilowatts: bool,
    /// Power is followed by its limit.
    pub(super) has_limits: bool,
}

/// Draws the jobs of a node.
pub(super) fn jobs(cells: &mut NodeCells<'_>, width: u16) -> Line {
    Line::new().left_aligned(&jobs_text(cells.state, cells.owners, width), width, Tone::Plain)
}

/// Draws the users of a node.
pub(super) fn users(cells: &mut NodeCells<'_>, width: u16) -> Line {
    let users: Vec<&str> = cells.owners.on_node.users.iter().map(|user| &**user).collect();
    Line::new().left_aligned(&first_and_count(&users), width, Tone::Plain)
}

/// Draws one mark per device.
pub(super) fn devices(cells: &mut NodeCells<'_>, width: u16) -> Line {
    let NodeCells { context, member, node, .. } = *cells;
    let State { cells, allocations, symbols, .. } = &mut *cells.state;
    let marks = cells.of(context, (member.node_index, node), allocations, symbols);
    let last = whole_devices(node).map(|position| {
        let mark = marks.get(position).copied().filter(|_| member.has_device(position));
        mark.unwrap_or((Symbol::Char(' '), Tone::Faint))
    });
    Line::new().strip(last.collect(), width)
}

/// Draws the utilization over the last minute.
pub(super) fn sparkline(cells: &mut NodeCells<'_>, _: u16) -> Line {
    let NodeCells { context, member, node, is_calm, .. } = *cells;
    let util = to_f32(Totals::of_part(node, member.devices.as_deref()).utilization);
    let series = node_series(cells.state, (member, node), context.view.now, is_calm);
    Line::new().sparkline(series, context.options.load.tone(util))
}

/// Formats the first job, with its name if it fits, and the number of others.
fn jobs_text(state: &State, owners: &DeviceOwners, width: u16) -> String {
    let mut ids: Vec<&JobId> = owners.on_node.jobs.iter().collect();
    ids.sort_unstable_by_key(|id| (id.as_str().parse::<u64>().unwrap_or(u64::MAX), id.as_str()));
    let Some(first) = ids.first() else { return UNKNOWN.to_owned() };
    if let [only] = ids.as_slice() {
        return state.allocations.name(only);
    }
    let rest = format!(" +{}", ids.len() - 1);
    let name = state.allocations.name(first);
    let room = width.saturating_sub(width_of(&rest));
    // A cut number would be a different number; a cut name is still recognisable.
    let number = state.allocations.job(first).map_or(first.as_str(), |job| &job.shown_id);
    let name = if width_of(number) < room { truncate(&name, room) } else { number.to_owned() };
    format!("{name}{rest}")
}

/// Formats the first name and the number of others.
fn first_and_count(words: &[&str]) -> String {
    match (words.iter().min(), words.len()) {
        (None, _) => UNKNOWN.to_owned(),
        (Some(word), 1) => (*word).to_owned(),
        (Some(word), count) => format!("{word} +{}", count - 1),
    }
}

/// Formats used and total memory, that of a group in a unit that fits the column.
pub(super) fn memory_text(totals: &Totals, formats: NumberFormats, width: u16) -> String {
    let (used, Some(total)) = (totals.memory_used, totals.memory_total) else {
        return UNKNOWN.to_owned();
    };
    let units = formats.units;
    let pair = units.usage_with_decimals(used, Some(total), formats.memory_decimals);
    let large = units.large_usage(used, total);
    let shortest_amount = or_unknown(used, |used| units.amount(used));
    let all = [Some(pair), large, Some(shortest_amount)];
    let fits = |text: &String| width_of(text) <= width;
    all.into_iter().flatten().find(fits).unwrap_or_else(|| UNKNOWN.to_owned())
}

pub(super) fn power_text(totals: &Totals, formats: NumberFormats, width: u16) -> String {
    let format_amount = |watts: Option<Watts>, decimals: usize| match watts.map(Watts::get) {
        None => UNKNOWN.to_owned(),
        Some(watts) if formats.is_kilowatts => format!("{:.decimals$}", watts / 1_000.0),
        Some(watts) => format!("{watts:.0}"),
    };
    let limit = totals.power_limit.filter(|_| formats.has_limits);
    let pair = |decimals| {
        let limit = format_amount(Some(limit?), decimals);
        Some(format!("{}/{limit}", format_amount(totals.power, decimals)))
    };
    // The total of a large group may be too wide for the column.
    let shortest = |decimals| Some(format_amount(totals.power, decimals));
    let all = [pair(1), pair(0), shortest(1), shortest(0)];
    let fits = |text: &String| width_of(text) <= width;
    all.into_iter().flatten().find(fits).unwrap_or_else(|| UNKNOWN.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fleet::Fleet;
    use crate::insight::FleetView;
    use crate::insight::ownership::DeviceOwner;
    use crate::model::{Job, JobList};
    use crate::time::Timestamp;

    #[test]
    fn the_first_job_keeps_its_id_and_the_others_are_counted() {
        let job = |id: &str, visible: &str| Job {
            shown_id: visible.into(),
            name: "train".into(),
            ..Job::example(id)
        };
        let list = JobList {
            jobs: vec![job("2011", "2000_17"), job("2012", "12+1")],
            ..JobList::default()
        };
        let fleet = Fleet { jobs: Some(Arc::new(list)), ..Fleet::default() };
        let mut state = State::default();
        state.allocations.refresh(&FleetView::new(fleet, Timestamp::default()));
        let text_for = |ids: &[&str], width| {
            let jobs = ids.iter().map(|id| JobId::new(id).unwrap()).collect();
            let on_node = DeviceOwner { jobs, ..DeviceOwner::default() };
            jobs_text(&state, &DeviceOwners { on_node, ..DeviceOwners::default() }, width)
        };
        assert_eq!(text_for(&["2011"], 20), "2000_17 train");
        assert_eq!(text_for(&["2012", "2011", "9999"], 20), "2000_17 train +2");
        assert_eq!(text_for(&["2012", "2011"], 13), "2000_17 t… +1");
        assert_eq!(text_for(&["2012", "2011"], 10), "2000_17 +1");
        assert_eq!(text_for(&["2012", "2011"], 6), "2000_17 +1");
        assert_eq!(text_for(&[], 20), UNKNOWN);
    }
}
