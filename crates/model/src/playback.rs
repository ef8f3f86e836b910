//! Playing a recording: its marks, its position and speed; and the state of a recorder.

use std::sync::Arc;
use std::time::Duration;

use crate::NodeName;
use crate::declare::table;
use gtop_local::time::Timestamp;

/// Speeds of playing, in recorded seconds per second.
pub const SPEEDS: [f32; 9] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

table! {
    /// What happened at a mark.
    #[derive(PartialOrd, Ord)]
    pub enum MarkKind {
        /// A node went down.
        Down = "down",
        /// A node that was down answers again.
        Up = "up",
        /// A device reported an event, such as an Xid.
        Device = "device",
        /// A device is listed again, or needs no recovery any more.
        Recovered = "recovered",
        /// A job started or ended.
        Job = "job",
        /// Recording resumed after a gap.
        Resumed = "resumed",
        /// A node is connected, and its samples stay away.
        Stale = "stale",
        /// A source gives no values: a driver that hangs, a library that is missing.
        Source = "source",
        /// A device is not sound, as its readings tell.
        Health = "health",
        /// A device is slowed down.
        Throttled = "throttled",
        /// A node has started anew.
        Rebooted = "rebooted",
        /// The problem of an earlier mark is over: staleness, a fault of a source or a device, throttling.
        Over = "over",
    }
    /// All of them.
    pub const ALL;
    /// Returns the name, also used in files.
    pub fn as_str -> &'static str;
}

table! {
    /// How serious a note, a problem or an event is.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// A failure.
        Error = "error",
        /// Something needs attention.
        Warning = "warning",
        /// Worth knowing; nothing is wrong yet.
        Notice = "notice",
        /// A problem is over.
        Recovery = "recovery",
        /// Normal operation.
        Info = "info",
    }
    /// All of them.
    pub const ALL;
    /// Returns its name in JSON.
    pub fn as_str -> &'static str;
}

/// A moment of a recording worth jumping to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When it was noticed.
    pub at: Timestamp,
    /// What happened.
    pub kind: MarkKind,
    /// How serious it is.
    pub severity: Severity,
    /// The event as text, with its node, device or job; safe to show.
    pub text: Arc<str>,
    /// The text without the node and the device; equal ones are one event of several nodes.
    pub event: Arc<str>,
    /// The nodes concerned.
    pub nodes: Arc<[NodeName]>,
    /// UUID of the device, if one is concerned.
    pub device: Option<Arc<str>>,
    /// What it means; empty if the text is enough.
    pub meaning: Arc<str>,
    /// What to do about it; empty where nothing is to be done.
    pub remedy: Arc<str>,
}

impl Mark {
    /// Returns a mark that concerns no node, and needs no explanation.
    pub fn plain(at: Timestamp, kind: MarkKind, text: impl Into<Arc<str>>) -> Self {
        let severity = match kind {
            MarkKind::Down | MarkKind::Device | MarkKind::Source | MarkKind::Health => {
                Severity::Error
            }
            MarkKind::Stale | MarkKind::Throttled | MarkKind::Rebooted => Severity::Warning,
            MarkKind::Up | MarkKind::Recovered | MarkKind::Over => Severity::Recovery,
            MarkKind::Job | MarkKind::Resumed => Severity::Info,
        };
        let (text, none) = (text.into(), Arc::<str>::default());
        let (event, meaning, remedy) = (Arc::clone(&text), Arc::clone(&none), none);
        Self { at, kind, severity, text, event, nodes: [].into(), device: None, meaning, remedy }
    }

    /// Returns true if it marks an event that the node itself tells of.
    pub fn is_device_event(&self) -> bool {
        matches!(self.kind, MarkKind::Device | MarkKind::Recovered)
    }
}

/// What is played, and how. The position is the time of the clock that comes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Playback {
    /// False while paused, and at the end.
    pub is_playing: bool,
    /// One of [`SPEEDS`].
    pub speed: f32,
    /// The recorded times, first and last, in rising order and apart.
    pub spans: Arc<[(Timestamp, Timestamp)]>,
    /// The marks, in rising order.
    pub marks: Arc<[Mark]>,
    /// Which parts of the files cannot be played.
    pub loss: Option<Arc<str>>,
    /// Counts the jumps: after one, the snapshot does not continue the one before.
    pub jumps: u64,
    /// What the last jump reached, as text, if it was one to an event or to a time that is not recorded.
    pub reached: Option<Arc<str>>,
    /// The recording is still being written by this gtop: the user can return to now.
    pub is_live: bool,
}

/// What a user wants of a playback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaybackCommand {
    /// Pauses or goes on; at the end of a finished recording, goes on from the start.
    TogglePlay,
    /// The next lower speed.
    Slower,
    /// The next higher speed.
    Faster,
    /// Jumps by this many seconds, back if negative.
    Step {
        /// Recorded seconds.
        seconds: i64,
    },
    /// Pauses, and jumps by one sample of each node.
    StepSample {
        /// Ahead, or back.
        ahead: bool,
    },
    /// Jumps to this time, or the nearest recorded one.
    GoTo(Timestamp),
    /// Jumps to the next mark.
    NextMark,
    /// Jumps to the previous mark.
    PreviousMark,
    /// Returns to now, if the recording is still being written; else jumps to the end.
    End,
}

/// Who records what a screen watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RecordedBy {
    /// Nobody.
    #[default]
    Nobody,
    /// This gtop.
    This(RecorderState),
    /// Another gtop on this host, which records what it watches itself.
    Another,
}

impl RecordedBy {
    /// Returns the state of the recorder of this gtop.
    pub const fn recorder(&self) -> Option<&RecorderState> {
        match self {
            Self::This(state) => Some(state),
            Self::Nobody | Self::Another => None,
        }
    }
}

/// The state of a recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecorderState {
    /// The first recorded moment that is still kept; `None` before anything is written.
    pub from: Option<Timestamp>,
    /// The last moment that is in the file.
    pub to: Option<Timestamp>,
    /// Bytes of the recording, older parts included.
    pub bytes: u64,
    /// The minimum time between two recorded samples of a node; zero if each is recorded.
    pub every: Duration,
    /// Why nothing can be written at the moment, with a remedy.
    pub fault: Option<Arc<str>>,
}
