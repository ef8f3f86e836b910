//! Key schemes: one machine with the keys of nvitop, nvtop and htop.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gtop_fleet::Fleet;
use gtop_model::{ProcessKey, ProcessRequest};
use gtop_ui::{DisplayOptions, KeyScheme, Keymap, LoopEffect, Palette, Theme, Ui, UiRequest};

use crate::golden::fleets::{self, NOW, NodeFixture};
use crate::golden::harness::{DARK, MEDIUM, NARROW, Scene, draw, key, new_ui, press, text, views};

const HOT: Theme = Theme { palette: Palette::Hot, ..DARK };
/// The processes in the order of the screen.
const PIDS: [u32; 3] = [4_101, 4_102, 4_103];

/// One machine with two devices and three processes.
fn machine() -> Fleet {
    let fixture = NodeFixture::new("workstation")
        .devices(&[92.0, 40.0])
        .process(0, PIDS[0], "alice", "", "python /home/alice/train.py --epochs 90 --lr 0.01")
        .process(0, PIDS[1], "bob", "", "python serve.py")
        .process(1, PIDS[2], "carol", "", "python finetune.py");
    Fleet::new(vec![fixture.up().node()].into())
}

fn ui_with(scheme: KeyScheme) -> Ui {
    themed_ui(scheme, HOT)
}

fn themed_ui(scheme: KeyScheme, theme: Theme) -> Ui {
    let display = DisplayOptions { key_scheme: scheme, ..DisplayOptions::default() };
    let keys = Keymap::default().with_scheme(scheme);
    let mut ui = new_ui(Fleet::default(), theme).with_options(display, keys);
    ui.on_fleet(machine(), NOW);
    ui
}

fn screen(ui: &mut Ui) -> String {
    text(&draw(ui, 120, 40)).join("\n")
}

fn letters(letters: &str) -> Vec<KeyCode> {
    letters.chars().map(KeyCode::Char).collect()
}

fn control(letter: char) -> KeyEvent {
    KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL)
}

/// Returns the request that a key makes.
fn request(ui: &mut Ui, code: KeyCode) -> ProcessRequest {
    let effect = ui.on_key(key(code), NOW);
    let LoopEffect::Request(
        UiRequest::QueryNodes(mut requests) | UiRequest::SignalProcesses(mut requests),
    ) = effect
    else {
        panic!("{code:?}: {effect:?}")
    };
    requests.remove(0).process_request
}

fn is_about(key: ProcessKey, pid: u32) {
    assert_eq!(key.pid, pid);
}

#[test]
fn one_machine_with_the_keys_of_nvitop() {
    let pressed = |keys: Vec<KeyCode>| {
        move |theme| {
            let mut ui = themed_ui(KeyScheme::Nvitop, theme);
            press(&mut ui, &keys);
            ui
        }
    };
    Scene::of("keys-nvitop", pressed(vec![KeyCode::Down])).check(&[NARROW]);
    Scene::of("keys-nvitop-help", pressed(letters("?"))).check(&[MEDIUM]);
}

#[test]
fn the_key_that_quits_closes_the_help_first_in_every_scheme_and_view() {
    for scheme in KeyScheme::ALL {
        for (view, code) in views() {
            let mut ui = ui_with(scheme);
            press(&mut ui, &[code, KeyCode::Char('?')]);
            assert!(screen(&mut ui).contains("Signs and colours"), "{}", screen(&mut ui));
            assert_eq!(ui.on_key(key(KeyCode::Char('q')), NOW), LoopEffect::Handled);
            assert!(!screen(&mut ui).contains("Signs and colours"), "{scheme:?} {view:?}");
        }
    }
}

#[test]
fn the_first_enter_opens_the_first_process_in_every_scheme() {
    for scheme in KeyScheme::ALL {
        for view in ['3', '4'] {
            let mut ui = ui_with(scheme);
            press(&mut ui, &letters(&view.to_string()));
            let ProcessRequest::Detail(key) = request(&mut ui, KeyCode::Enter) else { panic!() };
            is_about(key, PIDS[0]);
            assert!(screen(&mut ui).contains("process  4101"), "{}", screen(&mut ui));
            // As it opens the page, it closes it.
            let before = view == '3';
            press(&mut ui, &[KeyCode::Enter]);
            assert!(!screen(&mut ui).contains("process  4101"), "{}", screen(&mut ui));
            assert_eq!(shows_machine(&mut ui), before, "{}", screen(&mut ui));
        }
    }
}

/// Returns true if the node view is shown.
fn shows_machine(ui: &mut Ui) -> bool {
    screen(ui).lines().any(|line| line.starts_with("workstation  "))
}

#[test]
fn keys_for_one_process_stay_on_the_machine_and_say_that_none_is_selected() {
    for letter in [' ', 'e'] {
        let mut ui = ui_with(KeyScheme::Nvitop);
        press(&mut ui, &letters(&letter.to_string()));
        let shown = screen(&mut ui);
        assert!(shown.contains("no process is under the cursor"), "{letter}: {shown}");
        assert!(shows_machine(&mut ui), "{letter}: {shown}");
    }
}

#[test]
fn one_escape_leaves_the_tree() {
    let mut ui = ui_with(KeyScheme::Nvitop);
    press(&mut ui, &[KeyCode::Down, KeyCode::Char('t'), KeyCode::Down]);
    assert!(!shows_machine(&mut ui));
    press(&mut ui, &[KeyCode::Esc]);
    assert!(shows_machine(&mut ui), "{}", screen(&mut ui));
}

#[test]
fn down_selects_the_first_process_and_pages_lead_back_to_the_machine() {
    let mut ui = ui_with(KeyScheme::Nvitop);
    let machine = shows_machine;
    press(&mut ui, &[KeyCode::Tab, KeyCode::Tab]);
    let ProcessRequest::Environment(key) = request(&mut ui, KeyCode::Char('e')) else { panic!() };
    is_about(key, PIDS[1]);
    assert!(!machine(&mut ui));
    press(&mut ui, &letters("q"));
    assert!(machine(&mut ui), "{}", screen(&mut ui));
    let ProcessRequest::Tree(_) = request(&mut ui, KeyCode::Char('t')) else { panic!() };
    press(&mut ui, &letters("t"));
    assert!(machine(&mut ui), "{}", screen(&mut ui));
    let ProcessRequest::Detail(key) = request(&mut ui, KeyCode::Enter) else { panic!() };
    is_about(key, PIDS[1]);
    press(&mut ui, &[KeyCode::Esc]);
    assert!(machine(&mut ui), "{}", screen(&mut ui));
    // On the machine, q quits.
    assert!(matches!(ui.on_key(key_of('q'), NOW), LoopEffect::Exit(_)));
}

fn key_of(letter: char) -> KeyEvent {
    key(KeyCode::Char(letter))
}

#[test]
fn k_asks_to_kill_and_control_c_interrupts_the_selected_process() {
    let mut ui = ui_with(KeyScheme::Nvitop);
    // Without a selection, Ctrl-C quits.
    assert!(matches!(ui.on_key(control('c'), NOW), LoopEffect::Exit(_)));
    press(&mut ui, &[KeyCode::Down, KeyCode::Char('k')]);
    assert!(screen(&mut ui).contains("send KILL to this process?"), "{}", screen(&mut ui));
    press(&mut ui, &[KeyCode::Esc]);
    assert_eq!(ui.on_key(control('c'), NOW), LoopEffect::Handled);
    assert!(screen(&mut ui).contains("send INT to this process?"), "{}", screen(&mut ui));
}

#[test]
fn readonly_schemes_send_no_signals() {
    for scheme in KeyScheme::ALL {
        let display =
            DisplayOptions { is_readonly: true, key_scheme: scheme, ..DisplayOptions::default() };
        let keys = Keymap::default().with_scheme(scheme);
        let mut ui = new_ui(Fleet::default(), HOT).with_options(display, keys);
        ui.on_fleet(machine(), NOW);
        press(&mut ui, &[KeyCode::Down]);
        press(&mut ui, &letters("kKTI"));
        press(&mut ui, &[KeyCode::F(9)]);
        assert!(!screen(&mut ui).contains("send "), "{scheme:?}: {}", screen(&mut ui));
    }
}

#[test]
fn o_and_a_letter_sort_as_in_nvitop() {
    for (keys, order) in [
        ("om", "by share of host memory"),
        ("og", "by device memory"),
        ("oP", "by pid, reversed"),
        ("on", "by node and device"),
        ("on/", "by node and device, reversed"),
    ] {
        let mut ui = ui_with(KeyScheme::Nvitop);
        press(&mut ui, &letters(keys));
        let shown = screen(&mut ui);
        assert!(shown.contains(order), "{keys}: {shown}");
        assert!(shows_machine(&mut ui), "{keys}: {shown}");
        // The view of all processes has the same order.
        press(&mut ui, &letters("4"));
        assert!(screen(&mut ui).contains(order), "{keys}: {}", screen(&mut ui));
    }
}

#[test]
fn sorting_keys_sort_the_processes_of_the_machine() {
    let [first, second, third] = PIDS;
    let pids = |ui: &mut Ui| -> Vec<u32> {
        let shown = screen(ui);
        let words = shown.lines().map(|line| line.split_whitespace().next().unwrap_or_default());
        words.filter_map(|word| word.parse().ok()).filter(|pid| PIDS.contains(pid)).collect()
    };
    for (keys, expected) in [
        ("", [first, second, third]),
        ("oU", [third, second, first]),
        ("ou/", [third, second, first]),
        ("oP", [third, second, first]),
        (",", [first, third, second]),
        (",.", [first, second, third]),
    ] {
        let mut ui = ui_with(KeyScheme::Nvitop);
        press(&mut ui, &letters(keys));
        assert_eq!(pids(&mut ui), expected, "{keys}: {}", screen(&mut ui));
        // The cursor follows the rows of the screen.
        press(&mut ui, &[KeyCode::Down]);
        let ProcessRequest::Environment(key) = request(&mut ui, KeyCode::Char('e')) else {
            panic!()
        };
        is_about(key, expected[0]);
    }
}

#[test]
fn space_tags_processes_of_the_machine_and_signals_ask_about_them_there() {
    for signal in letters("TKkI") {
        let mut ui = ui_with(KeyScheme::Nvitop);
        press(&mut ui, &[KeyCode::Down, KeyCode::Char(' '), KeyCode::Char(' ')]);
        let shown = screen(&mut ui);
        assert!(shown.contains("2 tagged") && shows_machine(&mut ui), "{shown}");
        let is_tagged = PIDS.map(|pid| shown.contains(&format!(" *{pid} ")));
        assert_eq!(is_tagged, [true, true, false], "{shown}");
        press(&mut ui, &[signal]);
        let asked = screen(&mut ui);
        assert!(asked.contains("to 2 processes?"), "{signal:?}: {asked}");
        // The first Esc closes the question, the next one removes the tags.
        press(&mut ui, &[KeyCode::Esc]);
        assert!(screen(&mut ui).contains(" *4101 ") && shows_machine(&mut ui));
        press(&mut ui, &[KeyCode::Esc]);
        assert!(!screen(&mut ui).contains(" *4101 ") && shows_machine(&mut ui));
    }
}

#[test]
fn a_process_is_always_selected_as_in_htop_and_nvtop() {
    for scheme in [KeyScheme::Htop, KeyScheme::Nvtop] {
        for view in ['3', '4'] {
            let mut ui = ui_with(scheme);
            press(&mut ui, &letters(&view.to_string()));
            press(&mut ui, &[KeyCode::F(9), KeyCode::Char('T')]);
            let asked = screen(&mut ui);
            assert!(asked.contains("send TERM to this process?"), "{scheme:?} {view}: {asked}");
            assert!(asked.contains("4101"), "{scheme:?} {view}: {asked}");
        }
    }
}

#[test]
fn commands_scroll_sideways_on_the_machine() {
    let mut ui = ui_with(KeyScheme::Nvitop);
    assert!(screen(&mut ui).contains("python /home/alice"));
    press(&mut ui, &[KeyCode::Right]);
    let shown = screen(&mut ui);
    assert!(
        !shown.contains("python /home/alice") && shown.contains("ome/alice/train.py"),
        "{shown}"
    );
    press(&mut ui, &letters("^"));
    assert!(screen(&mut ui).contains("python /home/alice"));
    press(&mut ui, &letters("$"));
    assert!(screen(&mut ui).contains("--lr 0.01"), "{}", screen(&mut ui));
}

#[test]
fn keys_of_htop_that_do_nothing_here_tell_why() {
    let mut ui = ui_with(KeyScheme::Htop);
    press(&mut ui, &letters("#"));
    assert!(screen(&mut ui).contains("# (hide the meters): "), "{}", screen(&mut ui));
    press(&mut ui, &letters("M"));
    assert!(screen(&mut ui).contains("by share of host memory"), "{}", screen(&mut ui));
    press(&mut ui, &letters("I"));
    assert!(screen(&mut ui).contains("by share of host memory, reversed"));
}

#[test]
fn a_visit_of_the_processes_of_one_node_does_not_change_the_scope() {
    let mut ui = new_ui(fleets::process_kinds(), DARK);
    let processes = |ui: &mut Ui| {
        press(ui, &letters("4"));
        screen(ui)
    };
    let before = processes(&mut ui);
    press(&mut ui, &letters("3"));
    press(&mut ui, &[KeyCode::Down, KeyCode::Enter]);
    // By number, without closing the page first.
    press(&mut ui, &letters("3"));
    let rows = |shown: &str| shown.lines().filter(|line| line.contains("gpu02")).count();
    assert!(rows(&before) > 0, "{before}");
    assert_eq!(rows(&processes(&mut ui)), rows(&before), "{}", screen(&mut ui));
}
