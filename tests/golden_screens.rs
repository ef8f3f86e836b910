//! Golden screens: made-up fleets in each view, size and look, text and style.
//!
//! Each golden stands in `tests/golden/screens`: the text as a person sees it, then for each row the
//! runs of equal style. `BLESS=1 cargo test --test golden_screens` writes them anew.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "made-up numbers are small"
)]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gtop::fleet::Fleet;
use gtop::model::NodeName;
use gtop::tui::{StopReason, Ui, UiEffect, UiRequest};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

#[path = "golden/defects.rs"]
mod defects;
#[path = "golden/events.rs"]
mod events;
#[path = "golden/fleet.rs"]
mod fleet;
#[path = "golden/fleets.rs"]
mod fleets;
#[path = "golden/harness.rs"]
mod harness;
#[path = "golden/job.rs"]
mod job;
#[path = "golden/mash.rs"]
mod mash;
#[path = "golden/node.rs"]
mod node;
#[path = "golden/printed.rs"]
mod printed;
#[path = "golden/processes.rs"]
mod processes;
#[path = "golden/setup.rs"]
mod setup;
#[path = "golden/users.rs"]
mod users;

use fleets::NOW;
use harness::*;

#[test]
fn the_fleet_in_every_state() {
    check_sizes("fleet", &fleets::every_state(), &[], DARK);
    check_sizes("fleet-rare", &fleets::rare(), &[], DARK);
    check_sizes("fleet-large", &fleets::large(300), &[KeyCode::End], DARK);
    check_sizes("fleet-none", &Fleet::default(), &[], DARK);
}

/// Opens the node at this place of the list.
fn open(place: usize) -> Vec<KeyCode> {
    let mut keys = vec![KeyCode::Down; place];
    keys.push(KeyCode::Enter);
    keys
}

#[test]
fn a_node_in_every_state() {
    let fleet = fleets::every_state();
    for (place, name) in [
        (0, "busy"),
        (1, "throttled"),
        (3, "stale"),
        (4, "refused"),
        (5, "failing"),
        (6, "slices"),
        (7, "lost"),
        (8, "connecting"),
        (9, "no-devices"),
        (10, "stuck"),
        (11, "starting"),
        (12, "waiting"),
        (15, "twice"),
    ] {
        check_sizes(&format!("node-{name}"), &fleet, &open(place), DARK);
    }
    let rare = fleets::rare();
    for (place, name) in [(0, "hostile"), (3, "no-driver"), (4, "empty"), (5, "many")] {
        check_sizes(&format!("node-{name}"), &rare, &open(place), DARK);
    }
    check_sizes("node-single", &fleets::single(), &[], DARK);
}

#[test]
fn the_row_under_the_cursor_tells_more() {
    let fleet = fleets::every_state();
    let mut slices = open(6);
    slices.extend([KeyCode::Enter, KeyCode::Down]);
    check_sizes("cursor-device", &fleet, &slices, DARK);
    let mut process = open(0);
    process.extend([KeyCode::Enter, KeyCode::End]);
    check_sizes("cursor-process", &fleet, &process, DARK);
}

#[test]
fn help_and_what_is_out_of_the_ordinary() {
    let fleet = fleets::every_state();
    check_sizes("help", &fleet, &[KeyCode::Char('h')], DARK);
    check_sizes("help-ascii", &fleet, &[KeyCode::Char('?')], ASCII);
    let mut stage = stage(fleet, DARK);
    press(&mut stage, &[KeyCode::Char('w'), KeyCode::Char('z'), KeyCode::F(5)]);
    let mut buffer = Buffer::empty(Rect::new(0, 0, 120, 40));
    stage.draw(NOW.plus(Duration::from_secs(12)), &mut buffer);
    check("frozen-120x40", &buffer);
}

#[test]
fn no_size_is_too_small_or_too_large() {
    let keys = [
        vec![],
        open(1),
        vec![KeyCode::End, KeyCode::Enter, KeyCode::Enter, KeyCode::End],
        vec![KeyCode::Char('h')],
    ];
    for fleet in [fleets::every_state(), fleets::rare(), Fleet::default()] {
        for keys in &keys {
            let mut stage = stage(fleet.clone(), DARK);
            press(&mut stage, keys);
            for width in (1..30).chain([40, 59, 60, 79, 80, 99, 100, 131, 200, 333, 500]) {
                for height in [1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 24, 34, 50, 200] {
                    draw(&mut stage, width, height);
                }
            }
        }
    }
}

#[test]
fn on_a_small_screen_what_matters_goes_first() {
    let mut stage = stage(fleets::every_state(), DARK);
    press(&mut stage, &open(0));
    for (width, height, least) in [(40, 10, 3), (20, 5, 1), (80, 16, 7)] {
        let screen = text(&draw(&mut stage, width, height));
        let devices = screen.iter().filter(|line| line.contains("██") && !line.contains("SUM"));
        assert!(devices.count() >= least, "{screen:#?}");
    }
    press(&mut stage, &[KeyCode::Char('4')]);
    let screen = text(&draw(&mut stage, 40, 10)).join("\n");
    assert!(screen.contains("all nodes  34 processes"), "{screen}");
}

#[test]
fn no_number_moves_when_it_changes() {
    let columns = |buffer: &Buffer| -> Vec<usize> {
        let titles = text(buffer).into_iter().find(|line| line.contains("NODE")).unwrap();
        ["NODE", "DEVICES", "UTIL", "GiB", "CPU", "AGE", "NOTE"]
            .iter()
            .map(|title| titles.find(title).unwrap())
            .collect()
    };
    let mut early = stage(fleets::every_state(), DARK);
    let before = columns(&draw(&mut early, 120, 40));
    early.on_fleet(fleets::every_state(), NOW.plus(Duration::from_secs(4_000)));
    assert_eq!(columns(&draw(&mut early, 120, 40)), before);
}

#[test]
fn what_is_unknown_is_never_zero() {
    let mut stage = stage(fleets::every_state(), DARK);
    press(&mut stage, &open(5));
    let screen = text(&draw(&mut stage, 80, 24));
    let lost = screen.iter().find(|line| line.contains("LOST")).unwrap();
    assert!(!lost.contains(" 0 ") && lost.contains('–'), "{lost}");
    let mut login = self::stage(fleets::every_state(), DARK);
    press(&mut login, &open(9));
    let screen = text(&draw(&mut login, 80, 24)).join("\n");
    assert!(screen.contains("no devices (nvidia-smi not found)"), "{screen}");
    assert!(screen.contains("CPU"), "{screen}");
}

#[test]
fn ages_are_true_within_one_second() {
    let mut stage = stage(fleets::every_state(), DARK);
    for seconds in [0, 1, 17, 100] {
        let now = NOW.plus(Duration::from_secs(seconds));
        stage.on_fleet(fleets::every_state(), now);
        let mut buffer = Buffer::empty(Rect::new(0, 0, 160, 24));
        stage.draw(now, &mut buffer);
        let screen = text(&buffer);
        let aged = screen.iter().find(|line| line.contains("gpu04")).unwrap();
        let age = 42 + seconds;
        let age =
            if age < 60 { format!("{age}s") } else { format!("{}m{:02}s", age / 60, age % 60) };
        assert!(aged.contains(&format!("stale {age}")), "{aged}");
    }
}

#[test]
fn keys_lead_to_what_the_table_says() {
    let mut stage = stage(fleets::every_state(), DARK);
    let ask = |stage: &mut Ui, code| stage.on_key(key(code), NOW);
    assert_eq!(ask(&mut stage, KeyCode::F(5)), UiEffect::Request(UiRequest::Refresh));
    assert_eq!(ask(&mut stage, KeyCode::Char('q')), UiEffect::Exit(StopReason::Quit));
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    assert_eq!(stage.on_key(control('c'), NOW), UiEffect::Exit(StopReason::Interrupted));
    assert_eq!(stage.on_key(control('z'), NOW), UiEffect::Suspend);
    assert_eq!(stage.on_key(control('l'), NOW), UiEffect::Redraw);
    assert_eq!(stage.focus(), None);
    ask(&mut stage, KeyCode::Char('w'));
    assert_eq!(stage.focus(), Some(NodeName::new("gpu01").unwrap()));
    ask(&mut stage, KeyCode::Char('j'));
    assert_eq!(stage.focus(), Some(NodeName::new("gpu02").unwrap()));
    ask(&mut stage, KeyCode::Char('w'));
    assert_eq!(stage.focus(), None);
}

#[test]
fn nodes_sample_less_often_while_nobody_looks() {
    let mut stage = stage(fleets::every_state(), DARK);
    let second = Duration::from_secs(1);
    let later = NOW.plus(Duration::from_secs(90));
    assert_eq!(stage.interval(later), second);
    stage.set_attended(false, NOW);
    assert_eq!(stage.interval(NOW.plus(second * 30)), second);
    assert_eq!(stage.interval(later), second * 5);
    stage.set_attended(true, later);
    assert_eq!(stage.interval(later), second);
}

#[test]
fn help_closes_before_anything_else_happens() {
    let mut stage = stage(fleets::every_state(), DARK);
    stage.on_key(key(KeyCode::Char('h')), NOW);
    assert!(text(&draw(&mut stage, 80, 24)).iter().any(|line| line.contains("Everywhere")));
    assert_eq!(stage.on_key(key(KeyCode::Char('q')), NOW), UiEffect::Nothing);
    assert!(!text(&draw(&mut stage, 80, 24)).iter().any(|line| line.contains("Everywhere")));
}

#[test]
fn a_frozen_picture_stands_while_the_fleet_goes_on() {
    let mut stage = stage(fleets::every_state(), DARK);
    stage.on_key(key(KeyCode::Char('z')), NOW);
    stage.on_fleet(fleets::large(3), NOW.plus(Duration::from_secs(9)));
    let screen = text(&draw(&mut stage, 120, 40)).join("\n");
    assert!(screen.contains("FROZEN") && screen.contains("gpu05"), "{screen}");
    stage.on_key(key(KeyCode::Char('z')), NOW);
    let screen = text(&draw(&mut stage, 120, 40)).join("\n");
    assert!(!screen.contains("FROZEN") && screen.contains("gpu0003"), "{screen}");
}
