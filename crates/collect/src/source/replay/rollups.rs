//! Sums over a span of time: from those that recorders have written, and from samples where there are none.

use std::sync::atomic::AtomicBool;

use crate::record::{Rollup, RollupBuilder, Segment};
use crate::source::replay::{FoldedChange, Recordings};
use gtop_local::time::Timestamp;

impl Recordings {
    /// Returns the sums of all devices from a time to another. Those that are written are read, the rest is added up.
    pub fn rollup(&self, from: Timestamp, to: Timestamp) -> Rollup {
        let mut sums = RollupSoFar { recordings: self, done: from, sums: Rollup::default() };
        // Where files overlap, nodes would count twice.
        for file in self.0.iter().filter(|_| self.are_apart()) {
            for stretch in file.segments().split_inclusive(|segment| file.ends_stretch(segment)) {
                let is_within = |one: &Segment| one.first >= from && one.last <= to;
                let last = stretch.last().filter(|_| stretch.iter().all(is_within));
                let of_stretch = last.and_then(|last| file.rollup_of_stretch(last));
                let of_stretch = of_stretch.filter(|((begin, _), _)| *begin >= sums.done);
                // A recorder that was killed has left segments without such sums.
                let is_alone = |segment: &&Segment| {
                    of_stretch.as_ref().is_none_or(|((begin, _), _)| segment.last <= *begin)
                };
                for segment in stretch.iter().filter(|one| is_within(one)).filter(is_alone) {
                    sums.add_written(file.rollup(segment));
                }
                sums.add_written(of_stretch);
            }
        }
        sums.add_samples(to);
        sums.sums
    }

    /// Returns the sums from a time to another, added up from samples.
    pub fn rollup_of_samples(&self, from: Timestamp, to: Timestamp) -> Rollup {
        let mut sums = Rollup::default();
        for (first, last) in self.spans() {
            let (first, last) = (first.max(from), last.min(to));
            if last <= first {
                continue;
            }
            let mut builder = RollupBuilder::new(first);
            self.walk(first, last, &AtomicBool::new(false), |line| match &line.change {
                FoldedChange::Node(node) => builder.on_node(line.at, node),
                FoldedChange::Roster(names, jobs) => {
                    builder.set_jobs(jobs.as_ref());
                    builder.set_nodes(line.at, names);
                }
            });
            sums.add(builder.take(last));
        }
        sums
    }

    /// Returns true if no file begins before the one before it ends.
    fn are_apart(&self) -> bool {
        let ends = self.0.iter().map(|file| file.segments().iter().map(|one| one.last).max());
        let starts = self.0.iter().map(|file| file.segments().first().map(|one| one.first));
        ends.zip(starts.skip(1)).all(|(end, start)| start.is_none() || end <= start)
    }
}

/// The sums up to a time.
struct RollupSoFar<'a> {
    recordings: &'a Recordings,
    done: Timestamp,
    sums: Rollup,
}

impl RollupSoFar<'_> {
    /// Adds sums of a span that follows, and what lies before it.
    fn add_written(&mut self, written: Option<((Timestamp, Timestamp), Rollup)>) {
        if let Some(((from, to), rollup)) = written.filter(|((from, _), _)| *from >= self.done) {
            self.add_samples(from);
            self.sums.add(rollup);
            self.done = to;
        }
    }

    /// Adds what samples say up to a time.
    fn add_samples(&mut self, to: Timestamp) {
        if to > self.done {
            self.sums.add(self.recordings.rollup_of_samples(self.done, to));
        }
    }
}
