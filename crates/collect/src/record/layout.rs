//! The layout of a recording's files, as bytes.
//!
//! A file is a sequence of zstd frames (RFC 8878). Each group of lines is an independent frame with a checksum. Skippable
//! frames, which `zstd -d` passes over, have other content, as such a frame in them: a block has lines in columns, and an
//! index, one after each segment, has the sizes of its groups and blocks, its times and marks, and the place of the index
//! before. The frame at the start of a journal tells where its lines belong.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};
use zstd::zstd_safe::CParameter;

use crate::record::columns;
use crate::record::marks::MarkLine;
use gtop_local::time::Timestamp;
use gtop_model::Mark;

/// Maximum size of the lines of one group or block.
pub(super) const MAX_GROUP_BYTES: usize = 64 << 20;
/// Maximum size of an index.
const MAX_INDEX_BYTES: u32 = 16 << 20;
const FRAME_MAGIC: u32 = 0xFD2F_B528;
/// A bit of the descriptor of a frame: it ends with a checksum of its content.
const CHECKSUM_FLAG: u8 = 4;
const SKIPPABLE_MAGIC: std::ops::RangeInclusive<u32> = 0x184D_2A50..=0x184D_2A5F;
/// The skippable frames that hold an [`Index`].
const INDEX_MAGIC: u32 = 0x184D_2A57;
/// The skippable frames that hold a block: lines in columns.
const BLOCK_MAGIC: u32 = 0x184D_2A58;
/// The skippable frame at the start of a journal.
pub(super) const JOURNAL_MAGIC: u32 = 0x184D_2A59;
/// The skippable frames that hold sums, in columns.
const SUMS_MAGIC: u32 = 0x184D_2A5A;
/// The last frame of a file of format 1, if its recorder has ended properly: the seek table of the zstd seekable format.
const SEEK_TABLE_MAGIC: u32 = 0x184D_2A5E;
/// For what is kept.
const COMPRESSION_LEVEL: i32 = 9;
/// For the groups of a journal, which last half a minute.
const JOURNAL_COMPRESSION_LEVEL: i32 = 1;

/// What is known of a segment: the groups and blocks from one checkpoint to the next.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Index {
    /// Where this index is in the file; the groups and blocks end here.
    pub(super) offset: u64,
    /// Where the index before is.
    pub(super) previous: Option<u64>,
    /// Time of the first line, in microseconds since 1970.
    pub(super) first: i64,
    /// Time of the last line.
    pub(super) last: i64,
    /// Sizes of the groups and blocks, and of their lines.
    pub(super) groups: Vec<(u32, u32)>,
    /// Time, kind and text of the marks, as earlier versions write them.
    #[serde(default, skip_serializing)]
    pub(super) marks: Vec<(i64, String, String)>,
    /// Times within the segment in which the recorder stood still, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) pauses: Vec<(i64, i64)>,
    /// The marks, each with its time.
    #[serde(default)]
    pub(super) events: Vec<(i64, MarkLine)>,
}

impl Index {
    /// Describes groups and blocks, their span, and the pauses and marks in it; its place is not known yet.
    pub(super) fn new<'a>(
        groups: Vec<(u32, u32)>,
        (first, last): (Timestamp, Timestamp),
        pauses: &[(Timestamp, Timestamp)],
        marks: impl IntoIterator<Item = &'a Mark>,
    ) -> Self {
        let marks = marks.into_iter();
        Self {
            first: first.as_micros(),
            last: last.as_micros(),
            groups,
            pauses: pauses.iter().map(|(from, to)| (from.as_micros(), to.as_micros())).collect(),
            events: marks.map(|mark| (mark.at.as_micros(), MarkLine::from(mark))).collect(),
            ..Self::default()
        }
    }
}

/// A frame of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileFrame {
    pub(super) kind: FileFrameKind,
    pub(super) length: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileFrameKind {
    /// A group or a block.
    Lines,
    Index,
    /// The last frame of format 1, if its recorder has ended properly.
    SeekTable,
    /// Any other skippable frame.
    Skipped,
}

/// Bytes that can be read at any place: a file, or what was read of one.
pub(super) trait ReadAt {
    /// Reads this many bytes at a place.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, offset)
    }
}

impl ReadAt for Vec<u8> {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        let found = rest.and_then(|rest| rest.get(..bytes.len()));
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

fn compress(content: &[u8], level: i32) -> io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(level)?;
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    compressor.compress(content)
}

/// Compresses the lines of a group that is kept.
pub(super) fn encode_group(lines: &[u8]) -> io::Result<Vec<u8>> {
    compress(lines, COMPRESSION_LEVEL)
}

/// Compresses the lines of a group of the journal.
pub(super) fn encode_journal_group(lines: &[u8]) -> io::Result<Vec<u8>> {
    compress(lines, JOURNAL_COMPRESSION_LEVEL)
}

/// Writes lines as a block; as a group if they would not come back from it as they are.
pub(super) fn encode_block(lines: &[u8]) -> io::Result<Vec<u8>> {
    if let Some(columns) = columns::encode(lines) {
        let block = encode_columns(&columns)?;
        if decode_lines(&block).is_ok_and(|decoded| decoded == lines) {
            return Ok(block);
        }
    }
    encode_group(lines)
}

/// Makes a block of lines in columns.
pub(super) fn encode_columns(columns: &[u8]) -> io::Result<Vec<u8>> {
    Ok(skippable(BLOCK_MAGIC, &compress(columns, COMPRESSION_LEVEL)?))
}

/// Returns the lines of a group or a block; an error if it is damaged.
pub(super) fn decode_lines(frame: &[u8]) -> io::Result<Vec<u8>> {
    if let Some(block) = frame.strip_prefix(&BLOCK_MAGIC.to_le_bytes()) {
        let columns = decompress(block.get(4..).unwrap_or_default())?;
        return columns::decode(&columns, MAX_GROUP_BYTES).ok_or(io::ErrorKind::InvalidData.into());
    }
    let lines = decompress(frame)?;
    // Behind damaged bytes, the frame within another one may look like a group.
    let are_lines = lines.starts_with(b"{") && lines.ends_with(b"\n");
    if are_lines { Ok(lines) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Writes the lines of sums; `None` if they would not come back as they are.
pub(super) fn encode_sums(lines: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let Some(columns) = columns::encode(lines) else { return Ok(None) };
    Ok(Some(skippable(SUMS_MAGIC, &compress(&columns, COMPRESSION_LEVEL)?)))
}

/// Returns the length of the frame of sums at `offset`; `None` if there is none.
pub(super) fn sums_length(file: &dyn ReadAt, offset: u64) -> Option<u64> {
    if read_u32(file, offset)? != SUMS_MAGIC {
        return None;
    }
    let length = Some(read_u32(file, offset + 4)?).filter(|length| *length <= MAX_INDEX_BYTES)?;
    Some(8 + u64::from(length))
}

/// Reads the lines of the sums at `offset`; `None` if there are none.
pub(super) fn read_sums(file: &dyn ReadAt, offset: u64) -> Option<Vec<u8>> {
    let length = sums_length(file, offset)? - 8;
    let mut content = vec![0; usize::try_from(length).ok()?];
    file.read_exact_at(&mut content, offset + 8).ok()?;
    columns::decode(&decompress(&content).ok()?, MAX_GROUP_BYTES)
}

/// Writes the first frame of a journal; `offset` is where the block of its lines will begin.
pub(super) fn encode_journal_start(offset: u64) -> io::Result<Vec<u8>> {
    Ok(skippable(JOURNAL_MAGIC, &compress(&offset.to_le_bytes(), COMPRESSION_LEVEL)?))
}

/// Reads the first frame of a journal: where the block of its lines will begin, and the length of the frame.
pub(super) fn read_journal_start(journal: &[u8]) -> Option<(u64, u64)> {
    let content = journal.strip_prefix(&JOURNAL_MAGIC.to_le_bytes())?;
    let (length, content) = content.split_first_chunk()?;
    let length = u32::from_le_bytes(*length);
    let offset = decompress(content.get(..usize::try_from(length).ok()?)?).ok()?;
    Some((u64::from_le_bytes(offset.try_into().ok()?), 8 + u64::from(length)))
}

/// Decompresses a zstd frame; an error if it is damaged, or longer than a group may be.
fn decompress(frame: &[u8]) -> io::Result<Vec<u8>> {
    // A flipped bit must not make it one of another kind, or one without a checksum.
    let descriptor = frame.strip_prefix(&FRAME_MAGIC.to_le_bytes()).and_then(<[u8]>::first);
    if descriptor.is_none_or(|descriptor| descriptor & CHECKSUM_FLAG == 0) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut lines = Vec::new();
    let mut decoder = zstd::stream::read::Decoder::with_buffer(frame)?.single_frame();
    decoder.window_log_max(27)?;
    let limit = u64::try_from(MAX_GROUP_BYTES).unwrap_or(u64::MAX);
    decoder.take(limit + 1).read_to_end(&mut lines)?;
    if lines.len() > MAX_GROUP_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a group of more than 64 MiB"));
    }
    Ok(lines)
}

fn skippable(magic: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    [&magic.to_le_bytes()[..], &length.to_le_bytes(), content].concat()
}

/// Writes an index as a skippable frame.
pub(super) fn encode_index(index: &Index) -> io::Result<Vec<u8>> {
    Ok(skippable(INDEX_MAGIC, &compress(&serde_json::to_vec(index)?, COMPRESSION_LEVEL)?))
}

/// Reads the index at `offset`; `None` if there is none, or it claims to be elsewhere.
pub(super) fn read_index(file: &dyn ReadAt, offset: u64, end: u64) -> Option<(Index, u64)> {
    let frame = read_frame(file, offset, end)?;
    if frame.kind != FileFrameKind::Index || frame.length > u64::from(MAX_INDEX_BYTES) {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(frame.length).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    let index: Index = serde_json::from_slice(&decompress(bytes.get(8..)?).ok()?).ok()?;
    (index.offset == offset).then_some((index, frame.length))
}

/// Returns the frame that begins at `offset` and ends at `end` or before; `None` if none is whole there. The content of
/// a group or a block is not checked.
pub(super) fn read_frame(file: &dyn ReadAt, offset: u64, end: u64) -> Option<FileFrame> {
    let magic = read_u32(file, offset)?;
    let frame = if SKIPPABLE_MAGIC.contains(&magic) {
        let kind = match magic {
            INDEX_MAGIC => FileFrameKind::Index,
            BLOCK_MAGIC => FileFrameKind::Lines,
            SEEK_TABLE_MAGIC => FileFrameKind::SeekTable,
            _ => FileFrameKind::Skipped,
        };
        FileFrame { kind, length: 8 + u64::from(read_u32(file, offset + 4)?) }
    } else if magic == FRAME_MAGIC {
        FileFrame { kind: FileFrameKind::Lines, length: group_length(file, offset, end)? }
    } else {
        return None;
    };
    (offset.checked_add(frame.length)? <= end).then_some(frame)
}

/// Returns true if the frame at `offset` begins as an index or as sums, which repeat what is in lines.
pub(super) fn begins_as_index(file: &dyn ReadAt, offset: u64) -> bool {
    read_u32(file, offset).is_some_and(|magic| [INDEX_MAGIC, SUMS_MAGIC].contains(&magic))
}

fn read_u32(file: &dyn ReadAt, offset: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(u32::from_le_bytes(bytes))
}

/// Adds up the header, the blocks and the checksum of a zstd frame, as RFC 8878 lays them out.
fn group_length(file: &dyn ReadAt, offset: u64, end: u64) -> Option<u64> {
    let mut descriptor = [0];
    file.read_exact_at(&mut descriptor, offset + 4).ok()?;
    let [descriptor] = descriptor;
    let is_single_segment = descriptor & 0x20 != 0;
    let size_field = match (descriptor >> 6, is_single_segment) {
        (0, false) => 0,
        (0, true) => 1,
        (1, _) => 2,
        (2, _) => 4,
        _ => 8,
    };
    let dictionary_field = [0, 1, 2, 4].get(usize::from(descriptor & 3)).copied()?;
    let mut at = offset + 5 + u64::from(!is_single_segment) + dictionary_field + size_field;
    loop {
        let mut header = [0; 4];
        file.read_exact_at(header.get_mut(..3)?, at).ok()?;
        let header = u32::from_le_bytes(header);
        let size = u64::from(header >> 3);
        at += 3 + match (header >> 1) & 3 {
            0 | 2 => size,
            1 => 1,
            _ => return None,
        };
        if at > end {
            return None;
        }
        if header & 1 == 1 {
            break;
        }
    }
    let checksum = if descriptor & CHECKSUM_FLAG == 0 { 0 } else { 4 };
    Some(at + checksum - offset)
}

/// Returns the offset of the last index that ends at `end` or before, its content and length.
pub(super) fn find_last_index(file: &dyn ReadAt, end: u64) -> Option<(Index, u64)> {
    const CHUNK: u64 = 1 << 20;
    let magic = INDEX_MAGIC.to_le_bytes();
    let mut stop = end;
    while stop > 0 {
        let start = stop.saturating_sub(CHUNK);
        // Three bytes more, so that bytes across two chunks are found.
        let length = usize::try_from((stop - start + 3).min(end - start)).ok()?;
        let mut chunk = vec![0; length];
        file.read_exact_at(&mut chunk, start).ok()?;
        for at in memchr::memmem::rfind_iter(&chunk, &magic) {
            let found = read_index(file, start + u64::try_from(at).ok()?, end);
            if found.is_some() {
                return found;
            }
        }
        stop = start;
    }
    None
}

/// Returns the offset of the next place, after `offset`, at which a frame may begin.
pub(super) fn find_frame(file: &dyn ReadAt, offset: u64, end: u64) -> Option<u64> {
    const CHUNK: usize = 1 << 20;
    let mut start = offset;
    while start < end {
        let length = usize::try_from(end - start).unwrap_or(CHUNK).min(CHUNK);
        let mut chunk = vec![0; length];
        file.read_exact_at(&mut chunk, start).ok()?;
        let magics = [FRAME_MAGIC, INDEX_MAGIC, BLOCK_MAGIC].map(u32::to_le_bytes);
        if let Some(at) =
            chunk.windows(4).position(|bytes| magics.iter().any(|magic| magic == bytes))
        {
            return Some(start + u64::try_from(at).ok()?);
        }
        let step = u64::try_from(length.saturating_sub(3)).ok()?;
        if step == 0 || length < CHUNK {
            return None;
        }
        start += step;
    }
    None
}
