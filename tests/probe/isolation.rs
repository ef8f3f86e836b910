//! An ending probe signals no other process, whatever `/bin/sh` is. Each probe runs in its own PID and mount namespace,
//! among processes of the same and of other users that log every signal they get.

use std::ffi::OsString;

use gtop_collect::probe::Interpreter;

use crate::harness::probe::{BOTH, Rig, Setup, TIMEOUT, at_once, installed};
use crate::harness::sleeper::Sleeper;
use crate::probe::environments::can_unshare_mounts;

/// An unprivileged user.
const NOBODY: u32 = 65534;

const SHELLS: [&str; 8] = ["dash", "bash", "busybox", "mksh", "zsh", "yash", "posh", "ksh93"];

/// Sets up the namespace.
///
/// `SHELL_UNDER_TEST` becomes `/bin/sh`, and bystanders of both users run in their own groups. Then
/// the probe runs as `RUN_BY`, in its own session or, if `SHARES` is set, in the group of the bystanders'
/// parent. After its end, `REPORT` gets a line for each signal that another process got and for each bystander that
/// ended; the last line is `end`. The pid of the probe begins with 1, as procps 4.0 parses -9 -1234 as -9 -1.
///
/// The bystanders log signals because the kernel delivers to the first process of a namespace only signals that it
/// handles.
const NAMESPACE_SCRIPT: &str = r#"
set -e
mount -t tmpfs -o mode=755 none /mnt
mkdir /mnt/real /mnt/bin
mount --bind /usr/bin /mnt/real
ln -s /mnt/real/* /mnt/bin
ln -sfn "/mnt/real/$SHELL_UNDER_TEST" /mnt/bin/sh
mount --bind /mnt/bin /usr/bin
mkdir -m 777 /mnt/ready
: >/mnt/signals
chmod 666 /mnt/signals
bystander='for s in 1 2 3 6 10 12 13 14 15 24 25; do trap "echo $s >>/mnt/signals" $s; done
    : >/mnt/ready/$$; while :; do sleep 1000 & wait $!; done'
for user in 0 65534; do
    for apart in setsid env; do
        env -i setpriv --reuid $user --regid $user --clear-groups \
            $apart /mnt/real/bash -c "$bystander" </dev/null >/dev/null 2>&1 &
    done
done
while [ "$(ls /mnt/ready | wc -l)" -lt 4 ]; do sleep 0.02; done
bystanders=$(ls /mnt/ready)
exec 3<&0
own=setsid
[ -z "$SHARES" ] || own=env
echo 1000 >/proc/sys/kernel/ns_last_pid
setpriv --reuid $RUN_BY --regid $RUN_BY --clear-groups $own /bin/sh -c "$0" <&3 3<&- &
probe=$!
exec 3<&- </dev/null >/dev/null
wait $probe || :
left() {
    for stat in /proc/[0-9]*/stat; do
        read -r line 2>/dev/null <$stat || continue
        set -- ${line##*) }
        case $1 in Z) continue ;; esac
        [ "$3" != "$probe" ] || return 0
    done
    return 1
}
while left; do sleep 0.02; done
{
    sed 's/^/signal /' /mnt/signals
    for pid in $bystanders; do kill -0 $pid || echo "gone $pid"; done
    echo end
} >"$REPORT"
"#;

/// How the probe is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// The default.
    Default,
    /// Under the shell under test itself, even if the probe would choose another one.
    Forced,
    /// The same in a shared process group.
    Sharing,
}

/// Runs a probe in the namespace of a shell, ends it with `end`, and returns the report.
fn report(shell: &str, mode: Mode, uid: u32, end: impl FnOnce(&mut Rig)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    let set = |name: &str, value: &str| (name.to_owned(), OsString::from(value));
    let mut environment = vec![
        set("SHELL_UNDER_TEST", shell),
        set("RUN_BY", &uid.to_string()),
        set("REPORT", file.to_str().unwrap()),
        // Variables from the login environment must not name processes to signal.
        set("dead_man", "-1"),
        set("sleep_pid", "-1"),
        set("timer", "-1"),
        set("s", "kill -s TERM -- -1;"),
    ];
    // The probe sets this when it restarts itself.
    environment.extend((mode != Mode::Default).then(|| set("GTOP_SETSID", "1")));
    environment.extend((mode == Mode::Sharing).then(|| set("SHARES", "1")));
    let namespace = ["unshare", "-pfm", "--mount-proc", "--kill-child", "--propagation", "private"];
    let namespace = namespace.into_iter().chain(["/bin/bash", "-c", NAMESPACE_SCRIPT]);
    let setup = Setup {
        shell: namespace.map(str::to_owned).collect(),
        environment,
        ..Setup::new(Interpreter::Shell)
    };
    let mut rig = setup.start();
    let first = rig.next().unwrap();
    assert_eq!(first["t"], "hello", "{shell} {mode:?}: {first}");
    if mode == Mode::Forced && ["dash", "bash", "busybox", "posh", "ksh93"].contains(&shell) {
        assert_eq!(first["version"], shell);
    }
    end(&mut rig);
    assert!(rig.exits_within(TIMEOUT), "{shell} {mode:?}: {:?}", rig.leftover_pids());
    std::fs::read_to_string(&file)
        .unwrap_or_else(|_| "the namespace ended with the probe".to_owned())
}

#[test]
fn an_ending_sh_probe_signals_no_other_process_under_any_shell() {
    if !can_unshare_mounts() {
        return;
    }
    at_once(installed(&SHELLS), |shell| {
        for mode in [Mode::Default, Mode::Forced, Mode::Sharing] {
            for uid in [0, NOBODY] {
                eprintln!("{shell}, {mode:?}, as {uid}");
                let report = report(&shell, mode, uid, Rig::close);
                assert_eq!(report, "end\n", "{shell}, {mode:?}, as {uid}");
            }
        }
    });
}

#[test]
fn a_shell_with_sockets_as_pipes_asks_for_python() {
    // Started as `ksh93` it uses sockets for pipes, started as `sh` real pipes.
    at_once(installed(&["ksh93"]), |shell| {
        let setup = Setup { program: Some(vec![shell]), ..Setup::new(Interpreter::Shell) };
        let mut rig = setup.start();
        let first = rig.next().unwrap();
        assert!(first["message"].as_str().unwrap().contains("install python3"), "{first}");
        rig.finish();
    });
}

#[test]
fn heartbeats_and_new_intervals_signal_only_own_processes() {
    if !can_unshare_mounts() {
        return;
    }
    at_once(installed(&["dash", "posh"]), |shell| {
        let report = report(&shell, Mode::Forced, 0, |rig| {
            for millis in [500, 600, 700] {
                rig.command(gtop_collect::probe::ProbeCommand::Heartbeat);
                let interval = std::time::Duration::from_millis(millis);
                rig.command(gtop_collect::probe::ProbeCommand::Interval(interval));
            }
            rig.sample();
            rig.sample();
            rig.close();
        });
        assert_eq!(report, "end\n", "{shell}");
    });
}

#[test]
fn no_process_is_signalled_under_the_proc_of_another_namespace() {
    if !can_unshare_mounts() {
        return;
    }
    at_once(BOTH, |interpreter| {
        // Without --mount-proc, /proc shows the processes outside the namespace.
        let namespace = ["unshare", "-pf", "--kill-child", "/bin/bash", "-c"];
        let script = "trap : USR1\nsetsid /bin/sh -c \"$0\" <&0 &\nwait\n";
        let shell = namespace.into_iter().chain([script]).map(str::to_owned).collect();
        let mut rig = Setup { shell, ..Setup::new(interpreter) }.start();
        rig.sample();
        let mut bystander = Sleeper::new();
        let signal = gtop_model::Signal::User1;
        let answer = rig.request(gtop_model::ProcessRequest::Signal(bystander.key(), signal));
        assert_eq!(answer["result"], "refused", "{interpreter:?}: {answer}");
        rig.finish();
        assert!(bystander.is_alive(), "{interpreter:?}");
    });
}
