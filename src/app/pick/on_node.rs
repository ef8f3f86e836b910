//! Runs the command of `gtop pick --on-node` on the node of the devices, with the terminal, the pipes and the signals of
//! this process.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::thread;

use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::app::env::Env;
use crate::app::line_prompt::NoEcho;
use crate::app::pick::{PickError, become_program};
use crate::app::prompter::Prompter;
use crate::app::{AppError, ExitReason, unless_stopped, variable, watchdog};
use gtop_collect::transport::{AttachedCommand, Target, Transport};
use gtop_local::fault::Fault;
use gtop_local::process::{self, Exit, Output};
use gtop_ssh::{
    self as ssh, CommandSignal, RemoteCommand, RemoteTerminal, SshChannel, TerminalSize,
};
use gtop_ui::{StopReason, StopSignals};

/// Chunks of input that wait to be sent.
const MAX_QUEUED_INPUT: usize = 4;
/// A node that passes no signals on, such as to a command of root, is left after so many of one.
const IGNORED_SIGNALS: u32 = 3;
/// Bytes of input that are read at once.
const CHUNK_SIZE: usize = 16 << 10;

/// Runs the command there; the result is its exit status.
pub(super) fn run(
    env: &mut Env,
    target: &Target,
    command: &[OsString],
    variables: &[(&str, String)],
    (out, err): (&mut impl Write, &mut impl Write),
) -> Result<ExitReason, AppError> {
    let line = remote_line(command, variables);
    let terminal = terminal();
    let remote = RemoteCommand { line: &line, terminal: terminal.as_ref() };
    let mut prompter = env.prompter.take();
    let attaching = attach(&env.transport, prompter.as_mut(), target, remote);
    let node = target.name.label().to_owned();
    let channel = match env.runtime.block_on(attaching)? {
        Ok(AttachedCommand::Running(channel)) => channel,
        Ok(AttachedCommand::Program { program, args }) => {
            let error = become_program(program.as_os_str(), &args, &[]);
            let why = format!("cannot start {}: {error}", program.display());
            return Err(io::Error::new(error.kind(), why).into());
        }
        Err(fault) => return Err(PickError::NotOnNode { node, fault: fault.into() }.into()),
    };
    let _raw = terminal.as_ref().and_then(|_| NoEcho::for_program_elsewhere());
    let exit = env.runtime.block_on(async {
        let exit = forward(&channel, out, err).await;
        channel.shutdown().await;
        exit
    })?;
    match exit {
        Ok(exit) => Ok(ExitReason::Command(exit_code(&exit))),
        Err(fault) => Err(PickError::LostCommand { node, fault: fault.into() }.into()),
    }
}

/// Starts the command. A node may ask for a password or code once more.
async fn attach(
    transport: &Transport,
    prompter: Option<&mut Prompter>,
    target: &Target,
    command: RemoteCommand<'_>,
) -> Result<Result<AttachedCommand, Fault>, AppError> {
    let mut signals = StopSignals::new();
    let prompting = async {
        let Some(prompter) = prompter else { return Ok(()) };
        prompter.open(1);
        prompter.prompt_at_startup().await
    };
    let opening = Box::pin(transport.attach(target, command));
    let opened = async {
        tokio::pin!(opening, prompting);
        tokio::select! {
            opened = &mut opening => return Ok(opened),
            ended = prompting => ended?,
        }
        Ok(opening.await)
    };
    unless_stopped(&mut signals, opened).await?
}

/// Returns the line that makes any login shell run the command with these variables, and with its arguments as they are.
///
/// Login shells differ in what they make of quotes, so the script for `sh` has none: its bytes are those of `printf %b`.
fn remote_line(command: &[OsString], variables: &[(&str, String)]) -> String {
    let mut script = Vec::new();
    for (name, value) in variables {
        script.extend_from_slice(format!("export {name}=").as_bytes());
        push_quoted(&mut script, value.as_bytes());
        script.extend_from_slice(b"; ");
    }
    script.extend_from_slice(b"exec");
    for word in command {
        script.push(b' ');
        push_quoted(&mut script, word.as_bytes());
    }
    let mut line = String::from("exec /bin/sh -c 'eval \"$(printf %b \"");
    for byte in script {
        if byte.is_ascii_alphanumeric() || b" _=:,./-".contains(&byte) {
            line.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            write!(line, "\\0{byte:03o}").ok();
        }
    }
    line.push_str("\")\"'");
    line
}

/// Adds an argument in the quotes of `sh`.
fn push_quoted(script: &mut Vec<u8>, word: &[u8]) {
    script.push(b'\'');
    for byte in word {
        match byte {
            b'\'' => script.extend_from_slice(b"'\\''"),
            byte => script.push(*byte),
        }
    }
    script.push(b'\'');
}

/// Returns true if this process may read its terminal without being stopped.
fn is_in_foreground() -> bool {
    // If this fails, it is not the terminal that controls this process, which then is never stopped by it.
    tcgetpgrp(rustix::stdio::stdin()).map_or(true, |group| group == getpgrp())
}

/// Returns the terminal that the command gets, as `ssh -t` does: if both ends are one.
fn terminal() -> Option<RemoteTerminal> {
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !has_terminal || !is_in_foreground() {
        return None;
    }
    let kind = variable("TERM").unwrap_or_else(|| "dumb".to_owned());
    Some(RemoteTerminal { kind, size: terminal_size()? })
}

fn terminal_size() -> Option<TerminalSize> {
    let size = tcgetwinsize(rustix::stdio::stdin()).ok()?;
    Some(TerminalSize { columns: size.ws_col.into(), rows: size.ws_row.into() })
}

/// Passes input, output, signals and sizes on until the command has ended; returns how.
async fn forward(
    channel: &SshChannel,
    out: &mut impl Write,
    err: &mut impl Write,
) -> io::Result<Result<Exit, Fault>> {
    let mut signals = watchdog::signals_for_command();
    let mut resizes = signal(SignalKind::window_change())?;
    let mut input = read_input()?;
    let sending = async {
        while let Some(bytes) = input.recv().await {
            // The end of the connection is seen where output is read.
            if channel.send(&bytes).await.is_err() {
                return;
            }
        }
        channel.close_stdin().await.ok();
    };
    tokio::pin!(sending);
    let (mut is_sending, mut exit) = (true, None);
    // The last signal, and how often it came in a row.
    let mut passed = ("", 0);
    loop {
        tokio::select! {
            output = channel.next() => match output {
                Ok(Output::Stdout(bytes)) => out.write_all(&bytes).and_then(|()| out.flush())?,
                Ok(Output::Stderr(bytes)) => err.write_all(&bytes).and_then(|()| err.flush())?,
                Ok(Output::Exit(found)) => exit = Some(found),
                Err(None) => return Ok(exit.ok_or_else(without_status)),
                Err(Some(fault)) => return Ok(Err(fault.into())),
            },
            () = &mut sending, if is_sending => is_sending = false,
            Some(reason) = signals.recv() => {
                let Some((passed_on, name)) = signal_of(reason).filter(|(_, name)| !process::was_ignored(name)) else {
                    continue;
                };
                channel.signal(passed_on).await.ok();
                passed = (name, if passed.0 == name { passed.1 + 1 } else { 1 });
                let is_ignored = passed.1 >= IGNORED_SIGNALS;
                if is_ignored {
                    writeln!(err, "gtop: the command may still be running on the node")?;
                }
                if reason == StopReason::HangUp || is_ignored {
                    return Ok(Ok(Exit::Signal(name.to_owned())));
                }
            }
            Some(()) = resizes.recv() => {
                if let Some(size) = terminal_size() {
                    channel.resize(size).await.ok();
                }
            }
        }
    }
}

fn without_status() -> Fault {
    let why = "the node did not report an exit status".to_owned();
    ssh::Fault::SessionLost { why }.into()
}

/// Returns the signal of a command and its name.
const fn signal_of(reason: StopReason) -> Option<(CommandSignal, &'static str)> {
    match reason {
        StopReason::Quit => None,
        StopReason::Interrupted => Some((CommandSignal::Interrupt, "INT")),
        StopReason::Terminated => Some((CommandSignal::Terminate, "TERM")),
        StopReason::Aborted => Some((CommandSignal::Quit, "QUIT")),
        StopReason::HangUp => Some((CommandSignal::HangUp, "HUP")),
    }
}

/// Reads standard input on a thread of its own, which ends with the process: a read from a terminal cannot be stopped.
fn read_input() -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let (sender, input) = mpsc::channel(MAX_QUEUED_INPUT);
    if io::stdin().is_terminal() && !is_in_foreground() {
        return Ok(input);
    }
    thread::Builder::new().name("input".to_owned()).spawn(move || {
        let mut buffer = vec![0; CHUNK_SIZE];
        loop {
            match rustix::io::read(rustix::stdio::stdin(), &mut buffer) {
                Err(Errno::INTR) => {}
                // A terminal that is closed gives an error.
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    let bytes = buffer.get(..count).unwrap_or_default().to_vec();
                    if sender.blocking_send(bytes).is_err() {
                        return;
                    }
                }
            }
        }
    })?;
    Ok(input)
}

/// Returns the exit status of a shell that the command has ended in.
fn exit_code(exit: &Exit) -> u8 {
    match exit {
        Exit::Status(status) => u8::try_from(*status).unwrap_or(PickError::CONNECTION_LOST),
        Exit::Signal(name) => 128 + signal_number(name),
    }
}

/// Returns the number of a signal that SSH names; it has no number for others.
fn signal_number(name: &str) -> u8 {
    match name {
        "HUP" => 1,
        "INT" => 2,
        "QUIT" => 3,
        "ILL" => 4,
        "ABRT" => 6,
        "FPE" => 8,
        "KILL" => 9,
        "USR1" => 10,
        "SEGV" => 11,
        "USR2" => 12,
        "PIPE" => 13,
        "ALRM" => 14,
        "TERM" => 15,
        _ => 127,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// What login shells take for something else.
    const WORDS: [&str; 11] = [
        "plain",
        "",
        "two words",
        "it's",
        "a\\b\\\\c\\0101",
        "$HOME `id` $(id)",
        "!! ^a^b",
        "* ? ~ [a]",
        "line\nline",
        "\"é\"",
        "-n; #",
    ];

    #[test]
    #[expect(clippy::disallowed_methods, reason = "login shells are what the line is for")]
    fn words_and_variables_arrive_as_they_are_in_any_login_shell() {
        let mut command: Vec<OsString> = vec!["printf".into(), "%s|".into(), "--".into()];
        command.splice(2.., WORDS.iter().map(OsString::from));
        let variables = [("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-2".to_owned())];
        let line = remote_line(&command, &variables);
        let printed = remote_line(
            &["sh".into(), "-c".into(), "printf %s \"$CUDA_VISIBLE_DEVICES\"".into()],
            &variables,
        );
        let mut tried = 0;
        for shell in ["sh", "bash", "dash", "zsh", "tcsh", "csh", "fish", "ksh"] {
            let run = |line: &str| {
                let mut command = std::process::Command::new(shell);
                command.args(["-c", line]).stdin(Stdio::null()).output()
            };
            let Ok(output) = run(&line) else { continue };
            let expected = WORDS.join("|") + "|";
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{shell}: {line}");
            assert_eq!(run(&printed).unwrap().stdout, b"GPU-1,GPU-2", "{shell}");
            tried += 1;
        }
        assert!(tried > 1);
    }

    #[test]
    fn exit_statuses_are_those_of_a_shell() {
        for (exit, code) in [
            (Exit::Status(0), 0),
            (Exit::Status(7), 7),
            (Exit::Status(256), 255),
            (Exit::Signal("TERM".to_owned()), 143),
            (Exit::Signal("KILL".to_owned()), 137),
            (Exit::Signal("RT@example".to_owned()), 255),
        ] {
            assert_eq!(exit_code(&exit), code, "{exit}");
        }
    }
}
