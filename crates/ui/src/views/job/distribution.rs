//! Statistics over the devices of a job, with the outliers among them.

use crate::widgets::series::{self, median};

/// With fewer values there are no outliers.
const MIN_PEERS: usize = 4;
/// An outlier is further from the median than this multiple of the median absolute deviation.
const MAX_DEVIATIONS: f32 = 6.0;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Distribution {
    pub(crate) count: usize,
    pub(crate) min: f32,
    pub(crate) mean: f32,
    pub(crate) max: f32,
    pub(crate) median: f32,
    /// Indices of the outliers, furthest from the median first.
    pub(crate) outliers: Vec<usize>,
}

/// Distance from the median below which a value is never an outlier, however close the others are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tolerance {
    /// In the unit of the values.
    Fixed(f32),
    /// As a share of the median.
    Fraction(f32),
}

impl Distribution {
    /// Computes the distribution, `None` for no values.
    ///
    /// Uses the median absolute deviation, since one outlier among few devices inflates a standard deviation
    /// enough to hide itself. If more than a quarter of the values are outliers, the load is merely uneven
    /// and none is reported.
    pub(crate) fn of(values: &[f32], tolerance: Tolerance) -> Option<Self> {
        let min = values.iter().copied().min_by(f32::total_cmp)?;
        let max = values.iter().copied().max_by(f32::total_cmp)?;
        let median = median(values)?;
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "a mean of numbers of few digits"
        )]
        let mean = (values.iter().map(|value| f64::from(*value)).sum::<f64>() / values.len() as f64)
            as f32;
        let mut outliers = find_outliers(values, median, tolerance);
        if outliers.len() * 4 > values.len() {
            outliers.clear();
        }
        Some(Self { count: values.len(), min, mean, max, median, outliers })
    }
}

fn find_outliers(values: &[f32], median: f32, tolerance: Tolerance) -> Vec<usize> {
    if values.len() < MIN_PEERS {
        return Vec::new();
    }
    let distances: Vec<f32> = values.iter().map(|value| (value - median).abs()).collect();
    let deviation = series::median(&distances).unwrap_or_default();
    let tolerance = match tolerance {
        Tolerance::Fixed(tolerance) => tolerance,
        Tolerance::Fraction(fraction) => fraction * median,
    };
    let limit = tolerance.max(MAX_DEVIATIONS * deviation);
    let mut outliers: Vec<(usize, f32)> = distances.into_iter().enumerate().collect();
    outliers.retain(|(_, distance)| *distance > limit);
    outliers.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    outliers.into_iter().map(|(index, _)| index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lagging_value_is_an_outlier_and_noise_is_not() {
        for (values, outliers) in [
            (&[97.0, 98.0, 12.0, 97.0, 99.0][..], &[2][..]),
            (&[97.0, 80.0, 99.0, 97.0], &[]),
            (&[97.0, 12.0, 98.0], &[]),
            (&[97.0, 12.0, 98.0, 3.0], &[]),
            (&[0.0, 0.0, 0.0, 0.0, 97.0], &[4]),
            (&[10.0, 90.0, 40.0, 60.0, 20.0, 80.0], &[]),
        ] {
            let distribution = Distribution::of(values, Tolerance::Fixed(20.0)).unwrap();
            assert_eq!(distribution.outliers, outliers, "{values:?}");
        }
        let distribution =
            Distribution::of(&[650.0, 655.0, 211.0, 660.0], Tolerance::Fraction(0.25)).unwrap();
        assert_eq!(
            (distribution.min, distribution.max, distribution.outliers),
            (211.0, 660.0, vec![2])
        );
        assert!((distribution.mean - 544.0).abs() < 0.01);
        assert_eq!(Distribution::of(&[], Tolerance::Fixed(1.0)), None);
    }
}
