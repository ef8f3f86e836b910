//! File trees of different cards, and the expected output of gtop.

use std::time::Duration;

use gtop_collect::wire::Decoder;
use gtop_collect::wire::body::{Body, Sample};
use gtop_fleet::metrics::{Value as Field, device_fields};
use gtop_local::time::Timestamp;
use gtop_model::{Device, NodeUpdate};
use serde_json::{Value, json};

use crate::amd::machine::{
    can_preload, check, devices, node, probe, setup, snapshot, source, unknown,
};
use crate::amd::sysfs::Tree;
use crate::harness::probe::main_pythons;
use crate::harness::sleeper::Sleeper;

const GIB: u64 = 1 << 30;

/// Files that all AMD cards here have in common.
const BUS: [(&str, &str); 5] = [
    ("vendor", "0x1002"),
    ("subsystem_device", "0x74a1"),
    ("power/control", "on"),
    ("power/runtime_status", "active"),
    ("pcie_bw", "1 2 256"),
];

/// An accelerator of a compute node: no edge sensor, no fan, HBM, partitions, error counters.
const MI300X: [(&str, &str); 30] = [
    ("class", "0x120000"),
    ("device", "0x74a1"),
    ("unique_id", "a1b2c3d4e5f60718"),
    ("numa_node", "1"),
    ("gpu_busy_percent", "97"),
    ("mem_busy_percent", "41"),
    ("mem_info_vram_total", "206141652992"),
    ("mem_info_vram_used", "137438953472"),
    ("mem_info_gtt_total", "1081837019136"),
    ("mem_info_gtt_used", "27262976"),
    ("current_link_speed", "32.0 GT/s PCIe"),
    ("current_link_width", "16"),
    ("max_link_speed", "32.0 GT/s PCIe"),
    ("max_link_width", "16"),
    ("pp_dpm_sclk", "0: 132Mhz\n1: 2100Mhz *"),
    ("pp_dpm_mclk", "0: 900Mhz\n1: 1300Mhz *"),
    ("power_dpm_force_performance_level", "auto"),
    ("current_compute_partition", "SPX"),
    ("current_memory_partition", "NPS1"),
    ("pcie_replay_count", "3"),
    ("ras/umc_err_count", "ue: 2\nce: 41"),
    ("ras/gpu_vram_bad_pages", "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P"),
    ("@temp2_input", "71000"),
    ("@temp2_crit", "100000"),
    ("@temp2_emergency", "105000"),
    ("@temp3_input", "63500"),
    ("@temp3_crit", "105000"),
    ("@power1_input", "702000000"),
    ("@power1_cap", "750000000"),
    ("@freq1_input", "2098000000"),
];

fn mi300x(tree: &Tree, index: u32) -> String {
    let pci = format!("0000:{:02x}:00.0", 0x05 + 0x10 * index);
    tree.add_card(index + 1, &pci, &[&BUS[..], &MI300X[..]].concat());
    let folder = format!("sys/devices/pci0000:00/{pci}");
    tree.write(&format!("{folder}/unique_id"), format!("a1b2c3d4e5f6071{index:x}"));
    tree.write(&format!("{folder}/gpu_metrics"), counter_table([1000, 10, 250, 5, 0, 0], 1 << 33));
    tree.add_kfd_node(index + 2, 4000 + index, &pci, 304);
    pci
}

/// `gpu_metrics` 1.6: all cycles and those throttled for each reason, and energy in 2^-16 J.
fn counter_table(cycles: [u32; 6], energy: u64) -> Vec<u8> {
    let mut table = vec![0; 1000];
    table[..4].copy_from_slice(&[0xe8, 3, 1, 6]);
    table[16..24].copy_from_slice(&energy.to_le_bytes());
    for (index, count) in cycles.into_iter().enumerate() {
        table[32 + 4 * index..36 + 4 * index].copy_from_slice(&count.to_le_bytes());
    }
    table
}

/// `gpu_metrics` of this version with these throttle bits at this offset.
fn throttle_table(version: [u8; 2], offset: usize, bits: u64) -> Vec<u8> {
    let mut table = vec![0xff; 264];
    table[..4].copy_from_slice(&[8, 1, version[0], version[1]]);
    table[offset..offset + 8].copy_from_slice(&bits.to_le_bytes());
    table
}

/// `gpu_metrics` of this version and size with the loads of the compute dies of each partition at this offset.
fn partition_table(content: u8, start: usize, partition_size: usize, loads: &[&[u32]]) -> Vec<u8> {
    let mut table = vec![0xff; start + 8 * partition_size + 8];
    let size = u16::try_from(table.len()).unwrap().to_le_bytes();
    table[..4].copy_from_slice(&[size[0], size[1], 1, content]);
    table[start - 6..start - 4].copy_from_slice(&u16::try_from(loads.len()).unwrap().to_le_bytes());
    for (number, dies) in loads.iter().enumerate() {
        for (die, load) in dies.iter().enumerate() {
            let offset = start + number * partition_size + 4 * die;
            table[offset..offset + 4].copy_from_slice(&load.to_le_bytes());
        }
    }
    table
}

/// The expected snapshot of the first MI300X.
fn expected_mi300x() -> Vec<(&'static str, Value)> {
    let unsupported = || unknown("not supported");
    vec![
        ("uuid", json!("GPU-a1b2c3d4e5f60710")),
        ("index", json!(0)),
        ("fault", Value::Null),
        ("name", json!("AMD 0x74a1")),
        ("pci_bus", json!("0000:05:00.0")),
        ("driver_version", json!("6.10.5")),
        ("numa_node", json!(1)),
        ("utilization_percent", json!(97)),
        ("memory_utilization_percent", json!(41)),
        ("memory_used_bytes", json!(128 * GIB)),
        ("memory_total_bytes", json!(206_141_652_992_u64)),
        ("memory_free_bytes", json!(206_141_652_992_u64 - 128 * GIB)),
        ("gtt_used_bytes", json!(27_262_976)),
        ("gtt_total_bytes", json!(1_081_837_019_136_u64)),
        ("temperature_celsius", json!(71)),
        ("junction_temperature_celsius", json!(71)),
        ("memory_temperature_celsius", json!(63.5)),
        ("slowdown_temperature_celsius", json!(100)),
        ("shutdown_temperature_celsius", json!(105)),
        ("junction_slowdown_temperature_celsius", json!(100)),
        ("memory_slowdown_temperature_celsius", json!(105)),
        ("power_watts", json!(702)),
        ("power_instant_watts", json!(702)),
        ("power_average_watts", unsupported()),
        ("power_limit_watts", json!(750)),
        ("power_limit_max_watts", unsupported()),
        ("sm_clock_megahertz", json!(2098)),
        ("sm_clock_max_megahertz", json!(2100)),
        // Without freq2_input the level that is marked.
        ("memory_clock_megahertz", json!(1300)),
        ("memory_clock_max_megahertz", json!(1300)),
        ("fan_percent", unsupported()),
        ("fan_rpm", unsupported()),
        ("video_percent", unsupported()),
        ("pcie_generation", json!(5)),
        ("pcie_lanes", json!(16)),
        ("pcie_generation_max", json!(5)),
        ("pcie_lanes_max", json!(16)),
        ("pcie_replays", json!(3)),
        ("ecc_uncorrected_errors", json!(2)),
        ("ecc_corrected_errors", json!(41)),
        ("retirement_pending", json!(true)),
        ("performance_level", json!("auto")),
        ("compute_partition", json!("SPX")),
        ("memory_partition", json!("NPS1")),
        ("energy_joules", json!(131_072)),
        ("throttle_bits", json!(0)),
        ("throttle_reasons", json!("none")),
        ("throttled_power_percent", json!(0)),
        ("throttled_thermal_percent", json!(0)),
        ("throttled_hardware_thermal_percent", json!(0)),
    ]
}

#[test]
fn eight_mi300x_with_several_users_are_reported_value_by_value() {
    let tree = Tree::new();
    for index in 0..8 {
        mi300x(&tree, index);
    }
    tree.add_kfd_node(0, 0, "0000:00:00.0", 0);
    let is_root = rustix::process::geteuid().is_root();
    let ours = Sleeper::new();
    let other = if is_root { Sleeper::of(65534) } else { Sleeper::new() };
    let ended = 4_000_001;
    for gpu in 4000..4008 {
        tree.add_kfd_process(ours.pid(), gpu, if gpu < 4002 { 96 * GIB } else { 0 }, Some(152));
        tree.add_kfd_process(other.pid(), gpu, if gpu == 4000 { 32 * GIB } else { 0 }, Some(0));
        tree.add_kfd_process(ended, gpu, 0, None);
    }
    // A queue without memory is a use; memory of a further context of the process adds up.
    tree.add_queue(ended, 1, 4007);
    let context = format!("{}/context_1", ours.pid());
    tree.write(&format!("sys/class/kfd/kfd/proc/{context}/vram_4000"), (2 * GIB).to_string());
    let node = node(&tree);
    assert_eq!(source(&node)["experimental"], true);
    assert_eq!(source(&node)["driver"]["version"], "6.10.5");
    let shown = node["devices"].as_array().unwrap();
    assert_eq!(shown.len(), 8);
    check(&shown[0], &expected_mi300x());
    for (index, device) in shown.iter().enumerate() {
        assert_eq!(device["index"], index);
        assert_eq!(device["uuid"], format!("GPU-a1b2c3d4e5f6071{index:x}"));
    }
    let uses = |index: usize| shown[index]["processes"].as_array().unwrap();
    let of = |pid: u32| uses(0).iter().find(|used| used["pid"] == pid).unwrap();
    assert_eq!((uses(0).len(), uses(1).len(), uses(2).len(), uses(7).len()), (2, 1, 0, 1));
    assert_eq!(of(ours.pid())["memory_used_bytes"], 98 * GIB);
    assert_eq!(of(ours.pid())["cu_occupancy_percent"], 50.0);
    assert_eq!(of(ours.pid())["kind"], "C");
    assert_eq!(of(ours.pid())["command"], "sleep 1000");
    assert_eq!(of(ours.pid())["uid"], rustix::process::geteuid().as_raw());
    assert_eq!(of(other.pid())["memory_used_bytes"], 32 * GIB);
    assert_eq!(of(other.pid())["cu_occupancy_percent"], 0.0);
    if is_root {
        assert_eq!(of(other.pid())["uid"], 65534);
    }
    let hidden = &uses(7)[0];
    assert_eq!((&hidden["pid"], &hidden["memory_used_bytes"]), (&json!(ended), &json!(0)));
    assert_eq!(hidden["cu_occupancy_percent"], Value::Null);
    assert_eq!(hidden["unknown"]["user"], "gone");
}

/// An MI300X in eight partitions; the driver gives them these ids.
fn partitioned(tree: &Tree, unique: impl Fn(u32) -> u64) -> String {
    let pci = "0000:0c:00.0";
    tree.add_card(1, pci, &[&BUS[..], &MI300X[..]].concat());
    let folder = format!("sys/devices/pci0000:00/{pci}");
    tree.write(&format!("{folder}/current_compute_partition"), "CPX");
    tree.write(&format!("{folder}/gpu_metrics"), counter_table([1000, 10, 250, 5, 0, 0], 1 << 33));
    tree.write(&format!("{folder}/mem_info_vram_used"), (3 * GIB).to_string());
    // Healthy memory.
    tree.write(&format!("{folder}/ras/umc_err_count"), "ue: 0\nce: 0");
    tree.write(&format!("{folder}/ras/gpu_vram_bad_pages"), "");
    for number in 0..8 {
        tree.add_partition(4000 + number, (pci, number), 24 * GIB, unique(number));
    }
    pci.to_owned()
}

#[test]
fn partitions_of_a_card_have_their_own_memory_and_processes() {
    let tree = Tree::new();
    partitioned(&tree, |_| 0xa1b2_c3d4_e5f6_0718);
    let ours = Sleeper::new();
    for gpu in 4000..4008 {
        tree.add_kfd_process(ours.pid(), gpu, 0, None);
    }
    tree.add_kfd_process(ours.pid(), 4000, GIB, Some(19));
    tree.add_kfd_process(ours.pid(), 4003, 2 * GIB, Some(38));
    let snapshot = snapshot(&tree);
    let shown = snapshot["nodes"][0]["devices"].as_array().unwrap();
    assert_eq!(shown.len(), 9);
    let (card, parts) = shown.split_first().unwrap();
    assert_eq!((&card["state"], &card["utilization_percent"]), (&Value::Null, &json!(97.0)));
    assert_eq!(card["processes"], json!([]));
    for (number, part) in parts.iter().enumerate() {
        assert_eq!(part["index"], number);
        assert_eq!(part["uuid"], format!("GPU-a1b2c3d4e5f60718/{number}"));
        assert_eq!(part["parent"], card["uuid"]);
        assert_eq!(part["name"], "AMD 0x74a1 CPX");
        assert_eq!(part["memory_total_bytes"], 24 * GIB);
        assert_eq!(part["unknown"]["utilization_percent"], "not supported");
        let (used, occupancy) = match number {
            0 => (GIB, json!(50.0)),
            3 => (2 * GIB, json!(100.0)),
            _ => (0, Value::Null),
        };
        assert_eq!(part["memory_used_bytes"], used, "{number}");
        assert_eq!(part["memory_free_bytes"], 24 * GIB - used, "{number}");
        // That a partition is at work cannot be seen, that nothing uses it can.
        assert_eq!(part["state"], if used > 0 { "in_use" } else { "free" }, "{number}");
        let processes = part["processes"].as_array().unwrap();
        assert_eq!(processes.len(), usize::from(used > 0), "{number}");
        for one in processes {
            assert_eq!(
                (&one["pid"], &one["memory_used_bytes"]),
                (&json!(ours.pid()), &json!(used))
            );
            assert_eq!(one["cu_occupancy_percent"], occupancy);
        }
    }
    let totals = &snapshot["totals"];
    assert_eq!((&totals["devices"], &totals["physical_devices"]), (&json!(8), &json!(1)));
    assert_eq!((&totals["devices_free"], &totals["devices_in_use"]), (&json!(6), &json!(2)));
    assert_eq!(totals["memory_used_bytes"], 3 * GIB);
    assert_eq!(totals["utilization_percent"], 97.0);
}

#[test]
fn a_partition_has_the_mean_load_of_its_compute_dies() {
    // Layouts and sizes: kgd_pp_interface.h of Linux 6.12 to 6.16; the last grew within its version.
    for (content, start, size) in [(6, 312, 168), (7, 344, 232), (8, 344, 376), (8, 344, 440)] {
        let tree = Tree::new();
        let pci = "0000:0c:00.0";
        tree.add_card(1, pci, &[&BUS[..], &MI300X[..]].concat());
        let folder = format!("sys/devices/pci0000:00/{pci}");
        tree.write(&format!("{folder}/current_compute_partition"), "QPX");
        let loads: [&[u32]; 3] = [&[90, 31], &[0, 0], &[101, 3]];
        tree.write(&format!("{folder}/mem_info_vram_used"), (2 * GIB).to_string());
        let table = partition_table(content, start, size, &loads);
        tree.write(&format!("{folder}/gpu_metrics"), table);
        for number in 0..4 {
            let unique = u64::from(0x700 + number);
            tree.add_partition(4000 + number, (pci, number), 48 * GIB, unique);
        }
        let ours = Sleeper::new();
        tree.add_kfd_process(ours.pid(), 4001, GIB, Some(0));
        let node = node(&tree);
        let parts = &node["devices"].as_array().unwrap()[1..];
        let load = |number: usize| &parts[number]["utilization_percent"];
        assert_eq!((load(0), load(1)), (&json!(60.5), &json!(0.0)), "{content} {size}");
        assert_eq!(parts[2]["unknown"]["utilization_percent"], "malformed");
        assert_eq!(parts[3]["unknown"]["utilization_percent"], "not supported");
        let states: Vec<&Value> = parts.iter().map(|part| &part["state"]).collect();
        assert_eq!(states, ["busy", "idle_held", "unknown", "free"], "{content} {size}");
        // Memory of the card that no process has may be on any of them.
        tree.write(&format!("{folder}/mem_info_vram_used"), (100 * GIB).to_string());
        let node = self::node(&tree);
        let last = &node["devices"][4];
        let state = [&last["state"], &last["state_reason"]];
        assert_eq!(state, ["unknown", "memory_without_process"], "{content} {size}");
    }
}

#[test]
fn the_load_of_a_partition_is_not_kept_once_it_cannot_be_read() {
    if !can_preload() {
        return;
    }
    let tree = Tree::new();
    let pci = partitioned(&tree, |number| 0x0700 + u64::from(number));
    let metrics = format!("sys/devices/pci0000:00/{pci}/gpu_metrics");
    tree.write(&metrics, partition_table(6, 312, 168, &[&[90][..]; 8]));
    let python = "/usr/bin/python3".as_ref();
    let mut rig = setup(&tree, python, Duration::from_millis(100)).start();
    rig.until("the load", |frame| (devices(frame)?[1]["util"] == 90.0).then_some(()));
    // A reset: the driver refuses it.
    tree.write(&metrics, "!16");
    rig.until("its end", |frame| {
        let lacks = &devices(frame)?[1]["lacks"]["util"];
        (lacks == "not supported").then_some(())
    });
    rig.finish();
}

#[test]
fn a_partition_is_known_by_the_id_that_the_driver_gives_it() {
    let tree = Tree::new();
    let pci = partitioned(&tree, |number| 0x0700 + u64::from(number));
    let of_parts = |tree: &Tree| -> Vec<String> {
        let node = node(tree);
        let parts = node["devices"].as_array().unwrap()[1..].iter();
        parts.map(|part| part["uuid"].as_str().unwrap().to_owned()).collect()
    };
    let expected: Vec<String> =
        (0..8).map(|number| format!("GPU-{:016x}", 0x700 + number)).collect();
    assert_eq!(of_parts(&tree), expected);
    // Of a job that may open one partition only, the others are hidden.
    for number in 0..8 {
        let folder = format!("sys/class/kfd/kfd/topology/nodes/{}", 4000 + number);
        if number != 0 {
            std::fs::remove_dir_all(tree.root().join(folder)).unwrap();
        }
    }
    assert_eq!(of_parts(&tree), expected[..1]);
    // An undivided card is one device.
    tree.write(&format!("sys/devices/pci0000:00/{pci}/current_compute_partition"), "SPX");
    assert_eq!(of_parts(&tree), [""; 0]);
}

/// A card of a workstation: a fan, an edge sensor, an average power, a product name.
const RADEON: [(&str, &str); 29] = [
    ("class", "0x030000"),
    ("device", "0x744c"),
    ("unique_id", "77aa00bb11cc22dd"),
    ("product_name", "Radeon RX, \"7900\" \u{1b}[31mXTX"),
    ("numa_node", "-1"),
    ("gpu_busy_percent", "12"),
    ("mem_busy_percent", "3"),
    ("vcn_busy_percent", "55"),
    ("mem_info_vram_total", "25753026560"),
    ("mem_info_vram_used", "1073741824"),
    ("mem_info_gtt_total", "33554432000"),
    ("mem_info_gtt_used", "104857600"),
    ("current_link_speed", "2.5 GT/s PCIe"),
    ("current_link_width", "16"),
    ("pp_dpm_sclk", "0: 500Mhz *\n1: 2526Mhz"),
    ("pp_dpm_mclk", "0: 96Mhz *\n1: 1249Mhz"),
    ("@temp1_input", "41000"),
    ("@temp1_crit", "100000"),
    ("@temp1_emergency", "105000"),
    ("@temp2_input", "48000"),
    ("@temp2_crit", "110000"),
    ("@temp3_input", "-2000"),
    ("@power1_average", "33250000"),
    ("@power1_cap", "339000000"),
    ("@power1_cap_max", "389000000"),
    ("@power1_cap_default", "339000000"),
    ("@fan1_input", "1234"),
    ("@pwm1", "51"),
    ("@freq1_input", "93000000"),
];

#[test]
fn a_radeon_has_a_fan_and_graphics_processes() {
    let tree = Tree::new();
    tree.add_card(0, "0000:0a:00.0", &[&BUS[..], &RADEON[..]].concat());
    let folder = "sys/devices/pci0000:00/0000:0a:00.0";
    // Power and junction; in version 1.3 the bits are at the very end.
    tree.write(&format!("{folder}/gpu_metrics"), throttle_table([1, 3], 112, 1 << 2 | 1 << 36));
    let fdinfo = "pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t9\ndrm-pdev:\t0000:0a:00.0\n\
        drm-memory-vram:\t2048 KiB\ndrm-engine-gfx:\t987654 ns\n";
    tree.add_drm_client(4_000_050, 7, fdinfo);
    tree.add_drm_client(4_000_050, 8, fdinfo);
    tree.add_drm_client(4_000_051, 3, &fdinfo.replace("9\n", "10\n").replace("gfx", "compute"));
    tree.add_drm_client(4_000_052, 3, &fdinfo.replace("amdgpu", "i915"));
    let node = node(&tree);
    let shown = &node["devices"][0];
    let unsupported = || unknown("not supported");
    check(
        shown,
        &[
            ("uuid", json!("GPU-77aa00bb11cc22dd")),
            ("name", json!("Radeon RX, \"7900\"  [31mXTX")),
            ("pci_bus", json!("0000:0a:00.0")),
            ("driver_version", json!("6.10.5")),
            ("numa_node", unknown("not available")),
            ("utilization_percent", json!(12)),
            ("memory_utilization_percent", json!(3)),
            ("video_percent", json!(55)),
            ("memory_used_bytes", json!(GIB)),
            ("memory_total_bytes", json!(25_753_026_560_u64)),
            ("memory_free_bytes", json!(25_753_026_560_u64 - GIB)),
            ("gtt_used_bytes", json!(104_857_600)),
            ("gtt_total_bytes", json!(33_554_432_000_u64)),
            ("temperature_celsius", json!(41)),
            ("junction_temperature_celsius", json!(48)),
            ("memory_temperature_celsius", json!(-2)),
            ("slowdown_temperature_celsius", json!(100)),
            ("shutdown_temperature_celsius", json!(105)),
            ("junction_slowdown_temperature_celsius", json!(110)),
            ("memory_slowdown_temperature_celsius", unsupported()),
            ("power_watts", json!(33.25)),
            ("power_average_watts", json!(33.25)),
            ("power_instant_watts", unsupported()),
            ("power_limit_watts", json!(339)),
            ("power_limit_max_watts", json!(389)),
            ("power_limit_default_watts", json!(339)),
            ("power_limit_min_watts", unsupported()),
            ("sm_clock_megahertz", json!(93)),
            ("sm_clock_max_megahertz", json!(2526)),
            ("memory_clock_megahertz", json!(96)),
            ("memory_clock_max_megahertz", json!(1249)),
            ("fan_percent", json!(20)),
            ("fan_rpm", json!(1234)),
            ("pcie_generation", json!(1)),
            ("pcie_lanes", json!(16)),
            ("pcie_replays", unsupported()),
            ("ecc_corrected_errors", unsupported()),
            ("performance_level", unsupported()),
            ("compute_partition", unsupported()),
            ("throttle_bits", json!(0x24)),
            ("throttle_reasons", json!("power cap, software thermal")),
        ],
    );
    let uses = shown["processes"].as_array().unwrap();
    let rows: Vec<Value> = uses
        .iter()
        .map(|used| json!([used["pid"], used["memory_used_bytes"], used["kind"]]))
        .collect();
    assert_eq!(rows, [json!([4_000_050, 2 << 20, "G"]), json!([4_000_051, 2 << 20, "C"])]);
}

#[test]
fn an_apu_reports_its_shared_memory() {
    let tree = Tree::new();
    let files = [
        ("class", "0x038000"),
        ("device", "0x150e"),
        ("gpu_busy_percent", "64"),
        ("mem_info_vram_total", "536870912"),
        ("mem_info_vram_used", "402653184"),
        ("mem_info_gtt_total", "49392123904"),
        ("mem_info_gtt_used", "21474836480"),
        ("@temp1_input", "55000"),
        ("@power1_input", "28000000"),
        ("@freq1_input", "2700000000"),
    ];
    tree.add_card(1, "0000:c4:00.0", &[&BUS[..], &files[..]].concat());
    // Prochot; the average temperatures after the bits are not valid here.
    let folder = "sys/devices/pci0000:00/0000:c4:00.0";
    tree.write(&format!("{folder}/gpu_metrics"), throttle_table([2, 3], 120, 1 << 46));
    tree.add_kfd_node(1, 77, "0000:c4:00.0", 12);
    tree.add_kfd_process(4_000_060, 77, 0, None);
    tree.add_queue(4_000_060, 0, 77);
    let node = node(&tree);
    let shown = &node["devices"][0];
    let unsupported = || unknown("not supported");
    check(
        shown,
        &[
            ("uuid", json!("0000:c4:00.0")),
            ("name", json!("AMD 0x150e")),
            ("pci_bus", json!("0000:c4:00.0")),
            ("driver_version", json!("6.10.5")),
            ("utilization_percent", json!(64)),
            ("memory_utilization_percent", unsupported()),
            // What the firmware has set aside and the host's memory that the card may use.
            ("memory_used_bytes", json!(402_653_184 + 20 * GIB)),
            ("memory_total_bytes", json!(536_870_912 + 49_392_123_904_u64)),
            ("memory_free_bytes", json!(134_217_728 + 49_392_123_904_u64 - 20 * GIB)),
            ("memory_is_host", json!(true)),
            ("gtt_used_bytes", json!(20 * GIB)),
            ("gtt_total_bytes", json!(49_392_123_904_u64)),
            ("temperature_celsius", json!(55)),
            ("junction_temperature_celsius", unsupported()),
            ("power_watts", json!(28)),
            ("power_instant_watts", json!(28)),
            ("power_limit_watts", unsupported()),
            ("sm_clock_megahertz", json!(2700)),
            ("memory_clock_megahertz", unsupported()),
            ("throttle_bits", json!(0x40)),
            ("throttle_reasons", json!("hardware thermal")),
        ],
    );
    assert_eq!(shown["processes"][0]["pid"], 4_000_060);
}

/// Memory in use and in total, in MiB, and whether it is the host's, of the only card.
fn shown_memory(tree: &Tree) -> (Option<u64>, Option<u64>, Value) {
    let node = node(tree);
    let shown = &node["devices"][0];
    let mebibytes = |field: &str| shown[field].as_u64().map(|bytes| bytes >> 20);
    let memory = (mebibytes("memory_used_bytes"), mebibytes("memory_total_bytes"));
    (memory.0, memory.1, shown["memory_is_host"].clone())
}

#[test]
fn only_processors_with_graphics_use_the_memory_of_the_host() {
    let card = |device: &str, format: Option<[u8; 2]>| {
        let tree = Tree::new();
        let mebibytes = |mebibytes: u64| (mebibytes << 20).to_string();
        let sizes = [mebibytes(512), mebibytes(300), mebibytes(98_304), mebibytes(61_440)];
        let files = [
            ("class", "0x038000"),
            ("device", device),
            ("mem_info_vram_total", &*sizes[0]),
            ("mem_info_vram_used", &*sizes[1]),
            ("mem_info_gtt_total", &*sizes[2]),
            ("mem_info_gtt_used", &*sizes[3]),
        ];
        tree.add_card(1, "0000:c4:00.0", &[&BUS[..], &files[..]].concat());
        if let Some(format) = format {
            let folder = "sys/devices/pci0000:00/0000:c4:00.0";
            tree.write(&format!("{folder}/gpu_metrics"), throttle_table(format, 120, 0));
        }
        tree
    };
    let integrated = (Some(61_740), Some(98_816), json!(true));
    // By its id, with and without the driver's table; by the table alone.
    assert_eq!(shown_memory(&card("0x1586", None)), integrated);
    assert_eq!(shown_memory(&card("0x1586", Some([3, 0]))), integrated);
    assert_eq!(shown_memory(&card("0xfffe", Some([2, 3]))), integrated);
    // A card with little memory, which also maps that of the host.
    let discrete = (Some(300), Some(512), json!(false));
    assert_eq!(shown_memory(&card("0x6611", None)), discrete);
    assert_eq!(shown_memory(&card("0x74a1", Some([1, 3]))), discrete);
    // The driver may allow more than the host has.
    let tree = card("0x1586", None);
    tree.write("proc/meminfo", "MemTotal:       67108864 kB");
    assert_eq!(shown_memory(&tree).1, Some(512 + 65_536));
}

#[test]
fn a_card_in_a_reset_gives_errors_and_keeps_its_index() {
    if !can_preload() {
        return;
    }
    let tree = Tree::new();
    let pci = mi300x(&tree, 0);
    mi300x(&tree, 1);
    let folder = format!("sys/devices/pci0000:00/{pci}");
    for name in
        ["gpu_busy_percent", "hwmon/hwmon3/temp2_input", "hwmon/hwmon3/power1_input", "gpu_metrics"]
    {
        tree.write(&format!("{folder}/{name}"), "!1");
    }
    for (name, errno) in
        [("mem_busy_percent", "!16"), ("hwmon/hwmon3/temp3_input", "!5"), ("pp_dpm_mclk", "!22")]
    {
        tree.write(&format!("{folder}/{name}"), errno);
    }
    tree.write(&format!("{folder}/hwmon/hwmon3/freq1_input"), "!13");
    let node = node(&tree);
    let shown = &node["devices"][0];
    let mut expected = expected_mi300x();
    for (field, value) in [
        ("utilization_percent", unknown("not available")),
        ("memory_utilization_percent", unknown("not available")),
        ("temperature_celsius", unknown("not available")),
        ("junction_temperature_celsius", unknown("not available")),
        ("memory_temperature_celsius", unknown("driver error")),
        ("power_watts", unknown("not available")),
        ("power_instant_watts", unknown("not available")),
        ("sm_clock_megahertz", unknown("no permission")),
        ("memory_clock_megahertz", unknown("not supported")),
        ("memory_clock_max_megahertz", unknown("not supported")),
        ("throttle_bits", unknown("not available")),
        ("throttle_reasons", unknown("not available")),
        ("energy_joules", unknown("not offered by this source")),
        ("throttled_power_percent", unknown("not offered by this source")),
        ("throttled_thermal_percent", unknown("not offered by this source")),
        ("throttled_hardware_thermal_percent", unknown("not offered by this source")),
    ] {
        let index = expected.iter().position(|(id, _)| *id == field).unwrap();
        expected[index] = (field, value);
    }
    check(shown, &expected);
    assert_eq!(node["devices"][1]["utilization_percent"], 97.0);
    // A value that cannot be read is no fault.
    assert_eq!(shown["health_reasons"], node["devices"][1]["health_reasons"]);
}

#[test]
fn malformed_files_affect_only_their_own_values() {
    let tree = Tree::new();
    let pci = mi300x(&tree, 0);
    let folder = format!("sys/devices/pci0000:00/{pci}");
    for (name, contents) in [
        ("gpu_busy_percent", &b"\xff\xfe{\"a\":1}\n\n"[..]),
        ("mem_busy_percent", b"4294967295"),
        ("mem_info_gtt_used", b"-5"),
        ("mem_info_vram_used", b"99999999999999999999999999"),
        ("hwmon/hwmon3/temp2_input", b"2147483647"),
        ("hwmon/hwmon3/power1_input", b""),
        ("hwmon/hwmon3/power1_cap", b"7e8"),
        ("hwmon/hwmon3/freq1_input", b"1_000"),
        ("current_link_speed", b"Unknown"),
        ("current_link_width", b"0"),
        ("pp_dpm_sclk", b"0: Mhz *\n1: 99999999Mhz\nx"),
        ("ras/umc_err_count", b"ue: many\n"),
        ("current_compute_partition", b"\x1b]0;x\x07"),
        ("gpu_metrics", b"\x01"),
        ("unique_id", b"GPU \x00"),
        ("numa_node", b"1 2"),
    ] {
        tree.write(&format!("{folder}/{name}"), contents);
    }
    tree.write("sys/class/kfd/kfd/proc/x/vram_4000", "7");
    tree.add_kfd_process(1, 4000, 0, None);
    tree.write("sys/class/kfd/kfd/proc/1/vram_4000", "many");
    tree.write("sys/class/kfd/kfd/topology/nodes/9/gpu_id", "9");
    tree.write("sys/class/kfd/kfd/topology/nodes/9/properties", b"\xff\xff\nsimd_count\n");
    let node = node(&tree);
    let shown = &node["devices"][0];
    let mut expected = expected_mi300x();
    for (field, value) in [
        ("uuid", json!(pci)),
        ("numa_node", unknown("not available")),
        ("utilization_percent", unknown("malformed")),
        ("memory_utilization_percent", unknown("malformed")),
        ("memory_used_bytes", unknown("malformed")),
        ("memory_free_bytes", unknown("not available")),
        ("gtt_used_bytes", unknown("not available")),
        ("temperature_celsius", unknown("malformed")),
        ("junction_temperature_celsius", unknown("malformed")),
        ("power_watts", unknown("not available")),
        ("power_instant_watts", unknown("not available")),
        ("power_limit_watts", unknown("malformed")),
        ("sm_clock_megahertz", unknown("malformed")),
        ("sm_clock_max_megahertz", unknown("not available")),
        ("pcie_generation", unknown("not available")),
        ("pcie_lanes", unknown("not available")),
        ("ecc_corrected_errors", unknown("malformed")),
        ("ecc_uncorrected_errors", unknown("malformed")),
        ("compute_partition", unknown("not available")),
        ("throttle_bits", unknown("not supported")),
        ("throttle_reasons", unknown("not supported")),
        ("energy_joules", unknown("not offered by this source")),
        ("throttled_power_percent", unknown("not offered by this source")),
        ("throttled_thermal_percent", unknown("not offered by this source")),
        ("throttled_hardware_thermal_percent", unknown("not offered by this source")),
    ] {
        let index = expected.iter().position(|(id, _)| *id == field).unwrap();
        expected[index] = (field, value);
    }
    check(shown, &expected);
    assert_eq!(shown["processes"], json!([]));
}

#[test]
fn sixteen_cards_are_reported_and_other_vendors_are_ignored() {
    let tree = Tree::new();
    for index in 0..16 {
        mi300x(&tree, index);
    }
    let other = |class, vendor| {
        [("class", class), ("vendor", vendor), ("device", "0x2000"), ("gpu_busy_percent", "9")]
    };
    tree.add_card(0, "0000:02:00.0", &other("0x030000", "0x1a03"));
    tree.add_card(90, "0000:03:00.0", &other("0x030200", "0x10de"));
    // A bridge and a sound device of the same vendor.
    tree.add_function("0000:00:01.0", &other("0x060400", "0x1002"));
    tree.add_function("0000:05:00.1", &other("0x040300", "0x1002"));
    let node = node(&tree);
    let shown = node["devices"].as_array().unwrap();
    let addresses: Vec<&str> =
        shown.iter().map(|device| device["pci_bus"].as_str().unwrap()).collect();
    let expected: Vec<String> =
        (0..16).map(|index| format!("0000:{:02x}:00.0", 0x05 + 0x10 * index)).collect();
    assert_eq!(addresses, expected);
    assert!(shown.iter().all(|device| device["utilization_percent"] == 97.0));
}

#[test]
fn a_missing_driver_is_reported() {
    let tree = Tree::new();
    tree.add_function("0000:05:00.0", &[&BUS[..], &MI300X[..]].concat());
    let node = node(&tree);
    assert_eq!(node["devices"], json!([]));
    let why = "amdgpu: no card under /sys/class/drm; the driver is not loaded";
    assert_eq!(source(&node)["absent"], why);
}

#[test]
fn a_machine_without_amd_devices_has_no_amd_source() {
    let tree = Tree::new();
    tree.add_function("0000:00:01.0", &[("class", "0x060400"), ("vendor", "0x1002")]);
    let node = node(&tree);
    assert!(node["sources"].as_array().unwrap().iter().all(|source| source["id"] != "amdgpu"));
}

/// Decodes the devices of a sample as gtop does.
fn decode(frame: &Value) -> Vec<Device> {
    let sample: Sample = serde_json::from_value(frame.clone()).unwrap();
    let decoded = Decoder::default().decode(&Body::Sample(sample), Timestamp::default());
    let Some(NodeUpdate::Sample(sample)) = decoded else { panic!("no sample") };
    sample
        .backends
        .into_iter()
        .filter_map(|backend| backend.devices)
        .flat_map(|devices| devices.list)
        .collect()
}

#[test]
fn every_python_reports_the_same() {
    let tree = Tree::new();
    mi300x(&tree, 0);
    tree.add_card(0, "0000:0a:00.0", &[&BUS[..], &RADEON[..]].concat());
    tree.add_kfd_process(4_000_001, 4000, GIB, Some(30));
    let mut all = Vec::new();
    for python in main_pythons() {
        eprintln!("{}", python.display());
        let mut rig = probe(&tree, &python, Duration::from_millis(500));
        let frame = rig.until("devices", |frame| devices(frame).map(|_| frame.clone()));
        rig.finish();
        let values: Vec<Vec<Field>> = decode(&frame)
            .iter()
            .map(|device| device_fields().map(|field| (field.read)(device)).collect())
            .collect();
        assert_eq!(values.len(), 2);
        let uses = frame["backends"][0]["uses"]["list"].clone();
        assert_eq!(
            uses,
            json!([{"device": "GPU-a1b2c3d4e5f60710", "pid": 4_000_001, "memory": GIB,
            "kind": "C", "occupancy": 9.868}])
        );
        all.push(values);
    }
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn cycle_counters_become_time_shares() {
    let tree = Tree::new();
    let pci = mi300x(&tree, 0);
    let path = format!("sys/devices/pci0000:00/{pci}/gpu_metrics");
    let mut rig = probe(&tree, "/usr/bin/python3".as_ref(), Duration::from_millis(100));
    let first = rig.until("devices", |frame| devices(frame).map(|devices| devices[0].clone()));
    assert_eq!((&first["held_power"], &first["throttle"]), (&json!(0), &Value::Null));
    // A quarter of the cycles throttled by power, and a counter that wraps around.
    tree.write(&path, counter_table([5000, 10, 1250, 5, 0, 0], 1 << 33));
    let device = rig.until("a counter", |frame| {
        let device = devices(frame)?.first()?;
        device["held_power"].as_u64().filter(|held| *held > 0)?;
        Some(device.clone())
    });
    assert_eq!(device["throttle"], 4);
    assert!(device["held_thermal"].is_null());
    // Unchanged counters: no throttling.
    rig.until("no reason", |frame| (devices(frame)?.first()?["throttle"] == 0).then_some(()));
    rig.finish();
}
