//! Work on a thread of its own, so that a slow disk or a scheduler never blocks the screen.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

use gtop_local::lock::lock;

/// Maximum time for the last work on a disk: one that hangs must not delay the exit.
pub const DISK_TIMEOUT: Duration = Duration::from_millis(1500);

/// A thread that works until it is stopped.
#[derive(Debug)]
pub struct WorkThread<T> {
    stop: oneshot::Sender<()>,
    ended: Mutex<Receiver<T>>,
}

impl<T: Send + 'static> WorkThread<T> {
    /// Starts the work, which ends soon after the receiver has something, or an error.
    pub fn start(
        name: &str,
        work: impl FnOnce(Runtime, oneshot::Receiver<()>) -> T + Send + 'static,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let (sender, ended) = channel();
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            // Fails if the work has taken too long.
            sender.send(work(runtime, stopped)).ok();
        })?;
        Ok(Self { stop, ended: Mutex::new(ended) })
    }

    /// Stops the work and returns its result; `None` if that takes longer than `limit`.
    pub fn finish(self, limit: Duration) -> Option<T> {
        // Fails if the thread has ended.
        self.stop.send(()).ok();
        lock(&self.ended).recv_timeout(limit).ok()
    }
}
