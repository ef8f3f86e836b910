//! `gtop pick` over the simulated fleet: every device is picked or refused once, and none that a job holds is picked.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::Value;

const GTOP: &str = env!("CARGO_BIN_EXE_gtop");
const NODES: &str = "--demo=24";

fn gtop(args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(GTOP);
    let (subcommand, rest) = args.split_at(1);
    command.args(subcommand).args([NODES, "--deadline", "60"]).args(rest);
    command.env("HOME", home.path()).output().unwrap()
}

fn json(args: &[&str]) -> Value {
    let output = gtop(args);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn texts(value: &Value) -> BTreeSet<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_device_is_picked_or_refused_and_held_ones_are_refused() {
    let snapshot = json(&["--json"]);
    let picks = json(&["pick", "--json"]);
    let mut all = BTreeSet::new();
    for node in snapshot["nodes"].as_array().unwrap().iter().filter(|node| node["link"] == "up") {
        for device in node["devices"].as_array().unwrap() {
            all.insert(device["uuid"].as_str().unwrap().to_owned());
        }
    }
    let picked: BTreeSet<String> =
        picks["nodes"].as_array().unwrap().iter().flat_map(|node| texts(&node["uuids"])).collect();
    let refused: Vec<&Value> = picks["refused"].as_array().unwrap().iter().collect();
    let uuids: Vec<&str> = refused.iter().filter_map(|one| one["uuid"].as_str()).collect();
    assert!(!picked.is_empty() && all.len() > 100, "{} of {}", picked.len(), all.len());
    let together: BTreeSet<String> =
        picked.iter().cloned().chain(uuids.iter().map(|uuid| (*uuid).to_owned())).collect();
    assert_eq!(together.len(), picked.len() + uuids.len(), "no device is both");
    assert!(all.is_subset(&together), "{:?}", all.difference(&together).collect::<Vec<_>>());
    let mut held = BTreeSet::new();
    // On the simulated nodes, gtop runs as ada.
    let jobs = snapshot["jobs"].as_array().unwrap().iter();
    for job in jobs.filter(|job| job["user"] != "ada") {
        for allocation in job["allocations"].as_array().unwrap_or(&Vec::new()) {
            let devices = &allocation["devices"];
            held.extend(devices.as_array().map(|_| texts(devices)).unwrap_or_default());
        }
    }
    assert!(held.len() > 50, "{}", held.len());
    assert_eq!(held.intersection(&picked).collect::<Vec<_>>(), Vec::<&String>::new());
    let reason = |one: &&Value| one["reason"].as_str().unwrap().to_owned();
    let by_jobs = refused.iter().map(reason).filter(|reason| reason.ends_with(" holds it"));
    assert!(by_jobs.count() > 50);
}

#[test]
fn nodes_are_named_and_counts_hold() {
    let lines = |args: &[&str]| {
        let output = gtop(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let one = lines(&["pick", "-n", "2", "--same-node", "-f", "10GiB"]);
    let (node, list) = one.trim_end().split_once(':').unwrap();
    assert!(node.starts_with("gpu") && list.split(',').count() == 2, "{one}");
    let records = lines(&["pick", "-n", "3", "-0"]);
    let records: Vec<&str> = records.split_terminator('\0').collect();
    assert!(records.len() == 3 && records.iter().all(|record| record.contains(':')), "{records:?}");
    let output = gtop(&["pick", "-n", "5000"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("5000 wanted"), "{output:?}");
    // The time is over before the first snapshot, or after it.
    for limit in ["--wait=1s", "--wait=5s"] {
        let output = gtop(&["pick", "-n", "5000", limit]);
        assert!(matches!(output.status.code(), Some(1 | 4)), "{output:?}");
    }
    let output = gtop(&["pick", "-n", "1", "--", "echo", "ran"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), b"".as_slice()));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("echo does not run: the picked devices are on"), "{stderr}");
}

#[test]
fn only_devices_that_match_the_filter_are_picked() {
    let all = json(&["pick", "--json"]);
    let names = |picks: &Value| -> BTreeSet<String> {
        let nodes = picks["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["name"].as_str().unwrap().to_owned()).collect()
    };
    let node = names(&all).pop_first().unwrap();
    let filter = format!("node={node}");
    let some = json(&["pick", "--json", "--filter", &filter]);
    assert!(names(&all).len() > 1, "{all}");
    assert_eq!(names(&some), [node].into());
    let refused = some["refused"].as_array().unwrap().iter();
    assert!(refused.filter(|one| one["reason"] == "does not match --filter").count() > 1);
    let refusal = gtop(&["pick", "-n", "1", "--filter", "util>100"]);
    let message = String::from_utf8(refusal.stderr).unwrap();
    assert!(!refusal.status.success() && message.contains("does not match --filter"), "{message}");
}
