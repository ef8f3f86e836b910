//! One keyboard-interactive exchange: what the node asks goes to a person, the answers go back.
//!
//! What the node says is bounded and cleaned here. Answers are passed on and wiped; they are never
//! logged. While a person types, no deadline runs but the node's own.

use russh::MethodKind;
use russh::client::{KeyboardInteractiveAuthResponse as Reply, Prompt as Asked};
use tokio::time::Instant;

use crate::transport::fault::{self, Fault, Silence, Step};
use crate::transport::host_keys::Verdict;
use crate::transport::interview::{Interview, Prompt, Unanswered};
use crate::transport::login::{Answer, Course};
use crate::transport::notes::{self, Attempt};

/// Most things a node may ask at once.
const MOST_PROMPTS: usize = 8;

/// Most times a node may ask in one exchange.
const MOST_ROUNDS: usize = 16;

/// Longest prompt that is shown.
const LONGEST_PROMPT: usize = 200;

/// Most lines that are shown before the prompts.
const MOST_LINES: usize = 12;

impl Course<'_> {
    /// Goes through one exchange.
    pub(super) async fn answer_questions(&mut self) -> Result<Answer, Fault> {
        let login = self.login;
        if self.exchanges >= login.prompts || (self.exchanges > 0 && !self.was_asked) {
            self.spent.push(MethodKind::KeyboardInteractive);
            return Ok(Answer::Refused);
        }
        let judgement = self.session.seen.judgement();
        if judgement.is_some_and(|of| matches!(of.verdict, Verdict::Changed { .. })) {
            // ssh keeps its secrets to itself as well, with StrictHostKeyChecking no.
            return Ok(self.stay_silent(Silence::ChangedKey));
        }
        if login.has_master {
            return Ok(self.stay_silent(Silence::Master));
        }
        let Some(interview) = &login.interview else {
            return Ok(self.stay_silent(Silence::NoTerminal));
        };
        if !interview.is_open() {
            // Not even begun: a node may ring somebody's phone when it asks.
            return Ok(self.stay_silent(Silence::Shut));
        }
        self.exchanges += 1;
        let _busy = interview.busy();
        let starting = self
            .session
            .handle
            .authenticate_keyboard_interactive_start(&login.user, login.devices.clone());
        let mut reply = self.limit.bound(Step::Login, starting).await?;
        let mut said = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let (name, instructions, prompts) = match reply {
                Ok(Reply::InfoRequest { name, instructions, prompts }) => {
                    (name, instructions, prompts)
                }
                Ok(Reply::Success) => {
                    notes::tried("your answer", || Attempt::Accepted);
                    return Ok(Answer::In);
                }
                Ok(Reply::Failure { remaining_methods, partial_success }) => {
                    let what = "your answer".to_owned();
                    if !said.is_empty() && !partial_success {
                        let says = fault::quote(&said.join(" "));
                        self.tried.push(format!("node says: {says}"));
                    }
                    return self.failure(remaining_methods, partial_success, what);
                }
                Err(_) => {
                    self.messages = said;
                    return Err(self.ended());
                }
            };
            said.extend(lines(&name, &instructions));
            said.truncate(MOST_LINES);
            reply = self.respond(interview, &mut said, &prompts).await?;
        }
        Err(self.unanswered(Silence::Endless))
    }

    fn stay_silent(&mut self, why: Silence) -> Answer {
        self.silence = Some(why);
        self.spent.push(MethodKind::KeyboardInteractive);
        Answer::Refused
    }

    /// Puts prompts to a person and sends the answers; a request without prompts is only a message.
    async fn respond(
        &mut self,
        interview: &Interview,
        said: &mut Vec<String>,
        prompts: &[Asked],
    ) -> Result<Result<Reply, russh::Error>, Fault> {
        let mut answers = Vec::new();
        if !prompts.is_empty() {
            if prompts.len() > MOST_PROMPTS {
                return Err(self.unanswered(Silence::TooMany(prompts.len())));
            }
            self.was_asked = true;
            let began = Instant::now();
            let who = format!("{}@{}", self.login.user, self.login.place);
            let prompts = prompts.iter().map(prompt).collect();
            let asked = interview.ask(who, std::mem::take(said), prompts).await;
            self.limit.put_off(began.elapsed());
            answers = asked.map_err(|why| {
                self.unanswered(match why {
                    Unanswered::Shut => Silence::Shut,
                    Unanswered::Skipped => Silence::Skipped,
                })
            })?;
        }
        // The library wants strings of its own and does not wipe them; ours are.
        let texts = answers.iter().map(|answer| answer.expose().to_owned()).collect();
        drop(answers);
        let sending = self.session.handle.authenticate_keyboard_interactive_respond(texts);
        self.limit.bound(Step::Login, sending).await
    }
}

fn prompt(asked: &Asked) -> Prompt {
    let text = fault::clean(asked.prompt.trim(), LONGEST_PROMPT).trim().to_owned();
    Prompt { text, is_shown: asked.echo }
}

/// Returns what a node says before its prompts, line by line.
fn lines(name: &str, instructions: &str) -> Vec<String> {
    let lines = name.lines().chain(instructions.lines()).take(MOST_LINES);
    lines
        .map(|line| fault::clean(line, LONGEST_PROMPT).trim_end().to_owned())
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
        assert!(prompt(&long).text.chars().count() <= LONGEST_PROMPT + 1);
        let said = lines("Duo\x07", &"again \n\n".repeat(1000));
        assert!(said.len() <= MOST_LINES);
        assert_eq!(said[..2], ["Duo", "again"]);
    }
}
