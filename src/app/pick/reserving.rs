//! Picks beside other picks on this machine: what they have reserved is left, and what is picked is reserved.

use std::io::Write;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::app::env::Env;
use crate::app::{AppError, unless_stopped};
use crate::cli::PickOptions;
use gtop_fleet::Fleet;
use gtop_fleet::insight::pick::{PickRequest, Picks};
use gtop_local::storage::reservations::{PickLock, Reservations};
use gtop_local::time::Timestamp;
use gtop_ui::{StopReason, StopSignals};

/// A choice takes milliseconds: a lock that is held for so long is not for one.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is tried.
const LOCK_INTERVAL: Duration = Duration::from_millis(20);

/// Picks from a fleet, and reserves what is picked if a command or the user is to have it. Returns the request as it was
/// met, and when.
pub(super) fn choose(
    env: &Env,
    options: &PickOptions,
    fleet: &Fleet,
    mut request: PickRequest,
    err: &mut impl Write,
) -> Result<(Picks, PickRequest, Timestamp), AppError> {
    let reservations = Reservations::default();
    let mut lock = None;
    if options.respects_reservations() && env.cli.nodes.demo.is_none() {
        lock = env.runtime.block_on(wait_for_lock())?;
        request.reserved = reservations.devices(env.clock.now());
    }
    let now = env.clock.now();
    let picks = Picks::of(fleet, now, &request);
    let wanted = options.reservation().filter(|_| picks.is_enough && env.cli.nodes.demo.is_none());
    if let Some((length, end)) = wanted {
        let devices = picks.picked.iter().map(|device| &*device.uuid);
        if let Err(error) = reservations.add(devices, now, length, end) {
            writeln!(err, "gtop: other picks may take these devices too: {error}")?;
        }
    }
    drop(lock);
    Ok((picks, request, now))
}

/// Waits until no other gtop picks; `None` if that takes too long, or where there are no such locks.
async fn wait_for_lock() -> Result<Option<PickLock>, StopReason> {
    let mut signals = StopSignals::new();
    let began = Instant::now();
    loop {
        match PickLock::try_take() {
            Ok(None) if began.elapsed() < LOCK_TIMEOUT => {}
            Ok(lock) => return Ok(lock),
            Err(_error) => return Ok(None),
        }
        unless_stopped(&mut signals, sleep(LOCK_INTERVAL)).await?;
    }
}
