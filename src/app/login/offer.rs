//! The question after the start whether to log in to nodes that need a password, and the key that does it later.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::app::line_prompt::{LineInput, LinePrompt};
use crate::app::login::log_in_to_all;
use crate::app::prompter::Prompter;
use crate::cli::DEFAULT_PERSIST;
use crate::watch::Monitor;
use gtop_collect::transport::{Target, Transport};
use gtop_fleet::Node;
use gtop_local::fault::Fault as Cause;
use gtop_model::{Link, NodeName, nodeset};
use gtop_ui::SuspendedTask;

/// Maximum wait for what becomes of nodes that need a password: another connection may reach them.
const LINK_TIMEOUT: Duration = Duration::from_secs(2);

/// Asks whether to log in to the nodes that have turned out to need a password, and does it, with the screen suspended.
pub(in crate::app) async fn offer_after_start(
    monitor: &Monitor,
    prompter: &Prompter,
    connecting: (Transport, u16),
    suspended_tasks: &mpsc::Sender<SuspendedTask>,
) {
    let asked = prompter.queue.password_nodes();
    if asked.is_empty() {
        return;
    }
    let nodes = nodes_to_log_in(monitor, |node| asked.contains(node.name.as_str())).await;
    if nodes.is_empty() {
        return;
    }
    let labels = nodeset::fold(nodes.iter().map(NodeName::label));
    let asks = if nodes.len() == 1 { "asks" } else { "ask" };
    let prompt = format!("{labels} {asks} for a password or a code: log in now? [y/N] ");
    let (question, place) = (LinePrompt { prompt, is_shown: true }, prompter.place.clone());
    log_in_if(monitor, connecting, &nodes, suspended_tasks, move |is_over| {
        let Ok(LineInput::Line(answer)) = question.ask(&place, is_over, &mut io::stderr()) else {
            return false;
        };
        matches!(answer.expose().trim(), "y" | "Y" | "yes")
    })
    .await;
}

/// Logs in to nodes with the screen suspended, and connects to them.
pub(in crate::app) async fn log_in_from_screen(
    monitor: &Monitor,
    connecting: (Transport, u16),
    nodes: &[NodeName],
    suspended_tasks: &mpsc::Sender<SuspendedTask>,
) {
    log_in_if(monitor, connecting, nodes, suspended_tasks, |_is_over| true).await;
}

/// Suspends the screen, and logs in to nodes and connects to them if the user wants it.
async fn log_in_if(
    monitor: &Monitor,
    (transport, max_connecting): (Transport, u16),
    nodes: &[NodeName],
    suspended_tasks: &mpsc::Sender<SuspendedTask>,
    is_wanted: impl FnOnce(&AtomicBool) -> bool + Send + 'static,
) {
    let (targets, sessions) = (targets_of(monitor, nodes), monitor.sessions());
    let (done_sender, done) = oneshot::channel();
    let task: SuspendedTask = Box::new(move |is_over| {
        if !is_wanted(is_over) {
            return;
        }
        let mut err = io::stderr();
        // It takes a moment; the terminal is closed if this fails.
        writeln!(err, "gtop: checking which nodes ask for a login…").ok();
        let logging_in =
            log_in_to_all(&transport, max_connecting, DEFAULT_PERSIST, targets, &mut err);
        let message = sessions.block_on(logging_in).err().and_then(|error| error.message);
        if let Some(message) = message {
            // The terminal is closed if this fails.
            writeln!(io::stderr(), "gtop: {message}").ok();
        }
        // Fails if the screen has ended.
        done_sender.send(()).ok();
    });
    // An error means that the user does not want it, that the screen has ended, or that it could not be suspended.
    if suspended_tasks.send(task).await.is_ok() && done.await.is_ok() {
        monitor.refresh();
    }
}

/// Returns the nodes that a password would let the user in to, once no connection to them is being opened.
async fn nodes_to_log_in(monitor: &Monitor, is_meant: impl Fn(&Node) -> bool) -> Vec<NodeName> {
    let mut fleet = monitor.fleet();
    let settled = fleet.wait_for(|fleet| {
        let mut meant = fleet.nodes.iter().filter(|node| is_meant(node));
        meant.all(|node| matches!(node.link, Link::Up | Link::Down { .. }))
    });
    // What is not known by then is shown on the screen.
    drop(timeout(LINK_TIMEOUT, settled).await);
    let fleet = fleet.borrow().clone();
    let needing = fleet.nodes.iter().filter(|node| is_meant(node) && needs_password(&node.link));
    needing.map(|node| node.name.clone()).collect()
}

fn needs_password(link: &Link) -> bool {
    let Link::Down { fault, .. } = link else { return false };
    let is_needed =
        matches!(fault.cause.as_deref(), Some(Cause::Ssh(cause)) if cause.needs_password());
    is_needed && fault.is_solved_by_login()
}

fn targets_of(monitor: &Monitor, nodes: &[NodeName]) -> Vec<Target> {
    let rosters = monitor.rosters();
    let roster = rosters.borrow();
    roster.targets.iter().filter(|target| nodes.contains(&target.name)).cloned().collect()
}
