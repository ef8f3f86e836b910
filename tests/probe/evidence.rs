//! What the probe sends about how the scheduler numbers devices: with a stub of slurmd, and with folders in place of /proc
//! and the control groups.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gtop_collect::probe::Interpreter;
use serde_json::{Value, json};

use crate::harness::probe::{Rig, Setup, at_once, gpus, main_pythons};
use crate::harness::sleeper::Sleeper;
use crate::probe::processes::is_root;

/// The probe looks for changes so often instead of every 10 s.
const OFTEN: Option<(&str, &str)> = Some(("SLOW_INTERVAL = 10.0", "SLOW_INTERVAL = 0.2"));

const LINES: &str = "slurmd-n1: Gres Name=gpu Type=h100 Count=1 Index=3 ID=7696487 File=/dev/nvidia3 (null)\n\
    slurmd-n1: Gres Name=shard Type=(null) Count=4 Index=0 ID=1918986455 File=/dev/nvidia0 (null)\n\
    slurmd-n1: Gres Name=gpu Type=h100 Count=3 Index=0 ID=7696487 File=/dev/nvidia[0-2] (null)";

/// A node with Slurm.
struct Node {
    folder: tempfile::TempDir,
}

impl Node {
    /// Makes a node whose slurmd does this if it is asked for its devices.
    fn new(script: &str) -> Self {
        let node = Self { folder: tempfile::tempdir().unwrap() };
        fs::set_permissions(node.root(), fs::Permissions::from_mode(0o755)).unwrap();
        node.write("proc/uptime", "100000.00 1.00\n");
        node.write("etc/slurm/slurm.conf", "");
        let path = node.write(
            "sbin/slurmd",
            &format!(
                "#!/bin/sh\ncd {}\n[ \"$1\" != -V ] || {{ echo 'slurm 24.05.1'; exit; }}\n\
                 echo \"$*\" >>log\nenv >environment\n{script}\n",
                node.root().display()
            ),
        );
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        node
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Writes a file in one step, as a probe that reads meanwhile sees those of /proc. It keeps its mode.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let unfinished = path.with_extension("new");
        fs::write(&unfinished, text).unwrap();
        if let Ok(known) = fs::metadata(&path) {
            fs::set_permissions(&unfinished, known.permissions()).unwrap();
        }
        fs::rename(&unfinished, &path).unwrap();
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Shows a slurmd in /proc, with these arguments. Its start is written last, because a probe takes another start for
    /// another daemon.
    fn add_daemon(&self, pid: u32, parent: u32, start: u32, arguments: &str) {
        let program = self.path("sbin/slurmd");
        let words = format!("{} {arguments}", program.display());
        let words: Vec<&str> = words.split_whitespace().collect();
        self.write(&format!("proc/{pid}/cmdline"), &(words.join("\0") + "\0"));
        self.write(&format!("proc/{pid}/environ"), "PATH=/bin\0");
        let own = fs::metadata(self.root()).unwrap().uid();
        self.set_uids(pid, [own; 4]);
        let fields =
            format!("{pid} (slurmd) S {parent} 1 1 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 {start} 9 9\n");
        self.write(&format!("proc/{pid}/stat"), &fields);
    }

    /// Sets the uids of a process: real, effective, saved and of files.
    fn set_uids(&self, pid: u32, uids: [u32; 4]) {
        let uids = uids.map(|uid| uid.to_string()).join("\t");
        self.write(&format!("proc/{pid}/status"), &format!("Name:\tslurmd\nUid:\t{uids}\n"));
    }

    /// Hides the environment of a process, as it is of those of others.
    fn hide_environment(&self, pid: u32) {
        fs::remove_file(self.path(&format!("proc/{pid}/environ"))).unwrap();
    }

    fn start(&self, setup: Setup) -> Rig {
        self.start_with(OFTEN, setup)
    }

    fn start_with(&self, replacement: Option<(&'static str, &'static str)>, setup: Setup) -> Rig {
        let environment = vec![("GTOP_ROOT".to_owned(), self.root().into())];
        Setup { environment, replacement, interval: Duration::from_millis(100), ..setup }.start()
    }

    fn start_default(&self) -> Rig {
        self.start(Setup::new(Interpreter::Python))
    }
}

/// Waits for evidence that satisfies `is_so`.
fn evidence(rig: &mut Rig, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    rig.until(what, |frame| Some(frame["evidence"].clone()).filter(&is_so))
}

fn has_answer(evidence: &Value) -> bool {
    evidence["daemon"]["list"].is_array() || evidence["daemon"]["error"].is_string()
}

fn daemon_error(rig: &mut Rig) -> String {
    let found = evidence(rig, "an error", |evidence| evidence["daemon"]["error"].is_string());
    assert!(found["daemon"]["list"].is_null(), "{found}");
    found["daemon"]["error"].as_str().unwrap().to_owned()
}

#[test]
fn the_daemon_is_asked_once_for_each_of_its_starts() {
    at_once(main_pythons(), |python| {
        let node = Node::new(&format!("[ ! -e silent ] || exit 0\ncat <<'E' >&2\n{LINES}\nE"));
        node.write("conf/slurm.conf", "");
        let conf = node.path("conf/slurm.conf").display().to_string();
        node.write(
            "conf/gres.conf",
            "# gpu\nAutoDetect=nvml # all\nNodeName=n2 Name=gpu File=/dev/x\nNodeName=n1,n2 Name=gpu \\\n File=/dev/y\n\
             NodeName=m[1-9] Name=gpu\nName=mps Count=4\nInclude more.conf\n",
        );
        node.write("conf/more.conf", "Name=gpu File=/dev/z\n");
        node.add_daemon(77, 1, 5000, &format!("-Ds -FG -f{conf} --extra -G -N n1"));
        // Its child, a query of somebody else, and another program.
        node.add_daemon(78, 77, 6000, "-N n2");
        node.add_daemon(79, 1, 7000, "-N n3 -G");
        let pythons = Some(python.display().to_string());
        let mut rig = node.start(Setup { pythons, ..Setup::new(Interpreter::Python) });
        let found =
            evidence(&mut rig, "a list", |found| has_answer(found) && found["config"].is_array());
        let lines: Vec<&str> = LINES.lines().filter(|line| line.contains("Name=gpu ")).collect();
        let mut daemon = found["daemon"].clone();
        let started = daemon.as_object_mut().unwrap().remove("started").unwrap();
        assert_eq!(daemon, json!({"version": "24.05.1", "list": lines}));
        assert_eq!(found["node"], "n1");
        let config = [
            "AutoDetect=nvml",
            "NodeName=n1,n2 Name=gpu   File=/dev/y",
            "NodeName=m[1-9] Name=gpu",
            "Name=gpu File=/dev/z",
        ];
        assert_eq!(found["config"], json!(config));
        assert_eq!(node.read("log"), format!("-f {conf} -N n1 -G\n"));
        let environment = node.read("environment");
        assert!(!environment.contains("GTOP"), "{environment}");
        // Evidence is sent when it changes, and with all values.
        let quiet: Vec<Value> = (0..10).map(|_| rig.sample()["evidence"].take()).collect();
        assert!(quiet.iter().filter(|found| !found.is_null()).count() <= 1, "{quiet:?}");
        rig.full_sample("the evidence again", |full| full["evidence"]["daemon"] == found["daemon"]);
        node.write("silent", "");
        node.add_daemon(77, 1, 9000, "-N n1");
        let found =
            evidence(&mut rig, "another list", |found| found["daemon"]["list"] == json!([]));
        let later = found["daemon"]["started"].as_f64().unwrap() - started.as_f64().unwrap();
        // 40 s by their ticks; the node's uptime does not change.
        assert!((35.0..100.0).contains(&later), "{later}");
        assert_eq!(node.read("log").lines().count(), 2, "{}", node.read("log"));
        rig.finish();
    });
}

#[test]
fn a_slurmd_that_hangs_is_killed_with_what_it_has_started() {
    let node = Node::new("sleep 1000 &\necho $$ $! >pids\nwait");
    node.add_daemon(77, 1, 5000, "");
    let vendor_replacement = Some(("DAEMON_TIMEOUT = 10.0", "DAEMON_TIMEOUT = 1.5"));
    let mut rig = node.start(Setup { vendor_replacement, ..Setup::new(Interpreter::Python) });
    rig.until("the program", |_| (!node.read("pids").is_empty()).then_some(()));
    // Samples go on meanwhile.
    let first = rig.sample()["n"].as_u64().unwrap();
    assert_eq!(rig.sample()["n"], first + 1);
    assert!(daemon_error(&mut rig).starts_with("it did not end within"));
    let pids = node.read("pids");
    rig.until("the end of the program", |_| {
        let is_gone = |pid| !Path::new(&format!("/proc/{pid}/cmdline")).exists() || is_zombie(pid);
        pids.split_whitespace().all(is_gone).then_some(())
    });
    rig.finish();
}

/// Returns true if a process waits to be reaped.
fn is_zombie(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn a_slurmd_that_hangs_ends_with_the_probe() {
    let node = Node::new("echo $$ >pids\nexec sleep 1000");
    node.add_daemon(77, 1, 5000, "");
    let mut rig = node.start_default();
    rig.until("the program", |_| (!node.read("pids").is_empty()).then_some(()));
    let pid = node.read("pids").trim().to_owned();
    rig.finish();
    assert!(!Path::new(&format!("/proc/{pid}/cmdline")).exists() || is_zombie(&pid));
}

#[test]
fn what_is_not_a_list_is_an_error() {
    let line = LINES.lines().next().unwrap();
    at_once(
        [
            (format!("yes '{line}'"), "it printed too much"),
            (format!("yes '{line}' | head -n 1000"), "its list is too long"),
            (
                format!("echo '{line}'; echo 'slurmd: fatal: can not\tstat it' >&2; exit 1"),
                "it failed with 1: slurmd: fatal: can not stat it",
            ),
            ("head -c 100000 /dev/urandom; exit 3".to_owned(), "it failed with 3"),
            ("kill -9 $$".to_owned(), "it failed with 137"),
        ],
        |(script, expected)| {
            let node = Node::new(&script);
            node.add_daemon(77, 1, 5000, "");
            let mut rig = node.start_default();
            let error = daemon_error(&mut rig);
            assert!(error.starts_with(expected), "{script}: {error}");
            rig.finish();
        },
    );
    let node = Node::new("head -c 100000 /dev/urandom");
    node.add_daemon(77, 1, 5000, "");
    let mut rig = node.start_default();
    assert_eq!(evidence(&mut rig, "an answer", has_answer)["daemon"]["list"], json!([]));
    rig.finish();
}

#[test]
fn without_a_daemon_slurmd_is_run_once_and_only_if_it_is_configured() {
    at_once([true, false], |is_configured| {
        let node = Node::new(&format!("echo '{LINES}'"));
        if !is_configured {
            fs::remove_file(node.path("etc/slurm/slurm.conf")).unwrap();
        }
        let path = Some(node.path("sbin"));
        let mut rig = node.start(Setup { path, ..Setup::new(Interpreter::Python) });
        if is_configured {
            let found = evidence(&mut rig, "a list", has_answer);
            assert_eq!(found["daemon"]["list"].as_array().unwrap().len(), 2);
            assert!(found["daemon"]["started"].is_null());
        }
        for _ in 0..20 {
            rig.sample();
        }
        assert_eq!(node.read("log").lines().count(), usize::from(is_configured));
        rig.finish();
    });
}

#[test]
fn several_daemons_are_told_apart_by_the_name_of_the_node() {
    let node = Node::new(&format!("echo '{LINES}'"));
    node.add_daemon(77, 1, 5000, "-N n1");
    node.add_daemon(78, 1, 6000, "-N n2");
    let mut rig = node.start_default();
    assert!(daemon_error(&mut rig).starts_with("several slurmd run here"));
    rig.finish();
    assert_eq!(node.read("log"), "");
    // The name in the tests.
    node.add_daemon(78, 1, 6000, "-N gpu[01]");
    let mut rig = node.start_default();
    evidence(&mut rig, "a list", has_answer);
    assert!(node.read("log").contains("-N gpu[01] -G"), "{}", node.read("log"));
    rig.finish();
}

#[test]
fn a_program_of_another_user_is_not_run() {
    if !is_root() {
        return;
    }
    // The last one is a setuid program that anybody has started under this name.
    for uids in [[12_345; 4], [12_345, 0, 0, 0]] {
        let node = Node::new(&format!("echo '{LINES}'"));
        node.add_daemon(77, 1, 5000, "");
        node.set_uids(77, uids);
        fs::remove_file(node.path("etc/slurm/slurm.conf")).unwrap();
        let mut rig = node.start_default();
        for _ in 0..20 {
            rig.sample();
        }
        assert_eq!(node.read("log"), "");
        rig.finish();
    }
}

#[test]
fn the_files_of_the_driver_and_the_control_groups_are_read() {
    let node = Node::new("exit 1");
    let gpu = |address: &str, text: &str| {
        node.write(&format!("proc/driver/nvidia/gpus/{address}/information"), text);
    };
    gpu(
        "0000:17:00.0",
        "Model: \t\t H100\nGPU UUID: \t GPU-aa\nBus Location: \t 0000:17:00.0\nDevice Minor: \t 1\n",
    );
    gpu("0000:3d:00.0", "GPU UUID: \t GPU-????????-????\nDevice Minor: \t 0\n");
    gpu("0000:4d:00.0", "Device Minor: \t -7\n");
    gpu("0000:5d:00.0", "\n::\n");
    // All that may ever exist; a file is left over.
    let slices = "config 1\nmonitor 2\ngpu0/gi7/access 66\ngpu0/gi7/ci0/access 67\ngpu0/gi7/ci1/access 68\n\
                  gpu0/gi8/access 75\ngpu0/gi8/ci0/access 76\n\
                  gpu0/gi9/x 1\ngpu-1/gi7/access 5\n/access 3\ngpu0/gi7/access -1\n";
    node.write("proc/driver/nvidia-caps/mig-minors", slices);
    for name in ["gi7/access", "gi7/ci0/access"] {
        node.write(&format!("proc/driver/nvidia/capabilities/gpu0/mig/{name}"), "");
    }
    node.write("dev/nvidia-caps/nvidia-cap76", "");
    let group = "sys/fs/cgroup/devices/slurm/uid_1000/";
    node.write(
        &format!("{group}job_42/devices.list"),
        "c 1:3 rwm\nc 195:255 rwm\nc 195:254 rw\nc 195:2 rwm\nc 195:0 rw\nc *:* m\nc 195:1 m\n",
    );
    node.write(&format!("{group}job_43/devices.list"), "a *:* rwm\n");
    node.write(&format!("{group}job_44/devices.list"), "c 195:* rw\n");
    node.write(&format!("{group}job_45/step_0/devices.list"), "c 195:3 rw\n");
    node.write(&format!("{group}job_46/devices.list"), "c 1:3 rwm\n");
    node.write(&format!("{group}job_47x/devices.list"), "c 195:1 rw\n");
    node.write(
        &format!("{group}job_48/devices.list"),
        "c 195:-1 rw\nc 195:99999999999 rw\nb 195:1 rw\nc 195:1\n",
    );
    let mut rig = node.start_default();
    let found = evidence(&mut rig, "devices", |found| found["devices"].is_array());
    assert_eq!(found["devices"], json!([[1, "0000:17:00.0", "GPU-aa"], [0, "0000:3d:00.0", null]]));
    assert_eq!(found["slices"], json!([[66, 0, 7, null], [67, 0, 7, 0]]));
    // Groups without devices still show that jobs are confined; a step may have fewer than its job.
    let jobs = json!({"42": [0, 2], "43": null, "44": null, "45": null, "46": [], "48": []});
    assert_eq!(found["jobs"], jobs);
    fs::rename(node.path(group).join("job_42"), node.path(group).join("job_99")).unwrap();
    evidence(&mut rig, "another job", |found| found["jobs"]["99"] == json!([0, 2]));
    rig.finish();
    // In a container, each node has a group of its own.
    let other = Node::new("exit 1");
    for (name, minor) in [("lab-gpu[01]", 1), ("lab-gpu02", 2)] {
        let path = format!("sys/fs/cgroup/devices/{name}/slurm/uid_1/job_7/devices.list");
        other.write(&path, &format!("c 195:{minor} rw\n"));
    }
    // If the driver does not list the existing slices, the files do.
    other.write("proc/driver/nvidia-caps/mig-minors", slices);
    for number in [1, 2, 75, 76] {
        other.write(&format!("dev/nvidia-caps/nvidia-cap{number}"), "");
    }
    let mut rig = other.start_default();
    let found = evidence(&mut rig, "slices", |found| found["slices"].is_array());
    assert_eq!(found["slices"], json!([[75, 0, 8, null], [76, 0, 8, 0]]));
    let found = evidence(&mut rig, "jobs", |found| found["jobs"].is_object());
    assert_eq!(found["jobs"], json!({"7": [1]}));
    rig.finish();
}

#[test]
fn the_configuration_of_a_daemon_that_is_not_seen_proves_nothing() {
    // /proc may hide the processes of others, and a hidden daemon may use another configuration.
    for is_seen in [false, true] {
        let node = Node::new("exit 1");
        node.write("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia0\n");
        if is_seen {
            node.add_daemon(50, 1, 1000, "");
        }
        let mut rig = node.start_default();
        let found = evidence(&mut rig, "lines", |found| found["config"].is_array());
        assert_eq!(found["configuration"]["changed"].is_number(), is_seen, "{found}");
        rig.finish();
    }
}

#[test]
fn a_process_names_its_devices_by_uuid() {
    let slice = "MIG-GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f/7/0";
    let sleepers = [
        ("CUDA_VISIBLE_DEVICES", format!("GPU-5c89, {slice},3,GPU-2"), json!(["GPU-5c89", slice])),
        ("CUDA_VISIBLE_DEVICES", "0,1".to_owned(), json!(["GPU-of-container"])),
        ("ROCR_VISIBLE_DEVICES", "GPU-e1".to_owned(), json!(["GPU-of-container"])),
    ];
    let sleepers = sleepers.map(|(name, value, expected)| {
        let configure = |command: &mut std::process::Command| {
            command.env(name, value).env("NVIDIA_VISIBLE_DEVICES", "GPU-of-container");
        };
        let sleeper = Sleeper::with(|command| {
            configure(command);
            command
        });
        (sleeper, expected)
    });
    let plain = Sleeper::with(|command| command.env("CUDA_VISIBLE_DEVICES", "0"));
    let lines = sleepers.iter().map(|(sleeper, _)| sleeper.pid()).chain([plain.pid()]);
    let lines: Vec<String> = lines.map(|pid| format!("proc 0 {pid} 9\n")).collect();
    let mut rig = Setup::new(Interpreter::Python).state(&(gpus(1) + &lines.concat())).start();
    let full = rig.full_sample("all processes", |full| {
        let list = full["processes"]["list"].as_array();
        list.is_some_and(|list| list.len() == 4 && list.iter().all(|row| row["cgroup"].is_string()))
    });
    let visible = |pid: u32| {
        let list = full["processes"]["list"].as_array().unwrap();
        list.iter().find(|row| row["pid"] == pid).unwrap()["visible"].clone()
    };
    for (sleeper, expected) in &sleepers {
        assert_eq!(visible(sleeper.pid()), *expected);
    }
    assert_eq!(visible(plain.pid()), Value::Null);
    rig.finish();
}

#[test]
fn a_probe_in_a_job_tells_which_devices_it_can_open() {
    let group = format!("/sys/fs/cgroup/devices/slurm_test{}/uid_0/job_7", std::process::id());
    let _removed = RemovedGroup(&group);
    let node = Node::new("");
    let script = format!(
        "mkdir -p {group} && echo a >{group}/devices.deny && mkdir -p {dev} && \
         for m in 0 1 2; do mknod {dev}/nvidia$m c 195 $m && chmod 666 {dev}/nvidia$m || exit; done && \
         for d in 1 5 136 195:2; do echo \"c ${{d%:*}}:$(case $d in *:*) echo ${{d#*:}} ;; *) echo '*' ;; esac) rwm\" \
         >{group}/devices.allow || exit; done",
        dev = node.path("dev").display()
    );
    let mut shell = std::process::Command::new("sh");
    if !shell.args(["-c", &script]).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: there are no control groups of version 1");
        return;
    }
    let dev = node.path("dev").display().to_string();
    let text = format!("#!/bin/sh\necho 'Gres Name=gpu Count=3 File={dev}/nvidia[0-2]'\n");
    node.write("sbin/slurmd", &text);
    node.add_daemon(77, 1, 5000, "");
    let enter = format!("echo $$ >{group}/cgroup.procs; exec /bin/sh -c \"$0\"");
    let shell = vec!["/bin/sh".into(), "-c".into(), enter];
    let mut rig = node.start(Setup { shell, ..Setup::new(Interpreter::Python) });
    let found = evidence(&mut rig, "device files", |found| found["openable"].is_array());
    assert_eq!(found["openable"], json!([2]));
    rig.finish();
}

/// Removes a control group and the two above it.
struct RemovedGroup<'a>(&'a str);

impl Drop for RemovedGroup<'_> {
    fn drop(&mut self) {
        for folder in Path::new(self.0).ancestors().take(3) {
            let _result = fs::remove_dir(folder);
        }
    }
}

#[test]
fn a_change_of_a_file_that_gres_conf_includes_is_seen_and_the_list_asked_for_again() {
    let node = Node::new(&format!("echo '{LINES}'"));
    let folder = node.path("etc/slurm");
    node.write("etc/slurm/gres.conf", "Include more.conf\n");
    node.write("etc/slurm/more.conf", "Name=gpu File=/dev/nvidia0\n");
    node.write("etc/slurm/cgroup.conf", "# all\nConstrainDevices = Yes\n");
    node.write("etc/slurm/slurm.conf", "TaskPlugin=task/affinity,task/cgroup\n");
    node.add_daemon(77, 1, 5000, "-N n1");
    let often = Some(("EVIDENCE_INTERVAL = 30.0", "EVIDENCE_INTERVAL = 0.5"));
    let mut rig = node.start_with(often, Setup::new(Interpreter::Python));
    let changed = |found: &Value| found["configuration"]["changed"].as_f64().filter(|at| *at > 1e9);
    let first = evidence(&mut rig, "its configuration", |found| {
        has_answer(found) && changed(found).is_some()
    });
    assert_eq!(first["configuration"]["constrained"], true);
    assert!(first["configuration"]["constrained_changed"].as_f64().unwrap() > 1e9);
    assert_eq!(first["configuration"]["cached"], false);
    assert_eq!(node.read("log").lines().count(), 1);
    // A copy with an earlier time, as rsync makes it: in one step.
    fs::write(folder.join(".more.conf"), "Name=gpu File=/dev/nvidia1\n").unwrap();
    let earlier = std::time::SystemTime::now() - Duration::from_secs(86_400);
    let file = fs::File::options().append(true).open(folder.join(".more.conf")).unwrap();
    file.set_modified(earlier).unwrap();
    fs::rename(folder.join(".more.conf"), folder.join("more.conf")).unwrap();
    evidence(&mut rig, "a later time", |found| changed(found) > changed(&first));
    evidence(&mut rig, "a later look", |found| {
        found["configuration"]["checked"].as_f64() > first["configuration"]["checked"].as_f64()
    });
    rig.until("another question", |_| (node.read("log").lines().count() == 2).then_some(()));
    rig.finish();
}

#[test]
fn another_file_behind_the_same_path_is_a_change() {
    let switch_link = |node: &Node| {
        symlink("next", node.path("etc/new")).unwrap();
        fs::rename(node.path("etc/new"), node.path("etc/live")).unwrap();
    };
    let replace_folder = |node: &Node| {
        fs::rename(node.path("etc/live"), node.path("etc/old")).unwrap();
        fs::rename(node.path("etc/next"), node.path("etc/live")).unwrap();
    };
    for is_link in [true, false] {
        let node = Node::new(&format!("echo '{LINES}'"));
        node.write("etc/next/more/gres.conf", "Name=gpu File=/dev/nvidia1\n");
        let first = if is_link { "etc/first/more/gres.conf" } else { "etc/live/more/gres.conf" };
        node.write(first, "Name=gpu File=/dev/nvidia0\n");
        if is_link {
            symlink("first", node.path("etc/live")).unwrap();
        }
        symlink("../live/more/gres.conf", node.path("etc/slurm/gres.conf")).unwrap();
        node.add_daemon(77, 1, 5000, "-N n1");
        let often = Some(("EVIDENCE_INTERVAL = 30.0", "EVIDENCE_INTERVAL = 0.5"));
        let mut rig = node.start_with(often, Setup::new(Interpreter::Python));
        let changed = |found: &Value| found["configuration"]["changed"].as_f64();
        let first = evidence(&mut rig, "its configuration", |found| changed(found).is_some());
        if is_link {
            switch_link(&node);
        } else {
            replace_folder(&node);
        }
        evidence(&mut rig, "a later time", |found| changed(found) > changed(&first));
        rig.finish();
    }
}

#[test]
fn jobs_are_confined_only_by_the_plugin_that_confines_them() {
    for (plugin, confined) in [
        ("TaskPlugin=task/cgroup,task/affinity\n", json!(true)),
        ("TaskPlugin=task/none\n", json!(false)),
        ("", Value::Null),
    ] {
        let node = Node::new(&format!("echo '{LINES}'"));
        node.write("etc/slurm/slurm.conf", plugin);
        node.write("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia0\n");
        node.write("etc/slurm/cgroup.conf", "ConstrainDevices=yes\n");
        node.add_daemon(77, 1, 5000, "-N n1");
        let mut rig = node.start_default();
        let found = evidence(&mut rig, "its configuration", |found| {
            found["configuration"]["checked"].is_number()
        });
        assert_eq!(found["configuration"]["constrained"], confined, "{plugin}");
        rig.finish();
    }
}

#[test]
fn a_daemon_that_asks_a_server_has_the_configuration_that_it_told() {
    let node = Node::new(&format!("echo '{LINES}'"));
    node.write("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia0\n");
    node.add_daemon(77, 1, 5000, "-N n1 --conf-server head:6817");
    let mut rig = node.start_default();
    assert_eq!(daemon_error(&mut rig), "its configuration was not found");
    rig.finish();
    node.write("run/slurm/conf/slurm.conf", "");
    node.write("run/slurm/conf/gres.conf", "Name=gpu File=/dev/nvidia1\n");
    let mut rig = node.start_default();
    let found = evidence(&mut rig, "its copy", |found| {
        found["daemon"]["list"].is_array() && found["config"].is_array()
    });
    assert_eq!(found["config"], json!(["Name=gpu File=/dev/nvidia1"]));
    assert_eq!(found["configuration"]["cached"], true);
    rig.finish();
}

#[test]
fn device_files_tell_their_minor_numbers_where_their_names_do_not() {
    if !is_root() {
        return;
    }
    let node = Node::new("exit 1");
    let folder = node.path("dev/aliases");
    fs::create_dir_all(&folder).unwrap();
    for (name, minor) in [("gpu-a", "3"), ("gpu-b", "1"), ("gpuctl", "255")] {
        let made = std::process::Command::new("mknod")
            .args([folder.join(name).to_str().unwrap(), "c", "195", minor])
            .status();
        assert!(made.unwrap().success());
    }
    fs::write(folder.join("gpu-c"), "").unwrap();
    symlink("gpu-a", folder.join("gpu-d")).unwrap();
    let here = folder.display();
    node.write("etc/slurm/gres.conf", &format!("Name=gpu File={here}/gpu-[a-d]\n"));
    node.add_daemon(77, 1, 5000, "-N n1");
    let mut rig = node.start_default();
    let found = evidence(&mut rig, "files", |found| found["files"].is_object());
    let file = |name: &str| format!("{here}/{name}");
    let expected = json!({ file("gpu-a"): 3, file("gpu-b"): 1, file("gpu-d"): 3 });
    assert_eq!(found["files"], expected);
    rig.finish();
}

/// Returns true if the frame has the state of the configuration, without which nothing is certain.
fn is_trusted(node: &Node) -> bool {
    let mut rig = node.start_default();
    let found = evidence(&mut rig, "its configuration", |found| {
        found["config"].is_array() && found["configuration"]["checked"].is_number()
    });
    rig.finish();
    let state = &found["configuration"];
    assert_eq!(state["changed"].is_number(), state["constrained"].is_boolean(), "{state}");
    state["changed"].is_number()
}

#[test]
fn a_configuration_that_may_not_be_the_daemon_s_proves_nothing() {
    let node = Node::new(&format!("echo '{LINES}'"));
    node.write("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia0\n");
    let conf = node.path("etc/slurm/slurm.conf").display().to_string();
    // Started by hand, with an environment that cannot be read.
    let add_hidden = |arguments: &str| {
        node.add_daemon(77, 1, 5000, arguments);
        node.hide_environment(77);
    };
    add_hidden("-N n1");
    node.write("proc/77/cgroup", "0::/user.slice/session-1.scope\n");
    assert!(!is_trusted(&node));
    add_hidden(&format!("-N n1 -f {conf}"));
    assert!(is_trusted(&node), "its command line names it");
    add_hidden(&format!("-N n1 -f {conf}.other"));
    assert!(!is_trusted(&node), "its command line names another");
    node.add_daemon(77, 1, 5000, "-N n1");
    assert!(is_trusted(&node), "its environment names none");
    node.write("proc/77/environ", "SLURM_CONF=/absent/slurm.conf\0");
    assert!(!is_trusted(&node), "its environment names one that cannot be read");
    add_hidden("-N n1");
    // A session of sshd, and the service.
    let unit = |name: &str, text: &str| {
        node.write("proc/77/cgroup", &format!("0::/system.slice/{name}\n"));
        node.write(&format!("usr/lib/systemd/system/{name}"), text);
    };
    unit("ssh.service", "[Service]\nExecStart=/usr/sbin/sshd -D\n");
    assert!(!is_trusted(&node), "another service");
    unit("slurmd.service", "[Service]\nExecStart=/usr/sbin/slurmd -D $SLURMD_OPTIONS\n");
    assert!(is_trusted(&node), "its service");
    unit(
        "slurmd.service",
        "[Service]\nExecStart=/usr/sbin/slurmd\nEnvironmentFile=/etc/slurmd.*\n",
    );
    assert!(!is_trusted(&node), "files that are not read");
}

#[test]
fn a_service_tells_which_configuration_its_daemon_has() {
    let node = Node::new(&format!("echo '{LINES}'"));
    node.add_daemon(77, 1, 5000, "-N n1");
    node.hide_environment(77);
    node.write("proc/77/cgroup", "0::/system.slice/slurmd.service\n");
    node.write(
        "usr/lib/systemd/system/slurmd.service",
        "[Service]\nExecStart=/usr/sbin/slurmd -D\nEnvironmentFile=-/etc/sysconfig/slurmd\nEnvironmentFile=-/etc/absent\n",
    );
    let other = node.write("other/slurm.conf", "");
    node.write("other/gres.conf", "Name=gpu File=/dev/nvidia1\n");
    let settings = format!("#SLURM_CONF=/wrong\nexport SLURM_CONF=\"{}\"\n", other.display());
    node.write("etc/sysconfig/slurmd", &settings);
    let mut rig = node.start_default();
    let found = evidence(&mut rig, "its configuration", |found| found["config"].is_array());
    assert_eq!(found["config"], json!(["Name=gpu File=/dev/nvidia1"]));
    assert!(found["configuration"]["changed"].is_number(), "{found}");
    rig.finish();
}

#[test]
fn without_a_sight_of_an_included_file_it_is_not_known_when_files_changed() {
    let node = Node::new(&format!("echo '{LINES}'"));
    node.write("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia0\nInclude more.conf\n");
    node.add_daemon(77, 1, 5000, "-N n1");
    let mut rig = node.start_default();
    let found = evidence(&mut rig, "its configuration", |found| {
        found["configuration"]["checked"].is_number()
    });
    assert!(found["configuration"]["changed"].is_null(), "{found}");
    rig.finish();
}
