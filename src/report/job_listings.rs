//! When the scheduler listed jobs, which tells whose a device was while nobody saw it.

use std::collections::{BTreeMap, BTreeSet};

use gtop_local::time::Timestamp;
use gtop_model::JobId;

/// When the scheduler listed each job with nodes.
#[derive(Debug, Default)]
pub(super) struct JobListings {
    spans: BTreeMap<JobId, ListedSpan>,
    /// The time of the first list.
    first_at: Option<Timestamp>,
}

/// The last time without a break in which a job was listed.
#[derive(Clone, Copy, Debug)]
struct ListedSpan {
    since: Timestamp,
    /// `None` while it is.
    until: Option<Timestamp>,
}

impl JobListings {
    /// Takes a list.
    pub(super) fn update(&mut self, at: Timestamp, listed: &BTreeSet<JobId>) {
        self.first_at.get_or_insert(at);
        self.end_others(at, |job| listed.contains(job));
        for job in listed {
            let is_known = self.spans.get(job).is_some_and(|span| span.until.is_none());
            if !is_known {
                self.spans.insert(job.clone(), ListedSpan { since: at, until: None });
            }
        }
    }

    fn end_others(&mut self, at: Timestamp, is_listed: impl Fn(&JobId) -> bool) {
        let open =
            self.spans.iter_mut().filter(|(job, span)| span.until.is_none() && !is_listed(job));
        open.for_each(|(_, span)| span.until = Some(at));
    }

    /// Adds the lists of the span that follows.
    pub(super) fn merge(&mut self, other: Self) {
        if let Some(at) = other.first_at {
            self.end_others(at, |job| other.spans.contains_key(job));
        }
        self.first_at = self.first_at.or(other.first_at);
        for (job, more) in other.spans {
            let known = self.spans.get(&job).filter(|known| known.until.is_none());
            let since = known.map_or(more.since, |known| known.since);
            self.spans.insert(job, ListedSpan { since, ..more });
        }
    }

    /// Returns since when a job is listed.
    pub(super) fn since(&self, job: &JobId) -> Option<Timestamp> {
        self.spans.get(job).map(|span| span.since)
    }

    /// Returns true if a job is listed at last.
    pub(super) fn is_listed(&self, job: &JobId) -> bool {
        self.spans.get(job).is_some_and(|span| span.until.is_none())
    }

    /// Returns which part of a time a job held a device that it held before or after it; `None` if that is not known, as it
    /// was listed all the time.
    pub(super) fn held_part(
        &self,
        job: &JobId,
        (from, to): (Timestamp, Timestamp),
        is_before: bool,
    ) -> Option<(Timestamp, Timestamp)> {
        let span = self.spans.get(job)?;
        let part = if is_before { (from, span.until?) } else { (span.since, to) };
        (part.0 >= from && part.1 <= to).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    /// Takes lists of jobs at times, in parts of this many.
    fn listed(lists: &[(i64, &str)], part: usize) -> JobListings {
        let mut all = JobListings::default();
        for lists in lists.chunks(part) {
            let mut jobs = JobListings::default();
            for (second, ids) in lists {
                jobs.update(at(*second), &ids.split_whitespace().filter_map(JobId::new).collect());
            }
            all.merge(jobs);
        }
        all
    }

    #[test]
    fn jobs_are_listed_from_a_time_to_another_however_it_is_cut() {
        let lists =
            [(10, "1 2"), (20, "1 2 3"), (30, "1 3"), (40, "1 3"), (50, "1 2 3"), (60, "1 2")];
        for part in 1..=lists.len() {
            let jobs = listed(&lists, part);
            let [one, two, three, four] = ["1", "2", "3", "4"].map(|id| JobId::new(id).unwrap());
            assert_eq!(
                [&one, &two, &three, &four].map(|id| jobs.is_listed(id)),
                [true, true, false, false]
            );
            assert_eq!(
                [&one, &two, &three].map(|id| jobs.since(id)),
                [10, 50, 20].map(|since| Some(at(since)))
            );
            let part = |id, from, to, is_before| jobs.held_part(id, (at(from), at(to)), is_before);
            assert_eq!(part(&three, 15, 100, false), Some((at(20), at(100))));
            assert_eq!(part(&three, 45, 100, true), Some((at(45), at(60))));
            // It was listed before and after that.
            assert_eq!((part(&three, 25, 100, false), part(&three, 45, 55, true)), (None, None));
            assert_eq!((part(&one, 15, 100, true), part(&four, 0, 100, true)), (None, None));
        }
    }
}
