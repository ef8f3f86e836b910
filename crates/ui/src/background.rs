//! Detects a light background: filters the terminal's OSC 11 reply out of the keyboard input.
//!
//! The terminal library does not know this reply and reports its characters as keys, in whatever
//! pieces they arrive. Keys that may belong to it are held back until that is decided. The crate
//! `terminal-colorsaurus` waits for the reply before anything else reads the terminal: a reply that is
//! late on a slow link would become keys, and keys that are typed meanwhile are lost.

use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use gtop_local::time::{Clock, Timestamp};

/// Queries the background colour (OSC 11).
pub(super) const BACKGROUND_QUERY: &str = "\x1b]11;?\x07";

const REPLY_PREFIX: &str = "\x1b]11;";
const MAX_REPLY_LENGTH: usize = 64;
/// Most terminals reply within this.
const USUAL_REPLY_TIME: Duration = Duration::from_secs(5);
/// How long an Esc that may begin a reply is held back: while a reply is likely, and later.
const LONG_ESC_HOLD: Duration = Duration::from_secs(1);
const SHORT_ESC_HOLD: Duration = Duration::from_millis(100);
/// How long a reply that has certainly begun may pause.
const MAX_REPLY_PAUSE: Duration = Duration::from_secs(5);

/// Returns true if a terminal with this `TERM` can be queried.
///
/// Most terminals ignore an unknown query; the ones listed here would print it.
pub(super) fn supports_query(term: &str) -> bool {
    let is_plain = ["", "dumb", "linux", "unknown"].contains(&term);
    !is_plain && !["eterm", "cons25", "vt1", "vt2", "sun"].iter().any(|kind| term.starts_with(kind))
}

/// Separates the reply from the keys around it.
#[derive(Debug)]
pub(super) struct BackgroundDetector {
    clock: Clock,
    /// When the query was sent; none if no reply is expected.
    queried_at: Option<Timestamp>,
    /// The possible reply so far.
    text: String,
    /// The events of `text` that are not forwarded yet.
    held_events: Vec<Event>,
}

/// How much of a text matches a reply.
enum ReplyMatch {
    NoMatch,
    Partial,
    /// A whole reply; true for a light background, none for a colour that cannot be parsed.
    Complete(Option<bool>),
}

impl BackgroundDetector {
    pub(super) const fn new(clock: Clock, queried_at: Option<Timestamp>) -> Self {
        Self { clock, queried_at, text: String::new(), held_events: Vec::new() }
    }

    /// Adds an event. Events that are not part of the reply go to `events`. Returns true for a
    /// light background once the reply is complete.
    pub(super) fn push(&mut self, event: Event, events: &mut Vec<Event>) -> Option<bool> {
        let is_due = self.queried_at.is_some();
        let Event::Key(key) = &event else {
            events.push(event);
            return None;
        };
        let more = reply_text(key).filter(|_| is_due);
        let text = more.map(|more| format!("{}{more}", self.text)).unwrap_or_default();
        match progress(&text) {
            ReplyMatch::Partial => {
                self.text = text;
                self.held_events.push(event);
                None
            }
            ReplyMatch::Complete(is_light) => {
                self.text.clear();
                self.held_events.clear();
                // Another reply is due only if this one could not be parsed.
                self.queried_at = self.queried_at.filter(|_| is_light.is_none());
                is_light
            }
            ReplyMatch::NoMatch if self.text.is_empty() => {
                events.push(event);
                None
            }
            ReplyMatch::NoMatch => {
                self.release(events);
                self.text.clear();
                self.push(event, events)
            }
        }
    }

    /// Returns how long to wait for more of a held sequence; none if no events are held.
    pub(super) fn hold_timeout(&self) -> Option<Duration> {
        let queried_at = self.queried_at.filter(|_| !self.held_events.is_empty())?;
        let is_late = self.clock.now().since(queried_at) > USUAL_REPLY_TIME;
        Some(match self.text.len() {
            length if length >= REPLY_PREFIX.len() => MAX_REPLY_PAUSE,
            1 if is_late => SHORT_ESC_HOLD,
            _ => LONG_ESC_HOLD,
        })
    }

    /// Ends the wait. A short sequence is forwarded but remembered: if its rest arrives late, the reply is still recognised.
    pub(super) fn flush(&mut self, events: &mut Vec<Event>) {
        self.release(events);
        if self.text.len() >= REPLY_PREFIX.len() {
            self.text.clear();
        }
    }

    /// Forwards the held events unless they certainly belong to a reply.
    fn release(&mut self, events: &mut Vec<Event>) {
        if self.text.len() < REPLY_PREFIX.len() {
            events.append(&mut self.held_events);
        }
        self.held_events.clear();
    }
}

/// Returns what the terminal sent for a key event; none if it cannot be part of a reply.
fn reply_text(key: &KeyEvent) -> Option<String> {
    match (key.code, key.modifiers.difference(KeyModifiers::SHIFT)) {
        (KeyCode::Esc, KeyModifiers::NONE) => Some("\x1b".to_owned()),
        (KeyCode::Char(letter), KeyModifiers::NONE) => Some(letter.to_string()),
        (KeyCode::Char(letter), KeyModifiers::ALT) => Some(format!("\x1b{letter}")),
        (KeyCode::Char('g'), KeyModifiers::CONTROL) => Some("\x07".to_owned()),
        _ => None,
    }
}

fn progress(text: &str) -> ReplyMatch {
    let Some(rest) = text.strip_prefix(REPLY_PREFIX) else {
        let is_begun = !text.is_empty() && REPLY_PREFIX.starts_with(text);
        return if is_begun { ReplyMatch::Partial } else { ReplyMatch::NoMatch };
    };
    if let Some(colour) = rest.strip_suffix('\x07').or_else(|| rest.strip_suffix("\x1b\\")) {
        return ReplyMatch::Complete(
            luminance(colour).map(|luminance| luminance > LIGHT_LUMINANCE),
        );
    }
    let colour = rest.strip_suffix('\x1b').unwrap_or(rest);
    let is_colour = colour.chars().all(|c| c.is_ascii_alphanumeric() || ":/#".contains(c));
    if is_colour && rest.len() <= MAX_REPLY_LENGTH {
        ReplyMatch::Partial
    } else {
        ReplyMatch::NoMatch
    }
}

/// The luminance above which black text is easier to read than white.
const LIGHT_LUMINANCE: f64 = 0.179;

/// Parses a colour as terminals write it, such as `rgb:ffff/ffff/ffff`, and returns its luminance.
fn luminance(colour: &str) -> Option<f64> {
    let parts: Vec<&str> = if let Some(parts) = colour.strip_prefix("rgb:") {
        parts.split('/').collect()
    } else if let Some(parts) = colour.strip_prefix("rgba:") {
        parts.rsplit_once('/')?.0.split('/').collect()
    } else {
        let digits = colour.strip_prefix('#')?;
        let width = digits.len() / 3;
        [0, 1, 2].iter().filter_map(|part| digits.get(part * width..(part + 1) * width)).collect()
    };
    let [red, green, blue] = parts.as_slice() else { return None };
    Some(
        0.2126 * linear_component(red)?
            + 0.7152 * linear_component(green)?
            + 0.0722 * linear_component(blue)?,
    )
}

/// Converts an sRGB component of one to four hex digits to linear light, 0 to 1.
fn linear_component(digits: &str) -> Option<f64> {
    let max = match digits.len() {
        1 => 0xf,
        2 => 0xff,
        3 => 0xfff,
        4 => 0xffff,
        _ => return None,
    };
    let part = f64::from(u16::from_str_radix(digits, 16).ok()?) / f64::from(max);
    Some(if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
        Event::Key(KeyEvent::new(code, modifiers))
    }

    /// The events that the terminal library reports for one read.
    fn keys(piece: &str) -> Vec<Event> {
        let mut keys = Vec::new();
        let mut letters = piece.chars().peekable();
        while let Some(letter) = letters.next() {
            keys.push(match letter {
                '\x1b' => match letters.next() {
                    None | Some('\x1b') => key(KeyCode::Esc, KeyModifiers::NONE),
                    Some(next) => key(KeyCode::Char(next), KeyModifiers::ALT),
                },
                '\x07' => key(KeyCode::Char('g'), KeyModifiers::CONTROL),
                letter if letter.is_uppercase() => key(KeyCode::Char(letter), KeyModifiers::SHIFT),
                letter => key(KeyCode::Char(letter), KeyModifiers::NONE),
            });
        }
        keys
    }

    fn due() -> BackgroundDetector {
        let clock = Clock::system();
        let now = clock.now();
        BackgroundDetector::new(clock, Some(now))
    }

    /// The events and the result for input in these pieces; `gives_up` lets the hold time out in between.
    fn detect(pieces: &[&str], gives_up: bool) -> (Vec<Event>, Option<bool>) {
        let (mut detector, mut events, mut found) = (due(), Vec::new(), None);
        for piece in pieces {
            for event in keys(piece) {
                found = detector.push(event, &mut events).or(found);
            }
            if gives_up && detector.hold_timeout().is_some_and(|hold| hold < MAX_REPLY_PAUSE) {
                detector.flush(&mut events);
            }
        }
        (events, found)
    }

    #[test]
    fn a_reply_is_detected_in_any_format_and_pieces_and_is_never_a_key() {
        for (reply, is_light) in [
            ("\x1b]11;rgb:ffff/ffff/ffff\x07", true),
            ("\x1b]11;rgb:fdfd/f6f6/e3e3\x1b\\", true),
            ("\x1b]11;rgb:FF/FF/FF\x1b\\", true),
            ("\x1b]11;rgb:0/0/0\x07", false),
            ("\x1b]11;rgb:000/2b3/369\x07", false),
            ("\x1b]11;rgba:ffff/ffff/ffff/8000\x1b\\", true),
            ("\x1b]11;rgba:00/00/00/ff\x07", false),
            ("\x1b]11;#fdf6e3\x07", true),
        ] {
            assert_eq!(detect(&[reply], false), (vec![], Some(is_light)), "{reply:?}");
            for cut in 1..reply.len() {
                let (front, back) = reply.split_at(cut);
                let cut = detect(&[front, back], false);
                assert_eq!(cut, (vec![], Some(is_light)), "{front:?} {back:?}");
            }
            let single: Vec<String> = reply.chars().map(String::from).collect();
            let single: Vec<&str> = single.iter().map(String::as_str).collect();
            assert_eq!(detect(&single, false), (vec![], Some(is_light)), "{reply:?}");
            // The part that came too late to be held back is no key either.
            let (events, found) = detect(&single, true);
            assert_eq!(found, Some(is_light), "{reply:?}");
            assert!(events.len() <= 4, "{events:?}");
        }
    }

    #[test]
    fn keys_around_the_reply_stay_keys() {
        let reply = "\x1b]11;rgb:0000/0000/0000\x07";
        for (pieces, left) in [
            (vec!["j", reply, "k"], "jk"),
            (vec!["jj\x1b]11;rgb:00", "00/0000/0000\x07kq"], "jjkq"),
            (vec!["]11;", reply, "]"], "]11;]"),
            (vec!["\x1b]", "x", reply], "\x1b]x"),
            (vec!["\x1b]1", "x", reply], "\x1b]1x"),
            (vec!["\x1b", "\x1b", "j", reply, "\x1b"], "\x1b\x1bj\x1b"),
        ] {
            let expected: Vec<Event> = if left.contains("\x1b\x1b") {
                ["\x1b", "\x1b", "j", "\x1b"].iter().flat_map(|one| keys(one)).collect()
            } else {
                keys(left)
            };
            assert_eq!(detect(&pieces, false), (expected, Some(false)), "{pieces:?}");
        }
        // A reply that cannot be parsed is no key, and another may follow.
        for odd in ["\x1b]11;\x07", "\x1b]11;rgb:zz/0/0\x07", "\x1b]11;rgb:0/0\x1b\\"] {
            assert_eq!(detect(&[odd, reply], false), (vec![], Some(false)), "{odd:?}");
        }
    }

    #[test]
    fn without_a_query_every_key_is_forwarded() {
        let text = "\x1b]11;rgb:0/0/0";
        let mut detector = BackgroundDetector::new(Clock::system(), None);
        let mut events = Vec::new();
        for event in keys(text) {
            assert_eq!(detector.push(event, &mut events), None);
        }
        assert_eq!((events, detector.hold_timeout()), (keys(text), None));
    }

    #[test]
    fn an_escape_is_forwarded_if_nothing_follows() {
        let (mut detector, mut events) = (due(), Vec::new());
        detector.push(key(KeyCode::Esc, KeyModifiers::NONE), &mut events);
        assert_eq!((events.len(), detector.hold_timeout()), (0, Some(LONG_ESC_HOLD)));
        detector.flush(&mut events);
        assert_eq!((events.len(), detector.hold_timeout()), (1, None));
        let since = detector.clock.now();
        detector.queried_at = Some(Timestamp::from_micros(since.as_micros() - 6_000_000));
        detector.push(key(KeyCode::Esc, KeyModifiers::NONE), &mut events);
        assert_eq!(detector.hold_timeout(), Some(SHORT_ESC_HOLD));
    }

    #[test]
    fn terminals_that_would_print_the_query_are_not_queried() {
        for term in ["xterm-256color", "tmux-256color", "screen", "foot", "xterm"] {
            assert!(supports_query(term), "{term}");
        }
        for term in ["", "dumb", "linux", "vt220", "eterm-color"] {
            assert!(!supports_query(term), "{term}");
        }
    }
}
