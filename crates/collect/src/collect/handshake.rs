//! Opens a session step by step: connect, wait for the loader, read the probe's hello.
//!
//! Sessions and `gtop doctor` use it.

use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::time::timeout;

use crate::collect::fault::{close_fault, exit_fault, from_transport, loader_fault};
use crate::collect::login_shell::{LoginShell, OnSlowShell, ShellHistory, ShellLimits};
use crate::collect::stderr::StderrTail;
use crate::probe::{self, Interpreter, ProbeSettings, ProbeSource, Script};
use crate::transport::{self, Channel, StepScript, Target, Transport};
use crate::wire::{Body, Frame, FrameReader, Received, address_of};
use gtop_local::fault::LoaderCause;
use gtop_local::process::Output;
use gtop_local::text::sanitize;
use gtop_model::{Fault, FaultKind, NodeName, Privilege, SudoRefusal, TransportKind};

/// Time for the probe's first frame; Python on a slow file system takes seconds.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);

/// How a probe is to start.
#[derive(Clone, Copy, Debug)]
pub struct ProbeStart {
    pub interval: Duration,
    pub privilege: Privilege,
    /// Why it was not started as root before, although that is wanted.
    pub sudo_refusal: Option<SudoRefusal>,
}

impl ProbeStart {
    /// Returns the script of a step that several nodes share.
    fn step_script(self, nonce: &str) -> StepScript {
        let is_root = self.privilege != Privilege::Login;
        let refusal = if is_root { Some(SudoRefusal::Step) } else { self.sudo_refusal };
        let probe::SharedProbe { nonce, script, input } =
            probe::shared_probe(nonce, self.interval, refusal);
        StepScript { nonce, script, input, address_of }
    }
}

/// Why no loader waits for the probe.
#[derive(Debug)]
pub enum LoaderError {
    Fault(Fault),
    /// The login works, and no loader was started as root: why, with what was printed.
    SudoRefused(SudoRefusal, String),
}

impl From<Fault> for LoaderError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// A node that is connected and was sent the loader.
#[derive(Debug)]
pub struct Handshake {
    node: NodeName,
    nonce: String,
    start: ProbeStart,
    pub(super) channel: Channel,
    pub(super) reader: FrameReader,
    pub(super) shell: LoginShell,
}

impl Handshake {
    /// Connects to a node and has its login shell start the loader.
    pub async fn start(
        transport: &Transport,
        target: &Target,
        start: ProbeStart,
    ) -> Result<Self, transport::Fault> {
        let nonce = nonce();
        let node = target.name.clone();
        let step_script = || start.step_script(&nonce);
        let line = match start.privilege {
            Privilege::Login => probe::launch_line(&nonce, Script::Python.size()),
            Privilege::Root { allows_signals } => probe::root_launch_line(&nonce, allows_signals),
        };
        let channel = transport
            .open_probe(target, &line, &step_script, |step| log::debug!("{node}: {step}"))
            .await?;
        // The loaders of a shared step announce themselves with the nonce of the step.
        let nonce = channel.step_nonce().map_or_else(|| nonce.clone(), str::to_owned);
        let is_root = start.privilege != Privilege::Login && channel.step_nonce().is_none();
        let via = channel.via();
        let shell =
            if is_root { LoginShell::of_root(&nonce, via) } else { LoginShell::new(&nonce, via) };
        Ok(Self { node, shell, nonce, start, channel, reader: FrameReader::default() })
    }

    /// Waits until the loader announces itself; returns the interpreter that will run the probe.
    pub async fn await_loader(
        &mut self,
        limits: ShellLimits,
        on_slow: OnSlowShell<'_>,
    ) -> Result<Interpreter, LoaderError> {
        let announced = match self.channel.wait_until_overdue() {
            Some(overdue) => tokio::select! {
                biased;
                announced = self.shell.await_announcement(&mut self.channel) => announced,
                () = overdue => return Err(from_transport(&transport::Fault::not_joined()).into()),
            },
            None => self.shell.await_loader(&mut self.channel, limits, on_slow).await,
        };
        let (interpreter, rest) = announced.map_err(|fault| self.sudo_refusal(fault))?;
        if self.is_root() && interpreter == Interpreter::Shell {
            let refusal = SudoRefusal::Python;
            return Err(LoaderError::SudoRefused(refusal, refusal.text().to_owned()));
        }
        self.reader.push(rest);
        Ok(interpreter)
    }

    /// Returns true if the loader is started as root; a step of a job cannot do that.
    fn is_root(&self) -> bool {
        self.start.privilege != Privilege::Login && self.channel.step_nonce().is_none()
    }

    /// Returns where the login shell began to start sudo, in what it printed.
    fn sudo_mark_at(&self) -> Option<usize> {
        let mark = format!("\n{}\n", probe::sudo_mark(&self.nonce)).into_bytes();
        self.shell.noise().windows(mark.len()).position(|window| window == mark)
    }

    /// Returns the refusal of sudo if the session ended after the login shell had started it.
    fn sudo_refusal(&self, fault: Fault) -> LoaderError {
        if self.sudo_mark_at().is_none() {
            return fault.into();
        }
        let output = fault.detail.rsplit(&probe::sudo_mark(&self.nonce)).next().unwrap_or_default();
        let output = output.rsplit("after: ").next().unwrap_or_default().trim().to_owned();
        let refusal = SudoRefusal::of_output(&output);
        // The connection may also be lost meanwhile.
        if refusal == SudoRefusal::Failed && fault.kind != FaultKind::NoInterpreter {
            return fault.into();
        }
        LoaderError::SudoRefused(refusal, output)
    }

    /// Waits until the login shell has ended or the channel is closed.
    pub(super) async fn wait_until_closed(&mut self) {
        while self.channel.next().await.is_ok() {}
    }

    /// Sends the probe and waits for its hello.
    pub async fn start_probe(&mut self, interpreter: Interpreter) -> Result<Box<Frame>, Fault> {
        // Not before the announcement: a shell would run the source as commands. A shared step sends the source to all
        // of its nodes itself.
        if self.channel.step_nonce().is_none() {
            let settings = ProbeSettings {
                interval: self.start.interval,
                sudo_refusal: self.start.sudo_refusal,
                ..ProbeSettings::new(self.node.as_str(), &self.nonce)
            };
            let source = probe::source(interpreter, &settings);
            for part in source.parts() {
                self.channel.send(part).await.map_err(|fault| from_transport(&fault))?;
            }
        }
        match timeout(HELLO_TIMEOUT, await_hello(&mut self.channel, &mut self.reader)).await {
            Ok(frame) => frame,
            Err(_elapsed) => {
                let detail = format!("the probe said nothing within {} s", HELLO_TIMEOUT.as_secs());
                Err(Fault::new(FaultKind::Silent, detail))
            }
        }
    }

    /// Waits for the next frame after the hello.
    pub async fn next_frame(&mut self) -> Result<Box<Frame>, Fault> {
        loop {
            if let Some(frame) = next_whole(&mut self.reader)? {
                return Ok(frame);
            }
            match self.channel.next().await.map_err(close_fault)? {
                Output::Stdout(bytes) => self.reader.push(bytes),
                Output::Stderr(_) => {}
                Output::Exit(exit) => return Err(exit_fault(&exit)),
            }
        }
    }

    /// Returns what the login files printed before the loader, the last 4 kB of it.
    pub fn noise(&self) -> &[u8] {
        let noise = self.shell.noise();
        // What sudo prints is no output of the login files.
        self.sudo_mark_at().and_then(|mark| noise.get(..mark)).unwrap_or(noise)
    }

    /// Returns the text the node showed before login, without control characters.
    pub fn banner(&self) -> Option<String> {
        self.channel.banner()
    }

    /// Returns how the node is reached.
    pub fn via(&self) -> TransportKind {
        self.channel.via()
    }

    /// Closes the channel.
    pub async fn close(self) {
        self.channel.shutdown().await;
    }
}

/// Connects to a node and starts a script there that is no probe; returns its channel and the first bytes it sent.
pub(crate) async fn start_script(
    transport: &Transport,
    target: &Target,
    source: &ProbeSource,
    history: &mut ShellHistory,
    on_slow: OnSlowShell<'_>,
) -> Result<(Channel, Vec<u8>), Fault> {
    let nonce = nonce();
    let line = probe::launch_line(&nonce, source.script_size());
    let mut channel =
        transport.open(target, &line, |_phase| {}).await.map_err(|fault| from_transport(&fault))?;
    let mut shell = LoginShell::new(&nonce, channel.via());
    let limits = history.limits(transport.connect_timeout());
    let announced = shell.await_loader(&mut channel, limits, on_slow).await;
    history.record(shell.delay);
    let (interpreter, rest) = announced?;
    if interpreter == Interpreter::Shell {
        let why = "no Python 3.6 or newer, which reads the files of runs";
        return Err(Fault::new(FaultKind::NoInterpreter, why));
    }
    for part in source.parts() {
        channel.send(part).await.map_err(|fault| from_transport(&fault))?;
    }
    Ok((channel, rest))
}

/// Waits for the probe's hello.
async fn await_hello(channel: &mut Channel, reader: &mut FrameReader) -> Result<Box<Frame>, Fault> {
    let mut stderr = StderrTail::default();
    loop {
        match channel.next().await.map_err(close_fault)? {
            Output::Stdout(bytes) => reader.push(bytes),
            Output::Stderr(bytes) => stderr.push(&bytes),
            Output::Exit(exit) => {
                let message = format!("the probe ended immediately, {exit}");
                let why = stderr.append_to_message(message, reader.noise().as_bytes());
                return Err(Fault::new(FaultKind::BadReply, why));
            }
        }
        match next_whole(reader)? {
            Some(frame) if matches!(frame.body, Body::Hello(_)) => return Ok(frame),
            Some(frame) => return Err(missing_hello_fault(&frame.body, channel.via())),
            None => {}
        }
    }
}

/// Returns the next frame; `None` when more bytes are needed.
fn next_whole(reader: &mut FrameReader) -> Result<Option<Box<Frame>>, Fault> {
    match reader.next_frame() {
        Some(Received::Frame(frame)) => Ok(Some(frame)),
        Some(Received::Malformed(malformed)) => {
            Err(Fault::new(FaultKind::BadReply, malformed.to_string()))
        }
        None => Ok(None),
    }
}

/// Returns the fault of a first frame that is not a hello.
fn missing_hello_fault(body: &Body, via: TransportKind) -> Fault {
    let Body::Error(error) = body else {
        return Fault::new(FaultKind::BadReply, "the first frame is not a hello");
    };
    // The probe cannot run on this node, and reports why.
    let why = sanitize(error.message.as_deref().unwrap_or(&error.call), 200);
    loader_fault(LoaderCause::CannotRun, why, via)
}

/// Returns 32 random hexadecimal digits.
fn nonce() -> String {
    let mut bytes = [0_u8; 16];
    // Only noise that imitates an announcement could profit, and it cannot read ahead either.
    _ = getrandom(&mut bytes, GetRandomFlags::empty());
    format!("{:032x}", u128::from_ne_bytes(bytes))
}
