//! A user-supplied command as the transport (`--exec`): `kubectl exec -i {node} -- sh`.
//!
//! The command is split into arguments here and never passed to a local shell. What runs on the node replaces
//! `{command}` in the arguments; without `{command}` it is the first line written to stdin, so the command must
//! pass on stdin and start a shell.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tokio::time::timeout;

use crate::transport::Transport;
use crate::transport::openssh::{FIRST_OUTPUT_TIMEOUT, ProgramKind, ProgramSession};
use gtop_local::fault::Fault;
use gtop_local::process::Launch;
use gtop_ssh::{ConnectEvent, ConnectPhase, DEFAULT_CONNECT_TIMEOUT, record_event};

/// Replaced by the node name.
const NODE_PLACEHOLDER: &str = "{node}";

/// Replaced by the command line to run on the node.
const COMMAND_PLACEHOLDER: &str = "{command}";

/// A command of `--exec`, split into a program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecTemplate {
    program: String,
    args: Vec<String>,
}

/// Why a command is not a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It is empty.
    #[error("--exec needs a command, such as 'kubectl exec -i {{node}} -- sh'")]
    Empty,
    /// It has an unclosed quote.
    #[error("--exec has an unclosed {0}")]
    Quote(char),
    /// It ends with a backslash.
    #[error("--exec ends with a lone backslash")]
    Backslash,
    /// It lacks `{node}`.
    #[error("--exec lacks {{node}}; put {{node}} where the node name belongs")]
    NoNode,
}

impl ExecTemplate {
    /// Splits a command at spaces, with quotes and backslashes as in a shell. Nothing else is special.
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
        Ok(Self { program, args: words })
    }

    /// Returns the command for one node, quoted for display; `{command}` is not replaced.
    pub(crate) fn command_text(&self, node: &str) -> String {
        let words = [&self.program].into_iter().chain(&self.args).map(|word| {
            let word = word.replace(NODE_PLACEHOLDER, node);
            let is_plain =
                !word.is_empty() && !word.contains([' ', '\t', '\'', '"', '\\', '$', '*', ';']);
            if is_plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
        });
        words.collect::<Vec<_>>().join(" ")
    }

    fn args(&self, node: &str, command: &str) -> Vec<OsString> {
        // The node name first: the command line must not be searched for `{node}`.
        let words = self.args.iter().map(|word| word.replace(NODE_PLACEHOLDER, node));
        words.map(|word| word.replace(COMMAND_PLACEHOLDER, command).into()).collect()
    }

    /// Returns the program that runs a command line on a node with its own input, and its arguments; `None` without
    /// `{command}`.
    pub(crate) fn command(&self, node: &str, line: &str) -> Option<(PathBuf, Vec<OsString>)> {
        self.has_command_placeholder()
            .then(|| (PathBuf::from(&self.program), self.args(node, line)))
    }

    fn has_command_placeholder(&self) -> bool {
        self.args.iter().any(|word| word.contains(COMMAND_PLACEHOLDER))
    }
}

fn split(text: &str) -> Result<Vec<String>, TemplateError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match c {
            '\'' => loop {
                match chars.next().ok_or(TemplateError::Quote('\''))? {
                    '\'' => break,
                    inside => word.push(inside),
                }
            },
            '"' => loop {
                match chars.next().ok_or(TemplateError::Quote('"'))? {
                    '"' => break,
                    '\\' => match chars.next().ok_or(TemplateError::Quote('"'))? {
                        escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                        other => word.extend(['\\', other]),
                    },
                    inside => word.push(inside),
                }
            },
            '\\' => word.push(chars.next().ok_or(TemplateError::Backslash)?),
            plain => word.push(plain),
        }
    }
    words.extend(word);
    Ok(words)
}

impl Transport {
    /// Starts a command on a node with the command of `--exec`, and waits for the first output for a while.
    pub(crate) async fn open_exec(
        &self,
        template: &ExecTemplate,
        node: &str,
        command: &str,
        mut on_phase: impl FnMut(ConnectPhase),
    ) -> Result<ProgramSession, Fault> {
        on_phase(ConnectPhase::Connection);
        record_event(|| ConnectEvent::Delegated {
            to: "exec command",
            what: template.command_text(node),
        });
        let options = &self.0.options.ssh;
        let (program, args) = (Path::new(&template.program), template.args(node, command));
        let parent_guard = options.parent_guard.as_deref();
        let launch = Launch { program, args: &args, parent_guard, hides: |_| false, env: &[] };
        let kind = ProgramKind::Command { program: template.program.clone() };
        let mut session = ProgramSession::start(launch, kind)?;
        if !template.has_command_placeholder() {
            // A command that has exited already reports that by its exit status.
            let line = format!("{command}\n");
            timeout(FIRST_OUTPUT_TIMEOUT, session.local.send(line.as_bytes())).await.ok();
        }
        let connect_timeout = options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT);
        Box::pin(session.wait_for_output(connect_timeout + FIRST_OUTPUT_TIMEOUT)).await?;
        Ok(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_like_in_a_shell_without_expansion() {
        for (text, words) in [
            ("a {node}", &["a", "N"][..]),
            ("  kubectl exec -i {node} -- sh ", &["kubectl", "exec", "-i", "N", "--", "sh"]),
            ("a 'b c' \"d e\"f {node}.x", &["a", "b c", "d ef", "N.x"]),
            (r#"a b\ c "d\"e\n" 'f\' "" {node}{node}"#, &["a", "b c", "d\"e\\n", "f\\", "", "NN"]),
            ("a $HOME `id` *;~ {node} '{command}'", &["a", "$HOME", "`id`", "*;~", "N", "exec x"]),
        ] {
            let template = ExecTemplate::new(text).unwrap();
            let mut all = vec![OsString::from(&template.program)];
            all.extend(template.args("N", "exec x"));
            assert_eq!(all, words.iter().map(OsString::from).collect::<Vec<_>>(), "{text}");
        }
        assert_eq!(
            ExecTemplate::new("docker exec -i {node} sh -c {command}")
                .unwrap()
                .command_text("gpu01"),
            "docker exec -i gpu01 sh -c {command}"
        );
    }

    #[test]
    fn an_invalid_command_is_reported() {
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
