//! Shows the login prompts of nodes at the terminal, or by the program of `SSH_ASKPASS`, one node at a time.

use std::future::poll_fn;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::oneshot;

use crate::app::AppError;
use crate::app::line_prompt::{LineInput, LinePrompt, NoEcho, until_stopped};
use crate::app::prompt_place::PromptPlace;
use gtop_local::lock::lock;
use gtop_ssh::{PromptQueue, PromptRequest, Secret};
use gtop_ui::{StopReason, StopSignals, SuspendedTask};

/// Maximum wait for login prompts where nothing goes on before them.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum wait for login prompts while the screen is shown.
const SCREEN_PROMPT_TIMEOUT: Duration = Duration::from_secs(3);

/// How a series of prompts ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptOutcome {
    /// All were answered or skipped one by one.
    Continue,
    /// The user skips all further prompts (Ctrl-D).
    SkipAll,
    /// The user ends gtop (Ctrl-C).
    Interrupted,
}

/// Shows the login prompts of nodes. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Prompter {
    /// Where the prompts are shown.
    pub(super) place: PromptPlace,
    /// The queue for the prompts of logins.
    pub(super) queue: PromptQueue,
    requests: Arc<Mutex<Receiver<PromptRequest>>>,
    /// The nodes that may prompt.
    nodes: usize,
    /// The scheduler has not named its nodes yet, so that their keys may be locked.
    pub(super) has_late_nodes: bool,
}

impl Prompter {
    /// Returns `None` without a terminal and a program to ask with.
    pub(super) fn at_start() -> Option<Self> {
        let place = PromptPlace::at_start()?;
        let (queue, requests) = PromptQueue::new();
        let requests = Arc::new(Mutex::new(requests));
        Some(Self { place, queue, requests, nodes: 0, has_late_nodes: false })
    }

    /// Accepts the prompts of so many nodes from now on.
    pub(super) fn open(&mut self, nodes: usize) {
        self.nodes = nodes;
        self.queue.set_open(true);
    }

    /// Shows prompts until all nodes are past their login, or after [`PROMPT_TIMEOUT`] once no login is being
    /// prompted; then rejects further ones.
    pub(super) async fn prompt_at_startup(&self) -> Result<(), AppError> {
        let mut signals = StopSignals::new();
        let result = loop {
            let requests = tokio::select! {
                requests = self.next(PROMPT_TIMEOUT) => requests,
                reason = signals.next() => break Err(reason.into()),
            };
            if requests.is_empty() {
                break Ok(());
            }
            let place = self.place.clone();
            let prompting = until_stopped(&mut signals, move |is_over| {
                prompt_all(requests, &place, is_over, &mut io::stderr())
            });
            match prompting.await? {
                Ok(PromptOutcome::Continue) => {}
                Ok(PromptOutcome::SkipAll) => break Ok(()),
                Ok(PromptOutcome::Interrupted) => break Err(StopReason::Interrupted.into()),
                Err(reason) => break Err(reason.into()),
            }
        };
        self.close();
        result
    }

    /// Shows prompts with the screen suspended, until all nodes are past their login, or after
    /// [`SCREEN_PROMPT_TIMEOUT`] once no login is being prompted; then rejects further ones. Returns an error if the
    /// screen has ended.
    pub(super) async fn prompt_on_screen(
        &self,
        suspended_tasks: &mpsc::Sender<SuspendedTask>,
    ) -> Result<PromptOutcome, SendError<SuspendedTask>> {
        let mut ended = PromptOutcome::Continue;
        while ended == PromptOutcome::Continue {
            let requests = self.next(SCREEN_PROMPT_TIMEOUT).await;
            if requests.is_empty() {
                break;
            }
            let (outcome_sender, outcome) = oneshot::channel();
            let prompter = self.clone();
            let task: SuspendedTask = Box::new(move |is_over| {
                let outcome = prompter.prompt_until_logged_in(requests, is_over);
                // Fails if the screen has ended.
                outcome_sender.send(outcome.unwrap_or(PromptOutcome::SkipAll)).ok();
            });
            suspended_tasks.send(task).await?;
            // An error means that the screen could not be suspended.
            ended = outcome.await.unwrap_or(PromptOutcome::SkipAll);
        }
        self.close();
        Ok(ended)
    }

    /// Shows prompts, and those that follow before no login is being prompted: a code may follow a password.
    fn prompt_until_logged_in(
        &self,
        mut requests: Vec<PromptRequest>,
        is_over: &AtomicBool,
    ) -> io::Result<PromptOutcome> {
        let _no_echo = NoEcho::between_prompts();
        while !requests.is_empty() {
            let outcome = prompt_all(requests, &self.place, is_over, &mut io::stderr())?;
            if outcome != PromptOutcome::Continue {
                return Ok(outcome);
            }
            requests = Handle::current().block_on(async {
                tokio::select! {
                    requests = self.next(Duration::ZERO) => requests,
                    () = until_over(is_over) => Vec::new(),
                }
            });
        }
        Ok(PromptOutcome::Continue)
    }

    /// Rejects prompts from now on.
    fn close(&self) {
        self.queue.set_open(false);
    }

    /// Waits for a prompt and returns all that are queued by then.
    async fn next(&self, max_wait: Duration) -> Vec<PromptRequest> {
        let first = tokio::select! {
            biased;
            request = poll_fn(|context| lock(&self.requests).poll_recv(context)) => request,
            () = self.queue.wait_for_logins(self.nodes, max_wait) => None,
        };
        let mut requests: Vec<_> = first.into_iter().collect();
        while let Ok(request) = lock(&self.requests).try_recv() {
            requests.push(request);
        }
        requests
    }
}

/// Waits until a task must return.
async fn until_over(is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Shows the prompts of several nodes, one node at a time.
fn prompt_all(
    requests: Vec<PromptRequest>,
    place: &PromptPlace,
    is_over: &AtomicBool,
    out: &mut impl Write,
) -> io::Result<PromptOutcome> {
    let mut waiting = requests.len();
    for request in requests {
        waiting = waiting.saturating_sub(1);
        let outcome = prompt_node(request, waiting, place, is_over, out)?;
        if outcome != PromptOutcome::Continue {
            return Ok(outcome);
        }
    }
    Ok(PromptOutcome::Continue)
}

/// Shows the prompts of one node. An empty answer skips the node.
fn prompt_node(
    request: PromptRequest,
    waiting: usize,
    place: &PromptPlace,
    is_over: &AtomicBool,
    out: &mut impl Write,
) -> io::Result<PromptOutcome> {
    if !request.is_pending() {
        return Ok(PromptOutcome::Continue);
    }
    let more = match waiting {
        0 => String::new(),
        1 => ", 1 more node is waiting".to_owned(),
        count => format!(", {count} more nodes are waiting"),
    };
    let who = &request.login;
    writeln!(
        out,
        "{who} asks for input to log in (Enter skips this node, Ctrl-D skips all{more})"
    )?;
    for line in &request.instruction {
        writeln!(out, "{who}: {line}")?;
    }
    // A program shows only the prompt.
    let mut instruction = match place {
        PromptPlace::Terminal => String::new(),
        PromptPlace::Program(_) => request.instruction.join("\n"),
    };
    if !instruction.is_empty() {
        instruction.push('\n');
    }
    let mut answers: Vec<Secret> = Vec::with_capacity(request.prompts.len());
    for prompt in &request.prompts {
        let text = format!("{instruction}{who}: {} ", prompt.text);
        let line = LinePrompt { prompt: text, is_shown: prompt.is_echoed };
        match line.ask(place, is_over, out)? {
            LineInput::Line(answer) if answer.expose().is_empty() => {
                return Ok(PromptOutcome::Continue);
            }
            LineInput::Line(answer) => answers.push(answer),
            LineInput::End => return Ok(PromptOutcome::SkipAll),
            LineInput::Interrupt => return Ok(PromptOutcome::Interrupted),
        }
    }
    request.answer(answers);
    Ok(PromptOutcome::Continue)
}
