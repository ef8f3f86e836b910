//! Each device counts as what the facts make of it, exactly once: in totals, in JSON and in the headline.

use std::collections::BTreeMap;

use gtop::internals::export::write_json;
use gtop_fleet::{Fleet, Totals};
use serde_json::Value;

use crate::golden::harness::{DARK, draw, new_ui, text};
use crate::random_machines::machine::{Machine, NOW};

const STATES: [(&str, &str); 8] = [
    ("busy", "devices_busy"),
    ("idle_held", "devices_held"),
    ("free", "devices_free"),
    ("faulty", "devices_faulty"),
    ("stale", "devices_stale"),
    ("unavailable", "devices_unavailable"),
    ("in_use", "devices_in_use"),
    ("unknown", "devices_unknown"),
];

fn json(fleet: &Fleet) -> Value {
    let mut out = Vec::new();
    write_json(&mut out, fleet, NOW, "").unwrap();
    serde_json::from_slice(&out).unwrap()
}

/// Returns the numbers of the line that counts devices, and what follows.
fn headline(fleet: &Fleet, width: u16) -> String {
    let mut ui = new_ui(fleet.clone(), DARK);
    ui.on_fleet(fleet.clone(), NOW);
    text(&draw(&mut ui, width, 24))[1].clone()
}

#[test]
fn every_device_counts_as_one_thing() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for number in 0..200 {
        let machine = Machine::random(number);
        let fleet = machine.fleet();
        let mut expected: BTreeMap<&str, usize> = BTreeMap::new();
        for unit in &machine.units {
            *expected.entry(machine.state(unit)).or_default() += 1;
        }
        let snapshot = json(&fleet);
        let totals = &snapshot["totals"];
        let devices = snapshot["nodes"][0]["devices"].as_array().unwrap();
        for unit in &machine.units {
            let shown = devices.iter().find(|device| device["uuid"] == *unit.uuid).unwrap();
            assert_eq!(shown["state"], machine.state(unit), "{unit:?} of {machine:?}");
            let reason = shown["state_reason"].as_str();
            assert_eq!(reason, machine.state_reason(unit), "{unit:?} of {machine:?}");
        }
        for (state, key) in STATES {
            let count = expected.get(state).copied().unwrap_or(0);
            *seen.entry(state).or_default() += count;
            assert_eq!(totals[key], count, "{key} of {machine:?}");
        }
        let with_state = devices.iter().filter(|device| !device["state"].is_null());
        assert_eq!(with_state.count(), machine.units.len(), "{machine:?}");
        assert_eq!(totals["devices"], machine.units.len(), "{machine:?}");
        assert_eq!(totals["physical_devices"], machine.cards, "{machine:?}");
        assert_eq!(Totals::of(&fleet, NOW).max_free, expected.get("free").copied().unwrap_or(0));
    }
    // The machines are of all kinds.
    assert!(STATES.iter().all(|(state, _)| seen[state] >= 20), "{seen:?}");
}

#[test]
fn the_headline_adds_up_at_every_width() {
    for number in 0..200 {
        let machine = Machine::random(number);
        let fleet = machine.fleet();
        let free = machine.units.iter().filter(|unit| machine.state(unit) == "free").count();
        // Each width is that of several machines.
        for width in (80 + number % 11..=200).step_by(11) {
            let line = headline(&fleet, width as u16);
            let counts = line.split("UTIL").next().unwrap_or_default();
            let counts = counts.split("no fresh").next().unwrap_or_default();
            let numbers = counts.split(|letter: char| !letter.is_ascii_digit());
            let numbers: Vec<usize> = numbers.filter_map(|word| word.parse().ok()).collect();
            let (all, parts) = numbers.split_first().unwrap();
            let sum = parts.iter().sum::<usize>();
            let units = machine.units.len();
            assert_eq!((*all, sum), (units, units), "{width}: {line} of {machine:?}");
            assert!(free == 0 || counts.contains("free"), "{width}: {line}");
        }
    }
}
