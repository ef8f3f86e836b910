//! Sums as lines of JSON, one for each device, state and group of holders.

use std::sync::Arc;

use crate::record::rollup::{Rollup, RollupKey};
use crate::record::value::{from_seconds, node_name, short_text, to_seconds};
use crate::wire::objects;
use gtop_fleet::usage::{DeviceUsage, TimedMean};
use gtop_fleet::{Holder, LastState, User};
use gtop_local::time::Timestamp;
use gtop_model::JobId;

/// Grows with each change of what is added up, and how: sums of other rules are not used.
const RULES: u32 = 1;
const MIB: f64 = 1_048_576.0;
const STATES: [(LastState, &str); 5] = [
    (LastState::Busy, "active"),
    (LastState::IdleHeld, "idle_held"),
    (LastState::Free, "free"),
    (LastState::Faulty, "faulty"),
    (LastState::Unknown, "unknown"),
];

objects! {
    /// The first line.
    struct SpanLine {
        rules: u32,
        from: f64,
        to: f64,
    }

    struct SumLine {
        node: String,
        device: Arc<str>,
        state: String,
        holders?: Vec<HolderLine>,
        /// Seconds in this state.
        seconds: f64,
        /// Each whole percent of utilization, and the seconds at it.
        loads?: Vec<(u8, f64)>,
        /// Percent times seconds, and seconds in which it is known.
        utilization?: Option<(f64, f64)>,
        /// MiB in use times seconds, seconds in which it is known, and MiB in total times seconds.
        memory?: Option<(f64, f64, f64)>,
        max_memory_percent?: Option<f32>,
        /// Watts times seconds, and seconds in which it is known.
        power?: Option<(f64, f64)>,
        max_power?: Option<f32>,
        joules?: Option<f64>,
        max_temperature?: Option<f32>,
        throttled?: Option<f64>,
        degraded?: Option<f64>,
    }

    struct HolderLine {
        user?: Option<Arc<str>>,
        uid?: Option<u32>,
        /// Why the user is not known: `unknown`, `hidden` or `not_shown`.
        why?: Option<String>,
        job?: Option<Arc<str>>,
        is_certain: bool,
    }
}

/// Returns the lines of sums over a span of time.
pub(super) fn write((from, to): (Timestamp, Timestamp), rollup: &Rollup) -> Vec<u8> {
    let span = SpanLine { rules: RULES, from: to_seconds(from), to: to_seconds(to) };
    let mut lines = serde_json::to_vec(&span).unwrap_or_default();
    lines.push(b'\n');
    for (key, usage) in &rollup.0 {
        lines.extend(serde_json::to_vec(&SumLine::of(key, usage)).unwrap_or_default());
        lines.push(b'\n');
    }
    lines
}

/// Reads the lines of sums, and their span; `None` for those of other rules.
pub(super) fn read(lines: &[u8]) -> Option<((Timestamp, Timestamp), Rollup)> {
    let mut lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let span: SpanLine = serde_json::from_slice(lines.next()?).ok()?;
    if span.rules != RULES {
        return None;
    }
    let sums = lines.map(|line| serde_json::from_slice::<SumLine>(line).ok()?.to_sum());
    let sums = sums.collect::<Option<_>>()?;
    Some(((from_seconds(span.from), from_seconds(span.to)), Rollup(sums)))
}

/// Returns a number with three decimals, which columns have as a whole number.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

fn pair(mean: TimedMean) -> Option<(f64, f64)> {
    (mean.seconds > 0.0).then(|| (rounded(mean.sum), rounded(mean.seconds)))
}

fn mean(pair: Option<(f64, f64)>) -> TimedMean {
    let (sum, seconds) = pair.unwrap_or_default();
    TimedMean { sum, seconds }
}

impl SumLine {
    fn of(key: &RollupKey, usage: &DeviceUsage) -> Self {
        let state = STATES.iter().find(|(state, _)| *state == key.state);
        let loads = (0_u8..).zip(usage.by_percent.iter()).filter(|(_, seconds)| **seconds > 0.0);
        let memory = pair(usage.memory_used);
        let positive = |seconds: f64| (seconds > 0.0).then(|| rounded(seconds));
        Self {
            node: key.node.as_str().to_owned(),
            device: Arc::clone(&key.device),
            state: state.map_or("unknown", |(_, name)| name).to_owned(),
            holders: key.holders.iter().map(HolderLine::of).collect(),
            seconds: rounded(usage.seconds()),
            loads: loads.map(|(percent, seconds)| (percent, rounded(*seconds))).collect(),
            utilization: pair(usage.utilization),
            memory: memory.map(|(sum, seconds)| {
                (rounded(sum / MIB), seconds, rounded(usage.memory_total / MIB))
            }),
            max_memory_percent: usage.max_memory_percent,
            power: pair(usage.power),
            max_power: usage.max_power,
            joules: usage.energy.map(rounded),
            max_temperature: usage.max_temperature,
            throttled: positive(usage.throttled_seconds),
            degraded: positive(usage.degraded_seconds),
        }
    }

    fn to_sum(&self) -> Option<(RollupKey, DeviceUsage)> {
        let (state, _) = STATES.iter().find(|(_, name)| *name == self.state)?;
        let key = RollupKey {
            node: node_name(&self.node)?,
            device: short_text(&self.device),
            state: *state,
            holders: self.holders.iter().map(HolderLine::to_holder).collect(),
        };
        let (used, known, total) = self.memory.unwrap_or_default();
        let mut usage = DeviceUsage {
            utilization: mean(self.utilization),
            memory_used: TimedMean { sum: used * MIB, seconds: known },
            memory_total: total * MIB,
            max_memory_percent: self.max_memory_percent,
            power: mean(self.power),
            max_power: self.max_power,
            energy: self.joules,
            max_temperature: self.max_temperature,
            throttled_seconds: self.throttled.unwrap_or_default(),
            degraded_seconds: self.degraded.unwrap_or_default(),
            ..DeviceUsage::default()
        };
        *usage.states.get_mut(*state as usize)? = self.seconds;
        for (percent, seconds) in &self.loads {
            *usage.by_percent.get_mut(usize::from(*percent))? = *seconds;
        }
        Some((key, usage))
    }
}

impl HolderLine {
    fn of((holder, is_certain): &(Holder, bool)) -> Self {
        let why = match &holder.user {
            User::Named(_) | User::Number(_) => None,
            User::Unknown => Some("unknown"),
            User::Hidden => Some("hidden"),
            User::NotShown => Some("not_shown"),
        };
        Self {
            user: if let User::Named(name) = &holder.user { Some(Arc::clone(name)) } else { None },
            uid: if let User::Number(uid) = &holder.user { Some(*uid) } else { None },
            why: why.map(str::to_owned),
            job: holder.job.as_ref().map(|job| job.as_str().into()),
            is_certain: *is_certain,
        }
    }

    fn to_holder(&self) -> (Holder, bool) {
        let user = match (&self.user, self.uid, self.why.as_deref()) {
            (Some(name), _, _) => User::Named(short_text(name)),
            (None, Some(uid), _) => User::Number(uid),
            (None, None, Some("hidden")) => User::Hidden,
            (None, None, Some("not_shown")) => User::NotShown,
            (None, None, _) => User::Unknown,
        };
        let job = self.job.as_deref().and_then(JobId::new);
        (Holder { user, job }, self.is_certain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::NodeName;

    #[test]
    fn sums_of_other_rules_are_not_used() {
        let key = RollupKey {
            node: NodeName::new("n1").unwrap(),
            device: Arc::from("GPU-1"),
            state: LastState::Free,
            holders: Arc::default(),
        };
        let rollup = Rollup([(key, DeviceUsage::default())].into());
        let span = (Timestamp::from_micros(1_000_000), Timestamp::from_micros(2_000_000));
        let lines = String::from_utf8(write(span, &rollup)).unwrap();
        assert_eq!(
            read(lines.as_bytes()).map(|(span, sums)| (span, sums.0.len())),
            Some((span, 1))
        );
        for rules in [0, 2, 1_000] {
            let other = lines.replace("\"rules\":1", &format!("\"rules\":{rules}"));
            assert_ne!(other, lines);
            assert!(read(other.as_bytes()).is_none());
        }
    }
}
