"""Processes on devices."""

import contextlib
import datetime
import os
import shlex
import threading
import time
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, List, MutableMapping, Optional, Union

from .host import (
    _DICT_VALUES, _SNAPSHOT_VALUES, AccessDenied, HostProcess, NoSuchProcess, ProcessError, _state_name, _values_of)
from .stream import Row, Source, _seconds, share_percent, whole
from .values import NA, MaybeFloat, MaybeInt, MaybeText, Snapshot, bytes2human, timedelta2human


class RemoteProcess:
    """A process of another node, or in a recording: what the latest sample has of it.

    What the sample does not know, such as the CPU utilization of a process that has just started, is NA. Values that
    gtop does not sample raise AccessDenied, signals too: send those from gtop's screen.
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

    @property
    def identity(self) -> Any:
        """The node, the pid and the start time, in clock ticks since boot: no other process has all three."""
        return self.node, self.pid, self._row["start_ticks"]

    def _value(self, key: str, kind: Callable[[Any], Any]) -> Any:
        row = find_process(self._source, self._row)
        if row is None:
            raise NoSuchProcess(self.pid)
        self._row = row
        return NA if row.get(key) is None else kind(row[key])

    def is_running(self) -> bool:
        """Returns true if the latest sample has the process."""
        return find_process(self._source, self._row) is not None

    def status(self) -> MaybeText:
        """Returns the state as psutil names it, such as running, sleeping, disk-sleep or zombie."""
        return self._value("state", _state_name)  # type: ignore[no-any-return]

    def username(self) -> MaybeText:
        """Returns the owner's name."""
        return self._value("user", str)  # type: ignore[no-any-return]

    def name(self) -> MaybeText:
        """Returns the name of the program, from the command line."""
        if self.command() is NA:
            return NA
        words = self.cmdline()
        return words[0].rpartition("/")[2] if words else ""

    def command(self) -> MaybeText:
        """Returns the command line as gtop shows it."""
        return self._value("command", str)  # type: ignore[no-any-return]

    def cmdline(self) -> List[str]:
        """Returns the words of the command line, as far as its text tells them apart; the word NA if it is unknown."""
        command = self.command()
        if command is NA:
            return [command]
        try:
            return shlex.split(command)
        except ValueError:
            return command.split()

    def cwd(self) -> MaybeText:
        """Returns the working directory; known of your own processes."""
        return self._value("working_directory", str)  # type: ignore[no-any-return]

    def cpu_percent(self) -> MaybeFloat:
        """Returns the CPU utilization; 100 is one core."""
        return self._value("cpu_percent", float)  # type: ignore[no-any-return]

    def memory_percent(self) -> MaybeFloat:
        """Returns the resident memory in percent of the node's."""
        return self._value("resident_percent", float)  # type: ignore[no-any-return]

    def rss_memory(self) -> MaybeInt:
        """Returns the resident memory in bytes."""
        return self._value("resident_bytes", int)  # type: ignore[no-any-return]

    def num_threads(self) -> MaybeInt:
        """Returns the number of threads."""
        return self._value("threads", int)  # type: ignore[no-any-return]

    def ppid(self) -> MaybeInt:
        """Returns the pid of the parent."""
        return self._value("parent_pid", int)  # type: ignore[no-any-return]

    def running_time_in_seconds(self) -> MaybeFloat:
        """Returns the seconds since the start."""
        return self._value("running_seconds", float)  # type: ignore[no-any-return]

    def running_time(self) -> Any:
        """Returns the time since the start, as a timedelta."""
        return self._value("running_seconds", lambda seconds: datetime.timedelta(seconds=float(seconds)))

    def running_time_human(self) -> MaybeText:
        """Returns the time since the start as text."""
        return timedelta2human(self.running_time())

    elapsed_time = running_time
    elapsed_time_human = running_time_human
    elapsed_time_in_seconds = running_time_in_seconds

    def create_time(self) -> MaybeFloat:
        """Returns when the process started, in seconds since 1970, to a second."""
        return self._value("started_at", _seconds)  # type: ignore[no-any-return]

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

    def as_dict(self, attrs: Optional[Iterable[str]] = None, ad_value: Any = None) -> Dict[str, Any]:
        """Returns the values of these methods, default those of psutil; `ad_value` for what is not sampled."""
        return _values_of(self, attrs or _DICT_VALUES, ad_value)

    def as_snapshot(self, attrs: Optional[Iterable[str]] = None, ad_value: Any = None) -> Snapshot:
        """Returns the same values as a snapshot, by default with those of nvitop."""
        return Snapshot(self, time.time(), **_values_of(self, attrs or _SNAPSHOT_VALUES, ad_value))

    @contextlib.contextmanager
    def oneshot(self) -> Iterator[None]:
        """In the block, all values are of one sample, in this thread."""
        with self._source.oneshot():
            yield

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemoteProcess) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

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

    What it uses of the device is as of the sample it comes from; `update_gpu_status` and `Device.processes` take the
    latest one. What the host knows of it raises NoSuchProcess once it has ended, and AccessDenied where the kernel does;
    in a `with GpuProcess.failsafe()` such values are NA. As long as the process runs, there is one instance per device.
    """

    _instances = weakref.WeakValueDictionary()  # type: MutableMapping[Any, GpuProcess]
    _instances_lock = threading.RLock()

    _device = None  # type: Any
    _host = None  # type: Any
    _row = {}  # type: Row

    def __new__(cls, pid: Optional[int], device: Any, row: Optional[Row] = None) -> "GpuProcess":
        number = os.getpid() if pid is None else int(pid)
        host = None  # type: Union[HostProcess, RemoteProcess, None]
        if row is not None and not device.is_local():
            host = RemoteProcess(device, row)
        else:
            host = HostProcess(number, None if row is None else row["start_ticks"])
        key = (cls, host.identity, device, device._origin)
        with cls._instances_lock:
            made = cls._instances.get(key)
            if made is None:
                made = cls._instances[key] = object.__new__(cls)
                made._device, made._host = device, host
                made._row = {"pid": number, "start_ticks": host.identity[-1]}
                if row is None:
                    made.update_gpu_status()
            if row is not None:
                made._row = row
        return made

    def __init__(self, pid: Optional[int], device: Any, row: Optional[Row] = None) -> None:
        """Everything is done by __new__, which also finds the instance that there is."""

    @property
    def identity(self) -> Any:
        """What tells the process from all others, and the index of the device."""
        return tuple(self._host.identity) + (self._device.index,)

    @property
    def pid(self) -> int:
        """The pid."""
        return int(self._host.pid)

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

    def _ask_host(self, name: str, gone: Any = NA, denied: Any = NA) -> Any:
        """Returns a value of the host's process; with failsafe, one of these where the process is gone or hidden."""
        try:
            return getattr(self._host, name)()
        except ProcessError as error:
            if getattr(_fallback, "depth", 0):
                return gone if isinstance(error, NoSuchProcess) else denied
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

    def status(self) -> MaybeText:
        """Returns the state as psutil names it; with failsafe, terminated once it has ended."""
        return self._ask_host("status", "terminated")  # type: ignore[no-any-return]

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

    elapsed_time = running_time
    elapsed_time_human = running_time_human
    elapsed_time_in_seconds = running_time_in_seconds

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
        return list(self._ask_host("cmdline", ["No Such Process"], ["No Permissions"]))

    def command(self) -> MaybeText:
        """Returns the command line as text; with failsafe, why it is unknown."""
        return self._ask_host("command", "No Such Process", "No Permissions")  # type: ignore[no-any-return]

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
