//! The values in frames match those of the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use gtop_collect::probe::{Interpreter, ProbeCommand};
use serde_json::Value;

use crate::harness::probe::{BOTH, NODE, Rig, Setup, at_once, gpus};
use crate::harness::sleeper::{Sleeper, stat};
use crate::probe::processes::has_static_facts;

#[test]
fn an_sh_probe_names_the_values_that_need_python() {
    let root = tempfile::tempdir().unwrap();
    // An AMD GPU, its network card, a TPU, and a Google network card.
    for (address, [vendor, class, device]) in [
        ("03:00.0", ["0x1002", "0x038000", "0x74a1"]),
        ("04:00.0", ["0x1002", "0x020000", "0x1458"]),
        ("05:00.0", ["0x1ae0", "0xff0000", "0x0063"]),
        ("06:00.0", ["0x1ae0", "0x020000", "0x0042"]),
    ] {
        let folder = root.path().join("sys/bus/pci/devices/0000:".to_owned() + address);
        std::fs::create_dir_all(&folder).unwrap();
        for (name, value) in [("vendor", vendor), ("class", class), ("device", device)] {
            std::fs::write(folder.join(name), format!("{value}\n")).unwrap();
        }
    }
    let empty = tempfile::tempdir().unwrap();
    at_once([(&root, vec!["nvml", "amdgpu", "tpu"]), (&empty, vec!["nvml"])], |(root, kinds)| {
        let environment = vec![("GTOP_ROOT".to_owned(), root.path().into())];
        let mut rig = Setup { environment, ..Setup::new(BOTH[1]) }.start();
        let hello = rig.next().unwrap();
        let backends = hello["backends"].as_array().unwrap();
        let absent = backends.iter().filter(|backend| backend["state"] == "absent");
        let reasons: Vec<&str> = absent.map(|backend| backend["why"].as_str().unwrap()).collect();
        let expected: Vec<String> =
            kinds.iter().map(|kind| format!("{kind}: needs python3")).collect();
        assert_eq!(reasons, expected);
        rig.finish();
    });
}

/// The first sample in which this process has its static facts.
fn row_with_facts(rig: &mut Rig, pid: u32) -> Value {
    rig.until("static facts", |frame| {
        let list = frame["processes"]["list"].as_array()?;
        list.iter().find(|row| row["pid"] == pid && has_static_facts(row)).cloned()
    })
}

#[test]
fn hello_describes_the_machine() {
    let name = |path: &str| std::fs::read_to_string(path).unwrap().trim().to_owned();
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).start();
        let hello = rig.next().unwrap();
        assert_eq!(hello["host"], name("/proc/sys/kernel/hostname"));
        assert_eq!(hello["boot"], name("/proc/sys/kernel/random/boot_id"));
        assert_eq!(hello["kernel"], name("/proc/sys/kernel/osrelease"));
        assert_eq!(hello["arch"], std::env::consts::ARCH);
        assert_eq!(hello["uid"], rustix::process::getuid().as_raw());
        assert_eq!(hello["intervals"]["host"], 0.5);
        let intervals = rig.until_or(&hello, "nvidia-smi", |frame| {
            let is_known = frame["intervals"]["nvidia-smi"].is_number();
            is_known.then(|| frame["intervals"].clone())
        });
        assert_eq!(intervals["nvidia-smi"], 1.0);
        assert_eq!(intervals["nvidia-smi.processes"], 2.0);
        rig.finish();
    });
}

#[test]
fn samples_are_numbered_and_contain_the_host() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).start();
        let samples: Vec<Value> = (0..4).map(|_| rig.sample()).collect();
        for (i, sample) in (1_u64..).zip(&samples) {
            let host = &sample["host"];
            for key in ["cpu", "load", "memory_total", "memory_available", "uptime", "net", "disk"]
            {
                assert!(!host[key].is_null(), "{interpreter:?} {key} in {sample}");
            }
            let memory = |name: &str| host[name].as_u64().unwrap();
            for part in ["memory_available", "memory_cached", "memory_buffers"] {
                assert!(
                    memory(part) <= memory("memory_total"),
                    "{interpreter:?} {part} in {sample}"
                );
            }
            // A slow machine may skip ticks, but numbers never decrease.
            assert!(sample["n"].as_u64().unwrap() >= i);
        }
        let idle = |sample: &Value| sample["host"]["cpu"][3].as_u64().unwrap();
        assert!(idle(&samples[0]) <= idle(&samples[3]));
        assert_eq!(samples[0]["full"], true);
        assert!(samples[1]["full"].is_null());
        rig.finish();
    });
}

#[test]
fn the_output_of_nvidia_smi_arrives_unchanged() {
    at_once(BOTH, |interpreter| {
        let first = Sleeper::named(b"first");
        let state = gpus(2)
            + &format!("proc 0 {} 70000\nnoise something odd\n", first.pid())
            + "app GPU-x, 4000001, [N/A], /a,b \"c\" \\d\n"
            + "set 0 power.draw [Unknown Error]\nset 1 fan.speed [Not Supported]\nset 1 pstate \nset * temperature.gpu ERR!\n";
        let mut rig = Setup::new(interpreter).state(&state).start();
        // The devices may come before their processes.
        let mut backend = serde_json::Map::new();
        rig.until("devices and processes of nvidia-smi", |frame| {
            backend.extend(frame["backends"][0].as_object().cloned().unwrap_or_default());
            (backend.contains_key("csv") && backend.contains_key("apps")).then_some(())
        });
        let columns: Vec<&str> = backend["csv"]["columns"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(columns.len(), 35);
        let rows: Vec<Vec<&str>> = backend["csv"]["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row.as_str().unwrap().split(", ").collect())
            .collect();
        let cell = |row: usize, column: &str| {
            rows[row][columns.iter().position(|name| *name == column).unwrap()]
        };
        assert_eq!(rows.len(), 2);
        assert_eq!(cell(0, "uuid"), "GPU-0abc0000-0000-4000-8000-000000000000");
        assert_eq!((cell(0, "utilization.gpu"), cell(1, "utilization.gpu")), ("90", "91"));
        assert_eq!((cell(0, "power.draw"), cell(1, "power.draw")), ("[Unknown Error]", "650.12"));
        assert_eq!((cell(1, "fan.speed"), cell(1, "pstate")), ("[Not Supported]", ""));
        assert_eq!(cell(0, "temperature.gpu"), "ERR!");
        assert_eq!(backend["csv"]["noise"][0], "something odd");
        let apps = backend["apps"]["rows"].as_array().unwrap();
        let uuid = "GPU-0abc0000-0000-4000-8000-000000000000";
        assert_eq!(apps[0], format!("{uuid}, {}, 70000, first", first.pid()));
        assert_eq!(apps[1], "GPU-x, 4000001, [N/A], /a,b \"c\" \\d");
        rig.finish();
    });
}

#[test]
fn static_facts_of_processes_are_sent_once_and_counters_always() {
    at_once(BOTH, |interpreter| {
        let sleeper = Sleeper::named(b"python train.py");
        let pid = sleeper.pid();
        let mut rig =
            Setup::new(interpreter).state(&(gpus(1) + &format!("proc 0 {pid} 9\n"))).start();
        let row = row_with_facts(&mut rig, pid);
        assert_eq!(row["start"].to_string(), stat(pid)[19]);
        assert_eq!(row["ppid"], std::process::id());
        assert_eq!(row["uid"], rustix::process::getuid().as_raw());
        assert_eq!(row["command"], "python train.py 1000");
        assert!(!row["cgroup"].as_str().unwrap().is_empty());
        assert!(row["rss"].as_u64().unwrap() > 0);
        // Static facts are sent once, and again on request.
        let again = |frame: &Value| frame["processes"]["list"][0].as_object().cloned();
        let row = rig.until("another sample", again);
        assert!(!row.contains_key("command") && row.contains_key("cpu"), "{row:?}");
        rig.full_sample("everything in one sample", |full| {
            full["processes"]["list"][0]["command"] == "python train.py 1000"
                && ["host", "host_slow", "backends"].iter().all(|key| !full[*key].is_null())
                && !full["backends"][0]["apps"].is_null()
        });
        // A new process replaces the ended one.
        let next = Sleeper::named(b"next");
        drop(sleeper);
        rig.set_state(&(gpus(1) + &format!("proc 0 {} 9\n", next.pid())));
        assert_eq!(row_with_facts(&mut rig, next.pid())["command"], "next 1000");
        rig.finish();
    });
}

#[test]
fn hostile_command_lines_become_valid_json() {
    let names: [&[u8]; 4] = [
        b"\"}\\\x1b]0;owned\x07\x1egtop1 {\"t\":\"bye\"}",
        b"gr\xc3\xbc\xc3\x9fe \xff\xfe \xf0\x9f\x92\xa9 \xc2\x9b31m",
        b"line\nbreak\r\ttab'$(id)`id`",
        &[b'x'; 3000],
    ];
    at_once(BOTH, |interpreter| {
        let sleepers: Vec<Sleeper> = names.iter().map(|name| Sleeper::named(name)).collect();
        let state = sleepers
            .iter()
            .fold(gpus(1), |state, sleeper| state + &format!("proc 0 {} 9\n", sleeper.pid()));
        // The schema test rejects raw control characters and unknown keys.
        let mut rig = Setup::new(interpreter).state(&state).start();
        let mut commands: BTreeMap<u64, String> = BTreeMap::new();
        // A busy node may report some of them one sample later.
        rig.until("all processes", |frame| {
            for row in
                frame["processes"]["list"].as_array()?.iter().filter(|row| has_static_facts(row))
            {
                let entry = row["pid"].as_u64().zip(row["command"].as_str().map(str::to_owned));
                commands.extend(entry);
            }
            (commands.len() == 4).then_some(())
        });
        let command = |i: usize| &commands[&u64::from(sleepers[i].pid())];
        assert!(command(0).starts_with("\"}\\"), "{}", command(0));
        assert!(command(1).starts_with("gr"), "{}", command(1));
        assert!(command(2).contains("'$(id)`id`"), "{}", command(2));
        assert_eq!(*command(3), "x".repeat(512));
        rig.finish();
    });
}

#[test]
fn all_of_many_processes_are_eventually_reported() {
    let sleepers: Vec<Sleeper> = (0..150).map(|_| Sleeper::named(&[b'n'; 400])).collect();
    let state = sleepers
        .iter()
        .fold(gpus(1), |state, sleeper| state + &format!("proc 0 {} 9\n", sleeper.pid()));
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&state).start();
        let mut missing: Vec<u32> = sleepers.iter().map(Sleeper::pid).collect();
        rig.until("all processes", |frame| {
            for row in frame["processes"]["list"].as_array().into_iter().flatten() {
                missing.retain(|pid| row["pid"] != *pid || !has_static_facts(row));
            }
            missing.is_empty().then_some(())
        });
        rig.finish();
    });
}

#[test]
fn the_interval_and_the_focus_follow_commands() {
    let announced =
        |seconds: f64| move |frame: &Value| (frame["intervals"]["host"] == seconds).then_some(());
    at_once(BOTH, |interpreter| {
        let interval = Duration::from_secs(600);
        let mut rig = Setup { interval, ..Setup::new(interpreter) }.start();
        rig.sample();
        rig.sample();
        // The interval alone would send no sample for ten minutes.
        rig.command(ProbeCommand::Interval(Duration::from_millis(600)));
        rig.until("the new interval", announced(0.6));
        rig.sample();
        rig.command(ProbeCommand::Focus(Some(FOCUS)));
        rig.until("the focus", announced(focus_seconds(interpreter)));
        rig.sample();
        rig.command(ProbeCommand::Focus(None));
        rig.until("the end of the focus", announced(0.6));
        rig.sample();
        rig.finish();
    });
}

const FOCUS: Duration = Duration::from_millis(50);

/// Returns the interval of the host in focus: sh starts several processes for each sample, so it does not follow.
fn focus_seconds(interpreter: Interpreter) -> f64 {
    match interpreter {
        Interpreter::Python => 0.05,
        Interpreter::Shell => 0.25,
    }
}

#[test]
fn a_focus_that_no_command_ends_ends_by_itself() {
    let announced =
        |seconds: f64| move |frame: &Value| (frame["intervals"]["host"] == seconds).then_some(());
    at_once(BOTH, |interpreter| {
        let interval = Duration::from_secs(600);
        let replacement = Some(match interpreter {
            Interpreter::Python => ("FOCUS_TIMEOUT = 65.0", "FOCUS_TIMEOUT = 0.6"),
            Interpreter::Shell => ("focus_timeout=6500", "focus_timeout=60"),
        });
        let mut rig = Setup { interval, replacement, ..Setup::new(interpreter) }.start();
        rig.sample();
        rig.sample();
        rig.command(ProbeCommand::Focus(Some(FOCUS)));
        rig.until("the focus", announced(focus_seconds(interpreter)));
        rig.until("its end", announced(600.0));
        rig.finish();
    });
}

#[test]
fn the_cost_of_a_focus_is_measured() {
    let replacement = Some(("COST_INTERVAL = 4.0", "COST_INTERVAL = 0.3"));
    let mut rig = Setup { replacement, ..Setup::new(Interpreter::Python) }.start();
    assert!(rig.sample()["cost"].is_null());
    rig.command(ProbeCommand::Focus(Some(FOCUS)));
    let cost = rig.until("the cost", |frame| frame["cost"].as_object().cloned());
    let number = |key: &str| cost[key].as_f64().unwrap();
    assert!((0.0..=6400.0).contains(&number("cpu")) && number("seconds") >= 0.3, "{cost:?}");
    rig.command(ProbeCommand::Focus(None));
    rig.until("the end", |frame| (frame["intervals"]["host"] == 0.5).then_some(()));
    assert!(rig.sample()["cost"].is_null());
    rig.finish();
}

#[test]
fn lines_that_are_not_commands_for_this_node_are_ignored() {
    let verb = "\"verb\":\"interval\",\"seconds\":0.25}\n";
    let lines = [
        format!("{{\"id\":1,\"node\":\"gpu02\",{verb}"),
        format!("{{\"id\":1,\"node\":\"gpu1\",{verb}"),
        format!("{{\"id\":x,\"node\":\"{NODE}\",{verb}"),
        format!("{{\"id\":1,\"node\":\"{NODE}\",\"verb\":\"signal\",\"seconds\":0.25}}\n"),
        format!("{{\"id\":1,\"node\":\"{NODE}\",\"verb\":\"interval\",\"seconds\":nan}}\n"),
        format!("{{\"id\":1,\"node\":\"{NODE}\",\"verb\":\"interval\",\"seconds\":$(id)}}\n"),
        format!("{{\"id\":1,\"node\":\"{NODE}\",\"verb\":\"interval\",\"seconds\":1.2.3}}\n"),
        format!("{{\"id\":{},\"node\":\"{NODE}\",{verb}", "1".repeat(4096)),
        "\n\0\x1b\u{7f}garbage`id`\n".to_owned(),
        "x".repeat(10_000) + "\n",
    ];
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).start();
        rig.sample();
        for line in &lines {
            rig.write(line.as_bytes());
        }
        // The first hello after them is the answer to this one.
        rig.command(ProbeCommand::Interval(Duration::from_millis(300)));
        let announced = rig.until("hello", |frame| {
            (frame["t"] == "hello").then(|| frame["intervals"]["host"].clone())
        });
        assert_eq!(announced, 0.3, "{interpreter:?}");
        rig.finish();
    });
}

#[test]
fn a_command_may_arrive_in_several_reads() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).start();
        rig.sample();
        for chunk in ["{\"id\":1,\"no", "de\":\"gpu[01]\",\"verb\":\"fu", "ll\"}", "\n"] {
            rig.sample();
            rig.write(chunk.as_bytes());
        }
        rig.until("a full sample", |frame| (frame["full"] == true).then_some(()));
        rig.finish();
    });
}
