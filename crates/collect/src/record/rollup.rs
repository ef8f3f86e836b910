//! Sums over a segment: how long each device was in each state under whom, and what it did in that time.
//!
//! As in reports, values hold from one sample of a device to the next, at most until they are stale, and not beyond the loss
//! of the connection or a time in which the recorder stood still.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::record::line::{self, Content, RecordedLine};
use crate::record::value::is_pause;
use crate::wire::{Decoder, Delivery, Frame};
use gtop_fleet::usage::{DeviceUsage, DeviceValues};
use gtop_fleet::{Certainty, Holder, HoldingsKeeper, LastState, Node, NodeBuilder};
use gtop_local::time::Timestamp;
use gtop_model::{JobList, NodeName, stale_after};

/// Segments of a stretch: half an hour of a sample a second.
const STRETCH_SEGMENTS: u32 = 64;

/// What sums are of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RollupKey {
    /// The node.
    pub node: NodeName,
    /// The UUID of the device.
    pub device: Arc<str>,
    /// What it did.
    pub state: LastState,
    /// Who held it, and whether that is certain; several have equal parts of it.
    pub holders: Arc<[(Holder, bool)]>,
}

/// Sums of all devices over a span of time.
#[derive(Clone, Debug, Default)]
pub struct Rollup(pub BTreeMap<RollupKey, DeviceUsage>);

/// Adds up what nodes do.
#[derive(Debug, Default)]
pub(crate) struct RollupBuilder {
    placing: HoldingsKeeper,
    nodes: BTreeMap<NodeName, Vec<HeldDevice>>,
    /// The sums since this time.
    from: Timestamp,
    sums: Rollup,
}

/// A device whose values hold.
#[derive(Clone, Debug)]
struct HeldDevice {
    uuid: Arc<str>,
    sampled_at: Timestamp,
    /// Since when the values hold, and how long at most; `None` if they do not hold any more.
    held: Option<(Timestamp, Timestamp)>,
    /// What was added up to now: a clock that is set back does not count a time twice.
    counted_to: Timestamp,
    values: DeviceValues,
    holders: Arc<[(Holder, bool)]>,
}

impl RollupBuilder {
    /// Begins at a time.
    pub(crate) fn new(from: Timestamp) -> Self {
        Self { from, ..Self::default() }
    }

    /// Replaces the jobs.
    pub(crate) fn set_jobs(&mut self, jobs: Option<&Arc<JobList>>) {
        self.placing.set_jobs(jobs);
    }

    /// Takes a new state of a node.
    pub(crate) fn on_node(&mut self, at: Timestamp, node: &Arc<Node>) {
        self.placing.note_name(node);
        let mut node = Arc::clone(node);
        self.placing.place(&mut node);
        let mut before = self.nodes.remove(&node.name).unwrap_or_default();
        let mut devices = Vec::with_capacity(before.len());
        for (position, device) in node.units() {
            let known = before.iter().position(|known| known.uuid == device.uuid);
            let mut known = known.map(|known| before.remove(known));
            let source = node.device_sources.get(position).and_then(|source| node.source(source));
            let sampled = source.and_then(|state| Some((state.taken_at?, state.interval)));
            let Some((sampled_at, interval)) = sampled else {
                devices.extend(known);
                continue;
            };
            if let Some(before) = &mut known {
                if before.sampled_at == sampled_at {
                    devices.extend(known);
                    continue;
                }
                self.sums.close(&node.name, before, sampled_at);
            }
            let until = sampled_at.plus(stale_after(interval));
            let counted_to = known.map_or(self.from, |known| known.counted_to);
            devices.push(HeldDevice {
                uuid: Arc::clone(&device.uuid),
                sampled_at,
                held: Some((sampled_at.max(counted_to), until)),
                counted_to,
                values: DeviceValues::of(&node, position, device),
                holders: holders_of(&node, &device.uuid),
            });
        }
        for mut gone in before {
            self.sums.close(&node.name, &mut gone, at);
        }
        if node.fault().is_some() {
            for device in &mut devices {
                self.sums.close(&node.name, device, at);
            }
        }
        self.nodes.insert(node.name.clone(), devices);
    }

    /// Values do not hold beyond a time, as the recorder stands still after it.
    pub(crate) fn pause(&mut self, at: Timestamp) {
        for (name, devices) in &mut self.nodes {
            for device in devices {
                self.sums.close(name, device, at);
            }
        }
    }

    /// Only these nodes are watched from a time on.
    pub(crate) fn set_nodes(&mut self, at: Timestamp, names: &[NodeName]) {
        for (name, devices) in &mut self.nodes {
            if !names.contains(name) {
                for device in devices {
                    self.sums.close(name, device, at);
                }
            }
        }
    }

    /// Returns the sums up to a time, and begins anew there.
    pub(crate) fn take(&mut self, to: Timestamp) -> Rollup {
        self.from = to;
        for (name, devices) in &mut self.nodes {
            for device in devices {
                let held = device.held;
                self.sums.close(name, device, to);
                device.counted_to = device.counted_to.max(to);
                device.held = held.map(|(from, until)| (from.max(to), until));
            }
        }
        std::mem::take(&mut self.sums)
    }
}

impl Rollup {
    /// Adds the sums of another span.
    pub fn add(&mut self, other: Self) {
        for (key, usage) in other.0 {
            *self.0.entry(key).or_default() += &usage;
        }
    }

    /// Adds what has held until a time.
    fn close(&mut self, node: &NodeName, device: &mut HeldDevice, at: Timestamp) {
        let Some((from, until)) = device.held.take() else { return };
        let to = until.min(at);
        if to <= from {
            return;
        }
        device.counted_to = to;
        let is_free = device.values.state == LastState::Free;
        let key = RollupKey {
            node: node.clone(),
            device: Arc::clone(&device.uuid),
            state: device.values.state,
            holders: if is_free { Arc::default() } else { Arc::clone(&device.holders) },
        };
        self.0.entry(key).or_default().add(&device.values, to.since(from).as_secs_f64());
    }
}

fn holders_of(node: &Node, uuid: &str) -> Arc<[(Holder, bool)]> {
    let mut holders: BTreeMap<Holder, bool> = BTreeMap::new();
    for claim in node.holdings.device(uuid).holders() {
        let is_certain = claim.certainty == Certainty::Certain;
        *holders.entry(claim.holder.clone()).or_default() |= is_certain;
    }
    holders.into_iter().collect()
}

/// The sums of segments that follow each other, so that those of a day need not be read one by one.
#[derive(Debug, Default)]
pub(super) struct StretchRollup {
    span: Option<(Timestamp, Timestamp)>,
    segments: u32,
    sums: Rollup,
}

impl StretchRollup {
    /// Adds the sums of the next segment, and returns those of the stretch if it is long enough.
    pub(super) fn add(
        &mut self,
        (from, to): (Timestamp, Timestamp),
        sums: Rollup,
    ) -> Option<((Timestamp, Timestamp), Rollup)> {
        self.span = Some((self.span.map_or(from, |(first, _)| first), to));
        self.segments += 1;
        self.sums.add(sums);
        if self.segments < STRETCH_SEGMENTS { None } else { self.take() }
    }

    /// Ends the stretch, and returns its sums; `None` for a single segment.
    pub(super) fn take(&mut self) -> Option<((Timestamp, Timestamp), Rollup)> {
        let Self { span, segments, sums } = std::mem::take(self);
        span.filter(|_| segments > 1).map(|span| (span, sums))
    }
}

/// Adds up the lines that a recorder writes.
#[derive(Debug, Default)]
pub(super) struct LineRollup {
    nodes: BTreeMap<NodeName, (NodeBuilder, Decoder)>,
    builder: RollupBuilder,
    last_at: Timestamp,
    /// Lines are lost, and the lines of the checkpoint tell what is known.
    is_restoring: bool,
}

impl LineRollup {
    /// Takes lines, of which some frames are decoded already; those of checkpoints repeat what is known.
    pub(super) fn add(&mut self, lines: &[u8], mut frames: VecDeque<Frame>) {
        for text in lines.split(|byte| *byte == b'\n') {
            let Some(line) = line::parse_with(text, &mut frames) else { continue };
            if !line.is_checkpoint {
                let at = line.at;
                self.add_line(line);
                self.last_at = at.max(self.last_at);
            } else if matches!(line.content, Content::Roster(..)) {
                self.is_restoring = false;
            } else if self.is_restoring {
                self.add_line(line);
            }
        }
    }

    fn add_line(&mut self, line: RecordedLine) {
        let RecordedLine { at, content, .. } = line;
        if is_pause(self.last_at, at) {
            self.builder.pause(self.last_at);
        }
        match content {
            Content::Node(name, raw) => {
                let (node, decoder) = self.nodes.entry(name).or_insert_with_key(|name| {
                    (NodeBuilder::new(name.clone(), Duration::ZERO), Decoder::default())
                });
                decoder.updates(&Delivery { at, raw }).for_each(|update| node.apply(update));
                self.builder.on_node(at, &node.node());
            }
            Content::Roster(names, jobs) => {
                self.builder.set_jobs(jobs.as_ref());
                self.builder.set_nodes(at, &names);
                self.nodes.retain(|name, _| names.contains(name));
            }
            Content::Lost(_) => {
                self.builder.pause(at);
                self.nodes.clear();
                self.is_restoring = true;
            }
            Content::Header(_) | Content::Mark(_) | Content::End | Content::Unknown => {}
        }
    }

    /// Returns the sums up to a time and since when they are, and begins anew there; the first ones are from `from` on.
    pub(super) fn take(&mut self, from: Timestamp, to: Timestamp) -> (Timestamp, Rollup) {
        let before = self.builder.from;
        let from = if before == Timestamp::default() { from } else { before };
        (from, self.builder.take(to))
    }
}
