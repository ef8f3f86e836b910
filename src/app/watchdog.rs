//! Ends gtop on SIGINT, SIGQUIT, SIGTERM and SIGHUP, even if its other threads are blocked.
//!
//! A write to a terminal that does not read, or an open prompt, blocks its thread. So signals are handled on
//! their own thread: it notifies the listeners, and ends the program if there are none or they take too long.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, process, thread};

use rustix::process::{Signal as Kill, getpid, kill_process};
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, sleep, timeout};

use crate::app::{ExitReason, line_prompt};
use gtop_local::lock::lock;
use gtop_local::process::terminate_programs;
use gtop_local::storage::remove_temporary_folders;
use gtop_ui as ui;
use gtop_ui::{StopReason, StopSignals};

/// Maximum time for a graceful shutdown; gtop ends within two seconds of a signal.
const GRACEFUL_TIMEOUT: Duration = Duration::from_millis(1200);
/// Maximum time to finish work that the user waits for, unless a second signal comes.
const WORK_TIMEOUT: Duration = Duration::from_secs(600);
/// `timeout` and job launchers signal the process and its group: what comes again so soon is the same signal.
const SAME_SIGNAL: Duration = Duration::from_secs(1);
/// A write that takes longer is taken as blocked by the terminal.
const WRITE_STALL: Duration = Duration::from_millis(500);
/// Interval between two checks for a blocked write.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum time for `exit`; then the process is killed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// The first signal ends the collection of what is then worked on.
static HAS_WORK: AtomicBool = AtomicBool::new(false);

/// Where signals go that are for a command, not for gtop.
static COMMAND_SIGNALS: Mutex<Option<mpsc::Sender<StopReason>>> = Mutex::new(None);

/// Returns the signals from now on, which end gtop only if they are not taken.
pub(super) fn signals_for_command() -> mpsc::Receiver<StopReason> {
    // One that waits while another is passed on means that the command does not answer.
    let (sender, receiver) = mpsc::channel(1);
    *lock(&COMMAND_SIGNALS) = Some(sender);
    receiver
}

/// Returns true if a signal was taken for a command.
fn is_for_command(reason: StopReason) -> bool {
    let sender = lock(&COMMAND_SIGNALS);
    sender.as_ref().is_some_and(|sender| sender.try_send(reason).is_ok())
}

/// Gives the program time to finish its work after the first signal; a second one ends it at once.
pub(super) fn finish_work() {
    HAS_WORK.store(true, Ordering::Relaxed);
}

/// Starts handling the signals. Before that, they have their default action.
pub(super) fn start() -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let signals = {
        let _entered = runtime.enter();
        // A write beyond `ulimit -f` then fails like one on a full disk. Child processes get the default action back.
        drop(signal(SignalKind::from_raw(Kill::XFSZ.as_raw()))?);
        EndSignals::new()?
    };
    let thread = thread::Builder::new().name("signals".to_owned());
    thread.spawn(move || runtime.block_on(run(signals)))?;
    Ok(())
}

/// The signals that end gtop.
struct EndSignals {
    interrupt: Signal,
    quit: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl EndSignals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> StopReason {
        tokio::select! {
            _ = self.interrupt.recv() => StopReason::Interrupted,
            _ = self.quit.recv() => StopReason::Aborted,
            _ = self.terminate.recv() => StopReason::Terminated,
            _ = self.hang_up.recv() => StopReason::HangUp,
        }
    }
}

/// Waits for a signal, and ends the program.
async fn run(mut signals: EndSignals) {
    let mut reason = signals.next().await;
    while is_for_command(reason) {
        reason = signals.next().await;
    }
    if StopSignals::publish(reason) {
        // An orderly shutdown ends the process, and this thread with it.
        if HAS_WORK.load(Ordering::Relaxed) {
            let again = async {
                let first_at = Instant::now();
                while first_at.elapsed() < SAME_SIGNAL {
                    signals.next().await;
                }
            };
            timeout(WORK_TIMEOUT, again).await.ok();
        } else {
            timeout(GRACEFUL_TIMEOUT, unblock_terminal()).await.ok();
        }
    }
    line_prompt::restore_echo();
    ui::force_restore_terminal();
    terminate_programs();
    remove_temporary_folders();
    exit_or_kill(ExitReason::from(reason).code()).await;
}

async fn unblock_terminal() {
    sleep(WRITE_STALL).await;
    let mut poll = interval(POLL_INTERVAL);
    loop {
        poll.tick().await;
        ui::unblock_terminal();
    }
}

/// Exits, or kills the process if `exit` blocks, for example while flushing output.
async fn exit_or_kill(code: u8) {
    #[expect(clippy::exit, reason = "the main thread is blocked and cannot return")]
    let exiting = move || process::exit(i32::from(code));
    if thread::Builder::new().spawn(exiting).is_ok() {
        sleep(EXIT_TIMEOUT).await;
    }
    // SIGKILL to oneself cannot fail in a way that could be handled.
    kill_process(getpid(), Kill::KILL).ok();
}
