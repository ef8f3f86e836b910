//! Requests about the files of training runs, and the responses.

use std::sync::Arc;

use crate::run::RunId;
use crate::unit::Bytes;

/// One of the two outputs of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Returns its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// An output file that the script of a host keeps open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutputId {
    /// The session that has opened it.
    pub session: u64,
    /// The script's number of it.
    pub handle: u64,
}

/// A request about the files of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunRequest {
    /// Change a variable, if the control file is still as it was.
    SetVariable {
        /// The run.
        run: RunId,
        /// The control file's text.
        base: Arc<str>,
        /// The variable.
        name: Arc<str>,
        /// Its new value as JSON.
        json: String,
    },
    /// List what deleting the run would remove.
    PlanDeletion(RunId),
    /// Delete the files of the run, if they are still those that were listed.
    Delete {
        /// The run.
        run: RunId,
        /// Identity of the files, from the plan.
        identity: Arc<str>,
    },
    /// Open the outputs of the run.
    OpenOutputs(RunId),
    /// Read a part of an output.
    ReadOutput {
        /// The output.
        output: OutputId,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        length: u32,
    },
    /// Search an output.
    FindInOutput {
        /// The output.
        output: OutputId,
        /// Where to begin.
        offset: u64,
        /// The text.
        pattern: String,
        /// Towards the beginning of the file.
        is_backwards: bool,
    },
    /// Tell when these outputs grow; none ends that.
    FollowOutputs(Vec<OutputId>),
    /// Close outputs.
    CloseOutputs(Vec<OutputId>),
}

/// A successful response.
#[derive(Clone, Debug, PartialEq)]
pub enum RunResponse {
    /// The request was carried out.
    Done,
    /// The new text of the control file.
    Changed(Arc<str>),
    /// What a deletion would remove.
    Plan(DeletionPlan),
    /// The number of files and folders that were deleted.
    Deleted(u64),
    /// The outputs: standard output and standard error, or why they cannot be read.
    Outputs([Result<OutputFile, Arc<str>>; 2]),
    /// A part of an output.
    Read {
        /// Offset of the first byte.
        offset: u64,
        /// The bytes.
        data: Arc<[u8]>,
        /// Size of the file.
        size: u64,
    },
    /// The result of a search.
    Found {
        /// Where the text begins; `None` if not in what was searched.
        at: Option<u64>,
        /// Where the search has stopped: go on there, or the end of the file.
        searched: u64,
        /// Size of the file.
        size: u64,
    },
}

/// What a deletion would remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionPlan {
    /// The folder that it happens in.
    pub folder: Arc<str>,
    /// The first files and folders, as paths in it, with their sizes.
    pub entries: Vec<(Arc<str>, Bytes)>,
    /// The number of all.
    pub count: u64,
    /// Size of all.
    pub bytes: Bytes,
    /// Identity of the files.
    pub identity: Arc<str>,
}

/// An output that has been opened.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputFile {
    /// What it is read by.
    pub output: OutputId,
    /// Its path.
    pub path: Arc<str>,
    /// Size in bytes.
    pub size: u64,
    /// Device and inode: both outputs may be one file.
    pub identity: Arc<str>,
    /// When it was last written, in seconds since 1970 by its host's clock.
    pub written_at: f64,
    /// True if the file has been deleted and is still written.
    pub is_deleted: bool,
}

/// Why a request about a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunRequestError {
    /// gtop runs read-only.
    #[error("changes are disabled (--readonly)")]
    ReadOnly,
    /// The run is no longer listed.
    #[error("the run is no longer there")]
    NoRun,
    /// The host is not connected.
    #[error("{0} is not connected; wait until it is")]
    Down(Arc<str>),
    /// The response did not arrive.
    #[error("{0} did not answer within {1} s; the change may have been made, check again")]
    TimedOut(Arc<str>, u64),
    /// The control file was changed by someone else.
    #[error("the control file was changed meanwhile; nothing was written")]
    Conflict,
    /// The host refused.
    #[error("{0}")]
    Refused(Arc<str>),
}

/// A request with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReply {
    /// The request.
    pub request: RunRequest,
    /// The result.
    pub result: Result<RunResponse, RunRequestError>,
}

/// News of an output that is followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputGrowth {
    /// The output.
    pub output: OutputId,
    /// Its new size.
    pub size: u64,
    /// Offset of `data`; bytes before it may have been skipped.
    pub from: u64,
    /// The last bytes.
    pub data: Arc<[u8]>,
    /// The file was emptied or has become shorter.
    pub is_truncated: bool,
    /// The path now names another file.
    pub is_rotated: bool,
}
