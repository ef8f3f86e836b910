//! Servers that do not speak gRPC, disconnect, or hang: other values stay, with a reason for the missing ones.

use std::time::{Duration, Instant};

use gtop_collect::probe::Interpreter;
use serde_json::{Value, json};

use crate::harness::probe::{Rig, Setup, TIMEOUT};
use crate::tpu::machine::{Machine, devices, source, why};
use crate::tpu::server::{Server, free_ports, join_ports};

const GIB: u64 = 1 << 30;

/// Requests full samples until their chips satisfy `is_so`, and returns the chips.
fn wait_for_full_sample(rig: &mut Rig, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        rig.command(gtop_collect::probe::ProbeCommand::Heartbeat);
        rig.command(gtop_collect::probe::ProbeCommand::Full);
        let chips = rig.until(what, |frame| {
            let backends = frame["backends"].as_array()?;
            let tpu = backends.iter().find(|backend| backend["kind"] == "tpu")?;
            (frame["full"] == true).then(|| tpu["devices"].clone())
        });
        if is_so(&chips) {
            return chips;
        }
        assert!(Instant::now() < deadline, "no {what}; the last was {chips}");
    }
}

fn start_probe(machine: &Machine) -> Rig {
    let mut setup = Setup::new(Interpreter::Python);
    setup.state = None;
    setup.interval = Duration::from_millis(200);
    setup.environment = vec![("GTOP_ROOT".to_owned(), machine.root().into())];
    setup.start()
}

#[test]
fn a_misbehaving_server_gives_a_reason_and_affects_nothing_else() {
    for (fault, message) in [
        ("html", "does not speak gRPC"),
        ("garbage", "does not speak gRPC"),
        ("silent", "no answer within 1 s"),
        ("huge-frame", "sent a frame of 16777215 bytes"),
        ("endless", "never stops sending"),
        ("goaway", "the server is going away"),
    ] {
        let port = free_ports(1)[0];
        let _server = Server::start_with_fault(port, fault);
        let mut machine = Machine::v5e(2);
        machine.add_workload(2, &port.to_string());
        let message = format!("port {port}: {message}");
        let node = machine.watch(&message, |node| {
            let has_process = |chip: &Value| chip["processes"][0]["command"] == "sleep 100000";
            devices(node).first().is_some_and(|chip| chip["metrics_fault"] == message)
                && devices(node).iter().all(has_process)
        });
        assert_eq!(source(&node, "tpu")["fault"], Value::Null, "{fault}");
        for chip in devices(&node) {
            assert_eq!(
                (&chip["held"], &chip["memory_total_bytes"]),
                (&json!(true), &json!(16 * GIB))
            );
            assert_eq!(why(chip, "utilization_percent"), "not available", "{fault}");
            assert_eq!(chip["processes"][0]["command"], "sleep 100000");
        }
        assert!(node["host"]["memory_total_bytes"].is_number());
    }
}

#[test]
fn refused_or_too_long_replies_give_no_values() {
    for fault in ["reset", "huge-reply"] {
        let port = free_ports(1)[0];
        let _server = Server::start_with_fault(port, fault);
        let mut machine = Machine::v5e(2);
        machine.add_workload(2, &port.to_string());
        let prefix = format!("port {port}: ");
        let node = machine.watch(fault, |node| {
            devices(node).first().is_some_and(|chip| {
                chip["metrics_fault"].as_str().is_some_and(|fault| fault.starts_with(&prefix))
            })
        });
        assert_eq!(why(&devices(&node)[0], "memory_used_bytes"), "not available");
    }
}

#[test]
fn another_program_on_the_port_of_an_idle_machine_is_ignored() {
    let port = free_ports(1)[0];
    let _server = Server::start_with_fault(port, "html");
    let machine = Machine::v5e(2);
    machine.write("home/tpu-runtime/tpu-env", &format!("TPU_RUNTIME_METRICS_PORTS={port}\n"));
    for chip in machine.wait_for_chips(2) {
        assert_eq!((&chip["held"], &chip["metrics_fault"]), (&json!(false), &json!("none")));
        assert_eq!(why(&chip, "utilization_percent"), "no workload");
    }
}

#[test]
fn a_server_that_dies_during_a_reply_is_reported_as_closed() {
    let port = free_ports(1)[0];
    let server = Server::start_with_fault(port, "dies");
    let mut machine = Machine::v5e(2);
    machine.add_workload(2, &port.to_string());
    let mut rig = start_probe(&machine);
    let closed = format!("port {port}: closed the connection");
    // Reported until the port is tried again.
    rig.until("the closed connection", |frame| {
        let backends = frame["backends"].as_array()?;
        let tpu = backends.iter().find(|backend| backend["kind"] == "tpu")?;
        (tpu["devices"][0]["tpu"]["trouble"] == closed).then_some(())
    });
    wait_for_full_sample(&mut rig, "the remaining values", |chips| {
        chips[0]["tpu"]["trouble"] == "no runtime serves metrics on the default ports"
            && chips[0]["memory_total"] == 16 * GIB
            && chips[0]["util"].is_null()
    });
    drop(server);
    rig.finish();
}

#[test]
fn values_of_an_ended_runtime_disappear_and_a_new_one_reports_its_own() {
    let ports = free_ports(2);
    let Some(first) = Server::start(&ports[..1], &["--chips", "1", "--ids", "4"]) else { return };
    let Some(_other) = Server::start(&ports[1..], &["--chips", "1", "--ids", "5", "--load", "70"])
    else {
        return;
    };
    let mut machine = Machine::v5e(2);
    for (node, port) in [("/dev/vfio/8", ports[0]), ("/dev/vfio/9", ports[1])] {
        let pid = machine
            .add_holder(&[node], &format!("TPU_RUNTIME_METRICS_PORTS={}", join_ports(&ports)));
        machine.add_listener(pid, port);
    }
    let mut rig = start_probe(&machine);
    wait_for_full_sample(&mut rig, "both", |chips| {
        chips[0]["util"] == 50.0 && chips[1]["util"] == 70.0
    });
    drop(first);
    let left = wait_for_full_sample(&mut rig, "one", |chips| chips[0]["util"].is_null());
    assert_eq!(left[1]["util"], 70.0);
    assert_eq!(left[0]["memory_used"], Value::Null);
    assert_eq!(left[0]["memory_total"], 16 * GIB);
    let _next = Server::start(&ports[..1], &["--chips", "1", "--ids", "4", "--load", "5"]);
    wait_for_full_sample(&mut rig, "both again", |chips| {
        chips[0]["util"] == 5.0 && chips[1]["util"] == 70.0
    });
    rig.finish();
}

#[test]
fn an_unanswered_metric_delays_no_other() {
    let port = free_ports(1)[0];
    let hang = ["--chips", "2", "--hang", "hlo.queue.size.gauge"];
    let Some(_server) = Server::start(&[port], &hang) else { return };
    let mut machine = Machine::v5e(2);
    machine.add_workload(2, &port.to_string());
    for chip in machine.wait_for_busy_chips() {
        // On a busy machine the call may fail before it is cancelled.
        assert!(["not available", "driver error"].contains(&why(&chip, "hlo_queue")), "{chip}");
        assert!(chip["memory_used_bytes"].is_number() && chip["hbm_bandwidth_percent"].is_number());
    }
}
