//! Hints of keys, which can be clicked.

use crate::input::{Click, Key};
use crate::widgets::line::{Line, Tone};

/// Draws a hint of one key or of several, which a click presses; one on the meaning presses the first of them.
pub(crate) fn hint<S: AsRef<str>>((keys, meaning): &(S, &str)) -> Line {
    let mut line = Line::new();
    let mut first = None;
    for text in keys.as_ref().split_inclusive(' ') {
        let key = Key::of_short_text(text.trim_end());
        line = with_key(line.text(text, Tone::Accent), key);
        first = first.or(key);
    }
    with_key(line.text(format!(" {meaning}"), Tone::Faint), first)
}

/// Makes the last span press a key, if it is of one.
fn with_key(line: Line, key: Option<Key>) -> Line {
    match key {
        Some(key) => line.clickable(Click::Key(key)),
        None => line,
    }
}
