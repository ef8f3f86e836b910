"""This machine: its processes, load and memory, as psutil names them, from /proc."""

import contextlib
import datetime
import getpass
import os
import platform
import pwd
import re
import shlex
import signal
import threading
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from .values import Snapshot, keep, timedelta2human

_TICKS = os.sysconf("SC_CLK_TCK")
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


def command_join(words: List[str]) -> str:
    """Returns a command line as text that a shell reads as the same words."""
    if len(words) == 1:
        # A title that the process has set.
        return words[0]
    return " ".join(map(shlex.quote, words))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _read_stat(pid: int) -> List[str]:
    """Returns the fields of /proc/PID/stat from the state on, the third field of proc_pid_stat(5)."""
    return _read("/proc/%d/stat" % pid).rpartition(b")")[2].decode("ascii").split()


def _boot_time() -> float:
    found = re.search(rb"^btime (\d+)", _read("/proc/stat"), re.MULTILINE)
    return float(found.group(1)) if found else time.time() - _uptime()


def _uptime() -> float:
    return float(_read("/proc/uptime").split()[0])


def _state_name(letter: str) -> str:
    return _STATES.get(letter, letter)


Uids = NamedTuple("Uids", [("real", int), ("effective", int), ("saved", int)])
Gids = NamedTuple("Gids", [("real", int), ("effective", int), ("saved", int)])
ProcessMemory = NamedTuple("ProcessMemory", [("rss", int), ("vms", int), ("shared", int)])
CpuTimes = NamedTuple("CpuTimes", [("user", float), ("system", float), ("children_user", float),
                                   ("children_system", float)])


class HostProcess:
    """A process of this machine; default: this one.

    It is known by its pid and its start time: all calls raise NoSuchProcess once the pid belongs to another process.
    They raise AccessDenied where the kernel does.
    """

    def __init__(self, pid: Optional[int] = None, start_ticks: Optional[int] = None) -> None:
        self._pid = os.getpid() if pid is None else int(pid)
        self._ticks = start_ticks
        self._cpu = None  # type: Optional[Tuple[float, float]]
        # What threads have in a `oneshot` block.
        self._kept = {}  # type: Dict[int, List[str]]
        if start_ticks is None:
            with contextlib.suppress(OSError, IndexError, ValueError):
                self._ticks = int(_read_stat(self._pid)[19])

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

    def cpu_times(self) -> CpuTimes:
        """Returns the CPU time used, in seconds."""
        return CpuTimes(*(int(field) / _TICKS for field in self._stat()[11:15]))

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
        """Returns resident, virtual and shared memory in bytes."""
        pages = self._file("statm").split()
        return ProcessMemory(*(int(pages[place]) * _PAGE_BYTES for place in (1, 0, 2)))

    def rss_memory(self) -> int:
        """Returns the resident memory in bytes."""
        return self.memory_info().rss

    def memory_percent(self) -> float:
        """Returns the resident memory in percent of this machine's."""
        return self.rss_memory() / host.virtual_memory().total * 100

    def num_threads(self) -> int:
        """Returns the number of threads."""
        return int(self._stat()[17])

    def nice(self) -> int:
        """Returns the nice value."""
        return int(self._stat()[16])

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
        """Waits until the process has ended. Raises TimeoutError after `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.is_running() and self.status() != "zombie":
            if end is not None and time.monotonic() >= end:
                raise TimeoutError("process %d still runs after %r seconds" % (self._pid, timeout))
            time.sleep(0.02)

    @contextlib.contextmanager
    def oneshot(self) -> Iterator[None]:
        """In the block, the process is looked up once, in this thread."""
        with keep(self._kept, self._look_up):
            yield

    def as_dict(self, attrs: Optional[List[str]] = None, ad_value: Any = None) -> Dict[str, Any]:
        """Returns the values of these methods, `ad_value` where access is denied."""
        values = {}  # type: Dict[str, Any]
        for name in attrs or _SNAPSHOT_OF_HOST:
            try:
                value = getattr(self, name)
                values[name] = value() if callable(value) else value
            except AccessDenied:
                values[name] = ad_value
        return values

    def as_snapshot(self, attrs: Optional[List[str]] = None, ad_value: Any = None) -> Snapshot:
        """Returns the values of these methods as a snapshot."""
        return Snapshot(self, time.time(), **self.as_dict(attrs, ad_value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostProcess) and (self._pid, self._ticks) == (other._pid, other._ticks)

    def __hash__(self) -> int:
        return hash((self._pid, self._ticks))

    def __repr__(self) -> str:
        try:
            words = "name=%r, status=%r" % (self.name(), self.status())
        except ProcessError:
            words = "status='terminated'"
        return "HostProcess(pid=%d, %s)" % (self._pid, words)


_SNAPSHOT_OF_HOST = ["pid", "name", "status", "username", "cmdline", "command", "cpu_percent", "memory_percent",
                     "rss_memory", "num_threads", "ppid", "create_time", "running_time", "running_time_human",
                     "running_time_in_seconds"]

VirtualMemory = NamedTuple("VirtualMemory", [
    ("total", int), ("available", int), ("percent", float), ("used", int), ("free", int), ("buffers", int),
    ("cached", int), ("shared", int)])
SwapMemory = NamedTuple("SwapMemory", [("total", int), ("used", int), ("free", int), ("percent", float)])


class host:  # pylint: disable=invalid-name
    """This machine: `host.cpu_percent()` and so on. Raises OSError where there is no /proc."""

    PsutilError = ProcessError
    NoSuchProcess = NoSuchProcess
    ZombieProcess = ZombieProcess
    AccessDenied = AccessDenied
    Process = HostProcess
    _cpu = None  # type: Optional[Tuple[int, int]]

    @classmethod
    def cpu_percent(cls, interval: Optional[float] = None) -> float:
        """Returns the utilization of all cores since the call before, 0.0 at first, or over `interval` seconds."""
        if interval:
            cls._cpu = cls._cpu_ticks()
            time.sleep(interval)
        before, cls._cpu = cls._cpu, cls._cpu_ticks()
        if before is None or cls._cpu[1] <= before[1]:
            return 0.0
        return round(100 * (cls._cpu[0] - before[0]) / (cls._cpu[1] - before[1]), 1)

    @staticmethod
    def _cpu_ticks() -> Tuple[int, int]:
        """Returns busy and all ticks, as proc_stat(5) counts them: guests are part of user, waiting for I/O is idle."""
        ticks = [int(field) for field in _read("/proc/stat").split(b"\n", 1)[0].split()[1:9]]
        return sum(ticks) - ticks[3] - ticks[4], sum(ticks)

    @staticmethod
    def cpu_count(logical: bool = True) -> Optional[int]:
        """Returns the number of logical processors, or of cores."""
        if logical:
            return os.cpu_count()
        cores = re.findall(rb"physical id\s*:\s*(\d+).*?core id\s*:\s*(\d+)", _read("/proc/cpuinfo"), re.DOTALL)
        return len(set(cores)) or None

    @staticmethod
    def _meminfo() -> Dict[str, int]:
        found = re.findall(r"^(\w+):\s+(\d+) kB", _read("/proc/meminfo").decode("ascii"), re.MULTILINE)
        return dict((name, int(size) * 1024) for name, size in found)

    @classmethod
    def virtual_memory(cls) -> VirtualMemory:
        """Returns the memory in bytes; used is what is not available."""
        sizes = cls._meminfo()
        total, free = sizes["MemTotal"], sizes["MemFree"]
        available = min(total, sizes.get("MemAvailable", free))
        used = total - available
        percent = round(100 * used / total, 1)
        cached = sizes.get("Cached", 0) + sizes.get("SReclaimable", 0)
        return VirtualMemory(total, available, percent, used, free, sizes.get("Buffers", 0), cached, sizes.get("Shmem", 0))

    @classmethod
    def swap_memory(cls) -> SwapMemory:
        """Returns the swap in bytes."""
        sizes = cls._meminfo()
        total, free = sizes.get("SwapTotal", 0), sizes.get("SwapFree", 0)
        return SwapMemory(total, total - free, free, round(100 * (total - free) / total, 1) if total else 0.0)

    @classmethod
    def memory_percent(cls) -> float:
        """Returns the share of memory that is not available, in percent."""
        return cls.virtual_memory().percent

    @classmethod
    def swap_percent(cls) -> float:
        """Returns the share of swap in use, in percent."""
        return cls.swap_memory().percent

    @staticmethod
    def load_average() -> Tuple[float, float, float]:
        """Returns the load averages over 1, 5 and 15 minutes."""
        return os.getloadavg()

    getloadavg = load_average

    @staticmethod
    def uptime() -> float:
        """Returns the seconds since boot."""
        return _uptime()

    @staticmethod
    def boot_time() -> float:
        """Returns when this machine was booted, in seconds since 1970."""
        return _boot_time()

    @staticmethod
    def hostname() -> str:
        """Returns the name of this machine."""
        return platform.node()

    @staticmethod
    def getuser() -> str:
        """Returns the name of this user, or the user id if it has no name."""
        try:
            return getpass.getuser()
        except (KeyError, ImportError, OSError):
            return str(os.getuid())

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
