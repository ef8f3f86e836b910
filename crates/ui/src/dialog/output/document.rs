//! The text of one or two files in the order in which it was written, of which only windows are in memory.
//!
//! The document is a sequence of ranges of the files. A position is the number of bytes before it.

use std::collections::BTreeSet;
use std::ops::Range;

use memchr::{memchr, memrchr};

/// A longer line is shown in pieces of this length.
const MAX_LINE: u64 = 65_536;
/// Bytes per request.
const WINDOW: u64 = 131_072;
/// Maximum bytes of one piece in memory, and number of pieces.
const MAX_PIECE: usize = 524_288;
const MAX_PIECES: usize = 4;
/// Ranges beyond this number are joined, the oldest first.
const MAX_RANGES: usize = 4_000;

/// The ranges of the files, and the pieces in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Document {
    ranges: Vec<FileRange>,
    pieces: Vec<CachedBytes>,
    /// The files that are not shown.
    hidden: BTreeSet<usize>,
}

/// A range of a file, by its index.
#[derive(Clone, Debug, PartialEq)]
struct FileRange {
    file: usize,
    bytes: Range<u64>,
}

/// A part of a file in memory.
#[derive(Clone, Debug, PartialEq)]
struct CachedBytes {
    file: usize,
    start: u64,
    bytes: Vec<u8>,
}

/// A part of a file that is needed and not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Missing {
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// A line: its file, its bytes and the position behind it.
type TextLine<'a> = (usize, &'a [u8], u64);

impl Missing {
    const fn new(file: usize, bytes: Range<u64>) -> Self {
        Self { file, offset: bytes.start, length: bytes.end - bytes.start }
    }
}

impl CachedBytes {
    fn end(&self) -> u64 {
        self.start + to_u64(self.bytes.len())
    }
}

impl Document {
    /// Appends what was written to a file.
    pub(super) fn append(&mut self, file: usize, bytes: Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if last.file == file && last.bytes.end == bytes.start => {
                last.bytes.end = bytes.end;
            }
            _ => self.ranges.push(FileRange { file, bytes }),
        }
        if self.ranges.len() > MAX_RANGES {
            self.join_oldest();
        }
    }

    /// Sorts the older half of the ranges by file, so that neighbours become one.
    fn join_oldest(&mut self) {
        let newer = self.ranges.split_off(MAX_RANGES / 2);
        let mut older = std::mem::take(&mut self.ranges);
        older.sort_by_key(|range| (range.file, range.bytes.start));
        for FileRange { file, bytes } in older.into_iter().chain(newer) {
            self.append(file, bytes);
        }
    }

    /// Forgets a file, which begins anew.
    pub(super) fn forget(&mut self, file: usize) {
        self.ranges.retain(|range| range.file != file);
        self.pieces.retain(|piece| piece.file != file);
    }

    pub(super) fn set_hidden(&mut self, file: usize, is_hidden: bool) {
        if is_hidden {
            self.hidden.insert(file);
        } else {
            self.hidden.remove(&file);
        }
    }

    pub(super) fn is_hidden(&self, file: usize) -> bool {
        self.hidden.contains(&file)
    }

    /// Takes bytes of a file into memory.
    pub(super) fn add(&mut self, file: usize, start: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut pieces = self.pieces.iter_mut();
        if let Some(piece) = pieces.find(|piece| piece.file == file && piece.end() == start) {
            piece.bytes.extend_from_slice(bytes);
            let excess = piece.bytes.len().saturating_sub(MAX_PIECE);
            piece.bytes.drain(..excess);
            piece.start += to_u64(excess);
            return;
        }
        if self.pieces.len() >= MAX_PIECES {
            self.pieces.remove(0);
        }
        self.pieces.push(CachedBytes { file, start, bytes: bytes.to_vec() });
    }

    fn shown(&self) -> impl DoubleEndedIterator<Item = &FileRange> {
        self.ranges.iter().filter(|range| !self.hidden.contains(&range.file))
    }

    /// Returns the number of bytes of the shown ranges.
    pub(super) fn length(&self) -> u64 {
        self.shown().map(|range| range.bytes.end - range.bytes.start).sum()
    }

    /// Returns the range that holds a position, and the position at which the range begins.
    fn range_at(&self, position: u64) -> Option<(&FileRange, u64)> {
        let mut begin = 0;
        for range in self.shown() {
            let length = range.bytes.end - range.bytes.start;
            if position < begin + length {
                return Some((range, begin));
            }
            begin += length;
        }
        None
    }

    /// Returns the file and the offset of a position, and the end of its range in the file.
    pub(super) fn place(&self, position: u64) -> Option<(usize, u64, Range<u64>)> {
        let (range, begin) = self.range_at(position)?;
        Some((range.file, range.bytes.start + position - begin, range.bytes.clone()))
    }

    /// Returns the position of an offset of a file; `None` if it is not shown.
    pub(super) fn position_of(&self, file: usize, offset: u64) -> Option<u64> {
        let mut begin = 0;
        for range in self.shown() {
            if range.file == file && range.bytes.contains(&offset) {
                return Some(begin + offset - range.bytes.start);
            }
            begin += range.bytes.end - range.bytes.start;
        }
        None
    }

    /// Returns the newest piece in memory that has an offset of a file.
    fn piece_at(&self, file: usize, offset: u64) -> Option<&CachedBytes> {
        let mut pieces = self.pieces.iter().rev();
        pieces.find(|piece| piece.file == file && (piece.start..piece.end()).contains(&offset))
    }

    /// Returns bytes of a file, or the range `near` as missing if they are not in memory.
    fn bytes(&self, file: usize, wanted: Range<u64>, near: Range<u64>) -> Result<&[u8], Missing> {
        let mut pieces = self.pieces.iter().rev().filter(|piece| piece.file == file);
        let held = pieces.find(|piece| piece.start <= wanted.start && wanted.end <= piece.end());
        let found = held.and_then(|piece| {
            let from = usize::try_from(wanted.start - piece.start).ok()?;
            let to = usize::try_from(wanted.end - piece.start).ok()?;
            piece.bytes.get(from..to)
        });
        found.ok_or_else(|| Missing::new(file, near))
    }

    /// Returns the line that begins at a position: its file, its bytes and the position behind it. `None` at the end.
    pub(super) fn line_at(&self, position: u64) -> Result<Option<TextLine<'_>>, Missing> {
        let Some((file, offset, range)) = self.place(position) else { return Ok(None) };
        let end = range.end.min(offset + MAX_LINE);
        // Most lines are short: what is in memory may do without the rest.
        let held = self.piece_at(file, offset);
        let available = held.map_or(offset, |piece| piece.end().min(end));
        let near = offset..range.end.min(offset + WINDOW);
        let bytes = self.bytes(file, offset..available, near.clone())?;
        let length = match memchr(b'\n', bytes) {
            Some(at) => at + 1,
            None if available == end => bytes.len(),
            None => return Err(Missing::new(file, near)),
        };
        Ok(Some((file, bytes.get(..length).unwrap_or_default(), position + to_u64(length))))
    }

    /// Returns the position of the line before the one at a position; `None` at the beginning.
    pub(super) fn line_before(&self, position: u64) -> Result<Option<u64>, Missing> {
        let Some(last) = position.checked_sub(1) else { return Ok(None) };
        let Some((file, offset, range)) = self.place(last) else { return Ok(None) };
        let begin = range.start.max((offset + 1).saturating_sub(MAX_LINE));
        let near = range.start.max((offset + 1).saturating_sub(WINDOW))..offset + 1;
        // The newline that ends the line itself is at `offset`.
        let held = self.piece_at(file, offset);
        let available = held.map_or(offset, |piece| piece.start.max(begin));
        let bytes = self.bytes(file, available..offset, near.clone())?;
        let start = match memrchr(b'\n', bytes) {
            Some(at) => available + to_u64(at) + 1,
            None if held.is_some() && available == begin => begin,
            None => return Err(Missing::new(file, near)),
        };
        Ok(Some(position - (offset + 1 - start)))
    }
}

pub(super) fn to_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers what is missing from files in memory.
    fn serve(document: &mut Document, files: &[Vec<u8>], missing: Missing) {
        let at = |offset: u64| usize::try_from(offset).unwrap().min(files[missing.file].len());
        let bytes = &files[missing.file][at(missing.offset)..at(missing.offset + missing.length)];
        assert!(!bytes.is_empty(), "{missing:?} is beyond the file");
        document.add(missing.file, missing.offset, bytes);
    }

    fn forwards(document: &mut Document, files: &[Vec<u8>]) -> Vec<(u64, Vec<u8>)> {
        let (mut position, mut lines) = (0, Vec::new());
        loop {
            match document.line_at(position) {
                Ok(None) => return lines,
                Ok(Some((_, bytes, next))) => {
                    lines.push((position, bytes.to_vec()));
                    position = next;
                }
                Err(missing) => serve(document, files, missing),
            }
        }
    }

    fn backwards(document: &mut Document, files: &[Vec<u8>]) -> Vec<u64> {
        let (mut position, mut starts) = (document.length(), Vec::new());
        loop {
            match document.line_before(position) {
                Ok(None) => break,
                Ok(Some(before)) => {
                    starts.push(before);
                    position = before;
                }
                Err(missing) => serve(document, files, missing),
            }
        }
        starts.reverse();
        starts
    }

    /// Lines of many lengths, from empty ones to some longer than a window would be.
    fn sample(count: usize) -> Vec<u8> {
        let mut state = 7_u32;
        let mut bytes = Vec::new();
        for number in 0..count {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let length = match state >> 28 {
                0 => 40_000,
                1 => 0,
                _ => state >> 25,
            };
            bytes.extend(format!("{number} ").bytes());
            bytes.extend(std::iter::repeat_n(b'x', usize::try_from(length).unwrap()));
            bytes.push(b'\n');
        }
        bytes.extend(b"no newline at the end");
        bytes
    }

    #[test]
    fn each_line_comes_once_in_order_both_ways() {
        let files = vec![sample(500)];
        let mut document = Document::default();
        document.append(0, 0..to_u64(files[0].len()));
        let lines = forwards(&mut document, &files);
        let joined: Vec<u8> = lines.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        assert_eq!(joined, files[0]);
        assert_eq!(lines.len(), 501);
        let starts: Vec<u64> = lines.iter().map(|(start, _)| *start).collect();
        assert_eq!(backwards(&mut document, &files), starts);
        let held: usize = document.pieces.iter().map(|piece| piece.bytes.len()).sum();
        assert!(held <= MAX_PIECES * MAX_PIECE);
    }

    #[test]
    fn lines_beyond_the_limit_are_cut_into_pieces_that_lose_nothing() {
        let files = vec![[vec![b'a'; 200_000], b"\nend\n".to_vec()].concat()];
        let mut document = Document::default();
        document.append(0, 0..to_u64(files[0].len()));
        let joined: Vec<u8> =
            forwards(&mut document, &files).into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert_eq!(joined, files[0]);
        let starts = backwards(&mut document, &files);
        assert_eq!(starts.first(), Some(&0));
        assert_eq!(starts.last(), Some(&200_001));
    }

    #[test]
    fn two_files_stand_in_the_order_they_were_written() {
        let files = vec![b"out 1\nout 2\nout 3\n".to_vec(), b"error 1\nerr".to_vec()];
        let mut document = Document::default();
        document.append(1, 0..8);
        document.append(0, 0..6);
        document.append(0, 6..12);
        document.append(1, 8..11);
        document.append(0, 12..18);
        assert_eq!(document.ranges.len(), 4);
        let text = |document: &mut Document| -> Vec<String> {
            let lines = forwards(document, &files).into_iter();
            lines.map(|(_, bytes)| String::from_utf8(bytes).unwrap()).collect()
        };
        let all = ["error 1\n", "out 1\n", "out 2\n", "err", "out 3\n"];
        assert_eq!(text(&mut document), all);
        assert_eq!(document.position_of(0, 12), Some(23));
        document.set_hidden(1, true);
        assert_eq!(text(&mut document), ["out 1\n", "out 2\n", "out 3\n"]);
        assert_eq!((document.position_of(0, 12), document.position_of(1, 0)), (Some(12), None));
        document.set_hidden(1, false);
        document.forget(0);
        assert_eq!(text(&mut document), ["error 1\n", "err"]);
    }

    #[test]
    fn a_huge_file_is_opened_at_its_end_with_one_window() {
        const SIZE: u64 = 5 << 30;
        let mut document = Document::default();
        document.append(0, 0..SIZE);
        let Err(missing) = document.line_before(SIZE) else { panic!() };
        assert_eq!((missing.offset, missing.length), (SIZE - WINDOW, WINDOW));
        document.add(0, missing.offset, &b"line of 16 byte\n".repeat(8_192));
        let mut position = SIZE;
        for _ in 0..50 {
            position = document.line_before(position).unwrap().unwrap();
        }
        assert_eq!(position, SIZE - 50 * 16);
    }

    #[test]
    fn ranges_stay_bounded_when_two_files_are_written_in_turns() {
        let mut document = Document::default();
        for number in 0..20_000_u64 {
            document.append(usize::from(number % 2 == 0), number / 2..number / 2 + 1);
        }
        assert!(document.ranges.len() <= MAX_RANGES + 1);
        assert_eq!(document.length(), 20_000);
    }
}
