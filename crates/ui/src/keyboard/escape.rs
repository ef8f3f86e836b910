//! Rejoins escape sequences that arrive in pieces, or that the terminal library splits wrongly.
//!
//! A terminal sends `ESC O Q` for F2. If the rest comes a few milliseconds after `ESC`, as over a slow link, or if the Esc
//! key comes first, which sends another `ESC`, the library reports an Esc and the rest as letters: `Q` would quit gtop.

use std::env;
use std::os::fd::AsFd;
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use rustix::termios::ttyname;

/// How long the rest of a sequence may take; `ESCDELAY` sets it, in milliseconds, as for ncurses.
const DEFAULT_DELAY: Duration = Duration::from_millis(25);

/// The same on a serial line, where each character takes its time.
const SERIAL_DELAY: Duration = Duration::from_millis(100);

/// Longest wait that `ESCDELAY` may ask for.
const MAX_DELAY_MS: u64 = 10_000;

/// Longest sequence of a key or the mouse.
const MAX_SEQUENCE: usize = 32;

/// Returns how long to wait for the rest of a sequence.
pub(super) fn sequence_delay(tty: impl AsFd) -> Duration {
    let name = ttyname(tty, Vec::new()).ok().and_then(|name| name.into_string().ok());
    delay_of(env::var("ESCDELAY").ok().as_deref(), name.as_deref())
}

/// Returns the wait for a value of `ESCDELAY` and the device of the terminal.
fn delay_of(asked: Option<&str>, tty: Option<&str>) -> Duration {
    if let Some(millis) = asked.and_then(|text| text.parse::<u64>().ok()) {
        return Duration::from_millis(millis.min(MAX_DELAY_MS));
    }
    let serial = ["/dev/ttyS", "/dev/ttyUSB", "/dev/ttyACM", "/dev/ttyAMA"];
    let is_serial = tty.is_some_and(|tty| serial.iter().any(|prefix| tty.starts_with(prefix)));
    if is_serial { SERIAL_DELAY } else { DEFAULT_DELAY }
}

/// Joins the pieces of sequences.
#[derive(Debug)]
pub(super) struct SequenceJoiner {
    delay: Duration,
    /// An Esc that was the last event of a read, and what has come since.
    held: Vec<Event>,
    /// The start of a paste was joined: the library does not know that what follows is pasted.
    skips_paste: bool,
}

/// What follows an Esc.
#[derive(Debug, PartialEq)]
enum Sequence {
    /// Nothing that belongs to it.
    Other,
    /// The beginning of a sequence.
    Partial,
    /// The sequence of a key, of so many events.
    Key(KeyEvent, usize),
    /// The start of pasted text.
    Paste,
    /// A sequence that gtop does not know, of so many events.
    Unknown(usize),
}

impl SequenceJoiner {
    pub(super) const fn new(delay: Duration) -> Self {
        Self { delay, held: Vec::new(), skips_paste: false }
    }

    /// Returns how long to wait for more; `None` if nothing is held.
    pub(super) fn hold_timeout(&self) -> Option<Duration> {
        (self.skips_paste || !self.held.is_empty()).then_some(self.delay)
    }

    /// Takes the events of one read; returns those that are complete.
    pub(super) fn push(&mut self, read: &[Event]) -> Vec<Event> {
        if self.skips_paste {
            return Vec::new();
        }
        let mut events = std::mem::take(&mut self.held);
        let begins_with_held = !events.is_empty();
        events.extend(rejoin(read));
        let mut joined = Vec::with_capacity(events.len());
        if begins_with_held {
            let behind = events.get(1..).unwrap_or_default();
            match sequence(behind) {
                Sequence::Partial => {
                    self.held = events;
                    return joined;
                }
                Sequence::Paste => {
                    self.skips_paste = true;
                    return joined;
                }
                Sequence::Key(key, length) => {
                    joined.push(Event::Key(key));
                    events.drain(..=length);
                }
                Sequence::Unknown(length) => drop(events.drain(..=length)),
                Sequence::Other => joined.push(events.remove(0)),
            }
        }
        self.held.extend(events.pop_if(|last| is_escape(last)));
        joined.extend(events);
        joined
    }

    /// Ends the wait; returns what was held. A sequence that broke off is dropped.
    pub(super) fn flush(&mut self) -> Vec<Event> {
        self.skips_paste = false;
        let mut held = std::mem::take(&mut self.held);
        if held.len() > 2 {
            held.clear();
        }
        held
    }
}

fn is_escape(event: &Event) -> bool {
    matches!(event, Event::Key(key) if key.code == KeyCode::Esc && key.modifiers.is_empty())
}

/// Returns what the events after an Esc are.
fn sequence(behind: &[Event]) -> Sequence {
    let text: String = behind.iter().take(MAX_SEQUENCE).map_while(letter).collect();
    let is_whole = text.chars().count() == behind.len().min(MAX_SEQUENCE);
    let Some(rest) = text.strip_prefix('[') else {
        return match (text.as_str(), split_key(behind)) {
            (_, Some((code, length))) => Sequence::Key(KeyEvent::from(code), length),
            ("O", None) if is_whole => Sequence::Partial,
            _ => Sequence::Other,
        };
    };
    let Some(end) = rest.find(|letter: char| ('@'..='~').contains(&letter)) else {
        let is_sequence = rest.chars().all(|letter| (' '..='?').contains(&letter));
        let is_partial = is_sequence && is_whole && behind.len() < MAX_SEQUENCE;
        return if is_partial { Sequence::Partial } else { Sequence::Other };
    };
    // With the bracket and the last letter.
    let length = end + 2;
    let (parameters, last) =
        (rest.get(..end).unwrap_or_default(), rest.as_bytes().get(end).copied());
    if (parameters, last) == ("200", Some(b'~')) {
        return Sequence::Paste;
    }
    if let Some((code, length)) = split_key(behind) {
        return Sequence::Key(KeyEvent::from(code), length);
    }
    match last.and_then(|last| modified_key(parameters, char::from(last))) {
        Some(key) => Sequence::Key(key, length),
        None => Sequence::Unknown(length),
    }
}

/// Returns a key with modifiers, such as `ESC [ 1 ; 5 A` for Ctrl-Up (xterm's "PC-style function keys").
fn modified_key(parameters: &str, last: char) -> Option<KeyEvent> {
    if (parameters, last) == ("", 'Z') {
        return Some(KeyEvent::from(KeyCode::BackTab));
    }
    let (number, modifiers) = parameters.split_once(';')?;
    let bits = modifiers.parse::<u8>().ok()?.checked_sub(1)?;
    let code = match last {
        '~' => numbered_key(number.parse().ok()?)?,
        'P'..='S' => KeyCode::F(u8::try_from(last).ok()? - b'P' + 1),
        last => cursor_key(last)?,
    };
    let all = [KeyModifiers::SHIFT, KeyModifiers::ALT, KeyModifiers::CONTROL];
    let set = all.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
    Some(KeyEvent::new(code, set.map(|(_, modifier)| modifier).collect()))
}

/// Rejoins the keys after an Esc. Nobody types such a sequence within one read.
fn rejoin(events: &[Event]) -> Vec<Event> {
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
    let Event::Key(KeyEvent { code: KeyCode::Char(letter), modifiers, .. }) = event else {
        return None;
    };
    KeyModifiers::SHIFT.contains(*modifiers).then_some(*letter)
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

    /// Returns what comes out of pieces that are read one after the other, and then out of a pause.
    fn joined(pieces: &[&str]) -> [Vec<Event>; 2] {
        let mut joiner = SequenceJoiner::new(DEFAULT_DELAY);
        let code = |letter| if letter == '\x1b' { KeyCode::Esc } else { KeyCode::Char(letter) };
        let read = |piece: &&str| piece.chars().map(code).map(key).collect::<Vec<_>>();
        let events = pieces.iter().flat_map(|piece| joiner.push(&read(piece))).collect();
        assert_eq!(joiner.hold_timeout().is_some(), !joiner.held.is_empty() || joiner.skips_paste);
        [events, joiner.flush()]
    }

    #[test]
    fn a_sequence_in_pieces_is_one_key_and_no_letter_of_it_is_typed() {
        let j = || key(KeyCode::Char('j'));
        let with = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
        for (sequence, expected) in [
            ("OQ", Some(key(KeyCode::F(2)))),
            ("[A", Some(key(KeyCode::Up))),
            ("[15~", Some(key(KeyCode::F(5)))),
            ("[Z", Some(key(KeyCode::BackTab))),
            ("[1;5A", Some(with(KeyCode::Up, KeyModifiers::CONTROL))),
            ("[3;2~", Some(with(KeyCode::Delete, KeyModifiers::SHIFT))),
            ("[1;3Q", Some(with(KeyCode::F(2), KeyModifiers::ALT))),
            // A click, the focus, a reply.
            ("[<0;33;12M", None),
            ("[I", None),
            ("[0n", None),
            ("[99~", None),
        ] {
            let letters: Vec<String> = sequence.chars().map(String::from).collect();
            let single: Vec<&str> = letters.iter().map(String::as_str).collect();
            for pieces in [vec![sequence], single] {
                let pieces = [&["\x1b"], pieces.as_slice(), &["j"]].concat();
                let expected: Vec<Event> = expected.iter().cloned().chain([j()]).collect();
                assert_eq!(joined(&pieces), [expected, Vec::new()], "{pieces:?}");
            }
        }
    }

    #[test]
    fn a_serial_line_is_waited_for_longer_and_escdelay_counts_first() {
        for (asked, tty, millis) in [
            (None, None, 25),
            (None, Some("/dev/pts/3"), 25),
            (None, Some("/dev/ttyS0"), 100),
            (None, Some("/dev/ttyUSB1"), 100),
            (Some("500"), Some("/dev/ttyS0"), 500),
            (Some("0"), Some("/dev/pts/3"), 0),
            (Some("soon"), Some("/dev/pts/3"), 25),
            (Some("99999999"), None, 10_000),
        ] {
            assert_eq!(delay_of(asked, tty), Duration::from_millis(millis), "{asked:?} {tty:?}");
        }
    }

    #[test]
    fn an_escape_alone_waits_for_the_pause_and_one_before_other_keys_does_not() {
        let escape = || key(KeyCode::Esc);
        assert_eq!(joined(&["\x1b"]), [vec![], vec![escape()]]);
        assert_eq!(joined(&["\x1b", "j"])[0], [escape(), key(KeyCode::Char('j'))]);
        assert_eq!(joined(&["\x1b", "\x1b"]), [vec![escape()], vec![escape()]]);
        assert_eq!(joined(&["\x1b", "["])[1], [escape(), key(KeyCode::Char('['))]);
        // A sequence that breaks off presses nothing.
        assert_eq!(joined(&["\x1b", "[1", "5"]), [vec![], vec![]]);
        assert_eq!(joined(&["q"])[0], [key(KeyCode::Char('q'))]);
    }

    #[test]
    fn what_is_pasted_after_a_start_in_pieces_acts_as_no_key() {
        assert_eq!(joined(&["\x1b", "[200~", "Kq\r", "q"]), [vec![], vec![]]);
    }
}
