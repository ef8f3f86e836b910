//! Rates from the counters of two samples.

use std::sync::Arc;
use std::time::Duration;

use crate::host_share::{HostShare, HostShares};
use crate::node::Traffic;
use gtop_local::time::NodeTime;
use gtop_model::{
    Bytes, Counter, CpuTicks, Device, DeviceCounters, DeviceRates, HostShareReading, Percent,
    Reading, Reason, SharesReading,
};

/// Minimum time between two samples for a rate.
pub(super) const MIN_RATE_SPAN: Duration = Duration::from_millis(250);
/// Maximum time between two samples for a rate: beyond it the rate says nothing about now.
const MAX_RATE_SPAN: Duration = Duration::from_secs(90);

/// Returns CPU utilization between two samples.
pub(super) fn cpu_utilization(before: Option<CpuTicks>, now: Option<CpuTicks>) -> Reading<Percent> {
    let (Some(before), Some(now)) = (before, now) else {
        return Reading::Unknown(Reason::NotAvailable);
    };
    let (Some(busy), Some(idle)) =
        (now.busy.checked_sub(before.busy), now.idle.checked_sub(before.idle))
    else {
        return Reading::Unknown(Reason::NeedsTwoSamples);
    };
    Percent::of(busy, busy.saturating_add(idle))
        .map_or(Reading::Unknown(Reason::NeedsTwoSamples), Reading::Known)
}

/// Returns bytes per second of each counter that is in both samples and did not decrease.
pub(super) fn rates(before: &[Counter], now: &[Counter], span: Duration) -> Arc<[Traffic]> {
    let rates = now.iter().enumerate().filter_map(|(index, counter)| {
        // Nearly always, they are in the same order.
        let mut earlier = before.get(index).into_iter().chain(before);
        let earlier = earlier.find(|earlier| earlier.name == counter.name)?;
        Some(Traffic {
            name: Arc::clone(&counter.name),
            inward: bytes_per_second(counter.inward.checked_sub(earlier.inward)?, span),
            outward: bytes_per_second(counter.outward.checked_sub(earlier.outward)?, span),
        })
    });
    rates.collect()
}

/// A reading, as the base of the next rates, and when it was made.
pub(super) type SharesBase = (NodeTime, SharesReading);

/// Returns the shares of a reading, given one before; `None` if it is the same or soon after it.
pub(super) fn host_shares(
    (at, reading): &SharesBase,
    base: Option<&SharesBase>,
) -> Option<HostShares> {
    let base = base.and_then(|(before, base)| Some((at.since(*before)?, base)));
    if base.is_some_and(|(span, _)| span < MIN_RATE_SPAN) {
        return None;
    }
    let base = base.filter(|(span, _)| *span <= MAX_RATE_SPAN);
    let is_limited = reading.own != HostShareReading::default();
    let own = host_share(&reading.own, base.map(|(span, base)| (span, &base.own)));
    let jobs = reading.jobs.iter().map(|(id, now)| {
        let before = base.and_then(|(span, base)| Some((span, base.jobs.get(id)?)));
        (id.clone(), host_share(now, before))
    });
    Some(HostShares { at: reading.at, own: is_limited.then_some(own), jobs: jobs.collect() })
}

fn host_share(now: &HostShareReading, before: Option<(Duration, &HostShareReading)>) -> HostShare {
    let spent = |(span, before): (Duration, &HostShareReading)| {
        let spent = now.cpu_time?.checked_sub(before.cpu_time?)?;
        Some(spent.as_secs_f32() / span.as_secs_f32())
    };
    let unknown = match now.cpu_time {
        Some(_) => Reason::NeedsTwoSamples,
        None => Reason::NotAvailable,
    };
    HostShare {
        cpus: now.cpus,
        cpus_used: before.and_then(spent).map_or(Reading::Unknown(unknown), Reading::Known),
        memory_limit: now.memory_limit,
        memory_used: now.memory,
    }
}

/// Updates a device's rates from its counters, once [`MIN_RATE_SPAN`] has passed.
///
/// A counter missing from a sample has not changed, so the merged device holds its current value.
pub(super) fn update_rates(device: &mut Device, at: NodeTime) {
    let Some(counters) = &device.counters else { return };
    let before = device.rates.as_deref();
    let span = before.and_then(|before| at.since(before.at));
    if span.is_some_and(|span| span < MIN_RATE_SPAN) {
        return;
    }
    let base = before.filter(|_| span.is_some_and(|span| span <= MAX_RATE_SPAN));
    let base = base.map(|before| &*before.base);
    let rates = device_rates(base, counters, span.unwrap_or_default(), at);
    device.rates = Some(Arc::new(rates));
}

fn device_rates(
    base: Option<&DeviceCounters>,
    now: &Arc<DeviceCounters>,
    span: Duration,
    at: NodeTime,
) -> DeviceRates {
    let per_second = |read| difference(base, now, read).map(|bytes| bytes_per_second(bytes, span));
    let share = |read| difference(base, now, read).map(|nanos| throttled_share(nanos, span));
    DeviceRates {
        at,
        pcie_received: per_second(|counters| counters.pcie_received),
        pcie_sent: per_second(|counters| counters.pcie_sent),
        nvlink_received: per_second(|counters| counters.nvlink_received),
        nvlink_sent: per_second(|counters| counters.nvlink_sent),
        power_throttled: share(|counters| counters.power_throttled),
        thermal_throttled: share(|counters| counters.thermal_throttled),
        sync_boost_throttled: share(|counters| counters.sync_boost_throttled),
        hardware_thermal_throttled: share(|counters| counters.hardware_thermal_throttled),
        power_brake_throttled: share(|counters| counters.power_brake_throttled),
        base: Arc::clone(now),
    }
}

/// Returns how much a counter has grown.
fn difference(
    base: Option<&DeviceCounters>,
    now: &DeviceCounters,
    read: fn(&DeviceCounters) -> Reading<u64>,
) -> Reading<u64> {
    let Some(count) = read(now).get() else { return read(now) };
    let earlier = base.and_then(|base| read(base).get());
    let grown = earlier.and_then(|earlier| count.checked_sub(earlier));
    grown.map_or(Reading::Unknown(Reason::NeedsTwoSamples), Reading::Known)
}

/// Returns nanoseconds as a share of a span.
fn throttled_share(nanoseconds: u64, span: Duration) -> Percent {
    let span_nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).max(1);
    Percent::of(nanoseconds, span_nanos).unwrap_or_default()
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes per second stay far below 2^53 and are not negative"
)]
fn bytes_per_second(bytes: u64, span: Duration) -> Bytes {
    Bytes((bytes as f64 / span.as_secs_f64()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_local::time::{ClockOffset, Timestamp};
    use gtop_model::{Job, JobId};

    fn at(millis: i64) -> NodeTime {
        ClockOffset::default().node_time(Timestamp::from_micros(millis * 1_000))
    }

    fn counters_with(received: u64, throttled: u64) -> Option<Arc<DeviceCounters>> {
        DeviceCounters {
            pcie_received: Reading::Known(received),
            power_throttled: Reading::Known(throttled),
            thermal_throttled: Reading::Unknown(Reason::NotSupported),
            ..DeviceCounters::default()
        }
        .shared()
    }

    #[test]
    fn decreasing_cpu_ticks_give_no_utilization() {
        let ticks = |busy, idle| Some(CpuTicks { busy, idle });
        let share = |before, now| cpu_utilization(before, now).get().map(Percent::get);
        assert_eq!(share(ticks(100, 100), ticks(150, 150)), Some(50.0));
        // The idle counter may decrease on a busy machine (proc(5)); utilization must not become 100 %.
        assert_eq!(share(ticks(100, 100), ticks(150, 99)), None);
        assert_eq!(share(ticks(100, 100), ticks(99, 150)), None);
        assert_eq!(share(ticks(100, 100), ticks(100, 100)), None);
        assert_eq!(share(None, ticks(100, 100)), None);
    }

    #[test]
    fn counters_become_rates_after_the_minimum_time() {
        let mut device = Device { counters: counters_with(1_000, 0), ..Device::default() };
        update_rates(&mut device, at(0));
        let first = device.rates.clone().unwrap();
        assert_eq!(first.pcie_received, Reading::Unknown(Reason::NeedsTwoSamples));
        assert_eq!(first.thermal_throttled, Reading::Unknown(Reason::NotSupported));
        device.counters = counters_with(1_500, 50_000_000);
        update_rates(&mut device, at(100));
        assert_eq!(device.rates.as_ref(), Some(&first));
        device.counters = counters_with(3_000, 250_000_000);
        update_rates(&mut device, at(500));
        let rates = device.rates.clone().unwrap();
        assert_eq!(rates.pcie_received, Reading::Known(Bytes(4_000)));
        assert_eq!(rates.power_throttled.get().map(Percent::get), Some(50.0));
    }

    #[test]
    fn an_unchanged_counter_has_rate_zero_and_a_reset_one_is_unknown() {
        let mut device = Device { counters: counters_with(1_000, 10), ..Device::default() };
        update_rates(&mut device, at(0));
        update_rates(&mut device, at(1_000));
        let rates = device.rates.clone().unwrap();
        assert_eq!(rates.pcie_received, Reading::Known(Bytes(0)));
        device.counters = counters_with(0, 10);
        update_rates(&mut device, at(2_000));
        let rates = device.rates.clone().unwrap();
        assert_eq!(rates.pcie_received, Reading::Unknown(Reason::NeedsTwoSamples));
    }

    #[test]
    fn rates_restart_when_the_clock_of_the_node_restarts() {
        let mut device = Device { counters: counters_with(1_000, 10), ..Device::default() };
        update_rates(&mut device, at(5_000));
        for (seconds, rate) in [(1, None), (2, Some(Bytes(0)))] {
            update_rates(&mut device, at(seconds * 1_000));
            assert_eq!(device.rates.as_ref().unwrap().pcie_received.get(), rate);
        }
    }

    #[test]
    fn a_long_gap_gives_no_rate() {
        let mut device = Device { counters: counters_with(1_000, 10), ..Device::default() };
        update_rates(&mut device, at(0));
        device.counters = counters_with(9_000, 10);
        update_rates(&mut device, at(600_000));
        let rates = device.rates.clone().unwrap();
        assert_eq!(rates.pcie_received, Reading::Unknown(Reason::NeedsTwoSamples));
    }

    fn shares_reading(seconds: i64, cpu_seconds: Option<u64>) -> SharesReading {
        let share = HostShareReading {
            cpus: Some(8.0),
            cpu_time: cpu_seconds.map(Duration::from_secs),
            ..HostShareReading::default()
        };
        SharesReading {
            at: Timestamp::from_micros(seconds * 1_000_000),
            jobs: [(JobId::new("7").unwrap(), share)].into(),
            ..SharesReading::default()
        }
    }

    fn based(reading: SharesReading) -> SharesBase {
        (ClockOffset::default().node_time(reading.at), reading)
    }

    fn cpus_used(shares: &HostShares) -> Reading<f32> {
        shares.of_job(&Job::example("7")).unwrap().cpus_used
    }

    #[test]
    fn cpus_in_use_are_those_between_two_readings_of_one_session() {
        let base = based(shares_reading(10, Some(100)));
        let first = host_shares(&base, None).unwrap();
        assert_eq!(cpus_used(&first), Reading::Unknown(Reason::NeedsTwoSamples));
        let next =
            |seconds, spent| host_shares(&based(shares_reading(seconds, spent)), Some(&base));
        assert_eq!(cpus_used(&next(20, Some(179)).unwrap()), Reading::Known(7.9));
        assert_eq!(next(10, Some(100)), None, "the same reading again");
        // The group is another one, or the readings are too far apart.
        for later in [next(20, Some(3)), next(200, Some(179))] {
            assert_eq!(cpus_used(&later.unwrap()), Reading::Unknown(Reason::NeedsTwoSamples));
        }
        let unread = next(20, None).unwrap();
        assert_eq!(cpus_used(&unread), Reading::Unknown(Reason::NotAvailable));
        assert_eq!(unread.own, None);
    }
}
