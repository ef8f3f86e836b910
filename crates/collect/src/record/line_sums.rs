//! Sums of what a recorder writes, of stretches of segments.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::record::line::{self, Content, RecordedLine};
use crate::record::value::is_pause;
use crate::sums::{SpanSums, StepGrid, SumBuilder, SumScope, TimeIntervals};
use crate::wire::{Decoder, Delivery, Frame};
use gtop_fleet::NodeBuilder;
use gtop_local::time::Timestamp;
use gtop_model::NodeName;

/// Segments of a stretch: a quarter of an hour of a sample a second. The ends of what is asked for are read from samples.
const STRETCH_SEGMENTS: u32 = 32;

/// By how much a line may be earlier than the one before, if no clock was set back.
const MAX_LATENESS: Duration = Duration::from_secs(1);

/// Adds up the lines that a recorder writes.
#[derive(Debug)]
pub(super) struct LineSums {
    nodes: BTreeMap<NodeName, (NodeBuilder, Decoder)>,
    /// What is added up since a time; `None` before the first line.
    builder: Option<(Timestamp, SumBuilder)>,
    last_at: Timestamp,
    /// The recorder's clock was set back in this stretch: which of its times count depends on where what is asked for begins.
    is_set_back: bool,
    /// Lines are lost, and the lines of the checkpoint tell what is known.
    is_restoring: bool,
    /// The segments that have ended since sums were written, and of how many a stretch is.
    segments: u32,
    stretch_segments: u32,
}

impl Default for LineSums {
    fn default() -> Self {
        Self::of_stretches(STRETCH_SEGMENTS)
    }
}

impl LineSums {
    /// Adds up stretches of so many segments.
    pub(super) fn of_stretches(stretch_segments: u32) -> Self {
        Self {
            nodes: BTreeMap::new(),
            builder: None,
            last_at: Timestamp::default(),
            is_set_back: false,
            is_restoring: false,
            segments: 0,
            stretch_segments,
        }
    }

    /// Takes lines, of which some frames are decoded already; those of checkpoints repeat what is known.
    pub(super) fn add(&mut self, lines: &[u8], mut frames: VecDeque<Frame>) {
        for text in lines.split(|byte| *byte == b'\n') {
            let Some(line) = line::parse_with(text, &mut frames) else { continue };
            if !line.is_checkpoint {
                let at = line.at;
                self.is_set_back |= at.plus(MAX_LATENESS) < self.last_at;
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
        let builder = self.builder.get_or_insert_with(|| (at, SumBuilder::new(unbounded(at))));
        let builder = &mut builder.1;
        if is_pause(self.last_at, at) && self.last_at != Timestamp::default() {
            builder.pause(self.last_at, at);
        }
        match content {
            Content::Node(name, raw) => {
                let (node, decoder) = self.nodes.entry(name).or_insert_with_key(|name| {
                    (NodeBuilder::new(name.clone(), Duration::ZERO), Decoder::default())
                });
                decoder.updates(&Delivery { at, raw }).for_each(|update| node.apply(update));
                builder.on_node(at, &node.node());
            }
            Content::Roster(names, jobs) => {
                builder.on_roster(0, at, &names, jobs.as_ref());
                let listed: BTreeSet<NodeName> = names.into_iter().collect();
                self.nodes.retain(|name, _| listed.contains(name));
            }
            Content::Lost(_) => {
                builder.pause(self.last_at, at);
                self.nodes.clear();
                self.is_restoring = true;
            }
            Content::Header(_) | Content::Mark(_) | Content::End | Content::Unknown => {}
        }
    }

    /// Ends a segment; returns the sums of the stretch that ends with it, if it is long enough.
    pub(super) fn end_segment(&mut self, at: Timestamp) -> Option<StretchSums> {
        self.segments += 1;
        if self.segments < self.stretch_segments { None } else { self.end_stretch(at) }
    }

    /// Ends a stretch, and begins the next one; returns its sums, if there are any.
    pub(super) fn end_stretch(&mut self, at: Timestamp) -> Option<StretchSums> {
        self.segments = 0;
        let (from, builder) = self.builder.as_mut()?;
        let span = (std::mem::replace(from, at.max(*from)), at);
        let sums = builder.take(at);
        let is_set_back = std::mem::take(&mut self.is_set_back);
        (span.1 > span.0 && !is_set_back).then_some((span, sums))
    }
}

/// The times from which on and to which sums are, and these.
pub(super) type StretchSums = ((Timestamp, Timestamp), SpanSums);

/// Returns what a recorder adds up from a time on.
fn unbounded(from: Timestamp) -> SumScope {
    let recorded = TimeIntervals::new(vec![(from, Timestamp::from_micros(i64::MAX))]);
    SumScope {
        from,
        to: Timestamp::from_micros(i64::MAX),
        begins: from,
        grid: StepGrid::MINUTES,
        recorded_by_file: vec![recorded.clone()],
        recorded,
        has_commands: false,
    }
}
