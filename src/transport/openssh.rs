//! The system's `ssh` as the way to a node: one long-lived process for each.
//!
//! It does whatever the user's ssh does, hosts behind Kerberos included, at the price of a process.
//! It never asks anything: what it would ask about is a fault. A master connection the user has
//! open is used, and none is made. A command of the user's that leads to a node is watched over
//! likewise.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use crate::model::TransportKind;
use crate::transport::channel::{Exit, Output};
use crate::transport::control_master::ControlMaster;
use crate::transport::dial::Deadline;
use crate::transport::fault::{self, ConnectPhase, Fault};
use crate::transport::openssh_stderr::{self, SshStderr};
use crate::transport::process::{EXIT_NOT_STARTED, LocalProcess, ParentGuard};
use crate::transport::ssh_config::{self, HostQuery, HostSettings};

/// Most of its complaints that are kept: a changed host key takes fifteen lines.
const MAX_STDERR: usize = 4096;

/// What ssh exits with when it was ssh that failed, and not the command.
const SSH_FAILURE_STATUS: u32 = 255;

/// Options that keep ssh to the one thing it is wanted for. The first value of an option counts, so
/// these win over the configuration.
pub(super) const OPTIONS: [&str; 13] = [
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    "ForwardAgent=no",
    "Tunnel=no",
    "PermitLocalCommand=no",
    "RequestTTY=no",
    "ControlMaster=no",
    "EscapeChar=none",
    "Compression=no",
    "NumberOfPasswordPrompts=0",
    // Less would hide why it failed, more would say too much.
    "LogLevel=INFO",
    "VisualHostKey=no",
];

/// What `ClearAllForwardings` takes away.
const CLEARED_FORWARDINGS: [&str; 3] = ["DynamicForward", "LocalForward", "RemoteForward"];

/// Returns whether the ssh program is told something else than an option of the configuration.
pub(super) fn overrides(option: &str) -> bool {
    let command_overrides =
        ssh_config::COMMAND_OVERRIDES.iter().map(|(_, command_overrides)| command_overrides);
    let mut given =
        OPTIONS.iter().chain(command_overrides).filter_map(|given| given.split_once('='));
    given.any(|(name, _)| name == option) || CLEARED_FORWARDINGS.contains(&option)
}

/// How ssh is to be called.
#[derive(Debug, Clone, Copy)]
pub(super) struct SshCall<'a> {
    pub(super) program: &'a Path,
    pub(super) leash: ParentGuard<'a>,
    pub(super) query: &'a HostQuery,
    pub(super) settings: &'a HostSettings,
    /// The configuration file, as `-F`.
    pub(super) file: Option<&'a Path>,
    pub(super) connect_limit: Duration,
    /// How long all of it may take until the command says something.
    pub(super) limit: Duration,
    /// The methods that may be used to log in; all when empty.
    pub(super) methods: &'a [String],
    /// The only connection to use, rather than one of its own.
    pub(super) master: Option<&'a ControlMaster>,
    /// Where to connect to in place of the name.
    pub(super) elsewhere: Option<&'a str>,
}

/// A running `ssh`, or another program that leads to a node.
#[derive(Debug)]
pub(super) struct ProgramSession {
    local: LocalProcess,
    /// Output that came while it was waited for the first.
    buffered: VecDeque<Output>,
    complaint: Vec<u8>,
    kind: ProgramKind,
    /// What runs on the node has said something.
    has_spoken: bool,
    /// Nothing more will come.
    is_over: bool,
    /// Why, when it was not the command's own end.
    close_fault: Option<Box<Fault>>,
}

/// Which program it is that may fail, and what is needed to say why.
#[derive(Debug)]
pub(super) enum ProgramKind {
    /// The ssh program.
    Ssh { typed: String, port: u16, user: String, connect_limit: Duration },
    /// A command of the user's.
    Command { program: String },
}

impl SshCall<'_> {
    /// Starts ssh and waits until the command says something: ssh does not tell when it is in.
    pub(super) async fn open(self, command: &str) -> Result<ProgramSession, Fault> {
        let limit = Deadline::after(self.limit);
        limit.timeout(ConnectPhase::Login, self.start(command)).await?
    }

    async fn start(self, command: &str) -> Result<ProgramSession, Fault> {
        let words = self.words(command);
        let kind = ProgramKind::Ssh {
            typed: self.query.host.clone(),
            port: self.settings.port,
            user: self.settings.user.clone(),
            connect_limit: self.connect_limit,
        };
        let mut session =
            ProgramSession::new(LocalProcess::run(self.program, &words, self.leash)?, kind);
        session.wait_for_output().await.map(|()| session)
    }

    fn words(self, command: &str) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec!["-T".into()];
        let seconds = self.connect_limit.as_secs_f64().ceil().max(1.0);
        let mut options: Vec<String> = OPTIONS.iter().map(|option| (*option).to_owned()).collect();
        options.extend(self.master.into_iter().flat_map(ControlMaster::options));
        options.push(format!("ConnectTimeout={seconds:.0}"));
        if !self.methods.is_empty() {
            options.push(format!("PreferredAuthentications={}", self.methods.join(",")));
        }
        options.extend(self.settings.command_overrides.iter().map(|option| (*option).to_owned()));
        if let Some(address) = self.elsewhere {
            options.push(format!("HostName={address}"));
            // Its key is known by its name, or by what the configuration calls it.
            options.push(format!("HostKeyAlias={}", self.settings.known_hosts_name.full));
        }
        words.extend(options.into_iter().flat_map(|option| ["-o".into(), option.into()]));
        words.extend(self.query.place(self.file));
        words.push(command.into());
        words
    }
}

impl ProgramSession {
    pub(super) fn new(local: LocalProcess, kind: ProgramKind) -> Self {
        Self {
            local,
            buffered: VecDeque::new(),
            complaint: Vec::new(),
            kind,
            has_spoken: false,
            is_over: false,
            close_fault: None,
        }
    }

    /// Returns how the node is reached.
    pub(super) fn via(&self) -> TransportKind {
        match self.kind {
            ProgramKind::Ssh { .. } => TransportKind::SshProgram,
            ProgramKind::Command { .. } => TransportKind::Exec,
        }
    }

    /// Waits for the first output of the command.
    pub(super) async fn wait_for_output(&mut self) -> Result<(), Fault> {
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

    /// Waits for what comes next. Nothing is lost when the wait is given up.
    pub(super) async fn next(&mut self) -> Output {
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
                self.complaint.extend(bytes);
                let surplus = self.complaint.len().saturating_sub(MAX_STDERR);
                self.complaint.drain(..surplus);
                return output;
            }
            Output::Exit(exit) => self.close_fault = self.program_fault(exit).map(Box::new),
            Output::Closed(fault) => self.close_fault.clone_from(fault),
            Output::Stdout(_) => {
                self.has_spoken = true;
                return output;
            }
        }
        let is_of_the_command = matches!(output, Output::Exit(_)) && self.close_fault.is_none();
        if is_of_the_command {
            return output;
        }
        self.is_over = true;
        Output::Closed(self.close_fault.clone())
    }

    /// Returns why the program itself failed, when it was not the command that ended so.
    fn program_fault(&self, exit: &Exit) -> Option<Fault> {
        if *exit == Exit::Status(u32::from(EXIT_NOT_STARTED))
            && let Some(fault) = self.not_started()
        {
            return Some(fault);
        }
        match (&self.kind, exit) {
            (
                ProgramKind::Ssh { typed, port, user, connect_limit },
                Exit::Status(SSH_FAILURE_STATUS),
            ) => {
                let (text, limit) = (&self.words(), *connect_limit);
                Some(openssh_stderr::parse_fault(&SshStderr {
                    text,
                    typed,
                    port: *port,
                    user,
                    limit,
                }))
            }
            (ProgramKind::Ssh { .. }, Exit::Signal(name)) => {
                let why = format!("the ssh program was ended by SIG{name}");
                Some(Fault::SessionLost { why })
            }
            (ProgramKind::Ssh { .. }, Exit::Status(_)) => None,
            (ProgramKind::Command { program }, exit) => self.exec_fault(program, exit),
        }
    }

    /// Nobody can tell the end of such a command from that of what it ran, but for what was said.
    fn exec_fault(&self, program: &str, exit: &Exit) -> Option<Fault> {
        let words = self.words();
        let last = words.lines().rev().map(str::trim).find(|line| !line.is_empty());
        let end = match exit {
            Exit::Status(status) => format!("exit status {status}"),
            Exit::Signal(name) => format!("ended by SIG{name}"),
        };
        let is_well = *exit == Exit::Status(0);
        if self.has_spoken && (is_well || last.is_none()) {
            return None;
        }
        let says = last.map_or(end, fault::sanitize_line);
        Some(Fault::ExecFailed { program: fault::sanitize_line(program), says })
    }

    fn words(&self) -> String {
        String::from_utf8_lossy(&self.complaint).into_owned()
    }

    /// The leash could not become ssh.
    fn not_started(&self) -> Option<Fault> {
        let words = self.words();
        let line = words.lines().find_map(|line| line.strip_prefix("gtop: cannot start "))?;
        let (program, why) = line.rsplit_once(": ")?;
        Some(Fault::ProgramNotFound {
            program: fault::sanitize_line(program),
            why: fault::sanitize_line(why),
        })
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.local.send(bytes).await
    }

    pub(super) fn close_stdin(&mut self) {
        self.local.close_stdin();
    }

    pub(super) async fn shutdown(self) {
        self.local.shutdown().await;
    }
}
