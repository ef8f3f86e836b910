//! The program records, is killed, runs out of space, and prints snapshots.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gtop::internals::export::write_json;
use gtop_collect::record::{Recorder, Recording};
use gtop_collect::source::replay::Recordings;
use gtop_local::time::Clock;

use super::HISTORY;
use super::faults::{can_mount, unshare_mounts};

fn gtop() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gtop"));
    command.env_remove("GTOP_CONFIG").env("XDG_CONFIG_HOME", "/nonexistent");
    command
}

fn record(path: &Path, nodes: u32) -> Child {
    let mut command = gtop();
    command.args(["record", &format!("--demo={nodes}"), "-w"]).arg(path);
    command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

/// Waits until the recording has a line at `at` or later.
fn wait_for(path: &Path, what: impl Fn(&Recordings) -> bool) -> Recordings {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Ok(recordings) = Recordings::open([path])
            && what(&recordings)
        {
            return recordings;
        }
        assert!(Instant::now() < deadline, "the recording does not grow");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn now() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap()
}

#[test]
fn a_killed_recorder_loses_two_seconds_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let mut last_end = None;
    for round in 0..4_u64 {
        let mut recorder = record(&path, 4);
        let is_longer = |recordings: &Recordings| {
            recordings.end().is_some_and(|end| last_end.is_none_or(|last| end > last))
                && recordings.fleet_at(recordings.end().unwrap(), HISTORY).nodes.len() == 4
        };
        wait_for(&path, is_longer);
        std::thread::sleep(Duration::from_millis(700 * (round + 1)));
        recorder.kill().unwrap();
        let killed_at = now();
        recorder.wait().unwrap();
        let recordings = Recordings::open([path.as_path()]).unwrap();
        let end = recordings.end().unwrap();
        let end_at = Duration::from_micros(end.as_micros().try_into().unwrap());
        // A group of two seconds, and what a busy machine needs to write it.
        let lost = killed_at.saturating_sub(end_at);
        assert!(lost < Duration::from_secs(10), "{lost:?} lost");
        assert_eq!(recordings.fleet_at(end, HISTORY).nodes.len(), 4);
        last_end = Some(end);
    }
    assert!(Command::new("zstd").arg("-tq").arg(&path).status().is_ok());
    // Others read the last minute: every line is JSON.
    let journal = path.with_extension("gtop.journal");
    let lines = Command::new("sh")
        .args(["-c", "zstdcat \"$1\" | jq -es 'length > 10 and (map(has(\"at\")) | all)'", "sh"])
        .arg(&journal)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&lines.stdout).trim(), "true");
}

/// Records until a system call kills the recorder; returns false if strace is not installed.
fn record_until_killed(path: &Path, call: &str) -> bool {
    let recorder = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject={call}")])
        .arg(env!("CARGO_BIN_EXE_gtop"))
        // A block ends every six seconds, with its part.
        .args(["record", "--demo=2", "--keep", "2m", "-w"])
        .arg(path)
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .stderr(Stdio::null())
        .spawn();
    recorder.map(|mut recorder| recorder.wait()).is_ok()
}

#[test]
fn a_recorder_that_is_killed_at_any_step_of_a_block_leaves_all_lines() {
    // The groups of the journal, the block, its index and its sums; the cut of the journal, and the group after it.
    let writes = (3..11).map(|count| format!("fdatasync:signal=KILL:when={count}"));
    let cuts = (2..6).map(|count| format!("ftruncate:signal=KILL:when={count}"));
    std::thread::scope(|threads| {
        for call in writes.chain(cuts) {
            threads.spawn(move || {
                let folder = tempfile::tempdir().unwrap();
                let path = folder.path().join("test.gtop");
                if !record_until_killed(&path, &call) {
                    eprintln!("skipped: strace is not installed");
                    return;
                }
                let killed_at = now();
                let recordings = Recordings::open([path.as_path()]).unwrap();
                assert_eq!(recordings.spans().len(), 1, "{call}");
                let end = recordings.end().unwrap();
                let end_at = Duration::from_micros(end.as_micros().try_into().unwrap());
                let lost = killed_at.saturating_sub(end_at);
                assert!(lost < Duration::from_secs(15), "{call}: {lost:?} lost");
                let before = super::lines(&path);
                let clock = Clock::fixed(end.plus(Duration::from_secs(3_600)));
                drop(Recorder::start(&path, super::options(), clock).unwrap());
                assert!(super::lines(&path).starts_with(&before), "{call}: {before}");
                assert_eq!(Recordings::open([path.as_path()]).unwrap().loss(), None, "{call}");
            });
        }
    });
}

#[test]
fn a_snapshot_is_printed_as_json_and_as_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let mut recorder = record(&path, 3);
    wait_for(&path, |recordings| {
        recordings.end().is_some_and(|end| {
            let fleet = recordings.fleet_at(end, HISTORY);
            fleet.nodes.len() == 3 && fleet.nodes.iter().all(|node| node.taken_at().is_some())
        })
    });
    let pid = rustix::process::Pid::from_child(&recorder);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(recorder.wait().unwrap().code(), Some(143));
    let output = gtop().args(["replay", "--once", "--json"]).arg(&path).output().unwrap();
    let snapshot: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(snapshot["totals"]["known"], 3);
    assert_eq!(snapshot["source"], "demo, 3 simulated nodes");
    let output = gtop().args(["replay", "--once"]).arg(&path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("3 of 3 nodes fresh"), "{text}");
    let recordings = Recordings::open([path.as_path()]).unwrap();
    let at = recordings.end().unwrap().minus(Duration::from_secs(1));
    let text = jiff::Timestamp::from_microsecond(at.as_micros()).unwrap().to_string();
    let output = gtop().args(["replay", "--json", "--at", &text]).arg(&path).output().unwrap();
    let mut expected = Vec::new();
    let fleet = recordings.fleet_at(at, HISTORY);
    write_json(&mut expected, &fleet, at, "demo, 3 simulated nodes").unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8(expected).unwrap());
    let output = gtop().args(["replay", "--json", "--at", "noon"]).arg(&path).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("--at \"noon\": not a time: write 14:05"), "{message}");
    assert_eq!(output.status.code(), Some(2));
    let error = gtop().args(["replay", "--once"]).arg(folder.path()).output().unwrap();
    let message = String::from_utf8(error.stderr).unwrap();
    assert!(message.contains("not a regular file"), "{message}");
    assert_eq!(error.status.code(), Some(1));
}

#[test]
fn what_is_served_of_a_damaged_recording_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let mut bytes = super::small_recording(6);
    fs::write(&path, &bytes).unwrap();
    let ends = Recording::open(&path).unwrap().group_ends();
    bytes[usize::try_from(ends[2].0).unwrap() - 10] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let mut serving = gtop()
        .env("XDG_STATE_HOME", folder.path())
        .args(["serve", "--socket"])
        .arg(folder.path().join("socket"))
        .arg(&path)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(serving.stderr.take().unwrap());
    let said: Vec<String> = lines
        .lines()
        .map(Result::unwrap)
        .take_while(|line| !line.contains("everything is as it was"))
        .collect();
    serving.kill().unwrap();
    serving.wait().unwrap();
    assert!(said.iter().any(|line| line.contains("damaged")), "{said:?}");
}

/// Runs in a mount namespace of its own: a file system with 1 MiB, of which a file takes most.
#[test]
fn a_full_disk_stops_nothing_and_recording_goes_on_when_there_is_space() {
    let script = r#"
        set -e
        mount -t tmpfs -o size=1m none "$1"
        head -c 900k /dev/zero > "$1/filler"
        "$0" record --demo=8 -w "$1/test.gtop" 2> "$1/../stderr" &
        for i in $(seq 600); do grep -q 'the disk is full' "$1/../stderr" && break; sleep 0.1; done
        rm "$1/filler"
        for i in $(seq 600); do grep -q 'recording goes on' "$1/../stderr" && break; sleep 0.1; done
        lines() { zstd -dcq "$1/test.gtop" 2> /dev/null | wc -l; }
        enough=$(($(lines "$1") + 60))
        for i in $(seq 600); do [ "$(lines "$1")" -ge "$enough" ] && break; sleep 0.1; done
        kill -TERM $! && wait $! || true
        zstd -tq "$1/test.gtop"
        cp "$1/test.gtop" "$1/../copy.gtop"
    "#;
    let folder = tempfile::tempdir().unwrap();
    let full = folder.path().join("full");
    fs::create_dir(&full).unwrap();
    if !can_mount(unshare_mounts().args(["--pid", "--fork", "true"])) {
        return;
    }
    let status = unshare_mounts()
        .args(["--pid", "--fork", "--kill-child", "sh", "-c", script])
        .arg(env!("CARGO_BIN_EXE_gtop"))
        .arg(&full)
        .status()
        .unwrap();
    let errors = fs::read_to_string(folder.path().join("stderr")).unwrap();
    assert!(status.success(), "{errors}");
    assert!(errors.contains("the disk is full; free some space"), "{errors}");
    assert!(errors.contains("recording goes on"), "{errors}");
    let recordings = Recordings::open([folder.path().join("copy.gtop").as_path()]).unwrap();
    assert_eq!(recordings.loss(), None);
    let fleet = recordings.fleet_at(recordings.end().unwrap(), HISTORY);
    let known = fleet.nodes.iter().filter(|node| node.taken_at().is_some()).count();
    assert!(known >= 7, "{known} nodes");
}

/// Runs a recorder whose system calls strace makes fail; returns its output.
fn record_with_fault(path: &Path, fault: &str, until: &str) -> Option<String> {
    let log = path.with_extension("err");
    let mut recorder = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject={fault}")])
        .arg(env!("CARGO_BIN_EXE_gtop"))
        .args(["record", "--demo=2", "-w"])
        .arg(path)
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .ok()?;
    let deadline = Instant::now() + Duration::from_secs(60);
    let text = loop {
        let text = fs::read_to_string(&log).unwrap();
        if text.contains(until) || recorder.try_wait().unwrap().is_some() {
            break text;
        }
        assert!(Instant::now() < deadline, "{until} never came: {text}");
        std::thread::sleep(Duration::from_millis(50));
    };
    // A signal to strace itself waits for the end of the program, whose pid is in the recording.
    if recorder.try_wait().unwrap().is_none() {
        let pid = Recording::open(path).unwrap().header().unwrap().pid.try_into().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
    recorder.wait().unwrap();
    Some(text)
}

#[test]
fn a_used_up_quota_is_told_and_nothing_is_lost() {
    for (error, told) in
        [("EDQUOT", "your quota is used up; remove files"), ("EIO", "nothing is recorded: ")]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.gtop");
        // The header is written, and then two groups are not.
        let fault = format!("fallocate:error={error}:when=3..4");
        let Some(text) = record_with_fault(&path, &fault, "recording goes on") else {
            eprintln!("skipped: strace is not installed");
            return;
        };
        assert!(text.contains(told), "{error}: {text}");
        let recordings = Recordings::open([path.as_path()]).unwrap();
        assert_eq!(recordings.loss(), None, "{error}");
        assert_eq!(recordings.spans().len(), 1, "{error}");
    }
}

#[test]
fn without_locks_a_second_recorder_notices_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let mut first = record(&path, 2);
    wait_for(&path, |recordings| !recordings.spans().is_empty());
    let text = record_with_fault(&path, "flock:error=ENOLCK", "another gtop is recording to");
    first.kill().unwrap();
    first.wait().unwrap();
    let Some(text) = text else {
        eprintln!("skipped: strace is not installed");
        return;
    };
    assert!(text.contains("another gtop is recording to"), "{text}");
}
