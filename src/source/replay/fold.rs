//! The fleet at a position of the files: lines applied in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fleet::Node;
use crate::model::{JobList, Link, NodeName};
use crate::record::{Content, Cursor, NextLine, Read, RecordedLine, Recording};
use crate::source::pipeline::NodePipeline;
use crate::source::replay::Recordings;
use crate::time::Timestamp;
use crate::wire::{Delivery, NodeEvent};

/// A node that two files have is taken from the one that has had it, until that is silent for this long.
const SILENCE: Duration = Duration::from_secs(90);
/// Nodes of all files together; hostile files could name any number.
const MAX_NODES: usize = 16_384;

/// The nodes and jobs at a position of the files.
#[derive(Debug)]
pub(super) struct Fold {
    streams: Vec<RecordingStream>,
    nodes: BTreeMap<NodeName, FoldedNode>,
    history_span: Duration,
}

/// One file at a position.
#[derive(Debug)]
struct RecordingStream {
    cursor: Cursor,
    roster: Vec<NodeName>,
    jobs: Option<Arc<JobList>>,
    /// Counts the checkpoints.
    checkpoint: u64,
    at: Timestamp,
    /// No line follows.
    is_over: bool,
}

/// A node, and the file it is taken from.
#[derive(Debug)]
struct FoldedNode {
    pipeline: NodePipeline,
    owner: Option<usize>,
    /// The checkpoint of its file whose lines apply; those of others repeat what is known.
    restoring: Option<u64>,
    heard_at: Timestamp,
}

/// What a line has changed.
pub(super) enum Change {
    Node(Arc<Node>),
    Roster,
    Nothing,
}

impl Fold {
    /// Starts at the last checkpoints before `from`.
    pub(super) fn new(recordings: &Recordings, from: Timestamp, history_span: Duration) -> Self {
        let stream = |recording: &Arc<Recording>| {
            let segments = recording.segments();
            let segment = segments.iter().rposition(|segment| segment.first <= from);
            RecordingStream {
                cursor: Cursor::new(Arc::clone(recording), segment.unwrap_or(0)),
                roster: Vec::new(),
                jobs: None,
                checkpoint: 0,
                at: Timestamp::default(),
                is_over: false,
            }
        };
        let streams = recordings.0.iter().map(stream).collect();
        Self { streams, nodes: BTreeMap::new(), history_span }
    }

    /// Applies the lines up to a time, in their order.
    pub(super) fn advance(&mut self, to: Timestamp, is_cancelled: &AtomicBool) {
        while let Some(file) = self.next_stream(to)
            && !is_cancelled.load(Ordering::Relaxed)
        {
            self.step(file);
        }
    }

    /// Returns the file with the earliest line, if it is not later than `to`.
    pub(super) fn next_stream(&mut self, to: Timestamp) -> Option<usize> {
        let mut first: Option<(Timestamp, usize)> = None;
        for (file, stream) in self.streams.iter_mut().enumerate() {
            let next = stream.cursor.next_time();
            stream.is_over = next == NextLine::None;
            let at = match next {
                NextLine::At(at) => at,
                NextLine::Undated | NextLine::Damaged => stream.at,
                NextLine::None => continue,
            };
            if first.is_none_or(|(known, _)| at < known) {
                first = Some((at, file));
            }
        }
        first.filter(|(at, _)| *at <= to).map(|(_, file)| file)
    }

    /// Applies the next line of a file.
    pub(super) fn step(&mut self, file: usize) -> Change {
        let Some(read) = self.streams.get_mut(file).and_then(|stream| stream.cursor.read()) else {
            return Change::Nothing;
        };
        match read {
            Read::Line(line) => self.apply(file, line),
            Read::Damaged => {
                self.release_nodes(file);
                Change::Nothing
            }
        }
    }

    /// The nodes of a file continue at its next checkpoint, or with their next session.
    fn release_nodes(&mut self, file: usize) {
        for node in self.nodes.values_mut().filter(|node| node.owner == Some(file)) {
            (node.owner, node.restoring) = (None, None);
        }
    }

    fn apply(&mut self, file: usize, line: RecordedLine) -> Change {
        let RecordedLine { at, is_checkpoint, content } = line;
        if let Some(stream) = self.streams.get_mut(file)
            && !is_checkpoint
        {
            stream.at = at;
        }
        match content {
            Content::Node(name, event) => {
                self.apply_to_node(file, name, is_checkpoint, &Delivery { at, event })
            }
            Content::Roster(roster, jobs) => {
                let Some(stream) = self.streams.get_mut(file) else { return Change::Nothing };
                stream.checkpoint += u64::from(is_checkpoint);
                (stream.roster, stream.jobs) = (roster, jobs);
                Change::Roster
            }
            Content::Header(_) | Content::Lost => {
                self.release_nodes(file);
                Change::Nothing
            }
            Content::Mark(_) | Content::End | Content::Unknown => Change::Nothing,
        }
    }

    fn apply_to_node(
        &mut self,
        file: usize,
        name: NodeName,
        is_checkpoint: bool,
        delivery: &Delivery,
    ) -> Change {
        let Some(stream) = self.streams.get(file) else { return Change::Nothing };
        let (checkpoint, now) = (stream.checkpoint, stream.at);
        if !self.nodes.contains_key(&name) && self.nodes.len() >= MAX_NODES {
            return Change::Nothing;
        }
        let history_span = self.history_span;
        let node = self.nodes.entry(name).or_insert_with_key(|name| FoldedNode {
            pipeline: NodePipeline::new(name.clone(), history_span),
            owner: None,
            restoring: None,
            heard_at: now,
        });
        let is_over = |owner: usize| self.streams.get(owner).is_none_or(|stream| stream.is_over);
        let is_owned_by_others = node.owner.is_some_and(|owner| owner != file && !is_over(owner))
            && now.since(node.heard_at) < SILENCE;
        if is_owned_by_others {
            return Change::Nothing;
        }
        let is_session_start = matches!(delivery.event, NodeEvent::Link(Link::Opening { .. }));
        if node.owner != Some(file) {
            if !is_checkpoint && !is_session_start {
                return Change::Nothing;
            }
            node.owner = Some(file);
            node.restoring = is_checkpoint.then_some(checkpoint);
            if is_checkpoint {
                // What is known of an earlier session does not continue.
                let event = NodeEvent::Link(Link::Opening { attempt: 1 });
                node.pipeline.apply(&Delivery { at: delivery.at, event });
            }
        }
        if is_checkpoint && node.restoring != Some(checkpoint) {
            return Change::Nothing;
        }
        node.heard_at = now.max(node.heard_at);
        if node.pipeline.apply(delivery) {
            Change::Node(node.pipeline.node())
        } else {
            Change::Nothing
        }
    }

    /// Returns the time that a file is at, the nodes that it lists, and its jobs.
    pub(super) fn listed(&self, file: usize) -> Option<(Timestamp, &[NodeName])> {
        self.streams.get(file).map(|stream| (stream.at, &*stream.roster))
    }

    /// Returns the number of groups that were damaged, and passed by.
    pub(super) fn damaged_groups(&self) -> u32 {
        self.streams.iter().map(|stream| stream.cursor.damaged_groups()).sum()
    }

    /// Goes on in later states of the same files.
    pub(super) fn update_files(&mut self, recordings: &Recordings) {
        for (stream, recording) in self.streams.iter_mut().zip(&recordings.0) {
            stream.cursor.update(Arc::clone(recording));
        }
    }

    /// Returns the nodes that the files list, and their jobs.
    pub(super) fn picture(&self) -> (Vec<Arc<Node>>, Option<Arc<JobList>>) {
        let nodes = self.names().into_iter().map(|name| match self.nodes.get(&name) {
            Some(node) => node.pipeline.node(),
            None => Arc::new(Node::new(name, self.history_span)),
        });
        (nodes.collect(), self.jobs())
    }

    /// Returns the nodes that the files list, each once.
    pub(super) fn names(&self) -> Vec<NodeName> {
        let mut seen = BTreeSet::new();
        let names = self.streams.iter().flat_map(|stream| &stream.roster);
        names.filter(|name| seen.insert(*name)).take(MAX_NODES).cloned().collect()
    }

    /// Returns the jobs of all files; of a job that several list, the newest state.
    pub(super) fn jobs(&self) -> Option<Arc<JobList>> {
        let mut lists: Vec<&Arc<JobList>> =
            self.streams.iter().filter_map(|stream| stream.jobs.as_ref()).collect();
        lists.sort_by_key(|list| std::cmp::Reverse(list.at));
        let (first, others) = lists.split_first()?;
        if others.is_empty() {
            return Some(Arc::clone(first));
        }
        let mut merged = JobList::clone(first);
        for job in others.iter().flat_map(|list| &list.jobs) {
            if merged.job(&job.id).is_none() {
                merged.jobs.push(job.clone());
            }
        }
        Some(Arc::new(merged))
    }
}
