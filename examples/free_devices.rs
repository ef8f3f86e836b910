//! Prints the idle devices of some nodes, once; it needs no feature.
//!
//!     cargo run --example free_devices --no-default-features -- gpu01 'gpu[03-16]'

use std::time::Duration;

use gtop::api::{ApiError, Monitor};

#[expect(clippy::print_stdout, reason = "a small program, not gtop")]
fn main() -> Result<(), ApiError> {
    let mut monitor = Monitor::builder().nodes(std::env::args().skip(1)).start()?;
    for node in monitor.complete_snapshot(Duration::from_secs(20)).nodes() {
        if let Some(fault) = node.fault() {
            println!("{}: {fault}", node.name());
        }
        for device in node.devices().filter(|device| device.is_idle_held() == Some(false)) {
            if device.number("util").is_some_and(|util| util < 5.0) {
                println!("{} {}", node.name(), device.text("name").unwrap_or_default());
            }
        }
    }
    Ok(())
}
