"""Processes on devices."""

import contextlib
import datetime
import shlex
import threading
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Union

from .host import AccessDenied, HostProcess, NoSuchProcess, ProcessError, _state_name
from .stream import Row, Source, share_percent, whole
from .values import NA, MaybeFloat, MaybeInt, MaybeText, Snapshot, bytes2human, timedelta2human


class RemoteProcess:
    """A process of another node, or in a recording: what the latest sample has of it.

    Values that gtop does not sample raise AccessDenied, signals too: send those from gtop's screen.
    """

    def __init__(self, source: Source, row: Row) -> None:
        self._source = source
        self._row = row

    @property
    def pid(self) -> int:
        """The pid on its node."""
        return int(self._row["pid"])

    @property
    def node(self) -> str:
        """The name of the node."""
        return self._source.node

    def _value(self, key: str) -> Any:
        row = find_process(self._source, self._row)
        if row is None:
            raise NoSuchProcess(self.pid)
        self._row = row
        if row.get(key) is None:
            raise AccessDenied(self.pid, "%s of a process on %s is %s" % (
                key, self.node, row["unknown"].get(key, "not sampled")))
        return row[key]

    def is_running(self) -> bool:
        """Returns true if the latest sample has the process."""
        return find_process(self._source, self._row) is not None

    def status(self) -> str:
        """Returns the state as psutil names it, such as running, sleeping, disk-sleep or zombie."""
        return _state_name(self._value("state"))

    def username(self) -> str:
        """Returns the owner's name."""
        return str(self._value("user"))

    def name(self) -> str:
        """Returns the name of the program, from the command line."""
        words = self.cmdline()
        return words[0].rpartition("/")[2] if words else ""

    def command(self) -> str:
        """Returns the command line as gtop shows it."""
        return str(self._value("command"))

    def cmdline(self) -> List[str]:
        """Returns the words of the command line, as far as its text tells them apart."""
        try:
            return shlex.split(self.command())
        except ValueError:
            return self.command().split()

    def cwd(self) -> str:
        """Returns the working directory; known of your own processes."""
        return str(self._value("working_directory"))

    def cpu_percent(self) -> float:
        """Returns the CPU utilization; 100 is one core."""
        return float(self._value("cpu_percent"))

    def memory_percent(self) -> float:
        """Returns the resident memory in percent of the node's."""
        return float(self._value("resident_percent"))

    def rss_memory(self) -> int:
        """Returns the resident memory in bytes."""
        return int(self._value("resident_bytes"))

    def num_threads(self) -> int:
        """Returns the number of threads."""
        return int(self._value("threads"))

    def ppid(self) -> int:
        """Returns the pid of the parent."""
        return int(self._value("parent_pid"))

    def running_time_in_seconds(self) -> float:
        """Returns the seconds since the start."""
        return float(self._value("running_seconds"))

    def running_time(self) -> datetime.timedelta:
        """Returns the time since the start."""
        return datetime.timedelta(seconds=self.running_time_in_seconds())

    def running_time_human(self) -> str:
        """Returns the time since the start as text."""
        return timedelta2human(self.running_time())

    def create_time(self) -> float:
        """Returns when the process started, in seconds since 1970, to a second."""
        started = datetime.datetime.strptime(self._value("started_at"), "%Y-%m-%dT%H:%M:%SZ")
        return started.replace(tzinfo=datetime.timezone.utc).timestamp()

    def send_signal(self, number: int) -> None:
        """Raises AccessDenied."""
        raise AccessDenied(self.pid, "the process is on %s: send signal %d from the screen of gtop" % (self.node, number))

    def __getattr__(self, name: str) -> Any:
        if name in ("kill", "terminate", "suspend", "resume"):
            return lambda: self.send_signal({"kill": 9, "terminate": 15, "suspend": 19, "resume": 18}[name])
        if not hasattr(HostProcess, name) or name.startswith("_"):
            raise AttributeError(name)

        def refuse(*_words: Any, **_options: Any) -> Any:
            raise AccessDenied(self.pid, "%s of a process on %s is not sampled" % (name, self.node))

        return refuse

    @contextlib.contextmanager
    def oneshot(self) -> Iterator[None]:
        """In the block, all values are of one sample, in this thread."""
        with self._source.oneshot():
            yield

    def _identity(self) -> Any:
        return self.node, self.pid, self._row["start_ticks"]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteProcess) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return "RemoteProcess(pid=%d, node=%r)" % (self.pid, self.node)


def find_process(source: Source, row: Row) -> Optional[Row]:
    """Returns the row of the same process in the latest sample of the device."""
    for one in source.process_rows() or ():
        if (one["pid"], one["start_ticks"]) == (row["pid"], row["start_ticks"]):
            return dict(one)
    return None


_fallback = threading.local()

HOST_VALUES = ("is_running", "status", "username", "name", "cmdline", "command", "cpu_percent", "memory_percent",
               "host_memory", "host_memory_human", "running_time", "running_time_human", "running_time_in_seconds")
GPU_VALUES = ("gpu_instance_id", "compute_instance_id", "gpu_memory", "gpu_memory_human", "gpu_memory_percent",
              "gpu_sm_utilization", "gpu_memory_utilization", "gpu_encoder_utilization", "gpu_decoder_utilization")


class GpuProcess:
    """A process on a device.

    What it uses of the device is as of the sample it comes from; `update_gpu_status` takes the latest one. What the
    host knows of it raises NoSuchProcess once it has ended, and AccessDenied where the kernel does; in a `with
    GpuProcess.failsafe()` such values are NA.
    """

    def __init__(self, pid: Optional[int], device: Any, row: Optional[Row] = None) -> None:
        self._device = device
        self._host = HostProcess(pid)  # type: Union[HostProcess, RemoteProcess]
        self._row = {"pid": self._host.pid, "start_ticks": self._host._ticks}  # type: Row
        if row is not None:
            self._row = row
            self._host = HostProcess(pid, row["start_ticks"]) if device.is_local() else RemoteProcess(device, row)
        else:
            self.update_gpu_status()

    @property
    def pid(self) -> int:
        """The pid."""
        return self._host.pid

    @property
    def host(self) -> Any:
        """The process as the host knows it: a HostProcess on this machine, else a RemoteProcess."""
        return self._host

    @property
    def device(self) -> Any:
        """The device."""
        return self._device

    @property
    def type(self) -> MaybeText:
        """C for compute, G for graphics, C+G for both."""
        kind = self._value("kind")
        return NA if kind is NA else str(kind)

    def _value(self, key: str) -> Any:
        value = self._row.get(key)
        return NA if value is None else value

    def update_gpu_status(self) -> MaybeInt:
        """Takes the latest sample; returns the device memory used in bytes, NA once the process is gone."""
        row = find_process(self._device, self._row)
        self._row = {"pid": self._row["pid"], "start_ticks": self._row["start_ticks"]} if row is None else row
        return self.gpu_memory()

    def gpu_instance_id(self) -> MaybeInt:
        """Returns the GPU instance id of its MIG slice."""
        return whole(self._row.get("gpu_instance", self._device.value("gpu_instance")))

    def compute_instance_id(self) -> MaybeInt:
        """Returns the compute instance id of its MIG slice."""
        return whole(self._row.get("compute_instance", self._device.value("compute_instance")))

    def gpu_memory(self) -> MaybeInt:
        """Returns the device memory used, in bytes."""
        return whole(self._value("memory_used_bytes"))

    def gpu_memory_human(self) -> MaybeText:
        """Returns the device memory used, as text."""
        return bytes2human(self.gpu_memory())

    def gpu_memory_percent(self) -> MaybeFloat:
        """Returns the share of the device's memory, in percent."""
        used, total = self.gpu_memory(), self._device.memory_total()
        return share_percent(used, total)

    def gpu_sm_utilization(self) -> MaybeInt:
        """Returns the SM utilization in percent."""
        return whole(self._value("sm_percent"))

    def gpu_memory_utilization(self) -> MaybeInt:
        """Returns the memory bandwidth utilization in percent."""
        return whole(self._value("memory_utilization_percent"))

    def gpu_encoder_utilization(self) -> MaybeInt:
        """Returns the utilization of the video encoder in percent."""
        return whole(self._value("encoder_percent"))

    def gpu_decoder_utilization(self) -> MaybeInt:
        """Returns the utilization of the video decoder in percent."""
        return whole(self._value("decoder_percent"))

    def _ask_host(self, name: str, fallback: Any = NA) -> Any:
        try:
            return getattr(self._host, name)()
        except ProcessError as error:
            if getattr(_fallback, "depth", 0):
                return fallback if isinstance(error, NoSuchProcess) else NA
            raise

    def _number(self, name: str) -> MaybeFloat:
        value = self._ask_host(name)
        return NA if value is NA else float(value)

    def _text(self, name: str) -> MaybeText:
        value = self._ask_host(name)
        return NA if value is NA else str(value)

    def is_running(self) -> bool:
        """Returns true if the process exists."""
        return bool(self._host.is_running())

    def status(self) -> str:
        """Returns the state as psutil names it; with failsafe, terminated once it has ended."""
        return str(self._ask_host("status", "terminated"))

    def create_time(self) -> MaybeFloat:
        """Returns when the process started, in seconds since 1970."""
        return self._number("create_time")

    def running_time(self) -> Any:
        """Returns the time since the start, as a timedelta."""
        return self._ask_host("running_time")

    def running_time_human(self) -> MaybeText:
        """Returns the time since the start as text."""
        return timedelta2human(self.running_time())

    def running_time_in_seconds(self) -> MaybeFloat:
        """Returns the seconds since the start."""
        return self._number("running_time_in_seconds")

    def username(self) -> MaybeText:
        """Returns the owner's name."""
        return self._text("username")

    def name(self) -> MaybeText:
        """Returns the name of the program."""
        return self._text("name")

    def cpu_percent(self) -> MaybeFloat:
        """Returns the CPU utilization by the latest sample; 100 is one core."""
        row = find_process(self._device, self._row)
        if row is None or row["cpu_percent"] is None:
            return self._number("cpu_percent")
        return float(row["cpu_percent"])

    def memory_percent(self) -> MaybeFloat:
        """Returns the resident memory in percent of the node's."""
        return self._number("memory_percent")

    host_memory_percent = memory_percent

    def host_memory(self) -> MaybeInt:
        """Returns the resident memory in bytes."""
        return whole(self._ask_host("rss_memory"))

    rss_memory = host_memory

    def host_memory_human(self) -> MaybeText:
        """Returns the resident memory as text."""
        return bytes2human(self.host_memory())

    def cmdline(self) -> List[str]:
        """Returns the words of the command line; with failsafe, one that says why they are unknown."""
        words = self._ask_host("cmdline", ["No Such Process"])
        return ["No Permissions"] if words is NA else list(words)

    def command(self) -> str:
        """Returns the command line as text; with failsafe, why it is unknown."""
        text = self._ask_host("command", "No Such Process")
        return "No Permissions" if text is NA else str(text)

    def __getattr__(self, name: str) -> Any:
        # kill, cwd, uids and so on: whatever the host's process has.
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._host, name)
        if not callable(found):
            return found

        def call(*words: Any, **options: Any) -> Any:
            try:
                return found(*words, **options)
            except ProcessError:
                if getattr(_fallback, "depth", 0):
                    return NA
                raise

        return call

    def host_snapshot(self) -> Snapshot:
        """Returns what the host knows of the process."""
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(ProcessError):
                stack.enter_context(self._host.oneshot())
            values = dict((name, getattr(self, name)()) for name in HOST_VALUES)
        return Snapshot(self._host, time.time(), **values)

    def as_snapshot(self, host_process_snapshot_cache: Optional[Dict[int, Snapshot]] = None) -> Snapshot:
        """Returns all values of the process, of its host's view too; the cache is by pid, for processes of one node."""
        cache = {} if host_process_snapshot_cache is None else host_process_snapshot_cache
        of_host = cache.get(self.pid) or cache.setdefault(self.pid, self.host_snapshot())
        values = dict((name, getattr(of_host, name)) for name in HOST_VALUES)
        values.update((name, getattr(self, name)()) for name in GPU_VALUES)
        return Snapshot(self, of_host.timestamp, pid=self.pid, host=of_host, device=self._device, type=self.type,
                        host_memory_percent=of_host.memory_percent, **values)

    @classmethod
    def take_snapshots(cls, gpu_processes: "Iterable[GpuProcess]", *, failsafe: bool = False) -> List[Snapshot]:
        """Returns a snapshot of each process."""
        caches = {}  # type: Dict[str, Dict[int, Snapshot]]
        guard = cls.failsafe if failsafe else _no_guard  # type: Callable[[], Any]
        with guard():
            return [one.as_snapshot(caches.setdefault(one.device.node, {})) for one in gpu_processes]

    @classmethod
    @contextlib.contextmanager
    def failsafe(cls) -> Iterator[None]:
        """In the block, values of processes that have ended or are hidden are NA; outside, they raise."""
        _fallback.depth = getattr(_fallback, "depth", 0) + 1
        try:
            yield
        finally:
            _fallback.depth -= 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GpuProcess) and (self._host, self._device) == (other._host, other._device)

    def __hash__(self) -> int:
        return hash((self._host, self._device))

    def __repr__(self) -> str:
        return "GpuProcess(pid=%d, gpu_memory=%s, type=%s, device=%r, host=%r)" % (
            self.pid, self.gpu_memory_human(), self.type, self._device, self._host)


@contextlib.contextmanager
def _no_guard() -> Iterator[None]:
    yield
