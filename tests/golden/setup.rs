//! Golden screens of the setup pages in every theme and over every kind of fleet, and of every palette.

use std::time::Duration;

use crossterm::event::KeyCode;
use gtop::internals::config::{SettingSources, Settings};
use gtop::internals::setting_table::{self, DECLARED};
use gtop_fleet::Fleet;
use gtop_ui::{
    ColourDepth, DisplayOptions, LoopEffect, Palette, RedrawPace, ScreenSettings, Theme, Ui,
};
use gtop_ui::{UiConfig, UiRequest};
use ratatui::style::Color;

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::*;

/// Returns a UI with gtop's own setup pages.
pub fn ui_with_setup(fleet: Fleet, theme: Theme) -> Ui {
    let settings = setting_table::merge(SettingSources::default(), |name| {
        (name == "GTOP_INTERVAL").then(|| "2".to_owned())
    });
    let mut ui = new_ui(fleet, theme);
    ui.apply_config(UiConfig {
        detects_background: false,
        theme,
        display: DisplayOptions::default(),
        interval: Duration::from_secs(2),
        redraw: RedrawPace::default(),
        settings: ScreenSettings::default(),
        setup: setting_table::setup(&settings),
    });
    ui
}

/// The setup over a fleet, after some keys.
fn scene(name: &'static str, fleet: &Fleet, keys: impl Into<Vec<KeyCode>>) -> Scene {
    let (fleet, keys) = (fleet.clone(), keys.into());
    Scene::of(name, move |theme| {
        let mut ui = ui_with_setup(fleet.clone(), theme);
        press(&mut ui, &keys);
        ui
    })
}

#[test]
fn every_page_of_the_setup() {
    let fleet = fleets::every_state();
    let pages = ["1", "2", "3", "4", "5", "6", "7"].map(|page| {
        let number = page.chars().map(KeyCode::Char);
        let keys: Vec<KeyCode> = [KeyCode::F(2)].into_iter().chain(number).collect();
        scene(page, &fleet, [keys, vec![KeyCode::Down]].concat())
    });
    check_sheet("setup-pages", NARROW, &pages);
    let changed = [KeyCode::F(2), KeyCode::Down, KeyCode::Right];
    scene("setup", &fleet, changed).check(&[SMALL, WIDE]);
    scene("setup-ascii", &fleet, changed).check_look(ASCII, NARROW);
    let typing = [KeyCode::F(2), KeyCode::Enter, KeyCode::Char('5')];
    scene("setup-typing", &fleet, typing).check(&[NARROW]);
}

#[test]
fn the_setup_over_every_fleet() {
    let scenes = [("empty", Fleet::default()), ("one", fleets::single())]
        .map(|(name, fleet)| scene(name, &fleet, [KeyCode::F(2)]));
    check_sheet("setup-on", NARROW, &scenes);
    let mut ui = ui_with_setup(fleets::every_state(), DARK);
    press(&mut ui, &[KeyCode::F(2), KeyCode::Char('2')]);
    for width in [1, 5, 20, 79, 333] {
        for height in 1..30 {
            draw(&mut ui, width, height);
        }
    }
}

#[test]
fn the_setup_requests_changes_and_saving() {
    let mut ui = ui_with_setup(fleets::every_state(), DARK);
    let mut press_key = |code| ui.on_key(key(code), NOW);
    let change =
        |name, text: &str| LoopEffect::Request(UiRequest::ChangeSetting(name, text.to_owned()));
    assert_eq!(press_key(KeyCode::F(12)), LoopEffect::Request(UiRequest::SaveSettings(Vec::new())));
    assert_eq!(press_key(KeyCode::F(2)), LoopEffect::Handled);
    assert_eq!(press_key(KeyCode::Right), change("interval", "5"));
    assert_eq!(press_key(KeyCode::Enter), LoopEffect::Handled);
    // While a value is typed, every key is part of it.
    assert_eq!(press_key(KeyCode::F(12)), LoopEffect::Handled);
    assert_eq!(press_key(KeyCode::Backspace), LoopEffect::Handled);
    assert_eq!(press_key(KeyCode::Char('9')), LoopEffect::Handled);
    assert_eq!(press_key(KeyCode::Enter), change("interval", "9"));
    assert_eq!(press_key(KeyCode::F(12)), LoopEffect::Request(UiRequest::SaveSettings(Vec::new())));
    assert_eq!(press_key(KeyCode::F(2)), LoopEffect::Handled);
    let screen = text(&draw(&mut ui, 80, 24)).join("\n");
    assert!(!screen.contains("Setup"), "{screen}");
}

#[test]
fn changed_settings_apply_and_the_page_stays_open() {
    let mut ui = ui_with_setup(fleets::every_state(), DARK);
    press(&mut ui, &[KeyCode::F(2), KeyCode::Down, KeyCode::Right]);
    let mut settings = Settings::new(DECLARED);
    settings.change("fahrenheit", "true").unwrap();
    ui.apply_config(UiConfig {
        detects_background: false,
        theme: ASCII,
        display: DisplayOptions { is_fahrenheit: true, ..DisplayOptions::default() },
        interval: Duration::from_secs(7),
        redraw: RedrawPace::default(),
        settings: ScreenSettings::default(),
        setup: setting_table::setup(&settings),
    });
    let screen = text(&draw(&mut ui, 120, 40)).join("\n");
    assert!(screen.is_ascii() && screen.contains("every 7s"), "{screen}");
    let row = screen.lines().find(|line| line.contains("temperatures in")).unwrap();
    assert!(row.contains("yes") && row.contains("not saved"), "{row}");
}

#[test]
fn the_header_says_a_pace_that_is_calmer_than_fast_samples() {
    let header = |interval, is_fixed| {
        let mut ui = new_ui(fleets::every_state(), DARK);
        ui.apply_config(UiConfig {
            detects_background: false,
            theme: DARK,
            display: DisplayOptions::default(),
            interval: Duration::from_millis(interval),
            redraw: RedrawPace { interval: Duration::from_millis(500), is_fixed },
            settings: ScreenSettings::default(),
            setup: setting_table::setup(&Settings::new(DECLARED)),
        });
        text(&draw(&mut ui, 120, 40)).swap_remove(0)
    };
    assert!(header(50, true).contains("every 0.05s, shown every 0.5s  "), "{}", header(50, true));
    for (interval, is_fixed, expected) in [(50, false, "every 0.05s  "), (1000, true, "every 1s  ")]
    {
        let header = header(interval, is_fixed);
        assert!(header.contains(expected), "{header}");
    }
}

#[test]
fn preferences_are_restored_and_changed_ones_saved() {
    let mut ui = ui_with_setup(fleets::every_state(), DARK);
    let mut settings = Settings::new(DECLARED);
    for (name, value) in
        [("sort-processes", "gpumem"), ("reverse-processes", "true"), ("node-processes", "false")]
    {
        settings.change(name, value).unwrap();
    }
    ui.apply_config(UiConfig {
        detects_background: false,
        theme: DARK,
        display: DisplayOptions::default(),
        interval: Duration::from_secs(2),
        redraw: RedrawPace::default(),
        settings: settings.read(),
        setup: setting_table::setup(&Settings::new(DECLARED)),
    });
    press(&mut ui, &[KeyCode::Char('4')]);
    let screen = text(&draw(&mut ui, 120, 40)).join("\n");
    assert!(screen.contains("by device memory, reversed"), "{screen}");
    press(&mut ui, &[KeyCode::Char('3')]);
    let screen = text(&draw(&mut ui, 120, 40)).join("\n");
    assert!(!screen.contains("GPU-ME"), "{screen}");
    press(&mut ui, &[KeyCode::Char('p')]);
    let screen = text(&draw(&mut ui, 120, 40)).join("\n");
    assert!(screen.contains("GPU-ME"), "{screen}");
    // Only preferences changed by keys are saved.
    press(&mut ui, &[KeyCode::Char('G'), KeyCode::Char('t'), KeyCode::Esc]);
    let saved = ui.on_key(key(KeyCode::F(12)), NOW);
    let changed =
        [("node-processes", "true"), ("node-chart", "true"), ("charted", "util,mem,temp")];
    let changed = changed.map(|(name, value)| (name, value.to_owned())).into();
    assert_eq!(saved, LoopEffect::Request(UiRequest::SaveSettings(changed)));
}

/// Returns true if a terminal of this depth has the colour.
fn is_of_depth(depth: ColourDepth, colour: Color) -> bool {
    let needs_24_bits = matches!(colour, Color::Rgb(..));
    let needs_256 = matches!(colour, Color::Indexed(_));
    (!needs_24_bits || depth == ColourDepth::TrueColour)
        && (!needs_256 || depth != ColourDepth::Ansi16)
}

#[test]
fn every_palette_and_depth_shows_the_same_text_in_its_own_colours() {
    let jobs = fleets::with_jobs();
    for (fleet, keys) in [
        (fleets::every_state(), vec![KeyCode::Enter]),
        (fleets::every_state(), vec![KeyCode::Char('m')]),
        (jobs.clone(), vec![KeyCode::Char('2'), KeyCode::Enter]),
        (jobs, vec![KeyCode::Char('5'), KeyCode::Enter]),
    ] {
        let scene = scene("palettes", &fleet, keys);
        let expected = shapes(&scene.draw(DARK, MEDIUM));
        for palette in Palette::ALL {
            for depth in [ColourDepth::Ansi16, ColourDepth::Indexed256, ColourDepth::TrueColour] {
                for is_colorful in [false, true] {
                    let theme = Theme { palette, depth, is_colorful, ..DARK };
                    let drawn = scene.draw(theme, MEDIUM);
                    let mut lines = expected.iter().zip(shapes(&drawn));
                    let different = lines.find(|(dark, other)| !is_same_shape(dark, other));
                    assert_eq!(different, None, "{theme:?}");
                    for colour in drawn.content.iter().flat_map(|cell| [cell.fg, cell.bg]) {
                        assert!(is_of_depth(depth, colour), "{theme:?}: {colour}");
                        let is_mono = palette == Palette::Mono;
                        assert!(!is_mono || colour == Color::Reset, "{theme:?}: {colour}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_hot_palette_with_gradients() {
    let theme = Theme { palette: Palette::Hot, is_colorful: true, ..DARK };
    let full = Theme { depth: ColourDepth::TrueColour, ..theme };
    let fleet = fleets::every_state();
    scene("hot-gradients", &fleet, [KeyCode::Enter]).check_look(theme, MEDIUM);
    scene("hot-gradients-24-bit", &fleet, [KeyCode::Enter]).check_look(full, MEDIUM);
}
