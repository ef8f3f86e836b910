//! Runs the full-screen interface and executes its requests.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{Notify, mpsc, watch};

use crate::app::ExitReason;
use crate::app::automatic_recording::{self, AutomaticRecording};
use crate::app::env::Env;
use crate::app::host_keys::HostKeys;
use crate::app::login::{log_in_from_screen, offer_after_start};
use crate::app::playback::Rewind;
use crate::app::prompter::{PromptOutcome, Prompter};
use crate::app::recent_filters::RecentFilterFile;
use crate::app::recording::SessionRecorder;
use crate::app::run_server::{RunServer, RunsOnScreen};
use crate::app::settings_controller::{SettingsController, key_bindings};
use crate::app::unlock::unlock_on_screen;
use crate::setting_table::{IntervalSettings, OutputSettings, RecordChoice};
use crate::watch::Monitor;
use gtop_collect::collect::NodeClient;
use gtop_collect::record::Recorder;
use gtop_collect::transport::Transport;
use gtop_local::time::Clock;
use gtop_model::{HostKeyReply, HostKeyRequest, NodeName, PlaybackCommand, RecordedBy};
use gtop_ssh::PromptQueue;
use gtop_ui as ui;
use gtop_ui::{
    FleetSource, NodeReply, NodeRequest, ScreenSettings, SettingsEvent, StopReason, SuspendedTask,
    UiContext, UiRequest,
};

/// Capacity of the queue of requests; a user does not type faster.
const REQUEST_QUEUE_SIZE: usize = 16;
/// Capacity of the queue of replies to the screen; when it is full, senders wait.
const REPLY_QUEUE_SIZE: usize = 64;
/// Capacity of the queue of requests about host keys, of which the newest counts.
const HOST_KEY_QUEUE_SIZE: usize = 4;
/// Maximum time for a node to reply to a request.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The ends of the screen's channels that the screen does not have.
struct ScreenEnds {
    requests: mpsc::Receiver<UiRequest>,
    suspended_tasks: mpsc::Sender<SuspendedTask>,
    replies: mpsc::Sender<NodeReply>,
    host_keys: mpsc::Sender<HostKeyReply>,
    sources: mpsc::Sender<FleetSource>,
    recorded: watch::Sender<RecordedBy>,
    controller: SettingsController,
}

/// Returns what the screen needs to show a fleet; `title` says what is watched.
fn context(env: &Env, title: String, source: FleetSource) -> (UiContext, ScreenEnds) {
    let (request_sender, requests) = mpsc::channel(REQUEST_QUEUE_SIZE);
    let (suspended_tasks, suspended_receiver) = mpsc::channel(1);
    let (reply_sender, replies) = mpsc::channel(REPLY_QUEUE_SIZE);
    let (host_key_sender, host_keys) = mpsc::channel(HOST_KEY_QUEUE_SIZE);
    let (source_sender, sources) = mpsc::channel(1);
    let (recorded_sender, recorded) = watch::channel(RecordedBy::default());
    let (events, settings_events) = mpsc::channel(REQUEST_QUEUE_SIZE);
    let (settings, paths) = (env.settings.clone(), env.paths.clone());
    let controller = SettingsController { settings, paths, events };
    let settings = &controller.settings;
    let context = UiContext {
        source,
        sources,
        runs: None,
        host_keys,
        recorded,
        clock: env.clock.clone(),
        zone: TimeZone::system(),
        title,
        requests: request_sender,
        suspended_tasks: suspended_receiver,
        replies,
        config: controller.ui_config(),
        keys: key_bindings(settings),
        message: settings.problem_summary(),
        settings_events,
        filter: env.cli.output.print.filter.clone(),
        recent_filters: RecentFilterFile::of_user().read(),
        has_mouse: settings.read::<ScreenSettings>().mouse,
    };
    let ends = ScreenEnds {
        requests,
        suspended_tasks,
        replies: reply_sender,
        host_keys: host_key_sender,
        sources: source_sender,
        recorded: recorded_sender,
        controller,
    };
    (context, ends)
}

/// Shows the screen, with `notices`, until the user quits; `title` says what is watched. While it is recorded, the screen
/// can go back.
///
/// When a node prompts for input, at the start or after a retry by the user, the screen is suspended.
pub(super) async fn run(
    env: &Env,
    monitor: &Monitor,
    recorder: &SessionRecorder,
    title: String,
    prompter: Option<Prompter>,
    runs: Option<RunsOnScreen>,
    notices: &mut mpsc::Receiver<String>,
) -> io::Result<ExitReason> {
    let live = FleetSource { fleet: monitor.fleet(), clock: env.clock.clone(), playback: None };
    let (mut context, ends) = context(env, title.clone(), live.clone());
    let runs = runs.map(|runs| {
        context.runs = Some(runs.feed);
        runs.server
    });
    let ScreenEnds {
        mut requests,
        suspended_tasks,
        replies,
        host_keys,
        sources,
        recorded,
        controller,
    } = ends;
    let (host_key_requests, about_host_keys) = mpsc::channel(HOST_KEY_QUEUE_SIZE);
    let answering = HostKeys::new(env).serve(about_host_keys, host_keys, monitor.rosters());
    monitor.sessions().spawn(answering);
    let node_client = monitor.node_client();
    let is_readonly = controller.settings.read::<ScreenSettings>().readonly;
    let history_span = controller.settings.read::<IntervalSettings>().history;
    let events = controller.events.clone();
    let retried = Notify::new();
    let (record_choice, choice) = watch::channel(record_choice_of(&controller));
    let recording = async {
        match recorder {
            SessionRecorder::Nothing => std::future::pending().await,
            SessionRecorder::Requested(recorder) => show_recorder(recorder, &recorded).await,
            SessionRecorder::Automatic(sink) => {
                let (sink, title, events) = (sink.clone(), &title, events.clone());
                AutomaticRecording { monitor, sink, title, choice, recorded, events }.run().await
            }
        }
    };
    let path = match recorder {
        SessionRecorder::Nothing => None,
        SessionRecorder::Requested(recorder) => Some(recorder.path().to_owned()),
        SessionRecorder::Automatic(_) => automatic_recording::path(),
    };
    let mut server = RequestServer {
        env,
        monitor,
        node_client: if is_readonly { node_client.readonly() } else { node_client },
        replies,
        host_key_requests,
        suspended_tasks: suspended_tasks.clone(),
        controller,
        runs,
        record_choice,
        rewind: path.map(|path| Rewind { path, live, sources, history_span, player: None }),
        prompt_queue: prompter.as_ref().map(|prompter| prompter.queue.clone()),
        retried: &retried,
    };
    let serving = async {
        while let Some(request) = requests.recv().await {
            server.serve(request).await;
        }
        std::future::pending().await
    };
    let prompting = async {
        if let Some(prompter) = prompter {
            let (place, tasks) = (prompter.place.clone(), suspended_tasks.clone());
            let unlocking = async {
                if prompter.has_late_nodes {
                    unlock_on_screen(monitor, &env.transport, &place, &tasks).await?;
                }
                Ok(())
            };
            let connecting = (env.transport.clone(), env.cli.connection.max_connecting);
            let showing =
                show_prompts(prompter.clone(), monitor, connecting, &retried, suspended_tasks);
            // Fails if the screen has ended.
            tokio::try_join!(unlocking, showing).ok();
        }
        std::future::pending().await
    };
    let notifying = async {
        while let Some(notice) = notices.recv().await {
            // Fails if the screen has ended.
            events.send(SettingsEvent::Message(notice)).await.ok();
        }
        std::future::pending().await
    };
    let reason = tokio::select! {
        reason = ui::run(context) => reason?,
        reason = notifying => reason,
        reason = serving => reason,
        reason = prompting => reason,
        reason = recording => reason,
    };
    Ok(reason.into())
}

fn record_choice_of(controller: &SettingsController) -> RecordChoice {
    controller.settings.read::<OutputSettings>().record
}

/// Shows the state of the recorder that the command line requests, for ever.
async fn show_recorder<T>(recorder: &Recorder, screen: &watch::Sender<RecordedBy>) -> T {
    let mut state = recorder.state();
    loop {
        screen.send_replace(RecordedBy::This(state.borrow_and_update().clone()));
        if state.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// Carries out the requests of a live screen.
struct RequestServer<'a> {
    env: &'a Env,
    monitor: &'a Monitor,
    node_client: NodeClient,
    replies: mpsc::Sender<NodeReply>,
    host_key_requests: mpsc::Sender<HostKeyRequest>,
    suspended_tasks: mpsc::Sender<SuspendedTask>,
    controller: SettingsController,
    runs: Option<RunServer>,
    /// The setting `record`.
    record_choice: watch::Sender<RecordChoice>,
    rewind: Option<Rewind>,
    prompt_queue: Option<PromptQueue>,
    /// Notified when the user retries.
    retried: &'a Notify,
}

impl RequestServer<'_> {
    async fn serve(&mut self, request: UiRequest) {
        match request {
            UiRequest::Refresh => self.retry(),
            UiRequest::FocusNode(focus) => self.monitor.focus(focus),
            UiRequest::WatchJob(job) => self.monitor.set_detailed_job(job),
            UiRequest::SetInterval(interval) => self.monitor.set_interval(interval),
            UiRequest::QueryNodes(requests) | UiRequest::SignalProcesses(requests) => {
                send_requests(&self.node_client, &self.env.clock, &self.replies, requests);
            }
            UiRequest::LogIn(nodes) => {
                let max_connecting = self.env.cli.connection.max_connecting;
                let connecting = (self.env.transport.clone(), max_connecting);
                log_in_from_screen(self.monitor, connecting, &nodes, &self.suspended_tasks).await;
            }
            // Fails if several wait; the screen goes on showing its request.
            UiRequest::HostKeys(request) => drop(self.host_key_requests.try_send(request)),
            UiRequest::ChangeSetting(name, text) => {
                self.controller.change(name, &text).await;
                self.record_choice.send_replace(record_choice_of(&self.controller));
            }
            UiRequest::SaveSettings(preferences) => self.controller.save(preferences).await,
            UiRequest::RememberFilter(filter) => self.controller.remember_filter(filter).await,
            UiRequest::Runs(requests) => {
                if let Some(runs) = &self.runs {
                    runs.serve(requests);
                }
            }
            UiRequest::OpenOutputWindow(run) => {
                if let Some(runs) = &self.runs {
                    runs.open_window(run, self.controller.events.clone());
                }
            }
            UiRequest::UnfoldRuns(unfolded) => {
                if let Some(runs) = &self.runs {
                    runs.unfolded.send_replace(unfolded);
                }
            }
            UiRequest::Playback(command) => self.play(command).await,
        }
    }

    /// Connects again to the nodes that do not answer, and asks for what they prompt.
    fn retry(&self) {
        if let Some(prompt_queue) = &self.prompt_queue {
            prompt_queue.set_open(true);
        }
        self.retried.notify_one();
        self.monitor.refresh();
    }

    async fn play(&mut self, command: PlaybackCommand) {
        let Some(rewind) = &mut self.rewind else { return };
        if let Err(error) = rewind.command(command, self.env.clock.now()).await {
            // Fails if the screen has ended.
            self.controller.events.send(SettingsEvent::Message(error)).await.ok();
        }
    }
}

/// Shows recordings until the user quits; `commands` control their player.
pub(super) async fn run_replay(
    env: &Env,
    title: String,
    source: FleetSource,
    commands: mpsc::Sender<PlaybackCommand>,
) -> io::Result<ExitReason> {
    let (context, ScreenEnds { mut requests, mut controller, .. }) = context(env, title, source);
    let serving = async {
        while let Some(request) = requests.recv().await {
            match request {
                // Fails if the player has ended; the screen then shows nothing new.
                UiRequest::Playback(command) => drop(commands.send(command).await),
                UiRequest::ChangeSetting(name, text) => controller.change(name, &text).await,
                UiRequest::SaveSettings(preferences) => controller.save(preferences).await,
                UiRequest::RememberFilter(filter) => controller.remember_filter(filter).await,
                UiRequest::Refresh
                | UiRequest::FocusNode(_)
                | UiRequest::WatchJob(_)
                | UiRequest::QueryNodes(_)
                | UiRequest::SignalProcesses(_)
                | UiRequest::HostKeys(_)
                | UiRequest::LogIn(_)
                | UiRequest::Runs(_)
                | UiRequest::OpenOutputWindow(_)
                | UiRequest::UnfoldRuns(_)
                | UiRequest::SetInterval(_) => {}
            }
        }
        std::future::pending::<StopReason>().await
    };
    let reason = tokio::select! {
        reason = ui::run(context) => reason?,
        reason = serving => reason,
    };
    Ok(reason.into())
}

/// Sends requests to nodes: concurrently to several nodes, in order to each one. Sends the replies as they
/// arrive.
fn send_requests(
    node_client: &NodeClient,
    clock: &Clock,
    reply_sender: &mpsc::Sender<NodeReply>,
    requests: Vec<NodeRequest>,
) {
    let mut by_node: BTreeMap<NodeName, Vec<NodeRequest>> = BTreeMap::new();
    for request in requests {
        by_node.entry(request.node.clone()).or_default().push(request);
    }
    for requests in by_node.into_values() {
        let (node_client, clock, reply_sender) =
            (node_client.clone(), clock.clone(), reply_sender.clone());
        tokio::spawn(async move {
            for request in requests {
                let answer = node_client
                    .request(&request.node, request.process_request, REPLY_TIMEOUT)
                    .await;
                if reply_sender
                    .send(NodeReply { request, result: answer, at: clock.now() })
                    .await
                    .is_err()
                {
                    // The screen has ended.
                    return;
                }
            }
        });
    }
}

/// Shows the login prompts of the start, offers a login to nodes that need one, and shows the prompts of each retry, with
/// the screen suspended. Ends with the screen.
async fn show_prompts(
    mut prompter: Prompter,
    monitor: &Monitor,
    (transport, max_connecting): (Transport, u16),
    retried: &Notify,
    suspended_tasks: mpsc::Sender<SuspendedTask>,
) -> Result<(), SendError<SuspendedTask>> {
    if prompter.prompt_on_screen(&suspended_tasks).await? != PromptOutcome::Interrupted {
        let connecting = (transport, max_connecting);
        offer_after_start(monitor, &prompter, connecting, &suspended_tasks).await;
    }
    loop {
        retried.notified().await;
        prompter.open(usize::MAX);
        prompter.prompt_on_screen(&suspended_tasks).await?;
    }
}
