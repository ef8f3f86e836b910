//! Prints each device that is held and has done nothing for MINUTES, once, and who has it; asynchronously.
//!
//!     cargo run --example alert_on_idle -- 10 --slurm

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gtop::{Device, DeviceState, Error, Holder, Monitor};

#[tokio::main(flavor = "current_thread")]
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a small program, not gtop")]
async fn main() -> Result<(), Error> {
    let mut args = std::env::args_os().skip(1).peekable();
    let minutes = args.next_if(|arg| arg.to_str().is_some_and(|arg| arg.parse::<u64>().is_ok()));
    let minutes = minutes.and_then(|arg| arg.to_str()?.parse().ok()).unwrap_or(10);
    let limit = Duration::from_secs(60 * minutes);
    let monitor = Monitor::start(args)?;
    // Since when each device is idle, and whether it was printed.
    let mut idle: BTreeMap<(String, String), (Instant, bool)> = BTreeMap::new();
    let mut fleets = monitor.stream();
    while let Some(fleet) = fleets.next().await {
        for device in fleet.devices() {
            let key = (device.node().name().to_owned(), device.uuid().to_owned());
            if device.state() != Some(DeviceState::IdleHeld) {
                // Either it works, or nothing is known of it now.
                idle.remove(&key);
                continue;
            }
            let (since, is_printed) = idle.entry(key).or_insert((Instant::now(), false));
            if since.elapsed() >= limit && !*is_printed {
                *is_printed = true;
                println!("{} is held and idle for {minutes} min{}", label(device), users(device));
            }
        }
    }
    Ok(())
}

fn label(device: Device<'_>) -> String {
    let index = device.index().map_or("?".to_owned(), |index| index.to_string());
    format!("{} device {index}", device.node().name())
}

fn users(device: Device<'_>) -> String {
    let users: Vec<String> = device.holders().filter_map(Holder::user).collect();
    if users.is_empty() { String::new() } else { format!(", by {}", users.join(", ")) }
}
