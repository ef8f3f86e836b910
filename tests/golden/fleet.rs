//! The view of fleet, in every look and on every kind of fleet: the list and the map, in groups and
//! folded, sorted and filtered.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use gtop::fleet::Fleet;
use gtop::tui::{ColourDepth, Surface, Theme, Ui};
use ratatui::layout::Rect;

use crate::fleets::{self, NOW};
use crate::harness::*;

const KEYS: &[KeyCode] = &[KeyCode::Char('1')];

/// Keys that are letters.
fn typed(letters: &str) -> Vec<KeyCode> {
    letters.chars().map(KeyCode::Char).collect()
}

fn check_on(name: &str, fleet: &Fleet, keys: &[KeyCode], look: Theme, (width, height): (u16, u16)) {
    let mut stage = stage(fleet.clone(), look);
    press(&mut stage, keys);
    check(&format!("{name}-{width}x{height}"), &draw(&mut stage, width, height));
}

#[test]
fn fleet_in_every_look() {
    check_looks("fleet", KEYS);
    let basic = Theme { depth: ColourDepth::Ansi16, ..DARK };
    check_on("fleet-basic", &fleets::every_state(), KEYS, basic, (120, 40));
}

#[test]
fn fleet_on_every_kind_of_fleet() {
    check_fleets("fleet", KEYS);
}

#[test]
fn the_map_in_every_look() {
    check_looks("fleet-map", &typed("1m"));
}

#[test]
fn the_map_on_every_kind_of_fleet() {
    check_fleets("fleet-map", &typed("1m"));
}

#[test]
fn the_map_by_every_quantity() {
    let cluster = fleets::cluster();
    for (times, name) in ["util", "mem", "power", "temp", "owner", "job"].into_iter().enumerate() {
        let keys = typed(&format!("m{}", "b".repeat(times)));
        check_on(&format!("fleet-by-{name}"), &cluster, &keys, DARK, (120, 40));
        check_on(&format!("fleet-by-{name}-ascii"), &cluster, &keys, ASCII, (80, 24));
    }
}

#[test]
fn where_rows_keep_their_order_the_sort_key_says_so() {
    for view in ['2', '3', '6'] {
        let mut stage = stage(fleets::cluster(), DARK);
        press(&mut stage, &[KeyCode::Char(view), KeyCode::F(6)]);
        let drawn = text(&draw(&mut stage, 80, 24)).join("\n");
        assert!(drawn.contains("only Fleet, Processes and Users can be sorted"), "{drawn}");
    }
}

#[test]
fn where_letters_run_out_the_largest_jobs_have_theirs() {
    let mut stage = stage(fleets::many_jobs(70), DARK);
    press(&mut stage, &typed("mbbbbb"));
    let drawn = text(&draw(&mut stage, 200, 60)).join("\n");
    // 62 letters and figures for the jobs of the list, and for one of which only processes tell.
    assert!(drawn.contains("a 8421 483   b 169 sweep 8   c 100 sweep 1 "), "{drawn}");
    assert!(drawn.contains("# 9 others"), "{drawn}");
    assert!(drawn.contains("   +41 more\n"), "{drawn}");
}

#[test]
fn groups_and_folded_groups() {
    let cluster = fleets::cluster();
    let groups = ["node-name", "partition", "job", "user", "model"];
    for (times, name) in (1..).zip(groups) {
        let keys = |more: &str| typed(&format!("{}{more}", "g".repeat(times)));
        check_on(&format!("fleet-group-{name}"), &cluster, &keys(""), DARK, (200, 50));
        check_on(&format!("fleet-group-{name}-folded"), &cluster, &keys("-"), DARK, (80, 24));
        check_on(&format!("fleet-group-{name}-map"), &cluster, &keys("m"), DARK, (120, 40));
    }
    for (name, look) in [("light", LIGHT), ("mono", MONO), ("ascii", ASCII)] {
        check_on(&format!("fleet-group-{name}"), &cluster, &typed("ggg"), look, (120, 40));
        check_on(&format!("fleet-group-map-{name}"), &cluster, &typed("gggm"), look, (120, 40));
    }
}

#[test]
fn a_thousand_nodes_fold_to_a_page() {
    let large = fleets::large(1_000);
    check_on("fleet-thousand-folded", &large, &typed("g-"), DARK, (120, 40));
    check_on("fleet-thousand-folded-map", &large, &typed("mg-"), DARK, (80, 24));
}

#[test]
fn a_column_sorts_and_says_which_way() {
    let cluster = fleets::cluster();
    let mut keys = vec![KeyCode::F(6), KeyCode::Char('u')];
    check_on("fleet-sorted", &cluster, &keys, DARK, (120, 40));
    keys.push(KeyCode::Char('\\'));
    check_on("fleet-sorted-inverted", &cluster, &keys, DARK, (80, 24));
    check_on("fleet-sort-menu", &cluster, &[KeyCode::F(6)], DARK, (80, 24));
}

#[test]
fn devices_that_are_not_asked_for_leave_the_map() {
    let mut keys = typed("m/user=bob");
    keys.push(KeyCode::Enter);
    check_on("fleet-map-filtered", &fleets::cluster(), &keys, DARK, (80, 24));
}

/// The line that tells of what is under the cursor: the one above the keys.
fn under_cursor(stage: &mut Ui) -> String {
    text(&draw(stage, 160, 24))[22].clone()
}

#[test]
fn the_cursor_tells_of_the_device_and_enter_opens_it() {
    let mut stage = stage(fleets::cluster(), DARK);
    press(&mut stage, &typed("m"));
    let told = |stage: &mut Ui, keys: &[KeyCode]| {
        press(stage, keys);
        under_cursor(stage)
    };
    let first = told(&mut stage, &[]);
    assert!(first.starts_with("gpu-001 · device 0 · H100 80GB HBM3 · 97% · "), "{first}");
    assert!(told(&mut stage, &[KeyCode::Right; 3]).starts_with("gpu-001 · device 3 · "));
    let next = told(&mut stage, &[KeyCode::Right; 11]);
    assert!(next.starts_with("gpu-002 · device 6 · "), "{next}");
    assert!(told(&mut stage, &[KeyCode::Left; 7]).starts_with("gpu-001 · device 7 · "));
    press(&mut stage, &[KeyCode::Right, KeyCode::Right, KeyCode::Enter]);
    let screen = text(&draw(&mut stage, 160, 40)).join("\n");
    assert!(screen.contains("GPU-gpu-002-1"), "{screen}");
}

#[test]
fn a_click_selects_a_cell_and_the_next_one_opens_it() {
    let mut stage = stage(fleets::cluster(), DARK);
    press(&mut stage, &typed("m"));
    let screen = text(&draw(&mut stage, 160, 24));
    let row = screen.iter().position(|line| line.contains("gpu-002")).unwrap();
    let front = screen[row].split("gpu-002").next().unwrap().chars().count();
    let click = |stage: &mut Ui| {
        let event = MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column: u16::try_from(front + 8 + 4).unwrap(),
            row: u16::try_from(row).unwrap(),
            modifiers: KeyModifiers::NONE,
        };
        stage.on_mouse(event, NOW);
    };
    click(&mut stage);
    let told = under_cursor(&mut stage);
    assert!(told.starts_with("gpu-002 · device 4 · "), "{told}");
    click(&mut stage);
    let screen = text(&draw(&mut stage, 160, 40)).join("\n");
    assert!(screen.contains("GPU-gpu-002-4"), "{screen}");
}

#[test]
fn a_head_folds_and_the_cursor_finds_its_way() {
    let mut stage = stage(fleets::cluster(), DARK);
    press(&mut stage, &typed("ggg"));
    let is_folded = |stage: &mut Ui| {
        let screen = text(&draw(stage, 120, 30)).join("\n");
        assert!(screen.contains("8421 llama-70b"), "{screen}");
        screen.contains("▸ 8421 llama-70b")
    };
    assert!(!is_folded(&mut stage));
    for (key, folded) in [
        (KeyCode::Left, true),
        (KeyCode::Right, false),
        (KeyCode::Enter, true),
        (KeyCode::Char(' '), false),
        (KeyCode::Char('-'), true),
        (KeyCode::Char('+'), false),
    ] {
        press(&mut stage, &[key]);
        assert_eq!(is_folded(&mut stage), folded, "{key:?}");
    }
}

#[test]
fn the_map_and_groups_fit_every_size() {
    for fleet in [fleets::cluster(), fleets::rare(), Fleet::default()] {
        for keys in ["m", "mbbbb", "ggg", "gg-", "mggg-", "mgggjj"] {
            let mut stage = stage(fleet.clone(), DARK);
            press(&mut stage, &typed(keys));
            for width in (1..30).chain([40, 59, 80, 100, 131, 200, 333]) {
                for height in [1, 2, 3, 4, 5, 8, 11, 15, 24, 34, 50, 90] {
                    draw(&mut stage, width, height);
                }
            }
        }
    }
}

/// Bytes the terminal is sent a second, when everything changes all the time.
const BYTES_A_SECOND: usize = 5_000;

#[test]
fn a_busy_fleet_costs_few_bytes_a_second() {
    let mut all = Vec::new();
    for (nodes, (width, height), keys) in [
        (64, (80, 24), ""),
        (64, (200, 50), ""),
        (64, (200, 80), ""),
        (64, (200, 50), "ggg"),
        (64, (80, 24), "m"),
        (64, (200, 50), "m"),
        (64, (200, 50), "mbbbb"),
        (256, (200, 60), "m"),
    ] {
        let name = |number| format!("gpu{number:02}");
        let mut makers: Vec<_> =
            (1..=nodes).map(|number| fleets::busy(&name(number)).up()).collect();
        let mut stage = stage(Fleet::default(), DARK);
        stage.on_fleet(fleets::changing(&mut makers, 0), NOW);
        press(&mut stage, &typed(keys));
        let mut surface = Surface::new();
        let area = Rect::new(0, 0, width, height);
        let mut spent = Vec::new();
        for second in 1..=8 {
            let now = NOW.plus(Duration::from_secs(second));
            stage.on_fleet(fleets::changing(&mut makers, second), now);
            spent.push(surface.frame(area, |buffer| stage.draw(now, buffer)).len());
        }
        // The first frame draws everything.
        let mean = spent[1..].iter().sum::<usize>() / (spent.len() - 1);
        all.push((nodes, width, height, keys, mean));
    }
    let most = all.iter().map(|(.., mean)| *mean).max().unwrap();
    assert!(most <= BYTES_A_SECOND, "{all:#?}");
}
