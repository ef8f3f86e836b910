//! A connection through a gateway: one channel of the gateway's session.
//!
//! russh hands out what arrives on all channels of a session in one go: a channel whose reader has
//! stopped would stop all the others. So each channel is emptied into a bounded buffer of its own,
//! and a reader that leaves that buffer full for too long loses its channel.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use russh::client::Msg;
use russh::{Channel, ChannelMsg};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, SimplexStream, simplex};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// What may wait to be read. A probe's sample is 2 KiB; the longest frame is 1 MiB.
const BUFFER: usize = 256 * 1024;

/// How long a reader may leave its buffer full: meanwhile the others behind the gateway wait too.
const STALL: Duration = Duration::from_secs(3);

/// The end a session runs over. Dropping it closes the channel.
pub(super) struct Tunnel {
    incoming: ReadHalf<SimplexStream>,
    outgoing: Pin<Box<dyn AsyncWrite + Send>>,
    state: Arc<State>,
    _held: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    is_over: AtomicBool,
    writer: AtomicWaker,
}

/// Does the work of one tunnel until it ends, and then closes the channel.
pub(super) struct Pump {
    channel: Channel<Msg>,
    inlet: tokio::io::WriteHalf<SimplexStream>,
    state: Arc<State>,
    let_go: oneshot::Receiver<()>,
}

/// Makes a tunnel of an open channel; the pump must run for it to work.
pub(super) fn tunnel(channel: Channel<Msg>) -> (Tunnel, Pump) {
    let (incoming, inlet) = simplex(BUFFER);
    let outgoing = Box::pin(channel.make_writer());
    let state = Arc::new(State::default());
    let (held, let_go) = oneshot::channel();
    let pump = Pump { channel, inlet, state: Arc::clone(&state), let_go };
    (Tunnel { incoming, outgoing, state, _held: held }, pump)
}

impl Pump {
    /// Passes on what arrives until either side has enough.
    pub(super) async fn run(mut self) {
        loop {
            let message = tokio::select! {
                message = self.channel.wait() => message,
                _ = &mut self.let_go => break,
            };
            match message {
                Some(ChannelMsg::Data { data }) => {
                    match timeout(STALL, self.inlet.write_all(&data)).await {
                        Ok(Ok(())) => {}
                        // Nobody reads any more, or not soon enough.
                        Ok(Err(_)) | Err(_) => break,
                    }
                }
                Some(ChannelMsg::Eof | ChannelMsg::Close) | None => break,
                Some(_) => {}
            }
        }
        self.state.is_over.store(true, Ordering::Release);
        self.state.writer.wake();
        // The reader gets what is in the buffer, and then the end.
        drop(self.inlet);
        // A session that is gone has no channel to close.
        self.channel.close().await.ok();
    }
}

impl AsyncRead for Tunnel {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.incoming).poll_read(context, buffer)
    }
}

impl AsyncWrite for Tunnel {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.state.writer.register(context.waker());
        // russh would wait for room without end when the gateway is gone.
        if self.state.is_over.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.outgoing.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.state.is_over.load(Ordering::Acquire) {
            return Poll::Ready(Ok(()));
        }
        self.outgoing.as_mut().poll_shutdown(context)
    }
}
