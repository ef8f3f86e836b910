//! The library, as another program uses it.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use gtop::api::Monitor;

/// Fails a test that hangs; nothing depends on how soon the nodes answer.
const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn nodes_devices_and_jobs_of_a_snapshot_are_read() {
    let mut monitor = Monitor::start(["--demo=2", "--seed=1"]).unwrap();
    let snapshot = monitor.complete_snapshot(LIMIT);
    let nodes: Vec<_> = snapshot.nodes().collect();
    assert_eq!(nodes.len(), 2);
    for node in &nodes {
        assert!(node.fault().is_none() && node.age().is_some(), "{node:?}");
        assert!(node.devices().count() > 0);
    }
    let device = nodes[0].devices().next().unwrap();
    assert!(device.is_fresh() && device.is_idle_held().is_some());
    assert_eq!(device.number("util"), device.number("utilization_percent"));
    assert!(device.number("util").is_some_and(|util| (0.0..=100.0).contains(&util)));
    assert_eq!(device.number("no-such-metric"), None);
    assert!(device.text("name").is_some_and(|name| !name.is_empty()));
    assert!(snapshot.jobs().count() > 0);
    for job in snapshot.jobs() {
        assert!(!job.id().is_empty());
        let utils: Vec<f64> = job.devices().filter_map(|device| device.number("util")).collect();
        assert_eq!(job.utilization().is_some(), !utils.is_empty());
    }
    assert!(monitor.next_snapshot().is_some());
}

#[test]
fn nodes_are_named_without_the_command_line() {
    let mut monitor =
        Monitor::builder().demo(2).interval(Duration::from_millis(500)).start().unwrap();
    // An interval beyond the limits is the limit.
    drop(Monitor::builder().demo(1).interval(Duration::MAX).start().unwrap());
    let snapshot = monitor.complete_snapshot(LIMIT);
    assert!(snapshot.nodes().all(|node| node.fault().is_none() && node.devices().count() > 0));
    assert_eq!(snapshot.nodes().count(), 2);
    assert!(snapshot.jobs().count() > 0);
    let names = ["127.0.0.1:1"];
    let mut monitor = Monitor::builder().nodes(names).local().start().unwrap();
    let snapshot = monitor.complete_snapshot(LIMIT);
    let faults: Vec<_> = snapshot.nodes().map(|node| node.fault().is_some()).collect();
    assert_eq!(faults, [true, false]);
    let error = Monitor::builder().nodes(["gpu["]).start().unwrap_err().to_string();
    assert!(error.contains("'['"), "{error}");
}

#[test]
fn the_second_page_is_read_soon_however_long_the_interval() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (requests, requested) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            assert!(stream.read(&mut request).unwrap() > 0);
            let page = "node_load1 0.5\n";
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", page.len());
            stream.write_all(format!("{head}Connection: close\r\n\r\n{page}").as_bytes()).unwrap();
            if requests.send(()).is_err() {
                return;
            }
        }
    });
    let hour = Duration::from_secs(3600);
    let url = format!("http://{address}/metrics");
    let _monitor = Monitor::builder().nodes([url]).interval(hour).start().unwrap();
    for _ in 0..2 {
        requested.recv_timeout(LIMIT).unwrap();
    }
}

#[test]
fn a_wrong_argument_is_a_sentence() {
    let error = Monitor::start(["--no-such-option"]).unwrap_err().to_string();
    assert!(error.starts_with("unexpected argument '--no-such-option'"), "{error}");
}

#[test]
fn a_node_that_does_not_answer_has_a_fault_and_no_values() {
    // Port 1 of the loopback refuses connections.
    let mut monitor = Monitor::start(["--transport=native", "127.0.0.1:1"]).unwrap();
    let snapshot = monitor.complete_snapshot(LIMIT);
    let node = snapshot.nodes().next().unwrap();
    assert!(node.fault().is_some_and(|fault| !fault.is_empty()));
    assert_eq!((node.age(), node.devices().count()), (None, 0));
}
