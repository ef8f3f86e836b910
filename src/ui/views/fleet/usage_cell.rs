//! The cells of utilization, memory and power, of a node or a group.

use crate::fleet::Totals;
use crate::model::{Percent, Watts};
use crate::model::{UNKNOWN, width_of};
use crate::ui::RenderContext;
use crate::ui::views::fleet::column_layout::{Column, ColumnLayout};
use crate::ui::views::fleet::node_sort::to_f32;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::number_format::{or_unknown, percent};

/// Draws a usage column of a node or group; empty for other columns.
pub(super) fn usage_cell(
    context: RenderContext<'_>,
    totals: &Totals,
    columns: &ColumnLayout,
    (column, width): (Column, u16),
) -> Line {
    let display = context.options;
    let util = to_f32(totals.utilization);
    match column {
        Column::Bar => Line::new().bar(util, width, display.load.tone(util)),
        Column::Percent => Line::new().right_aligned(&percent(util), width, Tone::Plain),
        Column::MemoryBar => {
            let used = totals.memory_used.zip(totals.memory_total);
            let column = used.and_then(|(used, total)| Percent::of(used.0, total.0));
            let column = column.map(Percent::get);
            Line::new().bar(column, width, display.memory.tone(column))
        }
        Column::Memory => {
            Line::new().right_aligned(&memory_text(totals, columns), width, Tone::Plain)
        }
        Column::Power => {
            Line::new().right_aligned(&power_text(totals, columns), width, Tone::Plain)
        }
        Column::Job
        | Column::User
        | Column::Devices
        | Column::Sparkline
        | Column::Temperature
        | Column::Cpu
        | Column::Age
        | Column::Note => Line::new().gap(width),
    }
}

/// Formats used and total memory, that of a group in a unit that fits the column.
fn memory_text(totals: &Totals, columns: &ColumnLayout) -> String {
    let (used, Some(total)) = (totals.memory_used, totals.memory_total) else {
        return UNKNOWN.to_owned();
    };
    let units = columns.units;
    let pair = units.usage_with_decimals(used, Some(total), columns.memory_decimals);
    let large = units.large_usage(used, total);
    let shortest_amount = or_unknown(used, |used| units.amount(used));
    let all = [Some(pair), large, Some(shortest_amount)];
    let fits = |text: &String| width_of(text) <= columns.memory;
    all.into_iter().flatten().find(fits).unwrap_or_else(|| UNKNOWN.to_owned())
}

fn power_text(totals: &Totals, columns: &ColumnLayout) -> String {
    let format_amount = |watts: Option<Watts>, decimals: usize| match watts.map(Watts::get) {
        None => UNKNOWN.to_owned(),
        Some(watts) if columns.is_kilowatts => format!("{:.decimals$}", watts / 1_000.0),
        Some(watts) => format!("{watts:.0}"),
    };
    let limit = totals.power_limit.filter(|_| columns.has_limits);
    let pair = |decimals| {
        let limit = format_amount(Some(limit?), decimals);
        Some(format!("{}/{limit}", format_amount(totals.power, decimals)))
    };
    // The total of a large group may be too wide for the column.
    let shortest = |decimals| Some(format_amount(totals.power, decimals));
    let all = [pair(1), pair(0), shortest(1), shortest(0)];
    let fits = |text: &String| width_of(text) <= columns.power;
    all.into_iter().flatten().find(fits).unwrap_or_else(|| UNKNOWN.to_owned())
}
