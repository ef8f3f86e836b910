//! The keyboard-interactive method: passes the node's prompts to the user and the answers back.
//!
//! The node's text is bounded and sanitised here. Answers are passed on and wiped, never logged. While the user
//! types, only the node's own timeout applies (`LoginGraceTime`).

use russh::MethodKind;
use russh::client::{KeyboardInteractiveAuthResponse as Reply, Prompt as Asked};
use tokio::time::Instant;

use crate::transport::auth_prompt::{Prompt, PromptError, PromptQueue};
use crate::transport::fault::{self, ConnectPhase, Fault, UnansweredReason};
use crate::transport::host_keys::HostKeyStatus;
use crate::transport::login::{Attempt, AuthOutcome};
use crate::transport::trace::{self, CredentialOutcome};

/// Most prompts in one request.
const MAX_PROMPTS: usize = 8;

/// Most requests in one exchange.
const MAX_ROUNDS: usize = 16;

/// Most characters shown of a prompt.
const MAX_PROMPT_LENGTH: usize = 200;

/// Most instruction lines shown.
const MAX_LINES: usize = 12;

impl Attempt<'_> {
    /// Runs one exchange.
    pub(super) async fn keyboard_interactive(&mut self) -> Result<AuthOutcome, Fault> {
        let login = self.login;
        if self.exchanges >= login.prompts || (self.exchanges > 0 && !self.was_asked) {
            self.exhausted.push(MethodKind::KeyboardInteractive);
            return Ok(AuthOutcome::Refused);
        }
        let verification = self.session.state.verification();
        if verification.is_some_and(|of| matches!(of.verdict, HostKeyStatus::Changed { .. })) {
            // ssh does not answer either, with StrictHostKeyChecking no.
            return Ok(self.skip_prompts(UnansweredReason::ChangedHostKey));
        }
        if login.has_master {
            return Ok(self.skip_prompts(UnansweredReason::MasterOpen));
        }
        let Some(prompt_queue) = &login.prompt_queue else {
            return Ok(self.skip_prompts(UnansweredReason::NoTerminal));
        };
        if !prompt_queue.is_open() {
            // Not even started: a request may trigger a push notification on the user's phone.
            return Ok(self.skip_prompts(UnansweredReason::PromptsClosed));
        }
        self.exchanges += 1;
        let _busy = prompt_queue.busy();
        let starting = self
            .session
            .handle
            .authenticate_keyboard_interactive_start(&login.user, login.devices.clone());
        let mut reply = self.limit.timeout(ConnectPhase::Login, starting).await?;
        let mut said = Vec::new();
        for _ in 0..MAX_ROUNDS {
            let (name, instructions, prompts) = match reply {
                Ok(Reply::InfoRequest { name, instructions, prompts }) => {
                    (name, instructions, prompts)
                }
                Ok(Reply::Success) => {
                    trace::record_tried("your answer", || CredentialOutcome::Accepted);
                    return Ok(AuthOutcome::Success);
                }
                Ok(Reply::Failure { remaining_methods, partial_success }) => {
                    let what = "your answer".to_owned();
                    if !said.is_empty() && !partial_success {
                        let says = fault::sanitize_line(&said.join(" "));
                        self.tried.push(format!("node says: {says}"));
                    }
                    return self.handle_failure(remaining_methods, partial_success, what);
                }
                Err(_) => {
                    self.messages = said;
                    return Err(self.disconnect_fault());
                }
            };
            said.extend(lines(&name, &instructions));
            said.truncate(MAX_LINES);
            reply = self.respond(prompt_queue, &mut said, &prompts).await?;
        }
        Err(self.unanswered_fault(UnansweredReason::TooManyRounds))
    }

    fn skip_prompts(&mut self, why: UnansweredReason) -> AuthOutcome {
        self.unanswered_reason = Some(why);
        self.exhausted.push(MethodKind::KeyboardInteractive);
        AuthOutcome::Refused
    }

    /// Shows the prompts and sends the answers; a request without prompts is only a message.
    async fn respond(
        &mut self,
        prompt_queue: &PromptQueue,
        said: &mut Vec<String>,
        prompts: &[Asked],
    ) -> Result<Result<Reply, russh::Error>, Fault> {
        let mut answers = Vec::new();
        if !prompts.is_empty() {
            if prompts.len() > MAX_PROMPTS {
                return Err(self.unanswered_fault(UnansweredReason::TooManyPrompts(prompts.len())));
            }
            self.was_asked = true;
            let began = Instant::now();
            let who = format!("{}@{}", self.login.user, self.login.place);
            let prompts = prompts.iter().map(prompt).collect();
            let asked = prompt_queue.ask(who, std::mem::take(said), prompts).await;
            self.limit.extend(began.elapsed());
            answers = asked.map_err(|why| {
                self.unanswered_fault(match why {
                    PromptError::Closed => UnansweredReason::PromptsClosed,
                    PromptError::Skipped => UnansweredReason::Skipped,
                })
            })?;
        }
        // russh takes owned strings and does not wipe them; gtop's are wiped.
        let texts = answers.iter().map(|answer| answer.expose().to_owned()).collect();
        drop(answers);
        let sending = self.session.handle.authenticate_keyboard_interactive_respond(texts);
        self.limit.timeout(ConnectPhase::Login, sending).await
    }
}

fn prompt(asked: &Asked) -> Prompt {
    let text = fault::sanitize(asked.prompt.trim(), MAX_PROMPT_LENGTH).trim().to_owned();
    Prompt { text, is_shown: asked.echo }
}

/// Returns the name and instructions of a request, by line.
fn lines(name: &str, instructions: &str) -> Vec<String> {
    let lines = name.lines().chain(instructions.lines()).take(MAX_LINES);
    lines
        .map(|line| fault::sanitize(line, MAX_PROMPT_LENGTH).trim_end().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_says_cannot_fill_or_command_the_terminal() {
        let asked = Asked { prompt: "\x1b[2JCode:\r\n \u{202e}".to_owned(), echo: true };
        assert_eq!(prompt(&asked).text, "[2JCode:");
        let long = Asked { prompt: "x".repeat(10_000), echo: false };
        assert!(prompt(&long).text.chars().count() <= MAX_PROMPT_LENGTH + 1);
        let said = lines("Duo\x07", &"again \n\n".repeat(1000));
        assert!(said.len() <= MAX_LINES);
        assert_eq!(said[..2], ["Duo", "again"]);
    }
}
