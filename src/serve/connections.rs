//! Open connections: at most so many, each for a limited time.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
pub(super) const MAX_OPEN: usize = 128;
/// Time for a whole request to arrive, and for the TLS handshake.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time from a request to the end of its answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a connection is not taken for one that sends nothing.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
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
    has_requested: AtomicBool,
    /// The last request had the token.
    is_trusted: AtomicBool,
    /// Milliseconds after it was opened.
    last_request: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self {
            opened: Instant::now(),
            has_requested: AtomicBool::new(false),
            is_trusted: AtomicBool::new(false),
            last_request: AtomicU64::new(0),
        }
    }

    fn request(&self, is_trusted: bool) {
        let elapsed = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_request.store(elapsed, Ordering::Relaxed);
        self.has_requested.store(true, Ordering::Relaxed);
        self.is_trusted.store(is_trusted, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.opened + Duration::from_millis(self.last_request.load(Ordering::Relaxed))
    }

    /// Returns the order in which connections are closed for new ones: those without the token, of these the ones that have had time for a
    /// request and sent none, and then those whose request is the longest ago.
    fn eviction_order(&self) -> (bool, bool, Instant) {
        let is_new = self.opened.elapsed() < FIRST_REQUEST_TIMEOUT;
        let has_requested = is_new || self.has_requested.load(Ordering::Relaxed);
        (self.is_trusted.load(Ordering::Relaxed), has_requested, self.last())
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
            && let Some(id) = self.first_to_evict()
            && let Some((task, _)) = self.open.remove(&id)
        {
            task.abort();
        }
        let activity = Arc::new(Activity::new());
        let task = self.tasks.spawn(work(Arc::clone(&activity)));
        self.open.insert(task.id(), (task, activity));
    }

    fn first_to_evict(&self) -> Option<Id> {
        let first = self.open.iter().min_by_key(|(_, (_, activity))| activity.eviction_order());
        first.map(|(id, _)| *id)
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
        let (answer, is_trusted) = responder.answer(peer, &request);
        requests.request(is_trusted);
        let responder = Arc::clone(&responder);
        async move { Ok::<_, Infallible>(responder.respond(answer).await) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::examples;

    #[tokio::test(start_paused = true)]
    async fn who_sends_nothing_makes_room_first_and_who_has_the_token_last() {
        let silent = Activity::new();
        let (trusted, earlier, later) = (Activity::new(), Activity::new(), Activity::new());
        trusted.request(true);
        earlier.request(false);
        sleep(Duration::from_secs(2)).await;
        later.request(false);
        let new = Activity::new();
        let order = [&silent, &earlier, &later, &new, &trusted].map(Activity::eviction_order);
        assert!(order.is_sorted(), "{order:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_when_its_answer_takes_too_long() {
        let activity = Activity::new();
        let began = Instant::now();
        sleep(Duration::from_secs(5)).await;
        activity.request(false);
        timeout(Duration::from_secs(3600), activity.expired()).await.unwrap();
        let limit = REQUEST_TIMEOUT + ANSWER_TIMEOUT;
        assert_eq!(began.elapsed().as_secs(), 5 + limit.as_secs());
    }

    #[tokio::test]
    async fn of_too_many_connections_the_oldest_without_the_token_ends() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

        let (responder, _publisher) = examples::responder();
        let mut connections = Connections::new(responder);
        let mut clients = Vec::new();
        for number in 0..MAX_OPEN {
            let (mut client, server) = duplex(4096);
            connections.open(server, Peer::Loopback);
            let token = if number == 0 { "Authorization: Bearer right\r\n" } else { "" };
            let request = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{token}\r\n");
            client.write_all(request.as_bytes()).await.unwrap();
            assert!(client.read(&mut [0; 1024]).await.unwrap() > 0);
            // The order is known to the millisecond.
            sleep(Duration::from_millis(2)).await;
            clients.push(client);
        }
        let (mut new, server) = duplex(4096);
        connections.open(server, Peer::Loopback);
        assert_eq!(connections.open.len(), MAX_OPEN);
        // The second is closed; the first has the token.
        assert_eq!(clients[1].read(&mut [0; 8]).await.unwrap(), 0);
        for client in [&mut clients[0], &mut new] {
            client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            assert!(client.read(&mut [0; 1024]).await.unwrap() > 0);
        }
    }
}
