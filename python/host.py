"""Processes of this machine, as psutil names them, from /proc."""

import contextlib
import datetime
import os
import pwd
import re
import shlex
import signal
import threading
import time
import weakref
from typing import Any, Dict, Iterable, Iterator, List, MutableMapping, NamedTuple, Optional, Tuple

from .machine import _TICKS, Machine, _boot_time, _read, _uptime
from .values import Snapshot, keep, timedelta2human

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# By the letters of proc_pid_stat(5).
_STATES = {"R": "running", "S": "sleeping", "D": "disk-sleep", "T": "stopped", "t": "tracing-stop", "Z": "zombie",
           "X": "dead", "x": "dead", "K": "wake-kill", "W": "waking", "I": "idle", "P": "parked"}


class ProcessError(Exception):
    """A process cannot be looked at, or not be signalled."""

    def __init__(self, pid: int, text: str) -> None:
        super().__init__("%s (pid=%d)" % (text, pid))
        self.pid = pid


class NoSuchProcess(ProcessError):
    """The process has ended, or its pid belongs to another one by now."""

    def __init__(self, pid: int, text: str = "process no longer exists") -> None:
        super().__init__(pid, text)


class ZombieProcess(NoSuchProcess):
    """The process has ended, and its parent has not asked for the result."""


class AccessDenied(ProcessError):
    """The process belongs to another user."""

    def __init__(self, pid: int, text: str = "permission denied") -> None:
        super().__init__(pid, text)


class TimeoutExpired(ProcessError, TimeoutError):
    """The process still runs."""

    def __init__(self, pid: int, seconds: float) -> None:
        super().__init__(pid, "the process still runs after %r seconds" % seconds)


def command_join(words: List[str]) -> str:
    """Returns a command line as text that a shell reads as the same words."""
    if len(words) == 1:
        # A title that the process has set.
        return words[0]
    return " ".join(map(shlex.quote, words))


def _read_stat(pid: int) -> List[str]:
    """Returns the fields of /proc/PID/stat from the state on, the third field of proc_pid_stat(5)."""
    return _read("/proc/%d/stat" % pid).rpartition(b")")[2].decode("ascii").split()


def _state_name(letter: str) -> str:
    return _STATES.get(letter, letter)


Uids = NamedTuple("Uids", [("real", int), ("effective", int), ("saved", int)])
Gids = NamedTuple("Gids", [("real", int), ("effective", int), ("saved", int)])
ProcessMemory = NamedTuple("ProcessMemory", [
    ("rss", int), ("vms", int), ("shared", int), ("text", int), ("lib", int), ("data", int), ("dirty", int)])
FullProcessMemory = NamedTuple("FullProcessMemory", [
    ("rss", int), ("vms", int), ("shared", int), ("text", int), ("lib", int), ("data", int), ("dirty", int),
    ("uss", int), ("pss", int), ("swap", int)])
CpuTimes = NamedTuple("CpuTimes", [("user", float), ("system", float), ("children_user", float),
                                   ("children_system", float), ("iowait", float)])
IoCounters = NamedTuple("IoCounters", [
    ("read_count", int), ("write_count", int), ("read_bytes", int), ("write_bytes", int), ("read_chars", int),
    ("write_chars", int)])
ContextSwitches = NamedTuple("ContextSwitches", [("voluntary", int), ("involuntary", int)])
ThreadTimes = NamedTuple("ThreadTimes", [("id", int), ("user_time", float), ("system_time", float)])


class HostProcess:
    """A process of this machine; default: this one.

    It is known by its pid and its start time: all calls raise NoSuchProcess once the pid belongs to another process.
    They raise AccessDenied where the kernel does. As long as the process runs, there is one instance of it.
    """

    _instances = weakref.WeakValueDictionary()  # type: MutableMapping[Tuple[int, Optional[int]], HostProcess]
    _instances_lock = threading.RLock()

    def __new__(cls, pid: Optional[int] = None, start_ticks: Optional[int] = None) -> "HostProcess":
        number = os.getpid() if pid is None else int(pid)
        if start_ticks is None:
            with contextlib.suppress(OSError, IndexError, ValueError):
                start_ticks = int(_read_stat(number)[19])
        with cls._instances_lock:
            made = cls._instances.get((number, start_ticks)) if cls is HostProcess else None
            if made is None:
                made = object.__new__(cls)
                made._pid, made._ticks = number, start_ticks
                made._cpu = None
                made._kept = {}
                if cls is HostProcess:
                    cls._instances[number, start_ticks] = made
        return made

    _pid = 0
    _ticks = None  # type: Optional[int]
    _cpu = None  # type: Optional[Tuple[float, float]]
    # What threads have in a `oneshot` block.
    _kept = {}  # type: Dict[int, List[str]]

    def __init__(self, pid: Optional[int] = None, start_ticks: Optional[int] = None) -> None:
        """Everything is done by __new__, which also finds the instance that there is."""

    def __reduce__(self) -> Any:
        return HostProcess, (self._pid, self._ticks)

    @property
    def identity(self) -> Tuple[int, Optional[int]]:
        """The pid and the start time, in clock ticks since boot: no other process has both."""
        return self._pid, self._ticks

    @property
    def pid(self) -> int:
        """The pid."""
        return self._pid

    def _stat(self) -> List[str]:
        kept = self._kept.get(threading.get_ident()) if self._kept else None
        return self._look_up() if kept is None else kept

    def _look_up(self) -> List[str]:
        """Returns the fields of /proc/PID/stat now. Raises NoSuchProcess if the pid has another process."""
        with self._faults():
            fields = _read_stat(self._pid)
            if int(fields[19]) == self._ticks:
                return fields
        raise NoSuchProcess(self._pid)

    def _file(self, name: str) -> bytes:
        self._stat()
        with self._faults():
            return _read("/proc/%d/%s" % (self._pid, name))

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        """Turns errors of system calls into errors of processes."""
        try:
            yield
        except PermissionError as error:
            raise AccessDenied(self._pid) from error
        except (FileNotFoundError, ProcessLookupError, IndexError, ValueError) as error:
            raise NoSuchProcess(self._pid) from error

    def is_running(self) -> bool:
        """Returns true if the process exists, though perhaps as a zombie."""
        try:
            self._look_up()
        except ProcessError:
            return False
        return True

    def status(self) -> str:
        """Returns the state as psutil names it, such as running, sleeping, disk-sleep or zombie."""
        return _state_name(self._stat()[0])

    def name(self) -> str:
        """Returns the name of the program, whole if the kernel has cut it off."""
        short = self._file("comm").decode("utf-8", "surrogateescape").rstrip("\n")
        if len(short) >= 15:
            with contextlib.suppress(ProcessError):
                words = self.cmdline()
                whole = os.path.basename(words[0]) if words else ""
                return whole if whole.startswith(short) else short
        return short

    def exe(self) -> str:
        """Returns the path of the program."""
        return self._link("exe")

    def cwd(self) -> str:
        """Returns the working directory."""
        return self._link("cwd")

    def _link(self, name: str) -> str:
        self._stat()
        with self._faults():
            return os.readlink("/proc/%d/%s" % (self._pid, name))

    def cmdline(self) -> List[str]:
        """Returns the words of the command line; none of a kernel thread or a zombie."""
        text = self._file("cmdline").decode("utf-8", "surrogateescape").rstrip("\0")
        return text.split("\0") if text else []

    def command(self) -> str:
        """Returns the command line as one text."""
        return command_join(self.cmdline()) or self.name()

    def environ(self) -> Dict[str, str]:
        """Returns the variables that the process was started with."""
        words = self._file("environ").decode("utf-8", "surrogateescape").split("\0")
        return dict(word.split("=", 1) for word in words if "=" in word)

    def _status_ids(self, word: bytes) -> List[int]:
        found = re.search(rb"^" + word + rb":\s*(\d+)\s+(\d+)\s+(\d+)", self._file("status"), re.MULTILINE)
        if found is None:
            raise NoSuchProcess(self._pid)
        return [int(number) for number in found.groups()]

    def uids(self) -> Uids:
        """Returns the real, effective and saved user id."""
        return Uids(*self._status_ids(b"Uid"))

    def gids(self) -> Gids:
        """Returns the real, effective and saved group id."""
        return Gids(*self._status_ids(b"Gid"))

    def username(self) -> str:
        """Returns the owner's name, or user id if it has no name."""
        uid = self.uids().real
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return str(uid)

    def create_time(self) -> float:
        """Returns when the process started, in seconds since 1970."""
        return _boot_time() + int(self._stat()[19]) / _TICKS

    def running_time(self) -> datetime.timedelta:
        """Returns the time since the start."""
        return datetime.timedelta(seconds=self.running_time_in_seconds())

    def running_time_human(self) -> str:
        """Returns the time since the start as text."""
        return timedelta2human(self.running_time())

    def running_time_in_seconds(self) -> float:
        """Returns the seconds since the start."""
        return _uptime() - int(self._stat()[19]) / _TICKS

    def elapsed_time(self) -> datetime.timedelta:
        """Same as running_time."""
        return self.running_time()

    def elapsed_time_human(self) -> str:
        """Same as running_time_human."""
        return self.running_time_human()

    def elapsed_time_in_seconds(self) -> float:
        """Same as running_time_in_seconds."""
        return self.running_time_in_seconds()

    def cpu_times(self) -> CpuTimes:
        """Returns the CPU time used, and the time spent waiting for disks, in seconds."""
        fields = self._stat()
        return CpuTimes(*(int(field) / _TICKS for field in fields[11:15] + fields[39:40]))

    def cpu_percent(self, interval: Optional[float] = None) -> float:
        """Returns the CPU utilization since the call before, 0.0 at first, or over `interval` seconds; 100 is one core."""
        def now() -> Tuple[float, float]:
            used = self.cpu_times()
            return time.monotonic(), used.user + used.system

        if interval:
            self._cpu = now()
            time.sleep(interval)
        before, self._cpu = self._cpu, now()
        if before is None or self._cpu[0] <= before[0]:
            return 0.0
        return round(100 * (self._cpu[1] - before[1]) / (self._cpu[0] - before[0]), 1)

    def memory_info(self) -> ProcessMemory:
        """Returns resident, virtual, shared and other memory in bytes."""
        size, resident, shared, text, library, data, dirty = (
            int(pages) * _PAGE_BYTES for pages in self._file("statm").split()[:7])
        return ProcessMemory(resident, size, shared, text, library, data, dirty)

    def memory_full_info(self) -> FullProcessMemory:
        """Returns the memory, with what is its own, its share of what is shared, and what is swapped out, in bytes."""
        text = self._file("smaps_rollup")

        def total(name: bytes) -> int:
            return 1024 * sum(int(size) for size in re.findall(rb"^" + name + rb":\s*(\d+) kB", text, re.MULTILINE))

        return FullProcessMemory(*self.memory_info(), total(rb"Private_\w+"), total(b"Pss"), total(b"Swap"))

    def rss_memory(self) -> int:
        """Returns the resident memory in bytes."""
        return self.memory_info().rss

    def memory_percent(self, memtype: str = "rss") -> float:
        """Returns the memory of a kind of `memory_full_info`, default resident, in percent of this machine's."""
        info = self.memory_info() if memtype in ProcessMemory._fields else self.memory_full_info()
        if memtype not in info._fields:
            raise ValueError("no memory %r; there are: %s" % (memtype, ", ".join(FullProcessMemory._fields)))
        return float(getattr(info, memtype)) / host.virtual_memory().total * 100

    def io_counters(self) -> IoCounters:
        """Returns how often and how much was read and written, by disks in bytes, by system calls in characters."""
        found = dict(re.findall(rb"^(\w+): (\d+)", self._file("io"), re.MULTILINE))
        return IoCounters(*(int(found.get(name, 0)) for name in (
            b"syscr", b"syscw", b"read_bytes", b"write_bytes", b"rchar", b"wchar")))

    def num_fds(self) -> int:
        """Returns the number of open files."""
        self._stat()
        with self._faults():
            return len(os.listdir("/proc/%d/fd" % self._pid))

    def num_threads(self) -> int:
        """Returns the number of threads."""
        return int(self._stat()[17])

    def threads(self) -> List[ThreadTimes]:
        """Returns the threads, with the CPU time used by each, in seconds."""
        self._stat()
        found = []
        with self._faults():
            numbers = sorted(int(name) for name in os.listdir("/proc/%d/task" % self._pid))
        for number in numbers:
            # A thread may end meanwhile.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                text = _read("/proc/%d/task/%d/stat" % (self._pid, number))
                user, system = text.rpartition(b")")[2].split()[11:13]
                found.append(ThreadTimes(number, int(user) / _TICKS, int(system) / _TICKS))
        return found

    def cpu_affinity(self, cpus: Optional[Iterable[int]] = None) -> Optional[List[int]]:
        """Returns the processors on which it may run, or sets them; an empty list sets all."""
        self._look_up()
        with self._faults():
            if cpus is None:
                return sorted(os.sched_getaffinity(self._pid))
            os.sched_setaffinity(self._pid, set(cpus) or range(os.cpu_count() or 1))
            return None

    def cpu_num(self) -> int:
        """Returns the processor on which it ran last."""
        return int(self._stat()[36])

    def num_ctx_switches(self) -> ContextSwitches:
        """Returns how often it waited, and how often it had to make room."""
        found = re.findall(rb"^(?:non)?voluntary_ctxt_switches:\s*(\d+)", self._file("status"), re.MULTILINE)
        return ContextSwitches(*map(int, found))

    def nice(self, value: Optional[int] = None) -> Optional[int]:
        """Returns the nice value, or sets it."""
        if value is None:
            return int(self._stat()[16])
        self._look_up()
        with self._faults():
            os.setpriority(os.PRIO_PROCESS, self._pid, value)
        return None

    def terminal(self) -> Optional[str]:
        """Returns the path of its standard input if that is a terminal."""
        with contextlib.suppress(ProcessError):
            path = self._link("fd/0")
            return path if path.startswith(("/dev/pts/", "/dev/tty")) else None
        return None

    def ppid(self) -> int:
        """Returns the pid of the parent."""
        return int(self._stat()[1])

    def parent(self) -> "Optional[HostProcess]":
        """Returns the parent; None if it is outside this PID namespace."""
        ppid = self.ppid()
        parent = HostProcess(ppid) if ppid else None
        return parent if parent is not None and parent.is_running() else None

    def parents(self) -> "List[HostProcess]":
        """Returns the parent, its parent and so on."""
        found = []  # type: List[HostProcess]
        parent = self.parent()
        while parent is not None:
            found.append(parent)
            try:
                parent = parent.parent()
            except ProcessError:
                break
        return found

    def children(self, recursive: bool = False) -> "List[HostProcess]":
        """Returns the children, or all descendants."""
        self._stat()
        by_parent = host.reverse_ppid_map()
        pids = list(by_parent.get(self._pid, ()))
        if recursive:
            for pid in pids:
                pids.extend(by_parent.get(pid, ()))
        found = (HostProcess(pid) for pid in pids)
        return [process for process in found if process.is_running()]

    def send_signal(self, number: int) -> None:
        """Sends a signal, to this very process: never to one that has its pid by now."""
        open_process, send = getattr(os, "pidfd_open", None), getattr(signal, "pidfd_send_signal", None)
        if self._pid <= 0:
            raise NoSuchProcess(self._pid)
        with self._faults():
            if open_process is None or send is None:
                self._look_up()
                os.kill(self._pid, number)
                return
            try:
                handle = open_process(self._pid)
            except PermissionError:
                raise
            except OSError as error:
                if isinstance(error, ProcessLookupError):
                    raise
                # An older kernel, or a sandbox that refuses the call.
                self._look_up()
                os.kill(self._pid, number)
                return
            try:
                # From here on, the pid cannot be given to another process unnoticed.
                self._look_up()
                send(handle, number)
            finally:
                os.close(handle)

    def suspend(self) -> None:
        """Stops the process."""
        self.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets the process go on."""
        self.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """Asks the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until the process has ended. Raises TimeoutExpired after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.is_running() and self.status() != "zombie":
            if timeout is not None and end is not None and time.monotonic() >= end:
                raise TimeoutExpired(self._pid, timeout)
            time.sleep(0.02)

    @contextlib.contextmanager
    def oneshot(self) -> Iterator[None]:
        """In the block, the process is looked up once, in this thread."""
        with keep(self._kept, self._look_up):
            yield

    def as_dict(self, attrs: Optional[Iterable[str]] = None, ad_value: Any = None) -> Dict[str, Any]:
        """Returns the values of these methods, default those of psutil; `ad_value` where access is denied."""
        return _values_of(self, attrs or _DICT_VALUES, ad_value)

    def as_snapshot(self, attrs: Optional[Iterable[str]] = None, ad_value: Any = None) -> Snapshot:
        """Returns the same values as a snapshot, by default with those of nvitop."""
        return Snapshot(self, time.time(), **_values_of(self, attrs or _SNAPSHOT_VALUES, ad_value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostProcess) and (self._pid, self._ticks) == (other._pid, other._ticks)

    def __hash__(self) -> int:
        return hash((self._pid, self._ticks))

    def __repr__(self) -> str:
        try:
            started = datetime.datetime.fromtimestamp(self.create_time())
            form = "%H:%M:%S" if started.date() == datetime.date.today() else "%Y-%m-%d %H:%M:%S"
            words = "name=%r, status=%r, started=%r" % (self.name(), self.status(), started.strftime(form))
        except ProcessError:
            words = "status='terminated'"
        return "HostProcess(pid=%d, %s)" % (self._pid, words)


# Those of psutil that gtop reads, and those that nvitop adds.
_DICT_VALUES = (
    "cmdline", "cpu_affinity", "cpu_num", "cpu_percent", "cpu_times", "create_time", "cwd", "environ", "exe", "gids",
    "io_counters", "memory_full_info", "memory_info", "memory_percent", "name", "nice", "num_ctx_switches", "num_fds",
    "num_threads", "pid", "ppid", "status", "terminal", "threads", "uids", "username")
_SNAPSHOT_VALUES = _DICT_VALUES + (
    "command", "rss_memory", "running_time", "running_time_human", "running_time_in_seconds")


def _values_of(process: Any, names: Iterable[str], ad_value: Any) -> Dict[str, Any]:
    """Returns values by name; `ad_value` where access is denied, and for what a zombie no longer has."""
    if isinstance(names, str):
        raise TypeError("not a list of names: %r" % names)
    wanted = list(names)
    for name in wanted:
        if name not in _SNAPSHOT_VALUES:
            raise ValueError("no value %r; there are: %s" % (name, ", ".join(_SNAPSHOT_VALUES)))
    values = {}  # type: Dict[str, Any]
    with process.oneshot():
        for name in wanted:
            try:
                values[name] = process.pid if name == "pid" else getattr(process, name)()
            except AccessDenied:
                values[name] = ad_value
            except NoSuchProcess:
                if not process.is_running():
                    raise
                values[name] = ad_value
    return values


class host(Machine):  # pylint: disable=invalid-name
    """This machine: `host.cpu_percent()` and so on. Raises OSError where there is no /proc."""

    PsutilError = ProcessError
    NoSuchProcess = NoSuchProcess
    ZombieProcess = ZombieProcess
    AccessDenied = AccessDenied
    TimeoutExpired = TimeoutExpired
    Process = HostProcess
    @staticmethod
    def pids() -> List[int]:
        """Returns all pids."""
        return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())

    @staticmethod
    def pid_exists(pid: int) -> bool:
        """Returns true if a process has this pid."""
        return HostProcess(pid).is_running()

    @classmethod
    def process_iter(cls) -> Iterator[HostProcess]:
        """Yields all processes."""
        for pid in cls.pids():
            yield HostProcess(pid)

    @classmethod
    def ppid_map(cls) -> Dict[int, int]:
        """Returns the parent of each process, by pids."""
        found = {}
        for pid in cls.pids():
            with contextlib.suppress(OSError, IndexError, ValueError):
                found[pid] = int(_read_stat(pid)[1])
        return found

    @classmethod
    def reverse_ppid_map(cls) -> Dict[int, List[int]]:
        """Returns the children of each process, by pids."""
        found = {}  # type: Dict[int, List[int]]
        for pid, parent in cls.ppid_map().items():
            found.setdefault(parent, []).append(pid)
        return found
