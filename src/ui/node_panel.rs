//! The panel of one node: title, problems, devices, chart, host and processes.

use std::sync::Arc;

use crate::fleet::Node;
use crate::insight::{RowId, process_rows};
use crate::model::NodeName;
use crate::ui::display_options::Density;
use crate::ui::node_panel::chart::ChartState;
use crate::ui::node_panel::series::NodeSeries;
use crate::ui::process_target::ProcessTarget;
use crate::ui::selection::SharedSelection;
use crate::ui::widgets::list::{Movement, Viewport};

pub(crate) mod attributes;
pub(crate) mod chart;
pub(crate) mod device_table;
pub(crate) mod host;
pub(crate) mod panel;
pub(crate) mod process_table;
pub(crate) mod series;

/// What a panel shows of its node, and the cursor in its tables.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodePanel {
    /// Density chosen with a key, `None` for that of the settings.
    pub(crate) density: Option<Density>,
    pub(crate) charts: ChartState,
    pub(crate) series: NodeSeries,
    pub(crate) hides_processes: bool,
    devices: Viewport,
    processes: Viewport,
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
            (self.devices, self.processes) = (Viewport::default(), Viewport::default());
        }
        self.node = selection.node_name().cloned();
    }

    /// Moves the cursor in the tables; without a cursor, scrolls the process table.
    pub(crate) fn step(&mut self, node: &Node, movement: Movement) {
        let Some(at) = self.cursor_index(node) else {
            let count = process_rows(node).len();
            let scrolled = movement.new_index(self.processes.top, count, self.processes.rows);
            self.processes.top = scrolled.min(count.saturating_sub(self.processes.rows));
            return;
        };
        let row_ids = self.row_ids(node);
        let page = self.devices.rows.max(self.processes.rows);
        self.cursor = row_ids.get(movement.new_index(at, row_ids.len(), page)).cloned();
    }

    /// Moves the cursor to the first row of the tables, unless it is in them already.
    pub(crate) fn enter(&mut self, node: &Node) {
        if self.cursor.is_none() {
            self.cursor = self.row_ids(node).first().cloned();
        }
    }

    /// Moves the cursor to a row.
    pub(crate) fn set_cursor(&mut self, row_id: Option<RowId>) {
        self.hides_processes &= !matches!(row_id, Some(RowId::Process { .. }));
        self.cursor = row_id;
    }

    /// Removes the cursor from the tables; returns true if it was there.
    pub(crate) fn leave(&mut self) -> bool {
        self.cursor.take().is_some()
    }

    /// Returns the row under the cursor.
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
        let uses = if self.hides_processes { Vec::new() } else { process_rows(node) };
        devices.chain(uses.into_iter().map(|(_, row_id)| row_id)).collect()
    }

    /// Returns the process under the cursor, or why there is none that can be signalled.
    pub(crate) fn signal_target(&self, node: Option<&Node>) -> Result<ProcessTarget, String> {
        let no_process = |hint: &str| format!("no process is under the cursor; {hint}");
        let no_cursor = || no_process("Enter moves it into the tables");
        let node = node.ok_or_else(no_cursor)?;
        let (pid, start_ticks) = match self.cursor(node) {
            Some(RowId::Process { pid, start_ticks, .. }) => (pid, start_ticks),
            Some(RowId::Device(_)) => return Err(no_process("processes are below the devices")),
            None => return Err(no_cursor()),
        };
        ProcessTarget::find(node, pid, start_ticks)
            .ok_or_else(|| "the node hides this process, so no signal can be sent".to_owned())
    }
}
