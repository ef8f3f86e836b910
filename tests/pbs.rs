//! PBS: the real program with a stub of its commands, which print what a real cluster printed, and what the backend costs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/pbs/openpbs-23.06.06");

/// Runs gtop where `qstat` and `pbsnodes` print these recordings, and returns its exit status, output and stderr.
fn gtop(jobs: &str, nodes: &str, words: &[&str]) -> (i32, String, String) {
    // Times are asked for in UTC, and the tasks of arrays one by one.
    let stub = |words: &str, recording: &str| {
        format!("[ \"$*$TZ\" = '{words}UTC' ] || exit 9\nexec /bin/cat '{FIXTURES}/{recording}'\n")
    };
    gtop_with(&stub("-t -f -F json", jobs), &stub("-a -F json", nodes), words)
}

/// Same, where `qstat` and `pbsnodes` are these shell scripts.
fn gtop_with(qstat: &str, pbsnodes: &str, words: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, script) in [("qstat", qstat), ("pbsnodes", pbsnodes)] {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let done = Command::new(env!("CARGO_BIN_EXE_gtop"))
        .args(words)
        .env("PATH", folder.path())
        .env("HOME", folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
}

/// Returns what `gtop --json` prints of the recorded cluster, of which a node is offline.
fn printed(words: &[&str]) -> Value {
    let all = [&["--scheduler", "pbs", "--json", "--deadline", "4"], words].concat();
    let (_, out, err) = gtop("qstat-t-f-F-json.json", "pbsnodes-offline-F-json.json", &all);
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"))
}

#[test]
fn the_jobs_of_a_recorded_cluster_are_on_its_nodes() {
    let out = printed(&["--all-users"]);
    assert_eq!(out["roster"]["problem"], Value::Null);
    let on_nodes = |job: &Value| {
        let count = |one: &Value| {
            let devices = one["count"].as_u64().unwrap();
            format!("{}:{devices}", one["node"].as_str().unwrap())
        };
        let nodes = job["allocations"].as_array().unwrap().iter().map(count);
        let id = job["shown_id"].as_str().unwrap();
        format!("{id} {} {}", job["user"].as_str().unwrap(), nodes.collect::<Vec<_>>().join(" "))
    };
    let jobs = out["jobs"].as_array().unwrap();
    let running: Vec<String> =
        jobs.iter().filter(|job| job["state"] == "running").map(on_nodes).collect();
    assert_eq!(
        running,
        [
            "0 alice pbs-gpu01:2 pbs-gpu02:2",
            "1[1] alice pbs-gpu01:1",
            "1[2] alice pbs-gpu01:1",
            "7 bob pbs-gpu02:2",
        ]
    );
    let nodes: Vec<_> = out["nodes"].as_array().unwrap().iter().map(|node| &node["name"]).collect();
    assert_eq!(nodes, ["pbs-gpu01", "pbs-gpu02"]);
}

#[test]
fn a_node_that_is_offline_says_why() {
    let out = printed(&["--all-users"]);
    let known: Vec<Value> = out["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| &node["scheduler"])
        .map(|said| {
            json!([
                said["state"],
                said["devices"],
                said["devices_allocated"],
                said["takes_jobs"],
                said["reason"]
            ])
        })
        .collect();
    let reason = "GPU 2 fell off the bus";
    assert_eq!(
        known,
        [json!(["mixed", 4, 4, true, null]), json!(["draining", 4, 4, false, reason])]
    );
}

#[test]
fn jobs_are_selected_by_user_and_by_id() {
    let ids = |words: &[&str]| -> Vec<String> {
        let out = printed(words);
        let jobs = out["jobs"].as_array().unwrap().iter();
        jobs.map(|job| job["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["--user", "bob"]), ["7.pbsserver"]);
    assert_eq!(ids(&["--job", "1[2]"]), ["1[2].pbsserver"]);
    assert_eq!(ids(&["--job", "7.pbsserver,2"]), ["7.pbsserver", "2.pbsserver"]);
}

#[test]
fn a_list_of_nodes_that_fails_is_told() {
    for (pbsnodes, says) in [
        ("echo 'pbsnodes: Server has no node list' >&2; exit 1", "Server has no node list"),
        ("exit 1", "pbsnodes failed"),
        ("echo news", "pbsnodes printed \"news\" instead of JSON"),
        ("echo '{\"nodes\": {\"a\": {'", "line 2, column 1, in nodes, a"),
    ] {
        let qstat = format!("exec /bin/cat '{FIXTURES}/qstat-t-f-F-json.json'");
        let words = ["--scheduler", "pbs", "--all-users", "--json", "--deadline", "4"];
        let (_, out, err) = gtop_with(&qstat, pbsnodes, &words);
        let out: Value = serde_json::from_str(&out).unwrap();
        let notes = out["roster"]["notes"].to_string();
        let ending = "; what PBS says of nodes is not known";
        assert!(notes.contains(&says.replace('"', "\\\"")), "{notes} {err}");
        assert!(notes.contains(ending), "{notes}");
        assert_eq!(out["jobs"].as_array().unwrap().len(), 14);
    }
}

#[test]
fn an_id_of_no_scheduler_is_refused_with_the_forms_of_all() {
    let (status, _, err) = gtop_with("", "", &["--scheduler", "pbs", "--job", "1{2}"]);
    assert_eq!(status, 2);
    let forms = "such as 12, 12_3 or 12+1 of Slurm, or 12, 12[3] or 12[] of PBS";
    assert!(err.contains(forms), "{err}");
}

#[test]
fn a_task_of_slurm_is_no_job_of_pbs() {
    let (status, _, err) = gtop_with("", "", &["--scheduler", "pbs", "--job", "12,12_3"]);
    assert_eq!(status, 2);
    let message = "12_3 is not a job ID of PBS; write 12, 12[3] or 12[]";
    assert!(err.contains(message), "{err}");
}

#[test]
fn steps_of_another_scheduler_are_refused() {
    let words = ["--scheduler", "pbs", "--transport", "srun", "--once"];
    let (status, _, err) = gtop_with("", "", &words);
    assert_eq!(status, 2);
    assert!(err.contains("--transport srun runs steps of Slurm jobs"), "{err}");
}

#[test]
fn a_screen_of_its_jobs_names_no_other_scheduler() {
    let words = ["--scheduler", "pbs", "--all-users", "--once", "--deadline", "4"];
    let (_, out, err) = gtop("qstat-t-f-F-json.json", "pbsnodes-offline-F-json.json", &words);
    assert!(out.contains("PBS") && out.contains("bobjob"), "{out}{err}");
    assert!(!out.to_lowercase().contains("slurm") && !out.contains("scontrol"), "{out}");
}

#[test]
fn output_that_is_not_json_is_an_error() {
    let words = ["--scheduler", "pbs", "--all-users", "--json", "--deadline", "4"];
    let (_, out, _) =
        gtop("../../slurm/control-groups.txt", "pbsnodes-offline-F-json.json", &words);
    let out: Value = serde_json::from_str(&out).unwrap();
    let sentence = out["roster"]["problem"]["sentence"].as_str().unwrap();
    assert!(sentence.ends_with("instead of JSON"), "{sentence}");
}

#[test]
fn two_files_and_a_folder_know_of_it() {
    fn visit(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, found);
            } else if fs::read_to_string(&path).unwrap().to_lowercase().contains("pbs") {
                let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
                found.push(path.display().to_string().replace(root, ""));
            }
        }
    }
    let mut found = Vec::new();
    for folder in ["src", "crates"] {
        visit(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut found);
    }
    found.retain(|file| !file.starts_with("crates/collect/src/scheduler/pbs"));
    assert_eq!(found, ["crates/collect/src/scheduler.rs"]);
}

/// Returns what `gtop doctor` prints of a scheduler with this stub of `qstat`.
fn doctor(qstat: &str, pbsnodes: &str) -> String {
    let words = ["--scheduler", "pbs", "--all-users", "doctor"];
    gtop_with(qstat, pbsnodes, &words).1
}

/// Returns true if a report has a step with this mark and finding.
fn has_step(report: &str, mark: &str, step: &str, finding: &str) -> bool {
    report.lines().any(|line| {
        line.trim_start().starts_with(mark) && line.contains(step) && line.contains(finding)
    })
}

#[test]
fn doctor_examines_the_server_the_jobs_and_the_nodes() {
    // No job has a node: this machine cannot reach those of the recordings.
    let jobs = r#"{"pbs_server":"s","Jobs":{"1.s":{"job_state":"Q","Job_Owner":"ada@s","comment":"Not Running"}}}"#;
    let well = format!(
        "case $1 in -B) exec /bin/cat '{FIXTURES}/qstat-B-f-json.json' ;; esac\necho '{jobs}'"
    );
    let nodes = format!("exec /bin/cat '{FIXTURES}/pbsnodes-offline-F-json.json'");
    let found = doctor(&well, &nodes);
    for (mark, step, finding) in [
        ("ok", "server", "pbsserver is Active; PBS 23.06.06"),
        ("note", "jobs", "no running job of any user"),
        ("ok", "job visibility", "you can see the jobs of all users"),
        ("ok", "nodes", "0 used by your jobs"),
    ] {
        assert!(has_step(&found, mark, step, finding), "{mark} {step} {finding}:\n{found}");
    }
    assert!(
        found.contains("job 1 is pending: Not Running") && found.contains("2 listed"),
        "{found}"
    );
    let found = doctor("echo 'Connection refused' >&2; exit 1", &nodes);
    assert!(has_step(&found, "FAILED", "server", "the PBS controller is down"), "{found}");
    let odd =
        format!("case $1 in -B) exec /bin/cat '{FIXTURES}/qstat-B-f-json.json' ;; esac\necho x");
    let found = doctor(&odd, &nodes);
    assert!(has_step(&found, "FAILED", "jobs", "qstat printed \"x\" instead of JSON"), "{found}");
    let found = doctor(&well, "echo news");
    let quoted = "pbsnodes printed \"news\" instead of JSON";
    assert!(has_step(&found, "note", "nodes", quoted), "{found}");
}
