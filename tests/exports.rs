//! What other programs read: CSV in Python's csv module, the log of `--output` at every kind of path and on a full
//! disk, and no names after `--anonymize`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use std::sync::Arc;
use std::time::Duration;

use gtop::internals::export::{OutputField, TimeFormat, write_csv, write_csv_header};
use gtop_fleet::{Fleet, Node, Process, SourceState};
use gtop_local::time::Timestamp;
use gtop_model::{Device, DeviceUse, NodeName, ProcessKey, ProcessStatics, Reading, Source};
use jiff::tz::TimeZone;
use serde_json::Value;
use tempfile::TempDir;

const GTOP: &str = env!("CARGO_BIN_EXE_gtop");
const HEADER: &str = "timestamp,node,index,utilization,memory_used,memory_total";

fn gtop(args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(GTOP);
    command.args(args).env_clear().env("HOME", home.path()).env("TZ", "IST-5:30");
    command.env("PATH", std::env::var_os("PATH").unwrap()).stdin(Stdio::null()).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = gtop(args);
    assert!(output.status.success() && output.stderr.is_empty(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A zone may be named as in the system's database; `date` knows what it means.
#[test]
fn times_are_shown_in_the_zone_that_is_named() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recordings/format-1.gtop");
    for zone in ["Asia/Kolkata", "America/St_Johns", "IST-5:30", "UTC"] {
        let shown = |program: &str, args: &[&str]| {
            let output = Command::new(program).args(args).env("TZ", zone).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let time = shown("date", &["-d", "2026-09-21T14:14:23Z", "+%H:%M:%S"]);
        let text = shown(GTOP, &["replay", "--once", recording]);
        assert_eq!(
            text.lines().next().unwrap().split(' ').next_back(),
            Some(time.trim()),
            "{zone}"
        );
    }
}

#[test]
fn a_table_that_cannot_be_written_as_it_is_named_is_refused() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recordings/format-1.gtop");
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.csv.gz", "a.csv.ZST"] {
        let path = folder.path().join(name);
        let output = gtop(&["export", recording, "-w", path.to_str().unwrap()]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(&format!("{name} would not be compressed")), "{error}");
        assert_eq!((output.status.code(), path.exists()), (Some(2), false));
    }
}

#[test]
fn a_full_standard_output_is_named() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recordings/format-1.gtop");
    for args in [&["export", recording][..], &["report", recording], &["fields"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(GTOP).args(args).stdout(full).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            error.contains("gtop: cannot write to standard output: No space left on device"),
            "{args:?}: {error}"
        );
        assert_eq!(output.status.code(), Some(1));
    }
}

/// Tells whether a reader keeps a device of a node.
type Keeps<'a> = &'a dyn Fn(&str, &Value) -> bool;

/// The snapshots of a recording with `--filter` have what a reader of the whole would keep, in every form.
#[test]
fn a_filter_leaves_the_devices_and_processes_that_match() {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/recordings/format-1.gtop");
    let json = |filter: &str| -> Value {
        let text = stdout(&["replay", "--json", "--filter", filter, recording]);
        serde_json::from_str(&text).unwrap()
    };
    let devices = |snapshot: &Value| -> Vec<(String, Value)> {
        let nodes = snapshot["nodes"].as_array().unwrap();
        let all = nodes.iter().flat_map(|node| {
            let devices = node["devices"].as_array().unwrap().iter();
            devices.map(|device| (node["name"].as_str().unwrap().to_owned(), device.clone()))
        });
        all.collect()
    };
    let whole = json("");
    assert_eq!(devices(&whole).len(), 16);
    let is_below = |device: &Value| device["utilization_percent"].as_f64().unwrap() < 95.0;
    let pid = devices(&whole)[4].1["processes"][0]["pid"].clone();
    let cases: [(&str, Keeps<'_>); 5] = [
        ("gpu01", &|node, _| node == "gpu01"),
        ("gpu01 util<95", &|node, device| node == "gpu01" && is_below(device)),
        ("gpu02 and stale", &|node, _| node == "gpu02"),
        (&format!("pid={pid}"), &|_, device| device["processes"][0]["pid"] == pid),
        ("util>100", &|_, _| false),
    ];
    for (filter, keeps) in cases {
        let expected: Vec<_> =
            devices(&whole).into_iter().filter(|(node, device)| keeps(node, device)).collect();
        let snapshot = json(filter);
        assert_eq!(devices(&snapshot), expected, "{filter}");
        assert_eq!(snapshot["totals"]["devices"], expected.len(), "{filter}");
        let csv =
            stdout(&["replay", "--csv", "--fields", "node,uuid", "--filter", filter, recording]);
        let uuid = |(_, device): &(String, Value)| device["uuid"].as_str().unwrap().to_owned();
        let rows: Vec<String> =
            read_csv(&csv).into_iter().skip(1).map(|row| row[1].clone()).collect();
        assert_eq!(rows, expected.iter().map(uuid).collect::<Vec<_>>(), "{filter}");
        let table = stdout(&["replay", "--once", "--filter", filter, recording]);
        let says = if expected.is_empty() {
            "no node matches the filter\n".to_owned()
        } else {
            format!("  /{filter}  ")
        };
        assert!(table.contains(&says), "{table}");
        let has_both = ["gpu01", "gpu02"].map(|name| expected.iter().any(|(node, _)| node == name));
        assert_eq!(["gpu01 ", "gpu02 "].map(|name| table.contains(name)), has_both, "{table}");
    }
    let wrong = gtop(&["replay", "--json", "--filter", "wobble>80", recording]);
    let message = String::from_utf8(wrong.stderr).unwrap();
    assert!(wrong.status.code() == Some(2) && message.contains("--filter"), "{message}");
}

#[test]
fn a_filter_changes_nothing_that_is_known_of_a_job() {
    let printed = |filter| {
        let output = gtop(&["--demo=12", "--seed", "1", "--once", "--filter", filter]);
        String::from_utf8(output.stdout).unwrap()
    };
    // The job has the other devices of the node.
    let free = printed("free");
    assert!(free.contains("job 20020") && !free.contains("raw 20020"), "{free}");
    // The job has a node that is down, and one that does not match.
    let down = printed("down");
    assert!(down.contains("tpu10: devices 0,1,2,3"), "{down}");
}

/// Runs gtop in a shell that ends it after some seconds.
fn stdout_for(seconds: u32, args: &str) -> String {
    let script = format!("timeout -s INT {seconds} '{GTOP}' {args}");
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Reads CSV as Python does, strictly, and returns its rows.
fn read_csv(text: &str) -> Vec<Vec<String>> {
    let script = "import csv, io, json, sys\n\
                  text = sys.stdin.buffer.read().decode()\n\
                  assert text.endswith('\\r\\n')\n\
                  print(json.dumps(list(csv.reader(io.StringIO(text, newline=''), strict=True))))";
    let mut child = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{text}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn csv_is_read_strictly_and_has_a_row_per_device() {
    let rows = read_csv(&stdout(&["--demo=3", "--csv"]));
    assert_eq!(rows[0][..5], ["time", "age_seconds", "node", "index", "uuid"]);
    assert!(rows.len() > 20 && rows.iter().all(|row| row.len() == rows[0].len()), "{rows:?}");
    assert!(rows[1][0].ends_with("+05:30"), "{:?}", rows[1]);
    let chosen =
        ["--demo=2", "--csv", "--commands", "--fields", "node,index,util,command,host_cpu_percent"];
    let rows = read_csv(&stdout(&chosen));
    assert_eq!(rows[0], ["node", "index", "utilization_percent", "command", "host_cpu_percent"]);
    assert_eq!(rows[1][..2], ["gpu01", "0"]);
    assert!(rows[1][3].contains("python") && rows[1][4].parse::<f64>().is_ok(), "{:?}", rows[1]);
}

/// Texts that would break a row, or be run as a formula.
const HOSTILE: [&str; 8] = [
    "a,b",
    "say \"hi\"",
    "\"",
    "one\r\ntwo",
    "=cmd|' /C calc'!A0",
    "@SUM(1,2)",
    " spaced ",
    "H100 \u{3b1}\u{1f600}",
];

/// Returns a fleet with a device per text, which is its model, its user and its command.
fn hostile_fleet() -> Fleet {
    let mut node = Node::new(NodeName::new("+gpu01").unwrap(), Duration::ZERO);
    for (pid, text) in (1..).zip(HOSTILE) {
        let uuid: Arc<str> = format!("GPU-{pid}").into();
        let known = || Reading::Known(text.into());
        let statics =
            ProcessStatics { user: known(), command: known(), ..ProcessStatics::default() };
        let process = Process {
            key: ProcessKey { pid, start_ticks: 0 },
            statics: Arc::new(statics),
            ..Process::default()
        };
        node.processes = node.processes.iter().cloned().chain([process]).collect();
        let used = DeviceUse { device: Arc::clone(&uuid), pid, ..DeviceUse::default() };
        node.uses = node.uses.iter().cloned().chain([used]).collect();
        node.devices.push(Device { uuid, name: known(), ..Device::default() });
    }
    let source = Source::new("nvml");
    node.device_sources = vec![source.clone(); HOSTILE.len()].into();
    node.sources.push(SourceState {
        source,
        taken_at: Some(Timestamp::default()),
        interval: Duration::from_secs(1),
        fault: None,
        absent: None,
    });
    Fleet::new([Arc::new(node)].into())
}

#[test]
fn hostile_texts_stay_in_their_cells_and_are_no_formulas() {
    let words = ["uuid", "node", "name", "user", "command"];
    let fields = words.map(|word| OutputField::from_name(word).unwrap());
    let mut text = Vec::new();
    write_csv_header(&mut text, &fields).unwrap();
    let now = Timestamp::default();
    write_csv(&mut text, &hostile_fleet(), now, &TimeZone::UTC, TimeFormat::Iso, &fields).unwrap();
    let rows = read_csv(&String::from_utf8(text).unwrap());
    assert_eq!(rows.len(), 1 + HOSTILE.len(), "{rows:?}");
    for (row, text) in rows[1..].iter().zip(HOSTILE) {
        let guard = if text.starts_with(['=', '@']) { "'" } else { "" };
        assert_eq!(row[1], "'+gpu01");
        assert!(row[2..].iter().all(|cell| *cell == format!("{guard}{text}")), "{row:?}");
    }
}

#[test]
fn watching_prints_the_header_once_and_commands_only_on_request() {
    let text = stdout_for(3, "--demo=1 --csv --watch -i 0.3");
    let rows = read_csv(&text);
    assert!(rows.len() > 16, "{text}");
    assert_eq!(rows.iter().filter(|row| row[0] == "time").count(), 1);
    assert!(!text.contains("python"), "{text}");
}

#[test]
fn json_has_only_the_chosen_fields_of_devices() {
    let args = ["--demo=1", "--json", "--fields", "mem,index,user,bogus_percent"];
    let refused = gtop(&args);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let json: Value =
        serde_json::from_str(&stdout(&["--demo=1", "--json", "--fields", "mem,index,user"]))
            .unwrap();
    for device in json["nodes"][0]["devices"].as_array().unwrap() {
        let keys: Vec<_> = device.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["index", "memory_used_bytes", "parent", "user", "uuid"]);
        assert!(device["memory_used_bytes"].is_u64(), "{device}");
    }
    assert!(json["nodes"][0]["host"]["cpu_percent"].is_number());
}

#[test]
fn fields_are_listed_as_text_and_as_json() {
    let entries: Vec<Value> = serde_json::from_str(&stdout(&["fields", "--json"])).unwrap();
    let text = stdout(&["fields"]);
    assert_eq!(text.lines().count(), entries.len() + 1);
    let util = entries.iter().find(|entry| entry["alias"] == "util").unwrap();
    assert_eq!((&util["unit"], &util["of"]), (&"%".into(), &"device".into()));
    // Every field of a device or a host can be chosen by its word.
    let is_chosen = |entry: &&Value| ["device", "host"].contains(&entry["of"].as_str().unwrap());
    let words: Vec<_> =
        entries.iter().filter(is_chosen).map(|entry| entry["alias"].as_str().unwrap()).collect();
    let rows =
        read_csv(&stdout(&["--demo=1", "--csv", "--commands", "--fields", &words.join(",")]));
    assert_eq!(rows[0].len(), words.len());
}

#[test]
fn the_log_is_appended_with_one_header() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    let log = path.to_str().unwrap();
    for _ in 0..2 {
        stdout(&["--demo=2", "--once", "--output", log]);
    }
    let text = fs::read_to_string(&path).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0].join(","), HEADER);
    assert_eq!(rows.len(), 33, "{text}");
    for row in &rows[1..] {
        assert!(row[0].len() == 23 && row[1].starts_with("gpu0"), "{row:?}");
        assert!(row[2..].iter().all(|cell| cell.parse::<u32>().is_ok()), "{row:?}");
        assert!(row[3].parse::<u32>().unwrap() <= 100, "{row:?}");
    }
    // Every second refresh of half a second: the first, and those of each second.
    let path = folder.path().join("watched.csv");
    stdout_for(
        4,
        &format!("--demo=1 --json --watch -i 0.5 --output-every 2 --output {}", path.display()),
    );
    let text = fs::read_to_string(&path).unwrap();
    let samples: BTreeSet<&str> =
        text.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
    assert!((2..=5).contains(&samples.len()), "{samples:?}");
    assert_eq!(text.lines().count(), 1 + 8 * samples.len(), "{text}");
}

#[test]
fn a_bad_path_of_the_log_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("folder")).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    symlink("/dev/full", at("device")).unwrap();
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    fs::write(at("readonly"), "").unwrap();
    fs::set_permissions(at("readonly"), fs::Permissions::from_mode(0o444)).unwrap();
    for (name, expected) in [
        ("folder", "is a folder; gtop writes only regular files"),
        ("dangling", "which does not exist; create that file or remove the link"),
        ("device", "is a link to /dev/full, which is a device; gtop writes only regular files"),
        ("pipe", "is a pipe; gtop writes only regular files"),
        ("readonly", "is read-only; chmod u+w"),
        ("missing/file", "No such file or directory"),
    ] {
        let done = gtop(&["--demo=1", "--once", "--output", at(name).to_str().unwrap()]);
        let error = String::from_utf8(done.stderr).unwrap();
        assert_eq!((done.status.code(), done.stdout.len()), (Some(1), 0), "{name}: {error}");
        assert!(error.starts_with("gtop: ") && error.contains(expected), "{name}: {error}");
    }
    // A link to a regular file is followed.
    fs::write(at("real"), "").unwrap();
    symlink("real", at("link")).unwrap();
    stdout(&["--demo=1", "--once", "--output", at("link").to_str().unwrap()]);
    assert!(fs::read_to_string(at("real")).unwrap().starts_with(HEADER));
}

#[test]
fn an_unwritable_folder_is_an_error() {
    if is_root() {
        eprintln!("skipped: root may write anywhere");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
    let path = folder.path().join("log");
    let done = gtop(&["--demo=1", "--once", "--output", path.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&done.stderr).contains("Permission denied"), "{done:?}");
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().unwrap().stdout == b"0\n"
}

/// Runs a script in a mount namespace, in a folder of its own; `None` if there is no such namespace.
fn in_mount_namespace(folder: &TempDir, script: &str) -> Option<Output> {
    let namespaces: &[&str] =
        if is_root() { &["--mount"] } else { &["--user", "--map-root-user", "--mount"] };
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-euc", script]).current_dir(folder.path());
        command.env("HOME", folder.path()).output()
    };
    if !unshare("true").is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("GTOP_CI").is_none(), "unshare --mount is not available");
        eprintln!("skipped: no mount namespaces");
        return None;
    }
    Some(unshare(script).unwrap())
}

#[test]
fn a_full_disk_is_told_once_and_leaves_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "mkdir full; mount -t tmpfs -o size=64k none full; echo '{HEADER}' >full/log\n\
         dd if=/dev/zero of=full/rest bs=4096 count=8 2>/dev/null || true\n\
         timeout -s INT 4 '{GTOP}' --demo=40 --json --watch -i 0.2 --output full/log --output-every 1 \
         >/dev/null || true\n\
         cp full/log before; rm full/rest\n\
         timeout -s INT 3 '{GTOP}' --demo=2 --json --watch -i 0.5 --output full/log --output-every 1 \
         >/dev/null || true\n\
         cp full/log after"
    );
    let Some(output) = in_mount_namespace(&folder, &script) else { return };
    let errors = String::from_utf8(output.stderr).unwrap();
    let told = "gtop: cannot write full/log: No space left on device";
    assert_eq!(errors.matches(told).count(), 1, "{errors}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (before, after) = (read("before"), read("after"));
    assert!(after.starts_with(&before) && after.len() > before.len());
    assert_eq!(after.matches(HEADER).count(), 1);
    for text in [&before, &after] {
        assert!(text.ends_with('\n'));
        assert!(text.lines().all(|line| line.split(',').count() == 6), "half a line is left");
    }
}

/// Collects the names in a snapshot that must not be printed.
fn collect_names(value: &Value, names: &mut BTreeSet<String>) {
    const NAMED: [&str; 16] = [
        "user",
        "host_name",
        "boot_id",
        "uuid",
        "pci_bus",
        "command",
        "working_directory",
        "partition",
        "account",
        "path",
        "container",
        "pod",
        "detail",
        "message",
        "device",
        "node",
    ];
    match value {
        Value::Array(list) => list.iter().for_each(|one| collect_names(one, names)),
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| *key != "unknown") {
                match value.as_str() {
                    Some(text) if NAMED.contains(&key.as_str()) && text.len() > 2 => {
                        names.insert(text.to_owned());
                    }
                    _ => collect_names(value, names),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn no_name_of_the_demo_is_printed_anonymously() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    let log = path.to_str().unwrap();
    let open: Value = serde_json::from_str(&stdout(&["--demo=40", "--json"])).unwrap();
    let mut names = BTreeSet::new();
    collect_names(&open, &mut names);
    for job in open["jobs"].as_array().unwrap() {
        names.extend(
            ["id", "name", "shown_id"]
                .iter()
                .filter_map(|key| job[*key].as_str())
                .map(str::to_owned),
        );
    }
    names.extend(
        open["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| node["name"].as_str().unwrap().to_owned()),
    );
    assert!(names.len() > 400, "{}", names.len());
    let mut printed: Vec<(&str, String)> = [
        ("json", &["--json"][..]),
        ("csv", &["--csv"]),
        ("table", &["--once"]),
        ("fields", &["--json", "--fields", "user,job,node,uuid,pci"]),
    ]
    .into_iter()
    .map(|(name, args)| {
        let common = ["--demo=40", "--anonymize", "--output", log];
        (name, stdout(&[&common[..], args].concat()))
    })
    .collect();
    printed.push(("log", fs::read_to_string(Path::new(log)).unwrap()));
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    for (format, text) in &printed {
        // An option of nvidia-smi in a remedy, not the partition.
        let text = text.replace("nvidia-smi --gpu-reset", "");
        for name in &names {
            let found = text.match_indices(name.as_str()).find(|(at, _)| {
                let (before, rest) = text.split_at(*at);
                !before.ends_with(is_word) && !rest.split_at(name.len()).1.starts_with(is_word)
            });
            let found = found.map(|(at, _)| text.get(at.saturating_sub(60)..at + 60));
            // Numbers of jobs are also other numbers.
            let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
            assert!(found.is_none() || is_number, "{name} is in {format}: {found:?}");
        }
    }
    assert!(printed[0].1.contains("\"user1\"") && printed[1].1.contains("node01"));
}
