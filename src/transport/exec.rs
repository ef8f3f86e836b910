//! A command of the user's as the way to a node: `kubectl exec -i {node} -- sh`.
//!
//! The words are split once, here, and never seen by a shell of this machine. What is to run on the
//! node is either one of the words (`{command}`), or, where none says so, the first line that a shell
//! over there reads from its standard input: so the command has to pass standard input on, and to end
//! in a shell or to say `{command}`.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::transport::dial::Deadline;
use crate::transport::fault::{ConnectPhase, Fault};
use crate::transport::openssh::{ProgramKind, ProgramSession};
use crate::transport::process::{LocalProcess, ParentGuard};

/// What stands for the node in a word.
const NODE_PLACEHOLDER: &str = "{node}";

/// What stands for the command line to run there.
const COMMAND_PLACEHOLDER: &str = "{command}";

/// A command that leads to a node, split into words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecTemplate {
    program: String,
    words: Vec<String>,
}

/// Why a command is no template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// There is nothing.
    #[error("--exec needs a command, such as 'kubectl exec -i {{node}} -- sh'")]
    Empty,
    /// A quote is not closed.
    #[error("--exec has a {0} that is not closed")]
    Quote(char),
    /// A backslash at the end.
    #[error("--exec ends with a backslash that is before nothing")]
    Backslash,
    /// It does not say which node.
    #[error("--exec says nowhere which node; put {{node}} where the node's name belongs")]
    NoNode,
}

impl ExecTemplate {
    /// Splits a command as a shell would: at spaces, but for quotes and backslashes. Nothing else
    /// that means something to a shell does so here.
    pub fn new(text: &str) -> Result<Self, TemplateError> {
        let mut words = split(text)?;
        if words.is_empty() {
            return Err(TemplateError::Empty);
        }
        let program = words.remove(0);
        if program.is_empty() {
            return Err(TemplateError::Empty);
        }
        if !words.iter().any(|word| word.contains(NODE_PLACEHOLDER)) {
            return Err(TemplateError::NoNode);
        }
        Ok(Self { program, words })
    }

    /// Returns the command for one node, as a person would write it; `{command}` is left as it is.
    pub(super) fn shown(&self, node: &str) -> String {
        let words = [&self.program].into_iter().chain(&self.words);
        let words = words.map(|word| word.replace(NODE_PLACEHOLDER, node));
        let quoted = |word: String| {
            let is_plain =
                !word.is_empty() && !word.contains([' ', '\t', '\'', '"', '\\', '$', '*', ';']);
            if is_plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
        };
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }

    fn words(&self, node: &str, command: &str) -> Vec<OsString> {
        // The name first: nothing in a command line stands for a node.
        let filled = |word: &String| {
            word.replace(NODE_PLACEHOLDER, node).replace(COMMAND_PLACEHOLDER, command).into()
        };
        self.words.iter().map(filled).collect()
    }

    fn has_command_placeholder(&self) -> bool {
        self.words.iter().any(|word| word.contains(COMMAND_PLACEHOLDER))
    }
}

fn split(text: &str) -> Result<Vec<String>, TemplateError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match letter {
            '\'' => loop {
                match letters.next().ok_or(TemplateError::Quote('\''))? {
                    '\'' => break,
                    inside => word.push(inside),
                }
            },
            '"' => loop {
                match letters.next().ok_or(TemplateError::Quote('"'))? {
                    '"' => break,
                    '\\' => match letters.next().ok_or(TemplateError::Quote('"'))? {
                        escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                        other => word.extend(['\\', other]),
                    },
                    inside => word.push(inside),
                }
            },
            '\\' => word.push(letters.next().ok_or(TemplateError::Backslash)?),
            plain => word.push(plain),
        }
    }
    words.extend(word);
    Ok(words)
}

/// How a command is to be run for one node.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExecCall<'a> {
    pub(super) template: &'a ExecTemplate,
    pub(super) node: &'a str,
    pub(super) leash: ParentGuard<'a>,
    /// How long it may take until what runs on the node says something.
    pub(super) limit: Duration,
}

impl ExecCall<'_> {
    /// Starts the command and waits until what runs on the node says something.
    pub(super) async fn open(self, command: &str) -> Result<ProgramSession, Fault> {
        let Self { template, node, leash, limit } = self;
        let local =
            LocalProcess::run(Path::new(&template.program), &template.words(node, command), leash)?;
        let kind = ProgramKind::Command { program: template.program.clone() };
        let mut session = ProgramSession::new(local, kind);
        let opening = async {
            if !template.has_command_placeholder() {
                // A command that has ended already says why by its end.
                session.send(format!("{command}\n").as_bytes()).await.ok();
            }
            session.wait_for_output().await
        };
        Deadline::after(limit).timeout(ConnectPhase::Connection, opening).await??;
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_does_and_expanded_by_none() {
        for (text, words) in [
            ("a {node}", &["a", "N"][..]),
            ("  kubectl exec -i {node} -- sh ", &["kubectl", "exec", "-i", "N", "--", "sh"]),
            ("a 'b c' \"d e\"f {node}.x", &["a", "b c", "d ef", "N.x"]),
            (r#"a b\ c "d\"e\n" 'f\' "" {node}{node}"#, &["a", "b c", "d\"e\\n", "f\\", "", "NN"]),
            ("a $HOME `id` *;~ {node} '{command}'", &["a", "$HOME", "`id`", "*;~", "N", "exec x"]),
        ] {
            let template = ExecTemplate::new(text).unwrap();
            let mut all = vec![OsString::from(&template.program)];
            all.extend(template.words("N", "exec x"));
            assert_eq!(all, words.iter().map(OsString::from).collect::<Vec<_>>(), "{text}");
        }
        assert_eq!(
            ExecTemplate::new("docker exec -i {node} sh -c {command}").unwrap().shown("gpu01"),
            "docker exec -i gpu01 sh -c {command}"
        );
    }

    #[test]
    fn what_is_no_command_is_told() {
        for (text, error) in [
            ("", TemplateError::Empty),
            (" ", TemplateError::Empty),
            ("'' {node}", TemplateError::Empty),
            ("a 'b", TemplateError::Quote('\'')),
            ("a \"b\\", TemplateError::Quote('"')),
            ("a {node} \\", TemplateError::Backslash),
            ("a b", TemplateError::NoNode),
            ("{node}", TemplateError::NoNode),
        ] {
            assert_eq!(ExecTemplate::new(text), Err(error), "{text}");
        }
        assert!(TemplateError::NoNode.to_string().contains("put {node} where"));
    }
}
