//! The help explains each sign that is on a screen of the demo, and what matters of a device fits on one screen.

use std::collections::BTreeSet;

use crossterm::event::KeyCode;
use gtop_collect::sim::FleetSpec;
use gtop_fleet::Fleet;
use gtop_local::time::Timestamp;
use gtop_ui::{Theme, Ui};

use crate::demo_filled::{at, demo_after};
use crate::golden::harness::{ASCII, DARK, NARROW, Size, WIDE, draw_at, key, new_ui, row};

/// When a node of the demo is stale and others are throttled.
const SECONDS: u32 = 26;
/// The lines of the header.
const HEADER: u16 = 3;

/// Keys that lead to each view, layout and page of the demo; `\n` is Enter.
const SCREENS: [&str; 31] = [
    "1",
    "1g",
    "1gg",
    "1ggg",
    "1gggg",
    "1g-",
    "1m",
    "1mb",
    "1mbb",
    "1mbbb",
    "1mbbbb",
    "1mbbbbb",
    "1mgg",
    "1.",
    "1/util<50\n",
    "2",
    "2\n",
    "2\n\n",
    "2\nm",
    "3",
    "3g",
    "3f",
    "3c",
    "3.....f",
    "3........",
    "4",
    "4j ",
    "4..",
    "5",
    "5j\n",
    "7\n",
];

/// A screen of the demo.
struct Screen {
    ui: Ui,
    size: Size,
    now: Timestamp,
}

impl Screen {
    fn new(fleet: &Fleet, theme: Theme, size: Size) -> Self {
        let now = at(SECONDS);
        let mut ui = new_ui(Fleet::default(), theme);
        ui.on_fleet(fleet.clone(), now);
        let mut screen = Self { ui, size, now };
        screen.rows();
        screen
    }

    fn press(&mut self, keys: &str) {
        for letter in keys.chars() {
            let code = if letter == '\n' { KeyCode::Enter } else { KeyCode::Char(letter) };
            self.ui.on_key(key(code), self.now);
            self.rows();
        }
    }

    fn page_down(&mut self) {
        self.ui.on_key(key(KeyCode::PageDown), self.now);
    }

    /// Returns the rows without the last one, which has hints of keys.
    fn rows(&mut self) -> Vec<String> {
        let buffer = draw_at(&mut self.ui, self.size, self.now);
        (0..self.size.1 - 1).map(|y| row(&buffer, y)).collect()
    }

    /// Returns the signs that the open help explains: those in its first column, before the keys.
    fn explained(&mut self) -> BTreeSet<char> {
        let mut explained = BTreeSet::new();
        for _ in 0..20 {
            for row in &self.rows()[usize::from(HEADER)..] {
                if row.starts_with("Filter:") || row.starts_with("Keys in") {
                    return explained;
                }
                let column = row.chars().skip(2).take(13);
                explained.extend(column.filter(|sign| row.starts_with("  ") && is_sign(*sign)));
            }
            self.page_down();
        }
        explained
    }
}

fn is_sign(letter: char) -> bool {
    !letter.is_alphanumeric() && !letter.is_whitespace()
}

/// Returns the signs in a row: all but the punctuation of texts, numbers, names and commands.
fn signs(row: &str) -> BTreeSet<(char, &str)> {
    // What to do is a sentence with commands.
    let arrow = ["→ ", "> "].iter().filter_map(|arrow| Some(row.find(arrow)? + arrow.len())).min();
    let (row, _) = row.split_at(arrow.unwrap_or(row.len()));
    row.split_whitespace().flat_map(signs_of_word).collect()
}

fn signs_of_word(word: &str) -> impl Iterator<Item = (char, &str)> {
    let letters: Vec<char> = word.chars().collect();
    let first = letters.iter().position(|letter| letter.is_alphanumeric());
    let last = letters.iter().rposition(|letter| letter.is_alphanumeric());
    let is_ordinary = move |at: usize, letter: char| match (first, last) {
        (Some(first), _) if at < first => "('\"-./".contains(letter),
        (_, Some(last)) if at > last => ".,:;)]'\"%".contains(letter),
        (Some(_), _) => letter.is_ascii_punctuation(),
        (None, _) => ".,:;()".contains(letter),
    };
    let found = letters.into_iter().enumerate();
    found
        .filter(move |(at, letter)| is_sign(*letter) && !is_ordinary(*at, *letter))
        .map(move |(_, letter)| (letter, word))
}

/// Braille patterns are one sign: they stand for heights.
fn kind(sign: char) -> char {
    if ('\u{2800}'..='\u{28ff}').contains(&sign) { '⣿' } else { sign }
}

#[tokio::test(start_paused = true)]
async fn every_sign_on_a_screen_is_explained_in_its_help() {
    let fleet = demo_after(FleetSpec::demo(12, 1), SECONDS).await;
    let mut missing = Vec::new();
    for (theme, size) in [(DARK, NARROW), (DARK, WIDE), (ASCII, NARROW), (ASCII, WIDE)] {
        for keys in SCREENS {
            let mut screen = Screen::new(&fleet, theme, size);
            screen.press(keys);
            let rows = screen.rows();
            screen.press("?");
            let explained: BTreeSet<char> = screen.explained().into_iter().map(kind).collect();
            for (sign, word) in rows.iter().flat_map(|row| signs(row)) {
                if !explained.contains(&kind(sign)) {
                    missing.push(format!("{keys:?} {size:?} {:?}: {sign} of {word}", theme.glyphs));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_matters_of_a_device_fits_on_one_screen() {
    let fleet = demo_after(FleetSpec::demo(12, 1), SECONDS).await;
    let mut count = 0;
    for (at, node) in fleet.nodes.iter().enumerate() {
        let mut screen = Screen::new(&fleet, DARK, NARROW);
        screen.press(&format!("3{}", ".".repeat(at)));
        for device in 0..node.devices.len() {
            if device == 0 {
                screen.press("j");
                screen.ui.on_key(key(KeyCode::Home), screen.now);
            } else {
                // Closes the explanation of the one before.
                screen.press("ij");
            }
            screen.press("i");
            let rows = screen.rows();
            let text = rows.join("\n");
            let title = format!("of {}:", node.name);
            assert!(text.contains("\ndevice ") && text.contains(&title), "{device}: {text}");
            assert!(!text.contains("more lines"), "{text}");
            for word in ["health", "state", "util", "mem", "power", "temp", "held by", "uuid"] {
                let starts = |row: &String| row.starts_with(&format!("  {word} "));
                assert!(rows.iter().any(starts) || word == "state", "{word}: {text}");
            }
            assert!(rows.iter().any(|row| row.starts_with("▸ measured by")), "{text}");
            count += 1;
        }
    }
    assert_eq!(count, fleet.nodes.iter().map(|node| node.devices.len()).sum::<usize>());
}
