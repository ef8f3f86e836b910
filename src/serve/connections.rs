//! Open connections: at most so many, each for a limited time.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use crate::serve::Peer;
use crate::serve::responder::Responder;

/// Connections at once.
const MAX_OPEN: usize = 256;
/// Time for a whole request to arrive, and for the TLS handshake.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time from a request to the end of its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a connection is not taken for one that sends nothing.
const GRACE: Duration = Duration::from_secs(1);
/// Bytes of the head of a request.
const MAX_HEAD: usize = 16 << 10;
/// Headers of a request.
const MAX_HEADERS: usize = 64;

/// The open connections. Dropping them closes all.
pub(super) struct Connections {
    responder: Arc<Responder>,
    tasks: JoinSet<()>,
    open: BTreeMap<Id, (AbortHandle, Arc<Activity>)>,
}

/// What a connection has done.
#[derive(Debug)]
struct Activity {
    opened: Instant,
    requests: AtomicU64,
    /// Milliseconds after it was opened.
    last_request: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        let (requests, last_request) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { opened: Instant::now(), requests, last_request }
    }

    fn request(&self) {
        let elapsed = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_request.store(elapsed, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.opened + Duration::from_millis(self.last_request.load(Ordering::Relaxed))
    }

    /// Returns what decides which connection makes room: first those that have had time for a request and sent none,
    /// then the most idle.
    fn worth(&self) -> (bool, Instant) {
        let is_new = self.opened.elapsed() < GRACE;
        (is_new || self.requests.load(Ordering::Relaxed) > 0, self.last())
    }

    /// Returns when an answer, and the next request after it, take too long.
    async fn expired(&self) {
        loop {
            let end = self.last() + REQUEST_TIMEOUT + ANSWER_TIMEOUT;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }
}

impl Connections {
    pub(super) fn new(responder: Arc<Responder>) -> Self {
        Self { responder, tasks: JoinSet::new(), open: BTreeMap::new() }
    }

    /// Serves a connection.
    pub(super) fn open<S>(&mut self, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let responder = Arc::clone(&self.responder);
        self.spawn(|activity| answer(stream, responder, peer, activity));
    }

    /// Serves a connection after its TLS handshake.
    pub(super) fn open_tls(&mut self, stream: TcpStream, acceptor: TlsAcceptor, peer: Peer) {
        let responder = Arc::clone(&self.responder);
        self.spawn(|activity| async move {
            if let Ok(Ok(stream)) = timeout(REQUEST_TIMEOUT, acceptor.accept(stream)).await {
                answer(stream, responder, peer, activity).await;
            }
        });
    }

    fn spawn<F>(&mut self, work: impl FnOnce(Arc<Activity>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        if self.open.len() >= MAX_OPEN
            && let Some(id) = self.least_worth()
            && let Some((task, _)) = self.open.remove(&id)
        {
            task.abort();
        }
        let activity = Arc::new(Activity::new());
        let task = self.tasks.spawn(work(Arc::clone(&activity)));
        self.open.insert(task.id(), (task, activity));
    }

    fn least_worth(&self) -> Option<Id> {
        let least = self.open.iter().min_by_key(|(_, (_, activity))| activity.worth());
        least.map(|(id, _)| *id)
    }

    /// Waits for a connection that has ended, and forgets it.
    pub(super) async fn forget_ended(&mut self) {
        let ended = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => std::future::pending().await,
        };
        self.open.remove(&ended);
    }
}

/// Answers the requests of a connection, one after the other.
async fn answer<S>(stream: S, responder: Arc<Responder>, peer: Peer, activity: Arc<Activity>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let requests = Arc::clone(&activity);
    let service = service_fn(move |request| {
        requests.request();
        let response = responder.respond(peer, &request);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .half_close(true)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // An error means that the client has gone or sent nonsense, which hyper has answered.
        _ended = connection => {}
        () = activity.expired() => {}
    }
}

/// Waits until files may be free again: the process, or the system, has too many open.
pub(super) async fn wait_for_files() {
    sleep(Duration::from_millis(100)).await;
}
