//! What is recorded, and how it is divided.

use crate::report::filter::ReportFilter;
use crate::report::intervals::TimeIntervals;
use crate::report::series::StepGrid;
use gtop_local::time::Timestamp;

/// What is recorded, and how it is divided.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportScope {
    /// The times that count.
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    /// When what is reported begins; a part of it may begin later.
    pub(super) begins: Timestamp,
    pub(super) grid: StepGrid,
    /// The recorded times of each file, and of all.
    pub(super) spans_by_file: Vec<TimeIntervals>,
    pub(super) spans: TimeIntervals,
    pub(super) has_commands: bool,
    /// Whose devices and time count.
    pub(super) filter: ReportFilter,
}

impl ReportScope {
    /// Returns the recorded times between two times.
    pub(super) fn recorded(&self, (from, to): (Timestamp, Timestamp)) -> TimeIntervals {
        if to <= from {
            return TimeIntervals::default();
        }
        self.spans.intersection(&TimeIntervals::new(vec![(from, to)]))
    }
}
