//! How long a login shell may take to start the loader, and what its delay means.
//!
//! From outside, a shell that is slow looks like one that reads its input. So its input stays open for a long time, in
//! which a slow shell starts the loader, and is closed only then: a shell that was reading continues or ends. As that may
//! be a coincidence, the next attempt closes it at another time, which tells the two apart.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use crate::collect::fault::{close_fault, loader_fault};
use crate::collect::stderr::StderrTail;
use crate::probe::{self, Greeting, GreetingProgress, Interpreter};
use crate::transport::Channel;
use gtop_local::fault::LoaderCause;
use gtop_local::process::{Exit, Output};
use gtop_model::{Fault, SudoRefusal, TransportKind};

/// A login shell is reported as slow after this time, or after the connect timeout if that is longer.
const LOADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the input of a login shell stays open. It doubles each time the shell was slower, up to the maximum.
const MIN_OPEN_STDIN: Duration = Duration::from_secs(90);
const MAX_OPEN_STDIN: Duration = Duration::from_secs(360);
/// How long to wait for a reaction of the shell after its input was closed.
const STDIN_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Printed by nologin instead of a shell.
const NO_SHELL: &str = "account is currently not available";
/// Printed by sshd instead of the command's output while the password has expired.
const PASSWORD_EXPIRED: &str = "password has expired";
/// Printed by a restricted shell such as rbash, which runs nothing by path.
const RESTRICTED: &str = "restricted";

/// What the login shell of a node did in earlier attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShellHistory {
    /// How many times it was still starting after its input was closed.
    slow_starts: u32,
    /// The last time, it went on or ended when its input was closed.
    has_reacted: bool,
}

/// Why a login shell did not start the loader while its input was open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShellDelay {
    /// It went on or ended when its input was closed.
    ReactsToInput,
    /// It is still starting.
    Slow,
}

/// How long a login shell is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShellLimits {
    /// When the shell is first reported as slow.
    pub(super) report_after: Duration,
    /// When its input is closed.
    close_after: Duration,
    has_reacted: bool,
}

impl ShellHistory {
    /// Returns how long to wait at the next attempt.
    pub fn limits(self, connect_timeout: Option<Duration>) -> ShellLimits {
        let report_after = connect_timeout.unwrap_or_default().max(LOADER_TIMEOUT);
        let minimum = MIN_OPEN_STDIN.max(report_after * 2);
        let longest = minimum.saturating_mul(1 << self.slow_starts.min(8));
        let close_after =
            if self.has_reacted { report_after } else { longest.min(MAX_OPEN_STDIN.max(minimum)) };
        ShellLimits { report_after, close_after, has_reacted: self.has_reacted }
    }

    /// Records what the shell did at an attempt; `None` if it started the loader.
    pub(super) fn record(&mut self, delay: Option<ShellDelay>) {
        self.has_reacted = delay == Some(ShellDelay::ReactsToInput);
        self.slow_starts += u32::from(delay == Some(ShellDelay::Slow));
    }
}

/// Called with the fault of a login shell that is slow so far, and with how much longer to wait for it.
pub(super) type OnSlowShell<'a> = &'a mut (dyn FnMut(Fault, Duration) + Send);

/// A login shell that was sent the loader.
#[derive(Debug)]
pub(super) struct LoginShell {
    greeting: Greeting,
    /// How it is reached.
    via: TransportKind,
    stderr: StderrTail,
    exit: Option<Exit>,
    /// What it prints before it starts sudo, if it starts the loader by sudo.
    sudo_mark: Option<String>,
    /// Why it did not start the loader in time.
    pub(super) delay: Option<ShellDelay>,
}

impl LoginShell {
    pub(super) fn new(nonce: &str, via: TransportKind) -> Self {
        Self::with_greeting(Greeting::new(nonce), via)
    }

    /// Makes one that starts the loader by sudo.
    pub(super) fn of_root(nonce: &str, via: TransportKind) -> Self {
        let mark = Some(probe::sudo_mark(nonce));
        Self { sudo_mark: mark, ..Self::with_greeting(Greeting::of_root(nonce), via) }
    }

    fn with_greeting(greeting: Greeting, via: TransportKind) -> Self {
        let stderr = StderrTail::default();
        Self { greeting, via, stderr, exit: None, sudo_mark: None, delay: None }
    }

    /// Returns what the login files printed before the loader, the last 4 kB of it.
    pub(super) fn noise(&self) -> &[u8] {
        self.greeting.noise()
    }

    /// Waits until the loader announces itself; returns its interpreter and the bytes that followed.
    pub(super) async fn await_loader(
        &mut self,
        channel: &mut Channel,
        limits: ShellLimits,
        on_slow: OnSlowShell<'_>,
    ) -> Result<(Interpreter, Vec<u8>), Fault> {
        let began = channel.silent_since().unwrap_or_else(Instant::now);
        self.stderr.push(channel.unread_stderr().as_bytes());
        let close_at = began + limits.close_after;
        let mut report_at = began + limits.report_after;
        while report_at < close_at {
            if let Ok(announced) = timeout_at(report_at, self.await_announcement(channel)).await {
                return announced;
            }
            let waited = began.elapsed();
            let fault = self.fault(LoaderCause::Waiting, late_text(channel, waited));
            on_slow(fault, limits.close_after.saturating_sub(waited));
            report_at = began + waited * 2;
        }
        match timeout_at(close_at, self.await_announcement(channel)).await {
            Ok(announced) => announced,
            Err(_elapsed) => Err(self.close_stdin(channel, began.elapsed(), limits).await),
        }
    }

    /// Waits until the loader announces itself, skipping what the login files print. Cancel-safe.
    pub(super) async fn await_announcement(
        &mut self,
        channel: &mut Channel,
    ) -> Result<(Interpreter, Vec<u8>), Fault> {
        while self.exit.is_none() && !self.is_refused_by_sudo() {
            match channel.next().await.map_err(close_fault)? {
                Output::Stdout(bytes) => {
                    if let GreetingProgress::Ready { interpreter, rest } =
                        self.greeting.push(&bytes)
                    {
                        return Ok((interpreter, rest));
                    }
                }
                Output::Stderr(bytes) => self.stderr.push(&bytes),
                Output::Exit(exit) => self.exit = Some(exit),
            }
        }
        let end = self.exit.as_ref().map(Exit::to_string).unwrap_or_default();
        let message = format!("the login shell ended first, {end}");
        let message = self.stderr.append_to_message(message, self.noise());
        Err(loader_fault(end_cause(&message, !self.noise().is_empty()), message, self.via))
    }

    /// Returns true if sudo has printed why it does not run the loader. A login shell that is behind a program which copies
    /// its input, such as `tee`, does not end then.
    fn is_refused_by_sudo(&self) -> bool {
        let Some(mark) = &self.sudo_mark else { return false };
        let said = self.stderr.append_to_message(String::new(), self.noise());
        let of_sudo = said.rsplit_once(mark).map(|(_, said)| said);
        of_sudo.is_some_and(|said| SudoRefusal::of_output(said) != SudoRefusal::Failed)
    }

    /// Closes the shell's input to find out why it is late: one that was reading input continues or ends.
    async fn close_stdin(
        &mut self,
        channel: &mut Channel,
        waited: Duration,
        limits: ShellLimits,
    ) -> Fault {
        let message = late_text(channel, waited);
        // If that fails, nothing arrives, which is handled below.
        channel.close_stdin().await.ok();
        let announced = timeout(STDIN_CLOSE_TIMEOUT, self.await_announcement(channel)).await;
        let (delay, cause, message) = match announced {
            Ok(Ok(_)) => {
                let reads = if limits.has_reacted { "reads" } else { "may read" };
                let why = format!("but when its input was closed: a login file {reads} its input");
                let message = format!("{message}, {why}");
                (ShellDelay::ReactsToInput, LoaderCause::ReadsInput, message)
            }
            Ok(Err(fault)) if self.exit.is_none() => return fault,
            Ok(Err(_)) => {
                let message = format!("{message}, and ended with its input");
                (ShellDelay::ReactsToInput, LoaderCause::OtherProgram, message)
            }
            Err(_elapsed) => (ShellDelay::Slow, LoaderCause::Slow, message),
        };
        self.delay = Some(delay);
        self.fault(cause, message)
    }

    /// Returns a fault with the last lines that were printed.
    fn fault(&self, cause: LoaderCause, message: String) -> Fault {
        loader_fault(cause, self.stderr.append_to_message(message, self.noise()), self.via)
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

/// Returns a sentence about what has not happened. A program that has printed nothing may still be logging in.
fn late_text(channel: &Channel, waited: Duration) -> String {
    let seconds = waited.as_secs();
    match (channel.silent_since(), channel.via()) {
        (Some(_), TransportKind::Exec) => {
            format!("the --exec command printed nothing within {seconds} s")
        }
        (Some(_), _) => format!("the ssh program printed nothing within {seconds} s"),
        (None, _) => format!("the login shell did not start it within {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(limits: ShellLimits) -> (u64, u64) {
        (limits.report_after.as_secs(), limits.close_after.as_secs())
    }

    #[test]
    fn the_input_stays_open_longer_after_each_slow_start() {
        let times = |connect_timeout: Option<u64>| -> Vec<(u64, u64)> {
            let limits = |slow_starts| {
                let history = ShellHistory { slow_starts, has_reacted: false };
                seconds(history.limits(connect_timeout.map(Duration::from_secs)))
            };
            [0, 1, 2, 99].map(limits).to_vec()
        };
        assert_eq!(times(None), [(10, 90), (10, 180), (10, 360), (10, 360)]);
        assert_eq!(times(Some(2)), times(None));
        assert_eq!(times(Some(60)), [(60, 120), (60, 240), (60, 360), (60, 360)]);
        assert_eq!(times(Some(600)), [(600, 1200); 4]);
    }

    #[test]
    fn after_a_reaction_the_input_is_closed_at_another_time() {
        let mut history = ShellHistory::default();
        history.record(Some(ShellDelay::ReactsToInput));
        assert_eq!(seconds(history.limits(None)), (10, 10));
        // It was a coincidence: the shell is slow.
        history.record(Some(ShellDelay::Slow));
        assert_eq!(seconds(history.limits(None)), (10, 180));
        history.record(Some(ShellDelay::ReactsToInput));
        history.record(None);
        assert_eq!(seconds(history.limits(None)), (10, 180));
    }
}
