//! What is added up, and how it is divided.

use crate::sums::intervals::TimeIntervals;
use crate::sums::series::StepGrid;
use gtop_local::time::Timestamp;

/// What is added up, and how it is divided.
#[derive(Clone, Debug, Default)]
pub struct SumScope {
    /// The times that count.
    pub from: Timestamp,
    /// See `from`.
    pub to: Timestamp,
    /// When the whole begins; a part of it may begin later.
    pub begins: Timestamp,
    /// The steps of charts.
    pub grid: StepGrid,
    /// The recorded times of each file.
    pub recorded_by_file: Vec<TimeIntervals>,
    /// Those of all files.
    pub recorded: TimeIntervals,
    /// Command lines are kept.
    pub has_commands: bool,
}

impl SumScope {
    /// Returns the recorded times between two times.
    pub fn recorded_in(&self, (from, to): (Timestamp, Timestamp)) -> TimeIntervals {
        if to <= from {
            return TimeIntervals::default();
        }
        self.recorded.intersection(&TimeIntervals::new(vec![(from, to)]))
    }
}
