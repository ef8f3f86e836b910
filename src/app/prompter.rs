//! Shows the login prompts of nodes at the terminal, or by the program of `SSH_ASKPASS`, one node at a time.

use std::io::{self, Write};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::mpsc::Receiver;

use crate::app::AppError;
use crate::app::line_prompt::{LineInput, LinePrompt, until_stopped};
use crate::app::prompt_place::PromptPlace;
use gtop_ssh::{PromptQueue, PromptRequest, Secret};
use gtop_ui::{StopReason, StopSignals};

/// Maximum wait for login prompts before the screen starts.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum wait for login prompts after the user has requested a retry.
const RETRY_PROMPT_TIMEOUT: Duration = Duration::from_secs(3);

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

/// Shows the login prompts of nodes.
#[derive(Debug)]
pub(super) struct Prompter {
    /// Where the prompts are shown.
    pub(super) place: PromptPlace,
    /// The queue for the prompts of logins.
    pub(super) queue: PromptQueue,
    requests: Receiver<PromptRequest>,
}

impl Prompter {
    /// Returns `None` without a terminal and a program to ask with.
    pub(super) fn at_start() -> Option<Self> {
        let place = PromptPlace::at_start()?;
        let (queue, requests) = PromptQueue::new();
        Some(Self { place, queue, requests })
    }

    /// Accepts prompts from now on.
    pub(super) fn open(&self) {
        self.queue.set_open(true);
    }

    /// Shows prompts until `nodes` nodes are past their login, or after [`PROMPT_TIMEOUT`] once no login is
    /// being prompted; then rejects further ones.
    pub(super) async fn prompt_at_startup(&mut self, nodes: usize) -> Result<(), AppError> {
        let mut signals = StopSignals::new();
        let result = loop {
            let requests = tokio::select! {
                requests = self.next(nodes, PROMPT_TIMEOUT) => requests,
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

    /// Waits for prompts after the user has requested a retry. Returns none, and rejects further ones, when
    /// no login can prompt any more.
    pub(super) async fn wait_after_retry(&mut self) -> Vec<PromptRequest> {
        let requests = self.next(usize::MAX, RETRY_PROMPT_TIMEOUT).await;
        if requests.is_empty() {
            self.close();
        }
        requests
    }

    /// Rejects prompts from now on.
    pub(super) fn close(&self) {
        self.queue.set_open(false);
    }

    /// Waits for a prompt and returns all that are queued by then.
    async fn next(&mut self, nodes: usize, max_wait: Duration) -> Vec<PromptRequest> {
        let first = tokio::select! {
            biased;
            request = self.requests.recv() => request,
            () = self.queue.wait_for_logins(nodes, max_wait) => None,
        };
        let mut requests: Vec<_> = first.into_iter().collect();
        while let Ok(request) = self.requests.try_recv() {
            requests.push(request);
        }
        requests
    }
}

/// Shows the prompts of several nodes, one node at a time.
pub(super) fn prompt_all(
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
