//! The help page: the signs and columns that are on the screen, the keys of the view, then those of all views.

use std::collections::BTreeSet;

use crate::action::Action;
use crate::filter_prompt::syntax;
use crate::help::signs::{HelpSubject, entry};
use crate::input::{Key, NamedKey};
use crate::keymap::Keymap;
use crate::view::View;
use crate::widgets::column_spec::ColumnGroup;
use crate::widgets::line::{Line, Tone};
use crate::widgets::list::Movement;
use crate::widgets::scroll::Scroll;
use crate::widgets::search::{SearchPrompt, SearchStep};

pub(crate) mod signs;

/// Width from which the help page has two columns.
const TWO_COLUMN_WIDTH: u16 = 110;

/// The open help page.
#[derive(Clone, Debug, Default)]
pub(crate) struct HelpPage {
    scroll: Scroll,
    /// The screen that it explains, which stays the same while it is read.
    of: Option<ScreenKind>,
    lines: Vec<Line>,
    search: SearchPrompt,
    /// The line of the match that was found last, until the user moves away from it.
    hit: Option<usize>,
}

/// The view and the size of a screen.
pub(crate) type ScreenKind = (View, (u16, u16));

impl HelpPage {
    /// Returns true if it explains such a screen.
    pub(crate) fn is_of(&self, screen: ScreenKind) -> bool {
        self.of == Some(screen)
    }

    /// Keeps the lines that explain such a screen.
    pub(crate) fn record(&mut self, screen: ScreenKind, lines: Vec<Line>) {
        (self.of, self.lines, self.hit) = (Some(screen), lines, None);
    }

    /// Returns true while a search is typed.
    pub(crate) const fn is_typing(&self) -> bool {
        self.search.is_typing()
    }

    /// Handles a key of a search; returns what to tell of it, or `None` if the key is another one.
    pub(crate) fn search(&mut self, key: Key) -> Option<String> {
        let is_left = key == Key::Named(NamedKey::Escape) && !self.is_typing();
        if is_left && !self.search.pattern.is_empty() {
            (self.search, self.hit) = (SearchPrompt::default(), None);
            return Some(String::new());
        }
        match self.search.on_key(key)? {
            SearchStep::Handled => Some(String::new()),
            SearchStep::Find { is_backwards } => Some(self.find(is_backwards)),
        }
    }

    /// Scrolls to the next line with a match, around the end once.
    fn find(&mut self, is_backwards: bool) -> String {
        let start = match self.hit {
            Some(hit) => hit + usize::from(!is_backwards),
            None => self.scroll.top,
        };
        let (before, after) = (0..start, start..self.lines.len());
        let rows: Vec<usize> = if is_backwards {
            after.rev().chain(before).rev().collect()
        } else {
            after.chain(before).collect()
        };
        let matches =
            |row: &&usize| self.lines.get(**row).is_some_and(|line| self.search.matches(line));
        let Some(row) = rows.iter().find(matches).copied() else { return self.search.not_found() };
        (self.hit, self.scroll.top) = (Some(row), row);
        let has_wrapped = (row < start) != is_backwards;
        if has_wrapped { SearchPrompt::wrapped(is_backwards) } else { String::new() }
    }

    /// Scrolls, a page being so many rows.
    pub(crate) fn scroll(&mut self, movement: Movement, page: usize) {
        self.hit = None;
        self.scroll.step(movement, page);
    }

    /// Scrolls no further than to the last line, of which so many fit.
    pub(crate) fn fit(&mut self, rows: usize) {
        self.scroll.fit(self.lines.len(), rows);
    }

    /// Draws the visible lines, with matches marked, and the prompt below them.
    pub(crate) fn visible(&self, width: u16, rows: usize) -> Vec<Line> {
        let lines = self.scroll.visible(self.lines.clone(), rows).into_iter();
        let mut lines: Vec<Line> =
            lines.map(|line| self.search.marked(line).truncated(width)).collect();
        if let Some(prompt) = self.search.line(width) {
            lines.resize(rows.saturating_sub(1), Line::new());
            lines.push(prompt);
        }
        lines
    }

    pub(crate) fn hints(&self) -> Vec<(String, &'static str)> {
        let hints = match (self.is_typing(), self.search.pattern.is_empty()) {
            (true, _) => SearchPrompt::TYPING_HINTS,
            (false, true) => &[("↑ ↓ PgUp PgDn", "scroll"), ("/", "search"), ("Esc", "close")],
            (false, false) => {
                &[("↑ ↓ PgUp PgDn", "scroll"), ("/ n N", "search"), ("Esc", "end search")]
            }
        };
        hints.iter().map(|(key, meaning)| ((*key).to_owned(), *meaning)).collect()
    }
}

/// Returns the help page: the signs on the screen, the columns there and the keys of the view come first.
pub(crate) fn page(keys: &Keymap, subject: &HelpSubject<'_>, width: u16) -> Vec<Line> {
    let HelpSubject { view, columns, .. } = *subject;
    let is_narrow = width < TWO_COLUMN_WIDTH;
    let column = if is_narrow { width } else { (width / 2).saturating_sub(1) };
    let explain_key = keys.key_text_of("explain").unwrap_or_else(|| "i".to_owned());
    let mut sections = vec![signs::lines(subject, column)];
    let mut explained = BTreeSet::new();
    let groups = columns.iter();
    sections.extend(groups.map(|group| column_lines(group, subject, &mut explained, column)));
    // Behind the view's own columns.
    sections.insert(sections.len().min(2), signs::flag_lines(subject, column));
    sections.push(signs::reason_lines(subject, &explain_key, column));
    sections.push(signs::explanation_lines(view, &explain_key, column));
    let of_view = key_lines(keys, subject, Some(view), column);
    let everywhere = key_lines(keys, subject, None, column);
    let filter_key = keys.key_text_of("filter").unwrap_or_else(|| "/".to_owned());
    let filter = syntax::help_lines(&filter_key, column);
    if is_narrow {
        return joined(sections.into_iter().chain([of_view, filter, everywhere]));
    }
    let mut left = joined(sections.into_iter().chain([filter]));
    let mut right = joined([of_view, everywhere]);
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

/// Explains the columns of a table that are on the screen, each from its declaration and none twice.
fn column_lines(
    (heading, columns): &ColumnGroup,
    subject: &HelpSubject<'_>,
    explained: &mut BTreeSet<(String, &'static str)>,
    width: u16,
) -> Vec<Line> {
    let mut lines = Vec::new();
    for column in columns {
        let Some(title) = subject.shown.title_of(column).filter(|title| !title.is_empty()) else {
            continue;
        };
        if explained.insert((title.to_owned(), column.help)) {
            lines.extend(entry((title, Tone::Strong), column.help, width));
        }
    }
    if !lines.is_empty() {
        lines.insert(0, Line::styled(*heading, Tone::Strong));
    }
    lines
}

/// Lists the keys of a view, or those of all views, without those of what is not there.
fn key_lines(
    keys: &Keymap,
    subject: &HelpSubject<'_>,
    wanted: Option<View>,
    width: u16,
) -> Vec<Line> {
    let heading =
        wanted.map_or("Keys everywhere".to_owned(), |view| format!("Keys in {}", view.title()));
    let mut lines = vec![Line::styled(heading, Tone::Strong)];
    for (keys, binding) in keys.bound_in(wanted) {
        if (subject.is_recorded || !binding.action.is_of_player())
            && (subject.has_runs || binding.action != Action::Show(View::Runs))
        {
            lines.extend(entry((&keys, Tone::Accent), binding.help, width));
        }
    }
    if lines.len() == 1 { Vec::new() } else { lines }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::help::signs::ShownSigns;
    use crate::key_scheme::KeyScheme;
    use crate::theme::{ColourDepth, GlyphSet, Palette, Theme};
    use crate::widgets::line::{SpanContent, Symbol};
    use gtop_fleet::settings::ColumnSpec;

    const DARK: Theme = Theme {
        palette: Palette::Dark,
        depth: ColourDepth::Indexed256,
        glyphs: GlyphSet::Unicode,
        is_colorful: false,
    };

    fn subject(view: View, shown: &ShownSigns) -> HelpSubject<'_> {
        HelpSubject {
            view,
            theme: DARK,
            columns: &[],
            shown,
            scheduler: "the scheduler",
            has_runs: true,
            is_recorded: true,
        }
    }

    #[test]
    fn only_signs_and_columns_on_the_screen_are_explained_and_none_twice() {
        let column = ColumnSpec::new("util", "UTIL", "", "mean utilization");
        let other = ColumnSpec::new("mem", "GiB", "", "memory");
        let text = |line: Line, text: &str| line.text(text, Tone::Plain);
        let lines = [
            text(Line::new(), "UTIL   %").titles(column, "UTIL   %"),
            Line::new().strip(vec![(Symbol::Char('▒'), Tone::Plain)], 1),
            text(Line::new(), "#4 !THERM"),
        ];
        let shown = ShownSigns::of(&lines);
        let groups = [("Columns of nodes", vec![column, other]), ("Columns of jobs", vec![column])];
        let subject = HelpSubject { columns: &groups, ..subject(View::Fleet, &shown) };
        let page = page(&Keymap::default(), &subject, 80);
        let page: Vec<String> = page.iter().map(Line::plain_text).collect();
        let count = |text: &str| page.iter().filter(|line| line.contains(text)).count();
        assert_eq!(["UTIL %", "mean utilization", "▒ idle-held", "!THERM"].map(count), [1; 4]);
        assert_eq!(["GiB", "Columns of jobs", "!PWR", "grey", "▾ ▸  "].map(count), [0; 5]);
    }

    #[test]
    fn keys_of_what_is_not_there_are_left_out() {
        let shown = ShownSigns::default();
        let count = |has_runs, is_recorded| {
            let subject = HelpSubject { has_runs, is_recorded, ..subject(View::Fleet, &shown) };
            let page = page(&Keymap::default(), &subject, 80);
            let page: Vec<String> = page.iter().map(Line::plain_text).collect();
            let count = |text: &str| page.iter().filter(|line| line.contains(text)).count();
            (count("training runs"), count("recording: play"))
        };
        assert_eq!(count(true, true), (1, 1));
        assert_eq!(count(false, false), (0, 0));
    }

    #[test]
    fn the_help_of_filters_names_the_key_of_the_scheme() {
        let shown = ShownSigns::default();
        for (scheme, key) in [
            (KeyScheme::Gtop, "/"),
            (KeyScheme::Htop, "/"),
            (KeyScheme::Nvtop, "/"),
            (KeyScheme::Nvitop, "F4"),
        ] {
            let keys = Keymap::default().with_scheme(scheme);
            let page = page(&keys, &subject(View::Fleet, &shown), 80);
            let title = format!("Filter: {key} and then");
            assert!(page.iter().any(|line| line.plain_text() == title), "{scheme:?}");
        }
    }

    #[test]
    fn the_legend_describes_the_palette() {
        let shown = ShownSigns::of(&[Line::new().bar(Some(50.0), 4, Tone::Mid)]);
        for palette in Palette::ALL {
            let theme = Theme { palette, ..DARK };
            let legend = signs::lines(&HelpSubject { theme, ..subject(View::Fleet, &shown) }, 80);
            let is_meaning = |line: &Line| line.plain_text().contains(theme.legend());
            assert!(legend.iter().any(is_meaning), "{palette:?}");
        }
    }

    #[test]
    fn no_heading_stands_alone() {
        let shown = ShownSigns::default();
        for view in View::ALL {
            for width in [80, 200] {
                let page = page(&Keymap::default(), &subject(view, &shown), width);
                let texts: Vec<String> = page.iter().map(Line::plain_text).collect();
                for (line, next) in texts.iter().zip(texts.iter().skip(1)) {
                    let is_heading = !line.trim().is_empty() && !line.starts_with(' ');
                    assert!(!is_heading || next.starts_with("  "), "{view:?}: {line}");
                }
            }
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
        let visible = |top, rows| {
            let mut scroll = Scroll { top };
            scroll.fit(30, rows);
            let lines = scroll.visible(page(), rows);
            let last = lines.last().and_then(|line| line.spans.first());
            (lines.len(), scroll.top, last.map(|span| span.content.clone()))
        };
        let text = |text: &str| Some(SpanContent::Text(text.to_owned()));
        assert_eq!(visible(0, 10), (10, 0, text("  ↓ 21 more lines")));
        assert_eq!(visible(500, 10), (10, 20, text("29")));
        assert_eq!(visible(5, 60), (30, 0, text("29")));
        assert_eq!(visible(5, 0), (0, 5, None));
    }

    #[test]
    fn help_lists_every_binding_of_the_view_and_of_all_views() {
        let keys = Keymap::default();
        let shown = ShownSigns::default();
        for view in View::ALL {
            let subject = subject(view, &shown);
            let page = |width| page(&keys, &subject, width);
            let bound = keys.bound_in(Some(view)).chain(keys.bound_in(None));
            let text: String = page(400).iter().map(Line::plain_text).collect();
            for (_, binding) in bound {
                assert!(text.contains(binding.help), "{view:?}: {}", binding.help);
            }
            assert!(page(160).len() < page(80).len());
        }
    }
}
