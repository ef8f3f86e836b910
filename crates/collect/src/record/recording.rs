//! Reads recordings: finds their segments by the indexes, walks over what is not indexed, and skips what is damaged.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::record::journal;
use crate::record::layout::{self, FileFrame, FileFrameKind, Index, ReadAt};
use crate::record::line::{self, Content, FORMAT, Header, RecordedLine};
use crate::record::marks::MarkLine;
use crate::record::parts;
use crate::record::sum_lines;
use crate::record::value::is_pause;
use crate::sums::SpanSums;
use gtop_local::time::{Timestamp, local_text};
use gtop_model::Mark;

/// Indexes of one file; a recorder writes two per minute.
const MAX_INDEXES: usize = 1 << 20;
/// Gaps of one file that are told; hostile files could have any number.
const MAX_GAPS: usize = 1000;

/// Why a file cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// Nothing is in it.
    #[error("{0} is empty: nothing was recorded")]
    Empty(String),
    /// It does not begin as a recording does.
    #[error("{0} is not a recording of gtop; gtop record -w FILE makes one")]
    Foreign(String),
    /// Its first lines, which tell its format, are damaged: it is played, and not continued.
    #[error("the start of {0} is damaged")]
    NoHeader(String),
    /// It is of a later format.
    #[error(
        "{path} is of format {format}; this gtop reads format {FORMAT}: use the gtop that recorded it, or a newer one"
    )]
    Newer {
        /// The file.
        path: String,
        /// Its format.
        format: u32,
    },
}

/// A group or a block of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupSpan {
    storage: Storage,
    offset: u64,
    length: u32,
    /// Size of the lines; 0 if not known.
    lines: u32,
}

/// Where a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    File,
    Journal,
    /// None can be found here, although there was one.
    Hole,
}

/// The groups and blocks from one checkpoint to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Time of its first line.
    pub first: Timestamp,
    /// Time of its last line.
    pub last: Timestamp,
    /// The times in it in which the recorder stood still.
    pauses: Vec<(Timestamp, Timestamp)>,
    /// Position of its first group in the list of all groups.
    first_group: usize,
    /// Where sums are that end with it, if it has an index.
    sums_at: Option<u64>,
}

impl Segment {
    /// Returns the times that it records, in rising order and apart.
    pub fn spans(&self) -> Vec<(Timestamp, Timestamp)> {
        let mut spans = Vec::new();
        let mut from = self.first;
        for (pause, resumed) in &self.pauses {
            if from <= *pause && *resumed <= self.last {
                spans.push((from, *pause));
                from = *resumed;
            }
        }
        spans.push((from, self.last));
        spans
    }
}

/// One file.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    file: File,
    /// The lines that are in no block yet.
    journal: Vec<u8>,
    /// Why these cannot be read.
    unread_journal: Option<io::Error>,
    /// `None` if it is damaged.
    header: Option<Header>,
    groups: Vec<GroupSpan>,
    /// How many of the groups are in the file; those of the journal follow.
    groups_in_file: usize,
    segments: Vec<Segment>,
    marks: Vec<Mark>,
    /// Where the last whole frame of the file ends.
    pub(super) end: u64,
    /// Where the last whole frame of the journal ends.
    journal_end: u64,
    /// Bytes that belong to no whole frame, without those after the end.
    damaged: u64,
    /// Bytes after the last whole frame.
    torn: u64,
    /// The last index.
    pub(super) last_index: Option<u64>,
    /// The last run has ended properly.
    pub(super) is_ended: bool,
}

impl Recording {
    /// Opens a recording: reads its indexes and what follows the last one.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        // What is cut from the journal meanwhile is in the file then.
        let journal = journal::read(&fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
        let opened = fs::metadata(path).and_then(|known| {
            // Opening a pipe would block until there is a writer.
            if !known.is_file() {
                return Err(io::Error::other("not a regular file"));
            }
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            Ok((file, length))
        });
        let (file, length) = opened.map_err(|source| RecordingError::Unreadable {
            path: path.display().to_string(),
            source,
        })?;
        let (journal, unread_journal) = match journal {
            Ok(journal) => (journal, None),
            Err(error) => (None, Some(error)),
        };
        Ok(Self { unread_journal, ..Self::read(path, file, length, journal)? })
    }

    /// Reads a file of this length, and its journal.
    pub(super) fn read(
        path: &Path,
        file: File,
        length: u64,
        journal: Option<Vec<u8>>,
    ) -> Result<Self, RecordingError> {
        let name = path.display().to_string();
        if length == 0 {
            return Err(RecordingError::Empty(name));
        }
        let Ok(header) = read_header(&file, length) else {
            return Err(RecordingError::Foreign(name));
        };
        if let Some(Header { format, .. }) = header.as_ref().filter(|header| header.format > FORMAT)
        {
            return Err(RecordingError::Newer { path: name, format: *format });
        }
        let has_journal = journal.is_some();
        let mut recording = Self {
            path: path.to_owned(),
            file,
            journal: journal.unwrap_or_default(),
            unread_journal: None,
            header,
            groups: Vec::new(),
            groups_in_file: 0,
            segments: Vec::new(),
            marks: Vec::new(),
            end: 0,
            journal_end: 0,
            damaged: 0,
            torn: 0,
            last_index: None,
            is_ended: false,
        };
        for (index, length) in recording.indexes(length).into_iter().rev() {
            recording.add_indexed(&index, length);
        }
        recording.walk(Storage::File, length);
        recording.torn = length - recording.end;
        recording.groups_in_file = recording.groups.len();
        recording.is_ended |= recording.is_in_columns() && !has_journal;
        recording.add_journal(length);
        if recording.header.is_none() && recording.segments.is_empty() {
            return Err(RecordingError::Foreign(name));
        }
        Ok(recording)
    }

    /// Returns true if closed segments are in columns.
    pub(super) fn is_in_columns(&self) -> bool {
        self.header.as_ref().is_some_and(|header| header.format >= 2)
    }

    /// Adds the groups of the journal, unless their block is in the file.
    fn add_journal(&mut self, length: u64) {
        if self.journal.is_empty() {
            return;
        }
        let journal_length = self.journal.len() as u64;
        let Some((offset, start_length)) = layout::read_journal_start(&self.journal) else {
            self.torn += journal_length;
            return;
        };
        let is_in_file =
            |group: &GroupSpan| group.storage == Storage::File && group.offset >= offset;
        if self.groups.iter().any(is_in_file) {
            return;
        }
        // What is torn is their block.
        self.torn = 0;
        self.add_hole(Storage::File, offset.clamp(self.end, length));
        self.groups_in_file = self.groups.len();
        self.journal_end = start_length;
        self.walk(Storage::Journal, journal_length);
        self.torn = journal_length - self.journal_end;
    }

    /// Returns the lines of the journal that are in no block yet, with lines that say which are missing.
    pub(super) fn journal_lines(&self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut last = self.last_time_in_file();
        let mut is_lost = false;
        for group in self.groups.iter().skip(self.groups_in_file) {
            let Ok(lines) = self.read_group(*group) else {
                is_lost = true;
                continue;
            };
            let mut times = line::times_of(&lines);
            let first = times.next();
            if let (true, Some(since), Some(first)) = (is_lost, last, first) {
                line::write_lost(&mut all, first, since);
                is_lost = false;
            }
            last = times.next_back().or(first).or(last);
            all.extend_from_slice(&lines);
        }
        if let (true, Some(last)) = (is_lost || self.is_end_lost(), last) {
            line::write_lost(&mut all, last, last);
        }
        all
    }

    /// Returns the time of the last line of the file that can be read.
    fn last_time_in_file(&self) -> Option<Timestamp> {
        let groups = self.groups.iter().take(self.groups_in_file).rev();
        let mut lines = groups.filter_map(|group| self.read_group(*group).ok());
        lines.find_map(|lines| line::times_of(&lines).next_back())
    }

    /// Returns true if what follows the last whole frame may have been lines.
    fn is_end_lost(&self) -> bool {
        let is_in_file = self.journal_end == 0;
        self.torn > 0 && !(is_in_file && layout::begins_as_index(&self.file, self.end))
    }

    /// Returns the index of the last segment if its recorder has not written it, and nothing of the segment is missing in the file;
    /// without the groups of the journal.
    pub(super) fn missing_index(&self) -> Option<Index> {
        let (segment, earlier) = self.segments.split_last()?;
        let groups = self.groups.get(segment.first_group..self.groups_in_file)?;
        let mut end = groups.first()?.offset;
        let is_whole = groups.iter().all(|group| {
            let begin = std::mem::replace(&mut end, group.offset + u64::from(group.length));
            group.storage == Storage::File && group.offset == begin
        });
        if segment.sums_at.is_some() || !is_whole || end != self.end {
            return None;
        }
        let sizes = groups.iter().map(|group| (group.length, group.lines)).collect();
        let before = earlier.last().map(|segment| segment.last);
        let marks = self.marks.iter().filter(|mark| before.is_none_or(|end| mark.at > end));
        Some(Index::new(sizes, (segment.first, segment.last), &segment.pauses, marks))
    }

    /// Returns the indexes, the last one first, as far as their chain is whole.
    fn indexes(&self, length: u64) -> Vec<(Index, u64)> {
        let mut found = Vec::new();
        let mut next = layout::find_last_index(&self.file, length);
        while let Some((index, frame_length)) = next {
            let previous = index.previous.filter(|offset| *offset < index.offset);
            let end = index.offset;
            found.push((index, frame_length));
            if found.len() >= MAX_INDEXES {
                break;
            }
            next = previous.and_then(|offset| layout::read_index(&self.file, offset, end));
        }
        found
    }

    /// Adds the segment of an index, after a walk over what lies before it.
    fn add_indexed(&mut self, index: &Index, frame_length: u64) {
        let size: u64 = index.groups.iter().map(|(length, _)| u64::from(*length)).sum();
        let Some(start) = index.offset.checked_sub(size).filter(|start| *start >= self.end) else {
            return;
        };
        self.walk(Storage::File, start);
        self.add_hole(Storage::File, start);
        let first_group = self.groups.len();
        let mut offset = start;
        for &(length, lines) in &index.groups {
            self.groups.push(GroupSpan { storage: Storage::File, offset, length, lines });
            offset += u64::from(length);
        }
        let [first, last] = [index.first, index.last].map(Timestamp::from_micros);
        if first_group < self.groups.len() {
            let moment = Timestamp::from_micros;
            let pauses = index.pauses.iter().map(|(from, to)| (moment(*from), moment(*to)));
            let (last, pauses) = (last.max(first), pauses.collect());
            let sums_at = Some(index.offset + frame_length);
            self.segments.push(Segment { first, last, pauses, first_group, sums_at });
        }
        let earlier = index.marks.iter().map(|(at, kind, text)| (*at, MarkLine::plain(kind, text)));
        let lines = earlier.chain(index.events.iter().cloned());
        let marks = lines.filter_map(|(at, line)| line.to_mark(Timestamp::from_micros(at)));
        self.marks.extend(marks);
        self.end = index.offset + frame_length;
        (self.last_index, self.is_ended) = (Some(index.offset), false);
    }

    fn stored(&self, storage: Storage) -> &dyn ReadAt {
        match storage {
            Storage::File | Storage::Hole => &self.file,
            Storage::Journal => &self.journal,
        }
    }

    fn end_of(&mut self, storage: Storage) -> &mut u64 {
        match storage {
            Storage::File | Storage::Hole => &mut self.end,
            Storage::Journal => &mut self.journal_end,
        }
    }

    /// Walks from the end of what is known to `stop`, frame by frame; what is no whole frame is skipped.
    fn walk(&mut self, storage: Storage, stop: u64) {
        let mut at = *self.end_of(storage);
        while at < stop {
            let frame = layout::read_frame(self.stored(storage), at, stop);
            let frame = frame.filter(|frame| self.add_walked(storage, at, *frame).is_some());
            match frame {
                Some(frame) => {
                    at += frame.length;
                    *self.end_of(storage) = at;
                }
                None => match layout::find_frame(self.stored(storage), at + 1, stop) {
                    Some(next) => at = next,
                    None => break,
                },
            }
        }
    }

    /// Notes that no frame can be found between the end of what is known and a place: groups may be missing there.
    fn add_hole(&mut self, storage: Storage, to: u64) {
        let offset = std::mem::replace(self.end_of(storage), to);
        let length = to - offset;
        if length == 0 {
            return;
        }
        self.damaged += length;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.groups.push(GroupSpan { storage: Storage::Hole, offset, length, lines: 0 });
    }

    /// Adds a frame found on a walk; `None` if its content is damaged.
    fn add_walked(&mut self, storage: Storage, offset: u64, frame: FileFrame) -> Option<()> {
        if frame.kind != FileFrameKind::Lines {
            self.add_hole(storage, offset);
            self.is_ended = frame.kind == FileFrameKind::SeekTable;
            return Some(());
        }
        let length = u32::try_from(frame.length).ok()?;
        let group = GroupSpan { storage, offset, length, lines: 0 };
        let text = self.read_group(group).ok()?;
        let lines = u32::try_from(text.len()).ok()?;
        self.add_hole(storage, offset);
        self.is_ended = false;
        let mut is_start = self.segments.is_empty();
        let (mut first, mut last) = (None, None);
        let mut pauses = Vec::new();
        for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let time = line::time_of(line);
            is_start |= number == 0 && !line.is_empty() && time.is_none();
            first = first.or(time);
            let before = last.or(self.segments.last().map(|segment| segment.last));
            pauses.extend(before.zip(time).filter(|(before, time)| is_pause(*before, *time)));
            last = time.max(last);
            if line::may_be_rare(line)
                && let Some(RecordedLine { content, .. }) = line::parse(line)
            {
                match content {
                    Content::Mark(mark) => self.marks.push(mark),
                    Content::Header(_) => is_start = true,
                    Content::Node(..)
                    | Content::Roster(..)
                    | Content::Lost(_)
                    | Content::End
                    | Content::Unknown => {}
                }
            }
        }
        if let (true, Some(first)) = (is_start, first) {
            // What is missing before the first lines belongs to their segment.
            let first_group = if self.segments.is_empty() { 0 } else { self.groups.len() };
            self.segments.push(Segment {
                first,
                last: first,
                pauses: Vec::new(),
                first_group,
                sums_at: None,
            });
        }
        // Recorders of earlier versions are silent while nothing happens.
        let tells_pauses = self.header.as_ref().is_none_or(|header| header.alive.is_some());
        if let (Some(segment), Some(last)) = (self.segments.last_mut(), last) {
            segment.last = segment.last.max(last);
            pauses.retain(|(from, _)| tells_pauses && *from >= segment.first);
            segment.pauses.append(&mut pauses);
        }
        self.groups.push(GroupSpan { lines, ..group });
        Some(())
    }

    /// Reads the lines of a group or a block; an error if it is damaged.
    fn read_group(&self, group: GroupSpan) -> io::Result<Vec<u8>> {
        if group.storage == Storage::Hole {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut frame = vec![0; usize::try_from(group.length).unwrap_or_default()];
        self.stored(group.storage).read_exact_at(&mut frame, group.offset)?;
        layout::decode_lines(&frame)
    }

    /// Returns the path of the recording that it is, or of which it is an older part.
    pub(crate) fn recording_path(&self) -> PathBuf {
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        match parts::begin_of(&path) {
            Some(_) => path.with_extension(""),
            None => path,
        }
    }

    /// Returns the paths of the older parts of a recording, the oldest one first; of a link, those of its target.
    pub fn parts(path: &Path) -> Vec<PathBuf> {
        parts::part_paths(&fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
    }

    /// Returns the header of its first run; `None` if it is damaged.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Returns the segments, in the order of the file.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns true if sums of a stretch of segments, which ends with this one, follow it.
    pub(crate) fn ends_stretch(&self, segment: &Segment) -> bool {
        segment.sums_at.is_some_and(|at| layout::sums_length(&self.file, at).is_some())
    }

    /// Returns the sums of the stretch that ends with a segment, and the times from which on and to which they are; `None` if
    /// there are none that this version uses.
    pub(crate) fn sums_of_stretch(
        &self,
        segment: &Segment,
    ) -> Option<((Timestamp, Timestamp), SpanSums)> {
        let mut at = segment.sums_at?;
        let (span, mut sums) = sum_lines::read(&layout::read_sums(&self.file, at)?)?;
        loop {
            at += layout::sums_length(&self.file, at)?;
            if layout::sums_length(&self.file, at).is_none() {
                return Some((span, sums));
            }
            // Those of very many nodes are in several frames.
            let (_, more) = sum_lines::read(&layout::read_sums(&self.file, at)?)?;
            sums.nodes.extend(more.nodes);
        }
    }

    /// Returns the lines of each segment that can be read, with their size in the files; the last segment comes first.
    pub(super) fn latest_segments(&self) -> impl Iterator<Item = (Vec<u8>, u64)> {
        let mut next_group = self.groups.len();
        self.segments.iter().rev().map(move |segment| {
            let end = std::mem::replace(&mut next_group, segment.first_group);
            let groups = self.groups.get(segment.first_group..end).unwrap_or_default();
            let lines = groups.iter().filter_map(|group| self.read_group(*group).ok());
            let bytes = groups.iter().map(|group| u64::from(group.length)).sum();
            (lines.flatten().collect(), bytes)
        })
    }

    /// Returns the marks, in the order of the file.
    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// Returns where each group or block with a time ends, and the time of its last line.
    #[cfg(feature = "testing")]
    pub fn group_ends(&self) -> Vec<(u64, Timestamp)> {
        let ends = self.groups.iter().filter_map(|group| {
            let text = self.read_group(*group).ok()?;
            let time = text.split(|byte| *byte == b'\n').filter_map(line::time_of).max()?;
            Some((group.offset + u64::from(group.length), time))
        });
        ends.collect()
    }

    /// Returns all lines that can be read.
    #[cfg(any(test, feature = "testing"))]
    pub fn lines(&self) -> Vec<u8> {
        self.groups.iter().filter_map(|group| self.read_group(*group).ok()).flatten().collect()
    }

    /// Returns what of the file cannot be played, as found so far.
    pub fn loss(&self) -> Option<String> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let name = gtop_local::text::sanitize(&name, 60);
        let end = self.segments.iter().map(|segment| segment.last).max();
        let missing = match end.filter(|_| self.is_end_lost()) {
            Some(end) => format!(": an unknown time after {} is missing", local_text(end)),
            None => String::new(),
        };
        let damage = match (self.damaged, self.torn) {
            (0, 0) => None,
            (0, torn) => Some(format!("{name}: the last {torn} bytes are incomplete{missing}")),
            (damaged, 0) => Some(format!("{name}: {damaged} bytes are damaged")),
            (damaged, torn) => Some(format!(
                "{name}: {damaged} bytes are damaged, and the last {torn} are incomplete{missing}"
            )),
        };
        let unread = self.unread_journal.as_ref().map(|error| {
            let after = end.map_or_else(String::new, |end| format!(" after {}", local_text(end)));
            format!(
                "the journal of {name} cannot be read: {error}; what is in it{after} is missing"
            )
        });
        let losses: Vec<String> = damage.into_iter().chain(unread).collect();
        (!losses.is_empty()).then(|| losses.join("; "))
    }

    /// Returns what is missing of an older part that cannot be read; `None` if it is there no more.
    pub(crate) fn loss_of_part(path: &Path, error: &RecordingError) -> Option<String> {
        fs::symlink_metadata(path).ok()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = gtop_local::text::sanitize(&name, 60);
        let why = match error {
            RecordingError::Unreadable { source, .. } => format!("cannot be read: {source}"),
            RecordingError::Newer { format, .. } => format!("is of format {format}"),
            RecordingError::Empty(_) => "is empty".to_owned(),
            RecordingError::Foreign(_) | RecordingError::NoHeader(_) => "is damaged".to_owned(),
        };
        let from = parts::begin_of(path).map(local_text).unwrap_or_default();
        Some(format!(
            "the older part {name} {why}; the lines from {from} to the next part are missing"
        ))
    }
}

/// It begins with something else than a header.
struct NoRecording;

/// Returns the header of a file; `None` if its first group is damaged.
fn read_header(file: &File, length: u64) -> Result<Option<Header>, NoRecording> {
    let Some(frame) = layout::read_frame(file, 0, length) else { return Ok(None) };
    if frame.kind != FileFrameKind::Lines {
        return Err(NoRecording);
    }
    let mut bytes = vec![0; usize::try_from(frame.length.min(64 << 20)).unwrap_or_default()];
    let read = file.read_exact_at(&mut bytes, 0).and_then(|()| layout::decode_lines(&bytes));
    let Ok(lines) = read else { return Ok(None) };
    let first = lines.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match line::parse(first).map(|line| line.content) {
        Some(Content::Header(header)) if header.format > 0 => Ok(Some(header)),
        _ => Err(NoRecording),
    }
}

/// Reads the lines of a recording one after another, from a checkpoint on.
#[derive(Debug)]
pub(crate) struct Cursor {
    recording: Arc<Recording>,
    /// Position of the next group.
    next_group: usize,
    lines: Vec<u8>,
    /// Position of the next line in `lines`.
    position: usize,
    /// The time of the last line that is not of a checkpoint.
    last_at: Option<Timestamp>,
    /// The time before the groups that could not be read, until a line follows them.
    gap_from: Option<Timestamp>,
    /// When the segments of these groups end, as their indexes say.
    gap_to: Option<Timestamp>,
    /// The times before and after lines that are missing.
    gaps: Vec<(Timestamp, Timestamp)>,
}

/// What a cursor finds.
#[derive(Debug)]
pub enum Read {
    /// A line.
    Line(RecordedLine),
    /// A group is damaged: lines are missing.
    Damaged,
}

impl Cursor {
    /// Starts at the last checkpoint before `from` that can be read; at the first group if there is none.
    pub(crate) fn new(recording: Arc<Recording>, from: Timestamp) -> Self {
        let starts = recording.segments.iter().take_while(|segment| segment.first <= from);
        for start in (0..starts.count()).rev() {
            let mut cursor = Self::at(Arc::clone(&recording), start);
            if cursor.load() == Some(true) {
                return cursor;
            }
        }
        Self::at(recording, 0)
    }

    fn at(recording: Arc<Recording>, segment: usize) -> Self {
        let start = recording.segments.get(segment);
        let start = start.map(|segment| (segment.first_group, segment.first));
        Self {
            recording,
            next_group: start.map_or(usize::MAX, |(first_group, _)| first_group),
            lines: Vec::new(),
            position: 0,
            last_at: start.map(|(_, first)| first),
            gap_from: None,
            gap_to: None,
            gaps: Vec::new(),
        }
    }

    /// Goes on in a later state of the same file. What was read of the journal may be in a block there.
    pub(crate) fn update(&mut self, recording: Arc<Recording>) {
        let block = self.recording.groups_in_file;
        let passed = self.recording.groups.get(block..self.next_group.saturating_sub(1));
        let passed =
            passed.map(|groups| groups.iter().map(|group| group.lines as usize).sum::<usize>());
        let is_in_block = self.next_group > block && recording.groups_in_file > block;
        self.recording = recording;
        if let (true, Some(passed)) = (is_in_block, passed) {
            self.next_group = block;
            let position = passed + self.position;
            self.load();
            self.position = position;
        }
    }

    /// Returns the time of the first line that it may find.
    pub(crate) fn start(&self) -> Option<Timestamp> {
        self.last_at
    }

    /// Returns when the file begins.
    pub(crate) fn begins(&self) -> Option<Timestamp> {
        self.recording.segments.first().map(|segment| segment.first)
    }

    /// Returns the times before and after lines that are missing; they are the same where it is not known for how long.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let next = self.next_text().and_then(line::time_of);
        let open =
            self.gap_from.map(|from| (from, next.unwrap_or_else(|| self.run_end(from)).max(from)));
        self.gaps.iter().copied().chain(open)
    }

    /// Returns when the run of the recorder ended that ran before a gap, as far as is known.
    fn run_end(&self, gap_from: Timestamp) -> Timestamp {
        let segments = self.recording.segments.iter().filter(|segment| segment.first <= gap_from);
        segments.map(|segment| segment.last).chain(self.gap_to).fold(gap_from, Timestamp::max)
    }

    /// Returns when the segment of a group ends, as far as is known.
    fn segment_end(&self, group: usize) -> Option<Timestamp> {
        let segments = &self.recording.segments;
        let next = segments.partition_point(|segment| segment.first_group <= group);
        segments.get(next.checked_sub(1)?).map(|segment| segment.last)
    }

    /// Returns the time of the next line, if it has one of its own; `None` at the end, for a line of a checkpoint, and
    /// before a group is read.
    pub(crate) fn next_time(&mut self) -> NextLine {
        loop {
            let Some(text) = self.next_text() else {
                match self.load() {
                    Some(true) => continue,
                    Some(false) => return NextLine::Damaged,
                    None => return NextLine::None,
                }
            };
            return line::time_of(text).map_or(NextLine::Undated, NextLine::At);
        }
    }

    /// Reads the next line, or passes a damaged group; `None` at the end of the file.
    pub(crate) fn read(&mut self) -> Option<Read> {
        loop {
            let Some(text) = self.next_text() else {
                if self.load()? {
                    continue;
                }
                self.gap_from = self.gap_from.or(self.last_at);
                self.gap_to = self.gap_to.max(self.segment_end(self.next_group));
                self.next_group += 1;
                return Some(Read::Damaged);
            };
            let parsed = line::parse(text);
            self.position += text.len() + 1;
            if let Some(line) = parsed {
                if !line.is_checkpoint {
                    self.last_at = Some(line.at);
                    if let Content::Lost(since) = line.content {
                        self.gap_from = Some(self.gap_from.map_or(since, |from| from.min(since)));
                    }
                    if let Some(from) = self.gap_from.take() {
                        // Before a recorder starts, none has recorded.
                        let is_start = matches!(line.content, Content::Header(_));
                        let to = if is_start { self.run_end(from).min(line.at) } else { line.at };
                        if self.gaps.len() < MAX_GAPS {
                            self.gaps.push((from, to.max(from)));
                        }
                        self.gap_to = None;
                    }
                }
                return Some(Read::Line(line));
            }
        }
    }

    /// Returns the text of the next line of the group.
    fn next_text(&self) -> Option<&[u8]> {
        let rest = self.lines.get(self.position..).filter(|rest| !rest.is_empty())?;
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        rest.get(..end)
    }

    /// Loads the next group: false if it is damaged, `None` if there is none.
    fn load(&mut self) -> Option<bool> {
        let group = *self.recording.groups.get(self.next_group)?;
        match self.recording.read_group(group) {
            Ok(lines) => {
                (self.lines, self.position) = (lines, 0);
                self.next_group += 1;
                Some(true)
            }
            Err(_damaged) => Some(false),
        }
    }
}

/// What comes next in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextLine {
    /// A line of this time.
    At(Timestamp),
    /// A line of a checkpoint.
    Undated,
    /// A damaged group.
    Damaged,
    /// Nothing.
    None,
}
