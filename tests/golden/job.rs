//! The view of job, in every look and on every kind of fleet.

use crossterm::event::KeyCode;

use crate::harness::{check_fleets, check_looks};

const KEYS: &[KeyCode] = &[KeyCode::Char('2')];

#[test]
fn job_in_every_look() {
    check_looks("job", KEYS);
}

#[test]
fn job_on_every_kind_of_fleet() {
    check_fleets("job", KEYS);
}
