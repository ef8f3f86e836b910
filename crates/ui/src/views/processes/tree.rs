//! The page with the process tree of a node: processes that use devices, their ancestors and descendants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::drawn_view::DrawnView;
use crate::input::Click;
use crate::process_target::{ProcessTarget, short_command, skip_columns};
use crate::render_context::{RenderContext, Size};
use crate::request::NodeRequest;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::{ListCursor, Movement};
use crate::widgets::number_format::format_run_time;
use crate::widgets::table::{self, Cell, Fade, Table, TableColumn, TableRoom};
use gtop_fleet::insight::node_status::device_label;
use gtop_fleet::metrics::{PROCESS, help_of};
use gtop_fleet::settings::ColumnSpec;
use gtop_fleet::{Node, Process};
use gtop_local::text::{UNKNOWN, counted};
use gtop_local::time::{Timestamp, format_age};
use gtop_model::{
    NodeName, ProcessKey, ProcessRequest, ProcessState, ProcessTree, RequestError, TreeProcess,
};

/// Interval at which the tree is queried.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// After this time a reply counts as lost and the tree is queried again.
const REPLY_TIMEOUT: Duration = Duration::from_secs(8);
/// Deeper branches are drawn at this depth.
const MAX_DEPTH: usize = 24;

/// The process tree page of one node.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    node: NodeName,
    /// Depth first, in the order of the screen.
    rows: Vec<TreeRow>,
    is_truncated: bool,
    error: Option<RequestError>,
    replied_at: Option<Timestamp>,
    requested_at: Timestamp,
    is_waiting: bool,
    pub(super) cursor: ListCursor<ProcessKey>,
    shift: usize,
    is_full: bool,
}

#[derive(Clone, Debug)]
struct TreeRow {
    process: TreeProcess,
    /// Branch lines in front of the command.
    prefix: String,
    /// CPU since the previous reply; 100 is one core.
    cpu: Option<f32>,
}

impl Tree {
    /// Starts a page whose first request counts as sent.
    pub(super) fn new(node: NodeName, selected: Option<ProcessKey>, now: Timestamp) -> Self {
        let mut cursor = ListCursor::default();
        cursor.select(0, selected);
        Self {
            node,
            rows: Vec::new(),
            is_truncated: false,
            error: None,
            replied_at: None,
            requested_at: now,
            is_waiting: true,
            cursor,
            shift: 0,
            is_full: false,
        }
    }

    pub(super) fn request(&self) -> NodeRequest {
        NodeRequest { node: self.node.clone(), process_request: ProcessRequest::Tree(None) }
    }

    /// Returns the request if the interval or the timeout has passed.
    pub(super) fn due_request(&mut self, now: Timestamp) -> Option<NodeRequest> {
        let since = now.since(self.requested_at);
        let is_due = since >= if self.is_waiting { REPLY_TIMEOUT } else { POLL_INTERVAL }
            || now < self.requested_at;
        is_due.then(|| self.request_now(now))
    }

    /// Returns the request regardless of the interval.
    pub(super) fn request_now(&mut self, now: Timestamp) -> NodeRequest {
        (self.requested_at, self.is_waiting) = (now, true);
        self.request()
    }

    pub(super) fn shows_node(&self, node: &NodeName) -> bool {
        self.node == *node
    }

    /// Stores the reply and computes CPU since the previous one; after an error the previous tree stays.
    pub(super) fn on_reply(
        &mut self,
        answer: Result<&ProcessTree, &RequestError>,
        at: Timestamp,
        ticks: u32,
    ) {
        self.is_waiting = false;
        self.error = answer.err().cloned();
        let Ok(tree) = answer else { return };
        let seconds = self.replied_at.map(|replied_at| at.since(replied_at).as_secs_f64());
        let processes = self.rows.iter().map(|row| &row.process);
        let old_ticks: BTreeMap<ProcessKey, u64> =
            processes.filter_map(|known| Some((known.key, known.cpu_ticks.get()?))).collect();
        self.rows = build_rows(tree, |process| {
            let spent = process.cpu_ticks.get()?.checked_sub(*old_ticks.get(&process.key)?)?;
            cpu_percent(spent, ticks, seconds?)
        });
        self.cursor.follow(&self.rows, |row, key| row.process.key == *key);
        (self.is_truncated, self.replied_at) = (tree.is_truncated, Some(at));
    }

    pub(super) fn selected(&self, context: RenderContext<'_>) -> Option<ProcessTarget> {
        let at = self.find_cursor()?;
        let row = self.rows.get(at)?;
        Some(self.target(row, context.view.fleet.node(&self.node).map(|node| &**node)))
    }

    fn target(&self, row: &TreeRow, node: Option<&Node>) -> ProcessTarget {
        let process = &row.process;
        let user = process.user.known().cloned();
        let login = node.and_then(|node| node.hello.as_ref()).map(|hello| &hello.host.user);
        let listed = node.and_then(|node| node.process(process.key.pid));
        ProcessTarget {
            node: self.node.clone(),
            key: process.key,
            is_ours: user.as_ref().zip(login).map(|(user, login)| user == login),
            user,
            command: process.command.known().cloned().unwrap_or_default(),
            is_on_device: listed.is_some_and(|listed| listed.key == process.key),
        }
    }

    fn find_cursor(&self) -> Option<usize> {
        self.cursor.find(&self.rows, |row, key| row.process.key == *key)
    }

    pub(super) fn step(&mut self, step: Movement) {
        let selected = self.find_cursor();
        self.select(self.cursor.moved(step, self.rows.len(), selected));
    }

    pub(super) fn select(&mut self, index: usize) {
        self.cursor.select(index, self.rows.get(index).map(|row| row.process.key));
    }

    pub(super) fn scroll(&mut self, shift: impl Fn(usize) -> usize) {
        self.shift = shift(self.shift).min(4_096);
    }

    pub(super) fn show_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    pub(super) fn lines(
        &self,
        context: RenderContext<'_>,
        is_tagged: impl Fn(&(NodeName, ProcessKey)) -> bool,
        (width, height): Size,
    ) -> DrawnView {
        let now = context.view.now;
        let node = context.view.fleet.node(&self.node).map(|node| &**node);
        let mut lines = vec![self.title(node, now, width)];
        if let Some(error) = &self.error {
            lines.push(Line::styled(error.to_string(), Tone::Warn).truncated(width));
        }
        if self.rows.is_empty() {
            if self.error.is_none() && self.replied_at.is_some() {
                lines.push(Line::styled("no processes use a device", Tone::Faint).truncated(width));
            }
            lines.truncate(height);
            return lines.into();
        }
        let is_stale = self.replied_at.is_none_or(|at| now.since(at) > REPLY_TIMEOUT);
        let login = node.and_then(|node| node.hello.as_ref()).map(|hello| &hello.host.user);
        let mut users = self.rows.iter().map(|row| row.process.user.known());
        let has_ours = login.is_some() && users.any(|user| user == login);
        let cursor = self.find_cursor();
        let is_wide = width >= 110;
        let table = TreeTable { node, is_wide, shift: self.shift, is_full: self.is_full };
        let room = TableRoom::new(width, 1, if is_wide { 2 } else { 1 });
        let table = Table::fit(&TreeTable::COLUMNS, table, &[], room);
        let (below, list) = self.cursor.viewport.lines(
            Some(table.titles()),
            (self.rows.len(), cursor),
            (width, height.saturating_sub(lines.len())),
            |at| {
                let row = self.rows.get(at)?;
                let user = row.process.user.known();
                let is_others = has_ours && user.is_some() && user != login;
                let is_tagged = is_tagged(&(self.node.clone(), row.process.key));
                let fade = if is_others { Fade::Emphasis } else { Fade::None };
                let mark = Line::styled(if is_tagged { "*" } else { " " }, Tone::Accent);
                let line = table.row(mark, &DrawnProcess::of(row, node, is_others), fade);
                let line = if is_stale { line.dimmed() } else { line };
                Some(line.clickable_line(Click::Row(at)))
            },
        );
        lines.extend(below);
        lines.truncate(height);
        DrawnView { lines, list: Some(list), ..DrawnView::default() }
    }

    fn title(&self, node: Option<&Node>, now: Timestamp, width: u16) -> Line {
        let title = Line::styled("tree", Tone::Strong).gap(2).text(self.node.as_str(), Tone::Plain);
        let right = match (node, self.replied_at) {
            (None, _) => Line::styled("the node is no longer monitored", Tone::Warn),
            (Some(_), None) if self.error.is_some() => Line::new(),
            (Some(_), None) => Line::styled("waiting for the node", Tone::Faint),
            (Some(_), Some(at)) => {
                let count = self.rows.len();
                let prefix = if self.is_truncated { "the first " } else { "" };
                let line =
                    Line::styled(format!("{prefix}{}", counted(count, "process")), Tone::Faint);
                let span = now.since(at);
                if span > REPLY_TIMEOUT {
                    line.text(format!("  {} old", format_age(span)), Tone::Warn)
                } else {
                    line
                }
            }
        };
        title.with_right(right, width)
    }
}

/// Converts CPU ticks over a span in seconds to percent of one core.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "two digits are shown"
)]
fn cpu_percent(spent: u64, ticks: u32, seconds: f64) -> Option<f32> {
    // Over a shorter span the result is too coarse.
    let is_measurable = seconds >= 0.5 && ticks > 0;
    is_measurable.then(|| (spent as f64 / f64::from(ticks) / seconds * 100.0) as f32)
}

/// Orders the processes depth first, each below its parent.
fn build_rows(tree: &ProcessTree, cpu: impl Fn(&TreeProcess) -> Option<f32>) -> Vec<TreeRow> {
    let known: BTreeSet<u32> = tree.processes.iter().map(|process| process.key.pid).collect();
    let mut children: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut roots = Vec::new();
    for (index, process) in tree.processes.iter().enumerate() {
        if process.parent_pid != process.key.pid && known.contains(&process.parent_pid) {
            children.entry(process.parent_pid).or_default().push(index);
        } else {
            roots.push(index);
        }
    }
    let mut rows = Vec::with_capacity(tree.processes.len());
    let mut visited = BTreeSet::new();
    // In a cycle of parents no process is a root, so all processes are tried after the roots.
    let tops = roots.into_iter().chain(0..tree.processes.len());
    for top in tops {
        visit_subtree(tree, top, &mut children, &mut visited, |process, prefix| {
            rows.push(TreeRow { process: process.clone(), prefix, cpu: cpu(process) });
        });
    }
    rows
}

/// Calls `visit` for a process and its descendants, depth first, each with its branch lines.
fn visit_subtree(
    tree: &ProcessTree,
    root: usize,
    children_of: &mut BTreeMap<u32, Vec<usize>>,
    visited: &mut BTreeSet<usize>,
    mut visit: impl FnMut(&TreeProcess, String),
) {
    // The stack: index, branch lines in front of the children, branch lines of the process itself.
    let mut stack = vec![(root, String::new(), String::new())];
    while let Some((index, lead, prefix)) = stack.pop() {
        let Some(process) = tree.processes.get(index) else { continue };
        if !visited.insert(index) {
            continue;
        }
        let children = children_of.remove(&process.key.pid).unwrap_or_default();
        let last = children.len().saturating_sub(1);
        for (at, child) in children.into_iter().enumerate().rev() {
            let (branch, indent) =
                if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let is_deep = lead.chars().count() >= MAX_DEPTH * 3;
            let indent = if is_deep { lead.clone() } else { format!("{lead}{indent}") };
            stack.push((child, indent, format!("{lead}{branch}")));
        }
        visit(process, prefix);
    }
}

/// What cells are drawn from, apart from their row.
struct TreeTable<'a> {
    node: Option<&'a Node>,
    is_wide: bool,
    shift: usize,
    is_full: bool,
}

/// A row, and what else the node reports about its process.
struct DrawnProcess<'a> {
    row: &'a TreeRow,
    known: Option<&'a Process>,
    /// The devices it uses.
    devices: Option<String>,
    /// The tone of pid and command.
    tone: Tone,
}

type Column<'a> = TableColumn<TreeTable<'a>, DrawnProcess<'a>>;

pub(super) fn column_specs() -> Vec<ColumnSpec> {
    table::specs(&TreeTable::COLUMNS).to_vec()
}

impl<'a> TreeTable<'a> {
    const COLUMNS: [Column<'a>; 8] = [
        Column::right("PID", 7, |_, drawn, _| {
            Cell::toned(drawn.row.process.key.pid.to_string(), drawn.tone)
        })
        .named("", "", "process id of the node"),
        Column::left("USER", 8, |_, drawn, _| {
            drawn.row.process.user.known().map_or(UNKNOWN, |user| user).to_owned().into()
        })
        .named("", "", help_of(PROCESS, "user"))
        .sized(|table, _| if table.is_wide { 12 } else { 8 }),
        Column::left("DEVICE", 8, |_, drawn, _| {
            drawn.devices.as_deref().unwrap_or("host").to_owned().into()
        })
        .named("", "", "the device that it uses; host for a process without one")
        .sized(|table, _| if table.is_wide { 12 } else { 8 }),
        Column::right("THREADS", 7, |_, drawn, _| {
            let threads = drawn.known.and_then(|known| known.threads.get());
            Cell::of(threads, |threads| threads.to_string())
        })
        .named("", "", help_of(PROCESS, "threads"))
        .shown_from(70),
        Column::right("%CPU", 5, |_, drawn, _| {
            let sampled = drawn.known.and_then(|known| known.cpu_percent.get());
            Cell::percent(sampled.or(drawn.row.cpu))
        })
        .named("", "", help_of(PROCESS, "pcpu")),
        Column::right("%MEM", 4, |table, drawn, _| {
            let total = table.node.and_then(|node| node.host.fast.memory_total.get());
            let share = drawn.row.process.resident.get().zip(total.filter(|total| total.0 > 0));
            Cell::of(share, |(used, total)| format!("{:.1}", used.gib() / total.gib() * 100.0))
        })
        .named("", "", help_of(PROCESS, "prss")),
        Column::right("TIME", 8, |table, drawn, _| {
            let run_time = table.node.and_then(|node| node.run_time(drawn.row.process.key));
            Cell::of(run_time, format_run_time)
        })
        .named("", "", help_of(PROCESS, "time"))
        .shown_from(60),
        Column::rest("COMMAND", 1, |table, drawn, _| Cell::Line(table.command(drawn)))
            .named("", "", help_of(PROCESS, "command"))
            .keeps_tone(),
    ];

    fn command(&self, drawn: &DrawnProcess<'_>) -> Line {
        let TreeRow { process, prefix, .. } = drawn.row;
        let command = process.command.known().map_or("", |command| command);
        let command = short_command(command, self.is_full);
        let state = match process.state.get() {
            Some(ProcessState::Zombie) => "zombie ",
            Some(ProcessState::Stopped) => "stopped ",
            Some(ProcessState::Traced) => "traced ",
            Some(_) | None => "",
        };
        let command_shift = self.shift.saturating_sub(prefix.chars().count());
        Line::styled(skip_columns(prefix, self.shift), Tone::Faint)
            .text(state, Tone::Warn)
            .text(skip_columns(&command, command_shift), drawn.tone)
    }
}

impl<'a> DrawnProcess<'a> {
    fn of(row: &'a TreeRow, node: Option<&'a Node>, is_others: bool) -> Self {
        let key = row.process.key;
        let known = node.and_then(|node| node.process(key.pid)).filter(|known| known.key == key);
        let devices = node.filter(|_| known.is_some()).map(|node| devices(node, key.pid));
        let tone = match (is_others, devices.is_some()) {
            (false, true) => Tone::Strong,
            _ => Tone::Plain,
        };
        Self { row, known, devices, tone }
    }
}

/// Formats the devices that a process uses: `GPU 1,3`.
fn devices(node: &Node, pid: u32) -> String {
    let used: BTreeSet<&Arc<str>> =
        node.uses.iter().filter(|used| used.pid == pid).map(|used| &used.device).collect();
    let devices = node.devices.iter().filter(|device| used.contains(&device.uuid));
    let is_tpu = devices.clone().any(|device| device.tpu.is_some());
    let labels: Vec<String> = devices.map(|device| device_label(node, device)).collect();
    format!("{} {}", if is_tpu { "TPU" } else { "GPU" }, labels.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::Reading;

    fn process(pid: u32, parent_pid: u32) -> TreeProcess {
        TreeProcess {
            key: ProcessKey { pid, start_ticks: 1 },
            parent_pid,
            uid: Reading::default(),
            user: Reading::default(),
            state: Reading::default(),
            cpu_ticks: Reading::Known(u64::from(pid)),
            resident: Reading::default(),
            command: Reading::default(),
        }
    }

    fn lines_of(pairs: &[(u32, u32)]) -> Vec<String> {
        let processes = pairs.iter().map(|(pid, parent)| process(*pid, *parent)).collect();
        let tree = ProcessTree { processes, is_truncated: false };
        let rows = build_rows(&tree, |_| None);
        rows.iter().map(|row| format!("{}{}", row.prefix, row.process.key.pid)).collect()
    }

    #[test]
    fn children_are_below_their_parent_and_the_last_ends_the_branch() {
        let tree = [(1, 0), (10, 1), (20, 1), (11, 10), (12, 10), (21, 20)];
        let lines = ["1", "├─ 10", "│  ├─ 11", "│  └─ 12", "└─ 20", "   └─ 21"];
        assert_eq!(lines_of(&tree), lines);
    }

    #[test]
    fn an_inconsistent_tree_is_still_drawn() {
        assert_eq!(lines_of(&[(5, 5)]), ["5"]);
        assert_eq!(lines_of(&[(1, 0), (1, 0), (2, 1)]).len(), 3);
        assert_eq!(lines_of(&[(1, 2), (2, 1)]), ["1", "└─ 2"]);
        let deep: Vec<(u32, u32)> = (1..2_000).map(|pid| (pid, pid - 1)).collect();
        let lines = lines_of(&deep);
        assert_eq!(lines.len(), 1_999);
        assert!(lines.iter().all(|line| line.chars().count() < 90));
    }

    #[test]
    fn cpu_is_computed_between_two_replies() {
        let second = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let mut tree = Tree::new(NodeName::new("a").unwrap(), None, second(0));
        let mut reply = ProcessTree { processes: vec![process(7, 0)], is_truncated: false };
        tree.on_reply(Ok(&reply), second(1), 100);
        assert_eq!(tree.rows[0].cpu, None);
        reply.processes[0].cpu_ticks = Reading::Known(107);
        tree.on_reply(Ok(&reply), second(3), 100);
        assert_eq!(tree.rows[0].cpu, Some(50.0));
    }

    #[test]
    fn the_tree_is_queried_every_two_seconds_and_not_while_a_reply_is_pending() {
        let second = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let mut tree = Tree::new(NodeName::new("a").unwrap(), None, second(0));
        assert_eq!(tree.due_request(second(3)), None);
        assert!(tree.due_request(second(9)).is_some());
        tree.on_reply(Err(&RequestError::Down), second(10), 100);
        assert_eq!(tree.due_request(second(10)), None);
        assert!(tree.due_request(second(11)).is_some());
    }
}
