//! The queue of a command's output, from the connection's task to the reader.
//!
//! russh's own queue has slots so large that with many nodes it would take most of the memory; this one allocates
//! only what is waiting.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::Notify;

use gtop_local::lock::lock;
use gtop_local::process::Output;

/// Most chunks of output that wait to be read; then the connection waits.
pub(crate) const CAPACITY: usize = 16;

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
    /// `None` is the end of the channel.
    queue: VecDeque<Option<Output>>,
    is_over: bool,
}

impl OutputQueue {
    /// Queues the output of this channel from now on.
    pub(crate) fn set_channel(&self, channel: u32) {
        lock(&self.state).channel = Some(channel);
    }

    /// Queues output of a channel, or its end (`None`), and waits while the queue is full.
    ///
    /// The wait is rare, and boxed: each connection reserves the size of this future several times.
    pub(crate) fn push(
        &self,
        channel: u32,
        output: Option<Output>,
    ) -> impl Future<Output = ()> + use<'_> {
        let mut state = lock(&self.state);
        let is_wanted = state.channel == Some(channel) && !state.is_over;
        if is_wanted {
            state.queue.push_back(output);
            self.output_ready.notify_one();
        }
        let must_wait = is_wanted && state.is_full();
        async move {
            if must_wait {
                Box::pin(self.wait_for_room()).await;
            }
        }
    }

    async fn wait_for_room(&self) {
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

    /// Waits for the next output; `None` when the queue is closed and empty.
    ///
    /// Cancel-safe.
    pub(crate) async fn next(&self) -> Option<Option<Output>> {
        loop {
            {
                let mut state = lock(&self.state);
                if let Some(output) = state.queue.pop_front() {
                    self.space_ready.notify_one();
                    return Some(output);
                }
                if state.is_over {
                    return None;
                }
            }
            self.output_ready.notified().await;
        }
    }
}

impl State {
    fn is_full(&self) -> bool {
        !self.is_over && self.queue.len() >= CAPACITY
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Long enough for a task that does not wait to finish.
    const MOMENT: Duration = Duration::from_secs(1);

    #[expect(clippy::unnecessary_wraps, reason = "`push` takes the end of the output as `None`")]
    fn chunk(count: usize) -> Option<Output> {
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
}
