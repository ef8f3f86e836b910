//! The identity of a row in the tables of the node view.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::Node;
use gtop_model::DeviceUse;

/// Identifies a row of the tables in the node view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowId {
    Device(Arc<str>),
    /// A process on a device.
    Process {
        /// The UUID of the device.
        device: Arc<str>,
        pid: u32,
        /// The start time, if known: pids are reused.
        start_ticks: Option<u64>,
    },
}

/// Returns the process rows of a node with their indices in `Node::uses`, in the order of the process table:
/// by device, then by memory in descending order.
pub fn process_rows(node: &Node) -> Vec<(usize, RowId)> {
    let mut uses: Vec<(usize, &DeviceUse)> = node.uses.iter().enumerate().collect();
    uses.sort_by_cached_key(|(_, used)| {
        let device = node.devices.iter().position(|device| device.uuid == used.device);
        let memory = used.memory.get().map_or(0, |bytes| bytes.0);
        (device.unwrap_or(usize::MAX), Reverse(memory), used.pid)
    });
    let rows = uses.into_iter().map(|(index, used)| {
        let start_ticks = node.process(used.pid).and_then(|process| process.key.start());
        (index, RowId::Process { device: Arc::clone(&used.device), pid: used.pid, start_ticks })
    });
    rows.collect()
}
