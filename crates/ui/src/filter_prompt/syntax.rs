//! How filters are written: a section of the help page, and hints while one is typed.

use crate::widgets::key_hint::hint;
use crate::widgets::line::{Line, Tone, wrap};

/// Columns for examples.
const EXAMPLE_WIDTH: u16 = 13;

/// Each form of a filter and what it matches.
const FORMS: [(&str, &str); 11] = [
    ("a b", "both, on the same device and process; also a and b"),
    ("a or b", "one of them; binds less than a space"),
    ("not a", "devices on which nothing matches a; also !a"),
    ("(a or b) c", "parentheses group"),
    ("util<10", "compares a field: < <= > >= = !=, with units: mem>50% left<1h"),
    ("user=al*", "the whole text, * for any part; jobname~train for a part"),
    ("partition=x", "of the job; of the node, where a device has no job"),
    ("util=unknown", "unknown values; no other comparison matches them"),
    ("alice", "a name that contains it: node, model, user, command or job"),
    (
        "free",
        "as the lines at the top count: busy idle-held in-use free faulty stale unavailable unknown, fresh connecting down reported",
    ),
    ("\"free\"", "in quotes: the name, not the state or operator"),
];

/// Returns the section of the help page; `key` opens the prompt.
pub(crate) fn help_lines(key: &str, width: u16) -> Vec<Line> {
    let mut lines = vec![Line::styled(format!("Filter: {key} and then"), Tone::Strong)];
    for (mut example, meaning) in FORMS {
        for text in wrap(meaning, width.saturating_sub(EXAMPLE_WIDTH + 3), usize::MAX) {
            let line = Line::new().gap(2).left_aligned(example, EXAMPLE_WIDTH, Tone::Accent);
            lines.push(line.gap(1).text(text, Tone::Plain));
            example = "";
        }
    }
    lines
}

/// Returns the hints of the prompt, the most useful first: keys, then forms.
pub(super) fn hints(has_recent: bool) -> [Vec<Line>; 2] {
    let recent = has_recent.then_some(("↑", "recent"));
    let keys = [("Tab", "lists"), ("Enter", "applies"), ("Esc", "cancels")];
    let forms = [
        "util<10 user=alice",
        "a or b",
        "not a",
        "(a or b) c",
        "mem>50%",
        "jobname~train",
        "node=gpu0*",
        "util=unknown",
        "\"free\" is a name",
    ];
    let keys = keys.into_iter().chain(recent).map(|key| hint(&key));
    [keys.collect(), forms.map(|form| Line::styled(form, Tone::Faint)).into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_fleet::query::Filter;
    use gtop_fleet::{DeviceState, NodeCount};

    #[test]
    fn every_form_in_the_help_and_the_hints_is_a_filter() {
        for word in DeviceState::ALL
            .map(DeviceState::name)
            .into_iter()
            .chain(NodeCount::ALL.map(NodeCount::name))
        {
            assert!(FORMS.iter().any(|(_, meaning)| meaning.contains(word)), "{word}");
        }
        for (form, meaning) in FORMS {
            assert!(Filter::new(form).is_ok(), "{form}");
            assert!(!meaning.ends_with('.'), "{meaning}");
        }
        for hint in &hints(false)[1] {
            assert!(Filter::new(&hint.plain_text()).is_ok(), "{hint:?}");
        }
        assert!(help_lines("/", 60).iter().all(|line| line.width() <= 60));
    }
}
