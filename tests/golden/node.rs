//! The view of node, in every look and on every kind of fleet.

use crossterm::event::KeyCode;

use crate::harness::{check_fleets, check_looks};

const KEYS: &[KeyCode] = &[KeyCode::Char('3')];

#[test]
fn node_in_every_look() {
    check_looks("node", KEYS);
}

#[test]
fn node_on_every_kind_of_fleet() {
    check_fleets("node", KEYS);
}
