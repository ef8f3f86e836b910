//! The keyboard-interactive method: passes the node's prompts to the user and the answers back.
//!
//! The node's text is bounded and sanitised here. Answers are passed on and wiped, never logged. While the user
//! types, only the node's own timeout applies (`LoginGraceTime`).

use russh::MethodKind;
use russh::client::{KeyboardInteractiveAuthResponse as Reply, Prompt as ServerPrompt};
use tokio::time::Instant;

use crate::auth::prompt::{Prompt, PromptQueue};
use crate::auth::{Attempt, AuthOutcome, Tried};
use crate::host_keys::HostKeyStatus;
use crate::trace::{self, CredentialOutcome};
use gtop_local::fault::ssh::{ConnectPhase, Fault, UnansweredReason};
use gtop_local::text;

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
    pub(crate) async fn keyboard_interactive(&mut self) -> Result<AuthOutcome, Fault> {
        let login = self.login;
        if self.exchanges >= login.settings.prompts || (self.exchanges > 0 && !self.was_prompted) {
            self.exhausted.push(MethodKind::KeyboardInteractive);
            return Ok(AuthOutcome::Refused);
        }
        let verification = self.session.state.verification();
        if verification.is_some_and(|of| matches!(of.status, HostKeyStatus::Changed { .. })) {
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
        let _prompting = prompt_queue.start_prompting();
        let starting = self.session.handle.authenticate_keyboard_interactive_start(
            &login.settings.user,
            login.settings.devices.clone(),
        );
        let mut reply = self.deadline.timeout(ConnectPhase::Login, starting).await?;
        let mut message_lines = Vec::new();
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
                    if !message_lines.is_empty() && !partial_success {
                        let says = text::excerpt_line(&message_lines.join(" "));
                        self.tried.push(Tried::Offered(format!("node says: {says}")));
                    }
                    return self.handle_failure(remaining_methods, partial_success, "your answer");
                }
                Err(_) => {
                    self.messages = message_lines;
                    return Err(self.disconnect_fault());
                }
            };
            message_lines.extend(instruction_lines(&name, &instructions));
            message_lines.truncate(MAX_LINES);
            reply = self.respond(prompt_queue, &mut message_lines, &prompts).await?;
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
        message_lines: &mut Vec<String>,
        prompts: &[ServerPrompt],
    ) -> Result<Result<Reply, russh::Error>, Fault> {
        let mut answers = Vec::new();
        if !prompts.is_empty() {
            if prompts.len() > MAX_PROMPTS {
                return Err(self.unanswered_fault(UnansweredReason::TooManyPrompts(prompts.len())));
            }
            self.was_prompted = true;
            let began = Instant::now();
            let login = format!("{}@{}", self.login.settings.user, self.login.node_name);
            let prompts = prompts.iter().map(convert_prompt).collect();
            let result = prompt_queue.ask(login, std::mem::take(message_lines), prompts).await;
            self.deadline.extend(began.elapsed());
            answers = result.map_err(|why| self.unanswered_fault(why))?;
        }
        // russh takes owned strings and does not wipe them; gtop's are wiped.
        let texts = answers.iter().map(|answer| answer.expose().to_owned()).collect();
        drop(answers);
        let sending = self.session.handle.authenticate_keyboard_interactive_respond(texts);
        self.deadline.timeout(ConnectPhase::Login, sending).await
    }
}

fn convert_prompt(prompt: &ServerPrompt) -> Prompt {
    let text = text::excerpt(prompt.prompt.trim(), MAX_PROMPT_LENGTH).trim().to_owned();
    Prompt { text, is_echoed: prompt.echo }
}

/// Returns the name and instructions of a request, by line.
fn instruction_lines(name: &str, instructions: &str) -> Vec<String> {
    let lines = name.lines().chain(instructions.lines()).take(MAX_LINES);
    lines
        .map(|line| text::excerpt(line, MAX_PROMPT_LENGTH).trim_end().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompt_text_is_bounded_and_sanitized() {
        let prompt = ServerPrompt { prompt: "\x1b[2JCode:\r\n \u{202e}".to_owned(), echo: true };
        assert_eq!(convert_prompt(&prompt).text, "[2JCode:");
        let long = ServerPrompt { prompt: "x".repeat(10_000), echo: false };
        assert!(convert_prompt(&long).text.chars().count() <= MAX_PROMPT_LENGTH + 1);
        let message_lines = instruction_lines("Duo\x07", &"again \n\n".repeat(1000));
        assert!(message_lines.len() <= MAX_LINES);
        assert_eq!(message_lines[..2], ["Duo", "again"]);
    }
}
