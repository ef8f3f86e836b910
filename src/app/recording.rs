//! `gtop record` and `--record`: starts the recorder and reports on it.

use std::io::{self, Write};

use tokio::sync::mpsc;

use crate::app::env::Env;
use crate::app::output_mode::OutputMode;
use crate::app::{AppError, CommandError, ExitReason};
use gtop_collect::record::{
    Header, Limits, RecordError, Recorder, RecorderOptions, RecorderSink, Thinning,
};
use gtop_local::text::sanitize;
use gtop_local::time::{format_duration, local_text};
use gtop_model::RecorderState;
use gtop_ui::StopSignals;

/// What to know before sharing a recording.
const NOTE: &str = "holds command lines and names of users, which can be secret";

impl CommandError for RecordError {}

/// What records the nodes that are watched.
#[derive(Debug)]
pub(super) enum SessionRecorder {
    Nothing,
    /// A recorder that the command line requests.
    Requested(Recorder),
    /// A recorder that the setting `record` starts and ends while the screen runs.
    Automatic(RecorderSink),
}

impl SessionRecorder {
    /// Starts the recorder if the command line requests one; `title` says what is watched.
    pub(super) fn start(env: &Env, title: &str) -> Result<Self, AppError> {
        let keep = &env.cli.output.keep;
        if let Some(path) = &env.cli.output.record {
            let options = RecorderOptions {
                header: header(title),
                thinning: Thinning::Every(keep.every()),
                limits: Limits { keep: keep.keep(), max_bytes: keep.max_size() },
            };
            let recorder = Recorder::start(path, options, env.clock.clone())?;
            return Ok(Self::Requested(recorder));
        }
        let is_real = env.cli.nodes.demo.is_none();
        Ok(if is_real && env.output_mode == OutputMode::Screen {
            Self::Automatic(RecorderSink::idle(env.clock.clone()))
        } else {
            Self::Nothing
        })
    }

    /// Returns what takes the events of nodes.
    pub(super) fn sink(&self) -> Option<RecorderSink> {
        match self {
            Self::Nothing => None,
            Self::Requested(recorder) => Some(recorder.sink()),
            Self::Automatic(sink) => Some(sink.clone()),
        }
    }

    /// Returns the recorder that the command line requests.
    pub(super) fn requested(&self) -> Option<&Recorder> {
        match self {
            Self::Requested(recorder) => Some(recorder),
            Self::Nothing | Self::Automatic(_) => None,
        }
    }
}

/// Returns the first line of a recording.
pub(super) fn header(title: &str) -> Header {
    let system = rustix::system::uname();
    let arguments = std::env::args_os().skip(1);
    Header {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        host: sanitize(&system.nodename().to_string_lossy(), 255),
        pid: std::process::id(),
        title: title.to_owned(),
        arguments: arguments.map(|text| sanitize(&text.to_string_lossy(), 1000)).collect(),
        note: NOTE.to_owned(),
        ..Header::default()
    }
}

/// Reports when recording fails and when it goes on again, until a signal stops it; for ever without a recorder.
pub(super) async fn report(
    recorder: &SessionRecorder,
    notices: &mpsc::Sender<String>,
) -> io::Result<ExitReason> {
    let Some(recorder) = recorder.requested() else { return std::future::pending().await };
    let mut state = recorder.state();
    let mut signals = StopSignals::new();
    let mut known_fault = None;
    loop {
        let fault = state.borrow_and_update().fault.clone();
        if fault != known_fault {
            let text = fault.as_deref().unwrap_or("recording goes on").to_owned();
            // Fails if the program ends.
            notices.send(text).await.ok();
            known_fault = fault;
        }
        tokio::select! {
            reason = signals.next() => return Ok(reason.into()),
            Ok(()) = state.changed() => {}
        }
    }
}

/// Closes the recording and, without a screen, says what is in it.
pub(super) fn finish(
    recorder: SessionRecorder,
    output_mode: OutputMode,
    err: &mut impl Write,
) -> io::Result<()> {
    let SessionRecorder::Requested(recorder) = recorder else { return Ok(()) };
    let state = recorder.state();
    drop(recorder);
    let state = state.borrow().clone();
    if let Some(fault) = &state.fault {
        return writeln!(err, "gtop: {fault}");
    }
    match output_mode {
        OutputMode::Record => writeln!(err, "gtop: {}", summary(&state)),
        OutputMode::Screen | OutputMode::Once(_) | OutputMode::Continuous => Ok(()),
    }
}

fn summary(state: &RecorderState) -> String {
    let (Some(from), Some(to)) = (state.from, state.to) else {
        return "nothing was recorded".to_owned();
    };
    format!(
        "the recording covers {}, {} to {}, in {}",
        format_duration(to.since(from)),
        local_text(from),
        local_text(to),
        size_text(state.bytes),
    )
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn size_text(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1_048_576.0 => format!("{:.0} KiB", bytes / 1024.0),
        bytes if bytes < 1_073_741_824.0 => format!("{:.1} MiB", bytes / 1_048_576.0),
        bytes => format!("{:.2} GiB", bytes / 1_073_741_824.0),
    }
}
