//! The queue of a command's output, from the connection's task to the reader.
//!
//! russh's own queue has slots so large that with many nodes it would take most of the memory; this one allocates
//! only what is waiting.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use gtop_local::lock::lock;
use gtop_local::process::Output;

/// Most chunks of output that wait to be read; then the connection waits.
pub(crate) const CAPACITY: usize = 16;

/// How long the rest of the output is waited for after the exit status, which a node may send first.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

/// Output of a channel, or its end (`None`).
type Queued = Option<Output>;

/// The output of one command.
#[derive(Debug, Default)]
pub(crate) struct OutputQueue {
    state: Mutex<State>,
    output_ready: Notify,
    space_ready: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the channel whose output is queued.
    channel: Option<u32>,
    queue: VecDeque<Queued>,
    is_over: bool,
    /// The exit status, which comes last, and until when it waits for the rest of the output.
    exit: Option<(Output, Instant)>,
}

impl OutputQueue {
    /// Queues the output of this channel from now on.
    pub(crate) fn set_channel(&self, channel: u32) {
        lock(&self.state).channel = Some(channel);
    }

    /// Queues output of a channel, or its end (`None`), and waits while the queue is full.
    ///
    /// The wait is rare, and boxed: each connection reserves the size of this future several times.
    pub(crate) fn push(&self, channel: u32, output: Queued) -> impl Future<Output = ()> + use<'_> {
        let mut state = lock(&self.state);
        let is_wanted = state.channel == Some(channel) && !state.is_over;
        if is_wanted {
            state.queue.push_back(output);
            self.output_ready.notify_one();
        }
        let must_wait = is_wanted && state.is_full();
        async move {
            if must_wait {
                Box::pin(self.wait_for_space()).await;
            }
        }
    }

    async fn wait_for_space(&self) {
        while lock(&self.state).is_full() {
            self.space_ready.notified().await;
        }
    }

    /// Closes the queue, by the writer or the reader.
    pub(crate) fn close(&self) {
        lock(&self.state).is_over = true;
        self.output_ready.notify_one();
        self.space_ready.notify_one();
    }

    /// Waits for the next output; `None` when the queue is closed and empty. The exit status comes last, unless more
    /// output takes too long.
    ///
    /// Cancel-safe.
    pub(crate) async fn next(&self) -> Option<Queued> {
        loop {
            let exit_at = {
                let mut state = lock(&self.state);
                if let Some(output) = state.take() {
                    self.space_ready.notify_one();
                    return Some(output);
                }
                if state.is_over {
                    return None;
                }
                state.exit.as_ref().map(|(_, at)| *at)
            };
            let output_ready = self.output_ready.notified();
            match exit_at {
                None => output_ready.await,
                // Boxed, so that a reader of output does not carry a timer.
                Some(at) => drop(Box::pin(timeout_at(at, output_ready)).await),
            }
        }
    }
}

impl State {
    fn is_full(&self) -> bool {
        !self.is_over && self.queue.len() >= CAPACITY
    }

    /// Takes what comes next.
    fn take(&mut self) -> Option<Queued> {
        while let Some(Some(Output::Exit(_))) = self.queue.front() {
            let exit = self.queue.pop_front().flatten();
            self.exit = exit.map(|exit| (exit, Instant::now() + REST_TIMEOUT));
        }
        let is_last = match self.queue.front() {
            Some(output) => output.is_none(),
            None => self.is_over,
        };
        match self.exit.take_if(|(_, at)| is_last || *at <= Instant::now()) {
            Some((exit, _)) => Some(Some(exit)),
            None => self.queue.pop_front(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::timeout;

    use super::*;
    use gtop_local::process::Exit;

    /// Long enough for a task that does not wait to finish.
    const MOMENT: Duration = Duration::from_secs(1);

    #[expect(clippy::unnecessary_wraps, reason = "`push` takes the end of the output as `None`")]
    fn chunk(count: usize) -> Queued {
        Some(Output::Stdout(count.to_string().into_bytes()))
    }

    const OWN: u32 = 7;
    const OTHER: u32 = 8;

    #[tokio::test(start_paused = true)]
    async fn output_is_bounded_and_in_order() {
        let output_queue = Arc::new(OutputQueue::default());
        output_queue.push(OWN, chunk(99)).await;
        output_queue.set_channel(OWN);
        let writer = Arc::clone(&output_queue);
        let writing = tokio::spawn(async move {
            for count in 0..=CAPACITY {
                writer.push(OWN, chunk(count)).await;
            }
            writer.close();
        });
        tokio::time::sleep(MOMENT).await;
        assert!(!writing.is_finished(), "nothing was read");
        timeout(MOMENT, output_queue.push(OTHER, chunk(99))).await.unwrap();
        for count in 0..=CAPACITY {
            assert_eq!(output_queue.next().await, Some(chunk(count)));
        }
        assert_eq!(output_queue.next().await, None);
        writing.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn closing_wakes_writers_and_readers() {
        let full = OutputQueue::default();
        full.set_channel(OWN);
        for count in 1..CAPACITY {
            full.push(OWN, chunk(count)).await;
        }
        let empty = OutputQueue::default();
        empty.set_channel(OWN);
        let closing = async {
            tokio::time::sleep(MOMENT).await;
            full.close();
            empty.close();
        };
        let all = async { tokio::join!(full.push(OWN, chunk(99)), empty.next(), closing) };
        let ((), read, ()) = timeout(MOMENT * 3, all).await.unwrap();
        assert_eq!(read, None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_exit_status_comes_after_the_output() {
        let exit = || Some(Output::Exit(Exit::Status(3)));
        let ended = OutputQueue::default();
        let lost = OutputQueue::default();
        for queue in [&ended, &lost] {
            queue.set_channel(OWN);
            for output in [chunk(0), exit(), chunk(1), chunk(2)] {
                queue.push(OWN, output).await;
            }
            for count in 0..3 {
                assert_eq!(queue.next().await, Some(chunk(count)));
            }
        }
        ended.push(OWN, None).await;
        lost.close();
        for (queue, end) in [(&ended, Some(None)), (&lost, None)] {
            assert_eq!(timeout(Duration::ZERO, queue.next()).await, Ok(Some(exit())));
            assert_eq!(timeout(Duration::ZERO, queue.next()).await, Ok(end));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_exit_status_does_not_wait_for_what_a_command_left_running() {
        let queue = OutputQueue::default();
        queue.set_channel(OWN);
        queue.push(OWN, Some(Output::Exit(Exit::Status(0)))).await;
        let writing = async {
            loop {
                queue.push(OWN, chunk(1)).await;
                tokio::time::sleep(MOMENT / 8).await;
            }
        };
        let reading = async { while queue.next().await == Some(chunk(1)) {} };
        let until_exit = async {
            tokio::select! {
                () = writing => {}
                () = reading => {}
            }
        };
        timeout(REST_TIMEOUT + MOMENT, until_exit).await.unwrap();
        let silent = OutputQueue::default();
        silent.set_channel(OWN);
        silent.push(OWN, Some(Output::Exit(Exit::Status(0)))).await;
        let exit = timeout(REST_TIMEOUT + MOMENT, silent.next()).await.unwrap();
        assert_eq!(exit, Some(Some(Output::Exit(Exit::Status(0)))));
    }
}
