//! The library, as another program uses it.

use std::error::Error as _;
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use gtop::{
    Device, DeviceMetric, DeviceState, Error, Fleet, Fleets, Health, HostMetric, JobMetric,
    Monitor, Node, PickRequest, ProcessMetric, Recording, Unknown, Value,
};
use serde_json::Value as Json;

/// Fails a test that hangs; nothing depends on how soon the nodes answer.
const LIMIT: Duration = Duration::from_secs(120);

/// A recording of two busy nodes, with jobs.
const RECORDING: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recordings/format-1.gtop");

#[test]
fn what_is_shared_between_threads_can_be() {
    fn check_shared<T: Send + Sync + 'static>() {}
    fn check_sent<T: Send + Unpin + 'static>() {}
    check_shared::<Monitor>();
    check_shared::<Fleet>();
    check_shared::<Recording>();
    check_shared::<Error>();
    check_shared::<PickRequest>();
    check_sent::<Fleets>();
}

#[test]
fn nodes_devices_and_jobs_are_read() {
    let monitor = Monitor::start(["--demo=2", "--seed=1"]).unwrap();
    let fleet = monitor.complete_blocking(LIMIT);
    assert!(fleet.is_complete());
    assert_eq!(fleet.source(), "demo, 2 simulated nodes");
    let nodes: Vec<_> = fleet.nodes().collect();
    assert_eq!(nodes.len(), 2);
    for node in &nodes {
        assert!(node.fault().is_none() && node.age().is_some(), "{node:?}");
        assert!(node.devices().count() > 0);
        assert!(
            node.number(HostMetric::CpuPercent).is_some_and(|cpu| (0.0..=100.0).contains(&cpu))
        );
        assert_eq!(fleet.node(node.name()).map(Node::name), Some(node.name()));
    }
    let device = nodes[0].devices().next().unwrap();
    assert!(device.is_fresh() && device.state().is_some());
    assert_ne!(device.health(), Health::Unknown);
    let util = device.number(DeviceMetric::UtilizationPercent);
    assert!(util.is_some_and(|util| (0.0..=100.0).contains(&util)));
    assert!(device.text(DeviceMetric::Name).is_some_and(|name| !name.is_empty()));
    assert!(matches!(device.value(DeviceMetric::MigEnabled), Ok(Value::Flag(_))));
    // A GPU of NVIDIA has no TPU cores.
    assert!(matches!(device.value(DeviceMetric::TpuCores), Err(Unknown::Absent(_))));
    assert!(fleet.jobs().count() > 0);
    for job in fleet.jobs() {
        assert!(!job.id().is_empty());
        assert_eq!(job.value(JobMetric::ShownId), Ok(Value::Text(job.id().into())));
        let known = job.devices().filter_map(|it| it.number(DeviceMetric::UtilizationPercent));
        assert_eq!(job.utilization().is_some(), known.count() > 0);
    }
    assert!(monitor.fleets().nth(1).is_some());
}

#[test]
fn who_has_a_device_and_which_are_free() {
    let monitor = Monitor::builder().demo(12).start().unwrap();
    let fleet = monitor.complete_blocking(LIMIT);
    let used: Vec<Device<'_>> =
        fleet.devices().filter(|device| device.state() == Some(DeviceState::Busy)).collect();
    let process = used.iter().find_map(|device| device.processes().ok()?.into_iter().next());
    let process = process.unwrap();
    assert!(process.pid() > 0 && process.text(ProcessMetric::User).is_some());
    assert!(process.number(ProcessMetric::MemoryUsedBytes).is_some());
    let holder = used.iter().flat_map(|device| device.holders()).find(|it| it.job().is_some());
    let holder = holder.unwrap();
    assert!(holder.user().is_some() && holder.evidence().count() > 0);
    let held = fleet.devices().find(|device| device.state() == Some(DeviceState::IdleHeld));
    assert!(held.unwrap().state_reason().is_some());
    let unsound = fleet.devices().find(|device| device.health() == Health::Faulty).unwrap();
    assert!(
        unsound.health_reasons().all(|reason| !reason.id.is_empty() && !reason.text.is_empty())
    );
    let picks = fleet.pick(&PickRequest::new(1));
    assert!(picks.is_enough());
    let picked = picks.devices().next().unwrap();
    assert_eq!(picked.state(), Some(DeviceState::Free));
    assert_eq!(picks.variables().len(), 2, "{:?}", picks.variables());
    assert!(
        picks.refused().all(|refusal| refusal.node().is_some() && !refusal.reason().is_empty())
    );
    assert!(!fleet.pick(&PickRequest::new(10_000).same_node()).is_enough());
}

#[test]
fn a_metric_is_named_by_its_key_or_its_word() {
    for name in ["utilization_percent", "util"] {
        let metric: DeviceMetric = name.parse().unwrap();
        assert_eq!(metric, DeviceMetric::UtilizationPercent);
        assert_eq!((metric.to_string().as_str(), metric.unit()), ("utilization_percent", "%"));
        assert!(metric.help().starts_with("share of time"));
    }
    let error = "no-such-metric".parse::<HostMetric>().unwrap_err().to_string();
    assert!(error.contains("\"no-such-metric\""), "{error}");
}

#[test]
fn nodes_are_named_without_the_command_line() {
    let monitor = Monitor::builder().demo(2).interval(Duration::from_millis(500)).start().unwrap();
    // An interval beyond the limits is the limit.
    drop(Monitor::builder().demo(1).interval(Duration::MAX).start().unwrap());
    let fleet = monitor.complete_blocking(LIMIT);
    assert!(fleet.nodes().all(|node| node.fault().is_none() && node.devices().count() > 0));
    assert_eq!(fleet.nodes().count(), 2);
    assert!(fleet.jobs().count() > 0);
    let names = ["127.0.0.1:1"];
    let monitor = Monitor::builder().nodes(names).local().start().unwrap();
    let fleet = monitor.complete_blocking(LIMIT);
    assert_eq!(fleet.source(), "127.0.0.1:1 and this machine");
    let faults: Vec<_> = fleet.nodes().map(|node| node.fault().is_some()).collect();
    assert_eq!(faults, [true, false]);
}

/// Starts, reads and drops monitors within a runtime, in all ways.
async fn use_in_runtime() {
    let monitor = Monitor::builder().demo(1).start().unwrap();
    assert!(monitor.complete(LIMIT).await.is_complete());
    assert!(monitor.complete_blocking(LIMIT).is_complete());
    let mut fleets = monitor.stream();
    assert!(fleets.next().await.is_some());
    // A task may be suspended after 128 steps, which must not suspend what blocks it.
    for _ in 0..300 {
        assert!(monitor.fleets().next().is_some());
    }
    let by_arguments = Monitor::start(["--demo=1"]).unwrap();
    by_arguments.complete(LIMIT).await;
    drop((monitor, by_arguments));
    // The last one may have come before the end.
    while fleets.next().await.is_some() {}
}

#[tokio::test]
async fn it_is_used_in_a_runtime_of_one_thread() {
    use_in_runtime().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_used_in_a_runtime_of_several_threads() {
    use_in_runtime().await;
}

#[test]
fn a_stream_needs_no_runtime() {
    let monitor = Monitor::builder().demo(1).start().unwrap();
    let mut fleets = monitor.fleets();
    assert!(fleets.by_ref().any(|fleet| fleet.is_complete()));
    drop(monitor);
    assert!(fleets.count() <= 1);
}

/// Returns what a fleet is serialised to, as a value and as text.
fn json(fleet: &Fleet) -> Json {
    let value = serde_json::to_value(fleet).unwrap();
    let text = serde_json::to_string(fleet).unwrap();
    assert_eq!(value, serde_json::from_str::<Json>(&text).unwrap());
    value
}

#[test]
fn a_fleet_is_serialised_to_the_json_of_the_command() {
    let recording = Recording::open([RECORDING]).unwrap();
    let (start, end) = *recording.spans().last().unwrap();
    let middle = start + end.duration_since(start).unwrap() / 2;
    for at in [middle, end] {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let at_option = jiff::Timestamp::from_microsecond(since.as_micros() as i64).unwrap();
        let printed = Command::new(env!("CARGO_BIN_EXE_gtop"))
            .env_remove("GTOP_CONFIG")
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .args(["replay", "--json", RECORDING, "--at", &at_option.to_string()])
            .output()
            .unwrap();
        let printed: Json = serde_json::from_slice(&printed.stdout).unwrap();
        assert_eq!(json(&recording.fleet_at(at)), printed);
    }
    // A walk over a recording ends with the same values.
    let last = recording.fleets(Duration::from_secs(1)).last().unwrap();
    assert_eq!(json(&last)["totals"], json(&recording.fleet_at(end))["totals"]);
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
fn an_error_is_a_sentence_and_has_its_sources() {
    let error = Monitor::start(["--no-such-option"]).unwrap_err().to_string();
    assert!(error.starts_with("unexpected argument '--no-such-option'"), "{error}");
    let error = Monitor::builder().nodes(["gpu["]).start().unwrap_err();
    assert!(matches!(error, Error::Nodes(_)) && error.source().is_some(), "{error}");
    assert!(error.to_string().contains("'['") && format!("{error:?}") == error.to_string());
    let error = Recording::open(["/nonexistent"]).unwrap_err();
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::NotFound), "{error}");
    assert!(matches!(Recording::open([""; 0]), Err(Error::NoRecording)));
}

#[test]
fn a_node_that_does_not_answer_has_a_fault_and_no_values() {
    // Port 1 of the loopback refuses connections.
    let monitor = Monitor::start(["--transport=native", "127.0.0.1:1"]).unwrap();
    let fleet = monitor.complete_blocking(LIMIT);
    let node = fleet.nodes().next().unwrap();
    let fault = node.fault().unwrap();
    assert_eq!((fault.kind(), fault.remedy().is_empty()), ("connection refused", false));
    assert_eq!((node.age(), node.devices().count()), (None, 0));
    assert!(matches!(node.value(HostMetric::CpuPercent), Err(Unknown::Absent("not sampled"))));
}
