//! Runs the full-screen interface and executes its requests.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::app::ExitReason;
use crate::app::env::Env;
use crate::app::monitor::Monitor;
use crate::app::prompter::{self, PromptOutcome, Prompter};
use crate::app::settings_controller::SettingsController;
use crate::collect::NodeClient;
use crate::model::NodeName;
use crate::time::Clock;
use crate::ui;
use crate::ui::{NodeReply, NodeRequest, SettingsEvent};
use crate::ui::{SuspendedTask, UiContext, UiRequest};

/// Capacity of the queue of requests; a user does not type faster.
const REQUEST_QUEUE_SIZE: usize = 16;
/// Capacity of the queue of replies to the screen; when it is full, senders wait.
const REPLY_QUEUE_SIZE: usize = 64;
/// Maximum time for a node to reply to a request.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Shows the screen, with `notices`, until the user quits; `title` says what is watched.
///
/// When the user retries nodes and one prompts for input, the screen is suspended.
pub(super) async fn run(
    env: &Env,
    monitor: &Monitor,
    title: String,
    prompter: Option<Prompter>,
    notices: &mut mpsc::Receiver<String>,
) -> io::Result<ExitReason> {
    let (request_sender, mut incoming) = mpsc::channel(REQUEST_QUEUE_SIZE);
    let (suspended_tasks, suspended_receiver) = mpsc::channel(1);
    let (reply_sender, replies) = mpsc::channel(REPLY_QUEUE_SIZE);
    let (events, settings_events) = mpsc::channel(REQUEST_QUEUE_SIZE);
    let notice_sender = events.clone();
    let (settings, paths) = (env.settings.clone(), env.paths.clone());
    let mut controller = SettingsController { settings, paths, events };
    let settings = &controller.settings;
    let is_readonly = settings.is_on("readonly");
    let context = UiContext {
        fleet: monitor.fleet(),
        clock: env.clock.clone(),
        zone: TimeZone::system(),
        title,
        redraw_interval: settings.seconds("redraw"),
        requests: request_sender,
        suspended_tasks: suspended_receiver,
        replies,
        config: controller.ui_config(),
        keys: settings.keys.clone(),
        message: settings.problem_summary(),
        settings_events,
        has_mouse: settings.is_on("mouse"),
    };
    let prompt_queue = prompter.as_ref().map(Prompter::queue);
    let node_client =
        if is_readonly { monitor.node_client().readonly() } else { monitor.node_client() };
    let retried = Notify::new();
    let serving = async {
        while let Some(request) = incoming.recv().await {
            match request {
                UiRequest::Refresh => {
                    if let Some(prompt_queue) = &prompt_queue {
                        prompt_queue.set_open(true);
                    }
                    retried.notify_one();
                    monitor.refresh();
                }
                UiRequest::FocusNode(node) => monitor.focus(node),
                UiRequest::WatchJob(job) => monitor.set_detailed_job(job),
                UiRequest::SetInterval(interval) => monitor.set_interval(interval),
                UiRequest::QueryNodes(requests) => {
                    send_requests(&node_client, &env.clock, &reply_sender, requests);
                }
                UiRequest::ChangeSetting(name, text) => controller.change(name, &text).await,
                UiRequest::SaveSettings(preferences) => controller.save(preferences).await,
            }
        }
        std::future::pending().await
    };
    let prompting = async {
        if let Some(prompter) = prompter {
            prompt_after_retries(prompter, &retried, suspended_tasks).await;
        }
        std::future::pending().await
    };
    let notifying = async {
        while let Some(notice) = notices.recv().await {
            // Fails if the screen has ended.
            notice_sender.send(SettingsEvent::Message(notice)).await.ok();
        }
        std::future::pending().await
    };
    let reason = tokio::select! {
        reason = ui::run(context) => reason?,
        reason = notifying => reason,
        reason = serving => reason,
        reason = prompting => reason,
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

/// Shows the login prompts that follow each retry, with the screen suspended. Ends with the screen.
async fn prompt_after_retries(
    mut prompter: Prompter,
    retried: &Notify,
    suspended_tasks: mpsc::Sender<SuspendedTask>,
) {
    loop {
        retried.notified().await;
        prompter.open();
        loop {
            let requests = prompter.wait_after_retry().await;
            if requests.is_empty() {
                break;
            }
            let (outcome_sender, outcome) = oneshot::channel();
            let task: SuspendedTask = Box::new(move |is_over| {
                let outcome = prompter::prompt_all(requests, is_over, &mut io::stderr());
                // Fails if the screen has ended.
                outcome_sender.send(outcome.unwrap_or(PromptOutcome::SkipAll)).ok();
            });
            if suspended_tasks.send(task).await.is_err() {
                return;
            }
            // An error means that the screen could not be suspended.
            if outcome.await != Ok(PromptOutcome::Continue) {
                prompter.close();
                break;
            }
        }
    }
}
