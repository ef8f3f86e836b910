//! Prints each device that is held and has done nothing for MINUTES, once.
//!
//!     cargo run --example alert_on_idle -- 10 --slurm

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gtop::api::{ApiError, Monitor, Node};

#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a small program, not gtop")]
fn main() -> Result<(), ApiError> {
    let mut args = std::env::args_os().skip(1).peekable();
    let minutes = args.next_if(|arg| arg.to_str().is_some_and(|arg| arg.parse::<u64>().is_ok()));
    let minutes = minutes.and_then(|arg| arg.to_str()?.parse().ok()).unwrap_or(10);
    let limit = Duration::from_secs(60 * minutes);
    let mut monitor = Monitor::start(args)?;
    // Since when each device is idle, and whether it was printed.
    let mut idle: BTreeMap<String, (Instant, bool)> = BTreeMap::new();
    while let Some(snapshot) = monitor.next_snapshot() {
        for device in snapshot.nodes().flat_map(Node::devices) {
            match device.is_idle_held() {
                Some(true) => {
                    let (since, is_printed) =
                        idle.entry(device.uuid().to_owned()).or_insert((Instant::now(), false));
                    if since.elapsed() >= limit && !*is_printed {
                        *is_printed = true;
                        let index =
                            device.index().map_or("?".to_owned(), |index| index.to_string());
                        println!(
                            "{} device {index} is held and idle for {minutes} min",
                            device.node().name()
                        );
                    }
                }
                // Either it works, or nothing is known of it now.
                Some(false) | None => drop(idle.remove(device.uuid())),
            }
        }
    }
    Ok(())
}
