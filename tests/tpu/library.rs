//! libtpuinfo.so, used if the runtime's own service does not answer.

use std::time::Duration;

use gtop_collect::probe::Interpreter;
use serde_json::{Value, json};

use crate::harness::probe::Setup;
use crate::tpu::machine::{Machine, compile_library, devices, source, why};
use crate::tpu::server::{Server, free_ports};

const GIB: u64 = 1 << 30;

/// A machine with the library and a process on all chips whose runtime serves nothing; `None` without a compiler.
fn machine(variables: &[(&str, &str)]) -> Option<Machine> {
    let mut machine = Machine::v5e(4);
    let folder = machine.root().join("library");
    std::fs::create_dir(&folder).unwrap();
    let folder = compile_library(&folder)?;
    machine.add_workload(4, &free_ports(1)[0].to_string());
    machine.environment.push(("LD_LIBRARY_PATH".to_owned(), folder.into()));
    for (key, value) in variables {
        machine.environment.push(((*key).to_owned(), (*value).into()));
    }
    Some(machine)
}

#[test]
fn the_library_reports_values_without_a_port() {
    let Some(machine) = machine(&[]) else { return };
    for (index, chip) in (0_u64..).zip(machine.wait_for_busy_chips()) {
        assert_eq!(chip["metrics_source"], "libtpuinfo");
        assert_eq!(chip["memory_used_bytes"], (index + 1) * GIB);
        assert_eq!(chip["memory_total_bytes"], 16 * GIB);
        assert_eq!(chip["utilization_percent"].as_u64(), None);
        assert_eq!(
            chip["utilization_percent"].as_f64(),
            u32::try_from(10 * index + 5).ok().map(f64::from)
        );
        assert_eq!(chip["metrics_fault"], "none");
        assert_eq!(why(&chip, "hbm_bandwidth_percent"), "not supported");
        assert_eq!(why(&chip, "slice_error"), "not supported");
    }
}

#[test]
fn the_runtime_service_is_preferred_over_the_library() {
    let Some(mut machine) = machine(&[]) else { return };
    let port = free_ports(1)[0];
    let Some(_server) = Server::start(&[port], &["--chips", "4"]) else { return };
    machine.add_workload(4, &port.to_string());
    assert_eq!(machine.wait_for_busy_chips()[0]["metrics_source"], format!("port {port}"));
}

#[test]
fn every_error_code_of_the_library_is_reported() {
    for (key, value, message) in [
        (
            "TPUINFO_CODE",
            "1",
            "libtpuinfo: tpu_metrics returned 1, wrong device count, or no client",
        ),
        ("TPUINFO_CODE", "2", "libtpuinfo: tpu_metrics returned 2, the runtime did not answer"),
        ("TPUINFO_CODE", "3", "libtpuinfo: tpu_metrics returned 3, lists of unequal length"),
        ("TPUINFO_CODE", "-7", "libtpuinfo: tpu_metrics returned -7, an error"),
        ("TPUINFO_COUNT", "0", "libtpuinfo counts 0 devices"),
        ("TPUINFO_COUNT", "-1", "libtpuinfo counts -1 devices"),
        ("TPUINFO_COUNT", "1000000", "libtpuinfo counts 1000000 devices"),
    ] {
        let Some(machine) = machine(&[(key, value)]) else { return };
        let node = machine.watch(message, |node| {
            devices(node).first().is_some_and(|chip| chip["metrics_fault"] == message)
        });
        assert_eq!(source(&node, "tpu")["fault"], Value::Null);
        for chip in devices(&node) {
            assert_eq!(why(chip, "memory_used_bytes"), "not available");
            assert_eq!(chip["memory_total_bytes"], 16 * GIB);
        }
    }
}

#[test]
fn values_with_a_wrong_count_are_not_assigned_to_chips() {
    let Some(machine) = machine(&[("TPUINFO_COUNT", "3")]) else { return };
    let message = "libtpuinfo counts 3 devices";
    let node = machine.watch(message, |node| {
        devices(node).first().is_some_and(|chip| chip["metrics_fault"] == message)
    });
    assert_eq!(why(&devices(&node)[0], "utilization_percent"), "not available");
}

#[test]
fn a_library_without_the_functions_is_skipped() {
    let Some(machine) = machine(&[]) else { return };
    let source = machine.root().join("empty.c");
    std::fs::write(&source, "int nothing(void) { return 0; }\n").unwrap();
    let status = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(machine.root().join("library/libtpuinfo.so"))
        .arg(&source)
        .status();
    assert!(status.unwrap().success());
    let chips = machine.wait_for_chips(4);
    assert_eq!(chips[0]["metrics_fault"], "no runtime serves metrics on the default ports");
}

#[test]
fn an_idle_machine_does_not_load_the_library() {
    let mut machine = Machine::v5e(1);
    let folder = machine.root().join("library");
    std::fs::create_dir(&folder).unwrap();
    let Some(folder) = compile_library(&folder) else { return };
    let port = free_ports(1)[0];
    machine.write("home/tpu-runtime/tpu-env", &format!("TPU_RUNTIME_METRICS_PORTS={port}\n"));
    machine.environment.push(("LD_LIBRARY_PATH".to_owned(), folder.into()));
    machine.environment.push(("TPUINFO_HANG".to_owned(), "1".into()));
    assert_eq!(why(&machine.wait_for_chips(1)[0], "utilization_percent"), "no workload");
}

#[test]
fn a_hanging_call_affects_neither_chips_nor_host() {
    let Some(machine) = machine(&[("TPUINFO_HANG", "1")]) else { return };
    let mut setup = Setup::new(Interpreter::Python);
    setup.state = None;
    setup.interval = Duration::from_millis(200);
    setup.environment = machine.environment.clone();
    setup.environment.push(("GTOP_ROOT".to_owned(), machine.root().into()));
    let mut rig = setup.start();
    let chips = rig.until("chips", |frame| {
        let backends = frame["backends"].as_array()?;
        let tpu = backends
            .iter()
            .find(|backend| backend["kind"] == "tpu" && backend["devices"].is_array())?;
        Some(tpu["devices"].clone())
    });
    assert_eq!(
        (&chips[3]["memory_total"], &chips[3]["tpu"]["held"]),
        (&json!(16 * GIB), &json!(true))
    );
    let error = rig.error();
    assert_eq!((&error["source"], &error["code"]), (&json!("tpu"), &json!("slow")));
    assert_eq!(error["call"], "libtpuinfo tpu_metrics");
    for _ in 0..5 {
        assert!(rig.sample()["host"]["memory_available"].is_number());
    }
    rig.finish();
}
