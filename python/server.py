"""The gtop that all Python processes of this user on this machine share, and connections to it."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
import time
from typing import IO, Iterator, List, Optional

# A snapshot is longer only if something is wrong.
_MAX_LINE_BYTES = 1 << 28
# How long another process may be about to start gtop.
_LOCK_SECONDS = 5.0
# What decides, besides its arguments, what gtop prints of this machine, and of others.
_LOCAL_VARIABLES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
_VARIABLES = ("PATH", "SLURM_CONF", "SLURM_JOB_ID", "SSH_AUTH_SOCK")
_NAMESPACES = ("pid", "mnt", "net")


class GtopError(RuntimeError):
    """gtop cannot be run, or what it prints cannot be used; the text says what to do."""


def program(path: Optional[str] = None) -> str:
    """Returns the path of gtop: `path`, else the variable GTOP, else gtop on the PATH.

    Raises GtopError if there is none.
    """
    wanted = path or os.environ.get("GTOP") or "gtop"
    found = shutil.which(wanted)
    if found is None:
        raise GtopError("%s was not found: copy gtop to a folder of PATH, or set GTOP to its path" % wanted)
    return found


class Connection:
    """A connection to a gtop that prints snapshots; gtop ends with the last connection to it.

    All processes of this user that run the same program with the same arguments and settings share one gtop: the first
    of them starts it. `is_starter` is true if this connection did. With `is_alone`, it does in any case.
    """

    def __init__(self, command: List[str], is_alone: bool = False) -> None:
        self.is_starter = False
        self._errors = None  # type: Optional[IO[bytes]]
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            try:
                self._share(command, is_alone)
            except OSError:
                # No folder that only this user can enter: the next process starts a gtop of its own.
                folder = tempfile.mkdtemp(prefix="gtop-")
                try:
                    self._start(command, os.path.join(folder, "socket"))
                finally:
                    shutil.rmtree(folder, True)
        except OSError as error:
            self._socket.close()
            raise GtopError("no connection to gtop: %s" % error) from error
        except GtopError:
            self._socket.close()
            raise

    def _share(self, command: List[str], is_alone: bool) -> None:
        with _locked_folder() as folder:
            path = os.path.join(folder, _socket_name(command))
            if not is_alone:
                with contextlib.suppress(OSError):
                    self._socket.connect(path)
                    return
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
            _remove_stale(folder)
            self._start(command, path)

    def _start(self, command: List[str], path: str) -> None:
        """Starts gtop with a listening socket at this path: it is connected to before gtop runs."""
        self._errors = tempfile.TemporaryFile()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(path)
            listener.listen(4096)
            self._socket.connect(path)
            try:
                child = subprocess.Popen(command, stdin=listener.fileno(), stdout=subprocess.DEVNULL,
                                         stderr=self._errors, start_new_session=True)
            except OSError as error:
                os.remove(path)
                raise GtopError("%s cannot be run: %s" % (command[0], error)) from error
        self.is_starter = True
        # gtop may end long before this process, and long after it.
        threading.Thread(target=child.wait, name="gtop", daemon=True).start()

    def lines(self) -> Iterator[bytes]:
        """Yields what gtop prints, until it ends or `close` is called."""
        parts = []  # type: List[bytes]
        size = 0
        while size < _MAX_LINE_BYTES:
            try:
                part = self._socket.recv(1 << 18)
            except OSError:
                return
            if not part:
                return
            *whole_lines, part = part.split(b"\n")
            for line in whole_lines:
                yield b"".join(parts) + line
                parts, size = [], 0
            parts.append(part)
            size += len(part)

    def close(self) -> None:
        """Ends the connection; a thread that waits for lines sees the end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """Closes the socket, once no thread waits for lines."""
        self._socket.close()

    def abandon(self) -> None:
        """Closes the socket in a process that was forked: the connection is the parent's."""
        with contextlib.suppress(OSError):
            os.close(self._socket.detach())

    def reason(self) -> str:
        """Returns why gtop has ended, if it did: the end of what it printed to standard error."""
        said = ""
        if self._errors is not None:
            size = self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(0, size - 4096))
            said = self._errors.read().decode("utf-8", "replace").strip()
        if "--feed" in said:
            return "this gtop is older than this file: make it anew with `gtop python > gtop_monitor.py`"
        return "gtop has ended: " + (said or "it printed nothing")


def _remove_stale(folder: str) -> None:
    """Removes the sockets of gtops that were killed or never ran: nobody listens there. The folder is locked."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if not name.startswith("python-"):
            continue
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)
            except OSError:
                # It has gone by itself.
                continue


def _socket_name(command: List[str]) -> str:
    """Returns the name of the socket, which tells apart what must not share a gtop.

    A program that was replaced has another one, and so has a container.
    """
    path = os.path.realpath(command[0])
    found = os.stat(path)
    is_local = command[-1] == "--local"
    wanted = _LOCAL_VARIABLES if is_local else _LOCAL_VARIABLES + _VARIABLES
    variables = sorted((name, value) for name, value in os.environ.items()
                       if name in wanted or name.startswith(("GTOP_", "NVITOP_")))
    namespaces = []
    for name in _NAMESPACES:
        with contextlib.suppress(OSError):
            namespaces.append(os.readlink("/proc/self/ns/" + name))
    parts = (path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, command[1:], variables, namespaces,
             None if is_local else os.getcwd())
    return "python-" + hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:20]


@contextlib.contextmanager
def _locked_folder() -> Iterator[str]:
    """Creates and locks the folder of gtop's sockets. Raises OSError."""
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        folder = _socket_folder()
        handle = os.open(folder, os.O_RDONLY)
        try:
            if _is_locked(handle, folder):
                yield folder
                return
        finally:
            # Even if another thread has forked a process meanwhile, which has the handle too.
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)
        if time.monotonic() > end:
            raise TimeoutError("%s is locked by another process" % folder)
        time.sleep(0.01)


def _is_locked(handle: int, folder: str) -> bool:
    """Locks an open folder; returns false if another process has the lock, or if the folder was removed meanwhile."""
    with contextlib.suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), os.stat(folder))
    return False


def _socket_folder() -> str:
    """Returns the folder of gtop's sockets, which only this user can enter, and creates it. Raises OSError."""
    uid = os.geteuid()
    parents = (os.environ.get("XDG_RUNTIME_DIR", ""), "/run/user/%d" % uid)
    folder = next((os.path.join(parent, "gtop") for parent in parents if _is_private(parent)), "/tmp/gtop-%d" % uid)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    if not _is_private(folder):
        raise PermissionError("%s is not a private folder of this user" % folder)
    return folder


def _is_private(path: str) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return (os.path.isabs(path) and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            and not found.st_mode & 0o077)
