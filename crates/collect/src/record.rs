//! Recordings: what nodes and the scheduler sent, with times, in a file that survives crashes and that others can read.
//!
//! A recording consists of lines, one JSON object each:
//!
//! - `{"at":T,"start":{"gtop":1,"version":…,"host":…}}` starts a run of a recorder, `{"at":T,"end":true}` ends it.
//! - `{"at":T,"node":N,"body":{…}}` is a frame's JSON as the node sent it; T is its arrival in seconds since 1970.
//! - `{"at":T,"node":N,"link":{…}}`, `"via"`, `"interval"`, `"every"`: the connection, and how the node is
//!   reached, sampled and recorded.
//! - `{"at":T,"nodes":[…],"jobs":{…}}`: the watched nodes and the scheduler's jobs.
//! - `{"at":T,"mark":{"kind":"down","text":…}}`: something worth jumping to.
//! - `{"at":T,"alive":true}`: nothing has happened for a while, and the recorder runs.
//! - `{"at":T,"lost":S}`: lines are missing between S and T; an unknown time after S if both are the same.
//!
//! Lines with `"checkpoint":true` repeat what is known, so that a reader can start there. Those of the last half minute are in a
//! `journal` beside the file, in groups that are compressed (`zstdcat FILE.journal | jq` prints them); what is closed is a block
//! of `columns` in the file, with its sums (`line_sums`). Where these are and how they are indexed is in `layout`. Answers to
//! questions of a user are not recorded. A full recording is renamed to a part, `FILE.20261124T140500Z`, and goes on in a new
//! file.

pub use line::Header;
pub use pace::Thinning;
pub use recorder::{NodeRecorder, Recorder, RecorderOptions, RecorderSink};
pub use recording::{Read, Recording, RecordingError, Segment};
#[cfg(feature = "testing")]
pub use rewrite::rewrite;
pub use writer::{Limits, RecordError};

pub(crate) use line::{Content, RecordedLine};
pub(crate) use recording::{Cursor, NextLine};
pub(crate) use value::MAX_PAUSE;

/// Compresses lines as a group of a file; for tests.
#[cfg(feature = "testing")]
pub fn compress_lines(lines: &[u8]) -> Vec<u8> {
    layout::encode_group(lines).unwrap_or_default()
}

/// Makes a block of bytes that claim to be lines in columns; for tests.
#[cfg(feature = "testing")]
pub fn block_of_columns(columns: &[u8]) -> Vec<u8> {
    layout::encode_columns(columns).unwrap_or_default()
}

mod columns;
mod gone;
mod jobs;
mod journal;
mod layout;
mod line;
mod line_group;
mod line_sums;
mod marks;
mod pace;
mod parts;
mod proved;
mod recorder;
mod recording;
#[cfg(feature = "testing")]
mod rewrite;
mod scheduler_nodes;
mod sum_lines;
mod value;
mod writer;
