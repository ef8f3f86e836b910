//! A table that shows the most important columns that fit: their titles, and their cells in each row.

use std::borrow::Cow;
use std::ops::RangeBounds;
use std::time::Duration;

use crate::input::Click;
use crate::widgets::explanation::Fact;
use crate::widgets::line::{Line, Tone};
use crate::widgets::number_format::{device_time, or_unknown, percent};
use gtop_fleet::settings::ColumnSpec;
use gtop_local::text::{UNKNOWN, width_of};

/// The width in which a cell is written for an explanation.
const MAX_FACT_WIDTH: u16 = 60;
/// In narrower columns, titles that fill them are not cut for an arrow.
const MIN_ARROW_WIDTH: u16 = 3;

/// One column: its declaration, its width and rank, and how its cells are drawn, from the whole table `C` and
/// one row `R`.
pub(crate) struct TableColumn<C, R> {
    spec: ColumnSpec,
    alignment: Alignment,
    rank: u8,
    width: u16,
    /// Returns the width in the width that is left, 0 to hide the column; `None` if it is constant.
    sized: Option<WidthIn<C>>,
    min_table_width: u16,
    /// The rank after which it is widened, and by how much in the width that is left.
    wider: Option<(u8, WidthIn<C>)>,
    title: Option<fn(&C, u16) -> Cow<'static, str>>,
    keeps_tone: bool,
    cell: CellOf<C, R>,
}

/// Returns a width, given the width that is left.
type WidthIn<C> = fn(&C, u16) -> u16;
type CellOf<C, R> = fn(&C, &R, CellPlace) -> Cell;

/// Where a cell is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellPlace {
    /// The name of the column.
    pub(crate) name: &'static str,
    pub(crate) width: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alignment {
    Left,
    Right,
    /// To the left, and neither cut nor padded if the column is the last.
    Rest,
}

/// Device time from which waste is marked.
const WASTE_WARNING: Duration = Duration::from_secs(600);

/// The content of one cell.
pub(crate) enum Cell {
    /// Cut or padded to the column, and aligned as the column is.
    Text(Cow<'static, str>, Tone),
    Bar(Option<f32>, Tone),
    /// Cut or padded on the right.
    Line(Line),
}

impl Cell {
    pub(crate) fn toned(text: impl Into<Cow<'static, str>>, tone: Tone) -> Self {
        Self::Text(text.into(), tone)
    }

    /// Makes a cell of a value, if it is known.
    pub(crate) fn of<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> Self {
        or_unknown(value, format).into()
    }

    /// Makes a cell of a percentage without the sign.
    /// Shows device time that is held and idle, marked from ten minutes on.
    pub(crate) fn wasted(time: Duration) -> Self {
        let tone = if time >= WASTE_WARNING { Tone::Warn } else { Tone::Plain };
        Self::Text(device_time(time).into(), tone)
    }

    /// Makes the cell of a count, faint if it is zero.
    pub(crate) fn count(count: Option<usize>, tone: Tone) -> Self {
        match count {
            None => UNKNOWN.into(),
            Some(0) => Self::toned("0", Tone::Faint),
            Some(count) => Self::toned(count.to_string(), tone),
        }
    }

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
    pub(crate) const fn left(title: &'static str, width: u16, cell: CellOf<C, R>) -> Self {
        Self {
            spec: ColumnSpec::titled(title),
            alignment: Alignment::Left,
            rank: 0,
            width,
            sized: None,
            min_table_width: 0,
            wider: None,
            title: None,
            keeps_tone: false,
            cell,
        }
    }

    /// Declares a column of right-aligned text, or of graphs over time, whose newest end is on the right.
    pub(crate) const fn right(title: &'static str, width: u16, cell: CellOf<C, R>) -> Self {
        Self { alignment: Alignment::Right, ..Self::left(title, width, cell) }
    }

    /// Declares a column that needs `width` and takes the rest of the row if it is the last.
    pub(crate) const fn rest(title: &'static str, width: u16, cell: CellOf<C, R>) -> Self {
        Self { alignment: Alignment::Rest, ..Self::left(title, width, cell) }
    }

    /// Returns the declaration of the column; without a rank it is fixed.
    pub(crate) const fn spec(&self) -> ColumnSpec {
        ColumnSpec { is_fixed: self.rank == 0, ..self.spec }
    }

    /// Names the column for settings, with the sort order that a click on its title selects and a description.
    pub(crate) const fn named(
        self,
        name: &'static str,
        sort: &'static str,
        help: &'static str,
    ) -> Self {
        Self { spec: ColumnSpec { name, sort, help, ..self.spec }, ..self }
    }

    /// Makes the width depend on the table and the width that is left; 0 hides the column.
    pub(crate) const fn sized(self, width: WidthIn<C>) -> Self {
        Self { sized: Some(width), ..self }
    }

    /// Lays out the column after those of a lower rank, if it fits; without a rank it is always shown.
    pub(crate) const fn rank(self, rank: u8) -> Self {
        Self { rank, ..self }
    }

    /// Widens the column by what `wider` returns for the width that is left, after columns of a lower rank than
    /// `rank`; a chosen column at once.
    pub(crate) const fn wider(self, rank: u8, wider: WidthIn<C>) -> Self {
        Self { wider: Some((rank, wider)), ..self }
    }

    /// Hides the column in tables of less than this width, unless it is chosen.
    pub(crate) const fn shown_from(self, min_table_width: u16) -> Self {
        Self { min_table_width, ..self }
    }

    /// Makes the title depend on the table and the width of the column.
    pub(crate) const fn titled(self, title: fn(&C, u16) -> Cow<'static, str>) -> Self {
        Self { title: Some(title), ..self }
    }

    /// Adds the titles that the column has in other units or for other devices.
    pub(crate) const fn or_titled(self, other_titles: &'static [&'static str]) -> Self {
        Self { spec: ColumnSpec { other_titles, ..self.spec }, ..self }
    }

    /// Keeps the tone of the cells in rows of old values.
    pub(crate) const fn keeps_tone(self) -> Self {
        Self { keeps_tone: true, ..self }
    }
}

pub(crate) const fn specs<C, R, const N: usize>(
    columns: &[TableColumn<C, R>; N],
) -> [ColumnSpec; N] {
    let mut specs = [ColumnSpec::titled(""); N];
    let (mut to, mut from) = (specs.as_mut_slice(), columns.as_slice());
    while let ([spec, next @ ..], [column, others @ ..]) = (to, from) {
        *spec = column.spec();
        (to, from) = (next, others);
    }
    specs
}

/// What tells a row from others: its values are old, or it is not among those that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fade {
    None,
    /// Nothing is emphasised: it is another user's, or the filter does not match it.
    Emphasis,
    /// The cells and the gaps between them are old values.
    All,
}

impl Fade {
    pub(crate) const fn if_old(is_old: bool) -> Self {
        if is_old { Self::All } else { Self::None }
    }

    pub(crate) fn applied_to(self, line: Line) -> Line {
        match self {
            Self::None => line,
            Self::Emphasis => line.without_emphasis(),
            Self::All => line.dimmed(),
        }
    }
}

/// The width of a table and its parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableRoom {
    pub(crate) width: u16,
    /// The width of the mark in front of a row.
    pub(crate) mark: u16,
    /// The columns between two columns of the table.
    pub(crate) gap: u16,
    /// Columns of a higher rank are hidden, unless they are chosen.
    pub(crate) max_rank: u8,
}

impl TableRoom {
    pub(crate) const fn new(width: u16, mark: u16, gap: u16) -> Self {
        Self { width, mark, gap, max_rank: u8::MAX }
    }
}

/// A table whose columns are laid out.
pub(crate) struct Table<'c, C, R> {
    pub(crate) context: C,
    columns: &'c [TableColumn<C, R>],
    /// Indices and widths of the columns, from left to right; those without a width are hidden.
    pub(crate) shown: Vec<(usize, u16)>,
    pub(crate) room: TableRoom,
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
        // No gap is left before the first column.
        let spare = room.width.saturating_add(room.gap).saturating_sub(room.mark);
        let mut table = Self { context, columns, shown: Vec::new(), room, spare };
        for (index, column) in columns.iter().enumerate().filter(|(_, column)| column.rank == 0) {
            table.reserve(index, table.usual_width(column));
        }
        if chosen.is_empty() {
            table.fit_by_rank();
        } else {
            table.fit_chosen(chosen);
        }
        table
    }

    fn fit_by_rank(&mut self) {
        let mut steps: Vec<(u8, usize, bool)> = Vec::new();
        for (index, column) in self.columns.iter().enumerate().filter(|(_, one)| one.rank > 0) {
            steps.push((column.rank, index, false));
            steps.extend(column.wider.map(|(rank, _)| (rank, index, true)));
        }
        steps.retain(|(rank, ..)| *rank <= self.room.max_rank);
        steps.sort_unstable();
        for (_, index, is_wider) in steps {
            let Some(column) = self.columns.get(index) else { continue };
            if is_wider {
                self.make_wider(column);
            } else {
                let is_shown = self.reserve(index, self.usual_width(column));
                if !is_shown && column.alignment == Alignment::Rest {
                    // It gets what no other column needs.
                    self.shown.push((index, 0));
                }
            }
        }
        self.shown.sort_unstable();
    }

    fn fit_chosen(&mut self, chosen: &[String]) {
        let leading = self.shown.iter().zip(0..).take_while(|((index, _), at)| index == at).count();
        let trailing = self.shown.split_off(leading);
        for name in chosen {
            let found = (0..).zip(self.columns).find(|(_, column)| {
                column.spec.name == name && column.rank > 0 && self.width_in(column, u16::MAX) > 0
            });
            let Some((index, column)) = found else { continue };
            if !self.reserve(index, self.width_in(column, self.spare)) {
                break;
            }
            self.make_wider(column);
        }
        self.shown.extend(trailing);
    }

    /// Returns the width of a column that is not chosen, 0 to hide it.
    fn usual_width(&self, column: &TableColumn<C, R>) -> u16 {
        let is_narrow = self.room.width < column.min_table_width;
        if is_narrow { 0 } else { self.width_in(column, self.spare) }
    }

    /// Returns the width of a column, 0 to hide it.
    fn width_in(&self, column: &TableColumn<C, R>, spare: u16) -> u16 {
        let room = spare.saturating_sub(self.room.gap);
        column.sized.map_or(column.width, |width| width(&self.context, room))
    }

    /// Adds a column if it has a width and, unless it is fixed, fits.
    fn reserve(&mut self, index: usize, width: u16) -> bool {
        let is_fixed = self.columns.get(index).is_some_and(|column| column.rank == 0);
        let needed = width.saturating_add(self.room.gap);
        let fits = width > 0 && (is_fixed || self.spare >= needed);
        if fits {
            self.spare = self.spare.saturating_sub(needed);
            self.shown.push((index, width));
        }
        fits
    }

    fn make_wider(&mut self, column: &TableColumn<C, R>) {
        if let Some((_, wider)) = column.wider {
            self.widen(column.spec.name, wider(&self.context, self.spare));
        }
    }

    /// Widens a column, if it is visible, by some of the width that no column has.
    pub(crate) fn widen(&mut self, name: &str, by: u16) {
        let columns = self.columns;
        let named = self
            .shown
            .iter_mut()
            .find(|(index, _)| columns.get(*index).is_some_and(|column| column.spec.name == name));
        if let Some((_, width)) = named {
            let by = by.min(self.spare);
            self.spare -= by;
            *width += by;
        }
    }

    /// Widens a column by all that is left if it is the last, by at most `by` otherwise: a wide gap before the
    /// next column would be hard to follow.
    pub(crate) fn widen_last(&mut self, name: &str, by: u16) {
        let last = self.shown.last().and_then(|(index, _)| self.columns.get(*index));
        let is_last = last.is_some_and(|column| column.spec.name == name);
        self.widen(name, if is_last { u16::MAX } else { by });
    }

    /// Returns the width of a column, 0 if it is hidden.
    pub(crate) fn width_of(&self, name: &str) -> u16 {
        let column = self.visible().find(|(column, _)| column.spec.name == name);
        column.map_or(0, |(_, width)| width)
    }

    /// Returns the number of leading columns with such names, and where the column behind them begins.
    pub(crate) fn leading(&self, is_leading: impl Fn(&str) -> bool) -> (usize, u16) {
        let columns = self.visible().take_while(|(column, _)| is_leading(column.spec.name));
        columns.fold((0, self.room.mark), |(count, start), (_, width)| {
            (count + 1, start + width + self.room.gap)
        })
    }

    /// Returns true if a visible column sorts rows by `order`.
    pub(crate) fn can_sort_by(&self, order: &str) -> bool {
        self.visible().any(|(column, _)| column.spec.sort == order)
    }

    fn visible(&self) -> impl Iterator<Item = (&'c TableColumn<C, R>, u16)> {
        let visible = self.shown.iter();
        let visible = visible.filter(|(_, width)| *width > 0);
        visible.filter_map(|(index, width)| Some((self.columns.get(*index)?, *width)))
    }

    pub(crate) fn titles(&self) -> Line {
        self.marked_titles(|_, title, _| (title, Tone::Faint))
    }

    /// Draws the titles. Those of the columns that rows are sorted by are highlighted and end in an arrow, which points up if
    /// the values rise from row to row.
    pub(crate) fn sorted_titles(
        &self,
        is_sorted: impl Fn(&ColumnSpec) -> bool,
        is_rising: bool,
    ) -> Line {
        let arrow = sort_arrow(is_rising);
        self.marked_titles(|spec, title, width| {
            if is_sorted(spec) {
                (with_arrow(&title, arrow, width).into(), Tone::Accent)
            } else {
                (title, Tone::Faint)
            }
        })
    }

    /// Draws the titles as `mark` returns them for a column, its title and its width.
    fn marked_titles(
        &self,
        mark: impl Fn(&ColumnSpec, Cow<'static, str>, u16) -> (Cow<'static, str>, Tone),
    ) -> Line {
        self.joined(.., Line::new().gap(self.room.mark), false, |line, column, width, is_last| {
            let title = column.title_in(&self.context, width);
            let (marked, tone) = mark(&column.spec, title.clone(), width);
            let line = column.fit_cell(line, Cell::Text(marked, tone), width, is_last);
            let line = line.titles(column.spec(), &title);
            let ColumnSpec { sort, .. } = column.spec;
            if sort.is_empty() { line } else { line.clickable(Click::Column(sort)) }
        })
    }

    /// Draws a row behind its mark.
    pub(crate) fn row(&self, mark: Line, row: &R, fade: Fade) -> Line {
        self.part_of_row(.., mark, row, fade)
    }

    /// Returns the values of all columns of a row, shown or not; bars as percentages, strips of cells not at all.
    pub(crate) fn facts(&self, row: &R) -> Vec<Fact> {
        let facts = self.columns.iter().filter_map(|column| {
            let place = CellPlace { name: column.spec.name, width: MAX_FACT_WIDTH };
            let value = match (column.cell)(&self.context, row, place) {
                Cell::Text(text, _) => text.into_owned(),
                Cell::Bar(share, _) => or_unknown(share, |share| format!("{share:.0}%")),
                Cell::Line(_) => return None,
            };
            let title = column.title_in(&self.context, MAX_FACT_WIDTH);
            (!value.is_empty()).then(|| Fact::of_cell(title.trim_end(), value, column.spec.help))
        });
        facts.collect()
    }

    /// Draws some columns of a row behind `before`, which replaces the columns before them.
    pub(crate) fn part_of_row(
        &self,
        part: impl RangeBounds<usize>,
        before: Line,
        row: &R,
        fade: Fade,
    ) -> Line {
        self.joined(part, before, fade == Fade::All, |line, column, width, is_last| {
            let place = CellPlace { name: column.spec.name, width };
            let cell = (column.cell)(&self.context, row, place);
            if column.keeps_tone || fade == Fade::None {
                return column.fit_cell(line, cell, width, is_last);
            }
            line.append(fade.applied_to(column.fit_cell(Line::new(), cell, width, is_last)))
        })
    }

    /// Appends the cells of some columns; a gap fades with the column behind it if `fades_gaps`.
    fn joined(
        &self,
        part: impl RangeBounds<usize>,
        before: Line,
        fades_gaps: bool,
        append: impl Fn(Line, &TableColumn<C, R>, u16, bool) -> Line,
    ) -> Line {
        let last = self.visible().count();
        let columns = self.visible().zip(0..).filter(|(_, at)| part.contains(at));
        columns.fold(before, |line, ((column, width), at)| {
            let gap = if at == 0 { 0 } else { self.room.gap };
            let is_faded = fades_gaps && !column.keeps_tone;
            let line =
                if is_faded { line.append(Line::new().gap(gap).dimmed()) } else { line.gap(gap) };
            append(line, column, width, at + 1 == last)
        })
    }
}

impl<C, R> TableColumn<C, R> {
    /// Returns the title in a column of this width.
    fn title_in(&self, context: &C, width: u16) -> Cow<'static, str> {
        self.title.map_or(self.spec.title.into(), |title| title(context, width))
    }

    /// Appends a cell in a column of this width.
    fn fit_cell(&self, line: Line, cell: Cell, width: u16, is_last: bool) -> Line {
        let has_rest = self.alignment == Alignment::Rest && is_last;
        match cell {
            Cell::Text(text, tone) if has_rest => line.text(text, tone),
            Cell::Text(text, tone) if self.alignment == Alignment::Right => {
                line.right_aligned(&text, width, tone)
            }
            Cell::Text(text, tone) => line.left_aligned(&text, width, tone),
            Cell::Bar(share, tone) => line.bar(share, width, tone),
            Cell::Line(content) if has_rest => line.append(content),
            Cell::Line(content) => {
                let content = content.truncated(width);
                let missing = width.saturating_sub(content.width());
                line.append(content).gap(missing)
            }
        }
    }
}

/// Returns a title with an arrow, in place of its end where the column is full, and without it where that is too narrow.
fn with_arrow(title: &str, arrow: char, width: u16) -> String {
    if width < MIN_ARROW_WIDTH && width_of(title) >= width {
        return title.to_owned();
    }
    let title = title.chars().take(usize::from(width).saturating_sub(1));
    title.chain([arrow]).collect()
}

/// Returns the sign of a sort order.
pub(crate) const fn sort_arrow(is_rising: bool) -> char {
    if is_rising { '↑' } else { '↓' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrow_of_a_sorted_column_takes_the_place_of_a_letter_if_need_be() {
        let marked = |title, width| with_arrow(title, '↓', width);
        assert_eq!(marked("IDLE-HELD", 12), "IDLE-HELD↓");
        assert_eq!(marked("IDLE-HELD", 9), "IDLE-HEL↓");
        assert_eq!([marked("%", 3), marked("%", 1), marked("FREE", 4)], ["%↓", "%", "FRE↓"]);
    }

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
        Table::fit(&COLUMNS, Counts(bar), &chosen, TableRoom::new(width, 1, 1))
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
    fn a_column_is_widened_by_rank_and_the_rest_is_for_the_last() {
        let columns = [
            CountColumn::left("A", 4, |_, _, _| "".into())
                .named("a", "", "")
                .rank(1)
                .wider(3, |_, room| room.min(2)),
            CountColumn::left("B", 4, |_, _, _| "".into()).named("b", "", "").rank(2),
            CountColumn::left("C", 4, |_, _, _| "".into()).named("c", "", "").rank(4),
            CountColumn::rest("D", 9, |_, _, _| "".into()).named("d", "", "").rank(5),
        ];
        let widths = |room: TableRoom, chosen: &[&str]| {
            let chosen: Vec<String> = chosen.iter().map(|name| (*name).to_owned()).collect();
            let mut table = Table::fit(&columns, Counts(0), &chosen, room);
            table.widen_last("d", 1);
            ["a", "b", "c", "d"].map(|name| table.width_of(name))
        };
        let room = |width| TableRoom::new(width, 0, 1);
        assert_eq!(widths(room(10), &[]), [5, 4, 0, 0]);
        assert_eq!(widths(room(18), &[]), [6, 4, 4, 2]);
        assert_eq!(widths(room(30), &[]), [6, 4, 4, 13]);
        assert_eq!(widths(TableRoom { max_rank: 2, ..room(30) }, &[]), [4, 4, 0, 0]);
        assert_eq!(widths(room(20), &["d", "a"]), [6, 0, 0, 10]);
        let table = Table::fit(&columns, Counts(0), &[], room(30));
        assert_eq!(table.leading(|name| name != "c"), (2, 12));
    }

    #[test]
    fn cells_are_aligned_and_keep_their_tone_if_declared() {
        let mut table = table(&[], 2, 31);
        table.widen("bar", 3);
        table.widen("none", 3);
        assert_eq!((table.titles().width(), table.spare), (26, 5));
        let tones = |fade| {
            let line = table.row(Line::styled("!", Tone::Bad), &7, fade);
            assert_eq!(line.plain_text(), "!host     7  1 s a long note");
            let mut tones: Vec<Tone> = line.spans.iter().map(|span| span.tone).collect();
            tones.retain(|tone| *tone != Tone::Plain);
            tones.dedup();
            tones
        };
        assert_eq!(tones(Fade::Emphasis), [Tone::Bad, Tone::Mid, Tone::Warn]);
        assert_eq!(tones(Fade::All), [Tone::Bad, Tone::Stale, Tone::Warn, Tone::Stale]);
        assert!(table.can_sort_by("load") && !table.can_sort_by("age"));
        assert_eq!(table.titles().click_at(8), Some(&Click::Column("load")));
    }
}
