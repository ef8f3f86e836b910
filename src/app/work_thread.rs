//! Work on a thread of its own, so that a slow disk never blocks the screen.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

/// Maximum time for the last work: a disk that hangs must not delay the exit.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1500);

/// A thread that works until it is stopped.
pub(super) struct WorkThread<T> {
    stop: oneshot::Sender<()>,
    ended: Receiver<T>,
}

impl<T: Send + 'static> WorkThread<T> {
    /// Starts the work, which ends soon after the receiver has something, or an error.
    pub(super) fn start(
        name: &str,
        work: impl FnOnce(Runtime, oneshot::Receiver<()>) -> T + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let (sender, ended) = channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Fails if the work has taken too long.
            sender.send(work(runtime, stopped)).ok();
        })?;
        Ok(Self { stop, ended })
    }

    /// Stops the work and returns its result; `None` if it takes too long.
    pub(super) fn finish(self) -> Option<T> {
        // Fails if the thread has ended.
        self.stop.send(()).ok();
        self.ended.recv_timeout(SHUTDOWN_TIMEOUT).ok()
    }
}
