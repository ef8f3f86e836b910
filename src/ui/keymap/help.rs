//! The help page: all keys, and the legend of colours and symbols.

use super::{BoundKeys, Keymap, keys_text};
use crate::ui::filter_prompt::syntax;
use crate::ui::theme::Palette;
use crate::ui::widgets::line::wrap;
use crate::ui::{Line, Tone, View};

/// Width from which the help page has two columns.
const TWO_COLUMN_WIDTH: u16 = 110;
/// Columns for keys and symbols.
const KEY_WIDTH: u16 = 12;

/// Returns the key hints of the help page.
pub(crate) fn hints() -> Vec<(String, &'static str)> {
    vec![("↑ ↓".to_owned(), "scroll"), ("Esc".to_owned(), "close")]
}

/// Returns the visible lines from line `top` on, and `top` limited so that the last line is at the bottom.
pub(crate) fn scroll_page(page: Vec<Line>, top: usize, rows: usize) -> (Vec<Line>, usize) {
    let top = top.min(page.len().saturating_sub(rows));
    let below = page.len().saturating_sub(top + rows);
    let mut shown: Vec<Line> = page.into_iter().skip(top).take(rows).collect();
    if below > 0
        && let Some(last) = shown.last_mut()
    {
        let hidden = below + 1;
        *last = Line::styled(format!("  ↓ {hidden} more lines"), Tone::Faint);
    }
    (shown, top)
}

/// Returns the help page; the current view's keys come first.
pub(crate) fn page(keys: &Keymap, view: View, palette: Palette, width: u16) -> Vec<Line> {
    let column = if width < TWO_COLUMN_WIDTH { width } else { (width / 2).saturating_sub(1) };
    let section = |wanted: Option<View>| section(keys, wanted, column);
    let mut left = section(Some(view));
    if !left.is_empty() {
        left.push(Line::new());
    }
    left.extend(section(None));
    let mut right = Vec::new();
    for other in View::ALL.into_iter().filter(|other| *other != view) {
        let lines = section(Some(other));
        if !lines.is_empty() {
            right.extend(lines);
            right.push(Line::new());
        }
    }
    right.extend(syntax::help_lines(column));
    right.push(Line::new());
    right.extend(legend(palette, column));
    if width < TWO_COLUMN_WIDTH {
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
            let left = left.truncated(half.saturating_sub(1));
            let gap = half.saturating_sub(left.width());
            left.gap(gap).append(right)
        })
        .collect()
}

fn section(keys: &Keymap, wanted: Option<View>, width: u16) -> Vec<Line> {
    let mut lines = vec![Line::styled(wanted.map_or("Everywhere", View::title), Tone::Strong)];
    // Unbound actions are left out.
    let shown = |bound: &&BoundKeys| bound.view == wanted && !bound.keys.is_empty();
    for BoundKeys { binding, keys, .. } in keys.bound.iter().filter(shown) {
        lines.extend(entry((&keys_text(keys), Tone::Accent), binding.help, width));
    }
    if lines.len() == 1 { Vec::new() } else { lines }
}

/// Returns the lines for one key or symbol.
fn entry((key_text, tone): (&str, Tone), meaning: &str, width: u16) -> Vec<Line> {
    let texts = wrap(meaning, width.saturating_sub(KEY_WIDTH + 3), usize::MAX);
    let first_column = std::iter::once(key_text).chain(std::iter::repeat(""));
    let line = |(key_text, text): (&str, String)| {
        Line::new().gap(2).left_aligned(key_text, KEY_WIDTH, tone).gap(1).text(text, Tone::Plain)
    };
    first_column.zip(texts).map(line).collect()
}

fn legend(palette: Palette, width: u16) -> Vec<Line> {
    let entry = |(key_text, tone, meaning): &(&'static str, Tone, &'static str)| {
        entry((key_text, *tone), meaning, width)
    };
    let load = Line::new()
        .gap(2)
        .text("low", Tone::Low)
        .gap(1)
        .text("mid", Tone::Mid)
        .gap(1)
        .text("high", Tone::High)
        .gap(2)
        .text(palette.legend(), Tone::Plain);
    let title = Line::styled("Symbols and colours", Tone::Strong);
    [title, load].into_iter().chain(LEGEND.iter().flat_map(entry)).collect()
}

const LEGEND: &[(&str, Tone, &str)] = &[
    ("busy", Tone::Strong, "a device that is doing work"),
    ("idle-held", Tone::Strong, "a device allocated to a job or process that does nothing"),
    ("free", Tone::Strong, "a device that nobody uses"),
    (
        "unavailable",
        Tone::Warn,
        "the same, on a node to which Slurm gives no jobs, such as a drained one",
    ),
    ("✗", Tone::Bad, "faulty: a node that is down, a device that reports no values"),
    ("!", Tone::Warn, "warning: stale, throttled, or a failing source"),
    ("–", Tone::Faint, "unknown; the last line gives the reason for the selected row"),
    ("grey", Tone::Stale, "stale values; AGE shows how old"),
    (
        "▒ idle-held",
        Tone::Plain,
        "allocated to a job, or 256 MiB used by processes, and below 5% now",
    ),
    ("!THERM", Tone::Warn, "thermal throttling"),
    ("!PWR", Tone::Warn, "power brake: slowed down by the power supply"),
    ("!SLOW", Tone::Warn, "hardware slowdown, reason not reported"),
    ("ECC:N", Tone::Bad, "N uncorrected memory errors since the driver was loaded"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::SpanContent;

    #[test]
    fn the_legend_describes_the_palette() {
        for palette in Palette::ALL {
            let legend = legend(palette, 80);
            let texts = legend.iter().flat_map(|line| &line.spans);
            let is_meaning =
                |kind: &SpanContent| *kind == SpanContent::Text(palette.legend().to_owned());
            assert!(texts.into_iter().any(|piece| is_meaning(&piece.content)), "{palette:?}");
        }
    }

    #[test]
    fn a_long_description_wraps() {
        let lines = entry(("b", Tone::Accent), "what the map shows", 24);
        let texts: Vec<&SpanContent> =
            lines.iter().filter_map(|line| Some(&line.spans.last()?.content)).collect();
        let expected = ["what the", "map shows"].map(|text| SpanContent::Text(text.to_owned()));
        assert_eq!(texts, expected.iter().collect::<Vec<_>>());
        for width in 0..200 {
            assert!(!entry(("b", Tone::Accent), "a word", width).is_empty());
        }
    }

    #[test]
    fn the_page_stops_at_its_end_and_counts_the_lines_below() {
        let page = || (0..30).map(|row| Line::styled(row.to_string(), Tone::Plain)).collect();
        let said = |top, rows| {
            let (shown, top) = scroll_page(page(), top, rows);
            let last =
                shown.last().and_then(|line| line.spans.first()).map(|one| one.content.clone());
            (shown.len(), top, last)
        };
        let text = |text: &str| Some(SpanContent::Text(text.to_owned()));
        assert_eq!(said(0, 10), (10, 0, text("  ↓ 21 more lines")));
        assert_eq!(said(500, 10), (10, 20, text("29")));
        assert_eq!(said(5, 60), (30, 0, text("29")));
        assert_eq!(said(5, 0), (0, 5, None));
    }

    #[test]
    fn help_lists_every_binding() {
        let keys = Keymap::default();
        let count = Keymap::names().count();
        for view in View::ALL {
            let page = |width| page(&keys, view, Palette::Dark, width);
            assert!(page(80).len() > count);
            assert!(page(160).len() < page(80).len());
        }
    }
}
