//! What a panel shows of its node, and the cursor in its tables.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::action::ProcessAction;
use crate::display_options::Density;
use crate::drawn_view::PanelScroll;
use crate::effect::Effect;
use crate::node_panel::chart::ChartState;
use crate::process_order;
use crate::process_row::ProcessEntry;
use crate::process_target::ProcessTarget;
use crate::selection::SharedSelection;
use crate::widgets::list::Movement;
use gtop_fleet::insight::{RowId, process_rows};
use gtop_fleet::query::SortOrder;
use gtop_fleet::{Node, Process};
use gtop_local::text::width_of;
use gtop_model::{NodeName, ProcessKey};

/// Columns by which one key press scrolls commands.
const SCROLL_COLUMNS: usize = 8;
/// Columns by which commands are scrolled at most.
const MAX_SHIFT: usize = 4_096;
/// Columns that stay visible of the longest command, scrolled to its end.
const SHOWN_END: usize = 20;

/// Returns the shift of commands after one key press.
pub(crate) const fn scrolled(shift: usize, is_forward: bool) -> usize {
    if is_forward { shift + SCROLL_COLUMNS } else { shift.saturating_sub(SCROLL_COLUMNS) }
}

/// What a panel shows of its node, and the cursor in its tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodePanel {
    /// Density chosen with a key, `None` for that of the settings.
    pub(crate) density: Option<Density>,
    pub(crate) charts: ChartState,
    pub(crate) hides_processes: bool,
    /// The order of the processes, that of their own view.
    pub(crate) order: SortOrder,
    /// The tagged processes, those of their own view.
    pub(crate) tags: BTreeSet<(NodeName, ProcessKey)>,
    /// Columns by which commands are scrolled to the right.
    pub(super) shift: usize,
    pub(crate) scroll: PanelScroll,
    cursor: Option<RowId>,
    /// The selected node, to which the cursor belongs.
    node: Option<NodeName>,
    selection_version: u64,
}

impl NodePanel {
    /// Turns to the selected node: the tables of another one are shown from the top, without a cursor.
    pub(crate) fn follow(&mut self, selection: &SharedSelection) {
        if self.selection_version != selection.version() {
            self.selection_version = selection.version();
            self.cursor = None;
            self.scroll = PanelScroll::default();
        }
        self.node = selection.node_name().cloned();
    }

    /// Returns the process rows of a node with their indices in `Node::uses`, sorted.
    pub(super) fn process_rows(&self, node: &Node) -> Vec<(usize, RowId)> {
        let rows = process_rows(node);
        let uses = rows.iter().map(|(index, _)| node.uses.get(*index));
        let entries = uses.map(|used| Some(ProcessEntry::of(node, used?)));
        let positions = process_order::positions(&entries.collect::<Vec<_>>(), self.order);
        positions.iter().filter_map(|at| rows.get(*at).cloned()).collect()
    }

    /// Shows the first process, with the cursor on it if it was on a process.
    pub(crate) fn show_first_process(&mut self, node: &Node) {
        self.scroll.processes.top = 0;
        if matches!(self.cursor(node), Some(RowId::Process { .. })) {
            self.cursor = self.process_rows(node).into_iter().next().map(|(_, row_id)| row_id);
        }
    }

    /// Selects the first process if nothing is selected.
    pub(crate) fn select_any_process(&mut self, node: &Node) {
        if self.cursor(node).is_none() && !self.hides_processes {
            self.cursor = self.process_rows(node).into_iter().next().map(|(_, row_id)| row_id);
        }
    }

    /// Moves the cursor down to the next process; one on several devices has several rows.
    pub(crate) fn step_past_process(&mut self, node: &Node) {
        let Some(RowId::Process { pid: selected, .. }) = self.cursor(node) else { return };
        let row_ids = self.row_ids(node).into_iter();
        let mut below = row_ids.skip(self.cursor_index(node).unwrap_or(0) + 1);
        let next = below.find(|row| !matches!(row, RowId::Process { pid, .. } if *pid == selected));
        self.cursor = next.or(self.cursor.take());
    }

    /// Returns true if a process is tagged.
    pub(crate) fn is_tagged(&self, node: &Node, process: &Process) -> bool {
        self.tags.contains(&(node.name.clone(), process.key))
    }

    /// Moves the cursor in the tables. Without a cursor, it appears: at the first process when it moves down, at
    /// the last device when it moves up, and at either end.
    pub(crate) fn step(&mut self, node: &Node, movement: Movement) {
        let row_ids = self.row_ids(node);
        let first_process = node.devices.len().min(row_ids.len().saturating_sub(1));
        let to = match (self.cursor_index(node), movement) {
            (Some(at), _) => {
                let page = self.scroll.devices.rows.max(self.scroll.processes.rows);
                movement.new_index(at, row_ids.len(), page)
            }
            (None, Movement::Down | Movement::PageDown) => first_process,
            (None, Movement::Up | Movement::PageUp) => node.devices.len().saturating_sub(1),
            (None, Movement::Home) => 0,
            (None, Movement::End) => row_ids.len().saturating_sub(1),
        };
        self.cursor = row_ids.get(to).cloned();
    }

    /// Moves the cursor to a process unless it is on one: from a device to its first process, from outside of the
    /// tables to the first process of the node. Returns true if it was on a process or outside, and is on one now.
    pub(crate) fn enter(&mut self, node: &Node) -> bool {
        let cursor = self.cursor(node);
        if matches!(cursor, Some(RowId::Process { .. })) {
            return true;
        }
        let row_ids = self.row_ids(node);
        let found = row_ids.iter().find(|row_id| match (row_id, &cursor) {
            (RowId::Process { device, .. }, Some(RowId::Device(wanted))) => device == wanted,
            (RowId::Process { .. }, _) => true,
            (RowId::Device(_), _) => false,
        });
        let is_found = found.is_some();
        if is_found || cursor.is_none() {
            self.cursor = found.or(row_ids.first()).cloned();
        }
        cursor.is_none() && is_found
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "other actions do not scroll")]
    /// Scrolls the commands of the process table, or ignores the action.
    pub(crate) fn scroll_commands(&mut self, node: Option<&Node>, action: ProcessAction) -> Effect {
        self.shift = match action {
            ProcessAction::Scroll { is_forward } => scrolled(self.shift, is_forward).min(MAX_SHIFT),
            ProcessAction::ScrollHome => 0,
            ProcessAction::ScrollEnd => {
                let processes = node.into_iter().flat_map(|node| node.processes.iter());
                let commands = processes.filter_map(|process| process.statics.command.known());
                let longest = commands.map(|command| usize::from(width_of(command))).max();
                longest.unwrap_or(0).saturating_sub(SHOWN_END).min(MAX_SHIFT)
            }
            _ => return Effect::Ignored,
        };
        Effect::Handled
    }

    pub(crate) fn set_cursor(&mut self, row_id: Option<RowId>) {
        self.hides_processes &= !matches!(row_id, Some(RowId::Process { .. }));
        self.cursor = row_id;
    }

    /// Removes the cursor from the tables; returns true if it was there.
    pub(crate) fn leave(&mut self) -> bool {
        self.cursor.take().is_some()
    }

    pub(crate) fn cursor(&self, node: &Node) -> Option<RowId> {
        self.row_ids(node).get(self.cursor_index(node)?).cloned()
    }

    /// Finds the row under the cursor; the first row if it is gone. Only the tables of the selected node have
    /// a cursor.
    fn cursor_index(&self, node: &Node) -> Option<usize> {
        let is_selected = self.node.as_ref().is_none_or(|name| *name == node.name);
        let cursor = self.cursor.as_ref().filter(|_| is_selected)?;
        let row_ids = self.row_ids(node);
        (!row_ids.is_empty())
            .then(|| row_ids.iter().position(|row_id| row_id == cursor).unwrap_or(0))
    }

    fn row_ids(&self, node: &Node) -> Vec<RowId> {
        let devices = node.devices.iter().map(|device| RowId::Device(Arc::clone(&device.uuid)));
        let uses = if self.hides_processes { Vec::new() } else { self.process_rows(node) };
        devices.chain(uses.into_iter().map(|(_, row_id)| row_id)).collect()
    }

    /// Returns the pid and the start time, if known, of the process under the cursor, or why there is none.
    pub(crate) fn selected_process(
        &self,
        node: Option<&Node>,
    ) -> Result<(u32, Option<u64>), String> {
        let hint = match node.and_then(|node| self.cursor(node)) {
            Some(RowId::Process { pid, start_ticks, .. }) => return Ok((pid, start_ticks)),
            Some(RowId::Device(_)) => "processes are below the devices",
            None => "↑ and ↓ select one",
        };
        Err(format!("no process is under the cursor; {hint}"))
    }

    /// Returns the process under the cursor, or why there is none that can be signalled.
    pub(crate) fn signal_target(&self, node: Option<&Node>) -> Result<ProcessTarget, String> {
        let (pid, start_ticks) = self.selected_process(node)?;
        node.and_then(|node| ProcessTarget::find(node, pid, start_ticks))
            .ok_or_else(|| "the node hides this process, so no signal can be sent".to_owned())
    }
}
