//! The timeline of a recording: what is played, when, and where in the recorded time that is.

use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::input::Click;
use crate::widgets::line::{Line, Symbol, Tone, truncate};
use gtop_local::time::Timestamp;
use gtop_model::{Mark, MarkKind, Playback, Severity};

/// The bar is not drawn narrower than this for the sake of text beside it.
const MIN_BAR_WIDTH: u16 = 20;
/// Width from which the loss is shown.
const LOSS_WIDTH: u16 = 120;

/// A playback and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    pub playback: Playback,
    pub position: Timestamp,
}

/// The time that one column of the bar stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BarColumn {
    from: Timestamp,
    /// The first moment of the next column.
    to: Timestamp,
    is_gap: bool,
}

impl Timeline {
    /// Draws the line: playing or paused, speed, position, and the recorded time as a bar.
    pub(super) fn line(&self, zone: &TimeZone, width: u16) -> Line {
        let Playback { is_playing, speed, .. } = self.playback;
        let (sign, tone) =
            if is_playing { ("▶", Tone::Accent) } else { ("▮▮", Tone::Strong) };
        let state = Line::new().left_aligned(sign, 2, tone).gap(1).left_aligned(
            &format!("{speed}×"),
            5,
            Tone::Plain,
        );
        let [long, short] = ["%Y-%m-%d %H:%M:%S", "%H:%M:%S"].map(|format| {
            state.clone().gap(2).text(time_text(self.position, zone, format), Tone::Strong)
        });
        let (start, end) = self.ends(zone, width);
        let (start, end) = (start.gap(1), Line::new().gap(1).append(end));
        let with_loss = end.clone().append(self.loss(width));
        let forms = [
            (&long, start.clone(), with_loss),
            (&long, start, end),
            (&long, Line::new(), Line::new()),
        ];
        for (left, start, end) in forms {
            let room = width.saturating_sub(left.width() + 2 + start.width() + end.width());
            if room >= MIN_BAR_WIDTH {
                let line = left.clone().gap(2).append(start).append(self.bar(room));
                return line.append(end).truncated(width);
            }
        }
        let room = width.saturating_sub(short.width() + 2);
        short.gap(2).append(self.bar(room)).truncated(width)
    }

    /// Returns the first and the last recorded time, with dates if they are not of the same day.
    fn ends(&self, zone: &TimeZone, width: u16) -> (Line, Line) {
        let spans = &self.playback.spans;
        let (Some((first, _)), Some((_, last))) = (spans.first(), spans.last()) else {
            return (Line::new(), Line::new());
        };
        let days = [*first, *last].map(|at| zoned(at, zone).map(|at| at.date()));
        let format = match days[0] == days[1] {
            true => "%H:%M",
            false if width < 100 => "%b %d",
            false => "%b %d %H:%M",
        };
        let end =
            if self.playback.is_live { "now".to_owned() } else { time_text(*last, zone, format) };
        (Line::styled(time_text(*first, zone, format), Tone::Faint), Line::styled(end, Tone::Faint))
    }

    fn loss(&self, width: u16) -> Line {
        let Some(loss) = self.playback.loss.as_ref().filter(|_| width >= LOSS_WIDTH) else {
            return Line::new();
        };
        Line::new().gap(3).text(truncate(loss, width / 3), Tone::Warn)
    }

    /// Draws the recorded time; a click on it jumps there, or to the mark it hits.
    fn bar(&self, width: u16) -> Line {
        let columns = columns(&self.playback.spans, usize::from(width));
        let current =
            columns.partition_point(|column| column.from <= self.position).saturating_sub(1);
        let mut symbols = Vec::with_capacity(columns.len());
        let mut clicks = Vec::with_capacity(columns.len());
        for (index, (column, x)) in columns.iter().zip(0..).enumerate() {
            let mark = self.mark(*column);
            symbols.push(match mark {
                _ if index == current => (Symbol::Char('●'), Tone::Accent),
                _ if column.is_gap => (Symbol::Char('╱'), Tone::Faint),
                Some(mark) if is_bad(mark) => (Symbol::Char('✗'), Tone::Bad),
                Some(_) => (Symbol::Char('┃'), Tone::Plain),
                None if index < current => (Symbol::Char('━'), Tone::Accent),
                None => (Symbol::Char('─'), Tone::Faint),
            });
            clicks.push((x, x + 1, Click::Time(mark.map_or(column.from, |mark| mark.at))));
        }
        Line { clicks, ..Line::new().strip(symbols, width) }
    }

    /// Returns the worst mark of a column, the first of several.
    fn mark(&self, column: BarColumn) -> Option<&Mark> {
        let marks = &self.playback.marks;
        let first = marks.partition_point(|mark| mark.at < column.from);
        let marks = marks.iter().skip(first).take_while(|mark| mark.at < column.to);
        let mut shown = marks.filter(|mark| mark.kind != MarkKind::Resumed).peekable();
        let first = shown.peek().copied();
        shown.find(|mark| is_bad(mark)).or(first)
    }
}

fn is_bad(mark: &Mark) -> bool {
    mark.severity == Severity::Error
}

/// Returns a time as clocks of the zone show it; `None` if no calendar has it.
pub(crate) fn zoned(at: Timestamp, zone: &TimeZone) -> Option<Zoned> {
    let moment = jiff::Timestamp::from_microsecond(at.as_micros()).ok()?;
    Some(moment.to_zoned(zone.clone()))
}

/// Returns a time as text; empty if no calendar has it.
pub(crate) fn time_text(at: Timestamp, zone: &TimeZone, format: &str) -> String {
    zoned(at, zone).map_or_else(String::new, |at| at.strftime(format).to_string())
}

/// Returns the time of day, or the date if the moment is not from today.
pub(crate) fn time_or_date(at: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let [Some(moment), Some(now)] = [at, now].map(|at| zoned(at, zone)) else {
        return String::new();
    };
    let format = if moment.date() == now.date() { "%H:%M:%S" } else { "%b %d" };
    moment.strftime(format).to_string()
}

/// Divides recorded time among the columns of a bar. A gap has one column, however long it is; short gaps are left
/// out if there are many.
fn columns(spans: &[(Timestamp, Timestamp)], width: usize) -> Vec<BarColumn> {
    let pieces = without_short_gaps(spans, width / 4);
    let total = pieces.iter().map(length).map(i128::from).sum::<i128>().max(1);
    // Each piece and each gap has a column; the rest is divided by length.
    let rest = (width + 1).saturating_sub(pieces.len() * 2);
    let mut columns: Vec<BarColumn> = Vec::with_capacity(width);
    let (mut passed, mut used) = (0, 0);
    for (index, piece) in pieces.iter().enumerate().take(width) {
        let (from, length) = (piece.0, length(piece));
        if let Some(last) = columns.last().map(|last| last.to).filter(|_| index > 0) {
            columns.push(BarColumn { from: last, to: from, is_gap: true });
        }
        passed += i128::from(length);
        let share = (passed * i128::try_from(rest).unwrap_or(0) + total / 2) / total;
        let end = usize::try_from(share).unwrap_or(0);
        let count = i64::try_from(1 + end - used).unwrap_or(1);
        used = end;
        let at = |step: i64| {
            let micros = i128::from(length) * i128::from(step) / i128::from(count);
            Timestamp::from_micros(
                from.as_micros().saturating_add(i64::try_from(micros).unwrap_or(0)),
            )
        };
        columns.extend((0..count).map(|step| BarColumn {
            from: at(step),
            to: at(step + 1),
            is_gap: false,
        }));
    }
    columns.truncate(width);
    columns
}

/// Returns the microseconds of a span; its last moment belongs to it.
fn length((from, to): &(Timestamp, Timestamp)) -> i64 {
    to.as_micros().saturating_sub(from.as_micros()).max(0).saturating_add(1)
}

/// Joins spans until only the `max_gaps` longest gaps are left.
fn without_short_gaps(
    spans: &[(Timestamp, Timestamp)],
    max_gaps: usize,
) -> Vec<(Timestamp, Timestamp)> {
    let gaps =
        spans.iter().zip(spans.iter().skip(1)).map(|((_, end), (start, _))| start.since(*end));
    let mut lengths: Vec<_> = gaps.zip(0_usize..).collect();
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    lengths.truncate(max_gaps);
    let mut kept: Vec<usize> = lengths.into_iter().map(|(_, index)| index).collect();
    kept.sort_unstable();
    let mut pieces: Vec<(Timestamp, Timestamp)> = Vec::with_capacity(kept.len() + 1);
    for (index, span) in spans.iter().enumerate() {
        let follows_gap =
            index.checked_sub(1).is_none_or(|before| kept.binary_search(&before).is_ok());
        match pieces.last_mut().filter(|_| !follows_gap) {
            Some(last) => last.1 = span.1,
            None => pieces.push(*span),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn gaps(spans: &[(i64, i64)], width: usize) -> String {
        let spans: Vec<_> = spans.iter().map(|(from, to)| (at(*from), at(*to))).collect();
        let columns = columns(&spans, width);
        for pair in columns.windows(2) {
            assert!(pair[0].from <= pair[1].from && pair[0].to <= pair[1].to, "{pair:?}");
        }
        columns.iter().map(|column| if column.is_gap { '/' } else { '-' }).collect()
    }

    #[test]
    fn columns_are_divided_by_recorded_time_and_a_gap_has_one() {
        for (spans, width, expected) in [
            (&[(0, 100)][..], 10, "----------"),
            (&[(0, 50), (1_000, 1_050)], 9, "----/----"),
            (&[(0, 90), (1_000, 1_010)], 12, "---------/--"),
            (&[(0, 0)], 5, "-----"),
            (&[(0, 1), (2, 2), (3, 3)], 4, "--/-"),
            (&[], 9, ""),
            (&[(0, 9)], 0, ""),
        ] {
            assert_eq!(gaps(spans, width), expected, "{spans:?}");
        }
    }

    #[test]
    fn many_gaps_leave_most_columns_to_the_recording() {
        let spans: Vec<(i64, i64)> =
            (0..1_000).map(|index| (index * 100, index * 100 + 50 + index % 7)).collect();
        for width in 0..200 {
            let drawn = gaps(&spans, width);
            assert!(
                drawn.len() == width && drawn.matches('/').count() <= width / 4,
                "{width}: {drawn}"
            );
        }
    }
}
