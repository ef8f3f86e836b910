//! Both probes report the same values for the same machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gtop::fields::{HOST, PROCESS, Usage, Value as Told, device_fields};
use gtop::fleet::{Node, NodeBuilder};
use gtop::model::{Link, NodeName, Source};
use gtop::probe::Interpreter;
use gtop::time::Timestamp;
use gtop::wire::body::{Body, Hello, Sample};
use gtop::wire::{Decoded, Decoder};
use serde_json::Value;

use crate::harness::{BOTH, Setup};

/// Says whether everything is known of a process that is there; a slow node tells of it later than
/// `nvidia-smi`, which knows its name alone.
fn has_static_facts(node: &Node, pid: u32) -> bool {
    let known = node.processes.iter().find(|process| process.key.pid == pid);
    pid != std::process::id()
        || known.is_some_and(|process| process.statics.directory.known().is_some())
}

/// What is known of a machine once everything was sampled.
fn node(interpreter: Interpreter, state: &str) -> Arc<Node> {
    let mut rig = Setup::new(interpreter).state(state).start();
    let mut builder = NodeBuilder::new(NodeName::new("gpu01").unwrap(), Duration::from_secs(60));
    let mut decoder = Decoder::default();
    builder.on_link(Link::Up);
    let is_there = |node: &Node| {
        let was_sampled =
            |source: &Source| node.source(source).is_some_and(|s| s.taken_at.is_some());
        let smi = Source::new("nvidia-smi");
        let host = Source::host_slow();
        node.is_settled
            && [smi.slow(), smi.processes(), host].iter().all(was_sampled)
            && node.uses.iter().all(|used| has_static_facts(node, used.pid))
    };
    let node = rig.until("a whole picture", |frame| {
        let body = match frame["t"].as_str() {
            Some("hello") => Body::Hello(read::<Hello>(frame)),
            Some("sample") => Body::Sample(read::<Sample>(frame)),
            _ => return None,
        };
        let arrival = Timestamp::from_micros((frame["at"].as_f64().unwrap() * 1e6) as i64);
        match decoder.decode(&body, arrival) {
            Some(Decoded::Hello(hello)) => builder.on_hello(hello),
            Some(Decoded::Sample(sample)) => builder.on_sample(*sample),
            _ => return None,
        }
        is_there(&builder.node()).then(|| builder.node())
    });
    rig.finish();
    node
}

fn read<T: serde::de::DeserializeOwned>(frame: &Value) -> T {
    serde_json::from_value(frame.clone()).unwrap()
}

/// What follows from facts about processes, which come when they come.
const PROCESS_FIELDS: [&str; 2] = ["hidden_processes", "hidden_memory_bytes"];

/// What two samples of a process need not have in common.
const CHANGING_FIELDS: [&str; 7] = [
    "cpu_percent",
    "resident_bytes",
    "resident_percent",
    "running_seconds",
    "started_at",
    "state",
    "threads",
];

/// Every field of every device and of who uses it.
fn devices(node: &Node) -> Vec<BTreeMap<String, Told>> {
    let fields = |device| {
        let own = device_fields().filter(|field| !PROCESS_FIELDS.contains(&field.id));
        let own = own.map(move |field| (field.id.to_owned(), (field.read)(device)));
        let used = Usage::of(node, device).flat_map(|usage| {
            let pid = usage.used.pid;
            let fields = PROCESS.iter().filter(|field| !CHANGING_FIELDS.contains(&field.id));
            let one = |field: &gtop::fields::Field<Usage>| {
                (format!("{pid}.{}", field.id), (field.read)(&usage))
            };
            fields.map(one).collect::<Vec<_>>()
        });
        own.chain(used).collect()
    };
    node.devices.iter().map(fields).collect()
}

#[test]
fn both_probes_report_the_same_devices_slices_and_processes() {
    let own = std::process::id();
    let state = format!(
        "driver 570.133.20 12080\n\
         gpu 0 capability=9.0 util=31 memutil=12 temp=51 power_mw=211250 power_avg_mw=210000 power_now_mw=212000 \
         used_mib=10000 throttle=4 fan=44 ecc_cv=1 ecc_uv=2 ecc_ca=9 ecc_ua=3 retired_pending=1 retired_sbe=4 \
         retired_dbe=5 enc=6 dec=7 remap_corrected=1 remap_uncorrected=2 remap_pending=1 remap_failed=0 recovery=2 \
         fabric=3 fabric_health=1 margin=-4 limit_default_mw=700000 limit_min_mw=200000 limit_max_mw=700000 clk_video=1500\n\
         gpu 1 mig=1 temp=~ power_mw=!999 limit_requested_mw=!4 used_mib=20\n\
         slice 1 0 total_mib=40192 used_mib=10 gi=1 name=3g.40gb\nslice 1 1 total_mib=9728 used_mib=11 gi=9\n\
         proc 0 {own} 900\nproc 1 {own} 9 slice=1\nproc 1 4000001 -\n"
    );
    let [python, shell] = BOTH.map(|interpreter| node(interpreter, &state));
    let (one, other) = (devices(&python), devices(&shell));
    assert_eq!(one.len(), 4);
    for (one, other) in one.iter().zip(&other) {
        for (field, told) in one {
            assert_eq!(other.get(field), Some(told), "{field}");
        }
        assert_eq!(one.len(), other.len());
    }
    let known = |device: usize| {
        one[device].values().filter(|told| !matches!(told, Told::Unknown(_))).count()
    };
    assert!(known(0) >= 55, "{:?}", one[0]);
    let whose: Vec<Vec<u32>> = one
        .iter()
        .zip(&python.devices)
        .map(|(_, device)| python.uses_of(&device.uuid).map(|used| used.pid).collect())
        .collect();
    assert_eq!(whose, [vec![own], vec![4_000_001], vec![], vec![own]]);
    assert_eq!(one[2]["memory_total_bytes"], Told::Integer(40_192 << 20));
    assert_eq!(one[3]["gpu_instance"], Told::Integer(9));
    assert_eq!(one[0]["recovery_action"], Told::Text("reboot the node".into()));
    assert_eq!(one[0]["fabric_health"], Told::Text("unhealthy".into()));
}

#[test]
fn both_probes_report_the_same_machine_facts() {
    let [python, shell] = BOTH.map(|interpreter| node(interpreter, "gpu 0\n"));
    for field in HOST {
        let unknown = |node: &Node| match (field.read)(node) {
            Told::Unknown(reason) => Some(reason),
            Told::Number(_) | Told::Integer(_) | Told::Text(_) | Told::Flag(_) => None,
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
