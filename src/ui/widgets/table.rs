//! A table that keeps the columns of most worth: which fit, their titles, and their cells in each row.

use std::borrow::Cow;

use crate::ui::input::Click;
use crate::ui::widgets::column_spec::ColumnSpec;
use crate::ui::widgets::line::{Line, Tone};
use crate::ui::widgets::number_format::{or_unknown, percent};

/// One column: its declaration, its width and worth, and how its cells are drawn, for tables of what `C`
/// says of the whole table and `R` of one row.
pub(crate) struct TableColumn<C, R> {
    spec: ColumnSpec,
    alignment: Alignment,
    rank: u8,
    width: u16,
    /// Returns the width in the room that is left, 0 to hide the column; `None` if it is always the same.
    sized: Option<fn(&C, u16) -> u16>,
    min_table_width: u16,
    title: Option<fn(&C, u16) -> Cow<'static, str>>,
    keeps_tone: bool,
    cell: fn(&C, &R, u16) -> Cell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alignment {
    Left,
    Right,
    /// To the left, and neither cut nor padded if the column is the last.
    Rest,
}

/// The content of one cell.
pub(crate) enum Cell {
    /// Cut or padded to the column, and aligned as the column is.
    Text(Cow<'static, str>, Tone),
    Bar(Option<f32>, Tone),
    /// Cut or padded on the right.
    Line(Line),
}

impl Cell {
    /// Makes a cell of text in a tone.
    pub(crate) fn toned(text: impl Into<Cow<'static, str>>, tone: Tone) -> Self {
        Self::Text(text.into(), tone)
    }

    /// Makes a cell of a value, if it is known.
    pub(crate) fn of<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> Self {
        or_unknown(value, format).into()
    }

    /// Makes a cell of a percentage without the sign.
    pub(crate) fn percent(share: Option<f32>) -> Self {
        percent(share).into()
    }
}

impl<T: Into<Cow<'static, str>>> From<T> for Cell {
    /// Makes a cell of ordinary text.
    fn from(text: T) -> Self {
        Self::Text(text.into(), Tone::Plain)
    }
}

impl<C, R> TableColumn<C, R> {
    /// Declares a column of left-aligned text; its cells are drawn from the table, the row and their width.
    pub(crate) const fn left(
        title: &'static str,
        width: u16,
        cell: fn(&C, &R, u16) -> Cell,
    ) -> Self {
        Self {
            spec: ColumnSpec::new("", title, "", ""),
            alignment: Alignment::Left,
            rank: 0,
            width,
            sized: None,
            min_table_width: 0,
            title: None,
            keeps_tone: false,
            cell,
        }
    }

    /// Declares a column of right-aligned text.
    pub(crate) const fn right(
        title: &'static str,
        width: u16,
        cell: fn(&C, &R, u16) -> Cell,
    ) -> Self {
        Self { alignment: Alignment::Right, ..Self::left(title, width, cell) }
    }

    /// Declares a column that needs `width` and takes the rest of the row if it is the last.
    pub(crate) const fn rest(
        title: &'static str,
        width: u16,
        cell: fn(&C, &R, u16) -> Cell,
    ) -> Self {
        Self { alignment: Alignment::Rest, ..Self::left(title, width, cell) }
    }

    /// Names the column for settings, with the sort order that a click on its title selects and a description.
    pub(crate) const fn named(
        self,
        name: &'static str,
        sort: &'static str,
        help: &'static str,
    ) -> Self {
        Self { spec: ColumnSpec::new(name, self.spec.title, sort, help), ..self }
    }

    /// Makes the width depend on the table and the room that is left; 0 hides the column.
    pub(crate) const fn sized(self, width: fn(&C, u16) -> u16) -> Self {
        Self { sized: Some(width), ..self }
    }

    /// Gives the column room after those of a lower rank, if any is left; without a rank it is always shown.
    pub(crate) const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// Hides the column in tables of less than this width.
    pub(crate) const fn shown_from(self, min_table_width: u16) -> Self {
        Self { min_table_width, ..self }
    }

    /// Makes the title depend on the table and the width of the column.
    pub(crate) const fn titled(self, title: fn(&C, u16) -> Cow<'static, str>) -> Self {
        Self { title: Some(title), ..self }
    }

    fn width_in(&self, context: &C, table_width: u16, room: u16) -> u16 {
        match self.sized {
            _ if table_width < self.min_table_width => 0,
            Some(width) => width(context, room),
            None => self.width,
        }
    }

    /// Keeps the tone of the cells in rows of old values.
    pub(crate) const fn keeps_tone(self) -> Self {
        Self { keeps_tone: true, ..self }
    }
}

/// Returns the declarations of columns; those without a rank are fixed.
pub(crate) const fn specs<C, R, const N: usize>(
    columns: &[TableColumn<C, R>; N],
) -> [ColumnSpec; N] {
    let mut specs = [ColumnSpec::new("", "", "", ""); N];
    let (mut to, mut from) = (specs.as_mut_slice(), columns.as_slice());
    while let ([spec, next @ ..], [column, others @ ..]) = (to, from) {
        *spec = ColumnSpec { is_fixed: column.rank == 0, ..column.spec };
        (to, from) = (next, others);
    }
    specs
}

/// What of a row is secondary text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fade {
    None,
    /// The cells.
    Cells,
    /// The cells and the gaps between them, as in rows of old values.
    All,
}

impl Fade {
    pub(crate) const fn if_old(is_old: bool) -> Self {
        if is_old { Self::All } else { Self::None }
    }
}

/// The room of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableRoom {
    pub(crate) width: u16,
    /// The width of the mark in front of a row.
    pub(crate) mark: u16,
    /// The columns between two columns of the table.
    pub(crate) gap: u16,
}

/// A table whose columns are laid out.
pub(crate) struct Table<'c, C, R> {
    pub(crate) context: C,
    columns: &'c [TableColumn<C, R>],
    /// Indices and widths of the visible columns, from left to right.
    shown: Vec<(usize, u16)>,
    mark: u16,
    pub(crate) gap: u16,
    /// The width that no column has.
    pub(crate) spare: u16,
}

impl<'c, C, R> Table<'c, C, R> {
    /// Lays out the columns: always those without a rank, then the chosen ones from left to right as long as
    /// they fit; if none are chosen, all that fit, by rank.
    pub(crate) fn fit(
        columns: &'c [TableColumn<C, R>],
        context: C,
        chosen: &[String],
        room: TableRoom,
    ) -> Self {
        let TableRoom { width: table_width, mark, gap } = room;
        let is_fixed = |index: &usize| columns.get(*index).is_some_and(|column| column.rank == 0);
        let (fixed, mut ranked): (Vec<usize>, Vec<usize>) = (0..columns.len()).partition(is_fixed);
        // No gap is left before the first column.
        let mut spare = table_width.saturating_add(gap).saturating_sub(mark);
        let mut reserve = |index: usize| {
            let column = columns.get(index)?;
            let width = column.width_in(&context, table_width, spare.saturating_sub(gap));
            let fits = width > 0 && (column.rank == 0 || spare >= width + gap);
            spare = if fits { spare.saturating_sub(width + gap) } else { spare };
            fits.then_some((index, width))
        };
        let mut shown: Vec<(usize, u16)> = fixed.into_iter().filter_map(&mut reserve).collect();
        if chosen.is_empty() {
            ranked.sort_by_key(|index| columns.get(*index).map(|column| column.rank));
            shown.extend(ranked.into_iter().filter_map(reserve));
            shown.sort_unstable();
        } else {
            let wanted = |name: &String| {
                let is_wanted = |column: &TableColumn<C, R>| {
                    let is_named = column.spec.name == name && column.rank > 0;
                    is_named && column.width_in(&context, table_width, u16::MAX) > 0
                };
                columns.iter().position(is_wanted)
            };
            let leading = shown.iter().zip(0..).take_while(|((index, _), at)| index == at).count();
            let trailing = shown.split_off(leading);
            shown.extend(chosen.iter().filter_map(wanted).map_while(reserve));
            shown.extend(trailing);
        }
        Self { context, columns, shown, mark, gap, spare }
    }

    /// Widens a column, if it is visible, by some of the width that no column has.
    pub(crate) fn widen(&mut self, name: &str, by: u16) {
        let columns = self.columns;
        let is_named =
            |index: usize| columns.get(index).is_some_and(|column| column.spec.name == name);
        if let Some((_, width)) = self.shown.iter_mut().find(|(index, _)| is_named(*index)) {
            let by = by.min(self.spare);
            self.spare -= by;
            *width += by;
        }
    }

    /// Returns true if a visible column sorts rows by `order`.
    pub(crate) fn can_sort_by(&self, order: &str) -> bool {
        self.visible().any(|(column, _)| column.spec.sort == order)
    }

    fn visible(&self) -> impl Iterator<Item = (&'c TableColumn<C, R>, u16)> {
        let visible = self.shown.iter();
        visible.filter_map(|(index, width)| Some((self.columns.get(*index)?, *width)))
    }

    /// Draws the titles.
    pub(crate) fn titles(&self) -> Line {
        self.marked_titles(|_, title, _| (title, Tone::Faint))
    }

    /// Draws the titles as `mark` returns them for a column, its title and its width.
    pub(crate) fn marked_titles(
        &self,
        mark: impl Fn(&ColumnSpec, Cow<'static, str>, u16) -> (Cow<'static, str>, Tone),
    ) -> Line {
        self.joined(Line::new().gap(self.mark), false, |column, width, is_last| {
            let title = match column.title {
                Some(title) => title(&self.context, width),
                None => column.spec.title.into(),
            };
            let (title, tone) = mark(&column.spec, title, width);
            let line = column.fit_cell(Cell::Text(title, tone), width, is_last);
            let ColumnSpec { sort, .. } = column.spec;
            if sort.is_empty() { line } else { line.clickable(Click::Column(sort)) }
        })
    }

    /// Draws a row behind its mark.
    pub(crate) fn row(&self, mark: Line, row: &R, fade: Fade) -> Line {
        self.joined(mark, fade == Fade::All, |column, width, is_last| {
            let cell = (column.cell)(&self.context, row, width);
            let line = column.fit_cell(cell, width, is_last);
            if fade == Fade::None || column.keeps_tone { line } else { line.dimmed() }
        })
    }

    /// Joins the cells of all columns; a gap fades with the column behind it if `fades_gaps`.
    fn joined(
        &self,
        mark: Line,
        fades_gaps: bool,
        cell: impl Fn(&TableColumn<C, R>, u16, bool) -> Line,
    ) -> Line {
        let last = self.shown.len();
        self.visible().zip(1..).fold(mark, |line, ((column, width), at)| {
            let gap = Line::new().gap(if at == 1 { 0 } else { self.gap });
            let gap = if fades_gaps && !column.keeps_tone { gap.dimmed() } else { gap };
            line.append(gap).append(cell(column, width, at == last))
        })
    }
}

impl<C, R> TableColumn<C, R> {
    /// Draws a cell in a column of this width.
    fn fit_cell(&self, cell: Cell, width: u16, is_last: bool) -> Line {
        let has_rest = self.alignment == Alignment::Rest && is_last;
        match cell {
            Cell::Text(text, tone) if has_rest => Line::styled(text, tone),
            Cell::Text(text, tone) if self.alignment == Alignment::Right => {
                Line::new().right_aligned(&text, width, tone)
            }
            Cell::Text(text, tone) => Line::new().left_aligned(&text, width, tone),
            Cell::Bar(share, tone) => Line::new().bar(share, width, tone),
            Cell::Line(line) if has_rest => line,
            Cell::Line(line) => {
                let line = line.truncated(width);
                let missing = width.saturating_sub(line.width());
                line.gap(missing)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counts(u16);
    type CountColumn = TableColumn<Counts, u32>;

    const COLUMNS: [CountColumn; 5] = [
        CountColumn::left("NAME", 4, |_, _, _| "host".into()),
        CountColumn::right("LOAD", 5, |_, row, _| row.to_string().into())
            .named("load", "load", "")
            .rank(2),
        CountColumn::left("", 0, |_, _, _| Cell::Bar(Some(50.0), Tone::Mid))
            .named("bar", "load", "")
            .rank(1)
            .sized(|counts, _| counts.0)
            .titled(|counts, width| format!("{}/{width}", counts.0).into()),
        CountColumn::left("AGE", 3, |_, _, _| Cell::toned("1 s", Tone::Warn))
            .named("age", "", "")
            .rank(3)
            .keeps_tone(),
        CountColumn::rest("NOTE", 4, |_, _, _| "a long note".into()).named("note", "", ""),
    ];

    fn table(chosen: &[&str], bar: u16, width: u16) -> Table<'static, Counts, u32> {
        let chosen: Vec<String> = chosen.iter().map(|name| (*name).to_owned()).collect();
        Table::fit(&COLUMNS, Counts(bar), &chosen, TableRoom { width, mark: 1, gap: 1 })
    }

    #[test]
    fn columns_of_most_worth_stay_and_fixed_ones_always() {
        for (width, titles) in [
            (24, " NAME  LOAD 3/3 AGE NOTE"),
            (23, " NAME  LOAD 3/3 NOTE"),
            (19, " NAME 3/3 AGE NOTE"),
            (17, " NAME 3/3 NOTE"),
            (3, " NAME NOTE"),
        ] {
            assert_eq!(table(&[], 3, width).titles().plain_text(), titles, "{width}");
        }
        assert_eq!(table(&[], 0, 24).titles().plain_text(), " NAME  LOAD AGE NOTE");
    }

    #[test]
    fn chosen_columns_are_between_the_fixed_ones_and_the_rightmost_are_dropped() {
        let titles = |chosen: &[&str], width| table(chosen, 3, width).titles().plain_text();
        assert_eq!(titles(&["age", "load", "note"], 24), " NAME AGE  LOAD NOTE");
        assert_eq!(titles(&["load", "bar", "age"], 19), " NAME  LOAD NOTE");
        assert_eq!(specs(&COLUMNS).map(|spec| spec.is_fixed), [true, false, false, false, true]);
    }

    #[test]
    fn cells_are_aligned_and_keep_their_tone_if_declared() {
        let mut table = table(&[], 2, 31);
        table.widen("bar", 3);
        table.widen("none", 3);
        assert_eq!((table.titles().width(), table.spare), (26, 5));
        let line = table.row(Line::styled("!", Tone::Bad), &7, Fade::Cells);
        assert_eq!(line.plain_text(), "!host     7  1 s a long note");
        let tones = line.spans.iter().filter(|span| span.tone != Tone::Plain);
        let tones: Vec<Tone> = tones.map(|span| span.tone).collect();
        let faint = Tone::Faint;
        assert_eq!(tones, [Tone::Bad, faint, faint, faint, Tone::Warn, faint]);
        assert!(table.can_sort_by("load") && !table.can_sort_by("age"));
        assert_eq!(table.titles().click_at(8), Some(&Click::Column("load")));
    }
}
