//! Processes without root: owners, facts, and why some are not visible.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use gtop::internals::probe::Interpreter;
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

/// Writes a `/sys/fs/cgroup` in which process 2 belongs to a job.
fn write_cgroups(root: &Path, is_v2: bool) {
    let top = root.join("sys/fs/cgroup");
    let job_group = if is_v2 {
        "system.slice/slurmstepd.scope/job_12/step_0/user/task_0"
    } else {
        "freezer/slurm/uid_65533/job_12/step_0"
    };
    for (folder, text) in [(job_group, "77\n2\n"), ("user.slice/user-1000.slice", "78\n")] {
        std::fs::create_dir_all(top.join(folder)).unwrap();
        std::fs::write(top.join(folder).join("cgroup.procs"), text).unwrap();
    }
    if is_v2 {
        std::fs::write(top.join("cgroup.controllers"), "").unwrap();
    }
}

/// A shell of another user in a PID namespace that hides process 2, which sleeps.
fn hiding_shell(level: &str) -> Vec<String> {
    let script = format!(
        "sleep 1000 >&- & mount -o remount,hidepid={level} /proc || exit 9; \
         exec setpriv --reuid=65534 --regid=65534 --clear-groups /bin/sh -c \"$1\""
    );
    let shell =
        ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", &script, "sh"];
    shell.map(str::to_owned).to_vec()
}

#[test]
fn hidden_processes_of_others_keep_their_row() {
    if !is_root() {
        return;
    }
    at_once([("1", true), ("2", true), ("2", false), ("4", true)], |(level, is_v2)| {
        let root = tempfile::tempdir().unwrap();
        std::fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
        write_cgroups(root.path(), is_v2);
        let setup = Setup {
            shell: hiding_shell(level),
            pythons: Some("/usr/bin/python3".to_owned()),
            environment: vec![("GTOP_ROOT".to_owned(), OsString::from(root.path()))],
            ..Setup::new(Interpreter::Python)
        };
        let mut rig = setup.state(&(gpus(1) + "proc 0 2 9\nproc 0 4000001 10\n")).start();
        let hello = rig.next().unwrap();
        assert_eq!(
            (hello["hidepid"].to_string(), &hello["contained"]),
            (level.to_owned(), &true.into())
        );
        let uid = if level == "1" { 0 } else { 65533 };
        let row = rig.until("the hidden process with its group", |frame| {
            let list = frame["processes"]["unseen"].as_array()?;
            let found = list.iter().find(|row| row["pid"] == 2 && row["cgroup"].is_string())?;
            Some(found.clone())
        });
        assert_eq!(row["why"], "hidden", "{level} {row}");
        assert!(row["cgroup"].as_str().unwrap().contains("/job_12/step_0"), "{row}");
        if level == "1" || !is_v2 {
            assert_eq!(row["uid"], uid, "{level} {row}");
        } else {
            assert!(row["uid"].is_null(), "{level} {row}");
        }
        // It may be in another namespace or not exist at all.
        assert_eq!(wait_for_unseen(&mut rig, 4_000_001)["why"], "elsewhere");
        rig.finish();
    });
}

#[test]
fn the_sh_probe_distinguishes_hidden_from_ended_processes() {
    if !is_root() {
        return;
    }
    at_once(["1", "2"], |level| {
        let setup = Setup { shell: hiding_shell(level), ..Setup::new(Interpreter::Shell) };
        let mut rig = setup.state(&(gpus(1) + "proc 0 2 9\nproc 0 4000001 10\n")).start();
        assert_eq!(rig.next().unwrap()["contained"], true);
        let row = wait_for_unseen(&mut rig, 2);
        assert_eq!(row["why"], "hidden", "{level} {row}");
        assert_eq!(row["uid"], if level == "1" { 0.into() } else { Value::Null }, "{row}");
        assert_eq!(wait_for_unseen(&mut rig, 4_000_001)["why"], "elsewhere");
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
    let script = "import sys\nexec(open(sys.argv[1]).read())\n\
                  read = lambda path, limit: sys.argv[2].encode()\nsys.stdout.write(cgroup(1))";
    for (text, expected) in CGROUP_FILES {
        let output = Command::new(&python).args(["-c", script, source, text]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), *expected, "{text}");
    }
}
