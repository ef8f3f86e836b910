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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::ssh::connection::Stream;
use crate::ssh::trace::VersionTap;

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
pub(crate) struct CancellableStream {
    stream: Box<dyn Stream>,
    ahead: ReadAhead,
    state: Arc<State>,
    version_scan: VersionScan,
    /// Set when the connection is traced.
    version_tap: Option<Box<VersionTap>>,
}

/// Looks for the version line of an SSH server; other lines may come before it.
#[derive(Debug, Clone, Copy)]
enum VersionScan {
    /// This many bytes of `SSH-` were seen at the start of this line.
    Prefix(usize),
    /// The current line is another one.
    OtherLine,
    Found,
}

impl VersionScan {
    const PREFIX: &'static [u8] = b"SSH-";

    fn feed(self, bytes: &[u8]) -> Self {
        bytes.iter().fold(self, |state, byte| match state {
            Self::Found => Self::Found,
            _ if *byte == b'\n' => Self::Prefix(0),
            Self::Prefix(count) if Self::PREFIX.get(count) == Some(byte) => {
                if count + 1 == Self::PREFIX.len() { Self::Found } else { Self::Prefix(count + 1) }
            }
            Self::Prefix(_) | Self::OtherLine => Self::OtherLine,
        })
    }
}

/// Cancels the stream when dropped.
#[derive(Debug)]
pub(crate) struct CancelGuard(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_cancelled: AtomicBool,
    has_seen_version: AtomicBool,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

pub(crate) fn cancellable(stream: Box<dyn Stream>) -> (CancellableStream, CancelGuard) {
    let state = Arc::new(State::default());
    let version_tap = VersionTap::if_traced().map(Box::new);
    let (ahead, version_scan) = (ReadAhead::default(), VersionScan::Prefix(0));
    (
        CancellableStream { stream, ahead, state: Arc::clone(&state), version_scan, version_tap },
        CancelGuard(state),
    )
}

impl CancellableStream {
    /// Copies buffered bytes; returns false if there are none.
    fn copy_buffered(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let ReadAhead { buffer: chunk, unread } = &mut self.ahead;
        let rest = chunk.get(unread.clone()).unwrap_or_default();
        if rest.is_empty() {
            return false;
        }
        let copied = rest.get(..buffer.remaining()).unwrap_or(rest);
        buffer.put_slice(copied);
        unread.start += copied.len();
        if unread.start >= unread.end {
            SPARE_BUFFER.set(Some(std::mem::take(chunk)));
        }
        true
    }

    /// Reads from the connection, and copies what was asked for.
    fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut chunk = SPARE_BUFFER.take().unwrap_or_else(|| vec![0; READ_SIZE].into());
        let mut filling = ReadBuf::new(&mut chunk);
        let polled = Pin::new(&mut self.stream).poll_read(context, &mut filling);
        let count = filling.filled().len();
        if matches!(polled, Poll::Ready(Ok(()))) && count > 0 {
            self.observe(chunk.get(..count).unwrap_or_default());
            self.ahead = ReadAhead { buffer: chunk, unread: 0..count };
            self.copy_buffered(buffer);
        } else {
            SPARE_BUFFER.set(Some(chunk));
        }
        polled
    }

    fn observe(&mut self, bytes: &[u8]) {
        if let Some(version_tap) = &mut self.version_tap {
            version_tap.feed(bytes);
        }
        if !matches!(self.version_scan, VersionScan::Found) {
            self.version_scan = self.version_scan.feed(bytes);
            if matches!(self.version_scan, VersionScan::Found) {
                self.state.has_seen_version.store(true, Ordering::Release);
            }
        }
    }
}

impl CancelGuard {
    /// Returns true if the server has sent its SSH version line.
    pub(crate) fn has_seen_version(&self) -> bool {
        self.0.has_seen_version.load(Ordering::Acquire)
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

    #[test]
    fn only_the_version_line_of_an_ssh_server_is_a_banner() {
        let has_version = |chunks: &[&str]| {
            let feed = |state: VersionScan, chunk: &&str| state.feed(chunk.as_bytes());
            matches!(chunks.iter().fold(VersionScan::Prefix(0), feed), VersionScan::Found)
        };
        for chunks in [&["SSH-2.0-x\r\n"][..], &["S", "SH", "-"], &["be nice\r\n", "SSH-2.0"]] {
            assert!(has_version(chunks), "{chunks:?}");
        }
        for chunks in [&["HTTP/1.1 400 SSH-\r\n"][..], &["SSH"], &[" SSH-2.0"], &["SSSH-2.0"], &[]]
        {
            assert!(!has_version(chunks), "{chunks:?}");
        }
    }

    #[tokio::test]
    async fn bytes_arrive_in_order_for_any_read_size() {
        let (near, mut far) = tokio::io::duplex(64 * 1024);
        let (mut cancellable, _cancel_guard) = cancellable(Box::new(near));
        let sent: Vec<u8> =
            (0..50_000_u32).map(|index| u8::try_from(index % 251).unwrap()).collect();
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
}
