//! What ends a probe ends nothing else, whatever `/bin/sh` is: each in a PID and a mount namespace of its own, among
//! processes of the same user and of others that write down every signal they get.

use std::ffi::OsString;

use gtop::probe::Interpreter;

use crate::environments::can_make_worlds;
use crate::harness::{Rig, Setup, TIMEOUT, installed};

/// Somebody without rights.
const NOBODY: u32 = 65534;

const SHELLS: [&str; 8] = ["dash", "bash", "busybox", "mksh", "zsh", "yash", "posh", "ksh93"];

/// Makes the world. `SHELL_UNDER_TEST` becomes `/bin/sh`; bystanders of both users stand in groups of their own; then
/// the probe runs as `RUN_BY`, in a session of its own or, where `SHARES` says so, in the group of the bystanders'
/// parent. Once it has gone, `REPORT` gets a line for each signal that anybody else got, for each bystander that has
/// gone; the last line is `end`. The probe's number begins with 1: procps 4.0 takes -9 -1234 for -9 -1.
///
/// The first process of the namespace never gets a signal from within that it has no use for: so the bystanders tell.
const WORLD: &str = r#"
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
    /// As it comes.
    Usual,
    /// By the shell under test itself, though it may do badly.
    Forced,
    /// The same in a group that is not its own.
    Sharing,
}

/// Runs a probe in the world of a shell, lets `end` end it, and returns the report.
fn report(shell: &str, mode: Mode, uid: u32, end: impl FnOnce(&mut Rig)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report");
    let set = |name: &str, value: &str| (name.to_owned(), OsString::from(value));
    let mut environment = vec![
        set("SHELL_UNDER_TEST", shell),
        set("RUN_BY", &uid.to_string()),
        set("REPORT", file.to_str().unwrap()),
        // What a login may call as it pleases is nobody to end.
        set("dead", "-1"),
        set("asleep", "-1"),
        set("timer", "-1"),
        set("s", "kill -s TERM -- -1;"),
    ];
    // This is how the probe knows that it has been started anew.
    environment.extend((mode != Mode::Usual).then(|| set("GTOP_SETSID", "1")));
    environment.extend((mode == Mode::Sharing).then(|| set("SHARES", "1")));
    let world = ["unshare", "-pfm", "--mount-proc", "--kill-child", "--propagation", "private"];
    let world = world.into_iter().chain(["/bin/bash", "-c", WORLD]);
    let setup = Setup {
        shell: world.map(str::to_owned).collect(),
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
    std::fs::read_to_string(&file).unwrap_or_else(|_| "the world ended with the probe".to_owned())
}

#[test]
fn the_end_of_an_sh_probe_reaches_nobody_else_whatever_sh_is() {
    if !can_make_worlds() {
        return;
    }
    for shell in installed(&SHELLS) {
        for mode in [Mode::Usual, Mode::Forced, Mode::Sharing] {
            for uid in [0, NOBODY] {
                eprintln!("{shell}, {mode:?}, as {uid}");
                let told = report(&shell, mode, uid, Rig::close);
                assert_eq!(told, "end\n", "{shell}, {mode:?}, as {uid}");
            }
        }
    }
}

#[test]
fn a_shell_whose_pipes_nobody_else_can_open_says_what_it_needs() {
    // By this name its pipes are sockets; as `sh` they are pipes.
    for shell in installed(&["ksh93"]) {
        let setup = Setup { program: Some(vec![shell]), ..Setup::new(Interpreter::Shell) };
        let mut rig = setup.start();
        let first = rig.next().unwrap();
        assert!(first["message"].as_str().unwrap().contains("install python3"), "{first}");
        rig.finish();
    }
}

#[test]
fn heartbeats_and_new_intervals_end_only_what_is_the_probes_own() {
    if !can_make_worlds() {
        return;
    }
    for shell in installed(&["dash", "posh"]) {
        let told = report(&shell, Mode::Forced, 0, |rig| {
            for millis in [500, 600, 700] {
                rig.command(gtop::probe::Command::Heartbeat);
                let interval = std::time::Duration::from_millis(millis);
                rig.command(gtop::probe::Command::Interval(interval));
            }
            rig.sample();
            rig.sample();
            rig.close();
        });
        assert_eq!(told, "end\n", "{shell}");
    }
}

#[test]
fn where_proc_is_about_other_processes_nobody_is_signalled() {
    if !can_make_worlds() {
        return;
    }
    for interpreter in crate::harness::BOTH {
        // Without --mount-proc: /proc goes on to show those outside.
        let world = ["unshare", "-pf", "--kill-child", "/bin/bash", "-c"];
        let script = "trap : USR1\nsetsid /bin/sh -c \"$0\" <&0 &\nwait\n";
        let shell = world.into_iter().chain([script]).map(str::to_owned).collect();
        let mut rig = Setup { shell, ..Setup::new(interpreter) }.start();
        rig.sample();
        let mut bystander = crate::processes::Victim::new();
        let signal = gtop::model::Signal::User1;
        let answer = rig.ask(gtop::model::ProcessRequest::Signal(bystander.key(), signal));
        assert_eq!(answer["result"], "refused", "{interpreter:?}: {answer}");
        rig.finish();
        assert!(bystander.0.try_wait().unwrap().is_none(), "{interpreter:?}");
    }
}
