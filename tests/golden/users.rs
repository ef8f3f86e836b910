//! Golden screens of the users view, in every theme and on every kind of fleet.

use std::sync::Arc;

use crossterm::event::KeyCode;
use gtop_model::JobList;

use crate::golden::fleets;
use crate::golden::harness::*;

const KEYS: &[KeyCode] = &[KeyCode::Char('5')];

fn view_keys(keys: &[KeyCode]) -> Vec<KeyCode> {
    KEYS.iter().chain(keys).copied().collect()
}

#[test]
fn users_in_sizes_and_looks() {
    Scene::new("users", &fleets::with_jobs(), KEYS).check(&SIZES);
    Scene::new("users-ascii", &fleets::with_jobs(), KEYS).check_look(ASCII, NARROW);
}

#[test]
fn users_on_every_kind_of_fleet() {
    check_fleets("users-on", KEYS);
}

#[test]
fn users_unfolded_sorted_and_with_names_that_do_not_fit() {
    let down = KeyCode::Down;
    let scenes = [
        ("open", fleets::with_jobs(), view_keys(&[KeyCode::Enter, down, down])),
        ("by-idle", fleets::with_jobs(), view_keys(&[KeyCode::Char('.'), KeyCode::Char('.')])),
        ("menu", fleets::with_jobs(), view_keys(&[KeyCode::F(6)])),
        (
            "wasted",
            fleets::with_jobs(),
            view_keys(&[KeyCode::F(6), KeyCode::Char('h'), KeyCode::Enter]),
        ),
        ("hostile", fleets::hostile_jobs(), view_keys(&[KeyCode::Enter])),
    ];
    let scenes = scenes.map(|(name, fleet, keys)| Scene::new(name, &fleet, keys));
    check_sheet("users-rows", MEDIUM, &scenes);
}

#[test]
fn who_wastes_most_is_told_after_one_key_and_unfolds_into_idle_devices() {
    let screen = |keys: &[KeyCode]| {
        let mut ui = new_ui(fleets::with_jobs(), DARK);
        press(&mut ui, keys);
        text(&draw(&mut ui, 120, 40)).join("\n")
    };
    let shown = screen(KEYS);
    assert!(
        shown.contains("device time wasted since 14:03:52: carol 4m56s (4 idle now)"),
        "{shown}"
    );
    let shown = screen(&view_keys(&[KeyCode::F(6), KeyCode::Char('h'), KeyCode::Enter]));
    let rows: Vec<&str> = shown.lines().skip_while(|line| !line.contains("USER")).collect();
    assert!(rows[1].starts_with("- carol") && rows[1].contains("4m56s"), "{shown}");
    let idle = "gpu03 #0  idle ≥ 1m14s, since gtop watches  job 8425 interactive";
    assert!(rows[2].contains(idle), "{shown}");
}

#[test]
fn a_process_opens_on_its_node_with_the_cursor_on_it() {
    let down = KeyCode::Down;
    let mut ui = new_ui(fleets::with_jobs(), DARK);
    press(&mut ui, &view_keys(&[KeyCode::Enter, down, down, down, KeyCode::Enter]));
    let screen = text(&draw(&mut ui, 120, 40)).join("\n");
    assert!(screen.contains("gpu01  8× H100"), "{screen}");
    let last = screen.lines().rev().nth(1).unwrap();
    assert!(last.contains("41211"), "{screen}");
}

#[test]
fn stale_nodes_are_excluded_from_sums_and_never_shown_as_zero() {
    let mut ui = new_ui(fleets::with_jobs(), DARK);
    press(&mut ui, KEYS);
    let screen = text(&draw(&mut ui, 120, 40)).join("\n");
    // All processes of bob are on stale nodes.
    let bob = screen.lines().find(|line| line.contains("+ bob")).unwrap();
    assert!(bob.contains("0/2") && bob.contains('–') && !bob.contains(" 0 "), "{screen}");
    // Allocated to carol, and unused.
    let carol = screen.lines().find(|line| line.contains("+ carol")).unwrap();
    let numbers: Vec<&str> = carol.split_whitespace().collect();
    assert_eq!(numbers[2], "4", "{screen}");
}

#[test]
fn jobs_have_the_ids_that_squeue_writes_in_every_view() {
    let mut fleet = fleets::cluster();
    fleet.jobs = fleet.jobs.map(|list| {
        let mut list = JobList::clone(&list);
        for job in list.jobs.iter_mut().filter(|job| &*job.shown_id == "8430") {
            job.shown_id = "84_30".into();
        }
        Arc::new(list)
    });
    let enter = KeyCode::Enter;
    let filter: Vec<KeyCode> = "/node=gpu-004".chars().map(KeyCode::Char).collect();
    for (view, keys) in [
        ("node", &[KeyCode::Char('3')][..]),
        ("process of a node", &[KeyCode::Char('3'), KeyCode::End]),
        ("processes", &[KeyCode::Char('4'), KeyCode::Down]),
        ("users", &[KeyCode::Char('5'), enter]),
    ] {
        let mut ui = new_ui(fleet.clone(), DARK);
        press(&mut ui, &[&filter[..], &[enter], keys].concat());
        let shown = text(&draw(&mut ui, 160, 50)).join("\n");
        assert!(shown.contains("job 84_30") && !shown.contains("8430"), "{view}: {shown}");
    }
}
