//! What a job did with devices that were not active: it ran nothing on them, or what it ran did nothing.

use std::time::Duration;

use gtop_collect::sums::{StepGrid, StepSeries};
use gtop_fleet::{LastState, advice};
use gtop_local::text::counted;
use gtop_local::time::format_duration;

use crate::report::{JobReport, VerdictWord};

/// For how long a job runs nothing before it counts as not launched: until then, it may start.
pub(super) const MIN_UNLAUNCHED: Duration = Duration::from_secs(10 * 60);
/// For how long what it runs does nothing before it counts as held in vain.
pub(super) const MIN_HELD_IDLE: Duration = Duration::from_secs(15 * 60);
/// Share of the device-time in which it must be known whether processes were on the devices.
const MIN_KNOWN: f64 = 0.9;
/// Of a shorter time in which no device was active, a finding does not tell.
const MIN_TOLD_IDLE: Duration = Duration::from_secs(10 * 60);

/// A time in which no device of a job was active, and one of them was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleTime {
    /// How long it was, in whole steps of the charts.
    pub span: Duration,
    /// It lasted until the job was last seen.
    pub is_at_end: bool,
}

impl IdleTime {
    /// Returns the longest one.
    pub(super) fn longest(series: &StepSeries, grid: StepGrid) -> Self {
        let (mut steps, mut longest) = (0_u32, 0_u32);
        for step in &series.sums {
            let [busy, idle, _, seen] = step.devices;
            steps = if busy <= 0.0 && idle > 0.0 && idle >= seen / 2.0 { steps + 1 } else { 0 };
            longest = longest.max(steps);
        }
        Self { span: grid.step.saturating_mul(longest), is_at_end: longest > 0 && steps == longest }
    }

    /// Returns it in words, if it is worth telling.
    pub(super) fn text(self) -> Option<String> {
        let until = if self.is_at_end { ", until its end" } else { "" };
        (self.span >= MIN_TOLD_IDLE).then(|| {
            format!("none was active for {} at a stretch{until}", format_duration(self.span))
        })
    }
}

/// Returns true if no process was ever on the devices of a job.
pub(super) fn is_unlaunched(job: &JobReport) -> bool {
    let seen: f64 = job.summary.states.iter().sum();
    job.occupied_seconds <= 0.0
        && job.state_seconds(LastState::Busy) <= 0.0
        && job.empty_seconds >= seen * MIN_KNOWN
        && job.to.since(job.from) >= MIN_UNLAUNCHED
}

/// Returns the word for a job no device of which was ever active, why, and what to do.
pub(super) fn word_of_idle(job: &JobReport) -> (VerdictWord, String, &'static str) {
    let seen: f64 = job.summary.states.iter().sum();
    let devices = match job.devices {
        1 => "its device".to_owned(),
        count => format!("its {count} devices"),
    };
    let is_long = job.to.since(job.from) >= MIN_HELD_IDLE;
    let is_occupied =
        job.occupied_seconds > 0.0 && job.occupied_seconds + job.empty_seconds >= seen * MIN_KNOWN;
    let load = job.summary.utilization.unwrap_or_default();
    if is_unlaunched(job) {
        let text = format!("no process ran on {devices}");
        (VerdictWord::Unlaunched, text, advice::device::UNLAUNCHED)
    } else if !is_long || !is_occupied {
        let text = match job.devices {
            1 => "its device was never active".to_owned(),
            count => format!("none of its {count} devices was ever active"),
        };
        (VerdictWord::Unused, text, advice::device::IDLE_JOB)
    } else if load <= 0.0 {
        let text = format!("its processes did nothing on {devices}");
        (VerdictWord::HeldCold, text, advice::device::HELD_COLD)
    } else {
        let text =
            format!("its processes did next to nothing on {devices}, {load:.1} % on average");
        (VerdictWord::HeldWarm, text, advice::device::IDLE_JOB)
    }
}

/// Returns that some of the devices of a job were never active while others were, if so, and how many would have been enough.
pub(super) fn partly_used(job: &JobReport) -> Option<(String, usize)> {
    let unused = job.each_device.iter().filter(|device| device.is_unused());
    let count = unused.clone().count();
    let used = job.devices.saturating_sub(count);
    let empty = unused.filter(|device| device.empty_seconds >= device.seconds).count();
    let were = if count == 1 { "was" } else { "were" };
    let nothing = match empty {
        0 => String::new(),
        all if all == count => ", no process ran there".to_owned(),
        some => format!(", on {some} of these no process ran"),
    };
    let text = format!(
        "{count} of {} {were} never active{nothing}; {used} would have been enough",
        counted(job.devices, "device")
    );
    (count > 0).then_some((text, used))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{JobDevice, UsageSummary};
    use gtop_fleet::usage::DeviceValues;
    use gtop_local::time::Timestamp;

    const HOUR: f64 = 3600.0;

    /// Returns a job with two devices that were idle, with this load, for so many minutes.
    fn idle(minutes: u64, load: f64, (occupied, empty): (f64, f64)) -> JobReport {
        let seconds = HOUR * 2.0;
        JobReport {
            devices: 2,
            to: Timestamp::default().plus(Duration::from_secs(minutes * 60)),
            load_seconds: seconds,
            occupied_seconds: occupied * seconds,
            empty_seconds: empty * seconds,
            summary: UsageSummary {
                watched_seconds: seconds,
                states: [0.0, seconds, 0.0, 0.0, 0.0],
                utilization: Some(load),
                ..UsageSummary::default()
            },
            ..JobReport::default()
        }
    }

    #[test]
    fn processes_and_their_load_tell_why_no_device_was_active() {
        for (minutes, load, processes, word) in [
            (10, 0.0, (0.0, 1.0), VerdictWord::Unlaunched),
            (9, 0.0, (0.0, 1.0), VerdictWord::Unused),
            (15, 0.0, (1.0, 0.0), VerdictWord::HeldCold),
            (14, 0.0, (1.0, 0.0), VerdictWord::Unused),
            (15, 0.1, (0.1, 0.9), VerdictWord::HeldWarm),
            // It is not known whether processes were on them.
            (60, 0.0, (0.0, 0.0), VerdictWord::Unused),
            (60, 0.0, (0.5, 0.0), VerdictWord::Unused),
            (60, 0.0, (0.0, 0.8), VerdictWord::Unused),
        ] {
            let job = idle(minutes, load, processes);
            assert_eq!(word_of_idle(&job).0, word, "{minutes} {load} {processes:?}");
            assert_eq!(is_unlaunched(&job), word == VerdictWord::Unlaunched);
        }
    }

    #[test]
    fn of_devices_that_were_never_active_it_says_on_how_many_nothing_ran() {
        let device = |active_seconds, empty_seconds| JobDevice {
            active_seconds,
            seconds: HOUR,
            empty_seconds,
            ..JobDevice::default()
        };
        let text = |each_device: &[JobDevice]| {
            let (devices, each_device) = (each_device.len(), each_device.to_vec());
            partly_used(&JobReport { devices, each_device, ..JobReport::default() })
        };
        let (used, empty, cold) = (device(60.0, 0.0), device(0.0, HOUR), device(0.0, 0.0));
        assert_eq!(text(std::slice::from_ref(&used)), None);
        let [one, both, none] = [
            vec![used.clone(), empty.clone(), cold.clone()],
            vec![used.clone(), empty.clone(), empty],
            vec![used, cold],
        ]
        .map(|devices| text(&devices).unwrap().0);
        let some = "2 of 3 devices were never active, on 1 of these no process ran; 1 would have been enough";
        assert_eq!(one, some);
        let all =
            "2 of 3 devices were never active, no process ran there; 1 would have been enough";
        assert_eq!(both, all);
        assert_eq!(none, "1 of 2 devices was never active; 1 would have been enough");
    }

    fn values(state: LastState) -> DeviceValues {
        DeviceValues {
            state,
            utilization: None,
            memory: None,
            power: None,
            temperature: None,
            is_throttled: false,
            is_degraded: false,
            has_processes: None,
        }
    }

    #[test]
    fn the_longest_idle_time_ends_where_a_device_is_active_or_none_is_seen() {
        let grid =
            StepGrid { step: Duration::from_secs(60), count: 100, parts: 1, ..StepGrid::default() };
        let text = |times: &[(Option<LastState>, u32)]| {
            let (mut series, mut at) = (StepSeries::default(), Timestamp::default());
            for (state, minutes) in times {
                let end = at.plus(grid.step * *minutes);
                if let Some(state) = *state {
                    series.hold(grid, (at, end), &values(state));
                }
                at = end;
            }
            IdleTime::longest(&series, grid).text()
        };
        let [idle, busy] = [LastState::IdleHeld, LastState::Busy].map(Some);
        let ended = "none was active for 20m00s at a stretch";
        assert_eq!(text(&[(idle, 20), (busy, 1), (idle, 19)]).unwrap(), ended);
        assert_eq!(
            text(&[(idle, 19), (None, 1), (idle, 20)]).unwrap(),
            format!("{ended}, until its end")
        );
        assert_eq!(text(&[(idle, 9), (busy, 30)]), None);
        assert_eq!(text(&[]), None);
    }
}
