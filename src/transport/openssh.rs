//! The system's `ssh` program as the transport: one process per node.
//!
//! It supports all that the user's ssh does, Kerberos included, at the price of a process. It never prompts: what it
//! would ask is a fault. An open `ControlMaster` connection of the user is used, and none is created. The command of
//! `--exec` is supervised in the same way.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::model::TransportKind;
use crate::ssh::config::{HostQuery, HostSettings};
use crate::ssh::deadline::Deadline;
use crate::ssh::fault::{self, ConnectPhase, Fault};
use crate::ssh::output::{Exit, Output};
use crate::ssh::process::{EXIT_NOT_STARTED, LocalProcess, ParentGuard};
use crate::ssh::program::OPTIONS;
use crate::ssh::program::control_master::ControlMaster;
use crate::ssh::program::stderr::{self, SshStderr};

/// Most bytes of stderr that are kept: the message of a changed host key has fifteen lines.
const MAX_STDERR: usize = 4096;

/// Exit status of ssh when ssh itself failed, not the command.
const SSH_FAILURE_STATUS: u32 = 255;

/// A call of ssh.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SshCall<'a> {
    pub(crate) program: &'a Path,
    pub(crate) parent_guard: ParentGuard<'a>,
    pub(crate) query: &'a HostQuery,
    pub(crate) settings: &'a HostSettings,
    /// The configuration file, as `-F`.
    pub(crate) file: Option<&'a Path>,
    pub(crate) connect_timeout: Duration,
    /// Timeout until the first output of the command.
    pub(crate) output_timeout: Duration,
    /// The authentication methods to use; all when empty.
    pub(crate) methods: &'a [String],
    /// Use only this `ControlMaster` connection.
    pub(crate) master: Option<&'a ControlMaster>,
    /// The address to connect to instead of the name.
    pub(crate) address_override: Option<&'a str>,
}

/// A running `ssh`, or the command of `--exec`.
#[derive(Debug)]
pub(crate) struct ProgramSession {
    local: LocalProcess,
    /// Output received while waiting for the first output.
    buffered: VecDeque<Output>,
    stderr: Vec<u8>,
    kind: ProgramKind,
    /// The command on the node has written output.
    has_output: bool,
    is_over: bool,
    /// Why it closed, unless the command exited.
    close_fault: Option<Box<Fault>>,
}

/// Which program runs, and what is needed to explain its failure.
#[derive(Debug)]
pub(crate) enum ProgramKind {
    /// The ssh program.
    Ssh { typed_name: String, port: u16, user: String, connect_timeout: Duration },
    /// The command of `--exec`.
    Command { program: String },
}

impl SshCall<'_> {
    /// Starts ssh and waits for the first output of the command: ssh does not report a successful login.
    pub(crate) async fn open(self, command: &str) -> Result<ProgramSession, Fault> {
        let deadline = Deadline::after(self.output_timeout);
        deadline.timeout(ConnectPhase::Login, self.start(command)).await?
    }

    async fn start(self, command: &str) -> Result<ProgramSession, Fault> {
        let args = self.args(command);
        let kind = ProgramKind::Ssh {
            typed_name: self.query.host.clone(),
            port: self.settings.port,
            user: self.settings.user.clone(),
            connect_timeout: self.connect_timeout,
        };
        let mut session =
            ProgramSession::new(LocalProcess::run(self.program, &args, self.parent_guard)?, kind);
        session.wait_for_output().await.map(|()| session)
    }

    fn args(self, command: &str) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["-T".into()];
        let seconds = self.connect_timeout.as_secs_f64().ceil().max(1.0);
        let mut options: Vec<String> = OPTIONS.iter().map(|option| (*option).to_owned()).collect();
        options.extend(self.master.into_iter().flat_map(ControlMaster::options));
        options.push(format!("ConnectTimeout={seconds:.0}"));
        if !self.methods.is_empty() {
            options.push(format!("PreferredAuthentications={}", self.methods.join(",")));
        }
        options.extend(self.settings.command_overrides.iter().map(|option| (*option).to_owned()));
        if let Some(address) = self.address_override {
            options.push(format!("HostName={address}"));
            // Its host key is looked up by the name, or by `HostKeyAlias`.
            options.push(format!("HostKeyAlias={}", self.settings.known_hosts_name.full));
        }
        args.extend(options.into_iter().flat_map(|option| ["-o".into(), option.into()]));
        args.extend(self.query.destination_args(self.file));
        args.push(command.into());
        args
    }
}

impl ProgramSession {
    pub(crate) fn new(local: LocalProcess, kind: ProgramKind) -> Self {
        Self {
            local,
            buffered: VecDeque::new(),
            stderr: Vec::new(),
            kind,
            has_output: false,
            is_over: false,
            close_fault: None,
        }
    }

    /// Returns how the node is reached.
    pub(crate) fn via(&self) -> TransportKind {
        match self.kind {
            ProgramKind::Ssh { .. } => TransportKind::SshProgram,
            ProgramKind::Command { .. } => TransportKind::Exec,
        }
    }

    /// Waits for the first output of the command.
    pub(crate) async fn wait_for_output(&mut self) -> Result<(), Fault> {
        loop {
            let output = self.read_next().await;
            match output {
                Output::Stderr(_) => continue,
                Output::Closed(Some(fault)) => return Err(*fault),
                Output::Stdout(_) | Output::Exit(_) | Output::Closed(None) => {}
            }
            self.buffered.push_back(output);
            return Ok(());
        }
    }

    /// Waits for the next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Output {
        match self.buffered.pop_front() {
            Some(output) => output,
            None => self.read_next().await,
        }
    }

    async fn read_next(&mut self) -> Output {
        if self.is_over {
            return Output::Closed(self.close_fault.clone());
        }
        let output = self.local.next().await;
        match &output {
            Output::Stderr(bytes) => {
                self.stderr.extend(bytes);
                let surplus = self.stderr.len().saturating_sub(MAX_STDERR);
                self.stderr.drain(..surplus);
                return output;
            }
            Output::Exit(exit) => self.close_fault = self.program_fault(exit).map(Box::new),
            Output::Closed(fault) => self.close_fault.clone_from(fault),
            Output::Stdout(_) => {
                self.has_output = true;
                return output;
            }
        }
        let is_command_exit = matches!(output, Output::Exit(_)) && self.close_fault.is_none();
        if is_command_exit {
            return output;
        }
        self.is_over = true;
        Output::Closed(self.close_fault.clone())
    }

    /// Returns the fault of the program itself, or `None` if the command exited.
    fn program_fault(&self, exit: &Exit) -> Option<Fault> {
        if *exit == Exit::Status(u32::from(EXIT_NOT_STARTED))
            && let Some(fault) = self.not_started_fault()
        {
            return Some(fault);
        }
        match (&self.kind, exit) {
            (
                ProgramKind::Ssh { typed_name, port, user, connect_timeout },
                Exit::Status(SSH_FAILURE_STATUS),
            ) => {
                let text = &self.stderr_text();
                Some(stderr::parse_fault(&SshStderr {
                    text,
                    typed_name,
                    port: *port,
                    user,
                    connect_timeout: *connect_timeout,
                }))
            }
            (ProgramKind::Ssh { .. }, Exit::Signal(name)) => {
                let why = format!("the ssh program was killed by SIG{name}");
                Some(Fault::SessionLost { why })
            }
            (ProgramKind::Ssh { .. }, Exit::Status(_)) => None,
            (ProgramKind::Command { program }, exit) => self.exec_fault(program, exit),
        }
    }

    /// Returns the fault of a `--exec` command. Its exit status may be that of the remote command, so the output
    /// decides.
    fn exec_fault(&self, program: &str, exit: &Exit) -> Option<Fault> {
        let stderr = self.stderr_text();
        let last_line = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let end = match exit {
            Exit::Status(status) => format!("exit status {status}"),
            Exit::Signal(name) => format!("killed by SIG{name}"),
        };
        let succeeded = *exit == Exit::Status(0);
        if self.has_output && (succeeded || last_line.is_none()) {
            return None;
        }
        let message = last_line.map_or(end, fault::sanitize_line);
        Some(Fault::ExecFailed { program: fault::sanitize_line(program), message })
    }

    fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Returns the fault if the parent guard could not execute the program.
    fn not_started_fault(&self) -> Option<Fault> {
        let stderr = self.stderr_text();
        let line = stderr.lines().find_map(|line| line.strip_prefix("gtop: cannot start "))?;
        let (program, why) = line.rsplit_once(": ")?;
        Some(Fault::ProgramNotFound {
            program: fault::sanitize_line(program),
            why: fault::sanitize_line(why),
        })
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.local.send(bytes).await
    }

    pub(crate) fn close_stdin(&mut self) {
        self.local.close_stdin();
    }

    pub(crate) async fn shutdown(self) {
        self.local.shutdown().await;
    }
}
