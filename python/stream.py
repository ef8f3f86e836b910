"""Streams: what gtop prints of nodes, one snapshot per interval, and the rows of devices and processes in it."""

import atexit
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from typing import IO, Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from .values import NA, MaybeFloat, MaybeInt, NaType, keep

SCHEMA = 2
# A snapshot is longer only if something is wrong.
_MAX_LINE_BYTES = 1 << 28
# The values of a device count as unknown if gtop has printed nothing for so many intervals, and so many seconds.
_MISSED_INTERVALS = 3
_MISSED_SECONDS = 5.0
_RESTART_SECONDS = 5.0
# How long the first call waits until all nodes have answered or failed.
_DEADLINE_SECONDS = 20.0

Row = Dict[str, Any]


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


class View:
    """One snapshot: the object of `gtop --json`, when it was received, and its rows by node and UUID."""

    def __init__(self, snapshot: Row, received: float) -> None:
        if snapshot.get("schema") != SCHEMA:
            raise GtopError("gtop prints schema %r, and this file reads schema %d: make it anew with "
                            "`gtop python > gtop_monitor.py`" % (snapshot.get("schema"), SCHEMA))
        self.snapshot = snapshot
        self.received = received
        self.nodes = dict((node["name"], node) for node in snapshot["nodes"])  # type: Dict[str, Row]
        self.rows = {}  # type: Dict[Tuple[str, str], Row]
        # By the device that they are cut from.
        self.slices = {}  # type: Dict[Tuple[str, str], List[Row]]
        for name, node in self.nodes.items():
            for row in node["devices"]:
                self.rows[name, row["uuid"]] = row
                if row["parent"] is not None:
                    self.slices.setdefault((name, row["parent"]), []).append(row)

    def is_settled(self) -> bool:
        """Returns true if each source of each node has answered, or failed with a reason."""
        return all(_is_node_settled(node) for node in self.nodes.values())


def _is_node_settled(node: Row) -> bool:
    if node["fault"] is not None:
        return True
    sources = dict((source["id"], source) for source in node["sources"])

    def is_settled(source: Row) -> bool:
        # The slower groups of a source that is missing never answer.
        main = sources.get(source["id"].split(".")[0], source)
        return source["age_seconds"] is not None or any(one["fault"] or one["absent"] for one in (source, main))

    return bool(sources) and all(is_settled(source) for source in sources.values())


class Stream:
    """Snapshots of nodes, from a gtop that runs as long as they are used.

    `hosts` and `options` are arguments of gtop: hosts to watch, and such as `["--slurm"]` or `["--demo"]`; default: this
    machine. `interval` is in seconds. gtop starts at the first use and ends with this process, or with `close()`.

    A process that was forked starts a gtop of its own when it uses the stream.
    """

    def __init__(self, hosts: Iterable[str] = (), interval: float = 1.0, options: Iterable[str] = (),
                 path: Optional[str] = None) -> None:
        if not interval > 0 or not math.isfinite(interval):
            raise ValueError("interval must be a number of seconds above 0, not %r" % (interval,))
        self.interval = float(interval)
        named = [str(host) for host in hosts]
        self._words = list(options) + (["--"] + named if named else [])
        if not self._words:
            self._words = ["--local"]
        self._path = path
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._forget()

    def _forget(self) -> None:
        self._owner = os.getpid()
        self._child = None  # type: Optional[subprocess.Popen[bytes]]
        self._reader = None  # type: Optional[threading.Thread]
        self._errors = None  # type: Optional[IO[bytes]]
        self._line = None  # type: Optional[bytes]
        self._lines = 0
        self._received = -math.inf
        self._view = None  # type: Optional[View]
        self._settled = False
        self._started = -math.inf
        self._failures = 0

    def view(self) -> View:
        """Returns the latest snapshot; the first call waits until all nodes have answered or failed.

        Raises GtopError if gtop cannot run or ends.
        """
        if self._owner != os.getpid():
            # Forked: the gtop and the thread belong to the parent, and the lock may be held by nobody who is here.
            self._lock = threading.RLock()
            self._changed = threading.Condition(self._lock)
            self._forget()
        with self._lock:
            if self._child is None:
                self._start()
            if not self._settled:
                self._wait_until_settled()
            return self._parsed()

    def is_current(self) -> bool:
        """Returns true if gtop still prints."""
        return time.monotonic() - self._received <= max(_MISSED_SECONDS, _MISSED_INTERVALS * self.interval)

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits for the next snapshot; returns false after `timeout` seconds without one, or if gtop has ended."""
        self.view()
        with self._lock:
            before = self._lines
            self._changed.wait_for(lambda: self._lines != before or self._child is None, timeout)
            return self._lines != before

    def close(self) -> None:
        """Ends gtop. The stream starts again if it is used again."""
        if self._owner != os.getpid():
            return
        with self._lock:
            child, reader = self._child, self._reader
            self._forget()
        if child is not None and reader is not None:
            _end(child)
            # It holds the pipe as long as anybody can write to it.
            reader.join(2)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_why: object) -> None:
        self.close()

    def _start(self) -> None:
        if self._failures and time.monotonic() - self._started < _RESTART_SECONDS and self._view is not None:
            return
        self._started = time.monotonic()
        command = [program(self._path), "--json", "--watch", "--interval", repr(self.interval)] + self._words
        self._errors = tempfile.TemporaryFile()
        try:
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                           stderr=self._errors, start_new_session=True)
        except OSError as error:
            raise GtopError("%s cannot be run: %s" % (command[0], error)) from error
        if self not in _open_streams:
            _open_streams.append(self)
        self._reader = threading.Thread(target=self._read, args=(self._child,), name="gtop stream", daemon=True)
        self._reader.start()

    def _read(self, child: "subprocess.Popen[bytes]") -> None:
        """Keeps the latest line: only what is asked for is parsed."""
        assert child.stdout is not None
        with child.stdout:
            line = child.stdout.readline(_MAX_LINE_BYTES)
            while line.endswith(b"\n") and self._keep(child, line):
                line = child.stdout.readline(_MAX_LINE_BYTES)
        with self._lock:
            if self._child is child:
                self._child = None
                self._failures += 1
                self._changed.notify_all()
        _end(child)

    def _keep(self, child: "subprocess.Popen[bytes]", line: bytes) -> bool:
        """Returns false if the stream has been closed meanwhile."""
        with self._lock:
            if self._child is not child:
                return False
            self._line, self._received, self._failures = line, time.monotonic(), 0
            self._lines += 1
            self._changed.notify_all()
            return True

    def _wait_until_settled(self) -> None:
        end = time.monotonic() + _DEADLINE_SECONDS
        seen = -1
        while not self._settled:
            self._changed.wait_for(lambda: self._lines != seen or self._child is None, end - time.monotonic())
            if self._line is None and self._child is None:
                raise GtopError(self._reason())
            if self._line is not None:
                self._settled = self._parsed().is_settled()
            if self._child is None or time.monotonic() >= end:
                self._settled = True
            seen = self._lines
        if self._lines == 0:
            raise GtopError("gtop printed nothing for %d seconds" % _DEADLINE_SECONDS)

    def _parsed(self) -> View:
        if self._line is not None:
            try:
                self._view = View(json.loads(self._line.decode("utf-8")), self._received)
            except (KeyError, TypeError, ValueError) as error:
                raise GtopError("gtop printed what this file cannot read (%r): make it anew with "
                                "`gtop python > gtop_monitor.py`" % (error,)) from error
            self._line = None
        if self._view is None:
            raise GtopError(self._reason())
        return self._view

    def _reason(self) -> str:
        """Returns why gtop has ended: the end of what it printed to standard error."""
        said = ""
        if self._errors is not None:
            size = self._errors.seek(0, os.SEEK_END)
            self._errors.seek(max(0, size - 4096))
            said = self._errors.read().decode("utf-8", "replace").strip()
        return "gtop has ended: " + (said or "it printed nothing")


class Recording(Stream):
    """The snapshot of a moment in recordings of `gtop record`, in place of live nodes.

    `at` is what `gtop replay --at` takes, such as `14:30` or `-10m`; default: the end.
    """

    def __init__(self, *files: str, at: Optional[str] = None, path: Optional[str] = None) -> None:
        super().__init__(path=path)
        self._files = files
        self._at = at

    def is_current(self) -> bool:
        """Returns true: the moment is the one asked for."""
        return True

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Returns false: there is one snapshot."""
        return False

    def view(self) -> View:
        """Returns the snapshot. Raises GtopError if it cannot be read."""
        with self._lock:
            if self._view is None:
                words = ["replay", "--json"] + (["--at=" + self._at] if self._at else []) + ["--"] + list(self._files)
                done = subprocess.run([program(self._path)] + words, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
                if not done.stdout:
                    raise GtopError(done.stderr.decode("utf-8", "replace").strip())
                self._line, self._received = done.stdout, time.monotonic()
            return self._parsed()


_open_streams = []  # type: List[Stream]


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Ends gtop and what it has started: it leads a process group of its own, until it is waited for."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(2)


def _close_all() -> None:
    while _open_streams:
        _open_streams.pop().close()


atexit.register(_close_all)

_default = None  # type: Optional[Stream]


def connect(hosts: Iterable[str] = (), interval: float = 1.0, options: Iterable[str] = (),
            path: Optional[str] = None) -> Stream:
    """Watches these nodes from now on, in place of this machine; see Stream for the arguments."""
    return use(Stream(hosts, interval, options, path))


def use(stream: Stream) -> Stream:
    """Takes devices and processes from this stream or recording from now on."""
    global _default
    if _default is not None and _default is not stream:
        _default.close()
    _default = stream
    return stream


def stream() -> Stream:
    """Returns the stream in use: of this machine, unless `connect` or `use` has chosen another."""
    return _default if _default is not None else use(Stream())


_warned = set()  # type: Set[str]


def _warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=3)


class Source:
    """A device of a node, as the latest snapshot has it."""

    def __init__(self, origin: Stream, node: str, uuid: str) -> None:
        self._origin = origin
        self._node = node
        self._uuid = uuid
        # What threads have in a `oneshot` block.
        self._kept = {}  # type: Dict[int, Tuple[Optional[View], Row]]

    @property
    def node(self) -> str:
        """The name of its node."""
        return self._node

    def _latest(self) -> Tuple[Optional[View], Row]:
        """Returns the snapshot, and the row of the device in it; an empty row if the device is gone or stale.

        Never raises, so that a fault of gtop does not end a training: it warns once.
        """
        kept = self._kept.get(threading.get_ident()) if self._kept else None
        if kept is not None:
            return kept
        try:
            view = self._origin.view()
        except GtopError as error:
            _warn_once(str(error))
            return None, {}
        row = view.rows.get((self._node, self._uuid), {})
        is_usable = bool(row) and row["fresh"] and row["fault"] is None and self._origin.is_current()
        return view, row if is_usable else {}

    @contextlib.contextmanager
    def oneshot(self) -> Iterator[None]:
        """In the block, all values are of one sample, in this thread."""
        with keep(self._kept, self._latest):
            yield

    def value(self, key: str) -> Any:
        """Returns the value under a key of `gtop --json`, such as `sm_active_percent`; NA if it is unknown.

        All values of a device are unknown while its node does not answer, and after it was lost. `gtop fields` lists
        the keys with their units.
        """
        value = self._latest()[1].get(key)
        return NA if value is None else value

    def fault(self) -> Any:
        """Returns why no values are known, as text; NA if there is no fault."""
        view = self._latest()[0]
        if view is None:
            return "gtop does not run"
        node, row = view.nodes.get(self._node), view.rows.get((self._node, self._uuid))
        if not self._origin.is_current():
            return "gtop prints nothing"
        if row is not None and row["fault"] is not None:
            return str(row["fault"])
        if node is not None and node["fault"] is not None:
            return "%s: %s" % (node["fault"]["kind"], node["fault"]["remedy"])
        return "the device is gone" if row is None else NA if row["fresh"] else "stale"

    def process_rows(self) -> Optional[List[Row]]:
        """Returns the processes on the device, those on its slices too; None if they are unknown."""
        view, row = self._latest()
        rows = row.get("processes")
        if not rows and view is not None:
            of_parts = [dict(one, gpu_instance=part["gpu_instance"], compute_instance=part["compute_instance"])
                        for part in view.slices.get((self._node, self._uuid), ()) if part["fresh"]
                        for one in part["processes"] or ()]
            return of_parts or (None if rows is None else [])
        return None if rows is None else list(rows)

    def is_fresh(self) -> bool:
        """Returns true if the values of the device are current."""
        return bool(self._latest()[1])

    def timestamp(self) -> float:
        """Returns when the values were received, in seconds since 1970."""
        view = self._latest()[0]
        return time.time() - (time.monotonic() - view.received if view is not None else 0.0)


def whole(value: Any, factor: float = 1) -> MaybeInt:
    """Returns a number times `factor` as an int; NA stays NA."""
    return NA if value is NA else int(round(value * factor))


def share_percent(part: MaybeInt, total: MaybeInt) -> MaybeFloat:
    """Returns a part in percent of a total, with one decimal; NA if either is unknown or the total is 0."""
    return NA if isinstance(part, NaType) or isinstance(total, NaType) or not total else round(100 * part / total, 1)
