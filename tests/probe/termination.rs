//! Sessions end: no process of a probe outlives its session, whatever hangs.

use std::time::{Duration, Instant};

use gtop::probe::Command;
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{BOTH, Rig, Setup, TIMEOUT, gpus};

fn hanging() -> String {
    gpus(2) + "fault nvidia-smi hang\n"
}

/// Waits until the probe runs nvidia-smi.
fn wait_for_smi(rig: &Rig) {
    let deadline = Instant::now() + TIMEOUT;
    let is_smi = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.windows(11).any(|window| window == b"--query-gpu")
    };
    while !rig.leftover_pids().iter().any(is_smi) {
        assert!(Instant::now() < deadline, "nvidia-smi was never run");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn at_eof_nothing_is_left_even_with_nvidia_smi_hanging() {
    for interpreter in BOTH {
        let mut rig = Setup::new(interpreter).state(&hanging()).start();
        rig.sample();
        wait_for_smi(&rig);
        let closed = Instant::now();
        rig.close();
        let why = rig.until("bye", |frame| (frame["t"] == "bye").then(|| frame["why"].clone()));
        assert_eq!(why, "stdin closed");
        assert!(rig.exits_within(TIMEOUT), "{interpreter:?}: {:?}", rig.leftover_pids());
        eprintln!("{interpreter:?}: gone after {:?}", closed.elapsed());
    }
}

#[test]
fn at_eof_nothing_is_left_even_when_nobody_reads() {
    for interpreter in BOTH {
        let setup = Setup { interval: Duration::from_millis(50), ..Setup::new(interpreter) };
        let mut rig = setup.state(&gpus(32)).start_unread();
        rig.fill();
        rig.close();
        assert!(rig.exits_within(TIMEOUT), "{interpreter:?}: {:?}", rig.leftover_pids());
    }
}

#[test]
fn without_heartbeats_it_ends_by_itself() {
    for interpreter in BOTH {
        let deadman = Duration::from_secs(10);
        let mut rig = Setup { deadman, ..Setup::new(interpreter) }.state(&hanging()).start();
        wait_for_smi(&rig);
        assert!(rig.exits_within(TIMEOUT), "{interpreter:?}: {:?}", rig.leftover_pids());
    }
}

#[test]
fn without_heartbeats_it_ends_even_when_nobody_reads() {
    for interpreter in BOTH {
        let deadman = Duration::from_secs(20);
        let interval = Duration::from_millis(50);
        let setup = Setup { interval, deadman, ..Setup::new(interpreter) };
        let mut rig = setup.state(&gpus(32)).start_unread();
        rig.fill();
        assert!(rig.exits_within(TIMEOUT), "{interpreter:?}: {:?}", rig.leftover_pids());
    }
}

#[test]
fn heartbeats_keep_it_alive() {
    for interpreter in BOTH {
        let deadman = Duration::from_secs(8);
        let mut rig = Setup { deadman, ..Setup::new(interpreter) }.start();
        let begun = Instant::now();
        while begun.elapsed() < 2 * deadman {
            rig.command(Command::Heartbeat);
            rig.sample();
        }
        assert!(rig.exits_within(TIMEOUT), "{interpreter:?}: {:?}", rig.leftover_pids());
    }
}

#[test]
fn a_signal_ends_all_of_it() {
    for interpreter in BOTH {
        for end in [Signal::TERM, Signal::HUP, Signal::INT] {
            let mut rig = Setup::new(interpreter).state(&hanging()).start();
            rig.sample();
            wait_for_smi(&rig);
            signal(rig.child.id(), end);
            assert!(
                rig.exits_within(TIMEOUT),
                "{interpreter:?} {end:?}: {:?}",
                rig.leftover_pids()
            );
        }
    }
}

#[test]
fn killed_outright_the_python_probe_still_takes_its_children_along() {
    let mut rig = Setup::new(BOTH[0]).state(&hanging()).start();
    rig.sample();
    wait_for_smi(&rig);
    signal(rig.child.id(), Signal::KILL);
    assert!(rig.exits_within(TIMEOUT), "{:?}", rig.leftover_pids());
}

#[test]
fn killed_outright_with_a_child_stuck_in_the_driver_the_childs_own_alarm_ends_it() {
    let Some(library) = crate::library::folder(24) else { return };
    let environment = vec![("LD_LIBRARY_PATH".to_owned(), library.into())];
    let deadman = Duration::from_secs(10);
    let setup = Setup { deadman, environment, ..Setup::new(BOTH[0]) };
    let mut rig = setup.state(&(gpus(1) + "fault nvmlDeviceGetTemperature hang\n")).start();
    // It is said to hang in the call, so it looks at nothing else any more.
    loop {
        rig.command(Command::Heartbeat);
        let frame = rig.next().unwrap();
        if frame["t"] == "error" && frame["call"].as_str().unwrap().contains("Temperature") {
            break;
        }
    }
    signal(rig.child.id(), Signal::KILL);
    assert!(rig.exits_within(TIMEOUT), "{:?}", rig.leftover_pids());
}

#[test]
fn a_closed_stdout_ends_it() {
    for interpreter in BOTH {
        let mut rig = Setup::new(interpreter).start_unread();
        rig.close_stdout();
        assert!(rig.exits_within(TIMEOUT), "{interpreter:?}: {:?}", rig.leftover_pids());
    }
}

#[test]
fn an_sh_probe_that_shares_its_group_ends_itself_and_no_other() {
    for setsid in [true, false] {
        // This is how the probe knows that it has been through setsid(1).
        let environment =
            if setsid { vec![] } else { vec![("GTOP_SETSID".to_owned(), "1".into())] };
        let setup = Setup { environment, ..Setup::new(BOTH[1]) };
        let mut rig = setup.state(&hanging()).start_in_our_group();
        rig.read();
        rig.sample();
        wait_for_smi(&rig);
        rig.finish();
    }
}

#[test]
fn a_reader_that_stops_loses_ticks_and_never_part_of_a_frame() {
    for interpreter in BOTH {
        let setup = Setup { interval: Duration::from_millis(50), ..Setup::new(interpreter) };
        let mut rig = setup.state(&gpus(32)).start_unread();
        rig.fill();
        rig.read();
        let mut numbers = Vec::new();
        let deadline = Instant::now() + TIMEOUT;
        // Every line is judged as it is read. After the gap come frames of now.
        while !numbers.windows(2).any(|pair: &[u64]| pair[1] > pair[0] + 1) {
            numbers.push(rig.sample()["n"].as_u64().unwrap());
            assert!(Instant::now() < deadline, "{interpreter:?}: {numbers:?}");
        }
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        rig.finish();
    }
}
