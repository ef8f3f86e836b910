//! Golden screens of the process view, in every theme and on every kind of fleet.

use std::sync::LazyLock;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gtop_fleet::{Fleet, Node, Process};
use gtop_model::{
    Bytes, Environment, NodeName, ProcessDetail, ProcessKey, ProcessRequest, ProcessResponse,
    ProcessState, ProcessTree, Reading, Reason, Refusal, RequestError, Signal, TreeProcess,
    Variable,
};
use gtop_ui::{DisplayOptions, NodeReply, NodeRequest};
use gtop_ui::{Keymap, LoopEffect, StopReason, Theme, Ui, UiRequest};

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::{
    ALL_SIZES, ASCII, DARK, MEDIUM, NARROW, Scene, WIDE, check_fleets, check_sheet, draw, key,
    new_ui, press, text,
};

const KEYS: &[KeyCode] = &[KeyCode::Char('4')];

#[test]
fn processes_in_sizes_and_looks() {
    Scene::new("processes", &fleets::every_state(), KEYS).check(&ALL_SIZES);
    let ascii = Scene::new("processes-ascii", &fleets::every_state(), KEYS);
    ascii.check_look(ASCII, NARROW);
}

#[test]
fn processes_on_every_kind_of_fleet() {
    check_fleets("processes-on", KEYS);
}

/// The fleet with processes of every kind; it is built once.
fn process_fleet() -> Fleet {
    static FLEET: LazyLock<Fleet> = LazyLock::new(fleets::process_kinds);
    FLEET.clone()
}

/// Returns a UI on the process view of that fleet, after these keys.
fn process_ui(theme: Theme, keys: &[KeyCode]) -> Ui {
    let mut ui = new_ui(process_fleet(), theme);
    press(&mut ui, KEYS);
    press(&mut ui, keys);
    ui
}

fn process_scene(name: &'static str, keys: &[KeyCode]) -> Scene {
    let keys = keys.to_vec();
    Scene::of(name, move |theme| process_ui(theme, &keys))
}

#[test]
fn processes_of_every_kind() {
    let down = KeyCode::Down;
    let mark = KeyCode::Char(' ');
    let scenes = [
        process_scene("marked", &[down, mark, down, mark, KeyCode::Home]),
        process_scene("sort-menu", &[KeyCode::Char('o')]),
        process_scene("by-memory", &[KeyCode::Char('o'), KeyCode::Char('m')]),
        process_scene("node", &[down, KeyCode::Char('s')]),
        process_scene("compact", &[KeyCode::Char('c'), KeyCode::Char('\\')]),
        process_scene("full", &[KeyCode::Char('f'), KeyCode::Right]),
        process_scene("end", &[KeyCode::End, KeyCode::Char('$')]),
    ];
    check_sheet("processes-kinds", NARROW, &scenes);
    process_scene("processes-kinds", &[]).check(&[MEDIUM, WIDE]);
    process_scene("processes-kinds-ascii", &[]).check_look(ASCII, NARROW);
}

const ALICE_PROCESS: ProcessKey = ProcessKey { pid: 4_121, start_ticks: 412_100 };

fn reply(
    process_request: ProcessRequest,
    result: Result<ProcessResponse, RequestError>,
) -> NodeReply {
    let node = NodeName::new("gpu01").unwrap();
    NodeReply { request: NodeRequest { node, process_request }, result, at: NOW }
}

fn tree_process(pid: u32, parent_pid: u32, user: &str, command: &str) -> TreeProcess {
    TreeProcess {
        key: ProcessKey { pid, start_ticks: 100 * u64::from(pid) },
        parent_pid,
        uid: Reading::Known(1000),
        user: Reading::Known(user.into()),
        state: Reading::Known(ProcessState::Sleeping),
        cpu_ticks: Reading::Known(800),
        resident: Reading::Known(Bytes(5 << 30)),
        command: Reading::Known(command.into()),
    }
}

pub fn tree() -> NodeReply {
    let mut gone = tree_process(4_130, 4_121, "alice", "");
    gone.state = Reading::Known(ProcessState::Zombie);
    let processes = vec![
        tree_process(1, 0, "root", "/usr/lib/systemd/systemd --system"),
        tree_process(4_100, 1, "root", "slurmstepd: [8421.0]"),
        tree_process(4_121, 4_100, "alice", "/opt/conda/bin/python train.py --tp 8"),
        tree_process(4_128, 4_121, "alice", "pt_data_worker"),
        tree_process(4_129, 4_128, "alice", "日本語 の worker"),
        gone,
        tree_process(4_139, 1, "bob", "-bash"),
        tree_process(4_140, 4_139, "bob", "./render e\u{301}"),
    ];
    reply(
        ProcessRequest::Tree(None),
        Ok(ProcessResponse::Tree(ProcessTree { processes, is_truncated: false })),
    )
}

fn variable(name: &str, value: &str) -> Variable {
    Variable { name: name.into(), value: value.into() }
}

pub fn environment() -> NodeReply {
    let mut variables = vec![
        variable("PATH", "/opt/conda/bin:/usr/bin:/bin"),
        variable("HOME", "/home/alice"),
        variable("SCRIPT", "line one␤line two␤"),
        variable("LONG", &"0123456789".repeat(40)),
        variable("ÜBER", "日本語 e\u{301}"),
    ];
    variables.extend((0..60).map(|number| variable(&format!("SLURM_{number:02}"), "x")));
    let found = Environment { variables, is_truncated: true };
    reply(ProcessRequest::Environment(ALICE_PROCESS), Ok(ProcessResponse::Environment(found)))
}

pub fn detail() -> NodeReply {
    let words = |text: &str| Reading::Known(text.into());
    let found = ProcessDetail {
        process: tree_process(4_121, 4_100, "alice", "/opt/conda/bin/python train.py --tp 8"),
        threads: Reading::Known(112),
        niceness: Reading::Known(0),
        virtual_memory: Reading::Known(Bytes(96 << 30)),
        peak_resident: Reading::Known(Bytes(41 << 30)),
        swapped: Reading::Known(Bytes(0)),
        voluntary_switches: Reading::Known(1_234_567),
        involuntary_switches: Reading::Known(89),
        directory: words("/scratch/alice/run"),
        program: words("/opt/conda/bin/python3.11"),
        cgroup: words("/system.slice/slurmstepd.scope/job_8421/step_0"),
        wchan: words("futex_wait_queue"),
        io: Reading::Unknown(Reason::NoPermission),
        limits: Vec::new(),
    };
    reply(ProcessRequest::Detail(ALICE_PROCESS), Ok(ProcessResponse::Detail(Box::new(found))))
}

/// Opens a page of the first process and delivers the reply of its node.
pub fn ui_with_page(theme: Theme, page: KeyCode, answer: &NodeReply) -> Ui {
    let mut ui = process_ui(theme, &[KeyCode::Down]);
    let effect = ui.on_key(key(page), NOW);
    assert_eq!(effect, LoopEffect::Request(UiRequest::QueryNodes(vec![answer.request.clone()])));
    ui.on_reply(answer, NOW);
    ui
}

#[test]
fn pages_of_a_process() {
    let page = |name, code, answer: NodeReply| {
        let ui = move |theme| {
            let mut ui = ui_with_page(theme, code, &answer);
            show_load_for_half_a_minute(&mut ui);
            ui.on_reply(&answer, NOW);
            ui
        };
        Scene::of(name, ui).at(NOW.plus(Duration::from_secs(30)))
    };
    let scenes = [
        page("tree", KeyCode::Char('t'), tree()),
        page("environment", KeyCode::Char('e'), environment()),
        page("metrics", KeyCode::Enter, detail()),
    ];
    check_sheet("processes-pages", NARROW, &scenes);
    check_sheet("processes-pages", WIDE, &scenes);
    page("processes-tree-ascii", KeyCode::Char('t'), tree()).check_look(ASCII, NARROW);
}

/// Changes the load of the processes of the first node each second.
fn show_load_for_half_a_minute(ui: &mut Ui) {
    for second in 1..=30 {
        let mut fleet = process_fleet();
        let mut node = Node::clone(fleet.nodes.first().unwrap());
        let with_load = |mut process: Process| {
            process.cpu_percent = Reading::Known(90.0 + (second * 37 % 60) as f32);
            process
        };
        node.processes = node.processes.iter().cloned().map(with_load).collect();
        let rest = fleet.nodes.iter().skip(1).cloned();
        fleet.nodes = std::iter::once(std::sync::Arc::new(node)).chain(rest).collect();
        ui.on_fleet(fleet, NOW.plus(Duration::from_secs(second)));
    }
}

fn screen(ui: &mut Ui) -> String {
    text(&draw(ui, 120, 40)).join("\n")
}

#[test]
fn a_page_shows_why_a_request_failed() {
    for (code, answer) in [
        (KeyCode::Char('t'), tree()),
        (KeyCode::Char('e'), environment()),
        (KeyCode::Enter, detail()),
    ] {
        let mut ui = process_ui(DARK, &[KeyCode::Down]);
        ui.on_key(key(code), NOW);
        assert!(screen(&mut ui).contains("the node"), "{}", screen(&mut ui));
        let refused = RequestError::from(Refusal::NotAllowed("it belongs to another user".into()));
        ui.on_reply(&NodeReply { result: Err(refused), ..answer }, NOW);
        assert!(screen(&mut ui).contains("not allowed: it belongs to another user"));
        press(&mut ui, &[KeyCode::Esc, KeyCode::Esc]);
        assert!(screen(&mut ui).contains("GPU-MEM") || screen(&mut ui).contains("DEV-MEM"));
    }
}

/// Opens the signal dialog on `count` tagged processes.
pub fn ui_with_signal_dialog(theme: Theme, count: usize) -> Ui {
    let mut keys = vec![KeyCode::Down];
    keys.extend([KeyCode::Char(' ')].repeat(count));
    keys.push(KeyCode::Char('T'));
    process_ui(theme, &keys)
}

#[test]
fn the_signal_dialog_asks_and_shows_what_was_sent() {
    let done = |theme| {
        let mut ui = ui_with_signal_dialog(theme, 3);
        let LoopEffect::Request(UiRequest::SignalProcesses(requests)) =
            ui.on_key(key(KeyCode::Enter), NOW)
        else {
            panic!("nothing is sent")
        };
        assert_eq!(requests.len(), 3, "a process on two devices is one");
        let refused = RequestError::from(Refusal::NotAllowed("it belongs to another user".into()));
        let results = [Ok(ProcessResponse::Sent), Err(refused), Ok(ProcessResponse::Sent)];
        for (request, result) in requests.into_iter().zip(results) {
            ui.on_reply(&NodeReply { request, result, at: NOW }, NOW);
        }
        ui
    };
    let scenes = [
        process_scene("menu", &[KeyCode::Down, KeyCode::F(9)]),
        Scene::of("asks", |theme| ui_with_signal_dialog(theme, 3)),
        Scene::of("done", done),
    ];
    check_sheet("processes-signal", NARROW, &scenes);
    check_sheet("processes-signal", WIDE, &scenes[..1]);
}

#[test]
fn tagged_processes_that_the_filter_hides_get_no_signal() {
    let mut keys = vec![KeyCode::Down];
    keys.extend([KeyCode::Char(' ')].repeat(3));
    let filter = |text: &str| {
        let letters = format!("/{text}").chars().map(KeyCode::Char).collect::<Vec<_>>();
        [letters, vec![KeyCode::Enter]].concat()
    };
    keys.extend(filter("user=bob"));
    let mut ui = process_ui(DARK, &keys);
    assert!(screen(&mut ui).contains("3 tagged, 2 not shown"), "{}", screen(&mut ui));
    press(&mut ui, &[KeyCode::Char('T')]);
    let question =
        "send TERM to this process, leaving out 2 hidden by the filter?  Enter sends, Esc cancels";
    assert!(screen(&mut ui).contains(question), "{}", screen(&mut ui));
    let LoopEffect::Request(UiRequest::SignalProcesses(requests)) =
        ui.on_key(key(KeyCode::Enter), NOW)
    else {
        panic!("nothing is sent")
    };
    let pids: Vec<_> = requests.iter().map(|request| &request.process_request).collect();
    assert!(
        matches!(&*pids, [ProcessRequest::Signal(ProcessKey { pid: 4140, .. }, _)]),
        "{pids:?}"
    );

    keys.truncate(4);
    keys.extend(filter("user=dave"));
    let mut ui = process_ui(DARK, &keys);
    press(&mut ui, &[KeyCode::Char('T')]);
    assert!(screen(&mut ui).contains("the filter hides all tagged"), "{}", screen(&mut ui));
}

#[test]
fn a_long_list_of_targets_is_bounded_and_scrolls() {
    let mut keys = vec![KeyCode::End];
    keys.extend([KeyCode::Up].repeat(40));
    keys.extend([KeyCode::Char(' ')].repeat(30));
    keys.push(KeyCode::Char('K'));
    let first = process_scene("first", &keys);
    keys.push(KeyCode::End);
    let scenes = [first, process_scene("end", &keys)];
    check_sheet("processes-signal-many", NARROW, &scenes);
}

#[test]
fn the_signal_dialog_shows_that_a_process_has_ended() {
    let mut ui = process_ui(DARK, &[KeyCode::Down, KeyCode::Char('K')]);
    assert!(!screen(&mut ui).contains("the process has ended"));
    ui.on_fleet(fleets::first_process_ended(), NOW.plus(Duration::from_secs(1)));
    assert!(screen(&mut ui).contains("the process has ended"), "{}", screen(&mut ui));
    // The same for a node that is no longer monitored.
    ui.on_fleet(fleets::single(), NOW.plus(Duration::from_secs(2)));
    assert!(screen(&mut ui).contains("no longer monitored"), "{}", screen(&mut ui));
    let LoopEffect::Request(UiRequest::SignalProcesses(requests)) =
        ui.on_key(key(KeyCode::Enter), NOW)
    else {
        panic!("nothing is sent")
    };
    let request = requests.into_iter().next().unwrap();
    assert_eq!(request.process_request, ProcessRequest::Signal(ALICE_PROCESS, Signal::Kill));
    ui.on_reply(&NodeReply { request, result: Err(RequestError::UnknownNode), at: NOW }, NOW);
    assert!(screen(&mut ui).contains("this node is not monitored"));
}

#[test]
fn a_reply_after_the_dialog_closed_is_still_reported() {
    let mut ui = process_ui(DARK, &[KeyCode::Down, KeyCode::Char('I')]);
    let LoopEffect::Request(UiRequest::SignalProcesses(requests)) =
        ui.on_key(key(KeyCode::Enter), NOW)
    else {
        panic!("nothing is sent")
    };
    press(&mut ui, &[KeyCode::Esc, KeyCode::Char('1')]);
    let request = requests.into_iter().next().unwrap();
    let answer = Err(RequestError::from(Refusal::Reused));
    ui.on_reply(&NodeReply { request, result: answer, at: NOW }, NOW);
    let shown = screen(&mut ui);
    assert!(shown.contains("INT not sent to 4121 on gpu01: the process has ended"), "{shown}");
}

#[test]
fn ended_processes_stay_at_the_bottom_for_a_while() {
    let later = |millis: u64| NOW.plus(Duration::from_millis(millis));
    let gone = move |theme| {
        let keys = [KeyCode::Down, KeyCode::Char('s'), KeyCode::Down];
        let mut ui = process_ui(theme, &keys);
        ui.on_fleet(fleets::first_process_ended(), later(1_000));
        ui
    };
    Scene::of("processes-gone", gone).check(&[NARROW]);
    let mut ui = gone(DARK);
    let shown = screen(&mut ui);
    assert!(shown.contains("gone python train.py"), "{shown}");
    assert!(shown.find("4140").unwrap() < shown.find("gone python").unwrap(), "{shown}");
    // It can be selected, but no signal is sent to it.
    assert_eq!(ui.on_key(key(KeyCode::Char('K')), NOW), LoopEffect::Handled);
    assert!(screen(&mut ui).contains("the process has ended"));
    ui.on_fleet(fleets::first_process_ended(), later(7_000));
    assert!(!screen(&mut ui).contains("gone python"), "{}", screen(&mut ui));
}

#[test]
fn the_page_of_an_ended_process_is_old() {
    let open = [KeyCode::Down, KeyCode::Enter];
    let ended = move |theme| {
        let mut ui = process_ui(theme, &open);
        ui.on_fleet(fleets::first_process_ended(), NOW.plus(Duration::from_secs(1)));
        ui
    };
    let scenes = [process_scene("running", &open), Scene::of("ended", ended)];
    check_sheet("processes-page", NARROW, &scenes);
}

#[test]
fn control_c_interrupts_the_selected_process_or_quits() {
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    let mut ui = process_ui(DARK, &[]);
    assert_eq!(ui.on_key(control_c, NOW), LoopEffect::Exit(StopReason::Interrupted));
    let mut ui = process_ui(DARK, &[KeyCode::Down]);
    assert_eq!(ui.on_key(control_c, NOW), LoopEffect::Handled);
    assert!(screen(&mut ui).contains("send INT to this process?"));
    let LoopEffect::Request(UiRequest::SignalProcesses(requests)) =
        ui.on_key(key(KeyCode::Enter), NOW)
    else {
        panic!("nothing is sent")
    };
    assert_eq!(
        requests[0].process_request,
        ProcessRequest::Signal(ALICE_PROCESS, Signal::Interrupt)
    );
}

#[test]
fn readonly_removes_signals_everywhere() {
    let display = DisplayOptions { is_readonly: true, ..DisplayOptions::default() };
    let mut ui = new_ui(process_fleet(), DARK).with_options(display, Keymap::default());
    press(&mut ui, &[KeyCode::Char('4'), KeyCode::Down]);
    for code in [KeyCode::Char('T'), KeyCode::Char('K'), KeyCode::Char('I'), KeyCode::F(9)] {
        assert_eq!(ui.on_key(key(code), NOW), LoopEffect::Handled);
        assert!(!screen(&mut ui).contains("send "), "{}", screen(&mut ui));
    }
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(ui.on_key(control_c, NOW), LoopEffect::Exit(StopReason::Interrupted));
    assert!(!screen(&mut ui).contains("K end"));
    press(&mut ui, &[KeyCode::Char('h')]);
    let mut help = String::new();
    for _ in 0..20 {
        help.push_str(&screen(&mut ui));
        press(&mut ui, &[KeyCode::PageDown]);
    }
    for word in ["send TERM", "send KILL", "send INT", "send a signal"] {
        assert!(!help.contains(word), "{word}: {help}");
    }
}

#[test]
fn the_node_view_sends_signals_too() {
    let mut ui = new_ui(process_fleet(), DARK);
    press(&mut ui, &[KeyCode::Enter, KeyCode::Char('T')]);
    assert!(screen(&mut ui).contains("no process is under the cursor"));
    press(&mut ui, &[KeyCode::Enter, KeyCode::End, KeyCode::Char('T')]);
    assert!(screen(&mut ui).contains("send TERM to this process?"), "{}", screen(&mut ui));
    press(&mut ui, &[KeyCode::Esc, KeyCode::F(9)]);
    assert!(screen(&mut ui).contains("SIGTERM"), "{}", screen(&mut ui));
}

#[test]
fn columns_stay_aligned_whatever_a_command_contains() {
    let mut ui = process_ui(DARK, &[]);
    let lines = text(&draw(&mut ui, 120, 40));
    let column = |word: &str| {
        let line = lines.iter().find(|line| line.contains(word)).unwrap();
        unicode_width::UnicodeWidthStr::width(line.split(word).next().unwrap())
    };
    let title = column("COMMAND");
    for word in ["python train.py", "a\u{5e9}\u{5dc}", "no permission", "zombie", "vllm"] {
        assert_eq!(column(word), title, "{word}");
    }
    for line in &lines {
        assert!(unicode_width::UnicodeWidthStr::width(line.as_str()) <= 120, "{line}");
    }
}

#[test]
fn video_use_adds_columns() {
    let mut ui = process_ui(DARK, &[KeyCode::Char('o'), KeyCode::Char('e')]);
    let lines = text(&draw(&mut ui, 200, 50));
    let title = lines.iter().position(|line| line.contains("%EN↓  %DEC")).unwrap();
    assert!(lines[title + 1].contains("   18     –  "), "{lines:#?}");
    let mut ui = new_ui(fleets::single(), DARK);
    press(&mut ui, KEYS);
    assert!(!text(&draw(&mut ui, 200, 50)).concat().contains("%ENC"));
}

#[test]
fn a_filter_selects_processes() {
    let mut ui = process_ui(DARK, &[]);
    press(&mut ui, &[KeyCode::Char('/')]);
    press(&mut ui, &"user=bob".chars().map(KeyCode::Char).collect::<Vec<_>>());
    press(&mut ui, &[KeyCode::Enter]);
    let shown = screen(&mut ui);
    assert!(shown.contains("1 process on 1 node") && !shown.contains("alice"), "{shown}");
}

#[test]
fn the_tree_is_queried_again_while_it_is_open() {
    let mut ui = ui_with_page(DARK, KeyCode::Char('t'), &tree());
    assert_eq!(ui.due(), None);
    ui.on_fleet(process_fleet(), NOW.plus(Duration::from_secs(1)));
    assert_eq!(ui.due(), None);
    ui.on_fleet(process_fleet(), NOW.plus(Duration::from_secs(2)));
    assert_eq!(ui.due(), Some(UiRequest::QueryNodes(vec![tree().request])));
    ui.on_fleet(process_fleet(), NOW.plus(Duration::from_secs(3)));
    assert_eq!(ui.due(), None, "only one query at a time");
    press(&mut ui, &[KeyCode::Char('t')]);
    ui.on_fleet(process_fleet(), NOW.plus(Duration::from_secs(60)));
    assert_eq!(ui.due(), None);
}

#[test]
fn the_tree_is_that_of_the_selected_process_and_never_of_a_hidden_node() {
    let node = |keys: &[KeyCode], filter: &str| {
        let mut ui = process_ui(DARK, &[KeyCode::Char('1'), KeyCode::Home, KeyCode::Char('4')]);
        press(&mut ui, &[KeyCode::Char('/')]);
        press(&mut ui, &filter.chars().map(KeyCode::Char).collect::<Vec<_>>());
        press(&mut ui, &[KeyCode::Enter]);
        press(&mut ui, keys);
        let pressed = KeyEvent::new(KeyCode::Char('t'), KeyModifiers::NONE);
        let LoopEffect::Request(UiRequest::QueryNodes(requests)) = ui.on_key(pressed, NOW) else {
            return None;
        };
        requests.first().map(|request| request.node.to_string())
    };
    assert_eq!(node(&[], ""), Some("gpu01".to_owned()));
    assert_eq!(node(&[], "!node=gpu01"), Some("gpu02".to_owned()));
    assert_eq!(node(&[], "node=nowhere"), None);
    for keys in [&[KeyCode::End][..], &[KeyCode::End, KeyCode::Enter]] {
        let last = node(keys, "").unwrap();
        assert_ne!(last, "gpu01", "{keys:?}");
        assert_eq!(node(keys, "!node=gpu01"), Some(last), "{keys:?}");
    }
}

#[test]
fn pages_draw_at_any_size() {
    for (code, answer) in [
        (KeyCode::Char('t'), tree()),
        (KeyCode::Char('e'), environment()),
        (KeyCode::Enter, detail()),
    ] {
        let mut ui = ui_with_page(DARK, code, &answer);
        for width in [1, 2, 5, 13, 29, 40, 59, 60, 61, 100, 139, 140, 333] {
            for height in [1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 24, 100] {
                draw(&mut ui, width, height);
            }
        }
    }
    for keys in [vec![], vec![KeyCode::Char('T')], vec![KeyCode::F(9)], vec![KeyCode::Char('o')]] {
        let mut all = vec![KeyCode::Down];
        all.extend(keys);
        let mut ui = process_ui(DARK, &all);
        for width in (1..30).chain([40, 59, 60, 79, 80, 99, 110, 140, 500]) {
            for height in [1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 24, 100] {
                draw(&mut ui, width, height);
            }
        }
    }
}
