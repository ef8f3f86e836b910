//! Sums over a span of time: from those that recorders have written, and from samples where there are none.

use std::sync::atomic::AtomicBool;

use crate::record::{Rollup, RollupBuilder};
use crate::source::replay::{FoldedChange, Recordings};
use gtop_local::time::Timestamp;

impl Recordings {
    /// Returns the sums of all devices from a time to another. Those of whole segments are read, the rest is added up.
    pub fn rollup(&self, from: Timestamp, to: Timestamp) -> Rollup {
        let mut sums = Rollup::default();
        let mut done = from;
        for (span, rollup) in self.written_rollups() {
            if span.0 >= done && span.1 <= to {
                sums.add(self.rollup_of_samples(done, span.0));
                sums.add(rollup);
                done = span.1;
            }
        }
        sums.add(self.rollup_of_samples(done, to));
        sums
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

    /// Returns the sums that recorders have written, in rising order; none if files overlap, whose nodes would count twice.
    fn written_rollups(&self) -> impl Iterator<Item = ((Timestamp, Timestamp), Rollup)> {
        let ends = self.0.iter().map(|file| file.segments().iter().map(|one| one.last).max());
        let starts = self.0.iter().map(|file| file.segments().first().map(|one| one.first));
        let are_apart =
            ends.zip(starts.skip(1)).all(|(end, start)| start.is_none() || end <= start);
        let files = self.0.iter().filter(move |_| are_apart);
        files.flat_map(|file| file.segments().iter().filter_map(|segment| file.rollup(segment)))
    }
}
