//! Values over time in equal steps, for charts.

use std::time::Duration;

use gtop_fleet::LastState;
use gtop_fleet::usage::DeviceValues;
use gtop_local::time::Timestamp;

/// Steps of a chart: as many as a screen can show.
const MAX_STEPS: i64 = 720;
/// Steps that remain of them with any number of devices.
const MIN_STEPS: i64 = 100;
/// More devices than these have fewer steps, so that all fit in memory and in a page.
const MAX_DETAILED_DEVICES: i64 = 2_048;
/// Lengths of steps in seconds, as people divide hours and days, and in how many parts each is divided for its minimum and
/// maximum: from a minute on, these are whole minutes.
const STEP_SECONDS: [(i64, usize); 18] = [
    (1, 8),
    (2, 8),
    (5, 8),
    (10, 8),
    (15, 8),
    (30, 8),
    (60, 1),
    (120, 2),
    (300, 5),
    (600, 5),
    (900, 5),
    (1_800, 6),
    (3_600, 6),
    (7_200, 8),
    (14_400, 8),
    (21_600, 6),
    (43_200, 6),
    (86_400, 8),
];
/// Parts of a step of several days.
const PARTS_OF_DAYS: usize = 8;

/// The steps of all charts of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepGrid {
    /// Begin of the first step.
    pub from: Timestamp,
    /// Length of a step.
    pub step: Duration,
    /// Number of steps.
    pub count: usize,
    /// Parts of a step whose means are compared for its minimum and maximum.
    pub parts: usize,
}

impl StepGrid {
    /// Minutes since 1970: the steps of the sums that recorders write.
    pub(crate) const MINUTES: Self = Self {
        from: Timestamp::from_micros(0),
        step: Duration::from_secs(60),
        count: u32::MAX as usize,
        parts: 1,
    };

    /// Divides a span into at most `MAX_STEPS` steps, so few that they fit in memory for this many devices.
    pub fn new(from: Timestamp, to: Timestamp, devices: usize) -> Self {
        let devices = i64::try_from(devices).unwrap_or(i64::MAX).max(MAX_DETAILED_DEVICES);
        let max_steps = (MAX_STEPS * MAX_DETAILED_DEVICES / devices).max(MIN_STEPS);
        let seconds = i64::try_from(to.since(from).as_secs()).unwrap_or(i64::MAX).saturating_add(1);
        let days = (seconds / 86_400 / (max_steps - 1) + 1) * 86_400;
        let mut steps = STEP_SECONDS.into_iter();
        let step = steps.find(|(step, _)| seconds / step < max_steps - 1);
        let (step, parts) = step.unwrap_or((days, PARTS_OF_DAYS));
        let first = from.second() - from.second().rem_euclid(step);
        let count = (to.second() - first) / step + 1;
        Self {
            from: Timestamp::from_micros(first.saturating_mul(1_000_000)),
            step: Duration::from_secs(u64::try_from(step).unwrap_or(1)),
            count: usize::try_from(count).unwrap_or_default(),
            parts,
        }
    }

    /// Returns true if its parts consist of whole minutes.
    pub fn is_of_minutes(self) -> bool {
        self.step.as_secs().is_multiple_of(60 * u64::try_from(self.parts).unwrap_or(1).max(1))
    }

    /// Calls `add` with the number of each part of a step that an interval covers, and the seconds of it.
    pub fn for_each_part(
        self,
        (from, to): (Timestamp, Timestamp),
        mut add: impl FnMut(usize, f32),
    ) {
        let parts = i64::try_from(self.parts).unwrap_or(1).max(1);
        let part = (i64::try_from(self.step.as_micros()).unwrap_or(i64::MAX) / parts).max(1);
        let [mut begin, end] =
            [from, to].map(|at| at.as_micros().saturating_sub(self.from.as_micros()).max(0));
        while begin < end {
            let number = begin / part;
            let part_end = (number + 1).saturating_mul(part).min(end);
            let Ok(index) = usize::try_from(number) else { return };
            if index >= self.count * self.parts {
                return;
            }
            add(index, Duration::from_micros((part_end - begin).unsigned_abs()).as_secs_f32());
            begin = part_end;
        }
    }
}

/// Sums that can be added up in parts.
pub trait SeriesSum: Copy + Default {
    /// Returns what a second with these values adds.
    fn of(values: &DeviceValues) -> Self;

    /// Adds so many times another one.
    fn add(&mut self, other: &Self, weight: f32);
}

/// Sums within a step, of one or several devices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SeriesStep {
    /// Utilization times seconds, and seconds in which it is known.
    pub utilization: [f32; 2],
    /// Memory in use times seconds and total memory times seconds, in GiB.
    pub memory: [f32; 2],
    /// Power times seconds, and seconds in which it is known.
    pub power: [f32; 2],
    /// Seconds in which devices are busy, idle-held, free, and seen at all.
    pub devices: [f32; 4],
}

/// Sums within a part of a step: utilization times seconds, seconds in which it is known, memory in use times seconds, and
/// total memory times seconds in GiB.
pub(super) type PartSums = [f32; 4];

impl SeriesSum for SeriesStep {
    fn of(values: &DeviceValues) -> Self {
        let [percent, known, used, total] = PartSums::of(values);
        let is = |state| f32::from(u8::from(values.state == state));
        Self {
            utilization: [percent, known],
            memory: [used, total],
            power: values.power.map_or([0.0; 2], |watts| [watts, 1.0]),
            devices: [is(LastState::Busy), is(LastState::IdleHeld), is(LastState::Free), 1.0],
        }
    }

    fn add(&mut self, other: &Self, weight: f32) {
        let Self { utilization, memory, power, devices } = self;
        let sums = utilization.iter_mut().chain(memory).chain(power).chain(devices);
        let Self { utilization, memory, power, devices } = other;
        let more = utilization.iter().chain(memory).chain(power).chain(devices);
        sums.zip(more).for_each(|(sum, more)| *sum += more * weight);
    }
}

impl SeriesSum for PartSums {
    fn of(values: &DeviceValues) -> Self {
        let (percent, known) = values.utilization.map_or((0.0, 0.0), |percent| (percent, 1.0));
        let memory = values.memory.map(|(used, total)| (gib(used), gib(total)));
        let (used, total) = memory.unwrap_or_default();
        [percent, known, used, total]
    }

    fn add(&mut self, other: &Self, weight: f32) {
        self.iter_mut().zip(other).for_each(|(sum, more)| *sum += more * weight);
    }
}

/// Sums over time: those from the first to the last with a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimedSums<T> {
    /// The number of the first one.
    pub first: usize,
    /// The sums.
    pub sums: Vec<T>,
}

/// Sums of all steps of a device, or of a job.
pub type StepSeries = TimedSums<SeriesStep>;
/// Sums of the parts of all steps of a node.
pub type PartSeries = TimedSums<PartSums>;

impl<T: SeriesSum> TimedSums<T> {
    fn sum(&mut self, number: usize) -> &mut T {
        if self.sums.is_empty() {
            self.first = number;
        }
        if number < self.first {
            // Only after a clock was set back.
            let missing = self.first - number;
            self.sums.splice(0..0, std::iter::repeat_n(T::default(), missing));
            self.first = number;
        }
        let index = number - self.first;
        if index >= self.sums.len() {
            self.sums.resize(index + 1, T::default());
        }
        #[expect(clippy::indexing_slicing, reason = "the list was made long enough")]
        &mut self.sums[index]
    }

    /// Returns the sum with this number.
    pub fn get(&self, number: usize) -> Option<&T> {
        self.sums.get(number.checked_sub(self.first)?)
    }

    /// Adds so much of another one.
    pub fn merge(&mut self, other: &Self, weight: f64) {
        let weight = short(weight);
        for (number, sum) in (other.first..).zip(&other.sums) {
            self.sum(number).add(sum, weight);
        }
    }
}

impl StepSeries {
    /// Adds values that held from a time to another.
    pub fn hold(&mut self, grid: StepGrid, span: (Timestamp, Timestamp), values: &DeviceValues) {
        self.spread(grid, span, &SeriesStep::of(values));
    }

    /// Adds sums of a second that are the same in all of a time.
    fn spread(&mut self, grid: StepGrid, span: (Timestamp, Timestamp), of_second: &SeriesStep) {
        grid.for_each_part(span, |part, seconds| {
            self.sum(part / grid.parts).add(of_second, seconds);
        });
    }

    /// Returns the sums of minutes as those of a grid, and of its parts.
    pub(super) fn minutes_on(&self, grid: StepGrid) -> (Self, PartSeries) {
        self.spread_on(StepGrid::MINUTES, grid)
    }

    /// Returns the sums of the parts of steps, each an equal part of its step.
    pub fn equal_parts(&self, grid: StepGrid) -> PartSeries {
        self.spread_on(grid, grid).1
    }

    /// Returns the sums of the steps of one grid as those of another, and of its parts.
    fn spread_on(&self, own: StepGrid, grid: StepGrid) -> (Self, PartSeries) {
        let (mut steps, mut parts) = (Self::default(), PartSeries::default());
        for (number, sum) in (self.first..).zip(&self.sums) {
            let from = own.step.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX));
            let from = own.from.plus(from);
            let mut of_second = SeriesStep::default();
            of_second.add(sum, 1.0 / own.step.as_secs_f32());
            let span = (from, from.plus(own.step));
            steps.spread(grid, span, &of_second);
            let ([percent, known], [used, total]) = (of_second.utilization, of_second.memory);
            parts.spread(grid, span, &[percent, known, used, total]);
        }
        (steps, parts)
    }
}

impl PartSeries {
    /// Adds values that held from a time to another.
    pub fn hold(&mut self, grid: StepGrid, span: (Timestamp, Timestamp), values: &DeviceValues) {
        self.spread(grid, span, &PartSums::of(values));
    }

    /// Adds sums of a second that are the same in all of a time.
    fn spread(&mut self, grid: StepGrid, span: (Timestamp, Timestamp), of_second: &PartSums) {
        grid.for_each_part(span, |part, seconds| self.sum(part).add(of_second, seconds));
    }

    /// Returns mean, minimum and maximum of utilization and of memory share, in percent, of each step; `None` in gaps.
    pub fn ranges(&self, grid: StepGrid) -> [Vec<Option<[f32; 3]>>; 2] {
        let ranges = |range_of: fn(&[PartSums]) -> Option<[f32; 3]>| {
            let steps = (0..grid.count).map(|step| {
                let parts =
                    (step * grid.parts..(step + 1) * grid.parts).filter_map(|part| self.get(part));
                range_of(&parts.copied().collect::<Vec<_>>())
            });
            steps.collect()
        };
        [
            ranges(|parts| range(parts.iter().map(|[value, weight, _, _]| (*value, *weight)), 1.0)),
            ranges(|parts| {
                range(parts.iter().map(|[_, _, value, weight]| (*value, *weight)), 100.0)
            }),
        ]
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
fn short(number: f64) -> f32 {
    number as f32
}

fn gib(bytes: f64) -> f32 {
    short(bytes / 1_073_741_824.0)
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
            has_processes: None,
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
        assert_eq!([1, 4_096, 8_192, 40_000, usize::MAX].map(day_of), [289, 289, 145, 97, 97]);
    }

    #[test]
    fn values_are_divided_among_the_steps_they_hold_in() {
        let grid = StepGrid { from: at(0), step: Duration::from_secs(8), count: 3, parts: 8 };
        let (mut series, mut parts) = (StepSeries::default(), PartSeries::default());
        for (span, percent) in [((at(6), at(10)), 100.0), ((at(10), at(12)), 40.0)] {
            series.hold(grid, span, &busy(percent));
            parts.hold(grid, span, &busy(percent));
        }
        assert_eq!(series.first, 0);
        let sums: Vec<_> = series.sums.iter().map(|step| step.utilization).collect();
        assert_eq!(sums, [[200.0, 2.0], [280.0, 4.0]]);
        let [utilization, memory] = parts.ranges(grid);
        assert_eq!(utilization, [Some([100.0; 3]), Some([70.0, 40.0, 100.0]), None]);
        assert_eq!(memory, [None; 3]);
    }
}
