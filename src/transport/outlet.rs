//! What a command says, on its way from the connection's task to whoever reads it.
//!
//! russh has a queue for that, whose places are so large that with many nodes most memory would be
//! queues; this one is as long as what waits in it.

use std::collections::VecDeque;
use std::sync::Mutex;

use russh::ChannelId;
use tokio::sync::Notify;

use crate::transport::channel::Output;
use crate::transport::files::lock;

/// Most pieces of output that wait to be read; then the connection waits.
pub(super) const MOST: usize = 16;

/// The way of one command's output.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    state: Mutex<State>,
    put: Notify,
    taken: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Whose output is wanted.
    channel: Option<ChannelId>,
    queue: VecDeque<Output>,
    is_over: bool,
}

impl Outlet {
    /// Wants what this channel says from now on.
    pub(super) fn listen(&self, channel: ChannelId) {
        lock(&self.state).channel = Some(channel);
    }

    /// Takes what a channel says, and waits while too much of it is unread.
    pub(super) async fn put(&self, channel: ChannelId, output: Output) {
        while self.is_full(channel) {
            self.taken.notified().await;
        }
        let mut state = lock(&self.state);
        if state.channel == Some(channel) && !state.is_over {
            state.queue.push_back(output);
            self.put.notify_one();
        }
    }

    /// Nothing will come any more, or nobody reads it.
    pub(super) fn close(&self) {
        lock(&self.state).is_over = true;
        self.put.notify_one();
        self.taken.notify_one();
    }

    /// Waits for what comes next; `None` when the connection is over and all is read.
    ///
    /// Nothing is lost when the wait is given up.
    pub(super) async fn next(&self) -> Option<Output> {
        loop {
            {
                let mut state = lock(&self.state);
                if let Some(output) = state.queue.pop_front() {
                    self.taken.notify_one();
                    return Some(output);
                }
                if state.is_over {
                    return None;
                }
            }
            self.put.notified().await;
        }
    }

    fn is_full(&self, channel: ChannelId) -> bool {
        let state = lock(&self.state);
        state.channel == Some(channel) && !state.is_over && state.queue.len() >= MOST
    }
}
