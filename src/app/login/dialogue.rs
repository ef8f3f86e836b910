//! The questions of a login: shown to the user, or answered as before.

use std::io::{self, Write};

use crate::app::line_prompt::{LineInput, LinePrompt, until_stopped};
use crate::app::login::answers::{Answers, Dialogue, prompt_of};
use crate::app::prompt_place::PromptPlace;
use gtop_ssh::{LoginHost, QuestionKind, Secret, SshQuestion};
use gtop_ui::{StopReason, StopSignals};

/// Maximum number of lines shown of the output of ssh and the node before a question.
const MAX_LINES: usize = 24;

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskResult {
    Answered,
    /// The user skips this host.
    Skip,
    /// The user skips all hosts.
    SkipAll,
    Stopped(StopReason),
}

/// Shows questions.
#[derive(Debug)]
pub(super) struct Questions {
    place: PromptPlace,
    /// How to skip a host was printed.
    has_explained: bool,
    /// Messages that are shown as long as ssh waits.
    messages: Vec<SshQuestion>,
}

/// Shows the output of ssh and the node before a question.
pub(super) fn show(host: &LoginHost, lines: &[String]) -> io::Result<()> {
    let mut err = io::stderr();
    for line in lines.iter().take(MAX_LINES) {
        writeln!(err, "{}: {line}", host.name())?;
    }
    Ok(())
}

impl Questions {
    pub(super) const fn new(place: PromptPlace) -> Self {
        Self { place, has_explained: false, messages: Vec::new() }
    }

    /// Answers a question of ssh.
    pub(super) async fn answer(
        &mut self,
        host: &LoginHost,
        question: SshQuestion,
        dialogue: &mut Dialogue,
        answers: &mut Answers,
        signals: &mut StopSignals,
    ) -> io::Result<AskResult> {
        match question.kind {
            QuestionKind::Message => {
                show(host, &question.lines)?;
                // Without an answer ssh ends, so it is kept.
                self.messages.push(question);
                Ok(AskResult::Answered)
            }
            QuestionKind::HostKey | QuestionKind::Confirmation => {
                let is_confirmation = question.kind == QuestionKind::Confirmation;
                let ending = if is_confirmation { " [yes/no] " } else { "" };
                match self.ask(question.lines.join("\n") + ending, true, signals).await? {
                    Ok(answer) => question.answer(&answer).await,
                    Err(other) => return Ok(other),
                }
                Ok(AskResult::Answered)
            }
            QuestionKind::Secret => {
                self.messages.clear();
                self.answer_secret(host, question, dialogue, answers, signals).await
            }
        }
    }

    async fn answer_secret(
        &mut self,
        host: &LoginHost,
        question: SshQuestion,
        dialogue: &mut Dialogue,
        answers: &mut Answers,
        signals: &mut StopSignals,
    ) -> io::Result<AskResult> {
        let text = question.lines.join("\n");
        let prompt = prompt_of(host, &text);
        let kept = prompt.as_deref().and_then(|prompt| answers.find(dialogue, prompt));
        let answer = if let Some(answer) = kept {
            answer
        } else {
            self.explain()?;
            // Before OpenSSH 8.6 prompts name no login.
            let names_host = host.logins().iter().any(|login| text.contains(login.as_str()));
            let is_of_key = text.starts_with("Enter ");
            let shown =
                if names_host || is_of_key { text } else { format!("{}: {text}", host.name()) };
            match self.ask(shown, false, signals).await? {
                Ok(answer) if answer.expose().is_empty() => return Ok(AskResult::Skip),
                Ok(answer) => answer,
                Err(other) => return Ok(other),
            }
        };
        question.answer(&answer).await;
        if let Some(prompt) = prompt {
            dialogue.give(prompt, answer);
        }
        Ok(AskResult::Answered)
    }

    /// Prints once how to skip a host.
    fn explain(&mut self) -> io::Result<()> {
        if !self.has_explained {
            self.has_explained = true;
            writeln!(io::stderr(), "Enter skips a node, Ctrl-D skips all")?;
        }
        Ok(())
    }

    /// Offers to use the answers of a login again for other hosts, where the same user logs in.
    pub(super) async fn offer(
        &mut self,
        dialogue: &Dialogue,
        answers: &mut Answers,
        (user, hosts): (&str, String),
        signals: &mut StopSignals,
    ) -> io::Result<AskResult> {
        let offered: Vec<_> = answers
            .to_offer(dialogue)
            .into_iter()
            .map(|(prompt, answer)| (prompt.to_owned(), answer.clone()))
            .collect();
        for (prompt, answer) in offered {
            let text = format!("use the same answer to \"{prompt}\" for {user} at {hosts}? [y/N] ");
            match self.ask(text, true, signals).await? {
                Ok(reply) if matches!(reply.expose().trim(), "y" | "Y" | "yes") => {
                    answers.keep(&prompt, answer);
                }
                Ok(_) | Err(AskResult::SkipAll) => answers.decline(&prompt),
                Err(other) => return Ok(other),
            }
        }
        Ok(AskResult::Answered)
    }

    /// Asks for a line.
    async fn ask(
        &self,
        prompt: String,
        is_shown: bool,
        signals: &mut StopSignals,
    ) -> io::Result<Result<Secret, AskResult>> {
        let (place, prompt) = (self.place.clone(), LinePrompt { prompt, is_shown });
        let asking =
            until_stopped(signals, move |is_over| prompt.ask(&place, is_over, &mut io::stderr()));
        Ok(match asking.await? {
            Ok(LineInput::Line(answer)) => Ok(answer),
            Ok(LineInput::End) => Err(AskResult::SkipAll),
            Ok(LineInput::Interrupt) => Err(AskResult::Stopped(StopReason::Interrupted)),
            Err(reason) => Err(AskResult::Stopped(reason)),
        })
    }
}
