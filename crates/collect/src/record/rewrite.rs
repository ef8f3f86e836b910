//! Writes the lines of a recording to another one, as their recorder would have; for tests.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::record::line::{self, Content};
use crate::record::line_group::LineGroup;
use crate::record::line_sums::LineSums;
use crate::record::recorder::GROUP_SPAN;
use crate::record::writer::{Limits, Writer};

const LIMITS: Limits = Limits { keep: Duration::MAX, max_bytes: u64::MAX };

/// Segments of a stretch with sums, fewer than those of a recorder.
const STRETCH_SEGMENTS: u32 = 4;

/// Writes lines to a new file. Each line of `start` becomes one of this version.
pub fn rewrite(lines: &[u8], path: &Path) -> io::Result<()> {
    let mut writer: Option<Writer> = None;
    let mut group = LineGroup::default();
    for text in lines.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line::parse(text.trim_ascii_end()) else { continue };
        if let Content::Header(header) = line.content {
            finish(writer.take(), std::mem::take(&mut group))?;
            let mut opened =
                Writer::open(path, header, LIMITS, line.at).map_err(io::Error::other)?;
            opened.sums = LineSums::of_stretches(STRETCH_SEGMENTS);
            writer = Some(opened);
            continue;
        }
        let Some(writer) = &mut writer else { continue };
        let is_new_segment = line.is_checkpoint && matches!(line.content, Content::Roster(..));
        let is_full = group.span.is_some_and(|(first, _)| line.at.since(first) >= GROUP_SPAN);
        if is_new_segment || (is_full && !line.is_checkpoint) {
            writer.write(std::mem::take(&mut group))?;
        }
        if is_new_segment {
            writer.end_segment()?;
        }
        if line.is_checkpoint {
            group.text.extend_from_slice(text);
            continue;
        }
        group.add(line.at, |out| out.extend_from_slice(text));
        if let Content::Mark(mark) = line.content {
            group.marks.push(mark);
        }
    }
    finish(writer, group)
}

fn finish(writer: Option<Writer>, group: LineGroup) -> io::Result<()> {
    let Some(mut writer) = writer else { return Ok(()) };
    writer.write(group)?;
    writer.finish()
}
