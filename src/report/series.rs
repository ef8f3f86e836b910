//! Values over time in equal steps, for charts.

use std::ops::AddAssign;
use std::time::Duration;

use gtop_fleet::LastState;
use gtop_fleet::usage::DeviceValues;
use gtop_local::time::Timestamp;

/// Steps of a chart: as many as a screen can show.
const MAX_STEPS: i64 = 720;
/// Steps that remain of them with any number of devices.
const MIN_STEPS: i64 = 100;
/// More devices than these have fewer steps, so that all fit in memory.
const MAX_DETAILED_DEVICES: i64 = 4_096;
/// Parts of a step whose means are compared for its minimum and maximum.
pub(super) const PARTS: usize = 8;
/// Lengths of steps in seconds, as people divide hours and days.
const STEP_SECONDS: [i64; 18] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200,
    86_400,
];

/// The steps of all charts of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepGrid {
    /// Begin of the first step.
    pub from: Timestamp,
    /// Length of a step.
    pub step: Duration,
    /// Number of steps.
    pub count: usize,
}

impl StepGrid {
    /// Divides a span into at most [`MAX_STEPS`] steps, so few that they fit in memory for this many devices.
    pub(super) fn new(from: Timestamp, to: Timestamp, devices: usize) -> Self {
        let devices = i64::try_from(devices).unwrap_or(i64::MAX).max(MAX_DETAILED_DEVICES);
        let max_steps = (MAX_STEPS * MAX_DETAILED_DEVICES / devices).max(MIN_STEPS);
        let seconds = i64::try_from(to.since(from).as_secs()).unwrap_or(i64::MAX).saturating_add(1);
        let days = (seconds / 86_400 / (max_steps - 1) + 1) * 86_400;
        let mut steps = STEP_SECONDS.into_iter();
        let step = steps.find(|step| seconds / step < max_steps - 1).unwrap_or(days);
        let first = from.second() - from.second().rem_euclid(step);
        let count = (to.second() - first) / step + 1;
        Self {
            from: Timestamp::from_micros(first.saturating_mul(1_000_000)),
            step: Duration::from_secs(u64::try_from(step).unwrap_or(1)),
            count: usize::try_from(count).unwrap_or_default(),
        }
    }

    /// Calls `add` with each part of a step that an interval covers, and the seconds of it.
    pub(super) fn for_each_part(
        self,
        (from, to): (Timestamp, Timestamp),
        mut add: impl FnMut(usize, f32),
    ) {
        let part = i64::try_from(self.step.as_micros()).unwrap_or(i64::MAX) / 8;
        let [mut begin, end] =
            [from, to].map(|at| at.as_micros().saturating_sub(self.from.as_micros()).max(0));
        while begin < end {
            let number = begin / part;
            let part_end = (number + 1).saturating_mul(part).min(end);
            let Ok(index) = usize::try_from(number) else { return };
            if index >= self.count * PARTS {
                return;
            }
            add(index, Duration::from_micros((part_end - begin).unsigned_abs()).as_secs_f32());
            begin = part_end;
        }
    }
}

/// Sums within a step, of one or several devices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeriesStep {
    /// Utilization times seconds, and seconds in which it is known.
    pub(super) utilization: [f32; 2],
    /// Memory in use times seconds and total memory times seconds, in GiB.
    pub(super) memory: [f32; 2],
    /// Power times seconds, and seconds in which it is known.
    pub(super) power: [f32; 2],
    /// Seconds in which devices are busy, idle-held, free, and seen at all.
    pub(super) devices: [f32; 4],
}

impl SeriesStep {
    fn add(&mut self, values: &DeviceValues, seconds: f32) {
        for (sums, value) in [
            (&mut self.utilization, values.utilization.map(|percent| [percent, 1.0])),
            (&mut self.memory, values.memory.map(|(used, total)| [gib(used), gib(total)])),
            (&mut self.power, values.power.map(|watts| [watts, 1.0])),
        ] {
            for (sum, value) in sums.iter_mut().zip(value.into_iter().flatten()) {
                *sum += value * seconds;
            }
        }
        let [busy, idle_held, free, seen] = &mut self.devices;
        *seen += seconds;
        match values.state {
            LastState::Busy => *busy += seconds,
            LastState::IdleHeld => *idle_held += seconds,
            LastState::Free => *free += seconds,
            LastState::Faulty | LastState::Unknown | LastState::Unavailable | LastState::InUse => {}
        }
    }
}

impl AddAssign<&Self> for SeriesStep {
    fn add_assign(&mut self, other: &Self) {
        let Self { utilization, memory, power, devices } = self;
        let sums = utilization.iter_mut().chain(memory).chain(power).chain(devices);
        let Self { utilization, memory, power, devices } = other;
        let more = utilization.iter().chain(memory).chain(power).chain(devices);
        sums.zip(more).for_each(|(sum, more)| *sum += more);
    }
}

/// Sums of all steps of a device, or of a job: the steps from the first to the last with a value.
#[derive(Clone, Debug, Default)]
pub(super) struct StepSeries {
    /// The number of the first step.
    pub(super) first: usize,
    pub(super) steps: Vec<SeriesStep>,
}

impl StepSeries {
    /// Adds values that held from a time to another; `share` is that of the device which counts.
    pub(super) fn add(
        &mut self,
        grid: StepGrid,
        span: (Timestamp, Timestamp),
        values: &DeviceValues,
        share: f64,
    ) {
        let share = weight(share);
        grid.for_each_part(span, |part, seconds| {
            self.step(part / PARTS).add(values, seconds * share);
        });
    }

    fn step(&mut self, number: usize) -> &mut SeriesStep {
        if self.steps.is_empty() {
            self.first = number;
        }
        if number < self.first {
            // Only after a clock was set back.
            let missing = self.first - number;
            self.steps.splice(0..0, std::iter::repeat_n(SeriesStep::default(), missing));
            self.first = number;
        }
        let index = number - self.first;
        if index >= self.steps.len() {
            self.steps.resize(index + 1, SeriesStep::default());
        }
        #[expect(clippy::indexing_slicing, reason = "the list was made long enough")]
        &mut self.steps[index]
    }

    pub(super) fn get(&self, number: usize) -> Option<&SeriesStep> {
        self.steps.get(number.checked_sub(self.first)?)
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (index, step) in other.steps.iter().enumerate() {
            *self.step(other.first + index) += step;
        }
    }
}

/// Sums of the parts of all steps of a node.
#[derive(Clone, Debug, Default)]
pub(super) struct PartSeries(Vec<[f32; 4]>);

impl PartSeries {
    /// Adds values that held from a time to another; `share` is that of the device which counts.
    pub(super) fn add(
        &mut self,
        grid: StepGrid,
        span: (Timestamp, Timestamp),
        values: &DeviceValues,
        share: f64,
    ) {
        let share = weight(share);
        if self.0.is_empty() {
            self.0 = vec![[0.0; 4]; grid.count * PARTS];
        }
        let (percent, known) = values.utilization.map_or((0.0, 0.0), |percent| (percent, 1.0));
        let (used, total) =
            values.memory.map_or((0.0, 0.0), |(used, total)| (gib(used), gib(total)));
        let values = [percent, known, used, total];
        grid.for_each_part(span, |part, seconds| {
            let Some(sums) = self.0.get_mut(part) else { return };
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value * seconds * share);
        });
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
            return;
        }
        let pairs = self.0.iter_mut().flatten().zip(other.0.iter().flatten());
        pairs.for_each(|(sum, more)| *sum += more);
    }

    /// Returns mean, minimum and maximum of utilization and of memory share, in percent, of each step; `None` in gaps.
    pub(super) fn ranges(&self, count: usize) -> [Vec<Option<[f32; 3]>>; 2] {
        let mut ranges = [vec![None; count], vec![None; count]];
        for (step, parts) in self.0.chunks(PARTS).enumerate().take(count) {
            let utilization = parts.iter().map(|[value, weight, _, _]| (*value, *weight));
            let memory = parts.iter().map(|[_, _, value, weight]| (*value, *weight));
            let found = [range(utilization, 1.0), range(memory, 100.0)];
            for (ranges, range) in ranges.iter_mut().zip(found) {
                if let Some(of_step) = ranges.get_mut(step) {
                    *of_step = range;
                }
            }
        }
        ranges
    }
}

/// Returns the mean of all weighted values, and the least and the largest of the means of each.
fn range(parts: impl Iterator<Item = (f32, f32)>, factor: f32) -> Option<[f32; 3]> {
    let (mut sum, mut weights, mut least, mut most) = (0.0, 0.0, f32::MAX, f32::MIN);
    for (value, weight) in parts {
        sum += value;
        weights += weight;
        if weight > 0.0 {
            let mean = value / weight * factor;
            (least, most) = (least.min(mean), most.max(mean));
        }
    }
    (weights > 0.0).then(|| [sum / weights * factor, least, most])
}

#[expect(clippy::cast_possible_truncation, reason = "a chart shows three digits")]
fn weight(share: f64) -> f32 {
    share as f32
}

#[expect(clippy::cast_possible_truncation, reason = "a chart shows three digits")]
fn gib(bytes: f64) -> f32 {
    (bytes / 1_073_741_824.0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn busy(percent: f32) -> DeviceValues {
        DeviceValues {
            state: LastState::Busy,
            utilization: Some(percent),
            memory: None,
            power: None,
            temperature: None,
            is_throttled: false,
            is_degraded: false,
        }
    }

    #[test]
    fn steps_are_few_and_begin_at_round_times() {
        for (seconds, step) in
            [(0, 1), (60, 1), (800, 2), (3_600, 10), (86_400, 300), (86_400 * 90, 14_400)]
        {
            let grid = StepGrid::new(at(1_000_007), at(1_000_007 + seconds), 8);
            assert_eq!(grid.step.as_secs(), step, "{seconds}");
            assert!(grid.count >= 1 && grid.count <= 720, "{seconds}: {}", grid.count);
            assert_eq!(grid.from.second() % i64::try_from(step).unwrap(), 0);
        }
        let centuries = StepGrid::new(at(0), at(86_400 * 365 * 1000), 8);
        assert!(centuries.count <= 720);
        let day_of = |devices| StepGrid::new(at(0), at(86_400), devices).count;
        assert_eq!([1, 4_096, 8_192, 40_000, usize::MAX].map(day_of), [289, 289, 289, 97, 97]);
    }

    #[test]
    fn values_are_divided_among_the_steps_they_hold_in() {
        let grid = StepGrid { from: at(0), step: Duration::from_secs(8), count: 3 };
        let (mut series, mut parts) = (StepSeries::default(), PartSeries::default());
        for (span, percent) in [((at(6), at(10)), 100.0), ((at(10), at(12)), 40.0)] {
            series.add(grid, span, &busy(percent), 1.0);
            parts.add(grid, span, &busy(percent), 1.0);
        }
        assert_eq!(series.first, 0);
        let sums: Vec<_> = series.steps.iter().map(|step| step.utilization).collect();
        assert_eq!(sums, [[200.0, 2.0], [280.0, 4.0]]);
        let [utilization, memory] = parts.ranges(grid.count);
        assert_eq!(utilization, [Some([100.0; 3]), Some([70.0, 40.0, 100.0]), None]);
        assert_eq!(memory, [None; 3]);
    }
}
