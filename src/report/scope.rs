//! What is recorded, and how it is divided.

use crate::report::filter::ReportFilter;
use crate::report::intervals::TimeIntervals;
use crate::report::series::StepGrid;
use crate::time::Timestamp;

/// What is recorded, and how it is divided.
#[derive(Clone, Debug)]
pub(super) struct ReportScope {
    /// The times that count.
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) grid: StepGrid,
    /// The recorded times of each file, and of all.
    pub(super) spans_by_file: Vec<TimeIntervals>,
    pub(super) spans: TimeIntervals,
    pub(super) has_commands: bool,
    /// Whose devices and time count.
    pub(super) filter: ReportFilter,
}

impl ReportScope {
    /// Returns the recorded seconds between two times.
    pub(super) fn recorded_seconds(&self, from: Timestamp, to: Timestamp) -> f64 {
        if to <= from {
            return 0.0;
        }
        self.spans.intersection(&TimeIntervals::new(vec![(from, to)])).seconds()
    }
}
