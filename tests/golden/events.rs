//! The view of events, in every look and on every kind of fleet.

use crossterm::event::KeyCode;

use crate::harness::{check_fleets, check_looks};

const KEYS: &[KeyCode] = &[KeyCode::Char('6')];

#[test]
fn events_in_every_look() {
    check_looks("events", KEYS);
}

#[test]
fn events_on_every_kind_of_fleet() {
    check_fleets("events", KEYS);
}
