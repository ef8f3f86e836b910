//! Golden screens of the problems view, in every theme and on every kind of fleet.

use std::sync::Arc;

use crossterm::event::KeyCode;
use gtop_fleet::{Fleet, Node};
use gtop_model::{NodeState, SchedulerNode};
use gtop_ui::LoopEffect;

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::*;

const KEYS: &[KeyCode] = &[KeyCode::Char('7')];
const ENTER: KeyCode = KeyCode::Enter;
const DOWN: KeyCode = KeyCode::Down;

fn view_keys(keys: &[KeyCode]) -> Vec<KeyCode> {
    [KEYS, keys].concat()
}

/// A fleet with problems of each kind, whose scheduler gives jobs to all nodes.
fn fleet() -> Fleet {
    let fleet = fleets::with_jobs();
    let nodes = fleet.nodes.iter().map(|node| {
        let mut node = Node::clone(node);
        node.scheduler = Some(Arc::new(SchedulerNode::in_state(NodeState::Mixed, &[])));
        Arc::new(node)
    });
    Fleet { nodes: nodes.collect(), ..fleet }
}

fn screen(keys: &[KeyCode]) -> String {
    let mut ui = new_ui(fleet(), DARK);
    press(&mut ui, keys);
    text(&draw(&mut ui, 120, 40)).join("\n")
}

/// Returns the keys that lead to the row of the lost device.
fn keys_to_lost() -> Vec<KeyCode> {
    let shown = screen(KEYS);
    let mut rows = shown.lines().skip_while(|line| !line.contains("NODE SET")).skip(1);
    let at = rows.position(|row| row.contains("device lost")).unwrap();
    view_keys(&vec![DOWN; at])
}

#[test]
fn problems_in_sizes_and_looks() {
    Scene::new("problems", &fleet(), KEYS).check(&SIZES);
    Scene::new("problems-ascii", &fleet(), KEYS).check_look(ASCII, NARROW);
}

#[test]
fn problems_on_every_kind_of_fleet() {
    check_fleets("problems-on", KEYS);
}

#[test]
fn a_problem_unfolds_is_explained_and_copied() {
    let keys = |more: &[KeyCode]| [&keys_to_lost(), more].concat();
    let scenes = [
        ("open", keys(&[ENTER, DOWN])),
        ("explained", keys(&[KeyCode::Char('i')])),
        ("menu", keys(&[KeyCode::Char('y')])),
        ("copied", keys(&[KeyCode::Char('y'), KeyCode::Char('c')])),
        (
            "filtered",
            [&"/gpu05".chars().map(KeyCode::Char).collect::<Vec<_>>()[..], &[ENTER], KEYS].concat(),
        ),
    ];
    let scenes = scenes.map(|(name, keys)| Scene::new(name, &fleet(), keys));
    check_sheet("problems-rows", NARROW, &scenes);
}

#[test]
fn the_row_tells_how_many_since_when_which_nodes_and_what_to_do() {
    let shown = screen(&keys_to_lost());
    let row = shown.lines().find(|line| line.contains("device lost")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert!(words.contains(&"1") && words.ends_with(&["gpu06"]), "{row}");
    assert!(shown.contains("→ the device fell off the bus; reboot the node"), "{shown}");
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let drain = "scontrol update NodeName=gpu06 State=DRAIN Reason='gtop: device lost'";
    assert!(words.contains(drain), "{shown}");
}

#[test]
fn a_node_of_a_problem_opens_with_the_cursor_on_its_device() {
    let shown = screen(&[&keys_to_lost()[..], &[ENTER, DOWN, ENTER]].concat());
    assert!(shown.contains("3 Node") && shown.contains("gpu06  8× H100"), "{shown}");
    let shown = screen(&[&keys_to_lost()[..], &[ENTER, DOWN, KeyCode::Esc]].concat());
    assert!(shown.contains("device lost +"), "{shown}");
}

#[test]
fn a_choice_of_the_menu_is_copied() {
    let mut ui = new_ui(fleet(), DARK);
    press(&mut ui, &keys_to_lost());
    press(&mut ui, &[KeyCode::Char('y')]);
    let effect = ui.on_key(key(KeyCode::Char('n')), NOW);
    assert!(matches!(effect, LoopEffect::Copy(_)), "{effect:?}");
    let shown = text(&draw(&mut ui, 120, 40)).join("\n");
    assert!(shown.contains("copied the nodes: gpu06"), "{shown}");
    // Where there is no row, there is nothing to copy.
    press(&mut ui, &[KeyCode::Char('6'), KeyCode::Char('y')]);
    let shown = text(&draw(&mut ui, 120, 40)).join("\n");
    assert!(shown.contains("nothing to copy here"), "{shown}");
}

#[test]
fn jobs_users_and_processes_are_copied() {
    for (view, choice, copied) in [
        ('2', 'j', "copied the job id: 8421"),
        ('2', 'n', "copied the nodes: gpu[01-02,05,08,99]"),
        ('2', 'd', "copied the devices: gpu01 0 GPU-"),
        ('5', 'u', "copied the user: alice"),
        ('5', 'j', "copied the job ids: 8421"),
        ('5', 'd', "copied the devices: gpu01 0 GPU-"),
        ('4', 'p', "copied the PID: 41200"),
        ('4', 'w', "copied the PID and its node: 41200 on gpu01"),
        ('4', 'c', "copied the command line: /opt/conda/bin/python train.py"),
    ] {
        let mut ui = new_ui(fleets::with_jobs(), DARK);
        press(&mut ui, &[KeyCode::Char(view)]);
        let hints = text(&draw(&mut ui, 80, 24)).pop().unwrap();
        assert!(hints.contains("y copy"), "{view}: {hints}");
        press(&mut ui, &[KeyCode::Char('y'), KeyCode::Char(choice)]);
        let shown = text(&draw(&mut ui, 120, 40)).join("\n");
        assert!(shown.contains(copied), "{view} {choice}: {shown}");
    }
}

#[test]
fn the_cursor_stays_on_its_problem_when_others_come_and_go() {
    let mut ui = new_ui(fleet(), DARK);
    press(&mut ui, &keys_to_lost());
    ui.on_fleet(fleets::cluster(), NOW);
    let on = |ui: &mut gtop_ui::Ui| {
        let shown = text(&draw(ui, 80, 24));
        let rule = shown.iter().rposition(|line| line.starts_with('─')).unwrap();
        shown[rule + 1].clone()
    };
    assert!(on(&mut ui).starts_with("gpu-005: #"), "{}", on(&mut ui));
    ui.on_fleet(fleet(), NOW);
    assert!(on(&mut ui).starts_with("gpu06: #"), "{}", on(&mut ui));
}
