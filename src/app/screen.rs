//! The screen, and what the user asks for on it.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::app::Ending;
use crate::app::dress::Wardrobe;
use crate::app::interview::{self, Interviewer, Mood};
use crate::app::watch::Watch;
use crate::collect::Asker;
use crate::config::{Places, Settings};
use crate::model::NodeName;
use crate::time::Clock;
use crate::tui::{self, SuspendedTask, UiContext, UiRequest};
use crate::view::{Errand, Reply};

/// How many requests may wait; a user does not type faster.
const REQUESTS: usize = 16;
/// How many answers may wait for the screen; those who have more wait themselves.
const REPLIES: usize = 64;
/// How long a node may think about a question.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the screen is set up.
#[derive(Debug)]
pub(super) struct Setting {
    /// What is watched.
    pub(super) title: String,
    /// Whose time.
    pub(super) clock: Clock,
    /// Where settings are written down, when there is a place.
    pub(super) places: Option<Places>,
    /// The settings.
    pub(super) settings: Settings,
}

/// Shows the watch until the user ends it.
///
/// Nodes that ask something are given a hearing when the user tries nodes again, and then the
/// screen stands aside.
pub(super) async fn show(
    watch: &Watch,
    setting: Setting,
    interviewer: Option<Interviewer>,
) -> io::Result<Ending> {
    let (requests, mut asked) = mpsc::channel(REQUESTS);
    let (suspended_tasks, standing_aside) = mpsc::channel(1);
    let (answers, replies) = mpsc::channel(REPLIES);
    let (told, settings_events) = mpsc::channel(REQUESTS);
    let mut wardrobe = Wardrobe { settings: setting.settings, places: setting.places, told };
    let settings = &wardrobe.settings;
    let (clock, is_readonly) = (setting.clock.clone(), settings.is_on("readonly"));
    let watching = UiContext {
        fleet: watch.fleet(),
        clock: setting.clock.clone(),
        zone: TimeZone::system(),
        title: setting.title,
        redraw_interval: settings.span("redraw").unwrap_or_default(),
        requests,
        suspended_tasks: standing_aside,
        replies,
        config: wardrobe.config(),
        keys: settings.keys.clone(),
        message: settings.complaint(),
        settings_events,
        has_mouse: settings.is_on("mouse"),
    };
    let interview = interviewer.as_ref().map(Interviewer::interview);
    let to_nodes = if is_readonly { watch.asker().readonly() } else { watch.asker() };
    let tried_again = Notify::new();
    let serving = async {
        while let Some(request) = asked.recv().await {
            match request {
                UiRequest::Refresh => {
                    if let Some(interview) = &interview {
                        interview.set_open(true);
                    }
                    tried_again.notify_one();
                    watch.refresh();
                }
                UiRequest::FocusNode(node) => watch.focus(node),
                UiRequest::WatchJob(job) => watch.look_at(job),
                UiRequest::SetInterval(interval) => watch.sample_every(interval),
                UiRequest::QueryNodes(errands) => ask(&to_nodes, &clock, &answers, errands),
                UiRequest::ChangeSetting(name, text) => wardrobe.change(name, &text).await,
                UiRequest::SaveSettings(habits) => wardrobe.save(habits).await,
            }
        }
        std::future::pending().await
    };
    let hearing = async {
        if let Some(interviewer) = interviewer {
            hear(interviewer, &tried_again, suspended_tasks).await;
        }
        std::future::pending().await
    };
    let ending = tokio::select! {
        ending = tui::run(watching) => ending?,
        ending = serving => ending,
        ending = hearing => ending,
    };
    Ok(ending.into())
}

/// Asks nodes, each on its own and one thing after the other; answers come as they come.
fn ask(asker: &Asker, clock: &Clock, answers: &mpsc::Sender<Reply>, errands: Vec<Errand>) {
    let mut by_node: BTreeMap<NodeName, Vec<Errand>> = BTreeMap::new();
    for errand in errands {
        by_node.entry(errand.node.clone()).or_default().push(errand);
    }
    for errands in by_node.into_values() {
        let (asker, clock, answers) = (asker.clone(), clock.clone(), answers.clone());
        tokio::spawn(async move {
            for errand in errands {
                let answer = asker.ask(&errand.node, errand.question, PATIENCE).await;
                if answers.send(Reply { errand, answer, at: clock.now() }).await.is_err() {
                    // The screen is gone.
                    return;
                }
            }
        });
    }
}

/// Gives nodes a hearing each time the user tries them again, with the screen standing aside for
/// their questions. Ends when the screen does.
async fn hear(
    mut interviewer: Interviewer,
    again: &Notify,
    suspended_tasks: mpsc::Sender<SuspendedTask>,
) {
    loop {
        again.notified().await;
        interviewer.open();
        loop {
            let inquiries = interviewer.second_chance().await;
            if inquiries.is_empty() {
                break;
            }
            let (tell, told) = oneshot::channel();
            let aside = SuspendedTask::new(move |is_over| {
                let mood = interview::put(inquiries, is_over, &mut io::stderr());
                // Nobody listens when the screen ends.
                tell.send(mood.unwrap_or(Mood::Tired)).ok();
            });
            if suspended_tasks.send(aside).await.is_err() {
                return;
            }
            // Without a word the screen could not stand aside.
            if told.await != Ok(Mood::Patient) {
                interviewer.close();
                break;
            }
        }
    }
}
