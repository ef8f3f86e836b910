//! The rows of the table of runs, and what identifies them.

use std::sync::Arc;

use gtop_fleet::insight::runs::RunRow;
use gtop_model::{ProcessKey, RunId, RunTask, RunTreeProcess};

/// Identifies a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunRowId {
    pub(super) run: RunId,
    pub(super) process: Option<ProcessKey>,
    pub(super) thread: Option<u32>,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(super) struct TableRow {
    pub(super) run: Arc<RunRow>,
    /// The process of the run by its index in the tree, and its thread.
    pub(super) process: Option<(usize, Option<usize>)>,
}

impl TableRow {
    pub(super) fn id(&self) -> RunRowId {
        RunRowId {
            run: self.run.run.id.clone(),
            process: self.process().map(|process| process.key),
            thread: self.thread().map(|thread| thread.tid),
        }
    }

    pub(super) fn process(&self) -> Option<&RunTreeProcess> {
        let (index, _) = self.process?;
        self.run.process.as_ref()?.tree.get(index)
    }

    pub(super) fn thread(&self) -> Option<&RunTask> {
        let (_, thread) = self.process?;
        self.process()?.tasks.get(thread?)
    }
}
