//! Prints the job whose devices work hardest.
//!
//!     cargo run --example busiest_job -- --slurm

use std::time::Duration;

use gtop::api::{ApiError, Monitor};

#[expect(clippy::print_stdout, reason = "a small program, not gtop")]
fn main() -> Result<(), ApiError> {
    let mut monitor = Monitor::start(std::env::args_os().skip(1))?;
    let snapshot = monitor.complete_snapshot(Duration::from_secs(20));
    let busiest = snapshot
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
    for node in snapshot.nodes() {
        if let Some(fault) = node.fault() {
            println!("{}: {fault}", node.name());
        }
    }
    Ok(())
}
