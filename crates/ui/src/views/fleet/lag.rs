//! Stragglers: devices that lag behind the others of a job that moves together.
//!
//! A device lags if, in each of the last five minutes, its utilization was far below that of the other devices of its job
//! (|z| ≥ 4 and ≥ 15 %), and a second signal is low too now: power, SM clock or memory bandwidth. Robust z is the
//! distance from the median over 1.4826 times the median absolute deviation, which counts as at least 3 % of the median.
//!
//! Only a job whose devices normally go up and down together can have stragglers: the workers of a service or of a sweep
//! are merely at different work. Where the load of the others is too even to tell, a cause is needed: a low clock or
//! a throttled device.

use crate::views::fleet::idle_time::{ElapsedTime, time_below};
use crate::widgets::number_format::percent_value;
use crate::widgets::series::{mean, median};
use gtop_fleet::insight::node_status::model_name;
use gtop_fleet::{ACTIVE_PERCENT, Metric, Node};
use gtop_local::time::Timestamp;
use gtop_model::{Device, JobId, Megahertz, Throttle, Watts};

/// Seconds of a window.
const WINDOW: usize = 60;
/// The number of windows in a row in which a straggler lags.
const WINDOWS: usize = 5;
/// The share of the expected samples that a window must have.
const MIN_SAMPLES: f32 = 0.8;
/// The robust z from which a value is far from the others.
const MIN_Z: f32 = 4.0;
/// The share of the median by which it must be lower too.
const MIN_FRACTION: f32 = 0.15;
/// The median absolute deviation counts as at least this share of the median.
const MIN_DEVIATION: f32 = 0.03;
/// Stragglers are reported only if the median of their peers reaches this utilization, in percent.
const MIN_PEER_PERCENT: f32 = 50.0;
/// The minimum number of peers.
const MIN_PEERS: usize = 2;
/// Below this standard deviation, in percentage points, a load is too even to tell whether others move with it.
const EVEN_LOAD: f32 = 3.0;
/// Devices move together from this correlation of their utilization on.
const MIN_CORRELATION: f32 = 0.5;

/// A device that is compared with, and its index.
type Peer<'a> = (usize, &'a Device);

/// A device that lags behind its peers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Straggler {
    /// Its index.
    pub(super) position: usize,
    pub(super) percent: f32,
    pub(super) elapsed: ElapsedTime,
}

/// Returns the device that lags furthest behind the others of its job on this node.
pub(super) fn find_straggler(node: &Node, now: Timestamp) -> Option<Straggler> {
    let stragglers = node.units().filter_map(|(position, _)| straggler(node, now, position));
    stragglers.min_by(|one, other| one.percent.total_cmp(&other.percent))
}

/// Checks one device; compares the present values first, since most devices are not even low now.
fn straggler(node: &Node, now: Timestamp, position: usize) -> Option<Straggler> {
    let device = node.devices.get(position)?;
    let jobs: Vec<&JobId> = node.device_holdings(position).jobs().collect();
    let percent = percent_value(device.load())?;
    // A device below that is idle, which has a note of its own.
    if !node.is_used(device)
        || jobs.is_empty()
        || percent < ACTIVE_PERCENT
        || device.fault.is_some()
    {
        return None;
    }
    let peers = node.units().filter(|(other, peer)| {
        *other != position
            && node.is_used(peer)
            && node.device_holdings(*other).jobs().eq(jobs.iter().copied())
            && peer.fault.is_none()
            && model_name(peer) == model_name(device)
    });
    let peers: Vec<Peer<'_>> = peers.collect();
    let peer_loads: Vec<f32> =
        peers.iter().filter_map(|(_, peer)| percent_value(peer.load())).collect();
    let median_load = median(&peer_loads)?;
    if peer_loads.len() < MIN_PEERS
        || median_load < MIN_PEER_PERCENT
        || !is_far_below(percent, &peer_loads)
    {
        return None;
    }
    let cause = has_cause(device, &peers);
    if !cause && !has_second_signal(device, &peers) {
        return None;
    }
    let own = windows(node, position, &series(node, device, now))?;
    let peer_series: Vec<_> = peers.iter().map(|(_, peer)| series(node, peer, now)).collect();
    let peer_windows = peers.iter().zip(&peer_series);
    let peer_windows: Vec<[f32; WINDOWS]> =
        peer_windows.filter_map(|((at, _), points)| windows(node, *at, points)).collect();
    if peer_windows.len() < MIN_PEERS {
        return None;
    }
    let lags = own.iter().enumerate().all(|(window, own)| {
        let peers = peer_windows.iter().filter_map(|windows| windows.get(window).copied());
        is_far_below(*own, &peers.collect::<Vec<_>>())
    });
    if !lags {
        return None;
    }
    let peer_series: Vec<&[Option<f32>]> = peer_series.iter().map(Vec::as_slice).collect();
    if !moves_together(&peer_series).unwrap_or(cause) {
        return None;
    }
    let limit = median_load * (1.0 - MIN_FRACTION);
    let lookback = std::time::Duration::from_secs(900);
    let elapsed = time_below(node, position, limit, now, lookback)?;
    Some(Straggler { position, percent, elapsed })
}

/// Returns the utilization of a device in all windows.
fn series(node: &Node, device: &Device, now: Timestamp) -> Vec<Option<f32>> {
    node.history.last(&device.uuid, Metric::Utilization, now, WINDOW * WINDOWS)
}

/// Returns true if a value is far below those of the peers.
fn is_far_below(value: f32, peers: &[f32]) -> bool {
    let all: Vec<f32> = peers.iter().copied().chain([value]).collect();
    let Some(middle) = median(&all) else { return false };
    let distances: Vec<f32> = all.iter().map(|value| (value - middle).abs()).collect();
    let deviation = median(&distances).unwrap_or_default().max(MIN_DEVIATION * middle);
    let below = middle - value;
    middle > 0.0 && below >= MIN_FRACTION * middle && below >= MIN_Z * 1.4826 * deviation
}

/// Returns true if the device is slower for a reason of the hardware: its clock, or a throttle.
fn has_cause(device: &Device, peers: &[Peer<'_>]) -> bool {
    let is_own = is_throttled(device) && !peers.iter().all(|(_, peer)| is_throttled(peer));
    is_own || is_signal_low(device, peers, sm_clock)
}

fn is_throttled(device: &Device) -> bool {
    device.throttle.get().is_some_and(Throttle::is_harmful)
}

#[expect(clippy::cast_precision_loss, reason = "clocks are small")]
fn sm_clock(device: &Device) -> Option<f32> {
    device.sm_clock.get().map(Megahertz::get).map(|clock| clock as f32)
}

/// Returns true if power or memory bandwidth is low too.
fn has_second_signal(device: &Device, peers: &[Peer<'_>]) -> bool {
    is_signal_low(device, peers, |device| device.power.get().map(Watts::get))
        || is_signal_low(device, peers, |device| percent_value(device.memory_utilization))
}

fn is_signal_low(device: &Device, peers: &[Peer<'_>], read: fn(&Device) -> Option<f32>) -> bool {
    let values: Vec<f32> = peers.iter().filter_map(|(_, peer)| read(peer)).collect();
    values.len() >= MIN_PEERS && read(device).is_some_and(|own| is_far_below(own, &values))
}

/// Returns the mean of each window; `None` if one lacks samples.
fn windows(node: &Node, position: usize, points: &[Option<f32>]) -> Option<[f32; WINDOWS]> {
    let source = node.source(node.device_sources.get(position)?)?;
    #[expect(clippy::cast_precision_loss, reason = "a window has few points")]
    let expected = WINDOW as f32 / source.interval.as_secs_f32().max(1.0);
    let mut means = [0.0; WINDOWS];
    for (mean, window) in means.iter_mut().zip(points.chunks(WINDOW)) {
        let known: Vec<f32> = window.iter().flatten().copied().collect();
        #[expect(clippy::cast_precision_loss, reason = "a window has few points")]
        let count = known.len() as f32;
        if known.is_empty() || count < MIN_SAMPLES * expected {
            return None;
        }
        *mean = known.iter().sum::<f32>() / count;
    }
    Some(means)
}

/// Returns true if the utilization of devices rises and falls together; `None` if it is too even to tell.
fn moves_together(series: &[&[Option<f32>]]) -> Option<bool> {
    let correlations = series.iter().enumerate().map(|(at, points)| {
        let others = series.iter().enumerate().filter(|(other, _)| *other != at);
        correlation(points, &others.map(|(_, points)| *points).collect::<Vec<_>>())
    });
    let known: Vec<f32> = correlations.flatten().collect();
    // Devices with an even load are left out, unless most have one.
    if known.len() * 2 < series.len() {
        return None;
    }
    Some(median(&known)? >= MIN_CORRELATION)
}

/// Returns the correlation of a series with the mean of others; `None` if both are even.
fn correlation(own: &[Option<f32>], others: &[&[Option<f32>]]) -> Option<f32> {
    let mut pairs: Vec<(f32, f32)> = Vec::with_capacity(own.len());
    for (second, own) in own.iter().enumerate() {
        let at_second = others.iter().filter_map(|points| points.get(second).copied().flatten());
        pairs.extend(own.zip(mean(at_second)));
    }
    let own_mean = mean(pairs.iter().map(|(own, _)| *own))?;
    let other_mean = mean(pairs.iter().map(|(_, other)| *other))?;
    #[expect(clippy::cast_precision_loss, reason = "a window has few points")]
    let count = pairs.len() as f32;
    let (mut own_sum, mut other_sum, mut product) = (0.0, 0.0, 0.0);
    for (own, other) in &pairs {
        let (own, other) = (own - own_mean, other - other_mean);
        own_sum += own * own;
        other_sum += other * other;
        product += own * other;
    }
    if [own_sum, other_sum].iter().all(|sum| (sum / count).sqrt() < EVEN_LOAD) {
        return None;
    }
    let scale = (own_sum * other_sum).sqrt();
    Some(if scale > 0.0 { product / scale } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use gtop_fleet::{NodeHoldings, SourceState};
    use gtop_model::{DeviceUse, NodeName, Percent, Reading, Source};

    const NOW: Timestamp = Timestamp::from_micros(10_000_000_000);
    const SECONDS: i64 = 420;

    /// A load over time, given the device and the seconds before now.
    type Load = fn(i64, i64) -> f32;

    /// The devices of a job over time.
    struct Scenario {
        /// The load of each device.
        load: Load,
        devices: i64,
        /// Watts and MHz of the last device; the others draw 650 W at 1980 MHz.
        last: (f32, u32),
        change: fn(&mut Node),
    }

    const TRAINING: Scenario =
        Scenario { load: in_step, devices: 8, last: (220.0, 1980), change: |_| {} };

    /// All devices work in step and pause every 20 seconds; the last one lags.
    fn in_step(device: i64, ago: i64) -> f32 {
        let is_paused = ago % 20 < 3;
        match device {
            7 if is_paused => 10.0,
            7 => 30.0,
            _ if is_paused => 15.0,
            _ => 96.0,
        }
    }

    fn even(device: i64, _ago: i64) -> f32 {
        if device == 7 { 30.0 } else { 97.0 }
    }

    /// Each worker pauses at times of its own; one has less to do.
    fn independent(device: i64, ago: i64) -> f32 {
        let is_paused = (ago + device * 5) % 40 < 3;
        match device {
            7 => 30.0,
            _ if is_paused => 40.0,
            _ => 97.0,
        }
    }

    fn build(scenario: &Scenario) -> Node {
        let mut node = Node::new(NodeName::new("gpu01").unwrap(), Duration::from_secs(600));
        for ago in (0..SECONDS).rev() {
            let at = Timestamp::from_micros(NOW.as_micros() - ago * 1_000_000);
            for device in 0..scenario.devices {
                let uuid = format!("GPU-{device}").into();
                let share = (scenario.load)(device, ago);
                node.history.record(&uuid, Metric::Utilization, at, share);
            }
        }
        let device = |device: i64| {
            let is_last = device + 1 == scenario.devices;
            let (watts, clock) = if is_last { scenario.last } else { (650.0, 1980) };
            Device {
                uuid: format!("GPU-{device}").into(),
                utilization: Reading::checked(Percent::new((scenario.load)(device, 5))),
                power: Reading::checked(Watts::new(watts)),
                sm_clock: Reading::checked(Megahertz::new(clock)),
                ..Device::default()
            }
        };
        node.devices = (0..scenario.devices).map(device).collect();
        node.device_sources = vec![Source::host(); node.devices.len()].into();
        node.sources.push(SourceState {
            source: Source::host(),
            taken_at: Some(NOW),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        });
        let used = |device: &Device| DeviceUse {
            device: Arc::clone(&device.uuid),
            pid: 7,
            ..DeviceUse::default()
        };
        node.uses = node.devices.iter().map(used).collect();
        set_jobs(&mut node, |_| Some("7".to_owned()));
        (scenario.change)(&mut node);
        node
    }

    /// Sets the job of each device, by its position.
    fn set_jobs(node: &mut Node, job_of: fn(usize) -> Option<String>) {
        let jobs: Vec<_> = (0..node.devices.len()).map(job_of).collect();
        let devices = node.devices.iter().zip(&jobs);
        let devices: Vec<_> =
            devices.map(|(device, job)| (&*device.uuid, "ada", job.as_deref())).collect();
        node.holdings = Arc::new(NodeHoldings::example(&devices));
    }

    fn found(scenario: &Scenario) -> Option<usize> {
        find_straggler(&build(scenario), NOW).map(|straggler| straggler.position)
    }

    #[test]
    fn a_device_that_lags_for_five_minutes_in_a_job_that_moves_together_is_a_straggler() {
        let straggler = find_straggler(&build(&TRAINING), NOW).unwrap();
        assert_eq!((straggler.position, straggler.percent), (7, 30.0));
        assert!(straggler.elapsed.span >= Duration::from_secs(300), "{straggler:?}");
        // An even load shows no movement: the cause decides.
        let slow_clock = Scenario { load: even, last: (220.0, 1155), ..TRAINING };
        assert_eq!(found(&slow_clock), Some(7));
        let throttled = |node: &mut Node| {
            node.devices[7].throttle = Reading::Known(Throttle(0x40));
        };
        assert_eq!(found(&Scenario { load: even, change: throttled, ..TRAINING }), Some(7));
    }

    #[test]
    fn what_only_looks_like_a_straggler_is_none() {
        let four_minutes: Load = |device, ago| match device {
            7 if ago > 240 => in_step(0, ago),
            _ => in_step(device, ago),
        };
        let stages: Load = |device, ago| {
            let level = [0.45, 0.6, 0.75, 0.9, 0.95, 0.85, 0.7, 0.4];
            level[usize::try_from(device).unwrap()] * in_step(0, ago)
        };
        let spread: Load = |device, ago| {
            let share = if device == 7 { 0.9 } else { 1.0 };
            share * in_step(0, ago)
        };
        let service: Load = |device, ago| {
            let phase = (ago * (device + 3) * 7) % 97;
            30.0 + f32::from(u8::try_from(phase * 2 / 3).unwrap())
        };
        let idle: Load = |device, ago| if device == 7 { 1.0 } else { in_step(device, ago) };
        let without_job = |node: &mut Node| set_jobs(node, |_| None);
        let array = |node: &mut Node| set_jobs(node, |number| Some(number.to_string()));
        let other_model = |node: &mut Node| {
            node.devices[7].name = Reading::Known("L4".into());
        };
        let few_samples = |node: &mut Node| {
            node.history.drop_series(&["GPU-7".into()]);
            for ago in (0..SECONDS).step_by(2) {
                let at = Timestamp::from_micros(NOW.as_micros() - (SECONDS - ago) * 1_000_000);
                node.history.record(&"GPU-7".into(), Metric::Utilization, at, 30.0);
            }
        };
        for (name, scenario) in [
            ("it lasts four minutes", Scenario { load: four_minutes, ..TRAINING }),
            ("independent workers", Scenario { load: independent, ..TRAINING }),
            (
                "workers with a slow clock",
                Scenario { load: independent, last: (220.0, 1155), ..TRAINING },
            ),
            ("an inference service", Scenario { load: service, ..TRAINING }),
            ("pipeline stages", Scenario { load: stages, ..TRAINING }),
            ("rank 0 writes logs, or a spread of 8 %", Scenario { load: spread, ..TRAINING }),
            ("idle", Scenario { load: idle, ..TRAINING }),
            ("one signal only", Scenario { last: (640.0, 1980), ..TRAINING }),
            ("an even load without a cause", Scenario { load: even, ..TRAINING }),
            ("no job", Scenario { change: without_job, ..TRAINING }),
            ("tasks of an array", Scenario { change: array, ..TRAINING }),
            ("another model", Scenario { change: other_model, ..TRAINING }),
            ("half of the samples", Scenario { change: few_samples, ..TRAINING }),
        ] {
            assert_eq!(found(&scenario), None, "{name}");
        }
    }
}
