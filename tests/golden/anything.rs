//! Keys, clicks, fleets and sizes in any order: the screen stands, and shows what it is given.

use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use gtop::fleet::Fleet;
use gtop::model::{Answer, AskError, Question};
use gtop::tui::{Effect, Request};
use gtop::view::Reply;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::fleets::{self, NOW};
use crate::harness::*;
use crate::processes;

/// What is as good as chance, and always the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(count).unwrap()).unwrap()
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

fn key_of(dice: &mut Dice) -> KeyEvent {
    let letters: Vec<char> = (' '..='~').chain(['é', '名', '👩', '\u{301}', 'ש']).collect();
    let named = [
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Backspace,
        KeyCode::Delete,
        KeyCode::Insert,
        KeyCode::F(1),
        KeyCode::F(2),
        KeyCode::F(6),
        KeyCode::F(9),
        KeyCode::F(12),
        KeyCode::Null,
    ];
    let code = match dice.below(3) {
        0 => dice.of(&named),
        1 => KeyCode::Char(dice.of(&['1', '2', '3', '4', '5', '6', 'm', 'g', 't', 'e', 'T', '/'])),
        _ => KeyCode::Char(dice.of(&letters)),
    };
    let with = dice.of(&[
        KeyModifiers::NONE,
        KeyModifiers::NONE,
        KeyModifiers::NONE,
        KeyModifiers::NONE,
        KeyModifiers::SHIFT,
        KeyModifiers::CONTROL,
        KeyModifiers::ALT,
    ]);
    KeyEvent::new(code, with)
}

#[test]
fn whatever_is_pressed_clicked_or_told_the_screen_stands() {
    let fleets: Vec<Fleet> = vec![
        fleets::every_state(),
        fleets::rare(),
        Fleet::default(),
        fleets::crowd(),
        fleets::crowd_without_one(),
        fleets::with_jobs(),
        fleets::a_minute_later(),
        fleets::hostile_jobs(),
        fleets::only_waiting(),
        fleets::cluster(),
        fleets::single(),
        fleets::accelerators(),
        fleets::large(300),
    ];
    let rounds = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
    for seed in 1..=rounds {
        let mut dice = Dice(seed * 7_919);
        let first = fleets[dice.below(fleets.len())].clone();
        let mut stage = stage(first, dice.of(&[DARK, ASCII, LIGHT]));
        let (mut width, mut height, mut second) = (80_usize, 24_usize, 0);
        for _ in 0..250 {
            let now = NOW.plus(Duration::from_millis(second * 700));
            let effect = match dice.below(12) {
                0 => {
                    second += u64::try_from(dice.below(4)).unwrap();
                    let fleet = &fleets[dice.below(fleets.len())];
                    stage.show(fleet.clone(), now);
                    stage.due().map_or(Effect::Nothing, Effect::Ask)
                }
                1 => {
                    // A place before the first is the last there could be.
                    let far = |place: u16| place.wrapping_sub(1);
                    let kinds = [
                        MouseEventKind::Down(MouseButton::Left),
                        MouseEventKind::Down(MouseButton::Right),
                        MouseEventKind::ScrollUp,
                        MouseEventKind::ScrollDown,
                        MouseEventKind::ScrollLeft,
                        MouseEventKind::Moved,
                    ];
                    let event = MouseEvent {
                        kind: dice.of(&kinds),
                        column: far(u16::try_from(dice.below(width + 3)).unwrap()),
                        row: far(u16::try_from(dice.below(height + 3)).unwrap()),
                        modifiers: dice.of(&[KeyModifiers::NONE, KeyModifiers::CONTROL]),
                    };
                    stage.point(event, now)
                }
                2 => {
                    width = dice.of(&[1, 2, 9, 30, 59, 79, 80, 120, 200, 333]);
                    height = dice.of(&[1, 2, 3, 5, 8, 15, 24, 50, 90]);
                    Effect::Nothing
                }
                3 => {
                    stage.paste(dice.of(&["", "K\r", "user=a", "名\u{301}\x1b[2J"]), now);
                    Effect::Nothing
                }
                _ => stage.press(key_of(&mut dice), now),
            };
            if let Effect::Ask(Request::Ask(errands)) = effect {
                for errand in errands {
                    let answer = match (dice.below(4), errand.question) {
                        (0, _) => Err(AskError::UnknownNode),
                        (1, _) => Err(AskError::TimedOut(Duration::from_secs(5))),
                        (_, Question::Signal(..)) => Ok(Answer::Sent),
                        (_, Question::Environment(_)) => processes::environment().answer,
                        (_, Question::Tree(_)) => processes::tree().answer,
                        (_, Question::Detail(_)) => processes::detail().answer,
                    };
                    stage.take(&Reply { errand, answer, at: now }, now);
                }
            }
            // Keys that come together are taken before anything is drawn.
            if dice.below(3) == 0 {
                continue;
            }
            let area = Rect::new(0, 0, width.try_into().unwrap(), height.try_into().unwrap());
            let mut buffer = Buffer::empty(area);
            stage.draw(now, &mut buffer);
        }
    }
}
