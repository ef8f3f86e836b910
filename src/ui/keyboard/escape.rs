//! Rejoins escape sequences that the terminal library splits wrongly.
//!
//! A terminal sends `ESC O Q` for F2. After the Esc key, which sends another `ESC`, the library
//! reports both as one Esc and the rest as letters: `Q` would quit gtop.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

/// Rejoins the keys after an Esc. Nobody types such a sequence within one read.
pub(super) fn rejoin(events: &[Event]) -> Vec<Event> {
    let mut rejoin = Vec::with_capacity(events.len());
    let mut rest = events;
    while let [first, behind @ ..] = rest {
        rejoin.push(first.clone());
        rest = behind;
        if matches!(first, Event::Key(key) if key.code == KeyCode::Esc)
            && let Some((code, length)) = split_key(behind)
        {
            rejoin.push(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
            rest = behind.get(length..).unwrap_or_default();
        }
    }
    rejoin
}

/// Returns the key whose sequence begins here, and its length in events.
///
/// The sequences are xterm's "VT220-style function keys" and "PC-style function keys".
fn split_key(events: &[Event]) -> Option<(KeyCode, usize)> {
    match (letter(events.first()?)?, letter(events.get(1)?)?) {
        ('O', last @ 'P'..='S') => Some((KeyCode::F(u8::try_from(last).ok()? - b'P' + 1), 2)),
        ('[' | 'O', last @ ('A'..='D' | 'F' | 'H')) => Some((cursor_key(last)?, 2)),
        ('[', digit) if digit.is_ascii_digit() => {
            let digits: String =
                events.iter().skip(1).map_while(letter).take_while(char::is_ascii_digit).collect();
            let end = events.get(1 + digits.len()).and_then(letter)?;
            (end == '~').then_some((numbered_key(digits.parse().ok()?)?, digits.len() + 2))
        }
        _ => None,
    }
}

fn letter(event: &Event) -> Option<char> {
    match event {
        Event::Key(KeyEvent { code: KeyCode::Char(letter), .. }) => Some(*letter),
        Event::Key(_)
        | Event::FocusGained
        | Event::FocusLost
        | Event::Mouse(_)
        | Event::Paste(_)
        | Event::Resize(..) => None,
    }
}

const fn cursor_key(last: char) -> Option<KeyCode> {
    Some(match last {
        'A' => KeyCode::Up,
        'B' => KeyCode::Down,
        'C' => KeyCode::Right,
        'D' => KeyCode::Left,
        'F' => KeyCode::End,
        'H' => KeyCode::Home,
        _ => return None,
    })
}

const fn numbered_key(number: u8) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => KeyCode::F(number - 10),
        17..=21 => KeyCode::F(number - 11),
        23 | 24 => KeyCode::F(number - 12),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> Event {
        Event::Key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    fn read(text: &str) -> Vec<Event> {
        let code = |letter| if letter == '\x1b' { KeyCode::Esc } else { KeyCode::Char(letter) };
        rejoin(&text.chars().map(code).map(key).collect::<Vec<_>>())
    }

    #[test]
    fn a_key_sequence_after_an_escape_is_rejoined() {
        for (text, code) in [
            ("OQ", KeyCode::F(2)),
            ("[A", KeyCode::Up),
            ("OF", KeyCode::End),
            ("[5~", KeyCode::PageUp),
            ("[15~", KeyCode::F(5)),
            ("[20~", KeyCode::F(9)),
            ("[24~", KeyCode::F(12)),
        ] {
            let keys = read(&format!("\x1b{text}j"));
            assert_eq!(keys, [key(KeyCode::Esc), key(code), key(KeyCode::Char('j'))], "{text}");
        }
    }

    #[test]
    fn other_sequences_are_unchanged() {
        for text in
            ["OQ", "q\x1bq", "\x1bO", "\x1b[", "\x1b[5", "\x1b[99~", "\x1bOz", "\x1b\x1b", ""]
        {
            let code = |letter| if letter == '\x1b' { KeyCode::Esc } else { KeyCode::Char(letter) };
            assert_eq!(read(text), text.chars().map(code).map(key).collect::<Vec<_>>(), "{text:?}");
        }
    }
}
