//! What is reported: which times, and whose devices.

use crate::report::filter::ReportFilter;
use gtop_collect::sums::{SumScope, TimeIntervals};
use gtop_local::time::Timestamp;

/// What is reported.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportScope {
    pub(super) sums: SumScope,
    /// Whose devices and time count.
    pub(super) filter: ReportFilter,
}

impl ReportScope {
    /// Returns the recorded times that count.
    pub(super) fn counted_times(&self) -> TimeIntervals {
        self.sums.recorded_in((self.sums.from, self.sums.to))
    }

    /// Returns the recorded times between two times.
    pub(super) fn recorded(&self, span: (Timestamp, Timestamp)) -> TimeIntervals {
        self.sums.recorded_in(span)
    }
}
