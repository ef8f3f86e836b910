//! A Unix socket that only its owner can connect to.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net::sockopt::socket_acceptconn;
use rustix::process::{geteuid, umask};

/// A listening socket of mode 0600; dropping it removes the file.
#[derive(Debug)]
pub struct PrivateSocket {
    listener: UnixListener,
    path: PathBuf,
    inode: u64,
}

impl PrivateSocket {
    /// Listens at `path`; replaces the socket of a program of this user that has ended.
    ///
    /// The file mode mask of the process changes for a moment: no other thread may create files meanwhile.
    ///
    /// # Errors
    ///
    /// If something else is there, if the socket is in use, or if the folder cannot be written.
    pub fn bind(path: &Path) -> io::Result<Self> {
        if let Ok(metadata) = fs::symlink_metadata(path) {
            if !metadata.file_type().is_socket() || metadata.uid() != geteuid().as_raw() {
                let message = "it exists and is not a socket of yours; choose another path";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
            if UnixStream::connect(path).is_ok() {
                let message = "another program listens there; end it, or choose another path";
                return Err(io::Error::new(io::ErrorKind::AddrInUse, message));
            }
            fs::remove_file(path)?;
        }
        let mask = umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(path);
        umask(mask);
        let listener = listener?;
        let inode = fs::symlink_metadata(path)?.ino();
        Ok(Self { listener, path: path.to_owned(), inode })
    }

    /// Takes the listening socket that is this program's standard input.
    ///
    /// # Errors
    ///
    /// If standard input is no socket that listens in a folder.
    pub fn inherited() -> io::Result<Self> {
        let listener = UnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
        let listens = socket_acceptconn(&listener).is_ok_and(|listens| listens);
        let address = listener.local_addr().ok().filter(|_| listens);
        let Some(path) = address.as_ref().and_then(|address| address.as_pathname()) else {
            let message = "standard input is not a listening socket";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        };
        let path = path.to_owned();
        // Whoever made the socket may have removed its file already; no file has this number.
        let inode = fs::symlink_metadata(&path).map_or(0, |found| found.ino());
        Ok(Self { listener, path, inode })
    }

    /// Returns another handle of the listening socket.
    pub fn listener(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

impl Drop for PrivateSocket {
    fn drop(&mut self) {
        // Another program may have put its own socket there.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            fs::remove_file(&self.path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_that_nobody_listens_on_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gtop.sock");
        let first = PrivateSocket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let kind = |path: &Path| PrivateSocket::bind(path).unwrap_err().kind();
        assert_eq!(kind(&path), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(!path.exists());
        // The file of a listener that has ended without removing it.
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(PrivateSocket::bind(&path).unwrap());
        fs::write(&path, "mine").unwrap();
        assert_eq!(kind(&path), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }
}
