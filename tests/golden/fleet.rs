//! The view of fleet, in every look and on every kind of fleet.

use crossterm::event::KeyCode;

use crate::harness::{check_fleets, check_looks};

const KEYS: &[KeyCode] = &[KeyCode::Char('1')];

#[test]
fn fleet_in_every_look() {
    check_looks("fleet", KEYS);
}

#[test]
fn fleet_on_every_kind_of_fleet() {
    check_fleets("fleet", KEYS);
}
