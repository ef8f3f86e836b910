//! How load is drawn: graphs that stay when their node is gone, slices, what a small screen shows once, and which
//! messages are shown.

use std::collections::BTreeSet;
use std::time::Duration;

use crossterm::event::KeyCode;
use gtop_fleet::Fleet;
use gtop_local::time::Timestamp;
use gtop_model::{Fault, FaultKind, Link};
use gtop_ui::{Theme, Ui};

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::{DARK, MEDIUM, Scene, draw, new_ui, press, text};

/// Returns the keys of these letters.
fn keys_of(letters: &str) -> Vec<KeyCode> {
    letters.chars().map(KeyCode::Char).collect()
}

fn a_minute_after() -> Timestamp {
    NOW.plus(Duration::from_secs(180))
}

/// Shows a busy node for two minutes, then takes its connection away and shows it for another.
fn ui_without_connection(theme: Theme, letters: &str) -> Ui {
    let mut ui = new_ui(Fleet::default(), theme);
    let mut makers = vec![fleets::fully_metered("gpu01").up()];
    for second in 1..=119 {
        ui.on_fleet(fleets::changing(&mut makers, second), NOW.plus(Duration::from_secs(second)));
    }
    press(&mut ui, &keys_of(letters));
    let fault = Fault::new(FaultKind::SessionLost, "reset");
    let down = makers.remove(0).link(Link::Down { fault, retry_at: None });
    ui.on_fleet(Fleet::new(vec![down.node()].into()), a_minute_after());
    ui
}

#[test]
fn a_node_that_is_down_keeps_its_last_graphs() {
    for (name, letters) in [("node-down-graphs", "3f"), ("node-down-chart", "3g")] {
        let scene = Scene::of(name, move |theme| ui_without_connection(theme, letters));
        let scene = scene.at(a_minute_after());
        scene.check(&[MEDIUM]);
        let screen = text(&scene.draw(DARK, MEDIUM)).join("\n");
        assert!(screen.contains("last seen 1m01s ago"), "{screen}");
        let dots = screen.chars().filter(|letter| ('\u{2801}'..'\u{28ff}').contains(letter));
        assert!(dots.count() > 100, "{screen}");
    }
}

#[test]
fn a_small_screen_tells_a_problem_once_and_its_remedy_at_the_cursor() {
    let refused =
        fleets::busy("gpu02").down(FaultKind::AuthenticationRefused, "offers hostbased", None);
    let nodes = vec![fleets::busy("gpu01").up().node(), refused.node()];
    let mut ui = new_ui(Fleet::new(nodes.into()), DARK);
    let told = |screen: &[String]| {
        screen.iter().filter(|line| line.contains("authentication refused")).count()
    };
    let screen = text(&draw(&mut ui, 80, 24));
    assert_eq!(told(&screen), 1, "{screen:#?}");
    press(&mut ui, &[KeyCode::Down]);
    let screen = text(&draw(&mut ui, 80, 24));
    assert!(screen.iter().any(|line| line.contains('→')), "{screen:#?}");
}

#[test]
fn a_problem_of_a_row_that_is_not_visible_is_told_below() {
    let mut nodes: Vec<_> =
        (1..=40).map(|n| fleets::busy(&format!("gpu{n:02}")).up().node()).collect();
    nodes.push(fleets::busy("gpu41").down(FaultKind::Silent, "", Some(9)).node());
    let mut ui = new_ui(Fleet::new(nodes.into()), DARK);
    let screen = text(&draw(&mut ui, 80, 24));
    assert!(screen.iter().any(|line| line.starts_with("✗ gpu41  silent")), "{screen:#?}");
}

#[test]
fn whose_a_node_is_comes_before_its_power() {
    let mut ui = new_ui(fleets::with_jobs(), DARK);
    press(&mut ui, &keys_of("1"));
    let titles = text(&draw(&mut ui, 80, 24))[3].clone();
    assert!(titles.contains("JOB") && titles.contains("USER"), "{titles}");
    assert!(!titles.contains("CPU"), "{titles}");
}

#[test]
fn a_message_is_below_the_view_it_concerns_and_in_no_other() {
    let mut ui = new_ui(fleets::every_state(), DARK);
    press(&mut ui, &keys_of("1b"));
    let screen = text(&draw(&mut ui, 80, 24));
    assert!(screen[23].starts_with("press m for the map first   "), "{screen:#?}");
    assert!(screen[23].ends_with("quit"), "{screen:#?}");
    assert!(screen[2].starts_with("1 Fleet  2 Job  3 Node  4 Processes"), "{screen:#?}");
    press(&mut ui, &keys_of("3"));
    let screen = text(&draw(&mut ui, 80, 24)).join("\n");
    assert!(!screen.contains("press m"), "{screen}");
    // Neither after a key that makes it untrue.
    press(&mut ui, &keys_of("1bm"));
    let screen = text(&draw(&mut ui, 80, 24)).join("\n");
    assert!(!screen.contains("press m"), "{screen}");
}

#[test]
fn key_hints_are_shown_whole_or_not_at_all() {
    let mut ui = new_ui(fleets::every_state(), DARK);
    press(&mut ui, &keys_of("1b"));
    let mut hints = |width| {
        let footer = text(&draw(&mut ui, width, 24))[23].clone();
        let hints = footer.strip_prefix("press m for the map first").unwrap().split("  ");
        hints.map(|hint| hint.trim().to_owned()).collect::<BTreeSet<_>>()
    };
    let all = hints(200);
    assert!(all.contains("q quit"), "{all:?}");
    for width in 30..120 {
        let shown = hints(width);
        assert!(shown.is_subset(&all), "{width}: {shown:?}");
    }
}

#[test]
fn a_device_that_is_cut_into_slices_has_a_cell_for_each() {
    let mut ui = new_ui(fleets::accelerators(), DARK);
    press(&mut ui, &keys_of("1"));
    let list = text(&draw(&mut ui, 80, 24)).join("\n");
    assert!(list.contains("dave  ▂▄▂ "), "{list}");
    press(&mut ui, &keys_of("m"));
    let map = text(&draw(&mut ui, 60, 9)).join("\n");
    assert!(map.contains("gpu02 ▂▂▂ ▄▄▄ ▂▂▂"), "{map}");
    let mut ui = new_ui(fleets::accelerators(), DARK);
    press(&mut ui, &[KeyCode::Down, KeyCode::Char('3')]);
    let node = text(&draw(&mut ui, 120, 40)).join("\n");
    assert!(node.contains("1/2 slices used") || node.contains("1/2 used"), "{node}");
}
