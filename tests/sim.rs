//! The simulated fleet: its frames match the schema and are consistent, and its nodes speak real SSH.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gtop_collect::sim::{
    DriverState, FleetSpec, InjectedFault, Machine, SampleRequest, SimFleet, SimNode, serve,
};
use gtop_collect::wire::body::{Body, Raw, Sample};
use gtop_collect::wire::{Decoder, FrameReader, MalformedFrame, Received, encode};
use gtop_local::time::Timestamp;
use gtop_model::{NodeName, NodeUpdate, Reading, Reason};
use russh::client;
use russh::keys::{PrivateKey, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate};
use russh::{Channel, ChannelMsg};
use serde_json::{Map, Value};

use crate::harness::schema;

const TIMEOUT: Duration = Duration::from_secs(120);

fn machines(spec: &FleetSpec) -> Vec<Machine> {
    let names = spec.names();
    (0..).zip(&names).map(|(node, name)| Machine::new(spec, node, name)).collect()
}

fn full_request(number: u64) -> SampleRequest {
    SampleRequest {
        number,
        full: true,
        slow: true,
        driver: DriverState::DevicesAndUses,
        ..SampleRequest::default()
    }
}

fn value_of<T>(raw: Raw<T>) -> Option<T> {
    if let Raw::Value(value) = raw { Some(value) } else { None }
}

/// Seconds since the start: densely at first, then over days.
fn sample_times() -> impl Iterator<Item = f64> {
    (0..240_u32)
        .map(|step| f64::from(step) * 0.7)
        .chain((1..40).map(|hour| f64::from(hour) * 1801.3))
}

#[test]
fn frames_depend_only_on_the_seed() {
    let frames = |seed| -> Vec<Vec<u8>> {
        let all = machines(&FleetSpec::demo(12, seed));
        let hello = all.iter().map(|machine| encode(&Body::Hello(machine.hello(3.0, 1.0))));
        let samples = all.iter().flat_map(|machine| {
            let times = sample_times().step_by(4);
            times.map(|t| encode(&Body::Sample(machine.sample(t, full_request(1)))))
        });
        hello.chain(samples).collect()
    };
    let first = frames(7);
    assert!(first == frames(7));
    assert!(first.iter().zip(frames(8)).all(|(one, other)| *one != other));
}

#[test]
fn events_of_failing_devices_are_reported_once() {
    let mut codes = Vec::new();
    for machine in machines(&FleetSpec::demo(12, 3)) {
        let ticks = (0..200_u32).map(f64::from);
        codes.extend(ticks.flat_map(|t| machine.events(t, t + 1.0)).map(|event| event.code));
    }
    codes.sort_by_key(|code| format!("{code:?}"));
    assert_eq!(codes, [63, 63, 63, 79].map(Raw::Value));
}

#[test]
fn every_frame_matches_the_schema() {
    for machine in machines(&FleetSpec::demo(80, 3)) {
        let check = |body| {
            let frame = encode(&body);
            if let Err(why) = schema::line(frame.strip_suffix(b"\n").unwrap()) {
                panic!("{why}");
            }
        };
        check(Body::Hello(machine.hello(0.0, 0.25)));
        check(Body::Error(machine.stuck_error(9.0, 4.1234)));
        for event in machine.events(0.0, 60.0) {
            check(Body::Event(event));
        }
        check(Body::Sample(machine.sample(0.0, full_request(1))));
        for driver in [DriverState::Hangs, DriverState::Devices, DriverState::DevicesAndUses] {
            let request =
                SampleRequest { number: 2, since: 0.0, driver, ..SampleRequest::default() };
            check(Body::Sample(machine.sample(100.0, request)));
        }
    }
}

#[test]
fn the_schema_test_finds_errors() {
    let sample = r#"{"t":"sample","n":1,"at":1.5,"took":1.0"#;
    let check = |json: &str| schema::line(format!("\x1egtop1 {json}").as_bytes());
    assert!(check(&format!("{sample}}}")).is_ok());
    for wrong in [
        r#","colour":"red""#,
        r#","host":{"at":1,"cpu":[1,2]}"#,
        r#","backends":[{"kind":"nvml","at":1,"devices":[{"uuid":"a","util":101}]}]"#,
        r#","backends":[{"kind":"nvml","at":1,"devices":[{"util":1}]}]"#,
        r#","backends":[{"kind":"nvml","at":1,"devices":[{"uuid":"a","power":1.5}]}]"#,
        r#","processes":{"at":1,"list":[{"pid":1}]}"#,
    ] {
        assert!(check(&format!("{sample}{wrong}}}")).is_err(), "{wrong}");
    }
    assert!(check("{\"t\":\"bye\",\"at\":1,\"why\":\"ü\"}").is_err());
}

/// Decodes a frame from its bytes, as the client does.
fn decode(body: &Body) -> gtop_model::Sample {
    let mut reader = FrameReader::default();
    reader.push(encode(body));
    let Some(Received::Frame(frame)) = reader.next_frame() else { panic!("no frame") };
    let decoded = Decoder::default().decode(&frame.body, Timestamp::from_micros(1));
    let Some(NodeUpdate::Sample(sample)) = decoded else { panic!("no sample") };
    *sample
}

#[test]
fn every_value_is_known_or_has_a_reason_and_none_is_malformed() {
    for machine in machines(&FleetSpec::demo(60, 11)) {
        for t in sample_times().step_by(9) {
            let sample = decode(&Body::Sample(machine.sample(t, full_request(1))));
            // A malformed value would appear as a reason.
            let text = format!("{sample:?}");
            assert!(!text.contains(&format!("{:?}", Reason::Malformed)), "{text}");
            let (_, host) = sample.host.unwrap();
            assert!(host.memory_available.get().unwrap() < host.memory_total.get().unwrap());
            assert!(host.cpu.get().is_some() && host.uptime_seconds.get().is_some());
        }
    }
}

#[test]
fn readings_of_devices_are_plausible() {
    for machine in machines(&FleetSpec::demo(60, 2)) {
        for t in sample_times().step_by(5) {
            let sample = decode(&Body::Sample(machine.sample(t, full_request(1))));
            let backend = &sample.backends[0];
            assert_eq!(backend.source.as_str(), machine.backend_kind());
            let devices = &backend.devices.as_ref().unwrap().list;
            for device in devices.iter().filter(|device| device.fault.is_none()) {
                let total = device.memory_total.get().unwrap().0;
                let parts = [device.memory_used, device.memory_free, device.memory_reserved];
                let parts: u64 = parts.iter().filter_map(Reading::get).map(|part| part.0).sum();
                assert_eq!(parts, total);
                if device.parent.is_some() {
                    assert_eq!(device.power, Reading::Unknown(Reason::NotSupported));
                    continue;
                }
                let Some(power) = device.power_share() else {
                    assert_eq!(backend.source.as_str(), "tpu");
                    continue;
                };
                let power = power.get();
                assert!((3.0..=100.0).contains(&power), "{device:?}");
                assert!((25.0..=98.0).contains(&device.temperature.get().unwrap().get()));
                assert!(
                    device.sm_clock.get().unwrap()
                        <= Reading::of(device.statics.as_deref(), |known| known.sm_clock_max)
                            .get()
                            .unwrap()
                );
                let Some(load) = device.utilization.get() else { continue };
                assert!(load.get() < 90.0 || power > 20.0, "{device:?}");
                assert!(load.get() > 10.0 || power < 40.0, "{device:?}");
            }
            let uses = &backend.uses.as_ref().unwrap().list;
            for used in uses {
                assert!(devices.iter().any(|device| device.uuid == used.device));
                let processes = &sample.processes.as_ref().unwrap().list;
                assert!(processes.iter().any(|process| process.key.pid == used.pid));
            }
        }
    }
}

/// The rows of a sample, indexed by the values of the `key_fields`.
fn rows(list: &Value, key_fields: &[&str]) -> BTreeMap<String, Map<String, Value>> {
    let row = |row: &Value| {
        let key: Vec<String> = key_fields.iter().map(|name| row[name].to_string()).collect();
        (key.join(" "), row.as_object().unwrap().clone())
    };
    list.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn changes_add_up_to_a_full_sample_without_repetition() {
    const PARTS: [(&str, &[&str]); 3] = [
        ("/backends/0/devices", &["uuid"]),
        ("/backends/0/uses/list", &["device", "pid"]),
        ("/processes/list", &["pid", "start"]),
    ];
    let repeated = ["uuid", "parent", "fault", "device", "pid", "start", "cpu", "rss"];
    for machine in machines(&FleetSpec::demo(24, 5)) {
        let mut known: [BTreeMap<String, Map<String, Value>>; 3] = Default::default();
        let mut before = f64::NEG_INFINITY;
        for (number, t) in (1..).zip(sample_times().step_by(3)) {
            let changes = SampleRequest {
                full: number == 1,
                since: before,
                uses_since: before,
                ..full_request(number)
            };
            let [full, delta] = [full_request(number), changes]
                .map(|request| serde_json::to_value(machine.sample(t, request)).unwrap());
            before = t;
            for ((pointer, key_fields), known) in PARTS.iter().zip(&mut known) {
                let sent = rows(delta.pointer(pointer).unwrap(), key_fields);
                known.retain(|key, _| sent.contains_key(key));
                for (row_key, row) in sent {
                    let known_row = known.entry(row_key).or_default();
                    for (key, mut value) in row {
                        // Those of a TPU chip are an object of their own.
                        if let (Value::Object(newer), Some(Value::Object(known))) =
                            (&mut value, known_row.get("tpu").filter(|_| key == "tpu"))
                        {
                            *newer = known.clone().into_iter().chain(newer.clone()).collect();
                        }
                        let is_changed =
                            known_row.insert(key.clone(), value.clone()) != Some(value);
                        assert!(
                            is_changed || repeated.contains(&&*key),
                            "{key} at {t}: {known_row:?}"
                        );
                    }
                }
                assert_eq!(*known, rows(full.pointer(pointer).unwrap(), key_fields), "at {t}");
            }
        }
    }
}

#[test]
fn a_demo_shows_every_kind_of_device_and_owner() {
    let mut text = String::new();
    for machine in machines(&FleetSpec::demo(12, 1)) {
        let frame = encode(&Body::Sample(machine.sample(30.0, full_request(1))));
        text.push_str(std::str::from_utf8(&frame).unwrap());
    }
    for expected in [
        "H100",
        "A100",
        "A6000",
        "MIG 3g.40gb",
        "\"fault\":\"lost\"",
        "\"throttle\":72",
        "\"ecc_uncorrected\":2",
        "\"util\":null",
        "not supported",
        "/slurm/uid_",
        "/job_8421/",
        "/kubepods.slice/",
    ] {
        assert!(text.contains(expected), "{expected}");
    }
    let owners = ["ada", "grace", "alan", "barbara", "edsger", "katherine"];
    let found = owners.iter().filter(|owner| text.contains(&format!("\"user\":\"{owner}\"")));
    assert!(found.count() >= 3);
}

#[test]
fn a_demo_fleet_has_mixed_load_and_a_busy_fleet_is_busy() {
    let mean = |spec: &FleetSpec| {
        let loads: Vec<f64> = machines(spec)
            .iter()
            .flat_map(|machine| machine.sample(50.0, full_request(1)).backends)
            .flat_map(|backend| backend.devices.unwrap())
            .filter_map(|device| value_of(device.util))
            .collect();
        let count = u32::try_from(loads.len()).unwrap();
        loads.iter().sum::<f64>() / f64::from(count)
    };
    assert!((30.0..80.0).contains(&mean(&FleetSpec::demo(96, 4))));
    assert!(mean(&FleetSpec::busy(96, 8, 5, 4)) > 85.0);
}

#[test]
fn a_fleet_has_the_requested_devices_and_processes() {
    for (devices, processes) in [(8, 5), (8, 8), (8, 20), (1, 1), (3, 0), (0, 4)] {
        let machine = &machines(&FleetSpec::busy(2, devices, processes, 1))[1];
        let sample = machine.sample(1.0, full_request(1));
        assert_eq!(sample.backends[0].devices.as_ref().unwrap().len(), devices as usize);
        let expected = if devices == 0 { 0 } else { processes.max(1) as usize };
        let pids: std::collections::BTreeSet<u32> =
            sample.processes.unwrap().list.iter().map(|process| process.pid).collect();
        assert_eq!(pids.len(), expected, "{devices} {processes}");
        let uses = &sample.backends[0].uses.as_ref().unwrap().list;
        assert_eq!(uses.len(), if devices == 0 { 0 } else { expected.max(devices as usize) });
    }
}

/// Every counter of a sample, by name.
fn counters(sample: &Sample) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let host = sample.host.as_ref().unwrap();
    for (index, ticks) in host.cpu.as_ref().unwrap().iter().enumerate() {
        all.insert(format!("cpu {index}"), *ticks);
    }
    for port in host.net.iter().chain(&host.infiniband).flatten() {
        all.insert(format!("{} rx", port.name), port.rx);
        all.insert(format!("{} tx", port.name), port.tx);
    }
    for disk in host.disk.iter().flatten() {
        all.insert(format!("{} read", disk.name), disk.read);
        all.insert(format!("{} write", disk.name), disk.write);
    }
    for process in sample.processes.iter().flat_map(|processes| &processes.list) {
        let ticks = value_of(process.cpu).unwrap();
        all.insert(format!("pid {} {}", process.pid, process.start), ticks);
    }
    for device in sample.backends.iter().flat_map(|backend| backend.devices.iter().flatten()) {
        if let Some(errors) = value_of(device.ecc_corrected) {
            all.insert(format!("ecc {}", device.uuid), errors);
        }
    }
    all
}

#[test]
fn no_counter_decreases() {
    for machine in machines(&FleetSpec::demo(12, 9)) {
        let soon = (1..400_u32).map(|step| f64::from(step) * 0.05);
        let later = (20..600_u32).map(f64::from);
        let mut before = counters(&machine.sample(0.0, full_request(1)));
        for t in soon.chain(later) {
            let now = counters(&machine.sample(t, full_request(1)));
            for (name, value) in &now {
                assert!(before.get(name).is_none_or(|then| then <= value), "{name}");
            }
            before = now;
        }
    }
}

// Real sessions.

/// Accepts the host key of a `SimNode`.
struct HostKeyCheck(Option<PublicKey>);

impl client::Handler for HostKeyCheck {
    type Error = russh::Error;

    async fn check_server_key(
        &mut self,
        key: &PublicKeyOrCertificate,
    ) -> Result<bool, Self::Error> {
        let PublicKeyOrCertificate::PublicKey { key, .. } = key else { return Ok(false) };
        Ok(self.0.as_ref().is_some_and(|known| known.key_data() == key.key_data()))
    }
}

#[derive(Debug)]
enum Refused {
    Ssh(russh::Error),
    Authentication(client::AuthResult),
}

async fn login(node: &SimNode) -> Result<client::Handle<HostKeyCheck>, Refused> {
    let expected_key = node.host_key.as_deref().map(|line| PublicKey::from_openssh(line).unwrap());
    let config = Arc::new(client::Config { nodelay: true, ..client::Config::default() });
    let mut session = client::connect(config, node.address, HostKeyCheck(expected_key))
        .await
        .map_err(Refused::Ssh)?;
    let key = Arc::new(PrivateKey::from_openssh(&node.client_key).unwrap());
    let result = session
        .authenticate_publickey("anybody", PrivateKeyWithHashAlg::new(key, None))
        .await
        .map_err(Refused::Ssh)?;
    if result.success() { Ok(session) } else { Err(Refused::Authentication(result)) }
}

/// A session with a started probe.
struct LiveSession {
    session: client::Handle<HostKeyCheck>,
    channel: Channel<client::Msg>,
    reader: FrameReader,
    before: Vec<u8>,
}

const NONCE: &str = "5e1f9a0c77d24b61";

impl LiveSession {
    async fn exec(node: &SimNode, line: &str) -> Self {
        let session = login(node).await.unwrap();
        let channel = session.channel_open_session().await.unwrap();
        channel.exec(true, line).await.unwrap();
        Self { session, channel, reader: FrameReader::default(), before: Vec::new() }
    }

    async fn start(node: &SimNode) -> Self {
        let source = "import os\n";
        let mut live = Self::exec(node, &launch_line(source.len())).await;
        assert!(live.read_nonce().await, "{:?}", String::from_utf8_lossy(&live.before));
        live.send_text(format!("{source}{} 0.05 30 0 - -\n", node.name)).await;
        live
    }

    async fn send_text(&self, text: String) {
        self.channel.data_bytes(text.into_bytes()).await.unwrap();
    }

    /// The next bytes of standard output; `None` at the end.
    async fn read_bytes(&mut self) -> Option<bytes::Bytes> {
        loop {
            let message = tokio::time::timeout(TIMEOUT, self.channel.wait()).await.unwrap()?;
            if matches!(message, ChannelMsg::Close) {
                return None;
            }
            if let ChannelMsg::Data { data } = message {
                return Some(data);
            }
        }
    }

    /// Reads up to the nonce; later bytes go to the reader.
    async fn read_nonce(&mut self) -> bool {
        let mark = format!("\n{NONCE}");
        while let Some(data) = self.read_bytes().await {
            self.before.extend_from_slice(&data);
            let text = String::from_utf8_lossy(&self.before);
            if text.contains(&mark) && text.ends_with('\n') {
                return true;
            }
        }
        false
    }

    async fn next(&mut self) -> Option<Received> {
        loop {
            if let Some(received) = self.reader.next_frame() {
                return Some(received);
            }
            let data = self.read_bytes().await?;
            self.reader.push(data);
        }
    }

    /// The next `count` frames, fewer if the session ends.
    async fn read_frames(&mut self, count: usize) -> Vec<Received> {
        let mut all = Vec::new();
        while all.len() < count {
            let Some(received) = self.next().await else { break };
            all.push(received);
        }
        all
    }
}

fn launch_line(length: usize) -> String {
    format!(
        "exec /bin/sh -c 'for p in /usr/bin/python3 python3;do if $p -c \"import sys;sys.exit(sys.version_info<(3,6))\";then \
         exec $p -ISu -c \"n=int(sys.argv[1])\" {length} {NONCE};fi;done;echo \"{NONCE} NOPY\"'"
    )
}

fn body(received: &Received) -> Option<&Body> {
    match received {
        Received::Frame(frame) => Some(&frame.body),
        Received::Malformed(_) => None,
    }
}

fn numbers(received: &[Received]) -> Vec<u64> {
    let number = |body: &Body| if let Body::Sample(sample) = body { Some(sample.n) } else { None };
    received.iter().filter_map(|received| number(body(received)?)).collect()
}

async fn serve_one(fault: Option<InjectedFault>) -> (SimFleet, SimNode) {
    let mut spec = FleetSpec::busy(1, 2, 2, 5);
    if let Some(fault) = fault {
        spec = spec.with_fault(0, fault);
    }
    let served = serve(&spec).await.unwrap();
    let node = served.nodes.first().unwrap().clone();
    (served, node)
}

#[tokio::test]
async fn a_real_client_gets_hello_and_samples_and_a_goodbye() {
    let (served, node) = serve_one(None).await;
    assert_eq!(node.name, NodeName::new("gpu01").unwrap());
    let mut live = LiveSession::start(&node).await;
    let received = live.read_frames(6).await;
    assert!(matches!(body(&received[0]), Some(Body::Hello(hello)) if hello.host == "gpu01"));
    assert_eq!(numbers(&received), [1, 2, 3, 4, 5]);
    live.channel.eof().await.unwrap();
    let rest = live.read_frames(100).await;
    assert!(matches!(body(rest.last().unwrap()), Some(Body::Bye(_))));
    served.stop().await;
    assert!(login(&node).await.is_err());
}

#[tokio::test]
async fn every_demo_node_answers_according_to_its_role() {
    let served = serve(&FleetSpec::demo(12, 1)).await.unwrap();
    let mut answers = Vec::new();
    for node in &served.nodes {
        answers.push(match login(node).await {
            Ok(_) => "up",
            Err(Refused::Authentication(_)) => "authentication",
            Err(Refused::Ssh(russh::Error::IO(_))) => "refused",
            Err(Refused::Ssh(_)) => "ssh",
        });
    }
    assert_eq!(answers[..10], ["up"; 10]);
    assert_eq!(answers[10..], ["authentication", "refused"]);
    let boots: std::collections::BTreeSet<String> =
        machines(&FleetSpec::demo(12, 1)).iter().map(|m| m.hello(0.0, 1.0).boot).collect();
    assert_eq!(boots.len(), 12);
}

#[tokio::test]
async fn only_the_demo_key_is_accepted_and_only_a_launch_line_runs() {
    let (_served, node) = serve_one(None).await;
    let other = serve(&FleetSpec::busy(1, 1, 1, 6)).await.unwrap();
    let stranger = SimNode { client_key: other.nodes[0].client_key.clone(), ..node.clone() };
    assert!(matches!(login(&stranger).await, Err(Refused::Authentication(_))));
    let mut live = LiveSession::exec(&node, "rm -rf /").await;
    assert!(!live.read_nonce().await);
    assert_eq!(live.before, b"sh: 1: not found\n");
}

#[tokio::test]
async fn a_node_that_refuses_a_login_lists_its_methods() {
    let (_served, node) = serve_one(Some(InjectedFault::RefuseAuth)).await;
    let Err(Refused::Authentication(client::AuthResult::Failure { remaining_methods, .. })) =
        login(&node).await
    else {
        panic!("the login was accepted")
    };
    assert_eq!(&remaining_methods[..], [russh::MethodKind::HostBased]);
}

#[tokio::test]
async fn host_keys_are_unknown_or_changed_on_demand() {
    let (_served, node) = serve_one(Some(InjectedFault::UnknownHostKey)).await;
    assert_eq!(node.host_key, None);
    assert!(matches!(login(&node).await, Err(Refused::Ssh(russh::Error::UnknownKey))));
    let (_served, node) = serve_one(Some(InjectedFault::ChangedHostKey)).await;
    assert!(node.host_key.is_some());
    assert!(matches!(login(&node).await, Err(Refused::Ssh(russh::Error::UnknownKey))));
}

#[tokio::test]
async fn a_login_shell_can_end_before_the_probe() {
    let (_served, node) = serve_one(Some(InjectedFault::LoginExits)).await;
    let mut live = LiveSession::exec(&node, &launch_line(10)).await;
    assert!(!live.read_nonce().await);
    assert!(live.before.starts_with(b"This account is closed"));
}

#[tokio::test]
async fn a_node_without_python_runs_the_shell_probe() {
    let (_served, node) = serve_one(Some(InjectedFault::NoPython)).await;
    let mut live = LiveSession::exec(&node, &launch_line(10)).await;
    assert!(live.read_nonce().await);
    assert!(live.before.ends_with(b" NOPY\n"));
    live.send_text(format!("x=1\n{NONCE}\ngpu01 0.05 30 0 - -\n")).await;
    let received = live.read_frames(3).await;
    assert!(matches!(body(&received[0]), Some(Body::Hello(hello)) if hello.probe == "sh"));
    assert_eq!(numbers(&received), [1, 2]);
}

#[tokio::test]
async fn noise_surrounds_the_nonce_and_separates_frames() {
    let (_served, node) = serve_one(Some(InjectedFault::BannerNoise)).await;
    let mut live = LiveSession::start(&node).await;
    assert!(live.before.len() > NONCE.len() + 40);
    let received = live.read_frames(5).await;
    assert_eq!(numbers(&received), [1, 2, 3, 4]);
    assert!(live.reader.noise().contains("Broadcast message"));
}

#[tokio::test]
async fn frames_are_cut_corrupted_or_endless_on_demand() {
    let (_served, node) = serve_one(Some(InjectedFault::CutFrame { number: 3 })).await;
    assert_eq!(numbers(&LiveSession::start(&node).await.read_frames(5).await), [1, 2, 4, 5]);

    let (_served, node) = serve_one(Some(InjectedFault::Garbage)).await;
    let received = LiveSession::start(&node).await.read_frames(10).await;
    assert_eq!(numbers(&received), [1, 2, 4, 5, 7, 8]);
    assert_eq!(received.iter().filter(|received| body(received).is_none()).count(), 3);

    let (_served, node) = serve_one(Some(InjectedFault::HugeLine { number: 2 })).await;
    let received = LiveSession::start(&node).await.read_frames(6).await;
    assert!(received.contains(&Received::Malformed(MalformedFrame::TooLong)));
    assert_eq!(numbers(&received)[..2], [1, 2]);

    let (_served, node) = serve_one(Some(InjectedFault::WrongVersion)).await;
    let received = LiveSession::start(&node).await.next().await;
    assert_eq!(received, Some(Received::Malformed(MalformedFrame::Version(2))));

    let (_served, node) = serve_one(Some(InjectedFault::SlowFrames)).await;
    assert_eq!(numbers(&LiveSession::start(&node).await.read_frames(2).await), [1]);
}

#[tokio::test]
async fn a_dropped_session_ends_without_a_goodbye_and_the_next_one_works() {
    let after = Duration::from_millis(200);
    let (_served, node) = serve_one(Some(InjectedFault::DropSession { after })).await;
    for _ in 0..2 {
        let mut live = LiveSession::start(&node).await;
        let received = live.read_frames(1000).await;
        assert!(numbers(&received).len() >= 2);
        assert!(!received.iter().any(|received| matches!(body(received), Some(Body::Bye(_)))));
        assert!(live.session.is_closed() || live.session.channel_open_session().await.is_err());
    }
}

/// Returns true if bytes arrive within a short time.
async fn responds_soon(mut live: LiveSession) -> bool {
    tokio::time::timeout(Duration::from_millis(300), live.read_bytes()).await.is_ok()
}

#[tokio::test]
async fn silent_faults_send_nothing() {
    let (_served, node) = serve_one(Some(InjectedFault::NeverAnswerExec)).await;
    assert!(!responds_soon(LiveSession::exec(&node, &launch_line(10)).await).await);
    let (_served, node) = serve_one(Some(InjectedFault::NoNonce)).await;
    assert!(!responds_soon(LiveSession::exec(&node, &launch_line(10)).await).await);
    let (_served, node) = serve_one(Some(InjectedFault::Silent)).await;
    assert!(!responds_soon(LiveSession::start(&node).await).await);
    let (_served, node) = serve_one(Some(InjectedFault::SilentPort)).await;
    let connecting = tokio::time::timeout(Duration::from_millis(300), login(&node));
    assert!(connecting.await.is_err());
}

#[tokio::test]
async fn hundreds_of_nodes_are_served_by_one_process() {
    let served = serve(&FleetSpec::demo(300, 1)).await.unwrap();
    let ports: std::collections::BTreeSet<u16> =
        served.nodes.iter().map(|node| node.address.port()).collect();
    assert_eq!(ports.len(), 300);
    let mut live = LiveSession::start(&served.nodes[250]).await;
    assert_eq!(numbers(&live.read_frames(3).await), [1, 2]);
}
