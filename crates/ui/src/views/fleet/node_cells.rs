//! The cells of the node list: jobs and users of a node, memory and power of a node or a group.

use crate::widgets::line::{Tone, truncate};
use crate::widgets::number_format::{Units, mark_host, or_unknown};
use crate::widgets::table::Cell;
use gtop_fleet::{JobLookup, NodeHoldings, Totals};
use gtop_local::text::{UNKNOWN, width_of};
use gtop_model::{JobId, Watts};

/// Formats the first job, with its name if it fits, and the number of others.
pub(super) fn jobs_text(jobs: &JobLookup, holdings: &NodeHoldings, width: u16) -> String {
    let ids: Vec<&JobId> = holdings.jobs().iter().map(|known| &known.job).collect();
    let Some(first) = ids.first() else { return UNKNOWN.to_owned() };
    if let [only] = ids.as_slice() {
        return jobs.name(only);
    }
    let rest = format!(" +{}", ids.len() - 1);
    let name = jobs.name(first);
    let room = width.saturating_sub(width_of(&rest));
    // A cut number would be a different number; a cut name is still recognisable.
    let number = jobs.shown_id(first);
    let name = if width_of(&number) < room { truncate(&name, room) } else { number.into_owned() };
    format!("{name}{rest}")
}

/// Makes a cell of the devices that cannot be used: at least so many if the devices of a node are unknown.
pub(super) fn down_cell(totals: &Totals) -> Cell {
    match (totals.unusable(), totals.unseen) {
        (count, 0) => Cell::count(Some(count), Tone::Warn),
        (0, _) => Cell::toned("?", Tone::Warn),
        (count, _) => Cell::toned(format!("{count}+"), Tone::Warn),
    }
}

/// Formats used and total memory, that of a group in a unit that fits the column.
pub(super) fn memory_text(
    totals: &Totals,
    (units, decimals): (Units, usize),
    width: u16,
) -> String {
    let ((used, Some(total)), is_host) = totals.shown_memory() else {
        return UNKNOWN.to_owned();
    };
    let pair = units.pair([used, Some(total)], 1.0, decimals);
    let large = units.large_usage(used, total);
    let shortest_amount = or_unknown(used, |used| units.amount(used));
    let all = [Some(pair), large, Some(shortest_amount)];
    let mut marked = all.into_iter().flatten().map(|text| mark_host(text, is_host));
    marked.find(|text| width_of(text) <= width).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// Formats the power, followed by its limit if `has_limit`.
pub(super) fn power_text(
    totals: &Totals,
    (is_kilowatts, has_limit): (bool, bool),
    width: u16,
) -> String {
    let limit = totals.power_limit.filter(|_| has_limit);
    // The total of a large group may be too wide for the column.
    let forms = [(limit, 1), (limit, 0), (None, 1), (None, 0)];
    let mut texts = forms.into_iter().map(|(limit, decimals)| {
        let drawn = or_unknown(totals.power, |watts| watts_text(watts, is_kilowatts, decimals));
        match limit {
            Some(limit) => format!("{drawn}/{}", watts_text(limit, is_kilowatts, decimals)),
            None => drawn,
        }
    });
    texts.find(|text| width_of(text) <= width).unwrap_or_else(|| UNKNOWN.to_owned())
}

fn watts_text(watts: Watts, is_kilowatts: bool, decimals: usize) -> String {
    let watts = watts.get();
    if is_kilowatts { format!("{:.decimals$}", watts / 1_000.0) } else { format!("{watts:.0}") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use gtop_fleet::Fleet;
    use gtop_model::{Job, JobList};

    #[test]
    fn devices_of_nodes_without_a_sample_are_unknown_and_not_zero() {
        let text = |cell: Cell| match cell {
            Cell::Text(text, _) => text.into_owned(),
            Cell::Bar(..) | Cell::Line(_) => panic!("no text"),
        };
        for (devices, faulty, unseen, [down, free]) in [
            (8, 0, 0, ["0", "0"]),
            (8, 2, 0, ["2", "0"]),
            (8, 2, 1, ["2+", "0"]),
            (8, 0, 1, ["?", "0"]),
            (0, 0, 2, ["?", UNKNOWN]),
        ] {
            let totals = Totals { unseen, devices, faulty, ..Totals::default() };
            let cells = [down_cell(&totals), Cell::count(totals.known_free(), Tone::Plain)];
            assert_eq!(cells.map(text), [down, free], "{totals:?}");
        }
    }

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
        let jobs = JobLookup::of(fleet.jobs.as_ref());
        let text_for =
            |ids: &[&str], width| jobs_text(&jobs, &NodeHoldings::example_of_jobs(ids), width);
        assert_eq!(text_for(&["2011"], 20), "2000_17 train");
        assert_eq!(text_for(&["2012", "2011", "9999"], 20), "2000_17 train +2");
        assert_eq!(text_for(&["2012", "2011"], 13), "2000_17 t… +1");
        assert_eq!(text_for(&["2012", "2011"], 10), "2000_17 +1");
        assert_eq!(text_for(&["2012", "2011"], 6), "2000_17 +1");
        assert_eq!(text_for(&[], 20), UNKNOWN);
    }
}
