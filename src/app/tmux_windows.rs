//! Opens the output of a run in a window of tmux: `tail` follows its files there, on their host.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::app::CommandError;
use gtop_collect::inventory::Roster;
use gtop_collect::transport::{Reach, Transport};
use gtop_fleet::advice::shell_quoted;
use gtop_local::process::{ProgramCall, ProgramError, run_program};
use gtop_local::text::sanitize;
use gtop_model::{NodeName, OutputFile};
use gtop_ssh::SshTarget;

/// Maximum time for tmux to open a window.
const WINDOW_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a window's name.
const MAX_NAME: usize = 30;
/// Lines of each output that a window begins with.
const LINES: usize = 1_000;

/// gtop does not run in tmux.
#[derive(Debug, thiserror::Error)]
#[error("--tmux opens windows of tmux, in which gtop does not run here; start tmux first")]
pub(super) struct NoTmux;

impl CommandError for NoTmux {}

/// Opens windows. Cheap to clone.
#[derive(Clone)]
pub(super) struct TmuxWindows {
    transport: Transport,
    rosters: watch::Receiver<Arc<Roster>>,
}

impl TmuxWindows {
    /// Returns an error where gtop does not run in tmux; `socket` is the variable that tmux sets.
    pub(super) fn new(
        transport: Transport,
        rosters: watch::Receiver<Arc<Roster>>,
        socket: Option<&str>,
    ) -> Result<Self, NoTmux> {
        match socket {
            Some(socket) if !socket.is_empty() => Ok(Self { transport, rosters }),
            Some(_) | None => Err(NoTmux),
        }
    }

    /// Opens a window for the outputs of a run, which are on a node.
    pub(super) async fn open(
        &self,
        title: &str,
        node: &NodeName,
        files: &[Result<OutputFile, Arc<str>>; 2],
    ) -> Result<(), String> {
        let tail = tail_command(files)?;
        let command = match self.login(node)? {
            Some(login) => format!("{} {}", ssh_command(&login), shell_quoted(&tail)),
            None => tail,
        };
        // A window whose program fails would close before its message is read.
        let command = format!("{command} || read -r _");
        let name = window_name(title);
        let words = ["new-window", "-n", &name, "sh", "-c", &command];
        let args = words.map(OsString::from);
        let call = ProgramCall {
            program: Path::new("tmux"),
            args: &args,
            input: "",
            env: &[],
            hides: |_variable| false,
            timeout: WINDOW_TIMEOUT,
            max_stdout: 1_000,
        };
        match run_program(call).await {
            Ok(answer) if answer.succeeded => Ok(()),
            Ok(answer) => {
                Err(format!("tmux cannot open a window: {}", sanitize(&answer.stderr, 200)))
            }
            Err(ProgramError::NotFound) => Err("tmux was not found".to_owned()),
            Err(ProgramError::NotStarted(reason)) => Err(format!("tmux: {reason}")),
            Err(ProgramError::TimedOut(_)) => Err("tmux does not answer".to_owned()),
        }
    }

    /// Returns how `ssh` reaches a node; `None` for this machine.
    fn login(&self, node: &NodeName) -> Result<Option<SshTarget>, String> {
        let roster = Arc::clone(&self.rosters.borrow());
        let target = roster.targets.iter().find(|target| target.name == *node);
        let target = target.ok_or_else(|| format!("{node} is no longer watched"))?;
        if target.reach == Reach::Local {
            return Ok(None);
        }
        let reached = self.transport.ssh_client(target).map(|(_, login)| Some(login));
        reached.map_err(|_fault| format!("the output is on {node}, which ssh does not reach"))
    }
}

/// Returns the command that follows the outputs.
fn tail_command(files: &[Result<OutputFile, Arc<str>>; 2]) -> Result<String, String> {
    let mut paths: Vec<&str> = Vec::new();
    let mut reason = "its output has been deleted";
    for file in files {
        match file {
            Ok(file) if !file.is_deleted && !paths.contains(&&*file.path) => paths.push(&file.path),
            Ok(_) => {}
            Err(why) => reason = why,
        }
    }
    if paths.is_empty() {
        return Err(reason.to_owned());
    }
    let words = paths.iter().map(|path| format!(" {}", shell_quoted(path)));
    Ok(format!("tail -n {LINES} -F --{}", words.collect::<String>()))
}

fn ssh_command(login: &SshTarget) -> String {
    let port = login.port.map_or_else(String::new, |port| format!(" -p {port}"));
    let user = login.user.as_deref();
    let user = user.map_or_else(String::new, |user| format!(" -l {}", shell_quoted(user)));
    format!("ssh -t{port}{user} -- {}", shell_quoted(&login.host))
}

/// Returns the title of a run as tmux shows it; tmux runs the programs that formats such as `#(reboot)` name.
fn window_name(title: &str) -> String {
    title.chars().map(plain_letter).take(MAX_NAME).collect()
}

/// Returns letters, digits and `._-` as they are, and `_` for all others.
pub(super) fn plain_letter(letter: char) -> char {
    if letter.is_alphanumeric() || "._-".contains(letter) { letter } else { '_' }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::OutputId;
    use gtop_ssh::Profile;

    fn file(path: &str, is_deleted: bool) -> OutputFile {
        OutputFile {
            output: OutputId { session: 0, handle: 1 },
            path: path.into(),
            size: 1,
            identity: "1:2".into(),
            written_at: 1.0,
            is_deleted,
        }
    }

    #[test]
    fn outputs_are_quoted_and_named_once() {
        let why = || Err(Arc::from("a pipe"));
        for (files, expected) in [
            ([Ok(file("/a b", false)), why()], Ok("tail -n 1000 -F -- '/a b'")),
            (
                [Ok(file("/o", false)), Ok(file("/e'$(x)", false))],
                Ok(r"tail -n 1000 -F -- /o '/e'\''$(x)'"),
            ),
            ([Ok(file("/o", false)), Ok(file("/o", false))], Ok("tail -n 1000 -F -- /o")),
            ([Ok(file("/o", true)), Ok(file("/e", false))], Ok("tail -n 1000 -F -- /e")),
            ([Ok(file("/o", true)), Ok(file("/e", true))], Err("its output has been deleted")),
            ([why(), why()], Err("a pipe")),
        ] {
            let found = tail_command(&files);
            assert_eq!(found.as_deref().map_err(String::as_str), expected);
        }
    }

    #[test]
    fn a_remote_output_is_followed_by_ssh() {
        let login = |user: Option<&str>, port| SshTarget {
            host: "gpu01".to_owned(),
            user: user.map(str::to_owned),
            port,
            profile: Profile::System,
        };
        assert_eq!(ssh_command(&login(None, None)), "ssh -t -- gpu01");
        assert_eq!(ssh_command(&login(Some("a b"), Some(22))), "ssh -t -p 22 -l 'a b' -- gpu01");
    }

    #[test]
    fn a_title_cannot_make_tmux_run_a_program() {
        assert_eq!(window_name("run_1.a-b#(touch x);"), "run_1.a-b__touch_x__");
        assert_eq!(window_name(&"x".repeat(100)).len(), MAX_NAME);
    }
}
