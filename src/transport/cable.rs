//! A connection that can be cut from outside.
//!
//! russh runs a connection in a task of its own, which cannot be told anything
//! during the key exchange. Cutting the cable under it ends the task at once, so
//! a node that is given up leaves neither a task nor a descriptor behind.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transport::notes::Ear;

/// What a session of SSH runs over: TCP, a channel of another session, the pipes of a program.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// The end russh holds.
pub(super) struct Cable {
    stream: Box<dyn Stream>,
    state: Arc<State>,
    /// When somebody wants to know the greeting.
    ear: Option<Box<Ear>>,
}

/// The end we hold; dropping it cuts the cable.
#[derive(Debug)]
pub(super) struct Holder(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_cut: AtomicBool,
    has_spoken: AtomicBool,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

/// Wraps a connection.
pub(super) fn cable(stream: Box<dyn Stream>) -> (Cable, Holder) {
    let state = Arc::new(State::default());
    let ear = Ear::listening().map(Box::new);
    (Cable { stream, state: Arc::clone(&state), ear }, Holder(state))
}

impl Holder {
    /// Returns whether anything at all came from the other side.
    pub(super) fn has_spoken(&self) -> bool {
        self.0.has_spoken.load(Ordering::Acquire)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.is_cut.store(true, Ordering::Release);
        self.0.reader.wake();
        self.0.writer.wake();
    }
}

impl State {
    /// Fails when the cable is cut, and otherwise makes sure `waker` hears of it.
    fn watch(&self, waker: &AtomicWaker, context: &Context<'_>) -> io::Result<()> {
        waker.register(context.waker());
        if self.is_cut.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl AsyncRead for Cable {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.state.watch(&self.state.reader, context)?;
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.state.has_spoken.store(true, Ordering::Release);
            if let Some(ear) = &mut self.ear {
                ear.hear(buffer.filled().get(before..).unwrap_or_default());
            }
        }
        polled
    }
}

impl AsyncWrite for Cable {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.state.watch(&self.state.writer, context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.state.watch(&self.state.writer, context)?;
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
    async fn a_reader_wakes_up_when_the_cable_is_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stream, _peer) =
            tokio::try_join!(TcpStream::connect(address), listener.accept()).unwrap();
        let (mut cable, holder) = cable(Box::new(stream));
        let mut buffer = [0; 1];
        let (read, ()) = tokio::join!(cable.read(&mut buffer), async { drop(holder) });
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }
}
