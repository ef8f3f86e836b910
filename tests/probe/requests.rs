//! Process requests to a probe: each gets one answer about the right process, and no other process is signalled.

use std::process::Command as Program;

use gtop_collect::probe::{Interpreter, ProbeCommand};
use gtop_model::{ProcessKey, ProcessRequest, Signal};
use rustix::process::Signal as Raw;
use serde_json::Value;

use crate::harness::probe::{BOTH, NODE, Rig, Setup, TIMEOUT, at_once, gpus};
use crate::harness::sleeper::{Sleeper, key, stat};
use crate::probe::processes::{is_root, probes};

const TERM: Signal = Signal::Terminate;

fn python() -> Setup {
    Setup::new(Interpreter::Python)
}

fn result(answer: &Value) -> &str {
    answer["result"].as_str().unwrap()
}

/// A probe that runs as the user nobody.
fn run_as_nobody(interpreter: Interpreter) -> Setup {
    let shell = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/bin/sh", "-c"];
    let setup = Setup::new(interpreter);
    let pythons = setup.pythons.clone().or(Some("/usr/bin/python3".to_owned()));
    Setup { shell: shell.map(str::to_owned).to_vec(), pythons, ..setup }
}

#[test]
fn a_signal_reaches_only_its_target() {
    at_once(probes(), |(name, setup)| {
        eprintln!("{name}");
        let (mut target, mut other) = (Sleeper::new(), Sleeper::new());
        let mut rig = setup.start();
        let hello = rig.next().unwrap();
        let commands = hello["commands"].as_array().unwrap();
        assert!(commands.contains(&"signal".into()), "{name}: {hello}");
        let late = ProcessKey { start_ticks: target.key().start_ticks + 1, ..target.key() };
        assert_eq!(result(&rig.request(ProcessRequest::Signal(late, TERM))), "reused", "{name}");
        assert!(target.is_alive());
        // The requested process has ended, and another one has its pid.
        let earlier = ProcessKey { start_ticks: target.key().start_ticks - 1, ..target.key() };
        assert_eq!(result(&rig.request(ProcessRequest::Signal(earlier, TERM))), "reused", "{name}");
        assert!(target.is_alive());
        let sent = rig.request(ProcessRequest::Signal(target.key(), TERM));
        assert_eq!((result(&sent), &sent["why"]), ("sent", &Value::Null), "{name}");
        let status = target.0.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15), "{name}");
        assert!(other.is_alive(), "{name}");
        let ended = ProcessKey { pid: target.pid(), start_ticks: 1 };
        // If the pid is in use again, it belongs to another process.
        assert!(
            ["gone", "reused"].contains(&result(&rig.request(ProcessRequest::Signal(ended, TERM)))),
            "{name}"
        );
        rig.finish();
    });
}

#[test]
fn an_ended_process_that_is_not_reaped_is_a_zombie() {
    at_once(probes(), |(name, setup)| {
        let target = Sleeper::new();
        let key = target.key();
        target.signal(Raw::KILL);
        while stat(target.pid())[0] != "Z" {
            std::thread::yield_now();
        }
        let mut rig = setup.start();
        assert_eq!(result(&rig.request(ProcessRequest::Signal(key, TERM))), "zombie", "{name}");
        rig.finish();
    });
}

#[test]
fn protected_processes_are_not_signalled() {
    at_once(probes(), |(name, setup)| {
        eprintln!("{name}");
        let mut rig = setup.start();
        rig.sample();
        let mut protected = vec![(1, "never signalled"), (rig.child.id(), "the probe itself")];
        let is_kernel =
            std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n");
        protected.extend(is_kernel.then_some((2, "a kernel thread")));
        for (pid, why) in protected {
            let answer = rig.request(ProcessRequest::Signal(key(pid), Signal::User1));
            let reason = answer["why"].as_str().unwrap();
            assert!(result(&answer) == "refused" && reason.contains(why), "{name}: {answer}");
        }
        rig.sample();
        rig.finish();
    });
}

#[test]
fn invalid_requests_are_answered_with_an_error_and_do_nothing() {
    at_once(probes(), |(name, setup)| {
        eprintln!("{name}");
        let mut target = Sleeper::new();
        let ProcessKey { pid, start_ticks } = target.key();
        let mut rig = setup.start();
        rig.sample();
        for (number, rest) in (900..).zip([
            format!("\"signal\",\"pid\":{pid}"),
            format!("\"signal\",\"pid\":{pid},\"start\":{start_ticks}"),
            format!("\"signal\",\"pid\":{pid},\"start\":{start_ticks},\"signal\":32"),
            format!("\"signal\",\"pid\":{pid},\"start\":{start_ticks},\"signal\":-15"),
            format!("\"signal\",\"pid\":{pid},\"start\":{start_ticks},\"signal\":15.0"),
            format!("\"signal\",\"pid\":{pid},\"start\":{start_ticks},\"signal\":$(kill {pid})"),
            format!("\"signal\",\"pid\":-{pid},\"start\":{start_ticks},\"signal\":15"),
            format!(
                "\"signal\",\"pid\":{}{pid},\"start\":{start_ticks},\"signal\":15",
                "9".repeat(30)
            ),
            "\"dance\"".to_owned(),
            "\"\"".to_owned(),
        ]) {
            rig.write(
                format!("{{\"id\":{number},\"node\":\"{NODE}\",\"verb\":{rest}}}\n").as_bytes(),
            );
            let answer = rig.read_answer(number);
            assert_eq!(result(&answer), "bad", "{name}: {rest}: {answer}");
        }
        assert!(target.is_alive(), "{name}");
        rig.finish();
    });
}

#[test]
fn processes_of_other_users_are_not_signalled() {
    if !is_root() {
        return;
    }
    at_once(BOTH, |interpreter| {
        let (mut ours, theirs) = (Sleeper::new(), Sleeper::of(65534));
        let mut rig = run_as_nobody(interpreter).start();
        rig.sample();
        let refused = rig.request(ProcessRequest::Signal(ours.key(), Signal::Kill));
        assert_eq!(
            (result(&refused), &refused["why"]),
            ("refused", &"it belongs to another user".into())
        );
        assert!(ours.is_alive());
        assert_eq!(
            result(&rig.request(ProcessRequest::Signal(theirs.key(), Signal::Kill))),
            "sent"
        );
        rig.finish();
    });
}

#[test]
fn a_setuid_process_belongs_to_the_user_who_started_it() {
    if !is_root() {
        return;
    }
    // The real, the effective and the saved user.
    let with_ids = |ids: &str| {
        let code = format!("import os,time;os.setresuid({ids});print(flush=True);time.sleep(1000)");
        let mut program = Program::new("/usr/bin/python3");
        program.args(["-ISc", &code]).stdin(std::process::Stdio::null());
        let mut child = program.stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut ready = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        Sleeper(child)
    };
    at_once(BOTH, |interpreter| {
        let (theirs, mut setuid) = (with_ids("65534,0,0"), with_ids("0,65534,0"));
        let mut rig = run_as_nobody(interpreter).start();
        rig.sample();
        let refused = rig.request(ProcessRequest::Signal(setuid.key(), Signal::Kill));
        let why = "it belongs to another user".into();
        assert_eq!((result(&refused), &refused["why"]), ("refused", &why), "{interpreter:?}");
        assert!(setuid.is_alive());
        let sent = rig.request(ProcessRequest::Signal(theirs.key(), Signal::Kill));
        assert_eq!(result(&sent), "sent", "{interpreter:?}: {sent}");
        rig.finish();
    });
}

#[test]
fn private_details_are_only_sent_to_the_owner() {
    if !is_root() {
        return;
    }
    let ours = Sleeper::with(|command| command.env("TOKEN", "hunter2"));
    let mut rig = run_as_nobody(Interpreter::Python).start();
    rig.sample();
    let refused = rig.request(ProcessRequest::Environment(ours.key()));
    assert_eq!(result(&refused), "refused", "{refused}");
    assert!(!refused.to_string().contains("hunter2"));
    let detail = &rig.request(ProcessRequest::Detail(ours.key()))["detail"];
    for key in ["cwd", "exe", "io"] {
        assert!(detail[key].is_null(), "{key}: {detail}");
    }
    assert_eq!((&detail["uid"], &detail["command"]), (&0.into(), &"sleep 1000".into()));
    rig.finish();
}

#[test]
fn an_environment_has_no_control_characters_and_may_be_cut() {
    at_once(probes().into_iter().filter(|(name, _)| name.contains("python")), |(name, setup)| {
        eprintln!("{name}");
        let small = Sleeper::with(|command| {
            command
                .env_clear()
                .env("A", "b=c \"d\" \\")
                .env("LINES", "one\ntwo\x1b[2J")
                .env("É", "ü")
        });
        let big = Sleeper::with(|command| {
            command.env("X", "x".repeat(100_000)).env("Y", "y".repeat(100_000))
        });
        let mut rig = setup.start();
        rig.sample();
        let answer = rig.request(ProcessRequest::Environment(small.key()));
        assert_eq!((result(&answer), &answer["cut"]), ("ok", &Value::Null), "{answer}");
        let mut list: Vec<&str> =
            answer["environ"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
        list.sort_unstable();
        assert_eq!(list, ["A=b=c \"d\" \\", "LINES=one two [2J", "É=ü"], "{name}");
        let answer = rig.request(ProcessRequest::Environment(big.key()));
        assert_eq!((result(&answer), &answer["cut"]), ("ok", &true.into()));
        let length: usize = answer["environ"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one.as_str().unwrap().len())
            .sum();
        assert!((100_000..=131_072).contains(&length), "{length}");
        let late = ProcessKey { start_ticks: 1, ..small.key() };
        assert_eq!(result(&rig.request(ProcessRequest::Environment(late))), "reused");
        rig.finish();
    });
}

#[test]
fn details_describe_the_requested_process() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    at_once(probes().into_iter().filter(|(name, _)| name.contains("python")), |(name, setup)| {
        let target = Sleeper::with(|command| command.current_dir(&folder));
        let mut rig = setup.start();
        rig.sample();
        let answer = rig.request(ProcessRequest::Detail(target.key()));
        let detail = &answer["detail"];
        assert_eq!(detail["cwd"], folder.to_str().unwrap(), "{name}: {answer}");
        assert!(
            detail["exe"].as_str().unwrap().contains("sleep")
                || detail["exe"].as_str().unwrap().contains("coreutils")
        );
        assert_eq!((&detail["threads"], &detail["state"]), (&1.into(), &"S".into()));
        assert_eq!(detail["nice"].to_string(), stat(target.pid())[16]);
        let limits = detail["limits"].as_array().unwrap();
        let files = limits.iter().find(|limit| limit[0] == "Max open files").unwrap();
        assert!(files[1].as_str().unwrap().parse::<u64>().is_ok(), "{files}");
        assert_eq!(detail["io"].as_array().unwrap().len(), 4);
        rig.finish();
    });
}

/// The pids of a tree, in which each process comes after its parent.
fn pids(answer: &Value) -> Vec<u64> {
    let mut seen: Vec<u64> = Vec::new();
    let rows = answer["tree"].as_array().unwrap();
    let all: Vec<u64> = rows.iter().map(|row| row["pid"].as_u64().unwrap()).collect();
    for row in rows {
        let parent = row["ppid"].as_u64().unwrap();
        assert!(!all.contains(&parent) || seen.contains(&parent), "{row} before its parent");
        seen.push(row["pid"].as_u64().unwrap());
    }
    seen
}

#[test]
fn a_tree_contains_all_ancestors_and_descendants() {
    at_once(probes().into_iter().filter(|(name, _)| name.contains("python")), |(name, setup)| {
        eprintln!("{name}");
        let mut family = Program::new("sh");
        let family = family.args(["-c", "sleep 1000 & sleep 1001 & wait"]).spawn().unwrap();
        let family = Sleeper(family);
        let other = Sleeper::new();
        let children = || -> Vec<u32> {
            let pid = family.pid();
            let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            text.unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect()
        };
        while children().len() < 2 {
            std::thread::yield_now();
        }
        let state = gpus(1) + &format!("proc 0 {} 9\n", family.pid());
        let mut rig = setup.state(&state).start();
        let answer = rig.request(ProcessRequest::Tree(Some(family.key())));
        let found = pids(&answer);
        let mut expected = vec![u64::from(std::process::id()), family.pid().into()];
        expected.extend(children().into_iter().map(u64::from));
        assert!(expected.iter().all(|pid| found.contains(pid)), "{name}: {answer}");
        assert!(!found.contains(&other.pid().into()), "{name}: a sibling");
        // The tree of all processes on devices, once the probe knows them.
        rig.until("the process", |frame| {
            (frame["processes"]["list"][0]["pid"] == family.pid()).then_some(())
        });
        let answer = rig.request(ProcessRequest::Tree(None));
        assert!(expected.iter().all(|pid| pids(&answer).contains(pid)), "{name}: {answer}");
        assert!(!pids(&answer).contains(&other.pid().into()));
        let ended = ProcessKey { pid: family.pid(), start_ticks: 1 };
        assert_eq!(result(&rig.request(ProcessRequest::Tree(Some(ended)))), "reused");
        for pid in children() {
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            let _killed = rustix::process::kill_process(pid, Raw::KILL);
        }
        rig.finish();
    });
}

#[test]
fn a_tree_that_is_too_large_loses_descendants() {
    let mut parent_of_many = Program::new("sh");
    let parent_of_many = parent_of_many
        .args(["-c", "i=0; while [ $i -lt 1100 ]; do sleep 1000 & i=$((i+1)); done; wait"]);
    let parent_of_many = Sleeper(
        std::os::unix::process::CommandExt::process_group(parent_of_many, 0).spawn().unwrap(),
    );
    let count = || {
        let pid = parent_of_many.pid();
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        text.unwrap_or_default().split_whitespace().count()
    };
    while count() < 1100 {
        std::thread::yield_now();
    }
    let mut rig = python().start();
    let answer = rig.request(ProcessRequest::Tree(Some(parent_of_many.key())));
    assert_eq!((answer["tree"].as_array().unwrap().len(), &answer["cut"]), (1024, &true.into()));
    assert!(pids(&answer).contains(&std::process::id().into()));
    rig.finish();
    let group =
        rustix::process::Pid::from_raw(i32::try_from(parent_of_many.pid()).unwrap()).unwrap();
    rustix::process::kill_process_group(group, Raw::KILL).unwrap();
}

#[test]
fn each_of_many_concurrent_requests_is_answered() {
    let target = Sleeper::new();
    let mut rig = python().start();
    rig.sample();
    for number in 0..40 {
        rig.command(ProbeCommand::Request(match number % 3 {
            0 => ProcessRequest::Detail(target.key()),
            1 => ProcessRequest::Environment(target.key()),
            _ => ProcessRequest::Signal(target.key(), Signal::Continue),
        }));
    }
    let mut numbers = Vec::new();
    rig.until("all answers", |frame| {
        if frame["t"] == "answer" {
            assert!(["ok", "sent"].contains(&result(frame)), "{frame}");
            numbers.push(frame["id"].as_u64().unwrap());
        }
        (numbers.len() == 40).then_some(())
    });
    assert_eq!(numbers, (1..=40).collect::<Vec<u64>>());
    rig.finish();
}

/// Waits until a probe has started the children that it starts by itself.
fn until_no_child_starts(rig: &mut Rig) {
    rig.until("all evidence", |frame| (frame["evidence"]["complete"] == true).then_some(()));
}

/// The child of a probe that answers requests: the youngest process.
fn answering_child(rig: &Rig) -> u32 {
    let start = |pid: &u32| stat(*pid)[19].parse::<u64>().unwrap();
    rig.leftover_pids().into_iter().max_by_key(|pid| (start(pid), *pid)).unwrap()
}

#[test]
fn a_hanging_request_and_the_next_one_are_both_answered() {
    let target = Sleeper::new();
    let mut rig = Setup { state: None, ..python() }.start();
    until_no_child_starts(&mut rig);
    let before = rig.leftover_pids();
    assert_eq!(result(&rig.request(ProcessRequest::Detail(target.key()))), "ok");
    let child = answering_child(&rig);
    assert!(!before.contains(&child));
    let child = rustix::process::Pid::from_raw(i32::try_from(child).unwrap()).unwrap();
    rustix::process::kill_process(child, Raw::STOP).unwrap();
    let answer = rig.request(ProcessRequest::Detail(target.key()));
    assert_eq!(result(&answer), "failed", "{answer}");
    assert!(answer["why"].as_str().unwrap().contains("hangs"), "{answer}");
    assert_eq!(result(&rig.request(ProcessRequest::Detail(target.key()))), "ok");
    rig.finish();
}

#[test]
fn the_answering_child_ends_when_idle() {
    let target = Sleeper::new();
    let replacement = Some(("IDLE_TIMEOUT = 10.0", "IDLE_TIMEOUT = 3.0"));
    let mut rig = Setup { state: None, replacement, ..python() }.start();
    until_no_child_starts(&mut rig);
    assert_eq!(result(&rig.request(ProcessRequest::Detail(target.key()))), "ok");
    let child = answering_child(&rig);
    let deadline = std::time::Instant::now() + TIMEOUT;
    while rig.leftover_pids().contains(&child) {
        assert!(std::time::Instant::now() < deadline, "{:?}", rig.leftover_pids());
        rig.sample();
    }
    rig.finish();
}
