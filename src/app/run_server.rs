//! Carries out the screen's requests about training runs.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::app::tmux_windows::TmuxWindows;
use gtop_collect::runs::{OutputPlace, RunsClient};
use gtop_fleet::FleetReader;
use gtop_fleet::insight::runs::Runs;
use gtop_local::time::Clock;
use gtop_model::{RunId, RunReply, RunRequest, RunResponse};
use gtop_ui::{RunFeed, SettingsEvent};

/// What the screen needs of runs.
pub(super) struct RunsOnScreen {
    pub(super) feed: RunFeed,
    pub(super) server: RunServer,
}

/// Carries out the screen's requests about runs.
pub(super) struct RunServer {
    pub(super) client: RunsClient,
    pub(super) replies: mpsc::Sender<RunReply>,
    /// The runs whose threads are listed.
    pub(super) unfolded: watch::Sender<Vec<RunId>>,
    pub(super) fleet: FleetReader,
    pub(super) clock: Clock,
    /// Where outputs are opened, if not on the screen.
    pub(super) windows: Option<TmuxWindows>,
}

impl RunServer {
    /// Carries out requests in their order, and sends the replies as they come.
    pub(super) fn serve(&self, requests: Vec<RunRequest>) {
        let (client, replies) = (self.client.clone(), self.replies.clone());
        let list = client.list();
        let fleet = self.fleet.borrow().clone();
        let now = self.clock.now();
        tokio::spawn(async move {
            for request in requests {
                let place = match &request {
                    RunRequest::OpenOutputs(run) => {
                        output_place(&Runs::new(Arc::clone(&list), &fleet, now), run)
                    }
                    RunRequest::SetVariable { .. }
                    | RunRequest::PlanDeletion(_)
                    | RunRequest::Delete { .. }
                    | RunRequest::ReadOutput { .. }
                    | RunRequest::FindInOutput { .. }
                    | RunRequest::FollowOutputs(_)
                    | RunRequest::CloseOutputs(_) => None,
                };
                let result = client.request(&request, place.as_ref()).await;
                if replies.send(RunReply { request, result }).await.is_err() {
                    // The screen has ended.
                    return;
                }
            }
        });
    }

    /// Opens the output of a run in a window; why that fails is sent to `notices`.
    pub(super) fn open_window(&self, run: RunId, notices: mpsc::Sender<SettingsEvent>) {
        let Some(windows) = self.windows.clone() else { return };
        let client = self.client.clone();
        let runs = Runs::new(client.list(), &self.fleet.borrow().clone(), self.clock.now());
        tokio::spawn(async move {
            if let Err(reason) = open_window(&windows, &client, &runs, run).await {
                // Fails if the screen has ended.
                notices.send(SettingsEvent::Message(reason)).await.ok();
            }
        });
    }
}

/// Opens the outputs of a run in a window, if they are files of its owner: the script checks that as it opens them.
async fn open_window(
    windows: &TmuxWindows,
    client: &RunsClient,
    runs: &Runs,
    run: RunId,
) -> Result<(), String> {
    let title = runs.rows.iter().find(|row| row.run.id == run).map(|row| row.title().to_owned());
    let title = title.ok_or("the run is no longer there")?;
    let place = output_place(runs, &run).ok_or("the run is no longer there")?;
    let request = RunRequest::OpenOutputs(run);
    let response =
        client.request(&request, Some(&place)).await.map_err(|error| error.to_string())?;
    let RunResponse::Outputs(files) = response else { return Ok(()) };
    let open = files.iter().flatten().map(|file| file.output).collect();
    // A lost session has closed them.
    client.request(&RunRequest::CloseOutputs(open), None).await.ok();
    let node = client.output_node(&place).ok_or("the folder is no longer watched")?;
    windows.open(&title, &node, &files).await
}

/// Returns where the outputs of a run are opened.
fn output_place(runs: &Runs, run: &RunId) -> Option<OutputPlace> {
    let row = runs.rows.iter().find(|row| row.run.id == *run)?;
    Some(OutputPlace {
        run: Arc::clone(&row.run),
        node: row.node.clone(),
        process: row.process.as_ref().map(|process| process.key),
    })
}
