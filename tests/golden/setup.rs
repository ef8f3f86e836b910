//! Golden screens of the setup pages in every theme and over every kind of fleet, and of every palette.

use crossterm::event::KeyCode;
use gtop::internals::config::{SettingSources, Settings};
use gtop::internals::setting_table::{self, DECLARED};
use gtop_fleet::Fleet;
use gtop_ui::DisplayOptions;
use gtop_ui::{ColourDepth, Effect, Palette, ScreenSettings, Theme, Ui, UiConfig, UiRequest};

use crate::golden::fleets::{self, NOW};
use crate::golden::harness::*;

/// Returns a UI with gtop's own setup pages.
fn ui_with_setup(fleet: Fleet, theme: Theme) -> Ui {
    let settings = setting_table::merge(SettingSources::default(), |name| {
        (name == "GTOP_INTERVAL").then(|| "2".to_owned())
    });
    let mut ui = new_ui(fleet, theme);
    ui.apply_config(UiConfig {
        detects_background: false,
        theme,
        display: DisplayOptions::default(),
        interval: std::time::Duration::from_secs(2),
        settings: ScreenSettings::default(),
        setup: setting_table::setup(&settings),
    });
    ui
}

fn check_keys(name: &str, fleet: &Fleet, keys: &[KeyCode], theme: Theme, sizes: &[(u16, u16)]) {
    for (width, height) in sizes {
        let mut ui = ui_with_setup(fleet.clone(), theme);
        press(&mut ui, keys);
        check(&format!("{name}-{width}x{height}"), &draw(&mut ui, *width, *height));
    }
}

#[test]
fn every_page_of_the_setup() {
    let fleet = fleets::every_state();
    for page in ['1', '2', '3', '4', '5', '6', '7'] {
        let keys = [KeyCode::F(2), KeyCode::Char(page), KeyCode::Down];
        check_keys(&format!("setup-page-{page}"), &fleet, &keys, DARK, &[(80, 24)]);
    }
}

#[test]
fn the_setup_in_every_theme() {
    let keys = [KeyCode::F(2), KeyCode::Down, KeyCode::Right];
    for (name, theme) in [("dark", DARK), ("light", LIGHT), ("mono", MONO), ("ascii", ASCII)] {
        check_keys(&format!("setup-look-{name}"), &fleets::every_state(), &keys, theme, &SIZES);
    }
    let typing = [KeyCode::F(2), KeyCode::Enter, KeyCode::Char('5')];
    check_keys("setup-typing", &fleets::every_state(), &typing, DARK, &[(80, 24)]);
}

#[test]
fn the_setup_over_every_fleet() {
    for (name, fleet) in [("empty", Fleet::default()), ("one", fleets::single())] {
        let name = format!("setup-on-{name}");
        check_keys(&name, &fleet, &[KeyCode::F(2)], DARK, &[(80, 24)]);
    }
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
        |name, text: &str| Effect::Request(UiRequest::ChangeSetting(name, text.to_owned()));
    assert_eq!(press_key(KeyCode::F(12)), Effect::Request(UiRequest::SaveSettings(Vec::new())));
    assert_eq!(press_key(KeyCode::F(2)), Effect::Handled);
    assert_eq!(press_key(KeyCode::Right), change("interval", "5"));
    assert_eq!(press_key(KeyCode::Enter), Effect::Handled);
    // While a value is typed, every key is part of it.
    assert_eq!(press_key(KeyCode::F(12)), Effect::Handled);
    assert_eq!(press_key(KeyCode::Backspace), Effect::Handled);
    assert_eq!(press_key(KeyCode::Char('9')), Effect::Handled);
    assert_eq!(press_key(KeyCode::Enter), change("interval", "9"));
    assert_eq!(press_key(KeyCode::F(12)), Effect::Request(UiRequest::SaveSettings(Vec::new())));
    assert_eq!(press_key(KeyCode::F(2)), Effect::Handled);
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
        interval: std::time::Duration::from_secs(7),
        settings: ScreenSettings::default(),
        setup: setting_table::setup(&settings),
    });
    let screen = text(&draw(&mut ui, 120, 40)).join("\n");
    assert!(screen.is_ascii() && screen.contains("every 7s"), "{screen}");
    let row = screen.lines().find(|line| line.contains("temperatures in")).unwrap();
    assert!(row.contains("yes") && row.contains("not saved"), "{row}");
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
        interval: std::time::Duration::from_secs(2),
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
    assert_eq!(saved, Effect::Request(UiRequest::SaveSettings(changed)));
}

#[test]
fn every_theme_and_every_depth() {
    let fleet = fleets::every_state();
    for palette in Palette::ALL {
        let theme = Theme { palette, ..DARK };
        check_keys(&format!("theme-{palette:?}"), &fleet, &[KeyCode::Enter], theme, &[(120, 40)]);
        check_keys(
            &format!("theme-help-{palette:?}"),
            &fleet,
            &[KeyCode::Char('h')],
            theme,
            &[(120, 40)],
        );
        let basic = Theme { depth: ColourDepth::Ansi16, ..theme };
        check_keys(
            &format!("theme-basic-{palette:?}"),
            &fleet,
            &[KeyCode::Enter],
            basic,
            &[(120, 40)],
        );
    }
    for (name, palette) in [("dark", Palette::Dark), ("hot", Palette::Hot)] {
        for depth in [ColourDepth::Ansi16, ColourDepth::Indexed256, ColourDepth::TrueColour] {
            let theme = Theme { palette, depth, is_colorful: true, ..DARK };
            let name = format!("colorful-{name}-{depth:?}");
            check_keys(&name, &fleet, &[KeyCode::Enter], theme, &[(120, 40)]);
        }
    }
}
