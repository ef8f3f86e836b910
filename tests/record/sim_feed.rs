//! The deliveries of simulated nodes without connections, at any times: for tests and benchmarks of recordings.

use std::time::Duration;

use gtop_collect::sim::{DriverState, FleetSpec, Machine, SampleRequest};
use gtop_collect::wire::body::{Body, Sample};
use gtop_collect::wire::{Delivery, FrameReader, RawUpdate, Received, encode};
use gtop_local::time::Timestamp;
use gtop_model::{Link, NodeName, SessionUpdate, TransportKind};

/// Nodes that send a sample per second.
#[derive(Debug)]
pub(crate) struct SimFeed {
    nodes: Vec<FeedNode>,
    start: Timestamp,
    /// Number of the next second: that of those that have passed.
    pub(crate) second: u32,
    /// The values change once in this many seconds, as those of a slow mock do.
    pub(crate) values_every: u32,
    /// Seconds from one sample of a node to the next.
    pub(crate) sample_every: u32,
    /// Samples leave out nothing.
    pub(crate) is_full: bool,
}

#[derive(Debug)]
struct FeedNode {
    name: NodeName,
    machine: Machine,
    since: f64,
    uses_since: f64,
}

impl SimFeed {
    /// Makes the nodes of a fleet, whose time begins at `start`.
    pub(crate) fn new(spec: &FleetSpec, start: Timestamp) -> Self {
        let nodes = spec.names().into_iter().zip(0..).map(|(name, number)| FeedNode {
            machine: Machine::new(spec, number, &name),
            name,
            since: f64::NEG_INFINITY,
            uses_since: f64::NEG_INFINITY,
        });
        Self {
            nodes: nodes.collect(),
            start,
            second: 0,
            values_every: 1,
            sample_every: 1,
            is_full: false,
        }
    }

    /// Returns the names of the nodes.
    pub(crate) fn names(&self) -> impl Iterator<Item = NodeName> {
        self.nodes.iter().map(|node| node.name.clone())
    }

    /// Returns what arrives in the next second, in order; after it comes the next one with samples.
    pub(crate) fn next_second(&mut self) -> Vec<(NodeName, Delivery)> {
        let (second, start) = (self.second, self.start);
        self.second += self.sample_every;
        let count = f64::from(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        let mut deliveries = Vec::new();
        for (node, number) in self.nodes.iter_mut().zip(0_u32..) {
            let t = f64::from(second) + f64::from(number) / count;
            let at = start.plus(Duration::from_secs_f64(t));
            let values_at = t - f64::from(second % self.values_every);
            for raw in node.updates(second, number, self.is_full, (t, values_at)) {
                deliveries.push((node.name.clone(), Delivery { at, raw }));
            }
        }
        deliveries
    }
}

impl FeedNode {
    /// Returns what the node sends at `t`: the values of `values_at`, as new as those of `t`.
    fn updates(
        &mut self,
        second: u32,
        number: u32,
        is_full: bool,
        (t, values_at): (f64, f64),
    ) -> Vec<RawUpdate> {
        let mut raw = Vec::new();
        if second == 0 {
            let updates = [
                SessionUpdate::Link(Link::Opening { attempt: 1 }),
                SessionUpdate::Reached(TransportKind::Native),
                SessionUpdate::Link(Link::Up),
                SessionUpdate::Interval(Duration::from_secs(1)),
            ];
            raw.extend(updates.map(RawUpdate::Session));
            raw.extend(frame(&Body::Hello(self.machine.hello(t, 1.0))));
        }
        for event in self.machine.events(self.since.max(0.0), t) {
            raw.extend(frame(&Body::Event(event)));
        }
        let full = is_full || second == 0 || (second + number).is_multiple_of(60);
        let has_uses = full || second.is_multiple_of(2);
        let request = SampleRequest {
            number: u64::from(second) + 1,
            since: self.since,
            uses_since: self.uses_since,
            full,
            slow: full || second.is_multiple_of(10),
            driver: if has_uses { DriverState::DevicesAndUses } else { DriverState::Devices },
        };
        let mut sample = self.machine.sample(values_at, request);
        set_times(&mut sample, self.machine.clock(t));
        raw.extend(frame(&Body::Sample(sample)));
        self.since = values_at;
        if has_uses {
            self.uses_since = values_at;
        }
        raw
    }
}

fn set_times(sample: &mut Sample, at: f64) {
    sample.at = at;
    sample.host.iter_mut().for_each(|host| host.at = at);
    sample.host_slow.iter_mut().for_each(|slow| slow.at = at);
    sample.processes.iter_mut().for_each(|processes| processes.at = at);
    for backend in &mut sample.backends {
        backend.at = at;
        backend.uses.iter_mut().for_each(|uses| uses.at = at);
    }
}

fn frame(body: &Body) -> Option<RawUpdate> {
    let mut reader = FrameReader::default();
    reader.push(encode(body));
    match reader.next_frame()? {
        Received::Frame(frame) => Some(RawUpdate::Frame(frame)),
        Received::Malformed(_) => None,
    }
}
