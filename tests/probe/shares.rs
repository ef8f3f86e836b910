//! What the probe reads of control groups: of real ones, and of folders in their place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gtop_collect::probe::Interpreter;
use serde_json::{Value, json};

use crate::harness::probe::{Rig, Setup, at_once, main_pythons};

/// The probe looks for changes so often instead of every 10 s.
const OFTEN: Option<(&str, &str)> = Some(("SLOW_INTERVAL = 10.0", "SLOW_INTERVAL = 0.2"));

/// A node of 16 CPUs and 128 GiB with control groups of its own.
struct Groups(tempfile::TempDir);

impl Groups {
    fn new() -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        fs::set_permissions(node.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for (file, text) in [
            ("sys/devices/system/cpu/online", "0-7,16-23\n"),
            ("proc/meminfo", "MemTotal:       134217728 kB\nMemFree:  1 kB\n"),
        ] {
            let path = node.0.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        node
    }

    fn path(&self, name: &str) -> PathBuf {
        let top = self.0.path().join("sys/fs/cgroup");
        if name.is_empty() { top } else { top.join(name) }
    }

    /// Writes files of a group; the probe may look at any moment, so each appears with its content.
    fn write(&self, group: &str, files: &[(&str, &str)]) -> &Self {
        let folder = self.path(group);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join("unfinished"), text).unwrap();
            fs::rename(folder.join("unfinished"), folder.join(name)).unwrap();
        }
        self
    }

    fn start(&self, setup: Setup) -> Rig {
        let environment = vec![("GTOP_ROOT".to_owned(), self.0.path().into())];
        let interval = Duration::from_millis(100);
        Setup { environment, replacement: OFTEN, interval, ..setup }.start()
    }

    fn start_default(&self) -> Rig {
        self.start(Setup::new(Interpreter::Python))
    }
}

/// Waits for shares that satisfy `is_so`.
fn shares(rig: &mut Rig, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    rig.until(what, |frame| Some(frame["shares"].clone()).filter(&is_so))
}

const V2_JOBS: &str = "system.slice/slurmstepd.scope";
const V2_STAT: &[(&str, &str)] = &[
    ("cpu.stat", "usage_usec 7900000\nuser_usec 1\n"),
    ("memory.current", "34359738368\n"),
    ("memory.stat", "anon 1\nfile 5\ninactive_file 1073741824\nactive_file 4\n"),
];

/// Makes a node of cgroup v2 with a job 7 whose limits are in the groups above it.
fn unified() -> Groups {
    let node = Groups::new();
    node.write("", &[("cgroup.controllers", "cpu memory\n")])
        .write("system.slice", &[("cpu.max", "max 100000\n"), ("memory.max", "max\n")])
        .write(V2_JOBS, &[("cpu.max", "350000 100000\n"), ("memory.max", "68719476736\n")])
        .write(&format!("{V2_JOBS}/job_7"), V2_STAT)
        .write(
            &format!("{V2_JOBS}/job_7"),
            &[
                ("cpu.max", "max 100000\n"),
                ("memory.max", "max\n"),
                ("cpuset.cpus.effective", "0-3,8\n"),
            ],
        );
    node
}

#[test]
fn the_limits_of_a_job_are_the_lowest_of_its_groups() {
    at_once(main_pythons(), |python| {
        let node = unified();
        node.write(&format!("{V2_JOBS}/job_8"), V2_STAT)
            .write(&format!("{V2_JOBS}/job_8"), &[("cpuset.cpus.effective", "0,2\n")])
            .write(&format!("{V2_JOBS}/job_9x"), V2_STAT)
            .write(&format!("{V2_JOBS}/sFMSM7Y1PA2900"), V2_STAT)
            .write(&format!("{V2_JOBS}/system"), V2_STAT);
        let pythons = Some(python.display().to_string());
        let mut rig = node.start(Setup { pythons, ..Setup::new(Interpreter::Python) });
        let found = shares(&mut rig, "shares", Value::is_object);
        let used = json!({"cpus": 3.5, "cpu": 7_900_000, "memory_limit": 64_u64 << 30, "memory": 31_u64 << 30});
        let mut of_two = used.clone();
        of_two["cpus"] = json!(2);
        let mut newer = used.clone();
        newer["cpus"] = json!(3.5);
        let jobs = json!({"7": used, "8": of_two, "sFMSM7Y1PA2900": newer});
        assert_eq!(found["jobs"], jobs);
        assert_eq!(found["own"], json!({}));
        // They are sent with all values, too, and once more when the last job has ended.
        for job in ["job_7", "job_8", "sFMSM7Y1PA2900"] {
            fs::rename(node.path(V2_JOBS).join(job), node.path(job)).unwrap();
        }
        shares(&mut rig, "no job", |found| found["jobs"] == json!({}));
        rig.finish();
    });
}

#[test]
fn a_group_without_a_set_of_cpus_has_that_of_the_nearest_one_above() {
    let node = unified();
    let set = |cpus| [("cpuset.cpus.effective", cpus)];
    node.write("", &set("0-15\n"))
        .write("system.slice", &set("0-1\n"))
        .write(&format!("{V2_JOBS}/job_8"), V2_STAT)
        .write(&format!("{V2_JOBS}/job_9"), &set("\n"));
    let mut rig = node.start_default();
    let found = shares(&mut rig, "shares", Value::is_object);
    let cpus = ["7", "8", "9"].map(|job| found["jobs"][job]["cpus"].clone());
    assert_eq!(cpus, [json!(3.5), json!(2), json!(2)]);
    rig.finish();
}

#[test]
fn a_limit_above_what_the_host_has_is_none() {
    let node = unified();
    node.write(V2_JOBS, &[("cpu.max", "9900000 100000\n"), ("memory.max", "137438953472\n")])
        .write(&format!("{V2_JOBS}/job_7"), &[("cpuset.cpus.effective", "0-63\n")])
        .write(&format!("{V2_JOBS}/job_8"), &[("memory.max", "137438953471\n")]);
    let mut rig = node.start_default();
    let found = shares(&mut rig, "shares", Value::is_object);
    let limits = ["7", "8"].map(|job| {
        let share = &found["jobs"][job];
        (share["cpus"].clone(), share["memory_limit"].clone())
    });
    let almost_all = json!((128_u64 << 30) - 1);
    assert_eq!(limits, [(json!(16), Value::Null), (json!(16), almost_all)]);
    rig.finish();
}

#[test]
fn groups_of_the_first_version_have_a_folder_for_each_controller() {
    let node = Groups::new();
    let job = "slurm_n1/uid_1000/job_7";
    node.write(
        &format!("cpu/{job}"),
        &[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "100000\n")],
    )
    .write(&format!("cpuacct/{job}"), &[("cpuacct.usage", "7900000123\n")])
    .write(&format!("cpuset/{job}"), &[("cpuset.cpus", "2-5\n")])
    .write(
        &format!("memory/{job}"),
        &[
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            ("memory.usage_in_bytes", "3000\n"),
            ("memory.stat", "inactive_file 7\ntotal_inactive_file 1000\n"),
        ],
    )
    .write("memory/slurm_n1/uid_1000", &[("memory.limit_in_bytes", "4096\n")])
    // What a group above has that is not seen is in the statistics.
    .write(
        "memory/slurm_n1/uid_1000/job_9",
        &[("memory.stat", "hierarchical_memory_limit 1024\ntotal_inactive_file 1\n")],
    )
    // Slurm makes only the groups that it is configured to use.
    .write("memory/slurm_n1/uid_1000/job_8", &[("memory.limit_in_bytes", "2048\n")]);
    let mut rig = node.start_default();
    let found = shares(&mut rig, "shares", Value::is_object);
    let whole = json!({"cpus": 4, "cpu": 7_900_000, "memory_limit": 4096, "memory": 2000});
    assert_eq!(
        found["jobs"],
        json!({"7": whole, "8": {"memory_limit": 2048}, "9": {"memory_limit": 1024}})
    );
    node.write(&format!("cpu/{job}"), &[("cpu.cfs_quota_us", "150000\n")]);
    shares(&mut rig, "a quota", |found| found["jobs"]["7"]["cpus"] == 1.5);
    rig.finish();
}

#[test]
fn groups_that_an_earlier_daemon_has_left_hide_none() {
    let node = Groups::new();
    let memory = |bytes| [("memory.limit_in_bytes", bytes)];
    node.write("memory/slurm_before", &[]).write("memory/slurm/uid_1000/job_7", &memory("4096\n"));
    let mut rig = node.start_default();
    let found = shares(&mut rig, "shares", Value::is_object);
    assert_eq!(found["jobs"], json!({"7": {"memory_limit": 4096}}));
    rig.finish();
    // With jobs of both, and the name of neither, it is not known which are this node's.
    node.write("memory/slurm_before/uid_1000/job_8", &memory("4096\n"))
        .write("memory", &memory("4096\n"));
    let mut rig = node.start_default();
    let found = shares(&mut rig, "its own", Value::is_object);
    assert_eq!((&found["jobs"], &found["own"]), (&json!({}), &json!({"memory_limit": 4096})));
    rig.finish();
}

#[test]
fn a_container_has_the_limit_that_its_own_top_shows() {
    let node = Groups::new();
    node.write("", &[("cgroup.controllers", "cpu memory\n"), ("cpu.max", "50000 100000\n")])
        .write("", &[("memory.max", "1048576\n")])
        .write("", V2_STAT);
    let mut rig = node.start_default();
    let found = shares(&mut rig, "shares", Value::is_object);
    let own =
        json!({"cpus": 0.5, "cpu": 7_900_000, "memory_limit": 1_048_576, "memory": 31_u64 << 30});
    assert_eq!((&found["own"], &found["jobs"]), (&own, &json!({})));
    rig.finish();
}

#[test]
fn hostile_files_of_a_group_are_no_values() {
    let huge = "9".repeat(5000);
    let files = ["cpu.max", "cpu.stat", "cpuset.cpus.effective", "memory.max", "memory.current"];
    for text in [
        "",
        "\0\u{1}\u{7f}",
        "-1 -1\n",
        "nan inf\n",
        "0 0\n",
        "1-0\n",
        "0-99999999999\n",
        "1e999\n",
        &huge,
    ] {
        let node = unified();
        let contents = files.map(|file| (file, text));
        node.write(&format!("{V2_JOBS}/job_7"), &contents);
        // A folder where a file is expected cannot be read, as a group that has just vanished.
        fs::create_dir_all(node.path(V2_JOBS).join("job_8/memory.max")).unwrap();
        let mut rig = node.start_default();
        let found = shares(&mut rig, "shares", Value::is_object);
        // What the groups above say holds.
        let above = json!({"cpus": 3.5, "memory_limit": 64_u64 << 30});
        assert_eq!(found["jobs"], json!({"7": above, "8": above}), "{text:?}");
        rig.finish();
    }
}

/// Makes a real group, and removes it at the end with those above it that are the test's.
struct RealGroup {
    folder: PathBuf,
    levels: usize,
}

impl RealGroup {
    /// Returns `None` where such a group cannot be made.
    fn new(hierarchy: &str, path: &str) -> Option<Self> {
        let top = Path::new("/sys/fs/cgroup").join(hierarchy);
        let folder = top.join(format!("gtop-test{}", std::process::id())).join(path);
        let levels = 1 + Path::new(path).components().count();
        top.is_dir().then(|| fs::create_dir_all(&folder).ok())?.map(|()| Self { folder, levels })
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).unwrap();
    }

    /// Returns the folder that a probe is to take for the top of the hierarchy.
    fn top(&self) -> &Path {
        self.folder.ancestors().nth(self.levels - 1).unwrap()
    }
}

impl Drop for RealGroup {
    fn drop(&mut self) {
        for folder in self.folder.ancestors().take(self.levels) {
            let _result = fs::remove_dir(folder);
        }
    }
}

/// A process that uses a CPU, in some groups.
struct Busy(Child);

impl Busy {
    fn new(groups: &[&RealGroup]) -> Self {
        let mut command = Command::new("sh");
        let enter = groups
            .iter()
            .map(|group| format!("echo $$ >{}/cgroup.procs && ", group.folder.display()));
        let script = enter.collect::<String>()
            + "text=$(head -c 4000000 /dev/zero | tr '\\0' x); while :; do :; done";
        Self(command.args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _result = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn real_groups_of_the_first_version_are_read() {
    let job = "slurm/uid_0/job_7";
    let made =
        ["cpu", "cpuacct", "cpuset", "memory"].map(|hierarchy| RealGroup::new(hierarchy, job));
    let [Some(cpu), Some(cpuacct), Some(cpuset), Some(memory)] = &made else {
        eprintln!("skipped: there are no control groups of version 1");
        return;
    };
    cpu.write("cpu.cfs_quota_us", "50000");
    for folder in
        cpuset.folder.ancestors().take(cpuset.levels).collect::<Vec<_>>().into_iter().rev()
    {
        fs::write(folder.join("cpuset.cpus"), "0").unwrap();
        fs::write(folder.join("cpuset.mems"), "0").unwrap();
    }
    memory.write("memory.limit_in_bytes", "67108864");
    let node = Groups::new();
    fs::create_dir_all(node.path("")).unwrap();
    for group in [cpu, cpuacct, cpuset, memory] {
        let name = group.top().parent().unwrap().file_name().unwrap();
        std::os::unix::fs::symlink(group.top(), node.path("").join(name)).unwrap();
    }
    let busy = Busy::new(&[cpu, cpuacct, cpuset, memory]);
    let mut rig = node.start_default();
    let first = shares(&mut rig, "shares", |found| {
        let share = &found["jobs"]["7"];
        share["cpu"].as_u64() > Some(0) && share["memory"].as_u64() > Some(3_000_000)
    });
    let first = &first["jobs"]["7"];
    assert_eq!((&first["cpus"], &first["memory_limit"]), (&json!(0.5), &json!(67_108_864)));
    assert!(first["memory"].as_u64() <= Some(67_108_864), "{first}");
    shares(&mut rig, "more time", |found| {
        found["jobs"]["7"]["cpu"].as_u64() > first["cpu"].as_u64()
    });
    cpu.write("cpu.cfs_quota_us", "-1");
    shares(&mut rig, "its set of CPUs", |found| found["jobs"]["7"]["cpus"] == 1);
    rig.finish();
    drop(busy);
}

#[test]
fn a_real_group_of_the_second_version_is_read() {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let unified = mounts
        .lines()
        .find_map(|line| line.split(' ').nth(1).filter(|_| line.contains(" cgroup2 ")));
    let hierarchy = unified.and_then(|path| path.strip_prefix("/sys/fs/cgroup"));
    let made = hierarchy
        .and_then(|path| RealGroup::new(path.trim_start_matches('/'), &format!("{V2_JOBS}/job_7")));
    let Some(group) = made else {
        eprintln!("skipped: there are no control groups of version 2");
        return;
    };
    let node = Groups::new();
    fs::create_dir_all(node.path("").parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(group.top(), node.path("")).unwrap();
    let busy = Busy::new(&[&group]);
    let mut rig = node.start_default();
    let first = shares(&mut rig, "shares", |found| found["jobs"]["7"]["cpu"].as_u64() > Some(0));
    let spent = first["jobs"]["7"]["cpu"].as_u64();
    shares(&mut rig, "more time", |found| found["jobs"]["7"]["cpu"].as_u64() > spent);
    rig.finish();
    drop(busy);
}

/// Counts the files and folders that are read without jobs, and with one: after the search, and ten times later.
const COUNTER: &str = r"
import os, sys, time
source = sys.stdin.read()
space = {'ROOT': sys.argv[1], 'os': os, 'time': time, 'is_contained': lambda: False, 'decode': lambda data: data.decode()}
count = [0]
def read(path, most=65536):
    count[0] += 1
    try:
        return open(path, 'rb').read(most)
    except OSError:
        return b''
def list_folder(path):
    count[0] += 1
    return sorted(os.listdir(path)) if os.path.isdir(path) else []
space.update(read=read, list_folder=list_folder)
exec(compile(source, 'probe', 'exec'), space)
shares = space['Shares']()
shares.find([])
count[0] = 0
found = [shares.read() for _ in range(10)]
print(count[0], sum(one is not None for one in found))
";

fn files_read(node: &Groups) -> String {
    let mut python = Command::new("python3")
        .args(["-c", COUNTER])
        .arg(node.0.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let source = include_bytes!("../../probes/groups.py");
    std::io::Write::write_all(&mut python.stdin.take().unwrap(), source).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_node_without_groups_of_jobs_reads_none_later() {
    let none = Groups::new();
    none.write("", &[("cgroup.controllers", "cpu memory\n")])
        .write("system.slice/ssh.service", V2_STAT);
    assert_eq!(files_read(&none), "0 0");
    let first = Groups::new();
    first.write("memory/user", &[]).write("cpu/user", &[]);
    assert_eq!(files_read(&first), "0 0");
    // With a job, the list of jobs, its four files and the limits of the groups above it.
    assert_eq!(files_read(&unified()), format!("{} 10", 10 * (1 + 4 + 2 * 4)));
}
