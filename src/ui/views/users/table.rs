//! Draws the users table: a summary above columns of fixed width.

use crate::fleet::Node;
use crate::insight::node_status::{NodeStatus, device_label};
use crate::insight::users::{NodeUsage, User, UserUsage, Users};
use crate::model::Device;
use crate::model::UNKNOWN;
use crate::query::SortOrder;
use crate::time::format_age;
use crate::ui::RenderContext;
use crate::ui::input::Click;
use crate::ui::views::users::COLUMNS;
use crate::ui::views::users::rows::{UserRow, UserRows};
use crate::ui::widgets::column_spec;
use crate::ui::widgets::column_spec::ColumnSpec;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::number_format::{
    Units, format_run_time, or_unknown, percent, percent_value,
};

/// Columns of the fold marker and the gap after it.
const MARK_WIDTH: u16 = 2;

/// The columns of the table that fit, and their widths.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    name: u16,
    gap: u16,
    /// Columns after the name, from left to right: position in `WIDTHS`, and width.
    shown: Vec<(usize, u16)>,
}

/// All columns of the table; `user` always comes first.
pub(crate) const COLUMN_SPECS: [ColumnSpec; 10] = [
    ColumnSpec::new("user", "USER", "user", "the user; always shown first").always(),
    ColumnSpec::new("devices", "DEVICES", "devices", "devices held"),
    ColumnSpec::new("bar", "FLEET", "devices", "the share of all devices as a bar"),
    ColumnSpec::new("share", "%", "devices", "the share of all devices in percent"),
    ColumnSpec::new("busy", "BUSY", "busy", "busy devices"),
    ColumnSpec::new("idle-held", "IDLE-HELD", "idle-held", "idle-held devices"),
    ColumnSpec::new("mem", "MEM", "mem", "device memory"),
    ColumnSpec::new("power", "POWER", "power", "power"),
    ColumnSpec::new("nodes", "NODES", "nodes", "nodes, as fresh/all if some are stale"),
    ColumnSpec::new("jobs", "JOBS", "jobs", "jobs"),
];
/// Widths of the columns after the name.
const WIDTHS: [u16; 9] = [8, 10, 3, 5, 9, 7, 8, 6, 5];
/// Position in `WIDTHS` of the column that is a bar.
const BAR_COLUMN: usize = 1;
/// Positions in `WIDTHS`, most important first.
const PRIORITY: [usize; 9] = [0, 4, 5, 3, 7, 6, 8, 2, 1];

impl Columns {
    /// Fits columns into `width`: the chosen ones from left to right, or else as many as fit, most important
    /// first.
    pub(super) fn fit(rows: &UserRows, chosen: &[String], width: u16) -> Self {
        let gap = if width >= 100 { 2 } else { 1 };
        let name = rows.name_width.clamp(4, (width / 3).clamp(4, 28));
        let mut room = width.saturating_sub(MARK_WIDTH + name);
        let reserve = |index: usize| {
            let column_width = *WIDTHS.get(index)?;
            let fits = room >= column_width + gap;
            room -= if fits { column_width + gap } else { 0 };
            fits.then_some((index, column_width))
        };
        let mut shown: Vec<(usize, u16)>;
        if let Some(indices) = column_spec::column_indices(&COLUMN_SPECS, chosen) {
            let after_name = indices.iter().filter_map(|index| index.checked_sub(1));
            shown = after_name.map_while(reserve).collect();
        } else {
            shown = PRIORITY.into_iter().filter_map(reserve).collect();
            shown.sort_unstable();
        }
        if let Some((_, bar)) = shown.iter_mut().find(|(index, _)| *index == BAR_COLUMN) {
            *bar += (room / 2).min(30);
        }
        Self { name, gap, shown }
    }

    fn headings(&self) -> impl Iterator<Item = (usize, u16, ColumnSpec)> {
        self.shown.iter().filter_map(|(index, width)| {
            COLUMN_SPECS.get(index + 1).map(|heading| (*index, *width, *heading))
        })
    }

    /// Returns the title line, with the sort column marked.
    pub(super) fn titles(&self, order: SortOrder) -> Line {
        let arrow = if order.is_reversed { "↑" } else { "↓" };
        let title_text = |name: &str, title: &str| {
            let is_sorted = order.column == name && title != "FLEET" && title != "%";
            if is_sorted { format!("{title}{arrow}") } else { title.to_owned() }
        };
        let mut line = Line::new().gap(MARK_WIDTH);
        line = line.left_aligned(&title_text("user", "USER"), self.name, Tone::Faint);
        line = line.clickable(Click::Column("user"));
        for (index, width, ColumnSpec { title, sort, .. }) in self.headings() {
            line = line.gap(self.gap);
            line = if index == BAR_COLUMN {
                line.left_aligned(title, width, Tone::Faint)
            } else {
                line.right_aligned(&title_text(sort, title), width, Tone::Faint)
            };
            line = line.clickable(Click::Column(sort));
        }
        if order.column == "user" || self.headings().any(|(.., spec)| spec.sort == order.column) {
            return line;
        }
        let label = COLUMNS.iter().find(|column| column.name == order.column);
        let label = label.map_or("", |column| column.label);
        line.gap(2).text(format!("by {label}{arrow}"), Tone::Faint)
    }

    fn cells(&self, cells: &[UserCell; 9]) -> Line {
        let known =
            self.shown.iter().filter_map(|(index, width)| Some((cells.get(*index)?, *width)));
        known.fold(Line::new(), |line, (cell, width)| {
            let line = line.gap(self.gap);
            match cell {
                UserCell::Text(text, tone) => line.right_aligned(text, width, *tone),
                UserCell::Bar(share) => line.bar(*share, width, Tone::Mid),
            }
        })
    }
}

enum UserCell {
    Text(String, Tone),
    Bar(Option<f32>),
}

impl UserCell {
    fn plain(text: impl Into<String>) -> Self {
        Self::Text(text.into(), Tone::Plain)
    }
}

/// Returns the summary: how much of the fleet is held, and what the sums leave out.
pub(super) fn summary(usage: &Users, width: u16) -> Vec<Line> {
    let (fresh, all) = usage.nodes;
    let known = usage.entries.iter().filter(|(user, _)| user.is_known()).count();
    let plural = |count: usize, noun: &str| {
        if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
    };
    let mut line = Line::styled(plural(known, "user"), Tone::Strong)
        .text(format!(" · {} of {} devices held", usage.held, usage.devices), Tone::Plain);
    if let Some(power) = usage.power {
        line = line.text(format!(" · {}", watts(power)), Tone::Plain);
    }
    if fresh < all {
        let excluded = plural(all - fresh, "node");
        let text = format!(" · {excluded} not fresh, excluded");
        line = line.text(text, Tone::Warn);
    }
    for (user, user_usage) in usage.entries.iter().filter(|(user, _)| !user.is_known()) {
        let text = match user {
            User::Hidden => format!("{} hidden", plural(user_usage.processes, "process")),
            User::Unknown | User::Named(_) | User::Number(_) => {
                format!("{} of unknown users", plural(user_usage.processes, "process"))
            }
        };
        let text = text.replace("processs", "processes");
        line = line.text(format!(" · {text}"), Tone::Faint);
    }
    vec![line.truncated(width)]
}

fn watts(power: f32) -> String {
    match power {
        power if power < 999.5 => format!("{power:.0} W"),
        power if power < 99_950.0 => format!("{:.1} kW", power / 1e3),
        power if power < 999_500.0 => format!("{:.0} kW", power / 1e3),
        power => format!("{:.2} MW", power / 1e6),
    }
}

/// Returns one row as a line.
pub(super) fn row(
    context: RenderContext<'_>,
    usage: &Users,
    row: &UserRow,
    columns: &Columns,
    unfolded: Option<&User>,
) -> Line {
    match row {
        UserRow::User { user } => {
            let Some(user_usage) = usage.usage_of(user) else { return Line::new() };
            user_row(
                usage,
                (user, user_usage),
                columns,
                context.options.units(),
                unfolded == Some(user),
            )
        }
        UserRow::Node { user, node_usage, node_index } => {
            let node_usage =
                usage.usage_of(user).and_then(|user_usage| user_usage.nodes.get(*node_usage));
            let node = context.view.fleet.nodes.get(*node_index);
            node_usage.zip(node).map_or_else(Line::new, |(node_usage, node)| {
                node_row(context, node, node_usage, columns)
            })
        }
        UserRow::Process { node_index, use_index, .. } => {
            let node = context.view.fleet.nodes.get(*node_index);
            node.map_or_else(Line::new, |node| process_row(context, node, *use_index, columns))
        }
    }
}

fn user_row(
    usage: &Users,
    (user, user_usage): (&User, &UserUsage),
    columns: &Columns,
    units: Units,
    is_open: bool,
) -> Line {
    let percent_of =
        |part: f32, total: f32| (total > 0.0).then(|| (part / total * 100.0).min(100.0));
    let count = |number: usize| u16::try_from(number).map_or(f32::from(u16::MAX), f32::from);
    let share = percent_of(count(user_usage.devices), count(usage.devices));
    let name_tone = if user.is_known() { Tone::Strong } else { Tone::Faint };
    let front = Line::styled(if is_open { "- " } else { "+ " }, Tone::Faint);
    let front = front.left_aligned(&user.text(), columns.name, name_tone);
    let nodes = if user_usage.fresh_nodes == user_usage.nodes.len() {
        user_usage.nodes.len().to_string()
    } else {
        format!("{}/{}", user_usage.fresh_nodes, user_usage.nodes.len())
    };
    let is_stale = user_usage.fresh_nodes == 0;
    let number = |number: usize| if is_stale { UNKNOWN.to_owned() } else { number.to_string() };
    let idle_tone = if user_usage.idle_held > 0 { Tone::Warn } else { Tone::Plain };
    let cells = columns.cells(&[
        UserCell::plain(number(user_usage.devices)),
        UserCell::Bar(share.filter(|_| !is_stale)),
        UserCell::plain(percent(share.filter(|_| !is_stale))),
        UserCell::plain(number(user_usage.busy)),
        UserCell::Text(number(user_usage.idle_held), idle_tone),
        UserCell::plain(or_unknown(user_usage.memory, |bytes| units.amount(bytes))),
        UserCell::plain(or_unknown(user_usage.power, watts)),
        UserCell::plain(nodes),
        UserCell::plain(user_usage.jobs.len().to_string()),
    ]);
    if is_stale { front.append(cells.dimmed()) } else { front.append(cells) }
}

fn node_row(
    context: RenderContext<'_>,
    node: &Node,
    node_usage: &NodeUsage,
    columns: &Columns,
) -> Line {
    let front = Line::new().gap(MARK_WIDTH + 2);
    let name = columns.name.saturating_sub(2);
    let front = front.left_aligned(node.name.label(), name, Tone::Plain);
    let mut line =
        front.gap(columns.gap).right_aligned(&node_usage.devices.to_string(), 8, Tone::Plain);
    let unit = if node_usage.devices == 1 { " device" } else { " devices" };
    line = line.text(unit, Tone::Faint);
    if node_usage.is_fresh {
        return line;
    }
    let text = match node.taken_at() {
        Some(at) => format!("  {} old, excluded", format_age(context.view.now.since(at))),
        None => "  no current data".to_owned(),
    };
    line.dimmed().text(text, Tone::Warn)
}

fn process_row(context: RenderContext<'_>, node: &Node, at: usize, columns: &Columns) -> Line {
    let Some(used) = node.uses.get(at) else { return Line::new() };
    let process = node.process(used.pid);
    let is_used = |device: &&Device| device.uuid == used.device;
    let device = node.devices.iter().find(is_used);
    let device = device.map_or_else(|| UNKNOWN.to_owned(), |device| device_label(node, device));
    let command = process.and_then(|process| process.statics.command.known());
    let command = command.map(|text| &**text).or(used.driver_name.as_deref());
    let memory = used.memory.get().map(|bytes| context.options.units().amount(bytes));
    let time = process.and_then(|process| process.running_seconds.get());
    let time = time.map(|seconds| format_run_time(std::time::Duration::from_secs(seconds)));
    let job = node.job_of(used.pid).map(ToString::to_string);
    let line = Line::new()
        .gap(MARK_WIDTH + 4)
        .right_aligned(&used.pid.to_string(), columns.name.saturating_sub(4).max(7), Tone::Plain)
        .gap(columns.gap)
        .text("#", Tone::Faint)
        .left_aligned(&device, 4, Tone::Plain)
        .right_aligned(&memory.unwrap_or_else(|| UNKNOWN.to_owned()), 7, Tone::Plain)
        .gap(1)
        .right_aligned(&percent(percent_value(used.sm)), 3, Tone::Plain)
        .text("%", Tone::Faint)
        .gap(1)
        .right_aligned(&time.unwrap_or_else(|| UNKNOWN.to_owned()), 9, Tone::Plain)
        .gap(2);
    let line = match job {
        Some(job) => line.text(format!("job {job}  "), Tone::Faint),
        None => line,
    };
    let line = line.text(command.unwrap_or(UNKNOWN), Tone::Plain);
    if NodeStatus::of(node, context.view.now).is_fresh() { line } else { line.dimmed() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_fits_its_column() {
        for (power, text) in [
            (0.0, "0 W"),
            (999.0, "999 W"),
            (2_707.0, "2.7 kW"),
            (9_999.9, "10.0 kW"),
            (250_000.0, "250 kW"),
            (5_360_100.0, "5.36 MW"),
        ] {
            assert_eq!(watts(power), text);
            assert!(watts(power).len() <= 8);
        }
    }
}
