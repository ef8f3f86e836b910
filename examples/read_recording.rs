//! Prints the mean utilization and power of each node of a recording, from a snapshot every SECONDS.
//!
//!     gtop record --demo -w a.gtop       for a while
//!     cargo run --example read_recording -- 10 a.gtop

use std::collections::BTreeMap;
use std::time::Duration;

use gtop::{DeviceMetric, Error, Recording};

/// Sums of a node: utilization, power, and how many devices and snapshots they are of.
#[derive(Default)]
struct Sums {
    utilization: f64,
    utilization_count: u32,
    watts: f64,
    power_count: u32,
}

#[expect(clippy::print_stdout, reason = "a small program, not gtop")]
fn main() -> Result<(), Error> {
    let mut args = std::env::args_os().skip(1).peekable();
    let seconds = args.next_if(|arg| arg.to_str().is_some_and(|arg| arg.parse::<u64>().is_ok()));
    let seconds = seconds.and_then(|arg| arg.to_str()?.parse().ok()).unwrap_or(10);
    let recording = Recording::open(args)?;
    let mut nodes: BTreeMap<String, Sums> = BTreeMap::new();
    for fleet in recording.fleets(Duration::from_secs(seconds)) {
        for device in fleet.devices() {
            let sums = nodes.entry(device.node().name().to_owned()).or_default();
            // Neither counts while it is unknown or old.
            if let Some(share) = device.number(DeviceMetric::UtilizationPercent) {
                sums.utilization += share;
                sums.utilization_count += 1;
            }
            if let Some(watts) = device.number(DeviceMetric::PowerWatts) {
                sums.watts += watts;
                sums.power_count += 1;
            }
        }
    }
    for (node, sums) in nodes {
        let mean = |sum: f64, count: u32| {
            if count == 0 { "unknown".to_owned() } else { format!("{:.1}", sum / f64::from(count)) }
        };
        let utilization = mean(sums.utilization, sums.utilization_count);
        println!("{node}: {utilization} % and {} W per device", mean(sums.watts, sums.power_count));
    }
    Ok(())
}
