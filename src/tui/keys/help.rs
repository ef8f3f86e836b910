//! The help page: every key, and what the signs mean.

use super::{Keymap, TABLES, signs};
use crate::tui::look::Theme;
use crate::view::{Line, Tone, View};

/// From this width on, help stands in two columns.
const WIDE: u16 = 110;

/// Returns the keys of the help page itself.
pub(crate) fn hints() -> Vec<(String, &'static str)> {
    vec![("↑ ↓".to_owned(), "scroll"), ("Esc".to_owned(), "close")]
}

/// Returns the page; the view one is in comes first.
pub(crate) fn page(keys: &Keymap, view: View, theme: Theme, width: u16) -> Vec<Line> {
    let part = |wanted: Option<View>| part(keys, wanted);
    let mut left = part(Some(view));
    if !left.is_empty() {
        left.push(Line::new());
    }
    left.extend(part(None));
    let mut right = Vec::new();
    for other in View::ALL.into_iter().filter(|other| *other != view) {
        let lines = part(Some(other));
        if !lines.is_empty() {
            right.extend(lines);
            right.push(Line::new());
        }
    }
    right.extend(meanings(theme));
    if width < WIDE {
        left.push(Line::new());
        left.extend(right);
        return left;
    }
    let rows = left.len().max(right.len());
    left.resize(rows, Line::new());
    right.resize(rows, Line::new());
    let half = width / 2;
    left.into_iter()
        .zip(right)
        .map(|(left, right)| {
            let left = left.cut(half.saturating_sub(1));
            let gap = half.saturating_sub(left.width());
            left.gap(gap).then(right)
        })
        .collect()
}

fn part(keys: &Keymap, wanted: Option<View>) -> Vec<Line> {
    let mut lines = vec![Line::of(wanted.map_or("Everywhere", View::title), Tone::Strong)];
    for (rows, (_, table)) in keys.keys.iter().zip(TABLES).filter(|(_, (own, _))| *own == wanted) {
        // What no key does, nobody needs to know.
        for (own, binding) in rows.iter().zip(table).filter(|(own, _)| !own.is_empty()) {
            let written = Line::new().gap(2).left(&signs(own), 12, Tone::Accent);
            lines.push(written.gap(1).text(binding.help, Tone::Plain));
        }
    }
    if lines.len() == 1 { Vec::new() } else { lines }
}

fn meanings(theme: Theme) -> Vec<Line> {
    let line = |(sign, tone, meaning): &(&str, Tone, &str)| {
        Line::new().gap(2).left(sign, 12, *tone).gap(1).text(*meaning, Tone::Plain)
    };
    let load = Line::new()
        .gap(2)
        .text("low", Tone::Low)
        .gap(1)
        .text("mid", Tone::Mid)
        .gap(1)
        .text("high", Tone::High)
        .gap(2)
        .text(theme.meaning(), Tone::Plain);
    let title = Line::of("Signs and colours", Tone::Strong);
    [title, load].into_iter().chain(SIGNS.iter().map(line)).collect()
}

const SIGNS: &[(&str, Tone, &str)] = &[
    ("✗", Tone::Bad, "broken: a node that is down, a device that gives no numbers"),
    ("!", Tone::Warn, "look here: stale, throttled, a source in trouble"),
    ("–", Tone::Faint, "not known; on the row under the cursor the last line says why"),
    ("grey", Tone::Faint, "old numbers; AGE says how old"),
    ("▒ idle-held", Tone::Plain, "held by a job, or 256 MiB by processes, and below 5% now"),
    ("!THERM", Tone::Warn, "slowed down by heat"),
    ("!PWR", Tone::Warn, "slowed down by the power supply"),
    ("ECC:N", Tone::Bad, "N uncorrected memory errors since the driver was loaded"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Kind;

    #[test]
    fn the_legend_says_what_the_colours_of_the_theme_mean() {
        for theme in Theme::ALL {
            let legend = meanings(theme);
            let texts = legend.iter().flat_map(|line| &line.pieces);
            let is_meaning = |kind: &Kind| *kind == Kind::Text(theme.meaning().to_owned());
            assert!(texts.into_iter().any(|piece| is_meaning(&piece.kind)), "{theme:?}");
        }
    }

    #[test]
    fn help_names_every_key() {
        let keys = Keymap::default();
        let count = Keymap::names().count();
        for view in View::ALL {
            let page = |width| page(&keys, view, Theme::Dark, width);
            assert!(page(80).len() > count);
            assert!(page(160).len() < page(80).len());
        }
    }
}
