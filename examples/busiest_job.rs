//! Prints the job whose devices work hardest.
//!
//!     cargo run --example busiest_job -- --slurm

use std::time::Duration;

use gtop::{Error, Monitor};

#[expect(clippy::print_stdout, reason = "a small program, not gtop")]
fn main() -> Result<(), Error> {
    let monitor = Monitor::start(std::env::args_os().skip(1))?;
    let fleet = monitor.complete_blocking(Duration::from_secs(20));
    let busiest = fleet
        .jobs()
        .filter_map(|job| Some((job.utilization()?, job)))
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    if let Some((utilization, job)) = busiest {
        let devices = job.devices().count();
        println!(
            "{} {} {}: {utilization:.0} % of {devices} devices",
            job.id(),
            job.user(),
            job.name()
        );
        return Ok(());
    }
    println!("no job has a device whose utilization is known");
    for node in fleet.nodes() {
        if let Some(fault) = node.fault() {
            println!("{}: {fault}", node.name());
        }
    }
    Ok(())
}
