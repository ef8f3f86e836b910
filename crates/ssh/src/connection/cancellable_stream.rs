//! A stream that can be cancelled from outside, and that reads ahead in large chunks.
//!
//! russh runs a connection in its own task, which takes no commands during the key exchange. Cancelling the
//! stream under it ends the task at once, so an abandoned node leaves neither a task nor a file descriptor.
//!
//! russh reads a packet in two steps, its length and then the rest. Reading ahead makes that one system call.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::Stream;
use crate::connection::banner::{BannerError, BannerScan};
use crate::trace::{self, Trace};
use gtop_local::lock::lock;

/// Bytes read from a connection at once.
const READ_SIZE: usize = 16 * 1024;

thread_local! {
    /// The read buffer. Each session consumes what it has read before the next one reads, so one buffer serves
    /// nearly all of them.
    static SPARE_BUFFER: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// Bytes that were read and not consumed yet.
#[derive(Default)]
struct ReadAhead {
    buffer: Box<[u8]>,
    unread: Range<usize>,
}

/// The end russh holds; reads and writes fail once it is cancelled.
pub struct CancellableStream {
    stream: Box<dyn Stream>,
    ahead: ReadAhead,
    state: Arc<State>,
    banner_scan: BannerScan,
    /// Set when the connection is traced.
    trace: Option<Trace>,
}

/// Cancels the stream when dropped.
#[derive(Debug)]
pub struct CancelGuard(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_cancelled: AtomicBool,
    has_seen_version: AtomicBool,
    banner_error: Mutex<Option<BannerError>>,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

/// Returns a stream that can be cancelled, and the guard that cancels it when it is dropped.
pub fn cancellable(stream: Box<dyn Stream>) -> (CancellableStream, CancelGuard) {
    let state = Arc::new(State::default());
    let (ahead, banner_scan, trace) =
        (ReadAhead::default(), BannerScan::default(), trace::current());
    (
        CancellableStream { stream, ahead, state: Arc::clone(&state), banner_scan, trace },
        CancelGuard(state),
    )
}

impl CancellableStream {
    /// Copies buffered bytes; returns false if there are none.
    fn copy_buffered(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let ReadAhead { buffer: chunk, unread } = &mut self.ahead;
        let rest = chunk.get(unread.start..unread.end).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let copied = rest.get(..buffer.remaining()).unwrap_or(rest);
        buffer.put_slice(copied);
        unread.start += copied.len();
        if unread.start >= unread.end {
            let chunk = std::mem::take(chunk);
            if chunk.len() == READ_SIZE {
                SPARE_BUFFER.set(Some(chunk));
            }
        }
        true
    }

    /// Reads from the connection, and copies what was asked for. Lines before the version line are dropped.
    fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut chunk = SPARE_BUFFER.take().unwrap_or_else(|| vec![0; READ_SIZE].into());
        loop {
            let mut filling = ReadBuf::new(&mut chunk);
            let polled = Pin::new(&mut self.stream).poll_read(context, &mut filling);
            let count = filling.filled().len();
            if !matches!(polled, Poll::Ready(Ok(()))) || count == 0 {
                SPARE_BUFFER.set(Some(chunk));
                return polled;
            }
            if self.banner_scan.is_found() {
                self.ahead = ReadAhead { buffer: chunk, unread: 0..count };
            } else if let Some(read) = self.scan(chunk.get(..count).unwrap_or_default())? {
                self.ahead = ReadAhead { unread: 0..read.len(), buffer: read.into() };
            } else {
                continue;
            }
            self.copy_buffered(buffer);
            return Poll::Ready(Ok(()));
        }
    }

    /// Takes bytes before the end of the version line; see [`BannerScan::push`].
    fn scan(&mut self, bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let scanned = self.banner_scan.push(bytes).map_err(|error| {
            *lock(&self.state.banner_error) = Some(error);
            io::Error::from(io::ErrorKind::InvalidData)
        })?;
        if scanned.is_some() {
            self.trace_version();
            self.state.has_seen_version.store(true, Ordering::Release);
        }
        Ok(scanned)
    }

    fn trace_version(&self) {
        if let Some(trace) = &self.trace {
            trace.push_version(self.banner_scan.first_line());
        }
    }
}

impl Drop for CancellableStream {
    /// Traces what was received instead of a version line.
    fn drop(&mut self) {
        if !self.banner_scan.is_found() {
            self.trace_version();
        }
    }
}

impl CancelGuard {
    /// Returns true if the server has sent its SSH version line.
    pub(crate) fn has_seen_version(&self) -> bool {
        self.0.has_seen_version.load(Ordering::Acquire)
    }

    /// Returns why the server has no version line that can be used.
    pub(crate) fn banner_error(&self) -> Option<BannerError> {
        lock(&self.0.banner_error).clone()
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.0.is_cancelled.store(true, Ordering::Release);
        self.0.reader.wake();
        self.0.writer.wake();
    }
}

impl State {
    /// Fails if the stream is cancelled; otherwise registers `waker` for the cancellation.
    fn check_cancelled(&self, waker: &AtomicWaker, context: &Context<'_>) -> io::Result<()> {
        waker.register(context.waker());
        if self.is_cancelled.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl AsyncRead for CancellableStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.state.check_cancelled(&self.state.reader, context)?;
        if self.copy_buffered(buffer) {
            Poll::Ready(Ok(()))
        } else {
            self.poll_fill(context, buffer)
        }
    }
}

impl AsyncWrite for CancellableStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.state.check_cancelled(&self.state.writer, context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state.check_cancelled(&self.state.writer, context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn bytes_arrive_in_order_for_any_read_size() {
        let (near, mut far) = tokio::io::duplex(64 * 1024);
        let (mut cancellable, _cancel_guard) = cancellable(Box::new(near));
        let random = (0..50_000_u32).map(|index| u8::try_from(index % 251).unwrap());
        let sent: Vec<u8> = b"SSH-2.0-x\r\n".iter().copied().chain(random).collect();
        tokio::io::AsyncWriteExt::write_all(&mut far, b"welcome\n").await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut far, &sent).await.unwrap();
        drop(far);
        let mut read = Vec::new();
        for size in [1, 4, 3_360, 0, 20_000].into_iter().cycle() {
            let mut buffer = vec![0; size];
            let count = cancellable.read(&mut buffer).await.unwrap();
            assert!(count <= size);
            if count == 0 && size > 0 {
                break;
            }
            read.extend_from_slice(&buffer[..count]);
        }
        assert!(read == sent);
    }

    #[tokio::test]
    async fn a_reader_wakes_up_when_the_stream_is_cancelled() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stream, _peer) =
            tokio::try_join!(TcpStream::connect(address), listener.accept()).unwrap();
        let (mut cancellable, cancel_guard) = cancellable(Box::new(stream));
        let mut buffer = [0; 1];
        let (read, ()) = tokio::join!(cancellable.read(&mut buffer), async { drop(cancel_guard) });
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }

    async fn traced_versions(received: &[u8]) -> Vec<String> {
        let trace = Trace::default();
        trace::with_trace(&trace, async {
            let received = io::Cursor::new(received.to_vec());
            let (mut stream, _guard) = cancellable(Box::new(received));
            stream.read_to_end(&mut Vec::new()).await.ok();
        })
        .await;
        let events = trace.events().into_iter().map(|traced| traced.event);
        let versions = events.map(|event| {
            let trace::ConnectEvent::ServerVersion(line) = event else { panic!("{event:?}") };
            line
        });
        versions.collect()
    }

    #[tokio::test]
    async fn the_version_line_or_the_first_line_is_traced() {
        for (received, expected) in [
            (&b"SSH-2.0-OpenSSH_9.2\r\nbinary"[..], &["SSH-2.0-OpenSSH_9.2"][..]),
            (b"welcome\r\nSSH-2.0-x\r\n", &["SSH-2.0-x"]),
            (b"welcome\r\nSSH-1.5-x\r\n", &["SSH-1.5-x"]),
            (b"HTTP/1.1 400 Bad\x1b[2J\r\n\r\n", &["HTTP/1.1 400 Bad [2J"]),
            (b"no line", &["no line"]),
            (b"", &[]),
        ] {
            assert_eq!(traced_versions(received).await, expected);
        }
        let long = traced_versions(&[b'x'; 9000]).await;
        assert!(long.len() == 1 && long[0].chars().count() < 300, "{long:?}");
    }
}
