"""This machine: load, memory, clocks and sensors, as psutil names them, from /proc and /sys."""

import contextlib
import getpass
import glob
import os
import platform
import re
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

_TICKS = os.sysconf("SC_CLK_TCK")

CpuSeconds = NamedTuple("CpuSeconds", [
    ("user", float), ("nice", float), ("system", float), ("idle", float), ("iowait", float), ("irq", float),
    ("softirq", float), ("steal", float), ("guest", float), ("guest_nice", float)])
CpuFrequency = NamedTuple("CpuFrequency", [("current", float), ("min", float), ("max", float)])
CpuStats = NamedTuple("CpuStats", [
    ("ctx_switches", int), ("interrupts", int), ("soft_interrupts", int), ("syscalls", int)])
VirtualMemory = NamedTuple("VirtualMemory", [
    ("total", int), ("available", int), ("percent", float), ("used", int), ("free", int), ("active", int),
    ("inactive", int), ("buffers", int), ("cached", int), ("shared", int), ("slab", int)])
SwapMemory = NamedTuple("SwapMemory", [
    ("total", int), ("used", int), ("free", int), ("percent", float), ("sin", int), ("sout", int)])
DiskUsage = NamedTuple("DiskUsage", [("total", int), ("used", int), ("free", int), ("percent", float)])
NetworkCounters = NamedTuple("NetworkCounters", [
    ("bytes_sent", int), ("bytes_recv", int), ("packets_sent", int), ("packets_recv", int), ("errin", int),
    ("errout", int), ("dropin", int), ("dropout", int)])
Temperature = NamedTuple("Temperature", [
    ("label", str), ("current", float), ("high", Optional[float]), ("critical", Optional[float])])
Fan = NamedTuple("Fan", [("label", str), ("current", int)])
Battery = NamedTuple("Battery", [("percent", float), ("secsleft", int), ("power_plugged", Optional[bool])])

POWER_TIME_UNKNOWN = -1
POWER_TIME_UNLIMITED = -2


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _read_word(path: str) -> Optional[str]:
    """Returns the text of a file of /sys; None if it cannot be read."""
    try:
        return _read(path).decode("utf-8", "replace").strip()
    except OSError:
        return None


def _read_number(path: str) -> Optional[float]:
    try:
        return float(_read_word(path) or "")
    except ValueError:
        return None


def _boot_time() -> float:
    found = re.search(rb"^btime (\d+)", _read("/proc/stat"), re.MULTILINE)
    return float(found.group(1)) if found else time.time() - _uptime()


def _uptime() -> float:
    return float(_read("/proc/uptime").split()[0])


def _cpu_seconds(line: bytes) -> CpuSeconds:
    return CpuSeconds(*([int(field) / _TICKS for field in line.split()[1:11]] + [0.0] * 10)[:10])


def _spent(before: CpuSeconds, after: CpuSeconds) -> Tuple[CpuSeconds, float]:
    """Returns the time between, and its sum: guests are part of user, so their time is not counted twice."""
    change = CpuSeconds(*(max(0.0, new - old) for old, new in zip(before, after)))
    return change, sum(change) - change.guest - change.guest_nice


def _busy_percent(before: CpuSeconds, after: CpuSeconds) -> float:
    change, total = _spent(before, after)
    return round(100 * (total - change.idle - change.iowait) / total, 1) if total > 0 else 0.0


def _shares_percent(before: CpuSeconds, after: CpuSeconds) -> CpuSeconds:
    change, total = _spent(before, after)
    return CpuSeconds(*(round(100 * part / total, 1) if total > 0 else 0.0 for part in change))


def _natural(path: str) -> List[int]:
    """Sorts cpu10 after cpu9."""
    return [int(number) for number in re.findall("[0-9]+", path)]


class Machine:
    """This machine. Raises OSError where there is no /proc."""

    # What the calls before returned, by thread and kind of call.
    _cpu = {}  # type: Dict[Any, List[CpuSeconds]]

    @staticmethod
    def cpu_times(percpu: bool = False) -> Any:
        """Returns the seconds since boot that all processors, or each of them, spent on what."""
        lines = [line for line in _read("/proc/stat").split(b"\n") if line.startswith(b"cpu")]
        each = [_cpu_seconds(line) for line in lines]
        return each[1:] if percpu else each[0]

    @classmethod
    def _cpu_change(cls, kind: str, interval: Optional[float], percpu: bool) -> List[Tuple[CpuSeconds, CpuSeconds]]:
        """Returns the times at the call before, or `interval` seconds ago, and those now."""
        def now() -> List[CpuSeconds]:
            return list(cls.cpu_times(True)) if percpu else [cls.cpu_times()]

        key = (threading.get_ident() if kind == "times" else None, kind, percpu)
        if interval:
            cls._cpu[key] = now()
            time.sleep(interval)
        after = now()
        before, cls._cpu[key] = cls._cpu.get(key, after), after
        return list(zip(before, after))

    @classmethod
    def cpu_percent(cls, interval: Optional[float] = None, percpu: bool = False) -> Any:
        """Returns the utilization of all cores, or of each, since the call before, 0.0 at first, or over `interval`."""
        found = [_busy_percent(*pair) for pair in cls._cpu_change("percent", interval, percpu)]
        return found if percpu else found[0]

    @classmethod
    def cpu_times_percent(cls, interval: Optional[float] = None, percpu: bool = False) -> Any:
        """Returns what processors spent their time on, in percent, since the call before or over `interval` seconds."""
        found = [_shares_percent(*pair) for pair in cls._cpu_change("times", interval, percpu)]
        return found if percpu else found[0]

    @staticmethod
    def cpu_count(logical: bool = True) -> Optional[int]:
        """Returns the number of logical processors, or of cores."""
        if logical:
            return os.cpu_count()
        cores = re.findall(rb"physical id\s*:\s*(\d+).*?core id\s*:\s*(\d+)", _read("/proc/cpuinfo"), re.DOTALL)
        return len(set(cores)) or None

    @staticmethod
    def cpu_stats() -> CpuStats:
        """Returns the context switches and interrupts since boot; system calls are not counted by Linux."""
        found = dict(re.findall(rb"^(ctxt|intr|softirq) (\d+)", _read("/proc/stat"), re.MULTILINE))
        switches, interrupts, soft = (int(found.get(name, 0)) for name in (b"ctxt", b"intr", b"softirq"))
        return CpuStats(switches, interrupts, soft, 0)

    @classmethod
    def cpu_freq(cls, percpu: bool = False) -> Any:
        """Returns the current, lowest and highest clock in MHz, the mean or of each processor; None if unknown.

        The limits are 0.0 where the kernel tells only the current clock.
        """
        each = cls._cpu_frequencies()
        if percpu:
            return each
        return CpuFrequency(*(sum(column) / len(each) for column in zip(*each))) if each else None

    @staticmethod
    def _cpu_frequencies() -> List[CpuFrequency]:
        now = [float(number) for number in re.findall(rb"^cpu MHz\s*:\s*([0-9.]+)", _read("/proc/cpuinfo"), re.MULTILINE)]
        folders = sorted(glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq"), key=_natural)
        if not folders:
            return [CpuFrequency(current, 0.0, 0.0) for current in now]
        found = []
        for place, folder in enumerate(folders):
            current, low, high = (_read_number("%s/scaling_%s_freq" % (folder, name)) or 0.0 for name in ("cur", "min", "max"))
            known = now[place] if len(now) == len(folders) else current / 1000
            found.append(CpuFrequency(known, low / 1000, high / 1000))
        return found

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
        active, inactive, buffers, shared, slab = (
            sizes.get(name, 0) for name in ("Active", "Inactive", "Buffers", "Shmem", "Slab"))
        return VirtualMemory(total, available, percent, used, free, active, inactive, buffers, cached, shared, slab)

    @classmethod
    def swap_memory(cls) -> SwapMemory:
        """Returns the swap in bytes, and how much was moved in and out since boot."""
        sizes = cls._meminfo()
        total, free = sizes.get("SwapTotal", 0), sizes.get("SwapFree", 0)
        percent = round(100 * (total - free) / total, 1) if total else 0.0
        moved = dict(re.findall(rb"^(pswpin|pswpout) (\d+)", _read("/proc/vmstat"), re.MULTILINE))
        # In pages of 4 KiB, whatever the size of a page is.
        into, out = (int(moved.get(name, 0)) * 4096 for name in (b"pswpin", b"pswpout"))
        return SwapMemory(total, total - free, free, percent, into, out)

    @classmethod
    def memory_percent(cls) -> float:
        """Returns the share of memory that is not available, in percent."""
        return cls.virtual_memory().percent

    @classmethod
    def swap_percent(cls) -> float:
        """Returns the share of swap in use, in percent."""
        return cls.swap_memory().percent

    @staticmethod
    def disk_usage(path: str) -> DiskUsage:
        """Returns the size of the file system of a path, and how much of it is used and free for this user, in bytes."""
        found = os.statvfs(path)
        total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
        used = total - found.f_bfree * found.f_frsize
        return DiskUsage(total, used, free, round(100 * used / (used + free), 1) if used + free else 0.0)

    @staticmethod
    def net_io_counters(pernic: bool = False) -> Any:
        """Returns what was sent and received since boot, over all interfaces or by interface."""
        found = {}
        for line in _read("/proc/net/dev").decode("utf-8", "replace").split("\n")[2:]:
            name, _, text = line.rpartition(":")
            fields = [int(field) for field in text.split()]
            if len(fields) >= 12:
                found[name.strip()] = NetworkCounters(*(fields[place] for place in (8, 0, 9, 1, 2, 10, 3, 11)))
        return found if pernic else NetworkCounters(*map(sum, zip(*found.values()))) if found else None

    @staticmethod
    def sensors_temperatures(fahrenheit: bool = False) -> Dict[str, List[Temperature]]:
        """Returns the temperatures of sensors by chip, in °C or °F."""
        found = {}  # type: Dict[str, List[Temperature]]
        chips = glob.glob("/sys/class/hwmon/hwmon*/temp*_*") + glob.glob("/sys/class/hwmon/hwmon*/device/temp*_*")
        for base in sorted(set(path.rpartition("_")[0] for path in chips)):
            name = _read_word(os.path.dirname(base) + "/name")
            current, high, critical = (_read_number(base + end) for end in ("_input", "_max", "_crit"))
            if name is not None and current is not None:
                found.setdefault(name, []).append(_temperature(_read_word(base + "_label") or "", current, high, critical))
        for zone in sorted(glob.glob("/sys/class/thermal/thermal_zone*")) if not chips else ():
            name, current = _read_word(zone + "/type"), _read_number(zone + "/temp")
            if name is not None and current is not None:
                limits = [_trip_point(zone, kind) for kind in ("high", "critical")]
                found.setdefault(name, []).append(_temperature("", current, *limits))
        if fahrenheit:
            return dict((name, [Temperature(one.label, *map(_fahrenheit, one[1:])) for one in chip])  # type: ignore[arg-type]
                        for name, chip in found.items())
        return found

    @staticmethod
    def sensors_fans() -> Dict[str, List[Fan]]:
        """Returns the speeds of fans by chip, in turns per minute."""
        found = {}  # type: Dict[str, List[Fan]]
        paths = glob.glob("/sys/class/hwmon/hwmon*/fan*_*") or glob.glob("/sys/class/hwmon/hwmon*/device/fan*_*")
        for base in sorted(set(path.rpartition("_")[0] for path in paths)):
            name, current = _read_word(os.path.dirname(base) + "/name"), _read_number(base + "_input")
            if name is not None and current is not None:
                found.setdefault(name, []).append(Fan(_read_word(base + "_label") or "", int(current)))
        return found

    @staticmethod
    def sensors_battery() -> Optional[Battery]:
        """Returns the charge of the first battery, its seconds left, and whether power is plugged in; None without one."""
        supplies = sorted(glob.glob("/sys/class/power_supply/*"))
        batteries = [path for path in supplies if os.path.basename(path).startswith("BAT") or "battery" in path.lower()]
        if not batteries:
            return None
        first = batteries[0]
        now, full, power = (_first_number(first, names) for names in (
            ("energy_now", "charge_now"), ("energy_full", "charge_full"), ("power_now", "current_now")))
        percent = 100.0 * now / full if now is not None and full else _read_number(first + "/capacity")
        if percent is None:
            return None
        status = (_read_word(first + "/status") or "").lower()
        mains = [_read_number(path + "/online") for path in supplies if os.path.basename(path) in ("AC0", "AC")]
        plugged = mains[0] == 1 if mains and mains[0] is not None else {
            "discharging": False, "charging": True, "full": True}.get(status)
        left = POWER_TIME_UNLIMITED if plugged else POWER_TIME_UNKNOWN
        if not plugged and now is not None and power:
            left = int(now / power * 3600)
        return Battery(percent, left, plugged)

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


def _temperature(label: str, *thousandths: Optional[float]) -> Temperature:
    current, high, critical = (None if one is None else one / 1000 for one in thousandths)
    # A limit that is not given is the other one.
    return Temperature(label, current or 0.0, critical if high is None else high, high if critical is None else critical)


def _fahrenheit(celsius: Optional[float]) -> Optional[float]:
    return None if celsius is None else celsius * 9 / 5 + 32


def _trip_point(zone: str, kind: str) -> Optional[float]:
    for path in sorted(glob.glob(zone + "/trip_point_*_type")):
        if _read_word(path) == kind:
            return _read_number(path[:-len("type")] + "temp")
    return None


def _first_number(folder: str, names: Tuple[str, ...]) -> Optional[float]:
    numbers = (_read_number("%s/%s" % (folder, name)) for name in names)
    return next((number for number in numbers if number is not None), None)
