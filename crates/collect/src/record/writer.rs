//! Writes groups to the file: appends, indexes, starts new parts, removes old ones, and tries again after a failure.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use crate::record::layout::{self, Index};
use crate::record::line::{self, FORMAT, Header};
use crate::record::line_group::LineGroup;
use crate::record::marks::MarkLine;
use crate::record::parts::{part_path, part_paths};
use crate::record::recording::{Recording, RecordingError, is_pause};
use gtop_local::storage::{self, AppendError, AppendFile, NewFile, WriteError};
use gtop_local::time::Timestamp;
use gtop_model::{Mark, RecorderState};

/// Command lines and user names of others are in it.
const NEW_FILE: NewFile = NewFile { mode: 0o600, folder_mode: 0o700 };
/// Compressed groups that wait while the file cannot be written.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// A recording consists of about this many parts, the oldest of which are removed: what is kept is at most a twentieth
/// more than it should be, and at most a tenth less.
const PARTS: u32 = 20;
/// A part spans at least this long.
const MIN_PART_SPAN: Duration = Duration::from_secs(5);
/// How long a file of a network file system is observed for changes by a recorder on another machine.
const OBSERVATION: Duration = Duration::from_secs(5);

/// How much of a recording is kept: whichever limit is reached first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What is older may be removed.
    pub keep: Duration,
    /// Maximum size of all parts, in bytes.
    pub max_bytes: u64,
}

/// Why a recorder cannot start.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Another recorder writes to the file.
    #[error("another gtop is recording to {0}; name another file, or stop that one")]
    InUse(String),
    /// The file is no recording, or of a later format.
    #[error("{0}; nothing was written to it: name another file")]
    Foreign(RecordingError),
    /// The file cannot be opened for writing.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A system call failed.
    #[error("cannot record to {path}: {source}")]
    Failed {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The machine refuses a thread.
    #[error("cannot start the recorder: {0}")]
    Thread(io::Error),
}

impl RecordError {
    /// Returns the conversion of errors of system calls.
    fn failed(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Failed { path: path.display().to_string(), source }
    }
}

/// The open file of a recording, and its older parts.
#[derive(Debug)]
pub(super) struct Writer {
    /// As named by the user.
    path: PathBuf,
    /// The same without links.
    target: PathBuf,
    header: Header,
    limits: Limits,
    file: AppendFile,
    /// Compressed and decompressed sizes of all frames of the file.
    frames: Vec<(u32, u32)>,
    /// The segment that is being written, and where it begins.
    segment: OpenSegment,
    last_index: Option<u64>,
    /// When this part begins.
    part_from: Option<Timestamp>,
    /// The older parts, the oldest one first.
    parts: VecDeque<Part>,
    /// Why no new part could be started.
    part_fault: Option<Arc<str>>,
    /// Groups that could not be written yet.
    waiting: VecDeque<Waiting>,
    /// Since when groups are lost, because too many wait.
    lost_since: Option<Timestamp>,
    /// The last line of the runs before; `None` for a new file.
    pub(super) previous_end: Option<Timestamp>,
    written_to: Option<Timestamp>,
    needs_checkpoint: bool,
}

#[derive(Debug, Default)]
struct OpenSegment {
    groups: Vec<(u32, u32)>,
    span: Option<(Timestamp, Timestamp)>,
    pauses: Vec<(Timestamp, Timestamp)>,
    marks: Vec<Mark>,
}

#[derive(Debug)]
struct Part {
    path: PathBuf,
    from: Timestamp,
    bytes: u64,
}

/// A group ready to be written.
#[derive(Debug)]
struct Waiting {
    frame: Vec<u8>,
    lines: u32,
    span: Option<(Timestamp, Timestamp)>,
    pauses: Vec<(Timestamp, Timestamp)>,
    marks: Vec<Mark>,
}

impl Writer {
    /// Opens the file, checks that it is a recording that nobody else writes, and cuts off an incomplete end.
    pub(super) fn open(
        path: &Path,
        header: Header,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Self, RecordError> {
        let mut file = open_file(path)?;
        let mut frames = Vec::new();
        let (mut last_index, mut part_from, mut previous_end) = (None, None, None);
        if file.length() > 0 {
            let reader = file.reader().map_err(RecordError::failed(path))?;
            let known =
                Recording::read(path, reader, file.length()).map_err(RecordError::Foreign)?;
            if known.header().is_none() {
                let path = path.display().to_string();
                return Err(RecordError::Foreign(RecordingError::NoHeader(path)));
            }
            let is_guarded = file.is_locked() && file.is_local();
            if !is_guarded && !known.is_ended {
                observe(path, file.length())?;
            }
            if known.end < file.length() {
                file.truncate(known.end).map_err(RecordError::failed(path))?;
            }
            frames = frames_of(&known);
            last_index = known.last_index;
            part_from = known.segments().first().map(|segment| segment.first);
            previous_end = known.segments().iter().map(|segment| segment.last).max();
        }
        let mut writer = Self {
            path: path.to_owned(),
            target: file.path().to_owned(),
            header: Header { format: FORMAT, ..header },
            limits,
            parts: find_parts(file.path()),
            file,
            frames,
            segment: OpenSegment::default(),
            last_index,
            part_from,
            part_fault: None,
            waiting: VecDeque::new(),
            lost_since: None,
            previous_end,
            written_to: None,
            needs_checkpoint: false,
        };
        writer.write_header(now).map_err(RecordError::failed(path))?;
        Ok(writer)
    }

    /// Returns true once after something is missing in the file, so that only a checkpoint leads on.
    pub(super) fn take_needs_checkpoint(&mut self) -> bool {
        std::mem::take(&mut self.needs_checkpoint)
    }

    /// Returns since when groups are lost, once they can be written again.
    pub(super) fn take_lost(&mut self) -> Option<Timestamp> {
        if self.waiting.is_empty() { self.lost_since.take() } else { None }
    }

    /// Writes the start of a run, so that even an empty recording is one.
    fn write_header(&mut self, now: Timestamp) -> io::Result<()> {
        let mut text = Vec::new();
        line::write_header(&mut text, now, &self.header);
        let group = compress(LineGroup { text, span: Some((now, now)), ..LineGroup::default() })?;
        self.append_group(group).map_err(|(_, error)| error)
    }

    /// Compresses and writes a group, after those that wait. On an error they still wait.
    pub(super) fn write(&mut self, group: LineGroup) -> Result<(), io::Error> {
        if !group.text.is_empty() {
            self.waiting.push_back(compress(group)?);
        }
        while let Some(group) = self.waiting.pop_front() {
            if let Err((group, error)) = self.append_group(group) {
                self.waiting.push_front(group);
                let reopened = if is_file_gone(&error) { self.reopen() } else { Err(error) };
                if let Err(error) = reopened {
                    self.drop_surplus();
                    return Err(error);
                }
            }
        }
        // Shows recorders on other machines that this one runs.
        self.file.touch().ok();
        Ok(())
    }

    /// Drops the oldest groups beyond what may wait.
    fn drop_surplus(&mut self) {
        let mut bytes: usize = self.waiting.iter().map(|group| group.frame.len()).sum();
        while bytes > MAX_WAITING_BYTES
            && let Some(dropped) = self.waiting.pop_front()
        {
            bytes -= dropped.frame.len();
            self.lost_since = self.lost_since.or(dropped.span.map(|(first, _)| first));
            self.needs_checkpoint = true;
        }
    }

    fn append_group(&mut self, group: Waiting) -> Result<(), (Waiting, io::Error)> {
        if let Err(error) = self.file.append(&group.frame) {
            return Err((group, error));
        }
        let Waiting { frame, lines, span, pauses, marks } = group;
        let sizes = (u32::try_from(frame.len()).unwrap_or(u32::MAX), lines);
        self.frames.push(sizes);
        self.segment.groups.push(sizes);
        self.segment.marks.extend(marks);
        if let Some((first, last)) = span {
            let (start, before) = self.segment.span.unwrap_or((first, first));
            if is_pause(before, first) {
                self.segment.pauses.push((before, first));
            }
            self.segment.pauses.extend(pauses);
            self.segment.span = Some((start, last));
            self.part_from = self.part_from.or(Some(first));
            self.written_to = Some(last);
        }
        Ok(())
    }

    /// Opens the file anew, after it was removed or its file system was mounted again.
    fn reopen(&mut self) -> io::Result<()> {
        let now = self.written_to.unwrap_or_default();
        let again = Self::open(&self.path, self.header.clone(), self.limits, now);
        let waiting = std::mem::take(&mut self.waiting);
        match again {
            Ok(again) => *self = Self { waiting, needs_checkpoint: true, ..again },
            Err(error) => {
                self.waiting = waiting;
                return Err(io::Error::other(error.to_string()));
            }
        }
        Ok(())
    }

    /// Ends a segment with its index; the next group starts with a checkpoint.
    pub(super) fn end_segment(&mut self) -> io::Result<()> {
        let Some((first, last)) = self.segment.span else { return Ok(()) };
        let offset = self.file.length();
        let events = self.segment.marks.iter();
        let index = Index {
            offset,
            previous: self.last_index,
            first: first.as_micros(),
            last: last.as_micros(),
            groups: self.segment.groups.clone(),
            marks: Vec::new(),
            pauses: self.segment.pauses.iter().map(|pause| micros(*pause)).collect(),
            events: events.map(|mark| (mark.at.as_micros(), MarkLine::from(mark))).collect(),
        };
        let frame = layout::encode_index(&index)?;
        self.file.append(&frame)?;
        self.frames.push((u32::try_from(frame.len()).unwrap_or(u32::MAX), 0));
        self.last_index = Some(offset);
        self.segment = OpenSegment::default();
        Ok(())
    }

    /// Ends the file with its seek table.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.end_segment()?;
        let table = layout::encode_seek_table(&self.frames);
        self.frames.push((u32::try_from(table.len()).unwrap_or(u32::MAX), 0));
        self.file.append(&table)
    }

    /// Returns true if a new part is due.
    pub(super) fn is_part_full(&self, now: Timestamp) -> bool {
        let span = self.part_from.map_or(Duration::ZERO, |from| now.since(from));
        let is_long = span >= (self.limits.keep / PARTS).max(MIN_PART_SPAN);
        let is_large = self.file.length() >= self.part_bytes() && span >= MIN_PART_SPAN;
        is_long || is_large
    }

    fn part_bytes(&self) -> u64 {
        self.limits.max_bytes / u64::from(PARTS)
    }

    /// Renames the file to a part, starts a new one, and removes the oldest parts. Without it the file grows on.
    pub(super) fn start_part(&mut self, now: Timestamp) -> io::Result<()> {
        let next = match self.exchange_file(now) {
            Ok(next) => next,
            Err(error) => {
                let path = self.path.display();
                let text = format!("{path} keeps growing: a new part cannot be started: {error}");
                self.part_fault = Some(text.into());
                return self.end_segment();
            }
        };
        self.part_fault = None;
        let ended = self.finish();
        let old = std::mem::replace(&mut self.file, next);
        let from = self.part_from.unwrap_or(now);
        self.parts.push_back(Part { path: old.path().to_owned(), from, bytes: old.length() });
        (self.frames, self.segment, self.last_index) = Default::default();
        self.part_from = None;
        self.write_header(now)?;
        self.remove_old_parts(now).and(ended)
    }

    /// Renames the file and opens a new one in its place; what is open stays as it is, if that fails.
    fn exchange_file(&mut self, now: Timestamp) -> io::Result<AppendFile> {
        let part = part_path(&self.target, self.part_from.unwrap_or(now));
        if self.file.path() == self.target {
            self.file.rename(&part)?;
        }
        open_file(&self.target).map_err(|error| {
            // If somebody else has a file there by now, this one keeps the name of the part.
            self.file.rename(&self.target).ok();
            io::Error::other(error.to_string())
        })
    }

    fn remove_old_parts(&mut self, now: Timestamp) -> io::Result<()> {
        loop {
            let bytes = self.bytes();
            // A part ends where the next one begins.
            let ended_at = self.parts.get(1).map(|next| next.from).or(self.part_from);
            let is_old = ended_at.is_some_and(|end| now.since(end) > self.limits.keep);
            // A new part must fit.
            if !is_old && bytes + self.part_bytes() <= self.limits.max_bytes {
                return Ok(());
            }
            let Some(oldest) = self.parts.pop_front() else { return Ok(()) };
            storage::remove(&oldest.path)?;
        }
    }

    fn bytes(&self) -> u64 {
        self.file.length() + self.parts.iter().map(|part| part.bytes).sum::<u64>()
    }

    /// Returns the state, with the reason why nothing can be written at the moment.
    pub(super) fn state(&self, fault: Option<&io::Error>) -> RecorderState {
        RecorderState {
            from: self.parts.front().map(|part| part.from).or(self.part_from),
            to: self.written_to,
            bytes: self.bytes(),
            fault: fault
                .map(|error| Arc::from(fault_text(&self.path, error)))
                .or_else(|| self.part_fault.clone()),
        }
    }
}

fn micros((from, to): (Timestamp, Timestamp)) -> (i64, i64) {
    (from.as_micros(), to.as_micros())
}

fn compress(group: LineGroup) -> io::Result<Waiting> {
    let LineGroup { text, span, pauses, marks } = group;
    let lines = u32::try_from(text.len()).unwrap_or(u32::MAX);
    Ok(Waiting { frame: layout::compress(&text)?, lines, span, pauses, marks })
}

fn open_file(path: &Path) -> Result<AppendFile, RecordError> {
    AppendFile::open(path, NEW_FILE).map_err(|error| match error {
        AppendError::Locked(path) => RecordError::InUse(path),
        AppendError::Write(error) => RecordError::Write(error),
    })
}

/// Waits to see whether a recorder on another machine, whose lock is not seen here, goes on to write.
fn observe(path: &Path, length: u64) -> Result<(), RecordError> {
    let before = storage::FileVersion::of(path);
    #[expect(clippy::disallowed_methods, reason = "the recorder has not started yet")]
    thread::sleep(OBSERVATION);
    let is_unchanged = storage::FileVersion::of(path) == before
        && fs::metadata(path).is_ok_and(|file| file.len() == length);
    if is_unchanged { Ok(()) } else { Err(RecordError::InUse(path.display().to_string())) }
}

/// Returns the sizes of all frames; what lies between two groups counts as one frame without lines.
fn frames_of(recording: &Recording) -> Vec<(u32, u32)> {
    let mut frames = Vec::new();
    let mut at = 0;
    let groups = recording.groups.iter().map(|group| (group.offset, Some(group)));
    for (offset, group) in groups.chain([(recording.end, None)]) {
        if let Ok(gap @ 1..) = u32::try_from(offset.saturating_sub(at)) {
            frames.push((gap, 0));
        }
        frames.extend(group.map(|group| (group.length, group.lines)));
        at = offset + group.map_or(0, |group| u64::from(group.length));
    }
    frames
}

/// Returns the older parts of a recording, the oldest one first.
fn find_parts(path: &Path) -> VecDeque<Part> {
    let found = part_paths(path).into_iter().filter_map(|path| {
        let recording = Recording::open(&path).ok()?;
        let from = recording.segments().first()?.first;
        Some(Part { path, from, bytes: recording.end })
    });
    found.collect()
}

/// Returns true if the open file is no longer the one at the path.
fn is_file_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::STALE | Errno::BADF | Errno::NOENT))
}

fn fault_text(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    let remedy = match Errno::from_io_error(error) {
        Some(Errno::NOSPC) => "the disk is full; free some space, or record elsewhere",
        Some(Errno::DQUOT) => "your quota is used up; remove files, or record elsewhere",
        Some(Errno::FBIG) => "the file has reached the limit of this shell (ulimit -f)",
        Some(Errno::ROFS | Errno::ACCESS | Errno::PERM) => "it is no longer writable",
        Some(Errno::STALE) => "its file system was remounted",
        _ => return format!("nothing is recorded to {path}: {error}"),
    };
    format!("nothing is recorded to {path}: {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(seconds: i64, bytes: usize) -> Waiting {
        let at = Timestamp::from_micros(seconds * 1_000_000);
        Waiting {
            frame: vec![0; bytes],
            lines: 1,
            span: Some((at, at)),
            pauses: Vec::new(),
            marks: Vec::new(),
        }
    }

    #[test]
    fn after_dropped_groups_a_checkpoint_follows_and_says_since_when() {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { keep: Duration::from_secs(3_600), max_bytes: 1 << 30 };
        let start = Timestamp::from_micros(1_000_000);
        let path = folder.path().join("a.gtop");
        let mut writer = Writer::open(&path, Header::default(), limits, start).unwrap();
        writer.waiting.extend((2..6).map(|second| group(second, MAX_WAITING_BYTES / 4)));
        writer.drop_surplus();
        assert_eq!((writer.waiting.len(), writer.take_needs_checkpoint()), (4, false));
        writer.waiting.extend([group(6, 1), group(7, 1)]);
        writer.drop_surplus();
        assert_eq!(writer.waiting.len(), 5);
        assert_eq!((writer.take_needs_checkpoint(), writer.take_needs_checkpoint()), (true, false));
        // It is recorded once the rest is written.
        assert_eq!(writer.take_lost(), None);
        writer.waiting.clear();
        assert_eq!(writer.take_lost(), Some(Timestamp::from_micros(2_000_000)));
    }
}
