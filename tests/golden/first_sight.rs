//! First sight: gtop on a machine without devices shows what to type next.

use std::sync::Arc;

use crossterm::event::KeyCode;
use gtop_fleet::{Fleet, Node};
use gtop_model::{SourceFaultKind, TransportKind};
use gtop_ui::{DisplayOptions, Keymap, Theme, Ui};

use crate::golden::fleets::{self, NodeFixture};
use crate::golden::harness::{
    ASCII, DARK, NARROW, SMALL, Scene, default_display, draw, new_ui, press, text,
};

/// Sends the node's facts and samples of the host; NVML and nvidia-smi are missing.
fn without_devices() -> NodeFixture {
    let backends =
        [("nvml", Some("libnvidia-ml.so.1 not found")), ("nvidia-smi", Some("not found"))];
    NodeFixture::new("laptop").hello(&backends).host_only()
}

/// Returns a fleet of one node, which is this machine.
fn this_machine(node: &Node) -> Fleet {
    let node = Node { via: Some(TransportKind::Local), ..node.clone() };
    Fleet::new(vec![Arc::new(node)].into())
}

fn ui_of(fleet: Fleet, has_scheduler: bool) -> Ui {
    themed_ui(fleet, has_scheduler, DARK)
}

fn themed_ui(fleet: Fleet, has_scheduler: bool, theme: Theme) -> Ui {
    let display = DisplayOptions { has_scheduler, ..default_display() };
    let mut ui = new_ui(Fleet::default(), theme).with_options(display, Keymap::default());
    ui.on_fleet(fleet, fleets::NOW);
    ui
}

fn screen(fleet: Fleet) -> String {
    text(&draw(&mut ui_of(fleet, false), 80, 24)).join("\n")
}

#[test]
fn a_machine_without_devices_tells_what_to_type_next() {
    let ui = |has_scheduler| {
        move |theme| themed_ui(this_machine(&without_devices().node()), has_scheduler, theme)
    };
    Scene::of("first-sight", ui(false)).check(&[NARROW]);
    Scene::of("first-sight-slurm", ui(true)).check(&[NARROW]);
    Scene::of("first-sight-ascii", ui(false)).check_look(ASCII, SMALL);
}

#[test]
fn slurm_comes_first_where_its_commands_are() {
    let positions = |has_scheduler| {
        let mut ui = ui_of(this_machine(&without_devices().node()), has_scheduler);
        let shown = text(&draw(&mut ui, 80, 24)).join("\n");
        ["gtop --slurm", "gtop HOST", "gtop --demo"].map(|command| shown.find(command).unwrap())
    };
    let [slurm, hosts, demo] = positions(true);
    assert!(slurm < hosts && hosts < demo);
    let [slurm, hosts, demo] = positions(false);
    assert!(hosts < slurm && slurm < demo);
}

#[test]
fn nothing_is_suggested_where_devices_may_be() {
    let mut two = this_machine(&without_devices().node());
    two.nodes = two.nodes.iter().cloned().chain([fleets::busy("gpu01").up().node()]).collect();
    let remote = Fleet::new(vec![without_devices().node()].into());
    let starting = NodeFixture::new("laptop").hello(&[("nvml", None)]).host_only();
    let failing = NodeFixture::new("laptop")
        .hello(&[("nvidia-smi", None)])
        .host_only()
        .source_fault(SourceFaultKind::Failed, "driver mismatch");
    let with_devices = fleets::busy("laptop").up().node();
    for (case, fleet) in [
        ("two nodes", two),
        ("another machine", remote),
        ("starting", this_machine(&starting.node())),
        ("failing", this_machine(&failing.node())),
        ("devices", this_machine(&with_devices)),
    ] {
        assert!(!screen(fleet).contains("gtop --demo"), "{case}");
    }
}

#[test]
fn keys_that_need_devices_are_not_hinted() {
    let shown = screen(this_machine(&without_devices().node()));
    let hints = shown.lines().last().unwrap();
    for absent in ["← →", "processes", "chart", "Enter"] {
        assert!(!hints.contains(absent), "{absent}: {hints}");
    }
    // Pressed all the same, they do no harm.
    let mut ui = ui_of(this_machine(&without_devices().node()), false);
    let keys = [KeyCode::Enter, KeyCode::Down, KeyCode::Up, KeyCode::End, KeyCode::Char('g')];
    press(&mut ui, &keys);
    press(&mut ui, &[KeyCode::Char('p'), KeyCode::Char('K'), KeyCode::Char('e')]);
}
