//! Ends gtop when a signal says so, whatever the rest of it waits for.
//!
//! Output that nobody reads holds up whoever writes it, and a question whoever asks it. So signals
//! come to a thread of its own: it tells those who can end in good order, and when there are none, or
//! they do not, it ends the program.

use std::io;
use std::process;
use std::thread;
use std::time::Duration;

use rustix::process::{Signal as Kill, getpid, kill_process};
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{interval, sleep, timeout};

use crate::app::{ExitReason, line_prompt};
use crate::transport::terminate_programs;
use crate::tui::{self, StopSignals};

/// How long the others may take to end: gtop is gone two seconds after a signal.
const GRACEFUL_TIMEOUT: Duration = Duration::from_millis(1200);
/// How long something may be written before the terminal is taken for one that takes nothing.
const WRITE_STALL: Duration = Duration::from_millis(500);
/// How often is looked whether something is still being written.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long the very end may take.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Takes the signals that end gtop, for as long as it runs. Without, they end it as they end any
/// other program.
pub(super) fn start() -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = {
        let _entered = runtime.enter();
        Signals::new()?
    };
    let watching = move || runtime.block_on(run(signals));
    thread::Builder::new().name("signals".to_owned()).spawn(watching)?;
    Ok(())
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> tui::StopReason {
        tokio::select! {
            _ = self.interrupt.recv() => tui::StopReason::Interrupted,
            _ = self.terminate.recv() => tui::StopReason::Terminated,
            _ = self.hang_up.recv() => tui::StopReason::HangUp,
        }
    }
}

async fn run(mut signals: Signals) {
    let ending = signals.next().await;
    if StopSignals::publish(ending) {
        // It is over when the process is.
        timeout(GRACEFUL_TIMEOUT, unblock_terminal()).await.ok();
    }
    line_prompt::restore_echo();
    tui::force_restore_terminal();
    terminate_programs();
    exit_or_kill(ExitReason::from(ending).code()).await;
}

async fn unblock_terminal() {
    sleep(WRITE_STALL).await;
    let mut poll = interval(POLL_INTERVAL);
    loop {
        poll.tick().await;
        tui::unblock_terminal();
    }
}

/// Ends the program, which may want to write what is left to write.
async fn exit_or_kill(code: u8) {
    #[expect(clippy::exit, reason = "whoever could return from main waits for ever")]
    let exiting = move || process::exit(i32::from(code));
    if thread::Builder::new().spawn(exiting).is_ok() {
        sleep(EXIT_TIMEOUT).await;
    }
    // There is nothing left to be done about it.
    kill_process(getpid(), Kill::KILL).ok();
}
