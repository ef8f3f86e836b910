//! The range of a sparkline of shares: what its lowest and its highest mark stand for.

use crate::ui::widgets::line::{Line, Tone};

/// Ranges begin and end at multiples of this, in percent; so it is the smallest range, and noise stays small.
const STEP: f32 = 20.0;
/// The width of the range in text, ` 80–100%`, with the gap before it.
pub(crate) const RANGE_WIDTH: u16 = 8;
/// The fewest marks beside which the range is told.
const MIN_MARKS: u16 = 4;

/// A range of shares, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SparkRange {
    low: f32,
    high: f32,
}

impl SparkRange {
    /// Everything that a share can be.
    const WHOLE: Self = Self { low: 0.0, high: 100.0 };

    /// Returns the points' range, widened to multiples of 20 %; `None` if no point is known.
    fn of(points: &[Option<f32>]) -> Option<Self> {
        let known = || points.iter().flatten().copied();
        let lowest = known().min_by(f32::total_cmp)?.clamp(0.0, 100.0);
        let highest = known().max_by(f32::total_cmp)?.clamp(0.0, 100.0);
        let low = ((lowest / STEP).floor() * STEP).min(100.0 - STEP);
        let high = ((highest / STEP).ceil() * STEP).max(low + STEP);
        Some(Self { low, high })
    }

    /// Returns where in the range a share is, 0 to 100.
    fn position(self, share: f32) -> f32 {
        ((share - self.low) / (self.high - self.low) * 100.0).clamp(0.0, 100.0)
    }
}

/// Draws a sparkline of shares in exactly `width` columns, with its range behind it, or from 0 to 100 % where there is
/// no room to tell a range. [`marks`] says how many points it shows.
pub(crate) fn sparkline(points: &[Option<f32>], width: u16, tone: Tone) -> Line {
    let has_range = marks(width) < width;
    let range = SparkRange::of(points).filter(|_| has_range);
    let scale = range.unwrap_or(SparkRange::WHOLE);
    let scaled = points.iter().map(|point| point.map(|share| scale.position(share)));
    let line = Line::new().sparkline(scaled.collect(), tone);
    let Some(SparkRange { low, high }) = range else {
        let missing = width.saturating_sub(line.width());
        return line.gap(missing).truncated(width);
    };
    line.gap(1).left_aligned(&format!("{low:.0}–{high:.0}%"), RANGE_WIDTH - 1, Tone::Faint)
}

/// Returns how many points a sparkline of this width shows.
pub(crate) const fn marks(width: u16) -> u16 {
    if width >= MIN_MARKS + RANGE_WIDTH { width - RANGE_WIDTH } else { width }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::widgets::line::SpanContent;

    fn drawn(shares: &[f32], width: u16) -> (Vec<f32>, String) {
        let points: Vec<Option<f32>> = shares.iter().copied().map(Some).collect();
        let line = sparkline(&points, width, Tone::Mid);
        assert_eq!(line.width(), width);
        let SpanContent::Spark(marks) = &line.spans[0].content else { panic!("no sparkline") };
        (marks.iter().flatten().copied().collect(), line.plain_text().trim().to_owned())
    }

    #[test]
    fn the_range_is_told_and_in_steps_that_keep_noise_small() {
        for (shares, marks, range) in [
            // Neither flat and full, nor wild.
            ([93.0, 95.0, 94.0, 93.0, 95.0, 94.0], [65.0, 75.0, 70.0, 65.0, 75.0, 70.0], "80–100%"),
            ([0.0, 100.0, 50.0, 0.0, 0.0, 0.0], [0.0, 100.0, 50.0, 0.0, 0.0, 0.0], "0–100%"),
            ([0.0; 6], [0.0; 6], "0–20%"),
            ([100.0; 6], [100.0; 6], "80–100%"),
            ([40.0; 6], [0.0; 6], "40–60%"),
            ([39.0, 41.0, 40.0, 40.0, 40.0, 40.0], [47.5, 52.5, 50.0, 50.0, 50.0, 50.0], "20–60%"),
            // What no device reports is drawn at the end of the range.
            ([-3.0, 400.0, 0.0, 0.0, 0.0, 0.0], [0.0, 100.0, 0.0, 0.0, 0.0, 0.0], "0–100%"),
        ] {
            let (drawn, text) = drawn(&shares, 6 + RANGE_WIDTH);
            assert_eq!(text, range);
            let is_near = |(one, other): (&f32, &f32)| (one - other).abs() < 0.01;
            assert!(drawn.iter().zip(&marks).all(is_near), "{drawn:?} {marks:?}");
        }
    }

    #[test]
    fn without_room_for_its_range_a_sparkline_goes_from_0_to_100() {
        assert_eq!(drawn(&[93.0; 11], 11), (vec![93.0; 11], String::new()));
        assert_eq!([6, 11, 12, 20].map(marks), [6, 11, 4, 12]);
    }

    #[test]
    fn a_sparkline_without_values_is_blank() {
        for width in [0, 6, 14, 40] {
            let line = sparkline(&vec![None; usize::from(marks(width))], width, Tone::Mid);
            assert_eq!((line.width(), line.plain_text().trim()), (width, ""), "{width}");
        }
    }
}
