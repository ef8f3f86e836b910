//! Faults while recording: who may write, where, and what happens when a disk is full.

use std::env;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use gtop_collect::record::{Limits, Recorder, RecorderOptions, Recording};
use gtop_collect::sim::FleetSpec;
use gtop_collect::source::replay::Recordings;
use gtop_local::time::Clock;

use super::{HISTORY, START, Session, after, options, replayed};

/// Names the folder that is a small disk.
const SMALL_DISK: &str = "GTOP_SMALL_DISK";

#[test]
fn a_second_recorder_is_refused_and_the_file_is_private() {
    let mut session = Session::start(&FleetSpec::busy(1, 1, 1, 1));
    session.run(4);
    let clock = Clock::fixed(START);
    let error = Recorder::start(&session.path, options(), clock).unwrap_err().to_string();
    assert!(error.contains("another gtop is recording to"), "{error}");
    assert_eq!(fs::metadata(&session.path).unwrap().mode() & 0o777, 0o600);
    session.run(4);
    assert_eq!(replayed(&session.path, after(8)).nodes.len(), 1);
}

#[test]
fn only_regular_files_are_recorded_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    symlink("nowhere", path("dangling")).unwrap();
    symlink("/dev/null", path("device")).unwrap();
    fs::write(path("readonly"), "").unwrap();
    fs::set_permissions(path("readonly"), fs::Permissions::from_mode(0o400)).unwrap();
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    for (name, expected) in [
        ("folder", "is a folder; gtop writes only regular files"),
        ("dangling", "is a link to nowhere, which does not exist"),
        ("device", "is a device; gtop writes only regular files"),
        ("readonly", "is read-only; chmod u+w lets gtop write it"),
        ("pipe", "is a pipe; gtop writes only regular files"),
    ] {
        let error = Recorder::start(&path(name), options(), Clock::fixed(START)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        let error = Recordings::open([path(name).as_path()]).unwrap_err().to_string();
        assert!(error.contains("cannot read") || error.contains("is empty"), "{error}");
    }
}

#[test]
fn a_file_that_is_removed_is_made_again_and_goes_on() {
    let mut session = Session::start(&FleetSpec::busy(2, 1, 1, 1));
    session.run(10);
    fs::remove_file(&session.path).unwrap();
    session.run(10);
    session.recorder.flush();
    let fleet = replayed(&session.path, after(20));
    assert_eq!(fleet.nodes.len(), 2);
    assert!(fleet.nodes.iter().all(|node| !node.devices.is_empty()));
    assert_eq!(session.recorder.state().borrow().fault, None);
}

#[test]
fn a_file_that_another_program_changes_is_left_alone_and_the_fault_is_told() {
    let mut session = Session::start(&FleetSpec::busy(1, 1, 1, 1));
    session.run(4);
    let mut bytes = fs::read(&session.path).unwrap();
    bytes.extend_from_slice(b"foreign");
    fs::write(&session.path, &bytes).unwrap();
    session.run(4);
    let fault = session.recorder.state().borrow().fault.clone().unwrap();
    assert!(fault.contains("another program has changed it"), "{fault}");
    assert_eq!(fs::read(&session.path).unwrap(), bytes);
}

/// Returns the program that runs another one in a mount namespace of its own.
pub fn unshare_mounts() -> Command {
    let mut command = Command::new("unshare");
    command.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command
}

/// Returns true if a program that mounts something succeeds; in CI it has to.
pub fn can_mount(program: &mut Command) -> bool {
    let can = program.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    assert!(can || env::var_os("GTOP_CI").is_none(), "no file system can be mounted");
    if !can {
        eprintln!("skipped: no file system can be mounted");
    }
    can
}

/// Runs a test again, with a folder that is a disk of 512 KiB, if this machine lets it make one.
fn run_on_a_small_disk(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let unshare = |script: &str| {
        let mut command = unshare_mounts();
        command.args(["sh", "-c", script]).arg(folder.path());
        command
    };
    let mount = "mount -t tmpfs -o size=512k none \"$0\"";
    if !can_mount(&mut unshare(mount)) {
        return;
    }
    let (_, module) = module_path!().split_once("::").unwrap();
    let status = unshare(&format!("{mount} && exec \"$@\""))
        .arg(env::current_exe().unwrap())
        .args(["--exact", "--nocapture", &format!("{module}::{test}")])
        .env(SMALL_DISK, folder.path())
        .status();
    assert!(status.unwrap().success());
}

/// Fills a disk but for this many bytes.
fn fill_disk(path: &Path, free: u64) {
    let mut filler = fs::File::create(path).unwrap();
    while filler.write_all(&[0; 4096]).is_ok() {}
    let full = filler.metadata().unwrap().len();
    filler.set_len(full.saturating_sub(free)).unwrap();
}

#[test]
fn a_disk_that_is_full_while_a_block_is_written_costs_no_line() {
    const SECONDS: u64 = 70;
    let Some(disk) = env::var_os(SMALL_DISK).map(PathBuf::from) else {
        run_on_a_small_disk("a_disk_that_is_full_while_a_block_is_written_costs_no_line");
        return;
    };
    let spec = FleetSpec::busy(4, 4, 3, 1);
    let (mut refused_blocks, mut refused_groups, mut faultless) = (0, 0, 0);
    for pages in (0..20).step_by(2) {
        let path = disk.join("test.gtop");
        let mut session = Session::at(&path, &spec, START, options());
        let mut live = Vec::new();
        let mut run = |session: &mut Session, to: u64| {
            while live.len() as u64 != to {
                session.run(1);
                live.push(super::json(&session.fleet(), after(live.len() as u64 + 1)));
            }
        };
        run(&mut session, 24);
        let length = fs::metadata(&path).unwrap().len();
        fill_disk(&disk.join("filler"), pages * 4096);
        run(&mut session, 40);
        let is_block_there = fs::metadata(&path).unwrap().len() > length;
        let end = super::seconds(Recordings::open([path.as_path()]).unwrap().end().unwrap());
        let fault = session.recorder.state().borrow().fault.clone();
        match fault {
            Some(fault) => assert!(fault.contains("the disk is full"), "{fault}"),
            None => faultless += 1,
        }
        refused_groups += u32::from(end < 28);
        refused_blocks += u32::from(end >= 28 && !is_block_there);
        fs::remove_file(disk.join("filler")).unwrap();
        run(&mut session, SECONDS);
        assert_eq!(session.recorder.state().borrow().fault, None, "{pages}");
        drop(session);
        let recordings = Recordings::open([path.as_path()]).unwrap();
        assert_eq!((recordings.loss(), recordings.spans().len()), (None, 1), "{pages}");
        for second in (2..=SECONDS).step_by(12) {
            let replayed = recordings.fleet_at(after(second), HISTORY);
            let live = &live[usize::try_from(second - 1).unwrap()];
            assert_eq!(&super::json(&replayed, after(second)), live, "{pages}: {second} s");
        }
        fs::remove_file(&path).unwrap();
    }
    assert!(
        refused_groups > 0 && refused_blocks > 0 && faultless > 0,
        "{refused_groups} groups, {refused_blocks} blocks, {faultless} without a fault"
    );
}

#[test]
fn the_oldest_parts_are_removed_and_the_rest_is_played_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let foreign = folder.path().join("test.gtop.20200101T000000Z.txt");
    fs::write(&foreign, "not ours").unwrap();
    let limits = Limits { keep: Duration::from_secs(240), max_bytes: 1 << 30 };
    let options = RecorderOptions { limits, ..options() };
    let mut session = Session::at(&path, &FleetSpec::busy(2, 2, 1, 1), START, options);
    for _ in 0..60 {
        session.run(10);
    }
    let live = super::json(&session.fleet(), after(600));
    let state = session.recorder.state().borrow().clone();
    drop(session);
    let recordings = Recordings::open([path.as_path()]).unwrap();
    let spans = recordings.spans();
    assert_eq!((spans.len(), super::seconds(spans[0].1)), (1, 600));
    assert_eq!(state.from, Some(spans[0].0));
    let kept = after(600).since(spans[0].0).as_secs();
    assert!((240..=264).contains(&kept), "{kept} s");
    assert_eq!(super::json(&recordings.fleet_at(after(600), HISTORY), after(600)), live);
    let parts = Recording::parts(&path);
    assert!((18..=22).contains(&parts.len()), "{parts:?}");
    assert!(foreign.exists());
    // However a file is named, and with its parts, it is read once.
    let link = folder.path().join("link.gtop");
    symlink(&path, &link).unwrap();
    let [twice, dotted] =
        ["/test.gtop", "/./test.gtop"].map(|name| folder.path().display().to_string() + name);
    let names = [&link, &path, Path::new(&twice), Path::new(&dotted), &parts[3]];
    let once = Recordings::open(names).unwrap();
    assert_eq!(once.spans_by_file(), recordings.spans_by_file());
}

#[test]
fn a_part_that_cannot_be_started_leaves_a_file_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let limits = Limits { keep: Duration::from_secs(2_400), max_bytes: 1 << 30 };
    let options = RecorderOptions { limits, ..options() };
    let mut session = Session::at(&path, &FleetSpec::busy(1, 1, 1, 1), START, options);
    session.run(50);
    // Something else has the name of the part.
    for second in 0..5 {
        let time = jiff::Timestamp::from_microsecond(after(second).as_micros()).unwrap();
        let name = time.strftime("test.gtop.%Y%m%dT%H%M%SZ").to_string();
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    for _ in 0..30 {
        session.run(10);
    }
    let live = super::json(&session.fleet(), after(350));
    let fault = session.recorder.state().borrow().fault.clone().unwrap();
    drop(session);
    assert!(fault.contains("a new part cannot be started: "), "{fault}");
    let recordings = Recordings::open([path.as_path()]).unwrap();
    assert_eq!(super::json(&recordings.fleet_at(after(350), HISTORY), after(350)), live);
}

#[test]
fn the_size_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.gtop");
    let limits = Limits { max_bytes: 1 << 19, ..super::NO_LIMITS };
    let options = RecorderOptions { limits, ..options() };
    let mut session = Session::at(&path, &FleetSpec::busy(4, 8, 5, 1), START, options);
    let mut sizes = Vec::new();
    for _ in 0..70 {
        session.run(10);
        let files = fs::read_dir(folder.path()).unwrap();
        sizes.push(files.map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>());
    }
    let limit = 1 << 19;
    assert!(sizes.iter().all(|size| *size <= limit * 11 / 10), "{sizes:?}");
    let full = sizes.iter().skip_while(|size| **size < limit * 9 / 10);
    assert!(
        full.clone().count() > 5 && full.clone().all(|size| *size >= limit * 9 / 10),
        "{sizes:?}"
    );
    assert!(session.recorder.state().borrow().from.unwrap() > START);
}

#[test]
fn what_is_recorded_is_played_by_a_link_too() {
    let mut session = Session::start(&FleetSpec::busy(2, 1, 1, 1));
    session.run(6);
    let link = session.path.with_extension("link");
    symlink(&session.path, &link).unwrap();
    let fleet = replayed(&link, after(6));
    assert!(fleet.nodes.iter().all(|node| node.taken_at() > Some(after(4))), "{fleet:?}");
}
