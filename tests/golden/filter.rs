//! Filters: the prompt with its completions and errors, and the summary of what matches.

use crossterm::event::KeyCode;
use gtop_fleet::insight::FleetView;
use gtop_fleet::query::{DisplaySelection, Filter};
use gtop_fleet::{DeviceState, Fleet, NodeCount};
use gtop_ui::{LoopEffect, UiRequest};

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::*;

/// Returns the keys that open the prompt and type a text.
fn typed(text: &str) -> Vec<KeyCode> {
    format!("/{text}").chars().map(KeyCode::Char).collect()
}

fn with(mut keys: Vec<KeyCode>, more: &[KeyCode]) -> Vec<KeyCode> {
    keys.extend(more);
    keys
}

#[test]
fn the_prompt_lists_what_can_be_typed() {
    let (tab, cluster) = (KeyCode::Tab, fleets::cluster());
    let scenes = [
        ("prompt", typed("(free or idle-held) util<10")),
        ("words", with(typed(""), &[tab])),
        ("chosen", with(typed("free or "), &[tab, tab, tab])),
        ("values", with(typed("user="), &[tab, KeyCode::Down])),
        ("wrong", typed("(free or utl<10 busy")),
        ("unfinished", typed("(free or util<10")),
        ("summary", with(typed("idle-held or free"), &[KeyCode::Enter])),
        ("nothing", with(typed("user=nobody"), &[KeyCode::Enter])),
    ];
    let scenes = scenes.map(|(name, keys)| Scene::new(name, &cluster, keys));
    check_sheet("filter", NARROW, &scenes);
    Scene::new("filter-words", &cluster, with(typed(""), &[tab])).check(&[SMALL, WIDE]);
}

#[test]
fn a_word_of_the_summary_matches_what_it_counts() {
    for (name, fleet) in [
        ("every state", fleets::every_state()),
        ("rare", fleets::rare()),
        ("jobs", fleets::with_jobs()),
        ("cluster", fleets::cluster()),
        ("accelerators", fleets::accelerators()),
        ("a minute later", fleets::a_minute_later()),
    ] {
        let view = |filter: &str| {
            let (fleet, filter) = (fleet.clone(), Filter::new(filter).unwrap());
            FleetView::default().updated(fleet, NOW, filter, &DisplaySelection::default())
        };
        let mut all = view("").totals;
        for count in DeviceState::ALL {
            let matching = view(count.name());
            let expected = *all.devices_counted_as(count);
            let mut totals = matching.totals;
            assert_eq!(totals.devices, expected, "{name}: {}", count.name());
            assert_eq!(*totals.devices_counted_as(count), expected, "{name}: {}", count.name());
        }
        let connecting = all.nodes - all.fresh - all.stale - all.down - all.reported;
        for (count, expected) in [
            (NodeCount::Fresh, all.fresh),
            (NodeCount::Down, all.down),
            (NodeCount::Reported, all.reported),
            (NodeCount::Connecting, connecting),
        ] {
            assert_eq!(view(count.name()).totals.nodes, expected, "{name}: {}", count.name());
        }
        let parts = DeviceState::ALL.map(DeviceState::name);
        assert_eq!(view(&parts.join(" or ")).totals.devices, all.devices, "{name}");
        assert_eq!(view(&format!("not ({})", parts.join(" or "))).totals.devices, 0, "{name}");
    }
}

#[test]
fn the_rows_are_about_the_devices_that_match() {
    let mut ui = new_ui(fleets::cluster(), DARK);
    press(&mut ui, &with(typed("free"), &[KeyCode::Enter]));
    let screen = text(&draw(&mut ui, 120, 40));
    let rows = screen.iter().skip(4).filter(|line| line.contains("gpu-") && line.contains('/'));
    for row in rows.filter(|row| row.contains("GiB") || row.contains("····")) {
        assert!(!row.contains('█'), "a row of free devices shows load: {row}");
    }
}

#[test]
fn an_applied_filter_is_remembered_once_and_recalled() {
    let mut ui =
        new_ui(fleets::cluster(), DARK).with_filters(Filter::default(), vec!["busy".to_owned()]);
    let enter = |ui: &mut gtop_ui::Ui| ui.on_key(key(KeyCode::Enter), NOW);
    press(&mut ui, &typed("free"));
    assert_eq!(enter(&mut ui), LoopEffect::Request(UiRequest::RememberFilter("free".to_owned())));
    press(&mut ui, &[KeyCode::Esc, KeyCode::Char('/'), KeyCode::Up, KeyCode::Up]);
    let screen = text(&draw(&mut ui, 80, 24));
    assert!(screen[23].starts_with("/ busy"), "{}", screen[23]);
    assert_eq!(enter(&mut ui), LoopEffect::Request(UiRequest::RememberFilter("busy".to_owned())));
    press(&mut ui, &[KeyCode::Char('/')]);
    assert_eq!(enter(&mut ui), LoopEffect::Handled, "it is the newest already");
}

#[test]
fn completing_hostile_names_is_safe_on_every_size() {
    for fleet in [fleets::hostile_jobs(), fleets::rare(), Fleet::default()] {
        for field in ["user=", "job=", "jobname=", "node=", "command~", "name=", "partition=", "x"]
        {
            let mut ui = new_ui(fleet.clone(), DARK);
            press(&mut ui, &with(typed(field), &[KeyCode::Tab, KeyCode::Tab, KeyCode::Up]));
            for (width, height) in [(1, 9), (7, 10), (40, 12), (80, 24), (333, 60)] {
                draw(&mut ui, width, height);
            }
        }
    }
}
