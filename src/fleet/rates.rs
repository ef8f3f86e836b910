//! Rates from counters: what two samples say together.

use std::sync::Arc;
use std::time::Duration;

use crate::fleet::node::Traffic;
use crate::model::{Bytes, Counter, CpuTicks, Percent, Reading, Reason};

/// The share of processor time spent working between two samples.
pub(super) fn cpu_share(before: Option<CpuTicks>, now: Option<CpuTicks>) -> Reading<Percent> {
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

/// Bytes per second of each counter that stood before too and did not run backwards.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bytes per second stay far below 2^53 and are not negative"
)]
pub(super) fn rates(before: &[Counter], now: &[Counter], span: Duration) -> Arc<[Traffic]> {
    let per_second = |bytes: u64| Bytes((bytes as f64 / span.as_secs_f64()) as u64);
    let rate = |counter: &Counter| {
        let earlier = before.iter().find(|earlier| earlier.name == counter.name)?;
        Some(Traffic {
            name: Arc::clone(&counter.name),
            inward: per_second(counter.inward.checked_sub(earlier.inward)?),
            outward: per_second(counter.outward.checked_sub(earlier.outward)?),
        })
    };
    now.iter().filter_map(rate).collect()
}
