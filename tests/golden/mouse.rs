//! What clicks do: those on the hints of keys what the keys do, in each view and mode.

use std::collections::BTreeMap;

use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use gtop_ui::{LoopEffect, Ui};

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::*;
use crate::golden::{host_keys, playback, processes, runs, setup};

/// Keys that open what has hints of its own, in each view.
const MODES: [&[KeyCode]; 5] =
    [&[], &[KeyCode::Char('/')], &[KeyCode::F(6)], &[KeyCode::Char('?')], &[KeyCode::Char('i')]];

/// Wide enough for all hints.
const SIZE: Size = (200, 14);

#[test]
fn a_click_on_a_hint_of_a_view_does_what_its_key_does() {
    let fleet = fleets::every_state();
    let extra = ["1m", "1y", "7y", "2\n", "3j", "4j", "5\n"].map(typed);
    for keys in views().flat_map(|(_, key)| MODES.map(|mode| [&[key], mode].concat())).chain(extra)
    {
        check_hints(&format!("{keys:?}"), || pressed(new_ui(fleet.clone(), DARK), &keys));
    }
}

#[test]
fn a_click_on_a_hint_of_a_dialog_does_what_its_key_does() {
    let fleet = fleets::every_state();
    let replay = || playback::new_replay(fleet.clone(), playback::timeline(), DARK);
    check_hints("recording", replay);
    check_hints("time", || pressed(replay(), &typed(":-3m")));
    for keys in ["", "1\n", "3\n", "4\n"] {
        let keys = [vec![KeyCode::F(2)], typed(keys)].concat();
        check_hints("setup", || pressed(setup::ui_with_setup(fleet.clone(), DARK), &keys));
    }
    check_hints("host keys", || host_keys::asking_ui(DARK));
    for keys in ["", "f", "e", "o", "o/", "k", "c"] {
        check_hints(keys, || pressed(runs::ui(DARK), &typed(keys)));
    }
    let (tree, environment) = (processes::tree(), processes::environment());
    let detail = processes::detail();
    check_hints("tree", || processes::ui_with_page(DARK, KeyCode::Char('t'), &tree));
    check_hints("environment", || processes::ui_with_page(DARK, KeyCode::Char('e'), &environment));
    check_hints("details", || processes::ui_with_page(DARK, KeyCode::Enter, &detail));
    check_hints("signal", || processes::ui_with_signal_dialog(DARK, 1));
}

/// Clicks each hint on a screen, and compares what happens with what its key does.
fn check_hints(name: &str, make_ui: impl Fn() -> Ui) {
    let shown = screen(&mut make_ui());
    let hints = hints(&shown);
    assert!(!hints.is_empty(), "{name}: {}", shown.join("\n"));
    let mut of_keys: BTreeMap<String, (LoopEffect, Vec<String>)> = BTreeMap::new();
    for hint in hints {
        let expected = of_keys.entry(format!("{:?}", hint.key)).or_insert_with(|| {
            let mut ui = make_ui();
            screen(&mut ui);
            (ui.on_key(key(hint.key), NOW), screen(&mut ui))
        });
        let mut ui = make_ui();
        screen(&mut ui);
        let effect = click(&mut ui, hint.column, hint.row);
        assert_ne!(effect, LoopEffect::Ignored, "{name}: {hint:?}");
        assert_eq!((effect, screen(&mut ui)), *expected, "{name}: {hint:?}");
    }
}

/// Returns the keys that type a text.
fn typed(text: &str) -> Vec<KeyCode> {
    let key = |letter| if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
    text.chars().map(key).collect()
}

fn pressed(mut ui: Ui, keys: &[KeyCode]) -> Ui {
    press(&mut ui, keys);
    ui
}

/// A hint on the screen: the key to press for a click at a place.
#[derive(Debug)]
struct Hint {
    key: KeyCode,
    column: usize,
    row: usize,
}

/// Returns the key that a word of a hint names.
fn key_code(word: &str) -> Option<KeyCode> {
    let mut letters = word.chars();
    Some(match word {
        "↑" => KeyCode::Up,
        "↓" => KeyCode::Down,
        "←" => KeyCode::Left,
        "→" => KeyCode::Right,
        "Enter" => KeyCode::Enter,
        "Esc" => KeyCode::Esc,
        "Tab" => KeyCode::Tab,
        "PgUp" => KeyCode::PageUp,
        "PgDn" => KeyCode::PageDown,
        "End" => KeyCode::End,
        "Space" => KeyCode::Char(' '),
        "F5" => KeyCode::F(5),
        "F6" => KeyCode::F(6),
        "F12" => KeyCode::F(12),
        _ => KeyCode::Char(letters.next().filter(|_| letters.next().is_none())?),
    })
}

/// Finds the hints: those of a view or dialog are in the last line, those of a prompt above what is typed.
fn hints(screen: &[String]) -> Vec<Hint> {
    let last = screen.len() - 1;
    let row = match screen[last].split(' ').next() {
        Some("/" | "go") => last - 2,
        _ => last,
    };
    let mut hints = Vec::new();
    let mut column = 0;
    for hint in screen[row].split("  ") {
        let mut at = column + hint.chars().count() - hint.trim_start().chars().count();
        column += hint.chars().count() + 2;
        let words: Vec<&str> = hint.split_whitespace().collect();
        let keys: Vec<KeyCode> = words.iter().map_while(|word| key_code(word)).collect();
        if keys.is_empty() || keys.len() == words.len() {
            continue;
        }
        // The meaning is that of the first key.
        for (key, word) in keys.iter().chain(keys.first()).zip(&words) {
            hints.push(Hint { key: *key, column: at, row });
            at += word.chars().count() + 1;
        }
    }
    hints
}

fn screen(ui: &mut Ui) -> Vec<String> {
    text(&draw(ui, SIZE.0, SIZE.1))
}

fn click(ui: &mut Ui, column: usize, row: usize) -> LoopEffect {
    let event = MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: column.try_into().unwrap(),
        row: row.try_into().unwrap(),
        modifiers: KeyModifiers::NONE,
    };
    ui.on_mouse(event, NOW)
}

#[test]
fn a_click_selects_a_row_and_a_second_one_opens_it() {
    let mut ui = pressed(new_ui(fleets::every_state(), DARK), &[KeyCode::Char('1')]);
    let shown = screen(&mut ui);
    let row = shown.iter().position(|line| line.contains(" gpu02 ")).unwrap();
    assert_eq!(click(&mut ui, 4, row), LoopEffect::Handled);
    let selected = screen(&mut ui);
    assert!(selected[3].starts_with("  NODE"), "{selected:?}");
    click(&mut ui, 4, row);
    let opened = screen(&mut ui);
    assert!(opened[3].starts_with("gpu02"), "{opened:?}");
}

#[test]
fn nothing_behind_a_dialog_is_clicked() {
    let mut ui = pressed(new_ui(fleets::every_state(), DARK), &[KeyCode::Char('1'), KeyCode::F(6)]);
    let shown = screen(&mut ui);
    for (row, line) in shown.iter().enumerate().take(shown.len() - 1) {
        assert_eq!(click(&mut ui, 4, row), LoopEffect::Ignored, "{line}");
    }
    assert_eq!(screen(&mut ui), shown);
}

#[test]
fn the_wheel_moves_in_a_dialog_as_three_arrows_do() {
    let fleet = fleets::every_state();
    let wheel = MouseEvent {
        kind: MouseEventKind::ScrollDown,
        column: 0,
        row: 0,
        modifiers: KeyModifiers::NONE,
    };
    let dialogs: [(&str, &dyn Fn() -> Ui); 2] = [
        ("sort menu", &|| pressed(new_ui(fleet.clone(), DARK), &[KeyCode::F(6)])),
        ("setup", &|| pressed(setup::ui_with_setup(fleet.clone(), DARK), &[KeyCode::F(2)])),
    ];
    // The cursor is a style.
    let drawn = |ui: &mut Ui| {
        screen(ui);
        format!("{:?}", ui.drawn())
    };
    for (name, make_ui) in dialogs {
        let mut by_keys = make_ui();
        let before = drawn(&mut by_keys);
        press(&mut by_keys, &[KeyCode::Down; 3]);
        let mut by_wheel = make_ui();
        drawn(&mut by_wheel);
        by_wheel.on_mouse(wheel, NOW);
        let after = drawn(&mut by_wheel);
        assert_ne!(after, before, "{name}");
        assert_eq!(after, drawn(&mut by_keys), "{name}");
    }
}
