//! Golden screens of the node view: every theme, every kind of fleet, every density, and charts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyCode;
use gtop_fleet::Fleet;
use gtop_fleet::query::{DisplaySelection, NameColumns};
use gtop_local::time::Timestamp;
use gtop_model::JobId;
use gtop_ui::ChartMetric;
use gtop_ui::{Chart, Density, DisplayOptions, MemoryUnit};
use gtop_ui::{Keymap, Ui};

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::{
    ALL_SIZES, ASCII, DARK, LIGHT, MEDIUM, MONO, NARROW, Scene, WIDE, check_fleets, check_sheet,
    default_display, draw, draw_at, new_ui, press, row, text,
};

const KEYS: &[KeyCode] = &[KeyCode::Char('3')];

#[test]
fn node_in_sizes_and_looks() {
    let scene = |name| Scene::new(name, &fleets::every_state(), KEYS);
    scene("node").check(&ALL_SIZES);
    scene("node-light").check_look(LIGHT, MEDIUM);
    scene("node-mono").check_look(MONO, NARROW);
    scene("node-ascii").check_look(ASCII, NARROW);
}

#[test]
fn node_on_every_kind_of_fleet() {
    check_fleets("node-on", KEYS);
}

#[test]
fn each_job_of_a_host_is_listed_or_counted() {
    let mut fleet = fleets::with_jobs();
    let node = Arc::make_mut(&mut Arc::make_mut(&mut fleet.nodes)[0]);
    let shares = Arc::make_mut(node.shares.as_mut().unwrap());
    let share = *shares.jobs.values().next().unwrap();
    shares.jobs = (101..=108).map(|id| (JobId::new(&id.to_string()).unwrap(), share)).collect();
    let mut ui = new_ui(fleet, DARK);
    press(&mut ui, KEYS);
    for height in [24, 50] {
        let screen = text(&draw(&mut ui, 80, height));
        let shown: usize = screen.iter().map(|line| line.matches("JOB 10").count()).sum();
        let counted = screen.iter().find_map(|line| line.rsplit_once('+')?.1.strip_suffix(" jobs"));
        let counted: usize = counted.map_or(0, |count| count.parse().unwrap());
        let is_crowded = height == 24;
        assert_eq!((shown + counted, counted > 0), (8, is_crowded), "{screen:#?}");
        let blank = screen.iter().filter(|line| line.trim().is_empty()).count();
        assert!(!is_crowded || blank <= 2, "{screen:#?}");
    }
}

/// Opens the node at this index of the list, then presses letters.
fn keys_on_node(index: usize, letters: &str) -> Vec<KeyCode> {
    let mut keys = vec![KeyCode::Down; index];
    keys.push(KeyCode::Char('3'));
    keys.extend(letters.chars().map(KeyCode::Char));
    keys
}

#[test]
fn clearing_a_filter_keeps_the_shown_node() {
    let mut ui = new_ui(fleets::accelerators(), DARK);
    let rest = [KeyCode::Enter, KeyCode::Char('3'), KeyCode::Esc];
    let name = fleets::accelerators().nodes[2].name.to_string();
    let typed: Vec<KeyCode> =
        format!("/node={name}").chars().map(KeyCode::Char).chain(rest).collect();
    press(&mut ui, &typed);
    let screen = text(&draw(&mut ui, 80, 24)).join("\n");
    assert!(screen.contains("filter: none") || !screen.contains("/node="), "{screen}");
    assert!(screen.lines().any(|line| line.starts_with(&format!("{name} "))), "{screen}");
}

#[test]
fn what_matches_the_filter_is_bold_and_counted() {
    let keys = |filter: &str| -> Vec<KeyCode> {
        let typed = format!("/{filter}").chars().map(KeyCode::Char).collect::<Vec<_>>();
        [typed, vec![KeyCode::Enter, KeyCode::Char('3')]].concat()
    };
    Scene::new("node-filtered", &fleets::every_state(), keys("gpu=2")).check(&[NARROW]);
    for (filter, count) in [("gpu=2", "1 of 8 matches"), ("gpu<3", "3 of 8 match "), ("gpu<8", "")]
    {
        let mut ui = new_ui(fleets::every_state(), DARK);
        press(&mut ui, &keys(filter));
        let screen = text(&draw(&mut ui, 120, 40));
        let title = screen.iter().find(|line| line.starts_with("gpu01 ")).unwrap();
        assert!(title.contains(count), "{filter}: {title}");
        assert_eq!(title.contains(" of 8 "), !count.is_empty(), "{filter}: {title}");
    }
}

#[test]
fn devices_come_before_their_sum() {
    for (height, expected) in [(14, (7, false)), (15, (8, false)), (17, (8, true))] {
        let mut ui = new_ui(fleets::every_state(), DARK);
        press(&mut ui, KEYS);
        let screen = text(&draw(&mut ui, 60, height));
        let is_device =
            |line: &&String| (0..8).any(|device| line.starts_with(&format!("  {device} ")));
        let devices = screen.iter().filter(is_device).count();
        let has_sum = screen.iter().any(|line| line.starts_with("SUM"));
        assert_eq!((devices, has_sum), expected, "{height}: {screen:#?}");
    }
}

#[test]
fn free_rows_show_more_of_a_single_device() {
    let node = fleets::fully_metered("gpu01").up().node();
    Scene::new("node-free-rows", &Fleet::new(vec![node].into()), KEYS).check(&[MEDIUM]);
}

#[test]
fn commands_have_room_before_other_columns() {
    for fleet in [fleets::every_state(), fleets::accelerators(), fleets::with_jobs()] {
        let mut ui = new_ui(fleet, DARK);
        press(&mut ui, KEYS);
        let screen = text(&draw(&mut ui, 80, 24));
        let titles = screen.iter().find(|line| line.contains("PID USER")).unwrap();
        let before = titles.split("COMMAND").next().unwrap();
        assert!(before.chars().count() <= 60, "{titles}");
    }
}

#[test]
fn a_node_in_every_density() {
    let fleet = fleets::accelerators();
    let densities = [("auto", "a"), ("full", "f"), ("compact", "c")];
    let scenes = densities.map(|(name, key)| Scene::new(name, &fleet, keys_on_node(0, key)));
    check_sheet("node-density", MEDIUM, &scenes);
    let ascii = Scene::new("node-density-ascii", &fleet, keys_on_node(0, "f"));
    ascii.check_look(ASCII, NARROW);
}

#[test]
fn slices_chips_and_cards_show_their_attributes() {
    let fleet = fleets::accelerators();
    let kinds = [(1, "slices"), (2, "chips"), (3, "cards")];
    let scenes =
        |letters| kinds.map(|(index, name)| Scene::new(name, &fleet, keys_on_node(index, letters)));
    check_sheet("node-of", NARROW, &scenes(""));
    check_sheet("node-of", WIDE, &scenes(""));
    check_sheet("node-of-full", MEDIUM, &scenes("f"));
}

fn two_minutes_later() -> Timestamp {
    NOW.plus(Duration::from_secs(119))
}

/// Watches a busy node for two minutes, and only then shows it.
fn show_after_two_minutes(ui: &mut Ui, letters: &str) {
    let mut makers = vec![fleets::fully_metered("gpu01").up()];
    for second in 1..=119 {
        ui.on_fleet(fleets::changing(&mut makers, second), NOW.plus(Duration::from_secs(second)));
    }
    for letter in letters.chars() {
        let code = KeyCode::Char(letter);
        ui.on_key(crossterm::event::KeyEvent::from(code), two_minutes_later());
    }
}

/// Returns the scene after the two minutes.
fn charted(name: &'static str, display: DisplayOptions, letters: &'static str) -> Scene {
    let ui = move |theme| {
        let mut ui = new_ui(Fleet::default(), theme);
        ui = ui.with_options(display.clone(), Keymap::default());
        show_after_two_minutes(&mut ui, letters);
        ui
    };
    Scene::of(name, ui).at(two_minutes_later())
}

#[test]
fn graphs_show_the_last_minutes() {
    charted("node-graphs", default_display(), "f").check(&[MEDIUM]);
    charted("node-graphs-ascii", default_display(), "f").check_look(ASCII, NARROW);
    charted("node-chart", default_display(), "g").check(&[NARROW, MEDIUM]);
    charted("node-chart-ascii", default_display(), "g").check_look(ASCII, NARROW);
}

#[test]
fn a_chart_of_many_devices_shows_all_of_them_first() {
    let fleet = fleets::every_state();
    Scene::new("node-chart-many", &fleet, keys_on_node(0, "g")).check(&[NARROW]);
    let mut ui = new_ui(fleet, DARK);
    press(&mut ui, &keys_on_node(0, "g"));
    let screen = text(&draw(&mut ui, 80, 24)).join("\n");
    for device in 0..8 {
        assert!(screen.contains(&format!("{device} util")), "{device}: {screen}");
    }
}

#[test]
fn charted_metrics_are_chosen_from_a_menu() {
    // Power and temperature are added to what is charted.
    charted("node-chart-menu", default_display(), "Gpt").check(&[MEDIUM]);
    let mut menu = new_ui(Fleet::default(), DARK);
    show_after_two_minutes(&mut menu, "Gpt");
    menu.on_key(crossterm::event::KeyEvent::from(KeyCode::Esc), NOW);
    let screen = text(&draw_at(&mut menu, MEDIUM, two_minutes_later())).join("\n");
    for word in ["0 util", "0 mem", "0 power", "0 temp"] {
        assert!(screen.contains(word), "{word}: {screen}");
    }
}

#[test]
fn a_chart_can_be_reversed() {
    let display = DisplayOptions {
        chart: Chart { is_reversed: true, ..Chart::default() },
        ..DisplayOptions::default()
    };
    charted("node-chart-reversed", display, "g").check(&[MEDIUM]);
}

#[test]
fn charted_metrics_can_be_configured() {
    let metrics = ["power", "enc"].map(|name| ChartMetric::from_name(name).unwrap()).to_vec();
    let chart = Chart { metrics, ..Chart::default() };
    let display = DisplayOptions { chart, ..DisplayOptions::default() };
    let screen = screen_lines(fleets::accelerators(), display, &keys_on_node(0, "g")).join("\n");
    assert!(screen.contains("0 power") && screen.contains("0 enc"), "{screen}");
    assert!(!screen.contains("0 util"), "{screen}");
}

fn screen_lines(fleet: Fleet, display: DisplayOptions, keys: &[KeyCode]) -> Vec<String> {
    let mut ui = new_ui(fleet, DARK).with_options(display, Keymap::default());
    press(&mut ui, keys);
    text(&draw(&mut ui, 200, 50))
}

#[test]
fn units_follow_the_settings() {
    let display =
        DisplayOptions { is_fahrenheit: true, unit: MemoryUnit::Mib, ..DisplayOptions::default() };
    let screen = screen_lines(fleets::accelerators(), display, &keys_on_node(0, "")).join("\n");
    for word in ["MiB", "/81559", "145F", "175F"] {
        assert!(screen.contains(word), "{word}: {screen}");
    }
    assert!(!screen.contains('°') && !screen.contains("GiB"), "{screen}");
}

#[test]
fn missing_sums_are_explained() {
    let without_devices = || DisplayOptions {
        selection: DisplaySelection {
            devices: Some(BTreeSet::from([9])),
            ..DisplaySelection::default()
        },
        ..DisplayOptions::default()
    };
    let cpu_node = || fleets::NodeFixture::new("cpu01").up().node();
    let stale_node = || fleets::busy("gpu01").up_until_ago(9_000).node();
    for (nodes, display, expected) in [
        (vec![cpu_node()], DisplayOptions::default(), "no devices"),
        (vec![cpu_node()], without_devices(), "no devices"),
        (
            vec![cpu_node(), fleets::busy("gpu01").up().node()],
            without_devices(),
            "no devices selected",
        ),
        (
            vec![cpu_node(), stale_node()],
            DisplayOptions::default(),
            "8 devices · 8 stale  no fresh device samples",
        ),
        (vec![stale_node()], DisplayOptions::default(), "8 devices · 8 stale  no fresh samples"),
    ] {
        let mut ui = new_ui(Fleet::default(), DARK).with_options(display, Keymap::default());
        ui.on_fleet(Fleet::new(nodes.into()), NOW);
        assert_eq!(row(&draw(&mut ui, 120, 40), 1).trim(), expected);
    }
}

#[test]
fn only_selected_devices_and_processes_are_shown() {
    let only = DisplaySelection {
        devices: Some(BTreeSet::from([1, 2])),
        pids: BTreeSet::from([41_211]),
        names: NameColumns { has_index: true, has_name: false, has_uuid: true },
        ..DisplaySelection::default()
    };
    let display =
        DisplayOptions { selection: only, density: Density::Compact, ..DisplayOptions::default() };
    let screen = screen_lines(fleets::accelerators(), display, &keys_on_node(0, "")).join("\n");
    for word in ["GPU-gpu01-1", "GPU-gpu01-2", "41211", "UUID", "2× H100"] {
        assert!(screen.contains(word), "{word}: {screen}");
    }
    for word in ["GPU-gpu01-0", "GPU-gpu01-3", "41222", " NAME "] {
        assert!(!screen.contains(word), "{word}: {screen}");
    }
}

#[test]
fn the_detail_line_lists_unknown_values_and_reasons() {
    let fleet = fleets::accelerators();
    let mut chips = new_ui(fleet, DARK);
    let mut key_codes = keys_on_node(2, "");
    key_codes.extend([KeyCode::Home, KeyCode::Down, KeyCode::Down]);
    press(&mut chips, &key_codes);
    let screen = text(&draw(&mut chips, 200, 50));
    let detail = &screen[screen.len() - 2];
    assert!(detail.contains("util, memory, membw: no workload"), "{detail}");
    assert!(detail.contains("temp, power, limit, clocks: not supported"), "{detail}");
}

#[test]
fn names_in_any_script_keep_columns_aligned() {
    let mut hostile = new_ui(fleets::rare(), DARK);
    press(&mut hostile, &keys_on_node(0, ""));
    for width in [80, 120, 200] {
        let buffer = draw(&mut hostile, width, 50);
        let rows = || 0..buffer.area.height;
        let at = |y: u16, word: &str| {
            let cells = word.chars().count() as u16;
            (0..width.saturating_sub(cells)).find(|x| {
                let symbols = (*x..x + cells).map(|x| buffer[(x, y)].symbol());
                symbols.collect::<String>() == word
            })
        };
        let titles = rows().find(|y| at(*y, "GPU-MEM").is_some()).unwrap();
        let (memory, command) = (at(titles, "GPU-MEM").unwrap(), at(titles, "COMMAND").unwrap());
        assert_eq!(buffer[(memory + 6, titles + 1)].symbol(), "G");
        assert_eq!(buffer[(command, titles + 1)].symbol(), "日");
        for y in rows() {
            let harmless = |x| !buffer[(x, y)].symbol().contains(char::is_control);
            assert!((0..width).all(harmless));
        }
    }
}

#[test]
fn graphs_draw_at_any_size() {
    for letters in ["f", "g", "fgG", "cp"] {
        let mut ui = new_ui(fleets::accelerators(), DARK);
        for index in [0, 2] {
            press(&mut ui, &keys_on_node(index, letters));
            for width in [1, 2, 5, 9, 17, 33, 36, 39, 71, 72, 80, 99, 160, 333, 700] {
                for height in [1, 3, 7, 8, 9, 13, 24, 40, 90] {
                    draw(&mut ui, width, height);
                }
            }
        }
    }
}
