//! Sums over time: what a device, a node, a user or a job has done.

use std::ops::AddAssign;

use crate::idle::has_processes;
use crate::{Health, LastState, Node};
use gtop_model::{Celsius, Device, Percent};

/// Number of states.
pub const STATES: usize = 5;

/// A mean over time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimedMean {
    /// Sum of values times seconds.
    pub sum: f64,
    /// Seconds in which the value was known.
    pub seconds: f64,
}

impl TimedMean {
    pub fn add(&mut self, value: f64, seconds: f64) {
        self.sum += value * seconds;
        self.seconds += seconds;
    }

    fn add_part(&mut self, other: Self, part: f64) {
        self.sum += other.sum * part;
        self.seconds += other.seconds * part;
    }

    /// Returns the mean; `None` if the value was never known.
    pub fn get(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.sum / self.seconds)
    }
}

impl AddAssign for TimedMean {
    fn add_assign(&mut self, other: Self) {
        self.add_part(other, 1.0);
    }
}

/// The values of a device that hold from one sample to the next.
#[derive(Clone, Copy, Debug)]
pub struct DeviceValues {
    pub state: LastState,
    /// In percent.
    pub utilization: Option<f32>,
    /// Bytes in use, and in total.
    pub memory: Option<(f64, f64)>,
    /// In watts.
    pub power: Option<f32>,
    /// In degrees Celsius.
    pub temperature: Option<f32>,
    /// It throttles for temperature, for the power supply, or for another reason of the hardware.
    pub is_throttled: bool,
    /// It works, and is slower or less reliable than it should be.
    pub is_degraded: bool,
    /// Any process is on it; `None` if that is not known.
    pub has_processes: Option<bool>,
}

impl DeviceValues {
    /// Returns the values of the device at this position of a node.
    pub fn of(node: &Node, position: usize, device: &Device) -> Self {
        let mut state = LastState::of(node, position, device);
        if matches!(state, LastState::Unavailable | LastState::InUse) {
            // Nobody could have used it, so it was not free; or how busy it was is not known.
            state = LastState::Unknown;
        }
        let is_known = device.fault.is_none();
        // The temperature of a slice, and whether it is slowed down, are those of its device.
        let whole = node.whole(device);
        let throttle = whole.throttle.get().filter(|_| is_known).unwrap_or_default();
        let memory = device.own_memory();
        #[expect(clippy::cast_precision_loss, reason = "sums over time have rounding anyway")]
        let memory = memory.map(|(used, total)| (used.0 as f64, total.0 as f64));
        Self {
            state,
            // What a faulty device reports says nothing about how it is used.
            utilization: device
                .load()
                .get()
                .map(Percent::get)
                .filter(|_| is_known && state != LastState::Faulty),
            memory: memory.filter(|_| is_known),
            power: node.unit_power(device).filter(|_| is_known),
            temperature: whole.temperature.get().map(Celsius::get).filter(|_| is_known),
            is_throttled: throttle.is_harmful(),
            is_degraded: node.health(device) == Health::Degraded,
            has_processes: has_processes(node, position),
        }
    }
}

/// Sums of the values of one or several devices.
#[derive(Clone, Debug)]
pub struct DeviceUsage {
    /// Seconds in each state.
    pub states: [f64; STATES],
    pub utilization: TimedMean,
    /// Seconds at each whole percent of utilization.
    pub by_percent: Box<[f64; 101]>,
    pub memory_used: TimedMean,
    /// Sum of total memory times seconds, of devices that report both.
    pub memory_total: f64,
    pub max_memory_percent: Option<f32>,
    pub power: TimedMean,
    pub max_power: Option<f32>,
    /// In joules; `None` if nothing is known of it.
    pub energy: Option<f64>,
    pub max_temperature: Option<f32>,
    pub throttled_seconds: f64,
    pub degraded_seconds: f64,
    /// Seconds in which any process was on it.
    pub occupied_seconds: f64,
    /// Seconds in which none was.
    pub empty_seconds: f64,
}

impl Default for DeviceUsage {
    fn default() -> Self {
        Self {
            states: [0.0; STATES],
            utilization: TimedMean::default(),
            by_percent: Box::new([0.0; 101]),
            memory_used: TimedMean::default(),
            memory_total: 0.0,
            max_memory_percent: None,
            power: TimedMean::default(),
            max_power: None,
            energy: None,
            max_temperature: None,
            throttled_seconds: 0.0,
            degraded_seconds: 0.0,
            occupied_seconds: 0.0,
            empty_seconds: 0.0,
        }
    }
}

impl DeviceUsage {
    /// Adds values that held for some seconds.
    pub fn add(&mut self, values: &DeviceValues, seconds: f64) {
        if let Some(of_state) = self.states.get_mut(values.state as usize) {
            *of_state += seconds;
        }
        if let Some(percent) = values.utilization {
            self.utilization.add(f64::from(percent), seconds);
            if let Some(at_percent) = self.by_percent.get_mut(whole_percent(percent)) {
                *at_percent += seconds;
            }
        }
        if let Some((used, total)) = values.memory {
            self.memory_used.add(used, seconds);
            self.memory_total += total * seconds;
            let share = memory_percent(used, total);
            self.max_memory_percent = larger(self.max_memory_percent, share);
        }
        if let Some(watts) = values.power {
            self.power.add(f64::from(watts), seconds);
            self.add_energy(Some(f64::from(watts) * seconds));
        }
        self.max_power = larger(self.max_power, values.power);
        self.max_temperature = larger(self.max_temperature, values.temperature);
        if values.is_throttled {
            self.throttled_seconds += seconds;
        }
        if values.is_degraded {
            self.degraded_seconds += seconds;
        }
        match values.has_processes {
            Some(true) => self.occupied_seconds += seconds,
            Some(false) => self.empty_seconds += seconds,
            None => {}
        }
    }

    /// Adds energy in joules, if it is known.
    pub fn add_energy(&mut self, joules: Option<f64>) {
        if let Some(joules) = joules {
            self.energy = Some(self.energy.unwrap_or_default() + joules);
        }
    }

    /// Returns the energy in kWh, if it is known.
    pub fn energy_kwh(&self) -> Option<f64> {
        self.energy.map(|joules| joules.max(0.0) / 3.6e6)
    }

    /// Returns the seconds in which anything was known.
    pub fn seconds(&self) -> f64 {
        self.states.iter().sum()
    }

    /// Returns the utilization, in whole percents, that was not exceeded for this share of the time.
    pub fn percentile(&self, share: f64) -> Option<u8> {
        let all: f64 = self.by_percent.iter().sum();
        let mut sum = 0.0;
        let position = self.by_percent.iter().position(|seconds| {
            sum += seconds;
            // Sums of equal numbers may differ in the last digits.
            sum > 0.0 && sum >= all * share * (1.0 - 1e-12)
        });
        position.and_then(|percent| u8::try_from(percent).ok())
    }

    /// Returns memory in use as a share of all memory; `None` if it was never known.
    pub fn mean_memory_percent(&self) -> Option<f64> {
        (self.memory_total > 0.0).then(|| self.memory_used.sum / self.memory_total * 100.0)
    }

    /// Returns the largest memory share, power and temperature of one device at one time.
    pub fn maxima(&self) -> [Option<f32>; 3] {
        [self.max_memory_percent, self.max_power, self.max_temperature]
    }
}

impl DeviceUsage {
    /// Adds this part of other sums.
    pub fn add_part(&mut self, other: &Self, part: f64) {
        self.states.iter_mut().zip(other.states).for_each(|(sum, more)| *sum += more * part);
        self.utilization.add_part(other.utilization, part);
        let by_percent = self.by_percent.iter_mut().zip(&*other.by_percent);
        by_percent.for_each(|(sum, more)| *sum += more * part);
        self.memory_used.add_part(other.memory_used, part);
        self.memory_total += other.memory_total * part;
        self.max_memory_percent = larger(self.max_memory_percent, other.max_memory_percent);
        self.power.add_part(other.power, part);
        self.max_power = larger(self.max_power, other.max_power);
        self.add_energy(other.energy.map(|joules| joules * part));
        self.max_temperature = larger(self.max_temperature, other.max_temperature);
        self.throttled_seconds += other.throttled_seconds * part;
        self.degraded_seconds += other.degraded_seconds * part;
        self.occupied_seconds += other.occupied_seconds * part;
        self.empty_seconds += other.empty_seconds * part;
    }
}

impl AddAssign<&Self> for DeviceUsage {
    fn add_assign(&mut self, other: &Self) {
        self.add_part(other, 1.0);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a percentage needs 7 digits at most")]
fn memory_percent(used: f64, total: f64) -> Option<f32> {
    (total > 0.0).then(|| (used / total * 100.0) as f32)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a percentage is 0 to 100"
)]
fn whole_percent(percent: f32) -> usize {
    percent.round() as usize
}

fn larger(one: Option<f32>, other: Option<f32>) -> Option<f32> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.max(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(state: LastState, utilization: Option<f32>) -> DeviceValues {
        DeviceValues {
            state,
            utilization,
            memory: Some((20.0, 80.0)),
            power: Some(300.0),
            temperature: None,
            is_throttled: false,
            is_degraded: false,
            has_processes: None,
        }
    }

    #[test]
    fn means_are_weighted_by_time_and_unknown_is_not_zero() {
        let mut usage = DeviceUsage::default();
        usage.add(&values(LastState::Busy, Some(90.0)), 30.0);
        usage.add(&values(LastState::Unknown, None), 1000.0);
        let mut other = DeviceUsage::default();
        other.add(&values(LastState::Busy, Some(10.0)), 10.0);
        usage += &other;
        assert_eq!(usage.utilization.get(), Some(70.0));
        assert_eq!(usage.states.map(f64::to_bits), [40.0, 0.0, 0.0, 0.0, 1000.0].map(f64::to_bits));
        assert_eq!(
            [0.1, 0.25, 0.26, 0.95].map(|share| usage.percentile(share)),
            [10, 10, 90, 90].map(Some)
        );
        assert_eq!(usage.mean_memory_percent(), Some(25.0));
        assert_eq!(usage.maxima(), [Some(25.0), Some(300.0), None]);
        assert_eq!(
            (DeviceUsage::default().percentile(0.5), DeviceUsage::default().utilization.get()),
            (None, None)
        );
    }
}
