//! The questions of a login: shown to the user, or answered as before.

use std::io::{self, Write};

use crate::app::AppError;
use crate::app::line_prompt::{LineInput, LinePrompt, until_stopped};
use crate::app::login::LoginFault;
use crate::app::login::answers::{Answers, Dialogue, prompt_of};
use crate::app::prompt_place::PromptPlace;
use gtop_ssh::{LoginHost, QuestionKind, Secret, SshQuestion};
use gtop_ui::{StopReason, StopSignals};

/// Maximum number of lines shown of the output of ssh and the node before a question.
const MAX_LINES: usize = 24;

/// Why a login ends without success.
pub(super) enum LoginEnd {
    /// The next node may still be reachable.
    Fault(LoginFault),
    /// The user skips the rest.
    SkipAll,
    /// The user or a signal ends gtop, or an output is closed.
    Ended(AppError),
}

impl<F: Into<LoginFault>> From<F> for LoginEnd {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}

impl From<AppError> for LoginEnd {
    fn from(error: AppError) -> Self {
        Self::Ended(error)
    }
}

impl From<StopReason> for LoginEnd {
    fn from(reason: StopReason) -> Self {
        Self::Ended(reason.into())
    }
}

impl From<io::Error> for LoginEnd {
    fn from(error: io::Error) -> Self {
        Self::Ended(error.into())
    }
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
    ) -> Result<(), LoginEnd> {
        match question.kind {
            QuestionKind::Message => {
                show(host, &question.lines)?;
                // Without an answer ssh ends, so it is kept.
                self.messages.push(question);
                Ok(())
            }
            QuestionKind::HostKey | QuestionKind::Confirmation => {
                let is_confirmation = question.kind == QuestionKind::Confirmation;
                let ending = if is_confirmation { " [yes/no] " } else { "" };
                let answer = self.ask(question.lines.join("\n") + ending, true, signals).await?;
                question.answer(&answer).await;
                Ok(())
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
    ) -> Result<(), LoginEnd> {
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
            let answer = self.ask(shown, false, signals).await?;
            if answer.expose().is_empty() {
                return Err(LoginFault::Skipped.into());
            }
            answer
        };
        question.answer(&answer).await;
        if let Some(prompt) = prompt {
            dialogue.insert(prompt, answer);
        }
        Ok(())
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
    ) -> Result<(), LoginEnd> {
        let offered: Vec<_> = answers
            .to_offer(dialogue)
            .into_iter()
            .map(|(prompt, answer)| (prompt.to_owned(), answer.clone()))
            .collect();
        for (prompt, answer) in offered {
            let text = format!("use the same answer to \"{prompt}\" for {user} at {hosts}? [y/N] ");
            match self.ask(text, true, signals).await {
                Ok(reply) if matches!(reply.expose().trim(), "y" | "Y" | "yes") => {
                    answers.keep(&prompt, answer);
                }
                Ok(_) | Err(LoginEnd::SkipAll) => answers.decline(&prompt),
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// Asks for a line.
    async fn ask(
        &self,
        prompt: String,
        is_shown: bool,
        signals: &mut StopSignals,
    ) -> Result<Secret, LoginEnd> {
        let (place, prompt) = (self.place.clone(), LinePrompt { prompt, is_shown });
        let asking =
            until_stopped(signals, move |is_over| prompt.ask(&place, is_over, &mut io::stderr()));
        match asking.await?? {
            LineInput::Line(answer) => Ok(answer),
            LineInput::End => Err(LoginEnd::SkipAll),
            LineInput::Interrupt => Err(StopReason::Interrupted.into()),
        }
    }
}
