//! Plays recordings at the pace of a clock, and jumps in them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};

use crate::source::replay::Recordings;
use crate::source::replay::fold::{Change, Fold};
use crate::source::replay::moments::MarkedMoment;
use gtop_fleet::{FleetReader, FleetStore};
use gtop_local::time::{Clock, Timestamp};
use gtop_model::{Playback, PlaybackCommand, SPEEDS};

/// Time between two steps of a playback.
const STEP: Duration = Duration::from_millis(50);
/// Time between two looks at a file that grows.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// The time that a step covers at most: if lines cannot be folded fast enough, the playback is slower.
const MAX_DELAY: Duration = Duration::from_millis(250);

/// The text for a time between two spans.
const IN_GAP: &str = "nothing is recorded at that time: this is the nearest recorded moment";

/// What a screen needs of a playback.
#[derive(Debug)]
pub struct PlaybackHandle {
    /// The fleet at the played time.
    pub fleet: FleetReader,
    /// The played time, set together with the fleet.
    pub clock: Clock,
    /// What is played, and how.
    pub state: watch::Receiver<Playback>,
    /// Controls it; dropping all senders ends the player.
    pub commands: mpsc::Sender<PlaybackCommand>,
}

/// Plays recordings into a store.
#[derive(Debug)]
pub struct Player {
    recordings: Recordings,
    /// The file that this gtop records to meanwhile.
    growing: Option<PathBuf>,
    spans: Vec<(Timestamp, Timestamp)>,
    fold: Fold,
    store: Arc<FleetStore>,
    clock: Clock,
    commands: mpsc::Receiver<PlaybackCommand>,
    state: watch::Sender<Playback>,
    deep: Option<DeepFold>,
    /// When the played time was last set.
    stepped_at: Instant,
    /// When the growing file was read last.
    refreshed_at: Instant,
}

/// A longer build that runs beside, for the history of the nodes.
#[derive(Debug)]
struct DeepFold {
    is_cancelled: Arc<AtomicBool>,
    built: oneshot::Receiver<Fold>,
}

impl Drop for DeepFold {
    fn drop(&mut self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl Player {
    /// Prepares to play from a time on; `growing` is a file that is still being written.
    pub fn new(
        recordings: Recordings,
        from: Timestamp,
        growing: Option<PathBuf>,
        is_playing: bool,
        history_span: Duration,
    ) -> (Self, PlaybackHandle) {
        let spans = recordings.spans();
        let store = FleetStore::new([], history_span);
        let clock = Clock::fixed(from);
        let (sender, commands) = mpsc::channel(16);
        let (state, watched) = watch::channel(Playback {
            is_playing,
            speed: 1.0,
            spans: spans.clone().into(),
            marks: recordings.marks().into(),
            loss: recordings.loss().map(Into::into),
            jumps: 0,
            reached: None,
            is_live: growing.is_some(),
        });
        let handle = PlaybackHandle {
            fleet: store.reader(),
            clock: clock.clone(),
            state: watched,
            commands: sender,
        };
        let fold = Fold::new(&recordings, from, history_span);
        let player = Self {
            recordings,
            growing,
            spans,
            fold,
            store,
            clock,
            commands,
            state,
            deep: None,
            stepped_at: Instant::now(),
            refreshed_at: Instant::now(),
        };
        (player, handle)
    }

    /// Plays until nobody controls it any more.
    pub async fn run(mut self) {
        self.jump(self.clock.now());
        loop {
            let is_playing = self.state.borrow().is_playing;
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => break,
                },
                fold = built(&mut self.deep) => self.take_over(fold),
                () = sleep(STEP), if is_playing => self.advance(),
            }
        }
    }

    /// Plays what belongs to the time since the last step, and publishes it together with the new time: at a high
    /// speed, a fleet of a moment ago would look old.
    fn advance(&mut self) {
        let elapsed = self.stepped_at.elapsed().min(MAX_DELAY);
        self.stepped_at = Instant::now();
        let speed = self.state.borrow().speed;
        let before = self.clock.now();
        let now = before.plus(elapsed.mul_f32(speed)).min(self.end().max(before));
        self.fold_to(now);
        self.store.publish_now(|| self.clock.set(now));
        if now >= self.end() {
            if self.growing.is_none() {
                self.state.send_modify(|state| state.is_playing = false);
            } else if self.refreshed_at.elapsed() >= REFRESH_INTERVAL {
                self.refresh();
            }
        }
        self.tell_loss();
    }

    fn fold_to(&mut self, to: Timestamp) {
        while let Some(file) = self.fold.next_stream(to) {
            match self.fold.step(file) {
                Change::Node(node) => self.store.update(node),
                Change::Roster => self.store.list_nodes(self.fold.names(), self.fold.jobs()),
                Change::Nothing => {}
            }
        }
    }

    /// Publishes what is lost if that has changed.
    fn tell_loss(&self) {
        let Some(missing) = self.fold.lost().text() else { return };
        let loss: Arc<str> = match self.recordings.loss() {
            Some(loss) => format!("{loss}; {missing}").into(),
            None => missing.into(),
        };
        self.state.send_if_modified(|state| {
            let is_new = state.loss.as_ref() != Some(&loss);
            state.loss = Some(loss);
            is_new
        });
    }

    fn end(&self) -> Timestamp {
        self.spans.last().map_or_else(|| self.clock.now(), |(_, last)| *last)
    }

    fn start(&self) -> Timestamp {
        self.spans.first().map_or_else(|| self.clock.now(), |(first, _)| *first)
    }

    fn on_command(&mut self, command: PlaybackCommand) {
        let now = self.clock.now();
        match command {
            PlaybackCommand::TogglePlay
                if now >= self.end()
                    && self.growing.is_none()
                    && !self.state.borrow().is_playing =>
            {
                self.state.send_modify(|state| state.is_playing = true);
                self.jump(self.start());
            }
            PlaybackCommand::TogglePlay => {
                self.stepped_at = Instant::now();
                self.state.send_modify(|state| state.is_playing = !state.is_playing);
            }
            PlaybackCommand::Slower => self.change_speed(|speed, known| known < speed, true),
            PlaybackCommand::Faster => self.change_speed(|speed, known| known > speed, false),
            PlaybackCommand::Step { seconds } => {
                let step = Duration::from_secs(seconds.unsigned_abs());
                self.jump(if seconds < 0 { now.minus(step) } else { now.plus(step) });
            }
            PlaybackCommand::GoTo(at) => self.jump(at),
            PlaybackCommand::StepSample { ahead } => {
                self.state.send_modify(|state| state.is_playing = false);
                let next = if ahead {
                    self.recordings.next_round(now).unwrap_or_else(|| self.end())
                } else {
                    self.recordings.previous_round(now).unwrap_or_else(|| self.start())
                };
                self.jump(next);
            }
            PlaybackCommand::NextMark => {
                self.refresh();
                let marks = Arc::clone(&self.state.borrow().marks);
                let next = MarkedMoment::after(&marks, now);
                self.jump_to_moment(next, (self.end(), "no later event: this is the end"));
            }
            PlaybackCommand::PreviousMark => {
                let marks = Arc::clone(&self.state.borrow().marks);
                let previous = MarkedMoment::before(&marks, now);
                self.jump_to_moment(
                    previous,
                    (self.start(), "no earlier event: this is the start"),
                );
            }
            PlaybackCommand::End => self.jump(self.end()),
        }
    }

    fn change_speed(&self, is_next: fn(f32, f32) -> bool, is_slower: bool) {
        self.state.send_modify(|state| {
            let mut speeds: Vec<f32> =
                SPEEDS.into_iter().filter(|known| is_next(state.speed, *known)).collect();
            if is_slower {
                speeds.reverse();
            }
            state.speed = speeds.first().copied().unwrap_or(state.speed);
        });
    }

    /// Shows a moment or, without one, `at` with the reason.
    fn jump_to_moment(
        &mut self,
        moment: Option<MarkedMoment<'_>>,
        (at, why_not): (Timestamp, &'static str),
    ) {
        let (at, reached) =
            moment.map_or((at, why_not.into()), |moment| (moment.end(), moment.text()));
        self.jump_to(at, Some(reached));
    }

    /// Shows the recorded time nearest to `at`.
    fn jump(&mut self, at: Timestamp) {
        let is_inside = self.start() <= at && at <= self.end();
        let is_recorded = self.spans.iter().any(|(first, last)| (*first..=*last).contains(&at));
        self.jump_to(at, (is_inside && !is_recorded).then(|| IN_GAP.into()));
    }

    /// Shows the recorded time nearest to `at`, and what it shows at once; its history follows. Says what was reached.
    fn jump_to(&mut self, at: Timestamp, reached: Option<Arc<str>>) {
        self.refresh();
        let at = self.nearest(at);
        let history_span = self.store.history_span();
        self.fold = Fold::new(&self.recordings, at, history_span);
        self.fold.advance(at, &AtomicBool::new(false));
        self.show(at, |state| {
            state.jumps += 1;
            state.reached = reached;
        });
        self.stepped_at = Instant::now();
        self.deep = self.start_deep(at, history_span);
        self.tell_loss();
    }

    /// Publishes the fleet of the fold, together with its time and the change of the state.
    fn show(&self, at: Timestamp, change: impl FnOnce(&mut Playback)) {
        let (nodes, jobs) = self.fold.picture();
        self.store.replace(nodes, jobs, || {
            self.clock.set(at);
            self.state.send_modify(change);
        });
    }

    fn start_deep(&self, at: Timestamp, history_span: Duration) -> Option<DeepFold> {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let (sender, built) = oneshot::channel();
        let (recordings, cancelled) = (self.recordings.clone(), Arc::clone(&is_cancelled));
        let thread = thread::Builder::new().name("history".to_owned()).spawn(move || {
            let mut fold = Fold::new(&recordings, at.minus(history_span), history_span);
            fold.advance(at, &cancelled);
            // Fails if the player has jumped again.
            sender.send(fold).ok();
        });
        thread.is_ok().then_some(DeepFold { is_cancelled, built })
    }

    /// Goes on with a fold that has the history.
    fn take_over(&mut self, fold: Option<Fold>) {
        self.deep = None;
        let Some(fold) = fold else { return };
        let now = self.clock.now();
        self.fold = fold;
        self.fold.advance(now, &AtomicBool::new(false));
        self.show(now, |_state| {});
    }

    /// Returns the recorded time nearest to `at`.
    fn nearest(&self, at: Timestamp) -> Timestamp {
        let times = self.spans.iter().map(|(first, last)| at.clamp(*first, *last));
        times.min_by_key(|time| time.since(at).max(at.since(*time))).unwrap_or(at)
    }

    /// Reads what was recorded meanwhile.
    fn refresh(&mut self) {
        let Some(path) = &self.growing else { return };
        self.refreshed_at = Instant::now();
        let Ok(recordings) = Recordings::open([path.as_path()]) else { return };
        self.fold.update_files(&recordings);
        self.spans = recordings.spans();
        let (spans, marks) = (self.spans.clone().into(), recordings.marks().into());
        self.state.send_modify(|state| (state.spans, state.marks) = (spans, marks));
        self.recordings = recordings;
    }
}

/// Waits for the longer build; forever if there is none.
async fn built(deep: &mut Option<DeepFold>) -> Option<Fold> {
    match deep {
        Some(deep) => (&mut deep.built).await.ok(),
        None => std::future::pending().await,
    }
}
