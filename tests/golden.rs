//! Golden screens: made-up fleets in each view, text and style.
//!
//! A golden file in `tests/golden/screens` holds one scene, or several that belong together: the text as a person sees
//! it, then for each row the runs of equal style. A scene has a file for the sizes and looks that show most; what
//! holds in all of them is checked without a file. `BLESS=1 cargo test --test it golden::` writes the files.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gtop_fleet::Fleet;
use gtop_ui::{LoopEffect, StopReason, Ui, UiRequest};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

mod defects;
mod drawing;
mod events;
mod filter;
mod first_sight;
mod fleet;
pub mod fleets;
pub mod harness;
mod help;
mod host_keys;
mod job;
mod key_schemes;
mod mouse;
mod node;
mod playback;
mod problems;
mod processes;
mod random_input;
mod report;
mod runs;
mod setup;
mod users;

use fleets::NOW;
use harness::*;

#[test]
fn every_golden_file_is_written_by_a_test() {
    let sources = std::fs::read_dir(folder().with_file_name("")).unwrap();
    let sources = sources.map(|entry| entry.unwrap().path());
    let sources = sources.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    let code: String = sources.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let code = code + include_str!("golden.rs");
    for entry in std::fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let name = file.strip_suffix(".txt").unwrap();
        // The size is added to the name.
        let start = name.rsplit_once('-').map_or(name, |(start, _)| start);
        let is_written = [name, start].iter().any(|name| code.contains(&format!("\"{name}\"")));
        assert!(is_written, "no test writes {file}");
    }
}

#[test]
fn the_fleet_in_every_state() {
    Scene::new("fleet", &fleets::every_state(), []).check(&ALL_SIZES);
    Scene::new("fleet-rare", &fleets::rare(), []).check(&[WIDE]);
    Scene::new("fleet-large", &fleets::large(300), [KeyCode::End]).check(&[MEDIUM]);
}

/// Opens the node at this place of the list.
fn keys_to_open(index: usize) -> Vec<KeyCode> {
    let mut keys = vec![KeyCode::Down; index];
    keys.push(KeyCode::Enter);
    keys
}

#[test]
fn a_node_in_every_state() {
    let fleet = fleets::every_state();
    let scene = |(index, name)| Scene::new(name, &fleet, keys_to_open(index));
    let scenes = [
        (1, "throttled"),
        (3, "stale"),
        (4, "refused"),
        (5, "failing"),
        (6, "slices"),
        (7, "lost"),
        (8, "connecting"),
        (9, "no-devices"),
        (10, "no answer for"),
        (11, "starting"),
        (12, "waiting"),
        (15, "twice"),
    ];
    check_sheet("node-states", NARROW, &scenes.map(scene));
    let rare = fleets::rare();
    let scene = |(index, name)| Scene::new(name, &rare, keys_to_open(index));
    check_sheet("node-rare", NARROW, &[(3, "no-driver"), (4, "empty")].map(scene));
    check_sheet("node-rare", MEDIUM, &[(0, "hostile"), (5, "many")].map(scene));
}

#[test]
fn the_row_under_the_cursor_has_details() {
    let fleet = fleets::every_state();
    let mut slices = keys_to_open(6);
    slices.extend([KeyCode::Home, KeyCode::Down]);
    Scene::new("cursor-device", &fleet, slices).check(&[MEDIUM]);
    let mut process = keys_to_open(0);
    process.extend([KeyCode::Down, KeyCode::End]);
    Scene::new("cursor-process", &fleet, process).check(&[NARROW]);
}

#[test]
fn help_and_frozen_screens() {
    let fleet = fleets::every_state();
    Scene::new("help", &fleet, [KeyCode::Char('h')]).check(&[NARROW, WIDE]);
    Scene::new("help-ascii", &fleet, [KeyCode::Char('?')]).check_look(ASCII, NARROW);
    let frozen = [KeyCode::Char('w'), KeyCode::Char('z'), KeyCode::F(5)];
    let frozen = Scene::new("frozen", &fleet, frozen);
    frozen.at(NOW.plus(Duration::from_secs(12))).check(&[MEDIUM]);
}

#[test]
fn every_size_can_be_drawn() {
    let keys = [
        vec![],
        keys_to_open(1),
        vec![KeyCode::End, KeyCode::Enter, KeyCode::Enter, KeyCode::End],
        vec![KeyCode::Char('h')],
    ];
    for fleet in [fleets::every_state(), fleets::rare(), Fleet::default()] {
        for keys in &keys {
            let mut ui = new_ui(fleet.clone(), DARK);
            press(&mut ui, keys);
            for width in (1..30).chain([40, 59, 60, 79, 80, 99, 100, 131, 200, 333, 500]) {
                for height in [1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 24, 34, 50, 200] {
                    draw(&mut ui, width, height);
                }
            }
        }
    }
}

#[test]
fn on_a_small_screen_devices_come_first() {
    let mut ui = new_ui(fleets::every_state(), DARK);
    press(&mut ui, &keys_to_open(0));
    for (width, height, min_devices) in [(40, 10, 3), (20, 5, 1), (80, 16, 7)] {
        let screen = text(&draw(&mut ui, width, height));
        let devices = screen.iter().filter(|line| line.contains("▄▄") && !line.contains("SUM"));
        assert!(devices.count() >= min_devices, "{screen:#?}");
    }
    press(&mut ui, &[KeyCode::Char('4')]);
    let screen = text(&draw(&mut ui, 40, 10)).join("\n");
    assert!(screen.contains("all nodes  34 processes"), "{screen}");
}

#[test]
fn columns_do_not_move_when_values_change() {
    let columns = |buffer: &Buffer| -> Vec<usize> {
        let titles = text(buffer).into_iter().find(|line| line.contains("NODE")).unwrap();
        ["NODE", "DEVICES", "UTIL", "GiB", "CPU", "AGE", "NOTE"]
            .iter()
            .map(|title| titles.find(title).unwrap())
            .collect()
    };
    let mut early = new_ui(fleets::every_state(), DARK);
    let before = columns(&draw(&mut early, 120, 40));
    early.on_fleet(fleets::every_state(), NOW.plus(Duration::from_secs(4_000)));
    assert_eq!(columns(&draw(&mut early, 120, 40)), before);
}

#[test]
fn unknown_values_are_never_zero() {
    let mut ui = new_ui(fleets::every_state(), DARK);
    press(&mut ui, &keys_to_open(5));
    let screen = text(&draw(&mut ui, 80, 24));
    let lost = screen.iter().find(|line| line.contains("LOST")).unwrap();
    assert!(!lost.contains(" 0 ") && lost.contains('–'), "{lost}");
    let mut login = new_ui(fleets::every_state(), DARK);
    press(&mut login, &keys_to_open(9));
    let screen = text(&draw(&mut login, 80, 24)).join("\n");
    assert!(screen.contains("no devices (nvidia-smi not found)"), "{screen}");
    assert!(screen.contains("CPU"), "{screen}");
}

#[test]
fn ages_are_exact_to_the_second() {
    let mut ui = new_ui(fleets::every_state(), DARK);
    for seconds in [0, 1, 17, 100] {
        let now = NOW.plus(Duration::from_secs(seconds));
        ui.on_fleet(fleets::every_state(), now);
        let mut buffer = Buffer::empty(Rect::new(0, 0, 160, 24));
        ui.draw(now, &mut buffer);
        let screen = text(&buffer);
        let aged = screen.iter().find(|line| line.contains("gpu04")).unwrap();
        let age = 42 + seconds;
        let age =
            if age < 60 { format!("{age}s") } else { format!("{}m{:02}s", age / 60, age % 60) };
        assert!(aged.contains(&format!("stale {age}")), "{aged}");
    }
}

#[test]
fn keys_perform_their_bound_actions() {
    let mut ui = new_ui(fleets::every_state(), DARK);
    let press_key = |ui: &mut Ui, code| ui.on_key(key(code), NOW);
    assert_eq!(press_key(&mut ui, KeyCode::F(5)), LoopEffect::Request(UiRequest::Refresh));
    assert_eq!(press_key(&mut ui, KeyCode::Char('q')), LoopEffect::Exit(StopReason::Quit));
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    assert_eq!(ui.on_key(control('c'), NOW), LoopEffect::Exit(StopReason::Interrupted));
    assert_eq!(ui.on_key(control('z'), NOW), LoopEffect::Suspend);
    assert_eq!(ui.on_key(control('l'), NOW), LoopEffect::Redraw);
}

#[test]
fn a_focus_ends_by_itself_and_when_its_node_is_left() {
    let mut ui = new_ui(fleets::every_state(), DARK);
    let press_key = |ui: &mut Ui, code| ui.on_key(key(code), NOW);
    let focused = |ui: &Ui| ui.focus().map(|node| node.as_str().to_owned());
    let gpu01 = Some("gpu01".to_owned());
    let screen = |ui: &mut Ui| text(&draw(ui, 160, 24)).join("\n");
    assert_eq!(focused(&ui), None);
    press_key(&mut ui, KeyCode::Char('w'));
    assert_eq!(focused(&ui), gpu01);
    assert!(screen(&mut ui).contains("FOCUS gpu01 1m00s"), "{}", screen(&mut ui));
    // The node stays the same in its own view.
    press_key(&mut ui, KeyCode::Enter);
    assert_eq!(focused(&ui), gpu01);
    press_key(&mut ui, KeyCode::Char('1'));
    press_key(&mut ui, KeyCode::Char('j'));
    assert_eq!(focused(&ui), None);
    assert!(screen(&mut ui).contains("focus on gpu01 ended: the node is no longer shown"));
    press_key(&mut ui, KeyCode::Char('k'));
    for leave in [KeyCode::Char('w'), KeyCode::Char('5')] {
        press_key(&mut ui, KeyCode::Char('1'));
        press_key(&mut ui, KeyCode::Char('w'));
        assert_eq!(focused(&ui), gpu01);
        press_key(&mut ui, leave);
        assert_eq!(focused(&ui), None);
    }
    press_key(&mut ui, KeyCode::Char('1'));
    press_key(&mut ui, KeyCode::Char('w'));
    ui.set_attended(false, NOW);
    assert_eq!(focused(&ui), None);
    ui.set_attended(true, NOW);
    press_key(&mut ui, KeyCode::Char('w'));
    ui.on_fleet(fleets::every_state(), NOW.plus(Duration::from_secs(59)));
    assert_eq!(focused(&ui), gpu01);
    let later = NOW.plus(Duration::from_secs(60));
    ui.on_fleet(fleets::every_state(), later);
    assert_eq!(focused(&ui), None);
    let mut buffer = Buffer::empty(Rect::new(0, 0, 160, 24));
    ui.draw(later, &mut buffer);
    let shown = text(&buffer).join("\n");
    assert!(shown.contains("ended after a minute; w starts it again"), "{shown}");
}

#[test]
fn nodes_sample_less_often_without_terminal_focus() {
    let mut ui = new_ui(fleets::every_state(), DARK);
    let second = Duration::from_secs(1);
    let later = NOW.plus(Duration::from_secs(90));
    assert_eq!(ui.interval(later), second);
    ui.set_attended(false, NOW);
    assert_eq!(ui.interval(NOW.plus(second * 30)), second);
    assert_eq!(ui.interval(later), second * 5);
    ui.set_attended(true, later);
    assert_eq!(ui.interval(later), second);
}

#[test]
fn quit_closes_help_first() {
    let mut ui = new_ui(fleets::every_state(), DARK);
    ui.on_key(key(KeyCode::Char('h')), NOW);
    assert!(text(&draw(&mut ui, 80, 24)).iter().any(|line| line.starts_with("Signs and colours")));
    assert_eq!(ui.on_key(key(KeyCode::Char('q')), NOW), LoopEffect::Handled);
    assert!(!text(&draw(&mut ui, 80, 24)).iter().any(|line| line.starts_with("Signs and colours")));
}

#[test]
fn a_frozen_screen_does_not_change() {
    let mut ui = new_ui(fleets::every_state(), DARK);
    ui.on_key(key(KeyCode::Char('z')), NOW);
    ui.on_fleet(fleets::large(3), NOW.plus(Duration::from_secs(9)));
    let screen = text(&draw(&mut ui, 120, 40)).join("\n");
    assert!(screen.contains("FROZEN") && screen.contains("gpu05"), "{screen}");
    ui.on_key(key(KeyCode::Char('z')), NOW);
    let screen = text(&draw(&mut ui, 120, 40)).join("\n");
    assert!(!screen.contains("FROZEN") && screen.contains("gpu0003"), "{screen}");
}
