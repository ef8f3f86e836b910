//! `--json --watch --feed`: snapshots for all programs that connect to a socket, such as the Python processes of a user.
//!
//! The socket listens before gtop starts, so that a program that starts gtop connects without waiting.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use gtop_local::storage::{PrivateSocket, socket_folder};

/// How long to wait for files to be closed if no more can be opened, and for the first program.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The programs that get the snapshots.
pub(super) struct Feed {
    socket: PrivateSocket,
    latest: watch::Receiver<SnapshotText>,
}

/// One snapshot as text, shared by all programs; empty before the first one.
type SnapshotText = Arc<[u8]>;

/// Where snapshots are printed: each write is one of them.
pub(super) struct FeedWriter(watch::Sender<SnapshotText>);

impl Write for FeedWriter {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.send_replace(Arc::from(text));
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Feed {
    /// Takes the listening socket that is standard input.
    pub(super) fn open() -> io::Result<(FeedWriter, Self)> {
        let socket = PrivateSocket::inherited()?;
        let (sender, latest) = watch::channel(SnapshotText::default());
        Ok((FeedWriter(sender), Self { socket, latest }))
    }

    /// Serves the programs until none is left; then the socket is gone.
    pub(super) async fn serve(self) -> io::Result<()> {
        let pending = self.socket.listener()?;
        pending.set_nonblocking(true)?;
        let listener = UnixListener::from_std(self.socket.listener()?)?;
        let mut programs = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => Some(stream),
                    Err(_too_many_files) => {
                        sleep(RETRY_INTERVAL).await;
                        None
                    }
                },
                Some(_ended) = programs.join_next() => None,
                () = sleep(RETRY_INTERVAL), if programs.is_empty() => None,
            };
            // Without the runtime, which may not have noticed yet that a program connects.
            let accepted = match accepted {
                None if programs.is_empty() => accept_now(&pending)?,
                accepted => accepted,
            };
            match accepted {
                Some(stream) => drop(programs.spawn(send(stream, self.latest.clone()))),
                None if programs.is_empty() => break,
                None => {}
            }
        }
        // A program that connects meanwhile sees the end before a snapshot, and starts a gtop of its own.
        drop(self.socket);
        socket_folder::remove_if_empty();
        Ok(())
    }
}

/// Accepts a program that waits already.
fn accept_now(listener: &std::os::unix::net::UnixListener) -> io::Result<Option<UnixStream>> {
    match listener.accept() {
        Ok((stream, _)) => {
            stream.set_nonblocking(true)?;
            UnixStream::from_std(stream).map(Some)
        }
        Err(_nobody) => Ok(None),
    }
}

/// Sends the latest snapshot, and each after it that the program has time for, until it disconnects.
async fn send(mut stream: UnixStream, mut latest: watch::Receiver<SnapshotText>) {
    let (mut input, mut output) = stream.split();
    let mut byte = [0];
    let sending = async {
        loop {
            let line = SnapshotText::clone(&latest.borrow_and_update());
            if output.write_all(&line).await.is_err() || latest.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        // Programs send nothing: this is the end, or an error.
        _end = input.read(&mut byte) => {}
        () = sending => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_line(program: &mut UnixStream) -> Vec<u8> {
        let mut line = vec![0; 4];
        program.read_exact(&mut line).await.unwrap();
        line
    }

    #[tokio::test]
    async fn programs_get_the_latest_snapshot_and_the_last_of_them_ends_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("feed");
        let (sender, latest) = watch::channel(SnapshotText::default());
        let feed = Feed { socket: PrivateSocket::bind(&path).unwrap(), latest };
        let mut writer = FeedWriter(sender);
        writer.write_all(b"one\n").unwrap();
        writer.write_all(b"two\n").unwrap();
        // It waits before anybody accepts it.
        let mut first = UnixStream::connect(&path).await.unwrap();
        let programs = async {
            assert_eq!(read_line(&mut first).await, b"two\n");
            let mut second = UnixStream::connect(&path).await.unwrap();
            assert_eq!(read_line(&mut second).await, b"two\n");
            drop(first);
            writer.write_all(b"six\n").unwrap();
            assert_eq!(read_line(&mut second).await, b"six\n");
            assert!(path.exists());
        };
        let (served, ()) = tokio::join!(feed.serve(), programs);
        served.unwrap();
        assert!(!path.exists());
    }
}
