//! Explains the row of the fleet view at the cursor: a node, a group, or a device of the map.

use std::sync::Arc;

use crate::node_panel::explain;
use crate::render_context::RenderContext;
use crate::views::fleet::cell_grid::CellCursor;
use crate::views::fleet::column_layout::{FleetRow, FleetTable, GroupedBy, NodeValues};
use crate::views::fleet::group::GroupMember;
use crate::views::fleet::node_notes::row_notes;
use crate::views::fleet::state::{Layout, State};
use crate::widgets::explanation::{Explanation, Fact};
use gtop_fleet::insight::FleetView;
use gtop_fleet::insight::node_status::NodeStatus;
use gtop_fleet::{Node, Totals};
use gtop_local::text::counted;
use gtop_local::time::format_age;
use gtop_model::nodeset;

/// What `reported` counts.
const REPORTED_HELP: &str = "nodes closed to you or powered down, counted as the scheduler says";
/// Wide enough for all columns.
const TABLE_WIDTH: u16 = 400;

/// Explains what the cursor is on; `None` if it is gone.
pub(super) fn of_cursor(
    context: RenderContext<'_>,
    state: &State,
    cursor: CellCursor,
) -> Option<Explanation> {
    let fleet = &context.view.fleet;
    match cursor {
        CellCursor::Header(group) => of_group(context, state, group),
        CellCursor::Cell(group, member, cell) => {
            let (member, node) = state.grouped_rows.member(fleet, group, member)?;
            let position = member.device_at(node, cell).filter(|_| state.layout == Layout::Map);
            let device = position.and_then(|position| explain::device(context, node, position));
            Some(device.unwrap_or_else(|| of_node(context, state, (member, node))))
        }
    }
}

fn of_node(
    context: RenderContext<'_>,
    state: &State,
    (member, node): (&GroupMember, &Arc<Node>),
) -> Explanation {
    let FleetView { now, .. } = context.view;
    let member = &member.matching(context.view, node);
    let notes = row_notes(context.view, node, member);
    let counts = Totals::of_node_part(node, member.devices.as_deref(), *now);
    let values = NodeValues::of(node, member, Some(counts));
    let row = FleetRow {
        name: node.name.to_string(),
        totals: values.totals,
        counts: values.counts,
        values: Some(Arc::new(values)),
        age: node.taken_at().map(|at| format_age(now.since(at))).unwrap_or_default(),
        ..FleetRow::default()
    };
    let is_empty = node.taken_at().is_none();
    let facts = if is_empty { Vec::new() } else { facts(context, state, &row) };
    explain::node(context, node, &notes, facts)
}

fn of_group(context: RenderContext<'_>, state: &State, group: usize) -> Option<Explanation> {
    let fleet_view = context.view;
    let group = state.grouped_rows.groups.get(group)?;
    let totals = group.totals(fleet_view);
    let (title, description) = (group.title.clone(), group.description.clone());
    let nodes = [
        ("fresh", totals.fresh, "nodes whose numbers are new: only these are in the sums"),
        ("stale", totals.stale, "nodes that are connected and send no new numbers"),
        ("down", totals.down, "nodes that are not connected"),
        ("unseen", totals.unseen, "nodes without a sample, whose devices are in no count"),
        ("reported", totals.reported, REPORTED_HELP),
    ];
    let devices = [
        ("devices", totals.devices, "all devices: those counted in the row, of which are DOWN:"),
        ("faulty", totals.faulty, "devices for which the driver reports a fault"),
        ("unavailable", totals.unavailable, "free devices of nodes that take no jobs"),
        ("old", totals.stale_devices, "devices of nodes that are down or stale"),
    ];
    let old = group.nodes(fleet_view).filter(|node| {
        let status = NodeStatus::of(node, fleet_view.now);
        !status.is_fresh() && status != NodeStatus::Reported
    });
    let old: Vec<&str> = old.map(|node| node.name.label()).collect();
    let mut not_fresh = Vec::new();
    if !old.is_empty() {
        let (count, names) = (counted(old.len(), "node"), nodeset::fold(old));
        not_fresh.push(Fact::known(&count, names, "not fresh, so not in the sums"));
    }
    let row = FleetRow {
        totals,
        counts: Some(totals),
        pending: group.pending,
        nodes: group.members.len().to_string(),
        ..FleetRow::default()
    };
    let facts = facts(context, state, &row);
    let space = if description.is_empty() { "" } else { "  " };
    Some(
        Explanation::new(format!("group {title}{space}{description}"))
            .with_numbers("sums over its fresh nodes", None, facts)
            .with_numbers("its nodes", None, nodes.map(Fact::count).to_vec())
            .with_numbers("its devices", None, devices.map(Fact::count).to_vec())
            .with_numbers("left out", None, not_fresh),
    )
}

fn facts(context: RenderContext<'_>, state: &State, row: &FleetRow) -> Vec<Fact> {
    FleetTable::laid_out(context, &state.jobs, GroupedBy::default(), TABLE_WIDTH).facts(row)
}
