//! The system's `ssh` program as the transport: one process per node.
//!
//! It supports all that the user's ssh does, Kerberos included, at the price of a process. It never prompts: what it
//! would ask is a fault. An open `ControlMaster` connection of the user is used, and none is created. The command of
//! `--exec` is supervised in the same way.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use gtop_local::fault::Fault;
use gtop_local::process::{
    EXIT_NOT_STARTED, Exit, Launch, LocalProcess, NotStarted, Output, OutputTail,
};
use gtop_local::text;
use gtop_model::TransportKind;
use gtop_ssh as ssh;
use gtop_ssh::{ControlMaster, HostQuery, HostSettings, PROGRAM_OPTIONS, SshStderr, parse_stderr};

/// Most bytes of stderr that are kept: the message of a changed host key has fifteen lines.
const MAX_STDERR: usize = 4096;

/// How long after the connect timeout the first output of a program is waited for before it counts as silent.
pub(crate) const FIRST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(10);

/// Exit status of ssh when ssh itself failed, not the command.
const SSH_FAILURE_STATUS: u32 = 255;

/// A call of ssh.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SshCall<'a> {
    pub(crate) query: &'a HostQuery,
    pub(crate) settings: &'a Arc<HostSettings>,
    /// The authentication methods to use; all when empty.
    pub(crate) methods: &'a [String],
    /// Use only this `ControlMaster` connection.
    pub(crate) master: Option<&'a ControlMaster>,
    /// The command uses the terminal that ssh is started in.
    pub(crate) has_terminal: bool,
}

/// A running `ssh`, or the command of `--exec`.
#[derive(Debug)]
pub struct ProgramSession {
    pub(crate) local: LocalProcess,
    /// The first output, until it is read.
    buffered: Option<Output>,
    stderr: OutputTail,
    kind: ProgramKind,
    launched_at: Instant,
    /// The command on the node has written output.
    has_output: bool,
    is_over: bool,
    /// Why it ended, unless the command exited.
    close_fault: Option<Fault>,
}

/// Which program runs, and what is needed to explain its failure.
#[derive(Debug)]
pub(crate) enum ProgramKind {
    /// The ssh program.
    Ssh { typed_name: String, settings: Arc<HostSettings>, connect_timeout: Duration },
    /// The command of `--exec`.
    Command { program: String },
}

impl SshCall<'_> {
    /// Returns the options of ssh; `address` is the one to connect to instead of the name.
    pub(crate) fn options(self, connect_timeout: Duration, address: Option<&str>) -> Vec<OsString> {
        // The first of several options counts.
        let mut args: Vec<OsString> = vec![if self.has_terminal { "-t" } else { "-T" }.into()];
        let seconds = connect_timeout.as_secs_f64().ceil().max(1.0);
        let mut options: Vec<String> =
            PROGRAM_OPTIONS.iter().map(|option| (*option).to_owned()).collect();
        options.extend(self.master.into_iter().flat_map(ControlMaster::options));
        options.push(format!("ConnectTimeout={seconds:.0}"));
        if !self.methods.is_empty() {
            options.push(format!("PreferredAuthentications={}", self.methods.join(",")));
        }
        options.extend(self.settings.command_overrides.iter().map(|option| (*option).to_owned()));
        if let Some(address) = address {
            options.push(format!("HostName={address}"));
            // Its host key is looked up by the name, or by `HostKeyAlias`.
            options.push(format!("HostKeyAlias={}", self.settings.known_hosts_name.full));
        }
        args.extend(options.into_iter().flat_map(|option| ["-o".into(), option.into()]));
        args
    }
}

impl ProgramSession {
    /// Starts a program.
    pub(crate) fn start(launch: Launch<'_>, kind: ProgramKind) -> Result<Self, Fault> {
        Ok(Self {
            local: LocalProcess::launch(launch)?,
            buffered: None,
            stderr: OutputTail::new(MAX_STDERR),
            kind,
            launched_at: Instant::now(),
            has_output: false,
            is_over: false,
            close_fault: None,
        })
    }

    /// Returns how the node is reached.
    pub(crate) fn via(&self) -> TransportKind {
        match self.kind {
            ProgramKind::Ssh { .. } => TransportKind::SshProgram,
            ProgramKind::Command { .. } => TransportKind::Exec,
        }
    }

    /// Returns the end of what the program has printed to stderr.
    pub(crate) fn stderr_text(&self) -> String {
        self.stderr.text()
    }

    /// Returns when the program was started if its command has written nothing.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        (!self.has_output).then_some(self.launched_at)
    }

    /// Waits for the first output of the command, at most for `limit`: a command that starts slowly writes nothing, like
    /// one that is not logged in yet.
    pub(crate) async fn wait_for_output(&mut self, limit: Duration) -> Result<(), Fault> {
        let first = async {
            loop {
                match self.read_next().await {
                    Ok(Output::Stderr(_)) => {}
                    other => return other,
                }
            }
        };
        match timeout(limit, first).await {
            Ok(Ok(output)) => self.buffered = Some(output),
            Ok(Err(Some(fault))) => return Err(fault),
            Ok(Err(None)) | Err(_) => {}
        }
        Ok(())
    }

    /// Waits for the next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Output, Option<Fault>> {
        match self.buffered.take() {
            Some(output) => Ok(output),
            None => self.read_next().await,
        }
    }

    async fn read_next(&mut self) -> Result<Output, Option<Fault>> {
        if self.is_over {
            return Err(self.close_fault.clone());
        }
        self.close_fault = match self.local.next().await {
            Ok(Output::Stderr(bytes)) => {
                self.stderr.push(&bytes);
                return Ok(Output::Stderr(bytes));
            }
            Ok(Output::Stdout(bytes)) => {
                self.has_output = true;
                return Ok(Output::Stdout(bytes));
            }
            Ok(Output::Exit(exit)) => match self.program_fault(&exit) {
                None => return Ok(Output::Exit(exit)),
                fault => fault,
            },
            Err(error) => error.map(|error| ssh::Fault::session_lost(&error).into()),
        };
        self.is_over = true;
        Err(self.close_fault.clone())
    }

    /// Returns the fault of the program itself, or `None` if the command exited.
    fn program_fault(&self, exit: &Exit) -> Option<Fault> {
        let text = self.stderr.text();
        if *exit == Exit::Status(u32::from(EXIT_NOT_STARTED))
            && let Some(error) = NotStarted::from_stderr(&text)
        {
            return Some(error.into());
        }
        match (&self.kind, exit) {
            (
                ProgramKind::Ssh { typed_name, settings, connect_timeout },
                Exit::Status(SSH_FAILURE_STATUS),
            ) => {
                let fault = parse_stderr(&SshStderr {
                    text: &text,
                    typed_name,
                    port: settings.port,
                    user: &settings.user,
                    route: &settings.route,
                    connect_timeout: *connect_timeout,
                });
                Some(fault.into())
            }
            (ProgramKind::Ssh { .. }, Exit::Signal(name)) => {
                let why = format!("the ssh program was killed by SIG{name}");
                Some(ssh::Fault::SessionLost { why }.into())
            }
            (ProgramKind::Ssh { .. }, Exit::Status(_)) => None,
            (ProgramKind::Command { program }, exit) => self.exec_fault(program, exit, &text),
        }
    }

    /// Returns the fault of a `--exec` command. Its exit status may be that of the remote command, so the output
    /// decides.
    fn exec_fault(&self, program: &str, exit: &Exit, stderr: &str) -> Option<Fault> {
        let last_line = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let end = match exit {
            Exit::Status(_) => exit.to_string(),
            Exit::Signal(name) => format!("killed by SIG{name}"),
        };
        let succeeded = *exit == Exit::Status(0);
        if self.has_output && (succeeded || last_line.is_none()) {
            return None;
        }
        let message = last_line.map_or(end, text::excerpt_line);
        Some(Fault::ExecFailed { program: text::excerpt_line(program), message })
    }
}
