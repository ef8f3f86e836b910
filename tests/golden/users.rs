//! The view of users, in every look and on every kind of fleet.

use crossterm::event::KeyCode;

use crate::harness::{check_fleets, check_looks};

const KEYS: &[KeyCode] = &[KeyCode::Char('5')];

#[test]
fn users_in_every_look() {
    check_looks("users", KEYS);
}

#[test]
fn users_on_every_kind_of_fleet() {
    check_fleets("users", KEYS);
}
