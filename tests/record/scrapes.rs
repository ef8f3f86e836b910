//! A replay shows what pages of metrics contained live.

use std::time::Duration;

use gtop_collect::sim::FleetSpec;
use gtop_collect::source::replay::Recordings;
use gtop_collect::wire::{RawUpdate, excerpt};
use gtop_local::time::Timestamp;
use gtop_model::{Link, NodeName, SessionUpdate, TransportKind};

use super::{HISTORY, RecorderOptions, START, Session, Thinning, json, options, replayed};

const SECOND: Duration = Duration::from_secs(1);

fn after(second: u32) -> Timestamp {
    START.plus(Duration::from_secs(second.into()))
}

/// Returns the page of a second.
fn page(second: u32) -> RawUpdate {
    let gpu = r#"uuid="GPU-1",index="0",devicename="NVIDIA H100""#;
    let process = format!(r#"{gpu},pid="77",username="ada""#);
    let lines = [
        format!("gpu_utilization_Percentage{{{gpu}}} {}", second % 100),
        format!(
            "gpu_memory_total_MiB{{{gpu}}} 81559\ngpu_memory_used_MiB{{{gpu}}} {}",
            100 + second
        ),
        format!("gpu_power_usage_W{{{gpu}}} NaN"),
        format!(
            "process_info_info{{{process},command=\"python \\\"a\\\"\\n\",status=\"running\"}} 1"
        ),
        format!("process_gpu_memory_MiB{{{process}}} {second}"),
        format!("process_running_time_Second{{{process}}} {second}"),
        format!("process_cpu_percent_Percentage{{{process}}} {}", second % 7),
        format!("node_cpu_seconds_total{{cpu=\"0\",mode=\"user\"}} {}", second * second / 200),
        format!("node_cpu_seconds_total{{cpu=\"0\",mode=\"idle\"}} {second}"),
        format!("node_network_receive_bytes_total{{device=\"eth0\"}} {}", second * second),
        format!("node_network_transmit_bytes_total{{device=\"eth0\"}} {}", second * 9),
        format!("node_pressure_io_waiting_seconds_total {}", f64::from(second * second) / 1_000.0),
        format!("node_time_seconds {}\nnode_boot_time_seconds 1", 1_000 + second),
        "go_threads 7".to_owned(),
    ];
    RawUpdate::Scrape(excerpt(&lines.join("\n"), None).unwrap())
}

/// Records a node that is read each second, and returns its snapshots at some of them.
fn record(session: &mut Session, length: u32, at: &[u32]) -> Vec<(u32, String)> {
    let name = NodeName::new("gpu01").unwrap();
    for update in [
        SessionUpdate::Link(Link::Opening { attempt: 1 }),
        SessionUpdate::Reached(TransportKind::Http),
        SessionUpdate::Link(Link::Up),
        SessionUpdate::Interval(SECOND),
    ] {
        session.deliver(&name, update);
    }
    let mut snapshots = Vec::new();
    for second in 0..=length {
        session.deliver(&name, page(second));
        if at.contains(&second) {
            snapshots.push((second, json(&session.fleet(), after(second))));
        }
        session.clock.advance(SECOND);
        session.recorder.flush();
    }
    snapshots
}

#[test]
fn the_snapshot_of_a_time_is_that_of_its_page() {
    let mut session = Session::start(&FleetSpec::busy(1, 1, 1, 1));
    let snapshots = record(&mut session, 130, &[0, 1, 2, 30, 56, 57, 58, 90, 129]);
    let last = &snapshots.last().unwrap().1;
    assert!(
        last.contains(r#""transport":"http""#) && last.contains(r#""utilization_percent":29.0"#)
    );
    for (second, live) in &snapshots {
        let at = after(*second);
        assert_eq!(json(&replayed(&session.path, at), at), *live, "after {second} s");
    }
    let recordings = Recordings::open([session.path.as_path()]).unwrap();
    for (second, live) in snapshots.iter().filter(|(second, _)| *second > 60) {
        let at = after(*second);
        let snapshot = recordings.fleet_from_checkpoint(at, HISTORY);
        assert_eq!(json(&snapshot, at), *live, "after {second} s");
    }
    // Only what is read is kept, and a checkpoint repeats two pages.
    let lines = super::lines(&session.path);
    let scrapes: Vec<&str> = lines.lines().filter(|line| line.contains("\"scrape\":")).collect();
    let repeated = scrapes.iter().filter(|line| line.contains("\"checkpoint\":true")).count();
    assert!(scrapes.len() - repeated == 131 && repeated >= 4 && repeated % 2 == 0, "{repeated}");
    assert!(!lines.contains("go_threads"));
}

#[test]
fn pages_can_be_recorded_less_often() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gtop");
    let every = Duration::from_secs(10);
    let thinned = RecorderOptions { thinning: Thinning::Every(every), ..options() };
    let mut session = Session::at(&path, &FleetSpec::busy(1, 1, 1, 1), START, thinned);
    record(&mut session, 40, &[]);
    drop(session);
    let lines = super::lines(&path);
    let is_page = |line: &&str| line.contains("\"scrape\":") && !line.contains("\"checkpoint\"");
    assert_eq!(lines.lines().filter(is_page).count(), 5);
    // The last one came after 36 s, as ten seconds are not exact.
    let snapshot = json(&replayed(&path, after(40)), after(40));
    for part in ["\"utilization_percent\":36.0", "\"age_seconds\":4.0,\"interval_seconds\":10.0"] {
        assert!(snapshot.contains(part), "{part} in {snapshot}");
    }
}
