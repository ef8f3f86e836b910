//! In place of recordings, in a library without the feature `record`: there is no recorder.

use std::sync::Arc;

use crate::wire::Delivery;
use gtop_model::{JobList, Mark, NodeName};

/// Takes the events of nodes; there is none.
#[derive(Clone, Debug)]
pub enum RecorderSink {}

/// Records the events of one node; there is none.
#[derive(Debug)]
pub enum NodeRecorder {}

impl RecorderSink {
    /// Returns true while there is a recorder.
    pub fn is_recording(&self) -> bool {
        match *self {}
    }

    /// Records the nodes and jobs that are watched.
    pub fn on_roster(&self, _names: impl Iterator<Item = NodeName>, _jobs: Option<Arc<JobList>>) {
        match *self {}
    }

    /// Records a mark.
    pub fn mark(&self, _mark: Mark) {
        match *self {}
    }

    /// Returns the recorder of one node.
    pub fn node(&self, _name: &NodeName) -> NodeRecorder {
        match *self {}
    }
}

impl NodeRecorder {
    /// Records what arrived.
    pub fn on_delivery(&mut self, _delivery: Delivery) {
        match *self {}
    }
}
