//! No process of a probe outlives its session, even if calls hang.

use std::time::{Duration, Instant};

use gtop_collect::probe::ProbeCommand;
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::probe::{BOTH, Rig, Setup, TIMEOUT, at_once, gpus};

/// More than a heartbeat takes on a busy machine.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(5);

fn with_hanging_smi() -> String {
    gpus(2) + "fault nvidia-smi hang\n"
}

/// Waits until the probe runs nvidia-smi; keeps it alive until then.
fn wait_for_smi(rig: &mut Rig) {
    let deadline = Instant::now() + TIMEOUT;
    let is_smi = |pid: &u32| {
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        cmdline.windows(11).any(|window| window == b"--query-gpu")
    };
    while !rig.leftover_pids().iter().any(is_smi) {
        assert!(Instant::now() < deadline, "nvidia-smi was never run");
        rig.command(ProbeCommand::Heartbeat);
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn at_eof_no_process_remains_even_with_a_hanging_nvidia_smi() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).state(&with_hanging_smi()).start();
        rig.sample();
        wait_for_smi(&mut rig);
        let closed = Instant::now();
        rig.close();
        let why = rig.until("bye", |frame| (frame["t"] == "bye").then(|| frame["why"].clone()));
        assert_eq!(why, "stdin closed");
        assert!(rig.exits_within(TIMEOUT), "{interpreter:?}: {:?}", rig.leftover_pids());
        eprintln!("{interpreter:?}: gone after {:?}", closed.elapsed());
    });
}

#[test]
fn at_eof_no_process_remains_even_without_a_reader() {
    at_once(BOTH, |interpreter| {
        let setup = Setup { interval: Duration::from_millis(50), ..Setup::new(interpreter) };
        let mut rig = setup.state(&gpus(32)).start_unread();
        rig.wait_until_full();
        rig.close();
        assert!(rig.exits_within(TIMEOUT), "{interpreter:?}: {:?}", rig.leftover_pids());
    });
}

#[test]
fn without_heartbeats_the_probe_ends() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup { deadman: HEARTBEAT_TIMEOUT, ..Setup::new(interpreter) }
            .state(&with_hanging_smi())
            .start();
        wait_for_smi(&mut rig);
        assert!(rig.exits_within(TIMEOUT), "{interpreter:?}: {:?}", rig.leftover_pids());
    });
}

#[test]
fn without_heartbeats_the_probe_ends_even_without_a_reader() {
    at_once(BOTH, |interpreter| {
        let interval = Duration::from_millis(50);
        let setup = Setup { interval, deadman: HEARTBEAT_TIMEOUT, ..Setup::new(interpreter) };
        let mut rig = setup.state(&gpus(32)).start_unread();
        rig.wait_until_full();
        assert!(rig.exits_within(TIMEOUT), "{interpreter:?}: {:?}", rig.leftover_pids());
    });
}

#[test]
fn heartbeats_keep_the_probe_alive() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup { deadman: HEARTBEAT_TIMEOUT, ..Setup::new(interpreter) }.start();
        let started = Instant::now();
        while started.elapsed() < 3 * HEARTBEAT_TIMEOUT / 2 {
            rig.command(ProbeCommand::Heartbeat);
            rig.sample();
        }
        assert!(rig.exits_within(TIMEOUT), "{interpreter:?}: {:?}", rig.leftover_pids());
    });
}

#[test]
fn a_signal_ends_all_processes_of_the_probe() {
    at_once(BOTH, |interpreter| {
        at_once([Signal::TERM, Signal::HUP, Signal::INT], |end| {
            let mut rig = Setup::new(interpreter).state(&with_hanging_smi()).start();
            rig.sample();
            wait_for_smi(&mut rig);
            signal(rig.child.id(), end);
            assert!(
                rig.exits_within(TIMEOUT),
                "{interpreter:?} {end:?}: {:?}",
                rig.leftover_pids()
            );
        });
    });
}

#[test]
fn the_children_of_a_killed_python_probe_end() {
    let mut rig = Setup::new(BOTH[0]).state(&with_hanging_smi()).start();
    rig.sample();
    wait_for_smi(&mut rig);
    signal(rig.child.id(), Signal::KILL);
    assert!(rig.exits_within(TIMEOUT), "{:?}", rig.leftover_pids());
}

#[test]
fn an_alarm_ends_a_stuck_child_of_a_killed_probe() {
    let Some(library) = crate::harness::nvml_stub::folder(24) else { return };
    let environment = vec![("LD_LIBRARY_PATH".to_owned(), library.into())];
    let setup = Setup { deadman: HEARTBEAT_TIMEOUT, environment, ..Setup::new(BOTH[0]) };
    let mut rig = setup.state(&(gpus(1) + "fault nvmlDeviceGetTemperature hang\n")).start();
    // Once the call is reported as stuck, the child is blocked in it.
    loop {
        rig.command(ProbeCommand::Heartbeat);
        let frame = rig.next().unwrap();
        if frame["t"] == "error" && frame["call"].as_str().unwrap().contains("Temperature") {
            break;
        }
    }
    signal(rig.child.id(), Signal::KILL);
    assert!(rig.exits_within(TIMEOUT), "{:?}", rig.leftover_pids());
}

#[test]
fn a_closed_stdout_ends_the_probe() {
    at_once(BOTH, |interpreter| {
        let mut rig = Setup::new(interpreter).start_unread();
        rig.close_stdout();
        assert!(rig.exits_within(TIMEOUT), "{interpreter:?}: {:?}", rig.leftover_pids());
    });
}

#[test]
fn an_sh_probe_in_a_shared_process_group_ends_only_itself() {
    at_once([true, false], |setsid| {
        // With this variable, the probe assumes that it was started by setsid(1).
        let environment =
            if setsid { vec![] } else { vec![("GTOP_SETSID".to_owned(), "1".into())] };
        let setup = Setup { environment, ..Setup::new(BOTH[1]) };
        let mut rig = setup.state(&with_hanging_smi()).start_in_our_group();
        rig.start_reading();
        rig.sample();
        wait_for_smi(&mut rig);
        rig.finish();
    });
}

#[test]
fn a_paused_reader_misses_ticks_but_never_part_of_a_frame() {
    at_once(BOTH, |interpreter| {
        let setup = Setup { interval: Duration::from_millis(50), ..Setup::new(interpreter) };
        let mut rig = setup.state(&gpus(32)).start_unread();
        rig.wait_until_full();
        rig.start_reading();
        let mut numbers = Vec::new();
        let deadline = Instant::now() + TIMEOUT;
        // Each line is validated when it is read. Current frames follow the gap.
        while !numbers.windows(2).any(|pair: &[u64]| pair[1] > pair[0] + 1) {
            numbers.push(rig.sample()["n"].as_u64().unwrap());
            assert!(Instant::now() < deadline, "{interpreter:?}: {numbers:?}");
        }
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        rig.finish();
    });
}
