//! Appends the devices of each fleet to a table of a file of `SQLite`, until it is interrupted or has written COUNT.
//!
//!     cargo run --example log_to_sqlite -- fleet.db 60 --slurm --interval=10
//!     sqlite3 fleet.db 'SELECT node, avg(utilization_percent) FROM devices GROUP BY node'

use std::error::Error;
use std::time::{Duration, SystemTime};

use gtop::{DeviceMetric, Monitor};
use rusqlite::{Connection, params};

/// An unknown value is NULL, never 0.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS devices (
    time REAL NOT NULL,
    node TEXT NOT NULL,
    uuid TEXT NOT NULL,
    device INTEGER,
    utilization_percent REAL,
    memory_used_bytes REAL,
    power_watts REAL
)";
const INSERT: &str = "INSERT INTO devices VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
/// At most one fleet in this time.
const EVERY: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).peekable();
    let file = args.next().ok_or("name a file: log_to_sqlite FILE [COUNT] [options of gtop]")?;
    let count = args.next_if(|arg| arg.to_str().is_some_and(|arg| arg.parse::<u64>().is_ok()));
    let count = count.and_then(|arg| arg.to_str()?.parse::<u64>().ok()).unwrap_or(u64::MAX);
    let mut database = Connection::open(file)?;
    database.execute(TABLE, [])?;
    let monitor = Monitor::start(args)?;
    let (mut written, mut next) = (0, SystemTime::UNIX_EPOCH);
    monitor.complete_blocking(Duration::from_secs(20));
    for fleet in monitor.fleets() {
        if fleet.time() < next {
            continue;
        }
        next = fleet.time() + EVERY;
        let seconds = fleet.time().duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64();
        let transaction = database.transaction()?;
        for device in fleet.devices() {
            transaction.prepare_cached(INSERT)?.execute(params![
                seconds,
                device.node().name(),
                device.uuid(),
                device.index(),
                device.number(DeviceMetric::UtilizationPercent),
                device.number(DeviceMetric::MemoryUsedBytes),
                device.number(DeviceMetric::PowerWatts),
            ])?;
        }
        transaction.commit()?;
        written += 1;
        if written >= count {
            break;
        }
    }
    Ok(())
}
