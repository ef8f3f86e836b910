//! The probes in hostile environments: read-only file systems, unreadable or malformed `/proc` files, hostile names,
//! and `BusyBox` alone. Most are mount namespaces and need root.

use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command as Program;
use std::time::Duration;

use gtop_collect::probe::{Interpreter, ProbeCommand};
use serde_json::Value;

use crate::harness::nvml_stub;
use crate::harness::probe::{BOTH, Rig, Setup, at_once, gpus, installed, main_pythons};
use crate::harness::sleeper::Sleeper;
use crate::probe::processes::has_static_facts;

/// An unprivileged user.
const NOBODY: u32 = 65534;

/// Returns true if mount namespaces can be made, and prints why not.
pub(crate) fn can_unshare_mounts() -> bool {
    let can = rustix::process::geteuid().is_root()
        && Program::new("unshare")
            .args(["-m", "true"])
            .status()
            .is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: making mount namespaces needs root");
    }
    can
}

/// Starts the probe in a mount namespace prepared by the script, as root or as another user.
pub(crate) fn in_namespace(setup: Setup, script: &str, uid: Option<u32>) -> Setup {
    let setpriv = uid.map_or_else(String::new, |uid| {
        format!("setpriv --reuid {uid} --regid {uid} --clear-groups ")
    });
    let script = format!("set -e\n{script}\nexec {setpriv}/bin/sh -c \"$0\"");
    let shell = ["unshare", "-m", "--propagation", "private", "/bin/sh", "-c", &script];
    Setup { shell: shell.map(str::to_owned).to_vec(), ..setup }
}

/// A process of this user with this name.
fn owned_by(uid: u32, name: &str) -> Sleeper {
    Sleeper::with(|command| command.uid(uid).gid(uid).arg0(name))
}

/// A state with one device that these processes use.
fn used_by(sleepers: &[Sleeper]) -> String {
    sleepers.iter().fold(gpus(1), |mut state, sleeper| {
        writeln!(state, "proc 0 {} 9", sleeper.pid()).unwrap();
        state
    })
}

/// Returns the rows of these processes once all have their static facts.
fn rows(rig: &mut Rig, sleepers: &[Sleeper]) -> Vec<Value> {
    let mut rows = vec![Value::Null; sleepers.len()];
    while !rows.iter().all(Value::is_object) {
        // One wait per process: the total time depends on the machine.
        rig.until("another process", |frame| {
            let before = rows.iter().filter(|row| row.is_object()).count();
            for row in
                frame["processes"]["list"].as_array()?.iter().filter(|row| has_static_facts(row))
            {
                if let Some(index) = sleepers.iter().position(|sleeper| row["pid"] == sleeper.pid())
                {
                    rows[index] = row.clone();
                }
            }
            (rows.iter().filter(|row| row.is_object()).count() > before).then_some(())
        });
    }
    rows
}

/// Asserts three samples with host and devices, and a clean end.
fn check_samples(mut rig: Rig, name: &str) {
    eprintln!("{name}");
    let host = rig.until("the host", |frame| {
        (frame["t"] == "sample" && frame["n"].as_u64() >= Some(3)).then(|| frame["host"].clone())
    });
    assert!(host["memory_total"].is_u64() && host["cpu"].is_array(), "{name}: {host}");
    rig.command(ProbeCommand::Full);
    rig.until("devices", |frame| frame["backends"][0]["kind"].is_string().then_some(()));
    rig.finish();
}

#[test]
fn the_probe_runs_on_a_read_only_file_system() {
    if !can_unshare_mounts() {
        return;
    }
    let namespaces = [
        (
            "read-only",
            "mount -o remount,bind,ro /\nmount -t tmpfs -o ro none /dev/shm\nmount -t tmpfs -o ro none /var/tmp",
        ),
        (
            "full",
            "mount -t tmpfs -o size=4k none /mnt\nhead -c 8192 /dev/zero >/mnt/full || :\ncd /mnt\n\
             mount --bind /mnt /dev/shm\nmount --bind /mnt /var/tmp\n\
             TMPDIR=/mnt HOME=/mnt; export TMPDIR HOME\n! echo more >/mnt/more",
        ),
    ];
    at_once(BOTH, |interpreter| {
        at_once(namespaces, |(name, script)| {
            let setup = in_namespace(Setup::new(interpreter), script, None);
            check_samples(setup.start(), &format!("{interpreter:?}, {name}"));
        });
    });
}

#[test]
fn host_and_own_processes_are_reported_under_every_hidepid() {
    if !can_unshare_mounts() {
        return;
    }
    at_once(BOTH, |interpreter| {
        at_once([1, 2, 4], |hidepid| {
            eprintln!("{interpreter:?}, hidepid={hidepid}");
            let sleepers = [owned_by(NOBODY, "mine"), owned_by(0, "theirs")];
            let script = format!("mount -t proc -o hidepid={hidepid} proc /proc");
            let setup = Setup::new(interpreter).state(&used_by(&sleepers));
            let mut rig = in_namespace(setup, &script, Some(NOBODY)).start();
            assert_eq!(rig.next().unwrap()["hidepid"], hidepid);
            let row = &rows(&mut rig, &sleepers[..1])[0];
            assert_eq!((&row["uid"], &row["command"]), (&NOBODY.into(), &"mine 1000".into()));
            let frame = rig
                .until("devices", |frame| frame["backends"][0].is_object().then(|| frame.clone()));
            assert!(frame["host"]["memory_total"].is_u64());
            rig.finish();
        });
    });
}

/// Mounts a file over `/proc` files that containers hide or fake.
fn mount_over_proc(source: &str, names: &[&str]) -> String {
    names.iter().fold(String::new(), |mut script, name| {
        writeln!(script, "[ ! -e /proc/{name} ] || mount --bind {source} /proc/{name}").unwrap();
        script
    })
}

const PROC_FILES: [&str; 9] = [
    "stat",
    "meminfo",
    "loadavg",
    "self/net/dev",
    "diskstats",
    "pressure/cpu",
    "pressure/memory",
    "pressure/io",
    "sys/kernel/random/boot_id",
];

#[test]
fn unreadable_proc_files_are_left_out() {
    if !can_unshare_mounts() {
        return;
    }
    let empty = "mount -t tmpfs none /mnt\n: >/mnt/none\n".to_owned();
    let sealed = empty.clone() + "chmod 0 /mnt/none\n" + &mount_over_proc("/mnt/none", &PROC_FILES);
    let folders = "mount -t tmpfs -o mode=0 none /sys\n";
    let namespaces = [
        ("masked", mount_over_proc("/dev/null", &PROC_FILES), None),
        ("sealed", sealed + folders, Some(NOBODY)),
        ("empty", empty + &mount_over_proc("/mnt/none", &PROC_FILES) + folders, None),
    ];
    at_once(BOTH, |interpreter| {
        at_once(&namespaces, |(name, script, uid)| {
            eprintln!("{interpreter:?}, {name}");
            let mut rig = in_namespace(Setup::new(interpreter), script, *uid).start();
            let host = rig.until("the host", |frame| {
                (frame["t"] == "sample" && frame["n"].as_u64() >= Some(3))
                    .then(|| frame["host"].clone())
            });
            assert!(host["memory_total"].is_null() && host["uptime"].is_number(), "{host}");
            rig.command(ProbeCommand::Full);
            rig.until("devices", |frame| frame["backends"][0]["kind"].is_string().then_some(()));
            rig.finish();
        });
    });
}

#[test]
fn malformed_proc_files_affect_only_their_own_values() {
    if !can_unshare_mounts() {
        return;
    }
    let contents = [
        r"\377\376{\n\n  : : :\n",
        r"cpu  1 2 three 4 5 6 7 8\nMemTotal: kB\nMemAvailable: -1 kB\nsome avg10=nan\neth0: a b c\n",
        r"cpu  99999999999999999999999999 1 1 1 1 1 1 1\nMemTotal:       99999999999999999999999 kB\nsome avg10=1e999 \n1e999 inf nan\n",
        r"some\nMemTotal:\nMemTotal\n1 2\n",
    ];
    at_once(BOTH, |interpreter| {
        at_once(contents, |text| {
            eprintln!("{interpreter:?}: {text}");
            let script = format!("mount -t tmpfs none /mnt\nprintf '{text}' >/mnt/malformed\n")
                + &mount_over_proc("/mnt/malformed", &PROC_FILES);
            let mut rig = in_namespace(Setup::new(interpreter), &script, None).start();
            let mut count = 0;
            // The schema test rejects invalid numbers.
            rig.until("three samples with devices", |frame| {
                count += u32::from(frame["t"] == "sample" && frame["host"]["uptime"].is_number());
                (count >= 3 && frame["backends"].is_array()).then_some(())
            });
            rig.finish();
        });
    });
}

#[test]
fn busybox_alone_is_enough() {
    if !can_unshare_mounts() || installed(&["busybox"]).is_empty() {
        return;
    }
    let script = "mount -t tmpfs none /mnt\ncd /mnt\nmkdir bin lib lib64 usr usr/lib proc sys dev etc tmp\n\
        cp /bin/busybox bin/busybox\nfor d in lib lib64 usr/lib proc sys dev; do [ ! -d /$d ] || mount --rbind /$d $d; done\n\
        for a in $(busybox --list); do [ $a = busybox ] || ln -s busybox bin/$a; done\n\
        echo 'root:x:0:0::/:/bin/sh' >etc/passwd\n\
        cat >bin/nvidia-smi <<'END'\n#!/bin/sh\ncase $1 in\n\
        --query-gpu=index,*) echo '0, GPU-1, Tiny, 00000000:01:00.0, 570.1, Enabled, P0, 40' ;;\n\
        *) echo \"GPU-1, $PPID, 12, tiny\" ;;\nesac\nEND\n\
        chmod 755 bin/nvidia-smi\nset -- env PATH=/bin /usr/sbin/chroot /mnt";
    let mut setup = in_namespace(Setup::new(Interpreter::Shell), script, None);
    let last = setup.shell.last_mut().unwrap();
    *last = last.replace("exec /bin/sh", "exec \"$@\" /bin/sh");
    let mut rig = Setup { state: None, ..setup }.start();
    let hello = rig.next().unwrap();
    assert_eq!((&hello["version"], &hello["user"]), (&"busybox".into(), &"root".into()));
    let host = rig.until("the host", |frame| {
        (frame["t"] == "sample" && frame["n"].as_u64() >= Some(3)).then(|| frame["host"].clone())
    });
    assert!(host["memory_total"].is_u64() && host["cpu"].is_array(), "{host}");
    // A row with too few columns is reported as an error and is no device.
    let error = rig.error();
    assert_eq!(error["code"], "parse");
    rig.finish();
}

/// Replaces `/etc/passwd` by one with these additional users.
fn add_users(names: &[(u32, &str)]) -> String {
    let mut script = "mount -t tmpfs none /mnt\ncp /etc/passwd /mnt/passwd\n".to_owned();
    for (uid, name) in names {
        writeln!(script, "printf '%b:x:{uid}:{uid}::/:/bin/sh\\n' '{name}' >>/mnt/passwd").unwrap();
    }
    script + "chmod 644 /mnt/passwd\nmount --bind /mnt/passwd /etc/passwd"
}

#[test]
fn hostile_user_names_stay_inside_their_strings() {
    if !can_unshare_mounts() {
        return;
    }
    let names = [
        (54321, r#"a,"b\\\\c"#),
        (54322, r"\033]0;owned\007\036gtop1 {}"),
        (54323, r"gr\303\274\303\237e\377"),
        (54324, r"two words"),
        (54325, r"CORP\\\\neil"),
    ];
    let sleepers: Vec<Sleeper> = names.iter().map(|(uid, _)| owned_by(*uid, "x")).collect();
    at_once(BOTH, |interpreter| {
        let setup = Setup::new(interpreter).state(&used_by(&sleepers));
        let mut rig = in_namespace(setup, &add_users(&names), None).start();
        // A name may come after the command line.
        let mut users = vec![String::new(); sleepers.len()];
        rig.until("every name", |frame| {
            for row in frame["processes"]["list"].as_array().into_iter().flatten() {
                let index = sleepers.iter().position(|sleeper| row["pid"] == sleeper.pid());
                if let (Some(index), Some(user)) = (index, row["user"].as_str()) {
                    user.clone_into(&mut users[index]);
                }
            }
            let is_name = |user: &String| !user.is_empty() && !user.starts_with("5432");
            users.iter().all(is_name).then_some(())
        });
        eprintln!("{interpreter:?}: {users:?}");
        assert_eq!(users[0], r#"a,"b\\c"#);
        assert_eq!(users[1].replace(' ', ""), "]0;ownedgtop1{}");
        assert_eq!(users[4], r"CORP\\neil");
        rig.finish();
    });
}

#[test]
fn the_user_of_the_probe_is_reported_unchanged() {
    if !can_unshare_mounts() {
        return;
    }
    at_once(BOTH, |interpreter| {
        let script = add_users(&[(54325, r"CORP\\neil")]);
        let mut rig = in_namespace(Setup::new(interpreter), &script, Some(54325)).start();
        let hello = rig
            .until("the name", |frame| (frame["user"].as_str()? != "54325").then(|| frame.clone()));
        assert_eq!((&hello["uid"], &hello["user"]), (&54325.into(), &r"CORP\neil".into()));
        rig.finish();
        // The user has no name, but a long LOGNAME.
        let environment = vec![("LOGNAME".to_owned(), "n\n\u{1b}[31m\u{fc}".repeat(9999).into())];
        let setup = Setup { environment, ..Setup::new(interpreter) };
        let mut rig = in_namespace(setup, "", Some(54399)).start();
        assert_eq!(rig.next().unwrap()["uid"], 54399);
        rig.sample();
        rig.finish();
    });
}

#[test]
fn many_processes_with_long_hostile_names_are_all_reported() {
    let names: Vec<Vec<u8>> = (0..320)
        .map(|i| format!("{i} ").into_bytes().into_iter().chain([0xff; 600]).collect())
        .collect();
    let sleepers: Vec<Sleeper> = names.iter().map(|name| Sleeper::named(name)).collect();
    // One after the other: with this many processes, an sh probe keeps a processor busy.
    for interpreter in BOTH {
        // The schema test rejects lines above a mebibyte.
        let mut rig = Setup::new(interpreter).state(&used_by(&sleepers)).start();
        let reported = rows(&mut rig, &sleepers);
        assert!(reported[319]["command"].as_str().unwrap().starts_with("319 "));
        rig.command(ProbeCommand::Full);
        rows(&mut rig, &sleepers);
        rig.finish();
    }
}

/// Adds devices with all their values to a scenario.
fn add_devices(scenario: &mut String, count: u32, is_split: bool) {
    for i in 0..count {
        let mig = u32::from(is_split);
        writeln!(
            scenario,
            "gpu {i} mig={mig} util=9{} used_mib=70000 power_avg_mw=638000 power_now_mw=639123 nvlinks=18 \
             nvlink_tx_kib=8123456789+90000000 nvlink_rx_kib=7123456789+80000000 pcie_tx=9123456789+1234567 \
             gpm_sm=70%20 gpm_tensor=40%20 name=NVIDIA H100 80GB HBM3",
            i % 10
        )
        .unwrap();
        for slice in 0..if is_split { 7 } else { 0 } {
            let gi = 7 + slice;
            writeln!(
                scenario,
                "slice {i} {slice} total_mib=9728 used_mib=900 gi={gi} ci=0 gpm_sm=10%20 name=1g.10gb"
            )
            .unwrap();
        }
    }
}

#[test]
fn the_largest_nodes_fit_into_a_frame_under_every_python() {
    let Some(library) = nvml_stub::folder(24) else { return };
    let sleepers: Vec<Sleeper> = (0..300).map(|_| Sleeper::named(&[b'\xff'; 600])).collect();
    at_once(main_pythons(), |python| {
        let name = python.display().to_string();
        at_once([(16, false), (8, true)], |(count, is_split)| {
            eprintln!("{name}: {count} devices, split: {is_split}");
            let mut scenario = "driver 570.133.20 12080\n".to_owned();
            add_devices(&mut scenario, count, is_split);
            for (index, sleeper) in sleepers.iter().enumerate() {
                let device = if is_split { index % 8 } else { 0 };
                let slice =
                    if is_split { format!("slice={}", index / 8 % 7) } else { String::new() };
                writeln!(scenario, "proc {device} {} 9 {slice}", sleeper.pid()).unwrap();
            }
            let environment = vec![("LD_LIBRARY_PATH".to_owned(), library.clone().into())];
            let pythons = Some(name.clone());
            let setup = Setup { pythons, environment, ..Setup::new(Interpreter::Python) };
            let mut rig = setup.state(&scenario).start();
            rows(&mut rig, &sleepers);
            let count = |list: &Value| list.as_array().map(Vec::len);
            rig.full_sample("everything in one frame", |full| {
                let backend = &full["backends"][0];
                count(&backend["devices"]) == Some(if is_split { 64 } else { 16 })
                    && count(&backend["uses"]["list"]) == Some(300)
                    && count(&full["processes"]["list"]) == Some(300)
            });
            rig.finish();
        });
    });
}

/// A Python without these modules.
fn python_without(modules: &[&str], folder: &std::path::Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join("python");
    let missing = modules.join("','");
    let script = format!(
        "#!/bin/sh\no=$1 c=$3\nshift 3\n\
        exec /usr/bin/python3 \"$o\" -c \"import sys;sys.modules.update(dict.fromkeys(['{missing}']));$c\" \"$@\"\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_python_without_ctypes_falls_back_to_nvidia_smi() {
    let Some(library) = nvml_stub::folder(24) else { return };
    // As built without libffi, and as in python3-minimal of Debian.
    at_once([&["_ctypes"][..], &["_ctypes", "mmap", "json", "_socket"]], |modules| {
        let folder = tempfile::tempdir().unwrap();
        let python = python_without(modules, folder.path());
        let environment = vec![("LD_LIBRARY_PATH".to_owned(), library.clone().into())];
        let pythons = Some(python.display().to_string());
        let mut rig = Setup {
            environment,
            pythons,
            interval: Duration::from_millis(200),
            ..Setup::new(Interpreter::Python)
        }
        .start();
        let why = rig.backend("nvml", "absent")["why"].as_str().unwrap().to_owned();
        assert!(why.contains("ctypes"), "{why}");
        rig.until("devices", |frame| (frame["backends"][0]["kind"] == "nvidia-smi").then_some(()));
        rig.finish();
    });
}

#[test]
fn a_node_without_local_file_systems_has_a_slow_sample() {
    let replacement = Some(("/proc/mounts | sort", "/dev/null | sort"));
    let mut rig = Setup { replacement, ..Setup::new(Interpreter::Shell) }.start();
    let space = rig.until("space", |frame| {
        let space = &frame["host_slow"]["space"];
        space.is_array().then(|| space.clone())
    });
    assert_eq!(space.as_array().unwrap().len(), 0);
    rig.finish();
}

#[test]
fn file_systems_of_any_name_are_reported() {
    if !can_unshare_mounts() {
        return;
    }
    let name = r#"/mnt/a,"b\033[31m\n\377 c"#;
    let script = format!(
        "mount -t tmpfs none /mnt\ndd if=/dev/zero of=/mnt/image bs=1M count=2\nmkfs.ext2 -q -F /mnt/image\n\
         p=$(printf '{name}x'); p=${{p%x}}\nmkdir \"$p\"\nmount -o loop /mnt/image \"$p\""
    );
    let mut probe = Program::new("unshare");
    let output =
        probe.args(["-m", "--propagation", "private", "/bin/sh", "-e", "-c", &script]).output();
    if !output.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no loop devices here");
        return;
    }
    at_once(BOTH, |interpreter| {
        let mut rig = in_namespace(Setup::new(interpreter), &script, None).start();
        let space = rig.until("space", |frame| {
            let space = &frame["host_slow"]["space"];
            space.is_array().then(|| space.clone())
        });
        let paths: Vec<&str> =
            space.as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
        eprintln!("{interpreter:?}: {paths:?}");
        // The sh probe passes only plain names to df.
        let is_reported = paths.contains(&"/mnt/a,\"b [31m \u{fffd} c");
        assert_eq!(is_reported, interpreter == Interpreter::Python, "{paths:?}");
        rig.finish();
    });
}
