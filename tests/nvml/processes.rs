//! Processes on devices, end to end: `gtop --json` has what the kernel reports of each process, or the reason why a value
//! is unknown.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::nvml_stub;
use crate::harness::sleeper::Sleeper;

/// The first device and its processes as printed by gtop, which runs under `wrapper`.
fn device(wrapper: &[&str], scenario: &str) -> Option<Value> {
    let library = nvml_stub::folder(24)?;
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    std::fs::write(&state, scenario).unwrap();
    let argv = [wrapper, &[env!("CARGO_BIN_EXE_gtop"), "--json", "--deadline", "60"]].concat();
    let output = Command::new(argv[0])
        .args(&argv[1..])
        .env("LD_LIBRARY_PATH", library)
        .env("NVML_STUB_STATE", &state)
        .env("HOME", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let snapshot: Value = serde_json::from_slice(&output.stdout).unwrap();
    Some(snapshot["nodes"][0]["devices"][0].clone())
}

fn process(device: &Value, pid: u32) -> Value {
    let list = device["processes"].as_array().unwrap();
    list.iter().find(|process| process["pid"] == pid).unwrap().clone()
}

#[test]
fn a_process_has_its_kernel_facts_and_the_remaining_memory_is_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let sleeper = Sleeper::with(|command| {
        command.current_dir(&folder).env("SLURM_JOB_ID", "4711").env("SLURM_STEP_ID", "3")
    });
    let pid = sleeper.pid();
    let scenario = format!(
        "driver 570.86.15 12080\ngpu 0 util=9 used_mib=1000\nproc 0 {pid} 300\nproc 0 4000001 200\n"
    );
    let Some(device) = device(&[], &scenario) else { return };
    let shown = process(&device, pid);
    let start = sleeper.key().start_ticks;
    assert_eq!((&shown["state"], &shown["threads"]), (&json!("S"), &json!(1)), "{shown}");
    assert_eq!((&shown["command"], &shown["start_ticks"]), (&json!("sleep 1000"), &json!(start)));
    assert_eq!(shown["working_directory"], folder.to_str().unwrap());
    assert_eq!(shown["parents"][0]["pid"], std::process::id());
    assert!(shown["resident_percent"].as_f64().is_some_and(|share| share < 1.0), "{shown}");
    assert!(shown["running_seconds"].as_u64().unwrap() < 600, "{shown}");
    assert_eq!(shown["cpu_percent"].as_f64().map(f64::round), Some(0.0), "{shown}");
    let began: jiff::Timestamp = shown["started_at"].as_str().unwrap().parse().unwrap();
    let ago = jiff::Timestamp::now().as_second() - began.as_second();
    assert!((-2..600).contains(&ago), "{shown}");
    let group = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    if !group.contains("/job_") {
        assert_eq!((&shown["job"], &shown["step"]), (&json!("4711"), &json!("3")), "{shown}");
    }
    let unseen = process(&device, 4_000_001);
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap();
    if link == Path::new("pid:[4026531836]") {
        assert_eq!(unseen["unknown"]["state"], "gone", "{unseen}");
        assert_eq!((&device["hidden_processes"], mib(&device)), (&json!(0), Some(500)));
    } else {
        assert_eq!(unseen["unknown"]["state"], "in another PID namespace", "{unseen}");
        assert_eq!((&device["hidden_processes"], mib(&device)), (&json!(1), Some(700)));
    }
}

fn mib(device: &Value) -> Option<u64> {
    device["hidden_memory_bytes"].as_u64().map(|bytes| bytes >> 20)
}

#[test]
fn inside_a_container_outside_processes_are_only_counted() {
    if !rustix::process::getuid().is_root() {
        eprintln!("skipped: only root can make a PID namespace");
        return;
    }
    let scenario = "driver 570.86.15 12080\ngpu 0 util=9 used_mib=1000\nproc 0 1 300\n\
                    proc 0 4000001 200\nproc 0 4000002 ~\n";
    let namespace = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"];
    let Some(device) = device(&namespace, scenario) else { return };
    assert_eq!((&device["hidden_processes"], mib(&device)), (&json!(3), Some(1000)), "{device}");
    let unseen = process(&device, 4_000_001);
    assert_eq!(unseen["unknown"]["user"], "in another PID namespace", "{unseen}");
    assert_eq!(unseen["memory_used_bytes"], 200_u64 << 20);
    // gtop itself is the first process of the namespace, but the driver means that of the machine.
    let first = process(&device, 1);
    for field in ["user", "command", "start_ticks", "job", "state"] {
        assert_eq!(first[field], Value::Null, "{first}");
    }
    assert_eq!(first["unknown"]["user"], "pid may be another process's here", "{first}");
    assert_eq!(first["memory_used_bytes"], 300_u64 << 20);
}

#[test]
fn a_process_without_a_pid_is_a_hidden_one() {
    let scenario = "driver 570.86.15 12080\ngpu 0 util=0 used_mib=1000\nproc 0 0 300\n\
                    proc 0 4294967295 200\n";
    let Some(device) = device(&[], scenario) else { return };
    assert_eq!(device["processes"], json!([]), "{device}");
    assert_eq!((&device["hidden_processes"], mib(&device)), (&json!(2), Some(1000)), "{device}");
}

#[test]
fn each_missing_value_says_why() {
    let scenario = "driver 418.87.00 10010\ngpu 0 util=9 fan=~ memtemp=!4 power_mw=!999 used_mib=1000\n\
                    proc 0 4000001 200\nfault nvmlDeviceGetProcessUtilization 13\n";
    let Some(device) = device(&[], scenario) else { return };
    for (field, why) in [
        ("fan_percent", "not supported"),
        ("memory_temperature_celsius", "no permission"),
        ("power_watts", "driver error"),
        // This driver is too old for it, and NVML has no such value at all.
        ("power_instant_watts", "not offered by this source"),
        ("gtt_used_bytes", "not offered by this source"),
    ] {
        assert_eq!((&device[field], &device["unknown"][field]), (&Value::Null, &json!(why)));
    }
    let used = process(&device, 4_000_001);
    assert_eq!(used["unknown"]["sm_percent"], "not offered by this source", "{used}");
    assert_eq!(used["unknown"]["cu_occupancy_percent"], "not offered by this source", "{used}");
}
