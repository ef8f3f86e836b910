//! Queues requests to nodes until their sessions send them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

use crate::collect::park::NoDelay;
use gtop_local::lock::lock;
use gtop_model::{NodeName, ProcessRequest, ProcessResponse, RequestError};

/// Maximum number of open requests per node, sent or queued.
pub(super) const MAX_OPEN_REQUESTS: usize = 16;

/// A request and the channel for its response.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) request: ProcessRequest,
    reply: oneshot::Sender<Result<ProcessResponse, RequestError>>,
}

impl PendingRequest {
    /// Sends the response, if the caller still waits.
    pub(super) fn respond(self, response: Result<ProcessResponse, RequestError>) {
        self.reply.send(response).ok();
    }

    /// Returns true if the caller has stopped waiting.
    pub(super) fn is_cancelled(&self) -> bool {
        self.reply.is_closed()
    }
}

/// The queued requests of one node.
#[derive(Debug, Default)]
struct NodeQueue {
    /// Commands the current session's probe supports; `None` without a session.
    commands: Option<Vec<&'static str>>,
    /// A page of metrics is read, which takes no requests.
    is_page: bool,
    waiting: Vec<PendingRequest>,
    notify: Arc<Notify>,
}

/// The queued requests of all nodes.
#[derive(Debug, Default)]
pub(super) struct RequestQueue(Mutex<BTreeMap<NodeName, NodeQueue>>);

impl RequestQueue {
    fn nodes(&self) -> MutexGuard<'_, BTreeMap<NodeName, NodeQueue>> {
        // No operation under the lock can panic halfway.
        lock(&self.0)
    }

    /// Adds a queue for a node; the `Notify` fires when a request is queued.
    pub(super) fn open(&self, node: &NodeName) -> Arc<Notify> {
        Arc::clone(&self.nodes().entry(node.clone()).or_default().notify)
    }

    /// Sets whether the node is read from a page of metrics.
    pub(super) fn set_page(&self, node: &NodeName, is_page: bool) {
        self.nodes().entry(node.clone()).or_default().is_page = is_page;
    }

    /// Sets the commands that a node's probe supports; `None` fails all queued requests.
    pub(super) fn set_commands(&self, node: &NodeName, commands: Option<Vec<&'static str>>) {
        let mut nodes = self.nodes();
        let Some(queue) = nodes.get_mut(node) else { return };
        if commands.is_none() {
            for pending in queue.waiting.drain(..) {
                pending.respond(Err(RequestError::Down));
            }
        }
        queue.commands = commands;
    }

    /// Takes the queued requests of a node.
    pub(super) fn take_waiting(&self, node: &NodeName) -> Vec<PendingRequest> {
        self.nodes()
            .get_mut(node)
            .map(|queue| std::mem::take(&mut queue.waiting))
            .unwrap_or_default()
    }

    fn enqueue(
        &self,
        node: &NodeName,
        request: ProcessRequest,
    ) -> Result<oneshot::Receiver<Result<ProcessResponse, RequestError>>, RequestError> {
        let mut nodes = self.nodes();
        let queue = nodes.get_mut(node).ok_or(RequestError::UnknownNode)?;
        if queue.is_page {
            return Err(RequestError::FromPage);
        }
        let commands = queue.commands.as_ref().ok_or(RequestError::Down)?;
        if !commands.contains(&request.command()) {
            // Every other probe takes signals.
            let is_signal = matches!(request, ProcessRequest::Signal(..));
            return Err(if is_signal {
                RequestError::RootReadOnly
            } else {
                RequestError::Unsupported
            });
        }
        queue.waiting.retain(|pending| !pending.is_cancelled());
        if queue.waiting.len() >= MAX_OPEN_REQUESTS {
            return Err(RequestError::QueueFull);
        }
        let (reply, response) = oneshot::channel();
        queue.waiting.push(PendingRequest { request, reply });
        queue.notify.notify_one();
        Ok(response)
    }
}

/// Sends requests to nodes. Cheap to clone; at most `MAX_OPEN_REQUESTS` may be open per node.
#[derive(Clone, Debug)]
pub struct NodeClient {
    queue: Arc<RequestQueue>,
    no_delay: Arc<NoDelay>,
    is_readonly: bool,
}

impl NodeClient {
    pub(super) fn new(queue: Arc<RequestQueue>, no_delay: Arc<NoDelay>) -> Self {
        Self { queue, no_delay, is_readonly: false }
    }

    /// Returns a client that sends no signals.
    #[must_use]
    pub fn readonly(self) -> Self {
        Self { is_readonly: true, ..self }
    }

    /// Wakes the collector so that a changed configuration takes effect at once.
    pub fn wake(&self) {
        self.no_delay.wake();
    }

    /// Sends a request to a node and waits for the response, at most until `deadline`.
    ///
    /// Fails at once if the node has no session or its probe does not support the command. After a timeout the
    /// node may still have carried out the request.
    pub async fn request(
        &self,
        node: &NodeName,
        request: ProcessRequest,
        deadline: Duration,
    ) -> Result<ProcessResponse, RequestError> {
        if self.is_readonly && matches!(request, ProcessRequest::Signal(..)) {
            return Err(RequestError::ReadOnly);
        }
        let receiver = self.queue.enqueue(node, request)?;
        let _no_delay = self.no_delay.hold_until_reply();
        match timeout(deadline, receiver).await {
            Ok(Ok(response)) => response,
            Ok(Err(_dropped)) => Err(RequestError::SessionLost),
            Err(_elapsed) => Err(RequestError::TimedOut(deadline)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gtop_model::{ProcessKey, Refusal, Signal};

    const KEY: ProcessKey = ProcessKey { pid: 42, start_ticks: 99 };
    const TERM: ProcessRequest = ProcessRequest::Signal(KEY, Signal::Terminate);
    const SOON: Duration = Duration::from_secs(5);

    fn queue_with(commands: Option<&[&'static str]>) -> (Arc<RequestQueue>, NodeClient, NodeName) {
        let queue = Arc::new(RequestQueue::default());
        let node = NodeName::new("gpu01").unwrap();
        queue.open(&node);
        queue.set_commands(&node, commands.map(<[_]>::to_vec));
        (Arc::clone(&queue), NodeClient::new(queue, Arc::default()), node)
    }

    #[tokio::test(start_paused = true)]
    async fn an_impossible_request_fails_at_once() {
        let (_, client, node) = queue_with(None);
        assert_eq!(client.request(&node, TERM, SOON).await, Err(RequestError::Down));
        let other = NodeName::new("gpu02").unwrap();
        assert_eq!(client.request(&other, TERM, SOON).await, Err(RequestError::UnknownNode));
        let (_, client, node) = queue_with(Some(&["tree"]));
        assert_eq!(client.request(&node, TERM, SOON).await, Err(RequestError::RootReadOnly));
        let detail = ProcessRequest::Detail(KEY);
        assert_eq!(client.request(&node, detail, SOON).await, Err(RequestError::Unsupported));
        let (queue, client, node) = queue_with(None);
        queue.set_page(&node, true);
        assert_eq!(client.request(&node, TERM, SOON).await, Err(RequestError::FromPage));
        assert_eq!(client.request(&node, detail, SOON).await, Err(RequestError::FromPage));
        let (_, client, node) = queue_with(Some(&["signal"]));
        assert_eq!(client.readonly().request(&node, TERM, SOON).await, Err(RequestError::ReadOnly));
    }

    #[tokio::test(start_paused = true)]
    async fn queued_requests_are_bounded() {
        let (queue, client, node) = queue_with(Some(&["signal"]));
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..MAX_OPEN_REQUESTS {
            let (client, node) = (client.clone(), node.clone());
            callers.spawn(async move { client.request(&node, TERM, SOON).await });
        }
        tokio::task::yield_now().await;
        assert_eq!(client.request(&node, TERM, SOON).await, Err(RequestError::QueueFull));
        let requests = queue.take_waiting(&node);
        assert_eq!(requests.len(), MAX_OPEN_REQUESTS);
        let mut requests = requests.into_iter();
        requests.next().unwrap().respond(Ok(ProcessResponse::Sent));
        requests.next().unwrap().respond(Err(Refusal::Gone.into()));
        drop(requests);
        let mut sent = 0;
        let mut lost = 0;
        while let Some(answer) = callers.join_next().await {
            sent += u32::from(answer.as_ref().unwrap() == &Ok(ProcessResponse::Sent));
            lost += u32::from(answer.unwrap() == Err(RequestError::SessionLost));
        }
        assert_eq!((sent, lost), (1, 14));
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_requests_are_dropped_and_a_lost_session_fails_the_rest() {
        let (queue, client, node) = queue_with(Some(&["signal"]));
        let late = client.request(&node, TERM, SOON).await;
        assert_eq!(late, Err(RequestError::TimedOut(SOON)));
        assert!(queue.take_waiting(&node).iter().all(PendingRequest::is_cancelled));
        let caller = tokio::spawn({
            let node = node.clone();
            async move { client.request(&node, TERM, SOON).await }
        });
        tokio::task::yield_now().await;
        queue.set_commands(&node, None);
        assert_eq!(caller.await.unwrap(), Err(RequestError::Down));
    }
}
