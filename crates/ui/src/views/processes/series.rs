//! Series of processes that were on the screen, one point per second.

use std::collections::{BTreeMap, BTreeSet};

use crate::process_row::{ProcessEntry, ProcessRow, RowKey};
use crate::widgets::number_format::{gib, percent_value};
use crate::widgets::series::TimeSeries;
use gtop_local::time::Timestamp;
use gtop_model::table;

/// Points per series, which is 10 minutes.
const MAX_POINTS: usize = 600;
/// Limit of processes that have a series.
const MAX_SERIES: usize = 256;

table! {
    /// A metric of a process that has a graph, with its name on a GPU and on a TPU chip.
    pub(super) enum GraphMetric {
        /// CPU time; 100 is one core.
        Cpu = ["CPU", "CPU"],
        /// In GiB.
        DeviceMemory = ["GPU-MEM", "TPU-MEM"],
        /// In GiB.
        HostMemory = ["HOST-MEM", "HOST-MEM"],
        /// Load of the device, in percent.
        Load = ["SM", "TPU, whole chip"],
    }
    pub(super) const ALL;
    pub(super) fn names -> [&'static str; 2];
}

impl GraphMetric {
    fn read(self, entry: ProcessEntry<'_>) -> Option<f32> {
        match self {
            Self::Cpu => entry.cpu_percent(),
            Self::DeviceMemory => entry.used.memory.get().map(gib),
            Self::HostMemory => entry.resident().map(gib),
            Self::Load => entry.load().or_else(|| percent_value(entry.used.occupancy)),
        }
    }
}

type Point = [Option<f32>; 4];

/// The series of one process on one device.
#[derive(Clone, Debug, Default)]
pub(super) struct Series(TimeSeries<Point>);

impl Series {
    /// Returns the last `count` points, oldest first, `None` where nothing was recorded.
    pub(super) fn last(&self, metric: GraphMetric, count: usize) -> Vec<Option<f32>> {
        let points = self.0.until(self.0.last_second(), count);
        points.map(|point| *point?.get(metric as usize)?).collect()
    }

    /// Returns the highest value of the whole series.
    pub(super) fn highest(&self, metric: GraphMetric) -> Option<f32> {
        let values = self.0.points().filter_map(|point| *point.get(metric as usize)?);
        values.reduce(f32::max)
    }

    pub(super) fn seconds(&self) -> usize {
        self.0.points().len()
    }
}

/// The series of all processes that were on the screen.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessSeries {
    series: BTreeMap<RowKey, Series>,
}

impl ProcessSeries {
    /// Adds a point to each series that exists already.
    pub(super) fn extend_known(&mut self, rows: &[ProcessRow], now: Timestamp) {
        if self.series.is_empty() {
            return;
        }
        let pids: BTreeSet<u32> = self.series.keys().map(|key| key.pid).collect();
        let known = rows.iter().filter(|row| {
            let entry = row.entry().filter(|entry| pids.contains(&entry.used.pid));
            entry.is_some_and(|entry| self.series.contains_key(&entry.key()))
        });
        let known: Vec<&ProcessRow> = known.collect();
        self.record(known.into_iter(), now);
    }

    /// Adds a point for each row. If there are too many series, the one updated least recently is
    /// dropped.
    pub(super) fn record<'a>(
        &mut self,
        rows: impl Iterator<Item = &'a ProcessRow>,
        now: Timestamp,
    ) {
        let second = now.second();
        for entry in rows.filter_map(ProcessRow::entry).filter(|entry| !entry.has_ended) {
            let key = entry.key();
            if self.series.len() >= MAX_SERIES && !self.series.contains_key(&key) {
                self.remove_oldest();
            }
            let point = GraphMetric::ALL.map(|metric| metric.read(entry));
            self.series.entry(key).or_default().0.record(second, point, MAX_POINTS);
        }
    }

    fn remove_oldest(&mut self) {
        let oldest = self.series.iter().min_by_key(|(_, series)| series.0.last_second());
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.series.remove(&key);
        }
    }

    pub(super) fn get(&self, key: &RowKey) -> Option<&Series> {
        self.series.get(key)
    }

    /// Drops series that had no point for 60 seconds.
    pub(super) fn remove_stale(&mut self, now: Timestamp) {
        let second = now.second();
        self.series.retain(|_, series| second - series.0.last_second() < 60);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(value: f32) -> Point {
        [Some(value), None, None, None]
    }

    #[test]
    fn seconds_without_a_sample_are_gaps_and_the_oldest_points_are_dropped() {
        let mut series = Series::default();
        series.0.record(10, point(1.0), MAX_POINTS);
        series.0.record(10, point(2.0), MAX_POINTS);
        series.0.record(13, point(3.0), MAX_POINTS);
        assert_eq!(series.last(GraphMetric::Cpu, 5), [None, Some(2.0), None, None, Some(3.0)]);
        assert_eq!(series.last(GraphMetric::Load, 1), [None]);
        assert_eq!(series.highest(GraphMetric::Cpu), Some(3.0));
        assert_eq!(series.highest(GraphMetric::Load), None);
        (14..2_000).for_each(|second| series.0.record(second, point(1.0), MAX_POINTS));
        assert_eq!(series.seconds(), MAX_POINTS);
        // After a clock set back or a long pause the series starts over.
        series.0.record(5, point(1.0), MAX_POINTS);
        assert_eq!(series.seconds(), 1);
        series.0.record(5_000, point(1.0), MAX_POINTS);
        assert_eq!(series.seconds(), 1);
    }
}
