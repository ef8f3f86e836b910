//! Servers that do not speak gRPC, disconnect, or hang: other values stay, with a reason for the missing ones.

use std::time::{Duration, Instant};

use gtop::probe::Interpreter;
use serde_json::{Value, json};

use crate::harness::{Rig, Setup, TIMEOUT};
use crate::machine::{Machine, devices, source, why};
use crate::server::{Server, free_ports, list};

const GIB: u64 = 1 << 30;

/// The chips of the last frame that told of them, and those of the next ones that are complete.
fn complete(rig: &mut Rig, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        rig.command(gtop::probe::Command::Heartbeat);
        rig.command(gtop::probe::Command::Full);
        let chips = rig.until(what, |frame| {
            let parts = frame["backends"].as_array()?;
            let part = parts.iter().find(|part| part["kind"] == "tpu")?;
            (frame["full"] == true).then(|| part["devices"].clone())
        });
        if is_so(&chips) {
            return chips;
        }
        assert!(Instant::now() < deadline, "no {what}; the last was {chips}");
    }
}

fn started(machine: &Machine) -> Rig {
    let mut setup = Setup::new(Interpreter::Python);
    setup.state = None;
    setup.interval = Duration::from_millis(200);
    setup.environment = vec![("GTOP_ROOT".to_owned(), machine.root().into())];
    setup.start()
}

#[test]
fn a_misbehaving_server_gives_a_reason_and_affects_nothing_else() {
    for (fault, words) in [
        ("html", "does not speak gRPC"),
        ("garbage", "does not speak gRPC"),
        ("silent", "no answer within 1 s"),
        ("huge-frame", "sent a frame of 16777215 bytes"),
        ("endless", "never stops sending"),
        ("goaway", "the server is going away"),
    ] {
        let port = free_ports(1)[0];
        let _server = Server::misbehaving(port, fault);
        let mut machine = Machine::v5e(2);
        machine.workload(2, &port.to_string());
        let words = format!("port {port}: {words}");
        let node = machine.watch(&words, |node| {
            let is_told = |chip: &Value| chip["processes"][0]["command"] == "sleep 100000";
            devices(node).first().is_some_and(|chip| chip["metrics_fault"] == words)
                && devices(node).iter().all(is_told)
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
        let _server = Server::misbehaving(port, fault);
        let mut machine = Machine::v5e(2);
        machine.workload(2, &port.to_string());
        let words = format!("port {port}: ");
        let node = machine.watch(fault, |node| {
            devices(node).first().is_some_and(|chip| {
                chip["metrics_fault"].as_str().is_some_and(|stderr| stderr.starts_with(&words))
            })
        });
        assert_eq!(why(&devices(&node)[0], "memory_used_bytes"), "not available");
    }
}

#[test]
fn another_program_on_the_port_of_an_idle_machine_is_ignored() {
    let port = free_ports(1)[0];
    let _server = Server::misbehaving(port, "html");
    let machine = Machine::v5e(2);
    machine.write("home/tpu-runtime/tpu-env", &format!("TPU_RUNTIME_METRICS_PORTS={port}\n"));
    for chip in machine.chips(2) {
        assert_eq!((&chip["held"], &chip["metrics_fault"]), (&json!(false), &json!("none")));
        assert_eq!(why(&chip, "utilization_percent"), "no workload");
    }
}

#[test]
fn a_server_that_dies_during_a_reply_is_reported_as_closed() {
    let port = free_ports(1)[0];
    let server = Server::misbehaving(port, "dies");
    let mut machine = Machine::v5e(2);
    machine.workload(2, &port.to_string());
    let mut rig = started(&machine);
    let closed = format!("port {port}: closed the connection");
    // Said once, for as long as nobody has tried the port again.
    rig.until("a death", |frame| {
        let backends = frame["backends"].as_array()?;
        let own = backends.iter().find(|backend| backend["kind"] == "tpu")?;
        (own["devices"][0]["tpu"]["trouble"] == closed).then_some(())
    });
    complete(&mut rig, "what is left", |chips| {
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
        let pid = machine.holder(&[node], &format!("TPU_RUNTIME_METRICS_PORTS={}", list(&ports)));
        machine.listens(pid, port);
    }
    let mut rig = started(&machine);
    complete(&mut rig, "both", |chips| chips[0]["util"] == 50.0 && chips[1]["util"] == 70.0);
    drop(first);
    let left = complete(&mut rig, "one", |chips| chips[0]["util"].is_null());
    assert_eq!(left[1]["util"], 70.0);
    assert_eq!(left[0]["memory_used"], Value::Null);
    assert_eq!(left[0]["memory_total"], 16 * GIB);
    let _next = Server::start(&ports[..1], &["--chips", "1", "--ids", "4", "--load", "5"]);
    complete(&mut rig, "both again", |chips| chips[0]["util"] == 5.0 && chips[1]["util"] == 70.0);
    rig.finish();
}

#[test]
fn an_unanswered_metric_delays_no_other() {
    let port = free_ports(1)[0];
    let hang = ["--chips", "2", "--hang", "hlo.queue.size.gauge"];
    let Some(_server) = Server::start(&[port], &hang) else { return };
    let mut machine = Machine::v5e(2);
    machine.workload(2, &port.to_string());
    for chip in machine.busy_chips() {
        // On a busy machine the call may have failed before it was given up.
        assert!(["not available", "driver error"].contains(&why(&chip, "hlo_queue")), "{chip}");
        assert!(chip["memory_used_bytes"].is_number() && chip["hbm_bandwidth_percent"].is_number());
    }
}
