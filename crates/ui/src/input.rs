//! Keys and clicks: the ones the UI tells apart, and how settings spell keys.

use std::fmt;
use std::str::FromStr;

use crate::view::View;
use gtop_local::text::is_unprintable;
use gtop_local::time::Timestamp;
use gtop_model::table;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A printable character without modifiers.
    Letter(char),
    /// With Ctrl; in lower case.
    Control(char),
    /// With Alt.
    Alt(char),
    /// F1 and so on.
    Function(u8),
    Named(NamedKey),
    /// A named key with Shift.
    Shift(NamedKey),
    /// A named key with Ctrl.
    ControlNamed(NamedKey),
}

table! {
    /// A key with a name.
    pub enum NamedKey {
        Up = "Up",
        Down = "Down",
        Left = "Left",
        Right = "Right",
        PageUp = "PgUp",
        PageDown = "PgDn",
        Home = "Home",
        End = "End",
        Enter = "Enter",
        Escape = "Esc",
        Tab = "Tab",
        Backspace = "Backspace",
        Delete = "Del",
        Insert = "Ins",
    }
    const ALL;
    fn name -> &'static str;
}

impl NamedKey {
    fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|named| named.name().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Letter(' ') => f.write_str("Space"),
            Self::Letter(letter) => write!(f, "{letter}"),
            Self::Control(letter) => write!(f, "Ctrl-{}", letter.to_ascii_uppercase()),
            Self::Alt(letter) => write!(f, "Alt-{letter}"),
            Self::Function(number) => write!(f, "F{number}"),
            Self::Named(named) => f.write_str(named.name()),
            Self::Shift(named) => write!(f, "Shift-{}", named.name()),
            Self::ControlNamed(named) => write!(f, "Ctrl-{}", named.name()),
        }
    }
}

/// The text names no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a key; write for example x, Space, F5, Ctrl-L, Alt-x, Shift-Tab, PgUp")]
pub struct KeyParseError(String);

impl FromStr for Key {
    type Err = KeyParseError;

    fn from_str(text: &str) -> Result<Self, KeyParseError> {
        Self::parse(text).ok_or_else(|| KeyParseError(text.chars().take(40).collect()))
    }
}

impl Key {
    fn parse(text: &str) -> Option<Self> {
        if let Some(letter) = only_letter(text) {
            return Some(Self::Letter(letter));
        }
        if text.eq_ignore_ascii_case("space") {
            return Some(Self::Letter(' '));
        }
        if let Some((front, rest)) = text.split_once('-') {
            return match front.to_ascii_lowercase().as_str() {
                "ctrl" => only_letter(rest)
                    .map(|letter| Self::Control(letter.to_ascii_lowercase()))
                    .or_else(|| NamedKey::of(rest).map(Self::ControlNamed)),
                "alt" => only_letter(rest).map(Self::Alt),
                "shift" => NamedKey::of(rest).map(Self::Shift),
                _ => None,
            };
        }
        let number = text.strip_prefix(['F', 'f']).and_then(|number| number.parse().ok());
        if let Some(number) = number.filter(|number| (1..=24).contains(number)) {
            return Some(Self::Function(number));
        }
        NamedKey::of(text).map(Self::Named)
    }
}

/// Keys with a short form.
const ARROWS: [(Key, &str); 4] = [
    (Key::Named(NamedKey::Up), "↑"),
    (Key::Named(NamedKey::Down), "↓"),
    (Key::Named(NamedKey::Left), "←"),
    (Key::Named(NamedKey::Right), "→"),
];

impl Key {
    /// Returns its short form, as hints have it.
    pub(crate) fn short_text(self) -> String {
        let arrow = ARROWS.into_iter().find(|(arrow, _)| *arrow == self);
        arrow.map_or_else(|| self.to_string(), |(_, text)| text.to_owned())
    }

    /// Returns the key of a short form.
    pub(crate) fn of_short_text(text: &str) -> Option<Self> {
        let arrow = ARROWS.into_iter().find(|(_, arrow)| *arrow == text);
        arrow.map_or_else(|| text.parse().ok(), |(key, _)| Some(key))
    }
}

/// Returns the character of a text that is one printable character.
fn only_letter(text: &str) -> Option<char> {
    let mut letters = text.chars();
    letters.next().filter(|letter| letters.next().is_none() && !is_unprintable(*letter))
}

/// The target of a click.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Click {
    /// The tab of a view.
    View(View),
    /// The row at this index of the list; a second click opens it.
    Row(usize),
    /// The cell at this row and cell index of the heat map; a second click opens it.
    Cell(usize, usize),
    /// The title of the column with this name: sorts by it; a second click inverts the order.
    Column(&'static str),
    /// This moment of the recording.
    Time(Timestamp),
    /// The hint of a key, which does what the key does.
    Key(Key),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_parse_back_from_their_text() {
        for (written, key) in [
            ("x", Key::Letter('x')),
            ("-", Key::Letter('-')),
            ("Space", Key::Letter(' ')),
            ("F12", Key::Function(12)),
            ("Ctrl-L", Key::Control('l')),
            ("Alt-J", Key::Alt('J')),
            ("Shift-Tab", Key::Shift(NamedKey::Tab)),
            ("PgDn", Key::Named(NamedKey::PageDown)),
            ("Ctrl-Left", Key::ControlNamed(NamedKey::Left)),
        ] {
            assert_eq!(written.parse(), Ok(key));
            assert_eq!(key.to_string(), written);
        }
        for wrong in
            ["", "F0", "F25", "Hyper-x", "Ctrl-", "Ctrl-ab", "Alt-Left", "Enterr", "Shift-x"]
        {
            assert!(wrong.parse::<Key>().is_err(), "{wrong}");
        }
    }
}
