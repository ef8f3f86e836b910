//! Opens a session step by step: connect, wait for the loader, read the probe's hello.
//!
//! Sessions and `gtop doctor` use it.

use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::time::timeout;

use crate::collect::fault::from_transport;
use crate::collect::stderr::{StderrTail, append_output};
use crate::fault::LoaderCause;
use crate::model::{Fault, FaultKind, NodeName, TransportKind};
use crate::probe::{self, Greeting, GreetingProgress, Interpreter, ProbeSettings, ProbeSource};
use crate::process::{Exit, Output};
use crate::text::sanitize;
use crate::transport::{self, Channel, StepScript, Target, Transport};
use crate::wire::{Body, Frame, FrameReader, Received, address_of};

/// Minimum time a login shell may take to start the loader; a job step has its own limits.
const LOADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time to wait for a shell that was slow before.
const MAX_LOADER_TIMEOUT: Duration = Duration::from_secs(320);
/// How long to wait for a reaction of the shell after its input was closed.
const STDIN_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for the probe's first frame; Python on a slow file system takes seconds.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);

/// Printed by nologin instead of a shell.
const NO_SHELL: &str = "account is currently not available";

/// Printed by sshd instead of the command's output while the password has expired.
const PASSWORD_EXPIRED: &str = "password has expired";

/// Printed by a restricted shell such as rbash, which runs nothing by path.
const RESTRICTED: &str = "restricted";

/// A node that is connected and was sent the loader.
#[derive(Debug)]
pub struct Handshake {
    node: NodeName,
    nonce: String,
    interval: Duration,
    pub(super) channel: Channel,
    pub(super) reader: FrameReader,
    noise: Vec<u8>,
    /// The login shell has not run gtop's command yet.
    pub(super) is_shell_slow: bool,
}

impl Handshake {
    /// Returns how long to wait for the loader: at least the connect timeout, doubled each time the shell was too slow.
    pub fn loader_timeout(transport: &Transport, slow_starts: u32) -> Duration {
        let minimum = transport.connect_timeout().unwrap_or_default().max(LOADER_TIMEOUT);
        minimum.saturating_mul(1 << slow_starts.min(8)).min(MAX_LOADER_TIMEOUT.max(minimum))
    }

    /// Connects to a node and has its login shell start the loader.
    pub async fn start(
        transport: &Transport,
        target: &Target,
        interval: Duration,
    ) -> Result<Self, transport::Fault> {
        let nonce = nonce();
        let node = target.name.clone();
        let settings = ProbeSettings { interval, ..ProbeSettings::new(node.as_str(), &nonce) };
        let line = probe::launch_line(&nonce, probe::source(Interpreter::Python, &settings).size());
        let step = |step| log::debug!("{node}: {step}");
        let shared = || {
            let probe::SharedProbe { nonce, script, input } = probe::shared_probe(&nonce, interval);
            StepScript { nonce, script, input, address_of }
        };
        let channel = transport.open_probe(target, &line, &shared, step).await?;
        // The loaders of a shared step announce themselves with the nonce of the step.
        let nonce = channel.step_nonce().map_or_else(|| nonce.clone(), str::to_owned);
        Ok(Self {
            node: target.name.clone(),
            nonce,
            interval,
            channel,
            reader: FrameReader::default(),
            noise: Vec::new(),
            is_shell_slow: false,
        })
    }

    /// Waits until the loader announces itself, at most for `limit`; returns the interpreter that will run the probe.
    pub async fn await_loader(&mut self, limit: Duration) -> Result<Interpreter, Fault> {
        let mut greeting = Greeting::new(&self.nonce);
        let timeout = self.channel.wait_until_overdue(limit);
        let announced = tokio::select! {
            biased;
            announced = await_loader(&mut self.channel, &mut greeting) => Some(announced),
            () = timeout => None,
        };
        self.noise = greeting.noise().to_vec();
        let is_shared = self.channel.step_nonce().is_some();
        let Some(announced) = announced else {
            if is_shared {
                return Err(from_transport(&transport::Fault::not_joined()));
            }
            return Err(self.loader_timeout_fault(greeting, limit).await);
        };
        let (interpreter, rest) = announced?;
        self.reader.push(&rest);
        Ok(interpreter)
    }

    /// Closes the shell's input to find out why it is late: one that was reading input continues or ends, any other is
    /// slow.
    async fn loader_timeout_fault(&mut self, mut greeting: Greeting, limit: Duration) -> Fault {
        let message = format!("the login shell did not start it within {} s", limit.as_secs());
        // If that fails, nothing arrives, which is handled below.
        self.channel.close_stdin().await.ok();
        let announced =
            timeout(STDIN_CLOSE_TIMEOUT, await_loader(&mut self.channel, &mut greeting)).await;
        self.noise = greeting.noise().to_vec();
        let (cause, message) = match announced {
            Ok(Ok(_)) => {
                (LoaderCause::ReadsInput, format!("{message}: a login file reads its input"))
            }
            Ok(Err(_)) => {
                (LoaderCause::OtherProgram, format!("{message}, and ended with its input"))
            }
            Err(_elapsed) => {
                self.is_shell_slow = true;
                (LoaderCause::Slow, message)
            }
        };
        loader_fault(cause, append_output(message, &self.noise))
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
                interval: self.interval,
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
            match self.reader.next_frame() {
                Some(Received::Frame(frame)) => return Ok(frame),
                Some(Received::Malformed(malformed)) => {
                    return Err(Fault::new(FaultKind::BadReply, malformed.to_string()));
                }
                None => {}
            }
            match self.channel.next().await.map_err(close_fault)? {
                Output::Stdout(bytes) => self.reader.push(&bytes),
                Output::Stderr(_) => {}
                Output::Exit(exit) => return Err(exit_fault(&exit)),
            }
        }
    }

    /// Returns what the login files printed before the loader, the last 4 kB of it.
    pub fn noise(&self) -> &[u8] {
        &self.noise
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
pub async fn start_script(
    transport: &Transport,
    target: &Target,
    source: &ProbeSource,
) -> Result<(Channel, Vec<u8>), Fault> {
    let nonce = nonce();
    let line = probe::launch_line(&nonce, source.size());
    let mut channel =
        transport.open(target, &line, |_phase| {}).await.map_err(|fault| from_transport(&fault))?;
    let mut greeting = Greeting::new(&nonce);
    let limit = Handshake::loader_timeout(transport, 0);
    let announced = timeout(limit, await_loader(&mut channel, &mut greeting)).await;
    let (interpreter, rest) = announced.map_err(|_elapsed| {
        let message = format!("the login shell did not start it within {} s", limit.as_secs());
        loader_fault(LoaderCause::Slow, append_output(message, greeting.noise()))
    })??;
    if interpreter == Interpreter::Shell {
        let why = "no Python 3.6 or newer; files of runs are read with it";
        return Err(Fault::new(FaultKind::NoInterpreter, why));
    }
    for part in source.parts() {
        channel.send(part).await.map_err(|fault| from_transport(&fault))?;
    }
    Ok((channel, rest))
}

/// Waits until the loader announces itself, skipping what the login files print.
async fn await_loader(
    channel: &mut Channel,
    greeting: &mut Greeting,
) -> Result<(Interpreter, Vec<u8>), Fault> {
    let mut stderr = StderrTail::default();
    loop {
        match channel.next().await.map_err(close_fault)? {
            Output::Stdout(bytes) => {
                if let GreetingProgress::Ready { interpreter, rest } = greeting.push(&bytes) {
                    return Ok((interpreter, rest));
                }
            }
            Output::Stderr(bytes) => stderr.push(&bytes),
            Output::Exit(exit) => {
                stderr.drain(channel).await;
                let message = format!("the login shell ended first, {exit}");
                let why = stderr.append_to_message(message, greeting.noise());
                return Err(loader_fault(end_cause(&why, !greeting.noise().is_empty()), why));
            }
        }
    }
}

/// Returns why a login shell ended before the loader, by its last words.
fn end_cause(words: &str, has_noise: bool) -> LoaderCause {
    // An expired account or password is the cause, whatever else the login files print.
    if words.contains(NO_SHELL) {
        LoaderCause::NoShell
    } else if words.contains(PASSWORD_EXPIRED) {
        LoaderCause::PasswordExpired
    } else if words.contains(RESTRICTED) {
        LoaderCause::Restricted
    } else if has_noise {
        LoaderCause::EndedWithOutput
    } else {
        LoaderCause::Ended
    }
}

/// Returns the fault of a login shell that does not start the probe.
fn loader_fault(cause: LoaderCause, message: String) -> Fault {
    from_transport(&transport::Fault::Loader { cause, message })
}

/// Returns the fault of a probe that has ended.
pub(super) fn exit_fault(exit: &Exit) -> Fault {
    Fault::new(FaultKind::SessionLost, format!("the probe ended: {exit}"))
}

pub(super) fn close_fault(fault: Option<transport::Fault>) -> Fault {
    let default = || Fault::new(FaultKind::SessionLost, "the node closed it");
    fault.map_or_else(default, |fault| from_transport(&fault))
}

/// Waits for the probe's hello.
async fn await_hello(channel: &mut Channel, reader: &mut FrameReader) -> Result<Box<Frame>, Fault> {
    let mut stderr = StderrTail::default();
    loop {
        match channel.next().await.map_err(close_fault)? {
            Output::Stdout(bytes) => reader.push(&bytes),
            Output::Stderr(bytes) => stderr.push(&bytes),
            Output::Exit(exit) => {
                stderr.drain(channel).await;
                let message = format!("the probe ended at once, {exit}");
                let why = stderr.append_to_message(message, reader.noise().as_bytes());
                return Err(Fault::new(FaultKind::BadReply, why));
            }
        }
        match reader.next_frame() {
            Some(Received::Frame(frame)) if matches!(frame.body, Body::Hello(_)) => {
                return Ok(frame);
            }
            Some(Received::Frame(frame)) => return Err(missing_hello_fault(&frame.body)),
            Some(Received::Malformed(malformed)) => {
                return Err(Fault::new(FaultKind::BadReply, malformed.to_string()));
            }
            None => {}
        }
    }
}

/// Returns the fault of a first frame that is not a hello.
fn missing_hello_fault(body: &Body) -> Fault {
    let Body::Error(error) = body else {
        return Fault::new(FaultKind::BadReply, "the first frame is not a hello");
    };
    // The probe cannot run on this node, and says why.
    let why = sanitize(error.message.as_deref().unwrap_or(&error.call), 200);
    loader_fault(LoaderCause::CannotRun, why)
}

/// Returns 32 random hexadecimal digits.
fn nonce() -> String {
    let mut bytes = [0_u8; 16];
    // Only noise that imitates an announcement could profit, and it cannot read ahead either.
    _ = getrandom(&mut bytes, GetRandomFlags::empty());
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Options;

    #[test]
    fn the_loader_timeout_is_the_connect_timeout_doubled_after_each_slow_start() {
        let waits = |seconds: Option<u64>| -> Vec<u64> {
            let mut options = Options::of_this_process();
            options.ssh.connect_timeout = seconds.map(Duration::from_secs);
            let transport = Transport::new(options);
            [0, 1, 2, 5, 99]
                .map(|slow| Handshake::loader_timeout(&transport, slow).as_secs())
                .to_vec()
        };
        assert_eq!(waits(None), [10, 20, 40, 320, 320]);
        assert_eq!(waits(Some(2)), [10, 20, 40, 320, 320]);
        assert_eq!(waits(Some(60)), [60, 120, 240, 320, 320]);
        assert_eq!(waits(Some(600)), [600; 5]);
    }
}
