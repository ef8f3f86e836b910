//! The process table of a node: the processes on each device and what they use.

use crate::node_panel::state::NodePanel;
use crate::process_order;
use crate::process_row::ProcessEntry;
use crate::process_target::{short_command, skip_columns, unusual_state};
use crate::render_context::{RenderContext, Size};
use crate::widgets::explanation::Fact;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::Viewport;
use crate::widgets::number_format::{Units, format_run_time, or_unknown, percent_value};
use crate::widgets::table::{self, Cell, Fade, Table, TableColumn, TableRoom};
use gtop_fleet::Node;
use gtop_fleet::insight::node_status::{device_label, shown_id};
use gtop_fleet::insight::{RowId, process_rows};
use gtop_fleet::metrics::{PROCESS, help_of};
use gtop_fleet::query::DisplaySelection;
use gtop_fleet::settings::ColumnSpec;
use gtop_local::text::{UNKNOWN, width_of};
use gtop_local::time::Timestamp;
use gtop_model::{Bytes, DeviceUse, JobList, Link, Reading, Reason, UnseenReason, UseKind, Vendor};

/// From this width on, the command has room before columns that may be left out.
const WIDE_WIDTH: u16 = 80;
const MIN_COMMAND_WIDTH: u16 = 20;

/// Draws the titles and the visible rows in `height` lines; returns which rows are visible, too.
pub(crate) fn lines(
    context: RenderContext<'_>,
    node: &Node,
    panel: &NodePanel,
    (width, height): Size,
) -> (Vec<Line>, Viewport) {
    let now = context.view.now;
    let rows = panel.process_rows(node);
    let cursor = panel.cursor(node);
    let cursor_index = rows.iter().position(|(_, row_id)| cursor.as_ref() == Some(row_id));
    let selected = cursor_index.and_then(|at| node.uses.get(rows.get(at)?.0));
    let table = UseTable::laid_out(context, (node, selected), width, panel);
    let is_fresh = node.link == Link::Up && has_fresh_process_lists(node, now);
    // The PIDs of one's own processes are bold, or of those that match a filter; all, if all belong to others.
    let is_filtered = !context.view.filter.is_empty();
    let login = node.hello.as_ref().map(|hello| &hello.host.user);
    let mut statics = node.uses.iter().filter_map(|used| node.statics_of(used.pid));
    let has_own =
        !is_filtered && login.is_some() && statics.any(|statics| statics.user.known() == login);
    let (lines, visible) = panel.scroll.processes.lines(
        Some(table.sorted_titles(
            |spec| spec.name == panel.order.column,
            process_order::is_rising(panel.order),
        )),
        (rows.len(), cursor_index),
        (width, height),
        |at| {
            let used = node.uses.get(rows.get(at)?.0)?;
            let entry = ProcessEntry::of(node, used);
            let fade = match entry.unseen {
                _ if !is_fresh => Fade::All,
                Some(unseen) if unseen.why == UnseenReason::Gone => Fade::All,
                _ if !context.view.matches_use(node, used) => Fade::Emphasis,
                _ if has_own && entry.is_ours() == Some(false) => Fade::Emphasis,
                _ => Fade::None,
            };
            Some(table.row(Line::new(), &entry, fade))
        },
    );
    if rows.is_empty() {
        let jobs = context.view.fleet.jobs.as_deref();
        let line = empty_line(node, jobs, &context.options.selection).truncated(width);
        return (vec![line], visible);
    }
    (lines, visible)
}

/// Returns the numbers of a process's row, those of all columns.
pub(crate) fn facts(context: RenderContext<'_>, node: &Node, row_id: &RowId) -> Vec<Fact> {
    let rows = process_rows(node);
    let found = rows.into_iter().find(|(_, known)| known == row_id);
    let used = found.and_then(|(index, _)| node.uses.get(index));
    let panel = NodePanel::default();
    let table = UseTable::laid_out(context, (node, None), u16::MAX, &panel);
    used.map(|used| table.facts(&ProcessEntry::of(node, used))).unwrap_or_default()
}

fn has_fresh_process_lists(node: &Node, now: Timestamp) -> bool {
    let mut lists = node.device_sources.iter().filter_map(|source| node.process_list(source));
    lists.all(|state| state.freshness(now).is_fresh())
}

fn empty_line(node: &Node, jobs: Option<&JobList>, selection: &DisplaySelection) -> Line {
    let devices = node.devices.iter().enumerate();
    let mut without_fault = devices.filter(|(_, device)| device.fault.is_none());
    let unknown = without_fault.find_map(|(index, _)| node.users_unknown_reason(index));
    if let Some(reason) = unknown.filter(|reason| *reason != Reason::NotSampled) {
        return Line::styled(format!("device users unknown: {}", reason.text()), Tone::Faint);
    }
    if let Some(text) = selection.no_processes_message(jobs) {
        return Line::styled(text, Tone::Faint);
    }
    let line = Line::styled("no processes use a device", Tone::Faint);
    let level = node.hello.as_ref().map_or(0, |hello| hello.host.hidepid);
    if level == 0 {
        return line;
    }
    let text = format!(" visible to us: /proc hides processes of other users (hidepid={level})");
    line.text(text, Tone::Faint)
}

pub(crate) fn has_only_tpus(node: &Node) -> bool {
    node.devices.iter().all(|device| device.vendor == Reading::Known(Vendor::Google))
}

/// What cells are drawn from, apart from their process.
#[derive(Clone, Copy)]
struct UseTable<'a> {
    node: &'a Node,
    selected: Option<&'a DeviceUse>,
    jobs: Option<&'a JobList>,
    units: Units,
    width: u16,
    has_only_tpus: bool,
    /// Has the tagged processes, and by how much commands are scrolled.
    panel: &'a NodePanel,
}

type Column<'a> = TableColumn<UseTable<'a>, ProcessEntry<'a>>;

pub(crate) fn column_specs() -> Vec<ColumnSpec> {
    table::specs(&UseTable::COLUMNS).to_vec()
}

impl<'a> UseTable<'a> {
    /// The first columns are always shown, then the command has its width, and others what is left.
    const COLUMNS: [Column<'a>; 13] = [
        Column::right("PID", 0, |table, entry, _| {
            let DeviceUse { pid, device, .. } = entry.used;
            let other = table.selected.filter(|selected| selected.device != *device);
            let is_tagged = |process| table.panel.is_tagged(table.node, process);
            let mark = match entry.process {
                Some(process) if is_tagged(process) => "*",
                _ if other.is_some_and(|other| other.pid == *pid) => "=",
                _ => "",
            };
            Cell::toned(format!("{mark}{pid}"), Tone::Strong)
        })
        .named(
            "pid",
            "",
            "process id of the node; * tagged; = the selected process, on another device",
        )
        .sized(|table, _| if table.is_reported(|used| used.pid >= 1_000_000) { 8 } else { 7 }),
        Column::left("USER", 8, |_, entry, _| Cell::of(entry.user(), str::to_owned))
            .named("user", "", help_of(PROCESS, "user"))
            .sized(|table, _| {
                let statics = table.node.uses.iter().map(|used| ProcessEntry::of(table.node, used));
                let longest = statics.filter_map(|entry| entry.user().map(width_of)).max();
                longest.unwrap_or(0).clamp(if table.width >= 110 { 12 } else { 8 }, 12)
            }),
        Column::right("GPU", 3, |_, entry, _| {
            Cell::of(entry.device, |device| device_label(entry.node, device))
        })
        .named("gpu", "", "number of the device")
        .or_titled(&["TPU"])
        .sized(|table, _| {
            let has_slices = table.node.devices.iter().any(|device| device.parent.is_some());
            if has_slices { 4 } else { 3 }
        })
        .titled(|table, _| if table.has_only_tpus { "TPU" } else { "GPU" }.into()),
        Column::left("TYPE", 4, |_, entry, _| {
            entry.used.kind.get().map_or(UNKNOWN, UseKind::as_str).into()
        })
        .named("type", "", help_of(PROCESS, "type"))
        .rank(5)
        .or_titled(&["TYP"])
        .sized(|table, _| match table.is_reported(|used| used.kind.get().is_some()) {
            true if table.width < 100 => 3,
            true => 4,
            false => 0,
        })
        .titled(|table, _| if table.width < 100 { "TYP" } else { "TYPE" }.into())
        .shown_from(76),
        Column::right("GPU-MEM", 7, |table, entry, _| table.amount(entry.used.memory.get()))
            .named("gpumem", "", help_of(PROCESS, "gpumem"))
            .or_titled(&["TPU-MEM"])
            .titled(|table, _| if table.has_only_tpus { "TPU-MEM" } else { "GPU-MEM" }.into()),
        Column::right("%SM", 3, |_, entry, _| Cell::percent(percent_value(entry.used.sm)))
            .named("psm", "", help_of(PROCESS, "psm"))
            .or_titled(&["%TC"])
            .titled(|table, _| if table.has_only_tpus { "%TC" } else { "%SM" }.into()),
        Column::right("%BW", 3, |_, entry, _| {
            Cell::percent(percent_value(entry.used.memory_utilization))
        })
        .named("pmembw", "", help_of(PROCESS, "pmembw"))
        .rank(6)
        .sized(|table, _| {
            if table.is_reported(|used| used.memory_utilization.get().is_some()) { 3 } else { 0 }
        })
        .shown_from(76),
        Column::right("%CPU", 5, |_, entry, _| Cell::percent(entry.cpu_percent()))
            .named("pcpu", "", help_of(PROCESS, "pcpu"))
            .rank(1)
            .shown_from(60),
        Column::right("%MEM", 4, |_, entry, _| {
            Cell::of(entry.resident_share(), |percent| format!("{percent:.1}"))
        })
        .named("prss", "", help_of(PROCESS, "prss"))
        .rank(4)
        .shown_from(110),
        Column::right("RSS", 6, |table, entry, _| table.amount(entry.resident()))
            .named("rss", "", help_of(PROCESS, "rss"))
            .rank(3)
            .shown_from(60),
        Column::right("TIME", 8, |_, entry, _| {
            let time = entry.process.and_then(|process| entry.node.run_time(process.key));
            Cell::of(time, format_run_time)
        })
        .named("time", "", help_of(PROCESS, "time"))
        .rank(2)
        .shown_from(70),
        Column::left("JOB", 10, |table, entry, _| {
            let job = entry.process.and_then(|process| process.statics.job.as_ref());
            or_unknown(job, |job| shown_id(table.jobs, job).into_owned()).into()
        })
        .named("job", "", help_of(PROCESS, "job"))
        .rank(7)
        .sized(|table, _| {
            let processes = table.node.processes.iter();
            let jobs = processes.filter_map(|process| process.statics.job.as_ref());
            // A cut id would be that of another job.
            let longest = jobs.map(|job| job.as_str().len()).max();
            longest.map_or(0, |length| if table.jobs.is_some() && length > 6 { 12 } else { 10 })
        })
        .shown_from(100),
        Column::rest("COMMAND", 0, |table, entry, _| {
            let command = skip_columns(&short_command(command(*entry), false), table.panel.shift);
            match unusual_state(entry.process, entry.unseen) {
                None => command.into(),
                Some((state, tone)) if command == UNKNOWN => Cell::toned(state, tone),
                Some((state, tone)) => Cell::toned(format!("{state} {command}"), tone),
            }
        })
        .named("command", "", help_of(PROCESS, "command"))
        .sized(|table, _| if table.width < WIDE_WIDTH { 1 } else { MIN_COMMAND_WIDTH }),
    ];

    fn laid_out(
        context: RenderContext<'a>,
        (node, selected): (&'a Node, Option<&'a DeviceUse>),
        width: u16,
        panel: &'a NodePanel,
    ) -> Table<'a, Self, ProcessEntry<'a>> {
        let jobs = context.view.fleet.jobs.as_deref();
        let units = context.options.units();
        let has_only_tpus = has_only_tpus(node);
        let table = Self { node, selected, jobs, units, width, has_only_tpus, panel };
        let gap = if width >= 110 { 2 } else { 1 };
        Table::fit(&Self::COLUMNS, table, &[], TableRoom::new(width, 0, gap))
    }

    fn is_reported(&self, read: fn(&DeviceUse) -> bool) -> bool {
        self.node.uses.iter().any(read)
    }

    fn amount(&self, bytes: Option<Bytes>) -> Cell {
        Cell::of(bytes, |bytes| self.units.amount(bytes))
    }
}

fn command(entry: ProcessEntry<'_>) -> &str {
    let command = entry.process.and_then(|process| process.statics.command.known());
    let command = command.filter(|command| !command.is_empty());
    command.or(entry.used.driver_name.as_ref()).map_or(UNKNOWN, |command| command)
}

/// Describes one process, with its full command line at the end.
pub(crate) fn detail(node: &Node, row_id: &RowId, jobs: Option<&JobList>) -> Option<Line> {
    let RowId::Process { device, pid, .. } = row_id else { return None };
    let used = node.uses.iter().find(|used| used.device == *device && used.pid == *pid)?;
    let entry = ProcessEntry::of(node, used);
    let owner = entry.user().unwrap_or(UNKNOWN);
    let statics = entry.process.map(|process| &process.statics);
    let parent = statics.and_then(|statics| statics.parent_pid.get());
    let job = statics.and_then(|statics| statics.job.as_ref());
    let details = [
        parent.map(|parent| format!("parent {parent}")),
        job.map(|job| format!("job {}", shown_id(jobs, job))),
        used.memory.reason().map(|reason| format!("memory: {}", reason.text())),
    ];
    let line = Line::styled(format!("{pid}  "), Tone::Strong).text(owner, Tone::Plain);
    let mut line = line.details(details.into_iter().flatten());
    if let Some((state, tone)) = unusual_state(entry.process, entry.unseen) {
        line = line.gap(2).text(state, tone);
    }
    Some(line.text(format!("  {}", command(entry)), Tone::Plain))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use gtop_fleet::Process;
    use gtop_model::{
        Device, NodeName, ProcessKey, ProcessState, ProcessStatics, TpuDetails, UnseenProcess,
    };

    fn tpu_node(is_held: Reading<bool>) -> Node {
        let mut node = Node::new(NodeName::new("tpu01").unwrap(), Duration::ZERO);
        let tpu = TpuDetails { is_held, ..TpuDetails::default() };
        node.devices = vec![Device {
            uuid: "tpu-1".into(),
            vendor: Reading::Known(Vendor::Google),
            tpu: Some(Arc::new(tpu)),
            ..Device::default()
        }]
        .into();
        node
    }

    #[test]
    fn tpu_chips_with_hidden_users_are_not_reported_as_unused() {
        let text = |is_held| {
            empty_line(&tpu_node(is_held), None, &DisplaySelection::default()).plain_text()
        };
        assert_eq!(text(Reading::Known(false)), "no processes use a device");
        let hidden = "device users unknown: no permission";
        assert_eq!(text(Reading::Known(true)), hidden);
        assert_eq!(text(Reading::Unknown(Reason::NoPermission)), hidden);
    }

    #[test]
    fn processes_that_are_gone_or_stopped_say_so_and_those_of_others_have_their_user() {
        let mut node = tpu_node(Reading::Known(true));
        let used = |pid| DeviceUse { device: "tpu-1".into(), pid, ..DeviceUse::default() };
        let elsewhere = DeviceUse { device: "tpu-2".into(), ..used(1) };
        node.uses = [used(1), used(2), used(3), used(4), elsewhere].into();
        let statics = |command: &str| {
            let command = Reading::Known(command.into());
            Arc::new(ProcessStatics { command, ..ProcessStatics::default() })
        };
        let process = |pid, state| Process {
            key: ProcessKey { pid, start_ticks: 1 },
            statics: statics("train.py"),
            state: Reading::Known(state),
            ..Process::default()
        };
        node.processes =
            [process(1, ProcessState::Running), process(2, ProcessState::Stopped)].into();
        let unseen = |pid, why, user: &str| UnseenProcess {
            pid,
            why,
            statics: ProcessStatics { user: Reading::Known(user.into()), ..Default::default() },
        };
        node.unseen =
            [unseen(3, UnseenReason::Gone, "ada"), unseen(4, UnseenReason::Hidden, "eve")].into();
        let (jobs, units, panel) = (None, Units::default(), NodePanel::default());
        let table = UseTable {
            node: &node,
            selected: node.uses.get(4),
            jobs,
            units,
            width: 50,
            has_only_tpus: true,
            panel: &panel,
        };
        let table = Table::fit(&UseTable::COLUMNS, table, &[], TableRoom::new(50, 0, 1));
        let row = |at: usize| {
            let used = &node.uses[at];
            let row = table.row(Line::new(), &ProcessEntry::of(&node, used), Fade::None);
            let text = row.plain_text();
            text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let rows = [0, 1, 2, 3].map(row);
        // The selected row is that of the same process on another device.
        assert_eq!((&*rows[0][0], &*rows[1][0]), ("=1", "2"));
        assert_eq!(rows[0].last().unwrap(), "train.py");
        assert_eq!(rows[1][rows[1].len() - 2..], ["stopped", "train.py"]);
        assert_eq!((&*rows[2][1], rows[2].last().unwrap().as_str()), ("ada", "gone"));
        assert_eq!(&*rows[3][1], "eve");
        assert!(rows[3].join(" ").ends_with("no permission"), "{:?}", rows[3]);
    }

    #[test]
    fn processes_on_tpu_chips_have_tpu_titles() {
        let node = tpu_node(Reading::Known(true));
        let (jobs, units, panel) = (None, Units::default(), NodePanel::default());
        let table = UseTable {
            node: &node,
            selected: None,
            jobs,
            units,
            width: 80,
            has_only_tpus: true,
            panel: &panel,
        };
        let room = TableRoom::new(80, 0, 1);
        let titles = Table::fit(&UseTable::COLUMNS, table, &[], room).titles().plain_text();
        assert!(titles.contains("TPU TPU-MEM %TC") && !titles.contains("GPU"), "{titles}");
    }
}
