//! The view of events, in every look and on every kind of fleet.

use std::sync::LazyLock;
use std::time::Duration;

use crossterm::event::KeyCode;
use gtop::fleet::Fleet;
use gtop::tui::{Theme, Ui};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::fleets::{self, NOW};
use crate::harness::*;

const KEYS: &[KeyCode] = &[KeyCode::Char('6')];

const LATER: Duration = Duration::from_secs(2);

/// A minute in which much happens.
fn eventful(look: Theme) -> Ui {
    static FLEETS: LazyLock<(Fleet, Fleet)> =
        LazyLock::new(|| (fleets::with_jobs(), fleets::a_minute_later()));
    let (before, after) = &*FLEETS;
    let mut stage = stage(before.clone(), look);
    stage.on_fleet(after.clone(), NOW.plus(LATER));
    stage.on_fleet(before.clone(), NOW.plus(LATER * 2));
    stage.on_fleet(after.clone(), NOW.plus(LATER * 3));
    press(&mut stage, KEYS);
    stage
}

fn draw_later(stage: &mut Ui, width: u16, height: u16) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    stage.draw(NOW.plus(LATER * 3), &mut buffer);
    buffer
}

#[test]
fn events_in_every_look() {
    for (name, look) in [("dark", DARK), ("light", LIGHT), ("mono", MONO), ("ascii", ASCII)] {
        for (width, height) in SIZES {
            let mut stage = eventful(look);
            let buffer = draw_later(&mut stage, width, height);
            check(&format!("events-look-{name}-{width}x{height}"), &buffer);
        }
    }
}

#[test]
fn events_on_every_kind_of_fleet() {
    check_fleets("events", KEYS);
}

#[test]
fn what_happened_on_many_nodes_is_one_row_that_unfolds() {
    let mut stage = eventful(DARK);
    let find = |stage: &mut Ui| {
        let screen = text(&draw_later(stage, 120, 40));
        screen.iter().position(|line| line.contains("session lost")).unwrap()
    };
    let at = find(&mut stage);
    let screen = text(&draw_later(&mut stage, 120, 40));
    assert!(screen[at].contains("gpu[01,07-08]") && screen[at].contains("×5 "), "{screen:#?}");
    for _ in 4..at {
        stage.on_key(key(KeyCode::Down), NOW);
    }
    stage.on_key(key(KeyCode::Enter), NOW);
    check("events-open-120x40", &draw_later(&mut stage, 120, 40));
    stage.on_key(key(KeyCode::Down), NOW);
    stage.on_key(key(KeyCode::Down), NOW);
    stage.on_key(key(KeyCode::Enter), NOW);
    let screen = text(&draw_later(&mut stage, 120, 40)).join("\n");
    assert!(screen.contains("gpu07  "), "{screen}");
}

#[test]
fn the_first_picture_is_no_event() {
    let mut stage = stage(fleets::with_jobs(), DARK);
    stage.on_fleet(fleets::with_jobs(), NOW);
    press(&mut stage, KEYS);
    let screen = text(&draw(&mut stage, 80, 24)).join("\n");
    assert!(screen.contains("no events since"), "{screen}");
}
