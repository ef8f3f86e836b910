//! Metrics of runtimes, each on the right chip.

use std::process::Command;

use gtop_collect::probe::Interpreter;
use serde_json::{Value, json};

use crate::harness::probe::Setup;
use crate::tpu::machine::{Machine, WATCHING, column, devices, processes, why};
use crate::tpu::server::{SCRIPT, Server, free_ports, join_ports, python};

const GIB: u64 = 1 << 30;
const SLICE: [&str; 4] = ["--chips", "4", "--ids", "8,9,12,13"];

fn floats(chips: &[Value], field: &str) -> Vec<f64> {
    chips.iter().map(|chip| chip[field].as_f64().unwrap()).collect()
}

fn numbers(chips: &[Value], field: &str) -> Vec<u64> {
    chips.iter().map(|chip| chip[field].as_u64().unwrap()).collect()
}

#[test]
fn chips_of_a_slice_are_matched_in_numeric_order() {
    let ports = free_ports(1);
    let Some(_server) = Server::start(&ports, &SLICE) else { return };
    let mut machine = Machine::v5e(4);
    let pid = machine.add_workload(4, &join_ports(&ports));
    let chips = machine.wait_for_busy_chips();
    assert_eq!(floats(&chips, "utilization_percent"), [50.0, 51.0, 52.0, 53.0]);
    assert_eq!(floats(&chips, "hbm_bandwidth_percent"), [20.0, 21.0, 22.0, 23.0]);
    assert_eq!(floats(&chips, "tensorcore_idle_seconds"), [0.5, 1.5, 2.5, 3.5]);
    assert_eq!(numbers(&chips, "hlo_queue"), [0, 1, 2, 3]);
    assert_eq!(numbers(&chips, "memory_used_bytes"), [GIB, GIB + 1, GIB + 2, GIB + 3]);
    assert_eq!(numbers(&chips, "memory_total_bytes"), [17_044_078_592; 4]);
    assert_eq!(chips[3]["memory_free_bytes"], 17_044_078_592 - GIB - 3);
    for (index, chip) in chips.iter().enumerate() {
        assert_eq!(chip["metrics_source"], format!("port {}", ports[0]));
        assert_eq!((&chip["metrics_fault"], &chip["held"]), (&json!("none"), &json!(true)));
        assert_eq!(
            (&chip["slice_error"], &chip["framework"]),
            (&json!("none"), &json!("jax 0.7.1"))
        );
        assert_eq!(chip["runtime_uptime_seconds"], 3600);
        assert_eq!(why(chip, "megascale_error"), "not supported");
        assert_eq!(chip["cores"], json!([]));
        let used = json!(GIB + u64::try_from(index).unwrap());
        assert_eq!(processes(chip), [(u64::from(pid), &used)]);
        // The runtime does not report the utilization of each process.
        assert_eq!(chip["processes"][0]["sm_percent"], Value::Null);
    }
}

/// The values that Google's own client reads from a server; `None` if it is not installed.
fn tpu_info(port: u16) -> Option<Vec<Value>> {
    let script = format!(
        "import json; from tpu_info import device, metrics\n\
         a = 'localhost:{port}'; v = device.TpuChip.V5E\n\
         usage = metrics.get_chip_usage(v, a); queue = metrics.get_hlo_queue_size(v, a)\n\
         idle, wide = metrics.get_tensorcore_idle_duration(a), metrics.get_runtime_hbm_utilization(a)\n\
         print(json.dumps([[u.memory_usage, u.total_memory, u.duty_cycle_pct, q.queue_size, i[1], w[1]]\n\
                           for u, q, i, w in zip(usage, queue, idle, wide)]))"
    );
    let output = Command::new(python()?).args(["-c", &script]).output().unwrap();
    if !output.status.success() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn values_agree_with_tpu_info() {
    let ports = free_ports(1);
    for more in [&[][..], &["--new-ordinals"]] {
        let arguments: Vec<&str> = SLICE.iter().chain(more).copied().collect();
        let Some(_server) = Server::start(&ports, &arguments) else { return };
        let Some(rows) = tpu_info(ports[0]) else { return };
        let mut machine = Machine::v5e(4);
        machine.add_workload(4, &join_ports(&ports));
        let chips = machine.wait_for_busy_chips();
        let fields = [
            "memory_used_bytes",
            "memory_total_bytes",
            "utilization_percent",
            "hlo_queue",
            "tensorcore_idle_seconds",
            "hbm_bandwidth_percent",
        ];
        assert_eq!(rows.len(), chips.len());
        for (chip, row) in chips.iter().zip(rows) {
            for (index, field) in fields.iter().enumerate() {
                assert_eq!(chip[field].as_f64(), row[index].as_f64(), "{field}");
            }
        }
    }
}

#[test]
fn one_process_per_chip_is_combined_over_all_ports() {
    let ports = free_ports(4);
    let Some(_server) = Server::start(&ports, &SLICE) else { return };
    let mut machine = Machine::v5e(4);
    let pids: Vec<u32> = (8..12)
        .map(|node| {
            let environment = format!("TPU_RUNTIME_METRICS_PORTS={}", join_ports(&ports));
            machine.add_holder(&[&format!("/dev/vfio/{node}")], &environment)
        })
        .collect();
    let chips = machine.wait_for_busy_chips();
    assert_eq!(floats(&chips, "utilization_percent"), [50.0, 51.0, 52.0, 53.0]);
    let sources: Vec<String> = ports.iter().map(|port| format!("port {port}")).collect();
    assert_eq!(column(&chips, "metrics_source"), sources.iter().collect::<Vec<_>>());
    for (index, chip) in chips.iter().enumerate() {
        let used = json!(GIB + u64::try_from(index).unwrap());
        assert_eq!(processes(chip), [(u64::from(pids[index]), &used)]);
    }
}

#[test]
fn ports_that_all_report_every_chip_are_not_added_up() {
    let ports = free_ports(2);
    let arguments = [&SLICE[..], &["--aggregate"]].concat();
    let Some(_server) = Server::start(&ports, &arguments) else { return };
    let mut machine = Machine::v5e(4);
    machine.add_workload(4, &join_ports(&ports));
    let chips = machine.wait_for_busy_chips();
    assert_eq!(numbers(&chips, "memory_used_bytes"), [GIB, GIB + 1, GIB + 2, GIB + 3]);
    assert_eq!(numbers(&chips, "hlo_queue"), [0, 1, 2, 3]);
}

#[test]
fn a_chip_with_two_cores_has_the_memory_of_both_and_one_utilization() {
    let ports = free_ports(1);
    let Some(_server) = Server::start(&ports, &["--chips", "4", "--cores", "2"]) else { return };
    let mut machine = Machine::v3(4);
    let nodes = ["/dev/accel0", "/dev/accel1", "/dev/accel2", "/dev/accel3"];
    machine.add_holder(&nodes, &format!("TPU_RUNTIME_METRICS_PORTS={}", ports[0]));
    let chips = machine.wait_for_busy_chips();
    assert_eq!(floats(&chips, "utilization_percent"), [50.0, 51.0, 52.0, 53.0]);
    let both: Vec<u64> = (0..4).map(|chip| 2 * GIB + 4 * chip + 1).collect();
    assert_eq!(numbers(&chips, "memory_used_bytes"), both);
    assert_eq!(numbers(&chips, "memory_total_bytes"), [2 * 17_044_078_592; 4]);
    assert_eq!(floats(&chips, "hbm_bandwidth_percent"), [20.5, 22.5, 24.5, 26.5]);
    assert_eq!(floats(&chips, "tensorcore_idle_seconds"), [0.5, 2.5, 4.5, 6.5]);
    assert_eq!(numbers(&chips, "hlo_queue"), [1, 5, 9, 13]);
    assert_eq!(
        chips[1]["cores"],
        json!([
            {"memory_used_bytes": GIB + 2, "memory_total_bytes": 17_044_078_592_u64, "utilization_percent": null},
            {"memory_used_bytes": GIB + 3, "memory_total_bytes": 17_044_078_592_u64, "utilization_percent": null},
        ])
    );
}

#[test]
fn the_cores_of_a_v7x_have_their_own_utilization() {
    let ports = free_ports(1);
    let arguments = ["--chips", "2", "--cores", "2", "--load-by-core"];
    let Some(_server) = Server::start(&ports, &arguments) else { return };
    let mut machine = Machine::new();
    for (function, group) in [("c0:02.0", 0), ("c0:02.1", 1), ("c0:03.0", 2), ("c0:03.1", 3)] {
        machine.add_vfio(&format!("0000:{function}"), "0x0076", group);
    }
    let nodes = ["/dev/vfio/0", "/dev/vfio/1", "/dev/vfio/2", "/dev/vfio/3"];
    let pid = machine.add_holder(&nodes, &format!("TPU_RUNTIME_METRICS_PORTS={}", ports[0]));
    let chips = machine.wait_for_busy_chips();
    assert_eq!(floats(&chips, "utilization_percent"), [50.5, 52.5]);
    assert_eq!(chips[1]["cores"][1]["utilization_percent"], 53.0);
    assert_eq!(chips[0]["cores"][1]["memory_used_bytes"], GIB + 1);
    let both = json!(2 * GIB + 1);
    assert_eq!(processes(&chips[0]), [(u64::from(pid), &both)]);
}

#[test]
fn a_process_on_some_chips_has_values_only_there() {
    let ports = free_ports(1);
    let Some(_server) = Server::start(&ports, &["--chips", "2"]) else { return };
    let mut machine = Machine::v5e(4);
    let environment = format!("TPU_RUNTIME_METRICS_PORTS={}", ports[0]);
    let pid = machine.add_holder(&["/dev/vfio/9", "/dev/vfio/11"], &environment);
    machine.add_listener(pid, ports[0]);
    let node = machine.watch("numbers", |node| {
        devices(node).get(3).is_some_and(|chip| chip["utilization_percent"] == 51.0)
    });
    let chips = devices(&node);
    assert_eq!(chips[1]["utilization_percent"], 50.0);
    for free in [&chips[0], &chips[2]] {
        assert_eq!(why(free, "utilization_percent"), "no workload");
        assert_eq!(free["held"], false);
    }
}

#[test]
fn independent_processes_keep_their_chips_apart() {
    let ports = free_ports(2);
    let one = ["--chips", "1", "--ids", "0"];
    let Some(_first) = Server::start(&ports[..1], &[&one[..], &["--load", "10"]].concat()) else {
        return;
    };
    let Some(_second) = Server::start(&ports[1..], &[&one[..], &["--load", "90"]].concat()) else {
        return;
    };
    let mut machine = Machine::v5e(2);
    for (node, port) in [("/dev/vfio/9", ports[0]), ("/dev/vfio/8", ports[1])] {
        let pid = machine.add_holder(&[node], &format!("TPU_RUNTIME_METRICS_PORTS={port}"));
        machine.add_listener(pid, port);
    }
    let chips = machine.wait_for_busy_chips();
    assert_eq!(floats(&chips, "utilization_percent"), [90.0, 10.0]);
}

#[test]
fn among_several_holders_the_serving_one_has_the_memory() {
    let ports = free_ports(1);
    let Some(_server) = Server::start(&ports, &["--chips", "1"]) else { return };
    let mut machine = Machine::v5e(1);
    let environment = format!("TPU_RUNTIME_METRICS_PORTS={}", ports[0]);
    let child = machine.add_holder(&["/dev/vfio/8"], &environment);
    let serving = machine.add_holder(&["/dev/vfio/8"], &environment);
    machine.add_listener(serving, ports[0]);
    let node = machine.watch("memory", |node| {
        devices(node)
            .first()
            .is_some_and(|chip| processes(chip).iter().any(|(_, memory)| memory.is_number()))
    });
    let mut expected = vec![(u64::from(child), Value::Null), (u64::from(serving), json!(GIB))];
    expected.sort_by_key(|(pid, _)| *pid);
    let shown: Vec<(u64, Value)> = processes(&devices(&node)[0])
        .into_iter()
        .map(|(pid, memory)| (pid, memory.clone()))
        .collect();
    assert_eq!(shown, expected);
}

#[test]
fn ports_come_from_the_machine_file_when_no_process_names_them() {
    let ports = free_ports(1);
    let Some(_server) = Server::start(&ports, &["--chips", "2"]) else { return };
    let mut machine = Machine::v5e(2);
    machine.add_holder(&["/dev/vfio/8", "/dev/vfio/9"], "PATH=/bin");
    machine.write(
        "home/tpu-runtime/tpu-env",
        &format!("TYPE=\"V5\"\nTPU_RUNTIME_METRICS_PORTS=\"{}\"\nZONE='x'\n", ports[0]),
    );
    assert_eq!(floats(&machine.wait_for_busy_chips(), "utilization_percent"), [50.0, 51.0]);
}

/// Runs a server on these ports and gtop in a network namespace; `None` if that is not permitted.
fn in_network_namespace(ports: &str) -> Option<Command> {
    let python = python()?;
    let namespace = ["-rnpf", "--mount-proc", "--kill-child"];
    let output =
        Command::new("unshare").args(namespace).args(["ip", "link", "set", "lo", "up"]).output();
    if !output.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no unshare or ip, or no permission to use them");
        return None;
    }
    let script = "ip link set lo up; tail -f /dev/null | \"$1\" \"$2\" --ports \"$3\" --chips 2 >&2 & shift 3; exec \"$@\"";
    let mut program = Command::new("unshare");
    program.args(namespace).args(["sh", "-c", script, "sh"]).arg(python).arg(SCRIPT).arg(ports);
    program.arg(env!("CARGO_BIN_EXE_gtop")).args(WATCHING);
    Some(program)
}

#[test]
fn default_ports_are_tried_when_nothing_names_them() {
    for ports in ["8431", "8433,8438"] {
        let Some(program) = in_network_namespace(ports) else { return };
        let mut machine = Machine::v5e(2);
        machine.add_holder(&["/dev/vfio/8", "/dev/vfio/9"], "PATH=/bin");
        let node = machine.watch_with(program, "numbers", |node| {
            let chips = devices(node);
            chips.len() == 2 && chips.iter().all(|chip| chip["utilization_percent"].is_number())
        });
        assert_eq!(floats(devices(&node), "utilization_percent"), [50.0, 51.0]);
    }
}

#[test]
fn a_missing_metric_affects_no_other() {
    let missing = "tpu.runtime.hbm.utilization.percent,hlo.queue.size.gauge";
    for more in [&["--without", missing][..], &["--without", missing, "--old"]] {
        let ports = free_ports(1);
        let arguments = [&SLICE[..], more].concat();
        let Some(_server) = Server::start(&ports, &arguments) else { return };
        let mut machine = Machine::v5e(4);
        machine.add_workload(4, &join_ports(&ports));
        for chip in machine.wait_for_busy_chips() {
            assert_eq!(why(&chip, "hbm_bandwidth_percent"), "not supported");
            assert_eq!(why(&chip, "hlo_queue"), "not supported");
            assert_eq!(chip["metrics_fault"], "none");
            assert!(chip["memory_used_bytes"].is_number());
        }
    }
}

#[test]
fn unreported_memory_is_the_nominal_memory_of_the_chip() {
    let ports = free_ports(1);
    let missing = "tpu.runtime.hbm.memory.total.bytes,tpu.runtime.tensorcore.dutycycle.percent";
    let arguments = [&SLICE[..], &["--without", missing]].concat();
    let Some(_server) = Server::start(&ports, &arguments) else { return };
    let mut machine = Machine::v5e(4);
    machine.add_workload(4, &join_ports(&ports));
    let node = machine.watch("memory", |node| {
        devices(node).first().is_some_and(|chip| chip["memory_used_bytes"].is_number())
    });
    let chip = &devices(&node)[0];
    assert_eq!(chip["memory_total_bytes"], 16 * GIB);
    assert_eq!(why(chip, "utilization_percent"), "not supported");
}

#[test]
fn errors_of_a_slice_have_the_message_of_the_runtime() {
    let ports = free_ports(1);
    let errors =
        ["--slice-error", "ICI link 3 is down\u{1b}[31m", "--megascale-error", "HANG_DETECTED"];
    let Some(_server) = Server::start(&ports, &[&SLICE[..], &errors].concat()) else { return };
    let mut machine = Machine::v5e(4);
    machine.add_workload(4, &join_ports(&ports));
    let chips = machine.wait_for_busy_chips();
    assert_eq!(chips[0]["slice_error"], "ICI link 3 is down [31m");
    assert_eq!(chips[3]["megascale_error"], "HANG_DETECTED");
}

#[test]
fn more_devices_than_chips_are_not_assigned() {
    let ports = free_ports(1);
    let Some(_server) = Server::start(&ports, &["--chips", "3"]) else { return };
    let mut machine = Machine::v5e(4);
    machine.add_workload(4, &join_ports(&ports));
    let message = format!("port {}: reports 3 devices, but this machine has 4 chips", ports[0]);
    let node = machine.watch("the fault", |node| {
        devices(node).first().is_some_and(|chip| chip["metrics_fault"] == message)
    });
    for chip in devices(&node) {
        assert_eq!(why(chip, "utilization_percent"), "not available");
        assert_eq!(chip["memory_total_bytes"], 16 * GIB);
    }
}

#[test]
fn every_python_from_3_6_on_reports_the_same() {
    let ports = free_ports(2);
    let Some(_server) = Server::start(&ports, &SLICE) else { return };
    let mut machine = Machine::v5e(4);
    machine.add_workload(4, &join_ports(&ports));
    let versions = std::env::home_dir().unwrap().join(".pyenv/versions");
    let mut pythons = vec!["/usr/bin/python3".to_owned()];
    for version in versions.read_dir().into_iter().flatten() {
        pythons.push(version.unwrap().path().join("bin/python").display().to_string());
    }
    let mut first_devices = None;
    for python in pythons.iter().filter(|path| !path.contains("/2.")) {
        if !std::path::Path::new(python).exists() {
            continue;
        }
        let mut setup = Setup::new(Interpreter::Python);
        setup.pythons = Some(python.clone());
        setup.state = None;
        setup.environment = vec![("GTOP_ROOT".to_owned(), machine.root().into())];
        let mut rig = setup.start();
        let mut devices = rig.until("busy chips", |frame| {
            let backends = frame["backends"].as_array()?;
            let devices =
                backends.iter().find(|backend| backend["kind"] == "tpu")?["devices"].clone();
            devices[3]["util"].is_number().then_some(devices)
        });
        eprintln!("{python}");
        for device in devices.as_array_mut().unwrap() {
            assert_eq!(device["tpu"]["queue"], device["index"]);
        }
        let first = first_devices.get_or_insert_with(|| devices.clone());
        assert_eq!(*first, devices, "{python}");
        rig.finish();
    }
}
