//! Golden screens of the job view, in every theme and on every kind of fleet.

use std::time::Duration;

use crossterm::event::KeyCode;
use gtop::internals::fleet::Fleet;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::*;

const KEYS: &[KeyCode] = &[KeyCode::Char('2')];

/// Returns the key of the view, followed by `keys`.
fn view_keys(keys: &[KeyCode]) -> Vec<KeyCode> {
    KEYS.iter().chain(keys).copied().collect()
}

fn screen(fleet: Fleet, keys: &[KeyCode], (width, height): (u16, u16)) -> String {
    let mut ui = new_ui(fleet, DARK);
    press(&mut ui, keys);
    text(&draw(&mut ui, width, height)).join("\n")
}

#[test]
fn job_in_every_theme() {
    for (name, theme) in [("dark", DARK), ("light", LIGHT), ("mono", MONO), ("ascii", ASCII)] {
        check_sizes(&format!("job-look-{name}"), &fleets::with_jobs(), KEYS, theme);
    }
    check_small("job-look-dark", &fleets::with_jobs(), KEYS);
}

#[test]
fn job_on_every_kind_of_fleet() {
    check_fleets("job", KEYS);
}

#[test]
fn jobs_of_every_kind() {
    let down = KeyCode::Down;
    for (name, fleet, keys) in [
        ("idle", fleets::with_jobs(), view_keys(&[down])),
        ("unknown-devices", fleets::with_jobs(), view_keys(&[down, down])),
        ("unlisted", fleets::with_jobs(), view_keys(&[KeyCode::Char('j'); 3])),
        ("without-list", fleets::every_state(), view_keys(&[])),
        ("waiting", fleets::only_pending_jobs(), view_keys(&[])),
        ("large", fleets::one_large_job(1_000), view_keys(&[KeyCode::Right, KeyCode::Right])),
        ("hostile", fleets::hostile_jobs(), view_keys(&[])),
        ("cursor", fleets::with_jobs(), view_keys(&[KeyCode::Enter, down])),
        ("power", fleets::with_jobs(), view_keys(&[KeyCode::Char('m'), KeyCode::Char('m')])),
    ] {
        check_sizes(&format!("job-{name}"), &fleet, &keys, DARK);
    }
}

#[test]
fn a_job_that_ends_while_shown_says_so() {
    let mut ui = new_ui(fleets::with_jobs(), DARK);
    press(&mut ui, &view_keys(&[KeyCode::Down]));
    let later = NOW.plus(Duration::from_secs(60));
    ui.on_fleet(fleets::a_minute_later(), later);
    let mut buffer = Buffer::empty(Rect::new(0, 0, 80, 24));
    ui.draw(later, &mut buffer);
    check("job-ended-80x24", &buffer);
}

#[test]
fn stale_nodes_are_excluded_from_statistics_and_named() {
    let screen = screen(fleets::with_jobs(), KEYS, (120, 40));
    let fresh = "2 of 5 nodes fresh · gpu[05,08,99] excluded from min, mean and max";
    assert!(screen.contains(fresh), "{screen}");
    assert!(screen.contains("12!"), "{screen}");
    assert!(screen.contains("gpu02:3 at 12%, peers at 97%"), "{screen}");
}

#[test]
fn a_job_row_shows_only_the_devices_of_the_job() {
    let screen = screen(fleets::with_jobs(), &view_keys(&[KeyCode::Down]), (80, 24));
    let row = screen.lines().find(|line| line.contains("  gpu03 ")).unwrap();
    let numbers = row.split_whitespace().filter(|word| *word == "0").count();
    assert_eq!(numbers, 4, "{screen}");
}

#[test]
fn slices_are_not_counted_as_devices() {
    let job = screen(fleets::job_with_slices(), KEYS, (120, 40));
    assert!(job.contains("1 node · 1 device and 2 slices"), "{job}");
}

#[test]
fn a_row_opens_its_node_and_escape_leaves_the_table() {
    let open_keys = view_keys(&[KeyCode::Enter, KeyCode::Down, KeyCode::Enter]);
    assert!(screen(fleets::with_jobs(), &open_keys, (80, 24)).contains("gpu02  8× H100"));
    let leave_keys = view_keys(&[KeyCode::Enter, KeyCode::Esc, KeyCode::Down]);
    assert!(screen(fleets::with_jobs(), &leave_keys, (80, 24)).contains("job 8425"));
}

#[test]
fn back_from_a_node_returns_to_the_same_job() {
    let open_keys = view_keys(&[KeyCode::Enter, KeyCode::Enter, KeyCode::Right, KeyCode::Right]);
    assert!(screen(fleets::with_jobs(), &open_keys, (80, 24)).contains("gpu03  8× H100"));
    let back_keys = [open_keys, vec![KeyCode::Esc]].concat();
    let screen = screen(fleets::with_jobs(), &back_keys, (80, 24));
    assert!(screen.contains("job 8421"), "{screen}");
}

#[test]
fn a_job_hidden_by_the_filter_is_not_shown_as_ended() {
    let typed: Vec<KeyCode> = "/node=gpu03".chars().map(KeyCode::Char).collect();
    let mut keys = view_keys(&typed);
    keys.push(KeyCode::Enter);
    let hidden = screen(fleets::with_jobs(), &keys, (80, 24));
    assert!(hidden.contains("none of its nodes match the filter"), "{hidden}");
    keys.push(KeyCode::Down);
    let other = screen(fleets::with_jobs(), &keys, (80, 24));
    assert!(other.contains("job 8425") && other.contains("job 1 of 1"), "{other}");
}

#[test]
fn jobs_users_and_events_draw_at_any_size() {
    let open = [KeyCode::Enter, KeyCode::Down, KeyCode::End];
    for fleet in [fleets::with_jobs(), fleets::hostile_jobs(), fleets::only_pending_jobs()] {
        for view in ['2', '5', '6'] {
            let mut ui = new_ui(fleet.clone(), ASCII);
            ui.on_fleet(fleets::a_minute_later(), NOW);
            ui.on_fleet(fleet.clone(), NOW);
            press(&mut ui, &[KeyCode::Char(view)]);
            press(&mut ui, &open);
            for width in (1..30).chain([40, 50, 59, 60, 79, 80, 100, 131, 200, 333]) {
                for height in [1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 19, 24, 34, 50, 200] {
                    draw(&mut ui, width, height);
                }
            }
        }
    }
}
