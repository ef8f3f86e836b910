//! The form of advice: steps, of which one is enough unless it says "and".

use std::borrow::Cow;

/// What to do, in steps; the first helps most often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// One of them is enough; one that says "and" belongs to the one above it.
    pub steps: Vec<Step>,
}

/// One thing to do: in words, by a command, or by lines in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// How it belongs to the steps above, or when it helps: `or `, `and `, `if …, `; may be empty.
    lead: Cow<'static, str>,
    /// The machine on which root does it.
    root_on: Option<String>,
    /// What to do, in words; may be empty if there is a command.
    words: Cow<'static, str>,
    /// The command that does it, as it can be pasted into a shell.
    pub command: Option<String>,
    /// The file that the lines are for.
    pub file: Option<&'static str>,
    /// Lines for the file.
    pub lines: Vec<String>,
}

impl Step {
    /// Makes a step that only a person can do.
    pub(super) fn words(words: impl Into<Cow<'static, str>>) -> Self {
        Self { words: words.into(), ..Self::default() }
    }

    /// Makes a step that a command does.
    pub(super) fn run(words: impl Into<Cow<'static, str>>, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..Self::words(words) }
    }

    /// Makes a step that adds lines to a file.
    pub(super) fn put(
        file: &'static str,
        words: impl Into<Cow<'static, str>>,
        lines: Vec<String>,
    ) -> Self {
        Self { file: Some(file), lines, ..Self::words(words) }
    }

    /// It helps too, in place of the steps above.
    pub(super) fn or(self) -> Self {
        Self { lead: "or ".into(), ..self }
    }

    /// It is needed with the step above.
    pub(super) fn and(self) -> Self {
        Self { lead: "and ".into(), ..self }
    }

    /// It helps only then.
    pub(super) fn when(self, condition: &str) -> Self {
        Self { lead: format!("if {condition}, ").into(), ..self }
    }

    /// It is done as root on this machine.
    pub(super) fn with_root_on(self, machine: &str) -> Self {
        Self { root_on: Some(machine.to_owned()), ..self }
    }

    /// Returns true if it must be done as root.
    pub const fn needs_root(&self) -> bool {
        self.root_on.is_some()
    }

    /// Returns it as one line, without the lines for a file.
    pub fn sentence(&self) -> String {
        let Self { lead, root_on, words, command, lines, .. } = self;
        let root = root_on.iter().map(|machine| format!("as root on {machine}: "));
        let mut text: String = std::iter::once(lead.to_string()).chain(root).collect();
        text += words;
        if command.is_some() && !words.is_empty() {
            text += ": ";
        }
        text.extend(command.as_deref());
        if !lines.is_empty() {
            text.push(':');
        }
        text
    }

    /// Returns it as text: the sentence, and each line for a file on an indented line of its own.
    pub fn text(&self) -> String {
        self.lines.iter().fold(self.sentence(), |text, line| format!("{text}\n    {line}"))
    }
}

impl Advice {
    /// Makes advice of one step, in words; of none if they are empty.
    pub(super) fn words(words: impl Into<Cow<'static, str>>) -> Self {
        let words = words.into();
        if words.is_empty() { Self::default() } else { Step::words(words).into() }
    }

    /// Adds steps.
    pub(crate) fn then(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.steps.extend(steps);
        self
    }

    /// Returns all steps, one per line; the lines for a file are indented.
    pub fn text(&self) -> String {
        self.steps.iter().map(Step::text).collect::<Vec<_>>().join("\n")
    }

    /// Returns the first step in one line; empty without any.
    pub fn first(&self) -> String {
        let Some(step) = self.steps.first() else { return String::new() };
        let lines = step.lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("; ");
        if lines.is_empty() { step.sentence() } else { format!("{} {lines}", step.sentence()) }
    }
}

impl From<Step> for Advice {
    fn from(step: Step) -> Self {
        Self { steps: vec![step] }
    }
}

impl From<&'static str> for Advice {
    fn from(words: &'static str) -> Self {
        Self::words(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_reads_as_a_sentence_that_ends_with_its_command() {
        let step = Step::run("install your key", "ssh-copy-id gpu01");
        assert_eq!(step.clone().and().text(), "and install your key: ssh-copy-id gpu01");
        let root = Step::run("", "chage -E -1 ada").with_root_on("gpu01");
        assert_eq!(root.clone().text(), "as root on gpu01: chage -E -1 ada");
        assert_eq!(
            root.when("the log says so").text(),
            "if the log says so, as root on gpu01: chage -E -1 ada"
        );
        let lines = vec!["Host gpu01".to_owned(), "  User ada".to_owned()];
        let put = Step::put("~/.ssh/config", "add to ~/.ssh/config", lines);
        assert_eq!(put.text(), "add to ~/.ssh/config:\n    Host gpu01\n      User ada");
        let advice = Advice::from(put).then([step.or()]);
        assert_eq!(advice.first(), "add to ~/.ssh/config: Host gpu01; User ada");
        assert!(advice.text().ends_with("\nor install your key: ssh-copy-id gpu01"));
        assert_eq!(Advice::words("").first(), "");
    }
}
