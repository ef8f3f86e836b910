//! Golden screens of the fleet view, in every theme and on every kind of fleet: the list and the map,
//! grouped, folded, sorted and filtered.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use gtop_fleet::Fleet;
use gtop_ui::{ColourDepth, Surface, Theme, Ui};
use ratatui::layout::Rect;

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::*;

const KEYS: &[KeyCode] = &[KeyCode::Char('1')];

/// Returns the keys of these letters.
fn keys_of(letters: &str) -> Vec<KeyCode> {
    letters.chars().map(KeyCode::Char).collect()
}

#[test]
fn the_fleet_in_other_looks() {
    let fleet = fleets::every_state();
    let basic = Theme { depth: ColourDepth::Ansi16, ..DARK };
    Scene::new("fleet-basic", &fleet, KEYS).check_look(basic, MEDIUM);
    Scene::new("fleet-light", &fleet, KEYS).check_look(LIGHT, MEDIUM);
    Scene::new("fleet-mono", &fleet, KEYS).check_look(MONO, MEDIUM);
    Scene::new("fleet-ascii", &fleet, KEYS).check_look(ASCII, NARROW);
}

#[test]
fn fleet_on_every_kind_of_fleet() {
    check_fleets("fleet-on", KEYS);
}

#[test]
fn the_map_in_sizes_and_looks() {
    let scene = |name| Scene::new(name, &fleets::every_state(), keys_of("1m"));
    scene("fleet-map").check(&ALL_SIZES);
    scene("fleet-map-light").check_look(LIGHT, MEDIUM);
    scene("fleet-map-mono").check_look(MONO, NARROW);
    scene("fleet-map-ascii").check_look(ASCII, NARROW);
}

#[test]
fn the_map_on_every_kind_of_fleet() {
    check_fleets("fleet-map-on", &keys_of("1m"));
}

#[test]
fn the_map_by_every_metric() {
    let cluster = fleets::cluster();
    let scene =
        |name, times| Scene::new(name, &cluster, keys_of(&format!("m{}", "b".repeat(times))));
    let metrics = [("util", 0), ("mem", 1), ("power", 2), ("temp", 3), ("owner", 4), ("job", 5)];
    check_sheet("fleet-map-by", MEDIUM, &metrics.map(|(name, times)| scene(name, times)));
    scene("fleet-map-by-owner-ascii", 4).check_look(ASCII, NARROW);
}

#[test]
fn the_sort_key_names_the_sortable_views_elsewhere() {
    let mut ui = new_ui(fleets::cluster(), DARK);
    press(&mut ui, &[KeyCode::Char('6'), KeyCode::F(6)]);
    let drawn = text(&draw(&mut ui, 80, 24)).join("\n");
    assert!(
        drawn.contains("Fleet, Processes, Users and the list of jobs can be sorted"),
        "{drawn}"
    );
}

#[test]
fn the_largest_jobs_get_letters_in_the_map() {
    let mut ui = new_ui(fleets::many_jobs(70), DARK);
    press(&mut ui, &keys_of("mbbbbb"));
    let drawn = text(&draw(&mut ui, 200, 60)).join("\n");
    // There are 62 letters and digits, for the listed jobs and for one known only from its processes.
    assert!(drawn.contains("a=raw 8421 483   b=169 sweep 8   c=100 sweep 1 "), "{drawn}");
    assert!(drawn.contains("#=9 others"), "{drawn}");
    assert!(drawn.contains("   +42 more\n"), "{drawn}");
}

#[test]
fn groups_and_folded_groups() {
    let cluster = fleets::cluster();
    let groups = [("node-name", "g"), ("partition", "gg"), ("job", "ggg"), ("user", "gggg")];
    let scenes = |more: &str| {
        let groups = groups.into_iter().chain([("model", "ggggg")]);
        let scene = |(name, keys)| Scene::new(name, &cluster, keys_of(&format!("{keys}{more}")));
        groups.map(scene).collect::<Vec<_>>()
    };
    check_sheet("fleet-groups", WIDE, &scenes(""));
    check_sheet("fleet-groups-folded", NARROW, &scenes("-"));
    check_sheet("fleet-groups-map", MEDIUM, &scenes("m"));
    Scene::new("fleet-groups-ascii", &cluster, keys_of("ggg")).check_look(ASCII, NARROW);
}

#[test]
fn groups_by_partition_count_shared_nodes_once() {
    let fleet = fleets::partitioned();
    Scene::new("fleet-partitions", &fleet, keys_of("gg")).check(&[SMALL, WIDE]);
    let by_free = [keys_of("gg"), vec![KeyCode::F(6), KeyCode::Char('f')]].concat();
    let scenes = [
        ("folded", keys_of("gg")),
        ("open", keys_of("gg ")),
        ("by free", by_free),
        ("map", keys_of("ggm")),
    ];
    let scenes = scenes.map(|(name, keys)| Scene::new(name, &fleet, keys));
    check_sheet("fleet-partitions", NARROW, &scenes);
}

#[test]
fn free_devices_of_a_partition_take_two_keys() {
    let mut ui = new_ui(fleets::partitioned(), DARK);
    press(&mut ui, &keys_of("gg"));
    let drawn = text(&draw(&mut ui, 80, 24));
    let numbers = |line: &str| -> Vec<usize> {
        line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    let group = |title: &str| {
        let line = drawn.iter().find(|line| line.starts_with(&format!("▸ {title} ")));
        numbers(line.unwrap_or_else(|| panic!("{title}: {drawn:#?}")))
    };
    // Nodes, busy, idle-held, free and down devices, and those of unknown load.
    let all = ["gpu", "interactive", "serve"].map(group);
    let [gpu, interactive, serve] = &all;
    assert!(gpu[3] > 0 && interactive[3] > 0 && serve[3] > 0, "{drawn:#?}");
    // With the shared nodes counted once, the groups add up to the line of totals.
    let shared = drawn.iter().find(|line| line.contains("in several partitions")).unwrap();
    let shared = numbers(&shared.replace(',', " "));
    assert_eq!(gpu[0] + interactive[0] + serve[0], 300 + shared[0], "{shared:?}");
    for (position, word) in [(1, "busy"), (2, "held"), (3, "free")] {
        // A count of zero is left out where there is no room for it.
        let known = drawn[1].split_once(word);
        let known = known.map_or(0, |(before, _)| *numbers(before).last().unwrap());
        let sum: usize = all.iter().map(|group| group[position]).sum();
        assert_eq!(sum, known + shared[position], "{position}: {drawn:#?}");
    }
}

#[test]
fn the_cursor_of_the_map_explains_its_symbol() {
    let mut ui = new_ui(fleets::cluster(), DARK);
    for (keys, meaning) in [
        ("m", "utilization 9"),
        ("b", "of its memory in use"),
        ("b", "of its power limit"),
        ("b", "on a scale of 20° to 100°"),
        ("b", "user alice"),
        ("b", "job 8421 llama-70b"),
    ] {
        press(&mut ui, &keys_of(keys));
        let drawn = text(&draw(&mut ui, 120, 30));
        let line = drawn.iter().find(|line| line.starts_with("gpu-001 · device 0 ·"));
        assert!(line.is_some_and(|line| line.contains(meaning)), "{meaning}: {drawn:#?}");
    }
}

#[test]
fn a_thousand_nodes_fold_to_one_screen() {
    let large = fleets::large(1_000);
    Scene::new("fleet-thousand-folded", &large, keys_of("g-")).check(&[MEDIUM]);
    Scene::new("fleet-thousand-folded-map", &large, keys_of("mg-")).check(&[NARROW]);
}

#[test]
fn the_sort_column_shows_its_direction() {
    let cluster = fleets::cluster();
    let keys = [KeyCode::F(6), KeyCode::Char('u'), KeyCode::Char('\\')];
    let scenes = [("menu", 1), ("sorted", 2), ("inverted", 3)];
    let scenes = scenes.map(|(name, count)| Scene::new(name, &cluster, &keys[..count]));
    check_sheet("fleet-sort", NARROW, &scenes);
}

#[test]
fn filtered_devices_are_blank_in_the_map() {
    let mut keys = keys_of("m/user=bob");
    keys.push(KeyCode::Enter);
    Scene::new("fleet-map-filtered", &fleets::cluster(), keys).check(&[NARROW]);
}

/// Returns the line that describes the device under the cursor, above the key hints.
fn detail_line(ui: &mut Ui) -> String {
    text(&draw(ui, 160, 24))[22].clone()
}

#[test]
fn the_detail_line_follows_the_cursor_and_enter_opens_the_device() {
    let mut ui = new_ui(fleets::cluster(), DARK);
    press(&mut ui, &keys_of("m"));
    let after_keys = |ui: &mut Ui, keys: &[KeyCode]| {
        press(ui, keys);
        detail_line(ui)
    };
    let first = after_keys(&mut ui, &[]);
    let start = "gpu-001 · device 0 · 9 utilization 97% · H100 80GB HBM3 · ";
    assert!(first.starts_with(start), "{first}");
    assert!(after_keys(&mut ui, &[KeyCode::Right; 3]).starts_with("gpu-001 · device 3 · "));
    let next = after_keys(&mut ui, &[KeyCode::Right; 11]);
    assert!(next.starts_with("gpu-002 · device 6 · "), "{next}");
    assert!(after_keys(&mut ui, &[KeyCode::Left; 7]).starts_with("gpu-001 · device 7 · "));
    press(&mut ui, &[KeyCode::Right, KeyCode::Right, KeyCode::Enter]);
    let screen = text(&draw(&mut ui, 160, 40)).join("\n");
    assert!(screen.contains("GPU-gpu-002-1"), "{screen}");
}

#[test]
fn a_click_selects_a_cell_and_the_next_one_opens_it() {
    // The size of the cells in a terminal of this size.
    for ((width, height), (columns, lines)) in [((160, 24), (4, 1)), ((200, 60), (4, 3))] {
        let mut ui = new_ui(fleets::cluster(), DARK);
        press(&mut ui, &keys_of("m"));
        let screen = text(&draw(&mut ui, width, height));
        let row = screen.iter().position(|line| line.contains("gpu-002")).unwrap();
        let front = screen[row].split("gpu-002").next().unwrap().chars().count();
        let mut click = |line: usize, column: usize| {
            let event = MouseEvent {
                kind: MouseEventKind::Down(MouseButton::Left),
                column: u16::try_from(front + 8 + column).unwrap(),
                row: u16::try_from(row + line).unwrap(),
                modifiers: KeyModifiers::NONE,
            };
            ui.on_mouse(event, NOW);
            text(&draw(&mut ui, width, height)).join("\n")
        };
        let last = click(lines - 1, 5 * columns - 1);
        assert!(last.contains("gpu-002 · device 4 · "), "{last}");
        let next = click(0, 5 * columns);
        assert!(next.contains("gpu-002 · device 5 · "), "{next}");
        let opened = click(lines - 1, 6 * columns - 1);
        assert!(opened.contains("GPU-gpu-002-5"), "{opened}");
    }
}

#[test]
fn the_panel_is_below_the_map_or_beside_it() {
    let drawn = |keys: &str, (width, height)| {
        let mut ui = new_ui(fleets::every_state(), DARK);
        press(&mut ui, &keys_of(keys));
        text(&draw(&mut ui, width, height))
    };
    let is_below = |screen: &[String]| {
        let rule = screen.iter().position(|line| line.starts_with("───"));
        rule.is_some_and(|rule| screen[rule + 1].starts_with("gpu01  8× H100"))
    };
    let is_beside = |screen: &[String]| {
        screen.iter().any(|line| line.starts_with("▸gpu01 ") && line.contains("│ gpu01  8× H100"))
    };
    for (keys, size, below, beside) in [
        ("m", (160, 40), true, false),
        ("m", (160, 30), false, true),
        // With fewer processes, and not at all.
        ("m", (120, 30), true, false),
        ("m", (120, 24), false, false),
        // Headers of groups need the whole width.
        ("mg", (160, 30), true, false),
        ("mg", (160, 26), false, false),
    ] {
        let screen = drawn(keys, size);
        let places = (is_below(&screen), is_beside(&screen));
        assert_eq!(places, (below, beside), "{keys} {size:?}\n{}", screen.join("\n"));
    }
}

#[test]
fn without_a_column_of_notes_the_problems_of_visible_rows_are_told_below() {
    let shown = |width| text(&draw(&mut new_ui(fleets::every_state(), DARK), width, 30)).join("\n");
    let (narrow, usual) = (shown(30), shown(80));
    assert!(!narrow.contains("NOTE") && usual.contains("NOTE"), "{narrow}\n{usual}");
    let is_told = |screen: &str| screen.contains("gpu06  device lost");
    assert!(is_told(&narrow), "{narrow}");
    assert!(!is_told(&usual), "{usual}");
}

#[test]
fn a_group_header_folds_and_unfolds() {
    let mut ui = new_ui(fleets::cluster(), DARK);
    press(&mut ui, &keys_of("ggg"));
    let is_folded = |ui: &mut Ui| {
        let screen = text(&draw(ui, 120, 30)).join("\n");
        assert!(screen.contains("8421 llama-70b"), "{screen}");
        screen.contains("▸ 8421 llama-70b")
    };
    assert!(!is_folded(&mut ui));
    for (key, folded) in [
        (KeyCode::Left, true),
        (KeyCode::Right, false),
        (KeyCode::Enter, true),
        (KeyCode::Char(' '), false),
        (KeyCode::Char('-'), true),
        (KeyCode::Char('+'), false),
    ] {
        press(&mut ui, &[key]);
        assert_eq!(is_folded(&mut ui), folded, "{key:?}");
    }
}

#[test]
fn the_map_and_groups_fit_every_size() {
    for fleet in [fleets::cluster(), fleets::rare(), Fleet::default()] {
        for keys in ["m", "mbbbb", "ggg", "gg-", "mggg-", "mgggjj"] {
            let mut ui = new_ui(fleet.clone(), DARK);
            press(&mut ui, &keys_of(keys));
            for width in (1..30).chain([40, 59, 80, 100, 131, 200, 333]) {
                for height in [1, 2, 3, 4, 5, 8, 11, 15, 24, 34, 50, 90] {
                    draw(&mut ui, width, height);
                }
            }
        }
    }
}

/// The limit of bytes written to the terminal per second while every value changes.
const MAX_BYTES_PER_SECOND: usize = 5_000;

#[test]
fn a_busy_fleet_writes_few_bytes_per_second() {
    let mut means = Vec::new();
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
        let mut fixtures: Vec<_> =
            (1..=nodes).map(|number| fleets::busy(&name(number)).up()).collect();
        let mut ui = new_ui(Fleet::default(), DARK);
        ui.on_fleet(fleets::changing(&mut fixtures, 0), NOW);
        press(&mut ui, &keys_of(keys));
        let mut surface = Surface::new();
        let area = Rect::new(0, 0, width, height);
        let mut frame_sizes = Vec::new();
        for second in 1..=8 {
            let now = NOW.plus(Duration::from_secs(second));
            ui.on_fleet(fleets::changing(&mut fixtures, second), now);
            frame_sizes.push(surface.frame(area, |buffer| ui.draw(now, buffer)).len());
        }
        // The first frame draws everything.
        let mean = frame_sizes[1..].iter().sum::<usize>() / (frame_sizes.len() - 1);
        means.push((nodes, width, height, keys, mean));
    }
    let max = means.iter().map(|(.., mean)| *mean).max().unwrap();
    assert!(max <= MAX_BYTES_PER_SECOND, "{means:#?}");
}
