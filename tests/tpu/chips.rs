//! Chips and the processes that hold them, without a runtime.

use std::os::unix::fs::PermissionsExt;

use gtop_collect::probe::Interpreter;
use serde_json::{Value, json};

use crate::harness::probe::{Setup, installed};
use crate::tpu::machine::{Machine, column, devices, processes, source, why};
use crate::tpu::server::{free_ports, join_ports};

const GIB: u64 = 1 << 30;

/// Makes the runtimes use ports without a listener.
fn use_unused_ports(machine: &Machine) {
    let line =
        format!("TYPE=\"V5\"\nTPU_RUNTIME_METRICS_PORTS=\"{}\"\n", join_ports(&free_ports(2)));
    machine.write("home/tpu-runtime/tpu-env", &line);
}

#[test]
fn every_generation_has_its_name_memory_and_cores() {
    for (device, subsystem, name, memory, cores) in [
        ("0x0027", "0x004e", "TPU v2", 16, 2),
        ("0x0027", "0x004f", "TPU v3", 32, 2),
        ("0x005e", "0x0050", "TPU v4", 32, 1),
        ("0x0063", "0x0051", "TPU v5e", 16, 1),
        ("0x0062", "0x0052", "TPU v5p", 95, 1),
        ("0x006f", "0x0053", "TPU v6e", 32, 1),
        ("0x0076", "0x0054", "TPU v7x", 192, 2),
    ] {
        let machine = Machine::new();
        machine.add_accel("0000:00:05.0", device, subsystem, 0);
        use_unused_ports(&machine);
        let chips = machine.wait_for_chips(1);
        let chip = &chips[0];
        assert_eq!(chip["name"], name);
        assert_eq!(chip["vendor"], "google");
        assert_eq!(chip["memory_total_bytes"], memory * GIB, "{name}");
        assert_eq!(chip["tpu_cores"], cores, "{name}");
        assert_eq!(chip["uuid"], "tpu-0000:00:05.0");
        assert_eq!(chip["pci_bus"], "0000:00:05.0");
        assert_eq!(chip["numa_node"], 1);
        assert_eq!(chip["device_node"], "/dev/accel0");
    }
}

#[test]
fn an_unknown_chip_is_reported_without_memory() {
    let machine = Machine::new();
    machine.add_vfio("0000:00:05.0", "0x0099", 1);
    use_unused_ports(&machine);
    let chips = machine.wait_for_chips(1);
    assert_eq!(chips[0]["name"], "TPU (0x0099)");
    assert_eq!(why(&chips[0], "memory_total_bytes"), "not available");
    assert_eq!(why(&chips[0], "tpu_cores"), "not available");
}

#[test]
fn other_google_devices_are_not_chips() {
    let machine = Machine::new();
    let node = machine.watch("host", |node| node["host"]["memory_total_bytes"].is_number());
    assert!(devices(&node).is_empty());
    let sources = node["sources"].as_array().unwrap();
    assert!(sources.iter().all(|source| source["id"] != "tpu"));
}

#[test]
fn unused_chips_are_not_a_fault() {
    let machine = Machine::v5e(4);
    use_unused_ports(&machine);
    let node = machine.watch("chips", |node| devices(node).len() == 4);
    assert_eq!(source(&node, "tpu")["fault"], Value::Null);
    for chip in devices(&node) {
        assert_eq!(chip["memory_total_bytes"], 16 * GIB);
        assert_eq!((&chip["held"], &chip["metrics_fault"]), (&json!(false), &json!("none")));
        assert_eq!(chip["processes"], json!([]));
        for field in ["utilization_percent", "memory_used_bytes", "hlo_queue", "metrics_source"] {
            assert_eq!(why(chip, field), "no workload", "{field}");
        }
        assert_eq!(why(chip, "temperature_celsius"), "not supported");
    }
}

#[test]
fn device_files_are_sorted_as_numbers() {
    let machine = Machine::new();
    for (slot, group) in [(4, 10), (5, 2), (6, 11), (7, 9)] {
        machine.add_vfio(&format!("0000:00:0{slot}.0"), "0x006f", group);
    }
    use_unused_ports(&machine);
    let chips = machine.wait_for_chips(4);
    let nodes = ["/dev/vfio/2", "/dev/vfio/9", "/dev/vfio/10", "/dev/vfio/11"];
    assert_eq!(column(&chips, "device_node"), nodes);
    assert_eq!(column(&chips, "index"), [0, 1, 2, 3]);
    assert_eq!(chips[0]["pci_bus"], "0000:00:05.0");
}

#[test]
fn device_files_without_a_location_follow_the_bus_order() {
    let machine = Machine::new();
    for slot in 0..12 {
        machine.add_function(
            &format!("0000:00:{slot:02x}.1"),
            "0x1ae0",
            "0x005e",
            "0x0001",
            "0xff0000",
        );
        machine.write(&format!("dev/accel{slot}"), "");
    }
    use_unused_ports(&machine);
    let chips = machine.wait_for_chips(12);
    assert_eq!(chips[10]["device_node"], "/dev/accel10");
    assert_eq!(chips[10]["pci_bus"], "0000:00:0a.1");
}

#[test]
fn two_functions_in_a_slot_are_one_v7x() {
    let machine = Machine::new();
    for (function, group) in [("c0:02.0", 4), ("c0:02.1", 5), ("c0:03.0", 6), ("c0:03.1", 7)] {
        machine.add_vfio(&format!("0000:{function}"), "0x0076", group);
    }
    use_unused_ports(&machine);
    let chips = machine.wait_for_chips(2);
    assert_eq!(column(&chips, "uuid"), ["tpu-0000:c0:02.0", "tpu-0000:c0:03.0"]);
    assert_eq!(
        column(&chips, "device_node"),
        ["/dev/vfio/4 /dev/vfio/5", "/dev/vfio/6 /dev/vfio/7"]
    );
    assert_eq!(chips[0]["memory_total_bytes"], 192 * GIB);
}

#[test]
fn holders_of_chips_are_reported_and_other_chips_are_free() {
    let mut machine = Machine::v5e(4);
    let ports = join_ports(&free_ports(1));
    let pid = machine.add_holder(
        &["/dev/vfio/9", "/dev/vfio/9", "/dev/vfio/vfio", "/dev/vfio/10", "/dev/vfio/77"],
        &format!("TPU_RUNTIME_METRICS_PORTS='{ports}'"),
    );
    use_unused_ports(&machine);
    let node = machine.watch("processes", |node| {
        devices(node).len() == 4 && devices(node)[1]["processes"][0]["command"] == "sleep 100000"
    });
    let chips = devices(&node);
    assert_eq!(column(chips, "held"), [&json!(false), &json!(true), &json!(true), &json!(false)]);
    assert_eq!(chips[1]["processes"][0]["command"], "sleep 100000");
    assert_eq!(processes(&chips[1]), [(u64::from(pid), &Value::Null)]);
    assert_eq!(processes(&chips[2]), [(u64::from(pid), &Value::Null)]);
    assert_eq!(why(&chips[0], "utilization_percent"), "no workload");
    assert_eq!(why(&chips[1], "utilization_percent"), "not available");
    assert_eq!(chips[0]["metrics_fault"], "none");
    assert_eq!(chips[1]["metrics_fault"], "no runtime serves metrics on the default ports");
}

#[test]
fn chips_with_unseen_holders_are_not_called_free() {
    let mut machine = Machine::v5e(1);
    use_unused_ports(&machine);
    let pid = machine.add_holder(&["/dev/vfio/8"], "");
    let locked = machine.root().join(format!("proc/{pid}/fd"));
    std::fs::set_permissions(&locked, PermissionsExt::from_mode(0o000)).unwrap();
    std::fs::set_permissions(machine.root(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut setup = Setup::new(Interpreter::Python);
    if rustix::process::geteuid().is_root() {
        if installed(&["setpriv"]).is_empty() || !std::path::Path::new("/usr/bin/python3").exists()
        {
            return;
        }
        let shell =
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/bin/sh", "-c"];
        setup.shell = shell.map(str::to_owned).to_vec();
    }
    setup.state = None;
    setup.environment = vec![("GTOP_ROOT".to_owned(), machine.root().into())];
    let mut rig = setup.start();
    let chip = rig.until("a chip", |frame| {
        let backends = frame["backends"].as_array()?;
        backends.iter().find(|backend| backend["kind"] == "tpu")?["devices"].get(0).cloned()
    });
    assert_eq!(
        (&chip["tpu"]["held"], &chip["lacks"]["held"]),
        (&Value::Null, &json!("no permission"))
    );
    assert_eq!(chip["lacks"]["util"], "not available");
    assert_eq!(chip["memory_total"], 16 * GIB);
    assert_eq!(chip["tpu"]["trouble"], "none");
}
