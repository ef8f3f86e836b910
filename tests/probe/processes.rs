//! Processes without root: owners, facts, and why some are not visible.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use gtop_collect::probe::Interpreter;
use gtop_model::{ProcessKey, ProcessRequest, Signal as RequestedSignal};
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::probe::{BOTH, Rig, Setup, at_once, gpus, installed, main_pythons};
use crate::harness::sleeper::{Sleeper, stat};

/// The probes under the oldest, newest and default Python, and under the shells.
pub(crate) fn probes() -> Vec<(String, Setup)> {
    let mut found: Vec<(String, Setup)> = Vec::new();
    for python in main_pythons() {
        let python = python.display().to_string();
        let pythons = Some(python.clone());
        found.push((python, Setup { pythons, ..Setup::new(Interpreter::Python) }));
    }
    for shell in installed(&["dash", "bash", "mksh", "busybox"]) {
        let mut program = vec![shell.clone()];
        program.extend((shell == "busybox").then(|| "sh".to_owned()));
        let setup = Setup { program: Some(program), ..Setup::new(Interpreter::Shell) };
        found.push((shell, setup));
    }
    found
}

pub(crate) fn is_root() -> bool {
    let is_root =
        rustix::process::getuid().is_root() && !installed(&["setpriv", "unshare"]).is_empty();
    if !is_root {
        eprintln!("skipped: only root can change its user");
    }
    is_root
}

/// Returns true if all processes of this machine are visible.
fn is_whole_machine() -> bool {
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link == Path::new("pid:[4026531836]"))
}

/// Returns true if a row has the static facts of its process. On a busy node, its name is sent first.
pub(crate) fn has_static_facts(row: &Value) -> bool {
    row["cgroup"].is_string()
}

/// Waits for a row of this process that satisfies `is_so`.
fn wait_for_row(rig: &mut Rig, pid: u32, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    rig.until(what, |frame| {
        let list = frame["processes"]["list"].as_array()?;
        list.iter().find(|row| row["pid"] == pid && is_so(row)).cloned()
    })
}

fn wait_for_unseen(rig: &mut Rig, pid: u32) -> Value {
    rig.until("an unseen process", |frame| {
        let list = frame["processes"]["unseen"].as_array()?;
        list.iter().find(|row| row["pid"] == pid).cloned()
    })
}

#[test]
fn a_process_reports_its_state_job_and_parents() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    at_once(probes(), |(name, setup)| {
        eprintln!("{name}");
        let sleeper = Sleeper::with(|command| {
            command
                .current_dir(&folder)
                .env("SLURM_JOB_ID", "4711")
                .env("SLURM_STEP_ID", "-5")
                .env("NOT_SLURM_JOB_ID", "1")
        });
        let pid = sleeper.pid();
        let mut rig = setup.state(&(gpus(1) + &format!("proc 0 {pid} 9\n"))).start();
        let row = wait_for_row(&mut rig, pid, "static facts", has_static_facts);
        assert_eq!(row["cwd"], folder.to_str().unwrap(), "{name}");
        // The job of the control group takes precedence.
        let group = row["cgroup"].as_str().unwrap();
        if group.contains("/job_") {
            eprintln!("skipped: these tests are a job themselves");
        } else {
            assert_eq!((&row["job"], &row["step"]), (&"4711".into(), &"-5".into()), "{name}");
        }
        assert_eq!((&row["state"], &row["threads"]), (&"S".into(), &1.into()), "{name}");
        if row["parents"].is_array() {
            let parent = &row["parents"][0];
            assert_eq!(parent[0], std::process::id());
            assert_eq!(parent[1].to_string(), stat(std::process::id())[19]);
        }
        sleeper.signal(Signal::STOP);
        wait_for_row(&mut rig, pid, "a stop", |row| row["state"] == "T");
        sleeper.signal(Signal::KILL);
        // Its parent does not reap it.
        wait_for_row(&mut rig, pid, "a zombie", |row| row["state"] == "Z");
        rig.finish();
    });
}

#[test]
fn a_job_is_known_by_the_variable_of_its_scheduler() {
    at_once(probes(), |(name, setup)| {
        let sleeper = Sleeper::with(|command| {
            command.env("PBS_JOBID", "1[2].a-server").env("PBS_JOBID_X", "3").env("PBS_O_HOST", "x")
        });
        let pid = sleeper.pid();
        let mut rig = setup.state(&(gpus(1) + &format!("proc 0 {pid} 9\n"))).start();
        let row = wait_for_row(&mut rig, pid, "static facts", has_static_facts);
        if !row["cgroup"].as_str().unwrap().contains("/job_") {
            assert_eq!(
                (&row["job"], &row["step"]),
                (&"1[2].a-server".into(), &Value::Null),
                "{name}"
            );
        }
        rig.finish();
    });
}

#[test]
fn control_characters_in_a_command_line_become_spaces() {
    at_once(probes(), |(name, setup)| {
        let sleeper = Sleeper::with(|command| command.arg0("sle\tep\nwell\u{7f}\u{1b}[2J"));
        let pid = sleeper.pid();
        let mut rig = setup.state(&(gpus(1) + &format!("proc 0 {pid} 9\n"))).start();
        let row = wait_for_row(&mut rig, pid, "a command line", has_static_facts);
        assert_eq!(row["command"], "sle ep well  [2J 1000", "{name}");
        rig.finish();
    });
}

#[test]
fn working_directory_and_job_are_reported_only_to_the_owner() {
    if !is_root() {
        return;
    }
    at_once(BOTH, |interpreter| {
        let theirs = Sleeper::with(|command| {
            command.uid(65534).gid(65534).current_dir("/").env("SLURM_JOB_ID", "7")
        });
        let pid = theirs.pid();
        let state = gpus(1) + &format!("proc 0 {pid} 9\n");
        let mut rig = Setup::new(interpreter).state(&state).start();
        let row = wait_for_row(&mut rig, pid, "static facts", has_static_facts);
        assert_eq!((&row["cwd"], &row["uid"]), (&Value::Null, &65534.into()), "{row}");
        assert!(row["job"].is_null() && row["command"] == "sleep 1000", "{row}");
        rig.finish();
    });
}

#[test]
fn unseen_processes_are_reported_with_a_reason() {
    at_once(probes(), |(name, setup)| {
        eprintln!("{name}");
        let sleeper = Sleeper::new();
        let pid = sleeper.pid();
        let state = gpus(1) + &format!("proc 0 {pid} 9\nproc 0 4000001 10\n");
        let mut rig = setup.state(&state).start();
        let why = if is_whole_machine() { "gone" } else { "elsewhere" };
        assert_eq!(wait_for_unseen(&mut rig, 4_000_001)["why"], why, "{name}");
        wait_for_row(&mut rig, pid, "the other one", |_| true);
        // A process that was visible has ended, in any namespace.
        drop(sleeper);
        assert_eq!(wait_for_unseen(&mut rig, pid)["why"], "gone", "{name}");
        rig.set_state(&gpus(1));
        rig.until("neither of them", |frame| {
            let processes = frame["processes"].as_object()?;
            (!processes.contains_key("unseen")).then_some(())
        });
        rig.finish();
    });
}

/// Writes a `/sys/fs/cgroup` in which a process belongs to a job.
fn write_cgroups(root: &Path, is_v2: bool, pid: u32) {
    let top = root.join("sys/fs/cgroup");
    let job_group = if is_v2 {
        "system.slice/slurmstepd.scope/job_12/step_0/user/task_0"
    } else {
        "freezer/slurm/uid_65533/job_12/step_0"
    };
    let pids = format!("77\n{pid}\n");
    for (folder, text) in [(job_group, &*pids), ("user.slice/user-1000.slice", "78\n")] {
        std::fs::create_dir_all(top.join(folder)).unwrap();
        std::fs::write(top.join(folder).join("cgroup.procs"), text).unwrap();
    }
    if is_v2 {
        std::fs::write(top.join("cgroup.controllers"), "").unwrap();
    }
}

/// Returns true if a mount of `/proc` can hide processes of this machine without changing its other mounts, as since
/// Linux 5.8.
fn can_hide_processes() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let major = release.split('.').next().and_then(|number| number.parse::<u32>().ok());
    let is_able = is_root() && is_whole_machine() && major.is_some_and(|major| major >= 6);
    if !is_able {
        eprintln!("skipped: processes cannot be hidden here");
    }
    is_able
}

/// A shell of another user for whom `/proc` hides the processes of others.
fn hiding_shell(level: &str) -> Vec<String> {
    let script = format!(
        "mount -t proc -o hidepid={level} proc /proc || exit 9; \
         exec setpriv --reuid=65534 --regid=65534 --clear-groups /bin/sh -c \"$1\""
    );
    let shell = ["unshare", "--mount", "sh", "-c", &script, "sh"];
    shell.map(str::to_owned).to_vec()
}

/// The state of a device with this process and one that does not exist.
fn state_with(pid: u32) -> String {
    gpus(1) + &format!("proc 0 {pid} 9\nproc 0 4000001 10\n")
}

#[test]
fn hidden_processes_of_others_keep_their_row() {
    if !can_hide_processes() {
        return;
    }
    at_once([("1", true), ("2", true), ("2", false), ("4", true)], |(level, is_v2)| {
        let sleeper = Sleeper::new();
        let root = tempfile::tempdir().unwrap();
        std::fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
        write_cgroups(root.path(), is_v2, sleeper.pid());
        let setup = Setup {
            shell: hiding_shell(level),
            pythons: Some("/usr/bin/python3".to_owned()),
            environment: vec![("GTOP_ROOT".to_owned(), OsString::from(root.path()))],
            ..Setup::new(Interpreter::Python)
        };
        let mut rig = setup.state(&state_with(sleeper.pid())).start();
        let hello = rig.next().unwrap();
        assert_eq!(
            (hello["hidepid"].to_string(), &hello["contained"]),
            (level.to_owned(), &Value::Null)
        );
        let uid = if level == "1" { 0 } else { 65533 };
        let row = rig.until("the hidden process with its group", |frame| {
            let list = frame["processes"]["unseen"].as_array()?;
            let is_found = |row: &&Value| row["pid"] == sleeper.pid() && row["cgroup"].is_string();
            list.iter().find(is_found).cloned()
        });
        assert_eq!(row["why"], "hidden", "{level} {row}");
        assert!(row["cgroup"].as_str().unwrap().contains("/job_12/step_0"), "{row}");
        if level == "1" || !is_v2 {
            assert_eq!(row["uid"], uid, "{level} {row}");
        } else {
            assert!(row["uid"].is_null(), "{level} {row}");
        }
        assert_eq!(wait_for_unseen(&mut rig, 4_000_001)["why"], "gone");
        rig.finish();
    });
}

#[test]
fn the_sh_probe_distinguishes_hidden_from_ended_processes() {
    if !can_hide_processes() {
        return;
    }
    at_once(["1", "2"], |level| {
        let sleeper = Sleeper::new();
        let setup = Setup { shell: hiding_shell(level), ..Setup::new(Interpreter::Shell) };
        let mut rig = setup.state(&state_with(sleeper.pid())).start();
        let row = wait_for_unseen(&mut rig, sleeper.pid());
        assert_eq!(row["why"], "hidden", "{level} {row}");
        assert_eq!(row["uid"], if level == "1" { 0.into() } else { Value::Null }, "{row}");
        assert_eq!(wait_for_unseen(&mut rig, 4_000_001)["why"], "gone");
        rig.finish();
    });
}

#[test]
fn a_pid_of_another_namespace_is_no_process_here_unless_it_holds_a_device() {
    if !is_root() {
        return;
    }
    // Process 2 holds a device file. Then come two that do not; the driver means another one by their number, or by chance
    // the same.
    let script = "folder=$(mktemp -d) && mount -t tmpfs tmpfs \"$folder\" && \
        cp -a /dev/null /dev/zero /dev/urandom /dev/tty \"$folder\" && : >\"$folder/nvidia0\" && \
        mount --bind \"$folder\" /dev || exit 9
        sleep 1000 9</dev/nvidia0 >&- & sleep 1000 >&- & exec /bin/sh -c \"$1\"";
    at_once(BOTH, |interpreter| {
        let shell = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c"];
        let mut shell = shell.map(str::to_owned).to_vec();
        shell.extend([script.to_owned(), "sh".to_owned()]);
        let setup = Setup { shell, ..Setup::new(interpreter) };
        let pids: Vec<String> = (2..14).map(|pid| format!("proc 0 {pid} 9\n")).collect();
        let mut rig = setup.state(&(gpus(1) + &pids.concat())).start();
        let hello = rig.next().unwrap();
        assert_eq!(hello["contained"], true, "{interpreter:?}");
        let (listed, unseen) = rig.until("processes and their reasons", |frame| {
            let section = &frame["processes"];
            let unseen = section["unseen"].as_array()?;
            let is_ambiguous = |row: &&Value| row["why"] == "ambiguous";
            let ambiguous: Vec<u64> =
                unseen.iter().filter(is_ambiguous).filter_map(|row| row["pid"].as_u64()).collect();
            let list = section["list"].as_array()?.clone();
            (!list.is_empty() && !ambiguous.is_empty()).then_some((list, ambiguous))
        });
        // The only one that is proven to be a user of a device.
        assert_eq!(listed.len(), 1, "{interpreter:?} {listed:?}");
        let holder = listed[0]["pid"].as_u64().unwrap();
        assert!(!unseen.contains(&holder), "{interpreter:?} {unseen:?}");
        let mut refusals = 0;
        for pid in unseen {
            let key = ProcessKey { pid: pid.try_into().unwrap(), start_ticks: 1 };
            let answer = rig.request(ProcessRequest::Signal(key, RequestedSignal::Terminate));
            // A child of the probe may have ended.
            assert!(["refused", "gone"].contains(&answer["result"].as_str().unwrap()), "{answer}");
            let why = answer["why"].as_str().unwrap();
            refusals += usize::from(why.contains("counts in another PID namespace"));
        }
        assert!(refusals > 0, "{interpreter:?}");
        rig.finish();
    });
}

#[test]
fn an_owner_is_a_number_until_the_name_is_known() {
    if !is_root() {
        return;
    }
    // No name service has these users.
    let sleepers: Vec<Sleeper> = (0..7).map(|number| Sleeper::of(3_000_000_000 + number)).collect();
    let state = sleepers
        .iter()
        .fold(gpus(1), |state, sleeper| state + &format!("proc 0 {} 9\n", sleeper.pid()));
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&state).start();
        let mut names: BTreeMap<u64, String> = BTreeMap::new();
        rig.until("all of them", |frame| {
            for row in frame["processes"]["list"].as_array().into_iter().flatten() {
                let Some(user) = row["user"].as_str() else { continue };
                names.insert(row["uid"].as_u64().unwrap(), user.to_owned());
            }
            (names.len() == sleepers.len()).then_some(())
        });
        assert!(names.iter().all(|(uid, name)| uid.to_string() == *name), "{names:?}");
        rig.finish();
    });
}

/// The `/proc/PID/cgroup` of real nodes, and the most informative path.
const CGROUP_FILES: &[(&str, &str)] = &[
    // Slurm 22.05 with version 1, beside a memory controller of another program.
    (
        "9:name=systemd:/\n8:pids:/\n7:blkio:/\n6:freezer:/slurm_gpu-node-05/uid_2001/job_3/step_0\n\
         5:devices:/slurm_gpu-node-05/uid_2001/job_3/step_0/task_0\n4:memory:/process_api/f784a1e5\n\
         3:cpuset:/\n2:cpuacct:/\n1:cpu:/\n0::/\n",
        "/slurm_gpu-node-05/uid_2001/job_3/step_0",
    ),
    // Slurm 26.05 with version 2, where version 1 is mounted too.
    (
        "6:freezer:/\n4:memory:/\n1:cpu:/\n\
         0::/system.slice/gpu-node-01_slurmstepd.scope/sFMSM7Y1PA2900/step_batch/user/task_special\n",
        "/system.slice/gpu-node-01_slurmstepd.scope/sFMSM7Y1PA2900/step_batch/user/task_special",
    ),
    // The group of a step is more informative than that of slurmd.
    (
        "4:memory:/system.slice/slurmd.service\n3:freezer:/slurm/uid_1/job_2/step_0\n0::/\n",
        "/slurm/uid_1/job_2/step_0",
    ),
    ("12:memory:/user.slice\n5:pids:/docker/0123456789ab\n0::/\n", "/docker/0123456789ab"),
    ("4:memory:/process_api/f784a1e5\n3:cpuset:/\n0::/\n", "/process_api/f784a1e5"),
    (
        "2:cpu:/a\n1:name=systemd:/b\n0::/user.slice/session-1.scope\n",
        "/user.slice/session-1.scope",
    ),
    ("0::/\n", "/"),
    ("", "/"),
];

#[test]
fn the_most_informative_control_group_is_reported() {
    let Some(python) = main_pythons().pop() else {
        eprintln!("skipped: no python3 here");
        return;
    };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/probes/processes.py");
    let script = "import sys\nCLAIMS = [['slurm', '', '']]\nexec(open(sys.argv[1]).read())\n\
                  read = lambda path, limit: sys.argv[2].encode()\nsys.stdout.write(cgroup(1))";
    for (text, expected) in CGROUP_FILES {
        let output = Command::new(&python).args(["-c", script, source, text]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), *expected, "{text}");
    }
}
