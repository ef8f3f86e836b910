//! When the scheduler listed jobs, which tells whose a device was while nobody saw it.

use std::collections::{BTreeMap, BTreeSet};

use gtop_local::time::Timestamp;
use gtop_model::JobId;

/// Times in which one job was listed; of more, the last ones.
const MAX_SPANS: usize = 100;

/// When the scheduler listed each job with nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobListings {
    /// The times of each without a break, the first one first.
    spans: BTreeMap<JobId, Vec<ListedSpan>>,
    /// The time of the first list.
    first_at: Option<Timestamp>,
}

/// A time without a break in which a job was listed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ListedSpan {
    pub(crate) since: Timestamp,
    /// `None` while it is.
    pub(crate) until: Option<Timestamp>,
}

impl JobListings {
    /// Takes a list.
    pub fn update(&mut self, at: Timestamp, listed: &BTreeSet<JobId>) {
        self.first_at.get_or_insert(at);
        self.end_others(at, |job| listed.contains(job));
        for job in listed.iter().filter(|job| !self.is_listed(job)).collect::<Vec<_>>() {
            self.add(job.clone(), ListedSpan { since: at, until: None });
        }
    }

    fn add(&mut self, job: JobId, span: ListedSpan) {
        let spans = self.spans.entry(job).or_default();
        if spans.len() >= MAX_SPANS {
            spans.remove(0);
        }
        spans.push(span);
    }

    fn end_others(&mut self, at: Timestamp, is_listed: impl Fn(&JobId) -> bool) {
        let others = self.spans.iter_mut().filter(|(job, _)| !is_listed(job));
        let open = others.filter_map(|(_, spans)| spans.last_mut());
        open.filter(|span| span.until.is_none()).for_each(|span| span.until = Some(at));
    }

    /// Adds the lists of the span that follows.
    pub fn merge(&mut self, other: Self) {
        if let Some(at) = other.first_at {
            let goes_on = |job: &JobId| {
                other
                    .spans
                    .get(job)
                    .and_then(|spans| spans.first())
                    .is_some_and(|span| span.since <= at)
            };
            self.end_others(at, goes_on);
        }
        self.first_at = self.first_at.or(other.first_at);
        for (job, spans) in other.spans {
            for span in spans {
                let open = self.spans.get_mut(&job).and_then(|spans| spans.last_mut());
                match open.filter(|open| open.until.is_none()) {
                    Some(open) => open.until = span.until,
                    None => self.add(job.clone(), span),
                }
            }
        }
    }

    /// Returns the times of each job.
    pub(crate) fn spans(&self) -> impl Iterator<Item = (&JobId, &[ListedSpan])> {
        self.spans.iter().map(|(job, spans)| (job, &**spans))
    }

    /// Returns the time of the first list.
    pub(crate) fn first_at(&self) -> Option<Timestamp> {
        self.first_at
    }

    /// Sets the time of the first list, and the times of each job.
    pub(crate) fn set(
        &mut self,
        first_at: Option<Timestamp>,
        spans: BTreeMap<JobId, Vec<ListedSpan>>,
    ) {
        *self = Self { spans, first_at };
    }

    /// Returns since when a job was listed at a time, or at last.
    pub fn since(&self, job: &JobId, at: Timestamp) -> Option<Timestamp> {
        let spans = self.spans.get(job)?;
        let around = spans.iter().rfind(|span| span.since <= at);
        around.or(spans.last()).map(|span| span.since)
    }

    /// Returns true if a job is listed at last.
    pub fn is_listed(&self, job: &JobId) -> bool {
        self.spans.get(job).and_then(|spans| spans.last()).is_some_and(|span| span.until.is_none())
    }

    /// Returns which part of a time a job held a device that it held before or after it; `None` if that is not known, as it
    /// was listed all the time.
    pub fn held_part(
        &self,
        job: &JobId,
        (from, to): (Timestamp, Timestamp),
        is_before: bool,
    ) -> Option<(Timestamp, Timestamp)> {
        let is_within = |at: &Timestamp| (from..=to).contains(at);
        let mut spans = self.spans.get(job)?.iter();
        if is_before {
            let until = spans.find_map(|span| span.until.filter(is_within))?;
            return Some((from, until));
        }
        let since = spans.rev().map(|span| span.since).find(is_within)?;
        Some((since, to))
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
                [&one, &two, &three].map(|id| jobs.since(id, at(100))),
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
