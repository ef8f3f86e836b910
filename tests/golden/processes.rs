//! The view of processes, in every look and on every kind of fleet.

use crossterm::event::KeyCode;

use crate::harness::{check_fleets, check_looks};

const KEYS: &[KeyCode] = &[KeyCode::Char('4')];

#[test]
fn processes_in_every_look() {
    check_looks("processes", KEYS);
}

#[test]
fn processes_on_every_kind_of_fleet() {
    check_fleets("processes", KEYS);
}
