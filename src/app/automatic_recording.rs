//! The setting `record = "auto"`: what a screen watches is recorded, by one gtop per user and host.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::app::recording;
use crate::setting_table::RecordChoice;
use crate::watch::Monitor;
use gtop_collect::record::{
    Header, Limits, RecordError, Recorder, RecorderOptions, RecorderSink, Recording,
    RecordingError, Thinning,
};
use gtop_local::storage::{
    AppendError, AppendFile, NewFile, WriteError, private_folder, user_dirs,
};
use gtop_model::RecordedBy;
use gtop_ui::SettingsEvent;

/// What is kept, in at most 200 MB: the recorder exceeds its limit by less than a twentieth.
const LIMITS: Limits = Limits { keep: Duration::from_secs(86_400), max_bytes: 190_000_000 };
/// Of more nodes, what is known at one time takes half of a part, a twentieth of the size.
const MAX_NODES: usize = 2_000;
/// Time between two attempts while another gtop records.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
/// The remedy if a file cannot be created or written.
const ELSEWHERE: &str = "XDG_STATE_HOME names another folder";
/// Why there is no folder for recordings.
pub(super) const NO_FOLDER: &str =
    "neither HOME nor XDG_STATE_HOME is an absolute path; set one of them";
const LOCK_FILE: NewFile = NewFile { mode: 0o600, folder_mode: 0o700 };

/// Returns the folder of the recordings of this user, one folder per host; `None` without a home directory.
pub(super) fn folder() -> Option<PathBuf> {
    Some(user_dirs::state()?.join("gtop/recordings"))
}

/// Returns the recording of this user on this host.
pub(super) fn path() -> Option<PathBuf> {
    Some(file_of(&host_folder()?))
}

fn host_folder() -> Option<PathBuf> {
    Some(folder()?.join(host_name()))
}

/// Returns the recordings of this user on all hosts that share the home directory.
pub(super) fn all_paths() -> Vec<PathBuf> {
    let hosts = folder().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
    let mut paths: Vec<_> = hosts.flatten().map(|host| file_of(&host.path())).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    paths
}

fn file_of(host_folder: &Path) -> PathBuf {
    host_folder.join("auto.gtop")
}

/// Returns the name of this machine, as a name of a folder.
fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    let name = name.replace(|letter| !is_plain(letter), "_");
    if name.starts_with('.') { format!("_{name}") } else { name }
}

/// Records what a screen watches, while the setting says so and no other gtop records.
pub(super) struct AutomaticRecording<'a> {
    pub(super) monitor: &'a Monitor,
    pub(super) sink: RecorderSink,
    /// What is watched, as text.
    pub(super) title: &'a str,
    pub(super) choice: watch::Receiver<RecordChoice>,
    /// Tells the screen who records.
    pub(super) recorded: watch::Sender<RecordedBy>,
    /// Takes messages to the user.
    pub(super) events: mpsc::Sender<SettingsEvent>,
}

impl AutomaticRecording<'_> {
    /// Records until the screen ends. A recording that fails is not tried again.
    pub(super) async fn run<T>(mut self) -> T {
        let why = self.record().await;
        self.recorded.send_replace(RecordedBy::Nobody);
        // Fails if the screen has ended.
        self.events.send(SettingsEvent::Message(why)).await.ok();
        std::future::pending().await
    }

    /// Records while the setting says so; returns why it cannot.
    async fn record(&mut self) -> String {
        loop {
            if self.choice.wait_for(|choice| *choice == RecordChoice::Auto).await.is_err() {
                return std::future::pending().await;
            }
            let Some(folder) = host_folder() else { return refused(NO_FOLDER) };
            let sink = self.sink.clone();
            let header = recording::header(self.title);
            match on_thread(move || HeldRecorder::start(&sink, &folder, header)).await {
                None => return refused("no thread can be started"),
                Some(Ok(held)) => {
                    self.monitor.request_full_samples();
                    let fault = self.follow(&held.recorder).await;
                    self.recorded.send_replace(RecordedBy::Nobody);
                    on_thread(move || drop(held)).await;
                    if let Some(fault) = fault {
                        return fault;
                    }
                }
                Some(Err(StartError::InUse)) => {
                    self.recorded.send_replace(RecordedBy::Another);
                    // Ends earlier if the setting changes.
                    timeout(RETRY_INTERVAL, self.choice.changed()).await.ok();
                    if *self.choice.borrow() == RecordChoice::Off {
                        self.recorded.send_replace(RecordedBy::Nobody);
                    }
                }
                Some(Err(StartError::Failed(why))) => return refused(&why),
            }
        }
    }

    /// Shows what a recorder has recorded. Returns why it cannot go on, or `None` when the setting turns it off.
    async fn follow(&mut self, recorder: &Recorder) -> Option<String> {
        let mut state = recorder.state();
        loop {
            let now = state.borrow_and_update().clone();
            if let Some(fault) = now.fault {
                return Some(fault.to_string());
            }
            if self.monitor.rosters().borrow().targets.len() > MAX_NODES {
                return Some(refused(&format!(
                    "of more than {MAX_NODES} nodes, only by --record FILE"
                )));
            }
            self.recorded.send_replace(RecordedBy::This(now));
            tokio::select! {
                _off = self.choice.wait_for(|choice| *choice == RecordChoice::Off) => return None,
                _changed = state.changed() => {}
            }
        }
    }
}

/// Returns the message that there is no recorder.
fn refused(why: &str) -> String {
    format!("nothing is recorded: {why}")
}

/// A recorder, and the lock that makes it the only one.
struct HeldRecorder {
    recorder: Recorder,
    /// Released after the recorder has closed its files.
    _lock: AppendFile,
}

/// Why there is no recorder.
enum StartError {
    /// Another gtop records.
    InUse,
    Failed(String),
}

impl HeldRecorder {
    fn start(sink: &RecorderSink, folder: &Path, header: Header) -> Result<Self, StartError> {
        let lock = lock_folder(folder)?;
        let options = RecorderOptions { header, thinning: Thinning::ToFit, limits: LIMITS };
        let recorder = Recorder::start_on(sink, &file_of(folder), options)?;
        Ok(Self { recorder, _lock: lock })
    }
}

impl From<RecordError> for StartError {
    fn from(error: RecordError) -> Self {
        match error {
            // Where a file system has no locks, the recorder sees that the file grows.
            RecordError::InUse(_) => Self::InUse,
            RecordError::Foreign(RecordingError::Foreign(path)) => {
                Self::Failed(format!("{path} is not a recording of gtop; move it away"))
            }
            RecordError::Foreign(error) => Self::Failed(format!("{error}; move it away")),
            RecordError::ForeignJournal(path) => Self::Failed(format!(
                "{path}.journal is not the journal of a recording; move it away"
            )),
            RecordError::Write(error) => error.into(),
            error @ RecordError::Failed { .. } => Self::Failed(format!("{error}; {ELSEWHERE}")),
            error @ RecordError::Thread(_) => Self::Failed(error.to_string()),
        }
    }
}

impl From<WriteError> for StartError {
    fn from(error: WriteError) -> Self {
        Self::Failed(match error {
            WriteError::Refused { .. } => error.to_string(),
            WriteError::Failed { .. } => format!("{error}; {ELSEWHERE}"),
        })
    }
}

/// Creates the folder of a host, and locks it for other gtops of this user there. What is in it is closed to others.
fn lock_folder(folder: &Path) -> Result<AppendFile, StartError> {
    folder.parent().into_iter().chain([folder]).try_for_each(private_folder::create)?;
    let (lock, path) = (folder.join("lock"), file_of(folder));
    let journal = path.with_extension("gtop.journal");
    let mut files = Recording::parts(&path);
    files.extend([lock.clone(), path, journal]);
    files.iter().try_for_each(|file| private_folder::close_file(file))?;
    AppendFile::open(&lock, LOCK_FILE).map_err(|error| match error {
        AppendError::Locked(_) => StartError::InUse,
        AppendError::Write(error) => error.into(),
    })
}

/// Does what may wait for a disk on a thread of its own; `None` if there is none.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, done) = oneshot::channel();
    let thread = thread::Builder::new().name("recording".to_owned());
    // The receiver is gone if the screen has ended.
    thread.spawn(move || sender.send(work()).ok()).ok()?;
    done.await.ok()
}
