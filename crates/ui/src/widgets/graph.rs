//! Graphs over time: two seconds per column, several rows high, with a scale beside them and a time axis below.

use std::time::Duration;

use crate::widgets::line::{Line, Tone};
use gtop_local::time::Timestamp;

/// Points per column.
const PER_COLUMN: usize = 2;
/// Steps per row.
const STEPS: u16 = 4;
/// The ages marked on the time axis, in seconds; the short ones for steps below a second.
const TICKS: [usize; 6] = [30, 60, 120, 180, 240, 300];
const SHORT_TICKS: [usize; 5] = [1, 2, 5, 10, 20];

/// The size and orientation of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Graph {
    pub(crate) width: u16,
    pub(crate) height: u16,
    /// Fills from the top row down instead of from the bottom up.
    pub(crate) grows_down: bool,
    /// Draws the newest point on the left.
    pub(crate) is_reversed: bool,
    /// The time between two points.
    pub(crate) step: Duration,
}

/// The width of a scale, axis included.
pub(crate) const SCALE_WIDTH: u16 = 7;

/// Draws one row of the scale in front of a graph: the axis, with a label if it is not empty.
pub(crate) fn scale(label: &str) -> Line {
    let axis = if label.is_empty() { "│" } else { "┤" };
    Line::new().right_aligned(label, SCALE_WIDTH - 1, Tone::Faint).text(axis, Tone::Faint)
}

impl Graph {
    /// Returns how many points it shows. Columns begin at even steps, so a full column never changes again.
    pub(crate) fn visible_points(self, now: Timestamp) -> usize {
        let step = i64::try_from(self.step.as_micros()).unwrap_or(i64::MAX).max(1);
        let is_half = now.as_micros().div_euclid(step).rem_euclid(2) == 0;
        usize::from(self.width) * PER_COLUMN - usize::from(is_half && self.width > 0)
    }

    /// Returns the rows from top to bottom. `points` has the length that [`Self::visible_points`] returns, values from 0 to
    /// 100, oldest first.
    pub(crate) fn rows(self, points: &[Option<f32>], tone: Tone) -> Vec<Line> {
        let columns = usize::from(self.width) * PER_COLUMN;
        let mut filled: Vec<u16> = points.iter().map(|point| self.steps(*point)).collect();
        filled.resize(columns, 0);
        if self.is_reversed {
            filled.reverse();
        }
        let rows = (0..self.height).map(|from_base| {
            let parts = filled.iter().map(|all| all.saturating_sub(from_base * STEPS).min(STEPS));
            let parts = parts.map(|part| u8::try_from(part).unwrap_or(0));
            Line::new().graph(parts.collect(), self.grows_down, tone)
        });
        if self.grows_down { rows.collect() } else { rows.rev().collect() }
    }

    /// Returns the rows behind their scale, from `base` to `end`; in a single row, only the end is labelled.
    pub(crate) fn scaled_rows(
        self,
        points: &[Option<f32>],
        tone: Tone,
        (base, end): (&str, &str),
    ) -> Vec<Line> {
        let rows = self.rows(points, tone);
        let last = rows.len().saturating_sub(1);
        let (first, end_row) = if self.grows_down { (0, last) } else { (last, 0) };
        let label = |row| match row {
            _ if row == end_row => end,
            _ if row == first => base,
            _ => "",
        };
        let rows = rows.into_iter().enumerate();
        rows.map(|(row, line)| scale(label(row)).append(line)).collect()
    }

    /// Returns the steps a point fills, at least one if it is known, so that only gaps are empty.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
    fn steps(self, point: Option<f32>) -> u16 {
        let all = self.height * STEPS;
        point.map_or(0, |share| ((share / 100.0 * f32::from(all)).round() as u16).clamp(1, all))
    }

    /// Returns the time axis, with the label `newest` at its newest end.
    pub(crate) fn time_axis(self, newest: &str) -> Line {
        let width = usize::from(self.width);
        let mut line = vec!['─'; width];
        let newest: Vec<char> = newest.chars().collect();
        let newest_start = if self.is_reversed { Some(0) } else { width.checked_sub(newest.len()) };
        let millis = usize::try_from(self.step.as_millis()).unwrap_or(1).max(1);
        let short: &[usize] = if millis < 1000 { &SHORT_TICKS } else { &[] };
        let ticks = short.iter().chain(&TICKS).map(|seconds| {
            let column = seconds * 1000 / millis / PER_COLUMN;
            if self.is_reversed {
                let label: Vec<char> = format!("{seconds}s┤").chars().collect();
                ((column + 1).checked_sub(label.len()), label)
            } else {
                (width.checked_sub(column), format!("├{seconds}s").chars().collect())
            }
        });
        for (start, label) in std::iter::once((newest_start, newest)).chain(ticks) {
            let slots = start.and_then(|start| line.get_mut(start..start + label.len()));
            // Where two labels collide, the one of the shorter time stays.
            if let Some(slots) = slots.filter(|slots| slots.iter().all(|slot| *slot == '─'))
                && label.len() < width
            {
                slots.copy_from_slice(&label);
            }
        }
        Line::styled(line.into_iter().collect::<String>(), Tone::Faint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::widgets::line::SpanContent;

    fn filled(graph: Graph, points: &[Option<f32>]) -> Vec<Vec<u8>> {
        let row = |line: Line| {
            let SpanContent::Graph { points, .. } = &line.spans[0].content else {
                panic!("no graph")
            };
            points.clone()
        };
        graph.rows(points, Tone::Mid).into_iter().map(row).collect()
    }

    const SECOND: Duration = Duration::from_secs(1);
    const UP: Graph =
        Graph { width: 2, height: 2, grows_down: false, is_reversed: false, step: SECOND };

    #[test]
    fn a_graph_fills_from_its_base_and_only_gaps_are_empty() {
        let points = [None, Some(0.0), Some(50.0), Some(100.0)];
        assert_eq!(filled(UP, &points), [[0, 0, 0, 4], [0, 1, 4, 4]]);
        let inverted = Graph { grows_down: true, ..UP };
        assert_eq!(filled(inverted, &points), [[0, 1, 4, 4], [0, 0, 0, 4]]);
        let reversed = Graph { is_reversed: true, ..UP };
        assert_eq!(filled(reversed, &points)[1], [4, 4, 1, 0]);
        // The second that has not come yet is empty.
        assert_eq!(filled(UP, &points[1..])[1], [1, 4, 4, 0]);
        assert_eq!(UP.rows(&[], Tone::Mid).len(), 2);
    }

    #[test]
    fn the_ends_of_a_scale_are_labelled_at_the_axis() {
        let scales = |graph: Graph| -> Vec<String> {
            let rows = graph.scaled_rows(&[], Tone::Mid, ("0", "700W"));
            rows.iter().map(|row| row.plain_text().chars().take(7).collect()).collect()
        };
        assert_eq!(scales(Graph { height: 3, ..UP }), ["  700W┤", "      │", "     0┤"]);
        assert_eq!(scales(Graph { grows_down: true, ..UP }), ["     0┤", "  700W┤"]);
        assert_eq!(scales(Graph { height: 1, ..UP }), ["  700W┤"]);
    }

    #[test]
    fn columns_begin_at_even_seconds() {
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        for (width, second, points) in [(5, 10, 9), (5, 11, 10), (0, 10, 0)] {
            let graph = Graph { width, ..UP };
            assert_eq!(graph.visible_points(at(second)), points, "{width} {second}");
        }
    }

    #[test]
    fn tick_labels_are_at_their_age() {
        let ticks =
            |width, is_reversed| Graph { width, is_reversed, ..UP }.time_axis("now").plain_text();
        assert_eq!(ticks(40, false), "──────────├60s───────────├30s────────now");
        assert_eq!(ticks(40, true), "now─────────30s┤───────────60s┤─────────");
        assert_eq!(ticks(10, false), "───────now");
        assert_eq!(ticks(3, false), "───");
        let old = Graph { width: 40, is_reversed: false, ..UP }.time_axis("last seen 3h12m ago");
        assert_eq!(old.plain_text(), "──────────├60s───────last seen 3h12m ago");
        assert_eq!(ticks(0, false), "");
        let step = Duration::from_millis(50);
        let close_up = Graph { width: 40, step, ..UP }.time_axis("now").plain_text();
        assert_eq!(close_up, "────────────────────├2s───────├1s────now");
        let step = Duration::from_millis(500);
        let by_second = Graph { width: 40, step, ..UP }.time_axis("now").plain_text();
        assert_eq!(by_second, "──────────├30s──────├20s──────├10s───now");
        let all = ticks(150, false);
        for seconds in TICKS {
            let axis = all.chars().collect::<Vec<_>>();
            assert_eq!(axis[150 - seconds / 2], '├', "{seconds}");
        }
    }
}
