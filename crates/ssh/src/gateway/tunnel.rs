//! A connection through a gateway: one channel of the gateway's session.
//!
//! russh delivers the data of all channels of a session in one task: one reader that stops would block all others.
//! So each channel has its own bounded buffer, and a reader that leaves it full for too long loses its channel.

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

/// Bytes that may wait to be read. A sample is 2 KiB; the longest frame is 1 MiB.
const BUFFER_SIZE: usize = 256 * 1024;

/// How long a reader may leave its buffer full; meanwhile all nodes behind the gateway wait.
const STALL_TIMEOUT: Duration = Duration::from_secs(3);

/// The stream of a session through a gateway. Dropping it closes the channel.
pub(crate) struct Tunnel {
    incoming: ReadHalf<SimplexStream>,
    outgoing: Pin<Box<dyn AsyncWrite + Send>>,
    state: Arc<State>,
    _drop_signal: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    is_over: AtomicBool,
    writer: AtomicWaker,
}

/// Moves the data of one tunnel, then closes the channel.
pub(crate) struct Pump {
    channel: Channel<Msg>,
    writer: tokio::io::WriteHalf<SimplexStream>,
    state: Arc<State>,
    dropped: oneshot::Receiver<()>,
}

/// Turns an open channel into a tunnel; the pump must be run.
pub(crate) fn tunnel(channel: Channel<Msg>) -> (Tunnel, Pump) {
    let (incoming, writer) = simplex(BUFFER_SIZE);
    let outgoing = Box::pin(channel.make_writer());
    let state = Arc::new(State::default());
    let (drop_signal, dropped) = oneshot::channel();
    let pump = Pump { channel, writer, state: Arc::clone(&state), dropped };
    (Tunnel { incoming, outgoing, state, _drop_signal: drop_signal }, pump)
}

impl Pump {
    /// Passes on received data until either side closes.
    pub(crate) async fn run(mut self) {
        loop {
            let message = tokio::select! {
                message = self.channel.wait() => message,
                _ = &mut self.dropped => break,
            };
            match message {
                Some(ChannelMsg::Data { data }) => tokio::select! {
                    written = timeout(STALL_TIMEOUT, self.writer.write_all(&data)) => match written {
                        Ok(Ok(())) => {}
                        Ok(Err(_)) | Err(_) => break,
                    },
                    _ = &mut self.dropped => break,
                },
                Some(ChannelMsg::Eof | ChannelMsg::Close) | None => break,
                Some(_) => {}
            }
        }
        self.state.is_over.store(true, Ordering::Release);
        self.state.writer.wake();
        // The reader gets the rest of the buffer, then the end.
        self.writer.shutdown().await.ok();
        // Fails only if the session has ended.
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
        // russh would wait for window space forever when the gateway is gone.
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

#[cfg(test)]
mod tests {
    use russh::keys::ssh_key::private::{Ed25519Keypair, KeypairData};
    use russh::keys::{PrivateKey, PublicKeyOrCertificate};
    use russh::{client, server};
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    struct AcceptAnyKey;

    impl client::Handler for AcceptAnyKey {
        type Error = russh::Error;

        async fn check_server_key(
            &mut self,
            _: &PublicKeyOrCertificate,
        ) -> Result<bool, russh::Error> {
            Ok(true)
        }
    }

    /// Sends without end on the channel to port 1, and back what comes on others.
    struct Gateway;

    impl server::Handler for Gateway {
        type Error = russh::Error;

        async fn auth_none(&mut self, _: &str) -> Result<server::Auth, russh::Error> {
            Ok(server::Auth::Accept)
        }

        async fn channel_open_direct_tcpip(
            &mut self,
            channel: Channel<server::Msg>,
            _: &str,
            port: u32,
            _: &str,
            _: u32,
            reply: server::ChannelOpenHandle,
            _: &mut server::Session,
        ) -> Result<(), russh::Error> {
            reply.accept().await;
            let mut stream = channel.into_stream();
            tokio::spawn(async move {
                if port == 1 {
                    while stream.write_all(&[b'y'; 4096]).await.is_ok() {}
                    return;
                }
                let (mut reader, mut writer) = tokio::io::split(stream);
                tokio::io::copy(&mut reader, &mut writer).await.ok();
            });
            Ok(())
        }
    }

    async fn connect() -> client::Handle<AcceptAnyKey> {
        let (near, far) = duplex(64 * 1024);
        let pair = Ed25519Keypair::from_seed(&[7; 32]);
        let key = PrivateKey::new(KeypairData::Ed25519(pair), "").unwrap();
        let config = server::Config { keys: vec![key], ..server::Config::default() };
        let serving = server::run_stream(Arc::new(config), far, Gateway);
        let serving = tokio::spawn(async move { serving.await.unwrap().await });
        let config =
            Arc::new(client::Config { channel_buffer_size: 16, ..client::Config::default() });
        let mut handle = client::connect_stream(config, near, AcceptAnyKey).await.unwrap();
        drop(serving);
        assert!(handle.authenticate_none("ada").await.unwrap().success());
        handle
    }

    async fn open(handle: &client::Handle<AcceptAnyKey>, port: u32) -> Tunnel {
        let channel = handle.channel_open_direct_tcpip("n1", port, "here", 0).await.unwrap();
        let (tunnel, pump) = tunnel(channel);
        tokio::spawn(pump.run());
        tunnel
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_reader_loses_its_channel_and_others_keep_theirs() {
        let handle = connect().await;
        let mut stopped = open(&handle, 1).await;
        let mut other = open(&handle, 2).await;
        for _ in 0..2000 {
            other.write_all(b"ping").await.unwrap();
            let mut answer = [0; 4];
            other.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"ping");
        }
        let mut rest = Vec::new();
        stopped.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest.len(), BUFFER_SIZE, "what was in the buffer, and then the end");
        assert!(stopped.write_all(b"x").await.is_err());
    }

    #[tokio::test]
    async fn a_dropped_tunnel_is_closed() {
        let handle = connect().await;
        let metrics = tokio::runtime::Handle::current().metrics();
        let before = metrics.num_alive_tasks();
        let mut tunnel = open(&handle, 2).await;
        tunnel.write_all(b"ping").await.unwrap();
        tunnel.read_exact(&mut [0; 4]).await.unwrap();
        assert!(metrics.num_alive_tasks() > before);
        drop(tunnel);
        // The far side of the channel ends too.
        while metrics.num_alive_tasks() > before {
            tokio::task::yield_now().await;
        }
    }
}
