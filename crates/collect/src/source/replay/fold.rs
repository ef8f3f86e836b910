//! The fleet at a position of the files: lines applied in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::record::{Content, Cursor, NextLine, Read, RecordedLine};
use crate::source::replay::{LostLines, Recordings, is_continued};
use crate::wire::{Decoder, Delivery, RawUpdate};
use gtop_fleet::{Node, NodeBuilder};
use gtop_local::time::Timestamp;
use gtop_model::{JobList, Link, NodeName, SessionUpdate};

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
    /// Lines are missing since the last checkpoint.
    has_gap: bool,
    /// The file before it ends where it begins, and is of the same run of the recorder.
    is_continuation: bool,
    /// When the run of its recorder began; 0 if its start was not read.
    run_at: Timestamp,
    at: Timestamp,
    /// No line follows.
    is_over: bool,
}

/// A node, and the file it is taken from.
#[derive(Debug)]
struct FoldedNode {
    builder: NodeBuilder,
    decoder: Decoder,
    owner: Option<usize>,
    /// The checkpoint of its file whose lines apply; those of others repeat what is known.
    restoring: Option<u64>,
    completeness: Completeness,
    /// Its checkpoint makes up for missing lines, and repeats others.
    is_repaired: bool,
    heard_at: Timestamp,
}

/// How much is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Completeness {
    /// All that was recorded.
    Whole,
    /// No line of it has followed those that are missing.
    Cut,
    /// What was sent since lines are missing, until the next checkpoint or session.
    Partial,
}

/// What a line has changed.
pub(super) enum Change {
    Node(Arc<Node>),
    Roster,
    Nothing,
}

impl FoldedNode {
    /// Begins with a checkpoint, which repeats the events of the run that began at a time.
    fn restore(&mut self, checkpoint: u64, at: Timestamp, run_at: Timestamp) {
        self.is_repaired = self.completeness != Completeness::Whole;
        (self.restoring, self.completeness) = (Some(checkpoint), Completeness::Whole);
        // What is known of an earlier session, or of deliveries before missing ones, does not continue.
        if self.is_repaired {
            self.builder.restore_readings(run_at);
        }
        self.apply(&Delivery { at, raw: SessionUpdate::Link(Link::Opening { attempt: 1 }).into() });
    }

    /// Goes on with a line that stands alone, after missing ones.
    fn go_on(&mut self, is_new: bool, delivery: &Delivery) {
        if !is_new && self.completeness != Completeness::Cut {
            return;
        }
        if matches!(delivery.raw, RawUpdate::Session(_)) {
            self.completeness = Completeness::Cut;
            return;
        }
        self.completeness = Completeness::Partial;
        // What is not sent again is unknown. Frames arrive, so the session is up.
        self.decoder.forget_clock();
        self.builder.forget_readings();
        self.builder.on_link(Link::Up);
    }

    /// Applies one delivery; returns true if the node has changed.
    fn apply(&mut self, delivery: &Delivery) -> bool {
        let mut updates = self.decoder.updates(delivery).peekable();
        let has_changed = updates.peek().is_some();
        updates.for_each(|update| self.builder.apply(update));
        has_changed
    }
}

impl Fold {
    /// Starts at the last checkpoints before `from`.
    pub(super) fn new(recordings: &Recordings, from: Timestamp, history_span: Duration) -> Self {
        let files_before = std::iter::once(None).chain(recordings.files.iter().map(Some));
        let streams = recordings.files.iter().zip(files_before).map(|(recording, before)| {
            let cursor = Cursor::new(Arc::clone(recording), from);
            RecordingStream {
                at: cursor.start().unwrap_or_default(),
                cursor,
                roster: Vec::new(),
                jobs: None,
                checkpoint: 0,
                has_gap: false,
                is_continuation: before.is_some_and(|before| is_continued(before, recording)),
                run_at: Timestamp::default(),
                is_over: false,
            }
        });
        Self { streams: streams.collect(), nodes: BTreeMap::new(), history_span }
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
                self.note_gap(file);
                Change::Nothing
            }
        }
    }

    /// Records that lines of a file are missing.
    fn note_gap(&mut self, file: usize) {
        if let Some(stream) = self.streams.get_mut(file) {
            stream.has_gap = true;
        }
        self.cut_nodes(file);
    }

    /// What the nodes of a file sent is missing up to its next checkpoint, or their next lines.
    fn cut_nodes(&mut self, file: usize) {
        for node in self.nodes.values_mut().filter(|node| node.owner == Some(file)) {
            node.completeness = Completeness::Cut;
        }
    }

    /// A run of the recorder starts. The nodes of another run continue at its first checkpoint, or with their next session.
    fn start_run(&mut self, file: usize, at: Timestamp) {
        for node in self.nodes.values_mut().filter(|node| node.owner == Some(file)) {
            (node.owner, node.restoring) = (None, None);
        }
        let before = file.checked_sub(1).and_then(|before| self.streams.get(before));
        let began = before.map(|before| before.run_at);
        if let Some(stream) = self.streams.get_mut(file) {
            stream.run_at = began.filter(|_| stream.is_continuation).unwrap_or(at);
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
            Content::Node(name, raw) => {
                self.apply_to_node(file, name, is_checkpoint, &Delivery { at, raw })
            }
            Content::Roster(roster, jobs) => {
                let Some(stream) = self.streams.get_mut(file) else { return Change::Nothing };
                stream.checkpoint += u64::from(is_checkpoint);
                stream.has_gap &= !is_checkpoint;
                (stream.roster, stream.jobs) = (roster, jobs);
                Change::Roster
            }
            Content::Header(_) => {
                self.start_run(file, at);
                Change::Nothing
            }
            Content::Lost(_) => {
                self.cut_nodes(file);
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
        let RecordingStream { checkpoint, at: now, has_gap, is_continuation, run_at, .. } = *stream;
        if !self.nodes.contains_key(&name) && self.nodes.len() >= MAX_NODES {
            return Change::Nothing;
        }
        let history_span = self.history_span;
        let node = self.nodes.entry(name.clone()).or_insert_with_key(|name| FoldedNode {
            builder: NodeBuilder::new(name.clone(), history_span),
            decoder: Decoder::default(),
            owner: None,
            restoring: None,
            completeness: Completeness::Whole,
            is_repaired: false,
            heard_at: now,
        });
        let owner = node.owner.filter(|owner| *owner != file);
        let is_read =
            owner.and_then(|owner| self.streams.get(owner)).is_some_and(|stream| !stream.is_over);
        if owner.is_some() && owner == file.checked_sub(1) && is_continuation && !is_read {
            // Its checkpoint repeats what is known.
            (node.owner, node.restoring) = (Some(file), None);
        }
        if is_read && now.since(node.heard_at) < SILENCE {
            return Change::Nothing;
        }
        let is_session_start =
            matches!(delivery.raw, RawUpdate::Session(SessionUpdate::Link(Link::Opening { .. })));
        let is_new = node.owner != Some(file);
        if is_new && !is_checkpoint && !is_session_start && !has_gap {
            return Change::Nothing;
        }
        node.owner = Some(file);
        if is_checkpoint && (is_new || node.completeness != Completeness::Whole) {
            node.restore(checkpoint, delivery.at, run_at);
        } else if is_session_start {
            node.completeness = Completeness::Whole;
        } else if !is_checkpoint {
            node.go_on(is_new, delivery);
        }
        if is_checkpoint && node.restoring != Some(checkpoint) {
            return Change::Nothing;
        }
        node.heard_at = now.max(node.heard_at);
        if !node.apply(delivery) || (is_checkpoint && node.is_repaired) {
            return Change::Nothing;
        }
        let node = node.builder.node();
        // Only a new node may be missing in the list, which is long.
        let is_unlisted = is_new && has_gap && self.list_node(file, name);
        if is_unlisted { Change::Roster } else { Change::Node(node) }
    }

    /// Lists a node of which the line that did so is missing; returns false if it is listed.
    fn list_node(&mut self, file: usize, name: NodeName) -> bool {
        let Some(stream) = self.streams.get_mut(file) else { return false };
        let is_listed = stream.roster.contains(&name);
        stream.roster.extend(Some(name).filter(|_| !is_listed));
        !is_listed
    }

    /// Returns the time that a file is at, the nodes that it lists, and its jobs.
    pub(super) fn listed(&self, file: usize) -> Option<(Timestamp, &[NodeName])> {
        self.streams.get(file).map(|stream| (stream.at, &*stream.roster))
    }

    /// Returns what could not be read.
    pub(super) fn lost(&self) -> LostLines {
        let mut lost = LostLines::default();
        for (number, stream) in self.streams.iter().enumerate() {
            let next = self.streams.get(number + 1).filter(|next| next.is_continuation);
            let begin_of_next = next.and_then(|next| next.cursor.begins());
            let gaps = stream.cursor.gaps().map(|(from, to)| match begin_of_next {
                // What is missing at the end of a part was before the next one.
                Some(begin) if from == to => (from, begin.max(from)),
                _ => (from, to),
            });
            lost.merge(LostLines { gaps: gaps.collect() });
        }
        lost
    }

    /// Goes on in later states of the same files.
    pub(super) fn update_files(&mut self, recordings: &Recordings) {
        for (stream, recording) in self.streams.iter_mut().zip(&recordings.files) {
            stream.cursor.update(Arc::clone(recording));
        }
    }

    /// Returns the nodes that the files list, and their jobs.
    pub(super) fn picture(&self) -> (Vec<Arc<Node>>, Option<Arc<JobList>>) {
        let nodes = self.names().into_iter().map(|name| match self.nodes.get(&name) {
            Some(node) => node.builder.node(),
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
