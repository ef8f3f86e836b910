//! The help page: the signs and columns of the view, then all keys.

use super::{BoundKeys, Keymap, keys_text};
use crate::insight::note_meaning::meaning_of;
use crate::ui::filter_prompt::syntax;
use crate::ui::theme::Palette;
use crate::ui::widgets::column_spec::ColumnGroup;
use crate::ui::widgets::line::wrap;
use crate::ui::{Line, Tone, View};

/// Width from which the help page has two columns.
const TWO_COLUMN_WIDTH: u16 = 110;
/// Columns for keys, signs and titles.
const KEY_WIDTH: u16 = 13;

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

/// What the help page is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HelpSubject<'a> {
    pub(crate) view: View,
    pub(crate) palette: Palette,
    /// The columns of the view's tables.
    pub(crate) columns: &'a [ColumnGroup],
}

/// Returns the help page: the signs of the view, its columns and its keys come first.
pub(crate) fn page(keys: &Keymap, subject: &HelpSubject<'_>, width: u16) -> Vec<Line> {
    let HelpSubject { view, palette, columns } = *subject;
    let is_narrow = width < TWO_COLUMN_WIDTH;
    let column = if is_narrow { width } else { (width / 2).saturating_sub(1) };
    let section = |wanted: Option<View>| section(keys, wanted, column);
    let mut sections = vec![symbol_lines(view, palette, column)];
    sections.extend(columns.iter().map(|group| column_lines(group, column)));
    // Behind the view's own columns, all of which then stand on the first two pages of a small screen.
    sections.insert(sections.len().min(2), flag_lines(view, column));
    let mut left = joined(sections);
    let others = View::ALL.into_iter().filter(|other| *other != view).map(Some);
    let own_keys = [Some(view), None].into_iter().map(section);
    let mut right = joined(own_keys.chain(std::iter::once(syntax::help_lines(column))));
    let mut others = others.map(section).filter(|lines| !lines.is_empty());
    if is_narrow {
        return joined([left, right].into_iter().chain(others));
    }
    // Keys of the other views fill the shorter column.
    for lines in &mut others {
        let shorter = if left.len() < right.len() { &mut left } else { &mut right };
        *shorter = joined([std::mem::take(shorter), lines]);
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

/// Joins sections with an empty line between two.
fn joined(sections: impl IntoIterator<Item = Vec<Line>>) -> Vec<Line> {
    let mut lines = Vec::new();
    for section in sections.into_iter().filter(|section| !section.is_empty()) {
        if !lines.is_empty() {
            lines.push(Line::new());
        }
        lines.extend(section);
    }
    lines
}

/// Explains the columns of a table, each from its declaration.
fn column_lines((heading, columns): &ColumnGroup, width: u16) -> Vec<Line> {
    let title = Line::styled(*heading, Tone::Strong);
    let entries = columns.iter().filter(|column| !column.title.is_empty()).flat_map(|column| {
        let titles: Vec<&str> =
            std::iter::once(column.title).chain(column.other_titles.iter().copied()).collect();
        entry((&titles.join(" "), Tone::Strong), column.help, width)
    });
    std::iter::once(title).chain(entries).collect()
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
    let keys = wrap(key_text, KEY_WIDTH, usize::MAX);
    let part = |of: &[String], at: usize| of.get(at).cloned().unwrap_or_default();
    let line = |at: usize| {
        let key = Line::new().gap(2).left_aligned(&part(&keys, at), KEY_WIDTH, tone);
        key.gap(1).text(part(&texts, at), Tone::Plain)
    };
    (0..keys.len().max(texts.len())).map(line).collect()
}

/// A sign or a word on the screen.
struct Sign {
    text: &'static str,
    tone: Tone,
    meaning: &'static str,
    /// The views that use it.
    views: &'static [View],
}

/// Explains the signs and colours that a view uses.
fn symbol_lines(view: View, palette: Palette, width: u16) -> Vec<Line> {
    let load = Line::new()
        .gap(2)
        .text("low", Tone::Low)
        .gap(1)
        .text("mid", Tone::Mid)
        .gap(1)
        .text("high", Tone::High)
        .gap(2)
        .text(palette.legend(), Tone::Plain);
    let title = Line::styled(format!("Signs and colours in {}", view.title()), Tone::Strong);
    let has_load = WITH_DEVICES.contains(&view);
    let used = SIGNS.iter().filter(|sign| sign.views.contains(&view));
    let entries = used.flat_map(|sign| entry((sign.text, sign.tone), sign.meaning, width));
    std::iter::once(title).chain(Some(load).filter(|_| has_load)).chain(entries).collect()
}

/// Explains the flags of devices, if the view has devices.
fn flag_lines(view: View, width: u16) -> Vec<Line> {
    if !WITH_DEVICES.contains(&view) {
        return Vec::new();
    }
    let entries = FLAGS.iter().flat_map(|(flag, tone)| {
        let meaning = meaning_of(flag).map_or("", |known| known.meaning);
        entry((flag, *tone), meaning, width)
    });
    std::iter::once(Line::styled("Flags of devices", Tone::Strong)).chain(entries).collect()
}

const WITH_DEVICES: &[View] = &[View::Fleet, View::Job, View::Node];
const WITH_STATES: &[View] = &[View::Fleet, View::Job, View::Node, View::Events];
const WITH_VALUES: &[View] =
    &[View::Fleet, View::Job, View::Node, View::Processes, View::Users, View::Runs];

/// The flags of devices; what they mean is declared with the notes.
const FLAGS: [(&str, Tone); 4] =
    [("!THERM", Tone::Warn), ("!PWR", Tone::Warn), ("!SLOW", Tone::Warn), ("ECC:N", Tone::Bad)];

const fn sign(
    text: &'static str,
    tone: Tone,
    meaning: &'static str,
    views: &'static [View],
) -> Sign {
    Sign { text, tone, meaning, views }
}

const SIGNS: [Sign; 12] = [
    sign("busy", Tone::Strong, "a device that is doing work", &[View::Fleet, View::Users]),
    sign(
        "▒ idle-held",
        Tone::Strong,
        "a job has it, or processes use 256 MiB of it; below 5% now",
        &[View::Fleet, View::Users],
    ),
    sign("free", Tone::Strong, "a device that nobody uses", &[View::Fleet]),
    sign(
        "unavailable",
        Tone::Warn,
        "free, on a node that Slurm gives no jobs, such as a drained one",
        &[View::Fleet],
    ),
    sign(
        "✗",
        Tone::Bad,
        "faulty: a node that is down, a device that reports no values",
        WITH_STATES,
    ),
    sign("!", Tone::Warn, "warning: stale, throttled, or a failing source", WITH_STATES),
    sign("–", Tone::Faint, "unknown; i on the row says why", WITH_VALUES),
    sign("grey", Tone::Stale, "old values; AGE shows how old", WITH_VALUES),
    sign("▾ ▸", Tone::Accent, "a group of nodes, unfolded or folded", &[View::Fleet]),
    sign("+ -", Tone::Faint, "a row that Enter unfolds, or that is", &[View::Users, View::Events]),
    sign("*", Tone::Accent, "a tagged process", &[View::Processes]),
    sign("=", Tone::Accent, "another row of the process under the cursor", &[View::Processes]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::SpanContent;

    #[test]
    fn the_legend_describes_the_palette() {
        for palette in Palette::ALL {
            let legend = symbol_lines(View::Fleet, palette, 80);
            let texts = legend.iter().flat_map(|line| &line.spans);
            let is_meaning =
                |kind: &SpanContent| *kind == SpanContent::Text(palette.legend().to_owned());
            assert!(texts.into_iter().any(|piece| is_meaning(&piece.content)), "{palette:?}");
        }
    }

    #[test]
    fn a_long_description_wraps() {
        let lines = entry(("b", Tone::Accent), "what the map shows", 25);
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
            let subject = HelpSubject { view, palette: Palette::Dark, columns: &[] };
            let page = |width| page(&keys, &subject, width);
            assert!(page(80).len() > count);
            assert!(page(160).len() < page(80).len());
        }
    }
}
