//! Scenarios of machines, and the expected output of gtop.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::nvml_stub;
use crate::nvml::expected;

/// True if nvidia-smi is in the `PATH`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Smi {
    Missing,
    InPath,
}

/// Returns the node that `gtop --json` shows for a scenario; `None` if the library cannot be built.
fn node(entry: u32, smi: Smi, scenario: &str) -> Option<Value> {
    let library = nvml_stub::folder(entry)?;
    Some(run(&library, smi, scenario))
}

fn run(library: &Path, smi: Smi, scenario: impl AsRef<[u8]>) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::write(&state, scenario).unwrap();
    let stubs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stubs");
    let path = std::env::var("PATH").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_gtop"))
        .args(["--json", "--deadline", "60"])
        .env("LD_LIBRARY_PATH", library)
        .env("NVML_STUB_STATE", &state)
        .env("PATH", if smi == Smi::InPath { format!("{stubs}:{path}") } else { path })
        .env("HOME", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let snapshot: Value = serde_json::from_slice(&output.stdout).unwrap();
    snapshot["nodes"][0].clone()
}

/// Runs it until all rates are measured: a busy machine may read them too seldom in one run.
fn run_with_library(scenario: &str) -> Option<Value> {
    const RATES: [&str; 3] = [
        "pcie_receive_bytes_per_second",
        "throttled_hardware_thermal_percent",
        "sm_active_percent",
    ];
    for _ in 0..20 {
        let node = node(24, Smi::Missing, scenario)?;
        let is_measured = |device: &&Value| {
            let reasons = [json!("not sampled"), json!("needs two samples")];
            let lacks = |rate: &&str| reasons.contains(&device["unknown"][rate]);
            !device["fault"].is_null() || !RATES.iter().any(lacks)
        };
        if whole_devices(&node).iter().all(is_measured) {
            return Some(node);
        }
    }
    panic!("rates are never measured")
}

/// Returns the devices of a snapshot that are not slices.
pub(crate) fn whole_devices(node: &Value) -> Vec<&Value> {
    let devices = node["devices"].as_array().unwrap();
    devices.iter().filter(|device| device["parent"].is_null()).collect()
}

/// Returns the entry of a source in a snapshot.
pub(crate) fn source<'a>(node: &'a Value, id: &str) -> &'a Value {
    node["sources"].as_array().unwrap().iter().find(|source| source["id"] == id).unwrap()
}

/// Compares each device with the scenario.
fn check(scenario: &str, node: &Value) {
    check_except(scenario, node, &[]);
}

fn check_except(scenario: &str, node: &Value, except: &[&str]) {
    let devices = expected::devices(scenario);
    let shown = whole_devices(node);
    assert_eq!(shown.len(), devices.len(), "{node}");
    for (device, shown) in devices.iter().zip(shown) {
        device.check(shown, except);
    }
    check_uses(scenario, node);
}

/// Returns the devices that are not healthy, with the reasons: `0 faulty: lost`.
fn unhealthy(node: &Value) -> Vec<String> {
    let devices = node["devices"].as_array().unwrap().iter();
    let sick = devices.filter(|device| device["health"] != "ok");
    sick.map(|device| {
        let reasons = device["health_reasons"].as_array().unwrap().iter();
        let ids: Vec<&str> = reasons.map(|reason| reason["id"].as_str().unwrap()).collect();
        let health = device["health"].as_str().unwrap();
        format!("{} {health}: {}", device["index"], ids.join(", "))
    })
    .collect()
}

/// Compares all values of all processes of each device.
fn check_uses(scenario: &str, node: &Value) {
    let mut expected: BTreeMap<(u64, u64), Value> = BTreeMap::new();
    for words in scenario.lines().filter_map(|line| line.strip_prefix("proc ")) {
        let mut words = words.split_whitespace();
        let mut next = || words.next().unwrap().to_owned();
        let (gpu, pid, held) = (next(), next(), next());
        let more: BTreeMap<&str, &str> = words.filter_map(|word| word.split_once('=')).collect();
        let share = |key: &str| more.get(key).map_or(0.0, |share| share.parse::<f64>().unwrap());
        let held = held.parse::<u64>().ok().map(|mib| mib << 20);
        let kind = more.get("type").copied().unwrap_or("C");
        let values = json!({
            "memory_used_bytes": held,
            "sm_percent": share("sm"),
            "memory_utilization_percent": share("mem"),
            "encoder_percent": share("enc"),
            "decoder_percent": share("dec"),
            "kind": match kind { "CG" | "GM" => "C+G", "M" => "C", kind => kind },
        });
        expected.insert((gpu.parse().unwrap(), pid.parse().unwrap()), values);
    }
    let mut shown = BTreeMap::new();
    for device in whole_devices(node) {
        for used in device["processes"].as_array().unwrap() {
            let values: serde_json::Map<String, Value> = expected
                .values()
                .next()
                .and_then(Value::as_object)
                .into_iter()
                .flat_map(|values| values.keys())
                .map(|key| (key.clone(), used[key].clone()))
                .collect();
            let key = (device["index"].as_u64().unwrap(), used["pid"].as_u64().unwrap());
            assert!(shown.insert(key, Value::Object(values)).is_none(), "{key:?} is listed twice");
        }
    }
    assert_eq!(shown, expected);
}

/// Returns a scenario of eight busy A100 with all values an A100 has.
fn a100s() -> String {
    let mut scenario = "driver 570.133.20 12080\n".to_owned();
    for i in 0..8 {
        writeln!(
            scenario,
            "gpu {i} capability=8.0 jpg=1{i} ofa=2{i} sram_threshold=0 util={util} memutil=5{i} temp=6{i} memtemp=7{i} power_mw=38{i}250 \
             power_avg_mw=38{i}000 power_now_mw=39{i}123 limit_mw=400000 limit_requested_mw=400000 \
             limit_default_mw=400000 limit_min_mw=100000 limit_max_mw=400000 energy_mj=91234567{i} \
             used_mib=7000{i} total_mib=81920 reserved_mib=631 bar1_total_mib=131072 bar1_used_mib={i} \
             clk_gr=1410 clk_sm=1405 clk_mem=1593 clk_video=1275 clk_gr_max=1410 clk_sm_max=1410 \
             clk_mem_max=1593 clk_video_max=1290 throttle=4 t_shutdown=92 t_slowdown=89 pcie_gen=4 \
             pcie_gen_max=4 pcie_replays={i} nvlinks=12 nvlink_tx_kib=123456 nvlink_rx_kib=654321 \
             held_power=77 held_sync_boost=0 held_old_thermal=5 remap_corrected=0 remap_uncorrected=0 \
             remap_pending=0 remap_failed=0 recovery=0 fabric=0 name=NVIDIA A100-SXM4-80GB",
            util = 90 + i,
        )
        .unwrap();
        for process in 0..5 {
            let pid = 4_000_000 + i * 10 + process;
            let (mib, sm) = (9000 + process, 10 + process);
            writeln!(scenario, "proc {i} {pid} {mib} sm={sm} mem=3 enc=1 dec=2").unwrap();
        }
    }
    scenario
}

#[test]
fn eight_busy_a100_are_reported_field_by_field() {
    let scenario = a100s();
    let Some(node) = run_with_library(&scenario) else { return };
    assert_eq!(unhealthy(&node), [""; 0]);
    check(&scenario, &node);
    let driver = &source(&node, "nvml")["driver"];
    assert_eq!(driver["version"], "570.133.20");
    assert_eq!(driver["cuda"], "12.8");
    let first = whole_devices(&node)[0];
    // The counters did not change between two samples.
    assert_eq!(first["throttled_power_percent"], 0.0);
    assert_eq!(first["throttled_thermal_percent"], 0.0);
    assert_eq!(first["unknown"]["throttled_power_brake_percent"], "not offered by this source");
    assert_eq!(first["nvlink_receive_bytes_per_second"], 0);
    assert_eq!(first["unknown"]["pcie_receive_bytes_per_second"], "not supported");
    assert_eq!(first["links"].as_array().unwrap().len(), 12);
    assert_eq!(
        first["links"][0],
        json!({"transmit_bytes": 123_456 / 12 * 1024, "receive_bytes": 654_321 / 12 * 1024})
    );
    assert_eq!(first["bar1_free_bytes"], 131_072_u64 << 20);
    assert_eq!(first["xid_events"], 0);
}

#[test]
fn counters_become_rates() {
    let scenario = "driver 580.65.06 13000\n\
        gpu 0 pcie_rx=5+1000000 pcie_tx=6+2000000 nvlinks=18 nvlink_tx_kib=7+3000 nvlink_rx_kib=8+4000 \
        held_power=9+250000000 held_thermal=0+100000000 held_hw_thermal=0 held_power_brake=0+1000000000\n";
    let Some(node) = run_with_library(scenario) else { return };
    let device = whole_devices(&node)[0];
    let close = |field: &str, rate: f64| {
        let shown = device[field].as_f64().unwrap();
        // A busy machine may take its time between a reading and its neighbour.
        assert!((rate * 0.4..rate * 2.5).contains(&shown), "{field}: {shown}");
    };
    close("pcie_receive_bytes_per_second", 1e6);
    close("pcie_transmit_bytes_per_second", 2e6);
    close("nvlink_transmit_bytes_per_second", 3072e3);
    close("nvlink_receive_bytes_per_second", 4096e3);
    close("throttled_power_percent", 25.0);
    close("throttled_thermal_percent", 10.0);
    close("throttled_power_brake_percent", 90.0);
    assert_eq!(device["throttled_hardware_thermal_percent"], 0.0);
    assert_eq!(device["unknown"]["throttled_sync_boost_percent"], "not supported");
}

#[test]
fn without_counters_the_driver_measures_the_rates() {
    let scenario = "driver 535.183.01 12020\n\
        gpu 0 gpm_sm=1 gpm_pcie_tx=20 gpm_pcie_rx=30 gpm_nvlink_rx=40 gpm_nvlink_tx=50 sram_threshold=1\n\
        gpu 1 gpm_sm=1\n";
    let Some(node) = run_with_library(scenario) else { return };
    let shown = whole_devices(&node);
    // This driver is too old for counters of PCIe.
    for (field, mib, why) in [
        ("pcie_transmit_bytes_per_second", 20, "not offered by this source"),
        ("pcie_receive_bytes_per_second", 30, "not offered by this source"),
        ("nvlink_receive_bytes_per_second", 40, "not supported"),
        ("nvlink_transmit_bytes_per_second", 50, "not supported"),
    ] {
        assert_eq!(shown[0][field], mib << 20, "{field}");
        assert_eq!((&shown[1][field], &shown[1]["unknown"][field]), (&Value::Null, &json!(why)));
    }
    // Drivers have it since 560.
    assert_eq!(shown[0]["unknown"]["recovery_action"], "not offered by this source");
    check_except(scenario, &node, &["recovery_action"]);
}

/// An H100 in seven slices.
fn slices() -> String {
    let mut scenario = "driver 570.133.20 12080\n\
        gpu 0 mig=1 used_mib=7000 temp=55 gpm_sm=40\n"
        .to_owned();
    for i in 0..7 {
        writeln!(
            scenario,
            "slice 0 {i} total_mib=9728 used_mib={used} gi={gi} ci=0 gpm_sm=1{i} gpm_tensor=2{i} name=1g.10gb",
            used = 1000 + i,
            gi = 7 + i,
        )
        .unwrap();
        writeln!(scenario, "proc 0 {} {} slice={i}", 4_000_100 + i, 900 + i).unwrap();
    }
    scenario
}

#[test]
fn an_h100_with_seven_slices_shows_each_of_them() {
    let scenario = slices();
    let Some(node) = run_with_library(&scenario) else { return };
    assert_eq!(unhealthy(&node), [""; 0]);
    let device = &expected::devices(&scenario)[0];
    let parent = whole_devices(&node)[0];
    device.check(parent, &["utilization_percent", "memory_utilization_percent"].map(|field| field));
    let parts: Vec<&Value> = node["devices"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|device| device["parent"] == parent["uuid"])
        .collect();
    assert_eq!(parts.len(), 7);
    for (i, part) in (0_u64..).zip(parts) {
        assert_eq!(part["index"], i);
        assert_eq!(part["name"], "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
        assert_eq!(part["memory_used_bytes"], (1000 + i) << 20);
        assert_eq!(part["memory_total_bytes"], 9728_u64 << 20);
        assert_eq!(part["gpu_instance"], 7 + i);
        assert_eq!(part["compute_instance"], 0);
        assert_eq!(part["sm_active_percent"], 10.0 + i as f64);
        assert_eq!(part["tensor_active_percent"], 20.0 + i as f64);
        assert_eq!(part["utilization_percent"], part["sm_active_percent"]);
        assert_eq!(part["state"], "busy");
        let used = part["processes"].as_array().unwrap();
        assert_eq!(used.len(), 1, "{part}");
        assert_eq!(used[0]["pid"], 4_000_100 + i);
        assert_eq!(used[0]["memory_used_bytes"], (900 + i) << 20);
        assert_eq!(used[0]["sm_percent"], Value::Null);
    }
}

#[test]
fn refused_values_have_a_reason_and_are_never_zero() {
    let scenario = "driver 570.133.20 12080\n\
        gpu 0 power_mw=~ temp=!4 util=!999 limit_mw=~ limit_requested_mw=~ ecc_cv=!4 fan=31 clk_sm=!999\n\
        gpu 1 used_mib=10\n";
    let Some(node) = run_with_library(scenario) else { return };
    // A refused value is no fault.
    assert_eq!(unhealthy(&node), [""; 0]);
    let devices = expected::devices(scenario);
    let shown = whole_devices(&node);
    devices[0].check(shown[0], &["memory_utilization_percent"]);
    assert_eq!(shown[0]["unknown"]["memory_utilization_percent"], "driver error");
    devices[1].check(shown[1], &[]);
}

#[test]
fn a_device_without_permission_keeps_its_index() {
    let scenario = "driver 570.133.20 12080\ngpu 0\ngpu 1\ngpu 2 lost\ngpu 3\n\
        fault nvmlDeviceGetHandleByIndex_v2@1 4\nfault nvmlDeviceGetHandleByIndex_v2@3 17\n";
    let Some(node) = run_with_library(scenario) else { return };
    let said: Vec<(&Value, &Value)> =
        whole_devices(&node).iter().map(|device| (&device["index"], &device["fault"])).collect();
    let words = [
        (0, Value::Null),
        (1, json!("no permission")),
        (2, json!("lost")),
        (3, json!("no permission")),
    ];
    for ((index, fault), (place, word)) in said.into_iter().zip(words) {
        assert_eq!((index, fault), (&json!(place), &word));
    }
    assert_eq!(node["fault"], Value::Null);
    let sick = ["1 unknown: no_permission", "2 faulty: lost", "3 unknown: no_permission"];
    assert_eq!(unhealthy(&node), sick);
}

/// A name that would break out of whatever it is put into.
const HOSTILE: &[u8] = b"A, 9, [N/A] \"x\\ \x1b]0;owned\x07\x1egtop1 {} \xff\xfe $(reboot) 'z";

#[test]
fn a_hostile_device_name_is_sanitized_on_every_path() {
    let mut scenario = b"driver 570.133.20 12080\ngpu 0 util=7 name=".to_vec();
    scenario.extend(HOSTILE);
    scenario.extend(b"\ngpu 1 util=8 name=");
    scenario.extend([b'x'; 90]);
    scenario.extend(b"\n");
    let Some(library) = nvml_stub::folder(24) else { return };
    for (library, how) in [(&*library, "nvml"), (Path::new("/nonexistent"), "nvidia-smi")] {
        let node = run(library, Smi::InPath, &scenario);
        let shown = whole_devices(&node);
        assert_eq!(source(&node, how)["fault"], Value::Null);
        assert_eq!(shown.len(), 2, "{how}: {node}");
        let name = shown[0]["name"].as_str().unwrap();
        assert!(name.starts_with("A, 9, [N/A] \"x\\") && name.ends_with("$(reboot) 'z"), "{name}");
        assert!(!name.chars().any(char::is_control), "{how}: {name:?}");
        let loads = (&shown[0]["utilization_percent"], &shown[1]["utilization_percent"]);
        assert_eq!(loads, (&json!(7.0), &json!(8.0)), "{how}");
    }
}

#[test]
fn all_of_three_hundred_processes_are_reported() {
    let mut scenario = "driver 570.133.20 12080\ngpu 0 used_mib=70000\n".to_owned();
    for i in 0..300 {
        writeln!(scenario, "proc 0 {} {} sm={}", 4_000_000 + i, 100 + i, i % 100).unwrap();
    }
    let Some(node) = run_with_library(&scenario) else { return };
    check(&scenario, &node);
}

/// Processes that compute, draw, do both, share a device by MPS, or hold an unknown amount of memory.
fn mixed() -> String {
    "driver 535.43.02 12020\n\
     gpu 0 used_mib=5000 display=1\n\
     proc 0 4000001 1000 sm=50 mem=20\n\
     proc 0 4000002 200 sm=1 type=G\n\
     proc 0 4000003 300 sm=2 type=CG\n\
     proc 0 4000004 400 sm=3 type=M\n\
     proc 0 4000005 - sm=4\n\
     proc 0 4000006 60 type=GM\n\
     stale 0 4000001 2147483632\nstale 0 4009999 17\n"
        .to_owned()
}

#[test]
fn every_size_of_a_process_entry_is_decoded() {
    for entry in [16, 24, 32] {
        let scenario = mixed();
        let Some(node) = node(entry, Smi::Missing, &scenario) else { return };
        eprintln!("{entry} bytes");
        check_uses(&scenario, &node);
        assert_eq!(unhealthy(&node), [""; 0]);
    }
}

#[test]
fn unified_memory_is_host_memory_with_known_users() {
    let scenario = "driver 580.95.05 13000\n\
        gpu 0 capability=12.1 total_mib=~ used_mib=~ reserved_mib=~ limit_mw=~ limit_requested_mw=~ \
        clk_mem=~ clk_mem_max=~ memtemp=~ ecc_mode=~ ecc_cv=~ ecc_uv=~ ecc_ca=~ ecc_ua=~ mig=~ \
        pcie_gen=~ pcie_width=~ pcie_gen_max=~ pcie_width_max=~ name=NVIDIA GB10\n\
        proc 0 4000001 51200 sm=97\n";
    let Some(node) = run_with_library(scenario) else { return };
    let device = whole_devices(&node)[0];
    let memory = ["memory_total_bytes", "memory_used_bytes", "memory_free_bytes"];
    expected::devices(scenario)[0].check(device, &memory);
    let [total, used, free] = memory.map(|field| device[field].as_u64().unwrap());
    assert_eq!(total, node["host"]["memory_total_bytes"].as_u64().unwrap());
    assert_eq!(used + free, total);
    assert_eq!(device["memory_is_host"], true);
    assert_eq!(device["hidden_memory_bytes"], Value::Null);
    check_uses(scenario, &node);
    assert_eq!(unhealthy(&node), [""; 0]);
}

#[test]
fn a_failing_device_reports_all_its_problems() {
    let scenario = "driver 580.95.05 13000\n\
        gpu 0 util=99 throttle=0x48 margin=-3 temp=91 held_hw_thermal=1+500000000 ecc_cv=3 ecc_uv=2 \
        ecc_ca=412 ecc_ua=7 remap_corrected=1 remap_uncorrected=6 remap_pending=1 remap_failed=1 \
        retired_sbe=5 retired_dbe=2 retired_pending=1 recovery=1 fabric=3 fabric_health=0x41\n\
        xid 0 63\nxid 0 79\nxid 0 63\nevent 0 2 0\nevent 0 0x8000 1\n";
    let Some(node) = run_with_library(scenario) else { return };
    check(scenario, &node);
    let device = whole_devices(&node)[0];
    assert_eq!((&device["xid"], &device["xid_events"]), (&json!(63), &json!(3)));
    assert_eq!(device["xid_meaning"], "row remapping or page retirement recorded");
    assert_eq!(
        unhealthy(&node),
        [
            "0 faulty: recovery_action, remap_failed, xid, remap_pending, retirement_pending, ecc_uncorrected"
        ]
    );
    assert_eq!(device["fabric_health"], "degraded bandwidth, access timeout");
    let held = device["throttled_hardware_thermal_percent"].as_f64().unwrap();
    assert!((20.0..100.0).contains(&held), "{held}");
    let said =
        |event: &Value| (event["kind"].clone(), event["code"].clone(), event["text"].clone());
    let mut told: Vec<_> = node["events"].as_array().unwrap().iter().map(said).collect();
    told.sort_by_key(|event| format!("{event:?}"));
    let xid = |code: u64, words| (json!("xid"), json!(code), json!(words));
    let memory = (json!("ecc"), Value::Null, json!("uncorrected memory error"));
    let marked = xid(63, "Xid 63: row remapping or page retirement recorded");
    let action = (json!("recovery"), Value::Null, json!("recovery action changed"));
    assert_eq!(
        told,
        [memory, action, marked, xid(79, "Xid 79: the device has fallen off the bus")]
    );
    for event in node["events"].as_array().unwrap() {
        assert_eq!((&event["device"], &event["index"]), (&device["uuid"], &json!(0)));
        let count = if event["code"] == 63 { 2 } else { 1 };
        assert_eq!((&event["source"], &event["count"]), (&json!("nvml"), &json!(count)));
        assert!(event["age_seconds"].as_f64().unwrap() >= 0.0, "{event}");
        assert_eq!(event["at"], event["first_at"]);
    }
    assert_eq!(source(&node, "nvml")["driver"]["no_events"], Value::Null);
}

#[test]
fn a_driver_without_events_is_reported() {
    for (fault, why) in [
        ("nvmlDeviceRegisterEvents 3", "not supported"),
        ("nvmlEventSetCreate 4", "no permission"),
        ("nvmlEventSetWait_v2 4", "no permission"),
    ] {
        let scenario = format!("driver 570.133.20 12080\ngpu 0\nxid 0 79\nfault {fault}\n");
        let Some(node) = run_with_library(&scenario) else { return };
        assert_eq!(source(&node, "nvml")["driver"]["no_events"], why, "{fault}");
        let device = whole_devices(&node)[0];
        for field in ["xid", "xid_events", "xid_meaning"] {
            assert_eq!((&device[field], &device["unknown"][field]), (&Value::Null, &json!(why)));
        }
        assert_eq!(node["events"], json!([]));
    }
}

#[test]
fn a_refused_process_list_is_unknown_and_not_empty() {
    for (code, why) in [(4, "no permission"), (3, "not supported"), (999, "driver error")] {
        let scenario = format!(
            "driver 570.133.20 12080\ngpu 0 used_mib=500\ngpu 1 used_mib=500\nproc 0 4000001 400\n\
             proc 1 4000002 400\nfault nvmlDeviceGetComputeRunningProcesses_v3@1 {code}\n"
        );
        let Some(node) = run_with_library(&scenario) else { return };
        let shown = whole_devices(&node);
        assert_eq!(shown[0]["processes"][0]["pid"], 4_000_001);
        assert_eq!(shown[1]["processes"], Value::Null, "{code}");
        assert_eq!(shown[1]["unknown"]["processes"], why);
        assert_eq!(shown[1]["memory_used_bytes"], 500_u64 << 20);
    }
}

#[test]
fn without_a_process_list_from_nvidia_smi_processes_are_unknown() {
    let scenario = "driver 570.133.20 12080\ngpu 0 used_mib=500\nproc 0 4000001 400\nset 0 power.draw [N/A]\n\
        fault apps 4\n";
    let node = run(Path::new("/nonexistent"), Smi::InPath, scenario);
    let shown = whole_devices(&node)[0];
    assert_eq!(
        (&shown["processes"], &shown["unknown"]["processes"]),
        (&Value::Null, &json!("no permission"))
    );
    assert_eq!(
        (&shown["power_watts"], &shown["unknown"]["power_watts"]),
        (&Value::Null, &json!("not supported"))
    );
    let users = source(&node, "nvidia-smi.processes");
    assert_eq!(users["fault"]["kind"], "no permission");
    assert_eq!(source(&node, "nvidia-smi")["fault"], Value::Null);
}

#[test]
fn a_hanging_first_call_is_named_and_the_host_is_reported() {
    let scenario = "driver 570.133.20 12080\ngpu 0\nfault nvmlDeviceGetPowerUsage hang\n";
    let Some(node) = run_with_library(scenario) else { return };
    assert_eq!(node["devices"], json!([]));
    let fault = &source(&node, "nvml")["fault"];
    assert_eq!(
        (&fault["kind"], &fault["call"]),
        (&json!("slow"), &json!("nvmlDeviceGetPowerUsage of device 0"))
    );
    assert!(node["host"]["memory_total_bytes"].is_u64());
}

#[test]
fn a_driver_that_is_not_running_is_reported_with_the_host() {
    for (code, words) in [
        ("9", "NVML: the driver is not running"),
        ("18", "NVML: driver and library versions differ"),
        ("999", "NVML: error 999 at the start"),
    ] {
        let scenario = format!("gpu 0\nfault nvmlInit_v2 {code}\n");
        let Some(node) = run_with_library(&scenario) else { return };
        assert_eq!(node["devices"], json!([]));
        assert_eq!(source(&node, "nvml")["absent"], words);
        assert!(node["host"]["memory_total_bytes"].is_u64());
    }
}

#[test]
fn devices_that_nvidia_smi_only_names_in_messages_are_faulty() {
    let scenario = "driver 570.133.20 12080\ngpu 0 lost\ngpu 1 lost\n";
    let node = run(Path::new("/nonexistent"), Smi::InPath, scenario);
    let shown: Vec<_> = whole_devices(&node)
        .into_iter()
        .map(|device| (&device["pci_bus"], &device["fault"], &device["health"]))
        .collect();
    let [lost, faulty] = [json!("lost"), json!("faulty")];
    let addresses = ["0000:18:00.0", "0000:29:00.0"].map(Value::from);
    assert_eq!(shown, [(&addresses[0], &lost, &faulty), (&addresses[1], &lost, &faulty)]);
    let fault = &source(&node, "nvidia-smi")["fault"];
    assert_eq!(fault["kind"], "device lost");
    assert!(fault["message"].as_str().unwrap().starts_with("Unable to determine"), "{fault}");
}

#[test]
fn without_the_library_nvidia_smi_reports_the_same() {
    let mut scenario = "driver 570.133.20 12080\n".to_owned();
    for i in 0..4 {
        writeln!(
            scenario,
            "gpu {i} util=3{i} memutil=1{i} temp=5{i} power_mw=21{i}250 used_mib=1000{i} throttle=4 \
             fan=4{i} ecc_cv=1 ecc_uv=0 ecc_ca=9 ecc_ua=1 retired_pending=0"
        )
        .unwrap();
        writeln!(scenario, "proc {i} {} 900{i} sm=5", 4_000_000 + i).unwrap();
    }
    let Some(by_library) = node(24, Smi::InPath, &scenario) else { return };
    assert!(
        by_library["sources"].as_array().unwrap().iter().all(|source| source["id"] != "nvidia-smi")
    );
    let by_program = run(Path::new("/nonexistent"), Smi::InPath, &scenario);
    assert_eq!(source(&by_program, "nvml")["absent"], "NVML: libnvidia-ml.so.1 not found");
    assert_eq!(source(&by_program, "nvidia-smi")["absent"], Value::Null);
    let mut compared = BTreeSet::new();
    for (one, other) in whole_devices(&by_library).into_iter().zip(whole_devices(&by_program)) {
        for field in gtop_fleet::metrics::device_fields().map(|field| field.id) {
            if !other[field].is_null() {
                assert_eq!(one[field], other[field], "{field}");
                compared.insert(field);
            }
        }
        let uses = |device: &Value| {
            let list = device["processes"].as_array().unwrap();
            list.iter()
                .map(|used| (used["pid"].clone(), used["memory_used_bytes"].clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(uses(one), uses(other));
    }
    assert!(compared.len() >= 25, "{compared:?}");
}
