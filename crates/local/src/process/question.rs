//! Asks a question with a program, as ssh does with that of `SSH_ASKPASS`.

use std::io;
use std::io::Read as _;
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use tokio::process::Command;
use zeroize::Zeroizing;

use crate::process::{group_leaders, signal_group};

/// Maximum length of an answer.
const MAX_ANSWER_BYTES: usize = 1024;

/// Runs a program with a question as its argument, and returns the first line of its output; `None` if it fails, which
/// is how such programs report that the user has cancelled, or soon after `is_over` becomes true.
///
/// With `is_confirmation`, it is to show buttons instead of an entry.
pub fn run_askpass(
    program: &Path,
    question: &str,
    is_confirmation: bool,
    is_over: &AtomicBool,
) -> io::Result<Option<Zeroizing<String>>> {
    let mut command = Command::new(program);
    command.arg(question).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.process_group(0);
    if is_confirmation {
        command.env("SSH_ASKPASS_PROMPT", "confirm");
    }
    // Held so that `terminate_programs` cannot miss it.
    let mut leaders = group_leaders();
    let mut child = command.into_std().spawn()?;
    let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    leaders.extend(leader);
    drop(leaders);
    let answer = child.stdout.take().map(|stdout| read_answer(stdout, is_over)).transpose();
    if !matches!(answer, Ok(Some(Some(_))))
        && let Some(leader) = leader
    {
        signal_group(leader, Signal::KILL);
    }
    let ended = child.wait();
    group_leaders().retain(|known| Some(*known) != leader);
    let succeeded = ended?.success();
    Ok(answer?.flatten().filter(|_| succeeded))
}

/// Reads to the end; `None` if `is_over` becomes true before, or if there is too much.
fn read_answer(
    mut stdout: ChildStdout,
    is_over: &AtomicBool,
) -> io::Result<Option<Zeroizing<String>>> {
    // Never reallocates, because that would leave a copy in freed memory.
    let mut bytes = Zeroizing::new(vec![0; MAX_ANSWER_BYTES]);
    let mut length = 0;
    let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    loop {
        if is_over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match poll(&mut [PollFd::new(&stdout, PollFlags::IN)], Some(&wait)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let Some(room) = bytes.get_mut(length..).filter(|room| !room.is_empty()) else {
            return Ok(None);
        };
        match stdout.read(room)? {
            0 => break,
            count => length += count,
        }
    }
    let line = bytes.get(..length).unwrap_or_default().split(|byte| *byte == b'\n').next();
    let line = line.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).unwrap_or_default();
    Ok(Some(Zeroizing::new(String::from_utf8_lossy(line).into_owned())))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn ask(script: &str, is_over: bool) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("ask");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let answer = run_askpass(&program, "Code: ", true, &AtomicBool::new(is_over)).unwrap();
        answer.map(|answer| answer.as_str().to_owned())
    }

    #[test]
    fn the_answer_is_the_first_line_of_a_program_that_succeeds() {
        assert_eq!(
            ask("echo \"$1$SSH_ASKPASS_PROMPT\"; echo more", false).unwrap(),
            "Code: confirm"
        );
        assert_eq!(ask("printf 'x\\r\\n'", false).unwrap(), "x");
        assert_eq!(ask("echo wrong; exit 1", false), None);
        assert_eq!(ask("yes", false), None);
        assert_eq!(ask("exec sleep 1000", true), None);
    }
}
