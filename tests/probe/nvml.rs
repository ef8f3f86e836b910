//! NVML over time: devices that are lost and return, slices that appear and disappear, calls that hang.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gtop_collect::probe::{Interpreter, ProbeCommand};
use serde_json::Value;

use crate::harness::nvml_stub;
use crate::harness::probe::{Rig, Setup, TIMEOUT, at_once, gpus, pythons};

/// Starts a probe with the stub library; `None` if that cannot be built.
fn start(state: &str) -> Option<Rig> {
    Some(setup(state)?.start())
}

fn setup(state: &str) -> Option<Setup> {
    let library: PathBuf = nvml_stub::folder(24)?;
    let environment = vec![("LD_LIBRARY_PATH".to_owned(), library.into())];
    Some(Setup { environment, ..Setup::new(Interpreter::Python) }.state(state))
}

/// Starts it with all groups of values read every second.
fn start_with_fast_groups(state: &str) -> Option<Rig> {
    let intervals = ("min_intervals = (0.5, 2.0, 10.0)", "min_intervals = (0.5, 1.0, 1.0)");
    Some(Setup { vendor_replacement: Some(intervals), ..setup(state)? }.start())
}

#[test]
fn refused_driver_calls_are_not_repeated() {
    let refusals = tempfile::NamedTempFile::new().unwrap();
    let state = gpus(1) + "fault nvmlDeviceGetTemperature 3\nfault nvmlDeviceGetPowerUsage 3\n";
    let Some(mut setup) = setup(&state) else { return };
    setup.interval = Duration::from_millis(50);
    setup.environment.push(("NVML_STUB_REFUSALS".to_owned(), refusals.path().into()));
    let mut rig = setup.start();
    let read_counts = || -> BTreeMap<String, usize> {
        let text = std::fs::read_to_string(refusals.path()).unwrap();
        text.lines().fold(BTreeMap::new(), |mut counts, line| {
            *counts.entry(line.to_owned()).or_default() += 1;
            counts
        })
    };
    // Each group was queried once when the slow one is reported.
    wait_for_devices(&mut rig, "the slow group", |devices| {
        devices[0]["slow"].is_object() || devices[0]["pstate"].is_number()
    });
    for _ in 0..40 {
        rig.sample();
    }
    let counts = read_counts();
    assert!(counts.keys().any(|name| name.starts_with("field ")), "{counts:?}");
    assert!(counts.contains_key("nvmlDeviceGetTemperature"), "{counts:?}");
    // A device may be queried once under each of two names.
    assert!(counts.values().all(|count| *count <= 2), "{counts:?}");
    rig.finish();
}

/// The NVML devices of a sample.
fn devices(frame: &Value) -> Option<&Vec<Value>> {
    let backends = frame["backends"].as_array()?;
    let nvml = backends.iter().find(|backend| backend["kind"] == "nvml")?;
    nvml["devices"].as_array()
}

/// Waits for a sample whose devices satisfy `is_so`.
fn wait_for_devices(rig: &mut Rig, what: &str, is_so: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    rig.until(what, |frame| devices(frame).filter(|devices| is_so(devices)).cloned())
}

#[test]
fn the_first_sample_is_complete_and_later_ones_only_hold_changes() {
    let Some(mut rig) = start_with_fast_groups(&(gpus(2) + "gpu 0 pcie_tx=5+1000000\n")) else {
        return;
    };
    let ready = rig.backend("nvml", "ready");
    assert_eq!((&ready["driver"], &ready["devices"]), (&"570.86.15".into(), &2.into()));
    let first = wait_for_devices(&mut rig, "devices", |_| true);
    assert_eq!((&first[0]["util"], &first[0]["fan"]), (&90.into(), &Value::Null));
    assert_eq!(first[0]["lacks"]["fan"], "not supported");
    let second = wait_for_devices(&mut rig, "devices", |_| true);
    let third = wait_for_devices(&mut rig, "devices", |_| true);
    for device in [&second[0], &third[0]] {
        assert!(device["pcie_tx"].is_u64() && device["util"].is_null(), "{device}");
    }
    rig.set_state(&gpus(3));
    wait_for_devices(&mut rig, "a change", |devices| {
        devices.len() == 3 && devices[2]["util"] == 92
    });
    rig.command(ProbeCommand::Full);
    let full = rig.until("a full sample", |frame| {
        (frame["full"] == true).then(|| devices(frame).cloned().unwrap_or_default())
    });
    assert_eq!(full.first().map(|device| &device["name"]), Some(&first[0]["name"]));
    rig.finish();
}

#[test]
fn the_interval_of_each_group_is_reported_and_follows_the_focus() {
    let Some(setup) = setup(&gpus(1)) else { return };
    let mut rig = Setup { interval: Duration::from_millis(200), ..setup }.start();
    let intervals = |rig: &mut Rig, host: f64| {
        rig.until("intervals", |frame| {
            let intervals = &frame["intervals"];
            (intervals["host"] == host).then(|| intervals.clone())
        })
    };
    let unfocused = intervals(&mut rig, 0.2);
    assert_eq!(unfocused["nvml"], 0.6);
    assert_eq!(unfocused["nvml.processes"], 2.0);
    assert_eq!(unfocused["nvml.slow"], 10.0);
    rig.command(ProbeCommand::Focus(Some(Duration::from_millis(100))));
    let focused = intervals(&mut rig, 0.1);
    assert_eq!(focused["nvml"], 0.1);
    assert_eq!(focused["nvml.processes"], 2.0);
    rig.finish();
}

#[test]
fn a_group_that_a_backend_never_sends_is_not_announced() {
    let Some(setup) = setup(&gpus(1)) else { return };
    let replacement = Some(("backend.min_intervals[1:]", "(None, 10.0)"));
    let mut rig = Setup { replacement, ..setup }.start();
    let intervals = rig.until("intervals", |frame| {
        let intervals = &frame["intervals"];
        intervals["nvml"].is_number().then(|| intervals.clone())
    });
    assert!(intervals["nvml.slow"].is_number());
    assert!(intervals["nvml.processes"].is_null(), "nobody waits for them");
    rig.finish();
}

#[test]
fn a_lost_device_is_marked_and_the_others_continue() {
    let Some(mut rig) = start(&gpus(3)) else { return };
    let first = wait_for_devices(&mut rig, "devices", |devices| devices.len() == 3);
    rig.set_state(&(gpus(3) + "gpu 1 lost\nxid 1 79\n"));
    let lost = wait_for_devices(&mut rig, "a loss", |devices| devices[1]["fault"] == "lost");
    assert_eq!(lost[1]["uuid"], first[1]["uuid"]);
    assert!(lost[0]["fault"].is_null() && lost[2]["fault"].is_null());
    rig.set_state(&(gpus(3) + "gpu 1 lost\ngpu 2 util=17\n"));
    wait_for_devices(&mut rig, "the others", |devices| devices[2]["util"] == 17);
    rig.finish();
}

/// The next events, as kind, device and number, sorted.
fn events(rig: &mut Rig, count: usize) -> Vec<(String, String, Option<u64>)> {
    let mut events = Vec::new();
    rig.until("events", |frame| {
        if frame["t"] == "event" {
            let text = |key: &str| frame[key].as_str().unwrap().to_owned();
            events.push((text("kind"), text("device"), frame["code"].as_u64()));
        }
        (events.len() >= count).then_some(())
    });
    events.sort();
    events
}

#[test]
fn device_events_are_reported_once_with_their_number() {
    let Some(mut rig) = start(&(gpus(2) + "gpu 1 recovery=0\n")) else { return };
    let first = wait_for_devices(&mut rig, "devices", |devices| devices.len() == 2);
    let uuid = |index: usize| first[index]["uuid"].as_str().unwrap().to_owned();
    // One cause reports the same Xid several times.
    let repeated = "xid 0 31\n".repeat(5);
    let rest = "event 1 0x1000 0\nevent 1 0x8000 1\n";
    rig.set_state(&(gpus(2) + "gpu 1 recovery=2\n" + &repeated + rest));
    let reported = events(&mut rig, 3);
    let event = |kind: &str, index, code| (kind.to_owned(), uuid(index), code);
    assert_eq!(
        reported,
        [event("poison", 1, None), event("recovery", 1, Some(2)), event("xid", 0, Some(31))]
    );
    let counted = wait_for_devices(&mut rig, "a count", |devices| devices[0]["xids"].is_u64());
    assert_eq!((&counted[0]["xids"], &counted[0]["xid"]), (&5.into(), &31.into()));
    rig.finish();
}

#[test]
fn an_event_of_a_slice_names_the_slice() {
    let state = gpus(1)
        + "gpu 0 mig=1\nslice 0 0 total_mib=9 used_mib=1 gi=7\nslice 0 1 total_mib=9 used_mib=1 gi=8\n";
    let Some(mut rig) = start(&state) else { return };
    let first = wait_for_devices(&mut rig, "devices", |devices| devices.len() == 3);
    rig.set_state(&(state + "xid 0 43 slice 1\n"));
    assert_eq!(
        events(&mut rig, 1),
        [("xid".to_owned(), first[2]["uuid"].as_str().unwrap().to_owned(), Some(43))]
    );
    rig.finish();
}

#[test]
fn events_are_reported_for_later_devices_and_beside_a_lost_one() {
    let Some(mut rig) = start_with_fast_groups(&gpus(1)) else { return };
    wait_for_devices(&mut rig, "devices", |devices| devices.len() == 1);
    rig.set_state(&gpus(3));
    let three = wait_for_devices(&mut rig, "more devices", |devices| devices.len() == 3);
    let uuid = |index: usize| three[index]["uuid"].as_str().unwrap().to_owned();
    let event = |kind: &str, index, code| (kind.to_owned(), uuid(index), code);
    rig.set_state(&(gpus(3) + "xid 2 45\n"));
    assert_eq!(events(&mut rig, 1), [event("xid", 2, Some(45))]);
    rig.set_state(&(gpus(3) + "gpu 1 lost\nxid 0 74\n"));
    assert_eq!(events(&mut rig, 2), [event("lost", 1, None), event("xid", 0, Some(74))]);
    rig.finish();
}

#[test]
fn added_and_removed_slices_are_reported_with_a_new_hello() {
    let Some(mut rig) = start(&gpus(2)) else { return };
    wait_for_devices(&mut rig, "devices", |devices| devices.len() == 2);
    let split = gpus(2)
        + "gpu 1 mig=1\nslice 1 0 total_mib=9728 used_mib=10 gi=7\nslice 1 1 total_mib=9728 used_mib=11 gi=8\n\
           proc 1 4000001 5 slice=1\n";
    // The device refuses its utilization as soon as it is split.
    rig.set_state(&(split.clone() + "fault nvmlDeviceGetUtilizationRates@1 3\n"));
    let hello = rig.until("a new hello", |frame| {
        let backend = &frame["backends"][0];
        (backend["slices"] == 2).then(|| backend.clone())
    });
    assert_eq!(hello["devices"], 2);
    let with_slices = wait_for_devices(&mut rig, "slices", |devices| devices.len() == 4);
    assert_eq!(with_slices[2]["parent"], with_slices[1]["uuid"]);
    assert_eq!(with_slices[3]["memory_used"], 11_u64 << 20);
    rig.until("the use of a slice", |frame| {
        let used = &frame["backends"][0]["uses"]["list"][0];
        (used["device"] == with_slices[3]["uuid"]).then_some(())
    });
    rig.set_state(&gpus(2));
    wait_for_devices(&mut rig, "no slices", |devices| {
        devices.len() == 2 && devices[1]["util"] == 91
    });
    rig.finish();
}

#[test]
fn a_slow_call_is_named_while_host_samples_continue() {
    let Some(setup) = setup(&gpus(2)) else { return };
    let mut rig = setup.start();
    let mut last_devices =
        rig.until("devices", |frame| devices(frame).and_then(|_| frame["at"].as_f64()));
    rig.set_state(&(gpus(2) + "fault nvmlDeviceGetPowerUsage@1 hang\n"));
    let mut numbers = Vec::new();
    let mut slow = |rig: &mut Rig| {
        rig.until("slow", |frame| {
            if devices(frame).is_some() {
                last_devices = frame["at"].as_f64().unwrap();
                numbers.clear();
            } else if frame["t"] == "sample" {
                assert!(frame["host"]["cpu"].is_array(), "{frame}");
                numbers.push(frame["n"].as_u64().unwrap());
            }
            (frame["t"] == "error").then(|| frame.clone())
        })
    };
    let (first, second) = (slow(&mut rig), slow(&mut rig));
    assert_eq!((&first["code"], &first["source"]), (&"slow".into(), &"nvml".into()));
    assert_eq!(first["call"], "nvmlDeviceGetPowerUsage of device 1");
    let number = |error: &Value, key: &str| error[key].as_f64().unwrap();
    assert!((3.0..4.0).contains(&number(&first, "for")), "{first}");
    // The time counts from the call, which began with the tick after the last devices.
    let began = number(&first, "at") - number(&first, "for");
    assert!((last_devices..last_devices + 1.5).contains(&began), "{last_devices} {first}");
    let since = number(&second, "at") - number(&second, "for");
    assert!((since - began).abs() < 0.1, "{first} {second}");
    // Host samples continue twice a second without a gap.
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
    let span = number(&second, "at") - last_devices;
    assert!(numbers.len() as f64 >= 1.5 * span, "{} in {span}", numbers.len());
    // The probe ends without waiting for the driver.
    let closed = Instant::now();
    rig.close();
    rig.until("bye", |frame| (frame["t"] == "bye").then_some(()));
    assert!(rig.exits_within(TIMEOUT), "{:?}", rig.leftover_pids());
    eprintln!("gone after {:?}", closed.elapsed());
}

#[test]
fn a_call_that_the_kernel_holds_is_stuck() {
    let Some(setup) = setup(&gpus(2)) else { return };
    let mut rig = setup.start();
    wait_for_devices(&mut rig, "devices", |devices| devices.len() == 2);
    rig.set_state(&(gpus(2) + "fault nvmlDeviceGetPowerUsage@1 blocked\n"));
    let mut codes = BTreeSet::new();
    let stuck = rig.until("stuck", |frame| {
        let error =
            Some(frame).filter(|frame| frame["t"] == "error" && frame["source"] == "nvml")?;
        codes.insert(error["code"].as_str().unwrap().to_owned());
        (error["code"] == "stuck").then(|| error.clone())
    });
    assert_eq!(stuck["call"], "nvmlDeviceGetPowerUsage of device 1");
    assert!(stuck["for"].as_f64().unwrap() >= 10.0, "{stuck}");
    assert!(codes.contains("slow"), "{codes:?}");
    rig.close();
    assert!(rig.exits_within(TIMEOUT), "{:?}", rig.leftover_pids());
}

#[test]
fn a_loading_driver_is_starting_and_not_stuck() {
    let state = gpus(1) + "fault nvmlInit_v2 slow 4000000\n";
    let Some(mut rig) = start(&state) else { return };
    rig.backend("nvml", "starting");
    let error = rig.until("starting", |frame| (frame["t"] == "error").then(|| frame.clone()));
    assert_eq!((&error["code"], &error["call"]), (&"starting".into(), &"nvmlInit_v2".into()));
    rig.set_state(&gpus(1));
    rig.backend("nvml", "ready");
    wait_for_devices(&mut rig, "devices", |devices| devices.len() == 1);
    rig.finish();
}

#[test]
fn many_slow_calls_are_not_a_stuck_call() {
    // About 60 calls of 0.06 s each: together they exceed the limit of one call.
    let state = gpus(2) + "fault nvml slow 60000\n";
    let Some(mut rig) = start(&state) else { return };
    let mut codes = BTreeSet::new();
    rig.until("devices", |frame| {
        codes.extend(frame["code"].as_str().map(str::to_owned));
        devices(frame).map(|_| ())
    });
    assert!(!codes.contains("stuck"), "{codes:?}");
    rig.finish();
}

#[test]
fn a_refused_value_is_not_queried_again() {
    let state = gpus(1) + "gpu 0 temp=~ power_mw=!4\n";
    let Some(mut rig) = start(&state) else { return };
    let first = wait_for_devices(&mut rig, "devices", |_| true);
    assert_eq!(first[0]["lacks"]["temperature"], "not supported");
    assert_eq!(first[0]["lacks"]["power"], "no permission");
    // If they were queried again, the probe would be stuck.
    let hangs = "fault nvmlDeviceGetTemperature hang\nfault nvmlDeviceGetPowerUsage hang\n";
    rig.set_state(&(gpus(1) + "gpu 0 util=55\n" + hangs));
    wait_for_devices(&mut rig, "a change", |devices| devices[0]["util"] == 55);
    rig.set_state(&(gpus(1) + "gpu 0 util=56\n" + hangs));
    wait_for_devices(&mut rig, "another change", |devices| devices[0]["util"] == 56);
    rig.finish();
}

#[test]
fn no_process_is_started_after_startup() {
    let Some(mut rig) = start(&gpus(4)) else { return };
    wait_for_devices(&mut rig, "devices", |_| true);
    // On a busy machine, a child that the start needs may come a little later.
    let mut children: Vec<u32> = rig.leftover_pids();
    let mut samples_alike = 0;
    for _ in 0..40 {
        rig.sample();
        let now = rig.leftover_pids();
        samples_alike = if now == children { samples_alike + 1 } else { 0 };
        children = now;
    }
    assert!(samples_alike >= 20, "a child was started {samples_alike} samples ago");
    rig.finish();
}

#[test]
fn an_unusable_library_falls_back_to_nvidia_smi() {
    let state = gpus(2) + "fault nvmlInit_v2 12\n";
    let Some(mut rig) = start(&state) else { return };
    let absent = rig.backend("nvml", "absent");
    assert_eq!(absent["why"], "NVML: libnvidia-ml.so.1 found, but not the driver library");
    rig.until("nvidia-smi", |frame| {
        let rows = frame["backends"][0]["csv"]["rows"].as_array()?;
        (rows.len() == 2).then_some(())
    });
    rig.finish();
}

#[test]
fn every_python_from_3_6_on_reads_the_library() {
    at_once(
        pythons().iter().filter(|python| !python.to_string_lossy().contains("/2.")),
        |python| {
            eprintln!("{}", python.display());
            let state = gpus(1)
                + "gpu 0 pcie_tx=5+1000000 nvlinks=2 nvlink_tx_kib=8 nvlink_rx_kib=9 gpm_sm=7\n\
             proc 0 4000001 5 sm=3\n";
            let Some(setup) = setup(&state) else { return };
            let mut rig = Setup { pythons: Some(python.display().to_string()), ..setup }.start();
            let first = wait_for_devices(&mut rig, "devices", |_| true);
            assert_eq!((&first[0]["util"], &first[0]["links"][1][0]), (&90.into(), &4096.into()));
            wait_for_devices(&mut rig, "activity", |devices| devices[0]["activity"][1] == 7.0);
            rig.finish();
        },
    );
}

#[test]
fn a_library_that_is_shut_down_repeatedly_falls_back_to_nvidia_smi() {
    let Some(mut rig) = start(&gpus(1)) else { return };
    wait_for_devices(&mut rig, "devices", |_| true);
    rig.set_state(&(gpus(1) + "fault nvmlDeviceGetPowerUsage 1\n"));
    let absent = rig.backend("nvml", "absent");
    assert_eq!(absent["why"], "NVML: repeatedly uninitialized");
    rig.until("nvidia-smi", |frame| frame["backends"][0]["csv"]["rows"].is_array().then_some(()));
    rig.finish();
}

#[test]
fn known_devices_stay_when_the_library_stops_counting_them() {
    let Some(mut rig) = start_with_fast_groups(&gpus(2)) else { return };
    wait_for_devices(&mut rig, "devices", |_| true);
    let faults = "fault nvmlDeviceGetCount_v2 999\nfault nvmlDeviceGetCount 999\n";
    rig.set_state(&(gpus(2) + faults));
    // The number of devices is queried with the slow group; the first may have been read before the fault.
    for _ in 0..2 {
        rig.until("the slow group", |frame| {
            let backend = &frame["backends"].as_array()?[0];
            assert_eq!(backend["devices"].as_array()?.len(), 2, "{frame}");
            (backend["slow"].is_number() && !frame["full"].is_boolean()).then_some(())
        });
    }
    rig.set_state(&gpus(3));
    wait_for_devices(&mut rig, "a third one", |devices| devices.len() == 3);
    rig.finish();
}

/// Waits for devices of nvidia-smi, and returns why NVML is absent, and its errors.
fn wait_for_fallback(rig: &mut Rig) -> (String, Vec<Value>) {
    let (mut why, mut errors) = (String::new(), Vec::new());
    rig.until("devices of nvidia-smi", |frame| {
        errors.extend((frame["t"] == "error" && frame["source"] == "nvml").then(|| frame.clone()));
        if let Some(backends) = frame["backends"].as_array().filter(|_| frame["t"] == "hello") {
            let nvml = backends.iter().find(|backend| backend["kind"] == "nvml").unwrap();
            nvml["why"].as_str().unwrap_or_default().clone_into(&mut why);
        }
        let backends = frame["backends"].as_array()?;
        let smi = backends.iter().find(|backend| backend["kind"] == "nvidia-smi")?;
        (smi["csv"]["rows"].as_array()?.len() == 2).then_some(())
    });
    (why, errors)
}

#[test]
fn a_crashing_library_falls_back_to_nvidia_smi() {
    for fault in ["crash", "exit"] {
        let state = gpus(2) + "fault nvmlInit_v2 " + fault + "\n";
        let Some(mut rig) = start(&state) else { return };
        let (why, _) = wait_for_fallback(&mut rig);
        assert_eq!(why, "nvml: its library crashed or exited in nvmlInit_v2", "{fault}");
        rig.finish();
    }
}

#[test]
fn a_driver_that_hangs_from_the_start_stays_reported_after_the_fallback() {
    let state = gpus(2) + "fault nvmlInit_v2 hang\n";
    let Some(setup) = setup(&state) else { return };
    let replacement = Some(("STUCK_AFTER = 60.0", "STUCK_AFTER = 5.0"));
    let mut rig = Setup { replacement, deadman: 10 * TIMEOUT, ..setup }.start();
    let (why, errors) = wait_for_fallback(&mut rig);
    assert_eq!(why, "nvml: its library hangs in nvmlInit_v2");
    let codes: Vec<&str> = errors.iter().map(|error| error["code"].as_str().unwrap()).collect();
    assert!(codes.starts_with(&["starting"]) && codes.contains(&"stuck"), "{codes:?}");
    assert!(errors.iter().all(|error| error["call"] == "nvmlInit_v2"), "{errors:?}");
    // The hang stays reported while nvidia-smi reports the devices.
    for _ in 0..2 {
        let (mut is_stuck, mut has_devices) = (false, false);
        rig.until("both", |frame| {
            is_stuck |= frame["source"] == "nvml" && frame["code"] == "stuck";
            has_devices |= frame["backends"][0]["csv"].is_object();
            (is_stuck && has_devices).then_some(())
        });
    }
    rig.finish();
}

#[test]
fn a_library_that_cannot_count_devices_is_a_fault_and_falls_back() {
    let state = gpus(2) + "fault nvmlDeviceGetCount_v2 999\n";
    let Some(mut rig) = start(&state) else { return };
    let (why, errors) = wait_for_fallback(&mut rig);
    assert_eq!(why, "NVML: nvmlDeviceGetCount_v2 fails with error 999");
    let value = |key: &str| errors[0][key].as_str().unwrap().to_owned();
    assert_eq!(
        ["code", "call", "message"].map(value),
        ["failed", "nvmlDeviceGetCount_v2", "error 999"]
    );
    rig.finish();
}

#[test]
fn a_device_has_its_file_number_and_keeps_it_when_lost() {
    let state = gpus(3) + "gpu 0 minor=2\ngpu 1 minor=7\ngpu 2 minor=~\n";
    let Some(mut rig) = start(&state) else { return };
    let minors = |devices: &[Value]| -> Vec<Value> {
        devices.iter().map(|device| device["minor"].clone()).collect()
    };
    let first = wait_for_devices(&mut rig, "devices", |devices| devices.len() == 3);
    assert_eq!(minors(&first), [2.into(), 7.into(), Value::Null]);
    rig.set_state(&(state + "gpu 1 lost\n"));
    let lost = wait_for_devices(&mut rig, "a loss", |devices| devices[1]["fault"] == "lost");
    assert_eq!(lost[1]["minor"], 7);
    rig.finish();
}

#[test]
fn a_replaced_device_starts_without_xids() {
    let Some(mut rig) = start_with_fast_groups(&gpus(1)) else { return };
    wait_for_devices(&mut rig, "devices", |devices| devices[0]["xids"] == 0);
    rig.set_state(&(gpus(1) + "xid 0 79\n"));
    wait_for_devices(&mut rig, "an Xid", |devices| devices[0]["xids"] == 1);
    // Devices are listed again when their number changes.
    rig.set_state(&(gpus(2) + "gpu 0 uuid=GPU-another\n"));
    let is_new =
        |devices: &[Value]| devices[0]["uuid"] == "GPU-another" && devices[0]["xids"].is_u64();
    let found = wait_for_devices(&mut rig, "another device", is_new);
    assert_eq!((&found[0]["xids"], &found[0]["xid"]), (&0.into(), &Value::Null));
    rig.finish();
}
