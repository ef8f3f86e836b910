//! What is recorded of nodes while one looks at them: more than their history holds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::fleet::Node;
use crate::model::{Bytes, Link, NodeName, Percent};
use crate::time::Timestamp;
use crate::view::node::chart::Metric;

/// Seconds that are kept.
const KEEP: usize = 400;
/// Nodes that are kept; what was looked at first is forgotten first.
const NODES: usize = 8;
/// The point of a second in which nothing was known.
const NOTHING: u8 = u8::MAX;

/// What is recorded; each a share, in halves of a percent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Track {
    /// Something of a device.
    Device(Arc<str>, Metric),
    /// Memory of the machine in use.
    HostMemory,
    /// Swap space in use.
    Swap,
}

/// The tracks of the nodes looked at last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracks {
    nodes: VecDeque<Recorded>,
}

#[derive(Clone, Debug)]
struct Recorded {
    name: NodeName,
    /// The second of the last point of each track.
    second: i64,
    tracks: BTreeMap<Track, VecDeque<u8>>,
}

impl Tracks {
    /// Takes note of how a node stands, once a second.
    pub(super) fn record(&mut self, node: &Node, now: Timestamp) {
        let second = now.as_micros().div_euclid(1_000_000);
        let known = self.nodes.iter().position(|known| known.name == node.name);
        let mut own = match known.and_then(|place| self.nodes.remove(place)) {
            Some(own) => own,
            None => Recorded { name: node.name.clone(), second, tracks: BTreeMap::new() },
        };
        own.advance(second);
        for (track, share) in present(node, now) {
            own.put(track, share);
        }
        self.nodes.push_back(own);
        if self.nodes.len() > NODES {
            self.nodes.pop_front();
        }
    }

    /// Returns the `count` seconds up to `now`, oldest first.
    pub(super) fn last(
        &self,
        node: &Node,
        track: &Track,
        now: Timestamp,
        count: usize,
    ) -> Vec<Option<f32>> {
        let known = self.nodes.iter().find(|known| known.name == node.name);
        let found = known.and_then(|own| Some((own.second, own.tracks.get(track)?)));
        let Some((last, points)) = found else { return vec![None; count] };
        let now = now.as_micros().div_euclid(1_000_000);
        let point = |ago: usize| {
            let second = now - i64::try_from(ago).ok()?;
            let back = usize::try_from(last - second).ok()?;
            let place = points.len().checked_sub(back + 1)?;
            points
                .get(place)
                .filter(|point| **point != NOTHING)
                .map(|point| f32::from(*point) / 2.0)
        };
        (0..count).rev().map(point).collect()
    }
}

impl Recorded {
    /// Moves on to a second; what is played again begins anew.
    fn advance(&mut self, second: i64) {
        let Ok(passed) = usize::try_from(second - self.second) else {
            self.tracks.clear();
            self.second = second;
            return;
        };
        self.second = second;
        for points in self.tracks.values_mut() {
            points.extend(std::iter::repeat_n(NOTHING, passed.min(KEEP)));
            let surplus = points.len().saturating_sub(KEEP);
            points.drain(..surplus);
        }
        self.tracks.retain(|_, points| points.iter().any(|point| *point != NOTHING));
    }

    fn put(&mut self, track: Track, share: f32) {
        let points = self.tracks.entry(track).or_insert_with(|| VecDeque::from([NOTHING]));
        if let Some(last) = points.back_mut() {
            *last = halves(share);
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is clamped to what fits"
)]
fn halves(share: f32) -> u8 {
    (share * 2.0).round().clamp(0.0, 200.0) as u8
}

/// Returns everything that is known and fresh.
fn present(node: &Node, now: Timestamp) -> Vec<(Track, f32)> {
    let mut all = Vec::new();
    if node.link != Link::Up {
        return all;
    }
    if node.host_freshness(now).is_fresh() {
        let fast = &node.host.fast;
        all.extend(
            filled(fast.memory_total.get(), fast.memory_available.get())
                .map(|share| (Track::HostMemory, share)),
        );
        all.extend(
            filled(fast.swap_total.get(), fast.swap_free.get()).map(|share| (Track::Swap, share)),
        );
    }
    for (place, device) in node.devices.iter().enumerate() {
        if device.fault.is_some() || !node.device_freshness(place, now).is_fresh() {
            continue;
        }
        let recorded = Metric::ALL.into_iter().filter(|metric| metric.history().is_none());
        all.extend(recorded.filter_map(|metric| {
            Some((Track::Device(Arc::clone(&device.uuid), metric), metric.share(device)?))
        }));
    }
    all
}

/// Returns the share of something that is not free.
pub(super) fn filled(total: Option<Bytes>, free: Option<Bytes>) -> Option<f32> {
    let (total, free) = (total?, free?);
    Percent::of(total.0.saturating_sub(free.0), total.0).map(Percent::get)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::SourceState;
    use crate::model::{Reading, Source};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn node(name: &str, free: u64, second: i64) -> Node {
        let mut node = Node::new(NodeName::new(name).unwrap(), Duration::ZERO);
        node.link = Link::Up;
        node.sources = vec![SourceState {
            source: Source::host(),
            taken_at: Some(at(second)),
            interval: Duration::from_secs(1),
            fault: None,
            absent: None,
        }];
        node.host.fast.memory_total = Reading::Known(Bytes(100));
        node.host.fast.memory_available = Reading::Known(Bytes(free));
        node
    }

    fn last(tracks: &Tracks, second: i64, count: usize) -> Vec<Option<f32>> {
        tracks.last(&node("a", 0, 0), &Track::HostMemory, at(second), count)
    }

    #[test]
    fn a_second_has_one_point_and_a_gap_stays_one() {
        let mut tracks = Tracks::default();
        for (second, free) in [(10, 90), (10, 80), (11, 70), (14, 60)] {
            tracks.record(&node("a", free, second), at(second));
        }
        let known = [Some(20.0), Some(30.0), None, None, Some(40.0)];
        assert_eq!(last(&tracks, 14, 5), known);
        assert_eq!(last(&tracks, 15, 3), [None, Some(40.0), None]);
        assert_eq!(last(&tracks, 14, 7)[..2], [None, None]);
        // What is old is no point of now.
        tracks.record(&node("a", 60, 14), at(30));
        assert_eq!(last(&tracks, 30, 2), [None, None]);
    }

    #[test]
    fn what_is_played_again_begins_anew() {
        let mut tracks = Tracks::default();
        tracks.record(&node("a", 90, 10), at(10));
        tracks.record(&node("a", 80, 5), at(5));
        assert_eq!(last(&tracks, 10, 1), [None]);
        assert_eq!(last(&tracks, 5, 1), [Some(20.0)]);
    }

    #[test]
    fn few_nodes_and_few_minutes_are_kept() {
        let mut tracks = Tracks::default();
        for second in 0..1_000 {
            tracks.record(&node("a", 90, second), at(second));
        }
        assert_eq!(last(&tracks, 999, 1_000).iter().flatten().count(), KEEP);
        tracks.record(&node("a", 90, 1_000_000), at(1_000_000));
        assert_eq!(last(&tracks, 1_000_000, KEEP).iter().flatten().count(), 1);
        for number in 0..20 {
            tracks.record(&node(&format!("b{number}"), 90, 5), at(5));
        }
        assert_eq!((tracks.nodes.len(), last(&tracks, 1_000_000, 1)), (NODES, vec![None]));
    }
}
