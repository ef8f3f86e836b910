//! The moments of a recording that a person steps to: those with marks, and those at which all nodes have sent a sample.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::record::{Content, Cursor, Read, RecordedLine, Recording};
use crate::source::replay::Recordings;
use crate::wire::RawUpdate;
use gtop_local::time::Timestamp;
use gtop_model::{Mark, NodeName};

/// The marks of a moment are at most this far apart.
const MOMENT_SPAN: Duration = Duration::from_secs(1);
/// A moment that has just passed is the one that is looked at.
const LOOKED_AT: Duration = Duration::from_millis(1500);
/// How far samples are looked for: few nodes are sampled less often than every hour.
const SAMPLE_SPANS: [Duration; 3] =
    [Duration::from_secs(10), Duration::from_secs(150), Duration::from_secs(7_200)];

/// Marks that are noticed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MarkedMoment<'a>(&'a [Mark]);

impl<'a> MarkedMoment<'a> {
    /// Returns the first moment after a time.
    pub(super) fn after(marks: &'a [Mark], now: Timestamp) -> Option<Self> {
        moments(marks).into_iter().find(|moment| moment.start() > now)
    }

    /// Returns the last moment before a time and before the one that is looked at.
    pub(super) fn before(marks: &'a [Mark], now: Timestamp) -> Option<Self> {
        let mut passed = moments(marks);
        passed.retain(|moment| moment.start() <= now);
        let last = *passed.last()?;
        if now.since(last.end()) <= LOOKED_AT {
            passed.pop();
        }
        passed.pop()
    }

    fn start(self) -> Timestamp {
        self.0.first().map(|mark| mark.at).unwrap_or_default()
    }

    /// Returns the time at which all of it is known.
    pub(super) fn end(self) -> Timestamp {
        self.0.last().map(|mark| mark.at).unwrap_or_default()
    }

    /// Returns the text of its worst mark, and the number of others.
    pub(super) fn text(self) -> Arc<str> {
        let worst = self.0.iter().min_by_key(|mark| mark.severity);
        let text = worst.map(|mark| Arc::clone(&mark.text)).unwrap_or_default();
        match self.0.len() {
            0 | 1 => text,
            2 => format!("{text}, and another event").into(),
            count => format!("{text}, and {} other events", count - 1).into(),
        }
    }
}

fn moments(marks: &[Mark]) -> Vec<MarkedMoment<'_>> {
    let (mut moments, mut rest) = (Vec::new(), marks);
    while let Some(first) = rest.first() {
        let count = rest.partition_point(|mark| mark.at <= first.at.plus(MOMENT_SPAN));
        let (moment, others) = rest.split_at(count.max(1).min(rest.len()));
        moments.push(MarkedMoment(moment));
        rest = others;
    }
    moments
}

/// A sample: its time, and the position of its file and the node that sent it.
type SampleTime = (Timestamp, (usize, NodeName));

impl Recordings {
    /// Returns the time after the next sample of each node; the end if none sends two any more.
    pub(super) fn next_round(&self, now: Timestamp) -> Option<Timestamp> {
        SAMPLE_SPANS.into_iter().find_map(|span| next_round(&self.samples(now, now.plus(span))))
    }

    /// Returns the time before the last sample of each node.
    pub(super) fn previous_round(&self, now: Timestamp) -> Option<Timestamp> {
        SAMPLE_SPANS
            .into_iter()
            .find_map(|span| previous_round(&self.samples(now.minus(span), now)))
    }

    /// Returns the samples after a time, up to another one, in rising order.
    fn samples(&self, after: Timestamp, to: Timestamp) -> Vec<SampleTime> {
        let files = self.files.iter().enumerate();
        let mut samples: Vec<SampleTime> = files
            .flat_map(|(file, recording)| {
                let of_file = samples(recording, after, to).into_iter();
                of_file.map(move |(at, node)| (at, (file, node)))
            })
            .collect();
        samples.sort_by_key(|(at, _)| *at);
        samples
    }
}

fn samples(
    recording: &Arc<Recording>,
    after: Timestamp,
    to: Timestamp,
) -> Vec<(Timestamp, NodeName)> {
    let mut cursor = Cursor::new(Arc::clone(recording), after);
    let mut samples = Vec::new();
    while let Some(read) = cursor.read() {
        let Read::Line(RecordedLine { at, is_checkpoint: false, content }) = read else { continue };
        if at > to {
            break;
        }
        if let Content::Node(node, RawUpdate::Frame(frame)) = content
            && at > after
            && frame.is_sample()
        {
            samples.push((at, node));
        }
    }
    samples
}

/// Returns the time of the last sample before a node sends another one.
fn next_round(samples: &[SampleTime]) -> Option<Timestamp> {
    let mut seen = BTreeSet::new();
    let repeated = samples.iter().position(|(_, sender)| !seen.insert(sender))?;
    samples.get(repeated.checked_sub(1)?).map(|(at, _)| *at)
}

/// Returns the time of the last sample of a node before its newest one.
fn previous_round(samples: &[SampleTime]) -> Option<Timestamp> {
    let mut seen = BTreeSet::new();
    let repeated = samples.iter().rev().find(|(_, sender)| !seen.insert(sender));
    repeated.map(|(at, _)| *at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::MarkKind;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_micros(millis * 1_000)
    }

    #[test]
    fn events_at_once_are_one_moment_in_both_directions() {
        let mark =
            |(millis, kind, text): (i64, MarkKind, &str)| Mark::plain(at(millis), kind, text);
        let marks: Vec<Mark> = [
            (10_000, MarkKind::Job, "job 7 started"),
            (10_400, MarkKind::Down, "a is down"),
            (10_900, MarkKind::Up, "b is back"),
            (12_000, MarkKind::Up, "a is back"),
            (60_000, MarkKind::Stale, "c is stale"),
            (60_001, MarkKind::Stale, "d is stale"),
        ]
        .map(mark)
        .into();
        let told = |moment: Option<MarkedMoment<'_>>| {
            moment.map(|moment| (moment.end(), moment.text().to_string()))
        };
        let expected = [
            (at(10_900), "a is down, and 2 other events".to_owned()),
            (at(12_000), "a is back".to_owned()),
            (at(60_001), "c is stale, and another event".to_owned()),
        ];
        let mut now = at(0);
        for moment in &expected {
            assert_eq!(told(MarkedMoment::after(&marks, now)).as_ref(), Some(moment));
            now = moment.0;
        }
        assert_eq!(told(MarkedMoment::after(&marks, now)), None);
        for moment in expected[..2].iter().rev() {
            // A person presses the key again while the moment has just passed.
            now = now.plus(Duration::from_millis(500));
            assert_eq!(told(MarkedMoment::before(&marks, now)).as_ref(), Some(moment));
            now = moment.0;
        }
        assert_eq!(told(MarkedMoment::before(&marks, now)), None);
        assert_eq!(told(MarkedMoment::before(&marks, at(40_000))).as_ref(), Some(&expected[1]));
        // One that comes soon is not passed over.
        assert_eq!(told(MarkedMoment::after(&marks, at(9_999))).as_ref(), Some(&expected[0]));
    }

    #[test]
    fn a_round_has_one_sample_of_each_node() {
        let name = |name: &str| NodeName::new(name).unwrap();
        let samples: Vec<SampleTime> =
            [("a", 1), ("b", 2), ("a", 11), ("c", 12), ("b", 13), ("a", 21)]
                .map(|(node, millis)| (at(millis), (0, name(node))))
                .into();
        assert_eq!(next_round(&samples), Some(at(2)));
        assert_eq!(next_round(&samples[2..]), Some(at(13)));
        assert_eq!(next_round(&samples[3..]), None);
        assert_eq!(previous_round(&samples), Some(at(11)));
        assert_eq!(previous_round(&samples[..5]), Some(at(2)));
        assert_eq!(previous_round(&samples[..2]), None);
    }
}
