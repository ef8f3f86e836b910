"""Streams: what gtop prints of nodes, one snapshot per interval, and the rows of devices and processes in it."""

import atexit
import contextlib
import datetime
import json
import math
import os
import subprocess
import threading
import time
import warnings
from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from .server import Connection, GtopError, program
from .values import NA, MaybeFloat, MaybeInt, NaType, keep

SCHEMA = 2
# The values of a device count as unknown if gtop has printed nothing for so many intervals, and so many seconds.
_MISSED_INTERVALS = 3
_MISSED_SECONDS = 5.0
_RESTART_SECONDS = 5.0
# How long the first call waits until all nodes have answered or failed.
_DEADLINE_SECONDS = 20.0
# After so long without a first line, a gtop that another process has started counts as stuck.
_STUCK_SECONDS = 10.0

Row = Dict[str, Any]


class View:
    """One snapshot: the object of `gtop --json`, when it was received, and its rows by node and UUID."""

    def __init__(self, snapshot: Row, received: float) -> None:
        if snapshot.get("schema") != SCHEMA:
            raise GtopError("gtop prints schema %r, and this file reads schema %d: make it anew with "
                            "`gtop python > gtop_monitor.py`" % (snapshot.get("schema"), SCHEMA))
        self.snapshot = snapshot
        self.received = received
        self.at = _seconds(snapshot.get("at"))
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


def _seconds(at: Any) -> float:
    """Returns a time such as 2026-01-31T12:00:00.5Z in seconds since 1970; NaN if it is unknown."""
    if not isinstance(at, str):
        return math.nan
    whole_seconds, _, fraction = at.rstrip("Z").partition(".")
    moment = datetime.datetime.strptime(whole_seconds, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc)
    return moment.timestamp() + float("0." + (fraction or "0"))


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
    machine. `interval` is in seconds. All processes of this user on this machine with the same arguments share one
    gtop: the first to use it starts it, and it ends with the last of them, or of their calls of `close()`.

    A process that was forked connects anew when it uses the stream.
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
        self._connection = None  # type: Optional[Connection]
        self._ended = None  # type: Optional[Connection]
        self._reader = None  # type: Optional[threading.Thread]
        self._line = None  # type: Optional[bytes]
        self._lines = 0
        self._received = -math.inf
        self._view = None  # type: Optional[View]
        self._settled = False
        self._started = -math.inf
        self._failures = 0

    def _leave_to_parent(self) -> None:
        """Forgets, in a process that was forked, what is the parent's: the lock may be held by nobody who is here."""
        if self._connection is not None:
            self._connection.abandon()
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._forget()

    def view(self) -> View:
        """Returns the latest snapshot; the first call waits until all nodes have answered or failed.

        Raises GtopError if gtop cannot run or ends.
        """
        if self._owner != os.getpid():
            self._leave_to_parent()
        with self._lock:
            if self._connection is None:
                self._connect()
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
            self._changed.wait_for(lambda: self._lines != before or self._connection is None, timeout)
            return self._lines != before

    def close(self) -> None:
        """Ends the connection, and gtop if nobody else uses it. The stream starts again if it is used again."""
        if self._owner != os.getpid():
            return
        with self._lock:
            connection, reader = self._connection, self._reader
            self._forget()
        if connection is not None and reader is not None:
            connection.close()
            reader.join(2)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_why: object) -> None:
        self.close()

    def _connect(self, is_alone: bool = False) -> None:
        if self._failures and time.monotonic() - self._started < _RESTART_SECONDS and self._view is not None:
            return
        self._started = time.monotonic()
        words = ["--json", "--watch", "--feed", "--interval", repr(self.interval)]
        connection = self._connection = Connection([program(self._path)] + words + self._words, is_alone)
        if self not in _open_streams:
            _open_streams.append(self)
        self._reader = threading.Thread(target=self._read, args=(connection,), name="gtop stream", daemon=True)
        self._reader.start()

    def _read(self, connection: Connection) -> None:
        """Keeps the latest line: only what is asked for is parsed."""
        for line in connection.lines():
            if not self._keep(connection, line):
                break
        with self._lock:
            if self._connection is connection:
                self._connection, self._ended = None, connection
                self._failures += 1
                self._changed.notify_all()
        connection.release()

    def _keep(self, connection: Connection, line: bytes) -> bool:
        """Returns false if the stream has been closed meanwhile."""
        with self._lock:
            if self._connection is not connection:
                return False
            self._line, self._received, self._failures = line, time.monotonic(), 0
            self._lines += 1
            self._changed.notify_all()
            return True

    def _wait_until_settled(self) -> None:
        begun = time.monotonic()
        seen = -1
        while not self._settled:
            self._wait_for_line(seen, begun)
            if self._line is not None:
                self._settled = self._parsed().is_settled()
            if self._connection is None or time.monotonic() >= begun + _DEADLINE_SECONDS:
                self._settled = True
            seen = self._lines
        if self._lines == 0:
            raise GtopError("gtop printed nothing for %d seconds" % _DEADLINE_SECONDS)

    def _wait_for_line(self, seen: int, begun: float) -> None:
        """Waits for a line after those seen, or the deadline. Raises GtopError if gtop ends before its first one."""
        while self._lines in (0, seen) and time.monotonic() < begun + _DEADLINE_SECONDS:
            connection = self._connection
            if connection is None:
                if self._lines:
                    return
                if self._ended is None or self._ended.is_starter:
                    raise GtopError(self._reason())
                # It ended with the last of the others, while this process connected.
                self._connect()
                continue
            is_of_others = not self._lines and not connection.is_starter
            end = begun + (_STUCK_SECONDS if is_of_others else _DEADLINE_SECONDS)
            if is_of_others and time.monotonic() >= end:
                connection.close()
                self._connect(is_alone=True)
                continue
            self._changed.wait_for(
                lambda: self._lines not in (0, seen) or self._connection is not connection, end - time.monotonic())

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
        """Returns why gtop has ended."""
        return "gtop has ended" if self._ended is None else self._ended.reason()


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


def _close_all() -> None:
    while _open_streams:
        _open_streams.pop().close()


def _leave_all_to_parent() -> None:
    while _open_streams:
        _open_streams.pop()._leave_to_parent()


atexit.register(_close_all)
# Python 3.6 has none: there, the child closes what is the parent's when it uses a stream itself.
getattr(os, "register_at_fork", lambda **_calls: None)(after_in_child=_leave_all_to_parent)

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
