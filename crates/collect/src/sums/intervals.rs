//! Lists of intervals of time: when something was watched, was there, or was down.

use gtop_local::time::Timestamp;

/// Intervals, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeIntervals(Vec<(Timestamp, Timestamp)>);

impl TimeIntervals {
    /// Takes intervals that are in rising order and apart.
    pub fn new(list: Vec<(Timestamp, Timestamp)>) -> Self {
        Self(list)
    }

    /// Adds an interval, unless it is empty; it is joined with the last one if they touch.
    pub fn push(&mut self, from: Timestamp, to: Timestamp) {
        if to <= from {
            return;
        }
        match self.0.last_mut() {
            Some((first, last)) if (*first..=*last).contains(&from) => *last = to.max(*last),
            _ => self.0.push((from, to)),
        }
    }

    /// Adds all intervals of another list.
    pub fn extend(&mut self, other: &Self) {
        other.0.iter().for_each(|(from, to)| self.push(*from, *to));
    }

    /// Returns the times that any of them covers, in rising order and apart.
    #[must_use]
    pub fn union(&self) -> Self {
        let mut sorted = self.clone();
        sorted.0.sort_unstable();
        let mut joined = Self::default();
        joined.extend(&sorted);
        joined
    }

    /// Returns the times that both lists cover; both are in rising order and apart.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut common = Self::default();
        let mut rest = other.0.iter().copied().peekable();
        for &(from, to) in &self.0 {
            while let Some(&(other_from, other_to)) = rest.peek() {
                common.push(from.max(other_from), to.min(other_to));
                if other_to > to {
                    break;
                }
                rest.next();
            }
        }
        common
    }

    /// Returns the times that this list covers and the other one does not; both are in rising order and apart.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = Self::default();
        for &(mut from, to) in &self.0 {
            for &(other_from, other_to) in &other.0 {
                rest.push(from, to.min(other_from));
                from = from.max(other_to);
            }
            rest.push(from, to);
        }
        rest
    }

    /// Returns the end of the interval that has this time; `None` if none has.
    pub(super) fn end_of(&self, at: Timestamp) -> Option<Timestamp> {
        let next = self.0.partition_point(|(from, _)| *from <= at);
        self.0.get(next.checked_sub(1)?).map(|(_, to)| *to).filter(|to| *to >= at)
    }

    /// Returns the intervals.
    pub fn as_slice(&self) -> &[(Timestamp, Timestamp)] {
        &self.0
    }

    /// Returns the first and the last time; `None` if there are no intervals.
    pub fn bounds(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }

    /// Returns the length of all in seconds.
    pub fn seconds(&self) -> f64 {
        // A sum of nothing would be -0.
        self.0.iter().fold(0.0, |sum, (from, to)| sum + to.since(*from).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(list: &[(i64, i64)]) -> TimeIntervals {
        let mut found = TimeIntervals::default();
        for (from, to) in list {
            let [from, to] = [*from, *to].map(|second| Timestamp::from_micros(second * 1_000_000));
            found.push(from, to);
        }
        found
    }

    #[test]
    fn intervals_that_touch_are_joined() {
        assert_eq!(intervals(&[(0, 5), (5, 7), (9, 9), (10, 12)]), intervals(&[(0, 7), (10, 12)]));
        let out_of_order = intervals(&[(10, 12), (0, 5), (4, 11)]);
        assert_eq!(out_of_order.union(), intervals(&[(0, 12)]));
    }

    #[test]
    fn what_both_cover_is_common() {
        let [watched, there] = [intervals(&[(0, 10), (20, 30)]), intervals(&[(5, 25), (29, 40)])];
        let common = intervals(&[(5, 10), (20, 25), (29, 30)]);
        assert_eq!(watched.intersection(&there), common);
        assert_eq!(there.intersection(&watched), common);
        assert!((common.seconds() - 11.0).abs() < 1e-9);
    }

    #[test]
    fn what_one_covers_and_not_the_other_is_the_difference() {
        let [watched, there] = [intervals(&[(0, 10), (20, 30)]), intervals(&[(5, 25), (27, 28)])];
        assert_eq!(watched.difference(&there), intervals(&[(0, 5), (25, 27), (28, 30)]));
        assert_eq!(there.difference(&watched), intervals(&[(10, 20)]));
        assert_eq!(watched.difference(&watched), TimeIntervals::default());
        assert_eq!(watched.difference(&TimeIntervals::default()), watched);
    }

    #[test]
    fn the_end_of_a_span_is_that_of_the_span_around() {
        let spans = intervals(&[(0, 10), (20, 30)]);
        let end = |second: i64| {
            spans.end_of(Timestamp::from_micros(second * 1_000_000)).map(Timestamp::second)
        };
        assert_eq!([0, 10, 15, 20, 31].map(end), [Some(10), Some(10), None, Some(30), None]);
    }
}
