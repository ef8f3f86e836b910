//! Carries out the screen's requests about training runs.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::fleet::FleetReader;
use crate::insight::runs::Runs;
use crate::model::{RunId, RunReply, RunRequest};
use crate::runs::{OutputPlace, RunsClient};
use crate::time::Clock;
use crate::ui::RunFeed;

/// What the screen needs of runs.
pub(super) struct RunsOnScreen {
    pub(super) feed: RunFeed,
    pub(super) server: RunServer,
}

/// Carries out the screen's requests about runs.
pub(super) struct RunServer {
    pub(super) client: RunsClient,
    pub(super) replies: mpsc::Sender<RunReply>,
    pub(super) unfolded: watch::Sender<Vec<RunId>>,
    pub(super) fleet: FleetReader,
    pub(super) clock: Clock,
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

    /// Lists the threads of these runs.
    pub(super) fn unfold(&self, runs: Vec<RunId>) {
        self.unfolded.send_replace(runs);
    }
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
