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
    greeting: Greeting,
    /// When somebody wants to know the greeting.
    ear: Option<Box<Ear>>,
}

/// Looks for the line that only a server of SSH sends; others may come before it.
#[derive(Debug, Clone, Copy)]
enum Greeting {
    /// So many letters of it have come, in this line.
    Begun(usize),
    /// This line is another one.
    Other,
    /// It has come.
    Heard,
}

impl Greeting {
    const BEGINS: &'static [u8] = b"SSH-";

    fn hear(self, bytes: &[u8]) -> Self {
        bytes.iter().fold(self, |state, byte| match state {
            Self::Heard => Self::Heard,
            _ if *byte == b'\n' => Self::Begun(0),
            Self::Begun(count) if Self::BEGINS.get(count) == Some(byte) => {
                if count + 1 == Self::BEGINS.len() { Self::Heard } else { Self::Begun(count + 1) }
            }
            Self::Begun(_) | Self::Other => Self::Other,
        })
    }
}

/// The end we hold; dropping it cuts the cable.
#[derive(Debug)]
pub(super) struct Holder(Arc<State>);

#[derive(Debug, Default)]
struct State {
    is_cut: AtomicBool,
    has_greeted: AtomicBool,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

/// Wraps a connection.
pub(super) fn cable(stream: Box<dyn Stream>) -> (Cable, Holder) {
    let state = Arc::new(State::default());
    let ear = Ear::listening().map(Box::new);
    (Cable { stream, state: Arc::clone(&state), greeting: Greeting::Begun(0), ear }, Holder(state))
}

impl Holder {
    /// Returns whether the other side has presented itself as a server of SSH.
    pub(super) fn has_greeted(&self) -> bool {
        self.0.has_greeted.load(Ordering::Acquire)
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
        let heard = buffer.filled().get(before..).unwrap_or_default();
        if let Some(ear) = &mut self.ear {
            ear.hear(heard);
        }
        if !matches!(self.greeting, Greeting::Heard) {
            self.greeting = self.greeting.hear(heard);
            if matches!(self.greeting, Greeting::Heard) {
                self.state.has_greeted.store(true, Ordering::Release);
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

    #[test]
    fn only_the_line_of_an_ssh_server_is_a_greeting() {
        let greets = |pieces: &[&str]| {
            let heard = |state: Greeting, piece: &&str| state.hear(piece.as_bytes());
            matches!(pieces.iter().fold(Greeting::Begun(0), heard), Greeting::Heard)
        };
        for pieces in [&["SSH-2.0-x\r\n"][..], &["S", "SH", "-"], &["be nice\r\n", "SSH-2.0"]] {
            assert!(greets(pieces), "{pieces:?}");
        }
        for pieces in [&["HTTP/1.1 400 SSH-\r\n"][..], &["SSH"], &[" SSH-2.0"], &["SSSH-2.0"], &[]]
        {
            assert!(!greets(pieces), "{pieces:?}");
        }
    }

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
