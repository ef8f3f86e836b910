//! Runs gtop, or the probe under a given Python, on a stub file tree.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use gtop_collect::probe::Interpreter;
use gtop_fleet::metrics::device_fields;
use serde_json::{Value, json};

use crate::amd::sysfs::Tree;
use crate::harness::built;
use crate::harness::probe::{Rig, Setup};

/// Runs `gtop --json` on the tree, and returns the node.
pub(crate) fn node(tree: &Tree) -> Value {
    snapshot(tree)["nodes"][0].clone()
}

/// Runs `gtop --json` on the tree.
pub(crate) fn snapshot(tree: &Tree) -> Value {
    run_whole(tree, Command::new(env!("CARGO_BIN_EXE_gtop")))
}

/// Runs this command with the arguments of gtop on the tree, and returns the node.
pub(crate) fn run(tree: &Tree, command: Command) -> Value {
    run_whole(tree, command)["nodes"][0].clone()
}

fn run_whole(tree: &Tree, mut command: Command) -> Value {
    let home = tempfile::tempdir().unwrap();
    let output = command
        .args(["--local", "--json", "--deadline", "60"])
        .env("GTOP_ROOT", tree.root())
        .env("HOME", home.path())
        .envs(preload())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Starts a probe under this Python on the tree.
pub(crate) fn probe(tree: &Tree, python: &Path, interval: Duration) -> Rig {
    setup(tree, python, interval).start()
}

pub(crate) fn setup(tree: &Tree, python: &Path, interval: Duration) -> Setup {
    let mut environment = vec![("GTOP_ROOT".to_owned(), tree.root().as_os_str().to_owned())];
    environment.extend(preload());
    let pythons = Some(python.display().to_string());
    let setup = Setup::new(Interpreter::Python);
    Setup { environment, pythons, interval, state: None, ..setup }
}

/// The preloaded library that makes reads of files starting with `!` fail; `None` without a compiler.
fn preload() -> Option<(String, OsString)> {
    let name = "refusals.so";
    let folder = built::library(name, include_str!("../stubs/refusals.c"), &["-ldl"])?;
    Some(("LD_PRELOAD".to_owned(), folder.join(name).into()))
}

/// Returns true if reads can be made to fail, and prints why not.
pub(crate) fn can_preload() -> bool {
    preload().is_some()
}

/// An expected value that is unknown for this reason.
pub(crate) fn unknown(reason: &str) -> Value {
    json!({ "lack": reason })
}

/// Fields that are derived from others.
const DERIVED_FIELDS: [&str; 3] = ["hidden_processes", "hidden_memory_bytes", "memory_is_host"];

/// Compares a device of a snapshot with the expected fields; all other fields must be unknown.
pub(crate) fn check(shown: &Value, expected: &[(&str, Value)]) {
    let mut rest: BTreeSet<&str> = device_fields().map(|field| field.id).collect();
    for (field, value) in expected {
        let reason = value.get("lack").cloned().unwrap_or_default();
        let value = if reason.is_null() { value } else { &Value::Null };
        assert_eq!(rounded(&shown[field]), rounded(value), "{field} of {shown}");
        assert_eq!(shown["unknown"][field], reason, "{field} of {shown}");
        assert!(rest.remove(field) || ["uuid", "index", "fault"].contains(field), "{field}");
    }
    assert!(rest.remove("vendor") && shown["vendor"] == "amd", "{shown}");
    for field in rest.into_iter().filter(|field| !DERIVED_FIELDS.contains(field)) {
        assert_eq!(shown[field], Value::Null, "{field} of {shown}");
    }
}

/// Formats a number with three decimals, since floats pass through single precision.
fn rounded(value: &Value) -> String {
    value.as_f64().map_or_else(|| value.to_string(), |number| format!("{number:.3}"))
}

/// The entry of the backend in a snapshot.
pub(crate) fn source(node: &Value) -> &Value {
    node["sources"].as_array().unwrap().iter().find(|source| source["id"] == "amdgpu").unwrap()
}

/// The devices of a frame.
pub(crate) fn devices(frame: &Value) -> Option<&Vec<Value>> {
    let backends = frame["backends"].as_array()?;
    backends.iter().find(|backend| backend["kind"] == "amdgpu")?["devices"].as_array()
}
