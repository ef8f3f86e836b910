//! Both probes report the same values for the same machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gtop_collect::probe::Interpreter;
use gtop_collect::wire::Decoder;
use gtop_collect::wire::body::{Body, Hello, Sample};
use gtop_fleet::metrics::{HOST, PROCESS, Usage, Value as FieldValue, device_fields};
use gtop_fleet::{Node, NodeBuilder};
use gtop_local::time::Timestamp;
use gtop_model::{Link, NodeName, NodeUpdate, Source};
use serde_json::Value;

use crate::harness::probe::{BOTH, Setup};

/// Returns false while the static facts of this test process are missing; a slow node reports them later than
/// `nvidia-smi`, which reports only the name.
fn has_static_facts(node: &Node, pid: u32) -> bool {
    let process = node.processes.iter().find(|process| process.key.pid == pid);
    pid != std::process::id()
        || process.is_some_and(|process| process.statics.directory.known().is_some())
}

/// Returns the node once everything is sampled.
fn node(interpreter: Interpreter, state: &str) -> Arc<Node> {
    let mut rig = Setup::new(interpreter).state(state).start();
    let mut builder = NodeBuilder::new(NodeName::new("gpu01").unwrap(), Duration::from_secs(60));
    let mut decoder = Decoder::default();
    builder.on_link(Link::Up);
    let is_complete = |node: &Node| {
        let was_sampled =
            |source: &Source| node.source(source).is_some_and(|s| s.taken_at.is_some());
        let smi = Source::new("nvidia-smi");
        let host = Source::host_slow();
        node.is_settled
            && [smi.slow(), smi.processes(), host].iter().all(was_sampled)
            && node.uses.iter().all(|used| has_static_facts(node, used.pid))
    };
    let node = rig.until("a complete node", |frame| {
        let body = match frame["t"].as_str() {
            Some("hello") => Body::Hello(read::<Hello>(frame)),
            Some("sample") => Body::Sample(read::<Sample>(frame)),
            _ => return None,
        };
        let arrival = Timestamp::from_micros((frame["at"].as_f64().unwrap() * 1e6) as i64);
        match decoder.decode(&body, arrival) {
            Some(NodeUpdate::Hello(hello)) => builder.on_hello(hello),
            Some(NodeUpdate::Sample(sample)) => builder.on_sample(*sample),
            _ => return None,
        }
        is_complete(&builder.node()).then(|| builder.node())
    });
    rig.finish();
    node
}

fn read<T: serde::de::DeserializeOwned>(frame: &Value) -> T {
    serde_json::from_value(frame.clone()).unwrap()
}

/// Fields derived from static facts of processes, which arrive at different times.
const PROCESS_FIELDS: [&str; 2] = ["hidden_processes", "hidden_memory_bytes"];

/// Fields of a process that differ from sample to sample.
const CHANGING_FIELDS: [&str; 7] = [
    "cpu_percent",
    "resident_bytes",
    "resident_percent",
    "running_seconds",
    "started_at",
    "state",
    "threads",
];

/// All fields of each device and of the processes on it.
fn devices(node: &Node) -> Vec<BTreeMap<String, FieldValue>> {
    let fields = |device| {
        let device_values = device_fields().filter(|field| !PROCESS_FIELDS.contains(&field.id));
        let device_values =
            device_values.map(move |field| (field.id.to_owned(), (field.read)(device)));
        let used = Usage::of(node, device).flat_map(|usage| {
            let pid = usage.used.pid;
            let fields = PROCESS.iter().filter(|field| !CHANGING_FIELDS.contains(&field.id));
            let one = |field: &gtop_fleet::metrics::Field<Usage>| {
                (format!("{pid}.{}", field.id), (field.read)(&usage))
            };
            fields.map(one).collect::<Vec<_>>()
        });
        device_values.chain(used).collect()
    };
    node.devices.iter().map(fields).collect()
}

#[test]
fn both_probes_report_the_same_devices_slices_and_processes() {
    let pid = std::process::id();
    let state = format!(
        "driver 570.133.20 12080\n\
         gpu 0 capability=9.0 util=31 memutil=12 temp=51 power_mw=211250 power_avg_mw=210000 power_now_mw=212000 \
         used_mib=10000 throttle=4 fan=44 ecc_cv=1 ecc_uv=2 ecc_ca=9 ecc_ua=3 retired_pending=1 retired_sbe=4 \
         retired_dbe=5 enc=6 dec=7 remap_corrected=1 remap_uncorrected=2 remap_pending=1 remap_failed=0 recovery=2 \
         fabric=3 fabric_health=1 margin=-4 limit_default_mw=700000 limit_min_mw=200000 limit_max_mw=700000 clk_video=1500\n\
         gpu 1 mig=1 temp=~ power_mw=!999 limit_requested_mw=!4 used_mib=20\n\
         slice 1 0 total_mib=40192 used_mib=10 gi=1 name=3g.40gb\nslice 1 1 total_mib=9728 used_mib=11 gi=9\n\
         proc 0 {pid} 900\nproc 1 {pid} 9 slice=1\nproc 1 4000001 -\n"
    );
    let [python, shell] = BOTH.map(|interpreter| node(interpreter, &state));
    let (one, other) = (devices(&python), devices(&shell));
    assert_eq!(one.len(), 4);
    for (one, other) in one.iter().zip(&other) {
        for (field, value) in one {
            assert_eq!(other.get(field), Some(value), "{field}");
        }
        assert_eq!(one.len(), other.len());
    }
    let known_values = |device: usize| {
        one[device].values().filter(|value| !matches!(value, FieldValue::Unknown(_))).count()
    };
    assert!(known_values(0) >= 55, "{:?}", one[0]);
    let pids: Vec<Vec<u32>> = one
        .iter()
        .zip(&python.devices)
        .map(|(_, device)| python.uses_of(&device.uuid).map(|used| used.pid).collect())
        .collect();
    assert_eq!(pids, [vec![pid], vec![4_000_001], vec![], vec![pid]]);
    assert_eq!(one[2]["memory_total_bytes"], FieldValue::Integer(40_192 << 20));
    assert_eq!(one[3]["gpu_instance"], FieldValue::Integer(9));
    assert_eq!(one[0]["recovery_action"], FieldValue::Text("reboot the node".into()));
    assert_eq!(one[0]["fabric_health"], FieldValue::Text("unhealthy".into()));
}

#[test]
fn both_probes_report_the_same_machine_facts() {
    let [python, shell] = BOTH.map(|interpreter| node(interpreter, "gpu 0\n"));
    for field in HOST {
        let unknown = |node: &Node| match (field.read)(node) {
            FieldValue::Unknown(reason) => Some(reason),
            FieldValue::Number(_)
            | FieldValue::Integer(_)
            | FieldValue::Text(_)
            | FieldValue::Flag(_) => None,
        };
        assert_eq!(unknown(&python), unknown(&shell), "{}", field.id);
    }
    let (one, other) = (python.hello.clone().unwrap(), shell.hello.clone().unwrap());
    assert_eq!(one.host, other.host);
    let names = |node: &Node| {
        let host = &node.host;
        let traffic = [&host.network, &host.infiniband, &host.disks];
        let traffic =
            traffic.map(|list| list.iter().map(|one| one.name.to_string()).collect::<Vec<_>>());
        (traffic, host.slow.space.iter().map(|space| space.path.to_string()).collect::<Vec<_>>())
    };
    assert_eq!(names(&python), names(&shell));
}
