//! Draws the users table: a summary above columns of fixed width.

use std::borrow::Cow;
use std::time::Duration;

use crate::render_context::{RenderContext, Size};
use crate::timeline::time_text;
use crate::views::users::rows::{UserRow, UserRowKind, UserRows};
use crate::widgets::explanation::Fact;
use crate::widgets::line::{Line, Tone};
use crate::widgets::number_format::{
    device_time, format_run_time, or_unknown, percent, percent_value,
};
use crate::widgets::table::{self, Cell, Fade, Table, TableColumn, TableRoom};
use gtop_fleet::insight::node_status::{NodeStatus, device_label, shown_id};
use gtop_fleet::insight::users::{IdleDevice, NodeUsage, UserUsage, Users};
use gtop_fleet::query::{SortColumn, SortOrder};
use gtop_fleet::settings::ColumnSpec;
use gtop_fleet::{Node, User};
use gtop_local::text::{UNKNOWN, counted, width_of};
use gtop_local::time::{Timestamp, format_age, format_duration};

/// Columns of the fold marker and the gap after it.
const MARK_WIDTH: u16 = 2;
/// Where the number of devices of a node is drawn, under the first column after the name.
const DEVICES_WIDTH: u16 = 8;

/// Below this height, who wastes most has no line of its own.
const MIN_WASTE_HEIGHT: usize = 10;

const WASTED_HELP: &str =
    "device-hours held but idle since gtop watches; gaps between samples count as nothing";

/// All columns of the table; `user` always comes first.
pub const COLUMN_SPECS: [ColumnSpec; 11] = table::specs(&UserTable::COLUMNS);

/// The columns that the table can be sorted by.
const SORT_COLUMNS: [SortColumn; 10] = [
    SortColumn::new("user", 'u', "name", "by name"),
    SortColumn::new("devices", 'd', "devices held", "by number of devices"),
    SortColumn::new("busy", 'b', "busy devices", "by number of busy devices"),
    SortColumn::new("idle-held", 'i', "idle-held devices", "by number of idle-held devices")
        .formerly("idle"),
    SortColumn::new("wasted", 'h', "wasted device-hours", "by wasted device-hours"),
    SortColumn::new("mem", 'm', "device memory", "by device memory"),
    SortColumn::new("power", 'w', "power", "by power"),
    SortColumn::new("nodes", 'n', "nodes", "by nodes"),
    SortColumn::new("jobs", 'j', "jobs", "by jobs"),
    SortColumn::new("procs", 'p', "processes", "by processes"),
];

/// Returns the columns that the table can be sorted by.
pub fn sort_columns() -> Vec<SortColumn> {
    SORT_COLUMNS.to_vec()
}

/// What cells are drawn from, apart from their row.
pub(super) struct UserTable<'a> {
    context: RenderContext<'a>,
    usage: &'a Users,
    unfolded: Option<&'a User>,
    name_width: u16,
}

/// The sums of a user; the values of stale ones are unknown.
pub(super) struct UserSums<'a> {
    user: &'a User,
    usage: &'a UserUsage,
    is_stale: bool,
}

type Column<'a> = TableColumn<UserTable<'a>, UserSums<'a>>;
pub(super) type LaidOutUsers<'a> = Table<'a, UserTable<'a>, UserSums<'a>>;

impl<'a> UserTable<'a> {
    const COLUMNS: [Column<'a>; 11] = [
        Column::left("USER", 0, |_, row, _| {
            let tone = if row.user.is_known() { Tone::Strong } else { Tone::Faint };
            Cell::toned(row.user.text(), tone)
        })
        .named("user", "user", "the user; always shown first")
        .sized(|table, _| table.name_width)
        .keeps_tone(),
        Column::right("DEVICES", DEVICES_WIDTH, |_, row, _| row.number(row.usage.devices).into())
            .named("devices", "devices", "devices that jobs or processes of the user hold")
            .rank(1),
        Column::left("FLEET", 10, |table, row, _| Cell::Bar(table.share(row), Tone::Mid))
            .named("bar", "devices", "the share of all devices as a bar")
            .rank(9),
        Column::right("%", 3, |table, row, _| Cell::percent(table.share(row)))
            .named("share", "devices", "the share of all devices in percent")
            .rank(8),
        Column::right("BUSY", 5, |_, row, _| row.number(row.usage.busy).into())
            .named("busy", "busy", "devices of these at 5% utilization or more")
            .rank(4),
        Column::right("IDLE-HELD", 9, |_, row, _| {
            let tone = if row.usage.idle_held > 0 { Tone::Warn } else { Tone::Plain };
            Cell::Text(row.number(row.usage.idle_held), tone)
        })
        .named("idle-held", "idle-held", "devices of these that do no work")
        .rank(2),
        Column::right("WASTED", 7, |_, row, _| Cell::wasted(row.usage.wasted))
            .named("wasted", "wasted", WASTED_HELP)
            .rank(3),
        Column::right("MEM", 7, |table, row, _| {
            Cell::of(row.usage.memory, |bytes| table.context.options.units().amount(bytes))
        })
        .named("mem", "mem", "device memory in use by the user's processes")
        .rank(3),
        Column::right("POWER", 8, |_, row, _| Cell::of(row.usage.power, watts))
            .named("power", "power", "power draw of the devices; that of a shared one is divided")
            .rank(6),
        Column::right("NODES", 6, |_, row, _| match row.usage.nodes.len() {
            all if all == row.usage.fresh_nodes => all.to_string().into(),
            all => format!("{}/{all}", row.usage.fresh_nodes).into(),
        })
        .named("nodes", "nodes", "nodes, as fresh/all if some are stale")
        .rank(5),
        Column::right("JOBS", 5, |_, row, _| row.usage.jobs.len().to_string().into())
            .named("jobs", "jobs", "number of jobs that run")
            .rank(7),
    ];

    pub(super) fn laid_out(
        context: RenderContext<'a>,
        rows: &UserRows,
        unfolded: Option<&'a User>,
        width: u16,
    ) -> LaidOutUsers<'a> {
        let name_width = rows.name_width.clamp(4, (width / 3).clamp(4, 28));
        let table = Self { context, usage: context.view.users(), unfolded, name_width };
        let room = TableRoom::new(width, MARK_WIDTH, if width >= 100 { 2 } else { 1 });
        let mut table = Table::fit(&Self::COLUMNS, table, &context.options.columns.users, room);
        table.widen("bar", (table.spare / 2).min(30));
        table
    }

    /// Returns the share that a user holds of all devices.
    fn share(&self, row: &UserSums<'_>) -> Option<f32> {
        let [part, total] = [row.usage.devices, self.usage.devices]
            .map(|count| f32::from(u16::try_from(count).unwrap_or(u16::MAX)));
        (total > 0.0 && !row.is_stale).then(|| (part / total * 100.0).min(100.0))
    }
}

impl<'a> UserSums<'a> {
    fn new(user: &'a User, usage: &'a UserUsage) -> Self {
        Self { user, usage, is_stale: usage.fresh_nodes == 0 && !usage.nodes.is_empty() }
    }

    fn number(&self, number: usize) -> Cow<'static, str> {
        if self.is_stale { UNKNOWN.into() } else { number.to_string().into() }
    }
}

/// Returns the title line, with the sort column marked.
pub(super) fn titles(table: &LaidOutUsers<'_>, order: SortOrder) -> Line {
    let is_rising = (order.column == "user") != order.is_reversed;
    let line = table.sorted_titles(
        |spec| spec.sort == order.column && !matches!(spec.name, "bar" | "share"),
        is_rising,
    );
    if table.can_sort_by(order.column) {
        return line;
    }
    let label = SORT_COLUMNS.iter().find(|column| column.name == order.column);
    let label = label.map_or("", |column| column.label);
    let arrow = table::sort_arrow(is_rising);
    line.gap(2).text(format!("by {label}{arrow}"), Tone::Faint)
}

/// Returns the summary: how much of the fleet is held, and what the sums leave out.
pub(super) fn summary(context: RenderContext<'_>, usage: &Users, size: Size) -> Vec<Line> {
    let (width, height) = size;
    let (fresh, all) = usage.nodes;
    let known = usage.entries.iter().filter(|(user, _)| user.is_known()).count();
    let held = format!(" · {} of {} held", usage.held, counted(usage.devices, "device"));
    let mut line = Line::styled(counted(known, "user"), Tone::Strong).text(held, Tone::Plain);
    if let Some(power) = usage.power {
        line = line.text(format!(" · {}", watts(power)), Tone::Plain);
    }
    if fresh < all {
        let excluded = counted(all - fresh, "node");
        let text = format!(" · {excluded} not fresh, excluded");
        line = line.text(text, Tone::Warn);
    }
    for (user, user_usage) in usage.entries.iter().filter(|(user, _)| !user.is_known()) {
        let processes = counted(user_usage.processes, "process");
        let text = match user {
            User::Hidden => format!("{processes} hidden"),
            User::NotShown => format!("devices of {}", user.text()),
            User::Unknown | User::Named(_) | User::Number(_) => {
                format!("{processes} of unknown users")
            }
        };
        line = line.text(format!(" · {text}"), Tone::Faint);
    }
    let wasted = waste_line(context, usage, width).filter(|_| height >= MIN_WASTE_HEIGHT);
    [Some(line), wasted].into_iter().flatten().map(|line| line.truncated(width)).collect()
}

/// Names those who have wasted most device time, and who has most idle devices now, whatever the order of the rows.
fn waste_line(context: RenderContext<'_>, usage: &Users, width: u16) -> Option<Line> {
    let since = clock_text(context, usage.watched_since?);
    let mut users: Vec<&(User, UserUsage)> = usage.entries.iter().collect();
    users.retain(|(_, usage)| !usage.wasted.is_zero() || usage.idle_held > 0);
    users.sort_by(|(_, one), (_, other)| one.compare(other, "wasted"));
    // The first of those with equally many.
    let idlest = users.iter().enumerate().rev().max_by_key(|(_, (_, usage))| usage.idle_held);
    if let Some((idlest, _)) = idlest.filter(|(at, _)| *at > 2) {
        users.swap(2, idlest);
    }
    let mut line = Line::styled(format!("device time wasted since {since}: "), Tone::Faint);
    if users.is_empty() {
        return Some(line.text("nothing", Tone::Plain));
    }
    for (at, (user, usage)) in users.iter().take(3).enumerate() {
        let tone = if at == 0 { Tone::Warn } else { Tone::Plain };
        let gap = if at == 0 { "" } else { " · " };
        let text = format!("{} {}", user.text(), device_time(usage.wasted));
        line = line.text(gap, Tone::Faint).text(text, tone);
        if usage.idle_held > 0 {
            let idle = UserSums::new(user, usage).number(usage.idle_held);
            line = line.text(format!(" ({idle} idle now)"), tone);
        }
    }
    let meaning = "  wasted: held but idle";
    let is_fitting = line.width() + width_of(meaning) <= width;
    Some(if is_fitting { line.text(meaning, Tone::Faint) } else { line })
}

/// Formats a moment as a time of day; with its day if it is not of the last 24 hours.
fn clock_text(context: RenderContext<'_>, at: Timestamp) -> String {
    let is_old = context.view.now.since(at) >= Duration::from_secs(86_400);
    time_text(at, context.zone, if is_old { "%a %H:%M" } else { "%H:%M:%S" })
}

fn watts(power: f32) -> String {
    match power {
        power if power < 999.5 => format!("{power:.0} W"),
        power if power < 99_950.0 => format!("{:.1} kW", power / 1e3),
        power if power < 999_500.0 => format!("{:.0} kW", power / 1e3),
        power => format!("{:.2} MW", power / 1e6),
    }
}

pub(super) fn row<'a>(table: &LaidOutUsers<'a>, row: &'a UserRow) -> Option<Line> {
    let UserTable { context, usage, unfolded, .. } = table.context;
    match row.kind {
        UserRowKind::User => {
            let sums = UserSums::new(&row.user, usage.usage_of(&row.user)?);
            let mark = if unfolded == Some(&row.user) { "- " } else { "+ " };
            Some(table.row(Line::styled(mark, Tone::Faint), &sums, Fade::if_old(sums.is_stale)))
        }
        UserRowKind::Idle(at) => {
            let idle = usage.usage_of(&row.user)?.idle.get(at)?;
            Some(idle_row(table, row.node(context)?, idle))
        }
        UserRowKind::Node(at) => {
            let node_usage = usage.usage_of(&row.user)?.nodes.get(at)?;
            Some(node_row(table, row.node(context)?, node_usage))
        }
        UserRowKind::Process(at) => process_row(table, row.node(context)?, at),
    }
}

/// Returns the numbers of a user's row, those of all columns.
pub(super) fn facts<'a>(table: &LaidOutUsers<'a>, user: &'a User) -> Vec<Fact> {
    let usage: Option<&'a UserUsage> = table.context.usage.usage_of(user);
    usage.map(|usage| table.facts(&UserSums::new(user, usage))).unwrap_or_default()
}

fn node_row(table: &LaidOutUsers<'_>, node: &Node, node_usage: &NodeUsage) -> Line {
    let unit = if node_usage.devices == 1 { " device" } else { " devices" };
    let line = Line::new()
        .gap(MARK_WIDTH + 2)
        .left_aligned(node.name.label(), table.context.name_width.saturating_sub(2), Tone::Plain)
        .gap(table.room.gap)
        .right_aligned(&node_usage.devices.to_string(), DEVICES_WIDTH, Tone::Plain)
        .text(unit, Tone::Faint);
    if node_usage.is_fresh {
        return line;
    }
    let now = table.context.context.view.now;
    let text = match node.taken_at() {
        Some(at) => format!("  {} old, excluded", format_age(now.since(at))),
        None => "  no current data".to_owned(),
    };
    line.dimmed().text(text, Tone::Warn)
}

/// Draws a device that the user holds and leaves idle: where, for which job, and since when.
fn idle_row(table: &LaidOutUsers<'_>, node: &Node, idle: &IdleDevice) -> Line {
    let context = table.context.context;
    let device = or_unknown(node.device(&idle.uuid), |device| device_label(node, device));
    let mut line = Line::new()
        .gap(MARK_WIDTH + 2)
        .text(format!("{} #{device}", node.name.label()), Tone::Warn)
        .text("  idle ", Tone::Warn);
    if let Some(span) = &idle.span {
        let lasted = format_duration(context.view.now.since(span.since));
        let text = if span.is_lower_bound {
            format!("≥ {lasted}, since gtop watches")
        } else {
            format!("since {}, for {lasted}", clock_text(context, span.since))
        };
        line = line.text(text, Tone::Plain);
    }
    let Some(id) = &idle.job else { return line };
    let jobs = context.view.fleet.jobs.as_deref();
    let name = jobs.and_then(|jobs| jobs.job(id)).map_or("", |job| &*job.name);
    let id = shown_id(jobs, id);
    line.text(format!("  job {id} {name}"), Tone::Faint)
}

fn process_row(table: &LaidOutUsers<'_>, node: &Node, at: usize) -> Option<Line> {
    let UserTable { context, name_width, .. } = table.context;
    let used = node.uses.get(at)?;
    let process = node.process(used.pid);
    let device = node.device(&used.device);
    let device = or_unknown(device, |device| device_label(node, device));
    let command = process.and_then(|process| process.statics.command.known());
    let command = command.map(|text| &**text).or(used.driver_name.as_deref());
    let memory = or_unknown(used.memory.get(), |bytes| context.options.units().amount(bytes));
    let time = process.and_then(|process| process.running_seconds.get());
    let time = or_unknown(time.map(Duration::from_secs), format_run_time);
    let mut line = Line::new()
        .gap(MARK_WIDTH + 4)
        .right_aligned(&used.pid.to_string(), name_width.saturating_sub(4).max(7), Tone::Plain)
        .gap(table.room.gap)
        .text("#", Tone::Faint)
        .left_aligned(&device, 4, Tone::Plain)
        .right_aligned(&memory, 7, Tone::Plain)
        .gap(1)
        .right_aligned(&percent(percent_value(used.sm)), 3, Tone::Plain)
        .text("%", Tone::Faint)
        .gap(1)
        .right_aligned(&time, 9, Tone::Plain)
        .gap(2);
    if let Some(job) = node.job_of(used.pid) {
        let job = shown_id(context.view.fleet.jobs.as_deref(), job);
        line = line.text(format!("job {job}  "), Tone::Faint);
    }
    let line = line.text(command.unwrap_or(UNKNOWN), Tone::Plain);
    let is_fresh = NodeStatus::of(node, context.view.now).is_fresh();
    Some(if is_fresh { line } else { line.dimmed() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::display_options::DisplayOptions;
    use gtop_fleet::insight::FleetView;

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

    #[test]
    fn the_sums_of_a_user_without_nodes_are_known_and_those_of_stale_nodes_are_not() {
        let user = User::Named("ada".into());
        let ended = UserUsage::default();
        let node = NodeUsage { node_index: 0, is_fresh: false, devices: 1, uses: Vec::new() };
        let stale = UserUsage { nodes: vec![node], ..UserUsage::default() };
        let shown = |usage| UserSums::new(&user, usage).number(0).into_owned();
        assert_eq!((shown(&ended), shown(&stale)), ("0".to_owned(), UNKNOWN.to_owned()));
    }

    #[test]
    fn the_third_name_of_the_waste_line_is_who_has_most_idle_devices_now() {
        let wasting = |name: &str, seconds, idle_held| {
            let wasted = Duration::from_secs(seconds);
            let usage = UserUsage { idle_held, wasted, ..UserUsage::default() };
            (User::Named(name.into()), usage)
        };
        let all = [("ada", 50, 1), ("bob", 40, 0), ("carol", 30, 1), ("dave", 20, 7)];
        let named = |count: usize| {
            let entries =
                all.iter().take(count).map(|(name, time, idle)| wasting(name, *time, *idle));
            let watched_since = Some(Timestamp::default());
            let usage = Users { watched_since, entries: entries.collect(), ..Users::default() };
            let (view, options) = (FleetView::default(), DisplayOptions::default());
            let zone = jiff::tz::TimeZone::UTC;
            let context = RenderContext { view: &view, options: &options, zone: &zone };
            waste_line(context, &usage, 200).unwrap().plain_text()
        };
        assert!(
            named(3).contains("ada 50s (1 idle now) · bob 40s · carol 30s (1 idle now)"),
            "{}",
            named(3)
        );
        assert!(
            named(4).contains("ada 50s (1 idle now) · bob 40s · dave 20s (7 idle now)"),
            "{}",
            named(4)
        );
    }
}
