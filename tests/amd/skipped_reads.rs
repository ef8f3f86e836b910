//! Files that must not be read: those of suspended cards, of cards about to suspend, and refused files.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::amd::machine::{can_preload, check, devices, node, probe, run, setup, unknown};
use crate::amd::sysfs::Tree;
use crate::harness::probe::Setup;

const ACTIVE: &str = "0000:0a:00.0";
const SUSPENDED: &str = "0000:03:00.0";

fn add_card(tree: &Tree, number: u32, pci: &str, status: &str, control: &str) {
    let files = [
        ("vendor", "0x1002"),
        ("class", "0x030000"),
        ("device", "0x73ff"),
        ("unique_id", if pci == ACTIVE { "00000000000000aa" } else { "00000000000000bb" }),
        ("power/runtime_status", status),
        ("power/control", control),
        ("power/autosuspend_delay_ms", "5000"),
        ("gpu_busy_percent", "0"),
        ("mem_busy_percent", "0"),
        ("pcie_bw", "1 2 256"),
        ("mem_info_vram_total", "8573157376"),
        ("mem_info_vram_used", "16777216"),
        ("current_link_speed", "16.0 GT/s PCIe"),
        ("current_link_width", "8"),
        ("max_link_speed", "16.0 GT/s PCIe"),
        ("max_link_width", "8"),
        ("pp_dpm_sclk", "0: 500Mhz *"),
        ("@temp1_input", "41000"),
        ("@power1_average", "5000000"),
        ("@freq1_input", "500000000"),
        ("@pwm1", "0"),
    ];
    tree.add_card(number, pci, &files);
}

#[test]
fn a_suspended_card_is_reported_and_not_woken() {
    let tree = Tree::new();
    add_card(&tree, 0, SUSPENDED, "suspended", "auto");
    add_card(&tree, 1, ACTIVE, "active", "auto");
    let node = node(&tree);
    let suspended = || unknown("asleep");
    let suspended_fields = [
        "utilization_percent",
        "memory_utilization_percent",
        "video_percent",
        "memory_used_bytes",
        "memory_total_bytes",
        "memory_free_bytes",
        "gtt_used_bytes",
        "gtt_total_bytes",
        "temperature_celsius",
        "junction_temperature_celsius",
        "memory_temperature_celsius",
        "power_watts",
        "power_average_watts",
        "power_instant_watts",
        "power_limit_watts",
        "sm_clock_megahertz",
        "memory_clock_megahertz",
        "sm_clock_max_megahertz",
        "fan_percent",
        "fan_rpm",
        "pcie_generation",
        "pcie_lanes",
        "ecc_corrected_errors",
        "throttle_bits",
        "performance_level",
    ];
    let mut expected = vec![
        ("uuid", json!("GPU-00000000000000bb")),
        ("index", json!(0)),
        ("fault", Value::Null),
        ("name", json!("AMD 0x73ff")),
        ("pci_bus", json!(SUSPENDED)),
        ("driver_version", json!("6.10.5")),
    ];
    expected.extend(suspended_fields.map(|field| (field, suspended())));
    check(&node["devices"][0], &expected);
    assert_eq!(node["devices"][1]["utilization_percent"], 0.0);
    assert_eq!(node["devices"][1]["temperature_celsius"], 41.0);
}

#[test]
fn values_of_a_card_are_kept_while_it_is_suspended() {
    let tree = Tree::new();
    add_card(&tree, 0, SUSPENDED, "active", "on");
    let mut rig = probe(&tree, "/usr/bin/python3".as_ref(), Duration::from_millis(100));
    let first = rig.until("devices", |frame| devices(frame).map(|devices| devices[0].clone()));
    assert_eq!(first["memory_total"], 8_573_157_376_u64);
    let status = format!("sys/devices/pci0000:00/{SUSPENDED}/power/runtime_status");
    tree.write(&status, "suspended");
    let device = rig.until("sleep", |frame| {
        let device = devices(frame)?.first()?;
        (device["lacks"]["util"] == "asleep").then(|| device.clone())
    });
    assert_eq!(device["lacks"]["power"], "asleep");
    assert_eq!(device["lacks"]["memory_total"], Value::Null);
    tree.write(&status, "active");
    let device = rig.until("waking", |frame| {
        let device = devices(frame)?.first()?;
        (device["util"] == 0).then(|| device.clone())
    });
    assert_eq!((&device["clock_sm"], &device["pcie_lanes"]), (&json!(500), &json!(8)));
    rig.finish();
}

/// Returns the paths that gtop and its probe opened; `None` without strace.
fn opened_paths(tree: &Tree) -> Option<Vec<String>> {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-s", "4096", "-e", "trace=open,openat", "-o"]).arg(trace.path());
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: no strace here");
        return None;
    }
    command.arg(env!("CARGO_BIN_EXE_gtop"));
    let node = run(tree, command);
    assert_eq!(node["devices"].as_array().unwrap().len(), 2);
    let text = std::fs::read_to_string(trace.path()).unwrap();
    let path = |line: &str| Some(line.split_once('"')?.1.split_once('"')?.0.to_owned());
    Some(text.lines().filter_map(path).collect())
}

#[test]
fn a_trace_shows_no_access_to_suspended_cards() {
    let tree = Tree::new();
    add_card(&tree, 0, SUSPENDED, "suspended", "auto");
    add_card(&tree, 1, ACTIVE, "active", "on");
    let Some(opened) = opened_paths(&tree) else { return };
    let of = |card: &str| -> Vec<&str> {
        let mark = format!("/sys/class/drm/{card}/device/");
        opened.iter().filter_map(|path| Some(path.split_once(&mark)?.1)).collect()
    };
    assert!(of("card1").contains(&"gpu_busy_percent"), "{opened:?}");
    assert!(opened.iter().all(|path| !path.ends_with("pcie_bw") && !path.contains("/sdma_")));
    let allowed = [
        "vendor",
        "class",
        "device",
        "unique_id",
        "product_name",
        "numa_node",
        "power/runtime_status",
    ];
    for name in of("card0") {
        assert!(allowed.contains(&name), "{name} of a suspended card");
    }
}

#[test]
fn a_card_about_to_suspend_is_not_read_until_it_is_used() {
    let tree = Tree::new();
    add_card(&tree, 0, ACTIVE, "active", "auto");
    let folder = format!("sys/devices/pci0000:00/{ACTIVE}");
    let mut rig = probe(&tree, "/usr/bin/python3".as_ref(), Duration::from_millis(100));
    let first = rig.until("devices", |frame| devices(frame).map(|devices| devices[0].clone()));
    assert_eq!(first["util"], 0);
    tree.write(&format!("{folder}/gpu_busy_percent"), "50");
    for _ in 0..4 {
        let device = rig.until("devices", |frame| devices(frame).map(|devices| devices[0].clone()));
        assert_eq!(device["util"], Value::Null);
    }
    tree.write(&format!("{folder}/mem_info_vram_used"), "33554432");
    rig.until("the load", |frame| (devices(frame)?.first()?["util"] == 50).then_some(()));
    rig.finish();
}

#[test]
fn refused_files_are_read_again_only_with_the_slow_group() {
    if !can_preload() {
        return;
    }
    let tree = Tree::new();
    add_card(&tree, 0, ACTIVE, "active", "on");
    let folder = format!("sys/devices/pci0000:00/{ACTIVE}");
    tree.write(&format!("{folder}/mem_busy_percent"), "!22");
    tree.write(&format!("{folder}/gpu_busy_percent"), "!16");
    let setup = setup(&tree, "/usr/bin/python3".as_ref(), Duration::from_millis(100));
    let vendor_replacement = Some(("now + 10.0, now", "now + 5.0, now"));
    let mut rig = Setup { vendor_replacement, ..setup }.start();
    let first = rig.until("devices", |frame| devices(frame).map(|devices| devices[0].clone()));
    assert_eq!(first["lacks"]["memory_util"], "not supported");
    assert_eq!(first["lacks"]["util"], "not available");
    for name in ["mem_busy_percent", "gpu_busy_percent"] {
        tree.write(&format!("{folder}/{name}"), "5");
    }
    // A value refused during a reset returns as soon as the reset is over; an unsupported one with the slow group.
    rig.until("the load", |frame| {
        let device = devices(frame)?.first()?;
        assert_eq!(device["memory_util"], Value::Null);
        (device["util"] == 5).then_some(())
    });
    rig.until("the slow group", |frame| {
        let device = devices(frame)?.first()?;
        let is_slow = frame["backends"][0]["slow"].is_f64();
        assert!(is_slow || device["memory_util"].is_null(), "{device}");
        (device["memory_util"] == 5).then_some(())
    });
    rig.finish();
}

#[test]
fn a_file_that_hangs_is_named_and_delays_nothing_else() {
    let tree = Tree::new();
    add_card(&tree, 0, ACTIVE, "active", "on");
    let path = tree.root().join(format!("sys/devices/pci0000:00/{ACTIVE}/mem_busy_percent"));
    std::fs::remove_file(&path).unwrap();
    // Opening the pipe blocks, as it has no writer.
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let mut rig = probe(&tree, "/usr/bin/python3".as_ref(), Duration::from_millis(500));
    let error = rig.error();
    assert_eq!((&error["source"], &error["code"]), (&json!("amdgpu"), &json!("slow")));
    assert_eq!(error["call"], format!("mem_busy_percent of {ACTIVE}"));
    assert!(rig.sample()["host"]["memory_total"].is_u64());
    rig.finish();
}
