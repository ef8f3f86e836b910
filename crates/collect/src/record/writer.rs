//! Writes groups to the journal and segments of them as blocks to the file; indexes, starts new parts, removes old ones, and
//! tries again after a failure.
//!
//! A block is on the disk before the journal is cut, so at each moment the lines are in one of both at least.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use crate::record::journal::{self, Journal};
use crate::record::layout::{self, Index};
use crate::record::line::{self, FORMAT, Header};
use crate::record::line_group::LineGroup;
use crate::record::line_sums::{LineSums, StretchSums};
use crate::record::parts::{part_path, part_paths};
use crate::record::recording::{Recording, RecordingError};
use crate::record::sum_lines;
use crate::record::value::is_pause;
use gtop_local::storage::{self, AppendError, AppendFile, NewFile, WriteError};
use gtop_local::time::Timestamp;
use gtop_model::{Mark, RecorderState};

/// Command lines and user names of others are in it.
const NEW_FILE: NewFile = NewFile { mode: 0o600, folder_mode: 0o700 };
/// Compressed groups that wait while the file cannot be written.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// Maximum size of the lines of a block. A reader decodes a block at once.
const MAX_BLOCK_BYTES: usize = 16 << 20;
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
    /// In the place of its journal is something else.
    #[error("{0}.journal is not the journal of a recording; move it away, or name another file")]
    ForeignJournal(String),
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
    journal: Journal,
    /// The segment that is being written, and the sums of it and of the segments before.
    segment: OpenSegment,
    pub(super) sums: LineSums,
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
    /// Bytes of the parts that it has removed.
    removed_bytes: u64,
}

#[derive(Debug, Default)]
struct OpenSegment {
    /// Sizes of its groups and blocks in the file, and of their lines.
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
    /// Opens the file, checks that it is a recording that nobody else writes, and writes what its journal has as a block. A
    /// file of an earlier format becomes a part, and a new one begins.
    pub(super) fn open(
        path: &Path,
        header: Header,
        limits: Limits,
        now: Timestamp,
    ) -> Result<Self, RecordError> {
        let failed = || RecordError::failed(path);
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if !journal::is_ours(&target) {
            return Err(RecordError::ForeignJournal(target.display().to_string()));
        }
        let file = open_file(path)?;
        let known = read_known(path, &file)?;
        let segments = known.iter().flat_map(Recording::segments);
        let previous_end = segments.clone().map(|segment| segment.last).max();
        let part_from = segments.clone().map(|segment| segment.first).next();
        let journal = Journal::open(file.path(), NEW_FILE).map_err(refused)?;
        let mut writer = Self {
            path: path.to_owned(),
            target: file.path().to_owned(),
            header: Header { format: FORMAT, ..header },
            limits,
            parts: find_parts(file.path()),
            file,
            journal,
            segment: OpenSegment::default(),
            sums: LineSums::default(),
            last_index: None,
            part_from,
            part_fault: None,
            waiting: VecDeque::new(),
            lost_since: None,
            previous_end,
            written_to: None,
            needs_checkpoint: false,
            removed_bytes: 0,
        };
        match known {
            Some(known) if known.is_in_columns() => writer.recover(&known).map_err(failed())?,
            Some(_) => writer.exchange_file(now).map_err(failed())?,
            None => {}
        }
        writer.journal.cut().map_err(failed())?;
        writer.write_header(now).map_err(failed())?;
        Ok(writer)
    }

    /// Cuts off an incomplete end, writes the lines of the journal as a block, and the index that is missing. There are no
    /// sums of that segment.
    fn recover(&mut self, known: &Recording) -> io::Result<()> {
        if known.end < self.file.length() {
            self.file.truncate(known.end)?;
        }
        self.last_index = known.last_index;
        let mut index = known.missing_index();
        let lines = known.journal_lines();
        if !lines.is_empty() {
            let block = layout::encode_block(&lines)?;
            self.file.append(&block)?;
            if let Some(index) = &mut index {
                index.groups.push((size(block.len()), size(lines.len())));
            }
        }
        index.map_or(Ok(()), |index| self.append_index(index))
    }

    /// Appends the index of the segment that ends here.
    fn append_index(&mut self, index: Index) -> io::Result<()> {
        let offset = self.file.length();
        let index = Index { offset, previous: self.last_index, ..index };
        self.file.append(&layout::encode_index(&index)?)?;
        self.last_index = Some(offset);
        Ok(())
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
        self.append_lines(&layout::encode_group(&text)?, text.len())?;
        self.segment.extend_span(now, now);
        self.part_from = self.part_from.or(Some(now));
        self.written_to = Some(now);
        Ok(())
    }

    /// Appends a group or a block of lines of this size to the file.
    fn append_lines(&mut self, frame: &[u8], lines: usize) -> io::Result<()> {
        self.file.append(frame)?;
        self.segment.groups.push((size(frame.len()), size(lines)));
        Ok(())
    }

    /// Compresses and writes a group, after those that wait. On an error they still wait.
    pub(super) fn write(&mut self, mut group: LineGroup) -> Result<(), io::Error> {
        if !group.text.is_empty() {
            self.sums.add(&group.text, std::mem::take(&mut group.frames));
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
        if let Err(error) = self.append_to_journal(&group) {
            return Err((group, error));
        }
        let Waiting { span, pauses, marks, .. } = group;
        self.segment.marks.extend(marks);
        if let Some((first, last)) = span {
            self.segment.extend_span(first, last);
            self.segment.pauses.extend(pauses);
            self.written_to = Some(last);
        }
        Ok(())
    }

    fn append_to_journal(&mut self, group: &Waiting) -> io::Result<()> {
        self.file.check()?;
        if self.journal.line_bytes() + group.lines as usize > MAX_BLOCK_BYTES {
            self.end_block()?;
        }
        let sizes = (size(group.frame.len()), group.lines);
        self.journal.append(&group.frame, sizes, self.file.length())
    }

    /// Writes the lines of the journal as a block, and cuts the journal.
    fn end_block(&mut self) -> io::Result<()> {
        let lines = self.journal.lines()?;
        if lines.is_empty() {
            return Ok(());
        }
        self.append_lines(&layout::encode_block(&lines)?, lines.len())?;
        self.journal.cut()
    }

    /// Opens the file anew, after it was removed or its file system was mounted again.
    fn reopen(&mut self) -> io::Result<()> {
        let now = self.written_to.unwrap_or_default();
        self.journal.unlock().ok();
        self.file.unlock().ok();
        let again = Self::open(&self.path, self.header.clone(), self.limits, now);
        let waiting = std::mem::take(&mut self.waiting);
        let sums = std::mem::take(&mut self.sums);
        match again {
            Ok(again) => *self = Self { waiting, sums, needs_checkpoint: true, ..again },
            Err(error) => {
                (self.waiting, self.sums) = (waiting, sums);
                return Err(io::Error::other(error.to_string()));
            }
        }
        Ok(())
    }

    /// Ends a segment with its index; the next group starts with a checkpoint.
    pub(super) fn end_segment(&mut self) -> io::Result<()> {
        let Some((first, last)) = self.segment.span else { return Ok(()) };
        self.end_block()?;
        let OpenSegment { groups, pauses, marks, .. } = &self.segment;
        self.append_index(Index::new(groups.clone(), (first, last), pauses, marks))?;
        self.segment = OpenSegment::default();
        let sums = self.sums.end_segment(last);
        self.append_sums(sums)
    }

    /// Ends a file with the sums of its last segments.
    fn end_file(&mut self) -> io::Result<()> {
        self.end_segment()?;
        let sums = self.written_to.and_then(|to| self.sums.end_stretch(to));
        self.append_sums(sums)
    }

    fn append_sums(&mut self, sums: Option<StretchSums>) -> io::Result<()> {
        let frames = sums.map(|(span, sums)| sum_lines::write(span, &sums));
        for lines in frames.into_iter().flatten() {
            if let Some(frame) = layout::encode_sums(&lines)? {
                self.file.append(&frame)?;
            }
        }
        Ok(())
    }

    /// Ends the recording: nothing is left in the journal.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.end_file()?;
        self.journal.remove()
    }

    /// Returns true if a new part is due.
    pub(super) fn is_part_full(&self, now: Timestamp) -> bool {
        let span = self.part_from.map_or(Duration::ZERO, |from| now.since(from));
        let is_long = span >= (self.limits.keep / PARTS).max(MIN_PART_SPAN);
        let is_large = self.file_bytes() >= self.part_bytes() && span >= MIN_PART_SPAN;
        is_long || is_large
    }

    fn part_bytes(&self) -> u64 {
        self.limits.max_bytes / u64::from(PARTS)
    }

    /// Renames the file to a part, starts a new one, and removes the oldest parts. Without it the file grows on.
    pub(super) fn start_part(&mut self, now: Timestamp) -> io::Result<()> {
        self.end_file()?;
        if let Err(error) = self.exchange_file(now) {
            let path = self.path.display();
            let text = format!("{path} keeps growing: a new part cannot be started: {error}");
            self.part_fault = Some(text.into());
            return Ok(());
        }
        self.part_fault = None;
        self.write_header(now)?;
        self.remove_old_parts(now)
    }

    /// Renames the file and opens a new one in its place; what is open stays as it is, if that fails.
    fn exchange_file(&mut self, now: Timestamp) -> io::Result<()> {
        let from = self.part_from.unwrap_or(now);
        let part = part_path(&self.target, from);
        if self.file.path() == self.target {
            self.file.rename(&part)?;
        }
        let next = open_file(&self.target).map_err(|error| {
            // If somebody else has a file there by now, this one keeps the name of the part.
            self.file.rename(&self.target).ok();
            io::Error::other(error.to_string())
        })?;
        let old = std::mem::replace(&mut self.file, next);
        self.parts.push_back(Part { path: old.path().to_owned(), from, bytes: old.length() });
        (self.segment, self.last_index, self.part_from) = Default::default();
        Ok(())
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
            self.removed_bytes += oldest.bytes;
        }
    }

    /// Returns the size of what is not a part yet.
    fn file_bytes(&self) -> u64 {
        self.file.length() + self.journal.length()
    }

    fn bytes(&self) -> u64 {
        self.file_bytes() + self.parts.iter().map(|part| part.bytes).sum::<u64>()
    }

    /// Returns the size of all that was written, which only grows.
    pub(super) fn written_bytes(&self) -> u64 {
        self.bytes() + self.removed_bytes
    }

    /// Returns the state, with the time between two recorded samples, and the reason why nothing can be written at the moment.
    pub(super) fn state(&self, every: Duration, fault: Option<&io::Error>) -> RecorderState {
        RecorderState {
            from: self.parts.front().map(|part| part.from).or(self.part_from),
            to: self.written_to,
            bytes: self.bytes(),
            every,
            fault: fault
                .map(|error| Arc::from(fault_text(&self.path, error)))
                .or_else(|| self.part_fault.clone()),
        }
    }
}

impl OpenSegment {
    /// Adds the times of lines.
    fn extend_span(&mut self, first: Timestamp, last: Timestamp) {
        let (start, before) = self.span.unwrap_or((first, first));
        if is_pause(before, first) {
            self.pauses.push((before, first));
        }
        self.span = Some((start, last));
    }
}

fn size(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

fn compress(group: LineGroup) -> io::Result<Waiting> {
    let LineGroup { text, span, pauses, marks, frames: _ } = group;
    let frame = layout::encode_journal_group(&text)?;
    Ok(Waiting { frame, lines: size(text.len()), span, pauses, marks })
}

fn open_file(path: &Path) -> Result<AppendFile, RecordError> {
    AppendFile::open(path, NEW_FILE).map_err(refused)
}

fn refused(error: AppendError) -> RecordError {
    match error {
        AppendError::Locked(path) => RecordError::InUse(path),
        AppendError::Write(error) => RecordError::Write(error),
    }
}

/// Reads what an open file has; `None` if it is new. Refuses one that another recorder writes.
fn read_known(path: &Path, file: &AppendFile) -> Result<Option<Recording>, RecordError> {
    if file.length() == 0 {
        return Ok(None);
    }
    let reader = file.reader().map_err(RecordError::failed(path))?;
    let journal = journal::read(file.path()).map_err(RecordError::failed(path))?;
    let known =
        Recording::read(path, reader, file.length(), journal).map_err(RecordError::Foreign)?;
    if known.header().is_none() {
        let path = path.display().to_string();
        return Err(RecordError::Foreign(RecordingError::NoHeader(path)));
    }
    let is_guarded = file.is_locked() && file.is_local();
    if !is_guarded && !known.is_ended {
        observe(path, file.length())?;
    }
    Ok(Some(known))
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
        _ => &error.to_string(),
    };
    // A narrow screen cuts the path off.
    format!("nothing is recorded: {remedy} ({path})")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { keep: Duration::from_secs(3_600), max_bytes: 1 << 30 };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn group(second: i64, bytes: usize) -> Waiting {
        let span = Some((at(second), at(second)));
        Waiting { frame: vec![0; bytes], lines: 1, span, pauses: Vec::new(), marks: Vec::new() }
    }

    #[test]
    fn after_dropped_groups_a_checkpoint_follows_and_says_since_when() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gtop");
        let mut writer = Writer::open(&path, Header::default(), LIMITS, at(1)).unwrap();
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
        assert_eq!(writer.take_lost(), Some(at(2)));
    }

    /// The files of a recording at a moment.
    #[derive(Clone)]
    struct Files {
        file: Vec<u8>,
        journal: Vec<u8>,
    }

    impl Files {
        fn of(path: &Path) -> Self {
            Self {
                file: fs::read(path).unwrap(),
                journal: journal::read(path).unwrap().unwrap_or_default(),
            }
        }

        fn write(&self, folder: &Path) -> PathBuf {
            let path = folder.join("a.gtop");
            storage::write(&path, &self.file, NEW_FILE).unwrap();
            storage::write(&folder.join("a.gtop.journal"), &self.journal, NEW_FILE).unwrap();
            path
        }

        /// Returns the lines that a reader finds, and those that are there once a recorder has begun and ended.
        fn lines(&self) -> [String; 2] {
            let folder = tempfile::tempdir().unwrap();
            let path = self.write(folder.path());
            let read = || String::from_utf8(Recording::open(&path).unwrap().lines()).unwrap();
            let found = read();
            let mut next = Writer::open(&path, Header::default(), LIMITS, at(99)).unwrap();
            next.finish().unwrap();
            assert_eq!(Recording::open(&path).unwrap().loss(), None);
            assert_eq!(journal::read(&path).unwrap(), None);
            let lines = read();
            let (kept, start) = lines.trim_end().rsplit_once('\n').unwrap();
            assert!(start.starts_with("{\"at\":99.000000,\"start\":"), "{start}");
            [found, format!("{kept}\n")]
        }
    }

    /// Returns the files before and after a block is written, those after the journal is cut, and the lines.
    fn rewritten() -> ([Files; 3], String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gtop");
        let mut writer = Writer::open(&path, Header::default(), LIMITS, at(1)).unwrap();
        for second in 2..40 {
            let mut group = LineGroup::default();
            for node in 0..3 {
                let line = format!(
                    "{{\"at\":{second}.{node}00000,\"node\":\"n{node}\",\"body\":{{\"x\":{}}}}}\n",
                    second * 1_000_003 % 977
                );
                group.add(at(second), |text| text.extend_from_slice(line.as_bytes()));
            }
            writer.write(group).unwrap();
        }
        let before = Files::of(&path);
        writer.end_block().unwrap();
        let cut = Files::of(&path);
        let lines = String::from_utf8(Recording::open(&path).unwrap().lines()).unwrap();
        assert_eq!(lines.lines().count(), 1 + 38 * 3);
        assert_eq!(cut.journal, b"");
        let written = Files { journal: before.journal.clone(), ..cut.clone() };
        ([before, written, cut], lines)
    }

    #[test]
    fn whenever_a_recorder_is_killed_while_it_writes_a_block_all_lines_are_there() {
        let ([before, written, cut], lines) = rewritten();
        let is_block = |files: &Files| files.file.get(before.file.len()..).unwrap().len() > 8;
        assert!(is_block(&written) && !is_block(&before));
        // The block is appended.
        for length in (before.file.len()..=written.file.len()).step_by(7) {
            let file = written.file[..length].to_vec();
            assert_eq!(Files { file, ..before.clone() }.lines(), [&*lines, &*lines], "{length}");
        }
        // Its space is reserved, and nothing is written to it.
        let mut file = before.file.clone();
        file.resize(written.file.len(), 0);
        assert_eq!(Files { file, ..before.clone() }.lines(), [&*lines, &*lines]);
        // The journal is cut.
        for length in (0..=written.journal.len()).step_by(97) {
            let journal = written.journal[..length].to_vec();
            assert_eq!(Files { journal, ..cut.clone() }.lines(), [&*lines, &*lines], "{length}");
        }
    }

    #[test]
    fn what_a_killed_recorder_leaves_has_an_index_once_the_next_one_has_begun() {
        let ([before, written, cut], lines) = rewritten();
        for files in [before, written, cut] {
            let folder = tempfile::tempdir().unwrap();
            let path = files.write(folder.path());
            drop(Writer::open(&path, Header::default(), LIMITS, at(99)).unwrap());
            let known = Recording::open(&path).unwrap();
            let spans: Vec<_> = known.segments().iter().map(|one| (one.first, one.last)).collect();
            assert_eq!(spans, [(at(1), at(39).plus(Duration::from_millis(200))), (at(99), at(99))]);
            // The index of the new run is not written yet.
            let missing = known.missing_index().unwrap();
            assert_eq!((missing.first, missing.groups.len()), (at(99).as_micros(), 1));
            let last = known.last_index.unwrap();
            let (index, _) =
                layout::read_index(&fs::File::open(&path).unwrap(), last, u64::MAX).unwrap();
            let in_index: u32 = index.groups.iter().map(|(_, lines)| lines).sum();
            assert_eq!(in_index as usize, lines.len());
        }
    }

    #[test]
    fn a_block_that_the_disk_has_not_kept_is_written_again_from_the_journal() {
        let ([before, written, _], lines) = rewritten();
        for byte in (before.file.len()..written.file.len()).step_by(11) {
            let mut files = written.clone();
            files.file[byte] ^= 1 << (byte % 8);
            assert_eq!(files.lines(), [&*lines, &*lines], "{byte}");
        }
    }

    #[test]
    fn what_is_no_journal_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.gtop"), folder.path().join("notes"));
        let journal = folder.path().join("a.gtop.journal");
        let open = || Writer::open(&path, Header::default(), LIMITS, at(1));
        fs::write(&journal, "notes").unwrap();
        let error = open().unwrap_err().to_string();
        assert!(error.contains("a.gtop.journal is not the journal of a recording"), "{error}");
        assert_eq!((fs::read(&journal).unwrap(), path.exists()), (b"notes".to_vec(), false));
        fs::rename(&journal, &other).unwrap();
        std::os::unix::fs::symlink(&other, &journal).unwrap();
        assert!(open().is_err());
        assert_eq!(fs::read(&other).unwrap(), b"notes");
        fs::remove_file(&journal).unwrap();
        // What a crash may leave.
        for begun in [&[][..], &layout::JOURNAL_MAGIC.to_le_bytes()[..2], &[0; 100]] {
            fs::write(&journal, begun).unwrap();
            open().unwrap().finish().unwrap();
        }
    }

    #[test]
    fn a_journal_that_is_removed_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gtop");
        let mut writer = Writer::open(&path, Header::default(), LIMITS, at(1)).unwrap();
        for second in 2..6 {
            let mut group = LineGroup::default();
            let line = format!("{{\"at\":{second}.0,\"x\":1}}\n");
            group.add(at(second), |text| text.extend_from_slice(line.as_bytes()));
            writer.write(group).unwrap();
            if second == 3 {
                fs::remove_file(folder.path().join("a.gtop.journal")).unwrap();
            }
        }
        assert!(writer.take_needs_checkpoint());
        writer.finish().unwrap();
        let lines = String::from_utf8(Recording::open(&path).unwrap().lines()).unwrap();
        assert!(lines.contains("\"at\":4.0") && lines.contains("\"at\":5.0"), "{lines}");
    }

    #[test]
    fn a_damaged_journal_loses_one_group_and_says_so() {
        let ([before, ..], lines) = rewritten();
        let mut files = before.clone();
        let byte = files.journal.len() / 2;
        files.journal[byte] ^= 4;
        let [found, kept] = files.lines();
        assert_eq!(found.lines().count(), lines.lines().count() - 3);
        let is_lost = |line: &&str| line.contains("\"lost\":");
        assert_eq!(kept.lines().filter(is_lost).count(), 1);
        assert!(kept.lines().filter(|line| !is_lost(line)).eq(found.lines()));
    }

    #[test]
    fn a_block_ends_before_it_is_too_large() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gtop");
        let mut writer = Writer::open(&path, Header::default(), LIMITS, at(1)).unwrap();
        let line = format!("{{\"at\":2.0,\"x\":\"{}\"}}\n", "y".repeat(MAX_BLOCK_BYTES / 2));
        for blocks in 0..3 {
            let mut group = LineGroup::default();
            group.add(at(2), |text| text.extend_from_slice(line.as_bytes()));
            writer.write(group).unwrap();
            // The start of the recorder is a group of its own.
            assert_eq!(writer.segment.groups.len(), 1 + blocks);
            assert_eq!(writer.journal.line_bytes(), line.len());
        }
        let lines = String::from_utf8(Recording::open(&path).unwrap().lines()).unwrap();
        assert_eq!(lines.lines().count(), 4);
    }
}
