//! Golden screens of the events view, in every theme and on every kind of fleet.

use std::sync::LazyLock;
use std::time::Duration;

use crossterm::event::KeyCode;
use gtop_fleet::Fleet;
use gtop_ui::{Theme, Ui};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::*;

const KEYS: &[KeyCode] = &[KeyCode::Char('6')];

const LATER: Duration = Duration::from_secs(2);

static FLEETS: LazyLock<(Fleet, Fleet)> =
    LazyLock::new(|| (fleets::with_jobs(), fleets::a_minute_later()));

/// Shows the events of a fleet that has changed three times.
fn ui_with_events(theme: Theme) -> Ui {
    let (before, after) = &*FLEETS;
    let mut ui = new_ui(before.clone(), theme);
    ui.on_fleet(after.clone(), NOW.plus(LATER));
    ui.on_fleet(before.clone(), NOW.plus(LATER * 2));
    ui.on_fleet(after.clone(), NOW.plus(LATER * 3));
    press(&mut ui, KEYS);
    ui
}

fn draw_later(ui: &mut Ui, width: u16, height: u16) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    ui.draw(NOW.plus(LATER * 3), &mut buffer);
    buffer
}

#[test]
fn events_of_a_fleet_that_changes() {
    let now = NOW.plus(LATER * 3);
    Scene::of("events", ui_with_events).at(now).check(&SIZES);
    Scene::of("events-ascii", ui_with_events).at(now).check_look(ASCII, NARROW);
}

#[test]
fn an_event_is_explained_with_its_node() {
    let explained = |theme| {
        let mut ui = ui_with_events(theme);
        press(&mut ui, &[KeyCode::Down, KeyCode::Char('i')]);
        ui
    };
    Scene::of("explain-event", explained).at(NOW.plus(LATER * 3)).check(&[NARROW]);
}

#[test]
fn the_explained_event_stays_when_newer_ones_arrive() {
    let mut ui = ui_with_events(DARK);
    press(&mut ui, &[KeyCode::Char('i')]);
    let line = |buffer: &Buffer, start: &str| {
        let lines = text(buffer);
        lines.into_iter().rfind(|line| line.starts_with(start)).unwrap().trim_end().to_owned()
    };
    let before = draw_later(&mut ui, 80, 24);
    ui.on_fleet(FLEETS.0.clone(), NOW.plus(LATER * 4));
    let mut after = Buffer::empty(Rect::new(0, 0, 80, 24));
    ui.draw(NOW.plus(LATER * 4), &mut after);
    assert_eq!(line(&before, "event: "), line(&after, "event: "));
    assert_ne!(line(&before, "  AGE "), line(&after, "  AGE "));
}

#[test]
fn events_on_every_kind_of_fleet() {
    check_fleets("events-on", KEYS);
}

#[test]
fn events_on_many_nodes_share_one_row_that_unfolds() {
    let mut ui = ui_with_events(DARK);
    let find = |ui: &mut Ui| {
        let screen = text(&draw_later(ui, 120, 40));
        screen.iter().position(|line| line.contains("session lost")).unwrap()
    };
    let at = find(&mut ui);
    let screen = text(&draw_later(&mut ui, 120, 40));
    assert!(screen[at].contains("gpu[01,07-08]") && screen[at].contains("×5 "), "{screen:#?}");
    for _ in 4..at {
        ui.on_key(key(KeyCode::Down), NOW);
    }
    ui.on_key(key(KeyCode::Enter), NOW);
    check("events-open-120x40", &draw_later(&mut ui, 120, 40));
    ui.on_key(key(KeyCode::Down), NOW);
    ui.on_key(key(KeyCode::Down), NOW);
    ui.on_key(key(KeyCode::Enter), NOW);
    let screen = text(&draw_later(&mut ui, 120, 40)).join("\n");
    assert!(screen.contains("gpu07  "), "{screen}");
}

#[test]
fn what_the_kernel_logged_is_told_with_its_process_and_words() {
    let (fleet, explain) = (fleets::with_kernel_lines(), KeyCode::Char('i'));
    let scenes = [
        ("events", KEYS),
        (
            "device",
            &[KeyCode::Char('3'), KeyCode::Down, KeyCode::Home, explain, KeyCode::Char('+')],
        ),
        ("node", &[KeyCode::Down, KeyCode::Char('3'), explain]),
    ];
    let scenes = scenes.map(|(name, keys)| Scene::new(name, &fleet, keys));
    check_sheet("kernel", MEDIUM, &scenes);
}

#[test]
fn the_first_snapshot_is_no_event() {
    let mut ui = new_ui(fleets::with_jobs(), DARK);
    ui.on_fleet(fleets::with_jobs(), NOW);
    press(&mut ui, KEYS);
    let screen = text(&draw(&mut ui, 80, 24)).join("\n");
    assert!(screen.contains("no events so far"), "{screen}");
}
