//! The panel of a group: its devices by model, and on which nodes some are free.

use crate::render_context::{RenderContext, Size};
use crate::views::fleet::column_layout::{DOWN_HELP, FREE_HELP};
use crate::views::fleet::group::{Group, ModelTotals};
use crate::views::fleet::node_cells::down_cell;
use crate::widgets::line::{Line, Tone, truncate_distinct};
use crate::widgets::table::{self, Cell, Fade, Table, TableColumn, TableRoom};
use gtop_fleet::Totals;
use gtop_fleet::insight::node_status::NodeStatus;
use gtop_fleet::settings::ColumnSpec;
use gtop_local::text::{counted, width_of};
use gtop_model::nodeset;

/// What cells are drawn from, apart from their row.
struct ModelTable<'a> {
    models: Vec<&'a str>,
    name_width: u16,
    has_unknown: bool,
}

type Column<'a> = TableColumn<ModelTable<'a>, ModelTotals>;

/// Returns the columns for help.
pub(super) fn column_specs() -> Vec<ColumnSpec> {
    table::specs(&ModelTable::COLUMNS).to_vec()
}

impl<'a> ModelTable<'a> {
    const COLUMNS: [Column<'a>; 8] = [
        Column::left("MODEL", 0, |table, row, place| {
            let model = truncate_distinct(&row.model, &table.models, place.width);
            Cell::toned(model, Tone::Strong)
        })
        .named("model", "", "the model of the devices")
        .sized(|table, _| table.name_width),
        Column::right("DEVICES", 7, |_, row, _| {
            Cell::count(row.totals.known_devices(), Tone::Plain)
        })
        .named("devices", "", "devices of the group, all in one of the next counts")
        .rank(3),
        Column::right("BUSY", 5, |_, row, _| Cell::count(row.totals.known_busy(), Tone::Plain))
            .named("busy", "", "devices at 5 % utilization or more")
            .rank(4),
        Column::right("IDLE-HELD", 9, |_, row, _| {
            Cell::count(row.totals.known_idle_held(), Tone::Plain)
        })
        .named("idle-held", "", "idle-held devices: allocated or in use, and idle")
        .rank(5),
        Column::right("FREE", 5, |_, row, _| Cell::count(row.totals.known_free(), Tone::Strong))
            .named("free", "", FREE_HELP),
        Column::right("DOWN", 5, |_, row, _| down_cell(&row.totals))
            .named("down", "", DOWN_HELP)
            .rank(2),
        Column::right("?", 0, |_, row, _| Cell::count(row.totals.known_unknown(), Tone::Plain))
            .named("unknown", "", "devices whose load or users are unknown")
            .rank(6)
            .sized(|table, _| if table.has_unknown { 4 } else { 0 }),
        Column::rest("FREE ON", 8, |_, row, _| row.free_on.clone().into())
            .named("free-on", "", "the nodes with free devices of the model, by how many each has")
            .rank(1),
    ];

    fn laid_out(rows: &'a [ModelTotals], width: u16) -> Table<'a, Self, ModelTotals> {
        let longest = rows.iter().map(|row| width_of(&row.model)).max().unwrap_or(0);
        let table = Self {
            models: rows.iter().map(|row| row.model.as_str()).collect(),
            name_width: longest.clamp(5, (width / 3).max(5)),
            has_unknown: rows.iter().any(|row| row.totals.known_unknown() > Some(0)),
        };
        Table::fit(&Self::COLUMNS, table, &[], TableRoom::new(width, 2, 1))
    }
}

pub(super) fn lines(context: RenderContext<'_>, group: &Group, size: Size) -> Vec<Line> {
    let (width, height) = size;
    let totals = group.totals(context.view);
    let mut lines = vec![title(group, &totals).truncated(width), Line::new()];
    let rows = group.models();
    let table = ModelTable::laid_out(rows, width);
    if !rows.is_empty() {
        lines.push(table.titles().truncated(width));
    }
    let rows = rows.iter().map(|row| table.row(Line::new().gap(2), row, Fade::None));
    lines.extend(rows.map(|line| line.truncated(width)));
    lines.push(Line::new());
    lines.extend(not_fresh(context, group).map(|line| line.truncated(width)));
    lines.truncate(height);
    lines
}

fn title(group: &Group, totals: &Totals) -> Line {
    let mut line = Line::styled(format!("{}  ", group.title), Tone::Accent);
    if !group.description.is_empty() {
        line = line.text(format!("{}  ", group.description), Tone::Plain);
    }
    let nodes = counted(group.members.len(), "node");
    line.text(format!("{nodes} · {}", counted(totals.devices, "device")), Tone::Plain)
}

/// Names the nodes whose devices are not in the counts of what can be used.
fn not_fresh(context: RenderContext<'_>, group: &Group) -> Option<Line> {
    let old = group.nodes(context.view).filter(|node| {
        let status = NodeStatus::of(node, context.view.now);
        matches!(status, NodeStatus::Down | NodeStatus::Stale(_))
    });
    let names: Vec<&str> = old.map(|node| node.name.label()).collect();
    (!names.is_empty()).then(|| {
        let text = format!("{} down or stale: ", counted(names.len(), "node"));
        Line::new().gap(2).text(text, Tone::Faint).text(nodeset::fold(names), Tone::Warn)
    })
}
