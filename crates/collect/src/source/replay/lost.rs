//! What of a recording could not be read.

use std::time::Duration;

use gtop_local::time::{Timestamp, format_duration};

/// The lines that a walk over recordings could not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostLines {
    /// Groups of lines that are damaged.
    pub groups: u32,
    /// The times before and after them, in rising order and apart.
    pub gaps: Vec<(Timestamp, Timestamp)>,
}

impl LostLines {
    /// Adds what another walk could not read; what both passed counts once.
    pub fn merge(&mut self, other: Self) {
        let known = other.gaps.iter().filter(|gap| self.gaps.contains(gap)).count();
        self.groups += other.groups.saturating_sub(u32::try_from(known).unwrap_or(u32::MAX));
        self.gaps.extend(other.gaps);
        self.gaps.sort_unstable();
        self.gaps.dedup();
    }

    /// Returns the time for which lines are missing.
    pub fn duration(&self) -> Duration {
        self.gaps.iter().map(|(from, to)| to.since(*from)).sum()
    }

    /// Returns it as a sentence; `None` if nothing is lost.
    pub fn text(&self) -> Option<String> {
        let parts = match self.groups {
            0 => return None,
            1 => "a damaged part is skipped".to_owned(),
            count => format!("{count} damaged parts are skipped"),
        };
        let missing = format_duration(self.duration());
        Some(format!(
            "{parts}: {missing} are missing, and what was not sent again is unknown for a minute"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_that_two_walks_passed_counts_once() {
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let lost = |gaps: &[(i64, i64)]| LostLines {
            groups: u32::try_from(gaps.len()).unwrap(),
            gaps: gaps.iter().map(|(from, to)| (at(*from), at(*to))).collect(),
        };
        let mut all = LostLines::default();
        assert_eq!(all.text(), None);
        all.merge(lost(&[(10, 12)]));
        let text = all.text().unwrap();
        assert!(text.starts_with("a damaged part is skipped: 2s are missing"), "{text}");
        all.merge(lost(&[(10, 12), (20, 23)]));
        assert_eq!(all, lost(&[(10, 12), (20, 23)]));
        let text = all.text().unwrap();
        assert!(text.starts_with("2 damaged parts are skipped: 5s are missing"), "{text}");
    }
}
