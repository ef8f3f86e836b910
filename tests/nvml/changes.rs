//! A machine that changes while gtop watches it.

use std::cell::Cell;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{built, nvml_stub};
use crate::nvml::expected;
use crate::nvml::scenarios::{source, whole_devices};

/// Limit for any wait on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// `gtop --json --watch` with the stub library.
struct WatchedMachine {
    child: Child,
    snapshots: Receiver<Value>,
    folder: tempfile::TempDir,
}

impl WatchedMachine {
    /// `None` if the library cannot be built.
    fn start(scenario: &str) -> Option<Self> {
        Self::start_with(scenario, &[])
    }

    fn start_with(scenario: &str, environment: &[(&str, OsString)]) -> Option<Self> {
        let library: PathBuf = nvml_stub::folder(24)?;
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        std::fs::write(&state, scenario).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_gtop"))
            .args(["--json", "--watch", "--interval", "0.5"])
            .env("LD_LIBRARY_PATH", library)
            .env("NVML_STUB_STATE", &state)
            .env("HOME", folder.path())
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (out, snapshots) = channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let snapshot: Value = serde_json::from_str(&line).unwrap();
                if out.send(snapshot["nodes"][0].clone()).is_err() {
                    return;
                }
            }
        });
        Some(Self { child, snapshots, folder })
    }

    fn set(&self, scenario: &str) {
        let next = self.folder.path().join("next");
        std::fs::write(&next, scenario).unwrap();
        std::fs::rename(next, self.folder.path().join("state")).unwrap();
    }

    /// The first snapshot that satisfies `is_so`.
    fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        let mut last = Value::Null;
        while Instant::now() < deadline {
            last = self.snapshots.recv_timeout(TIMEOUT).unwrap();
            if is_so(&last) {
                return last;
            }
        }
        panic!("no {what}; the last snapshot was {last}");
    }
}

impl Drop for WatchedMachine {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}

fn has_devices(count: usize) -> impl Fn(&Value) -> bool {
    move |node| {
        let devices = node["devices"].as_array();
        devices.is_some_and(|devices| devices.len() == count)
            && node["devices"][0]["processes"].is_array()
    }
}

const BUSY: &str = "driver 570.133.20 12080\n\
    gpu 0 util=91 used_mib=1000 temp=60\ngpu 1 util=92 used_mib=2000 temp=61\n\
    proc 0 4000001 900 sm=80\nproc 1 4000002 1900 sm=81\n";

#[test]
fn a_device_that_is_lost_at_runtime_has_no_readings() {
    let Some(watched) = WatchedMachine::start(BUSY) else { return };
    let before = watched.until("devices", has_devices(2));
    watched.set(&(BUSY.to_owned() + "gpu 1 lost\n"));
    let lost = watched.until("a loss", |node| node["devices"][1]["fault"] == "lost");
    let (now, then) = (&lost["devices"][1], &before["devices"][1]);
    for field in ["uuid", "index", "name", "pci_bus", "driver_version"] {
        assert_eq!(now[field], then[field], "{field}");
    }
    for field in ["utilization_percent", "memory_used_bytes", "power_watts", "processes"] {
        assert_eq!(now[field], Value::Null, "{field}");
        assert!(now["unknown"][field].is_string(), "{field}");
    }
    let other = watched.until("the other's users", |node| {
        node["devices"][0]["processes"].as_array().is_some_and(|used| used.len() == 1)
    });
    expected::devices(BUSY)[0].check(&other["devices"][0], &[]);
    let events = watched.until("an event", |node| node["events"][0].is_object());
    let event = &events["events"][0];
    assert_eq!((&event["kind"], &event["index"]), (&json!("lost"), &json!(1)));
    assert_eq!(event["text"], "the driver lost the device");
}

#[test]
fn a_device_becomes_faulty_and_sound_again_at_runtime() {
    let sound = BUSY.replace("temp=61", "temp=61 recovery=0 remap_pending=0 remap_failed=0");
    let Some(watched) = WatchedMachine::start(&sound) else { return };
    let has_health = |health: &'static str| {
        move |node: &Value| node["devices"][1]["health"] == health && has_devices(2)(node)
    };
    let before = watched.until("devices", has_health("ok"));
    assert_eq!(before["notes"], json!([]));
    watched.set(&sound.replace("recovery=0 remap_pending=0", "recovery=1 remap_pending=1"));
    let sick = watched.until("sick device", |node| {
        node["devices"][1]["health_reasons"].as_array().is_some_and(|all| all.len() == 2)
    });
    let device = &sick["devices"][1];
    assert_eq!((&device["health"], &device["fault"]), (&json!("faulty"), &Value::Null));
    let ids = |list: &Value| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|one| one["id"].clone()).collect()
    };
    assert_eq!(ids(&device["health_reasons"]), ["recovery_action", "remap_pending"]);
    assert_eq!(ids(&sick["notes"]), ["recovery_action", "remap_pending"]);
    assert_eq!(sick["notes"][0]["text"], "#1 needs a reset");
    assert_eq!(sick["devices"][0]["health"], "ok");
    watched.set(&sound);
    watched.until("sound device", has_health("ok"));
}

#[test]
fn slices_appear_and_disappear_at_runtime() {
    let Some(watched) = WatchedMachine::start(BUSY) else { return };
    watched.until("devices", has_devices(2));
    let split = BUSY.replace("proc 1 4000002 1900 sm=81\n", "")
        + "gpu 1 mig=1\nslice 1 0 total_mib=40192 used_mib=10 gi=1 gi_slices=3 name=3g.40gb\n\
           slice 1 1 total_mib=9728 used_mib=11 gi=9 name=1g.10gb\nproc 1 4000002 1900 slice=0\n\
           fault nvmlDeviceGetUtilizationRates@1 3\n";
    watched.set(&split);
    let split_node = watched.until("slices", has_devices(4));
    let parent = &split_node["devices"][1];
    assert_eq!(
        (&parent["mig_enabled"], &parent["utilization_percent"]),
        (&json!(true), &Value::Null)
    );
    let (first, second) = (&split_node["devices"][2], &split_node["devices"][3]);
    assert_eq!((&first["parent"], &second["parent"]), (&parent["uuid"], &parent["uuid"]));
    assert_eq!(first["memory_total_bytes"], 40_192_u64 << 20);
    assert_eq!(second["memory_used_bytes"], 11_u64 << 20);
    watched.until("the use of a slice", |node| {
        node["devices"][2]["processes"][0]["pid"] == 4_000_002
            && node["devices"][1]["processes"] == json!([])
    });
    watched.set(BUSY);
    let unsplit_node = watched.until("no slices", |node| {
        has_devices(2)(node) && node["devices"][1]["utilization_percent"] == 92.0
    });
    assert_eq!(unsplit_node["devices"][1]["mig_enabled"], false);
}

#[test]
fn a_hanging_call_makes_only_the_devices_stale() {
    let Some(watched) = WatchedMachine::start(BUSY) else { return };
    watched.until("devices", has_devices(2));
    watched.set(&(BUSY.to_owned() + "fault nvmlDeviceGetMemoryInfo_v2@1 blocked\n"));
    let stuck = watched.until("a stuck driver", |node| {
        source(node, "nvml")["fault"]["kind"] == "stuck" && node["devices"][1]["fresh"] == false
    });
    let fault = &source(&stuck, "nvml")["fault"];
    assert_eq!(fault["call"], "nvmlDeviceGetMemoryInfo_v2 of device 1");
    assert!(fault["for_seconds"].as_f64().unwrap() >= 3.0, "{fault}");
    assert_eq!(source(&stuck, "host")["fresh"], true);
    // Known values are shown with their age, not as new ones.
    assert_eq!(stuck["devices"][1]["utilization_percent"], 92.0);
    assert!(source(&stuck, "nvml")["age_seconds"].as_f64().unwrap() >= 3.0);
}

#[test]
fn a_new_throttle_reason_is_reported_with_its_share() {
    let Some(watched) = WatchedMachine::start(BUSY) else { return };
    let before = watched.until("devices", has_devices(2));
    assert_eq!(before["devices"][0]["throttle_reasons"], "none");
    let hot = BUSY.to_owned() + "gpu 0 throttle=0x60 held_thermal=0+500000000\n";
    watched.set(&hot);
    let throttled = watched.until("a throttled device", |node| {
        node["devices"][0]["throttle_reasons"] == "software thermal, hardware thermal"
    });
    assert_eq!(throttled["devices"][0]["throttle_bits"], 0x60);
    watched.set(BUSY);
    watched.until("its end", |node| node["devices"][0]["throttle_reasons"] == "none");
}

#[test]
fn an_xid_is_reported_counted_and_ages() {
    let Some(watched) = WatchedMachine::start(BUSY) else { return };
    let before = watched.until("devices", has_devices(2));
    assert_eq!(before["events"], json!([]));
    watched.set(&(BUSY.to_owned() + "xid 1 31\n"));
    let one = watched.until("an event", |node| node["events"][0]["count"] == 1);
    let event = &one["events"][0];
    assert_eq!((&event["kind"], &event["code"]), (&json!("xid"), &json!(31)));
    assert_eq!((&event["device"], &event["index"]), (&one["devices"][1]["uuid"], &json!(1)));
    watched.set(&(BUSY.to_owned() + "xid 1 31\ngpu 1 used_mib=7\n"));
    // The count of the device comes with the next sample.
    let two = watched.until("the same again", |node| {
        node["events"][0]["count"] == 2 && node["devices"][1]["xid_events"] == 2
    });
    assert_ne!(two["events"][0]["at"], two["events"][0]["first_at"]);
    assert_eq!(two["events"].as_array().unwrap().len(), 1);
    let shown = whole_devices(&two)[1];
    assert_eq!((&shown["xid"], &shown["xid_events"]), (&json!(31), &json!(2)));
    watched.until("age", |node| node["events"][0]["age_seconds"].as_f64().unwrap() > 1.0);
}

#[test]
fn each_of_many_xids_at_once_counts_everywhere() {
    let Some(watched) = WatchedMachine::start(BUSY) else { return };
    watched.until("devices", has_devices(2));
    watched.set(&(BUSY.to_owned() + &"xid 1 94\n".repeat(50)));
    let node = watched.until("all", |node| node["devices"][1]["xid_events"] == 50);
    let reasons = &node["devices"][1]["health_reasons"];
    let found = (&node["events"][0]["count"], &reasons[0]["text"]);
    assert_eq!(found, (&json!(50), &json!("Xid 94, 50 times")));
}

/// The utilization of the first process of the first device.
fn sm(node: &Value) -> &Value {
    &node["devices"][0]["processes"][0]["sm_percent"]
}

#[test]
fn after_the_clock_is_set_the_use_by_a_process_is_unknown_and_then_right() {
    for step in ["-3600", "3600"] {
        let Some(watched) = WatchedMachine::start(BUSY) else { return };
        watched.until("utilization of a process", |node| sm(node) == 80.0);
        watched.set(&(BUSY.replace("sm=80", "sm=70") + "clock " + step + "\n"));
        watched.until("utilization after the step", |node| {
            assert_ne!(sm(node), 0.0, "{step}: {node}");
            sm(node) == 70.0
        });
    }
}

#[test]
fn after_the_clock_of_the_machine_is_set_the_use_by_a_process_is_unknown_and_then_right() {
    let source = include_str!("../stubs/clock.c");
    let Some(library) = built::library("clock.so", source, &["-ldl"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let step = folder.path().join("step");
    std::fs::write(&step, "0").unwrap();
    let environment = [
        ("LD_PRELOAD", library.join("clock.so").into_os_string()),
        ("CLOCK_STUB_STEP", step.clone().into_os_string()),
    ];
    let Some(watched) = WatchedMachine::start_with(BUSY, &environment) else { return };
    for (seconds, share) in [("-3600", 71.0), ("3600", 72.0)] {
        watched.until("utilization of a process", |node| sm(node).as_f64() > Some(0.0));
        std::fs::write(&step, seconds).unwrap();
        let was_unknown = Cell::new(false);
        watched.set(&BUSY.replace("sm=80", &format!("sm={share}")));
        watched.until("utilization after the step", |node| {
            assert_ne!(sm(node), 0.0, "{seconds}: {node}");
            was_unknown.set(was_unknown.get() || sm(node).is_null());
            was_unknown.get() && sm(node) == share
        });
    }
}

#[test]
fn a_value_that_was_refused_at_first_is_asked_for_again() {
    let refused = "driver 570.133.20 12080\n\
        gpu 0 util=91 used_mib=1000 temp=~ fan=!4 clk_sm_max=!999 limit_min_mw=~ memtemp=~\n\
        proc 0 4000001 900 sm=80\nfault nvmlDeviceGetProcessUtilization 3\n\
        fault nvmlDeviceGetName 999\nfault nvmlEventSetCreate 4\n";
    let Some(watched) = WatchedMachine::start(refused) else { return };
    let before = watched.until("a device", |node| node["devices"][0]["processes"].is_array());
    let device = &before["devices"][0];
    for (field, why) in [
        ("temperature_celsius", "not supported"),
        ("fan_percent", "no permission"),
        ("sm_clock_max_megahertz", "driver error"),
        ("memory_temperature_celsius", "not supported"),
        ("xid_events", "no permission"),
    ] {
        assert_eq!((&device[field], &device["unknown"][field]), (&Value::Null, &json!(why)));
    }
    assert_eq!(device["processes"][0]["unknown"]["sm_percent"], "not supported");
    watched.set(
        "driver 570.133.20 12080\ngpu 0 util=91 used_mib=1000 temp=60 fan=40 memtemp=70 \
         clk_sm_max=1980 limit_min_mw=200000 limit_max_mw=700000 name=NVIDIA H100\nproc 0 4000001 900 sm=80\n",
    );
    watched.until("all values", |node| {
        let device = &node["devices"][0];
        device["temperature_celsius"] == 60.0
            && device["fan_percent"] == 40.0
            && device["sm_clock_max_megahertz"] == 1980
            && device["memory_temperature_celsius"] == 70.0
            && device["power_limit_max_watts"] == 700.0
            && device["name"] == "NVIDIA H100"
            && device["xid_events"] == 0
            && sm(node) == 80.0
    });
}
