//! Helpers: build a UI, press keys, read the screen as text, and compare it with its golden file.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gtop_collect::scheduler::SchedulerKind;
use gtop_fleet::Fleet;
use gtop_ui::{ColourDepth, DisplayOptions, GlyphSet, Keymap, Palette, Theme, Ui};
use jiff::tz::{Offset, TimeZone};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::Color;

use crate::golden::fleets::{self, NOW};

pub const DARK: Theme = Theme {
    palette: Palette::Dark,
    depth: ColourDepth::Indexed256,
    glyphs: GlyphSet::Unicode,
    is_colorful: false,
};
pub const LIGHT: Theme = Theme { palette: Palette::Light, ..DARK };
pub const MONO: Theme = Theme { palette: Palette::Mono, depth: ColourDepth::Ansi16, ..DARK };
pub const ASCII: Theme = Theme { glyphs: GlyphSet::Ascii, ..MONO };

pub const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 50)];

/// The options with which gtop starts.
pub fn default_display() -> DisplayOptions {
    let scheduler = &SchedulerKind::default().profile().words;
    DisplayOptions { scheduler, ..DisplayOptions::default() }
}

pub fn new_ui(fleet: Fleet, theme: Theme) -> Ui {
    let zone = TimeZone::fixed(Offset::constant(1));
    let mut ui = Ui::new("gpu[01-16]".to_owned(), Duration::from_secs(1), zone, theme)
        .with_options(default_display(), Keymap::default());
    ui.on_fleet(fleet, NOW);
    ui
}

pub fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

pub fn press(ui: &mut Ui, keys: &[KeyCode]) {
    for code in keys {
        ui.on_key(key(*code), NOW);
        // The page size of scrolling is that of the last frame.
        draw(ui, 80, 24);
    }
}

pub fn draw(ui: &mut Ui, width: u16, height: u16) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    ui.draw(NOW, &mut buffer);
    buffer
}

pub fn row(buffer: &Buffer, y: u16) -> String {
    let mut text = String::new();
    let mut covered = 0;
    for x in 0..buffer.area.width {
        let symbol = buffer[(x, y)].symbol();
        if covered > 0 {
            covered -= 1;
            continue;
        }
        covered = unicode_width::UnicodeWidthStr::width(symbol).saturating_sub(1);
        text.push_str(symbol);
    }
    text.trim_end().to_owned()
}

pub fn text(buffer: &Buffer) -> Vec<String> {
    (0..buffer.area.height).map(|y| row(buffer, y)).collect()
}

/// Lists the runs of cells of one style in each row: first column, foreground, background, modifiers.
pub fn styles(buffer: &Buffer) -> String {
    let style = |cell: &Cell| {
        let colour = |colour: Color| match colour.to_string() {
            name if name == "Reset" => "-".to_owned(),
            name => name,
        };
        let mut text = format!("{}/{}", colour(cell.fg), colour(cell.bg));
        if !cell.modifier.is_empty() {
            write!(text, "/{:?}", cell.modifier).unwrap();
        }
        text
    };
    let mut all = String::new();
    for y in 0..buffer.area.height {
        let mut line = String::new();
        let mut last = "-/-".to_owned();
        for x in 0..buffer.area.width {
            let current = style(&buffer[(x, y)]);
            if current != last {
                write!(line, " {x}:{current}").unwrap();
                last = current;
            }
        }
        if !line.is_empty() {
            writeln!(all, "{y}{line}").unwrap();
        }
    }
    all
}

pub fn check(golden: &str, buffer: &Buffer) {
    let actual = format!("{}\n--- styles\n{}", text(buffer).join("\n"), styles(buffer));
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/screens")
        .join(format!("{golden}.txt"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &actual).unwrap();
        return;
    }
    let golden_text = std::fs::read_to_string(&path).unwrap_or_default();
    let differs =
        golden_text.lines().zip(actual.lines()).find(|(golden_line, line)| golden_line != line);
    assert!(
        golden_text == actual,
        "{} differs from the screen; if the change is intended, run with BLESS=1. First difference:\n{differs:#?}\n\n{actual}",
        path.display()
    );
}

pub fn check_sizes(name: &str, fleet: &Fleet, keys: &[KeyCode], theme: Theme) {
    for (width, height) in SIZES {
        let mut ui = new_ui(fleet.clone(), theme);
        press(&mut ui, keys);
        check(&format!("{name}-{width}x{height}"), &draw(&mut ui, width, height));
    }
}

/// Checks a view on the smallest screen that shows all of its parts.
pub fn check_small(name: &str, fleet: &Fleet, keys: &[KeyCode]) {
    let mut ui = new_ui(fleet.clone(), DARK);
    press(&mut ui, keys);
    check(&format!("{name}-40x12"), &draw(&mut ui, 40, 12));
}

/// Checks a view in each size and theme, on the fleet with every state.
pub fn check_themes(view: &str, keys: &[KeyCode]) {
    for (name, theme) in [("dark", DARK), ("light", LIGHT), ("mono", MONO), ("ascii", ASCII)] {
        check_sizes(&format!("{view}-look-{name}"), &fleets::every_state(), keys, theme);
    }
    check_small(&format!("{view}-look-dark"), &fleets::every_state(), keys);
}

/// Checks a view on an empty fleet, one node, a thousand, a stale fleet, and hostile names.
pub fn check_fleets(view: &str, keys: &[KeyCode]) {
    let late = NOW.plus(Duration::from_secs(3_600));
    for (name, fleet, now) in [
        ("empty", Fleet::default(), NOW),
        ("one", fleets::single(), NOW),
        ("thousand", fleets::large(1_000), NOW),
        ("stale", fleets::every_state(), late),
        ("hostile", fleets::rare(), NOW),
    ] {
        for (theme, width, height) in [(DARK, 80, 24), (LIGHT, 200, 50)] {
            let mut ui = new_ui(fleet.clone(), theme);
            ui.on_fleet(fleet.clone(), now);
            press(&mut ui, keys);
            let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
            ui.draw(now, &mut buffer);
            check(&format!("{view}-on-{name}-{width}x{height}"), &buffer);
        }
    }
}
