//! The screen, and what the user asks for on it.

use std::io;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::sync::mpsc;

use crate::app::Ending;
use crate::app::watch::Watch;
use crate::time::Clock;
use crate::tui::{self, Look, Request, Watching};

/// How many requests may wait; a user does not type faster.
const REQUESTS: usize = 16;

/// How the screen is set up.
#[derive(Debug)]
pub(super) struct Setting {
    /// What is watched.
    pub(super) title: String,
    /// Whose time.
    pub(super) clock: Clock,
    /// How often nodes are sampled.
    pub(super) interval: Duration,
    /// How often new data is drawn at most.
    pub(super) redraw: Duration,
}

/// Shows the watch until the user ends it.
pub(super) async fn show(watch: &Watch, setting: Setting) -> io::Result<Ending> {
    let (requests, mut asked) = mpsc::channel(REQUESTS);
    let watching = Watching {
        fleet: watch.fleet(),
        clock: setting.clock,
        zone: TimeZone::system(),
        title: setting.title,
        interval: setting.interval,
        redraw: setting.redraw,
        requests,
    };
    let look = Look::from_environment(|name| std::env::var(name).ok());
    let serving = async {
        while let Some(request) = asked.recv().await {
            match request {
                Request::Refresh => watch.refresh(),
                Request::Focus(node) => watch.focus(node),
            }
        }
        std::future::pending().await
    };
    let ending = tokio::select! {
        ending = tui::run(watching, look) => ending?,
        ending = serving => ending,
    };
    Ok(match ending {
        tui::Ending::Quit => Ending::Done,
        tui::Ending::Interrupted => Ending::Interrupted,
        tui::Ending::Terminated => Ending::Terminated,
        tui::Ending::HangUp => Ending::HungUp,
    })
}
