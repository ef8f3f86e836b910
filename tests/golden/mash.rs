//! Somebody's cat on the keyboard: thousands of keys, clicks and sizes, the same ones every time.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use gtop::fleet::Fleet;
use gtop::model::{ProcessRequest, ProcessResponse, Refusal, RequestError};
use gtop::tui::{Keymap, Theme, Ui, UiEffect, UiRequest};
use gtop::view::{DisplayOptions, Line, NodeReply, SpanContent, Symbol};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use crate::fleets::{self, NOW};
use crate::harness::{ASCII, DARK, LIGHT, MONO, stage, text};
use crate::processes::{detail, environment, tree};

/// How many things happen to each fleet.
const DEEDS: u64 = 300;
/// Keys that do something somewhere, so that most presses are not wasted.
const LETTERS: &[u8] = b"123456mbBgGzwhjkKJpotesfcaTKI.,\\<>[]^$+-= /oqurdx?5nul";
const SIZES: [(u16, u16); 14] = [
    (1, 1),
    (2, 3),
    (5, 20),
    (20, 5),
    (40, 10),
    (80, 24),
    (79, 25),
    (120, 40),
    (200, 50),
    (300, 15),
    (500, 2),
    (33, 60),
    (100, 8),
    (0, 0),
];

/// Numbers as if by chance, the same ones every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    fn key(&mut self) -> KeyEvent {
        let named = [
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Enter,
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Tab,
            KeyCode::BackTab,
            KeyCode::Backspace,
            KeyCode::Delete,
            KeyCode::Insert,
        ];
        let strange = ['é', '日', '👩', '\u{301}', '\u{202e}', '\0', '\u{1b}', 'ß', '–'];
        let code = match self.below(10) {
            0..5 => KeyCode::Char(char::from(*self.of(LETTERS))),
            5..8 => *self.of(&named),
            8 => KeyCode::F(u8::try_from(self.below(14)).unwrap()),
            _ => KeyCode::Char(*self.of(&strange)),
        };
        let modifiers = match self.below(20) {
            0 => KeyModifiers::CONTROL,
            1 => KeyModifiers::ALT,
            2 => KeyModifiers::SHIFT,
            _ => KeyModifiers::NONE,
        };
        KeyEvent::new(code, modifiers)
    }

    fn click(&mut self) -> MouseEvent {
        let kinds = [
            MouseEventKind::Down(MouseButton::Left),
            MouseEventKind::Down(MouseButton::Left),
            MouseEventKind::ScrollUp,
            MouseEventKind::ScrollDown,
            MouseEventKind::ScrollLeft,
            MouseEventKind::Up(MouseButton::Left),
        ];
        // A place before the first is the last there could be.
        let place = |bound| u16::try_from(bound).unwrap().wrapping_sub(1);
        MouseEvent {
            kind: *self.of(&kinds),
            column: place(self.below(210)),
            row: place(self.below(55)),
            modifiers: KeyModifiers::NONE,
        }
    }
}

/// Says what is wrong with a line, if anything is.
fn fault(line: &Line, width: u16) -> Option<String> {
    if line.width() > width {
        return Some(format!("{} columns of {width}", line.width()));
    }
    line.spans.iter().find_map(|piece| {
        let own = usize::from(piece.width);
        let taken = match &piece.content {
            SpanContent::Text(text) => {
                if text.chars().any(char::is_control) {
                    return Some(format!("a control character in {text:?}"));
                }
                text.width()
            }
            SpanContent::Spark(points) => points.len(),
            SpanContent::Strip(marks) => {
                let is_sound = |mark: &Symbol| {
                    let (Symbol::Char(letter) | Symbol::Letter(letter, _)) = mark else {
                        return true;
                    };
                    letter.to_string().width() == 1
                };
                if !marks.iter().all(|(mark, _)| is_sound(mark)) {
                    return Some("a mark that is not one column wide".to_owned());
                }
                0
            }
            SpanContent::Bar(_) | SpanContent::Graph { .. } | SpanContent::Rule => 0,
        };
        (taken > own)
            .then(|| format!("{taken} columns where {own} are kept, in {:?}", piece.content))
    })
}

fn answer(reply: NodeReply, chance: &mut Chance) -> NodeReply {
    let own = match &reply.request.process_request {
        ProcessRequest::Signal(..) => ProcessResponse::Sent,
        ProcessRequest::Environment(_) => environment().result.unwrap(),
        ProcessRequest::Tree(_) => tree().result.unwrap(),
        ProcessRequest::Detail(_) => detail().result.unwrap(),
    };
    let answer = match chance.below(6) {
        0 => Err(RequestError::Down),
        2 => Err(RequestError::TimedOut(Duration::from_secs(5))),
        1 => Err(RequestError::from(Refusal::Reused)),
        _ => Ok(own),
    };
    NodeReply { result: answer, ..reply }
}

fn fleets() -> Vec<(&'static str, Fleet)> {
    vec![
        ("every state", fleets::every_state()),
        ("rare", fleets::rare()),
        ("none", Fleet::default()),
        ("one", fleets::single()),
        ("large", fleets::large(60)),
        ("jobs", fleets::with_jobs()),
        ("waiting", fleets::only_waiting()),
        ("hostile jobs", fleets::hostile_jobs()),
        ("later", fleets::a_minute_later()),
        ("crowd", fleets::crowd()),
        ("crowd without one", fleets::crowd_without_one()),
        ("cluster", fleets::cluster()),
        ("accelerators", fleets::accelerators()),
        ("one large job", fleets::one_large_job(30)),
    ]
}

/// Mashes keys over one fleet, which sometimes turns into another.
fn mash(stage: &mut Ui, all: &[(&str, Fleet)], chance: &mut Chance) {
    let mut now = NOW;
    let mut size = (80, 24);
    let mut told = Vec::new();
    for deed in 0..DEEDS {
        let what = match chance.below(100) {
            0..78 => {
                let key = chance.key();
                told.push(format!("{key:?}"));
                stage.on_key(key, now)
            }
            78..80 => {
                let pasted = *chance.of(&["", "K\r", "user=a", "名\u{301}\x1b[2J"]);
                told.push(format!("{pasted:?}"));
                stage.on_paste(pasted, now);
                UiEffect::Nothing
            }
            80..88 => {
                let click = chance.click();
                told.push(format!("{click:?}"));
                stage.on_mouse(click, now)
            }
            88..94 => {
                size = *chance.of(&SIZES);
                told.push(format!("{size:?}"));
                UiEffect::Nothing
            }
            94..98 => {
                now = now.plus(Duration::from_secs(1));
                let (name, fleet) = chance.of(all);
                told.push((*name).to_owned());
                stage.on_fleet(fleet.clone(), now);
                UiEffect::Nothing
            }
            _ => {
                let later = [1, 60, 4_000][chance.below(3)];
                now = now.plus(Duration::from_secs(later));
                stage.set_attended(chance.below(2) == 0, now);
                UiEffect::Nothing
            }
        };
        let mut asked = Vec::new();
        if let UiEffect::Request(UiRequest::QueryNodes(errands)) = what {
            asked.extend(errands);
        }
        if let Some(UiRequest::QueryNodes(errands)) = stage.due() {
            asked.extend(errands);
        }
        for errand in asked {
            if chance.below(3) > 0 {
                let reply =
                    NodeReply { request: errand, result: Ok(ProcessResponse::Sent), at: now };
                stage.on_reply(&answer(reply, chance), now);
            }
        }
        if chance.below(4) == 0 {
            // Keys that come together are taken before anything is drawn.
            continue;
        }
        let (width, height) = size;
        let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
        stage.draw(now, &mut buffer);
        let from = told.len().saturating_sub(40);
        assert!(
            stage.drawn().len() <= usize::from(height),
            "{} lines of {height} after {:?}",
            stage.drawn().len(),
            &told[from..]
        );
        for (y, line) in stage.drawn().iter().enumerate() {
            let fault = fault(line, width);
            assert!(
                fault.is_none(),
                "row {y} of {width}x{height}, deed {deed}: {fault:?}\nafter {:?}\n{}",
                &told[from..],
                text(&buffer).join("\n")
            );
        }
    }
}

fn check(look: Theme, seed: u64) {
    let all = fleets();
    for (place, (_, fleet)) in all.iter().enumerate() {
        let mut chance = Chance(seed + place as u64 * 7_919);
        let display =
            DisplayOptions { is_readonly: seed.is_multiple_of(2), ..DisplayOptions::default() };
        let mut stage = stage(fleet.clone(), look).with_options(display, Keymap::default());
        mash(&mut stage, &all, &mut chance);
    }
}

#[test]
fn no_keys_and_no_size_do_harm() {
    check(DARK, 1);
}

#[test]
fn no_keys_and_no_size_do_harm_in_ascii() {
    check(ASCII, 20_002);
}

#[test]
fn no_keys_and_no_size_do_harm_by_day() {
    check(LIGHT, 300_003);
}

#[test]
fn no_keys_and_no_size_do_harm_without_colours() {
    check(MONO, 4_000_004);
}
