//! Prints the free devices of some nodes, once; it needs no feature.
//!
//!     cargo run --example free_devices --no-default-features -- gpu01 'gpu[03-16]'

use std::time::Duration;

use gtop::{DeviceMetric, DeviceState, Error, Monitor};

#[expect(clippy::print_stdout, reason = "a small program, not gtop")]
fn main() -> Result<(), Error> {
    let monitor = Monitor::builder().nodes(std::env::args().skip(1)).start()?;
    let fleet = monitor.complete_blocking(Duration::from_secs(20));
    for node in fleet.nodes() {
        if let Some(fault) = node.fault() {
            println!("{}: {fault}", node.name());
        }
        for device in node.devices().filter(|device| device.state() == Some(DeviceState::Free)) {
            let model = device.text(DeviceMetric::Name).unwrap_or_default();
            println!("{} {model} {}", node.name(), device.uuid());
        }
    }
    Ok(())
}
