//! Helpers: build a UI, press keys, read the screen as text, and compare it with its golden file.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gtop_collect::scheduler::SchedulerKind;
use gtop_fleet::Fleet;
use gtop_local::time::Timestamp;
use gtop_ui::{ColourDepth, DisplayOptions, GlyphSet, Keymap, Palette, Theme, Ui, View};
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

/// A width and a height.
pub type Size = (u16, u16);

pub const SMALL: Size = (40, 12);
pub const NARROW: Size = (80, 24);
pub const MEDIUM: Size = (120, 40);
pub const WIDE: Size = (200, 50);
pub const SIZES: [Size; 3] = [NARROW, MEDIUM, WIDE];
pub const ALL_SIZES: [Size; 4] = [SMALL, NARROW, MEDIUM, WIDE];

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

/// Returns the views that have a tab where no runs are watched, with their keys.
pub fn views() -> impl Iterator<Item = (View, KeyCode)> {
    let views = View::ALL.into_iter().zip('1'..).filter(|(view, _)| *view != View::Runs);
    views.map(|(view, digit)| (view, KeyCode::Char(digit)))
}

pub fn press(ui: &mut Ui, keys: &[KeyCode]) {
    for code in keys {
        ui.on_key(key(*code), NOW);
        // The page size of scrolling is that of the last frame.
        draw(ui, 80, 24);
    }
}

pub fn draw(ui: &mut Ui, width: u16, height: u16) -> Buffer {
    draw_at(ui, (width, height), NOW)
}

pub fn draw_at(ui: &mut Ui, (width, height): Size, now: Timestamp) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    ui.draw(now, &mut buffer);
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

/// What is seen, as the UI that shows it in a theme and the time at which it is drawn.
pub struct Scene {
    name: String,
    now: Timestamp,
    ui: Box<dyn Fn(Theme) -> Ui>,
}

impl Scene {
    /// A fleet after some keys.
    pub fn new(name: impl Into<String>, fleet: &Fleet, keys: impl Into<Vec<KeyCode>>) -> Self {
        let (fleet, keys) = (fleet.clone(), keys.into());
        Self::of(name, move |theme| {
            let mut ui = new_ui(fleet.clone(), theme);
            press(&mut ui, &keys);
            ui
        })
    }

    pub fn of(name: impl Into<String>, ui: impl Fn(Theme) -> Ui + 'static) -> Self {
        Self { name: name.into(), now: NOW, ui: Box::new(ui) }
    }

    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        Self { now, ..self }
    }

    pub fn draw(&self, theme: Theme, size: Size) -> Buffer {
        draw_at(&mut (self.ui)(theme), size, self.now)
    }

    /// Compares the scene with its golden file of each size, and checks all sizes and looks.
    pub fn check(&self, sizes: &[Size]) {
        for size in sizes {
            let name = format!("{}-{}x{}", self.name, size.0, size.1);
            check(&name, &self.draw(DARK, *size));
        }
        self.check_looks();
    }

    /// Compares the scene with a golden file of this look.
    pub fn check_look(&self, theme: Theme, size: Size) {
        check(&self.name, &self.draw(theme, size));
    }

    /// Checks what holds in every size and look: palettes change only colours, the monochrome one has none, and ASCII is
    /// ASCII.
    fn check_looks(&self) {
        let mut looks = [DARK, LIGHT, MONO, ASCII].map(&self.ui);
        for size in ALL_SIZES {
            let [dark, light, mono, ascii] = looks.each_mut().map(|ui| draw_at(ui, size, self.now));
            let place = format!("{} {size:?}", self.name);
            for other in [&light, &mono].map(shapes) {
                let mut lines = shapes(&dark).into_iter().zip(other);
                let different = lines.find(|(dark, other)| !is_same_shape(dark, other));
                assert_eq!(different, None, "{place}");
            }
            for cell in mono.content.iter().chain(&ascii.content) {
                assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "{place}");
            }
            assert!(text(&ascii).iter().all(|line| line.is_ascii()), "{place}: {ascii:?}");
        }
    }
}

/// Returns true if a line shows the same, with `!` for the levels in the colour of alarms where there are no colours.
pub fn is_same_shape(coloured: &str, other: &str) -> bool {
    let is_same = |(coloured, other)| {
        coloured == other || (other == '!' && " ▂▃▄▅▆▇█".contains::<char>(coloured))
    };
    coloured.chars().count() == other.chars().count()
        && coloured.chars().zip(other.chars()).all(is_same)
}

/// Returns the text of a screen without what depends on the palette: the empty part of bars, which needs shades, and the
/// names of colours in the help.
pub fn shapes(buffer: &Buffer) -> Vec<String> {
    let mut lines = text(buffer);
    lines.retain(|line| !line.contains("load: "));
    lines.into_iter().map(|line| line.replace('▁', " ").trim_end().to_owned()).collect()
}

/// Compares scenes that belong together with one golden file, at one size, and checks all sizes and looks.
pub fn check_sheet(name: &str, (width, height): Size, scenes: &[Scene]) {
    let mut sheet = String::new();
    for scene in scenes {
        let screen = described(&scene.draw(DARK, (width, height)));
        write!(sheet, "=== {}\n{screen}", scene.name).unwrap();
    }
    check_text(&format!("{name}-{width}x{height}"), &sheet);
    scenes.iter().for_each(Scene::check_looks);
}

fn described(buffer: &Buffer) -> String {
    format!("{}\n--- styles\n{}", text(buffer).join("\n"), styles(buffer))
}

/// Compares a screen with its golden file.
pub fn check(name: &str, buffer: &Buffer) {
    check_text(name, &described(buffer));
}

/// Returns the folder of the golden files.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/screens")
}

/// Compares a text with its golden file.
pub fn check_text(name: &str, actual: &str) {
    let path = folder().join(format!("{name}.txt"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, actual).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = golden.lines().zip(actual.lines()).find(|(golden, line)| golden != line);
    assert!(
        golden == actual,
        "{} differs from the screen; if the change is intended, run with BLESS=1. First difference:\n{differs:#?}\n\n{actual}",
        path.display()
    );
}

/// Checks a view on an empty fleet, one node, a thousand, a stale fleet, and hostile names.
pub fn check_fleets(name: &str, keys: &[KeyCode]) {
    let late = NOW.plus(Duration::from_secs(3_600));
    let stale = fleets::every_state();
    let keys_later = keys.to_vec();
    let later = move |theme| {
        let mut ui = new_ui(stale.clone(), theme);
        ui.on_fleet(stale.clone(), late);
        press(&mut ui, &keys_later);
        ui
    };
    let scenes = [
        Scene::new("empty", &Fleet::default(), keys),
        Scene::new("one", &fleets::single(), keys),
        Scene::new("thousand", &fleets::large(1_000), keys),
        Scene::of("stale", later).at(late),
        Scene::new("hostile", &fleets::rare(), keys),
    ];
    check_sheet(name, NARROW, &scenes);
}
